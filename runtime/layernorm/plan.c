/* Decides how a layer norm is run: the kernel whose rows have room for the columns, what adds up the
 * sums over the rows, and their grids. Pure: it depends on shapes and the device's numbers, and
 * touches nothing. */
#include "layernorm/plan.h"

attnpress_status ap_layernorm_plan_call(const ap_layernorm_problem *p, const ap_device *device,
                                        int32_t range, ap_layernorm_plan *plan) {
  plan->base.count = 0;
  plan->base.workspace_bytes = 0;
  plan->parts = plan->sum_shift = plan->gang = 0;
  plan->told_bytes = 0;
  plan->pitch = p->columns;
  FORWARD_IF(ap_check_capability(device->capability));
  if (range == ATTNPRESS_UP_TO)
    return ap_layernorm_plan_range(p, device, &plan->base);
  if (p->columns == 0 || (p->rows == 0 && !ap_layernorm_has_sums(p)))
    return ATTNPRESS_OK;
  return p->backward ? ap_layernorm_plan_backward(p, device, plan)
                     : ap_layernorm_plan_forward(p, device, plan);
}
