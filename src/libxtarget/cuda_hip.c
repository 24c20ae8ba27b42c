/* CUDA and HIP: the same functions under two names. */
#define _POSIX_C_SOURCE 200809L
#include "device.h"

#include <stdio.h>

struct api {
  int (*init)(unsigned);
  int (*module_load)(void **, const void *);
  int (*module_unload)(void *);
  int (*module_function)(void **, void *, const char *);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                void **, void **);
  int (*allocate)(void **, size_t);
  int (*release)(void *);
  int (*borrow)(void **, size_t, void *);
  int (*give_back)(void *, void *);
  int (*fill8)(void *, unsigned char, size_t, void *);
  int (*fill16)(void *, unsigned short, size_t, void *);
  int (*fill32)(void *, unsigned, size_t, void *);
  int (*copy_in)(void *, const void *, size_t);
  int (*copy_out)(void *, const void *, size_t);
  int (*synchronize)(void *);
};

static struct {
  struct api all;
  int (*count)(int *);
  int (*device_get)(int *, int);
  int (*device_name)(char *, int, int);
  int (*attribute)(int *, int, int);
  int (*retain)(void **, int);
  int (*give_back)(int);
  int (*current)(void **);
  int (*context_device)(int *);
  int (*push)(void *);
  int (*pop)(void **);
  int (*function_set)(void *, int, int);
  int (*error_name)(int, const char **);
  int (*error_text)(int, const char **);
} cu;

static struct {
  struct api all;
  int (*count)(int *);
  int (*properties)(void *, int);
  int (*attribute)(int *, int, int);
  int (*get_device)(int *);
  int (*set_device)(int);
  const char *(*error_name)(int);
  const char *(*error_text)(int);
} hip;

static const struct xt_symbol cu_symbols[] = {
    {"cuInit", (void **)&cu.all.init},
    {"cuModuleLoadData", (void **)&cu.all.module_load},
    {"cuModuleUnload", (void **)&cu.all.module_unload},
    {"cuModuleGetFunction", (void **)&cu.all.module_function},
    {"cuLaunchKernel", (void **)&cu.all.launch},
    {"cuMemAlloc_v2", (void **)&cu.all.allocate},
    {"cuMemFree_v2", (void **)&cu.all.release},
    {"cuMemAllocAsync", (void **)&cu.all.borrow},
    {"cuMemFreeAsync", (void **)&cu.all.give_back},
    {"cuMemsetD8Async", (void **)&cu.all.fill8},
    {"cuMemsetD16Async", (void **)&cu.all.fill16},
    {"cuMemsetD32Async", (void **)&cu.all.fill32},
    {"cuMemcpyHtoD_v2", (void **)&cu.all.copy_in},
    {"cuMemcpyDtoH_v2", (void **)&cu.all.copy_out},
    {"cuStreamSynchronize", (void **)&cu.all.synchronize},
    {"cuDeviceGetCount", (void **)&cu.count},
    {"cuDeviceGet", (void **)&cu.device_get},
    {"cuDeviceGetName", (void **)&cu.device_name},
    {"cuDeviceGetAttribute", (void **)&cu.attribute},
    {"cuDevicePrimaryCtxRetain", (void **)&cu.retain},
    {"cuDevicePrimaryCtxRelease_v2", (void **)&cu.give_back},
    {"cuCtxGetCurrent", (void **)&cu.current},
    {"cuCtxGetDevice", (void **)&cu.context_device},
    {"cuCtxPushCurrent_v2", (void **)&cu.push},
    {"cuCtxPopCurrent_v2", (void **)&cu.pop},
    {"cuFuncSetAttribute", (void **)&cu.function_set},
    {"cuGetErrorName", (void **)&cu.error_name},
    {"cuGetErrorString", (void **)&cu.error_text},
};

static const struct xt_symbol hip_symbols[] = {
    {"hipInit", (void **)&hip.all.init},
    {"hipModuleLoadData", (void **)&hip.all.module_load},
    {"hipModuleUnload", (void **)&hip.all.module_unload},
    {"hipModuleGetFunction", (void **)&hip.all.module_function},
    {"hipModuleLaunchKernel", (void **)&hip.all.launch},
    {"hipMalloc", (void **)&hip.all.allocate},
    {"hipFree", (void **)&hip.all.release},
    {"hipMallocAsync", (void **)&hip.all.borrow},
    {"hipFreeAsync", (void **)&hip.all.give_back},
    {"hipMemsetD8Async", (void **)&hip.all.fill8},
    {"hipMemsetD16Async", (void **)&hip.all.fill16},
    {"hipMemsetD32Async", (void **)&hip.all.fill32},
    {"hipMemcpyHtoD", (void **)&hip.all.copy_in},
    {"hipMemcpyDtoH", (void **)&hip.all.copy_out},
    {"hipStreamSynchronize", (void **)&hip.all.synchronize},
    {"hipGetDeviceCount", (void **)&hip.count},
    {"hipGetDevicePropertiesR0600", (void **)&hip.properties},
    {"hipDeviceGetAttribute", (void **)&hip.attribute},
    {"hipGetDevice", (void **)&hip.get_device},
    {"hipSetDevice", (void **)&hip.set_device},
    {"hipGetErrorName", (void **)&hip.error_name},
    {"hipGetErrorString", (void **)&hip.error_text},
};

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

static int cuda_open(xtarget_device *device, int ordinal) {
  int count = 0, number = 0;
  int status = open_library(device->driver);
  if (status) return status;
  int code = cu.count(&count);
  if (!code && ordinal >= count)
    return xt_fail(XTARGET_NO_DRIVER, "CUDA has %d devices here, and none with the number %d.", count,
                   ordinal);
  if (!code) code = cu.device_get(&number, ordinal);
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
  int count = 0, units = 0;
  int status = open_library(device->driver);
  if (status) return status;
  int code = hip.count(&count);
  if (!code && ordinal >= count)
    return xt_fail(XTARGET_NO_DRIVER, "HIP has %d devices here, and none with the number %d.", count,
                   ordinal);
  enum { ROOM = 16384 }; /* the structure has 1.5 KB in ROCm 6 and 7 */
  char arch[32], *properties = calloc(1, ROOM);
  if (!properties) return xt_no_memory();
  if (!code) code = hip.properties(properties, ordinal);
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
