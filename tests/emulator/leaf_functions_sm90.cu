// The leaf functions of sm90 in kernels of their own, as those of leaf_functions.cu are: lane l of
// block b takes LANE_WORDS words of `in` and gives LANE_WORDS words of `out`, both at (threads b +
// l)
// * LANE_WORDS. Blocks have a warp, where the copy engine is tried, or a warpgroup.

#include "attnpress/args/common.h"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_bulk.cuh"
#include "attnpress/device/ptx_bulk_copy.cuh"
#include "attnpress/device/ptx_halfwords.cuh"
#include "attnpress/device/ptx_mbarrier.cuh"
#include "attnpress/device/ptx_tma.cuh"
#include "attnpress/device/ptx_wgmma.cuh"
#include "attnpress/device/wgmma/ptx_wgmma_n128.cuh"
#include "attnpress/device/wgmma/ptx_wgmma_n24.cuh"
#include "attnpress/device/wgmma/ptx_wgmma_n256.cuh"
#include "attnpress/device/wgmma/ptx_wgmma_n64.cuh"
#include "attnpress/device/wgmma/ptx_wgmma_n8.cuh"
#include "attnpress/device/wgmma/ptx_wgmma_n96.cuh"

constexpr int LANE_WORDS = 16;
constexpr int GROUP_WORDS = 128 * LANE_WORDS;

struct leaf_args {
  attnpress_tensor_map map_4d, map_5d, map_im2col; // of `in`; leaf_functions.c encodes them
  const uint32_t *in;
  uint32_t *out;
};

#define KERNEL(name, threads)                                                                      \
  extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ leaf_args args)
#define SHARED                                                                                     \
  extern __shared__ __align__(1024) unsigned char smem[];                                          \
  const uint32_t shared = shared_address(smem)

// ---- The copy engine: a box of 2,048 bytes, as it lies in shared memory ----

constexpr int BOX_BYTES = 2048;

__device__ __forceinline__ void begin_copy(uint32_t barrier) {
  if (threadIdx.x == 0) {
    mbarrier_init(barrier, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(barrier, BOX_BYTES);
  }
  __syncthreads();
}

__device__ __forceinline__ void finish_copy(const leaf_args *args, const unsigned char *smem,
                                            uint32_t barrier) {
  while (!mbarrier_try_wait(barrier, 0)) {
  }
  const uint4 *from = (const uint4 *)(smem + threadIdx.x * LANE_WORDS * 4);
  uint4 *to = (uint4 *)(args->out + (blockIdx.x * 32 + threadIdx.x) * LANE_WORDS);
  for (int i = 0; i < LANE_WORDS / 4; ++i)
    to[i] = from[i];
}

KERNEL(leaf_tma_load_4d, 32) {
  SHARED;
  const int b = blockIdx.x;
  begin_copy(shared + BOX_BYTES);
  if (threadIdx.x == 0)
    tma_load_4d(shared, &args.map_4d, shared + BOX_BYTES, b % 5 * 16 - 16, b / 5 % 14 - 3,
                b / 70 % 6 - 1, b / 420 % 4 - 1);
  finish_copy(&args, smem, shared + BOX_BYTES);
}

KERNEL(leaf_tma_load_5d, 32) {
  SHARED;
  const int b = blockIdx.x;
  begin_copy(shared + BOX_BYTES);
  if (threadIdx.x == 0)
    tma_load_5d(shared, &args.map_5d, shared + BOX_BYTES, b % 5 * 16 - 16, b / 5 % 4 - 1,
                b / 20 % 13 - 3, b / 260 % 6 - 1, b / 1560 % 4 - 1);
  finish_copy(&args, smem, shared + BOX_BYTES);
}

KERNEL(leaf_tma_load_im2col_4d, 32) {
  SHARED;
  const int b = blockIdx.x;
  begin_copy(shared + BOX_BYTES);
  if (threadIdx.x == 0)
    tma_load_im2col_4d(shared, &args.map_im2col, shared + BOX_BYTES, b / 120 % 3 * 16,
                       b % 5 * 2 - 3, b / 5 % 8 - 2, b / 40 % 3, b * 7 % 4, b * 5 % 3);
  finish_copy(&args, smem, shared + BOX_BYTES);
}

// As bytes one after the other, there and back.
KERNEL(leaf_bulk_copies, 32) {
  SHARED;
  const int first = blockIdx.x * 32 * LANE_WORDS;
  begin_copy(shared + BOX_BYTES);
  if (threadIdx.x == 0) {
    bulk_load(shared, args.in + first, BOX_BYTES, shared + BOX_BYTES);
    while (!mbarrier_try_wait(shared + BOX_BYTES, 0)) {
    }
    bulk_store(args.out + first, shared, BOX_BYTES);
    bulk_commit();
    bulk_wait_read(0);
  }
}

// ---- Halves of words ----

#define PAIRS(name)                                                                                \
  KERNEL(leaf_##name, 32) {                                                                        \
    const int first = (blockIdx.x * 32 + threadIdx.x) * LANE_WORDS;                                \
    for (int i = 0; i < 8; ++i)                                                                    \
      args.out[first + i] = name(args.in[first + 2 * i], args.in[first + 2 * i + 1]);              \
  }
PAIRS(add_u16x2)
PAIRS(min_u16x2)
PAIRS(max_u16x2)
PAIRS(less_f16x2)

// ---- Products over 64 of k: A (64 x 64), the group's words in their order, B the same words in
// another order, both with the 128-byte swizzle in shared memory ----

constexpr int TILE_BYTES = 64 * 128;

// `rows` rows of 32 words from words[first] on, round and round.
__device__ __forceinline__ void store_rows(unsigned char *tile, const uint32_t *words, int rows,
                                           int first) {
  for (int i = threadIdx.x; i < rows * 32; i += 128) {
    const int row = i / 32, chunk = i % 32 / 4;
    *(uint32_t *)(tile + row * 128 + (chunk ^ row % 8) * 16 + i % 4 * 4) =
        words[(i + first * (1 + row / 64)) % GROUP_WORDS];
  }
}

// A of leaf_wgmma_*_ss, and B's rows, of k or of columns.
__device__ __forceinline__ void store_operands(unsigned char *smem, const leaf_args *args,
                                               int b_rows) {
  const uint32_t *words = args->in + blockIdx.x * GROUP_WORDS;
  store_rows(smem, words, 64, 0);
  store_rows(smem + TILE_BYTES, words, b_rows, 1031);
  fence_proxy_async();
  __syncthreads();
}

// Of an accumulator of more registers than a lane has words, some of each part.
__device__ __forceinline__ constexpr int register_of(int word, int n) {
  return n <= 32 ? word : word * (n / 32) + word % (n / 32);
}

#define BEFORE_PRODUCT(n)                                                                          \
  float d[n / 2];                                                                                  \
  for (int i = 0; i < n / 2; ++i)                                                                  \
    d[i] = (threadIdx.x * 7 + i * 3) % 31 * 0.25f;                                                 \
  wgmma_order_n##n(d);                                                                             \
  wgmma_fence()
#define AFTER_PRODUCT(n)                                                                           \
  wgmma_commit();                                                                                  \
  wgmma_wait(0);                                                                                   \
  wgmma_order_n##n(d);                                                                             \
  float *out = (float *)args.out + (blockIdx.x * 128 + threadIdx.x) * LANE_WORDS;                  \
  _Pragma("unroll") for (int i = 0; i < LANE_WORDS; ++i) if (i < n / 2) out[i] =                   \
      d[register_of(i, n)]

#define WGMMA_SS(n, type)                                                                          \
  KERNEL(leaf_wgmma_n##n##_##type##_ss, 128) {                                                     \
    SHARED;                                                                                        \
    store_operands(smem, &args, n);                                                                \
    const uint64_t a = wgmma_descriptor(shared, 1024, 0);                                          \
    const uint64_t b = wgmma_descriptor(shared + TILE_BYTES, 1024, 0);                             \
    BEFORE_PRODUCT(n);                                                                             \
    for (int step = 0; step < 4; ++step)                                                           \
      wgmma_m64n##n##k16_##type##_ss(d, a + step * 32 / 16, b + step * 32 / 16, 1);                \
    AFTER_PRODUCT(n);                                                                              \
  }

// A's registers are the lane's words, B as in WGMMA_SS.
#define WGMMA_RS_PLAIN(n, type)                                                                    \
  KERNEL(leaf_wgmma_n##n##_##type##_rs, 128) {                                                     \
    SHARED;                                                                                        \
    uint32_t a[4][4];                                                                              \
    store_operands(smem, &args, n);                                                                \
    for (int i = 0; i < 16; ++i)                                                                   \
      a[i / 4][i % 4] = args.in[(blockIdx.x * 128 + threadIdx.x) * LANE_WORDS + i];                \
    const uint64_t b = wgmma_descriptor(shared + TILE_BYTES, 1024, 0);                             \
    BEFORE_PRODUCT(n);                                                                             \
    _Pragma("unroll") for (int step = 0; step < 4; ++step)                                         \
        wgmma_m64n##n##k16_##type##_rs(d, a[step], b + step * 32 / 16, 1);                         \
    AFTER_PRODUCT(n);                                                                              \
  }

// The same with B in slabs of 64 columns, in each a row for each k.
#define WGMMA_RS(n, type)                                                                          \
  KERNEL(leaf_wgmma_n##n##_##type##_rs_trans, 128) {                                               \
    SHARED;                                                                                        \
    uint32_t a[4][4];                                                                              \
    store_operands(smem, &args, (n + 63) / 64 * 64);                                               \
    for (int i = 0; i < 16; ++i)                                                                   \
      a[i / 4][i % 4] = args.in[(blockIdx.x * 128 + threadIdx.x) * LANE_WORDS + i];                \
    const uint64_t b = wgmma_descriptor(shared + TILE_BYTES, 1024, TILE_BYTES);                    \
    BEFORE_PRODUCT(n);                                                                             \
    _Pragma("unroll") for (int step = 0; step < 4; ++step)                                         \
        wgmma_m64n##n##k16_##type##_rs_trans(d, a[step], b + step * 16 * 128 / 16, 1);             \
    AFTER_PRODUCT(n);                                                                              \
  }

// A as in WGMMA_SS, B as in WGMMA_RS.
#define WGMMA_SS_TRANS(n, type)                                                                    \
  KERNEL(leaf_wgmma_n##n##_##type##_ss_trans, 128) {                                               \
    SHARED;                                                                                        \
    store_operands(smem, &args, (n + 63) / 64 * 64);                                               \
    const uint64_t a = wgmma_descriptor(shared, 1024, 0);                                          \
    const uint64_t b = wgmma_descriptor(shared + TILE_BYTES, 1024, TILE_BYTES);                    \
    BEFORE_PRODUCT(n);                                                                             \
    for (int step = 0; step < 4; ++step)                                                           \
      wgmma_m64n##n##k16_##type##_ss_trans(d, a + step * 32 / 16, b + step * 16 * 128 / 16, 1);    \
    AFTER_PRODUCT(n);                                                                              \
  }

// A with its rows contiguous, a row of the tile for each k.
#define WGMMA_SS_TRANS_BOTH(n, type)                                                               \
  KERNEL(leaf_wgmma_n##n##_##type##_ss_trans_both, 128) {                                          \
    SHARED;                                                                                        \
    store_operands(smem, &args, (n + 63) / 64 * 64);                                               \
    const uint64_t a = wgmma_descriptor(shared, 1024, TILE_BYTES);                                 \
    const uint64_t b = wgmma_descriptor(shared + TILE_BYTES, 1024, TILE_BYTES);                    \
    BEFORE_PRODUCT(n);                                                                             \
    for (int step = 0; step < 4; ++step)                                                           \
      wgmma_m64n##n##k16_##type##_ss_trans_both(d, a + step * 16 * 128 / 16,                       \
                                                b + step * 16 * 128 / 16, 1);                      \
    AFTER_PRODUCT(n);                                                                              \
  }

#define WGMMA_TRANS(n)                                                                             \
  WGMMA_SS_TRANS(n, fp16)                                                                          \
  WGMMA_SS_TRANS(n, bf16)                                                                          \
  WGMMA_SS_TRANS_BOTH(n, fp16)                                                                     \
  WGMMA_SS_TRANS_BOTH(n, bf16)

#define WGMMA(n)                                                                                   \
  WGMMA_SS(n, fp16)                                                                                \
  WGMMA_SS(n, bf16)                                                                                \
  WGMMA_RS(n, fp16)                                                                                \
  WGMMA_RS(n, bf16)
WGMMA(8)
WGMMA(24)
WGMMA(64)
WGMMA(96)
WGMMA(256)
WGMMA_RS_PLAIN(64, fp16)
WGMMA_RS_PLAIN(64, bf16)
WGMMA_TRANS(64)
WGMMA_TRANS(96)
WGMMA_TRANS(128)
WGMMA_TRANS(256)
