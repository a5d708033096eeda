/* 16-bit floats in plain C. Narrowing rounds to nearest even, overflows to infinity and keeps a
 * NaN. */
#pragma once
#include <stdint.h>
#include <string.h>

static inline float ap_float_from_bits(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static inline uint32_t ap_bits_from_float(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

static inline float ap_float_from_bf16(uint16_t h) {
  return ap_float_from_bits((uint32_t)h << 16);
}

static inline uint16_t ap_bf16_from_float(float f) {
  uint32_t bits = ap_bits_from_float(f);
  if (f != f)
    return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float ap_float_from_fp16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
  if (magnitude >= 0x7c00) /* infinity, NaN */
    return ap_float_from_bits(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude >= 0x400)
    return ap_float_from_bits(sign | ((magnitude << 13) + (112u << 23)));
  /* subnormal: magnitude * 2^-24, exact */
  return ap_float_from_bits(sign | ap_bits_from_float((float)(int32_t)magnitude * 0x1p-24f));
}

static inline uint16_t ap_fp16_from_float(float f) {
  uint32_t bits = ap_bits_from_float(f), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) /* 65520 and above round to infinity */
    return (uint16_t)(sign | 0x7c00);
  if (magnitude >= 0x38800000) /* 2^-14: normal */
    return (uint16_t)(sign | (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13);
  /* subnormal: adding 0.5 leaves magnitude / 2^-24, rounded, in the sum's low bits */
  return (uint16_t)(sign | (ap_bits_from_float(ap_float_from_bits(magnitude) + 0.5f) - 0x3f000000));
}
