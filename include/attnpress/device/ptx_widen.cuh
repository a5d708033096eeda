// Leaf header: the values of 16-bit floats, which are plain integers here. One PTX instruction a
// function.
#pragma once

#include "attnpress/args/common.h"

// cvt.f32.f16: exact.
__device__ __forceinline__ float widen_fp16(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
