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
