// A share of rows (gradient_share.cuh) of a later unit, by warps of bwd on compute capability 9.0:
// delta, lse, and zeros of their sum of dQ. out and dO come while other warps compute, and the sum
// is in L2 when it is added to. Units are taken in their order, so that the unit `zero_ahead` before
// is one that runs, or has ended.
//
// delta is the diagonal of dO out^T.
#pragma once

#include "attnpress/device/dtype.cuh"
#include "attnpress/device/gradient.cuh"
#include "attnpress/device/gradient_share.cuh"
#include "attnpress/device/pipeline.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_atom.cuh"
#include "attnpress/device/ptx_bulk.cuh"
#include "attnpress/device/ptx_bulk_copy.cuh"
#include "attnpress/device/ptx_ldmatrix.cuh"
#include "attnpress/device/ptx_mbarrier.cuh"
#include "attnpress/device/ptx_mma.cuh"
#include "attnpress/device/ptx_tma.cuh"

// A part of a share: SHARE_ROWS rows of a query head.
struct Job {
  int head, row;
};

// The one `jobs` behind, in the next head behind a share's last row.
__device__ __forceinline__ Job job_behind(Job job, const Share *share, int jobs) {
  job.row += jobs * SHARE_ROWS;
  while (job.row >= share->end) {
    job.row += share->begin - share->end;
    ++job.head;
  }
  return job;
}

// One lane: has the copy engine bring a job's rows of dO, and behind them those of out.
__device__ __forceinline__ void bring_job(const attnpress_bwd_sm90_ragged_args *args,
                                          const Share *share, Job job, uint32_t place,
                                          uint32_t full) {
  const int row = share->at.q_row + job.row, bytes = SHARE_ROWS * 128;
  mbarrier_arrive_expect(full, 2 * bytes);
  tma_load_4d(place, &args->dout, full, 0, row, job.head, share->at.q_batch);
  tma_load_4d(place + bytes, &args->out, full, 0, row, job.head, share->at.q_batch);
}

// dO out^T of 16 rows from `row` on: a lane gets what its quad has of the diagonal, of rows lane / 4
// and 8 more.
__device__ __forceinline__ float2 multiply_rows(uint32_t place, int columns, int row, Dtype dtype) {
  const int lane = threadIdx.x % 32;
  const uint32_t from = place + (row + lane % 16) * 128;
  float first[4] = {}, second[4] = {};
#pragma unroll
  for (int step = 0; step < ceil_div(columns, 16); ++step) {
    const uint32_t at = from + ((step * 32 + lane / 16 * 16) ^ swizzle_of_row(64, lane));
    uint32_t dout[4], out[4];
    ldmatrix_x4(dout, at);
    ldmatrix_x4(out, at + SHARE_ROWS * 128);
    const uint32_t low[2] = {out[0], out[2]}, high[2] = {out[1], out[3]};
    if (dtype == BF16) {
      mma_m16n8k16_bf16(first, dout, low);
      mma_m16n8k16_bf16(second, dout, high);
    } else {
      mma_m16n8k16_fp16(first, dout, low);
      mma_m16n8k16_fp16(second, dout, high);
    }
  }
  return lane / 4 % 2 ? float2{first[1], second[3]} : float2{first[0], second[2]};
}

// log2(e) lse of a row of the job; past the end inf.
__device__ __forceinline__ float lse_of_row(const attnpress_bwd_ragged_args *batch,
                                            const Share *share, int head, int row) {
  if (row >= share->at.seqlen_q)
    return INF;
  const float lse =
      batch->bwd.lse[head * batch->bwd.lse_head_stride +
                     (batch->ragged.lse_packed ? share->at.q_row * batch->ragged.lse_row_stride
                                               : share->sequence * batch->bwd.lse_batch_stride) +
                     row * batch->ragged.lse_row_stride];
  return lse_or_inf(lse * (batch->ragged.lse_log2 ? 1.0f : LOG2_E));
}

// What delta lacks of a row: the gradient of its lse.
__device__ __forceinline__ float dlse_of_row(const attnpress_bwd_ragged_args *batch,
                                             const Share *share, int head, int row) {
  return batch->bwd.dlse[head * batch->bwd.dlse_head_stride +
                         (batch->dlse_packed ? share->at.q_row * batch->dlse_row_stride
                                             : share->sequence * batch->bwd.dlse_batch_stride) +
                         row * batch->dlse_row_stride] *
         (batch->ragged.lse_log2 ? LOG2_E : 1.0f);
}

// One lane: begins to zero the job's rows of the sum. `zeros`: `zero_bytes` of them in shared
// memory.
__device__ __forceinline__ void zero_rows(const attnpress_bwd_ragged_args *batch,
                                          const Share *share, Job job, int columns, uint32_t zeros,
                                          int zero_bytes) {
  if (share->at.seqlen_k <= batch->direct_keys) // dq has no sum
    return;
  const int tiles = min(SHARE_ROWS / 16, ceil_div(share->at.seqlen_q - job.row, 16));
  const int64_t tile = (int64_t)job.head * batch->bwd.sum_tiles + share->at.sum_tile + job.row / 16;
  char *sum = (char *)batch->bwd.dq_sum + tile * 16 * columns * 4;
  for (int left = tiles * 16 * columns * 4; left > 0; left -= zero_bytes, sum += zero_bytes)
    bulk_store(sum, zeros, min(left, zero_bytes));
  bulk_commit();
}

// A job, whose rows of dO and out are at `place`: delta.
__device__ __forceinline__ void store_delta(const attnpress_bwd_ragged_args *batch,
                                            const Share *share, Job job, int columns, Dtype dtype,
                                            uint32_t place, float *to) {
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int tile = 0; tile < SHARE_ROWS / 16; ++tile) {
    const float2 two = multiply_rows(place, columns, tile * 16, dtype);
    if (lane % 4 != lane / 8) // the diagonal is another lane's
      continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile * 16 + half * 8 + lane / 4;
      float delta = half ? two.y : two.x;
      if (job.row + row >= share->at.seqlen_q)
        delta = 0.0f;
      else if (batch->bwd.dlse != nullptr)
        delta -= dlse_of_row(batch, share, job.head, job.row + row);
      to[row] = delta;
    }
  }
}

// Warp `warp` of `warps`: its part of a share, of rows of `columns` columns, which come to `place`;
// with each job's the barrier `full` completes a phase. Then it hands over what it has done.
__device__ __forceinline__ void do_share(const attnpress_bwd_sm90_ragged_args *args,
                                         const Share *share, int columns, Dtype dtype, int warp,
                                         int warps, uint32_t place, uint32_t zeros, int zero_bytes,
                                         uint32_t full, uint32_t *parity) {
  const attnpress_bwd_ragged_args *const batch = &args->batch;
  const int lane = threadIdx.x % 32;
  const int jobs = (share->end - share->begin) / SHARE_ROWS * share->heads;
  Job job = {share->head, share->begin};
  if (warp < jobs) {
    job = job_behind(job, share, warp);
    if (lane == 0)
      bring_job(args, share, job, place, full);
  }
#pragma unroll 1
  for (int i = warp; i < jobs; i += warps) {
    const int64_t to =
        (int64_t)job.head * batch->bwd.row_tiles * 16 + share->at.values_row + job.row;
    if (lane == 0)
      zero_rows(batch, share, job, columns, zeros, zero_bytes);
#pragma unroll
    for (int row = lane; row < SHARE_ROWS; row += 32)
      batch->bwd.lse_log2[to + row] = lse_of_row(batch, share, job.head, job.row + row);
    wait_for_phase(full, *parity); // the copy engine hands over the rows
    *parity ^= 1;
    store_delta(batch, share, job, columns, dtype, place, batch->bwd.delta + to);
    __syncwarp(); // the place has been read
    job = job_behind(job, share, warps);
    if (lane == 0 && i + warps < jobs)
      bring_job(args, share, job, place, full);
  }
  if (lane == 0)
    bulk_wait_written();
  __syncwarp(); // the first lane knows of what the others have written
  if (lane == 0)
    release_increment(batch->bwd.dq_zeroed + share->sequence * batch->bwd.heads_kv +
                      share->head / share->heads);
}
