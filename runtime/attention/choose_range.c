/* All that may be chosen for forward calls whose batch and lengths are at most some. Which kernels
 * these are depends on the batch and the lengths of the keys through splitting and the row block alone,
 * and on the length of the queries there, and at a few points: a single query, the decode rows, a
 * warpgroup's rows. */
#include "attention/choose_parts.h"
#include "attention/score_mod.h"

static attnpress_status add_launch(const ap_variant *variant, uint64_t variant_key,
                                   const ap_tile *tile, const char *target, int snippet,
                                   ap_launches *range) {
  const ap_launch launch = {.variant = *variant,
                            .variant_key = variant_key,
                            .tile = *tile,
                            .target = target,
                            .snippet = snippet};
  return ap_add_to_range(&launch, range);
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
      ap_group_of(&most) > AP_ATTENTION_WARPGROUP_ROWS
          ? 0
          : ap_count_map_words(&most, tile, ap_group_of(&most), &batches, &heads, &words);
  if (any || alone < 0 || packed < 0)
    return SIZE_MAX;
  const int64_t most_words = alone > packed ? alone : packed;
  /* Fewer keys have bits where as many as these do not. */
  const int64_t bits =
      ap_count_map_bits(&most, tile, most_words / words,
                        words < ATTNPRESS_MOD_BITS_WORDS ? words : ATTNPRESS_MOD_BITS_WORDS);
  return 2 * AP_WORKSPACE_ALIGNMENT +
         (ATTNPRESS_MOD_MAP_BEGIN + (size_t)most_words + (size_t)bits) * sizeof(uint32_t);
}

static attnpress_status add_workspace(const ap_problem *maxima, size_t rows, size_t more_bytes,
                                      ap_launches *range) {
  size_t lse_offset_bytes, bytes;
  if (rows == SIZE_MAX || more_bytes == SIZE_MAX) {
    range->workspace_bytes = SIZE_MAX;
    return ATTNPRESS_OK;
  }
  RETURN_IF(!ap_partial_bytes(rows, (size_t)maxima->hdim_v, &lse_offset_bytes, &bytes),
            ATTNPRESS_INVALID_ARGUMENT,
            "the workspace of %d splits passes 2^64 bytes; ask for fewer splits",
            (int)maxima->num_splits);
  bytes += more_bytes;
  if (bytes > range->workspace_bytes)
    range->workspace_bytes = bytes;
  return ATTNPRESS_OK;
}

/** Adds the kernel for other lengths of the sequences, where a plan's has such a counterpart. */
static attnpress_status add_long(const ap_plan *plan, ap_launches *range) {
  ap_plan other = *plan;
  if (other.variant.axis[AP_ATTENTION_LONG_ROWS]) {
    other.variant.axis[AP_ATTENTION_LONG_ROWS] = 0;
    other.variant_key = ap_variant_key(&other.variant);
    FORWARD_IF(ap_find_tile_by_key(&other.variant, other.variant_key, other.target, &other.tile));
  } else if (ap_find_long(plan, &other.variant_key, &other.tile)) {
    other.variant.axis[AP_ATTENTION_LONG_ROWS] = 1;
  } else {
    return ATTNPRESS_OK;
  }
  return add_launch(&other.variant, other.variant_key, &other.tile, other.target, 0, range);
}

/** Adds what finds the units of a batch-invariant call: the schedule kernel for many, and the kernel
 * that needs none for few. */
static attnpress_status add_finding(const ap_problem *problem, const ap_device *device,
                                    const ap_plan *plan, ap_launches *range) {
  ap_plan other = *plan;
  const ap_variant schedule = ap_schedule_variant();
  ap_tile tile;
  other.variant.axis[AP_ATTENTION_READY] = !plan->ready;
  const char *target = ap_target_for(&schedule, device->capability);
  FORWARD_IF(ap_find_tile(&schedule, target, &tile));
  FORWARD_IF(add_launch(&schedule, ap_variant_key(&schedule), &tile, target, 0, range));
  return add_launch(&other.variant, ap_variant_key(&other.variant), &other.tile, other.target,
                    problem->mod_score || problem->mod_mask, range);
}

/** Adds the kernels whose clusters share splits, where there are any, and has `plan` be of the one beside
 * them, whose parts another kernel adds up. */
static attnpress_status add_shared(const ap_problem *problem, const ap_device *device,
                                   ap_plan *plan, ap_launches *range) {
  if (!ap_may_share_splits(&plan->variant, AP_ATTENTION_SHARED_FOUR))
    return ATTNPRESS_OK;
  for (int32_t shared = AP_ATTENTION_SHARED_FOUR; shared <= AP_ATTENTION_SHARED_TWO; ++shared) {
    ap_plan other = *plan;
    if (!ap_may_share_splits(&plan->variant, shared))
      continue;
    FORWARD_IF(ap_share_splits(&other, shared));
    FORWARD_IF(add_launch(&other.variant, other.variant_key, &other.tile, other.target, 0, range));
  }
  plan->variant.axis[AP_ATTENTION_SHARED] = AP_ATTENTION_SHARED_NONE;
  plan->variant.axis[AP_ATTENTION_READY] = plan->ready;
  plan->variant_key = ap_variant_key(&plan->variant);
  FORWARD_IF(ap_find_tile_by_key(&plan->variant, plan->variant_key, plan->target, &plan->tile));
  return ap_needs_combine(plan) ? ap_find_combine(problem, device, plan) : ATTNPRESS_OK;
}

/** Adds a kernel of runs over all sequences. */
static attnpress_status add_runs_of(const ap_plan *plan, const ap_problem *maxima, int shares_keys,
                                    const ap_device *device, ap_launches *range) {
  ap_plan other = *plan;
  FORWARD_IF(ap_take_runs(device, maxima->heads_q, shares_keys, &other));
  FORWARD_IF(add_launch(&other.variant, other.variant_key, &other.tile, other.target, 0, range));
  /* A key head, or a thread block, has at most so many rows. */
  const size_t blocks = (size_t)other.runs * (size_t)(maxima->heads_q / other.heads_per_tile);
  const size_t rows =
      2 * blocks *
      (size_t)(shares_keys ? AP_ATTENTION_FEW_ROWS : other.tile.field[AP_ATTENTION_TILE_BLOCK_M]);
  return add_workspace(maxima, rows, ap_cuts_bytes(blocks), range);
}

/** Adds those beside a kernel that decodes splits, where there are any. */
static attnpress_status add_runs(const ap_plan *plan, const ap_problem *maxima,
                                 const ap_device *device, ap_launches *range) {
  if (maxima->num_splits != 0 || maxima->batch_invariant || !ap_may_have_runs(&plan->variant))
    return ATTNPRESS_OK;
  FORWARD_IF(add_runs_of(plan, maxima, 0, device, range));
  ap_problem least = *maxima; /* of all that a call may have */
  least.seqlen_q = 1;
  return ap_may_share_keys(&least, device, plan) ? add_runs_of(plan, maxima, 1, device, range)
                                                 : ATTNPRESS_OK;
}

/** Adds what adds up the parts, at fixed places of few rows and of many. */
static attnpress_status add_combine(const ap_problem *problem, const ap_device *device,
                                    const ap_plan *plan, ap_launches *range) {
  ap_plan other = *plan;
  FORWARD_IF(ap_find_combine(problem, device, &other));
  FORWARD_IF(add_launch(&other.combine, other.combine_key, &other.combine_tile,
                        other.combine_target, 0, range));
  if (!ap_schedules_splits(plan))
    return ATTNPRESS_OK;
  FORWARD_IF(ap_combine_few(&other));
  return add_launch(&other.combine, other.combine_key, &other.combine_tile, other.combine_target, 0,
                    range);
}

/** Adds what one problem launches. */
static attnpress_status add_choice(const ap_problem *problem, const ap_problem *maxima,
                                   const ap_device *device, ap_launches *range) {
  ap_plan plan;
  FORWARD_IF(ap_choose(problem, device, &plan));
  FORWARD_IF(add_shared(problem, device, &plan, range));
  const int chosen = maxima->num_splits == 0 && maxima->seqlen_k > 0;
  if (plan.variant.axis[AP_ATTENTION_SPLIT] && chosen && !maxima->batch_invariant &&
      ceil_div(maxima->seqlen_k, plan.tile.field[AP_ATTENTION_TILE_BLOCK_N]) <
          ap_least_key_blocks(&plan.tile))
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
    if (problem->batch_invariant && !problem->ready)
      FORWARD_IF(add_finding(problem, device, &plan, range));
    more_bytes = maxima->batch == 0 ? SIZE_MAX
                                    : ap_schedule_bytes((size_t)maxima->batch,
                                                        plan.variant.axis[AP_ATTENTION_SPLIT],
                                                        &first_unit, &sequences, &sequence_splits);
    if (plan.variant.axis[AP_ATTENTION_SPLIT] && more_bytes != SIZE_MAX)
      more_bytes = ap_align_workspace(more_bytes);
  }
  FORWARD_IF(add_launch(&plan.variant, plan.variant_key, &plan.tile, plan.target,
                        problem->mod_score || problem->mod_mask, range));
  FORWARD_IF(add_long(&plan, range));
  FORWARD_IF(add_runs(&plan, maxima, device, range));
  size_t rows = 0;
  if (ap_needs_combine(&plan))
    FORWARD_IF(add_combine(problem, device, &plan, range));
  if (plan.variant.axis[AP_ATTENTION_SPLIT])
    rows = ap_most_partial_rows(maxima, device, &plan.tile);
  return add_workspace(maxima, rows, more_bytes, range);
}

/** The same of each way that many heads of one query may be run. */
static attnpress_status add_ways(ap_problem *probe, const ap_problem *maxima,
                                 const ap_device *device, ap_launches *range) {
  const int many = ap_has_many_heads(probe);
  const int last = !many                                              ? AP_HEADS_AS_GIVEN
                   : ap_group_of(probe) > AP_ATTENTION_WARPGROUP_ROWS ? AP_HEADS_AS_ROWS
                                                                      : AP_HEADS_IN_BLOCKS;
  for (probe->heads = AP_HEADS_AS_GIVEN; probe->heads <= last; ++probe->heads)
    FORWARD_IF(add_choice(probe, maxima, device, range));
  return ATTNPRESS_OK;
}

/** The choices for one length of the queries and one mask: split or not, with tensor maps or
 * without. */
static attnpress_status add_mask(const ap_problem *maxima, const ap_device *device,
                                 int32_t seqlen_q, int32_t kind, ap_launches *range) {
  ap_problem probe = *maxima;
  probe.batch = 1;
  probe.seqlen_q = seqlen_q;
  probe.seqlen_k = maxima->seqlen_k > 0 ? maxima->seqlen_k : AP_SEQLEN_PROBED;
  /* A window of one key, which hides others whatever the lengths, and where there is but one key is still
   * no causal mask: that has nothing to the right. */
  probe.mask = kind;
  probe.window_left = 0;
  probe.window_right = probe.window_chunk = 1;
  const int any = maxima->num_splits == 0;
  for (probe.tma = maxima->tma_min; probe.tma <= maxima->tma_max; ++probe.tma)
    for (int32_t splits = 1; splits <= (any ? 2 : 1); ++splits) {
      probe.num_splits = any ? splits : maxima->num_splits;
      for (probe.ready = 0; probe.ready <= maxima->ready; ++probe.ready)
        FORWARD_IF(add_ways(&probe, maxima, device, range));
    }
  if (maxima->tma_min == 0 || maxima->mask == ATTNPRESS_WINDOW || !ap_may_be_short(maxima, device))
    return ATTNPRESS_OK;
  probe.tma = probe.ready = 0; /* sm80's kernel, which short calls run */
  probe.num_splits = 1;
  return add_ways(&probe, maxima, device, range);
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
                                    11, 12, 13, 14, 15, 16, 17, 64, 65, AP_SEQLEN_PROBED};
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
