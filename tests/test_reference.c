/* The float64 reference and the criterion: against values worked out by hand, and on outputs that
 * are wrong. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../tools/reference.h"

enum { HDIM = 8 };

/* Three queries, two keys, values that differ: the softmax of two scores. */
static void test_two_keys(void **state) {
  (void)state;
  float q[3 * HDIM] = {0}, k[2 * HDIM] = {0}, v[2 * HDIM] = {0}, out[3 * HDIM] = {0};
  attnpress_forward_args a = ATTNPRESS_FORWARD_ARGS_INIT;
  a.q = attnpress_tensor_bshd(q, 1, 3, 1, HDIM, ATTNPRESS_FP32);
  a.k = attnpress_tensor_bshd(k, 1, 2, 1, HDIM, ATTNPRESS_FP32);
  a.v = attnpress_tensor_bshd(v, 1, 2, 1, HDIM, ATTNPRESS_FP32);
  a.out = attnpress_tensor_bshd(out, 1, 3, 1, HDIM, ATTNPRESS_FP32);
  a.scale = 0.5f;
  q[2 * HDIM] = 2.0f; /* of row 2 */
  k[HDIM] = 3.0f;     /* of key 1 */
  v[0] = 1.0f;
  v[HDIM] = 5.0f;
  reference r;
  assert_int_equal(reference_init(&r, &a), 0);
  /* Row 2: scores 0 and 2 * 3 * 0.5 = 3. */
  reference_row(&r, 0, 2, 0);
  const double p = exp(3.0) / (1.0 + exp(3.0));
  assert_true(fabs(r.out[0] - (1.0 - p + 5.0 * p)) < 1e-14);
  assert_true(fabs(r.lse - log(1.0 + exp(3.0))) < 1e-14);
  assert_true(fabs((double)r.low[0] - r.out[0]) < 1e-6);
  assert_true(r.out[1] == 0.0);
  /* Row 0: equal scores. */
  reference_row(&r, 0, 0, 0);
  assert_true(fabs(r.out[0] - 3.0) < 1e-14 && fabs(r.lse - log(2.0)) < 1e-14);
  reference_free(&r);
  /* Causal, bottom-right: row 0 of three sees none of two keys, row 1 the first, row 2 both. */
  a.mask = ATTNPRESS_CAUSAL;
  assert_int_equal(reference_init(&r, &a), 0);
  reference_row(&r, 0, 0, 0);
  assert_true(r.out[0] == 0.0 && r.low[0] == 0.0f && r.lse == -INFINITY);
  reference_row(&r, 0, 1, 0);
  assert_true(r.out[0] == 1.0 && r.lse == 0.0);
  reference_row(&r, 0, 2, 0);
  assert_true(fabs(r.out[0] - (1.0 - p + 5.0 * p)) < 1e-14);
  reference_free(&r);
}

/* Query heads 0 to 2 read key head 0, 3 to 5 key head 1, in the second batch as in the first. */
static void test_groups_and_batches(void **state) {
  (void)state;
  float q[2 * 6 * HDIM] = {0}, k[2 * 2 * HDIM] = {0}, v[2 * 2 * HDIM] = {0}, out[2 * 6 * HDIM];
  attnpress_forward_args a = ATTNPRESS_FORWARD_ARGS_INIT;
  a.q = attnpress_tensor_bhsd(q, 2, 1, 6, HDIM, ATTNPRESS_FP32);
  a.k = attnpress_tensor_bhsd(k, 2, 1, 2, HDIM, ATTNPRESS_FP32);
  a.v = attnpress_tensor_bhsd(v, 2, 1, 2, HDIM, ATTNPRESS_FP32);
  a.out = attnpress_tensor_bhsd(out, 2, 1, 6, HDIM, ATTNPRESS_FP32);
  for (int i = 0; i < 4; ++i)
    v[i * HDIM + 7] = (float)(i + 1);
  reference r;
  assert_int_equal(reference_init(&r, &a), 0);
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 6; ++h) {
      reference_row(&r, b, 0, h);
      assert_true(r.out[7] == 2 * b + h / 3 + 1);
    }
  reference_free(&r);
}

/* Rounding: score, P and output of one row, in bf16 (8 bits of precision). */
static void test_low_precision(void **state) {
  (void)state;
  assert_true(reference_round(1.0f + 0x1p-9f, ATTNPRESS_BF16) == 1.0f);
  assert_true(reference_round(1.0f + 0x1.8p-7f, ATTNPRESS_BF16) == 1.0f + 0x1p-6f);
  assert_true(reference_round(1.0f + 0x1p-12f, ATTNPRESS_FP16) == 1.0f);
  assert_true(reference_round(0.1f, ATTNPRESS_FP32) == 0.1f);
  uint16_t q[HDIM] = {0x3f80}, k[3 * HDIM] = {0}, v[3 * HDIM] = {0x3f80}, out[HDIM];
  attnpress_forward_args a = ATTNPRESS_FORWARD_ARGS_INIT;
  a.q = attnpress_tensor_bshd(q, 1, 1, 1, HDIM, ATTNPRESS_BF16);
  a.k = attnpress_tensor_bshd(k, 1, 3, 1, HDIM, ATTNPRESS_BF16);
  a.v = attnpress_tensor_bshd(v, 1, 3, 1, HDIM, ATTNPRESS_BF16);
  a.out = attnpress_tensor_bshd(out, 1, 1, 1, HDIM, ATTNPRESS_BF16);
  reference r;
  assert_int_equal(reference_init(&r, &a), 0);
  reference_row(&r, 0, 0, 0); /* one of three equal keys has value 1 */
  assert_true(r.out[0] == 1.0 / 3.0);
  assert_true(r.low[0] == reference_round(1.0f / 3.0f, ATTNPRESS_BF16));
  reference_free(&r);
}

/* ---- What is done to scores, one key at a time: rows of five queries and four keys whose products
 * are 0, so that the scores are what the features make of them ---- */

enum { QUERIES = 5, KEYS = 4 };

typedef struct flat {
  float q[QUERIES * 2 * HDIM], k[KEYS * 2 * HDIM], v[KEYS * 2 * HDIM], out[QUERIES * 2 * HDIM];
  attnpress_forward_args args;
} flat;

/* Two heads; column 0 of V is 10^key, so that the output tells the probabilities. */
static void make_flat(flat *f) {
  memset(f, 0, sizeof *f);
  attnpress_forward_args *a = &f->args;
  *a = (attnpress_forward_args)ATTNPRESS_FORWARD_ARGS_INIT;
  a->q = attnpress_tensor_bshd(f->q, 1, QUERIES, 2, HDIM, ATTNPRESS_FP32);
  a->k = attnpress_tensor_bshd(f->k, 1, KEYS, 2, HDIM, ATTNPRESS_FP32);
  a->v = attnpress_tensor_bshd(f->v, 1, KEYS, 2, HDIM, ATTNPRESS_FP32);
  a->out = attnpress_tensor_bshd(f->out, 1, QUERIES, 2, HDIM, ATTNPRESS_FP32);
  for (int j = 0; j < KEYS; ++j)
    for (int h = 0; h < 2; ++h)
      f->v[(j * 2 + h) * HDIM] = powf(10.0f, (float)j);
}

/* The row of these scores (-inf: not seen), with a sink (-inf: none). */
static void check_row(const flat *f, int row, int head, const double *score, double sink) {
  double sum = exp(sink), out = 0.0;
  for (int j = 0; j < KEYS; ++j) {
    sum += exp(score[j]);
    out += exp(score[j]) * pow(10.0, j);
  }
  reference r;
  assert_int_equal(reference_init(&r, &f->args), 0);
  reference_row(&r, 0, row, head);
  const double expected = sum > 0.0 ? out / sum : 0.0;
  assert_true(fabs(r.out[0] - expected) <= 1e-10 * fabs(expected));
  assert_true(fabs((double)r.low[0] - expected) <= 1e-5 * fabs(expected));
  assert_true(sum > 0.0 ? fabs(r.lse - log(sum)) <= 1e-12 : r.lse == -INFINITY);
  reference_free(&r);
}

#define NO (-INFINITY) /* a key that is not seen */

static void test_windows(void **state) {
  (void)state;
  static const struct {
    attnpress_window window;
    int row;
    double score[KEYS];
  } cases[] = {
      /* Query i stands at key i - 1. */
      {{.left = 1, .right = 0}, 0, {NO, NO, NO, NO}},
      {{.left = 1, .right = 0}, 1, {0, NO, NO, NO}},
      {{.left = 1, .right = 0}, 2, {0, 0, NO, NO}},
      {{.left = 1, .right = 0}, 3, {NO, 0, 0, NO}},
      {{.left = 0, .right = 0}, 4, {NO, NO, NO, 0}},
      {{.left = 0, .right = 1}, 0, {0, NO, NO, NO}},
      {{.left = -1, .right = 1}, 2, {0, 0, 0, NO}},
      {{.left = 1, .right = -1}, 4, {NO, NO, 0, 0}},
      {{.left = -1, .right = -1}, 3, {0, 0, 0, 0}},
      {{.left = 1, .right = 0, .top_left = 1}, 0, {0, NO, NO, NO}},
      {{.left = 1, .right = 0, .top_left = 1}, 4, {NO, NO, NO, 0}},
      {{.left = 0, .right = 0, .top_left = 1}, 4, {NO, NO, NO, NO}},
      {{.left = -1, .right = -1, .chunk = 3}, 0, {NO, NO, NO, NO}},
      {{.left = -1, .right = -1, .chunk = 3}, 1, {0, 0, 0, NO}},
      {{.left = -1, .right = 0, .chunk = 3}, 2, {0, 0, NO, NO}},
      {{.left = -1, .right = -1, .chunk = 3}, 4, {NO, NO, NO, 0}},
      {{.left = -1, .right = 0, .chunk = 3, .top_left = 1}, 2, {0, 0, 0, NO}},
      {{.left = 1, .right = -1, .chunk = 3, .top_left = 1}, 2, {NO, 0, 0, NO}},
  };
  flat f;
  make_flat(&f);
  f.args.mask = ATTNPRESS_WINDOW;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    attnpress_window window = cases[i].window;
    window.struct_size = sizeof window;
    f.args.window = &window;
    check_row(&f, cases[i].row, 1, cases[i].score, NO);
  }
}

static void test_what_is_done_to_scores(void **state) {
  (void)state;
  flat f;
  make_flat(&f);
  /* <q, k> = 4 for key 2 of head 0, and the scale is 1/2. */
  f.q[3 * 2 * HDIM] = 2.0f;
  f.k[2 * 2 * HDIM] = 2.0f;
  f.args.scale = 0.5f;
  check_row(&f, 3, 0, (double[]){0, 0, 2, 0}, NO);
  f.args.softcap = 3.0f;
  const double capped = 3.0 * tanh(2.0 / 3.0);
  check_row(&f, 3, 0, (double[]){0, 0, capped, 0}, NO);
  /* ALiBi: query 3 stands at key 2, head 1's slope is 0.25 and head 0's 0.5. */
  const float slopes[2] = {0.5f, 0.25f};
  attnpress_alibi alibi = ATTNPRESS_ALIBI_INIT;
  alibi.slopes = slopes;
  f.args.alibi = &alibi;
  check_row(&f, 3, 1, (double[]){-0.5, -0.25, 0, -0.25}, NO);
  check_row(&f, 3, 0, (double[]){-1.0, -0.5, capped, -0.5}, NO);
  /* Bias: not capped; here that of head h, query i and key j is at 100 h + 10 i + 2 j. */
  float values[200] = {0};
  attnpress_bias bias = ATTNPRESS_BIAS_INIT;
  bias.data = values;
  bias.dtype = ATTNPRESS_FP32;
  memcpy(bias.shape, (int64_t[]){1, 2, QUERIES, KEYS}, sizeof bias.shape);
  memcpy(bias.stride, (int64_t[]){INT64_MAX, 100, 10, 2}, sizeof bias.stride);
  values[30] = 1.5f;
  values[34] = 7.0f;
  values[130] = -INFINITY;
  f.args.bias = &bias;
  check_row(&f, 3, 0, (double[]){0.5, -0.5, capped + 7.0, -0.5}, NO);
  check_row(&f, 3, 1, (double[]){NO, -0.25, 0, -0.25}, NO);
  /* Sinks: neither scaled nor capped. */
  const float of_heads[2] = {5.0f, NO};
  attnpress_sinks sinks = ATTNPRESS_SINKS_INIT;
  sinks.data = of_heads;
  sinks.dtype = ATTNPRESS_FP32;
  f.args.sinks = &sinks;
  check_row(&f, 3, 0, (double[]){0.5, -0.5, capped + 7.0, -0.5}, 5.0);
  check_row(&f, 3, 1, (double[]){NO, -0.25, 0, -0.25}, NO);
  /* A row that the bias masks whole, with a sink and without. */
  for (int j = 0; j < KEYS; ++j)
    values[30 + 2 * j] = values[130 + 2 * j] = -INFINITY;
  check_row(&f, 3, 0, (double[]){NO, NO, NO, NO}, 5.0);
  check_row(&f, 3, 1, (double[]){NO, NO, NO, NO}, NO);
}

/* The probabilities that are left are multiplied, after the sum; lse does not change. */
static void test_dropout(void **state) {
  (void)state;
  flat f;
  make_flat(&f);
  attnpress_dropout dropout = ATTNPRESS_DROPOUT_INIT;
  dropout.probability = 0.75f;
  dropout.seed = 5;
  f.args.dropout = &dropout;
  reference r;
  assert_int_equal(reference_init(&r, &f.args), 0);
  int kept = 0;
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < QUERIES; ++i) {
      double expected = 0.0;
      for (int j = 0; j < KEYS; ++j)
        if (ap_dropout_keeps(&r.dropout, h, i, j)) {
          expected += pow(10.0, j);
          ++kept;
        }
      reference_row(&r, 0, i, h);
      assert_true(fabs(r.out[0] - expected) <= 1e-10 * expected);
      assert_true(fabs((double)r.low[0] - expected) <= 1e-5 * expected);
      assert_true(fabs(r.lse - log(4.0)) < 1e-14);
    }
  assert_true(kept > 0 && kept < 2 * QUERIES * KEYS);
  reference_free(&r);
}

/* NaN in K and V at keys that are not seen, and in V where the bias is -inf, is not read. */
static void test_nan_that_is_not_seen(void **state) {
  (void)state;
  flat f;
  make_flat(&f);
  for (int c = 0; c < 2 * HDIM; ++c)
    f.k[c] = f.v[c] = f.v[2 * HDIM + c] = NAN; /* key 0, and V of key 1 */
  const float values[KEYS] = {0, -INFINITY, 0, 0};
  attnpress_bias bias = ATTNPRESS_BIAS_INIT;
  bias.data = values;
  bias.dtype = ATTNPRESS_FP32;
  memcpy(bias.shape, (int64_t[]){1, 1, QUERIES, KEYS}, sizeof bias.shape);
  memcpy(bias.stride, (int64_t[]){0, 0, 0, 1}, sizeof bias.stride);
  attnpress_window window = ATTNPRESS_WINDOW_INIT;
  window.left = 2;
  f.args.bias = &bias;
  f.args.window = &window;
  f.args.mask = ATTNPRESS_WINDOW;
  check_row(&f, 4, 0, (double[]){NO, NO, 0, 0}, NO);
}

/* With a softcap the bounds are wider, and not without. */
static void test_bounds(void **state) {
  (void)state;
  reference_error e = {.low = 1e-3, .out = 2.5e-3, .lse = 5e-4, .elements = 1};
  assert_false(reference_holds(&e));
  e.capped = 1;
  assert_true(reference_holds(&e));
  e.lse = 1e-3;
  assert_false(reference_holds(&e));
  e.lse = 0.0;
  e.out = 3.1e-3;
  assert_false(reference_holds(&e));
}

/* A correct output holds; each of these faults does not. */
static void test_faults_are_seen(void **state) {
  (void)state;
  enum { BATCH = 8, ROWS = 16, HEADS = 2, ELEMENTS = BATCH * ROWS * HEADS * 32 };
  static uint16_t q[ELEMENTS], k[ELEMENTS], v[ELEMENTS], out[ELEMENTS];
  static float lse[BATCH * HEADS * ROWS];
  attnpress_forward_args a = ATTNPRESS_FORWARD_ARGS_INIT;
  a.q = attnpress_tensor_bhsd(q, BATCH, ROWS, HEADS, 32, ATTNPRESS_FP16);
  a.k = attnpress_tensor_bshd(k, BATCH, ROWS, HEADS, 32, ATTNPRESS_FP16);
  a.v = attnpress_tensor_bshd(v, BATCH, ROWS, HEADS, 32, ATTNPRESS_FP16);
  a.out = attnpress_tensor_bshd(out, BATCH, ROWS, HEADS, 32, ATTNPRESS_FP16);
  a.lse = lse;
  reference_fill_normal(&a.q, 1);
  reference_fill_normal(&a.k, 2);
  reference_fill_normal(&a.v, 3);
  reference r;
  assert_int_equal(reference_init(&r, &a), 0);
  for (int b = 0; b < BATCH; ++b) /* the low precision result passes for a correct one */
    for (int h = 0; h < HEADS; ++h)
      for (int i = 0; i < ROWS; ++i) {
        reference_row(&r, b, i, h);
        lse[(b * HEADS + h) * ROWS + i] = (float)r.lse;
        for (int c = 0; c < 32; ++c) {
          const uint32_t at = (uint32_t)(((b * ROWS + i) * HEADS + h) * 32 + c);
          for (uint32_t bits = 0; bits < 0x10000; ++bits) {
            out[at] = (uint16_t)bits;
            if (reference_load(&a.out, b, i, h, c) == r.low[c])
              break;
          }
        }
      }
  reference_error good = {0};
  reference_check(&r, &good);
  assert_int_equal(good.elements, ELEMENTS);
  assert_true(good.elements >= REFERENCE_MIN_ELEMENTS && good.out > 0.0 && good.out == good.low);
  assert_true(reference_holds(&good));

  static const uint16_t wrong[] = {0x7e00 /* NaN */, 0x7c00 /* infinity */, 0xffff /* poison */,
                                   0x4200 /* 3 */};
  const int64_t last = ELEMENTS - 1;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    const uint16_t kept = out[last];
    reference_error e = {0};
    out[last] = wrong[i];
    reference_check(&r, &e);
    out[last] = kept;
    assert_false(reference_holds(&e));
    assert_true(e.at[0] == BATCH - 1 && e.at[1] == ROWS - 1 && e.at[2] == HEADS - 1 &&
                e.at[3] == 31);
  }
  const float wrong_lse[] = {NAN, INFINITY, -INFINITY, lse[5] + 1e-3f};
  for (size_t i = 0; i < sizeof wrong_lse / sizeof *wrong_lse; ++i) {
    const float kept = lse[5];
    reference_error e = {0};
    lse[5] = wrong_lse[i];
    reference_check(&r, &e);
    lse[5] = kept;
    assert_false(reference_holds(&e));
    assert_true(e.lse_at[0] == 0 && e.lse_at[1] == 5 && e.lse_at[2] == 0);
  }
  reference_free(&r);
}

/* The same tensor whatever the layout; mean 0, variance 1. */
static void test_random_inputs(void **state) {
  (void)state;
  enum { N = 4 * 50 * 3 * 64 };
  static float x[N], y[N];
  attnpress_tensor a = attnpress_tensor_bshd(x, 4, 50, 3, 64, ATTNPRESS_FP32);
  attnpress_tensor b = attnpress_tensor_bhsd(y, 4, 50, 3, 64, ATTNPRESS_FP32);
  double sum = 0.0, squares = 0.0;
  reference_fill_normal(&a, 7);
  reference_fill_normal(&b, 7);
  assert_int_equal(reference_span(&a), N);
  for (int i = 0; i < N; ++i) {
    const int c = i % 64, h = i / 64 % 3, row = i / 64 / 3 % 50, batch = i / 64 / 3 / 50;
    assert_true(reference_load(&a, batch, row, h, c) == reference_load(&b, batch, row, h, c));
    sum += (double)x[i];
    squares += (double)x[i] * (double)x[i];
  }
  assert_true(fabs(sum / N) < 0.02 && fabs(squares / N - 1.0) < 0.02);
  reference_fill_normal(&b, 8);
  assert_true(x[0] != y[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_two_keys),      cmocka_unit_test(test_groups_and_batches),
      cmocka_unit_test(test_low_precision), cmocka_unit_test(test_faults_are_seen),
      cmocka_unit_test(test_random_inputs), cmocka_unit_test(test_windows),
      cmocka_unit_test(test_dropout),       cmocka_unit_test(test_what_is_done_to_scores),
      cmocka_unit_test(test_bounds),        cmocka_unit_test(test_nan_that_is_not_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
