/* Runs convolution kernels under the emulator. */
#include "family_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/conv2d/reference.h"
#include "../../tools/rows.h"
#include "conv2d/conv2d.h"
#include "memory.h"
#include "core/numbers.h"

enum { TEXT_BYTES = 256, VECTOR = 8 };
enum { X, WEIGHT, BIAS, OUT, DOUT, DX, DWEIGHT, MASKED, PARTS, TENSORS };

typedef struct conv2d_row {
  int64_t batch, height, width, channels, filters, filter_height, filter_width;
  int32_t stride[2], padding[2], dilation[2];
  int64_t splits; /* of wgrad; parts of reduce; thread blocks that share a tile */
  int bias, relu;
  int gaps; /* between pixels, lines and images */
  int far;  /* images are more than 2^32 elements apart */
  int nan;  /* a pixel in the middle of x and dout is NaN */
} conv2d_row;

static int32_t pass_of(const kernel *k) {
  return k->variant.axis[AP_CONV2D_PASS];
}

static int is_im2col(const ap_variant *variant) {
  return variant->axis[AP_CONV2D_COPIES] == AP_CONV2D_COPIES_IM2COL;
}

static void read_tile(const char *source, const ap_variant *variant, ap_tile *tile) {
  const int32_t rows = source_constant(source, "BLOCK_M"),
                columns = source_constant(source, "BLOCK_N");
  *tile = (ap_tile){.threads = source_constant(source, "THREADS")};
  tile->field[AP_CONV2D_TILE_BLOCK_M] = rows;
  tile->field[AP_CONV2D_TILE_BLOCK_N] = columns;
  const int32_t stages = source_constant(source, "STAGES");
  tile->smem_bytes = stages * (rows + columns) * AP_CONV2D_SLAB * 2;
  tile->smem_bytes += is_im2col(variant) ? stages * 16 : rows * 16;
}

/* ---- A call ---------------------------------------------------------------------------------- */

typedef struct call {
  conv2d_case c;
  int32_t pass;
  int64_t splits, dout_blocks;
  unsigned cluster; /* thread blocks that share a tile; 0: none do */
  memory memory[TENSORS];
  char *data[TENSORS];
  int64_t shape[TENSORS][4], stride[TENSORS][4];
  unsigned grid;
  ap_conv2d_block block;
} call;

static int is_output(const call *c, int which) {
  switch (c->pass) {
  case AP_CONV2D_PASS_FPROP:
    return which == OUT;
  case AP_CONV2D_PASS_DGRAD:
    return which == DX;
  case AP_CONV2D_PASS_WGRAD:
    return which == (c->splits > 1 ? PARTS : DWEIGHT);
  case AP_CONV2D_PASS_DOUT:
    return which == MASKED || which == PARTS;
  default:
    return which == DWEIGHT;
  }
}

static int is_there(const call *c, const conv2d_row *s, int which) {
  switch (c->pass) {
  case AP_CONV2D_PASS_FPROP:
    return which == X || which == WEIGHT || which == OUT || (which == BIAS && s->bias);
  case AP_CONV2D_PASS_DGRAD:
    return which == DOUT || which == WEIGHT || which == DX;
  case AP_CONV2D_PASS_WGRAD:
    return which == DOUT || which == X || which == DWEIGHT || (which == PARTS && c->splits > 1);
  case AP_CONV2D_PASS_DOUT:
    return which == DOUT || which == PARTS || (s->relu && (which == OUT || which == MASKED));
  default:
    return which == PARTS || which == DWEIGHT;
  }
}

static int64_t bytes_of(int which) {
  return which == PARTS ? 4 : 2;
}

static void set_shape(call *c, int which, int64_t a, int64_t b, int64_t d, int64_t channels) {
  const int64_t shape[4] = {a, b, d, channels};
  const int64_t stride[4] = {b * d * channels, d * channels, channels, 1};
  memcpy(c->shape[which], shape, sizeof shape);
  memcpy(c->stride[which], stride, sizeof stride);
}

/* Images: with gaps, or far apart. */
static void set_images(call *c, const conv2d_row *s, int which, int64_t height, int64_t width,
                       int64_t channels) {
  int64_t *stride = c->stride[which];
  set_shape(c, which, s->batch, height, width, channels);
  if (s->gaps) {
    stride[2] = channels + VECTOR * (which % 3 + 1);
    stride[1] = width * stride[2] + VECTOR;
    stride[0] = height * stride[1] + 3 * VECTOR;
  }
  if (s->far)
    stride[0] = ((int64_t)1 << 32) + VECTOR * (which + 1);
}

static void lay_out(call *c, const conv2d_row *s) {
  const int64_t p = c->c.out_height, q = c->c.out_width;
  set_images(c, s, X, s->height, s->width, s->channels);
  set_images(c, s, DX, s->height, s->width, s->channels);
  set_images(c, s, OUT, p, q, s->filters);
  set_images(c, s, DOUT, p, q, s->filters);
  set_shape(c, MASKED, s->batch, p, q, s->filters);
  set_shape(c, WEIGHT, s->filters, s->filter_height, s->filter_width, s->channels);
  set_shape(c, DWEIGHT, s->filters, s->filter_height, s->filter_width, s->channels);
  set_shape(c, BIAS, 1, 1, 1, s->filters);
  if (c->pass == AP_CONV2D_PASS_DOUT)
    set_shape(c, PARTS, 1, 1, c->dout_blocks, s->filters);
  else
    set_shape(c, PARTS, c->splits, s->filters, s->filter_height * s->filter_width, s->channels);
  memcpy(c->c.x_stride, c->stride[X], sizeof c->c.x_stride);
  memcpy(c->c.dx_stride, c->stride[DX], sizeof c->c.dx_stride);
  memcpy(c->c.out_stride, c->stride[OUT], sizeof c->c.out_stride);
  memcpy(c->c.dout_stride, c->stride[DOUT], sizeof c->c.dout_stride);
}

/* Inputs are random, outputs NaN. Of what ReLU made, every fifth row has a 0 and a NaN. */
static void open_tensor(call *c, const conv2d_row *s, int which, uint64_t seed) {
  const int64_t *n = c->shape[which], *stride = c->stride[which], size = bytes_of(which);
  const int32_t dtype = which == PARTS ? ATTNPRESS_FP32 : c->c.shape.dtype;
  int64_t last = n[3];
  for (int d = 0; d < 3; ++d)
    last += (n[d] - 1) * stride[d];
  /* Shared by the processes that the blocks of a cluster are; of images far apart no more than what is
   * touched is there. */
  c->data[which] = s->far ? memory_map(&c->memory[which], (size_t)(last * size))
                          : memory_map_shared(&c->memory[which], (size_t)(last * size));
  for (int64_t row = 0; row < n[0] * n[1] * n[2]; ++row) {
    const int64_t at =
        row / n[2] / n[1] * stride[0] + row / n[2] % n[1] * stride[1] + row % n[2] * stride[2];
    char *data = c->data[which] + at * size;
    if (is_output(c, which))
      memset(data, 0xff, (size_t)(n[3] * size));
    else
      rows_fill(data, 1, n[3], n[3], dtype, 0.1, 1.0, seed + (uint64_t)(which + 100 * row));
    if (which == OUT && !is_output(c, which) && row % 5 == 0) {
      rows_store(data, 1, 0.0, dtype);
      rows_store(data, 2, NAN, dtype);
    }
    /* For dweight, dout is multiplied by the padding's zeros, too. */
    if (s->nan && (which == X || (which == DOUT && c->pass != AP_CONV2D_PASS_WGRAD)) &&
        row == n[0] * n[1] * n[2] / 2)
      rows_store(data, 3, NAN, dtype);
  }
}

/* ---- Launches -------------------------------------------------------------------------------- */

static CUresult no_words(CUresult result, const char **words) {
  (void)words;
  return result;
}

/* As the plan would, with the blocks of this kernel. */
static int plan_launch(call *c, const kernel *k, const conv2d_row *s, char *report) {
  const ap_driver driver = {.tensor_map_encode_tiled = emulated_encode_tiled,
                            .tensor_map_encode_im2col = emulated_encode_im2col,
                            .get_error_name = no_words,
                            .get_error_string = no_words};
  ap_maps maps = {.driver = &driver};
  const attnpress_conv2d_shape *shape = &c->c.shape;
  const int64_t rows = k->tile.field[AP_CONV2D_TILE_BLOCK_M];
  const int64_t columns = k->tile.field[AP_CONV2D_TILE_BLOCK_N];
  const int64_t pixels = conv2d_out_pixels(&c->c), weights = conv2d_taps(&c->c) * s->channels;
  ap_conv2d_problem p = {.backward = c->pass != AP_CONV2D_PASS_FPROP,
                         .shape = *shape,
                         .out_height = c->c.out_height,
                         .out_width = c->c.out_width,
                         .x = c->data[X],
                         .weight = c->data[WEIGHT],
                         .bias = c->data[BIAS],
                         .dout = c->data[DOUT],
                         .out = c->data[OUT],
                         .dx = c->data[DX],
                         .dweight = c->data[DWEIGHT]};
  static ap_conv2d_plan plan;
  memset(&plan, 0, sizeof plan);
  plan.base.launch[0].variant = k->variant;
  plan.base.launch[0].tile = k->tile;
  plan.splits = (int32_t)c->splits;
  memcpy(p.x_stride, c->c.x_stride, sizeof p.x_stride);
  memcpy(p.dx_stride, c->c.dx_stride, sizeof p.dx_stride);
  memcpy(p.out_stride, c->c.out_stride, sizeof p.out_stride);
  memcpy(p.dout_stride, c->c.dout_stride, sizeof p.dout_stride);
  char *workspace = c->data[PARTS];
  int64_t m = pixels, n = s->filters, copies = 1;
  if (c->pass == AP_CONV2D_PASS_DGRAD) {
    m = s->batch * ceil_div(s->height, s->stride[0]) * ceil_div(s->width, s->stride[1]);
    n = s->channels;
    copies = s->stride[0] * s->stride[1];
  } else if (c->pass == AP_CONV2D_PASS_WGRAD) {
    m = s->filters;
    n = is_im2col(&k->variant)
            ? s->filter_height * s->filter_width *
                  ceil_div(s->channels, ap_conv2d_panel(s->channels)) * ap_conv2d_panel(s->channels)
            : weights / s->filters;
    copies = c->splits;
    plan.split_pixels =
        (int32_t)(ceil_div(ceil_div(pixels, AP_CONV2D_SLAB), copies) * AP_CONV2D_SLAB);
  }
  if (c->pass == AP_CONV2D_PASS_DOUT) {
    plan.block_pixels = (int32_t)ceil_div(pixels, c->dout_blocks);
    plan.row_blocks[c->pass] = (int32_t)c->dout_blocks;
    plan.column_blocks[c->pass] = (int32_t)ceil_div(s->filters, 64);
    p.dbias = workspace; /* not NULL */
    if (s->relu) {
      p.dx = workspace; /* not NULL: what is masked is needed */
      workspace = c->data[MASKED];
      plan.bias_parts = (size_t)(c->data[PARTS] - c->data[MASKED]);
    }
    c->grid = (unsigned)(plan.row_blocks[c->pass] * plan.column_blocks[c->pass]);
  } else if (c->pass == AP_CONV2D_PASS_REDUCE) {
    while (plan.group_shift[0] < 3 && 2 << plan.group_shift[0] <= c->splits)
      ++plan.group_shift[0];
    c->grid = (unsigned)ceil_div(weights, (k->tile.threads >> plan.group_shift[0]) * 4);
  } else {
    plan.row_blocks[c->pass] = (int32_t)ceil_div(m, rows);
    plan.column_blocks[c->pass] = (int32_t)ceil_div(n, columns);
    c->grid = (unsigned)(copies * plan.row_blocks[c->pass] * plan.column_blocks[c->pass]);
  }
  if (c->cluster > 0)
    c->grid *= c->cluster;
  else if (is_im2col(&k->variant) && c->pass != AP_CONV2D_PASS_WGRAD && c->grid > 2)
    c->grid = (c->grid + 1) / 2; /* each block has several tiles */
  plan.base.launch[0].num_splits = (int32_t)(c->cluster > 0 ? c->cluster : c->splits);
  if (ap_conv2d_fill(&maps, &p, workspace, &plan, 0, &c->block) == ATTNPRESS_OK)
    return 0;
  snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
  return -1;
}

static int call_open(call *c, const kernel *k, const conv2d_row *s, uint64_t seed, char *report) {
  const int32_t pass = pass_of(k);
  *c = (call){.pass = pass,
              .splits =
                  pass == AP_CONV2D_PASS_WGRAD || pass == AP_CONV2D_PASS_REDUCE ? s->splits : 1,
              .dout_blocks = s->splits};
  if (is_im2col(&k->variant) && pass != AP_CONV2D_PASS_WGRAD && s->splits > 1 && !s->far &&
      k->tile.field[AP_CONV2D_TILE_BLOCK_M] <= 128 && k->tile.field[AP_CONV2D_TILE_BLOCK_N] <= 128)
    c->cluster = s->splits < 4 ? 2 : s->splits < 8 ? 4 : 8;
  c->c.shape = (attnpress_conv2d_shape){.batch = s->batch,
                                        .height = s->height,
                                        .width = s->width,
                                        .channels = s->channels,
                                        .filters = s->filters,
                                        .filter_height = s->filter_height,
                                        .filter_width = s->filter_width,
                                        .stride = {s->stride[0], s->stride[1]},
                                        .padding = {s->padding[0], s->padding[1]},
                                        .dilation = {s->dilation[0], s->dilation[1]},
                                        .dtype = k->variant.axis[AP_CONV2D_DTYPE]};
  if (pass == AP_CONV2D_PASS_FPROP || pass == AP_CONV2D_PASS_DOUT)
    c->c.shape.relu = s->relu; /* others are given what ReLU has let through */
  if (attnpress_conv2d_output(&c->c.shape, &c->c.out_height, &c->c.out_width) != ATTNPRESS_OK) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
    return -1;
  }
  lay_out(c, s);
  for (int i = 0; i < TENSORS; ++i)
    if (is_there(c, s, i))
      open_tensor(c, s, i, seed);
  c->c.x = c->data[X];
  c->c.weight = c->data[WEIGHT];
  c->c.bias = c->data[BIAS];
  c->c.out = c->data[OUT];
  c->c.dout = c->data[DOUT];
  c->c.dx = c->data[DX];
  c->c.dweight = c->data[DWEIGHT];
  return plan_launch(c, k, s, report);
}

static void call_close(call *c) {
  for (int i = 0; i < TENSORS; ++i)
    memory_unmap(&c->memory[i]);
}

static void call_gather(void (*function)(void), const void *args) {
  ((void (*)(attnpress_conv2d_gather_args))function)(*(const attnpress_conv2d_gather_args *)args);
}

static void call_wgrad(void (*function)(void), const void *args) {
  ((void (*)(attnpress_conv2d_wgrad_args))function)(*(const attnpress_conv2d_wgrad_args *)args);
}

static void call_im2col(void (*function)(void), const void *args) {
  ((void (*)(attnpress_conv2d_im2col_args))function)(*(const attnpress_conv2d_im2col_args *)args);
}

static void call_im2col_wgrad(void (*function)(void), const void *args) {
  ((void (*)(attnpress_conv2d_im2col_wgrad_args))function)(
      *(const attnpress_conv2d_im2col_wgrad_args *)args);
}

static void call_dout(void (*function)(void), const void *args) {
  ((void (*)(attnpress_conv2d_dout_args))function)(*(const attnpress_conv2d_dout_args *)args);
}

static void call_reduce(void (*function)(void), const void *args) {
  ((void (*)(attnpress_conv2d_reduce_args))function)(*(const attnpress_conv2d_reduce_args *)args);
}

static int launch(const kernel *k, const call *c, char *report) {
  static const char *const names[TENSORS] = {"x",  "weight",  "bias",   "out",  "dout",
                                             "dx", "dweight", "masked", "parts"};
  static void (*const calls[])(void (*)(void),
                               const void *) = {[AP_CONV2D_PASS_FPROP] = call_gather,
                                                [AP_CONV2D_PASS_DGRAD] = call_gather,
                                                [AP_CONV2D_PASS_WGRAD] = call_wgrad,
                                                [AP_CONV2D_PASS_DOUT] = call_dout,
                                                [AP_CONV2D_PASS_REDUCE] = call_reduce};
  const int wgrad = c->pass == AP_CONV2D_PASS_WGRAD;
  emulated_tensor tensors[TENSORS];
  emulated_launch l = {.module = k->module,
                       .overlaps = 1,
                       .blocks = c->grid,
                       .cluster = c->cluster,
                       .threads = (unsigned)k->tile.threads,
                       .shared_bytes = (size_t)k->tile.smem_bytes,
                       .args = &c->block,
                       .call = !is_im2col(&k->variant) ? calls[c->pass]
                               : wgrad                 ? call_im2col_wgrad
                                                       : call_im2col,
                       .tensors = tensors};
  for (int i = 0; i < TENSORS; ++i) {
    if (c->data[i] == NULL)
      continue;
    emulated_tensor *t = &tensors[l.tensor_count++];
    *t = (emulated_tensor){.name = names[i],
                           .data = c->data[i],
                           .element_bytes = (int)bytes_of(i),
                           .writable = is_output(c, i)};
    memcpy(t->shape, c->shape[i], sizeof t->shape);
    memcpy(t->stride, c->stride[i], sizeof t->stride);
  }
  return emulated_run(&l, report);
}

/* ---- Results --------------------------------------------------------------------------------- */

/* What the parts of an element add up to. */
static double sum_parts(const call *c, int64_t count, int64_t elements, int64_t element,
                        double *size) {
  double sum = 0.0;
  *size = 0.0;
  for (int64_t part = 0; part < count; ++part) {
    const double value = rows_load(c->data[PARTS], part * elements + element, ATTNPRESS_FP32);
    sum += value;
    *size += fabs(value);
  }
  return sum;
}

static void check_wgrad(const call *c, conv2d_error *e) {
  const int64_t elements = conv2d_taps(&c->c) * c->c.shape.channels;
  double size;
  for (int64_t i = 0; c->splits > 1 && i < elements; ++i)
    rows_store(c->data[DWEIGHT], i, sum_parts(c, c->splits, elements, i, &size), c->c.shape.dtype);
  for (int64_t tap = 0; tap < conv2d_taps(&c->c); ++tap)
    conv2d_check_dweight(&c->c, tap, e);
}

static void check_reduce(const call *c, conv2d_error *e) {
  const int64_t elements = conv2d_taps(&c->c) * c->c.shape.channels;
  for (int64_t i = 0; i < elements; ++i) {
    double size;
    const double sum = sum_parts(c, c->splits, elements, i, &size);
    conv2d_compare(e, "dweight", c->c.shape.dtype, rows_load(c->data[DWEIGHT], i, c->c.shape.dtype),
                   sum, size, 0, 0, 0, i);
  }
}

static void check_dout(const call *c, conv2d_error *e) {
  const int64_t filters = c->c.shape.filters, q = c->c.out_width, p = c->c.out_height;
  for (int64_t k = 0; k < filters; ++k) {
    double sum = 0.0, size = 0.0, ignored;
    for (int64_t pixel = 0; pixel < conv2d_out_pixels(&c->c); ++pixel) {
      const int64_t n = pixel / q / p, y = pixel / q % p, x = pixel % q;
      const int64_t *d = c->c.dout_stride, *o = c->c.out_stride;
      double value = rows_load(c->c.dout, n * d[0] + y * d[1] + x * d[2] + k, c->c.shape.dtype);
      if (c->c.shape.relu) {
        if (!(rows_load(c->c.out, n * o[0] + y * o[1] + x * o[2] + k, c->c.shape.dtype) > 0.0))
          value = 0.0;
        conv2d_compare(e, "masked", c->c.shape.dtype,
                       rows_load(c->data[MASKED], pixel * filters + k, c->c.shape.dtype), value,
                       0.0, n, y, x, k);
      }
      sum += value;
      size += fabs(value);
    }
    conv2d_compare(e, "dbias", ATTNPRESS_FP32, sum_parts(c, c->dout_blocks, filters, k, &ignored),
                   sum, size, 0, 0, 0, k);
  }
}

static void check(const call *c, conv2d_error *e) {
  if (c->pass == AP_CONV2D_PASS_FPROP)
    for (int64_t i = 0; i < conv2d_out_pixels(&c->c); ++i)
      conv2d_check_out(&c->c, i, e);
  else if (c->pass == AP_CONV2D_PASS_DGRAD)
    for (int64_t i = 0; i < conv2d_dx_pixels(&c->c); ++i)
      conv2d_check_dx(&c->c, i, e);
  else if (c->pass == AP_CONV2D_PASS_WGRAD)
    check_wgrad(c, e);
  else if (c->pass == AP_CONV2D_PASS_DOUT)
    check_dout(c, e);
  else
    check_reduce(c, e);
}

static int run_shape(const kernel *k, const conv2d_row *s, uint64_t seed, conv2d_error *error,
                     char *report) {
  call c;
  int status = call_open(&c, k, s, seed, report);
  if (status == 0)
    status = launch(k, &c, report);
  if (status == 0) {
    check(&c, error);
    if (!(error->ratio <= 1.0)) {
      snprintf(report, EMULATED_REPORT_BYTES,
               "%s is off by %.3g of the tolerance: at (%lld, %lld, %lld, %lld) is %.9g, expected "
               "%.9g",
               error->what, error->ratio, (long long)error->at[0], (long long)error->at[1],
               (long long)error->at[2], (long long)error->at[3], error->value, error->expected);
      status = -1;
    }
  }
  call_close(&c);
  return status;
}

/* ---- A table of shapes ----------------------------------------------------------------------- */

/* One pixel; filters of several taps; strides and dilations with and without a common divisor, so
 * that some pixels of dx have no tap; fewer channels than a slab, and more; rows and columns of
 * several blocks; a depth that goes around the ring; gaps; far apart; NaN, which may reach no result
 * that it is not a term of. */
static const conv2d_row rows_table[] = {
    {1, 1, 1, 8, 8, 1, 1, {1, 1}, {0, 0}, {1, 1}, 1, 0, 0, 0, 0, 0},
    {2, 7, 9, 16, 24, 3, 3, {1, 1}, {1, 1}, {1, 1}, 2, 1, 1, 0, 0, 1},
    {1, 12, 13, 24, 136, 3, 3, {2, 2}, {1, 1}, {1, 1}, 1, 1, 0, 1, 0, 0},
    {2, 9, 8, 72, 80, 1, 1, {1, 1}, {0, 0}, {1, 1}, 3, 0, 1, 0, 0, 0},
    {1, 11, 10, 8, 16, 5, 3, {2, 3}, {2, 0}, {1, 2}, 1, 1, 0, 0, 0, 0},
    {3, 6, 5, 136, 72, 2, 2, {2, 2}, {0, 0}, {1, 1}, 1, 0, 0, 0, 0, 0},
    {1, 16, 17, 40, 8, 3, 3, {1, 1}, {2, 2}, {2, 2}, 5, 0, 1, 1, 0, 0},
    {1, 9, 9, 16, 16, 1, 1, {2, 2}, {0, 0}, {1, 1}, 1, 0, 0, 0, 0, 0},
    {2, 3, 3, 8, 8, 3, 3, {1, 1}, {1, 1}, {1, 1}, 1, 0, 1, 0, 1, 0},
    {1, 10, 11, 16, 8, 3, 3, {4, 2}, {1, 3}, {2, 2}, 1, 0, 0, 1, 0, 0},
    {1, 20, 20, 16, 16, 3, 2, {1, 1}, {1, 0}, {1, 1}, 4, 1, 0, 0, 0, 1},
};

/* For the copy engine, of which dgrad takes channels for filters: a depth of whole slabs, of less than
 * one, and of more with 1 to 4 steps in the last; several tiles of a block; tiles that blocks share, of
 * which some have no slab; taps that no pixel has; a box of pixels that begins inside the image; the
 * largest offset of a tap; an image of one line. */
static const conv2d_row im2col_table[] = {
    {1, 1, 1, 64, 8, 1, 1, {1, 1}, {0, 0}, {1, 1}, 1, 0, 0, 0, 0, 0},
    {2, 7, 9, 64, 24, 3, 3, {1, 1}, {1, 1}, {1, 1}, 2, 1, 1, 0, 0, 1},
    {1, 12, 13, 128, 136, 3, 3, {2, 2}, {1, 1}, {1, 1}, 1, 1, 0, 1, 0, 0},
    {2, 17, 16, 192, 264, 1, 1, {1, 1}, {0, 0}, {1, 1}, 3, 0, 1, 0, 0, 0},
    {1, 11, 10, 64, 16, 5, 3, {2, 1}, {2, 0}, {1, 2}, 1, 1, 0, 0, 0, 0},
    {3, 6, 5, 64, 72, 2, 2, {2, 2}, {0, 0}, {1, 1}, 1, 0, 0, 0, 0, 1},
    {1, 16, 17, 64, 8, 3, 3, {1, 1}, {2, 2}, {2, 2}, 5, 0, 1, 1, 0, 0},
    {1, 9, 9, 128, 16, 1, 1, {2, 2}, {0, 0}, {1, 1}, 1, 0, 0, 0, 0, 0},
    {2, 3, 3, 64, 8, 3, 3, {1, 1}, {1, 1}, {1, 1}, 1, 0, 1, 0, 1, 0},
    {1, 1, 260, 64, 8, 1, 2, {1, 1}, {0, 127}, {1, 255}, 2, 0, 0, 0, 0, 0},
    {1, 20, 20, 64, 8, 3, 2, {1, 1}, {1, 0}, {1, 1}, 4, 1, 0, 0, 0, 1},
    {3, 25, 27, 64, 8, 3, 3, {2, 2}, {1, 1}, {1, 1}, 2, 0, 0, 0, 0, 0},
    {2, 9, 8, 72, 80, 1, 1, {1, 1}, {0, 0}, {1, 1}, 3, 0, 1, 0, 0, 0},
    {1, 12, 13, 24, 136, 3, 3, {2, 2}, {1, 1}, {1, 1}, 1, 1, 0, 1, 0, 0},
    {2, 7, 9, 168, 72, 3, 3, {1, 1}, {1, 1}, {1, 1}, 8, 1, 1, 0, 0, 1},
    {1, 9, 9, 104, 16, 2, 2, {1, 1}, {0, 0}, {1, 1}, 4, 1, 0, 1, 0, 0},
    {1, 5, 5, 8, 8, 3, 3, {1, 1}, {1, 1}, {1, 1}, 2, 0, 0, 0, 0, 0},
    {2, 8, 9, 96, 160, 3, 3, {1, 1}, {1, 1}, {1, 1}, 4, 1, 0, 1, 0, 0},
    {1, 13, 12, 32, 96, 3, 3, {1, 1}, {1, 1}, {1, 1}, 3, 0, 0, 0, 0, 0},
    {1, 10, 11, 16, 32, 2, 2, {2, 2}, {1, 1}, {1, 1}, 2, 1, 1, 0, 0, 1},
    {1, 9, 9, 88, 208, 1, 1, {1, 1}, {0, 0}, {1, 1}, 2, 0, 0, 0, 0, 0},
};

/* Row i of the shapes of a kernel; 0: there are no more. */
static int row_of(const kernel *k, size_t i, conv2d_row *s) {
  const int im2col = is_im2col(&k->variant);
  const size_t count =
      im2col ? sizeof im2col_table / sizeof *im2col_table : sizeof rows_table / sizeof *rows_table;
  if (i >= count)
    return 0;
  *s = im2col ? im2col_table[i] : rows_table[i];
  if (im2col && pass_of(k) == AP_CONV2D_PASS_DGRAD) {
    s->filters = im2col_table[i].channels;
    s->channels = im2col_table[i].filters;
  }
  return 1;
}

static void print_row(const conv2d_row *s, char *text, size_t bytes) {
  snprintf(
      text, bytes,
      "batch %lld of %lld x %lld x %lld, %lld filters of %lld x %lld, stride %d %d, padding %d "
      "%d, dilation %d %d, splits %lld%s%s%s%s%s",
      (long long)s->batch, (long long)s->height, (long long)s->width, (long long)s->channels,
      (long long)s->filters, (long long)s->filter_height, (long long)s->filter_width, s->stride[0],
      s->stride[1], s->padding[0], s->padding[1], s->dilation[0], s->dilation[1],
      (long long)s->splits, s->bias ? ", bias" : "", s->relu ? ", relu" : "",
      s->gaps ? ", gaps" : "", s->far ? ", far" : "", s->nan ? ", NaN" : "");
}

static int run_shapes(const kernel *k, FILE *out, int *shapes) {
  static char report[EMULATED_REPORT_BYTES];
  conv2d_row row;
  const conv2d_row *s = &row;
  for (size_t i = 0; row_of(k, i, &row); ++i, ++*shapes) {
    conv2d_error error = {0};
    char text[TEXT_BYTES];
    if (run_shape(k, s, 1000u * i + 1, &error, report) == 0)
      continue;
    print_row(s, text, sizeof text);
    fprintf(out, "FAILED %s\n  shape: %s\n  %s\n", k->stem, text, report);
    return 1;
  }
  return 0;
}

const emulated_family emulated_conv2d = {read_tile, run_shapes, NULL, NULL};

/* ---- One kernel and one shape ---------------------------------------------------------------- */

static const char help[] =
    "usage: attnpress run conv2d --device emulated [OPTION]...\n\n"
    "Runs a kernel on this machine's CPU, instruction by instruction, on random inputs; watches "
    "every\naccess to memory, and checks the result against float64.\n\n"
    "  --pass PASS         fprop, dgrad, wgrad, dout or reduce (fprop)\n"
    "  --block BLOCK       m128n128, m128n64, m64n128 or m64n64 (m128n128)\n"
    "  --im2col            copies by the copy engine, of sm90; m256n128, m256n64, m128n256, "
    "m64n256,\n                      m192n128 and m128n192 are blocks then, too\n"
    "  --arch ARCH         sm80 or sm90 (sm80)\n"
    "  --batch N (1), --height N (9), --width N (9), --channels N (16), --filters N (24),\n"
    "  --filter N (3), --stride N (1), --padding N (1), --dilation N (1),\n"
    "  --splits N          of the pixels of wgrad; parts of reduce; with --im2col thread blocks "
    "that "
    "share\n                      a tile: 2, 4 or 8 (1)\n"
    "  --dtype TYPE (bf16), --bias, --relu, --gaps\n"
    "  --stem STEM         this kernel\n"
    "  --source FILE       this file, named after its stem, such as the generator writes\n"
    "  --templates         made by the generator from the templates as they stand now\n"
    "  --seed N            of the random inputs (1)\n";

int emulate_run_conv2d(int argc, char **argv); /* of run.c's table */

int emulate_run_conv2d(int argc, char **argv) {
  static char report[EMULATED_REPORT_BYTES];
  static const char *const passes[] = {"fprop", "dgrad", "wgrad", "dout", "reduce", NULL};
  static const char *const archs[] = {"sm80", "sm90", NULL};
  static const char *const blocks[] = {"none",    "m128n128", "m128n64",  "m64n128",
                                       "m64n64",  "m256n128", "m256n64",  "m128n256",
                                       "m64n256", "m192n128", "m128n192", NULL};
  conv2d_row s = {.batch = 1, .height = 9, .width = 9, .channels = 16, .filters = 24, .splits = 1};
  int64_t filter = 3, stride = 1, padding = 1, dilation = 1, seed = 1;
  int dtype = ATTNPRESS_BF16, pass = AP_CONV2D_PASS_FPROP, block = AP_CONV2D_BLOCK_M128N128;
  int arch = 0, im2col = 0;
  run_kernel meant = {NULL, NULL, 0};
  const run_number numbers[] = {
      {"--batch", &s.batch, 1},       {"--height", &s.height, 1},   {"--width", &s.width, 1},
      {"--channels", &s.channels, 8}, {"--filters", &s.filters, 8}, {"--filter", &filter, 1},
      {"--stride", &stride, 1},       {"--padding", &padding, 0},   {"--dilation", &dilation, 1},
      {"--splits", &s.splits, 1},     {"--seed", &seed, 1},         {NULL, NULL, 0}};
  const run_choice choices[] = {{"--dtype", run_dtype_names, ATTNPRESS_FP16, &dtype},
                                {"--pass", passes, 0, &pass},
                                {"--block", blocks, 1, &block},
                                {"--arch", archs, 0, &arch},
                                {NULL, NULL, 0, NULL}};
  const run_flag flags[] = {{"--bias", &s.bias},
                            {"--relu", &s.relu},
                            {"--gaps", &s.gaps},
                            {"--im2col", &im2col},
                            {NULL, NULL}};
  const run_words words = {.family = "conv2d",
                           .help = help,
                           .numbers = numbers,
                           .choices = choices,
                           .flags = flags,
                           .kernel = &meant};
  int status = run_parse(&words, argc, argv);
  if (status != RUN_GOES_ON)
    return status;
  s.filter_height = s.filter_width = filter;
  for (int i = 0; i < 2; ++i) {
    s.stride[i] = (int32_t)stride;
    s.padding[i] = (int32_t)padding;
    s.dilation[i] = (int32_t)dilation;
  }
  const int product = pass != AP_CONV2D_PASS_DOUT && pass != AP_CONV2D_PASS_REDUCE;
  const ap_variant chosen = {
      .family = AP_FAMILY_CONV2D,
      .axis = {[AP_CONV2D_PASS] = pass,
               [AP_CONV2D_BLOCK] = product ? block : AP_CONV2D_BLOCK_NONE,
               [AP_CONV2D_COPIES] = im2col ? AP_CONV2D_COPIES_IM2COL : AP_CONV2D_COPIES_GATHER,
               [AP_CONV2D_DTYPE] = dtype,
               [AP_CONV2D_ARCH] = arch || im2col ? 90 : 80}};
  kernel k = {0};
  if (run_open(&meant, &chosen, &k, report) != 0) {
    fprintf(stderr, "attnpress run conv2d: %s\n", report);
    return 1;
  }
  char text[TEXT_BYTES];
  conv2d_error error = {0};
  int failed = -1;
  if (k.variant.family == AP_FAMILY_CONV2D)
    failed = run_shape(&k, &s, (uint64_t)seed, &error, report);
  else
    snprintf(report, EMULATED_REPORT_BYTES, "%s is no convolution", k.stem);
  print_row(&s, text, sizeof text);
  status = run_print(&k, text, failed, error.ratio, error.elements, report);
  kernel_close(&k);
  return status;
}
