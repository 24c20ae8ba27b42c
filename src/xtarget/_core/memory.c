/* Memory for a launch only, and for results: of torch's own allocator, by its C interface, where that
 * is known; else Python asks for it.
 */
#include "entry.h"

#include <string.h>

int read_place(struct torch_place *place, PyObject *offered) {
  memset(place, 0, sizeof *place);
  if (offered == Py_None) return 1;
  place->known = 1;
  return PyArg_ParseTuple(offered, "iii", &place->dtype, &place->device_type, &place->device_id);
}

/* An empty tensor without gaps, or NULL. */
static void *torch_empty(const struct torch *torch, const struct torch_place *place,
                         const int64_t *shape, int dimensions) {
  int64_t strides[XT_MOST_DIMENSIONS], step = 1;
  void *tensor = NULL;
  for (int axis = dimensions - 1; axis >= 0; axis--) {
    strides[axis] = step;
    if (__builtin_mul_overflow(step, shape[axis] > 1 ? shape[axis] : 1, &step)) return NULL;
  }
  if (torch->empty(dimensions, shape, strides, place->dtype, place->device_type, place->device_id,
                   &tensor) != 0)
    return NULL;
  return tensor;
}

/* ------------------------------------------------------------------------- for a launch only */

int room_take(struct state *state, const struct entry *entry, const struct reading *reading,
              int64_t nbytes, struct room *room) {
  const struct native *native = entry->native;
  const struct torch *torch = &state->torch;
  memset(room, 0, sizeof *room);
  /* torch gives memory in the order of its current stream: that is where these launches go */
  if (entry->where == WHERE_TORCH && native->place.known && torch->empty) {
    void *address = NULL;
    room->tensor = torch_empty(torch, &native->place, &nbytes, 1);
    if (room->tensor && torch->address_of(room->tensor, &address) == 0 && address) {
      room->address = (uint64_t)(uintptr_t)address;
      return 1;
    }
    room_give_back(state, room);
    return 0;
  }
  if (torch_is_watching(state)) return 0;
  PyObject *stream = stream_of(state, entry, reading);
  PyObject *size = stream ? PyLong_FromLongLong(nbytes) : NULL;
  if (size) room->held = PyObject_CallFunctionObjArgs(native->memory, size, stream, NULL);
  Py_XDECREF(size);
  Py_XDECREF(stream);
  if (room->held) room->address = number_of(room->held, state->names[NAME_ADDRESS]);
  if (!PyErr_Occurred() && room->address) return 1;
  PyErr_Clear(); /* Python asks again, and says what is wrong */
  room_give_back(state, room);
  return 0;
}

void room_give_back(struct state *state, struct room *room) {
  if (room->tensor) state->torch.drop(room->tensor);
  if (room->held) { /* also where a launch has raised */
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyObject *answer = PyObject_CallMethodObjArgs(room->held, state->names[NAME_CLOSE], NULL);
    if (!answer) PyErr_WriteUnraisable(room->held);
    Py_XDECREF(answer);
    Py_DECREF(room->held);
    PyErr_Restore(type, error, traceback);
  }
  memset(room, 0, sizeof *room);
}

/* --------------------------------------------------------------------------------- for results */

static PyObject *integers(const int64_t *numbers, int count) {
  PyObject *tuple = PyTuple_New(count);
  for (int i = 0; tuple && i < count; i++)
    PyTuple_SetItem(tuple, i, PyLong_FromLongLong(numbers[i]));
  return tuple;
}

static PyObject *new_tensor(const struct torch *torch, const struct output *output,
                            const int64_t *shape, int dimensions) {
  void *tensor = torch_empty(torch, &output->place, shape, dimensions);
  if (!tensor) return NULL;
  PyObject *made = torch->wrap(tensor);
  torch->drop(tensor);
  return made;
}

PyObject *new_output(struct state *state, const struct entry *entry, int number,
                     const struct reading *reading) {
  const struct output *output = &entry->outputs[number];
  PyObject *type = output->type, *made = NULL;
  const int64_t *shape = reading->numbers ? reading->numbers + shape_at(entry, number) : output->shape;
  int dimensions = output->dimensions;
  if (output->place.known && state->torch.empty) {
    made = new_tensor(&state->torch, output, shape, dimensions);
    if (made) return made;
    PyErr_Clear(); /* Python asks again, and says what is wrong */
  }
  if (reading->numbers) {
    type = type == Py_None ? integers(shape, dimensions)
                           : Py_BuildValue("NN", integers(shape, dimensions),
                                           integers(shape + dimensions, dimensions));
    if (type && output->type == Py_None)
      made = PyObject_CallFunctionObjArgs(output->make, type, NULL);
  } else if (type == Py_None) {
    return PyObject_CallNoArgs(output->make);
  } else {
    Py_INCREF(type);
  }
  if (type && output->type != Py_None) {
    PyObject *args = arguments(reading);
    if (args) made = PyObject_CallFunctionObjArgs(output->make, type, args, NULL);
    Py_XDECREF(args);
  }
  Py_XDECREF(type);
  return made;
}
