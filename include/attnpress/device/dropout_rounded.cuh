// Dropout of probabilities that are rounded already, two in a word: compute capability 9.0
// compares two decisions at once. Which they are, dropout.cuh says.
#pragma once

#include "attnpress/device/dropout.cuh"
#include "attnpress/device/ptx_halfwords.cuh"

// All bits of a half are set where its decision is below the threshold, both halves of `both`.
// `seldom`: that is at most 0x7C00, so that what drops is less, as fp16, than the negative number of
// as many steps above -inf.
__device__ __forceinline__ uint32_t dropped_halves(uint32_t word, uint32_t both, bool seldom) {
  if (seldom)
    return less_f16x2(word, 0xFC00FC00u - both);
  const uint32_t decision = add_u16x2(~word, 0xFC01FC01u);
  const uint32_t minus = add_u16x2(~both, 0x00010001), below = add_u16x2(both, 0xffffffff);
  return add_u16x2(min_u16x2(max_u16x2(decision, below), both), minus); // -1 or 0
}

__device__ __forceinline__ void drop_fragments(uint32_t *p, int tiles, DropoutPlace place,
                                               uint32_t both, bool seldom) {
#pragma unroll
  for (int tile = 0; tile < tiles; tile += 2) {
    uint32_t word[4];
    draw_bits(word, &place);
    place.word[0] += DROPOUT_KEY_STEP;
#pragma unroll
    for (int i = 0; i < 4; ++i) // two keys of a tile and of one half
      p[tile * 2 + i] &= ~dropped_halves(word[i], both, seldom);
  }
}

// Drops probabilities of both rows of a thread, A fragments (softmax.cuh) of (tiles) tiles from
// `place` on.
__device__ __forceinline__ void drop_rounded(uint32_t *p, int tiles, DropoutPlace place,
                                             uint32_t threshold) {
  const uint32_t both = threshold << 16 | threshold;
  if (threshold <= 0x7C00)
    drop_fragments(p, tiles, place, both, true);
  else
    drop_fragments(p, tiles, place, both, false);
}
