/* The module `xtarget._core._native`. `_core/__init__.py` and `_launch/native.py` drive it. */
#include "python.h"

#include <string.h>

#ifndef XT_VERSION
#error "XT_VERSION is the package's version, as text"
#endif

static const char *const NAMES[NAME_COUNT] = {
    "out",   "device",  "stream", "raw",      "stays",          "synchronize", "requires_grad", "address",
    "shape", "strides", "dtype",  "itemsize", "_current_level", "data",        "ptr",           "device_id",
    "_c_contiguous", "close",  "ndim",     "size",
};

struct state *state_of(PyObject *module) { return PyModule_GetState(module); }

/* --------------------------------------------------------------------------------------- run */

/* How often this layout was here before, OFTEN at most. A class of calls may come with ever new ones, and what Python
 * has bound for a layout that does not come again is not worth asking for. */
static int seen_before(struct state *state, uint64_t hash) {
  uint64_t *slot = &state->seen[(hash >> 3) % SEEN], which = hash & ~(uint64_t)OFTEN;
  if ((*slot & ~(uint64_t)OFTEN) != which) *slot = which;
  int times = (int)(*slot & OFTEN);
  if (times < OFTEN) ++*slot;
  return times;
}

static PyObject *called_by_python(PyObject *function, const struct request *request) {
  PyObject *const *args = request->args, *names = request->names;
  Py_ssize_t named = names ? PyTuple_Size(names) : 0, count = request->count;
  Py_ssize_t before = request->kernel != NULL;
  PyObject *positional = PyTuple_New(before + count), *keywords = named ? PyDict_New() : NULL;
  PyObject *result = NULL;
  if (!positional || (named && !keywords)) goto end;
  if (before) PyTuple_SetItem(positional, 0, Py_NewRef(request->kernel));
  for (Py_ssize_t i = 0; i < count; i++)
    PyTuple_SetItem(positional, before + i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; i < named; i++)
    if (PyDict_SetItem(keywords, PyTuple_GetItem(names, i), args[count + i])) goto end;
  result = PyObject_Call(function, positional, keywords);
end:
  Py_XDECREF(positional);
  Py_XDECREF(keywords);
  return result;
}

/* Ask Python what it has bound for a call that it has just made, and remember that. Never raises:
 * the call was made. */
static void learn(struct state *state, uint64_t hash, const struct request *request) {
  uint64_t generation = state->generation;
  struct reading reading;
  PyObject *offered = called_by_python(state->offer, request);
  /* what is asked for may have changed meanwhile: arrays, and what is remembered */
  if (offered && offered != Py_False && generation == state->generation &&
      read_request(state, &reading, request) &&
      xt_hash_layout(&reading.call, xt_hash_class(&reading.call)) == hash) {
    struct entry *entry = entry_new(&reading, offered);
    if (entry && state->layouts.count >= MOST_ENTRIES) xt_table_clear(&state->layouts, entry_drop);
    if (entry && !xt_table_put(&state->layouts, hash, &reading.call, entry, entry_drop))
      entry_drop(entry);
  }
  Py_XDECREF(offered);
  if (PyErr_Occurred()) PyErr_WriteUnraisable(state->offer);
}

/* The same for calls of all sizes for which what Python has serves. */
static int learn_class(struct state *state, uint64_t hash, const struct request *request) {
  uint64_t generation = state->generation;
  struct reading reading;
  struct entry *entry = NULL;
  PyObject *offered = called_by_python(state->offer_class, request);
  if (offered && generation == state->generation &&
      read_request(state, &reading, request) && xt_hash_class(&reading.call) == hash) {
    if (offered != Py_None) entry = entry_of_class(&reading, offered);
    class_add(state, hash, &reading.call, entry);
  }
  Py_XDECREF(offered);
  if (PyErr_Occurred()) PyErr_WriteUnraisable(state->offer_class);
  return entry != NULL;
}

/* A call as it was looked up. */
struct search {
  int found; /* something serves it, which may have declined; else: */
  uint64_t of_class, hash;
  const struct class *class;
  int in_class; /* what serves it is of its class */
};

/* The result of a call that is known; NULL, without an exception where Python has to make it. */
static PyObject *served(struct state *state, const struct request *request,
                        struct reading *reading, struct search *search) {
  int64_t numbers[XT_MOST_RESULTS];
  struct entry *entry = xt_table_recent(&state->layouts, &reading->call);
  if (!entry) {
    search->of_class = xt_hash_class(&reading->call);
    search->hash = xt_hash_layout(&reading->call, search->of_class);
    search->class = NULL;
    entry = xt_table_find(&state->layouts, search->hash, &reading->call);
  }
  if (!entry && (search->class = xt_table_find(&state->classes, search->of_class, &reading->call)) &&
      (entry = class_serves(search->class, &reading->call, numbers)))
    reading->numbers = numbers;
  search->found = entry != NULL;
  search->in_class = reading->numbers != NULL;
  if (!entry) return NULL;
  PyObject *result = entry_replay(state, entry, reading);
  if (result) {
    state->hits++;
    if (reading->numbers && seen_before(state, search->hash) == OFTEN && !torch_is_watching(state))
      learn(state, search->hash, request);
  } else if (!PyErr_Occurred()) {
    state->declined++;
  }
  return result;
}

PyObject *run_known(PyObject *module, const struct request *request) {
  struct state *state = state_of(module);
  struct reading reading;
  struct search search;
  if (state->ended || state->observed || !read_request(state, &reading, request))
    return NULL;
  return served(state, request, &reading, &search);
}

PyObject *run_request(PyObject *module, const struct request *request) {
  struct state *state = state_of(module);
  struct reading reading;
  struct search search;
  if (state->ended) {
    PyErr_SetString(PyExc_RuntimeError, "the interpreter has ended");
    return NULL;
  }
  if (state->observed || !read_request(state, &reading, request))
    return called_by_python(state->twin, request);
  PyObject *result = served(state, request, &reading, &search);
  if (result || PyErr_Occurred()) return result;
  int ask = !search.found && class_may_ask(search.class);
  result = called_by_python(state->twin, request);
  /* what serves the class may have declined for views, of which a layout's own entry can tell more */
  if (!result || (search.found && !search.in_class) || torch_is_watching(state)) return result;
  if (!(ask && learn_class(state, search.of_class, request)) &&
      seen_before(state, search.hash))
    learn(state, search.hash, request);
  return result;
}

static PyObject *run(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  struct request request = {count ? args[0] : NULL, count ? args + 1 : args, count ? count - 1 : 0,
                            names};
  return run_request(module, &request);
}

/* ------------------------------------------------------------------------------------ set up */

static void forget_all(struct state *state) {
  xt_table_clear(&state->layouts, entry_drop);
  xt_table_clear(&state->classes, class_drop);
}

/* `_launch.run` is gone, and with it what the core has of it. */
static void end(PyObject *guard) {
  PyObject *module = PyCapsule_GetContext(guard);
  struct state *state = state_of(module);
  if (state->guard == guard) { /* else it was started again meanwhile */
    state->ended = 1;
    state->type_count = 0;
    forget_all(state);
  }
  Py_DECREF(module);
}

PyDoc_STRVAR(start_doc,
             "start(twin, offer, offer_class, failed, keywords, doc)\n--\n\n"
             "(the function that makes calls: what it knows itself, all others by `twin`; what "
             "ends it when it is dropped). The caller keeps all arguments, and the types of "
             "`read_arrays`, until then: run times want their objects released in the order in "
             "which Python ends, and a reference of the core's would be the last one.");
static PyObject *start(PyObject *module, PyObject *args) {
  struct state *state = state_of(module);
  PyObject *doc;
  if (!PyArg_ParseTuple(args, "OOOOO!S", &state->twin, &state->offer, &state->offer_class, &state->failed,
                        &PyDict_Type, &state->keywords, &doc))
    return NULL;
  char *text = strdup(PyBytes_AsString(doc)); /* lives as long as the function: for ever */
  PyObject *home = PyUnicode_FromString("xtarget");
  PyObject *guard = PyCapsule_New(state, NULL, end);
  if (!text || !home || !guard || PyCapsule_SetContext(guard, Py_NewRef(module))) return NULL;
  state->guard = guard;
  state->ended = state->type_count = 0;
  forget_all(state);
  state->run = (PyMethodDef){"run", (PyCFunction)(void (*)(void))run,
                             METH_FASTCALL | METH_KEYWORDS, text};
  PyObject *function = PyCFunction_NewEx(&state->run, module, home);
  Py_DECREF(home);
  return Py_BuildValue("NN", function, guard);
}

PyDoc_STRVAR(forget_doc, "forget()\n--\n\nForget all calls.");
static PyObject *forget(PyObject *module, PyObject *unused) {
  struct state *state = state_of(module);
  (void)unused;
  state->generation++;
  memset(state->seen, 0, sizeof state->seen);
  forget_all(state);
  Py_RETURN_NONE;
}

static int keep_layout(void *entry, void *going) { return entry_unload(entry, going); }

static int keep_class(void *class, void *going) {
  class_unload(class, going);
  return 1;
}

PyDoc_STRVAR(unload_doc, "unload(codes)\n--\n\n"
                         "Let go of these codes (a tuple). Classes have theirs loaded again when they are called.");
static PyObject *unload(PyObject *module, PyObject *codes) {
  struct state *state = state_of(module);
  struct going going = {codes, NULL};
  if (!PyTuple_Check(codes)) {
    PyErr_SetString(PyExc_TypeError, "unload takes a tuple");
    return NULL;
  }
  state->generation++;
  xt_table_filter(&state->layouts, keep_layout, &going);
  xt_table_filter(&state->classes, keep_class, &going);
  going_drop(&going);
  Py_RETURN_NONE;
}

PyDoc_STRVAR(observe_doc, "observe(observed)\n--\n\n"
                          "Whether Python makes all calls, and all prepared launches.");
static PyObject *observe(PyObject *module, PyObject *observed) {
  int yes = PyObject_IsTrue(observed);
  if (yes < 0) return NULL;
  state_of(module)->observed = yes;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(lose_doc, "lose(losses)\n--\n\n"
                       "A device was lost: prepared launches that were armed with another object "
                       "are Python's to look at.");
static PyObject *lose(PyObject *module, PyObject *losses) {
  struct state *state = state_of(module);
  PyObject *before = state->losses;
  state->losses = Py_NewRef(losses);
  Py_XDECREF(before);
  Py_RETURN_NONE;
}

PyDoc_STRVAR(own_doc, "use_own(class, places)\n--\n\n"
                      "Where the slots of our own arrays lie (`struct own`).");
static PyObject *use_own(PyObject *module, PyObject *args) {
  struct own own;
  if (!PyArg_ParseTuple(args, "O!(nnnnnnnn)", &PyType_Type, &own.type, &own.type_at, &own.device_at,
                        &own.address_at, &own.stream_at, &own.owner_at, &own.dtype_at,
                        &own.shape_at, &own.strides_at))
    return NULL;
  state_of(module)->own = own;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(read_doc, "read_arrays(type, reader)\n--\n\n"
                       "How arrays of exactly this type are read; 0: not here.");
static PyObject *read_arrays(PyObject *module, PyObject *args) {
  struct state *state = state_of(module);
  PyObject *type;
  int reader;
  if (!PyArg_ParseTuple(args, "Oi", &type, &reader)) return NULL;
  if (reader == READ_TORCH && !state->torch.exchange) {
    PyErr_SetString(PyExc_ValueError, "torch's exchange API is not known yet");
    return NULL;
  }
  if (reader == READ_OWN && !state->own.type) {
    PyErr_SetString(PyExc_ValueError, "where the slots of our own arrays lie is not known yet");
    return NULL;
  }
  for (int i = 0; i < state->type_count; i++) {
    if (state->types[i].type == type) {
      state->types[i].reader = (enum reader)reader;
      Py_RETURN_NONE;
    }
  }
  if (state->type_count < MOST_TYPES) {
    state->types[state->type_count].type = type;
    state->types[state->type_count++].reader = (enum reader)reader;
  }
  Py_RETURN_NONE;
}

PyDoc_STRVAR(torch_doc, "use_torch(capsule, functions, forward_ad, entries, place, entries_of_tensors, "
                        "allocator, looks)\n--\n\n"
                        "How torch's tensors are read. False: this is no capsule that is known.");

PyDoc_STRVAR(use_cupy_doc, "use_cupy(class, descriptors)\n--\n\n"
                           "What CuPy's classes have for the attributes that are read; the class "
                           "is that of `data`.");

PyDoc_STRVAR(words_doc, "words(run's arguments)\n--\n\n"
                        "A call as it is read: (words, sizes, addresses and numbers); None: "
                        "it is not.");
static PyObject *words(PyObject *module, PyObject *const *args, Py_ssize_t count,
                       PyObject *names) {
  struct reading reading;
  struct request request = {count ? args[0] : NULL, args + 1, count - 1, names};
  if (!read_request(state_of(module), &reading, &request)) Py_RETURN_NONE;
  const struct xt_call *call = &reading.call;
  PyObject *words = PyTuple_New(call->word_count), *sizes = PyTuple_New(call->size_count);
  PyObject *values = PyTuple_New(call->value_count);
  for (int i = 0; words && i < call->word_count; i++)
    PyTuple_SetItem(words, i, PyLong_FromUnsignedLongLong(call->words[i]));
  for (int i = 0; sizes && i < call->size_count; i++)
    PyTuple_SetItem(sizes, i, PyLong_FromLongLong(call->sizes[i]));
  for (int i = 0; values && i < call->value_count; i++) {
    const struct xt_value *value = &call->values[i];
    PyTuple_SetItem(values, i,
                    value->kind == XT_FLOAT     ? PyFloat_FromDouble(value->as.real)
                    : value->kind == XT_INTEGER ? PyLong_FromLongLong(value->as.integer)
                                                : PyLong_FromUnsignedLongLong(value->as.address));
  }
  return Py_BuildValue("NNN", words, sizes, values);
}

PyDoc_STRVAR(evaluate_doc, "evaluate(program, symbols)\n--\n\n"
                           "The results of a program (`IntegerProgram.flat`); None: a check fails, "
                           "False: it takes more than 64 bits to tell.");

PyDoc_STRVAR(early_doc, "early(extended)\n--\n\n"
                        "The address of a function like `cuLaunchKernel` whose launches may start before "
                        "the one in front of them has ended; `extended` is that of `cuLaunchKernelEx`.");

PyDoc_STRVAR(statistics_doc, "statistics()\n--\n\n"
                             "(calls made, calls declined, layouts known, classes known)");
static PyObject *statistics(PyObject *module, PyObject *unused) {
  const struct state *state = state_of(module);
  (void)unused;
  return Py_BuildValue("KKnn", (unsigned long long)state->hits,
                       (unsigned long long)state->declined, (Py_ssize_t)state->layouts.count,
                       (Py_ssize_t)state->classes.count);
}

int add_type(PyObject *module, const char *name, PyType_Spec *spec) {
  PyObject *type = PyType_FromSpec(spec);
  int added = type ? PyModule_AddObjectRef(module, name, type) : -1;
  Py_XDECREF(type);
  return added;
}

static PyMethodDef methods[] = {
    {"start", start, METH_VARARGS, start_doc},
    {"forget", forget, METH_NOARGS, forget_doc},
    {"unload", unload, METH_O, unload_doc},
    {"observe", observe, METH_O, observe_doc},
    {"lose", lose, METH_O, lose_doc},
    {"use_own", use_own, METH_VARARGS, own_doc},
    {"read_arrays", read_arrays, METH_VARARGS, read_doc},
    {"use_cupy", use_cupy, METH_VARARGS, use_cupy_doc},
    {"use_torch", use_torch, METH_VARARGS, torch_doc},
    {"words", (PyCFunction)(void (*)(void))words, METH_FASTCALL | METH_KEYWORDS, words_doc},
    {"evaluate", evaluate, METH_VARARGS, evaluate_doc},
    {"early", early, METH_O, early_doc},
    {"setting", setting, METH_O, NULL},
    {"statistics", statistics, METH_NOARGS, statistics_doc},
    {NULL, NULL, 0, NULL},
};

static int begin(PyObject *module) {
  struct state *state = state_of(module);
  memset(state, 0, sizeof *state);
  state->layouts.with_sizes = 1;
  if (!(state->minus_one = PyLong_FromLong(-1))) return -1;
  for (int i = 0; i < NAME_COUNT; i++)
    if (!(state->names[i] = PyUnicode_InternFromString(NAMES[i]))) return -1;
  return add_launcher(module) || add_operator(module) || add_kernel(module) ||
                 PyModule_AddIntConstant(module, "INTERFACE", XT_INTERFACE) ||
                 PyModule_AddStringConstant(module, "VERSION", XT_VERSION)
             ? -1
             : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, begin}, {0, NULL}};
static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "xtarget._core._native",
    .m_doc = "The compiled core of launching.",
    .m_size = sizeof(struct state),
    .m_methods = methods,
    .m_slots = slots,
};

int is_core(PyObject *object) {
  return PyModule_Check(object) && PyModule_GetDef(object) == &definition;
}

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
