/* XXH3-128 over a list of parts, each preceded by its length, so that no two lists give the same
 * bytes. */
#pragma once
#include <stddef.h>

typedef struct ap_part {
  const void *data;
  size_t size;
} ap_part;

void ap_hash(const ap_part *parts, size_t count, unsigned char digest[16]);
