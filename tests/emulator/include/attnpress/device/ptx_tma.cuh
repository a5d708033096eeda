// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// prefetch.tensormap (PTX ISA, prefetch).
__device__ __forceinline__ void prefetch_tensor_map(const attnpress_tensor_map *map) {
  emulated_prefetch_tensor_map(map);
}

// cp.async.bulk.tensor.4d (PTX ISA, cp.async.bulk.tensor).
__device__ __forceinline__ void tma_load_4d(uint32_t shared, const attnpress_tensor_map *map,
                                            uint32_t barrier, int c0, int c1, int c2, int c3) {
  const int coordinates[4] = {c0, c1, c2, c3};
  emulated_tma_load(shared, map, barrier, coordinates, 4);
}

// cp.async.bulk.tensor.5d
__device__ __forceinline__ void tma_load_5d(uint32_t shared, const attnpress_tensor_map *map,
                                            uint32_t barrier, int c0, int c1, int c2, int c3,
                                            int c4) {
  const int coordinates[5] = {c0, c1, c2, c3, c4};
  emulated_tma_load(shared, map, barrier, coordinates, 5);
}

// cp.async.bulk.tensor.4d.im2col
__device__ __forceinline__ void tma_load_im2col_4d(uint32_t shared, const attnpress_tensor_map *map,
                                                   uint32_t barrier, int channel, int x, int y,
                                                   int image, int x_offset, int y_offset) {
  const int coordinates[4] = {channel, x, y, image};
  const int offsets[2] = {x_offset, y_offset};
  emulated_tma_load_im2col(shared, map, barrier, coordinates, offsets);
}

// fence.proxy.async (PTX ISA, membar / fence).
__device__ __forceinline__ void fence_proxy_async() {
  emulated_fence_proxy_async();
}

// fence.proxy.async.global
__device__ __forceinline__ void fence_proxy_async_global() {
  emulated_fence_proxy_async_global();
}
