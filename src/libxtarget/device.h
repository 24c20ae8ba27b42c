/* Devices: what the vendors' libraries, opened when they are first needed, offer to launches. */
#ifndef XTARGET_DEVICE_H
#define XTARGET_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "record.h"

struct xt_loaded;

struct xt_driver {
  int number, dlpack; /* dlpack: its kind of memory */
  const char *name;
  int (*open)(xtarget_device *device, int ordinal);
  int (*open_in)(xtarget_device *device, void *context, void *native);
  void (*close)(xtarget_device *device);
  int (*synchronize)(xtarget_device *device, void *stream);
  int (*load)(xtarget_device *device, const struct xt_binary *binary, const uint8_t *bytes,
              size_t size, void **function);
  void (*unload)(xtarget_device *device, void *function);
  /* `values` are the bits of each parameter of the entry. */
  int (*start)(xtarget_device *device, void *function, const struct xt_binary *binary,
               const unsigned grid[3], uint64_t *values, void *stream);
  int (*allocate)(xtarget_device *device, size_t size, void **memory);
  void (*release)(xtarget_device *device, void *memory);
  /* Memory for the work of a stream; it is given back behind that work. */
  int (*borrow)(xtarget_device *device, void *stream, size_t size, void **memory);
  int (*give_back)(xtarget_device *device, void *stream, void *memory);
  /* `pattern` has 1, 2, 4 or 8 bytes. */
  int (*fill)(xtarget_device *device, void *stream, void *memory, const uint8_t *pattern,
              size_t pattern_size, size_t size);
  int (*copy)(xtarget_device *device, void *to, const void *from, size_t size, int to_device);
};

struct xtarget_device {
  atomic_int references;
  const struct xt_driver *driver;
  char target[64], name[160];
  int ordinal; /* -1: not known */
  int64_t units;
  void *context, *native, *own_stream;
  int owns_context; /* a driver's context that has to be given back */
  pthread_mutex_t lock; /* of `loaded` */
  struct xt_loaded *loaded;
};

extern const struct xt_driver xt_cuda, xt_hip, xt_level_zero, xt_opencl;

/* The function of a binary, loaded once for each device. `form`: as for `xt_fit`. */
int xt_load(xtarget_device *device, const xtarget_bundle *bundle, const struct xt_section *section,
            struct xt_binary *binary, int portable, void **function);
void xt_device_keep(xtarget_device *device);

/* The functions of a library stand in one table each, `X(result, symbol, name, parameters)`: this
 * makes the member of a struct that points to one. */
#define XT_MEMBER(result, symbol, name, parameters) result(*name) parameters;

struct xt_symbol {
  const char *name;
  void **place;
};

/* Open a library and look its functions up. `variable` is the environment variable that may name
 * another one. */
int xt_open_library(const char *driver, const char *variable, const char *library,
                    const struct xt_symbol *symbols, size_t count);

/* How a binary for one target runs on another: 0 for not at all, 1 as it is, 2 by its family; 3:
 * by its portable form. */
enum { XT_UNFIT, XT_EXACT, XT_FAMILY, XT_PORTABLE };
int xt_fit(const char *made, const struct xt_binary *binary, const char *here);

#endif
