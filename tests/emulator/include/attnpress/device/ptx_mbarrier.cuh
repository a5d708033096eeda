// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// mbarrier.init (PTX ISA, mbarrier).
__device__ __forceinline__ void mbarrier_init(uint32_t barrier, int count) {
  emulated_mbarrier_init(barrier, count);
}

// fence.mbarrier_init.release.cluster (PTX ISA, fence).
__device__ __forceinline__ void fence_mbarrier_init() {
  emulated_fence_mbarrier_init();
}

// mbarrier.arrive.release
__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
  emulated_mbarrier_arrive(barrier);
}

// mbarrier.arrive.expect_tx.release
__device__ __forceinline__ void mbarrier_arrive_expect(uint32_t barrier, int bytes) {
  emulated_mbarrier_arrive_expect(barrier, bytes);
}

// mbarrier.try_wait.parity.acquire
__device__ __forceinline__ bool mbarrier_try_wait(uint32_t barrier, int parity) {
  return emulated_mbarrier_try_wait(barrier, parity) != 0;
}
