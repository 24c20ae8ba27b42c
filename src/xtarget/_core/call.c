#include "call.h"

/* Tags of arguments that are numbers; those of arrays begin with their reader, which is not 0. */
enum { TAG_INTEGER = 1 };

int xt_is_contiguous(int dimensions, const int64_t *shape, const int64_t *strides) {
  int64_t expected = 1;
  for (int axis = dimensions - 1; axis >= 0; axis--) {
    if (shape[axis] == 1) continue;
    if (strides[axis] != expected) return 0;
    if (__builtin_mul_overflow(expected, shape[axis], &expected)) return 0;
  }
  return 1;
}

int xt_add_array(struct xt_call *call, const struct xt_layout *array) {
  int dimensions = array->dimensions;
  if (dimensions < 0 || dimensions > XT_MOST_DIMENSIONS) return 0;
  if (call->word_count + 3 > XT_MOST_WORDS || call->value_count == XT_MOST_VALUES ||
      call->size_count + 2 * dimensions > XT_MOST_SIZES)
    return 0;
  uint64_t *words = call->words + call->word_count;
  words[0] = (uint64_t)array->reader << 32 | (uint64_t)dimensions << 8 |
             (uint64_t)(array->address % 16 == 0) << 1 | (uint64_t)(array->contiguous != 0) << 2;
  words[1] = array->type;
  words[2] = array->place;
  call->word_count += 3;
  int64_t *sizes = call->sizes + call->size_count;
  for (int axis = 0; axis < dimensions; axis++) {
    sizes[axis] = array->shape[axis];
    if (sizes[axis] <= 0) return 0; /* what has no elements is rare, and Python's */
  }
  call->size_count += dimensions;
  if (!array->contiguous) {
    sizes += dimensions;
    for (int axis = 0; axis < dimensions; axis++) {
      if (array->unit == 1) {
        sizes[axis] = array->strides[axis];
      } else {
        if (array->strides[axis] % array->unit) return 0;
        sizes[axis] = array->strides[axis] / array->unit;
      }
    }
    call->size_count += dimensions;
  }
  struct xt_value *value = &call->values[call->value_count++];
  value->kind = XT_ADDRESS;
  value->as.address = array->address;
  return 1;
}

int xt_add_integer(struct xt_call *call, int64_t value) {
  uint64_t bits = (uint64_t)(value < 0 ? ~value : value);
  uint64_t width = bits ? 64 - (uint64_t)__builtin_clzll(bits) : 0;
  struct xt_value given = {XT_INTEGER, {.integer = value}};
  return xt_add_word(call, TAG_INTEGER | width << 8 | (uint64_t)(value < 0) << 16) &&
         xt_add_value(call, given);
}

static uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

uint64_t xt_hash_class(const struct xt_call *call) {
  uint64_t hash = (uint64_t)call->word_count;
  for (int i = 0; i < call->word_count; i++) hash = mixed(hash, call->words[i]);
  return hash;
}

uint64_t xt_hash_layout(const struct xt_call *call, uint64_t hash) {
  for (int i = 0; i < call->size_count; i++) hash = mixed(hash, (uint64_t)call->sizes[i]);
  return hash;
}
