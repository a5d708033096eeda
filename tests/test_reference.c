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
      cmocka_unit_test(test_random_inputs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
