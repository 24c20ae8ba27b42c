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

/* Views may lie between each other's elements: 0 where Python says that these do; an exception, an
 * interrupt for one, is the caller's. */
static int shares(struct state *state, const struct overlap *one, int64_t distance) {
  if (!one->shares || torch_is_watching(state)) return 1;
  PyObject *given = PyLong_FromLongLong(distance);
  PyObject *answer = given ? PyObject_CallFunctionObjArgs(one->shares, given, NULL) : NULL;
  Py_XDECREF(given);
  Py_XDECREF(answer);
  return answer != Py_False;
}

/* Whether what is written may share memory with another array. */
static int may_overlap(struct state *state, const struct entry *entry,
                       const struct reading *reading) {
  const struct xt_call *call = &reading->call;
  const int64_t *numbers = reading->numbers ? reading->numbers + overlaps_at(entry) : NULL;
  for (int i = 0; i < entry->overlap_count; i++) {
    const struct overlap *one = &entry->overlaps[i];
    if (one->index >= call->value_count || one->other >= call->value_count) return 1;
    int64_t distance = (int64_t)(call->values[one->index].as.address - call->values[one->other].as.address);
    int64_t low = numbers ? numbers[2 * i] : one->low, high = numbers ? numbers[2 * i + 1] : one->high;
    if (low < distance && distance < high && (distance || !one->in_place) &&
        shares(state, one, distance))
      return 1;
  }
  return 0;
}

static int tell_written(struct state *state, const struct entry *entry,
                        const struct reading *reading) {
  Py_ssize_t count = reading->arg_count + out_count(reading);
  for (int i = 0; i < entry->write_count; i++) {
    const struct write *one = &entry->writes[i];
    if (one->index >= count) return 0;
    PyObject *array = given_at(reading, one->index);
    if (one->written == WRITTEN_TORCH ? !tell_torch(&state->torch, array)
        : one->written == WRITTEN_OWN && slot_of(array, state->own.owner_at) != Py_None)
      return 0;
  }
  return 1;
}

PyObject *one_stream(struct state *state, const struct reading *reading) {
  PyObject *found = NULL;
  for (Py_ssize_t i = 0; i < reading->arg_count + out_count(reading); i++) {
    PyObject *array = given_at(reading, i);
    if (reader_of(state, array) != READ_OWN) continue;
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
    if (!entry->output_count || found == entry->default_stream) return found;
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

/* A launch has raised, and may run: what it uses must not go before it ends (`_launch.interrupts`). */
static void keep_what_failed(struct state *state, const struct reading *reading, PyObject *stream,
                             PyObject *result) {
  PyObject *type, *error, *traceback;
  PyErr_Fetch(&type, &error, &traceback);
  PyObject *used = arguments(reading);
  PyObject *answer =
      used ? PyObject_CallFunctionObjArgs(state->failed, stream, used, result, NULL) : NULL;
  Py_XDECREF(used);
  if (!answer) PyErr_Clear();
  Py_XDECREF(answer);
  PyErr_Restore(type, error, traceback);
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
  keep_what_failed(state, reading, stream, result);
  return -1;
}

/* The values as Python's numbers. */
static PyObject *row_of(const struct reading *reading, const struct xt_value *values, int count) {
  PyObject *row = PyTuple_New(count);
  for (int i = 0; row && i < count; i++) {
    PyObject *value = values[i].kind == XT_ADDRESS
                          ? PyLong_FromUnsignedLongLong(values[i].as.address)
                          : number_at(reading, i);
    if (!value) Py_CLEAR(row);
    else PyTuple_SetItem(row, i, value);
  }
  return row;
}

int launch_rest(struct state *state, const struct entry *entry, const struct reading *reading,
                const struct rest *rest, PyObject *result) {
  PyObject *stream = stream_of(state, entry, reading), *answer = NULL;
  PyObject *given = stream ? row_of(reading, rest->values, rest->count) : NULL;
  PyObject *start = given ? PyObject_GetAttrString(entry->direct, "rest") : NULL;
  if (start && reading->numbers) {
    PyObject *numbers = numbers_of_launch(entry, reading->numbers);
    if (numbers) answer = PyObject_CallFunction(start, "iOOO", rest->first, numbers, given, stream);
    Py_XDECREF(numbers);
  } else if (start) {
    answer = PyObject_CallFunction(start, "iOO", rest->first, given, stream);
  }
  if (!answer) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a call's stream is not known");
    keep_what_failed(state, reading, stream ? stream : Py_None, result);
  }
  Py_XDECREF(start);
  Py_XDECREF(given);
  Py_XDECREF(stream);
  Py_XDECREF(answer);
  return answer ? 1 : -1;
}

int entry_launch(struct state *state, const struct entry *entry, const struct reading *reading,
                 PyObject *result) {
  void *handle;
  int natively = native_stream(state, entry, reading, &handle)
                     ? launch_natively(state, entry, reading, handle, result)
                     : 0;
  if (natively) return natively;
  if (PyErr_Occurred()) return 0;
  if (torch_is_watching(state)) return 0;
  PyObject *stream = stream_of(state, entry, reading);
  if (!stream) return PyErr_Occurred() ? -1 : 0;
  int launched = launch_by_python(state, entry, reading, stream, result);
  Py_DECREF(stream);
  return launched;
}

int entry_consents(struct state *state, const struct entry *entry, const struct reading *reading) {
  return (!entry->consents || allow_torch(state)) && tell_written(state, entry, reading);
}

/* Look the caller's `stream` up: 1, or 0 where the call is Python's. */
static int look_up_stream(struct state *state, const struct entry *entry, struct reading *reading) {
  if (!reading->stream) return 1;
  if (entry->output_count) return 0; /* where a new result's memory is free is Python's to say */
  if (entry->ordered == Py_None || torch_is_watching(state)) return 0;
  PyObject *args = arguments(reading);
  PyObject *out = reading->out ? reading->out : Py_None;
  PyObject *found =
      args ? PyObject_CallFunctionObjArgs(entry->ordered, reading->stream, args, out, NULL) : NULL;
  Py_XDECREF(args);
  if (found && found != Py_None) {
    reading->on = found;
    return 1;
  }
  Py_XDECREF(found);
  return decline();
}

/* New results, whose addresses are values of the call then: one, a tuple of several, or None where the
 * kernel has none; NULL where Python has to make them. */
static PyObject *new_results(struct state *state, const struct entry *entry,
                             struct reading *reading) {
  PyObject *results = entry->output_count > 1 ? PyTuple_New(entry->output_count) : NULL;
  if (!entry->output_count) return Py_NewRef(Py_None);
  if (entry->output_count > 1 && !results) return NULL;
  for (int i = 0; i < entry->output_count; i++) {
    if (entry->outputs[i].type != Py_None && torch_is_watching(state)) goto declined;
    PyObject *made = new_output(state, entry, i, reading);
    if (!made) goto declined;
    struct xt_value value = {XT_ADDRESS, {.address = address_of(state, made)}};
    int added = value.as.address && xt_add_value(&reading->call, value);
    if (!results) results = made;
    else PyTuple_SetItem(results, i, made);
    if (!added) goto declined;
  }
  return results;
declined:
  Py_XDECREF(results);
  return NULL;
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
  if (may_overlap(state, entry, reading) || !look_up_stream(state, entry, reading)) return NULL;
  PyObject *result = reading->out ? Py_NewRef(reading->out) : new_results(state, entry, reading);
  if (!result) return NULL;
  if (!tell_written(state, entry, reading)) goto declined;
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
