/* CuPy's arrays as layouts of a call. CuPy tells nothing by DLPack's exchange API: its attributes are
 * asked, by what its classes have for them, which does not look for them in the classes again.
 */
#include "python.h"

/* In the order of `_CUPY` in `_arrays/native.py`. */
enum { DATA, DTYPE, CONTIGUOUS, DIMENSIONS, SIZE, OF_ARRAY, PTR = OF_ARRAY, DEVICE, OF_ALL };
static const int NAMES[OF_ALL] = {NAME_DATA, NAME_DTYPE, NAME_C_CONTIGUOUS, NAME_NDIM,
                                  NAME_SIZE, NAME_PTR,   NAME_DEVICE_ID};

struct cupy {
  PyObject *pointer_type; /* of what `data` is */
  struct {
    PyObject *descriptor; /* NULL: it is looked for by name */
    descrgetfunc get;
  } attributes[OF_ALL];
};

PyObject *use_cupy(PyObject *module, PyObject *args) {
  struct state *state = state_of(module);
  PyObject *pointer_type, *descriptors;
  if (!PyArg_ParseTuple(args, "O!O!", &PyType_Type, &pointer_type, &PyTuple_Type, &descriptors))
    return NULL;
  if (PyTuple_Size(descriptors) != OF_ALL) {
    PyErr_SetString(PyExc_ValueError, "these are not the attributes of CuPy's that are read");
    return NULL;
  }
  if (state->cupy) Py_RETURN_NONE; /* another thread may be reading by it */
  struct cupy *cupy = PyMem_Calloc(1, sizeof *cupy);
  if (!cupy) return PyErr_NoMemory();
  cupy->pointer_type = Py_NewRef(pointer_type);
  for (int i = 0; i < OF_ALL; i++) {
    PyObject *one = PyTuple_GetItem(descriptors, i);
    if (one == Py_None || !PyType_GetSlot(Py_TYPE(one), Py_tp_descr_set)) continue;
    cupy->attributes[i].get = (descrgetfunc)PyType_GetSlot(Py_TYPE(one), Py_tp_descr_get);
    cupy->attributes[i].descriptor = Py_NewRef(one);
  }
  state->cupy = cupy;
  Py_RETURN_NONE;
}

static PyObject *attribute(const struct state *state, PyObject *owner, int which) {
  const struct cupy *cupy = state->cupy;
  if (cupy && cupy->attributes[which].get &&
      (which < OF_ARRAY || (PyObject *)Py_TYPE(owner) == cupy->pointer_type))
    return cupy->attributes[which].get(cupy->attributes[which].descriptor, owner,
                                       (PyObject *)Py_TYPE(owner));
  return PyObject_GetAttr(owner, state->names[NAMES[which]]);
}

/* An attribute that is an integer; 0 with an exception where there is none. */
static uint64_t number(const struct state *state, PyObject *owner, int which) {
  PyObject *value = attribute(state, owner, which);
  uint64_t found = value ? PyLong_AsUnsignedLongLong(value) : 0;
  Py_XDECREF(value);
  return found;
}

/* The shape; how many dimensions it has, or -1. A tuple of it is made anew for each look, and takes
 * longer than all else: the length of a row is its size. */
static int shape_of(const struct state *state, PyObject *array, int64_t *shape) {
  uint64_t dimensions = number(state, array, DIMENSIONS);
  if (dimensions == 1) {
    shape[0] = (int64_t)number(state, array, SIZE);
    return PyErr_Occurred() ? -1 : 1;
  }
  if (PyErr_Occurred()) return -1;
  PyObject *lengths = PyObject_GetAttr(array, state->names[NAME_SHAPE]);
  int count = lengths ? integers_of(lengths, shape) : -1;
  Py_XDECREF(lengths);
  return count;
}

int read_cupy(struct state *state, struct reading *reading, PyObject *value) {
  int64_t shape[XT_MOST_DIMENSIONS], strides[XT_MOST_DIMENSIONS];
  PyObject *steps = NULL, *dtype = NULL, *contiguous = NULL, *data = attribute(state, value, DATA);
  if (data) dtype = attribute(state, value, DTYPE);
  if (dtype) contiguous = attribute(state, value, CONTIGUOUS);
  int read = contiguous && reading->kept_count < MOST_KEPT;
  if (read) {
    struct xt_layout layout = {
        .address = number(state, data, PTR),
        .type = (uint64_t)(uintptr_t)dtype,
        .place = number(state, data, DEVICE),
        .reader = READ_CUPY,
        .dimensions = shape_of(state, value, shape),
        .contiguous = contiguous == Py_True,
        .shape = shape,
        .strides = strides,
        .unit = 1,
    };
    read = layout.address && layout.dimensions >= 0;
    if (read && !layout.contiguous) {
      steps = PyObject_GetAttr(value, state->names[NAME_STRIDES]);
      layout.unit = (int64_t)number_of(dtype, state->names[NAME_ITEMSIZE]);
      read = layout.unit > 0 && integers_of(steps, strides) == layout.dimensions;
    }
    read = read && !PyErr_Occurred() && xt_add_array(&reading->call, &layout);
    if (read) reading->kept[reading->kept_count++] = dtype; /* which the array holds */
  }
  Py_XDECREF(data);
  Py_XDECREF(dtype);
  Py_XDECREF(contiguous);
  Py_XDECREF(steps);
  return read ? 1 : decline();
}

uint64_t address_of_cupy(struct state *state, PyObject *array) {
  PyObject *data = attribute(state, array, DATA);
  uint64_t address = data ? number(state, data, PTR) : 0;
  Py_XDECREF(data);
  return PyErr_Occurred() ? (uint64_t)decline() : address;
}
