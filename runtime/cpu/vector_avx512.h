/* Vectors of sixteen floats: AVX-512 F, BW, DQ and VL, for x86-64 alone. vector.inc.h says what is
 * here. */
#pragma once
#include <immintrin.h>

#include "cpu/half.h"

#define AP_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#define AP_INLINE static inline __attribute__((always_inline)) AP_TARGET

typedef float vec __attribute__((vector_size(64)));
typedef int32_t ivec __attribute__((vector_size(64)));
typedef uint32_t uvec __attribute__((vector_size(64)));
enum { LANES = 16 };

AP_INLINE vec v_fma(vec a, vec b, vec c) {
  return _mm512_fmadd_ps(a, b, c);
}

AP_INLINE vec v_max(vec a, vec b) {
  return _mm512_max_ps(a, b); /* b where either is a NaN */
}

AP_INLINE float v_sum(vec a) {
  return _mm512_reduce_add_ps(a);
}

AP_INLINE void v_mul_wide(uvec a, uint32_t b, uvec *high, uvec *low) {
  const __m512i factor = _mm512_set1_epi64(b), even = _mm512_mul_epu32((__m512i)a, factor);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)a, 32), factor);
  *high = (uvec)_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
  *low = (uvec)_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
}

AP_INLINE vec load_fp16(const uint16_t *from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}

AP_INLINE vec load_bf16(const uint16_t *from) {
  __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

AP_INLINE void load_fp16_8(float *to, const uint16_t *from) {
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from)));
}

AP_INLINE void load_bf16_8(float *to, const uint16_t *from) {
  __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from));
  _mm256_storeu_ps(to, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
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
