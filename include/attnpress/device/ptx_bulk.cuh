// Leaf header: reductions by the copy engine, whose groups are a thread's own. One PTX instruction a
// function.
#pragma once

#include "attnpress/args/common.h"

// cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32: adds `bytes` of floats at `shared` to
// those at `global`, each by itself and in no order; all three are multiples of 16. What is in shared
// memory stays there until the thread has waited for its group.
__device__ __forceinline__ void bulk_add(float *global, uint32_t shared, int bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(global),
      "r"(shared), "r"(bytes)
      : "memory");
}

// cp.async.bulk.commit_group: what this thread has begun since the last one is a group.
__device__ __forceinline__ void bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// cp.async.bulk.wait_group.read: waits until of all but the latest `pending` groups of this thread
// shared memory has been read. `pending` is a constant, 0 or 1.
__device__ __forceinline__ void bulk_wait_read(int pending) {
  if (pending == 0)
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  else
    asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
}

// cp.async.bulk.wait_group: waits until all groups of this thread have written, or added, what they
// were to, and the thread and the copy engine for it see that.
__device__ __forceinline__ void bulk_wait_written() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
