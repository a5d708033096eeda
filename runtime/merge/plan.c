/* Decides how parts are merged: the kernel of the two dtypes, and its grid. Pure: it depends on
 * shapes and the device's numbers, and touches nothing. */
#include "merge/merge.h"

#include "attention/attention.h"
#include "press/target.h"
#include "core/numbers.h"

enum { LANE_SHIFT_MAX = 5 /* of a warp */ };

static const double LOG2_OF_E = 1.4426950408889634074, LOG_OF_2 = 0.69314718055994530942;

static attnpress_status find_kernel(const ap_merge_problem *p, const ap_device *device,
                                    ap_launch *launch) {
  ap_variant *v = &launch->variant;
  *launch = (ap_launch){.variant.family = AP_FAMILY_MERGE, .num_splits = 1};
  v->axis[AP_MERGE_PASS] = AP_MERGE_PASS_PARTS;
  v->axis[AP_MERGE_DTYPE] = p->dtype;
  v->axis[AP_MERGE_RESULT] = p->out_dtype;
  ap_choose_arch(device, launch);
  return ap_find_launch_tile(launch);
}

/** As many lanes share a row as it has vectors, at most a warp: lanes of one row wait for each
 * other. */
static int32_t lane_shift_of(const ap_merge_problem *p) {
  const int64_t vectors = ceil_div(p->head_dim, p->dtype == ATTNPRESS_FP32 ? 4 : 8);
  int32_t shift = 0;
  while (shift < LANE_SHIFT_MAX && (int64_t)1 << shift < vectors)
    ++shift;
  return shift;
}

attnpress_status ap_merge_plan_call(const ap_merge_problem *p, const ap_device *device,
                                    int32_t range, ap_merge_plan *plan) {
  ap_launch *launch = &plan->base.launch[0];
  plan->base.count = 0;
  plan->base.workspace_bytes = 0;
  plan->lane_shift = lane_shift_of(p);
  FORWARD_IF(ap_check_capability(device->capability));
  if (range == ATTNPRESS_ONE_CALL && ap_merge_rows(p) == 0)
    return ATTNPRESS_OK;
  FORWARD_IF(find_kernel(p, device, launch));
  plan->base.count = 1;
  if (range == ATTNPRESS_ONE_CALL)
    launch->grid = (uint32_t)ceil_div(ap_merge_rows(p), launch->tile.threads >> plan->lane_shift);
  return ATTNPRESS_OK;
}

static attnpress_merge_rows rows_of(const attnpress_tensor *out, const float *lse,
                                    const int64_t lse_stride[3]) {
  return (attnpress_merge_rows){.out = out->data,
                                .lse = lse,
                                .batch_stride = out->stride[0],
                                .row_stride = out->stride[1],
                                .head_stride = out->stride[2],
                                .lse_batch_stride = lse_stride[0],
                                .lse_head_stride = lse_stride[1],
                                .lse_row_stride = lse_stride[2]};
}

void ap_merge_fill_args(const ap_merge_problem *p, const ap_merge_plan *plan,
                        attnpress_merge_parts_args *args) {
  *args = (attnpress_merge_parts_args){
      .result = rows_of(&p->out, p->lse, p->lse_stride),
      .heads = ap_divisor((int32_t)p->heads),
      .seqlen = ap_divisor((int32_t)p->seqlen),
      .rows = (int32_t)ap_merge_rows(p),
      .head_dim = (int32_t)p->head_dim,
      .parts = p->num_parts,
      .lane_shift = plan->lane_shift,
      .log2_of_lse = p->lse_log2 ? 1.0f : (float)LOG2_OF_E,
      .lse_of_log2 = p->lse_log2 ? 1.0f : (float)LOG_OF_2,
  };
  for (int32_t i = 0; i < p->num_parts; ++i)
    args->part[i] = rows_of(&p->part[i].out, p->part[i].lse, p->part[i].lse_stride);
}
