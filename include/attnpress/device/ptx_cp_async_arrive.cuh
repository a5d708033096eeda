// Leaf header: an arrival at a barrier in shared memory (ptx_mbarrier.cuh) by asynchronous copies. One
// PTX instruction a function.
#pragma once

#include "attnpress/args/common.h"

// cp.async.mbarrier.arrive.noinc.shared::cta.b64: one arrival, of those that the barrier counts, once
// all copies that this thread has begun are complete. Who waits for the phase sees what they copied.
__device__ __forceinline__ void cp_async_arrive(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
