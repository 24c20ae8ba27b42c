/* The launches of a form: values, memory for a call, and the binaries that assume most of what is
 * true. */
#include "kernel.h"

#include <math.h>

enum { MOST_VALUES = 3 * XT_MOST_ARGUMENTS };

/* CUDA C++ Programming Guide, "Technical Specifications" */
const int64_t xt_most_blocks[3] = {INT32_MAX, UINT16_MAX, UINT16_MAX};

/* Arguments, outputs and temporaries as bits, in this order. */
struct values {
  unsigned count;
  uint64_t bits[MOST_VALUES];
};

/* A number rounded once to `digits` binary digits, whose smallest has the exponent `least`. */
static double nearest(double value, int digits, int least, double most) {
  int exponent;
  if (!isfinite(value) || value == 0) return value;
  frexp(value, &exponent);
  exponent -= digits;
  if (exponent < least) exponent = least;
  double rounded = ldexp(nearbyint(ldexp(value, -exponent)), exponent);
  return fabs(rounded) > most ? copysign(INFINITY, value) : rounded;
}

static int integer_fits(int dtype, int64_t value) {
  int bits = 8 * xt_dtype_sizes[dtype];
  if (dtype == XTARGET_BOOL) return value == 0 || value == 1;
  if (dtype >= XTARGET_UINT8) return value >= 0 && (bits == 64 || value < (int64_t)1 << bits);
  return bits == 64 || (value >= -((int64_t)1 << (bits - 1)) && value < (int64_t)1 << (bits - 1));
}

int xt_number_bits(int dtype, const xtarget_argument *given, uint64_t *bits) {
  int real = dtype >= XTARGET_FLOAT16;
  int wide = given->kind == XTARGET_UNSIGNED && given->integer < 0; /* 2^63 and more */
  double value = given->kind == XTARGET_REAL ? given->real
                 : wide                      ? (double)(uint64_t)given->integer
                                             : (double)given->integer;
  *bits = 0;
  if (!real) {
    if (given->kind == XTARGET_REAL ||
        (wide ? dtype != XTARGET_UINT64 : !integer_fits(dtype, given->integer)))
      return 0;
    *bits = (uint64_t)given->integer;
    return 1;
  }
  if (dtype == XTARGET_FLOAT64) {
    memcpy(bits, &value, sizeof value);
    return 1;
  }
  if (dtype == XTARGET_FLOAT16) value = nearest(value, 11, -24, 65504.0);
  if (dtype == XTARGET_BFLOAT16) value = nearest(value, 8, -133, 0x1.fep127);
  float single = (float)value;
  memcpy(bits, &single, sizeof single);
  return 1;
}

static int is_true(const struct xt_parameter *parameter, uint64_t bits) {
  return !(parameter->flags & XT_ALIGNED) || bits % 16 == 0;
}

/* Whether all that a binary assumes is true of a launch. */
static int assumes_truth(const struct xt_binary *binary, const uint64_t *slots) {
  for (unsigned i = 0; i < binary->parameter_count; i++) {
    const struct xt_parameter *parameter = &binary->parameters[i];
    if (!(parameter->flags & XT_HIDDEN) && !is_true(parameter, slots[parameter->slot])) return 0;
  }
  return 1;
}

static struct xt_binary *best(const xtarget_kernel *kernel, const struct xt_offer *offer,
                              struct xt_function *function, const uint64_t *slots, int *form) {
  struct xt_binary *found = NULL;
  for (unsigned i = 0; i < function->binary_count; i++) {
    struct xt_binary *binary = &function->binaries[i];
    int fit = xt_fit(offer->section->target, binary, kernel->device->target);
    if (fit == XT_UNFIT || !assumes_truth(binary, slots)) continue;
    if (found && (fit > *form || (fit == *form && binary->aligned_count <= found->aligned_count)))
      continue;
    found = binary;
    *form = fit;
  }
  return found;
}

static int get_ready(xtarget_kernel *kernel, const struct xt_offer *offer,
                     const struct xt_form_launch *launch, const struct values *values,
                     const int64_t *results, struct xt_launched *ready) {
  struct xt_function *function = &offer->record->functions[launch->function];
  uint64_t slots[XT_MOST_SLOTS];
  int form = XT_UNFIT;
  ready->binary = NULL;
  for (int axis = 0; axis < 3; axis++) {
    int64_t blocks = results[launch->grid + (unsigned)axis];
    if (blocks == 0) return XTARGET_OK;
    if (blocks < 0 || blocks > xt_most_blocks[axis])
      return xt_fail(XTARGET_BAD_ARGUMENT, "%s: the arrays need %lld blocks, and a grid has up to "
                     "%lld in that direction. Split the call.", offer->record->kernel,
                     (long long)blocks, (long long)xt_most_blocks[axis]);
    ready->grid[axis] = (unsigned)blocks;
  }
  for (unsigned i = 0; i < launch->parameter_count; i++) {
    const struct xt_launch_parameter *parameter = &launch->parameters[i];
    slots[i] = parameter->kind == XT_FROM_VALUE  ? values->bits[parameter->number]
               : parameter->kind == XT_FROM_SIZE ? (uint64_t)results[parameter->number]
                                                 : parameter->number;
  }
  struct xt_binary *binary = best(kernel, offer, function, slots, &form);
  if (!binary)
    return xt_fail(XTARGET_NOT_IN_BUNDLE, "the bundle %s has no binary of %s that runs on %s (%s). "
                   "Build it for that target too.", offer->bundle->path, offer->record->kernel,
                   kernel->device->name, kernel->device->target);
  int status = xt_load(kernel->device, offer->bundle, offer->section, binary, form == XT_PORTABLE,
                       &ready->loaded);
  if (status) return status;
  for (unsigned i = 0; i < binary->parameter_count; i++) {
    unsigned slot = binary->parameters[i].slot;
    int hidden = binary->parameters[i].flags & XT_HIDDEN;
    int is_value = !hidden && launch->parameters[slot].kind == XT_FROM_VALUE;
    ready->bits[i] = hidden ? 0 : slots[slot];
    ready->values[i] = is_value ? (int)launch->parameters[slot].number : -1;
  }
  ready->binary = binary;
  return XTARGET_OK;
}

static int set_values(const struct xt_form *form, const struct xt_given *given,
                      struct values *values) {
  values->count = 0;
  for (unsigned i = 0; i < form->argument_count; i++) {
    uint64_t *bits = &values->bits[values->count++];
    *bits = 0;
    if (form->arguments[i].kind == 2) *bits = given->arrays[i].address;
    if (form->arguments[i].kind != 1) continue;
    if (!xt_number_bits(form->arguments[i].dtype, given->arguments[i], bits))
      return xt_fail(XTARGET_BAD_ARGUMENT, "argument %u is a number that %s does not hold.", i + 1,
                     xt_dtype_names[form->arguments[i].dtype]);
  }
  for (unsigned i = 0; i < form->output_count; i++)
    values->bits[values->count++] = given->outputs[i].address;
  return XTARGET_OK;
}

static int fill_outputs(const xtarget_kernel *kernel, const struct xt_form *form,
                        const struct xt_given *given, void *stream) {
  xtarget_device *device = kernel->device;
  for (unsigned i = 0; i < form->output_count; i++) {
    const struct xt_form_output *output = &form->outputs[i];
    const struct xt_array *array = &given->outputs[i];
    if (!output->fill_size || !array->count) continue;
    if (!array->contiguous)
      return xt_fail(XTARGET_BAD_ARGUMENT, "output %u of %s is not C-contiguous, and it is filled "
                     "first. Give a contiguous array.", i + 1, kernel->name);
    int status = device->driver->fill(device, stream, (void *)(uintptr_t)array->address,
                                      output->fill, output->fill_size,
                                      (size_t)array->count * output->fill_size);
    if (status) return status;
  }
  return XTARGET_OK;
}

int xt_launch_form(xtarget_kernel *kernel, const struct xt_offer *offer, struct xt_form *form,
                   const struct xt_given *given, const int64_t *results, void *stream,
                   struct xt_launched *launched) {
  xtarget_device *device = kernel->device;
  struct values values;
  void *temporaries[XT_MOST_ARGUMENTS];
  unsigned borrowed = 0;
  int status = set_values(form, given, &values);
  while (!status && borrowed < form->temporary_count) {
    int64_t size = results[form->temporaries_at + borrowed];
    status = device->driver->borrow(device, stream, (size_t)(size < 0 ? 0 : size) + 16,
                                    &temporaries[borrowed]);
    if (!status) values.bits[values.count++] = (uint64_t)(uintptr_t)temporaries[borrowed++];
  }
  /* all of them before anything is written: another form may serve, from the arrays as given */
  for (unsigned i = 0; !status && i < form->launch_count; i++)
    status = get_ready(kernel, offer, &form->launches[i], &values, results, launched);
  if (!status) status = fill_outputs(kernel, form, given, stream);
  for (unsigned i = 0; !status && i < form->temporary_count; i++)
    if (form->temporaries[i].fill_size && results[form->temporaries_at + i] > 0)
      status = device->driver->fill(device, stream, temporaries[i], form->temporaries[i].fill,
                                    form->temporaries[i].fill_size,
                                    (size_t)results[form->temporaries_at + i]);
  for (unsigned i = 0; !status && i < form->launch_count; i++) {
    if (form->launch_count > 1)
      status = get_ready(kernel, offer, &form->launches[i], &values, results, launched);
    if (!status && launched->binary)
      status = device->driver->start(device, launched->loaded, launched->binary, launched->grid,
                                     launched->bits, stream);
  }
  for (unsigned i = 0; i < borrowed; i++) {
    int given_back = device->driver->give_back(device, stream, temporaries[i]);
    if (!status) status = given_back;
  }
  return status;
}
