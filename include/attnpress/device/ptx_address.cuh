// Leaf header: addresses in shared memory. One PTX instruction a function.
#pragma once

#include "attnpress/args/common.h"

// cvta.to.shared.u64: the 32-bit shared-window address of a generic pointer into shared memory.
__device__ __forceinline__ uint32_t shared_address(const void *pointer) {
  uint64_t address;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(pointer));
  return (uint32_t)address;
}
