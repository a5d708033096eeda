// Leaf header: the barrier of all thread blocks of a cooperative launch. One PTX instruction a
// function, except for the barrier's address.
//
// The driver gives such a launch a counter, whose address is in %envreg1 and %envreg2: cooperative
// groups' grid.sync() is made of it in the same way (CUDA, cooperative_groups/details/sync.h and
// driver_abi.h). Each block adds 1 to it, the first one as much as makes 2^31 of all: then its top
// bit is another. It is never set back.
#pragma once

#include "attnpress/args/common.h"

__device__ __forceinline__ uint32_t *grid_counter() {
  uint64_t workspace;
  asm("mov.b64 %0, {%%envreg2, %%envreg1};" : "=l"(workspace));
  return (uint32_t *)workspace + 1;
}

// atom.add.release.gpu: a block arrives, by one thread; again only after it has waited. What that
// thread has done, or knows of, is seen by those who have waited. Returns what grid_has_come() asks
// for. Blocks of a launch arrive equally often, also those that do not wait for the last time.
__device__ __forceinline__ uint32_t grid_arrive() {
  const uint32_t own = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1;
  uint32_t before;
  asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(grid_counter()), "r"(own)
               : "memory");
  return before;
}

// ld.acquire.gpu: whether all blocks have arrived, to be asked again until they have. By the thread
// that has arrived.
__device__ __forceinline__ bool grid_has_come(uint32_t arrived) {
  uint32_t now;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(grid_counter()) : "memory");
  return ((arrived ^ now) & 0x80000000u) != 0;
}
