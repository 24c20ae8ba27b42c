/* Bundles of a kernel library's folder or file, built by a child process. */
#define _GNU_SOURCE
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* A folder of this process's own for a build. */
struct place {
  char folder[256], bundle[300], said[300];
};

static int place_make(struct place *place) {
  const char *base = getenv("TMPDIR");
  int length = snprintf(place->folder, sizeof place->folder, "%s/xtarget-XXXXXX",
                        base && *base ? base : "/tmp");
  if (length < 0 || (size_t)length >= sizeof place->folder)
    return xt_fail(XTARGET_NOT_BUILT, "the name in TMPDIR has more than %zu bytes. Name a shorter one.",
                   sizeof place->folder - sizeof "/xtarget-XXXXXX");
  if (!mkdtemp(place->folder))
    return xt_fail(XTARGET_NOT_BUILT, "no folder can be made for the build in %s: %s. Name another one "
                   "in TMPDIR.", place->folder, strerror(errno));
  snprintf(place->bundle, sizeof place->bundle, "%s/kernels.xtb", place->folder);
  snprintf(place->said, sizeof place->said, "%s/said", place->folder);
  return XTARGET_OK;
}

static void place_drop(const struct place *place) {
  unlink(place->bundle);
  unlink(place->said);
  rmdir(place->folder);
}

/* Start it in a process group of its own, which ends as a whole; what it says goes to a file. */
static int start(char *const *words, const struct place *place, pid_t *child) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  int code = posix_spawn_file_actions_init(&files);
  if (code) return code;
  code = posix_spawnattr_init(&how);
  if (!code) {
    code = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (!code) code = posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    if (!code)
      code = posix_spawn_file_actions_addopen(&files, 2, place->said, O_WRONLY | O_CREAT, 0600);
    if (!code) code = posix_spawnattr_setpgroup(&how, 0);
    if (!code) code = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
    if (!code) code = posix_spawnp(child, words[0], &files, &how, words, environ);
    posix_spawnattr_destroy(&how);
  }
  posix_spawn_file_actions_destroy(&files);
  return code;
}

/* Its exit status; -1: it was too slow, or ended otherwise. */
static int wait_for(pid_t child, double seconds) {
  const struct timespec pause = {0, 5 * 1000 * 1000};
  double end = xt_clock() + 1000 * seconds;
  int state;
  for (;;) {
    pid_t done = waitpid(child, &state, WNOHANG);
    if (done == child) return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    if (done < 0 && errno == ECHILD) return 0; /* SIGCHLD is ignored: the file tells */
    if (done < 0 && errno != EINTR) return -1;
    if (xt_clock() > end) break;
    nanosleep(&pause, NULL);
  }
  kill(-child, SIGKILL);
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
  return -1;
}

/* The first line of what it said that begins with "error: ", else its last. */
static void told(const struct place *place, char *text, size_t room) {
  enum { MOST_SAID = 1 << 20 };
  char *said = xt_file_text(place->said, MOST_SAID), *rest = said, *line, *last = NULL;
  while (rest && (line = strsep(&rest, "\n"))) {
    if (*line) last = line;
    if (!strncmp(line, "error: ", 7)) {
      last = line + 7;
      break;
    }
  }
  snprintf(text, room, "%s", last ? last : "it said nothing");
  free(said);
}

static int build(const char *library, const xtarget_device *device, const char *kernels,
                 const char *dtypes, double seconds, const struct place *place) {
  const char *named = getenv("XT_EXECUTABLE"), *key = getenv("XTARGET_SIGN");
  const char *words[20] = {named && *named ? named : "xtarget", "bundle", "build", "-o",
                           place->bundle, "--library", library, "--target", device->target,
                           "--dtype", dtypes};
  size_t count = 11;
  if (kernels) words[count++] = "--kernel", words[count++] = kernels;
  if (key && *key) words[count++] = "--sign", words[count++] = key;
  pid_t child;
  int code = start((char *const *)(uintptr_t)words, place, &child);
  if (code)
    return xt_fail(XTARGET_NOT_BUILT, "the command %s cannot be run: %s. Install xtarget where PATH has "
                   "it, or name the command in XT_EXECUTABLE.", words[0], strerror(code));
  double begun = xt_clock();
  code = wait_for(child, seconds);
  xt_log(XT_LOG_INFO, "build the kernels of %s for %s by %s: %.1f ms", library, device->target,
         words[0], xt_clock() - begun);
  if (!code) return XTARGET_OK;
  if (code < 0)
    return xt_fail(XTARGET_NOT_BUILT, "%s did not build the kernels of %s within %g seconds, or was "
                   "ended. Give it more time, or run `xtarget bundle build` before.", words[0], library,
                   seconds);
  char text[800];
  told(place, text, sizeof text);
  return xt_fail(XTARGET_NOT_BUILT, "%s could not build the kernels of %s: %s", words[0], library, text);
}

static int open_library(const char *library, xtarget_device *device, const char *kernels,
                        const char *dtypes, double seconds, xtarget_bundle **bundle) {
  struct place place;
  if (!library || !*library || !device || !dtypes || !*dtypes || !bundle || !(seconds > 0))
    return xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_library_open needs a kernel library's folder or file, a "
                   "device, dtypes, a time of more than 0 seconds, and a place for the bundle.");
  *bundle = NULL;
  int status = place_make(&place);
  if (status) return status;
  status = build(library, device, kernels, dtypes, seconds, &place);
  if (!status) status = xtarget_bundle_open(place.bundle, NULL, bundle);
  place_drop(&place); /* an open file stays */
  char *name;
  if (status || asprintf(&name, "of the library %.900s", library) < 0) return status;
  free((*bundle)->path); /* for messages: nobody else has it yet */
  (*bundle)->path = name;
  return XTARGET_OK;
}

int xtarget_library_open(const char *library, xtarget_device *device, const char *kernels,
                         const char *dtypes, double seconds, xtarget_bundle **bundle) {
  return xt_told(open_library(library, device, kernels, dtypes, seconds, bundle));
}
