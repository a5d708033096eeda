// Values over neighbouring lanes of a warp: `lanes` of them, a power of two up to 32. All get the same
// bits.
#pragma once

#include "attnpress/args/common.h"

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

// The sums of two values: the shuffles of one do not wait for those of the other.
__device__ __forceinline__ float2 sum_lanes_of_two(float2 value, int lanes) {
#pragma unroll
  for (int distance = 1; distance < lanes; distance *= 2) {
    const float x = __shfl_xor_sync(0xffffffff, value.x, distance);
    const float y = __shfl_xor_sync(0xffffffff, value.y, distance);
    value.x += x;
    value.y += y;
  }
  return value;
}
