/* Convolutions without a GPU: numbers on the CPU, what bad input gets, and what a call is launched with
 * (the driver and NVRTC are stand-ins). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "../tools/conv2d/reference.h"
#include "../tools/rows.h"
#include "api_support.h"
#include "attnpress/args/conv2d.h"
#include "attnpress/conv2d.h"

/* ---- Numbers on the CPU ---------------------------------------------------------------------- */

enum { X, WEIGHT, BIAS, OUT, DOUT, DX, DWEIGHT, DBIAS, TENSORS, TENSOR_BYTES = 1 << 16 };

static attnpress_conv2d_shape small_shape(int32_t dtype, int relu) {
  return (attnpress_conv2d_shape){.batch = 2,
                                  .height = 9,
                                  .width = 7,
                                  .channels = 16,
                                  .filters = 40,
                                  .filter_height = 3,
                                  .filter_width = 2,
                                  .stride = {2, 1},
                                  .padding = {1, 2},
                                  .dilation = {1, 3},
                                  .dtype = dtype,
                                  .relu = relu};
}

/* Images have gaps. */
static conv2d_case case_of(char data[TENSORS][TENSOR_BYTES], int32_t dtype, int relu) {
  conv2d_case c = {.shape = small_shape(dtype, relu),
                   .x = data[X],
                   .weight = data[WEIGHT],
                   .bias = data[BIAS],
                   .out = data[OUT],
                   .dout = data[DOUT],
                   .dx = data[DX],
                   .dweight = data[DWEIGHT],
                   .dbias = data[DBIAS]};
  assert_ok(attnpress_conv2d_output(&c.shape, &c.out_height, &c.out_width));
  assert_int_equal(c.out_height, 5);
  assert_int_equal(c.out_width, 8);
  conv2d_pack(9, 8, 24, c.x_stride);
  conv2d_pack(10, 7, 16, c.dx_stride);
  conv2d_pack(5, 8, 48, c.out_stride);
  conv2d_pack(5, 8, 40, c.dout_stride);
  return c;
}

static void fill_inputs(char data[TENSORS][TENSOR_BYTES], int32_t dtype) {
  memset(data, 0xff, TENSORS * TENSOR_BYTES);
  const int64_t elements = TENSOR_BYTES / (dtype == ATTNPRESS_FP32 ? 4 : 2);
  for (int i = 0; i < TENSORS; ++i)
    if (i < OUT || i == DOUT)
      rows_fill(data[i], 1, elements, elements, dtype, 0.1, 1.0, (uint64_t)i + 1);
}

static void check_case(const conv2d_case *c) {
  conv2d_error e = {0};
  for (int64_t i = 0; i < conv2d_out_pixels(c); ++i)
    conv2d_check_out(c, i, &e);
  for (int64_t i = 0; i < conv2d_dx_pixels(c); ++i)
    conv2d_check_dx(c, i, &e);
  for (int64_t i = 0; i < conv2d_taps(c); ++i)
    conv2d_check_dweight(c, i, &e);
  conv2d_check_dbias(c, &e);
  if (!(e.ratio <= 1.0))
    fail_msg("%s at (%lld, %lld, %lld, %lld) is %.9g, expected %.9g", e.what, (long long)e.at[0],
             (long long)e.at[1], (long long)e.at[2], (long long)e.at[3], e.value, e.expected);
  assert_int_equal(e.elements, 2 * 5 * 8 * 40 + 2 * 9 * 7 * 16 + 40 * 6 * 16 + 40);
}

static void run_case(attnpress_handle *handle, const conv2d_case *c,
                     char data[TENSORS][TENSOR_BYTES]) {
  attnpress_conv2d_args args = ATTNPRESS_CONV2D_ARGS_INIT;
  args.shape = c->shape;
  args.x = c->x, args.weight = c->weight, args.bias = c->bias, args.out = data[OUT];
  memcpy(args.x_stride, c->x_stride, sizeof args.x_stride);
  memcpy(args.out_stride, c->out_stride, sizeof args.out_stride);
  assert_ok(attnpress_conv2d(handle, &args, NULL));
  attnpress_conv2d_backward_args back = ATTNPRESS_CONV2D_BACKWARD_ARGS_INIT;
  back.shape = c->shape;
  back.x = c->x, back.weight = c->weight, back.out = c->out, back.dout = c->dout;
  back.dx = data[DX], back.dweight = data[DWEIGHT], back.dbias = data[DBIAS];
  memcpy(back.x_stride, c->x_stride, sizeof back.x_stride);
  memcpy(back.out_stride, c->out_stride, sizeof back.out_stride);
  memcpy(back.dx_stride, c->dx_stride, sizeof back.dx_stride);
  assert_ok(attnpress_conv2d_backward(handle, &back, NULL)); /* dout without gaps: by default */
}

/* Every dtype, with ReLU and without, on one thread and on several: the same bits. */
static void test_cpu(void **state) {
  (void)state;
  static char data[TENSORS][TENSOR_BYTES], other[TENSORS][TENSOR_BYTES];
  for (int32_t dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype)
    for (int relu = 0; relu < 2; ++relu)
      for (int threads = 1; threads < 4; threads += 2) {
        attnpress_handle *handle = make_cpu_handle(threads);
        fill_inputs(data, dtype);
        const conv2d_case c = case_of(data, dtype, relu);
        run_case(handle, &c, data);
        check_case(&c);
        attnpress_destroy(handle);
        if (threads == 1)
          memcpy(other, data, sizeof data);
        else
          assert_memory_equal(other, data, sizeof data);
      }
}

/* One pixel with a known result; NaN passes through ReLU; what ReLU stops has no gradient. */
static void test_fp64(void **state) {
  (void)state;
  double x[2][8] = {{1, 2, 3}, {NAN}}, weight[8][8] = {{1, 1, 1}, {-1}}, out[2][8], dbias[8];
  const double dout[2][8] = {{1, 1}, {4, 4}};
  attnpress_handle *handle = make_cpu_handle(1);
  attnpress_conv2d_args args = ATTNPRESS_CONV2D_ARGS_INIT;
  args.shape = (attnpress_conv2d_shape){2, 1, 1, 8, 8, 1, 1, {0, 0}, {0, 0}, {0, 0}, 0, 1};
  args.shape.dtype = ATTNPRESS_CONV2D_FP64;
  args.x = x, args.weight = weight, args.out = out;
  assert_ok(attnpress_conv2d(handle, &args, NULL));
  assert_true(out[0][0] == 6.0 && out[0][1] == 0.0 && isnan(out[1][0]));
  attnpress_conv2d_backward_args back = ATTNPRESS_CONV2D_BACKWARD_ARGS_INIT;
  back.shape = args.shape;
  back.out = out, back.dout = dout, back.dbias = dbias;
  assert_ok(attnpress_conv2d_backward(handle, &back, NULL));
  assert_true(dbias[0] == 1.0 && dbias[1] == 0.0);
  attnpress_destroy(handle);
}

/* ---- Bad input ------------------------------------------------------------------------------- */

static attnpress_conv2d_args legal_forward(void) {
  attnpress_conv2d_args args = ATTNPRESS_CONV2D_ARGS_INIT;
  args.shape = (attnpress_conv2d_shape){.batch = 64,
                                        .height = 28,
                                        .width = 28,
                                        .channels = 128,
                                        .filters = 256,
                                        .filter_height = 3,
                                        .filter_width = 3,
                                        .stride = {2, 2},
                                        .padding = {1, 1},
                                        .dtype = ATTNPRESS_BF16};
  args.x = (void *)0x100000;
  args.weight = (void *)0x200000;
  args.out = (void *)0x300000;
  return args;
}

static attnpress_conv2d_backward_args legal_backward(void) {
  attnpress_conv2d_backward_args args = ATTNPRESS_CONV2D_BACKWARD_ARGS_INIT;
  args.shape = legal_forward().shape;
  args.x = (void *)0x100000;
  args.weight = (void *)0x200000;
  args.out = (void *)0x300000;
  args.dout = (void *)0x400000;
  args.dx = (void *)0x500000;
  args.dweight = (void *)0x600000;
  args.dbias = (void *)0x700000;
  args.workspace = (void *)0x10000000;
  args.workspace_bytes = (size_t)1 << 30;
  return args;
}

#define SPOIL(name, statement)                                                                     \
  static void name(attnpress_conv2d_args *a) {                                                     \
    statement;                                                                                     \
  }
SPOIL(batch_negative, a->shape.batch = -1)
SPOIL(height_0, a->shape.height = 0)
SPOIL(channels_12, a->shape.channels = 12)
SPOIL(filters_0, a->shape.filters = 0)
SPOIL(filter_width_0, a->shape.filter_width = 0)
SPOIL(stride_negative, a->shape.stride[1] = -1)
SPOIL(padding_negative, a->shape.padding[0] = -2)
SPOIL(dilation_large, a->shape.dilation[0] = 15)
SPOIL(dtype_5, a->shape.dtype = 5)
SPOIL(relu_2, a->shape.relu = 2)
SPOIL(x_null, a->x = NULL)
SPOIL(weight_misaligned, a->weight = (void *)0x200008)
SPOIL(out_null, a->out = NULL)
SPOIL(x_stride_odd, a->x_stride[2] = 132)
SPOIL(x_stride_negative, a->x_stride[1] = -8)
SPOIL(out_overlaps, a->out_stride[2] = 248)
SPOIL(struct_small, a->struct_size = sizeof *a - 24) /* shorter than the first version */
SPOIL(no_copies, a->choice.copies = 3)
SPOIL(half_a_block, a->choice.block_rows = 128)
SPOIL(too_many_splits, a->choice.splits = 65536)

static const struct {
  void (*spoil)(attnpress_conv2d_args *args);
  const char *says;
} bad_inputs[] = {
    {batch_negative, "batch is -1"},
    {height_0, "height is 0"},
    {channels_12, "channels is 12; it must be a multiple of 8"},
    {filters_0, "filters is 0"},
    {filter_width_0, "filter_width is 0"},
    {stride_negative, "stride[1] is -1"},
    {padding_negative, "padding[0] is -2"},
    {dilation_large, "there is no output"},
    {dtype_5, "dtype is 5"},
    {relu_2, "relu is 2"},
    {x_null, "x is NULL"},
    {weight_misaligned, "weight is 0x200008"},
    {out_null, "out is NULL"},
    {x_stride_odd, "x_stride[2] is 132"},
    {x_stride_negative, "x_stride[1] is -8"},
    {out_overlaps, "out_stride[2] is 248"},
    {struct_small, "struct_size"},
    {no_copies, "choice.copies is 3"},
    {half_a_block, "choice.block_rows is 128 and choice.block_columns 0"},
    {too_many_splits, "choice.splits is 65536"},
};

static void test_bad_input(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  assert_refused(handle, attnpress_conv2d, attnpress_conv2d_args, legal_forward, bad_inputs);
  attnpress_conv2d_args args = legal_forward();
  args.shape.dtype = ATTNPRESS_FP32;
  assert_int_equal(attnpress_conv2d(handle, &args, NULL), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("dtype is fp32");
  args = legal_forward();
  args.x_stride[0] = INT64_C(1) << 34;
  assert_int_equal(attnpress_conv2d(handle, &args, NULL), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("over 2^34");
  args = legal_forward();
  args.shape.batch = INT32_MAX;
  assert_int_equal(attnpress_conv2d(handle, &args, NULL), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("more pixels than 2^31");
  attnpress_conv2d_backward_args back = legal_backward();
  back.shape.relu = 1;
  back.out = NULL;
  assert_int_equal(attnpress_conv2d_backward(handle, &back, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("out is NULL");
  back = legal_backward();
  back.workspace_bytes = 100;
  assert_int_equal(attnpress_conv2d_backward(handle, &back, NULL), ATTNPRESS_WORKSPACE_TOO_SMALL);
  assert_int_equal(cuda->launches, 0);
  attnpress_destroy(handle);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static attnpress_handle *make_sm80_handle(void) {
  attnpress_options options = handle_options();
  attnpress_handle *handle;
  options.arch_max = 80;
  assert_ok(attnpress_create(&handle, &options));
  return handle;
}

static void test_launch_forward(void **state) {
  (void)state;
  attnpress_handle *handle = make_sm80_handle();
  attnpress_conv2d_args args = legal_forward();
  attnpress_conv2d_gather_args given;
  args.out_stride[2] = 320;
  assert_ok(attnpress_conv2d(handle, &args, NULL));
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_non_null(strstr(cuda->launch[0].symbol, "conv2d_fprop_m"));
  assert_int_equal(cuda->launch[0].grid, given.row_blocks * given.column_blocks);
  assert_int_equal(given.out_height, 14);
  assert_int_equal(given.in_stride[2], 16);
  assert_int_equal(given.in_stride[1], 28 * 16);
  assert_int_equal(given.out_stride[2], 40);
  assert_int_equal(given.out_stride[0], 14 * 14 * 40);
  assert_int_equal(given.dilation[0], 1); /* 0 means 1 */
  args.shape.filters = 64;
  assert_ok(attnpress_conv2d(handle, &args, NULL)); /* 64 columns: no block of 128 */
  assert_non_null(strstr(cuda->launch[1].symbol, "n64_bf16"));
  assert_non_null(strstr(cuda->launch[1].symbol, "_sm80"));
  args.shape.batch = 0;
  args.x = args.out = NULL;
  assert_ok(attnpress_conv2d(handle, &args, NULL));
  assert_int_equal(cuda->launches, 2);
  attnpress_destroy(handle);
}

/* With ReLU, dgrad and wgrad read what it let through. */
static void test_launch_backward(void **state) {
  (void)state;
  attnpress_handle *handle = make_sm80_handle();
  attnpress_conv2d_backward_args args = legal_backward();
  attnpress_conv2d_dout_args dout;
  attnpress_conv2d_reduce_args bias, sums;
  attnpress_conv2d_gather_args dgrad;
  attnpress_conv2d_wgrad_args wgrad;
  args.shape.relu = 1;
  assert_ok(attnpress_conv2d_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 5);
  memcpy(&dout, cuda->launch[0].args, sizeof dout);
  memcpy(&bias, cuda->launch[1].args, sizeof bias);
  memcpy(&dgrad, cuda->launch[2].args, sizeof dgrad);
  memcpy(&wgrad, cuda->launch[3].args, sizeof wgrad);
  memcpy(&sums, cuda->launch[4].args, sizeof sums);
  assert_string_equal(cuda->launch[0].symbol, "conv2d_dout_bf16_sm80");
  assert_string_equal(cuda->launch[1].symbol, "conv2d_reduce_bf16_sm80");
  assert_non_null(strstr(cuda->launch[2].symbol, "conv2d_dgrad_m"));
  assert_non_null(strstr(cuda->launch[3].symbol, "conv2d_wgrad_m"));
  assert_string_equal(cuda->launch[4].symbol, "conv2d_reduce_bf16_sm80");
  for (int i = 0; i < 5; ++i)
    assert_true(cuda->launch[i].overlaps);
  assert_ptr_equal(dout.masked, args.workspace);
  assert_ptr_equal(dgrad.in, args.workspace);
  assert_ptr_equal(wgrad.dout, args.workspace);
  assert_ptr_equal(bias.parts, dout.parts);
  assert_ptr_equal(bias.out, args.dbias);
  assert_ptr_equal(sums.parts, wgrad.parts);
  assert_ptr_equal(sums.out, args.dweight);
  assert_int_equal(cuda->launch[2].grid, 4 * dgrad.row_blocks * dgrad.column_blocks);
  assert_int_equal(cuda->launch[3].grid, sums.count * wgrad.row_blocks * wgrad.column_blocks);
  /* The splits hold all pixels, and none is empty. */
  assert_true(sums.count * wgrad.split_pixels >= 64 * 14 * 14);
  assert_true((sums.count - 1) * wgrad.split_pixels < 64 * 14 * 14);
  /* The parts lie apart. */
  assert_true((char *)dout.parts >= (char *)dout.masked + 64 * 14 * 14 * 256 * 2);
  assert_true((char *)wgrad.parts >= (char *)dout.parts + dout.row_blocks * 256 * 4);
  args = legal_backward();
  args.dweight = args.dbias = NULL;
  args.workspace = NULL;
  assert_ok(attnpress_conv2d_backward(handle, &args, NULL)); /* dx alone needs no workspace */
  assert_int_equal(cuda->launches, 6);
  memcpy(&dgrad, cuda->launch[5].args, sizeof dgrad);
  assert_ptr_equal(dgrad.in, args.dout);
  attnpress_destroy(handle);
}

/* On 9.0 the copy engine brings x and dout, where the channels of the depth are multiples of 64 and
 * it has a map of the images. */
static void test_launch_im2col(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_conv2d_args args = legal_forward();
  attnpress_conv2d_im2col_args given;
  args.choice.copies = ATTNPRESS_CONV2D_GATHER;
  assert_ok(attnpress_conv2d(handle, &args, NULL));
  assert_null(strstr(cuda->launch[0].symbol, "_im2col_"));
  assert_non_null(strstr(cuda->launch[0].symbol, "_sm90"));
  cuda->reset();
  args.choice.copies = 0;
  assert_ok(attnpress_conv2d(handle, &args, NULL));
  assert_int_equal(cuda->maps, 2);
  assert_non_null(strstr(cuda->launch[0].symbol, "conv2d_fprop_im2col_m"));
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_int_equal(given.tiles, given.row_blocks * given.column_blocks);
  assert_true((int)cuda->launch[0].grid <= given.tiles);
  assert_int_equal(given.tap_slabs, 2);
  assert_int_equal(given.line[0][1].in, -1);
  attnpress_conv2d_backward_args back = legal_backward();
  attnpress_conv2d_im2col_wgrad_args wgrad;
  attnpress_conv2d_reduce_args sums;
  back.dbias = NULL;
  assert_ok(attnpress_conv2d_backward(handle, &back, NULL));
  assert_int_equal(cuda->launches, 4);
  assert_int_equal(cuda->maps, 2 + 4 + 1 + 2); /* dgrad: four residues of dout, and weights */
  assert_non_null(strstr(cuda->launch[1].symbol, "conv2d_dgrad_im2col_m"));
  assert_non_null(strstr(cuda->launch[2].symbol, "conv2d_wgrad_im2col_m"));
  memcpy(&given, cuda->launch[1].args, sizeof given);
  memcpy(&wgrad, cuda->launch[2].args, sizeof wgrad);
  memcpy(&sums, cuda->launch[3].args, sizeof sums);
  assert_int_equal(given.tiles, 4 * given.row_blocks * given.column_blocks);
  assert_int_equal(given.line[0][0].taps + given.line[2][0].taps, 3);
  /* The splits hold all slabs of pixels, and none is empty. */
  assert_int_equal(wgrad.slabs, 64 * 14 * 14 / 64);
  assert_true(sums.count * wgrad.split_slabs >= wgrad.slabs);
  assert_true((sums.count - 1) * wgrad.split_slabs < wgrad.slabs);
  assert_ptr_equal(sums.parts, wgrad.parts);

  const struct {
    int64_t channels;
    int32_t dilation, stride, padding, im2col;
  } cases[] = {{128, 1, 1, 1, 1},    {72, 1, 1, 1, 1},     {64, 1, 8, 1, 1},  {64, 1, 9, 1, 0},
               {64, 127, 1, 128, 1}, {64, 128, 1, 128, 0}, {64, 1, 1, 129, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    args = legal_forward();
    args.shape.channels = cases[i].channels;
    args.choice.copies = ATTNPRESS_CONV2D_IM2COL;
    for (int j = 0; j < 2; ++j) {
      args.shape.dilation[j] = cases[i].dilation;
      args.shape.stride[j] = cases[i].stride;
      args.shape.padding[j] = cases[i].padding;
    }
    assert_ok(attnpress_conv2d(handle, &args, NULL));
    const char *symbol = cuda->launch[cuda->launches - 1].symbol;
    assert_int_equal(strstr(symbol, "_im2col_") != NULL, cases[i].im2col);
    assert_non_null(strstr(symbol, "_sm90"));
  }
  attnpress_destroy(handle);
}

/* A map of lines of so many elements, with their swizzle; rows: of the last dimension's box. */
static void assert_map(const attnpress_tensor_map *map, int32_t line, int32_t rows) {
  fake_map m;
  memcpy(&m, map, sizeof m);
  assert_int_equal(m.rank, 4);
  assert_int_equal(m.box[0], line);
  assert_int_equal(m.box[3], rows);
  assert_int_equal(16 << m.swizzle, line * 2);
}

/* Channels that are no multiple of 64: a tap's last slab has as many steps of 16 as there are, and
 * brings no more than they read; the last column block no more columns than there are; and columns
 * of dweight are in panels of a tap, of 32 where that leaves none of them without a channel. */
static void test_tails(void **state) {
  (void)state;
  static const struct {
    int64_t channels, filters;
    int32_t slabs, steps, line, panels, width, last, row_panels;
  } cases[] = {{8, 256, 1, 1, 16, 1, 32, 128, 4},   {24, 72, 1, 2, 32, 1, 32, 72, 2},
               {32, 32, 1, 2, 32, 1, 32, 32, 1},    {64, 96, 1, 4, 64, 1, 64, 96, 3},
               {72, 136, 2, 1, 16, 2, 64, 8, 3},    {96, 264, 2, 2, 32, 3, 32, 8, 5},
               {112, 224, 2, 3, 64, 2, 64, 96, 7},  {120, 288, 2, 4, 64, 2, 64, 32, 5},
               {128, 128, 2, 4, 64, 2, 64, 128, 2}, {288, 128, 5, 2, 32, 5, 64, 128, 2}};
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    attnpress_conv2d_args args = legal_forward();
    attnpress_conv2d_backward_args back = legal_backward();
    attnpress_conv2d_im2col_args fprop, dgrad;
    attnpress_conv2d_im2col_wgrad_args wgrad;
    cuda->reset();
    args.choice.copies = back.choice.copies = ATTNPRESS_CONV2D_IM2COL;
    args.choice.block_rows = back.choice.block_rows = 128;
    args.choice.block_columns = back.choice.block_columns = 128;
    args.shape.channels = back.shape.channels = cases[i].channels;
    args.shape.filters = back.shape.filters = cases[i].filters;
    back.dbias = NULL;
    assert_ok(attnpress_conv2d(handle, &args, NULL));
    memcpy(&fprop, cuda->launch[0].args, sizeof fprop);
    assert_int_equal(fprop.tap_slabs, cases[i].slabs);
    assert_int_equal(fprop.tail_steps, cases[i].steps);
    assert_int_equal(fprop.has_tail, cases[i].line < 64);
    assert_int_equal(fprop.has_last, cases[i].last < 128);
    assert_int_equal(fprop.slab_bytes[0][0], 256 * 128);
    assert_int_equal(fprop.slab_bytes[0][1], 256 * cases[i].line * 2);
    assert_int_equal(fprop.slab_bytes[1][0], (128 + cases[i].last) * 128);
    assert_int_equal(fprop.slab_bytes[1][1], (128 + cases[i].last) * cases[i].line * 2);
    assert_map(&fprop.in[0][0], 64, 1);
    assert_map(&fprop.weight[0][0], 64, 128);
    if (fprop.has_last)
      assert_map(&fprop.weight[1][0], 64, cases[i].last);
    if (fprop.has_tail) {
      assert_map(&fprop.in[0][1], cases[i].line, 1);
      assert_map(&fprop.weight[fprop.has_last][1], cases[i].line, cases[i].last);
    }
    assert_ok(attnpress_conv2d_backward(handle, &back, NULL));
    memcpy(&dgrad, cuda->launch[1].args, sizeof dgrad);
    /* Weights are lines of channels, as many as the tail's steps read. */
    const int32_t steps = dgrad.tail_steps, line = steps > 2 ? 64 : steps * 16;
    const int32_t columns = cases[i].channels % 128 == 0   ? 128
                            : cases[i].channels % 128 > 64 ? 128
                                                           : 64;
    assert_int_equal(steps, (cases[i].filters - 1) % 64 / 16 + 1);
    assert_int_equal(dgrad.has_tail, steps < 4);
    assert_int_equal(dgrad.slab_bytes[0][1], 128 * line * 2 + 128 * steps * 16 * 2);
    assert_int_equal(dgrad.slab_bytes[1][0], (128 + columns) * 128);
    memcpy(&wgrad, cuda->launch[2].args, sizeof wgrad);
    const int32_t taps = (int32_t)(back.shape.filter_height * back.shape.filter_width);
    const int32_t width = cases[i].width;
    assert_int_equal(wgrad.channels, cases[i].channels);
    assert_int_equal(wgrad.columns, taps * cases[i].channels);
    assert_int_equal(wgrad.tap_panels, cases[i].panels);
    assert_int_equal(wgrad.width[1], width);
    assert_int_equal(wgrad.panels[0], cases[i].row_panels);
    assert_map(&wgrad.x, width, 1);
    assert_map(&wgrad.dout, wgrad.width[0], 1);
    assert_int_equal(wgrad.panels[1], taps * cases[i].panels);
    assert_int_equal(wgrad.column_blocks, (taps * cases[i].panels * width + 127) / 128);
  }
  /* Threads gather where most of a slab would be zeros. */
  attnpress_conv2d_args args = legal_forward();
  args.shape.channels = 8;
  cuda->reset();
  assert_ok(attnpress_conv2d(handle, &args, NULL));
  assert_null(strstr(cuda->launch[0].symbol, "_im2col_"));
  args.shape.channels = 120;
  assert_ok(attnpress_conv2d(handle, &args, NULL));
  assert_non_null(strstr(cuda->launch[1].symbol, "_im2col_"));
  attnpress_destroy(handle);
}

/* Thread blocks share tiles that are few: all have slabs, and a cluster is one tile's. */
static void test_shared_tiles(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_conv2d_args args = legal_forward();
  attnpress_conv2d_im2col_args given;
  args.shape.batch = 2;
  args.shape.channels = 512;
  assert_ok(attnpress_conv2d(handle, &args, NULL));
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_true(given.splits > 1);
  assert_int_equal(cuda->launch[0].cluster, given.splits);
  assert_int_equal(cuda->launch[0].grid, given.tiles * given.splits);
  args.shape.batch = 512; /* many */
  assert_ok(attnpress_conv2d(handle, &args, NULL));
  memcpy(&given, cuda->launch[1].args, sizeof given);
  assert_int_equal(given.splits, 1);
  assert_int_equal(cuda->launch[1].cluster, 0);
  static const struct {
    int32_t rows, columns, splits, expected;
  } cases[] = {{64, 64, 8, 8},   {64, 64, 7, 4},  {128, 128, 2, 2}, {64, 128, 1, 1},
               {64, 64, 100, 8}, {128, 64, 4, 4}, {256, 64, 4, 1},  {64, 256, 4, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    args.choice = (attnpress_conv2d_choice){ATTNPRESS_CONV2D_IM2COL, cases[i].rows,
                                            cases[i].columns, cases[i].splits};
    assert_ok(attnpress_conv2d(handle, &args, NULL));
    const fake_launch *launch = &cuda->launch[cuda->launches - 1];
    memcpy(&given, launch->args, sizeof given);
    assert_int_equal(given.splits, cases[i].expected);
    assert_int_equal(launch->cluster, cases[i].expected > 1 ? cases[i].expected : 0);
  }
  args.shape.channels = 128;
  args.shape.filter_height = args.shape.filter_width = 1; /* two slabs */
  args.choice = (attnpress_conv2d_choice){ATTNPRESS_CONV2D_IM2COL, 64, 64, 8};
  assert_ok(attnpress_conv2d(handle, &args, NULL));
  memcpy(&given, cuda->launch[cuda->launches - 1].args, sizeof given);
  assert_int_equal(given.splits, 2);
  attnpress_destroy(handle);
}

static attnpress_conv2d_shape square_shape(int64_t batch, int64_t size, int64_t channels,
                                           int64_t filters, int64_t filter) {
  return (attnpress_conv2d_shape){.batch = batch,
                                  .height = size,
                                  .width = size,
                                  .channels = channels,
                                  .filters = filters,
                                  .filter_height = filter,
                                  .filter_width = filter,
                                  .dtype = ATTNPRESS_BF16};
}

/* Copies at shapes where those of the other kind took 1.5 times as long, or more, on an H200. */
static void test_measured_copies(void **state) {
  (void)state;
  static const struct {
    int backward;
    int64_t batch, size, channels, filters, filter;
    int32_t stride, padding, dilation;
    const char *expected;
  } cases[] = {{0, 16, 112, 8, 64, 7, 2, 3, 1, "fprop_m"},
               {0, 12, 56, 40, 96, 5, 1, 0, 1, "fprop_m"},
               {0, 16, 56, 24, 64, 3, 1, 1, 1, "fprop_m"},
               {0, 13, 28, 240, 8, 7, 2, 0, 1, "fprop_im2col_"},
               {0, 23, 56, 96, 1024, 1, 1, 0, 1, "fprop_im2col_"},
               {1, 73, 56, 64, 32, 1, 1, 0, 2, "dgrad_im2col_"},
               {1, 99, 28, 1024, 32, 3, 2, 1, 1, "dgrad_im2col_"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    attnpress_handle *handle = make_handle();
    attnpress_conv2d_args args = legal_forward();
    attnpress_conv2d_backward_args back = legal_backward();
    args.shape = square_shape(cases[i].batch, cases[i].size, cases[i].channels, cases[i].filters,
                              cases[i].filter);
    args.shape.stride[0] = args.shape.stride[1] = cases[i].stride;
    args.shape.padding[0] = args.shape.padding[1] = cases[i].padding;
    args.shape.dilation[0] = args.shape.dilation[1] = cases[i].dilation;
    back.shape = args.shape;
    back.dweight = back.dbias = NULL;
    cuda->reset();
    if (cases[i].backward)
      assert_ok(attnpress_conv2d_backward(handle, &back, NULL));
    else
      assert_ok(attnpress_conv2d(handle, &args, NULL));
    assert_non_null(strstr(cuda->launch[0].symbol, cases[i].expected));
    attnpress_destroy(handle);
  }
}

/* Blocks at shapes where those of 128 or 256 rows and columns took 1.02 to 1.3 times as long on an
 * H200; and clusters that do not all find room at a time, which took 1.4 times as long. */
static void test_measured_blocks(void **state) {
  (void)state;
  static const struct {
    int pass; /* 0: forward, 1: dx, 2: dweight */
    int64_t batch, size, channels, filters;
    const char *expected;
    uint32_t cluster_max;
  } cases[] = {{0, 64, 28, 128, 128, "fprop_im2col_m192n128", 0},
               {0, 32, 28, 256, 96, "fprop_im2col_m192n128", 0},
               {1, 64, 28, 128, 128, "dgrad_im2col_m192n128", 0},
               {2, 83, 56, 96, 96, "wgrad_im2col_m128n192", 0},
               {0, 6, 32, 1024, 8, "fprop_im2col_m", 2},
               {1, 2, 56, 64, 512, "dgrad_im2col_m", 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    attnpress_handle *handle = make_handle();
    attnpress_conv2d_args args = legal_forward();
    attnpress_conv2d_backward_args back = legal_backward();
    args.shape =
        square_shape(cases[i].batch, cases[i].size, cases[i].channels, cases[i].filters, 3);
    for (int j = 0; j < 2; ++j)
      args.shape.stride[j] = args.shape.padding[j] = args.shape.dilation[j] = 1;
    back.shape = args.shape;
    back.dbias = NULL;
    if (cases[i].pass == 1)
      back.dweight = NULL;
    else
      back.dx = NULL;
    cuda->reset();
    if (cases[i].pass > 0)
      assert_ok(attnpress_conv2d_backward(handle, &back, NULL));
    else
      assert_ok(attnpress_conv2d(handle, &args, NULL));
    assert_non_null(strstr(cuda->launch[0].symbol, cases[i].expected));
    assert_true(cuda->launch[0].cluster <= cases[i].cluster_max);
    attnpress_destroy(handle);
  }
}

/* dweight in one part where a second launch, for the sum of two, took longer on an H200. */
static void test_measured_parts(void **state) {
  (void)state;
  static const struct {
    int64_t batch, size, channels, filters, filter;
    int32_t stride, padding;
    int launches;
  } cases[] = {
      {1, 28, 64, 96, 5, 1, 2, 1}, {17, 28, 64, 1024, 3, 3, 1, 1}, {53, 28, 64, 64, 3, 1, 1, 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    attnpress_handle *handle = make_handle();
    attnpress_conv2d_backward_args args = legal_backward();
    args.shape = square_shape(cases[i].batch, cases[i].size, cases[i].channels, cases[i].filters,
                              cases[i].filter);
    args.shape.stride[0] = args.shape.stride[1] = cases[i].stride;
    args.shape.padding[0] = args.shape.padding[1] = cases[i].padding;
    args.dx = NULL;
    args.dbias = NULL;
    cuda->reset();
    assert_ok(attnpress_conv2d_backward(handle, &args, NULL));
    assert_int_equal(cuda->launches, cases[i].launches);
    attnpress_destroy(handle);
  }
}

/* Blocks and splits that the caller names; others are refused. */
static void test_choice(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_conv2d_backward_args back = legal_backward();
  attnpress_conv2d_args args = legal_forward();
  attnpress_conv2d_reduce_args sums;
  args.choice = (attnpress_conv2d_choice){ATTNPRESS_CONV2D_IM2COL, 256, 64, 0};
  assert_ok(attnpress_conv2d(handle, &args, NULL));
  assert_non_null(strstr(cuda->launch[0].symbol, "conv2d_fprop_im2col_m256n64_"));
  args.choice.copies = ATTNPRESS_CONV2D_GATHER;
  assert_int_equal(attnpress_conv2d(handle, &args, NULL), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("blocks of 256 x 64; kernels that gather have 128 x 128, 128 x 64, 64 x 128");
  args.choice.block_rows = 64;
  assert_ok(attnpress_conv2d(handle, &args, NULL));
  assert_non_null(strstr(cuda->launch[1].symbol, "conv2d_fprop_m64n64_"));
  back.dx = back.dbias = NULL;
  back.choice = (attnpress_conv2d_choice){ATTNPRESS_CONV2D_IM2COL, 64, 128, 9};
  assert_ok(attnpress_conv2d_backward(handle, &back, NULL));
  assert_non_null(strstr(cuda->launch[2].symbol, "conv2d_wgrad_im2col_m64n128_"));
  memcpy(&sums, cuda->launch[3].args, sizeof sums);
  assert_int_equal(sums.count, 9);
  back.choice.splits = 1; /* no parts, no sums of them */
  assert_ok(attnpress_conv2d_backward(handle, &back, NULL));
  assert_int_equal(cuda->launches, 5);
  back.shape.batch = 0;
  assert_ok(attnpress_conv2d_backward(handle, &back, NULL));
  attnpress_destroy(handle);
}

static void test_plans(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_conv2d_backward_args args = legal_backward();
  attnpress_plan *plan, *range;
  size_t bytes;
  assert_ok(attnpress_plan_conv2d_backward(handle, &args, &options, &plan));
  assert_ok(attnpress_plan_workspace_bytes(plan, &bytes));
  args.workspace_bytes = bytes;
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  args.workspace_bytes = bytes - 1;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_WORKSPACE_TOO_SMALL);
  args.shape.padding[1] = 0;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("padding[1] is 0 and was 1");
  args = legal_backward();
  args.dx = NULL;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("dx is NULL and was given");
  args = legal_backward();
  args.shape.batch = 0; /* any */
  options.range = ATTNPRESS_UP_TO;
  assert_ok(attnpress_plan_conv2d_backward(handle, &args, &options, &range));
  assert_prepared(range, plan);
  assert_int_equal(attnpress_plan_workspace_bytes(range, &bytes), ATTNPRESS_NOT_SUPPORTED);
  args.shape.batch = 7;
  assert_ok(attnpress_plan_run(range, &args, NULL));
  attnpress_plan_destroy(range);
  attnpress_plan_destroy(plan);
  attnpress_conv2d_args forward = legal_forward();
  forward.shape.height = forward.shape.width = 100;
  assert_ok(attnpress_plan_conv2d(handle, &forward, &options, &range));
  assert_ok(attnpress_plan_workspace_bytes(range, &bytes));
  assert_int_equal(bytes, 0);
  forward.shape.height = 101;
  assert_int_equal(attnpress_plan_run(range, &forward, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("height is 101; the plan serves up to 100");
  attnpress_plan_destroy(range);
  attnpress_destroy(handle);
}

static int set_up_conv2d(void **state) {
  const int status = set_up_group(state);
  cuda->args_of("conv2d_fprop", sizeof(attnpress_conv2d_gather_args));
  cuda->args_of("conv2d_dgrad", sizeof(attnpress_conv2d_gather_args));
  cuda->args_of("conv2d_wgrad", sizeof(attnpress_conv2d_wgrad_args));
  cuda->args_of("conv2d_fprop_im2col", sizeof(attnpress_conv2d_im2col_args));
  cuda->args_of("conv2d_dgrad_im2col", sizeof(attnpress_conv2d_im2col_args));
  cuda->args_of("conv2d_wgrad_im2col", sizeof(attnpress_conv2d_im2col_wgrad_args));
  cuda->args_of("conv2d_dout", sizeof(attnpress_conv2d_dout_args));
  cuda->args_of("conv2d_reduce", sizeof(attnpress_conv2d_reduce_args));
  return status;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cpu), cmocka_unit_test(test_fp64), TEST(test_bad_input),
      TEST(test_launch_forward),  TEST(test_launch_backward),  TEST(test_launch_im2col),
      TEST(test_tails),           TEST(test_shared_tiles),     TEST(test_measured_copies),
      TEST(test_measured_blocks), TEST(test_measured_parts),   TEST(test_choice),
      TEST(test_plans),
  };
  return cmocka_run_group_tests_name("conv2d", tests, set_up_conv2d, tear_down_group);
}
