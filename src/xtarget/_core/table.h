/* A table of what serves which calls. Who uses it sees to it that one thread does at a time. */
#ifndef XTARGET_TABLE_H
#define XTARGET_TABLE_H

#include <stddef.h>

#include "call.h"

struct xt_slot;

enum { XT_RECENT_BITS = 6 };

struct xt_table {
  struct xt_slot **slots; /* a power of two of them, or NULL */
  size_t capacity, count;
  int with_sizes; /* keys are words and sizes; else words alone */
  const struct xt_slot *recent[1 << XT_RECENT_BITS]; /* found lately, by the first word and size */
};

/* What was put there for such a call, or NULL. */
void *xt_table_find(struct xt_table *table, uint64_t hash, const struct xt_call *call);

/* The same without a hash, if it was found lately; else NULL. Of tables whose keys have sizes. */
void *xt_table_recent(const struct xt_table *table, const struct xt_call *call);

/* Put something there for such calls; what was there before is given to `drop`. Returns 0 where
 * there is no memory. */
int xt_table_put(struct xt_table *table, uint64_t hash, const struct xt_call *call, void *content,
                 void (*drop)(void *));

/* Take out all things of which `keep` gives 0; what becomes of them is its business. */
void xt_table_filter(struct xt_table *table, int (*keep)(void *content, void *with), void *with);

/* Empty it. `drop` is called when the table is empty already. */
void xt_table_clear(struct xt_table *table, void (*drop)(void *));

#endif
