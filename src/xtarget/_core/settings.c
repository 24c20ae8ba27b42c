/* Variables of the environment that a call depends on. */
#include "python.h"

#include <stdlib.h>
#include <string.h>

static PyObject *is_as_read(PyObject *read, PyObject *unused) {
  const char *now = getenv(PyBytes_AsString(PyTuple_GetItem(read, 0)));
  PyObject *then = PyTuple_GetItem(read, 1);
  (void)unused;
  return PyBool_FromLong(then == Py_None ? !now : now && !strcmp(now, PyBytes_AsString(then)));
}

static PyMethodDef is_as_read_method = {
    "is_as_read", is_as_read, METH_NOARGS, "Whether a variable of the environment has the text that it had."};

PyObject *setting(PyObject *module, PyObject *name) {
  const char *text = PyBytes_AsString(name);
  (void)module;
  if (!text) return NULL;
  PyObject *read = Py_BuildValue("Oy", name, getenv(text));
  PyObject *made = read ? PyCFunction_NewEx(&is_as_read_method, read, NULL) : NULL;
  Py_XDECREF(read);
  return made;
}
