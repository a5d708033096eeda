// Online softmax over rows of scores (their layout: score.cuh). A row has a reference, its maximum
// or a little less, and the sum of P = 2^(c (S - reference)), c = scale_log2, over the keys so far.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/ptx_math.cuh"

constexpr float LN_2 = 0.693147180559945309f;
constexpr float LOG2_E = 1.44269504088896341f;
constexpr float INF = __builtin_bit_cast(float, 0x7f800000);

// Maximum, and sum, over the four lanes that share a row.
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffff, x, 1);
  return x + __shfl_xor_sync(0xffffffff, x, 2);
}

// What is taken off a row's scores: nothing where all keys so far are masked, whose maximum is
// -inf.
__device__ __forceinline__ float finite_base(float maximum) {
  return maximum == -INF ? 0.0f : maximum;
}

// Maximum of `x` and the scores of row `half`.
__device__ __forceinline__ float row_maximum(const float *score, int tiles, int half, float x) {
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile)
    x = fmaxf(x, fmaxf(score[tile * 4 + half * 2], score[tile * 4 + half * 2 + 1]));
  return quad_max(x);
}

// The greatest of the bits of `x` and this thread's scores of row `half`, as integers: those of the
// maximum where it is not negative, as floats that are not have the order of their bits. Or the
// least of them: those of the maximum where all are negative, whose order is the reverse. The
// hardware compares three integers in one instruction, and two floats.
__device__ __forceinline__ int outermost_of_lane(const float *score, int tiles, int half, float x,
                                                 bool least) {
  int most[2] = {__builtin_bit_cast(int, x), __builtin_bit_cast(int, x)};
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile) {
    const int a = __builtin_bit_cast(int, score[tile * 4 + half * 2]);
    const int b = __builtin_bit_cast(int, score[tile * 4 + half * 2 + 1]);
    most[tile % 2] = least ? min(min(most[tile % 2], a), b) : max(max(most[tile % 2], a), b);
  }
  return least ? min(most[0], most[1]) : max(most[0], most[1]);
}

// The same of all scores of the row.
__device__ __forceinline__ int outermost_bits(const float *score, int tiles, int half, float x,
                                              bool least) {
  int all = outermost_of_lane(score, tiles, half, x, least);
#pragma unroll
  for (int lane = 1; lane <= 2; ++lane) {
    const int other = __shfl_xor_sync(0xffffffff, all, lane);
    all = least ? min(all, other) : max(all, other);
  }
  return all;
}

// Makes P of the scores of row `half`, and returns this thread's sum of them.
__device__ __forceinline__ float exponentials(float *score, int tiles, int half, float scale_log2,
                                              float shift) {
  // Of this block alone: a long row's small terms would vanish in the whole. Adding to -0 changes
  // nothing, and the compiler knows.
  float sum = -0.0f;
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
    for (int i = tile * 4 + half * 2; i < tile * 4 + half * 2 + 2; ++i) {
      score[i] = exp2_approx(score[i] * scale_log2 - shift);
      sum += score[i];
    }
  }
  return sum;
}

// Moves a row's reference to `maximum`, of which `base` is taken off scores. Returns the factor for
// what was summed before.
__device__ __forceinline__ float move_reference(float maximum, float base, float *reference,
                                                float scale_log2) {
  // Of the difference: exactly 1 while the reference stays, over however many key blocks.
  const float rescale = exp2_approx((*reference - base) * scale_log2);
  *reference = maximum;
  return rescale;
}

// Makes P of the scores of row `half`, and adds them to this thread's share of the row's sum, which
// is brought to the present reference by `rescale`.
__device__ __forceinline__ void add_row(float *score, int tiles, int half, float shift,
                                        float *row_sum, float rescale, float scale_log2) {
  *row_sum = *row_sum * rescale + exponentials(score, tiles, half, scale_log2, shift);
}

// Takes a key block's scores of row `half` in: they become P, with `maximum` as the reference.
// Returns the factor for what was summed before, row_sum included, which is this thread's share.
// `masked`: the row may have seen no key yet.
__device__ __forceinline__ float take_row(float *score, int tiles, int half, float maximum,
                                          float *reference, float *row_sum, float scale_log2,
                                          bool masked) {
  const float base = masked ? finite_base(maximum) : maximum;
  const float shift = base * scale_log2;
  const float rescale = move_reference(maximum, base, reference, scale_log2);
  add_row(score, tiles, half, shift, row_sum, rescale, scale_log2);
  return rescale;
}

// Negative maxima that are greater than this, in units of log2, are raised to 0 or a little more: a
// reference like any other, by which the row's next maxima are found by their bits. P and its sums
// stay far enough from the least numbers.
__device__ __forceinline__ float least_raised(Dtype dtype) {
  return dtype == BF16 ? -64.0f : -4.0f;
}

// By whole units of log2, so that P of the maximum is a power of two, which is not rounded.
__device__ __forceinline__ float raised(float maximum, float scale_log2) {
  const float units = ceilf(-maximum * scale_log2);
  return fmaxf(maximum + units * reciprocal_approx(scale_log2), 0.0f);
}

// Maxima of both rows of a thread and their references.
__device__ __forceinline__ void row_maxima(float maximum[2], const float *score, int tiles,
                                           const float reference[2], float scale_log2,
                                           Dtype dtype) {
  const int bits[2] = {outermost_bits(score, tiles, 0, reference[0], false),
                       outermost_bits(score, tiles, 1, reference[1], false)};
#pragma unroll
  for (int half = 0; half < 2; ++half)
    maximum[half] = __builtin_bit_cast(float, bits[half]);
  if (!__any_sync(0xffffffff, (bits[0] | bits[1]) < 0))
    return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int least = outermost_bits(score, tiles, half, reference[half], true);
    if (bits[half] < 0)
      maximum[half] = __builtin_bit_cast(float, least);
    if (bits[half] < 0 && maximum[half] * scale_log2 > least_raised(dtype))
      maximum[half] = raised(maximum[half], scale_log2);
  }
}

// The same for both rows of a thread, with a reference that lags behind the maximum by at most 8 /
// c: a maximum that grows by less than a factor of 2^8 is not followed, so that most key blocks
// have nothing to rescale, while P stays small and sums keep their precision.
__device__ __forceinline__ void take_rows_behind(float *score, int tiles, const float maximum[2],
                                                 float reference[2], float row_sum[2],
                                                 float rescale[2], float scale_log2) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool follows = !((maximum[half] - reference[half]) * scale_log2 <= 8.0f);
    rescale[half] =
        take_row(score, tiles, half, follows ? maximum[half] : reference[half], &reference[half],
                 &row_sum[half], scale_log2, true);
  }
}

// The references alone, which are followed by a vote: most key blocks have no score that is to be
// followed, which each thread knows of its own, so that the four of a row need not ask each other
// for the maximum.
__device__ __forceinline__ void follow_rows(const float *score, int tiles, float reference[2],
                                            float rescale[2], float scale_log2, Dtype dtype) {
  bool follows = false;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int bits = outermost_of_lane(score, tiles, half, reference[half], false);
    const float growth = __builtin_bit_cast(float, bits) - reference[half];
    follows |= bits < 0 || !(growth * scale_log2 <= 8.0f);
    rescale[half] = 1.0f;
  }
  if (__any_sync(0xffffffff, follows)) {
    float maximum[2];
    row_maxima(maximum, score, tiles, reference, scale_log2, dtype);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if ((maximum[half] - reference[half]) * scale_log2 <= 8.0f)
        maximum[half] = reference[half];
      rescale[half] = move_reference(maximum[half], finite_base(maximum[half]), &reference[half],
                                     scale_log2);
    }
  }
}

// The same of the first key block of rows, whose references are -inf: all are followed.
__device__ __forceinline__ void begin_rows_at_maxima(const float *score, int tiles,
                                                     float reference[2], float rescale[2],
                                                     float scale_log2, Dtype dtype) {
  const float none[2] = {-INF, -INF};
  row_maxima(reference, score, tiles, none, scale_log2, dtype);
  rescale[0] = rescale[1] = 1.0f; // of no sums
}

// Then P and the sums.
__device__ __forceinline__ void add_rows(float *score, int tiles, const float reference[2],
                                         float row_sum[2], const float rescale[2],
                                         float scale_log2) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
    add_row(score, tiles, half, finite_base(reference[half]) * scale_log2, &row_sum[half],
            rescale[half], scale_log2);
}

// Both.
__device__ __forceinline__ void take_rows_lazily(float *score, int tiles, float reference[2],
                                                 float row_sum[2], float rescale[2],
                                                 float scale_log2, Dtype dtype) {
  follow_rows(score, tiles, reference, rescale, scale_log2, dtype);
  add_rows(score, tiles, reference, row_sum, rescale, scale_log2);
}

// The same with maxima of floats, for kernels that have no registers to spare.
__device__ __forceinline__ void take_rows_by_floats(float *score, int tiles, float reference[2],
                                                    float row_sum[2], float rescale[2],
                                                    float scale_log2) {
  const float maximum[2] = {row_maximum(score, tiles, 0, reference[0]),
                            row_maximum(score, tiles, 1, reference[1])};
  take_rows_behind(score, tiles, maximum, reference, row_sum, rescale, scale_log2);
}

// The same of capped scores, -1 to 1, of which no maximum is needed once a row has a reference:
// that of the first keys it sees, or what keeps P below 2^CAPPED_GROWTH. P and the sums are floats
// and bf16, whose exponents hold the rest: up to CAPPED_SCALE a row of the least scores keeps all
// of its P. Above, the maximum is followed as it is without a cap.
constexpr float CAPPED_GROWTH = 64.0f, CAPPED_SCALE = 82.0f;

__device__ __forceinline__ void take_capped_rows(float *score, int tiles, float reference[2],
                                                 float row_sum[2], float rescale[2],
                                                 float scale_log2) {
  const bool fresh = reference[0] == -INF || reference[1] == -INF;
  rescale[0] = rescale[1] = 1.0f;
  if (scale_log2 > CAPPED_SCALE || __any_sync(0xffffffff, fresh)) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float maximum = row_maximum(score, tiles, half, reference[half]);
      if ((maximum - reference[half]) * scale_log2 <= 8.0f)
        maximum = reference[half];
      if (scale_log2 <= CAPPED_SCALE && maximum > -INF)
        maximum = fmaxf(maximum, 1.0f - CAPPED_GROWTH * reciprocal_approx(scale_log2));
      rescale[half] = move_reference(maximum, finite_base(maximum), &reference[half], scale_log2);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half)
    add_row(score, tiles, half, finite_base(reference[half]) * scale_log2, &row_sum[half],
            rescale[half], scale_log2);
}

// The same of scores that are `offset` short of what they stand for, by row; lanes differ in it.
__device__ __forceinline__ void take_rows_with_offset(float *score, int tiles, float reference[2],
                                                      float row_sum[2], float rescale[2],
                                                      float scale_log2, const float offset[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float maximum = fmaxf(score[half * 2], score[half * 2 + 1]);
#pragma unroll
    for (int tile = 1; tile < tiles; ++tile)
      maximum = fmaxf(maximum, fmaxf(score[tile * 4 + half * 2], score[tile * 4 + half * 2 + 1]));
    maximum = quad_max(fmaxf(reference[half], maximum + offset[half]));
    if ((maximum - reference[half]) * scale_log2 <= 8.0f)
      maximum = reference[half];
    const float base = finite_base(maximum);
    rescale[half] = move_reference(maximum, base, &reference[half], scale_log2);
    add_row(score, tiles, half, (base - offset[half]) * scale_log2, &row_sum[half], rescale[half],
            scale_log2);
  }
}

// What none of this thread's scores of row `half` exceeds: the greatest of them, or 0.
__device__ __forceinline__ float bound_of_lane(const float *score, int tiles, int half) {
  return __builtin_bit_cast(float, outermost_of_lane(score, tiles, half, 0.0f, false));
}

// The same by a vote on a bound of the maximum, as take_rows_lazily(): for scores that seldom grow.
__device__ __forceinline__ void take_rows_with_bound(float *score, int tiles, float reference[2],
                                                     float row_sum[2], float rescale[2],
                                                     float scale_log2, const float offset[2]) {
  bool follows = false;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float growth = bound_of_lane(score, tiles, half) + offset[half] - reference[half];
    follows |= !(growth * scale_log2 <= 8.0f);
    rescale[half] = 1.0f;
  }
  if (__any_sync(0xffffffff, follows)) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float most = row_maximum(score, tiles, half, -INF) + offset[half];
      float maximum = fmaxf(reference[half], most);
      if ((maximum - reference[half]) * scale_log2 <= 8.0f)
        maximum = reference[half];
      rescale[half] = move_reference(maximum, finite_base(maximum), &reference[half], scale_log2);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half)
    add_row(score, tiles, half, (finite_base(reference[half]) - offset[half]) * scale_log2,
            &row_sum[half], rescale[half], scale_log2);
}

// Rounds P to A fragments: two accumulator tiles of S are one fragment of 16 keys.
__device__ __forceinline__ void round_probabilities(uint32_t *p, const float *score, int tiles,
                                                    Dtype dtype) {
#pragma unroll
  for (int i = 0; i < tiles * 2; ++i)
    p[i] = pack(dtype, score[i * 2], score[i * 2 + 1]);
}

// Multiplies row `half` of the accumulators of O by its factor.
__device__ __forceinline__ void rescale_row(float *out, int tiles, int half, float rescale) {
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile) {
    out[tile * 4 + half * 2] *= rescale;
    out[tile * 4 + half * 2 + 1] *= rescale;
  }
}

// Multiplies both rows by their factors; a warp whose factors are all 1 has nothing to do.
__device__ __forceinline__ void rescale_rows(float *out, int tiles, const float rescale[2]) {
  if (!__any_sync(0xffffffff, rescale[0] != 1.0f || rescale[1] != 1.0f))
    return;
#pragma unroll
  for (int i = 0; i < tiles * 4; ++i)
    out[i] *= rescale[i / 2 % 2];
}
