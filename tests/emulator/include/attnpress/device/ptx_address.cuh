// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// cvta.to.shared.u64 (PTX ISA, Data Movement and Conversion Instructions: cvta).
__device__ __forceinline__ uint32_t shared_address(const void *pointer) {
  return emulated_shared_address(pointer);
}
