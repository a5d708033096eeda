// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 (PTX ISA, cp.reduce.async.bulk).
__device__ __forceinline__ void bulk_add(float *global, uint32_t shared, int bytes) {
  emulated_bulk_add(global, shared, bytes);
}

// cp.async.bulk.commit_group
__device__ __forceinline__ void bulk_commit() {
  emulated_bulk_commit();
}

// cp.async.bulk.wait_group.read
__device__ __forceinline__ void bulk_wait_read(int pending) {
  emulated_bulk_wait_read(pending);
}

__device__ __forceinline__ void bulk_wait_written() {
  emulated_bulk_wait_written();
}
