/* Launches with values: each is checked against a function's parameter, or chooses the function. */
#define _POSIX_C_SOURCE 200809L
#include "function.h"

#include <stdio.h>

/* Whether a constexpr has the value that was given. */
static int is_constant(const char *value, const xtarget_argument *given) {
  char text[32];
  double known;
  switch (given->kind) {
    case XTARGET_ABSENT: return !strcmp(value, "null");
    case XTARGET_TEXT: return given->tensor.data && !strcmp(value, given->tensor.data);
    case XTARGET_REAL: return xt_number_of(value, &known) && known == given->real;
    case XTARGET_UNSIGNED:
      snprintf(text, sizeof text, "%llu", (unsigned long long)given->integer);
      break;
    case XTARGET_INTEGER:
      if ((given->integer == 1 && !strcmp(value, "true")) ||
          (given->integer == 0 && !strcmp(value, "false")))
        return 1;
      if (strpbrk(value, ".e") && xt_number_of(value, &known))
        return known == (double)given->integer;
      snprintf(text, sizeof text, "%lld", (long long)given->integer);
      break;
    default: return 0;
  }
  return !strcmp(value, text);
}

/* The bits of an argument for a parameter of this type. Gives 0 where it is none. */
static int bits_of(const struct xt_parameter *parameter, const char *type,
                   const xtarget_argument *given, uint64_t *bits) {
  *bits = 0;
  if (!(parameter->flags & XT_MEMORY)) {
    if ((given->kind != XTARGET_INTEGER && given->kind != XTARGET_REAL &&
         given->kind != XTARGET_UNSIGNED) ||
        !xt_number_bits(parameter->type, given, bits))
      return 0;
  } else if (given->kind == XTARGET_TENSOR) {
    int dtype = given->tensor.dtype;
    *bits = (uint64_t)(uintptr_t)given->tensor.data;
    if (dtype < 0 || dtype >= XTARGET_DTYPE_COUNT || *type != '*' ||
        strcmp(type + 1, xt_triton_types[dtype]) || *bits % xt_dtype_sizes[dtype])
      return 0;
  } else if (given->kind != XTARGET_ABSENT) {
    return 0;
  }
  return !(parameter->flags & XT_ALIGNED) || *bits % 16 == 0;
}

struct typed {
  const xtarget_argument *arguments;
  size_t count;
  int num_warps, num_stages;
  unsigned wide; /* bytes of the parameters of the one that was found */
  int ambiguous;
  struct xtarget_function found;
  uint64_t bits[XT_MOST_SLOTS];
};

/* Whether two are specializations of one function that take these arguments in the same way. */
static int same_function(const struct xt_function *one, const struct xt_function *other) {
  int same = !strcmp(one->source, other->source) && one->slot_count == other->slot_count &&
             one->constant_count == other->constant_count;
  for (unsigned i = 0; same && i < one->slot_count + one->constant_count; i++)
    same = !strcmp(one->parameters[i].name, other->parameters[i].name);
  return same;
}

static int check_places(const xtarget_kernel *kernel, const xtarget_argument *arguments,
                        size_t count) {
  for (size_t i = 0; i < count; i++) {
    char what[40];
    if (arguments[i].kind != XTARGET_TENSOR) continue;
    snprintf(what, sizeof what, "argument %zu", i + 1);
    int status = xt_check_place(kernel, &arguments[i].tensor, what);
    if (status) return status;
  }
  return XTARGET_OK;
}

static int launch_values(const struct xtarget_function *one, void *stream, const uint32_t grid[3],
                         const xtarget_argument *arguments, size_t count) {
  uint64_t bits[XT_MOST_SLOTS];
  if (!one) return xt_no_function();
  int status = xt_check_grid(one->function, grid);
  if (!status) status = xt_check_count(one, arguments, count);
  if (!status) status = check_places(one->kernel, arguments, count);
  for (size_t i = 0; !status && i < count; i++) {
    const struct xt_parameter *parameter = xt_visible(one->binary, i);
    const struct xt_pair *pair = &one->function->parameters[parameter->slot];
    if (!bits_of(parameter, pair->value, &arguments[i], &bits[i]))
      return xt_fail(XTARGET_BAD_ARGUMENT, "argument %zu (%s) of %s is not one that %s%s holds. Give it "
                     "such a value, or take another function.", i + 1, pair->name,
                     one->function->source, pair->value, parameter->flags & XT_ALIGNED ? ":16" : "");
  }
  return status ? status : xt_start_function(one, stream, grid, bits);
}

int xtarget_function_call(xtarget_function *function, void *stream, const uint32_t grid[3],
                          const xtarget_argument *arguments, size_t count) {
  return xt_told(launch_values(function, stream, grid, arguments, count));
}

static int try_typed(struct xtarget_function *one, void *data) {
  struct typed *typed = data;
  const struct xt_function *function = one->function;
  uint64_t bits[XT_MOST_SLOTS];
  unsigned wide = 0;
  size_t count = 0;
  if (!xt_has_shape(function, typed->num_warps, typed->num_stages)) return 1;
  for (unsigned i = 0; i < one->binary->parameter_count; i++) {
    const struct xt_parameter *parameter = &one->binary->parameters[i];
    if (parameter->flags & XT_HIDDEN) continue;
    if (count == typed->count || !bits_of(parameter, function->parameters[parameter->slot].value,
                                          &typed->arguments[count], &bits[count]))
      return 1;
    wide += (unsigned)xt_parameter_size(parameter);
    count++;
  }
  if (typed->count != count + function->constant_count) return 1;
  for (unsigned i = 0; i < function->constant_count; i++)
    if (!is_constant(function->parameters[function->slot_count + i].value,
                     &typed->arguments[count + i]))
      return 1;
  struct xtarget_function *found = &typed->found;
  if (found->kernel && !same_function(found->function, function)) typed->ambiguous = 1;
  if (found->kernel &&
      (one->fit > found->fit ||
       (one->fit == found->fit &&
        (wide < typed->wide ||
         (wide == typed->wide && one->binary->aligned_count <= found->binary->aligned_count)))))
    return 1;
  *found = *one;
  typed->wide = wide;
  memcpy(typed->bits, bits, count * sizeof *bits);
  return 1;
}

static void told_arguments(const struct typed *typed, char *text, size_t room) {
  size_t at = (size_t)snprintf(text, room, "(");
  for (size_t i = 0; i < typed->count && at < room; i++) {
    const xtarget_argument *given = &typed->arguments[i];
    const char *comma = i ? ", " : "";
    int known = given->kind == XTARGET_TENSOR && given->tensor.dtype >= 0 &&
                given->tensor.dtype < XTARGET_DTYPE_COUNT;
    if (given->kind == XTARGET_TENSOR)
      at += (size_t)snprintf(text + at, room - at, "%s*%s", comma,
                             known ? xt_triton_types[given->tensor.dtype] : "?");
    else if (given->kind == XTARGET_REAL)
      at += (size_t)snprintf(text + at, room - at, "%s%g", comma, given->real);
    else if (given->kind == XTARGET_TEXT && given->tensor.data)
      at += (size_t)snprintf(text + at, room - at, "%s%.60s", comma, (char *)given->tensor.data);
    else if (given->kind == XTARGET_INTEGER)
      at += (size_t)snprintf(text + at, room - at, "%s%lld", comma, (long long)given->integer);
    else if (given->kind == XTARGET_UNSIGNED)
      at += (size_t)snprintf(text + at, room - at, "%s%llu", comma,
                             (unsigned long long)given->integer);
    else
      at += (size_t)snprintf(text + at, room - at, "%snothing", comma);
  }
  if (at < room)
    snprintf(text + at, room - at, ") with %d warps and %d stages", typed->num_warps,
             typed->num_stages);
}

static int launch_typed(xtarget_kernel *kernel, void *stream, const uint32_t grid[3],
                        struct typed *typed) {
  char text[700];
  if (!kernel || (typed->count && !typed->arguments))
    return xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_kernel_launch needs a kernel and its arguments.");
  int status = check_places(kernel, typed->arguments, typed->count);
  if (status) return status;
  xt_each_function(kernel, try_typed, typed);
  if (!typed->found.kernel) {
    told_arguments(typed, text, sizeof text);
    return xt_none_fits(kernel, text);
  }
  if (typed->ambiguous)
    return xt_fail(XTARGET_BAD_ARGUMENT, "%s launches more than one function that takes these "
                   "arguments. Take the one that is meant by xtarget_kernel_function.",
                   kernel->name);
  status = xt_check_grid(typed->found.function, grid);
  return status ? status : xt_start_function(&typed->found, stream, grid, typed->bits);
}

int xtarget_kernel_launch(xtarget_kernel *kernel, void *stream, const uint32_t grid[3],
                          int num_warps, int num_stages, const xtarget_argument *arguments,
                          size_t argument_count_) {
  struct typed typed = {.arguments = arguments, .count = argument_count_, .num_warps = num_warps,
                        .num_stages = num_stages};
  return xt_told(launch_typed(kernel, stream, grid, &typed));
}
