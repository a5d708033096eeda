// Zeros for the sum of dQ, written by thread blocks of the kernel that adds to it, for later ones:
// as bwd_delta would write them, but while other warps compute, and shortly before they are
// needed, so that they are in L2 then.
//
// Thread blocks that have the same query heads, each with keys of its own, are a unit. Each zeroes
// what belongs to the unit `zero_ahead` units behind its own, all of whose thread blocks come later
// in the grid.
#pragma once

#include "attnpress/args/attention.h"
#include "attnpress/device/ptx_atom.cuh"
#include "attnpress/device/ptx_tma.cuh"
#include "attnpress/device/tile.cuh"

// The first query head of a unit, of those of all batches.
__device__ __forceinline__ int first_head_of_unit(const attnpress_bwd_args *args, int unit) {
  const int group = args->heads_q / args->heads_kv, part = unit % args->group_parts;
  return unit / args->group_parts * group + part * group / args->group_parts;
}

// Warp `warp` of `warps` of thread block `block` of a unit: its share of a later unit's sum, of
// `columns` columns. At that unit's counter it hands over what it has written.
__device__ __forceinline__ void zero_ahead(const attnpress_bwd_args *args, int own_unit, int block,
                                           int columns, int warp, int warps) {
  const int unit = own_unit + args->zero_ahead;
  if (args->zero_ahead <= 0 || unit >= args->batch * args->heads_kv * args->group_parts)
    return;
  const int first = first_head_of_unit(args, unit);
  const int head_quads = args->sum_tiles * 4 * columns; // of 16 bytes
  const int quads = (first_head_of_unit(args, unit + 1) - first) * head_quads;
  const int each = ceil_div(quads, args->blocks * warps);
  const int begin = (block * warps + warp) * each;
  float4 *const sum = (float4 *)args->dq_sum + (int64_t)first * head_quads + begin;
#pragma unroll 4
  for (int i = threadIdx.x % 32; i < min(each, quads - begin); i += 32)
    sum[i] = {0.0f, 0.0f, 0.0f, 0.0f};
  __syncwarp(); // the first lane knows of the others' zeros
  if (threadIdx.x % 32 == 0)
    release_increment(args->dq_zeroed + unit);
}

// One thread of a thread block of `unit`: waits until `warps` warps of each thread block of an
// earlier unit have handed over their shares of the sum that the block is to add to, itself or by
// the copy engine. These blocks run, or have ended: thread blocks begin in the order of the grid,
// and zero before they wait for any other.
__device__ __forceinline__ void wait_for_zeros(const attnpress_bwd_args *args, int unit,
                                               int warps) {
  if (args->zero_ahead <= 0 || unit < args->zero_ahead)
    return;
  while (load_acquire(args->dq_zeroed + unit) < args->blocks * warps) {
  }
  fence_proxy_async_global();
}
