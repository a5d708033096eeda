// Dropout: which probabilities are kept. The decision of a query and a key, 16 bits, depends on
// batch, head, query, key, seed and offset alone, not on a tile or an architecture. It is one of
// eight, drawn at once for the elements that one lane holds of 16 rows and 16 keys in the layout
// of score.cuh. They are drawn of four words of a row and four of a pair of keys:
//
//   head      7 rounds of Philox 4x32 (Salmon et al. 2011) of the counter (0, 0, batch * heads +
//             head, the lower half of offset); the key is the seed, with the upper half of offset
//             added to its upper half
//   row       4 rounds of that, all with key 0, with DROPOUT_STEP * (row / 16 * 8 + row % 8) added
//             to word 0; then the lowest bit of each word is set
//   keys      word i: x = head i + DROPOUT_STEP * (key / 16 * 4 + key % 8 / 2), x ^= x >> 16,
//             x = x * 0x85EBCA6B + head i + 1, x ^= x >> 13, x *= 0xC2B2AE35, x ^= x >> 16
//   bits      word i = key / 8 % 2 * 2 + row / 8 % 2: a = keys i * row i + row i + 1, rotated to
//             the left by 12, times row i + 2, plus row i + 3
//   decision  0xFC00 less half key % 2 of the bits; below the threshold it drops
//
// All modulo 2^32, decisions modulo 2^16, and i + 1 to 3 modulo 4.
//
// Decisions count down from fp16's -inf, so that compute capability 9.0 compares two at once, as
// fp16 (dropout_rounded.cuh).
//
// Products of 64 bits are dear beside wgmma, and slow it down: they are made for a head, and for
// the rows that a warp keeps. Keys have words that lower halves of products mix, the same for all
// rows. Where they meet a row's, two such products are enough, as all factors are random:
// bench/NOTES.md, "Dropout's bits by rows and keys", has what they were held against.
#pragma once

#include "attnpress/args/attention.h"
#include "attnpress/device/ptx_opaque.cuh"

// What all words of a head are made of.
struct DropoutHead {
  uint32_t word[4];
};

// What the decisions of a row and the one 8 rows on, or of a pair of keys and the one 8 keys on,
// are drawn from.
struct DropoutWords {
  uint32_t word[4];
};

constexpr uint32_t DROPOUT_STEP = 0x9E3779B9u; // from a row, or a pair of keys, to the next

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

// The words of the row that has this place, 0 to 31, of 64 rows from `row` on, a multiple of 16: row
// place % 8 of 16 rows.
__device__ __forceinline__ DropoutWords row_words(const DropoutHead *head, int row, int place) {
  const uint32_t number = (uint32_t)(row / 16 * 8 + place);
  DropoutWords words = {
      {head->word[0] + number * DROPOUT_STEP, head->word[1], head->word[2], head->word[3]}};
#pragma unroll
  for (int round = 0; round < 4; ++round)
    philox_round(words.word, 0, 0);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    words.word[i] |= 1;
  return words;
}

// The words of the keys that have this place, 0 to 31, of 128 keys from `key` on, a multiple of 16:
// pair place % 4 of 16 keys.
__device__ __forceinline__ DropoutWords key_words(const DropoutHead *head, int key, int place) {
  const uint32_t number = (uint32_t)(key / 16 * 4 + place);
  DropoutWords words;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint32_t x = number * DROPOUT_STEP + head->word[i];
    x ^= x >> 16;
    x = x * 0x85EBCA6Bu + head->word[(i + 1) % 4];
    x ^= x >> 13;
    x *= 0xC2B2AE35u;
    words.word[i] = x ^ x >> 16;
  }
  return words;
}

// Another lane's words.
__device__ __forceinline__ DropoutWords words_of_lane(const DropoutWords *words, int lane) {
  DropoutWords result;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    result.word[i] = __shfl_sync(0xffffffff, words->word[i], lane);
  return result;
}

// The bits of eight decisions, two in a word.
__device__ __forceinline__ void draw_bits(uint32_t bits[4], const DropoutWords *rows,
                                          const DropoutWords *keys) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t a = keys->word[i] * rows->word[i] + rows->word[(i + 1) % 4];
    bits[i] = (a << 12 | a >> 20) * rows->word[(i + 2) % 4] + rows->word[(i + 3) % 4];
  }
}

// Whether the decision of a word's lower half, and of its upper one, drops.
__device__ __forceinline__ bool lower_drops(uint32_t word, uint32_t threshold) {
  return 0xFC000000u - (word << 16) < threshold << 16;
}

__device__ __forceinline__ bool upper_drops(uint32_t word, uint32_t threshold) {
  return 0xFC00FFFFu - word < threshold << 16;
}

// Draws the bits of tile `tile` and the next one, of those from `key` on. A warp has the words of 16
// tiles' keys, a lane each; all lanes come here.
__device__ __forceinline__ void draw_tiles(uint32_t bits[4], const DropoutHead *head,
                                           const DropoutWords *rows, DropoutWords *keys, int key,
                                           int tile, int lane) {
  if (tile % 16 == 0)
    *keys = key_words(head, key + tile * 8, lane);
  const DropoutWords these = words_of_lane(keys, tile % 16 * 2 + lane % 4);
  draw_bits(bits, rows, &these);
}

// Drops probabilities of both rows of a thread, in (tiles) tiles from `row` and `key` on, multiples
// of 16.
__device__ __forceinline__ void drop_probabilities(float *p, int tiles, const DropoutHead *head,
                                                   int row, int key, int lane, uint32_t threshold) {
  const DropoutWords rows = row_words(head, row, lane / 4);
  DropoutWords keys;
#pragma unroll
  for (int tile = 0; tile < tiles; tile += 2) {
    uint32_t bits[4];
    draw_tiles(bits, head, &rows, &keys, key, tile, lane);
#pragma unroll
    for (int i = 0; i < 4; ++i) { // two keys of a tile and of one half
      float *pair = p + (tile + i / 2) * 4 + i % 2 * 2;
      if (lower_drops(bits[i], threshold))
        pair[0] = 0.0f;
      if (upper_drops(bits[i], threshold))
        pair[1] = 0.0f;
    }
  }
}
