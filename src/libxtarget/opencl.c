/* OpenCL: CPUs (and Intel's GPUs) by SPIR-V and shared virtual memory. */
#define _POSIX_C_SOURCE 200809L
#include "device.h"

#include <stdio.h>

typedef int32_t (*notify)(void);

#define OPENCL(X)                                                                                 \
  X(int32_t, clGetPlatformIDs, get_platforms, (uint32_t, void **, uint32_t *))                    \
  X(int32_t, clGetDeviceIDs, get_devices, (void *, uint64_t, uint32_t, void **, uint32_t *))      \
  X(int32_t, clGetDeviceInfo, device_info, (void *, uint32_t, size_t, void *, size_t *))          \
  X(void *, clCreateContext, create_context, (const intptr_t *, uint32_t, void *const *, notify,  \
    void *, int32_t *))                                                                           \
  X(int32_t, clRetainContext, retain_context, (void *))                                           \
  X(int32_t, clReleaseContext, release_context, (void *))                                         \
  X(void *, clCreateCommandQueueWithProperties, create_queue, (void *, void *, const uint64_t *,  \
    int32_t *))                                                                                   \
  X(int32_t, clGetCommandQueueInfo, queue_info, (void *, uint32_t, size_t, void *, size_t *))     \
  X(int32_t, clReleaseCommandQueue, release_queue, (void *))                                      \
  X(int32_t, clFinish, finish, (void *))                                                          \
  X(void *, clCreateProgramWithIL, create_program, (void *, const void *, size_t, int32_t *))     \
  X(int32_t, clBuildProgram, build_program, (void *, uint32_t, void *const *, const char *,       \
    notify, void *))                                                                              \
  X(int32_t, clGetProgramBuildInfo, build_info, (void *, void *, uint32_t, size_t, void *,        \
    size_t *))                                                                                    \
  X(int32_t, clReleaseProgram, release_program, (void *))                                         \
  X(void *, clCreateKernel, create_kernel, (void *, const char *, int32_t *))                     \
  X(int32_t, clReleaseKernel, release_kernel, (void *))                                           \
  X(int32_t, clSetKernelArg, set_argument, (void *, uint32_t, size_t, const void *))              \
  X(int32_t, clSetKernelArgSVMPointer, set_pointer, (void *, uint32_t, const void *))             \
  X(int32_t, clEnqueueNDRangeKernel, launch, (void *, void *, uint32_t, const size_t *,           \
    const size_t *, const size_t *, uint32_t, void *const *, void **))                            \
  X(void *, clSVMAlloc, allocate, (void *, uint64_t, size_t, uint32_t))                           \
  X(void, clSVMFree, release, (void *, void *))                                                   \
  X(int32_t, clEnqueueSVMFree, release_later, (void *, uint32_t, void **, notify, void *,         \
    uint32_t, void *const *, void **))                                                            \
  X(int32_t, clEnqueueSVMMemFill, fill, (void *, void *, const void *, size_t, size_t, uint32_t,  \
    void *const *, void **))                                                                      \
  X(int32_t, clEnqueueSVMMemcpy, copy, (void *, uint32_t, void *, const void *, size_t, uint32_t, \
    void *const *, void **))

static struct {
  OPENCL(XT_MEMBER)
} cl;

#define SYMBOL(result, symbol, name, parameters) {#symbol, (void **)&cl.name},
static const struct xt_symbol symbols[] = {OPENCL(SYMBOL)};

/* OpenCL 3.0 API, "cl.h". */
enum {
  DEVICE_TYPE = 0x1000, MAX_COMPUTE_UNITS = 0x1002, DEVICE_NAME = 0x102B, SVM_CAPABILITIES = 0x1053,
  IL_VERSION = 0x105B, TYPE_CPU = 2, TYPE_GPU = 4, QUEUE_CONTEXT = 0x1090, QUEUE_DEVICE = 0x1091,
  QUEUE_PROPERTIES = 0x1093, OUT_OF_ORDER = 1, BUILD_LOG = 0x1183, READ_WRITE = 1
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int is_open;

static int open_library(void) {
  pthread_mutex_lock(&lock);
  int status = XTARGET_OK;
  if (!is_open)
    status = xt_open_library("OpenCL", "XT_OPENCL_LIBRARY", "libOpenCL.so.1", symbols,
                             sizeof symbols / sizeof *symbols);
  is_open |= !status;
  pthread_mutex_unlock(&lock);
  return status;
}

static int failed(int32_t status, const char *what) {
  if (status == -4 || status == -5 || status == -6)
    return xt_fail(XTARGET_OUT_OF_MEMORY, "%s failed: OpenCL has no memory left (%d).", what, status);
  return xt_fail(XTARGET_DRIVER_FAILED, "%s failed: OpenCL gives the status %d (cl.h names it).",
                 what, status);
}

static int describe(xtarget_device *device) {
  uint32_t units = 0;
  uint64_t type = 0, memory = 0;
  char languages[256] = "";
  cl.device_info(device->native, DEVICE_NAME, sizeof device->name - 1, device->name, NULL);
  int32_t status =
      cl.device_info(device->native, MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
  if (!status) status = cl.device_info(device->native, DEVICE_TYPE, sizeof type, &type, NULL);
  if (!status) cl.device_info(device->native, SVM_CAPABILITIES, sizeof memory, &memory, NULL);
  if (status) return failed(status, "asking an OpenCL device for what it is");
  cl.device_info(device->native, IL_VERSION, sizeof languages - 1, languages, NULL);
  if (!strstr(languages, "SPIR-V"))
    return xt_fail(XTARGET_NO_DRIVER, "%s takes no SPIR-V, which bundles have for it (the PoCL of PyPI and of "
                   "Debian 12 is built without). Install Intel's run time (pip install "
                   "intel-opencl-rt), or choose another device.", device->name);
  if (!memory)
    return xt_fail(XTARGET_NO_DRIVER, "%s has no shared virtual memory, which launches need. Choose "
                   "another device.", device->name);
  device->units = units;
  snprintf(device->target, sizeof device->target, type & TYPE_CPU ? "cpu:spirv64" : "intel:spirv64");
  return XTARGET_OK;
}

/* The device of a number among the CPUs, followed by the GPUs. */
static int find(int ordinal, void **found) {
  void *platforms[32], *devices[64];
  uint32_t platform_count = 0, count = 0;
  int seen = 0;
  int32_t status = cl.get_platforms(32, platforms, &platform_count);
  if (status && status != -1001) return failed(status, "looking for OpenCL's platforms");
  if (platform_count > 32) platform_count = 32;
  for (uint64_t type = TYPE_CPU; type <= TYPE_GPU; type <<= 1)
    for (uint32_t p = 0; !status && p < platform_count; p++) {
      if (cl.get_devices(platforms[p], type, 64, devices, &count)) continue;
      for (uint32_t d = 0; d < count && d < 64; d++)
        if (seen++ == ordinal) return *found = devices[d], XTARGET_OK;
    }
  return xt_fail(XTARGET_NO_DRIVER, "OpenCL has %d devices here, and none with the number %d. Install "
                 "a run time (pip install intel-opencl-rt has one for CPUs), or name it in "
                 "OCL_ICD_FILENAMES.", seen, ordinal);
}

static int with_queue(xtarget_device *device) {
  int32_t code = 0;
  device->own_stream = cl.create_queue(device->context, device->native, NULL, &code);
  if (code) cl.release_context(device->context);
  return code ? failed(code, "making an OpenCL queue") : XTARGET_OK;
}

static int cl_open(xtarget_device *device, int ordinal) {
  int status = open_library();
  if (!status) status = find(ordinal, &device->native);
  if (!status) status = describe(device);
  if (status) return status;
  int32_t code = 0;
  device->context = cl.create_context(NULL, 1, &device->native, NULL, NULL, &code);
  return code ? failed(code, "making an OpenCL context") : with_queue(device);
}

static int cl_open_in(xtarget_device *device, void *context, void *native) {
  int status = open_library();
  if (status) return status;
  if (!native)
    return xt_fail(XTARGET_BAD_ARGUMENT, "an OpenCL device is given by its context and its id.");
  device->native = native;
  status = describe(device);
  if (status) return status;
  device->context = context;
  int32_t code = cl.retain_context(context);
  return code ? failed(code, "keeping an OpenCL context") : with_queue(device);
}

static void cl_close(xtarget_device *device) {
  cl.finish(device->own_stream);
  cl.release_queue(device->own_stream);
  cl.release_context(device->context);
}

/* That a queue is one of this device, and in order. */
static int check_queue(const xtarget_device *device, void *queue) {
  void *context = NULL, *native = NULL;
  uint64_t properties = 0;
  if (!queue)
    return xt_fail(XTARGET_BAD_ARGUMENT, "OpenCL has no default stream: give a cl_command_queue, for "
                   "example that of xtarget_device_stream.");
  if (queue == device->own_stream) return XTARGET_OK;
  int32_t code = cl.queue_info(queue, QUEUE_CONTEXT, sizeof context, &context, NULL);
  if (!code) code = cl.queue_info(queue, QUEUE_DEVICE, sizeof native, &native, NULL);
  if (!code) code = cl.queue_info(queue, QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
  if (code) return failed(code, "asking the stream, an OpenCL queue, for what it is");
  if (context != device->context || native != device->native)
    return xt_fail(XTARGET_BAD_ARGUMENT, "the stream is a queue of another context or device than "
                   "the kernel was taken for. Open the device with xtarget_device_in.");
  if (properties & OUT_OF_ORDER)
    return xt_fail(XTARGET_BAD_ARGUMENT, "the stream is a queue that runs out of order. Give an "
                   "in-order queue.");
  return XTARGET_OK;
}

static int cl_synchronize(xtarget_device *device, void *stream) {
  int status = check_queue(device, stream);
  if (status) return status;
  int32_t code = cl.finish(stream);
  return code ? failed(code, "waiting for an OpenCL queue") : XTARGET_OK;
}

/* A kernel object holds its arguments: one launch at a time sets them. */
struct function {
  void *kernel;
  pthread_mutex_t lock;
};

static int cl_load(xtarget_device *device, const struct xt_binary *binary, const uint8_t *bytes,
                   size_t size, void **result) {
  int32_t code = 0;
  struct function *function = calloc(1, sizeof *function);
  if (!function || pthread_mutex_init(&function->lock, NULL)) {
    free(function);
    return xt_no_memory();
  }
  void *program = cl.create_program(device->context, bytes, size, &code);
  if (!code) code = cl.build_program(program, 1, &device->native, NULL, NULL, NULL);
  if (!code) function->kernel = cl.create_kernel(program, binary->entry, &code);
  if (code) {
    char log[1000] = "";
    if (program) cl.build_info(program, device->native, BUILD_LOG, sizeof log - 1, log, NULL);
    int status = xt_fail(XTARGET_DRIVER_FAILED, "%s cannot be loaded on %s: OpenCL gives the status "
                         "%d. %s", binary->entry, device->name, code, log);
    if (program) cl.release_program(program);
    pthread_mutex_destroy(&function->lock);
    free(function);
    return status;
  }
  cl.release_program(program); /* the kernel keeps it */
  *result = function;
  return XTARGET_OK;
}

static void cl_unload(xtarget_device *device, void *loaded) {
  struct function *function = loaded;
  (void)device;
  cl.release_kernel(function->kernel);
  pthread_mutex_destroy(&function->lock);
  free(function);
}

static int cl_start(xtarget_device *device, void *loaded, const struct xt_binary *binary,
                    const unsigned grid[3], uint64_t *values, void *stream) {
  struct function *function = loaded;
  size_t block[3] = {binary->threads, 1, 1};
  size_t threads[3] = {(size_t)grid[0] * binary->threads, grid[1], grid[2]};
  int status = check_queue(device, stream);
  if (status) return status;
  int32_t code = 0;
  pthread_mutex_lock(&function->lock);
  for (unsigned i = 0; !code && i < binary->parameter_count; i++) {
    const struct xt_parameter *parameter = &binary->parameters[i];
    if (parameter->flags & XT_POINTER)
      code = cl.set_pointer(function->kernel, i, (void *)(uintptr_t)values[i]);
    else
      code = cl.set_argument(function->kernel, i,
                             parameter->flags & XT_MEMORY ? 8 : xt_dtype_sizes[parameter->type],
                             &values[i]);
  }
  if (!code)
    code = cl.launch(stream, function->kernel, 3, NULL, threads, block, 0, NULL, NULL);
  pthread_mutex_unlock(&function->lock);
  return code ? failed(code, binary->entry) : XTARGET_OK;
}

static int cl_allocate(xtarget_device *device, size_t size, void **memory) {
  *memory = cl.allocate(device->context, READ_WRITE, size, 64);
  return *memory ? XTARGET_OK
                 : xt_fail(XTARGET_OUT_OF_MEMORY, "%s has no %zu bytes of memory left.",
                           device->name, size);
}

static void cl_release(xtarget_device *device, void *memory) {
  cl.release(device->context, memory);
}

static int cl_borrow(xtarget_device *device, void *stream, size_t size, void **memory) {
  (void)stream;
  return cl_allocate(device, size, memory);
}

static int cl_give_back(xtarget_device *device, void *stream, void *memory) {
  (void)device;
  int32_t code = cl.release_later(stream, 1, &memory, NULL, NULL, 0, NULL, NULL);
  return code ? failed(code, "giving memory back behind an OpenCL queue's work") : XTARGET_OK;
}

static int cl_fill(xtarget_device *device, void *stream, void *memory, const uint8_t *pattern,
                   size_t pattern_size, size_t size) {
  int status = check_queue(device, stream);
  if (status) return status;
  int32_t code = cl.fill(stream, memory, pattern, pattern_size, size, 0, NULL, NULL);
  return code ? failed(code, "filling memory by an OpenCL queue") : XTARGET_OK;
}

static int cl_copy(xtarget_device *device, void *to, const void *from, size_t size, int to_device) {
  (void)to_device;
  int32_t code = cl.copy(device->own_stream, 1, to, from, size, 0, NULL, NULL);
  return code ? failed(code, "copying by an OpenCL queue") : XTARGET_OK;
}

const struct xt_driver xt_opencl = {
    XTARGET_OPENCL, 1, "OpenCL", cl_open, cl_open_in, cl_close, cl_synchronize, cl_load, cl_unload,
    cl_start, cl_allocate, cl_release, cl_borrow, cl_give_back, cl_fill, cl_copy};
