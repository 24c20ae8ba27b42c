/* Launches functions of a kernel with grids and arguments of its own, right and wrong ones.
 *
 *   functions BUNDLE       a bundle with `part` of float32 for cpu:spirv64
 *
 * tests/c_library/test_functions.py compiles it with the sanitizers. */
#include <stdint.h>
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
      failures++;                                                                \
    }                                                                            \
  } while (0)

#define FAILS(call, status, words)                                               \
  do {                                                                           \
    int got = (call);                                                            \
    if (got != (status) || !strstr(xtarget_message(), words)) {                  \
      printf("line %d: %s gave %d: %s\n", __LINE__, #call, got, xtarget_message()); \
      failures++;                                                                \
    }                                                                            \
  } while (0)

enum { N = 1000, BLOCK = 64 };
static float x[N], out[N];
static xtarget_device *device;
static void *stream;

/* Whether x + 3 stands in the first `count` elements alone. */
static int is_right(int count) {
  int right = !xtarget_device_synchronize(device, stream);
  for (int i = 0; i < N; i++) right &= out[i] == (i < count ? x[i] + 3 : -1);
  for (int i = 0; i < N; i++) out[i] = -1;
  return right;
}

static xtarget_argument array(float *data) {
  xtarget_argument made = {XTARGET_TENSOR, 0, {data, XTARGET_FLOAT32, 0, NULL, NULL, 0, 0}, 0, 0};
  return made;
}

static xtarget_argument integer(int64_t value) {
  xtarget_argument made = {XTARGET_INTEGER, 0, {0}, value, 0};
  return made;
}

static xtarget_argument text(const char *value) {
  xtarget_argument made = {XTARGET_TEXT, 0, {0}, 0, 0};
  made.tensor.data = (void *)(uintptr_t)value;
  return made;
}

/* The addresses of the values, as for cuLaunchKernel. */
static void test_addresses(xtarget_function *function) {
  void *from = x, *to = out;
  int32_t n = N, by = 3;
  void *arguments[] = {&from, &to, &n, &by};
  const uint32_t whole[3] = {(N + BLOCK - 1) / BLOCK, 1, 1}, some[3] = {5, 1, 1};
  EXPECT(!xtarget_function_launch(function, stream, whole, arguments, 4) && is_right(N));
  EXPECT(!xtarget_function_launch(function, stream, some, arguments, 4) && is_right(5 * BLOCK));
  n = 100;
  EXPECT(!xtarget_function_launch(function, stream, whole, arguments, 4) && is_right(100));

  FAILS(xtarget_function_launch(NULL, stream, whole, arguments, 4), XTARGET_BAD_ARGUMENT,
        "needs a function. Take one");
  FAILS(xtarget_function_launch(function, stream, whole, arguments, 3), XTARGET_BAD_ARGUMENT,
        "kernels:part takes 4 arguments, not 3: those of *fp32,*fp32,i32,(i32),64,fp32,\"plus\"");
  FAILS(xtarget_function_launch(function, stream, whole, NULL, 4), XTARGET_BAD_ARGUMENT, "is NULL");
  const uint32_t bad[4][3] = {{0, 1, 1}, {1, 0, 1}, {1u << 31, 1, 1}, {1, 1, 65536}};
  const char *words[] = {"1 to 2147483647 blocks in x, not 0", "1 to 65535 blocks in y, not 0",
                         "in x, not 2147483648", "in z, not 65536"};
  for (int i = 0; i < 4; i++)
    FAILS(xtarget_function_launch(function, stream, bad[i], arguments, 4), XTARGET_BAD_ARGUMENT,
          words[i]);
  FAILS(xtarget_function_launch(function, stream, NULL, arguments, 4), XTARGET_BAD_ARGUMENT, "grid");
  arguments[3] = NULL;
  FAILS(xtarget_function_launch(function, stream, whole, arguments, 4), XTARGET_BAD_ARGUMENT,
        "argument 4 (by.0) of kernels:part is NULL");
  EXPECT(is_right(0));
}

static void test_typed(xtarget_kernel *kernel, xtarget_function *function) {
  xtarget_argument given[] = {array(x), array(out), integer(N), integer(3), integer(BLOCK),
                              text("fp32"), text("\"plus\"")};
  const uint32_t grid[3] = {2, 1, 1};
  EXPECT(!xtarget_function_call(function, stream, grid, given, 4) && is_right(2 * BLOCK));
  EXPECT(!xtarget_kernel_launch(kernel, stream, grid, 0, 0, given, 7) && is_right(2 * BLOCK));
  given[4] = integer(256); /* the kernel's other function */
  EXPECT(!xtarget_kernel_launch(kernel, stream, grid, 2, 3, given, 7) && is_right(512));
  FAILS(xtarget_kernel_launch(kernel, stream, grid, 8, 3, given, 7), XTARGET_NOT_IN_BUNDLE,
        "has no function of part for (*fp32, *fp32, 1000, 3, 256, fp32, \"plus\") with 8 warps and 3 "
        "stages; it has (*fp32,*fp32,i32,(i32),64,fp32,\"plus\") with 1 warps and 2 stages; (");
  given[4] = integer(128);
  FAILS(xtarget_kernel_launch(kernel, stream, grid, 0, 0, given, 7), XTARGET_NOT_IN_BUNDLE, "128");
  given[4] = integer(BLOCK);
  given[5] = text("fp16");
  FAILS(xtarget_kernel_launch(kernel, stream, grid, 0, 0, given, 7), XTARGET_NOT_IN_BUNDLE, "fp16");
  given[5] = text("fp32");
  FAILS(xtarget_kernel_launch(kernel, stream, grid, 0, 0, given, 6), XTARGET_NOT_IN_BUNDLE, "no func");
  FAILS(xtarget_kernel_launch(kernel, stream, grid, 0, 0, NULL, 7), XTARGET_BAD_ARGUMENT, "needs");
  FAILS(xtarget_kernel_launch(NULL, stream, grid, 0, 0, given, 7), XTARGET_BAD_ARGUMENT, "needs");
  FAILS(xtarget_kernel_launch(kernel, stream, NULL, 0, 0, given, 7), XTARGET_BAD_ARGUMENT, "grid");
  given[2] = integer((int64_t)1 << 31);
  FAILS(xtarget_function_call(function, stream, grid, given, 4), XTARGET_BAD_ARGUMENT,
        "argument 3 (n) of kernels:part is not one that i32 holds");
  given[2] = integer(N);
  given[0].tensor.dtype = XTARGET_FLOAT16;
  FAILS(xtarget_function_call(function, stream, grid, given, 4), XTARGET_BAD_ARGUMENT, "*fp32");
  FAILS(xtarget_kernel_launch(kernel, stream, grid, 0, 0, given, 7), XTARGET_NOT_IN_BUNDLE, "(*fp16");
  given[0] = array(x);
  given[0].tensor.device_type = 2;
  FAILS(xtarget_function_call(function, stream, grid, given, 4), XTARGET_BAD_ARGUMENT, "another kind");
  given[0] = array((float *)((char *)x + 1)); /* in no float's place */
  FAILS(xtarget_function_call(function, stream, grid, given, 4), XTARGET_BAD_ARGUMENT, "argument 1");
  FAILS(xtarget_function_call(function, stream, grid, given, 7), XTARGET_BAD_ARGUMENT, "not 7");
  EXPECT(is_right(0));
  given[0] = text("fp32"); /* a constexpr is no argument of a kernel */
  FAILS(xtarget_kernel_call(kernel, stream, given, 1, NULL, 0), XTARGET_BAD_ARGUMENT, "kind 5");
}

static void test_what_is_said(xtarget_kernel *kernel, xtarget_function *function) {
  static const xtarget_parameter right[] = {
      {"x", "*fp32", NULL, XTARGET_PLAIN, 8},        {"out", "*fp32", NULL, XTARGET_PLAIN, 8},
      {"n", "i32", NULL, XTARGET_PLAIN, 4},          {"by.0", "i32", NULL, XTARGET_PLAIN, 4},
      {"BLOCK", "constexpr", "64", XTARGET_CONSTEXPR, 0},
      {"T", "constexpr", "fp32", XTARGET_CONSTEXPR, 0},
      {"HOW", "constexpr", "\"plus\"", XTARGET_CONSTEXPR, 0}};
  xtarget_function_facts facts;
  xtarget_parameter said;
  xtarget_function *none = function;
  EXPECT(!xtarget_function_about(function, &facts));
  EXPECT(!strcmp(facts.source, "kernels:part") && facts.num_warps == 1 && facts.num_stages == 2);
  EXPECT(facts.argument_count == 4 && facts.parameter_count == 7 && facts.threads >= 1);
  for (size_t i = 0; i < facts.parameter_count; i++) {
    EXPECT(!xtarget_function_parameter(function, i, &said));
    EXPECT(!strcmp(said.name, right[i].name) && !strcmp(said.type, right[i].type));
    EXPECT(said.kind == right[i].kind && said.size == right[i].size);
    EXPECT(!said.value == !right[i].value && (!said.value || !strcmp(said.value, right[i].value)));
  }
  FAILS(xtarget_function_parameter(function, 7, &said), XTARGET_BAD_ARGUMENT, "7 parameters");
  EXPECT(xtarget_kernel_function_count(NULL) == 0 && xtarget_kernel_function_count(kernel) >= 2);
  FAILS(xtarget_kernel_function(kernel, 99, &none), XTARGET_BAD_ARGUMENT, "none with the number 99");
  EXPECT(!none);
  FAILS(xtarget_kernel_function_of(kernel, "i32", 0, 0, &none), XTARGET_NOT_IN_BUNDLE,
        "has no function of part for (i32)");
  FAILS(xtarget_kernel_function_of(kernel, facts.signature, 4, 0, &none), XTARGET_NOT_IN_BUNDLE,
        "with 4 warps");
  xtarget_function_release(NULL);
}

static void test_clear(void) {
  EXPECT(!xtarget_device_clear(device, stream, out, 5 * sizeof *out));
  EXPECT(!xtarget_device_synchronize(device, stream) && out[4] == 0 && out[5] == -1);
  for (int i = 0; i < 5; i++) out[i] = -1;
  EXPECT(!xtarget_device_clear(device, stream, NULL, 0));
  FAILS(xtarget_device_clear(device, stream, NULL, 1), XTARGET_BAD_ARGUMENT, "is NULL");
  FAILS(xtarget_device_clear(NULL, stream, out, 1), XTARGET_BAD_ARGUMENT, "device");
}

int main(int count, char **words) {
  xtarget_bundle *bundle = NULL;
  xtarget_kernel *kernel = NULL;
  xtarget_function *function = NULL;
  if (count != 2 || xtarget_bundle_open(words[1], NULL, &bundle) ||
      xtarget_device_open(XTARGET_OPENCL, 0, &device) || xtarget_device_stream(device, &stream) ||
      xtarget_kernel_get(bundle, device, "part", "float32", NULL, 0, &kernel) ||
      xtarget_kernel_function_of(kernel, "*fp32,*fp32,i32,(i32),64,fp32,\"plus\"", 1, 0, &function))
    return printf("%s\n", xtarget_message()), 1;
  for (int i = 0; i < N; i++) x[i] = (float)i, out[i] = -1;
  test_addresses(function);
  test_typed(kernel, function);
  test_what_is_said(kernel, function);
  test_clear();
  xtarget_function_release(function), xtarget_kernel_release(kernel);
  xtarget_bundle_close(bundle), xtarget_device_close(device);
  printf(failures ? "%d failures\n" : "all right\n", failures);
  return failures != 0;
}
