/* Gangs: thread blocks that all run at the same time and share rows through global memory. */
#include "layernorm/plan.h"

enum {
  /* Backward, which rows gangs have where they are faster than others: of fp32, of whole vectors of 16
   * bits, with dsum and without, and of 16 bits that begin anywhere. Of whole vectors clusters are faster
   * where the most columns of such a class lack a sixteenth of them or less. Of rows that begin anywhere
   * pairs are: of a copy at 64 MB 0.81 to 0.86 of 28,666 to 32,761 columns, gangs 0.80 to 0.84; clusters
   * of four, of which 24 run with three of each class of rows, have 0.71 to 0.82 beyond, gangs 0.79 to
   * 0.84. */
  GANG_FP32_COLS_MIN = 10240,
  GANG_WHOLE_COLS_MIN = 24576,
  GANG_WIDE_COLS_MIN = 49152, /* with a weight of fp32 */
  GANG_SPLIT_COLS_MIN = 32761,
  SORTED_COLS_MAX = GANG_COLS_MIN - ODD_EDGES, /* of clusters of sorted rows */
  /* Of less rows, or of no more classes of them, these are faster; with a weight of fp32, of up to so many
   * columns, of less rows than that. */
  GANG_SPLIT_ROWS_MIN = 64,
  SORTED_CLASSES = 4,
  GANG_WIDE_ROWS_MIN = 192,
  SORTED_WIDE_CLASSES = 2,
  SORTED_WIDE_COLS = 49152 - ODD_EDGES,
  CLUSTER_FULL_COLS = 16384, /* and twice as many */
  /* And of fp32 that begins anywhere, where all rows do so alike. */
  GANG_FP32_ALIKE_COLS_MIN = 12288,
  GANG_SLOTS = 7,         /* rows of a warp's ring, where a gang has blocks enough */
  GANG_DSUM_SLOTS = 6,    /* with dsum */
  GANG_LONG_SLOTS = 5,    /* of the longest blocks */
  GANG_SLOTS_MIN = 3,     /* else: one that is written, one that is added up, one more */
  GANG_FORWARD_SLOTS = 6, /* forward, where longer parts of rows are better than more of them */
  GANG_LONGEST_SLOTS = 4, /* of the longest blocks, */
  GANG_LONGEST_COLS_MIN = 360000, /* which longer rows with a residual may have */
  GANG_LONG_ROUNDS = 4,           /* rows of a gang at the least, where blocks have more columns */
  GANG_UNIT = 8,   /* and vectors of whole rows that are dealt together, as the kernel */
  GANG_FEWER = 32, /* vectors that a row's first and its last warp do without, if they can */
  GANG_TOLD_BYTES = (16 + 8) * 16 /* of each block, as the kernel */
};

/* ---- Forward --------------------------------------------------------------------------------- */

/** The gangs of a kernel: a launch has `count`, or 0 where none has room for a row. */
typedef struct forward_gangs {
  ap_launch launch;
  int64_t count;
} forward_gangs;

/** At how many places of a matrix so many gangs are at a time, which take rows of one class after the other:
 * rows that begin alike are `elements` apart. */
static int64_t places_of(int64_t gangs, int64_t elements) {
  int64_t common = 1;
  while (gangs % (2 * common) == 0 && 2 * common <= elements)
    common *= 2;
  return gangs / common;
}

/** Of up to so many gangs, and an eighth less, as many as are at the fewest places. */
static int64_t best_of_gangs(int64_t most, int64_t elements) {
  int64_t best = most;
  for (int64_t gangs = most - 1; gangs >= most - most / 8; --gangs)
    if (places_of(gangs, elements) < places_of(best, elements))
      best = gangs;
  return best;
}

/** The gangs of the kernel whose blocks have so many columns, with as few of them to a row as have room. */
static attnpress_status find_forward_gangs(const ap_layernorm_problem *p, const ap_device *device,
                                           int64_t block_cols, forward_gangs *gangs) {
  const int64_t elements = VECTOR_BYTES / ap_element_bytes(p->dtype);
  const int split = p->columns % elements != 0;
  const int64_t vectors = p->columns / elements - split; /* whole, wherever a row begins */
  const int adds = p->tensor[AP_LAYERNORM_RESIDUAL].data != NULL;
  int fits;
  gangs->count = 0;
  FORWARD_IF(ap_layernorm_find_gang_kernel(p, device, forward_gang_rows(split, adds), block_cols,
                                           &gangs->launch, &fits));
  if (!fits)
    return ATTNPRESS_OK;
  const ap_launch *launch = &gangs->launch;
  const int64_t warps = field(launch, AP_LAYERNORM_TILE_ROW_THREADS) / WARP;
  const int64_t ring = launch->tile.smem_bytes / warps / VECTOR_BYTES / (1 + adds);
  const int64_t most = launch->variant.axis[AP_LAYERNORM_COLS] / elements / warps;
  const int64_t unit = split ? 1 : GANG_UNIT, units = ceil_div(vectors, unit);
  const int64_t slots =
      block_cols == GANG_LONGEST_BLOCK_COLS ? GANG_LONGEST_SLOTS : GANG_FORWARD_SLOTS;
  const int64_t part = smaller(ring / slots, most) / unit;
  const int64_t least = smaller(ceil_div(units, part * warps), device->sm_count);
  if (ceil_div(units, least * warps) * unit > most)
    return ATTNPRESS_OK;
  gangs->count = device->sm_count / least;
  if (split)
    gangs->count = best_of_gangs(gangs->count, elements);
  return ATTNPRESS_OK;
}

/** Takes gangs in place of another kernel, where a row has room in one. The launch has a block for each SM,
 * also where some have no row: no other launch of the kernel runs beside it then. */
attnpress_status ap_layernorm_prefer_forward_gang(const ap_layernorm_problem *p,
                                                  const ap_device *device,
                                                  ap_layernorm_plan *plan) {
  const int64_t elements = VECTOR_BYTES / ap_element_bytes(p->dtype);
  forward_gangs gangs;
  if (p->rows > INT32_MAX || device->sm_count > GANG_BLOCKS_MAX)
    return ATTNPRESS_OK;
  FORWARD_IF(find_forward_gangs(p, device, GANG_BLOCK_COLS, &gangs));
  /* Blocks of more columns, where gangs are at fewer places, or half as many more, and have rows enough. */
  for (int more = 1; more <= 1 + (p->columns > GANG_LONGEST_COLS_MIN); ++more) {
    forward_gangs longer;
    FORWARD_IF(find_forward_gangs(p, device, gang_block_cols[more], &longer));
    const int better = 2 * longer.count >= 3 * gangs.count ||
                       (longer.count > gangs.count &&
                        places_of(longer.count, elements) < places_of(gangs.count, elements));
    if (gangs.count == 0 || (better && p->rows >= GANG_LONG_ROUNDS * longer.count))
      gangs = longer;
  }
  if (gangs.count == 0)
    return ATTNPRESS_OK;
  gangs.launch.grid = (uint32_t)device->sm_count;
  gangs.launch.together = 1;
  plan->base.launch[0] = gangs.launch;
  plan->gang = (int32_t)(device->sm_count / smaller(gangs.count, p->rows));
  return ATTNPRESS_OK;
}

/* ---- Backward -------------------------------------------------------------------------------- */

/** How the thread blocks of a launch share rows. */
typedef struct gang_shape {
  ap_launch launch;
  int32_t blocks, gangs; /* of a gang; gangs: 0 where no gang has room for a row */
} gang_shape;

/** How many thread blocks share a row of so many vectors: as few as have room for it. Of rows that begin
 * anywhere the first warp and the last have up to `fewer` vectors less: they get another block for it where
 * that takes a vector of each lane, too. part: vectors of a warp, at the most */
static int64_t blocks_of_gang(int64_t vectors, int64_t fewer, int64_t part, int64_t warps) {
  const int64_t least = ceil_div(vectors, part * warps),
                more = ceil_div(vectors + 2 * fewer, part * warps);
  return ceil_div(vectors + 2 * fewer, more * warps * WARP) <
                 ceil_div(vectors, least * warps * WARP)
             ? more
             : least;
}

/** Vectors that the first warp and the last have less of rows that begin anywhere, as the kernel. */
static int64_t fewer_vectors(int64_t vectors, int64_t blocks, int64_t most, int64_t warps) {
  const int64_t each = ceil_div(vectors, blocks * warps * WARP) * WARP;
  return smaller((blocks * warps * smaller(each, most) - vectors) / 2, GANG_FEWER);
}

/** Whether a weight is of fp32 beside 16 bits. */
static int has_wide_weight(const ap_layernorm_problem *p) {
  return p->param_dtype == ATTNPRESS_FP32 && p->dtype != ATTNPRESS_FP32;
}

/** Shapes the gangs of a launch, for rows of so many matrices: as few blocks to a row as have room for it,
 * or some more, where others would have nothing to do. slots: rows of a warp's ring, if it can */
static void shape_gangs(const ap_layernorm_problem *p, const ap_device *device, int32_t matrices,
                        int64_t slots, gang_shape *gang) {
  const int64_t elements = VECTOR_BYTES / ap_element_bytes(p->dtype);
  const int32_t split = is_split(&gang->launch);
  const int64_t vectors = /* of a row, wherever it begins */
      ceil_div(p->columns + split * (elements - 1), elements);
  const int64_t columns = gang->launch.variant.axis[AP_LAYERNORM_COLS]; /* of a block */
  const int64_t warps = field(&gang->launch, AP_LAYERNORM_TILE_ROW_THREADS) / WARP;
  const int64_t blocks = smaller(device->sm_count, GANG_BLOCKS_MAX);
  /* Of rows that begin anywhere weights of fp32 beside 16 bits are in shared memory, as the kernel. */
  const int64_t weights =
      split && has_wide_weight(p) ? columns * ap_element_bytes(p->param_dtype) : 0;
  const int64_t ring = (gang->launch.tile.smem_bytes - weights) / warps / VECTOR_BYTES / matrices;
  /* Blocks of a gang whose rings have room for so many rows of a warp's part, and its registers for one. */
  const int64_t most =
      columns / elements / warps - split; /* columns move on, by a vector at the most */
  const int64_t part = smaller(ring / slots, most);
  const int64_t least = smaller(blocks_of_gang(vectors, split * GANG_FEWER, part, warps), blocks);
  const int64_t fewer = split ? fewer_vectors(vectors, least, most, warps) : 0;
  const int64_t each = ceil_div(vectors + 2 * larger(fewer, 0), least * warps);
  if (each > smaller(ring / GANG_SLOTS_MIN, most))
    return;
  gang->gangs = (int32_t)smaller(device->sm_count / least, p->rows);
  gang->blocks = (int32_t)smaller(device->sm_count / gang->gangs, blocks);
}

/** The kernel of gangs for rows of a kind (AP_LAYERNORM_ROWS_...) of so many matrices: of long ones that
 * begin anywhere the one whose blocks have more columns, where that makes more gangs. */
static attnpress_status find_gang(const ap_layernorm_problem *p, const ap_device *device,
                                  int32_t rows, int32_t matrices, gang_shape *gang) {
  const int added = matrices > 2;
  /* Where rings have not all of shared memory: as many gangs as if they had. */
  const int less = rows == AP_LAYERNORM_ROWS_SPLIT && has_wide_weight(p);
  int fits;
  gang->gangs = 0;
  if (!ap_layernorm_has_sums(p) || p->rows > INT32_MAX)
    return ATTNPRESS_OK;
  FORWARD_IF(ap_layernorm_find_gang_kernel(p, device, rows, GANG_BLOCK_COLS, &gang->launch, &fits));
  if (fits)
    shape_gangs(p, device, matrices, (added ? GANG_DSUM_SLOTS : GANG_SLOTS) - less, gang);
  if (rows != AP_LAYERNORM_ROWS_SPLIT || added || p->columns <= GANG_LONG_COLS_MIN)
    return ATTNPRESS_OK;
  gang_shape more = {.gangs = 0};
  FORWARD_IF(
      ap_layernorm_find_gang_kernel(p, device, rows, GANG_LONG_BLOCK_COLS, &more.launch, &fits));
  if (fits)
    shape_gangs(p, device, matrices, GANG_LONG_SLOTS, &more);
  if (more.gangs > gang->gangs)
    *gang = more;
  return ATTNPRESS_OK;
}

/** Whether a row is nearly as long as the longest of a class of clusters. */
static int is_cluster_full(int64_t columns) {
  for (int64_t full = CLUSTER_FULL_COLS; full <= 2 * CLUSTER_FULL_COLS; full *= 2)
    if (columns > full - full / 16 && columns <= full)
      return 1;
  return 0;
}

/** Whether clusters of sorted rows are faster than gangs, of rows of 16 bits that begin anywhere without
 * dsum: where there are few rows, or few classes of them, so that all clusters run. */
static int are_sorted_faster(const ap_layernorm_problem *p) {
  const int wide = p->param_dtype == ATTNPRESS_FP32;
  const int64_t least =
      wide && p->columns <= SORTED_WIDE_COLS ? GANG_WIDE_ROWS_MIN : GANG_SPLIT_ROWS_MIN;
  return p->columns <= SORTED_COLS_MAX &&
         (p->rows < least || row_classes(p) <= (wide ? SORTED_WIDE_CLASSES : SORTED_CLASSES));
}

/** Whether gangs are faster than what else has rows of a kind, of so many matrices. With a weight of fp32
 * beside 16 bits they are of whole vectors where clusters have classes that few columns fill. */
static int is_gang_faster(const ap_layernorm_problem *p, int32_t rows, int32_t matrices) {
  const int split = rows == AP_LAYERNORM_ROWS_SPLIT, added = matrices > 2;
  if (p->dtype == ATTNPRESS_FP32 && split && !added && has_one_class(p))
    return p->columns > GANG_FP32_ALIKE_COLS_MIN && !is_cluster_full(p->columns);
  if (p->dtype == ATTNPRESS_FP32)
    return p->columns > GANG_FP32_COLS_MIN;
  const int wide = p->param_dtype == ATTNPRESS_FP32;
  if (split && added)
    return p->columns > odd_block_cols(p);
  if (split)
    return p->columns > GANG_SPLIT_COLS_MIN && !are_sorted_faster(p);
  if (wide)
    return p->columns > GANG_WIDE_COLS_MIN ||
           (p->columns > GANG_WHOLE_COLS_MIN &&
            p->columns <= 2 * CLUSTER_FULL_COLS - CLUSTER_FULL_COLS / 8);
  return !is_cluster_full(p->columns) &&
         p->columns > (added ? GANG_WHOLE_DSUM_COLS_MIN : GANG_WHOLE_COLS_MIN);
}

/** Bytes of what blocks tell each other, at the most, which come first in the workspace. */
size_t ap_layernorm_told_bytes(const ap_device *device) {
  return (size_t)device->sm_count * GANG_TOLD_BYTES;
}

/** Parts of the sums. */
static int32_t gang_parts(const gang_shape *gang) {
  return gang->gangs > 1 ? gang->gangs : 0; /* the sums themselves */
}

/** A gang's launch, and what adds up the parts. */
static attnpress_status plan_gang(const ap_layernorm_problem *p, const ap_device *device,
                                  const gang_shape *gang, ap_layernorm_plan *plan) {
  ap_launch *launch = &plan->base.launch[0];
  *launch = gang->launch;
  launch->grid = (uint32_t)(gang->gangs * gang->blocks);
  launch->together = 1;
  plan->base.count = 1;
  plan->gang = gang->blocks;
  plan->told_bytes = ap_layernorm_told_bytes(device);
  plan->parts = gang->gangs;
  plan->pitch = pitch_of(p, launch);
  if (gang_parts(gang) > 0)
    FORWARD_IF(ap_layernorm_plan_reduce(p, device, plan));
  return ATTNPRESS_OK;
}

/** Takes gangs in place of other kernels, where they are faster. The workspace is enough for either, and
 * for gangs of rows of both kinds, with dsum and without: its size depends on neither pointers nor
 * strides. */
attnpress_status ap_layernorm_prefer_gang(const ap_layernorm_problem *p, const ap_device *device,
                                          ap_layernorm_plan *plan) {
  const int32_t matrices = p->tensor[AP_LAYERNORM_DSUM].data != NULL ? 3 : 2;
  size_t bytes = plan->base.workspace_bytes;
  for (int split = 0; split < 2; ++split) {
    const int32_t rows = split ? AP_LAYERNORM_ROWS_SPLIT : AP_LAYERNORM_ROWS_GANG;
    gang_shape gang;
    if (!is_gang_faster(p, rows, 3)) /* nor of less matrices */
      continue;
    FORWARD_IF(find_gang(p, device, rows, 2, &gang)); /* of more there are no more gangs */
    if (gang.gangs == 0)
      continue;
    const size_t needed =
        ap_layernorm_told_bytes(device) +
        ap_layernorm_parts_bytes(p, gang_parts(&gang) * pitch_of(p, &gang.launch));
    bytes = larger_size(bytes, needed);
    FORWARD_IF(find_gang(p, device, rows, matrices, &gang));
    if (gang.gangs > 0 && is_gang_faster(p, rows, matrices) &&
        (split ? begins_anywhere(p) && has_gradients_cut_alike(p) : !begins_anywhere(p)))
      FORWARD_IF(plan_gang(p, device, &gang, plan));
  }
  plan->base.workspace_bytes = bytes;
  return ATTNPRESS_OK;
}
