// outer_bwd_bf16_sm80
//
// dx[n, i] = sum over j of dc[n, i, j] y[n, j], and sums over the rows of a thread block of
// dc[n, i, j] x[n, i], which another kernel adds up to dy; bf16, fp32 inside. dc is read once: each
// warp has ROWS rows, and walks over the columns, a vector of each lane at a time.
//
// Pressed from templates/outer/outer_bwd.cu.j2 with tile w8r8 by
//   python -m generator --family outer --pass bwd --dtype bf16

#include "attnpress/args/outer.h"
#include "attnpress/device/lanes.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/row_norm.cuh"
#include "attnpress/device/row_vector.cuh"

constexpr int SIZE = 2; // bytes of an element
constexpr int THREADS = 256;
constexpr int ROWS = 8;     // of a warp
constexpr int ELEMENTS = 16 / SIZE; // of a vector
constexpr int WARPS = THREADS / 32;
constexpr int COLUMNS = 32 * ELEMENTS; // of a step

extern "C" __global__ void __launch_bounds__(THREADS)
    outer_bwd_bf16_sm80(const __grid_constant__ attnpress_outer_bwd_args args) {
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  __shared__ float warp_sum[WARPS][ELEMENTS][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t batch = blockIdx.x / args.row_blocks;
  const int first = (blockIdx.x % args.row_blocks * WARPS + warp) * ROWS;
  const unsigned char *x = (const unsigned char *)args.x + batch * args.x_stride * SIZE;
  const unsigned char *y = (const unsigned char *)args.y + batch * args.y_stride * SIZE;
  const unsigned char *dc = (const unsigned char *)args.dc + batch * args.dc_batch_stride * SIZE;
  float factor[ROWS], dx[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    factor[r] = dx[r] = 0.0f;
    if (first + r < args.rows)
      factor[r] = widen_element_bf16(load_element(x, SIZE, first + r));
  }

  for (int column = 0; column < args.columns; column += COLUMNS) {
    const int index = column / ELEMENTS + lane; // of vectors
    uint4 vector[ROWS], y_vector;
    float value[ELEMENTS], y_value[ELEMENTS], dy[ELEMENTS];
    load_columns(y, SIZE, args.columns, index, 0, 1, &y_vector);
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
      load_columns(dc + (first + r) * args.dc_row_stride * SIZE, SIZE,
                   first + r < args.rows ? args.columns : 0, index, 0, 1, &vector[r]);
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
    if (args.dy_parts) {
      // All threads arrive and wait: the step before has been added up.
      __syncthreads();
#pragma unroll
      for (int j = 0; j < ELEMENTS; ++j)
        warp_sum[warp][j][lane] = dy[j];
      // All threads arrive and wait: hands over the sums of the warps.
      __syncthreads();
      // Each thread adds up some columns over the warps.
      float *parts = args.dy_parts + (int64_t)blockIdx.x * args.columns + column;
      for (int at = threadIdx.x; at < COLUMNS && column + at < args.columns; at += THREADS) {
        float sum = 0.0f;
#pragma unroll
        for (int other = 0; other < WARPS; ++other)
          sum += warp_sum[other][at % ELEMENTS][at / ELEMENTS];
        parts[at] = sum;
      }
    }
  }
  if (!args.dx)
    return;
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    dx[r] = sum_lanes(dx[r], 32);
    if (lane == 0 && first + r < args.rows)
      store_element((unsigned char *)args.dx + batch * args.dx_stride * SIZE, SIZE, first + r,
                    narrow_element_bf16(dx[r]));
  }
}
