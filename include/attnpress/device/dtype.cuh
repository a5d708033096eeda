// The 16-bit types of Q, K, V, P and the output.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/ptx_cvt.cuh"
#include "attnpress/device/ptx_widen.cuh"

enum Dtype { FP16, BF16 };

// Rounds two values to nearest even: `low` in bits 0-15, `high` in bits 16-31.
__device__ __forceinline__ uint32_t pack(Dtype dtype, float low, float high) {
  return dtype == FP16 ? pack_fp16(low, high) : pack_bf16(low, high);
}

// The value of 16 bits: the lower ones, or the upper ones, of a word.
__device__ __forceinline__ float widen_low(Dtype dtype, uint32_t bits) {
  return dtype == FP16 ? widen_fp16((uint16_t)bits) : __builtin_bit_cast(float, bits << 16);
}

__device__ __forceinline__ float widen_high(Dtype dtype, uint32_t bits) {
  return dtype == FP16 ? widen_fp16((uint16_t)(bits >> 16))
                       : __builtin_bit_cast(float, bits & 0xffff0000);
}
