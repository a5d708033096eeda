// The end of a row: out = O / row sum, lse = scale * reference + log(row sum). Rows without keys
// give 0 and -inf.
#pragma once

#include "attnpress/args/attention.h"
#include "attnpress/device/ptx_math.cuh"
#include "attnpress/device/softmax.cuh"

// What O is multiplied by.
__device__ __forceinline__ float normalizer(float sum) {
  return sum == 0.0f ? 0.0f : reciprocal_approx(sum);
}

// The natural logarithm of sum * 2^reference_log2.
__device__ __forceinline__ float natural_lse(float reference_log2, float sum) {
  return (reference_log2 + log2_approx(sum)) * LN_2;
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
