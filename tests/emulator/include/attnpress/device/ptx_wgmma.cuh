// Stands in for the instructions of the leaf header of the same name; its arithmetic is the
// header's own.
#pragma once

#define wgmma_fence  wgmma_fence_of_the_device
#define wgmma_commit wgmma_commit_of_the_device
#define wgmma_wait   wgmma_wait_of_the_device
#include_next "attnpress/device/ptx_wgmma.cuh"
#undef wgmma_fence
#undef wgmma_commit
#undef wgmma_wait

// wgmma.fence (PTX ISA, wgmma.fence).
__device__ __forceinline__ void wgmma_fence() {
  emulated_wgmma_fence();
}

// wgmma.commit_group
__device__ __forceinline__ void wgmma_commit() {
  emulated_wgmma_commit();
}

// wgmma.wait_group
__device__ __forceinline__ void wgmma_wait(int pending) {
  emulated_wgmma_wait(pending);
}
