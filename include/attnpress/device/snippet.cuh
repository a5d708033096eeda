// What the texts of every family's snippets may use.
#pragma once

#include "attnpress/args/common.h"

constexpr float SNIPPET_INFINITY = __builtin_bit_cast(float, 0x7f800000);

__device__ __forceinline__ int clampi(int x, int low, int high) {
  return min(max(x, low), high);
}

// A number of the caller's, of those that a kernel is given.
__device__ __forceinline__ float snippet_float(const uint32_t *scalars, int i) {
  return __builtin_bit_cast(float, scalars[i]);
}

__device__ __forceinline__ int snippet_int(const uint32_t *scalars, int i) {
  return (int)scalars[i];
}
