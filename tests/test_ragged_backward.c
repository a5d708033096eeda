/* Gradients of sequences of their own lengths: the CPU backend against float64, what is refused, and
 * what a GPU would be asked to run. All that lies outside of the sequences is NaN. */
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
#include "attention/cpu_backward.h"
#include "attention/defaults.h"
#include "attention/ragged.h"
#include "cpu/element.h"
#include "ragged_support.h"
#include "../tools/reference_backward.h"
#include "../tools/sequences.h"

/* ---- Random batches -------------------------------------------------------------------------- */

enum { HEADS_MAX = 14 };

typedef struct batch {
  attnpress_backward_args args;
  attnpress_ragged ragged;
  attnpress_window window;
  attnpress_alibi alibi;
  attnpress_sinks sinks;
  attnpress_dropout dropout;
  attnpress_bias bias;
  attnpress_dbias dbias;
  float slopes[SEQUENCES_MAX * HEADS_MAX], sink_values[HEADS_MAX], dsinks[HEADS_MAX];
  memories memory;
  int queries[SEQUENCES_MAX], keys[SEQUENCES_MAX], count;
} batch;

/* Where the rows of sequences lie: one after the other, or a batch each. */
static void place(batch *b, const int *lengths, const int32_t **sums, const int32_t **used,
                  int64_t *batches, int64_t *rows) {
  int32_t *array = allocate(&b->memory, sizeof(int32_t) * (size_t)(b->count + 1));
  *batches = b->count;
  *rows = longest(lengths, b->count) + draw(4);
  if (draw(3) == 0) {
    for (int i = 0; i < b->count; ++i)
      array[i] = lengths[i];
    *used = array;
    return;
  }
  array[0] = draw(4);
  for (int i = 0; i < b->count; ++i)
    array[i + 1] = array[i] + lengths[i];
  *sums = array;
  *batches = 1;
  *rows = array[b->count] + draw(3);
  if (draw(3) == 0) { /* and of them the first ones */
    int32_t *first = allocate(&b->memory, sizeof(int32_t) * (size_t)b->count);
    for (int i = 0; i < b->count; ++i)
      first[i] = draw(3) ? lengths[i] : draw(lengths[i] + 1);
    *used = first;
  }
}

/* Strides of lse or of its gradient: packed by heads or by rows, or a batch each. */
static float *allocate_values(batch *b, int64_t stride[2], int64_t *row_stride) {
  const int64_t heads = b->args.q.shape[2], rows = b->args.q.shape[1];
  size_t count = (size_t)(heads * rows * b->args.q.shape[0]);
  const int kind = draw(3);
  if (kind == 1 && b->ragged.cu_seqlens_q) { /* (total, heads) */
    stride[1] = 1;
    *row_stride = heads;
  } else if (kind == 2) { /* (batch, heads, rows), every other element */
    stride[1] = 2 * rows + 1;
    stride[0] = heads * stride[1];
    *row_stride = 2;
    count = (size_t)(b->count * stride[0]);
  }
  return allocate(&b->memory, count * sizeof(float));
}

static void make_scores(batch *b, int heads) {
  attnpress_backward_args *a = &b->args;
  a->mask = draw(3);
  b->window = (attnpress_window)ATTNPRESS_WINDOW_INIT;
  b->window.left = draw(40) - 1;
  b->window.right = draw(10) - 1;
  b->window.chunk = draw(3) ? 0 : 11;
  b->window.top_left = draw(2);
  a->window = a->mask == ATTNPRESS_WINDOW ? &b->window : NULL;
  a->softcap = draw(4) == 0 ? 3.0f : 0.0f;
  b->alibi = (attnpress_alibi)ATTNPRESS_ALIBI_INIT;
  for (int i = 0; i < b->count * heads; ++i)
    b->slopes[i] = 0.02f * (float)(1 + draw(10));
  b->alibi.stride[0] = heads;
  b->alibi.stride[1] = 1;
  a->alibi = draw(3) == 0 ? &b->alibi : NULL;
  b->sinks = (attnpress_sinks)ATTNPRESS_SINKS_INIT;
  for (int i = 0; i < heads; ++i)
    b->sink_values[i] = (float)draw(5) - 2.0f;
  b->sinks.dtype = ATTNPRESS_FP32;
  a->sinks = draw(3) == 0 ? &b->sinks : NULL;
  b->dropout = (attnpress_dropout)ATTNPRESS_DROPOUT_INIT;
  b->dropout.probability = 0.3f;
  b->dropout.seed = 5;
  a->dropout = draw(4) == 0 ? &b->dropout : NULL;
}

/* A bias of all sequences or of each, for more than the longest; and its gradient, by any of it. */
static void make_bias(batch *b, int heads) {
  static const int32_t dtypes[] = {ATTNPRESS_FP16, ATTNPRESS_BF16, ATTNPRESS_FP32};
  attnpress_bias *bias = &b->bias;
  attnpress_dbias *d = &b->dbias;
  attnpress_backward_args *a = &b->args;
  if (draw(3) != 0)
    return;
  a->ragged = &b->ragged;
  const attnpress_forward_args forward = ap_forward_of(a);
  const int64_t rows = ap_ragged_queries(&forward), keys = ap_ragged_keys(&forward);
  *bias = (attnpress_bias)ATTNPRESS_BIAS_INIT;
  *d = (attnpress_dbias)ATTNPRESS_DBIAS_INIT;
  const int64_t shape[4] = {draw(2) ? b->count : 1, draw(2) ? heads : 1, rows + draw(9),
                            keys + draw(9)};
  int64_t stride = 1, of_gradient = 1;
  for (int i = 3; i >= 0; --i) {
    bias->shape[i] = shape[i];
    d->shape[i] = i < 3 && draw(2) ? 1 : i == 0 ? b->count : i == 1 ? heads : shape[i];
    bias->stride[i] = stride;
    d->stride[i] = d->shape[i] > 1 ? of_gradient : 12345;
    stride *= shape[i];
    of_gradient *= d->shape[i];
  }
  bias->dtype = dtypes[draw(3)];
  d->dtype = dtypes[draw(3)];
  void *values = allocate(&b->memory, (size_t)stride * sizeof(float));
  d->data = allocate(&b->memory, (size_t)of_gradient * sizeof(float));
  bias->data = values;
  for (int64_t i = 0; i < stride; ++i) /* none where no sequence looks */
    ap_store_element(values, i,
                     i % shape[3] >= keys || i / shape[3] % shape[2] >= rows ? NAN
                     : draw(16) == 0                                         ? -INFINITY
                                     : 0.125f * (float)(draw(33) - 16),
                     bias->dtype);
  a->bias = bias;
  a->dbias = draw(4) ? d : NULL;
}

static batch make_batch(int seed) {
  static const int hdims[] = {8, 40, 64, 136}, groups[] = {1, 2, 4, 7};
  batch b = {.args = ATTNPRESS_BACKWARD_ARGS_INIT, .ragged = ATTNPRESS_RAGGED_INIT};
  state_of_random = (uint64_t)seed;
  const int32_t dtype = 1 + draw(3);
  const int heads_kv = 1 + draw(2), heads = heads_kv * groups[draw(4)];
  const int hdim = hdims[draw(4)], hdim_v = hdim == 64 && draw(2) ? 128 : hdim;
  int64_t batches, rows;
  attnpress_backward_args *a = &b.args;
  b.count = 1 + draw(SEQUENCES_MAX);
  for (int i = 0; i < b.count; ++i) {
    b.queries[i] = draw(4) ? draw(90) : draw(4);
    b.keys[i] = draw(4) ? draw(150) : draw(2) * 20;
  }
  b.ragged.batch = b.count;
  place(&b, b.queries, &b.ragged.cu_seqlens_q, &b.ragged.seqused_q, &batches, &rows);
  a->q = allocate_tensor(&b.memory, batches, rows, heads, hdim, dtype);
  a->dq = allocate_tensor(&b.memory, batches, rows, heads, hdim, dtype);
  a->out = allocate_tensor(&b.memory, batches, rows, heads, hdim_v, dtype);
  a->dout = allocate_tensor(&b.memory, batches, rows, heads, hdim_v, dtype);
  place(&b, b.keys, &b.ragged.cu_seqlens_k, &b.ragged.seqused_k, &batches, &rows);
  a->k = allocate_tensor(&b.memory, batches, rows, heads_kv, hdim, dtype);
  a->dk = allocate_tensor(&b.memory, batches, rows, heads_kv, hdim, dtype);
  a->v = allocate_tensor(&b.memory, batches, rows, heads_kv, hdim_v, dtype);
  a->dv = allocate_tensor(&b.memory, batches, rows, heads_kv, hdim_v, dtype);
  b.ragged.max_seqlen_q = draw(2) ? longest(b.queries, b.count) + draw(100) : 0;
  b.ragged.max_seqlen_k = draw(2) ? longest(b.keys, b.count) + draw(100) : 0;
  if (draw(6) == 0) /* the longest one is none */
    b.ragged.max_seqlen_k = longest(b.keys, b.count) > 1 ? longest(b.keys, b.count) - 1 : 0;
  make_scores(&b, heads);
  make_bias(&b, heads);
  b.ragged.lse_log2 = draw(2);
  b.ragged.lse_empty_pos_inf = draw(2);
  a->lse = allocate_values(&b, a->lse_stride, &b.ragged.lse_row_stride);
  if (draw(2))
    a->dlse = allocate_values(&b, a->dlse_stride, &a->dlse_row_stride);
  return b;
}

/* Pointers to the batch's own members, after it was copied. */
static void settle(batch *b) {
  attnpress_backward_args *a = &b->args;
  a->ragged = &b->ragged;
  a->window = a->window ? &b->window : NULL;
  a->alibi = a->alibi ? &b->alibi : NULL;
  a->sinks = a->sinks ? &b->sinks : NULL;
  a->dropout = a->dropout ? &b->dropout : NULL;
  a->dsinks = a->sinks ? b->dsinks : NULL;
  a->bias = a->bias ? &b->bias : NULL;
  a->dbias = a->dbias ? &b->dbias : NULL;
  b->alibi.slopes = b->slopes;
  b->sinks.data = b->sink_values;
}

static void *element_at(const attnpress_tensor *t, int64_t batch, int64_t row, int64_t head) {
  return (char *)t->data + (batch * t->stride[0] + row * t->stride[1] + head * t->stride[2]) *
                               reference_element_bytes(t->dtype);
}

static void fill_rows(const attnpress_tensor *t, int64_t batch, int64_t begin, int64_t rows,
                      uint64_t seed) {
  attnpress_tensor part = *t;
  part.data = element_at(t, batch, begin, 0);
  part.shape[0] = 1;
  part.shape[1] = rows;
  reference_fill_normal(&part, seed);
}

/* Inputs, and what the forward pass makes of them. */
static void fill_batch(batch *b) {
  const attnpress_backward_args *a = &b->args;
  for (int s = 0; s < b->count; ++s) {
    const sequence_rows rows = backward_sequence_rows_of(a, s);
    const uint64_t seed = 1000 * (uint64_t)s;
    fill_rows(&a->q, rows.q_batch, rows.q_begin, rows.queries, seed + 1);
    fill_rows(&a->k, rows.k_batch, rows.k_begin, rows.keys, seed + 2);
    fill_rows(&a->v, rows.k_batch, rows.k_begin, rows.keys, seed + 3);
    fill_rows(&a->dout, rows.q_batch, rows.q_begin, rows.queries, seed + 4);
    assert_int_equal(backward_sequence_fill_forward(a, s), 0);
    if (a->dlse == NULL)
      continue;
    /* It lies as lse does where strides are equal. */
    attnpress_forward_args forward = ap_forward_of(a);
    attnpress_ragged ragged = b->ragged;
    ragged.lse_row_stride = a->dlse_row_stride;
    forward.ragged = &ragged;
    forward.lse_stride[0] = a->dlse_stride[0];
    forward.lse_stride[1] = a->dlse_stride[1];
    for (int64_t h = 0; h < a->q.shape[2]; ++h)
      for (int64_t i = 0; i < rows.queries; ++i)
        ((float *)(uintptr_t)a->dlse)[sequence_lse_at(&forward, &rows, s, h, i)] =
            (float)(((int)i * 7 + (int)h) % 11 - 5) * 0.125f;
  }
}

/* What is checked becomes NaN again. */
static void wipe(const attnpress_tensor *t, int64_t batch, int64_t begin, int64_t rows) {
  for (int64_t i = begin; i < begin + rows; ++i)
    for (int64_t h = 0; h < t->shape[2]; ++h)
      memset(element_at(t, batch, i, h), 0xff,
             (size_t)t->shape[3] * (size_t)reference_element_bytes(t->dtype));
}

/* Checks the sequences, and that nothing else was written. */
static void check_batch(const batch *b, reference_gradient errors[REFERENCE_GRADIENTS], int seed) {
  const attnpress_backward_args *a = &b->args;
  const attnpress_tensor *gradients[] = {&a->dq, &a->dk, &a->dv};
  for (int s = 0; s < b->count; ++s) {
    backward_sequence one;
    assert_int_equal(backward_sequence_open(&one, a, s), 0);
    for (int64_t h = 0; h < a->k.shape[2]; ++h)
      assert_int_equal(reference_check_backward_head(&one.args, NULL, s, h, errors), 0);
    wipe(&a->dq, one.rows.q_batch, one.rows.q_begin, one.rows.queries);
    wipe(&a->dk, one.rows.k_batch, one.rows.k_begin, one.rows.keys);
    wipe(&a->dv, one.rows.k_batch, one.rows.k_begin, one.rows.keys);
    backward_sequence_close(&one);
  }
  for (int g = 0; g < 3; ++g)
    for (size_t i = 0; i < bytes_of(gradients[g]); ++i)
      if (((unsigned char *)gradients[g]->data)[i] != 0xff)
        fail_msg("batch %d: gradient %d was written outside of the sequences", seed, g);
}

static void check_dsinks(const batch *b, int seed) {
  reference_gradient e = {0};
  for (int64_t h = 0; h < b->args.q.shape[2]; ++h) {
    reference_dsink sum = {0.0, 0.0};
    for (int s = 0; s < b->count; ++s) {
      backward_sequence one;
      assert_int_equal(backward_sequence_open(&one, &b->args, s), 0);
      assert_int_equal(reference_add_dsink(&one.args, s, h, &sum), 0);
      backward_sequence_close(&one);
    }
    reference_compare_dsink(&b->args, h, &sum, &e);
  }
  if (!(e.error <= reference_gradient_bound(&e)))
    fail_msg("batch %d: dsinks of head %d is %g, expected %g", seed, (int)e.at[2], e.value,
             e.expected);
}

static void check_dbias(const batch *b, int seed) {
  reference_gradient e = {0};
  for (int64_t i = 0; i < b->dbias.shape[0]; ++i)
    for (int64_t h = 0; h < b->dbias.shape[1]; ++h)
      assert_int_equal(backward_sequences_check_dbias(&b->args, i, h, NULL, &e), 0);
  if (!(e.error <= reference_gradient_bound(&e)))
    fail_msg("batch %d: dbias of %d, head %d, row %d, key %d is %g, expected %g", seed,
             (int)e.at[0], (int)e.at[2], (int)e.at[1], (int)e.at[3], e.value, e.expected);
}

enum { BATCHES = 30, GROUP = 8 };

/** Errors of several batches add up, as the criterion is of many elements. */
static void test_cpu(void **state) {
  (void)state;
  int with_sinks = 0, with_dbias = 0;
  for (int isa = 0; isa <= (int)ap_cpu_best_isa(); ++isa)
    for (int group = 0; group < BATCHES; ++group) {
      reference_gradient e[4][REFERENCE_GRADIENTS] = {{{0}}};
      for (int i = 0; i < GROUP; ++i) {
        const int seed = group * GROUP + i;
        batch b = make_batch(seed);
        settle(&b);
        fill_batch(&b);
        ap_problem problem;
        const ap_check how = {ATTNPRESS_CPU, 1, ATTNPRESS_ONE_CALL};
        assert_ok(ap_validate_backward(&b.args, how, &problem));
        assert_ok(ap_cpu_backward_isa(&b.args, 1, (ap_cpu_isa)isa));
        if (b.args.dsinks != NULL)
          check_dsinks(&b, seed);
        with_sinks += b.args.dsinks != NULL;
        if (b.args.dbias != NULL)
          check_dbias(&b, seed);
        with_dbias += b.args.dbias != NULL;
        check_batch(&b, e[b.args.softcap > 0.0f ? 0 : b.args.q.dtype], seed);
        free_memories(&b.memory);
      }
      for (int kind = 0; kind < 4; ++kind)
        for (int g = 0; g < REFERENCE_GRADIENTS; ++g) {
          const reference_gradient *x = &e[kind][g];
          if (x->elements >= REFERENCE_MIN_ELEMENTS && !(x->error <= reference_gradient_bound(x)))
            fail_msg("batches from %d, isa %d, kind %d: %s is off by %g, where %g is allowed, at "
                     "%d %d %d %d: %g, expected %g",
                     group * GROUP, isa, kind, x->name, x->error, reference_gradient_bound(x),
                     (int)x->at[0], (int)x->at[1], (int)x->at[2], (int)x->at[3], x->value,
                     x->expected);
        }
    }
  assert_true(with_sinks > 20 && with_dbias > 20);
}

/** Gradients that are added to what is there, sinks included. */
static void test_accumulate(void **state) {
  (void)state;
  int checked = 0;
  for (int seed = 0; seed < 60; ++seed) {
    batch b = make_batch(seed);
    settle(&b);
    if (b.args.q.dtype == ATTNPRESS_FP32) {
      float first[HEADS_MAX];
      attnpress_tensor *gradients[] = {&b.args.dq, &b.args.dk, &b.args.dv};
      float *copies[3];
      fill_batch(&b);
      assert_ok(ap_cpu_backward_isa(&b.args, 1, ap_cpu_best_isa()));
      memcpy(first, b.dsinks, sizeof first);
      for (int g = 0; g < 3; ++g) {
        float *data = gradients[g]->data;
        copies[g] = malloc(bytes_of(gradients[g]) + 1);
        assert_non_null(copies[g]);
        memcpy(copies[g], data, bytes_of(gradients[g]));
        for (size_t i = 0; i < bytes_of(gradients[g]) / sizeof(float); ++i)
          data[i] = isnan(data[i]) ? data[i] : 3.0f;
      }
      b.args.accumulate = 1;
      assert_ok(ap_cpu_backward_isa(&b.args, 1, ap_cpu_best_isa()));
      for (int g = 0; g < 3; ++g) {
        const float *data = gradients[g]->data;
        for (size_t i = 0; i < bytes_of(gradients[g]) / sizeof(float); ++i) {
          if (isnan(copies[g][i])
                  ? !isnan(data[i])
                  : !(fabsf(data[i] - 3.0f - copies[g][i]) <= 1e-6f * (4.0f + fabsf(data[i]))))
            fail_msg("batch %d: gradient %d, float %zu is %g, and %g alone", seed, g, i,
                     (double)data[i], (double)copies[g][i]);
          ++checked;
        }
        free(copies[g]);
      }
      for (int64_t h = 0; b.args.dsinks != NULL && h < b.args.q.shape[2]; ++h)
        assert_true(fabsf(b.dsinks[h] - 2.0f * first[h]) <= 1e-5f * (1.0f + fabsf(first[h])));
    }
    free_memories(&b.memory);
  }
  assert_true(checked > 10000);
}

/** Contents that do not fit make a sequence empty; the others are as they were, bit for bit. */
static void test_contents(void **state) {
  (void)state;
  int checked = 0;
  for (int seed = 0; seed < 400; ++seed) {
    batch b = make_batch(seed);
    settle(&b);
    int32_t *used = (int32_t *)(uintptr_t)(seed % 2 ? b.ragged.seqused_q : b.ragged.seqused_k);
    if (used != NULL && b.count >= 2) {
      fill_batch(&b);
      assert_ok(ap_cpu_backward_isa(&b.args, 1, ap_cpu_best_isa()));
      const attnpress_tensor *dk = &b.args.dk, *dq = &b.args.dq;
      const size_t dk_bytes = bytes_of(dk), dq_bytes = bytes_of(dq);
      char *before_dk = malloc(dk_bytes + 1), *before_dq = malloc(dq_bytes + 1);
      assert_true(before_dk != NULL && before_dq != NULL);
      memcpy(before_dk, dk->data, dk_bytes);
      memcpy(before_dq, dq->data, dq_bytes);
      used[0] = seed % 4 < 2 ? -1 : 1 << 20;
      assert_ok(ap_cpu_backward_isa(&b.args, 1, ap_cpu_best_isa()));
      for (int s = 1; s < b.count; ++s) {
        const sequence_rows rows = backward_sequence_rows_of(&b.args, s);
        const attnpress_tensor *tensors[] = {dk, dq};
        const char *const before[] = {before_dk, before_dq};
        for (int t = 0; t < 2; ++t)
          for (int64_t i = 0; i < (t ? rows.queries : rows.keys); ++i)
            for (int64_t h = 0; h < tensors[t]->shape[2]; ++h, ++checked) {
              const char *now = element_at(tensors[t], t ? rows.q_batch : rows.k_batch,
                                           (t ? rows.q_begin : rows.k_begin) + i, h);
              assert_memory_equal(now, before[t] + (now - (const char *)tensors[t]->data),
                                  (size_t)dk->shape[3] *
                                      (size_t)reference_element_bytes(dk->dtype));
            }
      }
      free(before_dk);
      free(before_dq);
    }
    free_memories(&b.memory);
  }
  assert_true(checked > 1000);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static const int32_t some[8] = {0, 20, 40, 60, 80, 100, 120, 140};
static attnpress_ragged ragged;

/** Three sequences, queries and keys one after the other; the pointers are only looked at. */
static attnpress_backward_args ragged_args(void) {
  attnpress_backward_args a = ATTNPRESS_BACKWARD_ARGS_INIT;
  static float lse[1];
  a.q = attnpress_tensor_bshd((void *)0x10000, 1, 100, HEADS_Q, HDIM, ATTNPRESS_BF16);
  a.k = attnpress_tensor_bshd((void *)0x20000, 1, 300, HEADS_KV, HDIM, ATTNPRESS_BF16);
  a.v = attnpress_tensor_bshd((void *)0x30000, 1, 300, HEADS_KV, HDIM, ATTNPRESS_BF16);
  a.out = attnpress_tensor_bshd((void *)0x40000, 1, 100, HEADS_Q, HDIM, ATTNPRESS_BF16);
  a.dout = a.dq = a.out;
  a.dk = a.dv = a.k;
  a.lse = lse;
  ragged = (attnpress_ragged)ATTNPRESS_RAGGED_INIT;
  ragged.batch = 3;
  ragged.cu_seqlens_q = ragged.cu_seqlens_k = some;
  a.ragged = &ragged;
  return a;
}

static void refuse(const attnpress_backward_args *args, attnpress_status status, const char *says) {
  ap_problem problem;
  const ap_check how = {ATTNPRESS_CUDA, 1, ATTNPRESS_ONE_CALL};
  assert_int_equal(ap_validate_backward(args, how, &problem), status);
  if (strstr(attnpress_last_error(), says) == NULL)
    fail_msg("\"%s\" does not say \"%s\"", attnpress_last_error(), says);
}

#define REFUSE(change, status, says)                                                               \
  do {                                                                                             \
    attnpress_backward_args args = ragged_args();                                                  \
    change;                                                                                        \
    refuse(&args, status, says);                                                                   \
  } while (0)

static void test_refused(void **state) {
  (void)state;
  attnpress_bias bias = {sizeof bias,    (void *)0x50000, {1, 1, 100, 300},
                         {0, 0, 300, 1}, ATTNPRESS_BF16,  0};
  attnpress_dbias dbias = {sizeof dbias,   (void *)0x60000, {1, 1, 20, 30},
                           {0, 0, 300, 1}, ATTNPRESS_BF16,  0};
  attnpress_backward_args fine = ragged_args();
  ap_problem problem;
  assert_ok(
      ap_validate_backward(&fine, (ap_check){ATTNPRESS_CUDA, 1, ATTNPRESS_ONE_CALL}, &problem));
  assert_int_equal(problem.rows_q, 100);
  REFUSE(ragged.leftpad_k = some, ATTNPRESS_NOT_SUPPORTED, "ragged.leftpad_k is given");
  REFUSE((args.k.shape[0] = args.v.shape[0] = 3, ragged.cu_seqlens_k = NULL,
          args.dk.shape[0] = args.dv.shape[0] = 3, ragged.kv_batch_idx = some),
         ATTNPRESS_NOT_SUPPORTED, "ragged.kv_batch_idx is given");
  REFUSE((ragged.page_table = some, ragged.page_table_pages = 1), ATTNPRESS_NOT_SUPPORTED,
         "ragged.page_table is given");
  REFUSE((args.bias = &bias, bias.shape[2] = 99), ATTNPRESS_INVALID_ARGUMENT,
         "bias.shape[2] is 99; it must be at least 100");
  bias.shape[2] = 100;
  REFUSE(args.dbias = &dbias, ATTNPRESS_INVALID_ARGUMENT, "dbias is given and bias is NULL");
  REFUSE((args.bias = &bias, args.dbias = &dbias), ATTNPRESS_INVALID_ARGUMENT,
         "dbias.shape[2] is 20; it must be bias.shape[2], 100, or 1");
  dbias.shape[2] = 1;
  REFUSE((args.bias = &bias, args.dbias = &dbias), ATTNPRESS_INVALID_ARGUMENT,
         "dbias.shape[3] is 30; it must be bias.shape[3], 300");
  dbias.shape[3] = 300;
  dbias.shape[0] = 2;
  REFUSE((args.bias = &bias, args.dbias = &dbias), ATTNPRESS_INVALID_ARGUMENT,
         "dbias.shape[0] is 2; it must be batch, 3, or 1");
  REFUSE(args.lse = NULL, ATTNPRESS_INVALID_ARGUMENT, "lse is NULL");
  REFUSE((args.dlse = (const float *)0x1002, args.dlse_row_stride = 1), ATTNPRESS_INVALID_ARGUMENT,
         "aligned to 4 bytes");
  REFUSE((args.dlse = args.lse, args.dlse_row_stride = -1), ATTNPRESS_INVALID_ARGUMENT,
         "dlse_row_stride is -1");
  REFUSE((args.dlse = args.lse, args.dlse_stride[1] = -8), ATTNPRESS_INVALID_ARGUMENT,
         "dlse's strides");
  REFUSE((args.ragged = NULL, args.k = args.v = args.dk = args.dv = args.q,
          args.k.shape[2] = args.v.shape[2] = args.dk.shape[2] = args.dv.shape[2] = HEADS_KV,
          args.dlse_row_stride = 4),
         ATTNPRESS_INVALID_ARGUMENT, "dlse_row_stride is 4; without ragged it must be 0");
  REFUSE((ragged.batch = INT32_MAX / 100), ATTNPRESS_NOT_SUPPORTED,
         "are more than the workspace of a backward call can be laid out for");
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static void check_plan(attnpress_handle *handle, const attnpress_backward_args *args, int32_t range,
                       const char *const *stems, size_t workspace) {
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_plan *plan;
  size_t bytes;
  int count = 0;
  options.target = "sm_90a";
  options.range = range;
  assert_ok(attnpress_plan_backward(handle, args, &options, &plan));
  for (; stems[count] != NULL; ++count) {
    attnpress_info info = ATTNPRESS_INFO_INIT;
    assert_ok(attnpress_plan_launch(plan, count, &info));
    assert_string_equal(info.stem, stems[count]);
  }
  assert_int_equal(attnpress_plan_launch_count(plan), count);
  assert_ok(attnpress_plan_workspace_bytes(plan, &bytes));
  assert_int_equal(bytes, workspace);
  attnpress_plan_destroy(plan);
}

/** Compute capability 9.0 runs its own kernels except for dQ by itself, and the workspace is of the rows that
 * are there. */
static void test_plans(void **state) {
  (void)state;
  static const char *const fused[] = {"flash_fwd_schedule_hdim8_bf16_sm80",
                                      "flash_bwd_delta_hdim64_bf16_ragged_sm80",
                                      "flash_bwd_hdim64_bf16_causal_ragged_sm90",
                                      "flash_bwd_convert_hdim64_bf16_ragged_sm80", NULL};
  static const char *const paired[] = {
      "flash_fwd_schedule_hdim8_bf16_sm80",           "flash_bwd_delta_hdim64_bf16_ragged_sm80",
      "flash_bwd_sinks_hdim8_fp16_ragged_sm80",       "flash_bwd_dq_hdim64_bf16_causal_ragged_sm80",
      "flash_bwd_dkv_hdim64_bf16_causal_ragged_sm90", NULL};
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  attnpress_handle *handle;
  attnpress_sinks sinks = ATTNPRESS_SINKS_INIT;
  float dsinks[HEADS_Q];
  options.backend = ATTNPRESS_COMPILE_ONLY;
  assert_ok(attnpress_create(&handle, &options));
  attnpress_backward_args args = ragged_args();
  attnpress_tensor *all[] = {&args.q,    &args.k,  &args.v,  &args.out,
                             &args.dout, &args.dq, &args.dk, &args.dv};
  for (int i = 0; i < 8; ++i)
    *all[i] = attnpress_tensor_bshd((void *)0x10000, 1, all[i]->shape[1], all[i]->shape[2], 64,
                                    ATTNPRESS_BF16);
  args.mask = ATTNPRESS_CAUSAL;
  /* 100 rows of three sequences: 3 * 128 rows of two floats, 9 row tiles of dq; counters of shares; key
   * blocks that are taken; an order of rows and one of keys. */
  const size_t values = (size_t)HEADS_Q * 384 * 8, sum = (size_t)HEADS_Q * 9 * 16 * 64 * 4;
  const size_t order = 256 + 256, taken = 256, shares = 256;
  check_plan(handle, &args, ATTNPRESS_ONE_CALL, fused, values + sum + shares + taken + 2 * order);
  /* A range has room for parts of groups: of three key blocks of 128 keys a sequence, each query head's. */
  const size_t parts = (size_t)(3 * 3 * HEADS_Q) * 128 * 2 * 64 * 4;
  check_plan(handle, &args, ATTNPRESS_UP_TO, fused,
             values + sum + shares + taken + parts + 2 * order);
  sinks.data = dsinks;
  sinks.dtype = ATTNPRESS_FP32;
  args.sinks = &sinks;
  args.dsinks = dsinks;
  args.deterministic = 1;
  /* bwd_dq has as many rows as bwd_delta, or others. */
  check_plan(handle, &args, ATTNPRESS_ONE_CALL, paired, values + 3 * order);
  /* The gradient by a bias has no order. */
  static const char *const biased[] = {"flash_fwd_schedule_hdim8_bf16_sm80",
                                       "flash_bwd_delta_hdim64_bf16_ragged_sm80",
                                       "flash_bwd_dbias_hdim64_bf16_causal_biasfp32_ragged_sm80",
                                       "flash_bwd_hdim64_bf16_causal_biasfp32_ragged_sm90",
                                       "flash_bwd_convert_hdim64_bf16_ragged_sm80",
                                       NULL};
  attnpress_bias bias = {sizeof bias,    (void *)0x50000, {1, 1, 100, 304},
                         {0, 0, 304, 1}, ATTNPRESS_FP32,  0};
  attnpress_dbias dbias = {sizeof dbias,   (void *)0x60000, {1, 1, 100, 304},
                           {0, 0, 304, 1}, ATTNPRESS_FP32,  0};
  args.sinks = NULL;
  args.dsinks = NULL;
  args.deterministic = 0;
  args.bias = &bias;
  args.dbias = &dbias;
  check_plan(handle, &args, ATTNPRESS_ONE_CALL, biased, values + sum + 2 * order);
  check_plan(handle, &args, ATTNPRESS_UP_TO, biased, values + sum + parts + 2 * order);
  attnpress_destroy(handle);
}

/** Where no sequence has more keys than bwd has in a block, there is no sum of dq, and nobody to convert it;
 * a range has what any of its lengths needs. */
static void test_plans_of_one_key_block(void **state) {
  (void)state;
  static const char *const summed[] = {
      "flash_fwd_schedule_hdim8_bf16_sm80", "flash_bwd_delta_hdim128_bf16_ragged_sm80",
      "flash_bwd_hdim128_bf16_ragged_sm90", "flash_bwd_convert_hdim128_bf16_ragged_sm80", NULL};
  static const char *const any[] = {
      summed[0], summed[1], summed[2], "flash_bwd_hdim128_bf16_ragged_runs_sm90", summed[3], NULL};
  static const char *const direct[] = {summed[0], summed[1], summed[2], NULL};
  static const char *const without_keys[] = {summed[0], summed[1], NULL};
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  attnpress_handle *handle;
  options.backend = ATTNPRESS_COMPILE_ONLY;
  assert_ok(attnpress_create(&handle, &options));
  attnpress_backward_args args = ragged_args();
  attnpress_tensor *all[] = {&args.q,    &args.k,  &args.v,  &args.out,
                             &args.dout, &args.dq, &args.dk, &args.dv};
  for (int i = 0; i < 8; ++i)
    *all[i] = attnpress_tensor_bshd((void *)0x10000, 1, all[i]->shape[1], all[i]->shape[2], 128,
                                    ATTNPRESS_BF16);
  const size_t values = (size_t)HEADS_Q * 384 * 8, sum = (size_t)HEADS_Q * 9 * 16 * 128 * 4;
  const size_t order = 256 + 256, taken = 256;
  /* A range has room for parts of groups: of 3 sequences' key blocks, each query head's. */
  const size_t part = (size_t)128 * 2 * 128 * 4, parts = 3 * HEADS_Q * part;
  for (int range = 0; range < 2; ++range) {
    const int32_t how = range ? ATTNPRESS_UP_TO : ATTNPRESS_ONE_CALL;
    ragged.max_seqlen_k = 129;
    check_plan(handle, &args, how, range ? any : summed,
               values + sum + taken + 2 * range * parts + 2 * order);
    for (int keys = 128; keys > 0; keys -= 127) {
      ragged.max_seqlen_k = keys;
      check_plan(handle, &args, how, range ? summed : direct,
                 values + taken + range * parts + 2 * order);
    }
  }
  ragged.max_seqlen_k = 0;
  args.k.shape[1] = args.v.shape[1] = args.dk.shape[1] = args.dv.shape[1] = 0;
  check_plan(handle, &args, ATTNPRESS_ONE_CALL, without_keys, values + order);
  /* any number of keys */
  check_plan(handle, &args, ATTNPRESS_UP_TO, any,
             values + sum + taken + 5 * 132 * part + 2 * order);
  attnpress_destroy(handle);
}

/** Behind the tensor maps of sm90's kernels. */
static attnpress_bwd_ragged_args given_to(const fake_launch *launch) {
  const int sm90 = strstr(launch->symbol, "_sm90") != NULL;
  attnpress_bwd_sm90_ragged_args given;
  memcpy(sm90 ? (void *)&given : (void *)&given.batch, launch->args,
         sm90 ? sizeof given : sizeof given.batch);
  return given.batch;
}

/** Two sequences in the workspace: each order once, a grid that has room for all of its units, and what
 * each kernel is told of it. */
static void check_launch(const fake_launch *launch, const attnpress_schedule_order *order, int keys,
                         unsigned blocks) {
  const attnpress_bwd_ragged_args given = given_to(launch);
  assert_int_equal(order->by_keys, keys);
  assert_int_equal(order->heads, keys ? HEADS_KV : HEADS_Q);
  assert_int_equal(order->sharing, keys ? 1 : HEADS_Q / HEADS_KV);
  assert_ptr_equal(given.first_unit, order->first_unit);
  assert_ptr_equal(given.sequences, order->sequences);
  assert_int_equal(launch->grid, blocks * (unsigned)order->heads);
}

static void test_launches(void **state) {
  (void)state;
  enum { WORKSPACE = 0x1000000 };
  attnpress_handle *handle = make_handle();
  attnpress_backward_args args = ragged_args();
  attnpress_plan *plan;
  attnpress_fwd_schedule_args schedule;
  assert_ok(attnpress_plan_backward(handle, &args, NULL, &plan));
  assert_ok(attnpress_plan_workspace_bytes(plan, &args.workspace_bytes));
  args.workspace = (void *)(uintptr_t)WORKSPACE;
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  assert_int_equal(cuda->launches, 4);
  assert_string_equal(cuda->launch[0].symbol, "flash_fwd_schedule_hdim8_bf16_sm80");
  assert_int_equal(cuda->launch[0].grid, 2);
  memcpy(&schedule, cuda->launch[0].args, sizeof schedule);
  assert_null(schedule.ticket);
  assert_int_equal(schedule.batch, 3);
  assert_int_equal(schedule.seqlen_q, 100);
  assert_int_equal(schedule.ragged.most_keys, 300);
  assert_ptr_equal(schedule.ragged.cu_seqlens_k, some);
  const attnpress_schedule_order *rows = &schedule.order[0], *keys = &schedule.order[1];
  /* 100 rows and 300 keys of three sequences. */
  const unsigned row_blocks = (unsigned)(100 + 3 * (rows->positions - 1)) / rows->positions;
  const unsigned key_blocks = (unsigned)(300 + 3 * (keys->positions - 1)) / keys->positions;
  check_launch(&cuda->launch[1], rows, 0, row_blocks);
  check_launch(&cuda->launch[2], keys, 1, key_blocks);
  check_launch(&cuda->launch[3], rows, 0, row_blocks);
  const char *end = (const char *)(keys->sequences + 3);
  assert_true(end > (char *)args.workspace && end <= (char *)args.workspace + args.workspace_bytes);
  assert_int_equal(keys->walk_bytes, HEADS_Q / HEADS_KV * (2 * 2 * HDIM + 4 * HDIM));

  /* Other rows of k have another grid. */
  attnpress_backward_args more = args;
  more.k.shape[1] = more.v.shape[1] = more.dk.shape[1] = more.dv.shape[1] = 400;
  ragged.max_seqlen_k = 300;
  assert_int_equal(attnpress_plan_run(plan, &more, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("rows of k is 400 and was 300");
  attnpress_plan_destroy(plan);

  /* No longer than the bounds: as many blocks as so many of the longest have. */
  ragged.max_seqlen_q = ragged.max_seqlen_k = 20;
  args.deterministic = 1;
  args.workspace_bytes += 4096;
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 8);
  assert_string_equal(cuda->launch[4].symbol, "flash_fwd_schedule_hdim8_bf16_sm80");
  memcpy(&schedule, cuda->launch[4].args, sizeof schedule);
  assert_int_equal(cuda->launch[7].grid, 3 * HEADS_KV);
  assert_int_equal(cuda->launch[5].grid, 3 * HEADS_Q);
  check_launch(&cuda->launch[7], &schedule.order[cuda->launch[4].grid - 1], 1, 3);

  /* The same orders, of three parts. */
  ragged.batch = 2500;
  assert_ok(attnpress_plan_backward(handle, &args, NULL, &plan));
  attnpress_info info = ATTNPRESS_INFO_INIT;
  assert_ok(attnpress_plan_launch(plan, 0, &info));
  assert_string_equal(info.stem, "flash_fwd_schedule_hdim8_bf16_sm80");
  assert_int_equal(info.grid, 3 * cuda->launch[4].grid);
  attnpress_plan_destroy(plan);
  ragged.batch = 3;

  /* A tile of the gradient by a bias a thread block: it is larger than the bounds, and a sum over
   * sequences and rows. */
  attnpress_bias bias = {sizeof bias,    (void *)0x50000, {1, 1, 31, 300},
                         {0, 0, 300, 1}, ATTNPRESS_FP32,  0};
  attnpress_dbias dbias = {sizeof dbias,       (void *)0x60000, {1, HEADS_Q, 1, 300},
                           {9, 300, 12345, 1}, ATTNPRESS_FP16,  0};
  attnpress_bwd_dbias_ragged_args given;
  args.bias = &bias;
  args.dbias = &dbias;
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 13);
  assert_non_null(strstr(cuda->launch[10].symbol, "flash_bwd_dbias_"));
  memcpy(&given, cuda->launch[10].args, sizeof given);
  const unsigned dbias_blocks = (unsigned)given.dbias.bwd.blocks;
  assert_int_equal(cuda->launch[10].grid, dbias_blocks * HEADS_Q);
  assert_true(dbias_blocks >= 300 / 128 && given.rows == 1 && given.keys == 300);
  assert_ptr_equal(given.dbias.dbias, dbias.data);
  assert_int_equal(given.dbias.dbias_head_stride, 300);
  assert_int_equal(given.dbias.dbias_batch_stride, 0);
  assert_int_equal(given.dbias.walk_batches, 3);
  assert_int_equal(given.dbias.walk_heads, 1);
  assert_int_equal(given.dbias.walk_row_blocks, 1); /* of 20 queries at most */
  assert_ptr_equal(given.ragged.cu_seqlens_k, some);
  args.bias = NULL;
  args.dbias = NULL;

  /* Nothing but sums of the sinks, which need no order; keys alone. */
  attnpress_sinks sinks = ATTNPRESS_SINKS_INIT;
  float values[HEADS_Q];
  sinks.data = args.dsinks = values;
  sinks.dtype = ATTNPRESS_FP32;
  args.sinks = &sinks;
  args.q.shape[1] = args.out.shape[1] = args.dout.shape[1] = args.dq.shape[1] = 0;
  ragged.max_seqlen_q = 0;
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 16);
  assert_int_equal(cuda->launch[13].grid, 1);
  assert_string_equal(cuda->launch[14].symbol, "flash_bwd_sinks_hdim8_fp16_ragged_sm80");
  check_launch(&cuda->launch[15],
               &((attnpress_fwd_schedule_args *)(void *)cuda->launch[13].args)->order[0], 1, 3);

  /* One sequence without rows, though the bound has some. */
  args.sinks = NULL;
  args.dsinks = NULL;
  ragged.batch = 1;
  ragged.max_seqlen_q = 20;
  assert_ok(attnpress_backward(handle, &args, NULL));
  attnpress_destroy(handle);
}

/** What kernels are told of sequences of one key block, whatever the others' lengths are. */
static void test_launches_of_one_key_block(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_backward_args args = ragged_args();
  attnpress_bwd_ragged_args given;
  attnpress_fwd_schedule_args schedule;
  args.workspace = (void *)(uintptr_t)0x1000000;
  args.workspace_bytes = 1 << 24;
  assert_ok(attnpress_backward(handle, &args, NULL));
  memcpy(&schedule, cuda->launch[0].args, sizeof schedule);
  const int32_t block = schedule.order[1].positions;
  assert_true(block >= 16 && block < 300);
  assert_int_equal(cuda->launches, 4);
  for (int i = 1; i < 4; ++i) {
    given = given_to(&cuda->launch[i]);
    assert_int_equal(given.direct_keys, block);
    assert_non_null(given.bwd.dq_sum);
    assert_int_equal(given.bwd.dq_sum_quads, 4 * HDIM);
  }
  ragged.max_seqlen_k = block;
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 7);
  for (int i = 5; i < 7; ++i) {
    given = given_to(&cuda->launch[i]);
    assert_int_equal(given.direct_keys, block);
    assert_null(given.bwd.dq_sum);
    assert_int_equal(given.bwd.dq_sum_quads, 4 * HDIM); /* from which bwd_delta knows a row of dq */
  }
  args.deterministic = 1;
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 11);
  given = given_to(&cuda->launch[8]);
  assert_int_equal(given.direct_keys, 0);
  assert_int_equal(given.bwd.dq_sum_quads, 0);
  attnpress_destroy(handle);
}

/** Few key blocks of long walks: thread blocks share each key head's query heads, and what they leave is
 * added up by two more launches, whose units are key blocks of key heads. */
static void test_shared_groups(void **state) {
  (void)state;
  enum { HEADS = 16, KEY_HEADS = 2, ROWS = 1000, COLUMNS = 128, KEYS = 128, PART = 32 };
  attnpress_handle *handle = make_handle();
  attnpress_backward_args args = ragged_args();
  attnpress_fwd_schedule_args schedule;
  args.q = attnpress_tensor_bshd((void *)0x10000, 1, ROWS, HEADS, COLUMNS, ATTNPRESS_BF16);
  args.k = attnpress_tensor_bshd((void *)0x20000, 1, ROWS, KEY_HEADS, COLUMNS, ATTNPRESS_BF16);
  args.out = args.dout = args.dq = args.q;
  args.v = args.dk = args.k;
  args.dv = attnpress_tensor_bshd((void *)0x30000, 1, ROWS, KEY_HEADS, COLUMNS, ATTNPRESS_BF16);
  ragged.max_seqlen_q = ragged.max_seqlen_k = 900;
  args.workspace = (void *)(uintptr_t)0x1000000;
  args.workspace_bytes = SIZE_MAX / 2;
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 6);
  memcpy(&schedule, cuda->launch[0].args, sizeof schedule);
  const attnpress_schedule_order *keys = &schedule.order[1];
  const attnpress_bwd_ragged_args bwd = given_to(&cuda->launch[2]), dq = given_to(&cuda->launch[3]);
  const int blocks = (ROWS + 3 * (KEYS - 1)) / KEYS, parts = bwd.bwd.group_parts;
  assert_int_equal(parts, 8);                  /* a query head each */
  assert_int_equal(cuda->launch[2].grid, 132); /* which take units: more than SMs */
  assert_true(keys->by_keys && keys->positions == KEYS && keys->heads == KEY_HEADS * parts);
  assert_int_equal(keys->walk_bytes, HEADS / KEY_HEADS * (2 * 2 + 4) * COLUMNS / parts);
  assert_int_equal(bwd.bwd.key_tiles, blocks * KEYS / 16);
  assert_true(dq.bwd.dq == args.dq.data && dq.bwd.sum_parts <= 1);
  const size_t part_floats = (size_t)KEY_HEADS * (size_t)(blocks * KEYS) * COLUMNS;
  assert_true(bwd.bwd.dv_sum >= bwd.bwd.dk_sum + (size_t)parts * part_floats);
  assert_true(keys->first_unit >= (int32_t *)(bwd.bwd.dv_sum + (size_t)parts * part_floats));
  for (int is_dv = 0; is_dv < 2; ++is_dv) {
    const fake_launch *launch = &cuda->launch[4 + is_dv];
    const attnpress_bwd_ragged_args sums = given_to(launch);
    assert_string_equal(launch->symbol, "flash_bwd_convert_hdim128_bf16_ragged_sm80");
    assert_int_equal(launch->grid, blocks * KEY_HEADS * (KEYS / PART));
    assert_ptr_equal(sums.first_unit, bwd.first_unit);
    assert_ptr_equal(sums.sequences, bwd.sequences);
    assert_ptr_equal(sums.bwd.dq_sum, is_dv ? bwd.bwd.dv_sum : bwd.bwd.dk_sum);
    assert_ptr_equal(sums.bwd.dq, is_dv ? args.dv.data : args.dk.data);
    assert_true(sums.bwd.sum_parts == parts && sums.bwd.blocks == KEYS);
    assert_true(sums.bwd.heads_q == KEY_HEADS && sums.bwd.taken == NULL);
    assert_true(sums.bwd.scale == (is_dv ? 1.0f : bwd.bwd.scale));
  }
  /* A window's walks are short; and two kernels have no sum of dq. */
  attnpress_window window = ATTNPRESS_WINDOW_INIT;
  window.left = 200;
  args.window = &window;
  args.mask = ATTNPRESS_WINDOW;
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 10);
  args.window = NULL;
  args.mask = ATTNPRESS_FULL;
  args.deterministic = 1;
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 14);
  attnpress_destroy(handle);
}

/** Many key blocks are not divided, and a range has room for whatever is. */
static void test_room_of_shared_groups(void **state) {
  (void)state;
  enum { HEADS = 16, KEY_HEADS = 2, LONGEST = 6000 };
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  attnpress_plan_options how = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_handle *handle;
  options.backend = ATTNPRESS_COMPILE_ONLY;
  assert_ok(attnpress_create(&handle, &options));
  how.target = "sm_90a";
  size_t room = 0;
  int shared = 0;
  for (int longest = LONGEST; longest > 0; longest -= 117)
    for (int batch = longest == LONGEST ? 12 : 1; batch <= 12; batch += 3) {
      attnpress_backward_args args = ragged_args();
      attnpress_plan *plan;
      size_t bytes;
      const int rows = longest * (batch + 3) / 4;
      attnpress_tensor *all[] = {&args.q, &args.out, &args.dout, &args.dq,
                                 &args.k, &args.v,   &args.dk,   &args.dv};
      for (int i = 0; i < 8; ++i)
        *all[i] = attnpress_tensor_bshd((void *)0x10000, 1, rows, i < 4 ? HEADS : KEY_HEADS, 128,
                                        ATTNPRESS_BF16);
      ragged.batch = batch;
      ragged.max_seqlen_q = ragged.max_seqlen_k = longest;
      how.range = longest == LONGEST ? ATTNPRESS_UP_TO : ATTNPRESS_ONE_CALL;
      assert_ok(attnpress_plan_backward(handle, &args, &how, &plan));
      assert_ok(attnpress_plan_workspace_bytes(plan, &bytes));
      shared += attnpress_plan_launch_count(plan) == 6;
      attnpress_plan_destroy(plan);
      room = room == 0 ? bytes : room;
      assert_true(bytes <= room);
    }
  assert_true(shared > 20);
  attnpress_destroy(handle);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cpu),
      cmocka_unit_test(test_accumulate),
      cmocka_unit_test(test_contents),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_plans),
      cmocka_unit_test(test_plans_of_one_key_block),
      TEST(test_launches),
      TEST(test_launches_of_one_key_block),
      TEST(test_shared_groups),
      cmocka_unit_test(test_room_of_shared_groups),
  };
  return cmocka_run_group_tests(tests, set_up_attention, tear_down_group);
}
