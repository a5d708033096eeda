// Leaf header: asynchronous copies that say how long the L2 cache is to keep what they read. One PTX
// instruction a function.
#pragma once

#include "attnpress/args/common.h"

// createpolicy.fractional.L2::evict_first.b64: what is read so goes before all else.
__device__ __forceinline__ uint64_t evict_first_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// cp.async.cg.shared.global.L2::cache_hint: as cp_async_16().
__device__ __forceinline__ void cp_async_16_by_policy(uint32_t shared, const void *global,
                                                      int bytes, uint64_t policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(shared),
               "l"(global), "r"(bytes), "l"(policy)
               : "memory");
}
