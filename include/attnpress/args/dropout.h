/* The arguments of the kernel that writes which probabilities dropout keeps: filled by the runtime,
 * read by the kernel from constant memory. Host and device compile this same text. */
#pragma once

#include "attnpress/args/attention.h"

typedef struct attnpress_dropout_keep_args {
  void *
      keep; /* (batch, heads_q, seqlen_q, seqlen_k) bytes by its strides; written: 1 kept, else 0 */
  int64_t batch_stride, head_stride, row_stride, key_stride; /* in bytes */
  int32_t batch, heads_q, seqlen_q, seqlen_k;
  int32_t row_blocks, key_blocks; /* ceil(seqlen_q / BLOCK_M), ceil(seqlen_k / BLOCK_N) */
  attnpress_score_args score;     /* the fields of dropout alone */
} attnpress_dropout_keep_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_dropout_keep_args, batch, 40)
ATTNPRESS_ASSERT_OFFSET(attnpress_dropout_keep_args, score, 64)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_dropout_keep_args) == 216,
                        "layout of attnpress_dropout_keep_args");

/* The grid is one-dimensional: key blocks, row blocks, heads_q, batch, fastest first, of 32 * WARPS
 * threads. */
