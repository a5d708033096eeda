// A gradient's way out from registers, where no shared memory is free for it (gradient_store.cuh).
#pragma once

#include "attnpress/device/gradient_store.cuh"

// Four lanes that share a row: each has a pair of four tiles, and gets what all have of its own tile.
// What it is done twice to is as it was.
__device__ __forceinline__ void exchange_pairs(uint32_t pair[4], int lane) {
#pragma unroll
  for (int distance = 1; distance < 4; distance *= 2) {
    const bool upper = lane & distance;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & distance)
        continue;
      const uint32_t theirs =
          __shfl_xor_sync(0xffffffff, upper ? pair[i] : pair[i + distance], distance);
      pair[i] = upper ? theirs : pair[i];
      pair[i + distance] = upper ? pair[i + distance] : theirs;
    }
  }
}

// One warp: rounds (16, 8 `tiles`) accumulators, times `scale`, and stores the first `valid` rows and
// `there` tiles of them at `rows`, added to what is there where asked, without shared memory.
__device__ __forceinline__ void store_rows_of_warp(uint16_t *rows, int64_t row_stride,
                                                   const float *d, int tiles, int there, int valid,
                                                   Dtype dtype, float scale, bool accumulate,
                                                   int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = half * 8 + lane / 4;
    uint16_t *const at = rows + row * row_stride + lane % 4 * 8;
#pragma unroll
    for (int first = 0; first < tiles; first += 4) {
      const bool stores = row < valid && first + lane % 4 < min(tiles, there);
      uint32_t pair[4] = {0, 0, 0, 0};
      if (accumulate) {
        if (stores) {
          const uint4 old = *(const uint4 *)(at + first * 8);
          pair[0] = old.x, pair[1] = old.y, pair[2] = old.z, pair[3] = old.w;
        }
        exchange_pairs(pair, lane);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (first + i >= tiles)
          continue;
        const float *const two = d + (first + i) * 4 + half * 2;
        pair[i] = round_pair(dtype, two[0] * scale, two[1] * scale, pair[i], accumulate);
      }
      exchange_pairs(pair, lane);
      if (stores)
        *(uint4 *)(at + first * 8) = uint4{pair[0], pair[1], pair[2], pair[3]};
    }
  }
}
