/* Python's calls as words and values (`call.h`). What is rare here is Python's: it declines. */
#include "python.h"

#include <string.h>

enum { TAG_FLOAT = 2, TAG_BOOL = 3, TAG_OUT = 4, TAG_OPTION = 5, TAG_NONE = 6, TAG_TEXT = 7,
       TAG_SCALAR = 11, TAG_TYPE = 8, TAG_TUPLE = 9, TAG_LIST = 10, TAG_OUTS = 12 };

/* Note an object whose address is a word: who keeps the call keeps it alive. */
static int keep(struct reading *reading, PyObject *object) {
  if (reading->kept_count == MOST_KEPT) return 0;
  reading->kept[reading->kept_count++] = object;
  return xt_add_word(&reading->call, (uint64_t)(uintptr_t)object);
}

/* The same of text: equal texts are one object then, also those that a program has just made. */
static int keep_text(struct reading *reading, PyObject *text) {
  Py_INCREF(text);
  PyUnicode_InternInPlace(&text);
  int kept = keep(reading, text);
  Py_DECREF(text); /* it is the caller's own, or somebody else has it */
  return kept;
}

/* NumPy's numbers, which their classes tell apart, as their dtypes do for Python. */
static int read_scalar(struct reading *reading, PyObject *value, int real) {
  struct xt_value given = {real ? XT_FLOAT : XT_INTEGER, {.integer = 0}};
  if (real)
    given.as.real = PyFloat_AsDouble(value);
  else
    given.as.integer = PyLong_AsLongLong(value);
  if (PyErr_Occurred()) return decline();
  return xt_add_word(&reading->call, TAG_SCALAR) && keep(reading, (PyObject *)Py_TYPE(value)) &&
         xt_add_value(&reading->call, given);
}

static int read_argument(struct state *state, struct reading *reading, PyObject *value) {
  enum reader reader = reader_of(state, value);
  if (is_array(reader)) return read_array(state, reading, value, reader);
  if (reader != READ_NONE) return read_scalar(reading, value, reader == READ_FLOAT);
  if (value == Py_None) { /* an array that was left out; no launch takes its value */
    struct xt_value given = {XT_INTEGER, {.integer = 0}};
    return xt_add_word(&reading->call, TAG_NONE) && xt_add_value(&reading->call, given);
  }
  if (PyBool_Check(value)) {
    struct xt_value given = {XT_INTEGER, {.integer = value == Py_True}};
    return xt_add_word(&reading->call, TAG_BOOL) && xt_add_value(&reading->call, given);
  }
  if (PyLong_CheckExact(value)) {
    int overflow = 0;
    int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow && xt_add_integer(&reading->call, number);
  }
  if (PyFloat_CheckExact(value)) {
    struct xt_value given = {XT_FLOAT, {.real = PyFloat_AsDouble(value)}};
    return xt_add_word(&reading->call, TAG_FLOAT) && xt_add_value(&reading->call, given);
  }
  return 0;
}

static int read_word(struct reading *reading, PyObject *value) {
  struct xt_call *call = &reading->call;
  if (value == Py_None) return xt_add_word(call, TAG_NONE);
  if (PyBool_Check(value))
    return xt_add_word(call, TAG_BOOL) && xt_add_word(call, value == Py_True);
  if (PyUnicode_CheckExact(value)) return xt_add_word(call, TAG_TEXT) && keep_text(reading, value);
  if (PyLong_CheckExact(value)) {
    int overflow = 0;
    int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow && xt_add_word(call, 1) && xt_add_word(call, (uint64_t)number);
  }
  if (PyFloat_CheckExact(value)) {
    double number = PyFloat_AsDouble(value);
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return xt_add_word(call, TAG_FLOAT) && xt_add_word(call, bits);
  }
  if (Py_TYPE(value) == &PyType_Type) return xt_add_word(call, TAG_TYPE) && keep(reading, value);
  return 0;
}

/* Axes, steps and widths come again. Larger numbers are shapes, which may be new in each call: a class
 * for each of them would cost more than it saves. */
static int is_axis(PyObject *value) {
  int overflow = 0;
  if (!PyLong_CheckExact(value)) return PyBool_Check(value);
  long number = PyLong_AsLongAndOverflow(value, &overflow);
  return !overflow && -XT_MOST_DIMENSIONS <= number && number <= XT_MOST_DIMENSIONS;
}

static int read_option(struct reading *reading, PyObject *name, PyObject *value) {
  struct xt_call *call = &reading->call;
  int list = PyList_CheckExact(value);
  if (!xt_add_word(call, TAG_OPTION) || !keep_text(reading, name)) return 0;
  if (!list && !PyTuple_CheckExact(value)) return read_word(reading, value);
  Py_ssize_t count = list ? PyList_Size(value) : PyTuple_Size(value);
  if (!xt_add_word(call, (list ? TAG_LIST : TAG_TUPLE) | (uint64_t)count << 8)) return 0;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *item = list ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i);
    if (!is_axis(item) || !read_word(reading, item)) return 0;
  }
  return 1;
}

/* The caller's array for the result, or a tuple of those for several. */
static int read_out(struct state *state, struct reading *reading) {
  Py_ssize_t count = out_count(reading);
  int several = PyTuple_CheckExact(reading->out);
  if (!xt_add_word(&reading->call, several ? TAG_OUTS | (uint64_t)count << 8 : TAG_OUT)) return 0;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *array = out_at(reading, i);
    if (!is_array(reader_of(state, array)) || !read_argument(state, reading, array)) return 0;
  }
  return 1;
}

/* Put arguments that are given by name to their places. `taken`: the names that are no options, by
 * their numbers: the core's own, and then these too. 1, or 0 where Python has to say what is wrong. */
static int place_arguments(const struct state *state, struct reading *reading,
                           const struct request *request, uint64_t *taken) {
  Py_ssize_t named = PyTuple_Size(request->names), count = request->count;
  PyObject *meanings = PyDict_GetItemWithError(state->keywords, request->kernel);
  const uint64_t own = *taken;
  if (named > 64 || count > XT_MOST_VALUES) return 0;
  if (!meanings) return !PyErr_Occurred() || decline(); /* Python has not made such a call yet */
  memset(reading->placed, 0, sizeof reading->placed);
  memcpy(reading->placed, request->args, sizeof *reading->placed * (size_t)count);
  for (Py_ssize_t i = 0; i < named; i++) {
    if (own >> i & 1) continue;
    PyObject *meaning = PyDict_GetItemWithError(meanings, PyTuple_GetItem(request->names, i));
    if (!meaning && PyErr_Occurred()) return decline();
    if (!meaning || !PyLong_CheckExact(meaning)) continue;
    long place = PyLong_AsLong(meaning);
    if (place < 0 || place >= XT_MOST_VALUES || reading->placed[place]) return 0; /* given twice */
    reading->placed[place] = request->args[request->count + i];
    if (place >= count) count = place + 1;
    *taken |= UINT64_C(1) << i;
  }
  if (*taken == own) return 1;
  for (Py_ssize_t i = 0; i < count; i++)
    if (!reading->placed[i]) reading->placed[i] = Py_None; /* left out */
  reading->args = reading->placed;
  reading->arg_count = count;
  return 1;
}

/* The core's own object for a keyword of its own, whose text a program may have just made; else the
 * name, or NULL where it is of a class derived from text, which compares as it likes. */
static PyObject *known_name(const struct state *state, PyObject *name) {
  if (name == state->names[NAME_OUT] || name == state->names[NAME_DEVICE] ||
      name == state->names[NAME_STREAM])
    return name;
  if (!PyUnicode_CheckExact(name)) return NULL;
  PyObject *same = Py_NewRef(name);
  PyUnicode_InternInPlace(&same);
  int own = same == state->names[NAME_OUT] || same == state->names[NAME_DEVICE] ||
            same == state->names[NAME_STREAM];
  Py_DECREF(same); /* the core has it */
  return own ? same : name;
}

int read_request(struct state *state, struct reading *reading, const struct request *request) {
  PyObject *const *args = request->args, *names = request->names;
  Py_ssize_t count = request->count;
  Py_ssize_t named = names ? PyTuple_Size(names) : 0, options = 0;
  reading->out = reading->device = reading->stream = reading->on = NULL;
  reading->kept_count = 0;
  reading->numbers = NULL;
  reading->ready = NULL;
  reading->grad = -1;
  uint64_t taken = 0;
  if (!request->kernel || !PyUnicode_CheckExact(request->kernel)) return 0;
  reading->args = args;
  reading->arg_count = count;
  for (Py_ssize_t i = 0; i < named; i++) {
    PyObject *name = known_name(state, PyTuple_GetItem(names, i)), *value = args[count + i];
    int own = 1;
    if (!name) return 0;
    if (name == state->names[NAME_OUT])
      reading->out = value == Py_None ? NULL : value;
    else if (name == state->names[NAME_DEVICE])
      reading->device = value == Py_None ? NULL : value;
    else if (name == state->names[NAME_STREAM])
      reading->stream = value == Py_None ? NULL : value;
    else
      own = 0, options++;
    if (own && i < 64) taken |= UINT64_C(1) << i;
  }
  if (options && !place_arguments(state, reading, request, &taken)) return 0;
  struct xt_call *call = &reading->call;
  xt_begin(call);
  if (!keep_text(reading, request->kernel)) return 0;
  if (reading->device) {
    if (!PyUnicode_CheckExact(reading->device) || !keep_text(reading, reading->device))
      return 0;
  } else if (!xt_add_word(call, 0)) {
    return 0;
  }
  for (Py_ssize_t i = 0; i < reading->arg_count; i++)
    if (!read_argument(state, reading, reading->args[i])) return 0;
  if (reading->out && !read_out(state, reading)) return 0;
  for (Py_ssize_t i = 0; options && i < named; i++) {
    if (!(taken >> i & 1) && !read_option(reading, PyTuple_GetItem(names, i), args[count + i]))
      return 0;
  }
  return 1;
}
