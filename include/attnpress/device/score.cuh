// Which scores count. Scores are in the layout of accumulators that mma.sync and wgmma share: a
// thread holds, of two rows 8 apart (half 0 and 1), columns 8j + 2t and 8j + 2t + 1 of each tile j
// of 8 columns, t = lane % 4, in elements 4j + 2 half and 4j + 2 half + 1. The four lanes of a quad
// share a row.
#pragma once

#include "attnpress/args/attention.h"
#include "attnpress/device/softmax.cuh"
#include "attnpress/device/tile.cuh"

// A query row: it sees the keys key_begin to key_end - 1, none where that is no range. Of two
// positions, neither bound of the later one comes before that of the other.
struct Row {
  int position;
  int key_begin, key_end;
};

// The row at a position. `causal`: aligned at the bottom right, the last query sees the last key.
__device__ __forceinline__ Row row_at(int position, bool causal, int seqlen_q, int seqlen_k) {
  const int key_end = causal ? min(seqlen_k, position + 1 + seqlen_k - seqlen_q) : seqlen_k;
  return {position, 0, key_end};
}

// The row at a position under a window. It stands at key `center`, below 0 where there are more
// queries than keys before it; a chunk below 0 has no keys. Sides and chunks may be as long as
// integers are: what they reach is compared with what is there before it is added.
__device__ __forceinline__ Row window_row(int position, const attnpress_score_args *args,
                                          int seqlen_k) {
  const int center = position + args->window_center;
  int begin = max(max(center, 0) - args->window_left, 0);
  int end = max(center + 1 + min(args->window_right, seqlen_k - 1 - center), 0);
  if (args->window_chunk > 0) {
    const int chunk = center < 0 ? 0 : center - center % args->window_chunk;
    begin = max(begin, chunk);
    end = center < 0 ? 0 : min(end - chunk, args->window_chunk) + chunk;
  }
  return {position, min(begin, seqlen_k), end};
}

// Scores of keys that row `half` does not see become -inf; `key` is this thread's first key. A
// row's key_begin that is known to be 0 costs nothing.
__device__ __forceinline__ void mask_scores(float *score, int tiles, int half, Row row, int key) {
#pragma unroll
  for (int i = 0; i < tiles * 2; ++i) {
    const int other = key + i / 2 * 8 + i % 2;
    if (other >= row.key_end || (row.key_begin > 0 && other < row.key_begin))
      score[i / 2 * 4 + half * 2 + i % 2] = -INF;
  }
}

// How many of a thread's keys come before the one that is `distance` keys after its first.
__device__ __forceinline__ int keys_before(int distance) {
  const int whole = max(distance, 0);
  return whole / 8 * 2 + min(whole % 8, 2);
}

// Bit i, of 32: whether i < count.
__device__ __forceinline__ uint32_t bits_below(int count) {
  return count >= 32 ? 0xffffffff : (1u << max(count, 0)) - 1;
}

// Scores of row `half` whose bit is 0 become -inf, of up to 32 from element `first` on.
__device__ __forceinline__ void mask_by_bits(float *score, int tiles, int half, int first,
                                             uint32_t seen) {
#pragma unroll
  for (int i = first; i < min_int(first + 32, tiles * 2); ++i) {
    if (!(seen & 1u << (i - first)))
      score[i / 2 * 4 + half * 2 + i % 2] = -INF;
  }
}

// mask_scores() of a row that sees all keys before its end, with one bit a key, of which the compiler
// makes eight predicates in one instruction: fewer instructions, and more registers.
__device__ __forceinline__ void mask_scores_by_bits(float *score, int tiles, int half, Row row,
                                                    int key) {
  const int end = keys_before(row.key_end - key);
#pragma unroll
  for (int first = 0; first < tiles * 2; first += 32)
    mask_by_bits(score, tiles, half, first, bits_below(end - first));
}

// The same of a row under a window. `behind`, `before`: whether there may be keys behind the last
// that the row sees, and before the first; the same in the whole warp.
__device__ __forceinline__ void mask_window_by_bits(float *score, int tiles, int half, Row row,
                                                    int key, bool behind, bool before) {
#pragma unroll
  for (int first = 0; first < tiles * 2; first += 32) {
    uint32_t seen = 0xffffffff;
    if (behind)
      seen = bits_below(keys_before(row.key_end - key) - first);
    if (before)
      seen &= ~bits_below(keys_before(row.key_begin - key) - first);
    mask_by_bits(score, tiles, half, first, seen);
  }
}
