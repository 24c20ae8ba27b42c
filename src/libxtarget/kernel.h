/* A kernel for a device, and a call of it. */
#ifndef XTARGET_KERNEL_H
#define XTARGET_KERNEL_H

#include "device.h"
#include "layout.h"

/* What a section of a bundle has of a kernel. */
struct xt_offer {
  xtarget_bundle *bundle;
  struct xt_section *section;
  struct xt_record *record;
  struct xt_offer *next;
};

/* Calls that were served before (`known.h`): sets of as many as four, found by a hash. */
enum { XT_KNOWN_SETS = 128, XT_KNOWN_WAYS = 4 };
struct xt_known;
struct xt_known_set {
  atomic_uint readers;
  atomic_uint missed; /* calls that were not in it when all places were taken */
  _Atomic(struct xt_known *) calls[XT_KNOWN_WAYS];
  struct xt_known *replaced; /* is freed when nobody reads */
};

struct xtarget_kernel {
  xtarget_bundle *bundle;
  xtarget_device *device;
  char *name, *dtype;
  size_t option_count;
  struct xt_pair *options; /* as the caller gave them */
  _Atomic(struct xt_offer *) first; /* best first; what a server made comes before */
  /* Of the bundle, when the kernel was taken; without a server it is NULL, and nothing is asked. */
  char *server, *trust;
  double seconds;
  pthread_mutex_t asking;
  pthread_mutex_t keeping; /* who writes into the sets */
  struct xt_known_set known[XT_KNOWN_SETS];
};

/* A call's arguments and outputs, looked at. */
struct xt_given {
  size_t count, output_count;
  const xtarget_argument *arguments[XT_MOST_ARGUMENTS];
  struct xt_array arrays[XT_MOST_ARGUMENTS], outputs[XT_MOST_ARGUMENTS];
  const xtarget_tensor *told; /* the outputs, as the caller gave them */
};

/* What one launch of a form starts; no binary where its grid is empty. `values`: the place among
 * arguments and outputs that a parameter's bits are of; -1: it is a size, or hidden. */
struct xt_launched {
  struct xt_binary *binary;
  void *loaded;
  unsigned grid[3];
  uint64_t bits[XT_MOST_SLOTS];
  int values[XT_MOST_SLOTS];
};

/* Offer what a bundle has for the kernel, and keep the bundle. `found`: how many sections have it;
 * `exact`: those of the device's own target only. */
int xt_kernel_offer(xtarget_kernel *kernel, xtarget_bundle *bundle, int exact, unsigned *found);
/* Have the kernel's server make a call that none of the offers since `seen` serves. `asked`: it was
 * this call for which the server was asked; else another thread has got something new. */
int xt_kernel_ask(xtarget_kernel *kernel, const struct xt_given *given, const struct xt_offer *seen,
                  int *asked);
/* Make the launches of a form. XTARGET_NOT_IN_BUNDLE: a binary of it does not run on the device.
 * `launched`: the last of them. */
int xt_launch_form(xtarget_kernel *kernel, const struct xt_offer *offer, struct xt_form *form,
                   const struct xt_given *given, const int64_t *results, void *stream,
                   struct xt_launched *launched);
/* A number as the parameter that carries its dtype: half precision travels in float32. Gives 0 where
 * the dtype does not hold it. */
int xt_number_bits(int dtype, const xtarget_argument *given, uint64_t *bits);
/* The blocks that a grid has in each direction on all devices. */
extern const int64_t xt_most_blocks[3];
/* Whether the kernel's device reaches what DLPack says of a tensor's memory. */
int xt_check_place(const xtarget_kernel *kernel, const xtarget_tensor *tensor, const char *what);

#endif
