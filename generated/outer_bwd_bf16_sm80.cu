// outer_bwd_bf16_sm80
//
// dx[n, i] = sum over j of dc[n, i, j] y[n, j], and sums over the rows of a thread block of
// dc[n, i, j] x[n, i]: dy where a block has all rows, else another kernel adds them up; bf16,
// fp32 inside. dc is read once: 2^column_shift threads share ROWS rows, and walk over the columns,
// 16 bytes each at a time: a vector, or, where a row may begin anywhere, elements that lie as far
// apart as threads share a row.
//
// Pressed from templates/outer/outer_bwd.cu.j2 with tile w4r4 by
//   python -m generator --family outer --pass bwd --dtype bf16

#include "attnpress/args/outer.h"
#include "attnpress/device/lanes.cuh"
#include "attnpress/device/ptx_global.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/row_vector.cuh"

constexpr int SIZE = 2; // bytes of an element
constexpr int THREADS = 128;
constexpr int ROWS = 4;     // of a thread
constexpr int ELEMENTS = 16 / SIZE; // of a vector
constexpr int WARPS = THREADS / 32;
constexpr int SM_THREADS = 1024; // by registers

// Vector `column` / ELEMENTS of a row, or 16 bytes of elements from `column` on that lie `apart`; 0
// where there are none.
__device__ __forceinline__ uint4 load_step(const unsigned char *row, int columns, int column,
                                           int apart, bool whole) {
  if (whole)
    return load_16_if(column < columns, row + (int64_t)column * SIZE, 0);
  uint32_t word[4];
  row += (int64_t)column * SIZE;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int j = 2 * i * apart, k = j + apart;
    word[i] = load_2_if(column + j < columns, row + (int64_t)j * 2, 0) |
              load_2_if(column + k < columns, row + (int64_t)k * 2, 0) << 16;
  }
  const uint4 vector = {word[0], word[1], word[2], word[3]};
  return vector;
}

// The same of the rows `first`, `first` + groups ... of an entry of dc. vector: (ROWS)
__device__ __forceinline__ void load_rows(const attnpress_outer_bwd_args *args,
                                          const unsigned char *dc, int first, int groups,
                                          int column, int apart, bool whole, uint4 *vector) {
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int row = first + r * groups;
    vector[r] = load_step(dc + row * args->dc_row_stride * SIZE,
                          row < args->rows ? args->columns : 0, column, apart, whole);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, (SM_THREADS + THREADS - 1) / THREADS)
    outer_bwd_bf16_sm80(const __grid_constant__ attnpress_outer_bwd_args args) {
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  __shared__ __align__(16) float sums[2][THREADS * ELEMENTS];
  const int row_threads = 1 << args.column_shift, groups = THREADS >> args.column_shift;
  const int step = row_threads * ELEMENTS; // columns
  const int group = threadIdx.x >> args.column_shift, thread = threadIdx.x & (row_threads - 1);
  const int64_t batch = blockIdx.x / args.row_blocks;
  // The first row of the thread's group; the next one is that of the next group.
  const int first = blockIdx.x % args.row_blocks * groups * ROWS + group;
  const unsigned char *x = (const unsigned char *)args.x + batch * args.x_stride * SIZE;
  const unsigned char *y = (const unsigned char *)args.y + batch * args.y_stride * SIZE;
  const unsigned char *dc = (const unsigned char *)args.dc + batch * args.dc_batch_stride * SIZE;
  // One branch for all: with one of its own y is waited for before x is loaded.
  const bool whole =
      ((uint64_t)dc | (uint64_t)args.dc_row_stride * SIZE | (uint64_t)y) % 16 == 0 &&
      args.columns % ELEMENTS == 0;
  // The thread's first column of a step, and between its columns.
  const int own = whole ? thread * ELEMENTS : thread, apart = whole ? 1 : row_threads;
  uint4 vector[ROWS], y_vector;
  if (whole) {
    load_rows(&args, dc, first, groups, own, 1, true, vector);
    y_vector = load_step(y, args.columns, own, 1, true);
  }
  float factor[ROWS], dx[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int row = first + r * groups;
    factor[r] = dx[r] = 0.0f;
    if (row < args.rows)
      factor[r] = widen_element_bf16(load_element(x, SIZE, row));
  }

  int turn = 0;
  for (int column = 0; column < args.columns; column += step) {
    if (!whole) {
      load_rows(&args, dc, first, groups, column + own, apart, false, vector);
      y_vector = load_step(y, args.columns, column + own, apart, false);
    }
    float value[ELEMENTS], y_value[ELEMENTS], dy[ELEMENTS];
    widen_vector_bf16(y_vector, y_value);
#pragma unroll
    for (int j = 0; j < ELEMENTS; ++j)
      dy[j] = 0.0f;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      widen_vector_bf16(vector[r], value);
#pragma unroll
      for (int j = 0; j < ELEMENTS; ++j) {
        dx[r] += value[j] * y_value[j];
        dy[j] += value[j] * factor[r];
      }
    }
    // The next step's are on their way while this one's are added up.
    if (whole) {
      load_rows(&args, dc, first, groups, column + step + own, 1, true, vector);
      y_vector = load_step(y, args.columns, column + step + own, 1, true);
    }
    if (args.dy_parts || args.dy) {
      float *const sum = sums[turn] + group * step + own;
#pragma unroll
      for (int j = 0; j < ELEMENTS; j += 4) {
        const float4 four = {dy[j], dy[j + 1], dy[j + 2], dy[j + 3]};
        if (whole)
          *(float4 *)&sum[j] = four;
      }
#pragma unroll
      for (int j = 0; j < ELEMENTS; ++j)
        if (!whole)
          sum[j * apart] = dy[j];
      // All threads arrive and wait: hands over the sums of the groups, and those of the step
      // before have been read.
      __syncthreads();
      // Each thread adds up some columns over the groups.
      float *parts = args.dy_parts + (int64_t)blockIdx.x * args.columns + column;
      for (int at = threadIdx.x; at < step && column + at < args.columns; at += THREADS) {
        float total = 0.0f;
        for (int other = 0; other < groups; ++other)
          total += sums[turn][other * step + at];
        if (args.dy_parts)
          parts[at] = total;
        else // the block is the entry's only one
          store_element((unsigned char *)args.dy + blockIdx.x * args.dy_stride * SIZE, SIZE,
                        column + at, narrow_element_bf16(total));
      }
      turn ^= 1;
    }
  }
  if (!args.dx)
    return;
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
    dx[r] = sum_lanes(dx[r], min(row_threads, 32));
  if (row_threads > 32) {
    __shared__ float warp_dx[WARPS][ROWS];
    const int warp = threadIdx.x / 32;
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
      if (threadIdx.x % 32 == 0)
        warp_dx[warp][r] = dx[r];
    // All threads arrive and wait: hands over the sums of the warps.
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
      for (int i = 1; i < row_threads / 32; ++i)
        dx[r] += thread == 0 ? warp_dx[warp + i][r] : 0.0f;
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int row = first + r * groups;
    if (thread == 0 && row < args.rows)
      store_element((unsigned char *)args.dx + batch * args.dx_stride * SIZE, SIZE, row,
                    narrow_element_bf16(dx[r]));
  }
}
