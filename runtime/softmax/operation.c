/* Softmax and its gradient: the operations that call.c carries out, and their public functions. */
#include <stdio.h>

#include "softmax/softmax.h"

/* Sizes in the first version of the header; they never change. */
enum { ARGS_FIRST_BYTES = 64, BACKWARD_ARGS_FIRST_BYTES = 80 };

/** A checked call. */
typedef struct softmax_call {
  ap_call base;
  ap_softmax_problem problem;
} softmax_call;

/** What is launched. */
typedef struct softmax_plan {
  int32_t sm_count;
  ap_launches base;
} softmax_plan;

/** A call that is run: its argument block, beside what it was checked to be. */
typedef struct softmax_run {
  softmax_call call;
  union {
    attnpress_softmax_fwd_args forward;
    attnpress_softmax_bwd_args backward;
  } block;
} softmax_run;

static const ap_softmax_problem *problem_of(const ap_call *base) {
  return &((const softmax_call *)base)->problem;
}

/* ---- Check and plan -------------------------------------------------------------------------- */

static ap_softmax_tensor input(const char *name, const char *stride_name, const void *data,
                               int64_t stride) {
  return (ap_softmax_tensor){name, stride_name, ATTNPRESS_DATA(data), stride};
}

static attnpress_status check_forward(const void *args, ap_check how, ap_call *base) {
  attnpress_softmax_args a;
  FORWARD_IF(ap_copy_struct(args, &a, sizeof a, ARGS_FIRST_BYTES, "args"));
  ap_softmax_problem *p = &((softmax_call *)base)->problem;
  *base = (ap_call){.workspace = NULL};
  *p = (ap_softmax_problem){.pass = AP_SOFTMAX_PASS_FWD,
                            .tensor = {input("x", "x_row_stride", a.x, a.x_row_stride),
                                       {"y", "y_row_stride", a.y, a.y_row_stride}},
                            .tensor_count = 2,
                            .rows = a.rows,
                            .columns = a.columns,
                            .dtype = a.dtype,
                            .scale = a.scale};
  return ap_softmax_validate(p, how);
}

static attnpress_status check_backward(const void *args, ap_check how, ap_call *base) {
  attnpress_softmax_backward_args a;
  FORWARD_IF(ap_copy_struct(args, &a, sizeof a, BACKWARD_ARGS_FIRST_BYTES, "args"));
  ap_softmax_problem *p = &((softmax_call *)base)->problem;
  *base = (ap_call){.workspace = NULL};
  *p = (ap_softmax_problem){.pass = AP_SOFTMAX_PASS_BWD,
                            .tensor = {input("y", "y_row_stride", a.y, a.y_row_stride),
                                       input("dy", "dy_row_stride", a.dy, a.dy_row_stride),
                                       {"dx", "dx_row_stride", a.dx, a.dx_row_stride}},
                            .tensor_count = 3,
                            .rows = a.rows,
                            .columns = a.columns,
                            .dtype = a.dtype,
                            .scale = a.scale};
  return ap_softmax_validate(p, how);
}

static attnpress_status plan(const ap_call *base, const ap_device *device, int32_t range,
                             ap_launches *launches) {
  AP_PLAN_OF(softmax_plan, launches)->sm_count = device->sm_count;
  return ap_softmax_plan(problem_of(base), device, range, launches);
}

/* ---- Which calls a plan serves --------------------------------------------------------------- */

static attnpress_status serves(const ap_call *base, const ap_call *planned_base, int32_t range) {
  const ap_softmax_problem *p = problem_of(base), *planned = problem_of(planned_base);
  FORWARD_IF(ap_check_extent("dtype", p->dtype, planned->dtype, ATTNPRESS_ONE_CALL));
  FORWARD_IF(ap_check_extent("rows", p->rows, planned->rows, range));
  return ap_check_extent("columns", p->columns, planned->columns, range);
}

/* ---- Kernel arguments ------------------------------------------------------------------------ */

/** Blocks of kernels that fetch ahead have one row, and an SM holds one or two of them, which begin in
 * the order of their rows: the row that is as many behind as there are SMs begins soon, but not yet. */
static int32_t rows_ahead(const ap_launches *launches) {
  return AP_CONST_PLAN_OF(softmax_plan, launches)->sm_count;
}

static attnpress_status arguments(ap_maps *maps, ap_call *base, const ap_launches *launches,
                                  int index, ap_block *block) {
  softmax_run *run = (softmax_run *)base;
  const ap_softmax_problem *p = &run->call.problem;
  const ap_softmax_tensor *t = p->tensor;
  (void)maps, (void)index;
  *block = AP_BLOCK(run->block);
  if (p->pass == AP_SOFTMAX_PASS_FWD)
    run->block.forward = (attnpress_softmax_fwd_args){.x = t[0].data,
                                                      .y = t[1].data,
                                                      .rows = p->rows,
                                                      .x_row_stride = t[0].stride,
                                                      .y_row_stride = t[1].stride,
                                                      .columns = (int32_t)p->columns,
                                                      .scale = p->scale,
                                                      .rows_ahead = rows_ahead(launches)};
  else
    run->block.backward = (attnpress_softmax_bwd_args){.y = t[0].data,
                                                       .dy = t[1].data,
                                                       .dx = t[2].data,
                                                       .rows = p->rows,
                                                       .y_row_stride = t[0].stride,
                                                       .dy_row_stride = t[1].stride,
                                                       .dx_row_stride = t[2].stride,
                                                       .columns = (int32_t)p->columns,
                                                       .scale = p->scale,
                                                       .rows_ahead = rows_ahead(launches)};
  return ATTNPRESS_OK;
}

/* ---- The CPU --------------------------------------------------------------------------------- */

static attnpress_status run_cpu(const ap_call *base, int32_t num_threads) {
  return ap_softmax_cpu(problem_of(base), num_threads);
}

static void describe_cpu(const ap_call *base, attnpress_info *info) {
  const ap_softmax_problem *p = problem_of(base);
  snprintf(info->stem, sizeof info->stem, "cpu_softmax_%s_%s",
           p->pass == AP_SOFTMAX_PASS_FWD ? "fwd" : "bwd", ap_softmax_dtype_name(p->dtype));
}

/* ---- The operations -------------------------------------------------------------------------- */

static attnpress_status run_planned(const attnpress_plan *planned, const void *args, void *stream) {
  softmax_run run;
  softmax_plan fresh;
  return ap_plan_run(planned, args, stream, &run.call.base, &fresh.base);
}

#define OPERATION(function, check_function)                                                        \
  {                                                                                                \
    .name = function, .call_bytes = sizeof(softmax_call), .plan_bytes = sizeof(softmax_plan),      \
    .check = check_function, .plan = plan, .serves = serves, .arguments = arguments,               \
    .run_cpu = run_cpu, .describe_cpu = describe_cpu, .run_planned = run_planned                   \
  }
static const ap_operation forward = OPERATION("attnpress_softmax", check_forward);
static const ap_operation backward = OPERATION("attnpress_softmax_backward", check_backward);

attnpress_status attnpress_softmax(attnpress_handle *handle, const attnpress_softmax_args *args,
                                   void *stream) {
  softmax_run run;
  softmax_plan launches;
  return ap_call_run(handle, &forward, args, stream, &run.call.base, &launches.base);
}

attnpress_status attnpress_plan_softmax(attnpress_handle *handle,
                                        const attnpress_softmax_args *args,
                                        const attnpress_plan_options *options,
                                        attnpress_plan **made) {
  return ap_plan_make(handle, &forward, args, options, made);
}

attnpress_status attnpress_softmax_backward(attnpress_handle *handle,
                                            const attnpress_softmax_backward_args *args,
                                            void *stream) {
  softmax_run run;
  softmax_plan launches;
  return ap_call_run(handle, &backward, args, stream, &run.call.base, &launches.base);
}

attnpress_status attnpress_plan_softmax_backward(attnpress_handle *handle,
                                                 const attnpress_softmax_backward_args *args,
                                                 const attnpress_plan_options *options,
                                                 attnpress_plan **made) {
  return ap_plan_make(handle, &backward, args, options, made);
}
