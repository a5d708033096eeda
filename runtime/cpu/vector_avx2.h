/* Vectors of eight floats: AVX2, FMA and F16C, for x86-64 alone. vector.inc.h says what is here. */
#pragma once
#include <immintrin.h>

#include "cpu/half.h"

#define AP_TARGET __attribute__((target("avx2,fma,f16c")))
#define AP_INLINE static inline __attribute__((always_inline)) AP_TARGET

typedef float vec __attribute__((vector_size(32)));
typedef int32_t ivec __attribute__((vector_size(32)));
typedef uint32_t uvec __attribute__((vector_size(32)));
enum { LANES = 8 };

AP_INLINE vec v_fma(vec a, vec b, vec c) {
  return _mm256_fmadd_ps(a, b, c);
}

AP_INLINE vec v_max(vec a, vec b) {
  return _mm256_max_ps(a, b); /* b where either is a NaN */
}

AP_INLINE float v_sum(vec a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

AP_INLINE void v_mul_wide(uvec a, uint32_t b, uvec *high, uvec *low) {
  const __m256i factor = _mm256_set1_epi64x(b), even = _mm256_mul_epu32((__m256i)a, factor);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), factor);
  *high = (uvec)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
  *low = (uvec)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

AP_INLINE vec load_fp16(const uint16_t *from) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}

AP_INLINE vec load_bf16(const uint16_t *from) {
  __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

AP_INLINE void load_fp16_8(float *to, const uint16_t *from) {
  _mm256_storeu_ps(to, load_fp16(from));
}

AP_INLINE void load_bf16_8(float *to, const uint16_t *from) {
  _mm256_storeu_ps(to, load_bf16(from));
}

AP_INLINE void store_fp16_8(uint16_t *to, const float *from) {
  _mm_storeu_si128((__m128i *)to,
                   _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}

AP_INLINE void store_bf16_8(uint16_t *to, const float *from) {
  for (int i = 0; i < 8; ++i)
    to[i] = ap_bf16_from_float(from[i]);
}

#include "cpu/vector.inc.h"
