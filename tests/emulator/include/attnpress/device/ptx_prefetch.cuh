// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// prefetch.global.L2 (PTX ISA, prefetch): a hint; an address that nothing is mapped to is no fault.
__device__ __forceinline__ void prefetch_l2(const void *address) {
  (void)address;
}

// cp.async.bulk.prefetch.L2.global (PTX ISA, cp.async.bulk.prefetch): of memory that is the launch's.
__device__ __forceinline__ void prefetch_bulk_l2(const void *address, int bytes) {
  emulated_bulk_prefetch(address, bytes);
}
