/* XXH3-128 over a list of parts, each preceded by its length, so that no two lists give the same
 * bytes. */
#pragma once
#include <stddef.h>

typedef struct ap_part {
  const void *data;
  size_t size;
} ap_part;

/** Parts that come one by one. */
typedef struct ap_hasher {
  _Alignas(64) unsigned char state[640];
} ap_hasher;
void ap_hash_begin(ap_hasher *hasher);
void ap_hash_part(ap_hasher *hasher, const void *data, size_t size);
void ap_hash_end(const ap_hasher *hasher, unsigned char digest[16]);

void ap_hash(const ap_part *parts, size_t count, unsigned char digest[16]);
