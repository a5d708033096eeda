/* Vectors of floats, the same names for every instruction set. A source that is built for one of
 * them includes vector_plain.h, vector_avx2.h or vector_avx512.h, which define
 *
 *   AP_TARGET              attribute that lets a function use the instruction set
 *   AP_INLINE              the same for a function that is always inlined
 *   vec, ivec, uvec        LANES floats, int32_t, uint32_t (GCC vector types)
 *   v_fma, v_max, v_sum    a * b + c; max(a, b), b where one is a NaN; the sum of the lanes
 *   v_mul_wide             the upper and the lower 32 bits of a * b
 *   load_fp16, load_bf16   LANES 16-bit values as floats; load_*_8: eight, into memory
 *   store_fp16_8, _bf16_8  eight floats, rounded to nearest even
 *
 * and then include this file, which builds the rest on those: v_load, v_store, v_set1, v_select,
 * v_exp2, v_tanh, load_8, store_8, load_vector. */
#include <stdint.h>
#include <string.h>

#include "attnpress/attnpress.h"

#if defined(__clang__)
#define AP_UNROLL _Pragma("unroll")
#else
#define AP_UNROLL _Pragma("GCC unroll 16")
#endif

AP_INLINE vec v_load(const float *p) {
  vec r;
  memcpy(&r, p, sizeof r);
  return r;
}

AP_INLINE void v_store(float *p, vec a) {
  memcpy(p, &a, sizeof a);
}

AP_INLINE vec v_set1(float a) {
  return a - (vec){0}; /* keeps the sign of zero */
}

/* mask lanes are 0 or -1 */
AP_INLINE vec v_select(ivec mask, vec a, vec b) {
  return (vec)((mask & (ivec)a) | (~mask & (ivec)b));
}

/* 2^x for x <= 0 and NaN, relative error below 2e-7; 0 below -126. A polynomial on [-1/2, 1/2]
 * (minimax, degree 6) times a power of two that is assembled from bits. */
AP_INLINE vec v_exp2(vec x) {
  const vec round_bias = v_set1(12582912.0f); /* 1.5 * 2^23: the sum's low bits are round(x) */
  const ivec exponent_bias = (ivec)round_bias - 127;
  vec clamped = v_max(v_set1(-126.0f), x); /* in this order a NaN stays one */
  vec biased = clamped + round_bias;
  vec f = clamped - (biased - round_bias);
  vec p = v_set1(1.53456960e-4f);
  p = v_fma(p, f, v_set1(1.34000636e-3f));
  p = v_fma(p, f, v_set1(9.61849000e-3f));
  p = v_fma(p, f, v_set1(5.55032827e-2f));
  p = v_fma(p, f, v_set1(2.40226462e-1f));
  p = v_fma(p, f, v_set1(6.93147182e-1f));
  p = v_fma(p, f, v_set1(1.0f));
  p *= (vec)(((ivec)biased - exponent_bias) << 23);
  return v_select((ivec)(x < v_set1(-126.0f)), (vec){0}, p);
}

/* Any number, relative error below 2e-7; NaN stays NaN. Near 0 the polynomial of Cephes (Moshier,
 * tanhf.c), elsewhere by the exponential. */
AP_INLINE vec v_tanh(vec x) {
  const ivec sign = (ivec)x & INT32_MIN;
  const vec size = (vec)((ivec)x & INT32_MAX), square = x * x;
  vec p = v_set1(-5.70498872745e-3f);
  p = v_fma(p, square, v_set1(2.06390887954e-2f));
  p = v_fma(p, square, v_set1(-5.37397155531e-2f));
  p = v_fma(p, square, v_set1(1.33314422036e-1f));
  p = v_fma(p, square, v_set1(-3.33332819422e-1f));
  const vec near_0 = v_fma(p * square, x, x);
  const vec e = v_exp2(size * v_set1(-2.0f * 1.44269504f));
  const vec one = v_set1(1.0f), far = (one - e) / (one + e);
  return v_select((ivec)(size < v_set1(0.625f)), near_0, (vec)((ivec)far | sign));
}

/* ---- Values of any dtype ---- */

/* Eight elements at a time. */
AP_INLINE void load_8(float *to, const void *from, int64_t at, int dtype) {
  if (dtype == ATTNPRESS_FP32)
    memcpy(to, (const float *)from + at, 8 * sizeof(float));
  else if (dtype == ATTNPRESS_FP16)
    load_fp16_8(to, (const uint16_t *)from + at);
  else
    load_bf16_8(to, (const uint16_t *)from + at);
}

AP_INLINE void store_8(void *to, int64_t at, const float *from, int dtype) {
  if (dtype == ATTNPRESS_FP32)
    memcpy((float *)to + at, from, 8 * sizeof(float));
  else if (dtype == ATTNPRESS_FP16)
    store_fp16_8((uint16_t *)to + at, from);
  else
    store_bf16_8((uint16_t *)to + at, from);
}

AP_INLINE vec load_vector(const void *from, int64_t at, int dtype) {
  if (dtype == ATTNPRESS_FP32)
    return v_load((const float *)from + at);
  if (dtype == ATTNPRESS_FP16)
    return load_fp16((const uint16_t *)from + at);
  return load_bf16((const uint16_t *)from + at);
}
