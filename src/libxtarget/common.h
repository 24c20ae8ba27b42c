/* What all files of libxtarget share: errors, text, and reading of bytes that nobody vouches for. */
#ifndef XTARGET_COMMON_H
#define XTARGET_COMMON_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "xtarget.h"

/* Keep a sentence as the calling thread's last error. Gives `status`. */
__attribute__((format(printf, 2, 3))) int xt_fail(int status, const char *format, ...);
int xt_no_memory(void);

/* What XTARGET_LOG lets through goes to stderr, as a line: what a function fails with; what is
 * opened, loaded and compiled; each call that is looked up. */
enum { XT_LOG_NOTHING, XT_LOG_ERROR, XT_LOG_WARNING, XT_LOG_INFO, XT_LOG_DEBUG };
int xt_logs(int level);
__attribute__((format(printf, 2, 3))) void xt_log(int level, const char *format, ...);
/* Log the last error if there is one. Gives `status`. */
int xt_told(int status);
/* Milliseconds of a clock that only goes forward. */
double xt_clock(void);

/* The text of a regular file of up to `most` bytes, with a NUL behind it; or NULL, with errno. */
char *xt_file_text(const char *path, off_t most);

/* Whether a text is a number as a whole. */
int xt_number_of(const char *text, double *value);

extern const char *const xt_dtype_names[XTARGET_DTYPE_COUNT];
extern const uint8_t xt_dtype_sizes[XTARGET_DTYPE_COUNT];
/* XTARGET_DTYPE_COUNT: there is no such dtype. */
int xt_dtype_of(const char *name);

/* Bytes that are read from the front; `failed` once something lay behind their end. */
struct xt_bytes {
  const uint8_t *at, *end;
  int failed;
};

static inline const uint8_t *xt_take(struct xt_bytes *bytes, size_t count) {
  if (bytes->failed || (size_t)(bytes->end - bytes->at) < count) {
    bytes->failed = 1;
    return NULL;
  }
  const uint8_t *taken = bytes->at;
  bytes->at += count;
  return taken;
}

static inline uint64_t xt_number(struct xt_bytes *bytes, int size) {
  const uint8_t *from = xt_take(bytes, (size_t)size);
  uint64_t value = 0;
  for (int i = 0; from && i < size; i++) value |= (uint64_t)from[i] << (8 * i);
  return value;
}

static inline unsigned xt_u8(struct xt_bytes *bytes) { return (unsigned)xt_number(bytes, 1); }
static inline unsigned xt_u16(struct xt_bytes *bytes) { return (unsigned)xt_number(bytes, 2); }
static inline uint32_t xt_u32(struct xt_bytes *bytes) { return (uint32_t)xt_number(bytes, 4); }

/* A copy of a text without NUL in it; NULL where there is none, or no memory. */
char *xt_text(struct xt_bytes *bytes);

#endif
