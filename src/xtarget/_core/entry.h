/* What serves the calls of one layout: the bound call of Python, and its launch as the driver takes
 * it where there is one. What serves a class of calls has a program as well, which computes the
 * numbers that differ from layout to layout.
 */
#ifndef XTARGET_ENTRY_H
#define XTARGET_ENTRY_H

#include "python.h"

enum { MOST_OVERLAPS = XT_MOST_VALUES };
/* How the library of `out` hears of the write; where a call is launched. */
enum written { WRITTEN_NOT, WRITTEN_TORCH, WRITTEN_OWN };
enum where { WHERE_ASKED, WHERE_OWN, WHERE_TORCH, WHERE_POINTED };

struct overlap {
  int index, in_place;
  int64_t low, high;
};

struct native {
  struct xt_launch launch;
  PyObject *module, *code; /* what has `raw`, and what has `stays` */
  int32_t device_type, device_id; /* DLPack's, for torch's current stream */
};

struct entry {
  int references, declines;
  int stale; /* of a class: its checks have failed, and Python has something else by now */
  PyObject *kept;
  PyObject *direct;         /* the prepared launch */
  PyObject *synchronize;    /* None, or anything: the launch is waited for */
  PyObject *checks;         /* a tuple of functions */
  PyObject *current;        /* gives the stream, or None */
  PyObject *pointed;        /* gives what has its handle as `ptr`, or is None */
  PyObject *default_stream;
  PyObject *new_output, *output_type; /* None: it takes a shape at most, and is no code of Python's */
  int has_device, chosen, consents;
  char *chosen_by; /* the text of XTARGET_DEVICE then, or NULL */
  enum written written;
  enum where where;
  int overlap_count;
  struct overlap overlaps[MOST_OVERLAPS];
  struct native *native; /* NULL: `direct` launches */
  struct sizing *sizing; /* NULL: it is of one layout */
};

/* What an entry of a class computes: grid, shape and strides of a new output, the limits of each
 * overlap, and the launch's values that depend on sizes, in that order.
 */
struct sizing {
  struct xt_program program;
  int dimensions; /* of a new output */
  int whole; /* `direct` takes all numbers behind the overlaps, and the call's values as they are */
  int place_count; /* of the values of `direct`: places in the call's, followed by those */
  uint8_t places[XT_MOST_PARAMETERS];
};

static inline int shape_at(void) { return 3; }
static inline int overlaps_at(const struct entry *entry) {
  return 3 + 2 * entry->sizing->dimensions;
}
static inline int sizes_at(const struct entry *entry) {
  return overlaps_at(entry) + 2 * entry->overlap_count;
}

#endif
