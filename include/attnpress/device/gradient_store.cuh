// A gradient's way out: rounded into a tile of shared memory, from where it is stored in chunks of 16
// bytes. One that is added to what is there finds that in the tile.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/ptx_widen.cuh"
#include "attnpress/device/tile.cuh"

// The value of one of a pair of 16-bit elements, in the lower half of `bits`.
__device__ __forceinline__ float widen(Dtype dtype, uint32_t bits) {
  return dtype == FP16 ? widen_fp16((uint16_t)bits) : __builtin_bit_cast(float, bits << 16);
}

// Rounds a pair of values, added to the pair that is `there` where asked.
__device__ __forceinline__ uint32_t round_pair(Dtype dtype, float low, float high, uint32_t there,
                                               bool accumulate) {
  if (accumulate) {
    low += widen(dtype, there);
    high += widen(dtype, there >> 16);
  }
  return pack(dtype, low, high);
}

// Rounds (m_tiles, n_tiles) accumulator tiles, times `scale`, into a tile of which `place` is this
// warp's first element. Column tiles before `first` are another warp's.
__device__ __forceinline__ void round_gradient(unsigned char *place, int row_bytes, const float *d,
                                               int m_tiles, int first, int n_tiles, Dtype dtype,
                                               float scale, bool accumulate, int lane) {
  place += lane / 4 * row_bytes + lane % 4 * 4;
#pragma unroll
  for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float *pair = d + (m * n_tiles + n) * 4 + half * 2;
        uint32_t *target = (uint32_t *)(place + (m * 16 + half * 8) * row_bytes + n * 16);
        if (n >= first)
          *target = round_pair(dtype, pair[0] * scale, pair[1] * scale, accumulate ? *target : 0,
                               accumulate);
      }
    }
  }
}

// The first `valid` rows of a tile of `rows` rows, by `threads` threads: what a gradient is added
// to, zeros behind it, and its sum.
__device__ __forceinline__ void load_gradient(unsigned char *tile, const uint16_t *global,
                                              int64_t row_stride, int rows, int columns, int valid,
                                              int thread, int threads) {
  const int row_bytes = tile_row_bytes(columns), pass_rows = threads / (columns / 8);
  const int row = copy_row(columns, thread), column = copy_column(columns, thread);
  for (int r = row; row < pass_rows && r < rows; r += pass_rows)
    *(uint4 *)(tile + r * row_bytes + column * 2) =
        r < valid ? *(const uint4 *)(global + r * row_stride + column) : uint4{0, 0, 0, 0};
}

__device__ __forceinline__ void store_gradient(uint16_t *global, int64_t row_stride,
                                               const unsigned char *tile, int rows, int columns,
                                               int valid, int thread, int threads) {
  const int row_bytes = tile_row_bytes(columns), pass_rows = threads / (columns / 8);
  const int row = copy_row(columns, thread), column = copy_column(columns, thread);
  for (int r = row; row < pass_rows && r < min(rows, valid); r += pass_rows)
    *(uint4 *)(global + r * row_stride + column) =
        *(const uint4 *)(tile + r * row_bytes + column * 2);
}
