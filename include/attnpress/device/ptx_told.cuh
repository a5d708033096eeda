// Leaf header: what threads of thread blocks that run at the same time tell each other through global
// memory. One PTX instruction a function.
//
// `global`: two words of 8 bytes, at a multiple of 16. Each is read as a whole, and the two in any
// order: each has to say by itself whether it is the one that is awaited. Nothing else that its writer
// has done is seen by that.
#pragma once

#include "attnpress/args/common.h"

// st.relaxed.gpu.global.v2.u64
__device__ __forceinline__ void store_told(uint64_t *global, uint64_t first, uint64_t second) {
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(global), "l"(first), "l"(second)
               : "memory");
}

// ld.relaxed.gpu.global.v2.u64: what is there now. It does not come to the L1 cache, where it would be
// found later.
__device__ __forceinline__ void load_told(const uint64_t *global, uint64_t *first,
                                          uint64_t *second) {
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(*first), "=l"(*second)
               : "l"(global)
               : "memory");
}
