/* Decides how a convolution is run: the kernels, their blocks and grids, and how the pixels are
 * split for dweight. Pure: it depends on shapes and the device's numbers, and touches nothing. */
#include "conv2d/conv2d.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "press/target.h"
#include "core/numbers.h"

enum {
  OVERLAP_CAPABILITY_MIN = 90,
  IM2COL_CAPABILITY = 90,
  WORKSPACE_ALIGNMENT = 256,
  DOUT_COLUMNS = 64,   /* of a thread block */
  DOUT_PIXELS = 512,   /* likewise, at the least */
  DOUT_WAVES = 16,     /* of thread blocks, at the most */
  REDUCE_ELEMENTS = 4, /* of a thread */
  REDUCE_GROUP_SHIFT_MAX = 3,
  WAVES_MAX = 6,       /* of splits that are considered */
  SPLIT_SLABS_MIN = 4, /* of a split, where there are several */
  SHARE_MAX = 8,       /* thread blocks that share a tile, at most; and its rows, or columns */
  SHARE_BLOCK_MAX = 128,
};

/* Microseconds that blocks take for a slab of 64: one of several that share an SM, each, and one
 * that has an SM to itself. */
typedef struct slab_time {
  double shared, alone;
} slab_time;
enum { PIXEL_ROWS, WEIGHT_ROWS, PRODUCTS }; /* fprop and dgrad; wgrad */
typedef struct block_kind {
  int32_t copies, block, rows, columns, resident; /* resident: blocks that an SM has room for */
  slab_time time[PRODUCTS];
} block_kind;
/* Fitted to 540 convolutions on an H200, ResNet-50's layers among them. */
static const block_kind blocks[] = {
    {AP_CONV2D_COPIES_GATHER, AP_CONV2D_BLOCK_M128N128, 128, 128, 2, {{.60, .60}, {.87, .87}}},
    {AP_CONV2D_COPIES_GATHER, AP_CONV2D_BLOCK_M128N64, 128, 64, 3, {{.35, .35}, {.53, .53}}},
    {AP_CONV2D_COPIES_GATHER, AP_CONV2D_BLOCK_M64N128, 64, 128, 3, {{.35, .35}, {.53, .53}}},
    {AP_CONV2D_COPIES_GATHER, AP_CONV2D_BLOCK_M64N64, 64, 64, 3, {{.22, .24}, {.33, .43}}},
    {AP_CONV2D_COPIES_IM2COL, AP_CONV2D_BLOCK_M256N128, 256, 128, 1, {{.60, .60}, {.53, .53}}},
    {AP_CONV2D_COPIES_IM2COL, AP_CONV2D_BLOCK_M128N256, 128, 256, 1, {{.55, .55}, {.65, .65}}},
    {AP_CONV2D_COPIES_IM2COL, AP_CONV2D_BLOCK_M192N128, 192, 128, 1, {{.447, .447}, {.463, .463}}},
    {AP_CONV2D_COPIES_IM2COL, AP_CONV2D_BLOCK_M128N192, 128, 192, 1, {{.455, .455}, {.467, .467}}},
    {AP_CONV2D_COPIES_IM2COL, AP_CONV2D_BLOCK_M256N64, 256, 64, 1, {{.40, .40}, {.28, .28}}},
    {AP_CONV2D_COPIES_IM2COL, AP_CONV2D_BLOCK_M64N256, 64, 256, 1, {{.31, .31}, {.40, .40}}},
    {AP_CONV2D_COPIES_IM2COL, AP_CONV2D_BLOCK_M128N128, 128, 128, 2, {{.36, .36}, {.325, .58}}},
    {AP_CONV2D_COPIES_IM2COL, AP_CONV2D_BLOCK_M128N64, 128, 64, 3, {{.29, .29}, {.27, .27}}},
    {AP_CONV2D_COPIES_IM2COL, AP_CONV2D_BLOCK_M64N128, 64, 128, 3, {{.24, .24}, {.28, .28}}},
    {AP_CONV2D_COPIES_IM2COL, AP_CONV2D_BLOCK_M64N64, 64, 64, 3, {{.138, .150}, {.132, .178}}}};
enum { BLOCKS = sizeof blocks / sizeof *blocks };
/* Of a tile beside its slabs, by copies and pass (fprop, dgrad, wgrad), with a part of
 * 1 / TILE_ELEMENTS for each element. */
static const double TILE_US[2][3] = {
    [AP_CONV2D_COPIES_GATHER] = {.80, 1.5, .22}, [AP_CONV2D_COPIES_IM2COL] = {.60, .52, .60}};
static const double TILE_ELEMENTS = 128 * 128;
/* What a tap's last slab takes of a whole one's time, by its instructions; three of them read lines
 * of 64 elements, which end behind the last channel. What a slab takes less where columns are not
 * there, and not copied: a part of their share of its lines. */
static const double TAIL_PART[] = {1.0, .60, .76, 1.2}, MISSING_PART = .3;
/* What a line that the copy engine brings takes more where it ends behind the last channel, with an
 * even number of vectors of 16 bytes or an odd one; and one of wgrad's that has 32 elements. */
static const double TAIL_US[PRODUCTS] = {1.2e-3, .7e-3}, ODD_TAIL_US[PRODUCTS] = {1.3e-3, 2.4e-3};
static const double NARROW_US = .12e-3;
/* Of a launch; of a tile that thread blocks share, and for each time that their number doubles; of
 * the launch that adds up parts; and bytes of memory in a microsecond. */
static const double LAUNCH_US = 1.8, SHARE_US = 1.67, SHARE_DOUBLE_US = .22, REDUCE_US = 1.2,
                    BYTES_PER_US = 4e6;

static attnpress_status find_kernel(const ap_conv2d_problem *p, const ap_device *device,
                                    int32_t pass, int32_t copies, int32_t block,
                                    ap_launch *launch) {
  ap_variant *v = &launch->variant;
  *launch = (ap_launch){.variant.family = AP_FAMILY_CONV2D, .num_splits = 1};
  v->axis[AP_CONV2D_PASS] = pass;
  v->axis[AP_CONV2D_COPIES] = copies;
  v->axis[AP_CONV2D_BLOCK] = block;
  v->axis[AP_CONV2D_DTYPE] = p->shape.dtype;
  /* Every kernel of the family waits by itself for what ran before. */
  launch->overlaps = device->capability >= OVERLAP_CAPABILITY_MIN;
  ap_choose_arch(device, launch);
  return ap_find_launch_tile(launch);
}

/** A grid of so many blocks, one dimension after the other. */
static attnpress_status set_grid(int64_t outer, int64_t middle, int64_t inner, ap_launch *launch) {
  int64_t count;
  RETURN_IF(__builtin_mul_overflow(outer, middle, &count) ||
                __builtin_mul_overflow(count, inner, &count) || count > INT32_MAX,
            ATTNPRESS_NOT_SUPPORTED,
            "the convolution takes %" PRId64 " x %" PRId64 " x %" PRId64
            " thread blocks, more than a launch has",
            outer, middle, inner);
  launch->grid = (uint32_t)count;
  return ATTNPRESS_OK;
}

/** Makes room in the workspace; *offset: where. */
static attnpress_status reserve(ap_conv2d_plan *plan, int64_t count, int64_t bytes,
                                size_t *offset) {
  int64_t size;
  RETURN_IF(__builtin_mul_overflow(count, bytes, &size) || size > INT64_MAX / 4,
            ATTNPRESS_NOT_SUPPORTED, "the workspace would be over 2^61 bytes");
  *offset = plan->base.workspace_bytes;
  plan->base.workspace_bytes +=
      ((size_t)size + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
  return ATTNPRESS_OK;
}

/* ---- Products -------------------------------------------------------------------------------- */

/** SMs that thread blocks of clusters of `splits` find room on: those of a cluster are neighbours,
 * and some are left over. */
static int64_t sms_of(const ap_device *device, int32_t splits) {
  return device->sm_count - (splits > 2 ? device->sm_count / 12 : 0);
}

/** Microseconds that `count` tiles of `slabs` slabs take: as many rounds as SMs are filled, and a
 * last one of fewer blocks an SM. zeros_us: what the copies of a slab take more. splits: blocks of
 * a cluster; they are not spread evenly, and some SMs get one more. */
static double time_of(const block_kind *kind, int32_t pass, int64_t count, double slabs,
                      double zeros_us, int32_t splits, const ap_device *device) {
  const int is_wgrad = pass == AP_CONV2D_PASS_WGRAD, is_dgrad = pass == AP_CONV2D_PASS_DGRAD;
  const slab_time *time = &kind->time[is_wgrad ? WEIGHT_ROWS : PIXEL_ROWS];
  const double tile_us = TILE_US[kind->copies][is_wgrad ? 2 : is_dgrad];
  const double tile_part = (double)(kind->rows * kind->columns) / TILE_ELEMENTS;
  const int64_t sms = sms_of(device, splits), places = sms * kind->resident;
  int64_t last = ceil_div(count % places, sms);
  if (splits > 1 && count > sms && last > 0 && last < kind->resident)
    ++last;
  double us = 0.0;
  for (int is_last = 0; is_last < 2; ++is_last) {
    const double shares = (double)(is_last ? last : kind->resident);
    const double shared = shares * (time->shared + zeros_us), alone = time->alone + zeros_us;
    const double slab = shared > alone ? shared : alone;
    const double rounds = (double)(is_last ? last > 0 : count / places);
    us += rounds * (slabs * slab + tile_us * (1.0 + shares * tile_part));
  }
  return us;
}

/** Near the larger of what products and what memory takes; where they are equal, 19% above them. */
static double with_memory(double us, double elements) {
  const double memory_us = 2.0 * elements / BYTES_PER_US;
  return sqrt(sqrt(us * us * us * us + memory_us * memory_us * memory_us * memory_us));
}

/** Pixels of x that lie under some tap. */
static int64_t pixels_read(const ap_conv2d_problem *p) {
  const attnpress_conv2d_shape *s = &p->shape;
  const int64_t lines = p->out_height * s->filter_height, columns = p->out_width * s->filter_width;
  return s->batch * (lines < s->height ? lines : s->height) *
         (columns < s->width ? columns : s->width);
}

/** What `lines` lines with the last of `channels` channels take more, of lines of `width`. */
static double tail_us(int product, int64_t channels, int32_t width, double lines) {
  if (channels % width == 0)
    return 0.0;
  return lines * (channels % 16 == 0 ? TAIL_US : ODD_TAIL_US)[product];
}

/** What the copies of a slab take more for lines that are zeros in part, or narrow: in the mean. */
static double zeros_of(const ap_conv2d_problem *p, const block_kind *kind, int32_t pass,
                       int64_t rows, int64_t columns) {
  const int64_t channels = p->shape.channels, filters = p->shape.filters;
  const int32_t slab = AP_CONV2D_SLAB, step = 16;
  const double row_blocks = (double)ceil_div(rows, kind->rows);
  const double column_blocks = (double)ceil_div(columns, kind->columns);
  if (kind->copies != AP_CONV2D_COPIES_IM2COL || rows == 0)
    return 0.0;
  if (pass == AP_CONV2D_PASS_FPROP)
    return tail_us(PIXEL_ROWS, channels, step,
                   (kind->rows + kind->columns) / (double)ceil_div(channels, slab));
  if (pass == AP_CONV2D_PASS_DGRAD)
    return tail_us(PIXEL_ROWS, filters, step, kind->rows / (double)ceil_div(filters, slab)) +
           tail_us(PIXEL_ROWS, channels, slab, slab / column_blocks);
  const int32_t row_width = ap_conv2d_panel(filters), width = ap_conv2d_panel(channels);
  const int64_t row_panels = ceil_div(filters, row_width), panels = columns / width;
  const double block_panels =
      (double)(panels < kind->columns / width ? panels : kind->columns / width);
  const double narrow_panels = (row_width < slab ? (double)row_panels / row_blocks : 0.0) +
                               (width < slab ? block_panels : 0.0);
  return tail_us(WEIGHT_ROWS, filters, row_width, slab / row_blocks) +
         tail_us(WEIGHT_ROWS, channels, width,
                 slab * block_panels / (double)ceil_div(channels, width)) +
         NARROW_US * slab * narrow_panels;
}

/** Of a slab of fprop or dgrad in the mean, beside a whole one: what its time is. */
static double part_of(const block_kind *kind, int32_t pass, int64_t columns, int64_t depth) {
  const int32_t slab = AP_CONV2D_SLAB;
  const double tap_slabs = (double)ceil_div(depth, slab);
  const int64_t copied = pass == AP_CONV2D_PASS_DGRAD ? ceil_div(columns, slab) * slab : columns;
  const double missing = kind->columns - (double)copied / (double)ceil_div(columns, kind->columns);
  return (1.0 - (1.0 - TAIL_PART[ceil_div(depth, 16) % 4]) / tap_slabs) *
         (1.0 - MISSING_PART * missing / (kind->rows + kind->columns));
}

static int64_t tiles_of(const block_kind *kind, int64_t rows, int64_t columns) {
  return ceil_div(rows, kind->rows) * ceil_div(columns, kind->columns);
}

/** The copies of the kernels that may serve a pass, of one call or of a range: a set of bits. Where
 * slabs have zeros, those by threads may be faster. */
static int32_t copies_of(const ap_conv2d_problem *p, const ap_device *device, int32_t pass,
                         int32_t range) {
  const int has_engine = device->capability == IM2COL_CAPABILITY && device->tma &&
                         (device->arch_max == 0 || device->arch_max >= IM2COL_CAPABILITY);
  const int64_t depth = pass == AP_CONV2D_PASS_DGRAD ? p->shape.filters : p->shape.channels;
  const int32_t gather = 1 << AP_CONV2D_COPIES_GATHER, im2col = 1 << AP_CONV2D_COPIES_IM2COL;
  if (p->choice.copies == ATTNPRESS_CONV2D_GATHER || !has_engine)
    return gather;
  if (range == ATTNPRESS_UP_TO)
    return im2col;
  if (!ap_conv2d_im2col_fits(p, pass))
    return gather;
  return depth % AP_CONV2D_SLAB == 0 || p->choice.copies == ATTNPRESS_CONV2D_IM2COL
             ? im2col
             : gather | im2col;
}

/** Whether a kernel may be chosen. */
static int may_be(const ap_conv2d_problem *p, int32_t copies, const block_kind *kind) {
  const attnpress_conv2d_choice *c = &p->choice;
  return (copies >> kind->copies & 1) != 0 &&
         (c->block_rows == 0 || (c->block_rows == kind->rows && c->block_columns == kind->columns));
}

static attnpress_status refuse_block(const ap_conv2d_problem *p, int32_t copies) {
  char names[256] = "";
  size_t length = 0;
  for (int i = 0; i < BLOCKS; ++i)
    if (copies >> blocks[i].copies & 1)
      length += (size_t)snprintf(names + length, sizeof names - length, "%s%d x %d",
                                 length ? ", " : "", (int)blocks[i].rows, (int)blocks[i].columns);
  return ap_fail(ATTNPRESS_NOT_SUPPORTED,
                 "choice names blocks of %d x %d; kernels that %s have "
                 "%s",
                 (int)p->choice.block_rows, (int)p->choice.block_columns,
                 copies >> AP_CONV2D_COPIES_IM2COL & 1 ? "the copy engine serves" : "gather",
                 names);
}

/** Thread blocks that share a tile, at most, of those of a kind. */
static int32_t splits_max_of(const ap_conv2d_problem *p, const block_kind *kind, double slabs) {
  int32_t most = SHARE_MAX;
  if (kind->copies != AP_CONV2D_COPIES_IM2COL || kind->rows > SHARE_BLOCK_MAX ||
      kind->columns > SHARE_BLOCK_MAX)
    return 1;
  while (most > 1 && (double)most > slabs)
    most /= 2;
  while (most > 1 && p->choice.splits > 0 && most > p->choice.splits)
    most /= 2;
  return most;
}

/** fprop, and dgrad: `classes` products of at most `rows` rows each, of `depth` elements of a tap.
 * Of these some have taps, `taps` in the mean, and the others none. elements: in memory. */
static attnpress_status plan_gather(const ap_conv2d_problem *p, const ap_device *device,
                                    int32_t pass, int64_t rows, int64_t columns, int64_t classes,
                                    int64_t classes_with_taps, int64_t depth, double elements,
                                    ap_conv2d_plan *plan) {
  ap_launch *launch = &plan->base.launch[plan->base.count++];
  const int32_t copies = copies_of(p, device, pass, ATTNPRESS_ONE_CALL);
  const double taps =
      (double)(p->shape.filter_height * p->shape.filter_width) / (double)classes_with_taps;
  int best = -1;
  int32_t splits = 1;
  double least = 0.0;
  for (int i = 0; i < BLOCKS; ++i) {
    if (!may_be(p, copies, &blocks[i]))
      continue;
    const block_kind *kind = &blocks[i];
    const int is_im2col = kind->copies == AP_CONV2D_COPIES_IM2COL;
    const int64_t tiles = tiles_of(kind, rows, columns), count = classes_with_taps * tiles;
    const double tap_slabs = (double)ceil_div(depth, AP_CONV2D_SLAB);
    const double slabs = taps * (is_im2col ? tap_slabs : (double)depth / AP_CONV2D_SLAB);
    const double part = is_im2col ? part_of(kind, pass, columns, depth) : 1.0;
    const double zeros_us = zeros_of(p, kind, pass, rows, columns);
    const double stores_us =
        time_of(kind, pass, (classes - classes_with_taps) * tiles, 0.0, 0.0, 1, device);
    const int32_t most = splits_max_of(p, kind, slabs);
    for (int32_t n = p->choice.splits > 0 ? most : 1; n <= most; n *= 2) {
      if (n > 1 && p->choice.splits == 0 && count * n > (int64_t)device->sm_count * kind->resident)
        break;
      const double product_us = time_of(
          kind, pass, count * n, is_im2col ? ceil(slabs / n) * part : slabs, zeros_us, n, device);
      const double us = LAUNCH_US + with_memory(product_us + stores_us, elements) +
                        (n > 1 ? SHARE_US + SHARE_DOUBLE_US * log2(n) : 0.0);
      if (best >= 0 && us >= least)
        continue;
      best = i;
      splits = n;
      least = us;
    }
  }
  if (best < 0)
    return refuse_block(p, copies);
  FORWARD_IF(find_kernel(p, device, pass, blocks[best].copies, blocks[best].block, launch));
  plan->row_blocks[pass] = (int32_t)ceil_div(rows, blocks[best].rows);
  plan->column_blocks[pass] = (int32_t)ceil_div(columns, blocks[best].columns);
  launch->num_splits = splits;
  launch->cluster = splits > 1 ? (uint32_t)splits : 0;
  FORWARD_IF(set_grid(classes * splits, plan->row_blocks[pass], plan->column_blocks[pass], launch));
  /* Blocks that stay on their SMs walk over the tiles. */
  const uint32_t most =
      (uint32_t)(device->sm_count * launch->tile.field[AP_CONV2D_TILE_MIN_BLOCKS]);
  if (blocks[best].copies == AP_CONV2D_COPIES_IM2COL && splits == 1 && launch->grid > most)
    launch->grid = most;
  return ATTNPRESS_OK;
}

/** Elements of dout (or out) and of so many pixels of x (or dx). */
static double elements_of(const ap_conv2d_problem *p, int64_t pixels) {
  const attnpress_conv2d_shape *s = &p->shape;
  return (double)(s->batch * p->out_height * p->out_width) * (double)s->filters +
         (double)pixels * (double)s->channels;
}

static attnpress_status plan_fprop(const ap_conv2d_problem *p, const ap_device *device,
                                   ap_conv2d_plan *plan) {
  const attnpress_conv2d_shape *s = &p->shape;
  return plan_gather(p, device, AP_CONV2D_PASS_FPROP, s->batch * p->out_height * p->out_width,
                     s->filters, 1, 1, s->channels, elements_of(p, pixels_read(p)), plan);
}

/** Residues of a line's pixels modulo the stride that taps meet. */
static int64_t residues_of(int64_t stride, int64_t dilation, int64_t taps) {
  int64_t divisor = stride, rest = dilation;
  while (rest != 0) {
    const int64_t next = divisor % rest;
    divisor = rest;
    rest = next;
  }
  return stride / divisor < taps ? stride / divisor : taps;
}

static attnpress_status plan_dgrad(const ap_conv2d_problem *p, const ap_device *device,
                                   ap_conv2d_plan *plan) {
  const attnpress_conv2d_shape *s = &p->shape;
  const int64_t with_taps = residues_of(s->stride[0], s->dilation[0], s->filter_height) *
                            residues_of(s->stride[1], s->dilation[1], s->filter_width);
  return plan_gather(p, device, AP_CONV2D_PASS_DGRAD,
                     s->batch * ceil_div(s->height, s->stride[0]) *
                         ceil_div(s->width, s->stride[1]),
                     s->channels, (int64_t)s->stride[0] * s->stride[1], with_taps, s->filters,
                     elements_of(p, s->batch * s->height * s->width), plan);
}

/* ---- Sums of parts --------------------------------------------------------------------------- */

static attnpress_status plan_reduce(const ap_conv2d_problem *p, const ap_device *device, int bias,
                                    int64_t count, int64_t elements, ap_conv2d_plan *plan) {
  const int index = plan->base.count++;
  ap_launch *launch = &plan->base.launch[index];
  FORWARD_IF(find_kernel(p, device, AP_CONV2D_PASS_REDUCE, AP_CONV2D_COPIES_GATHER,
                         AP_CONV2D_BLOCK_NONE, launch));
  int32_t shift = 0;
  while (shift < REDUCE_GROUP_SHIFT_MAX && 1 << (shift + 1) <= count)
    ++shift;
  plan->group_shift[bias] = shift;
  plan->reduces[index] = bias;
  return set_grid(1, 1, ceil_div(elements, (launch->tile.threads >> shift) * REDUCE_ELEMENTS),
                  launch);
}

/** Microseconds of dweight in `splits` splits of `count` tiles each. weights: in all; elements: read,
 * of x and dout. */
static double time_of_splits(const block_kind *kind, int64_t splits, int64_t count, double weights,
                             int64_t slabs, double zeros_us, double elements,
                             const ap_device *device) {
  const double us = time_of(kind, AP_CONV2D_PASS_WGRAD, splits * count,
                            (double)ceil_div(slabs, splits), zeros_us, 1, device);
  const double parts_bytes = 2.0 * sizeof(float) * (double)splits * weights;
  return LAUNCH_US + with_memory(us, elements) +
         (splits > 1 ? REDUCE_US + parts_bytes / BYTES_PER_US : 0.0);
}

/** A split count for blocks of a kind: of those that fill the device a few times, the one that
 * takes the least; *least: how long. */
static int64_t splits_of(const block_kind *kind, int64_t count, double weights, int64_t slabs,
                         double zeros_us, double elements, const ap_device *device, double *least) {
  const int64_t most = slabs / SPLIT_SLABS_MIN > 1 ? slabs / SPLIT_SLABS_MIN : 1;
  int64_t best = 1;
  *least = time_of_splits(kind, 1, count, weights, slabs, zeros_us, elements, device);
  for (int waves = 1; waves <= WAVES_MAX; ++waves) {
    int64_t splits = waves * device->sm_count / count;
    splits = splits < most ? splits : most;
    if (splits < 2)
      continue;
    splits = ceil_div(slabs, ceil_div(slabs, splits)); /* none is empty */
    const double us =
        time_of_splits(kind, splits, count, weights, slabs, zeros_us, elements, device);
    if (us < *least) {
      *least = us;
      best = splits;
    }
  }
  return best;
}

static attnpress_status plan_wgrad(const ap_conv2d_problem *p, const ap_device *device,
                                   ap_conv2d_plan *plan) {
  const attnpress_conv2d_shape *s = &p->shape;
  const int32_t pass = AP_CONV2D_PASS_WGRAD;
  const int64_t taps = s->filter_height * s->filter_width, columns = taps * s->channels;
  const int32_t panel = ap_conv2d_panel(s->channels);
  const int64_t padded = taps * ceil_div(s->channels, panel) * panel;
  const int64_t pixels = s->batch * p->out_height * p->out_width;
  const int64_t slabs = ceil_div(pixels, AP_CONV2D_SLAB);
  const int32_t copies = copies_of(p, device, pass, ATTNPRESS_ONE_CALL);
  int best = -1;
  int64_t splits = 1;
  double least = 0.0;
  for (int i = 0; i < BLOCKS; ++i) {
    if (!may_be(p, copies, &blocks[i]))
      continue;
    const int64_t width = blocks[i].copies == AP_CONV2D_COPIES_IM2COL ? padded : columns;
    double us;
    int64_t found = splits_of(&blocks[i], tiles_of(&blocks[i], s->filters, width),
                              (double)s->filters * (double)columns, slabs,
                              zeros_of(p, &blocks[i], pass, s->filters, width),
                              elements_of(p, pixels_read(p)), device, &us);
    if (p->choice.splits > 0 && slabs > 0) {
      found = p->choice.splits < slabs ? p->choice.splits : slabs;
      found = ceil_div(slabs, ceil_div(slabs, found)); /* none is empty */
    }
    if (best >= 0 && us >= least)
      continue;
    best = i;
    splits = found;
    least = us;
  }
  if (best < 0)
    return refuse_block(p, copies);
  ap_launch *launch = &plan->base.launch[plan->base.count++];
  FORWARD_IF(find_kernel(p, device, pass, blocks[best].copies, blocks[best].block, launch));
  launch->num_splits = (int32_t)splits;
  plan->splits = (int32_t)splits;
  plan->split_pixels = (int32_t)(ceil_div(slabs, splits) * AP_CONV2D_SLAB);
  plan->row_blocks[pass] = (int32_t)ceil_div(s->filters, blocks[best].rows);
  plan->column_blocks[pass] = (int32_t)ceil_div(
      blocks[best].copies == AP_CONV2D_COPIES_IM2COL ? padded : columns, blocks[best].columns);
  FORWARD_IF(set_grid(splits, plan->row_blocks[pass], plan->column_blocks[pass], launch));
  if (splits == 1)
    return ATTNPRESS_OK;
  FORWARD_IF(
      reserve(plan, splits * s->filters, columns * (int64_t)sizeof(float), &plan->weight_parts));
  return plan_reduce(p, device, 0, splits, s->filters * columns, plan);
}

/* ---- dout ------------------------------------------------------------------------------------ */

static attnpress_status plan_dout(const ap_conv2d_problem *p, const ap_device *device,
                                  ap_conv2d_plan *plan) {
  const attnpress_conv2d_shape *s = &p->shape;
  const int64_t pixels = s->batch * p->out_height * p->out_width;
  const int32_t pass = AP_CONV2D_PASS_DOUT;
  ap_launch *launch = &plan->base.launch[plan->base.count++];
  FORWARD_IF(find_kernel(p, device, pass, AP_CONV2D_COPIES_GATHER, AP_CONV2D_BLOCK_NONE, launch));
  /* As many blocks as fill the device some times, each with pixels enough. */
  plan->column_blocks[pass] = (int32_t)ceil_div(s->filters, DOUT_COLUMNS);
  const int64_t rows = ceil_div(DOUT_WAVES * (int64_t)device->sm_count, plan->column_blocks[pass]);
  const int64_t block_pixels = ceil_div(pixels > 0 ? pixels : 1, rows);
  plan->block_pixels = (int32_t)(block_pixels > DOUT_PIXELS ? block_pixels : DOUT_PIXELS);
  plan->row_blocks[pass] = (int32_t)ceil_div(pixels > 0 ? pixels : 1, plan->block_pixels);
  FORWARD_IF(set_grid(1, plan->row_blocks[pass], plan->column_blocks[pass], launch));
  if (s->relu && (p->dx != NULL || p->dweight != NULL))
    FORWARD_IF(reserve(plan, pixels, s->filters * 2, &plan->masked));
  if (p->dbias == NULL)
    return ATTNPRESS_OK;
  FORWARD_IF(reserve(plan, plan->row_blocks[pass], s->filters * (int64_t)sizeof(float),
                     &plan->bias_parts));
  return plan_reduce(p, device, 1, plan->row_blocks[pass], s->filters, plan);
}

static attnpress_status plan_backward(const ap_conv2d_problem *p, const ap_device *device,
                                      ap_conv2d_plan *plan) {
  const int some = p->shape.batch > 0 && p->dx != NULL;
  if (p->dbias != NULL || (p->shape.relu && (some || p->dweight != NULL)))
    FORWARD_IF(plan_dout(p, device, plan));
  if (some)
    FORWARD_IF(plan_dgrad(p, device, plan));
  return p->dweight != NULL ? plan_wgrad(p, device, plan) : ATTNPRESS_OK;
}

/* ---- All ------------------------------------------------------------------------------------- */

/** Every kernel that a call of the range may launch. */
static attnpress_status plan_range(const ap_conv2d_problem *p, const ap_device *device,
                                   ap_conv2d_plan *plan) {
  const struct {
    int32_t pass, needed;
  } passes[] = {{AP_CONV2D_PASS_FPROP, !p->backward},
                {AP_CONV2D_PASS_DOUT, p->backward && (p->dbias != NULL || p->shape.relu)},
                {AP_CONV2D_PASS_DGRAD, p->backward && p->dx != NULL},
                {AP_CONV2D_PASS_WGRAD, p->backward && p->dweight != NULL},
                {AP_CONV2D_PASS_REDUCE, p->backward && (p->dbias != NULL || p->dweight != NULL)}};
  for (size_t i = 0; i < sizeof passes / sizeof *passes; ++i) {
    const int product =
        passes[i].pass != AP_CONV2D_PASS_DOUT && passes[i].pass != AP_CONV2D_PASS_REDUCE;
    const int32_t copies = copies_of(p, device, passes[i].pass, ATTNPRESS_UP_TO);
    for (int b = 0; passes[i].needed && b < (product ? BLOCKS : 1); ++b)
      if (!product || blocks[b].copies == AP_CONV2D_COPIES_GATHER ||
          (copies >> blocks[b].copies & 1))
        FORWARD_IF(find_kernel(p, device, passes[i].pass,
                               product ? blocks[b].copies : AP_CONV2D_COPIES_GATHER,
                               product ? blocks[b].block : AP_CONV2D_BLOCK_NONE,
                               &plan->base.launch[plan->base.count++]));
  }
  if (p->backward)
    plan->base.workspace_bytes = SIZE_MAX; /* no bound */
  return ATTNPRESS_OK;
}

attnpress_status ap_conv2d_plan_call(const ap_conv2d_problem *p, const ap_device *device,
                                     int32_t range, ap_conv2d_plan *plan) {
  plan->base.count = 0;
  plan->base.workspace_bytes = 0;
  plan->splits = 1;
  FORWARD_IF(ap_check_capability(device->capability));
  if (range == ATTNPRESS_UP_TO)
    return plan_range(p, device, plan);
  if (p->backward)
    return plan_backward(p, device, plan);
  return p->shape.batch > 0 ? plan_fprop(p, device, plan) : ATTNPRESS_OK;
}
