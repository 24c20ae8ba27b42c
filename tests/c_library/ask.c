/* Calls kernels that a bundle lacks, which a compile server makes, from several threads.
 *
 *   ask BUNDLE unix:/PATH        every result is compared
 *   ask BUNDLE unix:/PATH WORDS  every call fails, and the message has these words
 *
 * tests/c_library/test_compile_by.py compiles it with the sanitizers. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xtarget.h"

enum { THREADS = 4, ROUNDS = 3, M = 3, N = 10 };

static struct {
  xtarget_bundle *bundle;
  xtarget_device *device;
  xtarget_kernel *absolute; /* of all threads */
  const char *words;
  pthread_barrier_t start;
} shared;

/* Whether a call of abs ends as it should; 1: a line was printed. */
static int wrong(xtarget_kernel *kernel, void *stream, int ndim) {
  float x[M * N], y[M * N];
  int64_t shape[] = {ndim == 1 ? M * N : M, N};
  for (int i = 0; i < M * N; i++) x[i] = (float)(i - 15) / 4, y[i] = 7;
  xtarget_argument in = {.kind = XTARGET_TENSOR,
                         .tensor = {.data = x, .dtype = XTARGET_FLOAT32, .ndim = ndim, .shape = shape}};
  xtarget_tensor out = {.data = y, .dtype = XTARGET_FLOAT32, .ndim = ndim, .shape = shape};
  int status = xtarget_kernel_call(kernel, stream, &in, 1, &out, 1);
  if (shared.words) {
    if (!status || !strstr(xtarget_message(), shared.words))
      return printf("gave %d: %s\n", status, xtarget_message()), 1;
  } else if (status || (status = xtarget_device_synchronize(shared.device, stream))) {
    return printf("failed: %d: %s\n", status, xtarget_message()), 1;
  }
  for (int i = 0; i < M * N; i++)
    if (y[i] != (shared.words ? 7 : fabsf(x[i]))) return printf("element %d is %g\n", i, y[i]), 1;
  return 0;
}

static void *work(void *found) {
  xtarget_kernel *own = NULL;
  void *stream;
  int failures = 0;
  pthread_barrier_wait(&shared.start);
  if (xtarget_device_stream(shared.device, &stream) ||
      xtarget_kernel_get(shared.bundle, shared.device, "abs", "float32", NULL, 0, &own)) {
    printf("%s\n", xtarget_message());
    failures++;
  }
  for (int i = 0; !failures && i < ROUNDS; i++)
    failures += wrong(i % 2 ? own : shared.absolute, stream, 1 + i % 2);
  xtarget_kernel_release(own);
  *(int *)found = failures;
  return NULL;
}

int main(int count, char **words) {
  pthread_t threads[THREADS];
  int failures[THREADS], total = 0;
  if (count < 3) return 2;
  shared.words = count > 3 ? words[3] : NULL;
  if (xtarget_bundle_open(words[1], NULL, &shared.bundle) ||
      xtarget_bundle_compile_by(shared.bundle, words[2], 120) ||
      xtarget_device_open(XTARGET_OPENCL, 0, &shared.device) ||
      xtarget_kernel_get(shared.bundle, shared.device, "abs", "float32", NULL, 0, &shared.absolute))
    return printf("%s\n", xtarget_message()), 1;
  pthread_barrier_init(&shared.start, NULL, THREADS);
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, &failures[i]);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL), total += failures[i];
  xtarget_kernel_release(shared.absolute);
  xtarget_bundle_close(shared.bundle);
  xtarget_device_close(shared.device);
  printf(total ? "%d failures\n" : "all right\n", total);
  return total != 0;
}
