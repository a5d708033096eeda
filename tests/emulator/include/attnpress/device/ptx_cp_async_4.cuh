// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// cp.async.ca.shared.global with src-size (PTX ISA, cp.async).
__device__ __forceinline__ void cp_async_4(uint32_t shared, const void *global, int bytes) {
  emulated_cp_async_4(shared, global, bytes);
}
