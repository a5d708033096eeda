// Leaf header: what all widths of wgmma share. One PTX instruction a function; the products
// themselves are in ptx_wgmma_n<columns>.cuh.
#pragma once

#include "attnpress/args/common.h"

// The descriptor of a matrix of 16-bit elements in shared memory, stored with the 128-byte swizzle:
// atoms of 8 rows of 128 bytes, aligned to 1,024 bytes, in which the 16-byte chunk c of row r lies
// at chunk c ^ r. `shared` is the address of its first element before swizzling, a multiple of 16.
// `row_bytes`: from one atom to the next down the rows. `column_bytes`: from one atom to the next
// along the contiguous dimension; where the operand has k contiguous, unused.
__device__ __forceinline__ uint64_t wgmma_descriptor(uint32_t shared, int row_bytes,
                                                     int column_bytes) {
  return (uint64_t)(shared >> 4 & 0x3fff) | (uint64_t)(column_bytes >> 4) << 16 |
         (uint64_t)(row_bytes >> 4) << 32 | (uint64_t)1 << 62;
}

// The same of rows of `line_bytes`, 128, 64 or 32, with the swizzle of as many: atoms of 8 such rows,
// in which chunk c of row r lies at c ^ r, c ^ r / 2 or c ^ r / 4 % 2.
__device__ __forceinline__ uint64_t wgmma_descriptor_of_lines(uint32_t shared, int row_bytes,
                                                              int column_bytes, int line_bytes) {
  const uint64_t swizzle = line_bytes == 128 ? 1 : line_bytes == 64 ? 2 : 3;
  return (uint64_t)(shared >> 4 & 0x3fff) | (uint64_t)(column_bytes >> 4) << 16 |
         (uint64_t)(row_bytes >> 4) << 32 | swizzle << 62;
}

// wgmma.fence.sync.aligned: the accumulators and register operands that this warpgroup wrote are
// ready for the products that follow.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// wgmma.commit_group.sync.aligned: closes the group of the products since the last commit.
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// wgmma.wait_group.sync.aligned: waits until at most `pending` (0 to 8, a constant) of the latest
// groups are unfinished.
__device__ __forceinline__ void wgmma_wait(int pending) {
  if (pending == 0)
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  else if (pending == 1)
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
  else if (pending == 2)
    asm volatile("wgmma.wait_group.sync.aligned 2;" ::: "memory");
  else if (pending == 3)
    asm volatile("wgmma.wait_group.sync.aligned 3;" ::: "memory");
  else if (pending == 4)
    asm volatile("wgmma.wait_group.sync.aligned 4;" ::: "memory");
  else if (pending == 5)
    asm volatile("wgmma.wait_group.sync.aligned 5;" ::: "memory");
  else if (pending == 6)
    asm volatile("wgmma.wait_group.sync.aligned 6;" ::: "memory");
  else if (pending == 7)
    asm volatile("wgmma.wait_group.sync.aligned 7;" ::: "memory");
  else
    asm volatile("wgmma.wait_group.sync.aligned 8;" ::: "memory");
}
