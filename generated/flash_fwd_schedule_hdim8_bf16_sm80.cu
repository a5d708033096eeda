// flash_fwd_schedule_hdim8_bf16_sm80
//
// Puts the sequences of a batch in order, those with the longest units of work first, so that the
// short ones fill the gaps at the end, and counts the units before each. A thread block an order,
// which takes 1,024 sequences at a time, and orders each such part of the batch by itself.
//
// Pressed from templates/attention/flash_fwd_schedule.cu.j2 with tile m1n16w32x1s0k0v0 by
//   python -m generator --pass fwd_schedule --hdim 8 --arch sm80

#include "attnpress/args/ragged.h"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/sequence.cuh"
#include "attnpress/device/tile.cuh"
#include "attnpress/device/units.cuh"
constexpr int WARPS = 32;
constexpr int NUM_THREADS = 32 * WARPS;
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
  of.keys = of.k_batch < 0 ? Rows{0, 0} : bounded_keys(ragged, b, args->seqlen_k);
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
// ones. Places without a sequence have 0.
__device__ __forceinline__ uint32_t sort_key(int walk, int place) {
  return (uint32_t)min(walk / 16, (1 << 22) - 1) << 10 | (uint32_t)(NUM_THREADS - 1 - place);
}

// Sorts the first `count` keys, a power of two, the largest first (bitonic sort: Batcher 1968).
__device__ __forceinline__ void sort(uint32_t *keys, int count) {
  const int place = threadIdx.x;
  for (int size = 2; size <= count; size *= 2)
    for (int stride = size / 2; stride > 0; stride /= 2) {
      const int other = place ^ stride;
      if (place < count && other > place) {
        const uint32_t mine = keys[place], others = keys[other];
        if ((place & size) == 0 ? mine < others : mine > others) {
          keys[place] = others;
          keys[other] = mine;
        }
      }
      // All threads arrive and wait: hands over the keys.
      __syncthreads();
    }
}

// Sums of `value` over the threads up to this one, for the first `count` threads, a power of two.
__device__ __forceinline__ int sum_up(int *sums, int value, int count) {
  const int place = threadIdx.x;
  sums[place] = value;
  // All threads arrive and wait, here and below: hands over the sums.
  __syncthreads();
  for (int distance = 1; distance < count; distance *= 2) {
    if (place >= distance)
      value += sums[place - distance];
    __syncthreads();
    sums[place] = value;
    __syncthreads();
  }
  return value;
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
    flash_fwd_schedule_hdim8_bf16_sm80(const __grid_constant__ attnpress_fwd_schedule_args args) {
  __shared__ uint32_t keys[NUM_THREADS];
  __shared__ int sums[NUM_THREADS];
  const int place = threadIdx.x;
  const attnpress_schedule_order *const order = &args.order[blockIdx.x];
  griddepcontrol_launch_dependents();
  if (place == 0 && blockIdx.x == 0 && args.ticket != nullptr)
    *args.ticket = 0;
  int before = 0; // units of the parts before
  for (int part = 0; part < args.batch; part += NUM_THREADS) {
    const int there = min(args.batch - part, NUM_THREADS);
    int count = 1;
    while (count < there)
      count *= 2;
    uint32_t key = 0;
    if (place < there) {
      const Lengths of = lengths_of(&args, part + place);
      const Sides sides = sides_of(order, &of);
      key = sort_key(sides.blocks > 0 ? sides.walk : 0, place);
    }
    keys[place] = key;
    // All threads arrive and wait: hands over the keys.
    __syncthreads();
    sort(keys, count);

    const int sequence = part + NUM_THREADS - 1 - (int)(keys[place] % NUM_THREADS);
    Lengths of = {{0, 0}, {0, 0}, 0};
    if (place < there)
      of = lengths_of(&args, sequence);
    const Sides sides = sides_of(order, &of);
    const int blocks = ceil_div(sides.blocks, order->positions);
    Splits splits = {0, 1};
    if (args.split_keys > 0)
      splits = seen_splits(&args.ragged, &args.score, args.window, of.queries.count,
                           of.keys.count, args.split_keys);
    const int units = blocks * order->heads * splits.count;
    const int end = sum_up(sums, units, count);
    if (place < there) {
      attnpress_sequence_units *to = &order->sequences[part + place];
      order->first_unit[part + place] = before + end - units;
      to->sequence = sequence;
      to->seqlen_q = of.queries.count;
      to->seqlen_k = of.keys.count;
      to->q_batch = args.ragged.cu_seqlens_q != nullptr ? 0 : sequence;
      to->q_row = of.queries.begin;
      to->k_batch = max(of.k_batch, 0);
      to->k_row = of.keys.begin;
      to->first_page = first_page(&args.ragged, sequence, to->k_batch);
      to->blocks = blocks;
      to->first_split = splits.first;
      if (args.split_keys > 0)
        args.sequence_splits[sequence] = splits.count;
      to->section_heads =
          heads_of_section(sides.walk, order->walk_bytes, order->sharing, order->heads);
    }
    before += sums[count - 1]; // which change after the next barrier
  }
  if (place == 0)
    order->first_unit[args.batch] = before;
}
