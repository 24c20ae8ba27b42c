/* The CUDA driver, opened when it is first needed. */
#define XT_DRIVER_NAME "CUDA"
#define XT_LIBRARY_VARIABLE "XT_CUDA_LIBRARY"
#define XT_LIBRARY "libcuda.so.1"

#define XT_FUNCTIONS(X)                                                                     \
  X(int, cuInit, init, (unsigned))                                                          \
  X(int, cuCtxGetCurrent, ctx_get_current, (void **))                                       \
  X(int, cuCtxGetId, ctx_get_id, (void *, unsigned long long *)) /* CUDA 12.0 */            \
  X(int, cuModuleLoadData, module_load, (void **, const void *))                            \
  X(int, cuModuleGetFunction, module_function, (void **, void *, const char *))             \
  X(int, cuFuncSetAttribute, function_set, (void *, int, int))                              \
  X(int, cuLaunchKernel, launch, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, \
    unsigned, unsigned, void *, void **, void **))                                          \
  X(int, cuGetErrorName, error_name, (int, const char **))                                  \
  X(int, cuGetErrorString, error_text, (int, const char **))

static struct {
  XT_FUNCTIONS(XT_MEMBER)
} xt_driver;

static const struct xt_symbol xt_symbols[] = {XT_FUNCTIONS(XT_SYMBOL)};

static void xt_describe(int status, const char **name, const char **text) {
  if (xt_driver.error_name(status, name)) *name = "an unknown status";
  if (xt_driver.error_text(status, text)) *text = "";
}

/* A number that is this context's alone, also after another one got its address. */
static int xt_context(unsigned long long *key) {
  void *context = NULL;
  int status = xt_driver.ctx_get_current(&context);
  if (status) return status;
  if (!context) return XT_NO_CONTEXT;
  return xt_driver.ctx_get_id(context, key);
}

/* Dynamic shared memory above 48 KiB has to be asked for (CUDA C++ Programming Guide, "Shared
   Memory"); 8 is CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES. */
static int xt_ask_for_shared(void *function, unsigned nbytes) {
  return nbytes <= 48 * 1024 ? 0 : xt_driver.function_set(function, 8, (int)nbytes);
}

/* INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX, UNSUPPORTED_PTX_VERSION: the image is for another
   device or driver. */
static int xt_is_for_another(int status) {
  return status == 200 || status == 209 || status == 218 || status == 222;
}
