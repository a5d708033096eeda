// Softmax over a row that several threads share: each knows the sum of e^(scale x - max) over some
// of the row's values, and their maximum. It is kept as that of x or, where scale is negative, of
// -x. Values that are not there have -inf for scale x.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/lanes.cuh"
#include "attnpress/device/ptx_math.cuh"

constexpr float LOG2_E = 1.44269504088896341f;
constexpr float INF = __builtin_bit_cast(float, 0x7f800000);

struct RowSum {
  float max, sum; // of nothing, or of nothing but -inf: -inf, 0
};

// e^(scale (x - reference)). power: scale log2(e), of 2, for each 1 that x grows. The difference is
// taken first, so that no scale x overflows; beyond 3.4e38 it counts as infinite.
__device__ __forceinline__ float exp_difference(float x, float reference, float power) {
  return exp2_approx((x - reference) * power);
}

// What a sum is relative to: its maximum, or 0 where that is -inf.
__device__ __forceinline__ float reference_of(float max) {
  return max == -INF ? 0.0f : max;
}

// The sum over the parts that `lanes` neighbouring lanes hold.
__device__ __forceinline__ RowSum add_lanes(RowSum part, int lanes, float power) {
  RowSum all;
  all.max = max_lanes(part.max, lanes);
  all.sum = sum_lanes(part.sum * exp_difference(part.max, reference_of(all.max), power), lanes);
  return all;
}

// What turns a power relative to `max`, the maximum of a part, into a share of the whole row. NaN
// where the row has no share to give: all of it is -inf, or something is NaN or inf.
__device__ __forceinline__ float share_factor(float max, RowSum all, float power) {
  return exp_difference(max, reference_of(all.max), power) * reciprocal_approx(all.sum);
}
