/* What a caller gave, read as it stands: what two calls have to have in common so that the one does
 * what the other did at other addresses. That is all of the structs but the addresses of what kernels
 * read and write, of which only counts whether they are there and how they are aligned; and of the
 * pointers from struct to struct only whether they are there. */
#pragma once
#include <stdint.h>
#include <string.h>

#include "core/recall.h"

enum {
  AP_GIVEN_ADDRESSES_MAX = 48,
  AP_GIVEN_WORDS_MAX = AP_RECALL_KEY_WORDS - 2, /* the rest is for whose call it is (call.c) */
  AP_GIVEN_ALIGNMENT = 16,                      /* at which nobody asks for more */
};

/** A struct of the public interface in words of 8 bytes. Its first is struct_size. */
typedef struct ap_layout {
  uint16_t words;
  uint16_t workspace; /* word of the workspace's address, behind which its size is; 0: none */
  uint16_t num_addresses, num_numbers, num_pointers;
  uint16_t address[14];
  uint16_t number[2];  /* that a kernel is given as they stand, and of which nothing else depends */
  uint16_t pointer[8]; /* to further structs, on the host */
} ap_layout;

#define AP_WORD(type, field) (uint16_t)(offsetof(type, field) / sizeof(uint64_t))

enum { AP_NONE_RAN, AP_ONE_RAN, AP_IS_KEPT, AP_CANNOT_BE_KEPT };

typedef struct ap_given {
  ap_recall_key key;
  int came;        /* of earlier calls that gave the same: AP_NONE_RAN ... */
  void *workspace; /* which is not in the key: whoever uses it checks it */
  size_t workspace_bytes;
  int count;
  const void *address[AP_GIVEN_ADDRESSES_MAX]; /* where they are: first `workspace` above, then
                                                  those of the structs in their order */
} ap_given;

static inline void ap_given_begin(ap_given *given) {
  given->key.words = 0;
  given->came = AP_NONE_RAN;
  given->workspace = NULL;
  given->workspace_bytes = 0;
  given->address[0] = &given->workspace;
  given->count = 1;
}

/** An address, or a number, as it is given. */
static inline uint64_t ap_given_value(const ap_given *given, uint32_t index) {
  uint64_t value;
  memcpy(&value, given->address[index], sizeof value);
  return value;
}

/** What counts of an address. */
static inline uint64_t ap_given_kind(const void *address) {
  return (uint64_t)(address != NULL) * AP_GIVEN_ALIGNMENT | (uintptr_t)address % AP_GIVEN_ALIGNMENT;
}

/** Adds a struct without struct_size; 0 where there is no room. */
static inline int ap_given_add_fields(ap_given *given, const void *from, const ap_layout *layout) {
  ap_recall_key *key = &given->key;
  void *const *fields = from;
  if (key->words + layout->words > AP_GIVEN_WORDS_MAX ||
      given->count + layout->num_addresses + layout->num_numbers > AP_GIVEN_ADDRESSES_MAX)
    return 0;
  uint64_t *word = &key->word[key->words];
  memcpy(word, from, layout->words * sizeof *word);
  for (int i = 0; i < layout->num_addresses; ++i) {
    const int at = layout->address[i];
    word[at] = ap_given_kind(fields[at]);
    given->address[given->count++] = &fields[at];
  }
  for (int i = 0; i < layout->num_numbers; ++i) {
    const int at = layout->number[i];
    word[at] = word[at] != 0;
    given->address[given->count++] = &fields[at];
  }
  for (int i = 0; i < layout->num_pointers; ++i)
    word[layout->pointer[i]] = fields[layout->pointer[i]] != NULL;
  if (layout->workspace != 0) {
    given->workspace = fields[layout->workspace];
    given->workspace_bytes = (size_t)word[layout->workspace + 1];
    word[layout->workspace] = word[layout->workspace + 1] = 0;
  }
  key->words += layout->words;
  return 1;
}

/** Adds a struct; 0 where it is NULL or an older or a newer caller's, and where there is no room. */
static inline int ap_given_add(ap_given *given, const void *from, const ap_layout *layout) {
  size_t struct_size;
  if (from == NULL)
    return 0;
  memcpy(&struct_size, from, sizeof struct_size);
  return struct_size == layout->words * sizeof(uint64_t) &&
         ap_given_add_fields(given, from, layout);
}

/** Adds a text, or NULL. */
static inline int ap_given_add_text(ap_given *given, const char *text) {
  const size_t bytes = text != NULL ? strlen(text) + 1 : 0;
  const size_t words = (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
  uint64_t *word = &given->key.word[given->key.words];
  if (given->key.words + words + 1 > AP_GIVEN_WORDS_MAX)
    return 0;
  word[words] = 0; /* behind the text's end */
  word[0] = bytes;
  if (bytes > 0)
    memcpy(word + 1, text, bytes);
  given->key.words += words + 1;
  return 1;
}

/** Adds what else counts; 0 where there is no room. */
static inline int ap_given_add_words(ap_given *given, const uint64_t *words, size_t count) {
  if (given->key.words + count > AP_GIVEN_WORDS_MAX)
    return 0;
  ap_recall_add(&given->key, words, count * sizeof *words);
  return 1;
}
