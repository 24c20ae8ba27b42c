/* What serves the calls of one layout: the bound call of Python, and its launch as the driver takes
 * it where there is one.
 */
#include "python.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_OVERLAPS = XT_MOST_VALUES };
/* How the library of `out` hears of the write; where a call is launched. */
enum written { WRITTEN_NOT, WRITTEN_TORCH, WRITTEN_OWN };
enum where { WHERE_ASKED, WHERE_OWN, WHERE_TORCH };

struct overlap {
  int index, in_place;
  int64_t low, high;
};

struct native {
  struct xt_launch launch;
  PyObject *module, *code; /* what has `raw`, and what has `stays` */
  int32_t device_type, device_id; /* DLPack's, for torch's current stream */
};

struct entry {
  int references, declines;
  PyObject *kept;
  PyObject *direct;         /* the prepared launch */
  PyObject *synchronize;    /* None, or anything: the launch is waited for */
  PyObject *checks;         /* a tuple of functions */
  PyObject *current;        /* gives the stream, or None */
  PyObject *default_stream;
  PyObject *new_output, *output_type; /* None: it takes no arguments, and is no code of Python's */
  int has_device, chosen, consents;
  char *chosen_by; /* the text of XTARGET_DEVICE then, or NULL */
  enum written written;
  enum where where;
  int overlap_count;
  struct overlap overlaps[MOST_OVERLAPS];
  struct native *native; /* NULL: `direct` launches */
};

void entry_drop(void *pointer) {
  struct entry *entry = pointer;
  if (--entry->references) return;
  Py_XDECREF(entry->kept);
  Py_XDECREF(entry->direct);
  Py_XDECREF(entry->synchronize);
  Py_XDECREF(entry->checks);
  Py_XDECREF(entry->current);
  Py_XDECREF(entry->default_stream);
  Py_XDECREF(entry->new_output);
  Py_XDECREF(entry->output_type);
  if (entry->native) {
    Py_XDECREF(entry->native->module);
    Py_XDECREF(entry->native->code);
  }
  free(entry->native);
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

static struct native *native_new(PyObject *offered) {
  struct native *native = calloc(1, sizeof *native);
  if (!native) return NULL;
  struct xt_launch *launch = &native->launch;
  unsigned long long start, function, current, context;
  PyObject *parameters, *module, *code;
  if (!PyArg_ParseTuple(offered, "KKKK(III)(III)IO!OOii", &start, &function, &current, &context,
                        &launch->grid[0], &launch->grid[1], &launch->grid[2], &launch->block[0],
                        &launch->block[1], &launch->block[2], &launch->shared_bytes, &PyTuple_Type,
                        &parameters, &module, &code, &native->device_type, &native->device_id))
    goto wrong;
  launch->entry = (xt_launch_entry)(uintptr_t)start;
  launch->function = (void *)(uintptr_t)function;
  launch->current_context = (xt_context_entry)(uintptr_t)current;
  launch->context = (void *)(uintptr_t)context;
  Py_ssize_t count = PyTuple_Size(parameters);
  if (count > XT_MOST_PARAMETERS) goto wrong;
  for (Py_ssize_t i = 0; i < count; i++) {
    struct xt_parameter *parameter = &launch->parameters[i];
    int passed;
    unsigned long long constant;
    if (!PyArg_ParseTuple(PyTuple_GetItem(parameters, i), "iiK", &passed, &parameter->from,
                          &constant))
      goto wrong;
    parameter->passed = (enum xt_passed)passed;
    parameter->constant = constant;
    if (parameter->from >= XT_MOST_VALUES) goto wrong;
  }
  launch->parameter_count = (int)count;
  native->module = Py_NewRef(module);
  native->code = Py_NewRef(code);
  return native;
wrong:
  free(native);
  return NULL;
}

static int fill(struct entry *entry, PyObject *offered) {
  PyObject *direct, *synchronize, *chosen_by, *checks, *overlaps, *current, *stream, *make, *type;
  PyObject *native;
  int consents, written, where;
  if (!PyArg_ParseTuple(offered, "OOOO!piO!iOOOOO", &direct, &synchronize, &chosen_by,
                        &PyTuple_Type, &checks, &consents, &written, &PyTuple_Type, &overlaps,
                        &where, &current, &stream, &make, &type, &native))
    return 0;
  entry->direct = Py_NewRef(direct);
  entry->synchronize = Py_NewRef(synchronize);
  entry->checks = Py_NewRef(checks);
  entry->current = Py_NewRef(current);
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
  if (!read_overlaps(entry, overlaps)) return 0;
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

/* ------------------------------------------------------------------------------ making a call */

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
static int may_overlap(const struct entry *entry, const struct xt_call *call) {
  uint64_t out = call->values[call->value_count - 1].as.address;
  for (int i = 0; i < entry->overlap_count; i++) {
    const struct overlap *one = &entry->overlaps[i];
    int64_t distance = (int64_t)(call->values[one->index].as.address - out);
    if (one->low < distance && distance < one->high && (distance || !one->in_place)) return 1;
  }
  return 0;
}

static int tell_written(struct state *state, const struct entry *entry, PyObject *out) {
  PyObject *answer, *one;
  switch (entry->written) {
    case WRITTEN_NOT: return 1;
    case WRITTEN_TORCH:
      one = PyTuple_Pack(1, out);
      answer = one ? PyObject_CallFunctionObjArgs(state->torch.increment_version, one, NULL) : NULL;
      Py_XDECREF(one);
      Py_XDECREF(answer);
      return answer != NULL;
    case WRITTEN_OWN:
      answer = PyObject_GetAttr(out, state->names[NAME_OWNER]);
      Py_XDECREF(answer);
      return answer == Py_None;
  }
  return 0;
}

/* The stream of all arrays that know theirs: a new reference, or NULL. */
static PyObject *one_stream(struct state *state, const struct reading *reading) {
  PyObject *found = NULL;
  for (Py_ssize_t i = -1; i < reading->arg_count; i++) {
    PyObject *array = i < 0 ? reading->out : reading->args[i];
    if (!array || reader_of(state, array) != READ_OWN) continue;
    PyObject *stream = PyObject_GetAttr(array, state->names[NAME_STREAM]);
    if (!stream || (found && stream != found)) {
      Py_XDECREF(stream);
      Py_XDECREF(found);
      return NULL;
    }
    Py_XDECREF(found);
    found = stream;
  }
  return found;
}

static PyObject *stream_of(struct state *state, const struct entry *entry,
                           const struct reading *reading) {
  if (entry->where == WHERE_OWN) return one_stream(state, reading);
  PyObject *stream = PyObject_CallNoArgs(entry->current);
  if (!stream || stream != Py_None) return stream;
  Py_DECREF(stream);
  return Py_NewRef(entry->default_stream);
}

/* A launch of Python's own, and the wait for it. */
static int launch_by_python(struct state *state, const struct entry *entry,
                            const struct reading *reading, PyObject *stream, PyObject *result) {
  const struct xt_call *call = &reading->call;
  PyObject *values = PyTuple_New(call->value_count), *answer = NULL;
  if (!values) return -1;
  for (int i = 0; i < call->value_count; i++) {
    PyObject *value = call->values[i].kind == XT_ADDRESS
                          ? PyLong_FromUnsignedLongLong(call->values[i].as.address)
                          : Py_NewRef(reading->args[i]);
    if (!value) goto wrong;
    PyTuple_SetItem(values, i, value);
  }
  answer = PyObject_CallFunctionObjArgs(entry->direct, values, stream, NULL);
  if (answer && entry->synchronize != Py_None) {
    Py_DECREF(answer);
    answer = PyObject_CallMethodObjArgs(stream, state->names[NAME_SYNCHRONIZE], NULL);
  }
wrong:
  Py_DECREF(values);
  if (answer) {
    Py_DECREF(answer);
    return 1;
  }
  /* it may run: what it uses must not go before it ends (`_launch.interrupts`) */
  PyObject *type, *error, *traceback;
  PyErr_Fetch(&type, &error, &traceback);
  PyObject *used = PyTuple_New(reading->arg_count);
  for (Py_ssize_t i = 0; used && i < reading->arg_count; i++)
    PyTuple_SetItem(used, i, Py_NewRef(reading->args[i]));
  answer = used ? PyObject_CallFunctionObjArgs(state->failed, stream, used, result, NULL) : NULL;
  Py_XDECREF(used);
  if (!answer) PyErr_Clear();
  Py_XDECREF(answer);
  PyErr_Restore(type, error, traceback);
  return -1;
}

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

/* A launch by the driver's own entry: 1, or 0 where Python has to make the call. */
static int launch_natively(struct state *state, const struct entry *entry,
                           const struct reading *reading, void *stream) {
  const struct native *native = entry->native;
  uint64_t bytes[XT_MOST_PARAMETERS];
  void *places[XT_MOST_PARAMETERS];
  if (is_none(native->module, state->names[NAME_RAW])) return 0;
  /* code that may be unloaded notes which streams it runs on, all but the default one */
  if (stream && !is_true(native->code, state->names[NAME_STAYS])) return 0;
  if (!xt_context_is_current(&native->launch)) return 0;
  if (xt_pack(&native->launch, reading->call.values, bytes, places) != 0) return 0;
  int status;
  /* a full queue makes the driver wait, perhaps for a callback that needs the interpreter */
  Py_BEGIN_ALLOW_THREADS
  status = xt_start(&native->launch, stream, places);
  Py_END_ALLOW_THREADS
  return status == XT_LAUNCHED;
}

/* The driver's stream for a native launch: 1, or 0 where Python has to launch. */
static int native_stream(struct state *state, const struct entry *entry,
                         const struct reading *reading, void **stream) {
  *stream = NULL;
  if (!entry->native) return 0;
  if (entry->where == WHERE_TORCH)
    return state->torch.exchange->current_stream(entry->native->device_type,
                                                 entry->native->device_id, stream) == 0;
  if (entry->where != WHERE_OWN) return 0;
  PyObject *found = one_stream(state, reading);
  Py_XDECREF(found);
  return found == entry->default_stream;
}

static PyObject *new_output(const struct entry *entry, const struct reading *reading) {
  if (entry->output_type == Py_None) return PyObject_CallNoArgs(entry->new_output);
  PyObject *args = PyTuple_New(reading->arg_count);
  if (!args) return NULL;
  for (Py_ssize_t i = 0; i < reading->arg_count; i++)
    PyTuple_SetItem(args, i, Py_NewRef(reading->args[i]));
  PyObject *made =
      PyObject_CallFunctionObjArgs(entry->new_output, entry->output_type, args, NULL);
  Py_DECREF(args);
  return made;
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

/* As `_launch.run.run` makes it. Exceptions of what runs Python code are the caller's; of all else,
 * Python makes the call again and says what is wrong. */
static PyObject *replay(struct state *state, struct entry *entry, struct reading *reading) {
  if (!is_as_chosen(entry) || !holds(entry)) return NULL;
  if (entry->consents && !allow_torch(state)) return NULL;
  PyObject *result = reading->out;
  if (result) {
    if (may_overlap(entry, &reading->call)) return NULL;
    Py_INCREF(result);
    if (!tell_written(state, entry, result)) goto declined;
  } else {
    if (entry->output_type != Py_None && torch_is_watching(state)) return NULL;
    result = new_output(entry, reading);
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
  entry_drop(entry);
  return result;
}
