/* The arguments of the attention kernels whose sequences have lengths of their own: those of the others,
 * and where each sequence lies. */
#pragma once

#include "attnpress/args/attention.h"

/* Where the sequences of a ragged batch lie. Arrays are of int32 and of the batch's length, or NULL;
 * fwd.batch is the number of sequences, fwd.seqlen_q and fwd.seqlen_k are bounds, and the workspace
 * of splits is laid out by the bound. What a length or an index says is checked by who reads it. */
typedef struct attnpress_ragged_args {
  const int32_t *cu_seqlens_q; /* (batch + 1): rows of q and out, whose batch is then 1 */
  const int32_t *cu_seqlens_k; /* (batch + 1): rows of k and v; with pages, lengths alone */
  const int32_t *seqused_q, *seqused_k, *leftpad_k;
  const int32_t *kv_batch_idx;
  const int32_t *cu_seqlens_k_new; /* (batch + 1): lengths of what was appended */
  const int32_t *page_table;  /* (kv_batches, table_pages) by its stride; or flat, (table_pages) */
  const int32_t *page_indptr; /* (batch + 1): first entries of a flat table */
  int64_t page_table_stride;
  int64_t page_table_v; /* entries from page_table to that of V's pages; 0: they are K's */
  int64_t lse_row_stride;
  int32_t rows_q;              /* rows of q in all that its sequence can lie in: shape[1] */
  int32_t rows_k;              /* of k likewise; with pages those of table_pages pages */
  int32_t kv_batches;          /* batches of k; with pages rows of the table */
  int32_t num_pages;           /* of k, where it is in pages */
  int32_t table_pages;         /* entries of a flat table */
  attnpress_divisor page_size; /* rows of a page */
  int32_t lse_packed;          /* 1: rows of lse are those of q */
  int32_t lse_log2;            /* 1: base 2 */
  int32_t lse_empty_pos_inf;   /* 1: +inf where a row sees no key */
  int32_t window_top_left;     /* 1: a window's query at position 0 stands at key 0 */
  int32_t seqlen_k_new;        /* keys that were appended to each sequence */
  int32_t most_keys;           /* a sequence with more has none */
  int32_t fixed_split_blocks;  /* key blocks of a split, counted from key 0, whatever a row sees of
                                  them; splits are added up one after the other. With one split a
                                  thread block adds them up itself: sm80's in out_partial and
                                  lse_partial of one split, sm90's in out_partial, which has (grid,
                                  BLOCK_M, 8 + 64 ceil(HEAD_DIM_V / 64)) floats. 0: as
                                  fwd.key_blocks_per_split says */
} attnpress_ragged_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_ragged_args, rows_q, 96)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_ragged_args) == 160, "layout of attnpress_ragged_args");

/* The arguments of the kernels that have `ragged` or `paged` in their names. K and V of pages are
 * (num_pages, page_size, heads_kv, head dim). */
typedef struct attnpress_fwd_ragged_args {
  attnpress_fwd_args fwd;
  attnpress_ragged_args ragged;
} attnpress_fwd_ragged_args;

ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_ragged_args) == 528,
                        "layout of attnpress_fwd_ragged_args");

/* The arguments of the kernels that have `runs` in their names. The grid is row block (fastest), tile
 * head, run; where thread blocks have several key heads, these heads take the tile heads' place. A
 * sequence costs its key blocks and some more; a run is a range of the cost of all
 * sequences, one after the other, the same of all heads. */
typedef struct attnpress_fwd_runs_args {
  attnpress_fwd_ragged_args batch; /* fwd.num_splits and fwd.key_blocks_per_split mean nothing;
                                      out_partial and lse_partial have (2, runs, heads_q, seqlen_q)
                                      rows: the first of a sequence of several parts is at (1, its
                                      run), the others are at (0, theirs). Where thread blocks have
                                      several key heads, (2, runs, heads_kv, 8) */
  int32_t *cuts; /* (runs, 2): the sequence that begins in a run and goes on in others, and the last
                    of these; -1: there is none. Of kernels whose parts the combine kernel adds up */
  uint64_t *counts; /* (runs, tile heads, row blocks), of the others: parts that are there of the
                       sequence that begins in a run; anything before, and no count afterwards */
  int32_t runs;
  int32_t sequence_cost; /* in units of cost, beside its key blocks'; at least 1 */
  int32_t least_cost;    /* of a run: where that is not there, runs are fewer */
  int32_t least_blocks;  /* of a part */
} attnpress_fwd_runs_args;

ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_runs_args) == 560,
                        "layout of attnpress_fwd_runs_args");

/* A key block of so many keys and of fewer costs a unit, one of twice as many two. */
enum { ATTNPRESS_RUNS_SEQUENCES_MAX = 1024, ATTNPRESS_RUNS_UNIT_KEYS = 128 };

/* A count of parts is this and their number; what other kernels leave in a workspace is no count. */
#define ATTNPRESS_RUNS_COUNT 0x93d1a6c47be5f000ull

typedef struct attnpress_fwd_combine_ragged_args {
  attnpress_fwd_combine_args combine;
  attnpress_ragged_args ragged;
  const int32_t *sequence_splits; /* (batch): parts of each sequence; NULL: num_splits of all */
  /* As in attnpress_fwd_runs_args: rows are those of runs, not of sequences, and parts those of
   * num_splits runs; or NULL. */
  const int32_t *cuts;
} attnpress_fwd_combine_ragged_args;

ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_combine_ragged_args) == 296,
                        "layout of attnpress_fwd_combine_ragged_args");

/* A sequence as the schedule kernel hands it on. */
typedef struct attnpress_sequence_units {
  int32_t sequence;
  int32_t seqlen_q, seqlen_k;
  int32_t q_batch, q_row; /* of its first query: batch of q and out, and row in it */
  int32_t k_batch, k_row; /* of its first key */
  int32_t blocks;         /* of rows, or of keys, of each head */
  int32_t section_heads;  /* heads whose blocks are taken together; the last may be fewer */
  int32_t first_split;    /* of those at fixed places, that some row sees; with split_keys units
                             are of one split each, and all of one split come before the next's */
  int64_t first_page;     /* where keys are in pages: the entry of the first */
} attnpress_sequence_units;

ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_sequence_units) == 48,
                        "layout of attnpress_sequence_units");

/* One order of the units of work, which are blocks of rows or of keys of one head of a sequence. A
 * sequence's units are numbered section by section; in a section, block after block, each with the
 * section's heads. */
typedef struct attnpress_schedule_order {
  int32_t *first_unit;                 /* (batch + 1): units before each place in the order */
  attnpress_sequence_units *sequences; /* (batch), in that order */
  int32_t by_keys;    /* 1: blocks are of keys, and walk over queries; else of rows, over keys */
  int32_t positions;  /* of a block */
  int32_t heads;      /* that have blocks of their own: tile heads of rows, key heads of keys */
  int32_t sharing;    /* of these, heads that walk over the same */
  int32_t walk_bytes; /* that those read at a position that they walk over */
  int32_t whole;      /* a sequence with no more positions of blocks is one block */
} attnpress_schedule_order;

ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_schedule_order) == 40,
                        "layout of attnpress_schedule_order");

enum {
  ATTNPRESS_SCHEDULE_ORDERS = 3,
  ATTNPRESS_SCHEDULE_PART = 1024 /* sequences that are put in order together */
};

/* A ready schedule is the order of sequences alone, which a caller keeps: the batch, then the sequence
 * at each place of the order, then the place of each sequence. */
enum { ATTNPRESS_READY_ORDER = 1 }; /* where the order begins; the places lie a batch behind it */

/* The arguments of the schedule kernel, which runs before kernels of ragged batches and writes what
 * is not const. A thread block a part of the batch, of each order: those of the first order come
 * first, and a batch of none has one part. */
typedef struct attnpress_fwd_schedule_args {
  attnpress_ragged_args ragged;
  uint32_t *ticket; /* set to 0; or NULL */
  int32_t batch;
  int32_t seqlen_q; /* the most of a sequence; one with more has none */
  attnpress_schedule_order order[ATTNPRESS_SCHEDULE_ORDERS];
  int32_t *sequence_splits; /* (batch), by sequence; not read without split_keys */
  int32_t split_keys;       /* keys of a split, where units are of one split each; else 0 */
  int32_t window;           /* 1: `score` has a window, which says what splits there are */
  attnpress_score_args score;
  int32_t
      *ready; /* (1 + 2 batch): a ready schedule, of the first order, is written, and nothing else
                     of the orders; or NULL */
} attnpress_fwd_schedule_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_fwd_schedule_args, batch, 168)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_schedule_args) == 472,
                        "layout of attnpress_fwd_schedule_args");

/* The arguments of the backward kernels that have `ragged` in their names. bwd.batch is the number of
 * sequences; bwd.seqlen_q and bwd.seqlen_k are bounds: a sequence with more keys counts as one with
 * none, as one with more queries does. bwd.blocks means nothing.
 *
 * The grid has a thread block a unit of the order, in that order: bwd and bwd_dkv take blocks of keys,
 * the others of rows; of bwd_dq causal ones last to first. What the grid has more than there are
 * units, as the host knows sums alone, returns. bwd_sinks has no order, but a thread block a head.
 *
 * The workspace is (heads_q, rows) with the rows of one sequence after those of another, from a
 * multiple of 128 rows of lse_log2 and delta, and of 16 rows of dq_sum, on: sequence b's begin at
 * (n + 128 b) / 128 * 128 and at (n + 16 b) / 16 * 16, n being the rows of q before it. So row_tiles *
 * 16 rows of lse_log2 and delta, and sum_tiles row tiles of dq_sum, are those of a head.
 *
 * One thread block has all of the dQ of a sequence with 1 to direct_keys keys: bwd stores it to dq,
 * bwd_delta does so for a sequence without keys, and bwd_convert leaves both alone. Where these are
 * keys of one block of bwd and all sequences are so short, dq_sum is NULL. Where they are more
 * (gradient_chain.cuh), `whole` of the order is the same; what a key block leaves to the next lies in
 * dq_sum, where the sequence's sum would, or in the thread block's own (own_sums of bwd).
 *
 * Where blocks of bwd share groups, parts have query heads each, and the order has heads_kv *
 * group_parts heads. dk_sum is (group_parts, heads_kv, key_tiles, HEAD_DIM / 8, 128), key blocks behind
 * one another as in the order, and dv_sum alike; of a sequence's last one tiles past its end are there.
 * Then bwd_convert makes dk, and dv, as dq of such a call's keys, of which bwd.blocks are those of a key
 * block, in the order of bwd: a thread block has 32 keys of one, at most.
 *
 * Where bwd.zero_ahead is not 0, bwd_delta has the order of bwd, and a thread block for each query head
 * of the first zero_ahead units' key heads: it does the shares of the first units, up to the end of a
 * sequence, and warps of bwd those of units that come zero_ahead later (gradient_share.cuh).
 * bwd.dq_zeroed is (batch, heads_kv), 0 before bwd, by sequence: warps that have done their part of a
 * share of it; and behind it where the first units end. */
typedef struct attnpress_bwd_ragged_args {
  attnpress_bwd_args bwd;
  attnpress_ragged_args ragged; /* lse_row_stride, lse_packed and lse_log2: of bwd.lse */
  int64_t dlse_row_stride;
  int32_t dlse_packed; /* 1: rows of dlse are those of q */
  int32_t
      direct_keys; /* a sequence with no more keys needs no zeros in dq_sum, and no conversion */
  const int32_t *first_unit; /* as in attnpress_schedule_order */
  const attnpress_sequence_units *sequences;
} attnpress_bwd_ragged_args;

ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_bwd_ragged_args) == 776,
                        "layout of attnpress_bwd_ragged_args");

/* The arguments of bwd_dbias of sequences of their own lengths, which has no order: a thread block a
 * tile of the gradient, as in attnpress_bwd_dbias_args. lse_log2 and delta lie as in
 * attnpress_bwd_ragged_args. */
typedef struct attnpress_bwd_dbias_ragged_args {
  attnpress_bwd_dbias_args
      dbias; /* whose bwd has the bounds of the lengths; walk_row_blocks: theirs */
  attnpress_ragged_args ragged;
  int32_t rows, keys; /* of the gradient: bounds or more; what no sequence has is 0 */
} attnpress_bwd_dbias_ragged_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_bwd_dbias_ragged_args, ragged, 656)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_bwd_dbias_ragged_args) == 824,
                        "layout of attnpress_bwd_dbias_ragged_args");

/* Of bwd and bwd_dkv for compute capability 9.0. Tensor maps as in attnpress_bwd_sm90_args, of q, dout, k and v as
 * wholes: no row of `bwd` says where they lie. */
typedef struct attnpress_bwd_sm90_ragged_args {
  attnpress_tensor_map q;
  attnpress_tensor_map dout;
  attnpress_tensor_map k;
  attnpress_tensor_map v;
  attnpress_bwd_ragged_args batch;
  attnpress_tensor_map out; /* as dout; where bwd.zero_ahead is 0, nothing */
} attnpress_bwd_sm90_ragged_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_bwd_sm90_ragged_args, batch, 512)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_bwd_sm90_ragged_args) == 1472,
                        "layout of attnpress_bwd_sm90_ragged_args");

/* The arguments of ragged kernels for compute capability 9.0. Tensor maps describe q, k and v as a
 * whole: of `sm90` the fields that number units mean nothing here. Thread block b takes unit b, then
 * each unit that is the ticket's number plus the thread blocks of the grid. Row blocks are numbered
 * first to last, causal and window ones last to first. With a ready schedule `first_unit` and
 * `sequences` are not read: units are numbered as the schedule kernel would number them, in the order
 * that is ready, and where it is none of all sequences, those that it leaves out come last. */
typedef struct attnpress_fwd_sm90_ragged_args {
  attnpress_fwd_sm90_args sm90;
  attnpress_ragged_args ragged;
  uint32_t *ticket; /* NULL, with a ready schedule: block b takes the units b, b + grid ... */
  const int32_t *first_unit;
  const attnpress_sequence_units *sequences;
  /* Of K and V in pages: a box of the tensor maps has `box_rows` rows, which divide a page and
   * BLOCK_N, and starts at (0, 0, head * head step, row / 8, page). It has all slabs where the head dim
   * is a multiple of 64; else one, and starts at column slab * 64. 0: there are no boxes; rows are
   * found by `sm90.fwd`. */
  int32_t box_rows;
  int32_t k_head_step, v_head_step;
  int32_t reserved_2;
  const int32_t *ready;        /* (1 + 2 batch); NULL: the schedule kernel ran before */
  int32_t *sequence_splits;    /* (batch): written with `ready`, for the combine kernel; or NULL */
  int32_t walk_bytes, sharing; /* as in attnpress_schedule_order; read with `ready` */
  int64_t reserved[1];
} attnpress_fwd_sm90_ragged_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_fwd_sm90_ragged_args, ragged, 896)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_sm90_ragged_args) == 1152,
                        "layout of attnpress_fwd_sm90_ragged_args");
