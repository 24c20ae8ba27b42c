/* `Kernel`, the base class of kernel objects: a call of one is a call of `run` with its name. */
#include "python.h"

#include <stddef.h>
#include <structmember.h>

/* `Py_TPFLAGS_HAVE_VECTORCALL`, of the stable ABI since Python 3.12, which hands it on to derived
 * classes; before, these are called by `call`. */
enum { HAS_VECTORCALL = 1 << 11 };
/* `PY_VECTORCALL_ARGUMENTS_OFFSET`. */
static const size_t MAY_WRITE_BEFORE = (size_t)1 << (8 * sizeof(size_t) - 1);

struct kernel {
  PyObject_HEAD
  PyObject *(*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);
  PyObject *run; /* what `start` gave */
  PyObject *module, *name;
};

static PyObject *call_by_vector(PyObject *self, PyObject *const *args, size_t count,
                                PyObject *names) {
  const struct kernel *kernel = (const struct kernel *)self;
  struct request request = {kernel->name, args, (Py_ssize_t)(count & ~MAY_WRITE_BEFORE), names};
  return run_request(kernel->module, &request);
}

static PyObject *call(PyObject *self, PyObject *args, PyObject *keywords) {
  const struct kernel *kernel = (const struct kernel *)self;
  Py_ssize_t count = PyTuple_Size(args);
  PyObject *given = PyTuple_New(1 + count);
  if (!given) return NULL;
  PyTuple_SetItem(given, 0, Py_NewRef(kernel->name));
  for (Py_ssize_t i = 0; i < count; i++)
    PyTuple_SetItem(given, 1 + i, Py_NewRef(PyTuple_GetItem(args, i)));
  PyObject *result = PyObject_Call(kernel->run, given, keywords);
  Py_DECREF(given);
  return result;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  PyObject *run, *name;
  static char *words[] = {"run", "name", NULL};
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!U", words, &PyCFunction_Type, &run, &name))
    return NULL;
  PyObject *module = PyCFunction_GetSelf(run);
  if (!module || !is_core(module)) {
    PyErr_SetString(PyExc_TypeError, "a kernel takes the function that `start` gave");
    return NULL;
  }
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  struct kernel *kernel = (struct kernel *)allocate(type, 0);
  if (!kernel) return NULL;
  kernel->vectorcall = call_by_vector;
  kernel->run = Py_NewRef(run);
  kernel->module = Py_NewRef(module);
  kernel->name = Py_NewRef(name);
  PyUnicode_InternInPlace(&kernel->name);
  return (PyObject *)kernel;
}

static int visit(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((struct kernel *)self)->run);
  Py_VISIT(((struct kernel *)self)->module);
  return 0;
}

static void release(PyObject *self) {
  struct kernel *kernel = (struct kernel *)self;
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_CLEAR(kernel->run);
  Py_CLEAR(kernel->module);
  Py_CLEAR(kernel->name);
  freefunc drop = (freefunc)PyType_GetSlot(type, Py_tp_free);
  drop(self);
  Py_DECREF(type);
}

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct kernel, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_new, make},       {Py_tp_call, call},       {Py_tp_traverse, visit},
    {Py_tp_members, members}, {Py_tp_dealloc, release}, {0, NULL},
};
static PyType_Spec spec = {
    .name = "xtarget._core._native.Kernel",
    .basicsize = sizeof(struct kernel),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | HAS_VECTORCALL,
    .slots = slots,
};

int add_kernel(PyObject *module) { return add_type(module, "Kernel", &spec); }
