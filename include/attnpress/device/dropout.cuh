// Dropout: which probabilities are kept. The decision of a query and a key, 16 bits, depends on
// batch, head, query, key, seed and offset alone, not on a tile or an architecture. It is one of
// eight, drawn at once for the elements that one lane holds of 16 rows and 16 keys in the layout of
// score.cuh, by two calls of Philox 4x32 (Salmon et al. 2011):
//
//   head      7 rounds of the counter (0, 0, batch * heads + head, the lower half of offset); the
//             key is the seed, with the upper half of offset added to its upper half
//   place     what they made of it, with DROPOUT_STEP * (key / 16 * 32 + lane) added to word 0 and
//             DROPOUT_ROW_STEP * (row / 16) to word 2; lane is row % 8 * 4 + key % 8 / 2
//   bits      4 rounds of that, all with key 0
//   decision  0xFC00 less half key % 2 of word key / 8 % 2 * 2 + row / 8 % 2 of the bits, modulo
//             2^16; below the threshold it drops
//
// Decisions count down from fp16's -inf, so that compute capability 9.0 compares two at once, as
// fp16 (dropout_rounded.cuh).
//
// Seven rounds are what a plain counter needs. This one begins with words that seven rounds have
// mixed, for which four are enough (bench/NOTES.md, "Dropout's bits"); and what the first two make
// of word 2 is the same for all keys that a warp walks over.
#pragma once

#include "attnpress/args/attention.h"
#include "attnpress/device/ptx_opaque.cuh"

// What a head's decisions are drawn from, the same for all lanes.
struct DropoutHead {
  uint32_t word[4];
};

// What the eight decisions of a lane are drawn from.
struct DropoutPlace {
  uint32_t word[4];
};

// From lane to lane, from 16 keys to the next, and from 16 rows to the next.
constexpr uint32_t DROPOUT_STEP = 0x9E3779B9u, DROPOUT_KEY_STEP = 32 * DROPOUT_STEP;
constexpr uint32_t DROPOUT_ROW_STEP = 0xBB67AE85u;

// One round, in place. Without opaque() the compiler takes halves of products together again, as 64
// bits, and moves them.
__device__ __forceinline__ void philox_round(uint32_t x[4], uint32_t key_low, uint32_t key_high) {
  const uint64_t first = (uint64_t)x[0] * 0xD2511F53u, second = (uint64_t)x[2] * 0xCD9E8D57u;
  x[0] = opaque((uint32_t)(second >> 32) ^ x[1] ^ key_low);
  x[1] = (uint32_t)second;
  x[2] = opaque((uint32_t)(first >> 32) ^ x[3] ^ key_high);
  x[3] = (uint32_t)first;
}

// `head`: batch * heads + head.
__device__ __forceinline__ DropoutHead dropout_head(const attnpress_score_args *args,
                                                    int64_t head) {
  uint64_t seed = args->dropout_seed, offset = args->dropout_offset;
  if (args->dropout_seed_and_offset != nullptr) {
    seed = args->dropout_seed_and_offset[0];
    offset = args->dropout_seed_and_offset[1];
  }
  uint32_t key_low = (uint32_t)seed, key_high = (uint32_t)(seed >> 32) + (uint32_t)(offset >> 32);
  DropoutHead result = {{0, 0, (uint32_t)head, (uint32_t)offset}};
#pragma unroll
  for (int round = 0; round < 7; ++round) {
    philox_round(result.word, key_low, key_high);
    key_low += 0x9E3779B9u;
    key_high += 0xBB67AE85u;
  }
  return result;
}

// Where the decisions of 16 rows and 16 keys from `row` and `key` on begin, multiples of 16.
__device__ __forceinline__ DropoutPlace dropout_place(const DropoutHead *head, int row, int key,
                                                      int lane) {
  return {{head->word[0] + ((uint32_t)key / 16 * 32 + (uint32_t)lane) * DROPOUT_STEP, head->word[1],
           head->word[2] + (uint32_t)row / 16 * DROPOUT_ROW_STEP, head->word[3]}};
}

// The bits of a place's eight decisions, two in a word.
__device__ __forceinline__ void draw_bits(uint32_t word[4], const DropoutPlace *place) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    word[i] = place->word[i];
#pragma unroll
  for (int round = 0; round < 4; ++round)
    philox_round(word, 0, 0);
}

// Whether the decision of a word's lower half, and of its upper one, drops.
__device__ __forceinline__ bool lower_drops(uint32_t word, uint32_t threshold) {
  return 0xFC000000u - (word << 16) < threshold << 16;
}

__device__ __forceinline__ bool upper_drops(uint32_t word, uint32_t threshold) {
  return 0xFC00FFFFu - word < threshold << 16;
}

// Drops probabilities of both rows of a thread, in (tiles) tiles from `place` on.
__device__ __forceinline__ void drop_probabilities(float *p, int tiles, DropoutPlace place,
                                                   uint32_t threshold) {
#pragma unroll
  for (int tile = 0; tile < tiles; tile += 2) {
    uint32_t word[4];
    draw_bits(word, &place);
    place.word[0] += DROPOUT_KEY_STEP;
#pragma unroll
    for (int i = 0; i < 4; ++i) { // two keys of a tile and of one half
      float *pair = p + (tile + i / 2) * 4 + i % 2 * 2;
      if (lower_drops(word[i], threshold))
        pair[0] = 0.0f;
      if (upper_drops(word[i], threshold))
        pair[1] = 0.0f;
    }
  }
}
