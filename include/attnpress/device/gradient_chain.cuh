// dQ of a sequence whose key blocks one thread block takes, one after the other: it passes dQ on to
// itself. Its first key block stores its part of each row tile to the sum (gradient.cuh), others add
// theirs by the copy engine, and the last one that sees a row gets what they left into shared memory,
// adds its own, and stores dq. So nothing is zeroed or converted, and every bit is the same in every
// run.
//
// All that goes to a place of the sum and comes from there, one thread asks the copy engine for, and
// waits between key blocks until it has been written.
#pragma once

#include "attnpress/device/gradient.cuh"
#include "attnpress/device/ptx_bulk.cuh"
#include "attnpress/device/ptx_bulk_copy.cuh"

// One thread: begins to store a part of a row tile from shared memory, or to add it where it is not
// the first.
__device__ __forceinline__ void add_part(float *sum, uint32_t place, int tiles, bool begins) {
  if (begins)
    bulk_store(sum, place, tiles * 512);
  else
    bulk_add(sum, place, tiles * 512);
}

// Adds to accumulator tiles what was left of them, in such tiles.
__device__ __forceinline__ void add_left(float *d, const float *left, int tiles, int lane) {
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile)
    if (SUM_BY_FOURS) {
      const float4 four = *(const float4 *)(left + tile * 128 + sum_place(lane, 0));
      d[tile * 4] += four.x;
      d[tile * 4 + 1] += four.y;
      d[tile * 4 + 2] += four.z;
      d[tile * 4 + 3] += four.w;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        d[tile * 4 + i] += left[tile * 128 + sum_place(lane, i)];
    }
}
