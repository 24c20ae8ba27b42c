/* Damaged bundles, whose digests were made again: what reads them is looked at, not the digests.
 *
 *   fuzz BUNDLE SEED COUNT     a seeded run (gcc, with the sanitizers)
 *
 * With -DLIBFUZZER and clang's -fsanitize=fuzzer, the same readers are libFuzzer's target: what begins
 * as a bundle is one, what begins as HTTP is the answer of a compile server, and all else is a call
 * record. ci/fuzz.sh makes the first inputs. */
#define _GNU_SOURCE
#include <openssl/evp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zlib.h>

#include "record.h"
#include "server.h"

enum { HEADER = 88, DIGEST = 32 };

static void seal(const uint8_t *bytes, size_t size, uint8_t digest[32]) {
  unsigned length;
  EVP_Digest(bytes, size, digest, &length, EVP_sha256(), NULL);
}

/* A bundle in memory with one section, whose call record, table or index are `bytes`. */
static int read_record(const uint8_t *bytes, size_t size, char *kernel, char *dtype) {
  uLongf packed_size = compressBound((uLong)size);
  uint8_t *packed = malloc(packed_size + 1);
  if (!packed || compress2(packed, &packed_size, bytes, (uLong)size, 1) != Z_OK) abort();
  struct xt_section section = {.target = "cpu:spirv64", .size = packed_size};
  struct xt_row row = {kernel, dtype, {0, (uint32_t)packed_size, (uint32_t)size, {0}}};
  seal(packed, packed_size, row.mark.sha256);
  xtarget_bundle bundle = {.path = "fuzz", .file = -1, .memory = packed, .size = packed_size,
                           .end = packed_size};
  struct xt_record *record = NULL;
  int status = xt_record_read(&bundle, &section, &row, &record);
  for (unsigned i = 0; record && i < record->form_count; i++) { /* every program is run */
    int64_t symbols[XT_MOST_REGISTERS] = {64}, results[XT_MOST_RESULTS];
    for (int n = 1; n < record->forms[i].program.symbol_count; n++) symbols[n] = n % 3 ? 1000 : -1;
    xt_evaluate(&record->forms[i].program, symbols, results);
  }
  xt_record_drop(record);
  free(packed);
  return status;
}

/* The bytes of `mark`, which was just read from `bytes`, get their digest there. */
static uint8_t *seal_part(uint8_t *body, uint64_t room, const struct xt_bytes *bytes,
                          const struct xt_mark *mark) {
  if (bytes->failed || mark->offset > room || mark->size > room - mark->offset) return NULL;
  seal(body + mark->offset, mark->size, (uint8_t *)(uintptr_t)bytes->at - DIGEST);
  return body + mark->offset;
}

/* Digests of all that an index and the tables that it names lead to, the innermost first. */
static void seal_sections(uint8_t *bytes, size_t size, size_t index_end, size_t base) {
  struct xt_bytes index = {bytes + HEADER, bytes + index_end, 0};
  xt_u32(&index);
  for (uint32_t left = xt_u32(&index); left && !index.failed; left--) {
    struct xt_mark mark;
    free(xt_text(&index));
    uint64_t offset = xt_number(&index, 8), length = xt_number(&index, 8);
    if (index.failed || offset > size - base || length > size - base - offset) return;
    uint8_t *body = bytes + base + offset;
    xt_read_mark(&index, &mark);
    seal_part(body, length, &index, &mark);
    xt_read_mark(&index, &mark);
    uint8_t *table = seal_part(body, length, &index, &mark);
    if (!table) continue;
    struct xt_bytes rows = {table, table + mark.size, 0};
    for (uint32_t row = xt_u32(&rows); row && !rows.failed; row--) {
      struct xt_mark record;
      free(xt_text(&rows));
      free(xt_text(&rows));
      xt_read_mark(&rows, &record);
      seal_part(body, length, &rows, &record);
    }
    seal_part(body, length, &index, &mark); /* the table's own */
  }
}

/* A whole file, its digests made again. */
static int read_file(uint8_t *bytes, size_t size) {
  xtarget_bundle *bundle = NULL;
  if (size > HEADER) {
    struct xt_bytes at = {bytes + 24, bytes + 40, 0};
    uint64_t start = xt_number(&at, 8), length = xt_number(&at, 8);
    if (start >= HEADER && start < size && length <= size - start) {
      seal_sections(bytes, size, (size_t)start, (size_t)(start + length));
      seal(bytes + HEADER, (size_t)(start + length) - HEADER, bytes + 40);
    }
  }
  int status = xtarget_bundle_open_memory(bytes, size, "", &bundle);
  if (!status) status = xtarget_bundle_verify(bundle);
  xtarget_bundle_close(bundle);
  return status;
}

#ifdef LIBFUZZER
static struct {
  pthread_once_t once;
  int listening;
  char address[120];
  const uint8_t *bytes; /* what the next client gets */
  size_t size;
  sem_t done; /* with it */
} server = {.once = PTHREAD_ONCE_INIT};

static void *answer_all(void *given) {
  for (;;) {
    static char ignored[1 << 16];
    int client = accept(server.listening, NULL, NULL);
    if (client < 0) abort();
    if (recv(client, ignored, sizeof ignored, 0) < 0) abort();
    for (size_t at = 0; at < server.size;) {
      ssize_t sent = send(client, server.bytes + at, server.size - at, MSG_NOSIGNAL);
      if (sent < 0) break; /* the client has seen enough */
      at += (size_t)sent;
    }
    close(client);
    sem_post(&server.done);
  }
  return given;
}

static void start_server(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "/tmp/xtarget-fuzz-%ld", (long)getpid());
  snprintf(server.address, sizeof server.address, "unix:%s", address.sun_path);
  unlink(address.sun_path);
  server.listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  pthread_t thread;
  if (bind(server.listening, (struct sockaddr *)&address, sizeof address) ||
      listen(server.listening, 8) || sem_init(&server.done, 0, 0) || pthread_create(&thread, NULL, answer_all, NULL))
    abort();
}

/* What a server sends, up to the bundle in it. */
static void read_answer(const uint8_t *bytes, size_t size) {
  struct xt_answer answer;
  pthread_once(&server.once, start_server);
  server.bytes = bytes, server.size = size;
  int status = xt_server_ask(server.address, 5, "{}", 2, &answer);
  while (sem_wait(&server.done)) continue; /* it reads `bytes` no more */
  if (status) return;
  xtarget_bundle *bundle = NULL;
  if (!xt_bundle_take(answer.bytes, answer.size, "an answer", "", &bundle))
    xt_bundle_says(bundle, "abs");
  xtarget_bundle_close(bundle);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  if (size > 4 && !memcmp(bytes, "HTTP", 4)) {
    read_answer(bytes, size);
  } else if (size > 4 && !memcmp(bytes, "\x89xtb", 4)) {
    uint8_t *copy = malloc(size);
    if (!copy) return 0;
    memcpy(copy, bytes, size);
    read_file(copy, size);
    free(copy);
  } else {
    read_record(bytes, size, "relu", "float32");
  }
  return 0;
}
#else

static uint64_t state;
static uint64_t draw(uint64_t below) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state % below;
}

/* One to four changes: bits, bytes, numbers that break careless readers, cuts, insertions. */
static size_t mutate(uint8_t *bytes, size_t size, size_t room) {
  static const uint64_t odd[] = {0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff, UINT64_MAX};
  for (uint64_t n = 1 + draw(4); n && size > 8; n--) {
    size_t at = draw(size - 8);
    uint64_t number = odd[draw(sizeof odd / sizeof *odd)];
    switch (draw(6)) {
      case 0: bytes[at] ^= (uint8_t)(1u << draw(8)); break;
      case 1: bytes[at] = (uint8_t)draw(256); break;
      case 2: memcpy(bytes + at, &number, (size_t)1 << draw(4)); break;
      case 3: size = at + 1; break;
      case 4:
        if (size + 8 > room) break;
        memmove(bytes + at + 8, bytes + at, size - at);
        size += 8;
        break;
      default:
        memmove(bytes + at, bytes + at + 4, size - at - 4);
        size -= 4;
    }
  }
  return size;
}

int main(int count, char **words) {
  if (count != 4) return 2;
  FILE *file = fopen(words[1], "rb");
  size_t room = 8 << 20;
  uint8_t *whole = malloc(room), *changed = malloc(room + 64);
  if (!file || !whole || !changed) return 2;
  size_t size = fread(whole, 1, room, file);
  fclose(file);
  state = strtoull(words[2], NULL, 10) * 2654435761u + 88172645463325252u;
  long times = strtol(words[3], NULL, 10), refused = 0, files = 0;
  xtarget_bundle *bundle;
  if (xtarget_bundle_open_memory(whole, size, "", &bundle)) return printf("%s\n", xtarget_message()), 1;
  struct xt_section *section = &bundle->sections[0];
  if (xt_section_read(bundle, section)) return printf("%s\n", xtarget_message()), 1;
  for (long i = 0; i < times; i++) {
    struct xt_row *row = &section->rows[draw(section->row_count)];
    uint8_t *record;
    if (xt_section_bytes(bundle, section, &row->mark, XT_MOST_RECORD, &record)) return 1;
    if (!i && read_record(record, row->mark.raw, row->kernel, row->dtype)) return 1;
    memcpy(changed, record, row->mark.raw);
    free(record);
    size_t left = mutate(changed, row->mark.raw, XT_MOST_RECORD);
    refused += read_record(changed, left, row->kernel, row->dtype) != XTARGET_OK;
    if (i % 16) continue;
    memcpy(changed, whole, size);
    /* the header and the index, or anything */
    left = i % 32 ? mutate(changed, size, room) : (mutate(changed, 300, 300), size);
    files += read_file(changed, left) != XTARGET_OK;
  }
  xtarget_bundle_close(bundle);
  free(whole), free(changed);
  printf("%ld records of %ld refused, %ld files\n", refused, times, files);
  return 0;
}
#endif
