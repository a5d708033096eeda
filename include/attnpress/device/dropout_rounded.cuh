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

// Drops probabilities of both rows of a thread, A fragments (softmax.cuh) of (tiles) tiles, by words
// of their keys in memory, four pairs' for each two tiles.
__device__ __forceinline__ void drop_fragments(uint32_t *p, int tiles, const DropoutWords *rows,
                                               const uint4 *keys, int lane, uint32_t both,
                                               bool seldom) {
  uint4 next = keys[lane % 4]; // a step before it is needed
#pragma unroll
  for (int tile = 0; tile < tiles; tile += 2) {
    const DropoutWords these = {{next.x, next.y, next.z, next.w}};
    if (tile + 2 < tiles)
      next = keys[tile * 2 + 4 + lane % 4];
    uint32_t bits[4];
    draw_bits(bits, rows, &these);
#pragma unroll
    for (int i = 0; i < 4; ++i) // two keys of a tile and of one half
      p[tile * 2 + i] &= ~dropped_halves(bits[i], both, seldom);
  }
}

__device__ __forceinline__ void drop_rounded(uint32_t *p, int tiles, const DropoutWords *rows,
                                             const uint4 *keys, int lane, uint32_t threshold) {
  const uint32_t both = threshold << 16 | threshold;
  if (threshold <= 0x7C00)
    drop_fragments(p, tiles, rows, keys, lane, both, true);
  else
    drop_fragments(p, tiles, rows, keys, lane, both, false);
}

// The same by words that the warp makes of `head`, from `key` on. All lanes come here.
__device__ __forceinline__ void drop_with_head(uint32_t *p, int tiles, const DropoutWords *rows,
                                               const DropoutHead *head, int key, int lane,
                                               uint32_t threshold) {
  const uint32_t both = threshold << 16 | threshold;
  const bool seldom = threshold <= 0x7C00;
  DropoutWords keys;
#pragma unroll
  for (int tile = 0; tile < tiles; tile += 2) {
    uint32_t bits[4];
    draw_tiles(bits, head, rows, &keys, key, tile, lane);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      p[tile * 2 + i] &=
          ~(seldom ? dropped_halves(bits[i], both, true) : dropped_halves(bits[i], both, false));
  }
}
