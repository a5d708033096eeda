// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// red.global.add.f32 (PTX ISA, red).
__device__ __forceinline__ void red_add(float *global, float x) {
  emulated_red_add(global, x);
}

// red.global.max.u32 (PTX ISA, red).
__device__ __forceinline__ void red_max(uint32_t *global, uint32_t x) {
  emulated_red_max(global, x);
}
