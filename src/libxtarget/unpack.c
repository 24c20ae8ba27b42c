/* Parts of a bundle, unpacked: by zlib, or by libzstd, which is opened for the bundles that need it. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <zlib.h>

#include "bundle.h"

/* Of libzstd's stable interface. */
static struct {
  void *(*create)(void);
  size_t (*destroy)(void *context);
  size_t (*refer)(void *context, const void *prefix, size_t size);
  size_t (*unpack)(void *context, void *into, size_t room, const void *packed, size_t size);
  size_t (*frame)(const void *packed, size_t size);
  unsigned (*failed)(size_t code);
} zstd;
static pthread_once_t zstd_once = PTHREAD_ONCE_INIT;
static char zstd_missing[400]; /* why it cannot be used; empty: it can */

static void open_zstd(void) {
  static const struct {
    const char *name;
    void *place;
  } symbols[] = {
      {"ZSTD_createDCtx", &zstd.create},        {"ZSTD_freeDCtx", &zstd.destroy},
      {"ZSTD_DCtx_refPrefix", &zstd.refer},     {"ZSTD_decompressDCtx", &zstd.unpack},
      {"ZSTD_findFrameCompressedSize", &zstd.frame}, {"ZSTD_isError", &zstd.failed}};
  const char *named = getenv("XT_ZSTD_LIBRARY");
  void *opened = dlopen(named && *named ? named : "libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!opened) {
    snprintf(zstd_missing, sizeof zstd_missing, "libzstd cannot be opened: %s", dlerror());
    return;
  }
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    void *found = dlsym(opened, symbols[i].name);
    if (!found) {
      snprintf(zstd_missing, sizeof zstd_missing, "libzstd has no %s", symbols[i].name);
      dlclose(opened);
      return;
    }
    memcpy(symbols[i].place, &found, sizeof found);
  }
}

int xt_zstd_is_there(const xtarget_bundle *bundle) {
  pthread_once(&zstd_once, open_zstd);
  if (!*zstd_missing) return XTARGET_OK;
  return xt_fail(XTARGET_BAD_BUNDLE, "the bundle %s is packed by zstd, and %s. Install libzstd 1.4 or "
                 "later (Debian: libzstd1), name it in XT_ZSTD_LIBRARY, or build the bundle with "
                 "--compression zlib.", bundle->path, zstd_missing);
}

/* 1: right, 0: damaged, -1: no memory. */
static int unpack_zstd(const uint8_t *packed, const struct xt_mark *mark, const uint8_t *words,
                       size_t words_size, uint8_t *into) {
  /* one frame, and nothing after it */
  if (zstd.frame(packed, mark->size) != mark->size) return 0;
  void *context = zstd.create();
  if (!context) return -1;
  size_t made = zstd.refer(context, words, words_size);
  if (!zstd.failed(made)) made = zstd.unpack(context, into, mark->raw, packed, mark->size);
  zstd.destroy(context);
  return made == mark->raw;
}

static int unpack_zlib(const uint8_t *packed, const struct xt_mark *mark, const uint8_t *words,
                       size_t words_size, uint8_t *into) {
  z_stream stream = {0};
  if (inflateInit(&stream) != Z_OK) return -1;
  uint8_t beyond; /* what is longer than it says ends here */
  stream.next_in = (Bytef *)(uintptr_t)packed;
  stream.avail_in = mark->size;
  stream.next_out = into;
  stream.avail_out = mark->raw;
  int status = inflate(&stream, Z_FINISH);
  if (status == Z_NEED_DICT) {
    status = inflateSetDictionary(&stream, words, (uInt)words_size);
    if (status == Z_OK) status = inflate(&stream, Z_FINISH);
  }
  if (status == Z_BUF_ERROR && !stream.avail_out) {
    stream.next_out = &beyond;
    stream.avail_out = 1;
    status = inflate(&stream, Z_FINISH);
  }
  int whole = status == Z_STREAM_END && stream.total_out == mark->raw && !stream.avail_in;
  inflateEnd(&stream);
  return whole;
}

int xt_unpack(const xtarget_bundle *bundle, const struct xt_section *section, const uint8_t *packed,
              const struct xt_mark *mark, uint8_t *into) {
  int right = (bundle->by_zstd ? unpack_zstd : unpack_zlib)(packed, mark, section->preset,
                                                            section->dictionary.raw, into);
  if (right < 0) return xt_no_memory();
  return right ? XTARGET_OK : xt_refuse(bundle, "a part of it cannot be unpacked");
}
