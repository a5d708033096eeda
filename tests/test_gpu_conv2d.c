/* Convolutions on the present GPU, against float64: shapes of all kinds, dtypes, bias, ReLU, gaps,
 * forward and backward; results that are read at once, again and again; images more than 2^31 elements
 * apart. Ends with status 77 where there is no CUDA device. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "../tools/conv2d/reference.h"
#include "../tools/rows.h"
#include "attnpress/conv2d.h"
#include "gpu_support.h"

enum { X, WEIGHT, BIAS, OUT, DOUT, DX, DWEIGHT, DBIAS, TENSORS };

typedef struct call {
  conv2d_case c;
  int backward, copies;
  size_t bytes[TENSORS];
  char *host[TENSORS];
  CUdeviceptr device[TENSORS], workspace;
  size_t workspace_bytes;
} call;

static void set_strides(int64_t height, int64_t width, int64_t channels, int gaps,
                        int64_t stride[3]) {
  conv2d_pack(height, width, channels, stride);
  if (!gaps)
    return;
  stride[2] = channels + 8;
  stride[1] = width * stride[2] + 16;
  stride[0] = height * stride[1] + 24;
}

static void lay_out(call *k, int gaps) {
  conv2d_case *c = &k->c;
  const attnpress_conv2d_shape *s = &c->shape;
  CHECK_OK(attnpress_conv2d_output(s, &c->out_height, &c->out_width));
  set_strides(s->height, s->width, s->channels, gaps, c->x_stride);
  set_strides(s->height, s->width, s->channels, gaps, c->dx_stride);
  set_strides(c->out_height, c->out_width, s->filters, gaps, c->out_stride);
  set_strides(c->out_height, c->out_width, s->filters, gaps, c->dout_stride);
  const size_t in = (size_t)conv2d_span(s->batch, s->height, s->width, s->channels, c->x_stride);
  const size_t out =
      (size_t)conv2d_span(s->batch, c->out_height, c->out_width, s->filters, c->out_stride);
  const size_t weights = (size_t)(conv2d_taps(c) * s->channels), filters = (size_t)s->filters;
  const size_t count[TENSORS] = {in, weights, filters, out, out, in, weights, filters};
  for (int i = 0; i < TENSORS; ++i)
    k->bytes[i] = count[i] * 2;
}

/* With a bias; its gradient backward. */
static void open_call(call *k, const attnpress_conv2d_shape *shape, int backward, int gaps) {
  *k = (call){.c = {.shape = *shape}, .backward = backward};
  lay_out(k, gaps);
  const double size =
      4.0 / (double)(shape->filter_height * shape->filter_width * shape->channels) + 0.05;
  for (int i = X; i < TENSORS; ++i) {
    const int64_t count = (int64_t)(k->bytes[i] / 2);
    k->host[i] = malloc(k->bytes[i]);
    memset(k->host[i], 0xff, k->bytes[i]);
    if (i < OUT || i == DOUT || (i == OUT && backward))
      rows_fill(k->host[i], 1, count, count, shape->dtype, 0.0, i == WEIGHT ? size : 1.0,
                (uint64_t)i);
    CHECK_CUDA(gpu.mem_alloc(&k->device[i], k->bytes[i]));
    CHECK_CUDA(gpu.memcpy_htod(k->device[i], k->host[i], k->bytes[i]));
  }
  conv2d_case *c = &k->c;
  c->x = k->host[X], c->weight = k->host[WEIGHT], c->bias = k->host[BIAS], c->out = k->host[OUT];
  c->dout = k->host[DOUT], c->dx = k->host[DX], c->dweight = k->host[DWEIGHT];
  c->dbias = k->host[DBIAS];
}

static void close_call(call *k) {
  for (int i = X; i < TENSORS; ++i) {
    free(k->host[i]);
    gpu.mem_free(k->device[i]);
  }
  if (k->workspace)
    gpu.mem_free(k->workspace);
}

static void *data_of(const call *k, int which) {
  return (void *)(uintptr_t)k->device[which];
}

static attnpress_status run_backward(call *k, CUstream stream) {
  const conv2d_case *c = &k->c;
  attnpress_conv2d_backward_args args = ATTNPRESS_CONV2D_BACKWARD_ARGS_INIT;
  args.shape = c->shape;
  args.x = data_of(k, X), args.weight = data_of(k, WEIGHT), args.out = data_of(k, OUT);
  args.dout = data_of(k, DOUT), args.dx = data_of(k, DX), args.dweight = data_of(k, DWEIGHT);
  args.dbias = data_of(k, DBIAS);
  memcpy(args.x_stride, c->x_stride, sizeof args.x_stride);
  memcpy(args.out_stride, c->out_stride, sizeof args.out_stride);
  memcpy(args.dout_stride, c->dout_stride, sizeof args.dout_stride);
  memcpy(args.dx_stride, c->dx_stride, sizeof args.dx_stride);
  args.choice.copies = k->copies;
  if (!k->workspace) {
    attnpress_plan *plan;
    CHECK_OK(attnpress_plan_conv2d_backward(handle, &args, NULL, &plan));
    CHECK_OK(attnpress_plan_workspace_bytes(plan, &k->workspace_bytes));
    attnpress_plan_destroy(plan);
    CHECK_CUDA(gpu.mem_alloc(&k->workspace, k->workspace_bytes + 16));
  }
  args.workspace = (void *)(uintptr_t)k->workspace;
  args.workspace_bytes = k->workspace_bytes;
  return attnpress_conv2d_backward(handle, &args, stream);
}

static attnpress_status run(call *k, CUstream stream) {
  const conv2d_case *c = &k->c;
  if (k->backward)
    return run_backward(k, stream);
  attnpress_conv2d_args args = ATTNPRESS_CONV2D_ARGS_INIT;
  args.shape = c->shape;
  args.x = data_of(k, X), args.weight = data_of(k, WEIGHT), args.bias = data_of(k, BIAS);
  args.out = data_of(k, OUT);
  memcpy(args.x_stride, c->x_stride, sizeof args.x_stride);
  memcpy(args.out_stride, c->out_stride, sizeof args.out_stride);
  args.choice.copies = k->copies;
  return attnpress_conv2d(handle, &args, stream);
}

static int is_result(const call *k, int which) {
  return k->backward ? which >= DX : which == OUT;
}

/* Nothing waits in between: the copies come after the kernels on their stream. */
static void download(const call *k) {
  for (int i = X; i < TENSORS; ++i)
    if (is_result(k, i))
      CHECK_CUDA(gpu.memcpy_dtoh(k->host[i], k->device[i], k->bytes[i]));
}

/* Every `step`-th pixel and tap. */
static void check_result(const call *k, const char *what, int64_t step) {
  conv2d_error e = {0};
  const attnpress_conv2d_shape *s = &k->c.shape;
  for (int64_t i = 0; !k->backward && i < conv2d_out_pixels(&k->c); i += step)
    conv2d_check_out(&k->c, i, &e);
  for (int64_t i = 0; k->backward && i < conv2d_dx_pixels(&k->c); i += step)
    conv2d_check_dx(&k->c, i, &e);
  for (int64_t i = 0; k->backward && i < conv2d_taps(&k->c); i += step)
    conv2d_check_dweight(&k->c, i, &e);
  if (k->backward)
    conv2d_check_dbias(&k->c, &e);
  ++checks;
  if (!(e.ratio <= 1.0)) {
    ++failures;
    printf("FAILED: %s, dtype %d, %lld of %lld x %lld x %lld, %lld filters of %lld x %lld, stride "
           "%d %d: %s (%lld, %lld, %lld, %lld) is %.9g, expected %.9g\n",
           what, (int)s->dtype, (long long)s->batch, (long long)s->height, (long long)s->width,
           (long long)s->channels, (long long)s->filters, (long long)s->filter_height,
           (long long)s->filter_width, s->stride[0], s->stride[1], e.what, (long long)e.at[0],
           (long long)e.at[1], (long long)e.at[2], (long long)e.at[3], e.value, e.expected);
  }
}

static attnpress_conv2d_shape shape_of(const int *row, int dtype, int relu) {
  return (attnpress_conv2d_shape){.batch = row[0],
                                  .height = row[1],
                                  .width = row[2],
                                  .channels = row[3],
                                  .filters = row[4],
                                  .filter_height = row[5],
                                  .filter_width = row[6],
                                  .stride = {row[7], row[8]},
                                  .padding = {row[9], row[10]},
                                  .dilation = {row[11], row[12]},
                                  .dtype = dtype,
                                  .relu = relu};
}

static void test_table(void) {
  static const int rows[][13] = {
      {1, 1, 1, 8, 8, 1, 1, 1, 1, 0, 0, 1, 1},      {2, 14, 14, 64, 64, 3, 3, 1, 1, 1, 1, 1, 1},
      {3, 15, 13, 72, 136, 3, 3, 2, 2, 1, 1, 1, 1}, {1, 9, 9, 16, 16, 1, 1, 2, 2, 0, 0, 1, 1},
      {2, 11, 10, 8, 24, 5, 3, 2, 3, 2, 0, 1, 2},   {1, 10, 11, 16, 8, 3, 3, 4, 2, 1, 3, 2, 2},
      {4, 20, 20, 32, 264, 1, 1, 1, 1, 0, 0, 1, 1}, {2, 7, 7, 256, 128, 3, 3, 1, 1, 1, 1, 1, 1},
      {9, 30, 31, 24, 40, 3, 3, 1, 1, 2, 2, 2, 2},  {1, 40, 40, 8, 8, 7, 7, 2, 2, 3, 3, 1, 1},
      {5, 17, 23, 64, 192, 3, 2, 2, 1, 1, 0, 1, 2}, {3, 25, 9, 128, 64, 1, 1, 2, 2, 0, 0, 1, 1},
      {2, 14, 14, 296, 32, 3, 3, 2, 2, 1, 1, 1, 1}, {3, 9, 9, 64, 248, 3, 3, 1, 1, 1, 1, 2, 2},
      {5, 28, 28, 96, 520, 1, 1, 1, 1, 0, 0, 1, 1}, {1, 7, 7, 512, 112, 5, 5, 1, 1, 2, 2, 1, 1},
      {6, 12, 12, 184, 168, 3, 3, 2, 2, 1, 1, 1, 1}};
  /* By threads, and by the copy engine where there is one and it serves the shape. */
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    for (int way = 0; way < 16; ++way) {
      const attnpress_conv2d_shape shape =
          shape_of(rows[i], way & 1 ? ATTNPRESS_BF16 : ATTNPRESS_FP16, way >> 1 & 1);
      call k;
      open_call(&k, &shape, way >> 2 & 1, ((int)i + way) % 3 == 0);
      k.copies = way >> 3 ? ATTNPRESS_CONV2D_IM2COL : ATTNPRESS_CONV2D_GATHER;
      CHECK_OK(run(&k, NULL));
      download(&k);
      check_result(&k, k.backward ? "backward" : "forward", 7);
      close_call(&k);
    }
}

/* The same bits a thousand times, with ReLU. */
static void test_repeats(int backward, int copies) {
  static const int row[13] = {8, 28, 28, 64, 128, 3, 3, 1, 1, 1, 1, 1, 1};
  const attnpress_conv2d_shape shape = shape_of(row, ATTNPRESS_BF16, 1);
  call k;
  char *first[TENSORS] = {NULL};
  open_call(&k, &shape, backward, 0);
  k.copies = copies;
  for (int n = 0; n < 1000; ++n) {
    for (int i = X; i < TENSORS; ++i)
      if (is_result(&k, i))
        CHECK_CUDA(gpu.memset_d8_async(k.device[i], 0xff, k.bytes[i], NULL));
    CHECK_OK(run(&k, NULL));
    download(&k);
    for (int i = X; i < TENSORS; ++i) {
      if (!is_result(&k, i))
        continue;
      if (n == 0)
        first[i] = memcpy(malloc(k.bytes[i]), k.host[i], k.bytes[i]);
      else if (memcmp(first[i], k.host[i], k.bytes[i]) != 0) {
        CHECK(!"the same bits again");
        n = 1000;
      }
    }
  }
  check_result(&k, "repeated", 97);
  for (int i = 0; i < TENSORS; ++i)
    free(first[i]);
  close_call(&k);
}

/* Images of x and of out lie 2^31 elements and more apart. */
static void test_far(void) {
  static const int row[13] = {2, 6, 6, 16, 24, 3, 3, 1, 1, 1, 1, 1, 1};
  const attnpress_conv2d_shape shape = shape_of(row, ATTNPRESS_FP16, 0);
  const int64_t far = ((int64_t)1 << 31) + 64;
  size_t free_bytes = 0, total_bytes;
  CUdeviceptr apart[2];
  call k;
  gpu.mem_get_info(&free_bytes, &total_bytes);
  if (free_bytes < (size_t)far * 4 + (1u << 30)) {
    printf("skipped: images far apart: too little memory is free\n");
    return;
  }
  open_call(&k, &shape, 0, 0);
  const CUdeviceptr near[2] = {k.device[X], k.device[OUT]};
  const size_t bytes[2] = {k.bytes[X] / 2, k.bytes[OUT] / 2}; /* of an image */
  int64_t *stride[2] = {k.c.x_stride, k.c.out_stride}, packed[2];
  for (int i = 0; i < 2; ++i) {
    CHECK_CUDA(gpu.mem_alloc(&apart[i], (size_t)far * 2 + bytes[i]));
    packed[i] = *stride[i];
    *stride[i] = far;
  }
  for (int n = 0; n < 2; ++n)
    CHECK_CUDA(
        gpu.memcpy_htod(apart[0] + (CUdeviceptr)(n * far * 2), k.host[X] + n * bytes[0], bytes[0]));
  k.device[X] = apart[0], k.device[OUT] = apart[1];
  CHECK_OK(run(&k, NULL));
  for (int n = 0; n < 2; ++n)
    CHECK_CUDA(gpu.memcpy_dtoh(k.host[OUT] + n * bytes[1], apart[1] + (CUdeviceptr)(n * far * 2),
                               bytes[1]));
  for (int i = 0; i < 2; ++i) {
    *stride[i] = packed[i];
    gpu.mem_free(apart[i]);
  }
  k.device[X] = near[0], k.device[OUT] = near[1];
  check_result(&k, "images far apart", 1);
  close_call(&k);
}

static void tests(void) {
  test_table();
  for (int copies = ATTNPRESS_CONV2D_GATHER; copies <= ATTNPRESS_CONV2D_IM2COL; ++copies) {
    test_repeats(0, copies);
    test_repeats(1, copies);
  }
  test_far();
}

int main(void) {
  return run_on_gpu(tests);
}
