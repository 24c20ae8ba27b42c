#include "layout.h"

#include <stdio.h>

#include "dlpack.h" /* of the compiled core: ../xtarget/_core */

/* In C order without gaps; dimensions of length 1 have any stride. */
static int is_contiguous(const struct xt_array *array) {
  int64_t expected = 1;
  for (int axis = array->dimensions - 1; array->count && axis >= 0; axis--) {
    if (array->shape[axis] != 1 && array->strides[axis] != expected) return 0;
    expected *= array->shape[axis];
  }
  return 1;
}

static int reach(struct xt_array *array) {
  int64_t low = 0, high = 0, size = xt_dtype_sizes[array->dtype];
  for (int axis = 0; array->count && axis < array->dimensions; axis++) {
    int64_t part;
    if (__builtin_mul_overflow(array->strides[axis], array->shape[axis] - 1, &part) ||
        __builtin_add_overflow(part < 0 ? low : high, part, part < 0 ? &low : &high))
      return 0;
  }
  high += array->count ? 1 : 0;
  if (low < -(INT64_MAX / 16) || high > INT64_MAX / 16) return 0;
  uint64_t below = (uint64_t)(-low * size), above = (uint64_t)(high * size);
  if (array->count && (below > array->address || above > UINT64_MAX - array->address)) return 0;
  array->low = array->address - below;
  array->high = array->address + above;
  return 1;
}

int xt_array_read(const xtarget_tensor *tensor, const char *what, struct xt_array *array) {
  if (tensor->dtype < 0 || tensor->dtype >= XTARGET_DTYPE_COUNT)
    return xt_fail(XTARGET_BAD_ARGUMENT, "%s has the dtype %d, which is none of xtarget.h.", what,
                   tensor->dtype);
  if (tensor->ndim < 0 || tensor->ndim > XT_AXES)
    return xt_fail(XTARGET_BAD_ARGUMENT, "%s has %d dimensions; an array has 0 to %d.", what,
                   tensor->ndim, XT_AXES);
  if (tensor->ndim && !tensor->shape)
    return xt_fail(XTARGET_BAD_ARGUMENT, "%s has no shape, and %d dimension%s.", what, tensor->ndim,
                   tensor->ndim == 1 ? "" : "s");
  array->address = (uint64_t)(uintptr_t)tensor->data;
  array->dtype = tensor->dtype;
  array->dimensions = tensor->ndim;
  array->count = 1;
  int64_t packed = 1;
  for (int axis = tensor->ndim - 1; axis >= 0; axis--) {
    int64_t length = tensor->shape[axis];
    if (length < 0)
      return xt_fail(XTARGET_BAD_ARGUMENT, "%s has a dimension of %lld elements.", what,
                     (long long)length);
    array->shape[axis] = length;
    array->strides[axis] = tensor->strides ? tensor->strides[axis] : packed;
    if (__builtin_mul_overflow(array->count, length, &array->count) ||
        __builtin_mul_overflow(packed, length ? length : 1, &packed))
      return xt_fail(XTARGET_BAD_ARGUMENT, "%s has more elements than 64 bits count.", what);
  }
  if (array->count && !tensor->data)
    return xt_fail(XTARGET_BAD_ARGUMENT, "%s has elements, and no address.", what);
  if (array->address % xt_dtype_sizes[array->dtype] && array->count)
    return xt_fail(XTARGET_BAD_ARGUMENT, "%s is not aligned to its elements of %d bytes. Copy it to "
                   "memory that is.", what, xt_dtype_sizes[array->dtype]);
  if (!reach(array))
    return xt_fail(XTARGET_BAD_ARGUMENT, "%s reaches beyond the address space.", what);
  array->contiguous = is_contiguous(array);
  return XTARGET_OK;
}

int xt_array_is_writable(const struct xt_array *array) {
  int order[XT_AXES], count = 0;
  if (!array->count) return 1;
  for (int axis = 0; axis < array->dimensions; axis++) {
    if (array->shape[axis] < 2) continue;
    int at = count++;
    for (; at && llabs(array->strides[order[at - 1]]) > llabs(array->strides[axis]); at--)
      order[at] = order[at - 1];
    order[at] = axis;
  }
  int64_t reached = 0;
  for (int i = 0; i < count; i++) {
    int64_t step = llabs(array->strides[order[i]]);
    if (step <= reached) return 0;
    reached += step * (array->shape[order[i]] - 1);
  }
  return 1;
}

int xt_arrays_overlap(const struct xt_array *one, const struct xt_array *other) {
  return one->count && other->count && one->low < other->high && other->low < one->high;
}

int xt_arrays_are_same(const struct xt_array *one, const struct xt_array *other) {
  if (one->address != other->address || one->dtype != other->dtype ||
      one->dimensions != other->dimensions)
    return 0;
  for (int axis = 0; axis < one->dimensions; axis++)
    if (one->shape[axis] != other->shape[axis] ||
        (one->shape[axis] != 1 && one->strides[axis] != other->strides[axis]))
      return 0;
  return 1;
}

void xt_sizes_text(int count, const int64_t *sizes, char *text, size_t room) {
  size_t at = (size_t)snprintf(text, room, "(");
  for (int i = 0; i < count && at < room; i++)
    at += (size_t)snprintf(text + at, room - at, i ? ", %lld" : "%lld", (long long)sizes[i]);
  if (at < room) snprintf(text + at, room - at, ")");
}

void xt_array_text(const struct xt_array *array, char *text, size_t room) {
  size_t at = (size_t)snprintf(text, room, "%s", xt_dtype_names[array->dtype]);
  if (at < room) xt_sizes_text(array->dimensions, array->shape, text + at, room - at);
  at = strlen(text);
  if (array->contiguous || at + 1 >= room) return;
  at += (size_t)snprintf(text + at, room - at, " with strides ");
  if (at < room) xt_sizes_text(array->dimensions, array->strides, text + at, room - at);
}

int xtarget_from_dlpack(const void *given, xtarget_tensor *tensor) {
  /* DLDataTypeCode: kDLInt, kDLUInt, kDLFloat, kDLBfloat, kDLBool, kDLFloat8_e4m3fn,
   * kDLFloat8_e5m2 */
  static const struct {
    uint8_t code, bits;
  } codes[XTARGET_DTYPE_COUNT] = {{6, 8},  {0, 8},  {0, 16}, {0, 32}, {0, 64}, {1, 8}, {1, 16},
                                  {1, 32}, {1, 64}, {2, 16}, {4, 16}, {2, 32}, {2, 64},
                                  {10, 8}, {12, 8}};
  const struct xt_dl_tensor *from = given;
  int dtype = 0;
  if (!from || !tensor)
    return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_from_dlpack needs a DLTensor and a "
                           "tensor."));
  while (dtype < XTARGET_DTYPE_COUNT &&
         (codes[dtype].code != from->dtype.code || codes[dtype].bits != from->dtype.bits))
    dtype++;
  if (dtype == XTARGET_DTYPE_COUNT || from->dtype.lanes != 1)
    return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "the tensor's elements (DLPack code %d, %d bits, %d "
                           "lanes) are of no dtype that kernels take.", from->dtype.code,
                           from->dtype.bits, from->dtype.lanes));
  tensor->data = from->data ? (char *)from->data + from->byte_offset : NULL;
  tensor->dtype = dtype;
  tensor->ndim = from->dimensions;
  tensor->shape = from->shape;
  tensor->strides = from->strides;
  tensor->device_type = from->device_type;
  tensor->device_id = from->device_id;
  return XTARGET_OK;
}
