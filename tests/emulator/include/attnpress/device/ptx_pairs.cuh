// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// mul.rn.f16x2 (PTX ISA, half precision: mul).
__device__ __forceinline__ uint32_t multiply_fp16x2(uint32_t a, uint32_t b) {
  return emulated_multiply(a, b, EMULATED_FP16);
}

// fma.rn.bf16x2 (PTX ISA, half precision: fma), with -0.
__device__ __forceinline__ uint32_t multiply_bf16x2(uint32_t a, uint32_t b) {
  return emulated_multiply(a, b, EMULATED_BF16);
}

// bmsk.clamp.b32 (PTX ISA, bmsk).
__device__ __forceinline__ uint32_t low_bits(int count) {
  return count >= 32 ? 0xffffffffu : (1u << count) - 1;
}
