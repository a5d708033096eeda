/* Which probabilities dropout keeps, on the host; include/attnpress/device/dropout.cuh is its twin
 * and says what the bits of a decision are made of. */
#pragma once
#include <math.h>
#include <stdint.h>

#include "attnpress/attnpress.h"

enum { AP_DROPOUT_HEAD_ROUNDS = 7, AP_DROPOUT_ROW_ROUNDS = 4 };

/** A call's dropout. */
typedef struct ap_dropout {
  uint32_t key[2], offset; /* of a head's Philox call: its key, and its counter's last word */
  uint32_t threshold;      /* decisions below it drop, of 65536 */
  float scale;             /* of what is kept */
} ap_dropout;

/** A round of Philox 4x32, in place. */
static inline void ap_philox_round(uint32_t x[4], uint32_t key_low, uint32_t key_high) {
  const uint64_t first = (uint64_t)x[0] * 0xD2511F53u, second = (uint64_t)x[2] * 0xCD9E8D57u;
  x[0] = (uint32_t)(second >> 32) ^ x[1] ^ key_low;
  x[1] = (uint32_t)second;
  x[2] = (uint32_t)(first >> 32) ^ x[3] ^ key_high;
  x[3] = (uint32_t)first;
}

/** Philox 4x32 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011). */
static inline void ap_philox(uint32_t result[4], const uint32_t counter[4], const uint32_t key[2],
                             int rounds) {
  uint32_t x[4] = {counter[0], counter[1], counter[2], counter[3]};
  for (uint32_t round = 0; round < (uint32_t)rounds; ++round)
    ap_philox_round(x, key[0] + round * 0x9E3779B9u, key[1] + round * 0xBB67AE85u);
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

/* From a row's number, or that of a pair of keys, to the next. */
#define AP_DROPOUT_STEP 0x9E3779B9u

/* What the words of a pair of keys are multiplied by. */
#define AP_DROPOUT_KEY_FIRST  0x85EBCA6Bu
#define AP_DROPOUT_KEY_SECOND 0xC2B2AE35u

/** What decisions are drawn from: a head's words, those of a row and the one 8 rows on, and those of
 * a pair of keys and the one 8 keys on. */
typedef struct ap_dropout_words {
  uint32_t word[4];
} ap_dropout_words;

/** A head's. head: batch * heads + head. */
static inline ap_dropout_words ap_dropout_head(const ap_dropout *d, int64_t head) {
  const uint32_t counter[4] = {0, 0, (uint32_t)head, d->offset};
  ap_dropout_words result;
  ap_philox(result.word, counter, d->key, AP_DROPOUT_HEAD_ROUNDS);
  return result;
}

static inline ap_dropout_words ap_dropout_row_words(const ap_dropout_words *head, int64_t row) {
  ap_dropout_words result = *head;
  result.word[0] += (uint32_t)(row / 16 * 8 + row % 8) * AP_DROPOUT_STEP;
  for (int round = 0; round < AP_DROPOUT_ROW_ROUNDS; ++round)
    ap_philox_round(result.word, 0, 0);
  for (int i = 0; i < 4; ++i)
    result.word[i] |= 1;
  return result;
}

static inline ap_dropout_words ap_dropout_key_words(const ap_dropout_words *head, int64_t key) {
  const uint32_t number = (uint32_t)(key / 16 * 4 + key % 8 / 2);
  ap_dropout_words result;
  for (int i = 0; i < 4; ++i) {
    uint32_t x = number * AP_DROPOUT_STEP + head->word[i];
    x ^= x >> 16;
    x = x * AP_DROPOUT_KEY_FIRST + head->word[(i + 1) % 4];
    x ^= x >> 13;
    x *= AP_DROPOUT_KEY_SECOND;
    result.word[i] = x ^ x >> 16;
  }
  return result;
}

/** What a half of the bits is taken off for a decision, modulo 2^16. */
#define AP_DROPOUT_FROM 0xFC00u

/** How far the first product is rotated to the left. */
#define AP_DROPOUT_TURN 12

/** The eight decisions of a row's and a key's words, two in a word. */
static inline void ap_dropout_draw(uint32_t decisions[4], const ap_dropout_words *rows,
                                   const ap_dropout_words *keys) {
  for (int i = 0; i < 4; ++i) {
    const uint32_t a = keys->word[i] * rows->word[i] + rows->word[(i + 1) % 4];
    const uint32_t bits =
        (a << AP_DROPOUT_TURN | a >> (32 - AP_DROPOUT_TURN)) * rows->word[(i + 2) % 4] +
        rows->word[(i + 3) % 4];
    decisions[i] = (AP_DROPOUT_FROM - (bits >> 16)) << 16 | ((AP_DROPOUT_FROM - bits) & 0xffff);
  }
}

/** The decision over a row and a key, of 16 bits. */
static inline uint32_t ap_dropout_decision(const ap_dropout *d, int64_t head, int64_t row,
                                           int64_t key) {
  uint32_t word[4];
  const ap_dropout_words of_head = ap_dropout_head(d, head),
                         rows = ap_dropout_row_words(&of_head, row),
                         keys = ap_dropout_key_words(&of_head, key);
  ap_dropout_draw(word, &rows, &keys);
  const uint32_t pair = word[key / 8 % 2 * 2 + row / 8 % 2];
  return key % 2 != 0 ? pair >> 16 : pair & 0xffff;
}

/** 1 where a probability is kept. */
static inline int ap_dropout_keeps(const ap_dropout *d, int64_t head, int64_t row, int64_t key) {
  return ap_dropout_decision(d, head, row, key) >= d->threshold;
}
