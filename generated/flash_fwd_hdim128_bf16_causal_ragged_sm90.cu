// flash_fwd_hdim128_bf16_causal_ragged_sm90
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
// Pressed from templates/attention/flash_fwd_sm90.cu.j2 with tile m128n128s3 by
//   python -m generator --hdim 128 --dtype bf16 --causal --ragged --arch sm90

#include "attnpress/args/ragged.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/epilogue.cuh"
#include "attnpress/device/pipeline.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_atom.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/ptx_mbarrier.cuh"
#include "attnpress/device/ptx_tma.cuh"
#include "attnpress/device/ptx_warpgroup.cuh"
#include "attnpress/device/ptx_wgmma.cuh"
#include "attnpress/device/wgmma/ptx_wgmma_n128.cuh"
#include "attnpress/device/score.cuh"
#include "attnpress/device/sequence.cuh"
#include "attnpress/device/softmax.cuh"
#include "attnpress/device/softmax_first.cuh"
#include "attnpress/device/tile.cuh"
#include "attnpress/device/work.cuh"

constexpr int HEAD_DIM = 128;
constexpr int HEAD_DIM_V = 128;
constexpr Dtype DTYPE = BF16;
constexpr bool CAUSAL = true;
constexpr bool SPLIT = false;
constexpr bool DROPOUT = false;
constexpr int BLOCK_M = 128; // query rows of a thread block
constexpr int BLOCK_N = 128; // keys of a key block
constexpr int STAGES = 3; // key blocks of K, and of V, in shared memory
constexpr int SMEM_BYTES = 229504;
constexpr int PRODUCER_REGISTERS = 40; // of a thread
constexpr int CONSUMER_REGISTERS = 232;

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

// A unit of work: a row block of one head of a sequence.
struct Unit {
  int position_begin; // first query position; -1: there are no more units
  int tile_head;      // of heads_q / heads_per_tile
  Range blocks;       // key blocks
  int seqlen_q, seqlen_k;
  int center;         // the key at which a window's query at position 0 stands
  int q_batch, q_row; // of position 0
  int sequence;
  int k_batch, k_row; // of key 0
  int key_end;              // of the first row: it sees the keys before
  int block_end[CONSUMERS]; // rows of each consumer see no key from this key block on
};

// Places of units that are known and not yet stored, each with two barriers: at its "full" one the
// producer's third warp arrives, at its "empty" one each warp that has read the unit for the last
// time. Behind them one where the producer's first warp arrives when it has asked for the unit's
// last K; and a barrier a stage: V is there, before what follows a sequence's last key was made
// zeros.
constexpr int UNITS = 4;
__shared__ Unit units[UNITS];
__shared__ uint64_t unit_barriers[3 * UNITS + STAGES];
static_assert(sizeof units + sizeof unit_barriers <= 1024, "shared memory");
__device__ __forceinline__ uint32_t unit_full(int place) {
  return shared_address(&unit_barriers[place]);
}
__device__ __forceinline__ uint32_t unit_empty(int place) {
  return shared_address(&unit_barriers[UNITS + place]);
}
__device__ __forceinline__ uint32_t unit_asked(int place) {
  return shared_address(&unit_barriers[2 * UNITS + place]);
}
__device__ __forceinline__ uint32_t v_loaded(int stage) {
  return shared_address(&unit_barriers[3 * UNITS + stage]);
}

// What stands behind the arguments of dense kernels.
__device__ __forceinline__ const attnpress_fwd_sm90_ragged_args *
ragged_args(const attnpress_fwd_sm90_args *args) {
  return (const attnpress_fwd_sm90_ragged_args *)args;
}

// The first and the last of the rows from a position on, or up to one, past which rows are not
// there.
__device__ __forceinline__ Row row_at_begin(const attnpress_fwd_args *fwd, const Unit *unit,
                                            int position) {
  return row_at(position, CAUSAL, unit->seqlen_q, unit->seqlen_k);
}

__device__ __forceinline__ Row row_at_end(const attnpress_fwd_args *fwd, const Unit *unit,
                                          int position_end) {
  return row_at_begin(fwd, unit, min(position_end, unit->seqlen_q) - 1);
}

// Offset of a row's lse.
__device__ __forceinline__ int64_t lse_of_unit(const attnpress_fwd_sm90_args *args,
                                               const Unit *unit, int head, int position) {
  const attnpress_ragged_args *ragged = &ragged_args(args)->ragged;
  return lse_of_sequence(ragged, {unit->q_row, 0}, unit->sequence, args->fwd.lse_batch_stride) +
         head * args->fwd.lse_head_stride + position * ragged->lse_row_stride;
}

// The place in the schedule's order of the sequence that unit `number` is of, if it is that of `at`
// or one behind it. All lanes arrive; each looks at one sequence.
__device__ __forceinline__ int find_sequence(const int32_t *first_unit, int batch, int number,
                                             int at) {
  for (;;) {
    const int next = at + 1 + threadIdx.x % 32;
    const bool passed = next < batch && first_unit[next] <= number;
    const int count = __popc(__ballot_sync(0xffffffff, passed));
    at += count;
    if (count < 32)
      return at;
  }
}

// Writes down unit `number`, of the sequence at place `at` of the order.
__device__ __forceinline__ void write_unit(Unit *unit, const attnpress_fwd_sm90_args *args,
                                           int number, int at) {
  const attnpress_sequence_units *of = &ragged_args(args)->sequences[at];
  const int in_order = number - ragged_args(args)->first_unit[at];
  const HeadBlock found = find_head_block(of, in_order, args->tile_heads.value);
  const int positions = CONSUMERS * args->warpgroup_positions;
  unit->tile_head = found.head;
  // Later rows see more keys, or no fewer, and the longest units come first.
  unit->position_begin = (of->blocks - 1 - found.block) * positions;
  unit->sequence = of->sequence;
  unit->q_batch = of->q_batch;
  unit->q_row = of->q_row;
  unit->k_batch = of->k_batch;
  unit->k_row = of->k_row;
  unit->seqlen_q = of->seqlen_q;
  unit->seqlen_k = of->seqlen_k;
  unit->center = ragged_args(args)->ragged.window_top_left ? 0 : of->seqlen_k - of->seqlen_q;
  // Key blocks that no row sees are never loaded.
  unit->blocks =
      key_blocks(keys_of_some(row_at_begin(&args->fwd, unit, unit->position_begin),
                              row_at_end(&args->fwd, unit, unit->position_begin + positions)),
                 BLOCK_N);
  unit->key_end = row_at_begin(&args->fwd, unit, unit->position_begin).key_end;
#pragma unroll 1 // registers are few
  for (int consumer = 0; consumer < CONSUMERS; ++consumer) {
    const int begin = unit->position_begin + consumer * args->warpgroup_positions;
    const Row first = row_at_begin(&args->fwd, unit, begin);
    const Row last = row_at_end(&args->fwd, unit, begin + args->warpgroup_positions);
    const int end = min(unit->blocks.end, key_blocks(keys_of_some(first, last), BLOCK_N).end);
    const bool there = begin < unit->seqlen_q;
    unit->block_end[consumer] = there && end > 0 ? end : 0;
  }
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

// The keys that the last key block of a unit holds, if they are not all of the block: behind them
// other rows follow, whose V is made zeros, as 0 times what they hold may be NaN.
__device__ __forceinline__ int tail_keys(const Unit *unit) {
  return unit->seqlen_k - (unit->blocks.end - 1) * BLOCK_N;
}

__device__ __forceinline__ void load_k(const attnpress_fwd_sm90_args *args, uint32_t shared,
                                       Stage *stage, const Unit *unit, int n, int kv_head) {
  load_keys(shared + K_OFFSET + stage->index * K_BYTES, &args->k, k_full(shared, stage->index),
            k_empty(shared, stage->index), stage->parity ^ 1, K_SLABS, unit->k_row + n * BLOCK_N,
            kv_head, unit->k_batch);
  *stage = next_stage(*stage, STAGES);
}

// V of a block that is not whole comes by way of clear_tails().
__device__ __forceinline__ void load_v(const attnpress_fwd_sm90_args *args, uint32_t shared,
                                       Stage *stage, const Unit *unit, int n, int kv_head) {
  const bool whole = n < unit->blocks.end - 1 || tail_keys(unit) >= BLOCK_N;
  load_keys(shared + V_OFFSET + stage->index * V_BYTES, &args->v,
            whole ? v_full(shared, stage->index) : v_loaded(stage->index),
            v_empty(shared, stage->index), stage->parity ^ 1, V_SLABS, unit->k_row + n * BLOCK_N,
            kv_head, unit->k_batch);
  *stage = next_stage(*stage, STAGES);
}

// Loads the consumers' rows of Q, each once its consumer has no more use for those of the unit
// before. Rows past the sequence's end are others' or zeros, rows that no position fills keep what
// was there: they make rows of S that are not stored.
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
                  unit->q_row + unit->position_begin + consumer * positions, unit->q_batch);
  }
}

static_assert(STAGES > 1, "the second key block of a unit is loaded before its Q");

// The producer's first thread: loads each unit's Q, and K and V of its key blocks in the order of
// their use, K of one block before V of the block before.
__device__ __forceinline__ void produce(const attnpress_fwd_sm90_args *args, uint32_t shared) {
  const attnpress_fwd_args *fwd = &args->fwd;
  const int group = fwd->heads_q / fwd->heads_kv / fwd->heads_per_tile; // tile heads of a key head
  Stage k_stage = {0, 0}, v_stage = {0, 0}, place = {0, 0};
  int q_parity = 0;
  for (;; place = next_stage(place, UNITS)) {
    // Hands over the unit.
    wait_for_phase(unit_full(place.index), place.parity);
    const Unit *unit = &units[place.index];
    if (unit->position_begin < 0)
      return;
    if (unit->blocks.end > unit->blocks.begin) {
      const int kv_head = unit->tile_head / group;
      int n = unit->blocks.end - 1;
      load_k(args, shared, &k_stage, unit, n, kv_head);
      for (; n >= unit->blocks.begin; --n) {
        if (n > unit->blocks.begin)
          load_k(args, shared, &k_stage, unit, n - 1, kv_head);
        // The place of Q is free later than that of the second key block.
        if (n == unit->blocks.end - 1)
          load_q(args, shared, q_parity, unit);
        if (n == unit->blocks.begin)
          mbarrier_arrive(unit_asked(place.index));
        load_v(args, shared, &v_stage, unit, n, kv_head);
      }
      q_parity ^= 1;
    } else {
      mbarrier_arrive(unit_asked(place.index));
    }
    mbarrier_arrive(unit_empty(place.index));
  }
}

// Hands over the unit at a place and, before a ticket is asked for, waits until the next unit is
// nearly due: until the producer has asked for all K of this one or, where that is little or little
// of it is on the way then, of one of the two before. A ticket that is taken earlier keeps its unit
// from thread blocks that are free.
constexpr int BLOCKS_AHEAD = 4;
__device__ __forceinline__ void hand_over(Stage place, bool asks) {
  const int count = units[place.index].blocks.end - units[place.index].blocks.begin;
  const int before = count > BLOCKS_AHEAD && STAGES > 2 ? 0 : count > BLOCKS_AHEAD / 2 ? 1 : 2;
  const int index = place.index - before;
  mbarrier_arrive(unit_full(place.index));
  // The producer's first warp arrived. Before the first unit there is nothing to wait for: its
  // phase counts as over.
  if (asks)
    wait_for_phase(unit_asked((index + UNITS) % UNITS), place.parity ^ (index < 0));
}

// The producer's third warp: finds the units and writes them down for all others, as far ahead as
// there are places. A ticket is asked for when a unit is nearly loaded.
__device__ __forceinline__ void find_units(const attnpress_fwd_sm90_args *args) {
  const attnpress_fwd_sm90_ragged_args *ragged = ragged_args(args);
  const int lane = threadIdx.x % 32, batch = args->fwd.batch;
  const int count = ragged->first_unit[batch];
  Stage place = {0, 0};
  int at = 0, number = blockIdx.x;
  for (;; place = next_stage(place, UNITS)) {
    // All who read the unit that was here arrived; hands over the place.
    wait_for_phase(unit_empty(place.index), place.parity ^ 1);
    if (number >= count)
      break;
    int next = 0;
    at = find_sequence(ragged->first_unit, batch, number, at);
    if (lane == 0) {
      write_unit(&units[place.index], args, number, at);
      hand_over(place, true);
      next = (int)gridDim.x + (int)atomic_increment(ragged->ticket);
    }
    // From the lane that asked for it.
    number = __shfl_sync(0xffffffff, next, 0);
  }
  if (lane == 0) {
    units[place.index].position_begin = -1;
    mbarrier_arrive(unit_full(place.index));
  }
}

// Makes zeros of what a unit's last key block of V holds past the sequence's end, behind `keys`.
__device__ __forceinline__ void clear_tail(unsigned char *smem, int stage, int keys) {
  unsigned char *v = smem + V_OFFSET + stage * V_BYTES;
  for (int slab = 0; slab < V_SLABS; ++slab)
    for (int chunk = keys * 8 + threadIdx.x % 32; chunk < BLOCK_N * 8; chunk += 32)
      *(uint4 *)(v + slab * KEY_SLAB_BYTES + chunk * 16) = uint4{0, 0, 0, 0};
}

// The producer's second warp: clears the tail of a unit's V, once it is there, and hands it over in
// the copy engine's place.
__device__ __forceinline__ void clear_tails(uint32_t shared, unsigned char *smem) {
  Stage v_stage = {0, 0}, place = {0, 0};
  uint32_t parities = 0; // of the stages' next phase of v_loaded, a bit each
  for (;; place = next_stage(place, UNITS)) {
    // Hands over the unit.
    wait_for_phase(unit_full(place.index), place.parity);
    const Unit *unit = &units[place.index];
    if (unit->position_begin < 0)
      return;
    const int blocks = unit->blocks.end - unit->blocks.begin, keys = tail_keys(unit);
    // All lanes arrive and wait: they have read the unit.
    __syncwarp();
    arrive_once(unit_empty(place.index));
    if (blocks <= 0)
      continue;
    if (keys < BLOCK_N) {
      // The copy engine hands over V.
      wait_for_phase(v_loaded(v_stage.index), parities >> v_stage.index & 1);
      parities ^= 1u << v_stage.index;
      clear_tail(smem, v_stage.index, keys);
      // Products see the zeros once all lanes have come through here, and the first has arrived.
      fence_proxy_async();
      __syncwarp();
      arrive_once(v_full(shared, v_stage.index));
    }
    v_stage.index += blocks;
    v_stage.parity ^= v_stage.index / STAGES % 2;
    v_stage.index %= STAGES;
  }
}

// ---- The consumers ----

// A consumer's walk over the key blocks of its units.
struct Walk {
  Unit unit;
  Stage place; // of the unit
  int n;            // the key block
  int block_end;    // this consumer's rows see no key from this key block on
  Row rows[2];      // this thread's
  int key_unmasked; // all rows of the consumer see the keys below
};

// Moves on to the next unit; false after the last.
__device__ __forceinline__ bool next_unit(Walk *walk, const attnpress_fwd_sm90_args *args,
                                          int consumer) {
  walk->place = next_stage(walk->place, UNITS);
  // The producer's third warp hands over the unit.
  wait_for_phase(unit_full(walk->place.index), walk->place.parity);
  if (units[walk->place.index].position_begin < 0)
    return false;
  // What the consumer's rows see, which the warp that found the unit has worked out.
  const Unit *unit = &units[walk->place.index];
  const int positions = consumer * args->warpgroup_positions; // of the consumers before
  const int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
  walk->unit.blocks = {0, unit->blocks.end};
  walk->n = unit->blocks.end - 1;
  walk->block_end = unit->block_end[consumer];
  walk->key_unmasked = min(unit->seqlen_k, unit->key_end + positions);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int position = positions + divide(row + half * 8, &args->heads_per_tile);
    walk->rows[half] = {position, 0, min(unit->seqlen_k, unit->key_end + position)};
  }
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

// Starts O += P V, (64, HEAD_DIM_V), as a group of its own; O = P V where `begins`.
__device__ __forceinline__ void start_output(float out[O_TILES * 4], uint32_t p[V_STEPS][4],
                                             uint32_t shared, int stage, bool begins) {
  const uint64_t v =
      wgmma_descriptor(shared + V_OFFSET, 1024, KEY_SLAB_BYTES) + stage * (V_BYTES / 16);
  wgmma_order_n128(out);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < V_STEPS; ++step)
    wgmma_m64n128k16_bf16_rs_trans(out, p[step], v + step * 16 * 128 / 16, step > 0 || !begins);
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
  wgmma_order_n128(out);
}

// Starts S = Q K^T of the key block in `stage` and O += P V of the block before, in `last`, and
// waits for S.
__device__ __forceinline__ void exchange_blocks(float score[S_TILES * 4], float out[O_TILES * 4],
                                                uint32_t p[V_STEPS][4], uint32_t shared,
                                                int consumer, Stage stage, Stage last,
                                                bool last_block, bool begins) {
  // The copy engine hands over K.
  wait_for_phase(k_full(shared, stage.index), stage.parity);
  begin_turn(consumer);
  start_scores(score, shared, consumer, stage.index);
  start_output(out, p, shared, last.index, begins);
  end_turn(consumer);
  finish_scores(score, 1, shared, consumer, stage.index, last_block);
}

// Masks the scores of the walk's key block where some row does not see all its keys, and follows
// the rows' maxima.
__device__ __forceinline__ void follow_scores(float score[S_TILES * 4], float reference[2],
                                              float rescale[2], const Walk *walk,
                                              float scale_log2, bool first) {
  if ((walk->n + 1) * BLOCK_N > walk->key_unmasked) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      mask_scores_by_bits(score, S_TILES, half, walk->rows[half],
                          walk->n * BLOCK_N + threadIdx.x % 4 * 2);
  }
  if (first)
    begin_rows(score, S_TILES, reference, rescale, scale_log2, DTYPE);
  else
    follow_rows(score, S_TILES, reference, rescale, scale_log2, DTYPE);
}

// The same of a unit's first block, and makes P of them.
__device__ __forceinline__ void take_scores(float score[S_TILES * 4], float reference[2],
                                            float row_sum[2], float rescale[2], const Walk *walk,
                                            float scale_log2) {
  follow_scores(score, reference, rescale, walk, scale_log2, true);
  add_rows(score, S_TILES, reference, row_sum, rescale, scale_log2);
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
  const int warp_begin = unit->position_begin + consumer * args->warpgroup_positions +
                         divide(threadIdx.x / 32 % 4 * 16, &args->heads_per_tile);
  const bool past = warp_begin >= unit->seqlen_q;
  // Read from lane 0, so that the compiler knows it to be the same in the whole warp.
  if (__shfl_sync(0xffffffff, past, 0))
    return; // none of its rows is there
  const float sums[2] = {quad_sum(row_sum[0]), quad_sum(row_sum[1])};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = threadIdx.x / 32 % 4 * 16 + half * 8 + lane / 4; // of the warpgroup
    const int row_position = divide(row, &args->heads_per_tile);
    const int position = unit->position_begin + consumer * args->warpgroup_positions + row_position;
    const int head = (unit->tile_head - row_position) * fwd->heads_per_tile + row;
    const bool valid = row_position < args->warpgroup_positions && position < unit->seqlen_q;
    const RowEnd end = end_row(reference[half] * fwd->scale_log2, sums[half], &fwd->score,
                               fwd->heads_q, head, DROPOUT, SPLIT);
    if (fwd->lse && valid && lane % 4 == 0)
      fwd->lse[lse_of_unit(args, unit, head, position)] =
          stored_lse(&ragged_args(args)->ragged, end.lse);
    // A quad holds a tile's 8 columns of a row in pieces of two. Two lanes exchange pieces, so that
    // each stores 8 bytes of one tile, and a store fills whole sectors of 32 bytes.
    uint16_t *out_row = (uint16_t *)fwd->out +
                        out_offset(fwd, unit->q_batch, head, unit->q_row + position) +
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

// Stores the output of the unit at place `n` % UNITS, and hands the place back.
__device__ __forceinline__ void store_unit(const float out[O_TILES * 4], const float reference[2],
                                           const float row_sum[2],
                                           const attnpress_fwd_sm90_args *args, int n,
                                           int consumer) {
  store_output(out, reference, row_sum, args, &units[n % UNITS], consumer);
  // All lanes arrive and wait: they have read the unit.
  __syncwarp();
  arrive_once(unit_empty(n % UNITS));
}

// One consumer: 64 rows of each unit.
__device__ __forceinline__ void consume(const attnpress_fwd_sm90_args *args, uint32_t shared,
                                        int consumer) {
  const float scale_log2 = args->fwd.scale_log2;
  if (consumer == CONSUMERS - 1)
    end_turn(consumer); // the first turn is the first consumer's
  Walk walk;
  walk.place = {-1, 0};
  bool more = next_unit(&walk, args, consumer);
  Stage stage = {0, 0}; // of the key block in `score`
  int q_parity = 0;
  // Each pass is a stream of key blocks, as far as this consumer's rows see them all.
  while (more) {
    float out[O_TILES * 4] = {};
    float reference[2] = {-INF, -INF}, row_sum[2] = {0.0f, 0.0f}, rescale[2];
    const bool has_keys = walk.unit.blocks.begin < walk.unit.blocks.end;
    if (has_keys) // the copy engine hands over Q
      wait_for_phase(q_full(shared, consumer), q_parity);
    for (; walk.n >= walk.block_end && has_keys; --walk.n) {
      skip_block(shared, consumer, stage);
      stage = next_stage(stage, STAGES);
    }
    if (walk.n < walk.unit.blocks.begin) { // no row of this consumer sees a key
      store_unit(out, reference, row_sum, args, walk.place.index, consumer);
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
    take_scores(score, reference, row_sum, rescale, &walk, scale_log2);

    float last_reference[2], last_sum[2];
    Stage last = {-1, 0}; // of the P V in flight
    bool begins; // 1: the unit's next P V is its first
    for (;;) {
      // The unit's first P is in `score`, the last P V of the unit before is in flight. The copy
      // engine hands over V; this wait also keeps the compiler from moving exponentials behind the
      // next one.
      wait_for_phase(v_full(shared, stage.index), stage.parity);
      finish_output(out);
      if (last.index >= 0) {
        arrive_once(v_empty(shared, last.index));
        store_unit(out, last_reference, last_sum, args, walk.place.index + UNITS - 1,
                   consumer);
      }
      begins = true;
      round_probabilities(p[0], score, S_TILES, DTYPE);

      for (--walk.n; walk.n >= walk.unit.blocks.begin; --walk.n) {
        last = stage;
        stage = next_stage(stage, STAGES);
        exchange_blocks(score, out, p, shared, consumer, stage, last,
                        walk.n == walk.unit.blocks.begin, begins);
        begins = false;
        follow_scores(score, reference, rescale, &walk, scale_log2, false);
        // As above.
        wait_for_phase(v_full(shared, stage.index), stage.parity);
        finish_output(out);
        arrive_once(v_empty(shared, last.index));
        rescale_rows(out, O_TILES, rescale);
        // Behind the vote in rescale_rows(), over which the compiler moves no exponentials: they
        // run under the other consumers' products, each beside an addition of the sum.
        add_rows(score, S_TILES, reference, row_sum, rescale, scale_log2);
        round_probabilities(p[0], score, S_TILES, DTYPE);
      }

      q_parity ^= 1;
      more = next_unit(&walk, args, consumer);
      if (!more || !sees_first_block(&walk))
        break;
      last = stage;
      stage = next_stage(stage, STAGES);
      wait_for_phase(q_full(shared, consumer), q_parity); // the copy engine hands over Q
      exchange_blocks(score, out, p, shared, consumer, stage, last,
                      walk.n == walk.unit.blocks.begin, begins);
      for (int half = 0; half < 2; ++half) {
        last_reference[half] = reference[half];
        last_sum[half] = row_sum[half];
        reference[half] = -INF;
        row_sum[half] = 0.0f;
      }
      take_scores(score, reference, row_sum, rescale, &walk, scale_log2);
    }

    // O += P V of the stream's last block.
    start_output(out, p, shared, stage.index, begins);
    finish_output(out);
    arrive_once(v_empty(shared, stage.index));
    stage = next_stage(stage, STAGES);
    store_unit(out, reference, row_sum, args, walk.place.index + UNITS - 1, consumer);
  }
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 1)
    flash_fwd_hdim128_bf16_causal_ragged_sm90(
        const __grid_constant__ attnpress_fwd_sm90_ragged_args given) {
  const attnpress_fwd_sm90_args &args = given.sm90;
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
      mbarrier_init(v_loaded(stage), 1);
    }
    for (int place = 0; place < UNITS; ++place) {
      mbarrier_init(unit_full(place), 1);
      mbarrier_init(unit_empty(place), 4 * CONSUMERS + 2);
      mbarrier_init(unit_asked(place), 1);
    }
    fence_mbarrier_init();
  }
  // All threads arrive and wait: hands over the barriers.
  __syncthreads();
  // The schedule kernel hands over the units.
  griddepcontrol_wait();
  if (threadIdx.x < 128) {
    decrease_registers(PRODUCER_REGISTERS);
    if (threadIdx.x == 0)
      produce(&args, shared);
    else if (threadIdx.x / 32 == 1)
      clear_tails(shared, smem);
    else if (threadIdx.x / 32 == 2)
      find_units(&args);
  } else {
    increase_registers(CONSUMER_REGISTERS);
    // Read from lane 0, so that the compiler knows it to be the same in the whole warp.
    consume(&args, shared, __shfl_sync(0xffffffff, threadIdx.x / 128, 0) - 1);
  }
}
