// Rows of accumulators, gathered from the four lanes that share them: tiles of 8 columns in the layout
// of ptx_mma.cuh, rounded to 16 bits, of which each lane holds a pair of columns.
#pragma once

#include "attnpress/args/common.h"

// Of two lanes that hold a piece of each of two tiles, the even one gets both pieces of the first
// tile, the other both of the second.
__device__ __forceinline__ uint2 exchange_pieces(uint32_t first, uint32_t second) {
  const bool odd = threadIdx.x % 2;
  const uint32_t received = __shfl_xor_sync(0xffffffff, odd ? first : second, 1);
  return odd ? uint2{received, second} : uint2{first, received};
}

// Of four tiles beside each other, lane % 4 gets the whole row of tile lane % 4. word: (4), this
// lane's pair of each tile.
__device__ __forceinline__ uint4 row_of_quad(const uint32_t *word) {
  const bool upper = threadIdx.x / 2 % 2;
  const uint2 low = exchange_pieces(word[0], word[1]);  // half a row of tile 0 or 1
  const uint2 high = exchange_pieces(word[2], word[3]); // of tile 2 or 3
  const uint32_t first = __shfl_xor_sync(0xffffffff, upper ? low.x : high.x, 2);
  const uint32_t second = __shfl_xor_sync(0xffffffff, upper ? low.y : high.y, 2);
  return upper ? uint4{first, second, high.x, high.y} : uint4{low.x, low.y, first, second};
}
