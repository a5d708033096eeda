// Leaf header: counts in global memory that many threads change, and what they were before. One PTX
// instruction a function. Who comes first is not defined.
#pragma once

#include "attnpress/args/common.h"

// atom.global.inc.u32: ++*global, from below 2^31 - 1; what it was before. By atom.add ptxas first adds
// up what the lanes of a warp add, and hands out the sum by a shuffle: that waits for the memory where
// the instruction stands, and not where its result is read.
__device__ __forceinline__ uint32_t atomic_increment(uint32_t *global) {
  uint32_t before;
  asm volatile("atom.global.inc.u32 %0, [%1], 0x7fffffff;" : "=r"(before) : "l"(global) : "memory");
  return before;
}

// red.release.gpu.global.inc.u32: the same, and it gives nothing back. Who sees it by load_acquire()
// sees what this thread has done to memory before, or knows that others did.
__device__ __forceinline__ void release_increment(uint32_t *global) {
  asm volatile("red.release.gpu.global.inc.u32 [%0], 0x7fffffff;" ::"l"(global) : "memory");
}

// ld.acquire.gpu.global.u32
__device__ __forceinline__ uint32_t load_acquire(const uint32_t *global) {
  uint32_t count;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(global) : "memory");
  return count;
}

// ld.relaxed.gpu.global.u32: what is there now, which others may be changing. It does not come to the
// L1 cache, where it would be found later.
__device__ __forceinline__ uint32_t load_relaxed(const uint32_t *global) {
  uint32_t now;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(global) : "memory");
  return now;
}

// atom.acq_rel.gpu.global.cas.b64: what was there; `desired` takes its place where that is `expected`.
// This thread then sees what those had done to memory who changed it before, and so on.
__device__ __forceinline__ uint64_t compare_and_swap(uint64_t *global, uint64_t expected,
                                                     uint64_t desired) {
  uint64_t before;
  asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(before)
               : "l"(global), "l"(expected), "l"(desired)
               : "memory");
  return before;
}
