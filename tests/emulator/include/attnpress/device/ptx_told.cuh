// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// st.relaxed.gpu.global.v2.u64 (PTX ISA, st).
__device__ __forceinline__ void store_told(uint64_t *global, uint64_t first, uint64_t second) {
  emulated_store_told(global, first, second);
}

// ld.relaxed.gpu.global.v2.u64 (PTX ISA, ld).
__device__ __forceinline__ void load_told(const uint64_t *global, uint64_t *first,
                                          uint64_t *second) {
  emulated_load_told(global, first, second);
}
