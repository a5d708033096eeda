// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// createpolicy (PTX ISA): a hint alone.
__device__ __forceinline__ uint64_t evict_first_policy() {
  return 0;
}

// cp.async.cg.shared.global with src-size (PTX ISA, cp.async).
__device__ __forceinline__ void cp_async_16_by_policy(uint32_t shared, const void *global,
                                                      int bytes, uint64_t policy) {
  (void)policy;
  emulated_cp_async_16(shared, global, bytes);
}
