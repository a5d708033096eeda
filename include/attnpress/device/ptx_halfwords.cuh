// Leaf header: the two halves of a word, each by itself, as integers of 16 bits (compute capability
// 9.0 and later) or as fp16. One PTX instruction a function.
#pragma once

#include "attnpress/args/common.h"

// add.u16x2: modulo 2^16
__device__ __forceinline__ uint32_t add_u16x2(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("add.u16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// min.u16x2
__device__ __forceinline__ uint32_t min_u16x2(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("min.u16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// max.u16x2
__device__ __forceinline__ uint32_t max_u16x2(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("max.u16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// set.lt.u32.f16x2: as fp16; all bits of a half are set where a's is less than b's, else none. A NaN
// is less than nothing, and nothing less than it.
__device__ __forceinline__ uint32_t less_f16x2(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("set.lt.u32.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
