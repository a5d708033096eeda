/* Decides how a softmax is run: the kernel whose rows have room for the columns, and its grid.
 * Pure: it depends on shapes and the device's numbers, and touches nothing. */
#include "softmax/softmax.h"

#include <inttypes.h>

#include "press/target.h"
#include "core/numbers.h"

enum { VECTOR_BYTES = 16 };

/** The place of the first class of columns that has room for `columns`: for the vectors of such a
 * row, wherever it begins. */
static int32_t first_class(const ap_softmax_problem *p, int64_t columns) {
  const ap_set *classes = &ap_families[AP_FAMILY_SOFTMAX]->axes[AP_SOFTMAX_COLS].domain;
  const int64_t edges = VECTOR_BYTES / ap_softmax_element_bytes(p) - 1;
  int32_t i = 0;
  while (i < classes->count - 1 && classes->values[i] + edges < columns)
    ++i;
  return i;
}

/** The kernel of a class on a device. *fits: 0 where the device has too little shared memory. */
static attnpress_status find_kernel(const ap_softmax_problem *p, const ap_device *device,
                                    int32_t class, ap_launch *launch, int *fits) {
  const ap_family *family = ap_families[AP_FAMILY_SOFTMAX];
  ap_variant *v = &launch->variant;
  *launch = (ap_launch){.variant.family = AP_FAMILY_SOFTMAX, .num_splits = 1};
  v->axis[AP_SOFTMAX_PASS] = p->pass;
  v->axis[AP_SOFTMAX_COLS] = family->axes[AP_SOFTMAX_COLS].domain.values[class];
  v->axis[AP_SOFTMAX_DTYPE] = p->dtype;
  ap_choose_arch(device, launch);
  FORWARD_IF(ap_find_launch_tile(launch));
  *fits = launch->tile.smem_bytes <= ap_find_target(launch->target)->smem_per_block_bytes;
  return ATTNPRESS_OK;
}

int32_t ap_softmax_cluster(const ap_tile *tile) {
  const int32_t row_threads = tile->field[AP_SOFTMAX_TILE_ROW_THREADS];
  return row_threads > tile->threads ? row_threads / tile->threads : 1;
}

int64_t ap_softmax_block_rows(const ap_tile *tile) {
  const int32_t row_threads = tile->field[AP_SOFTMAX_TILE_ROW_THREADS];
  if (row_threads == 0 || row_threads > tile->threads)
    return 1;
  return tile->threads / row_threads * tile->field[AP_SOFTMAX_TILE_ROWS];
}

static attnpress_status set_grid(const ap_softmax_problem *p, ap_launch *launch) {
  const int64_t each = ap_softmax_block_rows(&launch->tile), blocks = ceil_div(p->rows, each);
  const int32_t cluster = ap_softmax_cluster(&launch->tile);
  RETURN_IF(blocks > INT32_MAX / cluster, ATTNPRESS_NOT_SUPPORTED,
            "rows is %" PRId64 "; with %" PRId64 " columns a launch has at most %" PRId64, p->rows,
            p->columns, INT32_MAX / cluster * each);
  launch->grid = (uint32_t)blocks * (uint32_t)cluster;
  launch->cluster = cluster > 1 ? (uint32_t)cluster : 0;
  return ATTNPRESS_OK;
}

/** The last class has no need of shared memory: it runs everywhere. */
static attnpress_status plan_call(const ap_softmax_problem *p, const ap_device *device,
                                  ap_launches *plan) {
  int fits = 0;
  if (p->rows == 0 || p->columns == 0)
    return ATTNPRESS_OK;
  for (int32_t class = first_class(p, p->columns); !fits; ++class)
    FORWARD_IF(find_kernel(p, device, class, &plan->launch[0], &fits));
  plan->count = 1;
  return set_grid(p, &plan->launch[0]);
}

static attnpress_status plan_range(const ap_softmax_problem *p, const ap_device *device,
                                   ap_launches *plan) {
  int fits = 0;
  const int64_t most = p->columns == 0 ? ATTNPRESS_SOFTMAX_COLUMNS_MAX : p->columns;
  for (int32_t class = 0; class <= first_class(p, most) || !fits; ++class) {
    FORWARD_IF(find_kernel(p, device, class, &plan->launch[plan->count], &fits));
    plan->count += fits;
  }
  return ATTNPRESS_OK;
}

attnpress_status ap_softmax_plan(const ap_softmax_problem *p, const ap_device *device,
                                 int32_t range, ap_launches *plan) {
  plan->count = 0;
  plan->workspace_bytes = 0;
  FORWARD_IF(ap_check_capability(device->capability));
  return range == ATTNPRESS_UP_TO ? plan_range(p, device, plan) : plan_call(p, device, plan);
}
