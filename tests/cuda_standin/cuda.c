/* A stand-in libcuda.so.1 that answers a probe the way STANDIN says: for the reasons that a probe
   gives where there is no GPU that works. It runs nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int CUresult;

static int said(const char *what) {
  const char *text = getenv("STANDIN");
  return text && strcmp(text, what) == 0;
}

__attribute__((constructor)) static void loaded(void) {
  if (said("blocks when loaded")) sleep(3600);
  if (said("prints")) fprintf(stderr, "NOISE\n"), printf("NOISE\n"), fflush(stdout);
}

CUresult cuInit(unsigned flags) {
  (void)flags;
  if (said("blocks")) sleep(3600);
  if (said("crashes")) abort();
  if (said("no device") || said("no permission")) return 100; /* CUDA_ERROR_NO_DEVICE */
  if (said("mismatch")) return 803;  /* CUDA_ERROR_SYSTEM_DRIVER_MISMATCH */
  return 0;
}

CUresult cuDriverGetVersion(int *version) {
  *version = said("old") ? 12040 : 13000;
  return 0;
}

CUresult cuDeviceGetCount(int *count) {
  *count = 0;
  return 0;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
  (void)error;
  *name = "CUDA_ERROR_STANDIN";
  return 0;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  (void)error;
  *text = "a stand-in";
  return 0;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
                             unsigned long long flags, int *found) {
  (void)version, (void)flags;
  *function = dlsym(RTLD_DEFAULT, symbol);
  if (found) *found = *function ? 0 : 1;
  return *function ? 0 : 500; /* CUDA_ERROR_NOT_FOUND */
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version,
                          unsigned long long flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
