/* A kernel for a device, and a call of it. */
#ifndef XTARGET_KERNEL_H
#define XTARGET_KERNEL_H

#include "device.h"
#include "layout.h"

/* What a section of the bundle has of a kernel. */
struct xt_offer {
  struct xt_section *section;
  struct xt_record *record;
};

struct xtarget_kernel {
  xtarget_bundle *bundle;
  xtarget_device *device;
  unsigned count;
  struct xt_offer *offers; /* best first */
};

/* A call's arguments and outputs, looked at. */
struct xt_given {
  size_t count, output_count;
  const xtarget_argument *arguments[XT_MOST_ARGUMENTS];
  struct xt_array arrays[XT_MOST_ARGUMENTS], outputs[XT_MOST_ARGUMENTS];
};

/* Make the launches of a form. XTARGET_NOT_IN_BUNDLE: a binary of it does not run on the device. */
int xt_launch_form(xtarget_kernel *kernel, const struct xt_offer *offer, struct xt_form *form,
                   const struct xt_given *given, const int64_t *results, void *stream);

#endif
