/* A stand-in libcuda.so.1 that launches nothing: it takes images that begin with the text of its
   variable STANDIN_IMAGES, and keeps what it was asked to launch. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char last[512];
static int depth;
const char *standin_last(void) { return last; }
int standin_depth(void) { return depth; }

int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char *name, int room, int device) {
  return snprintf(name, (size_t)room, "stand-in %d", device), 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  int capability = atoi(getenv("STANDIN_CAPABILITY"));
  (void)device;
  *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 132;
  return attribute != 75 && attribute != 76 && attribute != 16;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  return *context = (void *)(uintptr_t)(0x100 + device), 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return device; }
int cuCtxGetCurrent(void **context) { return *context = NULL, 0; }
int cuCtxGetDevice(int *device) { return *device = 0, 0; }
int cuCtxPushCurrent_v2(void *context) { return depth++, context != (void *)0x100; }
int cuCtxPopCurrent_v2(void **context) { return depth--, *context = NULL, 0; }
int cuModuleLoadData(void **module, const void *image) {
  *module = strdup(image);
  return 0;
}
int cuModuleUnload(void *module) { return free(module), 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
  return *function = module, strcmp(name, "entry") ? 500 : 0;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
  return !function || attribute != 8 || value != 65536;
}
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **parameters, void **extra) {
  snprintf(last, sizeof last, "%s grid %u %u %u block %u %u %u shared %u stream %p n %d out %d hidden %d",
           (char *)function, x, y, z, threads, by, bz, shared, stream, *(int32_t *)parameters[1],
           *(void **)parameters[0] != NULL, *(void **)parameters[2] != NULL);
  return extra != NULL;
}
int cuMemAlloc_v2(void **memory, size_t size) { return *memory = malloc(size), 0; }
int cuMemFree_v2(void *memory) { return free(memory), 0; }
int cuMemAllocAsync(void **memory, size_t size, void *stream) {
  return (void)stream, *memory = malloc(size), 0;
}
int cuMemFreeAsync(void *memory, void *stream) { return (void)stream, free(memory), 0; }
int cuMemsetD8Async(void *at, unsigned char value, size_t count, void *stream) {
  return (void)stream, memset(at, value, count), 0;
}
int cuMemsetD16Async(void *at, unsigned short value, size_t count, void *stream) {
  (void)stream;
  for (size_t i = 0; i < count; i++) ((unsigned short *)at)[i] = value;
  return 0;
}
int cuMemsetD32Async(void *at, unsigned value, size_t count, void *stream) {
  (void)stream;
  for (size_t i = 0; i < count; i++) ((unsigned *)at)[i] = value;
  return 0;
}
int cuMemcpyHtoD_v2(void *to, const void *from, size_t size) { return memcpy(to, from, size), 0; }
int cuMemcpyDtoH_v2(void *to, const void *from, size_t size) { return memcpy(to, from, size), 0; }
int cuStreamSynchronize(void *stream) { return (void)stream, 0; }
int cuGetErrorName(int error, const char **name) { return (void)error, *name = "ERROR", 0; }
int cuGetErrorString(int error, const char **text) { return (void)error, *text = "a text", 0; }
