// Rows that are followed by limits: what a key block takes of a row's reference is kept beside it, and
// most key blocks ask for one comparison of a row. For kernels that do nothing to scores but mask them.
#pragma once

#include "attnpress/device/softmax_first.cuh"

// Of both rows of a thread.
struct RowLimits {
  float shift[2];    // what is taken off scores
  uint32_t limit[2]; // the bits from which on a score is to be followed; 0: the bits do not say
  int followed;      // whether the last key block had some row of the warp followed
};

// A negative reference has no limit: the order of its scores' bits is not their own. `growth`: of the
// maximum, from which on it is to be followed, in units of log2.
__device__ __forceinline__ void find_limits(RowLimits *limits, const float reference[2],
                                            float growth, float scale_log2) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float limit = reference[half] + growth * reciprocal_approx(scale_log2);
    limits->shift[half] = finite_base(reference[half]) * scale_log2;
    limits->limit[half] = reference[half] >= 0.0f ? __builtin_bit_cast(uint32_t, limit) : 0;
  }
}

// begin_rows(), and the limits.
__device__ __forceinline__ void begin_limited_rows(const float *score, int tiles,
                                                   float reference[2], RowLimits *limits,
                                                   float rescale[2], float scale_log2,
                                                   Dtype dtype) {
  begin_rows(score, tiles, reference, rescale, scale_log2, dtype);
  find_limits(limits, reference, 8.0f, scale_log2);
}

// follow_rows(), where some score of the warp has reached its row's limit, or none is known; then the
// sums are brought to the references, too. `rescale` means nothing otherwise.
__device__ __forceinline__ void follow_limited_rows(const float *score, int tiles,
                                                    float reference[2], float row_sum[2],
                                                    RowLimits *limits, float rescale[2],
                                                    float scale_log2, Dtype dtype) {
  bool follows = false;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int bits = outermost_of_lane(score, tiles, half, reference[half], false);
    follows |= (uint32_t)bits >= limits->limit[half];
  }
  limits->followed = __any_sync(0xffffffff, follows);
  if (limits->followed) {
    follow_rows(score, tiles, reference, rescale, scale_log2, dtype);
    find_limits(limits, reference, 8.0f, scale_log2);
    row_sum[0] *= rescale[0];
    row_sum[1] *= rescale[1];
  }
}

// Then P and the sums.
__device__ __forceinline__ void add_limited_rows(float *score, int tiles, const RowLimits *limits,
                                                 float row_sum[2], float scale_log2) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
    row_sum[half] += exponentials(score, tiles, half, scale_log2, limits->shift[half]);
}

// The same for rows that have the bits of others, which are followed without limits: where a limit
// is reached, follow_rows() says which rows are followed, and limits are a little lower than what it
// compares with.
constexpr float SURE_GROWTH = 7.96875f;

// begin_rows_at_maxima(), and the limits.
__device__ __forceinline__ void begin_limited_rows_at_maxima(const float *score, int tiles,
                                                             float reference[2], RowLimits *limits,
                                                             float rescale[2], float scale_log2,
                                                             Dtype dtype) {
  begin_rows_at_maxima(score, tiles, reference, rescale, scale_log2, dtype);
  find_limits(limits, reference, SURE_GROWTH, scale_log2);
}

// follow_rows().
__device__ __forceinline__ void follow_rows_by_limits(const float *score, int tiles,
                                                      float reference[2], RowLimits *limits,
                                                      float rescale[2], float scale_log2,
                                                      Dtype dtype) {
  bool follows = false;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int bits = outermost_of_lane(score, tiles, half, reference[half], false);
    follows |= (uint32_t)bits >= limits->limit[half];
    rescale[half] = 1.0f;
  }
  limits->followed = __any_sync(0xffffffff, follows);
  if (limits->followed) {
    follow_rows(score, tiles, reference, rescale, scale_log2, dtype);
    find_limits(limits, reference, SURE_GROWTH, scale_log2);
  }
}

// Then P and the sums, as add_rows().
__device__ __forceinline__ void add_limited_rows(float *score, int tiles, const RowLimits *limits,
                                                 float row_sum[2], const float rescale[2],
                                                 float scale_log2) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
    add_row(score, tiles, half, limits->shift[half], &row_sum[half], rescale[half], scale_log2);
}

// And O, where rows were followed.
__device__ __forceinline__ void
rescale_followed_rows(float *out, int tiles, const RowLimits *limits, const float rescale[2]) {
  if (!limits->followed)
    return;
#pragma unroll
  for (int i = 0; i < tiles * 4; ++i)
    out[i] *= rescale[i / 2 % 2];
}
