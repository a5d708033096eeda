// Leaf header: hints to the caches. One PTX instruction a function.
#pragma once

#include "attnpress/args/common.h"

// prefetch.global.L2: the cache line at `address`, which need not be aligned, comes to the L2 cache.
__device__ __forceinline__ void prefetch_l2(const void *address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

// cp.async.bulk.prefetch.L2.global: the copy engine brings `bytes` at `address`, both multiples of 16,
// to the L2 cache.
__device__ __forceinline__ void prefetch_bulk_l2(const void *address, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(bytes) : "memory");
}
