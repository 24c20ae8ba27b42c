/* What serves the calls of one layout: the bound call of Python, and its launch as the driver takes
 * it where there is one. What serves a class of calls has a program as well, which computes the
 * numbers that differ from layout to layout.
 */
#ifndef XTARGET_ENTRY_H
#define XTARGET_ENTRY_H

#include "python.h"

enum { MOST_OVERLAPS = 2 * XT_MOST_VALUES, MOST_OUTPUTS = 8, MOST_LINKS = 32, MOST_PIECES = 16,
       MOST_FILLINGS = MOST_OUTPUTS + MOST_PIECES };
/* The grid of a call that is one launch comes first of all numbers, not among the sizes. */
enum { GRID_FIRST = -1 };
/* How an array's library hears of a write; where a call is launched. */
enum written { WRITTEN_NOT, WRITTEN_TORCH, WRITTEN_OWN };
enum where { WHERE_ASKED, WHERE_OWN, WHERE_TORCH, WHERE_POINTED };

/* Two arrays, by their places in the call's values, and between which distances of the first from the
 * second they may share memory. */
struct overlap {
  int index, other, in_place;
  int64_t low, high;
  PyObject *shares; /* tells by the distance whether they do; NULL: it is not known */
};

/* What is written beside new results, and how its library hears of that. */
struct write {
  int index;
  enum written written;
};

/* What torch's C interface takes beside shape and strides. */
struct torch_place {
  int known;
  int32_t dtype, device_type, device_id;
};

/* A new result. */
struct output {
  PyObject *make, *type; /* `type` None: it takes a shape at most, and is no code of Python's */
  struct torch_place place; /* known: torch's C interface makes it */
  int dimensions;
  int64_t shape[XT_MOST_DIMENSIONS]; /* of one layout */
};

/* One launch of a chain. */
struct link {
  struct xt_launch launch;
  PyObject *module, *code; /* what has `raw`, and what has `stays` */
  int grid_at; /* of a class: where its grid is among the sizes */
  Py_buffer closings; /* a number, another one after each close of a module; NULL: it is not told */
  uint64_t open_at;   /* what it was when `raw` was looked at, and one more */
  int stays;          /* `stays` was True, and remains so */
};

/* A launch as it is started. */
struct ready {
  const struct xt_launch *launch;
  const unsigned *grid;
  unsigned computed[3];
  uint64_t bytes[XT_MOST_PARAMETERS];
  void *places[XT_MOST_PARAMETERS];
  struct xt_maps maps;
};

/* The launches of a call, in their order, and the memory that they alone use. */
struct native {
  int32_t device_type, device_id; /* DLPack's, for torch's current stream */
  struct torch_place place;       /* bytes, of torch's allocator */
  PyObject *memory;               /* gives so many bytes for a stream */
  struct xt_fills fills;
  int piece_count, filling_count, link_count;
  int64_t pieces[MOST_PIECES]; /* bytes of each; those of a class are its first sizes */
  struct xt_filling fillings[MOST_FILLINGS];
  struct link links[];
};

struct entry {
  int references, declines;
  struct entry *next; /* of what goes */
  int stale; /* of a class: its checks have failed, and Python has something else by now */
  PyObject *kept;
  PyObject *again;          /* of a class: loads its code, and gives `direct` and what `links` have */
  PyObject *direct;         /* the prepared launch; NULL: its code was unloaded */
  PyObject *synchronize;    /* None, or anything: the launch is waited for */
  PyObject *checks;         /* a tuple of functions */
  PyObject *current;        /* gives the stream, or None */
  PyObject *pointed;        /* gives what has its handle as `ptr`, or is None */
  PyObject *ordered;        /* looks a `stream` of the caller's up, and tells the arrays' libraries */
  PyObject *default_stream;
  int has_device, chosen, consents;
  char *chosen_by; /* the text of XTARGET_DEVICE then, or NULL */
  enum where where;
  int output_count, write_count, overlap_count;
  struct output outputs[MOST_OUTPUTS];
  struct write writes[XT_MOST_VALUES];
  struct overlap overlaps[MOST_OVERLAPS];
  struct native *native; /* NULL: `direct` launches */
  struct sizing *sizing; /* NULL: it is of one layout */
};

/* What an entry of a class computes: grid, shape and strides of each new output, the limits of each
 * overlap, and the launch's values that depend on sizes, in that order. The outputs have their numbers of
 * dimensions.
 */
struct sizing {
  struct xt_program program;
  int dimensions; /* of all new outputs together */
  int whole; /* `direct` takes all numbers behind the overlaps, and the call's values as they are */
  int place_count; /* of the values of `direct`: places in the call's, followed by those */
  uint8_t places[XT_MOST_PARAMETERS];
};

static inline int shape_at(const struct entry *entry, int output) {
  int at = 3;
  for (int i = 0; i < output; i++) at += 2 * entry->outputs[i].dimensions;
  return at;
}
static inline int overlaps_at(const struct entry *entry) {
  return 3 + 2 * entry->sizing->dimensions;
}
static inline int sizes_at(const struct entry *entry) {
  return overlaps_at(entry) + 2 * entry->overlap_count;
}

/* native.c: from the tuple that `_launch.native_launches` gives; NULL where it is none. */
struct native *native_new(PyObject *offered);
void native_drop(struct native *native);
/* Move the code of all launches to another one, which has nothing else; NULL: there is no memory. */
struct native *native_unload(struct native *native);
/* Take code for all launches: a tuple of (function, module, code). 1, or 0. */
int native_load(struct native *native, PyObject *offered);
/* Whether launches of a class take no more than its program and its calls give. */
int native_takes_what_is_given(const struct native *native, int values, int sizes);
/* Get the only launch of a call ready for good; its values have to stay as they are. `reading->ready`
 * stays NULL where there are several, or memory that they use or that is filled before. */
void make_ready_alone(const struct entry *entry, struct reading *reading, struct ready *ready);
/* The driver's stream: 1, or 0 where Python has to launch. */
int native_stream(struct state *state, const struct entry *entry, const struct reading *reading,
                  void **stream);
/* Start all that a call starts: 1, 0 where Python has to, from the beginning on, or -1 with an
 * exception. Where the driver refuses a launch that is not the first, Python goes on with it. */
int launch_natively(struct state *state, const struct entry *entry, const struct reading *reading,
                    void *stream, PyObject *result);

/* A call of which some launches were started: the first that was not, and the call's values with the
 * pieces of memory. */
struct rest {
  int first, count;
  const struct xt_value *values;
};
/* replay.c: go on with it in Python. 1, or -1 with an exception. */
int launch_rest(struct state *state, const struct entry *entry, const struct reading *reading,
                const struct rest *rest, PyObject *result);

/* memory.c: memory for a launch only. */
struct room {
  void *tensor;   /* of torch's C interface */
  PyObject *held; /* what has `address` and `close` */
  uint64_t address;
};
/* From a tuple of its members, or None. */
int read_place(struct torch_place *place, PyObject *offered);
/* 1, or 0 where Python has to make the call. */
int room_take(struct state *state, const struct entry *entry, const struct reading *reading,
              int64_t nbytes, struct room *room);
/* Work of the stream may still be using it: who gave it sees to that. */
void room_give_back(struct state *state, struct room *room);
/* A new array for a result, or NULL. */
PyObject *new_output(struct state *state, const struct entry *entry, int number,
                     const struct reading *reading);

/* replay.c */
/* The stream of all arrays that know theirs: a new reference, or NULL. */
PyObject *one_stream(struct state *state, const struct reading *reading);
/* Where Python launches: a new reference, or NULL. */
PyObject *stream_of(struct state *state, const struct entry *entry, const struct reading *reading);
/* The call's arguments as a tuple. */
PyObject *arguments(const struct reading *reading);

#endif
