/* An image as one context has it; `function` is NULL where it is not for that device. Nodes are added
   in front and never freed: a graph may launch a function for as long as it likes. */
struct xt_loaded {
  unsigned long long context;
  void *function;
  struct xt_loaded *next;
};

/* One binary for one target. `order` is the target's: a function tries every binary of one target
   before the next target's, each target's own code before any PTX, so that a device runs what was
   chosen for it where there is that. */
struct xt_image {
  const unsigned char *data;
  int order;
  unsigned threads, shared;
  _Atomic(struct xt_loaded *) loaded;
};

struct xt_binary {
  const char *entry;
  struct xt_image *images;
  int image_count;
};

/* Sizes and strides go as int32_t below this; as xtarget's own Python launches do it. */
#define XT_I32_LIMIT (2147483648.0 - 1048576.0)
#define XT_I64_LIMIT 4611686018427387904.0
#define XT_CDIV(a, b) (((a) + (b) - 1) / (b))
#define XT_ALIGNED(p) ((uintptr_t)(p) % 16 == 0)

static _Thread_local char xt_text[512];
static pthread_mutex_t xt_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int xt_ready;

__attribute__((format(printf, 2, 3))) static int xt_fail(int status, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(xt_text, sizeof xt_text, format, values);
  va_end(values);
  return status;
}

static int xt_driver_failed(int status, const char *what) {
  const char *name = "", *text = "";
  xt_describe(status, &name, &text);
  return xt_fail(XT_DRIVER_STATUS + status, "%s failed: %s (%d): %s", what, name, status, text);
}

const char *xt_message(int status) {
  switch (status) {
    case XT_OK: return "no error";
    case XT_NO_DRIVER: case XT_NO_CONTEXT: case XT_NO_BINARY: case XT_INVALID_VALUE:
    case XT_OUT_OF_MEMORY: break;
    default:
      if (status < XT_DRIVER_STATUS) return "this is no status of these functions";
  }
  return xt_text[0] ? xt_text : "the error was another thread's, which has its message";
}

/* Under the lock. A library that is not there now may be there at the next call. */
static int xt_open(void) {
  const char *name = getenv(XT_LIBRARY_VARIABLE);
  void *library = dlopen(name && *name ? name : XT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return xt_fail(XT_NO_DRIVER, "the " XT_DRIVER_NAME " library cannot be opened: %s. Install the "
                   "vendor's driver, or name the library in " XT_LIBRARY_VARIABLE ".", dlerror());
  for (size_t i = 0; i < sizeof xt_symbols / sizeof *xt_symbols; i++) {
    *xt_symbols[i].place = dlsym(library, xt_symbols[i].name);
    if (!*xt_symbols[i].place && xt_symbols[i].needed)
      return xt_fail(XT_NO_DRIVER, "the " XT_DRIVER_NAME " library has no %s; it is too old. Update "
                     "the driver.", xt_symbols[i].name);
  }
  int status = xt_driver.init(0);
  if (status) return xt_driver_failed(status, "initialising " XT_DRIVER_NAME);
  atomic_store_explicit(&xt_ready, 1, memory_order_release);
  return XT_OK;
}

static int xt_here(unsigned long long *context) {
  if (!atomic_load_explicit(&xt_ready, memory_order_acquire)) {
    pthread_mutex_lock(&xt_lock);
    int status = atomic_load(&xt_ready) ? XT_OK : xt_open();
    pthread_mutex_unlock(&xt_lock);
    if (status) return status;
  }
  int status = xt_context(context);
  if (status == XT_NO_CONTEXT)
    return xt_fail(status, "the calling thread has no current " XT_DRIVER_NAME " context. Make one "
                   "current, for example with cuCtxSetCurrent or cudaSetDevice and cudaFree(0).");
  return status ? xt_driver_failed(status, "asking for the current context") : XT_OK;
}

static const struct xt_loaded *xt_find(struct xt_image *image, unsigned long long context) {
  const struct xt_loaded *node = atomic_load_explicit(&image->loaded, memory_order_acquire);
  while (node && node->context != context) node = node->next;
  return node;
}

/* Load an image, or note that it is for another device. Under the lock. */
static int xt_load_here(const char *entry, struct xt_image *image, unsigned long long context) {
  struct xt_loaded *node = malloc(sizeof *node);
  if (!node) return xt_fail(XT_OUT_OF_MEMORY, "the host has no memory left to load %s", entry);
  *node = (struct xt_loaded){context, NULL, atomic_load(&image->loaded)};
  void *module = NULL;
  int status = xt_driver.module_load(&module, image->data);
  if (!xt_is_for_another(status)) {
    if (!status) status = xt_driver.module_function(&node->function, module, entry);
    if (!status) status = xt_ask_for_shared(node->function, image->shared);
    if (status) {
      free(node);
      return xt_driver_failed(status, entry);
    }
  }
  atomic_store_explicit(&image->loaded, node, memory_order_release);
  return XT_OK;
}

static int xt_get(const char *entry, struct xt_image *image, unsigned long long context,
                  void **function) {
  int status = XT_OK;
  const struct xt_loaded *found = xt_find(image, context);
  if (!found) {
    pthread_mutex_lock(&xt_lock);
    if (!xt_find(image, context)) status = xt_load_here(entry, image, context);
    pthread_mutex_unlock(&xt_lock);
    found = xt_find(image, context);
  }
  *function = found ? found->function : NULL;
  return status;
}

/* XT_NO_BINARY: it has no image of that order for the current device. */
static int xt_launch(struct xt_binary *binary, int order, unsigned long long context, void *stream,
                     int64_t x, int64_t y, int64_t z, void **values) {
  for (int i = 0; i < binary->image_count; i++) {
    struct xt_image *image = &binary->images[i];
    void *function;
    if (image->order != order) continue;
    int status = xt_get(binary->entry, image, context, &function);
    if (status) return status;
    if (!function) return XT_NO_BINARY;
    if (x > 2147483647 || y > 65535 || z > 65535)
      return xt_fail(XT_INVALID_VALUE, "%s: the arrays need more blocks than a grid has",
                     binary->entry);
    status = xt_driver.launch(function, (unsigned)x, (unsigned)y, (unsigned)z, image->threads, 1, 1,
                              image->shared, stream, values, NULL);
    return status ? xt_driver_failed(status, binary->entry) : XT_OK;
  }
  return XT_NO_BINARY;
}

/* Load the first image that the current device takes: the only one that a call can reach. */
static int xt_load_binary(struct xt_binary *binary, unsigned long long context) {
  void *function = NULL;
  int status = XT_OK;
  for (int i = 0; i < binary->image_count && !status && !function; i++)
    status = xt_get(binary->entry, &binary->images[i], context, &function);
  return status;
}

/* No binary did for a call. */
static int xt_nothing(const char *name) {
  return xt_fail(XT_NO_BINARY, "%s: no binary inside is for the current device and these sizes. "
                 "Inside are those for %s. Build the bundle for this device too.", name, xt_targets);
}
