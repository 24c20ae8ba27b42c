/* A compile server (`xtarget serve`) that makes what a bundle lacks. */
#ifndef XTARGET_SERVER_H
#define XTARGET_SERVER_H

#include "common.h"

/* A bundle that a server sent, which nobody has looked at; `free` its bytes. */
struct xt_answer {
  uint8_t *bytes;
  size_t size;
  char sha256[65]; /* as it says */
};

/* Whether a server can have that address, and an answer so much time. */
int xt_server_check(const char *server, double seconds);
/* Send a request, and wait for its answer. */
int xt_server_ask(const char *server, double seconds, const char *request, size_t size,
                  struct xt_answer *answer);

#endif
