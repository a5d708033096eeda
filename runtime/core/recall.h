/* A table of remembered answers that are larger than those of memo.h: any bytes, by whole keys, so
 * that an answer is its key's own. It is read where it lies. Threads need no lock: while one reads
 * an answer nobody writes over it, and an entry that one is writing counts as empty for the others.
 * A later answer takes the place of an earlier one that falls on it.
 *
 * All zeros is an empty table. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { AP_RECALL_SETS = 64, AP_RECALL_WAYS = 2, AP_RECALL_KEY_WORDS = 256 };

/** What an answer depends on, word by word. */
typedef struct ap_recall_key {
  size_t words;
  uint64_t word[AP_RECALL_KEY_WORDS];
} ap_recall_key;

#define AP_RECALL_WRITER (UINT32_C(1) << 31)

typedef struct ap_recall_entry {
  _Atomic(uint32_t) tag;   /* bits of its key's hash, which spare others a look; 0: never written */
  _Atomic(uint32_t) users; /* threads that read it, and AP_RECALL_WRITER while one writes */
  size_t key_words;        /* 0: empty */
  size_t room_bytes;       /* of `memory`: the key, then the answer */
  uint64_t *memory;
} ap_recall_entry;

typedef struct ap_recall {
  ap_recall_entry entries[AP_RECALL_SETS][AP_RECALL_WAYS];
  _Atomic(uint32_t) turn; /* which way of a full set is written next */
} ap_recall;

/** Adds to a key, a multiple of 8 bytes without padding, for which there is room. */
static inline void ap_recall_add(ap_recall_key *key, const void *from, size_t bytes) {
  memcpy(&key->word[key->words], from, bytes);
  key->words += bytes / sizeof *key->word;
}

static inline uint64_t ap_recall_hash(const ap_recall_key *key) {
  uint64_t sum[4] = {0, 0, 0, 0}; /* side by side, as a product waits for the one before */
  size_t i = 0;
  for (; i + 4 <= key->words; i += 4)
    for (size_t lane = 0; lane < 4; ++lane)
      sum[lane] = (sum[lane] ^ key->word[i + lane]) * UINT64_C(0x9E3779B97F4A7C15);
  for (size_t lane = 0; lane < 3 && i + lane < key->words; ++lane)
    sum[lane] = (sum[lane] ^ key->word[i + lane]) * UINT64_C(0x9E3779B97F4A7C15);
  return (sum[0] ^ sum[1] >> 7) + (sum[2] >> 13 ^ sum[3] >> 23);
}

static inline ap_recall_entry *ap_recall_set(ap_recall *recall, uint64_t hash) {
  return recall->entries[(hash >> 32) % AP_RECALL_SETS];
}

static inline uint32_t ap_recall_tag(uint64_t hash) {
  return (uint32_t)(hash >> 24) | 1;
}

/** The answer is not looked at any more. */
static inline void ap_recall_release(ap_recall_entry *entry) {
  atomic_fetch_sub_explicit(&entry->users, 1, memory_order_release);
}

/** The answer for a key, which stays as it is until `*held` is released; NULL: there is none, and
 * nothing is held. */
static inline const void *ap_recall_hold(ap_recall *recall, const ap_recall_key *key,
                                         ap_recall_entry **held) {
  const uint64_t hash = ap_recall_hash(key);
  ap_recall_entry *set = ap_recall_set(recall, hash);
  for (int way = 0; way < AP_RECALL_WAYS; ++way) {
    ap_recall_entry *entry = &set[way];
    if (atomic_load_explicit(&entry->tag, memory_order_relaxed) != ap_recall_tag(hash))
      continue;
    const uint32_t users = atomic_fetch_add_explicit(&entry->users, 1, memory_order_acquire);
    if (users < AP_RECALL_WRITER && entry->key_words == key->words &&
        memcmp(entry->memory, key->word, key->words * sizeof *key->word) == 0) {
      *held = entry;
      return entry->memory + key->words;
    }
    ap_recall_release(entry);
  }
  return NULL;
}

/** The entry that a new answer goes into: that of the key, or an empty one, or any. */
static inline ap_recall_entry *ap_recall_choose(ap_recall *recall, uint64_t hash) {
  ap_recall_entry *set = ap_recall_set(recall, hash);
  for (int way = 0; way < AP_RECALL_WAYS; ++way) {
    const uint32_t tag = atomic_load_explicit(&set[way].tag, memory_order_relaxed);
    if (tag == ap_recall_tag(hash) || tag == 0)
      return &set[way];
  }
  return &set[atomic_fetch_add_explicit(&recall->turn, 1, memory_order_relaxed) % AP_RECALL_WAYS];
}

/** Room for the answer of a key, a multiple of 8 bytes, which is remembered from ap_recall_end() on;
 * NULL where others use the entry, or memory ran out: the answer is not remembered then. */
static inline void *ap_recall_begin(ap_recall *recall, const ap_recall_key *key,
                                    size_t answer_bytes, ap_recall_entry **written) {
  const uint64_t hash = ap_recall_hash(key);
  ap_recall_entry *entry = ap_recall_choose(recall, hash);
  const size_t key_bytes = key->words * sizeof *key->word, bytes = key_bytes + answer_bytes;
  uint32_t users = 0;
  if (!atomic_compare_exchange_strong_explicit(&entry->users, &users, AP_RECALL_WRITER,
                                               memory_order_acquire, memory_order_relaxed))
    return NULL;
  entry->key_words = 0;
  if (entry->room_bytes < bytes) {
    free(entry->memory);
    entry->memory = malloc(bytes);
    entry->room_bytes = entry->memory == NULL ? 0 : bytes;
  }
  if (entry->memory == NULL) {
    atomic_fetch_sub_explicit(&entry->users, AP_RECALL_WRITER, memory_order_release);
    return NULL;
  }
  atomic_store_explicit(&entry->tag, ap_recall_tag(hash), memory_order_relaxed);
  memcpy(entry->memory, key->word, key_bytes);
  entry->key_words = key->words;
  *written = entry;
  return entry->memory + key->words;
}

static inline void ap_recall_end(ap_recall_entry *written) {
  atomic_fetch_sub_explicit(&written->users, AP_RECALL_WRITER, memory_order_release);
}

/** Frees what the table has; while nobody asks. */
static inline void ap_recall_free(ap_recall *recall) {
  for (int set = 0; set < AP_RECALL_SETS; ++set)
    for (int way = 0; way < AP_RECALL_WAYS; ++way)
      free(recall->entries[set][way].memory);
}
