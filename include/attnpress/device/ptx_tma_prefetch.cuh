// Leaf header: the copy engine (TMA) as one that brings boxes to the L2 cache. One PTX instruction a
// function.
#pragma once

#include "attnpress/args/common.h"

// cp.async.bulk.prefetch.tensor.4d.L2.global: the map's box that begins at element (c0, c1, c2, c3),
// as tma_load_4d() copies it, comes to the L2 cache, as far as it lies in the tensor.
__device__ __forceinline__ void tma_prefetch_4d(const attnpress_tensor_map *map, int c0, int c1,
                                                int c2, int c3) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global [%0, {%1, %2, %3, %4}];" ::"l"(map),
               "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}

// cp.async.bulk.prefetch.tensor.5d.L2.global: the same of a box that tma_load_5d() copies.
__device__ __forceinline__ void tma_prefetch_5d(const attnpress_tensor_map *map, int c0, int c1,
                                                int c2, int c3, int c4) {
  asm volatile("cp.async.bulk.prefetch.tensor.5d.L2.global [%0, {%1, %2, %3, %4, %5}];" ::"l"(map),
               "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
               : "memory");
}
