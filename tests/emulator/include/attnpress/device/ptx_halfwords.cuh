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

// min.s16x2 (PTX ISA, min): of numbers without a sign where its bit is flipped.
__device__ __forceinline__ uint32_t min_s16x2(uint32_t a, uint32_t b) {
  return min_u16x2(a ^ 0x80008000, b ^ 0x80008000) ^ 0x80008000;
}

// max.s16x2 (PTX ISA, max).
__device__ __forceinline__ uint32_t max_s16x2(uint32_t a, uint32_t b) {
  return max_u16x2(a ^ 0x80008000, b ^ 0x80008000) ^ 0x80008000;
}
