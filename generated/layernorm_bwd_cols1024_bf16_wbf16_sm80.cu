// layernorm_bwd_cols1024_bf16_wbf16_sm80
//
// With x^ = (x - mean) rstd and g = dy weight, over rows of at most COLUMNS columns:
//   dx = rstd (g - mean(g) - x^ mean(g x^)) + dsum,    dweight = sum(dy x^),    dbias = sum(dy).
// bf16, weight bf16, fp32 inside. ROW_THREADS threads share a row of x and dy and hold it: both
// are read once, dx may be either. A thread block walks over rows, gridDim.x * GROUPS apart, and
// adds up its columns of dweight and dbias, which another kernel then adds up over the blocks.
//
// Pressed from templates/layernorm/layernorm_bwd.cu.j2 with tile w8t64b2a by
//   python -m generator --family layernorm --pass bwd --norm layer --cols 1024 \
//     --dtype bf16 --params bf16

#include "attnpress/args/layernorm.h"
#include "attnpress/device/lanes.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/row_norm.cuh"
#include "attnpress/device/row_span.cuh"
#include "attnpress/device/row_vector.cuh"

constexpr bool CENTERED = true; // the mean was taken off
constexpr int COLUMNS = 1024;
constexpr int SIZE = 2;  // bytes of an element
constexpr int PARAMETER_SIZE = 2; // bytes of the weight's element
constexpr int THREADS = 256;
constexpr int BLOCKS = 2; // of an SM
constexpr int ROW_THREADS = 64;
constexpr int GROUPS = THREADS / ROW_THREADS;
constexpr int WARPS = THREADS / 32, ROW_WARPS = ROW_THREADS / 32;
constexpr int ELEMENTS = 16 / SIZE; // of a vector
constexpr int VECTORS = COLUMNS / (ROW_THREADS * ELEMENTS); // of a thread in a row
constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32; // of a warp that share a row
constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4; // of a vector's weights
static_assert(VECTORS * ROW_THREADS * ELEMENTS == COLUMNS, "threads share a row evenly");
constexpr int SLOTS = 0; // rows in shared memory
constexpr int SUMS_IN_SHARED = 0;
constexpr int SMEM_BYTES = 0;
static_assert(SMEM_BYTES == SLOTS * 2 * GROUPS * COLUMNS * SIZE + SUMS_IN_SHARED * 2 * COLUMNS * 4,
              "the generator has another formula");
static_assert(!SUMS_IN_SHARED || GROUPS == 1, "a thread has its sums for itself");
constexpr int APART = 1; // between the vectors of a thread's part of a row
// What the forward pass wrote of a row.
struct RowMoments {
  float mean, rstd;
};

// Row number `row` of a matrix.
__device__ __forceinline__ unsigned char *row_of(const void *matrix, int64_t row, int64_t stride) {
  return (unsigned char *)matrix + row * stride * SIZE;
}

// The columns of rows that exist.
__device__ __forceinline__ int columns_of(const attnpress_layernorm_bwd_args *args, int64_t row) {
  return row < args->rows ? args->columns : 0;
}

__device__ __forceinline__ RowMoments load_moments(const attnpress_layernorm_bwd_args *args,
                                                   int64_t row) {
  RowMoments moments = {0.0f, 0.0f};
  if (row < args->rows) {
    if (CENTERED)
      moments.mean = args->mean[row];
    moments.rstd = args->rstd[row];
  }
  return moments;
}

// A thread's part of a row of x, then of dy. part: (2, VECTORS)
__device__ __forceinline__ void load_row(const attnpress_layernorm_bwd_args *args, int64_t row,
                                         int thread, uint4 *part) {
  load_columns(row_of(args->x, row, args->x_row_stride), SIZE, columns_of(args, row), thread,
               ROW_THREADS, VECTORS, part);
  load_columns(row_of(args->dy, row, args->dy_row_stride), SIZE, columns_of(args, row), thread,
               ROW_THREADS, VECTORS, part + VECTORS);
}
// A row of dsum comes to the L2 cache while others are added up.
__device__ __forceinline__ void prefetch_dsum(const attnpress_layernorm_bwd_args *args, int64_t row,
                                              int thread) {
  prefetch_row(row_of(args->dsum, row, args->dsum_row_stride), SIZE, columns_of(args, row), thread,
               ROW_THREADS);
}

// Vector number `index` of a thread's part of a row of dsum.
__device__ __forceinline__ uint4 load_dsum(const attnpress_layernorm_bwd_args *args, int64_t row,
                                           int thread, int index) {
  uint4 vector;
  load_columns(row_of(args->dsum, row, args->dsum_row_stride), SIZE, columns_of(args, row),
               index * ROW_THREADS + thread, 0, 1, &vector);
  return vector;
}

// The words of the weight of a thread's vectors `index`, `index` + ROW_THREADS ..., `count` of them; 0
// beyond the row. word: (count, WORDS)
__device__ __forceinline__ void load_weight(const attnpress_layernorm_bwd_args *args, int index,
                                            int count, uint32_t *word) {
  load_parameter_vectors(args->weight, PARAMETER_SIZE, args->columns, ELEMENTS, index, ROW_THREADS,
                         count, word);
}

// Vector number `index` of x^, of dy and of g = dy weight. `part`: x, then dy; `weight`: the words
// of the weight, where there is one.
__device__ __forceinline__ void widen_row(const uint4 *part, int index, RowMoments moments,
                                          bool has_weight, const uint32_t *weight, float *x,
                                          float *dy, float *g) {
  widen_vector_bf16(part[index * APART], x);
  widen_vector_bf16(part[(VECTORS + index) * APART], dy);
#pragma unroll
  for (int j = 0; j < ELEMENTS; ++j) {
    x[j] = (x[j] - moments.mean) * moments.rstd;
    g[j] = dy[j];
  }
  if (has_weight) {
    float factor[ELEMENTS];
    widen_words_bf16(weight, ELEMENTS, factor);
#pragma unroll
    for (int j = 0; j < ELEMENTS; ++j)
      g[j] *= factor[j];
  }
}

// Writes the sums of ELEMENTS columns from `column` on, as far as there are so many.
__device__ __forceinline__ void store_sums(float *parts, int column, int columns,
                                           const float *sum) {
  float *to = parts + (int64_t)blockIdx.x * columns + column;
  if (columns % ELEMENTS == 0) {
    if (column < columns) {
#pragma unroll
      for (int j = 0; j < ELEMENTS; j += 4) {
        const float4 four = {sum[j], sum[j + 1], sum[j + 2], sum[j + 3]};
        *(float4 *)(to + j) = four;
      }
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < ELEMENTS; ++j)
    if (column + j < columns)
      to[j] = sum[j];
}

// Walks over the rows of the block's groups, and adds up dweight and dbias. has_dsum, has_weight:
// mostly constants, so that calls without dsum have a loop of their own, which no branch cuts.
__device__ __forceinline__ void walk(
    const attnpress_layernorm_bwd_args *args, bool has_dsum, bool has_weight, int thread,
    float2 *warp_sums, // (2, WARPS): in turn, so that one barrier a row is enough
    float (*weight_sum)[ELEMENTS], float (*bias_sum)[ELEMENTS]) {
  int turn = 0;
  const int64_t step = (int64_t)gridDim.x * GROUPS;
  int64_t row = (int64_t)blockIdx.x * GROUPS + threadIdx.x / ROW_THREADS;
  uint4 next[2 * VECTORS];
  load_row(args, row, thread, next);
  if (has_dsum)
    prefetch_dsum(args, row, thread);
  RowMoments next_moments = load_moments(args, row);
  // As often as the block's first group has a row; others then may have none.
  for (int64_t first = (int64_t)blockIdx.x * GROUPS; first < args->rows; first += step) {
    uint4 part[2 * VECTORS];
#pragma unroll
    for (int i = 0; i < 2 * VECTORS; ++i)
      part[i] = next[i];
    load_row(args, row + step, thread, next);
    if (has_dsum)
      prefetch_dsum(args, row + step, thread);
    const RowMoments moments = next_moments;
    next_moments = load_moments(args, row + step);
    // The sums of g and of g x^.
    float sum = 0.0f, dot = 0.0f;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      float x[ELEMENTS], dy[ELEMENTS], g[ELEMENTS];
      uint32_t weight[WORDS];
      if (has_weight)
        load_weight(args, i * ROW_THREADS + thread, 1, weight);
      widen_row(part, i, moments, has_weight, weight, x, dy, g);
#pragma unroll
      for (int j = 0; j < ELEMENTS; ++j) {
        sum += g[j];
        dot += g[j] * x[j];
      }
    }
    sum = CENTERED ? sum_lanes(sum, LANES) : 0.0f;
    dot = sum_lanes(dot, LANES);
    if (threadIdx.x % 32 == 0) {
      const float2 own = {sum, dot};
      warp_sums[turn * WARPS + threadIdx.x / 32] = own;
    }
    // All threads arrive and wait: hands over the sums of the warps.
    __syncthreads();
    const float2 other =
        warp_sums[turn * WARPS + threadIdx.x / ROW_THREADS * ROW_WARPS +
                  threadIdx.x % ROW_WARPS];
    sum = CENTERED ? sum_lanes(other.x, ROW_WARPS) : 0.0f;
    dot = sum_lanes(other.y, ROW_WARPS);
    turn ^= 1;
    renew_vectors(part, 2 * VECTORS);
    sum *= args->per_column;
    dot *= args->per_column;

    const int columns = columns_of(args, row);
    unsigned char *dx = row_of(args->dx, row, args->dx_row_stride);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      float x[ELEMENTS], dy[ELEMENTS], g[ELEMENTS];
      uint32_t weight[WORDS];
      if (has_weight)
        load_weight(args, i * ROW_THREADS + thread, 1, weight);
      widen_row(part, i, moments, has_weight, weight, x, dy, g);
#pragma unroll
      for (int j = 0; j < ELEMENTS; ++j) {
        weight_sum[i][j] += dy[j] * x[j];
        bias_sum[i][j] += dy[j];
      }
#pragma unroll
      for (int j = 0; j < ELEMENTS; ++j)
        g[j] = moments.rstd * (g[j] - sum - x[j] * dot);
      if (has_dsum) {
        const uint4 added = load_dsum(args, row, thread, i);
        float more[ELEMENTS];
        widen_vector_bf16(added, more);
#pragma unroll
        for (int j = 0; j < ELEMENTS; ++j)
          g[j] += more[j];
      }
      store_columns(dx, SIZE, columns, i * ROW_THREADS + thread, narrow_vector_bf16(g));
    }
    row += step;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    layernorm_bwd_cols1024_bf16_wbf16_sm80(
        const __grid_constant__ attnpress_layernorm_bwd_args args) {
  // All memory is touched after what ran before has ended.
  griddepcontrol_wait();
  const int thread = threadIdx.x % ROW_THREADS;
  const bool has_weight = args.weight != nullptr;
  float weight_sum[VECTORS][ELEMENTS], bias_sum[VECTORS][ELEMENTS];
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) {
#pragma unroll
    for (int j = 0; j < ELEMENTS; ++j)
      weight_sum[i][j] = bias_sum[i][j] = 0.0f;
  }
  __shared__ float2 warp_sums[2 * WARPS];
  if (!args.dsum)
    walk(&args, false, has_weight, thread,
         warp_sums,
         weight_sum, bias_sum);
  else
    walk(&args, true, has_weight, thread,
         warp_sums,
         weight_sum, bias_sum);
  // The kernel that adds up the parts may be launched; it waits for their end.
  griddepcontrol_launch_dependents();
  if (!args.weight_parts && !args.bias_parts)
    return;

  // Over the rows of a warp, then over its warps, in their order.
  __shared__ float shared_sum[THREADS][2 * ELEMENTS];
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) {
#pragma unroll
    for (int j = 0; j < ELEMENTS; ++j) {
#pragma unroll
      for (int distance = LANES; distance < 32; distance *= 2) {
        weight_sum[i][j] += __shfl_xor_sync(0xffffffff, weight_sum[i][j], distance);
        bias_sum[i][j] += __shfl_xor_sync(0xffffffff, bias_sum[i][j], distance);
      }
      shared_sum[threadIdx.x][j] = weight_sum[i][j];
      shared_sum[threadIdx.x][ELEMENTS + j] = bias_sum[i][j];
    }
    // All threads arrive and wait: hands over the sums of the groups.
    __syncthreads();
    constexpr int STEP = ROW_THREADS < 32 ? 32 : ROW_THREADS;
    if (threadIdx.x < ROW_THREADS) {
      for (int from = threadIdx.x + STEP; from < THREADS; from += STEP) {
#pragma unroll
        for (int j = 0; j < ELEMENTS; ++j) {
          weight_sum[i][j] += shared_sum[from][j];
          bias_sum[i][j] += shared_sum[from][ELEMENTS + j];
        }
      }
    }
    // All threads arrive and wait: the next vector's sums may be written.
    __syncthreads();
  }
  if (threadIdx.x >= ROW_THREADS)
    return;
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) {
    const int column = (i * ROW_THREADS + thread) * ELEMENTS;
    if (args.weight_parts)
      store_sums(args.weight_parts, column, args.columns, weight_sum[i]);
    if (args.bias_parts)
      store_sums(args.bias_parts, column, args.columns, bias_sum[i]);
  }
}
