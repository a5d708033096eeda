// conv2d_fprop_m128n128_bf16_sm90
//
// The forward pass: out[n, p, q, k] = sum over r, s, c of x[n, h, w, c] weight[k, r, s, c], where h
// is p * stride - padding + r * dilation, and w likewise; then bias, then ReLU. As a product of
// matrices that are never laid out: rows are pixels of out, columns filters, the depth are (r, s,
// c).
// bf16, sums in fp32. One thread block computes BLOCK_M rows and BLOCK_N columns, and walks
// over the depth by slabs of 64, which all gather, 8 channels of a pixel at a time, and zeros where
// a tap lies outside; copies run STAGES - 1 slabs ahead.
//
// Pressed from templates/conv2d/conv2d_gather_sm90.cu.j2 with tile m128n128w8x1s3b2 by
//   python -m generator --family conv2d --pass fprop --block m128n128 --dtype bf16 --arch sm90

#include "attnpress/args/conv2d.h"
#include "attnpress/device/conv2d.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/ptx_tma.cuh"
#include "attnpress/device/ptx_wgmma.cuh"
#include "attnpress/device/wgmma/ptx_wgmma_n128.cuh"

constexpr Dtype DTYPE = BF16;
constexpr int BLOCK_M = 128;
constexpr int BLOCK_N = 128;
constexpr int STAGES = 3;
constexpr int THREADS = 256;
constexpr int M_TILES = 1; // of a warp: a warpgroup has 64 rows, and all columns
constexpr int N_TILES = BLOCK_N / 8;
constexpr int A_BYTES = BLOCK_M * LINE_BYTES; // of a stage
constexpr int STAGE_BYTES = A_BYTES + BLOCK_N * LINE_BYTES;
constexpr int PASS_LINES = THREADS / 8; // lines of A that the threads copy in a pass
constexpr int A_PASSES = BLOCK_M / PASS_LINES;
constexpr int B_PASSES = BLOCK_N / PASS_LINES;
static_assert(THREADS == 2 * BLOCK_M, "warpgroups");
static_assert(STAGES * STAGE_BYTES + BLOCK_M * 16 == 100352, "shared memory");
static_assert(BLOCK_M * result_row_bytes(BLOCK_N) <= STAGES * STAGE_BYTES, "results");

// What is known of each row of the block, in shared memory.
struct Rows {
  int in[BLOCK_M];            // the pixel of `in` under the first tap, in vectors
  int y[BLOCK_M], x[BLOCK_M]; // its line and column; NOWHERE: there is no such row
  int out[BLOCK_M];           // the pixel of `out`, in vectors; -1: there is no such row
};

__device__ __forceinline__ void find_row(const attnpress_conv2d_gather_args *args, Line lines,
                                         Line columns, int index, int row, Rows *rows) {
  rows->in[row] = 0;
  rows->y[row] = rows->x[row] = NOWHERE;
  rows->out[row] = -1;
  if (index >= args->batch * lines.count * columns.count)
    return;
  const Place pixel = place_of(index, lines.count, columns.count);
  const int y = lines.base + pixel.middle * args->stride[0];
  const int x = columns.base + pixel.inner * args->stride[1];
  const int out_y = pixel.middle, out_x = pixel.inner;
  rows->y[row] = y;
  rows->x[row] = x;
  rows->in[row] =
      pixel.outer * args->in_stride[0] + y * args->in_stride[1] + x * args->in_stride[2];
  rows->out[row] =
      pixel.outer * args->out_stride[0] + out_y * args->out_stride[1] + out_x * args->out_stride[2];
}

// A thread's part of the copies, slab by slab.
struct Copies {
  // A: chunk threadIdx.x % 8 of A_PASSES lines, PASS_LINES apart.
  int in[A_PASSES], y[A_PASSES], x[A_PASSES]; // as in Rows
  Place tap;                                  // tap row, tap column, and the vector of channels
  Place tap_by;                               // from slab to slab
  uint32_t a_target;                          // in the ring's first stage
  // B: the same chunk of B_PASSES lines, which are filters.
  const uint4 *weight; // of the first, at this thread's place in the depth
  int depth, filters;  // vectors of the depth from here on; filters from this thread's first on
  uint32_t b_target;
};

__device__ __forceinline__ void start_copies(Copies *copies,
                                             const attnpress_conv2d_gather_args *args,
                                             const Rows *rows, Line lines, Line columns,
                                             int column_begin, uint32_t ring) {
  const int chunk = threadIdx.x % 8, line = threadIdx.x / 8;
#pragma unroll
  for (int i = 0; i < A_PASSES; ++i) {
    copies->in[i] = rows->in[line + i * PASS_LINES];
    copies->y[i] = rows->y[line + i * PASS_LINES];
    copies->x[i] = rows->x[line + i * PASS_LINES];
  }
  const int taps = max(columns.taps, 1);
  copies->tap = place_of(chunk, taps, args->in_vectors);
  copies->tap_by = place_of(SLAB / VECTOR, taps, args->in_vectors);
  copies->a_target = ring + line * LINE_BYTES + (chunk ^ line % 8) * VECTOR_BYTES;
  const int vectors = args->filter_height * args->filter_width * args->in_vectors;
  copies->weight = (const uint4 *)args->weight + (int64_t)(column_begin + line) * vectors + chunk;
  copies->depth = vectors - chunk;
  copies->filters = args->out_columns - column_begin - line;
  copies->b_target = copies->a_target + A_BYTES;
}

// Starts the copies of the next slab into a stage of the ring; closes their group.
__device__ __forceinline__ void copy_slab(Copies *copies, const attnpress_conv2d_gather_args *args,
                                          Line lines, Line columns, int stage) {
  const int y = copies->tap.outer * args->tap_move[0], x = copies->tap.middle * args->tap_move[1];
  const int move = y * args->in_stride[1] + x * args->in_stride[2] + copies->tap.inner;
  const bool tap_is_there = copies->tap.outer < lines.taps;
#pragma unroll
  for (int i = 0; i < A_PASSES; ++i) {
    const bool inside = tap_is_there && (uint32_t)(copies->y[i] + y) < (uint32_t)args->in_height &&
                        (uint32_t)(copies->x[i] + x) < (uint32_t)args->in_width;
    cp_async_16(copies->a_target + stage * STAGE_BYTES + i * PASS_LINES * LINE_BYTES,
                (const uint4 *)args->in + (copies->in[i] + move), inside ? VECTOR_BYTES : 0);
  }
  advance(&copies->tap, copies->tap_by, columns.taps, args->in_vectors);
  const int row_vectors = args->filter_height * args->filter_width * args->in_vectors;
#pragma unroll
  for (int i = 0; i < B_PASSES; ++i)
    cp_async_16(copies->b_target + stage * STAGE_BYTES + i * PASS_LINES * LINE_BYTES,
                copies->weight + (int64_t)i * PASS_LINES * row_vectors,
                copies->depth > 0 && i * PASS_LINES < copies->filters ? VECTOR_BYTES : 0);
  copies->weight += SLAB / VECTOR;
  copies->depth -= SLAB / VECTOR;
  cp_async_commit();
}

// Starts sum += A B of a slab, (64, BLOCK_N) for each warpgroup, as a group of its own.
__device__ __forceinline__ void start_product(float sum[N_TILES * 4], uint32_t slab) {
  const uint64_t a = wgmma_descriptor(slab + threadIdx.x / 128 * 64 * LINE_BYTES, 1024, 0);
  const uint64_t b = wgmma_descriptor(slab + A_BYTES, 1024, 0);
  wgmma_order_n128(sum);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < SLAB / 16; ++step)
    wgmma_m64n128k16_bf16_ss(sum, a + step * 2, b + step * 2, 1);
  wgmma_commit();
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    conv2d_fprop_m128n128_bf16_sm90(const __grid_constant__ attnpress_conv2d_gather_args args) {
  extern __shared__ __align__(1024) unsigned char smem[];
  Rows *rows = (Rows *)(smem + STAGES * STAGE_BYTES);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int column_begin = blockIdx.x % args.column_blocks * BLOCK_N;
  const int row_begin = blockIdx.x / args.column_blocks % args.row_blocks * BLOCK_M;
  const Line lines = whole_line(args.out_height, args.filter_height, args.padding[0]);
  const Line columns = whole_line(args.out_width, args.filter_width, args.padding[1]);
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();

  for (int row = threadIdx.x; row < BLOCK_M; row += THREADS)
    find_row(&args, lines, columns, row_begin + row, row, rows);
  // All threads arrive and wait: hands over the table of rows.
  __syncthreads();
  const uint32_t ring = shared_address(smem);
  Copies copies;
  start_copies(&copies, &args, rows, lines, columns, column_begin, ring);
  const int slabs = ceil_div(lines.taps * columns.taps * args.in_vectors, SLAB / VECTOR);
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage)
    copy_slab(&copies, &args, lines, columns, stage);
  float sum[N_TILES * 4];
#pragma unroll
  for (int i = 0; i < N_TILES * 4; ++i)
    sum[i] = 0.0f;
  int stage = 0;
  for (int slab = 0; slab < slabs; ++slab) {
    // All threads arrive and wait: hands over the slab that everyone's copies brought, to products
    // too, and says that all warpgroups' products of the one before have ended, whose place the
    // next copies take. Slabs past the last are zeros.
    cp_async_wait(STAGES - 2);
    fence_proxy_async();
    __syncthreads();
    start_product(sum, ring + stage * STAGE_BYTES);
    copy_slab(&copies, &args, lines, columns, stage == 0 ? STAGES - 1 : stage - 1);
    wgmma_wait(0);
    wgmma_order_n128(sum);
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }

  const int row = warp * 16 + lane / 4, column = lane % 4 * 2;
  finish_tile(sum, M_TILES, N_TILES, DTYPE, args.bias, args.relu, column_begin + column,
              args.out_columns);
  // All threads arrive and wait: the ring has been read and no copy is in flight, so that the
  // results can take its place.
  cp_async_wait(0);
  __syncthreads();
  stage_tile(smem, result_row_bytes(BLOCK_N), sum, M_TILES, N_TILES, DTYPE, row, column);
  // All threads arrive and wait: hands over the results.
  __syncthreads();
  store_tile(args.out, smem, result_row_bytes(BLOCK_N), rows->out, BLOCK_M, BLOCK_N,
             column_begin / VECTOR, args.out_columns - column_begin, threadIdx.x, THREADS);
}
