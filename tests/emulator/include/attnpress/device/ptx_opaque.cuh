// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

__device__ __forceinline__ uint32_t opaque(uint32_t bits) {
  return bits;
}
