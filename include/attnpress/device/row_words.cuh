// Rows of elements of four bytes, at any address: a thread's element number i is that of column
// first + i * stride, and neighbouring threads have neighbouring columns. So a warp reads and writes
// up to 128 bytes in a row each time, wherever they begin, and a thread's columns are the same in all
// rows. Elements are their bits here, four of them a vector; what a row does not have is 0, and not
// written.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async_4.cuh"
#include "attnpress/device/ptx_global.cuh"

// A thread's elements from number 4 * `index` on, in `count` vectors. vector: (count)
__device__ __forceinline__ void load_words(const void *row, int columns, int first, int stride,
                                           int index, int count, uint4 *vector) {
  const uint32_t *const from = (const uint32_t *)row + first;
#pragma unroll
  for (int i = index; i < index + count; ++i) {
    uint32_t word[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int column = (i * 4 + j) * stride;
      word[j] = load_4_if(first + column < columns, from + column, 0);
    }
    const uint4 loaded = {word[0], word[1], word[2], word[3]};
    vector[i - index] = loaded;
  }
}

// `count` vectors of a thread's on their way to shared memory, where words are `apart` from each
// other.
__device__ __forceinline__ void copy_words(const void *row, int columns, int first, int stride,
                                           int count, uint32_t *shared, int apart) {
  const uint32_t *const from = (const uint32_t *)row + first;
  const uint32_t to = shared_address(shared);
#pragma unroll
  for (int i = 0; i < 4 * count; ++i) {
    // 0 bytes are read where the row has no more, and a zero written.
    const int bytes = first + i * stride < columns ? 4 : 0;
    cp_async_4(to + i * apart * 4, from + i * stride, bytes);
  }
}

// Vector number `index` of those.
__device__ __forceinline__ uint4 take_words(const uint32_t *shared, int index, int apart) {
  const uint32_t *const from = shared + index * 4 * apart;
  const uint4 vector = {from[0], from[apart], from[2 * apart], from[3 * apart]};
  return vector;
}

// Stores a thread's elements from number 4 * `index` on.
__device__ __forceinline__ void store_words(void *row, int columns, int first, int stride,
                                            int index, uint4 vector) {
  uint32_t *const to = (uint32_t *)row + first;
  const uint32_t word[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int column = (index * 4 + j) * stride;
    store_4_if(first + column < columns, to + column, word[j]);
  }
}

// The words of a parameter of `size` bytes for the columns of `count` vectors of a thread from number
// `index` on; 0 beyond the row. word: (count, size)
__device__ __forceinline__ void load_parameter_apart(const void *parameter, int size, int columns,
                                                     int first, int stride, int index, int count,
                                                     uint32_t *word) {
#pragma unroll
  for (int i = 0; i < 4 * count; ++i) {
    const int column = first + (index * 4 + i) * stride;
    const unsigned char *const from = (const unsigned char *)parameter + (int64_t)column * size;
    if (size == 4) {
      word[i] = load_4_if(column < columns, from, 0);
    } else {
      const uint32_t half = load_2_if(column < columns, from, 0);
      word[i / 2] = i % 2 ? word[i / 2] | half << 16 : half;
    }
  }
}
