// Spans of a row: `count` neighbouring elements of `size` bytes from any column on, as words. They
// are read and written at once where they lie at a multiple of their size, 16 bytes at most, and
// one by one elsewhere. Elements at `columns` and beyond are no part of the row: they are read as 0
// and not written.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/row_norm.cuh"
#include "attnpress/device/row_vector.cuh"

// word: (count * size / 4)
__device__ __forceinline__ void load_span(const void *row, int size, int column, int columns,
                                          int count, uint32_t *word) {
  load_parameter_words(row, size, column, columns, count,
                       is_parameter_whole(row, size, column, columns, count), word);
}

// word: (count * size / 4)
__device__ __forceinline__ void store_span(void *row, int size, int column, int columns, int count,
                                           const uint32_t *word) {
  const int words = count * size / 4;
  unsigned char *to = (unsigned char *)row + (int64_t)column * size;
  if (is_parameter_whole(row, size, column, columns, count)) {
    if (words == 2) {
      const uint2 pair = {word[0], word[1]};
      *(uint2 *)to = pair;
      return;
    }
#pragma unroll
    for (int i = 0; i < words; i += 4) {
      const uint4 four = {word[i], word[i + 1], word[i + 2], word[i + 3]};
      *(uint4 *)(to + i * 4) = four;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < count; ++i)
    if (column + i < columns)
      store_element(row, size, column + i,
                    size == 2 ? word[i / 2] >> i % 2 * 16 & 0xffff : word[i]);
}

// ---- Words of values ----------------------------------------------------------------------------

// value: (count), word: (count / 2)
__device__ __forceinline__ void narrow_words_fp16(const float *value, int count, uint32_t *word) {
#pragma unroll
  for (int i = 0; i < count / 2; ++i)
    word[i] = pack_fp16(value[2 * i], value[2 * i + 1]);
}

// value: (count), word: (count / 2)
__device__ __forceinline__ void narrow_words_bf16(const float *value, int count, uint32_t *word) {
#pragma unroll
  for (int i = 0; i < count / 2; ++i)
    word[i] = pack_bf16(value[2 * i], value[2 * i + 1]);
}

// value, word: (count)
__device__ __forceinline__ void narrow_words_fp32(const float *value, int count, uint32_t *word) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    word[i] = __builtin_bit_cast(uint32_t, value[i]);
}
