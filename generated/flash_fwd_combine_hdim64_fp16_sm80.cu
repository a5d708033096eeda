// flash_fwd_combine_hdim64_fp16_sm80
//
// Adds up the splits of a forward pass:
//   lse = log(sum_i exp(lse_i)), out = sum_i exp(lse_i - lse) out_i,
// where a head's sink, if there is one, is one more lse_i, whose out_i is 0.
// The output is fp16, all else fp32. One thread block computes COLUMNS columns of one row: its
// threads form groups of COLUMNS / 4 threads, and each group adds up every GROUPS-th split.
// Where rows are many and splits few, it computes GROUPS rows, and each group adds up all splits of
// one (args.block_rows).
// No address depends on what was loaded before: a step costs one trip to memory.
//
// Pressed from templates/attention/flash_fwd_combine.cu.j2 with tile m1n32w4x1s0k0v0 by
//   python -m generator --pass fwd_combine --hdim 64 --dtype fp16 --arch sm80

#include "attnpress/args/attention.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/epilogue.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/ptx_math.cuh"
#include "attnpress/device/softmax.cuh"
#include "attnpress/device/tile.cuh"

constexpr int HEAD_DIM_V = 64;
constexpr Dtype DTYPE = FP16;
constexpr int COLUMNS = 32; // of a thread block
constexpr int WARPS = 4;
constexpr int COLUMN_BLOCKS = ceil_div(HEAD_DIM_V, COLUMNS);
constexpr int GROUP_THREADS = COLUMNS / 4; // of 4 columns
constexpr int GROUPS = 32 * WARPS / GROUP_THREADS;
constexpr int STEP = 4; // splits that a group loads at once
static_assert(32 % GROUP_THREADS == 0, "a warp is a number of groups");

// A sum over some of the splits: of 2^(lse - max) and of 2^(lse - max) out, in 4 columns; lse and
// its maximum in units of log2. No splits, or none with a key: -inf, 0 and 0.
struct Sum {
  float max, weights;
  float4 out;
};

// 2^(lse - max), where max may be -inf: then lse is, too.
__device__ __forceinline__ float weight_of(float lse, float max) {
  return exp2_approx(lse - finite_base(max));
}

// a * x + y
__device__ __forceinline__ float4 multiply_add(float a, float4 x, float4 y) {
  const float4 sum = {a * x.x + y.x, a * x.y + y.y, a * x.z + y.z, a * x.w + y.w};
  return sum;
}

__device__ __forceinline__ Sum add(Sum a, Sum b) {
  Sum sum;
  sum.max = fmaxf(a.max, b.max);
  const float a_weight = weight_of(a.max, sum.max), b_weight = weight_of(b.max, sum.max);
  const float4 zero = {0.0f, 0.0f, 0.0f, 0.0f};
  sum.weights = a_weight * a.weights + b_weight * b.weights;
  sum.out = multiply_add(a_weight, a.out, multiply_add(b_weight, b.out, zero));
  return sum;
}

__device__ __forceinline__ float4 exchange_columns(float4 x, int lanes) {
  x.x = __shfl_xor_sync(0xffffffff, x.x, lanes);
  x.y = __shfl_xor_sync(0xffffffff, x.y, lanes);
  x.z = __shfl_xor_sync(0xffffffff, x.z, lanes);
  x.w = __shfl_xor_sync(0xffffffff, x.w, lanes);
  return x;
}

__device__ __forceinline__ Sum exchange(Sum a, int lanes) {
  a.max = __shfl_xor_sync(0xffffffff, a.max, lanes);
  a.weights = __shfl_xor_sync(0xffffffff, a.weights, lanes);
  a.out = exchange_columns(a.out, lanes);
  return a;
}

// Adds up splits `first`, `first` + `stride` ... of a row, in the 4 columns from `column` on.
__device__ __forceinline__ Sum add_splits(const attnpress_fwd_combine_args *args, int row,
                                          int num_splits, int first, int stride, int column) {
  Sum sum = {-INF, 0.0f, {0.0f, 0.0f, 0.0f, 0.0f}};
  for (; first < num_splits; first += STEP * stride) {
    float lse[STEP];
    float4 out[STEP];
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      const int split = first + i * stride;
      const int64_t partial = split * args->rows + row;
      const float4 zero = {0.0f, 0.0f, 0.0f, 0.0f};
      lse[i] = -INF;
      out[i] = zero;
      if (split < num_splits) {
        lse[i] = args->lse_partial[partial] * LOG2_E;
        out[i] = *(const float4 *)(args->out_partial + partial * HEAD_DIM_V + column);
      }
    }
    float max = sum.max;
#pragma unroll
    for (int i = 0; i < STEP; ++i)
      max = fmaxf(max, lse[i]);
    const float rescale = weight_of(sum.max, max);
    const float4 zero = {0.0f, 0.0f, 0.0f, 0.0f};
    sum.max = max;
    sum.weights *= rescale;
    sum.out = multiply_add(rescale, sum.out, zero);
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      const float weight = weight_of(lse[i], max);
      sum.weights += weight;
      sum.out = multiply_add(weight, out[i], sum.out);
    }
  }
  return sum;
}

// Where a row of (batch, heads_q, seqlen_q) lies: offsets of its output and of its lse, its head
// and its batch.
struct RowPlace {
  int64_t out, lse;
  int head, batch;
};

__device__ __forceinline__ RowPlace find_row(const attnpress_fwd_combine_args *args, int row) {
  const int heads = row / args->seqlen_q, position = row - heads * args->seqlen_q;
  RowPlace place;
  place.batch = heads / args->heads_q;
  place.head = heads - place.batch * args->heads_q;
  place.out = place.batch * args->out_batch_stride + position * args->out_row_stride +
              place.head * args->out_head_stride;
  place.lse = place.batch * args->lse_batch_stride + place.head * args->lse_head_stride + position;
  return place;
}

// A row's sum ends with its sink, if there is one.
__device__ __forceinline__ RowEnd end_of_row(const attnpress_fwd_combine_args *args, int head,
                                             float max, float weights) {
  if (args->sinks == nullptr)
    return {normalizer(weights), natural_lse(max, weights)};
  return end_row_with_sink(
      max, weights,
      load_sink(args->sinks, args->sinks_dtype, args->sinks_stride, head, args->heads_q));
}

// Stores 4 columns of a row, and its lse with the first.
__device__ __forceinline__ void store_row(const attnpress_fwd_combine_args *args, RowPlace place,
                                          int column, Sum sum) {
  const int head = place.head;
  const RowEnd end = end_of_row(args, head, sum.max, sum.weights);
  uint16_t *out = (uint16_t *)args->out + place.out + column;
  const uint2 packed = {pack(DTYPE, sum.out.x * end.normalize, sum.out.y * end.normalize),
                        pack(DTYPE, sum.out.z * end.normalize, sum.out.w * end.normalize)};
  *(uint2 *)out = packed;
  if (args->lse && column == 0)
    args->lse[place.lse] = end.lse;
}

// What the warps hand over, in shared memory.
struct WarpSums {
  float4 out[WARPS][GROUP_THREADS];
  float2 weights[WARPS][GROUP_THREADS]; // maximum, sum of the weights
};

// Adds up the sums of all groups. The first group gets the result; all threads of the thread block
// take part.
__device__ __forceinline__ Sum add_groups(Sum sum, WarpSums *sums) {
  const int thread = threadIdx.x % GROUP_THREADS;
  // Over the groups of a warp, then over the warps.
#pragma unroll
  for (int lanes = GROUP_THREADS; lanes < 32; lanes *= 2)
    sum = add(sum, exchange(sum, lanes));
  if (threadIdx.x % 32 < GROUP_THREADS) {
    const float2 weights = {sum.max, sum.weights};
    sums->out[threadIdx.x / 32][thread] = sum.out;
    sums->weights[threadIdx.x / 32][thread] = weights;
  }
  // All threads arrive and wait: hands over the sums of the warps.
  __syncthreads();
  if (threadIdx.x >= GROUP_THREADS)
    return sum;
#pragma unroll
  for (int warp = 1; warp < WARPS; ++warp) {
    const float2 weights = sums->weights[warp][thread];
    const Sum part = {weights.x, weights.y, sums->out[warp][thread]};
    sum = add(sum, part);
  }
  return sum;
}

// The same as add_splits() and add_groups() of a split a group: a lane asks for the lse of one
// split beside the output of its group's, so that all weights are there at once.
__device__ __forceinline__ Sum add_few_splits(const attnpress_fwd_combine_args *args, int row,
                                              int num_splits, int column, WarpSums *sums) {
  const int lane = threadIdx.x % 32, group = threadIdx.x / GROUP_THREADS;
  const int64_t rows = args->rows;
  Sum sum = {-INF, 0.0f, {0.0f, 0.0f, 0.0f, 0.0f}};
  float lse = -INF;
  if (lane < num_splits)
    lse = args->lse_partial[lane * rows + row] * LOG2_E;
  float4 out = sum.out;
  if (group < num_splits)
    out = *(const float4 *)(args->out_partial + (group * rows + row) * HEAD_DIM_V + column);
  sum.max = lse;
#pragma unroll
  for (int lanes = 1; lanes < GROUPS; lanes *= 2)
    sum.max = fmaxf(sum.max, __shfl_xor_sync(0xffffffff, sum.max, lanes));
  sum.max = __shfl_sync(0xffffffff, sum.max, 0);
  const float weight = weight_of(lse, sum.max);
  sum.out = multiply_add(__shfl_sync(0xffffffff, weight, group), out, sum.out);
  sum.weights = weight;
#pragma unroll
  for (int lanes = 1; lanes < GROUPS; lanes *= 2)
    sum.weights += __shfl_xor_sync(0xffffffff, sum.weights, lanes);
  // Over the groups of a warp, then over the warps.
#pragma unroll
  for (int lanes = GROUP_THREADS; lanes < 32; lanes *= 2)
    sum.out = multiply_add(1.0f, exchange_columns(sum.out, lanes), sum.out);
  if (lane < GROUP_THREADS)
    sums->out[threadIdx.x / 32][lane] = sum.out;
  // All threads arrive and wait: hands over the sums of the warps.
  __syncthreads();
#pragma unroll
  for (int warp = 1; warp < WARPS && threadIdx.x < GROUP_THREADS; ++warp)
    sum.out = multiply_add(1.0f, sums->out[warp][threadIdx.x], sum.out);
  return sum;
}

// Adds up all splits of `first_row` of (batch, heads_q, seqlen_q), or, where a thread block has
// several rows, of one a group from there on, in COLUMNS columns, and stores the result.
__device__ __forceinline__ void combine_rows(const attnpress_fwd_combine_args *args,
                                             int64_t first_row, int column_block, WarpSums *sums) {
  const int group = threadIdx.x / GROUP_THREADS;
  const int column = column_block * COLUMNS + threadIdx.x % GROUP_THREADS * 4;
  const bool together = args->block_rows == 1; // all groups have the same row
  const int64_t own_row = first_row + (together ? 0 : group);
  const bool valid = own_row < args->rows && (HEAD_DIM_V % COLUMNS == 0 || column < HEAD_DIM_V);
  const int row = own_row < args->rows ? (int)own_row : 0;
  const RowPlace place = find_row(args, row);
  // What comes next may begin to wait too: for this kernel, and so for all that this one waits for.
  // The parts are there when the split kernel has ended. The place, whose divisions take a while,
  // is found before: the compiler would wait at once.
  griddepcontrol_launch_dependents();
  if (place.batch >= 0)
    griddepcontrol_wait();

  const int num_splits = args->num_splits;
  Sum sum;
  if (together && num_splits <= GROUPS) {
    sum = add_few_splits(args, row, num_splits, valid ? column : 0, sums);
  } else {
    sum = add_splits(args, row, num_splits, together ? group : 0, together ? GROUPS : 1,
                     valid ? column : 0);
    if (together)
      sum = add_groups(sum, sums);
  }
  if (valid && (group == 0 || !together))
    store_row(args, place, column, sum);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    flash_fwd_combine_hdim64_fp16_sm80(
        const __grid_constant__ attnpress_fwd_combine_args args) {
  __shared__ WarpSums sums;
  // The first rows have no parts.
  const int64_t first_row =
      args.whole_rows + (int64_t)(blockIdx.x / COLUMN_BLOCKS) * args.block_rows;
  combine_rows(&args, first_row, blockIdx.x % COLUMN_BLOCKS, &sums);
}
