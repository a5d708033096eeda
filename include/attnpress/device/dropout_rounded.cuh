// Dropout of probabilities that are rounded already, two in a word: compute capability 9.0
// compares two decisions at once. Which they are, dropout.cuh says.
#pragma once

#include "attnpress/device/dropout.cuh"
#include "attnpress/device/ptx_halfwords.cuh"

// All bits of a half are set where its decision is below the threshold, both halves of `both`.
// `seldom`: that is at most 2^15. Differences are taken where 16 bits with a sign hold them.
__device__ __forceinline__ uint32_t dropped_halves(uint32_t word, uint32_t both, bool seldom) {
  const uint32_t minus = add_u16x2(~both, 0x00010001);
  if (seldom) // 0, or -threshold to -1
    return max_s16x2(add_u16x2(min_u16x2(word, both), minus), 0xffffffff);
  // -1, or 0 to 2^16 - 1 - threshold
  const uint32_t below = add_u16x2(both, 0xffffffff);
  return min_s16x2(add_u16x2(max_u16x2(word, below), minus), 0);
}

__device__ __forceinline__ void drop_fragments(uint32_t *p, int tiles, Philox at, uint32_t both,
                                               bool seldom) {
#pragma unroll
  for (int tile = 0; tile < tiles; tile += 2) {
    uint32_t word[4];
    philox(word, &at);
    at.counter[0] += 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) // two keys of a tile and of one half
      p[tile * 2 + i] &= ~dropped_halves(word[i], both, seldom);
  }
}

// Drops probabilities of both rows of a thread, A fragments (softmax.cuh) of (tiles) tiles from
// `key` on, a multiple of 16.
__device__ __forceinline__ void drop_rounded(uint32_t *p, int tiles, Philox at, int key,
                                             uint32_t threshold) {
  at.counter[0] += (uint32_t)key / 16 * 32;
  const uint32_t both = threshold << 16 | threshold;
  if (threshold <= 0x8000)
    drop_fragments(p, tiles, at, both, true);
  else
    drop_fragments(p, tiles, at, both, false);
}
