// Rows that are normalised: moments of a row that several threads share, parameters that every row
// has in common, and rows whose columns lie at the same threads whatever address they begin at.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/lanes.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/device/ptx_cp_async_4.cuh"
#include "attnpress/device/ptx_global.cuh"
#include "attnpress/device/ptx_opaque.cuh"
#include "attnpress/device/row_vector.cuh"

// What a part of a row's values amounts to: how many there are, their mean, and the sum of squared
// differences to it.
struct Moments {
  float count, mean, squares;
};

// Those of both parts; none of their values, where both are empty (Chan, Golub and LeVeque 1979).
__device__ __forceinline__ Moments add_moments(Moments a, Moments b) {
  const float count = a.count + b.count, share = count == 0.0f ? 0.0f : b.count / count;
  const float difference = b.mean - a.mean;
  const Moments both = {count, a.mean + difference * share,
                        a.squares + b.squares + difference * difference * a.count * share};
  return both;
}

// Those of `count` values. value: (count)
__device__ __forceinline__ Moments moments_of(const float *value, int count) {
  Moments part = {(float)count, 0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < count; ++i)
    part.mean += value[i];
  part.mean *= 1.0f / count;
#pragma unroll
  for (int i = 0; i < count; ++i)
    part.squares += (value[i] - part.mean) * (value[i] - part.mean);
  return part;
}

// Over the parts that `lanes` neighbouring lanes hold.
__device__ __forceinline__ Moments add_moments_of_lanes(Moments part, int lanes) {
  const float count = sum_lanes(part.count, lanes);
  const float mean = sum_lanes(part.count * part.mean, lanes) / fmaxf(count, 1.0f);
  const float difference = part.count == 0.0f ? 0.0f : part.mean - mean;
  const Moments all = {count, mean,
                       sum_lanes(part.squares + part.count * difference * difference, lanes)};
  return all;
}

// ---- Parameters: (columns), of a dtype of their own -----------------------------------------------

// The 16-byte words, 4-byte ones where there are fewer, that hold `count` values of `size` bytes from
// `column` on; the values one after the other in `word`. `whole`: all of them exist, at addresses
// that are multiples of their size, of 16 bytes at most. word: (count * size / 4)
__device__ __forceinline__ void load_parameter_words(const void *parameter, int size, int column,
                                                     int columns, int count, bool whole,
                                                     uint32_t *word) {
  const unsigned char *from = (const unsigned char *)parameter + (int64_t)column * size;
  const int words = count * size / 4;
  if (whole) {
    if (words == 2) {
      const uint2 pair = *(const uint2 *)from;
      word[0] = pair.x;
      word[1] = pair.y;
      return;
    }
#pragma unroll
    for (int i = 0; i < words; i += 4) {
      const uint4 four = *(const uint4 *)(from + i * 4);
      word[i] = four.x;
      word[i + 1] = four.y;
      word[i + 2] = four.z;
      word[i + 3] = four.w;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < words; ++i) {
    const int at = column + i * (4 / size); // the first column of the word
    word[i] = 0;
    if (at < columns)
      word[i] = load_element(parameter, size, at);
    if (size == 2 && at + 1 < columns)
      word[i] |= load_element(parameter, size, at + 1) << 16;
  }
}

// Whether `count` values from `column` on can be read at once.
__device__ __forceinline__ bool is_parameter_whole(const void *parameter, int size, int column,
                                                   int columns, int count) {
  const int bytes = min(count * size, 16);
  return ((uint64_t)parameter + (int64_t)column * size) % bytes == 0 && column + count <= columns;
}

// The words of `count` elements of 16 bits that exist, from any one on; 0 unless `has`: those that
// lie at multiples of a word by words. Without a branch for each vector, so that all loads of a
// thread are on their way before the first is waited for. word: (count / 2), at most 4
__device__ __forceinline__ void load_halves(const unsigned char *from, bool has, int count,
                                            uint32_t *word) {
  const int words = count / 2;
  const bool even = (uint64_t)from % 4 == 0;
  const unsigned char *const middle = from + (even ? 0 : 2);
  const uint32_t first = load_2_if(has && !even, from, 0);
  const uint32_t half = load_2_if(has && !even, from + count * 2 - 2, 0);
  const uint32_t last = load_4_if(has && even, from + count * 2 - 4, half);
  uint32_t loaded[4];
#pragma unroll
  for (int j = 0; j < words - 1; ++j)
    loaded[j] = load_4_if(has, middle + j * 4, 0);
  loaded[words - 1] = last;
#pragma unroll
  for (int j = 0; j < words; ++j) {
    const uint32_t before = j == 0 ? first : loaded[j - 1] >> 16;
    word[j] = even ? loaded[j] : before | loaded[j] << 16;
  }
}

// The words of a thread's part of a parameter: of vectors number `first`, `first` + stride ... of
// `elements` columns, `count` of them; 0 beyond the row. word: (count, elements * size / 4)
__device__ __forceinline__ void load_parameter_vectors(const void *parameter, int size, int columns,
                                                       int elements, int first, int stride,
                                                       int count, uint32_t *word) {
  const int words = elements * size / 4;
  if (is_parameter_whole(parameter, size, 0, columns, elements) && columns % elements == 0) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int column = (first + i * stride) * elements;
#pragma unroll
      for (int j = 0; j < words; ++j)
        word[i * words + j] = 0;
      if (column < columns)
        load_parameter_words(parameter, size, column, columns, elements, true, word + i * words);
    }
    return;
  }
  // Elsewhere one vector after the other, as a loop, so that this takes little code: they come in at
  // the end, and those before move up.
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    uint32_t loaded[8];
    load_parameter_words(parameter, size, (first + i * stride) * elements, columns, elements, false,
                         loaded);
#pragma unroll
    for (int j = 0; j < (count - 1) * words; ++j)
      word[j] = word[j + words];
#pragma unroll
    for (int j = 0; j < words; ++j)
      word[(count - 1) * words + j] = loaded[j];
  }
}

// Their values. value: (count)
__device__ __forceinline__ void widen_words_fp16(const uint32_t *word, int count, float *value) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    value[i] = widen_element_fp16(word[i / 2] >> i % 2 * 16 & 0xffff);
}

__device__ __forceinline__ void widen_words_bf16(const uint32_t *word, int count, float *value) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    value[i] = __builtin_bit_cast(float, i % 2 ? word[i / 2] & 0xffff0000 : word[i / 2] << 16);
}

__device__ __forceinline__ void widen_words_fp32(const uint32_t *word, int count, float *value) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    value[i] = __builtin_bit_cast(float, word[i]);
}

// The same words, from which the compiler has made nothing yet: a parameter that is kept for many
// rows is kept as it is, and widened for each. word: (count)
__device__ __forceinline__ void renew_words(const uint32_t *word, int count, uint32_t *renewed) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    renewed[i] = opaque(word[i]);
}

// ---- Rows whose vector number i begins at column i * (16 / size), at any address -------------------

// Vectors `first`, `first` + stride ... of a row, `count` of them; elements that the row does not
// have are 0. vector: (count)
__device__ __forceinline__ void load_columns(const void *row, int size, int columns, int first,
                                             int stride, int count, uint4 *vector) {
  const int elements = 16 / size;
  // One branch for all: every load of a thread is on its way before the first is waited for.
  if ((uint64_t)row % 16 == 0 && columns % elements == 0) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const uint4 nothing = {0, 0, 0, 0};
      vector[i] = nothing;
      if ((first + i * stride) * elements < columns)
        vector[i] = load_vector(row, size, (first + i * stride) * elements);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int column = (first + i * stride) * elements;
    uint32_t word[4];
    load_parameter_words(row, size, column, columns, elements, false, word);
    const uint4 loaded = {word[0], word[1], word[2], word[3]};
    vector[i] = loaded;
  }
}

// The elements that `lanes` threads from number `first` on have of a row that `stride` threads
// share, in `count` vectors of `elements` each.
__device__ __forceinline__ int count_columns(int columns, int elements, int first, int lanes,
                                             int stride, int count) {
  int sum = 0;
#pragma unroll
  for (int i = 0; i < count; ++i)
    sum += min(max(columns - (i * stride + first) * elements, 0), lanes * elements);
  return sum;
}

// The same vectors as of load_columns() on their way to shared memory, `apart` from each other
// there; they are the thread's own, and there once the thread has waited for the copies that it has
// committed.
__device__ __forceinline__ void copy_columns(const void *row, int size, int columns, int first,
                                             int stride, int count, uint4 *shared, int apart) {
  const int elements = 16 / size;
  if ((uint64_t)row % 16 == 0 && columns % elements == 0) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int column = (first + i * stride) * elements;
      const bool has = column < columns;
      // 0 bytes are read where the row has no more, and 16 zeros written.
      cp_async_16(shared_address(shared + i * apart),
                  (const unsigned char *)row + (int64_t)(has ? column : 0) * size, has ? 16 : 0);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < count; ++i)
    load_columns(row, size, columns, first + i * stride, 0, 1, shared + i * apart);
}

// Stores vector number `index`, as far as the row has it.
__device__ __forceinline__ void store_columns(void *row, int size, int columns, int index,
                                              uint4 vector) {
  const int elements = 16 / size, column = index * elements;
  if ((uint64_t)row % 16 == 0 && columns % elements == 0) {
    if (column < columns)
      *(uint4 *)((unsigned char *)row + (int64_t)column * size) = vector;
    return;
  }
  const uint32_t word[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
  for (int i = 0; i < elements; ++i)
    if (column + i < columns)
      store_element(row, size, column + i,
                    size == 2 ? word[i / 2] >> i % 2 * 16 & 0xffff : word[i]);
}

// The same of what nobody reads soon.
__device__ __forceinline__ void stream_columns(void *row, int size, int columns, int index,
                                               uint4 vector) {
  const int elements = 16 / size, column = index * elements;
  if ((uint64_t)row % 16 == 0 && columns % elements == 0)
    stream_16_if(column < columns, (unsigned char *)row + (int64_t)column * size, vector);
  else
    store_columns(row, size, columns, index, vector);
}

// ---- Rows of 4 bytes an element that begin anywhere: element j of a thread's vector i is column
// (4 i + j) * stride + first, so that neighbouring threads have neighbouring elements -------------

__device__ __forceinline__ void load_scattered(const void *row, int columns, int first, int stride,
                                               int count, uint4 *vector) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    uint32_t word[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int column = (4 * i + j) * stride + first;
      word[j] = load_4_if(column < columns, (const float *)row + column, 0);
    }
    const uint4 loaded = {word[0], word[1], word[2], word[3]};
    vector[i] = loaded;
  }
}

// Stores vector number `index` of a thread.
__device__ __forceinline__ void store_scattered(void *row, int columns, int first, int stride,
                                                int index, uint4 vector) {
  const uint32_t word[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int column = (4 * index + j) * stride + first;
    store_4_if(column < columns, (float *)row + column, word[j]);
  }
}

// A parameter of elements of `size` bytes, of which element j of vector i is column first + i * stride +
// j * apart; 0 where the row has none. Its words as load_parameter_vectors() has them.
__device__ __forceinline__ void load_scattered_parameter(const void *parameter, int size,
                                                         int columns, int first, int stride,
                                                         int apart, int count, uint32_t *word) {
  // A loop, so that this takes little code: elements come in at the end, and those before move up.
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < (count - 1) * size; ++j)
      word[j] = word[j + size];
    uint32_t bits[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int column = first + i * stride + j * apart;
      bits[j] = (uint32_t)column < (uint32_t)columns ? load_element(parameter, size, column) : 0;
    }
#pragma unroll
    for (int j = 0; j < size; ++j)
      word[(count - 1) * size + j] = size == 4 ? bits[j] : bits[2 * j] | bits[2 * j + 1] << 16;
  }
}

// ---- Rows of 4 bytes an element that begin anywhere, by fours of columns from any one on, also from
// one before the first: those that lie at multiples of 16 bytes as vectors -------------------------

__device__ __forceinline__ bool is_vector(const void *row, int columns, int column) {
  return column >= 0 && column + 4 <= columns && ((uint64_t)row + (int64_t)column * 4) % 16 == 0;
}

__device__ __forceinline__ bool has_column(int columns, int column) {
  return (uint32_t)column < (uint32_t)columns;
}

// Four columns on their way to shared memory, one by one.
__device__ __forceinline__ void copy_four_by_elements(const void *row, int columns, int column,
                                                      uint4 *shared) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const bool has = has_column(columns, column + j);
    cp_async_4(shared_address(shared) + 4 * j, (const float *)row + (has ? column + j : 0),
               has ? 4 : 0);
  }
}

// `count` fours from column `first` on, `stride` columns apart, on their way to shared memory, as of
// copy_columns(). Only the first may begin before the row. `aligned`: they are at multiples of 16 bytes.
__device__ __forceinline__ void copy_fours(const void *row, int columns, bool aligned, int first,
                                           int stride, int count, uint4 *shared, int apart) {
  if (!aligned) {
    // A loop, so that this takes little code: nothing is waited for.
#pragma unroll 1
    for (int i = 0; i < count; ++i)
      copy_four_by_elements(row, columns, first + i * stride, shared + i * apart);
    return;
  }
  // Where the row has no more, no byte is read, but the address has to be one of vectors.
  const void *const nothing = (const void *)((uint64_t)row / 16 * 16);
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int column = first + i * stride;
    const bool has = column < columns;
    if ((i > 0 || column >= 0) && (column + 4 <= columns || !has))
      cp_async_16(shared_address(shared + i * apart), has ? (const float *)row + column : nothing,
                  has ? 16 : 0);
  }
  // What is left are the row's ends. That behind may be in other fours of the thread than these.
  if (first < 0)
    copy_four_by_elements(row, columns, first, shared);
  const int last = (columns - 1 - first) / stride, column = first + last * stride;
  if ((uint32_t)last < (uint32_t)count && column >= 0 && column < columns && column + 4 > columns)
    copy_four_by_elements(row, columns, column, shared + last * apart);
}

__device__ __forceinline__ uint4 load_four(const void *row, int columns, int column) {
  const float *const from = (const float *)row + column;
  if (is_vector(row, columns, column))
    return *(const uint4 *)from;
  uint32_t word[4];
#pragma unroll
  for (int j = 0; j < 4; ++j)
    word[j] = load_4_if(has_column(columns, column + j), from + j, 0);
  const uint4 loaded = {word[0], word[1], word[2], word[3]};
  return loaded;
}

__device__ __forceinline__ void store_four(void *row, int columns, int column, uint4 vector) {
  float *const to = (float *)row + column;
  if (is_vector(row, columns, column)) {
    *(uint4 *)to = vector;
    return;
  }
  const uint32_t word[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
  for (int j = 0; j < 4; ++j)
    store_4_if(has_column(columns, column + j), to + j, word[j]);
}

// The same vectors, from which the compiler has made nothing yet: a row is kept as it is, and widened
// for each use. vector: (count)
__device__ __forceinline__ void renew_vectors(uint4 *vector, int count) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    vector[i].x = opaque(vector[i].x);
    vector[i].y = opaque(vector[i].y);
    vector[i].z = opaque(vector[i].z);
    vector[i].w = opaque(vector[i].w);
  }
}
