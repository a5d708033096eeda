// Kernels with one fault each in what sm90 adds, by two warpgroups, and kernels beside them that
// are right. Each has the name that stands in test_emulator.c with the words of its report.
//
// Threads 0 to 127 multiply, thread 255 loads, unless a kernel says otherwise.

#include "attnpress/args/common.h"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_atom.cuh"
#include "attnpress/device/ptx_bulk.cuh"
#include "attnpress/device/ptx_bulk_copy.cuh"
#include "attnpress/device/ptx_cluster.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/ptx_ldmatrix.cuh"
#include "attnpress/device/ptx_mbarrier.cuh"
#include "attnpress/device/ptx_red.cuh"
#include "attnpress/device/ptx_tma.cuh"
#include "attnpress/device/ptx_warpgroup.cuh"
#include "attnpress/device/ptx_wgmma.cuh"
#include "attnpress/device/wgmma/ptx_wgmma_n64.cuh"

struct fault_args {
  attnpress_tensor_map map;      // (1, 1, 128, 64) of 16 bits, boxes of (1, 1, 64, 64)
  attnpress_tensor_map long_map; // says that there are 256 rows
  attnpress_tensor_map no_map;   // zeros
  uint32_t *out;                 // (256)
};

// 32 KB of shared memory: two tiles of 64 x 64, barriers, and room.
constexpr int TILE_BYTES = 64 * 128;
constexpr int FULL = 2 * TILE_BYTES;
constexpr int EMPTY = FULL + 8;
constexpr int ROOM = FULL + 1024;

#define KERNEL(name)                                                                               \
  extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ fault_args args)
#define SHARED                                                                                     \
  extern __shared__ __align__(1024) unsigned char smem[];                                          \
  const uint32_t shared = shared_address(smem)

__device__ __forceinline__ void wait(uint32_t barrier, int parity) {
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}

__device__ __forceinline__ void begin(uint32_t shared) {
  if (threadIdx.x == 0) {
    mbarrier_init(shared + FULL, 1);
    mbarrier_init(shared + EMPTY, 4);
    fence_mbarrier_init();
  }
  __syncthreads();
}

// Both tiles, for one phase of FULL.
__device__ __forceinline__ void load(const attnpress_tensor_map *map, uint32_t shared) {
  mbarrier_arrive_expect(shared + FULL, 2 * TILE_BYTES);
  tma_load_4d(shared, map, shared + FULL, 0, 0, 0, 0);
  tma_load_4d(shared + TILE_BYTES, map, shared + FULL, 0, 64, 0, 0);
}

__device__ __forceinline__ void load_once(const attnpress_tensor_map *map, uint32_t shared) {
  begin(shared);
  if (threadIdx.x == 255)
    load(map, shared);
}

__device__ __forceinline__ uint64_t tile_at(uint32_t shared) {
  return wgmma_descriptor(shared, 1024, 0);
}

// d = A B^T of the two tiles' first 16 columns, as a group.
__device__ __forceinline__ void start_product(float *d, uint32_t shared) {
  wgmma_fence();
  wgmma_m64n64k16_bf16_ss(d, tile_at(shared), tile_at(shared + TILE_BYTES), 0);
  wgmma_commit();
}

__device__ __forceinline__ void give(const fault_args *args, float x) {
  args->out[threadIdx.x] = __builtin_bit_cast(uint32_t, x);
}

// ---- What is right ----

KERNEL(right_product) {
  SHARED;
  load_once(&args.map, shared);
  if (threadIdx.x < 128) {
    float d[32];
    wait(shared + FULL, 0);
    start_product(d, shared);
    wgmma_wait(0);
    give(&args, d[31]);
  }
}

KERNEL(right_second_load) {
  SHARED;
  load_once(&args.map, shared);
  if (threadIdx.x == 255) {
    wait(shared + EMPTY, 0);
    load(&args.map, shared);
  }
  if (threadIdx.x < 128) {
    float d[32];
    for (int parity = 0; parity < 2; ++parity) {
      wait(shared + FULL, parity);
      start_product(d, shared);
      wgmma_wait(0);
      if (threadIdx.x % 32 == 0)
        mbarrier_arrive(shared + EMPTY);
    }
    give(&args, d[0]);
  }
}

// ---- Additions from shared memory ----

constexpr int SUM_BYTES = 256 * 4;

// All threads store, then thread 255 goes on alone.
__device__ __forceinline__ bool stored(unsigned char *smem, float x, bool fence) {
  ((float *)smem)[threadIdx.x] = x;
  if (fence)
    fence_proxy_async();
  __syncthreads();
  return threadIdx.x == 255;
}

__device__ __forceinline__ void start_addition(const fault_args *args, uint32_t shared) {
  bulk_add((float *)args->out, shared, SUM_BYTES);
  bulk_commit();
}

// Twice; the second time the place of the first is written anew, and of two groups one may go on.
KERNEL(right_bulk_add) {
  SHARED;
  if (stored(smem, (float)threadIdx.x, true)) {
    start_addition(&args, shared);
    bulk_wait_read(0);
  }
  __syncthreads();
  if (stored(smem, (float)threadIdx.x * 2, true)) {
    start_addition(&args, shared);
    bulk_commit();
    bulk_wait_read(1);
  }
  __syncthreads();
  ((float *)smem)[threadIdx.x] = 0;
}

#define ADDITION_KERNEL(name, fence, addition)                                                     \
  KERNEL(name) {                                                                                   \
    SHARED;                                                                                        \
    if (stored(smem, 1.0f, fence)) {                                                               \
      addition;                                                                                    \
    }                                                                                              \
  }
#define ADDITION_OF(global, from, bytes)                                                           \
  bulk_add((float *)args.out + (global), shared + (from), bytes);                                  \
  bulk_commit();                                                                                   \
  bulk_wait_read(0)
ADDITION_KERNEL(bulk_add_without_proxy_fence, false, ADDITION_OF(0, 0, SUM_BYTES))
ADDITION_KERNEL(bulk_add_of_nothing, true, ADDITION_OF(0, 16, SUM_BYTES))
ADDITION_KERNEL(bulk_add_between_chunks, true, ADDITION_OF(0, 8, 64))
ADDITION_KERNEL(bulk_add_of_half_a_chunk, true, ADDITION_OF(0, 0, 24))
ADDITION_KERNEL(bulk_add_to_half_a_chunk, true, ADDITION_OF(2, 0, 64))
ADDITION_KERNEL(bulk_add_outside, true, ADDITION_OF(4, 0, SUM_BYTES))
ADDITION_KERNEL(bulk_add_of_a_barrier, true, mbarrier_init(shared + 512, 1);
                ADDITION_OF(0, 0, SUM_BYTES))
ADDITION_KERNEL(bulk_add_without_commit, true, bulk_add((float *)args.out, shared, SUM_BYTES);
                bulk_wait_read(0))
ADDITION_KERNEL(bulk_add_without_end, true, start_addition(&args, shared))
ADDITION_KERNEL(bulk_add_read_back, true, ADDITION_OF(0, 0, SUM_BYTES);
                ((uint32_t *)smem)[0] = args.out[1])
ADDITION_KERNEL(bulk_add_waits_for_too_few, true, start_addition(&args, shared); bulk_wait_read(1);
                ((float *)smem)[3] = 0)
ADDITION_KERNEL(bulk_add_under_a_copy, true, start_addition(&args, shared);
                mbarrier_init(shared + FULL, 1); fence_mbarrier_init();
                tma_load_4d(shared, &args.map, shared + FULL, 0, 0, 0, 0))

// The barrier comes before the wait.
KERNEL(bulk_add_written_early) {
  SHARED;
  const bool adds = stored(smem, 1.0f, true);
  if (adds)
    start_addition(&args, shared);
  __syncthreads();
  ((float *)smem)[threadIdx.x] = 0;
  if (adds)
    bulk_wait_read(0);
}

KERNEL(bulk_add_written_without_a_barrier) {
  SHARED;
  if (stored(smem, 1.0f, true)) {
    start_addition(&args, shared);
    bulk_wait_read(0);
  } else if (threadIdx.x == 0) {
    ((float *)smem)[77] = 0;
  }
}

// ---- Copies of what lies one after the other, there and back ----

// Begins one of `out` to shared memory.
__device__ __forceinline__ void start_plain_copy(const fault_args *args, uint32_t shared) {
  mbarrier_arrive_expect(shared + FULL, SUM_BYTES);
  bulk_load(shared, args->out, SUM_BYTES, shared + FULL);
}

// Comes, and goes back with something added.
KERNEL(right_plain_copies) {
  SHARED;
  begin(shared);
  if (threadIdx.x == 255)
    start_plain_copy(&args, shared);
  wait(shared + FULL, 0);
  ((uint32_t *)smem)[threadIdx.x] += threadIdx.x;
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 255) {
    bulk_store(args.out, shared, SUM_BYTES);
    bulk_commit();
    bulk_wait_read(0);
  }
}

#define PLAIN_COPY_KERNEL(name, copy, after)                                                       \
  KERNEL(name) {                                                                                   \
    SHARED;                                                                                        \
    begin(shared);                                                                                 \
    if (threadIdx.x == 255) {                                                                      \
      copy;                                                                                        \
    }                                                                                              \
    after;                                                                                         \
  }
#define PLAIN_COPY_OF(to, from, bytes)                                                             \
  mbarrier_arrive_expect(shared + FULL, bytes);                                                    \
  bulk_load(shared + (to), (const unsigned char *)args.out + (from), bytes, shared + FULL)
PLAIN_COPY_KERNEL(plain_copy_of_half_a_chunk, PLAIN_COPY_OF(0, 0, 24), )
PLAIN_COPY_KERNEL(plain_copy_of_nothing, PLAIN_COPY_OF(0, 0, 0), )
PLAIN_COPY_KERNEL(plain_copy_from_half_a_chunk, PLAIN_COPY_OF(0, 8, 32), )
PLAIN_COPY_KERNEL(plain_copy_to_half_a_chunk, PLAIN_COPY_OF(8, 0, 32), )
PLAIN_COPY_KERNEL(plain_copy_outside, PLAIN_COPY_OF(0, SUM_BYTES - 16, 32), wait(shared + FULL, 0))
PLAIN_COPY_KERNEL(plain_copy_read_early, start_plain_copy(&args, shared),
                  give(&args, ((float *)smem)[threadIdx.x]))
PLAIN_COPY_KERNEL(plain_copy_twice, start_plain_copy(&args, shared);
                  bulk_load(shared, args.out, SUM_BYTES, shared + FULL), )

#define STORE_OF(to, from, bytes)                                                                  \
  bulk_store((unsigned char *)args.out + (to), shared + (from), bytes);                            \
  bulk_commit();                                                                                   \
  bulk_wait_read(0)
ADDITION_KERNEL(bulk_store_without_proxy_fence, false, STORE_OF(0, 0, SUM_BYTES))
ADDITION_KERNEL(bulk_store_of_nothing, true, STORE_OF(0, 16, SUM_BYTES))
ADDITION_KERNEL(bulk_store_of_half_a_chunk, true, STORE_OF(0, 0, 24))
ADDITION_KERNEL(bulk_store_to_half_a_chunk, true, STORE_OF(8, 0, 64))
ADDITION_KERNEL(bulk_store_outside, true, STORE_OF(16, 0, SUM_BYTES))
ADDITION_KERNEL(bulk_store_without_end, true, bulk_store(args.out, shared, SUM_BYTES);
                bulk_commit())
ADDITION_KERNEL(bulk_store_read_back, true, STORE_OF(0, 0, SUM_BYTES);
                ((uint32_t *)smem)[0] = args.out[1])
ADDITION_KERNEL(bulk_store_written_early, true, bulk_store(args.out, shared, SUM_BYTES);
                bulk_commit(); bulk_wait_read(1); ((float *)smem)[3] = 0)

// Of two blocks the first writes zeros, and the second adds to them. The last word is their counter.
#define ZEROS_KERNEL(name, zeroes, adds)                                                           \
  KERNEL(name) {                                                                                   \
    SHARED;                                                                                        \
    if (blockIdx.x == 0) {                                                                         \
      if (threadIdx.x < 32) {                                                                      \
        zeroes;                                                                                    \
      }                                                                                            \
      return;                                                                                      \
    }                                                                                              \
    const bool alone = stored(smem, 1.0f, true);                                                   \
    adds;                                                                                          \
  }
#define ZERO args.out[threadIdx.x] = 0
#define TELL                                                                                       \
  if (threadIdx.x == 0)                                                                            \
  release_increment(args.out + 255)
#define LEARN(count)                                                                               \
  while (load_acquire(args.out + 255) < (count)) {                                                 \
  }
#define ADD_IF_ALONE(before)                                                                       \
  if (alone) {                                                                                     \
    before;                                                                                        \
    ADDITION_OF(0, 0, 128);                                                                        \
  }
ZEROS_KERNEL(right_zeros, ZERO; __syncwarp();
             TELL, ADD_IF_ALONE(LEARN(1) fence_proxy_async_global()))
ZEROS_KERNEL(right_zeros_of_threads, ZERO; __syncwarp(); TELL, if (alone){LEARN(1)} __syncthreads();
             if (threadIdx.x < 32) red_add((float *)args.out + threadIdx.x, 1.0f))
ZEROS_KERNEL(zeros_without_a_wait, ZERO; __syncwarp();
             TELL, ADD_IF_ALONE(fence_proxy_async_global()))
ZEROS_KERNEL(zeros_without_proxy_fence, ZERO; __syncwarp(); TELL, ADD_IF_ALONE(LEARN(1)))
ZEROS_KERNEL(zeros_behind_the_proxy_fence, ZERO; __syncwarp();
             TELL, ADD_IF_ALONE(fence_proxy_async_global(); LEARN(1)))
ZEROS_KERNEL(zeros_that_the_lane_does_not_know, ZERO;
             TELL, ADD_IF_ALONE(LEARN(1) fence_proxy_async_global()))
ZEROS_KERNEL(zeros_behind_the_release, TELL; __syncwarp();
             ZERO, ADD_IF_ALONE(LEARN(1) fence_proxy_async_global()))
ZEROS_KERNEL(
    zeros_that_other_threads_do_not_know, ZERO; __syncwarp(); TELL, if (alone) {
      LEARN(1)
    } if (threadIdx.x < 32) red_add((float *)args.out + threadIdx.x, 1.0f))
ZEROS_KERNEL(zeros_that_never_come, ZERO; __syncwarp(); TELL, ADD_IF_ALONE(LEARN(2)))

// The others' stores are not known.
KERNEL(bulk_add_before_the_barrier) {
  SHARED;
  ((float *)smem)[threadIdx.x] = 1.0f;
  fence_proxy_async();
  if (threadIdx.x == 255) {
    start_addition(&args, shared);
    bulk_wait_read(0);
  }
}

// Ordinary stores, then products: all threads write, and all fence.
KERNEL(right_plain_operands) {
  SHARED;
  float d[32] = {};
  for (int i = threadIdx.x; i < TILE_BYTES / 2; i += 256)
    ((uint32_t *)smem)[i] = i;
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x < 128) {
    start_product(d, shared);
    wgmma_wait(0);
    give(&args, d[0]);
  }
}

// One thread's fence for the block: what it has heard of.
KERNEL(right_fence_by_another) {
  SHARED;
  float d[32];
  for (int i = threadIdx.x; i < TILE_BYTES / 2; i += 256)
    ((uint32_t *)smem)[i] = i;
  __syncthreads();
  if (threadIdx.x == 200)
    fence_proxy_async();
  __syncthreads();
  if (threadIdx.x < 128) {
    start_product(d, shared);
    wgmma_wait(0);
    give(&args, d[0]);
  }
}

// What the copy engine brought, ordinary loads may read.
KERNEL(right_plain_read) {
  SHARED;
  load_once(&args.map, shared);
  wait(shared + FULL, 0);
  args.out[threadIdx.x] = ((uint32_t *)smem)[threadIdx.x];
}

// Rows past the last are zeros, and count.
KERNEL(right_out_of_bounds) {
  SHARED;
  begin(shared);
  if (threadIdx.x == 255) {
    mbarrier_arrive_expect(shared + FULL, TILE_BYTES);
    tma_load_4d(shared, &args.map, shared + FULL, 0, 100, 0, 0);
  }
  wait(shared + FULL, 0);
  args.out[threadIdx.x] = ((uint32_t *)smem)[TILE_BYTES / 4 - 1 - threadIdx.x];
}

// Warpgroup 0 hands words over and gets others back.
KERNEL(right_named_barriers) {
  SHARED;
  uint32_t *words = (uint32_t *)smem;
  if (threadIdx.x < 128) {
    words[threadIdx.x] = threadIdx.x;
    named_barrier_arrive(1, 256);
    named_barrier_sync(2, 256);
    args.out[threadIdx.x] = words[127 - threadIdx.x];
  } else {
    named_barrier_sync(1, 256);
    words[threadIdx.x - 128] += 1;
    named_barrier_arrive(2, 256);
  }
}

// Each warpgroup asks whether a predicate holds in all of its threads, which changes once, in one.
KERNEL(right_barrier_of_all) {
  const int group = threadIdx.x / 128;
  uint32_t answers = 0;
  for (int round = 0; round < 3; ++round)
    answers |= (uint32_t)named_barrier_all(1 + group, 128, threadIdx.x != 77 || round != 1)
               << round;
  args.out[threadIdx.x] = answers;
}

// Several readers have to be known before a word is written again.
KERNEL(right_readers) {
  SHARED;
  uint32_t *words = (uint32_t *)smem;
  for (int round = 0; round < 3; ++round) {
    if (threadIdx.x == 0)
      words[0] = round;
    named_barrier_sync(1, 256);
    args.out[threadIdx.x] = words[0];
    named_barrier_sync(2, 256);
  }
}

KERNEL(right_registers) {
  if (threadIdx.x < 128)
    increase_registers(256);
  else
    decrease_registers(24);
}

// The accumulator of two products, of which one may still run.
KERNEL(right_two_groups) {
  SHARED;
  float first[32], second[32];
  load_once(&args.map, shared);
  if (threadIdx.x < 128) {
    wait(shared + FULL, 0);
    start_product(first, shared);
    start_product(second, shared);
    wgmma_wait(1);
    give(&args, first[0]);
    wgmma_wait(0);
    give(&args, second[0]);
  }
}

// ---- Shared memory of products ----

KERNEL(product_without_wait) {
  SHARED;
  float d[32];
  load_once(&args.map, shared);
  if (threadIdx.x < 128) {
    start_product(d, shared);
    wgmma_wait(0);
    give(&args, d[0]);
  }
}

KERNEL(product_of_three_warps_that_did_not_wait) {
  SHARED;
  float d[32];
  load_once(&args.map, shared);
  if (threadIdx.x < 128) {
    if (threadIdx.x < 32)
      wait(shared + FULL, 0);
    start_product(d, shared);
    wgmma_wait(0);
    give(&args, d[0]);
  }
}

KERNEL(product_of_nothing) {
  SHARED;
  float d[32];
  if (threadIdx.x < 128)
    start_product(d, shared);
}

KERNEL(load_over_operands) {
  SHARED;
  float d[32];
  load_once(&args.map, shared);
  if (threadIdx.x == 255) {
    wait(shared + FULL, 0);
    load(&args.map, shared);
  }
  if (threadIdx.x < 128) {
    wait(shared + FULL, 0);
    start_product(d, shared);
    wgmma_wait(0);
  }
}

// EMPTY counts four arrivals of one warp.
KERNEL(load_after_one_warps_release) {
  SHARED;
  float d[32];
  load_once(&args.map, shared);
  if (threadIdx.x == 255) {
    wait(shared + EMPTY, 0);
    load(&args.map, shared);
  }
  if (threadIdx.x < 128) {
    wait(shared + FULL, 0);
    start_product(d, shared);
    wgmma_wait(0);
    if (threadIdx.x < 4)
      mbarrier_arrive(shared + EMPTY);
  }
}

KERNEL(release_before_the_wait) {
  SHARED;
  float d[32];
  load_once(&args.map, shared);
  if (threadIdx.x == 255) {
    wait(shared + EMPTY, 0);
    load(&args.map, shared);
  }
  if (threadIdx.x < 128) {
    wait(shared + FULL, 0);
    start_product(d, shared);
    if (threadIdx.x % 32 == 0)
      mbarrier_arrive(shared + EMPTY);
    wgmma_wait(0);
  }
}

KERNEL(store_under_product) {
  SHARED;
  float d[32];
  load_once(&args.map, shared);
  if (threadIdx.x < 128) {
    wait(shared + FULL, 0);
    start_product(d, shared);
    ((uint32_t *)smem)[threadIdx.x] = 0;
    wgmma_wait(0);
  }
}

KERNEL(store_without_proxy_fence) {
  SHARED;
  float d[32];
  for (int i = threadIdx.x; i < TILE_BYTES / 2; i += 256)
    ((uint32_t *)smem)[i] = i;
  __syncthreads();
  if (threadIdx.x < 128)
    start_product(d, shared);
}

KERNEL(store_after_proxy_fence) {
  SHARED;
  float d[32];
  for (int i = threadIdx.x; i < TILE_BYTES / 2; i += 256)
    ((uint32_t *)smem)[i] = i;
  fence_proxy_async();
  if (threadIdx.x == 77)
    ((uint32_t *)smem)[77] = 1;
  __syncthreads();
  if (threadIdx.x < 128)
    start_product(d, shared);
}

// ---- Registers of products ----

__device__ __forceinline__ void start_product_of(float d[32], const uint32_t a[4],
                                                 uint32_t shared) {
  wgmma_fence();
  wgmma_m64n64k16_bf16_rs_trans(d, a, tile_at(shared), 1);
  wgmma_commit();
}

#define PRODUCT_KERNEL(name, after_start)                                                          \
  KERNEL(name) {                                                                                   \
    SHARED;                                                                                        \
    float d[32] = {};                                                                              \
    uint32_t a[4] = {threadIdx.x, 0, 0, 0};                                                        \
    load_once(&args.map, shared);                                                                  \
    if (threadIdx.x < 128) {                                                                       \
      wait(shared + FULL, 0);                                                                      \
      start_product_of(d, a, shared);                                                              \
      after_start;                                                                                 \
      wgmma_wait(0);                                                                               \
      give(&args, d[0]);                                                                           \
      args.out[threadIdx.x] += a[0];                                                               \
    }                                                                                              \
  }
PRODUCT_KERNEL(right_product_of_registers, )
PRODUCT_KERNEL(right_products_of_the_same_registers, start_product_of(d, a, shared))
PRODUCT_KERNEL(accumulator_read, args.out[threadIdx.x + 128] = __builtin_bit_cast(uint32_t, d[17]))
PRODUCT_KERNEL(accumulator_written, d[17] = 1.0f)
PRODUCT_KERNEL(factor_written, a[2] = 1)
PRODUCT_KERNEL(factor_written_for_another_product, a[2] = 1; start_product_of(d, a, shared))

KERNEL(product_without_fence) {
  SHARED;
  float d[32];
  load_once(&args.map, shared);
  if (threadIdx.x < 128) {
    wait(shared + FULL, 0);
    wgmma_m64n64k16_bf16_ss(d, tile_at(shared), tile_at(shared + TILE_BYTES), 0);
  }
}

KERNEL(accumulator_written_after_fence) {
  SHARED;
  float d[32];
  load_once(&args.map, shared);
  if (threadIdx.x < 128) {
    wait(shared + FULL, 0);
    for (int round = 0; round < 2; ++round) {
      wgmma_fence();
      for (int i = 0; i < 32; ++i)
        d[i] = (float)round;
      wgmma_m64n64k16_bf16_ss(d, tile_at(shared), tile_at(shared + TILE_BYTES), 1);
      wgmma_commit();
      wgmma_wait(0);
    }
  }
}

KERNEL(product_without_commit) {
  SHARED;
  float d[32];
  load_once(&args.map, shared);
  if (threadIdx.x < 128) {
    wait(shared + FULL, 0);
    wgmma_fence();
    wgmma_m64n64k16_bf16_ss(d, tile_at(shared), tile_at(shared + TILE_BYTES), 0);
    wgmma_wait(0);
    give(&args, d[0]);
  }
}

KERNEL(product_waits_for_too_few) {
  SHARED;
  float d[32];
  load_once(&args.map, shared);
  if (threadIdx.x < 128) {
    wait(shared + FULL, 0);
    start_product(d, shared);
    wgmma_wait(1);
    give(&args, d[0]);
  }
}

KERNEL(product_without_end) {
  SHARED;
  float d[32];
  load_once(&args.map, shared);
  if (threadIdx.x < 128) {
    wait(shared + FULL, 0);
    start_product(d, shared);
  }
}

// ---- Descriptors ----

#define DESCRIPTOR_KERNEL(name, a)                                                                 \
  KERNEL(name) {                                                                                   \
    SHARED;                                                                                        \
    float d[32];                                                                                   \
    load_once(&args.map, shared);                                                                  \
    if (threadIdx.x < 128) {                                                                       \
      wait(shared + FULL, 0);                                                                      \
      wgmma_fence();                                                                               \
      wgmma_m64n64k16_bf16_ss(d, a, tile_at(shared + TILE_BYTES), 0);                              \
      wgmma_commit();                                                                              \
      wgmma_wait(0);                                                                               \
    }                                                                                              \
  }
DESCRIPTOR_KERNEL(right_step, tile_at(shared) + 96 / 16)
DESCRIPTOR_KERNEL(descriptors_differ, tile_at(shared + threadIdx.x / 32 % 2 * 32))
DESCRIPTOR_KERNEL(descriptor_between_atoms, tile_at(shared + 512))
DESCRIPTOR_KERNEL(descriptor_without_swizzle, tile_at(shared) & 0x3fffffffffffffff)
DESCRIPTOR_KERNEL(descriptor_with_a_carry, tile_at(shared) + 0x4000)
DESCRIPTOR_KERNEL(descriptor_of_half_atoms, wgmma_descriptor(shared, 512, 0))
DESCRIPTOR_KERNEL(descriptor_behind_the_memory, tile_at(shared + 31 * 1024))
DESCRIPTOR_KERNEL(descriptor_over_a_barrier, tile_at(shared + 9 * 1024))

KERNEL(product_of_three_warps) {
  SHARED;
  float d[32];
  load_once(&args.map, shared);
  if (threadIdx.x < 96) {
    wait(shared + FULL, 0);
    start_product(d, shared);
    wgmma_wait(0);
  }
}

// ---- Copies ----

#define COPY_KERNEL(name, bytes, map, target, row)                                                 \
  KERNEL(name) {                                                                                   \
    SHARED;                                                                                        \
    begin(shared);                                                                                 \
    if (threadIdx.x == 255) {                                                                      \
      mbarrier_arrive_expect(shared + FULL, bytes);                                                \
      tma_load_4d(shared + (target), &args.map, shared + FULL, 0, row, 0, 0);                      \
    }                                                                                              \
    wait(shared + FULL, 0);                                                                        \
    args.out[threadIdx.x] = ((uint32_t *)smem)[threadIdx.x];                                       \
  }
COPY_KERNEL(right_bulk_copy, TILE_BYTES, map, 0, 0)
COPY_KERNEL(bulk_copy_awaits_too_much, 2 * TILE_BYTES, map, 0, 0)
COPY_KERNEL(bulk_copy_awaits_too_little, TILE_BYTES / 2, map, 0, 0)
COPY_KERNEL(bulk_copy_between_atoms, TILE_BYTES, map, 512, 0)
COPY_KERNEL(bulk_copy_behind_the_memory, TILE_BYTES, map, 25 * 1024, 0)
COPY_KERNEL(bulk_copy_over_barriers, TILE_BYTES, map, 9 * 1024, 0)
COPY_KERNEL(bulk_copy_outside_the_tensor, TILE_BYTES, long_map, 0, 100)
COPY_KERNEL(bulk_copy_without_a_map, TILE_BYTES, no_map, 0, 0)

KERNEL(bulk_copy_in_five_dimensions) {
  SHARED;
  begin(shared);
  if (threadIdx.x == 255)
    tma_load_5d(shared, &args.map, shared + FULL, 0, 0, 0, 0, 0);
}

KERNEL(bulk_copy_read_early) {
  SHARED;
  load_once(&args.map, shared);
  if (threadIdx.x < 128)
    args.out[threadIdx.x] = ((uint32_t *)smem)[threadIdx.x];
  else
    wait(shared + FULL, 0);
}

KERNEL(bulk_copy_written_early) {
  SHARED;
  load_once(&args.map, shared);
  if (threadIdx.x < 128)
    ((uint32_t *)smem)[threadIdx.x] = 1;
  else
    wait(shared + FULL, 0);
}

KERNEL(bulk_copy_twice) {
  SHARED;
  begin(shared);
  if (threadIdx.x == 255) {
    mbarrier_arrive_expect(shared + FULL, 2 * TILE_BYTES);
    tma_load_4d(shared, &args.map, shared + FULL, 0, 0, 0, 0);
    tma_load_4d(shared + 1024, &args.map, shared + FULL, 0, 0, 0, 0);
  }
}

KERNEL(bulk_copy_over_stores) {
  SHARED;
  ((uint32_t *)smem)[threadIdx.x] = 1;
  load_once(&args.map, shared);
  wait(shared + FULL, 0);
}

KERNEL(bulk_copy_over_what_is_read) {
  SHARED;
  ((uint32_t *)smem)[threadIdx.x] = 1;
  fence_proxy_async();
  begin(shared);
  args.out[threadIdx.x] = ((uint32_t *)smem)[255 - threadIdx.x];
  if (threadIdx.x == 254)
    load(&args.map, shared);
  wait(shared + FULL, 0);
}

KERNEL(bulk_copy_without_end) {
  SHARED;
  load_once(&args.map, shared);
}

KERNEL(asks_once) {
  SHARED;
  load_once(&args.map, shared);
  mbarrier_try_wait(shared + FULL, 0);
  args.out[threadIdx.x] = ((uint32_t *)smem)[threadIdx.x];
}

// ---- Barriers ----

KERNEL(barrier_not_initialised) {
  SHARED;
  begin(shared);
  mbarrier_arrive(shared + EMPTY + 8);
}

KERNEL(barrier_initialised_twice) {
  SHARED;
  begin(shared);
  if (threadIdx.x == 3)
    mbarrier_init(shared + FULL, 1);
}

KERNEL(barrier_not_handed_over) {
  SHARED;
  if (threadIdx.x == 0)
    mbarrier_init(shared + FULL, 1);
  if (threadIdx.x == 1)
    mbarrier_arrive(shared + FULL);
}

KERNEL(barrier_without_fence) {
  SHARED;
  if (threadIdx.x == 0)
    mbarrier_init(shared + FULL, 1);
  __syncthreads();
  if (threadIdx.x == 1)
    load(&args.map, shared);
}

KERNEL(barrier_overwritten) {
  SHARED;
  begin(shared);
  if (threadIdx.x == 9)
    *(uint32_t *)(smem + FULL + 4) = 0;
}

KERNEL(barrier_misaligned) {
  SHARED;
  if (threadIdx.x == 0)
    mbarrier_init(shared + FULL + 4, 1);
}

// A phase that cannot complete, as bytes are missing, gets another arrival.
KERNEL(barrier_arrivals_too_many) {
  SHARED;
  begin(shared);
  if (threadIdx.x == 5) {
    mbarrier_arrive_expect(shared + FULL, 16);
    mbarrier_arrive(shared + FULL);
  }
}

KERNEL(barrier_arrivals_too_few) {
  SHARED;
  begin(shared);
  if (threadIdx.x < 3)
    mbarrier_arrive(shared + EMPTY);
  if (threadIdx.x >= 128)
    wait(shared + EMPTY, 0);
}

KERNEL(barrier_of_the_next_phase) {
  SHARED;
  begin(shared);
  if (threadIdx.x < 4)
    mbarrier_arrive(shared + EMPTY);
  if (threadIdx.x >= 128) {
    wait(shared + EMPTY, 0);
    wait(shared + EMPTY, 1);
  }
}

// On a fresh barrier a wait for parity 1 returns, and has learned nothing.
KERNEL(barrier_of_the_phase_before) {
  SHARED;
  begin(shared);
  uint32_t *words = (uint32_t *)(smem + ROOM);
  if (threadIdx.x < 3) {
    words[threadIdx.x] = 1;
    mbarrier_arrive(shared + EMPTY);
  }
  if (threadIdx.x == 128) {
    wait(shared + EMPTY, 1);
    args.out[threadIdx.x] = words[1];
  }
}

// The second phase is waited for by one who knows nothing of the first: before it, too, the barrier
// has parity 0.
KERNEL(barrier_of_one_phase_in_two) {
  SHARED;
  begin(shared);
  if (threadIdx.x < 4) {
    mbarrier_arrive(shared + EMPTY);
    wait(shared + EMPTY, 0);
    mbarrier_arrive(shared + EMPTY);
    wait(shared + EMPTY, 1);
    if (threadIdx.x == 0)
      mbarrier_arrive(shared + FULL);
  }
  if (threadIdx.x == 128)
    wait(shared + EMPTY, 1);
}

KERNEL(right_handover) {
  SHARED;
  begin(shared);
  uint32_t *words = (uint32_t *)(smem + ROOM);
  if (threadIdx.x < 4) {
    words[threadIdx.x] = 1;
    mbarrier_arrive(shared + EMPTY);
  }
  if (threadIdx.x >= 128) {
    wait(shared + EMPTY, 0);
    args.out[threadIdx.x] = words[threadIdx.x % 4];
  }
}

KERNEL(arrival_before_the_store) {
  SHARED;
  begin(shared);
  uint32_t *words = (uint32_t *)(smem + ROOM);
  if (threadIdx.x < 4) {
    mbarrier_arrive(shared + EMPTY);
    words[threadIdx.x] = 1;
  }
  if (threadIdx.x >= 128) {
    wait(shared + EMPTY, 0);
    args.out[threadIdx.x] = words[threadIdx.x % 4];
  }
}

// Each warp's fragment of the first tile, whose place is handed back.
#define FRAGMENT_KERNEL(name, behind_the_load, behind_the_product)                                 \
  KERNEL(name) {                                                                                   \
    SHARED;                                                                                        \
    float d[32] = {};                                                                              \
    uint32_t a[4];                                                                                 \
    load_once(&args.map, shared);                                                                  \
    if (threadIdx.x < 128) {                                                                       \
      wait(shared + FULL, 0);                                                                      \
      ldmatrix_x4(a, shared + threadIdx.x / 32 * 16 * 128 + threadIdx.x % 16 * 128 +               \
                         (threadIdx.x % 32 / 16 ^ threadIdx.x % 8) * 16);                          \
      behind_the_load;                                                                             \
      wgmma_fence();                                                                               \
      wgmma_m64n64k16_bf16_rs_trans(d, a, tile_at(shared + TILE_BYTES), 1);                        \
      wgmma_commit();                                                                              \
      behind_the_product;                                                                          \
      wgmma_wait(0);                                                                               \
      give(&args, d[0]);                                                                           \
    }                                                                                              \
  }
#define ARRIVE_OF_WARP                                                                             \
  __syncwarp();                                                                                    \
  if (threadIdx.x % 32 == 0)                                                                       \
  mbarrier_arrive(shared + EMPTY)
FRAGMENT_KERNEL(right_arrival_behind_the_product, , ARRIVE_OF_WARP)
FRAGMENT_KERNEL(arrival_before_the_fragments, ARRIVE_OF_WARP, )

KERNEL(named_barrier_counts_differ) {
  named_barrier_arrive(1, threadIdx.x < 128 ? 256 : 128);
}

KERNEL(named_barrier_too_few) {
  if (threadIdx.x < 96)
    named_barrier_sync(1, 128);
}

KERNEL(named_barrier_in_half_a_warp) {
  if (threadIdx.x % 32 < 16)
    named_barrier_sync(1, 128);
}

KERNEL(barrier_of_all_too_few) {
  if (threadIdx.x < 96)
    args.out[threadIdx.x] = named_barrier_all(1, 128, true);
}

KERNEL(barrier_of_all_and_another) {
  if (threadIdx.x < 128)
    args.out[threadIdx.x] = named_barrier_all(1, 256, true);
  else
    named_barrier_sync(1, 256);
}

KERNEL(named_barrier_before_the_store) {
  SHARED;
  uint32_t *words = (uint32_t *)(smem + ROOM);
  if (threadIdx.x < 128) {
    named_barrier_arrive(1, 256);
    words[threadIdx.x] = 1;
  } else {
    named_barrier_sync(1, 256);
    args.out[threadIdx.x] = words[threadIdx.x - 128];
  }
}

KERNEL(written_before_a_reader_is_done) {
  SHARED;
  uint32_t *words = (uint32_t *)(smem + ROOM);
  for (int round = 0; round < 2; ++round) {
    if (threadIdx.x == 0)
      words[0] = round;
    named_barrier_sync(1, 256);
    args.out[threadIdx.x] = words[0];
    if (threadIdx.x < 128)
      named_barrier_sync(2, 128);
  }
}

KERNEL(more_registers_than_there_are) { // three warpgroups
  if (threadIdx.x >= 128)
    increase_registers(240);
}

KERNEL(fewer_registers_than_that) {
  decrease_registers(24);
  decrease_registers(32);
}

KERNEL(registers_of_one_warp) {
  if (threadIdx.x < 32)
    decrease_registers(24);
}

KERNEL(registers_no_multiple_of_8) {
  decrease_registers(100);
}

// ---- Clusters of two thread blocks --------------------------------------------------------------

KERNEL(cluster_right) { // the second block writes what the first has read
  uint32_t value = 0;
  if (blockIdx.x == 0)
    value = args.out[threadIdx.x];
  cluster_arrive();
  cluster_wait();
  if (blockIdx.x == 1)
    args.out[threadIdx.x] = value;
}

KERNEL(cluster_written_too_early) { // what the second one reads
  uint32_t value = 0;
  if (blockIdx.x == 1)
    value = args.out[threadIdx.x];
  cluster_arrive();
  if (blockIdx.x == 0)
    args.out[threadIdx.x] = value;
  cluster_wait();
}

KERNEL(cluster_arrives_twice) {
  cluster_arrive();
  cluster_arrive();
}

KERNEL(cluster_waits_only) {
  cluster_wait();
}

KERNEL(cluster_does_not_wait) {
  cluster_arrive();
}

KERNEL(cluster_without_a_thread) {
  if (blockIdx.x == 0 || threadIdx.x > 0) {
    cluster_arrive();
    cluster_wait();
  } else {
    named_barrier_sync(1, 256);
  }
}

// Eight bytes for a thread of the other block, from the same thread of this one.
__device__ void store_to_other(float2 *pairs, int block) {
  const float2 pair = {(float)blockIdx.x, 1.0f};
  store_8_cluster(cluster_address(shared_address(pairs + threadIdx.x), block), pair);
}

KERNEL(cluster_store_right) {
  __shared__ float2 pairs[256];
  cluster_arrive();
  cluster_wait();
  store_to_other(pairs, 1 - blockIdx.x);
  cluster_arrive();
  cluster_wait();
  if (blockIdx.x == 0)
    args.out[threadIdx.x] = (uint32_t)pairs[threadIdx.x ^ 1].y;
}

KERNEL(cluster_store_before_it_begins) {
  __shared__ float2 pairs[256];
  store_to_other(pairs, 1 - blockIdx.x);
  cluster_arrive();
  cluster_wait();
}

KERNEL(cluster_store_read_too_early) {
  __shared__ float2 pairs[256];
  cluster_arrive();
  cluster_wait();
  store_to_other(pairs, 1 - blockIdx.x);
  if (blockIdx.x == 0)
    args.out[threadIdx.x] = (uint32_t)pairs[threadIdx.x].y;
  cluster_arrive();
  cluster_wait();
}

KERNEL(cluster_store_to_one_that_ended) {
  __shared__ float2 pairs[256];
  cluster_arrive();
  cluster_wait();
  if (blockIdx.x == 0)
    store_to_other(pairs, 1);
}

KERNEL(cluster_store_that_is_not_awaited) {
  __shared__ float2 pairs[256];
  cluster_arrive();
  cluster_wait();
  if (blockIdx.x == 1)
    store_to_other(pairs, 0);
}

KERNEL(cluster_store_outside) {
  __shared__ float2 pairs[256];
  cluster_arrive();
  cluster_wait();
  store_to_other(pairs, 2);
}

KERNEL(cluster_store_plain_address) {
  __shared__ float2 pairs[256];
  cluster_arrive();
  cluster_wait();
  const float2 pair = {1.0f, 1.0f};
  store_8_cluster(shared_address(pairs + threadIdx.x), pair);
}

KERNEL(cluster_store_over_a_read) { // of the one before, which nobody has waited for
  __shared__ float2 pairs[256];
  cluster_arrive();
  cluster_wait();
  store_to_other(pairs, 1 - blockIdx.x);
  cluster_arrive();
  cluster_wait();
  store_to_other(pairs, 1 - blockIdx.x);
  cluster_arrive();
  if (blockIdx.x == 0)
    args.out[threadIdx.x] = (uint32_t)pairs[threadIdx.x ^ 1].y;
  cluster_wait();
}

// Eight bytes for each thread of both blocks, from the same thread of each, for one of two barriers
// that await them in turn.
struct sent_pairs {
  float2 pair[2][256];
  uint64_t barrier;
};

__device__ void expect_sent(sent_pairs *sent) {
  mbarrier_arrive_expect(shared_address(&sent->barrier), (int)sizeof sent->pair);
}

// fenced: the barriers are shown to the other block.
__device__ void begin_sent(sent_pairs *sent, int fenced) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i)
      mbarrier_init(shared_address(&sent[i].barrier), 1);
    if (fenced)
      fence_mbarrier_init();
    for (int i = 0; i < 2; ++i)
      expect_sent(&sent[i]);
  }
  cluster_arrive();
  cluster_wait();
}

__device__ void send(sent_pairs *sent) {
  const float2 pair = {(float)blockIdx.x, 1.0f};
  for (int to = 0; to < 2; ++to)
    send_8_cluster(cluster_address(shared_address(&sent->pair[blockIdx.x][threadIdx.x]), to), pair,
                   cluster_address(shared_address(&sent->barrier), to));
}

// What another thread of the other block has sent.
__device__ float take_sent(const sent_pairs *sent) {
  return sent->pair[1 - blockIdx.x][threadIdx.x ^ 37].y;
}

KERNEL(cluster_send_right) {
  __shared__ sent_pairs sent[2];
  begin_sent(sent, 1);
  float sum = 0.0f;
  send(&sent[0]);
  for (int i = 0; i < 6; ++i) {
    wait(shared_address(&sent[i % 2].barrier), i / 2 % 2);
    if (threadIdx.x == 0)
      expect_sent(&sent[i % 2]);
    sum += take_sent(&sent[i % 2]);
    send(&sent[(i + 1) % 2]);
  }
  wait(shared_address(&sent[0].barrier), 1);
  if (blockIdx.x == 0)
    args.out[threadIdx.x] = (uint32_t)sum;
}

KERNEL(cluster_send_before_it_is_read) { // what was sent before the present one
  __shared__ sent_pairs sent[2];
  begin_sent(sent, 1);
  float sum = 0.0f;
  send(&sent[0]);
  for (int i = 0; i < 6; ++i) {
    wait(shared_address(&sent[i % 2].barrier), i / 2 % 2);
    if (threadIdx.x == 0)
      expect_sent(&sent[i % 2]);
    send(&sent[(i + 1) % 2]);
    sum += take_sent(&sent[i % 2]);
  }
  wait(shared_address(&sent[0].barrier), 1);
  if (blockIdx.x == 0)
    args.out[threadIdx.x] = (uint32_t)sum;
}

KERNEL(cluster_send_is_not_waited_for) {
  __shared__ sent_pairs sent[2];
  begin_sent(sent, 1);
  send(&sent[0]);
  const float sum = take_sent(&sent[0]);
  wait(shared_address(&sent[0].barrier), 0);
  if (blockIdx.x == 0)
    args.out[threadIdx.x] = (uint32_t)sum;
}

KERNEL(cluster_send_to_one_that_ends) {
  __shared__ sent_pairs sent[2];
  begin_sent(sent, 1);
  send(&sent[0]);
}

KERNEL(cluster_send_of_more_than_expected) {
  __shared__ sent_pairs sent[1];
  if (threadIdx.x == 0) {
    mbarrier_init(shared_address(&sent->barrier), 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(shared_address(&sent->barrier), (int)sizeof sent->pair - 4);
  }
  cluster_arrive();
  cluster_wait();
  send(sent);
  wait(shared_address(&sent->barrier), 0);
}

KERNEL(cluster_send_without_a_fence) {
  __shared__ sent_pairs sent[2];
  begin_sent(sent, 0);
  send(&sent[0]);
  wait(shared_address(&sent[0].barrier), 0);
}

KERNEL(cluster_send_that_counts_elsewhere) {
  __shared__ sent_pairs sent[2];
  begin_sent(sent, 1);
  const float2 pair = {1.0f, 1.0f};
  send_8_cluster(cluster_address(shared_address(&sent->pair[0][threadIdx.x]), 1), pair,
                 cluster_address(shared_address(&sent->barrier), 0));
}

KERNEL(cluster_with_exited_threads) { // they need not arrive
  if (blockIdx.x == 0 || threadIdx.x >= 32) {
    cluster_arrive();
    cluster_wait();
  }
}

// ---- Launches that overlap ----

// A thread waits, and hands that on.
KERNEL(overlap_right_hand_over) {
  SHARED;
  begin(shared);
  if (threadIdx.x == 255) {
    griddepcontrol_wait();
    mbarrier_arrive(shared + FULL);
  }
  wait(shared + FULL, 0);
  give(&args, 1.0f);
}

KERNEL(overlap_hands_over_early) {
  SHARED;
  begin(shared);
  if (threadIdx.x == 255) {
    mbarrier_arrive(shared + FULL);
    griddepcontrol_wait();
  }
  wait(shared + FULL, 0);
  give(&args, 1.0f);
}

// The copies are carried out behind the wait.
KERNEL(overlap_loads_early) {
  SHARED;
  load_once(&args.map, shared);
  griddepcontrol_wait();
  wait(shared + FULL, 0);
}
