#include "program.h"

#include <string.h>

static int is_check(unsigned operation) { return operation >= XT_LESS; }

int xt_program_is_sound(const struct xt_program *program) {
  int made = program->symbol_count + program->constant_count;
  if (program->symbol_count < 0 || program->constant_count < 0 || made > XT_MOST_REGISTERS ||
      program->result_count < 0 || program->result_count > XT_MOST_RESULTS)
    return 0;
  for (int i = 0; i < program->step_count; i++) {
    const struct xt_step *step = &program->steps[i];
    if (step->operation >= XT_OPERATION_COUNT || step->a >= made || step->b >= made) return 0;
    if (!is_check(step->operation) && ++made > XT_MOST_REGISTERS) return 0;
  }
  for (int i = 0; i < program->result_count; i++)
    if (program->results[i] >= made) return 0;
  return 1;
}

static int64_t bit_length(int64_t value) {
  uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  return size ? 64 - __builtin_clzll(size) : 0;
}

/* 0 where the result has more than 64 bits, or there is none. */
static int shifted_left(int64_t value, int64_t by, int64_t *result) {
  if (by < 0) return 0;
  if (value == 0) return *result = 0, 1;
  return by < 63 && !__builtin_mul_overflow(value, (int64_t)1 << by, result);
}

/* Division as Python does it: towards minus infinity. */
static int divided(int64_t a, int64_t b, int64_t *quotient, int64_t *rest) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return 0;
  *quotient = a / b;
  *rest = a % b;
  if (*rest && (*rest < 0) != (b < 0)) {
    *rest += b;
    --*quotient;
  }
  return 1;
}

enum xt_outcome xt_evaluate(const struct xt_program *program, const int64_t *symbols,
                            int64_t results[XT_MOST_RESULTS]) {
  int64_t registers[XT_MOST_REGISTERS], other;
  int64_t *next = registers + program->symbol_count + program->constant_count;
  memcpy(registers, symbols, sizeof(int64_t) * (size_t)program->symbol_count);
  memcpy(registers + program->symbol_count, program->constants,
         sizeof(int64_t) * (size_t)program->constant_count);
  const struct xt_step *end = program->steps + program->step_count;
  for (const struct xt_step *step = program->steps; step < end; step++) {
    int64_t a = registers[step->a], b = registers[step->b];
    int done = 1, holds = 1;
    switch ((enum xt_operation)step->operation) {
      case XT_ADD: done = !__builtin_add_overflow(a, b, next); break;
      case XT_SUB: done = !__builtin_sub_overflow(a, b, next); break;
      case XT_MUL: done = !__builtin_mul_overflow(a, b, next); break;
      case XT_FLOORDIV: done = divided(a, b, next, &other); break;
      case XT_MOD: done = divided(a, b, &other, next); break;
      case XT_AND: *next = a & b; break;
      case XT_OR: *next = a | b; break;
      case XT_XOR: *next = a ^ b; break;
      case XT_LSHIFT: done = shifted_left(a, b, next); break;
      case XT_RSHIFT: done = b >= 0; if (done) *next = a >> (b > 63 ? 63 : b); break;
      case XT_NEG: done = !__builtin_sub_overflow((int64_t)0, a, next); break;
      case XT_BITS: *next = bit_length(a); break;
      case XT_LESS: holds = a < b; break;
      case XT_LESS_OR_EQUAL: holds = a <= b; break;
      case XT_EQUAL: holds = a == b; break;
      case XT_DIFFERENT: holds = a != b; break;
      case XT_OPERATION_COUNT: done = 0; break;
    }
    if (!done) return XT_UNDECIDED;
    if (!holds) return XT_FAILS;
    next += !is_check(step->operation);
  }
  for (int i = 0; i < program->result_count; i++) results[i] = registers[program->results[i]];
  return XT_HOLDS;
}
