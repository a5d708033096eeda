// Outer products: what thread blocks bring to the L2 cache for those behind them.
#pragma once

#include "attnpress/args/outer.h"
#include "attnpress/device/ptx_prefetch.cuh"

constexpr int AHEAD = 2048;  // thread blocks whose x and y come to the L2 cache at once
constexpr int BRINGERS = 32; // thread blocks that bring them, each some of the lines

// Brings x and y, elements of `size` bytes, of the entries from `begin` on, before `end`, to the L2
// cache: every BRINGERS-th group of `threads` lines, from number `part` on.
__device__ __forceinline__ void prefetch_entries(const attnpress_outer_fwd_args *args, int size,
                                                 int threads, int64_t begin, int64_t end,
                                                 int part) {
  const int line_elements = 128 / size;
  const int x_lines = (args->rows - 1) / line_elements + 1;
  const int entry_lines = x_lines + (args->columns - 1) / line_elements + 1;
  // Large entries have many thread blocks, so that there are few of them: their lines fit.
  const int lines = (int)((min(end, args->batch) - begin) * entry_lines);
  for (int i = part * threads + (int)threadIdx.x; i < lines; i += BRINGERS * threads) {
    const int64_t entry = begin + i / entry_lines;
    const int line = i % entry_lines;
    const unsigned char *x = (const unsigned char *)args->x + entry * args->x_stride * size;
    const unsigned char *y = (const unsigned char *)args->y + entry * args->y_stride * size;
    prefetch_l2(line < x_lines ? x + (int64_t)line * 128 : y + (int64_t)(line - x_lines) * 128);
  }
}
