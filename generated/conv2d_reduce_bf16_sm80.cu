// conv2d_reduce_bf16_sm80
//
// out[e], bf16, from its parts, fp32. A thread has four neighbouring elements, and
// 2^group_shift groups of threads share their parts: each adds up every so many-th, and the groups'
// sums are added up in order, so that the order is always the same.
//
// Pressed from templates/conv2d/conv2d_reduce.cu.j2 with tile w8x1 by
//   python -m generator --family conv2d --pass reduce --block none --dtype bf16

#include "attnpress/args/conv2d.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/ptx_global.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"

constexpr Dtype DTYPE = BF16;
constexpr int THREADS = 256;
constexpr int STEP = 4; // parts that a thread loads at once

extern "C" __global__ void __launch_bounds__(THREADS)
    conv2d_reduce_bf16_sm80(const __grid_constant__ attnpress_conv2d_reduce_args args) {
  __shared__ float4 sums[THREADS];
  const int groups = 1 << args.group_shift, group_threads = THREADS >> args.group_shift;
  const int group = threadIdx.x / group_threads;
  const int64_t element = ((int64_t)blockIdx.x * group_threads + threadIdx.x % group_threads) * 4;
  const bool is_there = element < args.elements;
  // The parts are there when the kernel before this one has ended; the next may begin to wait.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int first = group; first < args.count; first += groups * STEP) {
    uint4 part[STEP];
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      const int at = first + i * groups;
      part[i] = load_16_if(is_there && at < args.count,
                           args.parts + (int64_t)at * args.elements + element, 0);
    }
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      const uint32_t word[4] = {part[i].x, part[i].y, part[i].z, part[i].w};
      sum.x += __builtin_bit_cast(float, word[0]);
      sum.y += __builtin_bit_cast(float, word[1]);
      sum.z += __builtin_bit_cast(float, word[2]);
      sum.w += __builtin_bit_cast(float, word[3]);
    }
  }
  sums[threadIdx.x] = sum;
  // All threads arrive and wait: hands over the sums of the groups.
  __syncthreads();
  if (group != 0 || !is_there)
    return;
  for (int other = 1; other < groups; ++other) {
    const float4 more = sums[other * group_threads + threadIdx.x];
    sum.x += more.x;
    sum.y += more.y;
    sum.z += more.z;
    sum.w += more.w;
  }
  const uint2 packed = {pack(DTYPE, sum.x, sum.y), pack(DTYPE, sum.z, sum.w)};
  *(uint2 *)((uint16_t *)args.out + element) = packed;
}
