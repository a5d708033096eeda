// flash_bwd_hdim128_bf16_causal_sm90
//
// The backward pass: dV = P^T dO, dK = scale dS^T Q, and dQ / scale = dS K, added up in fp32,
// where P = softmax(scale Q K^T) is computed anew from the forward pass's lse, dP = dO V^T and
// dS = P (dP - delta), delta = rowsum(dO out).
//
// One thread block owns BLOCK_N keys of one head and walks over the query rows that see them, of
// all query heads that share the key head, BLOCK_M at a time; then, where there are fewer thread
// blocks than of these, it takes others. Warpgroup 0 is the producer: one
// thread of it keeps the copy engine (TMA) busy, and a warp brings lse and delta. The others, the
// consumers, have 64 keys each. S and dP are computed transposed, so that P^T and dS^T are A of the
// products that they go into, from registers.
// dQ needs the dS of all keys, which passes through shared memory: each consumer computes half of
// its columns, of a step within the next one, when the dS of all is there. Two threads of warpgroup
// 0 have the copy engine add it up.
//
// Pressed from templates/attention/flash_bwd_sm90.cu.j2 with tile m64n128s2d8 by
//   python -m generator --pass bwd --hdim 128 --dtype bf16 --causal --arch sm90

#include "attnpress/args/attention.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/gradient.cuh"
#include "attnpress/device/gradient_bulk.cuh"
#include "attnpress/device/gradient_order.cuh"
#include "attnpress/device/gradient_rows.cuh"
#include "attnpress/device/gradient_store.cuh"
#include "attnpress/device/gradient_take.cuh"
#include "attnpress/device/gradient_zero.cuh"
#include "attnpress/device/pipeline.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/ptx_ldmatrix.cuh"
#include "attnpress/device/ptx_mbarrier.cuh"
#include "attnpress/device/ptx_tma.cuh"
#include "attnpress/device/ptx_warpgroup.cuh"
#include "attnpress/device/ptx_wgmma.cuh"
#include "attnpress/device/wgmma/ptx_wgmma_n64.cuh"
#include "attnpress/device/wgmma/ptx_wgmma_n128.cuh"
#include "attnpress/device/score.cuh"
#include "attnpress/device/tile.cuh"

constexpr int HEAD_DIM = 128;
constexpr int HEAD_DIM_V = 128;
constexpr Dtype DTYPE = BF16;
constexpr bool CAUSAL = true;
constexpr int BLOCK_M = 64; // query rows of a step
constexpr int BLOCK_N = 128; // keys of a thread block
constexpr int STAGES = 2; // steps of Q, dO, lse and delta in shared memory
constexpr int SMEM_BYTES = 197760;
constexpr int PRODUCER_REGISTERS = 24; // of a thread
constexpr int CONSUMER_REGISTERS = 240;

constexpr int CONSUMERS = BLOCK_N / 64;
constexpr int CONSUMER_THREADS = 128 * CONSUMERS;
constexpr int NUM_THREADS = 128 + CONSUMER_THREADS;
constexpr int S_TILES = BLOCK_M / 8; // of 8 queries
constexpr int S_STEPS = ceil_div(HEAD_DIM, 16); // of 16 columns, of K Q^T
constexpr int DP_STEPS = ceil_div(HEAD_DIM_V, 16); // of V dO^T
constexpr int ROW_STEPS = BLOCK_M / 16; // of 16 queries, of P^T dO and dS^T Q
constexpr int KEY_STEPS = BLOCK_N / 16; // of 16 keys, of dS K
constexpr int DQ_TILES = 8; // of 8 columns, of a consumer's half of dQ
constexpr int K_TILES = HEAD_DIM / 8; // of 8 columns
constexpr int V_TILES = HEAD_DIM_V / 8;

// Shared memory: K | V | ring of Q | ring of dO |
// dS^T of two steps | dQ of a step | ring of lse and delta | barriers.
// Matrices are stored as slabs of 64 columns, rows of 128 bytes in the 128-byte swizzle; columns
// past the head dim are zeros.
constexpr int K_SLABS = ceil_div(HEAD_DIM, 64);
constexpr int V_SLABS = ceil_div(HEAD_DIM_V, 64);
constexpr int KEY_SLAB_BYTES = BLOCK_N * 128; // of K and V
constexpr int ROW_SLAB_BYTES = BLOCK_M * 128; // of Q and dO
constexpr int Q_BYTES = K_SLABS * ROW_SLAB_BYTES; // of one step
constexpr int DO_BYTES = V_SLABS * ROW_SLAB_BYTES;
constexpr int V_OFFSET = K_SLABS * KEY_SLAB_BYTES;
constexpr int Q_OFFSET = V_OFFSET + V_SLABS * KEY_SLAB_BYTES;
constexpr int DO_OFFSET = Q_OFFSET + STAGES * Q_BYTES;
constexpr int DS_OFFSET = DO_OFFSET + STAGES * DO_BYTES;
constexpr int DS_ROW_BYTES = BLOCK_M * 2; // in slabs, as A of dQ
constexpr int DS_BYTES = BLOCK_N * DS_ROW_BYTES; // of one step
// fp32, of each warp a row tile, as it lies in dQ's sum.
constexpr int DQ_OFFSET = DS_OFFSET + 2 * DS_BYTES;
constexpr int DQ_WARP_BYTES = 16 * 64 * 4;
constexpr int ROWS_OFFSET = DQ_OFFSET + 8 * DQ_WARP_BYTES;
constexpr int ROWS_BYTES = BLOCK_M * 8; // lse, then delta, of one step
constexpr int BARRIER_OFFSET = ROWS_OFFSET + STAGES * ROWS_BYTES;
static_assert(SMEM_BYTES >= BARRIER_OFFSET + 8 * (6 + 3 * STAGES + 4), "shared memory");
static_assert(BLOCK_M == 64 && BLOCK_N == 128, "a warpgroup has 64 rows, and dQ two turns");

// The barriers, by their shared addresses. At a "full" one the producer's arrivals, and the bytes
// of the copy engine, hand what they brought to the consumers, which wait. At an "empty" one each
// warp that has read arrives, the producer waits, and it hands the space back; dS goes from all
// consumers to the warps that compute dQ, dQ to the thread that has it added up.
__device__ __forceinline__ uint32_t k_full(uint32_t shared) {
  return shared + BARRIER_OFFSET;
}
__device__ __forceinline__ uint32_t v_full(uint32_t shared) {
  return shared + BARRIER_OFFSET + 8;
}
__device__ __forceinline__ uint32_t ds_full(uint32_t shared, int turn) {
  return shared + BARRIER_OFFSET + 16 + 8 * turn;
}
__device__ __forceinline__ uint32_t ds_empty(uint32_t shared, int turn) {
  return shared + BARRIER_OFFSET + 32 + 8 * turn;
}
__device__ __forceinline__ uint32_t q_full(uint32_t shared, int stage) {
  return shared + BARRIER_OFFSET + 48 + 8 * stage;
}
__device__ __forceinline__ uint32_t do_full(uint32_t shared, int stage) {
  return q_full(shared, STAGES + stage);
}
__device__ __forceinline__ uint32_t step_empty(uint32_t shared, int stage) {
  return q_full(shared, 2 * STAGES + stage);
}
// Of a place of dQ.
__device__ __forceinline__ uint32_t dq_full(uint32_t shared, int place) {
  return q_full(shared, 3 * STAGES + place);
}
__device__ __forceinline__ uint32_t dq_empty(uint32_t shared, int place) {
  return q_full(shared, 3 * STAGES + 2 + place);
}
constexpr int TAKE_READERS = NUM_THREADS / 32 - 1; // warps that read what the first one takes

// A thread block's keys, and the steps of its walk: `steps` of them, rows `row_begin` to
// `row_end` - 1 of each of the query heads from `first_head` on.
struct Work {
  int batch, kv_head, key_begin, first_head;
  int row_begin, row_end, steps;
  int part; // of the group's walk; -1: it is whole, where other key blocks have parts
  int walk_begin; // where the walk begins in the first head; in others, at row_begin
  Progress before; // of the thread block
};

// Which of a head's key blocks a thread block has, of which key head of all batches, and which part
// of its walk.
struct KeyPart {
  int key_block, head, part, parts;
};

__device__ __forceinline__ KeyPart find_part(const attnpress_bwd_args *args, int block) {
  if (!shares_by_steps(args)) {
    const int number = block / args->blocks;
    return {block % args->blocks, number / args->group_parts, number % args->group_parts,
            args->group_parts};
  }
  const int heads = args->batch * args->heads_kv, whole = whole_blocks_of(args);
  const bool is_whole = block < whole * heads;
  // The longest walks come first.
  if (is_whole)
    return {block / heads, block % heads, 0, 1};
  block -= whole * heads;
  const int number = block / args->group_parts;
  return {whole + number / heads, number % heads, block % args->group_parts, args->group_parts};
}

// Whether thread blocks share the walk of a key block, whose dK and dV are added up later.
__device__ __forceinline__ bool is_shared(const attnpress_bwd_args *args, const Work *work) {
  return args->dk_sum != nullptr && work->part >= 0;
}

// The thread blocks that have the same query heads as this one are unit_of() of all.
__device__ __forceinline__ int unit_of(const attnpress_bwd_args *args, const Work *work) {
  return (work->batch * args->heads_kv + work->kv_head) * args->group_parts + work->part;
}

__device__ __forceinline__ Work find_work(const attnpress_bwd_args *args, int index) {
  const int block = block_in_turn(args, index, blocks_of_call(args));
  Work work;
  // Causal: the first keys are seen by the most rows, and the longest key blocks come first.
  const KeyPart at = find_part(args, block);
  const int head = at.head;
  work.key_begin = at.key_block * BLOCK_N;
  work.kv_head = head % args->heads_kv;
  work.batch = head / args->heads_kv;
  // Its part of the query heads that share the key head.
  const int all = args->heads_q / args->heads_kv;
  const bool by_steps = shares_by_steps(args);
  work.part = by_steps && at.parts == 1 ? -1 : at.part;
  const int first = by_steps ? 0 : at.part * all / at.parts;
  const int group = by_steps ? all : (at.part + 1) * all / at.parts - first;
  work.first_head = work.kv_head * all + first;
  // Rows before the first that sees one of the keys are skipped.
  const int first_block =
      CAUSAL ? max(0, work.key_begin - args->seqlen_k + args->seqlen_q) / BLOCK_M : 0;
  const int blocks = max(0, ceil_div(args->seqlen_q, BLOCK_M) - first_block);
  work.row_begin = first_block * BLOCK_M;
  work.row_end = work.row_begin + blocks * BLOCK_M;
  work.steps = blocks * group;
  work.walk_begin = work.row_begin;
  if (by_steps && work.steps > 0) {
    const int begin = at.part * work.steps / at.parts;
    work.steps = (at.part + 1) * work.steps / at.parts - begin;
    work.first_head += begin / blocks;
    work.walk_begin += begin % blocks * BLOCK_M;
  }
  return work;
}

// What a thread block takes, in two places by turns.
__shared__ Work works[2];
// Of the thread block behind that work.
__device__ __forceinline__ Progress progress_behind(const Work *work) {
  return {work->before.steps + work->steps, work->before.keys + (work->steps > 0)};
}

// Key block `number`, for all warps to read: it begins at -1 where there are not so many. One warp.
__device__ __forceinline__ void write_work(Work *work, const attnpress_bwd_args *args,
                                           int number) {
  Work found = {};
  found.key_begin = -1;
  if (number < blocks_of_call(args))
    found = find_work(args, number);
  if (threadIdx.x % 32 == 0)
    *work = found;
}

// A step of the walk.
struct Step {
  int head, row;
};

__device__ __forceinline__ Step step_after(Step step, const Work *work) {
  step.row += BLOCK_M;
  return step.row == work->row_end ? Step{step.head + 1, work->row_begin} : step;
}

// ---- The producer ----

// One thread: K of the block's keys.
__device__ __forceinline__ void load_keys(const attnpress_bwd_sm90_args *args, uint32_t shared,
                                          const Work *work) {
  const uint32_t full = k_full(shared);
  const int row = work->key_begin, batch = work->batch;
  mbarrier_arrive_expect(full, K_SLABS * KEY_SLAB_BYTES);
#pragma unroll
  for (int slab = 0; slab < K_SLABS; ++slab)
    tma_load_4d(shared + slab * KEY_SLAB_BYTES, &args->k, full, slab * 64, row, work->kv_head,
                batch);
}

// One thread: Q and dO of step `n`, and K and V behind the first.
__device__ __forceinline__ void load_step(const attnpress_bwd_sm90_args *args, uint32_t shared,
                                          const Work *work, int n, Step step, Stage stage) {
  // The consumers' warps arrived; hands over the space of the step that was here a round ago.
  wait_for_phase(step_empty(shared, stage.index), stage.parity ^ 1);
  const uint32_t q = q_full(shared, stage.index), dout = do_full(shared, stage.index);
  const uint32_t v = v_full(shared);
  const int row = step.row, batch = work->batch;
  const int key = work->key_begin, key_batch = work->batch;
  mbarrier_arrive_expect(q, Q_BYTES);
#pragma unroll
  for (int slab = 0; slab < K_SLABS; ++slab)
    tma_load_4d(shared + Q_OFFSET + stage.index * Q_BYTES + slab * ROW_SLAB_BYTES, &args->q, q,
                slab * 64, row, step.head, batch);
  mbarrier_arrive_expect(dout, DO_BYTES);
#pragma unroll
  for (int slab = 0; slab < V_SLABS; ++slab)
    tma_load_4d(shared + DO_OFFSET + stage.index * DO_BYTES + slab * ROW_SLAB_BYTES, &args->dout,
                dout, slab * 64, row, step.head, batch);
  if (n == 0) {
    // The consumers arrived: hands over the place of the K and V before.
    wait_for_phase(keys_empty(), work->before.keys % 2 ^ 1);
    load_keys(args, shared, work);
    mbarrier_arrive_expect(v, V_SLABS * KEY_SLAB_BYTES);
#pragma unroll
    for (int slab = 0; slab < V_SLABS; ++slab)
      tma_load_4d(shared + V_OFFSET + slab * KEY_SLAB_BYTES, &args->v, v, slab * 64, key,
                  work->kv_head, key_batch);
  }
}

// Four of a step's rows of lse, or, from lane 16 on, of delta.
__device__ __forceinline__ float4 fetch_rows(const attnpress_bwd_args *args, const Work *work,
                                             Step step) {
  const int lane = threadIdx.x % 32;
  const int64_t from =
      ((int64_t)work->batch * args->heads_q + step.head) * args->row_tiles * 16 + step.row;
  return *(const float4 *)((lane < 16 ? args->lse_log2 : args->delta) + from + lane % 16 * 4);
}

// One warp: these rows, to where they belong.
__device__ __forceinline__ void store_rows(unsigned char *smem, uint32_t shared, float4 four,
                                           Stage stage) {
  // The consumers' warps arrived; hands over the space of the step that was here a round ago.
  wait_for_phase(step_empty(shared, stage.index), stage.parity ^ 1);
  *(float4 *)(smem + ROWS_OFFSET + stage.index * ROWS_BYTES + threadIdx.x % 32 * 16) = four;
  // The warp's lanes arrive and wait, so that one arrival stands for all.
  __syncwarp();
  arrive_once(q_full(shared, stage.index));
}

// One thread: K and V of the block's keys, and Q and dO of each step.
__device__ __forceinline__ void produce(const attnpress_bwd_sm90_args *args, uint32_t shared,
                                        const Work *work) {
  Step step = {work->first_head, work->walk_begin};
  Stage stage = progress_stage(work->before, STAGES);
  for (int n = 0; n < work->steps; ++n) {
    load_step(args, shared, work, n, step, stage);
    stage = next_stage(stage, STAGES);
    step = step_after(step, work);
  }
}

// One warp: lse and delta of each step, four rows a lane.
__device__ __forceinline__ void produce_rows(const attnpress_bwd_args *args, unsigned char *smem,
                                             uint32_t shared, const Work *work) {
  Step step = {work->first_head, work->walk_begin};
  Stage stage = progress_stage(work->before, STAGES);
  for (int n = 0; n < work->steps; ++n) {
    store_rows(smem, shared, fetch_rows(args, work, step), stage);
    stage = next_stage(stage, STAGES);
    step = step_after(step, work);
  }
}
// ---- The consumers ----

// Starts S^T = K Q^T, (64, BLOCK_M), as a group of its own.
__device__ __forceinline__ void start_scores(float score[S_TILES * 4], uint32_t shared,
                                             int consumer, int stage) {
  const uint64_t k = wgmma_descriptor(shared + consumer * 64 * 128, 1024, 0);
  const uint64_t q = wgmma_descriptor(shared + Q_OFFSET, 1024, 0) + stage * (Q_BYTES / 16);
  wgmma_order_n64(score);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < S_STEPS; ++step)
    wgmma_m64n64k16_bf16_ss(score, k + (step / 4 * KEY_SLAB_BYTES + step % 4 * 32) / 16,
                             q + (step / 4 * ROW_SLAB_BYTES + step % 4 * 32) / 16, step > 0);
  wgmma_commit();
}

// Starts dP^T = V dO^T, (64, BLOCK_M), as a group of its own.
__device__ __forceinline__ void start_dp(float dp[S_TILES * 4], uint32_t shared, int consumer,
                                         int stage) {
  const uint64_t v = wgmma_descriptor(shared + V_OFFSET + consumer * 64 * 128, 1024, 0);
  const uint64_t dout = wgmma_descriptor(shared + DO_OFFSET, 1024, 0) + stage * (DO_BYTES / 16);
  wgmma_order_n64(dp);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < DP_STEPS; ++step)
    wgmma_m64n64k16_bf16_ss(dp, v + (step / 4 * KEY_SLAB_BYTES + step % 4 * 32) / 16,
                             dout + (step / 4 * ROW_SLAB_BYTES + step % 4 * 32) / 16, step > 0);
  wgmma_commit();
}

// Starts dV += P^T dO, (64, HEAD_DIM_V), as a group of its own.
__device__ __forceinline__ void start_dv(float dv[V_TILES * 4], const uint32_t p[ROW_STEPS][4],
                                         uint32_t shared, int stage) {
  const uint64_t dout =
      wgmma_descriptor(shared + DO_OFFSET, 1024, ROW_SLAB_BYTES) + stage * (DO_BYTES / 16);
  wgmma_order_n128(dv);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < ROW_STEPS; ++step)
    wgmma_m64n128k16_bf16_rs_trans(dv, p[step], dout + step * 16 * 128 / 16, 1);
  wgmma_commit();
}

// Starts dK += dS^T Q, (64, HEAD_DIM), as a group of its own.
__device__ __forceinline__ void start_dk(float dk[K_TILES * 4], const uint32_t ds[ROW_STEPS][4],
                                         uint32_t shared, int stage) {
  const uint64_t q =
      wgmma_descriptor(shared + Q_OFFSET, 1024, ROW_SLAB_BYTES) + stage * (Q_BYTES / 16);
  wgmma_order_n128(dk);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < ROW_STEPS; ++step)
    wgmma_m64n128k16_bf16_rs_trans(dk, ds[step], q + step * 16 * 128 / 16, 1);
  wgmma_commit();
}

// Hands a warp's part of a step's dQ, 8 `tiles` columns, to the thread that has it added up. At
// `empty` that thread arrived, when the copy engine had read what was there: hands over the place.
__device__ __forceinline__ void hand_over_dq(const attnpress_bwd_args *args, unsigned char *smem,
                                             uint32_t shared, int place, uint32_t empty, int parity,
                                             const Work *work, Step step, const float *dq,
                                             int tiles) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  wait_for_phase(empty, parity);
  store_for_sum((float *)(smem + DQ_OFFSET + (place * 4 + warp) * DQ_WARP_BYTES), dq, tiles, lane);
  // The warp's lanes arrive and wait, so that one arrival stands for all.
  __syncwarp();
  arrive_once(dq_full(shared, place));
}

// One thread for each place of dQ: has the copy engine add what comes there to its sum.
__device__ __forceinline__ void add_up(const attnpress_bwd_args *args, uint32_t shared,
                                       const Work *work, int place) {
  const int first = place * DQ_TILES, tiles = place == 0 ? DQ_TILES : K_TILES - DQ_TILES;
  const uint32_t source = shared + DQ_OFFSET + place * 4 * DQ_WARP_BYTES;
  const int steps = work->steps, row_begin = work->row_begin, row_end = work->row_end;
  const int before = work->before.steps;
  wait_for_zeros(args, unit_of(args, work), 2);
  float *sum =
      args->dq_sum +
      sum_offset(args, work->batch, work->first_head, work->walk_begin / 16,
                 HEAD_DIM);
  for (int n = 0, row = work->walk_begin; n < steps; ++n) {
    // The warps arrived: hands over their dQ. The fence is here, as they would wait at it.
    wait_for_phase(dq_full(shared, place), (before + n) % 2);
    fence_proxy_async();
#pragma unroll
    for (int warp = 0; warp < 4; ++warp)
      if (row + warp * 16 < args->seqlen_q)
        bulk_add(sum + (warp * K_TILES + first) * 128, source + warp * DQ_WARP_BYTES, tiles * 512);
    bulk_commit();
    bulk_wait_read(0);
    mbarrier_arrive(dq_empty(shared, place));
    row += BLOCK_M;
    sum += BLOCK_M / 16 * K_TILES * 128;
    if (row == row_end) { // the next head
      row = row_begin;
      sum += (args->sum_tiles - (row_end - row_begin) / 16) * (int64_t)K_TILES * 128;
    }
  }
}

// Starts dQ = dS K, (BLOCK_M, 64), of all keys of the block and the consumer's columns, as a group
// of its own.
__device__ __forceinline__ void start_dq(float dq[DQ_TILES * 4], uint32_t shared, int consumer,
                                         int turn) {
  const uint64_t ds = wgmma_descriptor(shared + DS_OFFSET, 1024, DS_BYTES) + turn * (DS_BYTES / 16);
  const uint64_t k = wgmma_descriptor(shared + consumer * KEY_SLAB_BYTES, 1024, KEY_SLAB_BYTES);
  wgmma_order_n64(dq);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < KEY_STEPS; ++i)
    wgmma_m64n64k16_bf16_ss_trans_both(dq, ds + i * 16 * 128 / 16, k + i * 16 * 128 / 16, i > 0);
  wgmma_commit();
}

__device__ __forceinline__ Step step_before(Step step, const Work *work) {
  if (step.row == work->row_begin)
    step = {step.head - 1, work->row_end};
  step.row -= BLOCK_M;
  return step;
}

// Scores that do not count become -inf.
__device__ __forceinline__ void mask_block(float score[S_TILES * 4],
                                           const attnpress_bwd_args *args, int key, int row) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half)
    mask_scores(score, S_TILES, half,
                queries_at(key + half * 8 + lane / 4, CAUSAL, args->seqlen_q, args->seqlen_k),
                row + lane % 4 * 2);
}

// One consumer: 64 keys.
__device__ __forceinline__ void consume(const attnpress_bwd_args *args, unsigned char *smem,
                                        uint32_t shared, const Work *work, int consumer) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const int first_key = work->key_begin + consumer * 64;
  float dk[K_TILES * 4] = {}, dv[V_TILES * 4] = {};
  // This thread's first place in dS^T, of whose rows the chunks of 8 queries are swizzled: another
  // chunk's differs by ^.
  const int ds_place = DS_OFFSET + (consumer * 64 + warp * 16 + lane / 4) * DS_ROW_BYTES +
                       lane / 4 * 16 + lane % 4 * 4;
  Step step = {work->first_head, work->walk_begin};
  const int before = work->before.steps;
  Stage stage = progress_stage(work->before, STAGES);
  if (work->steps > 0) // the copy engine hands over K
    wait_for_phase(k_full(shared), work->before.keys % 2);
  for (int n = 0; n < work->steps; ++n) {
    const int turn = (before + n) % 2, turn_parity = (before + n) / 2 % 2;
    float score[S_TILES * 4], dp[S_TILES * 4];
    uint32_t p[ROW_STEPS][4], ds[ROW_STEPS][4];
    // The producer and the copy engine hand over Q, lse and delta.
    wait_for_phase(q_full(shared, stage.index), stage.parity);
    start_scores(score, shared, consumer, stage.index);
    const float *const lse_log2 =
        (const float *)(smem + ROWS_OFFSET + stage.index * ROWS_BYTES) + lane % 4 * 2;
    float2 lse[S_TILES]; // while the products run: shared memory is busy then
#pragma unroll
    for (int tile = 0; tile < S_TILES; ++tile)
      lse[tile] = *(const float2 *)(lse_log2 + tile * 8);
    // The copy engine hands over dO, and V with the first.
    wait_for_phase(do_full(shared, stage.index), stage.parity);
    if (n == 0)
      wait_for_phase(v_full(shared), work->before.keys % 2);
    start_dp(dp, shared, consumer, stage.index);
    wgmma_wait(1);
    wgmma_order_n64(score);

    const bool masked = first_key + 64 > args->seqlen_k ||
                        step.row - args->seqlen_q + args->seqlen_k < first_key + 63;
    if (masked)
      mask_block(score, args, first_key + warp * 16, step.row);
    recompute_from_pairs(score, S_TILES, lse, args->scale_log2);
    round_probabilities(p[0], score, S_TILES, DTYPE);
    start_dv(dv, p, shared, stage.index);
    // All consumers' warps arrived: hands over their dS of the step before. The fence is here, as
    // no stores of this warp's own are under way that it would wait for.
    wait_for_phase(ds_full(shared, turn ^ 1), turn_parity ^ turn ^ 1);
    fence_proxy_async();
    wgmma_wait(1);
    wgmma_order_n64(dp);
    differentiate_scores(dp, score, S_TILES, true, lse_log2 + BLOCK_M);
    round_probabilities(ds[0], dp, S_TILES, DTYPE);

    // All consumers arrived: hands over the place of dS of the step before last.
    wait_for_phase(ds_empty(shared, turn), turn_parity ^ turn ^ 1);
#pragma unroll
    for (int i = 0; i < S_TILES * 2; ++i)
      *(uint32_t *)(smem + (ds_place ^ i / 2 * 16) + turn * DS_BYTES + i % 2 * 8 * DS_ROW_BYTES) =
          ds[0][i];
    // The warp's lanes arrive and wait, so that one arrival stands for all: here and below.
    __syncwarp();
    arrive_once(ds_full(shared, turn));
    // dQ of the step before: nobody waits for the other's dS then. In the first step, of whatever
    // lies there, for nothing: ptxas serializes products that a branch may leave out.
    float dq[DQ_TILES * 4];
    start_dq(dq, shared, consumer, turn ^ 1);
    start_dk(dk, ds, shared, stage.index);
    wgmma_wait(1);
    wgmma_order_n128(dv);
    wgmma_order_n64(dq);
    __syncwarp();
    arrive_once(ds_empty(shared, turn ^ 1));
    if (n > 0)
      hand_over_dq(args, smem, shared, consumer, dq_empty(shared, consumer), turn, work,
                   step_before(step, work), dq, DQ_TILES);
    wgmma_wait(0);
    wgmma_order_n128(dk);
    arrive_once(step_empty(shared, stage.index));
    stage = next_stage(stage, STAGES);
    step = step_after(step, work);
  }
  if (work->steps > 0) {
    const int last = before + work->steps - 1;
    const int turn = last % 2;
    float dq[DQ_TILES * 4];
    wait_for_phase(ds_full(shared, turn), last / 2 % 2);
    fence_proxy_async();
    start_dq(dq, shared, consumer, turn);
    wgmma_wait(0);
    wgmma_order_n64(dq);
    hand_over_dq(args, smem, shared, consumer, dq_empty(shared, consumer), turn ^ 1, work,
                 step_before(step, work), dq, DQ_TILES);
  }
  // All consumers arrive and wait: K, V and all steps have been read.
  if (work->steps > 0) {
    named_barrier_sync(2, NUM_THREADS - 128);
    if (threadIdx.x == 128) // hands over the place of K and V
      mbarrier_arrive(keys_empty());
  }
  if (is_shared(args, work)) { // other blocks have other parts of the walk
    const int tile = (work->key_begin + consumer * 64) / 16 + warp;
    store_for_sum(args->dk_sum + key_sum_offset(args, work->part, work->batch, work->kv_head, tile,
                                                HEAD_DIM),
                  dk, K_TILES, lane);
    store_for_sum(args->dv_sum + key_sum_offset(args, work->part, work->batch, work->kv_head, tile,
                                                HEAD_DIM_V),
                  dv, V_TILES, lane);
    return;
  }
  const int first_row = consumer * 64 + warp * 16;
  const int valid = args->seqlen_k - work->key_begin - first_row;
  const int key_batch = work->batch, key_row = work->key_begin + first_row;
  uint16_t *const dk_rows = (uint16_t *)args->dk + key_batch * args->dk_batch_stride +
                            work->kv_head * args->dk_head_stride + key_row * args->dk_row_stride;
  uint16_t *const dv_rows = (uint16_t *)args->dv + key_batch * args->dv_batch_stride +
                            work->kv_head * args->dv_head_stride + key_row * args->dv_row_stride;
  // From registers: the places of K, V and the steps are those of the next keys by now.
  store_rows_of_warp(dk_rows, args->dk_row_stride, dk, K_TILES, K_TILES, valid, DTYPE,
                     args->scale, args->accumulate, lane);
  store_rows_of_warp(dv_rows, args->dv_row_stride, dv, V_TILES, V_TILES, valid, DTYPE, 1.0f,
                     args->accumulate, lane);
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 1)
    flash_bwd_hdim128_bf16_causal_sm90(
        const __grid_constant__ attnpress_bwd_sm90_args args) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const uint32_t shared = shared_address(smem);
  const attnpress_bwd_sm90_args *const maps = &args;
  if (threadIdx.x == 0) {
    prefetch_tensor_map(&maps->q);
    prefetch_tensor_map(&maps->dout);
    prefetch_tensor_map(&maps->k);
    prefetch_tensor_map(&maps->v);
    mbarrier_init(k_full(shared), 1);
    mbarrier_init(v_full(shared), 1);
    for (int turn = 0; turn < 2; ++turn) {
      mbarrier_init(ds_full(shared, turn), 4 * CONSUMERS);
      mbarrier_init(ds_empty(shared, turn), 4 * CONSUMERS);
    }
    for (int place = 0; place < 2; ++place)
      mbarrier_init(dq_full(shared, place), 4);
    for (int i = 0; i < 2; ++i)
      mbarrier_init(dq_empty(shared, i), 1);
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(q_full(shared, stage), 2);
      mbarrier_init(do_full(shared, stage), 1);
      mbarrier_init(step_empty(shared, stage), 4 * CONSUMERS);
    }
    init_take_barriers(TAKE_READERS);
    works[1].before = {0, 0}; // of which the first work is what comes behind
    works[1].steps = 0;
    fence_mbarrier_init();
  }
  // All threads arrive and wait: hands over the barriers.
  __syncthreads();

  // Read from lane 0, so that the compiler knows it to be the same in the whole warp.
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  // bwd_delta may still run: all but what brings Q, K, V and dO wait for its end.
  if (warp != 0)
    griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  if (warp == 0) {
    if (args.bwd.taken != nullptr)
      griddepcontrol_wait();
    decrease_registers(PRODUCER_REGISTERS);
    for (int turn = 0;; ++turn) {
      // All other warps arrived: hands over the place of what was taken before last.
      wait_for_phase(work_empty(turn % 2), turn / 2 % 2 ^ 1);
      const int number =
          take_work(&args.bwd, turn == 0);
      write_work(&works[turn % 2], &args.bwd, number);
      if (threadIdx.x == 0)
        works[turn % 2].before = progress_behind(&works[turn % 2 ^ 1]);
      // The warp's lanes arrive and wait, so that one arrival stands for all: here and below.
      __syncwarp();
      arrive_once(work_full(turn % 2));
      if (works[turn % 2].key_begin < 0)
        break;
      const Work copy = works[turn % 2], *const work = &copy;
      if (threadIdx.x == 0 && work->steps > 0)
        produce(maps, shared, work);
      __syncwarp();
    }
  } else if (warp == 1) {
    decrease_registers(PRODUCER_REGISTERS);
    for (int turn = 0;; ++turn) {
      wait_for_phase(work_full(turn % 2), turn / 2 % 2); // the first warp hands over work
      if (works[turn % 2].key_begin < 0)
        break;
      const Work copy = works[turn % 2], *const work = &copy;
      const attnpress_bwd_args &bwd = args.bwd;
      produce_rows(&bwd, smem, shared, work);
      __syncwarp();
      arrive_once(work_empty(turn % 2));
    }
  } else if (warp < 4) {
    decrease_registers(PRODUCER_REGISTERS);
    for (int turn = 0;; ++turn) {
      wait_for_phase(work_full(turn % 2), turn / 2 % 2); // the first warp hands over work
      if (works[turn % 2].key_begin < 0)
        break;
      const Work *const work = &works[turn % 2];
      const attnpress_bwd_args &bwd = args.bwd;
      zero_ahead(&bwd, unit_of(&bwd, work), work->key_begin / BLOCK_N, HEAD_DIM, warp - 2, 2);
      if (threadIdx.x == 64)
        add_up(&bwd, shared, work, 0);
      if (threadIdx.x == 96)
        add_up(&bwd, shared, work, 1);
      __syncwarp();
      arrive_once(work_empty(turn % 2));
    }
  } else {
    increase_registers(CONSUMER_REGISTERS);
    for (int turn = 0;; ++turn) {
      wait_for_phase(work_full(turn % 2), turn / 2 % 2); // the first warp hands over work
      if (works[turn % 2].key_begin < 0)
        break;
      const Work work = works[turn % 2];
      const attnpress_bwd_args &bwd = args.bwd;
      consume(&bwd, smem, shared, &work, warp / 4 - 1);
      __syncwarp();
      arrive_once(work_empty(turn % 2));
    }
  }
}
