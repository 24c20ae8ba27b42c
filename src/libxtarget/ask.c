/* Calls that a bundle lacks: described for a compile server, and what is believed of its answer. */
#define _GNU_SOURCE
#define OPENSSL_SUPPRESS_DEPRECATED
#include "kernel.h"
#include "server.h"

#include <openssl/sha.h>
#include <stdio.h>

/* ------------------------------------------------------------------------------- the request */

static void put_text(FILE *to, const char *text) {
  putc('"', to);
  for (; *text; text++) {
    unsigned char one = (unsigned char)*text;
    if (one < ' ' || one == '"' || one == '\\')
      fprintf(to, "\\u%04x", one);
    else
      putc(one, to);
  }
  putc('"', to);
}

static void put_numbers(FILE *to, const char *name, const int64_t *numbers, int count) {
  fprintf(to, ",\"%s\":[", name);
  for (int i = 0; i < count; i++) fprintf(to, "%s%lld", i ? "," : "", (long long)numbers[i]);
  putc(']', to);
}

static void put_array(FILE *to, const struct xt_array *array) {
  fprintf(to, "{\"dtype\":\"%s\"", xt_dtype_names[array->dtype]);
  put_numbers(to, "shape", array->shape, array->dimensions);
  put_numbers(to, "strides", array->strides, array->dimensions);
  putc('}', to);
}

static int describe(const xtarget_kernel *kernel, const struct xt_given *given, char **text,
                    size_t *size) {
  FILE *to = open_memstream(text, size);
  if (!to) return xt_no_memory();
  fprintf(to, "{\"format\":[%d,%d],\"kernel\":", XT_FORMAT, XT_INDEX_VERSION);
  put_text(to, kernel->name);
  fputs(",\"dtype\":", to);
  put_text(to, kernel->dtype);
  fputs(",\"target\":", to);
  put_text(to, kernel->device->target);
  fprintf(to, ",\"units\":%lld,\"options\":{", (long long)kernel->device->units);
  for (size_t i = 0; i < kernel->option_count; i++) {
    if (i) putc(',', to);
    put_text(to, kernel->options[i].name);
    putc(':', to);
    put_text(to, kernel->options[i].value);
  }
  fputs("},\"arguments\":[", to);
  for (size_t i = 0; i < given->count; i++) {
    if (i) putc(',', to);
    if (given->arguments[i]->kind == XTARGET_TENSOR)
      put_array(to, &given->arrays[i]);
    else
      fputs(given->arguments[i]->kind == XTARGET_ABSENT ? "null" : "\"number\"", to);
  }
  fputs("],\"outputs\":[", to);
  for (size_t i = 0; i < given->output_count; i++) {
    if (i) putc(',', to);
    put_array(to, &given->outputs[i]);
  }
  fputs("]}", to);
  int broken = ferror(to);
  return fclose(to) || broken ? xt_no_memory() : XTARGET_OK;
}

/* -------------------------------------------------------------------------------- the answer */

static void sha256_of(const void *bytes, size_t size, char hex[65]) {
  uint8_t digest[SHA256_DIGEST_LENGTH];
  SHA256_CTX state;
  SHA256_Init(&state);
  SHA256_Update(&state, bytes, size);
  SHA256_Final(digest, &state);
  for (size_t i = 0; i < sizeof digest; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

static int lies(const xtarget_kernel *kernel, const char *how) {
  return xt_fail(XTARGET_NO_SERVER, "what the compile server %.200s sent is refused: %s. Start it again, "
                 "or build the bundle with this call.", kernel->server, how);
}

/* The bundle of an answer, its digests and signature checked, if it was made for this request. */
static int believe(const xtarget_kernel *kernel, struct xt_answer *answer, const char *request,
                   xtarget_bundle **bundle) {
  char name[300], hex[65];
  sha256_of(answer->bytes, answer->size, hex);
  if (strcmp(hex, answer->sha256)) {
    free(answer->bytes);
    return lies(kernel, "it has another sha256 than was said");
  }
  snprintf(name, sizeof name, "of the compile server %.200s", kernel->server);
  int status = xt_bundle_take(answer->bytes, answer->size, name, kernel->trust, bundle);
  if (!status && !xt_bundle_says(*bundle, request))
    status = lies(kernel, "it was made for another request");
  return status;
}

int xt_kernel_ask(xtarget_kernel *kernel, const struct xt_given *given, const struct xt_offer *seen,
                  int *asked) {
  xtarget_bundle *bundle = NULL;
  struct xt_answer answer;
  char *request = NULL, hex[65];
  size_t size = 0;
  unsigned found = 0;
  int status = XTARGET_OK;
  double begun = xt_clock();
  *asked = 0;
  pthread_mutex_lock(&kernel->asking);
  if (atomic_load(&kernel->first) == seen) { /* else another thread has asked meanwhile */
    *asked = 1;
    status = describe(kernel, given, &request, &size);
    if (!status) sha256_of(request, size, hex);
    if (!status) status = xt_server_ask(kernel->server, kernel->seconds, request, size, &answer);
    if (!status) status = believe(kernel, &answer, hex, &bundle);
    if (!status) status = xt_kernel_offer(kernel, bundle, 1, &found);
    if (!status && !found) status = lies(kernel, "it has another kernel than was asked for");
    if (!status)
      xt_log(XT_LOG_INFO, "compile %s, target %s, by %s: %.1f ms", kernel->name,
             kernel->device->target, kernel->server, xt_clock() - begun);
    xtarget_bundle_close(bundle); /* its offers keep it */
    free(request);
  }
  pthread_mutex_unlock(&kernel->asking);
  return status;
}

int xtarget_bundle_compile_by(xtarget_bundle *bundle, const char *server, double seconds) {
  if (!bundle)
    return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_bundle_compile_by needs a bundle."));
  if (!server) server = getenv("XTARGET_COMPILE_SERVER");
  if (!server)
    return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "no compile server is named. Give its address, or "
                           "set XTARGET_COMPILE_SERVER."));
  char *copy = NULL;
  int status = *server ? xt_server_check(server, seconds) : XTARGET_OK;
  if (!status && *server && !(copy = strdup(server))) status = xt_no_memory();
  if (status) return xt_told(status);
  pthread_mutex_lock(&bundle->lock);
  free(bundle->server);
  bundle->server = copy;
  bundle->seconds = seconds;
  pthread_mutex_unlock(&bundle->lock);
  return XTARGET_OK;
}
