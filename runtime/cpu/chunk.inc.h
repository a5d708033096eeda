/* Rows of any length and dtype, a chunk at a time in fp32: included behind one of cpu/vector_*.h by
 * what is built for each instruction set. */
#include "cpu/element.h"

enum { CHUNK = 2048 }; /* elements */

/* `count` elements from `at` on, times `scale`, and `filler` up to a whole vector; returns how many
 * there are with those. */
AP_INLINE int load_chunk(float *to, const void *from, int64_t at, int count, int dtype, float scale,
                         float filler) {
  int i = 0;
  for (; i + LANES <= count; i += LANES)
    v_store(to + i, load_vector(from, at + i, dtype) * v_set1(scale));
  for (; i < count; ++i)
    to[i] = ap_load_element(from, at + i, dtype) * scale;
  for (; i % LANES != 0; ++i)
    to[i] = filler;
  return i;
}

AP_INLINE void store_chunk(void *to, int64_t at, const float *from, int count, int dtype) {
  int i = 0;
  for (; i + 8 <= count; i += 8)
    store_8(to, at + i, from + i, dtype);
  for (; i < count; ++i)
    ap_store_element(to, at + i, from[i], dtype);
}

AP_INLINE int chunk_count(int64_t columns, int64_t at) {
  return columns - at < CHUNK ? (int)(columns - at) : CHUNK;
}
