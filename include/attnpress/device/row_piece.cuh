// Rows that lie one after the other, in shared memory: a block's rows are brought there and back as
// one row, a piece, which has edges at its two ends only (row_vector.cuh). A piece begins where in a
// vector it begins in global memory, so that both are cut alike, and so are the rows in it.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/device/row_vector.cuh"

// Brings a piece to shared memory, vectors and edges number `first`, `first` + stride ...; waits for
// them. The threads meet afterwards.
__device__ __forceinline__ void load_piece(const void *row, int size, RowCut cut, int first,
                                           int stride, unsigned char *piece) {
  for (int i = first; i < cut.vectors; i += stride) {
    const int byte = vector_column(cut, size, i) * size;
    cp_async_16(shared_address(piece + byte), (const unsigned char *)row + byte, 16);
  }
  cp_async_commit();
  if (first < cut.edges)
    store_element(piece, size, edge_column(cut, first),
                  load_element(row, size, edge_column(cut, first)));
  cp_async_wait(0);
}

// The other way round.
__device__ __forceinline__ void store_piece(void *row, int size, RowCut cut, int first, int stride,
                                            const unsigned char *piece) {
  for (int i = first; i < cut.vectors; i += stride) {
    const int byte = vector_column(cut, size, i) * size;
    *(uint4 *)((unsigned char *)row + byte) = *(const uint4 *)(piece + byte);
  }
  if (first < cut.edges)
    store_element(row, size, edge_column(cut, first),
                  load_element(piece, size, edge_column(cut, first)));
}

// Vectors `first`, `first` + stride ... of a row in shared memory, `count` of them; their words are
// `filler` where the row has no more. vector: (count)
__device__ __forceinline__ void take_vectors(const unsigned char *row, int size, RowCut cut,
                                             int first, int stride, int count, uint32_t filler,
                                             uint4 *vector) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int index = first + i * stride;
    const uint4 nothing = {filler, filler, filler, filler};
    vector[i] = nothing;
    if (index < cut.vectors)
      vector[i] = *(const uint4 *)(row + vector_column(cut, size, index) * size);
  }
}

// Edge elements likewise. edge: (count)
__device__ __forceinline__ void take_edges(const unsigned char *row, int size, RowCut cut,
                                           int first, int stride, int count, uint32_t filler,
                                           uint32_t *edge) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int index = first + i * stride;
    edge[i] = filler;
    if (index < cut.edges)
      edge[i] = load_element(row, size, edge_column(cut, index));
  }
}

// Puts vectors where they were taken. vector: (count)
__device__ __forceinline__ void put_vectors(unsigned char *row, int size, RowCut cut, int first,
                                            int stride, int count, const uint4 *vector) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int index = first + i * stride;
    if (index < cut.vectors)
      *(uint4 *)(row + vector_column(cut, size, index) * size) = vector[i];
  }
}

// Edge elements likewise. edge: (count)
__device__ __forceinline__ void put_edges(unsigned char *row, int size, RowCut cut, int first,
                                          int stride, int count, const uint32_t *edge) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int index = first + i * stride;
    if (index < cut.edges)
      store_element(row, size, edge_column(cut, index), edge[i]);
  }
}
