/* The kernel of a forward call: first one that takes any rows with so many columns, then others in its
 * place that are faster. */
#include "layernorm/plan.h"

enum {
  /* Thread blocks of a row that no cluster of a fixed size takes: two, three, four, eight or sixteen, and
   * five where 16 bits begin anywhere, which few vectors a thread cost most. Of six and seven, and of nine
   * to fifteen, more SMs have none than a class of columns is empty. */
  WIDE_CLUSTER_STEP_MAX = 4,
  WIDE_CLUSTER_LONG = 8,
  WIDE_CLUSTER_MAX = 16,
  WIDE_BLOCK_BYTES = 65536,       /* of such a row, that a block keeps all parameters of */
  WIDE_BLOCK_TWICE_BYTES = 49152, /* of layer norm, if these are of twice the size */
  /* From which on packed rows of 16 bits are such pairs, too (WIDE_PAIR_COLS). */
  WIDE_PAIR_MANY_COLS = 34000, /* where others would be read straight into registers */
  WIDE_PAIR_RMS_COLS = 40960,
  ADDED_PIECE_COLS =
      384, /* of rows of whole vectors with a residual, at the most, that are pieces */
  EDGED_ADDED_COLS_MIN = 442, /* of 16 bits with a residual; with gaps shorter rows, too */
  /* The most columns of rows with edges that are faster straight in registers than by rings, if the sum
   * is no input's: of 16 bits, with parameters of fp32, without a bias, and of fp32. */
  RINGED_COLS = 16377,
  RINGED_WIDE_COLS = 12281,
  RINGED_WEIGHT_COLS = 32761,
  RINGED_FP32_BIAS_COLS = 14333,
  RINGED_FP32_COLS = 16381,
  PIECE_COLS_MIN = 32,   /* of the first class of short rows */
  GATHERED_COLS_MIN = 8, /* a vector of one row reaches to the next one, and no further */
  GATHERED_COLS_MAX = 384,
  GATHERED_FEW_COLS_MAX = 256, /* where others are faster beyond */
  MOVED_EDGES = 14,            /* columns less than the class has */
  MOVED_COLS_MIN = 51,         /* of shorter rows by more lanes */
  /* Of longer ones others are as fast, or faster: of rows without gaps in y, of those that begin alike,
   * and of others. */
  MOVED_SLICE_COLS_MAX = 768 - MOVED_EDGES,
  MOVED_ALIKE_COLS_MAX = 896 - MOVED_EDGES,
  MOVED_COLS_MAX = 2048 - MOVED_EDGES,
  APART_COLS_MIN = 225, /* of shorter rows, most of a warp's lanes have no vector */
  /* What clusters have rather than gangs: rows of 16 bits, whole vectors, without parameters, of RMS norm,
   * and others; and of fp32. Of whole vectors with parameters gangs have those of up to 327,680 columns:
   * at 64 and 256 MB 270000 has 0.96, 0.94 (clusters 0.94, 0.85), 300032 1.00, 0.95 (0.95, 0.91), but
   * 340000 0.95, 0.91 (0.99, 0.96). */
  WIDE_LEAST_COLS_MAX = 262144,
  WIDE_LESS_COLS = 327680,
  WIDE_COLS_MAX = 524288,
  WIDE_BARE_COLS_MAX = 917504,
  WIDE_RMS_COLS_MAX = 786432,
  WIDE_SPLIT_COLS_MAX = 262144,
  WIDE_FP32_COLS_MAX = 262144,
  GANG_SUMS_BARE_COLS = 98304 /* with a residual and no parameters, rows that are read twice */
};

/** Takes the kernel of packed rows in place of another, if it has no more columns that are empty. */
static attnpress_status prefer_packed_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                             ap_launch *launch) {
  const int64_t edges = ap_element_bytes(p->dtype) == 2 ? ODD_EDGES : 0;
  ap_launch packed;
  int fits = 0;
  for (int32_t class = first_class(p->columns - edges);
       classes()->values[class] <= launch->variant.axis[AP_LAYERNORM_COLS]; ++class) {
    FORWARD_IF(ap_layernorm_find_kernel(p, device, AP_LAYERNORM_PASS_FWD, AP_LAYERNORM_ROWS_PACKED,
                                        class, &packed, &fits));
    if (fits || class == classes()->count - 1)
      break;
  }
  if (fits)
    *launch = packed;
  return ATTNPRESS_OK;
}

/** Whether rows that begin anywhere, but alike in all matrices, are faster by rings than straight into
 * registers: where the sum is written over x or the residual, and where parameters are more than L1 has
 * beside the rows. */
static int are_rings_faster(const ap_layernorm_problem *p) {
  const void *const sum = p->tensor[AP_LAYERNORM_SUM].data;
  const void *const x = p->tensor[AP_LAYERNORM_X].data;
  if (sum != NULL && (sum == x || sum == p->tensor[AP_LAYERNORM_RESIDUAL].data))
    return 1;
  if (p->dtype == ATTNPRESS_FP32)
    return p->columns > (p->bias != NULL ? RINGED_FP32_BIAS_COLS : RINGED_FP32_COLS);
  if (p->rms)
    return 0;
  if (p->bias == NULL)
    return p->columns > RINGED_WEIGHT_COLS;
  if (p->param_dtype == ATTNPRESS_FP32)
    return p->columns > RINGED_WIDE_COLS || p->tensor[AP_LAYERNORM_Y].data == x;
  return p->columns > RINGED_COLS;
}

/** Whether each thread of a row that comes to rings has all of its vectors but the last. */
static int has_full_vectors(const ap_layernorm_problem *p, const ap_launch *ring) {
  const int64_t elements = VECTOR_BYTES / ap_element_bytes(p->dtype);
  const int64_t threads = ring->tile.field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int64_t most = ceil_div(ring->variant.axis[AP_LAYERNORM_COLS] / elements, threads);
  return ceil_div(p->columns, elements) >= (most - 1) * threads;
}

/** Takes the kernel whose warps have rings, in place of another, if there is one of the class: its threads
 * have no less columns than a row of that has. Rows that are cut begin up to a vector's elements, but
 * one, after their first vector does. Where others have no such class the next may be that of what is
 * replaced. */
static attnpress_status prefer_kernel_of_rings(const ap_layernorm_problem *p,
                                               const ap_device *device, int32_t rows,
                                               ap_launch *launch) {
  const int64_t edges = rows == AP_LAYERNORM_ROWS_CUT || rows == AP_LAYERNORM_ROWS_RINGED
                            ? VECTOR_BYTES / ap_element_bytes(p->dtype) - 1
                            : 0;
  int32_t class = first_class(p->columns + edges);
  const int32_t replaced = first_class(launch->variant.axis[AP_LAYERNORM_COLS]);
  /* Edges may take another class than rows that would be read by elements. */
  const int32_t by_elements = launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_ALIGNED;
  const int32_t last =
      by_elements && replaced < class ? (int32_t)smaller(class + 1, classes()->count - 1)
                                      : replaced;
  ap_launch ring;
  int fits = 0;
  do
    FORWARD_IF(
        ap_layernorm_find_kernel(p, device, AP_LAYERNORM_PASS_FWD, rows, class, &ring, &fits));
  while (!fits && ++class <= last);
  if (fits && has_full_vectors(p, &ring))
    *launch = ring;
  return ATTNPRESS_OK;
}

/** Takes the kernel that reads rows straight into registers, AP_LAYERNORM_ROWS_DIRECT, ..._EDGED,
 * ..._WHOLE or ..._ADDED, in place of another, if there is one of the class, and the rows are so many rounds
 * of the blocks that run at a time as its tile says. */
static attnpress_status prefer_direct_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                             int32_t rows, ap_launch *launch) {
  const int whole = rows == AP_LAYERNORM_ROWS_WHOLE || rows == AP_LAYERNORM_ROWS_ADDED;
  const int64_t kept = ap_element_bytes(p->param_dtype), own = ap_element_bytes(p->dtype);
  const int64_t size = rows == AP_LAYERNORM_ROWS_DIRECT ? larger(own, kept) : own;
  const int64_t edges = whole ? 0 : VECTOR_BYTES / size - 1;
  ap_launch direct;
  int fits;
  FORWARD_IF(ap_layernorm_find_kernel(p, device, AP_LAYERNORM_PASS_FWD, rows,
                                      first_class(p->columns + edges), &direct, &fits));
  if (!fits)
    return ATTNPRESS_OK;
  const int64_t steps = ceil_div(p->rows, ap_layernorm_block_rows(&direct.tile));
  const int64_t at_once = (int64_t)device->sm_count * field(&direct, AP_LAYERNORM_TILE_BLOCKS);
  if (steps <= INT32_MAX && steps >= at_once * field(&direct, AP_LAYERNORM_TILE_ROUNDS))
    *launch = direct;
  return ATTNPRESS_OK;
}

/** Takes the kernel of short rows, AP_LAYERNORM_ROWS_PAIRS or ..._PIECES, in place of another, if the
 * class has one, which *fits says, and a grid has room for the rows. */
static attnpress_status prefer_kernel_of_pieces(const ap_layernorm_problem *p,
                                                const ap_device *device, int32_t rows,
                                                ap_launch *launch, int *fits) {
  ap_launch pieces;
  FORWARD_IF(ap_layernorm_find_kernel(p, device, AP_LAYERNORM_PASS_FWD, rows,
                                      first_class(larger(p->columns, PIECE_COLS_MIN)), &pieces,
                                      fits));
  if (*fits && ceil_div(p->rows, ap_layernorm_block_rows(&pieces.tile)) <= INT32_MAX)
    *launch = pieces;
  return ATTNPRESS_OK;
}

/** Whether short rows of a slice are gathered: the longest where no others are faster, which rows that begin
 * alike have, and those far from each other, of which each takes a copy of its own. */
static int are_rows_gathered(const ap_layernorm_problem *p) {
  const int64_t gap = p->rows > 1 ? p->tensor[AP_LAYERNORM_X].stride - p->columns : 0;
  const int others =
      has_rows_cut_alike(p) || (gap >= AP_LAYERNORM_GATHERED_GAP && has_aligned_parameters(p) &&
                                ap_element_bytes(p->param_dtype) == 2);
  return has_gathered_rows(p) && p->columns >= GATHERED_COLS_MIN &&
         p->columns <= (others ? GATHERED_FEW_COLS_MAX : GATHERED_COLS_MAX);
}

/** Whether rows of which a warp has one, or a few, move in registers to where they lie in y: with gaps in
 * y, and longer ones of slices. */
static int are_rows_moved(const ap_layernorm_problem *p) {
  const int has_gaps = p->rows > 1 && p->tensor[AP_LAYERNORM_Y].stride != p->columns;
  const int64_t most = !has_gaps               ? MOVED_SLICE_COLS_MAX
                       : has_rows_cut_alike(p) ? MOVED_ALIKE_COLS_MAX
                                               : MOVED_COLS_MAX;
  return has_movable_rows(p) && has_whole_parameters(p) && ap_element_bytes(p->param_dtype) == 2 &&
         p->columns >= MOVED_COLS_MIN && p->columns <= most;
}

/** Takes the kernel of such rows in place of another. */
static attnpress_status prefer_kernel_of_moved_rows(const ap_layernorm_problem *p,
                                                    const ap_device *device, ap_launch *launch) {
  ap_launch moved;
  int fits;
  FORWARD_IF(ap_layernorm_find_kernel(p, device, AP_LAYERNORM_PASS_FWD, AP_LAYERNORM_ROWS_MOVED,
                                      first_class(p->columns + MOVED_EDGES), &moved, &fits));
  if (fits && ceil_div(p->rows, ap_layernorm_block_rows(&moved.tile)) <= INT32_MAX)
    *launch = moved;
  return ATTNPRESS_OK;
}

/** Takes the kernel of rows that begin elsewhere in x than in y in place of another, which would read one
 * element at a time. */
static attnpress_status prefer_kernel_of_rows_apart(const ap_layernorm_problem *p,
                                                    const ap_device *device, ap_launch *launch) {
  const ap_layernorm_tensor *x = &p->tensor[AP_LAYERNORM_X], *y = &p->tensor[AP_LAYERNORM_Y];
  ap_launch apart;
  int fits = 0;
  if (!has_aligned_parameters(p) || x->data == y->data ||
      p->tensor[AP_LAYERNORM_RESIDUAL].data != NULL || p->columns < APART_COLS_MIN)
    return ATTNPRESS_OK;
  /* Where y goes through shared memory parameters may be missing, too, or be of fp32. */
  const int64_t edges = VECTOR_BYTES / ap_element_bytes(p->dtype) - 1;
  FORWARD_IF(ap_layernorm_find_kernel(p, device, AP_LAYERNORM_PASS_FWD, AP_LAYERNORM_ROWS_SHIFTED,
                                      first_class(p->columns + edges), &apart, &fits));
  if (!fits && !has_whole_parameters(p))
    return ATTNPRESS_OK;
  for (int32_t class = first_class(p->columns + ODD_EDGES); !fits && class < classes()->count - 1;
       ++class)
    FORWARD_IF(ap_layernorm_find_kernel(p, device, AP_LAYERNORM_PASS_FWD, AP_LAYERNORM_ROWS_APART,
                                        class, &apart, &fits));
  if (fits && ceil_div(p->rows, ap_layernorm_block_rows(&apart.tile)) <= INT32_MAX)
    *launch = apart;
  return ATTNPRESS_OK;
}

/** Takes the kernel whose clusters have as many thread blocks as a row needs, in place of another: as
 * few as have room for its parameters, or sixteen. */
static attnpress_status prefer_wide_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                           ap_launch *launch) {
  const int64_t elements = VECTOR_BYTES / ap_element_bytes(p->dtype);
  const int64_t odd = p->columns % elements != 0 ? elements - 1 : 0; /* before a row, at the most */
  const int64_t vectors = ceil_div(p->columns + odd, elements);
  /* Parameters of twice the size: of whole vectors alone, and of layer norm in shorter parts. */
  const int twice = ap_element_bytes(p->param_dtype) > ap_element_bytes(p->dtype);
  const int64_t block_bytes = twice && !p->rms ? WIDE_BLOCK_TWICE_BYTES : WIDE_BLOCK_BYTES;
  const int32_t step_max =
      WIDE_CLUSTER_STEP_MAX + (odd > 0 && ap_element_bytes(p->dtype) == 2 ? 1 : 0);
  int32_t cluster = SM_PAIR;
  while (cluster < WIDE_CLUSTER_MAX && ceil_div(vectors, cluster) * VECTOR_BYTES > block_bytes)
    cluster = cluster < step_max            ? cluster + 1
              : cluster < WIDE_CLUSTER_LONG ? WIDE_CLUSTER_LONG
                                            : WIDE_CLUSTER_MAX;
  if (!ap_cluster_fits(device, cluster) || p->rows > INT32_MAX || (twice && odd > 0))
    return ATTNPRESS_OK;
  const int64_t columns = ceil_div(vectors, cluster) * elements; /* of a block */
  ap_launch wide;
  int fits = 0;
  for (int32_t class = first_class(columns);
       !fits && classes()->values[class] <= AP_LAYERNORM_HELD_COLS_MAX; ++class)
    FORWARD_IF(ap_layernorm_find_kernel(p, device, AP_LAYERNORM_PASS_FWD, AP_LAYERNORM_ROWS_WIDE,
                                        class, &wide, &fits));
  if (!fits)
    return ATTNPRESS_OK;
  wide.cluster = (uint32_t)cluster;
  /* Where the driver does not say how many there are, as many as of the next power of two. */
  int32_t power = SM_PAIR;
  while (power < cluster)
    power *= 2;
  wide.grid = (uint32_t)(smaller(p->rows, ap_layernorm_clusters_at_once(device, power)) * cluster);
  wide.clusters_most = (uint32_t)p->rows;
  *launch = wide;
  return ATTNPRESS_OK;
}

/** Whether gangs are faster than clusters that have room for a row: where these fetch parameters for each of
 * the longest rows, in some of their classes, and where rows begin anywhere, whose ends gangs have beside
 * the vectors. */
static int is_better_of_gangs(const ap_layernorm_problem *p) {
  const int whole = !begins_anywhere(p);
  if (whole && p->weight == NULL && p->bias == NULL)
    return ap_element_bytes(p->dtype) == 2 && !p->rms && p->columns > WIDE_BARE_COLS_MAX;
  if (p->dtype == ATTNPRESS_FP32)
    return !p->rms && p->columns > WIDE_FP32_COLS_MAX;
  if (whole && !p->rms && p->param_dtype == p->dtype && p->columns > WIDE_LEAST_COLS_MAX &&
      p->columns <= WIDE_LESS_COLS)
    return 1;
  return p->columns > (!whole ? WIDE_SPLIT_COLS_MAX : p->rms ? WIDE_RMS_COLS_MAX : WIDE_COLS_MAX);
}

attnpress_status ap_layernorm_plan_forward(const ap_layernorm_problem *p, const ap_device *device,
                                           ap_layernorm_plan *plan) {
  ap_launch *launch = &plan->base.launch[0];
  int fits = 0;
  if (has_odd_rows(p))
    FORWARD_IF(ap_layernorm_find_odd_kernel(p, device, AP_LAYERNORM_PASS_FWD, AP_LAYERNORM_ROWS_ODD,
                                            launch, &fits));
  /* The last class has no need of shared memory: it runs everywhere. */
  for (int32_t class = first_class(p->columns); !fits; ++class)
    FORWARD_IF(ap_layernorm_find_kernel(p, device, AP_LAYERNORM_PASS_FWD, AP_LAYERNORM_ROWS_ALIGNED,
                                        class, launch, &fits));
  /* Short rows, some of which are whole vectors together. */
  const int adds = p->tensor[AP_LAYERNORM_RESIDUAL].data != NULL;
  int short_rows = 0;
  if (has_rows_in_turn(p))
    FORWARD_IF(prefer_kernel_of_pieces(p, device, AP_LAYERNORM_ROWS_PAIRS, launch, &short_rows));
  else if (are_rows_gathered(p))
    FORWARD_IF(prefer_kernel_of_pieces(p, device, AP_LAYERNORM_ROWS_GATHERED, launch, &short_rows));
  if (short_rows) {
    /* pairs in place and with a residual, too */
    if (launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_GATHERED)
      launch->smem_bytes =
          ap_layernorm_gathered_bytes(&launch->tile, p->columns, p->tensor[AP_LAYERNORM_X].stride);
  } else if (has_packed_rows(p)) {
    FORWARD_IF(prefer_packed_kernel(p, device, launch));
    FORWARD_IF(prefer_kernel_of_rings(p, device, AP_LAYERNORM_ROWS_CUT, launch));
    if (has_whole_parameters(p))
      FORWARD_IF(prefer_direct_kernel(p, device, AP_LAYERNORM_ROWS_DIRECT, launch));
    /* Pairs, where they are faster than rings, and of many rows than what reads them straight. */
    const int many = launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_DIRECT;
    if (has_whole_parameters(p) && ap_element_bytes(p->dtype) == 2 &&
        p->columns + ODD_EDGES > (p->rms ? WIDE_PAIR_RMS_COLS
                                  : many ? WIDE_PAIR_MANY_COLS
                                         : WIDE_PAIR_COLS))
      FORWARD_IF(prefer_wide_kernel(p, device, launch));
  } else if (has_whole_rows(p)) {
    if (has_no_gaps(p))
      FORWARD_IF(prefer_kernel_of_pieces(p, device, AP_LAYERNORM_ROWS_PIECES, launch, &short_rows));
    if (!short_rows)
      FORWARD_IF(prefer_kernel_of_rings(p, device, AP_LAYERNORM_ROWS_BULK, launch));
    if (!short_rows && has_whole_parameters(p))
      FORWARD_IF(prefer_direct_kernel(p, device, AP_LAYERNORM_ROWS_WHOLE, launch));
  } else if (!begins_anywhere(p)) { /* with a residual */
    if (has_no_gaps(p) && p->columns <= ADDED_PIECE_COLS)
      FORWARD_IF(prefer_kernel_of_pieces(p, device, AP_LAYERNORM_ROWS_PIECES, launch, &short_rows));
    if (!short_rows)
      FORWARD_IF(prefer_kernel_of_rings(p, device, AP_LAYERNORM_ROWS_SUMMED, launch));
    if (!short_rows && has_whole_parameters(p))
      FORWARD_IF(prefer_direct_kernel(p, device, AP_LAYERNORM_ROWS_ADDED, launch));
  } else if (are_rows_moved(p)) {
    FORWARD_IF(prefer_kernel_of_moved_rows(p, device, launch));
  } else if (has_rows_cut_alike(p)) {
    FORWARD_IF(prefer_kernel_of_rings(p, device, AP_LAYERNORM_ROWS_RINGED, launch));
    const int rings = launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_RINGED;
    if (!(rings && are_rings_faster(p)) && has_aligned_parameters(p) &&
        !(adds && ap_element_bytes(p->dtype) == 2 && p->columns < EDGED_ADDED_COLS_MIN))
      FORWARD_IF(prefer_direct_kernel(p, device, AP_LAYERNORM_ROWS_EDGED, launch));
  } else {
    FORWARD_IF(prefer_kernel_of_rows_apart(p, device, launch));
  }
  plan->base.count = 1;
  if ((field(launch, AP_LAYERNORM_TILE_ROW_THREADS) == 0 || is_wide(launch)) &&
      has_long_parameters(p) && (has_packed_rows(p) || has_whole_rows(p))) {
    if (field(launch, AP_LAYERNORM_TILE_ROW_THREADS) == 0)
      FORWARD_IF(prefer_wide_kernel(p, device, launch));
    if (field(launch, AP_LAYERNORM_TILE_ROW_THREADS) == 0 ||
        (is_wide(launch) && is_better_of_gangs(p)))
      FORWARD_IF(ap_layernorm_prefer_forward_gang(p, device, plan));
  }
  if (field(launch, AP_LAYERNORM_TILE_ROW_THREADS) == 0 && adds && has_long_parameters(p) &&
      (!begins_anywhere(p) || (has_packed_sums(p) && (p->weight != NULL || p->bias != NULL ||
                                                      p->columns > GANG_SUMS_BARE_COLS))))
    FORWARD_IF(ap_layernorm_prefer_forward_gang(p, device, plan));
  if (is_wide(launch) || is_of_gang(launch))
    return ATTNPRESS_OK;
  if (field(launch, AP_LAYERNORM_TILE_ROW_THREADS) == 0)
    return ap_layernorm_set_grid(p, launch);
  ap_layernorm_set_walking_grid(p, device, launch);
  return ATTNPRESS_OK;
}
