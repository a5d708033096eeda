// Rotary position embeddings (Su et al. 2021): columns of a row are rotated in pairs, by angles
// that depend on the position and the pair, and whose cos and sin are read from tables.
#pragma once

#include "attnpress/device/row_span.cuh"

// x, y = x cos - y sin, y cos + x sin for `count` pairs.
__device__ __forceinline__ void rotate_pairs(const float *cos, const float *sin, int count,
                                             int apart, float *x, float *y) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const float first = x[i * apart], second = y[i * apart];
    x[i * apart] = first * cos[i] - second * sin[i];
    y[i * apart] = second * cos[i] + first * sin[i];
  }
}
