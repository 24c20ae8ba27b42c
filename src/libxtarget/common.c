#include "common.h"

#include <stdarg.h>
#include <stdio.h>

#ifndef XT_VERSION
#define XT_VERSION "unknown"
#endif

static _Thread_local char message[2048];

int xt_fail(int status, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(message, sizeof message, format, values);
  va_end(values);
  /* names and paths are the caller's or a file's: none of them steers a terminal */
  for (char *at = message; *at; at++)
    if (((unsigned char)*at < ' ' && *at != '\n' && *at != '\t') || *at == 0x7f) *at = '?';
  return status;
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
