/* Taking a kernel from a bundle. */
#define _POSIX_C_SOURCE 200809L
#include "kernel.h"

#include <stdio.h>

static int rank(const struct xt_section *section, const xtarget_device *device) {
  /* of the family and of the portable form, the binaries tell: what may serve comes behind */
  if (!strcmp(section->target, device->target)) return 0;
  return strncmp(section->target, "nvidia:", 7) || strncmp(device->target, "nvidia:", 7) ? -1 : 1;
}

static int number_of(const char *text, double *value) {
  char *end;
  *value = strtod(text, &end);
  return *text && !*end;
}

/* "1" and "1.0" are the same number. */
static int same_value(const char *one, const char *other) {
  double a, b;
  return !strcmp(one, other) || (number_of(one, &a) && number_of(other, &b) && a == b);
}

static const char *wanted(const struct xt_record *record, const xtarget_option *options,
                          size_t count, const char *name) {
  for (size_t i = count; i-- > 0;)
    if (!strcmp(options[i].name, name)) return options[i].value;
  for (unsigned i = 0; i < record->default_count; i++)
    if (!strcmp(record->defaults[i].name, name)) return record->defaults[i].value;
  return NULL;
}

/* Mark the forms of these options. Gives how many there are. */
static unsigned choose(struct xt_record *record, const xtarget_option *options, size_t count) {
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

static void told_options(const struct xt_record *record, char *text, size_t room) {
  size_t at = 0;
  text[0] = 0;
  for (unsigned i = 0; i < record->form_count; i++) {
    const struct xt_form *form = &record->forms[i], *before = i ? form - 1 : NULL;
    int same = before && before->option_count == form->option_count;
    for (unsigned o = 0; same && o < form->option_count; o++)
      same = !strcmp(before->options[o].value, form->options[o].value);
    if (same) continue;
    for (unsigned o = 0; o < form->option_count && at < room; o++)
      at += (size_t)snprintf(text + at, room - at, "%s%s=%s", o ? ", " : at ? "; " : "",
                             form->options[o].name, form->options[o].value);
  }
}

static int nothing(const xtarget_bundle *bundle, const xtarget_device *device, const char *name,
                   const char *dtype, const struct xt_record *other) {
  char text[600];
  if (other) {
    told_options(other, text, sizeof text);
    return xt_fail(XTARGET_NOT_IN_BUNDLE, "the bundle %s has %.80s of %.20s with other options than "
                   "these: %s. Build the bundle with examples of these options.", bundle->path, name,
                   dtype, *text ? text : "none");
  }
  size_t at = 0;
  text[0] = 0;
  for (unsigned i = 0; i < bundle->section_count && at < sizeof text; i++)
    at += (size_t)snprintf(text + at, sizeof text - at, i ? ", %s" : "%s",
                           bundle->sections[i].target);
  return xt_fail(XTARGET_NOT_IN_BUNDLE, "the bundle %s has no %.80s of %.20s for %s (it is for %s). "
                 "Build it with `xtarget bundle build --kernel %.80s --dtype %.20s --target %s`.",
                 bundle->path, name, dtype, device->target, text, name, dtype, device->target);
}

void xtarget_kernel_release(xtarget_kernel *kernel) {
  if (!kernel) return;
  for (unsigned i = 0; i < kernel->count; i++) xt_record_drop(kernel->offers[i].record);
  free(kernel->offers);
  xtarget_device_close(kernel->device);
  xtarget_bundle_close(kernel->bundle);
  free(kernel);
}

int xtarget_kernel_get(xtarget_bundle *bundle, xtarget_device *device, const char *name,
                       const char *dtype, const xtarget_option *options, size_t option_count,
                       xtarget_kernel **result) {
  if (!bundle || !device || !name || !dtype || !result || (option_count && !options))
    return xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_kernel_get needs a bundle, a device, a name, a "
                   "dtype, and a place for the kernel.");
  *result = NULL;
  for (size_t i = 0; i < option_count; i++)
    if (!options[i].name || !options[i].value)
      return xt_fail(XTARGET_BAD_ARGUMENT, "an option of %.80s has no name or no value.", name);
  xtarget_kernel *kernel = calloc(1, sizeof *kernel);
  if (kernel) kernel->offers = calloc(bundle->section_count + 1, sizeof *kernel->offers);
  if (!kernel || !kernel->offers) {
    free(kernel);
    return xt_no_memory();
  }
  xt_bundle_keep(kernel->bundle = bundle);
  xt_device_keep(kernel->device = device);
  struct xt_record *other = NULL;
  int status = XTARGET_OK;
  for (int wanted_rank = 0; !status && wanted_rank < 2; wanted_rank++)
    for (unsigned i = bundle->section_count; !status && i-- > 0;) { /* the newest arch first */
      struct xt_section *section = &bundle->sections[i];
      if (rank(section, device) != wanted_rank) continue;
      status = xt_section_read(bundle, section);
      const struct xt_row *row = status ? NULL : xt_section_find(section, name, dtype);
      struct xt_record *record = NULL;
      if (row) status = xt_record_read(bundle, section, row, &record);
      if (!record) continue;
      if (choose(record, options, option_count)) {
        kernel->offers[kernel->count++] = (struct xt_offer){section, record};
      } else {
        xt_record_drop(other);
        other = record;
      }
    }
  if (!status && !kernel->count) status = nothing(bundle, device, name, dtype, other);
  xt_record_drop(other);
  if (status)
    xtarget_kernel_release(kernel);
  else
    *result = kernel;
  return status;
}
