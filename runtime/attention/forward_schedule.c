/* The operation that makes a schedule, which later calls find ready. It has the arguments of those
 * calls: what says which rows the sequences have, and where the schedule goes. */
#include <stdio.h>

#include "attention/defaults.h"
#include "attention/groups.h"
#include "attention/ragged.h"
#include "attention/ready.h"
#include "inspect.h"

/** A checked call. */
typedef struct schedule_call {
  ap_call base;
  attnpress_forward_args args;
  ap_groups groups; /* that args names */
  ap_problem problem;
} schedule_call;

/** A call that is run: its argument block, beside what it was checked to be. */
typedef struct schedule_run {
  schedule_call call;
  attnpress_fwd_schedule_args block;
} schedule_run;

static attnpress_status check(const void *args, ap_check how, ap_call *base) {
  schedule_call *call = (schedule_call *)base;
  FORWARD_IF(
      ap_copy_struct(args, &call->args, sizeof call->args, AP_FORWARD_ARGS_FIRST_BYTES, "args"));
  RETURN_IF(call->args.ragged == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "ragged is NULL; a schedule is the order of sequences of their own lengths");
  FORWARD_IF(ap_copy_groups(&call->args, &call->groups));
  call->args.score_mod = NULL; /* nor does the order depend on what is done to scores */
  *base = (ap_call){.workspace = NULL};
  const ap_check without_data = {how.backend, 0, how.range};
  FORWARD_IF(ap_validate_forward(&call->args, without_data, &call->problem));
  if (!how.with_data)
    return ATTNPRESS_OK;
  FORWARD_IF(ap_check_ragged(&call->args, 1));
  RETURN_IF(call->args.ragged->schedule == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "ragged.schedule is NULL; it is where the schedule goes");
  return ATTNPRESS_OK;
}

static attnpress_status plan(const ap_call *base, const ap_device *device, int32_t range,
                             ap_launches *launches) {
  const int32_t batch = ((const schedule_call *)base)->problem.batch;
  const int any = range == ATTNPRESS_UP_TO;
  ap_launch *launch = &launches->launch[0];
  launches->count = any || batch > 0;
  launches->workspace_bytes = 0;
  *launch = (ap_launch){.variant = ap_schedule_variant(),
                        .grid = any ? 0 : ap_schedule_parts(batch),
                        .num_splits = 1};
  launch->variant.axis[AP_ATTENTION_READY] = 1;
  FORWARD_IF(ap_check_capability(device->capability));
  launch->target = ap_target_for(&launch->variant, device->capability);
  return ap_find_launch_tile(launch);
}

/** One kernel makes the schedules of all batches. */
static attnpress_status serves(const ap_call *base, const ap_call *planned, int32_t range) {
  if (range == ATTNPRESS_UP_TO)
    return ATTNPRESS_OK;
  return ap_check_extent("ragged.batch", ((const schedule_call *)base)->problem.batch,
                         ((const schedule_call *)planned)->problem.batch, range);
}

static attnpress_status arguments(ap_maps *maps, ap_call *base, const ap_launches *launches,
                                  int index, ap_block *block) {
  schedule_run *run = (schedule_run *)base;
  (void)maps, (void)launches, (void)index;
  run->block = (attnpress_fwd_schedule_args){
      .ragged = ap_fill_ragged_args(&run->call.args),
      .batch = run->call.problem.batch,
      .seqlen_q = run->call.problem.seqlen_q,
      .ready = run->call.args.ragged->schedule,
  };
  *block = AP_BLOCK(run->block);
  return ATTNPRESS_OK;
}

static attnpress_status inspect(const ap_call *base, struct ap_inspection *inspection) {
  schedule_call call = *(const schedule_call *)base;
  attnpress_ragged ragged = *call.args.ragged;
  ragged.schedule = NULL; /* nothing is there yet */
  call.args.ragged = &ragged;
  return ap_inspect_ragged(&call.args, inspection);
}

static attnpress_status run_cpu(const ap_call *base, int32_t num_threads) {
  const schedule_call *call = (const schedule_call *)base;
  const attnpress_ragged_args ragged = ap_fill_ragged_args(&call->args);
  (void)num_threads;
  return ap_order_sequences(&ragged, call->args.ragged->batch, ap_ragged_queries(&call->args),
                            call->args.ragged->schedule);
}

static void describe_cpu(const ap_call *base, attnpress_info *info) {
  (void)base;
  snprintf(info->stem, sizeof info->stem, "cpu_fwd_schedule_ready");
}

static attnpress_status run_planned(const attnpress_plan *planned, const void *args, void *stream) {
  schedule_run run;
  ap_launches fresh;
  return ap_plan_run(planned, args, stream, &run.call.base, &fresh);
}

static const ap_operation forward_schedule = {
    .name = "attnpress_forward_schedule",
    .call_bytes = sizeof(schedule_call),
    .plan_bytes = sizeof(ap_launches),
    .check = check,
    .plan = plan,
    .serves = serves,
    .arguments = arguments,
    .inspect = inspect,
    .run_cpu = run_cpu,
    .describe_cpu = describe_cpu,
    .run_planned = run_planned,
};

attnpress_status attnpress_forward_schedule(attnpress_handle *handle,
                                            const attnpress_forward_args *args, void *stream) {
  schedule_run run;
  ap_launches launches;
  return ap_call_run(handle, &forward_schedule, args, stream, &run.call.base, &launches);
}

attnpress_status attnpress_plan_forward_schedule(attnpress_handle *handle,
                                                 const attnpress_forward_args *args,
                                                 const attnpress_plan_options *options,
                                                 attnpress_plan **made) {
  return ap_plan_make(handle, &forward_schedule, args, options, made);
}
