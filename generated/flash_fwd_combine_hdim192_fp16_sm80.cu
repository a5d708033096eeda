// flash_fwd_combine_hdim192_fp16_sm80
//
// Adds up the splits of a forward pass:
//   lse = log(sum_i exp(lse_i)), out = sum_i exp(lse_i - lse) out_i.
// The output is fp16, all else fp32. One thread block computes one row: its threads form groups
// of HEAD_DIM_V / 4 threads, each group adds up every GROUPS-th split, and the first group adds up
// the groups.
//
// Pressed from templates/flash_fwd_combine.cu.j2 with tile m1n0w4x1s0k0v0 by
//   python -m generator --pass fwd_combine --hdim 192 --dtype fp16 --arch sm80

#include "attnpress/device/ptx_cvt.cuh"
#include "attnpress/device/ptx_math.cuh"
#include "attnpress/kernel_args.h"

constexpr int HEAD_DIM_V = 192;
constexpr int NUM_THREADS = 128;
constexpr int GROUP_THREADS = HEAD_DIM_V / 4; // of 4 columns
constexpr int GROUPS = NUM_THREADS / GROUP_THREADS;
constexpr float LOG2_E = 1.44269504088896341f;
constexpr float LN_2 = 0.693147180559945309f;
constexpr float INF = __builtin_bit_cast(float, 0x7f800000);
static_assert(GROUPS >= 1, "a row needs HEAD_DIM_V / 4 threads");

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
    flash_fwd_combine_hdim192_fp16_sm80(
        const __grid_constant__ attnpress_fwd_combine_args args) {
  __shared__ float4 partial_sum[GROUPS][GROUP_THREADS];
  const int row = blockIdx.x; // of (batch, heads_q, seqlen_q)
  const int lane = threadIdx.x % 32;

  // lse of the row. Every warp computes it for itself, in units of log2.
  float row_max = -INF;
  for (int i = lane; i < args.num_splits; i += 32)
    row_max = fmaxf(row_max, args.lse_partial[i * args.rows + row]);
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2)
    row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffff, row_max, lanes));
  const float shift = row_max == -INF ? 0.0f : row_max * LOG2_E; // a row without keys
  float row_sum = 0.0f;
  for (int i = lane; i < args.num_splits; i += 32)
    row_sum += exp2_approx(args.lse_partial[i * args.rows + row] * LOG2_E - shift);
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2)
    row_sum += __shfl_xor_sync(0xffffffff, row_sum, lanes);
  const float normalize = row_sum == 0.0f ? 0.0f : reciprocal_approx(row_sum);

  // This group's splits.
  const int group = threadIdx.x / GROUP_THREADS;
  const int column = threadIdx.x % GROUP_THREADS * 4;
  float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
  if (group < GROUPS) {
    const float *lse = args.lse_partial + (group * args.rows + row);
    const float *part = args.out_partial + (group * args.rows + row) * HEAD_DIM_V + column;
#pragma unroll 4
    for (int i = group; i < args.num_splits; i += GROUPS) {
      const float weight = exp2_approx(*lse * LOG2_E - shift) * normalize;
      const float4 out = *(const float4 *)part;
      sum.x += weight * out.x;
      sum.y += weight * out.y;
      sum.z += weight * out.z;
      sum.w += weight * out.w;
      lse += GROUPS * args.rows;
      part += GROUPS * args.rows * HEAD_DIM_V;
    }
    partial_sum[group][column / 4] = sum;
  }
  // All threads arrive and wait: hands over the sums of the groups.
  __syncthreads();
  if (group != 0)
    return;
#pragma unroll
  for (int i = 1; i < GROUPS; ++i) {
    const float4 part = partial_sum[i][column / 4];
    sum.x += part.x;
    sum.y += part.y;
    sum.z += part.z;
    sum.w += part.w;
  }

  const int position = row % args.seqlen_q;
  const int head = row / args.seqlen_q % args.heads_q;
  const int batch = row / args.seqlen_q / args.heads_q;
  uint16_t *out = (uint16_t *)args.out + batch * args.out_batch_stride +
                  position * args.out_row_stride + head * args.out_head_stride + column;
  const uint2 packed = {pack_fp16(sum.x, sum.y), pack_fp16(sum.z, sum.w)};
  *(uint2 *)out = packed;
  if (args.lse && threadIdx.x == 0)
    args.lse[batch * args.lse_batch_stride + head * args.lse_head_stride + position] =
        (shift + log2_approx(row_sum)) * LN_2;
}
