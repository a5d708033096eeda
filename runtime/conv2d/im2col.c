/* Convolutions by the copy engine: which have tensor maps, and their argument blocks. */
#include <string.h>

#include "conv2d/conv2d.h"
#include "cuda/tensor_map.h"
#include "core/numbers.h"

enum {
  VECTOR = 8,
  SLAB = AP_CONV2D_SLAB,
  STEP = 16,          /* of a slab: the depth of an instruction */
  LINE_MAX = 1 << 14, /* pixels of an image's lines, and lines */
  IMAGES_SPARE = 256, /* a copy may end behind the last image */
};

static int32_t gcd(int32_t a, int32_t b) {
  return b == 0 ? a : gcd(b, a % b);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/** Of all outputs of the forward pass, along the height (0) or the width (1). */
static attnpress_conv2d_line whole_line(const ap_conv2d_problem *p, int dimension) {
  const attnpress_conv2d_shape *s = &p->shape;
  return (attnpress_conv2d_line){.step = 1,
                                 .count = (int32_t)(dimension == 0 ? p->out_height : p->out_width),
                                 .in = -s->padding[dimension],
                                 .in_step = s->stride[dimension],
                                 .taps =
                                     (int32_t)(dimension == 0 ? s->filter_height : s->filter_width),
                                 .tap_move = s->dilation[dimension],
                                 .tap_step = 1};
}

/** Of the pixels h of dx for which (h + padding) % stride is `residue`. A tap r brings an h from
 * (h + padding - r dilation) / stride, where that is whole: taps from one that fits on, a period
 * apart. The last of them sees the first input, and is walked first. */
static attnpress_conv2d_line residue_line(const ap_conv2d_problem *p, int dimension,
                                          int32_t residue) {
  const attnpress_conv2d_shape *s = &p->shape;
  const int32_t stride = s->stride[dimension], dilation = s->dilation[dimension];
  const int32_t padding = s->padding[dimension], common = gcd(stride, dilation);
  const int32_t period = stride / common;
  const int32_t extent = (int32_t)(dimension == 0 ? s->height : s->width);
  const int32_t filter = (int32_t)(dimension == 0 ? s->filter_height : s->filter_width);
  attnpress_conv2d_line line = {.step = stride, .in_step = 1, .tap_move = dilation / common};
  line.first = ((residue - padding) % stride + stride) % stride;
  line.count = line.first < extent ? (extent - line.first - 1) / stride + 1 : 0;
  int32_t tap = 0;
  while (tap < period && (int64_t)tap * dilation % stride != residue)
    ++tap;
  if (tap == period || tap >= filter)
    return line;
  line.taps = (filter - tap - 1) / period + 1;
  line.tap = tap + (line.taps - 1) * period;
  line.tap_step = -period;
  line.in = (line.first + padding - line.tap * dilation) / stride;
  return line;
}

static int32_t classes_of(const ap_conv2d_problem *p, int32_t pass) {
  return pass == AP_CONV2D_PASS_DGRAD ? p->shape.stride[0] * p->shape.stride[1] : 1;
}

static void lines_of(const ap_conv2d_problem *p, int32_t pass, int32_t class,
                     attnpress_conv2d_line line[2]) {
  const int32_t across = p->shape.stride[1];
  for (int i = 0; i < 2; ++i)
    line[i] = pass == AP_CONV2D_PASS_DGRAD
                  ? residue_line(p, i, i == 0 ? class / across : class % across)
                  : whole_line(p, i);
}

/** Whether a class has products: else its outputs are zeros, or it has none. */
static int has_products(const attnpress_conv2d_line line[2]) {
  return line[0].taps > 0 && line[1].taps > 0 && line[0].count > 0 && line[1].count > 0;
}

/* ---- Pixels ---------------------------------------------------------------------------------- */

static int data_type_of(const ap_conv2d_problem *p) {
  return p->shape.dtype == ATTNPRESS_FP16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                          : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

/** x, as `line` sees it. */
static ap_pixels x_pixels(const ap_conv2d_problem *p, const attnpress_conv2d_line line[2],
                          int32_t pixels) {
  const attnpress_conv2d_shape *s = &p->shape;
  return (ap_pixels){.data = ATTNPRESS_DATA(p->x),
                     .data_type = data_type_of(p),
                     .extents = {s->batch, s->height, s->width, s->channels},
                     .strides = {p->x_stride[0], p->x_stride[1], p->x_stride[2]},
                     .begin = {line[0].in, line[1].in},
                     .count = {line[0].count, line[1].count},
                     .step = {line[0].in_step, line[1].in_step},
                     .pixels = pixels,
                     .channels = SLAB};
}

/** dout, or what ReLU lets through of it. */
static ap_pixels dout_pixels(const ap_conv2d_problem *p, const ap_conv2d_gradient *dout,
                             const attnpress_conv2d_line line[2], int32_t pixels) {
  return (ap_pixels){.data = ATTNPRESS_DATA(dout->data),
                     .data_type = data_type_of(p),
                     .extents = {p->shape.batch, p->out_height, p->out_width, p->shape.filters},
                     .strides = {dout->stride[0], dout->stride[1], dout->stride[2]},
                     .begin = {line[0].in, line[1].in},
                     .count = {line[0].count, line[1].count},
                     .step = {line[0].in_step, line[1].in_step},
                     .pixels = pixels,
                     .channels = SLAB};
}

/** dout as the products of wgrad walk over it. */
static void out_lines(const ap_conv2d_problem *p, attnpress_conv2d_line line[2]) {
  line[0] = (attnpress_conv2d_line){.count = (int32_t)p->out_height, .in_step = 1};
  line[1] = (attnpress_conv2d_line){.count = (int32_t)p->out_width, .in_step = 1};
}

static int line_fits(const attnpress_conv2d_line *line) {
  return (int64_t)(line->taps - 1) * line->tap_move <= AP_PIXELS_OFFSET_MAX;
}

static int class_fits(const ap_conv2d_problem *p, int32_t pass, int32_t class) {
  attnpress_conv2d_line line[2];
  lines_of(p, pass, class, line);
  if (!has_products(line))
    return 1;
  const ap_conv2d_gradient dout = {p->dout,
                                   {p->dout_stride[0], p->dout_stride[1], p->dout_stride[2]}};
  const ap_pixels pixels =
      pass == AP_CONV2D_PASS_DGRAD ? dout_pixels(p, &dout, line, SLAB) : x_pixels(p, line, SLAB);
  return line_fits(&line[0]) && line_fits(&line[1]) && ap_pixels_fit(&pixels);
}

int ap_conv2d_im2col_fits(const ap_conv2d_problem *p, int32_t pass) {
  const attnpress_conv2d_shape *s = &p->shape;
  if (s->batch < 1 || s->batch > INT32_MAX - IMAGES_SPARE || s->height > LINE_MAX ||
      s->width > LINE_MAX || classes_of(p, pass) > ATTNPRESS_CONV2D_CLASSES_MAX)
    return 0;
  for (int32_t class = 0; class < classes_of(p, pass); ++class)
    if (!class_fits(p, pass, class))
      return 0;
  if (pass != AP_CONV2D_PASS_WGRAD)
    return 1;
  attnpress_conv2d_line line[2];
  out_lines(p, line);
  const ap_conv2d_gradient dout = {p->dout,
                                   {p->dout_stride[0], p->dout_stride[1], p->dout_stride[2]}};
  const ap_pixels pixels = dout_pixels(p, &dout, line, SLAB);
  return ap_pixels_fit(&pixels);
}

/* ---- Argument blocks ------------------------------------------------------------------------- */

/** (filters, filter_height, filter_width, channels), of which a copy takes one tap. */
static ap_view weight_view(const ap_conv2d_problem *p, int32_t filters, int32_t channels) {
  const attnpress_conv2d_shape *s = &p->shape;
  ap_view v = ap_view_begin(ATTNPRESS_DATA(p->weight), data_type_of(p), s->channels, channels);
  ap_view_add(&v, s->filter_width, s->channels, 1);
  ap_view_add(&v, s->filter_height, s->filter_width * s->channels, 1);
  ap_view_add(&v, s->filters, s->filter_height * s->filter_width * s->channels, filters);
  return v;
}

static void copy_vectors(const int64_t stride[3], int32_t vectors[3]) {
  for (int i = 0; i < 3; ++i) /* that of an extent of 1 is not used: it may be any */
    vectors[i] = (int32_t)(stride[i] / VECTOR > INT32_MAX ? 0 : stride[i] / VECTOR);
}

attnpress_status ap_conv2d_fill_im2col(ap_maps *maps, const ap_conv2d_problem *p,
                                       const ap_conv2d_gradient *dout, const ap_conv2d_plan *plan,
                                       const ap_launch *launch, attnpress_conv2d_im2col_args *a) {
  const attnpress_conv2d_shape *s = &p->shape;
  const int32_t pass = launch->variant.axis[AP_CONV2D_PASS], *field = launch->tile.field;
  const int dgrad = pass == AP_CONV2D_PASS_DGRAD;
  const int32_t classes = classes_of(p, pass), block_m = field[AP_CONV2D_TILE_BLOCK_M];
  memset(a, 0, sizeof *a);
  a->bias = dgrad ? NULL : p->bias;
  a->out = dgrad ? p->dx : p->out;
  copy_vectors(dgrad ? p->dx_stride : p->out_stride, a->out_stride);
  a->batch = (int32_t)s->batch;
  a->out_columns = (int32_t)(dgrad ? s->channels : s->filters);
  const int32_t depth = (int32_t)(dgrad ? s->filters : s->channels);
  a->tap_slabs = (int32_t)ceil_div(depth, SLAB);
  a->tail_steps = (int32_t)ceil_div(depth - (a->tap_slabs - 1) * SLAB, STEP);
  a->row_blocks = plan->row_blocks[pass];
  a->column_blocks = plan->column_blocks[pass];
  a->tiles = classes * a->row_blocks * a->column_blocks;
  a->splits = launch->num_splits;
  a->relu = dgrad ? 0 : s->relu;
  /* What a tap's last slab brings, and the last column block: no more than is there. */
  const int32_t line = a->tail_steps > 2 ? SLAB : a->tail_steps * STEP;
  const int32_t block_n = field[AP_CONV2D_TILE_BLOCK_N];
  const int32_t last = a->out_columns - (a->column_blocks - 1) * block_n;
  a->has_tail = a->tail_steps < (dgrad ? SLAB / STEP : SLAB / STEP - 1);
  a->has_last = last < block_n;
  const int32_t columns[2] = {block_n, dgrad ? (int32_t)ceil_div(last, SLAB) * SLAB : last};
  for (int i = 0; i < 2; ++i) {
    a->slab_bytes[i][0] = (block_m + columns[i]) * SLAB * 2;
    a->slab_bytes[i][1] = (block_m * line + columns[i] * (dgrad ? a->tail_steps * STEP : line)) * 2;
  }
  for (int32_t class = 0; class < classes; ++class) {
    lines_of(p, pass, class, a->line[class]);
    if (!has_products(a->line[class])) {
      a->line[class][0].taps = 0;
      continue;
    }
    ap_pixels pixels = dgrad ? dout_pixels(p, dout, a->line[class], block_m)
                             : x_pixels(p, a->line[class], block_m);
    FORWARD_IF(ap_pixels_encode(maps, &pixels, dgrad ? "dout" : "x", &a->in[class][0]));
    pixels.channels = line;
    if (a->has_tail)
      FORWARD_IF(ap_pixels_encode(maps, &pixels, dgrad ? "dout" : "x", &a->in[class][1]));
  }
  for (int i = 0; i <= (dgrad ? 0 : a->has_last); ++i)
    for (int tail = 0; tail <= a->has_tail; ++tail) {
      const ap_view weight = dgrad ? weight_view(p, tail ? a->tail_steps * STEP : SLAB, SLAB)
                                   : weight_view(p, columns[i], tail ? line : SLAB);
      FORWARD_IF(ap_view_encode(maps, &weight, "weight", &a->weight[i][tail]));
    }
  return ATTNPRESS_OK;
}

attnpress_status ap_conv2d_fill_im2col_wgrad(ap_maps *maps, const ap_conv2d_problem *p,
                                             const ap_conv2d_gradient *dout, float *parts,
                                             const ap_conv2d_plan *plan,
                                             attnpress_conv2d_im2col_wgrad_args *a) {
  const attnpress_conv2d_shape *s = &p->shape;
  const int32_t pass = AP_CONV2D_PASS_WGRAD;
  const int32_t width = ap_conv2d_panel(s->channels), row_width = ap_conv2d_panel(s->filters);
  const int32_t tap_panels = (int32_t)ceil_div(s->channels, width);
  *a = (attnpress_conv2d_im2col_wgrad_args){
      .dweight = p->dweight,
      .parts = parts,
      .filters = (int32_t)s->filters,
      .columns = (int32_t)(s->filter_height * s->filter_width * s->channels),
      .channels = (int32_t)s->channels,
      .width = {row_width, width},
      .panels = {(int32_t)ceil_div(s->filters, row_width),
                 (int32_t)(s->filter_height * s->filter_width * tap_panels)},
      .tap_panels = tap_panels,
      .filter_width = (int32_t)s->filter_width,
      .out_height = (int32_t)p->out_height,
      .out_width = (int32_t)p->out_width,
      .row_blocks = plan->row_blocks[pass],
      .column_blocks = plan->column_blocks[pass],
      .split_slabs = plan->split_pixels / SLAB,
      .slabs = (int32_t)ceil_div(s->batch * p->out_height * p->out_width, SLAB)};
  attnpress_conv2d_line line[2];
  for (int i = 0; i < 2; ++i) {
    a->stride[i] = s->stride[i];
    a->padding[i] = s->padding[i];
    a->dilation[i] = s->dilation[i];
    line[i] = whole_line(p, i);
  }
  ap_pixels x = x_pixels(p, line, SLAB);
  x.channels = width;
  FORWARD_IF(ap_pixels_encode(maps, &x, "x", &a->x));
  out_lines(p, line);
  ap_pixels gradient = dout_pixels(p, dout, line, SLAB);
  gradient.channels = row_width;
  return ap_pixels_encode(maps, &gradient, "dout", &a->dout);
}
