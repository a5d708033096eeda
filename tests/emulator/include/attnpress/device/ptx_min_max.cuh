// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// max.f16x2 (PTX ISA, max).
__device__ __forceinline__ uint32_t max_fp16x2(uint32_t a, uint32_t b) {
  return emulated_min_max(a, b, EMULATED_FP16, 1);
}

// max.bf16x2 (PTX ISA, max).
__device__ __forceinline__ uint32_t max_bf16x2(uint32_t a, uint32_t b) {
  return emulated_min_max(a, b, EMULATED_BF16, 1);
}

// min.f16x2 (PTX ISA, min).
__device__ __forceinline__ uint32_t min_fp16x2(uint32_t a, uint32_t b) {
  return emulated_min_max(a, b, EMULATED_FP16, 0);
}

// min.bf16x2 (PTX ISA, min).
__device__ __forceinline__ uint32_t min_bf16x2(uint32_t a, uint32_t b) {
  return emulated_min_max(a, b, EMULATED_BF16, 0);
}
