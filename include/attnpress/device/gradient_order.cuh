// The order of causal thread blocks of backward kernels, whose walks are of different lengths.
//
// The longest walk of a query head, or a key head, is twice the average, and it comes first of its
// head. Where heads came one after the other to the end, the last one's longest would begin late,
// and most SMs would wait for it. So the last `abreast` heads take turns: all of their longest
// blocks come first, and the shortest of all at the end. Before them heads stay together, whose
// blocks read the same rows.
//
// Where thread blocks share walks by steps, they are in order as they are: whole ones first.
#pragma once

#include "attnpress/args/attention.h"

// Whether thread blocks share the walks of key blocks by steps, not by query heads; and how many key
// blocks of each head have their walks whole then.
__device__ __forceinline__ bool shares_by_steps(const attnpress_bwd_args *args) {
  return args->abreast <= 0;
}
__device__ __forceinline__ int whole_blocks_of(const attnpress_bwd_args *args) {
  return max(0, -args->abreast);
}

// The place of thread block `number` of `all`, were each head's blocks behind one another. Heads are
// parts of groups where thread blocks share these.
__device__ __forceinline__ int block_in_turn(const attnpress_bwd_args *args, int number, int all) {
  const int first = all - max(0, args->abreast) * args->blocks;
  const int at = number - first;
  return at < 0 ? number : first + at % args->abreast * args->blocks + (uint32_t)at / args->abreast;
}
