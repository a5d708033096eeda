// Scores in the backward pass, in the layout of accumulators (score.cuh): P recomputed from S and
// lse, and dS from P and dP. Rows are queries and columns keys, or, `by_column`, the other way round:
// what belongs to a query, lse and delta, is then a pair of columns'.
#pragma once

#include "attnpress/args/attention.h"
#include "attnpress/device/ptx_math.cuh"
#include "attnpress/device/ptx_red.cuh"
#include "attnpress/device/score.cuh"
#include "attnpress/device/softmax.cuh"

// The queries that see a key: a row of transposed scores, whose "keys" are queries. Those past the
// end are left to their lse.
__device__ __forceinline__ Row queries_at(int key, bool causal, int seqlen_q, int seqlen_k) {
  const int begin = key >= seqlen_k ? seqlen_q : causal ? max(0, key + seqlen_q - seqlen_k) : 0;
  return {key, begin, seqlen_q};
}

// What a row without keys, and a row past the end, have in place of log2(e) lse: 2^(x - inf) = 0.
__device__ __forceinline__ float lse_or_inf(float lse_log2) {
  return lse_log2 == -INF ? INF : lse_log2;
}

// A tile's scores become P = 2^(c S - lse), c = scale_log2. `pair`: lse of this thread's two rows, or
// columns.
__device__ __forceinline__ void recompute_tile(float *score, bool by_column, float2 pair,
                                               float scale_log2) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float lse = (by_column ? i % 2 : i / 2) ? pair.y : pair.x;
    score[i] = exp2_approx(score[i] * scale_log2 - lse);
  }
}

// The same of several tiles. `lse_log2`: of this thread's two rows; by_column, in memory, from this
// thread's first column on.
__device__ __forceinline__ void recompute_probabilities(float *score, int tiles, bool by_column,
                                                        const float *lse_log2, float scale_log2) {
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile) {
    const float2 pair = by_column ? *(const float2 *)(lse_log2 + tile * 8)
                                  : float2{lse_log2[0], lse_log2[1]};
    recompute_tile(score + tile * 4, by_column, pair, scale_log2);
  }
}

// The same by columns, of lse of each tile's pair of columns in registers.
__device__ __forceinline__ void recompute_from_pairs(float *score, int tiles,
                                                     const float2 *lse_log2, float scale_log2) {
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile)
    recompute_tile(score + tile * 4, true, lse_log2[tile], scale_log2);
}

// dP becomes dS = P (dP - delta), delta as lse_log2 above. It lacks the factor `scale`, which the
// gradients get at the end.
__device__ __forceinline__ void differentiate_scores(float *dp, const float *p, int tiles,
                                                     bool by_column, const float *delta) {
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile) {
    const float2 pair = by_column ? *(const float2 *)(delta + tile * 8) : float2{};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float d = by_column ? (i % 2 ? pair.y : pair.x) : delta[i / 2];
      dp[tile * 4 + i] = p[tile * 4 + i] * (dp[tile * 4 + i] - d);
    }
  }
}

// ---- The sum of dQ in fp32 -----------------------------------------------------------------------

// It consists of tiles of 16 rows and 8 columns, 128 floats each, in an order in which a warp adds an
// accumulator tile to whole lines of memory. Where four neighbours can be added at once, they are a
// thread's.
#if __CUDA_ARCH__ >= 900
constexpr bool SUM_BY_FOURS = true;
#else
constexpr bool SUM_BY_FOURS = false;
#endif

// Where element `i` of a lane's part of an accumulator tile lies in its tile of the sum.
__device__ __forceinline__ int sum_place(int lane, int i) {
  return SUM_BY_FOURS ? lane * 4 + i : i * 32 + lane;
}

__device__ __forceinline__ void add_to_sum(float *tile, const float *d, int lane) {
#if __CUDA_ARCH__ >= 900
  red_add_x4(tile + sum_place(lane, 0), d);
#else
#pragma unroll
  for (int i = 0; i < 4; ++i)
    red_add(tile + sum_place(lane, i), d[i]);
#endif
}

// The tile of row tile `row_tile` (of `sum_tiles`) and column tile 0, of a batch and head; the next
// column tile is 128 floats on.
__device__ __forceinline__ int64_t sum_offset(const attnpress_bwd_args *args, int64_t batch,
                                              int head, int row_tile, int hdim) {
  return (((batch * args->heads_q + head) * args->sum_tiles) + row_tile) * (hdim / 8) * 128;
}

// The same of a part's dK or dV, whose rows are keys.
__device__ __forceinline__ int64_t key_sum_offset(const attnpress_bwd_args *args, int64_t part,
                                                  int batch, int kv_head, int key_tile, int hdim) {
  return (((part * args->batch + batch) * args->heads_kv + kv_head) * args->key_tiles + key_tile) *
         (hdim / 8) * 128;
}

// Stores accumulator tiles to tiles that lie together: in shared memory without bank conflicts, in
// global memory as whole lines.
__device__ __forceinline__ void store_for_sum(float *place, const float *d, int tiles, int lane) {
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile)
    if (SUM_BY_FOURS) {
      *(float4 *)(place + tile * 128 + sum_place(lane, 0)) =
          float4{d[tile * 4], d[tile * 4 + 1], d[tile * 4 + 2], d[tile * 4 + 3]};
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        place[tile * 128 + sum_place(lane, i)] = d[tile * 4 + i];
    }
}
