// conv2d_wgrad_m128n128_bf16_sm80
//
// The gradient of the weights: dweight[k, r, s, c] = sum over n, p, q of dout[n, p, q, k] x[n, h,
// w, c], where h is p * stride - padding + r * dilation, and w likewise. As a product of matrices
// that are never laid out: rows are filters, columns (r, s, c), the depth are pixels. A line of a
// slab is a pixel; fragments are read transposed. A column has one tap for good, so that a thread's
// vector of (r, s, c) only follows the pixels.
// bf16, sums in fp32. A split of the pixels is a thread block's; where there are several,
// their sums go to parts, and another kernel adds them up, always in the same order.
//
// Pressed from templates/conv2d/conv2d_wgrad_sm80.cu.j2 with tile m128n128w2x2s3b2 by
//   python -m generator --family conv2d --pass wgrad --block m128n128 --dtype bf16

#include "attnpress/args/conv2d.h"
#include "attnpress/device/conv2d.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"

constexpr Dtype DTYPE = BF16;
constexpr int BLOCK_M = 128;
constexpr int BLOCK_N = 128;
constexpr int WARPS_M = 2;
constexpr int WARPS_N = 2;
constexpr int STAGES = 3;
constexpr int THREADS = 128;
constexpr int M_TILES = BLOCK_M / WARPS_M / 16; // of a warp
constexpr int N_TILES = BLOCK_N / WARPS_N / 8;
constexpr int A_BYTES = BLOCK_M * LINE_BYTES; // of a stage
constexpr int STAGE_BYTES = A_BYTES + BLOCK_N * LINE_BYTES;
constexpr int A_LINES = THREADS / (BLOCK_M / VECTOR); // pixels that the threads copy in a pass
constexpr int B_LINES = THREADS / (BLOCK_N / VECTOR);
static_assert(STAGES * STAGE_BYTES + BLOCK_M * 16 == 100352, "shared memory");
static_assert(BLOCK_M * result_row_bytes(BLOCK_N) <= STAGES * STAGE_BYTES, "results");

// A thread's part of the copies of a matrix: a vector of SLAB / lines pixels, `lines` apart.
struct Copies {
  Place pixel, by;
  int left;        // pixels of the split from this thread's first on
  int at;          // its vector in the first pixel, in vectors
  int y, x;        // B: what its tap adds to a pixel's line and column
  bool is_there;   // its vector
  uint32_t target; // in the ring's first stage
};

__device__ __forceinline__ Copies start_copies(const attnpress_conv2d_wgrad_args *args,
                                               int first_pixel, int pixels, int lines, int vectors,
                                               uint32_t ring) {
  Copies copies;
  const int line = threadIdx.x / vectors, vector = threadIdx.x % vectors;
  copies.pixel = place_of(first_pixel + line, args->out_height, args->out_width);
  copies.by = place_of(lines, args->out_height, args->out_width);
  copies.left = pixels - line;
  copies.target =
      ring + vector / 8 * PANEL_BYTES + line * LINE_BYTES + (vector % 8 ^ line % 8) * VECTOR_BYTES;
  return copies;
}

// The copy of a vector of dout.
__device__ __forceinline__ void copy_dout(const Copies *a, Place pixel, int left,
                                          const attnpress_conv2d_wgrad_args *args, int stage,
                                          int pass) {
  const int at = a->at + pixel.outer * args->dout_stride[0] + pixel.middle * args->dout_stride[1] +
                 pixel.inner * args->dout_stride[2];
  cp_async_16(a->target + stage * STAGE_BYTES + pass * A_LINES * LINE_BYTES,
              (const uint4 *)args->dout + at, a->is_there && left > 0 ? VECTOR_BYTES : 0);
}

// Starts the copies of the next slab into a stage of the ring; closes their group.
__device__ __forceinline__ void copy_slab(Copies *a, Copies *b,
                                          const attnpress_conv2d_wgrad_args *args, int stage) {
#pragma unroll
  for (int i = 0; i < SLAB / B_LINES; ++i) {
    const int y = b->pixel.middle * args->stride[0] + b->y;
    const int x = b->pixel.inner * args->stride[1] + b->x;
    const bool inside = (uint32_t)y < (uint32_t)args->height && (uint32_t)x < (uint32_t)args->width;
    const int at =
        b->at + b->pixel.outer * args->x_stride[0] + y * args->x_stride[1] + x * args->x_stride[2];
    cp_async_16(b->target + stage * STAGE_BYTES + i * B_LINES * LINE_BYTES,
                (const uint4 *)args->x + at,
                b->is_there && inside && b->left > 0 ? VECTOR_BYTES : 0);
    // A thread's pixels of A are those of B.
    copy_dout(a, b->pixel, b->left, args, stage, i);
    advance(&b->pixel, b->by, args->out_height, args->out_width);
    b->left -= B_LINES;
  }
  cp_async_commit();
}

// Stores a warp's sums in fp32. parts: (rows, columns), of the split
__device__ __forceinline__ void store_parts(float *parts, const float *sum, int row, int column,
                                            int rows, int columns) {
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = row + m * 16 + half * 8;
#pragma unroll
      for (int n = 0; n < N_TILES; ++n) {
        const float *tile = sum + (m * N_TILES + n) * 4 + half * 2;
        const float2 pair = {tile[0], tile[1]};
        if (at < rows && column + n * 8 < columns)
          *(float2 *)(parts + (int64_t)at * columns + column + n * 8) = pair;
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    conv2d_wgrad_m128n128_bf16_sm80(const __grid_constant__ attnpress_conv2d_wgrad_args args) {
  extern __shared__ __align__(1024) unsigned char smem[];
  int *offset = (int *)(smem + STAGES * STAGE_BYTES); // of rows of dweight, in vectors
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row_vectors = args.filter_height * args.filter_width * args.vectors;
  const int column_begin = blockIdx.x % args.column_blocks * BLOCK_N;
  const int row_begin = blockIdx.x / args.column_blocks % args.row_blocks * BLOCK_M;
  const int split = blockIdx.x / args.column_blocks / args.row_blocks;
  const int first_pixel = split * args.split_pixels;
  const int pixels =
      min(args.split_pixels, args.batch * args.out_height * args.out_width - first_pixel);
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();

  for (int row = threadIdx.x; row < BLOCK_M; row += THREADS)
    offset[row] = row_begin + row < args.filters ? (row_begin + row) * row_vectors : -1;
  const uint32_t ring = shared_address(smem);
  Copies a = start_copies(&args, first_pixel, pixels, A_LINES, BLOCK_M / VECTOR, ring);
  a.at = row_begin / VECTOR + threadIdx.x % (BLOCK_M / VECTOR);
  a.is_there = a.at * VECTOR < args.filters;
  Copies b = start_copies(&args, first_pixel, pixels, B_LINES, BLOCK_N / VECTOR, ring + A_BYTES);
  const int vector = column_begin / VECTOR + threadIdx.x % (BLOCK_N / VECTOR);
  const Place tap = place_of(vector, args.filter_width, args.vectors);
  b.at = tap.inner;
  b.y = tap.outer * args.dilation[0] - args.padding[0];
  b.x = tap.middle * args.dilation[1] - args.padding[1];
  b.is_there = vector < row_vectors;
  const int slabs = ceil_div(pixels, SLAB);
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage)
    copy_slab(&a, &b, &args, stage);
  float sum[M_TILES * N_TILES * 4];
#pragma unroll
  for (int i = 0; i < M_TILES * N_TILES * 4; ++i)
    sum[i] = 0.0f;
  const int warp_row = warp % WARPS_M * (BLOCK_M / WARPS_M);
  const int warp_column = warp / WARPS_M * (BLOCK_N / WARPS_N);
  const uint32_t a_slab = fragment_address(ring, DEPTH_ACROSS, true, warp_row, lane);
  const uint32_t b_slab = fragment_address(ring + A_BYTES, DEPTH_ACROSS, false, warp_column, lane);
  int stage = 0;
  for (int slab = 0; slab < slabs; ++slab) {
    // All threads arrive and wait: hands over the slab that everyone's copies brought, and says
    // that the one before has been read, whose place the next copies take. Slabs past the last are
    // zeros.
    cp_async_wait(STAGES - 2);
    __syncthreads();
    copy_slab(&a, &b, &args, stage == 0 ? STAGES - 1 : stage - 1);
    multiply_slab(sum, M_TILES, N_TILES, DTYPE, DEPTH_ACROSS, a_slab + stage * STAGE_BYTES,
                  DEPTH_ACROSS, b_slab + stage * STAGE_BYTES);
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
  cp_async_wait(0);

  const int row = warp_row + lane / 4, column = warp_column + lane % 4 * 2;
  if (args.parts) {
    store_parts(args.parts + (int64_t)split * args.filters * row_vectors * VECTOR, sum,
                row_begin + row, column_begin + column, args.filters, row_vectors * VECTOR);
    return;
  }
  // All threads arrive and wait: the ring has been read and no copy is in flight, so that the
  // results can take its place.
  __syncthreads();
  stage_tile(smem, result_row_bytes(BLOCK_N), sum, M_TILES, N_TILES, DTYPE, row, column);
  // All threads arrive and wait: hands over the results.
  __syncthreads();
  store_tile(args.dweight, smem, result_row_bytes(BLOCK_N), offset, BLOCK_M, BLOCK_N,
             column_begin / VECTOR, row_vectors * VECTOR - column_begin, threadIdx.x, THREADS);
}
