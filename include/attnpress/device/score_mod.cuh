// A caller's snippet in the forward pass. The text itself, as the functions snippet_score() and
// snippet_keeps(), is the end of a kernel's source.
#pragma once

#include "attnpress/device/score_text.cuh"
#include "attnpress/device/snippet_range.cuh"
#include "attnpress/device/work.cuh"

// ---- Rows ---------------------------------------------------------------------------------------

__device__ __forceinline__ SnippetRow snippet_row(const attnpress_fwd_args *args, int64_t batch,
                                                  int head, int position) {
  head = min(head, args->heads_q - 1);
  return {(int)batch, head, key_head(args, head), min(position, args->seqlen_q - 1)};
}

// The snippet's arguments are behind those of an sm80 kernel.
__device__ __forceinline__ const attnpress_mod_args *snippet_args(const attnpress_fwd_args *args) {
  return &((const attnpress_fwd_mod_args *)args)->mod;
}

// ---- The map ------------------------------------------------------------------------------------

// What the mask leaves of the scores of a key block; of some of those that it leaves some of, the map
// kernel wrote down which.
enum TileState { NO_SCORES, SOME_SCORES, ALL_SCORES, KNOWN_SCORES };

// The map of a row block: two bits a key block.
__device__ __forceinline__ const uint32_t *map_row(const attnpress_mod_args *mod, int64_t batch,
                                                   int tile_head, int row_block) {
  return mod->map + batch * mod->map_batch_stride + tile_head * mod->map_head_stride +
         (int64_t)row_block * mod->map_words;
}

__device__ __forceinline__ TileState tile_state(const uint32_t *map, int n) {
  return (TileState)(map[n / 16] >> n % 16 * 2 & 3);
}

// Whether the map has bits of another key block behind `n` in the same word.
__device__ __forceinline__ bool known_behind(const uint32_t *map, int n) {
  const uint32_t word = map[n / 16];
  return (word & word >> 1 & 0x55555555 & 0xfffffffc << n % 16 * 2) != 0;
}

// The last key block before `end`, and from `begin` on, of which the mask leaves something; begin -
// 1 where there is none.
__device__ __forceinline__ int block_before(const uint32_t *map, int end, int begin) {
  while (end > begin) {
    const int first = (end - 1) / 16 * 16; // of the word
    const uint32_t states = map[first / 16] & 0xffffffff >> 2 * (first + 16 - end);
    if (states != 0)
      return max(first + (31 - __clz((int)states)) / 2, begin - 1);
    end = first;
  }
  return begin - 1;
}

// The first key block from `begin` on, and before `end`, of which the mask leaves something; `end`
// where there is none.
__device__ __forceinline__ int block_from(const uint32_t *map, int begin, int end) {
  while (begin < end) {
    const int first = begin / 16 * 16;
    const uint32_t states = map[first / 16] & 0xffffffff << 2 * (begin - first);
    if (states != 0)
      return min(first + (31 - __clz((int)(states & -states))) / 2, end);
    begin = first + 16;
  }
  return end;
}
