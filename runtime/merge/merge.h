/* The parts of merge's family, in the order of a call: validate -> plan -> kernel arguments, or the
 * CPU backend. operation.c puts them together. */
#pragma once
#include "attnpress/args/merge.h"
#include "attnpress/merge.h"
#include "call.h"
#include "../generated/families.h"

_Static_assert((int)ATTNPRESS_MERGE_PARTS_ARGS_MAX == (int)ATTNPRESS_MERGE_PARTS_MAX,
               "the kernel has room for the most parts of a call");

/** A call, checked: its defaults are filled in. */
typedef struct ap_merge_problem {
  int32_t num_parts, dtype, out_dtype, lse_log2;
  int64_t batch, seqlen, heads, head_dim;
  attnpress_merge_part part[ATTNPRESS_MERGE_PARTS_MAX];
  attnpress_tensor out;
  float *lse; /* or NULL */
  int64_t lse_stride[3];
} ap_merge_problem;

/** 0: nothing is written. */
static inline int64_t ap_merge_rows(const ap_merge_problem *p) {
  return p->batch * p->seqlen * p->heads;
}

/* ---- validate.c ------------------------------------------------------------------------------ */

attnpress_status ap_merge_validate(const attnpress_merge_args *args, ap_check how,
                                   ap_merge_problem *problem);

/* ---- plan.c ---------------------------------------------------------------------------------- */

typedef struct ap_merge_plan {
  int32_t lane_shift; /* 2^lane_shift lanes share a row */
  ap_launches base;
} ap_merge_plan;

attnpress_status ap_merge_plan_call(const ap_merge_problem *problem, const ap_device *device,
                                    int32_t range, ap_merge_plan *plan);
/** Of the launch. */
void ap_merge_fill_args(const ap_merge_problem *problem, const ap_merge_plan *plan,
                        attnpress_merge_parts_args *args);

/* ---- cpu.c ----------------------------------------------------------------------------------- */

/** num_threads: 0 is all cores. */
attnpress_status ap_merge_cpu(const ap_merge_problem *problem, int32_t num_threads);
