/* Functions of a kernel, launched with a grid and arguments of the caller's. */
#define _POSIX_C_SOURCE 200809L
#include "kernel.h"

#include <stdio.h>

struct xtarget_function {
  xtarget_kernel *kernel;
  const struct xt_offer *offer;
  const struct xt_function *function;
  struct xt_binary *binary;
  int fit;
  char *signature;
};

/* Of Triton's types, by dtype. */
static const char *const triton_types[XTARGET_DTYPE_COUNT] = {
    "i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp16", "bf16", "fp32", "fp64",
    "fp8e4nv", "fp8e5"};

/* -------------------------------------------------------------------------------- parameters */

/* The parameter of a binary's entry that takes a launch's argument; NULL: there are fewer. */
static const struct xt_parameter *visible(const struct xt_binary *binary, size_t argument) {
  for (unsigned i = 0; i < binary->parameter_count; i++)
    if (!(binary->parameters[i].flags & XT_HIDDEN) && !argument--) return &binary->parameters[i];
  return NULL;
}

static size_t argument_count(const struct xt_binary *binary) {
  size_t count = 0;
  for (unsigned i = 0; i < binary->parameter_count; i++)
    count += !(binary->parameters[i].flags & XT_HIDDEN);
  return count;
}

static int size_of(const struct xt_parameter *parameter) {
  return parameter->flags & XT_MEMORY ? 8 : xt_dtype_sizes[parameter->type];
}

/* How long the name of a tuple is, in the name of an element ("shape.0"); 0: it is none. */
static size_t tuple_of(const char *name) {
  const char *dot = strchr(name, '.');
  return dot ? (size_t)(dot - name) : 0;
}

static int same_tuple(const char *one, const char *other) {
  size_t length = tuple_of(one);
  return length && length == tuple_of(other) && !strncmp(one, other, length);
}

static void put_signature(FILE *to, const struct xtarget_function *one) {
  const struct xt_function *function = one->function;
  size_t count = argument_count(one->binary);
  const char *before = "", *comma = "";
  for (size_t i = 0; i < count; i++) {
    const struct xt_parameter *parameter = visible(one->binary, i);
    const struct xt_pair *pair = &function->parameters[parameter->slot];
    int inside = same_tuple(pair->name, before);
    if (!inside && tuple_of(before)) putc(')', to);
    fprintf(to, "%s%s%s%s", comma, !inside && tuple_of(pair->name) ? "(" : "", pair->value,
            parameter->flags & XT_ALIGNED ? ":16" : "");
    before = pair->name;
    comma = ",";
  }
  if (tuple_of(before)) putc(')', to);
  for (unsigned i = 0; i < function->constant_count; i++, comma = ",")
    fprintf(to, "%s%s", comma, function->parameters[function->slot_count + i].value);
}

static char *signature_of(const struct xtarget_function *one) {
  char *text = NULL;
  size_t size;
  FILE *to = open_memstream(&text, &size);
  if (!to) return NULL;
  put_signature(to, one);
  int broken = ferror(to);
  if (!fclose(to) && !broken) return text;
  free(text);
  return NULL;
}

/* ------------------------------------------------------------------------------ finding them */

/* Call `each` for each binary that runs on the kernel's device, until it gives 0. */
static void for_each(xtarget_kernel *kernel, int (*each)(struct xtarget_function *one, void *data),
                     void *data) {
  for (const struct xt_offer *offer = atomic_load(&kernel->first); offer; offer = offer->next)
    for (unsigned f = 0; f < offer->record->function_count; f++) {
      const struct xt_function *function = &offer->record->functions[f];
      for (unsigned b = 0; function->parameters && b < function->binary_count; b++) {
        struct xt_binary *binary = &function->binaries[b];
        int fit = xt_fit(offer->section->target, binary, kernel->device->target);
        struct xtarget_function one = {kernel, offer, function, binary, fit, NULL};
        if (fit != XT_UNFIT && !each(&one, data)) return;
      }
    }
}

struct sought {
  size_t left;
  const char *signature;
  int num_warps, num_stages, no_memory;
  struct xtarget_function found; /* its kernel is NULL: there is none */
};

static int count_one(struct xtarget_function *one, void *data) {
  (void)one;
  ++*(size_t *)data;
  return 1;
}

static int at_index(struct xtarget_function *one, void *data) {
  struct sought *sought = data;
  if (sought->left--) return 1;
  sought->found = *one;
  return 0;
}

static int has_shape(const struct xt_function *function, int num_warps, int num_stages) {
  return (!num_warps || num_warps == function->num_warps) &&
         (!num_stages || num_stages == function->num_stages);
}

static int of_signature(struct xtarget_function *one, void *data) {
  struct sought *sought = data;
  if (!has_shape(one->function, sought->num_warps, sought->num_stages) ||
      (sought->found.kernel && sought->found.fit <= one->fit))
    return 1;
  char *text = signature_of(one);
  sought->no_memory |= !text;
  if (text && !strcmp(text, sought->signature)) sought->found = *one;
  free(text);
  return !sought->no_memory;
}

size_t xtarget_kernel_function_count(const xtarget_kernel *kernel) {
  size_t count = 0;
  if (kernel) for_each((xtarget_kernel *)(uintptr_t)kernel, count_one, &count);
  return count;
}

static int kept(const struct xtarget_function *found, xtarget_function **function) {
  xtarget_function *made = malloc(sizeof *made);
  if (made) *made = *found;
  if (made && (made->signature = signature_of(made))) {
    *function = made;
    return XTARGET_OK;
  }
  free(made);
  return xt_no_memory();
}

/* What there is, for messages: each signature with its warps and stages. */
struct told {
  char text[700];
  size_t at;
};

static int tell(struct xtarget_function *one, void *data) {
  struct told *told = data;
  char *text = signature_of(one);
  size_t room = sizeof told->text - told->at;
  int length = snprintf(told->text + told->at, room, "%s(%s) with %d warps and %d stages",
                        told->at ? "; " : "", text ? text : "", one->function->num_warps,
                        one->function->num_stages);
  free(text);
  if (length < 0) return 0;
  if ((size_t)length >= room) {
    memcpy(told->text + sizeof told->text - 4, "...", 4);
    return 0;
  }
  told->at += (size_t)length;
  return 1;
}

static int none_fits(xtarget_kernel *kernel, const char *what) {
  struct told told = {"", 0};
  for_each(kernel, tell, &told);
  if (!told.at)
    return xt_fail(XTARGET_NOT_IN_BUNDLE, "the bundle %s says no signatures of %s for %s: it was built "
                   "by an older xtarget, or has no binary of it. Build it again.",
                   kernel->bundle->path, kernel->name, kernel->device->target);
  return xt_fail(XTARGET_NOT_IN_BUNDLE, "the bundle %s has no function of %s for %s; it has %s. Take "
                 "one of these, or build the bundle with calls that need it.", kernel->bundle->path,
                 kernel->name, what, told.text);
}

int xtarget_kernel_function(xtarget_kernel *kernel, size_t index, xtarget_function **function) {
  if (!kernel || !function)
    return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_kernel_function needs a kernel and a place "
                           "for the function."));
  *function = NULL;
  struct sought sought = {.left = index};
  for_each(kernel, at_index, &sought);
  if (sought.found.kernel) return xt_told(kept(&sought.found, function));
  return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "there are %zu functions of %s, and none with the number "
                         "%zu.", xtarget_kernel_function_count(kernel), kernel->name, index));
}

int xtarget_kernel_function_of(xtarget_kernel *kernel, const char *signature, int num_warps,
                               int num_stages, xtarget_function **function) {
  if (!kernel || !signature || !function)
    return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_kernel_function_of needs a kernel, a "
                           "signature and a place for the function."));
  *function = NULL;
  struct sought sought = {
      .signature = signature, .num_warps = num_warps, .num_stages = num_stages};
  for_each(kernel, of_signature, &sought);
  if (sought.no_memory) return xt_told(xt_no_memory());
  if (sought.found.kernel) return xt_told(kept(&sought.found, function));
  char what[400];
  snprintf(what, sizeof what, "(%.300s) with %d warps and %d stages", signature, num_warps,
           num_stages);
  return xt_told(none_fits(kernel, what));
}

void xtarget_function_release(xtarget_function *function) {
  if (function) free(function->signature);
  free(function);
}

int xtarget_function_about(const xtarget_function *one, xtarget_function_facts *facts) {
  if (!one || !facts)
    return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_function_about needs a function and a place "
                           "for its facts."));
  size_t count = argument_count(one->binary);
  *facts = (xtarget_function_facts){
      one->function->source, one->signature, one->function->num_warps, one->function->num_stages,
      one->binary->threads, one->binary->shared_bytes, count, count + one->function->constant_count};
  return XTARGET_OK;
}

int xtarget_function_parameter(const xtarget_function *one, size_t index,
                               xtarget_parameter *parameter) {
  if (!one || !parameter)
    return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_function_parameter needs a function and a "
                           "place for the parameter."));
  size_t count = argument_count(one->binary);
  if (index >= count + one->function->constant_count)
    return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "%s has %zu parameters, and none with the number "
                           "%zu.", one->function->source, count + one->function->constant_count,
                           index));
  if (index >= count) {
    const struct xt_pair *pair =
        &one->function->parameters[one->function->slot_count + (index - count)];
    *parameter = (xtarget_parameter){pair->name, "constexpr", pair->value, XTARGET_CONSTEXPR, 0};
    return XTARGET_OK;
  }
  const struct xt_parameter *own = visible(one->binary, index);
  const struct xt_pair *pair = &one->function->parameters[own->slot];
  *parameter = (xtarget_parameter){
      pair->name, pair->value, NULL, own->flags & XT_ALIGNED ? XTARGET_SPECIALIZED : XTARGET_PLAIN,
      size_of(own)};
  return XTARGET_OK;
}

/* --------------------------------------------------------------------------------- launching */

static int check_grid(const struct xt_function *function, const uint32_t grid[3]) {
  if (!grid)
    return xt_fail(XTARGET_BAD_ARGUMENT, "a launch of %s needs a grid of three numbers.",
                   function->source);
  for (int axis = 0; axis < 3; axis++)
    if (!grid[axis] || grid[axis] > xt_most_blocks[axis])
      return xt_fail(XTARGET_BAD_ARGUMENT, "%s: a grid has 1 to %lld blocks in %c, not %u.",
                     function->source, (long long)xt_most_blocks[axis], "xyz"[axis], grid[axis]);
  return XTARGET_OK;
}

/* Launch with the bits of each argument. */
static int launch(const struct xtarget_function *one, void *stream, const uint32_t grid[3],
                  const uint64_t *arguments) {
  struct xt_binary *binary = one->binary;
  uint64_t bits[XT_MOST_SLOTS];
  void *loaded;
  size_t argument = 0;
  for (unsigned i = 0; i < binary->parameter_count; i++)
    bits[i] = binary->parameters[i].flags & XT_HIDDEN ? 0 : arguments[argument++];
  int status = xt_load(one->kernel->device, one->offer->bundle, one->offer->section, binary,
                       one->fit == XT_PORTABLE, &loaded);
  const unsigned blocks[3] = {grid[0], grid[1], grid[2]};
  if (xt_logs(XT_LOG_DEBUG))
    xt_log(XT_LOG_DEBUG, "launch %s, grid %u %u %u, on %s", one->function->source, grid[0], grid[1],
           grid[2], one->kernel->device->name);
  if (!status)
    status = one->kernel->device->driver->start(one->kernel->device, loaded, binary, blocks, bits,
                                                stream);
  return status;
}

static int no_function(void) {
  return xt_fail(XTARGET_BAD_ARGUMENT, "a launch needs a function. Take one by "
                 "xtarget_kernel_function.");
}

static int check_count(const struct xtarget_function *one, const void *arguments, size_t count) {
  size_t needed = argument_count(one->binary);
  if (count != needed)
    return xt_fail(XTARGET_BAD_ARGUMENT, "%s takes %zu arguments, not %zu: those of %s that are no "
                   "constexprs.", one->function->source, needed, count, one->signature);
  if (count && !arguments)
    return xt_fail(XTARGET_BAD_ARGUMENT, "the address of the arguments of %s is NULL, and it takes "
                   "%zu.", one->function->source, needed);
  return XTARGET_OK;
}

static int launch_addresses(const struct xtarget_function *one, void *stream, const uint32_t grid[3],
                            void *const *arguments, size_t count) {
  uint64_t bits[XT_MOST_SLOTS];
  if (!one) return no_function();
  int status = check_grid(one->function, grid);
  if (status) return status;
  status = check_count(one, arguments, count);
  if (status) return status;
  for (size_t i = 0; i < count; i++) {
    const struct xt_parameter *parameter = visible(one->binary, i);
    const char *name = one->function->parameters[parameter->slot].name;
    bits[i] = 0;
    if (!arguments[i])
      return xt_fail(XTARGET_BAD_ARGUMENT, "argument %zu (%s) of %s is NULL: give the address of its "
                     "value.", i + 1, name, one->function->source);
    memcpy(&bits[i], arguments[i], (size_t)size_of(parameter));
    if ((parameter->flags & XT_ALIGNED) && bits[i] % 16)
      return xt_fail(XTARGET_BAD_ARGUMENT, "argument %zu (%s) of %s has to be a multiple of 16 (%s). "
                     "Take the function whose signature does not say so.", i + 1, name,
                     one->function->source, one->signature);
  }
  return launch(one, stream, grid, bits);
}

int xtarget_function_launch(xtarget_function *function, void *stream, const uint32_t grid[3],
                            void *const *arguments, size_t count) {
  return xt_told(launch_addresses(function, stream, grid, arguments, count));
}

/* --------------------------------------------------------------------------- typed arguments */

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
        strcmp(type + 1, triton_types[dtype]) || *bits % xt_dtype_sizes[dtype])
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
  if (!one) return no_function();
  int status = check_grid(one->function, grid);
  if (!status) status = check_count(one, arguments, count);
  if (!status) status = check_places(one->kernel, arguments, count);
  for (size_t i = 0; !status && i < count; i++) {
    const struct xt_parameter *parameter = visible(one->binary, i);
    const struct xt_pair *pair = &one->function->parameters[parameter->slot];
    if (!bits_of(parameter, pair->value, &arguments[i], &bits[i]))
      return xt_fail(XTARGET_BAD_ARGUMENT, "argument %zu (%s) of %s is not one that %s%s holds. Give it "
                     "such a value, or take another function.", i + 1, pair->name,
                     one->function->source, pair->value, parameter->flags & XT_ALIGNED ? ":16" : "");
  }
  return status ? status : launch(one, stream, grid, bits);
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
  if (!has_shape(function, typed->num_warps, typed->num_stages)) return 1;
  for (unsigned i = 0; i < one->binary->parameter_count; i++) {
    const struct xt_parameter *parameter = &one->binary->parameters[i];
    if (parameter->flags & XT_HIDDEN) continue;
    if (count == typed->count || !bits_of(parameter, function->parameters[parameter->slot].value,
                                          &typed->arguments[count], &bits[count]))
      return 1;
    wide += (unsigned)size_of(parameter);
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
                             known ? triton_types[given->tensor.dtype] : "?");
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
  for_each(kernel, try_typed, typed);
  if (!typed->found.kernel) {
    told_arguments(typed, text, sizeof text);
    return none_fits(kernel, text);
  }
  if (typed->ambiguous)
    return xt_fail(XTARGET_BAD_ARGUMENT, "%s launches more than one function that takes these "
                   "arguments. Take the one that is meant by xtarget_kernel_function.",
                   kernel->name);
  status = check_grid(typed->found.function, grid);
  return status ? status : launch(&typed->found, stream, grid, typed->bits);
}

int xtarget_kernel_launch(xtarget_kernel *kernel, void *stream, const uint32_t grid[3],
                          int num_warps, int num_stages, const xtarget_argument *arguments,
                          size_t argument_count_) {
  struct typed typed = {.arguments = arguments, .count = argument_count_, .num_warps = num_warps,
                        .num_stages = num_stages};
  return xt_told(launch_typed(kernel, stream, grid, &typed));
}
