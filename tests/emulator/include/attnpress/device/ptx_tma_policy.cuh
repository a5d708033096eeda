// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// cp.async.bulk.tensor.4d (PTX ISA, cp.async.bulk.tensor).
__device__ __forceinline__ void tma_load_4d_by_policy(uint32_t shared,
                                                      const attnpress_tensor_map *map,
                                                      uint32_t barrier, int c0, int c1, int c2,
                                                      int c3, uint64_t policy) {
  const int coordinates[4] = {c0, c1, c2, c3};
  (void)policy;
  emulated_tma_load(shared, map, barrier, coordinates, 4);
}

// cp.async.bulk.tensor.5d
__device__ __forceinline__ void tma_load_5d_by_policy(uint32_t shared,
                                                      const attnpress_tensor_map *map,
                                                      uint32_t barrier, int c0, int c1, int c2,
                                                      int c3, int c4, uint64_t policy) {
  const int coordinates[5] = {c0, c1, c2, c3, c4};
  (void)policy;
  emulated_tma_load(shared, map, barrier, coordinates, 5);
}
