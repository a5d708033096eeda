// Units of work of sequences: heads that are taken together, and splits of the keys, as the schedule
// kernel says them (templates/attention/flash_fwd_schedule.cu.j2), or, where a caller kept the order
// from an earlier call, the kernel that has the units itself; and which sequence comes when in such a
// ready schedule.
//
// Nobody has seen what is in it: it may be of other lengths, or no order at all. It says which sequence
// comes when and nothing else, and beside the order it has the place of each sequence. Where the two
// agree no sequence comes twice, and those that they leave out come last. Where there is none, as units
// are too few to be worth an order, sequences come in turn.
#pragma once

#include "attnpress/args/ragged.h"
#include "attnpress/device/ptx_math.cuh"
#include "attnpress/device/score.cuh"
#include "attnpress/device/tile.cuh"
#include "attnpress/device/work.cuh"

// What units walk over, K and V or Q and dO, stays in the L2 cache while a section of heads is in
// work, if it has so many bytes.
constexpr int SECTION_BYTES = 1 << 24;

// Of `heads`, those of a section; `sharing` of them walk over the same `walk` positions, of
// `walk_bytes` each.
__device__ __forceinline__ int heads_of_section(int walk, int walk_bytes, int sharing, int heads) {
  const int bytes = max(min((int64_t)walk * walk_bytes, (int64_t)SECTION_BYTES), (int64_t)1);
  const int shares = SECTION_BYTES / bytes;
  return (int)min((int64_t)shares * sharing, (int64_t)heads);
}

// The splits at fixed places of which some row of a sequence sees a key: from the first one on at
// least one.
struct Splits {
  int first, count;
};

__device__ __forceinline__ Splits seen_splits(const attnpress_ragged_args *ragged,
                                              const attnpress_score_args *score, bool window,
                                              int seqlen_q, int seqlen_k, int split_keys) {
  Range keys = {0, seqlen_k};
  if (window) {
    const int center = ragged->window_top_left ? 0 : seqlen_k - seqlen_q;
    const int shift = center - score->window_center;
    keys.begin = window_row(shift, score, seqlen_k).key_begin;
    keys.end = window_row(shift + seqlen_q - 1, score, seqlen_k).key_end;
  }
  const int first = keys.begin / split_keys;
  return {first, max(ceil_div(keys.end, split_keys) - first, 1)};
}

// Sums of `value` over the lanes up to this one.
__device__ __forceinline__ int sum_up_lanes(int value) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int below = __shfl_sync(0xffffffff, value, lane - distance);
    value += lane >= distance ? below : 0;
  }
  return value;
}

// The sequence that a ready schedule names at step `step` of 2 * batch: first the order, which may hold
// any number, then all sequences in turn; past them, none that there is.
__device__ __forceinline__ int named_sequence(const int32_t *ready, int batch, int step) {
  if (ready == nullptr)
    return step;
  return step < batch ? ready[ATTNPRESS_READY_ORDER + step] : step - batch;
}

// The place that a ready schedule gives a sequence: any number.
__device__ __forceinline__ int place_of(const int32_t *ready, int batch, int sequence) {
  return ready == nullptr ? sequence : ready[ATTNPRESS_READY_ORDER + batch + sequence];
}

// 1 where a sequence that is named at a step comes there, once in all steps: in the order where its
// place agrees, behind it where the order leaves it out. Such a step is the only one, whatever is in
// the schedule.
__device__ __forceinline__ bool comes_at(const int32_t *ready, int batch, int step, int sequence,
                                         int place) {
  if (step >= batch && ready != nullptr)
    return !(0 <= place && place < batch && ready[ATTNPRESS_READY_ORDER + place] == sequence);
  return place == step;
}
