// matmul_nn_cols512_bf16_sm80
//
// x = x W in place, rows of at most 512 columns, bf16, sums in fp32.
//
// A thread block copies its BLOCK_M rows of x to shared memory, whole. From then on their place in
// global memory is free: nobody else reads it. The block walks over the columns of the result,
// BLOCK_N at a time, and for each over the depth in steps of BLOCK_K, with a ring of tiles of W.
//
// Pressed from templates/matmul/matmul_sm80.cu.j2 with tile m128n128w8x4s3 by
//   python -m generator --family matmul --pass nn --cols 512 --dtype bf16 --arch sm80

#include "attnpress/args/matmul.h"
#include "attnpress/device/matmul.cuh"
#include "attnpress/device/product.cuh"

constexpr int COLUMNS_MAX = 512;
constexpr Dtype DTYPE = BF16;
constexpr int THREADS = 256;
constexpr int BLOCK_M = 128;  // rows of x of a thread block
constexpr int BLOCK_N = 128;  // columns of the result that it computes at once
constexpr int BLOCK_K = 32;   // columns of x, of a step
constexpr int STAGES = 3;     // tiles of W in the ring
constexpr int ROW_WARPS = 4;  // warps below each other
constexpr int COLUMN_WARPS = THREADS / 32 / ROW_WARPS;
constexpr int M_TILES = max_int(BLOCK_M, 16) / 16 / ROW_WARPS; // of a warp, 16 rows each
constexpr int N_TILES = BLOCK_N / 8 / COLUMN_WARPS;            // of a warp, 8 columns each
constexpr int X_ROW_BYTES = tile_row_bytes(COLUMNS_MAX);
constexpr int W_ROWS = BLOCK_K, W_COLUMNS = BLOCK_N; // of a tile of W
constexpr int W_ROW_BYTES = tile_row_bytes(W_COLUMNS);
constexpr int W_BYTES = W_ROWS * W_ROW_BYTES;
constexpr int W_OFFSET = BLOCK_M * X_ROW_BYTES;
constexpr int SMEM_BYTES = 159232;
static_assert(W_OFFSET + STAGES * W_BYTES == SMEM_BYTES, "as the generator has it");

// A tile of W: the columns of the result and the step of the depth that it is for.
struct Place {
  int column, depth;
};

__device__ __forceinline__ Place next_place(Place place, int n) {
  return place.depth + BLOCK_K < n ? Place{place.column, place.depth + BLOCK_K}
                                   : Place{place.column + BLOCK_N, 0};
}

// The block's rows of x, and zeros for rows and columns that are not there, up to a multiple of
// BLOCK_K columns.
__device__ __forceinline__ void start_x(uint32_t shared, const uint16_t *x, int64_t x_stride,
                                        int rows, int n) {
  const int chunks = ceil_div(n, BLOCK_K) * (BLOCK_K / 8);
  for (int i = threadIdx.x; i < BLOCK_M * chunks; i += THREADS) {
    const int row = i / chunks, column = i % chunks * 8;
    const bool valid = row < rows && column < n;
    cp_async_16(shared + row * X_ROW_BYTES + column * 2, valid ? x + row * x_stride + column : x,
                valid ? 16 : 0);
  }
}

constexpr int W_CHUNKS = W_ROWS * W_COLUMNS / 8 / THREADS; // of a thread, 8 elements of a tile each
static_assert(W_ROWS * W_COLUMNS % (8 * THREADS) == 0, "all threads copy the same");

// Chunk number `chunk` of this thread's: its row and column in a tile of W.
__device__ __forceinline__ int chunk_row(int chunk) {
  return (chunk * THREADS + threadIdx.x) / (W_COLUMNS / 8);
}

__device__ __forceinline__ int chunk_column(int chunk) {
  return (chunk * THREADS + threadIdx.x) % (W_COLUMNS / 8) * 8;
}

// Where the chunk lies in W.
struct Element {
  int row, column;
};

__device__ __forceinline__ Element chunk_place(int chunk, Place place) {
  return {place.depth + chunk_row(chunk), place.column + chunk_column(chunk)};
}

// This thread's part of a tile of W; zeros outside of it.
__device__ __forceinline__ void start_w(uint32_t stage, const uint16_t *w, int64_t w_stride, int n,
                                        Place place) {
#pragma unroll
  for (int chunk = 0; chunk < W_CHUNKS; ++chunk) {
    const Element at = chunk_place(chunk, place);
    const bool valid = at.row < n && at.column < n;
    cp_async_16(stage + chunk_row(chunk) * W_ROW_BYTES + chunk_column(chunk) * 2,
                valid ? w + at.row * w_stride + at.column : w, valid ? 16 : 0);
  }
}
// sum += x W of one step. `x`: this warp's first row and the step's first column; `w`: this warp's
// first column.
__device__ __forceinline__ void multiply_step(float sum[M_TILES][N_TILES][4], uint32_t x,
                                              uint32_t w) {
  const int lane = threadIdx.x % 32;
  // With 8 rows the lower half of the fragments is the upper one again, and is not stored.
  const int row = BLOCK_M == 8 ? lane % 8 : lane % 16;
  const uint32_t x_lane = x + row * X_ROW_BYTES + lane / 16 * 16;
  const uint32_t w_lane = w + ldmatrix_rows_first(lane, W_ROW_BYTES);
#pragma unroll
  for (int step = 0; step < BLOCK_K / 16; ++step) {
    uint32_t x_frag[M_TILES][4];
#pragma unroll
    for (int m = 0; m < M_TILES; ++m)
      ldmatrix_x4(x_frag[m], x_lane + m * 16 * X_ROW_BYTES + step * 32);
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile += 2) {
      uint32_t w_frag[4];
      ldmatrix_x4_trans(w_frag, w_lane + step * 16 * W_ROW_BYTES + tile * 16);
#pragma unroll
      for (int m = 0; m < M_TILES; ++m) {
        mma_k16(DTYPE, sum[m][tile], x_frag[m], w_frag);
        mma_k16(DTYPE, sum[m][tile + 1], x_frag[m], w_frag + 2);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matmul_nn_cols512_bf16_sm80(const __grid_constant__ attnpress_matmul_args_sm80 args) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const uint32_t shared = shared_address(smem);
  const int n = args.n;
  const int64_t first_row = (int64_t)blockIdx.x * BLOCK_M;
  const int rows = (int)min((long long)BLOCK_M, (long long)(args.rows - first_row));
  uint16_t *x = (uint16_t *)args.x + first_row * args.x_stride;
  const int warp_row = threadIdx.x / 32 / COLUMN_WARPS * M_TILES * 16;
  const int warp_column = threadIdx.x / 32 % COLUMN_WARPS * N_TILES * 8;
  const uint32_t warp_x = shared + warp_row * X_ROW_BYTES;
  const uint32_t warp_w = shared + W_OFFSET + warp_column * 2;
  const uint16_t *w = (const uint16_t *)args.w;
  start_x(shared, x, args.x_stride, rows, n);
  Place ahead = {0, 0};
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    if (ahead.column < n)
      start_w(shared + W_OFFSET + stage * W_BYTES, w, args.w_stride, n, ahead);
    cp_async_commit();
    ahead = next_place(ahead, n);
  }

  float sum[M_TILES][N_TILES][4] = {};
  int stage = 0, free_stage = STAGES - 1;
  for (Place place = {0, 0}; place.column < n; place = next_place(place, n)) {
    // All threads arrive and wait: hands over this step's tile of W and, in the first step, x; gives
    // back the stage that the step before has read.
    cp_async_wait(STAGES - 2);
    __syncthreads();
    if (ahead.column < n)
      start_w(shared + W_OFFSET + free_stage * W_BYTES, w, args.w_stride, n, ahead);
    cp_async_commit();
    multiply_step(sum, warp_x + place.depth * 2, warp_w + stage * W_BYTES);
    ahead = next_place(ahead, n);
    free_stage = stage;
    stage = stage + 1 == STAGES ? 0 : stage + 1;

    if (place.depth + BLOCK_K < n)
      continue;
    // These columns of the result, over x, whose rows are all in shared memory.
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
      const int row = warp_row + m * 16;
#pragma unroll
      for (int tile = 0; tile < N_TILES; tile += 2) {
        const int column = place.column + warp_column + tile * 8;
        store_tiles(x + row * args.x_stride + column, args.x_stride, sum[m][tile],
                    sum[m][tile + 1], DTYPE, rows - row, n - column);
      }
#pragma unroll
      for (int i = 0; i < N_TILES * 4; ++i)
        sum[m][i / 4][i % 4] = 0.0f;
    }
  }
}
