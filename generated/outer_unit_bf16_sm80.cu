// outer_unit_bf16_sm80
//
// c[n, i, j] = x[n, i] y[n, j], bf16. c has no gaps, and rows that may not be whole vectors
// of 16 bytes: a unit is the fewest rows that are, together. A thread has the same vector of UNITS
// units, and so the same y, in registers.
//
// Pressed from templates/outer/outer_unit.cu.j2 with tile w8r8 by
//   python -m generator --family outer --pass unit --dtype bf16

#include "attnpress/args/outer.h"
#include "attnpress/device/outer_run.cuh"
#include "attnpress/device/ptx_global.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/row_vector.cuh"

constexpr int SIZE = 2; // bytes of an element
constexpr int THREADS = 256;
constexpr int UNITS = 8;    // of a thread, at the most
constexpr int ELEMENTS = 16 / SIZE; // of a vector

// An element's bits, 0 where the condition is false.
__device__ __forceinline__ uint32_t load_if(bool condition, const unsigned char *from, int at) {
  return SIZE == 2 ? load_2_if(condition, from + (int64_t)at * 2, 0)
                   : load_4_if(condition, from + (int64_t)at * 4, 0);
}

// The product of two elements, by themselves.
__device__ __forceinline__ uint32_t multiply_one(const attnpress_outer_fwd_args *args,
                                                 int64_t batch, int row, int column) {
  const unsigned char *x = (const unsigned char *)args->x + batch * args->x_stride * SIZE;
  const unsigned char *y = (const unsigned char *)args->y + batch * args->y_stride * SIZE;
  return multiply_bf16(load_element(x, SIZE, row), load_element(y, SIZE, column));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    outer_unit_bf16_sm80(const __grid_constant__ attnpress_outer_fwd_args args) {
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  const int beside = blockIdx.x % args.column_blocks;
  const int below = blockIdx.x / args.column_blocks % args.row_blocks;
  const int64_t batch = blockIdx.x / args.column_blocks / args.row_blocks;
  const int columns = args.columns;
  // Where all vectors of a unit have a thread, groups of threads have units below each other.
  const int groups = args.column_blocks > 1 ? 1 : THREADS / args.width;
  int group = 0, own = beside * THREADS + (int)threadIdx.x;
  if (groups > 1) {
    group = (int)threadIdx.x / args.width;
    own = (int)threadIdx.x % args.width;
  }
  // The entry's vectors are those that begin in it and end in it; the first `head` elements are in
  // what was before.
  const int64_t size = (int64_t)args.rows * columns, begin = batch * size;
  const int head =
      -(int)((uint32_t)((uint64_t)args.c % 16 / SIZE) + (uint32_t)begin) & (ELEMENTS - 1);
  const int64_t vectors = (size - head) / ELEMENTS;
  unsigned char *const entry = (unsigned char *)args.c + begin * SIZE;
  const unsigned char *x = (const unsigned char *)args.x + batch * args.x_stride * SIZE;
  const unsigned char *y = (const unsigned char *)args.y + batch * args.y_stride * SIZE;
  const bool is_mine = group < groups && own < args.width;
  const int at = head + own * ELEMENTS, first_row = at / columns;
  const int column = at - first_row * columns;
  const int cut = columns - column; // elements before the next row's
  const int first_unit = below * args.units * groups + group;
  uint32_t y_word[4], mask[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int low = i * 4 / SIZE, high = low + 1;
    y_word[i] = load_if(is_mine, y, column + low - (low >= cut ? columns : 0));
    if (SIZE == 2)
      y_word[i] |= load_if(is_mine, y, column + high - (high >= cut ? columns : 0)) << 16;
    mask[i] = mask_before(SIZE, cut, i);
  }
  uint32_t factor[UNITS], next[UNITS];
#pragma unroll
  for (int i = 0; i < UNITS; ++i) {
    const int unit = first_unit + i * groups, row = unit * args.unit_rows + first_row;
    const bool is_there =
        is_mine && i < args.units && (int64_t)unit * args.unit_vectors + own < vectors;
    factor[i] = load_if(is_there, x, row);
    next[i] = load_if(is_there && cut < ELEMENTS, x, row + 1);
  }
  unsigned char *c =
      entry + head * SIZE + ((int64_t)first_unit * args.unit_vectors + own) * 16;
  const int64_t step = (int64_t)groups * args.unit_vectors * 16;
#pragma unroll
  for (int i = 0; i < UNITS; ++i) {
    const int unit = first_unit + i * groups;
    const bool is_there =
        is_mine && i < args.units && (int64_t)unit * args.unit_vectors + own < vectors;
    const uint32_t a = fill_word(SIZE, factor[i]), b = fill_word(SIZE, next[i]);
    uint32_t word[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      word[j] = multiply_bf16(y_word[j], choose_bits(mask[j], a, b));
    const uint4 product = {word[0], word[1], word[2], word[3]};
    stream_16_if(is_there, c, product);
    c += step;
  }

  // One thread block of an entry has the elements that no vector of an entry has: those of the
  // vector that the next entry begins in, and what is before the first vector of c.
  if (below == args.row_blocks - 1 && beside == args.column_blocks - 1) {
    const int rest = (int)(size - head - vectors * ELEMENTS), last = threadIdx.x;
    if (last < ELEMENTS && rest > 0) {
      unsigned char *const to = entry + (size - rest) * SIZE;
      if (last < rest)
        store_element(to, SIZE, last,
                      multiply_one(&args, batch, args.rows - 1, columns - rest + last));
      else if (batch + 1 < args.batch)
        store_element(to, SIZE, last, multiply_one(&args, batch + 1, 0, last - rest));
    }
    if (batch == 0 && last < head)
      store_element(entry, SIZE, last, multiply_one(&args, 0, 0, last));
  }
}
