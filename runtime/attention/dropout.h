/* Which probabilities dropout keeps, on the host; include/attnpress/device/dropout.cuh is its twin
 * and says what the bits of a decision are made of. */
#pragma once
#include <math.h>
#include <stdint.h>

#include "attnpress/attnpress.h"

enum { AP_DROPOUT_ROUNDS = 7 };

/** A call's dropout. */
typedef struct ap_dropout {
  uint32_t key[2], offset; /* of Philox: its key, and the last word of its counters */
  uint32_t threshold;      /* decisions below it drop, of 65536 */
  float scale;             /* of what is kept */
} ap_dropout;

/** Philox 4x32 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011). */
static inline void ap_philox(uint32_t result[4], const uint32_t counter[4], const uint32_t key[2],
                             int rounds) {
  uint32_t x[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
  for (int round = 0; round < rounds; ++round) {
    const uint64_t first = (uint64_t)x[0] * 0xD2511F53u, second = (uint64_t)x[2] * 0xCD9E8D57u;
    x[0] = (uint32_t)(second >> 32) ^ x[1] ^ k[0];
    x[1] = (uint32_t)second;
    x[2] = (uint32_t)(first >> 32) ^ x[3] ^ k[1];
    x[3] = (uint32_t)first;
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  for (int i = 0; i < 4; ++i)
    result[i] = x[i];
}

/** 65536 times a probability, from 0 to less than 1; something is always kept. */
static inline uint32_t ap_dropout_threshold(float probability) {
  const float threshold = rintf(probability * 65536.0f);
  return threshold >= 65535.0f ? 65535u : (uint32_t)threshold;
}

static inline float ap_dropout_scale(float probability) {
  return 1.0f / (1.0f - probability);
}

/** Of a checked group, or of none. Reads the seed where it is behind a pointer. */
static inline ap_dropout ap_dropout_of(const attnpress_dropout *d) {
  if (d == NULL)
    return (ap_dropout){.scale = 1.0f};
  const uint64_t seed = d->seed_and_offset != NULL ? d->seed_and_offset[0] : d->seed;
  const uint64_t offset = d->seed_and_offset != NULL ? d->seed_and_offset[1] : d->offset;
  return (ap_dropout){.key = {(uint32_t)seed, (uint32_t)(seed >> 32) + (uint32_t)(offset >> 32)},
                      .offset = (uint32_t)offset,
                      .threshold = ap_dropout_threshold(d->probability),
                      .scale = ap_dropout_scale(d->probability)};
}

/** The counter of the call that decides over `row` and seven others of its 16 rows and 16 keys.
 * head: batch * heads + head. */
static inline void ap_dropout_counter(uint32_t counter[4], const ap_dropout *d, int64_t head,
                                      int64_t row, int64_t key) {
  counter[0] = (uint32_t)(key / 16 * 32 + row % 8 * 4 + key % 8 / 2);
  counter[1] = (uint32_t)(row / 16);
  counter[2] = (uint32_t)head;
  counter[3] = d->offset;
}

/** The decision over a row and a key, of 16 bits. */
static inline uint32_t ap_dropout_decision(const ap_dropout *d, int64_t head, int64_t row,
                                           int64_t key) {
  uint32_t counter[4], word[4];
  ap_dropout_counter(counter, d, head, row, key);
  ap_philox(word, counter, d->key, AP_DROPOUT_ROUNDS);
  const uint32_t pair = word[key / 8 % 2 * 2 + row / 8 % 2];
  return key % 2 != 0 ? pair >> 16 : pair & 0xffff;
}

/** 1 where a probability is kept. */
static inline int ap_dropout_keeps(const ap_dropout *d, int64_t head, int64_t row, int64_t key) {
  return ap_dropout_decision(d, head, row, key) >= d->threshold;
}
