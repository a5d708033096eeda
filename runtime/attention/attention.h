/* The parts of the attention family, in the order of a call: validate -> choose -> arguments, or the
 * CPU backend. forward.c puts them together. */
#pragma once
#include "../generated/families.h"
#include "attention/rows.h"
#include "attnpress/args/ragged.h"
#include "attnpress/args/score_mod.h"
#include "call.h"
#include "press/target.h"

/* ---- forward.c, backward.c ------------------------------------------------------------------- */

/** attnpress_forward() and attnpress_backward() of attnpress_forward_args and
 * attnpress_backward_args; the workspace is the lender's where there is one. */
attnpress_status ap_forward_lent(attnpress_handle *handle, const void *args, void *stream,
                                 ap_lender *lender);
attnpress_status ap_backward_lent(attnpress_handle *handle, const void *args, void *stream,
                                  ap_lender *lender);

/* ---- validate.c ------------------------------------------------------------------------------ */

/** A forward call, checked and reduced to what choosing a kernel needs. In a range, batch and
 * lengths are maxima, and 0 stands for any. */
typedef struct ap_problem {
  int32_t batch, heads_q, heads_kv, seqlen_q, seqlen_k, hdim, hdim_v;
  int32_t dtype, mask;
  int32_t window_top_left;
  int64_t window_left, window_right, window_chunk; /* as in ap_mask */
  int32_t softcap, alibi, dropout;                 /* 1: the call has it */
  int32_t bias;                                    /* its dtype; 0: the call has none */
  int32_t mod_score, mod_mask;                     /* 1: a snippet has it */
  int32_t mod_grad;                                /* 1: gradients of its buffers are wanted */
  int32_t mod_mask_uses;                           /* AP_MOD_USES_...: what its mask depends on */
  unsigned char mod_key[AP_SNIPPET_KEY_BYTES];     /* of the snippet */
  int32_t dsinks;     /* 1: of a backward call, the gradient by the sinks is wanted */
  int32_t sequences;  /* AP_ATTENTION_SEQUENCES_...; of others than DENSE, the lengths are bounds */
  int32_t ready;      /* 1: the call has a schedule */
  int32_t appends;    /* 1: ap_appends_on_the_way() */
  int64_t rows_q;     /* of these, the query rows of all sequences; else 0 */
  int64_t rows_k;     /* likewise of keys; 0 where they are in pages */
  int32_t dbias;      /* AP_DBIAS...; 0: not wanted */
  int32_t dbias_rows; /* of sequences of their own lengths, its rows and keys; else 0 */
  int32_t dbias_keys;
  int32_t num_splits; /* as asked for; 0: to be chosen */
  int32_t batch_invariant;
  int32_t heads;            /* AP_HEADS_...: CHOSEN, except where a range tries each */
  int32_t head_rows;        /* 1: ap_head_rows_fit() */
  int32_t tma;              /* 1: tensor maps can describe Q, K and V */
  int32_t tma_min, tma_max; /* the least and the most that `tma` is within the range */
} ap_problem;

/** Query heads of a key head. */
static inline int32_t ap_group_of(const ap_problem *problem) {
  return problem->heads_kv ? problem->heads_q / problem->heads_kv : 1;
}

/** How a call with many heads of one query is run. AS_GIVEN: like any other, with as many heads of a
 * key head in a tile as its rows take. IN_BLOCKS: by decode kernels, in row blocks. AS_ROWS: as though
 * the heads of each key head were that many queries. */
enum { AP_HEADS_CHOSEN, AP_HEADS_AS_GIVEN, AP_HEADS_IN_BLOCKS, AP_HEADS_AS_ROWS };

enum { AP_SPLITS_MAX = 256 };
enum { AP_PADDED_ROWS = 128 }; /* of lse_log2 and delta, of which a sequence has a multiple */

/** ap_problem.dbias: that it is wanted, and of what it has one. */
enum { AP_DBIAS = 1, AP_DBIAS_ONE_BATCH = 2, AP_DBIAS_ONE_HEAD = 4, AP_DBIAS_ONE_ROW = 8 };

/** The problem's mask in full, as that of a kernel. */
static inline ap_mask ap_problem_mask(const ap_problem *p, int32_t kind) {
  return (ap_mask){.kind = kind,
                   .seqlen_q = p->seqlen_q,
                   .seqlen_k = p->seqlen_k,
                   .left = p->window_left,
                   .right = p->window_right,
                   .chunk = p->window_chunk,
                   .center = p->window_top_left ? 0 : (int64_t)p->seqlen_k - p->seqlen_q};
}

const char *ap_dtype_name(int32_t dtype); /* "fp16" */
/** Checks all of a call's arguments. The workspace is not looked at. */
attnpress_status ap_validate_forward(const attnpress_forward_args *args, ap_check how,
                                     ap_problem *problem);

/** The same of a backward call; num_splits is 0, and the masks of tensor maps are the forward's. */
attnpress_status ap_validate_backward(const attnpress_backward_args *args, ap_check how,
                                      ap_problem *problem);

/** Whether a plan of the problem `planned`, of the same pass, serves the problem `p`; the sentence
 * says what differs. What a backward problem cannot have is 0 in both. */
attnpress_status ap_check_served(const ap_problem *p, const ap_problem *planned, int32_t range);

/* ---- choose_backward.c ----------------------------------------------------------------------- */

/** An order of a ragged call's units: attnpress_schedule_order, and where in the workspace it is. */
typedef struct ap_backward_order {
  int32_t by_keys, positions, whole;
  size_t first_unit_offset_bytes, sequences_offset_bytes;
} ap_backward_order;

enum { AP_BACKWARD_LAUNCHES_MAX = 16 }; /* of a call, which has fewer */

/** What a backward call launches, and where its workspace holds what. `launches` is filled, too. */
typedef struct ap_backward_plan {
  int32_t row_tiles, sum_tiles;  /* as in attnpress_bwd_args */
  int32_t fused;                 /* 1: dq is summed in fp32 in the workspace */
  int32_t direct_keys;           /* as in attnpress_bwd_ragged_args */
  int32_t has_sum;               /* 1: dq_sum is there */
  int32_t chains;                /* 1: units of bwd have several key blocks */
  int32_t own_sums;              /* thread blocks with a part of it each; 0: sequences have them */
  size_t delta_offset_bytes;     /* behind lse_log2 */
  size_t dq_sum_offset_bytes;    /* behind delta; only where it is there */
  int32_t can_prepare;           /* 1: bwd is a kernel that can, and dq_zeroed is there */
  int32_t can_zero_ahead;        /* 1: bwd is a kernel that can, and dq_zeroed is there */
  int32_t can_pass_on;           /* 1: bwd is a kernel that can, and dq_zeroed has room for marks */
  int32_t zero_ahead;            /* as in attnpress_bwd_args */
  size_t dq_zeroed_offset_bytes; /* behind dq_sum */
  int32_t can_take;              /* 1: bwd is a kernel that can, and the counter is there */
  int32_t takes;                 /* 1: its thread blocks take key blocks one after the other */
  size_t taken_offset_bytes;     /* behind dq_zeroed */
  int32_t blocks[AP_BACKWARD_LAUNCHES_MAX];  /* of each launch: the argument of that name, */
  int32_t abreast[AP_BACKWARD_LAUNCHES_MAX]; /* and so here; 0: it has none; less: that less 1 */
  int32_t orders;                            /* of ragged calls; 0: no schedule kernel runs */
  ap_backward_order order[ATTNPRESS_SCHEDULE_ORDERS];
  int32_t order_of[AP_BACKWARD_LAUNCHES_MAX]; /* of each launch that has one */
  int32_t group_parts;                        /* as in attnpress_bwd_args, */
  int32_t key_tiles;                          /* and so here, of these keys alone that parts have */
  int32_t by_steps;                 /* 1: parts of walks have equal steps, not query heads */
  int32_t whole_blocks, whole_keys; /* key blocks of each head that have no parts; their keys */
  int64_t part_rows;                /* of dk_sum and dv_sum, of all parts; or a bound */
  size_t dk_sum_offset_bytes;       /* where group_parts > 1: behind dq_zeroed */
  size_t dv_sum_offset_bytes;       /* behind dk_sum */
  int32_t dk_convert, dv_convert;   /* the launches that make dk and dv of them; 0: none */
  int32_t dbias_row_blocks;         /* of the kernel for dbias: of its rows or, where it has
                                        one, of all that it sums up */
} ap_backward_plan;

/** Whether thread blocks of a kernel can zero the sum of dq ahead of those that add to it. */
int ap_can_zero_ahead(const ap_variant *variant);

/** Whether warps of the kernel can do what bwd_delta does, for units that come later. */
int ap_can_prepare(const ap_launch *launch);

/** Whether thread blocks of a kernel can take key blocks one after the other. */
int ap_can_take(const ap_variant *variant);

/** Whether a kernel is for few query rows, which stay in shared memory while thread blocks walk over equal
 * parts of all key blocks. */
int ap_keeps_rows(const ap_variant *variant);

/** Whether these may be of one unit, which passes dq on from each to the next. */
int ap_can_chain(const ap_variant *variant);

/** Of outputs with fewer columns thread blocks may pass dq on: bwd_delta readies their marks. */
enum { AP_PASS_COLUMNS = 192 };

/** Whether thread blocks of a kernel can pass dq on, where each row is seen by those of two blocks of
 * keys at most; and whether it is, of blocks of so many rows and keys, and by one key at least. */
int ap_can_pass_on(const ap_launch *launch);
int ap_seen_by_two(const ap_mask *mask, int32_t rows, int32_t keys);
attnpress_status ap_choose_backward(const ap_problem *problem, int deterministic,
                                    const ap_device *device, ap_backward_plan *plan,
                                    ap_launches *launches);
/** Every kernel that ap_choose_backward() may return for a problem within these maxima, and the bound
 * of the workspace: SIZE_MAX where there is none. */
attnpress_status ap_choose_backward_range(const ap_problem *maxima, int deterministic,
                                          const ap_device *device, ap_launches *range);

/* ---- choose_group_parts.c -------------------------------------------------------------------- */

/** Of the heads of a causal kernel's grid, or parts of groups, whose thread blocks are `blocks` each, how
 * many take turns: the last ones (gradient_order.cuh). */
int64_t ap_turns(const ap_problem *problem, const ap_device *device, const ap_launch *launch,
                 int64_t blocks, int64_t heads);
/** How thread blocks of bwd share the walks of a key head: as in ap_backward_plan. */
typedef struct ap_parts {
  int32_t parts, by_steps, whole_blocks;
} ap_parts;

ap_parts ap_choose_parts(const ap_problem *problem, const ap_device *device,
                         const ap_launch *launch);
/** The same of sequences of their own lengths, with `blocks` key blocks of a head at most, whose parts have
 * query heads each: how many; and, of key blocks of `keys` keys, what ap_most_part_rows() says, whatever
 * lengths sequences have where `any_keys`. */
int32_t ap_choose_sequence_parts(const ap_problem *problem, const ap_device *device,
                                 const ap_launch *launch, int64_t blocks);
int64_t ap_most_sequence_part_rows(const ap_problem *problem, const ap_device *device, int32_t keys,
                                   int any_keys);
/** Whether another launch of bwd, each of whose steps takes `percent` of one of `launch`, ends before it; of
 * the key blocks of a dense call, each with its best parts. */
int ap_takes_less(const ap_problem *problem, const ap_device *device, const ap_launch *launch,
                  const ap_launch *other, int percent);
/** Rows of dk_sum and dv_sum that a part has, where the first `whole_keys` keys have none, and that all
 * parts of a call of these extents or smaller ones have at most. */
int64_t ap_part_rows(const ap_problem *problem, int64_t whole_keys);
int64_t ap_most_part_rows(const ap_problem *problem, const ap_device *device,
                          const ap_launch *launch);

/* ---- heads.c --------------------------------------------------------------------------------- */

/** 1 where a call has many heads of one query, which may be run in other ways than AS_GIVEN. */
int ap_has_many_heads(const ap_problem *problem);
/** The way that a call is run. */
int32_t ap_choose_heads(const ap_problem *problem);
/** 1 where strides and sinks leave the heads of a key head to be rows. */
int ap_head_rows_fit(const attnpress_forward_args *args);
/** Makes the heads of a key head its queries: of a problem alone; or of a call that does fit, and its
 * problem. */
void ap_heads_to_rows(ap_problem *problem);
void ap_take_heads_as_rows(attnpress_forward_args *args, ap_problem *problem);

/* ---- choose.c, choose_rows.c, choose_splits.c, choose_range.c --------------------------------- */

/** How a problem is run on a device. */
typedef struct ap_plan {
  ap_variant variant;
  uint64_t variant_key; /* as in ap_launch */
  ap_tile tile;
  const char *target;
  int32_t heads_are_rows; /* 1: they run what ap_take_heads_as_rows() makes of the call */
  int32_t heads_per_tile, row_blocks, num_splits, key_blocks_per_split;
  int32_t whole_row_blocks;   /* as in attnpress_fwd_args */
  int32_t fixed_split_blocks; /* as in attnpress_ragged_args; not 0: of a batch-invariant call */
  int32_t runs;               /* as in attnpress_fwd_runs_args; 0: there are none */
  size_t cuts_offset_bytes;   /* of runs: behind lse_partial */
  unsigned grid;              /* 0: the output is empty */
  /* The kernel may begin before what was launched before it has ended: it waits for that itself. */
  int overlaps, combine_overlaps;
  int32_t launch_smem_bytes; /* where more than the tile's: for one thread block an SM */
  /* Only where thread blocks take one unit of work after another (tile.producer), and as in
   * attnpress_fwd_sm90_args: */
  int32_t heads, section_heads, group_units, group_rounds, rounds;
  /* Only where such a kernel has ragged sequences (`schedule` runs before it): */
  ap_variant schedule;
  ap_tile schedule_tile;
  const char *schedule_target;
  size_t first_unit_offset_bytes, sequences_offset_bytes; /* in the workspace, behind the ticket */
  size_t sequence_splits_offset_bytes; /* behind those; where units are of one split each */
  int32_t ready;   /* 1: the call's own schedule takes the place of that kernel, and of its units */
  int32_t tickets; /* 1: the kernel takes units by tickets; 0: with `ready`, one a thread block */
  /* Only where the variant is split, and ap_needs_combine(): */
  ap_variant combine;
  uint64_t combine_key;
  ap_tile combine_tile;
  const char *combine_target;
  unsigned combine_grid;
  int32_t combine_block_rows;      /* as in attnpress_fwd_combine_args */
  size_t out_partial_offset_bytes; /* in the workspace, behind the schedule if there is one */
  size_t lse_partial_offset_bytes; /* behind out_partial */
  /* Only where a snippet has a mask, and ap_has_map(): */
  ap_variant map;
  ap_tile map_tile;
  const char *map_target;
  unsigned map_grid;
  int32_t map_batch,
      map_heads;           /* batches, and tile heads, that have maps of their own: all, or 1 */
  int32_t map_words;       /* of a row block */
  size_t map_offset_bytes; /* in the workspace, behind the splits' */
  size_t map_bits_offset_bytes; /* behind the map; 0: it has no bits */
  size_t workspace_bytes;
} ap_plan;

attnpress_status ap_choose(const ap_problem *problem, const ap_device *device, ap_plan *plan);
/** Every kernel that ap_choose() may return for a problem within these maxima, each once, and the
 * bound of the workspace: SIZE_MAX where there is none. */
attnpress_status ap_choose_range(const ap_problem *maxima, const ap_device *device,
                                 ap_launches *range);
/** Words of the map of a snippet's mask for the row blocks of a tile, of how many batches and tile
 * heads, and how many of a row block; -1: they pass 2^31 - 1. */
int64_t ap_count_map_words(const ap_problem *problem, const ap_tile *tile, int32_t heads_per_tile,
                           int32_t *batches, int32_t *heads, int32_t *words);
/** Words of the bits of so many rows of the map's words, of `words` each: 0 where kernels have no use for
 * them, where each head would need its own, and where rows are long. */
int64_t ap_count_map_bits(const ap_problem *problem, const ap_tile *tile, int64_t rows,
                          int32_t words);
/** 1 where a thread block that adds up the splits of its rows, at fixed places, keeps them in shared
 * memory: where the tile leaves the room of a third stage. */
static inline int ap_keeps_output(int32_t hdim, int32_t hdim_v, int32_t stages) {
  return hdim == AP_ATTENTION_KEPT_COLUMNS && hdim_v == AP_ATTENTION_KEPT_COLUMNS && stages == 2;
}
/** Rows of a consumer of a tile with a producer: those of a warpgroup, or the first of them. */
static inline int32_t ap_consumer_rows(const ap_tile *tile) {
  const int32_t rows = tile->field[AP_ATTENTION_TILE_BLOCK_M];
  return rows < AP_ATTENTION_WARPGROUP_ROWS ? rows : AP_ATTENTION_WARPGROUP_ROWS;
}
/** 1 where the map kernel runs before the forward kernel: of sequences of their own lengths the
 * forward kernel asks a snippet's mask about every pair. */
static inline int ap_has_map(const ap_problem *problem) {
  return problem->mod_mask && problem->sequences == AP_ATTENTION_SEQUENCES_DENSE;
}
/** The schedule kernel. */
ap_variant ap_schedule_variant(void);
/** Its thread blocks for an order of so many sequences. */
uint32_t ap_schedule_parts(int32_t batch);
/** 1 where thread blocks stay for units of work that a producer brings, and count them; those that have
 * runs do not. */
static inline int ap_works_through_units(const ap_plan *plan) {
  return plan->tile.field[AP_ATTENTION_TILE_PRODUCER] && plan->runs == 0;
}
/** 1 where the schedule kernel runs before the forward kernel, or did for a schedule that is ready. */
static inline int ap_is_scheduled(const ap_plan *plan) {
  return ap_works_through_units(plan) &&
         plan->variant.axis[AP_ATTENTION_SEQUENCES] != AP_ATTENTION_SEQUENCES_DENSE;
}
/** 1 where each unit of scheduled work is one split at a fixed place; else its thread block adds up all
 * splits of its rows. */
static inline int ap_schedules_splits(const ap_plan *plan) {
  return ap_is_scheduled(plan) && plan->num_splits > 1 && !plan->variant.axis[AP_ATTENTION_SHARED];
}
/** 1 where a batch-invariant call's kernel has one beside it of whose clusters so many thread blocks
 * share a split (AP_ATTENTION_SHARED_FOUR, AP_ATTENTION_SHARED_TWO); makes a plan of it. */
int ap_may_share_splits(const ap_variant *variant, int32_t shared);
attnpress_status ap_share_splits(ap_plan *plan, int32_t shared);
/** How many share a split, by the variant's axis; 0: each has splits of its own. */
static inline int32_t ap_split_sharing(int32_t shared) {
  return shared == AP_ATTENTION_SHARED_FOUR ? 4 : shared == AP_ATTENTION_SHARED_TWO ? 2 : 0;
}
/** Thread blocks of a cluster; 0: each by itself. */
static inline uint32_t ap_shared_cluster(const ap_plan *plan) {
  return (uint32_t)(ap_split_sharing(plan->variant.axis[AP_ATTENTION_SHARED]) * plan->num_splits);
}
/** 1 where thread blocks that have runs have AP_ATTENTION_RUNS_HEADS key heads each: sm90's. */
static inline int ap_runs_share_keys(const ap_plan *plan) {
  return plan->variant.axis[AP_ATTENTION_RUNS] && plan->variant.axis[AP_ATTENTION_ARCH] == 90;
}
/** Thread blocks of a run. */
static inline int32_t ap_run_blocks(const ap_plan *plan, int32_t heads_q) {
  const int32_t heads = heads_q / plan->heads_per_tile;
  return ap_runs_share_keys(plan) ? heads / AP_ATTENTION_RUNS_HEADS : heads;
}
/** 1 where thread blocks that have runs add up the parts of sequences themselves: from that head dim on
 * (`adds` in templates/attention/flash_fwd_runs_sm80.cu.j2), and those that share keys. */
enum { AP_ATTENTION_RUNS_ADDING_COLUMNS = 128 };
static inline int ap_runs_add_up(const ap_plan *plan) {
  return plan->runs > 0 &&
         (plan->variant.axis[AP_ATTENTION_HDIM] >= AP_ATTENTION_RUNS_ADDING_COLUMNS ||
          ap_runs_share_keys(plan));
}
/** 1 where the combine kernel runs after the forward kernel. */
static inline int ap_needs_combine(const ap_plan *plan) {
  return plan->variant.axis[AP_ATTENTION_SPLIT] && !ap_runs_add_up(plan) &&
         (!ap_is_scheduled(plan) || ap_schedules_splits(plan));
}
/** Positions of a row block. */
int64_t ap_row_block_positions(const ap_tile *tile, int32_t heads_per_tile);
/** How a kernel divides integers from 0 to 2^31 - 1 by a positive one. Inline, as a struct of three
 * words that a function returns is slow to come by. */
static inline attnpress_divisor ap_divisor(int32_t value) {
  const uint32_t log2_up = value > 1 ? 32 - (uint32_t)__builtin_clz((uint32_t)value - 1) : 0;
  const uint32_t shift = 31 + log2_up;
  const uint64_t multiplier = (((uint64_t)1 << shift) + (uint64_t)value - 1) / (uint64_t)value;
  return (attnpress_divisor){value, (uint32_t)multiplier, shift};
}
/** The split count for `blocks` thread blocks of one split over `key_blocks` key blocks, on a
 * device that holds `slots` thread blocks at once. */
int ap_choose_num_splits(int64_t blocks, int64_t key_blocks, int64_t slots);
/** Thread blocks of a tile that an SM holds, estimated from shared memory, threads and registers. */
int ap_blocks_per_sm(const ap_tile *tile, const ap_device *device);
/** Keys of forward calls, at most, that ap_may_be_short() is about. */
enum { AP_SHORT_KEYS_MAX = 128 };
/** 1 where some call like this one, of fewer rows and keys, may run sm80's kernels where sm90 has others:
 * a plain dense one. */
int ap_may_be_short(const ap_problem *problem, const ap_device *device);

/* ---- tensor_maps.c --------------------------------------------------------------------------- */

/** 1 where tensor maps can describe Q, K and V, if the batch and the lengths are these. */
int ap_tensor_maps_fit(const attnpress_forward_args *args, int64_t batch, int64_t seqlen_q,
                       int64_t seqlen_k);
/** The same of sequences of their own lengths. */
int ap_ragged_maps_fit(const attnpress_forward_args *args);
/** Rows of the boxes of K and V in pages: the most that divide a page and a key block. */
int32_t ap_page_box_rows(const attnpress_forward_args *args, const ap_tile *tile);
/** How far apart the map of K or V in pages has two heads. */
int32_t ap_page_head_step(const attnpress_tensor *t);
/** Writes the maps of a call whose problem has `tma` and whose output is not empty. page_box_rows: what
 * ap_page_box_rows() says, of keys in pages. */
attnpress_status ap_tensor_maps_encode(ap_maps *maps, const attnpress_forward_args *args,
                                       const ap_plan *plan, int32_t page_box_rows,
                                       attnpress_fwd_sm90_args *kernel_args);
/** Whether an sm90 kernel has one of the bias. */
static inline int ap_has_bias_map(const ap_variant *v) {
  return v->axis[AP_ATTENTION_BIAS] == AP_ATTENTION_BIAS_FP16 ||
         v->axis[AP_ATTENTION_BIAS] == AP_ATTENTION_BIAS_BF16;
}
/** Writes the map of a bias of 16 bits; where there can be none, bias_alignment says so. */
attnpress_status ap_bias_map_encode(ap_maps *maps, const attnpress_forward_args *args,
                                    const ap_tile *tile, attnpress_fwd_sm90_bias_args *out);
/** The same of a backward call, of Q, K, V, dO and the output. */
int ap_backward_maps_fit(const attnpress_backward_args *args, int64_t batch, int64_t seqlen_q,
                         int64_t seqlen_k);
/** Where the maps of a backward kernel go. */
typedef struct ap_backward_maps {
  attnpress_tensor_map *q, *dout, *k, *v, *out; /* out: or NULL */
} ap_backward_maps;
attnpress_status ap_backward_maps_encode(ap_maps *maps, const attnpress_backward_args *args,
                                         const ap_tile *tile, ap_backward_maps to);
