/* The one file that includes xxHash, header only. */
#include "core/hash.h"

#include <stdint.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(XXH3_state_t) <= sizeof(ap_hasher), "a hasher holds xxHash's state");

static XXH3_state_t *state_of(ap_hasher *hasher) {
  return (XXH3_state_t *)(void *)hasher;
}

void ap_hash_begin(ap_hasher *hasher) {
  XXH3_INITSTATE(state_of(hasher));
  XXH3_128bits_reset(state_of(hasher));
}

void ap_hash_part(ap_hasher *hasher, const void *data, size_t size) {
  const uint64_t length = size;
  XXH3_128bits_update(state_of(hasher), &length, sizeof length);
  if (size > 0)
    XXH3_128bits_update(state_of(hasher), data, size);
}

void ap_hash_end(const ap_hasher *hasher, unsigned char digest[16]) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical,
                           XXH3_128bits_digest((const XXH3_state_t *)(const void *)hasher));
  memcpy(digest, canonical.digest, 16);
}

void ap_hash(const ap_part *parts, size_t count, unsigned char digest[16]) {
  ap_hasher hasher;
  ap_hash_begin(&hasher);
  for (size_t i = 0; i < count; ++i)
    ap_hash_part(&hasher, parts[i].data, parts[i].size);
  ap_hash_end(&hasher, digest);
}
