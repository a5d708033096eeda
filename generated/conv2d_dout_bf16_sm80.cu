// conv2d_dout_bf16_sm80
//
// masked = dout where out is positive, else 0; and sums of that, or of dout, over the pixels of a
// thread block, which another kernel adds up to the gradient of the bias; bf16, fp32 inside.
// A thread has a vector of 8 filters of every LINES-th pixel.
//
// Pressed from templates/conv2d/conv2d_dout.cu.j2 with tile w8x1 by
//   python -m generator --family conv2d --pass dout --block none --dtype bf16

#include "attnpress/args/conv2d.h"
#include "attnpress/device/conv2d.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/row_vector.cuh"

constexpr int THREADS = 256;
constexpr int LINES = THREADS / 8; // pixels that a thread block reads at once
constexpr int STEP = 4;            // pixels that a thread loads at once

__device__ __forceinline__ int offset_of(Place pixel, const int *stride) {
  return pixel.outer * stride[0] + pixel.middle * stride[1] + pixel.inner * stride[2];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    conv2d_dout_bf16_sm80(const __grid_constant__ attnpress_conv2d_dout_args args) {
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  __shared__ float sums[LINES][8 * VECTOR];
  const int line = threadIdx.x / 8;
  const int vector = blockIdx.x % args.column_blocks * 8 + threadIdx.x % 8;
  const int row_block = blockIdx.x / args.column_blocks;
  const int first = row_block * args.block_pixels;
  const int end = min(first + args.block_pixels, args.batch * args.out_height * args.out_width);
  Place pixel = place_of(first + line, args.out_height, args.out_width);
  const Place by = place_of(LINES, args.out_height, args.out_width);
  const bool is_there = vector < args.vectors;
  float sum[VECTOR];
#pragma unroll
  for (int j = 0; j < VECTOR; ++j)
    sum[j] = 0.0f;
  for (int index = first + line; index < end; index += LINES * STEP) {
    uint4 given[STEP], out[STEP];
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      const bool valid = is_there && index + i * LINES < end;
      given[i] = load_16_if(
          valid, (const uint4 *)args.dout + offset_of(pixel, args.dout_stride) + vector, 0);
      out[i] = load_16_if(valid && args.out,
                          (const uint4 *)args.out + offset_of(pixel, args.out_stride) + vector, 0);
      advance(&pixel, by, args.out_height, args.out_width);
    }
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      float value[VECTOR], result[VECTOR];
      widen_vector_bf16(given[i], value);
      widen_vector_bf16(out[i], result);
#pragma unroll
      for (int j = 0; j < VECTOR; ++j) {
        value[j] = args.out && !(result[j] > 0.0f) ? 0.0f : value[j];
        sum[j] += value[j];
      }
      store_16_if(args.masked && is_there && index + i * LINES < end,
                  (uint4 *)args.masked + (int64_t)(index + i * LINES) * args.vectors + vector,
                  narrow_vector_bf16(value));
    }
  }
  if (!args.parts)
    return;
#pragma unroll
  for (int j = 0; j < VECTOR; ++j)
    sums[line][threadIdx.x % 8 * VECTOR + j] = sum[j];
  // All threads arrive and wait: hands over the sums of the lines.
  __syncthreads();
  const int column = blockIdx.x % args.column_blocks * 8 * VECTOR + threadIdx.x;
  if (threadIdx.x >= 8 * VECTOR || column >= args.vectors * VECTOR)
    return;
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < LINES; ++i)
    total += sums[i][threadIdx.x];
  args.parts[(int64_t)row_block * args.vectors * VECTOR + column] = total;
}
