/* Signatures: Ed25519, by libcrypto. */
#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>

#include "bundle.h"

enum { PUBLIC = 32, SIGNED = 64, MOST_KEYS = 1 << 20 };

static void hex_of(const uint8_t *bytes, size_t count, char *text) {
  for (size_t i = 0; i < count; i++) snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

/* Whether PEM text names a key; -1: a block of it is no Ed25519 key. */
static int pem_names(const char *text, const uint8_t *key, int *count) {
  int named = 0;
  BIO *bio = BIO_new_mem_buf(text, -1);
  if (!bio) return -1;
  for (;;) {
    EVP_PKEY *found = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL);
    if (!found) break;
    uint8_t raw[PUBLIC];
    size_t size = sizeof raw;
    if (EVP_PKEY_id(found) != EVP_PKEY_ED25519 ||
        EVP_PKEY_get_raw_public_key(found, raw, &size) != 1 || size != PUBLIC)
      named = -1;
    else if (named >= 0 && memcmp(raw, key, PUBLIC) == 0)
      named = 1;
    ++*count;
    EVP_PKEY_free(found);
  }
  BIO_free(bio);
  return named;
}

/* The same of lines of hexadecimal digits, where # begins a comment. */
static int lines_name(const char *text, const char *hex, int *count) {
  int named = 0;
  while (*text) {
    size_t length = strcspn(text, "\n"), word = strcspn(text, "#\n");
    const char *start = text;
    while (word && isspace((unsigned char)*start)) start++, word--;
    while (word && isspace((unsigned char)start[word - 1])) word--;
    if (word) {
      ++*count;
      if (word != 2 * PUBLIC || strspn(start, "0123456789abcdefABCDEF") < word) return -1;
      int same = 1;
      for (size_t i = 0; i < word; i++) same &= tolower((unsigned char)start[i]) == hex[i];
      named |= same;
    }
    text += length + (text[length] == '\n');
  }
  return named;
}

static int is_signed(const uint8_t *signature, const uint8_t *message, size_t size) {
  EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, signature, PUBLIC);
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  int right = key && context && EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1 &&
              EVP_DigestVerify(context, signature + PUBLIC, SIGNED, message, size) == 1;
  EVP_MD_CTX_free(context);
  EVP_PKEY_free(key);
  return right;
}

int xt_check_trust(xtarget_bundle *bundle, const char *trust, const uint8_t *header,
                   size_t header_size, const uint8_t *signature) {
  const char *file = trust ? trust : getenv("XTARGET_TRUST");
  if (!file || !*file) return XTARGET_OK;
  char hex[2 * PUBLIC + 1], *text = xt_file_text(file, MOST_KEYS);
  if (!text)
    return xt_fail(XTARGET_NOT_TRUSTED, "the key file %.300s cannot be read: %s. Name a file with "
                   "public keys.", file, strerror(errno));
  if (!signature) {
    free(text);
    return xt_fail(XTARGET_NOT_TRUSTED, "the bundle %s is refused: it is not signed, and %.300s asks "
                   "for a signature. Build it with --sign.", bundle->path, file);
  }
  hex_of(signature, PUBLIC, hex);
  int count = 0;
  int named = strstr(text, "-----BEGIN") ? pem_names(text, signature, &count)
                                         : lines_name(text, hex, &count);
  free(text);
  if (named < 0 || !count)
    return xt_fail(XTARGET_NOT_TRUSTED, "%s holds no public keys, neither Ed25519 in PEM nor 64 "
                   "hexadecimal digits a line. Correct it.", file);
  if (!named)
    return xt_fail(XTARGET_NOT_TRUSTED, "the bundle %s is refused: it is signed by %s, whom %s does "
                   "not name. Add that key if you trust it.", bundle->path, hex, file);
  if (!is_signed(signature, header, header_size))
    return xt_fail(XTARGET_NOT_TRUSTED, "the bundle %s is refused: its signature is not one of its "
                   "content. It was changed after it was signed; get it again from where it was "
                   "built.", bundle->path);
  memcpy(bundle->signer, hex, sizeof hex);
  return XTARGET_OK;
}
