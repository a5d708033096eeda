/* Decides how a matrix product is run: the kernel that has room for the columns, and its grid. Pure:
 * it depends on shapes and the device's numbers, and touches nothing. */
#include "matmul/matmul.h"

#include <inttypes.h>

#include "press/target.h"

_Static_assert((int)ATTNPRESS_MATMUL_N_MAX == (int)AP_MATMUL_COLS_MAX, "as the generator has it");

static const ap_set *classes_of_columns(void) {
  return &ap_families[AP_FAMILY_MATMUL]->axes[AP_MATMUL_COLS].domain;
}

/** The place of the first class of columns that has room for n. */
static int32_t first_class(int64_t n) {
  const ap_set *classes = classes_of_columns();
  int32_t i = 0;
  while (i < classes->count - 1 && classes->values[i] < n)
    ++i;
  return i;
}

static attnpress_status find_kernel(const ap_matmul_problem *p, const ap_device *device,
                                    int32_t class, ap_launch *launch) {
  ap_variant *v = &launch->variant;
  *launch = (ap_launch){.variant.family = AP_FAMILY_MATMUL, .num_splits = 1};
  v->axis[AP_MATMUL_PASS] = p->transposed ? AP_MATMUL_PASS_NT : AP_MATMUL_PASS_NN;
  v->axis[AP_MATMUL_COLS] = classes_of_columns()->values[class];
  v->axis[AP_MATMUL_DTYPE] = p->dtype;
  v->axis[AP_MATMUL_WEIGHT] =
      p->w_dtype == ATTNPRESS_FP32 ? AP_MATMUL_WEIGHT_FP32 : AP_MATMUL_WEIGHT_SAME;
  const ap_route *route = ap_next_route(v, device->capability, NULL);
  v->axis[AP_MATMUL_ARCH] = route->arch;
  launch->target = route->target;
  return ap_find_launch_tile(launch);
}

static attnpress_status set_grid(const ap_matmul_problem *p, ap_launch *launch) {
  const int64_t each = launch->tile.field[AP_MATMUL_TILE_BLOCK_M];
  const int64_t blocks = p->rows / each + (p->rows % each != 0);
  RETURN_IF(blocks > INT32_MAX, ATTNPRESS_NOT_SUPPORTED,
            "rows is %" PRId64 "; with n %" PRId64 " a launch has at most %" PRId64, p->rows, p->n,
            INT32_MAX * each);
  launch->grid = (uint32_t)blocks;
  return ATTNPRESS_OK;
}

static attnpress_status plan_range(const ap_matmul_problem *p, const ap_device *device,
                                   ap_launches *plan) {
  const int32_t last = first_class(p->n == 0 ? ATTNPRESS_MATMUL_N_MAX : p->n);
  for (int32_t class = 0; class <= last; ++class)
    FORWARD_IF(find_kernel(p, device, class, &plan->launch[plan->count++]));
  return ATTNPRESS_OK;
}

attnpress_status ap_matmul_plan(const ap_matmul_problem *p, const ap_device *device, int32_t range,
                                ap_launches *plan) {
  plan->count = 0;
  plan->workspace_bytes = 0;
  FORWARD_IF(ap_check_capability(device->capability));
  if (range == ATTNPRESS_UP_TO)
    return plan_range(p, device, plan);
  if (ap_matmul_is_empty(p))
    return ATTNPRESS_OK;
  FORWARD_IF(find_kernel(p, device, first_class(p->n), &plan->launch[0]));
  plan->count = 1;
  return set_grid(p, &plan->launch[0]);
}
