// layernorm_bwd_reduce_cols131072_fp32_wbf16_sm80
//
// dweight and dbias, bf16, from their parts, fp32. 2^column_shift threads of a block have
// neighbouring columns of one of the two, a vector of 16 bytes each. Each such group adds up every
// GROUPS-th part, and the groups' sums are added up, always in the same order.
//
// Pressed from templates/layernorm/layernorm_bwd_reduce.cu.j2 with tile w8v8 by
//   python -m generator --family layernorm --pass bwd_reduce --norm layer --cols 131072 \
//     --dtype fp32 --params bf16

#include "attnpress/args/layernorm.h"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/ptx_global.cuh"
#include "attnpress/device/row_norm.cuh"
#include "attnpress/device/row_span.cuh"

constexpr int PARAMETER_SIZE = 2; // bytes of an element of dweight
constexpr int THREADS = 256;
constexpr int STEP = 8;    // parts that a thread loads at once
constexpr int ELEMENTS = 4; // of a vector
constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4;

// Vectors at `column` of the parts `first`, `first` + apart ..., 0 where there are none. parts:
// (count, pitch), vector: (STEP)
__device__ __forceinline__ void load_parts(const float *parts, int count, int columns, int pitch,
                                           int column, int first, int apart, uint4 *vector) {
  // One branch for all: every load of a thread is on its way before the first is waited for.
  if (pitch % ELEMENTS == 0) {
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      const int part = first + i * apart;
      vector[i] =
          load_16_if(part < count && column < columns, parts + (int64_t)part * pitch + column, 0);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < STEP; ++i) {
    const int part = first + i * apart;
    load_columns(parts + (int64_t)part * pitch, 4, part < count ? columns : 0, column / ELEMENTS,
                 0, 1, &vector[i]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    layernorm_bwd_reduce_cols131072_fp32_wbf16_sm80(
        const __grid_constant__ attnpress_layernorm_reduce_args args) {
  __shared__ float4 group_sum[THREADS];
  const int column_threads = 1 << args.column_shift;
  const int groups = THREADS >> args.column_shift, group = threadIdx.x >> args.column_shift;
  const int block_columns = column_threads * ELEMENTS;
  const int tiles = (args.columns + block_columns - 1) / block_columns;
  // The first tiles are dweight's, where it is asked for.
  const bool of_weight = args.dweight && (int)blockIdx.x < tiles;
  const float *parts = of_weight ? args.weight_parts : args.bias_parts;
  void *to = of_weight ? args.dweight : args.dbias;
  const int column =
      (blockIdx.x % tiles * column_threads + threadIdx.x % column_threads) * ELEMENTS;
  // The next kernel may begin, and wait. The parts are there when those before this one have ended.
  griddepcontrol_launch_dependents();
  griddepcontrol_wait();

  float sum[ELEMENTS] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int first = group; first < args.parts; first += STEP * groups) {
    uint4 vector[STEP];
    load_parts(parts, args.parts, args.columns, args.pitch, column, first, groups, vector);
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      float value[ELEMENTS];
      widen_vector_fp32(vector[i], value);
#pragma unroll
      for (int j = 0; j < ELEMENTS; ++j)
        sum[j] += value[j];
    }
  }
  const float4 own = {sum[0], sum[1], sum[2], sum[3]};
  group_sum[threadIdx.x] = own;
  // All threads arrive and wait: hands over the sums of the groups.
  __syncthreads();
  if (group > 0)
    return;
#pragma unroll 4
  for (int other = 1; other < groups; ++other) {
    const float4 more = group_sum[other * column_threads + threadIdx.x];
    sum[0] += more.x;
    sum[1] += more.y;
    sum[2] += more.z;
    sum[3] += more.w;
  }
  uint32_t word[WORDS];
  narrow_words_bf16(sum, ELEMENTS, word);
  store_span(to, PARAMETER_SIZE, column, args.columns, ELEMENTS, word);
}
