// dQ under a narrow window, whose rows are seen by the keys of two thread blocks at most. The block
// of the earlier keys leaves its part of a row tile in the sum (gradient.cuh) and marks it; that of
// the later keys begins with what was left, and stores dq. So nothing is zeroed, added up or
// converted, and every bit is the same in every run.
//
// Who waits does so for the thread block before it in the grid, which runs or has ended, and leaves
// a head's rows before it waits for any of that head.
#pragma once

#include "attnpress/args/attention.h"
#include "attnpress/device/gradient.cuh"
#include "attnpress/device/ptx_atom.cuh"

__device__ __forceinline__ bool passes_on(const attnpress_bwd_args *args) {
  return args->zero_ahead < 0;
}

__device__ __forceinline__ uint32_t *mark_of(const attnpress_bwd_args *args, int64_t batch,
                                             int head, int row_tile) {
  return args->dq_zeroed + (batch * args->heads_q + head) * args->row_tiles + row_tile;
}

// One warp: leaves a row tile of `tiles` accumulator tiles, all columns. Its mark is to be made
// later, when that does not wait for what is stored here.
__device__ __forceinline__ uint32_t *pass_on(const attnpress_bwd_args *args, int batch, int head,
                                             int row_tile, const float *d, int tiles, int lane) {
  store_for_sum(args->dq_sum + sum_offset(args, batch, head, row_tile, tiles * 8), d, tiles, lane);
  return mark_of(args, batch, head, row_tile);
}

// One warp: makes it, where there is one.
__device__ __forceinline__ void make_mark(uint32_t *mark, int lane) {
  __syncwarp(); // the first lane knows of what the others have left
  if (mark != nullptr && lane == 0)
    release_increment(mark);
}

// One warp: takes it over.
__device__ __forceinline__ void take_over(const attnpress_bwd_args *args, int batch, int head,
                                          int row_tile, float *d, int tiles, int lane) {
  const uint32_t *const mark = mark_of(args, batch, head, row_tile);
  const float *const left = args->dq_sum + sum_offset(args, batch, head, row_tile, tiles * 8);
  while (load_acquire(mark) == 0) {
  }
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile) {
    const float *const from = left + tile * 128;
    if (SUM_BY_FOURS) {
      const float4 four = *(const float4 *)(from + sum_place(lane, 0));
      d[tile * 4] = four.x;
      d[tile * 4 + 1] = four.y;
      d[tile * 4 + 2] = four.z;
      d[tile * 4 + 3] = four.w;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        d[tile * 4 + i] = from[sum_place(lane, i)];
    }
  }
}
