/* What adds up the sums over the rows: bwd_reduce, and the parts that it is given. */
#include "layernorm/plan.h"

enum {
  SUM_SHIFT_MIN = 3,         /* of neighbouring threads: 128 bytes of a part at once */
  PARTS_ALIGNMENT_BYTES = 16 /* of weight_parts and bias_parts */
};

size_t ap_layernorm_parts_bytes(const ap_layernorm_problem *p, int64_t parts_columns) {
  const size_t each = (size_t)parts_columns * sizeof(float);
  const size_t aligned =
      (each + PARTS_ALIGNMENT_BYTES - 1) / PARTS_ALIGNMENT_BYTES * PARTS_ALIGNMENT_BYTES;
  return aligned * (size_t)((p->dweight != NULL) + (p->dbias != NULL));
}

int32_t ap_layernorm_sum_shift(const ap_tile *tile, int64_t columns, int64_t parts) {
  const int32_t step = tile->field[AP_LAYERNORM_TILE_STEP];
  const int64_t vectors = ceil_div(columns, SUM_VECTOR_COLUMNS);
  int32_t shift = SUM_SHIFT_MIN;
  while (2 << shift <= tile->threads && 1 << shift < vectors &&
         (int64_t)(tile->threads >> (shift + 1)) * step >= parts)
    ++shift;
  return shift;
}

attnpress_status ap_layernorm_plan_reduce(const ap_layernorm_problem *p, const ap_device *device,
                                          ap_layernorm_plan *plan) {
  ap_launch *launch = &plan->base.launch[plan->base.count++];
  FORWARD_IF(ap_layernorm_find_long_kernel(p, device, AP_LAYERNORM_PASS_BWD_REDUCE, launch));
  plan->sum_shift = ap_layernorm_sum_shift(&launch->tile, p->columns, plan->parts);
  launch->grid = (uint32_t)(ceil_div(p->columns, SUM_VECTOR_COLUMNS << plan->sum_shift) *
                            ((p->dweight != NULL) + (p->dbias != NULL)));
  plan->base.workspace_bytes = ap_layernorm_parts_bytes(p, plan->parts * plan->pitch);
  return ATTNPRESS_OK;
}
