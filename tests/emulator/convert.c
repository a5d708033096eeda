/* cvt.rn.f16x2.f32 and cvt.rn.bf16x2.f32 (PTX ISA, Data Movement and Conversion Instructions: cvt):
 * round to nearest even, overflow to infinity, NaN to 0x7fff. */
#include "machine.h"

#include <math.h>

#include "cpu/half.h"

enum { CANONICAL_NAN = 0x7fff };

static uint32_t to_fp16(float x) {
  return isnan(x) ? CANONICAL_NAN : ap_fp16_from_float(x);
}

static uint32_t to_bf16(float x) {
  return isnan(x) ? CANONICAL_NAN : ap_bf16_from_float(x);
}

uint32_t emulated_pack_fp16(float low, float high) {
  return to_fp16(low) | to_fp16(high) << 16;
}

uint32_t emulated_pack_bf16(float low, float high) {
  return to_bf16(low) | to_bf16(high) << 16;
}

/* cvt.f32.f16, exact. */
float emulated_widen_fp16(uint16_t bits) {
  return ap_float_from_fp16(bits);
}
