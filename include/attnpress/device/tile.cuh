// Tiles of 16-bit elements in shared memory, and the copies that fill them.
//
// A tile is stored by rows, in one of two ways. Either puts eight consecutive rows of one 16-byte
// chunk column, which is what a phase of ldmatrix or a quad-wide store of fragments touches, into
// eight different groups of four banks, for every width.
//
//   padded      each row is padded to an odd count of chunks: all offsets inside a tile are
//               constants. A copy's 128 bytes then mostly straddle two lines of shared memory, and
//               are fetched by two requests.
//   swizzled    rows are not padded, and the chunks of a row change places: 128 bytes that are
//               aligned in global memory stay in one line, and are fetched by one request.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/device/ptx_cp_async_policy.cuh"

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

// Chunks that change places with each other in a swizzled tile: the largest power of two, up to 8,
// that divides the chunks of a row.
__device__ constexpr int swizzle_period(int columns) {
  return columns % 64 == 0 ? 8 : columns % 32 == 0 ? 4 : columns % 16 == 0 ? 2 : 1;
}

// What a row of a swizzled tile does to the offset in bytes of a chunk: the two are combined by ^.
// Rows of `columns` elements go around the banks in 8 / period rows; then the next bit changes.
__device__ __forceinline__ int swizzle_of_row(int columns, int row) {
  return row / (8 / swizzle_period(columns)) % swizzle_period(columns) * 16;
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

// The same into a swizzled tile of `tile_columns` columns, in one go. `evicts`: the L2 cache is to
// lose what was read so before all else.
__device__ __forceinline__ void copy_rows_swizzled_async(uint32_t shared, int tile_columns,
                                                         const uint16_t *global, int64_t row_stride,
                                                         int rows, int columns, int valid_rows,
                                                         int thread, int threads, bool evicts) {
  const int pass_rows = threads / (columns / 8);
  if (threads % (columns / 8) == 0 || copy_row(columns, thread) < pass_rows) {
#pragma unroll
    for (int pass = 0; pass < copy_passes(rows, columns, threads); ++pass) {
      const int row = pass * pass_rows + copy_row(columns, thread);
      const uint32_t target =
          shared + row * tile_columns * 2 +
          (copy_column(columns, thread) * 2 ^ swizzle_of_row(tile_columns, row));
      const int bytes = rows <= valid_rows || row < valid_rows ? 16 : 0;
      if (pass * pass_rows + pass_rows <= rows || row < rows) {
        if (evicts)
          cp_async_16_by_policy(target, global, bytes, evict_first_policy());
        else
          cp_async_16(target, global, bytes);
      }
      global += pass_rows * row_stride;
    }
  }
}
