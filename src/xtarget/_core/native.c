/* Launches by a driver's own entry point, one after the other, with the memory between them. */
#include "entry.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------- made once */

static int read_parameters(struct xt_launch *launch, PyObject *parameters) {
  Py_ssize_t count = PyTuple_Size(parameters);
  if (count > XT_MOST_PARAMETERS || launch->buffer_bytes > sizeof(uint64_t) * XT_MOST_PARAMETERS)
    return 0;
  for (Py_ssize_t i = 0; i < count; i++) {
    struct xt_parameter *parameter = &launch->parameters[i];
    int passed;
    unsigned long long constant;
    if (!PyArg_ParseTuple(PyTuple_GetItem(parameters, i), "iiKHH", &passed, &parameter->from,
                          &constant, &parameter->offset, &parameter->size) ||
        parameter->size > sizeof constant ||
        (launch->buffer_bytes &&
         (unsigned)parameter->offset + parameter->size > launch->buffer_bytes))
      return 0;
    parameter->passed = (enum xt_passed)passed;
    parameter->constant = constant;
    if (passed == XT_PASS_MAP) {
      if (!launch->encode || launch->buffer_bytes || parameter->from < 0) return 0;
      launch->map_count++;
    }
    if (passed != XT_PASS_SIZE && parameter->from >= XT_MOST_VALUES + MOST_PIECES) return 0;
  }
  launch->parameter_count = (int)count;
  return 1;
}

static int read_closings(struct link *link, PyObject *closings) {
  if (closings == Py_None) return 1;
  if (PyObject_GetBuffer(closings, &link->closings, PyBUF_SIMPLE)) return 0;
  if (link->closings.len == sizeof link->open_at) return 1;
  PyBuffer_Release(&link->closings);
  return 0;
}

static int read_link(struct link *link, PyObject *offered) {
  struct xt_launch *launch = &link->launch;
  unsigned long long start, function, current, context, encode;
  PyObject *parameters, *module, *code, *closings;
  if (!PyArg_ParseTuple(offered, "KKKK(III)i(III)IIKO!OOO", &start, &function, &current, &context,
                        &launch->grid[0], &launch->grid[1], &launch->grid[2], &link->grid_at,
                        &launch->block[0], &launch->block[1], &launch->block[2],
                        &launch->shared_bytes, &launch->buffer_bytes, &encode, &PyTuple_Type,
                        &parameters, &module, &code, &closings))
    return 0;
  launch->encode = (xt_encode_entry)(uintptr_t)encode;
  if (!read_parameters(launch, parameters) || !read_closings(link, closings)) return 0;
  launch->entry = (xt_launch_entry)(uintptr_t)start;
  launch->function = (void *)(uintptr_t)function;
  launch->current_context = (xt_context_entry)(uintptr_t)current;
  launch->context = (void *)(uintptr_t)context;
  link->module = Py_NewRef(module);
  link->code = Py_NewRef(code);
  return 1;
}

static int read_pieces(struct native *native, PyObject *pieces) {
  Py_ssize_t count = PyTuple_Size(pieces);
  if (count > MOST_PIECES) return 0;
  for (Py_ssize_t i = 0; i < count; i++)
    native->pieces[i] = PyLong_AsLongLong(PyTuple_GetItem(pieces, i));
  native->piece_count = (int)count;
  return !PyErr_Occurred();
}

static int read_fillings(struct native *native, PyObject *fillings) {
  Py_ssize_t count = PyTuple_Size(fillings);
  if (count > MOST_FILLINGS) return 0;
  for (Py_ssize_t i = 0; i < count; i++) {
    struct xt_filling *one = &native->fillings[i];
    long long nbytes;
    if (!PyArg_ParseTuple(PyTuple_GetItem(fillings, i), "iLiII", &one->place, &nbytes, &one->size_at,
                          &one->word, &one->width) ||
        one->place < 0 || one->place >= XT_MOST_VALUES + MOST_PIECES || one->size_at < 0 ||
        !xt_can_fill(&native->fills, one->width))
      return 0;
    one->nbytes = nbytes;
  }
  native->filling_count = (int)count;
  return 1;
}

static int read_fills(struct xt_fills *fills, PyObject *offered) {
  unsigned long long bytes, halves, words;
  if (!PyArg_ParseTuple(offered, "KKK", &bytes, &halves, &words)) return 0;
  fills->bytes = (xt_fill8_entry)(uintptr_t)bytes;
  fills->halves = (xt_fill16_entry)(uintptr_t)halves;
  fills->words = (xt_fill32_entry)(uintptr_t)words;
  return 1;
}

struct native *native_new(PyObject *offered) {
  int32_t type, device;
  PyObject *memory, *place, *fills, *pieces, *fillings, *links;
  if (!PyArg_ParseTuple(offered, "iiO!OOO!O!O!", &type, &device, &PyTuple_Type, &fills, &memory,
                        &place, &PyTuple_Type, &pieces, &PyTuple_Type, &fillings, &PyTuple_Type,
                        &links))
    return NULL;
  Py_ssize_t count = PyTuple_Size(links);
  if (count < 1 || count > MOST_LINKS) return NULL;
  struct native *native = calloc(1, sizeof *native + (size_t)count * sizeof *native->links);
  if (!native) return NULL;
  native->device_type = type;
  native->device_id = device;
  native->memory = Py_NewRef(memory);
  int read = read_place(&native->place, place) && read_fills(&native->fills, fills) &&
             read_pieces(native, pieces) && read_fillings(native, fillings);
  while (read && native->link_count < count) {
    int at = native->link_count;
    read = read_link(&native->links[at], PyTuple_GetItem(links, at));
    native->link_count += read;
  }
  if (read) return native;
  native_drop(native);
  return NULL;
}

void native_drop(struct native *native) {
  if (!native) return;
  Py_XDECREF(native->memory);
  for (int i = 0; i < native->link_count; i++) {
    Py_XDECREF(native->links[i].module);
    Py_XDECREF(native->links[i].code);
    PyBuffer_Release(&native->links[i].closings);
  }
  free(native);
}

struct native *native_unload(struct native *native) {
  struct native *gone = calloc(1, sizeof *gone + (size_t)native->link_count * sizeof *gone->links);
  if (!gone) return NULL;
  for (int i = 0; i < native->link_count; i++) {
    gone->links[i].module = native->links[i].module;
    gone->links[i].code = native->links[i].code;
    native->links[i].module = native->links[i].code = NULL;
  }
  gone->link_count = native->link_count;
  return gone;
}

int native_load(struct native *native, PyObject *offered) {
  unsigned long long functions[MOST_LINKS];
  PyObject *modules[MOST_LINKS], *codes[MOST_LINKS];
  if (PyTuple_Size(offered) != native->link_count) return 0;
  for (int i = 0; i < native->link_count; i++)
    if (!PyArg_ParseTuple(PyTuple_GetItem(offered, i), "KOO", &functions[i], &modules[i], &codes[i]))
      return 0;
  for (int i = 0; i < native->link_count; i++) {
    struct link *link = &native->links[i];
    link->launch.function = (void *)(uintptr_t)functions[i];
    link->module = Py_NewRef(modules[i]);
    link->code = Py_NewRef(codes[i]);
    link->open_at = 0;
    link->stays = 0;
  }
  return 1;
}

int native_takes_what_is_given(const struct native *native, int values, int sizes) {
  if (native->piece_count > sizes) return 0;
  for (int i = 0; i < native->filling_count; i++) {
    const struct xt_filling *filling = &native->fillings[i];
    if (filling->size_at >= sizes || filling->place >= values + native->piece_count) return 0;
  }
  for (int i = 0; i < native->link_count; i++) {
    const struct link *link = &native->links[i];
    const struct xt_launch *launch = &link->launch;
    if (link->grid_at != GRID_FIRST && (link->grid_at < 0 || link->grid_at > sizes - 3)) return 0;
    for (int p = 0; p < launch->parameter_count; p++) {
      const struct xt_parameter *parameter = &launch->parameters[p];
      int given = parameter->passed == XT_PASS_SIZE ? sizes : values + native->piece_count;
      if (parameter->from >= given) return 0;
    }
  }
  return 1;
}

/* ------------------------------------------------------------------------------ at each launch */

static int is_none(PyObject *owner, PyObject *name) {
  PyObject *value = PyObject_GetAttr(owner, name);
  Py_XDECREF(value);
  return value == NULL || value == Py_None;
}

static int is_true(PyObject *owner, PyObject *name) {
  PyObject *value = PyObject_GetAttr(owner, name);
  Py_XDECREF(value);
  return value == Py_True;
}

/* Whether code is loaded, and may be launched on the stream without a word of the vendor's: what may
 * be unloaded notes which streams it runs on, all but the default one. */
static int is_ready(struct state *state, struct link *link, void *stream) {
  const uint64_t *closings = link->closings.buf;
  if (!closings || link->open_at != *closings + 1) {
    if (is_none(link->module, state->names[NAME_RAW])) return 0;
    if (closings) link->open_at = *closings + 1;
  }
  if (stream && !link->stays) link->stays = is_true(link->code, state->names[NAME_STAYS]);
  return !stream || link->stays;
}

/* Pieces of one allocation begin at multiples of so many bytes: `_launch.call.side_by_side`. */
enum { APART = 256 };

/* Where each piece begins; the bytes of all, or -1. */
static int64_t lay_out(const int64_t *pieces, int count, int64_t *places) {
  int64_t total = 0;
  for (int i = 0; i < count; i++) {
    int64_t nbytes = pieces[i] > 1 ? pieces[i] : 1;
    places[i] = total;
    if (nbytes > INT64_MAX - APART - total) return -1;
    total += (nbytes + APART - 1) / APART * APART;
  }
  return total;
}

/* A link with all that it takes: 1, or 0 where Python has to launch. */
static int make_ready(const struct link *link, const int64_t *numbers, const int64_t *sizes,
                      const struct xt_value *values, struct ready *ready) {
  ready->launch = &link->launch;
  ready->grid = link->launch.grid;
  if (numbers) {
    const int64_t *blocks = link->grid_at == GRID_FIRST ? numbers : sizes + link->grid_at;
    if (!xt_read_grid(blocks, ready->computed)) return 0;
    ready->grid = ready->computed;
  }
  return xt_pack(&link->launch, values, sizes, ready->bytes, ready->places, &ready->maps) == 0;
}

void make_ready_alone(const struct entry *entry, struct reading *reading, struct ready *ready) {
  const struct native *native = entry->native;
  if (native && native->link_count == 1 && !native->piece_count && !native->filling_count &&
      make_ready(&native->links[0], NULL, NULL, reading->call.values, ready))
    reading->ready = ready;
}

static int start_one(const struct ready *ready, void *stream) {
  int status;
  /* a full queue makes the driver wait, perhaps for a callback that needs the interpreter */
  Py_BEGIN_ALLOW_THREADS
  status = xt_start(ready->launch, ready->grid, stream, ready->places);
  Py_END_ALLOW_THREADS
  return status == XT_LAUNCHED;
}

enum { NONE_STARTED = -1 };

/* All that a call starts: `values` are the call's own, and then the pieces. Returns the number of the
 * launch that the driver refused, which is `link_count` where it took all; NONE_STARTED: there is a
 * value that does not fit, or memory that could not be filled. */
static int start_all(const struct native *native, const int64_t *numbers, const int64_t *sizes,
                     const struct xt_value *values, void *stream) {
  struct ready ready[MOST_LINKS];
  for (int i = 0; i < native->link_count; i++)
    if (!make_ready(&native->links[i], numbers, sizes, values, &ready[i])) return NONE_STARTED;
  int status = XT_LAUNCHED, started = 0;
  Py_BEGIN_ALLOW_THREADS
  for (int i = 0; i < native->filling_count && status == XT_LAUNCHED; i++) {
    const struct xt_filling *filling = &native->fillings[i];
    status = xt_fill(&native->fills, filling, values[filling->place].as.address,
                     sizes ? sizes[filling->size_at] : filling->nbytes, stream);
  }
  if (status != XT_LAUNCHED) started = NONE_STARTED;
  while (status == XT_LAUNCHED && started < native->link_count) {
    const struct ready *one = &ready[started];
    status = xt_start(one->launch, one->grid, stream, one->places);
    started += status == XT_LAUNCHED;
  }
  Py_END_ALLOW_THREADS
  return started;
}

/* As `launch_natively`, with the memory that the launches use. */
static int launch_chain(struct state *state, const struct entry *entry,
                        const struct reading *reading, void *stream, PyObject *result) {
  const struct native *native = entry->native;
  const struct xt_call *call = &reading->call;
  const int64_t *numbers = reading->numbers;
  const int64_t *sizes = numbers ? numbers + sizes_at(entry) : NULL;
  struct xt_value values[XT_MOST_VALUES + MOST_PIECES];
  struct room room = {0};
  memcpy(values, call->values, sizeof *values * (size_t)call->value_count);
  if (native->piece_count) {
    int64_t places[MOST_PIECES];
    int64_t total = lay_out(numbers ? sizes : native->pieces, native->piece_count, places);
    if (total < 0 || !room_take(state, entry, reading, total, &room)) return 0;
    for (int i = 0; i < native->piece_count; i++)
      values[call->value_count + i] =
          (struct xt_value){XT_ADDRESS, {.address = room.address + (uint64_t)places[i]}};
  }
  int started = start_all(native, numbers, sizes, values, stream);
  int done = started == native->link_count;
  if (!done && started > 0) {
    struct rest rest = {started, call->value_count + native->piece_count, values};
    done = launch_rest(state, entry, reading, &rest, result);
  }
  room_give_back(state, &room);
  return done;
}

int launch_natively(struct state *state, const struct entry *entry, const struct reading *reading,
                    void *stream, PyObject *result) {
  struct native *native = entry->native;
  const int64_t *numbers = reading->numbers;
  for (int i = 0; i < native->link_count; i++)
    if (!is_ready(state, &native->links[i], stream)) return 0;
  if (!xt_context_is_current(&native->links[0].launch)) return 0;
  if (native->link_count > 1 || native->piece_count || native->filling_count)
    return launch_chain(state, entry, reading, stream, result);
  struct ready ready;
  if (reading->ready) return start_one(reading->ready, stream);
  return make_ready(&native->links[0], numbers, numbers ? numbers + sizes_at(entry) : NULL,
                    reading->call.values, &ready) &&
         start_one(&ready, stream);
}

int native_stream(struct state *state, const struct entry *entry, const struct reading *reading,
                  void **stream) {
  *stream = NULL;
  if (!entry->native || reading->on) return 0; /* memory on a stream of the caller's is Python's */
  if (entry->where == WHERE_TORCH)
    return state->torch.exchange->current_stream(entry->native->device_type,
                                                 entry->native->device_id, stream) == 0;
  if (entry->where == WHERE_POINTED) {
    PyObject *known = PyObject_CallNoArgs(entry->pointed);
    *stream = (void *)(uintptr_t)number_of(known, state->names[NAME_PTR]);
    Py_XDECREF(known);
    if (!PyErr_Occurred()) return 1;
    PyErr_Clear();
    return 0;
  }
  if (entry->where != WHERE_OWN) return 0;
  PyObject *found = one_stream(state, reading);
  Py_XDECREF(found);
  return found == entry->default_stream;
}
