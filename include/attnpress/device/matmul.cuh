// What the kernels of the in-place matrix product share: how accumulators become rows of x.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/quad.cuh"

// Rounds and stores two tiles of 8 columns beside each other, of which this warp has the accumulators
// (16 rows, in the layout of ptx_mma.cuh). `x`: row 0, column 0 of the first tile, 16-byte aligned.
// Rows from `rows` on and columns from `columns` (a multiple of 8) on are not stored.
__device__ __forceinline__ void store_tiles(uint16_t *x, int64_t x_stride, const float *first,
                                            const float *second, Dtype dtype, int rows,
                                            int columns) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
    const int column = lane % 2 * 8 + lane / 2 % 2 * 4;
    const uint2 pieces = exchange_pieces(pack(dtype, first[half * 2], first[half * 2 + 1]),
                                         pack(dtype, second[half * 2], second[half * 2 + 1]));
    if (row < rows && column < columns)
      *(uint2 *)(x + row * x_stride + column) = pieces;
  }
}

// The same of four tiles beside each other, whose accumulators follow one another: each lane gets a
// whole row of one tile, so that a quad stores 64 bytes in a piece.
__device__ __forceinline__ void store_four_tiles(uint16_t *x, int64_t x_stride, const float *tiles,
                                                 Dtype dtype, int rows, int columns) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8, column = lane % 4 * 8;
    uint32_t word[4];
#pragma unroll
    for (int tile = 0; tile < 4; ++tile)
      word[tile] = pack(dtype, tiles[tile * 4 + half * 2], tiles[tile * 4 + half * 2 + 1]);
    const uint4 line = row_of_quad(word);
    if (row < rows && column < columns)
      *(uint4 *)(x + row * x_stride + column) = line;
  }
}
