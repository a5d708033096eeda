/* Decides how an outer product is run: the kernel of its pass, and its grid. Pure: it depends on
 * shapes and the device's numbers, and touches nothing. */
#include "outer/outer.h"

#include <inttypes.h>
#include <string.h>

#include "press/target.h"
#include "core/numbers.h"

enum { FEW_BLOCKS_PER_SM = 2 }; /* of products in fp32 */
enum {
  SUM_DEPTH = 256,       /* of a split of a sum, at the least */
  SUM_DEPTH_STEP = 32,   /* a multiple of every kernel's */
  SUM_BLOCKS_PER_SM = 2, /* that splits come to, at the most */
  SUM_SIDE = 8,          /* threads beside each other, 16 of large blocks */
  SUM_LARGE_THREADS = 256,
  SUM_DX_ELEMENTS = 32768 /* of dx alone as a sum of products, at the least */
};
/* Gradients of sums are products where entries, of which fewer leave most of a tile empty, and
 * elements of all of them are enough: bwd takes a time by elements, products some time of their own.
 * Of 16 bits, and of fp32. */
static const int64_t product_batch[] = {8, 16};
static const int64_t product_elements[] = {18000000, 36000000};
enum { VECTOR_BYTES = 16, OVERLAP_CAPABILITY_MIN = 90, WARP_SHIFT = 5, WARP = 1 << WARP_SHIFT };

static attnpress_status find_kernel(const ap_outer_problem *p, const ap_device *device,
                                    int32_t pass, ap_launch *launch) {
  ap_variant *v = &launch->variant;
  *launch = (ap_launch){.variant.family = AP_FAMILY_OUTER, .num_splits = 1};
  v->axis[AP_OUTER_PASS] = pass;
  v->axis[AP_OUTER_DTYPE] = p->dtype;
  v->axis[AP_OUTER_MOD] = pass != AP_OUTER_PASS_BWD_REDUCE && p->has_mod;
  launch->snippet = v->axis[AP_OUTER_MOD];
  /* Every kernel of the family waits by itself for what ran before. */
  launch->overlaps = device->capability >= OVERLAP_CAPABILITY_MIN;
  ap_choose_arch(device, launch);
  return ap_find_launch_tile(launch);
}

/** A grid of batch * row_blocks * column_blocks; *blocks: batch * row_blocks. */
static attnpress_status set_grid(const ap_outer_problem *p, int64_t batch, int64_t row_blocks,
                                 int64_t column_blocks, ap_launch *launch) {
  int64_t blocks;
  RETURN_IF(__builtin_mul_overflow(batch, row_blocks, &blocks) ||
                __builtin_mul_overflow(blocks, column_blocks, &blocks) || blocks > INT32_MAX,
            ATTNPRESS_NOT_SUPPORTED,
            "batch %" PRId64 " of %" PRId64 " rows and %" PRId64
            " columns are more thread blocks than a launch has",
            p->batch, p->rows, p->columns);
  launch->grid = (uint32_t)blocks;
  return ATTNPRESS_OK;
}

static int64_t vectors_of(const ap_outer_problem *p) {
  return ceil_div(p->columns, VECTOR_BYTES / ap_outer_bytes(p));
}

/** As many threads share `pieces` as they are, at most `most`, a power of two; of it, the exponent. */
static int32_t shift_of(int64_t pieces, int32_t most) {
  int32_t shift = 0;
  while (1 << shift < pieces && 1 << shift < most)
    ++shift;
  return shift;
}

static void plan_product(const ap_outer_problem *p, const ap_device *device, ap_outer_plan *plan) {
  ap_launch *launch = &plan->base.launch[0];
  const int64_t vectors = vectors_of(p);
  plan->column_shift = shift_of(vectors, launch->tile.threads);
  const int64_t groups = launch->tile.threads >> plan->column_shift;
  plan->column_blocks = (int32_t)ceil_div(vectors, 1 << plan->column_shift);
  plan->row_blocks = (int32_t)ceil_div(p->rows, groups * launch->tile.field[AP_OUTER_TILE_ROWS]);
  /* Fewer streams of writes at once: more of each is in the memory's open pages. */
  if (p->dtype == ATTNPRESS_FP32 && !p->has_mod && launch->overlaps)
    launch->smem_bytes = ap_few_smem_bytes(device, FEW_BLOCKS_PER_SM);
}

/** Whether c is one run of elements, in which vectors may be of two rows or more. */
static int is_run(const ap_outer_problem *p) {
  return !p->has_mod && p->c_row_stride == p->columns && p->rows <= INT32_MAX / 2 &&
         p->columns <= INT32_MAX / VECTOR_BYTES &&
         (p->batch <= 1 || p->c_batch_stride == p->rows * p->columns);
}

/** Whether c's rows are whole vectors where they lie. */
static int has_whole_rows(const ap_outer_problem *p) {
  return p->columns * ap_outer_bytes(p) % VECTOR_BYTES == 0 && (uintptr_t)p->c % VECTOR_BYTES == 0;
}

static int64_t entry_vectors(const ap_outer_problem *p) {
  return ceil_div(p->rows * p->columns, VECTOR_BYTES / ap_outer_bytes(p));
}

/** Of a kernel whose threads have a vector of some units each. */
static void plan_unit(const ap_outer_problem *p, ap_outer_plan *plan) {
  const ap_tile *tile = &plan->base.launch[0].tile;
  const int64_t elements = VECTOR_BYTES / ap_outer_bytes(p), vectors = entry_vectors(p);
  const int64_t odd = p->columns & -p->columns; /* the largest power of two that divides it */
  const int64_t unit_vectors = p->columns / (odd < elements ? odd : elements);
  const int64_t width = vectors < unit_vectors ? vectors : unit_vectors;
  const int64_t units = ceil_div(vectors, unit_vectors);
  plan->unit_rows = (int32_t)(odd < elements ? elements / odd : 1);
  plan->unit_vectors = (int32_t)unit_vectors;
  plan->width = (int32_t)width;
  plan->column_blocks = (int32_t)ceil_div(width, tile->threads);
  const int64_t groups = plan->column_blocks > 1 ? 1 : tile->threads / width;
  plan->row_blocks = (int32_t)ceil_div(units, groups * tile->field[AP_OUTER_TILE_ROWS]);
  plan->units = (int32_t)ceil_div(units, groups * plan->row_blocks);
}

/** Of a kernel whose thread blocks have a chunk each; what they need of x and y, as they lie, has to
 * fit in shared memory, else *fits is 0. */
static attnpress_status plan_chunk(const ap_outer_problem *p, ap_outer_plan *plan, int *fits) {
  /* What a piece has before and behind what it is of: less than a vector, and a window. */
  enum { MARGIN = 5 * VECTOR_BYTES, SMEM_BYTES_MAX = 72 << 10 };
  ap_launch *launch = &plan->base.launch[0];
  const int64_t size = ap_outer_bytes(p), elements = VECTOR_BYTES / size;
  const int64_t chunk = elements * launch->tile.threads * launch->tile.field[AP_OUTER_TILE_ROWS];
  const int64_t lead = (int64_t)((uintptr_t)p->c % VECTOR_BYTES) / size;
  int64_t total;
  /* Rows and entries that a chunk may be of. */
  const int64_t rows = ceil_div(chunk, p->columns) + 1;
  const int64_t entries = (rows + p->rows - 2) / p->rows + 1;
  const int64_t x_bytes = ceil_div(rows * size, VECTOR_BYTES) * VECTOR_BYTES + MARGIN;
  const int64_t y_bytes = (p->rows == 1 ? chunk : entries * p->columns) * size + MARGIN;
  *fits = x_bytes + y_bytes <= SMEM_BYTES_MAX &&
          !__builtin_mul_overflow(p->batch, p->rows * p->columns, &total) && total > 0;
  if (!*fits)
    return ATTNPRESS_OK;
  plan->x_bytes = (int32_t)x_bytes;
  launch->smem_bytes = (int32_t)(x_bytes + y_bytes);
  return set_grid(p, ceil_div(total + lead, chunk), 1, 1, launch);
}

/** The same of x and y of any strides, and rows of a vector at the least, whose y is gathered: each
 * begins again behind its end. */
static attnpress_status plan_flat(const ap_outer_problem *p, ap_outer_plan *plan, int *fits) {
  enum { SMEM_BYTES_MAX = 64 << 10, ROW_BYTES = 8, WINDOW_BYTES = 24, PITCH_BYTES = 8 };
  ap_launch *launch = &plan->base.launch[0];
  const int64_t size = ap_outer_bytes(p), elements = VECTOR_BYTES / size;
  const int64_t chunk = elements * launch->tile.threads * launch->tile.field[AP_OUTER_TILE_ROWS];
  const int64_t lead = (int64_t)((uintptr_t)p->c % VECTOR_BYTES) / size;
  int64_t total;
  /* Rows that a chunk may be of, and the one after them. */
  const int64_t rows = ceil_div(chunk, p->columns) + 2;
  const int64_t entries = (p->rows + rows - 3) / p->rows + 1;
  const int64_t pitch = ceil_div((p->columns - 1) * size + WINDOW_BYTES, PITCH_BYTES) * PITCH_BYTES;
  const int64_t smem_bytes = rows * ROW_BYTES + entries * pitch;
  *fits = smem_bytes <= SMEM_BYTES_MAX &&
          !__builtin_mul_overflow(p->batch, p->rows * p->columns, &total) && total > 0;
  if (!*fits)
    return ATTNPRESS_OK;
  plan->column_shift = shift_of(pitch / size, launch->tile.threads);
  plan->column_blocks = (int32_t)entries;
  plan->row_blocks = (int32_t)rows;
  plan->pitch = (int32_t)pitch;
  launch->smem_bytes = (int32_t)smem_bytes;
  return set_grid(p, ceil_div(total + lead, chunk), 1, 1, launch);
}

/** Elements of c that a thread block of a sum has below and beside each other. */
static int64_t sum_columns(const ap_tile *tile) {
  return (tile->threads >= SUM_LARGE_THREADS ? 2 : 1) * SUM_SIDE * tile->field[AP_OUTER_TILE_ROWS];
}

static int64_t sum_rows(const ap_tile *tile) {
  return (int64_t)tile->threads * tile->field[AP_OUTER_TILE_ROWS] *
         tile->field[AP_OUTER_TILE_ROWS] / sum_columns(tile);
}

/** The parts of a sum that fills the device by splits. */
static size_t sum_workspace_bytes(const ap_device *device, const ap_tile *tile) {
  return (size_t)SUM_BLOCKS_PER_SM * (size_t)device->sm_count * (size_t)sum_rows(tile) *
         (size_t)sum_columns(tile) * sizeof(float);
}

static int64_t split_depth_of(int64_t depth, int64_t splits) {
  return ceil_div(ceil_div(depth, splits), SUM_DEPTH_STEP) * SUM_DEPTH_STEP;
}

/** Few tiles of c with much to be summed over are split, as far as `bytes` hold the parts. */
static void split_sum(const ap_device *device, size_t bytes, ap_outer_sum *sum) {
  const int64_t tiles = (int64_t)sum->row_blocks * sum->column_blocks;
  int64_t splits = ceil_div(sum->depth, SUM_DEPTH);
  if (splits > SUM_BLOCKS_PER_SM * device->sm_count / tiles)
    splits = SUM_BLOCKS_PER_SM * device->sm_count / tiles;
  if (splits > 1) {
    const size_t most = bytes / sizeof(float) / (size_t)sum->rows / (size_t)sum->columns;
    splits = most < (size_t)splits ? (int64_t)most : splits;
  }
  sum->split_depth = sum->depth;
  sum->splits = 1;
  if (splits < 2)
    return;
  /* Fewer may have all of the depth, in whole steps, and share it more equally: the same again
   * where `bytes` are what these need. */
  splits = ceil_div(sum->depth, split_depth_of(sum->depth, splits));
  sum->splits = (int32_t)splits;
  sum->split_depth = split_depth_of(sum->depth, splits);
}

/** Plans the kernel that adds up `parts` of each of `elements`. *lane_shift: of threads that share
 * one, where elements are few and parts many. */
static attnpress_status plan_reduce(const ap_outer_problem *p, const ap_device *device,
                                    int64_t elements, int64_t parts, ap_launches *base,
                                    int32_t *lane_shift) {
  enum { SHIFT_MAX = 5, PARTS_MIN = 4 /* of a thread */, BLOCKS_PER_SM = 4 };
  ap_launch *launch = &base->launch[base->count++];
  FORWARD_IF(find_kernel(p, device, AP_OUTER_PASS_BWD_REDUCE, launch));
  int32_t shift = 0;
  while (shift < SHIFT_MAX && parts >> shift > PARTS_MIN &&
         ceil_div(elements, launch->tile.threads >> shift) < BLOCKS_PER_SM * device->sm_count)
    ++shift;
  *lane_shift = shift;
  return set_grid(p, 1, 1, ceil_div(elements, launch->tile.threads >> shift), launch);
}

/** Plans a sum, by the kernel of `pass`, and the kernel that adds up the parts of splits. */
static attnpress_status plan_sum(const ap_outer_problem *p, const ap_device *device, int32_t pass,
                                 size_t bytes, ap_outer_sum *sum, ap_launches *base) {
  ap_launch *launch = &base->launch[base->count++];
  FORWARD_IF(find_kernel(p, device, pass, launch));
  const int64_t row_blocks = ceil_div(sum->rows, sum_rows(&launch->tile));
  const int64_t column_blocks = ceil_div(sum->columns, sum_columns(&launch->tile));
  FORWARD_IF(set_grid(p, 1, row_blocks, column_blocks, launch));
  sum->row_blocks = (int32_t)row_blocks;
  sum->column_blocks = (int32_t)column_blocks;
  split_sum(device, bytes, sum);
  if (sum->splits == 1)
    return ATTNPRESS_OK;
  launch->grid *= (uint32_t)sum->splits;
  const size_t parts =
      (size_t)sum->splits * (size_t)sum->rows * (size_t)sum->columns * sizeof(float);
  base->workspace_bytes = parts > base->workspace_bytes ? parts : base->workspace_bytes;
  return plan_reduce(p, device, sum->rows * sum->columns, sum->splits, base, &sum->lane_shift);
}

attnpress_status ap_outer_plan_run(const ap_outer_problem *p, const ap_device *device, int32_t pass,
                                   ap_outer_plan *plan, int *fits) {
  const int is_chunk = pass == AP_OUTER_PASS_CHUNK;
  const int has_gaps = p->batch > 1 && (p->x_stride != p->rows || p->y_stride != p->columns);
  const int is_narrow = p->columns * ap_outer_bytes(p) < VECTOR_BYTES;
  *fits = 0;
  if (p->summed || !is_run(p) || (is_chunk ? has_gaps : is_narrow))
    return ATTNPRESS_OK;
  plan->base.count = 1;
  FORWARD_IF(find_kernel(p, device, pass, &plan->base.launch[0]));
  return is_chunk ? plan_chunk(p, plan, fits) : plan_flat(p, plan, fits);
}

/** Whether vectors of two rows are many, and y to be gathered for them little. */
static int is_gathered(const ap_outer_problem *p) {
  enum { ROWS_MIN = 24, VECTORS_MIN = 128 }; /* of an entry: bench/notes/families.md */
  return p->rows >= ROWS_MIN && entry_vectors(p) >= VECTORS_MIN;
}

attnpress_status ap_outer_plan_rows(const ap_outer_problem *p, const ap_device *device,
                                    ap_outer_plan *plan, int *fits) {
  /* Of blocks' places, so many are to be filled, except where blocks are few: bench/notes/families.md */
  enum { FILLED_MIN = 9, FILLED_OF = 16, BLOCKS_PER_SM = 4 };
  const int is_unit =
      is_run(p) && !has_whole_rows(p) && p->columns * ap_outer_bytes(p) >= VECTOR_BYTES;
  ap_launch *launch = &plan->base.launch[0];
  plan->base.count = 1;
  FORWARD_IF(find_kernel(p, device, is_unit ? AP_OUTER_PASS_UNIT : AP_OUTER_PASS_FWD, launch));
  if (is_unit)
    plan_unit(p, plan);
  else
    plan_product(p, device, plan);
  const int64_t blocks = (int64_t)plan->row_blocks * plan->column_blocks; /* of an entry */
  const int64_t places = launch->tile.threads * launch->tile.field[AP_OUTER_TILE_ROWS];
  const int is_filled = entry_vectors(p) * FILLED_OF >= places * blocks * FILLED_MIN;
  *fits = p->batch <= BLOCKS_PER_SM * device->sm_count / blocks ||
          (is_filled && (is_unit || has_whole_rows(p)));
  return ATTNPRESS_OK;
}

static attnpress_status plan_forward(const ap_outer_problem *p, const ap_device *device,
                                     ap_outer_plan *plan) {
  if (p->summed) {
    plan->sum[0] = (ap_outer_sum){.rows = p->rows, .columns = p->columns, .depth = p->batch};
    return plan_sum(p, device, AP_OUTER_PASS_SUM, p->workspace_bytes, &plan->sum[0], &plan->base);
  }
  int fits, by_rows;
  FORWARD_IF(ap_outer_plan_rows(p, device, plan, &by_rows));
  const int is_run_tried = !by_rows && is_run(p);
  for (int i = 0; is_run_tried && i < 2; ++i) {
    const int32_t pass = is_gathered(p) == i ? AP_OUTER_PASS_CHUNK : AP_OUTER_PASS_FLAT;
    FORWARD_IF(ap_outer_plan_run(p, device, pass, plan, &fits));
    if (fits)
      return ATTNPRESS_OK;
  }
  if (is_run_tried) /* and did not fit */
    FORWARD_IF(ap_outer_plan_rows(p, device, plan, &by_rows));
  return set_grid(p, p->batch, plan->row_blocks, plan->column_blocks, &plan->base.launch[0]);
}

/** Whether the gradients are sums of products over columns and rows of dc. */
static int is_product(const ap_outer_problem *p) {
  return p->summed && !p->has_mod;
}

/** Without dy nobody was told of a workspace, and without splits a few thread blocks would do all. */
static int runs_products(const ap_outer_problem *p) {
  const int wide = p->dtype == ATTNPRESS_FP32;
  return is_product(p) && p->batch >= product_batch[wide] &&
         p->rows * p->columns > product_elements[wide] / p->batch &&
         (p->dy != NULL || p->batch >= SUM_DX_ELEMENTS / p->rows);
}

attnpress_status ap_outer_plan_products(const ap_outer_problem *p, const ap_device *device,
                                        ap_outer_plan *plan) {
  const size_t bytes = p->dy != NULL ? SIZE_MAX : 0;
  plan->sum[0] = (ap_outer_sum){.rows = p->batch, .columns = p->rows, .depth = p->columns};
  plan->sum[1] = (ap_outer_sum){.rows = p->batch, .columns = p->columns, .depth = p->rows};
  if (p->dx != NULL)
    FORWARD_IF(plan_sum(p, device, AP_OUTER_PASS_SUM_DX, bytes, &plan->sum[0], &plan->base));
  if (p->dy != NULL)
    FORWARD_IF(plan_sum(p, device, AP_OUTER_PASS_SUM_DY, bytes, &plan->sum[1], &plan->base));
  return ATTNPRESS_OK;
}

/** Rows of a thread block of bwd, where 2^shift lanes share one. */
static int64_t backward_rows(const ap_launch *launch, int32_t shift) {
  return (int64_t)(launch->tile.threads >> shift) * launch->tile.field[AP_OUTER_TILE_ROWS];
}

/** Without rows or columns there is one block of them all the same: sums of nothing are 0. */
static attnpress_status plan_backward(const ap_outer_problem *p, const ap_device *device,
                                      ap_outer_plan *plan) {
  ap_launch *launch = &plan->base.launch[0];
  if (runs_products(p))
    return ap_outer_plan_products(p, device, plan);
  plan->base.count = 1;
  FORWARD_IF(find_kernel(p, device, AP_OUTER_PASS_BWD, launch));
  const int64_t rows = p->rows > 0 ? p->rows : 1, vectors = vectors_of(p);
  int32_t most = WARP;
  /* Where that were few thread blocks, more threads share a row. */
  while (most < launch->tile.threads &&
         p->batch * ceil_div(rows, backward_rows(launch, shift_of(vectors, most))) <
             2 * device->sm_count)
    most *= 2;
  plan->column_shift = shift_of(vectors, most);
  plan->row_blocks = (int32_t)ceil_div(rows, backward_rows(launch, plan->column_shift));
  FORWARD_IF(set_grid(p, p->batch, plan->row_blocks, 1, launch));
  if (p->dy == NULL || p->columns == 0 || plan->row_blocks == 1)
    return ATTNPRESS_OK;
  plan->base.workspace_bytes =
      (size_t)p->batch * (size_t)plan->row_blocks * (size_t)p->columns * sizeof(float);
  return plan_reduce(p, device, p->batch * p->columns, plan->row_blocks, &plan->base,
                     &plan->lane_shift);
}

/** The parts of dy that a range may need. */
static size_t range_bytes(const ap_outer_problem *p, const ap_launch *launch) {
  /* Where all threads of a block share a row, a block has the fewest rows. */
  int64_t elements = ceil_div(p->rows, launch->tile.field[AP_OUTER_TILE_ROWS]);
  if (p->batch == 0 || p->rows == 0 || p->columns == 0 ||
      __builtin_mul_overflow(elements, p->batch, &elements) ||
      __builtin_mul_overflow(elements, p->columns, &elements) ||
      __builtin_mul_overflow(elements, (int64_t)sizeof(float), &elements))
    return SIZE_MAX; /* no bound */
  return (size_t)elements;
}

static attnpress_status plan_range(const ap_outer_problem *p, const ap_device *device,
                                   ap_outer_plan *plan) {
  static const int32_t passes[] = {AP_OUTER_PASS_SUM_DX, AP_OUTER_PASS_SUM_DY};
  ap_launches *base = &plan->base;
  const int32_t pass = p->backward ? AP_OUTER_PASS_BWD
                       : p->summed ? AP_OUTER_PASS_SUM
                                   : AP_OUTER_PASS_FWD;
  FORWARD_IF(find_kernel(p, device, pass, &base->launch[base->count++]));
  if (pass == AP_OUTER_PASS_FWD && !p->has_mod) { /* as c lies */
    FORWARD_IF(find_kernel(p, device, AP_OUTER_PASS_UNIT, &base->launch[base->count++]));
    FORWARD_IF(find_kernel(p, device, AP_OUTER_PASS_CHUNK, &base->launch[base->count++]));
    FORWARD_IF(find_kernel(p, device, AP_OUTER_PASS_FLAT, &base->launch[base->count++]));
  }
  if (p->backward && p->dy != NULL)
    base->workspace_bytes = range_bytes(p, &base->launch[0]);
  if (!p->backward && p->summed) {
    base->workspace_bytes = sum_workspace_bytes(device, &base->launch[0].tile);
    if (base->workspace_bytes > p->workspace_bytes)
      base->workspace_bytes = p->workspace_bytes;
  }
  for (int i = 0; p->backward && is_product(p) && i < 2; ++i) {
    ap_launch *launch = &base->launch[base->count++];
    FORWARD_IF(find_kernel(p, device, passes[i], launch));
    const size_t bytes = sum_workspace_bytes(device, &launch->tile);
    if (p->dy != NULL && base->workspace_bytes < bytes)
      base->workspace_bytes = bytes;
  }
  if (p->backward ? p->dy == NULL : !p->summed || p->workspace_bytes == 0)
    return ATTNPRESS_OK;
  return find_kernel(p, device, AP_OUTER_PASS_BWD_REDUCE, &base->launch[base->count++]);
}

attnpress_status ap_outer_plan_call(const ap_outer_problem *p, const ap_device *device,
                                    int32_t range, ap_outer_plan *plan) {
  plan->base.count = 0;
  plan->base.workspace_bytes = 0;
  plan->column_shift = plan->column_blocks = plan->row_blocks = 0;
  plan->pitch = plan->unit_rows = plan->unit_vectors = plan->width = plan->units = 0;
  plan->x_bytes = plan->lane_shift = 0;
  memset(plan->sum, 0, sizeof plan->sum);
  FORWARD_IF(ap_check_capability(device->capability));
  if (range == ATTNPRESS_UP_TO)
    return plan_range(p, device, plan);
  if (ap_outer_is_empty(p))
    return ATTNPRESS_OK;
  return p->backward ? plan_backward(p, device, plan) : plan_forward(p, device, plan);
}
