/* The parts of append's family, in the order of a call: validate -> plan -> kernel arguments, or
 * the CPU backend. operation.c puts them together. */
#pragma once
#include "attnpress/append.h"
#include "attnpress/args/append.h"
#include "call.h"
#include "../generated/families.h"

/** A call, checked: its defaults are filled in. */
typedef struct ap_append_problem {
  int32_t dtype;
  attnpress_append_args args; /* tensors whose dtype is 0 are not there; q_out is where q goes */
  attnpress_rotary rotary;    /* rotary_dim 0: none; args.rotary is not read */
  int32_t in_place;           /* 1: q is rotated where it lies, as there is no q_out */
  int64_t new_tokens;         /* of a dense sequence */
  int64_t tokens;             /* of all */
} ap_append_problem;

static inline int ap_append_has(const attnpress_tensor *tensor) {
  return tensor->dtype != 0;
}

/* ---- validate.c ------------------------------------------------------------------------------ */

attnpress_status ap_append_validate(const attnpress_append_args *args, ap_check how,
                                    ap_append_problem *problem);

/* ---- operation.c ----------------------------------------------------------------------------- */

/** The same of a caller's struct, of any version. */
attnpress_status ap_append_check(const attnpress_append_args *args, ap_check how,
                                 ap_append_problem *problem);

/** Adds all of a caller's arguments (given.h); 0 where they are not such as are known again: q that is
 * rotated where it lies has two names of which a caller gives one. */
int ap_give_append(const attnpress_append_args *args, ap_given *given);

/* ---- plan.c ---------------------------------------------------------------------------------- */

/** What a launch depends on. */
typedef struct ap_append_size {
  int64_t dtype, tokens, token_threads;
} ap_append_size;

ap_append_size ap_append_size_of(const ap_append_problem *problem);
/** The launch of a call, or of a range; *count: 0 where there is nothing to do, else 1. */
attnpress_status ap_append_plan_launch(const ap_append_size *size, const ap_device *device,
                                       int32_t range, ap_launch *launch, int *count);
attnpress_status ap_append_plan_call(const ap_append_problem *problem, const ap_device *device,
                                     int32_t range, ap_launches *plan);
/** Of the launch. */
void ap_append_fill_args(const ap_append_problem *problem, attnpress_append_write_args *args);

/* ---- inspect.c ------------------------------------------------------------------------------- */

struct ap_inspection; /* inspect.h */
attnpress_status ap_append_inspect(const ap_append_problem *problem,
                                   struct ap_inspection *inspection);

/* ---- cpu.c ----------------------------------------------------------------------------------- */

/** num_threads: 0 is all cores. */
attnpress_status ap_append_cpu(const ap_append_problem *problem, int32_t num_threads);
