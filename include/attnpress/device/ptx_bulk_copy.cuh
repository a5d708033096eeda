// Leaf header: copies by the copy engine of bytes that lie one after the other; what ptx_bulk.cuh says of
// groups is true of those to global memory too. One PTX instruction a function.
#pragma once

#include "attnpress/args/common.h"

// cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes: `bytes` from global to shared
// memory, counted by the barrier at the shared address `barrier`; addresses and bytes are multiples of
// 16.
__device__ __forceinline__ void bulk_load(uint32_t shared, const void *global, int bytes,
                                          uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared),
      "l"(global), "r"(bytes), "r"(barrier)
      : "memory");
}

// cp.async.bulk.global.shared::cta.bulk_group: the other way round. Shared memory is read until the
// thread has waited for its group.
__device__ __forceinline__ void bulk_store(void *global, uint32_t shared, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
               "r"(shared), "r"(bytes)
               : "memory");
}
