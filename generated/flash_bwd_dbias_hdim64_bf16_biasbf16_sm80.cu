// flash_bwd_dbias_hdim64_bf16_biasbf16_sm80
//
// Part of the backward pass: the gradient by the bias, which is dS = P (dP - delta) before the softcap's
// derivative and the scale, where P = softmax(scale Q K^T + bias) is computed anew from the forward
// pass's lse, dP = dO V^T and delta = rowsum(dO out).
//
// One thread block owns BLOCK_M rows and BLOCK_N keys of the gradient and walks over all that share
// them: batches, heads and blocks of rows, in one order, so that every bit is the same in every run.
//
// Pressed from templates/attention/flash_bwd_dbias.cu.j2 with tile m64n64w2x2s0k0v0 by
//   python -m generator --pass bwd_dbias --hdim 64 --dtype bf16 --bias bf16
#include "attnpress/args/attention.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/gradient.cuh"
#include "attnpress/device/gradient_modify.cuh"
#include "attnpress/device/gradient_store.cuh"
#include "attnpress/device/product.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/device/score.cuh"
#include "attnpress/device/tile.cuh"

constexpr int HEAD_DIM = 64;
constexpr int HEAD_DIM_V = 64;
constexpr Dtype DTYPE = BF16;
constexpr bool CAUSAL = false;
constexpr BiasDtype BIAS = BIAS_BF16;
constexpr int BLOCK_M = 64; // query rows
constexpr int BLOCK_N = 64; // keys
constexpr int WARPS_M = 2; // warps that share the rows
constexpr int WARPS_N = 2; // warps that share the keys
constexpr int SMEM_BYTES = 36864;

constexpr int NUM_THREADS = 32 * WARPS_M * WARPS_N;
constexpr int COPY_ROWS = 64; // rows whose copies are unrolled, at most
constexpr int S_ROWS = BLOCK_M / (16 * WARPS_M); // tiles of 16 rows, of a warp
constexpr int S_COLUMNS = BLOCK_N / (8 * WARPS_N); // tiles of 8 keys

// Shared memory: Q | dO | K | V, in padded rows; at the end sums of columns.
constexpr int ROW_BYTES = tile_row_bytes(HEAD_DIM); // of Q and K
constexpr int ROW_BYTES_V = tile_row_bytes(HEAD_DIM_V); // of V and dO
constexpr int DO_OFFSET = BLOCK_M * ROW_BYTES;
constexpr int K_OFFSET = DO_OFFSET + BLOCK_M * ROW_BYTES_V;
constexpr int V_OFFSET = K_OFFSET + BLOCK_N * ROW_BYTES;
static_assert(SMEM_BYTES >= V_OFFSET + BLOCK_N * ROW_BYTES_V, "shared memory");
static_assert(SMEM_BYTES >= WARPS_M * BLOCK_N * 4, "sums of columns");
static_assert(128 % BLOCK_M == 0, "lse and delta are padded to a multiple of 128 rows");

// Starts the copy of `rows` rows of a tensor from `offset` on; rows from `valid` on become zeros.
__device__ __forceinline__ void load_rows(uint32_t shared, const void *global, int64_t offset,
                                          int64_t row_stride, int rows, int columns, int valid) {
  const int thread = threadIdx.x, row_bytes = tile_row_bytes(columns);
  const int part = min_int(rows, COPY_ROWS);
  const uint16_t *from = (const uint16_t *)global + offset +
                         copy_row(columns, thread) * row_stride + copy_column(columns, thread);
#pragma unroll 1
  for (int first = 0; first < rows; first += part, from += part * row_stride)
    copy_rows_async(shared + first * row_bytes, row_bytes, from, row_stride, part, columns,
                    valid - first, 0, copy_passes(part, columns, NUM_THREADS), thread,
                    NUM_THREADS);
}

// Writes an element of the gradient, or adds to it.
__device__ __forceinline__ void store_element(const attnpress_bwd_dbias_args *args, int64_t at,
                                              float value) {
  if (args->dbias_dtype == 3) {
    float *place = (float *)args->dbias + at;
    *place = args->bwd.accumulate ? *place + value : value;
  } else {
    uint16_t *place = (uint16_t *)args->dbias + at;
    const Dtype dtype = args->dbias_dtype == 1 ? FP16 : BF16;
    if (args->bwd.accumulate)
      value += widen(dtype, *place);
    *place = (uint16_t)pack(dtype, value, 0.0f);
  }
}

// dS of a step, added to the gradient. `row`, `key`: this warp's first.
__device__ __forceinline__ void add_step(float sum[S_ROWS][S_COLUMNS * 4],
                                         const attnpress_bwd_args *args, uint32_t q, uint32_t dout,
                                         uint32_t k, uint32_t v, int64_t batch, int head, int row,
                                         int key) {
  const int lane = threadIdx.x % 32;
  float score[S_ROWS][S_COLUMNS * 4], grad[S_ROWS][S_COLUMNS * 4];
#pragma unroll
  for (int m = 0; m < S_ROWS; ++m) {
#pragma unroll
    for (int i = 0; i < S_COLUMNS * 4; ++i)
      score[m][i] = grad[m][i] = 0.0f;
  }
  // S = Q K^T, then P.
  multiply_rows(score[0], S_ROWS, S_COLUMNS, DTYPE, q, ROW_BYTES, k, ROW_BYTES, HEAD_DIM, lane);
  float delta[S_ROWS][2];
#pragma unroll
  for (int m = 0; m < S_ROWS; ++m) {
    float lse_log2[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int position = row + m * 16 + half * 8 + lane / 4, column = key + lane % 4 * 2;
      const int64_t at = (batch * args->heads_q + head) * args->row_tiles * 16 + position;
      lse_log2[half] = args->lse_log2[at];
      delta[m][half] = args->delta[at];
      add_bias_at(score[m], BIAS, S_COLUMNS, half, false, args, batch, head, position, column);
      mask_scores(score[m], S_COLUMNS, half,
                  row_at(position, CAUSAL, args->seqlen_q, args->seqlen_k), column);
    }
    recompute_probabilities(score[m], S_COLUMNS, false, lse_log2, args->scale_log2);
  }
  // dP = dO V^T, then dS.
  multiply_rows(grad[0], S_ROWS, S_COLUMNS, DTYPE, dout, ROW_BYTES_V, v, ROW_BYTES_V, HEAD_DIM_V,
                lane);
#pragma unroll
  for (int m = 0; m < S_ROWS; ++m) {
    differentiate_scores(grad[m], score[m], S_COLUMNS, false, delta[m]);
#pragma unroll
    for (int i = 0; i < S_COLUMNS * 4; ++i)
      sum[m][i] += grad[m][i];
  }
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 1)
    flash_bwd_dbias_hdim64_bf16_biasbf16_sm80(
        const __grid_constant__ attnpress_bwd_dbias_args args) {
  extern __shared__ __align__(128) unsigned char smem[];
  const uint32_t shared = shared_address(smem);
  const attnpress_bwd_args *bwd = &args.bwd;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int own_row = warp / WARPS_N * S_ROWS * 16; // this warp's part
  const int own_key = warp % WARPS_N * S_COLUMNS * 8;

  // The gradient's tile; what is summed over begins at 0.
  const int key_begin = blockIdx.x % bwd->blocks * BLOCK_N;
  const int row_block = blockIdx.x / bwd->blocks % args.row_blocks;
  const int of_head = blockIdx.x / bwd->blocks / args.row_blocks;
  const int head_begin = of_head % args.heads, batch_begin = of_head / args.heads;
  const int key_end = min(key_begin + BLOCK_N, bwd->seqlen_k);

  float sum[S_ROWS][S_COLUMNS * 4];
#pragma unroll
  for (int m = 0; m < S_ROWS; ++m)
#pragma unroll
    for (int i = 0; i < S_COLUMNS * 4; ++i)
      sum[m][i] = 0.0f;

  int64_t loaded = -1; // whose K and V are there
  for (int batch = batch_begin; batch < batch_begin + args.walk_batches; ++batch) {
    for (int head = head_begin; head < head_begin + args.walk_heads; ++head) {
      const int kv_head = head / (bwd->heads_q / bwd->heads_kv);
      for (int n = row_block; n < row_block + args.walk_row_blocks; ++n) {
        const int row_begin = n * BLOCK_M, last_row = min(row_begin + BLOCK_M, bwd->seqlen_q) - 1;
        // Rows that see none of the keys are skipped.
        if (row_at(last_row, CAUSAL, bwd->seqlen_q, bwd->seqlen_k).key_end <= key_begin)
          continue;
        // All threads arrive and wait: everyone has read the step before.
        __syncthreads();
        const int64_t wanted = (int64_t)batch * bwd->heads_kv + kv_head;
        if (wanted != loaded) {
          load_rows(shared + K_OFFSET, bwd->k,
                    batch * bwd->k_batch_stride + kv_head * bwd->k_head_stride +
                        key_begin * bwd->k_row_stride,
                    bwd->k_row_stride, BLOCK_N, HEAD_DIM, bwd->seqlen_k - key_begin);
          load_rows(shared + V_OFFSET, bwd->v,
                    batch * bwd->v_batch_stride + kv_head * bwd->v_head_stride +
                        key_begin * bwd->v_row_stride,
                    bwd->v_row_stride, BLOCK_N, HEAD_DIM_V, bwd->seqlen_k - key_begin);
          loaded = wanted;
        }
        load_rows(shared, bwd->q,
                  batch * bwd->q_batch_stride + head * bwd->q_head_stride +
                      row_begin * bwd->q_row_stride,
                  bwd->q_row_stride, BLOCK_M, HEAD_DIM, bwd->seqlen_q - row_begin);
        load_rows(shared + DO_OFFSET, bwd->dout,
                  batch * bwd->dout_batch_stride + head * bwd->dout_head_stride +
                      row_begin * bwd->dout_row_stride,
                  bwd->dout_row_stride, BLOCK_M, HEAD_DIM_V, bwd->seqlen_q - row_begin);
        cp_async_commit();
        cp_async_wait(0);
        // All threads arrive and wait: hands over what everyone's copies brought.
        __syncthreads();
        add_step(sum, bwd, shared + own_row * ROW_BYTES,
                 shared + DO_OFFSET + own_row * ROW_BYTES_V,
                 shared + K_OFFSET + own_key * ROW_BYTES,
                 shared + V_OFFSET + own_key * ROW_BYTES_V, batch, head, row_begin + own_row,
                 key_begin + own_key);
      }
    }
  }

  const int64_t of_batch = batch_begin * args.dbias_batch_stride +
                           head_begin * args.dbias_head_stride;
  if (!args.sums_rows) {
#pragma unroll
    for (int m = 0; m < S_ROWS; ++m) {
#pragma unroll
      for (int i = 0; i < S_COLUMNS * 4; ++i) {
        const int row = row_block * BLOCK_M + own_row + m * 16 + i / 2 % 2 * 8 + lane / 4;
        const int key = key_begin + own_key + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (row < bwd->seqlen_q && key < bwd->seqlen_k)
          store_element(&args, of_batch + row * args.dbias_row_stride + key * args.dbias_key_stride,
                        sum[m][i]);
      }
    }
    return;
  }

  // One row: of each column, the sum over the lanes and the warps that share it.
  float *const columns = (float *)smem;
  // All threads arrive and wait: everyone has read the last step, whose place the sums take.
  __syncthreads();
#pragma unroll
  for (int i = 0; i < S_COLUMNS * 2; ++i) {
    float column = 0.0f;
#pragma unroll
    for (int m = 0; m < S_ROWS; ++m)
      column += sum[m][i / 2 * 4 + i % 2] + sum[m][i / 2 * 4 + 2 + i % 2];
#pragma unroll
    for (int distance = 4; distance < 32; distance *= 2)
      column += __shfl_xor_sync(0xffffffff, column, distance);
    if (lane < 4)
      columns[warp / WARPS_N * BLOCK_N + own_key + i / 2 * 8 + lane * 2 + i % 2] = column;
  }
  // All threads arrive and wait: hands over the sums of each warp.
  __syncthreads();
  for (int i = threadIdx.x; i < key_end - key_begin; i += NUM_THREADS) {
    float column = 0.0f;
#pragma unroll
    for (int part = 0; part < WARPS_M; ++part)
      column += columns[part * BLOCK_N + i];
    store_element(&args, of_batch + (key_begin + i) * args.dbias_key_stride, column);
  }
}
