// Leaf header: the larger and the smaller of 16-bit floats, of both halves of a word. Where one
// operand is NaN, the result is the other. One PTX instruction a function.
#pragma once

#include "attnpress/args/common.h"

// max.f16x2
__device__ __forceinline__ uint32_t max_fp16x2(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("max.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// max.bf16x2
__device__ __forceinline__ uint32_t max_bf16x2(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// min.f16x2
__device__ __forceinline__ uint32_t min_fp16x2(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("min.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// min.bf16x2
__device__ __forceinline__ uint32_t min_bf16x2(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("min.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
