/* The one file that includes xxHash, header only. */
#include "core/hash.h"

#include <stdint.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void ap_hash(const ap_part *parts, size_t count, unsigned char digest[16]) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_128bits_reset(&state);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t size = parts[i].size;
    XXH3_128bits_update(&state, &size, sizeof size);
    if (size > 0)
      XXH3_128bits_update(&state, parts[i].data, parts[i].size);
  }
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
  memcpy(digest, canonical.digest, 16);
}
