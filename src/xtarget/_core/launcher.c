/* `Launcher`, the base class of `_launch.prepared.Prepared`: a call of one that is armed launches what
 * it was armed with; each other call is its `_launch`, in Python.
 */
#include "entry.h"

#include <stdlib.h>

struct armed {
  int references;
  struct entry *entry;
  struct reading reading; /* only its values and arrays are used */
  PyObject *losses;       /* what `state->losses` was when it was armed */
  PyObject *args, *result;
  struct ready ready;
  int look_count; /* arrays that may get other memory: look where they are */
  struct look {
    PyObject *array; /* of `args`, or `reading.out` */
    enum reader reader;
    uint64_t address;
  } looks[XT_MOST_VALUES];
};

struct launcher {
  PyObject_HEAD
  PyObject *module;
  struct armed *armed;
};

static void armed_drop(struct armed *armed) {
  if (!armed || --armed->references) return;
  if (armed->entry) entry_drop(armed->entry);
  Py_XDECREF(armed->reading.out);
  Py_XDECREF(armed->losses);
  Py_XDECREF(armed->args);
  Py_XDECREF(armed->result);
  free((void *)armed->reading.args);
  free(armed);
}

static int launcher_visit(PyObject *self, visitproc visit, void *arg) {
  struct armed *armed = ((struct launcher *)self)->armed;
  Py_VISIT(Py_TYPE(self));
  if (armed && armed->references == 1) {
    Py_VISIT(armed->reading.out);
    Py_VISIT(armed->args);
    Py_VISIT(armed->result);
  }
  return 0;
}

static int launcher_clear(PyObject *self) {
  struct launcher *launcher = (struct launcher *)self;
  struct armed *armed = launcher->armed;
  launcher->armed = NULL;
  armed_drop(armed);
  return 0;
}

static void launcher_free(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  launcher_clear(self);
  Py_CLEAR(((struct launcher *)self)->module);
  freefunc release = PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

static int is_as_armed(struct state *state, struct armed *armed) {
  int grad = -1;
  if (state->ended || state->observed || state->losses != armed->losses) return 0;
  for (int i = 0; i < armed->look_count; i++) {
    const struct look *look = &armed->looks[i];
    if (!is_in_place(state, look->array, look->reader, look->address, &grad)) return 0;
  }
  return 1;
}

static PyObject *launch(PyObject *self, PyObject *args, PyObject *keywords) {
  struct launcher *launcher = (struct launcher *)self;
  struct armed *armed = launcher->armed;
  if (armed && PyTuple_Size(args) == 0 && (!keywords || PyDict_Size(keywords) == 0)) {
    struct state *state = state_of(launcher->module);
    PyObject *result = NULL;
    armed->references++; /* another thread may update the launch */
    if (is_as_armed(state, armed) && entry_consents(state, armed->entry, &armed->reading) &&
        entry_launch(state, armed->entry, &armed->reading, armed->result) == 1) {
      result = Py_NewRef(armed->result);
      state->hits++;
    }
    armed_drop(armed);
    if (result) return result;
    if (PyErr_Occurred()) return NULL;
  }
  PyObject *method = PyObject_GetAttrString(self, "_launch");
  PyObject *result = method ? PyObject_Call(method, args, keywords) : NULL;
  Py_XDECREF(method);
  return result;
}

PyDoc_STRVAR(arm_doc,
             "arm(module, losses, offered, args, out, result, values)\n--\n\n"
             "Launch with these from now on. `offered` is what a bound call is described with; "
             "None disarms.");
static PyObject *arm(PyObject *self, PyObject *given) {
  struct launcher *launcher = (struct launcher *)self;
  PyObject *module, *losses, *offered, *args, *out, *result, *values;
  launcher_clear(self);
  Py_CLEAR(launcher->module);
  if (!PyArg_ParseTuple(given, "OOOO!OOO!", &module, &losses, &offered,
                        &PyTuple_Type, &args, &out, &result, &PyTuple_Type, &values))
    return NULL;
  struct state *state = state_of(module);
  Py_ssize_t count = PyTuple_Size(args), all = PyTuple_Size(values);
  if (offered == Py_None || all > XT_MOST_VALUES) Py_RETURN_NONE;
  struct armed *armed = calloc(1, sizeof *armed);
  PyObject **items = calloc((size_t)count + 1, sizeof *items);
  if (!armed || !items) {
    free(armed);
    free(items);
    return PyErr_NoMemory();
  }
  armed->references = 1;
  armed->losses = Py_NewRef(losses);
  armed->args = Py_NewRef(args);
  armed->result = Py_NewRef(result);
  armed->reading.args = items;
  armed->reading.arg_count = count;
  armed->reading.out = out == Py_None ? NULL : Py_NewRef(out);
  struct xt_call *call = &armed->reading.call;
  for (Py_ssize_t i = 0; i < count; i++) items[i] = PyTuple_GetItem(args, i);
  if (count + out_count(&armed->reading) != all) goto declined;
  for (Py_ssize_t i = 0; i < all; i++) {
    PyObject *value = PyTuple_GetItem(values, i);
    PyObject *array = given_at(&armed->reading, i);
    struct xt_value *into = &call->values[call->value_count++];
    enum reader reader = reader_of(state, array);
    if (is_array(reader)) {
      *into = (struct xt_value){XT_ADDRESS, {.address = PyLong_AsUnsignedLongLong(value)}};
      if (reader != READ_OWN)
        armed->looks[armed->look_count++] = (struct look){array, reader, into->as.address};
    } else if (PyFloat_CheckExact(array)) {
      *into = (struct xt_value){XT_FLOAT, {.real = PyFloat_AsDouble(value)}};
    } else if (i < count && (PyBool_Check(array) || PyLong_CheckExact(array))) {
      *into = (struct xt_value){XT_INTEGER, {.integer = PyLong_AsLongLong(value)}};
    } else {
      goto declined;
    }
    if (PyErr_Occurred()) goto declined;
  }
  armed->entry = entry_new(&armed->reading, offered);
  if (!armed->entry) goto declined;
  make_ready_alone(armed->entry, &armed->reading, &armed->ready);
  launcher->module = Py_NewRef(module);
  launcher->armed = armed;
  Py_RETURN_NONE;
declined:
  PyErr_Clear();
  armed_drop(armed);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"_arm", arm, METH_VARARGS, arm_doc}, {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {
    {Py_tp_call, launch},      {Py_tp_traverse, launcher_visit}, {Py_tp_clear, launcher_clear},
    {Py_tp_dealloc, launcher_free}, {Py_tp_methods, methods},    {0, NULL},
};
static PyType_Spec spec = {
    .name = "xtarget._core._native.Launcher",
    .basicsize = sizeof(struct launcher),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int add_launcher(PyObject *module) { return add_type(module, "Launcher", &spec); }
