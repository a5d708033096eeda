// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// cp.async.bulk.prefetch.tensor.4d (PTX ISA, cp.async.bulk.prefetch.tensor): a hint.
__device__ __forceinline__ void tma_prefetch_4d(const attnpress_tensor_map *map, int c0, int c1,
                                                int c2, int c3) {
  (void)map;
  (void)c0;
  (void)c1;
  (void)c2;
  (void)c3;
}

// cp.async.bulk.prefetch.tensor.5d: likewise.
__device__ __forceinline__ void tma_prefetch_5d(const attnpress_tensor_map *map, int c0, int c1,
                                                int c2, int c3, int c4) {
  (void)map;
  (void)c0;
  (void)c1;
  (void)c2;
  (void)c3;
  (void)c4;
}
