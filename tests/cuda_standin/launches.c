/* A stand-in libcuda.so.1 that loads binaries for the arch of the current context and writes down
   every launch instead of doing it. The tests set it up and read it through standin_*. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;

struct function {
  char name[64];
};

static _Thread_local long current = 1;
static _Thread_local char last[2048];
static _Thread_local char layout[64];
static int arch_of[16] = {0, 80, 80, 80, 80};
static int loads, launches, failing;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void standin_context(long id, int arch) {
  current = id;
  if (id) arch_of[id] = arch;
}
void standin_layout(const char *bytes) { snprintf(layout, sizeof layout, "%s", bytes); }
void standin_fail(int status) { failing = status; }
const char *standin_last(void) { return last; }
int standin_loads(void) { return loads; }
int standin_launches(void) { return launches; }

CUresult cuInit(unsigned flags) {
  (void)flags;
  const char *text = getenv("STANDIN_INIT");
  return text ? atoi(text) : 0;
}

CUresult cuCtxGetCurrent(void **context) {
  *context = (void *)current;
  return 0;
}

CUresult cuCtxGetId(void *context, unsigned long long *id) {
  *id = 1000 + (unsigned long long)(long)context;
  return 0;
}

/* The arch of an ELF's flags (from ABI version 8 on in bits 8-15), or of PTX's .target. */
static int arch(const unsigned char *image, int *exact) {
  unsigned flags;
  if (memcmp(image, "\177ELF", 4)) {
    const char *found = strstr((const char *)image, ".target sm_");
    *exact = 0;
    return found ? atoi(found + strlen(".target sm_")) : 0;
  }
  *exact = 1;
  memcpy(&flags, image + 48, 4);
  return flags >> (image[8] >= 8 ? 8 : 0) & 0xFF;
}

CUresult cuModuleLoadData(void **module, const void *image) {
  int exact, made = arch(image, &exact), here = arch_of[current];
  if (!made) return 200;                                /* CUDA_ERROR_INVALID_IMAGE */
  if (exact && (made / 10 != here / 10 || made > here)) return 209; /* NO_BINARY_FOR_GPU */
  if (!exact && made > here) return 218;                /* CUDA_ERROR_INVALID_PTX */
  pthread_mutex_lock(&lock);
  loads++;
  pthread_mutex_unlock(&lock);
  *module = (void *)image;
  return 0;
}

CUresult cuModuleGetFunction(void **function, void *module, const char *name) {
  (void)module;
  struct function *made = malloc(sizeof *made);
  if (!made) return 2; /* CUDA_ERROR_OUT_OF_MEMORY */
  snprintf(made->name, sizeof made->name, "%s", name);
  *function = made;
  return 0;
}

CUresult cuFuncSetAttribute(void *function, int attribute, int value) {
  (void)function;
  return attribute == 8 && value > 48 * 1024 ? 0 : 1; /* CUDA_ERROR_INVALID_VALUE */
}

CUresult cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads,
                        unsigned two, unsigned three, unsigned shared, void *stream, void **values,
                        void **extra) {
  (void)extra;
  if (failing) return failing;
  char *at = last;
  at += sprintf(at, "%s %u %u %u %u %u %u %u %p", ((struct function *)function)->name, x, y, z,
                threads, two, three, shared, stream);
  for (size_t i = 0; i < strlen(layout); i++) {
    long long value = 0;
    memcpy(&value, values[i], layout[i] - '0');
    if (layout[i] == '4') value = (int)value;
    at += sprintf(at, " %lld", value);
  }
  pthread_mutex_lock(&lock);
  launches++;
  pthread_mutex_unlock(&lock);
  return 0;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
  *name = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_STANDIN";
  return 0;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  (void)error;
  *text = "a stand-in";
  return 0;
}
