// outer_bwd_bf16_sm80
//
// dx[n, i] = sum over j of dc[n, i, j] y[n, j], and sums over the rows of a thread block of
// dc[n, i, j] x[n, i], which another kernel adds up to dy; bf16, fp32 inside. dc is read once:
// 2^column_shift lanes of a warp share ROWS rows, and walk over the columns, a vector each at a time.
//
// Pressed from templates/outer/outer_bwd.cu.j2 with tile w4r8 by
//   python -m generator --family outer --pass bwd --dtype bf16

#include "attnpress/args/outer.h"
#include "attnpress/device/lanes.cuh"
#include "attnpress/device/ptx_global.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/row_norm.cuh"
#include "attnpress/device/row_vector.cuh"

constexpr int SIZE = 2; // bytes of an element
constexpr int THREADS = 128;
constexpr int ROWS = 8;     // of a thread
constexpr int ELEMENTS = 16 / SIZE; // of a vector
constexpr int WARPS = THREADS / 32;
constexpr int BATCH = ROWS % 4 == 0 ? 4 : 1; // rows that are loaded at once by elements

// Vector number `index` of the rows `first`, `first` + apart ... of an entry of dc; 0 where there is
// none. vector: (ROWS)
__device__ __forceinline__ void load_rows(const attnpress_outer_bwd_args *args,
                                          const unsigned char *dc, bool whole, int first, int apart,
                                          int index, uint4 *vector) {
  const int64_t row_bytes = args->dc_row_stride * SIZE;
  // One branch for all: every load of a thread is on its way before the first is waited for.
  if (whole) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const int row = first + r * apart;
      vector[r] = load_16_if(row < args->rows && index * ELEMENTS < args->columns,
                             dc + row * row_bytes + (int64_t)index * 16, 0);
    }
    return;
  }
  // A loop, so that this takes little code: BATCH rows at once come in at the end, those before move
  // up.
#pragma unroll 1
  for (int r = 0; r < ROWS; r += BATCH) {
#pragma unroll
    for (int i = 0; i < ROWS - BATCH; ++i)
      vector[i] = vector[i + BATCH];
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      const int row = first + (r + i) * apart;
      load_columns(dc + row * row_bytes, SIZE, row < args->rows ? args->columns : 0, index, 0, 1,
                   &vector[ROWS - BATCH + i]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    outer_bwd_bf16_sm80(const __grid_constant__ attnpress_outer_bwd_args args) {
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  __shared__ __align__(16) float warp_sum[2][WARPS][32 * ELEMENTS];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row_lanes = 1 << args.column_shift, groups = 32 >> args.column_shift; // of a warp
  const int step = row_lanes * ELEMENTS;                                          // columns
  const int64_t batch = blockIdx.x / args.row_blocks;
  // The first row of the thread's group; the next one is that of the next group.
  const int first =
      (blockIdx.x % args.row_blocks * WARPS + warp) * groups * ROWS + (lane >> args.column_shift);
  const unsigned char *x = (const unsigned char *)args.x + batch * args.x_stride * SIZE;
  const unsigned char *y = (const unsigned char *)args.y + batch * args.y_stride * SIZE;
  const unsigned char *dc = (const unsigned char *)args.dc + batch * args.dc_batch_stride * SIZE;
  const bool whole =
      (uint64_t)dc % 16 == 0 && args.dc_row_stride % ELEMENTS == 0 && args.columns % ELEMENTS == 0;
  int index = lane & (row_lanes - 1); // of vectors
  uint4 vector[ROWS], y_vector;
  load_rows(&args, dc, whole, first, groups, index, vector);
  load_columns(y, SIZE, args.columns, index, 0, 1, &y_vector);
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
    index += row_lanes;
    load_rows(&args, dc, whole, first, groups, index, vector);
    load_columns(y, SIZE, args.columns, index, 0, 1, &y_vector);
    if (args.dy_parts) {
#pragma unroll
      for (int j = 0; j < ELEMENTS; j += 4) {
        const float4 four = {dy[j], dy[j + 1], dy[j + 2], dy[j + 3]};
        *(float4 *)&warp_sum[turn][warp][lane * ELEMENTS + j] = four;
      }
      // All threads arrive and wait: hands over the sums of the warps, and those of the step before
      // have been read.
      __syncthreads();
      // Each thread adds up some columns over the groups of all warps.
      float *parts = args.dy_parts + (int64_t)blockIdx.x * args.columns + column;
      for (int at = threadIdx.x; at < step && column + at < args.columns; at += THREADS) {
        float sum = 0.0f;
#pragma unroll
        for (int other = 0; other < WARPS; ++other)
          for (int group = 0; group < groups; ++group)
            sum += warp_sum[turn][other][group * step + at];
        parts[at] = sum;
      }
      turn ^= 1;
    }
  }
  if (!args.dx)
    return;
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int row = first + r * groups;
    dx[r] = sum_lanes(dx[r], row_lanes);
    if ((lane & (row_lanes - 1)) == 0 && row < args.rows)
      store_element((unsigned char *)args.dx + batch * args.dx_stride * SIZE, SIZE, row,
                    narrow_element_bf16(dx[r]));
  }
}
