/* CUDA and HIP: the same functions under two names. */
#define _POSIX_C_SOURCE 200809L
#include "device.h"

#include <stdio.h>

/* What both have: the result, the two symbols, our name, the parameters. */
#define BOTH(X)                                                                                 \
  X(int, cuInit, hipInit, init, (unsigned))                                                     \
  X(int, cuDeviceGetCount, hipGetDeviceCount, count, (int *))                                   \
  X(int, cuModuleLoadData, hipModuleLoadData, module_load, (void **, const void *))             \
  X(int, cuModuleUnload, hipModuleUnload, module_unload, (void *))                              \
  X(int, cuModuleGetFunction, hipModuleGetFunction, module_function, (void **, void *,          \
    const char *))                                                                              \
  X(int, cuLaunchKernel, hipModuleLaunchKernel, launch, (void *, unsigned, unsigned, unsigned,  \
    unsigned, unsigned, unsigned, unsigned, void *, void **, void **))                          \
  X(int, cuMemAlloc_v2, hipMalloc, allocate, (void **, size_t))                                 \
  X(int, cuMemFree_v2, hipFree, release, (void *))                                              \
  X(int, cuMemAllocAsync, hipMallocAsync, borrow, (void **, size_t, void *))                    \
  X(int, cuMemFreeAsync, hipFreeAsync, give_back, (void *, void *))                             \
  X(int, cuMemsetD8Async, hipMemsetD8Async, fill8, (void *, unsigned char, size_t, void *))     \
  X(int, cuMemsetD16Async, hipMemsetD16Async, fill16, (void *, unsigned short, size_t, void *)) \
  X(int, cuMemsetD32Async, hipMemsetD32Async, fill32, (void *, unsigned, size_t, void *))       \
  X(int, cuMemcpyHtoD_v2, hipMemcpyHtoD, copy_in, (void *, const void *, size_t))               \
  X(int, cuMemcpyDtoH_v2, hipMemcpyDtoH, copy_out, (void *, const void *, size_t))              \
  X(int, cuStreamSynchronize, hipStreamSynchronize, synchronize, (void *))

#define CUDA(X)                                                \
  X(int, cuDeviceGet, device_get, (int *, int))                \
  X(int, cuDeviceGetName, device_name, (char *, int, int))     \
  X(int, cuDeviceGetAttribute, attribute, (int *, int, int))   \
  X(int, cuDevicePrimaryCtxRetain, retain, (void **, int))     \
  X(int, cuDevicePrimaryCtxRelease_v2, give_back, (int))       \
  X(int, cuCtxGetCurrent, current, (void **))                  \
  X(int, cuCtxGetDevice, context_device, (int *))              \
  X(int, cuCtxPushCurrent_v2, push, (void *))                  \
  X(int, cuCtxPopCurrent_v2, pop, (void **))                   \
  X(int, cuFuncSetAttribute, function_set, (void *, int, int)) \
  X(int, cuGetErrorName, error_name, (int, const char **))     \
  X(int, cuGetErrorString, error_text, (int, const char **))

#define HIP(X)                                                   \
  X(int, hipGetDevicePropertiesR0600, properties, (void *, int)) \
  X(int, hipDeviceGetAttribute, attribute, (int *, int, int))    \
  X(int, hipGetDevice, get_device, (int *))                      \
  X(int, hipSetDevice, set_device, (int))                        \
  X(const char *, hipGetErrorName, error_name, (int))            \
  X(const char *, hipGetErrorString, error_text, (int))

#define MEMBER_OF_BOTH(result, of_cuda, of_hip, name, parameters) \
  XT_MEMBER(result, of_cuda, name, parameters)
struct api {
  BOTH(MEMBER_OF_BOTH)
};

static struct {
  struct api all;
  CUDA(XT_MEMBER)
} cu;

static struct {
  struct api all;
  HIP(XT_MEMBER)
} hip;

#define CUDA_SYMBOL(result, symbol, name, parameters) {#symbol, (void **)&cu.name},
#define CUDA_OF_BOTH(result, of_cuda, of_hip, name, parameters) {#of_cuda, (void **)&cu.all.name},
static const struct xt_symbol cu_symbols[] = {BOTH(CUDA_OF_BOTH) CUDA(CUDA_SYMBOL)};

#define HIP_SYMBOL(result, symbol, name, parameters) {#symbol, (void **)&hip.name},
#define HIP_OF_BOTH(result, of_cuda, of_hip, name, parameters) {#of_hip, (void **)&hip.all.name},
static const struct xt_symbol hip_symbols[] = {BOTH(HIP_OF_BOTH) HIP(HIP_SYMBOL)};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int cu_is_open, hip_is_open;

static int is_cuda(const struct xt_driver *driver) { return driver->number == XTARGET_CUDA; }

static const struct api *api_of(const xtarget_device *device) {
  return is_cuda(device->driver) ? &cu.all : &hip.all;
}

static int failed(const struct xt_driver *driver, int status, const char *what) {
  const char *name = "an unknown status", *text = "";
  if (!is_cuda(driver)) {
    name = hip.error_name(status);
    text = hip.error_text(status);
  } else if (cu.error_name(status, &name) || cu.error_text(status, &text)) {
    name = "an unknown status";
  }
  return xt_fail(status == 2 ? XTARGET_OUT_OF_MEMORY : XTARGET_DRIVER_FAILED, "%s failed: %s (%d): %s.",
                 what, name, status, text);
}

static int open_library(const struct xt_driver *driver) {
  int cuda = is_cuda(driver), *is_open = cuda ? &cu_is_open : &hip_is_open;
  int status = XTARGET_OK;
  pthread_mutex_lock(&lock);
  if (!*is_open) {
    status = cuda ? xt_open_library("CUDA", "XT_CUDA_LIBRARY", "libcuda.so.1", cu_symbols,
                                    sizeof cu_symbols / sizeof *cu_symbols)
                  : xt_open_library("HIP", "XT_HIP_LIBRARY", "libamdhip64.so", hip_symbols,
                                    sizeof hip_symbols / sizeof *hip_symbols);
    int code = status ? 0 : (cuda ? cu.all.init : hip.all.init)(0);
    if (code)
      status = xt_fail(XTARGET_NO_DRIVER, "%s cannot be used here: it gives the status %d when it is "
                       "initialised. Look whether there is a device and its driver.", driver->name,
                       code);
    *is_open = !status;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

/* Make the device's context the thread's, if it is not. `left` is what `leave` takes. */
static int enter(const xtarget_device *device, int *left) {
  *left = -1;
  if (is_cuda(device->driver)) {
    void *current = NULL;
    int code = cu.current(&current);
    if (!code && current != device->context) {
      code = cu.push(device->context);
      *left = code ? -1 : 0;
    }
    return code;
  }
  int current = 0, code = hip.get_device(&current);
  if (!code && current != device->ordinal) {
    code = hip.set_device(device->ordinal);
    *left = code ? -1 : current;
  }
  return code;
}

static void leave(const xtarget_device *device, int left) {
  void *popped;
  if (left < 0) return;
  if (is_cuda(device->driver))
    cu.pop(&popped);
  else
    hip.set_device(left);
}

static int describe_cuda(xtarget_device *device, int number) {
  int major = 0, minor = 0, units = 0;
  /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR, MULTIPROCESSOR_COUNT */
  int code = cu.attribute(&major, 75, number);
  if (!code) code = cu.attribute(&minor, 76, number);
  if (!code) code = cu.attribute(&units, 16, number);
  if (!code) code = cu.device_name(device->name, sizeof device->name - 1, number);
  if (code) return failed(device->driver, code, "asking a device for what it is");
  device->units = units;
  device->ordinal = number;
  snprintf(device->target, sizeof device->target, "nvidia:sm_%d%d", major, minor);
  return XTARGET_OK;
}

/* Open the library, and look whether it has a device of this number. */
static int open_counted(const xtarget_device *device, int ordinal) {
  int count = 0, status = open_library(device->driver);
  if (status) return status;
  int code = api_of(device)->count(&count);
  if (code) return failed(device->driver, code, "counting the devices");
  if (ordinal < count) return XTARGET_OK;
  return xt_fail(XTARGET_NO_DRIVER, "%s has %d devices here, and none with the number %d.",
                 device->driver->name, count, ordinal);
}

static int cuda_open(xtarget_device *device, int ordinal) {
  int number = 0, status = open_counted(device, ordinal);
  if (status) return status;
  int code = cu.device_get(&number, ordinal);
  if (code) return failed(device->driver, code, "opening a device");
  status = describe_cuda(device, number);
  if (status) return status;
  code = cu.retain(&device->context, number);
  if (code) return failed(device->driver, code, "retaining the device's primary context");
  device->owns_context = 1;
  return XTARGET_OK;
}

static int cuda_open_in(xtarget_device *device, void *context, void *native) {
  int left, number = 0;
  (void)native;
  int status = open_library(device->driver);
  if (status) return status;
  device->context = context;
  int code = enter(device, &left);
  if (!code) code = cu.context_device(&number);
  leave(device, left);
  return code ? failed(device->driver, code, "using the given context")
              : describe_cuda(device, number);
}

static void cuda_close(xtarget_device *device) {
  if (device->owns_context) cu.give_back(device->ordinal);
}

/* The properties' layout is the HIP version's; the arch is the only text of its form behind the
 * device's name, which comes first and has 256 bytes. */
static int find_arch(const char *properties, size_t size, char *arch, size_t room) {
  for (size_t i = 256; i + 8 < size; i++) {
    size_t length = 3;
    if (memcmp(properties + i, "gfx", 3) != 0) continue;
    while (i + length < size && length < room - 1 &&
           strchr("0123456789abcdef", properties[i + length]) && properties[i + length])
      length++;
    if (length < 6) continue;
    memcpy(arch, properties + i, length);
    arch[length] = 0;
    return 1;
  }
  return 0;
}

static int hip_open(xtarget_device *device, int ordinal) {
  int units = 0, status = open_counted(device, ordinal);
  if (status) return status;
  enum { ROOM = 16384 }; /* the structure has 1.5 KB in ROCm 6 and 7 */
  char arch[32], *properties = calloc(1, ROOM);
  if (!properties) return xt_no_memory();
  int code = hip.properties(properties, ordinal);
  if (!code) code = hip.attribute(&units, 63, ordinal); /* hipDeviceAttributeMultiprocessorCount */
  int known = !code && find_arch(properties, ROOM, arch, sizeof arch);
  snprintf(device->name, sizeof device->name, "%.150s", properties);
  free(properties);
  if (code) return failed(device->driver, code, "asking a device for what it is");
  if (!known)
    return xt_fail(XTARGET_NO_DRIVER, "HIP does not say which arch %s has. Update ROCm.",
                   device->name);
  device->units = units;
  snprintf(device->target, sizeof device->target, "amd:%s", arch);
  return XTARGET_OK;
}

static int hip_open_in(xtarget_device *device, void *context, void *native) {
  (void)device, (void)context, (void)native;
  return xt_fail(XTARGET_BAD_ARGUMENT, "HIP has no contexts. Open the device by its number, with "
                 "xtarget_device_open.");
}

static void hip_close(xtarget_device *device) { (void)device; }

struct function {
  void *module, *function;
};

static int load(xtarget_device *device, const struct xt_binary *binary, const uint8_t *bytes,
                size_t size, void **result) {
  const struct api *api = api_of(device);
  int left;
  (void)size;
  struct function *made = calloc(1, sizeof *made);
  if (!made) return xt_no_memory();
  int code = enter(device, &left);
  if (!code) code = api->module_load(&made->module, bytes);
  if (!code) code = api->module_function(&made->function, made->module, binary->entry);
  /* Dynamic shared memory above 48 KiB has to be asked for (CUDA C++ Programming Guide, "Shared
   * Memory"); 8 is CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES. HIP asks for nothing. */
  if (!code && is_cuda(device->driver) && binary->shared_bytes > 48 * 1024)
    code = cu.function_set(made->function, 8, (int)binary->shared_bytes);
  if (code && made->module) api->module_unload(made->module);
  leave(device, left);
  if (code) {
    free(made);
    return failed(device->driver, code, binary->entry);
  }
  *result = made;
  return XTARGET_OK;
}

static void unload(xtarget_device *device, void *loaded) {
  struct function *function = loaded;
  int left;
  if (!enter(device, &left)) api_of(device)->module_unload(function->module);
  leave(device, left);
  free(function);
}

static int start(xtarget_device *device, void *loaded, const struct xt_binary *binary,
                 const unsigned grid[3], uint64_t *values, void *stream) {
  const struct function *function = loaded;
  void *places[XT_MOST_SLOTS];
  int left;
  for (unsigned i = 0; i < binary->parameter_count; i++) places[i] = &values[i];
  int code = enter(device, &left);
  if (!code)
    code = api_of(device)->launch(function->function, grid[0], grid[1], grid[2], binary->threads, 1,
                                  1, binary->shared_bytes, stream, places, NULL);
  leave(device, left);
  return code ? failed(device->driver, code, binary->entry) : XTARGET_OK;
}

static int synchronize(xtarget_device *device, void *stream) {
  int left, code = enter(device, &left);
  if (!code) code = api_of(device)->synchronize(stream);
  leave(device, left);
  return code ? failed(device->driver, code, "waiting for a stream") : XTARGET_OK;
}

/* ----------------------------------------------------------------------------------- memory */

static int allocate(xtarget_device *device, size_t size, void **memory) {
  int left, code = enter(device, &left);
  if (!code) code = api_of(device)->allocate(memory, size);
  leave(device, left);
  return code ? failed(device->driver, code, "allocating memory") : XTARGET_OK;
}

static void release(xtarget_device *device, void *memory) {
  int left;
  if (!enter(device, &left)) api_of(device)->release(memory);
  leave(device, left);
}

static int borrow(xtarget_device *device, void *stream, size_t size, void **memory) {
  int left, code = enter(device, &left);
  if (!code) code = api_of(device)->borrow(memory, size, stream);
  leave(device, left);
  return code ? failed(device->driver, code, "allocating memory in a stream") : XTARGET_OK;
}

static int give_back(xtarget_device *device, void *stream, void *memory) {
  int left, code = enter(device, &left);
  if (!code) code = api_of(device)->give_back(memory, stream);
  leave(device, left);
  return code ? failed(device->driver, code, "freeing memory in a stream") : XTARGET_OK;
}

static int fill(xtarget_device *device, void *stream, void *memory, const uint8_t *pattern,
                size_t pattern_size, size_t size) {
  const struct api *api = api_of(device);
  uint32_t word = 0, high = 0;
  int left;
  memcpy(&word, pattern, pattern_size < 4 ? pattern_size : 4);
  if (pattern_size == 8) {
    memcpy(&high, pattern + 4, 4);
    if (high != word)
      return xt_fail(XTARGET_NOT_IN_BUNDLE, "%s cannot fill memory with this number of 64 bits. Call "
                     "the kernel from Python.", device->driver->name);
    pattern_size = 4;
  }
  int code = enter(device, &left);
  if (!code && pattern_size == 1) code = api->fill8(memory, (unsigned char)word, size, stream);
  if (!code && pattern_size == 2)
    code = api->fill16(memory, (unsigned short)word, size / 2, stream);
  if (!code && pattern_size == 4) code = api->fill32(memory, word, size / 4, stream);
  leave(device, left);
  return code ? failed(device->driver, code, "filling memory") : XTARGET_OK;
}

static int copy(xtarget_device *device, void *to, const void *from, size_t size, int to_device) {
  int left, code = enter(device, &left);
  if (!code) code = (to_device ? api_of(device)->copy_in : api_of(device)->copy_out)(to, from, size);
  leave(device, left);
  return code ? failed(device->driver, code, "copying memory") : XTARGET_OK;
}

const struct xt_driver xt_cuda = {
    XTARGET_CUDA, 2, "CUDA", cuda_open, cuda_open_in, cuda_close, synchronize, load, unload, start,
    allocate, release, borrow, give_back, fill, copy};
const struct xt_driver xt_hip = {
    XTARGET_HIP, 10, "HIP", hip_open, hip_open_in, hip_close, synchronize, load, unload, start,
    allocate, release, borrow, give_back, fill, copy};
