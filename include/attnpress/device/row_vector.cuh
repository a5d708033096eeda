// Rows of elements, read and written 16 bytes at a time although a row may begin at any element:
// it is cut where addresses are multiples of 16 bytes. What lies between the first and the last cut
// are vectors, dealt to the threads of the row in turn; what lies outside are its edges, fewer
// elements than two vectors have, dealt likewise. Elements are their bits here, 2 or 4 bytes of
// them (`size`); a bf16 is the upper half of an fp32.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/ptx_cvt.cuh"
#include "attnpress/device/ptx_global.cuh"
#include "attnpress/device/ptx_min_max.cuh"
#include "attnpress/device/ptx_prefetch.cuh"
#include "attnpress/device/ptx_widen.cuh"

struct RowCut {
  int head;    // elements before the first vector
  int vectors; // of 16 bytes
  int edges;   // elements before the first vector and after the last
  int columns;
};

// Cuts a row of `columns` elements of `size` bytes.
__device__ __forceinline__ RowCut cut_row(const void *row, int size, int columns) {
  RowCut cut;
  cut.head = min((int)(-(uint64_t)row % 16) / size, columns);
  cut.vectors = (columns - cut.head) / (16 / size);
  cut.edges = columns - cut.vectors * (16 / size);
  cut.columns = columns;
  return cut;
}

// The column where a vector begins, and that of an edge element.
__device__ __forceinline__ int vector_column(RowCut cut, int size, int vector) {
  return cut.head + vector * (16 / size);
}

__device__ __forceinline__ int edge_column(RowCut cut, int edge) {
  return edge < cut.head ? edge : cut.columns - cut.edges + edge;
}

__device__ __forceinline__ uint32_t load_element(const void *row, int size, int column) {
  return size == 2 ? ((const uint16_t *)row)[column] : ((const uint32_t *)row)[column];
}

__device__ __forceinline__ void store_element(void *row, int size, int column, uint32_t bits) {
  if (size == 2)
    ((uint16_t *)row)[column] = (uint16_t)bits;
  else
    ((uint32_t *)row)[column] = bits;
}

// Whether a row has its vectors at multiples of 16 bytes, too, where another was cut.
__device__ __forceinline__ bool is_cut_alike(const void *row, int size, RowCut cut) {
  return ((uint64_t)row + cut.head * size) % 16 == 0;
}

// A vector of a row that is cut alike.
__device__ __forceinline__ uint4 load_vector(const void *row, int size, int column) {
  return *(const uint4 *)((const unsigned char *)row + (int64_t)column * size);
}

// A vector of a row that is not cut alike, by elements.
__device__ __forceinline__ uint4 load_vector_by_elements(const void *row, int size, int column) {
  uint32_t word[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (size == 2)
      word[i] = load_element(row, 2, column + 2 * i) | load_element(row, 2, column + 2 * i + 1)
                                                           << 16;
    else
      word[i] = load_element(row, 4, column + i);
  }
  const uint4 vector = {word[0], word[1], word[2], word[3]};
  return vector;
}

__device__ __forceinline__ void store_vector_by_elements(void *row, int size, int column,
                                                         uint4 vector) {
  const uint32_t word[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (size == 2) {
      store_element(row, 2, column + 2 * i, word[i] & 0xffff);
      store_element(row, 2, column + 2 * i + 1, word[i] >> 16);
    } else {
      store_element(row, 4, column + i, word[i]);
    }
  }
}

// Vectors `first`, `first` + stride ... of the row that was cut, `count` of them; their words are
// `filler` where the row has no more. vector: (count)
__device__ __forceinline__ void load_own_vectors(const void *row, int size, RowCut cut, int first,
                                                 int stride, int count, uint32_t filler,
                                                 uint4 *vector) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int index = first + i * stride;
    vector[i] = load_16_if(
        index < cut.vectors,
        (const unsigned char *)row + (int64_t)vector_column(cut, size, index) * size, filler);
  }
}

// The same of a row that is dealt to the threads as another was cut.
__device__ __forceinline__ void load_vectors(const void *row, int size, RowCut cut, int first,
                                             int stride, int count, uint32_t filler,
                                             uint4 *vector) {
  // One branch for all: every load of a thread is on its way before the first is waited for.
  if (is_cut_alike(row, size, cut)) {
    load_own_vectors(row, size, cut, first, stride, count, filler, vector);
    return;
  }
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const uint4 nothing = {filler, filler, filler, filler};
    vector[i] = nothing;
    if (first + i * stride < cut.vectors)
      vector[i] = load_vector_by_elements(row, size, vector_column(cut, size, first + i * stride));
  }
}

// Edge elements `first`, `first` + stride ... likewise. edge: (count)
__device__ __forceinline__ void load_edges(const void *row, int size, RowCut cut, int first,
                                           int stride, int count, uint32_t filler, uint32_t *edge) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int index = first + i * stride;
    const unsigned char *element =
        (const unsigned char *)row + (int64_t)edge_column(cut, index) * size;
    edge[i] = size == 2 ? load_2_if(index < cut.edges, element, filler)
                        : load_4_if(index < cut.edges, element, filler);
  }
}

// Stores vectors `first`, `first` + stride ..., those that the row has. vector: (count)
__device__ __forceinline__ void store_vectors(void *row, int size, RowCut cut, int first,
                                              int stride, int count, const uint4 *vector) {
  if (is_cut_alike(row, size, cut)) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int index = first + i * stride;
      store_16_if(index < cut.vectors,
                  (unsigned char *)row + (int64_t)vector_column(cut, size, index) * size,
                  vector[i]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < count; ++i)
    if (first + i * stride < cut.vectors)
      store_vector_by_elements(row, size, vector_column(cut, size, first + i * stride), vector[i]);
}

// Stores vector number `index`, if the row has it.
__device__ __forceinline__ void store_vector(void *row, int size, RowCut cut, int index,
                                             uint4 vector) {
  store_vectors(row, size, cut, index, 0, 1, &vector);
}

// Stores edge elements likewise. edge: (count)
__device__ __forceinline__ void store_edges(void *row, int size, RowCut cut, int first, int stride,
                                            int count, const uint32_t *edge) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int index = first + i * stride;
    unsigned char *element = (unsigned char *)row + (int64_t)edge_column(cut, index) * size;
    if (size == 2)
      store_2_if(index < cut.edges, element, edge[i]);
    else
      store_4_if(index < cut.edges, element, edge[i]);
  }
}

// Stores edge element number `index`, if the row has it.
__device__ __forceinline__ void store_edge(void *row, int size, RowCut cut, int index,
                                           uint32_t bits) {
  store_edges(row, size, cut, index, 0, 1, &bits);
}

// Rows that are to be written lie apart, and what lies between them stays as it is: brings the
// sectors of 32 bytes to the L2 cache that this row has but a part of. Written in part and evicted,
// they would be fetched then, at a higher price.
__device__ __forceinline__ void prefetch_ends(const void *row, int size, int columns) {
  const unsigned char *begin = (const unsigned char *)row, *end = begin + (int64_t)columns * size;
  if ((uint64_t)begin % 32 != 0)
    prefetch_l2(begin);
  if ((uint64_t)end % 32 != 0)
    prefetch_l2(end - size);
}

// prefetch_ends() by the first two threads of the row, an end each.
__device__ __forceinline__ void prefetch_ends_by_two(const void *row, int size, int columns,
                                                     int thread) {
  const unsigned char *const end = (const unsigned char *)row + (int64_t)thread * columns * size;
  if (thread < 2 && (uint64_t)end % 32 != 0)
    prefetch_l2(end - thread * size);
}

// Brings a row to the L2 cache that another block will soon read: a line of 128 bytes each, from
// thread number `first` of `stride`.
__device__ __forceinline__ void prefetch_row(const void *row, int size, int columns, int first,
                                             int stride) {
  for (int line = first; line * 128 < columns * size; line += stride)
    prefetch_l2((const unsigned char *)row + line * 128);
}

// ---- Values: an element, and the 16 / size elements of a vector ---------------------------------

__device__ __forceinline__ float widen_element_fp16(uint32_t bits) {
  return widen_fp16((uint16_t)bits);
}

__device__ __forceinline__ float widen_element_bf16(uint32_t bits) {
  return __builtin_bit_cast(float, bits << 16);
}

__device__ __forceinline__ float widen_element_fp32(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

__device__ __forceinline__ uint32_t narrow_element_fp16(float value) {
  return pack_fp16(value, 0.0f);
}

__device__ __forceinline__ uint32_t narrow_element_bf16(float value) {
  return pack_bf16(value, 0.0f);
}

__device__ __forceinline__ uint32_t narrow_element_fp32(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

// Words whose elements are -inf when they are multiplied by `scale`, which is not 0.
__device__ __forceinline__ uint32_t filler_fp16(float scale) {
  return scale < 0.0f ? 0x7c007c00 : 0xfc00fc00;
}

__device__ __forceinline__ uint32_t filler_bf16(float scale) {
  return scale < 0.0f ? 0x7f807f80 : 0xff80ff80;
}

__device__ __forceinline__ uint32_t filler_fp32(float scale) {
  return scale < 0.0f ? 0x7f800000 : 0xff800000;
}

// ---- The largest element, or, if `negative`, the largest of the elements times -1 ----------------

__device__ __forceinline__ uint32_t word_of(uint4 vector, int word) {
  return word == 0 ? vector.x : word == 1 ? vector.y : word == 2 ? vector.z : vector.w;
}

// vector: (count)
__device__ __forceinline__ float max_vectors_fp16(const uint4 *vector, int count, bool negative) {
  uint32_t pair = vector[0].x;
  if (negative) {
#pragma unroll
    for (int i = 1; i < 4 * count; ++i)
      pair = min_fp16x2(pair, word_of(vector[i / 4], i % 4));
    return -fminf(widen_element_fp16(pair & 0xffff), widen_element_fp16(pair >> 16));
  }
#pragma unroll
  for (int i = 1; i < 4 * count; ++i)
    pair = max_fp16x2(pair, word_of(vector[i / 4], i % 4));
  return fmaxf(widen_element_fp16(pair & 0xffff), widen_element_fp16(pair >> 16));
}

// vector: (count)
__device__ __forceinline__ float max_vectors_bf16(const uint4 *vector, int count, bool negative) {
  uint32_t pair = vector[0].x;
  if (negative) {
#pragma unroll
    for (int i = 1; i < 4 * count; ++i)
      pair = min_bf16x2(pair, word_of(vector[i / 4], i % 4));
    return -fminf(widen_element_bf16(pair), __builtin_bit_cast(float, pair & 0xffff0000));
  }
#pragma unroll
  for (int i = 1; i < 4 * count; ++i)
    pair = max_bf16x2(pair, word_of(vector[i / 4], i % 4));
  return fmaxf(widen_element_bf16(pair), __builtin_bit_cast(float, pair & 0xffff0000));
}

// vector: (count)
__device__ __forceinline__ float max_vectors_fp32(const uint4 *vector, int count, bool negative) {
  float value = widen_element_fp32(vector[0].x);
  if (negative) {
#pragma unroll
    for (int i = 1; i < 4 * count; ++i)
      value = fminf(value, widen_element_fp32(word_of(vector[i / 4], i % 4)));
    return -value;
  }
#pragma unroll
  for (int i = 1; i < 4 * count; ++i)
    value = fmaxf(value, widen_element_fp32(word_of(vector[i / 4], i % 4)));
  return value;
}

// ---- Vectors of values ---------------------------------------------------------------------------

// value: (8)
__device__ __forceinline__ void widen_vector_fp16(uint4 vector, float *value) {
  const uint32_t word[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    value[2 * i] = widen_element_fp16(word[i] & 0xffff);
    value[2 * i + 1] = widen_element_fp16(word[i] >> 16);
  }
}

// value: (8)
__device__ __forceinline__ void widen_vector_bf16(uint4 vector, float *value) {
  const uint32_t word[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    value[2 * i] = __builtin_bit_cast(float, word[i] << 16);
    value[2 * i + 1] = __builtin_bit_cast(float, word[i] & 0xffff0000);
  }
}

// value: (4)
__device__ __forceinline__ void widen_vector_fp32(uint4 vector, float *value) {
  const uint32_t word[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    value[i] = widen_element_fp32(word[i]);
}

// value: (8)
__device__ __forceinline__ uint4 narrow_vector_fp16(const float *value) {
  const uint4 vector = {pack_fp16(value[0], value[1]), pack_fp16(value[2], value[3]),
                        pack_fp16(value[4], value[5]), pack_fp16(value[6], value[7])};
  return vector;
}

// value: (8)
__device__ __forceinline__ uint4 narrow_vector_bf16(const float *value) {
  const uint4 vector = {pack_bf16(value[0], value[1]), pack_bf16(value[2], value[3]),
                        pack_bf16(value[4], value[5]), pack_bf16(value[6], value[7])};
  return vector;
}

// value: (4)
__device__ __forceinline__ uint4 narrow_vector_fp32(const float *value) {
  const uint4 vector = {narrow_element_fp32(value[0]), narrow_element_fp32(value[1]),
                        narrow_element_fp32(value[2]), narrow_element_fp32(value[3])};
  return vector;
}
