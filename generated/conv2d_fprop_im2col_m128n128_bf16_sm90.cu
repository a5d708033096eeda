// conv2d_fprop_im2col_m128n128_bf16_sm90
//
// The forward pass: out[n, p, q, k] = sum over r, s, c of x[n, h, w, c] weight[k, r, s, c], where h
// is p * stride - padding + r * dilation, and w likewise; then bias, then ReLU. As a product of
// matrices that are never laid out: rows are pixels of out, columns filters, the depth are (r, s,
// c).
// bf16, sums in fp32. A thread block walks over tiles of BLOCK_M rows and BLOCK_N columns. One
// of its warps copies slabs, 64 elements of the depth, to a ring: the copy engine finds the pixels
// of a tap by itself (im2col). The others multiply, and store a tile while the next one's slabs
// arrive.
//
// Pressed from templates/conv2d/conv2d_im2col_sm90.cu.j2 with tile m128n128w9x1s3b2 by
//   python -m generator --family conv2d --pass fprop --copies im2col --block m128n128 --dtype bf16 --arch sm90

#include "attnpress/args/conv2d.h"
#include "attnpress/device/conv2d.cuh"
#include "attnpress/device/pipeline.cuh"
#include "attnpress/device/ptx_address.cuh"
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
__device__ __forceinline__ uint32_t open_stage(uint32_t ring, Stage stage) {
  wait_for_phase(empty(ring, stage.index), stage.parity ^ 1);
  mbarrier_arrive_expect(full(ring, stage.index), STAGE_BYTES);
  return ring + stage.index * STAGE_BYTES;
}

// Starts sum += A B of a slab as a group of its own: (64 * M_TILES, BLOCK_N) for each warpgroup. A
// descriptor counts 16 bytes: 16 elements of the depth are 2 further on, or 16 lines.
__device__ __forceinline__ void start_slab(float sum[M_TILES * SUMS], uint32_t slab, int consumer) {
  const uint64_t b = wgmma_descriptor(slab + A_BYTES, 1024, 0);
#pragma unroll
  for (int m = 0; m < M_TILES; ++m)
    wgmma_order_n128(sum + m * SUMS);
  wgmma_fence();
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
    const uint64_t a =
        wgmma_descriptor(slab + (consumer * M_TILES + m) * PANEL_BYTES, 1024, PANEL_BYTES);
#pragma unroll
    for (int step = 0; step < SLAB / 16; ++step)
      wgmma_m64n128k16_bf16_ss(sum + m * SUMS, a + step * 2, b + step * 2, 1);
  }
  wgmma_commit();
}

// Waits until at most `pending` slabs' products are unfinished.
__device__ __forceinline__ void wait_for_products(float sum[M_TILES * SUMS], int pending) {
  wgmma_wait(pending);
#pragma unroll
  for (int m = 0; m < M_TILES; ++m)
    wgmma_order_n128(sum + m * SUMS);
}

// sum += A B over `slabs` slabs, which the ring brings from `stage` on; returns the stage behind.
__device__ __forceinline__ Stage multiply_slabs(float sum[M_TILES * SUMS], uint32_t ring,
                                                int consumer, Stage stage, int slabs) {
  int last = 0; // the stage whose products are in flight
  for (int slab = 0; slab < slabs; ++slab) {
    // The copy engine hands over the slab.
    wait_for_phase(full(ring, stage.index), stage.parity);
    start_slab(sum, ring + stage.index * STAGE_BYTES, consumer);
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

// A tile of a class: its first row and column, and the slabs of its depth.
struct Tile {
  int class_index, row, column, slabs;
  bool is_there; // the grid is laid out for the largest class
};

__device__ __forceinline__ Tile find_tile(const attnpress_conv2d_im2col_args *args, int index) {
  Tile tile;
  const int row_block = index / args->column_blocks;
  tile.column = index % args->column_blocks * BLOCK_N;
  tile.row = row_block % args->row_blocks * BLOCK_M;
  tile.class_index = row_block / args->row_blocks;
  const attnpress_conv2d_line *line = args->line[tile.class_index];
  tile.slabs = line[0].taps * line[1].taps * args->tap_slabs;
  tile.is_there = tile.row < args->batch * line[0].count * line[1].count;
  return tile;
}

// The thread that copies: a slab of each tap after the other.
__device__ __forceinline__ Stage copy_tile(const attnpress_conv2d_im2col_args *args, Tile tile,
                                           uint32_t ring, Stage stage) {
  const attnpress_conv2d_line y = args->line[tile.class_index][0];
  const attnpress_conv2d_line x = args->line[tile.class_index][1];
  const Place first = place_of(tile.row, y.count, x.count);
  const int in_y = y.in + first.middle * y.in_step, in_x = x.in + first.inner * x.in_step;
  for (int r = 0; r < y.taps; ++r)
    for (int s = 0; s < x.taps; ++s)
      for (int depth = 0; depth < args->tap_slabs * SLAB; depth += SLAB) {
        const uint32_t slab = open_stage(ring, stage), barrier = full(ring, stage.index);
        const int tap_y = y.tap + r * y.tap_step, tap_x = x.tap + s * x.tap_step;
        tma_load_im2col_4d(slab, &args->in[tile.class_index], barrier, depth, in_x, in_y,
                           first.outer, s * x.tap_move, r * y.tap_move);
        tma_load_4d(slab + A_BYTES, &args->weight, barrier, depth, tap_x, tap_y, tile.column);
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

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    conv2d_fprop_im2col_m128n128_bf16_sm90(
        const __grid_constant__ attnpress_conv2d_im2col_args args) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const uint32_t ring = shared_address(smem);
  // Read from lane 0, so that the compiler knows it to be the same in the whole warp.
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    prefetch_tensor_map(&args.in[0]);
    prefetch_tensor_map(&args.weight);
    make_barriers(ring);
  }
  // All threads arrive and wait: hands over the barriers.
  __syncthreads();
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();

  Stage stage = {0, 0};
  if (warp == CONSUMERS * 4) {
    for (int index = blockIdx.x; index < args.tiles; index += gridDim.x) {
      const Tile tile = find_tile(&args, index);
      if (tile.is_there && lane == 0)
        stage = copy_tile(&args, tile, ring, stage);
    }
    return;
  }
  const int row = warp / 4 * 64 * M_TILES + warp % 4 * 16 + lane / 4;
  float sum[M_TILES * SUMS];
  for (int index = blockIdx.x; index < args.tiles; index += gridDim.x) {
    const Tile tile = find_tile(&args, index);
    if (!tile.is_there)
      continue;
#pragma unroll
    for (int i = 0; i < M_TILES * SUMS; ++i)
      sum[i] = 0.0f;
    stage = multiply_slabs(sum, ring, warp / 4, stage, tile.slabs);
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
