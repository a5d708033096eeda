// Leaf header: additions to global memory that give nothing back. One PTX instruction a function.
// Their order is not defined, and with it the rounding of the sum.
#pragma once

#include "attnpress/args/common.h"

// red.global.add.f32: *global += x.
__device__ __forceinline__ void red_add(float *global, float x) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(global), "f"(x) : "memory");
}

// red.global.max.u32: *global = max(*global, x).
__device__ __forceinline__ void red_max(uint32_t *global, uint32_t x) {
  asm volatile("red.global.max.u32 [%0], %1;" ::"l"(global), "r"(x) : "memory");
}

#if __CUDA_ARCH__ >= 900
// red.global.add.v4.f32: the same with four neighbours, each by itself; `global` is aligned to 16
// bytes. Not before compute capability 9.0.
__device__ __forceinline__ void red_add_x4(float *global, const float x[4]) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(global), "f"(x[0]), "f"(x[1]),
               "f"(x[2]), "f"(x[3])
               : "memory");
}
#endif
