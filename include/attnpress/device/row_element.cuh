// Rows of 16 bits that begin at any element, dealt to threads element by element: thread number t of
// a row's n has columns t, t + n ... whatever the address, so that what belongs to a column stays
// with a thread. Between global memory and the threads lies shared memory: a block's rows travel as
// one piece, by vectors (row_piece.cuh), and only there are they taken apart.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/device/row_piece.cuh"
#include "attnpress/device/row_vector.cuh"

// Where a piece lies that is brought to `place`: it begins where in a vector it begins in global
// memory.
__device__ __forceinline__ unsigned char *piece_at(unsigned char *place, const void *rows) {
  return place + (uint64_t)rows % 16;
}

// Sends a piece on its way to shared memory, vectors number `first`, `first` + stride ... as a group
// of copies, and gives the edge element number `first`, which may be on its way, too: put_edge() puts
// it where it belongs, and is the thread's last word on a piece whose copies it has waited for.
__device__ __forceinline__ uint32_t send_piece(const void *rows, RowCut cut, int first, int stride,
                                               unsigned char *piece) {
  for (int i = first; i < cut.vectors; i += stride) {
    const int byte = vector_column(cut, 2, i) * 2;
    cp_async_16(shared_address(piece + byte), (const unsigned char *)rows + byte, 16);
  }
  cp_async_commit();
  uint32_t edge;
  load_edges(rows, 2, cut, first, 0, 1, 0, &edge);
  return edge;
}

__device__ __forceinline__ void put_edge(RowCut cut, int first, uint32_t edge,
                                         unsigned char *piece) {
  if (first < cut.edges)
    store_element(piece, 2, edge_column(cut, first), edge);
}

// Elements at columns `first`, `first` + stride ... of a row, `count` of them, a multiple of 4; 0
// where it has no more. No row has more than `most` columns: four elements beyond cost one branch.
// element: (count)
__device__ __forceinline__ void load_elements(const void *row, int columns, int most, int first,
                                              int stride, int count, uint32_t *element) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    element[i] = 0;
#pragma unroll
  for (int i = 0; i < count; i += 4) {
    if (i * stride >= most)
      break;
#pragma unroll
    for (int j = i; j < i + 4; ++j)
      if (first + j * stride < columns)
        element[j] = load_element(row, 2, first + j * stride);
  }
}

// The other way round.
__device__ __forceinline__ void store_elements(void *row, int columns, int most, int first,
                                               int stride, int count, const uint32_t *element) {
#pragma unroll
  for (int i = 0; i < count; i += 4) {
    if (i * stride >= most)
      break;
#pragma unroll
    for (int j = i; j < i + 4; ++j)
      if (first + j * stride < columns)
        store_element(row, 2, first + j * stride, element[j]);
  }
}
