// softmax_bwd_cols1024_fp32_sm80
//
// dx = scale y (dy - sum(dy y)) over the rows of matrices of at most COLUMNS columns, fp32,
// fp32 inside. ROW_THREADS threads share a row of y and dy and hold it: both are read once, dx may
// be either.
//
// Pressed from templates/softmax/softmax_bwd.cu.j2 with tile w8t256 by
//   python -m generator --family softmax --pass bwd --cols 1024 --dtype fp32

#include "attnpress/args/softmax.h"
#include "attnpress/device/lanes.cuh"
#include "attnpress/device/row_softmax.cuh"
#include "attnpress/device/row_vector.cuh"

constexpr int SIZE = 4; // bytes of an element
constexpr int ELEMENTS = 16 / SIZE; // of a vector
constexpr int COLUMNS = 1024 + ELEMENTS - 1; // at most: a vector less one of them are edges
constexpr int THREADS = 256;
constexpr int ROW_THREADS = 256;
constexpr int ROWS = 1; // of a thread
constexpr int GROUPS = THREADS / ROW_THREADS;
constexpr int BLOCK_ROWS = GROUPS * ROWS;
constexpr int VECTORS = COLUMNS / (ROW_THREADS * ELEMENTS); // of a thread in a row
constexpr int EDGES = (2 * ELEMENTS + ROW_THREADS - 1) / ROW_THREADS;
constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32; // of a warp that share a row
constexpr int Y_STRIDE = 1;  // between a thread's vectors of y
constexpr int DY_STRIDE = 1; // and of dy
static_assert(VECTORS * ROW_THREADS * ELEMENTS + ELEMENTS - 1 == COLUMNS,
              "threads share a row evenly");

// The sum of y dy over a thread's part of a row. y: (VECTORS), Y_STRIDE apart; dy: (VECTORS),
// DY_STRIDE apart; edges: (EDGES)
__device__ __forceinline__ float product_sum(const uint4 *y, const uint4 *dy,
                                             const uint32_t *y_edge, const uint32_t *dy_edge) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < EDGES; ++i)
    sum += widen_element_fp32(y_edge[i]) * widen_element_fp32(dy_edge[i]);
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) {
    float a[ELEMENTS], b[ELEMENTS];
    widen_vector_fp32(y[i * Y_STRIDE], a);
    widen_vector_fp32(dy[i * DY_STRIDE], b);
#pragma unroll
    for (int j = 0; j < ELEMENTS; ++j)
      sum += a[j] * b[j];
  }
  return sum;
}

// dx = scale y (dy - sum), of the same.
__device__ __forceinline__ void store_gradients(void *row, RowCut cut, int thread, const uint4 *y,
                                                const uint4 *dy, const uint32_t *y_edge,
                                                const uint32_t *dy_edge, float sum, float scale) {
  uint4 gradient[VECTORS];
  uint32_t edge[EDGES];
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) {
    float a[ELEMENTS], b[ELEMENTS];
    widen_vector_fp32(y[i * Y_STRIDE], a);
    widen_vector_fp32(dy[i * DY_STRIDE], b);
#pragma unroll
    for (int j = 0; j < ELEMENTS; ++j)
      b[j] = scale * a[j] * (b[j] - sum);
    gradient[i] = narrow_vector_fp32(b);
  }
  store_vectors(row, SIZE, cut, thread, ROW_THREADS, VECTORS, gradient);
#pragma unroll
  for (int i = 0; i < EDGES; ++i) {
    const float a = widen_element_fp32(y_edge[i]);
    const float b = widen_element_fp32(dy_edge[i]);
    edge[i] = narrow_element_fp32(scale * a * (b - sum));
  }
  store_edges(row, SIZE, cut, thread, ROW_THREADS, EDGES, edge);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    softmax_bwd_cols1024_fp32_sm80(const __grid_constant__ attnpress_softmax_bwd_args args) {
  const int thread = threadIdx.x % ROW_THREADS;
  const int64_t first_row = (int64_t)blockIdx.x * BLOCK_ROWS + threadIdx.x / ROW_THREADS;
  uint4 y[ROWS][VECTORS];
  uint4 dy[ROWS][VECTORS];
  uint32_t y_edge[ROWS][EDGES], dy_edge[ROWS][EDGES];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int64_t row = first_row + r * GROUPS;
    const unsigned char *y_row = (const unsigned char *)args.y + row * args.y_row_stride * SIZE;
    const unsigned char *dy_row = (const unsigned char *)args.dy + row * args.dy_row_stride * SIZE;
    // All three rows are dealt to the threads as dy is cut.
    const RowCut cut = cut_row(dy_row, SIZE, row < args.rows ? args.columns : 0);
    load_vectors(y_row, SIZE, cut, thread, ROW_THREADS, VECTORS, 0, y[r]);
    load_edges(y_row, SIZE, cut, thread, ROW_THREADS, EDGES, 0, y_edge[r]);
    load_edges(dy_row, SIZE, cut, thread, ROW_THREADS, EDGES, 0, dy_edge[r]);
    load_own_vectors(dy_row, SIZE, cut, thread, ROW_THREADS, VECTORS, 0, dy[r]);
  }
  float sum[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
    sum[r] = sum_lanes(product_sum(y[r], dy[r], y_edge[r], dy_edge[r]), LANES);
  // Over the warps of the row.
  constexpr int ROW_WARPS = ROW_THREADS / 32;
  __shared__ float warp_sum[THREADS / 32];
  if (threadIdx.x % 32 == 0)
    warp_sum[threadIdx.x / 32] = sum[0];
  // All threads arrive and wait: hands over the sums of the warps.
  __syncthreads();
  sum[0] = sum_lanes(
      warp_sum[threadIdx.x / ROW_THREADS * ROW_WARPS + threadIdx.x % ROW_WARPS], ROW_WARPS);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int64_t row = first_row + r * GROUPS;
    const unsigned char *dy_row = (const unsigned char *)args.dy + row * args.dy_row_stride * SIZE;
    store_gradients((unsigned char *)args.dx + row * args.dx_row_stride * SIZE,
                    cut_row(dy_row, SIZE, row < args.rows ? args.columns : 0), thread, y[r],
                    dy[r], y_edge[r], dy_edge[r], sum[r], args.scale);
  }
}
