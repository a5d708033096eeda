/* The CPU kernel in C with four-lane vectors, for every processor. */
#include "attnpress/attnpress.h"
#include "cpu/half.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#define AP_TARGET
#define AP_KERNEL ap_cpu_row_block_plain

typedef float vec __attribute__((vector_size(16)));
typedef int32_t ivec __attribute__((vector_size(16)));

#if defined(__aarch64__)
enum { LANES = 4, TILE = 8 }; /* 32 registers */
#else
enum { LANES = 4, TILE = 4 }; /* 16 registers */
#endif

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

static inline float v_sum(vec a) {
  return (a[0] + a[2]) + (a[1] + a[3]);
}

static inline vec load_fp16(const uint16_t *from) {
  return (vec){ap_float_from_fp16(from[0]), ap_float_from_fp16(from[1]),
               ap_float_from_fp16(from[2]), ap_float_from_fp16(from[3])};
}

static inline vec load_bf16(const uint16_t *from) {
  return (vec){ap_float_from_bf16(from[0]), ap_float_from_bf16(from[1]),
               ap_float_from_bf16(from[2]), ap_float_from_bf16(from[3])};
}

static inline void load_fp16_8(float *to, const uint16_t *from) {
  for (int i = 0; i < 8; ++i)
    to[i] = ap_float_from_fp16(from[i]);
}

static inline void load_bf16_8(float *to, const uint16_t *from) {
  for (int i = 0; i < 8; ++i)
    to[i] = ap_float_from_bf16(from[i]);
}

static inline void store_fp16_8(uint16_t *to, const float *from) {
  for (int i = 0; i < 8; ++i)
    to[i] = ap_fp16_from_float(from[i]);
}

static inline void store_bf16_8(uint16_t *to, const float *from) {
  for (int i = 0; i < 8; ++i)
    to[i] = ap_bf16_from_float(from[i]);
}

#include "attention/cpu_kernel.inc.h"
