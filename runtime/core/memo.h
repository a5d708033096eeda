/* A small table of remembered answers: what takes microseconds to work out, is asked for again and
 * again, and fits 16 bits. An entry is one word, so that threads need no lock; a later one takes the
 * place of an earlier one that falls on it. Two keys are told apart by 48 of their bits: an answer
 * may in principle be another key's, so it must be one that is right for any key, if not the best.
 *
 * All zeros is an empty table. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { AP_MEMO_ENTRIES = 128 };

typedef struct ap_memo {
  _Atomic(uint64_t) entries[AP_MEMO_ENTRIES]; /* 48 bits of the key, then the answer; 0: empty */
} ap_memo;

/** Mixes another number into a key; the first is mixed into 0. */
static inline uint64_t ap_memo_key(uint64_t key, uint64_t number) {
  key = (key ^ number) * UINT64_C(0x9E3779B97F4A7C15);
  return key ^ key >> 32;
}

/** The key of an answer of one of four kinds, 0 to 3: with it, none takes the place of one of another
 * kind. Calls that ask for several would forget one over the other each time. */
static inline uint64_t ap_memo_kind(uint64_t key, unsigned kind) {
  return (key & ~(uint64_t)3) | kind;
}

static inline _Atomic(uint64_t) *ap_memo_entry(ap_memo *memo, uint64_t key) {
  return &memo->entries[key % AP_MEMO_ENTRIES];
}

/** The answer for a key; 0: there is none. NULL remembers nothing. */
static inline uint16_t ap_memo_find(ap_memo *memo, uint64_t key) {
  if (memo == NULL)
    return 0;
  const uint64_t entry = atomic_load_explicit(ap_memo_entry(memo, key), memory_order_relaxed);
  return (entry ^ key) >> 16 == 0 ? (uint16_t)entry : 0;
}

/** Remembers an answer, which is not 0. */
static inline void ap_memo_put(ap_memo *memo, uint64_t key, uint16_t answer) {
  if (memo == NULL)
    return;
  const uint64_t entry = (key & ~UINT64_C(0xffff)) | answer;
  atomic_store_explicit(ap_memo_entry(memo, key), entry, memory_order_relaxed);
}

/* ---- Exact keys ------------------------------------------------------------------------------ */

enum { AP_EXACT_BITS = 9 };

/** Answers of 8 bits for keys below 2^56 that are not 0: an answer is its key's own. */
typedef struct ap_exact_memo {
  _Atomic(uint64_t) entries[1 << AP_EXACT_BITS]; /* the key, then the answer; 0: empty */
} ap_exact_memo;

static inline _Atomic(uint64_t) *ap_exact_entry(ap_exact_memo *memo, uint64_t key) {
  return &memo->entries[key * UINT64_C(0x9E3779B97F4A7C15) >> (64 - AP_EXACT_BITS)];
}

/** The answer for a key; 0: there is none. */
static inline uint8_t ap_exact_find(ap_exact_memo *memo, uint64_t key) {
  const uint64_t entry = atomic_load_explicit(ap_exact_entry(memo, key), memory_order_relaxed);
  return entry >> 8 == key ? (uint8_t)entry : 0;
}

/** Remembers an answer, which is not 0. */
static inline void ap_exact_put(ap_exact_memo *memo, uint64_t key, uint8_t answer) {
  atomic_store_explicit(ap_exact_entry(memo, key), key << 8 | answer, memory_order_relaxed);
}
