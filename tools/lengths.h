/* Sequences of their own lengths in `attnpress run`: its words, and the arrays of a call. */
#pragma once
#include <stdint.h>

#include "attnpress/attnpress.h"

enum { LENGTHS_MAX_COUNT = 65536 };

/** "5,300,77", or "lognormal:COUNT:MEAN:SEED" of so many lengths with that mean, drawn from a
 * log-normal distribution with sigma 1, at least 1 each. *lengths is allocated. NULL; or what the
 * text must be. */
const char *lengths_parse(const char *text, int32_t **lengths, int64_t *count);

/** Queries and keys one after the other, or keys in pages, in the order of a permutation. */
typedef struct lengths_batch {
  int64_t count, page_size; /* page_size 0: no pages */
  int flat;                 /* 1: the page table is flat, and V has one of its own */
  int ready;                /* 1: there is room for a schedule, which the call then has */
  const int32_t *lengths;   /* of the keys */
  int64_t seqlen_q;         /* of every sequence; 0: as many queries as keys */
  int64_t total_q, total_k, longest_q, longest_k, pages;
  int64_t table_entries;   /* of a page table */
  attnpress_ragged ragged; /* names `arrays` */
  int32_t *arrays;
  size_t arrays_bytes; /* the schedule, which is last, among them */
  size_t schedule_offset_bytes, schedule_bytes;
} lengths_batch;

/** A number without a factor in common with `count`, which is positive: its multiples, modulo count,
 * are a shuffled sequence of 0 to count - 1. */
int64_t lengths_step(int64_t count);
/** Fills the rest; 0, or -1 where memory runs out, or the sums pass 2^31. */
int lengths_describe(lengths_batch *batch);
void lengths_free(lengths_batch *batch);
/** The same group with the arrays at another address. */
attnpress_ragged lengths_move(const lengths_batch *batch, uintptr_t arrays);
