/* Integer programs: what guards a class of calls, and what is computed from its sizes.
 *
 * A program has registers: the symbols (the sizes of a call), constants, and what its steps give,
 * one register each. A check gives none; where it fails, the program ends. Numbers are 64 bits wide.
 * What would need more is not decided here: `_values/programs.py` has the same program in Python,
 * whose integers have no end. No Python in here.
 */
#ifndef XTARGET_PROGRAM_H
#define XTARGET_PROGRAM_H

#include <stdint.h>

enum { XT_MOST_REGISTERS = 512, XT_MOST_RESULTS = 96 };

/* In the order of `TEXT` in `_values/programs.py`. */
enum xt_operation {
  XT_ADD, XT_SUB, XT_MUL, XT_FLOORDIV, XT_MOD, XT_AND, XT_OR, XT_XOR, XT_LSHIFT, XT_RSHIFT,
  XT_NEG, XT_BITS, XT_LESS, XT_LESS_OR_EQUAL, XT_EQUAL, XT_DIFFERENT, XT_OPERATION_COUNT
};

struct xt_step {
  uint16_t operation, a, b; /* registers; those of one operand have it twice */
};

struct xt_program {
  int symbol_count, constant_count, step_count, result_count;
  int64_t *constants;
  struct xt_step *steps;
  uint16_t results[XT_MOST_RESULTS];
};

enum xt_outcome { XT_FAILS, XT_HOLDS, XT_UNDECIDED };

/* Whether all registers that a program names exist by then: no other program is run. */
int xt_program_is_sound(const struct xt_program *program);

/* Run a program. `results` is filled in where it holds. */
enum xt_outcome xt_evaluate(const struct xt_program *program, const int64_t *symbols,
                            int64_t results[XT_MOST_RESULTS]);

#endif
