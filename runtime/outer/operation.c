/* The outer product and its gradients: the operations that call.c carries out, and their public
 * functions. */
#include <stdio.h>
#include <string.h>

#include "outer/outer.h"

/* Sizes in the first version of the header; they never change. */
enum { ARGS_FIRST_BYTES = 96, BACKWARD_ARGS_FIRST_BYTES = 144 };

/** A checked call. */
typedef struct outer_call {
  ap_call base;
  ap_outer_problem problem;
} outer_call;

/** A call that is run: the argument block of the launch at hand, beside what it was checked to be. */
typedef struct outer_run {
  outer_call call;
  union {
    attnpress_outer_fwd_args forward;
    attnpress_outer_sum_args sum;
    attnpress_outer_bwd_args backward;
    attnpress_outer_reduce_args reduce;
  } block;
} outer_run;

static const ap_outer_problem *problem_of(const ap_call *base) {
  return &((const outer_call *)base)->problem;
}

/* ---- Check and plan -------------------------------------------------------------------------- */

static attnpress_status check_forward(const void *args, ap_check how, ap_call *base) {
  attnpress_outer_args a;
  FORWARD_IF(ap_copy_struct(args, &a, sizeof a, ARGS_FIRST_BYTES, "args"));
  ap_outer_problem *p = &((outer_call *)base)->problem;
  *base = (ap_call){.workspace = a.workspace, .workspace_bytes = a.workspace_bytes};
  *p = (ap_outer_problem){.dtype = a.dtype,
                          .summed = a.summed,
                          .batch = a.batch,
                          .rows = a.rows,
                          .columns = a.columns,
                          .x = a.x,
                          .y = a.y,
                          .c = a.c,
                          .x_stride = a.x_stride,
                          .y_stride = a.y_stride,
                          .c_batch_stride = a.c_batch_stride,
                          .c_row_stride = a.c_row_stride,
                          .workspace_bytes = a.workspace_bytes};
  FORWARD_IF(ap_outer_mod_take(a.mod, how, p));
  base->has_snippet = p->has_mod;
  memcpy(base->snippet_key, p->mod_key, sizeof base->snippet_key);
  return ap_outer_validate(p, how);
}

static attnpress_status check_backward(const void *args, ap_check how, ap_call *base) {
  attnpress_outer_backward_args a;
  FORWARD_IF(ap_copy_struct(args, &a, sizeof a, BACKWARD_ARGS_FIRST_BYTES, "args"));
  ap_outer_problem *p = &((outer_call *)base)->problem;
  *base = (ap_call){.workspace = a.workspace, .workspace_bytes = a.workspace_bytes};
  *p = (ap_outer_problem){.backward = 1,
                          .dtype = a.dtype,
                          .summed = a.summed,
                          .batch = a.batch,
                          .rows = a.rows,
                          .columns = a.columns,
                          .x = a.x,
                          .y = a.y,
                          .c = ATTNPRESS_DATA(a.dc),
                          .dx = a.dx,
                          .dy = a.dy,
                          .x_stride = a.x_stride,
                          .y_stride = a.y_stride,
                          .c_batch_stride = a.dc_batch_stride,
                          .c_row_stride = a.dc_row_stride,
                          .dx_stride = a.dx_stride,
                          .dy_stride = a.dy_stride};
  FORWARD_IF(ap_outer_mod_take(a.mod, how, p));
  base->has_snippet = p->has_mod;
  memcpy(base->snippet_key, p->mod_key, sizeof base->snippet_key);
  return ap_outer_validate(p, how);
}

static attnpress_status snippet(const ap_call *base, ap_snippet *fresh) {
  return ap_outer_mod_write(&problem_of(base)->mod, problem_of(base)->backward, fresh);
}

static attnpress_status plan(const ap_call *base, const ap_device *device, int32_t range,
                             ap_launches *launches) {
  return ap_outer_plan_call(problem_of(base), device, range, AP_PLAN_OF(ap_outer_plan, launches));
}

/* ---- Which calls a plan serves --------------------------------------------------------------- */

static attnpress_status serves(const ap_call *base, const ap_call *planned_base, int32_t range) {
  const ap_outer_problem *p = problem_of(base), *planned = problem_of(planned_base);
  FORWARD_IF(ap_check_extent("dtype", p->dtype, planned->dtype, ATTNPRESS_ONE_CALL));
  FORWARD_IF(ap_check_extent("summed", p->summed, planned->summed, ATTNPRESS_ONE_CALL));
  FORWARD_IF(ap_check_given("dy", p->dy, planned->dy, ATTNPRESS_ONE_CALL));
  if (p->summed && range == ATTNPRESS_ONE_CALL) /* there may be a kernel for each gradient */
    FORWARD_IF(ap_check_given("dx", p->dx, planned->dx, range));
  RETURN_IF(
      p->has_mod != planned->has_mod ||
          memcmp(p->mod_key, planned->mod_key, sizeof p->mod_key) != 0,
      ATTNPRESS_INVALID_ARGUMENT,
      "mod is not that of the plan: its text, its scalars' names and dtypes must be the same");
  FORWARD_IF(ap_check_extent("batch", p->batch, planned->batch, range));
  FORWARD_IF(ap_check_extent("rows", p->rows, planned->rows, range));
  return ap_check_extent("columns", p->columns, planned->columns, range);
}

/* ---- Kernel arguments ------------------------------------------------------------------------ */

static attnpress_outer_fwd_args forward_block(const ap_outer_problem *p,
                                              const ap_outer_plan *plan) {
  return (attnpress_outer_fwd_args){.x = p->x,
                                    .y = p->y,
                                    .c = p->c,
                                    .x_stride = p->x_stride,
                                    .y_stride = p->y_stride,
                                    .c_batch_stride = p->c_batch_stride,
                                    .c_row_stride = p->c_row_stride,
                                    .batch = p->batch,
                                    .rows = (int32_t)p->rows,
                                    .columns = (int32_t)p->columns,
                                    .column_shift = plan->column_shift,
                                    .column_blocks = plan->column_blocks,
                                    .row_blocks = plan->row_blocks,
                                    .pitch = plan->pitch,
                                    .unit_rows = plan->unit_rows,
                                    .unit_vectors = plan->unit_vectors,
                                    .width = plan->width,
                                    .units = plan->units,
                                    .x_bytes = plan->x_bytes};
}

static attnpress_outer_bwd_args backward_block(const outer_call *call, const ap_outer_plan *plan) {
  const ap_outer_problem *p = &call->problem;
  const int has_parts = p->dy != NULL && plan->row_blocks > 1;
  return (attnpress_outer_bwd_args){.x = p->x,
                                    .y = p->y,
                                    .dc = p->c,
                                    .dx = p->dx,
                                    .dy_parts = has_parts ? call->base.workspace : NULL,
                                    .dy = has_parts ? NULL : p->dy,
                                    .x_stride = p->x_stride,
                                    .y_stride = p->y_stride,
                                    .dc_batch_stride = p->c_batch_stride,
                                    .dc_row_stride = p->c_row_stride,
                                    .dx_stride = p->dx_stride,
                                    .dy_stride = p->dy_stride,
                                    .rows = (int32_t)p->rows,
                                    .columns = (int32_t)p->columns,
                                    .row_blocks = plan->row_blocks,
                                    .column_shift = plan->column_shift};
}

static const ap_outer_sum *sum_of(const ap_outer_plan *plan, int32_t pass) {
  return &plan->sum[pass == AP_OUTER_PASS_SUM_DY];
}

/** c = sum of x and y over the batch, dx that of y and dc over columns, dy of x and dc over rows. */
static attnpress_outer_sum_args sum_block(const outer_call *call, const ap_outer_plan *plan,
                                          int32_t pass) {
  const ap_outer_problem *p = &call->problem;
  const ap_outer_sum *sum = sum_of(plan, pass);
  const int dx = pass == AP_OUTER_PASS_SUM_DX, dy = pass == AP_OUTER_PASS_SUM_DY;
  return (attnpress_outer_sum_args){.a = dx ? p->y : p->x,
                                    .b = dx || dy ? p->c : p->y,
                                    .c = dx   ? p->dx
                                         : dy ? p->dy
                                              : p->c,
                                    .parts = sum->splits > 1 ? call->base.workspace : NULL,
                                    .a_stride = dx ? p->y_stride : p->x_stride,
                                    .b_stride = dx || dy ? p->c_row_stride : p->y_stride,
                                    .c_stride = dx   ? p->dx_stride
                                                : dy ? p->dy_stride
                                                     : p->c_row_stride,
                                    .rows = sum->rows,
                                    .depth = sum->depth,
                                    .split_depth = sum->split_depth,
                                    .columns = (int32_t)sum->columns,
                                    .column_blocks = sum->column_blocks,
                                    .row_blocks = sum->row_blocks,
                                    .splits = sum->splits};
}

/** Of what the launch before made parts of: as many entries as it has rows, or dy's. */
static attnpress_outer_reduce_args reduce_block(const outer_call *call, const ap_outer_plan *plan,
                                                int32_t pass) {
  const ap_outer_problem *p = &call->problem;
  attnpress_outer_reduce_args block = {.dy_parts = call->base.workspace,
                                       .dy = p->dy,
                                       .dy_stride = p->dy_stride,
                                       .elements = p->batch * p->columns,
                                       .columns = (int32_t)p->columns,
                                       .row_blocks = plan->row_blocks,
                                       .lane_shift = plan->lane_shift};
  if (pass != AP_OUTER_PASS_BWD) {
    const attnpress_outer_sum_args sum = sum_block(call, plan, pass);
    block.dy = sum.c;
    block.dy_stride = sum.c_stride;
    block.elements = sum.rows * sum.columns;
    block.columns = sum.columns;
    block.row_blocks = sum.splits;
    block.lane_shift = sum_of(plan, pass)->lane_shift;
  }
  return block;
}

static int32_t pass_of(const ap_launches *launches, int index) {
  return launches->launch[index].variant.axis[AP_OUTER_PASS];
}

static attnpress_status arguments(ap_maps *maps, ap_call *base, const ap_launches *launches,
                                  int index, ap_block *block) {
  outer_run *run = (outer_run *)base;
  const ap_outer_plan *planned = AP_CONST_PLAN_OF(ap_outer_plan, launches);
  const int32_t pass = pass_of(launches, index);
  (void)maps;
  *block = AP_BLOCK(run->block);
  if (pass == AP_OUTER_PASS_BWD) {
    run->block.backward = backward_block(&run->call, planned);
    ap_outer_mod_fill(&run->call.problem, run->block.backward.scalar);
  } else if (pass == AP_OUTER_PASS_BWD_REDUCE) {
    run->block.reduce = reduce_block(&run->call, planned, pass_of(launches, index - 1));
  } else if (pass <= AP_OUTER_PASS_FLAT) {
    run->block.forward = forward_block(&run->call.problem, planned);
    ap_outer_mod_fill(&run->call.problem, run->block.forward.scalar);
  } else {
    run->block.sum = sum_block(&run->call, planned, pass);
    ap_outer_mod_fill(&run->call.problem, run->block.sum.scalar);
  }
  return ATTNPRESS_OK;
}

/* ---- The CPU --------------------------------------------------------------------------------- */

static attnpress_status run_cpu(const ap_call *base, int32_t num_threads) {
  return ap_outer_cpu(problem_of(base), num_threads);
}

static void describe_cpu(const ap_call *base, attnpress_info *info) {
  const ap_outer_problem *p = problem_of(base);
  snprintf(info->stem, sizeof info->stem, "cpu_outer_%s_%s",
           p->backward ? "bwd"
           : p->summed ? "sum"
                       : "fwd",
           ap_outer_dtype_name(p->dtype));
}

/* ---- The operations -------------------------------------------------------------------------- */

static attnpress_status run_planned(const attnpress_plan *planned, const void *args, void *stream) {
  outer_run run;
  ap_outer_plan fresh;
  return ap_plan_run(planned, args, stream, &run.call.base, &fresh.base);
}

#define OPERATION(function, check_function)                                                        \
  {                                                                                                \
    .name = function, .call_bytes = sizeof(outer_call), .plan_bytes = sizeof(ap_outer_plan),       \
    .check = check_function, .snippet = snippet, .plan = plan, .serves = serves,                   \
    .arguments = arguments, .run_cpu = run_cpu, .describe_cpu = describe_cpu,                      \
    .run_planned = run_planned, .plans_by_pointers = 1 /* and strides */                           \
  }
static const ap_operation forward = OPERATION("attnpress_outer", check_forward);
static const ap_operation backward = OPERATION("attnpress_outer_backward", check_backward);

attnpress_status attnpress_outer(attnpress_handle *handle, const attnpress_outer_args *args,
                                 void *stream) {
  outer_run run;
  ap_outer_plan launches;
  return ap_call_run(handle, &forward, args, stream, &run.call.base, &launches.base);
}

attnpress_status attnpress_plan_outer(attnpress_handle *handle, const attnpress_outer_args *args,
                                      const attnpress_plan_options *options,
                                      attnpress_plan **made) {
  return ap_plan_make(handle, &forward, args, options, made);
}

attnpress_status attnpress_outer_backward(attnpress_handle *handle,
                                          const attnpress_outer_backward_args *args, void *stream) {
  outer_run run;
  ap_outer_plan launches;
  return ap_call_run(handle, &backward, args, stream, &run.call.base, &launches.base);
}

attnpress_status attnpress_plan_outer_backward(attnpress_handle *handle,
                                               const attnpress_outer_backward_args *args,
                                               const attnpress_plan_options *options,
                                               attnpress_plan **made) {
  return ap_plan_make(handle, &backward, args, options, made);
}
