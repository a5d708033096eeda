// Leaf header: the copy engine (TMA), which says how long the L2 cache is to keep what it reads. One
// PTX instruction a function.
#pragma once

#include "attnpress/args/common.h"

// cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint: as
// tma_load_4d().
__device__ __forceinline__ void tma_load_4d_by_policy(uint32_t shared,
                                                      const attnpress_tensor_map *map,
                                                      uint32_t barrier, int c0, int c1, int c2,
                                                      int c3, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
      : "memory");
}

// cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint: as
// tma_load_5d().
__device__ __forceinline__ void tma_load_5d_by_policy(uint32_t shared,
                                                      const attnpress_tensor_map *map,
                                                      uint32_t barrier, int c0, int c1, int c2,
                                                      int c3, int c4, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "l"(policy)
      : "memory");
}
