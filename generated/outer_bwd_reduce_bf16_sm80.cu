// outer_bwd_reduce_bf16_sm80
//
// dy[n, j], bf16, from its parts, fp32: 2^lane_shift threads have an element, and every so
// many parts of it each, always in the same order.
//
// Pressed from templates/outer/outer_bwd_reduce.cu.j2 with tile w4r8 by
//   python -m generator --family outer --pass bwd_reduce --dtype bf16

#include "attnpress/args/outer.h"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/row_vector.cuh"

constexpr int SIZE = 2; // bytes of an element
constexpr int THREADS = 128;
constexpr int STEP = 8; // parts that a thread loads at once

extern "C" __global__ void __launch_bounds__(THREADS)
    outer_bwd_reduce_bf16_sm80(const __grid_constant__ attnpress_outer_reduce_args args) {
  __shared__ float sums[THREADS];
  const int lanes = 1 << args.lane_shift, beside = THREADS >> args.lane_shift;
  const int lane = threadIdx.x / beside, own = threadIdx.x & (beside - 1);
  const int64_t element = (int64_t)blockIdx.x * beside + own;
  const int64_t batch = args.elements == args.columns ? 0 : element / args.columns;
  const int column = (int)(element - batch * args.columns);
  const bool is_there = element < args.elements;
  const float *parts = args.dy_parts + batch * args.row_blocks * args.columns + column;
  // The parts are there when the kernel before this one has ended; the next may begin to wait.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  float sum = 0.0f;
  for (int first = lane; first < args.row_blocks; first += STEP * lanes) {
    float value[STEP];
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      const int part = first + i * lanes;
      value[i] = 0.0f;
      if (is_there && part < args.row_blocks)
        value[i] = parts[(int64_t)part * args.columns];
    }
#pragma unroll
    for (int i = 0; i < STEP; ++i)
      sum += value[i];
  }
  if (lanes > 1) {
    sums[threadIdx.x] = sum;
    // All threads arrive and wait: hands over the sums of the lanes.
    __syncthreads();
    for (int i = 1; i < lanes && lane == 0; ++i)
      sum += sums[i * beside + own];
  }
  if (is_there && lane == 0)
    store_element((unsigned char *)args.dy + batch * args.dy_stride * SIZE, SIZE, column,
                  narrow_element_bf16(sum));
}
