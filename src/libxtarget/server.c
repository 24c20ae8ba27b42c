/* Asking a compile server (`xtarget serve`) over its Unix socket: HTTP, then lines, then a bundle. */
#define _GNU_SOURCE
#include "server.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

static const char SCHEME[] = "unix:";
enum { PROTOCOL = 1, MOST_HEADERS = 100, MOST_BUNDLE = 128 << 20 };
/* Seconds without a byte from a server that works; it sends a line every two. */
static const double SILENCE = 10;

struct talk {
  const char *server;
  int socket;
  double deadline, seconds;
  char buffer[4096];
  size_t at, end;
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

__attribute__((format(printf, 2, 3))) static int failed(const struct talk *talk, const char *format,
                                                        ...) {
  char why[1500];
  va_list values;
  va_start(values, format);
  vsnprintf(why, sizeof why, format, values);
  va_end(values);
  return xt_fail(XTARGET_NO_SERVER, "the compile server %.200s %s", talk->server, why);
}

/* Wait until the socket can be read (POLLIN) or written (POLLOUT). */
static int wait_for(const struct talk *talk, short what) {
  double until = fmin(now() + SILENCE, talk->deadline), left;
  while ((left = until - now()) > 0) {
    struct pollfd one = {talk->socket, what, 0};
    int ready = poll(&one, 1, (int)(1000 * left) + 1);
    if (ready > 0) return XTARGET_OK;
    if (ready < 0 && errno != EINTR) return failed(talk, "cannot be waited for: %s.", strerror(errno));
  }
  if (now() >= talk->deadline)
    return failed(talk, "has no answer after %g s. Give the call more time, or build the bundle with "
                  "it.", talk->seconds);
  return failed(talk, "says nothing for %g s. Start it again.", SILENCE);
}

static int receive(struct talk *talk, void *into, size_t room, size_t *count) {
  for (;;) {
    int status = wait_for(talk, POLLIN);
    if (status) return status;
    ssize_t there = recv(talk->socket, into, room, 0);
    if (there < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (there < 0) return failed(talk, "ended in the middle of an answer: %s.", strerror(errno));
    *count = (size_t)there;
    return XTARGET_OK;
  }
}

/* The next line without its end. What does not fit into `room` is no line of a server. */
static int read_line(struct talk *talk, char *line, size_t room) {
  size_t length = 0;
  for (;;) {
    if (talk->at == talk->end) {
      talk->at = talk->end = 0;
      int status = receive(talk, talk->buffer, sizeof talk->buffer, &talk->end);
      if (status) return status;
      if (!talk->end) return failed(talk, "ended in the middle of an answer. Start it again.");
    }
    char one = talk->buffer[talk->at++];
    if (one == '\n') break;
    if (length + 1 == room) return failed(talk, "is none: what answers there is something else.");
    line[length++] = one;
  }
  if (length && line[length - 1] == '\r') length--;
  line[length] = 0;
  return XTARGET_OK;
}

/* Only the owner of this process, or root, may say what is run in it. */
static int check_owner(const struct talk *talk) {
#ifdef SO_PEERCRED
  struct ucred peer;
  socklen_t size = sizeof peer;
  if (getsockopt(talk->socket, SOL_SOCKET, SO_PEERCRED, &peer, &size))
    return failed(talk, "does not say who runs it: %s.", strerror(errno));
  if (peer.uid != geteuid() && peer.uid != 0)
    return xt_fail(XTARGET_NOT_TRUSTED, "the compile server %.200s is refused: it runs as the user %lu, "
                   "and this program as %lu. Start one as this user.", talk->server,
                   (unsigned long)peer.uid, (unsigned long)geteuid());
#endif
  return XTARGET_OK;
}

static int connect_to(struct talk *talk) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const char *path = talk->server + sizeof SCHEME - 1;
  memcpy(address.sun_path, path, strlen(path) + 1);
  talk->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (talk->socket < 0 ||
      connect(talk->socket, (const struct sockaddr *)&address, sizeof address))
    return failed(talk, "does not answer (%s). Start it: xtarget serve --listen %.200s",
                  errno == EAGAIN ? "too many wait for it" : strerror(errno), talk->server);
  return check_owner(talk);
}

static int send_all(struct talk *talk, const char *bytes, size_t size) {
  while (size) {
    int status = wait_for(talk, POLLOUT);
    if (status) return status;
    ssize_t sent = send(talk->socket, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0) return XTARGET_OK; /* a server that refuses says why before it has read all */
    bytes += sent, size -= (size_t)sent;
  }
  return XTARGET_OK;
}

/* Status and headers. */
static int read_head(struct talk *talk) {
  char line[2048];
  int code = 0, spoken = 0, status = read_line(talk, line, sizeof line), length = 0;
  static const char name[] = "Xtarget-Protocol:";
  if (!status && sscanf(line, "HTTP/1.%*1d %3d", &code) != 1)
    return failed(talk, "is none: what answers there is something else.");
  for (int count = 0; !status; count++) {
    status = read_line(talk, line, sizeof line);
    if (status || !*line) break;
    if (!strncmp(line, name, sizeof name - 1)) spoken = atoi(line + sizeof name - 1);
    if (count == MOST_HEADERS) return failed(talk, "is none: what answers there is something else.");
  }
  if (status) return status;
  if (!spoken) return failed(talk, "is none: what answers there is something else.");
  if (spoken != PROTOCOL)
    return failed(talk, "speaks version %d of the protocol, and this libxtarget (%s) version %d. "
                  "Install the same xtarget on both.", spoken, xtarget_version(), PROTOCOL);
  if (code == 404)
    return failed(talk, "is older than this libxtarget (%s), and makes no bundles. Install the same "
                  "xtarget on both.", xtarget_version());
  if (code == 200) return XTARGET_OK;
  char *end = line; /* the sentence goes to the end, which may be the connection's */
  size_t count = 1;
  memcpy(line, talk->buffer + talk->at, length = (int)fmin((double)(talk->end - talk->at), 1000));
  for (end += length; count && end < line + 1000; end += count)
    if (receive(talk, end, (size_t)(line + 1000 - end), &count)) break;
  *end = 0;
  return failed(talk, "refuses (%d): %s", code, line);
}

static int read_bundle(struct talk *talk, const char *announced, struct xt_answer *answer) {
  unsigned long long size = 0;
  int used = 0;
  if (sscanf(announced, "%10llu %64[0-9a-f]%n", &size, answer->sha256, &used) != 2 ||
      announced[used] || strlen(answer->sha256) != 64)
    return failed(talk, "sends what is no answer. Start it again.");
  if (size > MOST_BUNDLE)
    return failed(talk, "wants to send %llu bytes, more than a call's bundle has.", size);
  uint8_t *bytes = malloc((size_t)size + 1);
  if (!bytes) return xt_no_memory();
  size_t there = talk->end - talk->at, count = 1;
  if (there > size) there = (size_t)size;
  memcpy(bytes, talk->buffer + talk->at, there);
  int status = XTARGET_OK;
  while (!status && count && there < size) {
    status = receive(talk, bytes + there, (size_t)size - there, &count);
    if (!status) there += count;
  }
  if (!status && there < size)
    status = failed(talk, "ended in the middle of an answer. Start it again.");
  if (status) {
    free(bytes);
  } else {
    answer->bytes = bytes;
    answer->size = (size_t)size;
  }
  return status;
}

static int read_answer(struct talk *talk, struct xt_answer *answer) {
  char line[1400];
  for (;;) {
    int status = read_line(talk, line, sizeof line);
    if (status) return status;
    if (!strncmp(line, "bundle ", 7)) return read_bundle(talk, line + 7, answer);
    if (!strncmp(line, "error ", 6))
      return xt_fail(XTARGET_NOT_IN_BUNDLE, "the bundle lacks the call, and the compile server %.200s "
                     "does not make it: %s", talk->server, line + 6);
    if (strcmp(line, "working")) return failed(talk, "sends what is no answer. Start it again.");
  }
}

int xt_server_check(const char *server, double seconds) {
  struct sockaddr_un address;
  size_t skip = sizeof SCHEME - 1;
  if (strncmp(server, SCHEME, skip) || server[skip] != '/' ||
      strlen(server + skip) >= sizeof address.sun_path)
    return xt_fail(XTARGET_BAD_ARGUMENT, "%.200s names no compile server that libxtarget asks. Write "
                   "unix:/PATH, as `xtarget serve --listen unix:/PATH` does; a path has up to %zu "
                   "characters.", server, sizeof address.sun_path - 1);
  if (!(seconds > 0 && seconds <= 86400))
    return xt_fail(XTARGET_BAD_ARGUMENT, "a compile server gets more than 0 and up to 86400 seconds "
                   "for an answer, not %g.", seconds);
  return XTARGET_OK;
}

int xt_server_ask(const char *server, double seconds, const char *request, size_t size,
                  struct xt_answer *answer) {
  struct talk talk = {.server = server, .socket = -1, .seconds = seconds};
  char head[200];
  talk.deadline = now() + seconds;
  *answer = (struct xt_answer){0};
  int length = snprintf(head, sizeof head,
                        "POST /v1/bundle HTTP/1.1\r\nHost: localhost\r\nXtarget-Protocol: %d\r\n"
                        "Content-Length: %zu\r\n\r\n", PROTOCOL, size);
  int status = connect_to(&talk);
  if (!status) status = send_all(&talk, head, (size_t)length);
  if (!status) status = send_all(&talk, request, size);
  if (!status) status = read_head(&talk);
  if (!status) status = read_answer(&talk, answer);
  if (talk.socket >= 0) close(talk.socket);
  return status;
}
