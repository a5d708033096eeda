/* The rows of a forward call: architecture, mask, small row block, and heads that share a tile. */
#include <math.h>
#include <stdio.h>

#include "attention/choose_parts.h"
#include "attention/rows.h"

/* ---- What runs where ------------------------------------------------------------------------- */

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

/** 1 where sm90's kernels of sequences do what a call does to scores. In those of batch-invariant calls,
 * which split keys at fixed places, scores are only masked. */
static int has_ragged_scores(const ap_problem *problem) {
  if (problem->bias || problem->dropout)
    return 0;
  if (problem->batch_invariant)
    return !problem->softcap && !problem->alibi;
  return (!problem->softcap || !(problem->mod_score || problem->mod_mask)) &&
         (!problem->alibi || problem->hdim_v <= AP_ATTENTION_RAGGED_ALIBI_COLUMNS);
}

/** 1 where kernels of an architecture can run the call, and it is not one for the next in line:
 * those of sm90 read through tensor maps, short queries of more heads than a warpgroup has rows would
 * leave their tiles empty, and their ragged kernels neither have a bias or dropout nor split keys but at
 * fixed places. What a batch-invariant call runs depends on nothing that differs between
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
      (!has_ragged_scores(problem) || (problem->num_splits > 1 && !problem->batch_invariant)))
    return 0;
  return has_sm90_dims(problem, variant) && device->tma && problem->tma &&
         (ap_group_of(problem) <= AP_ATTENTION_WARPGROUP_ROWS ||
          (problem->seqlen_q > AP_ATTENTION_WARPGROUP_ROWS && !problem->batch_invariant));
}

/* ---- Short calls ----------------------------------------------------------------------------- */

enum {
  SHORT_NARROW_HDIM = 80, /* up to which it pays in more calls */
  SHORT_KEY_BLOCKS = 1,
  SHORT_NARROW_KEY_BLOCKS = 2 /* of these, where all row blocks run at once */
};

int ap_may_be_short(const ap_problem *problem, const ap_device *device) {
  return device->capability == 90 && device->tma && problem->tma_max &&
         (device->arch_max == 0 || device->arch_max >= 90) &&
         problem->sequences == AP_ATTENTION_SEQUENCES_DENSE && !problem->batch_invariant &&
         problem->num_splits <= 1 && problem->hdim == problem->hdim_v && !problem->softcap &&
         !problem->alibi && !problem->bias && !problem->dropout && !problem->mod_score &&
         !problem->mod_mask;
}

/** A plan's kernel of an architecture, and the heads that share its tiles; 0: there is none. */
static int find_of_arch(const ap_problem *problem, const ap_device *device,
                        const ap_variant *variant, int32_t arch, ap_plan *plan) {
  plan->variant = *variant;
  plan->variant.axis[AP_ATTENTION_ARCH] = arch;
  plan->target = ap_target_for(&plan->variant, device->capability);
  if (plan->target == NULL || ap_find_tile_by_key(&plan->variant, ap_variant_key(&plan->variant),
                                                  plan->target, &plan->tile) != ATTNPRESS_OK)
    return 0;
  plan->heads_per_tile = ap_choose_packing(problem, &plan->tile);
  return 1;
}

/** 1 where sm80's kernel takes less time than sm90's. A thread block of sm90's has an SM for itself, and
 * of a few keys it mostly begins and ends; of sm80's an SM has two at once. So keys are one block of
 * sm80's, heads share no tile, and row blocks that sm90's take one after the other all run at once. Of
 * narrow heads they may be two blocks, or row blocks more, if sm90's take twice the turns; and where no key
 * is masked, it is enough that each row block has an SM. */
static int is_short(const ap_problem *problem, const ap_device *device, const ap_variant *variant) {
  ap_plan sm80, sm90;
  if (!ap_may_be_short(problem, device) || problem->mask == ATTNPRESS_WINDOW ||
      problem->seqlen_k == 0 || problem->seqlen_k > AP_SHORT_KEYS_MAX ||
      !find_of_arch(problem, device, variant, 80, &sm80) || sm80.heads_per_tile > 1)
    return 0;
  const int narrow = problem->hdim <= SHORT_NARROW_HDIM;
  const int64_t key_blocks = ap_count_key_blocks(problem, &sm80.tile, 1);
  const int64_t row_blocks = ap_count_tiles(problem, &sm80, &sm80.tile);
  const int64_t per_sm = ap_blocks_per_sm(&sm80.tile, device), sms = device->sm_count;
  const int64_t rounds = ceil_div(row_blocks, per_sm * sms);
  if (rounds == 0 || (rounds > 1 && !narrow) ||
      key_blocks > (narrow && rounds == 1 ? SHORT_NARROW_KEY_BLOCKS : SHORT_KEY_BLOCKS))
    return 0;
  if (narrow && problem->mask == ATTNPRESS_FULL && key_blocks == 1 && row_blocks <= sms)
    return 1;
  return find_of_arch(problem, device, variant, 90, &sm90) && sm90.heads_per_tile == 1 &&
         ceil_div(ap_count_tiles(problem, &sm90, &sm90.tile), sms) >= 2 * rounds;
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
  for (const ap_route *next; !serves(run, problem, device, variant) ||
                             (run->arch == 90 && is_short(problem, device, variant));
       run = next)
    if ((next = ap_next_route(variant, device->capability, run)) == NULL)
      break; /* the last one runs every call */
  variant->axis[AP_ATTENTION_ARCH] = run->arch;
  *target = run->target;
  return ATTNPRESS_OK;
}

/* ---- Rows: mask, packing, row block ---------------------------------------------------------- */

/** Heads of a group are packed into one tile where that leaves less than this share of the tiles.
 */
#define PACKING_GAIN       0.9
#define PACKED_ROWS_MIN    0.9
#define TIMED_PACKING_GAIN 0.97 /* the same of what they take, where that is known better */

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

int64_t ap_count_key_blocks(const ap_problem *problem, const ap_tile *tile,
                            int32_t heads_per_tile) {
  const int64_t block_n = tile->field[AP_ATTENTION_TILE_BLOCK_N];
  const int64_t all = ceil_div(problem->seqlen_k, block_n);
  if (problem->mask != ATTNPRESS_WINDOW || problem->seqlen_q == 0)
    return all;
  const int64_t positions = ap_row_block_positions(tile, heads_per_tile);
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

int64_t ap_count_row_blocks(const ap_problem *problem, const ap_tile *tile,
                            int32_t heads_per_tile) {
  if (tile->field[AP_ATTENTION_TILE_PRODUCER]) {
    return ceil_div(problem->seqlen_q, ap_row_block_positions(tile, heads_per_tile));
  }
  return ceil_div((int64_t)problem->seqlen_q * heads_per_tile,
                  tile->field[AP_ATTENTION_TILE_BLOCK_M]);
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

int64_t ap_count_tiles(const ap_problem *problem, const ap_plan *plan, const ap_tile *tile) {
  int64_t row_blocks = ap_count_row_blocks(problem, tile, plan->heads_per_tile) * problem->batch;
  if (problem->rows_q > 0 && tile->field[AP_ATTENTION_TILE_PRODUCER]) {
    const int64_t most =
        problem->rows_q / ap_row_block_positions(tile, plan->heads_per_tile) + problem->batch;
    row_blocks = row_blocks < most ? row_blocks : most;
  }
  return row_blocks * ceil_div(problem->heads_q, plan->heads_per_tile);
}

int64_t ap_row_block_positions(const ap_tile *tile, int32_t heads_per_tile) {
  const int32_t block_m = tile->field[AP_ATTENTION_TILE_BLOCK_M];
  if (tile->field[AP_ATTENTION_TILE_PRODUCER])
    return block_m / ap_consumer_rows(tile) * (ap_consumer_rows(tile) / heads_per_tile);
  return ceil_div(block_m, heads_per_tile) + (block_m % heads_per_tile != 0);
}

/* Of kernels with a thread block a row block: what is its own, in key blocks, and where heads share it,
 * whose rows are found one by one. */
#define OWN_BLOCKS        1.5
#define OWN_BLOCKS_PACKED 3.7

/** The same of a call; 0 where lengths are only bounds, and of few rows, whose keys are what counts. */
static double own_key_blocks(const ap_problem *problem, const ap_tile *tile,
                             int32_t heads_per_tile) {
  if (tile->field[AP_ATTENTION_TILE_PRODUCER] || problem->batch_invariant ||
      problem->sequences != AP_ATTENTION_SEQUENCES_DENSE ||
      tile->field[AP_ATTENTION_TILE_BLOCK_M] <= AP_ATTENTION_DECODE_ROWS)
    return 0;
  return heads_per_tile > 1 ? OWN_BLOCKS_PACKED : OWN_BLOCKS;
}

/** What the row blocks of a group's heads take, in key blocks; one more a row block for what is its
 * own. A window that is no longer than a tile is where packing pays: fewer positions lie closer. */
static double cost_of_row_blocks(const ap_problem *problem, const ap_tile *tile,
                                 int32_t heads_per_tile) {
  const double block_n = tile->field[AP_ATTENTION_TILE_BLOCK_N];
  const double positions = (double)ap_row_block_positions(tile, heads_per_tile);
  double keys = (double)keys_of_a_row(problem) + positions;
  if (keys > (double)problem->seqlen_k)
    keys = (double)problem->seqlen_k;
  const double blocks =
      own_key_blocks(problem, tile, heads_per_tile) +
      (problem->mask == ATTNPRESS_WINDOW ? keys / block_n + 2 : ceil(keys / block_n));
  return (double)ap_count_row_blocks(problem, tile, heads_per_tile) *
         (double)ceil_div(ap_group_of(problem), heads_per_tile) * blocks;
}

/** 1 where the time of a call's row blocks is known well: kernels whose thread blocks stay, and which
 * have all rows and keys that the lengths say. */
static int has_timed_packing(const ap_problem *problem, const ap_tile *tile) {
  return tile->field[AP_ATTENTION_TILE_PRODUCER] && problem->mask != ATTNPRESS_WINDOW &&
         problem->sequences == AP_ATTENTION_SEQUENCES_DENSE && !problem->batch_invariant;
}

/** Key blocks that all groups of so many positions see together, in the mean of where key blocks end. */
static double seen_blocks(const ap_problem *problem, int32_t positions, int32_t block_n) {
  const int64_t seqlen_q = problem->seqlen_q, seqlen_k = problem->seqlen_k;
  if (problem->mask == ATTNPRESS_FULL)
    return (double)(ceil_div(seqlen_q, positions) * ceil_div(seqlen_k, block_n));
  const int64_t rows = seqlen_q < seqlen_k ? seqlen_q : seqlen_k;
  const int64_t groups = ceil_div(rows, positions), past_end = groups * positions - rows;
  const int64_t keys =
      positions * (groups * (groups + 1) / 2) - past_end + groups * (seqlen_k - rows);
  return (double)keys / block_n + 0.5 * (double)groups;
}

/** The same by the model of schedule.c: a key block takes 0.4 of its time for the whole row block, and
 * the rest for the consumers that see it; 1.5 a row block are its own. Fewer positions of more heads
 * lie closer to the diagonal. */
static double timed_cost(const ap_problem *problem, const ap_tile *tile, int32_t heads_per_tile) {
  const int32_t block_n = tile->field[AP_ATTENTION_TILE_BLOCK_N];
  const int32_t consumers = tile->field[AP_ATTENTION_TILE_BLOCK_M] / AP_ATTENTION_WARPGROUP_ROWS;
  const int32_t positions = AP_ATTENTION_WARPGROUP_ROWS / heads_per_tile;
  const double cost = 0.4 * seen_blocks(problem, consumers * positions, block_n) +
                      0.6 * seen_blocks(problem, positions, block_n) / consumers +
                      1.5 * (double)ap_count_row_blocks(problem, tile, heads_per_tile);
  return (double)ceil_div(ap_group_of(problem), heads_per_tile) * cost;
}

static double cost_of_packing(const ap_problem *problem, const ap_tile *tile,
                              int32_t heads_per_tile) {
  return has_timed_packing(problem, tile) ? timed_cost(problem, tile, heads_per_tile)
                                          : cost_of_row_blocks(problem, tile, heads_per_tile);
}

/** 1 where some heads of a group can share the tiles of sm90's kernels, if it has more than a warpgroup
 * has rows: the last of those that share one may be fewer, if they belong to the last key head. What is
 * read by head knows nothing of them. */
static int may_pack_parts(const ap_problem *problem) {
  return problem->sequences == AP_ATTENTION_SEQUENCES_DENSE && !problem->batch_invariant &&
         !problem->alibi && !problem->bias && !problem->dropout && !problem->mod_score &&
         !problem->mod_mask && problem->hdim_v <= AP_ATTENTION_SM90_HDIM_MAX &&
         (problem->heads_kv == 1 || ap_group_of(problem) % 2 == 0);
}

/** Of groups with more heads than a warpgroup has rows: the power of two of them whose row blocks take
 * least of a key block, in tenths of it for a consumer; of several the largest, whose rows lie closest
 * to a diagonal. */
static int32_t packed_part(const ap_problem *problem, const ap_tile *tile) {
  const int32_t group = ap_group_of(problem);
  const int32_t consumers = tile->field[AP_ATTENTION_TILE_BLOCK_M] / AP_ATTENTION_WARPGROUP_ROWS;
  int32_t best = 1;
  int64_t least = INT64_MAX;
  if (!may_pack_parts(problem))
    return best;
  for (int32_t heads = AP_ATTENTION_WARPGROUP_ROWS; heads > 1; heads /= 2) {
    if (problem->heads_kv > 1 && group % heads != 0)
      continue;
    const int64_t warpgroups = ceil_div(problem->seqlen_q, AP_ATTENTION_WARPGROUP_ROWS / heads);
    const int64_t row_blocks = ceil_div(warpgroups, consumers);
    const int64_t time = ceil_div(group, heads) * (4 * consumers * row_blocks + 6 * warpgroups);
    if (time < least) {
      least = time;
      best = heads;
    }
  }
  return best;
}

int32_t ap_packed_heads(const ap_problem *problem, const ap_tile *tile) {
  const int32_t group = ap_group_of(problem);
  if (group <= 1 || problem->dropout || /* whose rows are positions */
      (int64_t)problem->seqlen_q * group > INT32_MAX - AP_ATTENTION_HDIM_MAX)
    return 1;
  if (!tile->field[AP_ATTENTION_TILE_PRODUCER])
    return group;
  /* Those of a bias of 16 bits that is copied are, too. */
  if (problem->bias == ATTNPRESS_FP16 || problem->bias == ATTNPRESS_BF16)
    return 1;
  return group <= AP_ATTENTION_WARPGROUP_ROWS ? group : packed_part(problem, tile);
}

/** 1 for sequences of lengths of their own, where a warpgroup is nearly full of a group's heads: of few
 * queries, which a longer one's bound says nothing of, heads one by one read K and V for a row each. */
static int leaves_few_rows(const ap_problem *problem, const ap_tile *tile, int32_t group) {
  const int32_t used = AP_ATTENTION_WARPGROUP_ROWS / group * group;
  return problem->sequences != AP_ATTENTION_SEQUENCES_DENSE &&
         tile->field[AP_ATTENTION_TILE_PRODUCER] &&
         used >= PACKED_ROWS_MIN * AP_ATTENTION_WARPGROUP_ROWS;
}

int32_t ap_choose_packing(const ap_problem *problem, const ap_tile *tile) {
  const int32_t heads = ap_packed_heads(problem, tile);
  if (heads == 1)
    return 1;
  if (leaves_few_rows(problem, tile, heads))
    return heads;
  const double gain = problem->mask == ATTNPRESS_WINDOW || has_timed_packing(problem, tile)
                          ? TIMED_PACKING_GAIN
                          : PACKING_GAIN;
  return cost_of_packing(problem, tile, heads) < gain * cost_of_packing(problem, tile, 1) ? heads
                                                                                          : 1;
}

attnpress_status ap_choose_rows(const ap_problem *problem, const ap_device *device, ap_plan *plan) {
  ap_variant *v = &plan->variant;
  v->axis[AP_ATTENTION_MASK] = choose_mask(problem);
  v->axis[AP_ATTENTION_DECODE] =
      !problem->batch_invariant &&
      (problem->heads == AP_HEADS_IN_BLOCKS ||
       (int64_t)problem->seqlen_q * ap_group_of(problem) <= AP_ATTENTION_DECODE_ROWS);
  FORWARD_IF(choose_arch(problem, device, v, &plan->target));
  plan->variant_key = ap_variant_key(v);
  FORWARD_IF(ap_find_tile_by_key(v, plan->variant_key, plan->target, &plan->tile));
  plan->heads_per_tile = ap_choose_packing(problem, &plan->tile);
  return ATTNPRESS_OK;
}
