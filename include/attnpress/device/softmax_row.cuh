// Online softmax where a thread has one row, the first of the two of its warp's tile: few queries.
#pragma once

#include "attnpress/device/softmax.cuh"

// take_rows_lazily() of that row, by the same steps, and so to the same bits. Scores of the other row
// stay as they are.
__device__ __forceinline__ void take_row_lazily(float *score, int tiles, float *reference,
                                                float *row_sum, float *rescale, float scale_log2,
                                                Dtype dtype) {
  const int outermost = outermost_of_lane(score, tiles, 0, *reference, false);
  const float growth = __builtin_bit_cast(float, outermost) - *reference;
  *rescale = 1.0f;
  if (__any_sync(0xffffffff, outermost < 0 || !(growth * scale_log2 <= 8.0f))) {
    const int bits = outermost_bits(score, tiles, 0, *reference, false);
    float maximum = __builtin_bit_cast(float, bits);
    if (__any_sync(0xffffffff, bits < 0)) {
      const int least = outermost_bits(score, tiles, 0, *reference, true);
      if (bits < 0)
        maximum = __builtin_bit_cast(float, least);
      if (bits < 0 && maximum * scale_log2 > least_raised(dtype))
        maximum = raised(maximum, scale_log2);
    }
    if ((maximum - *reference) * scale_log2 <= 8.0f)
      maximum = *reference;
    *rescale = move_reference(maximum, finite_base(maximum), reference, scale_log2);
  }
  add_row(score, tiles, 0, finite_base(*reference) * scale_log2, row_sum, *rescale, scale_log2);
}
