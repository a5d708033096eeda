/* What the forward and the backward part of `attnpress run` share. */
#pragma once
#include <stdint.h>

#include "lengths.h"
#include "score_options.h"

enum { CHECK_NONE, CHECK_SAMPLE, CHECK_FULL };
enum { NOT_GIVEN = -1 };

typedef struct run_options {
  int64_t batch, seqlen_q, seqlen_k, heads, kv_heads, hdim, hdim_v, splits, repeat, threads, seed;
  int64_t append, rotary_dim; /* new keys of each sequence; columns that are rotated, 0: all */
  int dtype, causal, layout, device, check, backward, deterministic, invariant, rotary;
  score_options scores;
  lengths_batch lengths; /* count 0: --lengths was not given */
} run_options;

/** Launches of a plan that are described, at the most: more than any call of attention has. */
enum { RUN_LAUNCHES_MAX = 8 };

/** What a plan launches. planned: the status that came with it. TOOL_OK, or another status after a
 * sentence. */
int run_describe_launches(const attnpress_plan *plan, attnpress_status planned,
                          attnpress_info info[RUN_LAUNCHES_MAX], int *launches);
/** The lines about each kernel. `before`: what the plan said before the first call, with the origins;
 * `info`: after it. */
void run_print_kernels(const attnpress_info *info, const attnpress_info *before, int count,
                       int on_cuda);
/** Whether products of the sizes fit, before tensors are described: TOOL_OK, or another status after a
 * sentence. */
int run_check_sizes(const run_options *o);
/** Multiplications and additions of a forward pass, of the pairs that are seen. */
double run_flops(const run_options *o);
/** Times a forward call with random inputs on the present GPU: the median of `repeat`. TOOL_OK, or
 * another status after a sentence. */
int run_time(const run_options *o, double *ms);
/** `attnpress run --backward`. */
int run_backward(const run_options *o);
