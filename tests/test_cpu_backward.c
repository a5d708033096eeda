/* The CPU backend's gradients against float64: every instruction set that the processor has, fp16,
 * bf16 and fp32, every mask and what else is done to scores, in three memory layouts. Tensors lie in buffers of NaN, so that a
 * read beside one shows in the result and a write beside it in the buffer. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../tools/reference_backward.h"
#include "../tools/score_options.h"
#include "attention/cpu_backward.h"
#include "attention/defaults.h"
#include "cpu/element.h"

enum { BSHD, BHSD, GAPS, LAYOUTS };
static const char *const dtype_names[] = {"", "fp16", "bf16", "fp32"};

enum { GUARD = 64 }; /* elements before and behind each tensor */
enum { Q, K, V, OUT, DOUT, DQ, DK, DV, LSE, DLSE, BUFFERS };

typedef struct shape {
  int batch, heads_q, heads_kv, seqlen_q, seqlen_k, hdim, hdim_v;
} shape;

typedef struct problem {
  attnpress_backward_args args;
  void *buffers[BUFFERS];
  size_t bytes[BUFFERS];
} problem;

static void *poisoned(problem *p, int slot, size_t bytes) {
  p->bytes[slot] = (bytes + 63) / 64 * 64;
  p->buffers[slot] = aligned_alloc(64, p->bytes[slot]);
  assert_non_null(p->buffers[slot]);
  return memset(p->buffers[slot], 0xff, p->bytes[slot]);
}

static attnpress_tensor make_tensor(problem *p, int slot, int64_t batch, int64_t seqlen,
                                    int64_t heads, int64_t hdim, int dtype, int layout) {
  attnpress_tensor t = layout == BHSD
                           ? attnpress_tensor_bhsd(NULL, batch, seqlen, heads, hdim, dtype)
                           : attnpress_tensor_bshd(NULL, batch, seqlen, heads, hdim, dtype);
  if (layout == GAPS) { /* of another size in each tensor */
    t.stride[2] = hdim + 8 * (slot + 1);
    t.stride[1] = heads * t.stride[2] + 24;
    t.stride[0] = seqlen * t.stride[1] + 40;
  }
  const size_t size = (size_t)reference_element_bytes(dtype);
  char *data = poisoned(p, slot, ((size_t)reference_span(&t) + 2 * GUARD) * size);
  t.data = data + GUARD * size;
  return t;
}

static float *make_rows(problem *p, int slot, const shape *s, int layout, int64_t stride[2]) {
  const int64_t gap = layout == GAPS ? slot : 0, head = s->seqlen_q + gap;
  const int64_t batch = s->heads_q * head + gap;
  float *data = poisoned(p, slot, ((size_t)(s->batch * batch) + 2 * GUARD) * sizeof(float));
  if (layout == GAPS) {
    stride[0] = batch;
    stride[1] = head;
  }
  return data + GUARD;
}

/* Tensors of poison. */
static problem describe_problem(const shape *s, int dtype, int mask, int layout) {
  problem p = {.args = ATTNPRESS_BACKWARD_ARGS_INIT};
  attnpress_backward_args *a = &p.args;
  attnpress_tensor *const of_q[] = {&a->q, &a->dq}, *const of_k[] = {&a->k, &a->dk};
  attnpress_tensor *const of_v[] = {&a->v, &a->dv}, *const of_out[] = {&a->out, &a->dout};
  static const int slots[4][2] = {{Q, DQ}, {K, DK}, {V, DV}, {OUT, DOUT}};
  for (int i = 0; i < 2; ++i) {
    *of_q[i] =
        make_tensor(&p, slots[0][i], s->batch, s->seqlen_q, s->heads_q, s->hdim, dtype, layout);
    *of_k[i] =
        make_tensor(&p, slots[1][i], s->batch, s->seqlen_k, s->heads_kv, s->hdim, dtype, layout);
    *of_v[i] =
        make_tensor(&p, slots[2][i], s->batch, s->seqlen_k, s->heads_kv, s->hdim_v, dtype, layout);
    *of_out[i] =
        make_tensor(&p, slots[3][i], s->batch, s->seqlen_q, s->heads_q, s->hdim_v, dtype, layout);
  }
  a->mask = mask;
  a->lse = make_rows(&p, LSE, s, layout, a->lse_stride);
  return p;
}

/* Random inputs, and what the forward pass makes of them. */
static void fill_problem(problem *p, const shape *s, int layout, int with_dlse) {
  attnpress_backward_args *a = &p->args;
  reference_fill_normal(&a->q, 1);
  reference_fill_normal(&a->k, 2);
  reference_fill_normal(&a->v, 3);
  reference_fill_normal(&a->dout, 4);
  assert_int_equal(reference_fill_forward(a), 0);
  if (with_dlse) {
    float *dlse = make_rows(p, DLSE, s, layout, a->dlse_stride);
    for (size_t i = 0; i < p->bytes[DLSE] / sizeof(float) - 2 * GUARD; ++i)
      dlse[i] = (float)((int)(i * 7 % 11) - 5) * 0.125f;
    a->dlse = dlse;
  }
}

static problem make_problem(const shape *s, int dtype, int mask, int layout, int with_dlse) {
  problem p = describe_problem(s, dtype, mask, layout);
  fill_problem(&p, s, layout, with_dlse);
  return p;
}

static void free_problem(problem *p) {
  for (int i = 0; i < BUFFERS; ++i)
    free(p->buffers[i]);
}

/* What of a gradient's buffer is no element still holds the poison. */
static void check_surroundings(const problem *p, int slot, const attnpress_tensor *t) {
  const size_t size = (size_t)reference_element_bytes(t->dtype);
  unsigned char *copy = malloc(p->bytes[slot]);
  assert_non_null(copy);
  memcpy(copy, p->buffers[slot], p->bytes[slot]);
  for (int64_t b = 0; b < t->shape[0]; ++b)
    for (int64_t i = 0; i < t->shape[1]; ++i)
      for (int64_t h = 0; h < t->shape[2]; ++h)
        memset(copy +
                   (size_t)(GUARD + b * t->stride[0] + i * t->stride[1] + h * t->stride[2]) * size,
               0xff, (size_t)t->shape[3] * size);
  for (size_t i = 0; i < p->bytes[slot]; ++i)
    if (copy[i] != 0xff)
      fail_msg("byte %zu of %zu beside tensor %d was written", i, p->bytes[slot], slot);
  free(copy);
}

static void check_result(const problem *p, const float *const *before, const char *what) {
  reference_gradient errors[REFERENCE_GRADIENTS] = {0};
  assert_int_equal(reference_check_backward(&p->args, before, errors), 0);
  const reference_gradient *worst = reference_worst_gradient(errors);
  if (worst != NULL)
    fail_msg(
        "%s: %s is off by %.3g, where %.3g is allowed: batch %d, row %d, head %d, column %d is "
        "%.6g, expected %.6g",
        what, worst->name, worst->error, reference_gradient_bound(worst), (int)worst->at[0],
        (int)worst->at[1], (int)worst->at[2], (int)worst->at[3], worst->value, worst->expected);
  check_surroundings(p, DQ, &p->args.dq);
  check_surroundings(p, DK, &p->args.dk);
  check_surroundings(p, DV, &p->args.dv);
}

static const shape shapes[] = {
    {1, 2, 2, 130, 130, 64, 64}, {2, 4, 2, 65, 200, 72, 72}, {1, 6, 1, 63, 64, 128, 128},
    {3, 2, 1, 1, 77, 40, 40},    {1, 2, 2, 200, 65, 96, 96}, {2, 1, 1, 64, 129, 8, 8},
    {1, 2, 1, 33, 70, 192, 128}, {1, 2, 2, 40, 40, 64, 128}, {1, 1, 1, 70, 30, 256, 256},
    {1, 1, 1, 20, 90, 512, 512}, {1, 71, 1, 9, 17, 64, 64},  {1, 1, 1, 1, 1, 16, 16},
    {1, 2, 1, 0, 40, 64, 64},    {1, 2, 1, 40, 0, 64, 64},   {0, 2, 1, 40, 40, 64, 64},
    {1, 2, 1, 33, 70, 24, 264},  {1, 2, 1, 33, 70, 264, 64}, {1, 4, 2, 40, 40, 72, 40},
};

static void test_gradients(void **state) {
  (void)state;
  int row = 0;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype)
      for (int mask = ATTNPRESS_FULL; mask <= ATTNPRESS_CAUSAL; ++mask, ++row)
        for (int isa = AP_CPU_PLAIN; isa <= (int)ap_cpu_best_isa(); ++isa) {
          char what[128];
          problem p = make_problem(&shapes[i], dtype, mask, row % LAYOUTS, row % 2);
          snprintf(what, sizeof what, "shape %zu, %s, mask %d, layout %d, isa %d", i,
                   dtype_names[dtype], mask, row % LAYOUTS, isa);
          assert_int_equal(ap_cpu_backward_isa(&p.args, 2, (ap_cpu_isa)isa), ATTNPRESS_OK);
          check_result(&p, NULL, what);
          free_problem(&p);
        }
}

/* ---- Scores ---------------------------------------------------------------------------------- */

static const score_options all_scores[] = {
    {.windowed = 1, .left = 20, .right = 3},
    {.windowed = 1, .left = 70, .right = 0, .top_left = 1},
    {.windowed = 1, .left = -1, .right = 5, .chunk = 33},
    {.windowed = 1, .left = 2, .right = -1},
    {.softcap = 2.0f},
    {.alibi = 1},
    {.bias = ATTNPRESS_FP16},
    {.bias = ATTNPRESS_BF16, .softcap = 5.0f},
    {.bias = ATTNPRESS_FP32, .alibi = 1},
    {.sinks = 1},
    {.dropout = 0.3f},
    {.windowed = 1, .left = 40, .right = 9, .dropout = 0.6f, .softcap = 1.0f, .sinks = 1},
    {.bias = ATTNPRESS_FP32, .alibi = 1, .softcap = 20.0f, .dropout = 0.1f, .sinks = 1},
};

/* The call's groups; `scores` holds them and what they point to. */
static void add_scores(problem *p, score_data *scores, const score_options *o, int causal) {
  attnpress_forward_args forward = ap_forward_of(&p->args);
  *scores = (score_data){0};
  score_data_describe(scores, o, causal, 77, &forward);
  assert_int_equal(score_data_allocate(scores, 5), 0);
  ap_put_scores(&p->args, &forward);
}

enum { HEADS_MAX = 8 };

static void check_dsinks(const problem *p, const float *dsinks, float before, const char *what) {
  reference_gradient error = {0};
  for (int64_t h = 0; h < p->args.q.shape[2]; ++h)
    assert_int_equal(reference_check_dsinks(&p->args, h, before, &error), 0);
  if (!(error.error <= reference_gradient_bound(&error)))
    fail_msg("%s: dsinks of head %d is %.6g, expected %.6g, where %.3g is allowed", what,
             (int)error.at[2], error.value, error.expected, reference_gradient_bound(&error));
  assert_true(isnan(dsinks[-1]) && isnan(dsinks[p->args.q.shape[2]]));
}

static void run_scores(const shape *s, const score_options *o, int dtype, int layout, int isa,
                       int turn, const char *what) {
  problem p = describe_problem(s, dtype, ATTNPRESS_FULL, layout);
  score_data scores;
  float dsinks[HEADS_MAX + 2];
  add_scores(&p, &scores, o, turn % 3 == 0);
  fill_problem(&p, s, layout, turn % 2);
  memset(dsinks, 0xff, sizeof dsinks);
  if (o->sinks)
    p.args.dsinks = dsinks + 1;
  assert_int_equal(ap_cpu_backward_isa(&p.args, 2, (ap_cpu_isa)isa), ATTNPRESS_OK);
  check_result(&p, NULL, what);
  if (o->sinks)
    check_dsinks(&p, dsinks + 1, 0.0f, what);
  free_problem(&p);
  score_data_free(&scores);
}

static void test_scores(void **state) {
  (void)state;
  static const shape score_shapes[] = {
      {1, 4, 2, 130, 150, 64, 64}, {2, 2, 1, 90, 71, 40, 40}, {1, 3, 3, 65, 129, 192, 128},
      {2, 2, 2, 30, 0, 16, 16},    {2, 3, 1, 0, 20, 16, 16},
  };
  int turn = 0;
  for (size_t i = 0; i < sizeof score_shapes / sizeof *score_shapes; ++i)
    for (size_t o = 0; o < sizeof all_scores / sizeof *all_scores; ++o, ++turn)
      for (int isa = AP_CPU_PLAIN; isa <= (int)ap_cpu_best_isa(); ++isa) {
        const int dtype = ATTNPRESS_FP16 + turn % 3, layout = turn / 3 % LAYOUTS;
        char what[128];
        snprintf(what, sizeof what, "shape %zu, scores %zu, %s, layout %d, isa %d", i, o,
                 dtype_names[dtype], layout, isa);
        run_scores(&score_shapes[i], &all_scores[o], dtype, layout, isa, turn, what);
      }
}

/* A bias that broadcasts, keys of which are masked, some for whole rows; slopes of batches. */
static void test_broadcasts(void **state) {
  (void)state;
  const shape s = {2, 4, 2, 40, 70, 64, 64};
  enum { ROWS = 40, KEYS = 70, GAP = 3 };
  float values[2 * (KEYS + GAP) * ROWS], slopes[2 * 9];
  problem p = describe_problem(&s, ATTNPRESS_FP32, ATTNPRESS_CAUSAL, GAPS);
  attnpress_bias bias = ATTNPRESS_BIAS_INIT;
  attnpress_alibi alibi = ATTNPRESS_ALIBI_INIT;
  for (int i = 0; i < (int)(sizeof values / sizeof *values); ++i)
    values[i] = i % 5 == 2 || i / (KEYS + GAP) == 7 ? -INFINITY : (float)(i % 17) * 0.25f - 2.0f;
  for (int i = 0; i < 2 * 9; ++i)
    slopes[i] = (float)(i + 1) * 0.01f;
  bias.data = values;
  bias.dtype = ATTNPRESS_FP32;
  memcpy(bias.shape, (int64_t[]){2, 1, ROWS, KEYS}, sizeof bias.shape);
  memcpy(bias.stride, (int64_t[]){(KEYS + GAP) * ROWS, 12345, KEYS + GAP, 1}, sizeof bias.stride);
  alibi.slopes = slopes;
  alibi.stride[0] = 9;
  alibi.stride[1] = 2;
  p.args.bias = &bias;
  p.args.alibi = &alibi;
  fill_problem(&p, &s, GAPS, 1);
  assert_int_equal(ap_cpu_backward(&p.args, 2), ATTNPRESS_OK);
  check_result(&p, NULL, "a bias that broadcasts");
  free_problem(&p);
}

/* The gradient by a bias, of every dtype, summed over what it has one of, added to what is there or
 * not, with softcap and dropout. */
static void test_dbias(void **state) {
  (void)state;
  const shape s = {2, 4, 2, 70, 90, 40, 40};
  enum { BATCH = 2, HEADS = 4, ROWS = 70, KEYS = 90, SIZE = BATCH * HEADS * ROWS * (KEYS + 1) };
  static float values[BATCH * HEADS * ROWS * KEYS], room[SIZE], before[SIZE];
  for (int turn = 0; turn < 24; ++turn) {
    problem p =
        describe_problem(&s, ATTNPRESS_FP32, turn % 2 ? ATTNPRESS_CAUSAL : ATTNPRESS_FULL, BSHD);
    attnpress_bias bias = ATTNPRESS_BIAS_INIT;
    attnpress_dbias dbias = ATTNPRESS_DBIAS_INIT;
    attnpress_dropout dropout = ATTNPRESS_DROPOUT_INIT;
    for (int i = 0; i < (int)(sizeof values / sizeof *values); ++i)
      values[i] = i % 5 == 2 ? -INFINITY : (float)(i % 17) * 0.25f - 2.0f;
    bias.data = values;
    bias.dtype = ATTNPRESS_FP32;
    memcpy(bias.shape, (int64_t[]){BATCH, HEADS, ROWS, KEYS}, sizeof bias.shape);
    memcpy(bias.stride, (int64_t[]){HEADS * ROWS * KEYS, ROWS * KEYS, KEYS, 1}, sizeof bias.stride);
    dbias.data = room;
    dbias.dtype = ATTNPRESS_FP16 + turn % 3;
    int64_t extent = KEYS + 1;
    memcpy(dbias.shape, (int64_t[]){BATCH, HEADS, ROWS, KEYS}, sizeof dbias.shape);
    dbias.stride[3] = 1;
    for (int i = 2; i >= 0; --i) {
      dbias.shape[i] = turn >> i & 1 ? 1 : dbias.shape[i];
      dbias.stride[i] = dbias.shape[i] == 1 ? 12345 : extent;
      extent *= dbias.shape[i];
    }
    dropout.probability = 0.2f;
    p.args.bias = &bias;
    p.args.dbias = &dbias;
    p.args.softcap = turn % 4 == 2 ? 3.0f : 0.0f;
    p.args.dropout = turn % 5 == 1 ? &dropout : NULL;
    p.args.accumulate = turn >= 16;
    fill_problem(&p, &s, BSHD, turn % 3 == 1);
    int64_t count = 0;
    memset(room, 0xff, sizeof room);
    for (int64_t b = 0; b < dbias.shape[0] && p.args.accumulate; ++b)
      for (int64_t h = 0; h < dbias.shape[1]; ++h)
        for (int64_t i = 0; i < dbias.shape[2]; ++i)
          for (int64_t j = 0; j < KEYS; ++j) {
            const int64_t at = (dbias.shape[0] > 1 ? b * dbias.stride[0] : 0) +
                               (dbias.shape[1] > 1 ? h * dbias.stride[1] : 0) +
                               (dbias.shape[2] > 1 ? i * dbias.stride[2] : 0) + j;
            ap_store_element(room, at, (float)(count % 13) * 0.5f - 3.0f, dbias.dtype);
            before[count++] = ap_load_element(room, at, dbias.dtype);
          }
    const int isa = turn % ((int)ap_cpu_best_isa() + 1);
    assert_int_equal(ap_cpu_backward_isa(&p.args, 2, (ap_cpu_isa)isa), ATTNPRESS_OK);
    reference_gradient error = {0};
    for (int64_t b = 0; b < dbias.shape[0]; ++b)
      for (int64_t h = 0; h < dbias.shape[1]; ++h)
        assert_int_equal(
            reference_check_dbias(&p.args, b, h, p.args.accumulate ? before : NULL, &error), 0);
    if (!(error.error <= reference_gradient_bound(&error)))
      fail_msg("turn %d: dbias of batch %d, head %d, row %d, key %d is %.6g, expected %.6g", turn,
               (int)error.at[0], (int)error.at[2], (int)error.at[1], (int)error.at[3], error.value,
               error.expected);
    free_problem(&p);
  }
}

/* Through the public function: the gradients are added to what is there. */
static void test_accumulate(void **state) {
  (void)state;
  const shape s = {1, 4, 2, 50, 70, 64, 64};
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.backend = ATTNPRESS_CPU;
  attnpress_handle *handle;
  assert_int_equal(attnpress_create(&handle, &options), ATTNPRESS_OK);
  for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype) {
    problem p = make_problem(&s, dtype, ATTNPRESS_CAUSAL, GAPS, 0);
    const attnpress_tensor *written[] = {&p.args.dq, &p.args.dk, &p.args.dv};
    float *before[REFERENCE_GRADIENTS];
    for (int i = 0; i < REFERENCE_GRADIENTS; ++i) {
      const attnpress_tensor *t = written[i];
      reference_fill_normal(t, 50 + (uint64_t)i);
      float *to = before[i] =
          malloc((size_t)(t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3]) * sizeof(float));
      assert_non_null(to);
      for (int64_t b = 0; b < t->shape[0]; ++b)
        for (int64_t r = 0; r < t->shape[1]; ++r)
          for (int64_t h = 0; h < t->shape[2]; ++h)
            for (int64_t c = 0; c < t->shape[3]; ++c)
              *to++ = reference_load(t, b, r, h, c);
    }
    p.args.accumulate = 1;
    assert_int_equal(attnpress_backward(handle, &p.args, NULL), ATTNPRESS_OK);
    check_result(&p, (const float *const *)before, dtype_names[dtype]);
    for (int i = 0; i < REFERENCE_GRADIENTS; ++i)
      free(before[i]);
    free_problem(&p);
  }
  attnpress_destroy(handle);
}

/* The result does not depend on the number of threads. */
static void test_threads(void **state) {
  (void)state;
  const shape s = {2, 4, 2, 200, 150, 96, 96};
  problem one = make_problem(&s, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, BSHD, 1);
  problem many = make_problem(&s, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, BSHD, 1);
  assert_int_equal(ap_cpu_backward(&one.args, 1), ATTNPRESS_OK);
  assert_int_equal(ap_cpu_backward(&many.args, 7), ATTNPRESS_OK);
  for (int slot = DQ; slot <= DV; ++slot)
    assert_memory_equal(one.buffers[slot], many.buffers[slot], one.bytes[slot]);
  free_problem(&one);
  free_problem(&many);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gradients),  cmocka_unit_test(test_scores),
      cmocka_unit_test(test_broadcasts), cmocka_unit_test(test_accumulate),
      cmocka_unit_test(test_threads),    cmocka_unit_test(test_dbias),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
