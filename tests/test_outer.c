/* The outer product without a GPU: numbers on the CPU, what bad input gets, and what a call is
 * launched with (the driver and NVRTC are stand-ins). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../tools/outer/reference.h"
#include "../tools/rows.h"
#include "api_support.h"
#include "attnpress/args/outer.h"
#include "attnpress/outer.h"

/* ---- Numbers on the CPU ---------------------------------------------------------------------- */

enum { ENTRIES = 5, OUTER_ROWS = 37, OUTER_COLUMNS = 1030, GAP = 3 };
enum { FLAT_VECTORS = 8 /* of a thread: the tile's */ };

typedef struct buffers {
  float x[ENTRIES][OUTER_ROWS + GAP], y[ENTRIES][OUTER_COLUMNS + GAP],
      c[ENTRIES][OUTER_ROWS][OUTER_COLUMNS + GAP];
  float dx[ENTRIES][OUTER_ROWS + GAP], dy[ENTRIES][OUTER_COLUMNS + GAP];
} buffers;

static void check_case(const outer_case *c) {
  outer_error e = {0};
  outer_check(c, &e);
  if (!(e.ratio <= 1.0))
    fail_msg("%s of entry %lld, row %lld, column %lld is %.9g, expected %.9g", e.what,
             (long long)e.batch, (long long)e.row, (long long)e.column, e.value, e.expected);
  assert_true(e.elements > 0);
}

static outer_case case_of(const buffers *b, int32_t dtype, int summed, int backward) {
  return (outer_case){.backward = backward,
                      .summed = summed,
                      .dtype = dtype,
                      .batch = ENTRIES,
                      .rows = OUTER_ROWS,
                      .columns = OUTER_COLUMNS,
                      .x = b->x,
                      .y = b->y,
                      .c = b->c,
                      .dx = backward ? b->dx : NULL,
                      .dy = backward ? b->dy : NULL,
                      .x_stride = OUTER_ROWS + GAP,
                      .y_stride = OUTER_COLUMNS + GAP,
                      .c_batch_stride = summed ? 0 : OUTER_ROWS * (OUTER_COLUMNS + GAP),
                      .c_row_stride = OUTER_COLUMNS + GAP,
                      .dx_stride = OUTER_ROWS + GAP,
                      .dy_stride = OUTER_COLUMNS + GAP};
}

/* Every dtype, on one thread and on several: the same bits. */
static void test_cpu(void **state) {
  (void)state;
  buffers *b = malloc(sizeof *b), *other = malloc(sizeof *other);
  for (int32_t dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype)
    for (int summed = 0; summed < 2; ++summed)
      for (int threads = 1; threads < 4; threads += 2) {
        attnpress_handle *handle = make_cpu_handle(threads);
        memset(b, 0xff, sizeof *b);
        rows_fill(b->x, ENTRIES, OUTER_ROWS, OUTER_ROWS + GAP, dtype, 0.1, 1.0, 1);
        rows_fill(b->y, ENTRIES, OUTER_COLUMNS, OUTER_COLUMNS + GAP, dtype, 0.0, 1.0, 2);
        attnpress_outer_args args = ATTNPRESS_OUTER_ARGS_INIT;
        args.x = b->x, args.y = b->y, args.c = b->c;
        args.batch = ENTRIES, args.rows = OUTER_ROWS, args.columns = OUTER_COLUMNS;
        args.x_stride = OUTER_ROWS + GAP, args.y_stride = OUTER_COLUMNS + GAP,
        args.c_row_stride = OUTER_COLUMNS + GAP;
        args.dtype = dtype, args.summed = summed;
        assert_ok(attnpress_outer(handle, &args, NULL));
        const outer_case forward = case_of(b, dtype, summed, 0);
        check_case(&forward);
        attnpress_outer_backward_args back = ATTNPRESS_OUTER_BACKWARD_ARGS_INIT;
        back.x = b->x, back.y = b->y, back.dc = b->c, back.dx = b->dx, back.dy = b->dy;
        back.batch = ENTRIES, back.rows = OUTER_ROWS, back.columns = OUTER_COLUMNS;
        back.x_stride = back.dx_stride = OUTER_ROWS + GAP;
        back.y_stride = back.dy_stride = back.dc_row_stride = OUTER_COLUMNS + GAP;
        back.dtype = dtype, back.summed = summed;
        assert_ok(attnpress_outer_backward(handle, &back, NULL));
        const outer_case backward = case_of(b, dtype, summed, 1);
        check_case(&backward);
        attnpress_destroy(handle);
        if (threads == 1)
          memcpy(other, b, sizeof *b);
        else
          assert_memory_equal(other, b, sizeof *b);
      }
  free(b), free(other);
}

static void test_fp64(void **state) {
  (void)state;
  const double x[2][2] = {{1, 2}, {3, 4}}, y[2][3] = {{1, 10, 100}, {2, 20, 1e-9}};
  double c[2][3];
  attnpress_handle *handle = make_cpu_handle(1);
  attnpress_outer_args args = ATTNPRESS_OUTER_ARGS_INIT;
  args.x = x, args.y = y, args.c = c;
  args.batch = args.rows = 2, args.columns = 3;
  args.dtype = ATTNPRESS_OUTER_FP64, args.summed = 1;
  assert_ok(attnpress_outer(handle, &args, NULL));
  assert_true(c[0][0] == 7.0 && c[1][1] == 100.0 && c[0][2] == 100.0 + 3e-9);
  args.batch = 0; /* the sum of nothing */
  assert_ok(attnpress_outer(handle, &args, NULL));
  assert_true(c[0][0] == 0.0 && c[1][2] == 0.0);
  attnpress_destroy(handle);
}

/* ---- Bad input ------------------------------------------------------------------------------- */

static attnpress_outer_args legal_forward(void) {
  attnpress_outer_args args = ATTNPRESS_OUTER_ARGS_INIT;
  args.x = (void *)0x10002;
  args.y = (void *)0x20004;
  args.c = (void *)0x1000000;
  args.batch = 10;
  args.rows = 100;
  args.columns = 1000;
  args.dtype = ATTNPRESS_BF16;
  return args;
}

static attnpress_outer_backward_args legal_backward(void) {
  attnpress_outer_backward_args args = ATTNPRESS_OUTER_BACKWARD_ARGS_INIT;
  args.x = (void *)0x10002;
  args.y = (void *)0x20004;
  args.dc = (void *)0x1000000;
  args.dx = (void *)0x30002;
  args.dy = (void *)0x40002;
  args.batch = 10;
  args.rows = 100;
  args.columns = 1000;
  args.dtype = ATTNPRESS_FP16;
  args.workspace = (void *)0x2000000;
  args.workspace_bytes = 10 * 25 * 1000 * 4;
  return args;
}

#define SPOIL(name, statement)                                                                     \
  static void name(attnpress_outer_args *a) {                                                      \
    (void)a;                                                                                       \
    statement;                                                                                     \
  }
SPOIL(batch_negative, a->batch = -1)
SPOIL(rows_many, a->rows = INT64_C(1) << 31)
SPOIL(dtype_5, a->dtype = 5)
SPOIL(summed_2, a->summed = 2)
SPOIL(x_null, a->x = NULL)
SPOIL(c_null, a->c = NULL)
SPOIL(y_misaligned, a->y = (void *)0x20003)
SPOIL(c_rows_overlap, a->c_row_stride = 999)
SPOIL(c_entries_overlap, a->c_batch_stride = 99999)
SPOIL(c_row_least, a->c_row_stride = INT64_MIN)
SPOIL(x_spans_much, a->x_stride = INT64_MAX / 4)
SPOIL(struct_small, a->struct_size = offsetof(attnpress_outer_args, mod) - 8)

static const struct {
  void (*spoil)(attnpress_outer_args *args);
  const char *says;
} bad_inputs[] = {
    {batch_negative, "batch is -1"},
    {rows_many, "rows is 2147483648"},
    {dtype_5, "dtype is 5"},
    {summed_2, "summed is 2"},
    {x_null, "x is NULL"},
    {c_null, "c is NULL"},
    {y_misaligned, "y is 0x20003"},
    {c_rows_overlap, "c_row_stride is 999"},
    {c_row_least, "c_row_stride -9223372036854775808 times"},
    {c_entries_overlap, "c_batch_stride is"},
    {x_spans_much, "x_stride"},
    {struct_small, "struct_size"},
};

static void test_bad_input(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  assert_refused(handle, attnpress_outer, attnpress_outer_args, legal_forward, bad_inputs);
  attnpress_outer_args args = legal_forward();
  args.dtype = ATTNPRESS_OUTER_FP64;
  assert_int_equal(attnpress_outer(handle, &args, NULL), ATTNPRESS_NOT_SUPPORTED);
  attnpress_outer_backward_args back = legal_backward();
  back.workspace_bytes -= 1;
  assert_int_equal(attnpress_outer_backward(handle, &back, NULL), ATTNPRESS_WORKSPACE_TOO_SMALL);
  assert_int_equal(cuda->launches, 0);
  attnpress_destroy(handle);
}

/* ---- A function of the caller's -------------------------------------------------------------- */

static attnpress_score_scalar scalars[2];
static attnpress_outer_mod mod;

static attnpress_outer_args with_mod(void) {
  attnpress_outer_args args = legal_forward();
  mod = (attnpress_outer_mod)ATTNPRESS_OUTER_MOD_INIT;
  scalars[0] = (attnpress_score_scalar){"a", ATTNPRESS_FP32, 0.5f, 0, 0};
  scalars[1] = (attnpress_score_scalar){"n", ATTNPRESS_INT32, 0.0f, -7, 0};
  mod.name = "own";
  mod.value = "x > y ? a * x : tanhf(y) / n";
  mod.scalars = scalars;
  mod.scalar_count = 2;
  args.mod = &mod;
  return args;
}

static attnpress_outer_backward_args backward_with_mod(void) {
  attnpress_outer_backward_args args = legal_backward();
  with_mod();
  args.mod = &mod;
  args.workspace_bytes = 10 * 13 * 1000 * 4;
  return args;
}

SPOIL(mod_name, mod.name = "a b")
SPOIL(mod_no_value, mod.value = NULL)
SPOIL(mod_blank_value, mod.value = " \n")
SPOIL(mod_reserved, mod.reserved = 1)
SPOIL(mod_many_scalars, mod.scalar_count = 17)
SPOIL(mod_no_scalars, mod.scalars = NULL)
SPOIL(mod_scalar_x, scalars[0].name = "x")
SPOIL(mod_scalar_twice, scalars[0].name = "n")
SPOIL(mod_scalar_dtype, scalars[1].dtype = ATTNPRESS_BF16)
SPOIL(mod_struct_small, mod.struct_size = 32)

static const struct {
  void (*spoil)(attnpress_outer_args *args);
  const char *says;
} bad_mods[] = {
    {mod_name, "mod.name is \"a b\"; it must be 1 to 63"},
    {mod_no_value, "mod.value is NULL"},
    {mod_blank_value, "mod.value is blank"},
    {mod_reserved, "mod.reserved is 1"},
    {mod_many_scalars, "mod.scalar_count is 17; it must be 0 to 16"},
    {mod_no_scalars, "mod.scalars is NULL and scalar_count is 2"},
    {mod_scalar_x, "mod.scalars[0].name is \"x\", which means something else"},
    {mod_scalar_twice, "mod \"own\" has two scalars of the name \"n\""},
    {mod_scalar_dtype, "mod.scalars[1] (n).dtype is 2"},
    {mod_struct_small, "mod"},
};

static void test_bad_mods(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  assert_refused(handle, attnpress_outer, attnpress_outer_args, with_mod, bad_mods);
  assert_int_equal(cuda->launches, 0);
  attnpress_destroy(handle);
  handle = make_cpu_handle(1);
  attnpress_outer_args args = with_mod();
  assert_int_equal(attnpress_outer(handle, &args, NULL), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("mod \"own\" is a text that is compiled for a GPU; the CPU backend cannot");
  attnpress_outer_backward_args back = backward_with_mod();
  assert_int_equal(attnpress_outer_backward(handle, &back, NULL), ATTNPRESS_NOT_SUPPORTED);
  attnpress_destroy(handle);
}

/* Numbers and sizes compile nothing; another text does, and so do the gradients. */
static void test_launch_mod(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_outer_args args = with_mod();
  attnpress_outer_fwd_args given;
  attnpress_outer_bwd_args back;
  assert_ok(attnpress_outer(handle, &args, NULL));
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_string_equal(cuda->launch[0].symbol, "outer_fwd_bf16_mod_sm80");
  assert_int_equal(given.scalar[0], 0x3f000000);
  assert_int_equal((int32_t)given.scalar[1], -7);
  assert_int_equal(cuda->loads, 1);
  scalars[0].value = 2.0f;
  args.rows = 50;
  assert_ok(attnpress_outer(handle, &args, NULL));
  memcpy(&given, cuda->launch[1].args, sizeof given);
  assert_int_equal(given.scalar[0], 0x40000000);
  assert_int_equal(cuda->loads, 1);
  args.summed = 1;
  assert_ok(attnpress_outer(handle, &args, NULL));
  assert_string_equal(cuda->launch[2].symbol, "outer_sum_bf16_mod_sm80");
  assert_int_equal(cuda->loads, 2);
  args.summed = 0;
  mod.value = "x - y";
  assert_ok(attnpress_outer(handle, &args, NULL));
  assert_int_equal(cuda->loads, 3);

  attnpress_outer_backward_args backward = backward_with_mod();
  assert_ok(attnpress_outer_backward(handle, &backward, NULL));
  assert_string_equal(cuda->launch[4].symbol, "outer_bwd_fp16_mod_sm80");
  assert_string_equal(cuda->launch[5].symbol, "outer_bwd_reduce_fp16_sm80");
  memcpy(&back, cuda->launch[4].args, sizeof back);
  assert_int_equal((int32_t)back.scalar[1], -7);
  assert_int_equal(cuda->launch[4].grid, 10 * 13);
  attnpress_destroy(handle);
}

static void test_plan_mod(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_outer_args args = with_mod();
  attnpress_plan *plan;
  assert_ok(attnpress_plan_outer(handle, &args, NULL, &plan));
  assert_ok(attnpress_plan_prepare(plan, NULL));
  scalars[0].value = 3.0f;
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  mod.value = "x";
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("mod is not that of the plan");
  args.mod = NULL;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("mod is not that of the plan");
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

/* A real NVRTC: what it says of a text, and that both copies of one are compiled. */
static attnpress_status prepare(attnpress_handle *handle, const char *text, int backward) {
  attnpress_plan *plan;
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_outer_args args = with_mod();
  attnpress_outer_backward_args back = backward_with_mod();
  mod.value = text;
  options.target = "sm_90";
  if (backward)
    assert_ok(attnpress_plan_outer_backward(handle, &back, &options, &plan));
  else
    assert_ok(attnpress_plan_outer(handle, &args, &options, &plan));
  const attnpress_status status = attnpress_plan_prepare(plan, NULL);
  attnpress_plan_destroy(plan);
  return status;
}

static void test_texts(void **state) {
  (void)state;
  static const struct {
    const char *text, *line, *hint;
    int backward;
  } rows[] = {
      {"x +\nfoo", "own(2): error: identifier \"foo\" is undefined",
       "there is no such name; names in scope are x, y, a, n, clampi(x, low, high)", 0},
      {"x;", "own(1): error", "it is one expression, without a ';'", 0},
      {"bar(x)", "own(1): error", "there is no such name", 1},
      {"y * fmodf(x, 2.0f)", "own(1): error", "a float is a number with its derivative", 1},
  };
  attnpress_handle *handle;
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.backend = ATTNPRESS_COMPILE_ONLY;
  options.cache_off = 1;
  assert_ok(attnpress_create(&handle, &options));
  const attnpress_status status = prepare(handle, "x > y ? a * x : tanh(y) / n", 1);
  if (status == ATTNPRESS_NO_NVRTC) {
    print_message("skipped: %s\n", attnpress_last_error());
    attnpress_destroy(handle);
    skip();
  }
  assert_ok(status);
  assert_ok(prepare(handle, "x > y ? a * x : tanh(y) / n", 0));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    assert_int_equal(prepare(handle, rows[i].text, rows[i].backward), ATTNPRESS_COMPILE_FAILED);
    assert_error_says(rows[i].line);
    assert_error_says(rows[i].hint);
  }
  attnpress_destroy(handle);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void test_launch_forward(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_outer_args args = legal_forward();
  attnpress_outer_fwd_args given;
  assert_ok(attnpress_outer(handle, &args, NULL));
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_string_equal(cuda->launch[0].symbol, "outer_fwd_bf16_sm80");
  assert_int_equal(cuda->launch[0].grid, 10 * given.row_blocks * given.column_blocks);
  assert_int_equal(given.column_shift, 7); /* 125 vectors of a row */
  assert_int_equal(given.c_row_stride, 1000);
  assert_int_equal(given.c_batch_stride, 100000);
  assert_int_equal(cuda->launch[0].smem_bytes, 0);
  args.rows = 0;
  args.c = NULL;
  assert_ok(attnpress_outer(handle, &args, NULL));
  assert_int_equal(cuda->launches, 1);
  args = legal_forward();
  args.batch = INT64_C(1) << 40;
  assert_int_equal(attnpress_outer(handle, &args, NULL), ATTNPRESS_NOT_SUPPORTED);
  args = legal_forward();
  args.dtype = ATTNPRESS_FP32;
  args.x = args.y = args.c = (void *)0x10000;
  assert_ok(attnpress_outer(handle, &args, NULL));
  assert_string_equal(cuda->launch[1].symbol, "outer_fwd_fp32_sm80");
  assert_int_equal(cuda->launch[1].smem_bytes, 228 * 1024 / 3); /* two thread blocks an SM */
  attnpress_destroy(handle);
}

/* Of c without gaps rows that are whole vectors are fwd's, others unit's, as long as blocks are
 * filled, or few. Else c is one run of chunks: flat's where y is gathered, of many rows or strides,
 * or chunk's, as far as shared memory has room for what they need of x and y. */
static void test_launch_run(void **state) {
  (void)state;
  static const struct {
    int64_t batch, rows, columns, c_row_stride, y_stride, address;
    int dtype;
    const char *symbol;
  } shapes[] = {
      {10, 100, 1001, 0, 0, 0x10000, ATTNPRESS_BF16, "outer_unit_bf16_sm80"},
      {10, 100, 1000, 0, 0, 0x10000, ATTNPRESS_BF16, "outer_fwd_bf16_sm80"},    /* whole vectors */
      {10, 100, 1000, 0, 0, 0x10002, ATTNPRESS_BF16, "outer_unit_bf16_sm80"},   /* not of c */
      {10, 100, 1001, 1002, 0, 0x10000, ATTNPRESS_BF16, "outer_fwd_bf16_sm80"}, /* gaps */
      {10, 100, 1003, 0, 0, 0x10000, ATTNPRESS_FP32, "outer_unit_fp32_sm80"},
      {5000, 200, 104, 0, 0, 0x10000, ATTNPRESS_BF16, "outer_fwd_bf16_sm80"},
      {5000, 200, 105, 0, 0, 0x10000, ATTNPRESS_BF16, "outer_unit_bf16_sm80"},
      {5000, 20, 104, 0, 0, 0x10000, ATTNPRESS_BF16, "outer_chunk_bf16_sm80"}, /* empty places */
      {5000, 20, 105, 0, 0, 0x10000, ATTNPRESS_BF16, "outer_chunk_bf16_sm80"},
      {10, 20, 105, 0, 0, 0x10000, ATTNPRESS_BF16, "outer_unit_bf16_sm80"}, /* of few blocks */
      {10, 20, 104, 0, 0, 0x10000, ATTNPRESS_BF16, "outer_fwd_bf16_sm80"},
      {10, 100, 7, 0, 0, 0x10000, ATTNPRESS_FP16, "outer_fwd_fp16_sm80"},
      /* A vector is of more than two rows. */
      {5000, 100, 7, 0, 0, 0x10000, ATTNPRESS_FP16, "outer_chunk_fp16_sm80"},
      {5000, 1, 40001, 0, 0, 0x10000, ATTNPRESS_FP16, "outer_chunk_fp16_sm80"},
      {5000, 2, 40001, 0, 0, 0x10000, ATTNPRESS_FP16, "outer_unit_fp16_sm80"},   /* no room */
      {5000, 1, 1001, 0, 1003, 0x10000, ATTNPRESS_FP16, "outer_flat_fp16_sm80"}, /* y is gathered */
      {5000, 60, 63, 0, 0, 0x10000, ATTNPRESS_BF16, "outer_flat_bf16_sm80"},     /* y is gathered */
  };
  attnpress_handle *handle = make_handle();
  attnpress_plan *plan;
  attnpress_outer_args args = legal_forward();
  attnpress_outer_fwd_args given;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    args.batch = shapes[i].batch;
    args.rows = shapes[i].rows;
    args.columns = shapes[i].columns;
    args.dtype = shapes[i].dtype;
    args.x = args.y = (void *)0x20000;
    args.x_stride = args.c_batch_stride = 0;
    args.y_stride = shapes[i].y_stride;
    args.c = (void *)(uintptr_t)shapes[i].address;
    args.c_row_stride = shapes[i].c_row_stride;
    assert_ok(attnpress_outer(handle, &args, NULL));
    assert_string_equal(cuda->launch[i].symbol, shapes[i].symbol);
  }
  /* Each row of 1000 is a unit, of 125 vectors beside each other. */
  memcpy(&given, cuda->launch[2].args, sizeof given);
  assert_int_equal(given.unit_rows, 1);
  assert_int_equal(given.unit_vectors, 125);
  assert_int_equal(given.width, 125);
  assert_int_equal(given.column_blocks, 1);
  assert_int_equal(given.row_blocks, 7); /* 100 units, of two groups of threads that have 8 each */
  assert_int_equal(given.units, 8);
  assert_int_equal(cuda->launch[2].grid, 10 * 7);
  assert_int_equal(cuda->launch[2].smem_bytes, 0);
  /* Eight rows of 1001 are a unit of 1001 vectors. */
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_int_equal(given.unit_rows, 8);
  assert_int_equal(given.unit_vectors, 1001);
  assert_int_equal(given.width, 1001);
  assert_int_equal(given.column_blocks, 4);
  assert_int_equal(given.row_blocks, 2); /* 13 units */
  assert_int_equal(given.units, 7);
  /* A chunk's x and y are pieces of memory. */
  memcpy(&given, cuda->launch[8].args, sizeof given);
  const int64_t chunk = (int64_t)cuda->launch[8].block * 8 * FLAT_VECTORS;
  int64_t rows = (chunk + 104) / 105 + 1, entries = (rows + 18) / 20 + 1;
  assert_int_equal(cuda->launch[8].grid, (INT64_C(5000) * 20 * 105 + chunk - 1) / chunk);
  assert_int_equal(given.x_bytes, (rows * 2 + 15) / 16 * 16 + 80);
  assert_int_equal(cuda->launch[8].smem_bytes, given.x_bytes + entries * 105 * 2 + 80);
  memcpy(&given, cuda->launch[13].args, sizeof given);
  assert_int_equal(cuda->launch[13].smem_bytes, given.x_bytes + chunk * 2 + 80);
  /* Of y that is gathered, 24 bytes from the last element on, in vectors of 8. */
  memcpy(&given, cuda->launch[16].args, sizeof given);
  rows = (chunk + 62) / 63 + 2;
  entries = (60 + rows - 3) / 60 + 1;
  assert_int_equal(given.row_blocks, rows);
  assert_int_equal(given.column_blocks, entries);
  assert_int_equal(given.pitch, 152);
  assert_int_equal(cuda->launch[16].smem_bytes, 8 * rows + entries * 152);

  /* A plan serves c of any strides and address. */
  args = legal_forward();
  assert_ok(attnpress_plan_outer(handle, &args, NULL, &plan));
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  assert_string_equal(cuda->launch[cuda->launches - 1].symbol, "outer_fwd_bf16_sm80");
  args.c = (char *)args.c + 2;
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  assert_string_equal(cuda->launch[cuda->launches - 1].symbol, "outer_unit_bf16_sm80");
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

static void test_launch_backward(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_outer_backward_args args = legal_backward();
  attnpress_outer_bwd_args given;
  attnpress_outer_reduce_args sums;
  assert_ok(attnpress_outer_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 2);
  memcpy(&given, cuda->launch[0].args, sizeof given);
  memcpy(&sums, cuda->launch[1].args, sizeof sums);
  assert_string_equal(cuda->launch[0].symbol, "outer_bwd_fp16_sm80");
  assert_string_equal(cuda->launch[1].symbol, "outer_bwd_reduce_fp16_sm80");
  assert_int_equal(cuda->launch[0].grid, 10 * 25);
  assert_true(cuda->launch[0].overlaps && cuda->launch[1].overlaps);
  assert_ptr_equal(given.dy_parts, args.workspace);
  assert_ptr_equal(sums.dy_parts, args.workspace);
  assert_int_equal(sums.elements, 10000);
  assert_int_equal(sums.row_blocks, 25);
  assert_null(given.dy);
  assert_int_equal(given.column_shift, 7); /* a whole block, as there are few */
  /* Eight threads share an element: there are four blocks an SM then, and three parts a thread. */
  assert_int_equal(sums.lane_shift, 3);
  assert_int_equal(cuda->launch[1].grid, (10000 + 15) / 16);
  args.dy = NULL;
  args.workspace_bytes = 0;
  assert_ok(attnpress_outer_backward(handle, &args, NULL));
  memcpy(&given, cuda->launch[2].args, sizeof given);
  assert_null(given.dy_parts);
  /* 12 vectors a row: 16 lanes have one, and a warp twice as many rows. */
  args.columns = 96;
  assert_ok(attnpress_outer_backward(handle, &args, NULL));
  memcpy(&given, cuda->launch[3].args, sizeof given);
  assert_int_equal(given.column_shift, 4);
  assert_int_equal(given.row_blocks, 4);
  assert_int_equal(cuda->launches, 4);
  /* With blocks enough the threads of a row are no more than a warp. */
  args.columns = 1000;
  args.batch = 100;
  assert_ok(attnpress_outer_backward(handle, &args, NULL));
  memcpy(&given, cuda->launch[4].args, sizeof given);
  assert_int_equal(given.column_shift, 5);
  assert_int_equal(given.row_blocks, 7);
  /* A block that has all rows writes dy itself, and needs no workspace. */
  args = legal_backward();
  args.rows = 3;
  args.workspace = NULL;
  args.workspace_bytes = 0;
  assert_ok(attnpress_outer_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 6);
  memcpy(&given, cuda->launch[5].args, sizeof given);
  assert_int_equal(given.row_blocks, 1);
  assert_null(given.dy_parts);
  assert_ptr_equal(given.dy, args.dy);
  assert_int_equal(given.dy_stride, 1000);
  attnpress_destroy(handle);
}

/** Of c, (100, 200), summed over 3000 entries. */
static attnpress_outer_args summed_forward(void) {
  attnpress_outer_args args = legal_forward();
  args.summed = 1;
  args.batch = 3000;
  args.columns = 200;
  return args;
}

static size_t bytes_of_plan(attnpress_handle *handle, const attnpress_outer_args *args,
                            int32_t range) {
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_plan *plan;
  size_t bytes;
  options.range = range;
  assert_ok(attnpress_plan_outer(handle, args, &options, &plan));
  assert_ok(attnpress_plan_workspace_bytes(plan, &bytes));
  attnpress_plan_destroy(plan);
  return bytes;
}

/* A batch is split as far as there may be a workspace, and each split has whole steps. */
static void test_launch_sum(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_outer_args args = summed_forward();
  attnpress_outer_sum_args given;
  attnpress_outer_reduce_args parts;
  assert_int_equal(bytes_of_plan(handle, &args, ATTNPRESS_ONE_CALL), 0);
  assert_ok(attnpress_outer(handle, &args, NULL));
  assert_int_equal(cuda->launches, 1);
  assert_string_equal(cuda->launch[0].symbol, "outer_sum_bf16_sm80");
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_int_equal(given.splits, 1);
  assert_null(given.parts);
  assert_int_equal(given.split_depth, 3000);
  assert_int_equal(cuda->launch[0].grid, given.row_blocks * given.column_blocks);

  args.workspace_bytes = SIZE_MAX;
  const size_t bytes = bytes_of_plan(handle, &args, ATTNPRESS_ONE_CALL);
  assert_int_equal(attnpress_outer(handle, &args, NULL), ATTNPRESS_WORKSPACE_TOO_SMALL);
  args.workspace = (void *)0x2000000;
  for (int exact = 0; exact < 2; ++exact) { /* what is needed is enough for the same splits */
    args.workspace_bytes = exact ? bytes : SIZE_MAX;
    assert_int_equal(bytes_of_plan(handle, &args, ATTNPRESS_ONE_CALL), bytes);
    assert_ok(attnpress_outer(handle, &args, NULL));
    assert_int_equal(cuda->launches, 3 + 2 * exact);
    memcpy(&given, cuda->launch[1 + 2 * exact].args, sizeof given);
    memcpy(&parts, cuda->launch[2 + 2 * exact].args, sizeof parts);
    assert_string_equal(cuda->launch[2 + 2 * exact].symbol, "outer_bwd_reduce_bf16_sm80");
    assert_true(given.splits > 4);
    assert_int_equal(bytes, (size_t)given.splits * 100 * 200 * 4);
    assert_int_equal(given.split_depth % 32, 0);
    assert_true((given.splits - 1) * given.split_depth < 3000);
    assert_true(given.splits * given.split_depth >= 3000);
    assert_ptr_equal(given.parts, args.workspace);
    assert_int_equal(cuda->launch[1].grid, given.splits * given.row_blocks * given.column_blocks);
    assert_ptr_equal(parts.dy, args.c);
    assert_int_equal(parts.dy_stride, 200);
    assert_int_equal(parts.elements, 100 * 200);
    assert_int_equal(parts.columns, 200);
    assert_int_equal(parts.row_blocks, given.splits);
  }
  args.workspace_bytes = 3 * 100 * 200 * 4 + 1;
  assert_ok(attnpress_outer(handle, &args, NULL));
  memcpy(&given, cuda->launch[5].args, sizeof given);
  assert_int_equal(given.splits, 3);
  assert_int_equal(bytes_of_plan(handle, &args, ATTNPRESS_UP_TO), args.workspace_bytes);
  args.batch = 0; /* a sum of nothing */
  assert_ok(attnpress_outer(handle, &args, NULL));
  memcpy(&given, cuda->launch[7].args, sizeof given);
  assert_int_equal(given.depth, 0);
  assert_int_equal(cuda->launches, 8);
  attnpress_destroy(handle);
}

/* The gradients of a sum are sums of products, but of few entries or a function. */
static void test_launch_sum_gradients(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_outer_backward_args args = legal_backward();
  attnpress_outer_sum_args given;
  args.summed = 1;
  args.batch = 40;
  args.rows = 250;
  args.columns = 2000;
  args.x_stride = args.y_stride = args.dc_row_stride = args.dx_stride = args.dy_stride = 0;
  args.workspace_bytes = (size_t)1 << 30;
  assert_ok(attnpress_outer_backward(handle, &args, NULL));
  assert_string_equal(cuda->launch[0].symbol, "outer_sum_dx_fp16_sm80");
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_true(given.a == args.y && given.b == args.dc);
  assert_int_equal(given.rows, 40);
  assert_int_equal(given.columns, 250);
  assert_int_equal(given.depth, 2000);
  assert_true(given.splits > 1);
  attnpress_outer_reduce_args parts;
  memcpy(&parts, cuda->launch[1].args, sizeof parts);
  assert_ptr_equal(parts.dy, args.dx);
  assert_int_equal(parts.columns, 250);
  assert_string_equal(cuda->launch[2].symbol, "outer_sum_dy_fp16_sm80");
  memcpy(&given, cuda->launch[2].args, sizeof given);
  assert_true(given.a == args.x && given.b == args.dc && given.c == args.dy);
  assert_int_equal(given.columns, 2000);
  assert_int_equal(given.depth, 250);
  assert_int_equal(given.splits, 1);
  assert_int_equal(cuda->launches, 3);
  args.dy = NULL; /* who needs dx alone gives no workspace: tiles must be enough without splits */
  args.workspace_bytes = 0;
  args.batch = 400;
  assert_ok(attnpress_outer_backward(handle, &args, NULL));
  memcpy(&given, cuda->launch[3].args, sizeof given);
  assert_int_equal(given.splits, 1);
  assert_ptr_equal(given.c, args.dx);
  assert_int_equal(cuda->launches, 4);
  args.batch = 40;
  assert_ok(attnpress_outer_backward(handle, &args, NULL));
  assert_string_equal(cuda->launch[4].symbol, "outer_bwd_fp16_sm80");
  args = backward_with_mod();
  args.summed = 1;
  args.batch = 400;
  args.workspace_bytes = (size_t)1 << 30;
  assert_ok(attnpress_outer_backward(handle, &args, NULL));
  assert_string_equal(cuda->launch[5].symbol, "outer_bwd_fp16_mod_sm80");
  attnpress_destroy(handle);
}

/* Of few elements, or few entries, the kernel that reads dc for each entry takes less time. */
static void test_small_sum_gradients(void **state) {
  (void)state;
  static const struct {
    int64_t batch, rows, columns;
    int dtype, products;
  } shapes[] = {
      {18, 1000, 1000, ATTNPRESS_BF16, 0},       {19, 1000, 1000, ATTNPRESS_BF16, 1},
      {19, 1000, 1000, ATTNPRESS_FP16, 1},       {19, 1000, 1000, ATTNPRESS_FP32, 0},
      {36, 1000, 1000, ATTNPRESS_FP32, 0},       {37, 1000, 1000, ATTNPRESS_FP32, 1},
      {7, 4000, 4000, ATTNPRESS_BF16, 0},        {8, 4000, 4000, ATTNPRESS_BF16, 1},
      {15, 4000, 4000, ATTNPRESS_FP32, 0},       {16, 4000, 4000, ATTNPRESS_FP32, 1},
      {10, 2000000000, 1000, ATTNPRESS_BF16, 1},
  };
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    attnpress_outer_backward_args args = legal_backward();
    const int launches = cuda->launches;
    args.summed = 1;
    args.batch = shapes[i].batch;
    args.rows = shapes[i].rows;
    args.columns = shapes[i].columns;
    args.dtype = shapes[i].dtype;
    args.x = args.y = args.dc = (void *)0x10000;
    args.dx = args.dy = (void *)0x20000;
    args.workspace_bytes = (size_t)1 << 50;
    assert_ok(attnpress_outer_backward(handle, &args, NULL));
    assert_int_equal(strncmp(cuda->launch[launches].symbol, "outer_sum_dx", 12) == 0,
                     shapes[i].products);
  }
  attnpress_destroy(handle);
}

static void test_plans(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_outer_backward_args args = legal_backward();
  attnpress_plan *plan;
  size_t bytes, bound;
  assert_ok(attnpress_plan_outer_backward(handle, &args, &options, &plan));
  assert_ok(attnpress_plan_workspace_bytes(plan, &bytes));
  assert_int_equal(bytes, args.workspace_bytes);
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  args.rows = 99;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("rows is 99 and was 100");
  attnpress_plan_destroy(plan);
  options.range = ATTNPRESS_UP_TO;
  args.rows = 1000;
  assert_ok(attnpress_plan_outer_backward(handle, &args, &options, &plan));
  assert_ok(attnpress_plan_workspace_bytes(plan, &bound));
  assert_true(bound >= bytes);
  args.rows = 7;
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  args.dy = NULL;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("dy is NULL and was given");
  attnpress_plan_destroy(plan);
  args = legal_backward(); /* a plan of one call of a sum's gradients has those it was made with */
  args.summed = 1;
  options.range = ATTNPRESS_ONE_CALL;
  for (int dx = 0; dx < 2; ++dx) {
    void *const given = legal_backward().dx;
    args.dx = dx ? given : NULL;
    assert_ok(attnpress_plan_outer_backward(handle, &args, &options, &plan));
    args.dx = dx ? NULL : given;
    assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
    assert_error_says(dx ? "dx is NULL and was given" : "dx is given and was NULL");
    attnpress_plan_destroy(plan);
  }
  options.range = ATTNPRESS_UP_TO;
  args = legal_backward();
  args.batch = 0;
  assert_ok(attnpress_plan_outer_backward(handle, &args, &options, &plan));
  assert_int_equal(attnpress_plan_workspace_bytes(plan, &bound), ATTNPRESS_NOT_SUPPORTED);
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

/** Whether the kernel of launch number `index` is one of the plan's. */
static int is_planned(const attnpress_plan *plan, int index) {
  int found = 0;
  for (int i = 0; i < attnpress_plan_launch_count(plan); ++i) {
    attnpress_info info = ATTNPRESS_INFO_INIT;
    assert_ok(attnpress_plan_launch(plan, i, &info));
    found |= strcmp(info.stem, cuda->launch[index].symbol) == 0;
  }
  return found;
}

/** A range of sums has a workspace with a bound, and it and the range's kernels are enough for each
 * call. */
static void test_sum_ranges(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {{3000, 100, 200}, {5000, 300, 300}, {5000, 1, 1},
                                      {4999, 64, 300},  {1, 300, 299},    {9, 300, 300}};
  attnpress_handle *handle = make_handle();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_outer_args args = summed_forward();
  attnpress_plan *plan;
  options.range = ATTNPRESS_UP_TO;
  args.batch = 5000;
  args.rows = args.columns = 300;
  args.workspace_bytes = SIZE_MAX;
  args.workspace = (void *)0x2000000;
  const size_t bound = bytes_of_plan(handle, &args, ATTNPRESS_UP_TO);
  assert_ok(attnpress_plan_outer(handle, &args, &options, &plan));
  int launches = 0;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    args.batch = shapes[i][0];
    args.rows = shapes[i][1];
    args.columns = shapes[i][2];
    args.workspace_bytes = SIZE_MAX;
    assert_true(bytes_of_plan(handle, &args, ATTNPRESS_ONE_CALL) <= bound);
    args.workspace_bytes = bound;
    assert_ok(attnpress_plan_run(plan, &args, NULL));
    for (; launches < cuda->launches; ++launches)
      assert_true(is_planned(plan, launches));
  }
  attnpress_plan_destroy(plan);
  args.workspace_bytes = 0;
  assert_int_equal(bytes_of_plan(handle, &args, ATTNPRESS_UP_TO), 0);
  attnpress_destroy(handle);
}

static void test_sum_gradient_ranges(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {{3000, 100, 200}, {5000, 300, 300}, {5000, 1, 1},
                                      {1, 300, 299},    {64, 1, 300},     {64, 300, 1},
                                      {5000, 13, 300},  {5000, 300, 13},  {5000, 12, 300}};
  attnpress_handle *handle = make_handle();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  for (int dy = 0; dy < 2; ++dy) {
    attnpress_outer_backward_args args = legal_backward();
    attnpress_plan *plan;
    size_t bound;
    options.range = ATTNPRESS_UP_TO;
    args.summed = 1;
    args.batch = 5000;
    args.rows = args.columns = 300;
    args.dy = dy ? args.dy : NULL;
    assert_ok(attnpress_plan_outer_backward(handle, &args, &options, &plan));
    assert_ok(attnpress_plan_workspace_bytes(plan, &bound));
    assert_int_equal(bound == 0, !dy);
    int launches = cuda->launches;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
      args.batch = shapes[i][0];
      args.rows = shapes[i][1];
      args.columns = shapes[i][2];
      args.workspace_bytes = bound;
      assert_ok(attnpress_plan_run(plan, &args, NULL));
      for (; launches < cuda->launches; ++launches)
        assert_true(is_planned(plan, launches));
    }
    attnpress_plan_destroy(plan);
  }
  attnpress_destroy(handle);
}

static int set_up_outer(void **state) {
  const int status = set_up_group(state);
  cuda->args_of("outer_fwd", sizeof(attnpress_outer_fwd_args));
  cuda->args_of("outer_unit", sizeof(attnpress_outer_fwd_args));
  cuda->args_of("outer_chunk", sizeof(attnpress_outer_fwd_args));
  cuda->args_of("outer_flat", sizeof(attnpress_outer_fwd_args));
  cuda->args_of("outer_sum", sizeof(attnpress_outer_sum_args));
  cuda->args_of("outer_bwd", sizeof(attnpress_outer_bwd_args));
  cuda->args_of("outer_bwd_reduce", sizeof(attnpress_outer_reduce_args));
  return status;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cpu), cmocka_unit_test(test_fp64),
      TEST(test_bad_input),       TEST(test_launch_forward),
      TEST(test_launch_backward), TEST(test_plans),
      TEST(test_bad_mods),        TEST(test_launch_mod),
      TEST(test_plan_mod),        TEST(test_texts),
      TEST(test_launch_sum),      TEST(test_launch_sum_gradients),
      TEST(test_sum_ranges),      TEST(test_sum_gradient_ranges),
      TEST(test_launch_run),      TEST(test_small_sum_gradients),
  };
  return cmocka_run_group_tests_name("outer", tests, set_up_outer, tear_down_group);
}
