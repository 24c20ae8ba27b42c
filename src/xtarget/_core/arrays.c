/* Arrays of Python's libraries as layouts of a call (`call.h`). What is rare here is Python's: it
 * declines. */
#include "python.h"

/* NumPy's array object: the beginning of it, which its ABI fixes (PyArrayObject_fields). */
struct numpy_array {
  PyObject_HEAD
  char *data;
  int dimensions;
  const int64_t *shape, *strides;
  PyObject *base, *dtype;
  int flags;
};
/* NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED, NPY_ARRAY_WRITEABLE: what `_arrays.host` looks at. */
enum { NUMPY_CONTIGUOUS = 0x1, NUMPY_FLAGS = 0x1 | 0x100 | 0x400 };

/* ------------------------------------------------------------------------------------- torch */

/* The `at::Tensor` in an object; NULL: where it lies is not known. Some torches have it behind a flag,
 * which is set where a pointer to the tensor lies there (`c10::MaybeOwned`).
 */
static const void *torch_tensor(const struct torch *torch, PyObject *tensor) {
  const char *object = (const char *)tensor, *end = object + sizeof(PyObject);
  if (!torch->tensor_at) return NULL;
  const char *at = object + torch->tensor_at;
  return at > end && *end ? NULL : at;
}

static inline int is_negative(const struct torch *torch, PyObject *tensor) {
  const void *at = torch_tensor(torch, tensor);
  if (at && torch->is_negative) return torch->is_negative(at);
  PyObject *answer = PyObject_CallFunctionObjArgs(torch->is_neg, tensor, NULL);
  Py_XDECREF(answer);
  return answer != Py_False;
}

int tell_torch(const struct torch *torch, PyObject *tensor) {
  const void *at = torch_tensor(torch, tensor);
  if (at && torch->bump_version && torch->is_inference) {
    if (!torch->is_inference(at)) torch->bump_version(at); /* those have no version */
    return 1;
  }
  PyObject *one = PyTuple_Pack(1, tensor);
  PyObject *answer =
      one ? PyObject_CallFunctionObjArgs(torch->increment_version, one, NULL) : NULL;
  Py_XDECREF(one);
  Py_XDECREF(answer);
  return answer != NULL;
}

static inline int requires_grad(struct state *state, PyObject *tensor, int *grad) {
  if (*grad < 0) {
    if (state->torch.grad_enabled) {
      *grad = state->torch.grad_enabled();
    } else {
      PyObject *answer = PyObject_CallNoArgs(state->torch.is_grad_enabled);
      *grad = answer != Py_False;
      Py_XDECREF(answer);
    }
  }
  if (!*grad) return 0;
  const void *at = torch_tensor(&state->torch, tensor);
  if (at && state->torch.wants_grad) return state->torch.wants_grad(*(void *const *)at);
  PyObject *answer = PyObject_GetAttr(tensor, state->names[NAME_REQUIRES_GRAD]);
  int required = answer != Py_False;
  Py_XDECREF(answer);
  return required;
}

/* Whether torch records nothing now that would miss a launch; `TorchKind.check_call` says what. */
int allow_torch(struct state *state) {
  struct torch *torch = &state->torch;
  if (torch->tracing) {
    if (*torch->tracing()) return 0;
  } else {
    PyObject *answer = PyObject_CallNoArgs(torch->tracing_state);
    Py_XDECREF(answer);
    if (answer != Py_None) return decline();
  }
  if (torch->mode_count) {
    if (torch->mode_count() != 0) return 0;
  } else {
    PyObject *answer = PyObject_CallNoArgs(torch->dispatch_modes);
    long count = answer ? PyLong_AsLong(answer) : -1;
    Py_XDECREF(answer);
    if (count != 0) return decline();
  }
  PyObject *level = PyDict_GetItemWithError(torch->forward_ad, state->names[NAME_LEVEL]);
  if (level == state->minus_one) return 1; /* Python has one object of each small integer */
  if (!level) return decline();
  long depth = PyLong_AsLong(level);
  return (depth < 0 && !PyErr_Occurred()) || decline();
}

int torch_is_watching(struct state *state) {
  if (!state->torch.exchange) return 0;
  PyObject *callback = PyObject_CallNoArgs(state->torch.frame_callback);
  Py_XDECREF(callback);
  if (!callback) PyErr_Clear();
  return callback != Py_None;
}

static inline uint64_t place_of(int32_t device_type, int32_t device) {
  return (uint64_t)(uint32_t)device_type << 32 | (uint32_t)device;
}

/* By torch's own functions: 1, or 0 where the tensor has no memory of its own. */
static inline int look_at(const struct torch *torch, const void *at, struct xt_layout *layout) {
  void *tensor = (void *)(uintptr_t)at, *data = NULL;
  int64_t dimensions, *shape, *strides;
  int32_t dtype, type, device;
  if (!torch->look.has_storage(*(void *const *)at) || torch->address_of(tensor, &data) || !data ||
      torch->look.dimensions(tensor, &dimensions) || torch->look.shape(tensor, &shape) ||
      torch->look.strides(tensor, &strides) || torch->look.dtype(tensor, &dtype) ||
      torch->look.device_type(tensor, &type) || torch->look.device_index(tensor, &device) ||
      dimensions > XT_MOST_DIMENSIONS)
    return 0;
  layout->address = (uint64_t)(uintptr_t)data;
  layout->type = (uint64_t)(uint32_t)dtype;
  layout->place = place_of(type, device);
  layout->dimensions = (int)dimensions;
  layout->shape = shape;
  layout->strides = strides;
  return 1;
}

/* By DLPack's exchange API. */
static int exchange(const struct torch *torch, PyObject *value, struct xt_layout *layout) {
  struct xt_dl_tensor tensor;
  if (torch->exchange->read(value, &tensor) != 0) return decline();
  if (!tensor.data || tensor.dtype.lanes != 1) return 0;
  layout->address = (uint64_t)(uintptr_t)tensor.data + tensor.byte_offset;
  layout->type = (uint64_t)tensor.dtype.code << 8 | tensor.dtype.bits;
  layout->place = place_of(tensor.device_type, tensor.device_id);
  layout->dimensions = tensor.dimensions;
  layout->shape = tensor.shape;
  layout->strides = tensor.strides;
  return 1;
}

static int read_torch(struct state *state, struct reading *reading, PyObject *value) {
  const struct torch *torch = &state->torch;
  const void *at = torch->look.has_storage ? torch_tensor(torch, value) : NULL;
  struct xt_layout layout = {.reader = READ_TORCH, .unit = 1};
  if (!(at ? look_at(torch, at, &layout) : exchange(torch, value, &layout))) return 0;
  if (is_negative(torch, value) || requires_grad(state, value, &reading->grad)) return decline();
  layout.contiguous =
      !layout.strides || xt_is_contiguous(layout.dimensions, layout.shape, layout.strides);
  return xt_add_array(&reading->call, &layout);
}

PyObject *use_torch(PyObject *module, PyObject *args) {
  struct torch *torch = &state_of(module)->torch;
  PyObject *capsule, *functions[6], *forward_ad;
  unsigned long long grad, tracing, modes, negative, inference, bump, wants;
  unsigned long long empty, address_of, drop, wrap, look[7];
  Py_ssize_t tensor_at;
  if (!PyArg_ParseTuple(args, "O(OOOOOO)O!(KKK)n(KKKK)(KKKK)(KKKKKKK)",
                        &capsule, &functions[0], &functions[1],
                        &functions[2], &functions[3], &functions[4], &functions[5], &PyDict_Type,
                        &forward_ad, &grad, &tracing, &modes, &tensor_at, &negative, &inference,
                        &bump, &wants, &empty, &address_of, &drop, &wrap, &look[0], &look[1],
                        &look[2], &look[3], &look[4], &look[5], &look[6]))
    return NULL;
  if (!PyCapsule_IsValid(capsule, XT_DL_CAPSULE)) Py_RETURN_FALSE;
  const struct xt_dl_exchange *known =
      xt_dl_known(PyCapsule_GetPointer(capsule, XT_DL_CAPSULE));
  if (!known) Py_RETURN_FALSE;
  if (!torch->exchange) {
    torch->is_neg = Py_NewRef(functions[0]);
    torch->is_grad_enabled = Py_NewRef(functions[1]);
    torch->increment_version = Py_NewRef(functions[2]);
    torch->tracing_state = Py_NewRef(functions[3]);
    torch->dispatch_modes = Py_NewRef(functions[4]);
    torch->frame_callback = Py_NewRef(functions[5]);
    torch->forward_ad = Py_NewRef(forward_ad);
    torch->grad_enabled = (_Bool(*)(void))(uintptr_t)grad;
    torch->tracing = (void *const *(*)(void))(uintptr_t)tracing;
    torch->mode_count = (int64_t(*)(void))(uintptr_t)modes;
    torch->tensor_at = tensor_at;
    torch->is_negative = (_Bool(*)(const void *))(uintptr_t)negative;
    torch->is_inference = (_Bool(*)(const void *))(uintptr_t)inference;
    torch->bump_version = (void (*)(const void *))(uintptr_t)bump;
    torch->wants_grad = (_Bool(*)(const void *))(uintptr_t)wants;
    if (empty && address_of && drop && wrap) {
      torch->empty = (int (*)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t,
                              void **))(uintptr_t)empty;
      torch->address_of = (int (*)(void *, void **))(uintptr_t)address_of;
      torch->drop = (int (*)(void *))(uintptr_t)drop;
      torch->wrap = (PyObject * (*)(const void *))(uintptr_t) wrap;
      if (look[0]) {
        torch->look.has_storage = (_Bool(*)(const void *))(uintptr_t)look[0];
        torch->look.dimensions = (int (*)(void *, int64_t *))(uintptr_t)look[1];
        torch->look.shape = (int (*)(void *, int64_t **))(uintptr_t)look[2];
        torch->look.strides = (int (*)(void *, int64_t **))(uintptr_t)look[3];
        torch->look.dtype = (int (*)(void *, int32_t *))(uintptr_t)look[4];
        torch->look.device_type = (int (*)(void *, int32_t *))(uintptr_t)look[5];
        torch->look.device_index = (int (*)(void *, int32_t *))(uintptr_t)look[6];
      }
    }
    torch->exchange = known;
  }
  Py_RETURN_TRUE;
}

/* ------------------------------------------------------------------------------------- NumPy */

static int read_numpy(struct state *state, struct reading *reading, PyObject *value) {
  const struct numpy_array *array = (const struct numpy_array *)value;
  struct xt_layout layout = {
      .address = (uint64_t)(uintptr_t)array->data,
      .type = (uint64_t)(uintptr_t)array->dtype,
      .reader = READ_NUMPY | (uint32_t)(array->flags & NUMPY_FLAGS) << 8,
      .dimensions = array->dimensions,
      .contiguous = array->flags & NUMPY_CONTIGUOUS,
      .shape = array->shape,
      .strides = array->strides,
      .unit = 1,
  };
  if (reading->kept_count == MOST_KEPT) return 0;
  reading->kept[reading->kept_count++] = array->dtype;
  if (!layout.contiguous) {
    PyObject *size = PyObject_GetAttr(array->dtype, state->names[NAME_ITEMSIZE]);
    layout.unit = size ? PyLong_AsLongLong(size) : 0;
    Py_XDECREF(size);
    if (layout.unit <= 0) return decline();
  }
  return xt_add_array(&reading->call, &layout);
}

/* ----------------------------------------------------------------------------------- ours */

int integers_of(PyObject *tuple, int64_t *into) {
  Py_ssize_t count = tuple && PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
  if (count < 0 || count > XT_MOST_DIMENSIONS) return -1;
  for (Py_ssize_t i = 0; i < count; i++) {
    into[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (into[i] == -1 && PyErr_Occurred()) return -1;
  }
  return (int)count;
}

uint64_t number_of(PyObject *owner, PyObject *name) {
  PyObject *value = owner ? PyObject_GetAttr(owner, name) : NULL;
  uint64_t found = value ? PyLong_AsUnsignedLongLong(value) : 0;
  Py_XDECREF(value);
  return found;
}

static uint64_t address_of_own(const struct state *state, PyObject *array) {
  PyObject *number = slot_of(array, state->own.address_at);
  uint64_t address = number && PyLong_Check(number) ? PyLong_AsUnsignedLongLong(number) : 0;
  return address == (uint64_t)-1 && PyErr_Occurred() ? (uint64_t)decline() : address;
}

static int read_own(struct state *state, struct reading *reading, PyObject *value) {
  int64_t shape[XT_MOST_DIMENSIONS], strides[XT_MOST_DIMENSIONS];
  const struct own *own = &state->own;
  /* the array holds its type, and that its parts */
  PyObject *type = slot_of(value, own->type_at), *device = slot_of(value, own->device_at);
  if (!type || (PyObject *)Py_TYPE(type) != own->type) return 0;
  PyObject *dtype = slot_of(type, own->dtype_at);
  int dimensions = integers_of(slot_of(type, own->shape_at), shape);
  if (dimensions < 0 || integers_of(slot_of(type, own->strides_at), strides) != dimensions || !dtype ||
      !device || reading->kept_count + 2 > MOST_KEPT)
    return decline();
  reading->kept[reading->kept_count++] = dtype;
  reading->kept[reading->kept_count++] = device;
  struct xt_layout layout = {
      .address = address_of_own(state, value),
      .type = (uint64_t)(uintptr_t)dtype,
      .place = (uint64_t)(uintptr_t)device,
      .reader = READ_OWN,
      .dimensions = dimensions,
      .shape = shape,
      .strides = strides,
      .unit = 1,
  };
  layout.contiguous = xt_is_contiguous(dimensions, shape, strides);
  return layout.address && xt_add_array(&reading->call, &layout);
}

int read_array(struct state *state, struct reading *reading, PyObject *value, enum reader reader) {
  switch (reader) {
    case READ_TORCH: return read_torch(state, reading, value);
    case READ_NUMPY: return read_numpy(state, reading, value);
    case READ_OWN: return read_own(state, reading, value);
    case READ_CUPY: return read_cupy(state, reading, value);
    case READ_FLOAT:
    case READ_INTEGER:
    case READ_NONE: break;
  }
  return 0;
}

static inline uint64_t address_of_torch(const struct torch *torch, PyObject *array) {
  struct xt_dl_tensor tensor;
  const void *at = torch_tensor(torch, array);
  void *data = NULL;
  if (at && torch->address_of)
    return torch->address_of((void *)at, &data) == 0 ? (uint64_t)(uintptr_t)data : 0;
  if (torch->exchange->read(array, &tensor) != 0) return (uint64_t)decline();
  return tensor.data ? (uint64_t)(uintptr_t)tensor.data + tensor.byte_offset : 0;
}

static uint64_t address_by(struct state *state, PyObject *array, enum reader reader) {
  switch (reader) {
    case READ_TORCH: return address_of_torch(&state->torch, array);
    case READ_NUMPY: return (uint64_t)(uintptr_t)((const struct numpy_array *)array)->data;
    case READ_OWN: return address_of_own(state, array);
    case READ_CUPY: return address_of_cupy(state, array);
    case READ_FLOAT:
    case READ_INTEGER:
    case READ_NONE: break;
  }
  return 0;
}

uint64_t address_of(struct state *state, PyObject *array) {
  return address_by(state, array, reader_of(state, array));
}

int is_in_place(struct state *state, PyObject *array, enum reader reader, uint64_t address, int *grad) {
  if (reader == READ_TORCH)
    return address_of_torch(&state->torch, array) == address && !requires_grad(state, array, grad);
  return address_by(state, array, reader) == address;
}
