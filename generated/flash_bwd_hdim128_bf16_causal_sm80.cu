// flash_bwd_hdim128_bf16_causal_sm80
//
// The backward pass: dV = P^T dO, dK = scale dS^T Q, and dQ / scale = dS K, added up in fp32,
// where P = softmax(scale Q K^T) is computed anew from the forward pass's lse, dP = dO V^T and
// dS = P (dP - delta), delta = rowsum(dO out).
// One thread block owns BLOCK_N keys of one head and walks over the query rows that see them, of
// all query heads that share the key head, BLOCK_M at a time. S and dP are computed transposed:
// keys are rows, so that P^T and dS^T are A of the products that they go into.
//
// Pressed from templates/attention/flash_bwd_sm80.cu.j2 with tile m64n128w2x4a4d2s2v1c by
//   python -m generator --pass bwd --hdim 128 --dtype bf16 --causal --arch sm80

#include "attnpress/args/attention.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/gradient.cuh"
#include "attnpress/device/gradient_order.cuh"
#include "attnpress/device/gradient_store.cuh"
#include "attnpress/device/product.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/device/score.cuh"
#include "attnpress/device/tile.cuh"

constexpr int HEAD_DIM = 128;
constexpr int HEAD_DIM_V = 128;
constexpr Dtype DTYPE = BF16;
constexpr bool CAUSAL = true;
constexpr int BLOCK_M = 64; // query rows of a block or a step
constexpr int BLOCK_N = 128; // keys of a step or a block
constexpr int WARPS_M = 2; // warps that share the queries of S
constexpr int WARPS_N = 4; // warps that share the keys of S
constexpr int WARPS_K = 1; // warps that compute the same part of S
constexpr int ACC_WARPS = 4; // warps that share the keys of dK and dV; the others their columns
constexpr int DQ_WARPS = 2; // warps that share the rows of dQ; the others its columns
constexpr int STAGES = 2; // slots of the ring that a step's Q passes through
constexpr int V_STAGES = 1; // the same of dO
constexpr int MIN_BLOCKS = 1; // thread blocks that an SM is to hold
constexpr int SMEM_BYTES = 159744;

constexpr int NUM_WARPS = WARPS_M * WARPS_N * WARPS_K;
constexpr int NUM_THREADS = 32 * NUM_WARPS;
constexpr int OWN_ROWS = BLOCK_N, OWN_WARPS = WARPS_N; // of K and V
constexpr int WALK_ROWS = BLOCK_M, WALK_WARPS = WARPS_M; // of Q and dO
constexpr int S_ROWS = OWN_ROWS / (16 * OWN_WARPS); // tiles of 16 rows of S, of a warp
constexpr int S_COLUMNS = WALK_ROWS / (8 * WALK_WARPS); // tiles of 8 columns
constexpr int ACC_ROWS = OWN_ROWS / (16 * ACC_WARPS); // the same of the gradients
constexpr int ACC_COLUMN_WARPS = NUM_WARPS / ACC_WARPS;
constexpr int ACC_COLUMNS = column_share(HEAD_DIM / 8, ACC_COLUMN_WARPS);
constexpr int ACC_COLUMNS_V = column_share(HEAD_DIM_V / 8, ACC_COLUMN_WARPS);
constexpr int DQ_ROWS = BLOCK_M / (16 * DQ_WARPS);
constexpr int DQ_COLUMN_WARPS = NUM_WARPS / DQ_WARPS;
constexpr int DQ_COLUMNS = column_share(HEAD_DIM / 8, DQ_COLUMN_WARPS);

// Bytes of a row in shared memory.
constexpr int ROW_BYTES = tile_row_bytes(HEAD_DIM); // of Q and K
constexpr int ROW_BYTES_V = tile_row_bytes(HEAD_DIM_V); // of V and dO
constexpr int S_ROW_BYTES = tile_row_bytes(WALK_ROWS); // of P and dS

// Shared memory: K | V | ring of Q, lse and delta | ring of dO | P | dS.
constexpr int OWN_V_OFFSET = OWN_ROWS * ROW_BYTES;
constexpr int RING_OFFSET = OWN_V_OFFSET + OWN_ROWS * ROW_BYTES_V;
constexpr int LSE_OFFSET = WALK_ROWS * ROW_BYTES; // in a slot
constexpr int DELTA_OFFSET = LSE_OFFSET + WALK_ROWS * 4;
constexpr int SLOT_BYTES = DELTA_OFFSET + WALK_ROWS * 4;
constexpr int RING_V_OFFSET = RING_OFFSET + STAGES * SLOT_BYTES;
constexpr int SLOT_BYTES_V = WALK_ROWS * ROW_BYTES_V;
constexpr int S_OFFSET = RING_V_OFFSET + V_STAGES * SLOT_BYTES_V;
constexpr int DS_OFFSET = S_OFFSET + OWN_ROWS * S_ROW_BYTES;
static_assert(SMEM_BYTES >= DS_OFFSET + OWN_ROWS * S_ROW_BYTES, "shared memory");
static_assert(OWN_ROWS % (16 * OWN_WARPS) == 0 && OWN_ROWS % (16 * ACC_WARPS) == 0, "tile");
static_assert(WALK_ROWS % (16 * WALK_WARPS) == 0 && NUM_WARPS % ACC_WARPS == 0, "tile");
static_assert(128 % BLOCK_M == 0, "lse and delta are padded to a multiple of 128 rows");

// What a thread block computes, and what it walks over.
struct Work {
  int64_t batch;
  int kv_head;
  int begin; // first key
};

__device__ __forceinline__ Work find_work(const attnpress_bwd_args *args, int index) {
  const int block = block_in_turn(args, index, gridDim.x);
  Work work;
  // Causal: the first keys are seen by the most rows, and the longest key blocks come first.
  work.begin = block % args->blocks * BLOCK_N;
  const int head = block / args->blocks;
  work.kv_head = head % args->heads_kv;
  work.batch = head / args->heads_kv;
  return work;
}

// Where the rows of a query head begin in lse_log2 and delta.
__device__ __forceinline__ int64_t values_of_head(const attnpress_bwd_args *args, Work work,
                                                  int head) {
  return (work.batch * args->heads_q + head) * args->row_tiles * 16;
}

// Starts part `part` of `parts` of the copy of `rows` rows of a tensor whose first row is at
// `offset`; rows from `valid` on become zeros.
__device__ __forceinline__ void load_rows(uint32_t shared, const void *global, int64_t offset,
                                          int64_t row_stride, int rows, int columns, int valid,
                                          int part, int parts) {
  const int thread = threadIdx.x, passes = copy_passes(rows, columns, NUM_THREADS);
  const int each = ceil_div(passes, parts), first = part * each;
  const int row = first * (NUM_THREADS / (columns / 8)) + copy_row(columns, thread);
  copy_rows_async(shared, tile_row_bytes(columns),
                  (const uint16_t *)global + offset + row * row_stride +
                      copy_column(columns, thread),
                  row_stride, rows, columns, valid, first, min_int(first + each, passes), thread,
                  NUM_THREADS);
}

// Starts the load of K and V of the block's keys.
__device__ __forceinline__ void load_own(uint32_t shared, const attnpress_bwd_args *args,
                                         Work work) {
  const int valid = args->seqlen_k - work.begin;
  load_rows(shared, args->k,
            work.batch * args->k_batch_stride + work.kv_head * args->k_head_stride +
                work.begin * args->k_row_stride,
            args->k_row_stride, OWN_ROWS, HEAD_DIM, valid, 0, 1);
  load_rows(shared + OWN_V_OFFSET, args->v,
            work.batch * args->v_batch_stride + work.kv_head * args->v_head_stride +
                work.begin * args->v_row_stride,
            args->v_row_stride, OWN_ROWS, HEAD_DIM_V, valid, 0, 1);
}

// A step: BLOCK_M rows of a query head.
struct Step {
  int head, row;
};

// Starts a part of the load of Q of a step, and with the first part that of lse and delta.
__device__ __forceinline__ void load_step(uint32_t slot, const attnpress_bwd_args *args, Work work,
                                          Step step, int part, int parts) {
  load_rows(slot, args->q,
            work.batch * args->q_batch_stride + step.head * args->q_head_stride +
                step.row * args->q_row_stride,
            args->q_row_stride, WALK_ROWS, HEAD_DIM, args->seqlen_q - step.row,
            part, parts);
  const int chunk = threadIdx.x; // of 4 rows
  if (part == 0 && chunk < WALK_ROWS / 4) {
    const int64_t from = values_of_head(args, work, step.head) + step.row + chunk * 4;
    cp_async_16(slot + LSE_OFFSET + chunk * 16, args->lse_log2 + from, 16);
    cp_async_16(slot + DELTA_OFFSET + chunk * 16, args->delta + from, 16);
  }
}

// The same of dO.
__device__ __forceinline__ void load_step_v(uint32_t slot, const attnpress_bwd_args *args,
                                            Work work, Step step, int part, int parts) {
  load_rows(slot, args->dout,
            work.batch * args->dout_batch_stride + step.head * args->dout_head_stride +
                step.row * args->dout_row_stride,
            args->dout_row_stride, WALK_ROWS, HEAD_DIM_V, args->seqlen_q - step.row,
            part, parts);
}

// The step after one: heads have rows `begin` to `end` - 1.
__device__ __forceinline__ Step step_after(Step step, int begin, int end) {
  step.row += WALK_ROWS;
  return step.row == end ? Step{step.head + 1, begin} : step;
}

// Scores that do not count become -inf. `own`, `walk`: this warp's first row and column.
__device__ __forceinline__ void mask_block(float score[S_ROWS][S_COLUMNS * 4],
                                           const attnpress_bwd_args *args, int own, int walk) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < S_ROWS; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = own + m * 16 + half * 8 + lane / 4;
      mask_scores(score[m], S_COLUMNS, half,
                  queries_at(row, CAUSAL, args->seqlen_q, args->seqlen_k), walk + lane % 4 * 2);
    }
  }
}

// Rounds scores into a tile of shared memory; `place`: this thread's first element of it.
__device__ __forceinline__ void store_scores(unsigned char *place,
                                             const uint32_t rounded[S_ROWS][S_COLUMNS * 2]) {
#pragma unroll
  for (int m = 0; m < S_ROWS; ++m) {
#pragma unroll
    for (int i = 0; i < S_COLUMNS * 2; ++i)
      *(uint32_t *)(place + (m * 16 + i % 2 * 8) * S_ROW_BYTES + i / 2 * 16) = rounded[m][i];
  }
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS, MIN_BLOCKS)
    flash_bwd_hdim128_bf16_causal_sm80(
        const __grid_constant__ attnpress_bwd_args args) {
  extern __shared__ __align__(128) unsigned char smem[];
  const uint32_t shared = shared_address(smem);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int own_row = warp / (WALK_WARPS * WARPS_K) * S_ROWS * 16; // this warp's part of S
  const int walk_row = warp / WARPS_K % WALK_WARPS * S_COLUMNS * 8;
  const int acc_row = warp / ACC_COLUMN_WARPS * ACC_ROWS * 16; // and of the gradients
  const int acc_warp = warp % ACC_COLUMN_WARPS;
  const int acc_column = first_column_tile(HEAD_DIM / 8, ACC_COLUMN_WARPS, acc_warp) * 8;
  const int acc_column_v = first_column_tile(HEAD_DIM_V / 8, ACC_COLUMN_WARPS, acc_warp) * 8;
  const Work work = find_work(&args, blockIdx.x);

  // Rows before the first that sees one of the keys are skipped; group heads come one after the
  // other.
  const int group = args.heads_q / args.heads_kv;
  const int first_step =
      CAUSAL ? max(0, work.begin - args.seqlen_k + args.seqlen_q) / WALK_ROWS : 0;
  const int head_steps = max(0, ceil_div(args.seqlen_q, WALK_ROWS) - first_step);
  const int steps = head_steps * group;
  const int first_head = work.kv_head * group;

  load_own(shared, &args, work);
  // What is loaded next.
  Step next = {first_head, first_step * WALK_ROWS};
  const int end_row = (first_step + head_steps) * WALK_ROWS;
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    if (stage < steps) {
      load_step(shared + RING_OFFSET + stage * SLOT_BYTES, &args, work, next, 0, 1);
      if (stage < V_STAGES)
        load_step_v(shared + RING_V_OFFSET, &args, work, next, 0, 1);
    }
    next = step_after(next, first_step * WALK_ROWS, end_row);
    cp_async_commit();
  }

  float dk[ACC_ROWS][ACC_COLUMNS * 4], dv[ACC_ROWS][ACC_COLUMNS_V * 4];
#pragma unroll
  for (int m = 0; m < ACC_ROWS; ++m) {
#pragma unroll
    for (int i = 0; i < ACC_COLUMNS_V * 4; ++i)
      dv[m][i] = 0.0f;
#pragma unroll
    for (int i = 0; i < ACC_COLUMNS * 4; ++i)
      dk[m][i] = 0.0f;
  }
  unsigned char *const place =
      smem + S_OFFSET + (own_row + lane / 4) * S_ROW_BYTES + (walk_row + lane % 4 * 2) * 2;

  Step now = {first_head, first_step * WALK_ROWS};
  int slot_index = 0;
  for (int step = 0; step < steps; ++step, now = step_after(now, first_step * WALK_ROWS, end_row)) {
    const uint32_t slot = shared + RING_OFFSET + slot_index * SLOT_BYTES;
    const uint32_t slot_v = shared + RING_V_OFFSET;
    // All threads arrive and wait. Hands over the step that everyone's copies brought, and frees
    // the slot of the step before, which everyone has read.
    cp_async_wait(STAGES - 2);
    __syncthreads();
    const bool loads = step + STAGES - 1 < steps;
    const int load_index = (slot_index + STAGES - 1) % STAGES;
    const uint32_t load_slot = shared + RING_OFFSET + load_index * SLOT_BYTES;
    if (loads) {
      load_step(load_slot, &args, work, next, 0, 2);
    }

    // S^T = K Q^T, then P.
    float score[S_ROWS][S_COLUMNS * 4];
#pragma unroll
    for (int m = 0; m < S_ROWS; ++m)
#pragma unroll
      for (int i = 0; i < S_COLUMNS * 4; ++i)
        score[m][i] = 0.0f;
    multiply_rows(score[0], S_ROWS, S_COLUMNS, DTYPE, shared + own_row * ROW_BYTES, ROW_BYTES,
                  slot + walk_row * ROW_BYTES, ROW_BYTES, HEAD_DIM, lane);
    // Steps that hold a pair of query and key which does not count.
    const bool masked = work.begin + BLOCK_N > args.seqlen_k ||
                        now.row - args.seqlen_q + args.seqlen_k < work.begin + BLOCK_N - 1;
    if (masked)
      mask_block(score, &args, work.begin + own_row, now.row + walk_row);
    const float *const lse_log2 = (const float *)(smem + RING_OFFSET + slot_index * SLOT_BYTES +
                                                  LSE_OFFSET) +
                                  walk_row + lane % 4 * 2;
    const float *const delta = lse_log2 + WALK_ROWS;
    uint32_t p[S_ROWS][S_COLUMNS * 2];
    uint32_t ds[S_ROWS][S_COLUMNS * 2];
#pragma unroll
    for (int m = 0; m < S_ROWS; ++m) {
      recompute_probabilities(score[m], S_COLUMNS, true, lse_log2,
                              args.scale_log2);
      round_probabilities(p[m], score[m], S_COLUMNS, DTYPE);
    }

    if (loads)
      load_step(load_slot, &args, work, next, 1, 2);
    // dP^T = V dO^T, then dS.
    float grad[S_ROWS][S_COLUMNS * 4];
#pragma unroll
    for (int m = 0; m < S_ROWS; ++m)
#pragma unroll
      for (int i = 0; i < S_COLUMNS * 4; ++i)
        grad[m][i] = 0.0f;
    multiply_rows(grad[0], S_ROWS, S_COLUMNS, DTYPE, shared + OWN_V_OFFSET + own_row * ROW_BYTES_V,
                  ROW_BYTES_V, slot_v + walk_row * ROW_BYTES_V, ROW_BYTES_V,
                  HEAD_DIM_V, lane);
#pragma unroll
    for (int m = 0; m < S_ROWS; ++m) {
      differentiate_scores(grad[m], score[m], S_COLUMNS, true, delta);
      round_probabilities(ds[m], grad[m], S_COLUMNS, DTYPE);
    }
    {
      store_scores(place, p);
      store_scores(place + (DS_OFFSET - S_OFFSET), ds);
    }
    // All threads arrive and wait: hands over P and dS.
    __syncthreads();

    // dV += P^T dO, dK += dS^T Q.
    multiply_columns(dv[0], ACC_ROWS, ACC_COLUMNS_V, DTYPE, LEFT_ROWS, 0,
                     shared + S_OFFSET + acc_row * S_ROW_BYTES, S_ROW_BYTES,
                     slot_v + acc_column_v * 2, ROW_BYTES_V, WALK_ROWS, lane);
    // All threads arrive and wait: everyone has read dO, whose slot the next one takes.
    __syncthreads();
    if (loads)
      load_step_v(slot_v, &args, work, next, 0, 1);
    multiply_columns(dk[0], ACC_ROWS, ACC_COLUMNS, DTYPE, LEFT_ROWS, 0,
                     shared + DS_OFFSET + acc_row * S_ROW_BYTES, S_ROW_BYTES,
                     slot + acc_column * 2, ROW_BYTES, WALK_ROWS, lane);

    // dQ += dS K, of this block's keys.
    {
      const int dq_row = warp / DQ_COLUMN_WARPS * DQ_ROWS, dq_warp = warp % DQ_COLUMN_WARPS;
      const int first = first_column_tile(HEAD_DIM / 8, DQ_COLUMN_WARPS, dq_warp);
      float dq[DQ_ROWS][DQ_COLUMNS * 4];
#pragma unroll
      for (int m = 0; m < DQ_ROWS; ++m)
#pragma unroll
        for (int i = 0; i < DQ_COLUMNS * 4; ++i)
          dq[m][i] = 0.0f;
      multiply_columns(dq[0], DQ_ROWS, DQ_COLUMNS, DTYPE, LEFT_COLUMNS, 0,
                       shared + DS_OFFSET + dq_row * 32, S_ROW_BYTES, shared + first * 16,
                       ROW_BYTES, BLOCK_N, lane);
      float *sum = args.dq_sum +
                   sum_offset(&args, work.batch, now.head, now.row / 16 + dq_row,
                              HEAD_DIM) +
                   first * 128;
#pragma unroll
      for (int m = 0; m < DQ_ROWS; ++m) {
        if (now.row + (dq_row + m) * 16 < args.seqlen_q) {
#pragma unroll
          for (int i = 0; i < DQ_COLUMNS; ++i)
            if (i >= tiles_of_others(HEAD_DIM / 8, DQ_COLUMN_WARPS, dq_warp))
              add_to_sum(sum + (m * (HEAD_DIM / 8) + i) * 128, dq[m] + i * 4, lane);
        }
      }
    }
    cp_async_commit();
    next = step_after(next, first_step * WALK_ROWS, end_row);
    slot_index = slot_index + 1 == STAGES ? 0 : slot_index + 1;
  }

  // All threads arrive and wait: all that was loaded has been read and no copy is in flight, so
  // that the gradients can take the place of the block's own rows.
  cp_async_wait(0);
  __syncthreads();
  const int valid = args.seqlen_k - work.begin;
  uint16_t *const dk_rows = (uint16_t *)args.dk + work.batch * args.dk_batch_stride +
                            work.kv_head * args.dk_head_stride +
                            work.begin * args.dk_row_stride;
  uint16_t *const dv_rows = (uint16_t *)args.dv + work.batch * args.dv_batch_stride +
                            work.kv_head * args.dv_head_stride +
                            work.begin * args.dv_row_stride;
  if (args.accumulate) {
    load_gradient(smem, dk_rows, args.dk_row_stride, OWN_ROWS, HEAD_DIM, valid, threadIdx.x,
                  NUM_THREADS);
    load_gradient(smem + OWN_V_OFFSET, dv_rows, args.dv_row_stride, OWN_ROWS, HEAD_DIM_V, valid,
                  threadIdx.x, NUM_THREADS);
    // All threads arrive and wait: hands over what dK and dV are added to.
    __syncthreads();
  }
  round_gradient(smem + acc_row * ROW_BYTES + acc_column * 2, ROW_BYTES, dk[0], ACC_ROWS,
                 tiles_of_others(HEAD_DIM / 8, ACC_COLUMN_WARPS, acc_warp), ACC_COLUMNS, DTYPE,
                 args.scale, args.accumulate, lane);
  round_gradient(smem + OWN_V_OFFSET + acc_row * ROW_BYTES_V + acc_column_v * 2, ROW_BYTES_V, dv[0],
                 ACC_ROWS, tiles_of_others(HEAD_DIM_V / 8, ACC_COLUMN_WARPS, acc_warp),
                 ACC_COLUMNS_V, DTYPE, 1.0f, args.accumulate, lane);
  // All threads arrive and wait: hands over the tiles of dK and dV.
  __syncthreads();
  store_gradient(dk_rows, args.dk_row_stride, smem, OWN_ROWS, HEAD_DIM, valid, threadIdx.x,
                 NUM_THREADS);
  store_gradient(dv_rows, args.dv_row_stride, smem + OWN_V_OFFSET, OWN_ROWS, HEAD_DIM_V, valid,
                 threadIdx.x, NUM_THREADS);
}
