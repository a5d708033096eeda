/* The arguments of the attention kernels: one struct a pass, filled by the runtime, read by the
 * kernel from constant memory. Host and device compile this same text. */
#pragma once

#include "attnpress/args/common.h"

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
  int32_t row_blocks;     /* ceil(seqlen_q * heads_per_tile / BLOCK_M); of sm90 kernels, of whole
                             positions: ceil(seqlen_q / (BLOCK_M / 64 * (64 / heads_per_tile))) */
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

/* The grid of a forward kernel is one-dimensional: row blocks, splits, tile heads (heads_q /
 * heads_per_tile) and batch, in an order that is the kernel's own; blocks have 32 * WARPS_M *
 * WARPS_N * WARPS_K threads. That of the kernels for compute capability 9.0 is described below. */

/* The arguments of the kernels for compute capability 9.0, which read Q, K and V through tensor
 * maps and leave the pointers and strides in `fwd` alone. Boxes have 64 columns, in the 128-byte
 * swizzle.
 *
 * A row block has BLOCK_M / 64 warpgroups of 64 rows, of which the first heads_per_tile * (64 /
 * heads_per_tile) are used, so that a warpgroup holds whole positions. A unit of work is a row
 * block of one head and split. Units are numbered section by section; in a section, row blocks
 * first to last (causal: last to first), each with the section's heads; the last section may name
 * heads that do not exist. They are dealt to the g blocks of the grid group by group: block b takes
 * units b, 2 g - 1 - b, 2 g + b ... of each group. */
typedef struct attnpress_fwd_sm90_args {
  attnpress_tensor_map q; /* (batch, heads_q / heads_per_tile, seqlen_q, heads_per_tile, HEAD_DIM),
                             boxes of (1, 1, 64 / heads_per_tile, heads_per_tile, 64) */
  attnpress_tensor_map k; /* (batch, heads_kv, seqlen_k, HEAD_DIM), boxes of (1, 1, BLOCK_N, 64) */
  attnpress_tensor_map
      v; /* (batch, heads_kv, seqlen_k, HEAD_DIM_V), boxes of (1, 1, BLOCK_N, 64) */
  attnpress_fwd_args fwd;
  attnpress_divisor section_heads;  /* heads of a section, counting (batch, tile head, split) */
  attnpress_divisor section_units;  /* section_heads * row_blocks */
  attnpress_divisor group_rounds;   /* ceil(group_units / g) */
  attnpress_divisor num_splits;     /* fwd.num_splits */
  attnpress_divisor tile_heads;     /* heads_q / heads_per_tile */
  attnpress_divisor heads_per_tile; /* fwd.heads_per_tile */
  int32_t heads;                    /* batch * tile_heads * num_splits */
  int32_t group_units;              /* units of a group, a whole number of sections */
  int32_t rounds;                   /* group_rounds times the number of groups */
  int32_t warpgroup_positions;      /* 64 / heads_per_tile */
  int32_t reserved[4];
} attnpress_fwd_sm90_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_fwd_sm90_args, fwd, 384)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_sm90_args) == 704,
                        "layout of attnpress_fwd_sm90_args");

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

/* The grid of the combine kernel is ceil(HEAD_DIM_V / BLOCK_N) * ceil(rows / BLOCK_M) blocks,
 * fastest first, of 32 * WARPS_M threads; BLOCK_N are columns here. */
