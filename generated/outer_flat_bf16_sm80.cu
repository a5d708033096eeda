// outer_flat_bf16_sm80
//
// c[n, i, j] = x[n, i] y[n, j], bf16, fp32 inside. c has no gaps: it is one run of vectors of
// 16 bytes, wherever its rows begin. A block writes a chunk of it, VECTORS of each thread, and has
// what that takes of x and y in shared memory.
//
// Pressed from templates/outer/outer_flat.cu.j2 with tile w8r8 by
//   python -m generator --family outer --pass flat --dtype bf16

#include "attnpress/args/outer.h"
#include "attnpress/device/outer.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/ptx_global.cuh"
#include "attnpress/device/row_vector.cuh"

constexpr int SIZE = 2; // bytes of an element
constexpr int THREADS = 256;
constexpr int VECTORS = 8;         // of a thread
constexpr int ELEMENTS = 16 / SIZE;        // of a vector
constexpr int STEP = THREADS * ELEMENTS;   // from a thread's vector to its next
constexpr int CHUNK = VECTORS * STEP;      // elements of a block

// A row of the chunk: x, and where its entry's y begins in shared memory, in bytes.
struct FlatRow {
  float x;
  int y;
};

// The rows of a chunk and the one after them, which its last vector may reach into. Row 0 of the
// first chunk may be one before c, where c begins within a vector: rows that are not there are zeros.
__device__ __forceinline__ void load_rows(const attnpress_outer_fwd_args *args, int64_t first_entry,
                                          int first_row, FlatRow *table) {
  for (int i = threadIdx.x; i < args->row_blocks; i += THREADS) {
    const int row = first_row + i;
    const int entry = max(row, 0) / args->rows;
    FlatRow here = {0.0f, 0};
    if (row >= 0 && first_entry + entry < args->batch) {
      const unsigned char *x =
          (const unsigned char *)args->x + (first_entry + entry) * args->x_stride * SIZE;
      here.x = widen_element_bf16(load_element(x, SIZE, row - entry * args->rows));
      here.y = entry * args->pitch;
    }
    table[i] = here;
  }
}

// The y of a chunk's entries. Behind its end each begins again, for vectors that are of two rows.
__device__ __forceinline__ void load_entries(const attnpress_outer_fwd_args *args,
                                             int64_t first_entry, unsigned char *y) {
  const int beside = 1 << args->column_shift;
  for (int i = threadIdx.x >> args->column_shift; i < args->column_blocks;
       i += THREADS >> args->column_shift) {
    const unsigned char *from =
        (const unsigned char *)args->y + (first_entry + i) * args->y_stride * SIZE;
    for (int j = threadIdx.x & (beside - 1); j < args->pitch / SIZE; j += beside) {
      const int column = j < args->columns ? j : j - args->columns;
      if (first_entry + i < args->batch)
        store_element(y + i * args->pitch, SIZE, j,
                      column < args->columns ? load_element(from, SIZE, column) : 0);
    }
  }
}

// 16 bytes of shared memory from byte `at` on, where an element begins.
__device__ __forceinline__ uint4 load_window(const unsigned char *y, int at) {
  const uint2 *pair = (const uint2 *)(y + (at & ~7));
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

extern "C" __global__ void __launch_bounds__(THREADS)
    outer_flat_bf16_sm80(const __grid_constant__ attnpress_outer_fwd_args args) {
  extern __shared__ __align__(16) unsigned char smem[];
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  const int columns = args.columns;
  const int64_t entry_size = (int64_t)args.rows * columns;
  // As in outer_fwd: what the thread blocks after the next AHEAD read comes at once.
  const int64_t part = blockIdx.x % AHEAD, window = blockIdx.x - part;
  if (part < BRINGERS)
    prefetch_entries(&args, SIZE, THREADS,
                     window == 0 ? 0 : (window + AHEAD) * CHUNK / entry_size,
                     ((window + 2 * AHEAD) * CHUNK + entry_size - 1) / entry_size, (int)part);

  // Chunks begin where vectors do, the first one a few elements before c perhaps.
  const int lead = (int)((uint64_t)args.c % 16) / SIZE;
  const int64_t begin = (int64_t)blockIdx.x * CHUNK - lead;
  const int64_t first_row = (begin + columns) / columns - 1; // of all entries' rows
  const int64_t first_entry = max(first_row, (int64_t)0) / args.rows;
  FlatRow *table = (FlatRow *)smem;
  unsigned char *const y = smem + args.row_blocks * (int)sizeof(FlatRow);
  load_rows(&args, first_entry, (int)(first_row - first_entry * args.rows), table);
  load_entries(&args, first_entry, y);
  __syncthreads();

  const int at = (int)(begin - first_row * columns) + (int)threadIdx.x * ELEMENTS;
  const int step_rows = STEP / columns, step_columns = STEP % columns;
  int row = at / columns, column = at % columns;
  // Of the chunk's elements, those that c has.
  const int first = blockIdx.x == 0 ? lead : 0;
  const int end = (int)min((int64_t)CHUNK, args.batch * entry_size - begin);
  unsigned char *c = (unsigned char *)args.c + (begin + (int)threadIdx.x * ELEMENTS) * SIZE;
#pragma unroll 4
  for (int i = 0; i < VECTORS; ++i) {
    const FlatRow here = table[row], next = table[row + 1];
    const int cut = columns - column; // elements of `here`, the others are of `next`
    float value[ELEMENTS];
    widen_vector_bf16(load_window(y, here.y + column * SIZE), value);
    if (cut < ELEMENTS && next.y != here.y) {
#pragma unroll
      for (int j = 1; j < ELEMENTS; ++j)
        if (j >= cut)
          value[j] = widen_element_bf16(load_element(y + next.y, SIZE, j - cut));
    }
#pragma unroll
    for (int j = 0; j < ELEMENTS; ++j)
      value[j] *= j < cut ? here.x : next.x;
    const uint4 vector = narrow_vector_bf16(value);
    const int number = i * STEP + (int)threadIdx.x * ELEMENTS;
    const bool whole = number >= first && number + ELEMENTS <= end;
    stream_16_if(whole, c, vector);
    if (!whole)
      store_piece(c, first - number, end - number, vector);
    c += STEP * SIZE;
    row += step_rows;
    column += step_columns;
    if (column >= columns) {
      column -= columns;
      ++row;
    }
  }
}
