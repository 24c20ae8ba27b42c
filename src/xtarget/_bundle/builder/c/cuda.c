/* The CUDA driver, opened when it is first needed. */
#define XT_DRIVER_NAME "CUDA"
#define XT_LIBRARY_VARIABLE "XT_CUDA_LIBRARY"
#define XT_LIBRARY "libcuda.so.1"

static struct {
  int (*init)(unsigned);
  int (*ctx_get_current)(void **);
  int (*ctx_get_id)(void *, unsigned long long *);
  int (*module_load)(void **, const void *);
  int (*module_function)(void **, void *, const char *);
  int (*function_set)(void *, int, int);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                void **, void **);
  int (*error_name)(int, const char **);
  int (*error_text)(int, const char **);
} xt_driver;

static const struct xt_symbol xt_symbols[] = {
    {"cuInit", (void **)&xt_driver.init, 1},
    {"cuCtxGetCurrent", (void **)&xt_driver.ctx_get_current, 1},
    {"cuCtxGetId", (void **)&xt_driver.ctx_get_id, 1}, /* CUDA 12.0 */
    {"cuModuleLoadData", (void **)&xt_driver.module_load, 1},
    {"cuModuleGetFunction", (void **)&xt_driver.module_function, 1},
    {"cuFuncSetAttribute", (void **)&xt_driver.function_set, 1},
    {"cuLaunchKernel", (void **)&xt_driver.launch, 1},
    {"cuGetErrorName", (void **)&xt_driver.error_name, 1},
    {"cuGetErrorString", (void **)&xt_driver.error_text, 1},
};

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
