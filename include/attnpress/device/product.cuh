// Products of a warp with mma.sync: tiles of 16-bit elements in shared memory (tile.cuh, padded), sums
// in fp32 accumulators. d is (m_tiles, n_tiles, 4): tiles of 16 rows and 8 columns in the layout of
// ptx_mma.cuh. All counts are constants; fragments of B are fetched one pair of tiles ahead.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/ptx_ldmatrix.cuh"
#include "attnpress/device/ptx_mma.cuh"
#include "attnpress/device/tile.cuh"

__device__ __forceinline__ void mma_k16(Dtype dtype, float *d, const uint32_t *a,
                                        const uint32_t *b) {
  if (dtype == FP16)
    mma_m16n8k16_fp16(d, a, b);
  else
    mma_m16n8k16_bf16(d, a, b);
}

__device__ __forceinline__ void mma_k8(Dtype dtype, float *d, const uint32_t *a,
                                       const uint32_t *b) {
  if (dtype == FP16)
    mma_m16n8k8_fp16(d, a, b);
  else
    mma_m16n8k8_bf16(d, a, b);
}

// d += A B^T: `a` and `b` are tiles whose rows hold `depth` (a multiple of 8) elements. n_tiles is
// even.
__device__ __forceinline__ void multiply_rows(float *d, int m_tiles, int n_tiles, Dtype dtype,
                                              uint32_t a, int a_row_bytes, uint32_t b,
                                              int b_row_bytes, int depth, int lane) {
  const int pairs = n_tiles / 2, steps = depth / 16;
  const uint32_t a_lane = a + ldmatrix_rows_first(lane, a_row_bytes);
  const uint32_t b_lane = b + ldmatrix_columns_first(lane, b_row_bytes);
  uint32_t a_frag[2][4][4], b_frag[2][4];
#pragma unroll
  for (int pair = -1; pair < steps * pairs; ++pair) {
    const int next = pair + 1, next_step = next / pairs;
    if (next < steps * pairs) {
      if (next % pairs == 0) {
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
          ldmatrix_x4(a_frag[next_step % 2][m], a_lane + m * 16 * a_row_bytes + next_step * 32);
      }
      ldmatrix_x4(b_frag[next % 2], b_lane + next % pairs * 16 * b_row_bytes + next_step * 32);
    }
    if (pair < 0)
      continue;
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
      float *tile = d + (m * n_tiles + pair % pairs * 2) * 4;
      mma_k16(dtype, tile, a_frag[pair / pairs % 2][m], b_frag[pair % 2]);
      mma_k16(dtype, tile + 4, a_frag[pair / pairs % 2][m], b_frag[pair % 2] + 2);
    }
  }
  if (depth % 16 != 0) { // the last 8 columns
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
      ldmatrix_x2(a_frag[0][m], a_lane + m * 16 * a_row_bytes + steps * 32);
#pragma unroll
    for (int pair = 0; pair < pairs; ++pair) {
      ldmatrix_x2(b_frag[0], b + ldmatrix_rows_first(lane, b_row_bytes) + pair * 16 * b_row_bytes +
                                 steps * 32);
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
        float *tile = d + (m * n_tiles + pair * 2) * 4;
        mma_k8(dtype, tile, a_frag[0][m], b_frag[0]);
        mma_k8(dtype, tile + 4, a_frag[0][m], b_frag[0] + 1);
      }
    }
  }
}

// Where the fragments of A come from.
enum Left {
  LEFT_FRAGMENTS, // registers: (m_tiles, depth / 16, 4)
  LEFT_ROWS,      // a tile whose rows hold the depth
  LEFT_COLUMNS    // a tile whose columns hold it, read transposed
};

// d += A B: the rows of tile `b` are the depth, a multiple of 16, and its columns those of d.
// `fragments` or the tile `a` are A.
__device__ __forceinline__ void multiply_columns(float *d, int m_tiles, int n_tiles, Dtype dtype,
                                                 Left left, const uint32_t *fragments, uint32_t a,
                                                 int a_row_bytes, uint32_t b, int b_row_bytes,
                                                 int depth, int lane) {
  const int pairs = (n_tiles + 1) / 2, steps = depth / 16;
  const uint32_t a_lane = a + (left == LEFT_COLUMNS ? ldmatrix_columns_first(lane, a_row_bytes)
                                                    : ldmatrix_rows_first(lane, a_row_bytes));
  const uint32_t b_lane = b + ldmatrix_rows_first(lane, b_row_bytes);
  uint32_t a_frag[2][4][4], b_frag[2][4];
#pragma unroll
  for (int pair = -1; pair < steps * pairs; ++pair) {
    const int next = pair + 1, next_step = next / pairs;
    if (next < steps * pairs) {
      if (left != LEFT_FRAGMENTS && next % pairs == 0) {
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) {
          if (left == LEFT_ROWS)
            ldmatrix_x4(a_frag[next_step % 2][m], a_lane + m * 16 * a_row_bytes + next_step * 32);
          else
            ldmatrix_x4_trans(a_frag[next_step % 2][m],
                              a_lane + next_step * 16 * a_row_bytes + m * 32);
        }
      }
      const uint32_t from = b_lane + next_step * 16 * b_row_bytes + next % pairs * 32;
      if (next % pairs * 2 + 1 < n_tiles)
        ldmatrix_x4_trans(b_frag[next % 2], from);
      else
        ldmatrix_x2_trans(b_frag[next % 2], from);
    }
    if (pair < 0)
      continue;
    const int step = pair / pairs, n = pair % pairs * 2;
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
      const uint32_t *a_tile =
          left == LEFT_FRAGMENTS ? fragments + (m * steps + step) * 4 : a_frag[step % 2][m];
      mma_k16(dtype, d + (m * n_tiles + n) * 4, a_tile, b_frag[pair % 2]);
      if (n + 1 < n_tiles)
        mma_k16(dtype, d + (m * n_tiles + n + 1) * 4, a_tile, b_frag[pair % 2] + 2);
    }
  }
}

// How `tiles` column tiles are shared by `warps` warps: each has column_share() of them from
// first_column_tile() on. Where they do not divide, warps overlap, and a warp's first
// tiles_of_others() tiles are also the warp's before it.
__device__ constexpr int column_share(int tiles, int warps) {
  return ceil_div(tiles, warps);
}

__device__ __forceinline__ int first_column_tile(int tiles, int warps, int warp) {
  const int share = column_share(tiles, warps);
  return tiles % warps == 0 ? warp * share : min(warp * share, tiles - share);
}

__device__ __forceinline__ int tiles_of_others(int tiles, int warps, int warp) {
  return tiles % warps == 0
             ? 0
             : warp * column_share(tiles, warps) - first_column_tile(tiles, warps, warp);
}
