/* Sequences of their own lengths and keys in pages: the CPU backend against float64, what is refused,
 * and what a GPU would be asked to run. All that lies outside of the sequences is NaN. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "api_support.h"
#include "attention_args.h"
#include "attention/cpu.h"
#include "attention/ragged.h"
#include "attention/ready.h"
#include "cpu/element.h"
#include "ragged_support.h"
#include "../tools/reference.h"
#include "../tools/sequences.h"

/* ---- Random batches -------------------------------------------------------------------------- */

enum { HEADS_MAX = 6 };

typedef struct batch {
  attnpress_forward_args args;
  attnpress_ragged ragged;
  attnpress_window window;
  attnpress_alibi alibi;
  attnpress_bias bias;
  attnpress_sinks sinks;
  attnpress_dropout dropout;
  float slopes[SEQUENCES_MAX * HEADS_MAX], sink_values[HEADS_MAX];
  memories memory;
  size_t lse_bytes;
  int queries[SEQUENCES_MAX], keys[SEQUENCES_MAX], count;
} batch;

static int32_t *sums_of(batch *b, const int *lengths, int first) {
  int32_t *sums = allocate(&b->memory, sizeof(int32_t) * (size_t)(b->count + 1));
  sums[0] = first;
  for (int i = 0; i < b->count; ++i)
    sums[i + 1] = sums[i] + lengths[i];
  return sums;
}

static int32_t *lengths_of(batch *b, const int *lengths, int more) {
  int32_t *array = allocate(&b->memory, sizeof(int32_t) * (size_t)(b->count + 1));
  for (int i = 0; i < b->count; ++i)
    array[i] = lengths[i] + more;
  return array;
}

static void make_queries(batch *b, int heads, int hdim, int hdim_v, int32_t dtype) {
  int64_t batches = b->count, rows = longest(b->queries, b->count) + draw(3);
  if (draw(3)) {
    b->ragged.cu_seqlens_q = sums_of(b, b->queries, draw(3));
    batches = 1;
    rows = b->ragged.cu_seqlens_q[b->count] + draw(3);
  } else {
    b->ragged.seqused_q = lengths_of(b, b->queries, 0);
  }
  b->args.q = allocate_tensor(&b->memory, batches, rows, heads, hdim, dtype);
  b->args.out = allocate_tensor(&b->memory, batches, rows, heads, hdim_v, dtype);
}

static void make_pages(batch *b, int pad, int rows, int64_t *pages, int64_t *page_size) {
  static const int sizes[] = {1, 3, 16, 64};
  *page_size = sizes[draw(4)];
  const int most = (int)((longest(b->keys, b->count) + pad) / *page_size) + 1;
  const int stride = most + draw(2);
  int32_t *table = allocate(&b->memory, sizeof(int32_t) * (size_t)(rows * stride + 1));
  int used = 0;
  for (int i = 0; i < rows * stride; ++i)
    table[i] = draw(2) ? -1 : 1 << 30;
  for (int i = 0; i < b->count; ++i)
    used += (int)((b->keys[i] + pad + *page_size - 1) / *page_size);
  *pages = used + 2;
  int next = (int)*pages - 1; /* downwards */
  for (int i = 0; i < b->count; ++i)
    for (int p = 0; p < (b->keys[i] + pad + *page_size - 1) / *page_size; ++p)
      table[(b->ragged.kv_batch_idx ? b->ragged.kv_batch_idx[i] : i) * stride + p] = next--;
  b->ragged.page_table = table;
  b->ragged.page_table_rows = rows;
  b->ragged.page_table_pages = most;
  b->ragged.page_table_stride = stride;
  if (draw(2)) { /* V's pages are others */
    int32_t *other = allocate(&b->memory, sizeof(int32_t) * (size_t)(rows * stride + 1));
    for (int i = 0; i < rows * stride; ++i)
      other[i] = table[i] >= 0 && table[i] < *pages ? (table[i] + 1) % (int32_t)*pages : table[i];
    b->ragged.page_table_v = other;
  }
  if (b->ragged.kv_batch_idx == NULL && draw(2)) { /* every row of the table is an own part of it */
    int32_t *indptr = allocate(&b->memory, sizeof(int32_t) * (size_t)(b->count + 1));
    for (int i = 0; i <= b->count; ++i)
      indptr[i] = i * stride;
    b->ragged.page_indptr = indptr;
    b->ragged.page_table_rows = b->ragged.page_table_stride = 0;
    b->ragged.page_table_pages = rows * stride;
  }
}

/* Some of the keys of each sequence were appended. */
static void append_keys(batch *b) {
  int32_t *used = (int32_t *)(uintptr_t)b->ragged.seqused_k, least = INT32_MAX;
  int appended[SEQUENCES_MAX];
  for (int i = 0; i < b->count; ++i) {
    least = used[i] < least ? used[i] : least;
    appended[i] = draw(used[i] + 1);
  }
  if (draw(2)) {
    b->ragged.seqlen_k_new = least < 3 ? least : 3;
    for (int i = 0; i < b->count; ++i)
      used[i] -= (int32_t)b->ragged.seqlen_k_new;
    return;
  }
  b->ragged.cu_seqlens_k_new = sums_of(b, appended, draw(3));
  for (int i = 0; i < b->count; ++i)
    used[i] -= appended[i];
}

static void make_keys(batch *b, int heads, int hdim, int hdim_v, int32_t dtype, int paged) {
  const int picked = draw(2), pad = picked ? draw(5) : 0, rows_of_table = b->count + picked;
  int64_t batches = b->count + picked, rows = longest(b->keys, b->count) + pad + draw(4);
  if (draw(2) && !picked) {
    b->ragged.cu_seqlens_k = sums_of(b, b->keys, draw(3));
    batches = 1;
    rows = b->ragged.cu_seqlens_k[b->count] + draw(3);
  } else {
    b->ragged.seqused_k = lengths_of(b, b->keys, pad);
  }
  if (picked) {
    int32_t *index = lengths_of(b, b->keys, 0), *pads = lengths_of(b, b->keys, 0);
    for (int i = 0; i < b->count; ++i) {
      index[i] = b->count - i;
      pads[i] = pad;
    }
    b->ragged.kv_batch_idx = index;
    b->ragged.leftpad_k = pads;
  }
  if (b->ragged.seqused_k != NULL && draw(2))
    append_keys(b);
  if (paged)
    make_pages(b, pad, rows_of_table, &batches, &rows);
  b->args.k = allocate_tensor(&b->memory, batches, rows, heads, hdim, dtype);
  b->args.v = allocate_tensor(&b->memory, batches, rows, heads, hdim_v, dtype);
}

static void make_lse(batch *b) {
  const int64_t heads = b->args.q.shape[2], rows = b->args.q.shape[1];
  const int64_t bound = ap_ragged_queries(&b->args);
  size_t count = (size_t)(heads * rows * b->args.q.shape[0]);
  const int kind = draw(3);
  if (kind == 1 && b->ragged.cu_seqlens_q) { /* (total, heads) */
    b->args.lse_stride[1] = 1;
    b->ragged.lse_row_stride = heads;
  } else if (kind == 2) { /* (batch, heads, bound) */
    b->args.lse_stride[1] = bound + 1;
    b->args.lse_stride[0] = heads * (bound + 1);
    count = (size_t)(b->count * b->args.lse_stride[0]);
  }
  b->lse_bytes = count * sizeof(float);
  b->args.lse = allocate(&b->memory, b->lse_bytes);
  b->ragged.lse_log2 = draw(2);
  b->ragged.lse_empty_pos_inf = draw(2);
}

/* As large as the bounds or larger, with some broadcast dimensions, and NaN where no sequence has a
 * query and a key. */
static void make_bias(batch *b, int heads) {
  attnpress_bias *bias = &b->bias;
  const int step = 1 + draw(2);
  b->ragged.max_seqlen_q = longest(b->queries, b->count) + draw(3) + 1;
  b->ragged.max_seqlen_k = longest(b->keys, b->count) + draw(3) + 1;
  *bias = (attnpress_bias)ATTNPRESS_BIAS_INIT;
  bias->dtype = 1 + draw(3);
  bias->shape[0] = draw(3) ? b->count : 1;
  bias->shape[1] = draw(2) ? heads : 1;
  bias->shape[2] = ap_ragged_queries(&b->args) + draw(3);
  bias->shape[3] = ap_ragged_keys(&b->args) + draw(3);
  bias->stride[3] = step;
  bias->stride[2] = draw(4) ? bias->shape[3] * step + draw(3) : 0;
  bias->stride[1] = bias->shape[2] * (bias->shape[3] * step + 3);
  bias->stride[0] = bias->shape[1] * bias->stride[1];
  bias->data = allocate(&b->memory, (size_t)(bias->shape[0] * bias->stride[0]) * sizeof(float));
  b->args.bias = bias;
}

static void fill_bias(const batch *b) {
  const attnpress_bias *bias = &b->bias;
  for (int s = 0; s < b->count; ++s) {
    const sequence_rows rows = sequence_rows_of(&b->args, s);
    for (int64_t h = 0; h < bias->shape[1]; ++h)
      for (int64_t i = 0; i < rows.queries; ++i)
        for (int64_t j = 0; j < rows.keys; ++j) {
          const int value = draw(64);
          const int64_t at = (bias->shape[0] > 1 ? s : 0) * bias->stride[0] + h * bias->stride[1] +
                             i * bias->stride[2] + j * bias->stride[3];
          ap_store_element((void *)(uintptr_t)bias->data, at,
                           value < 5 ? -INFINITY : (float)value / 16.0f - 2.0f, bias->dtype);
        }
  }
}

static void make_scores(batch *b, int heads) {
  attnpress_forward_args *a = &b->args;
  a->mask = draw(3);
  b->window = (attnpress_window)ATTNPRESS_WINDOW_INIT;
  if (a->mask == ATTNPRESS_WINDOW) {
    b->window.left = draw(40) - 1;
    b->window.right = draw(10) - 1;
    b->window.chunk = draw(3) ? 0 : 11;
    b->window.top_left = draw(2);
    a->window = &b->window;
  }
  if (draw(4) == 0)
    a->softcap = 3.0f;
  if (draw(3) == 0) {
    for (int i = 0; i < b->count * heads; ++i)
      b->slopes[i] = 0.02f * (float)(1 + draw(10));
    b->alibi = (attnpress_alibi)ATTNPRESS_ALIBI_INIT;
    b->alibi.slopes = b->slopes;
    b->alibi.stride[0] = heads;
    b->alibi.stride[1] = 1;
    a->alibi = &b->alibi;
  }
  if (draw(4) == 0)
    make_bias(b, heads);
  if (draw(3) == 0) {
    for (int i = 0; i < heads; ++i)
      b->sink_values[i] = (float)draw(5) - 2.0f;
    b->sinks = (attnpress_sinks)ATTNPRESS_SINKS_INIT;
    b->sinks.data = b->sink_values;
    b->sinks.dtype = ATTNPRESS_FP32;
    a->sinks = &b->sinks;
  }
  if (draw(4) == 0) {
    b->dropout = (attnpress_dropout)ATTNPRESS_DROPOUT_INIT;
    b->dropout.probability = 0.3f;
    b->dropout.seed = 5;
    a->dropout = &b->dropout;
  }
}

static void fill_batch(batch *b) {
  if (b->args.bias != NULL)
    fill_bias(b);
  for (int s = 0; s < b->count; ++s) {
    const sequence_rows rows = sequence_rows_of(&b->args, s);
    attnpress_tensor *tensors[] = {&b->args.q, &b->args.k, &b->args.v};
    for (int i = 0; i < 3; ++i) {
      attnpress_tensor row = *tensors[i];
      row.shape[0] = row.shape[1] = 1;
      for (int64_t n = 0; n < (i == 0 ? rows.queries : rows.keys); ++n) {
        int64_t page = rows.q_batch, at = rows.q_begin + n;
        if (i > 0)
          sequence_key_place(&b->args, &rows, rows.k_begin + n, i == 2, &page, &at);
        row.data = (char *)tensors[i]->data +
                   (page * row.stride[0] + at * row.stride[1]) * reference_element_bytes(row.dtype);
        reference_fill_normal(&row, (uint64_t)(s * 3 + i) * 1000 + (uint64_t)n);
      }
    }
  }
}

static batch make_batch(int seed) {
  static const int hdims[] = {8, 40, 64, 136};
  batch b = {.args = ATTNPRESS_FORWARD_ARGS_INIT, .ragged = ATTNPRESS_RAGGED_INIT};
  state_of_random = (uint64_t)seed;
  const int dtype = 1 + draw(3), heads_kv = 1 + draw(2), group = 1 + draw(3);
  const int hdim = hdims[draw(4)], hdim_v = hdim == 64 && draw(2) ? 128 : hdim;
  b.count = 1 + draw(SEQUENCES_MAX);
  for (int i = 0; i < b.count; ++i) {
    b.queries[i] = draw(4) ? draw(70) : draw(4);
    b.keys[i] = draw(4) ? draw(150) : draw(2) * 20;
  }
  b.ragged.batch = b.count;
  make_queries(&b, heads_kv * group, hdim, hdim_v, dtype);
  make_keys(&b, heads_kv, hdim, hdim_v, dtype, draw(2));
  b.ragged.max_seqlen_q = draw(2) ? longest(b.queries, b.count) + draw(100) : 0;
  b.ragged.max_seqlen_k = draw(2) ? longest(b.keys, b.count) + draw(100) : 0;
  b.args.ragged = &b.ragged;
  make_scores(&b, heads_kv * group);
  make_lse(&b);
  return b;
}

/* Pointers to the batch's own members, after it was copied. */
static void settle(batch *b) {
  b->args.ragged = &b->ragged;
  b->args.window = b->args.window ? &b->window : NULL;
  b->args.alibi = b->args.alibi ? &b->alibi : NULL;
  b->args.bias = b->args.bias ? &b->bias : NULL;
  b->args.sinks = b->args.sinks ? &b->sinks : NULL;
  b->args.dropout = b->args.dropout ? &b->dropout : NULL;
  b->alibi.slopes = b->slopes;
  b->sinks.data = b->sink_values;
}

/* Checks the sequences; what was checked becomes NaN again, and then all must be. */
static void check_batch(batch *b, reference_error *e, int seed) {
  const attnpress_tensor *out = &b->args.out;
  for (int s = 0; s < b->count; ++s) {
    const sequence_rows rows = sequence_rows_of(&b->args, s);
    sequence one;
    reference r;
    assert_int_equal(sequence_open(&one, &b->args, s), 0);
    assert_int_equal(reference_init(&r, &one.args), 0);
    for (int64_t h = 0; h < out->shape[2]; ++h)
      for (int64_t i = 0; i < rows.queries; ++i) {
        reference_check_row(&r, s, i, h, e);
        const int bytes = reference_element_bytes(out->dtype);
        memset((char *)out->data + (rows.q_batch * out->stride[0] +
                                    (rows.q_begin + i) * out->stride[1] + h * out->stride[2]) *
                                       bytes,
               0xff, (size_t)(out->shape[3] * bytes));
        memset(b->args.lse + sequence_lse_at(&b->args, &rows, s, h, i), 0xff, sizeof(float));
      }
    reference_free(&r);
    sequence_close(&one);
  }
  for (size_t i = 0; i < bytes_of(&b->args.out); ++i)
    if (((unsigned char *)out->data)[i] != 0xff)
      fail_msg("batch %d: out was written outside of the sequences", seed);
  for (size_t i = 0; i < b->lse_bytes; ++i)
    if (((unsigned char *)b->args.lse)[i] != 0xff)
      fail_msg("batch %d: lse was written outside of the sequences", seed);
}

enum { BATCHES = 240, GROUP = 8 };

/** With a bias a sequence with more keys than the bound has none, and the bias is not read; so it is
 * in batch-invariant calls. */
static void test_bound_of_keys(void **state) {
  (void)state;
  int checked = 0;
  for (int seed = 0; seed < 400; ++seed) {
    batch b = make_batch(seed);
    settle(&b);
    const int most = longest(b.keys, b.count);
    if (most > 1) {
      reference_error e = {0};
      b.args.batch_invariant = b.args.bias == NULL;
      b.ragged.max_seqlen_k = most - 1;
      fill_batch(&b);
      assert_ok(ap_cpu_forward_isa(&b.args, 1, ap_cpu_best_isa()));
      check_batch(&b, &e, seed);
      assert_true(e.elements < REFERENCE_MIN_ELEMENTS || reference_holds(&e));
      ++checked;
    }
    free_memories(&b.memory);
  }
  assert_true(checked > 30);
}

/** Errors of several batches add up, as the criterion is of many elements. */
static void test_cpu(void **state) {
  (void)state;
  int paged = 0;
  for (int isa = 0; isa <= (int)ap_cpu_best_isa(); ++isa)
    for (int seed = isa; seed < BATCHES; seed += GROUP) {
      reference_error e[4] = {{0}};
      for (int i = 0; i < GROUP; ++i) {
        batch b = make_batch(seed * GROUP + i);
        settle(&b);
        fill_batch(&b);
        ap_problem problem;
        const ap_check how = {ATTNPRESS_CPU, 1, ATTNPRESS_ONE_CALL};
        assert_ok(ap_validate_forward(&b.args, how, &problem));
        assert_ok(ap_cpu_forward_isa(&b.args, 1, (ap_cpu_isa)isa));
        check_batch(&b, &e[b.args.softcap > 0.0f ? 0 : b.args.q.dtype], seed * GROUP + i);
        paged += b.ragged.page_table != NULL;
        free_memories(&b.memory);
      }
      for (int i = 0; i < 4; ++i)
        if (e[i].elements >= REFERENCE_MIN_ELEMENTS && !reference_holds(&e[i]))
          fail_msg("batches from %d, isa %d, kind %d: out %g of %g at %lld %lld %lld %lld, lse %g",
                   seed * GROUP, isa, i, e[i].out, reference_bound(&e[i]), (long long)e[i].at[0],
                   (long long)e[i].at[1], (long long)e[i].at[2], (long long)e[i].at[3], e[i].lse);
    }
  assert_true(paged > 50);
}

/** Contents that do not fit make a sequence empty; the others are as they were, bit for bit. */
static void test_contents(void **state) {
  (void)state;
  enum { WRONG = 14 };
  for (int wrong = 0; wrong < WRONG; ++wrong) {
    int seed = 0, found = 0;
    for (; seed < 2000 && !found; ++seed) {
      batch b = make_batch(seed);
      settle(&b);
      int32_t *arrays[WRONG] = {(int32_t *)(uintptr_t)b.ragged.cu_seqlens_q,
                                (int32_t *)(uintptr_t)b.ragged.seqused_q,
                                (int32_t *)(uintptr_t)b.ragged.cu_seqlens_k,
                                (int32_t *)(uintptr_t)b.ragged.seqused_k,
                                (int32_t *)(uintptr_t)b.ragged.seqused_k,
                                (int32_t *)(uintptr_t)b.ragged.leftpad_k,
                                (int32_t *)(uintptr_t)b.ragged.leftpad_k,
                                (int32_t *)(uintptr_t)b.ragged.kv_batch_idx,
                                (int32_t *)(uintptr_t)b.ragged.kv_batch_idx,
                                (int32_t *)(uintptr_t)b.ragged.cu_seqlens_k,
                                (int32_t *)(uintptr_t)b.ragged.cu_seqlens_k_new,
                                (int32_t *)(uintptr_t)b.ragged.cu_seqlens_k_new,
                                (int32_t *)(uintptr_t)b.ragged.page_indptr,
                                (int32_t *)(uintptr_t)b.ragged.page_indptr};
      const int32_t behind_q = (int32_t)b.args.q.shape[1] + 1;
      const int32_t values[WRONG] = {behind_q,  -1,        INT32_MIN, -3,        INT32_MAX,
                                     -1,        INT32_MAX, -1,        INT32_MAX, INT32_MAX,
                                     INT32_MIN, INT32_MAX, -1,        INT32_MAX};
      if (b.count >= 3 && arrays[wrong] != NULL && b.queries[0] > 3 && b.queries[2] > 3 &&
          b.keys[1] > 3) {
        reference_error e = {0};
        fill_batch(&b);
        arrays[wrong][1] = values[wrong]; /* of prefix sums: the end of 0 and the begin of 1 */
        assert_ok(ap_cpu_forward_isa(&b.args, 1, ap_cpu_best_isa()));
        check_batch(&b, &e, seed);
        assert_true(e.elements > 0);
        assert_true(e.lse <= reference_lse_bound(&e));
        found = 1;
      }
      free_memories(&b.memory);
    }
    assert_true(found);
  }
}

/** Bounds that are larger than the lengths change no bit. */
static void test_bounds(void **state) {
  (void)state;
  for (int seed = 0; seed < 60; ++seed) {
    batch b = make_batch(seed);
    settle(&b);
    fill_batch(&b);
    b.ragged.max_seqlen_q = longest(b.queries, b.count);
    b.ragged.max_seqlen_k = longest(b.keys, b.count);
    assert_ok(ap_cpu_forward_isa(&b.args, 1, ap_cpu_best_isa()));
    const size_t out_bytes = bytes_of(&b.args.out);
    void *out = allocate(&b.memory, out_bytes);
    memcpy(out, b.args.out.data, out_bytes);
    memset(b.args.out.data, 0xff, out_bytes);
    b.ragged.max_seqlen_q = seed % 2 ? 0 : b.ragged.max_seqlen_q + 1000;
    b.ragged.max_seqlen_k = seed % 2 ? 0 : b.ragged.max_seqlen_k + 1000;
    assert_ok(ap_cpu_forward_isa(&b.args, 2, ap_cpu_best_isa()));
    assert_memory_equal(out, b.args.out.data, out_bytes);
    free_memories(&b.memory);
  }
}

/** A page that is not there harms its own sequence alone. */
static void test_bad_page(void **state) {
  (void)state;
  static const int32_t numbers[] = {-1, INT32_MIN, INT32_MAX, 1 << 20};
  int checked = 0;
  for (int seed = 0; seed < 400; ++seed) {
    batch b = make_batch(seed);
    settle(&b);
    if (b.ragged.page_table != NULL && b.count >= 2 && b.keys[0] > 0) {
      fill_batch(&b);
      int32_t *table = (int32_t *)(uintptr_t)b.ragged.page_table;
      const sequence_rows rows = sequence_rows_of(&b.args, 0);
      table[rows.first_page] = numbers[seed % 4];
      assert_ok(ap_cpu_forward_isa(&b.args, 1, ap_cpu_best_isa()));
      for (int64_t h = 0; h < b.args.q.shape[2]; ++h)
        for (int64_t i = 0; i < rows.queries; ++i)
          for (int s = 1; s < b.count; ++s) {
            const sequence_rows other = sequence_rows_of(&b.args, s);
            if (i >= other.queries)
              continue;
            for (int64_t c = 0; c < b.args.out.shape[3]; ++c)
              assert_false(
                  isnan(reference_load(&b.args.out, other.q_batch, other.q_begin + i, h, c)));
            ++checked;
          }
    }
    free_memories(&b.memory);
  }
  assert_true(checked > 100);
}

/** A cache that has no pages: whatever a table says, its sequences have no keys. */
static void test_no_pages(void **state) {
  (void)state;
  static const int32_t table[4] = {0, 1, 7, -1}, indptr[3] = {0, 2, 3}, used[2] = {5, 1};
  for (int flat = 0; flat < 2; ++flat)
    for (int with_used = 0; with_used < 2; ++with_used) {
      float q[2 * 3 * 8] = {0}, out[2 * 3 * 8], lse[2 * 3];
      memset(out, 0xff, sizeof out);
      attnpress_ragged pages = ATTNPRESS_RAGGED_INIT;
      pages.batch = 2;
      pages.page_table = table;
      pages.page_table_pages = flat ? 4 : 2;
      pages.page_indptr = flat ? indptr : NULL;
      pages.seqused_k = with_used ? used : NULL;
      attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
      args.q = attnpress_tensor_bshd(q, 2, 3, 1, 8, ATTNPRESS_FP32);
      args.k = args.v = attnpress_tensor_bshd(NULL, 0, 4, 1, 8, ATTNPRESS_FP32);
      args.out = attnpress_tensor_bshd(out, 2, 3, 1, 8, ATTNPRESS_FP32);
      args.lse = lse;
      args.ragged = &pages;
      assert_ok(ap_cpu_forward_isa(&args, 1, ap_cpu_best_isa()));
      for (size_t i = 0; i < sizeof out / sizeof *out; ++i)
        assert_true(out[i] == 0.0f);
      for (size_t i = 0; i < sizeof lse / sizeof *lse; ++i)
        assert_true(lse[i] == -INFINITY);
    }
}

/* ---- What is refused ------------------------------------------------------------------------- */

static const int32_t some[8] = {0, 20, 40, 60, 80, 100, 120, 140};
static attnpress_ragged ragged;

/** Three sequences, queries and keys one after the other; the pointers are only looked at. */
static attnpress_forward_args ragged_args(void) {
  attnpress_forward_args args = legal_args();
  args.q = attnpress_tensor_bshd((void *)0x10000, 1, 100, HEADS_Q, HDIM, ATTNPRESS_BF16);
  args.k = attnpress_tensor_bshd((void *)0x20000, 1, 300, HEADS_KV, HDIM, ATTNPRESS_BF16);
  args.v = attnpress_tensor_bshd((void *)0x30000, 1, 300, HEADS_KV, HDIM, ATTNPRESS_BF16);
  args.out = attnpress_tensor_bshd((void *)0x40000, 1, 100, HEADS_Q, HDIM, ATTNPRESS_BF16);
  ragged = (attnpress_ragged)ATTNPRESS_RAGGED_INIT;
  ragged.batch = 3;
  ragged.cu_seqlens_q = ragged.cu_seqlens_k = some;
  args.ragged = &ragged;
  return args;
}

/** The same with keys in pages of 16 rows. */
static attnpress_forward_args paged_args(void) {
  attnpress_forward_args args = ragged_args();
  args.k = attnpress_tensor_bshd((void *)0x20000, 40, 16, HEADS_KV, HDIM, ATTNPRESS_BF16);
  args.v = attnpress_tensor_bshd((void *)0x30000, 40, 16, HEADS_KV, HDIM, ATTNPRESS_BF16);
  ragged.cu_seqlens_k = NULL;
  ragged.seqused_k = some;
  ragged.page_table = some;
  ragged.page_table_pages = 2;
  return args;
}

static void refuse(const attnpress_forward_args *args, attnpress_status status, const char *says) {
  attnpress_handle *handle = make_handle();
  assert_int_equal(attnpress_forward(handle, args, NULL), status);
  assert_error_says(says);
  assert_int_equal(cuda->launches, 0);
  attnpress_destroy(handle);
}

static void test_refusals(void **state) {
  (void)state;
#define REFUSE(make, change, status, says)                                                         \
  do {                                                                                             \
    attnpress_forward_args args = make();                                                          \
    change;                                                                                        \
    refuse(&args, status, says);                                                                   \
  } while (0)
#define INVALID(make, change, says) REFUSE(make, change, ATTNPRESS_INVALID_ARGUMENT, says)
  INVALID(ragged_args, ragged.struct_size = 8, "ragged.struct_size is 8");
  INVALID(ragged_args, ragged.batch = -1, "ragged.batch is -1");
  INVALID(ragged_args, ragged.max_seqlen_q = -2, "ragged.max_seqlen_q is -2");
  INVALID(ragged_args, ragged.max_seqlen_k = -2, "ragged.max_seqlen_k is -2");
  INVALID(ragged_args, ragged.lse_log2 = 2, "ragged.lse_log2 is 2; it must be 0 to 1");
  INVALID(ragged_args, ragged.lse_empty_pos_inf = -1, "ragged.lse_empty_pos_inf is -1");
  INVALID(ragged_args, ragged.lse_row_stride = -1, "ragged.lse_row_stride is -1");
  INVALID(ragged_args, args.q.shape[0] = args.out.shape[0] = 2, "q.shape[0] (batch) is 2; with");
  INVALID(ragged_args, ragged.cu_seqlens_q = NULL, "q.shape[0] (batch) is 1 and ragged.batch 3");
  INVALID(ragged_args, args.k.shape[0] = args.v.shape[0] = 2, "k.shape[0] (batch) is 2; with");
  INVALID(ragged_args, ragged.cu_seqlens_k = NULL, "k.shape[0] (batch) is 1 and ragged.batch 3");
  INVALID(ragged_args, ragged.kv_batch_idx = some, "ragged.kv_batch_idx are both given");
  INVALID(ragged_args, args.v.shape[0] = 2, "v.shape[0] (batch) is 2 and k's is 1");
  INVALID(ragged_args, ragged.page_table_pages = 4, "without a table they must be 0");
  INVALID(ragged_args, ragged.cu_seqlens_q = (const int32_t *)((const char *)some + 2),
          "it must be aligned to 4 bytes");
  INVALID(ragged_args, args.lse_stride[1] = 50, "so that entries overlap");
  INVALID(ragged_args, args.lse_stride[0] = 8, "so that entries overlap");
  INVALID(paged_args, ragged.page_table_pages = 0, "ragged.page_table_pages is 0");
  INVALID(paged_args, ragged.page_table_stride = 1, "ragged.page_table_stride is 1");
  INVALID(paged_args, ragged.page_table_rows = 2, "ragged.page_table_rows is 2 for 3 sequences");
  INVALID(paged_args, ragged.page_table_pages = 1 << 30, "together they may be at most");
  INVALID(paged_args, args.k.shape[1] = args.v.shape[1] = 0, "it is the size of a page");
  INVALID(ragged_args, ragged.page_indptr = some, "ragged.page_indptr is given and page_table is");
  INVALID(ragged_args, ragged.page_table_v = some,
          "ragged.page_table_v is given and page_table is");
  INVALID(ragged_args, ragged.seqlen_k_new = 1,
          "ragged.seqlen_k_new is given and seqused_k is NULL");
  INVALID(ragged_args, ragged.seqlen_k_new = -1, "ragged.seqlen_k_new is -1");
  INVALID(ragged_args, ragged.cu_seqlens_k_new = some,
          "ragged.cu_seqlens_k_new is given and seqused_k is NULL");
  INVALID(ragged_args, (ragged.seqused_k = ragged.cu_seqlens_k_new = some, ragged.seqlen_k_new = 2),
          "ragged.cu_seqlens_k_new is given and ragged.seqlen_k_new is 2");
  INVALID(paged_args, (ragged.page_indptr = some, ragged.kv_batch_idx = some),
          "ragged.page_indptr and ragged.kv_batch_idx are both given");
  INVALID(paged_args, (ragged.page_indptr = some, ragged.page_table_stride = 2),
          "and page_table_stride 2 with page_indptr");
  INVALID(paged_args, ragged.page_table_v = (const int32_t *)((const char *)some + 1),
          "ragged.page_table_v is");
  attnpress_bias bias = {sizeof bias,    (void *)0x50000, {3, HEADS_Q, 100, 300},
                         {0, 0, 300, 1}, ATTNPRESS_BF16,  0};
#define BIAS(change, says) INVALID(ragged_args, (args.bias = &bias, change), says)
  BIAS(bias.shape[0] = 2, "bias.shape[0] is 2; it must be batch, 3, or 1");
  bias.shape[0] = 1;
  BIAS(bias.shape[2] = 99,
       "bias.shape[2] is 99; it must be at least 100, the bound of the lengths by "
       "ragged.max_seqlen_q");
  bias.shape[2] = 100;
  BIAS(bias.shape[3] = 299, "bias.shape[3] is 299; it must be at least 300");
  BIAS((ragged.max_seqlen_k = 80, bias.shape[3] = 79), "it must be at least 80");
  INVALID(paged_args, (args.bias = &bias, bias.shape[3] = 31), "it must be at least 32");
#undef BIAS
}

/* ---- What a GPU runs ------------------------------------------------------------------------- */

static void test_launches(void **state) {
  (void)state;
  cuda->capability = 80;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = ragged_args();
  ragged.max_seqlen_q = 60;
  ragged.lse_log2 = 1;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 1);
  assert_string_equal(cuda->launch[0].symbol, "flash_fwd_hdim72_bf16_ragged_sm80");
  attnpress_fwd_ragged_args given;
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_int_equal(given.fwd.batch, 3);
  assert_int_equal(given.fwd.seqlen_q, 60);
  assert_int_equal(given.fwd.seqlen_k, 300);
  assert_int_equal(given.fwd.lse_batch_stride, 0);
  assert_int_equal(given.fwd.lse_head_stride, 100);
  assert_int_equal(given.ragged.lse_row_stride, 1);
  assert_int_equal(given.ragged.lse_packed, 1);
  assert_int_equal(given.ragged.lse_log2, 1);
  assert_int_equal(given.ragged.rows_q, 100);
  assert_int_equal(given.ragged.rows_k, 300);
  assert_ptr_equal(given.ragged.cu_seqlens_q, some);
  /* A row block of each sequence and head, as many as the longest may have. */
  assert_int_equal(cuda->launch[0].grid % (3 * HEADS_KV), 0);
  const unsigned grid = cuda->launch[0].grid;
  ragged.max_seqlen_q = 0;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_true(cuda->launch[1].grid >= grid);

  args = paged_args();
  ragged.max_seqlen_q = 1;
  ragged.kv_batch_idx = some;
  ragged.page_table_rows = 9;
  args.num_splits = 1;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_string_equal(cuda->launch[2].symbol, "flash_fwd_hdim72_bf16_paged_decode_sm80");
  memcpy(&given, cuda->launch[2].args, sizeof given);
  assert_int_equal(given.fwd.seqlen_k, 32);
  assert_int_equal(given.ragged.rows_k, 32);
  assert_int_equal(given.ragged.page_size.value, 16);
  assert_int_equal(given.ragged.num_pages, 40);
  assert_int_equal(given.ragged.kv_batches, 9);
  assert_int_equal(given.ragged.page_table_stride, 2);
  assert_true(given.ragged.page_table_v == 0);

  ragged.kv_batch_idx = NULL;
  ragged.page_table_rows = 0;
  ragged.page_table_pages = 7;
  ragged.page_table_v = ragged.page_table - 3;
  ragged.page_indptr = some;
  ragged.seqused_k = some;
  ragged.seqlen_k_new = 5;
  assert_ok(attnpress_forward(handle, &args, NULL));
  memcpy(&given, cuda->launch[3].args, sizeof given);
  assert_true(given.ragged.page_table_v == -3);
  assert_int_equal(given.ragged.table_pages, 7);
  assert_int_equal(given.ragged.rows_k, 7 * 16);
  assert_int_equal(given.ragged.seqlen_k_new, 5);
  assert_ptr_equal(given.ragged.page_indptr, some);
  attnpress_destroy(handle);
}

/** Of a bias the tensor's strides and the bounds; every device has sm80's kernels for it. */
static void test_bias_launches(void **state) {
  (void)state;
  static const int capabilities[] = {80, 90};
  for (int i = 0; i < 2; ++i) {
    attnpress_bias bias = {sizeof bias,        (void *)0x50000, {1, HEADS_Q, 70, 312},
                           {7, 22000, 312, 1}, ATTNPRESS_FP16,  0};
    cuda->capability = capabilities[i];
    attnpress_handle *handle = make_handle();
    attnpress_forward_args args = ragged_args();
    attnpress_fwd_ragged_args given;
    args.bias = &bias;
    args.num_splits = 1;
    ragged.max_seqlen_q = 60;
    const int before = cuda->launches;
    assert_ok(attnpress_forward(handle, &args, NULL));
    assert_int_equal(cuda->launches, before + 1);
    assert_string_equal(cuda->launch[before].symbol, "flash_fwd_hdim72_bf16_biasfp16_ragged_sm80");
    memcpy(&given, cuda->launch[before].args, sizeof given);
    assert_int_equal(given.fwd.seqlen_q, 60);
    assert_int_equal(given.fwd.seqlen_k, 300);
    assert_int_equal(given.fwd.score.bias_batch_stride, 0);
    assert_int_equal(given.fwd.score.bias_row_stride, 312);
    assert_int_equal(given.fwd.score.bias_alignment, 2);
    attnpress_destroy(handle);
  }
}

/** Heads of a section: more of them under a causal mask, and most where few share a tile, but where
 * queries are the last of many keys. */
static void test_hopper_sections(void **state) {
  (void)state;
  static const struct {
    int mask, keys, heads, paged, want;
  } rows[] = {{ATTNPRESS_FULL, 100, HEADS_KV, 0, 4 * HDIM},
              {ATTNPRESS_FULL, 100, HEADS_Q, 0, 4 * HDIM},
              {ATTNPRESS_CAUSAL, 100, 1, 0, HDIM},
              {ATTNPRESS_CAUSAL, 100, HEADS_KV, 0, HDIM / 4},
              {ATTNPRESS_CAUSAL, 100, HEADS_Q, 0, HDIM / 4},
              {ATTNPRESS_CAUSAL, 300, HEADS_Q, 0, 4 * HDIM},
              {ATTNPRESS_CAUSAL, 300, HEADS_KV, 0, 4 * HDIM},
              {ATTNPRESS_CAUSAL, 0, HEADS_KV, 1, 4 * HDIM}};
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    attnpress_forward_args args = rows[i].paged ? paged_args() : ragged_args();
    ragged.max_seqlen_q = 60;
    args.mask = rows[i].mask;
    if (!rows[i].paged)
      args.k = args.v = attnpress_tensor_bshd((void *)0x20000, 1, rows[i].keys, rows[i].heads, HDIM,
                                              ATTNPRESS_BF16);
    args.workspace = (void *)0x60000;
    args.workspace_bytes = 1 << 20;
    cuda->reset();
    assert_ok(attnpress_forward(handle, &args, NULL));
    attnpress_fwd_schedule_args schedule;
    memcpy(&schedule, cuda->launch[0].args, sizeof schedule);
    assert_int_equal(schedule.order[0].walk_bytes, rows[i].want);
  }
  attnpress_destroy(handle);
}

/** Compute capability 9.0: a schedule, and the kernel that works through it by tensor maps. */
static void test_hopper_launches(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = ragged_args();
  attnpress_plan *plan;
  size_t bytes;
  ragged.max_seqlen_q = 60;
  assert_ok(attnpress_plan_forward(handle, &args, NULL, &plan));
  assert_ok(attnpress_plan_workspace_bytes(plan, &bytes));
  assert_int_equal(bytes, 512 + 3 * sizeof(attnpress_sequence_units));
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_WORKSPACE_TOO_SMALL);
  args.workspace = (void *)0x60000;
  args.workspace_bytes = bytes;
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  assert_int_equal(cuda->launches, 2);
  assert_string_equal(cuda->launch[0].symbol, "flash_fwd_schedule_hdim8_bf16_sm80");
  assert_string_equal(cuda->launch[1].symbol, "flash_fwd_hdim72_bf16_ragged_sm90");
  assert_int_equal(cuda->launch[0].grid, 1);
  assert_int_equal(cuda->launch[0].overlaps, 1);
  assert_int_equal(cuda->launch[1].overlaps, 1);
  attnpress_fwd_schedule_args schedule;
  memcpy(&schedule, cuda->launch[0].args, sizeof schedule);
  assert_int_equal(schedule.batch, 3);
  assert_int_equal(schedule.seqlen_q, 60);
  assert_int_equal(schedule.ragged.most_keys, INT32_MAX);
  const attnpress_schedule_order *order = &schedule.order[0];
  assert_int_equal(order->by_keys, 0);
  assert_int_equal(order->walk_bytes, 4 * HDIM);
  assert_int_equal(schedule.ragged.rows_q, 100);
  assert_int_equal(schedule.ragged.rows_k, 300);
  attnpress_fwd_sm90_ragged_args given;
  memcpy(&given, cuda->launch[1].args, sizeof given);
  assert_ptr_equal(given.ticket, 0x60000);
  assert_ptr_equal(given.ticket, schedule.ticket);
  assert_ptr_equal(given.first_unit, order->first_unit);
  assert_ptr_equal(given.first_unit, 0x60100);
  assert_ptr_equal(given.sequences, order->sequences);
  assert_ptr_equal(given.sequences, 0x60200);
  assert_ptr_equal(given.ragged.cu_seqlens_q, some);
  assert_int_equal(given.sm90.fwd.batch, 3);
  assert_int_equal(given.sm90.tile_heads.value * given.sm90.heads_per_tile.value, HEADS_Q);
  /* Heads of a key head share a tile, however long the longest sequence may be: others are short. */
  assert_int_equal(given.sm90.heads_per_tile.value, HEADS_Q / HEADS_KV);
  assert_int_equal(order->heads, given.sm90.tile_heads.value);
  assert_int_equal(order->sharing * HEADS_KV, order->heads);
  assert_int_equal(order->positions % given.sm90.warpgroup_positions, 0);
  attnpress_plan_destroy(plan);

  /* Row blocks of 100 rows in all, not of three times the bound. */
  ragged.max_seqlen_q = 0;
  assert_ok(attnpress_forward(handle, &args, NULL));
  memcpy(&schedule, cuda->launch[2].args, sizeof schedule);
  assert_int_equal(cuda->launch[3].grid, (100 / order->positions + 3) * order->heads);
  attnpress_destroy(handle);
}

/* ---- Ready schedules ------------------------------------------------------------------------- */

/** Where a schedule of three sequences lies that nobody reads. */
static int32_t schedule_words[ATTNPRESS_READY_ORDER + 2 * 3];

static void give_schedule(void) {
  ragged.schedule = schedule_words;
  ragged.schedule_bytes = sizeof schedule_words;
}

static void test_schedule_bytes(void **state) {
  (void)state;
  static const int64_t batches[] = {0, 1, 3, 4, 5, 255, 256, 8192, 65535, 65536, 1 << 29};
  size_t bytes;
  for (size_t i = 0; i < sizeof batches / sizeof *batches; ++i) {
    const size_t four = (size_t)(batches[i] + 3) / 4 * 4;
    assert_ok(attnpress_forward_schedule_bytes(batches[i], &bytes));
    assert_int_equal(bytes, 4 + 8 * batches[i]);
    assert_true(bytes <= (1 + 4 * four) * sizeof(int32_t)); /* what flash-attn's callers have */
  }
  assert_int_equal(attnpress_forward_schedule_bytes(-1, &bytes), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("batch is -1; a schedule has 0 to 536870912 sequences");
  assert_int_equal(bytes, 0);
  assert_int_equal(attnpress_forward_schedule_bytes(INT64_C(1) << 30, &bytes),
                   ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(attnpress_forward_schedule_bytes(1, NULL), ATTNPRESS_INVALID_ARGUMENT);
}

/** A thread block a part of the batch, in calls and in what makes a schedule for them. */
static void test_schedule_parts(void **state) {
  (void)state;
  static const int batches[][2] = {{1, 1},    {31, 1},   {1000, 1}, {1024, 1},   {1025, 2},
                                   {8191, 8}, {8192, 8}, {8193, 9}, {65536, 64}, {1 << 20, 1024}};
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = ragged_args();
  attnpress_plan *plan;
  attnpress_info info = ATTNPRESS_INFO_INIT;
  for (size_t i = 0; i < sizeof batches / sizeof *batches; ++i) {
    ragged.batch = batches[i][0];
    assert_ok(attnpress_plan_forward(handle, &args, NULL, &plan));
    assert_ok(attnpress_plan_launch(plan, 0, &info));
    assert_string_equal(info.stem, "flash_fwd_schedule_hdim8_bf16_sm80");
    assert_int_equal(info.grid, batches[i][1]);
    attnpress_plan_destroy(plan);
    assert_ok(attnpress_plan_forward_schedule(handle, &args, NULL, &plan));
    assert_ok(attnpress_plan_launch(plan, 0, &info));
    assert_string_equal(info.stem, "flash_fwd_schedule_hdim8_bf16_ready_sm80");
    assert_int_equal(info.grid, batches[i][1]);
    attnpress_plan_destroy(plan);
  }
  attnpress_destroy(handle);
}

/** One launch fewer. Units that are no more than SMs take no tickets; of more, the ticket is cleared
 * on the call's stream, before the launch, which then waits. */
static void test_ready_launches(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = ragged_args();
  attnpress_plan *plan;
  size_t bytes;
  attnpress_fwd_sm90_ragged_args given;
  give_schedule();
  assert_ok(attnpress_plan_forward(handle, &args, NULL, &plan));
  assert_int_equal(attnpress_plan_launch_count(plan), 1);
  assert_ok(attnpress_plan_workspace_bytes(plan, &bytes));
  assert_int_equal(bytes, 0);
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  attnpress_plan_destroy(plan);
  assert_int_equal(cuda->launches, 1);
  assert_int_equal(cuda->clears, 0);
  assert_string_equal(cuda->launch[0].symbol, "flash_fwd_hdim72_bf16_ragged_ready_sm90");
  assert_int_equal(cuda->launch[0].overlaps, 1);
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_ptr_equal(given.ready, schedule_words);
  assert_null(given.ticket);
  assert_null(given.first_unit);
  assert_null(given.sequences);
  assert_null(given.sequence_splits);
  assert_int_equal(given.walk_bytes, 4 * HDIM);
  assert_int_equal(given.sharing * HEADS_KV, given.sm90.tile_heads.value);

  args.q.shape[1] = args.out.shape[1] = 1 << 15;
  assert_ok(attnpress_plan_forward(handle, &args, NULL, &plan));
  assert_int_equal(attnpress_plan_launch_count(plan), 1);
  assert_ok(attnpress_plan_workspace_bytes(plan, &bytes));
  assert_int_equal(bytes, 256);
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_WORKSPACE_TOO_SMALL);
  args.workspace = (void *)0x60000;
  args.workspace_bytes = bytes;
  CUstream stream = cuda->stream_new(cuda->context_get());
  assert_ok(attnpress_plan_run(plan, &args, stream));
  assert_int_equal(cuda->launches, 2);
  assert_int_equal(cuda->clears, 1);
  assert_int_equal(cuda->cleared, 0x60000);
  assert_int_equal(cuda->cleared_words, 1);
  assert_int_equal(cuda->cleared_after, 1);
  assert_ptr_equal(cuda->cleared_on, stream);
  assert_int_equal(cuda->launch[1].overlaps, 0);
  memcpy(&given, cuda->launch[1].args, sizeof given);
  assert_ptr_equal(given.ticket, 0x60000);
  assert_ptr_equal(given.ready, schedule_words);
  cuda->fail_clear = CUDA_ERROR_INVALID_VALUE;
  assert_int_equal(attnpress_plan_run(plan, &args, stream), ATTNPRESS_DRIVER_ERROR);
  assert_error_says("cuMemsetD32Async failed");
  assert_int_equal(cuda->launches, 2);
  cuda->stream_free(stream);

  /* A plan with a schedule is none of calls without one. */
  ragged.schedule = NULL;
  ragged.schedule_bytes = 0;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("ragged.schedule is NULL and was given when the plan was made");
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

/** Splits that are units: the kernel counts them for the combine kernel. */
static void test_ready_splits(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = paged_args();
  attnpress_plan *plan;
  args.mask = ATTNPRESS_CAUSAL;
  args.num_splits = 0;
  args.batch_invariant = 1;
  args.workspace = (void *)0x60000;
  args.workspace_bytes = (size_t)1 << 30;
  ragged.page_table_pages = 400;
  ragged.max_seqlen_q = 1;
  give_schedule();
  assert_ok(attnpress_plan_forward(handle, &args, NULL, &plan));
  assert_int_equal(attnpress_plan_launch_count(plan), 2);
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  attnpress_plan_destroy(plan);
  attnpress_fwd_sm90_ragged_args given;
  attnpress_fwd_combine_ragged_args combine;
  assert_string_equal(cuda->launch[0].symbol,
                      "flash_fwd_split_hdim72_bf16_causal_paged_ready_decode_sm90");
  assert_string_equal(cuda->launch[1].symbol, "flash_fwd_combine_hdim72_bf16_ragged_few_sm80");
  memcpy(&given, cuda->launch[0].args, sizeof given);
  memcpy(&combine, cuda->launch[1].args, sizeof combine);
  assert_int_equal(cuda->launch[1].overlaps, 1);
  assert_int_equal(combine.combine.block_rows, 1);
  assert_true(given.sm90.fwd.num_splits > 1);
  assert_non_null(given.sequence_splits);
  assert_ptr_equal(given.sequence_splits, combine.sequence_splits);
  assert_ptr_not_equal(given.sequence_splits, given.ticket);
  assert_true((char *)given.sm90.fwd.out_partial >= (char *)(given.sequence_splits + 3));
  attnpress_destroy(handle);
}

/** What is refused, by name. */
static void test_schedule_refusals(void **state) {
  (void)state;
  attnpress_forward_args args = ragged_args();
  give_schedule();
  ragged.schedule_bytes -= 4;
  refuse(&args, ATTNPRESS_INVALID_ARGUMENT,
         "ragged.schedule_bytes is 24; the schedule of 3 sequences has 28 bytes");
  ragged.schedule_bytes = sizeof schedule_words;
  ragged.batch = 4;
  refuse(&args, ATTNPRESS_INVALID_ARGUMENT,
         "ragged.schedule_bytes is 28; the schedule of 4 sequences has 36 bytes");
  ragged.batch = 3;
  ragged.schedule = (int32_t *)(void *)((char *)schedule_words + 2);
  refuse(&args, ATTNPRESS_INVALID_ARGUMENT, "ragged.schedule is 0x");
  ragged.schedule = NULL;
  refuse(&args, ATTNPRESS_INVALID_ARGUMENT, "ragged.schedule is NULL and schedule_bytes 28");
  attnpress_handle *handle = make_handle();
  ragged.schedule_bytes = 0;
  assert_int_equal(attnpress_forward_schedule(handle, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("ragged.schedule is NULL; it is where the schedule goes");
  args.ragged = NULL;
  assert_int_equal(attnpress_forward_schedule(handle, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("ragged is NULL; a schedule is the order of sequences of their own lengths");
  assert_int_equal(cuda->launches, 0);
  attnpress_destroy(handle);
}

/** Kernels without an order ignore it: of compute capability 8.0, and of one query. */
static void test_schedule_ignored(void **state) {
  (void)state;
  for (int i = 0; i < 2; ++i) {
    cuda->capability = i == 0 ? 80 : 90;
    attnpress_handle *handle = make_handle();
    attnpress_forward_args args = ragged_args();
    give_schedule();
    args.num_splits = 1;
    if (i == 1)
      ragged.max_seqlen_q = 1;
    assert_ok(attnpress_forward(handle, &args, NULL));
    assert_int_equal(cuda->launches, 1);
    assert_string_equal(cuda->launch[0].symbol, i == 0
                                                    ? "flash_fwd_hdim72_bf16_ragged_sm80"
                                                    : "flash_fwd_hdim72_bf16_ragged_decode_sm80");
    assert_ok(attnpress_forward_schedule(handle, &args, NULL));
    assert_string_equal(cuda->launch[1].symbol, "flash_fwd_schedule_hdim8_bf16_ready_sm80");
    attnpress_destroy(handle);
    cuda->reset();
  }
  cuda->capability = 90;
}

/** The call that makes one: a kernel, without data and without a workspace; its plans, and graphs. */
static void test_schedule_call(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = ragged_args();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_plan *plan, *range;
  attnpress_info info = ATTNPRESS_INFO_INIT;
  attnpress_fwd_schedule_args given;
  size_t bytes;
  give_schedule();
  ragged.max_seqlen_q = 60;
  args.q.data = args.k.data = args.v.data = args.out.data = NULL;
  assert_ok(attnpress_plan_forward_schedule(handle, &args, NULL, &plan));
  assert_int_equal(attnpress_plan_launch_count(plan), 1);
  assert_ok(attnpress_plan_workspace_bytes(plan, &bytes));
  assert_int_equal(bytes, 0);
  assert_ok(attnpress_plan_prepare(plan, NULL));
  cuda->stream_capturing = 1;
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  assert_ok(attnpress_forward_schedule(handle, &args, NULL));
  cuda->stream_capturing = 0;
  assert_int_equal(cuda->launches, 2);
  assert_string_equal(cuda->launch[1].symbol, "flash_fwd_schedule_hdim8_bf16_ready_sm80");
  assert_int_equal(cuda->launch[1].grid, 1);
  memcpy(&given, cuda->launch[1].args, sizeof given);
  assert_ptr_equal(given.ready, schedule_words);
  assert_null(given.ticket);
  assert_null(given.order[0].sequences);
  assert_int_equal(given.batch, 3);
  assert_int_equal(given.seqlen_q, 60);
  assert_ptr_equal(given.ragged.cu_seqlens_q, some);

  options.range = ATTNPRESS_UP_TO;
  assert_ok(attnpress_plan_forward_schedule(handle, &args, &options, &range));
  assert_ok(attnpress_plan_launch(range, 0, &info));
  assert_int_equal(info.grid, 0);
  ragged.batch = 2;
  assert_ok(attnpress_forward_schedule_bytes(2, &ragged.schedule_bytes));
  assert_ok(attnpress_plan_run(range, &args, NULL));
  assert_int_equal(cuda->launch[2].grid, 1);
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("ragged.batch is 2 and was 3 when the plan was made");
  ragged.batch = 0;
  assert_ok(attnpress_forward_schedule_bytes(0, &ragged.schedule_bytes));
  assert_ok(attnpress_forward_schedule(handle, &args, NULL));
  assert_int_equal(cuda->launches, 3);
  attnpress_plan_destroy(plan);
  attnpress_plan_destroy(range);
  attnpress_destroy(handle);
}

/** A range that has a schedule has both kernels; one that has none refuses it. */
static void test_ready_range(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = ragged_args();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_plan *with, *without;
  size_t bytes;
  int ready = 0, schedules = 0, plain = 0;
  options.range = ATTNPRESS_UP_TO;
  args.num_splits = 0;
  args.workspace = (void *)0x60000;
  assert_ok(attnpress_plan_forward(handle, &args, &options, &without));
  give_schedule();
  assert_ok(attnpress_plan_forward(handle, &args, &options, &with));
  for (int i = 0; i < attnpress_plan_launch_count(with); ++i) {
    attnpress_info info = ATTNPRESS_INFO_INIT;
    assert_ok(attnpress_plan_launch(with, i, &info));
    ready += strcmp(info.stem, "flash_fwd_hdim72_bf16_ragged_ready_sm90") == 0;
    plain += strcmp(info.stem, "flash_fwd_hdim72_bf16_ragged_sm90") == 0;
    schedules += strcmp(info.stem, "flash_fwd_schedule_hdim8_bf16_sm80") == 0;
  }
  assert_int_equal(ready + plain + schedules, 3);
  assert_ok(attnpress_plan_workspace_bytes(with, &bytes));
  args.workspace_bytes = bytes;
  assert_ok(attnpress_plan_run(with, &args, NULL));
  assert_int_equal(attnpress_plan_run(without, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("ragged.schedule is given and was NULL when the plan was made");
  ragged.schedule = NULL;
  ragged.schedule_bytes = 0;
  assert_ok(attnpress_plan_run(with, &args, NULL));
  assert_int_equal(cuda->launches, 3);
  attnpress_plan_destroy(with);
  attnpress_plan_destroy(without);
  attnpress_destroy(handle);
}

/** Batch-invariant calls: one kernel for a row and for many, and splits of as many keys. */
static attnpress_forward_args invariant_args(void) {
  attnpress_forward_args args = paged_args();
  args.mask = ATTNPRESS_CAUSAL;
  args.num_splits = 0;
  args.batch_invariant = 1;
  args.workspace = (void *)0x60000;
  args.workspace_bytes = (size_t)1 << 30;
  ragged.page_table_pages = 400; /* 6,400 keys */
  ragged.max_seqlen_q = 1;
  return args;
}

/** A dense batch of 40 rows, which runs the kernels of sequences. */
static void make_dense(attnpress_forward_args *args) {
  args->ragged = NULL;
  args->q = attnpress_tensor_bshd((void *)0x10000, 2, 40, HEADS_Q, HDIM, ATTNPRESS_BF16);
  args->out = attnpress_tensor_bshd((void *)0x40000, 2, 40, HEADS_Q, HDIM, ATTNPRESS_BF16);
  args->k = attnpress_tensor_bshd((void *)0x20000, 2, 700, HEADS_KV, HDIM, ATTNPRESS_BF16);
  args->v = attnpress_tensor_bshd((void *)0x30000, 2, 700, HEADS_KV, HDIM, ATTNPRESS_BF16);
  args->lse = NULL;
}

static void test_batch_invariant(void **state) {
  (void)state;
  cuda->capability = 80;
  attnpress_handle *handle = make_handle();
  attnpress_fwd_ragged_args given, dense;
  attnpress_fwd_combine_ragged_args combine;
  attnpress_forward_args args = invariant_args();
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 2);
  assert_string_equal(cuda->launch[0].symbol, "flash_fwd_split_hdim72_bf16_causal_paged_few_sm80");
  assert_string_equal(cuda->launch[1].symbol, "flash_fwd_combine_hdim72_bf16_ragged_sm80");
  memcpy(&given, cuda->launch[0].args, sizeof given);
  memcpy(&combine, cuda->launch[1].args, sizeof combine);
  assert_int_equal(given.ragged.fixed_split_blocks, 8); /* of 64 keys */
  assert_int_equal(given.fwd.num_splits, 13);
  assert_int_equal(combine.ragged.fixed_split_blocks, 8);
  assert_int_equal(combine.combine.num_splits, 13);
  assert_null(combine.sequence_splits);

  /* Many thread blocks compute all splits of their rows, and more than 16 rows have a larger block. */
  ragged.max_seqlen_q = 0;
  args.q.shape[1] = args.out.shape[1] = 1 << 17;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_string_equal(cuda->launch[2].symbol, "flash_fwd_split_hdim72_bf16_causal_paged_sm80");
  memcpy(&given, cuda->launch[2].args, sizeof given);
  assert_int_equal(given.ragged.fixed_split_blocks, 8);
  assert_int_equal(given.fwd.num_splits, 1);

  /* A dense call runs the kernels of sequences, a batch each. */
  make_dense(&args);
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_string_equal(cuda->launch[4].symbol, "flash_fwd_split_hdim72_bf16_causal_ragged_sm80");
  memcpy(&dense, cuda->launch[4].args, sizeof dense);
  assert_int_equal(dense.ragged.fixed_split_blocks, 8);
  assert_int_equal(dense.fwd.batch, 2);
  assert_int_equal(dense.ragged.rows_k, 700);
  attnpress_destroy(handle);
}

/** The same on compute capability 9.0: units of one split each, added up behind, or thread blocks that add
 * up the splits of their rows. */
static void test_hopper_batch_invariant(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_fwd_schedule_args schedule;
  attnpress_fwd_sm90_ragged_args given;
  attnpress_fwd_combine_ragged_args combine;
  attnpress_forward_args args = invariant_args();
  ragged.batch = 40;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 3);
  assert_string_equal(cuda->launch[0].symbol, "flash_fwd_schedule_hdim8_bf16_sm80");
  assert_string_equal(cuda->launch[1].symbol,
                      "flash_fwd_split_hdim72_bf16_causal_paged_decode_sm90");
  assert_string_equal(cuda->launch[2].symbol, "flash_fwd_combine_hdim72_bf16_ragged_sm80");
  assert_int_equal(cuda->launch[2].overlaps, 1);
  memcpy(&schedule, cuda->launch[0].args, sizeof schedule);
  memcpy(&given, cuda->launch[1].args, sizeof given);
  memcpy(&combine, cuda->launch[2].args, sizeof combine);
  const int32_t blocks = given.ragged.fixed_split_blocks;
  assert_int_equal(blocks, 10); /* of 112 keys */
  assert_int_equal(given.sm90.fwd.num_splits, 6);
  assert_int_equal(schedule.split_keys, 1120);
  assert_int_equal(schedule.window, 0);
  assert_ptr_equal(combine.sequence_splits, schedule.sequence_splits);
  assert_true((char *)schedule.sequence_splits >=
              (const char *)(schedule.order[0].sequences + schedule.batch));
  assert_true((char *)given.sm90.fwd.out_partial >=
              (char *)(schedule.sequence_splits + schedule.batch));
  assert_ptr_equal(combine.combine.out_partial, given.sm90.fwd.out_partial);
  assert_ptr_equal(combine.combine.lse_partial, given.sm90.fwd.lse_partial);
  assert_int_equal(combine.combine.num_splits, 6);
  assert_int_equal(combine.ragged.fixed_split_blocks, blocks);

  /* Many rows: no kernel behind. */
  ragged.max_seqlen_q = 0;
  args.q.shape[1] = args.out.shape[1] = 1 << 17;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 5);
  assert_string_equal(cuda->launch[4].symbol, "flash_fwd_split_hdim72_bf16_causal_paged_sm90");
  memcpy(&schedule, cuda->launch[3].args, sizeof schedule);
  memcpy(&given, cuda->launch[4].args, sizeof given);
  assert_int_equal(schedule.split_keys, 0);
  assert_int_equal(given.ragged.fixed_split_blocks, blocks);
  assert_int_equal(given.sm90.fwd.num_splits, 1);

  /* Few keys: one split, and none behind. Each unit has a thread block: none before, either. */
  ragged.page_table_pages = 60;
  ragged.max_seqlen_q = 1;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 6);
  assert_string_equal(cuda->launch[5].symbol,
                      "flash_fwd_split_hdim72_bf16_causal_paged_ready_decode_sm90");
  assert_int_equal(cuda->launch[5].overlaps, 1);

  /* Keys that come in boxes of pages, and those that have none. */
  memcpy(&given, cuda->launch[5].args, sizeof given);
  assert_int_equal(given.box_rows, 16);
  args.k.shape[1] = args.v.shape[1] = 15;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 7);
  assert_string_equal(cuda->launch[6].symbol, cuda->launch[5].symbol);
  memcpy(&given, cuda->launch[6].args, sizeof given);
  assert_int_equal(given.box_rows, 0);
  assert_ptr_equal(given.sm90.fwd.k, args.k.data);
  args.k.shape[1] = args.v.shape[1] = 16;
  cuda->launches = 6;

  /* Few sequences are looked through, however many splits there are. */
  ragged.batch = 32;
  ragged.page_table_pages = 4000;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 8);
  assert_string_equal(cuda->launch[6].symbol, cuda->launch[5].symbol);
  assert_string_equal(cuda->launch[7].symbol, cuda->launch[2].symbol);
  memcpy(&given, cuda->launch[6].args, sizeof given);
  memcpy(&combine, cuda->launch[7].args, sizeof combine);
  assert_null(given.ready);
  assert_null(given.ticket);
  assert_null(given.first_unit);
  assert_non_null(given.sequence_splits);
  assert_ptr_equal(combine.sequence_splits, given.sequence_splits);
  assert_true((char *)given.sm90.fwd.out_partial >= (char *)(given.sequence_splits + ragged.batch));
  ragged.batch = 40;

  /* A window says which splits there are. */
  attnpress_window window = ATTNPRESS_WINDOW_INIT;
  ragged.page_table_pages = 400;
  args.mask = ATTNPRESS_WINDOW;
  window.left = 300;
  args.window = &window;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_string_equal(cuda->launch[9].symbol, "flash_fwd_split_hdim72_bf16_window_paged_sm90");
  memcpy(&schedule, cuda->launch[8].args, sizeof schedule);
  assert_int_equal(schedule.window, 1);
  assert_int_equal(schedule.score.window_left, 300);
  args.window = NULL;
  args.mask = ATTNPRESS_CAUSAL;

  /* A dense call runs the kernels of sequences, a batch each. */
  make_dense(&args);
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_string_equal(cuda->launch[11].symbol,
                      "flash_fwd_split_hdim72_bf16_causal_ragged_ready_sm90");
  memcpy(&given, cuda->launch[11].args, sizeof given);
  assert_int_equal(given.sm90.fwd.batch, 2);
  assert_int_equal(given.ragged.rows_k, 700);
  attnpress_destroy(handle);
}

/** Splits whose number is chosen: the same kernels, whose parts are added up in any order. */
static void test_hopper_chosen_splits(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_fwd_sm90_ragged_args given;
  attnpress_fwd_combine_ragged_args combine;
  attnpress_forward_args args = invariant_args();
  args.batch_invariant = 0;
  ragged.page_table_pages = 4000; /* 64,000 keys */
  for (int few = 1; few >= 0; --few) {
    const int first = cuda->launches;
    ragged.max_seqlen_q = few ? 16 : 40; /* of 2 query heads a key head */
    assert_ok(attnpress_forward(handle, &args, NULL));
    assert_int_equal(cuda->launches, first + 2);
    assert_string_equal(cuda->launch[first].symbol,
                        few ? "flash_fwd_split_hdim72_bf16_causal_paged_ready_few_sm90"
                            : "flash_fwd_split_hdim72_bf16_causal_paged_ready_sm90");
    assert_string_equal(cuda->launch[first + 1].symbol,
                        "flash_fwd_combine_hdim72_bf16_ragged_sm80");
    assert_int_equal(cuda->launch[first + 1].overlaps, 1);
    memcpy(&given, cuda->launch[first].args, sizeof given);
    memcpy(&combine, cuda->launch[first + 1].args, sizeof combine);
    const int32_t splits = given.sm90.fwd.num_splits, blocks = given.ragged.fixed_split_blocks;
    const int32_t block_n = few ? 128 : 112;
    assert_true(splits > 1 && splits * blocks * block_n >= 64000 &&
                (splits - 1) * blocks * block_n < 64000);
    assert_non_null(given.sequence_splits);
    assert_ptr_equal(given.sequence_splits, combine.sequence_splits);
    assert_int_equal(combine.combine.num_splits, splits);
    assert_int_equal(combine.ragged.fixed_split_blocks, 0);
    assert_true((char *)given.sm90.fwd.out_partial >=
                (char *)(given.sequence_splits + ragged.batch));
  }
  attnpress_destroy(handle);
}

/** What of a call decides between the kernels for 9.0 and those for 8.0: nothing that batches and lengths
 * have a part in. Up to 8 rows of a key head have a kernel of their own, in splits of as many keys. */
static void test_hopper_batch_invariant_choices(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_alibi alibi = ATTNPRESS_ALIBI_INIT;
  alibi.slopes = (const float *)(const void *)some;
#define RUNS_INVARIANT(change, name)                                                               \
  do {                                                                                             \
    attnpress_forward_args args = invariant_args();                                                \
    attnpress_plan *plan;                                                                          \
    attnpress_info info = ATTNPRESS_INFO_INIT;                                                     \
    change;                                                                                        \
    assert_ok(attnpress_plan_forward(handle, &args, NULL, &plan));                                 \
    assert_ok(attnpress_plan_launch(plan, 0, &info));                                              \
    assert_string_equal(info.stem, name);                                                          \
    attnpress_plan_destroy(plan);                                                                  \
  } while (0)
  for (int queries = 1; queries <= 65; queries += queries < 9 ? 1 : 8)
    for (int pages = 1; pages <= 1024; pages *= 4)
      RUNS_INVARIANT((ragged.max_seqlen_q = queries, ragged.page_table_pages = pages),
                     queries * HEADS_Q / HEADS_KV <= 8
                         ? "flash_fwd_split_hdim72_bf16_causal_paged_ready_decode_sm90"
                         : "flash_fwd_split_hdim72_bf16_causal_paged_ready_sm90");
  RUNS_INVARIANT(args.softcap = 30.0f, "flash_fwd_split_hdim72_bf16_causal_softcap_paged_few_sm80");
  RUNS_INVARIANT(args.alibi = &alibi, "flash_fwd_split_hdim72_bf16_causal_alibi_paged_few_sm80");
  RUNS_INVARIANT(args.k.shape[1] = args.v.shape[1] = 12,
                 "flash_fwd_split_hdim72_bf16_causal_paged_ready_decode_sm90");
  RUNS_INVARIANT(ragged.leftpad_k = some,
                 "flash_fwd_split_hdim72_bf16_causal_paged_ready_decode_sm90");
  attnpress_destroy(handle);
}

static void test_batch_invariant_refusals(void **state) {
  (void)state;
  attnpress_forward_args args = ragged_args();
  args.batch_invariant = 2;
  refuse(&args, ATTNPRESS_INVALID_ARGUMENT, "batch_invariant is 2; it must be 0 or 1");
  args.batch_invariant = 1;
  args.num_splits = 2;
  refuse(&args, ATTNPRESS_INVALID_ARGUMENT, "num_splits is 2 with batch_invariant");
  args.num_splits = 0;
  attnpress_dropout dropout = ATTNPRESS_DROPOUT_INIT;
  dropout.probability = 0.5f;
  args.dropout = &dropout;
  refuse(&args, ATTNPRESS_NOT_SUPPORTED, "dropout and batch_invariant are both given");
}

/** A range has the kernels that any of its batch-invariant calls may choose, and their workspace. */
/** Few splits of few rows, whose keys fit the thread blocks that share one: a cluster has them all, and no
 * kernel runs before or behind. */
static void test_hopper_shared_splits(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  static const struct {
    int hdim, pages, batch;
    int splits, sharing;       /* of a cluster, thread blocks that share one; 0: splits are units */
    const char *kind, *in_row; /* of the kernels for keys in pages, and in a row */
  } calls[] = {
      {128, 35, 1, 1, 4, "decode_shared", "decode_shared"},
      {128, 64, 1, 2, 4, "decode_shared", "decode_shared"},
      {128, 71, 1, 3, 4, "decode_shared", "decode_shared"},
      {128, 140, 1, 4, 4, "decode_shared", "decode_shared"},
      {128, 141, 1, 0, 0, "ready_decode", NULL},
      {64, 32, 1, 1, 4, "decode_shared", "decode_shared"},
      {64, 64, 8, 2, 4, "decode_shared", "decode_shared"},
      {64, 64, 9, 2, 2, "decode_pairs", "decode_pairs"}, /* more than find room by four */
      {64, 64, 16, 2, 2, "decode_pairs", "decode_pairs"},
      {64, 64, 17, 0, 0, "ready_decode", NULL},
      {64, 65, 1, 3, 2, "decode_pairs", "decode_pairs"},
      {64, 128, 1, 4, 2, "decode_pairs", "decode_pairs"},
      {64, 129, 1, 5, 2, "decode_pairs", "ready_decode"},
      {64, 256, 1, 8, 2, "decode_pairs", "ready_decode"},
      {64, 257, 1, 0, 0, "ready_decode", NULL},
      {96, 64, 1, 0, 0, "ready_decode", NULL},
      {256, 64, 1, 0, 0, "ready_decode", NULL},
  };
  for (size_t i = 0; i < sizeof calls / sizeof *calls; ++i) {
    attnpress_forward_args args = invariant_args();
    attnpress_fwd_sm90_ragged_args given;
    const int64_t hdim = calls[i].hdim;
    ragged.batch = calls[i].batch;
    ragged.page_table_pages = calls[i].pages;
    args.q = attnpress_tensor_bshd((void *)0x10000, 1, 40, HEADS_Q, hdim, ATTNPRESS_BF16);
    args.out = attnpress_tensor_bshd((void *)0x40000, 1, 40, HEADS_Q, hdim, ATTNPRESS_BF16);
    args.k = attnpress_tensor_bshd((void *)0x20000, 40, 16, HEADS_KV, hdim, ATTNPRESS_BF16);
    args.v = attnpress_tensor_bshd((void *)0x30000, 40, 16, HEADS_KV, hdim, ATTNPRESS_BF16);
    const int before = cuda->launches;
    assert_ok(attnpress_forward(handle, &args, NULL));
    const fake_launch *launch = &cuda->launch[before];
    char stem[128];
    snprintf(stem, sizeof stem, "flash_fwd_split_hdim%d_bf16_causal_paged_%s_sm90", calls[i].hdim,
             calls[i].kind);
    assert_string_equal(launch->symbol, stem);
    assert_int_equal(launch->cluster, calls[i].splits * calls[i].sharing);
    if (calls[i].splits == 0)
      continue;
    assert_int_equal(cuda->launches, before + 1);
    assert_int_equal(launch->grid, (int)launch->cluster * calls[i].batch * HEADS_KV);
    assert_int_equal(launch->overlaps, 1);
    memcpy(&given, launch->args, sizeof given);
    assert_int_equal(given.sm90.fwd.num_splits, calls[i].splits);
    assert_ptr_equal(given.sm90.fwd.k, args.k.data);
    assert_int_equal(given.ragged.fixed_split_blocks, hdim == 128 ? 7 : 4);

    /* Keys in a row: the same key blocks. */
    args.k = attnpress_tensor_bshd((void *)0x20000, 1, 16 * calls[i].pages, HEADS_KV, hdim,
                                   ATTNPRESS_BF16);
    args.v = attnpress_tensor_bshd((void *)0x30000, 1, 16 * calls[i].pages, HEADS_KV, hdim,
                                   ATTNPRESS_BF16);
    ragged.page_table = NULL;
    ragged.page_table_pages = 0;
    ragged.seqused_k = NULL;
    ragged.cu_seqlens_k = some;
    const unsigned smem_bytes = launch->smem_bytes;
    assert_ok(attnpress_forward(handle, &args, NULL));
    launch = &cuda->launch[before + 1];
    snprintf(stem, sizeof stem, "flash_fwd_split_hdim%d_bf16_causal_ragged_%s_sm90", calls[i].hdim,
             calls[i].in_row);
    assert_string_equal(launch->symbol, stem);
    if (launch->cluster > 0)
      assert_true(launch->smem_bytes <= smem_bytes); /* no addresses of keys in pages */
    memcpy(&given, launch->args, sizeof given);
    assert_int_equal(given.ragged.fixed_split_blocks, hdim == 128 ? 7 : 4);
  }
  attnpress_destroy(handle);
}

/** Where clusters share the splits of the bounds, a range has what adds up those of other calls, too: it is
 * prepared, and a call of it can be captured. */
static void test_hopper_shared_range(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = invariant_args();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_plan *range;
  size_t bytes;
  ragged.batch = 60;
  ragged.page_table_pages = 48; /* 768 keys, which are two splits */
  args.q = attnpress_tensor_bshd((void *)0x10000, 1, 60, HEADS_Q, 64, ATTNPRESS_BF16);
  args.out = attnpress_tensor_bshd((void *)0x40000, 1, 60, HEADS_Q, 64, ATTNPRESS_BF16);
  args.k = attnpress_tensor_bshd((void *)0x20000, 40, 16, HEADS_KV, 64, ATTNPRESS_BF16);
  args.v = attnpress_tensor_bshd((void *)0x30000, 40, 16, HEADS_KV, 64, ATTNPRESS_BF16);
  options.range = ATTNPRESS_UP_TO;
  assert_ok(attnpress_plan_forward(handle, &args, &options, &range));
  assert_ok(attnpress_plan_prepare(range, NULL));
  assert_ok(attnpress_plan_workspace_bytes(range, &bytes));
  args.workspace_bytes = bytes;
  ragged.batch = 30;
  const int before = cuda->launches;
  cuda->stream_capturing = 1;
  assert_ok(attnpress_plan_run(range, &args, NULL));
  cuda->stream_capturing = 0;
  assert_int_equal(cuda->launches, before + 2);
  assert_non_null(strstr(cuda->launch[before].symbol, "_decode_sm90"));
  assert_non_null(strstr(cuda->launch[before + 1].symbol, "flash_fwd_combine_hdim64"));
  attnpress_plan_destroy(range);
  attnpress_destroy(handle);
}

static void check_batch_invariant_range(int capability) {
  cuda->capability = capability;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = ragged_args();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_plan *range, *plan;
  size_t most, bytes;
  args.num_splits = 0;
  args.batch_invariant = 1;
  args.k.shape[1] = args.v.shape[1] = 5000;
  ragged.max_seqlen_q = 60;
  options.range = ATTNPRESS_UP_TO;
  assert_ok(attnpress_plan_forward(handle, &args, &options, &range));
  assert_int_equal(attnpress_plan_launch_count(range), cuda->capability == 90 ? 7 : 3);
  assert_ok(attnpress_plan_workspace_bytes(range, &most));
  args.workspace = (void *)0x60000;
  args.workspace_bytes = most;
  for (int keys = 300; keys <= 5000; keys += 470)
    for (int queries = 1; queries <= 60; queries += 20) {
      args.k.shape[1] = args.v.shape[1] = keys;
      ragged.max_seqlen_q = queries;
      assert_ok(attnpress_plan_forward(handle, &args, NULL, &plan));
      assert_ok(attnpress_plan_workspace_bytes(plan, &bytes));
      assert_true(bytes > 0 && bytes <= most);
      assert_ok(attnpress_plan_run(range, &args, NULL));
      attnpress_plan_destroy(plan);
    }
  attnpress_plan_destroy(range);
  attnpress_destroy(handle);
}

static void test_batch_invariant_range(void **state) {
  (void)state;
  check_batch_invariant_range(80);
  check_batch_invariant_range(90);
}

/** Pages whose rows fill boxes of tensor maps: what the kernel is given of them. */
static void test_hopper_pages(void **state) {
  (void)state;
  static const struct {
    int64_t page_size;
    int32_t box_rows; /* with key blocks of 112 keys */
  } rows[] = {{16, 16}, {8, 8}, {24, 8}, {64, 16}, {112, 112}, {256, 16}, {1000, 8}};
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    attnpress_forward_args args = paged_args();
    attnpress_fwd_sm90_ragged_args given;
    ragged.max_seqlen_q = 60;
    args.k.shape[1] = args.v.shape[1] = rows[i].page_size;
    args.workspace = (void *)0x60000;
    args.workspace_bytes = 4096;
    assert_ok(attnpress_forward(handle, &args, NULL));
    assert_string_equal(cuda->launch[2 * i + 1].symbol, "flash_fwd_hdim72_bf16_paged_sm90");
    memcpy(&given, cuda->launch[2 * i + 1].args, sizeof given);
    assert_int_equal(given.box_rows, rows[i].box_rows);
  }
  attnpress_destroy(handle);
}

/** The same with two slabs of head dim. */
static attnpress_forward_args wide_pages(void) {
  attnpress_forward_args args = paged_args();
  args.q = attnpress_tensor_bshd((void *)0x10000, 1, 100, HEADS_Q, 128, ATTNPRESS_BF16);
  args.out = attnpress_tensor_bshd((void *)0x40000, 1, 100, HEADS_Q, 128, ATTNPRESS_BF16);
  args.k = attnpress_tensor_bshd((void *)0x20000, 40, 16, HEADS_KV, 128, ATTNPRESS_BF16);
  args.v = attnpress_tensor_bshd((void *)0x30000, 40, 16, HEADS_KV, 128, ATTNPRESS_BF16);
  return args;
}

static void check_page_map(const attnpress_tensor_map *map, const uint64_t extents[5],
                           const uint64_t strides[4], const uint16_t box[5], int step) {
  fake_map m;
  memcpy(&m, map, sizeof m);
  assert_int_equal(m.rank, 5);
  for (int i = 0; i < 5; ++i) {
    assert_int_equal(m.extents[i], extents[i]);
    assert_int_equal(m.box[i], box[i]);
    assert_int_equal(m.steps[i], i == 2 ? step : 1);
    if (i < 4)
      assert_int_equal(m.strides_bytes[i], 2 * strides[i]);
  }
}

/** Boxes of all slabs, whatever the strides: 3 heads of 192 columns in 40 pages of 16 rows; and of one
 * slab, where there is no more, or the last one is not whole. */
static void test_hopper_page_maps(void **state) {
  (void)state;
  enum { PAGES = 40, HEADS = 3, ROWS = 16 };
  static const struct {
    int64_t hdim, strides[3]; /* of pages, rows, heads */
    int32_t head_step;
    uint64_t heads[2]; /* the map's dimension of heads and slabs: extent, stride */
    int box, step;
  } rows[] = {
      {192, {9216, 576, 192}, 3, {9, 64}, 3, 1},      {192, {9216, 192, 3072}, 48, {99, 64}, 3, 1},
      {192, {18432, 384, 6144}, 96, {195, 64}, 3, 1}, {192, {10000, 600, 200}, 25, {67, 8}, 24, 8},
      {192, {10000, 672, 224}, 7, {19, 32}, 6, 2},    {64, {3072, 192, 64}, 1, {3, 64}, 1, 1},
      {64, {4000, 216, 72}, 1, {3, 72}, 1, 1},        {72, {3456, 216, 72}, 1, {3, 72}, 1, 1},
  };
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    attnpress_forward_args args = paged_args();
    attnpress_fwd_sm90_ragged_args given;
    const int64_t hdim = rows[i].hdim, *n = rows[i].strides;
    const int whole = hdim % 64 == 0 && hdim > 64;
    ragged.max_seqlen_q = 300;
    args.q = attnpress_tensor_bshd((void *)0x10000, 1, 300, HEADS, hdim, ATTNPRESS_BF16);
    args.out = attnpress_tensor_bshd((void *)0x40000, 1, 300, HEADS, hdim, ATTNPRESS_BF16);
    args.k = attnpress_tensor_bshd((void *)0x20000, PAGES, ROWS, HEADS, hdim, ATTNPRESS_BF16);
    args.v = attnpress_tensor_bshd((void *)0x30000, PAGES, ROWS, HEADS, hdim, ATTNPRESS_BF16);
    for (int d = 0; d < 3; ++d)
      args.k.stride[d] = n[d];
    args.workspace = (void *)0x60000;
    args.workspace_bytes = 4096;
    assert_ok(attnpress_forward(handle, &args, NULL));
    memcpy(&given, cuda->launch[2 * i + 1].args, sizeof given);
    assert_int_equal(given.box_rows, ROWS);
    assert_int_equal(given.k_head_step, rows[i].head_step);
    assert_int_equal(given.v_head_step, whole ? hdim / 64 : 1);
    check_page_map(
        &given.sm90.k,
        (uint64_t[]){whole ? 64 : (uint64_t)hdim, 8, rows[i].heads[0], ROWS / 8, PAGES},
        (uint64_t[]){(uint64_t)n[1], rows[i].heads[1], 8 * (uint64_t)n[1], (uint64_t)n[0]},
        (uint16_t[]){64, 8, (uint16_t)rows[i].box, ROWS / 8, 1}, rows[i].step);
  }
  attnpress_destroy(handle);
}

/** What runs the kernels of compute capability 8.0 on 9.0: splits, what is done to scores, few queries. */
static void test_hopper_choices(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_alibi alibi = ATTNPRESS_ALIBI_INIT;
  attnpress_dropout dropout = ATTNPRESS_DROPOUT_INIT;
  attnpress_sinks sinks = ATTNPRESS_SINKS_INIT;
  alibi.slopes = sinks.data = (const float *)(const void *)some;
  sinks.dtype = ATTNPRESS_FP32;
  dropout.probability = 0.5f;
#define RUNS(make, change, name)                                                                   \
  do {                                                                                             \
    attnpress_forward_args args = make();                                                          \
    attnpress_plan *plan;                                                                          \
    attnpress_info info = ATTNPRESS_INFO_INIT;                                                     \
    ragged.max_seqlen_q = 60;                                                                      \
    change;                                                                                        \
    assert_ok(attnpress_plan_forward(handle, &args, NULL, &plan));                                 \
    assert_ok(attnpress_plan_launch(plan, attnpress_plan_launch_count(plan) - 1, &info));          \
    assert_string_equal(info.stem, name);                                                          \
    attnpress_plan_destroy(plan);                                                                  \
  } while (0)
  RUNS(ragged_args, args.sinks = &sinks, "flash_fwd_hdim72_bf16_ragged_sm90");
  RUNS(ragged_args, args.num_splits = 1, "flash_fwd_hdim72_bf16_ragged_sm90");
  RUNS(ragged_args, args.mask = ATTNPRESS_CAUSAL, "flash_fwd_hdim72_bf16_causal_ragged_sm90");
  RUNS(ragged_args, args.num_splits = 2, "flash_fwd_combine_hdim72_bf16_ragged_sm80");
  RUNS(ragged_args, args.softcap = 3.0f, "flash_fwd_hdim72_bf16_softcap_ragged_sm90");
  RUNS(paged_args, args.softcap = 3.0f, "flash_fwd_hdim72_bf16_softcap_paged_sm90");
  RUNS(paged_args, (args.softcap = 3.0f, ragged.max_seqlen_q = 1),
       "flash_fwd_hdim72_bf16_softcap_paged_decode_sm80");
  RUNS(ragged_args, (args.softcap = 3.0f, args.num_splits = 2),
       "flash_fwd_combine_hdim72_bf16_ragged_sm80");
  RUNS(ragged_args, args.alibi = &alibi, "flash_fwd_hdim72_bf16_alibi_ragged_sm90");
  RUNS(paged_args, args.alibi = &alibi, "flash_fwd_hdim72_bf16_alibi_paged_sm90");
  RUNS(wide_pages, args.alibi = &alibi, "flash_fwd_hdim128_bf16_alibi_paged_sm90");
  RUNS(ragged_args, args.dropout = &dropout, "flash_fwd_hdim72_bf16_dropout_ragged_sm80");
  RUNS(paged_args, (void)0, "flash_fwd_hdim72_bf16_paged_sm90");
  /* Pages without boxes are gathered. */
  RUNS(paged_args, args.k.shape[1] = args.v.shape[1] = 12, "flash_fwd_hdim72_bf16_paged_sm90");
  RUNS(paged_args, ragged.leftpad_k = some, "flash_fwd_hdim72_bf16_paged_sm90");
  RUNS(paged_args, ragged.max_seqlen_q = 1, "flash_fwd_hdim72_bf16_paged_decode_sm80");
  RUNS(ragged_args, ragged.max_seqlen_q = 1, "flash_fwd_hdim72_bf16_ragged_decode_sm80");
  /* Few queries of many keys: splits pay. */
  RUNS(ragged_args, args.num_splits = 0, "flash_fwd_hdim72_bf16_ragged_sm90");
  RUNS(ragged_args, args.k.shape[1] = args.v.shape[1] = 1 << 17;
       args.num_splits = 0, "flash_fwd_combine_hdim72_bf16_ragged_sm80");
  RUNS(ragged_args, args.k.shape[1] = args.v.shape[1] = 1 << 17,
       "flash_fwd_hdim72_bf16_ragged_sm90");
  /* Not in a tensor map: rows that are too far apart, heads that are too many steps apart. */
  RUNS(ragged_args, args.k.stride[1] = INT64_C(1) << 39, "flash_fwd_hdim72_bf16_ragged_sm80");
  RUNS(paged_args, args.k.stride[1] = INT64_C(1) << 36, "flash_fwd_hdim72_bf16_paged_sm80");
  RUNS(paged_args, args.k.stride[2] = INT64_C(1) << 32, "flash_fwd_hdim72_bf16_paged_sm90");
  RUNS(wide_pages, args.k.stride[2] = INT64_C(1) << 32, "flash_fwd_hdim128_bf16_paged_sm90");
  RUNS(wide_pages,
       (args.q.shape[2] = args.out.shape[2] = args.k.shape[2] = args.v.shape[2] = 8,
        args.q.stride[1] = args.out.stride[1] = args.v.stride[1] = 8 * 128,
        args.k.stride[2] = (INT64_C(1) << 32) + 8),
       "flash_fwd_hdim128_bf16_paged_sm90");
#undef RUNS
  attnpress_destroy(handle);
}

/** A range has the kernels of both, and room for the schedule of its batch. */
static void test_hopper_range(void **state) {
  (void)state;
  static const char *const stems[] = {
      "flash_fwd_schedule_hdim8_bf16_sm80", "flash_fwd_hdim72_bf16_ragged_sm90",
      "flash_fwd_split_hdim72_bf16_ragged_sm80", "flash_fwd_hdim72_bf16_ragged_decode_sm80"};
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = ragged_args();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_plan *range;
  size_t bytes;
  args.k.shape[1] = args.v.shape[1] = 1 << 17;
  args.num_splits = 0;
  options.range = ATTNPRESS_UP_TO;
  assert_ok(attnpress_plan_forward(handle, &args, &options, &range));
  for (size_t i = 0; i < sizeof stems / sizeof *stems; ++i) {
    attnpress_info info = ATTNPRESS_INFO_INIT;
    int found = 0;
    for (int n = 0; n < attnpress_plan_launch_count(range); ++n) {
      assert_ok(attnpress_plan_launch(range, n, &info));
      found |= strcmp(info.stem, stems[i]) == 0;
    }
    if (!found)
      fail_msg("%s is not in the range", stems[i]);
  }
  assert_ok(attnpress_plan_workspace_bytes(range, &bytes));
  assert_true(bytes >= 512 + 3 * sizeof(attnpress_sequence_units));
  args.workspace = (void *)0x60000;
  args.workspace_bytes = bytes;
  args.k.shape[1] = args.v.shape[1] = 300;
  assert_ok(attnpress_plan_run(range, &args, NULL));
  assert_string_equal(cuda->launch[1].symbol, "flash_fwd_hdim72_bf16_ragged_sm90");
  attnpress_plan_destroy(range);
  attnpress_destroy(handle);
}

/** Splits: the second kernel knows the sequences too, and the workspace is that of the bounds. */
static void test_splits(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = ragged_args();
  attnpress_plan *plan, *range;
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  size_t bytes, most;
  ragged.max_seqlen_q = 60;
  args.num_splits = 4;
  assert_ok(attnpress_plan_forward(handle, &args, NULL, &plan));
  assert_ok(attnpress_plan_workspace_bytes(plan, &bytes));
  assert_true(bytes >= (size_t)4 * 3 * HEADS_Q * 60 * (HDIM + 1) * sizeof(float));
  assert_true(bytes < (size_t)4 * 3 * HEADS_Q * 61 * (HDIM + 1) * sizeof(float));
  assert_int_equal(attnpress_plan_launch_count(plan), 2);
  args.workspace = (void *)0x60000;
  args.workspace_bytes = bytes - 1;
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_WORKSPACE_TOO_SMALL);
  args.workspace_bytes = bytes;
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  assert_int_equal(cuda->launches, 2);
  assert_string_equal(cuda->launch[0].symbol, "flash_fwd_split_hdim72_bf16_ragged_sm80");
  assert_string_equal(cuda->launch[1].symbol, "flash_fwd_combine_hdim72_bf16_ragged_sm80");

  /* A plan of dense calls does not serve them, nor one of other bounds. */
  ragged.max_seqlen_q = 61;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("seqlen_q is 61");
  options.range = ATTNPRESS_UP_TO;
  assert_ok(attnpress_plan_forward(handle, &args, &options, &range));
  assert_ok(attnpress_plan_workspace_bytes(range, &most));
  assert_true(most >= bytes);
  ragged.max_seqlen_q = 60;
  assert_ok(attnpress_plan_run(range, &args, NULL));
  args = paged_args();
  args.num_splits = 4;
  assert_int_equal(attnpress_plan_run(range, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("sequences (1: ragged, 2: paged) is 2 and was 1");
  attnpress_plan_destroy(plan);
  attnpress_plan_destroy(range);
  attnpress_destroy(handle);
}

/** The mask of a kernel may not hang on lengths that nobody has seen. */
static void test_masks(void **state) {
  (void)state;
  static const struct {
    int64_t left, right, chunk;
    int top_left;
    int64_t max_seqlen_q;
    int mask; /* what was asked for */
    const char *stem;
  } rows[] = {
      {0, 0, 0, 0, 1, ATTNPRESS_CAUSAL, "flash_fwd_hdim72_bf16_ragged_decode_sm80"},
      {0, 0, 0, 0, 60, ATTNPRESS_CAUSAL, "flash_fwd_hdim72_bf16_causal_ragged_sm80"},
      {-1, -1, 0, 0, 60, ATTNPRESS_WINDOW, "flash_fwd_hdim72_bf16_ragged_sm80"},
      {-1, 0, 0, 0, 60, ATTNPRESS_WINDOW, "flash_fwd_hdim72_bf16_causal_ragged_sm80"},
      {-1, 0, 0, 1, 60, ATTNPRESS_WINDOW, "flash_fwd_hdim72_bf16_window_ragged_sm80"},
      {100000, 100000, 0, 0, 60, ATTNPRESS_WINDOW, "flash_fwd_hdim72_bf16_window_ragged_sm80"},
      {-1, -1, 9, 0, 60, ATTNPRESS_WINDOW, "flash_fwd_hdim72_bf16_window_ragged_sm80"},
  };
  for (size_t n = 0; n < 2 * sizeof rows / sizeof *rows; ++n) {
    const size_t i = n / 2;
    cuda->capability = n % 2 ? 90 : 80;
    attnpress_handle *handle = make_handle();
    attnpress_forward_args args = ragged_args();
    attnpress_window window = ATTNPRESS_WINDOW_INIT;
    attnpress_plan *plan;
    attnpress_info info = ATTNPRESS_INFO_INIT;
    window.left = rows[i].left;
    window.right = rows[i].right;
    window.chunk = rows[i].chunk;
    window.top_left = rows[i].top_left;
    args.mask = rows[i].mask;
    args.window = rows[i].mask == ATTNPRESS_WINDOW ? &window : NULL;
    ragged.max_seqlen_q = rows[i].max_seqlen_q;
    assert_ok(attnpress_plan_forward(handle, &args, NULL, &plan));
    assert_ok(attnpress_plan_launch(plan, attnpress_plan_launch_count(plan) - 1, &info));
    char stem[AP_STEM_MAX];
    snprintf(stem, sizeof stem, "%s", rows[i].stem);
    if (n % 2 && strstr(stem, "_decode") == NULL)
      memcpy(stem + strlen(stem) - 2, "90", 2);
    assert_string_equal(info.stem, stem);
    attnpress_plan_destroy(plan);
    attnpress_destroy(handle);
  }
}

/** No sequences, no queries, no keys. */
static void test_empty(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = ragged_args();
  ragged.batch = 0;
  assert_ok(attnpress_forward(handle, &args, NULL));
  args = ragged_args();
  args.q.shape[1] = args.out.shape[1] = 0;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 0);
  args = ragged_args();
  args.k.shape[1] = args.v.shape[1] = 0;
  args.workspace = (void *)0x60000;
  args.workspace_bytes = 1 << 12;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 2);
  attnpress_destroy(handle);
}

/* ---- The checking mode ----------------------------------------------------------------------- */

static attnpress_handle *make_checking(int32_t backend) {
  attnpress_handle *handle;
  attnpress_options options = handle_options();
  options.backend = backend;
  options.check = 1;
  assert_ok(attnpress_create(&handle, &options));
  return handle;
}

/** What of a call may be spoiled: three sequences, of 20 queries each. */
typedef struct checked {
  attnpress_forward_args args;
  int32_t cu_q[4], cu_k[4], used_q[3], used_k[3], cu_new[4], pad[3], index[3], indptr[4], table[10],
      table_v[10];
} checked;

static checked sound(int paged) {
  checked x = {.args = paged ? paged_args() : ragged_args(),
               .cu_q = {0, 20, 40, 60},
               .cu_k = {10, 110, 110, 300},
               .used_q = {20, 0, 5},
               .used_k = {17, 32, 0},
               .cu_new = {4, 9, 9, 12},
               .pad = {3, 0, 0},
               .index = {4, 1, 0},
               .indptr = {1, 3, 5, 6},
               .table = {-1, 39, 0, 7, 3, 12, -9, -9, 5, 6},
               .table_v = {-1, 1, 2, 3, 4, 5, 6, 7, 8, 9}};
  return x;
}

/** The group names arrays that lie where they stay. */
static void point(checked *x, int paged, int flat) {
  ragged.cu_seqlens_q = x->cu_q;
  ragged.seqused_q = x->used_q;
  ragged.leftpad_k = x->pad;
  ragged.cu_seqlens_k = paged ? NULL : x->cu_k;
  ragged.seqused_k = x->used_k;
  x->args.ragged = &ragged;
  x->args.workspace = (void *)0x60000; /* of the schedule */
  x->args.workspace_bytes = 1 << 12;
  if (!paged) {
    ragged.cu_seqlens_k_new = x->cu_new;
    x->used_k[1] = 0;
    return;
  }
  ragged.page_table = x->table + (flat ? 0 : 2);
  ragged.page_table_v = x->table_v + (flat ? 0 : 2);
  ragged.page_table_pages = flat ? 10 : 2;
  if (flat) {
    ragged.page_indptr = x->indptr;
    return;
  }
  ragged.kv_batch_idx = x->index;
  ragged.page_table_rows = 4;
  x->index[0] = 3;
}

static const struct {
  int paged, flat;
  size_t at; /* of the number that is spoiled */
  int32_t value;
  const char *says;
} contents[] = {
    {0, 0, offsetof(checked, cu_q[1]), -1,
     "sequence 0: ragged.cu_seqlens_q[0] is 0 and the next -1; they must ascend, within 0 to 100"},
    {0, 0, offsetof(checked, cu_q[3]), 101, "sequence 2: ragged.cu_seqlens_q[2] is 40"},
    {0, 0, offsetof(checked, used_q[2]), 21, "sequence 2: ragged.seqused_q is 21; it must be 0 to"},
    {0, 0, offsetof(checked, cu_k[2]), 109, "sequence 1: ragged.cu_seqlens_k[1] is 110 and the"},
    {0, 0, offsetof(checked, used_k[0]), 96,
     "sequence 0: ragged.seqused_k is 96, and 5 keys were appended; together they must be 0 to "
     "100"},
    {0, 0, offsetof(checked, cu_new[3]), 8, "sequence 2: ragged.cu_seqlens_k_new[2] is 9"},
    {0, 0, offsetof(checked, pad[0]), 23, "sequence 0: ragged.leftpad_k is 23; it must be 0 to 22"},
    {1, 0, offsetof(checked, used_k[1]), 33, "sequence 1: ragged.seqused_k is 33"},
    {1, 0, offsetof(checked, index[1]), 4,
     "sequence 1: ragged.kv_batch_idx is 4; it must be 0 to 3"},
    {1, 0, offsetof(checked, table[5]), 40, "sequence 1: page 1 of ragged.page_table is 40"},
    {1, 0, offsetof(checked, table[8]), -1, "sequence 0: page 0 of ragged.page_table is -1"},
    {1, 0, offsetof(checked, table_v[9]), 77, "sequence 0: page 1 of ragged.page_table_v is 77"},
    {1, 1, offsetof(checked, indptr[3]), 11, "sequence 2: ragged.page_indptr[2] is 5"},
    {1, 1, offsetof(checked, indptr[2]), 4, "sequence 1: ragged.seqused_k is 32, and 0 keys"},
    {1, 1, offsetof(checked, table[4]), -2, "sequence 1: page 1 of ragged.page_table is -2"},
};

/** The first entry that does not fit is named, on both backends, and nothing is launched; without
 * the mode, and in a capture, nobody looks. */
static void test_checking(void **state) {
  (void)state;
  attnpress_handle *handle = make_checking(ATTNPRESS_CUDA), *plain = make_handle();
  for (size_t i = 0; i < sizeof contents / sizeof *contents; ++i) {
    checked x = sound(contents[i].paged);
    point(&x, contents[i].paged, contents[i].flat);
    const int launches = cuda->launches, copies = cuda->copies;
    assert_ok(attnpress_forward(handle, &x.args, NULL));
    assert_true(cuda->launches > launches && cuda->copies > copies && cuda->waits > 0);
    *(int32_t *)((char *)&x + contents[i].at) = contents[i].value;
    const int before = cuda->launches;
    assert_int_equal(attnpress_forward(handle, &x.args, NULL), ATTNPRESS_INVALID_ARGUMENT);
    assert_error_says(contents[i].says);
    assert_int_equal(cuda->launches, before);
    const int looked_at = cuda->copies;
    assert_ok(attnpress_forward(plain, &x.args, NULL));
    cuda->stream_capturing = 1;
    assert_ok(attnpress_forward(handle, &x.args, NULL));
    cuda->stream_capturing = 0;
    assert_int_equal(cuda->copies, looked_at);
  }
  checked x = sound(0);
  point(&x, 0, 0);
  ragged.max_seqlen_q = 19;
  assert_int_equal(attnpress_forward(handle, &x.args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("sequence 0: it has 20 queries and ragged.max_seqlen_q is 19");
  attnpress_plan *plan;
  assert_ok(attnpress_plan_forward(handle, &x.args, NULL, &plan));
  assert_int_equal(attnpress_plan_run(plan, &x.args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  ragged.max_seqlen_q = 100;
  ragged.max_seqlen_k = 3;
  attnpress_bias bias = {sizeof bias,    (void *)0x50000, {1, 1, 100, 300},
                         {0, 0, 300, 1}, ATTNPRESS_FP16,  0};
  assert_ok(attnpress_forward(handle, &x.args, NULL));
  x.args.bias = &bias;
  assert_int_equal(attnpress_forward(handle, &x.args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("keys, and the bias those of 3, the bound by ragged.max_seqlen_k");
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
  attnpress_destroy(plain);
}

/** Batches that are sound pass, on the CPU. */
static void test_checking_sound(void **state) {
  (void)state;
  attnpress_handle *handle = make_checking(ATTNPRESS_CPU);
  int spoiled = 0;
  for (int seed = 0; seed < 200; ++seed) {
    batch b = make_batch(seed);
    settle(&b);
    fill_batch(&b);
    assert_ok(attnpress_forward(handle, &b.args, NULL));
    int32_t *used = (int32_t *)(uintptr_t)b.ragged.seqused_k;
    if (used != NULL) {
      used[b.count - 1] = -1;
      assert_int_equal(attnpress_forward(handle, &b.args, NULL), ATTNPRESS_INVALID_ARGUMENT);
      assert_error_says("ragged.seqused_k is -1");
      ++spoiled;
    }
    free_memories(&b.memory);
  }
  assert_true(spoiled > 50);
  attnpress_destroy(handle);
}

/** Schedules that the checking mode refuses: of another number of sequences, of other lengths, and of
 * entries that are none. */
static void test_checking_schedules(void **state) {
  (void)state;
  attnpress_handle *handle = make_checking(ATTNPRESS_CUDA);
  static const struct {
    int word;
    int32_t value;
    const char *says;
  } spoiled[] = {
      {0, 2,
       "ragged.schedule[0], the number of sequences, is 2, and by the call's lengths it is 3"},
      {1, 1,
       "ragged.schedule[1], a sequence of the order, is 1, and by the call's lengths it is 0"},
      {2, -7, "ragged.schedule[2], a sequence of the order, is -7"},
      {6, 1 << 30, "ragged.schedule[6], a place in the order, is 1073741824"},
  };
  checked x = sound(0);
  point(&x, 0, 0);
  give_schedule();
  const attnpress_ragged_args host = ap_fill_ragged_args(&x.args);
  assert_ok(ap_order_sequences(&host, 3, ap_ragged_queries(&x.args), schedule_words));
  assert_ok(attnpress_forward(handle, &x.args, NULL));
  for (size_t i = 0; i < sizeof spoiled / sizeof *spoiled; ++i) {
    const int32_t right = schedule_words[spoiled[i].word];
    const int before = cuda->launches;
    schedule_words[spoiled[i].word] = spoiled[i].value;
    assert_int_equal(attnpress_forward(handle, &x.args, NULL), ATTNPRESS_INVALID_ARGUMENT);
    assert_error_says(spoiled[i].says);
    assert_int_equal(cuda->launches, before);
    cuda->stream_capturing = 1;
    assert_ok(attnpress_forward(handle, &x.args, NULL));
    cuda->stream_capturing = 0;
    assert_ok(attnpress_forward_schedule(handle, &x.args, NULL)); /* which writes it */
    schedule_words[spoiled[i].word] = right;
  }
  x.used_q[0] = 21; /* a length that does not fit is named in that call as well */
  assert_int_equal(attnpress_forward_schedule(handle, &x.args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("sequence 0: ragged.seqused_q is 21");
  attnpress_destroy(handle);
}

/** The CPU makes schedules by the same rule, longest first in parts of 1,024, and ignores them. */
static void test_cpu_schedules(void **state) {
  (void)state;
  enum { BATCH = 2500 };
  static int32_t cu_q[BATCH + 1], cu_k[BATCH + 1], words[ATTNPRESS_READY_ORDER + 2 * BATCH];
  static int seen[BATCH];
  attnpress_handle *handle = make_checking(ATTNPRESS_CPU);
  attnpress_forward_args args = ragged_args();
  for (int i = 0; i < BATCH; ++i) {
    cu_q[i + 1] = cu_q[i] + (i % 11 == 3 ? 0 : 1);
    cu_k[i + 1] = cu_k[i] + i * 7919 % 500;
  }
  args.q.shape[1] = args.out.shape[1] = cu_q[BATCH];
  args.k.shape[1] = args.v.shape[1] = cu_k[BATCH];
  ragged.batch = BATCH;
  ragged.cu_seqlens_q = cu_q;
  ragged.cu_seqlens_k = cu_k;
  ragged.schedule = words;
  ragged.schedule_bytes = sizeof words;
  assert_ok(attnpress_forward_schedule(handle, &args, NULL));
  assert_int_equal(words[0], BATCH);
  for (int i = 0, last = 0; i < BATCH; ++i) {
    const int b = words[1 + i], walk = cu_q[b + 1] > cu_q[b] ? cu_k[b + 1] - cu_k[b] : 0;
    assert_int_equal(b / 1024, i / 1024);
    assert_int_equal(words[1 + BATCH + b], i);
    assert_int_equal(seen[b]++, 0);
    if (i % 1024 > 0)
      assert_true(walk / 16 <= last / 16);
    last = walk;
  }
  attnpress_destroy(handle);

  static const int fills[] = {0, 0xff, 0x5a};
  for (size_t i = 0; i < sizeof fills / sizeof *fills; ++i) {
    reference_error e = {0};
    batch b = make_batch(31);
    settle(&b);
    fill_batch(&b);
    b.ragged.schedule = words;
    assert_ok(attnpress_forward_schedule_bytes(b.count, &b.ragged.schedule_bytes));
    memset(words, fills[i], sizeof words);
    attnpress_options options = handle_options();
    options.backend = ATTNPRESS_CPU;
    assert_ok(attnpress_create(&handle, &options));
    assert_ok(attnpress_forward(handle, &b.args, NULL));
    check_batch(&b, &e, 31);
    attnpress_destroy(handle);
    handle = make_checking(ATTNPRESS_CPU);
    assert_int_equal(attnpress_forward(handle, &b.args, NULL), ATTNPRESS_INVALID_ARGUMENT);
    assert_error_says("ragged.schedule[0], the number of sequences");
    assert_ok(attnpress_forward_schedule(handle, &b.args, NULL));
    assert_ok(attnpress_forward(handle, &b.args, NULL));
    attnpress_destroy(handle);
    free_memories(&b.memory);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_schedule_bytes),
      TEST(test_schedule_parts),
      TEST(test_ready_launches),
      TEST(test_ready_splits),
      TEST(test_ready_range),
      TEST(test_schedule_refusals),
      TEST(test_schedule_ignored),
      TEST(test_schedule_call),
      TEST(test_checking_schedules),
      TEST(test_cpu_schedules),
      TEST(test_cpu),
      TEST(test_contents),
      TEST(test_bounds),
      TEST(test_bound_of_keys),
      TEST(test_bad_page),
      TEST(test_no_pages),
      TEST(test_refusals),
      TEST(test_launches),
      TEST(test_bias_launches),
      TEST(test_splits),
      TEST(test_masks),
      TEST(test_empty),
      TEST(test_hopper_sections),
      TEST(test_hopper_launches),
      TEST(test_batch_invariant),
      TEST(test_hopper_batch_invariant),
      TEST(test_hopper_chosen_splits),
      TEST(test_hopper_batch_invariant_choices),
      TEST(test_hopper_shared_splits),
      TEST(test_hopper_shared_range),
      TEST(test_batch_invariant_refusals),
      TEST(test_batch_invariant_range),
      TEST(test_hopper_pages),
      TEST(test_hopper_page_maps),
      TEST(test_hopper_choices),
      TEST(test_hopper_range),
      TEST(test_checking),
      TEST(test_checking_sound),
  };
  return cmocka_run_group_tests(tests, set_up_attention, tear_down_group);
}
