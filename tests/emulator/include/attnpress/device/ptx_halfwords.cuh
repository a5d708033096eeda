// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// Both halves of a result.
__device__ __forceinline__ uint32_t emulated_halves(uint32_t low, uint32_t high) {
  return (low & 0xffff) | high << 16;
}

// add.u16x2 (PTX ISA, add).
__device__ __forceinline__ uint32_t add_u16x2(uint32_t a, uint32_t b) {
  return emulated_halves(a + b, (a >> 16) + (b >> 16));
}

// min.u16x2 (PTX ISA, min).
__device__ __forceinline__ uint32_t min_u16x2(uint32_t a, uint32_t b) {
  return emulated_halves(min(a & 0xffff, b & 0xffff), min(a >> 16, b >> 16));
}

// max.u16x2 (PTX ISA, max).
__device__ __forceinline__ uint32_t max_u16x2(uint32_t a, uint32_t b) {
  return emulated_halves(max(a & 0xffff, b & 0xffff), max(a >> 16, b >> 16));
}

// fp16 as an integer that is ordered as it is; 0 and -0 are one. NaN is beyond both infinities.
__device__ __forceinline__ int emulated_order_f16(uint32_t half) {
  const int magnitude = (int)(half & 0x7fff);
  return half & 0x8000 ? -magnitude : magnitude;
}

__device__ __forceinline__ uint32_t emulated_less_f16(uint32_t a, uint32_t b) {
  const int nan = (a & 0x7fff) > 0x7c00 || (b & 0x7fff) > 0x7c00;
  return !nan && emulated_order_f16(a) < emulated_order_f16(b) ? 0xffff : 0;
}

// set.lt.u32.f16x2 (PTX ISA, half precision comparison: set).
__device__ __forceinline__ uint32_t less_f16x2(uint32_t a, uint32_t b) {
  return emulated_halves(emulated_less_f16(a & 0xffff, b & 0xffff),
                         emulated_less_f16(a >> 16, b >> 16));
}
