// flash_fwd_schedule_hdim8_bf16_sm80
//
// Puts the sequences of a batch in order, those with the longest units of work first, so that the
// short ones fill the gaps at the end, and counts the units before each. A thread block a part of
// the batch, of 1,024 sequences, and an order of it: it puts the part in order by itself, and adds
// up the units of all sequences before the part, whose sum is the same in any order. So no thread
// block waits for another.
//
// Pressed from templates/attention/flash_fwd_schedule.cu.j2 with tile m1n16w32x1s0k0v0 by
//   python -m generator --pass fwd_schedule --hdim 8 --arch sm80

#include "attnpress/args/ragged.h"
#include "attnpress/device/ptx_global.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/sequence.cuh"
#include "attnpress/device/tile.cuh"
#include "attnpress/device/units.cuh"
constexpr int WARPS = 32;
constexpr int NUM_THREADS = 32 * WARPS;
static_assert(NUM_THREADS == ATTNPRESS_SCHEDULE_PART, "a thread a sequence of a part");
static_assert(NUM_THREADS == 1024, "places take 10 bits of a sort key");

// Queries of a sequence and its keys.
struct Lengths {
  Rows queries, keys;
  int k_batch;
};

__device__ __forceinline__ Lengths lengths_of(const attnpress_fwd_schedule_args *args, int b) {
  const attnpress_ragged_args *ragged = &args->ragged;
  Lengths of;
  of.queries = query_rows(ragged, b, args->seqlen_q);
  of.k_batch = key_batch(ragged, b);
  of.keys = of.k_batch < 0 ? Rows{0, 0} : key_rows(ragged, b);
  return of;
}

// Of a sequence, the positions that an order's blocks have, and those that each walks over.
struct Sides {
  int blocks, walk;
};

__device__ __forceinline__ Sides sides_of(const attnpress_schedule_order *order,
                                          const Lengths *of) {
  return order->by_keys ? Sides{of->keys.count, of->queries.count}
                        : Sides{of->queries.count, of->keys.count};
}

// Sequences whose units walk over more, and are longer, have larger sort keys; of equals, earlier
// ones. So places behind the last sequence, which have no units, remain there.
__device__ __forceinline__ uint32_t sort_key(Sides sides, int place) {
  const int walk = sides.blocks > 0 ? sides.walk : 0;
  return (uint32_t)min(walk / 16, (1 << 22) - 1) << 10 | (uint32_t)(NUM_THREADS - 1 - place);
}

// Sorts the keys of the first `count` threads, a power of two, the largest first (bitonic sort:
// Batcher 1968). Lanes of a warp exchange theirs by shuffles, warps through two buffers in turn, so
// that what is read of one is not written before all have passed the next barrier.
__device__ __forceinline__ uint32_t sort(uint32_t (*buffers)[NUM_THREADS], uint32_t key,
                                         int count) {
  const int place = threadIdx.x;
  int turn = 0;
  for (int size = 2; size <= count; size *= 2) {
    const bool falls = (place & size) == 0;
    for (int stride = size / 2; stride >= 32; stride /= 2) {
      buffers[turn][place] = key;
      // All threads arrive and wait: hands over the keys.
      __syncthreads();
      const uint32_t other = buffers[turn][place ^ stride];
      key = falls == ((place & stride) == 0) ? max(key, other) : min(key, other);
      turn ^= 1;
    }
#pragma unroll
    for (int stride = 16; stride > 0; stride /= 2)
      if (stride < size) {
        const uint32_t other = __shfl_xor_sync(0xffffffff, key, stride);
        key = falls == ((place & stride) == 0) ? max(key, other) : min(key, other);
      }
  }
  return key;
}

// Blocks of a sequence, of each head, and the splits of each.
struct Blocks {
  int count;
  Splits splits;
};

__device__ __forceinline__ Blocks blocks_of(const attnpress_fwd_schedule_args *args,
                                            const attnpress_schedule_order *order,
                                            const Lengths *of) {
  Splits splits = {0, 1};
  if (args->split_keys > 0)
    splits = seen_splits(&args->ragged, &args->score, args->window, of->queries.count,
                         of->keys.count, args->split_keys);
  const int positions = sides_of(order, of).blocks;
  const int blocks = ceil_div(positions, order->positions);
  return {positions <= order->whole ? min(blocks, 1) : blocks, splits};
}

__device__ __forceinline__ int units_of(const Blocks *blocks, int heads) {
  return blocks->count * heads * blocks->splits.count;
}

// What is stored of a sequence, 16 bytes at a time: fewer stores than one of each field.
constexpr int RECORD_VECTORS = sizeof(attnpress_sequence_units) / sizeof(uint4);
union Record {
  attnpress_sequence_units of;
  uint4 vectors[RECORD_VECTORS];
};

// Units of sequence b. Most orders are of rows, and of all keys at once: then keys are not looked
// at.
__device__ __forceinline__ int count_units(const attnpress_fwd_schedule_args *args,
                                           const attnpress_schedule_order *order, int b) {
  if (!order->by_keys && args->split_keys == 0) {
    const int rows = query_rows(&args->ragged, b, args->seqlen_q).count;
    return ceil_div(rows, order->positions) * order->heads;
  }
  const Lengths of = lengths_of(args, b);
  const Blocks blocks = blocks_of(args, order, &of);
  return units_of(&blocks, order->heads);
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
    flash_fwd_schedule_hdim8_bf16_sm80(const __grid_constant__ attnpress_fwd_schedule_args args) {
  __shared__ uint32_t keys[2][NUM_THREADS];
  __shared__ Lengths lengths[NUM_THREADS];
  __shared__ int units_before[WARPS], units_of_warps[WARPS];
  const int place = threadIdx.x;
  const int parts = max(ceil_div(args.batch, NUM_THREADS), 1);
  const int part = blockIdx.x % parts * NUM_THREADS;
  const attnpress_schedule_order *const order = &args.order[blockIdx.x / parts];
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_launch_dependents();
  griddepcontrol_wait();
  if (place == 0 && blockIdx.x == 0 && args.ticket != nullptr)
    *args.ticket = 0;
  const int there = min(args.batch - part, NUM_THREADS);
  int count = 1;
  while (count < there)
    count *= 2;
  Lengths of = {{0, 0}, {0, 0}, 0};
  if (place < there)
    of = lengths_of(&args, part + place);
  lengths[place] = of;
  int before = 0; // units of this thread's share of the sequences before the part
  for (int b = place; b < part; b += NUM_THREADS)
    before += count_units(&args, order, b);
  // All threads arrive and wait: hands over the lengths.
  __syncthreads();
  const uint32_t key = sort(keys, sort_key(sides_of(order, &of), place), count);
  const int from = NUM_THREADS - 1 - (int)(key % NUM_THREADS), sequence = part + from;
  of = lengths[from];
  const Blocks blocks = blocks_of(&args, order, &of);
  const int units = units_of(&blocks, order->heads);
  const int sum = sum_up_lanes(units);
  const int lane = place % 32, warp = place / 32;
  before = __reduce_add_sync(0xffffffff, before);
  if (lane == 31) {
    units_before[warp] = before;
    units_of_warps[warp] = sum;
  }
  // All threads arrive and wait: hands over the units.
  __syncthreads();
  // Of the parts before, and of the warps before: each lane adds up those of one warp.
  const int others = units_before[lane] + (lane < warp ? units_of_warps[lane] : 0);
  const int end = __reduce_add_sync(0xffffffff, others) + sum;
  if (place < there) {
    order->first_unit[part + place] = end - units;
    if (args.split_keys > 0)
      args.sequence_splits[sequence] = blocks.splits.count;
    Record record;
    record.of.sequence = sequence;
    record.of.seqlen_q = of.queries.count;
    record.of.seqlen_k = of.keys.count;
    record.of.q_batch = args.ragged.cu_seqlens_q != nullptr ? 0 : sequence;
    record.of.q_row = of.queries.begin;
    record.of.k_batch = max(of.k_batch, 0);
    record.of.k_row = of.keys.begin;
    record.of.first_page = first_page(&args.ragged, sequence, record.of.k_batch);
    record.of.blocks = blocks.count;
    record.of.first_split = blocks.splits.first;
    record.of.section_heads = heads_of_section(sides_of(order, &of).walk, order->walk_bytes,
                                               order->sharing, order->heads);
#pragma unroll
    for (int i = 0; i < RECORD_VECTORS; ++i)
      store_16_if(true, (uint4 *)&order->sequences[part + place] + i, record.vectors[i]);
  }
  if (place == NUM_THREADS - 1 && part + NUM_THREADS >= args.batch)
    order->first_unit[args.batch] = end;
}
