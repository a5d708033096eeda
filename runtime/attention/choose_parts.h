/* What the choices of a forward call share: choose_rows.c, choose_combine.c, choose_time.c,
 * choose_splits.c, choose.c and choose_range.c, each of which calls those before it. */
#pragma once
#include "attention/attention.h"
#include "core/numbers.h"

enum { AP_WORKSPACE_ALIGNMENT = 256 };

static inline size_t ap_align_workspace(size_t bytes) {
  return (bytes + AP_WORKSPACE_ALIGNMENT - 1) & ~(size_t)(AP_WORKSPACE_ALIGNMENT - 1);
}

/** What the thread blocks of a scheduled kernel keep of the splits that they add up: 8 columns for lse,
 * and those of O in groups of 64; of a consumer's rows, of which a tile of few has the first. */
static inline size_t ap_kept_bytes(int32_t hdim_v, const ap_tile *tile, size_t blocks) {
  const size_t columns = 8 + 64 * (size_t)ceil_div(hdim_v, 64);
  const int32_t block_m = tile->field[AP_ATTENTION_TILE_BLOCK_M];
  const int32_t rows =
      block_m > AP_ATTENTION_WARPGROUP_ROWS ? block_m : AP_ATTENTION_WARPGROUP_ROWS;
  return blocks * (size_t)rows * columns * sizeof(float);
}

/* ---- choose_rows.c --------------------------------------------------------------------------- */

/** A length beyond all points where the choice of the rows changes. */
enum { AP_SEQLEN_PROBED = 4096 };

/** Fills mask, decode, architecture and packing; the tile stays that of one split. */
attnpress_status ap_choose_rows(const ap_problem *problem, const ap_device *device, ap_plan *plan);
/** Query heads of a group that can share a tile: all, or some of more than a warpgroup has rows; 1:
 * none can. */
int32_t ap_packed_heads(const ap_problem *problem, const ap_tile *tile);
/** Query heads that share a tile: so many, or one. */
int32_t ap_choose_packing(const ap_problem *problem, const ap_tile *tile);
/** Row blocks of a head, or of the heads that share a tile. Tiles with a producer hold whole
 * positions in each warpgroup. */
int64_t ap_count_row_blocks(const ap_problem *problem, const ap_tile *tile, int32_t heads_per_tile);
/** Key blocks that the rows of a row block see together, at most. */
int64_t ap_count_key_blocks(const ap_problem *problem, const ap_tile *tile, int32_t heads_per_tile);

/* ---- choose_combine.c ------------------------------------------------------------------------ */

/** Fills the combine kernel of a plan. */
attnpress_status ap_find_combine(const ap_problem *problem, const ap_device *device, ap_plan *plan);
/** Has it be the one that adds up splits at fixed places of few rows; 1 where a plan's are, of so many. */
attnpress_status ap_combine_few(ap_plan *plan);
int ap_combines_few(const ap_problem *problem, const ap_plan *plan, int64_t rows);
/** Rows of a call; and the first of these, which a plan does not split. */
int64_t ap_rows_of(const ap_problem *problem);
int64_t ap_whole_rows(const ap_plan *plan, int32_t seqlen_q);
/** Rows of the combine kernel's thread blocks, and how many of these there are, for so many rows. */
int32_t ap_choose_combine_rows(const ap_problem *problem, int64_t rows, const ap_device *device,
                               const ap_tile *combine, int32_t num_splits);
int64_t ap_count_combine_blocks(const ap_problem *problem, int64_t rows, const ap_tile *combine,
                                int32_t block_rows);

/* ---- choose_time.c --------------------------------------------------------------------------- */

/** Microseconds, by the models, of dense calls: what it takes to write the parts of splits of so many
 * rows and to add them up; */
double ap_parts_us(const ap_problem *problem, int64_t rows, const ap_device *device,
                   const ap_tile *combine, int32_t num_splits);
/** what a kernel whose thread blocks stay takes of a plan with an order, one of those for long sequences,
 * one of the two at head dim 64, to be compared with the other alone, and what it takes in no order less
 * than; all up to as many row blocks and SMs as ap_schedule_cost(). */
double ap_scheduled_us(const ap_problem *problem, const ap_device *device, const ap_plan *plan);
double ap_long_us(const ap_problem *problem, const ap_device *device, const ap_plan *plan);
enum { AP_FOUR_CONSUMERS_ROWS = 256 };
double ap_narrow_us(const ap_problem *problem, const ap_device *device, const ap_plan *plan);
double ap_least_us(const ap_problem *problem, const ap_device *device, int32_t units,
                   const ap_plan *plan);
/** What a kernel takes whose thread blocks each compute a row block, of so many key blocks in equal
 * splits; without adding them up. */
double ap_blocks_us(const ap_problem *problem, const ap_device *device, const ap_tile *tile,
                    int64_t units, int64_t key_blocks, int32_t num_splits);
enum { AP_DECODE_BLOCKS_PER_SM = 2 }; /* thread blocks of kernels that decode */
/** The same of so many thread blocks: 1 or 2, or 3, where the tile leaves room for these. */
int ap_decode_blocks_per_sm(const ap_device *device, const ap_tile *tile, int64_t blocks);
/** Microseconds of kernels that decode without splits, three thread blocks an SM; `bytes`: of each. */
double ap_decode_at_once_us(const ap_device *device, int64_t units, double bytes);
/** What a kernel that decodes takes of so many row blocks, each of which sees so many key blocks, in
 * equal splits; without adding them up. `columns`: of K and V. */
double ap_decode_us(const ap_device *device, int64_t units, int64_t key_blocks,
                    double key_block_bytes, int columns, int32_t num_splits);
/** The same where the first `whole` row blocks are not split. */
double ap_decode_partly_us(const ap_device *device, int64_t units, int64_t whole,
                           int64_t key_blocks, double key_block_bytes, int32_t num_splits);

/* ---- choose_splits.c ------------------------------------------------------------------------- */

/** 1 where a plan's kernel has one for long sequences beside it, and then the key and the tile of
 * that. */
int ap_find_long(const ap_plan *plan, uint64_t *key, ap_tile *tile);
/** With fewer key blocks, keys are not split where the number of splits is chosen. */
int64_t ap_least_key_blocks(const ap_tile *tile);

/* Runs. What a sequence costs beside its key blocks and what a run costs at least, in units of cost;
 * what a part has at least, in key blocks, or half as many where a block costs two units. */
enum { AP_RUNS_SEQUENCE_COST = 1, AP_RUNS_COST_MIN = 8, AP_RUNS_PART_BLOCKS_MIN = 2 };
enum { AP_RUNS_SHARED_COST_MIN = 4, AP_RUNS_SHARED_PART_BLOCKS_MIN = 4 };
/** 1 where the kernel of a variant that decodes splits has one beside it whose thread blocks have runs over
 * all sequences. */
int ap_may_have_runs(const ap_variant *variant);
/** The plan with that one, for so many query heads, without grid. */
attnpress_status ap_take_runs(const ap_device *device, int32_t heads_q, int shares_keys,
                              ap_plan *plan);
/** 1 where its thread blocks may have several key heads each, as sm90's do. */
int ap_may_share_keys(const ap_problem *problem, const ap_device *device, const ap_plan *plan);

/** 1 where splitting sequences of their own lengths has the kernel for that in place of a plan's,
 * which does not split; makes a plan of it, all except the number of splits. */
int ap_may_split_sequences(const ap_problem *problem, const ap_plan *plan);
attnpress_status ap_take_sequence_splits(const ap_problem *problem, int few, ap_plan *plan);
/** 1 where the rows of a key head are so few that such kernels have a row block for them. */
int ap_has_few_sequence_rows(const ap_problem *problem, const ap_variant *variant);
/** Rows and splits. Kernels of sm90 split ragged sequences at fixed places, and not where a window
 * or a snippet hides keys: where splitting pays there, other kernels run. */
attnpress_status ap_choose_kernel(const ap_problem *problem, const ap_device *device,
                                  ap_plan *plan);
/** Tiles of rows, of all heads and batches: what a split has to compute. Of ragged sequences
 * tiles with a producer count what is there, where that is less than the bounds. */
int64_t ap_count_tiles(const ap_problem *problem, const ap_plan *plan, const ap_tile *tile);
/** Rows of splits, at most, of problems that a split tile serves; SIZE_MAX: there is no bound. */
size_t ap_most_partial_rows(const ap_problem *maxima, const ap_device *device, const ap_tile *tile);

/* ---- choose.c -------------------------------------------------------------------------------- */

/** Bytes of the partial outputs and, behind them, of the partial lse of `rows` rows of splits; 0: it
 * passes 2^64. */
int ap_partial_bytes(size_t rows, size_t hdim_v, size_t *lse_offset_bytes, size_t *all_bytes);
/** Bytes, behind the parts, of what kernels of runs, of so many thread blocks, leave to the combine
 * kernel, or count. */
static inline size_t ap_cuts_bytes(size_t blocks) {
  return AP_WORKSPACE_ALIGNMENT + blocks * sizeof(uint64_t);
}
/** What the schedule kernel leaves to the forward kernel: the ticket, units, sequences; and, with
 * `splits`, to the combine kernel. */
size_t ap_schedule_bytes(size_t batch, int splits, size_t *first_unit, size_t *sequences,
                         size_t *sequence_splits);
