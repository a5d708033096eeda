// conv2d_fprop_im2col_m128n128_bf16_sm90
//
// The forward pass: out[n, p, q, k] = sum over r, s, c of x[n, h, w, c] weight[k, r, s, c], where h
// is p * stride - padding + r * dilation, and w likewise; then bias, then ReLU. As a product of
// matrices that are never laid out: rows are pixels of out, columns filters, the depth are (r, s,
// c).
// bf16, sums in fp32. A thread block walks over tiles of BLOCK_M rows and BLOCK_N columns. One
// of its warps copies slabs, 64 elements of the depth, to a ring: the copy engine finds the pixels
// of a tap by itself (im2col), and zeros behind the last channel. The others multiply, and store a
// tile while the next one's slabs arrive. Where tiles are few the thread blocks of a cluster share
// one: each has a part of its depth, and then a part of its rows to add up.
//
// Pressed from templates/conv2d/conv2d_im2col_sm90.cu.j2 with tile m128n128w9x1s3b2 by
//   python -m generator --family conv2d --pass fprop --copies im2col --block m128n128 --dtype bf16 --arch sm90

#include "attnpress/args/conv2d.h"
#include "attnpress/device/conv2d.cuh"
#include "attnpress/device/pipeline.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cluster.cuh"
#include "attnpress/device/ptx_elect.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/ptx_tma.cuh"
#include "attnpress/device/ptx_wgmma.cuh"
#include "attnpress/device/quad.cuh"
#include "attnpress/device/wgmma/ptx_wgmma_n128.cuh"

constexpr Dtype DTYPE = BF16;
constexpr int BLOCK_M = 128;
constexpr int BLOCK_N = 128;
constexpr int STAGES = 3;
constexpr int THREADS = 288;
constexpr int CONSUMERS = THREADS / 128;          // warpgroups that multiply
constexpr int M_TILES = BLOCK_M / 64 / CONSUMERS; // of 64 rows, of a warpgroup
constexpr int N_TILES = BLOCK_N / 8;              // of 8 columns
constexpr int SUMS = N_TILES * 4;                 // of a thread, in a tile of 64 rows
constexpr int A_BYTES = BLOCK_M * LINE_BYTES;     // of a stage
constexpr int STAGE_BYTES = A_BYTES + BLOCK_N * LINE_BYTES;
constexpr int BARRIER_OFFSET = STAGES * STAGE_BYTES;
static_assert(THREADS == 128 * CONSUMERS + 32, "warpgroups, and the warp that copies");
static_assert(BARRIER_OFFSET + STAGES * 16 == 98352, "shared memory");

// A stage's slab is there: the warp that copies arrives, and the copies' bytes.
__device__ __forceinline__ uint32_t full(uint32_t ring, int stage) {
  return ring + BARRIER_OFFSET + stage * 16;
}

// It has been read: each warp that multiplies arrives.
__device__ __forceinline__ uint32_t empty(uint32_t ring, int stage) {
  return ring + BARRIER_OFFSET + stage * 16 + 8;
}

// One thread makes the barriers.
__device__ __forceinline__ void make_barriers(uint32_t ring) {
  for (int stage = 0; stage < STAGES; ++stage) {
    mbarrier_init(full(ring, stage), 1);
    mbarrier_init(empty(ring, stage), 4 * CONSUMERS);
  }
  fence_mbarrier_init();
}

// Waits until a stage's place is free, and says how much is to come; returns its address.
__device__ __forceinline__ uint32_t open_stage(uint32_t ring, Stage stage, int bytes) {
  wait_for_phase(empty(ring, stage.index), stage.parity ^ 1);
  mbarrier_arrive_expect(full(ring, stage.index), bytes);
  return ring + stage.index * STAGE_BYTES;
}

// Starts sum += A B of a slab as a group of its own: (64 * M_TILES, BLOCK_N) for each warpgroup. A
// descriptor counts 16 bytes: 16 elements of the depth are 2 further on, or 16 lines.
// steps: of 16 elements, a constant; one or two are all that a line has.
__device__ __forceinline__ void start_steps(float sum[M_TILES * SUMS], uint32_t slab, int consumer,
                                            int steps) {
  const int line_bytes = steps > 2 ? LINE_BYTES : steps * 32;
  const uint64_t b = wgmma_descriptor_of_lines(slab + A_BYTES, 8 * line_bytes, 0, line_bytes);
#pragma unroll
  for (int m = 0; m < M_TILES; ++m)
    wgmma_order_n128(sum + m * SUMS);
  wgmma_fence();
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
    const uint64_t a = wgmma_descriptor_of_lines(slab + (consumer * M_TILES + m) * 64 * line_bytes,
                                                 8 * line_bytes, 0, line_bytes);
#pragma unroll
    for (int step = 0; step < steps; ++step)
      wgmma_m64n128k16_bf16_ss(sum + m * SUMS, a + step * 2, b + step * 2, 1);
  }
  wgmma_commit();
}

// The same with as many steps as have elements.
__device__ __forceinline__ void start_slab(float sum[M_TILES * SUMS], uint32_t slab, int consumer,
                                           int steps) {
  if (steps == SLAB / 16)
    start_steps(sum, slab, consumer, SLAB / 16);
  else if (steps == 3)
    start_steps(sum, slab, consumer, 3);
  else if (steps == 2)
    start_steps(sum, slab, consumer, 2);
  else
    start_steps(sum, slab, consumer, 1);
}

// Waits until at most `pending` slabs' products are unfinished.
__device__ __forceinline__ void wait_for_products(float sum[M_TILES * SUMS], int pending) {
  wgmma_wait(pending);
#pragma unroll
  for (int m = 0; m < M_TILES; ++m)
    wgmma_order_n128(sum + m * SUMS);
}

// sum += A B over the slabs [begin, end), which the ring brings from `stage` on; returns the stage
// behind. Every period-th has `tail_steps` steps.
__device__ __forceinline__ Stage multiply_slabs(float sum[M_TILES * SUMS], uint32_t ring,
                                                int consumer, Stage stage, int begin, int end,
                                                int period, int tail_steps) {
  const int slabs = end - begin;
  int left = period - (begin > 0 ? begin % period : 0); // slabs of a tap
  int last = 0; // the stage whose products are in flight
  for (int slab = 0; slab < slabs; ++slab) {
    // The copy engine hands over the slab.
    wait_for_phase(full(ring, stage.index), stage.parity);
    --left;
    start_slab(sum, ring + stage.index * STAGE_BYTES, consumer, left == 0 ? tail_steps : SLAB / 16);
    left = left == 0 ? period : left;
    wait_for_products(sum, 1);
    if (slab > 0)
      arrive_once(empty(ring, last));
    last = stage.index;
    stage = next_stage(stage, STAGES);
  }
  wait_for_products(sum, 0);
  if (slabs > 0)
    arrive_once(empty(ring, last));
  return stage;
}

constexpr bool IS_SHARED = BLOCK_M <= 128 && BLOCK_N <= 128; // tiles may be
constexpr int WARPS = 4 * CONSUMERS; // that multiply
constexpr int PIECES = WARPS * N_TILES / 2; // of a tile: 8 rows of a warp, and 32 columns
constexpr int PIECE_BYTES = 8 * 32 * 4;

// A tile of a class: its first row and column, and the slabs [begin, end) of its depth that this
// thread block has.
struct Tile {
  int class_index, row, column, begin, end;
  bool is_there; // the grid is laid out for the largest class
};

__device__ __forceinline__ Tile find_tile(const attnpress_conv2d_im2col_args *args, int index) {
  Tile tile;
  const int row_block = index / args->column_blocks;
  tile.column = index % args->column_blocks * BLOCK_N;
  tile.row = row_block % args->row_blocks * BLOCK_M;
  tile.class_index = row_block / args->row_blocks;
  const attnpress_conv2d_line *line = args->line[tile.class_index];
  const int slabs = line[0].taps * line[1].taps * args->tap_slabs;
  tile.begin = 0;
  tile.end = slabs;
  if (IS_SHARED && args->splits > 1) {
    const int share = (slabs + args->splits - 1) / args->splits;
    tile.begin = min((int)(blockIdx.x % args->splits) * share, slabs);
    tile.end = min(tile.begin + share, slabs);
  }
  tile.is_there = tile.row < args->batch * line[0].count * line[1].count;
  return tile;
}

// The thread that copies: slabs of a tap after the other.
__device__ __forceinline__ Stage copy_tile(const attnpress_conv2d_im2col_args *args, Tile tile,
                                           uint32_t ring, Stage stage) {
  const attnpress_conv2d_line y = args->line[tile.class_index][0];
  const attnpress_conv2d_line x = args->line[tile.class_index][1];
  const Place first = place_of(tile.row, y.count, x.count);
  const int in_y = y.in + first.middle * y.in_step, in_x = x.in + first.inner * x.in_step;
  Place at = {0, 0, 0}; // a tap's row and column, and a slab of it
  if (tile.begin > 0)
    at = place_of(tile.begin, x.taps, args->tap_slabs);
  const int is_last = args->has_last && tile.column + BLOCK_N >= args->out_columns;
  const int bytes = args->slab_bytes[is_last][0], tail_bytes = args->slab_bytes[is_last][1];
  for (int i = tile.begin; i < tile.end; ++i) {
    const int is_tail = args->has_tail && at.inner + 1 == args->tap_slabs;
    const uint32_t slab = open_stage(ring, stage, is_tail ? tail_bytes : bytes);
    const uint32_t barrier = full(ring, stage.index);
    const int depth = at.inner * SLAB;
    const int tap_y = y.tap + at.outer * y.tap_step, tap_x = x.tap + at.middle * x.tap_step;
    tma_load_im2col_4d(slab, &args->in[tile.class_index][is_tail], barrier, depth, in_x, in_y,
                       first.outer, at.middle * x.tap_move, at.outer * y.tap_move);
    tma_load_4d(slab + A_BYTES, &args->weight[is_last][is_tail], barrier, depth, tap_x, tap_y,
                tile.column);
    advance(&at, {0, 0, 1}, x.taps, args->tap_slabs);
    stage = next_stage(stage, STAGES);
  }
  return stage;
}

// The bias of a tile's columns: word i of a lane is the pair of columns 64 i + 2 lane.
__device__ __forceinline__ void load_bias(const attnpress_conv2d_im2col_args *args, Tile tile,
                                          uint32_t bias[BLOCK_N / 64]) {
#pragma unroll
  for (int i = 0; i < BLOCK_N / 64; ++i) {
    const int column = tile.column + i * 64 + threadIdx.x % 32 * 2;
    bias[i] = load_4_if(args->bias && column < args->out_columns,
                        (const uint16_t *)args->bias + column, 0);
  }
}

// Adds the bias of this lane's columns to 64 rows of sums, and what ReLU makes of them.
__device__ __forceinline__ void finish_sum(float *sum, const uint32_t bias[BLOCK_N / 64],
                                           int relu) {
#pragma unroll
  for (int n = 0; n < N_TILES; ++n) {
    const uint32_t pair =
        __shfl_sync(0xffffffff, bias[n / 8], n % 8 * 4 + threadIdx.x % 4);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sum[n * 4 + i] = rectify(
          sum[n * 4 + i] + (i % 2 ? widen_high(DTYPE, pair) : widen_low(DTYPE, pair)), relu);
  }
}

// Stores 32 columns of a row of a tile, from `column` on. word: (4), this lane's pairs of 8 columns.
__device__ __forceinline__ void store_line(const attnpress_conv2d_im2col_args *args, Tile tile,
                                           int row, int column, const uint32_t *word) {
  const attnpress_conv2d_line *y = &args->line[tile.class_index][0];
  const attnpress_conv2d_line *x = &args->line[tile.class_index][1];
  const Place pixel = place_of(row, y->count, x->count);
  const int at = pixel.outer * args->out_stride[0] +
                 (y->first + pixel.middle * y->step) * args->out_stride[1] +
                 (x->first + pixel.inner * x->step) * args->out_stride[2];
  const int first = column + threadIdx.x % 4 * VECTOR;
  const uint4 line = row_of_quad(word);
  store_16_if(row < args->batch * y->count * x->count && first < args->out_columns,
              (uint4 *)args->out + at + first / VECTOR, line);
}

// Stores 64 rows of a tile, of which this warp has 16. sum: (N_TILES, 4); row: this lane's first.
__device__ __forceinline__ void store_rows(const attnpress_conv2d_im2col_args *args, Tile tile,
                                           const float *sum, int row) {
  const attnpress_conv2d_line *y = &args->line[tile.class_index][0];
  const attnpress_conv2d_line *x = &args->line[tile.class_index][1];
  const int rows = args->batch * y->count * x->count, column = threadIdx.x % 4 * VECTOR;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Place pixel = place_of(row + half * 8, y->count, x->count);
    const int at = pixel.outer * args->out_stride[0] +
                   (y->first + pixel.middle * y->step) * args->out_stride[1] +
                   (x->first + pixel.inner * x->step) * args->out_stride[2];
    uint4 *out = (uint4 *)args->out + at + (tile.column + column) / VECTOR;
#pragma unroll
    for (int n = 0; n < N_TILES; n += 4) {
      uint32_t word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float *pair = sum + (n + i) * 4 + half * 2;
        word[i] = pack(DTYPE, pair[0], pair[1]);
      }
      const uint4 line = row_of_quad(word);
      store_16_if(row + half * 8 < rows && tile.column + n * 8 + column < args->out_columns,
                  out + n, line);
    }
  }
}

// Adds up the parts of a tile that the cluster's thread blocks have, and stores it: each thread block
// gets every splits-th piece of all, in the place of the ring, and adds them in the blocks' order.
// sum: (N_TILES, 4); warp: of those that multiply.
__device__ __forceinline__ void share_tile(const attnpress_conv2d_im2col_args *args, Tile tile,
                                           const float *sum, unsigned char *smem, int warp) {
  const int lane = threadIdx.x % 32, splits = args->splits;
  const int rank = blockIdx.x % splits;
  // All threads of the cluster that multiply arrive and wait: all products have been made, and the
  // rings are free.
  cluster_arrive();
  cluster_wait();
#pragma unroll
  for (int i = 0; i < N_TILES / 2; ++i) {
    const int piece = i * WARPS + warp;
    const uint32_t at =
        cluster_address(shared_address(smem) +
                            (piece / splits * splits + rank) * PIECE_BYTES + lane * 8,
                        piece % splits);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float *value = sum + (i / 2 * 4 + n) * 4 + i % 2 * 2;
      const float2 pair = {value[0], value[1]};
      store_8_cluster(at + n * 256, pair);
    }
  }
  // All arrive and wait: hands over the pieces.
  cluster_arrive();
  cluster_wait();
  for (int own = warp; own * splits + rank < PIECES; own += WARPS) {
    float2 pair[4] = {};
    for (int from = 0; from < splits; ++from) {
      const float2 *part =
          (const float2 *)(smem + (own * splits + from) * PIECE_BYTES) + lane;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        pair[n].x += part[n * 32].x;
        pair[n].y += part[n * 32].y;
      }
    }
    const int piece = own * splits + rank, i = piece / WARPS, of = piece % WARPS;
    const int row = tile.row + of * 16 + i % 2 * 8 + lane / 4, column = tile.column + i / 2 * 32;
    uint32_t word[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int first = column + n * 8 + lane % 4 * 2;
      const uint32_t bias = load_4_if(args->bias && first < args->out_columns,
                                      (const uint16_t *)args->bias + first, 0);
      pair[n].x = rectify(pair[n].x + widen_low(DTYPE, bias), args->relu);
      pair[n].y = rectify(pair[n].y + widen_high(DTYPE, bias), args->relu);
      word[n] = pack(DTYPE, pair[n].x, pair[n].y);
    }
    store_line(args, tile, row, column, word);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    conv2d_fprop_im2col_m128n128_bf16_sm90(
        const __grid_constant__ attnpress_conv2d_im2col_args args) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const uint32_t ring = shared_address(smem);
  // Read from lane 0, so that the compiler knows it to be the same in the whole warp.
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    prefetch_tensor_map(&args.in[0][0]);
    prefetch_tensor_map(&args.weight[0][0]);
    make_barriers(ring);
  }
  // All threads arrive and wait: hands over the barriers.
  __syncthreads();
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();

  Stage stage = {0, 0};
  // Thread blocks that share a tile have no other.
  const int first_tile = IS_SHARED && args.splits > 1 ? blockIdx.x / args.splits : blockIdx.x;
  if (warp == CONSUMERS * 4) {
    // The compiler knows an elected lane to be alone: copies then take uniform registers as they
    // are, without a loop over lanes around each.
    if (elect_lane())
      for (int index = first_tile; index < args.tiles; index += gridDim.x) {
        const Tile tile = find_tile(&args, index);
        if (tile.is_there)
          stage = copy_tile(&args, tile, ring, stage);
      }
    return;
  }
  const int row = warp / 4 * 64 * M_TILES + warp % 4 * 16 + lane / 4;
  float sum[M_TILES * SUMS];
  for (int index = first_tile; index < args.tiles; index += gridDim.x) {
    const Tile tile = find_tile(&args, index);
    if (!tile.is_there)
      continue;
#pragma unroll
    for (int i = 0; i < M_TILES * SUMS; ++i)
      sum[i] = 0.0f;
    // A second loop, for whole slabs, that does not count them has been slower: ptxas then sets the
    // sums to zero by way of uniform registers.
    stage = multiply_slabs(sum, ring, warp / 4, stage, tile.begin, tile.end, args.tap_slabs,
                           args.tail_steps);
    if (IS_SHARED && args.splits > 1) {
      share_tile(&args, tile, sum, smem, warp);
      continue;
    }
    uint32_t bias[BLOCK_N / 64];
    load_bias(&args, tile, bias);
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
      if (args.bias || args.relu)
        finish_sum(sum + m * SUMS, bias, args.relu);
      store_rows(&args, tile, sum + m * SUMS, tile.row + row + m * 64);
    }
  }
}
