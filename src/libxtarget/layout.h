/* Layouts of tensors, and whether two share memory. */
#ifndef XTARGET_LAYOUT_H
#define XTARGET_LAYOUT_H

#include "common.h"

enum { XT_AXES = 16 };

/* A tensor, checked, its strides filled in. */
struct xt_array {
  uint64_t address;
  int dtype, dimensions, contiguous;
  int64_t shape[XT_AXES], strides[XT_AXES], count;
  uint64_t low, high; /* its bytes: from the first to behind the last */
};

/* Look at a tensor. `what` names it in messages. */
int xt_array_read(const xtarget_tensor *tensor, const char *what, struct xt_array *array);
/* Whether no two of its elements share memory. */
int xt_array_is_writable(const struct xt_array *array);
int xt_arrays_overlap(const struct xt_array *one, const struct xt_array *other);
/* The same elements in the same order. */
int xt_arrays_are_same(const struct xt_array *one, const struct xt_array *other);
/* "float32(3, 4)" */
void xt_array_text(const struct xt_array *array, char *text, size_t room);
void xt_sizes_text(int count, const int64_t *sizes, char *text, size_t room);

#endif
