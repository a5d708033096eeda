// Thread blocks that take key blocks of heads one after the other, until there are no more: so K, V
// and the first rows of one come while the one before ends.
//
// The first warp takes a key block, puts what there is to do into one of two places, and brings what
// it needs; each of the others reads that, does its part of it, and hands the place back. Key blocks
// are taken in their order, by a counter, so that whoever waits for one before its own waits for a
// thread block that runs.
#pragma once

#include "attnpress/args/attention.h"
#include "attnpress/device/gradient_order.cuh"
#include "attnpress/device/pipeline.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_atom.cuh"

// What was in the key blocks before: steps of their walks, and how many of them had any, so that
// their keys were brought.
struct Progress {
  int steps, keys;
};

// The place of the next step in a ring.
__device__ __forceinline__ Stage progress_stage(Progress progress, int stages) {
  return {progress.steps % stages, progress.steps / stages % 2};
}

__shared__ uint64_t take_barriers[7];

// Of a place: the first warp has put work there; all others have done it.
__device__ __forceinline__ uint32_t work_full(int place) {
  return shared_address(&take_barriers[place]);
}
__device__ __forceinline__ uint32_t work_empty(int place) {
  return shared_address(&take_barriers[2 + place]);
}
// Of the work there: what its dQ is added to is zeros.
__device__ __forceinline__ uint32_t sum_ready(int place) {
  return shared_address(&take_barriers[4 + place]);
}
// K and V have been read.
__device__ __forceinline__ uint32_t keys_empty() {
  return shared_address(&take_barriers[6]);
}

// One thread. `readers`: warps that read what there is to do.
__device__ __forceinline__ void init_take_barriers(int readers) {
  for (int place = 0; place < 2; ++place) {
    mbarrier_init(work_full(place), 1);
    mbarrier_init(work_empty(place), readers);
    mbarrier_init(sum_ready(place), 1);
  }
  mbarrier_init(keys_empty(), 1);
}

// Key blocks of a dense call.
__device__ __forceinline__ int blocks_of_call(const attnpress_bwd_args *args) {
  const int whole = whole_blocks_of(args);
  return (whole + (args->blocks - whole) * args->group_parts) * args->heads_kv * args->batch;
}

// The number of the thread block's next key block; past all others where it has no more. One warp.
__device__ __forceinline__ int take_work(const attnpress_bwd_args *args, bool first) {
  if (args->taken == nullptr) // each has its own
    return first ? blockIdx.x : 0x7fffffff;
  uint32_t number = 0;
  if (threadIdx.x % 32 == 0)
    number = atomic_increment(args->taken);
  return (int)__shfl_sync(0xffffffff, number, 0);
}
