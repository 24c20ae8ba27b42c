/* Bundles, as docs/bundle-format.md describes them: parts that are read when they are asked for, and
 * used once their digest was compared. */
#ifndef XTARGET_BUNDLE_H
#define XTARGET_BUNDLE_H

#include <pthread.h>
#include <stdatomic.h>

#include "common.h"

/* Of the format page, "Limits". */
enum {
  XT_MOST_MANIFEST = 8 << 20,
  XT_MOST_INDEX = 1 << 20,
  XT_MOST_DICTIONARY = 32 << 10,
  XT_MOST_RECORD = 1 << 20,
  XT_MOST_BINARY = 64 << 20,
  XT_MOST_TARGETS = 256
};
/* Versions of the format and its index that this library reads: that of servers' answers, and that of
 * bundles that are packed by zstd. */
enum { XT_FORMAT = 2, XT_FORMAT_ZSTD = 3, XT_INDEX_VERSION = 1 };

/* Bytes of a section, and what they unpack to. */
struct xt_mark {
  uint64_t offset;
  uint32_t size, raw;
  uint8_t sha256[32];
};

/* A row of a table of call records. */
struct xt_row {
  char *kernel, *dtype;
  struct xt_mark mark;
};

struct xt_section {
  char *target;
  uint64_t offset, size; /* from the end of the manifest */
  struct xt_mark dictionary, calls;
  /* read when they are first asked for, under the lock */
  int is_read;
  uint8_t *preset;
  uint32_t row_count;
  struct xt_row *rows;
};

struct xtarget_bundle {
  atomic_int references;
  char *path;
  int by_zstd; /* not by zlib */
  int file; /* -1: the bytes are in memory */
  const uint8_t *memory;
  uint8_t *owned; /* `memory`, where it is the bundle's */
  char *trust;    /* as it was opened; NULL: the environment's */
  struct xt_lock *lock_file; /* NULL: it may load everything */
  uint64_t size, base, end;
  char signer[65];
  pthread_mutex_t lock;
  char *server; /* that makes what it lacks, under the lock; NULL: none */
  double seconds;
  unsigned section_count;
  struct xt_section *sections;
};

/* Open bytes that become the bundle's, also where they are refused. `name` stands in messages. */
int xt_bundle_take(uint8_t *bytes, size_t size, const char *name, const char *trust,
                   xtarget_bundle **bundle);
/* Whether the manifest of a bundle in memory has a text. */
int xt_bundle_says(const xtarget_bundle *bundle, const char *text);
void xt_bundle_keep(xtarget_bundle *bundle);
/* Read a section's tables. */
int xt_section_read(xtarget_bundle *bundle, struct xt_section *section);
/* The row of a kernel, or NULL. The section was read. */
const struct xt_row *xt_section_find(const struct xt_section *section, const char *kernel,
                                     const char *dtype);
/* Bytes of a section, checked and unpacked; `free` them. A NUL follows them. */
int xt_section_bytes(const xtarget_bundle *bundle, const struct xt_section *section,
                     const struct xt_mark *mark, uint32_t most, uint8_t **bytes);
/* Refuse it for this reason: the status that stands for it. */
int xt_refuse(const xtarget_bundle *bundle, const char *why);
/* Unpack bytes of a section into `mark->raw` bytes (unpack.c). */
int xt_unpack(const xtarget_bundle *bundle, const struct xt_section *section, const uint8_t *packed,
              const struct xt_mark *mark, uint8_t *into);
/* Whether libzstd can be opened. */
int xt_zstd_is_there(const xtarget_bundle *bundle);
void xt_read_mark(struct xt_bytes *bytes, struct xt_mark *mark);

/* The lock that XTARGET_LOCK names; NULL where it names none. */
int xt_lock_open(struct xt_lock **lock);
void xt_lock_close(struct xt_lock *lock);
/* Whether a lock has a binary; of NULL it has each. */
int xt_lock_check(const struct xt_lock *lock, const uint8_t sha256[32], const char *kernel,
                  const char *target);
int xt_digest(const void *bytes, size_t size, uint8_t sha256[32]);

/* Whether a bundle's signature satisfies a policy (xtarget_bundle_open). */
int xt_check_trust(xtarget_bundle *bundle, const char *trust, const uint8_t *header,
                   size_t header_size, const uint8_t *signature);

#endif
