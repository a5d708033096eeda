// Leaf header: the copy engine (TMA). One PTX instruction a function.
#pragma once

#include "attnpress/args/common.h"

// prefetch.tensormap: fetches a tensor map ahead of its first use.
__device__ __forceinline__ void prefetch_tensor_map(const attnpress_tensor_map *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes: copies the map's box
// that begins at element (c0, c1, c2, c3), c0 counted along the contiguous dimension, to `shared`,
// and then counts its bytes off `barrier`. Elements outside the tensor arrive as zeros and count as
// well. With the 128-byte swizzle `shared` is aligned to 1,024 bytes.
__device__ __forceinline__ void tma_load_4d(uint32_t shared, const attnpress_tensor_map *map,
                                            uint32_t barrier, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared),
               "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}

// cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes: the same in five
// dimensions.
__device__ __forceinline__ void tma_load_5d(uint32_t shared, const attnpress_tensor_map *map,
                                            uint32_t barrier, int c0, int c1, int c2, int c3,
                                            int c4) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared),
               "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
               : "memory");
}

// cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes: the pixels of
// an im2col map of (images, lines, pixels, channels), one after the other from (image, y, x) on,
// wherever the map's box of pixels goes on; of each the channels from `channel` on, moved by
// (y_offset, x_offset), which are 0 to 255: a tap of a filter. As above otherwise.
__device__ __forceinline__ void tma_load_im2col_4d(uint32_t shared, const attnpress_tensor_map *map,
                                                   uint32_t barrier, int channel, int x, int y,
                                                   int image, int x_offset, int y_offset) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(shared),
               "l"(map), "r"(barrier), "r"(channel), "r"(x), "r"(y), "r"(image),
               "h"((uint16_t)x_offset), "h"((uint16_t)y_offset)
               : "memory");
}

// fence.proxy.async.shared::cta: the copy engine and wgmma see what this thread wrote to shared
// memory with ordinary stores, or knows that others wrote, once they are ordered after this point.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// fence.proxy.async.global: the same of global memory.
__device__ __forceinline__ void fence_proxy_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}
