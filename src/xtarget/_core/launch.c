#include "launch.h"

#include <math.h>
#include <string.h>

int xt_context_is_current(const struct xt_launch *launch) {
  void *current = 0;
  if (!launch->current_context) return 1;
  return launch->current_context(&current) == 0 && current == launch->context;
}

/* The nearest number of so many binary digits, ties to even, as IEEE 754 has them: `least` is the
 * exponent of the smallest normal number, at `end` and beyond it is infinite. */
static double nearest(double value, int digits, int least, double end) {
  int exponent;
  if (value == 0 || !isfinite(value)) return value;
  frexp(value, &exponent);
  if (exponent < least + 1) exponent = least + 1;
  double rounded = ldexp(nearbyint(ldexp(value, digits - exponent)), exponent - digits);
  return copysign(fabs(rounded) < end ? rounded : INFINITY, value);
}

/* The value as a parameter's bytes; little-endian, so that narrower integers are its first bytes. */
static int packed(const struct xt_value *value, enum xt_passed passed, uint64_t *bytes) {
  double real;
  float single;
  switch (passed) {
    case XT_PASS_WORD:
      if (value->kind == XT_FLOAT) return 0;
      *bytes = value->kind == XT_ADDRESS ? value->as.address : (uint64_t)value->as.integer;
      return 1;
    case XT_PASS_BOOL:
      if (value->kind != XT_INTEGER) return 0;
      *bytes = value->as.integer != 0;
      return 1;
    case XT_PASS_FP16:
    case XT_PASS_BF16:
    case XT_PASS_FP32:
    case XT_PASS_FP64:
      if (value->kind == XT_ADDRESS) return 0;
      real = value->kind == XT_FLOAT ? value->as.real : (double)value->as.integer;
      if (passed == XT_PASS_FP16) real = nearest(real, 11, -14, 65536.0);
      if (passed == XT_PASS_BF16) real = nearest(real, 8, -126, 0x1p128);
      *bytes = 0;
      if (passed == XT_PASS_FP64) {
        memcpy(bytes, &real, sizeof real);
      } else {
        single = (float)real;
        memcpy(bytes, &single, sizeof single);
      }
      return 1;
    case XT_PASS_SIZE: /* no value of the caller's */
    case XT_PASS_MAP: break;
  }
  return 0;
}

int xt_can_fill(const struct xt_fills *fills, unsigned width) {
  return (width == 1 && fills->bytes) || (width == 2 && fills->halves) || (width == 4 && fills->words);
}

int xt_fill(const struct xt_fills *fills, const struct xt_filling *filling, uint64_t address,
            int64_t nbytes, void *stream) {
  size_t count = (size_t)nbytes / filling->width;
  if (nbytes <= 0) return XT_LAUNCHED; /* drivers refuse to set nothing */
  switch (filling->width) {
    case 1: return fills->bytes(address, (unsigned char)filling->word, count, stream);
    case 2: return fills->halves(address, (unsigned short)filling->word, count, stream);
    default: return fills->words(address, filling->word, count, stream);
  }
}

int xt_read_grid(const int64_t blocks[3], unsigned grid[3]) {
  /* CUDA C++ Programming Guide, "Technical Specifications": the limits of all devices */
  static const int64_t most[3] = {INT32_MAX, UINT16_MAX, UINT16_MAX};
  for (int axis = 0; axis < 3; axis++) {
    if (blocks[axis] < 1 || blocks[axis] > most[axis]) return 0;
    grid[axis] = (unsigned)blocks[axis];
  }
  return 1;
}

/* A value of the caller's, or of a class's program, for a parameter: where its bytes are. Those that
 * are as the driver takes them stay where they are. NULL: it does not fit. */
static inline const void *found(const struct xt_parameter *parameter, const struct xt_value *values,
                                const int64_t *sizes, uint64_t *bytes) {
  if (parameter->from < 0) return &parameter->constant;
  if (parameter->passed == XT_PASS_SIZE) return &sizes[parameter->from];
  const struct xt_value *value = &values[parameter->from];
  if (parameter->passed == XT_PASS_WORD && value->kind != XT_FLOAT) return &value->as;
  if (parameter->passed == XT_PASS_MAP) return value->kind == XT_ADDRESS ? &value->as : 0;
  return packed(value, parameter->passed, bytes) ? bytes : 0;
}

/* Of a tensor map's `constant`, from the lowest bits on: 8 the driver's number of the dtype, 8 bytes of
 * an element, 4 the driver's number of the swizzle, 4 dimensions, and 8 for each of them, the
 * outermost first: the tile's length is 2 to that power. */
static int read_map(uint64_t constant, int *dtype, unsigned *itemsize, int *swizzle, int *rank,
                    uint32_t box[5]) {
  *dtype = (int)(constant & 0xFF);
  *itemsize = (unsigned)(constant >> 8 & 0xFF);
  *swizzle = (int)(constant >> 16 & 0xF);
  *rank = (int)(constant >> 20 & 0xF);
  if (*rank < 1 || *rank > 5) return 0;
  for (int axis = 0; axis < *rank; axis++)
    box[*rank - 1 - axis] = UINT32_C(1) << (constant >> (24 + 8 * axis) & 0x1F);
  return 1;
}

/* In the place of each address that a tensor map is made of, the map. 1, or 0. */
static int encode_maps(const struct xt_launch *launch, void *places[XT_MOST_PARAMETERS],
                       struct xt_maps *maps) {
  static const uint32_t ones[5] = {1, 1, 1, 1, 1};
  uintptr_t room = ((uintptr_t)maps->room + XT_MAP_ALIGN - 1) / XT_MAP_ALIGN * XT_MAP_ALIGN;
  int made = 0;
  for (int i = 0; i < launch->parameter_count; i++) {
    const struct xt_parameter *parameter = &launch->parameters[i];
    uint64_t lengths[5], strides[5];
    uint32_t box[5];
    unsigned itemsize;
    int dtype, swizzle, rank;
    if (parameter->passed != XT_PASS_MAP) continue;
    if (made == XT_MOST_MAPS ||
        !read_map(parameter->constant, &dtype, &itemsize, &swizzle, &rank, box) ||
        i + 2 * rank >= launch->parameter_count)
      return 0;
    for (int axis = 0; axis < rank; axis++) {
      lengths[rank - 1 - axis] = *(const uint64_t *)places[i + 1 + axis];
      if (axis < rank - 1)
        strides[rank - 2 - axis] = itemsize * *(const uint64_t *)places[i + 1 + rank + axis];
    }
    void *map = (void *)(room + (uintptr_t)made++ * XT_MAP_BYTES);
    /* CU_TENSOR_MAP_INTERLEAVE_NONE, _L2_PROMOTION_L2_128B, _FLOAT_OOB_FILL_NONE (cuda.h) */
    if (launch->encode(map, dtype, (uint32_t)rank, *(void **)places[i], lengths, strides, box, ones,
                       0, swizzle, 2, 0))
      return 0;
    places[i] = map;
  }
  return 1;
}

int xt_pack(const struct xt_launch *launch, const struct xt_value *values, const int64_t *sizes,
            uint64_t bytes[XT_MOST_PARAMETERS], void *places[XT_MOST_PARAMETERS],
            struct xt_maps *maps) {
  const struct xt_parameter *parameter = launch->parameters, *end = parameter + launch->parameter_count;
  if (!launch->buffer_bytes) {
    for (int i = 0; parameter < end; parameter++, i++) {
      const void *at = found(parameter, values, sizes, &bytes[i]);
      if (!at) return XT_DECLINED;
      places[i] = (void *)(uintptr_t)at; /* the driver reads there */
    }
    return !launch->map_count || encode_maps(launch, places, maps) ? 0 : XT_DECLINED;
  }
  places[0] = memset(bytes, 0, launch->buffer_bytes);
  for (uint64_t word; parameter < end; parameter++) {
    const void *at = found(parameter, values, sizes, &word);
    if (!at) return XT_DECLINED;
    memcpy((char *)bytes + parameter->offset, at, parameter->size);
  }
  return 0;
}
