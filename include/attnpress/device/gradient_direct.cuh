// dQ of a sequence whose keys are one block's. A row tile is complete after its one step, and goes
// straight to dq, rounded as bwd_convert rounds, instead of to a sum in memory.
#pragma once

#include "attnpress/args/attention.h"
#include "attnpress/device/gradient_store.cuh"

// A row of dq, which is row `row` of its batch.
__device__ __forceinline__ uint16_t *row_of_dq(const attnpress_bwd_args *args, int batch, int row,
                                               int head) {
  return (uint16_t *)args->dq + batch * args->dq_batch_stride + row * args->dq_row_stride +
         head * args->dq_head_stride;
}

// One warp: a row tile of `tiles` accumulator tiles, to the first `valid` rows and `columns` columns
// at `rows`, through `place` in shared memory, which is free before and afterwards and has rows of
// `chunks` chunks of 16 bytes.
__device__ __forceinline__ void store_row_tile(const attnpress_bwd_args *args, uint16_t *rows,
                                               unsigned char *place, int chunks, const float *d,
                                               int tiles, int columns, int valid, Dtype dtype,
                                               int lane) {
  const int row_bytes = tile_row_bytes(chunks * 8), pass_rows = 32 / chunks;
  const int row = copy_row(chunks * 8, lane), column = copy_column(chunks * 8, lane);
  const int end = row < pass_rows ? 16 : 0;
  if (args->accumulate) {
#pragma unroll 1 // while d takes registers
    for (int r = row; r < end; r += pass_rows)
      *(uint4 *)(place + r * row_bytes + column * 2) =
          r < valid && column < columns ? *(const uint4 *)(rows + r * args->dq_row_stride + column)
                                        : uint4{0, 0, 0, 0};
    // The warp's lanes arrive and wait, here and below: hands over what dQ is added to.
    __syncwarp();
  }
  round_gradient(place, row_bytes, d, 1, 0, tiles, dtype, args->scale, args->accumulate, lane);
  __syncwarp(); // the tile
  if (chunks > 8) {
    store_gradient(rows, args->dq_row_stride, place, 16, columns, valid, lane, 32);
  } else {
#pragma unroll 1 // else a warpgroup of dQ has some registers too few
    for (int r = row; r < min(end, valid) && column < columns; r += pass_rows)
      *(uint4 *)(rows + r * args->dq_row_stride + column) =
          *(const uint4 *)(place + r * row_bytes + column * 2);
  }
  __syncwarp(); // and its place
}

// The same where there is no such place, 4 bytes at a time. Column tiles before `first` are another
// warp's.
__device__ __forceinline__ void store_row_pairs(const attnpress_bwd_args *args, uint16_t *rows,
                                                const float *d, int first, int tiles, int columns,
                                                int valid, Dtype dtype, int lane) {
  uint16_t *target = rows + lane / 4 * args->dq_row_stride + lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (lane / 4 + half * 8 < valid) {
#pragma unroll
      for (int tile = 0; tile < tiles; ++tile) {
        const float *pair = d + tile * 4 + half * 2;
        uint32_t *place = (uint32_t *)(target + tile * 8);
        if (tile >= first && tile * 8 < columns)
          *place = round_pair(dtype, pair[0] * args->scale, pair[1] * args->scale,
                              args->accumulate ? *place : 0, args->accumulate);
      }
    }
    target += 8 * args->dq_row_stride;
  }
}

// Zeros for the rows of a sequence that no step has, as they see no key: those before `begin` and from
// `end` on, of `heads` heads, by `threads` threads.
__device__ __forceinline__ void clear_unseen_rows(const attnpress_bwd_args *args, int batch,
                                                  int first_row, int first_head, int heads,
                                                  int begin, int end, int columns, int thread,
                                                  int threads) {
  if (args->accumulate || (begin == 0 && end >= args->seqlen_q))
    return;
  for (int head = first_head; head < first_head + heads; ++head)
    for (int i = thread; i < args->seqlen_q * (columns / 8); i += threads) {
      const int row = i / (columns / 8), column = i % (columns / 8) * 8;
      if (row < begin || row >= end)
        *(uint4 *)(row_of_dq(args, batch, first_row + row, head) + column) = uint4{0, 0, 0, 0};
    }
}
