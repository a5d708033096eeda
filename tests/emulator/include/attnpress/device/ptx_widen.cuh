// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// cvt.f32.f16 (PTX ISA, cvt).
__device__ __forceinline__ float widen_fp16(uint16_t bits) {
  return emulated_widen_fp16(bits);
}
