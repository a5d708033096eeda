// Additions to the sum of dQ (gradient.cuh) by the copy engine, from shared memory. A warp's part of
// a step, a row tile and some columns of it, is contiguous in the sum, and lies so in shared memory.
#pragma once

#include "attnpress/device/gradient.cuh"
#include "attnpress/device/ptx_bulk.cuh"
#include "attnpress/device/ptx_tma.cuh"

// One warp: begins to add what it has stored, a group of its first lane.
__device__ __forceinline__ void begin_addition(float *sum, uint32_t place, int tiles) {
  fence_proxy_async();
  // The warp's lanes arrive and wait: hands over what they stored.
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    bulk_add(sum, place, tiles * 512);
    bulk_commit();
  }
}

// One warp: its first lane knows afterwards that all that it adds has been read, but the latest
// `pending` additions.
__device__ __forceinline__ void wait_for_additions(int pending) {
  if (threadIdx.x % 32 == 0)
    bulk_wait_read(pending);
}
