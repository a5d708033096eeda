// matmul_nt_cols4096_bf16_sm90
//
// x = x W^T in place, bf16, sums in fp32, with wgmma and TMA.
//
// The thread blocks of a cluster share row blocks of BLOCK_M rows: each computes BLOCK_N columns of
// the result, as many as its accumulators hold, and reads the whole rows of x for it. None may store
// before all have read: each arrives at the cluster's barrier when its last piece of x has landed in
// shared memory, multiplies what is left, and waits at the barrier before it stores. While it stores,
// the producer already loads the next row block's x and W. docs/hopper.md explains wgmma, TMA and
// barriers in shared memory.
//
// Pressed from templates/matmul/matmul_sm90.cu.j2 with tile m128n256w12x8s4 by
//   python -m generator --family matmul --pass nt --cols 4096 --dtype bf16 --arch sm90

#include "attnpress/args/matmul.h"
#include "attnpress/device/matmul.cuh"
#include "attnpress/device/pipeline.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cluster.cuh"
#include "attnpress/device/ptx_tma.cuh"
#include "attnpress/device/ptx_warpgroup.cuh"
#include "attnpress/device/ptx_wgmma.cuh"
#include "attnpress/device/tile.cuh"
#include "attnpress/device/wgmma/ptx_wgmma_n256.cuh"

constexpr Dtype DTYPE = BF16;
constexpr int THREADS = 384;
constexpr int CONSUMERS = 2;   // warpgroups that multiply, 64 rows each
constexpr int BLOCK_M = 128;   // rows of a cluster
constexpr int BLOCK_N = 256;   // columns of a thread block
constexpr int BLOCK_K = 64;    // depth of a stage: a row of the swizzle
constexpr int STAGES = 4;
constexpr int TILES = BLOCK_N / 8; // of 8 columns
constexpr int X_BYTES = BLOCK_M * 128;
constexpr int W_BYTES = BLOCK_N * 128;
constexpr int W_OFFSET = STAGES * X_BYTES;
constexpr int BARRIER_OFFSET = W_OFFSET + STAGES * W_BYTES;
constexpr int SMEM_BYTES = 196672;
constexpr int PRODUCER_REGISTERS = 40;
constexpr int CONSUMER_REGISTERS = 232;
static_assert(BARRIER_OFFSET + STAGES * 16 == SMEM_BYTES, "as the generator has it");
static_assert(BLOCK_M == 64 * CONSUMERS && THREADS == 128 * (1 + CONSUMERS), "64 rows a consumer");

// A stage of x and W is there: the producer arrives, and the copies' bytes.
__device__ __forceinline__ uint32_t full(uint32_t shared, int stage) {
  return shared + BARRIER_OFFSET + stage * 16;
}

// It has been read: each warp of the consumers arrives.
__device__ __forceinline__ uint32_t empty(uint32_t shared, int stage) {
  return shared + BARRIER_OFFSET + stage * 16 + 8;
}

// The row blocks of this cluster, [begin, end), and the first column of this thread block.
struct Work {
  int begin, end, column;
};

__device__ __forceinline__ Work find_work(const attnpress_matmul_args_sm90 *args) {
  const int begin = blockIdx.x / args->cluster * args->cluster_share;
  return {begin, min(begin + args->cluster_share, args->row_blocks),
          (int)(blockIdx.x % args->cluster) * BLOCK_N};
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

// The producer's warpgroup, whose first thread loads. All of its threads meet the cluster, as the
// consumers' do: its barrier counts them, and they wait because they will arrive again.
__device__ __forceinline__ void produce(const attnpress_matmul_args_sm90 *args, uint32_t shared) {
  const Work work = find_work(args);
  Stage stage = {0, 0};
  for (int block = work.begin; block < work.end; ++block) {
    for (int depth = 0; depth < args->n; depth += BLOCK_K) {
      if (threadIdx.x == 0)
        load_stage(args, shared, stage, block * BLOCK_M, work.column, depth);
      stage = next_stage(stage, STAGES);
    }
    __syncwarp();
    if (args->cluster > 1) {
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

// One consumer: 64 rows of each row block.
__device__ __forceinline__ void consume(const attnpress_matmul_args_sm90 *args, uint32_t shared,
                                        int consumer) {
  const Work work = find_work(args);
  const int n = args->n;
  Stage stage = {0, 0};
  float sum[TILES * 4];
  for (int block = work.begin; block < work.end; ++block) {
    int last = 0; // the stage whose products are in flight
    for (int depth = 0; depth < n; depth += BLOCK_K) {
      // The copy engine hands over x and W.
      wait_for_phase(full(shared, stage.index), stage.parity);
      // All of this thread block's reads of the row block are done: to the others of the cluster.
      if (depth + BLOCK_K >= n && args->cluster > 1)
        cluster_arrive();
      start_stage(sum, shared, consumer, stage.index, depth == 0);
      if (depth > 0)
        finish_stage(sum, shared, last, 1);
      last = stage.index;
      stage = next_stage(stage, STAGES);
    }
    finish_stage(sum, shared, last, 0);

    // All thread blocks have read these rows: their place is free.
    if (args->cluster > 1)
      cluster_wait();
    const int row = block * BLOCK_M + consumer * 64 + threadIdx.x / 32 % 4 * 16;
    uint16_t *out = (uint16_t *)args->out + row * args->x_stride + work.column;
#pragma unroll
    for (int tile = 0; tile < TILES; tile += 4)
      store_four_tiles(out + tile * 8, args->x_stride, sum + tile * 4, DTYPE, args->rows - row,
                       n - work.column - tile * 8);
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
  // All threads arrive and wait: hands over the barriers.
  __syncthreads();

  if (threadIdx.x < 128) {
    decrease_registers(PRODUCER_REGISTERS);
    produce(&args, shared);
  } else {
    increase_registers(CONSUMER_REGISTERS);
    // Read from lane 0, so that the compiler knows it to be the same in the whole warp.
    consume(&args, shared, __shfl_sync(0xffffffff, threadIdx.x / 128, 0) - 1);
  }
}
