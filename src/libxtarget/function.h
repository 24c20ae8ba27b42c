/* Functions of a kernel, with the binary that runs on its device. */
#ifndef XTARGET_FUNCTION_H
#define XTARGET_FUNCTION_H

#include "kernel.h"

struct xtarget_function {
  xtarget_kernel *kernel;
  const struct xt_offer *offer;
  const struct xt_function *function;
  struct xt_binary *binary;
  int fit;
  char *signature;
};

/* Of Triton's types, by dtype. */
extern const char *const xt_triton_types[XTARGET_DTYPE_COUNT];

/* The parameter of a binary's entry that takes a launch's argument; NULL: there are fewer. */
const struct xt_parameter *xt_visible(const struct xt_binary *binary, size_t argument);

/* Bytes that a launch takes of an argument. */
int xt_parameter_size(const struct xt_parameter *parameter);

/* Whether a function has so many warps and stages; 0: any. */
int xt_has_shape(const struct xt_function *function, int num_warps, int num_stages);

/* Call `each` for each binary that runs on the kernel's device, until it gives 0. */
void xt_each_function(xtarget_kernel *kernel,
                      int (*each)(struct xtarget_function *one, void *data), void *data);

/* The errors of a launch: no function is for `what`, there is none, the grid, the count. */
int xt_none_fits(xtarget_kernel *kernel, const char *what);
int xt_no_function(void);
int xt_check_grid(const struct xt_function *function, const uint32_t grid[3]);
int xt_check_count(const struct xtarget_function *one, const void *arguments, size_t count);

/* Launch with the bits of each argument. */
int xt_start_function(const struct xtarget_function *one, void *stream, const uint32_t grid[3],
                      const uint64_t *arguments);

#endif
