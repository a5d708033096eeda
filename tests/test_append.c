/* Appending to a cache without a GPU: what is written on the CPU and what is not, what bad input
 * gets, and what a call is launched with (the driver and NVRTC are stand-ins). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../tools/append/reference.h"
#include "api_support.h"
#include "attnpress/append.h"
#include "attnpress/args/append.h"

/* ---- On the CPU ------------------------------------------------------------------------------ */

/** Row (entry, row) of what may be written as it was before. */
static void restore_row(const attnpress_tensor *t, const attnpress_tensor *before, int64_t entry,
                        int64_t row) {
  const int64_t bytes = t->dtype == ATTNPRESS_FP32 ? 4 : 2;
  for (int64_t h = 0; h < t->shape[2]; ++h) {
    const int64_t at = (entry * t->stride[0] + row * t->stride[1] + h * t->stride[2]) * bytes;
    memcpy((char *)t->data + at, (const char *)before->data + at, (size_t)(t->shape[3] * bytes));
  }
}

/** Where it was not written, memory has every byte that it had: `at` and `other` are all of it,
 * after the call and before. */
static void check_the_rest(const append_check *c, unsigned char *at, const unsigned char *other,
                           int64_t bytes) {
  const attnpress_append_args *a = c->args, *b = c->before;
  const attnpress_tensor *q = a->q_out.dtype != 0 ? &a->q_out : &a->q;
  const attnpress_tensor *old = b->q_out.dtype != 0 ? &b->q_out : &b->q;
  const attnpress_tensor *cache = a->k_cache.dtype != 0 ? &a->k_cache : &a->v_cache;
  const int64_t places = cache->shape[0] * cache->shape[1];
  for (int64_t i = 0; i < places; ++i) {
    if (c->owner[i] >= 0)
      restore_row(&a->k_cache, &b->k_cache, i / cache->shape[1], i % cache->shape[1]);
    if (c->owner[places + i] >= 0)
      restore_row(&a->v_cache, &b->v_cache, i / cache->shape[1], i % cache->shape[1]);
  }
  for (int64_t t = 0; t < q->shape[0] * q->shape[1]; ++t)
    restore_row(q, old, t / q->shape[1], t % q->shape[1]);
  assert_memory_equal(at, other, bytes);
}

/** The call, on so many threads; a number that stands for all that it wrote. */
static uint64_t run_shape(const append_shape *s, int32_t threads) {
  append_problem problem, before;
  void *buffer[APPEND_BUFFERS], *copy[APPEND_BUFFERS];
  attnpress_handle *handle = make_cpu_handle(threads);
  append_error error = {0};
  int64_t bytes = 0;
  uint64_t hash = 0;
  append_lay_out(&problem, s);
  before = problem;
  for (int i = 0; i < APPEND_BUFFERS; ++i)
    bytes += (problem.bytes[i] + 15) / 16 * 16;
  unsigned char *at = malloc((size_t)bytes), *other = malloc((size_t)bytes);
  memset(at, 0xff, (size_t)bytes);
  for (int64_t i = 0, first = 0; i < APPEND_BUFFERS; first += (problem.bytes[i++] + 15) / 16 * 16) {
    buffer[i] = at + first;
    copy[i] = other + first;
  }
  append_point(&problem, s, buffer);
  append_point(&before, s, copy);
  append_fill(&problem, s, 5);
  memcpy(other, at, (size_t)bytes);
  assert_ok(attnpress_append(handle, &problem.args, NULL));
  append_check check = {.args = &problem.args, .before = &before.args};
  assert_int_equal(append_check_open(&check), 0);
  for (int64_t row = 0; row < append_check_rows(&check); ++row)
    append_check_row(&check, row, &error);
  if (!(error.ratio <= 1.0))
    fail_msg("%s[%d, %d, %d, %d] is %.9g, expected %.9g", error.what, (int)error.at[0],
             (int)error.at[1], (int)error.at[2], (int)error.at[3], error.value, error.expected);
  assert_true(error.elements > 0);
  for (int64_t i = 0; i < bytes; ++i)
    hash = hash * 1099511628211u + at[i];
  check_the_rest(&check, at, other, bytes);
  append_check_close(&check);
  attnpress_destroy(handle);
  free(at), free(other);
  return hash;
}

/* Every way to a place, both styles, tables of both dtypes, good indices and bad: taken in turn by
 * the number of the shape, each with each dtype. On one thread and on several the same bits. */
static void test_cpu(void **state) {
  (void)state;
  for (int32_t i = 0; i < 96; ++i) {
    const append_shape s = {
        .batch = 1 + i % 6,
        .new_tokens = 1 + i * 5 % 7,
        .heads_kv = i % 11 == 10 ? 0 : 1 + i % 3,
        .heads_q = i % 4 == 3     ? 4
                   : i % 11 == 10 ? 2
                                  : i % 4,
        .head_dim = i % 5 == 4 ? 33 : 8 * (1 + i % 9),
        .head_dim_v = i % 7 == 6 ? 0
                      : i % 2    ? 24
                                 : 8 * (1 + i % 9),
        .cache_rows = i % 12 < 6 ? 1 + i % 8 : 20,
        .dtype = ATTNPRESS_FP16 + i % 3,
        .places = i / 3 % APPEND_PLACES,
        .rotary_dim = i % 4 == 0 && i % 11 != 10 ? 0
                      : i % 3 == 1               ? 2
                                                 : 8 * (1 + i % 9) / 4 * 2,
        .interleaved = i / 2 % 2,
        .rotary_own = i / 4 % 2,
        .own_positions = i % 5 == 2,
        .own_first = i % 5 == 3,
        .q_at_first = i % 5 > 2 && i % 2,
        .ragged = i / 6 % 2,
        .q_out = i / 8 % 2,
        .layout = i / 4 % APPEND_LAYOUTS,
        .bad = i / 12 % 2,
    };
    append_shape legal = s;
    if (legal.rotary_dim > legal.head_dim)
      legal.rotary_dim = (int32_t)legal.head_dim / 2 * 2;
    if (legal.rotary_dim == 0)
      legal.heads_q = 0;
    assert_true(run_shape(&legal, 1) == run_shape(&legal, 3));
  }
}

/* Numbers that can be told by hand: pairs turned by a right angle. */
static void test_by_hand(void **state) {
  (void)state;
  const float k_new[2][6] = {{1, 2, 3, 4, 5, 6}, {10, 20, 30, 40, 50, 60}};
  const float cos[4][2] = {{1, 1}, {0, 1}, {1, 0}, {0, 0}},
              sin[4][2] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}};
  const int32_t seqused[1] = {2};
  float k_cache[5][6];
  attnpress_rotary rotary = ATTNPRESS_ROTARY_INIT;
  rotary.cos = cos, rotary.sin = sin;
  rotary.num_positions = 4;
  rotary.rotary_dim = 4;
  rotary.dtype = ATTNPRESS_FP32;
  attnpress_append_args args = ATTNPRESS_APPEND_ARGS_INIT;
  args.k_new = attnpress_tensor_bshd(k_new, 1, 2, 1, 6, ATTNPRESS_FP32);
  args.k_cache = attnpress_tensor_bshd(k_cache, 1, 5, 1, 6, ATTNPRESS_FP32);
  args.seqused_k = seqused;
  args.rotary = &rotary;
  attnpress_handle *handle = make_cpu_handle(1);
  const float expected[2][2][6] = {{{1, -4, 3, 2, 5, 6}, {-30, -40, 10, 20, 50, 60}},
                                   {{1, 2, -4, 3, 5, 6}, {-20, 10, -40, 30, 50, 60}}};
  for (int style = 0; style < 2; ++style) {
    memset(k_cache, 0, sizeof k_cache);
    rotary.interleaved = style;
    assert_ok(attnpress_append(handle, &args, NULL));
    assert_memory_equal(k_cache[2], expected[style], sizeof expected[style]);
    for (int i = 0; i < 6; ++i)
      assert_true(k_cache[0][i] == 0 && k_cache[1][i] == 0 && k_cache[4][i] == 0);
  }
  attnpress_destroy(handle);
}

/* ---- Bad input ------------------------------------------------------------------------------- */

static attnpress_rotary legal_rotary;

/** All three tensors, dense; the pointers are only looked at. */
static attnpress_append_args legal_append(void) {
  attnpress_append_args args = ATTNPRESS_APPEND_ARGS_INIT;
  legal_rotary = (attnpress_rotary)ATTNPRESS_ROTARY_INIT;
  legal_rotary.cos = (void *)0x10000;
  legal_rotary.sin = (void *)0x20000;
  legal_rotary.num_positions = 100;
  legal_rotary.rotary_dim = 32;
  legal_rotary.dtype = ATTNPRESS_FP32;
  args.k_new = attnpress_tensor_bshd((void *)0x100000, 3, 5, 2, 72, ATTNPRESS_BF16);
  args.v_new = attnpress_tensor_bshd((void *)0x200000, 3, 5, 2, 64, ATTNPRESS_BF16);
  args.q = attnpress_tensor_bshd((void *)0x300000, 3, 5, 8, 72, ATTNPRESS_BF16);
  args.k_cache = attnpress_tensor_bhsd((void *)0x400000, 4, 100, 2, 72, ATTNPRESS_BF16);
  args.v_cache = attnpress_tensor_bshd((void *)0x500000, 4, 100, 2, 64, ATTNPRESS_BF16);
  args.seqused_k = (int32_t *)0x600000;
  args.rotary = &legal_rotary;
  return args;
}

#define SPOIL(name, statement)                                                                     \
  static void name(attnpress_append_args *a) {                                                     \
    (void)a;                                                                                       \
    statement;                                                                                     \
  }
static const attnpress_tensor absent = ATTNPRESS_TENSOR_INIT;
SPOIL(nothing, (a->k_new = a->v_new = a->q = a->k_cache = a->v_cache = absent))
SPOIL(no_cache, a->k_cache = absent)
SPOIL(no_new, a->v_new = absent)
SPOIL(dtype_5, a->k_new.dtype = 5)
SPOIL(dtypes_differ, a->v_cache.dtype = ATTNPRESS_FP16)
SPOIL(q_dtype, a->q.dtype = ATTNPRESS_FP32)
SPOIL(heads_differ, a->k_cache.shape[2] = 1)
SPOIL(dims_differ, a->v_cache.shape[3] = 48)
SPOIL(tokens_differ, a->v_new.shape[1] = 4)
SPOIL(q_tokens_differ, a->q.shape[0] = 2)
SPOIL(rows_differ, a->v_cache.shape[1] = 99)
SPOIL(cache_null, a->v_cache.data = NULL)
SPOIL(cache_misaligned, a->k_cache.data = (void *)0x400001)
SPOIL(cache_overlaps, a->v_cache.stride[1] = 100)
SPOIL(cache_few, a->k_cache.shape[0] = a->v_cache.shape[0] = 2)
SPOIL(new_negative, a->k_new.stride[0] = -1)
SPOIL(q_broadcast, a->q.stride[0] = 0)
SPOIL(q_alone, a->rotary = NULL)
SPOIL(q_out_alone, (a->q_out = a->q, a->q = absent))
SPOIL(q_out_shape, (a->q_out = a->q, a->q_out.shape[2] = 4))
SPOIL(q_out_strides, (a->q_out = a->q, a->q_out.stride[0] *= 2))
SPOIL(ragged_batch, (a->cu_seqlens_new = (int32_t *)0x700000, a->batch = 3))
SPOIL(two_places, (a->page_table = (int32_t *)0x700000, a->slot_mapping = (int64_t *)0x800000))
SPOIL(idx_and_indptr, (a->page_table = a->page_indptr = (int32_t *)0x700000, a->max_pages = 3,
                       a->kv_batch_idx = (int32_t *)0x800000))
SPOIL(indptr_alone, a->page_indptr = (int32_t *)0x700000)
SPOIL(table_v_alone, a->page_table_v = (int32_t *)0x700000)
SPOIL(table_rows, (a->page_table = (int32_t *)0x700000, a->max_pages = 3, a->page_table_rows = 2))
SPOIL(indptr_rows, (a->page_table = a->page_indptr = (int32_t *)0x700000, a->max_pages = 3,
                    a->page_table_stride = 3))
SPOIL(table_rows_negative,
      (a->page_table = (int32_t *)0x700000, a->max_pages = 3, a->page_table_rows = -1))
SPOIL(table_v_misaligned, (a->page_table = (int32_t *)0x700000, a->max_pages = 3,
                           a->page_table_v = (int32_t *)0x700002))
SPOIL(rotary_reserved_2, legal_rotary.reserved_2 = 7)
SPOIL(rotary_q_at_first, legal_rotary.q_at_first = 2)
SPOIL(rotary_two_first, (legal_rotary.positions = (int32_t *)0x700000,
                         legal_rotary.first_positions = (int32_t *)0x800000))
SPOIL(rotary_two_q, (legal_rotary.positions = (int32_t *)0x700000, legal_rotary.q_at_first = 1))
SPOIL(idx_and_slots, (a->slot_mapping = (int64_t *)0x700000, a->kv_batch_idx = (int32_t *)0x800000))
SPOIL(pages_none, a->page_table = (int32_t *)0x700000)
SPOIL(page_stride,
      (a->page_table = (int32_t *)0x700000, a->max_pages = 3, a->page_table_stride = -3))
SPOIL(page_size, (a->page_table = (int32_t *)0x700000, a->max_pages = 3,
                  a->k_cache.shape[1] = a->v_cache.shape[1] = 0))
SPOIL(slots_misaligned, a->slot_mapping = (int64_t *)0x700004)
SPOIL(used_misaligned, a->seqused_k = (int32_t *)0x600002)
SPOIL(rotary_none, legal_rotary.rotary_dim = 0)
SPOIL(rotary_odd, legal_rotary.rotary_dim = 31)
SPOIL(rotary_long, legal_rotary.rotary_dim = 74)
SPOIL(rotary_dtype, legal_rotary.dtype = ATTNPRESS_FP16)
SPOIL(rotary_style, legal_rotary.interleaved = 2)
SPOIL(rotary_reserved, legal_rotary.reserved = 1)
SPOIL(rotary_positions, legal_rotary.num_positions = 0)
SPOIL(rotary_stride, legal_rotary.stride = -16)
SPOIL(rotary_cos, legal_rotary.cos = NULL)
SPOIL(rotary_sin, legal_rotary.sin = (void *)0x20002)
SPOIL(rotary_small, legal_rotary.struct_size = 8)
SPOIL(struct_small, a->struct_size = 552)

static const struct {
  void (*spoil)(attnpress_append_args *args);
  const char *says;
} bad_inputs[] = {
    {nothing, "none of k_new, v_new and q is given"},
    {no_cache, "k_new is given and k_cache is not"},
    {no_new, "v_cache is given and v_new is not"},
    {dtype_5, "k_new.dtype is 5"},
    {dtypes_differ, "v_cache.dtype is 1 and another tensor's is 2"},
    {q_dtype, "q.dtype is 3 and another tensor's is 2"},
    {heads_differ, "k_cache.shape[2] (heads) is 1 and k_new's is 2"},
    {dims_differ, "v_cache.shape[3] (head_dim) is 48"},
    {tokens_differ, "v_new.shape[1] (seqlen) is 4 and k_new's is 5"},
    {q_tokens_differ, "q.shape[0] (batch) is 2 and k_new's is 3"},
    {rows_differ, "v_cache.shape[1] is 99 and k_cache's is 100"},
    {cache_null, "v_cache.data is NULL"},
    {cache_misaligned, "k_cache.data is 0x400001"},
    {cache_overlaps, "v_cache.stride is"},
    {cache_few, "k_cache.shape[0] is 2 and batch 3"},
    {new_negative, "k_new.stride[0] (batch) is -1"},
    {q_broadcast, "q.stride is 0, 576, 72"},
    {q_alone, "q is given and rotary is NULL"},
    {q_out_alone, "q_out is given and q is not"},
    {q_out_shape, "q_out.shape[2] (heads) is 4"},
    {q_out_strides, "q_out lies over q, whose stride[0] is 2880"},
    {ragged_batch, "k_new.shape[0] is 3 with cu_seqlens_new"},
    {two_places, "page_table and slot_mapping are given"},
    {idx_and_indptr, "kv_batch_idx and page_indptr are given"},
    {indptr_alone, "page_indptr is given and page_table is NULL"},
    {table_v_alone, "page_table_v is given and page_table is NULL"},
    {table_rows, "page_table_rows is 2 and batch 3"},
    {indptr_rows, "page_table_rows is 0 and page_table_stride 3 with page_indptr"},
    {table_rows_negative, "page_table_rows is -1"},
    {table_v_misaligned, "page_table_v is 0x700002; it must be aligned to 4 bytes"},
    {rotary_reserved_2, "rotary.reserved_2 is 7"},
    {rotary_q_at_first, "rotary.q_at_first is 2"},
    {rotary_two_first, "rotary.positions and first_positions are given"},
    {rotary_two_q, "rotary.positions and q_at_first are given"},
    {idx_and_slots, "kv_batch_idx and slot_mapping are given"},
    {pages_none, "max_pages is 0"},
    {page_stride, "page_table_stride is -3"},
    {page_size, "k_cache.shape[1] is 0; with page_table it is the page size"},
    {slots_misaligned, "slot_mapping is 0x700004; it must be aligned to 8 bytes"},
    {used_misaligned, "seqused_k is 0x600002; it must be aligned to 4 bytes"},
    {rotary_none, "rotary.rotary_dim is 0"},
    {rotary_odd, "rotary.rotary_dim is 31; it must be a multiple of 2"},
    {rotary_long, "rotary.rotary_dim is 74 and k_new's head_dim 72"},
    {rotary_dtype, "rotary.dtype is 1"},
    {rotary_style, "rotary.interleaved is 2"},
    {rotary_reserved, "rotary.reserved is 1"},
    {rotary_positions, "rotary.num_positions is 0"},
    {rotary_stride, "rotary.stride is -16"},
    {rotary_cos, "rotary.cos is NULL"},
    {rotary_sin, "rotary.sin is 0x20002"},
    {rotary_small, "rotary"},
    {struct_small, "struct_size"},
};

static void test_bad_input(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof bad_inputs / sizeof *bad_inputs; ++i) {
    attnpress_append_args args = legal_append();
    bad_inputs[i].spoil(&args);
    if (attnpress_append(handle, &args, NULL) != ATTNPRESS_INVALID_ARGUMENT)
      fail_msg("accepted, though %s", bad_inputs[i].says);
    assert_error_says(bad_inputs[i].says);
  }
  attnpress_append_args args = legal_append();
  args.k_new.shape[0] = args.v_new.shape[0] = args.q.shape[0] = 1 << 20;
  args.k_cache.shape[0] = args.v_cache.shape[0] = 1 << 20;
  args.k_new.shape[1] = args.v_new.shape[1] = args.q.shape[1] = 5;
  assert_ok(attnpress_append(handle, &args, NULL)); /* 5 * 2^20 tokens of 96 + 16 + 16 vectors */
  args.k_new.shape[1] = args.v_new.shape[1] = args.q.shape[1] = 100;
  args.q.stride[0] = 8 * 72 * 100;
  assert_int_equal(attnpress_append(handle, &args, NULL), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("more than a launch has threads");
  assert_int_equal(cuda->launches, 1);
  attnpress_destroy(handle);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void test_launch(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_append_args args = legal_append();
  attnpress_append_write_args given;
  assert_ok(attnpress_append(handle, &args, NULL));
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_string_equal(cuda->launch[0].symbol, "append_write_bf16_sm80");
  assert_int_equal(given.rows[ATTNPRESS_APPEND_Q].threads, 8 * 2); /* 16 pairs: two vectors twice */
  assert_int_equal(given.rows[ATTNPRESS_APPEND_K].threads, 2 * (2 + 5)); /* and 40 more columns */
  assert_int_equal(given.rows[ATTNPRESS_APPEND_V].threads, 2 * 8);
  assert_int_equal(given.token_threads.value, 16 + 14 + 16);
  assert_int_equal(cuda->launch[0].grid, (15 * 46 + 127) / 128);
  assert_int_equal(cuda->launch[0].overlaps, 1); /* as attention does that follows */
  assert_ptr_equal(given.rows[ATTNPRESS_APPEND_Q].to, args.q.data);
  assert_ptr_equal(given.rows[ATTNPRESS_APPEND_K].to, args.k_cache.data);
  assert_int_equal(given.rows[ATTNPRESS_APPEND_K].to_row, 72);
  assert_int_equal(given.rows[ATTNPRESS_APPEND_V].rotary_dim, 0);
  assert_int_equal(given.entries, 4);
  assert_int_equal(given.entry_rows, 100);
  assert_int_equal(given.rotary_stride, 16);
  args.q = absent;
  args.rotary = NULL;
  args.page_table = (int32_t *)0x700000;
  args.max_pages = 7;
  assert_ok(attnpress_append(handle, &args, NULL));
  memcpy(&given, cuda->launch[1].args, sizeof given);
  assert_int_equal(given.rows[ATTNPRESS_APPEND_Q].threads, 0);
  assert_int_equal(given.token_threads.value, 2 * 9 + 2 * 8);
  assert_int_equal(given.page_table_stride, 7);
  assert_int_equal(given.table_rows, 3);
  assert_ptr_equal(given.page_table_v, args.page_table);
  assert_int_equal(given.num_positions, 0);
  args.k_new.shape[1] = args.v_new.shape[1] = 0;
  assert_ok(attnpress_append(handle, &args, NULL)); /* nothing to do */
  assert_int_equal(cuda->launches, 2);
  attnpress_destroy(handle);
}

/* q_out over q by name is q in place, the columns that are not rotated included. */
static void test_q_out(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_append_args args = legal_append();
  attnpress_append_write_args given;
  args.q_out = args.q;
  assert_ok(attnpress_append(handle, &args, NULL));
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_int_equal(given.rows[ATTNPRESS_APPEND_Q].threads, 8 * (2 + 5));
  args.q_out.data = (void *)0x900000;
  assert_ok(attnpress_append(handle, &args, NULL));
  memcpy(&given, cuda->launch[1].args, sizeof given);
  assert_ptr_equal(given.rows[ATTNPRESS_APPEND_Q].to, (void *)0x900000);
  attnpress_destroy(handle);
}

static void test_plans(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_append_args args = legal_append();
  attnpress_info info = ATTNPRESS_INFO_INIT;
  attnpress_plan *plan;
  size_t bytes = 1;
  assert_ok(attnpress_plan_append(handle, &args, &options, &plan));
  assert_ok(attnpress_plan_workspace_bytes(plan, &bytes));
  assert_int_equal(bytes, 0);
  assert_int_equal(attnpress_plan_launch_count(plan), 1);
  assert_ok(attnpress_plan_launch(plan, 0, &info));
  assert_string_equal(info.stem, "append_write_bf16_sm80");
  assert_ok(attnpress_plan_prepare(plan, NULL));
  args.seqused_k = NULL; /* indices may be others */
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  args.q = absent;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("q.shape[2] (heads) is 0 and was 8");
  attnpress_plan_destroy(plan);
  options.range = ATTNPRESS_UP_TO;
  assert_ok(attnpress_plan_append(handle, &args, &options, &plan));
  args = legal_append();
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

/* ---- The checking mode ----------------------------------------------------------------------- */

/** The arrays of a call of three sequences, of which each row below spoils one number. */
typedef struct checked {
  int32_t used[3], index[3], cu[4], indptr[4], table[8], table_v[8], positions[15], first[3];
  int64_t slots[15];
} checked;

enum { BY_INDEX, BY_PAGES, BY_FLAT_PAGES, BY_SLOTS, BY_POSITIONS, RAGGED };

static const struct {
  int kind;
  size_t at, bytes;
  int64_t value;
  const char *says;
} contents[] = {
    {BY_INDEX, offsetof(checked, used[1]), 4, -2, "sequence 1: token 0 has the position -2"},
    {BY_INDEX, offsetof(checked, used[2]), 4, 16,
     "sequence 2: token 4 stands at 20, and the cache has room for 20"},
    {BY_INDEX, offsetof(checked, index[2]), 4, 4,
     "sequence 2: kv_batch_idx is 4; it must be 0 to 3"},
    {BY_PAGES, offsetof(checked, table[2]), 4, 4, "sequence 1: page 0 of page_table is 4"},
    {BY_PAGES, offsetof(checked, used[0]), 4, 36,
     "sequence 0: token 4 stands at 40, and its pages have room for 40"},
    {BY_FLAT_PAGES, offsetof(checked, indptr[2]), 4, 9, "sequence 1: page_indptr[1] is 2"},
    {BY_FLAT_PAGES, offsetof(checked, table_v[0]), 4, -1,
     "sequence 0: page 0 of page_table_v is -1"},
    {BY_SLOTS, offsetof(checked, slots[7]), 8, 80,
     "token 2 of sequence 1: slot_mapping is 80; it must be at most 79, or negative"},
    {BY_POSITIONS, offsetof(checked, positions[14]), 4, 100,
     "sequence 2: token 4 has the position 100; cos and sin have 0 to 99"},
    {BY_POSITIONS + 100, offsetof(checked, first[1]), 4, 97,
     "sequence 1: token 3 has the position 100; cos and sin have 0 to 99"},
    {RAGGED, offsetof(checked, cu[1]), 4, 16, "sequence 0: cu_seqlens_new[0] is 0 and the next 16"},
};

static attnpress_append_args checked_call(checked *x, int kind) {
  attnpress_append_args args = legal_append();
  args.k_cache.shape[1] = args.v_cache.shape[1] = 20;
  args.seqused_k = x->used;
  if (kind == BY_INDEX)
    args.kv_batch_idx = x->index;
  if (kind == BY_PAGES || kind == BY_FLAT_PAGES) {
    args.page_table = x->table;
    args.max_pages = kind == BY_PAGES ? 2 : 8;
  }
  if (kind == BY_FLAT_PAGES) {
    args.page_table_v = x->table_v;
    args.page_indptr = x->indptr;
  }
  if (kind == BY_SLOTS)
    args.slot_mapping = x->slots;
  if (kind == BY_POSITIONS)
    legal_rotary.positions = x->positions;
  if (kind == BY_POSITIONS + 100)
    legal_rotary.first_positions = x->first;
  if (kind == RAGGED) {
    args.k_new.shape[0] = args.v_new.shape[0] = args.q.shape[0] = 1;
    args.k_new.shape[1] = args.v_new.shape[1] = args.q.shape[1] = 15;
    args.cu_seqlens_new = x->cu;
    args.batch = 3;
  }
  return args;
}

/** The first token without a place is named, and nothing is launched; without the mode nobody
 * looks. */
static void test_checking(void **state) {
  (void)state;
  attnpress_handle *handle, *plain = make_handle();
  attnpress_options options = handle_options();
  options.check = 1;
  assert_ok(attnpress_create(&handle, &options));
  for (size_t i = 0; i < sizeof contents / sizeof *contents; ++i) {
    checked x = {.used = {3, 15, 0},
                 .index = {3, 0, 1},
                 .cu = {0, 4, 4, 15},
                 .indptr = {0, 2, 4, 6},
                 .table = {0, 1, 2, 3, 0, 1, 9, 9},
                 .table_v = {3, 2, 1, 0, 3, 2, 9, 9},
                 .first = {0, 95, 3}};
    for (int t = 0; t < 15; ++t) {
      x.slots[t] = t % 4 == 3 ? -1 : t * 5;
      x.positions[t] = 99 - t;
    }
    attnpress_append_args args = checked_call(&x, contents[i].kind);
    const int launches = cuda->launches;
    assert_ok(attnpress_append(handle, &args, NULL));
    assert_int_equal(cuda->launches, launches + 1);
    if (contents[i].bytes == 8)
      *(int64_t *)((char *)&x + contents[i].at) = contents[i].value;
    else
      *(int32_t *)((char *)&x + contents[i].at) = (int32_t)contents[i].value;
    if (attnpress_append(handle, &args, NULL) != ATTNPRESS_INVALID_ARGUMENT)
      fail_msg("accepted, though %s", contents[i].says);
    assert_error_says(contents[i].says);
    assert_int_equal(cuda->launches, launches + 1);
    assert_ok(attnpress_append(plain, &args, NULL));
  }
  attnpress_destroy(handle);
  attnpress_destroy(plain);
}

static int set_up_append(void **state) {
  const int status = set_up_group(state);
  cuda->args_of("append_write", sizeof(attnpress_append_write_args));
  return status;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cpu), cmocka_unit_test(test_by_hand),
      TEST(test_bad_input),       TEST(test_launch),
      TEST(test_q_out),           TEST(test_plans),
      TEST(test_checking),
  };
  return cmocka_run_group_tests_name("append", tests, set_up_append, tear_down_group);
}
