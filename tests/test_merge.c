/* Merging parts of attention without a GPU: numbers on the CPU, what bad input gets, and what a
 * call is launched with (the driver and NVRTC are stand-ins). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "../tools/merge/reference.h"
#include "api_support.h"
#include "attnpress/args/merge.h"
#include "attnpress/merge.h"

/* ---- Numbers on the CPU ---------------------------------------------------------------------- */

/* batch, seqlen, heads, head_dim; then, by name */
static const merge_shape shapes[] = {
    {1, 1, 1, 1, .num_parts = 1},
    {2, 33, 3, 128, .num_parts = 2},
    {3, 20, 5, 33, .num_parts = 3, .layout = MERGE_ODD, .lse_log2 = 1},
    {2, 17, 4, 72, .num_parts = 16, .layout = MERGE_HEADS_OUTSIDE, .in_place = 1},
    {2, 9, 2, 520, .num_parts = 5, .no_lse = 1},
};

/** The call, on so many threads; `result`: what is in its buffers then, freed by the caller. */
static void run_shape(const merge_shape *s, int32_t threads, unsigned char **result,
                      int64_t *bytes) {
  merge_problem problem, before;
  void *buffer[MERGE_BUFFERS], *copy[MERGE_BUFFERS];
  attnpress_handle *handle = make_cpu_handle(threads);
  merge_error error = {0};
  merge_lay_out(&problem, s);
  before = problem;
  *bytes = 0;
  for (int i = 0; i < MERGE_BUFFERS; ++i)
    *bytes += (problem.bytes[i] + 15) / 16 * 16;
  unsigned char *at = *result = malloc((size_t)*bytes), *other = malloc((size_t)*bytes);
  memset(at, 0xff, (size_t)*bytes);
  for (int64_t i = 0, first = 0; i < MERGE_BUFFERS; first += (problem.bytes[i++] + 15) / 16 * 16) {
    buffer[i] = at + first;
    copy[i] = other + first;
  }
  merge_point(&problem, s, buffer);
  merge_point(&before, s, copy);
  merge_fill(&problem, 7);
  memcpy(other, at, (size_t)*bytes);
  assert_ok(attnpress_merge(handle, &problem.args, NULL));
  merge_check(&problem.args, before.part, &error);
  if (!(error.ratio <= 1.0))
    fail_msg("%s of batch %d, row %d, head %d, column %d is %.9g, expected %.9g", error.what,
             (int)error.batch, (int)error.row, (int)error.head, (int)error.column, error.value,
             error.expected);
  assert_true(error.elements >= s->batch * s->seqlen * s->heads * s->head_dim);
  attnpress_destroy(handle);
  free(other);
}

/* Every pair of dtypes; on one thread and on several the same bits. */
static void test_cpu(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    for (int32_t dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype)
      for (int32_t out = ATTNPRESS_FP16; out <= ATTNPRESS_FP32; ++out) {
        merge_shape s = shapes[i];
        unsigned char *one, *several;
        int64_t bytes, same;
        s.dtype = dtype;
        s.out_dtype = out;
        if (s.in_place && dtype != out)
          continue;
        run_shape(&s, 1, &one, &bytes);
        run_shape(&s, 3, &several, &same);
        assert_memory_equal(one, several, bytes);
        free(one), free(several);
      }
}

static attnpress_merge_part part_of(const void *out, const float *lse, int32_t dtype) {
  attnpress_merge_part part = ATTNPRESS_MERGE_PART_INIT;
  part.out = attnpress_tensor_bshd(out, 1, 1, 1, 2, dtype);
  part.lse = lse;
  return part;
}

/* Numbers that can be told by hand: parts of one weight, parts far apart, parts without keys. */
static void test_by_hand(void **state) {
  (void)state;
  const float first[2] = {1, -2}, second[2] = {3, 4};
  const struct {
    float lse[2], out[2], merged;
    int32_t log2;
  } rows[] = {
      {{0, 0}, {2, 1}, 0.69314718f, 0},
      {{5, 5}, {2, 1}, 6, 1},
      {{0, 1e30f}, {3, 4}, 1e30f, 0}, /* far beyond what exp() can hold */
      {{-3e38f, -3e38f}, {2, 1}, -3e38f, 0},
      {{-INFINITY, 2}, {3, 4}, 2, 0},
      {{-5, INFINITY}, {1, -2}, -5, 0},
      {{-INFINITY, -INFINITY}, {0, 0}, -INFINITY, 0},
      {{INFINITY, -INFINITY}, {0, 0}, -INFINITY, 1},
  };
  attnpress_handle *handle = make_cpu_handle(1);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const attnpress_merge_part parts[2] = {part_of(first, &rows[i].lse[0], ATTNPRESS_FP32),
                                           part_of(second, &rows[i].lse[1], ATTNPRESS_FP32)};
    float out[2] = {NAN, NAN}, lse = NAN;
    attnpress_merge_args args = ATTNPRESS_MERGE_ARGS_INIT;
    args.parts = parts;
    args.num_parts = 2;
    args.lse_log2 = rows[i].log2;
    args.out = attnpress_tensor_bshd(out, 1, 1, 1, 2, ATTNPRESS_FP32);
    args.lse = &lse;
    assert_ok(attnpress_merge(handle, &args, NULL));
    assert_float_equal(out[0], rows[i].out[0], 1e-6);
    assert_float_equal(out[1], rows[i].out[1], 1e-6);
    assert_true(lse == rows[i].merged || fabsf(lse - rows[i].merged) < 1e-6f);
  }
  attnpress_destroy(handle);
}

/* NaN in an lse that counts, or in a row that counts, is seen; where it does not count, not. */
static void test_nan(void **state) {
  (void)state;
  const float good[2] = {1, 1}, bad[2] = {NAN, 1}, zero = 0, none = -INFINITY, nan = NAN;
  attnpress_handle *handle = make_cpu_handle(1);
  attnpress_merge_part parts[2] = {part_of(good, &zero, ATTNPRESS_FP32),
                                   part_of(bad, &none, ATTNPRESS_FP32)};
  float out[2], lse;
  attnpress_merge_args args = ATTNPRESS_MERGE_ARGS_INIT;
  args.parts = parts;
  args.num_parts = 2;
  args.out = attnpress_tensor_bshd(out, 1, 1, 1, 2, ATTNPRESS_FP32);
  args.lse = &lse;
  assert_ok(attnpress_merge(handle, &args, NULL));
  assert_true(out[0] == 1 && out[1] == 1 && lse == 0);
  parts[1].lse = &zero;
  assert_ok(attnpress_merge(handle, &args, NULL));
  assert_true(isnan(out[0]) && out[1] == 1);
  parts[1].lse = &nan;
  parts[1].out.data = (void *)(uintptr_t)good;
  assert_ok(attnpress_merge(handle, &args, NULL));
  assert_true(isnan(out[0]) && isnan(out[1]) && isnan(lse));
  attnpress_destroy(handle);
}

/* ---- Bad input ------------------------------------------------------------------------------- */

static attnpress_merge_part legal_parts[ATTNPRESS_MERGE_PARTS_MAX];

/** Three parts; the pointers are only looked at. */
static attnpress_merge_args legal_merge(void) {
  attnpress_merge_args args = ATTNPRESS_MERGE_ARGS_INIT;
  for (int i = 0; i < ATTNPRESS_MERGE_PARTS_MAX; ++i) {
    legal_parts[i] = (attnpress_merge_part)ATTNPRESS_MERGE_PART_INIT;
    legal_parts[i].out =
        attnpress_tensor_bshd((char *)0x100000 + 0x10000 * i, 2, 10, 6, 72, ATTNPRESS_BF16);
    legal_parts[i].lse = (float *)0x800000 + 0x1000 * i;
  }
  args.parts = legal_parts;
  args.num_parts = 3;
  args.out = attnpress_tensor_bhsd((void *)0x900000, 2, 10, 6, 72, ATTNPRESS_BF16);
  args.lse = (float *)0xa00000;
  return args;
}

#define SPOIL(name, statement)                                                                     \
  static void name(attnpress_merge_args *a) {                                                      \
    (void)a;                                                                                       \
    statement;                                                                                     \
  }
SPOIL(parts_none, a->num_parts = 0)
SPOIL(parts_many, a->num_parts = 17)
SPOIL(parts_null, a->parts = NULL)
SPOIL(log2_2, a->lse_log2 = 2)
SPOIL(dtype_4, legal_parts[0].out.dtype = 4)
SPOIL(dtypes_differ, legal_parts[2].out.dtype = ATTNPRESS_FP16)
SPOIL(shapes_differ, legal_parts[1].out.shape[2] = 5)
SPOIL(out_differs, a->out.shape[3] = 64)
SPOIL(part_null, legal_parts[2].out.data = NULL)
SPOIL(part_misaligned, legal_parts[1].out.data = (void *)0x100001)
SPOIL(part_negative, legal_parts[1].out.stride[1] = -8)
SPOIL(part_not_contiguous, legal_parts[0].out.stride[3] = 2)
SPOIL(part_spans_much, legal_parts[0].out.stride[0] = INT64_MAX / 2)
SPOIL(part_reserved, legal_parts[0].out.reserved = 1)
SPOIL(part_lse_null, legal_parts[2].lse = NULL)
SPOIL(part_lse_negative, legal_parts[2].lse_stride[1] = -1)
SPOIL(lse_misaligned, a->lse = (float *)0xa00002)
SPOIL(lse_overlaps, (a->lse_stride[0] = 60, a->lse_stride[1] = 9, a->lse_stride[2] = 1))
SPOIL(out_overlaps, a->out.stride[2] = 71)
SPOIL(out_broadcast, a->out.stride[0] = 0)
SPOIL(out_over_part_strides, a->out.data = legal_parts[1].out.data)
SPOIL(out_over_part_dtype, (a->out = legal_parts[1].out, a->out.dtype = ATTNPRESS_FP16))
SPOIL(lse_over_part, (a->lse = (float *)(uintptr_t)legal_parts[0].lse, a->lse_stride[0] = 1,
                      a->lse_stride[1] = 2, a->lse_stride[2] = 12))
SPOIL(struct_small, a->struct_size = 128)

static const struct {
  void (*spoil)(attnpress_merge_args *args);
  const char *says;
} bad_inputs[] = {
    {parts_none, "num_parts is 0; it must be 1 to 16"},
    {parts_many, "num_parts is 17; it must be 1 to 16"},
    {parts_null, "parts is NULL"},
    {log2_2, "lse_log2 is 2"},
    {dtype_4, "parts[0].out.dtype is 4"},
    {dtypes_differ, "parts[2].out.dtype is 1 and parts[0]'s is 2"},
    {shapes_differ, "parts[1].out.shape[2] (heads) is 5 and parts[0].out's is 6"},
    {out_differs, "out.shape[3] (head_dim) is 64"},
    {part_null, "parts[2].out.data is NULL"},
    {part_misaligned, "parts[1].out.data is 0x100001"},
    {part_negative, "parts[1].out.stride[1] (seqlen) is -8"},
    {part_not_contiguous, "parts[0].out.stride[3] (head_dim) is 2"},
    {part_spans_much, "spans more than 2^63 bytes"},
    {part_reserved, "parts[0].out.reserved is 1"},
    {part_lse_null, "parts[2].lse is NULL"},
    {part_lse_negative, "parts[2].lse_stride[1] (head) is -1"},
    {lse_misaligned, "lse is 0xa00002"},
    {lse_overlaps, "lse_stride is 60, 9, 1"},
    {out_overlaps, "so that rows overlap"},
    {out_broadcast, "out.stride is 0,"},
    {out_over_part_strides, "out lies over parts[1].out, whose stride[1] is 432"},
    {out_over_part_dtype, "out lies over parts[1].out, whose dtype is 2, and has dtype 1"},
    {lse_over_part, "lse lies over parts[0].lse, whose lse_stride[0] is 60"},
    {struct_small, "struct_size"},
};

static void test_bad_input(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof bad_inputs / sizeof *bad_inputs; ++i) {
    attnpress_merge_args args = legal_merge();
    bad_inputs[i].spoil(&args);
    if (attnpress_merge(handle, &args, NULL) != ATTNPRESS_INVALID_ARGUMENT)
      fail_msg("accepted, though %s", bad_inputs[i].says);
    assert_error_says(bad_inputs[i].says);
  }
  attnpress_merge_args args = legal_merge();
  for (int i = 0; i < 3; ++i)
    legal_parts[i].out =
        attnpress_tensor_bshd((void *)0x100000, 1 << 10, 1 << 11, 1 << 10, 8, ATTNPRESS_BF16);
  args.out = attnpress_tensor_bshd((void *)0x200000, 1 << 10, 1 << 11, 1 << 10, 8, ATTNPRESS_BF16);
  assert_int_equal(attnpress_merge(handle, &args, NULL), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("more than 2^31 - 1 rows");
  assert_int_equal(attnpress_merge(handle, NULL, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(cuda->launches, 0);
  attnpress_destroy(handle);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void test_launch(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_merge_args args = legal_merge();
  attnpress_merge_parts_args given;
  assert_ok(attnpress_merge(handle, &args, NULL));
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_string_equal(cuda->launch[0].symbol, "merge_parts_bf16_obf16_sm80");
  assert_int_equal(given.rows, 120);
  assert_int_equal(given.lane_shift, 4); /* 9 vectors */
  assert_int_equal(cuda->launch[0].grid, (120 + 15) / 16);
  assert_int_equal(given.parts, 3);
  assert_ptr_equal(given.part[2].out, legal_parts[2].out.data);
  assert_int_equal(given.part[0].lse_batch_stride, 60);
  assert_int_equal(given.result.row_stride, 72);
  assert_int_equal(given.result.head_stride, 720);
  args.out.dtype = ATTNPRESS_FP32;
  args.lse = NULL;
  args.num_parts = 16;
  args.lse_log2 = 1;
  assert_ok(attnpress_merge(handle, &args, NULL));
  memcpy(&given, cuda->launch[1].args, sizeof given);
  assert_string_equal(cuda->launch[1].symbol, "merge_parts_bf16_ofp32_sm80");
  assert_null(given.result.lse);
  assert_true(given.log2_of_lse == 1.0f && given.lse_of_log2 == 1.0f);
  for (int i = 0; i < 16; ++i)
    legal_parts[i].out.shape[1] = 0;
  args.out.shape[1] = 0;
  assert_ok(attnpress_merge(handle, &args, NULL)); /* nothing to do */
  assert_int_equal(cuda->launches, 2);
  attnpress_destroy(handle);
}

/* In place: at equal addresses, strides and dtype. */
static void test_in_place(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_merge_args args = legal_merge();
  args.out = legal_parts[1].out;
  args.lse = (float *)(uintptr_t)legal_parts[1].lse;
  assert_ok(attnpress_merge(handle, &args, NULL));
  assert_int_equal(cuda->launches, 1);
  attnpress_destroy(handle);
}

static void test_plans(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_merge_args args = legal_merge();
  attnpress_info info = ATTNPRESS_INFO_INIT;
  attnpress_plan *plan;
  size_t bytes = 1;
  assert_ok(attnpress_plan_merge(handle, &args, &options, &plan));
  assert_ok(attnpress_plan_workspace_bytes(plan, &bytes));
  assert_int_equal(bytes, 0);
  assert_int_equal(attnpress_plan_launch_count(plan), 1);
  assert_ok(attnpress_plan_launch(plan, 0, &info));
  assert_string_equal(info.stem, "merge_parts_bf16_obf16_sm80");
  assert_ok(attnpress_plan_prepare(plan, NULL));
  args.num_parts = 9; /* of any number */
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  for (int i = 0; i < 9; ++i)
    legal_parts[i].out.shape[1] = 9;
  args.out.shape[1] = 9;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("seqlen is 9 and was 10");
  attnpress_plan_destroy(plan);
  options.range = ATTNPRESS_UP_TO;
  assert_ok(attnpress_plan_merge(handle, &args, &options, &plan));
  args = legal_merge();
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  args.out.dtype = ATTNPRESS_FP32;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("out.dtype is 3 and was 2");
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

static int set_up_merge(void **state) {
  const int status = set_up_group(state);
  cuda->args_of("merge_parts", sizeof(attnpress_merge_parts_args));
  return status;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cpu), cmocka_unit_test(test_by_hand),
      cmocka_unit_test(test_nan), TEST(test_bad_input),
      TEST(test_launch),          TEST(test_in_place),
      TEST(test_plans),
  };
  return cmocka_run_group_tests_name("merge", tests, set_up_merge, tear_down_group);
}
