/* Decides how a matrix product is run: the kernel that has room for the columns, and its grid.
 * Pure: it depends on shapes and the device's numbers, and touches nothing. */
#include "cuda/device.h"
#include "matmul/matmul.h"

#include <inttypes.h>
#include <math.h>

#include "press/target.h"
#include "core/numbers.h"

_Static_assert((int)ATTNPRESS_MATMUL_N_MAX == (int)AP_MATMUL_COLS_MAX, "as the generator has it");

enum { SM90 = AP_MATMUL_SM90 /* the arch of the kernels with wgmma */ };

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

enum {
  BLOCKS = AP_MATMUL_BLOCK_M192N128 + 1, /* of sm90 */
  SPLIT_SHIFT_MAX = 1,                   /* a pair always fits, wherever clusters do */
  GROUP_SMS = 16, /* that lie beside each other: clusters are within one such group */
};

static int32_t divide_up(int64_t a, int64_t b) {
  return (int32_t)ceil_div(a, b);
}

/* ---- How thread blocks share a call of sm90 -------------------------------------------------- */

/** One way, and what it takes. */
typedef struct shares {
  int32_t block, together, split_shift; /* args/matmul.h has the latter two */
  int32_t column_blocks, row_blocks, share;
  int32_t grid, cluster;
  double time; /* in clocks of an SM, about; INFINITY: not possible */
} shares;

/* Clocks, fitted to 22 shapes in all ways on an H200 (bench/notes/families.md). Of a thread block:
 * to begin; to store, and an element of that; to meet all others; to add up a pair's sums, and an
 * element of that. A stage's least, since the copy engine answers no sooner. */
static const double START = 3000, STORE = 350, STORE_ELEMENT = 0.08, MEET = 1100, ADD = 3000,
                    ADD_ELEMENT = 0.14, STAGE = 345;
/* In a clock: products of an SM, over the depth of a stage; bytes that an SM gets at the most, and
 * all together; bytes of W, by whether its rows are read along the depth. */
static const double PRODUCTS = 32, COPY = 55, COPY_ALL = 5080, READ_W[2] = {1500, 2700};
/* Clusters wait for room, as those of three and more do not fit everywhere. */
static const double CROWDED = 1.25;

/** Of a tile's products over so many stages, where so many SMs are busy. */
static double products_time(const ap_matmul_problem *p, const ap_tile *tile, int32_t stages,
                            int32_t busy) {
  const double m = tile->field[AP_MATMUL_TILE_BLOCK_M], n = tile->field[AP_MATMUL_TILE_BLOCK_N];
  const double copies = (m + n) * AP_MATMUL_SM90_BLOCK_K * 2 / fmin(COPY, COPY_ALL / busy);
  return fmax(stages * fmax(STAGE, fmax(m * n / PRODUCTS, copies)),
              (double)p->n * (double)p->n * 2 / READ_W[p->transposed]);
}

static double elements_of(const ap_tile *tile) {
  return (double)tile->field[AP_MATMUL_TILE_BLOCK_M] * tile->field[AP_MATMUL_TILE_BLOCK_N];
}

/** Those that share rows are a cluster, which works through as many row blocks as cost least, since
 * while one is stored the next is loaded already. How many clusters of three thread blocks and more
 * fit at a time differs from chip to chip: they get a quarter of what would be one wave of them, so
 * that none waits for long. */
static shares share_clusters(const ap_matmul_problem *p, const ap_device *device,
                             const ap_tile *tile, shares s) {
  enum { WAVES_MIN = 4, PAIR = 2, PORTABLE_MAX = 8, SHARE_MAX = 1024 };
  const int32_t sm_count = device->sm_count, cluster = s.column_blocks;
  if (cluster > GROUP_SMS || cluster > sm_count || !ap_cluster_fits(device, cluster))
    return s;
  const int32_t groups = sm_count / GROUP_SMS > 0 ? sm_count / GROUP_SMS : 1;
  const int32_t slots = cluster <= PAIR ? sm_count / cluster : groups * (GROUP_SMS / cluster);
  const int32_t waves = cluster <= PAIR ? 1 : WAVES_MIN;
  const int32_t stages = divide_up(p->n, AP_MATMUL_SM90_BLOCK_K);
  const int32_t most = divide_up(s.row_blocks, (int64_t)waves * slots);
  for (int32_t share = 1; share <= most && share <= SHARE_MAX; ++share) {
    const int32_t clusters = divide_up(s.row_blocks, share), rounds = divide_up(clusters, slots);
    const int32_t busy = (clusters < slots ? clusters : slots) * cluster;
    double time = rounds * (START + share * (products_time(p, tile, stages, busy) + STORE +
                                             STORE_ELEMENT * elements_of(tile)));
    if (cluster > PAIR && (rounds > 1 || (cluster > PORTABLE_MAX && 4 * clusters > 3 * slots)))
      time *= CROWDED;
    if (time < s.time) {
      s.share = share;
      s.time = time;
    }
  }
  s.cluster = cluster;
  s.grid = divide_up(s.row_blocks, s.share) * cluster;
  return s;
}

/** All thread blocks run at the same time, an SM each, and wait for each other once in each turn. A
 * pair has one part of the depth each, in one turn. */
static shares share_grid(const ap_matmul_problem *p, const ap_device *device, const ap_tile *tile,
                         shares s) {
  const int32_t splits = 1 << s.split_shift;
  const int32_t stages = divide_up(p->n, AP_MATMUL_SM90_BLOCK_K);
  const int32_t rows = device->sm_count / (s.column_blocks * splits); /* row blocks of a turn */
  if (rows < 1 || (splits > 1 && (stages < splits || rows < s.row_blocks)))
    return s;
  s.together = 1;
  s.share = divide_up(s.row_blocks, rows);
  s.cluster = splits > 1 ? splits : 0;
  s.grid = divide_up(s.row_blocks, s.share) * s.column_blocks * splits;
  s.time = START + s.share * (products_time(p, tile, divide_up(stages, splits), s.grid) + STORE +
                              STORE_ELEMENT * elements_of(tile) + MEET);
  if (splits > 1)
    s.time += ADD + ADD_ELEMENT * elements_of(tile);
  return s;
}

/* ---- Kernels --------------------------------------------------------------------------------- */

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
  return range == ATTNPRESS_UP_TO || ap_matmul_maps_fit(p);
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
                                    int32_t class, int32_t block, ap_launch *launch) {
  const ap_set *classes = classes_of_columns();
  ap_variant *v = &launch->variant;
  if (route->arch == SM90)
    class = classes->count - 1;
  *launch = (ap_launch){.variant.family = AP_FAMILY_MATMUL, .num_splits = 1};
  v->axis[AP_MATMUL_PASS] = p->transposed ? AP_MATMUL_PASS_NT : AP_MATMUL_PASS_NN;
  v->axis[AP_MATMUL_COLS] = classes->values[class];
  v->axis[AP_MATMUL_DTYPE] = p->dtype;
  v->axis[AP_MATMUL_WEIGHT] = weight_of(p);
  v->axis[AP_MATMUL_BLOCK] = block;
  v->axis[AP_MATMUL_ARCH] = route->arch;
  launch->target = route->target;
  return ap_find_launch_tile(launch);
}

/** Of all ways to share a call of sm90 out, that which takes the least time; the plan has no launch
 * where there is none, as a device has few SMs. */
static attnpress_status choose_shares(const ap_matmul_problem *p, const ap_device *device,
                                      const ap_route *route, ap_matmul_plan *plan) {
  shares best = {.time = INFINITY};
  ap_launch *launch = &plan->base.launch[0];
  for (int32_t block = 0; block < BLOCKS; ++block) {
    FORWARD_IF(find_kernel(p, route, 0, block, launch));
    const ap_tile *tile = &launch->tile;
    shares way = {.block = block, .time = INFINITY};
    way.column_blocks = divide_up(p->n, tile->field[AP_MATMUL_TILE_BLOCK_N]);
    way.row_blocks = divide_up(p->rows, tile->field[AP_MATMUL_TILE_BLOCK_M]);
    const shares clusters = share_clusters(p, device, tile, way);
    if (clusters.time < best.time)
      best = clusters;
    for (way.split_shift = 0; way.split_shift <= SPLIT_SHIFT_MAX; ++way.split_shift) {
      const shares grid = share_grid(p, device, tile, way);
      if (grid.time < best.time)
        best = grid;
    }
  }
  plan->base.count = best.time < INFINITY;
  if (plan->base.count == 0)
    return ATTNPRESS_OK;
  FORWARD_IF(find_kernel(p, route, 0, best.block, launch));
  plan->share = best.share;
  plan->column_blocks = best.column_blocks;
  plan->split_shift = best.split_shift;
  launch->together = best.together;
  launch->cluster = (uint32_t)best.cluster;
  launch->grid = (uint32_t)best.grid;
  launch->overlaps = 1; /* the kernel waits by itself for what ran before */
  return ATTNPRESS_OK;
}

static attnpress_status set_grid(const ap_matmul_problem *p, ap_matmul_plan *plan) {
  ap_launch *launch = &plan->base.launch[0];
  const int64_t each = launch->tile.field[AP_MATMUL_TILE_BLOCK_M];
  const int64_t blocks = ceil_div(p->rows, each);
  RETURN_IF(blocks > INT32_MAX, ATTNPRESS_NOT_SUPPORTED,
            "rows is %" PRId64 "; with n %" PRId64 " a launch has at most %" PRId64, p->rows, p->n,
            INT32_MAX * each);
  launch->grid = (uint32_t)blocks;
  plan->base.count = 1;
  return ATTNPRESS_OK;
}

static attnpress_status plan_range(const ap_matmul_problem *p, const ap_device *device,
                                   ap_launches *plan) {
  const int32_t last = first_class(p->n == 0 ? ATTNPRESS_MATMUL_N_MAX : p->n);
  const ap_variant any = any_variant(p);
  for (const ap_route *route = NULL; (route = ap_next_route(&any, device->capability, route));)
    for (int32_t i = 0; i < (route->arch == SM90 ? BLOCKS : last + 1); ++i) {
      ap_launch *launch = &plan->launch[plan->count];
      FORWARD_IF(route->arch == SM90 ? find_kernel(p, route, 0, i, launch)
                                     : find_kernel(p, route, i, 0, launch));
      plan->count += serves(p, device, ATTNPRESS_UP_TO, launch);
    }
  return ATTNPRESS_OK;
}

attnpress_status ap_matmul_plan_call(const ap_matmul_problem *p, const ap_device *device,
                                     int32_t range, ap_matmul_plan *plan) {
  plan->base.count = 0;
  plan->base.workspace_bytes = 0;
  plan->share = plan->column_blocks = plan->split_shift = 0;
  FORWARD_IF(ap_check_capability(device->capability));
  if (range == ATTNPRESS_UP_TO)
    return plan_range(p, device, &plan->base);
  if (ap_matmul_is_empty(p))
    return ATTNPRESS_OK;
  /* The first that serves the call, best first; the last of a device serves every call. */
  const ap_variant any = any_variant(p);
  const ap_route *route = NULL;
  ap_launch *launch = &plan->base.launch[0];
  while (plan->base.count == 0) {
    route = ap_next_route(&any, device->capability, route);
    FORWARD_IF(find_kernel(p, route, first_class(p->n), AP_MATMUL_BLOCK_M128N256, launch));
    if (!serves(p, device, ATTNPRESS_ONE_CALL, launch))
      continue;
    FORWARD_IF(route->arch == SM90 ? choose_shares(p, device, route, plan) : set_grid(p, plan));
  }
  return ATTNPRESS_OK;
}
