// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// atom.global.inc.u32 (PTX ISA, atom).
__device__ __forceinline__ uint32_t atomic_increment(uint32_t *global) {
  return emulated_atomic_increment(global, 0x7fffffff);
}

// red.release.gpu.global.inc.u32 (PTX ISA, red).
__device__ __forceinline__ void release_increment(uint32_t *global) {
  emulated_release_increment(global, 0x7fffffff);
}

// ld.acquire.gpu.global.u32 (PTX ISA, ld).
__device__ __forceinline__ uint32_t load_acquire(const uint32_t *global) {
  return emulated_load_acquire(global);
}

// Others write there: what it says is a guess, and wrong in every other block. It may be read before
// what ran earlier has ended.
__device__ __forceinline__ uint32_t load_relaxed(const uint32_t *global) {
  return emulated_guess(global);
}

__device__ __forceinline__ uint64_t compare_and_swap(uint64_t *global, uint64_t expected,
                                                     uint64_t desired) {
  return emulated_compare_and_swap(global, expected, desired);
}
