/* A call: what is given, which of the kernel's forms serves it, and what it must not do. */
#include "known.h"

#include <stdio.h>

static const char *input_name(const xtarget_kernel *kernel, size_t index) {
  const struct xt_offer *offer = atomic_load(&kernel->first);
  return offer && index < offer->record->input_count ? offer->record->inputs[index].name
                                                     : "an argument";
}

int xt_check_place(const xtarget_kernel *kernel, const xtarget_tensor *tensor, const char *what) {
  const xtarget_device *device = kernel->device;
  int host = device->driver->number == XTARGET_OPENCL || device->driver->number == XTARGET_LEVEL_ZERO;
  int pinned = tensor->device_type == device->driver->dlpack + 1; /* kDLCUDAHost, kDLROCMHost */
  int right = tensor->device_type == device->driver->dlpack || (!host && pinned) ||
              (host && tensor->device_type == 14); /* kDLOneAPI */
  if (!host && tensor->device_type == 13) right = device->driver->dlpack == 2; /* kDLCUDAManaged */
  if (!tensor->device_type) return XTARGET_OK;
  if (!right)
    return xt_fail(XTARGET_BAD_ARGUMENT, "%s lies in memory of another kind (DLPack's device %d) than "
                   "%s (%s) uses. Copy it there.", what, tensor->device_type, device->name,
                   device->target);
  if (!host && !pinned && device->ordinal >= 0 && tensor->device_id != device->ordinal)
    return xt_fail(XTARGET_BAD_ARGUMENT, "%s lies on device %d, and the kernel was taken for device "
                   "%d. Copy it there.", what, tensor->device_id, device->ordinal);
  return XTARGET_OK;
}

static int read_array(const xtarget_kernel *kernel, const xtarget_tensor *tensor, const char *what,
                      int is_output, struct xt_array *array) {
  int status = xt_array_read(tensor, what, array);
  if (!status) status = xt_check_place(kernel, tensor, what);
  if (!status && is_output && !xt_array_is_writable(array))
    status = xt_fail(XTARGET_BAD_ARGUMENT, "elements of %s may share memory. Give an array with "
                     "memory for each element.", what);
  return status;
}

static int read_arguments(const xtarget_kernel *kernel, const xtarget_argument *arguments,
                          size_t count, struct xt_given *given) {
  if (count > XT_MOST_ARGUMENTS)
    return xt_fail(XTARGET_BAD_ARGUMENT, "a call has up to %d arguments, not %zu.", XT_MOST_ARGUMENTS,
                   count);
  if (count && !arguments)
    return xt_fail(XTARGET_BAD_ARGUMENT, "the address of the call's arguments is NULL, and there are "
                   "%zu.", count);
  given->count = count;
  given->arguments[0] = arguments;
  for (size_t i = 0; i < count; i++) {
    const xtarget_argument *argument = &arguments[i];
    given->arguments[i] = argument;
    if (argument->kind < XTARGET_ABSENT || argument->kind > XTARGET_UNSIGNED)
      return xt_fail(XTARGET_BAD_ARGUMENT, "argument %zu is of the kind %d, which is none.", i + 1,
                     argument->kind);
    if (argument->kind != XTARGET_TENSOR ||
        !read_array(kernel, &argument->tensor, "", 0, &given->arrays[i]))
      continue;
    char what[160]; /* once more, with the words of a message */
    snprintf(what, sizeof what, "argument %zu (%.100s)", i + 1, input_name(kernel, i));
    return read_array(kernel, &argument->tensor, what, 0, &given->arrays[i]);
  }
  return XTARGET_OK;
}

static int read_outputs(const xtarget_kernel *kernel, const xtarget_tensor *outputs, size_t count,
                        struct xt_given *given) {
  if (count > XT_MOST_ARGUMENTS)
    return xt_fail(XTARGET_BAD_ARGUMENT, "a call has up to %d outputs, not %zu.", XT_MOST_ARGUMENTS,
                   count);
  if (count && !outputs)
    return xt_fail(XTARGET_BAD_ARGUMENT, "a call needs a tensor for each output; they come after the "
                   "arguments.");
  given->output_count = count;
  given->told = outputs;
  for (size_t i = 0; i < count; i++) {
    if (!read_array(kernel, &outputs[i], "", 1, &given->outputs[i])) continue;
    char what[40];
    snprintf(what, sizeof what, "output %zu", i + 1);
    return read_array(kernel, &outputs[i], what, 1, &given->outputs[i]);
  }
  return XTARGET_OK;
}

/* Whether the arguments are of the kinds, dtypes and dimensions of a form. */
static int matches(const struct xt_form *form, const struct xt_given *given) {
  for (unsigned i = 0; i < form->argument_count || i < given->count; i++) {
    const struct xt_form_argument none = {XTARGET_ABSENT, 0, 0, 0};
    const struct xt_form_argument *want = i < form->argument_count ? &form->arguments[i] : &none;
    int kind = i < given->count ? given->arguments[i]->kind : XTARGET_ABSENT;
    if (want->kind == 0 ? kind != XTARGET_ABSENT
        : want->kind == 1 ? kind == XTARGET_ABSENT || kind == XTARGET_TENSOR
                          : kind != XTARGET_TENSOR)
      return 0;
    if (want->kind == 2 &&
        (want->dtype != given->arrays[i].dtype || want->dimensions != given->arrays[i].dimensions ||
         (want->contiguous && !given->arrays[i].contiguous)))
      return 0;
  }
  return 1;
}

static int64_t *put(int64_t *symbols, const struct xt_array *array, int with_strides) {
  for (int axis = 0; axis < array->dimensions; axis++) *symbols++ = array->shape[axis];
  for (int axis = 0; with_strides && axis < array->dimensions; axis++)
    *symbols++ = array->strides[axis];
  return symbols;
}

/* Whether a form's guards hold; its numbers then. `outputs` may be those of a form that reads them. */
static int holds(const xtarget_kernel *kernel, const struct xt_form *form,
                 const struct xt_given *given, int64_t results[XT_MOST_RESULTS]) {
  int64_t symbols[XT_MOST_REGISTERS], *next = symbols;
  *next++ = kernel->device->units;
  for (unsigned i = 0; i < form->argument_count; i++)
    if (form->arguments[i].kind == 2)
      next = put(next, &given->arrays[i], !form->arguments[i].contiguous);
  for (unsigned i = 0; i < form->output_count; i++)
    if (form->outputs[i].given) next = put(next, &given->outputs[i], 1);
  return xt_evaluate(&form->program, symbols, results) == XT_HOLDS;
}

static int reads_outputs(const struct xt_form *form) {
  for (unsigned i = 0; i < form->output_count; i++)
    if (form->outputs[i].given) return 1;
  return 0;
}

/* How well the caller's outputs are those of a form: OUTPUTS_FIT, or what differs. */
enum { OUTPUTS_FIT, OUTPUTS_LIE_OTHERWISE, OUTPUTS_DIFFER };

static int compare_outputs(const xtarget_kernel *kernel, const struct xt_form *form,
                           const struct xt_given *given, const int64_t *results) {
  const char *name = kernel->name;
  int fit = OUTPUTS_FIT;
  for (unsigned i = 0; i < form->output_count; i++) {
    const struct xt_form_output *want = &form->outputs[i];
    const struct xt_array *got = &given->outputs[i];
    char shape[300], told[300];
    int n = want->dimensions, same = n == got->dimensions && want->dtype == got->dtype;
    for (int axis = 0; same && axis < n; axis++) same = results[axis] == got->shape[axis];
    if (!same) {
      xt_sizes_text(n, results, shape, sizeof shape);
      xt_array_text(got, told, sizeof told);
      xt_fail(XTARGET_BAD_ARGUMENT, "output %u of %s is %s, and the result is %s%s. Give an array of "
              "that dtype and shape.", i + 1, name, told, xt_dtype_names[want->dtype], shape);
      return OUTPUTS_DIFFER;
    }
    for (int axis = 0; got->count && axis < n; axis++)
      if (got->shape[axis] != 1 && results[n + axis] != got->strides[axis])
        fit = OUTPUTS_LIE_OTHERWISE;
    results += 2 * n;
  }
  return fit;
}

static int check_overlaps(const xtarget_kernel *kernel, const struct xt_record *record,
                          const struct xt_form *form, const struct xt_given *given) {
  for (unsigned i = 0; i < form->argument_count; i++) {
    if (form->arguments[i].kind != 2) continue;
    const struct xt_array *one = &given->arrays[i];
    for (unsigned o = 0; o < form->output_count; o++) {
      const struct xt_array *out = &given->outputs[o];
      /* what is filled first is not read afterwards */
      int in_place = record->elementwise && form->output_count == 1 && !form->outputs[o].fill_size;
      if (xt_arrays_overlap(one, out) && !(in_place && xt_arrays_are_same(one, out)))
        return xt_fail(XTARGET_BAD_ARGUMENT, "output %u of %s may share memory with argument %u (%s). "
                       "Give an output of its own%s.", o + 1, record->kernel, i + 1,
                       input_name(kernel, i),
                       in_place ? ", or the argument itself" : "");
    }
    if (!record->inputs[i].updated) continue;
    if (!xt_array_is_writable(one))
      return xt_fail(XTARGET_BAD_ARGUMENT, "%s writes to argument %u (%s), whose elements may share "
                     "memory. Give an array with memory for each element.", record->kernel, i + 1,
                     input_name(kernel, i));
    for (unsigned other = 0; other < form->argument_count; other++)
      if (other != i && form->arguments[other].kind == 2 &&
          xt_arrays_overlap(one, &given->arrays[other]))
        return xt_fail(XTARGET_BAD_ARGUMENT, "%s writes to argument %u (%s), which may share memory "
                       "with argument %u. Give arrays of their own.", record->kernel, i + 1,
                       input_name(kernel, i), other + 1);
  }
  for (unsigned o = 1; o < form->output_count; o++)
    for (unsigned before = 0; before < o; before++)
      if (xt_arrays_overlap(&given->outputs[o], &given->outputs[before]))
        return xt_fail(XTARGET_BAD_ARGUMENT, "outputs %u and %u of %s may share memory. Give arrays "
                       "of their own.", before + 1, o + 1, record->kernel);
  return XTARGET_OK;
}

static void told_call(const struct xt_given *given, char *text, size_t room) {
  size_t at = 0;
  text[0] = 0;
  for (size_t i = 0; i < given->count && at < room; i++) {
    char one[300] = "nothing";
    if (given->arguments[i]->kind == XTARGET_TENSOR)
      xt_array_text(&given->arrays[i], one, sizeof one);
    else if (given->arguments[i]->kind != XTARGET_ABSENT)
      snprintf(one, sizeof one, "a number");
    at += (size_t)snprintf(text + at, room - at, i ? ", %s" : "%s", one);
  }
}

/* Of a call with another number of arguments than the kernel has: those that it has. */
static int told_inputs(const xtarget_kernel *kernel, size_t count, char *text, size_t room) {
  const struct xt_offer *offer = atomic_load(&kernel->first);
  unsigned needed = 0;
  size_t at = 0;
  if (!offer) return 0;
  const struct xt_record *record = offer->record;
  for (unsigned i = 0; i < record->input_count; i++) {
    needed += !record->inputs[i].optional;
    if (at < room)
      at += (size_t)snprintf(text + at, room - at, "%s%s%s", i ? ", " : "", record->inputs[i].name,
                             record->inputs[i].optional ? " (may be left out)" : "");
  }
  return count < needed || count > record->input_count;
}

static int no_form(const xtarget_kernel *kernel, const struct xt_given *given, int other_layout,
                   int other_count) {
  char call[700];
  told_call(given, call, sizeof call);
  if (other_count >= 0)
    return xt_fail(XTARGET_BAD_ARGUMENT, "%s has %d output%s for these arguments, not the %zu of this "
                   "call.", kernel->name, other_count, other_count == 1 ? "" : "s",
                   given->output_count);
  if (other_layout)
    return xt_fail(XTARGET_NOT_IN_BUNDLE, "the bundle %s has no %s that writes an output with these "
                   "strides. Give a C-contiguous output, build the bundle with --views, or have a compile "
                   "server make it (xtarget_bundle_compile_by).", kernel->bundle->path, kernel->name);
  char inputs[500] = "";
  if (told_inputs(kernel, given->count, inputs, sizeof inputs))
    return xt_fail(XTARGET_NOT_IN_BUNDLE, "the bundle %s has no call of %s of %s with (%s): it takes %s, "
                   "then outputs.", kernel->bundle->path, kernel->name, kernel->dtype, call, inputs);
  return xt_fail(XTARGET_NOT_IN_BUNDLE, "the bundle %s has no call of %s of %s with (%s). Give arrays "
                 "of that dtype, C-contiguous or transposed, build the bundle with --views or --full, "
                 "or have a compile server make it (xtarget_bundle_compile_by).",
                 kernel->bundle->path, kernel->name, kernel->dtype, call);
}

/* Whether nothing is to be computed: all outputs are empty, and so is what they are made of. */
static int all_empty(const struct xt_given *given) {
  size_t arrays = 0, empty = 0;
  for (size_t i = 0; i < given->output_count; i++)
    if (given->outputs[i].count) return 0;
  for (size_t i = 0; i < given->count; i++) {
    if (given->arguments[i]->kind != XTARGET_TENSOR) continue;
    arrays++;
    empty += !given->arrays[i].count;
  }
  return given->output_count > 0 && (empty || !arrays);
}

/* Elementwise kernels see contiguous arrays of one shape as arrays of one dimension. Gives 0 where
 * they are not, or are already. */
static int flatten(const xtarget_kernel *kernel, struct xt_given *given) {
  const struct xt_array *first = NULL;
  struct xt_array *all[2 * XT_MOST_ARGUMENTS];
  size_t count = 0;
  const struct xt_offer *offer = atomic_load(&kernel->first);
  if (!offer || !offer->record->elementwise) return 0;
  for (size_t i = 0; i < given->count; i++)
    if (given->arguments[i]->kind == XTARGET_TENSOR) all[count++] = &given->arrays[i];
  for (size_t i = 0; i < given->output_count; i++) all[count++] = &given->outputs[i];
  for (size_t i = 0; i < count; i++) {
    if (!first) first = all[i];
    if (!all[i]->contiguous || all[i]->dimensions != first->dimensions ||
        memcmp(all[i]->shape, first->shape, sizeof *first->shape * (size_t)first->dimensions))
      return 0;
  }
  if (!first || first->dimensions == 1) return 0;
  for (size_t i = 0; i < count; i++) {
    all[i]->dimensions = 1;
    all[i]->shape[0] = all[i]->count;
    all[i]->strides[0] = 1;
  }
  return 1;
}

/* What was found on the way to no form. */
struct search {
  int other_layout, other_count, empty;
};

enum { NO_FORM = -1 };

static int serve(xtarget_kernel *kernel, void *stream, const struct xt_given *given,
                 struct search *search) {
  int64_t results[XT_MOST_RESULTS];
  int status = NO_FORM;
  for (const struct xt_offer *offer = atomic_load(&kernel->first); offer; offer = offer->next)
    for (unsigned n = 0; n < offer->record->form_count; n++) {
      struct xt_form *form = &offer->record->forms[n];
      if (!form->chosen || !matches(form, given)) continue;
      if (form->output_count != given->output_count) {
        search->other_count = (int)form->output_count;
        continue;
      }
      int alike = form->output_count && form->outputs[0].dtype == given->outputs[0].dtype &&
                  form->outputs[0].dimensions == given->outputs[0].dimensions;
      int own = reads_outputs(form);
      if (own && !alike) continue;
      search->empty |= alike && all_empty(given);
      if (!holds(kernel, form, given, results)) continue;
      int fit = own ? OUTPUTS_FIT : compare_outputs(kernel, form, given, results);
      if (fit == OUTPUTS_DIFFER) return XTARGET_BAD_ARGUMENT;
      if (fit == OUTPUTS_LIE_OTHERWISE) {
        search->other_layout = 1;
        continue;
      }
      status = check_overlaps(kernel, offer->record, form, given);
      struct xt_launched launched;
      launched.binary = NULL;
      if (!status)
        status = xt_launch_form(kernel, offer, form, given, results, stream, &launched);
      if (!status)
        xt_known_keep(kernel, *given->arguments, given->told, given, offer->record, form, &launched);
      if (status != XTARGET_NOT_IN_BUNDLE) return status;
      break; /* another section may have a binary for this device */
    }
  return status;
}

/* NO_FORM, or XTARGET_NOT_IN_BUNDLE, where none of the offers has what the call needs. */
static int attempt(xtarget_kernel *kernel, void *stream, const struct xt_given *given,
                   struct search *search) {
  *search = (struct search){0, -1, 0};
  int status = serve(kernel, stream, given, search);
  if (status != NO_FORM) return status;
  struct xt_given flat = *given;
  return flatten(kernel, &flat) ? serve(kernel, stream, &flat, search) : NO_FORM;
}

static int does_not_serve(const xtarget_kernel *kernel) {
  return xt_fail(XTARGET_NO_SERVER, "what the compile server %.200s sent does not serve the call of %s "
                 "that it was made for. Build the bundle with this call.", kernel->server,
                 kernel->name);
}

static int looked_up_call(xtarget_kernel *kernel, void *stream, const xtarget_argument *arguments,
                          size_t argument_count, const xtarget_tensor *outputs,
                          size_t output_count) {
  struct xt_given given;
  struct search search;
  int status = read_arguments(kernel, arguments, argument_count, &given);
  if (!status) status = read_outputs(kernel, outputs, output_count, &given);
  if (status) return status;
  if (xt_logs(XT_LOG_DEBUG)) {
    char call[700];
    told_call(&given, call, sizeof call);
    xt_log(XT_LOG_DEBUG, "call %s(%s) on %s", kernel->name, call, kernel->device->name);
  }
  for (int asked = 0;;) {
    const struct xt_offer *seen = atomic_load(&kernel->first);
    status = attempt(kernel, stream, &given, &search);
    if (status != NO_FORM && status != XTARGET_NOT_IN_BUNDLE) return status;
    if (search.empty && status == NO_FORM) {
      /* nothing is written where there is nothing; inputs that are written would be */
      const struct xt_record *record = atomic_load(&kernel->first)->record;
      for (unsigned n = 0; n < record->input_count; n++) search.empty &= !record->inputs[n].updated;
      if (search.empty) return XTARGET_OK;
    }
    if (!kernel->server || search.other_count >= 0) break;
    if (asked) return does_not_serve(kernel);
    int failed = xt_kernel_ask(kernel, &given, seen, &asked);
    if (failed) return failed;
  }
  return status == NO_FORM ? no_form(kernel, &given, search.other_layout, search.other_count) : status;
}

int xtarget_kernel_call(xtarget_kernel *kernel, void *stream, const xtarget_argument *arguments,
                        size_t argument_count, const xtarget_tensor *outputs, size_t output_count) {
  int status;
  if (!kernel) return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_kernel_call needs a kernel."));
  if (!xt_known_call(kernel, stream, arguments, argument_count, outputs, output_count, &status))
    status = looked_up_call(kernel, stream, arguments, argument_count, outputs, output_count);
  return xt_told(status);
}

static const struct xt_form *form_of(const xtarget_kernel *kernel, const struct xt_given *given,
                                     int64_t results[XT_MOST_RESULTS]) {
  for (const struct xt_offer *offer = atomic_load(&kernel->first); offer; offer = offer->next)
    for (unsigned n = 0; n < offer->record->form_count; n++) {
      const struct xt_form *form = &offer->record->forms[n];
      if (form->chosen && !reads_outputs(form) && matches(form, given) &&
          holds(kernel, form, given, results))
        return form;
    }
  return NULL;
}

/* The first array's shape, which all have where `flatten` has done something. */
static int first_shape(const struct xt_given *given, int64_t shape[16]) {
  size_t i = 0;
  while (given->arguments[i]->kind != XTARGET_TENSOR) i++;
  int dimensions = given->arrays[i].dimensions;
  memcpy(shape, given->arrays[i].shape, sizeof *shape * (size_t)dimensions);
  return dimensions;
}

static int look_up_outputs(xtarget_kernel *kernel, const xtarget_argument *arguments,
                           size_t argument_count, xtarget_tensor *outputs, int64_t (*shapes)[16],
                           size_t capacity, size_t *count) {
  struct xt_given given;
  int64_t results[XT_MOST_RESULTS];
  if (!kernel || !count || (capacity && (!outputs || !shapes)))
    return xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_kernel_outputs needs a kernel and room for what it "
                   "gives.");
  int status = read_arguments(kernel, arguments, argument_count, &given), is_flat = 0;
  if (status) return status;
  given.output_count = 0;
  const struct xt_form *form = NULL;
  for (int asked = 0; !form;) {
    const struct xt_offer *seen = atomic_load(&kernel->first);
    struct xt_given flat = given;
    form = form_of(kernel, &given, results);
    is_flat = !form && flatten(kernel, &flat);
    if (is_flat) form = form_of(kernel, &flat, results);
    if (form) break;
    if (!kernel->server) return no_form(kernel, &given, 0, -1);
    if (asked) return does_not_serve(kernel);
    status = xt_kernel_ask(kernel, &given, seen, &asked);
    if (status) return status;
  }
  *count = form->output_count;
  const int64_t *from = results;
  for (unsigned o = 0; o < form->output_count && o < capacity; o++) {
    int dimensions = form->outputs[o].dimensions;
    memcpy(shapes[o], from, sizeof *from * (size_t)dimensions);
    from += 2 * dimensions;
    if (is_flat) dimensions = first_shape(&given, shapes[o]);
    outputs[o] = (xtarget_tensor){
        .dtype = form->outputs[o].dtype, .ndim = dimensions, .shape = shapes[o]};
  }
  return XTARGET_OK;
}

int xtarget_kernel_outputs(xtarget_kernel *kernel, const xtarget_argument *arguments,
                           size_t argument_count, xtarget_tensor *outputs, int64_t (*shapes)[16],
                           size_t capacity, size_t *count) {
  return xt_told(look_up_outputs(kernel, arguments, argument_count, outputs, shapes, capacity, count));
}
