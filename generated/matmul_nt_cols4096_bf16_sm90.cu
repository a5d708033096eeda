// matmul_nt_cols4096_bf16_sm90
//
// x = x W^T in place, bf16, sums in fp32, with wgmma and TMA.
//
// Thread blocks share row blocks of BLOCK_M rows: each computes BLOCK_N columns of the result, as
// many as its accumulators hold, and reads the whole rows of x for it. None may store before all
// have read: each arrives at a barrier when its last piece of x has landed in shared memory,
// multiplies what is left, and waits at the barrier before it stores. While it stores, the producer
// already loads the next row block's x and W. The barrier is a cluster's, which those that share
// rows are, or that of all thread blocks, which then run at the same time. There a tile that has
// the device to itself may be split: the blocks of a cluster each have a part of its depth, and add
// up their sums through shared memory, in one order. docs/hopper.md explains wgmma, TMA and
// barriers in shared memory.
//
// Pressed from templates/matmul/matmul_sm90.cu.j2 with tile m128n256w12x8s4 by
//   python -m generator --family matmul --pass nt --cols 4096 --dtype bf16 --arch sm90

#include "attnpress/args/matmul.h"
#include "attnpress/device/matmul.cuh"
#include "attnpress/device/pipeline.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cluster.cuh"
#include "attnpress/device/ptx_grid.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/ptx_tma.cuh"
#include "attnpress/device/ptx_warpgroup.cuh"
#include "attnpress/device/ptx_wgmma.cuh"
#include "attnpress/device/tile.cuh"
#include "attnpress/device/wgmma/ptx_wgmma_n256.cuh"

constexpr Dtype DTYPE = BF16;
constexpr int THREADS = 384;
constexpr int CONSUMERS = 2;   // warpgroups that multiply, 64 rows each
constexpr int BLOCK_M = 128;   // rows of a thread block
constexpr int BLOCK_N = 256;   // columns of a thread block
constexpr int BLOCK_K = 64;    // depth of a stage: a row of the swizzle
constexpr int STAGES = 4;
constexpr int TILES_SHIFT = BLOCK_N == 64 ? 3 : BLOCK_N == 128 ? 4 : 5;
constexpr int TILES = 1 << TILES_SHIFT; // of 8 columns
static_assert(BLOCK_N == 8 * TILES, "64, 128 or 256 columns");
constexpr int X_BYTES = BLOCK_M * 128;
constexpr int W_BYTES = BLOCK_N * 128;
constexpr int W_OFFSET = STAGES * X_BYTES;
constexpr int BARRIER_OFFSET = W_OFFSET + STAGES * W_BYTES;
constexpr int SMEM_BYTES = 196672;
constexpr int PRODUCER_REGISTERS = 40;
constexpr int CONSUMER_REGISTERS = 232;
static_assert(BARRIER_OFFSET + STAGES * 16 == SMEM_BYTES, "as the generator has it");
constexpr int CONSUMER_THREADS = 128 * CONSUMERS;
// Of sums, in the place of the ring: two of each thread.
constexpr int PAIR_BYTES = 8 * CONSUMER_THREADS;
static_assert(TILES * 2 * PAIR_BYTES <= BARRIER_OFFSET, "sums take the place of the ring");
static_assert(BLOCK_M == 64 * CONSUMERS && THREADS == 128 * (1 + CONSUMERS), "64 rows a consumer");

// A stage of x and W is there: the producer arrives, and the copies' bytes.
__device__ __forceinline__ uint32_t full(uint32_t shared, int stage) {
  return shared + BARRIER_OFFSET + stage * 16;
}

// It has been read: each warp of the consumers arrives.
__device__ __forceinline__ uint32_t empty(uint32_t shared, int stage) {
  return shared + BARRIER_OFFSET + stage * 16 + 8;
}

// What a thread block computes: row blocks begin, begin + step ..., `share` of them, of which those
// from args.row_blocks on are not there; BLOCK_N columns; a part of the depth, of which it is
// number `part` of its cluster.
struct Work {
  int begin, step, share, column, part;
  int depth_begin, depth_end;
};

__device__ __forceinline__ Work find_work(const attnpress_matmul_args_sm90 *args) {
  Work work = {0, 1, args->share, 0, 0, 0, args->n};
  const int shift = args->split_shift;
  const int tile = blockIdx.x >> shift, tiles = gridDim.x >> shift;
  const int row = tile / args->column_blocks; // of those that are worked on at the same time
  work.column = tile % args->column_blocks * BLOCK_N;
  work.begin = args->together ? row : row * args->share;
  if (args->together)
    work.step = tiles / args->column_blocks;
  if (shift > 0) {
    const int steps = ceil_div(args->n, BLOCK_K);
    work.part = blockIdx.x & ((1 << shift) - 1);
    work.depth_begin = (steps * work.part >> shift) * BLOCK_K;
    work.depth_end = min((steps * (work.part + 1) >> shift) * BLOCK_K, args->n);
  }
  return work;
}

// The producer's one thread: x and W of a stage. What lies outside of them arrives as zeros.
__device__ __forceinline__ void load_stage(const attnpress_matmul_args_sm90 *args, uint32_t shared,
                                           Stage stage, int row, int column, int depth) {
  const uint32_t barrier = full(shared, stage.index);
  const uint32_t w = shared + W_OFFSET + stage.index * W_BYTES;
  wait_for_phase(empty(shared, stage.index), stage.parity ^ 1);
  mbarrier_arrive_expect(barrier, X_BYTES + W_BYTES);
  tma_load_4d(shared + stage.index * X_BYTES, &args->x, barrier, depth, row, 0, 0);
  tma_load_4d(w, &args->w, barrier, depth, column, 0, 0);
}

// The producer's warpgroup, whose first thread loads. All of its threads meet the cluster that
// shares rows, as the consumers' do: its barrier counts them, and they wait because they will
// arrive again. Of a cluster that shares a tile's depth they leave: it counts those that are there.
__device__ __forceinline__ void produce(const attnpress_matmul_args_sm90 *args, uint32_t shared) {
  const Work work = find_work(args);
  const bool meets = !args->together && args->column_blocks > 1;
  Stage stage = {0, 0};
  for (int turn = 0; turn < work.share; ++turn) {
    const int block = work.begin + turn * work.step;
    if (block >= args->row_blocks)
      break;
    for (int depth = work.depth_begin; depth < work.depth_end; depth += BLOCK_K) {
      if (threadIdx.x == 0)
        load_stage(args, shared, stage, block * BLOCK_M, work.column, depth);
      stage = next_stage(stage, STAGES);
    }
    __syncwarp();
    if (meets) {
      cluster_arrive();
      cluster_wait();
    }
  }
}

// Starts sum += x W of a stage, this consumer's 64 rows; of the first one, sum = x W.
__device__ __forceinline__ void start_stage(float sum[TILES * 4], uint32_t shared, int consumer,
                                            int stage, bool first) {
  const uint64_t x =
      wgmma_descriptor(shared + stage * X_BYTES + consumer * (64 * 128), 1024, 0);
  const uint64_t w = wgmma_descriptor(shared + W_OFFSET + stage * W_BYTES, 1024, 0);
  wgmma_order_n256(sum);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < BLOCK_K / 16; ++step)
    wgmma_m64n256k16_bf16_ss(sum, x + step * 32 / 16, w + step * 32 / 16,
                             step > 0 || !first);
  wgmma_commit();
}

// Waits until at most `pending` stages' products are unfinished, and gives a stage back.
__device__ __forceinline__ void finish_stage(float sum[TILES * 4], uint32_t shared, int stage,
                                             int pending) {
  wgmma_wait(pending);
  wgmma_order_n256(sum);
  arrive_once(empty(shared, stage));
}

// Where in the ring's place pair number `pair` of a thread's sums lies that part `from` has.
__device__ __forceinline__ uint32_t pair_place(uint32_t shared, int from, int pairs, int pair) {
  return shared + (from * pairs + pair) * PAIR_BYTES + (threadIdx.x - 128) * 8;
}

// The blocks of a cluster each hand the others what is theirs: tiles number [part * own, ...). Then
// each adds up its own, in the order of the parts, and stores them.
__device__ __forceinline__ void hand_over(const attnpress_matmul_args_sm90 *args, uint32_t shared,
                                          int part, const float sum[TILES * 4]) {
  const int shift = TILES_SHIFT - args->split_shift, pairs = 2 << shift;
  // All threads of the cluster arrive and wait: nobody reads the rings any more.
  cluster_arrive();
  cluster_wait();
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
    const uint32_t there = cluster_address(shared, tile >> shift);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      store_8_cluster(pair_place(there, part, pairs, (tile * 2 + half) & (pairs - 1)),
                      float2{sum[tile * 4 + half * 2], sum[tile * 4 + half * 2 + 1]});
  }
  // They arrive and wait: hands over the sums.
  cluster_arrive();
  cluster_wait();
}

// Four tiles' sums of all parts, from tile number `first` of this block's own.
__device__ __forceinline__ void add_parts(const attnpress_matmul_args_sm90 *args,
                                          const unsigned char *smem, int first, float *total) {
  const int pairs = (TILES >> args->split_shift) * 2;
#pragma unroll
  for (int i = 0; i < 16; ++i)
    total[i] = 0.0f;
  for (int from = 0; from < 1 << args->split_shift; ++from)
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float2 pair = *(const float2 *)(smem + pair_place(0, from, pairs, first * 2 + i));
      total[i * 2] += pair.x;
      total[i * 2 + 1] += pair.y;
    }
}

// Waits until all thread blocks have read the rows; by all consumers.
__device__ __forceinline__ void wait_for_readers(const attnpress_matmul_args_sm90 *args,
                                                 uint32_t arrived) {
  if (!args->together) {
    if (args->column_blocks > 1)
      cluster_wait();
    return;
  }
  if (threadIdx.x == 128)
    while (!grid_has_come(arrived))
      ;
  // All consumers arrive and wait: one of them has seen it.
  named_barrier_sync(1, CONSUMER_THREADS);
}

// One consumer: 64 rows of each row block.
__device__ __forceinline__ void consume(const attnpress_matmul_args_sm90 *args,
                                        const unsigned char *smem, uint32_t shared, int consumer) {
  const Work work = find_work(args);
  const int n = args->n;
  const bool meets = !args->together && args->column_blocks > 1;
  Stage stage = {0, 0};
  float sum[TILES * 4];
  for (int turn = 0; turn < work.share; ++turn) {
    const int block = work.begin + turn * work.step;
    uint32_t arrived = 0;
    if (block >= args->row_blocks) {
      // Those that have rows of this turn wait for all.
      if (args->together && threadIdx.x == 128)
        grid_arrive();
      break;
    }
    int last = 0; // the stage whose products are in flight
    for (int depth = work.depth_begin; depth < work.depth_end; depth += BLOCK_K) {
      // The copy engine hands over x and W.
      wait_for_phase(full(shared, stage.index), stage.parity);
      // All of this thread block's reads of the row block are done: to the others that share it.
      if (depth + BLOCK_K >= work.depth_end) {
        if (meets)
          cluster_arrive();
        if (args->together && threadIdx.x == 128)
          arrived = grid_arrive();
      }
      start_stage(sum, shared, consumer, stage.index, depth == work.depth_begin);
      if (depth > work.depth_begin)
        finish_stage(sum, shared, last, 1);
      last = stage.index;
      stage = next_stage(stage, STAGES);
    }
    finish_stage(sum, shared, last, 0);

    const int row = block * BLOCK_M + consumer * 64 + threadIdx.x / 32 % 4 * 16;
    uint16_t *out = (uint16_t *)args->out + row * args->x_stride;
    if (args->split_shift > 0) {
      const int own = TILES >> args->split_shift;
      hand_over(args, shared, work.part, sum);
      wait_for_readers(args, arrived);
#pragma unroll 1
      for (int tile = 0; tile < own; tile += 4) {
        const int column = work.column + (work.part * own + tile) * 8;
        float total[16];
        add_parts(args, smem, tile, total);
        store_four_tiles(out + column, args->x_stride, total, DTYPE, args->rows - row, n - column);
      }
      continue;
    }
    // All thread blocks have read these rows: their place is free.
    wait_for_readers(args, arrived);
#pragma unroll
    for (int tile = 0; tile < TILES; tile += 4)
      store_four_tiles(out + work.column + tile * 8, args->x_stride, sum + tile * 4, DTYPE,
                       args->rows - row, n - work.column - tile * 8);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_nt_cols4096_bf16_sm90(const __grid_constant__ attnpress_matmul_args_sm90 args) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const uint32_t shared = shared_address(smem);
  if (threadIdx.x == 0) {
    prefetch_tensor_map(&args.x);
    prefetch_tensor_map(&args.w);
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(full(shared, stage), 1);
      mbarrier_init(empty(shared, stage), 4 * CONSUMERS);
    }
    fence_mbarrier_init();
  }
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  // All threads arrive and wait: hands over the barriers.
  __syncthreads();

  if (threadIdx.x < 128) {
    decrease_registers(PRODUCER_REGISTERS);
    produce(&args, shared);
  } else {
    increase_registers(CONSUMER_REGISTERS);
    // Read from lane 0, so that the compiler knows it to be the same in the whole warp.
    consume(&args, smem, shared, __shfl_sync(0xffffffff, threadIdx.x / 128, 0) - 1);
  }
}
