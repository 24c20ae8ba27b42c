/* Calls libxtarget as a program does, from several threads, with right and wrong arguments.
 *
 *   check BUNDLE FILE      a bundle with relu, add and softmax of float32 for cpu:spirv64, and a file
 *                          that may be written
 *
 * tests/c_library/test_libxtarget.py compiles it with the sanitizers. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xtarget.h"

static int failures;

#define EXPECT(condition)                                                        \
  do {                                                                           \
    if (!(condition)) {                                                          \
      printf("line %d: not so: %s (last message: %s)\n", __LINE__, #condition,   \
             xtarget_message());                                                 \
      __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);                        \
    }                                                                            \
  } while (0)

#define FAILS(call, status, words)                                               \
  do {                                                                           \
    int got = (call);                                                            \
    if (got != (status) || !strstr(xtarget_message(), words)) {                  \
      printf("line %d: %s gave %d: %s\n", __LINE__, #call, got, xtarget_message()); \
      __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);                        \
    }                                                                            \
  } while (0)

static xtarget_tensor floats(float *data, int ndim, const int64_t *shape, const int64_t *strides) {
  xtarget_tensor made = {data, XTARGET_FLOAT32, ndim, shape, strides, 1, 0};
  return made;
}

static xtarget_argument of(xtarget_tensor tensor) {
  xtarget_argument made = {XTARGET_TENSOR, 0, tensor, 0, 0};
  return made;
}

static int count_one(void *data, const char *kernel, const char *dtype) {
  (void)kernel, (void)dtype;
  ++*(int *)data;
  return 0;
}

struct shared {
  const char *path;
  xtarget_device *device;
  xtarget_kernel *relu;
  pthread_barrier_t start;
};

/* Everything at once: opening, listing, taking kernels, calling those of others, closing. */
static void *work(void *given) {
  struct shared *shared = given;
  xtarget_bundle *bundle = NULL;
  xtarget_kernel *own = NULL;
  void *stream;
  enum { N = 1003 };
  float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
  int64_t shape[] = {N};
  int count = 0;
  if (!x || !y) abort();
  for (int i = 0; i < N; i++) x[i] = (float)(i - N / 2);
  pthread_barrier_wait(&shared->start);
  EXPECT(!xtarget_bundle_open(shared->path, "", &bundle));
  EXPECT(!xtarget_bundle_kernels(bundle, "cpu:spirv64", count_one, &count) && count >= 3);
  EXPECT(!xtarget_kernel_get(bundle, shared->device, "relu", "float32", NULL, 0, &own));
  xtarget_bundle_close(bundle); /* its kernels stay */
  EXPECT(!xtarget_device_stream(shared->device, &stream));
  for (int i = 0; i < 1200; i++) { /* more lengths than a kernel remembers, some of them again */
    xtarget_argument in = of(floats(x, 1, shape, NULL));
    xtarget_tensor out = floats(y, 1, shape, NULL);
    shape[0] = i % 3 ? N - i % 5 : N - i % (N - 7);
    memset(y, 1, N * sizeof *y);
    EXPECT(!xtarget_kernel_call(i % 2 ? own : shared->relu, stream, &in, 1, &out, 1));
    EXPECT(!xtarget_device_synchronize(shared->device, stream));
    for (int64_t n = 0; n < shape[0]; n++) EXPECT(y[n] == (x[n] > 0 ? x[n] : 0));
  }
  xtarget_kernel_release(own);
  free(x), free(y);
  return NULL;
}

static void test_threads(const char *path, xtarget_device *device, xtarget_kernel *relu) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  struct shared shared = {.path = path, .device = device, .relu = relu};
  pthread_barrier_init(&shared.start, NULL, THREADS);
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, &shared);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&shared.start);
}

static void test_softmax(xtarget_kernel *softmax, xtarget_device *device, void *stream) {
  enum { M = 7, N = 1000 };
  int64_t shape[] = {M, N}, wrong[] = {M, N + 1}, columns[] = {1, M};
  float *x = malloc(M * N * sizeof *x), *y = calloc(M * (N + 1), sizeof *y);
  if (!x || !y) abort();
  for (int i = 0; i < M * N; i++) x[i] = (float)(i * 37 % 101) / 20;
  xtarget_argument in = of(floats(x, 2, shape, NULL));
  xtarget_tensor out = floats(y, 2, shape, NULL);
  EXPECT(!xtarget_kernel_call(softmax, stream, &in, 1, &out, 1));
  EXPECT(!xtarget_device_synchronize(device, stream));
  for (int row = 0; row < M; row++) {
    double total = 0;
    for (int i = 0; i < N; i++) total += exp(x[row * N + i]);
    for (int i = 0; i < N; i++)
      EXPECT(fabs(y[row * N + i] - exp(x[row * N + i]) / total) < 1e-6);
  }
  size_t count = 0;
  xtarget_tensor told[2];
  int64_t shapes[2][16];
  EXPECT(!xtarget_kernel_outputs(softmax, &in, 1, told, shapes, 2, &count));
  EXPECT(count == 1 && told[0].dtype == XTARGET_FLOAT32 && told[0].ndim == 2);
  EXPECT(shapes[0][0] == M && shapes[0][1] == N);

  out = floats(y, 2, wrong, NULL);
  FAILS(xtarget_kernel_call(softmax, stream, &in, 1, &out, 1), XTARGET_BAD_ARGUMENT,
        "is float32(7, 1001), and the result is float32(7, 1000)");
  out = floats(y, 2, shape, NULL);
  out.dtype = XTARGET_FLOAT16;
  FAILS(xtarget_kernel_call(softmax, stream, &in, 1, &out, 1), XTARGET_BAD_ARGUMENT, "is float16");
  out = floats(y, 2, shape, columns);
  FAILS(xtarget_kernel_call(softmax, stream, &in, 1, &out, 1), XTARGET_NOT_IN_BUNDLE, "strides");
  out = floats(x + 3, 2, shape, NULL);
  FAILS(xtarget_kernel_call(softmax, stream, &in, 1, &out, 1), XTARGET_BAD_ARGUMENT,
        "may share memory");
  out = floats(y, 2, shape, NULL);
  FAILS(xtarget_kernel_call(softmax, stream, &in, 1, &out, 2 - 2), XTARGET_BAD_ARGUMENT, "1 output");
  FAILS(xtarget_kernel_call(softmax, stream, &in, 0, &out, 1), XTARGET_NOT_IN_BUNDLE, "no call");
  in.tensor.dtype = XTARGET_FLOAT64;
  FAILS(xtarget_kernel_call(softmax, stream, &in, 1, &out, 1), XTARGET_NOT_IN_BUNDLE,
        "float64(7, 1000)");
  in.tensor.dtype = 99;
  FAILS(xtarget_kernel_call(softmax, stream, &in, 1, &out, 1), XTARGET_BAD_ARGUMENT, "dtype 99");
  in = of(floats(x, 2, shape, NULL));
  in.tensor.device_type = 2;
  FAILS(xtarget_kernel_call(softmax, stream, &in, 1, &out, 1), XTARGET_BAD_ARGUMENT,
        "another kind");
  in.tensor.device_type = 0;
  in.tensor.ndim = 17;
  FAILS(xtarget_kernel_call(softmax, stream, &in, 1, &out, 1), XTARGET_BAD_ARGUMENT, "dimensions");
  int64_t huge[] = {INT64_MAX, INT64_MAX}, negative[] = {-1, 4};
  in = of(floats(x, 2, huge, NULL));
  FAILS(xtarget_kernel_call(softmax, stream, &in, 1, &out, 1), XTARGET_BAD_ARGUMENT, "64 bits");
  in = of(floats(x, 2, negative, NULL));
  FAILS(xtarget_kernel_call(softmax, stream, &in, 1, &out, 1), XTARGET_BAD_ARGUMENT, "-1");
  in = of(floats(NULL, 2, shape, NULL));
  FAILS(xtarget_kernel_call(softmax, stream, &in, 1, &out, 1), XTARGET_BAD_ARGUMENT, "no address");
  int64_t no_rows[] = {0, N}, few[] = {1, M, 2}, none[] = {0, M, 2}, odd[] = {1, 2, 14};
  out = floats(y, 2, no_rows, NULL);
  in = of(floats(x, 2, shape, NULL));
  FAILS(xtarget_kernel_call(softmax, stream, &in, 1, &out, 1), XTARGET_BAD_ARGUMENT, "float32(0, 1000)");
  out = floats(y, 3, none, NULL); /* of a call that the bundle lacks */
  in = of(floats(x, 3, few, odd));
  FAILS(xtarget_kernel_call(softmax, stream, &in, 1, &out, 1), XTARGET_NOT_IN_BUNDLE, "no call");
  out = floats(y, 2, shape, NULL);
  in = of(floats(x, 2, shape, NULL));
  FAILS(xtarget_kernel_call(softmax, NULL, &in, 1, &out, 1), XTARGET_BAD_ARGUMENT, "stream");
  free(x), free(y);
}

static void test_empty_and_in_place(xtarget_kernel *relu, xtarget_device *device, void *stream) {
  int64_t none[] = {0}, five[] = {5}, twice[] = {0};
  float x[] = {-1, 2, -3, 4, -5};
  xtarget_argument in = of(floats(NULL, 1, none, NULL));
  xtarget_tensor out = floats(NULL, 1, none, NULL);
  EXPECT(!xtarget_kernel_call(relu, stream, &in, 1, &out, 1));
  in = of(floats(x, 1, five, NULL));
  out = floats(x, 1, five, twice);
  FAILS(xtarget_kernel_call(relu, stream, &in, 1, &out, 1), XTARGET_BAD_ARGUMENT, "share memory");
  out = floats(x, 1, five, NULL);
  EXPECT(!xtarget_kernel_call(relu, stream, &in, 1, &out, 1));
  EXPECT(!xtarget_device_synchronize(device, stream));
  EXPECT(x[0] == 0 && x[1] == 2 && x[3] == 4 && x[4] == 0);
}

static void test_numbers(xtarget_kernel *add, xtarget_device *device, void *stream) {
  int64_t four[] = {4};
  float x[] = {1, 2, 3, 4}, y[4];
  xtarget_argument given[2] = {of(floats(x, 1, four, NULL)), {.kind = XTARGET_REAL, .real = 0.5}};
  xtarget_tensor out = floats(y, 1, four, NULL);
  EXPECT(!xtarget_kernel_call(add, stream, given, 2, &out, 1));
  EXPECT(!xtarget_device_synchronize(device, stream));
  EXPECT(y[0] == 1.5f && y[3] == 4.5f);
  given[1] = (xtarget_argument){.kind = XTARGET_UNSIGNED, .integer = -1}; /* 2^64 - 1 */
  EXPECT(!xtarget_kernel_call(add, stream, given, 2, &out, 1));
  EXPECT(!xtarget_device_synchronize(device, stream));
  EXPECT(y[0] == 0x1p64f);
  given[1] = (xtarget_argument){.kind = 9};
  FAILS(xtarget_kernel_call(add, stream, given, 2, &out, 1), XTARGET_BAD_ARGUMENT, "kind 9");
}

static void test_what_is_not_there(xtarget_bundle *bundle, xtarget_device *device) {
  xtarget_kernel *kernel = NULL;
  xtarget_bundle *other = NULL;
  xtarget_device *none = NULL;
  xtarget_option option = {"approximate", "tanh"};
  FAILS(xtarget_kernel_get(bundle, device, "nothing", "float32", NULL, 0, &kernel),
        XTARGET_NOT_IN_BUNDLE, "xtarget bundle build --kernel nothing --dtype float32 --target cpu");
  FAILS(xtarget_kernel_get(bundle, device, "relu", "float64", NULL, 0, &kernel),
        XTARGET_NOT_IN_BUNDLE, "no relu of float64");
  FAILS(xtarget_kernel_get(bundle, device, "add", "float32", &option, 1, &kernel),
        XTARGET_NOT_IN_BUNDLE, "without options");
  FAILS(xtarget_kernel_get(bundle, NULL, "relu", "float32", NULL, 0, &kernel),
        XTARGET_BAD_ARGUMENT, "needs");
  FAILS(xtarget_bundle_open("/nowhere/a.xtb", NULL, &other), XTARGET_BAD_BUNDLE, "cannot be opened");
  FAILS(xtarget_bundle_open("/dev/null", NULL, &other), XTARGET_BAD_BUNDLE, "no regular file");
  FAILS(xtarget_bundle_open_memory("abc", 3, "", &other), XTARGET_BAD_BUNDLE, "no bundle");
  FAILS(xtarget_device_open(XTARGET_OPENCL, 999, &none), XTARGET_NO_DRIVER, "999");
  FAILS(xtarget_device_open(7, 0, &none), XTARGET_BAD_ARGUMENT, "driver");
  EXPECT(!kernel && !other && !none);
  EXPECT(!xtarget_bundle_verify(bundle));
  xtarget_bundle_close(NULL), xtarget_kernel_release(NULL), xtarget_device_close(NULL);
}

/* The number that XTARGET_LOCK of this text gives when a bundle is opened. */
static int under_lock(const char *bundle, const char *file, const char *text, size_t size) {
  xtarget_bundle *opened = NULL;
  FILE *stream = fopen(file, "wb");
  EXPECT(stream && fwrite(text, 1, size, stream) == size && !fclose(stream));
  int status = xtarget_bundle_open(bundle, NULL, &opened);
  xtarget_bundle_close(opened);
  return status;
}

/* Every beginning of a lock, and one with each of its bytes changed. */
static void test_locks(const char *bundle, const char *file) {
  char text[] = "{\"xtarget\": [{}, \"\\u00e9\"], \"xtarget_lock\": 1, \"binaries\": [{\"sha256\": \""
                "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\", \"nbytes\": 1,"
                " \"kernel\": \"relu\", \"target\": \"cpu:spirv64\"}]}";
  const char put[] = "\"{\\";
  size_t size = sizeof text - 1, allowed = 0;
  EXPECT(!setenv("XTARGET_LOCK", file, 1));
  EXPECT(under_lock(bundle, file, text, size) == XTARGET_OK);
  for (size_t i = 0; i < size; i++) {
    char was = text[i];
    EXPECT(under_lock(bundle, file, text, i) == XTARGET_NOT_IN_LOCK);
    for (const char *to = put; *to; to++) {
      text[i] = *to;
      int status = under_lock(bundle, file, text, size);
      EXPECT(status == XTARGET_OK || status == XTARGET_NOT_IN_LOCK);
      allowed += !status;
    }
    text[i] = was;
  }
  EXPECT(0 < allowed && allowed < size); /* letters of names */
  EXPECT(!unsetenv("XTARGET_LOCK"));
}

int main(int count, char **words) {
  xtarget_bundle *bundle = NULL;
  xtarget_device *device = NULL;
  xtarget_kernel *relu = NULL, *add = NULL, *softmax = NULL;
  void *stream = NULL;
  if (count != 3) return 2;
  EXPECT(xtarget_abi_version() == XTARGET_ABI_VERSION);
  if (xtarget_bundle_open(words[1], NULL, &bundle) ||
      xtarget_device_open(XTARGET_OPENCL, 0, &device) ||
      xtarget_device_stream(device, &stream) ||
      xtarget_kernel_get(bundle, device, "relu", "float32", NULL, 0, &relu) ||
      xtarget_kernel_get(bundle, device, "add", "float32", NULL, 0, &add) ||
      xtarget_kernel_get(bundle, device, "softmax", "float32", NULL, 0, &softmax))
    return printf("%s\n", xtarget_message()), 1;
  EXPECT(!strcmp(xtarget_device_target(device), "cpu:spirv64"));
  EXPECT(xtarget_bundle_target_count(bundle) >= 1 && !xtarget_bundle_target(bundle, 99));
  test_softmax(softmax, device, stream);
  test_empty_and_in_place(relu, device, stream);
  test_numbers(add, device, stream);
  test_what_is_not_there(bundle, device);
  test_threads(words[1], device, relu);
  test_locks(words[1], words[2]);
  xtarget_kernel_release(softmax), xtarget_kernel_release(add), xtarget_kernel_release(relu);
  xtarget_bundle_close(bundle);
  xtarget_device_close(device);
  printf(failures ? "%d failures\n" : "all right\n", failures);
  return failures != 0;
}
