// Attention over parts of the keys: where their rows lie, and what each counts for.
#pragma once

#include "attnpress/args/merge.h"
#include "attnpress/device/pipeline.cuh"
#include "attnpress/device/ptx_math.cuh"

constexpr float MERGE_INF = __builtin_bit_cast(float, 0x7f800000);

// A query of a head.
struct MergeRow {
  int batch, row, head;
};

// Row number `index` of batch * seqlen * heads; heads are the fastest.
__device__ __forceinline__ MergeRow merge_row(int index, const attnpress_merge_parts_args *args) {
  const int token = divide(index, &args->heads), batch = divide(token, &args->seqlen);
  const MergeRow at = {batch, token - batch * args->seqlen.value,
                       index - token * args->heads.value};
  return at;
}

// In elements, of a part or of the result.
__device__ __forceinline__ int64_t merge_offset(const attnpress_merge_rows *rows, MergeRow at) {
  return at.batch * rows->batch_stride + at.row * rows->row_stride + at.head * rows->head_stride;
}

__device__ __forceinline__ int64_t merge_lse_offset(const attnpress_merge_rows *rows, MergeRow at) {
  return at.batch * rows->lse_batch_stride + at.head * rows->lse_head_stride +
         at.row * rows->lse_row_stride;
}

// A part without keys says so by -inf, or, as flash-attn does, by +inf.
__device__ __forceinline__ bool has_no_keys(float lse) {
  return fabsf(lse) == MERGE_INF;
}

// exp(lse - maximum); 0 of a part without keys.
__device__ __forceinline__ float part_weight(float lse, float maximum, float log2_of_lse) {
  return has_no_keys(lse) ? 0.0f : exp2_approx((lse - maximum) * log2_of_lse);
}
