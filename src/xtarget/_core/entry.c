/* What serves the calls of one layout, or of a class: from what Python offers. */
#include "entry.h"

#include <stdlib.h>
#include <string.h>

void entry_drop(void *pointer) {
  struct entry *entry = pointer;
  if (--entry->references) return;
  Py_XDECREF(entry->kept);
  Py_XDECREF(entry->direct);
  Py_XDECREF(entry->synchronize);
  Py_XDECREF(entry->checks);
  Py_XDECREF(entry->current);
  Py_XDECREF(entry->pointed);
  Py_XDECREF(entry->default_stream);
  Py_XDECREF(entry->new_output);
  Py_XDECREF(entry->output_type);
  if (entry->native) {
    Py_XDECREF(entry->native->module);
    Py_XDECREF(entry->native->code);
  }
  free(entry->native);
  sizing_drop(entry->sizing);
  free(entry->chosen_by);
  free(entry);
}

/* --------------------------------------------------------------------------------- making one */

static int read_overlaps(struct entry *entry, PyObject *overlaps) {
  Py_ssize_t count = PyTuple_Size(overlaps);
  if (count < 0 || count > MOST_OVERLAPS) return 0;
  for (Py_ssize_t i = 0; i < count; i++) {
    struct overlap *one = &entry->overlaps[i];
    long long low, high;
    if (!PyArg_ParseTuple(PyTuple_GetItem(overlaps, i), "iLLp", &one->index, &low, &high,
                          &one->in_place))
      return 0;
    one->low = low;
    one->high = high;
  }
  entry->overlap_count = (int)count;
  return 1;
}

static struct native *native_new(PyObject *offered) {
  struct native *native = calloc(1, sizeof *native);
  if (!native) return NULL;
  struct xt_launch *launch = &native->launch;
  unsigned long long start, function, current, context;
  PyObject *parameters, *module, *code;
  if (!PyArg_ParseTuple(offered, "KKKK(III)(III)IIO!OOii", &start, &function, &current, &context,
                        &launch->grid[0], &launch->grid[1], &launch->grid[2], &launch->block[0],
                        &launch->block[1], &launch->block[2], &launch->shared_bytes,
                        &launch->buffer_bytes, &PyTuple_Type, &parameters, &module, &code, &native->device_type, &native->device_id))
    goto wrong;
  launch->entry = (xt_launch_entry)(uintptr_t)start;
  launch->function = (void *)(uintptr_t)function;
  launch->current_context = (xt_context_entry)(uintptr_t)current;
  launch->context = (void *)(uintptr_t)context;
  Py_ssize_t count = PyTuple_Size(parameters);
  if (count > XT_MOST_PARAMETERS || launch->buffer_bytes > sizeof(uint64_t) * XT_MOST_PARAMETERS)
    goto wrong;
  for (Py_ssize_t i = 0; i < count; i++) {
    struct xt_parameter *parameter = &launch->parameters[i];
    int passed;
    unsigned long long constant;
    if (!PyArg_ParseTuple(PyTuple_GetItem(parameters, i), "iiKHH", &passed, &parameter->from,
                          &constant, &parameter->offset, &parameter->size) ||
        parameter->size > sizeof constant ||
        (launch->buffer_bytes &&
         (unsigned)parameter->offset + parameter->size > launch->buffer_bytes))
      goto wrong;
    parameter->passed = (enum xt_passed)passed;
    parameter->constant = constant;
    if (passed != XT_PASS_SIZE && parameter->from >= XT_MOST_VALUES) goto wrong;
  }
  launch->parameter_count = (int)count;
  native->module = Py_NewRef(module);
  native->code = Py_NewRef(code);
  return native;
wrong:
  free(native);
  return NULL;
}

static int fill(struct entry *entry, PyObject *offered) {
  PyObject *direct, *synchronize, *chosen_by, *checks, *overlaps, *current, *stream, *make, *type;
  PyObject *pointed, *native;
  int consents, written, where;
  if (!PyArg_ParseTuple(offered, "OOOO!piO!iOOOOOO", &direct, &synchronize, &chosen_by,
                        &PyTuple_Type, &checks, &consents, &written, &PyTuple_Type, &overlaps,
                        &where, &current, &pointed, &stream, &make, &type,
                        &native))
    return 0;
  entry->direct = Py_NewRef(direct);
  entry->synchronize = Py_NewRef(synchronize);
  entry->checks = Py_NewRef(checks);
  entry->current = Py_NewRef(current);
  entry->pointed = Py_NewRef(pointed);
  entry->default_stream = Py_NewRef(stream);
  entry->new_output = Py_NewRef(make);
  entry->output_type = Py_NewRef(type);
  entry->consents = consents;
  entry->written = (enum written)written;
  entry->where = (enum where)where;
  entry->chosen = synchronize != Py_None && !entry->has_device;
  if (entry->chosen && chosen_by != Py_None) {
    char *text = PyBytes_AsString(chosen_by);
    if (!text || !(entry->chosen_by = strdup(text))) return 0;
  }
  if (!read_overlaps(entry, overlaps)) return 0;
  if (native == Py_None) return 1;
  entry->native = native_new(native);
  return entry->native != NULL;
}

struct entry *entry_new(const struct reading *reading, PyObject *offered) {
  struct entry *entry = calloc(1, sizeof *entry);
  if (!entry) return NULL;
  entry->references = 1;
  entry->has_device = reading->device != NULL;
  entry->kept = PyTuple_New(reading->kept_count);
  if (!entry->kept) goto wrong;
  for (int i = 0; i < reading->kept_count; i++)
    PyTuple_SetItem(entry->kept, i, Py_NewRef(reading->kept[i]));
  if (offered == Py_None) {
    entry->declines = 1;
    return entry;
  }
  if (fill(entry, offered)) return entry;
wrong:
  entry_drop(entry);
  return NULL;
}
