/* Calls that were served before.
 *
 * What a call's form, its grid and its binary depend on is compared word by word; only addresses may
 * be others, with the same multiples of 16 among them. What depends on addresses is looked at anew:
 * that they are there, aligned, and that no array lies in another's memory. A call with anything to
 * refuse is not served here, so every message is that of the first time.
 *
 * Calls are found by a hash of their lengths, in sets of a few, of which a newer one takes the place
 * of an older one. They are never changed, and a set counts who reads it, so that threads need no
 * lock: a call that was replaced is freed when nobody does.
 */
#include "known.h"

enum { MOST_TENSORS = 8, MOST_DIMENSIONS = 6, MOST_PARAMETERS = 40 };
/* Of so many calls that find all places of their set taken, one takes a place: what comes again and
 * again is kept, and of more calls than there is room for not each one pays for it. */
enum { REPLACING = 4 };

struct tensor {
  uint64_t kind, place; /* dtype and dimensions; device */
  int strided;
  int64_t steps[2 * MOST_DIMENSIONS]; /* lengths, then strides, where there are any */
  uint64_t below, above; /* its bytes lie between these around its address */
  unsigned size; /* of an element */
  int empty, aligned;
};

struct pair {
  uint8_t one, other, same_may; /* the same address may be given for both */
};

struct xt_known {
  size_t argument_count, output_count;
  unsigned pair_count, parameter_count;
  uint8_t present[MOST_TENSORS]; /* of arguments: whether there is an array */
  struct tensor tensors[MOST_TENSORS];
  struct pair pairs[MOST_TENSORS * MOST_TENSORS];
  struct {
    uint64_t bits;
    int tensor; /* whose address it is; -1: these bits */
  } parameters[MOST_PARAMETERS];
  const struct xt_binary *binary;
  void *loaded;
  unsigned grid[3];
};

static uint64_t both(int32_t high, int32_t low) {
  return (uint64_t)(uint32_t)high << 32 | (uint32_t)low;
}

static int describe(const xtarget_tensor *tensor, struct tensor *known) {
  int64_t *steps = known->steps;
  if (tensor->ndim > MOST_DIMENSIONS) return 0;
  known->kind = both(tensor->dtype, tensor->ndim);
  known->place = both(tensor->device_type, tensor->device_id);
  known->strided = tensor->strides != NULL;
  for (int axis = 0; axis < tensor->ndim; axis++) *steps++ = tensor->shape[axis];
  for (int axis = 0; tensor->strides && axis < tensor->ndim; axis++) *steps++ = tensor->strides[axis];
  return 1;
}

/* Whether a tensor is that of a call before, but for its address. */
static int is_like(const struct tensor *known, const xtarget_tensor *tensor) {
  const int64_t *steps = known->steps;
  uint64_t address = (uint64_t)(uintptr_t)tensor->data;
  if (known->kind != both(tensor->dtype, tensor->ndim) || known->strided != (tensor->strides != NULL) ||
      known->place != both(tensor->device_type, tensor->device_id) || (tensor->ndim && !tensor->shape))
    return 0;
  for (int axis = 0; axis < tensor->ndim; axis++)
    if (*steps++ != tensor->shape[axis]) return 0;
  for (int axis = 0; known->strided && axis < tensor->ndim; axis++)
    if (*steps++ != tensor->strides[axis]) return 0;
  if (known->empty) return known->aligned == !(address % 16);
  return address && known->aligned == !(address % 16) && address % known->size == 0 &&
         address >= known->below && address <= UINT64_MAX - known->above;
}

static const xtarget_tensor *tensor_of(const struct xt_known *known, const xtarget_argument *arguments,
                                       const xtarget_tensor *outputs, size_t place) {
  return place < known->argument_count ? &arguments[place].tensor
                                       : &outputs[place - known->argument_count];
}

static int serves(const struct xt_known *known, const xtarget_argument *arguments,
                  const xtarget_tensor *outputs, uint64_t addresses[MOST_TENSORS]) {
  size_t count = known->argument_count + known->output_count;
  for (size_t i = 0; i < known->argument_count; i++)
    if (arguments[i].kind != (known->present[i] ? XTARGET_TENSOR : XTARGET_ABSENT)) return 0;
  for (size_t i = 0; i < count; i++) {
    if (!known->present[i]) continue;
    const xtarget_tensor *tensor = tensor_of(known, arguments, outputs, i);
    if (!is_like(&known->tensors[i], tensor)) return 0;
    addresses[i] = (uint64_t)(uintptr_t)tensor->data;
  }
  for (unsigned i = 0; i < known->pair_count; i++) {
    const struct pair *pair = &known->pairs[i];
    const struct tensor *one = &known->tensors[pair->one], *other = &known->tensors[pair->other];
    uint64_t here = addresses[pair->one], there = addresses[pair->other];
    if (here - one->below < there + other->above && there - other->below < here + one->above &&
        !(pair->same_may && here == there))
      return 0;
  }
  return 1;
}

/* Where a call is kept, by what its tensors are; NULL: it is none of those that are. Lengths that
 * follow each other give numbers that do not. */
static struct xt_known_set *set_of(xtarget_kernel *kernel, const xtarget_argument *arguments,
                                   size_t argument_count, const xtarget_tensor *outputs,
                                   size_t output_count) {
  uint64_t hash = 0, odd = 0x9E3779B97F4A7C15u;
  for (size_t i = 0; i < argument_count + output_count; i++) {
    const xtarget_tensor *tensor =
        i < argument_count ? &arguments[i].tensor : &outputs[i - argument_count];
    if (i < argument_count && arguments[i].kind == XTARGET_ABSENT) continue;
    if (i < argument_count && arguments[i].kind != XTARGET_TENSOR)
      return NULL; /* a number is another each time */
    if (tensor->ndim < 0 || tensor->ndim > MOST_DIMENSIONS || (tensor->ndim && !tensor->shape))
      return NULL;
    hash += (both(tensor->dtype, tensor->ndim) + !((uintptr_t)tensor->data % 16)) * odd;
    for (int axis = 0; axis < tensor->ndim; axis++)
      hash += (uint64_t)tensor->shape[axis] * (odd += 0x6A09E667F3BCC908u);
    odd += 0x6A09E667F3BCC908u;
  }
  hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93u;
  return &kernel->known[(hash >> 32) % XT_KNOWN_SETS];
}

int xt_known_call(xtarget_kernel *kernel, void *stream, const xtarget_argument *arguments,
                  size_t argument_count, const xtarget_tensor *outputs, size_t output_count,
                  int *status) {
  uint64_t addresses[MOST_TENSORS], bits[MOST_PARAMETERS];
  if (argument_count + output_count > MOST_TENSORS || (argument_count && !arguments) ||
      (output_count && !outputs))
    return 0;
  struct xt_known_set *set =
      set_of(kernel, arguments, argument_count, outputs, output_count);
  if (!set) return 0;
  const struct xt_binary *binary = NULL;
  void *loaded = NULL;
  unsigned grid[3];
  atomic_fetch_add(&set->readers, 1);
  for (size_t n = 0; n < XT_KNOWN_WAYS; n++) {
    const struct xt_known *known = atomic_load(&set->calls[n]);
    if (!known || known->argument_count != argument_count || known->output_count != output_count ||
        !serves(known, arguments, outputs, addresses))
      continue;
    for (unsigned i = 0; i < known->parameter_count; i++)
      bits[i] = known->parameters[i].tensor < 0 ? known->parameters[i].bits
                                                : addresses[known->parameters[i].tensor];
    memcpy(grid, known->grid, sizeof grid);
    loaded = known->loaded;
    binary = known->binary;
    break;
  }
  atomic_fetch_sub(&set->readers, 1);
  if (!binary) return 0;
  xtarget_device *device = kernel->device;
  *status = device->driver->start(device, loaded, binary, grid, bits, stream);
  return 1;
}

static void add_pairs(struct xt_known *known, const struct xt_given *given,
                      const struct xt_record *record, const struct xt_form *form) {
  int in_place = record->elementwise && form->output_count == 1 && !form->outputs[0].fill_size;
  size_t count = known->argument_count + known->output_count;
  for (size_t one = 0; one < count; one++)
    for (size_t other = 0; other < one; other++) {
      int written = one >= known->argument_count || record->inputs[one].updated ||
                    record->inputs[other].updated;
      if (!written || !known->present[one] || !known->present[other] || known->tensors[one].empty ||
          known->tensors[other].empty)
        continue;
      struct xt_array here = one < known->argument_count
                                 ? given->arrays[one] : given->outputs[one - known->argument_count];
      struct xt_array there = other < known->argument_count
                                  ? given->arrays[other]
                                  : given->outputs[other - known->argument_count];
      here.address = there.address; /* whether they are the same where that is */
      int same = in_place && one >= known->argument_count && other < known->argument_count &&
                 !record->inputs[other].updated && xt_arrays_are_same(&here, &there);
      known->pairs[known->pair_count++] = (struct pair){(uint8_t)one, (uint8_t)other, (uint8_t)same};
    }
}

static int fill_known(struct xt_known *known, const xtarget_argument *arguments,
                      const xtarget_tensor *outputs, const struct xt_given *given,
                      const struct xt_launched *launched) {
  size_t count = known->argument_count + known->output_count;
  for (size_t i = 0; i < count; i++) {
    int is_output = i >= known->argument_count;
    if (!is_output && arguments[i].kind == XTARGET_ABSENT) continue;
    if (!is_output && arguments[i].kind != XTARGET_TENSOR) return 0; /* a number is another each time */
    const struct xt_array *array =
        is_output ? &given->outputs[i - known->argument_count] : &given->arrays[i];
    struct tensor *tensor = &known->tensors[i];
    if (!describe(tensor_of(known, arguments, outputs, i), tensor)) return 0;
    known->present[i] = 1;
    tensor->size = xt_dtype_sizes[array->dtype];
    tensor->empty = !array->count;
    tensor->aligned = !(array->address % 16);
    tensor->below = array->address - array->low;
    tensor->above = array->high - array->address;
  }
  for (unsigned i = 0; i < launched->binary->parameter_count; i++) {
    int value = launched->values[i];
    known->parameters[i].bits = launched->bits[i];
    known->parameters[i].tensor = value >= 0 && known->present[value] ? value : -1;
  }
  known->parameter_count = launched->binary->parameter_count;
  return 1;
}

static int is_full(const struct xt_known_set *set) {
  for (size_t n = 0; n < XT_KNOWN_WAYS; n++)
    if (!atomic_load(&set->calls[n])) return 0;
  return 1;
}

/* Put a call into its set, unless another thread was quicker; gives what is to be freed. */
static struct xt_known *put(struct xt_known_set *set, struct xt_known *made,
                            const xtarget_argument *arguments, const xtarget_tensor *outputs) {
  uint64_t addresses[MOST_TENSORS];
  size_t place = XT_KNOWN_WAYS;
  if (set->replaced) { /* nobody who reads the set now has seen it, if nobody does */
    if (atomic_load(&set->readers)) return made;
    free(set->replaced);
    set->replaced = NULL;
  }
  for (size_t n = XT_KNOWN_WAYS; n-- > 0;) {
    const struct xt_known *known = atomic_load(&set->calls[n]);
    if (!known) place = n;
    else if (known->argument_count == made->argument_count &&
             known->output_count == made->output_count &&
             serves(known, arguments, outputs, addresses))
      return made;
  }
  if (place == XT_KNOWN_WAYS)
    place = atomic_load(&set->missed) / REPLACING % XT_KNOWN_WAYS;
  struct xt_known *before = atomic_exchange(&set->calls[place], made);
  if (!before || !atomic_load(&set->readers)) return before;
  set->replaced = before;
  return NULL;
}

void xt_known_keep(xtarget_kernel *kernel, const xtarget_argument *arguments,
                   const xtarget_tensor *outputs, const struct xt_given *given,
                   const struct xt_record *record, const struct xt_form *form,
                   const struct xt_launched *launched) {
  if (!launched->binary || launched->binary->parameter_count > MOST_PARAMETERS ||
      form->launch_count != 1 || form->temporary_count || given->count != form->argument_count ||
      given->count + given->output_count > MOST_TENSORS)
    return;
  for (unsigned i = 0; i < form->output_count; i++)
    if (form->outputs[i].fill_size) return;
  struct xt_known_set *set =
      set_of(kernel, arguments, given->count, outputs, given->output_count);
  if (!set || (is_full(set) && atomic_fetch_add(&set->missed, 1) % REPLACING)) return;
  struct xt_known *made = calloc(1, sizeof *made);
  if (!made) return;
  made->argument_count = given->count;
  made->output_count = given->output_count;
  made->binary = launched->binary;
  made->loaded = launched->loaded;
  memcpy(made->grid, launched->grid, sizeof made->grid);
  if (fill_known(made, arguments, outputs, given, launched)) {
    add_pairs(made, given, record, form);
    pthread_mutex_lock(&kernel->keeping);
    made = put(set, made, arguments, outputs);
    pthread_mutex_unlock(&kernel->keeping);
  }
  free(made);
}

void xt_known_drop(xtarget_kernel *kernel) {
  for (size_t n = 0; n < XT_KNOWN_SETS; n++) {
    free(kernel->known[n].replaced);
    for (size_t way = 0; way < XT_KNOWN_WAYS; way++) free(atomic_load(&kernel->known[n].calls[way]));
  }
}
