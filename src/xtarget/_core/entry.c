/* What serves the calls of one layout, or of a class: from what Python offers. */
#include "entry.h"

#include <stdlib.h>
#include <string.h>

void entry_drop(void *pointer) {
  struct entry *entry = pointer;
  if (--entry->references) return;
  Py_XDECREF(entry->kept);
  Py_XDECREF(entry->again);
  Py_XDECREF(entry->direct);
  Py_XDECREF(entry->synchronize);
  Py_XDECREF(entry->checks);
  Py_XDECREF(entry->current);
  Py_XDECREF(entry->pointed);
  Py_XDECREF(entry->ordered);
  Py_XDECREF(entry->default_stream);
  for (int i = 0; i < entry->output_count; i++) {
    Py_XDECREF(entry->outputs[i].make);
    Py_XDECREF(entry->outputs[i].type);
  }
  for (int i = 0; i < entry->overlap_count; i++) Py_XDECREF(entry->overlaps[i].shares);
  native_drop(entry->native);
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
    PyObject *shares;
    if (!PyArg_ParseTuple(PyTuple_GetItem(overlaps, i), "iiLLpO", &one->index, &one->other, &low,
                          &high, &one->in_place, &shares) ||
        one->index < 0 || one->index >= XT_MOST_VALUES || one->other < 0 ||
        one->other >= XT_MOST_VALUES)
      return 0;
    one->low = low;
    one->high = high;
    one->shares = shares == Py_None ? NULL : Py_NewRef(shares);
    entry->overlap_count++;
  }
  return 1;
}

static int read_writes(struct entry *entry, PyObject *writes) {
  Py_ssize_t count = PyTuple_Size(writes);
  if (count < 0 || count > XT_MOST_VALUES) return 0;
  for (Py_ssize_t i = 0; i < count; i++) {
    struct write *one = &entry->writes[i];
    int written;
    if (!PyArg_ParseTuple(PyTuple_GetItem(writes, i), "ii", &one->index, &written) ||
        one->index < 0 || one->index >= XT_MOST_VALUES)
      return 0;
    one->written = (enum written)written;
  }
  entry->write_count = (int)count;
  return 1;
}

/* What makes a result, and what torch makes one of: a place and, of one layout, a shape. */
static int read_output(struct output *output, PyObject *offered) {
  PyObject *make, *type, *natively, *place, *shape;
  if (!PyArg_ParseTuple(offered, "OOO", &make, &type, &natively)) return 0;
  output->make = Py_NewRef(make);
  output->type = Py_NewRef(type);
  if (natively == Py_None) return 1;
  if (!PyArg_ParseTuple(natively, "OO!", &place, &PyTuple_Type, &shape) ||
      !read_place(&output->place, place))
    return 0;
  Py_ssize_t count = PyTuple_Size(shape);
  if (count > XT_MOST_DIMENSIONS) return 0;
  output->dimensions = (int)count;
  for (int i = 0; i < output->dimensions; i++)
    output->shape[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
  return !PyErr_Occurred();
}

static int read_outputs(struct entry *entry, PyObject *offered) {
  Py_ssize_t count = PyTuple_Size(offered);
  if (count < 0 || count > MOST_OUTPUTS) return 0;
  for (Py_ssize_t i = 0; i < count; i++) {
    entry->output_count++;
    if (!read_output(&entry->outputs[i], PyTuple_GetItem(offered, i))) return 0;
  }
  return 1;
}

static int fill(struct entry *entry, PyObject *offered) {
  PyObject *direct, *synchronize, *chosen_by, *checks, *writes, *overlaps, *current, *stream;
  PyObject *pointed, *ordered, *outputs, *native;
  int consents, where;
  if (!PyArg_ParseTuple(offered, "OOOO!pO!O!iOOOOO!O", &direct, &synchronize, &chosen_by,
                        &PyTuple_Type, &checks, &consents, &PyTuple_Type, &writes, &PyTuple_Type,
                        &overlaps, &where, &current, &pointed, &ordered, &stream, &PyTuple_Type,
                        &outputs, &native))
    return 0;
  entry->direct = Py_NewRef(direct);
  entry->synchronize = Py_NewRef(synchronize);
  entry->checks = Py_NewRef(checks);
  entry->current = Py_NewRef(current);
  entry->pointed = Py_NewRef(pointed);
  entry->ordered = Py_NewRef(ordered);
  entry->default_stream = Py_NewRef(stream);
  entry->consents = consents;
  entry->where = (enum where)where;
  entry->chosen = synchronize != Py_None && !entry->has_device;
  if (entry->chosen && chosen_by != Py_None) {
    char *text = PyBytes_AsString(chosen_by);
    if (!text || !(entry->chosen_by = strdup(text))) return 0;
  }
  if (!read_overlaps(entry, overlaps) || !read_writes(entry, writes) ||
      !read_outputs(entry, outputs))
    return 0;
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

/* ------------------------------------------------------------------------------- code that goes */

/* Whether it launches one of these; also where it is not known what it launches. */
static int launches_any(const struct entry *entry, PyObject *codes) {
  if (entry->declines || !entry->direct) return 0;
  if (!entry->native) return 1;
  for (int i = 0; i < entry->native->link_count; i++)
    for (Py_ssize_t at = 0; at < PyTuple_Size(codes); at++)
      if (entry->native->links[i].code == PyTuple_GetItem(codes, at)) return 1;
  return 0;
}

int entry_unload(struct entry *entry, struct going *going) {
  if (!launches_any(entry, going->codes)) return 1;
  struct entry *gone = entry;
  /* a call that is being made has borrowed what it launches */
  if (entry->again && entry->native && entry->references == 1 && (gone = calloc(1, sizeof *gone))) {
    gone->references = 1;
    gone->native = native_unload(entry->native);
    gone->direct = entry->direct;
    entry->direct = NULL;
    if (!gone->native) { /* no memory: all of it goes */
      free(gone);
      gone = entry;
    }
  } else {
    gone = entry;
  }
  gone->next = going->entries;
  going->entries = gone;
  return gone != entry;
}

void going_drop(struct going *going) {
  while (going->entries) {
    struct entry *entry = going->entries;
    going->entries = entry->next;
    entry_drop(entry);
  }
}

int entry_load(struct state *state, struct entry *entry) {
  PyObject *direct, *codes;
  if (torch_is_watching(state)) return 0;
  PyObject *offered = PyObject_CallNoArgs(entry->again);
  if (!offered) return PyErr_ExceptionMatches(PyExc_Exception) && decline(); /* Python meets it again */
  int loaded = entry->direct != NULL; /* by another thread, meanwhile */
  if (!loaded && PyArg_ParseTuple(offered, "OO!", &direct, &PyTuple_Type, &codes) &&
      native_load(entry->native, codes)) {
    entry->direct = Py_NewRef(direct);
    loaded = 1;
  }
  Py_DECREF(offered);
  return loaded || decline();
}
