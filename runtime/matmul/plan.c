/* Decides how a matrix product is run: the kernel that has room for the columns, and its grid.
 * Pure: it depends on shapes and the device's numbers, and touches nothing. */
#include "cuda/device.h"
#include "matmul/matmul.h"

#include <inttypes.h>

#include "press/target.h"
#include "core/numbers.h"

_Static_assert((int)ATTNPRESS_MATMUL_N_MAX == (int)AP_MATMUL_COLS_MAX, "as the generator has it");

enum { SM90 = 90 /* the arch of the kernels with wgmma */ };

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

/** SMs that lie beside each other on compute capability 9.0: clusters are within one such group. */
enum { GROUP_SMS = 16 };

static int32_t divide_up(int64_t a, int64_t b) {
  return (int32_t)ceil_div(a, b);
}

/** Thread blocks that n takes beside each other. */
static int32_t cluster_of(int64_t n, const ap_tile *tile) {
  return divide_up(n, tile->field[AP_MATMUL_TILE_BLOCK_N]);
}

/** The row blocks that a cluster works through: as many as cost least, since while one is stored
 * the next is loaded already. How many clusters of three thread blocks and more fit at a time
 * differs from chip to chip: they get a quarter of what would be one wave of them, so that none
 * waits for long. */
static int32_t share_of(int32_t row_blocks, int64_t n, int32_t cluster, int32_t sm_count) {
  enum { WAVES_MIN = 4, PAIR = 2 };
  enum { STORE = 4, START = 4 }; /* of a row block, of a cluster: in stages' products, about */
  const int64_t product = divide_up(n, AP_MATMUL_SM90_BLOCK_K);
  const int32_t groups = sm_count / GROUP_SMS > 0 ? sm_count / GROUP_SMS : 1;
  const int32_t slots = cluster <= PAIR ? sm_count / cluster : groups * (GROUP_SMS / cluster);
  const int32_t waves = cluster <= PAIR ? 1 : WAVES_MIN;
  int32_t best = 1;
  int64_t best_cost = INT64_MAX;
  for (int32_t share = 1; share == 1 || share <= divide_up(row_blocks, (int64_t)waves * slots);
       ++share) {
    const int64_t rounds = divide_up(divide_up(row_blocks, share), slots);
    const int64_t cost = rounds * (share * (product + STORE) + START);
    if (cost < best_cost) {
      best = share;
      best_cost = cost;
    }
  }
  return best;
}

/** Whether the kernel of a route serves a call. */
static int serves(const ap_matmul_problem *p, const ap_device *device, int32_t range,
                  const ap_launch *launch) {
  const int arch = launch->variant.axis[AP_MATMUL_ARCH];
  if (device->arch_max != 0 && arch > device->arch_max)
    return 0;
  if (arch != SM90)
    return 1;
  if (!device->tma)
    return 0;
  return range == ATTNPRESS_UP_TO ||
         (ap_matmul_maps_fit(p) && ap_cluster_fits(device, cluster_of(p->n, &launch->tile)));
}

static int32_t weight_of(const ap_matmul_problem *p) {
  return p->w_dtype == ATTNPRESS_FP32 ? AP_MATMUL_WEIGHT_FP32 : AP_MATMUL_WEIGHT_SAME;
}

/** What routes depend on. */
static ap_variant any_variant(const ap_matmul_problem *p) {
  return (ap_variant){.family = AP_FAMILY_MATMUL, .axis[AP_MATMUL_WEIGHT] = weight_of(p)};
}

/** The kernel of a route; sm90's takes any columns. */
static attnpress_status find_kernel(const ap_matmul_problem *p, const ap_route *route,
                                    int32_t class, ap_launch *launch) {
  const ap_set *classes = classes_of_columns();
  ap_variant *v = &launch->variant;
  if (route->arch == SM90)
    class = classes->count - 1;
  *launch = (ap_launch){.variant.family = AP_FAMILY_MATMUL, .num_splits = 1};
  v->axis[AP_MATMUL_PASS] = p->transposed ? AP_MATMUL_PASS_NT : AP_MATMUL_PASS_NN;
  v->axis[AP_MATMUL_COLS] = classes->values[class];
  v->axis[AP_MATMUL_DTYPE] = p->dtype;
  v->axis[AP_MATMUL_WEIGHT] = weight_of(p);
  v->axis[AP_MATMUL_ARCH] = route->arch;
  launch->target = route->target;
  return ap_find_launch_tile(launch);
}

/** The first kernel that serves the call, best first; the last of a device serves every call. */
static attnpress_status choose_kernel(const ap_matmul_problem *p, const ap_device *device,
                                      ap_launch *launch) {
  const ap_variant any = any_variant(p);
  const ap_route *route = NULL;
  do {
    route = ap_next_route(&any, device->capability, route);
    FORWARD_IF(find_kernel(p, route, first_class(p->n), launch));
  } while (!serves(p, device, ATTNPRESS_ONE_CALL, launch));
  return ATTNPRESS_OK;
}

static attnpress_status set_grid(const ap_matmul_problem *p, const ap_device *device,
                                 ap_matmul_plan *plan) {
  ap_launch *launch = &plan->base.launch[0];
  const int64_t each = launch->tile.field[AP_MATMUL_TILE_BLOCK_M];
  const int64_t blocks = ceil_div(p->rows, each);
  RETURN_IF(blocks > INT32_MAX, ATTNPRESS_NOT_SUPPORTED,
            "rows is %" PRId64 "; with n %" PRId64 " a launch has at most %" PRId64, p->rows, p->n,
            INT32_MAX * each);
  launch->grid = (uint32_t)blocks;
  if (launch->variant.axis[AP_MATMUL_ARCH] != SM90)
    return ATTNPRESS_OK;
  launch->cluster = (uint32_t)cluster_of(p->n, &launch->tile);
  plan->cluster_share = share_of((int32_t)blocks, p->n, (int32_t)launch->cluster, device->sm_count);
  launch->grid = (uint32_t)divide_up(blocks, plan->cluster_share) * launch->cluster;
  return ATTNPRESS_OK;
}

static attnpress_status plan_range(const ap_matmul_problem *p, const ap_device *device,
                                   ap_launches *plan) {
  const int32_t last = first_class(p->n == 0 ? ATTNPRESS_MATMUL_N_MAX : p->n);
  const ap_variant any = any_variant(p);
  for (const ap_route *route = NULL; (route = ap_next_route(&any, device->capability, route));)
    for (int32_t class = route->arch == SM90 ? last : 0; class <= last; ++class) {
      FORWARD_IF(find_kernel(p, route, class, &plan->launch[plan->count]));
      plan->count += serves(p, device, ATTNPRESS_UP_TO, &plan->launch[plan->count]);
    }
  return ATTNPRESS_OK;
}

attnpress_status ap_matmul_plan_call(const ap_matmul_problem *p, const ap_device *device,
                                     int32_t range, ap_matmul_plan *plan) {
  plan->base.count = 0;
  plan->base.workspace_bytes = 0;
  plan->cluster_share = 0;
  FORWARD_IF(ap_check_capability(device->capability));
  if (range == ATTNPRESS_UP_TO)
    return plan_range(p, device, &plan->base);
  if (ap_matmul_is_empty(p))
    return ATTNPRESS_OK;
  FORWARD_IF(choose_kernel(p, device, &plan->base.launch[0]));
  plan->base.count = 1;
  return set_grid(p, device, plan);
}
