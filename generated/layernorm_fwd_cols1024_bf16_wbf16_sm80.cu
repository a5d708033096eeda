// layernorm_fwd_cols1024_bf16_wbf16_sm80
//
// y = (x - mean) rstd weight + bias over the rows of a matrix of at most COLUMNS columns, rstd =
// 1 / sqrt(variance + eps), of x + residual where there is one.
// bf16, parameters bf16, fp32 inside. ROW_THREADS threads share a row and hold it in registers, as
// it was: x is read once, y may be x. A thread block walks over rows, gridDim.x * GROUPS apart.
//
// Pressed from templates/layernorm/layernorm_fwd.cu.j2 with tile w4t32b4ah by
//   python -m generator --family layernorm --pass fwd --norm layer --cols 1024 \
//     --dtype bf16 --params bf16

#include "attnpress/args/layernorm.h"
#include "attnpress/device/lanes.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/ptx_math.cuh"
#include "attnpress/device/row_norm.cuh"
#include "attnpress/device/row_vector.cuh"

constexpr bool CENTERED = true; // the mean is taken off
constexpr int COLUMNS = 1024;
constexpr int SIZE = 2; // bytes of an element
constexpr int PARAMETER_SIZE = 2; // bytes of a parameter's element
constexpr int THREADS = 128;
constexpr int BLOCKS = 4; // of an SM
constexpr int ROW_THREADS = 32;
constexpr int GROUPS = THREADS / ROW_THREADS;
constexpr int ELEMENTS = 16 / SIZE; // of a vector
constexpr int VECTORS = COLUMNS / (ROW_THREADS * ELEMENTS); // of a thread in a row
constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32; // of a warp that share a row
constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4; // of a vector's parameters
static_assert(VECTORS * ROW_THREADS * ELEMENTS == COLUMNS, "threads share a row evenly");
constexpr int APART = 1; // between the vectors of a thread's part of a row
// Row number `row` of a matrix.
__device__ __forceinline__ unsigned char *row_of(const void *matrix, int64_t row, int64_t stride) {
  return (unsigned char *)matrix + row * stride * SIZE;
}

// The columns of rows that exist.
__device__ __forceinline__ int columns_of(const attnpress_layernorm_fwd_args *args, int64_t row) {
  return row < args->rows ? args->columns : 0;
}

// A thread's part of a row. vector: (VECTORS)
__device__ __forceinline__ void load_row(const void *row, int columns, int thread, bool odd,
                                         uint4 *vector) {
  load_columns(row, SIZE, columns, thread, ROW_THREADS, VECTORS, vector);
}

// Stores its vector number `index`.
__device__ __forceinline__ void store_row(void *row, int columns, int thread, bool odd, int index,
                                          uint4 vector) {
  store_columns(row, SIZE, columns, index * ROW_THREADS + thread, vector);
}

// x + residual, rounded, of a thread's part of a row; written back. x: (VECTORS), APART, then the sum
__device__ __forceinline__ void add_residual(const void *residual, void *sum, int columns,
                                             int thread, bool odd, uint4 *x) {
  uint4 other[VECTORS];
  load_row(residual, columns, thread, odd, other);
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) {
    float a[ELEMENTS], b[ELEMENTS];
    widen_vector_bf16(x[i * APART], a);
    widen_vector_bf16(other[i], b);
#pragma unroll
    for (int j = 0; j < ELEMENTS; ++j)
      a[j] += b[j];
    x[i * APART] = narrow_vector_bf16(a);
    store_row(sum, columns, thread, odd, i, x[i * APART]);
  }
}

// `count` vectors of a parameter from a thread's number `index` on. word: (count, WORDS)
__device__ __forceinline__ void load_parameter(const void *parameter, int columns, int thread,
                                               bool odd, int index, int count, uint32_t *word) {
  load_parameter_vectors(parameter, PARAMETER_SIZE, columns, ELEMENTS,
                         index * ROW_THREADS + thread, ROW_THREADS, count, word);
}

// The sum of a thread's part of a row.
__device__ __forceinline__ float sum_values(const uint4 *x) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) {
    float value[ELEMENTS];
    widen_vector_bf16(x[i * APART], value);
#pragma unroll
    for (int j = 0; j < ELEMENTS; ++j)
      sum += value[j];
  }
  return sum;
}

// The sum of squared differences to `mean` of a thread's part of a row.
__device__ __forceinline__ float sum_squares(const uint4 *x, int columns, int thread, bool odd,
                                             float mean) {
  const int apart = odd ? ROW_THREADS : 1, first = odd ? thread : thread * ELEMENTS;
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) {
    // Columns from the vector's first element on, of which the others are `apart`.
    const int left = columns - i * ROW_THREADS * ELEMENTS - first;
    float value[ELEMENTS];
    widen_vector_bf16(x[i * APART], value);
    if (left > (ELEMENTS - 1) * apart) {
#pragma unroll
      for (int j = 0; j < ELEMENTS; ++j)
        sum += (value[j] - mean) * (value[j] - mean);
    } else {
#pragma unroll
      for (int j = 0; j < ELEMENTS; ++j)
        if (j * apart < left)
          sum += (value[j] - mean) * (value[j] - mean);
    }
  }
  return sum;
}
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    layernorm_fwd_cols1024_bf16_wbf16_sm80(
        const __grid_constant__ attnpress_layernorm_fwd_args args) {
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  const int thread = threadIdx.x % ROW_THREADS;
  constexpr bool odd = false; // each row is looked at by itself
  uint32_t weight_word[VECTORS][WORDS], bias_word[VECTORS][WORDS];
  if (args.weight)
    load_parameter(args.weight, args.columns, thread, odd, 0, VECTORS, weight_word[0]);
  if (args.bias)
    load_parameter(args.bias, args.columns, thread, odd, 0, VECTORS, bias_word[0]);
  const int64_t step = (int64_t)gridDim.x * GROUPS;
  int64_t row = (int64_t)blockIdx.x * GROUPS + threadIdx.x / ROW_THREADS;
  uint4 next[VECTORS];
  load_row(row_of(args.x, row, args.x_row_stride), columns_of(&args, row), thread, odd, next);
  // As often as the block's first group has a row; others then may have none.
  for (int64_t first = (int64_t)blockIdx.x * GROUPS; first < args.rows; first += step) {
    const int columns = columns_of(&args, row);
    uint4 x[VECTORS];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
      x[i] = next[i];
    load_row(row_of(args.x, row + step, args.x_row_stride), columns_of(&args, row + step), thread,
             odd, next);
    if (args.residual)
      add_residual(row_of(args.residual, row, args.residual_row_stride),
                   row_of(args.sum, row, args.sum_row_stride), columns, thread, odd, x);

    // Mean and sum of squares: over the warp's part of the row, then over its warps.
    const float mean = sum_lanes(sum_values(x), LANES) * args.per_column;
    renew_vectors(x, VECTORS);
    const float squares = sum_lanes(sum_squares(x, columns, thread, odd, mean), LANES);
    renew_vectors(x, VECTORS);
    const float rstd = reciprocal_sqrt_approx(squares * args.per_column + args.eps);

    unsigned char *y = row_of(args.y, row, args.y_row_stride);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      float value[ELEMENTS], parameter[ELEMENTS];
      widen_vector_bf16(x[i * APART], value);
#pragma unroll
      for (int j = 0; j < ELEMENTS; ++j)
        value[j] = (value[j] - mean) * rstd;
      if (args.weight) {
        uint32_t word[WORDS];
        renew_words(weight_word[i], WORDS, word);
        widen_words_bf16(word, ELEMENTS, parameter);
#pragma unroll
        for (int j = 0; j < ELEMENTS; ++j)
          value[j] *= parameter[j];
      }
      if (args.bias) {
        uint32_t word[WORDS];
        renew_words(bias_word[i], WORDS, word);
        widen_words_bf16(word, ELEMENTS, parameter);
#pragma unroll
        for (int j = 0; j < ELEMENTS; ++j)
          value[j] += parameter[j];
      }
      store_row(y, columns, thread, odd, i, narrow_vector_bf16(value));
    }
    if (thread == 0 && row < args.rows) {
      if (CENTERED && args.mean)
        args.mean[row] = mean;
      if (args.rstd)
        args.rstd[row] = rstd;
    }
    row += step;
  }
}
