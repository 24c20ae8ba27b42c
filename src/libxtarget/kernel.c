/* Taking a kernel from a bundle. */
#define _POSIX_C_SOURCE 200809L
#include "known.h"

#include <stdarg.h>
#include <stdio.h>

enum { MOST_OPTIONS = 64 };

static int rank(const struct xt_section *section, const xtarget_device *device) {
  /* of the family and of the portable form, the binaries tell: what may serve comes behind */
  if (!strcmp(section->target, device->target)) return 0;
  return strncmp(section->target, "nvidia:", 7) || strncmp(device->target, "nvidia:", 7) ? -1 : 1;
}

/* "1" and "1.0" are the same number. */
static int same_value(const char *one, const char *other) {
  double a, b;
  return !strcmp(one, other) || (xt_number_of(one, &a) && xt_number_of(other, &b) && a == b);
}

static const char *wanted(const struct xt_record *record, const struct xt_pair *options,
                          size_t count, const char *name) {
  for (size_t i = count; i-- > 0;)
    if (!strcmp(options[i].name, name)) return options[i].value;
  for (unsigned i = 0; i < record->default_count; i++)
    if (!strcmp(record->defaults[i].name, name)) return record->defaults[i].value;
  return NULL;
}

/* Mark the forms of these options. Gives how many there are. */
static unsigned choose(struct xt_record *record, const struct xt_pair *options, size_t count) {
  unsigned chosen = 0;
  for (unsigned i = 0; i < record->form_count; i++) {
    struct xt_form *form = &record->forms[i];
    form->chosen = 1;
    for (unsigned o = 0; form->chosen && o < form->option_count; o++) {
      const char *value = wanted(record, options, count, form->options[o].name);
      form->chosen = value && same_value(value, form->options[o].value);
    }
    for (size_t o = 0; form->chosen && o < count; o++) {
      unsigned n = 0;
      while (n < form->option_count && strcmp(form->options[n].name, options[o].name) != 0) n++;
      form->chosen = n < form->option_count;
    }
    chosen += (unsigned)form->chosen;
  }
  return chosen;
}

static int same_options(const struct xt_form *one, const struct xt_form *other) {
  int same = one->option_count == other->option_count;
  for (unsigned o = 0; same && o < one->option_count; o++)
    same = !strcmp(one->options[o].name, other->options[o].name) &&
           !strcmp(one->options[o].value, other->options[o].value);
  return same;
}

/* Add to a text of which `*at` characters are there, or would be. */
__attribute__((format(printf, 4, 5))) static void add(char *text, size_t room, size_t *at,
                                                      const char *format, ...) {
  va_list values;
  va_start(values, format);
  int length = *at < room ? vsnprintf(text + *at, room - *at, format, values) : 0;
  va_end(values);
  *at += (size_t)(length > 0 ? length : 0);
  if (*at >= room) memcpy(text + room - 4, "...", 4);
}

/* Every set of options of the forms, once. */
static void told_options(const struct xt_record *record, char *text, size_t room) {
  size_t at = 0;
  text[0] = 0;
  for (unsigned i = 0; i < record->form_count && at < room; i++) {
    const struct xt_form *form = &record->forms[i];
    unsigned before = 0;
    while (before < i && !same_options(form, &record->forms[before])) before++;
    if (before < i) continue;
    for (unsigned o = 0; o < form->option_count; o++)
      add(text, room, &at, "%s%s=%s", o ? ", " : at ? "; " : "", form->options[o].name,
          form->options[o].value);
  }
}

/* What there is for a device: the kernel's other dtypes, else names of kernels. */
static void told_kernels(const xtarget_bundle *bundle, const xtarget_device *device, const char *name,
                         char *text, size_t room) {
  size_t at = 0;
  const char *last = "";
  text[0] = 0;
  for (int named = 1; named >= 0 && !at; named--)
    for (unsigned i = 0; i < bundle->section_count; i++) {
      const struct xt_section *section = &bundle->sections[i];
      if (rank(section, device) < 0) continue;
      for (uint32_t n = 0; n < section->row_count && at < room; n++) {
        const struct xt_row *row = &section->rows[n];
        if (named ? strcmp(row->kernel, name) : !strcmp(row->kernel, last)) continue;
        add(text, room, &at, at ? ", %s" : named ? "For it, it has that of %s" : "For it, it has %s",
            named ? row->dtype : row->kernel);
        last = row->kernel;
      }
    }
  if (at) return;
  for (unsigned i = 0; i < bundle->section_count; i++)
    add(text, room, &at, i ? ", %s" : "It is for %s", bundle->sections[i].target);
}

static int nothing(const xtarget_bundle *bundle, const xtarget_device *device, const char *name,
                   const char *dtype, const struct xt_record *other) {
  char text[600];
  if (other) {
    told_options(other, text, sizeof text);
    if (!*text)
      return xt_fail(XTARGET_NOT_IN_BUNDLE, "the bundle %s has %.80s of %.20s without options only. Take "
                     "it without, or build the bundle with examples of these options.", bundle->path,
                     name, dtype);
    return xt_fail(XTARGET_NOT_IN_BUNDLE, "the bundle %s has %.80s of %.20s with other options than those "
                   "that were asked for: %s. Build it with examples of these too.", bundle->path, name,
                   dtype, text);
  }
  if (xt_dtype_of(dtype) == XTARGET_DTYPE_COUNT) {
    size_t at = 0;
    for (int code = 0; code < XTARGET_DTYPE_COUNT; code++)
      add(text, sizeof text, &at, at ? ", %s" : "%s", xt_dtype_names[code]);
    return xt_fail(XTARGET_BAD_ARGUMENT, "%.20s is no dtype; there are %s.", *dtype ? dtype : "\"\"", text);
  }
  told_kernels(bundle, device, name, text, sizeof text);
  return xt_fail(XTARGET_NOT_IN_BUNDLE, "the bundle %s has no %.80s of %.20s for %s. %s. "
                 "Build it with `xtarget bundle build --kernel %.80s --dtype %.20s --target %s`.",
                 bundle->path, name, dtype, device->target, *text ? text : "It is empty", name, dtype,
                 device->target);
}

/* ----------------------------------------------------------------------------------- offers */

static void drop_offers(struct xt_offer *offer) {
  while (offer) {
    struct xt_offer *next = offer->next;
    xt_record_drop(offer->record);
    xtarget_bundle_close(offer->bundle);
    free(offer);
    offer = next;
  }
}

/* What one section has: an offer, or a record of `other` options, or neither. */
static int offer_of(const xtarget_kernel *kernel, xtarget_bundle *bundle, struct xt_section *section,
                    struct xt_offer **offer, struct xt_record **other) {
  struct xt_record *record = NULL;
  *offer = NULL;
  int status = xt_section_read(bundle, section);
  const struct xt_row *row = status ? NULL : xt_section_find(section, kernel->name, kernel->dtype);
  if (row) status = xt_record_read(bundle, section, row, &record);
  if (!record) return status;
  if (!choose(record, kernel->options, kernel->option_count)) {
    xt_record_drop(*other);
    *other = record;
    return XTARGET_OK;
  }
  struct xt_offer *made = calloc(1, sizeof *made);
  if (!made) {
    xt_record_drop(record);
    return xt_no_memory();
  }
  xt_bundle_keep(bundle);
  *made = (struct xt_offer){bundle, section, record, NULL};
  *offer = made;
  return XTARGET_OK;
}

static int collect(xtarget_kernel *kernel, xtarget_bundle *bundle, int ranks, unsigned *found,
                   struct xt_record **other) {
  struct xt_offer *first = NULL, *last = NULL, *one;
  int status = XTARGET_OK;
  *found = 0;
  for (int wanted_rank = 0; !status && wanted_rank < ranks; wanted_rank++)
    for (unsigned i = bundle->section_count; !status && i-- > 0;) { /* the newest arch first */
      struct xt_section *section = &bundle->sections[i];
      if (rank(section, kernel->device) != wanted_rank) continue;
      status = offer_of(kernel, bundle, section, &one, other);
      if (!one) continue;
      if (last)
        last->next = one;
      else
        first = one;
      last = one;
      ++*found;
    }
  if (status || !first) {
    drop_offers(first);
    return status;
  }
  last->next = atomic_load(&kernel->first);
  atomic_store(&kernel->first, first);
  return XTARGET_OK;
}

int xt_kernel_offer(xtarget_kernel *kernel, xtarget_bundle *bundle, int exact, unsigned *found) {
  struct xt_record *other = NULL;
  int status = collect(kernel, bundle, exact ? 1 : 2, found, &other);
  xt_record_drop(other);
  return status;
}

/* ----------------------------------------------------------------------------------- kernels */

static void drop_texts(xtarget_kernel *kernel) {
  for (size_t i = 0; kernel->options && i < kernel->option_count; i++) {
    free(kernel->options[i].name);
    free(kernel->options[i].value);
  }
  free(kernel->options);
  free(kernel->name);
  free(kernel->dtype);
  free(kernel->server);
  free(kernel->trust);
}

/* A copy, or NULL of NULL; without memory `whole` becomes 0. */
static char *copied(const char *text, int *whole) {
  char *copy = text ? strdup(text) : NULL;
  if (text && !copy) *whole = 0;
  return copy;
}

static xtarget_kernel *kernel_new(xtarget_bundle *bundle, xtarget_device *device, const char *name,
                                  const char *dtype, const xtarget_option *options, size_t count) {
  xtarget_kernel *kernel = calloc(1, sizeof *kernel);
  if (!kernel) return NULL;
  int whole = (kernel->options = calloc(count + 1, sizeof *kernel->options)) != NULL;
  kernel->name = copied(name, &whole);
  kernel->dtype = copied(dtype, &whole);
  kernel->trust = copied(bundle->trust, &whole);
  for (; whole && kernel->option_count < count; kernel->option_count++) {
    struct xt_pair *pair = &kernel->options[kernel->option_count];
    pair->name = copied(options[kernel->option_count].name, &whole);
    pair->value = copied(options[kernel->option_count].value, &whole);
  }
  pthread_mutex_lock(&bundle->lock);
  kernel->server = copied(bundle->server, &whole);
  kernel->seconds = bundle->seconds;
  pthread_mutex_unlock(&bundle->lock);
  int asks = whole && !pthread_mutex_init(&kernel->asking, NULL);
  if (!asks || pthread_mutex_init(&kernel->keeping, NULL)) {
    if (asks) pthread_mutex_destroy(&kernel->asking);
    drop_texts(kernel);
    free(kernel);
    return NULL;
  }
  xt_bundle_keep(kernel->bundle = bundle);
  xt_device_keep(kernel->device = device);
  return kernel;
}

void xtarget_kernel_release(xtarget_kernel *kernel) {
  if (!kernel) return;
  xt_known_drop(kernel);
  drop_offers(atomic_load(&kernel->first));
  xtarget_device_close(kernel->device);
  xtarget_bundle_close(kernel->bundle);
  pthread_mutex_destroy(&kernel->asking);
  pthread_mutex_destroy(&kernel->keeping);
  drop_texts(kernel);
  free(kernel);
}

static int get(xtarget_bundle *bundle, xtarget_device *device, const char *name, const char *dtype,
               const xtarget_option *options, size_t option_count, xtarget_kernel **result) {
  if (!bundle || !device || !name || !dtype || !result || (option_count && !options))
    return xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_kernel_get needs a bundle, a device, a name, a "
                   "dtype, and a place for the kernel.");
  *result = NULL;
  if (!*name) return xt_fail(XTARGET_BAD_ARGUMENT, "the name of the kernel is empty.");
  if (option_count > MOST_OPTIONS)
    return xt_fail(XTARGET_BAD_ARGUMENT, "a kernel has up to %d options, not %zu.", MOST_OPTIONS,
                   option_count);
  for (size_t i = 0; i < option_count; i++) {
    if (!options[i].name || !options[i].value)
      return xt_fail(XTARGET_BAD_ARGUMENT, "an option of %.80s has no name or no value.", name);
    for (size_t before = 0; before < i; before++)
      if (!strcmp(options[before].name, options[i].name))
        return xt_fail(XTARGET_BAD_ARGUMENT, "the option %.80s of %.80s is given twice.",
                       options[i].name, name);
  }
  xtarget_kernel *kernel = kernel_new(bundle, device, name, dtype, options, option_count);
  if (!kernel) return xt_no_memory();
  struct xt_record *other = NULL;
  unsigned found = 0;
  int status = collect(kernel, bundle, 2, &found, &other);
  if (!status && !found && !kernel->server) status = nothing(bundle, device, name, dtype, other);
  xt_record_drop(other);
  if (status)
    xtarget_kernel_release(kernel);
  else
    *result = kernel;
  return status;
}

int xtarget_kernel_get(xtarget_bundle *bundle, xtarget_device *device, const char *name,
                       const char *dtype, const xtarget_option *options, size_t option_count,
                       xtarget_kernel **result) {
  return xt_told(get(bundle, device, name, dtype, options, option_count, result));
}
