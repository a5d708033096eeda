// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes (PTX ISA, cp.async.bulk).
__device__ __forceinline__ void bulk_load(uint32_t shared, const void *global, int bytes,
                                          uint32_t barrier) {
  emulated_bulk_load(shared, global, bytes, barrier);
}

// cp.async.bulk.global.shared::cta.bulk_group
__device__ __forceinline__ void bulk_store(void *global, uint32_t shared, int bytes) {
  emulated_bulk_store(global, shared, bytes);
}
