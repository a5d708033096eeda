// Rows of 16 bits that begin at any element, dealt to threads by pairs of columns: thread number t of
// a row's n has pairs t, t + n ... whatever the address, so that what belongs to a column stays
// with a thread. Between global memory and the threads lies shared memory: a block's rows travel as
// one piece, which is cut into vectors (row_vector.cuh), and only there are they taken apart.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/device/row_vector.cuh"

// Where a piece lies that is brought to `place`: it begins where in a vector it begins in global
// memory.
__device__ __forceinline__ unsigned char *piece_at(unsigned char *place, const void *rows) {
  return place + (uint64_t)rows % 16;
}

// An element at an end of a piece, on its way; column: of the piece, below 0 where there is none.
struct PieceEdge {
  uint32_t bits;
  int column;
};

// Sends a piece on its way to shared memory: vectors number `first`, `first` + stride ..., `count` of
// them at most, as a group of copies, and the edge element number `first`. The latter arrives by
// put_edge(), a thread's last word on a piece, once it has waited for its copies.
__device__ __forceinline__ PieceEdge send_piece(const void *rows, RowCut cut, int first, int stride,
                                                int count, unsigned char *piece) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int byte = vector_column(cut, 2, first + i * stride) * 2;
    if (first + i * stride < cut.vectors)
      cp_async_16(shared_address(piece) + byte, (const unsigned char *)rows + byte, 16);
  }
  cp_async_commit();
  PieceEdge edge = {0, first < cut.edges ? edge_column(cut, first) : -1};
  if (edge.column >= 0)
    edge.bits = load_element(rows, 2, edge.column);
  return edge;
}

__device__ __forceinline__ void put_edge(PieceEdge edge, unsigned char *piece) {
  if (edge.column >= 0)
    store_element(piece, 2, edge.column, edge.bits);
}

// Takes a piece to where its rows belong, likewise.
__device__ __forceinline__ void return_piece(void *rows, RowCut cut, int first, int stride,
                                             int count, const unsigned char *piece) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int byte = vector_column(cut, 2, first + i * stride) * 2;
    if (first + i * stride < cut.vectors)
      *(uint4 *)((unsigned char *)rows + byte) = *(const uint4 *)(piece + byte);
  }
  if (first < cut.edges)
    store_element(rows, 2, edge_column(cut, first),
                  load_element(piece, 2, edge_column(cut, first)));
}

// Which pairs of a thread a row has, a bit each, from the lowest on: by their first columns, and by
// their second ones.
struct PairsThere {
  uint32_t first, second;
};

// Pairs number `first`, `first` + stride ..., `count` of them, 31 at most. stride: a power of two
__device__ __forceinline__ PairsThere pairs_there(int columns, int first, int stride, int count) {
  const int firsts = ((columns + 1) / 2 - first + stride - 1) / stride;
  const int seconds = (columns / 2 - first + stride - 1) / stride;
  const PairsThere there = {(1u << min(max(firsts, 0), count)) - 1,
                            (1u << min(max(seconds, 0), count)) - 1};
  return there;
}

// Whether the pairs of a row are words.
__device__ __forceinline__ bool are_words(const void *row, int columns) {
  return (uint64_t)row % 4 == 0 && columns % 2 == 0;
}

// These pairs; 0 where the row has none. pair: (count)
__device__ __forceinline__ void load_pairs(const void *row, int columns, PairsThere there,
                                           int first, int stride, int count, uint32_t *pair) {
  if (are_words(row, columns)) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      pair[i] = 0;
      if (there.first >> i & 1)
        pair[i] = load_element(row, 4, first + i * stride);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < count; ++i) {
    uint32_t second = 0;
    pair[i] = 0;
    if (there.first >> i & 1)
      pair[i] = load_element(row, 2, 2 * (first + i * stride));
    if (there.second >> i & 1)
      second = load_element(row, 2, 2 * (first + i * stride) + 1);
    pair[i] |= second << 16;
  }
}

// The other way round.
__device__ __forceinline__ void store_pairs(void *row, int columns, PairsThere there, int first,
                                            int stride, int count, const uint32_t *pair) {
  if (are_words(row, columns)) {
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (there.first >> i & 1)
        store_element(row, 4, first + i * stride, pair[i]);
    return;
  }
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (there.first >> i & 1)
      store_element(row, 2, 2 * (first + i * stride), pair[i] & 0xffff);
    if (there.second >> i & 1)
      store_element(row, 2, 2 * (first + i * stride) + 1, pair[i] >> 16);
  }
}
