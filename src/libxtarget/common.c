#define _POSIX_C_SOURCE 200809L
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef XT_VERSION
#define XT_VERSION "unknown"
#endif

static _Thread_local char message[2048];

/* Names and paths are the caller's or a file's: none of them steers a terminal. */
static void make_plain(char *text) {
  for (char *at = text; *at; at++)
    if (((unsigned char)*at < ' ' && *at != '\n' && *at != '\t') || *at == 0x7f) *at = '?';
}

int xt_fail(int status, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(message, sizeof message, format, values);
  va_end(values);
  make_plain(message);
  return status;
}

static const char *const levels[] = {"NOTHING", "ERROR", "WARNING", "INFO", "DEBUG"};
static int log_level;

static void read_level(void) {
  const char *given = getenv("XTARGET_LOG");
  if (!given || !*given) return;
  for (int level = XT_LOG_ERROR; level <= XT_LOG_DEBUG; level++)
    if (!strcasecmp(given, levels[level])) log_level = level;
  if (!log_level)
    fprintf(stderr, "xtarget: WARNING: XTARGET_LOG=%.40s means nothing. Write error or warning or info "
            "or debug.\n", given);
}

int xt_logs(int level) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, read_level);
  return level <= log_level;
}

void xt_log(int level, const char *format, ...) {
  char text[2048];
  va_list values;
  if (!xt_logs(level)) return;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  make_plain(text);
  fprintf(stderr, "xtarget: %s: %s\n", levels[level], text);
}

int xt_told(int status) {
  if (status) xt_log(XT_LOG_ERROR, "%s", message);
  return status;
}

double xt_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int xt_no_memory(void) {
  return xt_fail(XTARGET_OUT_OF_MEMORY, "the host has no memory left. Free some, and try again.");
}

const char *xtarget_message(void) { return message; }
const char *xtarget_version(void) { return XT_VERSION; }
int xtarget_abi_version(void) { return XTARGET_ABI_VERSION; }

/* In the order of `DTYPES` in `_values/types.py`. */
const char *const xt_dtype_names[XTARGET_DTYPE_COUNT] = {
    "bool",   "int8",   "int16",   "int32",    "int64",   "uint8",  "uint16",
    "uint32", "uint64", "float16", "bfloat16", "float32", "float64",
    "float8_e4m3fn", "float8_e5m2"};
const uint8_t xt_dtype_sizes[XTARGET_DTYPE_COUNT] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 1, 1};

int xt_dtype_of(const char *name) {
  int code = 0;
  while (code < XTARGET_DTYPE_COUNT && strcmp(xt_dtype_names[code], name) != 0) code++;
  return code;
}

char *xt_file_text(const char *path, off_t most) {
  struct stat status;
  int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe is not waited for */
  if (file < 0) return NULL;
  char *text = NULL;
  if (!fstat(file, &status)) {
    errno = EINVAL;
    if (S_ISREG(status.st_mode) && status.st_size <= most)
      text = calloc(1, (size_t)status.st_size + 1);
  }
  ssize_t count = 1;
  for (off_t there = 0; text && count > 0; there += count) {
    count = pread(file, text + there, (size_t)(status.st_size - there), there);
    if (count < 0) {
      free(text);
      text = NULL;
    }
  }
  int error = errno;
  close(file);
  errno = error;
  return text;
}

int xt_number_of(const char *text, double *value) {
  char *end;
  *value = strtod(text, &end);
  return *text && !*end;
}

char *xt_text(struct xt_bytes *bytes) {
  size_t size = xt_u16(bytes);
  const uint8_t *from = xt_take(bytes, size);
  if (!from || memchr(from, 0, size)) {
    bytes->failed = 1;
    return NULL;
  }
  char *made = malloc(size + 1);
  if (!made) {
    bytes->failed = 1;
    return NULL;
  }
  memcpy(made, from, size);
  made[size] = 0;
  return made;
}
