// Rings of stages in shared memory between a producer and its consumers.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/ptx_mbarrier.cuh"

// A place in a ring. One round through the ring is one phase of each stage's barriers.
struct Stage {
  int index;
  int parity; // of the round
};

__device__ __forceinline__ Stage next_stage(Stage stage, int stages) {
  const bool last = stage.index + 1 == stages;
  return {last ? 0 : stage.index + 1, last ? stage.parity ^ 1 : stage.parity};
}

// Waits until the phase of `parity` of a barrier has completed.
__device__ __forceinline__ void wait_for_phase(uint32_t barrier, int parity) {
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}

// One arrival of this warp.
__device__ __forceinline__ void arrive_once(uint32_t barrier) {
  if (threadIdx.x % 32 == 0)
    mbarrier_arrive(barrier);
}

__device__ __forceinline__ int divide(int n, const attnpress_divisor *divisor) {
  return (int)((uint64_t)n * divisor->multiplier >> divisor->shift);
}
