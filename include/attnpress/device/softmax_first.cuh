// The first scores of rows, for kernels that do nothing to scores but mask them.
#pragma once

#include "attnpress/device/softmax.cuh"

// follow_rows() of rows that have no reference yet: they take 0 where each of a row's threads
// has a score that is not negative, and none that is to be followed from there. Rows do not ask each
// other: what one has does not depend on what others hold, or nobody wrote.
__device__ __forceinline__ void begin_rows(const float *score, int tiles, float reference[2],
                                           float rescale[2], float scale_log2, Dtype dtype) {
  bool follows[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int bits = outermost_of_lane(score, tiles, half, -INF, false);
    follows[half] = bits < 0 || !(__builtin_bit_cast(float, bits) * scale_log2 <= 8.0f);
    rescale[half] = 1.0f;
    reference[half] = 0.0f;
  }
  if (__any_sync(0xffffffff, follows[0] || follows[1])) {
    float maximum[2];
    reference[0] = reference[1] = -INF;
    row_maxima(maximum, score, tiles, reference, scale_log2, dtype);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int asked = follows[half]; // by a thread of the row
      asked |= __shfl_xor_sync(0xffffffff, asked, 1);
      asked |= __shfl_xor_sync(0xffffffff, asked, 2);
      reference[half] = asked ? maximum[half] : 0.0f;
    }
  }
}
