/* A call as the core reads it: a row of words that says what it is, and its values.
 *
 * `words` hold all that decides which launch serves the call, apart from sizes: kernel, device, and
 * of each argument the library, dtype, place, alignment and number of dimensions. `sizes` are the
 * shapes of the arrays and, of those that are not contiguous, their strides in elements. Equal words
 * are a class of calls; equal words and sizes are one layout.
 *
 * No Python in here: emitted C and C++ programs read their arrays the same way.
 */
#ifndef XTARGET_CALL_H
#define XTARGET_CALL_H

#include <stdint.h>

enum { XT_MOST_DIMENSIONS = 16, XT_MOST_WORDS = 96, XT_MOST_SIZES = 96, XT_MOST_VALUES = 16 };

/* What a value is. Launches convert between them as the parameters ask. */
enum xt_kind { XT_ADDRESS, XT_INTEGER, XT_FLOAT };

struct xt_value {
  enum xt_kind kind;
  union {
    uint64_t address;
    int64_t integer;
    double real;
  } as;
};

struct xt_call {
  int word_count, size_count, value_count;
  uint64_t words[XT_MOST_WORDS];
  int64_t sizes[XT_MOST_SIZES];
  struct xt_value values[XT_MOST_VALUES];
};

/* How an array lies in memory. */
struct xt_layout {
  uint64_t address;
  uint64_t type;   /* what the library calls its dtype */
  uint64_t place;  /* where it lies; 0: the host */
  uint32_t reader; /* which library read it, and what else of it counts */
  int dimensions;
  int contiguous;         /* in C order; its strides do not count then */
  const int64_t *shape;   /* `dimensions` lengths */
  const int64_t *strides; /* in units of `unit` */
  int64_t unit;
};

static inline void xt_begin(struct xt_call *call) {
  call->word_count = call->size_count = call->value_count = 0;
}

/* Add a word that decides about the call. Returns 0 where there is no room. */
static inline int xt_add_word(struct xt_call *call, uint64_t word) {
  if (call->word_count == XT_MOST_WORDS) return 0;
  call->words[call->word_count++] = word;
  return 1;
}

/* Add a value that the launch passes on. */
static inline int xt_add_value(struct xt_call *call, struct xt_value value) {
  if (call->value_count == XT_MOST_VALUES) return 0;
  call->values[call->value_count++] = value;
  return 1;
}

/* Add an array. Returns 0 for one that is too large for a call, or lies between its elements. Each
 * warm call does this for each of its arrays: inline, a reader's constants are folded into it. */
static inline int xt_add_array(struct xt_call *call, const struct xt_layout *array) {
  int dimensions = array->dimensions, count = array->contiguous ? dimensions : 2 * dimensions;
  if ((unsigned)dimensions > XT_MOST_DIMENSIONS || call->word_count + 3 > XT_MOST_WORDS ||
      call->value_count == XT_MOST_VALUES || call->size_count + count > XT_MOST_SIZES)
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
  for (int axis = 0; axis < count - dimensions; axis++) {
    if (array->unit != 1 && array->strides[axis] % array->unit) return 0;
    sizes[dimensions + axis] = array->strides[axis] / array->unit;
  }
  call->size_count += count;
  struct xt_value *value = &call->values[call->value_count++];
  value->kind = XT_ADDRESS;
  value->as.address = array->address;
  return 1;
}

/* Add an integer that no array holds: how wide it is decides which dtypes it fits. */
int xt_add_integer(struct xt_call *call, int64_t value);

/* Whether strides are those of C order without gaps; dimensions of length 1 have any. */
static inline int xt_is_contiguous(int dimensions, const int64_t *shape, const int64_t *strides) {
  int64_t expected = 1;
  for (int axis = dimensions - 1; axis >= 0; axis--) {
    if (shape[axis] == 1) continue;
    if (strides[axis] != expected) return 0;
    if (__builtin_mul_overflow(expected, shape[axis], &expected)) return 0;
  }
  return 1;
}

/* A hash of the words, and one of the sizes too. */
uint64_t xt_hash_class(const struct xt_call *call);
uint64_t xt_hash_layout(const struct xt_call *call, uint64_t hash_of_class);

#endif
