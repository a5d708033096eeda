// Leaf header: conversions between fp32 and the 16-bit types, which are plain integers here. One
// PTX instruction a function; all round to nearest even.
#pragma once

#include "attnpress/args/common.h"

// cvt.rn.f16x2.f32: `low` in bits 0-15, `high` in bits 16-31.
__device__ __forceinline__ uint32_t pack_fp16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// cvt.rn.bf16x2.f32: `low` in bits 0-15, `high` in bits 16-31.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
