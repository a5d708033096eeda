/* How many thread blocks or clusters a launch has, and how many rows each of them. */
#include <inttypes.h>

#include "layernorm/plan.h"

enum {
  /* Clusters lie within a group of SMs, of which there are so many at most, of so many at least, an
   * even number. */
  SM_GROUPS_MAX = 8,
  GROUP_SMS_MIN = 8,
  GROUP_SMS_MAX = 18,        /* of compute capability 9.0 */
  CLUSTER_OF_GROUPS_MAX = 4, /* of which a group lacks one where it has two SMs more */
  WORD_BYTES = 4,
  WORD_PERIOD = 2,     /* rows so far apart begin at the same element of a word */
  ODD_PERIOD_FP32 = 4, /* and those of four bytes an element, of a vector */
  MULTIPLE_MAX = 4     /* of as many thread blocks as there is room for: more were no faster */
};

int32_t ap_layernorm_cluster(const ap_tile *tile) {
  const int32_t row_threads =
      tile->field[AP_LAYERNORM_TILE_ROW_THREADS] * tile->field[AP_LAYERNORM_TILE_GROUPS];
  return row_threads > tile->threads ? row_threads / tile->threads : 1;
}

int64_t ap_layernorm_block_rows(const ap_tile *tile) {
  const int32_t piece = tile->field[AP_LAYERNORM_TILE_PIECE];
  if (piece > 0) /* of each warp, or of all */
    return piece * (int64_t)(tile->field[AP_LAYERNORM_TILE_PACKED]
                                 ? tile->field[AP_LAYERNORM_TILE_WARPS]
                                 : 1);
  const int32_t row_threads = tile->field[AP_LAYERNORM_TILE_ROW_THREADS];
  if (ap_layernorm_cluster(tile) > 1)
    return tile->field[AP_LAYERNORM_TILE_GROUPS];
  return row_threads == 0 ? 1 : tile->threads / row_threads;
}

int32_t ap_layernorm_gathered_bytes(const ap_tile *tile, int64_t columns, int64_t x_stride) {
  enum { SIZE = 2, EDGES_BYTES = 48 };
  /* Those of x with what lies between them, or each with its vectors between two of zeros. */
  const int64_t row = columns * SIZE, gap = x_stride - columns;
  const int64_t own = ceil_div(row + VECTOR_BYTES - SIZE, VECTOR_BYTES) + 2; /* vectors */
  const int64_t pitch = (own + (own % 2 == 0)) * VECTOR_BYTES;
  const int span = gap >= 0 && gap < AP_LAYERNORM_GATHERED_GAP;
  const int64_t rows = tile->field[AP_LAYERNORM_TILE_PIECE];
  const int64_t warp = rows * ((span ? x_stride * SIZE : pitch) + row) + EDGES_BYTES;
  return (int32_t)(tile->field[AP_LAYERNORM_TILE_WARPS] * warp);
}

attnpress_status ap_layernorm_set_grid(const ap_layernorm_problem *p, ap_launch *launch) {
  RETURN_IF(p->rows > INT32_MAX, ATTNPRESS_NOT_SUPPORTED,
            "rows is %" PRId64 "; with %" PRId64 " columns a launch has at most %d", p->rows,
            p->columns, INT32_MAX);
  launch->grid = (uint32_t)p->rows;
  return ATTNPRESS_OK;
}

/** How many clusters surely run at the same time, each of whose blocks has an SM to itself. If one
 * more is launched than there is room for, it begins when the others have ended. Of eight and sixteen as
 * many as there are whichever groups lack SMs: that takes two more than a group has beside its clusters,
 * and costs one of them. */
int64_t ap_layernorm_clusters_at_once(const ap_device *device, int32_t cluster) {
  const int64_t groups = smaller(SM_GROUPS_MAX, device->sm_count / GROUP_SMS_MIN);
  const int64_t missing = larger(SM_GROUPS_MAX * GROUP_SMS_MAX - device->sm_count, 0);
  if (cluster > CLUSTER_OF_GROUPS_MAX)
    return larger(SM_GROUPS_MAX * (GROUP_SMS_MAX / cluster) -
                      missing / (GROUP_SMS_MAX % cluster + SM_PAIR),
                  1);
  return larger((device->sm_count - groups * (cluster - SM_PAIR)) / cluster, 1);
}

/** How far apart rows surely begin at the same element of a vector, or packed ones of a word; 1 where
 * it does not matter. */
static int64_t period_of(const ap_launch *launch) {
  switch (launch->variant.axis[AP_LAYERNORM_ROWS]) {
  case AP_LAYERNORM_ROWS_SHIFTED:
    return ODD_PERIOD;
  case AP_LAYERNORM_ROWS_ODD: /* clusters walk over one class of rows after the other, words are alike */
    return has_odd_clusters(launch) || launch->variant.axis[AP_LAYERNORM_DTYPE] == ATTNPRESS_FP32
               ? 1
               : ODD_PERIOD;
  case AP_LAYERNORM_ROWS_CUT:
  case AP_LAYERNORM_ROWS_RINGED:
    return VECTOR_BYTES / ap_element_bytes(launch->variant.axis[AP_LAYERNORM_DTYPE]);
  case AP_LAYERNORM_ROWS_PACKED:
    return WORD_PERIOD;
  default:
    return 1;
  }
}

/** What walks over rows, a thread block or a cluster: as many as the device has room for. It walks so
 * many rows further each time, all of which begin alike, if that matters. */
int64_t ap_layernorm_walkers_at_once(const ap_device *device, const ap_launch *launch) {
  const int32_t cluster = ap_layernorm_cluster(&launch->tile);
  const int64_t blocks = (int64_t)device->sm_count * field(launch, AP_LAYERNORM_TILE_BLOCKS);
  const int64_t multiple = ceil_div(period_of(launch), ap_layernorm_block_rows(&launch->tile));
  const int64_t at_once = cluster > 1 ? ap_layernorm_clusters_at_once(device, cluster) *
                                            field(launch, AP_LAYERNORM_TILE_BLOCKS)
                                      : blocks;
  return larger(at_once / multiple * multiple, multiple);
}

/** Clusters of sorted rows, each of which has rows of one class: as many of each class, which have as
 * many rows, or one more. A class of few rows has as many as its rows need. */
static int64_t sorted_walkers(const ap_layernorm_problem *p, const ap_device *device,
                              const ap_launch *launch) {
  const int64_t classes = row_classes(p);
  const int64_t steps =
      ceil_div(ceil_div(p->rows, classes), ap_layernorm_block_rows(&launch->tile));
  const int64_t at_once = ap_layernorm_walkers_at_once(device, launch) / classes;
  return classes * larger(smaller(steps, at_once), 1);
}

/** Rows of few columns that lanes have one after the other: as many as are whole words, or of the first
 * class vectors. As the kernel */
static int64_t short_rows(const ap_layernorm_problem *p, const ap_launch *launch) {
  const int64_t bytes =
      launch->variant.axis[AP_LAYERNORM_COLS] == classes()->values[0] ? VECTOR_BYTES : WORD_BYTES;
  return larger(bytes / ap_element_bytes(p->dtype) / (p->columns & -p->columns), 1);
}

/** Whether each thread block, or warp, has its rows once. */
static int has_no_walkers(const ap_launch *launch) {
  if (launch->variant.axis[AP_LAYERNORM_PASS] != AP_LAYERNORM_PASS_FWD)
    return 0;
  switch (launch->variant.axis[AP_LAYERNORM_ROWS]) {
  case AP_LAYERNORM_ROWS_DIRECT:
  case AP_LAYERNORM_ROWS_PAIRS:
  case AP_LAYERNORM_ROWS_PIECES:
  case AP_LAYERNORM_ROWS_GATHERED:
  case AP_LAYERNORM_ROWS_SHIFTED:
  case AP_LAYERNORM_ROWS_MOVED:
  case AP_LAYERNORM_ROWS_WHOLE:
  case AP_LAYERNORM_ROWS_ADDED:
  case AP_LAYERNORM_ROWS_EDGED:
  case AP_LAYERNORM_ROWS_APART:
    return 1;
  default:
    return 0;
  }
}

/** As many of these as have a row, or as there is room for; or a multiple of that, if the tile says
 * how many rows each walks over at least. */
int64_t ap_layernorm_walkers_of(const ap_layernorm_problem *p, const ap_device *device,
                                const ap_launch *launch) {
  if (is_sorted(launch))
    return sorted_walkers(p, device, launch);
  const int64_t of_lane = is_short(launch) ? short_rows(p, launch) : 1;
  const int64_t steps = ceil_div(p->rows, ap_layernorm_block_rows(&launch->tile) * of_lane);
  if (has_no_walkers(launch))
    return steps;
  const int32_t rounds = field(launch, AP_LAYERNORM_TILE_ROUNDS);
  int64_t at_once = ap_layernorm_walkers_at_once(device, launch), multiple = 1;
  if (rounds > 0)
    multiple = larger(smaller(steps / (at_once * rounds), MULTIPLE_MAX), 1);
  /* Rows of a cluster that begin alike are vectors of its threads. The columns alone decide, since a
   * workspace's size does not depend on pointers and strides. */
  if (ap_layernorm_cluster(&launch->tile) > 1 && at_once >= ODD_PERIOD_FP32 &&
      p->dtype == ATTNPRESS_FP32 && p->columns % ODD_PERIOD_FP32 != 0)
    at_once = at_once / ODD_PERIOD_FP32 * ODD_PERIOD_FP32;
  return smaller(steps, at_once * multiple);
}

/** Of sorted rows of several classes each may have one cluster more than its part of those that rows of one
 * class have. */
int64_t ap_layernorm_parts_most(const ap_layernorm_problem *p, const ap_device *device,
                                const ap_launch *launch) {
  if (!is_sorted(launch))
    return parts_of(launch, ap_layernorm_walkers_of(p, device, launch));
  const int64_t steps = ceil_div(p->rows, ap_layernorm_block_rows(&launch->tile));
  return smaller(steps, ap_layernorm_walkers_at_once(device, launch)) + SORTED_MORE;
}

void ap_layernorm_set_walking_grid(const ap_layernorm_problem *p, const ap_device *device,
                                   ap_launch *launch) {
  const int32_t cluster = ap_layernorm_cluster(&launch->tile);
  launch->grid = (uint32_t)(ap_layernorm_walkers_of(p, device, launch) * cluster);
  launch->cluster = cluster > 1 ? (uint32_t)cluster : 0;
}
