#include "table.h"

#include <stdlib.h>
#include <string.h>

struct xt_slot {
  uint64_t hash;
  void *content; /* NULL: it was taken out */
  int word_count, size_count;
  uint64_t key[]; /* the words, then the sizes */
};

static int sizes_of(const struct xt_table *table, const struct xt_call *call) {
  return table->with_sizes ? call->size_count : 0;
}

static inline int equal(const uint64_t *key, const uint64_t *words, int count) {
  for (int i = 0; i < count; i++)
    if (key[i] != words[i]) return 0;
  return 1;
}

static inline int is_for(const struct xt_slot *slot, const struct xt_call *call, int sizes) {
  return slot->word_count == call->word_count && slot->size_count == sizes &&
         equal(slot->key, call->words, call->word_count) &&
         equal(slot->key + call->word_count, (const uint64_t *)call->sizes, sizes);
}

static int same(const struct xt_slot *slot, uint64_t hash, const struct xt_call *call, int sizes) {
  return slot->hash == hash && is_for(slot, call, sizes);
}

/* Where a call that was found lately is. */
static inline size_t place_of(const struct xt_call *call) {
  uint64_t size = call->size_count ? (uint64_t)call->sizes[0] : 0;
  return (size_t)((call->words[0] + size) * 0x9E3779B97F4A7C15u >> (64 - XT_RECENT_BITS));
}

void *xt_table_find(struct xt_table *table, uint64_t hash, const struct xt_call *call) {
  if (!table->count) return 0;
  int sizes = sizes_of(table, call);
  for (size_t i = hash;; i++) {
    const struct xt_slot *slot = table->slots[i & (table->capacity - 1)];
    if (!slot) return 0;
    if (!same(slot, hash, call, sizes)) continue;
    if (table->with_sizes) table->recent[place_of(call)] = slot;
    return slot->content;
  }
}

void *xt_table_recent(const struct xt_table *table, const struct xt_call *call) {
  const struct xt_slot *slot = table->recent[place_of(call)];
  return slot && is_for(slot, call, call->size_count) ? slot->content : 0;
}

static int grow(struct xt_table *table) {
  size_t capacity = table->capacity ? 2 * table->capacity : 64;
  struct xt_slot **slots = calloc(capacity, sizeof *slots);
  if (!slots) return 0;
  for (size_t i = 0; i < table->capacity; i++) {
    if (!table->slots[i]) continue;
    size_t place = table->slots[i]->hash;
    while (slots[place & (capacity - 1)]) place++;
    slots[place & (capacity - 1)] = table->slots[i];
  }
  free(table->slots);
  table->slots = slots;
  table->capacity = capacity;
  return 1;
}

int xt_table_put(struct xt_table *table, uint64_t hash, const struct xt_call *call, void *content,
                 void (*drop)(void *)) {
  int sizes = sizes_of(table, call);
  if (2 * (table->count + 1) > table->capacity && !grow(table)) return 0;
  size_t i = hash;
  for (; table->slots[i & (table->capacity - 1)]; i++) {
    struct xt_slot *slot = table->slots[i & (table->capacity - 1)];
    if (same(slot, hash, call, sizes)) {
      void *old = slot->content;
      slot->content = content;
      if (old) drop(old);
      return 1;
    }
  }
  struct xt_slot *slot =
      malloc(sizeof *slot + sizeof(uint64_t) * (size_t)(call->word_count + sizes));
  if (!slot) return 0;
  slot->hash = hash;
  slot->content = content;
  slot->word_count = call->word_count;
  slot->size_count = sizes;
  memcpy(slot->key, call->words, sizeof(uint64_t) * (size_t)call->word_count);
  memcpy(slot->key + call->word_count, call->sizes, sizeof(int64_t) * (size_t)sizes);
  table->slots[i & (table->capacity - 1)] = slot;
  table->count++;
  return 1;
}

void xt_table_filter(struct xt_table *table, int (*keep)(void *content, void *with), void *with) {
  for (size_t i = 0; i < table->capacity; i++) {
    struct xt_slot *slot = table->slots[i];
    if (slot && slot->content && !keep(slot->content, with)) slot->content = 0;
  }
}

void xt_table_clear(struct xt_table *table, void (*drop)(void *)) {
  struct xt_table old = *table;
  table->slots = 0;
  table->capacity = table->count = 0;
  memset(table->recent, 0, sizeof table->recent);
  for (size_t i = 0; i < old.capacity; i++) {
    if (!old.slots[i]) continue;
    if (old.slots[i]->content) drop(old.slots[i]->content);
    free(old.slots[i]);
  }
  free(old.slots);
}
