// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// cp.async.cg.shared.global, predicated (PTX ISA, cp.async).
__device__ __forceinline__ void cp_async_16_if(bool condition, uint32_t shared,
                                               const void *global) {
  if (condition)
    emulated_cp_async_16(shared, global, 16);
}
