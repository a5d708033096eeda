// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// atom.global.inc.u32 (PTX ISA, atom).
__device__ __forceinline__ uint32_t atomic_increment(uint32_t *global) {
  return emulated_atomic_increment(global, 0x7fffffff);
}
