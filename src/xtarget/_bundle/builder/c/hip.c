/* HIP, opened when it is first needed. */
#define XT_DRIVER_NAME "HIP"
#define XT_LIBRARY_VARIABLE "XT_HIP_LIBRARY"
#define XT_LIBRARY "libamdhip64.so"

static struct {
  int (*init)(unsigned);
  int (*get_device)(int *);
  int (*module_load)(void **, const void *);
  int (*module_function)(void **, void *, const char *);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                void **, void **);
  const char *(*error_name)(int);
  const char *(*error_text)(int);
} xt_driver;

static const struct xt_symbol xt_symbols[] = {
    {"hipInit", (void **)&xt_driver.init, 1},
    {"hipGetDevice", (void **)&xt_driver.get_device, 1},
    {"hipModuleLoadData", (void **)&xt_driver.module_load, 1},
    {"hipModuleGetFunction", (void **)&xt_driver.module_function, 1},
    {"hipModuleLaunchKernel", (void **)&xt_driver.launch, 1},
    {"hipGetErrorName", (void **)&xt_driver.error_name, 1},
    {"hipGetErrorString", (void **)&xt_driver.error_text, 1},
};

static void xt_describe(int status, const char **name, const char **text) {
  *name = xt_driver.error_name(status);
  *text = xt_driver.error_text(status);
}

/* HIP has one context for each device. */
static int xt_context(unsigned long long *key) {
  int device = 0, status = xt_driver.get_device(&device);
  *key = (unsigned long long)device;
  return status;
}

static int xt_ask_for_shared(void *function, unsigned nbytes) {
  (void)function, (void)nbytes; /* a block may have all its LDS without asking */
  return 0;
}

/* hipErrorInvalidImage, hipErrorNoBinaryForGpu, hipErrorInvalidKernelFile: for another device. */
static int xt_is_for_another(int status) {
  return status == 200 || status == 209 || status == 218;
}
