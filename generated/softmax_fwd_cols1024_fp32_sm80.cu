// softmax_fwd_cols1024_fp32_sm80
//
// y = softmax(scale x) over the rows of a matrix of at most COLUMNS columns, fp32, fp32
// inside. ROW_THREADS threads share a row and hold it in registers: x is read once, y may be x.
//
// Each warp takes powers relative to its own maximum of a row; where several warps share the row,
// they then learn from each other what these amount to, behind one barrier.
//
// Pressed from templates/softmax/softmax_fwd.cu.j2 with tile w4t128 by
//   python -m generator --family softmax --pass fwd --cols 1024 --dtype fp32

#include "attnpress/args/softmax.h"
#include "attnpress/device/lanes.cuh"
#include "attnpress/device/ptx_math.cuh"
#include "attnpress/device/row_softmax.cuh"
#include "attnpress/device/row_vector.cuh"

constexpr int SIZE = 4; // bytes of an element
constexpr int ELEMENTS = 16 / SIZE; // of a vector
constexpr int COLUMNS = 1024 + ELEMENTS - 1; // at most: a vector less one of them are edges
constexpr int THREADS = 128;
constexpr int ROW_THREADS = 128;
constexpr int ROWS = 1; // of a thread
constexpr int GROUPS = THREADS / ROW_THREADS;
constexpr int BLOCK_ROWS = GROUPS * ROWS;
constexpr int VECTORS = COLUMNS / (ROW_THREADS * ELEMENTS); // of a thread in a row
constexpr int EDGES = (2 * ELEMENTS + ROW_THREADS - 1) / ROW_THREADS;
constexpr int VALUES = VECTORS * ELEMENTS + EDGES; // of a thread in a row, the edges last
constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32; // of a warp that share a row
static_assert(VECTORS * ROW_THREADS * ELEMENTS + ELEMENTS - 1 == COLUMNS,
              "threads share a row evenly");

// The sum over the warps of a row.
__device__ __forceinline__ RowSum add_warps(RowSum part, float power) {
  constexpr int ROW_WARPS = ROW_THREADS / 32;
  __shared__ float2 warp_part[THREADS / 32];
  if (threadIdx.x % 32 == 0) {
    const float2 own = {part.max, part.sum};
    warp_part[threadIdx.x / 32] = own;
  }
  // All threads arrive and wait: hands over the sums of the warps.
  __syncthreads();
  const float2 other =
      warp_part[threadIdx.x / ROW_THREADS * ROW_WARPS + threadIdx.x % ROW_WARPS];
  const RowSum warps = {other.x, other.y};
  return add_lanes(warps, ROW_WARPS, power);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    softmax_fwd_cols1024_fp32_sm80(const __grid_constant__ attnpress_softmax_fwd_args args) {
  // What a row does not have counts as -inf after scaling.
  const uint32_t filler = filler_fp32(args.scale);
  // Where scale is negative, maxima are those of -x.
  const bool negative = args.scale < 0.0f;
  const float power = args.scale * LOG2_E; // of 2, for each 1 that x grows
  const int thread = threadIdx.x % ROW_THREADS;
  const int64_t first_row = (int64_t)blockIdx.x * BLOCK_ROWS + threadIdx.x / ROW_THREADS;
  uint4 vector[ROWS][VECTORS];
  uint32_t edge[ROWS][EDGES];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int64_t row = first_row + r * GROUPS;
    const unsigned char *x = (const unsigned char *)args.x + row * args.x_row_stride * SIZE;
    const RowCut cut = cut_row(x, SIZE, row < args.rows ? args.columns : 0);
    load_own_vectors(x, SIZE, cut, thread, ROW_THREADS, VECTORS, filler, vector[r]);
    load_edges(x, SIZE, cut, thread, ROW_THREADS, EDGES, filler, edge[r]);
  }

  // Powers relative to the maximum of the warp's part of the row, and their sum.
  RowSum part[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    float max = max_vectors_fp32(vector[r], VECTORS, negative);
#pragma unroll
    for (int i = 0; i < EDGES; ++i) {
      const float value = widen_element_fp32(edge[r][i]);
      max = fmaxf(max, negative ? -value : value);
    }
    part[r].max = max_lanes(max, LANES);
  }
  float value[ROWS][VALUES];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const float reference = negative ? -reference_of(part[r].max) : reference_of(part[r].max);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
      widen_vector_fp32(vector[r][i], value[r] + i * ELEMENTS);
#pragma unroll
    for (int i = 0; i < EDGES; ++i)
      value[r][VECTORS * ELEMENTS + i] = widen_element_fp32(edge[r][i]);
#pragma unroll
    for (int i = 0; i < VALUES; ++i) {
      value[r][i] = exp_difference(value[r][i], reference, power);
      sum += value[r][i];
    }
    part[r].sum = sum_lanes(sum, LANES);
  }

  const float factor[ROWS] = {
      share_factor(part[0].max, add_warps(part[0], fabsf(power)), fabsf(power))};

#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int64_t row = first_row + r * GROUPS;
    const unsigned char *x = (const unsigned char *)args.x + row * args.x_row_stride * SIZE;
    unsigned char *y = (unsigned char *)args.y + row * args.y_row_stride * SIZE;
    const RowCut cut = cut_row(x, SIZE, row < args.rows ? args.columns : 0);
#pragma unroll
    for (int i = 0; i < VALUES; ++i)
      value[r][i] *= factor[r];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
      vector[r][i] = narrow_vector_fp32(value[r] + i * ELEMENTS);
#pragma unroll
    for (int i = 0; i < EDGES; ++i)
      edge[r][i] = narrow_element_fp32(value[r][VECTORS * ELEMENTS + i]);
    store_vectors(y, SIZE, cut, thread, ROW_THREADS, VECTORS, vector[r]);
    store_edges(y, SIZE, cut, thread, ROW_THREADS, EDGES, edge[r]);
  }
}
