// What bwd needs of the rows of sequences of their own lengths before it begins, divided among its
// units, blocks of keys of a sequence and key head: each has a share of the sequence's rows, of all
// query heads of its key head. bwd_delta does the shares of the first units, and warps of bwd those of
// units that come later (gradient_ahead.cuh).
#pragma once

#include "attnpress/args/ragged.h"
#include "attnpress/device/gradient_sequence.cuh"
#include "attnpress/device/tile.cuh"

constexpr int SHARE_ROWS = 64; // of which a unit's share is a multiple

// A unit's share: rows of each of `heads` query heads.
struct Share {
  SequencePlace at;
  int sequence, head, heads;
  int begin, end;
};

// The units that bwd_delta does end here: with a sequence's last one.
__device__ __forceinline__ uint32_t *end_of_first(const attnpress_bwd_ragged_args *batch) {
  return batch->bwd.dq_zeroed + batch->bwd.batch * batch->bwd.heads_kv;
}

// Of `threads` threads each: the end of the units of the sequences it looks at that warps of bwd
// cannot do, as they are the first, or so many that some would come too late for the others.
__device__ __forceinline__ int find_end_of_first(const attnpress_bwd_ragged_args *batch, int thread,
                                                 int threads) {
  const int ahead = batch->bwd.zero_ahead;
  int end = 0;
  for (int order = thread; order < batch->bwd.batch; order += threads) {
    const attnpress_sequence_units *const of = &batch->sequences[order];
    const int first = batch->first_unit[order], last = batch->first_unit[order + 1];
    const int apart = (of->blocks - 1) * min(of->section_heads, batch->bwd.heads_kv);
    if (last > first && (first < ahead || apart > ahead / 2))
      end = max(end, last);
  }
  return end;
}

// Which share unit `number` has, into shared memory. One warp; false: there is no such unit.
__device__ __forceinline__ bool find_share(const attnpress_bwd_ragged_args *batch, int number,
                                           Share *share) {
  if (!is_unit(batch, number))
    return false;
  const Unit unit = find_unit(batch, number, batch->bwd.heads_kv);
  if (threadIdx.x % 32 == 0) {
    const int blocks = batch->sequences[unit.order].blocks;
    share->at = place_of_unit(batch, &unit);
    const int parts = ceil_div(share->at.seqlen_q, SHARE_ROWS);
    share->sequence = unit.sequence;
    share->heads = batch->bwd.heads_q / batch->bwd.heads_kv;
    share->head = unit.head * share->heads;
    share->begin = unit.block * parts / blocks * SHARE_ROWS;
    share->end = (unit.block + 1) * parts / blocks * SHARE_ROWS; // with rows that pad a step
  }
  __syncwarp(); // hands over the share
  return true;
}
