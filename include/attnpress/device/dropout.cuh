// Dropout: which probabilities are kept. The decision of a query and a key, 16 bits, depends on
// batch, head, query, key, seed and offset alone, not on a tile or an architecture. It is one of the
// eight of a Philox 4x32 call with 7 rounds (Salmon et al. 2011), which serves the eight elements
// that one lane holds of 16 rows and 16 keys in the layout of score.cuh:
//
//   key       seed, the upper half of offset added to its upper half
//   counter   (key / 16 * 32 + row % 8 * 4 + key % 8 / 2,  row / 16,  batch * heads + head,
//              the lower half of offset)
//   decision  word key / 8 % 2 * 2 + row / 8 % 2 of the result, half key % 2 of it
#pragma once

#include "attnpress/args/attention.h"

struct Philox {
  uint32_t key[2], counter[4];
};

// The multiplications of one round, and of seven.
__device__ __forceinline__ void philox_round(uint32_t x[4], uint32_t key_low, uint32_t key_high) {
  const uint64_t first = (uint64_t)x[0] * 0xD2511F53u, second = (uint64_t)x[2] * 0xCD9E8D57u;
  x[0] = (uint32_t)(second >> 32) ^ x[1] ^ key_low;
  x[1] = (uint32_t)second;
  x[2] = (uint32_t)(first >> 32) ^ x[3] ^ key_high;
  x[3] = (uint32_t)first;
}

__device__ __forceinline__ void philox(uint32_t result[4], const Philox *at) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    result[i] = at->counter[i];
#pragma unroll
  for (uint32_t round = 0; round < 7; ++round)
    philox_round(result, at->key[0] + round * 0x9E3779B9u, at->key[1] + round * 0xBB67AE85u);
}

// A call's part of it, from seed and offset.
struct DropoutSeed {
  uint32_t key[2], offset;
};

__device__ __forceinline__ DropoutSeed dropout_seed(const attnpress_score_args *args) {
  uint64_t seed = args->dropout_seed, offset = args->dropout_offset;
  if (args->dropout_seed_and_offset != nullptr) {
    seed = args->dropout_seed_and_offset[0];
    offset = args->dropout_seed_and_offset[1];
  }
  return {{(uint32_t)seed, (uint32_t)(seed >> 32) + (uint32_t)(offset >> 32)}, (uint32_t)offset};
}

// Where the decisions of a head's 16 rows from `row` on begin, a multiple of 16, for this lane.
__device__ __forceinline__ Philox dropout_rows(const DropoutSeed *seed, int64_t head, int row,
                                               int lane) {
  return {{seed->key[0], seed->key[1]},
          {(uint32_t)lane, (uint32_t)row / 16, (uint32_t)head, seed->offset}};
}

// Drops probabilities of both rows of a thread, in (tiles) tiles from `key` on, a multiple of 16.
__device__ __forceinline__ void drop_probabilities(float *p, int tiles, Philox at, int key,
                                                   uint32_t threshold) {
  at.counter[0] += (uint32_t)key / 16 * 32;
#pragma unroll
  for (int tile = 0; tile < tiles; tile += 2) {
    uint32_t word[4];
    philox(word, &at);
    at.counter[0] += 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) { // two keys of a tile and of one half
      float *pair = p + (tile + i / 2) * 4 + i % 2 * 2;
      if (word[i] << 16 < threshold << 16)
        pair[0] = 0.0f;
      if (word[i] < threshold << 16)
        pair[1] = 0.0f;
    }
  }
}
