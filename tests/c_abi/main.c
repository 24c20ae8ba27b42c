/* Runs the emitted C functions on a GPU and compares with loops on the host; `ci/gpu.sh c_abi`.

   Needs no CUDA headers: what it uses of the driver is opened here, as the emitted code does. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xtarget_kernels.h"

static void *library;
static int failures;

static void *symbol(const char *name) {
  void *found = dlsym(library, name);
  if (!found) fprintf(stderr, "libcuda.so.1 has no %s\n", name), exit(1);
  return found;
}

#define CALL(name, types, ...)                                                   \
  do {                                                                           \
    int (*function) types;                                                       \
    *(void **)&function = symbol(name);                                          \
    int status = function(__VA_ARGS__);                                          \
    if (status) fprintf(stderr, "%s gave %d\n", name, status), exit(1);          \
  } while (0)

static void *device(const float *from, size_t count) {
  unsigned long long address = 0;
  CALL("cuMemAlloc_v2", (unsigned long long *, size_t), &address, count * 4 + 16);
  if (from)
    CALL("cuMemcpyHtoD_v2", (unsigned long long, const void *, size_t), address, from, count * 4);
  return (void *)address;
}

static void release(void *memory) {
  CALL("cuMemFree_v2", (unsigned long long), (unsigned long long)memory);
}

static void compare(const char *what, void *result, const float *wanted, size_t count) {
  float *got = malloc(count * 4);
  if (!got) exit(1);
  CALL("cuMemcpyDtoH_v2", (void *, unsigned long long, size_t), got, (unsigned long long)result,
       count * 4);
  double worst = 0;
  for (size_t i = 0; i < count; i++) {
    double error = fabs((double)got[i] - wanted[i]) / (1 + fabs((double)wanted[i]));
    if (!(error <= worst)) worst = error;
  }
  free(got);
  int wrong = !(worst < 1e-3);
  printf("%-28s %s  largest error %.2g\n", what, wrong ? "WRONG" : "right", worst);
  failures += wrong;
}

static void check(int status) {
  if (!status) return;
  printf("failed with %d: %s\n", status, xt_message(status));
  failures++;
}

static float *numbers(size_t count) {
  float *made = malloc(count * 4);
  if (!made) exit(1);
  for (size_t i = 0; i < count; i++) made[i] = (float)rand() / (float)RAND_MAX * 2 - 1;
  return made;
}

static void test_add(int64_t n, int64_t offset) {
  float *a = numbers((size_t)n), *b = numbers((size_t)n), *sum = numbers((size_t)n);
  for (int64_t i = 0; i < n; i++) sum[i] = a[i] + b[i];
  char *x = device(NULL, (size_t)n), *y = device(b, (size_t)n), *out = device(NULL, (size_t)n);
  CALL("cuMemcpyHtoD_v2", (unsigned long long, const void *, size_t),
       (unsigned long long)(x + offset), a, (size_t)n * 4);
  check(xt_add_f32(NULL, x + offset, y, out, n));
  compare(offset ? "add, not aligned" : "add", out, sum, (size_t)n);
  release(x), release(y), release(out), free(a), free(b), free(sum);
}

static void test_rows(int64_t m, int64_t n) {
  char what[64];
  float *x = numbers((size_t)(m * n)), *soft = numbers((size_t)(m * n)), *sum = numbers((size_t)m);
  for (int64_t i = 0; i < m; i++) {
    double total = 0, power = 0;
    for (int64_t j = 0; j < n; j++) total += x[i * n + j], power += exp(x[i * n + j]);
    for (int64_t j = 0; j < n; j++) soft[i * n + j] = (float)(exp(x[i * n + j]) / power);
    sum[i] = (float)total;
  }
  void *in = device(x, (size_t)(m * n)), *out = device(NULL, (size_t)(m * n));
  check(xt_softmax_f32(NULL, in, out, m, n));
  snprintf(what, sizeof what, "softmax %lld x %lld", (long long)m, (long long)n);
  compare(what, out, soft, (size_t)(m * n));
  check(xt_sum_f32(NULL, in, out, m, n));
  snprintf(what, sizeof what, "sum %lld x %lld", (long long)m, (long long)n);
  compare(what, out, sum, (size_t)m);
  release(in), release(out), free(x), free(soft), free(sum);
}

static void test_gelu(int64_t n) {
  float *x = numbers((size_t)n), *exact = numbers((size_t)n), *tanh_form = numbers((size_t)n);
  for (int64_t i = 0; i < n; i++) {
    double v = x[i] = 3 * x[i];
    exact[i] = (float)(v * erfc(-v * 0.70710678118654752) / 2);
    tanh_form[i] = (float)(v * (1 + tanh(0.79788456080286536 * (v + 0.044715 * v * v * v))) / 2);
  }
  void *in = device(x, (size_t)n), *out = device(NULL, (size_t)n);
  check(xt_gelu_f32(NULL, in, out, n, 0));
  compare("gelu", out, exact, (size_t)n);
  check(xt_gelu_f32(NULL, in, out, n, 1));
  compare("gelu with tanh", out, tanh_form, (size_t)n);
  release(in), release(out), free(x), free(exact), free(tanh_form);
}

static void test_matmul(int64_t m, int64_t n, int64_t k) {
  char what[64];
  float *a = numbers((size_t)(m * k)), *b = numbers((size_t)(k * n)), *c = numbers((size_t)(m * n));
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double total = 0;
      for (int64_t l = 0; l < k; l++) total += (double)a[i * k + l] * b[l * n + j];
      c[i * n + j] = (float)total;
    }
  void *x = device(a, (size_t)(m * k)), *y = device(b, (size_t)(k * n));
  void *out = device(NULL, (size_t)(m * n));
  check(xt_matmul_f32(NULL, x, y, out, m, n, k));
  snprintf(what, sizeof what, "matmul %lld x %lld x %lld", (long long)m, (long long)n, (long long)k);
  compare(what, out, c, (size_t)(m * n));
  release(x), release(y), release(out), free(a), free(b), free(c);
}

static void *in_thread(void *context) {
  CALL("cuCtxSetCurrent", (void *), context);
  test_add(100000, 0);
  return NULL;
}

int main(void) {
  void *context = NULL, *second = NULL;
  int ordinal = 0;
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) fprintf(stderr, "%s\n", dlerror()), exit(1);
  CALL("cuInit", (unsigned), 0);
  float none = 0;
  int status = xt_add_f32(NULL, &none, &none, &none, 1);
  printf("without a context: %d: %s\n", status, xt_message(status));
  failures += status != XT_NO_CONTEXT;
  CALL("cuDeviceGet", (int *, int), &ordinal, 0);
  CALL("cuDevicePrimaryCtxRetain", (void **, int), &context, ordinal);
  CALL("cuCtxSetCurrent", (void *), context);
  test_add(1 << 20, 0);
  test_add(1000003, 0);
  test_add(1000003, 4);
  test_gelu(100003);
  test_rows(1024, 256);
  test_rows(777, 1000);
  test_rows(3, 7);
  test_rows(33, 40000);
  test_matmul(512, 512, 512);
  test_matmul(100, 37, 65);
  test_matmul(1, 1000, 64);
  check(xt_load());
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, in_thread, context);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  CALL("cuCtxCreate_v2", (void **, unsigned, int), &second, 0, ordinal);
  test_add(4096, 0); /* the same kernel in another context */
  CALL("cuCtxDestroy_v2", (void *), second);
  CALL("cuCtxSetCurrent", (void *), context);
  test_add(4096, 0);
  printf(failures ? "%d failures\n" : "all right\n", failures);
  return failures != 0;
}
