// outer_chunk_bf16_sm80
//
// c[n, i, j] = x[n, i] y[n, j], bf16. c has no gaps: it is one run of vectors of 16 bytes,
// wherever its rows begin. A block writes a chunk of it, VECTORS of each thread, and has what that
// takes of x and y, which have no gaps either, in shared memory as they lie.
//
// Pressed from templates/outer/outer_chunk.cu.j2 with tile w8r8 by
//   python -m generator --family outer --pass chunk --dtype bf16

#include "attnpress/args/outer.h"
#include "attnpress/device/outer_run.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/device/ptx_global.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/row_vector.cuh"

constexpr int SIZE = 2; // bytes of an element
constexpr int THREADS = 256;
constexpr int VECTORS = 8;         // of a thread
constexpr int ELEMENTS = 16 / SIZE;        // of a vector
constexpr int STEP = THREADS * ELEMENTS;   // from a thread's vector to its next
constexpr int CHUNK = VECTORS * STEP;      // elements of a block
constexpr int WINDOW = 24;                 // bytes, of which a vector's are some

// Brings `count` elements of a tensor of `total`, without gaps, from number `first` on to shared
// memory, and as many more as a window reads beyond them, 16 bytes at a time: they are as far behind
// a multiple of 16 bytes there as in memory. What the tensor does not have is 0. Returns where they
// begin.
__device__ __forceinline__ unsigned char *bring(const void *tensor, int64_t total, int64_t first,
                                                int count, unsigned char *shared) {
  const unsigned char *const low = (const unsigned char *)tensor, *const high = low + total * SIZE;
  const unsigned char *const begin = low + first * SIZE;
  const int phase = (int)((uint64_t)begin % 16);
  const unsigned char *from = begin - phase + threadIdx.x * 16;
  for (int at = threadIdx.x * 16; at < phase + count * SIZE + WINDOW; at += THREADS * 16) {
    if (from >= low && from + 16 <= high) {
      cp_async_16(shared_address(shared + at), from, 16);
    } else {
#pragma unroll 1 // at a tensor's ends alone: no registers for it
      for (int i = 0; i < ELEMENTS; ++i) {
        uint32_t element = 0;
        if (from + i * SIZE >= low && from + i * SIZE < high)
          element = load_element(from, SIZE, i);
        store_element(shared + at, SIZE, i, element);
      }
    }
    from += THREADS * 16;
  }
  return shared + phase;
}

// a / b, rounded down. Divisions in 64 bits take as long as much of the chunk.
__device__ __forceinline__ int64_t divide(int64_t a, int b) {
  if (a < 0)
    return -(((int)-a + b - 1) / b); // of what is before c: no more than a vector
  return a < 0x80000000 ? (int)a / b : a / b;
}

// 16 bytes of shared memory, where an element begins.
__device__ __forceinline__ uint4 load_window(const unsigned char *y) {
  const int at = (int)(uint64_t)y;
  const uint2 *pair = (const uint2 *)(y - (at & 7));
  const uint2 a = pair[0], b = pair[1], c = pair[2];
  const bool odd = (at & 4) != 0;
  const uint32_t word[5] = {odd ? a.y : a.x, odd ? b.x : a.y, odd ? b.y : b.x, odd ? c.x : b.y,
                            odd ? c.y : c.x};
  const int shift = (at & 2) * 8;
  uint32_t to[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    to[i] = SIZE == 4 ? word[i] : (uint32_t)(((uint64_t)word[i + 1] << 32 | word[i]) >> shift);
  const uint4 vector = {to[0], to[1], to[2], to[3]};
  return vector;
}

// Stores the elements from `first` on, before `end`, of a vector that c does not have all of.
__device__ __forceinline__ void store_piece(unsigned char *c, int first, int end, uint4 vector) {
  const uint32_t word[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
  for (int i = 0; i < ELEMENTS; ++i)
    if (i >= first && i < end)
      store_element(c, SIZE, i, SIZE == 2 ? word[i / 2] >> i % 2 * 16 & 0xffff : word[i]);
}

// Stores vector `i` of the thread, or what c has of it: the chunk's elements from `first` on, before
// `end`.
__device__ __forceinline__ void store_vector(int i, int first, int end, unsigned char *c,
                                             uint4 vector) {
  const int number = i * STEP + (int)threadIdx.x * ELEMENTS;
  const bool whole = number >= first && number + ELEMENTS <= end;
  stream_16_if(whole, c, vector);
  if (!whole)
    store_piece(c, first - number, end - number, vector);
}

// The products of a vector of rows that are shorter: of element after element from a column on, of
// row `row` of the chunk and `inner` of entry `entry` of it.
__device__ __forceinline__ uint4 multiply_elements(const unsigned char *x, const unsigned char *y,
                                                   int rows, int columns, int row, int inner,
                                                   int entry, int column) {
  uint32_t word[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < ELEMENTS; ++i) {
    const uint32_t product = multiply_bf16(
        load_element(x, SIZE, row), load_element(y, SIZE, entry * columns + column));
    if (SIZE == 2)
      word[i / 2] |= (product & 0xffff) << i % 2 * 16;
    else
      word[i] = product;
    if (++column < columns)
      continue;
    column = 0;
    ++row;
    if (++inner == rows) {
      inner = 0;
      ++entry;
    }
  }
  const uint4 vector = {word[0], word[1], word[2], word[3]};
  return vector;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    outer_chunk_bf16_sm80(const __grid_constant__ attnpress_outer_fwd_args args) {
  extern __shared__ __align__(16) unsigned char smem[];
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  const int columns = args.columns, rows = args.rows;
  const int64_t entry_size = (int64_t)rows * columns, total = args.batch * entry_size;
  // Chunks begin where vectors do, the first one a few elements before c perhaps, in rows and
  // entries that are not there.
  const int lead = (int)((uint64_t)args.c % 16) / SIZE;
  const int64_t begin = (int64_t)blockIdx.x * CHUNK - lead;
  const int64_t first_row = divide(begin, columns), first_entry = divide(first_row, rows);
  const int first_column = (int)(begin - first_row * columns);
  const int first_inner = (int)(first_row - first_entry * rows);
  const int row_count = (first_column + CHUNK - 1) / columns + 1;
  const int entry_count = (first_inner + row_count - 1) / rows + 1;
  const unsigned char *x = bring(args.x, args.batch * rows, first_row, row_count, smem);
  // With what a window reads before an entry; of entries of one row no more than the chunk's.
  const int skip = (rows == 1 ? first_column : 0) - ELEMENTS;
  const unsigned char *y =
      bring(args.y, args.batch * columns, first_entry * columns + skip,
            (rows == 1 ? CHUNK : entry_count * columns) + ELEMENTS, smem + args.x_bytes) -
      skip * SIZE;
  cp_async_commit();
  cp_async_wait(0);
  // All threads arrive and wait: hands over x and y.
  __syncthreads();

  // The thread's first vector: its row and entry of the chunk, and its row of the entry.
  const int at = first_column + (int)threadIdx.x * ELEMENTS;
  int row = at / columns, column = at - row * columns;
  int entry = (first_inner + row) / rows, inner = first_inner + row - entry * rows;
  const int step_rows = STEP / columns, step_columns = STEP - step_rows * columns;
  const int step_entries = step_rows / rows, step_inner = step_rows - step_entries * rows;
  // Of the chunk's elements, those that c has.
  const int first = blockIdx.x == 0 ? lead : 0;
  const int end = (int)min((int64_t)CHUNK, total - begin);
  unsigned char *c = (unsigned char *)args.c + (begin + (int)threadIdx.x * ELEMENTS) * SIZE;
  if (columns < ELEMENTS) {
#pragma unroll 1
    for (int i = 0; i < VECTORS; ++i) {
      const int here = at + i * STEP, below = here / columns, beyond = (first_inner + below) / rows;
      store_vector(i, first, end, c + i * STEP * SIZE,
                   multiply_elements(x, y, rows, columns, below, first_inner + below - beyond * rows,
                                     beyond, here - below * columns));
    }
    return;
  }
#pragma unroll 4
  for (int i = 0; i < VECTORS; ++i) {
    const int cut = columns - column; // elements before the next row's
    uint4 v = load_window(y + (entry * columns + column) * SIZE);
    const uint32_t x0 = fill_word(SIZE, load_element(x, SIZE, row));
    uint32_t factor[4] = {x0, x0, x0, x0};
    if (cut < ELEMENTS) {
      const uint32_t x1 = fill_word(SIZE, load_element(x, SIZE, row + 1));
      const unsigned char *next =
          y + ((inner + 1 == rows ? entry + 1 : entry) * columns - cut) * SIZE;
      const uint4 n = load_window(next);
      const uint32_t mask[4] = {mask_before(SIZE, cut, 0), mask_before(SIZE, cut, 1),
                                mask_before(SIZE, cut, 2), mask_before(SIZE, cut, 3)};
      v.x = choose_bits(mask[0], v.x, n.x);
      v.y = choose_bits(mask[1], v.y, n.y);
      v.z = choose_bits(mask[2], v.z, n.z);
      v.w = choose_bits(mask[3], v.w, n.w);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        factor[j] = choose_bits(mask[j], x0, x1);
    }
    const uint4 vector = {
        multiply_bf16(v.x, factor[0]), multiply_bf16(v.y, factor[1]),
        multiply_bf16(v.z, factor[2]), multiply_bf16(v.w, factor[3])};
    store_vector(i, first, end, c, vector);
    c += STEP * SIZE;
    column += step_columns;
    row += step_rows;
    inner += step_inner;
    entry += step_entries;
    if (column >= columns) {
      column -= columns;
      ++row;
      ++inner;
    }
    if (inner >= rows) {
      inner -= rows;
      ++entry;
    }
  }
}
