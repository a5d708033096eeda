/* Decides how a forward call is run: what choose_rows.c and choose_splits.c choose, grid and workspace;
 * the order of the work is schedule.c's. Pure: it depends on shapes, strides and the device's numbers,
 * never on data, and touches nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "attention/choose_parts.h"
#include "attention/schedule.h"
#include "attention/score_mod.h"

/* Runs, at most, whose parts one group of threads of the combine kernel adds up. */
enum { OVERLAP_CAPABILITY_MIN = 90, RUNS_GROUP_MAX = 72 };

int ap_partial_bytes(size_t rows, size_t hdim_v, size_t *lse_offset_bytes, size_t *all_bytes) {
  size_t out_bytes, lse_bytes;
  if (__builtin_mul_overflow(rows, sizeof(float), &lse_bytes) ||
      __builtin_mul_overflow(lse_bytes, hdim_v, &out_bytes) ||
      __builtin_add_overflow(out_bytes, (size_t)AP_WORKSPACE_ALIGNMENT - 1, &out_bytes))
    return 0;
  *lse_offset_bytes = out_bytes & ~(size_t)(AP_WORKSPACE_ALIGNMENT - 1);
  return !__builtin_add_overflow(*lse_offset_bytes, lse_bytes, all_bytes);
}

/** Where the splits leave their parts. */
static attnpress_status plan_parts(const ap_problem *problem, ap_plan *plan) {
  const size_t rows = (size_t)problem->batch * (size_t)problem->heads_q * (size_t)problem->seqlen_q;
  size_t all;
  if (plan->variant.axis[AP_ATTENTION_SHARED])
    return ATTNPRESS_OK;
  if (plan->runs > 0) { /* at most two a run */
    const size_t run_rows = ap_runs_share_keys(plan)
                                ? (size_t)problem->heads_kv * AP_ATTENTION_FEW_ROWS
                                : (size_t)problem->heads_q * (size_t)problem->seqlen_q;
    RETURN_IF(!ap_partial_bytes(2 * run_rows * (size_t)plan->runs, (size_t)problem->hdim_v,
                                &plan->lse_partial_offset_bytes, &plan->workspace_bytes),
              ATTNPRESS_INVALID_ARGUMENT, "the workspace passes 2^64 bytes");
    plan->cuts_offset_bytes = ap_align_workspace(plan->workspace_bytes);
    plan->workspace_bytes +=
        ap_cuts_bytes((size_t)plan->runs * (size_t)(problem->heads_q / plan->heads_per_tile));
    return ATTNPRESS_OK;
  }
  if (ap_is_scheduled(plan) && !ap_schedules_splits(plan)) {
    plan->out_partial_offset_bytes = ap_align_workspace(plan->workspace_bytes);
    plan->workspace_bytes =
        plan->out_partial_offset_bytes + ap_kept_bytes(problem->hdim_v, &plan->tile, plan->grid);
    return ATTNPRESS_OK;
  }
  const size_t scheduled_bytes = plan->workspace_bytes;
  const int fits = !__builtin_mul_overflow(rows, (size_t)plan->num_splits, &all) &&
                   ap_partial_bytes(all, (size_t)problem->hdim_v, &plan->lse_partial_offset_bytes,
                                    &plan->workspace_bytes);
  RETURN_IF(!fits, ATTNPRESS_INVALID_ARGUMENT,
            "the workspace of %d splits of %zu rows passes 2^64 bytes; ask for fewer splits",
            (int)plan->num_splits, rows);
  if (ap_is_scheduled(plan)) {
    plan->out_partial_offset_bytes = ap_align_workspace(scheduled_bytes);
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
  FORWARD_IF(ap_find_combine(problem, device, plan));
  const int64_t rows = plan->runs > 0 ? (int64_t)plan->runs * problem->heads_q * problem->seqlen_q
                                      : ap_rows_of(problem);
  const int64_t split_rows = rows - ap_whole_rows(plan, problem->seqlen_q);
  /* Of runs few rows have parts, and those have few where runs are. */
  const int few_parts = plan->runs > 0 && plan->runs <= RUNS_GROUP_MAX;
  const int few_rows = ap_combines_few(problem, plan, rows);
  if (few_rows)
    FORWARD_IF(ap_combine_few(plan));
  plan->combine_block_rows =
      few_rows ? 1
      : ap_schedules_splits(plan) && problem->batch_invariant
          ? plan->combine_tile.threads / 32 /* a warp each */
      : few_parts
          ? plan->combine_tile.threads / (plan->combine_tile.field[AP_ATTENTION_TILE_BLOCK_N] / 4)
          : ap_choose_combine_rows(problem, split_rows, device, &plan->combine_tile,
                                   plan->num_splits);
  const int64_t blocks =
      ap_count_combine_blocks(problem, split_rows, &plan->combine_tile, plan->combine_block_rows);
  RETURN_IF(blocks > INT32_MAX, ATTNPRESS_NOT_SUPPORTED,
            "%" PRId64 " query rows (batch * heads * seqlen_q) cannot be split: at most 2^31 - 1; "
            "set num_splits to 1",
            rows);
  plan->combine_grid = (unsigned)blocks;
  return ATTNPRESS_OK;
}

/* ---- The map of a snippet's mask ---- */

enum { MAP_BLOCKS_PER_WORD = 16 };

int64_t ap_count_map_words(const ap_problem *problem, const ap_tile *tile, int32_t heads_per_tile,
                           int32_t *batches, int32_t *heads, int32_t *words) {
  const int uses = problem->mod_mask_uses;
  int64_t all = ap_count_row_blocks(problem, tile, heads_per_tile);
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

int64_t ap_count_map_bits(const ap_problem *problem, const ap_tile *tile, int64_t rows,
                          int32_t words) {
  const int32_t *field = tile->field;
  if (!field[AP_ATTENTION_TILE_PRODUCER] || problem->mod_mask_uses & AP_MOD_USES_HEAD ||
      words > ATTNPRESS_MOD_BITS_WORDS)
    return 0;
  const int row_words = ceil_div(field[AP_ATTENTION_TILE_BLOCK_N], 128); /* of a thread */
  return rows * words * ATTNPRESS_MOD_BITS_BLOCKS * field[AP_ATTENTION_TILE_BLOCK_M] * 4 *
         row_words;
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
  plan->map_offset_bytes = ap_align_workspace(plan->workspace_bytes);
  plan->workspace_bytes =
      plan->map_offset_bytes + (ATTNPRESS_MOD_MAP_BEGIN + (size_t)words) * sizeof(uint32_t);
  const int64_t bits =
      ap_count_map_bits(problem, &plan->tile, words / plan->map_words, plan->map_words);
  if (bits > 0) {
    plan->map_bits_offset_bytes = ap_align_workspace(plan->workspace_bytes);
    plan->workspace_bytes = plan->map_bits_offset_bytes + (size_t)bits * sizeof(uint32_t);
  }
  return ATTNPRESS_OK;
}

size_t ap_schedule_bytes(size_t batch, int splits, size_t *first_unit, size_t *sequences,
                         size_t *sequence_splits) {
  *first_unit = AP_WORKSPACE_ALIGNMENT;
  *sequences = ap_align_workspace(*first_unit + (batch + 1) * sizeof(int32_t));
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

uint32_t ap_schedule_parts(int32_t batch) {
  return batch == 0 ? 1 : (uint32_t)ceil_div(batch, ATTNPRESS_SCHEDULE_PART);
}

/** The most sequences that thread blocks look through at once. */
enum { SEQUENCES_AT_ONCE = 32 };

/** 1 where units of splits at fixed places are found without the schedule kernel, which short calls
 * would wait for: where each has a thread block, or where all are of one split, and so of a length. */
static int finds_units(const ap_problem *problem, const ap_plan *plan, int64_t units) {
  return plan->fixed_split_blocks > 0 &&
         (units <= plan->grid ||
          (ap_schedules_splits(plan) && problem->batch <= SEQUENCES_AT_ONCE));
}

/** With a schedule of the call's own, or with none: the ticket, and of splits what the forward kernel
 * leaves to the combine kernel. Units that are no more than thread blocks need no ticket. */
static void plan_ready(const ap_problem *problem, int64_t units, ap_plan *plan) {
  plan->ready = 1;
  plan->variant.axis[AP_ATTENTION_READY] = !plan->variant.axis[AP_ATTENTION_SHARED];
  plan->variant_key = ap_variant_key(&plan->variant); /* whose tile is the same */
  plan->tickets = problem->ready && units > plan->grid;
  plan->sequence_splits_offset_bytes = plan->tickets ? AP_WORKSPACE_ALIGNMENT : 0;
  plan->workspace_bytes =
      plan->sequence_splits_offset_bytes +
      (ap_schedules_splits(plan) ? (size_t)problem->batch * sizeof(int32_t) : 0);
}

static attnpress_status plan_schedule(const ap_problem *problem, const ap_device *device,
                                      int64_t units, ap_plan *plan) {
  plan->tickets = 1;
  if (problem->ready || finds_units(problem, plan, units)) {
    plan_ready(problem, units, plan);
    return ATTNPRESS_OK;
  }
  plan->schedule = ap_schedule_variant();
  plan->schedule_target = ap_target_for(&plan->schedule, device->capability);
  FORWARD_IF(ap_find_tile(&plan->schedule, plan->schedule_target, &plan->schedule_tile));
  plan->workspace_bytes = ap_schedule_bytes(
      (size_t)problem->batch, ap_schedules_splits(plan), &plan->first_unit_offset_bytes,
      &plan->sequences_offset_bytes, &plan->sequence_splits_offset_bytes);
  return ATTNPRESS_OK;
}

/** Fills row_blocks and grid; *units: row blocks of all heads, batches and splits. */
static attnpress_status plan_grid(const ap_problem *problem, const ap_device *device, ap_plan *plan,
                                  int64_t *units) {
  /* Kernels whose thread blocks stay count past the end of a section. */
  const int persistent = ap_works_through_units(plan);
  const int64_t most = persistent ? INT64_C(1) << 29 : INT32_MAX;
  *units = ap_count_tiles(problem, plan, &plan->tile);
  if (plan->runs > 0)
    *units = ap_run_blocks(plan, problem->heads_q);
  RETURN_IF(__builtin_mul_overflow(*units, plan->num_splits, units) || *units > most,
            ATTNPRESS_NOT_SUPPORTED,
            "batch %d x %d heads x seqlen_q %d in %d splits needs more than %s thread blocks; "
            "divide the batch",
            (int)problem->batch, (int)problem->heads_q, (int)problem->seqlen_q,
            (int)plan->num_splits, persistent ? "2^29" : "2^31 - 1");
  *units -= (int64_t)plan->whole_row_blocks * (plan->num_splits - 1);
  plan->row_blocks = (int32_t)ap_count_row_blocks(problem, &plan->tile, plan->heads_per_tile);
  plan->grid = (unsigned)*units;
  if (plan->variant.axis[AP_ATTENTION_SHARED])
    plan->grid *= (unsigned)ap_split_sharing(plan->variant.axis[AP_ATTENTION_SHARED]);
  else if (persistent && *units > device->sm_count)
    plan->grid = (unsigned)device->sm_count;
  return ATTNPRESS_OK;
}

/** Shared memory that a decode kernel's thread blocks ask for, so that no more lie on an SM than should;
 * 0: what they use. */
static int few_at_once(const ap_device *device, const ap_plan *plan) {
  const int most = ap_decode_blocks_per_sm(device, &plan->tile, plan->grid);
  const int fit = most < plan->tile.field[AP_ATTENTION_TILE_MIN_BLOCKS] || most == 1;
  const int smem_bytes = ap_few_smem_bytes(device, most);
  return fit && smem_bytes > plan->tile.smem_bytes ? smem_bytes : 0;
}

/** ap_choose() of a call whose heads are what they are to the kernels. */
static attnpress_status choose(const ap_problem *problem, const ap_device *device, ap_plan *plan) {
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
  FORWARD_IF(ap_choose_kernel(problem, device, plan));
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
  if (ap_works_through_units(plan) && units > 0)
    ap_schedule(problem, device->memo, (int32_t)units, plan);
  /* Those kernels wait themselves, where the device can (include/attnpress/device/
   * ptx_griddepcontrol.cuh). They are short, and often run back to back. */
  plan->combine_overlaps = ap_needs_combine(plan) && device->capability >= OVERLAP_CAPABILITY_MIN;
  plan->overlaps = (ap_works_through_units(plan) ? ap_has_map(problem)
                                                 : plan->variant.axis[AP_ATTENTION_SPLIT] ||
                                                       plan->variant.axis[AP_ATTENTION_DECODE]) &&
                   device->capability >= OVERLAP_CAPABILITY_MIN;
  if (plan->tile.field[AP_ATTENTION_TILE_WARPS_K] > 1 && plan->runs == 0)
    plan->launch_smem_bytes = few_at_once(device, plan);
  if (plan->variant.axis[AP_ATTENTION_SPLIT]) {
    FORWARD_IF(plan_parts(problem, plan));
    if (ap_needs_combine(plan))
      FORWARD_IF(plan_combine(problem, device, plan));
  }
  return ap_has_map(problem) && plan->grid > 0 ? plan_map(problem, device, plan) : ATTNPRESS_OK;
}

attnpress_status ap_choose(const ap_problem *problem, const ap_device *device, ap_plan *plan) {
  memset(plan, 0, sizeof *plan);
  if (!ap_has_many_heads(problem))
    return choose(problem, device, plan);
  ap_problem taken = *problem;
  taken.heads = ap_choose_heads(problem);
  plan->heads_are_rows = taken.heads == AP_HEADS_AS_ROWS;
  if (plan->heads_are_rows)
    ap_heads_to_rows(&taken);
  return choose(&taken, device, plan);
}
