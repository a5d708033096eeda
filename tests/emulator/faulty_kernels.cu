// Kernels with one fault each, by two warps, and kernels beside them that are right: what the
// emulator must report, and what it must not. Each has the name that stands in test_emulator.c with
// the words of its report.

#include "attnpress/args/common.h"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_atom.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/ptx_ldmatrix.cuh"

struct fault_args {
  const uint32_t *in; // (64, 4): 16 bytes a thread
  uint32_t *out;      // the same
};

#define KERNEL(name)                                                                               \
  extern "C" __global__ void __launch_bounds__(64) name(const __grid_constant__ fault_args args)

// ---- Races ----

KERNEL(right_exchange) {
  __shared__ uint32_t memory[64];
  memory[threadIdx.x] = args.in[threadIdx.x];
  __syncthreads();
  args.out[threadIdx.x] = memory[63 - threadIdx.x];
}

KERNEL(read_after_write) {
  __shared__ uint32_t memory[64];
  memory[threadIdx.x] = args.in[threadIdx.x];
  args.out[threadIdx.x] = memory[threadIdx.x / 2];
}

KERNEL(write_after_read) {
  __shared__ uint32_t memory[64];
  memory[threadIdx.x] = args.in[threadIdx.x];
  __syncthreads();
  args.out[threadIdx.x] = memory[63 - threadIdx.x];
  memory[threadIdx.x] = 0;
}

KERNEL(write_after_write) {
  __shared__ uint32_t memory[64];
  memory[threadIdx.x / 2] = 1;
  __syncthreads();
  args.out[threadIdx.x] = memory[threadIdx.x / 2];
}

// A barrier of the warp orders its lanes, and nobody else.
KERNEL(right_exchange_in_a_warp) {
  __shared__ uint32_t memory[64];
  memory[threadIdx.x] = args.in[threadIdx.x];
  __syncwarp();
  const uint32_t other = memory[threadIdx.x ^ 31];
  __syncwarp();
  memory[threadIdx.x] = other;
  args.out[threadIdx.x] = memory[threadIdx.x];
}

KERNEL(read_after_write_of_another_warp) {
  __shared__ uint32_t memory[64];
  memory[threadIdx.x] = args.in[threadIdx.x];
  __syncwarp();
  args.out[threadIdx.x] = memory[threadIdx.x % 32];
}

KERNEL(write_after_read_of_a_warp) {
  __shared__ uint32_t memory[64];
  memory[threadIdx.x] = args.in[threadIdx.x];
  __syncwarp();
  const uint32_t other = memory[threadIdx.x ^ 31];
  memory[threadIdx.x] = other;
  args.out[threadIdx.x] = other;
}

// Two threads' halves of a word are no race.
KERNEL(right_neighbours) {
  __shared__ uint16_t memory[64];
  memory[threadIdx.x] = (uint16_t)threadIdx.x;
  __syncthreads();
  args.out[threadIdx.x] = memory[threadIdx.x ^ 1];
}

KERNEL(never_written) {
  __shared__ uint32_t memory[64];
  if (threadIdx.x != 5)
    memory[threadIdx.x] = 1;
  __syncthreads();
  args.out[threadIdx.x] = memory[threadIdx.x ^ 1];
}

KERNEL(writes_the_same_element) {
  args.out[threadIdx.x / 2] = 1;
}

KERNEL(reads_what_another_wrote) {
  args.out[threadIdx.x] = args.in[threadIdx.x];
  args.out[64 + threadIdx.x] = args.out[threadIdx.x / 2];
}

KERNEL(right_reads_behind_a_barrier) {
  args.out[threadIdx.x] = args.in[threadIdx.x];
  __syncthreads();
  args.out[64 + threadIdx.x] = args.out[threadIdx.x / 2];
}

// ---- Copies in flight ----

KERNEL(right_copy) {
  __shared__ uint4 memory[64];
  cp_async_16(shared_address(memory + threadIdx.x), args.in + threadIdx.x * 4, 16);
  cp_async_commit();
  cp_async_wait(0);
  __syncthreads();
  *(uint4 *)(args.out + threadIdx.x * 4) = memory[63 - threadIdx.x];
}

KERNEL(copy_without_wait) {
  __shared__ uint4 memory[64];
  cp_async_16(shared_address(memory + threadIdx.x), args.in + threadIdx.x * 4, 16);
  cp_async_commit();
  __syncthreads();
  *(uint4 *)(args.out + threadIdx.x * 4) = memory[threadIdx.x];
}

KERNEL(copy_without_commit) {
  __shared__ uint4 memory[64];
  cp_async_16(shared_address(memory + threadIdx.x), args.in + threadIdx.x * 4, 16);
  cp_async_wait(0);
  __syncthreads();
  *(uint4 *)(args.out + threadIdx.x * 4) = memory[threadIdx.x];
}

KERNEL(copy_waits_for_too_few) {
  __shared__ uint4 memory[64];
  cp_async_16(shared_address(memory + threadIdx.x), args.in + threadIdx.x * 4, 16);
  cp_async_commit();
  cp_async_wait(1);
  *(uint4 *)(args.out + threadIdx.x * 4) = memory[threadIdx.x];
}

// Waited for, but by another thread.
KERNEL(copy_without_barrier) {
  __shared__ uint4 memory[64];
  cp_async_16(shared_address(memory + threadIdx.x), args.in + threadIdx.x * 4, 16);
  cp_async_commit();
  cp_async_wait(0);
  *(uint4 *)(args.out + threadIdx.x * 4) = memory[threadIdx.x ^ 1];
}

KERNEL(copy_overwritten) {
  __shared__ uint4 memory[64];
  cp_async_16(shared_address(memory + threadIdx.x), args.in + threadIdx.x * 4, 16);
  cp_async_commit();
  memory[threadIdx.x] = uint4{0, 0, 0, 0};
}

KERNEL(copy_over_copy) {
  __shared__ uint4 memory[64];
  cp_async_16(shared_address(memory + threadIdx.x), args.in + threadIdx.x * 4, 16);
  cp_async_commit();
  cp_async_16(shared_address(memory + threadIdx.x), args.in + threadIdx.x * 4, 16);
  cp_async_commit();
  cp_async_wait(0);
}

KERNEL(copy_over_what_is_read) {
  __shared__ uint4 memory[64];
  memory[threadIdx.x] = *(const uint4 *)(args.in + threadIdx.x * 4);
  __syncthreads();
  *(uint4 *)(args.out + threadIdx.x * 4) = memory[63 - threadIdx.x];
  cp_async_16(shared_address(memory + threadIdx.x), args.in + threadIdx.x * 4, 16);
  cp_async_commit();
  cp_async_wait(0);
}

// With 0 bytes the source is not read, wherever it lies.
KERNEL(right_copy_of_nothing) {
  __shared__ uint4 memory[64];
  cp_async_16(shared_address(memory + threadIdx.x), args.in - 4096, 0);
  cp_async_commit();
  cp_async_wait(0);
  *(uint4 *)(args.out + threadIdx.x * 4) = memory[threadIdx.x];
}

// ---- Places ----

KERNEL(reads_behind_the_input) {
  args.out[threadIdx.x] = args.in[threadIdx.x + 4 * 64 - 63];
}

KERNEL(reads_before_the_input) {
  args.out[threadIdx.x] = args.in[(int)threadIdx.x - 1];
}

KERNEL(copies_behind_the_input) {
  __shared__ uint4 memory[64];
  cp_async_16(shared_address(memory + threadIdx.x), args.in + 4 + threadIdx.x * 4, 16);
}

KERNEL(writes_behind_the_output) {
  args.out[4 * threadIdx.x + 4] = 0;
}

KERNEL(writes_the_input) {
  ((uint32_t *)args.in)[threadIdx.x] = 0;
}

KERNEL(behind_the_shared_memory) {
  extern __shared__ __align__(16) unsigned char smem[]; // 1024 bytes
  *(uint32_t *)(smem + 16 * threadIdx.x + 4) = 0;
  *(uint32_t *)(smem + 16 * threadIdx.x + 16) = 0;
}

KERNEL(misaligned_vector) {
  *(uint4 *)(args.out + threadIdx.x * 4) = *(const uint4 *)(args.in + 2);
}

KERNEL(misaligned_shared_vector) {
  extern __shared__ __align__(16) unsigned char smem[];
  *(uint2 *)(smem + threadIdx.x * 8 + 4) = uint2{0, 0};
}

KERNEL(misaligned_copy) {
  extern __shared__ __align__(16) unsigned char smem[];
  cp_async_16(shared_address(smem) + threadIdx.x * 8, args.in, 16);
}

KERNEL(misaligned_matrix) {
  extern __shared__ __align__(16) unsigned char smem[];
  uint32_t fragment[1];
  for (int i = 0; i < 4; ++i)
    ((uint32_t *)smem)[threadIdx.x * 4 + i] = 0;
  __syncthreads();
  ldmatrix_x1(fragment, shared_address(smem) + threadIdx.x % 8 * 16 + 8);
  args.out[threadIdx.x] = fragment[0];
}

// ---- Launches that overlap ----

KERNEL(overlap_right_wait) {
  const uint32_t guess = load_relaxed(args.in + threadIdx.x);
  griddepcontrol_launch_dependents();
  griddepcontrol_wait();
  args.out[threadIdx.x] = args.in[threadIdx.x] + guess;
}

KERNEL(overlap_right_wait_of_another) {
  if (threadIdx.x == 0)
    griddepcontrol_wait();
  __syncthreads();
  args.out[threadIdx.x] = args.in[threadIdx.x];
}

KERNEL(overlap_reads_early) {
  const uint32_t word = args.in[threadIdx.x];
  griddepcontrol_wait();
  args.out[threadIdx.x] = word;
}

KERNEL(overlap_writes_early) {
  args.out[threadIdx.x] = 0;
  griddepcontrol_wait();
}

KERNEL(overlap_adds_early) {
  atomic_increment(args.out);
  griddepcontrol_wait();
}

KERNEL(overlap_copies_early) {
  extern __shared__ __align__(16) unsigned char smem[];
  cp_async_16(shared_address(smem) + threadIdx.x * 16, args.in + threadIdx.x * 4, 16);
  griddepcontrol_wait();
  cp_async_commit();
  cp_async_wait(0);
}

KERNEL(overlap_waits_behind_the_barrier) {
  __syncthreads();
  if (threadIdx.x == 0)
    griddepcontrol_wait();
  args.out[threadIdx.x] = 0;
}

KERNEL(overlap_waits_in_another_warp) {
  if (threadIdx.x == 0)
    griddepcontrol_wait();
  __syncwarp();
  args.out[threadIdx.x] = 0;
}

KERNEL(overlap_never_waits) {
  if (args.in == nullptr)
    griddepcontrol_wait();
}

// ---- Waiting ----

KERNEL(barrier_in_one_warp) {
  if (threadIdx.x < 32)
    __syncthreads();
}

KERNEL(barrier_after_return) {
  if (threadIdx.x == 40)
    return;
  __syncthreads();
}

KERNEL(half_a_shuffle) {
  float x = 1.0f;
  if (threadIdx.x % 32 < 16)
    x = __shfl_xor_sync(0xffffffff, x, 1);
  args.out[threadIdx.x] = (uint32_t)x;
}

KERNEL(diverged_warp) {
  extern __shared__ __align__(16) unsigned char smem[];
  uint32_t fragment[1] = {0};
  float x = 1.0f;
  if (threadIdx.x % 2 == 0)
    x = __shfl_xor_sync(0xffffffff, x, 1);
  else
    ldmatrix_x1(fragment, shared_address(smem));
  args.out[threadIdx.x] = (uint32_t)x + fragment[0];
}
