/* The arguments of each kernel: one struct a pass, filled by the runtime, read by the kernel from
 * constant memory. Host and device compile this same text. NVRTC has no offsetof in constant
 * expressions: the host asserts the offsets, both assert the sizes, and no struct has holes. */
#pragma once

#if defined(__CUDACC_RTC__)
typedef int int32_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <stddef.h>
#include <stdint.h>
#endif

#if defined(__cplusplus)
#define ATTNPRESS_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define ATTNPRESS_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif
#if defined(__CUDACC_RTC__)
#define ATTNPRESS_ASSERT_OFFSET(type, field, bytes)
#else
#define ATTNPRESS_ASSERT_OFFSET(type, field, bytes)                                                \
  ATTNPRESS_STATIC_ASSERT(offsetof(type, field) == bytes, #type "." #field);
#endif

/* Strides are in elements of the tensor's dtype; the last dimension is contiguous. */
typedef struct attnpress_fwd_args {
  const void *q; /* (batch, seqlen_q, heads_q, HEAD_DIM) */
  const void *k; /* (batch, seqlen_k, heads_kv, HEAD_DIM) */
  const void *v; /* (batch, seqlen_k, heads_kv, HEAD_DIM_V) */
  void *out;     /* (batch, seqlen_q, heads_q, HEAD_DIM_V); split kernels do not touch it */
  float *lse; /* (batch, heads_q, seqlen_q), natural log, or NULL; split kernels do not touch it */
  float *out_partial; /* (num_splits, batch, heads_q, seqlen_q, HEAD_DIM_V) contiguous; split
                         kernels only */
  float *lse_partial; /* (num_splits, batch, heads_q, seqlen_q) contiguous, natural log; split
                         kernels only */
  int64_t q_batch_stride, q_row_stride, q_head_stride;
  int64_t k_batch_stride, k_row_stride, k_head_stride;
  int64_t v_batch_stride, v_row_stride, v_head_stride;
  int64_t out_batch_stride, out_row_stride, out_head_stride;
  int64_t lse_batch_stride, lse_head_stride;
  int32_t batch, heads_q, heads_kv, seqlen_q, seqlen_k;
  int32_t heads_per_tile; /* query heads of one key head whose rows share a tile: 1, or heads_q /
                             heads_kv */
  int32_t row_blocks;     /* ceil(seqlen_q * heads_per_tile / BLOCK_M) */
  int32_t num_splits;     /* 1 in kernels that do not split */
  int32_t key_blocks_per_split; /* key blocks of BLOCK_N keys that one split covers, counted from
                                   key 0 */
  float scale;                  /* of the scores, positive */
  float scale_log2;             /* scale * log2(e) */
  int32_t reserved;
} attnpress_fwd_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_fwd_args, q_batch_stride, 56)
ATTNPRESS_ASSERT_OFFSET(attnpress_fwd_args, batch, 168)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_args) == 216, "layout of attnpress_fwd_args");

/* The grid of a forward kernel is one-dimensional, fastest first: row block, split, tile head,
 * batch, with heads_q / heads_per_tile tile heads; blocks have 32 * WARPS_M * WARPS_N threads. */

typedef struct attnpress_fwd_combine_args {
  const float *out_partial; /* (num_splits, rows, HEAD_DIM_V) contiguous, rows = batch * heads_q *
                               seqlen_q */
  const float *lse_partial; /* (num_splits, rows) contiguous, natural log */
  void *out;                /* (batch, seqlen_q, heads_q, HEAD_DIM_V) */
  float *lse;               /* (batch, heads_q, seqlen_q), natural log, or NULL */
  int64_t out_batch_stride, out_row_stride, out_head_stride;
  int64_t lse_batch_stride, lse_head_stride;
  int64_t rows;
  int32_t heads_q, seqlen_q, num_splits, reserved;
} attnpress_fwd_combine_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_fwd_combine_args, rows, 72)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_combine_args) == 96,
                        "layout of attnpress_fwd_combine_args");

/* The grid of the combine kernel is ceil(rows / BLOCK_M) blocks of 32 * WARPS_M threads. */
