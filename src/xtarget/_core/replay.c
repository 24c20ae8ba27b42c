/* A call is made with what serves it (`entry.h`). */
#include "entry.h"

#include <stdlib.h>
#include <string.h>

static int is_as_chosen(const struct entry *entry) {
  if (!entry->chosen) return 1;
  const char *now = getenv("XTARGET_DEVICE");
  return entry->chosen_by ? now && !strcmp(now, entry->chosen_by) : !now;
}

static int holds(const struct entry *entry) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(entry->checks); i++) {
    PyObject *answer = PyObject_CallNoArgs(PyTuple_GetItem(entry->checks, i));
    int yes = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    if (yes != 1) return 0;
  }
  return 1;
}

/* Whether `out`, whose address is the last value, may share memory with an argument. */
static int may_overlap(const struct entry *entry, const struct reading *reading) {
  const struct xt_call *call = &reading->call;
  const int64_t *numbers = reading->numbers ? reading->numbers + overlaps_at(entry) : NULL;
  uint64_t out = call->values[call->value_count - 1].as.address;
  for (int i = 0; i < entry->overlap_count; i++) {
    const struct overlap *one = &entry->overlaps[i];
    int64_t distance = (int64_t)(call->values[one->index].as.address - out);
    int64_t low = numbers ? numbers[2 * i] : one->low, high = numbers ? numbers[2 * i + 1] : one->high;
    if (low < distance && distance < high && (distance || !one->in_place)) return 1;
  }
  return 0;
}

static int tell_written(struct state *state, const struct entry *entry, PyObject *out) {
  switch (entry->written) {
    case WRITTEN_NOT: return 1;
    case WRITTEN_TORCH: return tell_torch(&state->torch, out);
    case WRITTEN_OWN: return slot_of(out, state->own.owner_at) == Py_None;
  }
  return 0;
}

PyObject *one_stream(struct state *state, const struct reading *reading) {
  PyObject *found = NULL;
  for (Py_ssize_t i = -1; i < reading->arg_count; i++) {
    PyObject *array = i < 0 ? reading->out : reading->args[i];
    if (!array || reader_of(state, array) != READ_OWN) continue;
    PyObject *stream = slot_of(array, state->own.stream_at);
    if (!stream || (found && stream != found)) return NULL;
    found = stream;
  }
  return Py_XNewRef(found);
}

PyObject *stream_of(struct state *state, const struct entry *entry,
                    const struct reading *reading) {
  if (reading->on) return Py_NewRef(reading->on);
  if (entry->where == WHERE_OWN) {
    PyObject *found = one_stream(state, reading);
    if (reading->out || found == entry->default_stream) return found;
    Py_XDECREF(found); /* a new result is of the default stream: Python puts the two in order */
    return NULL;
  }
  PyObject *stream = PyObject_CallNoArgs(entry->current);
  if (!stream || stream != Py_None) return stream;
  Py_DECREF(stream);
  return Py_NewRef(entry->default_stream);
}

static PyObject *integers(const int64_t *numbers, int count) {
  PyObject *tuple = PyTuple_New(count);
  for (int i = 0; tuple && i < count; i++) PyTuple_SetItem(tuple, i, PyLong_FromLongLong(numbers[i]));
  return tuple;
}

/* A number of the caller's; NumPy's as Python's, as `describe` gives them. */
static PyObject *number_at(const struct reading *reading, int place) {
  const struct xt_value *value = &reading->call.values[place];
  PyObject *given = reading->args[place];
  if (given == Py_None || PyLong_Check(given) || PyFloat_CheckExact(given)) return Py_NewRef(given);
  return value->kind == XT_FLOAT ? PyFloat_FromDouble(value->as.real)
                                 : PyLong_FromLongLong(value->as.integer);
}

/* The values of a launch of Python's own; of a class's, the numbers of its program are among them. */
static PyObject *values_of(const struct entry *entry, const struct reading *reading) {
  const struct xt_call *call = &reading->call;
  const struct sizing *sizing = reading->numbers && !entry->sizing->whole ? entry->sizing : NULL;
  int count = sizing ? sizing->place_count : call->value_count;
  PyObject *values = PyTuple_New(count);
  for (int i = 0; values && i < count; i++) {
    int place = sizing ? sizing->places[i] : i;
    PyObject *value =
        place >= call->value_count
            ? PyLong_FromLongLong(reading->numbers[sizes_at(entry) + place - call->value_count])
        : call->values[place].kind == XT_ADDRESS
            ? PyLong_FromUnsignedLongLong(call->values[place].as.address)
            : number_at(reading, place);
    if (!value) Py_CLEAR(values);
    else PyTuple_SetItem(values, i, value);
  }
  return values;
}

PyObject *arguments(const struct reading *reading) {
  PyObject *args = PyTuple_New(reading->arg_count);
  for (Py_ssize_t i = 0; args && i < reading->arg_count; i++)
    PyTuple_SetItem(args, i, Py_NewRef(reading->args[i]));
  return args;
}

/* What `direct` of a class takes before the values: the grid, or all that its launches take. */
static PyObject *numbers_of_launch(const struct entry *entry, const int64_t *numbers) {
  int first = sizes_at(entry);
  if (!entry->sizing->whole) return integers(numbers, 3);
  return integers(numbers + first, entry->sizing->program.result_count - first);
}

/* A launch of Python's own, and the wait for it. */
static int launch_by_python(struct state *state, const struct entry *entry,
                            const struct reading *reading, PyObject *stream, PyObject *result) {
  PyObject *values = values_of(entry, reading), *answer = NULL;
  if (!values) return -1;
  if (reading->numbers) {
    PyObject *given = numbers_of_launch(entry, reading->numbers);
    if (given) answer = PyObject_CallFunctionObjArgs(entry->direct, given, values, stream, NULL);
    Py_XDECREF(given);
  } else {
    answer = PyObject_CallFunctionObjArgs(entry->direct, values, stream, NULL);
  }
  if (answer && entry->synchronize != Py_None) {
    Py_DECREF(answer);
    answer = PyObject_CallMethodObjArgs(stream, state->names[NAME_SYNCHRONIZE], NULL);
  }
  Py_DECREF(values);
  if (answer) {
    Py_DECREF(answer);
    return 1;
  }
  /* it may run: what it uses must not go before it ends (`_launch.interrupts`) */
  PyObject *type, *error, *traceback;
  PyErr_Fetch(&type, &error, &traceback);
  PyObject *used = arguments(reading);
  answer = used ? PyObject_CallFunctionObjArgs(state->failed, stream, used, result, NULL) : NULL;
  Py_XDECREF(used);
  if (!answer) PyErr_Clear();
  Py_XDECREF(answer);
  PyErr_Restore(type, error, traceback);
  return -1;
}

int entry_launch(struct state *state, const struct entry *entry, const struct reading *reading,
                 PyObject *result) {
  void *handle;
  if (native_stream(state, entry, reading, &handle) &&
      launch_natively(state, entry, reading, handle))
    return 1;
  if (PyErr_Occurred()) return 0;
  if (torch_is_watching(state)) return 0;
  PyObject *stream = stream_of(state, entry, reading);
  if (!stream) return PyErr_Occurred() ? -1 : 0;
  int launched = launch_by_python(state, entry, reading, stream, result);
  Py_DECREF(stream);
  return launched;
}

int entry_consents(struct state *state, const struct entry *entry, PyObject *out) {
  return (!entry->consents || allow_torch(state)) && tell_written(state, entry, out);
}

/* Look the caller's `stream` up: 1, or 0 where the call is Python's. */
static int look_up_stream(struct state *state, const struct entry *entry, struct reading *reading) {
  if (!reading->stream) return 1;
  if (entry->ordered == Py_None || torch_is_watching(state)) return 0;
  PyObject *args = arguments(reading);
  PyObject *found = args ? PyObject_CallFunctionObjArgs(entry->ordered, reading->stream, args,
                                                        reading->out, NULL)
                         : NULL;
  Py_XDECREF(args);
  if (found && found != Py_None) {
    reading->on = found;
    return 1;
  }
  Py_XDECREF(found);
  return decline();
}

/* As `_launch.run.run` makes it. Exceptions of what runs Python code are the caller's; of all else,
 * Python makes the call again and says what is wrong. */
static PyObject *replay(struct state *state, struct entry *entry, struct reading *reading) {
  if (!is_as_chosen(entry)) return NULL;
  if (!holds(entry)) {
    entry->stale = entry->sizing != NULL;
    return NULL;
  }
  if (entry->consents && !allow_torch(state)) return NULL;
  if (!entry->direct && !entry_load(state, entry)) return NULL;
  PyObject *result = reading->out;
  if (result) {
    if (may_overlap(entry, reading) || !look_up_stream(state, entry, reading)) return NULL;
    Py_INCREF(result);
    if (!tell_written(state, entry, result)) goto declined;
  } else {
    if (entry->output_type != Py_None && torch_is_watching(state)) return NULL;
    result = new_output(state, entry, reading);
    if (!result) return NULL;
    struct xt_value value = {XT_ADDRESS, {.address = address_of(state, result)}};
    if (!value.as.address || !xt_add_value(&reading->call, value)) goto declined;
  }
  int launched = entry_launch(state, entry, reading, result);
  if (launched == 1) return result;
  if (launched < 0) {
    Py_DECREF(result);
    return NULL;
  }
declined:
  PyErr_Clear();
  Py_DECREF(result);
  return NULL;
}

PyObject *entry_replay(struct state *state, struct entry *entry, struct reading *reading) {
  if (entry->declines) return NULL;
  entry->references++; /* another thread may empty the table */
  PyObject *result = replay(state, entry, reading);
  Py_CLEAR(reading->on);
  entry_drop(entry);
  return result;
}
