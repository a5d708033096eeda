// The end of a row: out = O / row sum, lse = scale * reference + log(row sum). A sink is one more
// term of the sum. Rows without either give 0 and -inf.
#pragma once

#include "attnpress/args/attention.h"
#include "attnpress/device/ptx_math.cuh"
#include "attnpress/device/ptx_widen.cuh"
#include "attnpress/device/softmax.cuh"

// What O is multiplied by.
__device__ __forceinline__ float normalizer(float sum) {
  return sum == 0.0f ? 0.0f : reciprocal_approx(sum);
}

// The natural logarithm of sum * 2^reference_log2. Neither the product that the reference is nor
// what is done to the lse joins a step of it: kernels with few rows and with many have the same bits.
__device__ __forceinline__ float natural_lse(float reference_log2, float sum) {
  const float lse_log2 = multiply_add_once(log2_approx(sum), 1.0f, reference_log2);
  return multiply_add_once(lse_log2, LN_2, 0.0f);
}

// A head's sink in units of log2. Heads are clamped: rows that are not there may have any.
__device__ __forceinline__ float load_sink(const void *sinks, int dtype, int64_t stride, int head,
                                           int heads) {
  const int64_t at = min(head, heads - 1) * stride;
  if (dtype == 3)
    return ((const float *)sinks)[at] * LOG2_E;
  const uint16_t bits = ((const uint16_t *)sinks)[at];
  return (dtype == 1 ? widen_fp16(bits) : __builtin_bit_cast(float, (uint32_t)bits << 16)) * LOG2_E;
}

// What a row's O is multiplied by, and its lse.
struct RowEnd {
  float normalize, lse;
};

// Of a sum of 2^(score - reference) over the keys, and one sink more; in units of log2.
__device__ __forceinline__ RowEnd end_row_with_sink(float reference, float sum, float sink) {
  const float maximum = fmaxf(reference, sink), base = finite_base(maximum);
  const float factor = exp2_approx(reference - base);
  sum = sum * factor + exp2_approx(sink - base);
  return {normalizer(sum) * factor, natural_lse(maximum, sum)};
}

// The end of a row. Where it is a split's, the combine kernel adds the sink.
__device__ __forceinline__ RowEnd end_row(float reference, float sum,
                                          const attnpress_score_args *args, int heads, int head,
                                          bool dropout, bool split) {
  RowEnd end = {normalizer(sum), natural_lse(reference, sum)};
  if (!split && args->sinks != nullptr)
    end = end_row_with_sink(
        reference, sum, load_sink(args->sinks, args->sinks_dtype, args->sinks_stride, head, heads));
  if (dropout)
    end.normalize *= args->dropout_scale;
  return end;
}

// Parts of a row that are added up one after the other: what the sum so far counts, what the next
// part does, and lse of both. Kernels that do so have the same bits: no step is left to the compiler.
struct PartSum {
  float so_far, next, lse;
};

__device__ __forceinline__ PartSum add_part(float lse_so_far, float lse_next) {
  if (lse_next == -INF)
    return {1.0f, 0.0f, lse_so_far};
  if (lse_so_far == -INF)
    return {0.0f, 1.0f, lse_next};
  const float maximum = fmaxf(lse_so_far, lse_next);
  const float a = exp2_approx((lse_so_far - maximum) * LOG2_E);
  const float b = exp2_approx((lse_next - maximum) * LOG2_E);
  const float factor = reciprocal_approx(a + b);
  return {a * factor, b * factor, multiply_add_once(log2_approx(a + b), LN_2, maximum)};
}

__device__ __forceinline__ float add_part_values(PartSum sum, float so_far, float next) {
  return multiply_add_once(sum.next, next, sum.so_far * so_far);
}

// The same of parts that are not normalised on the way: the greatest lse, in units of log2, and the
// sum of 2^(lse - max). What a part counts then depends on the lses alone and not on sums, so that
// all factors may be found at once. No parts, or none with a key: -inf and 0.
struct WeightedParts {
  float max, weights;
};

// Returns what the sum so far counts, and what the next part does. One without a key counts nothing,
// and its values are finite.
__device__ __forceinline__ float2 weigh_part(WeightedParts *parts, float lse_next) {
  const float next = multiply_add_once(lse_next, LOG2_E, 0.0f);
  const float max = fmaxf(parts->max, next), base = finite_base(max);
  const float2 factors = {exp2_approx(parts->max - base), exp2_approx(next - base)};
  parts->weights = multiply_add_once(factors.x, parts->weights, factors.y);
  parts->max = max;
  return factors;
}

__device__ __forceinline__ float add_weighted(float2 factors, float so_far, float next) {
  return multiply_add_once(factors.y, next, factors.x * so_far);
}

// Adds tiles `first` to `tiles` - 1 of row `half` of O, normalised, to what this thread has stored of
// the splits before; as store_partial_row().
__device__ __forceinline__ void add_partial_row(float *out_row, const float *out, int first,
                                                int tiles, int half, float normalize, PartSum sum,
                                                bool valid) {
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile) {
    float2 *pair = (float2 *)(out_row + tile * 8);
    if (valid && tile >= first) {
      const float2 before = *pair;
      const float2 both = {
          add_part_values(sum, before.x, out[tile * 4 + half * 2] * normalize),
          add_part_values(sum, before.y, out[tile * 4 + half * 2 + 1] * normalize)};
      *pair = both;
    }
  }
}

// Offset of a row's lse, and of its first column of the output.
__device__ __forceinline__ int64_t lse_offset(const attnpress_fwd_args *args, int64_t batch,
                                              int head, int position) {
  return batch * args->lse_batch_stride + head * args->lse_head_stride + position;
}

__device__ __forceinline__ int64_t out_offset(const attnpress_fwd_args *args, int64_t batch,
                                              int head, int position) {
  return batch * args->out_batch_stride + position * args->out_row_stride +
         head * args->out_head_stride;
}

// Stores tiles `first` to `tiles` - 1 of row `half` of O, normalised, to a split's output.
// `out_row` is the row's element of this thread's first column; a row that is not `valid` is not
// stored.
__device__ __forceinline__ void store_partial_row(float *out_row, const float *out, int first,
                                                  int tiles, int half, float normalize,
                                                  bool valid) {
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile) {
    const float2 pair = {out[tile * 4 + half * 2] * normalize,
                         out[tile * 4 + half * 2 + 1] * normalize};
    if (valid && tile >= first)
      *(float2 *)(out_row + tile * 8) = pair;
  }
}
