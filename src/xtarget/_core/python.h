/* What the Python side of the core shares. Everything here runs with the interpreter's lock held. */
#ifndef XTARGET_PYTHON_H
#define XTARGET_PYTHON_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "call.h"
#include "dlpack.h"
#include "launch.h"
#include "program.h"
#include "table.h"

/* Goes up with each change of what Python and C tell each other; `_core/__init__.py` has it too. */
#define XT_INTERFACE 20

/* The last ones are no arrays: NumPy's scalars. */
enum reader { READ_NONE, READ_TORCH, READ_NUMPY, READ_OWN, READ_CUPY, READ_FLOAT, READ_INTEGER };
enum { MOST_TYPES = 32, MOST_KEPT = 40, SEEN = 4096, MOST_ENTRIES = 8192 };
/* Of the classes: how many there are at most, entries of one, and how often Python is asked for one. */
enum { MOST_CLASSES = 2048, MOST_OF_CLASS = 16, MOST_ASKED = 64 };
/* A layout that its class has served this often is worth an entry of its own, which has nothing to
 * compute. */
enum { OFTEN = 7 };

/* Objects of torch that are asked, and entry points in its libraries that say the same sooner. */
struct torch {
  const struct xt_dl_exchange *exchange;
  PyObject *is_neg, *is_grad_enabled, *increment_version, *tracing_state, *dispatch_modes;
  PyObject *frame_callback; /* of torch.compile, while it looks at all frames of Python; else None */
  PyObject *forward_ad; /* the dictionary of torch.autograd.forward_ad */
  _Bool (*grad_enabled)(void);
  void *const *(*tracing)(void);
  int64_t (*mode_count)(void);
  /* Of tensors: C++ takes a `const at::Tensor &`, which lies in the object of Python. None of them
   * gives the interpreter away, as the functions of Python do that ask the same. */
  Py_ssize_t tensor_at; /* where; 0: it is not known, and neither are these */
  _Bool (*is_negative)(const void *tensor);
  _Bool (*is_inference)(const void *tensor);
  void (*bump_version)(const void *tensor); /* throws for tensors of inference */
  _Bool (*wants_grad)(const void *implementation); /* what the tensor points to */
  /* Its C interface, which gives what an `at::Tensor` lies in, and what makes an object of that. All
   * of them are there, or none: */
  int (*empty)(int64_t dimensions, const int64_t *shape, const int64_t *strides, int32_t dtype,
               int32_t device_type, int32_t device_id, void **tensor);
  int (*address_of)(void *tensor, void **address);
  int (*drop)(void *tensor);
  PyObject *(*wrap)(const void *tensor);
  /* Of the same interface, what a tensor looks like: sooner than by DLPack, for which torch looks the
   * interpreter and the object up once more. All of them are there and `address_of` too, or none. */
  struct {
    _Bool (*has_storage)(const void *implementation); /* the others complain of tensors without */
    int (*dimensions)(void *tensor, int64_t *count);
    int (*shape)(void *tensor, int64_t **shape);
    int (*strides)(void *tensor, int64_t **strides);
    int (*dtype)(void *tensor, int32_t *dtype);
    int (*device_type)(void *tensor, int32_t *type);
    int (*device_index)(void *tensor, int32_t *index);
  } look;
};

enum { NAME_OUT, NAME_DEVICE, NAME_STREAM, NAME_RAW, NAME_STAYS, NAME_SYNCHRONIZE,
       NAME_REQUIRES_GRAD, NAME_ADDRESS, NAME_SHAPE, NAME_STRIDES, NAME_DTYPE, NAME_ITEMSIZE,
       NAME_LEVEL, NAME_DATA, NAME_PTR, NAME_DEVICE_ID, NAME_C_CONTIGUOUS, NAME_CLOSE,
       NAME_NDIM, NAME_SIZE, NAME_COUNT };

/* Where the slots of our own arrays, and of their types, lie in an object. */
struct own {
  PyObject *type; /* the class of the types; borrowed, NULL: nothing is known */
  Py_ssize_t type_at, device_at, address_at, stream_at, owner_at;
  Py_ssize_t dtype_at, shape_at, strides_at;
};

/* What a slot holds: borrowed; NULL: nothing. */
static inline PyObject *slot_of(PyObject *owner, Py_ssize_t at) {
  return *(PyObject **)((char *)owner + at);
}

struct state {
  int ended;    /* the interpreter gives its objects back */
  int observed; /* Python makes all calls: somebody looks on */
  PyObject *losses; /* another object after each loss of a device */
  PyObject *minus_one; /* of torch's levels: there is none */
  uint64_t generation; /* of what is remembered */
  uint64_t hits, declined;
  struct xt_table layouts, classes;
  uint64_t seen[SEEN]; /* hashes of layouts that were there, but for the lowest bits: how often */
  /* borrowed, as `start` says: */
  PyObject *guard;     /* what `start` gave last */
  PyObject *twin;      /* `run` in Python */
  PyObject *offer;     /* what it has bound for a call, or None */
  PyObject *offer_class; /* what serves calls of other sizes too, or None */
  PyObject *failed;    /* told of launches that raise */
  PyObject *keywords;  /* by kernel, what its keywords mean: `libraries.keywords_known` */
  PyObject *names[NAME_COUNT];
  struct {
    PyObject *type;
    enum reader reader;
  } types[MOST_TYPES];
  int type_count;
  struct torch torch;
  struct own own;
  struct cupy *cupy; /* NULL: its attributes are looked for by name */
  PyMethodDef run; /* filled in at `start` */
};

/* A call while it is read and made. */
struct ready;
struct reading {
  struct xt_call call;
  PyObject *const *args;
  Py_ssize_t arg_count;
  PyObject *out, *device, *stream; /* NULL: not given; `out` may be a tuple of arrays */
  PyObject *on;           /* the caller's `stream`, as it was looked up; NULL: where the arrays are */
  int grad;               /* torch records gradients; -1: not asked yet */
  const struct ready *ready; /* its only launch, as it was got ready before; or NULL */
  const int64_t *numbers; /* what the program of a class gave; NULL: the entry is of one layout */
  PyObject *placed[XT_MOST_VALUES]; /* `args`, where some are given by name; borrowed */
  int kept_count;
  PyObject *kept[MOST_KEPT]; /* whose addresses are words of the call; borrowed */
};

/* The caller's arrays for results; borrowed. */
static inline Py_ssize_t out_count(const struct reading *reading) {
  if (!reading->out) return 0;
  return PyTuple_Check(reading->out) ? PyTuple_Size(reading->out) : 1;
}
static inline PyObject *out_at(const struct reading *reading, Py_ssize_t at) {
  return PyTuple_Check(reading->out) ? PyTuple_GetItem(reading->out, at) : reading->out;
}
/* All arrays and numbers in the order of the call's values. */
static inline PyObject *given_at(const struct reading *reading, Py_ssize_t at) {
  return at < reading->arg_count ? reading->args[at] : out_at(reading, at - reading->arg_count);
}

struct state *state_of(PyObject *module);
/* Whether an object is the core's module, which has a state. */
int is_core(PyObject *object);

/* What declines leaves no exception. */
static inline int decline(void) {
  PyErr_Clear();
  return 0;
}

/* A call of `run` as Python gives it. */
struct request {
  PyObject *kernel; /* NULL: it was not given either */
  PyObject *const *args; /* behind it; those with names follow */
  Py_ssize_t count;      /* without these */
  PyObject *names;       /* a tuple, or NULL */
};

/* read.c: 1, or 0 where the call is Python's to make; no exception is left. */
int read_request(struct state *state, struct reading *reading, const struct request *request);

/* arrays.c: the libraries' arrays. */
/* Add an array of such a reader to the call: 1, or 0 where it is Python's to read. */
int read_array(struct state *state, struct reading *reading, PyObject *value, enum reader reader);
/* An attribute that is an integer; 0 with an exception where there is none. */
uint64_t number_of(PyObject *owner, PyObject *name);
/* The integers of a tuple (NULL: none); how many, or -1. */
int integers_of(PyObject *tuple, int64_t *into);
/* cupy.c */
int read_cupy(struct state *state, struct reading *reading, PyObject *value);
uint64_t address_of_cupy(struct state *state, PyObject *array);
/* (class of `data`, descriptors): how CuPy's attributes are asked from now on. */
PyObject *use_cupy(PyObject *module, PyObject *args);
/* The address of an array; 0 where it cannot be read. */
uint64_t address_of(struct state *state, PyObject *array);
/* Whether an array lies where it did, and may be used without a word of its library's. `grad` is what
 * a reading has of that name. */
int is_in_place(struct state *state, PyObject *array, enum reader reader, uint64_t address, int *grad);
/* (capsule, functions, forward_ad, entries...): how torch's tensors are read from now on. */
PyObject *use_torch(PyObject *module, PyObject *args);
int allow_torch(struct state *state);
/* Tell torch that a tensor is written to: 1, or 0 where Python has to. */
int tell_torch(const struct torch *torch, PyObject *tensor);
/* Whether torch.compile would look at what runs Python code now; `run` itself is left alone. */
int torch_is_watching(struct state *state);
static inline enum reader reader_of(const struct state *state, PyObject *value) {
  PyObject *type = (PyObject *)Py_TYPE(value);
  for (int i = 0; i < state->type_count; i++)
    if (state->types[i].type == type) return state->types[i].reader;
  return READ_NONE;
}
static inline int is_array(enum reader reader) { return reader && reader < READ_FLOAT; }

/* entry.c: what serves a layout, or a class. */
struct entry;
struct sizing;
/* From the tuple that `_launch.native.offer` gives; None makes one that declines. */
struct entry *entry_new(const struct reading *reading, PyObject *offered);
void entry_drop(void *entry);
/* Code that goes, and what has let go of it: to be dropped when the tables are whole again, since
 * that runs code of others. */
struct going {
  PyObject *codes; /* a tuple */
  struct entry *entries;
};
void going_drop(struct going *going);
/* Have an entry let go of code: 1, or 0 where it went altogether. */
int entry_unload(struct entry *entry, struct going *going);
/* Have its code loaded again: 1, or 0 where the call is Python's to make, or an exception is set. */
int entry_load(struct state *state, struct entry *entry);

/* replay.c: a call is made. */
/* Launch with the values of `reading`, those of the results the last: 1; 0 where Python has to launch,
 * -1 where it was raised. */
int entry_launch(struct state *state, const struct entry *entry, const struct reading *reading,
                 PyObject *result);
/* Whether the arrays' libraries agree to what is written; they know of it then. */
int entry_consents(struct state *state, const struct entry *entry, const struct reading *reading);
/* A new reference; NULL without an exception where the call is Python's to make, with one where it
 * was raised. */
PyObject *entry_replay(struct state *state, struct entry *entry, struct reading *reading);

/* classes.c: what serves calls whose sizes were never seen. */
struct class;
/* From the tuple that `_launch.native` gives for a class; NULL where it does not serve this call. */
struct entry *entry_of_class(const struct reading *reading, PyObject *offered);
void sizing_drop(struct sizing *sizing);
/* The entry that serves a call, with its numbers; NULL: there is none. */
struct entry *class_serves(const struct class *class, const struct xt_call *call, int64_t *numbers);
/* Put an entry (NULL: Python had none) among those of the call's class, which is made where there is
 * none. */
void class_add(struct state *state, uint64_t hash, const struct xt_call *call, struct entry *entry);
/* Whether Python may be asked for an entry of the class (NULL: it is new). */
int class_may_ask(const struct class *class);
void class_drop(void *class);
/* Have the entries of a class let go of code. */
void class_unload(struct class *class, struct going *going);
/* (program, symbols): its results; None where a check fails, False where it is not decided. */
PyObject *evaluate(PyObject *module, PyObject *args);

/* Makes a type and adds it to the module; -1, with an exception: it could not. */
int add_type(PyObject *module, const char *name, PyType_Spec *spec);

/* launcher.c: the base of prepared launches. */
int add_launcher(PyObject *module);

/* early.c: from the address of `cuLaunchKernelEx` to that of a function like `cuLaunchKernel`. */
PyObject *early(PyObject *module, PyObject *address);

/* settings.c: from the name of a variable of the environment to what tells whether its text is still
 * the same. */
PyObject *setting(PyObject *module, PyObject *name);

/* operator.c: what torch calls for an operator. */
int add_operator(PyObject *module);

/* kernel.c: the base of kernel objects. */
int add_kernel(PyObject *module);

/* python.c: `run`'s result. */
PyObject *run_request(PyObject *module, const struct request *request);
/* Its result of a call that is known; NULL, without an exception where it is not. */
PyObject *run_known(PyObject *module, const struct request *request);

#endif
