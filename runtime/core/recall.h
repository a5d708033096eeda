/* A table of remembered answers that are larger than those of memo.h: whole structs, by whole keys,
 * so that an answer is its key's own. Threads need no lock: an entry that one is writing counts as
 * empty for the others, and a later answer takes the place of an earlier one that falls on it.
 *
 * All zeros is an empty table, and no key. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { AP_RECALL_ENTRIES = 32, AP_RECALL_KEY_WORDS = 32, AP_RECALL_ANSWER_WORDS = 128 };

typedef struct ap_recall_entry {
  _Atomic(uint32_t) turn; /* odd: a thread is writing */
  /* Written with release and read with acquire, so that who reads a word of a later answer sees its
   * turn, too. */
  _Atomic(uint64_t) key[AP_RECALL_KEY_WORDS], answer[AP_RECALL_ANSWER_WORDS];
} ap_recall_entry;

typedef struct ap_recall {
  ap_recall_entry entries[AP_RECALL_ENTRIES];
} ap_recall;

/** The sizes of a key and of an answer, multiples of 8 bytes; the same for all of a table. */
typedef struct ap_recall_sizes {
  size_t key_words, answer_words;
} ap_recall_sizes;

static inline uint64_t ap_recall_word(const void *from, size_t i) {
  uint64_t word;
  memcpy(&word, (const char *)from + i * sizeof word, sizeof word);
  return word;
}

static inline ap_recall_entry *ap_recall_entry_of(ap_recall *recall, ap_recall_sizes sizes,
                                                  const void *key) {
  uint64_t sum[4] = {0, 0, 0, 0}; /* side by side, as a product waits for the one before */
  for (size_t i = 0; i < sizes.key_words; ++i)
    sum[i % 4] = (sum[i % 4] ^ ap_recall_word(key, i)) * UINT64_C(0x9E3779B97F4A7C15);
  const uint64_t hash = (sum[0] ^ sum[1] >> 7) + (sum[2] >> 13 ^ sum[3] >> 23);
  return &recall->entries[(hash >> 32) % AP_RECALL_ENTRIES];
}

/** 1 where the answer for a key was remembered. NULL remembers nothing. */
static inline int ap_recall_find(ap_recall *recall, ap_recall_sizes sizes, const void *key,
                                 void *answer) {
  if (recall == NULL)
    return 0;
  const ap_recall_entry *entry = ap_recall_entry_of(recall, sizes, key);
  const uint32_t turn = atomic_load_explicit(&entry->turn, memory_order_acquire);
  uint64_t differ = turn % 2;
  for (size_t i = 0; i < sizes.key_words; ++i)
    differ |= ap_recall_word(key, i) ^ atomic_load_explicit(&entry->key[i], memory_order_acquire);
  if (differ)
    return 0;
  for (size_t i = 0; i < sizes.answer_words; ++i) {
    const uint64_t word = atomic_load_explicit(&entry->answer[i], memory_order_acquire);
    memcpy((char *)answer + i * sizeof word, &word, sizeof word);
  }
  return atomic_load_explicit(&entry->turn, memory_order_relaxed) == turn;
}

/** 1 where the entry is this thread's to write. */
static inline int ap_recall_take(ap_recall_entry *entry, uint32_t *turn) {
  *turn = atomic_load_explicit(&entry->turn, memory_order_relaxed);
  return *turn % 2 == 0 &&
         atomic_compare_exchange_strong_explicit(&entry->turn, turn, *turn + 1,
                                                 memory_order_acquire, memory_order_relaxed);
}

/** Remembers an answer, unless another thread is writing in its place. */
static inline void ap_recall_put(ap_recall *recall, ap_recall_sizes sizes, const void *key,
                                 const void *answer) {
  uint32_t turn;
  if (recall == NULL)
    return;
  ap_recall_entry *entry = ap_recall_entry_of(recall, sizes, key);
  if (!ap_recall_take(entry, &turn))
    return;
  for (size_t i = 0; i < sizes.key_words; ++i)
    atomic_store_explicit(&entry->key[i], ap_recall_word(key, i), memory_order_release);
  for (size_t i = 0; i < sizes.answer_words; ++i)
    atomic_store_explicit(&entry->answer[i], ap_recall_word(answer, i), memory_order_release);
  atomic_store_explicit(&entry->turn, turn + 2, memory_order_release);
}

/** Forgets all; while nobody asks. */
static inline void ap_recall_clear(ap_recall *recall) {
  for (size_t i = 0; i < AP_RECALL_ENTRIES; ++i)
    for (size_t word = 0; word < AP_RECALL_KEY_WORDS; ++word)
      atomic_store_explicit(&recall->entries[i].key[word], 0, memory_order_release);
}
