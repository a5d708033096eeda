// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// cp.async.cg.shared.global with src-size (PTX ISA, cp.async).
__device__ __forceinline__ void cp_async_16(uint32_t shared, const void *global, int bytes) {
  emulated_cp_async_16(shared, global, bytes);
}

// cp.async.commit_group (PTX ISA, cp.async.commit_group).
__device__ __forceinline__ void cp_async_commit() {
  emulated_cp_async_commit();
}

// cp.async.wait_group (PTX ISA, cp.async.wait_group).
__device__ __forceinline__ void cp_async_wait(int pending) {
  emulated_cp_async_wait(pending);
}
