// Softmax over a row that several threads share: each knows the sum of e^(t - max) over some of the
// row's scaled values t, and their maximum. Values that are not there are -inf.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/ptx_math.cuh"

constexpr float LOG2_E = 1.44269504088896341f;
constexpr float INF = __builtin_bit_cast(float, 0x7f800000);

struct RowSum {
  float max, sum; // of nothing, or of nothing but -inf: -inf, 0
};

// e^(t - reference). The difference is taken first, so that no t overflows.
__device__ __forceinline__ float exp_difference(float t, float reference) {
  return exp2_approx((t - reference) * LOG2_E);
}

// What a sum is relative to: its maximum, or 0 where that is -inf.
__device__ __forceinline__ float reference_of(float max) {
  return max == -INF ? 0.0f : max;
}

// Over `lanes` (a power of two up to 32) neighbouring lanes, which all get the same bits.
__device__ __forceinline__ float max_lanes(float value, int lanes) {
#pragma unroll
  for (int distance = 1; distance < lanes; distance *= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, distance));
  return value;
}

__device__ __forceinline__ float sum_lanes(float value, int lanes) {
#pragma unroll
  for (int distance = 1; distance < lanes; distance *= 2)
    value += __shfl_xor_sync(0xffffffff, value, distance);
  return value;
}

// The sum over the parts that `lanes` neighbouring lanes hold.
__device__ __forceinline__ RowSum add_lanes(RowSum part, int lanes) {
  RowSum all;
  all.max = max_lanes(part.max, lanes);
  all.sum = sum_lanes(part.sum * exp_difference(part.max, reference_of(all.max)), lanes);
  return all;
}

// What turns a power relative to `max`, the maximum of a part, into a share of the whole row. NaN
// where the row has no share to give: all of it is -inf, or something is NaN or inf.
__device__ __forceinline__ float share_factor(float max, RowSum all) {
  return exp_difference(max, reference_of(all.max)) * reciprocal_approx(all.sum);
}
