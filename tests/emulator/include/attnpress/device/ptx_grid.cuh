// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// What grid.sync() of cooperative groups is made of.
__device__ __forceinline__ uint32_t grid_arrive() {
  return emulated_grid_arrive();
}

__device__ __forceinline__ bool grid_has_come(uint32_t arrived) {
  return emulated_grid_has_come(arrived) != 0;
}
