// flash_fwd_hdim64_bf16_causal_long_sm90
//
// The forward pass: out = softmax(scale * Q K^T) V.
// Q, K, V and out are bf16, sums are fp32. docs/hopper.md explains the pipeline with a picture.
//
// Warpgroup 0 is the producer: one thread of it keeps the copy engine (TMA) busy. Each of the other
// warpgroups, the consumers, computes 64 query rows, of one head or of heads that share their keys;
// they walk over the same key blocks of BLOCK_N keys from right to left (online softmax: Milakov
// and Gimelshein 2018, Dao et al. 2022). A consumer's softmax of one key block runs under its own
// product P V of the block before, and under the products of the other consumers, with which it
// takes turns (Shah et al. 2024). A thread block works through many units of work, and their key
// blocks are one stream: where a consumer's rows see a unit's first block, its product runs with
// the last one of the unit before.
//
// Pressed from templates/attention/flash_fwd_sm90.cu.j2 with tile m192n128s3 by
//   python -m generator --hdim 64 --dtype bf16 --causal --long-rows --arch sm90

#include "attnpress/args/attention.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/epilogue.cuh"
#include "attnpress/device/pipeline.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_mbarrier.cuh"
#include "attnpress/device/ptx_tma.cuh"
#include "attnpress/device/ptx_warpgroup.cuh"
#include "attnpress/device/ptx_wgmma.cuh"
#include "attnpress/device/wgmma/ptx_wgmma_n128.cuh"
#include "attnpress/device/wgmma/ptx_wgmma_n64.cuh"
#include "attnpress/device/score.cuh"
#include "attnpress/device/softmax.cuh"
#include "attnpress/device/softmax_limits.cuh"
#include "attnpress/device/tile.cuh"
#include "attnpress/device/work.cuh"

constexpr int HEAD_DIM = 64;
constexpr int HEAD_DIM_V = 64;
constexpr Dtype DTYPE = BF16;
constexpr bool CAUSAL = true;
constexpr bool SPLIT = false;
constexpr bool DROPOUT = false;
constexpr int BLOCK_M = 192; // query rows of a thread block
constexpr int BLOCK_N = 128; // keys of a key block
constexpr int STAGES = 3; // key blocks of K, and of V, in shared memory
constexpr int SMEM_BYTES = 123024;
constexpr int PRODUCER_REGISTERS = 32; // of a thread
constexpr int CONSUMER_REGISTERS = 160;

constexpr int CONSUMERS = BLOCK_M / 64;
constexpr int NUM_THREADS = 128 * (1 + CONSUMERS);
constexpr int K_STEPS = ceil_div(HEAD_DIM, 16); // of 16 columns, of Q K^T
constexpr int V_STEPS = BLOCK_N / 16; // of 16 keys, of P V
constexpr int S_TILES = BLOCK_N / 8; // of 8 keys
constexpr int O_TILES = HEAD_DIM_V / 8; // of 8 columns
// Shared memory: Q of each consumer | ring of K | ring of V | barriers. Matrices are stored as
// slabs of 64 columns, rows of 128 bytes in the 128-byte swizzle; columns past the head dim are
// zeros.
constexpr int K_SLABS = ceil_div(HEAD_DIM, 64);
constexpr int V_SLABS = ceil_div(HEAD_DIM_V, 64);
constexpr int Q_SLAB_BYTES = 64 * 128;
constexpr int KEY_SLAB_BYTES = BLOCK_N * 128; // of K and V
constexpr int Q_BYTES = K_SLABS * Q_SLAB_BYTES; // of one consumer
constexpr int K_BYTES = K_SLABS * KEY_SLAB_BYTES; // of one key block
constexpr int V_BYTES = V_SLABS * KEY_SLAB_BYTES; // of one key block
constexpr int K_OFFSET = CONSUMERS * Q_BYTES;
constexpr int V_OFFSET = K_OFFSET + STAGES * K_BYTES;
constexpr int BARRIER_OFFSET = V_OFFSET + STAGES * V_BYTES;
static_assert(SMEM_BYTES >= BARRIER_OFFSET + 8 * (2 * CONSUMERS + 4 * STAGES), "shared memory");
static_assert(BLOCK_M % 64 == 0 && BLOCK_N % 16 == 0 && BLOCK_N <= 256, "tile");
static_assert(KEY_SLAB_BYTES % 1024 == 0, "atoms of the swizzle");

// The barriers, by their shared addresses. At a "full" one the producer arrives once and names the
// bytes, consumers wait, and it hands them what the copy engine has written. At an "empty" one each
// warp that has read arrives, the producer waits, and it hands the space back.
__device__ __forceinline__ uint32_t q_full(uint32_t shared, int consumer) {
  return shared + BARRIER_OFFSET + 8 * consumer;
}
__device__ __forceinline__ uint32_t q_empty(uint32_t shared, int consumer) {
  return q_full(shared, CONSUMERS + consumer);
}
__device__ __forceinline__ uint32_t k_full(uint32_t shared, int stage) {
  return q_full(shared, 2 * CONSUMERS + stage);
}
__device__ __forceinline__ uint32_t k_empty(uint32_t shared, int stage) {
  return k_full(shared, STAGES + stage);
}
__device__ __forceinline__ uint32_t v_full(uint32_t shared, int stage) {
  return k_full(shared, 2 * STAGES + stage);
}
__device__ __forceinline__ uint32_t v_empty(uint32_t shared, int stage) {
  return k_full(shared, 3 * STAGES + stage);
}

// A unit of work: a row block of one head and one split of its keys.
struct Unit {
  int position_begin; // first query position
  int split;          // 0 where the keys are not split
  int tile_head;      // of ceil(heads_q / heads_per_tile)
  int batch;
  Range blocks; // key blocks
};

// The first and the last of the rows from a position on, or up to one, past which rows are not
// there.
__device__ __forceinline__ Row row_at_begin(const attnpress_fwd_args *fwd, int position) {
  return row_at(position, CAUSAL, fwd->seqlen_q, fwd->seqlen_k);
}

__device__ __forceinline__ Row row_at_end(const attnpress_fwd_args *fwd, int position_end) {
  return row_at_begin(fwd, min(position_end, fwd->seqlen_q) - 1);
}

// Behind the last position of a unit. The last row block ends with the sequence, and the one that
// is not full is the first, whose rows see fewest keys.
__device__ __forceinline__ int position_end(const attnpress_fwd_sm90_args *args,
                                            const Unit *unit) {
  const int positions = CONSUMERS * args->warpgroup_positions;
  return unit->position_begin > 0 ? unit->position_begin + positions
                                  : args->fwd.seqlen_q - (args->fwd.row_blocks - 1) * positions;
}

// Finds this thread block's unit of work of round `round`; false where there is none. Causal units
// differ in length, which the change of direction from round to round evens out; each group begins
// with a new pair of rounds.
__device__ __forceinline__ bool find_unit(Unit *unit, const attnpress_fwd_sm90_args *args,
                                          int round) {
  const attnpress_fwd_args *fwd = &args->fwd;
  const int blocks = gridDim.x;
  const int group = divide(round, &args->group_rounds);
  const int group_round = round - group * args->group_rounds.value;
  const int place = group_round % 2 == 0 ? blockIdx.x : blocks - 1 - blockIdx.x;
  const int group_unit = group_round * blocks + place;
  const int number = group * args->group_units + group_unit;
  const int section = divide(number, &args->section_units);
  const int section_unit = number - section * args->section_units.value;
  const int row_block = divide(section_unit, &args->section_heads);
  int head = section_unit + (section - row_block) * args->section_heads.value;
  if (group_unit >= args->group_units || head >= args->heads)
    return false;

  unit->split = 0;
  unit->batch = divide(head, &args->tile_heads);
  unit->tile_head = head - unit->batch * args->tile_heads.value;
  const int positions = CONSUMERS * args->warpgroup_positions;
  // Later rows see more keys, or no fewer, and the longest units come first.
  unit->position_begin = max(fwd->seqlen_q - (row_block + 1) * positions, 0);
  // Key blocks that no row sees are never loaded.
  unit->blocks = key_blocks(keys_of_some(row_at_begin(fwd, unit->position_begin),
                                         row_at_end(fwd, position_end(args, unit))),
                            BLOCK_N);
  return true;
}

// ---- The producer ----

// Loads the key block of K or V that begins at `row`, `slabs` slabs, into `target`, once `empty` is
// in `parity`.
__device__ __forceinline__ void load_keys(uint32_t target, const attnpress_tensor_map *map,
                                          uint32_t full, uint32_t empty, int parity, int slabs,
                                          int row, int kv_head, int batch) {
  // The consumers' warps arrived; hands over the space of the key block that was here a round ago.
  wait_for_phase(empty, parity);
  mbarrier_arrive_expect(full, slabs * KEY_SLAB_BYTES);
#pragma unroll
  for (int slab = 0; slab < slabs; ++slab)
    tma_load_4d(target + slab * KEY_SLAB_BYTES, map, full, slab * 64, row, kv_head, batch);
}

__device__ __forceinline__ void load_k(const attnpress_fwd_sm90_args *args, uint32_t shared,
                                       Stage *stage, int n, int kv_head, int batch) {
  load_keys(shared + K_OFFSET + stage->index * K_BYTES, &args->k, k_full(shared, stage->index),
            k_empty(shared, stage->index), stage->parity ^ 1, K_SLABS, n * BLOCK_N, kv_head,
            batch);
  *stage = next_stage(*stage, STAGES);
}

__device__ __forceinline__ void load_v(const attnpress_fwd_sm90_args *args, uint32_t shared,
                                       Stage *stage, int n, int kv_head, int batch) {
  load_keys(shared + V_OFFSET + stage->index * V_BYTES, &args->v, v_full(shared, stage->index),
            v_empty(shared, stage->index), stage->parity ^ 1, V_SLABS, n * BLOCK_N, kv_head,
            batch);
  *stage = next_stage(*stage, STAGES);
}

// Loads the consumers' rows of Q, each once its consumer has no more use for those of the unit
// before. Rows that no position fills keep what was there: they make rows of S that are not stored.
__device__ __forceinline__ void load_q(const attnpress_fwd_sm90_args *args, uint32_t shared,
                                       int parity, const Unit *unit) {
  const int positions = args->warpgroup_positions;
  for (int consumer = 0; consumer < CONSUMERS; ++consumer) {
    // The consumer's warps arrived after their last product with the Q that was here.
    wait_for_phase(q_empty(shared, consumer), parity ^ 1);
    const uint32_t full = q_full(shared, consumer);
    mbarrier_arrive_expect(full, K_SLABS * 128 * positions * args->fwd.heads_per_tile);
#pragma unroll
    for (int slab = 0; slab < K_SLABS; ++slab)
      tma_load_4d(shared + consumer * Q_BYTES + slab * Q_SLAB_BYTES, &args->q, full, slab * 64,
                  unit->tile_head * args->fwd.heads_per_tile,
                  unit->position_begin + consumer * positions, unit->batch);
  }
}

// The producer's one thread: loads each unit's Q, and K and V of its key blocks in the order of
// their use, K of one block before V of the block before.
__device__ __forceinline__ void produce(const attnpress_fwd_sm90_args *args, uint32_t shared) {
  const attnpress_fwd_args *fwd = &args->fwd;
  const int group = args->tile_heads.value / fwd->heads_kv; // tile heads of a key head
  Stage k_stage = {0, 0}, v_stage = {0, 0};
  int q_parity = 0;
  for (int round = 0; round < args->rounds; ++round) {
    Unit unit;
    if (!find_unit(&unit, args, round) || unit.blocks.end <= unit.blocks.begin)
      continue;
    const int kv_head = unit.tile_head / group;
    load_k(args, shared, &k_stage, unit.blocks.end - 1, kv_head, unit.batch);
    load_q(args, shared, q_parity, &unit);
    q_parity ^= 1;
    for (int n = unit.blocks.end - 1; n >= unit.blocks.begin; --n) {
      if (n > unit.blocks.begin)
        load_k(args, shared, &k_stage, n - 1, kv_head, unit.batch);
      load_v(args, shared, &v_stage, n, kv_head, unit.batch);
    }
  }
}

// ---- The consumers ----

// A consumer's walk over the key blocks of its units.
struct Walk {
  Unit unit;
  int round;
  int n;            // the key block
  int block_end;    // this consumer's rows see no key from this key block on
  Row rows[2];      // this thread's
  int key_unmasked; // all rows of the consumer see the keys below
};

// Moves on to the next unit; false after the last.
__device__ __forceinline__ bool next_unit(Walk *walk, const attnpress_fwd_sm90_args *args,
                                          int consumer) {
  do {
    if (++walk->round >= args->rounds)
      return false;
  } while (!find_unit(&walk->unit, args, walk->round));
  walk->n = walk->unit.blocks.end - 1;
  const attnpress_fwd_args *fwd = &args->fwd;
  const int positions = args->warpgroup_positions;
  const int position_begin = walk->unit.position_begin + consumer * positions;
  const int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half)
    walk->rows[half] =
        row_at_begin(fwd, position_begin + divide(row + half * 8, &args->heads_per_tile));
  const Row first = row_at_begin(fwd, position_begin);
  const Row last = row_at_end(fwd, position_begin + positions);
  walk->key_unmasked = keys_of_all(first, last).end;
  walk->block_end =
      min(walk->unit.blocks.end, key_blocks(keys_of_some(first, last), BLOCK_N).end);
  const int end = position_end(args, &walk->unit);
  if (position_begin >= end || walk->block_end < walk->unit.blocks.begin)
    walk->block_end = walk->unit.blocks.begin;
  return true;
}

// Whether this consumer's rows see the unit's last key block, with which the unit begins.
__device__ __forceinline__ bool sees_first_block(const Walk *walk) {
  return walk->block_end == walk->unit.blocks.end && walk->block_end > walk->unit.blocks.begin;
}

// Turns at the tensor cores, one a key block. At named barrier 1 + i consumer i waits, and the one
// before it, with which its last turn ends, arrives; they hand over no memory.
__device__ __forceinline__ void begin_turn(int consumer) {
  named_barrier_sync(1 + consumer, 256);
}

__device__ __forceinline__ void end_turn(int consumer) {
  named_barrier_arrive(1 + (consumer + 1) % CONSUMERS, 256);
}

// Lets a key block pass that no row of this consumer sees.
__device__ __forceinline__ void skip_block(uint32_t shared, int consumer, Stage stage) {
  // The wait keeps this warp's arrivals within one phase of the barriers.
  wait_for_phase(k_full(shared, stage.index), stage.parity);
  arrive_once(k_empty(shared, stage.index));
  begin_turn(consumer);
  end_turn(consumer);
  wait_for_phase(v_full(shared, stage.index), stage.parity);
  arrive_once(v_empty(shared, stage.index));
}

// Starts S = Q K^T, (64, BLOCK_N), as a group of its own.
__device__ __forceinline__ void start_scores(float score[S_TILES * 4], uint32_t shared,
                                             int consumer, int stage) {
  const uint64_t q = wgmma_descriptor(shared + consumer * Q_BYTES, 1024, 0);
  const uint64_t k = wgmma_descriptor(shared + K_OFFSET, 1024, 0) + stage * (K_BYTES / 16);
  wgmma_order_n128(score);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < K_STEPS; ++step) {
    const uint64_t q_step = q + (step / 4 * Q_SLAB_BYTES + step % 4 * 32) / 16;
    const uint64_t k_step = k + (step / 4 * KEY_SLAB_BYTES + step % 4 * 32) / 16;
    wgmma_m64n128k16_bf16_ss(score, q_step, k_step, step > 0);
  }
  wgmma_commit();
}

// Starts O += P V, (64, HEAD_DIM_V), as a group of its own.
__device__ __forceinline__ void start_output(float out[O_TILES * 4], uint32_t p[V_STEPS][4],
                                             uint32_t shared, int stage) {
  const uint64_t v =
      wgmma_descriptor(shared + V_OFFSET, 1024, KEY_SLAB_BYTES) + stage * (V_BYTES / 16);
  wgmma_order_n64(out);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < V_STEPS; ++step)
    wgmma_m64n64k16_bf16_rs_trans(out, p[step], v + step * 16 * 128 / 16, 1);
  wgmma_commit();
}

// Waits for S of the key block in `stage`, and hands its K back, and Q after the unit's last block.
__device__ __forceinline__ void finish_scores(float score[S_TILES * 4], int pending,
                                              uint32_t shared, int consumer, int stage,
                                              bool last_block) {
  wgmma_wait(pending);
  wgmma_order_n128(score);
  arrive_once(k_empty(shared, stage));
  if (last_block)
    arrive_once(q_empty(shared, consumer));
}

// Waits for O += P V.
__device__ __forceinline__ void finish_output(float out[O_TILES * 4]) {
  wgmma_wait(0);
  wgmma_order_n64(out);
}

// Starts S = Q K^T of the key block in `stage` and O += P V of the block before, in `last`, and
// waits for S.
__device__ __forceinline__ void exchange_blocks(float score[S_TILES * 4], float out[O_TILES * 4],
                                                uint32_t p[V_STEPS][4], uint32_t shared,
                                                int consumer, Stage stage, Stage last,
                                                bool last_block) {
  // The copy engine hands over K.
  wait_for_phase(k_full(shared, stage.index), stage.parity);
  begin_turn(consumer);
  start_scores(score, shared, consumer, stage.index);
  start_output(out, p, shared, last.index);
  end_turn(consumer);
  finish_scores(score, 1, shared, consumer, stage.index, last_block);
}

// Masks the scores of the walk's key block where some row does not see all its keys, and follows
// the rows' maxima.
__device__ __forceinline__ void follow_scores(float score[S_TILES * 4], float reference[2],
                                              float row_sum[2], float rescale[2], const Walk *walk,
                                              float scale_log2, RowLimits *limits, bool first) {
  if ((walk->n + 1) * BLOCK_N > walk->key_unmasked) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      mask_scores_by_bits(score, S_TILES, half, walk->rows[half],
                          walk->n * BLOCK_N + threadIdx.x % 4 * 2);
  }
  if (first)
    begin_limited_rows(score, S_TILES, reference, limits, rescale, scale_log2, DTYPE);
  else
    follow_limited_rows(score, S_TILES, reference, row_sum, limits, rescale, scale_log2, DTYPE);
}

// The same of a unit's first block, and makes P of them.
__device__ __forceinline__ void take_scores(float score[S_TILES * 4], float reference[2],
                                            float row_sum[2], float rescale[2], const Walk *walk,
                                            float scale_log2, RowLimits *limits) {
  follow_scores(score, reference, row_sum, rescale, walk, scale_log2, limits, true);
  add_limited_rows(score, S_TILES, limits, row_sum, scale_log2);
}

// Of two lanes that hold a piece of each of two tiles, the even one gets both pieces of the first
// tile, the other both of the second.
__device__ __forceinline__ uint2 exchange_pieces(uint32_t first, uint32_t second) {
  const bool odd = threadIdx.x % 2;
  const uint32_t received = __shfl_xor_sync(0xffffffff, odd ? first : second, 1);
  return odd ? uint2{received, second} : uint2{first, received};
}

// out = O / row sum, lse = scale * reference + log(row sum). Rows without keys: 0 and -inf.
__device__ __forceinline__ void store_output(const float out[O_TILES * 4], const float reference[2],
                                             const float row_sum[2],
                                             const attnpress_fwd_sm90_args *args, const Unit *unit,
                                             int consumer) {
  const attnpress_fwd_args *fwd = &args->fwd;
  const int lane = threadIdx.x % 32;
  const float sums[2] = {quad_sum(row_sum[0]), quad_sum(row_sum[1])};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = threadIdx.x / 32 % 4 * 16 + half * 8 + lane / 4; // of the warpgroup
    const int row_position = divide(row, &args->heads_per_tile);
    const int position = unit->position_begin + consumer * args->warpgroup_positions + row_position;
    const int head = (unit->tile_head - row_position) * fwd->heads_per_tile + row;
    const bool valid = row_position < args->warpgroup_positions &&
                       position < position_end(args, unit) && head < fwd->heads_q;
    const RowEnd end = end_row(reference[half] * fwd->scale_log2, sums[half], &fwd->score,
                               fwd->heads_q, head, DROPOUT, SPLIT);
    if (fwd->lse && valid && lane % 4 == 0)
      fwd->lse[lse_offset(fwd, unit->batch, head, position)] = end.lse;
    // A quad holds a tile's 8 columns of a row in pieces of two. Two lanes exchange pieces, so that
    // each stores 8 bytes of one tile, and a store fills whole sectors of 32 bytes.
    uint16_t *out_row = (uint16_t *)fwd->out + out_offset(fwd, unit->batch, head, position) +
                        lane % 2 * 8 + lane / 2 % 2 * 4;
#pragma unroll
    for (int tile = 0; tile < O_TILES; tile += 2) {
      const float *first = out + tile * 4 + half * 2;
      const float *second = out + min_int(tile + 1, O_TILES - 1) * 4 + half * 2;
      const uint2 pieces =
          exchange_pieces(pack(DTYPE, first[0] * end.normalize, first[1] * end.normalize),
                          pack(DTYPE, second[0] * end.normalize, second[1] * end.normalize));
      if (valid && (tile + 1 < O_TILES || lane % 2 == 0))
        *(uint2 *)(out_row + tile * 8) = pieces;
    }
  }
}

// One consumer: 64 rows of each unit.
__device__ __forceinline__ void consume(const attnpress_fwd_sm90_args *args, uint32_t shared,
                                        int consumer) {
  const float scale_log2 = args->fwd.scale_log2;
  if (consumer == CONSUMERS - 1)
    end_turn(consumer); // the first turn is the first consumer's
  Walk walk;
  walk.round = -1;
  bool more = next_unit(&walk, args, consumer);
  Stage stage = {0, 0}; // of the key block in `score`
  int q_parity = 0;
  // Each pass is a stream of key blocks, as far as this consumer's rows see them all.
  while (more) {
    float out[O_TILES * 4] = {};
    float reference[2] = {-INF, -INF}, row_sum[2] = {0.0f, 0.0f}, rescale[2];
    RowLimits limits;
    const bool has_keys = walk.unit.blocks.begin < walk.unit.blocks.end;
    if (has_keys) // the copy engine hands over Q
      wait_for_phase(q_full(shared, consumer), q_parity);
    for (; walk.n >= walk.block_end && has_keys; --walk.n) {
      skip_block(shared, consumer, stage);
      stage = next_stage(stage, STAGES);
    }
    if (walk.n < walk.unit.blocks.begin) { // no row of this consumer sees a key
      store_output(out, reference, row_sum, args, &walk.unit, consumer);
      if (has_keys)
        arrive_once(q_empty(shared, consumer));
      q_parity ^= has_keys;
      more = next_unit(&walk, args, consumer);
      continue;
    }

    // S = Q K^T of the stream's first block; the copy engine hands over K.
    float score[S_TILES * 4];
    uint32_t p[V_STEPS][4];
    wait_for_phase(k_full(shared, stage.index), stage.parity);
    begin_turn(consumer);
    start_scores(score, shared, consumer, stage.index);
    end_turn(consumer);
    finish_scores(score, 0, shared, consumer, stage.index, walk.n == walk.unit.blocks.begin);
    take_scores(score, reference, row_sum, rescale, &walk, scale_log2, &limits);

    Unit last_unit; // the unit before, and what it leaves to be stored
    float last_reference[2], last_sum[2];
    Stage last = {-1, 0}; // of the P V in flight
    for (;;) {
      // The unit's first P is in `score`, the last P V of the unit before is in flight. The copy
      // engine hands over V; this wait also keeps the compiler from moving exponentials behind the
      // next one.
      wait_for_phase(v_full(shared, stage.index), stage.parity);
      finish_output(out);
      if (last.index >= 0) {
        arrive_once(v_empty(shared, last.index));
        store_output(out, last_reference, last_sum, args, &last_unit, consumer);
      }
      for (int i = 0; i < O_TILES * 4; ++i)
        out[i] = 0.0f;
      round_probabilities(p[0], score, S_TILES, DTYPE);

      for (--walk.n; walk.n >= walk.unit.blocks.begin; --walk.n) {
        last = stage;
        stage = next_stage(stage, STAGES);
        exchange_blocks(score, out, p, shared, consumer, stage, last,
                        walk.n == walk.unit.blocks.begin);
        follow_scores(score, reference, row_sum, rescale, &walk, scale_log2, &limits, false);
        // As above.
        wait_for_phase(v_full(shared, stage.index), stage.parity);
        finish_output(out);
        arrive_once(v_empty(shared, last.index));
        rescale_followed_rows(out, O_TILES, &limits, rescale);
        // Behind the branch in rescale_followed_rows(), over which the compiler moves no
        // exponentials: they run under the other consumers' products, each beside an addition.
        add_limited_rows(score, S_TILES, &limits, row_sum, scale_log2);
        round_probabilities(p[0], score, S_TILES, DTYPE);
      }

      last_unit = walk.unit;
      q_parity ^= 1;
      more = next_unit(&walk, args, consumer);
      if (!more || !sees_first_block(&walk))
        break;
      last = stage;
      stage = next_stage(stage, STAGES);
      wait_for_phase(q_full(shared, consumer), q_parity); // the copy engine hands over Q
      exchange_blocks(score, out, p, shared, consumer, stage, last,
                      walk.n == walk.unit.blocks.begin);
      for (int half = 0; half < 2; ++half) {
        last_reference[half] = reference[half];
        last_sum[half] = row_sum[half];
        reference[half] = -INF;
        row_sum[half] = 0.0f;
      }
      take_scores(score, reference, row_sum, rescale, &walk, scale_log2, &limits);
    }

    // O += P V of the stream's last block.
    start_output(out, p, shared, stage.index);
    finish_output(out);
    arrive_once(v_empty(shared, stage.index));
    stage = next_stage(stage, STAGES);
    store_output(out, reference, row_sum, args, &last_unit, consumer);
  }
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 1)
    flash_fwd_hdim64_bf16_causal_long_sm90(
        const __grid_constant__ attnpress_fwd_sm90_args args) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const uint32_t shared = shared_address(smem);
  if (threadIdx.x == 0) {
    prefetch_tensor_map(&args.q);
    prefetch_tensor_map(&args.k);
    prefetch_tensor_map(&args.v);
    for (int consumer = 0; consumer < CONSUMERS; ++consumer) {
      mbarrier_init(q_full(shared, consumer), 1);
      mbarrier_init(q_empty(shared, consumer), 4);
    }
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(k_full(shared, stage), 1);
      mbarrier_init(k_empty(shared, stage), 4 * CONSUMERS);
      mbarrier_init(v_full(shared, stage), 1);
      mbarrier_init(v_empty(shared, stage), 4 * CONSUMERS);
    }
    fence_mbarrier_init();
  }
  // All threads arrive and wait: hands over the barriers.
  __syncthreads();
  if (threadIdx.x < 128) {
    decrease_registers(PRODUCER_REGISTERS);
    if (threadIdx.x == 0)
      produce(&args, shared);
  } else {
    increase_registers(CONSUMER_REGISTERS);
    // Read from lane 0, so that the compiler knows it to be the same in the whole warp.
    consume(&args, shared, __shfl_sync(0xffffffff, threadIdx.x / 128, 0) - 1);
  }
}
