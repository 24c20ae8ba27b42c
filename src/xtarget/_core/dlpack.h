/* DLPack's C exchange API, as far as the core uses it: how a library's arrays are read without
 * Python, and which stream its own work goes to.
 *
 * Source: DLPack 1.3, dlpack.h (DLPackExchangeAPI). The declarations are our own and hold what the
 * ABI fixes.
 */
#ifndef XTARGET_DLPACK_H
#define XTARGET_DLPACK_H

#include <stdint.h>

#define XT_DL_CAPSULE "dlpack_exchange_api"
enum { XT_DL_MAJOR = 1, XT_DL_LEAST_MINOR = 3, XT_DL_CPU = 1, XT_DL_CUDA = 2, XT_DL_ROCM = 10 };

struct xt_dl_tensor {
  void *data;
  int32_t device_type, device_id;
  int32_t dimensions;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};

struct xt_dl_header {
  uint32_t major, minor;
  const struct xt_dl_header *older;
};

struct xt_dl_exchange {
  struct xt_dl_header header;
  int (*allocate)(void *prototype, void **out, void *context, void *set_error);
  int (*owned_from_object)(void *object, void **out);
  int (*object_from_owned)(void *owned, void **out);
  int (*read)(void *object, struct xt_dl_tensor *out); /* may be missing */
  int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
};

/* The table behind a capsule's pointer, of a version that the core knows; else NULL. */
static inline const struct xt_dl_exchange *xt_dl_known(const void *pointer) {
  const struct xt_dl_header *header = pointer;
  for (int steps = 0; header != 0 && steps < 16; steps++, header = header->older) {
    if (header->major == XT_DL_MAJOR && header->minor >= XT_DL_LEAST_MINOR) {
      const struct xt_dl_exchange *table = (const struct xt_dl_exchange *)header;
      return table->read && table->current_stream ? table : 0;
    }
  }
  return 0;
}

#endif
