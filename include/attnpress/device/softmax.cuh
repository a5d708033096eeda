// Online softmax over scores in the layout of wgmma's accumulators: a thread holds, of two rows 8
// apart (half 0 and 1), columns 8j + 2t and 8j + 2t + 1 of each tile j of 8 columns, t = lane % 4,
// in elements 4j + 2 half and 4j + 2 half + 1. The four lanes of a quad share a row.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/ptx_math.cuh"
#include "attnpress/device/tile.cuh"

constexpr float INF = __builtin_bit_cast(float, 0x7f800000);

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffff, x, 1);
  return x + __shfl_xor_sync(0xffffffff, x, 2);
}

// Scores of keys that a row does not see become -inf. Row `half` sees the keys below key_end[half];
// `key` is this thread's first key.
__device__ __forceinline__ void mask_scores(float *score, int tiles, const int key_end[2],
                                            int key) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int end = max(key_end[half] - key, 0);
    const int seen = end / 8 * 2 + min(end % 8, 2); // of this thread's keys, in their order
#pragma unroll
    for (int first = 0; first < tiles * 2; first += 32) {
      // One bit a key: the compiler makes predicates of eight bits in one instruction.
      const uint32_t bits = seen - first >= 32 ? 0xffffffff : (1u << max(seen - first, 0)) - 1;
#pragma unroll
      for (int i = first; i < min_int(first + 32, tiles * 2); ++i) {
        if (!(bits & 1u << (i - first)))
          score[i / 2 * 4 + half * 2 + i % 2] = -INF;
      }
    }
  }
}

// Takes a key block's scores in: they become P = 2^(c (S - reference)), c = scale_log2. `reference`
// is the row's maximum, or less than it by at most 8 / c: a maximum that grows by less than a
// factor of 2^8 is not followed, so that most key blocks have nothing to rescale, while P stays
// small and sums keep their precision. `rescale` is the factor for what was summed before; row_sum
// is this thread's share of the row's sum.
__device__ __forceinline__ void online_softmax(float *score, int tiles, float reference[2],
                                               float row_sum[2], float rescale[2],
                                               float scale_log2) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float maximum = reference[half];
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
      maximum = fmaxf(maximum, fmaxf(score[tile * 4 + half * 2], score[tile * 4 + half * 2 + 1]));
    maximum = quad_max(maximum);
    if ((maximum - reference[half]) * scale_log2 <= 8.0f)
      maximum = reference[half];
    // A row that has seen no key has the maximum -inf, and nothing to rescale.
    const float finite = maximum == -INF ? 0.0f : maximum;
    rescale[half] = exp2_approx((reference[half] - finite) * scale_log2);
    reference[half] = maximum;
    const float shift = finite * scale_log2;
    float sum = row_sum[half] * rescale[half];
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
      for (int i = tile * 4 + half * 2; i < tile * 4 + half * 2 + 2; ++i) {
        score[i] = exp2_approx(score[i] * scale_log2 - shift);
        sum += score[i];
      }
    }
    row_sum[half] = sum;
  }
}

// Multiplies the accumulators of O by their rows' factors; a warp whose factors are all 1 has
// nothing to do.
__device__ __forceinline__ void rescale_rows(float *out, int tiles, const float rescale[2]) {
  if (!__any_sync(0xffffffff, rescale[0] != 1.0f || rescale[1] != 1.0f))
    return;
#pragma unroll
  for (int i = 0; i < tiles * 4; ++i)
    out[i] *= rescale[i / 2 % 2];
}
