/* A program without Python, Triton or xtarget: it calls kernels that bundle_in_c.py emitted as C.
   Compiled with -DHIP it runs on AMD, else on NVIDIA; it needs no headers of theirs. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "xtarget_kernels.h"

#ifdef HIP
#define LIBRARY "libamdhip64.so"
#else
#define LIBRARY "libcuda.so.1"
#endif
enum { N = 1000 };
static void *symbol(const char *name) {
  static void *library;
  if (!library) library = dlopen(LIBRARY, RTLD_NOW);
  void *found = library ? dlsym(library, name) : NULL;
  if (!found) fprintf(stderr, "%s has no %s\n", LIBRARY, name), exit(1);
  return found;
}

#define CALL(name, types, ...) { \
    int (*function) types; \
    *(void **)&function = symbol(name); \
    int status = function(__VA_ARGS__); \
    if (status) fprintf(stderr, "%s gave %d\n", name, status), exit(1); }
int main(void) {
  int status = xt_load();
  if (status == XT_NO_DRIVER) return puts(xt_message(status)), 3;
  float host[N];
  uintptr_t x = 0, y = 0;
  for (int i = 0; i < N; i++) host[i] = (float)(i - N / 2);
#ifdef HIP
  CALL("hipMalloc", (uintptr_t *, size_t), &x, sizeof host);
  CALL("hipMalloc", (uintptr_t *, size_t), &y, sizeof host);
  CALL("hipMemcpy", (uintptr_t, const void *, size_t, int), x, host, sizeof host, 1);
#else
  int device; void *context;
  CALL("cuInit", (unsigned), 0);
  CALL("cuDeviceGet", (int *, int), &device, 0);
  CALL("cuDevicePrimaryCtxRetain", (void **, int), &context, device);
  CALL("cuCtxSetCurrent", (void *), context);
  CALL("cuMemAlloc_v2", (uintptr_t *, size_t), &x, sizeof host);
  CALL("cuMemAlloc_v2", (uintptr_t *, size_t), &y, sizeof host);
  CALL("cuMemcpyHtoD_v2", (uintptr_t, const void *, size_t), x, host, sizeof host);
#endif
  status = xt_relu_f32(NULL, (void *)x, (void *)y, N);
  if (status) return fprintf(stderr, "relu: %s\n", xt_message(status)), 1;
#ifdef HIP
  CALL("hipMemcpy", (void *, uintptr_t, size_t, int), host, y, sizeof host, 2);
#else
  CALL("cuMemcpyDtoH_v2", (void *, uintptr_t, size_t), host, y, sizeof host);
#endif
  for (int i = 0; i < N; i++)
    if (host[i] != (i < N / 2 ? 0 : (float)(i - N / 2))) return puts("WRONG"), 1;
  return puts("relu of 1000 numbers: right"), 0;
}
