// Each leaf function in a kernel of its own, for one warp: lane l of block b takes LANE_WORDS words
// of `in` and gives LANE_WORDS words of `out`, both at (32 b + l) * LANE_WORDS. Compiled for the
// GPU and for the emulator alike.

#include "attnpress/args/common.h"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/device/ptx_cp_async_4.cuh"
#include "attnpress/device/ptx_cp_async_arrive.cuh"
#include "attnpress/device/ptx_cvt.cuh"
#include "attnpress/device/ptx_global.cuh"
#include "attnpress/device/ptx_ldmatrix.cuh"
#include "attnpress/device/ptx_math.cuh"
#include "attnpress/device/ptx_mbarrier.cuh"
#include "attnpress/device/ptx_min_max.cuh"
#include "attnpress/device/ptx_mma.cuh"
#include "attnpress/device/ptx_pairs.cuh"
#include "attnpress/device/ptx_shared.cuh"
#include "attnpress/device/ptx_sreg.cuh"
#include "attnpress/device/ptx_widen.cuh"

constexpr int LANE_WORDS = 16;

struct leaf_args {
  const uint32_t *in;
  uint32_t *out;
};

#define KERNEL(name)                                                                               \
  extern "C" __global__ void __launch_bounds__(32) name(const __grid_constant__ leaf_args args)
#define LANE_OFFSET ((blockIdx.x * 32 + threadIdx.x) * LANE_WORDS)

// ---- Addresses and copies ----

KERNEL(leaf_shared_address) {
  __shared__ __align__(16) unsigned char memory[512];
  args.out[LANE_OFFSET] = shared_address(memory + threadIdx.x * 16) - shared_address(memory);
}

// Word 4 of the input says whether the lane's 16 bytes are copied, or become zeros.
KERNEL(leaf_cp_async_16) {
  __shared__ uint4 memory[32];
  const uint32_t *in = args.in + LANE_OFFSET;
  cp_async_16(shared_address(memory + threadIdx.x), in, in[4] % 2 != 0 ? 16 : 0);
  cp_async_commit();
  cp_async_wait(0);
  *(uint4 *)(args.out + LANE_OFFSET) = memory[threadIdx.x];
}

// The lane's words one by one, each as its own last bit says.
KERNEL(leaf_cp_async_4) {
  __shared__ uint32_t memory[4][32];
  const uint32_t *in = args.in + LANE_OFFSET;
  for (int i = 0; i < 4; ++i)
    cp_async_4(shared_address(&memory[i][threadIdx.x]), in + i, in[i] % 2 != 0 ? 4 : 0);
  cp_async_commit();
  cp_async_wait(0);
  for (int i = 0; i < 4; ++i)
    args.out[LANE_OFFSET + i] = memory[i][threadIdx.x];
}

// Words by a copy each, which arrive at a barrier that another lane waits at; some of the lane's, too.
KERNEL(leaf_cp_async_arrive) {
  __shared__ uint32_t memory[32];
  __shared__ uint64_t barrier;
  const uint32_t *in = args.in + LANE_OFFSET;
  if (threadIdx.x == 0) {
    mbarrier_init(shared_address(&barrier), 32);
    fence_mbarrier_init();
  }
  __syncthreads();
  for (int phase = 0; phase < 3; ++phase) {
    cp_async_4(shared_address(&memory[threadIdx.x]), in + phase, 4);
    cp_async_arrive(shared_address(&barrier));
    while (!mbarrier_try_wait(shared_address(&barrier), phase % 2)) {
    }
    args.out[LANE_OFFSET + phase] = memory[threadIdx.x ^ 1];
    __syncthreads();
  }
}

// Three groups of a copy, an empty group among them; each is read once its wait allows it.
KERNEL(leaf_cp_async_groups) {
  __shared__ uint4 memory[3][32];
  const uint32_t *in = args.in + LANE_OFFSET;
  uint4 *out = (uint4 *)(args.out + LANE_OFFSET);
  cp_async_16(shared_address(memory[0] + threadIdx.x), in, 16);
  cp_async_commit();
  cp_async_16(shared_address(memory[1] + threadIdx.x), in + 4, 16);
  cp_async_commit();
  cp_async_commit();
  cp_async_16(shared_address(memory[2] + threadIdx.x), in + 8, 16);
  cp_async_commit();
  cp_async_wait(3);
  out[0] = memory[0][threadIdx.x];
  cp_async_wait(2);
  out[1] = memory[1][threadIdx.x];
  cp_async_wait(0);
  __syncthreads();
  out[2] = memory[2][threadIdx.x ^ 1];
}

// Bits of word 4 of the input say which accesses happen.
KERNEL(leaf_global_if) {
  const uint32_t *in = args.in + LANE_OFFSET;
  uint32_t *out = args.out + LANE_OFFSET;
  *(uint4 *)out = load_16_if(in[4] % 2 != 0, in, in[5]);
  out[4] = load_4_if(in[4] / 2 % 2 != 0, in + 6, in[5]);
  out[5] = load_2_if(in[4] / 4 % 2 != 0, in + 7, in[5]);
  for (int i = 6; i < 14; ++i)
    out[i] = 0;
  store_16_if(in[4] / 8 % 2 != 0, out + 8, *(const uint4 *)(in + 8));
  store_4_if(in[4] / 16 % 2 != 0, out + 12, in[12]);
  store_2_if(in[4] / 32 % 2 != 0, out + 13, in[13]);
}

// Bit 0 of word 4 of the input says whether there is a store.
KERNEL(leaf_stream_if) {
  const uint32_t *in = args.in + LANE_OFFSET;
  uint32_t *out = args.out + LANE_OFFSET;
  for (int i = 0; i < 4; ++i)
    out[i] = 0;
  stream_16_if(in[4] % 2 != 0, out, *(const uint4 *)(in + 8));
}

// Bit 0 of word 4 of the input says whether there is a load.
KERNEL(leaf_shared_if) {
  __shared__ uint4 memory[32];
  const uint32_t *in = args.in + LANE_OFFSET;
  memory[threadIdx.x] = *(const uint4 *)(in + 8);
  *(uint4 *)(args.out + LANE_OFFSET) =
      load_shared_16_if(in[4] % 2 != 0, shared_address(memory + threadIdx.x));
}

// ---- Matrices ----

// Row r of the matrices is words 0 to 3 of lane r; lane l gives the address of row (l + 5 b) % 32.
#define LDMATRIX(name, registers)                                                                  \
  KERNEL(leaf_##name) {                                                                            \
    __shared__ uint4 memory[32];                                                                   \
    uint32_t fragment[registers];                                                                  \
    memory[threadIdx.x] = *(const uint4 *)(args.in + LANE_OFFSET);                                 \
    __syncthreads();                                                                               \
    name(fragment, shared_address(memory + (threadIdx.x + 5 * blockIdx.x) % 32));                  \
    for (int i = 0; i < registers; ++i)                                                            \
      args.out[LANE_OFFSET + i] = fragment[i];                                                     \
  }
LDMATRIX(ldmatrix_x1, 1)
LDMATRIX(ldmatrix_x1_trans, 1)
LDMATRIX(ldmatrix_x2, 2)
LDMATRIX(ldmatrix_x2_trans, 2)
LDMATRIX(ldmatrix_x4, 4)
LDMATRIX(ldmatrix_x4_trans, 4)

// Words 0 to 3: A, 4 and 5: B, 8 to 11: C.
#define MMA(name)                                                                                  \
  KERNEL(leaf_##name) {                                                                            \
    float d[4];                                                                                    \
    for (int i = 0; i < 4; ++i)                                                                    \
      d[i] = ((const float *)args.in)[LANE_OFFSET + 8 + i];                                        \
    name(d, args.in + LANE_OFFSET, args.in + LANE_OFFSET + 4);                                     \
    for (int i = 0; i < 4; ++i)                                                                    \
      ((float *)args.out)[LANE_OFFSET + i] = d[i];                                                 \
  }
MMA(mma_m16n8k16_fp16)
MMA(mma_m16n8k16_bf16)
MMA(mma_m16n8k8_fp16)
MMA(mma_m16n8k8_bf16)

// ---- Numbers ----

#define PACK(name)                                                                                 \
  KERNEL(leaf_##name) {                                                                            \
    const float *in = (const float *)args.in + LANE_OFFSET;                                        \
    for (int i = 0; i < 8; ++i)                                                                    \
      args.out[LANE_OFFSET + i] = name(in[2 * i], in[2 * i + 1]);                                  \
  }
PACK(pack_fp16)
PACK(pack_bf16)

// To 16 bits and back; NaN, whose bits are not promised, is 0.
KERNEL(leaf_widen_fp16) {
  for (int i = 0; i < LANE_WORDS; ++i) {
    const float x = ((const float *)args.in)[LANE_OFFSET + i];
    const float widened = widen_fp16((uint16_t)pack_fp16(x, 0.0f));
    ((float *)args.out)[LANE_OFFSET + i] = widened == widened ? widened : 0.0f;
  }
}

#define PAIRS(name)                                                                                \
  KERNEL(leaf_##name) {                                                                            \
    for (int i = 0; i < 8; ++i)                                                                    \
      args.out[LANE_OFFSET + i] =                                                                  \
          name(args.in[LANE_OFFSET + 2 * i], args.in[LANE_OFFSET + 2 * i + 1]);                    \
  }
PAIRS(max_fp16x2)
PAIRS(min_fp16x2)
PAIRS(max_bf16x2)
PAIRS(min_bf16x2)
PAIRS(multiply_fp16x2)
PAIRS(multiply_bf16x2)

KERNEL(leaf_low_bits) {
  for (int i = 0; i < 8; ++i)
    args.out[LANE_OFFSET + i] = low_bits((int)(args.in[LANE_OFFSET + i] % 40));
}

#define FUNCTION(name)                                                                             \
  KERNEL(leaf_##name) {                                                                            \
    for (int i = 0; i < LANE_WORDS; ++i)                                                           \
      ((float *)args.out)[LANE_OFFSET + i] = name(((const float *)args.in)[LANE_OFFSET + i]);      \
  }
FUNCTION(exp2_approx)
FUNCTION(log2_approx)
FUNCTION(reciprocal_approx)
FUNCTION(reciprocal_sqrt_approx)
FUNCTION(tanh_approx)

// ---- What is not in a leaf header, and emulated all the same ----

KERNEL(leaf_special_registers) {
  args.out[LANE_OFFSET] = read_block_index();
  args.out[LANE_OFFSET + 1] = read_thread_index();
  args.out[LANE_OFFSET + 2] = blockIdx.x;
  args.out[LANE_OFFSET + 3] = threadIdx.x;
}

KERNEL(leaf_shuffle_xor) {
  const float value = ((const float *)args.in)[LANE_OFFSET];
  for (int i = 0; i < 5; ++i)
    ((float *)args.out)[LANE_OFFSET + i] = __shfl_xor_sync(0xffffffff, value, 1 << i);
}

KERNEL(leaf_reduce_add) {
  args.out[LANE_OFFSET] = (uint32_t)__reduce_add_sync(0xffffffff, (int)args.in[LANE_OFFSET]);
}

KERNEL(leaf_minimum_maximum) {
  const float *x = (const float *)args.in + LANE_OFFSET;
  const int *n = (const int *)args.in + LANE_OFFSET;
  args.out[LANE_OFFSET] = fmaxf(x[0], x[1]) == fmaxf(x[1], x[0]);
  ((float *)args.out)[LANE_OFFSET + 1] = fmaxf(x[2], x[3]);
  args.out[LANE_OFFSET + 2] = min(n[0], n[1]);
  args.out[LANE_OFFSET + 3] = max(n[0], n[1]);
  ((float *)args.out)[LANE_OFFSET + 4] = x[4] == x[4] ? fabsf(x[4]) : 0.0f;
}
