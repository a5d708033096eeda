// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// cp.async.mbarrier.arrive.noinc (PTX ISA, cp.async.mbarrier.arrive).
__device__ __forceinline__ void cp_async_arrive(uint32_t barrier) {
  emulated_cp_async_arrive(barrier);
}
