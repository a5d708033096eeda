// Work: which rows a thread block computes, which keys they need, and where a row of a split's
// output lies.
#pragma once

#include "attnpress/args/attention.h"
#include "attnpress/device/score.cuh"
#include "attnpress/device/tile.cuh"

// A range of keys, or of key blocks: begin to end - 1; none where end <= begin.
struct Range {
  int begin, end;
};

// What a thread block computes where it has one row block of BLOCK_M rows.
struct Work {
  int row_begin;  // first row of the tile, counted over its heads
  int split;      // 0 where the keys are not split
  int first_head; // of the tile's heads_per_tile query heads
  int64_t batch;
};

// First row of row block `n`. `last_first`: later rows see more keys, or no fewer, and the longest
// row blocks come first.
__device__ __forceinline__ int row_block_begin(const attnpress_fwd_args *args, int n, int block_m,
                                               bool last_first) {
  return (last_first ? args->row_blocks - 1 - n : n) * block_m;
}

// A grid that is, fastest first: row block, split, tile head, batch.
__device__ __forceinline__ Work find_split_work(const attnpress_fwd_args *args, int block,
                                                int block_m, bool last_first, bool split) {
  Work work;
  work.row_begin = row_block_begin(args, block % args->row_blocks, block_m, last_first);
  block /= args->row_blocks;
  work.split = split ? block % args->num_splits : 0;
  if (split)
    block /= args->num_splits;
  const int tile_heads = args->heads_q / args->heads_per_tile;
  work.first_head = block % tile_heads * args->heads_per_tile;
  work.batch = block / tile_heads;
  return work;
}

// The same where row blocks of the first heads are not split: their thread blocks come first.
__device__ __forceinline__ Work find_partly_split_work(const attnpress_fwd_args *args, int block,
                                                       int block_m, bool last_first) {
  const int whole = args->whole_row_blocks;
  const bool is_whole = block < whole;
  const int splits = is_whole ? 1 : args->num_splits;
  const int of_kind = is_whole ? block : block - whole; // among those that are split, or are not
  const int parts = of_kind / args->row_blocks;
  Work work;
  work.row_begin = row_block_begin(args, of_kind - parts * args->row_blocks, block_m, last_first);
  const int head = parts / splits;
  work.split = parts - head * splits;
  const int all_heads = head + (is_whole ? 0 : whole / args->row_blocks);
  const int tile_heads = args->heads_q / args->heads_per_tile;
  work.batch = all_heads / tile_heads;
  work.first_head = all_heads % tile_heads * args->heads_per_tile;
  return work;
}

// Key blocks of the splits of such a thread block; a split that is all of them has more than there are.
__device__ __forceinline__ int key_blocks_of_part(const attnpress_fwd_args *args, int block) {
  return block < args->whole_row_blocks ? 0x3fffffff : args->key_blocks_per_split;
}

// A grid that is, fastest first: tile head, row block, batch. Heads that lie side by side in memory
// are read at the same time, and causal row blocks of all heads start with the longest ones, so
// that the short ones fill the gaps at the end.
__device__ __forceinline__ Work find_whole_work(const attnpress_fwd_args *args, int block,
                                                int block_m, bool last_first) {
  Work work;
  const int heads = args->heads_per_tile;
  const int tile_heads = heads == 1 ? args->heads_q : args->heads_q / heads;
  const int tiles = (uint32_t)block / tile_heads;
  const int batch = (uint32_t)tiles / args->row_blocks;
  work.row_begin = row_block_begin(args, tiles - batch * args->row_blocks, block_m, last_first);
  work.split = 0;
  work.first_head = (block - tiles * tile_heads) * heads;
  work.batch = batch;
  return work;
}

// The key head whose keys a query head sees.
__device__ __forceinline__ int key_head(const attnpress_fwd_args *args, int head) {
  return args->heads_q == args->heads_kv ? head : head / (args->heads_q / args->heads_kv);
}

// Position in the sequence and head, within the tile's heads, of a row that counts heads first.
__device__ __forceinline__ void split_row(int row, int heads, int *position, int *head) {
  *position = heads == 1 ? row : (uint32_t)row / heads;
  *head = heads == 1 ? 0 : row - *position * heads;
}

// Keys that some row from `first` to `last` sees, and keys that all of them see.
__device__ __forceinline__ Range keys_of_some(Row first, Row last) {
  return {first.key_begin, last.key_end};
}

__device__ __forceinline__ Range keys_of_all(Row first, Row last) {
  return {last.key_begin, first.key_end};
}

// The key blocks of `block_n` keys that hold any of these keys.
__device__ __forceinline__ Range key_blocks(Range keys, int block_n) {
  return {keys.begin / block_n, ceil_div(keys.end, block_n)};
}

// The same of key blocks that are counted from a key `first` on, which is none of those behind the
// first of these keys.
__device__ __forceinline__ Range blocks_from(Range keys, int first, int block_n) {
  return {(keys.begin - first) / block_n, ceil_div(max(keys.end - first, 0), block_n)};
}

// Those of them that are one split's, which covers `per_split` key blocks.
__device__ __forceinline__ Range split_blocks(Range blocks, int split, int per_split) {
  const int begin = blocks.begin + split * per_split;
  return {begin, min(blocks.end, begin + per_split)};
}

// The same where sequences have their own lengths: equal parts of what these rows see, which no bound
// of the lengths has a part in, but of `least` key blocks where that is more, and then the last
// splits of a short sequence have none.
__device__ __forceinline__ Range split_own_blocks(Range blocks, int split, int splits, int least) {
  const int equal = ceil_div(max(blocks.end - blocks.begin, 0), splits);
  return split_blocks(blocks, split, max(equal, least));
}

// The same where splits lie at fixed places, of `fixed` key blocks counted from key 0, whatever these
// rows see.
__device__ __forceinline__ Range split_fixed_blocks(Range blocks, int split, int fixed) {
  return {max(blocks.begin, split * fixed), min(blocks.end, (split + 1) * fixed)};
}

// Row of out_partial and lse_partial: (split, batch, head, position).
__device__ __forceinline__ int64_t partial_row(const attnpress_fwd_args *args, int split,
                                               int64_t batch, int head, int position) {
  return ((split * (int64_t)args->batch + batch) * args->heads_q + head) * args->seqlen_q +
         position;
}

// Rows of one split.
__device__ __forceinline__ int64_t partial_rows(const attnpress_fwd_args *args) {
  return (int64_t)args->batch * args->heads_q * args->seqlen_q;
}
