// Tiles of 16-bit elements in shared memory, and the copies that fill them.
//
// A tile is stored by rows. Each row is padded to an odd count of 16-byte chunks: eight consecutive
// rows of one chunk column, which is what a phase of ldmatrix or a quad-wide store of fragments
// touches, then lie in eight different groups of four banks, for every width, and all offsets
// inside a tile are constants.
#pragma once

#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/kernel_args.h"

// Bytes from one row of a tile of `columns` (a multiple of 8) columns to the next.
__device__ constexpr int tile_row_bytes(int columns) {
  return 16 * ((columns / 8) | 1);
}

__device__ constexpr int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}

__device__ constexpr int max_int(int a, int b) {
  return a > b ? a : b;
}

__device__ constexpr int min_int(int a, int b) {
  return a < b ? a : b;
}

// Offset in bytes of this lane's row address for an ldmatrix of 16 rows x 16 columns whose matrices
// go down the rows first: A fragments (rows of Q or P), and with _trans B fragments of V (rows are
// keys).
__device__ __forceinline__ int ldmatrix_rows_first(int lane, int row_bytes) {
  return (lane % 16) * row_bytes + (lane / 16) * 16;
}

// The same with matrices that go along the columns first: B fragments of K (rows are keys).
__device__ __forceinline__ int ldmatrix_columns_first(int lane, int row_bytes) {
  return (lane % 8 + lane / 16 * 8) * row_bytes + (lane / 8 % 2) * 16;
}

// How the threads of a block share the copy of a tile: in each pass they take COPY rows of 16-byte
// chunks, thread t chunk t % chunks of row t / chunks; threads that are left over idle. A thread's
// addresses then differ by constants and by multiples of one stride.
__device__ __forceinline__ int copy_row(int columns, int thread) {
  return thread / (columns / 8);
}

__device__ __forceinline__ int copy_column(int columns, int thread) {
  return thread % (columns / 8) * 8;
}

// Passes that the copy of `rows` rows of `columns` elements takes `threads` threads.
__device__ constexpr int copy_passes(int rows, int columns, int threads) {
  return ceil_div(rows, threads / (columns / 8));
}

// Starts passes `first_pass` to `end_pass` - 1 of the copy of `rows` rows of `columns` elements,
// `row_stride` elements apart, into the tile at `shared`, by `threads` threads. `global` (16-byte
// aligned) is this thread's chunk of the first of these passes; returns that of `end_pass`. Rows
// from `valid_rows` on are filled with zeros, and not read.
__device__ __forceinline__ const uint16_t *
copy_rows_async(uint32_t shared, int row_bytes, const uint16_t *global, int64_t row_stride,
                int rows, int columns, int valid_rows, int first_pass, int end_pass, int thread,
                int threads) {
  const int pass_rows = threads / (columns / 8);
  const int row = copy_row(columns, thread);
  const uint32_t target = shared + row * row_bytes + copy_column(columns, thread) * 2;
  if (threads % (columns / 8) == 0 || row < pass_rows) {
#pragma unroll
    for (int pass = first_pass; pass < end_pass; ++pass) {
      const int first = pass * pass_rows;
      if (first + pass_rows <= rows || first + row < rows)
        cp_async_16(target + first * row_bytes, global,
                    rows <= valid_rows || first + row < valid_rows ? 16 : 0);
      global += pass_rows * row_stride;
    }
  }
  return global;
}
