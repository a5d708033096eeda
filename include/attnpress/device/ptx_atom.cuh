// Leaf header: counts in global memory that are gone up by one, and what they were before. One PTX
// instruction a function. Who comes first is not defined.
#pragma once

#include "attnpress/args/common.h"

// atom.global.inc.u32: ++*global, from below 2^31 - 1; what it was before. By atom.add ptxas first adds
// up what the lanes of a warp add, and hands out the sum by a shuffle: that waits for the memory where
// the instruction stands, and not where its result is read.
__device__ __forceinline__ uint32_t atomic_increment(uint32_t *global) {
  uint32_t before;
  asm volatile("atom.global.inc.u32 %0, [%1], 0x7fffffff;" : "=r"(before) : "l"(global) : "memory");
  return before;
}
