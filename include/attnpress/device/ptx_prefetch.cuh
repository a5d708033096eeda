// Leaf header: hints to the caches. One PTX instruction a function.
#pragma once

#include "attnpress/args/common.h"

// prefetch.global.L2: the cache line at `address`, which need not be aligned, comes to the L2 cache.
__device__ __forceinline__ void prefetch_l2(const void *address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}
