// outer_sum_bf16_sm80
//
// c[i, j] = sum over n of x[n, i] y[n, j], bf16, fp32 inside: always in the order of n. A thread
// block has TILE rows and as many columns of c, a thread ROWS of each; STEP entries of the batch
// wait in shared memory at a time.
//
// Pressed from templates/outer/outer_sum.cu.j2 with tile w8r4 by
//   python -m generator --family outer --pass sum --dtype bf16

#include "attnpress/args/outer.h"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/row_vector.cuh"

constexpr int SIZE = 2; // bytes of an element
constexpr int THREADS = 256;
constexpr int ROWS = 4; // of a thread, and columns
constexpr int SIDE = 16; // threads below and beside each other
constexpr int TILE = SIDE * ROWS;
constexpr int STEP = 16; // entries of the batch in shared memory
static_assert(SIDE * SIDE == THREADS, "threads are a square");

// STEP entries of TILE elements each of a matrix, from `batch` and from `first` on; 0 beyond it.
__device__ __forceinline__ void load_tile(const void *matrix, int64_t stride, int64_t batch,
                                          int64_t batches, int first, int count,
                                          float tile[STEP][TILE]) {
#pragma unroll
  for (int at = 0; at < STEP * TILE; at += THREADS) {
    const int n = (at + threadIdx.x) / TILE, i = (at + threadIdx.x) % TILE;
    const unsigned char *from = (const unsigned char *)matrix + (batch + n) * stride * SIZE;
    float value = 0.0f;
    if (batch + n < batches && first + i < count)
      value = widen_element_bf16(load_element(from, SIZE, first + i));
    tile[n][i] = value;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    outer_sum_bf16_sm80(const __grid_constant__ attnpress_outer_fwd_args args) {
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  __shared__ float x[STEP][TILE], y[STEP][TILE];
  const int first_row = blockIdx.x / args.column_blocks * TILE;
  const int first_column = blockIdx.x % args.column_blocks * TILE;
  const int below = threadIdx.x / SIDE, beside = threadIdx.x % SIDE;
  float sum[ROWS][ROWS];
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
#pragma unroll
    for (int j = 0; j < ROWS; ++j)
      sum[i][j] = 0.0f;
  }
  for (int64_t batch = 0; batch < args.batch; batch += STEP) {
    // All threads arrive and wait: what was here before has been read.
    __syncthreads();
    load_tile(args.x, args.x_stride, batch, args.batch, first_row, args.rows, x);
    load_tile(args.y, args.y_stride, batch, args.batch, first_column, args.columns, y);
    // All threads arrive and wait: hands over the entries.
    __syncthreads();
#pragma unroll
    for (int n = 0; n < STEP; ++n) {
#pragma unroll
      for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < ROWS; ++j)
          sum[i][j] += x[n][i * SIDE + below] * y[n][j * SIDE + beside];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    const int row = first_row + i * SIDE + below;
    unsigned char *c = (unsigned char *)args.c + row * args.c_row_stride * SIZE;
#pragma unroll
    for (int j = 0; j < ROWS; ++j) {
      const int column = first_column + j * SIDE + beside;
      if (row < args.rows && column < args.columns)
        store_element(c, SIZE, column, narrow_element_bf16(sum[i][j]));
    }
  }
}
