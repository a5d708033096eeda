// Leaf header: asynchronous copies from global to shared memory. One PTX instruction a function.
#pragma once

#include "attnpress/args/common.h"

// cp.async.cg.shared.global 16 bytes, past L1. Copies `bytes` (0 or 16) bytes from `global` and
// fills the rest with zeros; with 0 bytes, `global` is not read. Both addresses are 16-byte
// aligned.
__device__ __forceinline__ void cp_async_16(uint32_t shared, const void *global, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
               "r"(bytes)
               : "memory");
}

// cp.async.commit_group: closes the group of this thread's copies since the last commit; it may be
// empty.
__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// cp.async.wait_group: waits until at most `pending` (a constant from 0 to 7) of this thread's
// latest groups are unfinished. Other threads see the copied data only after a barrier.
__device__ __forceinline__ void cp_async_wait(int pending) {
  switch (pending) {
  case 0:
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    break;
  case 1:
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    break;
  case 2:
    asm volatile("cp.async.wait_group 2;" ::: "memory");
    break;
  case 3:
    asm volatile("cp.async.wait_group 3;" ::: "memory");
    break;
  case 4:
    asm volatile("cp.async.wait_group 4;" ::: "memory");
    break;
  case 5:
    asm volatile("cp.async.wait_group 5;" ::: "memory");
    break;
  case 6:
    asm volatile("cp.async.wait_group 6;" ::: "memory");
    break;
  default:
    asm volatile("cp.async.wait_group 7;" ::: "memory");
    break;
  }
}
