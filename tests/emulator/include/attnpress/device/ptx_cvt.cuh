// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// cvt.rn.f16x2.f32 (PTX ISA, cvt).
__device__ __forceinline__ uint32_t pack_fp16(float low, float high) {
  return emulated_pack_fp16(low, high);
}

// cvt.rn.bf16x2.f32 (PTX ISA, cvt).
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  return emulated_pack_bf16(low, high);
}
