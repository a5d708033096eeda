/* The outer product on the present GPU, against float64: shapes of all kinds, every dtype, summed and
 * not, forward and backward; functions of the caller's in place of the product; results that are read
 * at once, again and again; more than 2^31 elements.
 * Ends with status 77 where there is no CUDA device. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "../tools/outer/reference.h"
#include "../tools/rows.h"
#include "attnpress/outer.h"
#include "gpu_support.h"

enum { X, Y, C, DX, DY, TENSORS };

typedef struct call {
  outer_case c;
  size_t bytes[TENSORS];
  char *host[TENSORS];
  CUdeviceptr device[TENSORS], workspace;
  size_t workspace_bytes;
  const attnpress_outer_mod *mod;
  int unsplit; /* a sum gets no workspace */
} call;

static void open_call(call *k, int64_t batch, int64_t rows, int64_t columns, int dtype, int summed,
                      int backward, int odd) {
  const int64_t gap = odd ? 3 : 0, size = dtype == ATTNPRESS_FP32 ? 4 : 2;
  const int64_t entries = summed ? 1 : batch;
  const int64_t count[TENSORS] = {
      [X] = batch, [Y] = batch, [C] = entries * rows, [DX] = batch, [DY] = batch};
  const int64_t width[TENSORS] = {
      [X] = rows, [Y] = columns, [C] = columns, [DX] = rows, [DY] = columns};
  *k = (call){.c = {.backward = backward,
                    .summed = summed,
                    .dtype = dtype,
                    .batch = batch,
                    .rows = rows,
                    .columns = columns,
                    .x_stride = rows + gap,
                    .y_stride = columns + gap,
                    .c_batch_stride = summed ? 0 : rows * (columns + gap),
                    .c_row_stride = columns + gap,
                    .dx_stride = rows + gap,
                    .dy_stride = columns + gap}};
  for (int i = X; i < TENSORS; ++i) {
    k->bytes[i] = (size_t)(count[i] * (width[i] + gap) * size);
    k->host[i] = malloc(k->bytes[i]);
    memset(k->host[i], 0xff, k->bytes[i]);
    if (i < C || (i == C && backward))
      rows_fill(k->host[i], count[i], width[i], width[i] + gap, dtype, 0.0, 1.0, (uint64_t)i);
    CHECK_CUDA(gpu.mem_alloc(&k->device[i], k->bytes[i]));
    CHECK_CUDA(gpu.memcpy_htod(k->device[i], k->host[i], k->bytes[i]));
  }
  k->c.x = k->host[X];
  k->c.y = k->host[Y];
  k->c.c = k->host[C];
  k->c.dx = k->host[DX];
  k->c.dy = k->host[DY];
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

static attnpress_status run_backward(call *k) {
  const outer_case *c = &k->c;
  attnpress_outer_backward_args args = ATTNPRESS_OUTER_BACKWARD_ARGS_INIT;
  args.x = data_of(k, X), args.y = data_of(k, Y), args.dc = data_of(k, C);
  args.dx = data_of(k, DX), args.dy = data_of(k, DY);
  args.batch = c->batch, args.rows = c->rows, args.columns = c->columns;
  args.x_stride = c->x_stride, args.y_stride = c->y_stride, args.dc_row_stride = c->c_row_stride;
  args.dx_stride = c->dx_stride, args.dy_stride = c->dy_stride;
  args.dtype = c->dtype, args.summed = c->summed;
  args.mod = k->mod;
  if (!k->workspace) {
    attnpress_plan *plan;
    CHECK_OK(attnpress_plan_outer_backward(handle, &args, NULL, &plan));
    CHECK_OK(attnpress_plan_workspace_bytes(plan, &k->workspace_bytes));
    attnpress_plan_destroy(plan);
    CHECK_CUDA(gpu.mem_alloc(&k->workspace, k->workspace_bytes + 16));
  }
  args.workspace = (void *)(uintptr_t)k->workspace;
  args.workspace_bytes = k->workspace_bytes;
  return attnpress_outer_backward(handle, &args, NULL);
}

static attnpress_status run(call *k) {
  const outer_case *c = &k->c;
  if (c->backward)
    return run_backward(k);
  attnpress_outer_args args = ATTNPRESS_OUTER_ARGS_INIT;
  args.x = data_of(k, X), args.y = data_of(k, Y), args.c = data_of(k, C);
  args.batch = c->batch, args.rows = c->rows, args.columns = c->columns;
  args.x_stride = c->x_stride, args.y_stride = c->y_stride, args.c_row_stride = c->c_row_stride;
  args.dtype = c->dtype, args.summed = c->summed;
  args.mod = k->mod;
  if (c->summed && !k->unsplit) {
    args.workspace_bytes = SIZE_MAX;
    if (!k->workspace) {
      attnpress_plan *plan;
      CHECK_OK(attnpress_plan_outer(handle, &args, NULL, &plan));
      CHECK_OK(attnpress_plan_workspace_bytes(plan, &k->workspace_bytes));
      attnpress_plan_destroy(plan);
      CHECK_CUDA(gpu.mem_alloc(&k->workspace, k->workspace_bytes + 16));
    }
    args.workspace = (void *)(uintptr_t)k->workspace;
    args.workspace_bytes = k->workspace_bytes;
  }
  return attnpress_outer(handle, &args, NULL);
}

/* Nothing waits in between: the copies come after the kernels on their stream. */
static void download(const call *k) {
  for (int i = C; i < TENSORS; ++i)
    CHECK_CUDA(gpu.memcpy_dtoh(k->host[i], k->device[i], k->bytes[i]));
}

static void check_result(const call *k, const char *what) {
  outer_error e = {0};
  outer_check(&k->c, &e);
  ++checks;
  if (!(e.ratio <= 1.0)) {
    ++failures;
    printf("FAILED: %s, %s%s, dtype %d, %lld x %lld x %lld: %s, entry %lld, row %lld, column %lld "
           "is %.9g, expected %.9g\n",
           what, k->c.backward ? "backward" : "forward", k->c.summed ? ", summed" : "",
           (int)k->c.dtype, (long long)k->c.batch, (long long)k->c.rows, (long long)k->c.columns,
           e.what, (long long)e.batch, (long long)e.row, (long long)e.column, e.value, e.expected);
  }
}

static void test_table(void) {
  static const int64_t shapes[][3] = {
      {1, 1, 1},      {3, 17, 5},     {2, 64, 64},   {5, 100, 257},  {1, 300, 4096},
      {5000, 40, 3},  {9, 1, 40001},  {40, 33, 128}, {2, 1025, 999}, {70, 8, 2500},
      {900, 106, 60}, {3000, 16, 20}, {7000, 1, 77}, {64, 31, 1001}, {2, 3, 40001}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype)
      for (int way = 0; way < 8; ++way) {
        call k;
        open_call(&k, shapes[i][0], shapes[i][1], shapes[i][2], dtype, way & 1, way >> 1 & 1,
                  way >> 2);
        CHECK_OK(run(&k));
        download(&k);
        check_result(&k, way >> 2 ? "odd rows" : "packed");
        close_call(&k);
      }
}

/* Sums over much: split, and not. */
static void test_long_sums(void) {
  static const int64_t shapes[][3] = {
      {3000, 65, 40}, {1030, 200, 130}, {50, 1500, 70}, {64, 33, 2049}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype)
      for (int way = 0; way < 6; ++way) {
        call k;
        open_call(&k, shapes[i][0], shapes[i][1], shapes[i][2], dtype, 1, way % 3 == 2, way / 3);
        k.unsplit = way % 3 == 1;
        CHECK_OK(run(&k));
        download(&k);
        check_result(&k, k.unsplit ? "a sum without a workspace" : "a long sum");
        close_call(&k);
      }
}

/* Gradients of sums over enough to be products: entries, rows and columns that are many. */
static void test_long_gradients(void) {
  static const int64_t shapes[][3] = {{700, 260, 205}, {40, 33, 28700}, {17, 1500, 1500}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype)
      for (int odd = 0; odd < 2; ++odd) {
        call k;
        open_call(&k, shapes[i][0], shapes[i][1], shapes[i][2], dtype, 1, 1, odd);
        CHECK_OK(run(&k));
        download(&k);
        check_result(&k, odd ? "odd rows of much" : "much");
        close_call(&k);
      }
}

/* Functions with every derivative there is, and one that has no value where x or y is 0: another
 * number compiles nothing. */
static void test_functions(void) {
  static const char *const texts[] = {
      "x * y", "x > y ? x / y + a * fabsf(x) : n * y / x",
      "fmaxf(tanhf(x * y), a * x) + fminf(expf(-x * x), exp2f(-y * y)) + logf(1.5f + x * x)\n"
      "+ log1pf(fabsf(x + y)) - sqrtf(1 + x * x + y * y) / (2 + sinf(x) * cosf(y)) + erff(x - y)\n"
      "+ powf(1.25f + fabsf(x), a * y) + log2f(2.0f + y * y)"};
  static const int64_t shapes[][3] = {{3, 17, 5}, {5, 100, 257}, {33, 70, 300}};
  attnpress_score_scalar scalars[] = {{"a", ATTNPRESS_FP32, 0.5f, 0, 0},
                                      {"n", ATTNPRESS_INT32, 0.0f, 3, 0}};
  attnpress_outer_mod mod = ATTNPRESS_OUTER_MOD_INIT;
  mod.scalars = scalars;
  mod.scalar_count = 2;
  for (size_t t = 0; t < sizeof texts / sizeof *texts; ++t)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
      for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype)
        for (int way = 0; way < 4; ++way) {
          call k;
          char why[256];
          scalars[0].value = 0.5f + 0.25f * (float)i;
          mod.value = texts[t];
          snippet *f = snippet_parse_function(texts[t], scalars, 2, why, sizeof why);
          CHECK(f != NULL);
          open_call(&k, shapes[i][0], shapes[i][1], shapes[i][2], dtype, way & 1, way >> 1, i == 1);
          k.mod = &mod;
          k.c.f = f;
          CHECK_OK(run(&k));
          download(&k);
          check_result(&k, texts[t]);
          close_call(&k);
          snippet_free(f);
        }
}

/* The same bits a thousand times. */
static void test_repeats(int summed, int backward) {
  call k;
  open_call(&k, 9, 500, 700, ATTNPRESS_BF16, summed, backward, 0);
  char *first[TENSORS] = {NULL};
  for (int n = 0; n < 1000; ++n) {
    for (int i = backward ? DX : C; i < (backward ? TENSORS : DX); ++i)
      CHECK_CUDA(gpu.memset_d8_async(k.device[i], 0xff, k.bytes[i], NULL));
    CHECK_OK(run(&k));
    for (int i = backward ? DX : C; i < (backward ? TENSORS : DX); ++i) {
      CHECK_CUDA(gpu.memcpy_dtoh(k.host[i], k.device[i], k.bytes[i]));
      if (n == 0)
        first[i] = memcpy(malloc(k.bytes[i]), k.host[i], k.bytes[i]);
      else if (memcmp(first[i], k.host[i], k.bytes[i]) != 0) {
        CHECK(!"the same bits again");
        n = 1000;
      }
    }
  }
  check_result(&k, "repeated");
  for (int i = 0; i < TENSORS; ++i)
    free(first[i]);
  close_call(&k);
}

/* c is not copied back except for its last rows. */
static void test_large(void) {
  enum { BATCH = 2200, SIDE = 1000 };
  size_t free_bytes = 0, total_bytes;
  CUdeviceptr c;
  call k;
  gpu.mem_get_info(&free_bytes, &total_bytes);
  if (free_bytes < (size_t)BATCH * SIDE * SIDE * 2 + (1u << 30)) {
    printf("skipped: more than 2^31 elements: too little memory is free\n");
    return;
  }
  open_call(&k, BATCH, SIDE, SIDE, ATTNPRESS_FP16, 1, 0, 0); /* with a small c */
  CHECK_CUDA(gpu.mem_alloc(&c, (size_t)BATCH * SIDE * SIDE * 2));
  const CUdeviceptr small = k.device[C];
  k.device[C] = c;
  k.c.summed = 0;
  CHECK_OK(run(&k));
  CHECK_CUDA(gpu.memcpy_dtoh(k.host[C], c + (CUdeviceptr)(BATCH - 1) * SIDE * SIDE * 2,
                             (size_t)SIDE * SIDE * 2));
  k.c.batch = 1;
  k.c.x = k.host[X] + (int64_t)(BATCH - 1) * SIDE * 2;
  k.c.y = k.host[Y] + (int64_t)(BATCH - 1) * SIDE * 2;
  k.c.c_batch_stride = SIDE * SIDE;
  check_result(&k, "more than 2^31 elements");
  gpu.mem_free(c);
  k.device[C] = small;
  close_call(&k);
}

static void tests(void) {
  test_table();
  test_long_sums();
  test_long_gradients();
  test_functions();
  for (int way = 0; way < 4; ++way)
    test_repeats(way & 1, way >> 1);
  test_large();
}

int main(void) {
  return run_on_gpu(tests);
}
