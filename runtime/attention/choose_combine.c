/* The kernel that adds up the splits of a forward call: which it is, and its thread blocks. */
#include "attention/choose_parts.h"

/* A thread block that adds up one row is there for many splits. Few splits of many rows, more than
 * run at once, are better off with a row a group of its threads. Of sequences of their own lengths
 * most have few splits, but a group has all of the longest one's to add up. */
enum { GROUP_SPLITS_MAX = 16, BLOCKS_PER_SM = 16, SEQUENCE_BLOCKS_PER_SM = 32 };

/* Splits at fixed places that flash_fwd_combine_few has room for; and its thread blocks, at most: more
 * are better off as warps of a quarter of them. */
enum { FEW_SPLITS_MAX = 32, FEW_BLOCKS_MAX = 320 };

attnpress_status ap_find_combine(const ap_problem *problem, const ap_device *device,
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
  return ap_find_tile_by_key(&plan->combine, plan->combine_key, plan->combine_target,
                             &plan->combine_tile);
}

attnpress_status ap_combine_few(ap_plan *plan) {
  plan->combine.axis[AP_ATTENTION_FEW] = 1;
  plan->combine_key = ap_variant_key(&plan->combine);
  return ap_find_tile_by_key(&plan->combine, plan->combine_key, plan->combine_target,
                             &plan->combine_tile);
}

int ap_combines_few(const ap_problem *problem, const ap_plan *plan, int64_t rows) {
  return ap_schedules_splits(plan) && plan->num_splits <= FEW_SPLITS_MAX &&
         ap_count_combine_blocks(problem, rows, &plan->combine_tile, 1) <= FEW_BLOCKS_MAX;
}

int64_t ap_rows_of(const ap_problem *problem) {
  return (int64_t)problem->batch * problem->heads_q * problem->seqlen_q;
}

int64_t ap_whole_rows(const ap_plan *plan, int32_t seqlen_q) {
  const int64_t heads = plan->row_blocks > 0 ? plan->whole_row_blocks / plan->row_blocks : 0;
  return heads * plan->heads_per_tile * seqlen_q;
}

int64_t ap_count_combine_blocks(const ap_problem *problem, int64_t rows, const ap_tile *combine,
                                int32_t block_rows) {
  return ceil_div(rows, block_rows) *
         ceil_div(problem->hdim_v, combine->field[AP_ATTENTION_TILE_BLOCK_N]);
}

int32_t ap_choose_combine_rows(const ap_problem *problem, int64_t rows, const ap_device *device,
                               const ap_tile *combine, int32_t num_splits) {
  const int dense = problem->sequences == AP_ATTENTION_SEQUENCES_DENSE;
  const int64_t at_once = dense ? BLOCKS_PER_SM : SEQUENCE_BLOCKS_PER_SM;
  if (problem->batch_invariant || (dense && num_splits > GROUP_SPLITS_MAX) ||
      ap_count_combine_blocks(problem, rows, combine, 1) <= at_once * device->sm_count)
    return 1;
  return combine->threads / (combine->field[AP_ATTENTION_TILE_BLOCK_N] / 4);
}
