// Leaf header: additions to global memory that give back what was there. One PTX instruction a
// function. Their order is not defined.
#pragma once

#include "attnpress/args/common.h"

// atom.global.add.u32: *global += x; what it was before.
__device__ __forceinline__ uint32_t atomic_add(uint32_t *global, uint32_t x) {
  uint32_t before;
  asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(global), "r"(x) : "memory");
  return before;
}
