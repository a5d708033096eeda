// outer_bwd_reduce_bf16_sm80
//
// dy[n, j], bf16, from its parts, fp32: an element a thread, always in the same order.
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
  const int64_t element = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  // The parts are there when the kernel before this one has ended; the next may begin to wait.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  if (element >= args.elements)
    return;
  const int64_t batch = element / args.columns;
  const int column = (int)(element - batch * args.columns);
  const float *parts = args.dy_parts + batch * args.row_blocks * args.columns + column;
  float sum = 0.0f;
  for (int first = 0; first < args.row_blocks; first += STEP) {
    float value[STEP];
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      value[i] = 0.0f;
      if (first + i < args.row_blocks)
        value[i] = parts[(int64_t)(first + i) * args.columns];
    }
#pragma unroll
    for (int i = 0; i < STEP; ++i)
      sum += value[i];
  }
  store_element((unsigned char *)args.dy + batch * args.dy_stride * SIZE, SIZE, column,
                narrow_element_bf16(sum));
}
