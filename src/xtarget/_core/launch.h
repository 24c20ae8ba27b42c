/* A launch through a driver's own entry point: `cuLaunchKernel` and `hipModuleLaunchKernel` have one
 * signature. CUDA takes the address of each value, HIP all values in one buffer. No Python in here.
 */
#ifndef XTARGET_LAUNCH_H
#define XTARGET_LAUNCH_H

#include <stddef.h>

#include "call.h"

enum { XT_MOST_PARAMETERS = 48 };

typedef int (*xt_launch_entry)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                               unsigned block_x, unsigned block_y, unsigned block_z,
                               unsigned shared_bytes, void *stream, void **parameters,
                               void **extra);
typedef int (*xt_context_entry)(void **context);
/* `cuMemsetD8Async` and `hipMemsetD8Async`. */
typedef int (*xt_fill_entry)(uint64_t address, unsigned char byte, size_t count, void *stream);

/* How a parameter is passed. */
enum xt_passed {
  XT_PASS_WORD, XT_PASS_BOOL, XT_PASS_FP32, XT_PASS_FP64, XT_PASS_SIZE,
  XT_PASS_FP16, XT_PASS_BF16 /* as float32, rounded once to what the number means */
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
  int parameter_count;
  struct xt_parameter parameters[XT_MOST_PARAMETERS];
};

enum { XT_LAUNCHED = 0, XT_DECLINED = -1 };

/* Get a launch's parameters ready, in `places` as `xt_start` takes them: they lie in the launch, in
 * `values`, `sizes` and `bytes`, which have to stay until then. Returns XT_DECLINED where a value does
 * not fit its parameter.
 *
 * `sizes` are the numbers that a class's program gave; NULL where no parameter takes one. */
int xt_pack(const struct xt_launch *launch, const struct xt_value *values, const int64_t *sizes,
            uint64_t bytes[XT_MOST_PARAMETERS], void *places[XT_MOST_PARAMETERS]);

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
