/* What devices of all drivers share. */
#define _POSIX_C_SOURCE 200809L
#include "device.h"

#include <dlfcn.h>
#include <stdio.h>

/* A function that was loaded, for as long as the device is open: a graph may launch it. */
struct xt_loaded {
  uint8_t sha256[32], content[32]; /* of what the bundle stores, and of what was loaded */
  char *entry;
  void *function;
  struct xt_loaded *next;
};

int xt_open_library(const char *driver, const char *variable, const char *library,
                    const struct xt_symbol *symbols, size_t count) {
  const char *named = getenv(variable);
  void *opened = dlopen(named && *named ? named : library, RTLD_NOW | RTLD_LOCAL);
  if (!opened)
    return xt_fail(XTARGET_NO_DRIVER, "the %s library cannot be opened: %s. Install the vendor's "
                   "driver, or name the library in %s.", driver, dlerror(), variable);
  for (size_t i = 0; i < count; i++) {
    *symbols[i].place = dlsym(opened, symbols[i].name);
    if (!*symbols[i].place)
      return xt_fail(XTARGET_NO_DRIVER, "the %s library has no %s; it is too old, or another one. "
                     "Update the driver.", driver, symbols[i].name);
  }
  return XTARGET_OK;
}

static const struct xt_driver *driver_of(int number) {
  static const struct xt_driver *const drivers[] = {&xt_cuda, &xt_hip, &xt_level_zero, &xt_opencl};
  for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
    if (drivers[i]->number == number) return drivers[i];
  return NULL;
}

static int opened(int number, int ordinal, void *context, void *native, xtarget_device **result) {
  const struct xt_driver *driver = driver_of(number);
  if (!result || !driver)
    return xt_fail(XTARGET_BAD_ARGUMENT, "a device needs a driver (XTARGET_CUDA, XTARGET_HIP, "
                   "XTARGET_LEVEL_ZERO or XTARGET_OPENCL) and a place for it.");
  *result = NULL;
  xtarget_device *device = calloc(1, sizeof *device);
  if (!device || pthread_mutex_init(&device->lock, NULL)) {
    free(device);
    return xt_no_memory();
  }
  atomic_init(&device->references, 1);
  device->driver = driver;
  device->ordinal = ordinal;
  int status = context || native || ordinal < 0 ? driver->open_in(device, context, native)
                                                : driver->open(device, ordinal);
  if (status) {
    pthread_mutex_destroy(&device->lock);
    free(device);
    return status;
  }
  xt_log(XT_LOG_INFO, "open the device %s (%s) of %s", device->name, device->target, driver->name);
  *result = device;
  return XTARGET_OK;
}

int xtarget_device_open(int driver, int ordinal, xtarget_device **device) {
  if (ordinal < 0)
    return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "a device's number is not below 0, as %d is.",
                           ordinal));
  return xt_told(opened(driver, ordinal, NULL, NULL, device));
}

int xtarget_device_in(int driver, void *context, void *native, xtarget_device **device) {
  if (!context)
    return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_device_in needs a context; "
                           "xtarget_device_open opens a device without one."));
  return xt_told(opened(driver, -1, context, native, device));
}

void xt_device_keep(xtarget_device *device) { atomic_fetch_add(&device->references, 1); }

void xtarget_device_close(xtarget_device *device) {
  if (!device || atomic_fetch_sub(&device->references, 1) != 1) return;
  while (device->loaded) {
    struct xt_loaded *next = device->loaded->next;
    device->driver->unload(device, device->loaded->function);
    free(device->loaded->entry);
    free(device->loaded);
    device->loaded = next;
  }
  device->driver->close(device);
  pthread_mutex_destroy(&device->lock);
  free(device);
}

const char *xtarget_device_target(const xtarget_device *device) {
  return device ? device->target : "";
}

const char *xtarget_device_name(const xtarget_device *device) { return device ? device->name : ""; }

static int no_device(void) {
  return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "this function needs a device. Open one first."));
}

int xtarget_device_stream(xtarget_device *device, void **stream) {
  if (!device || !stream) return no_device();
  *stream = device->own_stream;
  return XTARGET_OK;
}

int xtarget_device_synchronize(xtarget_device *device, void *stream) {
  return device ? xt_told(device->driver->synchronize(device, stream)) : no_device();
}

int xtarget_device_allocate(xtarget_device *device, size_t size, void **memory) {
  if (!device || !memory) return no_device();
  *memory = NULL;
  return xt_told(device->driver->allocate(device, size ? size : 1, memory));
}

void xtarget_device_free(xtarget_device *device, void *memory) {
  if (device && memory) device->driver->release(device, memory);
}

int xtarget_device_clear(xtarget_device *device, void *stream, void *memory, size_t size) {
  static const uint8_t zero = 0;
  if (!device) return no_device();
  if (!size) return XTARGET_OK;
  if (!memory)
    return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "the address of %zu bytes is NULL.", size));
  return xt_told(device->driver->fill(device, stream, memory, &zero, 1, size));
}

int xtarget_device_copy(xtarget_device *device, void *to, const void *from, size_t size,
                        int to_device) {
  if (!device) return no_device();
  if (!size) return XTARGET_OK;
  if (!to || !from)
    return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "a copy of %zu bytes needs two addresses.", size));
  return xt_told(device->driver->copy(device, to, from, size, to_device));
}

/* ---------------------------------------------------------------------------------- loading */

/* Load what nobody has loaded before. Under the lock. */
static int load_first(xtarget_device *device, const xtarget_bundle *bundle,
                      const struct xt_section *section, const struct xt_binary *binary, int portable,
                      struct xt_loaded **result) {
  const struct xt_mark *mark = portable ? &binary->portable : &binary->binary;
  double begun = xt_clock();
  uint8_t *bytes = NULL;
  struct xt_loaded *node = calloc(1, sizeof *node);
  char *entry = strdup(binary->entry);
  int status = node && entry ? XTARGET_OK : xt_no_memory();
  if (!status) status = xt_section_bytes(bundle, section, mark, XT_MOST_BINARY, &bytes);
  if (!status && !xt_digest(bytes, mark->raw, node->content)) status = xt_no_memory();
  if (!status) status = xt_lock_check(bundle->lock_file, node->content, entry, section->target);
  if (!status) status = device->driver->load(device, binary, bytes, mark->raw, &node->function);
  free(bytes);
  if (status) {
    free(entry);
    free(node);
    return status;
  }
  xt_log(XT_LOG_INFO, "load %s, made for %s, device %s: %.1f ms", entry, section->target,
         device->name, xt_clock() - begun);
  memcpy(node->sha256, mark->sha256, 32);
  node->entry = entry;
  node->next = device->loaded;
  *result = device->loaded = node;
  return XTARGET_OK;
}

int xt_load(xtarget_device *device, const xtarget_bundle *bundle, const struct xt_section *section,
            struct xt_binary *binary, int portable, void **function) {
  *function = atomic_load_explicit(&binary->loaded, memory_order_acquire);
  if (*function) return XTARGET_OK;
  const struct xt_mark *mark = portable ? &binary->portable : &binary->binary;
  pthread_mutex_lock(&device->lock);
  struct xt_loaded *node = device->loaded;
  while (node && (memcmp(node->sha256, mark->sha256, 32) || strcmp(node->entry, binary->entry)))
    node = node->next;
  int status = node ? xt_lock_check(bundle->lock_file, node->content, node->entry, section->target)
                    : load_first(device, bundle, section, binary, portable, &node);
  if (!status) {
    *function = node->function;
    atomic_store_explicit(&binary->loaded, node->function, memory_order_release);
  }
  pthread_mutex_unlock(&device->lock);
  return status;
}

/* ----------------------------------------------------------------------------- compatibility */

/* 90 of "sm_90"; -1 of "sm_90a" and other text. */
static int capability(const char *arch) {
  int value = 0, digits = 0;
  if (strncmp(arch, "sm_", 3) != 0) return -1;
  for (arch += 3; *arch >= '0' && *arch <= '9' && digits < 6; arch++, digits++)
    value = value * 10 + (*arch - '0');
  return digits && !*arch ? value : -1;
}

/* No binary compatibility between desktop and Tegra, nor among Tegra's (`CubinRules`, which has the
 * sources). */
static int is_tegra(int capability_) {
  static const int tegra[] = {53, 62, 72, 87, 101, 110};
  for (size_t i = 0; i < sizeof tegra / sizeof *tegra; i++)
    if (tegra[i] == capability_) return 1;
  return 0;
}

int xt_fit(const char *made, const struct xt_binary *binary, const char *here) {
  if (!strcmp(made, here)) return XT_EXACT;
  static const char vendor[] = "nvidia:";
  size_t skip = sizeof vendor - 1;
  if (strncmp(made, vendor, skip) || strncmp(here, vendor, skip)) return XT_UNFIT;
  int old = capability(made + skip), new = capability(here + skip);
  if (new < 0) return XT_UNFIT;
  if (old >= 0 && !binary->specific && old / 10 == new / 10 && old <= new && !is_tegra(old) &&
      !is_tegra(new))
    return XT_FAMILY;
  int oldest = capability(binary->portable_arch);
  return oldest >= 0 && oldest <= new ? XT_PORTABLE : XT_UNFIT;
}
