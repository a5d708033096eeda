/* Softmax without a GPU: numbers on the CPU with every instruction set, what bad input gets, which
 * kernel a call takes and what it is launched with (the driver and NVRTC are stand-ins). */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../tools/softmax/reference.h"
#include "api_support.h"
#include "attnpress/args/softmax.h"
#include "attnpress/softmax.h"
#include "cpu/isa.h"
#include "cuda/device.h"
#include "press/target.h"
#include "softmax/softmax.h"

enum { TENSORS = 3, GUARD = 64 /* elements before and behind each tensor */ };
static const int32_t dtypes[] = {ATTNPRESS_FP16, ATTNPRESS_BF16, ATTNPRESS_FP32};

/* ---- Numbers on the CPU ---------------------------------------------------------------------- */

typedef struct cpu_case {
  int64_t rows, columns, gap; /* gap: elements between rows */
  int in_place;               /* the output over the last input, or, 2, over the first */
  int upside_down;            /* row strides are negative */
  float scale;
} cpu_case;

static const cpu_case cpu_cases[] = {
    {3, 1, 0, 0, 0, 1.0f},      {5, 2, 3, 1, 0, 1.0f},       {7, 7, 0, 0, 1, 0.5f},
    {4, 8, 1, 2, 0, 1.0f},      {6, 9, 0, 1, 0, -0.7f},      {9, 31, 2, 0, 0, 20.0f},
    {300, 33, 0, 1, 0, 1.0f},   {17, 100, 5, 0, 0, 1.0f},    {5, 1000, 0, 2, 0, 3.0f},
    {3, 2047, 1, 0, 0, 1.0f},   {3, 2048, 0, 1, 0, 1.0f},    {3, 2049, 0, 0, 1, 1.0f},
    {2, 70001, 0, 1, 0, 0.25f}, {1, 1 << 20, 0, 0, 0, 1.0f},
};

typedef struct tensors {
  int64_t bytes, size, stride;
  char *memory[TENSORS];
  void *data[TENSORS]; /* the first row */
  softmax_case c;
  int count;
} tensors;

/* Inputs in memory that is NaN elsewhere; the output in place, or NaN too. */
static void make_tensors(tensors *t, const cpu_case *s, int32_t dtype, int backward) {
  *t = (tensors){.size = dtype == ATTNPRESS_FP32 ? 4 : 2,
                 .stride = s->columns + s->gap,
                 .c = {.backward = backward,
                       .dtype = dtype,
                       .scale = s->scale,
                       .rows = s->rows,
                       .columns = s->columns},
                 .count = backward ? 3 : 2};
  t->bytes = softmax_span_bytes(&t->c, t->stride) + 2 * GUARD * t->size;
  for (int i = 0; i < t->count; ++i) {
    t->memory[i] = malloc((size_t)t->bytes);
    memset(t->memory[i], 0xff, (size_t)t->bytes);
    t->data[i] = t->memory[i] + (GUARD + 1) * t->size; /* aligned to an element, no more */
    if (i < t->count - 1)
      softmax_fill(t->data[i], &t->c, t->stride, backward ? 1.0 : 3.0, backward && i == 0,
                   (uint64_t)(i + 1));
  }
}

static void free_tensors(tensors *t) {
  for (int i = 0; i < t->count; ++i)
    free(t->memory[i]);
}

static ap_softmax_problem problem_of(const tensors *t, const cpu_case *s, void *output) {
  ap_softmax_problem p = {.pass = t->c.backward ? AP_SOFTMAX_PASS_BWD : AP_SOFTMAX_PASS_FWD,
                          .tensor_count = t->count,
                          .rows = s->rows,
                          .columns = s->columns,
                          .dtype = t->c.dtype,
                          .scale = s->scale};
  const int64_t last = s->upside_down ? (s->rows - 1) * t->stride * t->size : 0;
  for (int i = 0; i < t->count; ++i)
    p.tensor[i] =
        (ap_softmax_tensor){"", "", (char *)(i == t->count - 1 ? output : t->data[i]) + last,
                            s->upside_down ? -t->stride : t->stride};
  return p;
}

static void check_cpu(const cpu_case *s, int32_t dtype, int backward, int isa, int threads) {
  tensors t;
  make_tensors(&t, s, dtype, backward);
  /* The tensor that is written over, and its copy, which the reference reads. */
  const int over = s->in_place == 0 ? t.count - 1 : s->in_place == 1 ? t.count - 2 : 0;
  char *copy = malloc((size_t)t.bytes);
  memcpy(copy, t.memory[over], (size_t)t.bytes);
  for (int i = 0; i < t.count - 1; ++i) {
    t.c.input[i] = i == over ? copy + (GUARD + 1) * t.size : t.data[i];
    t.c.input_stride[i] = t.stride;
  }
  t.c.output = t.data[over];
  t.c.output_stride = t.stride;
  const ap_softmax_problem p = problem_of(&t, s, t.data[over]);
  assert_ok(ap_softmax_cpu_isa(&p, threads, isa));
  softmax_error e = {0};
  softmax_check(&t.c, &e);
  if (!(e.ratio <= 1.0))
    fail_msg("%s, %s, %s, %lld columns: row %lld, column %lld is %.9g, expected %.9g",
             backward ? "backward" : "forward", ap_softmax_dtype_name(dtype),
             ap_cpu_isa_name((ap_cpu_isa)isa), (long long)s->columns, (long long)e.row,
             (long long)e.column, e.value, e.expected);
  assert_int_equal(e.elements, s->rows * s->columns);
  assert_gaps_kept(copy, t.memory[over], t.size, t.bytes / t.size, GUARD + 1, s->rows, s->columns,
                   t.stride);
  free(copy);
  free_tensors(&t);
}

static void test_cpu(void **state) {
  (void)state;
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa)
    for (size_t d = 0; ap_cpu_isa_usable((ap_cpu_isa)isa) && d < 3; ++d)
      for (int backward = 0; backward < 2; ++backward)
        for (size_t i = 0; i < sizeof cpu_cases / sizeof *cpu_cases; ++i)
          check_cpu(&cpu_cases[i], dtypes[d], backward, isa, 1);
}

/* As in PyTorch: a row with NaN or inf, or of nothing but -inf, is NaN; -inf beside others is 0. */
static void test_special_values(void **state) {
  (void)state;
  enum { COLUMNS = 3000, ROWS = 5 }; /* two chunks */
  static float x[ROWS][COLUMNS], y[ROWS][COLUMNS];
  const ap_softmax_problem p = {.tensor = {{"x", "", x, COLUMNS}, {"y", "", y, COLUMNS}},
                                .tensor_count = 2,
                                .rows = ROWS,
                                .columns = COLUMNS,
                                .dtype = ATTNPRESS_FP32,
                                .scale = 1.0f};
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa) {
    if (!ap_cpu_isa_usable((ap_cpu_isa)isa))
      continue;
    for (int i = 0; i < COLUMNS; ++i) {
      x[0][i] = i == 2500 ? NAN : 1.0f;
      x[1][i] = i == 7 ? INFINITY : 1.0f;
      x[2][i] = -INFINITY;
      x[3][i] = i < 2100 ? -INFINITY : 0.0f; /* a whole chunk */
      x[4][i] = i == 2999 ? 3.0e38f : -3.0e38f;
    }
    assert_ok(ap_softmax_cpu_isa(&p, 1, isa));
    for (int i = 0; i < COLUMNS; ++i) {
      assert_true(isnan(y[0][i]) && isnan(y[1][i]) && isnan(y[2][i]));
      assert_true(i < 2100 ? y[3][i] == 0.0f : fabsf(y[3][i] - 1.0f / 900.0f) < 1e-8f);
      assert_true(y[4][i] == (i == 2999 ? 1.0f : 0.0f));
    }
  }
}

/* Through the public API, on several threads: the same bits as on one. */
static void test_threads(void **state) {
  (void)state;
  enum { ROWS = 4000, COLUMNS = 700, ELEMENTS = ROWS * COLUMNS };
  float *x = malloc(sizeof(float) * ELEMENTS), *one = malloc(sizeof(float) * ELEMENTS);
  float *several = malloc(sizeof(float) * ELEMENTS);
  for (int i = 0; i < ELEMENTS; ++i)
    x[i] = (float)(i % 1009 * 7919 % 1009) * 0.01f;
  attnpress_softmax_args args = ATTNPRESS_SOFTMAX_ARGS_INIT;
  args.x = x;
  args.rows = ROWS;
  args.columns = COLUMNS;
  args.dtype = ATTNPRESS_FP32;
  for (int threads = 1; threads <= 3; threads += 2) {
    attnpress_handle *handle = make_cpu_handle(threads);
    args.y = threads == 1 ? one : several;
    assert_ok(attnpress_softmax(handle, &args, NULL));
    attnpress_destroy(handle);
  }
  assert_memory_equal(one, several, sizeof(float) * ELEMENTS);
  double sum = 0.0;
  for (int i = 0; i < COLUMNS; ++i)
    sum += (double)one[i];
  assert_true(fabs(sum - 1.0) < 1e-5);
  /* Nothing to do: no pointer is looked at. */
  attnpress_handle *handle = make_cpu_handle(1);
  args.x = args.y = NULL;
  args.rows = 0;
  assert_ok(attnpress_softmax(handle, &args, NULL));
  attnpress_destroy(handle);
  free(x), free(one), free(several);
}

/* ---- Bad input ------------------------------------------------------------------------------- */

static attnpress_softmax_args legal_forward(void) {
  attnpress_softmax_args args = ATTNPRESS_SOFTMAX_ARGS_INIT;
  args.x = (void *)0x10002;
  args.y = (void *)0x20004;
  args.rows = 100;
  args.columns = 1000;
  args.x_row_stride = 1003;
  args.dtype = ATTNPRESS_BF16;
  return args;
}

static attnpress_softmax_backward_args legal_backward(void) {
  attnpress_softmax_backward_args args = ATTNPRESS_SOFTMAX_BACKWARD_ARGS_INIT;
  args.y = (void *)0x10002;
  args.dy = (void *)0x20004;
  args.dx = (void *)0x30006;
  args.rows = 100;
  args.columns = 1000;
  args.dtype = ATTNPRESS_FP16;
  return args;
}

#define SPOIL(name, statement)                                                                     \
  static void name(attnpress_softmax_args *a) {                                                    \
    statement;                                                                                     \
  }
SPOIL(rows_negative, a->rows = -1)
SPOIL(columns_negative, a->columns = -5)
SPOIL(columns_many, a->columns = (1 << 20) + 1)
SPOIL(dtype_0, a->dtype = 0)
SPOIL(dtype_9, a->dtype = 9)
SPOIL(scale_nan, a->scale = NAN)
SPOIL(scale_inf, a->scale = -INFINITY)
SPOIL(x_null, a->x = NULL)
SPOIL(y_null, a->y = NULL)
SPOIL(x_misaligned, a->x = (void *)0x10001)
SPOIL(y_misaligned, a->dtype = ATTNPRESS_FP32; a->x = (void *)0x10004; a->y = (void *)0x20002)
SPOIL(y_overlaps, a->y_row_stride = 999)
SPOIL(y_overlaps_downwards, a->y_row_stride = -999)
SPOIL(stride_overflows, a->x_row_stride = INT64_MAX / 2)
SPOIL(bytes_overflow, a->x_row_stride = INT64_MAX / 150)
SPOIL(in_place_strides, a->y = (void *)0x10002; a->y_row_stride = 1004)
SPOIL(struct_zero, a->struct_size = 0)
SPOIL(struct_small, a->struct_size = sizeof *a - 8)

static const struct {
  void (*spoil)(attnpress_softmax_args *args);
  const char *says;
} bad_inputs[] = {
    {rows_negative, "rows is -1"},
    {columns_negative, "columns is -5"},
    {columns_many, "columns is 1048577"},
    {dtype_0, "dtype is 0"},
    {dtype_9, "dtype is 9"},
    {scale_nan, "scale is"},
    {scale_inf, "scale is -inf"},
    {x_null, "x is NULL"},
    {y_null, "y is NULL"},
    {x_misaligned, "x is 0x10001"},
    {y_misaligned, "y is 0x20002"},
    {y_overlaps, "y_row_stride is 999"},
    {y_overlaps_downwards, "y_row_stride is -999"},
    {stride_overflows, "x_row_stride"},
    {bytes_overflow, "x_row_stride"},
    {in_place_strides, "in place"},
    {struct_zero, "struct_size"},
    {struct_small, "struct_size"},
};

static void test_bad_input(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  assert_refused(handle, attnpress_softmax, attnpress_softmax_args, legal_forward, bad_inputs);
  const attnpress_softmax_args args = legal_forward();
  assert_int_equal(attnpress_softmax(NULL, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(attnpress_softmax(handle, NULL, NULL), ATTNPRESS_INVALID_ARGUMENT);
  attnpress_softmax_backward_args backward = legal_backward();
  backward.dx = ATTNPRESS_DATA(backward.y);
  backward.dx_row_stride = 1008;
  assert_int_equal(attnpress_softmax_backward(handle, &backward, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("dx is y");
  assert_int_equal(cuda->launches, 0);
  attnpress_destroy(handle);
}

/* A newer caller's struct is accepted where its tail is zero. */
static void test_struct_sizes(void **state) {
  (void)state;
  struct {
    attnpress_softmax_args args;
    uint64_t tail;
  } newer = {legal_forward(), 0};
  attnpress_handle *handle = make_handle();
  newer.args.struct_size = sizeof newer;
  assert_ok(attnpress_softmax(handle, &newer.args, NULL));
  newer.tail = 1;
  assert_int_equal(attnpress_softmax(handle, &newer.args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(cuda->launches, 1);
  attnpress_destroy(handle);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void test_launch_forward(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_softmax_args args = legal_forward();
  assert_ok(attnpress_softmax(handle, &args, NULL));
  assert_int_equal(cuda->launches, 1);
  attnpress_softmax_fwd_args given;
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_string_equal(cuda->launch[0].symbol, "softmax_fwd_cols1024_bf16_sm80");
  assert_ptr_equal(given.x, args.x);
  assert_ptr_equal(given.y, args.y);
  assert_int_equal(given.rows, 100);
  assert_int_equal(given.columns, 1000);
  assert_int_equal(given.x_row_stride, 1003);
  assert_int_equal(given.y_row_stride, 1000);
  assert_true(given.scale == 1.0f);
  attnpress_destroy(handle);
}

static void test_launch_backward(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_softmax_backward_args args = legal_backward();
  args.scale = -0.5f;
  args.dx = ATTNPRESS_DATA(args.dy);
  assert_ok(attnpress_softmax_backward(handle, &args, NULL));
  attnpress_softmax_bwd_args given;
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_string_equal(cuda->launch[0].symbol, "softmax_bwd_cols1024_fp16_sm80");
  assert_ptr_equal(given.y, args.y);
  assert_ptr_equal(given.dy, args.dy);
  assert_ptr_equal(given.dx, args.dy);
  assert_int_equal(given.dx_row_stride, 1000);
  assert_true(given.scale == -0.5f);
  attnpress_destroy(handle);
}

/* Rows past 2^31, and more than a grid has. */
static void test_many_rows(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_softmax_args args = legal_forward();
  attnpress_plan *plan;
  attnpress_info info = ATTNPRESS_INFO_INIT;
  args.columns = 1;
  args.x_row_stride = 1;
  args.rows = (INT64_C(1) << 33) + 1;
  assert_ok(attnpress_plan_softmax(handle, &args, NULL, &plan));
  assert_int_equal(attnpress_plan_launch_count(plan), 1);
  assert_ok(attnpress_plan_launch(plan, 0, &info));
  const int64_t blocks = info.grid;
  assert_true(blocks > 0);
  attnpress_plan_destroy(plan);
  ap_variant variant;
  ap_tile tile;
  assert_ok(ap_variant_parse(info.stem, &variant));
  assert_ok(ap_find_tile(&variant, info.target, &tile));
  const int64_t each =
      tile.threads / tile.field[AP_SOFTMAX_TILE_ROW_THREADS] * tile.field[AP_SOFTMAX_TILE_ROWS];
  assert_int_equal(blocks, (args.rows + each - 1) / each);
  args.rows = each * (INT64_C(1) << 31);
  assert_int_equal(attnpress_plan_softmax(handle, &args, NULL, &plan), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("rows is");
  attnpress_destroy(handle);
}

/* ---- Plans ----------------------------------------------------------------------------------- */

/* The kernel of every number of columns has room for its vectors, the next smaller one has not, and
 * its shared memory is there. */
static void test_classes(void **state) {
  (void)state;
  for (size_t d = 0; d < ap_targets_count; ++d) {
    ap_device device;
    assert_ok(ap_device_of_target(ap_targets[d].name, &device));
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t columns = 1; columns <= 1 << 20; columns += columns < 600 ? 1 : columns / 9) {
        const ap_softmax_problem p = {
            .pass = pass, .rows = 1, .columns = columns, .dtype = dtypes[columns % 3]};
        ap_launches plan;
        assert_ok(ap_softmax_plan(&p, &device, ATTNPRESS_ONE_CALL, &plan));
        assert_int_equal(plan.count, 1);
        const ap_launch *l = &plan.launch[0];
        const int32_t takes = l->variant.axis[AP_SOFTMAX_COLS];
        const int64_t edges = p.dtype == ATTNPRESS_FP32 ? 3 : 7; /* beyond the vectors */
        assert_true(takes + edges >= columns || takes > AP_SOFTMAX_HELD_COLS_MAX);
        assert_true(columns < 40 || takes < 2 * columns || takes > AP_SOFTMAX_HELD_COLS_MAX);
        assert_true(columns < 72 || 2 * takes < 3 * (columns - edges) ||
                    takes > AP_SOFTMAX_HELD_COLS_MAX);
        assert_true(l->tile.smem_bytes <= ap_find_target(l->target)->smem_per_block_bytes);
      }
  }
}

static void test_range(void **state) {
  (void)state;
  attnpress_handle *handle = make_compile_only();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  static const char *const targets[] = {"sm_80", "sm_86", "sm_90", "sm_120"};
  uint32_t random = 1;
  for (int i = 0; i < 400; ++i) {
    attnpress_softmax_args args = legal_forward();
    attnpress_plan *range, *call;
    random = random * 1664525u + 1013904223u;
    options.target = targets[random >> 28 & 3];
    args.rows = 0;
    args.columns = i % 5 == 0 ? 0 : 1 + (int64_t)(random % (1u << (random >> 8) % 20));
    args.x_row_stride = 0;
    options.range = ATTNPRESS_UP_TO;
    assert_ok(attnpress_plan_softmax(handle, &args, &options, &range));
    const int64_t most = args.columns == 0 ? 1 << 20 : args.columns;
    args.rows = 1 + random % 1000;
    args.columns = 1 + (int64_t)(random >> 4) % most;
    options.range = ATTNPRESS_ONE_CALL;
    assert_ok(attnpress_plan_softmax(handle, &args, &options, &call));
    assert_prepared(range, call);
    size_t bytes = 1;
    assert_ok(attnpress_plan_workspace_bytes(range, &bytes));
    assert_int_equal(bytes, 0);
    attnpress_plan_destroy(call);
    attnpress_plan_destroy(range);
  }
  attnpress_destroy(handle);
}

static void test_plan_run(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_softmax_args args = legal_forward();
  attnpress_plan *plan;
  assert_ok(attnpress_plan_softmax(handle, &args, &options, &plan));
  args.y = (void *)0x90000;
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  assert_int_equal(cuda->launches, 1);
  args.columns = 999;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("columns is 999 and was 1000");
  attnpress_plan_destroy(plan);
  options.range = ATTNPRESS_UP_TO;
  args.columns = 4096;
  args.x_row_stride = 0;
  assert_ok(attnpress_plan_softmax(handle, &args, &options, &plan));
  args.columns = 5;
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  assert_string_equal(cuda->launch[1].symbol, "softmax_fwd_cols32_bf16_sm80");
  args.columns = 4097;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

static void test_plan_cpu(void **state) {
  (void)state;
  attnpress_handle *handle = make_cpu_handle(1);
  attnpress_softmax_backward_args args = legal_backward();
  attnpress_plan *plan;
  attnpress_info info = ATTNPRESS_INFO_INIT;
  assert_ok(attnpress_plan_softmax_backward(handle, &args, NULL, &plan));
  assert_ok(attnpress_plan_launch(plan, 0, &info));
  assert_string_equal(info.stem, "cpu_softmax_bwd_fp16");
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

static int set_up_softmax(void **state) {
  const int status = set_up_group(state);
  cuda->args_of("softmax_fwd", sizeof(attnpress_softmax_fwd_args));
  cuda->args_of("softmax_bwd", sizeof(attnpress_softmax_bwd_args));
  return status;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cpu),
      cmocka_unit_test(test_special_values),
      cmocka_unit_test(test_threads),
      TEST(test_bad_input),
      TEST(test_struct_sizes),
      TEST(test_launch_forward),
      TEST(test_launch_backward),
      TEST(test_many_rows),
      cmocka_unit_test(test_classes),
      cmocka_unit_test(test_range),
      TEST(test_plan_run),
      cmocka_unit_test(test_plan_cpu),
  };
  return cmocka_run_group_tests_name("softmax", tests, set_up_softmax, tear_down_group);
}
