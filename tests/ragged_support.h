/* What tests draw ragged batches with: random numbers, and memory that is NaN until it is written.
 * Included after <cmocka.h>. */
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/reference.h"

enum { SEQUENCES_MAX = 6, MEMORIES = 24 };

static uint64_t state_of_random;

/* splitmix64, below `count` */
static int draw(int count) {
  uint64_t x = state_of_random += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return (int)((x ^ x >> 31) >> 33) % count;
}

/* All that a batch points to. */
typedef struct memories {
  void *data[MEMORIES];
  int count;
} memories;

static void *allocate(memories *m, size_t bytes) {
  const size_t whole = (bytes + 64) / 64 * 64;
  void *data = aligned_alloc(64, whole);
  assert_non_null(data);
  assert_true(m->count < MEMORIES);
  m->data[m->count++] = data;
  return memset(data, 0xff, whole);
}

static void free_memories(memories *m) {
  for (int i = 0; i < m->count; ++i)
    free(m->data[i]);
}

static size_t bytes_of(const attnpress_tensor *t) {
  return (size_t)reference_span(t) * (size_t)reference_element_bytes(t->dtype);
}

/* In memory (batch, row, head) or (batch, head, row). */
static attnpress_tensor allocate_tensor(memories *m, int64_t batches, int64_t rows, int64_t heads,
                                        int64_t hdim, int32_t dtype) {
  attnpress_tensor t = draw(2) ? attnpress_tensor_bshd(NULL, batches, rows, heads, hdim, dtype)
                               : attnpress_tensor_bhsd(NULL, batches, rows, heads, hdim, dtype);
  t.data = allocate(m, bytes_of(&t));
  return t;
}

static int longest(const int *lengths, int count) {
  int most = 0;
  for (int i = 0; i < count; ++i)
    most = lengths[i] > most ? lengths[i] : most;
  return most;
}
