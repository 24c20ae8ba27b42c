#include "call.h"

/* Tags of arguments that are numbers; those of arrays begin with their reader, which is not 0. */
enum { TAG_INTEGER = 1 };

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

/* Four words at a time: their products do not wait for each other. */
static inline uint64_t mixed_all(uint64_t hash, const uint64_t *words, int count) {
  static const uint64_t factors[] = {0x2C5D6BAED2EAC903u, 0xF3C95789ACE1A955u, 0x0B66402800E03D2Du,
                                     0xCBF27734AC103525u};
  for (; count >= 4; words += 4, count -= 4)
    hash = mixed(hash, words[0] * factors[0] + words[1] * factors[1] + words[2] * factors[2] +
                           words[3] * factors[3]);
  uint64_t rest = 0;
  while (count--) rest += words[count] * factors[count];
  return mixed(hash, rest);
}

uint64_t xt_hash_class(const struct xt_call *call) {
  return mixed_all((uint64_t)call->word_count, call->words, call->word_count);
}

uint64_t xt_hash_layout(const struct xt_call *call, uint64_t hash) {
  return mixed_all(hash, (const uint64_t *)call->sizes, call->size_count);
}
