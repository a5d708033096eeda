/* The matrix product in place without a GPU: numbers on the CPU, what bad input gets, and what a
 * call is launched with (the driver and NVRTC are stand-ins). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../tools/matmul/reference.h"
#include "../tools/rows.h"
#include "api_support.h"
#include "attnpress/args/matmul.h"
#include "attnpress/matmul.h"
#include "cpu/element.h"
#include "matmul/matmul.h"

/* ---- Numbers on the CPU ---------------------------------------------------------------------- */

enum { MATMUL_ROWS = 37, MATMUL_N = 136, GAP = 8 };

typedef struct buffers {
  _Alignas(16) uint16_t x[MATMUL_ROWS][MATMUL_N + GAP];
  _Alignas(16) float w[MATMUL_N][MATMUL_N + GAP]; /* 16-bit W lies at its begin */
} buffers;

/* Both products, W of each dtype, on one thread and on several: the same bits; what lies between
 * the rows of x stays. */
static void check_cpu(int32_t dtype, int32_t w_dtype, int transposed) {
  buffers *b = malloc(sizeof *b), *before = malloc(sizeof *b), *other = malloc(sizeof *b);
  const int64_t stride = MATMUL_N + GAP;
  memset(before, 0xff, sizeof *before);
  rows_fill(before->x, MATMUL_ROWS, MATMUL_N, stride, dtype, 0.1, 1.0, 1);
  rows_fill(before->w, MATMUL_N, MATMUL_N, stride, w_dtype, 0.0, 1.0, 2);
  for (int threads = 1; threads < 4; threads += 2) {
    attnpress_handle *handle = make_cpu_handle(threads);
    memcpy(b, before, sizeof *b);
    attnpress_matmul_args args = ATTNPRESS_MATMUL_ARGS_INIT;
    args.x = b->x, args.w = b->w;
    args.rows = MATMUL_ROWS, args.n = MATMUL_N;
    args.x_stride = args.w_stride = stride;
    args.dtype = dtype, args.w_dtype = w_dtype, args.transposed = transposed;
    assert_ok(attnpress_matmul(handle, &args, NULL));
    const matmul_case c = {dtype, w_dtype, transposed, MATMUL_ROWS, MATMUL_N, before->x,
                           b->x,  b->w,    stride,     stride,      stride};
    matmul_error e = {0};
    matmul_check(&c, &e);
    if (!(e.ratio <= 1.0))
      fail_msg("row %lld, column %lld is %.9g, expected %.9g", (long long)e.row,
               (long long)e.column, e.value, e.expected);
    assert_int_equal(e.elements, MATMUL_ROWS * MATMUL_N);
    for (int row = 0; row < MATMUL_ROWS; ++row)
      assert_memory_equal(b->x[row] + MATMUL_N, before->x[row] + MATMUL_N, GAP * 2);
    assert_memory_equal(b->w, before->w, sizeof b->w);
    if (threads > 1)
      assert_memory_equal(b, other, sizeof *b);
    memcpy(other, b, sizeof *b);
    attnpress_destroy(handle);
  }
  free(b), free(before), free(other);
}

static void test_cpu(void **state) {
  (void)state;
  for (int32_t dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_BF16; ++dtype)
    for (int wide = 0; wide < 2; ++wide)
      for (int transposed = 0; transposed < 2; ++transposed)
        check_cpu(dtype, wide ? ATTNPRESS_FP32 : dtype, transposed);
}

/* Known numbers: x W where W moves columns, x W^T where it moves them back. */
static void test_permutation(void **state) {
  (void)state;
  enum { N = 8 };
  _Alignas(16) uint16_t x[N];
  _Alignas(16) float w[N][N] = {{0}};
  attnpress_handle *handle = make_cpu_handle(1);
  for (int i = 0; i < N; ++i) {
    rows_store(x, i, i + 1, ATTNPRESS_FP16);
    w[i][(i + 3) % N] = 1.0f;
  }
  attnpress_matmul_args args = ATTNPRESS_MATMUL_ARGS_INIT;
  args.x = x, args.w = w, args.rows = 1, args.n = N;
  args.dtype = ATTNPRESS_FP16, args.w_dtype = ATTNPRESS_FP32;
  assert_ok(attnpress_matmul(handle, &args, NULL));
  for (int i = 0; i < N; ++i)
    assert_true(rows_load(x, (i + 3) % N, ATTNPRESS_FP16) == i + 1);
  args.transposed = 1;
  assert_ok(attnpress_matmul(handle, &args, NULL));
  for (int i = 0; i < N; ++i)
    assert_true(rows_load(x, i, ATTNPRESS_FP16) == i + 1);
  args.rows = 0; /* nothing to do, and nothing looked at */
  args.x = NULL;
  assert_ok(attnpress_matmul(handle, &args, NULL));
  attnpress_destroy(handle);
}

/* ---- Bad input ------------------------------------------------------------------------------- */

static attnpress_matmul_args legal(void) {
  attnpress_matmul_args args = ATTNPRESS_MATMUL_ARGS_INIT;
  args.x = (void *)0x100000000;
  args.w = (void *)0x2000000;
  args.rows = 1000;
  args.n = 512;
  args.dtype = ATTNPRESS_BF16;
  return args;
}

#define SPOIL(name, statement)                                                                     \
  static void name(attnpress_matmul_args *a) {                                                     \
    statement;                                                                                     \
  }
SPOIL(rows_negative, a->rows = -1)
SPOIL(n_odd, a->n = 516)
SPOIL(n_large, a->n = 4104)
SPOIL(n_negative, a->n = -8)
SPOIL(dtype_none, a->dtype = 0)
SPOIL(dtype_fp32, a->dtype = ATTNPRESS_FP32)
SPOIL(w_other, a->w_dtype = ATTNPRESS_FP16)
SPOIL(transposed_2, a->transposed = 2)
SPOIL(reserved_1, a->reserved = 1)
SPOIL(x_null, a->x = NULL)
SPOIL(w_null, a->w = NULL)
SPOIL(x_misaligned, a->x = (void *)0x100000008)
SPOIL(w_misaligned, a->w = (void *)0x2000002)
SPOIL(w_is_x, a->w = a->x)
SPOIL(w_in_x, a->w = (void *)0x1000f9c00)
SPOIL(x_overlaps, a->x_stride = 504)
SPOIL(x_negative, a->x_stride = -512)
SPOIL(x_stride_odd, a->x_stride = 516)
SPOIL(w_stride_odd, a->w_stride = 516)
SPOIL(w_stride_fp32, (a->w_dtype = ATTNPRESS_FP32, a->w_stride = 514))
SPOIL(x_spans_much, a->x_stride = INT64_MAX / 16 * 8)
SPOIL(struct_small, a->struct_size = sizeof *a - 8)

static const struct {
  void (*spoil)(attnpress_matmul_args *args);
  const char *says;
} bad_inputs[] = {
    {rows_negative, "rows is -1"},
    {n_odd, "n is 516; it must be a multiple of 8 up to 4096"},
    {n_large, "n is 4104"},
    {n_negative, "n is -8"},
    {dtype_none, "dtype is 0"},
    {dtype_fp32, "dtype is 3"},
    {w_other, "w_dtype is 1"},
    {transposed_2, "transposed is 2"},
    {reserved_1, "reserved is 1"},
    {x_null, "x is NULL"},
    {w_null, "w is NULL"},
    {x_misaligned, "x is 0x100000008"},
    {w_misaligned, "w is 0x2000002"},
    {w_is_x, "w at 0x100000000 has elements of x at 0x100000000"},
    {w_in_x, "w at 0x1000f9c00 has elements of x"},
    {x_overlaps, "x_stride is 504"},
    {x_negative, "x_stride is -512"},
    {x_stride_odd, "x_stride is 516"},
    {w_stride_odd, "w_stride is 516"},
    {w_stride_fp32, "w_stride is 514 elements; it must be a multiple of 4"},
    {x_spans_much, "x_stride"},
    {struct_small, "struct_size"},
};

static void test_bad_input(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  assert_refused(handle, attnpress_matmul, attnpress_matmul_args, legal, bad_inputs);
  attnpress_matmul_args args = legal();
  args.rows = INT64_C(1) << 40;
  args.n = args.x_stride = 8;
  args.w_stride = 0;
  assert_int_equal(attnpress_matmul(handle, &args, NULL), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("a launch has at most");
  assert_int_equal(cuda->launches, 0);
  attnpress_destroy(handle);
}

/* Exactly those W are refused that have elements of x: rows of one may lie between the other's. */
static void test_overlaps(void **state) {
  enum { PLACES = 1024, UNIT = 16 /* bytes */ };
  uint32_t random = 1;
  int refused = 0, taken = 0;
  (void)state;
  for (int i = 0; i < 20000; ++i) {
    char is_x[PLACES] = {0};
    int overlaps = 0;
    int64_t r[5];
    for (int k = 0; k < 5; ++k) {
      random = random * 1664525u + 1013904223u;
      r[k] = random >> 20;
    }
    ap_matmul_problem p = {.rows = 1 + r[0] % 6,
                           .n = 8 + r[0] % 2 * 8,
                           .dtype = ATTNPRESS_FP16,
                           .w_dtype = i % 3 ? ATTNPRESS_FP16 : ATTNPRESS_FP32};
    p.x_stride = p.n + r[1] % 4 * 8;
    p.w_stride = p.n + (i % 2 ? r[2] % 4 * 8 : 0);
    const int64_t x = 300 + r[3] % 64, w = 300 + r[4] % 64, size = ap_element_bytes(p.w_dtype);
    p.x = (void *)(uintptr_t)(UNIT * x);
    p.w = (void *)(uintptr_t)(UNIT * w);
    for (int64_t row = 0; row < p.rows; ++row)
      memset(is_x + x + row * p.x_stride * 2 / UNIT, 1, (size_t)(p.n * 2 / UNIT));
    for (int64_t row = 0; row < p.n; ++row)
      for (int64_t k = 0; k < p.n * size / UNIT; ++k)
        overlaps |= is_x[w + row * p.w_stride * size / UNIT + k];
    const ap_check how = {.backend = ATTNPRESS_CPU, .with_data = 1, .range = ATTNPRESS_ONE_CALL};
    assert_int_equal(ap_matmul_validate(&p, how),
                     overlaps ? ATTNPRESS_INVALID_ARGUMENT : ATTNPRESS_OK);
    refused += overlaps;
    taken += !overlaps;
  }
  assert_true(refused > 1000 && taken > 1000);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void test_launch(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_matmul_args args = legal();
  attnpress_matmul_args_sm80 given;
  args.w_dtype = ATTNPRESS_FP32;
  args.x_stride = 520;
  assert_ok(attnpress_matmul(handle, &args, NULL));
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_string_equal(cuda->launch[0].symbol, "matmul_nn_cols512_bf16_wfp32_sm80");
  assert_int_equal(cuda->launch[0].grid, 8); /* of 128 rows each */
  assert_ptr_equal(given.x, args.x);
  assert_ptr_equal(given.w, args.w);
  assert_int_equal(given.rows, 1000);
  assert_int_equal(given.n, 512);
  assert_int_equal(given.x_stride, 520);
  assert_int_equal(given.w_stride, 512);
  args.n = 2056;
  args.x_stride = 0;
  args.transposed = 1;
  args.dtype = ATTNPRESS_FP16;
  assert_ok(attnpress_matmul(handle, &args, NULL));
  assert_string_equal(cuda->launch[1].symbol, "matmul_nt_cols4096_fp16_wfp32_sm80");
  assert_int_equal(cuda->launch[1].grid, 63); /* of 16 rows each */
  args.rows = 0;
  assert_ok(attnpress_matmul(handle, &args, NULL));
  args = legal();
  args.n = 0;
  assert_ok(attnpress_matmul(handle, &args, NULL));
  assert_int_equal(cuda->launches, 2);
  attnpress_destroy(handle);
}

/* How thread blocks of compute capability 9.0 share a call: those of a row are a cluster, or all
 * run at the same time, alone or as pairs that share a tile's depth. On an H200 each of these was
 * the fastest of all ways, or took at most 3% longer. */
static void test_launch_shares(void **state) {
  (void)state;
  static const struct {
    int64_t rows, n;
    int transposed;
    const char *block;    /* of the kernel's name */
    int rows_of, columns; /* of a thread block */
    int together, split;
    unsigned cluster, grid;
    int32_t share; /* row blocks of a thread block */
  } cases[] = {
      {1, 8, 1, "m64n64_", 64, 64, 0, 0, 1, 1, 1},
      {9969, 32, 0, "m64n64_", 64, 64, 0, 0, 1, 78, 2},
      {74, 320, 1, "m64n64_", 64, 64, 0, 0, 5, 10, 1},
      {568, 304, 0, "m64n64_", 64, 64, 0, 0, 5, 45, 1},
      {700, 512, 0, "m64n64_", 64, 64, 0, 0, 8, 88, 1},
      {300, 1024, 0, "m64n64_", 64, 64, 0, 0, 16, 80, 1},
      {3000, 768, 0, "m192n128_", 192, 128, 0, 0, 6, 96, 1},
      {20000, 512, 0, "", 128, 256, 0, 0, 2, 106, 3},
      {65536, 512, 1, "", 128, 256, 0, 0, 2, 128, 8},
      {16, 4096, 0, "m64n64_", 64, 64, 1, 0, 0, 64, 1},
      {200, 2048, 1, "m64n64_", 64, 64, 1, 0, 0, 128, 1},
      {1000, 1536, 0, "m128n128_", 128, 128, 1, 0, 0, 96, 1},
      {2000, 2600, 1, "m192n128_", 192, 128, 1, 0, 0, 126, 2},
      {8192, 1024, 1, "", 128, 256, 1, 0, 0, 128, 2},
      {4096, 4096, 1, "", 128, 256, 1, 0, 0, 128, 4},
      {65536, 2048, 0, "", 128, 256, 1, 0, 0, 128, 32},
      {25471, 3136, 0, "", 128, 256, 1, 0, 0, 130, 20},
      {30000, 4096, 1, "", 128, 256, 1, 0, 0, 128, 30},
      {64, 2048, 1, "m64n64_", 64, 64, 1, 1, 2, 64, 1},
      {64, 4096, 1, "m64n64_", 64, 64, 1, 1, 2, 128, 1},
      {256, 3000, 1, "m128n128_", 128, 128, 1, 1, 2, 96, 1},
      {132, 4096, 1, "m192n128_", 192, 128, 1, 1, 2, 64, 1},
      {500, 4096, 0, "", 128, 256, 1, 1, 2, 128, 1},
  };
  attnpress_handle *handle = make_handle();
  for (int i = 0; i < (int)(sizeof cases / sizeof *cases); ++i) {
    attnpress_matmul_args args = legal();
    attnpress_matmul_args_sm90 given;
    fake_map map;
    char name[64];
    args.rows = cases[i].rows;
    args.n = cases[i].n;
    args.x_stride = args.n + 8;
    args.transposed = cases[i].transposed;
    args.w = (void *)0x200000000000;
    assert_ok(attnpress_matmul(handle, &args, NULL));
    const fake_launch *launch = &cuda->launch[i];
    memcpy(&given, launch->args, sizeof given);
    snprintf(name, sizeof name, "matmul_%s_cols4096_bf16_%ssm90", cases[i].transposed ? "nt" : "nn",
             cases[i].block);
    assert_string_equal(launch->symbol, name);
    assert_int_equal(launch->together, cases[i].together);
    assert_int_equal(given.together, cases[i].together);
    assert_int_equal(given.split_shift, cases[i].split);
    assert_int_equal(launch->cluster, cases[i].cluster > 1 ? cases[i].cluster : 0);
    assert_int_equal(launch->grid, cases[i].grid);
    assert_int_equal(given.share, cases[i].share);
    assert_true(launch->overlaps);
    assert_int_equal(given.column_blocks, (cases[i].n + cases[i].columns - 1) / cases[i].columns);
    assert_int_equal(given.row_blocks, (cases[i].rows + cases[i].rows_of - 1) / cases[i].rows_of);
    assert_ptr_equal(given.out, args.x);
    assert_int_equal(given.x_stride, args.n + 8);
    memcpy(&map, &given.x, sizeof map);
    assert_int_equal(map.address, args.x);
    assert_int_equal(map.extents[0], args.n);
    assert_int_equal(map.extents[1], args.rows);
    assert_int_equal(map.box[1], cases[i].rows_of);
    memcpy(&map, &given.w, sizeof map);
    assert_int_equal(map.address, args.w);
    assert_int_equal(map.extents[1], args.n);
    assert_int_equal(map.box[1], cases[i].transposed ? cases[i].columns : 64);
  }
  attnpress_destroy(handle);
}

/* Each row block of each columns is computed once, or its depth by each of a pair, by a grid that
 * is no larger than the device where its thread blocks wait for each other; and none of those meets
 * the others less often: only in the last turn are there blocks without rows. */
static void check_shares(const ap_matmul_problem *p, const ap_device *device) {
  static int seen[1 << 16];
  ap_matmul_plan plan;
  assert_ok(ap_matmul_plan_call(p, device, ATTNPRESS_ONE_CALL, &plan));
  const ap_launch *launch = &plan.base.launch[0];
  assert_int_equal(plan.base.count, 1);
  if (launch->variant.axis[AP_MATMUL_ARCH] != AP_MATMUL_SM90)
    return;
  const int64_t block_m = launch->tile.field[AP_MATMUL_TILE_BLOCK_M];
  const int row_blocks = (int)((p->rows + block_m - 1) / block_m);
  const int splits = 1 << plan.split_shift, columns = plan.column_blocks;
  const int grid = (int)launch->grid / splits, beside = grid / columns;
  assert_true(columns * launch->tile.field[AP_MATMUL_TILE_BLOCK_N] >= p->n);
  assert_int_equal(grid % columns, 0);
  assert_int_equal((int)launch->grid % splits, 0);
  if (launch->together) {
    assert_true((int)launch->grid <= device->sm_count);
    assert_int_equal(launch->cluster, splits > 1 ? splits : 0);
    assert_true(splits == 1 || plan.share == 1);
  } else {
    assert_int_equal(launch->cluster, columns);
    assert_int_equal(splits, 1);
  }
  memset(seen, 0, (size_t)(row_blocks * columns) * sizeof *seen);
  for (int tile = 0; tile < grid; ++tile)
    for (int turn = 0; turn < plan.share; ++turn) {
      const int row = tile / columns;
      const int block = launch->together ? row + turn * beside : row * plan.share + turn;
      if (block < row_blocks)
        ++seen[block * columns + tile % columns];
      else if (launch->together)
        assert_int_equal(turn, plan.share - 1);
    }
  for (int i = 0; i < row_blocks * columns; ++i)
    assert_int_equal(seen[i], 1);
}

static void test_shares(void **state) {
  (void)state;
  static const int sm_counts[] = {1, 2, 7, 14, 16, 60, 78, 114, 132, 148};
  uint32_t random = 1;
  for (int i = 0; i < 4000; ++i) {
    random = random * 1664525u + 1013904223u;
    const int64_t n = 8 + (random >> 8) % 512 * 8;
    random = random * 1664525u + 1013904223u;
    const int64_t rows = 1 + (random >> 8) % (i % 2 ? 1000 : 60000);
    const ap_device device = {.capability = 90,
                              .sm_count =
                                  sm_counts[i % (int)(sizeof sm_counts / sizeof *sm_counts)],
                              .tma = 1};
    const ap_matmul_problem p = {.rows = rows,
                                 .n = n,
                                 .x_stride = n,
                                 .w_stride = n,
                                 .dtype = ATTNPRESS_FP16,
                                 .w_dtype = ATTNPRESS_FP16,
                                 .transposed = (int32_t)(random >> 30 & 1)};
    check_shares(&p, &device);
  }
}

/* What tensor maps cannot describe: rows that are too far apart, or too many. */
static void test_launch_without_maps(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_matmul_args args = legal();
  args.x_stride = INT64_C(1) << 40;
  assert_ok(attnpress_matmul(handle, &args, NULL));
  assert_string_equal(cuda->launch[0].symbol, "matmul_nn_cols512_bf16_sm80");
  assert_int_equal(cuda->launch[0].cluster, 0);
  args = legal();
  args.rows = INT64_C(1) << 31;
  assert_ok(attnpress_matmul(handle, &args, NULL));
  assert_string_equal(cuda->launch[1].symbol, "matmul_nn_cols512_bf16_sm80");
  attnpress_destroy(handle);
}

/* A device with few SMs may have no room for as many thread blocks as share a row; a driver, no
 * tensor maps. */
static void test_devices(void **state) {
  (void)state;
  static const struct {
    ap_device device;
    int64_t n;
    int32_t arch;
  } cases[] = {
      {{.capability = 90, .sm_count = 132, .tma = 1}, 4096, 90},
      {{.capability = 90, .sm_count = 112, .tma = 1}, 2056, 90},
      {{.capability = 90, .sm_count = 16, .tma = 1}, 4096, 90},
      {{.capability = 90, .sm_count = 15, .tma = 1}, 4096, 80},
      {{.capability = 90, .sm_count = 112, .tma = 1}, 2048, 90},
      {{.capability = 90, .sm_count = 14, .tma = 1}, 2048, 90},
      {{.capability = 90, .sm_count = 132, .tma = 0}, 512, 80},
      {{.capability = 90, .sm_count = 132, .tma = 1, .arch_max = 80}, 512, 80},
      {{.capability = 86, .sm_count = 84, .tma = 1}, 512, 86},
      {{.capability = 100, .sm_count = 148, .tma = 1}, 512, 80},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const ap_matmul_problem problem = {.rows = 1000,
                                       .n = cases[i].n,
                                       .x_stride = cases[i].n,
                                       .w_stride = cases[i].n,
                                       .dtype = ATTNPRESS_BF16,
                                       .w_dtype = ATTNPRESS_BF16};
    ap_matmul_plan plan;
    assert_ok(ap_matmul_plan_call(&problem, &cases[i].device, ATTNPRESS_ONE_CALL, &plan));
    assert_int_equal(plan.base.launch[0].variant.axis[AP_MATMUL_ARCH], cases[i].arch);
  }
}

static void test_plans(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_matmul_args args = legal();
  attnpress_plan *plan;
  size_t bytes = 1;
  assert_ok(attnpress_plan_matmul(handle, &args, &options, &plan));
  assert_ok(attnpress_plan_workspace_bytes(plan, &bytes));
  assert_int_equal(bytes, 0);
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  args.rows = 99;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("rows is 99 and was 1000");
  attnpress_plan_destroy(plan);
  options.range = ATTNPRESS_UP_TO;
  args.rows = 0;
  assert_ok(attnpress_plan_matmul(handle, &args, &options, &plan));
  args.rows = 12345;
  args.n = 8;
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  args.transposed = 1;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("transposed is 1 and was 0");
  args.transposed = 0;
  args.n = 520;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("n is 520");
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

static int set_up_matmul(void **state) {
  const int status = set_up_group(state);
  cuda->args_of("matmul_nn", sizeof(attnpress_matmul_args_sm80));
  cuda->args_of("matmul_nt", sizeof(attnpress_matmul_args_sm80));
  static const char *const sm90[] = {
      "matmul_nn_cols4096_bf16_sm90",
      "matmul_nt_cols4096_bf16_sm90",
      "matmul_nn_cols4096_bf16_m",
      "matmul_nt_cols4096_bf16_m",
  };
  for (size_t i = 0; i < sizeof sm90 / sizeof *sm90; ++i)
    cuda->args_of(sm90[i], sizeof(attnpress_matmul_args_sm90));
  return status;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cpu),
      cmocka_unit_test(test_permutation),
      TEST(test_bad_input),
      cmocka_unit_test(test_overlaps),
      TEST(test_launch),
      TEST(test_launch_shares),
      cmocka_unit_test(test_shares),
      TEST(test_launch_without_maps),
      TEST(test_devices),
      TEST(test_plans),
  };
  return cmocka_run_group_tests_name("matmul", tests, set_up_matmul, tear_down_group);
}
