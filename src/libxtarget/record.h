/* Call records: in which forms a kernel is called, as `_bundle/calls.py` writes them. */
#ifndef XTARGET_RECORD_H
#define XTARGET_RECORD_H

#include "bundle.h"
#include "program.h" /* of the compiled core: ../xtarget/_core */

enum { XT_MOST_AXES = 16, XT_MOST_ARGUMENTS = 64, XT_MOST_SLOTS = 1024, XT_MOST_FORMS = 4096 };

/* A parameter of a binary's entry. */
enum { XT_MEMORY = 1, XT_POINTER = 2, XT_ALIGNED = 4, XT_HIDDEN = 8 };
struct xt_parameter {
  uint8_t type, flags; /* a dtype; of memory it does not count */
  uint16_t slot;
};

struct xt_binary {
  char *entry, *portable_arch; /* "": there is no portable form */
  uint32_t threads, shared_bytes;
  int specific;
  unsigned parameter_count, aligned_count;
  struct xt_parameter *parameters;
  struct xt_mark binary, portable;
  _Atomic(void *) loaded; /* by the kernel's device */
};

struct xt_pair {
  char *name, *value;
};

struct xt_function {
  char *source;
  unsigned slot_count, binary_count, constant_count;
  struct xt_binary *binaries;
  int num_warps, num_stages;
  /* Of each slot its name and type, then each constant and its value, as parts of `source`; NULL:
   * the bundle does not say. */
  struct xt_pair *parameters;
};

struct xt_form_argument {
  uint8_t kind, dtype, dimensions, contiguous; /* kind: XTARGET_ABSENT, 1: a number, 2: an array */
};

struct xt_form_output {
  uint8_t dtype, dimensions, given, fill_size;
  uint8_t fill[8];
};

enum { XT_FROM_VALUE, XT_FROM_SIZE, XT_FROM_FIXED };
struct xt_launch_parameter {
  uint8_t kind;
  uint64_t number; /* place of a value, place of a result, or bits */
};

struct xt_form_launch {
  unsigned function, parameter_count, grid; /* grid: place in the results */
  struct xt_launch_parameter *parameters;
};

struct xt_form {
  unsigned option_count, argument_count, output_count, temporary_count, launch_count;
  unsigned temporaries_at; /* in the results */
  struct xt_pair *options;
  struct xt_form_argument arguments[XT_MOST_ARGUMENTS];
  struct xt_form_output outputs[XT_MOST_ARGUMENTS];
  struct xt_program program;
  struct {
    uint8_t fill_size, fill[8];
  } temporaries[XT_MOST_ARGUMENTS];
  struct xt_form_launch *launches;
  int chosen; /* its options are those of the kernel that was asked for */
};

struct xt_input {
  char *name;
  int updated, optional;
};

struct xt_record {
  char *kernel, *dtype;
  int elementwise;
  unsigned input_count, default_count, function_count, form_count;
  struct xt_input *inputs;
  struct xt_pair *defaults;
  struct xt_function *functions;
  struct xt_form *forms;
};

/* Read a record; `xt_record_drop` it. */
int xt_record_read(const xtarget_bundle *bundle, const struct xt_section *section,
                   const struct xt_row *row, struct xt_record **record);
void xt_record_drop(struct xt_record *record);

#endif
