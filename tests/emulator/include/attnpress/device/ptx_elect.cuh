// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// elect.sync (PTX ISA, elect.sync): the warp's first lane, here as on a GPU.
__device__ __forceinline__ bool elect_lane() {
  return threadIdx.x % 32 == 0;
}
