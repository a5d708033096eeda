/* Decides how a forward call is run: architecture, mask, packing of heads, small row block, splits,
 * grid and workspace; the order of the work is schedule.c's. Pure: it depends on shapes, strides and
 * the device's numbers, never on data, and touches nothing. */
#include "attention/schedule.h"
#include "attention/score_mod.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- What runs where ------------------------------------------------------------------------- */

/** Query heads of a key head. */
static int32_t group_of(const ap_problem *problem) {
  return problem->heads_kv ? problem->heads_q / problem->heads_kv : 1;
}

/** 1 where sm90 has kernels of the head dims: beyond some they modify no scores, and know no window. */
static int has_sm90_dims(const ap_problem *problem, const ap_variant *variant) {
  if (problem->hdim_v <= AP_ATTENTION_SM90_HDIM_MAX)
    return problem->hdim <= AP_ATTENTION_SM90_HDIM_MAX;
  return problem->hdim_v <= AP_ATTENTION_SM90_WIDE_HDIM_MAX &&
         problem->sequences == AP_ATTENTION_SEQUENCES_DENSE &&
         variant->axis[AP_ATTENTION_MASK] != AP_ATTENTION_MASK_WINDOW && !problem->softcap &&
         !problem->alibi && !problem->bias && !problem->dropout && !problem->mod_score &&
         !problem->mod_mask;
}

/** 1 where kernels of an architecture can run the call, and it is not one for the next in line:
 * those of sm90 read through tensor maps, short queries of more heads than a warpgroup has rows would
 * leave their tiles empty, and their ragged kernels neither modify scores but by a snippet nor split
 * keys but at fixed places. What a batch-invariant call runs depends on nothing that differs between
 * calls of one model. */
static int serves(const ap_route *run, const ap_problem *problem, const ap_device *device,
                  const ap_variant *variant) {
  if (device->arch_max != 0 && run->arch > device->arch_max)
    return 0;
  if (run->arch < 90)
    return 1;
  if (variant->axis[AP_ATTENTION_DECODE])
    return 0;
  if (problem->sequences != AP_ATTENTION_SEQUENCES_DENSE &&
      (problem->softcap || problem->alibi || problem->bias || problem->dropout ||
       (problem->num_splits > 1 && !problem->batch_invariant)))
    return 0;
  return has_sm90_dims(problem, variant) && device->tma && problem->tma &&
         (group_of(problem) <= AP_ATTENTION_WARPGROUP_ROWS ||
          (problem->seqlen_q > AP_ATTENTION_WARPGROUP_ROWS && !problem->batch_invariant));
}

/** The architecture and the target; the variant's other axes stand. */
static attnpress_status choose_arch(const ap_problem *problem, const ap_device *device,
                                    ap_variant *variant, const char **target) {
  const ap_route *run = ap_next_route(variant, device->capability, NULL);
  if (run == NULL) {
    FORWARD_IF(ap_check_capability(device->capability));
    return ap_fail(ATTNPRESS_NOT_SUPPORTED, "no attention kernel runs on compute capability %d.%d",
                   device->capability / 10, device->capability % 10);
  }
  for (const ap_route *next; run != NULL && !serves(run, problem, device, variant); run = next)
    if ((next = ap_next_route(variant, device->capability, run)) == NULL)
      break; /* the last one runs every call */
  variant->axis[AP_ATTENTION_ARCH] = run->arch;
  *target = run->target;
  return ATTNPRESS_OK;
}

/** Of numbers that are not negative. A processor divides 32 bits faster than 64, and a call has a
 * dozen of these. */
static int64_t ceil_div(int64_t a, int64_t b) {
  const int64_t sum = a + b - 1;
  return (uint64_t)(sum | b) >> 32 == 0 ? (int64_t)((uint32_t)sum / (uint32_t)b) : sum / b;
}

attnpress_divisor ap_divisor(int32_t value) {
  uint32_t shift = 31;
  while (((uint64_t)1 << (shift - 31)) < (uint64_t)value)
    ++shift;
  const uint64_t multiplier = (((uint64_t)1 << shift) + (uint64_t)value - 1) / (uint64_t)value;
  return (attnpress_divisor){value, (uint32_t)multiplier, shift};
}

/* ---- Rows: mask, packing, row block ---------------------------------------------------------- */

/** Heads of a group are packed into one tile where that leaves less than this share of the tiles.
 */
#define PACKING_GAIN        0.9
#define WINDOW_PACKING_GAIN 0.97 /* the same of what they take, which is known better */
/** A length beyond all points where the choice changes. */
enum { SEQLEN_PROBED = 4096 };

/** The mask of the kernel where lengths are bounds: what a window hides, some length may show. */
static int32_t choose_mask_of_any_length(const ap_problem *problem) {
  if (problem->window_left < INT32_MAX || problem->window_chunk > 0)
    return ATTNPRESS_WINDOW;
  if (problem->window_right == INT32_MAX)
    return ATTNPRESS_FULL;
  if (problem->window_right != 0 || problem->window_top_left)
    return ATTNPRESS_WINDOW;
  return problem->seqlen_q <= 1 ? ATTNPRESS_FULL : ATTNPRESS_CAUSAL; /* as without a window */
}

/** The mask that the kernel has. A single query sees every key under a causal mask, and a window
 * may be so wide that it hides no key, or none that a causal mask does not hide. */
static int32_t choose_mask(const ap_problem *problem) {
  if (problem->batch_invariant)
    return problem->mask;
  if (problem->seqlen_q <= 1 && problem->mask == ATTNPRESS_CAUSAL)
    return ATTNPRESS_FULL;
  if (problem->mask == ATTNPRESS_WINDOW && problem->sequences != AP_ATTENTION_SEQUENCES_DENSE)
    return choose_mask_of_any_length(problem);
  if (problem->mask != ATTNPRESS_WINDOW || problem->seqlen_q == 0)
    return problem->mask;
  const ap_mask m = ap_problem_mask(problem, ATTNPRESS_WINDOW);
  const ap_keys first = ap_keys_of(&m, 0), last = ap_keys_of(&m, problem->seqlen_q - 1);
  if (first.begin == 0 && last.begin == 0 && first.end == m.seqlen_k && last.end == m.seqlen_k)
    return ATTNPRESS_FULL;
  const int aligned = m.center == m.seqlen_k - m.seqlen_q;
  const int whole = m.chunk == 0 || m.chunk >= m.seqlen_k;
  return aligned && whole && m.right == 0 && last.begin == 0 ? ATTNPRESS_CAUSAL : ATTNPRESS_WINDOW;
}

/** The keys that a query sees, at most. */
static int64_t keys_of_a_row(const ap_problem *problem) {
  int64_t keys = problem->seqlen_k;
  if (problem->mask != ATTNPRESS_WINDOW)
    return keys;
  if (problem->window_left + problem->window_right + 1 < keys)
    keys = problem->window_left + problem->window_right + 1;
  return problem->window_chunk > 0 && problem->window_chunk < keys ? problem->window_chunk : keys;
}

/** Key blocks that the rows of `positions` positions see together, at most. */
static int64_t count_key_blocks(const ap_problem *problem, int64_t positions, int64_t block_n) {
  const int64_t all = ceil_div(problem->seqlen_k, block_n);
  if (problem->mask != ATTNPRESS_WINDOW || problem->seqlen_q == 0)
    return all;
  if (positions >= problem->seqlen_q && /* one row block: as it is */
      problem->sequences == AP_ATTENTION_SEQUENCES_DENSE) {
    const ap_mask m = ap_problem_mask(problem, ATTNPRESS_WINDOW);
    const ap_keys first = ap_keys_of(&m, 0), last = ap_keys_of(&m, problem->seqlen_q - 1);
    const int64_t blocks = ceil_div(last.end, block_n) - first.begin / block_n;
    return blocks > 0 ? blocks : 0;
  }
  /* From anywhere in a key block. A chunk's rows see less, those of two chunks both. */
  const int64_t keys = problem->window_left + problem->window_right + positions;
  const int64_t blocks = ceil_div(keys - 1, block_n) + 1;
  return blocks < all ? blocks : all;
}

/** Tiles with a producer hold whole positions in each warpgroup. */
static int64_t count_row_blocks(const ap_problem *problem, const ap_tile *tile,
                                int32_t heads_per_tile) {
  if (tile->field[AP_ATTENTION_TILE_PRODUCER]) {
    const int32_t positions = tile->field[AP_ATTENTION_TILE_BLOCK_M] / AP_ATTENTION_WARPGROUP_ROWS *
                              (AP_ATTENTION_WARPGROUP_ROWS / heads_per_tile);
    return ceil_div(problem->seqlen_q, positions);
  }
  return ceil_div((int64_t)problem->seqlen_q * heads_per_tile,
                  tile->field[AP_ATTENTION_TILE_BLOCK_M]);
}

int64_t ap_row_block_positions(const ap_tile *tile, int32_t heads_per_tile) {
  const int32_t block_m = tile->field[AP_ATTENTION_TILE_BLOCK_M];
  if (tile->field[AP_ATTENTION_TILE_PRODUCER])
    return block_m / AP_ATTENTION_WARPGROUP_ROWS * (AP_ATTENTION_WARPGROUP_ROWS / heads_per_tile);
  return ceil_div(block_m, heads_per_tile) + (block_m % heads_per_tile != 0);
}

/** What the row blocks of a group's heads take, in key blocks; one more a row block for what is its
 * own. A window that is no longer than a tile is where packing pays: fewer positions lie closer. */
static double cost_of_packing(const ap_problem *problem, const ap_tile *tile,
                              int32_t heads_per_tile) {
  const double block_n = tile->field[AP_ATTENTION_TILE_BLOCK_N];
  const double positions = (double)ap_row_block_positions(tile, heads_per_tile);
  double keys = (double)keys_of_a_row(problem) + positions;
  if (keys > (double)problem->seqlen_k)
    keys = (double)problem->seqlen_k;
  const double blocks =
      problem->mask == ATTNPRESS_WINDOW ? keys / block_n + 2 : ceil(keys / block_n);
  return (double)count_row_blocks(problem, tile, heads_per_tile) *
         (group_of(problem) / heads_per_tile) * blocks;
}

/** Query heads that share a tile: all of a group, or one. */
static int32_t choose_packing(const ap_problem *problem, const ap_tile *tile) {
  const int32_t group = group_of(problem);
  if (group <= 1 || problem->dropout || /* whose rows are positions, as are those of a bias of 16 */
      (tile->field[AP_ATTENTION_TILE_PRODUCER] && /* bits that is copied */
       (problem->bias == ATTNPRESS_FP16 || problem->bias == ATTNPRESS_BF16)) ||
      (tile->field[AP_ATTENTION_TILE_PRODUCER] && group > AP_ATTENTION_WARPGROUP_ROWS) ||
      (int64_t)problem->seqlen_q * group > INT32_MAX - AP_ATTENTION_HDIM_MAX)
    return 1;
  const double gain = problem->mask == ATTNPRESS_WINDOW ? WINDOW_PACKING_GAIN : PACKING_GAIN;
  return cost_of_packing(problem, tile, group) < gain * cost_of_packing(problem, tile, 1) ? group
                                                                                          : 1;
}

/** Fills mask, decode, architecture and packing; the tile stays that of one split. */
static attnpress_status choose_rows(const ap_problem *problem, const ap_device *device,
                                    ap_plan *plan) {
  ap_variant *v = &plan->variant;
  v->axis[AP_ATTENTION_MASK] = choose_mask(problem);
  v->axis[AP_ATTENTION_DECODE] =
      !problem->batch_invariant &&
      (int64_t)problem->seqlen_q * group_of(problem) <= AP_ATTENTION_DECODE_ROWS;
  FORWARD_IF(choose_arch(problem, device, v, &plan->target));
  plan->variant_key = ap_variant_key(v);
  FORWARD_IF(ap_find_tile_by_key(v, plan->variant_key, plan->target, &plan->tile));
  plan->heads_per_tile = choose_packing(problem, &plan->tile);
  return ATTNPRESS_OK;
}

/* ---- Splits ---------------------------------------------------------------------------------- */

enum {
  SPLIT_KEY_BLOCKS_MIN = 5,
  SPLITS_CHOSEN_MAX = 128,
  /* Thread blocks of all splits, in units of the device's slots: from there on every count fills its
   * waves to SPLIT_EFFICIENCY and more. It bounds the workspace. */
  SPLIT_WAVES_MAX = 6,
  /* Short queries of sequences of which only bounds are known: a split has at least so much of K and
   * V, however long its sequence is, so that no thread block has much more to do than another. */
  SEQUENCE_SPLIT_BYTES = 512 * 1024,
  /* As SPLIT_WAVES_MAX: thread blocks that find no keys cost time, too. */
  SEQUENCE_WAVES_MAX = 64,
  /* So many without splits, and the others make up for the longest. */
  SEQUENCE_WAVES_WHOLE = 8,
  /* Of batch-invariant calls: keys of a split, and, of few rows, thread blocks as SPLIT_WAVES_MAX. */
  FIXED_SPLIT_KEYS = 512,
  FIXED_SPLIT_WAVES_MAX = 128,
  /* The same of kernels that schedule them: long enough that it costs little to add up what a thread
   * block keeps of its rows, short enough to share out one sequence. Bytes of all parts, at most. */
  SCHEDULED_SPLIT_KEYS = 1024,
  SCHEDULED_PART_BYTES_MAX = 256 * 1024 * 1024
};
#define SPLIT_FILL       0.8  /* of the device's slots, from which on splitting does not pay */
#define SPLIT_EFFICIENCY 0.85 /* of the best one, that the chosen count reaches */

/** Thread blocks of a split count, and the waves that they take: their quotient says how full the
 * waves are. */
typedef struct fill {
  int64_t blocks, waves;
} fill;

/** 1 where a count gives no split fewer key blocks than the count before it: it only adds empty
 * splits. */
static int adds_nothing(int64_t key_blocks, int64_t count) {
  return count > 1 && ceil_div(key_blocks, count) == ceil_div(key_blocks, count - 1);
}

/** The most splits that run at once, if they fill the device; else 0. Of counts that give a split
 * as many key blocks, the smallest. */
static int64_t one_wave(int64_t blocks, int64_t key_blocks, int64_t slots, int64_t most) {
  int64_t n = slots / blocks;
  if (n > most)
    n = most;
  if ((double)(n * blocks) < SPLIT_FILL * (double)slots)
    return 0;
  return ceil_div(key_blocks, ceil_div(key_blocks, n));
}

/** The most splits that are ever chosen for so many thread blocks of one split. */
static int64_t most_splits(int64_t blocks, int64_t key_blocks, int64_t slots) {
  int64_t most = key_blocks < slots ? key_blocks : slots;
  if (most > SPLITS_CHOSEN_MAX)
    most = SPLITS_CHOSEN_MAX;
  return most * blocks > SPLIT_WAVES_MAX * slots ? SPLIT_WAVES_MAX * slots / blocks : most;
}

/* One full wave, where there is such a count. Else the rule of FlashAttention-2's
 * num_splits_heuristic (Dao 2023): the smallest count whose waves are nearly as full as the best
 * one's. */
int ap_choose_num_splits(int64_t blocks, int64_t key_blocks, int64_t slots) {
  if (blocks <= 0 || slots <= 0 || (double)blocks >= SPLIT_FILL * (double)slots ||
      key_blocks < SPLIT_KEY_BLOCKS_MIN)
    return 1;
  const int64_t most = most_splits(blocks, key_blocks, slots);
  const int64_t at_once = one_wave(blocks, key_blocks, slots, most);
  if (at_once > 0)
    return (int)at_once;
  /* Downwards, where the fullest waves tend to come first; stepping by one count saves the
   * divisions, and a decoding call comes through here each time. */
  fill now = {most * blocks, ceil_div(most * blocks, slots)}, best = {0, 1};
  for (int64_t n = most; n >= 1; --n) {
    if (now.blocks * best.waves > best.blocks * now.waves && !adds_nothing(key_blocks, n))
      best = now;
    now.blocks -= blocks;
    while (now.waves > 1 && now.blocks <= (now.waves - 1) * slots)
      --now.waves;
  }
  now = (fill){blocks, 1};
  int64_t n = 1;
  while (n < most && ((double)(now.blocks * best.waves) <
                          SPLIT_EFFICIENCY * (double)(best.blocks * now.waves) ||
                      adds_nothing(key_blocks, n))) {
    ++n;
    now.blocks += blocks;
    while (now.blocks > now.waves * slots)
      ++now.waves;
  }
  return (int)n;
}

int ap_blocks_per_sm(const ap_tile *tile, const ap_device *device) {
  enum { RESERVED_SMEM_BYTES = 1024, SM_REGISTERS = 65536, THREAD_REGISTERS = 256 };
  const int threads = tile->threads;
  int by_registers =
      SM_REGISTERS / (threads * THREAD_REGISTERS); /* at the most a thread can have */
  if (by_registers < tile->field[AP_ATTENTION_TILE_MIN_BLOCKS])
    by_registers = tile->field[AP_ATTENTION_TILE_MIN_BLOCKS];
  const int by_smem = device->smem_per_sm_bytes / (tile->smem_bytes + RESERVED_SMEM_BYTES);
  const int by_threads = device->threads_per_sm / threads;
  int blocks = by_registers < by_smem ? by_registers : by_smem;
  if (blocks > by_threads)
    blocks = by_threads;
  return blocks > 1 ? blocks : 1;
}

/** Tiles of rows, of all heads and batches: what a split has to compute. Of ragged sequences
 * tiles with a producer count what is there, where that is less than the bounds. */
static int64_t count_tiles(const ap_problem *problem, const ap_plan *plan, const ap_tile *tile) {
  int64_t row_blocks = count_row_blocks(problem, tile, plan->heads_per_tile) * problem->batch;
  if (problem->rows_q > 0 && tile->field[AP_ATTENTION_TILE_PRODUCER]) {
    const int64_t most =
        problem->rows_q / ap_row_block_positions(tile, plan->heads_per_tile) + problem->batch;
    row_blocks = row_blocks < most ? row_blocks : most;
  }
  return row_blocks * (problem->heads_q / plan->heads_per_tile);
}

/** Thread blocks of an SM that splitting aims at: as many as it holds, but one where warps have
 * rings of their own, which ask for all of the SM's share of the bandwidth. */
static int split_blocks_per_sm(const ap_tile *tile, const ap_device *device) {
  return tile->field[AP_ATTENTION_TILE_WARPS_K] > 1 ? 1 : ap_blocks_per_sm(tile, device);
}

/** Key blocks that a split of a sequence has at least. */
static int64_t sequence_split_blocks(const ap_problem *problem, const ap_tile *tile) {
  const int64_t block_bytes = (int64_t)tile->field[AP_ATTENTION_TILE_BLOCK_N] *
                              (problem->hdim + problem->hdim_v) * (int64_t)sizeof(uint16_t);
  const int64_t blocks = SEQUENCE_SPLIT_BYTES / block_bytes;
  return blocks > SPLIT_KEY_BLOCKS_MIN ? blocks : SPLIT_KEY_BLOCKS_MIN;
}

/** Splits of sequences whose longest may have `key_blocks`, for `blocks` thread blocks of one split. */
static int64_t sequence_splits(int64_t blocks, int64_t key_blocks, int64_t split_blocks,
                               int64_t slots) {
  if (blocks >= SEQUENCE_WAVES_WHOLE * slots)
    return 1;
  int64_t count = ceil_div(key_blocks, split_blocks);
  if (count > SPLITS_CHOSEN_MAX)
    count = SPLITS_CHOSEN_MAX;
  if (count * blocks > SEQUENCE_WAVES_MAX * slots)
    count = SEQUENCE_WAVES_MAX * slots / blocks;
  return count;
}

/** The splits of a plan whose variant and tile are `split`'s; *least: key blocks of each, or 1. */
static int32_t count_splits(const ap_problem *problem, const ap_device *device, const ap_plan *plan,
                            const ap_tile *tile, int64_t *least) {
  const int64_t blocks = count_tiles(problem, plan, tile);
  const int64_t slots = (int64_t)device->sm_count * split_blocks_per_sm(tile, device);
  const int64_t key_blocks =
      count_key_blocks(problem, ap_row_block_positions(tile, plan->heads_per_tile),
                       tile->field[AP_ATTENTION_TILE_BLOCK_N]);
  const int32_t count = ap_choose_num_splits(blocks, key_blocks, slots);
  *least = 1;
  if (problem->sequences == AP_ATTENTION_SEQUENCES_DENSE ||
      !plan->variant.axis[AP_ATTENTION_DECODE])
    return count;
  const int64_t more =
      sequence_splits(blocks, key_blocks, sequence_split_blocks(problem, tile), slots);
  if (more <= count)
    return count;
  *least = ceil_div(key_blocks, more);
  return (int32_t)more;
}

/** Fills num_splits, the variant's split, the tile that goes with it, and the keys of a split. */
static attnpress_status choose_splits(const ap_problem *problem, const ap_device *device,
                                      ap_plan *plan) {
  uint64_t split_key = 0;
  ap_tile tile;
  int32_t count = problem->num_splits;
  int64_t least = 1; /* key blocks of a split of a sequence */
  if (count != 1) {
    plan->variant.axis[AP_ATTENTION_SPLIT] = 1;
    split_key = plan->variant_key + ap_families[AP_FAMILY_ATTENTION]->key_unit[AP_ATTENTION_SPLIT];
    FORWARD_IF(ap_find_tile_by_key(&plan->variant, split_key, plan->target, &tile));
    if (count == 0)
      count = count_splits(problem, device, plan, &tile, &least);
  }
  plan->variant.axis[AP_ATTENTION_SPLIT] = count != 1;
  if (count != 1) { /* else the tile of one split stands */
    plan->variant_key = split_key;
    plan->tile = tile;
  }
  plan->num_splits = count;
  const int32_t block_n = plan->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  const int64_t key_blocks =
      count_key_blocks(problem, ap_row_block_positions(&plan->tile, plan->heads_per_tile), block_n);
  plan->key_blocks_per_split = problem->sequences == AP_ATTENTION_SEQUENCES_DENSE
                                   ? (int32_t)ceil_div(key_blocks, count)
                                   : (int32_t)least;
  return ATTNPRESS_OK;
}

/** Whether splits of a batch-invariant call are units of their own, whose parts a second kernel adds
 * up; if not, a unit goes through all of its splits. */
static int schedules_splits(const ap_problem *problem, const ap_device *device, int64_t tiles,
                            int few_rows, int64_t splits) {
  const int64_t row_bytes = ((int64_t)problem->hdim_v + 1) * (int64_t)sizeof(float);
  const int64_t rows = (int64_t)problem->batch * problem->heads_q * problem->seqlen_q;
  if (splits <= 1 || rows == 0 || rows > SCHEDULED_PART_BYTES_MAX / row_bytes / splits)
    return 0;
  return few_rows ? tiles < SEQUENCE_WAVES_WHOLE * (int64_t)device->sm_count
                  : tiles * 2 <= device->sm_count;
}

/** Batch-invariant calls: every kernel is a split one, and splits are of as many keys, whatever their
 * number. Few thread blocks compute one each; many compute all splits of their rows, which takes a
 * workspace of one, or of what runs at once. */
static attnpress_status choose_fixed_splits(const ap_problem *problem, const ap_device *device,
                                            ap_plan *plan) {
  plan->variant.axis[AP_ATTENTION_SPLIT] = 1;
  plan->variant_key = ap_variant_key(&plan->variant);
  FORWARD_IF(ap_find_tile_by_key(&plan->variant, plan->variant_key, plan->target, &plan->tile));
  const int64_t block_n = plan->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  const int scheduled = ap_is_scheduled(plan);
  plan->fixed_split_blocks =
      (int32_t)ceil_div(scheduled ? SCHEDULED_SPLIT_KEYS : FIXED_SPLIT_KEYS, block_n);
  plan->key_blocks_per_split = plan->fixed_split_blocks;
  plan->heads_per_tile = choose_packing(problem, &plan->tile);
  const int64_t splits = ceil_div(problem->seqlen_k, plan->fixed_split_blocks * block_n);
  const int64_t tiles = count_tiles(problem, plan, &plan->tile);
  const int64_t slots = (int64_t)device->sm_count * ap_blocks_per_sm(&plan->tile, device);
  const int few_rows = count_row_blocks(problem, &plan->tile, plan->heads_per_tile) <= 1;
  if (scheduled) {
    plan->num_splits =
        schedules_splits(problem, device, tiles, few_rows, splits) ? (int32_t)splits : 1;
    return ATTNPRESS_OK;
  }
  const int64_t most = (few_rows ? FIXED_SPLIT_WAVES_MAX : SPLIT_WAVES_MAX) * slots;
  plan->num_splits =
      splits > 1 && splits <= AP_SPLITS_MAX && tiles < most / splits ? (int32_t)splits : 1;
  return ATTNPRESS_OK;
}

/** Rows and splits. Kernels of sm90 have no splits of ragged sequences: where splitting pays, other
 * kernels run. */
static attnpress_status choose_kernel(const ap_problem *problem, const ap_device *device,
                                      ap_plan *plan) {
  FORWARD_IF(choose_rows(problem, device, plan));
  if (problem->batch_invariant)
    return choose_fixed_splits(problem, device, plan);
  if (!ap_is_scheduled(plan))
    return choose_splits(problem, device, plan);
  const int64_t key_blocks =
      count_key_blocks(problem, ap_row_block_positions(&plan->tile, plan->heads_per_tile),
                       plan->tile.field[AP_ATTENTION_TILE_BLOCK_N]);
  const int64_t tiles = count_tiles(problem, plan, &plan->tile);
  if (problem->num_splits == 0 && ap_choose_num_splits(tiles, key_blocks, device->sm_count) > 1) {
    ap_problem other = *problem;
    ap_plan split = *plan;
    other.tma = 0;
    FORWARD_IF(choose_rows(&other, device, &split));
    FORWARD_IF(choose_splits(&other, device, &split));
    if (split.num_splits > 1) {
      *plan = split;
      return ATTNPRESS_OK;
    }
  }
  plan->num_splits = 1;
  plan->key_blocks_per_split = (int32_t)key_blocks;
  return ATTNPRESS_OK;
}

/* ---- Grid and workspace ---------------------------------------------------------------------- */

enum { WORKSPACE_ALIGNMENT = 256, OVERLAP_CAPABILITY_MIN = 90 };

static size_t align_workspace(size_t bytes) {
  return (bytes + WORKSPACE_ALIGNMENT - 1) & ~(size_t)(WORKSPACE_ALIGNMENT - 1);
}

/** Bytes of the partial outputs and, behind them, of the partial lse of `rows` rows of splits; 0: it
 * passes 2^64. */
static int partial_bytes(size_t rows, size_t hdim_v, size_t *lse_offset_bytes, size_t *all_bytes) {
  size_t out_bytes, lse_bytes;
  if (__builtin_mul_overflow(rows, sizeof(float), &lse_bytes) ||
      __builtin_mul_overflow(lse_bytes, hdim_v, &out_bytes) ||
      __builtin_add_overflow(out_bytes, (size_t)WORKSPACE_ALIGNMENT - 1, &out_bytes))
    return 0;
  *lse_offset_bytes = out_bytes & ~(size_t)(WORKSPACE_ALIGNMENT - 1);
  return !__builtin_add_overflow(*lse_offset_bytes, lse_bytes, all_bytes);
}

/** What the thread blocks of a scheduled kernel keep of the splits that they add up: 8 columns for lse,
 * and those of O in groups of 64. */
static size_t kept_bytes(const ap_problem *problem, const ap_tile *tile, size_t blocks) {
  const size_t columns = 8 + 64 * (size_t)ceil_div(problem->hdim_v, 64);
  return blocks * (size_t)tile->field[AP_ATTENTION_TILE_BLOCK_M] * columns * sizeof(float);
}

/** Where the splits leave their parts. */
static attnpress_status plan_parts(const ap_problem *problem, ap_plan *plan) {
  const size_t rows = (size_t)problem->batch * (size_t)problem->heads_q * (size_t)problem->seqlen_q;
  size_t all;
  if (ap_is_scheduled(plan) && !ap_schedules_splits(plan)) {
    plan->out_partial_offset_bytes = align_workspace(plan->workspace_bytes);
    plan->workspace_bytes =
        plan->out_partial_offset_bytes + kept_bytes(problem, &plan->tile, plan->grid);
    return ATTNPRESS_OK;
  }
  const size_t scheduled_bytes = plan->workspace_bytes;
  const int fits = !__builtin_mul_overflow(rows, (size_t)plan->num_splits, &all) &&
                   partial_bytes(all, (size_t)problem->hdim_v, &plan->lse_partial_offset_bytes,
                                 &plan->workspace_bytes);
  RETURN_IF(!fits, ATTNPRESS_INVALID_ARGUMENT,
            "the workspace of %d splits of %zu rows passes 2^64 bytes; ask for fewer splits",
            (int)plan->num_splits, rows);
  if (ap_is_scheduled(plan)) {
    plan->out_partial_offset_bytes = align_workspace(scheduled_bytes);
    plan->lse_partial_offset_bytes += plan->out_partial_offset_bytes;
    plan->workspace_bytes += plan->out_partial_offset_bytes;
  }
  /* Of a batch-invariant call with one split, each warp that shares a row keeps an lse. */
  if (plan->fixed_split_blocks > 0 && plan->num_splits == 1)
    plan->workspace_bytes +=
        rows * sizeof(float) * (size_t)(plan->tile.field[AP_ATTENTION_TILE_WARPS_N] - 1);
  RETURN_IF(rows > INT32_MAX, ATTNPRESS_NOT_SUPPORTED,
            "%zu query rows (batch * heads * seqlen_q) cannot be split: at most 2^31 - 1; set "
            "num_splits to 1",
            rows);
  return ATTNPRESS_OK;
}

static attnpress_status plan_combine(const ap_problem *problem, const ap_device *device,
                                     ap_plan *plan) {
  plan->combine = (ap_variant){
      .family = AP_FAMILY_ATTENTION,
      .axis = {[AP_ATTENTION_PASS] = AP_ATTENTION_PASS_FWD_COMBINE,
               [AP_ATTENTION_HDIM] = problem->hdim_v,
               [AP_ATTENTION_HDIM_V] = problem->hdim_v,
               [AP_ATTENTION_DTYPE] = problem->dtype,
               [AP_ATTENTION_SEQUENCES] = problem->sequences != AP_ATTENTION_SEQUENCES_DENSE,
               [AP_ATTENTION_ARCH] = AP_ATTENTION_COMBINE_ARCH}};
  _Static_assert(AP_ATTENTION_SEQUENCES_RAGGED == 1, "pages are of the keys alone");
  plan->combine_target = ap_target_for(&plan->combine, device->capability);
  plan->combine_key = ap_variant_key(&plan->combine);
  FORWARD_IF(ap_find_tile_by_key(&plan->combine, plan->combine_key, plan->combine_target,
                                 &plan->combine_tile));
  const size_t rows = (size_t)problem->batch * (size_t)problem->heads_q * (size_t)problem->seqlen_q;
  const int64_t blocks =
      ceil_div((int64_t)rows, plan->combine_tile.field[AP_ATTENTION_TILE_BLOCK_M]) *
      ceil_div(problem->hdim_v, plan->combine_tile.field[AP_ATTENTION_TILE_BLOCK_N]);
  RETURN_IF(blocks > INT32_MAX, ATTNPRESS_NOT_SUPPORTED,
            "%zu query rows (batch * heads * seqlen_q) cannot be split: at most 2^31 - 1; set "
            "num_splits to 1",
            rows);
  plan->combine_grid = (unsigned)blocks;
  return ATTNPRESS_OK;
}

/* ---- The map of a snippet's mask ---- */

enum { MAP_BLOCKS_PER_WORD = 16 };

int64_t ap_count_map_words(const ap_problem *problem, const ap_tile *tile, int32_t heads_per_tile,
                           int32_t *batches, int32_t *heads, int32_t *words) {
  const int uses = problem->mod_mask_uses;
  int64_t all = count_row_blocks(problem, tile, heads_per_tile);
  *batches = uses & AP_MOD_USES_BATCH ? problem->batch : 1;
  *heads = uses & AP_MOD_USES_HEAD ? problem->heads_q / heads_per_tile : 1;
  *words = (int32_t)ceil_div(ceil_div(problem->seqlen_k, tile->field[AP_ATTENTION_TILE_BLOCK_N]),
                             MAP_BLOCKS_PER_WORD);
  if (*words == 0) /* no keys: the kernels read none of it */
    *words = 1;
  return __builtin_mul_overflow(all, *batches, &all) || __builtin_mul_overflow(all, *heads, &all) ||
                 __builtin_mul_overflow(all, *words, &all) || all > INT32_MAX
             ? -1
             : all;
}

/** What writes the map, and where it lies: behind the splits' parts. */
static attnpress_status plan_map(const ap_problem *problem, const ap_device *device,
                                 ap_plan *plan) {
  plan->map = (ap_variant){.family = AP_FAMILY_ATTENTION,
                           .axis = {[AP_ATTENTION_PASS] = AP_ATTENTION_PASS_FWD_MAP,
                                    [AP_ATTENTION_HDIM] = AP_ATTENTION_HDIM_MIN,
                                    [AP_ATTENTION_HDIM_V] = AP_ATTENTION_HDIM_MIN,
                                    [AP_ATTENTION_DTYPE] = AP_ATTENTION_DTYPE_BF16,
                                    [AP_ATTENTION_ARCH] = AP_ATTENTION_COMBINE_ARCH}};
  plan->map_target = ap_target_for(&plan->map, device->capability);
  FORWARD_IF(ap_find_tile(&plan->map, plan->map_target, &plan->map_tile));
  const int64_t words = ap_count_map_words(problem, &plan->tile, plan->heads_per_tile,
                                           &plan->map_batch, &plan->map_heads, &plan->map_words);
  RETURN_IF(words < 0, ATTNPRESS_NOT_SUPPORTED,
            "the map of a mask that depends on%s%s has more than 2^31 - 1 words for batch %d x %d "
            "heads x seqlen_q %d x seqlen_k %d; divide the batch",
            problem->mod_mask_uses & AP_MOD_USES_BATCH ? " the batch" : "",
            problem->mod_mask_uses & AP_MOD_USES_HEAD ? " the head" : " the positions",
            (int)problem->batch, (int)problem->heads_q, (int)problem->seqlen_q,
            (int)problem->seqlen_k);
  plan->map_grid = (unsigned)words;
  plan->map_offset_bytes = align_workspace(plan->workspace_bytes);
  plan->workspace_bytes =
      plan->map_offset_bytes + (ATTNPRESS_MOD_MAP_BEGIN + (size_t)words) * sizeof(uint32_t);
  return ATTNPRESS_OK;
}

/** What the schedule kernel leaves to the forward kernel: the ticket, units, sequences; and, with
 * `splits`, to the combine kernel. */
static size_t schedule_bytes(size_t batch, int splits, size_t *first_unit, size_t *sequences,
                             size_t *sequence_splits) {
  *first_unit = WORKSPACE_ALIGNMENT;
  *sequences = align_workspace(*first_unit + (batch + 1) * sizeof(int32_t));
  *sequence_splits = *sequences + batch * sizeof(attnpress_sequence_units);
  return *sequence_splits + (splits ? batch * sizeof(int32_t) : 0);
}

ap_variant ap_schedule_variant(void) {
  return (ap_variant){.family = AP_FAMILY_ATTENTION,
                      .axis = {[AP_ATTENTION_PASS] = AP_ATTENTION_PASS_FWD_SCHEDULE,
                               [AP_ATTENTION_HDIM] = AP_ATTENTION_HDIM_MIN,
                               [AP_ATTENTION_HDIM_V] = AP_ATTENTION_HDIM_MIN,
                               [AP_ATTENTION_DTYPE] = AP_ATTENTION_DTYPE_BF16,
                               [AP_ATTENTION_ARCH] = AP_ATTENTION_COMBINE_ARCH}};
}

/** With a schedule of the call's own: the ticket, and of splits what the forward kernel leaves to the
 * combine kernel. Units that are no more than thread blocks need no ticket. */
static void plan_ready(const ap_problem *problem, int64_t units, ap_plan *plan) {
  plan->ready = plan->variant.axis[AP_ATTENTION_READY] = 1;
  plan->variant_key = ap_variant_key(&plan->variant); /* whose tile is the same */
  plan->tickets = units > plan->grid;
  plan->sequence_splits_offset_bytes = plan->tickets ? WORKSPACE_ALIGNMENT : 0;
  plan->workspace_bytes =
      plan->sequence_splits_offset_bytes +
      (ap_schedules_splits(plan) ? (size_t)problem->batch * sizeof(int32_t) : 0);
}

static attnpress_status plan_schedule(const ap_problem *problem, const ap_device *device,
                                      int64_t units, ap_plan *plan) {
  plan->tickets = 1;
  if (problem->ready) {
    plan_ready(problem, units, plan);
    return ATTNPRESS_OK;
  }
  plan->schedule = ap_schedule_variant();
  plan->schedule_target = ap_target_for(&plan->schedule, device->capability);
  FORWARD_IF(ap_find_tile(&plan->schedule, plan->schedule_target, &plan->schedule_tile));
  plan->workspace_bytes = schedule_bytes(
      (size_t)problem->batch, ap_schedules_splits(plan), &plan->first_unit_offset_bytes,
      &plan->sequences_offset_bytes, &plan->sequence_splits_offset_bytes);
  return ATTNPRESS_OK;
}

/** Fills row_blocks and grid; *units: row blocks of all heads, batches and splits. */
static attnpress_status plan_grid(const ap_problem *problem, const ap_device *device, ap_plan *plan,
                                  int64_t *units) {
  /* Kernels whose thread blocks stay count past the end of a section. */
  const int persistent = plan->tile.field[AP_ATTENTION_TILE_PRODUCER];
  const int64_t most = persistent ? INT64_C(1) << 29 : INT32_MAX;
  *units = count_tiles(problem, plan, &plan->tile);
  RETURN_IF(__builtin_mul_overflow(*units, plan->num_splits, units) || *units > most,
            ATTNPRESS_NOT_SUPPORTED,
            "batch %d x %d heads x seqlen_q %d in %d splits needs more than %s thread blocks; "
            "divide the batch",
            (int)problem->batch, (int)problem->heads_q, (int)problem->seqlen_q,
            (int)plan->num_splits, persistent ? "2^29" : "2^31 - 1");
  plan->row_blocks = (int32_t)count_row_blocks(problem, &plan->tile, plan->heads_per_tile);
  plan->grid = (unsigned)*units;
  if (persistent && *units > device->sm_count)
    plan->grid = (unsigned)device->sm_count;
  return ATTNPRESS_OK;
}

attnpress_status ap_choose(const ap_problem *problem, const ap_device *device, ap_plan *plan) {
  memset(plan, 0, sizeof *plan);
  plan->variant = (ap_variant){.family = AP_FAMILY_ATTENTION,
                               .axis = {[AP_ATTENTION_PASS] = AP_ATTENTION_PASS_FWD,
                                        [AP_ATTENTION_HDIM] = problem->hdim,
                                        [AP_ATTENTION_HDIM_V] = problem->hdim_v,
                                        [AP_ATTENTION_DTYPE] = problem->dtype,
                                        [AP_ATTENTION_SOFTCAP] = problem->softcap,
                                        [AP_ATTENTION_ALIBI] = problem->alibi,
                                        [AP_ATTENTION_BIAS] = problem->bias,
                                        [AP_ATTENTION_DROPOUT] = problem->dropout,
                                        [AP_ATTENTION_MOD_SCORE] = problem->mod_score,
                                        [AP_ATTENTION_MOD_MASK] = problem->mod_mask,
                                        [AP_ATTENTION_SEQUENCES] = problem->sequences}};
  FORWARD_IF(choose_kernel(problem, device, plan));
  int64_t units;
  FORWARD_IF(plan_grid(problem, device, plan, &units));
  if (ap_is_scheduled(plan)) {
    plan->overlaps = device->capability >= OVERLAP_CAPABILITY_MIN;
    plan->section_heads = plan->group_rounds = 1; /* they mean nothing there */
    if (plan->grid == 0)
      return ATTNPRESS_OK;
    FORWARD_IF(plan_schedule(problem, device, units, plan));
    if (plan->variant.axis[AP_ATTENTION_SPLIT])
      FORWARD_IF(plan_parts(problem, plan));
    plan->combine_overlaps = ap_needs_combine(plan) && device->capability >= OVERLAP_CAPABILITY_MIN;
    return ap_needs_combine(plan) ? plan_combine(problem, device, plan) : ATTNPRESS_OK;
  }
  if (plan->tile.field[AP_ATTENTION_TILE_PRODUCER] && units > 0)
    ap_schedule(problem, device->memo, (int32_t)units, plan);
  /* Those kernels wait themselves, where the device can (include/attnpress/device/
   * ptx_griddepcontrol.cuh). They are short, and often run back to back. */
  plan->combine_overlaps =
      plan->variant.axis[AP_ATTENTION_SPLIT] && device->capability >= OVERLAP_CAPABILITY_MIN;
  plan->overlaps =
      (plan->tile.field[AP_ATTENTION_TILE_PRODUCER]
           ? ap_has_map(problem)
           : plan->variant.axis[AP_ATTENTION_SPLIT] || plan->variant.axis[AP_ATTENTION_DECODE]) &&
      device->capability >= OVERLAP_CAPABILITY_MIN;
  if (plan->variant.axis[AP_ATTENTION_SPLIT]) {
    FORWARD_IF(plan_parts(problem, plan));
    FORWARD_IF(plan_combine(problem, device, plan));
  }
  return ap_has_map(problem) && plan->grid > 0 ? plan_map(problem, device, plan) : ATTNPRESS_OK;
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

/* All that may be chosen for problems whose batch and lengths are at most some. Which kernels these
 * are depends on the batch and the lengths of the keys through splitting alone, and on the length of
 * the queries at a few points: a single query, the decode rows, a warpgroup's rows. */

static attnpress_status add_launch(const ap_variant *variant, uint64_t variant_key,
                                   const ap_tile *tile, const char *target, int snippet,
                                   ap_launches *range) {
  for (int i = 0; i < range->count; ++i)
    if (range->launch[i].variant_key == variant_key)
      return ATTNPRESS_OK;
  RETURN_IF(range->count == AP_LAUNCHES_MAX, ATTNPRESS_NOT_SUPPORTED,
            "more than %d kernels serve one range of shapes", AP_LAUNCHES_MAX);
  range->launch[range->count++] = (ap_launch){.variant = *variant,
                                              .variant_key = variant_key,
                                              .tile = *tile,
                                              .target = target,
                                              .snippet = snippet};
  return ATTNPRESS_OK;
}

/** Rows of splits, at most, of problems that a split tile serves; SIZE_MAX: there is no bound. */
static size_t most_partial_rows(const ap_problem *maxima, const ap_device *device,
                                const ap_tile *tile) {
  const int64_t slots = (int64_t)device->sm_count * split_blocks_per_sm(tile, device);
  const int64_t key_blocks =
      maxima->seqlen_k > 0 ? ceil_div(maxima->seqlen_k, tile->field[AP_ATTENTION_TILE_BLOCK_N])
                           : INT32_MAX;
  const int any = maxima->batch == 0 || maxima->seqlen_q == 0;
  const size_t rows = (size_t)maxima->batch * (size_t)maxima->heads_q * (size_t)maxima->seqlen_q;
  if (maxima->batch_invariant && tile->field[AP_ATTENTION_TILE_PRODUCER]) {
    const size_t row_bytes = ((size_t)maxima->hdim_v + 1) * sizeof(float);
    const size_t kept =
        kept_bytes(maxima, tile, (size_t)device->sm_count) / row_bytes + 1; /* or what is kept */
    const size_t parts = SCHEDULED_PART_BYTES_MAX / row_bytes;
    const size_t splits = (size_t)ceil_div(maxima->seqlen_k, SCHEDULED_SPLIT_KEYS);
    const size_t all = any || maxima->seqlen_k == 0 ? parts : rows * splits;
    return all > parts ? parts : all > kept ? all : kept;
  }
  if (maxima->batch_invariant) { /* as many as there may be, or an lse a warp of one */
    const int64_t splits = ceil_div(maxima->seqlen_k, FIXED_SPLIT_KEYS);
    const int64_t most = splits < AP_SPLITS_MAX ? splits : AP_SPLITS_MAX;
    return any || maxima->seqlen_k == 0 ? SIZE_MAX : rows * (size_t)(most > 8 ? most : 8);
  }
  if (maxima->num_splits > 0)
    return any ? SIZE_MAX : rows * (size_t)maxima->num_splits;
  /* A thread block has at most block_m rows, and the blocks of all splits are bounded. */
  const int sequences = maxima->sequences != AP_ATTENTION_SEQUENCES_DENSE;
  const int64_t waves = sequences ? SEQUENCE_WAVES_MAX : SPLIT_WAVES_MAX;
  const int64_t most = key_blocks < SPLITS_CHOSEN_MAX ? key_blocks : SPLITS_CHOSEN_MAX;
  const size_t by_slots = (size_t)(waves * slots) * (size_t)tile->field[AP_ATTENTION_TILE_BLOCK_M];
  const size_t by_rows =
      any ? SIZE_MAX : rows * (size_t)(sequences ? most : most_splits(1, key_blocks, slots));
  return by_rows < by_slots ? by_rows : by_slots;
}

/** Bytes of the map, at most, of problems that a tile serves: those of small row blocks have few
 * queries. SIZE_MAX: there is no bound. */
static size_t most_map_bytes(const ap_problem *problem, const ap_problem *maxima,
                             const ap_tile *tile) {
  ap_problem most = *maxima;
  int32_t batches, heads, words;
  const int few = tile->field[AP_ATTENTION_TILE_BLOCK_M] <= AP_ATTENTION_DECODE_ROWS;
  if (few)
    most.seqlen_q = problem->seqlen_q;
  const int any = most.seqlen_q == 0 || maxima->seqlen_k == 0 ||
                  (maxima->batch == 0 && maxima->mod_mask_uses & AP_MOD_USES_BATCH);
  const int64_t alone = ap_count_map_words(&most, tile, 1, &batches, &heads, &words);
  const int64_t packed =
      group_of(&most) > AP_ATTENTION_WARPGROUP_ROWS
          ? 0
          : ap_count_map_words(&most, tile, group_of(&most), &batches, &heads, &words);
  if (any || alone < 0 || packed < 0)
    return SIZE_MAX;
  return WORKSPACE_ALIGNMENT +
         (ATTNPRESS_MOD_MAP_BEGIN + (size_t)(alone > packed ? alone : packed)) * sizeof(uint32_t);
}

static attnpress_status add_workspace(const ap_problem *maxima, size_t rows, size_t more_bytes,
                                      ap_launches *range) {
  size_t lse_offset_bytes, bytes;
  if (rows == SIZE_MAX || more_bytes == SIZE_MAX) {
    range->workspace_bytes = SIZE_MAX;
    return ATTNPRESS_OK;
  }
  RETURN_IF(!partial_bytes(rows, (size_t)maxima->hdim_v, &lse_offset_bytes, &bytes),
            ATTNPRESS_INVALID_ARGUMENT,
            "the workspace of %d splits passes 2^64 bytes; ask for fewer splits",
            (int)maxima->num_splits);
  bytes += more_bytes;
  if (bytes > range->workspace_bytes)
    range->workspace_bytes = bytes;
  return ATTNPRESS_OK;
}

/** Adds what one problem launches. */
static attnpress_status add_choice(const ap_problem *problem, const ap_problem *maxima,
                                   const ap_device *device, ap_launches *range) {
  ap_plan plan;
  FORWARD_IF(ap_choose(problem, device, &plan));
  const int chosen = maxima->num_splits == 0 && maxima->seqlen_k > 0;
  if (plan.variant.axis[AP_ATTENTION_SPLIT] && chosen && !maxima->batch_invariant &&
      ceil_div(maxima->seqlen_k, plan.tile.field[AP_ATTENTION_TILE_BLOCK_N]) < SPLIT_KEY_BLOCKS_MIN)
    return ATTNPRESS_OK; /* never with so few keys */
  if (ap_has_map(problem))
    FORWARD_IF(add_launch(&plan.map, ap_variant_key(&plan.map), &plan.map_tile, plan.map_target, 1,
                          range));
  size_t more_bytes = ap_has_map(problem) ? most_map_bytes(problem, maxima, &plan.tile) : 0;
  if (ap_is_scheduled(&plan)) {
    size_t first_unit, sequences, sequence_splits;
    if (!plan.ready)
      FORWARD_IF(add_launch(&plan.schedule, ap_variant_key(&plan.schedule), &plan.schedule_tile,
                            plan.schedule_target, 0, range));
    more_bytes = maxima->batch == 0
                     ? SIZE_MAX
                     : schedule_bytes((size_t)maxima->batch, plan.variant.axis[AP_ATTENTION_SPLIT],
                                      &first_unit, &sequences, &sequence_splits);
    if (plan.variant.axis[AP_ATTENTION_SPLIT] && more_bytes != SIZE_MAX)
      more_bytes = align_workspace(more_bytes);
  }
  FORWARD_IF(add_launch(&plan.variant, plan.variant_key, &plan.tile, plan.target,
                        problem->mod_score || problem->mod_mask, range));
  size_t rows = 0;
  if (ap_needs_combine(&plan))
    FORWARD_IF(add_launch(&plan.combine, plan.combine_key, &plan.combine_tile, plan.combine_target,
                          0, range));
  if (plan.variant.axis[AP_ATTENTION_SPLIT])
    rows = most_partial_rows(maxima, device, &plan.tile);
  return add_workspace(maxima, rows, more_bytes, range);
}

/** The choices for one length of the queries and one mask: split or not, with tensor maps or
 * without. */
static attnpress_status add_mask(const ap_problem *maxima, const ap_device *device,
                                 int32_t seqlen_q, int32_t kind, ap_launches *range) {
  ap_problem probe = *maxima;
  probe.batch = 1;
  probe.seqlen_q = seqlen_q;
  probe.seqlen_k = maxima->seqlen_k > 0 ? maxima->seqlen_k : SEQLEN_PROBED;
  probe.mask = kind; /* a window of one key, which hides others whatever the lengths */
  probe.window_left = probe.window_right = probe.window_chunk = 0;
  const int any = maxima->num_splits == 0;
  for (probe.tma = maxima->tma_min; probe.tma <= maxima->tma_max; ++probe.tma)
    for (int32_t splits = 1; splits <= (any ? 2 : 1); ++splits) {
      probe.num_splits = any ? splits : maxima->num_splits;
      for (probe.ready = 0; probe.ready <= maxima->ready; ++probe.ready)
        FORWARD_IF(add_choice(&probe, maxima, device, range));
    }
  return ATTNPRESS_OK;
}

/** The choices for one length of the queries. A window that hides nothing runs other masks'
 * kernels. */
static attnpress_status add_length(const ap_problem *maxima, const ap_device *device,
                                   int32_t seqlen_q, ap_launches *range) {
  const int32_t kind = maxima->mask;
  FORWARD_IF(add_mask(maxima, device, seqlen_q, kind, range));
  if (kind != ATTNPRESS_WINDOW)
    return ATTNPRESS_OK;
  FORWARD_IF(add_mask(maxima, device, seqlen_q, ATTNPRESS_CAUSAL, range));
  return add_mask(maxima, device, seqlen_q, ATTNPRESS_FULL, range);
}

attnpress_status ap_choose_range(const ap_problem *maxima, const ap_device *device,
                                 ap_launches *range) {
  static const int32_t lengths[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                    11, 12, 13, 14, 15, 16, 17, 64, 65, SEQLEN_PROBED};
  _Static_assert(AP_ATTENTION_DECODE_ROWS == 16 && AP_ATTENTION_WARPGROUP_ROWS == 64,
                 "the lengths that are probed");
  range->count = 0;
  range->workspace_bytes = 0;
  if (maxima->heads_q == 0)
    return ATTNPRESS_OK; /* the output is empty */
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) {
    const int last = maxima->seqlen_q > 0 && lengths[i] >= maxima->seqlen_q;
    FORWARD_IF(add_length(maxima, device, last ? maxima->seqlen_q : lengths[i], range));
    if (last)
      break;
  }
  return ATTNPRESS_OK;
}
