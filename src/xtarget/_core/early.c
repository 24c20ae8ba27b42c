/* Launches that may start before the launch in front of them has ended (CUDA's programmatic dependent
 * launch): `cuLaunchKernelEx` with that attribute, as a function like `cuLaunchKernel`. A kernel that is
 * launched so waits by itself before it reads or writes (`griddepcontrol.wait`).
 */
#include "python.h"

/* `CUlaunchAttribute` and `CUlaunchConfig` of cuda.h. */
struct attribute {
  unsigned id, unused;
  union {
    uint64_t words[8];
    int number;
  } value;
};
struct configuration {
  unsigned grid[3], block[3], shared_bytes;
  void *stream;
  const struct attribute *attributes;
  unsigned attribute_count;
};
enum { PROGRAMMATIC_STREAM_SERIALIZATION = 6 };

typedef int (*extended_entry)(const struct configuration *configuration, void *function,
                              void **parameters, void **extra);

/* Of the process's only driver: each who tells it tells the same. */
static extended_entry extended;

static int start_early(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       void *stream, void **parameters, void **extra) {
  const struct attribute attribute = {
      .id = PROGRAMMATIC_STREAM_SERIALIZATION, .value = {.number = 1}};
  const struct configuration configuration = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z},
                                              shared_bytes, stream, &attribute, 1};
  return extended(&configuration, function, parameters, extra);
}

PyObject *early(PyObject *module, PyObject *address) {
  (void)module;
  unsigned long long found = PyLong_AsUnsignedLongLong(address);
  if (PyErr_Occurred()) return NULL;
  extended = (extended_entry)(uintptr_t)found;
  return PyLong_FromUnsignedLongLong((uintptr_t)start_early);
}
