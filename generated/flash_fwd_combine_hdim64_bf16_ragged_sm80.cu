// flash_fwd_combine_hdim64_bf16_ragged_sm80
//
// Adds up the splits of a forward pass:
//   lse = log(sum_i exp(lse_i)), out = sum_i exp(lse_i - lse) out_i,
// where a head's sink, if there is one, is one more lse_i, whose out_i is 0.
// The output is bf16, all else fp32. One thread block computes COLUMNS columns of one row: its
// threads form groups of COLUMNS / 4 threads, and each group adds up every GROUPS-th split.
// Where rows are many and splits few, it computes GROUPS rows, and each group adds up all splits of
// one (args.block_rows).
// Splits of a batch-invariant call by sm90's kernels a warp adds up, in their order; those of few
// rows flash_fwd_combine_few does, of other calls, too.
// A split past a sequence's keys has lse = -inf and no output.
//
// Pressed from templates/attention/flash_fwd_combine.cu.j2 with tile m1n32w4x1s0k0v0 by
//   python -m generator --pass fwd_combine --hdim 64 --dtype bf16 --ragged --arch sm80

#include "attnpress/args/attention.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/epilogue.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/ptx_math.cuh"
#include "attnpress/device/ptx_prefetch.cuh"
#include "attnpress/device/sequence.cuh"
#include "attnpress/device/softmax.cuh"
#include "attnpress/device/tile.cuh"

constexpr int HEAD_DIM_V = 64;
constexpr Dtype DTYPE = BF16;
constexpr int COLUMNS = 32; // of a thread block
constexpr int WARPS = 4;
constexpr int COLUMN_BLOCKS = ceil_div(HEAD_DIM_V, COLUMNS);
constexpr int GROUP_THREADS = COLUMNS / 4; // of 4 columns
constexpr int GROUPS = 32 * WARPS / GROUP_THREADS;
constexpr int STEP = 4; // splits that a group loads at once
constexpr int FEW_PARTS = 4096; // of all rows
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

// Where the parts of a row lie in lse_partial: that of split 0, and the others, `step` behind each
// other, that of split 0 being counted.
struct PartRows {
  int64_t first, base, step;
};

__device__ __forceinline__ int64_t part_row(PartRows rows, int split) {
  return split == 0 ? rows.first : rows.base + split * rows.step;
}

// Adds up splits `first`, `first` + `stride` ... of a row, in the 4 columns from `column` on; where
// `all` of them have written their output, it is asked for beside their lse.
__device__ __forceinline__ Sum add_splits(const attnpress_fwd_combine_args *args, PartRows rows,
                                          int num_splits, bool all, int first, int stride,
                                          int column) {
  Sum sum = {-INF, 0.0f, {0.0f, 0.0f, 0.0f, 0.0f}};
  for (; first < num_splits; first += STEP * stride) {
    float lse[STEP];
    float4 out[STEP];
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      const int split = first + i * stride;
      const float4 zero = {0.0f, 0.0f, 0.0f, 0.0f};
      lse[i] = -INF;
      out[i] = zero;
      if (split < num_splits)
        lse[i] = args->lse_partial[part_row(rows, split)] * LOG2_E;
      if (all && split < num_splits)
        out[i] =
            *(const float4 *)(args->out_partial + part_row(rows, split) * HEAD_DIM_V + column);
    }
    // Else splits past a sequence's keys have written none.
#pragma unroll
    for (int i = 0; i < STEP; ++i)
      if (!all && lse[i] > -INF)
        out[i] = *(const float4 *)(args->out_partial +
                                   part_row(rows, first + i * stride) * HEAD_DIM_V + column);
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

// One split of a row, if there is one of that number: its lse, which is natural, and its output. Both
// are asked for at once: few parts are better read for nothing than waited for twice.
struct Part {
  float lse;
  float4 out;
};

__device__ __forceinline__ Part take_split(const attnpress_fwd_combine_args *args, int row,
                                           int split, int column) {
  const float4 zero = {0.0f, 0.0f, 0.0f, 0.0f};
  const int64_t partial = split * args->rows + row;
  Part part = {-INF, zero};
  if (split < args->num_splits) {
    part.lse = args->lse_partial[partial];
    part.out = *(const float4 *)(args->out_partial + partial * HEAD_DIM_V + column);
  }
  return part;
}

// A part that there is; one without keys has written no output.
__device__ __forceinline__ Part known_part(Part part, bool there) {
  const float4 zero = {0.0f, 0.0f, 0.0f, 0.0f};
  if (!there)
    part.lse = -INF;
  if (part.lse == -INF)
    part.out = zero;
  return part;
}

// Splits whose parts are in shared memory at once, as all groups have asked for them.
constexpr int ORDERED = 2 * GROUPS;
struct OrderedParts {
  float4 out[ORDERED][GROUP_THREADS];
  float lse[ORDERED];
};

// The sum of a row's splits so far, by their lse.
struct OrderedSum {
  float lse;
  float4 out;
};

// Adds `count` parts that are in shared memory, one after the other.
__device__ __forceinline__ void add_by_lse(OrderedSum *sum, const OrderedParts *parts, int count) {
  const int thread = threadIdx.x % GROUP_THREADS;
  float4 out = sum->out;
#pragma unroll 4
  for (int i = 0; i < count; ++i) {
    const float4 next = parts->out[i][thread];
    const PartSum factors = add_part(sum->lse, parts->lse[i]);
    sum->lse = factors.lse;
    out.x = add_part_values(factors, out.x, next.x);
    out.y = add_part_values(factors, out.y, next.y);
    out.z = add_part_values(factors, out.z, next.z);
    out.w = add_part_values(factors, out.w, next.w);
  }
  sum->out = out;
}

// Adds up the splits of a row one after the other, whatever their number: as a thread block of
// sm80's split kernels does that computes them all. The first group does so, and gets the result;
// all threads of the thread block take part.
__device__ __forceinline__ Sum add_in_order(const attnpress_fwd_combine_args *args, int row,
                                            int column, OrderedParts *parts) {
  const int group = threadIdx.x / GROUP_THREADS, thread = threadIdx.x % GROUP_THREADS;
  OrderedSum sum = {-INF, {0.0f, 0.0f, 0.0f, 0.0f}};
  const int num_splits = args->num_splits;
  for (int begin = 0; begin < num_splits; begin += ORDERED) {
    Part part[ORDERED / GROUPS];
#pragma unroll
    for (int i = 0; i < ORDERED / GROUPS; ++i)
      part[i] = take_split(args, row, begin + i * GROUPS + group, column);
    // All threads arrive and wait: the parts before have been added up.
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ORDERED / GROUPS; ++i) {
      const int split = i * GROUPS + group;
      part[i] = known_part(part[i], begin + split < num_splits);
      parts->out[split][thread] = part[i].out;
      if (thread == 0)
        parts->lse[split] = part[i].lse;
    }
    // All threads arrive and wait: hands over the parts.
    __syncthreads();
    if (group == 0)
      add_by_lse(&sum, parts, min(num_splits - begin, ORDERED));
  }
  float4 out = sum.out;
  out = {out.x + 0.0f, out.y + 0.0f, out.z + 0.0f, out.w + 0.0f}; // sums of groups have no -0
  return {sum.lse * LOG2_E, sum.lse > -INF ? 1.0f : 0.0f, out};
}

// A row of (batch, heads_q, seqlen_q): its position, head and batch.
struct RowPlace {
  int position;
  int head, batch;
};

__device__ __forceinline__ RowPlace find_row(const attnpress_fwd_combine_args *args, int row) {
  const int heads = row / args->seqlen_q, position = row - heads * args->seqlen_q;
  RowPlace place;
  place.batch = heads / args->heads_q;
  place.head = heads - place.batch * args->heads_q;
  place.position = position;
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

// Where a row of a sequence whose queries are `rows` lies in the output.
__device__ __forceinline__ uint16_t *out_of_row(const attnpress_fwd_combine_args *args,
                                                const attnpress_ragged_args *ragged, Rows rows,
                                                RowPlace place) {
  const int64_t out_batch = ragged->cu_seqlens_q != nullptr ? 0 : place.batch;
  return (uint16_t *)args->out + out_batch * args->out_batch_stride +
         (rows.begin + place.position) * args->out_row_stride +
         place.head * args->out_head_stride;
}

__device__ __forceinline__ void store_row_lse(const attnpress_fwd_combine_args *args,
                                              const attnpress_ragged_args *ragged, Rows rows,
                                              RowPlace place, float lse) {
  args->lse[lse_of_sequence(ragged, rows, place.batch, args->lse_batch_stride) +
            place.head * args->lse_head_stride + place.position * ragged->lse_row_stride] =
      stored_lse(ragged, lse);
}

// Stores one column of such a row, a lane each, and its lse with the first.
__device__ __forceinline__ void store_column(const attnpress_fwd_combine_args *args,
                                             const attnpress_ragged_args *ragged, Rows rows,
                                             RowPlace place, int column, bool valid,
                                             WeightedParts sum, float out, bool stores) {
  RowEnd end = {normalizer(sum.weights), natural_lse(sum.max, sum.weights)};
  if (args->sinks != nullptr && stores)
    end = end_of_row(args, place.head, sum.max, sum.weights);
  const float value = out * end.normalize, other = __shfl_xor_sync(0xffffffff, value, 1);
  if (valid && stores && column % 2 == 0)
    *(uint32_t *)(out_of_row(args, ragged, rows, place) + column) = pack(DTYPE, value, other);
  if (args->lse && stores && column == 0)
    store_row_lse(args, ragged, rows, place, end.lse);
}

// Stores 4 columns of such a row, and its lse with the first.
__device__ __forceinline__ void store_row(const attnpress_fwd_combine_args *args,
                                          const attnpress_ragged_args *ragged, Rows rows,
                                          RowPlace place, int column, Sum sum) {
  const int head = place.head;
  const RowEnd end = end_of_row(args, head, sum.max, sum.weights);
  uint16_t *out = out_of_row(args, ragged, rows, place) + column;
  const uint2 packed = {pack(DTYPE, sum.out.x * end.normalize, sum.out.y * end.normalize),
                        pack(DTYPE, sum.out.z * end.normalize, sum.out.w * end.normalize)};
  *(uint2 *)out = packed;
  if (args->lse && column == 0)
    store_row_lse(args, ragged, rows, place, end.lse);
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
// `splits`: where their number stands, if that is less than the bound; it is asked for beside them.
__device__ __forceinline__ Sum add_few_splits(const attnpress_fwd_combine_args *args, int row,
                                              int num_splits, const int32_t *splits, int column,
                                              WarpSums *sums) {
  const int lane = threadIdx.x % 32, group = threadIdx.x / GROUP_THREADS;
  const int64_t rows = args->rows;
  Sum sum = {-INF, 0.0f, {0.0f, 0.0f, 0.0f, 0.0f}};
  float lse = -INF;
  if (lane < num_splits)
    lse = args->lse_partial[lane * rows + row] * LOG2_E;
  float4 out = sum.out;
  if (group < num_splits)
    out = *(const float4 *)(args->out_partial + (group * rows + row) * HEAD_DIM_V + column);
  if (splits != nullptr && num_splits > 0 && lane >= *splits)
    lse = -INF;
  if (__shfl_sync(0xffffffff, lse, group) == -INF) // a split without keys has written no output
    out = sum.out;
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

// Adds up all splits of a row, in COLUMNS columns, in the order of their keys, as a thread block of
// sm90's kernels does that computes them all, and stores the result. All lanes of a warp take part:
// each finds the factors of one part of 32, which depend on the greatest lse up to it, and has a
// column. Parts of few rows, by their bound, are asked for beside their number. The code is short:
// in small calls most of it comes from memory. `reads`: otherwise it is gone through so that it has
// come, and nothing is read or stored.
constexpr int ASKED = 16; // parts at once
__device__ __forceinline__ void
combine_in_order(const attnpress_fwd_combine_ragged_args *batch, Rows rows, int row,
                 RowPlace place, int column_block, bool few, bool reads) {
  const attnpress_fwd_combine_args *args = &batch->combine;
  static_assert(COLUMNS == 32 && 32 % ASKED == 0, "a column a lane, and a part a lane");
  const int lane = threadIdx.x % 32, column = column_block * COLUMNS + lane;
  const bool valid = HEAD_DIM_V % COLUMNS == 0 || column < HEAD_DIM_V;
  const int32_t *splits = batch->sequence_splits + place.batch;
  const int64_t step = args->rows * HEAD_DIM_V;
  const float *part = args->out_partial + (int64_t)row * HEAD_DIM_V + (valid ? column : 0);
  int num_splits = !reads ? 0 : few ? args->num_splits : *splits;
  WeightedParts sum = {-INF, 0.0f};
  float2 own = {0.0f, 0.0f}; // factors of the lane's part
  float out = 0.0f;
  int first = 0;
#pragma unroll 1
  do {
    const int lane_part = first + lane;
    float lse = -INF, parts[ASKED];
    if (first % 32 == 0 && lane_part < num_splits)
      lse = args->lse_partial[lane_part * args->rows + row];
#pragma unroll
    for (int i = 0; i < ASKED; ++i, part += step)
      parts[i] = first + i < num_splits ? *part : 0.0f;
    if (few && reads)
      num_splits = *splits;
    if (first % 32 == 0) {
      if (lane_part >= num_splits)
        lse = -INF;
      // The greatest up to this lane's part.
      float greatest = fmaxf(sum.max, multiply_add_once(lse, LOG2_E, 0.0f));
#pragma unroll
      for (int lanes = 1; lanes < 32; lanes *= 2)
        greatest = fmaxf(greatest, __shfl_sync(0xffffffff, greatest, max(lane - lanes, 0)));
      WeightedParts before = {__shfl_sync(0xffffffff, greatest, max(lane - 1, 0)), 0.0f};
      if (lane == 0)
        before.max = sum.max;
      own = weigh_part(&before, lse);
      sum.max = __shfl_sync(0xffffffff, greatest, 31);
    }
#pragma unroll
    for (int i = 0; i < ASKED; ++i) {
      const float2 factors = {__shfl_sync(0xffffffff, own.x, first % 32 + i),
                              __shfl_sync(0xffffffff, own.y, first % 32 + i)};
      if (first + i < num_splits) { // what lies behind is not there
        sum.weights = multiply_add_once(factors.x, sum.weights, factors.y);
        out = add_weighted(factors, out, parts[i]);
      }
    }
    first += ASKED;
  } while (first < num_splits);
  store_column(args, &batch->ragged, rows, place, column, valid, sum, out + 0.0f, reads);
}

union Shared {
  WarpSums sums;
  OrderedParts ordered;
};

// Adds up all splits of a row of (batch, heads_q, seqlen_q), in COLUMNS columns, and stores the
// result: all threads of the thread block do so `together`, or each group of threads by itself.
// `splits`: where the number of splits stands, if that is less than the bound.
__device__ __forceinline__ void combine_row(const attnpress_fwd_combine_args *args,
                                            const attnpress_ragged_args *ragged, Rows rows,
                                            int row, PartRows parts, bool of_runs,
                                            const int32_t *splits, RowPlace place,
                                            int column_block, bool together, Shared *shared) {
  const int column = column_block * COLUMNS + threadIdx.x % GROUP_THREADS * 4;
  const bool valid = HEAD_DIM_V % COLUMNS == 0 || column < HEAD_DIM_V;
  Sum sum = {-INF, 0.0f, {0.0f, 0.0f, 0.0f, 0.0f}};
  const bool few =
      together && args->num_splits <= GROUPS && args->rows * args->num_splits <= FEW_PARTS;
  if (ragged->fixed_split_blocks != 0) {
    sum = add_in_order(args, row, valid ? column : 0, &shared->ordered);
  } else if (few && !of_runs) {
    sum = add_few_splits(args, row, args->num_splits, splits, valid ? column : 0, &shared->sums);
  } else {
    sum = add_splits(args, parts, splits != nullptr ? *splits : args->num_splits,
                     splits != nullptr, together ? threadIdx.x / GROUP_THREADS : 0,
                     together ? GROUPS : 1, valid ? column : 0);
    if (together)
      sum = add_groups(sum, &shared->sums);
  }
  if (valid && (threadIdx.x < GROUP_THREADS || !together))
    store_row(args, ragged, rows, place, column, sum);
}

// Whether all that is known of the rows stands in the arguments, and the splits are a group's each
// and few.
__device__ __forceinline__ bool
adds_few_parts(const attnpress_fwd_combine_ragged_args *batch) {
  const attnpress_fwd_combine_args *args = &batch->combine;
  return args->block_rows == 1 && args->num_splits <= GROUPS &&
         args->rows * args->num_splits <= FEW_PARTS && batch->ragged.fixed_split_blocks == 0 &&
         batch->ragged.cu_seqlens_q == nullptr && batch->ragged.seqused_q == nullptr &&
         batch->cuts == nullptr;
}

// combine_row() of such calls. `reads`: otherwise it is gone through so that its code has come, as
// combine_in_order().
__device__ __forceinline__ void combine_few(const attnpress_fwd_combine_ragged_args *batch,
                                            const int32_t *splits, int row, RowPlace place,
                                            int column_block, Shared *shared, bool reads) {
  const attnpress_fwd_combine_args *args = &batch->combine;
  const int column = column_block * COLUMNS + threadIdx.x % GROUP_THREADS * 4;
  const bool valid = HEAD_DIM_V % COLUMNS == 0 || column < HEAD_DIM_V;
  const Rows rows = {0, batch->ragged.rows_q <= args->seqlen_q ? batch->ragged.rows_q : 0};
  const Sum sum = add_few_splits(args, row, reads ? args->num_splits : 0, splits,
                                 valid ? column : 0, &shared->sums);
  if (reads && valid && threadIdx.x < GROUP_THREADS && place.position < rows.count)
    store_row(args, &batch->ragged, rows, place, column, sum);
}

// Has a row's part brought to the L2 cache.
__device__ __forceinline__ void fetch_part(const attnpress_fwd_combine_args *args, int64_t row,
                                           int column_block) {
  if (threadIdx.x % GROUP_THREADS == 0)
    prefetch_l2(args->out_partial + row * HEAD_DIM_V + column_block * COLUMNS);
  if (threadIdx.x % GROUP_THREADS == 1)
    prefetch_l2(args->lse_partial + row);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    flash_fwd_combine_hdim64_bf16_ragged_sm80(
        const __grid_constant__ attnpress_fwd_combine_ragged_args batch_args) {
  __shared__ Shared shared;
  attnpress_fwd_combine_args args = batch_args.combine;
  const bool together = args.block_rows == 1; // all groups have the same row
  const int64_t first_row = (int64_t)(blockIdx.x / COLUMN_BLOCKS) * args.block_rows;
  const bool weighs = batch_args.sequence_splits != nullptr &&
                      batch_args.ragged.fixed_split_blocks != 0; // a warp each row
  const int64_t own_row =
      first_row + (together ? 0 : threadIdx.x / (weighs ? 32 : GROUP_THREADS));
  if (own_row >= args.rows)
    return;
  const int row = (int)own_row; // of (batch, heads_q, seqlen_q)
  RowPlace place = find_row(&args, row);
  if (weighs) {
    // Of few parts: what comes next may begin to wait before this kernel waits itself, and the code
    // is gone through before, with nothing to read.
    const bool few_weighed = args.rows * args.num_splits <= FEW_PARTS;
    if (few_weighed)
      griddepcontrol_launch_dependents();
#pragma unroll 1
    for (int turn = few_weighed ? 0 : 1; turn < 2; ++turn) {
      if (turn == 1) { // as below
        griddepcontrol_wait();
        griddepcontrol_launch_dependents();
      }
      Rows rows = {0, args.seqlen_q};
      if (turn == 1)
        rows = query_rows(&batch_args.ragged, place.batch, args.seqlen_q);
      if (place.position < rows.count) // else no split has written it
        combine_in_order(&batch_args, rows, row, place, blockIdx.x % COLUMN_BLOCKS, few_weighed,
                         turn == 1);
    }
    return;
  }
  const int32_t *splits = batch_args.sequence_splits;
  splits += splits != nullptr ? place.batch : 0;
  if (adds_few_parts(&batch_args)) { // most small calls: as above
    griddepcontrol_launch_dependents();
#pragma unroll 1
    for (int turn = 0; turn < 2; ++turn) {
      if (turn == 1) {
        // All threads arrive and wait: what was handed over for nothing has been read.
        __syncthreads();
        griddepcontrol_wait();
      }
      combine_few(&batch_args, splits, row, place, blockIdx.x % COLUMN_BLOCKS, &shared,
                  turn == 1);
    }
    return;
  }
  // The parts are there when the split kernel has ended; what comes next may begin to wait too. The
  // place, whose divisions take a while, is found before: the compiler would wait at once.
  if (place.batch >= 0)
    griddepcontrol_wait();
  griddepcontrol_launch_dependents();

  const bool of_runs = batch_args.cuts != nullptr;
  PartRows parts = {row, row, args.rows};
  if (of_runs) {
    parts.step = (int64_t)args.heads_q * args.seqlen_q;
    parts.first = row + args.num_splits * parts.step;
    // Most have two parts, which are asked for before it is known whether there are any.
    fetch_part(&args, parts.first, blockIdx.x % COLUMN_BLOCKS);
    fetch_part(&args, row + parts.step, blockIdx.x % COLUMN_BLOCKS);
    const int run = place.batch;
    const uint2 cut = *(const uint2 *)(batch_args.cuts + run * 2);
    const int sequence = (int)cut.x;
    if (sequence < 0) // none begins there and goes on in others
      return;
    args.num_splits = (int)cut.y - run + 1;
    place.batch = sequence;
  }
  const Rows rows = query_rows(&batch_args.ragged, place.batch, args.seqlen_q);
  if (place.position >= rows.count) // no split has written it
    return;
  combine_row(&args, &batch_args.ragged, rows, row, parts, of_runs, splits, place,
              blockIdx.x % COLUMN_BLOCKS, together, &shared);
}
