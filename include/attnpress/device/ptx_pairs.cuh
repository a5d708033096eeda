// Leaf header: products of 16-bit floats, of both halves of a word, and masks that choose between
// elements of a word. One PTX instruction a function.
#pragma once

#include "attnpress/args/common.h"

// mul.rn.f16x2
__device__ __forceinline__ uint32_t multiply_fp16x2(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// fma.rn.bf16x2, with -0, which leaves every product as it is: there is a mul from compute
// capability 9.0 on alone.
__device__ __forceinline__ uint32_t multiply_bf16x2(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(0x80008000u));
  return result;
}

// bmsk.clamp.b32: the lowest `count` bits, all of them from 32 on. count: not negative
__device__ __forceinline__ uint32_t low_bits(int count) {
  uint32_t result;
  asm("bmsk.clamp.b32 %0, %1, %2;" : "=r"(result) : "r"(0), "r"(count));
  return result;
}
