/* Level Zero: Intel's GPUs. A stream is an immediate, in-order command list.
 *
 * Source: oneAPI Level Zero specification 1.9, "ze_api.h"; the declarations are our own and hold what
 * the ABI fixes.
 */
#define _POSIX_C_SOURCE 200809L
#include "device.h"

#include <stdio.h>

enum {
  DEVICE_PROPERTIES = 0x3, CONTEXT_DESC = 0xd, COMMAND_QUEUE_DESC = 0xe, MODULE_DESC = 0x1b,
  KERNEL_DESC = 0x1d, DEVICE_MEM_DESC = 0x15, HOST_MEM_DESC = 0x16,
  TYPE_GPU = 1, FORMAT_SPIRV = 0, IN_ORDER = 2, ASYNCHRONOUS = 2
};

struct context_desc { uint32_t kind; const void *next; uint32_t flags; };
struct queue_desc {
  uint32_t kind;
  const void *next;
  uint32_t ordinal, index, flags, mode, priority;
};
struct module_desc {
  uint32_t kind;
  const void *next;
  uint32_t format;
  size_t size;
  const uint8_t *bytes;
  const char *flags;
  const void *constants;
};
struct kernel_desc { uint32_t kind; const void *next; uint32_t flags; const char *name; };
struct memory_desc { uint32_t kind; const void *next; uint32_t flags, ordinal; };
struct host_desc { uint32_t kind; const void *next; uint32_t flags; };
struct groups { uint32_t x, y, z; };
struct properties {
  uint32_t kind;
  void *next;
  uint32_t type, vendor, device, flags, subdevice, clock;
  uint64_t most_memory;
  uint32_t contexts, priorities, threads_of_unit, width, units_of_subslice, subslices_of_slice, slices;
  uint64_t timer;
  uint32_t timestamp_bits, kernel_timestamp_bits;
  uint8_t uuid[16];
  char name[256];
};

#define LEVEL_ZERO(X)                                                                             \
  X(int, zeInit, init, (uint32_t))                                                                \
  X(int, zeDriverGet, drivers, (uint32_t *, void **))                                             \
  X(int, zeDeviceGet, devices, (void *, uint32_t *, void **))                                     \
  X(int, zeDeviceGetProperties, properties, (void *, struct properties *))                        \
  X(int, zeContextCreate, create_context, (void *, const struct context_desc *, void **))         \
  X(int, zeContextDestroy, destroy_context, (void *))                                             \
  X(int, zeCommandListCreateImmediate, create_list, (void *, void *, const struct queue_desc *,   \
    void **))                                                                                     \
  X(int, zeCommandListDestroy, destroy_list, (void *))                                            \
  X(int, zeCommandListHostSynchronize, synchronize, (void *, uint64_t))                           \
  X(int, zeModuleCreate, create_module, (void *, void *, const struct module_desc *, void **,     \
    void **))                                                                                     \
  X(int, zeModuleBuildLogGetString, log_text, (void *, size_t *, char *))                         \
  X(int, zeModuleBuildLogDestroy, destroy_log, (void *))                                          \
  X(int, zeModuleDestroy, destroy_module, (void *))                                               \
  X(int, zeKernelCreate, create_kernel, (void *, const struct kernel_desc *, void **))            \
  X(int, zeKernelDestroy, destroy_kernel, (void *))                                               \
  X(int, zeKernelSetGroupSize, group_size, (void *, uint32_t, uint32_t, uint32_t))                \
  X(int, zeKernelSetArgumentValue, set_argument, (void *, uint32_t, size_t, const void *))        \
  X(int, zeCommandListAppendLaunchKernel, launch, (void *, void *, const struct groups *, void *, \
    uint32_t, void **))                                                                           \
  X(int, zeMemAllocShared, allocate, (void *, const struct memory_desc *,                         \
    const struct host_desc *, size_t, size_t, void *, void **))                                   \
  X(int, zeMemFree, release, (void *, void *))                                                    \
  X(int, zeCommandListAppendMemoryFill, fill, (void *, void *, const void *, size_t, size_t,      \
    void *, uint32_t, void **))                                                                   \
  X(int, zeCommandListAppendMemoryCopy, copy, (void *, void *, const void *, size_t, void *,      \
    uint32_t, void **))

static struct {
  LEVEL_ZERO(XT_MEMBER)
} ze;

#define SYMBOL(result, symbol, name, parameters) {#symbol, (void **)&ze.name},
static const struct xt_symbol symbols[] = {LEVEL_ZERO(SYMBOL)};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int is_open;

static int failed(int status, const char *what) {
  int memory = status == 0x70000002 || status == 0x70000003; /* OUT_OF_HOST_, OUT_OF_DEVICE_MEMORY */
  return xt_fail(memory ? XTARGET_OUT_OF_MEMORY : XTARGET_DRIVER_FAILED,
                 "%s failed: Level Zero gives the status 0x%x (ze_api.h names it).", what,
                 (unsigned)status);
}

static int open_library(void) {
  pthread_mutex_lock(&lock);
  int status = XTARGET_OK;
  if (!is_open) {
    status = xt_open_library("Level Zero", "XT_LEVEL_ZERO_LIBRARY", "libze_loader.so.1", symbols,
                             sizeof symbols / sizeof *symbols);
    int code = status ? 0 : ze.init(0);
    if (code)
      status = xt_fail(XTARGET_NO_DRIVER, "Level Zero cannot be used here: it gives the status 0x%x "
                       "when it is initialised. Look whether there is a GPU and its driver.",
                       (unsigned)code);
    is_open = !status;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

static int describe(xtarget_device *device) {
  struct properties found = {.kind = DEVICE_PROPERTIES};
  int code = ze.properties(device->native, &found);
  if (code) return failed(code, "asking a device for what it is");
  snprintf(device->name, sizeof device->name, "%.150s", found.name);
  snprintf(device->target, sizeof device->target, "intel:spirv64");
  device->units =
      (int64_t)found.slices * found.subslices_of_slice * found.units_of_subslice;
  return XTARGET_OK;
}

/* The device's own list, for programs that have none and for copies. */
static int with_list(xtarget_device *device) {
  struct queue_desc desc = {.kind = COMMAND_QUEUE_DESC, .flags = IN_ORDER, .mode = ASYNCHRONOUS};
  int code = ze.create_list(device->context, device->native, &desc, &device->own_stream);
  if (!code) return XTARGET_OK;
  if (device->owns_context) ze.destroy_context(device->context);
  return failed(code, "making a command list");
}

static int ze_open(xtarget_device *device, int ordinal) {
  void *drivers[16], *devices[64];
  uint32_t driver_count = 16;
  int seen = 0, status = open_library();
  if (status) return status;
  int code = ze.drivers(&driver_count, drivers);
  for (uint32_t d = 0; !code && d < driver_count && d < 16; d++) {
    uint32_t count = 64;
    code = ze.devices(drivers[d], &count, devices);
    for (uint32_t i = 0; !code && i < count && i < 64; i++) {
      struct properties found = {.kind = DEVICE_PROPERTIES};
      code = ze.properties(devices[i], &found);
      if (code || found.type != TYPE_GPU || seen++ != ordinal) continue;
      struct context_desc desc = {.kind = CONTEXT_DESC};
      device->native = devices[i];
      code = ze.create_context(drivers[d], &desc, &device->context);
      if (code) return failed(code, "making a context");
      device->owns_context = 1;
      status = describe(device);
      if (status) ze.destroy_context(device->context);
      return status ? status : with_list(device);
    }
  }
  if (code) return failed(code, "looking for devices");
  return xt_fail(XTARGET_NO_DRIVER, "Level Zero has %d GPUs here, and none with the number %d.", seen,
                 ordinal);
}

static int ze_open_in(xtarget_device *device, void *context, void *native) {
  int status = open_library();
  if (status) return status;
  if (!native)
    return xt_fail(XTARGET_BAD_ARGUMENT, "a Level Zero device is given by its context and its handle.");
  device->context = context;
  device->native = native;
  status = describe(device);
  return status ? status : with_list(device);
}

static void ze_close(xtarget_device *device) {
  ze.synchronize(device->own_stream, UINT64_MAX);
  ze.destroy_list(device->own_stream);
  if (device->owns_context) ze.destroy_context(device->context);
}

static int check_list(void *stream) {
  return stream ? XTARGET_OK
                : xt_fail(XTARGET_BAD_ARGUMENT, "Level Zero has no default stream: give an immediate "
                          "command list, for example that of xtarget_device_stream.");
}

static int ze_synchronize(xtarget_device *device, void *stream) {
  (void)device;
  int status = check_list(stream);
  if (status) return status;
  int code = ze.synchronize(stream, UINT64_MAX);
  return code ? failed(code, "waiting for a command list") : XTARGET_OK;
}

/* A kernel object holds its arguments: one launch at a time sets them. */
struct function {
  void *module, *kernel;
  pthread_mutex_t lock;
};

static void ze_unload(xtarget_device *device, void *loaded) {
  struct function *function = loaded;
  (void)device;
  if (function->kernel) ze.destroy_kernel(function->kernel);
  if (function->module) ze.destroy_module(function->module);
  pthread_mutex_destroy(&function->lock);
  free(function);
}

static int ze_load(xtarget_device *device, const struct xt_binary *binary, const uint8_t *bytes,
                   size_t size, void **result) {
  struct function *function = calloc(1, sizeof *function);
  if (!function || pthread_mutex_init(&function->lock, NULL)) {
    free(function);
    return xt_no_memory();
  }
  struct module_desc desc = {
      .kind = MODULE_DESC, .format = FORMAT_SPIRV, .size = size, .bytes = bytes, .flags = ""};
  struct kernel_desc kernel = {.kind = KERNEL_DESC, .name = binary->entry};
  char log[1000] = "";
  size_t room = sizeof log - 1;
  void *build = NULL;
  int code = ze.create_module(device->context, device->native, &desc, &function->module, &build);
  if (code && build && ze.log_text(build, &room, log)) log[0] = 0;
  if (build) ze.destroy_log(build);
  if (!code) code = ze.create_kernel(function->module, &kernel, &function->kernel);
  if (!code) code = ze.group_size(function->kernel, binary->threads, 1, 1);
  if (code) {
    ze_unload(device, function);
    return xt_fail(XTARGET_DRIVER_FAILED, "%s cannot be loaded on %s: Level Zero gives the status "
                   "0x%x. %s", binary->entry, device->name, (unsigned)code, log);
  }
  *result = function;
  return XTARGET_OK;
}

static int ze_start(xtarget_device *device, void *loaded, const struct xt_binary *binary,
                    const unsigned grid[3], uint64_t *values, void *stream) {
  struct function *function = loaded;
  struct groups groups = {grid[0], grid[1], grid[2]};
  (void)device;
  int code = 0, status = check_list(stream);
  if (status) return status;
  pthread_mutex_lock(&function->lock);
  for (unsigned i = 0; !code && i < binary->parameter_count; i++) {
    const struct xt_parameter *parameter = &binary->parameters[i];
    size_t size = parameter->flags & XT_MEMORY ? 8 : xt_dtype_sizes[parameter->type];
    code = ze.set_argument(function->kernel, i, size, &values[i]);
  }
  if (!code) code = ze.launch(stream, function->kernel, &groups, NULL, 0, NULL);
  pthread_mutex_unlock(&function->lock);
  return code ? failed(code, binary->entry) : XTARGET_OK;
}

static int ze_allocate(xtarget_device *device, size_t size, void **memory) {
  struct memory_desc desc = {.kind = DEVICE_MEM_DESC};
  struct host_desc host = {.kind = HOST_MEM_DESC};
  int code = ze.allocate(device->context, &desc, &host, size, 64, device->native, memory);
  return code ? failed(code, "allocating memory") : XTARGET_OK;
}

static void ze_release(xtarget_device *device, void *memory) { ze.release(device->context, memory); }

static int ze_borrow(xtarget_device *device, void *stream, size_t size, void **memory) {
  (void)stream;
  return ze_allocate(device, size, memory);
}

/* Level Zero frees nothing in the order of a list: the work is waited for. */
static int ze_give_back(xtarget_device *device, void *stream, void *memory) {
  int status = ze_synchronize(device, stream);
  ze_release(device, memory);
  return status;
}

static int ze_fill(xtarget_device *device, void *stream, void *memory, const uint8_t *pattern,
                   size_t pattern_size, size_t size) {
  (void)device;
  int status = check_list(stream);
  if (status) return status;
  int code = ze.fill(stream, memory, pattern, pattern_size, size, NULL, 0, NULL);
  return code ? failed(code, "filling memory") : XTARGET_OK;
}

static int ze_copy(xtarget_device *device, void *to, const void *from, size_t size, int to_device) {
  (void)to_device;
  int code = ze.copy(device->own_stream, to, from, size, NULL, 0, NULL);
  if (!code) code = ze.synchronize(device->own_stream, UINT64_MAX);
  return code ? failed(code, "copying memory") : XTARGET_OK;
}

const struct xt_driver xt_level_zero = {
    XTARGET_LEVEL_ZERO, 14, "Level Zero", ze_open, ze_open_in, ze_close, ze_synchronize, ze_load,
    ze_unload, ze_start, ze_allocate, ze_release, ze_borrow, ze_give_back, ze_fill, ze_copy};
