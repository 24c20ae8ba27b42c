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
  Py_XDECREF(entry->new_output);
  Py_XDECREF(entry->output_type);
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
    if (!PyArg_ParseTuple(PyTuple_GetItem(overlaps, i), "iLLp", &one->index, &low, &high,
                          &one->in_place))
      return 0;
    one->low = low;
    one->high = high;
  }
  entry->overlap_count = (int)count;
  return 1;
}

/* What torch makes a result of: a place and, of one layout, a shape. */
static int read_output(struct entry *entry, PyObject *offered) {
  PyObject *place, *shape;
  if (offered == Py_None) return 1;
  if (!PyArg_ParseTuple(offered, "OO!", &place, &PyTuple_Type, &shape) ||
      !read_place(&entry->output_place, place))
    return 0;
  Py_ssize_t count = PyTuple_Size(shape);
  if (count > XT_MOST_DIMENSIONS) return 0;
  entry->output_dimensions = (int)count;
  for (int i = 0; i < entry->output_dimensions; i++)
    entry->output_shape[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
  return !PyErr_Occurred();
}

static int fill(struct entry *entry, PyObject *offered) {
  PyObject *direct, *synchronize, *chosen_by, *checks, *overlaps, *current, *stream, *make, *type;
  PyObject *pointed, *ordered, *output, *native;
  int consents, written, where;
  if (!PyArg_ParseTuple(offered, "OOOO!piO!iOOOOOOOO", &direct, &synchronize, &chosen_by,
                        &PyTuple_Type, &checks, &consents, &written, &PyTuple_Type, &overlaps,
                        &where, &current, &pointed, &ordered, &stream, &make, &type,
                        &output, &native))
    return 0;
  entry->direct = Py_NewRef(direct);
  entry->synchronize = Py_NewRef(synchronize);
  entry->checks = Py_NewRef(checks);
  entry->current = Py_NewRef(current);
  entry->pointed = Py_NewRef(pointed);
  entry->ordered = Py_NewRef(ordered);
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
  if (!read_overlaps(entry, overlaps) || !read_output(entry, output)) return 0;
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
