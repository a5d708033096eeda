/* One call of attention, and its kernels: what `attnpress run --device emulated` was asked for. */
#pragma once
#include "../../tools/score_options.h"
#include "attention/attention.h"
#include "family_run.h"

enum { RUN_NOT_GIVEN = -1 };

typedef struct run_options {
  int batch, seqlen_q, seqlen_k, heads, kv_heads, hdim, hdim_v, splits, seed;
  int dtype, layout, arch; /* arch: of run_devices */
  int causal, packed, backward, deterministic;
  int invariant, ready; /* of --lengths, and of what the library chooses */
  int32_t *lengths;
  int64_t length_count;
  int page_size, flat_pages;
  score_options scores;
  run_kernel meant;
} run_options;

/** The call as the library reduces it. */
void run_describe(const run_options *o, ap_problem *problem);
/** What a kernel whose name has the features is given. */
score_shape run_scores(const run_options *o);
/** The shape, without what a plan says of it. */
shape run_shape(const run_options *o);
/** The longest of --lengths; 0: none is given. */
int run_longest(const run_options *o);
/** A kernel by its stem. 0; or -1 with the reason in `report`. */
int run_open_stem(const run_options *o, const char *stem, kernel *k, char *report);
double run_seconds(void); /* from some time on */

/** The forward kernel, and what it is launched with; or each kernel of the backward pass, by itself.
 * The status to end with. */
int run_forward_call(const run_options *o);
int run_backward_call(const run_options *o);
