// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// prefetch.global.L2 (PTX ISA, prefetch): a hint; an address that nothing is mapped to is no fault.
__device__ __forceinline__ void prefetch_l2(const void *address) {
  (void)address;
}
