/* A launch through a driver's own entry point: `cuLaunchKernel` and `hipModuleLaunchKernel` have one
 * signature. CUDA takes the address of each value, HIP all values in one buffer. No Python in here.
 */
#ifndef XTARGET_LAUNCH_H
#define XTARGET_LAUNCH_H

#include <stddef.h>

#include "call.h"

enum { XT_MOST_PARAMETERS = 48, XT_MOST_MAPS = 4, XT_MAP_BYTES = 128, XT_MAP_ALIGN = 64 };

typedef int (*xt_launch_entry)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                               unsigned block_x, unsigned block_y, unsigned block_z,
                               unsigned shared_bytes, void *stream, void **parameters,
                               void **extra);
typedef int (*xt_context_entry)(void **context);
/* `cuMemsetD8Async`, `cuMemsetD16Async` and `cuMemsetD32Async`, and HIP's functions of these names. */
typedef int (*xt_fill8_entry)(uint64_t address, unsigned char word, size_t count, void *stream);
typedef int (*xt_fill16_entry)(uint64_t address, unsigned short word, size_t count, void *stream);
typedef int (*xt_fill32_entry)(uint64_t address, unsigned word, size_t count, void *stream);
/* `cuTensorMapEncodeTiled`: the innermost dimension comes first. */
typedef int (*xt_encode_entry)(void *map, int dtype, uint32_t rank, void *address,
                               const uint64_t *lengths, const uint64_t *strides,
                               const uint32_t *box, const uint32_t *element_strides, int interleave,
                               int swizzle, int promotion, int fill);

/* How a parameter is passed. */
enum xt_passed {
  XT_PASS_WORD, XT_PASS_BOOL, XT_PASS_FP32, XT_PASS_FP64, XT_PASS_SIZE,
  XT_PASS_FP16, XT_PASS_BF16, /* as float32, rounded once to what the number means */
  XT_PASS_MAP /* a tensor map of what is at an address; its lengths, and then its strides in elements,
               * are the next parameters; `constant` says the rest, as `read_map` in launch.c reads it */
};

struct xt_parameter {
  enum xt_passed passed;
  int from;          /* place in the call's values, of XT_PASS_SIZE in its sizes; -1: `constant` */
  uint64_t constant; /* its bytes */
  uint16_t offset, size; /* in the buffer */
};

struct xt_launch {
  xt_launch_entry entry;
  void *function;
  xt_context_entry current_context; /* NULL: the driver knows no current context */
  void *context;                    /* that the launch needs to be current */
  unsigned grid[3], block[3], shared_bytes;
  unsigned buffer_bytes; /* 0: the driver takes the address of each value */
  xt_encode_entry encode; /* NULL where no parameter is a tensor map */
  int parameter_count, map_count;
  struct xt_parameter parameters[XT_MOST_PARAMETERS];
};

enum { XT_LAUNCHED = 0, XT_DECLINED = -1 };

/* What fills memory; NULL: it is not known. */
struct xt_fills {
  xt_fill8_entry bytes;
  xt_fill16_entry halves;
  xt_fill32_entry words;
};

/* Memory that is filled before the launches. */
struct xt_filling {
  int place;      /* of its address in the call's values and the pieces, in one row */
  int size_at;    /* of a class: where its bytes are among the sizes */
  int64_t nbytes; /* of one layout */
  unsigned word, width; /* what is repeated, and its bytes: 1, 2 or 4 */
};

/* Whether there is something that fills with words so wide. */
int xt_can_fill(const struct xt_fills *fills, unsigned width);

/* Start filling so many bytes, if there are any. Returns XT_LAUNCHED, or the driver's status. */
int xt_fill(const struct xt_fills *fills, const struct xt_filling *filling, uint64_t address,
            int64_t nbytes, void *stream);

/* Room for a launch's tensor maps, and to begin at a multiple of XT_MAP_ALIGN. */
struct xt_maps {
  unsigned char room[XT_MOST_MAPS * XT_MAP_BYTES + XT_MAP_ALIGN];
};

/* Get a launch's parameters ready, in `places` as `xt_start` takes them: they lie in the launch, in
 * `values`, `sizes`, `bytes` and `maps`, which have to stay until then. Returns XT_DECLINED where a
 * value does not fit its parameter.
 *
 * `sizes` are the numbers that a class's program gave; NULL where no parameter takes one. */
int xt_pack(const struct xt_launch *launch, const struct xt_value *values, const int64_t *sizes,
            uint64_t bytes[XT_MOST_PARAMETERS], void *places[XT_MOST_PARAMETERS],
            struct xt_maps *maps);

/* Whether the launch's context is the calling thread's current one. */
int xt_context_is_current(const struct xt_launch *launch);

/* A grid's blocks as the driver takes them: 0 where there are none, or too many. */
int xt_read_grid(const int64_t blocks[3], unsigned grid[3]);

/* Start what was packed. Returns XT_LAUNCHED, or the driver's status: nothing was started then. */
static inline int xt_start(const struct xt_launch *launch, const unsigned grid[3], void *stream,
                           void *const *places) {
  /* HIP_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE, _END (HIP's run time API) */
  size_t size = launch->buffer_bytes;
  void *extra[] = {(void *)1, places[0], (void *)2, &size, (void *)3};
  return launch->entry(launch->function, grid[0], grid[1], grid[2],
                       launch->block[0], launch->block[1], launch->block[2], launch->shared_bytes,
                       stream, size ? 0 : (void **)(uintptr_t)places, size ? extra : 0);
}

#endif
