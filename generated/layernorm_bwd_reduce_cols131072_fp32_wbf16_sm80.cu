// layernorm_bwd_reduce_cols131072_fp32_wbf16_sm80
//
// dweight and dbias, bf16, from their parts, fp32. A thread block has 32 columns of one of the
// two; its warps add up every WARPS-th part each, always in the same order.
//
// Pressed from templates/layernorm/layernorm_bwd_reduce.cu.j2 with tile w16v8 by
//   python -m generator --family layernorm --pass bwd_reduce --norm layer --cols 131072 \
//     --dtype fp32 --params bf16

#include "attnpress/args/layernorm.h"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/row_vector.cuh"

constexpr int PARAMETER_SIZE = 2; // bytes of an element of dweight
constexpr int THREADS = 512;
constexpr int STEP = 8; // parts that a thread loads at once
constexpr int WARPS = THREADS / 32;

extern "C" __global__ void __launch_bounds__(THREADS)
    layernorm_bwd_reduce_cols131072_fp32_wbf16_sm80(
        const __grid_constant__ attnpress_layernorm_reduce_args args) {
  __shared__ float warp_sum[WARPS][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int tiles = (args.columns + 31) / 32;
  // The first tiles are dweight's, where it is asked for.
  const bool of_weight = args.dweight && (int)blockIdx.x < tiles;
  const float *parts = of_weight ? args.weight_parts : args.bias_parts;
  void *to = of_weight ? args.dweight : args.dbias;
  const int column = blockIdx.x % tiles * 32 + lane;
  // The parts are there when the kernels before this one have ended; the next may begin to wait.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();

  float sum = 0.0f;
  for (int first = warp; column < args.columns && first < args.parts; first += STEP * WARPS) {
    float value[STEP];
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      const int part = first + i * WARPS;
      value[i] = 0.0f;
      if (part < args.parts)
        value[i] = parts[(int64_t)part * args.columns + column];
    }
#pragma unroll
    for (int i = 0; i < STEP; ++i)
      sum += value[i];
  }
  warp_sum[warp][lane] = sum;
  // All threads arrive and wait: hands over the sums of the warps.
  __syncthreads();
  if (warp > 0 || column >= args.columns)
    return;
#pragma unroll
  for (int other = 1; other < WARPS; ++other)
    sum += warp_sum[other][lane];
  store_element(to, PARAMETER_SIZE, column, narrow_element_bf16(sum));
}
