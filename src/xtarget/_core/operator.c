/* `Operator`: what torch calls for an operator, before it looks at gradients. A call that is known is
 * launched where nothing of torch's is between it and the device; each other one is made by the function
 * that the operator was made with, in Python.
 */
#include "python.h"


enum { MOST_NAMED = 16, MOST_KEYS = 32 };

struct operator {
  PyObject_HEAD
  PyObject *module;
  PyObject *name;   /* of the kernel */
  PyObject *other;  /* makes each other call */
  PyObject *dtypes; /* torch's dtypes: what `run` calls them */
  PyObject *lists;  /* options whose lists of one are not that one alone */
  _Bool (*is_included)(uint16_t key); /* whether this thread's calls all go to one of torch's keys */
  int key_count;
  uint16_t keys[MOST_KEYS]; /* of modes and transforms that come after gradients */
};

static int is_plain(const struct operator *operator) {
  for (int i = 0; i < operator->key_count; i++)
    if (operator->is_included(operator->keys[i])) return 0;
  return 1;
}

/* An option as `run` takes it: a new reference, or NULL where Python says how. */
static PyObject *option_of(const struct operator *operator, PyObject *name, PyObject *value) {
  if (PyList_CheckExact(value)) {
    if (PyList_Size(value) == 1 && !PySet_Contains(operator->lists, name))
      return Py_NewRef(PyList_GetItem(value, 0));
    return PyList_AsTuple(value);
  }
  if (PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
      PyUnicode_CheckExact(value))
    return Py_NewRef(value);
  return value == Py_None ? NULL : Py_XNewRef(PyDict_GetItemWithError(operator->dtypes, value));
}

/* The result of a call that is known; NULL without an exception: it is not. */
static PyObject *call_known(const struct operator *operator, PyObject *args, PyObject *options) {
  PyObject *given[XT_MOST_VALUES + MOST_NAMED], *names = NULL, *result = NULL;
  Py_ssize_t count = PyTuple_Size(args), named = options ? PyDict_Size(options) : 0;
  Py_ssize_t at = 0, filled = 0;
  while (count > 0 && PyTuple_GetItem(args, count - 1) == Py_None) count--; /* left out, at the end */
  if (count < 1 || count > XT_MOST_VALUES || named > MOST_NAMED) return NULL;
  for (Py_ssize_t i = 0; i < count; i++) given[i] = PyTuple_GetItem(args, i);
  if (named) {
    PyObject *name, *value;
    names = PyTuple_New(named);
    while (names && PyDict_Next(options, &at, &name, &value)) {
      PyObject *option = option_of(operator, name, value);
      if (!option) {
        PyErr_Clear();
        break;
      }
      given[count + filled] = option;
      Py_INCREF(name);
      PyUnicode_InternInPlace(&name);
      PyTuple_SetItem(names, filled++, name);
    }
  }
  struct request request = {operator->name, given, count, names};
  if (filled == named) result = run_known(operator->module, &request);
  for (Py_ssize_t i = 0; i < filled; i++) Py_DECREF(given[count + i]);
  Py_XDECREF(names);
  return result;
}

static PyObject *call(PyObject *self, PyObject *args, PyObject *options) {
  struct operator *operator = (struct operator *)self;
  if (is_plain(operator)) {
    PyObject *result = call_known(operator, args, options);
    if (result || PyErr_Occurred()) return result;
  }
  return PyObject_Call(operator->other, args, options);
}

static int visit(PyObject *self, visitproc visit, void *arg) {
  struct operator *operator = (struct operator *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(operator->other);
  Py_VISIT(operator->dtypes);
  Py_VISIT(operator->lists);
  Py_VISIT(operator->module);
  return 0;
}

static int clear(PyObject *self) {
  struct operator *operator = (struct operator *)self;
  Py_CLEAR(operator->name);
  Py_CLEAR(operator->other);
  Py_CLEAR(operator->dtypes);
  Py_CLEAR(operator->lists);
  Py_CLEAR(operator->module);
  return 0;
}

static void release(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  freefunc drop = PyType_GetSlot(type, Py_tp_free);
  drop(self);
  Py_DECREF(type);
}

static int read_keys(struct operator *operator, PyObject *keys) {
  Py_ssize_t count = PyTuple_Size(keys);
  if (count > MOST_KEYS) {
    PyErr_SetString(PyExc_ValueError, "these are too many keys");
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; i++)
    operator->keys[i] = (uint16_t)PyLong_AsUnsignedLong(PyTuple_GetItem(keys, i));
  operator->key_count = (int)count;
  return PyErr_Occurred() ? -1 : 0;
}

static int fill(PyObject *self, PyObject *args, PyObject *keywords) {
  struct operator *operator = (struct operator *)self;
  PyObject *module, *name, *other, *keys, *dtypes, *lists;
  unsigned long long is_included;
  if (keywords && PyDict_Size(keywords)) {
    PyErr_SetString(PyExc_TypeError, "Operator takes no keywords");
    return -1;
  }
  if (!PyArg_ParseTuple(args, "OUOKO!O!O!", &module, &name, &other, &is_included, &PyTuple_Type,
                        &keys, &PyDict_Type, &dtypes, &PyFrozenSet_Type, &lists) ||
      read_keys(operator, keys))
    return -1;
  clear(self);
  operator->is_included = (_Bool(*)(uint16_t))(uintptr_t)is_included;
  operator->module = Py_NewRef(module);
  operator->name = Py_NewRef(name);
  operator->other = Py_NewRef(other);
  operator->dtypes = Py_NewRef(dtypes);
  operator->lists = Py_NewRef(lists);
  return 0;
}

static PyType_Slot slots[] = {
    {Py_tp_call, call},       {Py_tp_traverse, visit},  {Py_tp_clear, clear}, {Py_tp_init, fill},
    {Py_tp_dealloc, release}, {0, NULL},
};
static PyType_Spec spec = {
    .name = "xtarget._core._native.Operator",
    .basicsize = sizeof(struct operator),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int add_operator(PyObject *module) { return add_type(module, "Operator", &spec); }
