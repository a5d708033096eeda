/* The arguments of the attention kernels: one struct a pass, filled by the runtime, read by the
 * kernel from constant memory. Host and device compile this same text. */
#pragma once

#include "attnpress/args/common.h"

/* What is done to scores and probabilities. A kernel reads the fields of the features in its name,
 * and the sinks, which have no name. A score in a kernel is in units of `scale` or, where it is
 * capped, of the cap. Strides are in elements. */
typedef struct attnpress_score_args {
  const void *bias;                        /* (batch, heads_q, seqlen_q, seqlen_k) by its strides */
  const float *alibi_slopes;               /* (batch, heads_q) by its strides */
  const void *sinks;                       /* (heads_q) by its stride, natural units; or NULL */
  const uint64_t *dropout_seed_and_offset; /* instead of the two below; or NULL */
  int64_t bias_batch_stride, bias_head_stride, bias_row_stride, bias_key_stride;
  int64_t alibi_batch_stride, alibi_head_stride;
  int64_t sinks_stride;
  uint64_t dropout_seed, dropout_offset;
  int32_t sinks_dtype;    /* 1 fp16, 2 bf16, 3 fp32 */
  int32_t bias_alignment; /* 1: the bias of keys 2 n and 2 n + 1 is one aligned load; 2: of 16 bits,
                             that of keys 8 n to 8 n + 7, and sm90 kernels have a tensor map of it;
                             0: neither */
  float units_per_natural;    /* 1 / scale, or 1 / softcap: what bias and slopes are scaled by */
  float softcap_scale;        /* scale / softcap */
  uint32_t dropout_threshold; /* 65536 * probability: smaller decisions of 16 bits drop */
  float dropout_scale;        /* 1 / (1 - probability); 1 without dropout */
  int32_t window_center;      /* the key that a query at position 0 stands at */
  int32_t window_left, window_right; /* keys before and behind; 2^31 - 1: all */
  int32_t window_chunk;              /* keys of a chunk; 0: no chunks */
  int32_t reserved[2];
} attnpress_score_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_score_args, sinks_dtype, 104)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_score_args) == 152, "layout of attnpress_score_args");

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
                             heads_kv, or, in dense sm90 kernels, less than that; one key head's last
                             tile may then have fewer */
  int32_t row_blocks;     /* ceil(seqlen_q * heads_per_tile / BLOCK_M); of sm90 kernels, of whole
                             positions: ceil(seqlen_q / (BLOCK_M / 64 * (64 / heads_per_tile))) */
  int32_t num_splits;     /* 1 in kernels that do not split */
  int32_t key_blocks_per_split; /* key blocks of BLOCK_N keys that one split covers, counted from
                                   the first that a row of the row block sees; with sequences of
                                   their own lengths, at least so many, and else equal parts */
  float scale;                  /* of the scores, positive */
  float scale_log2;         /* what makes scores exponents of 2: log2(e) * scale, or * softcap */
  int32_t whole_row_blocks; /* of the first heads: row blocks that decode kernels of dense calls do
                               not split; their thread blocks come first */
  attnpress_score_args score;
} attnpress_fwd_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_fwd_args, q_batch_stride, 56)
ATTNPRESS_ASSERT_OFFSET(attnpress_fwd_args, batch, 168)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_args) == 368, "layout of attnpress_fwd_args");

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
  attnpress_tensor_map q; /* (batch, seqlen_q, heads_q, HEAD_DIM),
                             boxes of (1, 64 / heads_per_tile, heads_per_tile, 64) */
  attnpress_tensor_map k; /* (batch, heads_kv, seqlen_k, HEAD_DIM), boxes of (1, 1, BLOCK_N, 64) */
  attnpress_tensor_map
      v; /* (batch, heads_kv, seqlen_k, HEAD_DIM_V), boxes of (1, 1, BLOCK_N, 64) */
  attnpress_fwd_args fwd;
  attnpress_divisor section_heads;  /* heads of a section, counting (batch, tile head, split) */
  attnpress_divisor section_units;  /* section_heads * row_blocks */
  attnpress_divisor group_rounds;   /* ceil(group_units / g) */
  attnpress_divisor num_splits;     /* fwd.num_splits */
  attnpress_divisor tile_heads;     /* ceil(heads_q / heads_per_tile) */
  attnpress_divisor heads_per_tile; /* fwd.heads_per_tile */
  int32_t heads;                    /* batch * tile_heads * num_splits */
  int32_t group_units;              /* units of a group, a whole number of sections */
  int32_t rounds;                   /* group_rounds times the number of groups */
  int32_t warpgroup_positions;      /* 64 / heads_per_tile */
  int32_t reserved[14];
} attnpress_fwd_sm90_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_fwd_sm90_args, fwd, 384)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_sm90_args) == 896,
                        "layout of attnpress_fwd_sm90_args");

/* Of those with a bias of 16 bits. Where bias_alignment is not 2 the map is not read. */
typedef struct attnpress_fwd_sm90_bias_args {
  attnpress_fwd_sm90_args sm90;
  attnpress_tensor_map bias; /* (batch, heads_q, seqlen_q, seqlen_k),
                                boxes of (1, 1, BLOCK_M, 64) */
} attnpress_fwd_sm90_bias_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_fwd_sm90_bias_args, bias, 896)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_sm90_bias_args) == 1024,
                        "layout of attnpress_fwd_sm90_bias_args");

typedef struct attnpress_fwd_combine_args {
  const float *out_partial; /* (num_splits, rows, HEAD_DIM_V) contiguous, rows = batch * heads_q *
                               seqlen_q */
  const float *lse_partial; /* (num_splits, rows) contiguous, natural log */
  void *out;                /* (batch, seqlen_q, heads_q, HEAD_DIM_V) */
  float *lse;               /* (batch, heads_q, seqlen_q), natural log, or NULL */
  const void *sinks;        /* (heads_q) by its stride, natural units; or NULL */
  int64_t out_batch_stride, out_row_stride, out_head_stride;
  int64_t lse_batch_stride, lse_head_stride;
  int64_t sinks_stride;
  int64_t rows;
  int32_t heads_q, seqlen_q, num_splits;
  int32_t sinks_dtype; /* 1 fp16, 2 bf16, 3 fp32 */
  int32_t block_rows;  /* rows of a thread block: 1, whose splits its groups of threads share out,
                          or as many as it has such groups, one each */
  int32_t whole_rows;  /* dense calls: the first of all rows, which have one split each */
} attnpress_fwd_combine_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_fwd_combine_args, rows, 88)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_combine_args) == 120,
                        "layout of attnpress_fwd_combine_args");

/* The grid of the combine kernel is ceil(HEAD_DIM_V / BLOCK_N) * ceil(rows / block_rows) blocks,
 * fastest first, of 32 * WARPS_M threads; BLOCK_N are columns here, BLOCK_N / 4 threads a group. */

/* The arguments of the backward kernels, all of them: each reads what it needs. */
typedef struct attnpress_bwd_args {
  const void *q;     /* (batch, seqlen_q, heads_q, HEAD_DIM) */
  const void *k;     /* (batch, seqlen_k, heads_kv, HEAD_DIM) */
  const void *v;     /* (batch, seqlen_k, heads_kv, HEAD_DIM_V) */
  const void *out;   /* (batch, seqlen_q, heads_q, HEAD_DIM_V) */
  const void *dout;  /* (batch, seqlen_q, heads_q, HEAD_DIM_V) */
  void *dq;          /* (batch, seqlen_q, heads_q, HEAD_DIM) */
  void *dk;          /* (batch, seqlen_k, heads_kv, HEAD_DIM) */
  void *dv;          /* (batch, seqlen_k, heads_kv, HEAD_DIM_V) */
  const float *lse;  /* (batch, heads_q, seqlen_q), natural log; -inf: the row sees no key */
  const float *dlse; /* the same shape: the gradient of lse, or NULL */
  float *lse_log2;   /* (batch, heads_q, row_tiles * 16) contiguous: lse * log2(e); rows that see no
                        key, and rows past the end: inf */
  float *delta;      /* the same shape: sum of dout * out over a row, less dlse; past the end 0 */
  float *dq_sum;     /* (batch, heads_q, sum_tiles, HEAD_DIM / 8, 128) contiguous: dQ / scale in
                        fp32, or NULL; gradient.cuh says in which order a tile lies */
  int64_t q_batch_stride, q_row_stride, q_head_stride;
  int64_t k_batch_stride, k_row_stride, k_head_stride;
  int64_t v_batch_stride, v_row_stride, v_head_stride;
  int64_t out_batch_stride, out_row_stride, out_head_stride;
  int64_t dout_batch_stride, dout_row_stride, dout_head_stride;
  int64_t dq_batch_stride, dq_row_stride, dq_head_stride;
  int64_t dk_batch_stride, dk_row_stride, dk_head_stride;
  int64_t dv_batch_stride, dv_row_stride, dv_head_stride;
  int64_t lse_batch_stride, lse_head_stride;
  int64_t dlse_batch_stride, dlse_head_stride;
  int32_t batch, heads_q, heads_kv, seqlen_q, seqlen_k;
  int32_t row_tiles;    /* ceil(seqlen_q / 16), rounded up to a multiple of 8 */
  int32_t blocks;       /* of a head: key blocks, of bwd_dq row blocks */
  int32_t accumulate;   /* 1: dq, dk and dv are added to */
  int32_t dq_sum_quads; /* 16-byte parts of a row tile of dq_sum; 0: there is none */
  float scale;          /* of the scores, positive */
  float scale_log2;     /* what makes scores exponents of 2: log2(e) * scale, or * softcap */
  int32_t sum_tiles;    /* row tiles of a head of dq_sum: at least its rows'; where sequences have
                           lengths of their own of all of them */
  float *dsinks;        /* (heads_q) contiguous: the gradient by score.sinks; bwd_sinks alone */
  attnpress_score_args score;
  /* Where blocks of bwd share a group, by each part (group_parts, batch, heads_kv, key_tiles,
   * HEAD_DIM / 8, 128) contiguous, tiles as of dq_sum: dK / scale in fp32. NULL: a block has all of a
   * group, and stores dk and dv. */
  float *dk_sum;
  float *dv_sum;       /* the same of HEAD_DIM_V: dV, before dropout_scale */
  int32_t key_tiles;   /* ceil(seqlen_k / 16), rounded up to a multiple of 8 */
  int32_t group_parts; /* of a group of query heads, each a block's of bwd on 9.0; 1: all of it */
  union {
    int32_t sum_parts; /* of bwd_convert: tensors behind one another at dq_sum, which it sums; where
                          sequences have lengths of their own 1 for dq, and for dk and dv the parts */
    int32_t abreast;   /* of causal bwd, bwd_dkv and bwd_dq, where sequences are dense: heads, or
                          parts of groups, the last ones of the grid, whose blocks take turns
                          (gradient_order.cuh); at least 1. Of bwd on 9.0, whatever the mask is, 0 or less:
                          the walk of a key block, over all heads of the group, is divided into
                          group_parts parts of equal steps, but of the first -abreast key blocks of
                          each head, which a thread block has whole, and stores dk and dv:
                          dk_sum and dv_sum, whose tiles are counted from the first key on, have
                          none of these, nor has key_tiles; zero_ahead is 0 then */
    int32_t own_sums;  /* of bwd with sequences of their own lengths that are all direct
                         (attnpress_bwd_ragged_args): 1: dq_sum is (grid, heads_q / heads_kv,
                         sum_tiles, HEAD_DIM / 8, 128), each thread block's own */
  };
  /* Thread blocks of dense bwd on 9.0 that have the same query heads are a unit. bwd_delta zeroes
   * dq_sum of the first `zero_ahead` units' heads, and each unit that of the unit so many behind it,
   * which waits for that; at least `abreast`. 0: bwd_delta zeroes all. -1: nobody zeroes; rows are seen
   * by keys of two thread blocks at most, which pass dQ on (gradient_pass.cuh), and bwd stores dq. Where
   * sequences have lengths of their own: as attnpress_bwd_ragged_args says. */
  int32_t zero_ahead;
  uint32_t *dq_zeroed; /* (batch, heads_kv, group_parts), 0 before bwd: warps that have zeroed their
                          share of a unit's dq_sum; NULL where zero_ahead is 0; -1: (batch,
                          heads_q, row_tiles), 1 where a row tile's part is in dq_sum */
  /* Of bwd on 9.0 whose thread blocks take key blocks one after the other (gradient_take.cuh): those
   * that are taken, 0 before bwd. NULL: each thread block has one. Where sequences have lengths of their
   * own, zero_ahead is 0 and there are sums, behind it: thread blocks of bwd_delta and bwd_convert up to
   * the last whose rows have one, which bwd_delta finds; 0 before. */
  uint32_t *taken;
} attnpress_bwd_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_bwd_args, q_batch_stride, 104)
ATTNPRESS_ASSERT_OFFSET(attnpress_bwd_args, batch, 328)
ATTNPRESS_ASSERT_OFFSET(attnpress_bwd_args, score, 384)
ATTNPRESS_ASSERT_OFFSET(attnpress_bwd_args, dk_sum, 536)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_bwd_args) == 584, "layout of attnpress_bwd_args");

/* The arguments of the backward kernel for compute capability 9.0, which reads Q, K, V and dO through
 * tensor maps and leaves those pointers and strides in `bwd` alone. Boxes have 64 columns, in the
 * 128-byte swizzle. */
typedef struct attnpress_bwd_sm90_args {
  attnpress_tensor_map q; /* (batch, heads_q, seqlen_q, HEAD_DIM), boxes of (1, 1, BLOCK_M, 64) */
  attnpress_tensor_map dout; /* (batch, heads_q, seqlen_q, HEAD_DIM_V), the same boxes */
  attnpress_tensor_map k; /* (batch, heads_kv, seqlen_k, HEAD_DIM), boxes of (1, 1, BLOCK_N, 64) */
  attnpress_tensor_map v; /* (batch, heads_kv, seqlen_k, HEAD_DIM_V), the same boxes */
  attnpress_bwd_args bwd;
} attnpress_bwd_sm90_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_bwd_sm90_args, bwd, 512)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_bwd_sm90_args) == 1152,
                        "layout of attnpress_bwd_sm90_args");

/* The arguments of the kernel for the gradient by the bias. Of batch, head and rows, what the gradient
 * has one of is summed over: a thread block then walks over all of the call's. */
typedef struct attnpress_bwd_dbias_args {
  attnpress_bwd_args bwd; /* of which `blocks` are key blocks */
  void *dbias;            /* (batch or 1, heads_q or 1, seqlen_q or 1, seqlen_k) by its strides */
  int64_t dbias_batch_stride, dbias_head_stride, dbias_row_stride, dbias_key_stride;
  int32_t dbias_dtype;                               /* 1 fp16, 2 bf16, 3 fp32 */
  int32_t heads, row_blocks;                         /* of the gradient */
  int32_t walk_batches, walk_heads, walk_row_blocks; /* of a thread block: all, or 1 */
  int32_t sums_rows;                                 /* 1: the gradient has one row */
  int32_t reserved;
} attnpress_bwd_dbias_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_bwd_dbias_args, dbias, sizeof(attnpress_bwd_args))
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_bwd_dbias_args) == sizeof(attnpress_bwd_args) + 72,
                        "layout of attnpress_bwd_dbias_args");

/* The grids of the backward kernels are one-dimensional. bwd and bwd_dkv: key block (fastest), of bwd
 * on 9.0 part of the group, key head, batch; bwd_dq: row block (fastest), query head, batch. bwd_delta
 * and bwd_convert, which begins at the end where sequences are dense: BLOCK_M rows of row_tiles * 16
 * (fastest), query head, batch. bwd_sinks: query head. bwd_dbias: key block (fastest), row block,
 * head and batch of the gradient. */
