// outer_sum_dx_bf16_sm80
//
// dx[n, i] = sum over j of y[n, j] dc[i, j], bf16, fp32 inside. Here j is the depth, a is y,
// b is dc, and c is dx, whose rows are n and whose columns are i.
//
// A thread block has TILE_ROWS x TILE_COLUMNS of c, or the part of them of a split of the depth,
// which another kernel adds up. STEP of the depth wait in shared memory at a time, and STAGES - 1
// such steps are on their way.
//
// Pressed from templates/outer/outer_sum.cu.j2 with tile w2r8 by
//   python -m generator --family outer --pass sum_dx --dtype bf16

#include "attnpress/args/outer.h"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/device/ptx_cp_async_4.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/ptx_ldmatrix.cuh"
#include "attnpress/device/ptx_mma.cuh"
#include "attnpress/device/row_vector.cuh"

constexpr int SIZE = 2; // bytes of an element
constexpr int THREADS = 64;
constexpr int ROWS = 8;                       // of a thread, and columns
constexpr int SIDE = THREADS >= 256 ? 16 : 8; // threads beside each other
constexpr int TILE_ROWS = THREADS / SIDE * ROWS;
constexpr int TILE_COLUMNS = SIDE * ROWS;
constexpr int STAGES = THREADS > 128 ? 2 : 3;
constexpr int ELEMENTS = 16 / SIZE; // of a vector
constexpr int STEP = 32;
// Elements between neighbours in shared memory, by depth and by row or column of c.
constexpr int A_DEPTH = 1, A_ROW = STEP + ELEMENTS, A_SIZE = TILE_ROWS * A_ROW;
constexpr int B_DEPTH = 1, B_COLUMN = STEP + ELEMENTS, B_SIZE = TILE_COLUMNS * B_COLUMN;

// Elements from row `row` and column `column` on of a matrix of rows x columns, `count` rows of
// `width` elements, on their way to shared memory, where they are `row_apart` and `apart` from each
// other; 0 beyond the matrix. Odd rows of 16-bit elements are there when this returns.
__device__ __forceinline__ void copy_tile(const void *matrix, int64_t stride, int64_t row,
                                          int64_t rows, int64_t column, int64_t columns, int count,
                                          int width, int row_apart, int apart,
                                          unsigned char *shared) {
  const int bytes_left = (int)min(columns - column, (int64_t)width) * SIZE;
  const int rows_left = (int)min(rows - row, (int64_t)count);
  const unsigned char *const there = (const unsigned char *)matrix;
  const unsigned char *const from = there + (row * stride + column) * SIZE;
  const uint64_t together = (uint64_t)matrix | (uint64_t)stride * SIZE;
  if (apart == 1 && together % 16 == 0) {
    const int vectors = width / ELEMENTS, each = THREADS / vectors;
    const int first = threadIdx.x / vectors, at = threadIdx.x % vectors * 16;
#pragma unroll
    for (int i = 0; i < count; i += each) {
      const int bytes = first + i < rows_left ? min(max(bytes_left - at, 0), 16) : 0;
      if (each <= count || first < count)
        cp_async_16(shared_address(shared + (first + i) * row_apart * SIZE + at),
                    bytes > 0 ? from + (first + i) * stride * SIZE + at : there, bytes);
    }
    return;
  }
  if (SIZE == 4 || together % 4 == 0) {
    const int words = width * SIZE / 4, each = THREADS / words;
    const int first = threadIdx.x / words, at = threadIdx.x % words * 4;
#pragma unroll
    for (int i = 0; i < count; i += each) {
      const int bytes = first + i < rows_left ? min(max(bytes_left - at, 0), 4) : 0;
      if (each <= count || first < count)
        cp_async_4(shared_address(shared + (first + i) * row_apart * SIZE + at * apart),
                   bytes > 0 ? from + (first + i) * stride * SIZE + at : there, bytes);
    }
    return;
  }
  // Copies have no less than 4 bytes.
  const int each = THREADS / width, first = threadIdx.x / width, at = threadIdx.x % width;
#pragma unroll
  for (int i = 0; i < count; i += 8 * each) {
    uint32_t element[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int below = first + i + j * each;
      element[j] = load_2_if(below < rows_left && at * 2 < bytes_left,
                             from + (below * stride + at) * 2, 0);
    }
#pragma unroll
    for (int j = 0; j < 8; ++j)
      if (i + j * each < count)
        store_element(shared, 2, (first + i + j * each) * row_apart + at * apart, element[j]);
  }
}

// Step number `step` of the tiles of a and b.
__device__ __forceinline__ void copy_step(const attnpress_outer_sum_args *args, int64_t row,
                                          int column, int64_t depth, int64_t end,
                                          unsigned char *a, unsigned char *b) {
  copy_tile(args->a, args->a_stride, row, args->rows, depth, end, TILE_ROWS, STEP, A_ROW, A_DEPTH,
            a);
  copy_tile(args->b, args->b_stride, column, args->columns, depth, end, TILE_COLUMNS, STEP,
            B_COLUMN, B_DEPTH, b);
}

constexpr int WARP_ROWS = 64, WARP_COLUMNS = 32; // of c, of a warp
constexpr int BESIDE = TILE_COLUMNS / WARP_COLUMNS; // warps

// Adds a step's products: 16 of the depth at a time on tensor cores. a, b: where the warp's tiles begin
// in shared memory.
__device__ __forceinline__ void add_step(uint32_t a, uint32_t b, float sum[4][4][4]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < STEP; k += 16) {
    uint32_t a_fragment[4][4], b_fragment[2][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int depth = k + lane / 16 * 8, row = i * 16 + lane % 16;
      ldmatrix_x4(a_fragment[i], a + (depth + row * A_ROW) * 2);
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int depth = k + lane / 8 % 2 * 8, column = j * 16 + lane % 8 + lane / 16 * 8;
      ldmatrix_x4(b_fragment[j], b + (depth + column * B_COLUMN) * 2);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        mma_m16n8k16_bf16(sum[i][j], a_fragment[i], &b_fragment[j / 2][j % 2 * 2]);
    }
  }
}
// Stores an element of c, or its part.
__device__ __forceinline__ void store_sum(const attnpress_outer_sum_args *args, int split,
                                          int64_t row, int column, float value) {
  if (row >= args->rows || column >= args->columns)
    return;
  if (args->parts)
    args->parts[(row * args->splits + split) * args->columns + column] = value;
  else
    store_element((unsigned char *)args->c + row * args->c_stride * SIZE, SIZE, column,
                  narrow_element_bf16(value));
}

extern "C" __global__ void __launch_bounds__(THREADS, THREADS > 128 ? 1 : 384 / THREADS)
    outer_sum_dx_bf16_sm80(const __grid_constant__ attnpress_outer_sum_args args) {
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  __shared__ __align__(16) unsigned char a[STAGES][A_SIZE * SIZE], b[STAGES][B_SIZE * SIZE];
  const int column = blockIdx.x % args.column_blocks * TILE_COLUMNS;
  const int64_t row = (int64_t)(blockIdx.x / args.column_blocks % args.row_blocks) * TILE_ROWS;
  const int split = blockIdx.x / args.column_blocks / args.row_blocks;
  const int64_t begin = split * args.split_depth, end = min(args.depth, begin + args.split_depth);
  const int steps = (int)((end - begin + STEP - 1) / STEP);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int below = warp / BESIDE * WARP_ROWS, beside = warp % BESIDE * WARP_COLUMNS;
  float sum[4][4][4];
#pragma unroll
  for (int i = 0; i < 4 * 4 * 4; ++i)
    sum[i / 16][i / 4 % 4][i % 4] = 0.0f;
  for (int step = 1 - STAGES; step < steps; ++step) {
    cp_async_wait(STAGES - 2);
    // All threads arrive and wait: hands over this step, and the one before has been read.
    __syncthreads();
    const int next = step + STAGES - 1;
    if (next < steps)
      copy_step(&args, row, column, begin + (int64_t)next * STEP, end, a[next % STAGES],
                b[next % STAGES]);
    cp_async_commit();
    if (step < 0)
      continue;
    const int stage = step % STAGES;
    add_step(shared_address(a[stage]) + below * A_ROW * 2,
             shared_address(b[stage]) + beside * B_COLUMN * 2, sum);
  }

#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k)
        store_sum(&args, split, row + below + i * 16 + lane / 4 + k / 2 * 8,
                  column + beside + j * 8 + lane % 4 * 2 + k % 2, sum[i][j][k]);
    }
  }
}
