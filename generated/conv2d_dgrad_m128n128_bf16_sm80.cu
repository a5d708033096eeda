// conv2d_dgrad_m128n128_bf16_sm80
//
// The gradient of the input: dx[n, h, w, c] = sum over r, s, k of dout[n, p, q, k] weight[k, r, s,
// c], where p is (h + padding - r * dilation) / stride, if that is whole, and q likewise. As a
// product of matrices that are never laid out: rows are pixels of dx, columns channels, the depth
// are (r, s, k). A tile's pixels have one residue of h + padding by the stride, and one of
// w + padding: all of them then have the same taps, and the others cost nothing.
// bf16, sums in fp32. One thread block computes BLOCK_M rows and BLOCK_N columns, and walks
// over the depth by slabs of 64, which all gather, 8 channels of a pixel at a time, and zeros where
// a tap lies outside; copies run STAGES - 1 slabs ahead.
//
// Pressed from templates/conv2d/conv2d_gather_sm80.cu.j2 with tile m128n128w2x2s3b2 by
//   python -m generator --family conv2d --pass dgrad --block m128n128 --dtype bf16

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
constexpr int PASS_LINES = THREADS / 8; // lines of A that the threads copy in a pass
constexpr int A_PASSES = BLOCK_M / PASS_LINES;
constexpr int B_LINES = THREADS / (BLOCK_N / VECTOR); // elements of the depth in a pass
constexpr int B_PASSES = SLAB / B_LINES;
constexpr Depth B_DEPTH = DEPTH_ACROSS;
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
  const int y = lines.base + pixel.middle, x = columns.base + pixel.inner;
  const int out_y = lines.first + pixel.middle * args->stride[0];
  const int out_x = columns.first + pixel.inner * args->stride[1];
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
  // B: a vector of channels for B_PASSES elements of the depth, B_LINES apart.
  Place b_tap, b_tap_by;
  int weight; // of the vector of channels under the first tap, in vectors
  bool channel_is_there;
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
  const int b_line = threadIdx.x / (BLOCK_N / VECTOR), vector = threadIdx.x % (BLOCK_N / VECTOR);
  const int channels = args->out_columns / VECTOR; // in vectors
  const int channel = column_begin / VECTOR + vector;
  copies->b_tap = place_of(b_line / VECTOR, taps, args->in_vectors);
  copies->b_tap_by = place_of(B_LINES / VECTOR, taps, args->in_vectors);
  copies->channel_is_there = channel < channels;
  copies->weight = ((b_line % VECTOR * args->filter_height + lines.first_tap) * args->filter_width +
                    columns.first_tap) *
                       channels +
                   channel;
  copies->b_target = ring + A_BYTES + vector / 8 * PANEL_BYTES + b_line * LINE_BYTES +
                     (vector % 8 ^ b_line % 8) * VECTOR_BYTES;
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
  const int channels = args->out_columns / VECTOR;
  const int row_vectors = args->filter_height * args->filter_width * channels;
#pragma unroll
  for (int i = 0; i < B_PASSES; ++i) {
    const int at = copies->weight + copies->b_tap.inner * VECTOR * row_vectors +
                   (copies->b_tap.outer * args->tap_step[0] * args->filter_width +
                    copies->b_tap.middle * args->tap_step[1]) *
                       channels;
    cp_async_16(copies->b_target + stage * STAGE_BYTES + i * B_LINES * LINE_BYTES,
                (const uint4 *)args->weight + at,
                copies->channel_is_there && copies->b_tap.outer < lines.taps ? VECTOR_BYTES : 0);
    advance(&copies->b_tap, copies->b_tap_by, columns.taps, args->in_vectors);
  }
  cp_async_commit();
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    conv2d_dgrad_m128n128_bf16_sm80(const __grid_constant__ attnpress_conv2d_gather_args args) {
  extern __shared__ __align__(1024) unsigned char smem[];
  Rows *rows = (Rows *)(smem + STAGES * STAGE_BYTES);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int column_begin = blockIdx.x % args.column_blocks * BLOCK_N;
  const int row_begin = blockIdx.x / args.column_blocks % args.row_blocks * BLOCK_M;
  // Classes with the most taps come first. The grid is laid out for the largest class.
  const int residue = blockIdx.x / args.column_blocks / args.row_blocks;
  Line lines = residue_line(residue / args.stride[1], args.out_height, args.filter_height,
                            args.stride[0], args.padding[0], args.dilation[0], args.tap_step[0]);
  const Line columns =
      residue_line(residue % args.stride[1], args.out_width, args.filter_width, args.stride[1],
                   args.padding[1], args.dilation[1], args.tap_step[1]);
  if (row_begin >= args.batch * lines.count * columns.count)
    return;
  lines.taps = columns.taps > 0 ? lines.taps : 0; // none at all: zeros
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
  float sum[M_TILES * N_TILES * 4];
#pragma unroll
  for (int i = 0; i < M_TILES * N_TILES * 4; ++i)
    sum[i] = 0.0f;
  const int warp_row = warp % WARPS_M * (BLOCK_M / WARPS_M);
  const int warp_column = warp / WARPS_M * (BLOCK_N / WARPS_N);
  const uint32_t a = fragment_address(ring, DEPTH_INSIDE, true, warp_row, lane);
  const uint32_t b = fragment_address(ring + A_BYTES, B_DEPTH, false, warp_column, lane);
  int stage = 0;
  for (int slab = 0; slab < slabs; ++slab) {
    // All threads arrive and wait: hands over the slab that everyone's copies brought, and says
    // that the one before has been read, whose place the next copies take. Slabs past the last are
    // zeros.
    cp_async_wait(STAGES - 2);
    __syncthreads();
    copy_slab(&copies, &args, lines, columns, stage == 0 ? STAGES - 1 : stage - 1);
    multiply_slab(sum, M_TILES, N_TILES, DTYPE, DEPTH_INSIDE, a + stage * STAGE_BYTES, B_DEPTH,
                  b + stage * STAGE_BYTES);
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }

  const int row = warp_row + lane / 4, column = warp_column + lane % 4 * 2;
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
