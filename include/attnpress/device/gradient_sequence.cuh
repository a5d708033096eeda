// Sequences of their own lengths in the backward pass: where one lies in its tensors and in the
// workspace.
#pragma once

#include "attnpress/args/ragged.h"
#include "attnpress/device/sequence.cuh"
#include "attnpress/device/tile.cuh"

constexpr int PADDED_ROWS = 128; // of lse_log2 and delta, a sequence takes a multiple

// Where a sequence's rows begin in a workspace in which each has a multiple of `rows` rows, if
// `before` rows of q come before it. The next sequence's are behind them.
__device__ __forceinline__ int padded_begin(int before, int b, int rows) {
  return (before + b * rows) / rows * rows;
}

// Where a sequence lies. Numbers of rows take fewer registers than addresses.
struct SequencePlace {
  int q_batch, q_row, seqlen_q; // of q, out, dout, dq, lse and dlse
  int k_batch, k_row, seqlen_k; // of k, v, dk and dv
  int values_row;               // of lse_log2 and delta
  int sum_tile;                 // of dq_sum
  // Of bwd alone, a unit's:
  int group;        // query heads
  int key_sum_tile; // the first of dk_sum and dv_sum; -1: it stores dk and dv
};

// The place of a sequence whose workspace is not known yet.
__device__ __forceinline__ SequencePlace with_workspace(const attnpress_bwd_ragged_args *batch,
                                                        int b, SequencePlace at) {
  const int before = at.q_batch * batch->ragged.rows_q + at.q_row;
  at.values_row = padded_begin(before, b, PADDED_ROWS);
  at.sum_tile = padded_begin(before, b, 16) / 16;
  return at;
}

__device__ __forceinline__ SequencePlace place_of_sequence(const attnpress_bwd_ragged_args *batch,
                                                           int b) {
  const attnpress_ragged_args *ragged = &batch->ragged;
  const Rows queries = query_rows(ragged, b, batch->bwd.seqlen_q);
  const Rows keys = key_rows(ragged, b);
  return with_workspace(batch, b,
                        {ragged->cu_seqlens_q != nullptr ? 0 : b, queries.begin, queries.count,
                         ragged->cu_seqlens_k != nullptr ? 0 : b, keys.begin, keys.count});
}

// What a thread block computes: a block of a sequence's rows, or of its keys, in one head.
struct Unit {
  int order; // the sequence's place in the schedule's order
  int sequence, head, block;
};

// Whether a grid's thread block `number` has a unit.
__device__ __forceinline__ bool is_unit(const attnpress_bwd_ragged_args *batch, int number) {
  return number < batch->first_unit[batch->bwd.batch];
}

// The place in the order of the sequence that unit `number` is of: the last one that begins there or
// before. All lanes of a warp arrive; each looks at one of 32 parts of what is left.
__device__ __forceinline__ int find_order(const int32_t *first_unit, int batch, int number) {
  int from = 0;
  for (int count = batch; count > 1;) {
    const int part = ceil_div(count, 32), mine = threadIdx.x % 32 * part;
    const bool begun = mine < count && first_unit[from + mine] <= number;
    const int passed = (__popc(__ballot_sync(0xffffffff, begun)) - 1) * part;
    from += passed;
    count = min(part, count - passed);
  }
  return from;
}

// Unit `number` of an order of `heads` heads. All lanes of a warp arrive.
__device__ __forceinline__ Unit find_unit(const attnpress_bwd_ragged_args *batch, int number,
                                          int heads) {
  const int order = find_order(batch->first_unit, batch->bwd.batch, number);
  const attnpress_sequence_units *of = &batch->sequences[order];
  const HeadBlock at = find_head_block(of, number - batch->first_unit[order], heads);
  return {order, of->sequence, at.head, at.block};
}

__device__ __forceinline__ SequencePlace place_of_unit(const attnpress_bwd_ragged_args *batch,
                                                       const Unit *unit) {
  const attnpress_sequence_units *of = &batch->sequences[unit->order];
  return with_workspace(
      batch, unit->sequence,
      {of->q_batch, of->q_row, of->seqlen_q, of->k_batch, of->k_row, of->seqlen_k});
}

// The arguments with the lengths of a sequence.
__device__ __forceinline__ attnpress_bwd_args
args_of_lengths(const attnpress_bwd_ragged_args *batch, int seqlen_q, int seqlen_k) {
  attnpress_bwd_args args = batch->bwd;
  args.seqlen_q = seqlen_q;
  args.seqlen_k = seqlen_k;
  args.score.window_center = batch->ragged.window_top_left ? 0 : seqlen_k - seqlen_q;
  return args;
}
