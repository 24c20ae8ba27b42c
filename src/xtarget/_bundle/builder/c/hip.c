/* HIP, opened when it is first needed. */
#define XT_DRIVER_NAME "HIP"
#define XT_LIBRARY_VARIABLE "XT_HIP_LIBRARY"
#define XT_LIBRARY "libamdhip64.so"

#define XT_FUNCTIONS(X)                                                                  \
  X(int, hipInit, init, (unsigned))                                                      \
  X(int, hipGetDevice, get_device, (int *))                                              \
  X(int, hipModuleLoadData, module_load, (void **, const void *))                        \
  X(int, hipModuleGetFunction, module_function, (void **, void *, const char *))         \
  X(int, hipModuleLaunchKernel, launch, (void *, unsigned, unsigned, unsigned, unsigned, \
    unsigned, unsigned, unsigned, void *, void **, void **))                             \
  X(const char *, hipGetErrorName, error_name, (int))                                    \
  X(const char *, hipGetErrorString, error_text, (int))

static struct {
  XT_FUNCTIONS(XT_MEMBER)
} xt_driver;

static const struct xt_symbol xt_symbols[] = {XT_FUNCTIONS(XT_SYMBOL)};

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
