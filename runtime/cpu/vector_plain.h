/* Vectors of four floats in C, for every processor. vector.inc.h says what is here. */
#pragma once
#include "cpu/half.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#define AP_TARGET
#define AP_INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(16)));
typedef int32_t ivec __attribute__((vector_size(16)));
typedef uint32_t uvec __attribute__((vector_size(16)));

enum { LANES = 4 };

static inline vec v_fma(vec a, vec b, vec c) {
#if defined(__aarch64__)
  return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}

/* b where either is a NaN */
static inline vec v_max(vec a, vec b) {
  ivec greater = (ivec)(a > b);
  return (vec)((greater & (ivec)a) | (~greater & (ivec)b));
}

static inline void v_mul_wide(uvec a, uint32_t b, uvec *high, uvec *low) {
  typedef uint64_t wide __attribute__((vector_size(16)));
  const wide even = ((wide)a & UINT32_MAX) * b, odd = ((wide)a >> 32) * b;
  *high = (uvec)(even >> 32 | (odd & ~(uint64_t)UINT32_MAX));
  *low = (uvec)((even & UINT32_MAX) | odd << 32);
}

static inline float v_sum(vec a) {
  return (a[0] + a[2]) + (a[1] + a[3]);
}

/* Four 16-bit values, widened. */
static inline ivec load_16(const uint16_t *from) {
  typedef uint16_t narrow __attribute__((vector_size(8)));
  narrow h;
  memcpy(&h, from, sizeof h);
  return __builtin_convertvector(h, ivec);
}

/* ap_float_from_fp16() of four values, without a branch. */
static inline vec load_fp16(const uint16_t *from) {
  const ivec bits = load_16(from), sign = (bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  const ivec bias = (ivec){0} + (112 << 23), special = (ivec)(magnitude >= 0x7c00);
  const ivec normal = (magnitude << 13) + bias + (special & bias);
  const ivec subnormal = (ivec)(__builtin_convertvector(magnitude, vec) * 0x1p-24f);
  const ivec is_subnormal = (ivec)(magnitude < 0x400);
  return (vec)(sign | (is_subnormal & subnormal) | (~is_subnormal & normal));
}

static inline vec load_bf16(const uint16_t *from) {
  return (vec)(load_16(from) << 16);
}

static inline void load_fp16_8(float *to, const uint16_t *from) {
  const vec low = load_fp16(from), high = load_fp16(from + 4);
  memcpy(to, &low, sizeof low);
  memcpy(to + 4, &high, sizeof high);
}

static inline void load_bf16_8(float *to, const uint16_t *from) {
  const vec low = load_bf16(from), high = load_bf16(from + 4);
  memcpy(to, &low, sizeof low);
  memcpy(to + 4, &high, sizeof high);
}

static inline void store_fp16_8(uint16_t *to, const float *from) {
  for (int i = 0; i < 8; ++i)
    to[i] = ap_fp16_from_float(from[i]);
}

static inline void store_bf16_8(uint16_t *to, const float *from) {
  for (int i = 0; i < 8; ++i)
    to[i] = ap_bf16_from_float(from[i]);
}

#include "cpu/vector.inc.h"
