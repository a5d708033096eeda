/* Merging parts: the operation that call.c carries out, and its public functions. */
#include <stdio.h>

#include "merge/merge.h"

/* Size in the first version of the header; it never changes. */
enum { ARGS_FIRST_BYTES = 136 };

/** A checked call. */
typedef struct merge_call {
  ap_call base;
  ap_merge_problem problem;
} merge_call;

/** A call that is run: its argument block, beside what it was checked to be. */
typedef struct merge_run {
  merge_call call;
  attnpress_merge_parts_args block;
} merge_run;

static const ap_merge_problem *problem_of(const ap_call *base) {
  return &((const merge_call *)base)->problem;
}

static attnpress_status check(const void *args, ap_check how, ap_call *base) {
  attnpress_merge_args a;
  FORWARD_IF(ap_copy_struct(args, &a, sizeof a, ARGS_FIRST_BYTES, "args"));
  *base = (ap_call){.workspace = NULL};
  return ap_merge_validate(&a, how, &((merge_call *)base)->problem);
}

static attnpress_status plan(const ap_call *base, const ap_device *device, int32_t range,
                             ap_launches *launches) {
  return ap_merge_plan_call(problem_of(base), device, range, AP_PLAN_OF(ap_merge_plan, launches));
}

static attnpress_status serves(const ap_call *base, const ap_call *planned_base, int32_t range) {
  const ap_merge_problem *p = problem_of(base), *planned = problem_of(planned_base);
  const struct {
    const char *name;
    int64_t value, planned;
  } fields[] = {{"parts[0].out.dtype", p->dtype, planned->dtype},
                {"out.dtype", p->out_dtype, planned->out_dtype},
                {"batch", p->batch, planned->batch}, /* from here on: of one call */
                {"seqlen", p->seqlen, planned->seqlen},
                {"heads", p->heads, planned->heads},
                {"head_dim", p->head_dim, planned->head_dim}};
  const size_t count = range == ATTNPRESS_UP_TO ? 2 : sizeof fields / sizeof *fields;
  for (size_t i = 0; i < count; ++i)
    FORWARD_IF(
        ap_check_extent(fields[i].name, fields[i].value, fields[i].planned, ATTNPRESS_ONE_CALL));
  return ATTNPRESS_OK;
}

static attnpress_status arguments(ap_maps *maps, ap_call *base, const ap_launches *launches,
                                  int index, ap_block *block) {
  merge_run *run = (merge_run *)base;
  (void)maps, (void)index;
  ap_merge_fill_args(problem_of(base), AP_CONST_PLAN_OF(ap_merge_plan, launches), &run->block);
  *block = AP_BLOCK(run->block);
  return ATTNPRESS_OK;
}

static attnpress_status run_cpu(const ap_call *base, int32_t num_threads) {
  return ap_merge_cpu(problem_of(base), num_threads);
}

static void describe_cpu(const ap_call *base, attnpress_info *info) {
  const ap_merge_problem *p = problem_of(base);
  const ap_variant variant = {
      .family = AP_FAMILY_MERGE,
      .axis = {[AP_MERGE_DTYPE] = p->dtype, [AP_MERGE_RESULT] = p->out_dtype}};
  snprintf(info->stem, sizeof info->stem, "cpu_merge_parts_%s_o%s",
           ap_word_of(&variant, AP_MERGE_DTYPE), ap_word_of(&variant, AP_MERGE_RESULT));
}

static attnpress_status run_planned(const attnpress_plan *planned, const void *args, void *stream) {
  merge_run run;
  ap_merge_plan fresh;
  return ap_plan_run(planned, args, stream, &run.call.base, &fresh.base);
}

static const ap_operation merge = {.name = "attnpress_merge",
                                   .call_bytes = sizeof(merge_call),
                                   .plan_bytes = sizeof(ap_merge_plan),
                                   .check = check,
                                   .plan = plan,
                                   .serves = serves,
                                   .arguments = arguments,
                                   .run_cpu = run_cpu,
                                   .describe_cpu = describe_cpu,
                                   .run_planned = run_planned};

attnpress_status attnpress_merge(attnpress_handle *handle, const attnpress_merge_args *args,
                                 void *stream) {
  merge_run run;
  ap_merge_plan launches;
  return ap_call_run(handle, &merge, args, stream, &run.call.base, &launches.base);
}

attnpress_status attnpress_plan_merge(attnpress_handle *handle, const attnpress_merge_args *args,
                                      const attnpress_plan_options *options,
                                      attnpress_plan **made) {
  return ap_plan_make(handle, &merge, args, options, made);
}
