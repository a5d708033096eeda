/* The arguments of the kernel that merges parts of attention: filled by the runtime, read by the
 * kernel from constant memory. Host and device compile this same text. */
#pragma once

#include "attnpress/args/common.h"

#define ATTNPRESS_MERGE_PARTS_ARGS_MAX 16

/* Strides are in elements. */
typedef struct attnpress_merge_rows {
  const void *out;  /* (batch, seqlen, heads, head_dim) */
  const float *lse; /* (batch, heads, seqlen) */
  int64_t batch_stride, row_stride, head_stride;
  int64_t lse_batch_stride, lse_head_stride, lse_row_stride;
} attnpress_merge_rows;

typedef struct attnpress_merge_parts_args {
  attnpress_merge_rows part[ATTNPRESS_MERGE_PARTS_ARGS_MAX];
  attnpress_merge_rows result;     /* written; its lse may be NULL */
  attnpress_divisor heads, seqlen; /* rows are numbered batch, seqlen, heads, the last fastest */
  int32_t rows;                    /* batch * seqlen * heads */
  int32_t head_dim;
  int32_t parts;                  /* 1 to 16 */
  int32_t lane_shift;             /* 2^lane_shift lanes of a warp share a row */
  float log2_of_lse, lse_of_log2; /* factors between an lse and one to base 2 */
} attnpress_merge_parts_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_merge_parts_args, result, 1024)
ATTNPRESS_ASSERT_OFFSET(attnpress_merge_parts_args, rows, 1112)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_merge_parts_args) == 1136,
                        "layout of attnpress_merge_parts_args");
