/* Appending and attention as one call, without a GPU: the CPU does one after the other; which calls
 * one kernel carries out, and what it is given (the driver and NVRTC are stand-ins). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "api_support.h"
#include "attnpress/append.h"
#include "attnpress/args/append.h"
#include "attnpress/args/runs_append.h"

enum { SEQUENCES = 64, ROOM = 4096, Q_HEADS = 32, KV_HEADS = 8, COLUMNS = 128, PAGE = 16 };

/** Arguments of both, that name each other's. Pointers are only looked at. */
typedef struct pair {
  attnpress_append_args append;
  attnpress_rotary rotary;
  attnpress_forward_args forward;
  attnpress_ragged ragged;
} pair;

static attnpress_tensor tensor(uintptr_t data, int64_t batch, int64_t rows, int64_t heads) {
  return attnpress_tensor_bshd((void *)data, batch, rows, heads, COLUMNS, ATTNPRESS_BF16);
}

static void connect(pair *p) {
  p->append.rotary = &p->rotary;
  p->forward.ragged = &p->ragged;
}

/** That one kernel carries out: a query and a new key for each of 64 sequences. */
static pair legal(int paged) {
  pair p = {.append = ATTNPRESS_APPEND_ARGS_INIT,
            .rotary = ATTNPRESS_ROTARY_INIT,
            .forward = ATTNPRESS_FORWARD_ARGS_INIT,
            .ragged = ATTNPRESS_RAGGED_INIT};
  const int64_t pages = ROOM / PAGE;
  p.append.k_new = tensor(0x1000, SEQUENCES, 1, KV_HEADS);
  p.append.v_new = tensor(0x2000, SEQUENCES, 1, KV_HEADS);
  p.append.k_cache = paged ? tensor(0x10000, SEQUENCES * pages, PAGE, KV_HEADS)
                           : tensor(0x10000, SEQUENCES, ROOM, KV_HEADS);
  p.append.v_cache = p.append.k_cache;
  p.append.v_cache.data = (void *)0x40000000;
  p.append.q = tensor(0x3000, SEQUENCES, 1, Q_HEADS);
  p.append.q_out = tensor(0x100000, SEQUENCES, 1, Q_HEADS);
  p.append.seqused_k = p.ragged.seqused_k = (const int32_t *)0x4000;
  p.rotary.cos = (const void *)0x5000;
  p.rotary.sin = (const void *)0x6000;
  p.rotary.num_positions = ROOM;
  p.rotary.rotary_dim = COLUMNS;
  p.rotary.dtype = ATTNPRESS_FP32;
  p.forward.q = p.append.q_out;
  p.forward.k = p.append.k_cache;
  p.forward.v = p.append.v_cache;
  p.forward.out = tensor(0x200000, SEQUENCES, 1, Q_HEADS);
  p.forward.workspace = (void *)0x800000;
  p.forward.workspace_bytes = 1 << 28;
  p.ragged.batch = SEQUENCES;
  p.ragged.seqlen_k_new = 1;
  if (paged) {
    p.append.page_table = p.ragged.page_table = (const int32_t *)0x7000;
    p.append.max_pages = p.ragged.page_table_pages = pages;
  }
  return p;
}

/* ---- What is launched ------------------------------------------------------------------------ */

static void test_one_launch(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  for (int paged = 0; paged < 2; ++paged)
    for (int causal = 0; causal < 2; ++causal) {
      pair p = legal(paged);
      attnpress_fwd_runs_append_args given;
      connect(&p);
      p.forward.mask = causal ? ATTNPRESS_CAUSAL : ATTNPRESS_FULL;
      const int before = cuda->launches;
      assert_ok(attnpress_append_forward(handle, &p.append, &p.forward, NULL));
      assert_int_equal(cuda->launches, before + 1);
      assert_string_equal(cuda->launch[before].symbol,
                          paged ? "flash_fwd_split_hdim128_bf16_paged_decode_runs_append_sm80"
                                : "flash_fwd_split_hdim128_bf16_ragged_decode_runs_append_sm80");
      assert_int_equal(cuda->launch[before].overlaps, 1);
      memcpy(&given, cuda->launch[before].args, sizeof given);
      assert_ptr_equal(given.runs.batch.fwd.q, 0x3000);
      assert_int_equal(given.runs.batch.ragged.seqlen_k_new, 1);
      assert_ptr_equal(given.append.rows[ATTNPRESS_APPEND_K].from, 0x1000);
      assert_ptr_equal(given.append.rows[ATTNPRESS_APPEND_V].to, given.runs.batch.fwd.v);
      assert_int_equal(given.append.rows[ATTNPRESS_APPEND_K].rotary_dim, COLUMNS);
      assert_int_equal(given.append.entry_rows, paged ? PAGE : ROOM);
      assert_ptr_equal(given.append.cos, 0x5000);
    }
  /* Nothing is rotated: attention's own q is read. */
  pair p = legal(1);
  attnpress_fwd_runs_append_args given;
  connect(&p);
  p.append.rotary = NULL;
  p.append.q.dtype = p.append.q_out.dtype = 0;
  const int before = cuda->launches;
  assert_ok(attnpress_append_forward(handle, &p.append, &p.forward, NULL));
  assert_int_equal(cuda->launches, before + 1);
  memcpy(&given, cuda->launch[before].args, sizeof given);
  assert_ptr_equal(given.runs.batch.fwd.q, 0x100000);
  assert_int_equal(given.append.num_positions, 0);
  attnpress_destroy(handle);
}

static void other_table(pair *p) {
  p->append.page_table = (const int32_t *)0x7004;
}
static void fewer_pages(pair *p) {
  p->append.max_pages -= 1;
}
static void other_lengths(pair *p) {
  p->append.seqused_k = (const int32_t *)0x4004;
}
static void other_cache(pair *p) {
  p->append.v_cache.data = (void *)0x50000000;
}
static void no_new_values(pair *p) {
  p->append.v_new.dtype = p->append.v_cache.dtype = 0;
}
static void own_positions(pair *p) {
  p->rotary.positions = (const int32_t *)0x4100;
}
static void half_rotated(pair *p) {
  p->rotary.rotary_dim = COLUMNS / 2;
}
static void odd_rows(pair *p) {
  p->append.k_new.data = (void *)0x1002;
}
static void in_place(pair *p) {
  p->append.q = p->append.q_out;
  p->append.q_out.dtype = 0;
}
static void other_queries(pair *p) {
  p->append.q_out.data = (void *)0x110000;
}
static void odd_tables(pair *p) {
  p->rotary.stride = COLUMNS / 2 + 1;
}
static void more_queries(pair *p) {
  p->append.q = tensor(0x3000, SEQUENCES, 2, Q_HEADS);
  p->append.q_out = p->forward.q = tensor(0x100000, SEQUENCES, 2, Q_HEADS);
  p->append.k_new = tensor(0x1000, SEQUENCES, 2, KV_HEADS);
  p->append.v_new = tensor(0x2000, SEQUENCES, 2, KV_HEADS);
  p->forward.out = tensor(0x200000, SEQUENCES, 2, Q_HEADS);
  p->ragged.seqlen_k_new = 2;
}
static void fewer_sequences(pair *p) {
  p->append.k_new.shape[0] = p->append.v_new.shape[0] = 8;
  p->append.q.shape[0] = p->append.q_out.shape[0] = 8;
  p->forward.q.shape[0] = p->forward.out.shape[0] = p->ragged.batch = 8;
}
static void given_splits(pair *p) {
  p->forward.num_splits = 3;
}
static void windowed(pair *p) {
  static const attnpress_window window = {sizeof window, 64, 0, 0, 0, 0};
  p->forward.mask = ATTNPRESS_WINDOW;
  p->forward.window = &window;
}

/** What the kernel is not made for is launched as by two calls. */
static void test_two_calls(void **state) {
  (void)state;
  static void (*const changes[])(pair *) = {
      other_table,   fewer_pages,  other_lengths, other_cache, no_new_values,
      own_positions, half_rotated, odd_rows,      in_place,    odd_tables,
      other_queries, more_queries, given_splits,  windowed,    fewer_sequences};
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof changes / sizeof *changes; ++i) {
    pair p = legal(1);
    changes[i](&p);
    connect(&p);
    cuda->reset();
    cuda->capability = 90;
    assert_ok(attnpress_append(handle, &p.append, NULL));
    assert_ok(attnpress_forward(handle, &p.forward, NULL));
    const int count = cuda->launches;
    assert_in_range(count, 2, FAKE_LAUNCHES_MAX / 2);
    assert_ok(attnpress_append_forward(handle, &p.append, &p.forward, NULL));
    assert_int_equal(cuda->launches, 2 * count);
    for (int n = 0; n < count; ++n) {
      const fake_launch *one = &cuda->launch[n], *other = &cuda->launch[count + n];
      assert_string_equal(other->symbol, one->symbol);
      assert_int_equal(other->grid, one->grid);
      assert_int_equal(other->overlaps, one->overlaps);
      assert_memory_equal(other->args, one->args, sizeof one->args);
    }
  }
  attnpress_destroy(handle);
}

/** A kernel that is not there, and may not be compiled now, is done without. */
static void test_missing_kernel(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  pair p = legal(1);
  connect(&p);
  assert_ok(attnpress_append(handle, &p.append, NULL));
  assert_ok(attnpress_forward(handle, &p.forward, NULL));
  cuda->stream_capturing = 1;
  assert_ok(attnpress_append_forward(handle, &p.append, &p.forward, NULL));
  assert_int_equal(cuda->launches, 4);
  assert_string_equal(cuda->launch[2].symbol, cuda->launch[0].symbol);
  assert_string_equal(cuda->launch[3].symbol, cuda->launch[1].symbol);
  cuda->stream_capturing = 0;
  assert_ok(attnpress_append_forward(handle, &p.append, &p.forward, NULL));
  assert_int_equal(cuda->launches, 5);
  attnpress_destroy(handle);
}

static void test_bad_input(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  pair p = legal(1);
  connect(&p);
  assert_int_equal(attnpress_append_forward(handle, NULL, &p.forward, NULL),
                   ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(attnpress_append_forward(handle, &p.append, NULL, NULL),
                   ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(attnpress_append_forward(NULL, &p.append, &p.forward, NULL),
                   ATTNPRESS_INVALID_ARGUMENT);
  p.rotary.rotary_dim = 2 * COLUMNS;
  assert_int_equal(attnpress_append_forward(handle, &p.append, &p.forward, NULL),
                   ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("rotary.rotary_dim is 256");
  p = legal(1);
  connect(&p);
  p.ragged.batch = 3;
  assert_int_equal(attnpress_append_forward(handle, &p.append, &p.forward, NULL),
                   ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("ragged.batch 3");
  p = legal(1);
  connect(&p);
  p.forward.workspace_bytes = 1;
  assert_int_equal(attnpress_append_forward(handle, &p.append, &p.forward, NULL),
                   ATTNPRESS_WORKSPACE_TOO_SMALL);
  assert_int_equal(cuda->launches, 0);
  attnpress_destroy(handle);
}

/* ---- On the CPU ------------------------------------------------------------------------------ */

enum { CPU_BATCH = 3, CPU_ROWS = 9, CPU_HEADS = 2, CPU_HDIM = 8 };

/** All memory of a call. */
typedef struct small {
  uint16_t k_new[CPU_BATCH][CPU_HEADS][CPU_HDIM], v_new[CPU_BATCH][CPU_HEADS][CPU_HDIM];
  uint16_t k[CPU_BATCH][CPU_ROWS][CPU_HEADS][CPU_HDIM], v[CPU_BATCH][CPU_ROWS][CPU_HEADS][CPU_HDIM];
  uint16_t q[CPU_BATCH][CPU_HEADS][CPU_HDIM], q_out[CPU_BATCH][CPU_HEADS][CPU_HDIM];
  uint16_t out[CPU_BATCH][CPU_HEADS][CPU_HDIM];
  float cos[CPU_ROWS][CPU_HDIM / 2], sin[CPU_ROWS][CPU_HDIM / 2];
  int32_t used[CPU_BATCH];
} small;

static pair small_call(small *x) {
  pair p = legal(0);
  const struct {
    attnpress_tensor *tensor;
    void *data;
    int64_t rows;
  } tensors[] = {{&p.append.k_new, x->k_new, 1},
                 {&p.append.v_new, x->v_new, 1},
                 {&p.append.k_cache, x->k, CPU_ROWS},
                 {&p.append.v_cache, x->v, CPU_ROWS},
                 {&p.append.q, x->q, 1},
                 {&p.append.q_out, x->q_out, 1},
                 {&p.forward.q, x->q_out, 1},
                 {&p.forward.k, x->k, CPU_ROWS},
                 {&p.forward.v, x->v, CPU_ROWS},
                 {&p.forward.out, x->out, 1}};
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; ++i)
    *tensors[i].tensor = attnpress_tensor_bshd(tensors[i].data, CPU_BATCH, tensors[i].rows,
                                               CPU_HEADS, CPU_HDIM, ATTNPRESS_FP16);
  p.append.seqused_k = p.ragged.seqused_k = x->used;
  p.rotary.cos = x->cos;
  p.rotary.sin = x->sin;
  p.rotary.num_positions = CPU_ROWS;
  p.rotary.rotary_dim = CPU_HDIM;
  p.ragged.batch = CPU_BATCH;
  p.forward.workspace = NULL;
  p.forward.workspace_bytes = 0;
  return p;
}

static void test_cpu(void **state) {
  (void)state;
  attnpress_handle *handle = make_cpu_handle(2);
  _Alignas(16) static small one, two;
  uint16_t *values = (uint16_t *)&one;
  for (size_t i = 0; i < offsetof(small, cos) / sizeof *values; ++i)
    values[i] = (uint16_t)(0x3000 + i * 2654435761u % 0x0c00);
  for (int i = 0; i < CPU_ROWS * CPU_HDIM / 2; ++i) {
    ((float *)one.cos)[i] = 0.6f;
    ((float *)one.sin)[i] = i % 2 ? 0.8f : -0.8f;
  }
  memcpy(one.used, (const int32_t[]){0, 5, CPU_ROWS}, sizeof one.used); /* the last has no place */
  two = one;
  pair p = small_call(&one), q = small_call(&two);
  connect(&p);
  connect(&q);
  assert_ok(attnpress_append_forward(handle, &p.append, &p.forward, NULL));
  assert_memory_not_equal(&one, &two, sizeof one);
  assert_ok(attnpress_append(handle, &q.append, NULL));
  assert_ok(attnpress_forward(handle, &q.forward, NULL));
  assert_memory_equal(&one, &two, sizeof one);
  attnpress_destroy(handle);
}

static int set_up_both(void **state) {
  const int status = set_up_group(state);
  cuda->args_of("append_write", sizeof(attnpress_append_write_args));
  cuda->args_of("flash_fwd_split_hdim128_bf16_paged_decode_runs_append",
                sizeof(attnpress_fwd_runs_append_args));
  cuda->args_of("flash_fwd_split_hdim128_bf16_ragged_decode_runs_append",
                sizeof(attnpress_fwd_runs_append_args));
  return status;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_one_launch), TEST(test_two_calls), TEST(test_missing_kernel),
      TEST(test_bad_input),  TEST(test_cpu),
  };
  return cmocka_run_group_tests_name("append_forward", tests, set_up_both, tear_down_group);
}
