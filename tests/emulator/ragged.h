/* Sequences of their own lengths under the emulator: kernels that have `ragged` or `paged` in their
 * names. */
#pragma once
#include <stdio.h>

#include "forward.h"

/** Runs a kernel, and those that it is launched with, over the table of batches, up to the first that
 * fails: 0, or 1, and says so. *shapes counts. */
int run_ragged_shapes(const kernel *k, const companions *others, const score_shape *scores,
                      FILE *out, int *shapes);

/** The same of a sequence of more splits at fixed places than a warp has lanes, which the combine kernel
 * adds up: of some row the first of those behind has the greatest lse so far. The one for few rows has
 * as many as it can. */
int run_many_splits(const kernel *k, const companions *others, const score_shape *scores, FILE *out,
                    int *shapes);

/** Runs a schedule kernel on a batch of many sequences: 0, or 1, and says so. */
int run_schedule_alone(const kernel *schedule, FILE *out, int *shapes);

enum { RAGGED_SEQUENCES_MAX = 64 };

/** Lengths of the keys, queries as many or `seqlen_q` of each, for `attnpress run`. */
typedef struct ragged_run {
  int count, keys[RAGGED_SEQUENCES_MAX];
  int seqlen_q;   /* 0: as many as keys */
  int page_size;  /* 0: the keys lie one after the other */
  int flat_pages; /* 1: flat tables, one of V's own */
  int heads_kv, group, packed, splits;
  int fixed_blocks; /* key blocks of a split at a fixed place; 0: of a batch that is not invariant */
  int finds_sequences; /* 1: a kernel that may have a schedule has none */
} ragged_run;
/** Runs one batch. */
void run_ragged_batch(const kernel *k, const companions *others, const ragged_run *r,
                      const score_shape *scores, uint64_t seed, verdict *v);
