/* Opening a bundle, and reading its parts.
 *
 * Parts are read with `pread` and copied, not used in a mapping: what is cut while it is mapped ends
 * the process, and what is written over changes after its digest was compared. Who wants a mapping
 * makes one and calls `xtarget_bundle_open_memory`.
 */
#define _GNU_SOURCE
#define OPENSSL_SUPPRESS_DEPRECATED
#include "bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER = 88, SIGNATURE = 96, MOST_TOLD = 1000 };
static const uint8_t MAGIC[8] = {0x89, 'x', 't', 'b', '\r', '\n', 0x1a, '\n'};

#define REFUSE(bundle, ...) \
  xt_refuse(bundle, (snprintf(why, sizeof why, __VA_ARGS__), why))

int xt_refuse(const xtarget_bundle *bundle, const char *why) {
  return xt_fail(XTARGET_BAD_BUNDLE, "the bundle %s is refused: %s. Copy it again from where it was "
                 "built, or build it again.", bundle->path, why);
}

int xt_digest(const void *bytes, size_t size, uint8_t sha256[32]) {
  /* not EVP_Digest, whose first use reads OpenSSL's configuration: 0.9 ms of an open */
  SHA256_CTX state;
  return SHA256_Init(&state) && SHA256_Update(&state, bytes, size) && SHA256_Final(sha256, &state);
}

static int digest_is(const void *bytes, size_t size, const uint8_t wanted[32]) {
  uint8_t found[SHA256_DIGEST_LENGTH];
  return xt_digest(bytes, size, found) && memcmp(found, wanted, sizeof found) == 0;
}

/* `size` was compared with a limit before. */
static int read_at(const xtarget_bundle *bundle, uint64_t offset, size_t size, uint8_t *into) {
  if (bundle->file < 0) {
    if (size) memcpy(into, bundle->memory + offset, size);
    return XTARGET_OK;
  }
  while (size) {
    ssize_t count = pread(bundle->file, into, size, (off_t)offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      return xt_fail(XTARGET_BAD_BUNDLE, "the bundle %s cannot be read: %s. Try again.",
                     bundle->path, strerror(errno));
    if (count == 0) return xt_refuse(bundle, "it became shorter while it was read");
    into += count, offset += (uint64_t)count, size -= (size_t)count;
  }
  return XTARGET_OK;
}

void xt_read_mark(struct xt_bytes *bytes, struct xt_mark *mark) {
  mark->offset = xt_number(bytes, 8);
  mark->size = xt_u32(bytes);
  mark->raw = xt_u32(bytes);
  const uint8_t *digest = xt_take(bytes, 32);
  if (digest) memcpy(mark->sha256, digest, 32);
}

/* -------------------------------------------------------------------------------- the index */

static int read_index(xtarget_bundle *bundle, const uint8_t *index, size_t size) {
  char why[200];
  struct xt_bytes bytes = {index, index + size, 0};
  uint32_t version = xt_u32(&bytes), count = xt_u32(&bytes);
  if (bytes.failed) return xt_refuse(bundle, "its index is cut");
  if (version != XT_INDEX_VERSION)
    return xt_fail(XTARGET_NEWER_BUNDLE, "the bundle %s has an index of version %u; this libxtarget "
                   "reads version %d. Update libxtarget, or build the bundle with this version.",
                   bundle->path, version, XT_INDEX_VERSION);
  if (count > XT_MOST_TARGETS) return REFUSE(bundle, "its index has %u targets", count);
  bundle->sections = calloc(count + 1, sizeof *bundle->sections);
  if (!bundle->sections) return xt_no_memory();
  bundle->section_count = count;
  uint64_t room = bundle->end - bundle->base;
  for (uint32_t i = 0; i < count; i++) {
    struct xt_section *section = &bundle->sections[i];
    section->target = xt_text(&bytes);
    section->offset = xt_number(&bytes, 8);
    section->size = xt_number(&bytes, 8);
    xt_read_mark(&bytes, &section->dictionary);
    xt_read_mark(&bytes, &section->calls);
    if (bytes.failed) return xt_refuse(bundle, "its index is cut");
    if (section->offset > room || section->size > room - section->offset)
      return REFUSE(bundle, "its part for %.80s lies outside the file", section->target);
    if (section->dictionary.raw > XT_MOST_DICTIONARY || section->calls.raw > XT_MOST_RECORD)
      return REFUSE(bundle, "a table for %.80s is too large", section->target);
  }
  return bytes.at == bytes.end ? XTARGET_OK : xt_refuse(bundle, "bytes follow its index");
}

static uint64_t number_at(const uint8_t *header, size_t at, int size) {
  struct xt_bytes bytes = {header + at, header + HEADER, 0};
  return xt_number(&bytes, size);
}

static int read_head(xtarget_bundle *bundle, const char *trust) {
  char why[200];
  uint8_t header[HEADER], signature[SIGNATURE];
  size_t there = bundle->size < HEADER ? (size_t)bundle->size : HEADER;
  if (!there) return xt_refuse(bundle, "it is empty");
  int status = read_at(bundle, 0, there, header);
  if (status) return status;
  if (there < sizeof MAGIC || memcmp(header, MAGIC, sizeof MAGIC) != 0)
    return xt_refuse(bundle, "it is no bundle, it does not begin with the mark of one");
  if (there < HEADER) return REFUSE(bundle, "it has %zu bytes, less than a header", there);
  uint64_t version = number_at(header, 8, 4), own = number_at(header, 12, 4);
  if (version > XT_FORMAT_ZSTD)
    return xt_fail(XTARGET_NEWER_BUNDLE, "the bundle %s has format version %llu; this libxtarget "
                   "reads versions up to %d. Update libxtarget, or build the bundle with this "
                   "version.", bundle->path, (unsigned long long)version, XT_FORMAT_ZSTD);
  uint64_t size = number_at(header, 16, 8), start = number_at(header, 24, 8);
  uint64_t length = number_at(header, 32, 8);
  uint64_t signature_at = number_at(header, 72, 8), signature_size = number_at(header, 80, 8);
  bundle->by_zstd = version == XT_FORMAT_ZSTD;
  if (version < 1 || own != HEADER || (!bundle->by_zstd && (start == HEADER) != (version == 1)))
    return xt_refuse(bundle, "its header is none");
  if (size != bundle->size)
    return REFUSE(bundle, "it has %llu bytes and was written with %llu",
                  (unsigned long long)bundle->size, (unsigned long long)size);
  if (length > XT_MOST_MANIFEST) return xt_refuse(bundle, "its manifest is too large");
  if (start < HEADER || start - HEADER > XT_MOST_INDEX || start > size || length > size - start)
    return xt_refuse(bundle, "its manifest is said to lie outside the file");
  bundle->base = start + length;
  if (signature_size != 0 && signature_size != SIGNATURE)
    return xt_refuse(bundle, "its signature has another size than signatures have");
  if (signature_size ? signature_at < bundle->base || signature_at != size - SIGNATURE
                     : signature_at != 0)
    return xt_refuse(bundle, "its signature is said to lie where none can be");
  bundle->end = size - signature_size;
  size_t described = (size_t)(bundle->base - HEADER);
  uint8_t *bytes = malloc(described + 1);
  if (!bytes) return xt_no_memory();
  status = read_at(bundle, HEADER, described, bytes);
  if (!status && signature_size) status = read_at(bundle, bundle->end, SIGNATURE, signature);
  if (!status && !digest_is(bytes, described, header + 40))
    status = xt_refuse(bundle, "its index and manifest have another sha256 than when they were "
                    "written");
  if (!status)
    status = xt_check_trust(bundle, trust, header, HEADER, signature_size ? signature : NULL);
  if (!status && start == HEADER)
    status = xt_fail(XTARGET_BAD_BUNDLE, "the bundle %s has nothing for callers without Python: it "
                     "was built by an older xtarget, or none of its kernels can be called from C. "
                     "Build it again.", bundle->path);
  if (!status && bundle->by_zstd) status = xt_zstd_is_there(bundle);
  if (!status) status = read_index(bundle, bytes, (size_t)(start - HEADER));
  free(bytes);
  return status;
}

/* --------------------------------------------------------------------------- opening, closing */

static xtarget_bundle *bundle_new(const char *path, const char *trust) {
  xtarget_bundle *bundle = calloc(1, sizeof *bundle);
  if (!bundle) return NULL;
  size_t length = strlen(path); /* for messages: of a long one the end */
  bundle->path = strdup(length > MOST_TOLD ? path + length - MOST_TOLD : path);
  bundle->trust = trust ? strdup(trust) : NULL;
  if (!bundle->path || (trust && !bundle->trust) || pthread_mutex_init(&bundle->lock, NULL)) {
    free(bundle->path);
    free(bundle->trust);
    free(bundle);
    return NULL;
  }
  atomic_init(&bundle->references, 1);
  bundle->file = -1;
  return bundle;
}

void xtarget_bundle_close(xtarget_bundle *bundle) {
  if (!bundle || atomic_fetch_sub(&bundle->references, 1) != 1) return;
  for (unsigned i = 0; i < bundle->section_count; i++) {
    struct xt_section *section = &bundle->sections[i];
    for (uint32_t row = 0; row < section->row_count; row++) {
      free(section->rows[row].kernel);
      free(section->rows[row].dtype);
    }
    free(section->rows);
    free(section->preset);
    free(section->target);
  }
  free(bundle->sections);
  if (bundle->file >= 0) close(bundle->file);
  pthread_mutex_destroy(&bundle->lock);
  free(bundle->owned);
  free(bundle->server);
  free(bundle->trust);
  xt_lock_close(bundle->lock_file);
  free(bundle->path);
  free(bundle);
}

void xt_bundle_keep(xtarget_bundle *bundle) { atomic_fetch_add(&bundle->references, 1); }

static int opened(xtarget_bundle *bundle, const char *trust, xtarget_bundle **result) {
  int status = read_head(bundle, trust);
  if (!status) status = xt_lock_open(&bundle->lock_file);
  if (status) {
    xtarget_bundle_close(bundle);
    return status;
  }
  xt_log(XT_LOG_INFO, "open the bundle %s, targets: %u, signed by: %s", bundle->path,
         bundle->section_count, *bundle->signer ? bundle->signer : "not asked");
  *result = bundle;
  return XTARGET_OK;
}

static int open_file(const char *path, const char *trust, xtarget_bundle **result) {
  if (!path || !*path || !result)
    return xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_bundle_open needs a path and a place for the "
                   "bundle.");
  *result = NULL;
  xtarget_bundle *bundle = bundle_new(path, trust);
  if (!bundle) return xt_no_memory();
  struct stat status;
  bundle->file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe is not waited for */
  if (bundle->file < 0 || fstat(bundle->file, &status)) {
    int failed = xt_fail(XTARGET_BAD_BUNDLE, "the bundle %s cannot be opened: %s. Give the path of a "
                         "file that `xtarget bundle build` wrote.", bundle->path, strerror(errno));
    xtarget_bundle_close(bundle);
    return failed;
  }
  if (!S_ISREG(status.st_mode)) {
    int failed = xt_refuse(bundle, "it is no regular file");
    xtarget_bundle_close(bundle);
    return failed;
  }
  bundle->size = (uint64_t)status.st_size;
  return opened(bundle, trust, result);
}

int xtarget_bundle_open(const char *path, const char *trust, xtarget_bundle **result) {
  return xt_told(open_file(path, trust, result));
}

static int open_memory(const void *bytes, size_t size, const char *trust, xtarget_bundle **result) {
  if (!bytes || !result)
    return xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_bundle_open_memory needs bytes and a place for "
                   "the bundle.");
  *result = NULL;
  xtarget_bundle *bundle = bundle_new("in memory", trust);
  if (!bundle) return xt_no_memory();
  bundle->memory = bytes;
  bundle->size = size;
  return opened(bundle, trust, result);
}

int xtarget_bundle_open_memory(const void *bytes, size_t size, const char *trust,
                               xtarget_bundle **result) {
  return xt_told(open_memory(bytes, size, trust, result));
}

int xt_bundle_take(uint8_t *bytes, size_t size, const char *name, const char *trust,
                   xtarget_bundle **result) {
  *result = NULL;
  xtarget_bundle *bundle = bundle_new(name, trust);
  if (!bundle) {
    free(bytes);
    return xt_no_memory();
  }
  bundle->memory = bundle->owned = bytes;
  bundle->size = size;
  return opened(bundle, trust, result);
}

int xt_bundle_says(const xtarget_bundle *bundle, const char *text) {
  return memmem(bundle->memory + HEADER, (size_t)bundle->base - HEADER, text, strlen(text)) != NULL;
}

const char *xtarget_bundle_signer(const xtarget_bundle *bundle) {
  return bundle ? bundle->signer : "";
}

size_t xtarget_bundle_target_count(const xtarget_bundle *bundle) {
  return bundle ? bundle->section_count : 0;
}

const char *xtarget_bundle_target(const xtarget_bundle *bundle, size_t index) {
  return bundle && index < bundle->section_count ? bundle->sections[index].target : NULL;
}

/* -------------------------------------------------------------------------------------- parts */

static int part(const xtarget_bundle *bundle, const struct xt_section *section,
                const struct xt_mark *mark, uint32_t most, int packed, uint8_t **result) {
  char why[200];
  *result = NULL;
  if (mark->raw > most || mark->size > mark->raw + mark->raw / 1000 + 64u)
    return REFUSE(bundle, "a part of it for %.80s has %u bytes, more than there may be",
                  section->target, mark->raw);
  if (mark->offset > section->size || mark->size > section->size - mark->offset)
    return REFUSE(bundle, "a part of it lies outside the part for %.80s", section->target);
  if (!packed && mark->size != mark->raw) return xt_refuse(bundle, "a table of it is packed");
  uint8_t *stored = malloc(mark->size + 1u);
  if (!stored) return xt_no_memory();
  int status = read_at(bundle, bundle->base + section->offset + mark->offset, mark->size, stored);
  if (!status && !digest_is(stored, mark->size, mark->sha256))
    status = REFUSE(bundle, "a part of it for %.80s has another sha256 than when it was written",
                    section->target);
  if (status || !packed) {
    if (status) {
      free(stored);
    } else {
      stored[mark->size] = 0;
      *result = stored;
    }
    return status;
  }
  uint8_t *made = malloc(mark->raw + 1u);
  status = made ? xt_unpack(bundle, section, stored, mark, made) : xt_no_memory();
  free(stored);
  if (status) {
    free(made);
    return status;
  }
  made[mark->raw] = 0; /* a driver reads PTX up to it */
  *result = made;
  return XTARGET_OK;
}

int xt_section_bytes(const xtarget_bundle *bundle, const struct xt_section *section,
                     const struct xt_mark *mark, uint32_t most, uint8_t **bytes) {
  return part(bundle, section, mark, most, 1, bytes);
}

static int compare_rows(const struct xt_row *row, const char *kernel, const char *dtype) {
  int order = strcmp(row->kernel, kernel);
  return order ? order : strcmp(row->dtype, dtype);
}

/* Under the lock. */
static int read_rows(const xtarget_bundle *bundle, struct xt_section *section, const uint8_t *table) {
  struct xt_bytes bytes = {table, table + section->calls.raw, 0};
  uint32_t count = xt_u32(&bytes);
  if (bytes.failed || count > section->calls.raw / 52) return xt_refuse(bundle, "a table of it is cut");
  struct xt_row *rows = calloc((size_t)count + 1, sizeof *rows);
  if (!rows) return xt_no_memory();
  section->rows = rows;
  for (; section->row_count < count; section->row_count++) {
    struct xt_row *row = &rows[section->row_count];
    row->kernel = xt_text(&bytes);
    row->dtype = xt_text(&bytes);
    xt_read_mark(&bytes, &row->mark);
    int sorted = !bytes.failed && (!section->row_count ||
                                   compare_rows(row - 1, row->kernel, row->dtype) < 0);
    if (!sorted) {
      free(row->kernel);
      free(row->dtype);
      return xt_refuse(bundle, "a table of it is cut or not in order");
    }
  }
  return bytes.at == bytes.end ? XTARGET_OK : xt_refuse(bundle, "bytes follow a table of it");
}

int xt_section_read(xtarget_bundle *bundle, struct xt_section *section) {
  uint8_t *table = NULL;
  int status = XTARGET_OK;
  pthread_mutex_lock(&bundle->lock);
  if (!section->is_read) {
    if (!section->preset)
      status = part(bundle, section, &section->dictionary, XT_MOST_DICTIONARY, 0, &section->preset);
    if (!status) status = part(bundle, section, &section->calls, XT_MOST_RECORD, 0, &table);
    if (!status) status = read_rows(bundle, section, table);
    section->is_read = !status;
    if (status) {
      for (uint32_t i = 0; i < section->row_count; i++) {
        free(section->rows[i].kernel);
        free(section->rows[i].dtype);
      }
      free(section->rows);
      section->rows = NULL;
      section->row_count = 0;
    }
  }
  pthread_mutex_unlock(&bundle->lock);
  free(table);
  return status;
}

const struct xt_row *xt_section_find(const struct xt_section *section, const char *kernel,
                                     const char *dtype) {
  uint32_t low = 0, high = section->row_count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (compare_rows(&section->rows[middle], kernel, dtype) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == section->row_count || compare_rows(&section->rows[low], kernel, dtype)) return NULL;
  return &section->rows[low];
}

int xtarget_bundle_kernels(xtarget_bundle *bundle, const char *target,
                           int (*each)(void *data, const char *kernel, const char *dtype),
                           void *data) {
  if (!bundle || !target || !each)
    return xt_told(xt_fail(XTARGET_BAD_ARGUMENT, "xtarget_bundle_kernels needs a bundle, a target "
                           "and a function."));
  for (unsigned i = 0; i < bundle->section_count; i++) {
    struct xt_section *section = &bundle->sections[i];
    if (strcmp(section->target, target) != 0) continue;
    int status = xt_told(xt_section_read(bundle, section));
    for (uint32_t row = 0; !status && row < section->row_count; row++)
      status = each(data, section->rows[row].kernel, section->rows[row].dtype);
    return status;
  }
  return xt_told(xt_fail(XTARGET_NOT_IN_BUNDLE, "the bundle %s has nothing for %.80s. Build it for "
                         "that target too.", bundle->path, target));
}
