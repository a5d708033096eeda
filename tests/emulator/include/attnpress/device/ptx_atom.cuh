// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// atom.global.add.u32 (PTX ISA, atom).
__device__ __forceinline__ uint32_t atomic_add(uint32_t *global, uint32_t x) {
  return emulated_atomic_add(global, x);
}
