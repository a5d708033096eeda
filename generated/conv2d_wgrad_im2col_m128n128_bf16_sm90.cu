// conv2d_wgrad_im2col_m128n128_bf16_sm90
//
// The gradient of the weights: dweight[k, r, s, c] = sum over n, p, q of dout[n, p, q, k] x[n, h,
// w, c], where h is p * stride - padding + r * dilation, and w likewise. As a product of matrices
// that are never laid out: rows are filters, columns (r, s, c), the depth are pixels. A line of a
// slab is a pixel; fragments are read transposed. A column has one tap for good, so that a thread's
// vector of (r, s, c) only follows the pixels.
// bf16, sums in fp32. A split of the pixels is a thread block's; where there are several,
// their sums go to parts, and another kernel adds them up, always in the same order. One of its
// warps copies slabs, 64 pixels, to a ring: the copy engine finds the pixels of a tap by itself
// (im2col). The others multiply.
//
// Pressed from templates/conv2d/conv2d_im2col_wgrad_sm90.cu.j2 with tile m128n128w9x1s3b2 by
//   python -m generator --family conv2d --pass wgrad --copies im2col --block m128n128 --dtype bf16 --arch sm90

#include "attnpress/args/conv2d.h"
#include "attnpress/device/conv2d.cuh"
#include "attnpress/device/pipeline.cuh"
#include "attnpress/device/ptx_address.cuh"
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

// Of a side whose elements have the depth across: panels of 64 pixels of `width` channels, 64 or
// 32, a constant, which lie as so many columns of the copy engine's swizzle.
__device__ __forceinline__ uint64_t side_descriptor(uint32_t shared, int width) {
  return width == 64 ? wgmma_descriptor(shared, 1024, PANEL_BYTES)
                     : wgmma_descriptor_of_lines(shared, 512, PANEL_BYTES / 2, 64);
}

// Starts sum += A B of a slab as a group of its own: (64 * M_TILES, BLOCK_N) for each warpgroup. A
// descriptor counts 16 bytes. The widths of panels are constants.
__device__ __forceinline__ void start_panels(float sum[M_TILES * SUMS], uint32_t slab, int consumer,
                                             int row_width, int width) {
  const uint64_t b = side_descriptor(slab + A_BYTES, width);
#pragma unroll
  for (int m = 0; m < M_TILES; ++m)
    wgmma_order_n128(sum + m * SUMS);
  wgmma_fence();
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
    const uint64_t a =
        side_descriptor(slab + (consumer * M_TILES + m) * PANEL_BYTES, row_width);
#pragma unroll
    for (int step = 0; step < SLAB / 16; ++step)
      wgmma_m64n128k16_bf16_ss_trans_both(sum + m * SUMS, a + step * row_width * 2,
                                          b + step * width * 2, 1);
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

// sum += A B over the slabs [begin, end), which the ring brings from `stage` on; returns the stage
// behind. The widths of panels are constants.
__device__ __forceinline__ Stage multiply_slabs(float sum[M_TILES * SUMS], uint32_t ring,
                                                int consumer, Stage stage, int begin, int end,
                                                int row_width, int width) {
  const int slabs = end - begin;
  int last = 0; // the stage whose products are in flight
  for (int slab = 0; slab < slabs; ++slab) {
    // The copy engine hands over the slab.
    wait_for_phase(full(ring, stage.index), stage.parity);
    start_panels(sum, ring + stage.index * STAGE_BYTES, consumer, row_width, width);
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

// Panels of `width`, 64 or 32, that so many columns have.
__device__ __forceinline__ int panels_of(int columns, int width) {
  return width == 64 ? columns / 64 : columns / 32;
}

// The thread that copies: `slabs` slabs from number `first` on. A column has one tap for good.
__device__ __forceinline__ void copy_slabs(const attnpress_conv2d_im2col_wgrad_args *args, int row,
                                           int column, int first, int slabs, uint32_t ring) {
  const int row_width = args->width[0], width = args->width[1];
  // Panels behind the last one are not copied: they make rows, or columns, that nobody stores.
  const int row_panels = min(panels_of(BLOCK_M, row_width), args->panels[0] - panels_of(row, row_width));
  const int first_panel = panels_of(column, width);
  const int panels = min(panels_of(BLOCK_N, width), args->panels[1] - first_panel);
  const int bytes = (row_panels * row_width + panels * width) * SLAB * 2;
  int channel[BLOCK_N / 32], tap_y[BLOCK_N / 32], tap_x[BLOCK_N / 32];
  Place tap = place_of(first_panel, args->filter_width, args->tap_panels);
#pragma unroll
  for (int i = 0; i < BLOCK_N / 32; ++i) {
    channel[i] = tap.inner * width;
    tap_y[i] = tap.outer * args->dilation[0];
    tap_x[i] = tap.middle * args->dilation[1];
    advance(&tap, {0, 0, 1}, args->filter_width, args->tap_panels);
  }
  Place pixel = place_of(first * SLAB, args->out_height, args->out_width);
  const Place by = place_of(SLAB, args->out_height, args->out_width);
  Stage stage = {0, 0};
  for (int i = 0; i < slabs; ++i) {
    const uint32_t slab = open_stage(ring, stage, bytes), barrier = full(ring, stage.index);
    const int y = pixel.middle * args->stride[0] - args->padding[0];
    const int x = pixel.inner * args->stride[1] - args->padding[1];
#pragma unroll
    for (int panel = 0; panel < BLOCK_M / 32; ++panel)
      if (panel < row_panels)
        tma_load_im2col_4d(slab + panel * row_width * SLAB * 2, &args->dout, barrier,
                           row + panel * row_width, pixel.inner, pixel.middle, pixel.outer, 0, 0);
#pragma unroll
    for (int panel = 0; panel < BLOCK_N / 32; ++panel)
      if (panel < panels)
        tma_load_im2col_4d(slab + A_BYTES + panel * width * SLAB * 2, &args->x, barrier,
                           channel[panel], x, y, pixel.outer, tap_x[panel], tap_y[panel]);
    advance(&pixel, by, args->out_height, args->out_width);
    stage = next_stage(stage, STAGES);
  }
}

// Stores 64 rows of a tile, of which this warp has 16. sum: (N_TILES, 4); row: this lane's first;
// tile_column: the tile's.
__device__ __forceinline__ void store_rows(const attnpress_conv2d_im2col_wgrad_args *args,
                                           float *parts, const float *sum, int row,
                                           int tile_column) {
  // Where panels leave no channel out, taps lie side by side as their columns do.
  const int tap_columns = args->tap_panels * args->width[1];
  const bool is_whole = tap_columns == args->channels;
  int tap = is_whole ? 0 : tile_column / tap_columns, channel = tile_column - tap * tap_columns;
#pragma unroll
  for (int n = 0; n < N_TILES; n += 4) {
    // 32 columns of dweight from `first` on: as many as are there, of a tap.
    const int first = tap * args->channels + channel, left = args->columns - first;
    const int columns = is_whole ? left : min(left, args->channels - channel);
    channel += 32;
    if (!is_whole && channel == tap_columns) {
      channel = 0;
      ++tap;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at_row = row + half * 8;
      const int64_t at = (int64_t)at_row * args->columns + first;
      const float *tile = sum + n * 4 + half * 2;
      const int pair_column = threadIdx.x % 4 * 2, column = threadIdx.x % 4 * VECTOR;
      if (parts) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (at_row < args->filters && pair_column + i * 8 < columns)
            *(float2 *)(parts + at + pair_column + i * 8) = {tile[i * 4], tile[i * 4 + 1]};
        continue;
      }
      uint32_t word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        word[i] = pack(DTYPE, tile[i * 4], tile[i * 4 + 1]);
      const uint4 line = row_of_quad(word);
      store_16_if(at_row < args->filters && column < columns,
                  (uint4 *)((uint16_t *)args->dweight + at + column), line);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    conv2d_wgrad_im2col_m128n128_bf16_sm90(
        const __grid_constant__ attnpress_conv2d_im2col_wgrad_args args) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const uint32_t ring = shared_address(smem);
  // Read from lane 0, so that the compiler knows it to be the same in the whole warp.
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    prefetch_tensor_map(&args.x);
    prefetch_tensor_map(&args.dout);
    make_barriers(ring);
  }
  // All threads arrive and wait: hands over the barriers.
  __syncthreads();
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();

  const int column_begin = blockIdx.x % args.column_blocks * BLOCK_N;
  const int row_begin = blockIdx.x / args.column_blocks % args.row_blocks * BLOCK_M;
  const int split = blockIdx.x / args.column_blocks / args.row_blocks;
  const int first = split * args.split_slabs;
  const int slabs = min(args.split_slabs, args.slabs - first);
  if (warp == CONSUMERS * 4) {
    // The compiler knows an elected lane to be alone: copies then take uniform registers as they
    // are, without a loop over lanes around each.
    if (elect_lane())
      copy_slabs(&args, row_begin, column_begin, first, slabs, ring);
    return;
  }
  float sum[M_TILES * SUMS];
#pragma unroll
  for (int i = 0; i < M_TILES * SUMS; ++i)
    sum[i] = 0.0f;
  // A loop for each width of panels: a look at them in each slab has taken 4% longer.
  if (args.width[0] == 64 && args.width[1] == 64)
    multiply_slabs(sum, ring, warp / 4, {0, 0}, 0, slabs, 64, 64);
  else if (args.width[0] == 64)
    multiply_slabs(sum, ring, warp / 4, {0, 0}, 0, slabs, 64, 32);
  else if (args.width[1] == 64)
    multiply_slabs(sum, ring, warp / 4, {0, 0}, 0, slabs, 32, 64);
  else
    multiply_slabs(sum, ring, warp / 4, {0, 0}, 0, slabs, 32, 32);
  const int row = row_begin + warp / 4 * 64 * M_TILES + warp % 4 * 16 + lane / 4;
  float *parts =
      args.parts ? args.parts + (int64_t)split * args.filters * args.columns : nullptr;
#pragma unroll
  for (int m = 0; m < M_TILES; ++m)
    store_rows(&args, parts, sum + m * SUMS, row + m * 64, column_begin);
}
