/* Lock files: the binaries that a program may load (`xtarget lock`, XTARGET_LOCK), in JSON. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>

#include "bundle.h"

enum { FORMAT = 1, DIGITS = 64, MOST_DEEP = 64, MOST_LOCK = 64 << 20 };

/* Of a binary of a lock; the texts are parts of the file's. */
struct locked {
  const char *kernel, *target, *sha256;
};

struct xt_lock {
  char *path, *text;
  struct locked *binaries;
  size_t count;
  long format; /* 0: it has not been read yet */
};

/* ----------------------------------------------------------------------------- reading of JSON */

struct json {
  char *at; /* a NUL ends it */
  int failed;
};

static void skip_space(struct json *json) { json->at += strspn(json->at, " \t\r\n"); }

/* Whether this character comes next; it is passed. */
static int passed(struct json *json, char wanted) {
  skip_space(json);
  if (json->failed || *json->at != wanted) return 0;
  json->at++;
  return 1;
}

static void pass(struct json *json, char wanted) { json->failed |= !passed(json, wanted); }

/* A text, ended in its place. Escaped characters, which only names for messages have, become ?. */
static char *read_text(struct json *json) {
  pass(json, '"');
  char *start = json->at, *to = start;
  while (!json->failed && *json->at != '"') {
    size_t escaped = *json->at == '\\' ? json->at[1] == 'u' ? 6 : 2 : 0;
    if (!*json->at || strnlen(json->at, escaped) < escaped) {
      json->failed = 1;
    } else {
      *to++ = escaped ? '?' : *json->at;
      json->at += escaped ? escaped : 1;
    }
  }
  if (json->failed) return NULL;
  json->at++;
  *to = 0;
  return start;
}

/* Pass a value of any kind. */
static void skip_value(struct json *json, int deep) {
  skip_space(json);
  char open = *json->at, end = open == '{' ? '}' : ']';
  if (deep > MOST_DEEP) json->failed = 1;
  if (json->failed) return;
  if (open == '"') {
    read_text(json);
  } else if (open == '{' || open == '[') {
    json->at++;
    if (passed(json, end)) return;
    do {
      if (open == '{') {
        read_text(json);
        pass(json, ':');
      }
      skip_value(json, deep + 1);
    } while (passed(json, ','));
    pass(json, end);
  } else {
    size_t length = strspn(json->at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
    json->failed |= !length;
    json->at += length;
  }
}

/* ------------------------------------------------------------------------------- reading a lock */

static void read_binary(struct json *json, struct xt_lock *lock) {
  struct locked found = {NULL, NULL, NULL};
  pass(json, '{');
  do {
    const char *name = read_text(json);
    pass(json, ':');
    if (json->failed) return;
    const char **place = !strcmp(name, "kernel")   ? &found.kernel
                         : !strcmp(name, "target") ? &found.target
                         : !strcmp(name, "sha256") ? &found.sha256
                                                   : NULL;
    if (place)
      *place = read_text(json);
    else
      skip_value(json, 0);
  } while (passed(json, ','));
  pass(json, '}');
  if (json->failed || !found.kernel || !found.target || !found.sha256 ||
      strlen(found.sha256) != DIGITS || strspn(found.sha256, "0123456789abcdef") != DIGITS)
    json->failed = 1;
  else
    lock->binaries[lock->count++] = found; /* each has so many digits: there is room */
}

/* Whether the text is a lock of a format, of which `lock->format` is told. */
static int read_lock(struct xt_lock *lock) {
  struct json json = {lock->text, 0};
  int listed = 0;
  pass(&json, '{');
  do {
    const char *name = read_text(&json);
    pass(&json, ':');
    if (json.failed) return 0;
    if (!strcmp(name, "xtarget_lock")) {
      skip_space(&json);
      lock->format = strtol(json.at, &json.at, 10);
      if (lock->format != FORMAT) return lock->format != 0;
    } else if (!strcmp(name, "binaries")) {
      listed = 1;
      pass(&json, '[');
      if (passed(&json, ']')) continue;
      do read_binary(&json, lock);
      while (!json.failed && passed(&json, ','));
      pass(&json, ']');
    } else {
      skip_value(&json, 0);
    }
  } while (passed(&json, ','));
  pass(&json, '}');
  skip_space(&json);
  return !json.failed && !*json.at && lock->format && listed;
}

static int unusable(const char *path, const char *why) {
  return xt_fail(XTARGET_NOT_IN_LOCK, "the lock %.300s that XTARGET_LOCK names cannot be used: %s. "
                 "Write one with xtarget lock, or unset the variable.", path, why);
}

int xt_lock_open(struct xt_lock **result) {
  char why[80];
  const char *path = getenv("XTARGET_LOCK");
  *result = NULL;
  if (!path || !*path) return XTARGET_OK;
  struct xt_lock *lock = calloc(1, sizeof *lock);
  if (!lock || !(lock->path = strdup(path))) {
    free(lock);
    return xt_no_memory();
  }
  lock->text = xt_file_text(path, MOST_LOCK);
  int status = lock->text ? XTARGET_OK : unusable(path, strerror(errno));
  if (!status) {
    lock->binaries = calloc(strlen(lock->text) / DIGITS + 1, sizeof *lock->binaries);
    if (!lock->binaries) status = xt_no_memory();
  }
  if (!status && !read_lock(lock)) status = unusable(path, "it is not a lock");
  if (!status && lock->format != FORMAT) {
    snprintf(why, sizeof why, "it has the format %ld, known is %d", lock->format, FORMAT);
    status = unusable(path, why);
  }
  if (status)
    xt_lock_close(lock);
  else
    *result = lock;
  return status;
}

void xt_lock_close(struct xt_lock *lock) {
  if (!lock) return;
  free(lock->binaries);
  free(lock->text);
  free(lock->path);
  free(lock);
}

int xt_lock_check(const struct xt_lock *lock, const uint8_t sha256[32], const char *kernel,
                  const char *target) {
  char digits[DIGITS + 1], why[300];
  size_t same = 0;
  const char *elsewhere = NULL;
  if (!lock) return XTARGET_OK;
  for (int i = 0; i < 32; i++) snprintf(digits + 2 * i, 3, "%02x", sha256[i]);
  for (size_t i = 0; i < lock->count; i++) {
    const struct locked *one = &lock->binaries[i];
    if (!strcmp(one->sha256, digits)) return XTARGET_OK;
    if (strcmp(one->kernel, kernel)) continue;
    same += !strcmp(one->target, target);
    elsewhere = one->target;
  }
  if (same)
    snprintf(why, sizeof why, "it has %zu of %.80s with other contents", same, kernel);
  else if (elsewhere)
    snprintf(why, sizeof why, "it has %.80s for other targets only, as %.80s", kernel, elsewhere);
  else
    snprintf(why, sizeof why, "it has no kernel %.80s", kernel);
  return xt_fail(XTARGET_NOT_IN_LOCK, "the lock %.300s does not have the binary of %.80s for %.80s "
                 "that was to be loaded (sha256 %.16s...): %s. Take the bundle that the lock was made "
                 "with, or make it anew with xtarget lock --bundle.", lock->path, kernel, target,
                 digits, why);
}
