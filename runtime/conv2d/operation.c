/* Convolutions and their gradients: the operations that call.c carries out, and their public
 * functions. */
#include <stdio.h>
#include <string.h>

#include "conv2d/conv2d.h"

/* Sizes in the first version of the header; they never change. */
enum { ARGS_FIRST_BYTES = 176, BACKWARD_ARGS_FIRST_BYTES = 264 };

/** A checked call. */
typedef struct conv2d_call {
  ap_call base;
  ap_conv2d_problem problem;
} conv2d_call;

/** A call that is run: what it was checked to be, and the argument block of the launch at hand. */
typedef struct conv2d_run {
  conv2d_call call;
  ap_conv2d_block block;
} conv2d_run;

static const ap_conv2d_problem *problem_of(const ap_call *base) {
  return &((const conv2d_call *)base)->problem;
}

/* ---- Check and plan -------------------------------------------------------------------------- */

static attnpress_status check_forward(const void *args, ap_check how, ap_call *base) {
  attnpress_conv2d_args a;
  FORWARD_IF(ap_copy_struct(args, &a, sizeof a, ARGS_FIRST_BYTES, "args"));
  ap_conv2d_problem *p = &((conv2d_call *)base)->problem;
  *base = (ap_call){.workspace = NULL};
  *p = (ap_conv2d_problem){.shape = a.shape,
                           .x = a.x,
                           .weight = a.weight,
                           .bias = a.bias,
                           .out = a.out,
                           .choice = a.choice};
  memcpy(p->x_stride, a.x_stride, sizeof p->x_stride);
  memcpy(p->out_stride, a.out_stride, sizeof p->out_stride);
  return ap_conv2d_validate(p, how);
}

static attnpress_status check_backward(const void *args, ap_check how, ap_call *base) {
  attnpress_conv2d_backward_args a;
  FORWARD_IF(ap_copy_struct(args, &a, sizeof a, BACKWARD_ARGS_FIRST_BYTES, "args"));
  ap_conv2d_problem *p = &((conv2d_call *)base)->problem;
  *base = (ap_call){.workspace = a.workspace, .workspace_bytes = a.workspace_bytes};
  *p = (ap_conv2d_problem){.backward = 1,
                           .shape = a.shape,
                           .x = a.x,
                           .weight = a.weight,
                           .out = ATTNPRESS_DATA(a.out),
                           .dout = a.dout,
                           .dx = a.dx,
                           .dweight = a.dweight,
                           .dbias = a.dbias,
                           .choice = a.choice};
  memcpy(p->x_stride, a.x_stride, sizeof p->x_stride);
  memcpy(p->out_stride, a.out_stride, sizeof p->out_stride);
  memcpy(p->dout_stride, a.dout_stride, sizeof p->dout_stride);
  memcpy(p->dx_stride, a.dx_stride, sizeof p->dx_stride);
  return ap_conv2d_validate(p, how);
}

static attnpress_status plan(const ap_call *base, const ap_device *device, int32_t range,
                             ap_launches *launches) {
  return ap_conv2d_plan_call(problem_of(base), device, range, AP_PLAN_OF(ap_conv2d_plan, launches));
}

/* ---- Which calls a plan serves --------------------------------------------------------------- */

static attnpress_status serves(const ap_call *base, const ap_call *planned_base, int32_t range) {
  const ap_conv2d_problem *p = problem_of(base), *planned = problem_of(planned_base);
  const attnpress_conv2d_shape *s = &p->shape, *t = &planned->shape;
  const struct {
    const char *name;
    int64_t value, planned;
    int32_t range;
  } extents[] = {
      {"dtype", s->dtype, t->dtype, ATTNPRESS_ONE_CALL},
      {"relu", s->relu, t->relu, ATTNPRESS_ONE_CALL},
      {"batch", s->batch, t->batch, range},
      {"height", s->height, t->height, range},
      {"width", s->width, t->width, range},
      {"channels", s->channels, t->channels, ATTNPRESS_ONE_CALL},
      {"filters", s->filters, t->filters, ATTNPRESS_ONE_CALL},
      {"filter_height", s->filter_height, t->filter_height, ATTNPRESS_ONE_CALL},
      {"filter_width", s->filter_width, t->filter_width, ATTNPRESS_ONE_CALL},
      {"stride[0]", s->stride[0], t->stride[0], ATTNPRESS_ONE_CALL},
      {"stride[1]", s->stride[1], t->stride[1], ATTNPRESS_ONE_CALL},
      {"padding[0]", s->padding[0], t->padding[0], ATTNPRESS_ONE_CALL},
      {"padding[1]", s->padding[1], t->padding[1], ATTNPRESS_ONE_CALL},
      {"dilation[0]", s->dilation[0], t->dilation[0], ATTNPRESS_ONE_CALL},
      {"dilation[1]", s->dilation[1], t->dilation[1], ATTNPRESS_ONE_CALL},
      {"choice.copies", p->choice.copies, planned->choice.copies, ATTNPRESS_ONE_CALL},
      {"choice.block_rows", p->choice.block_rows, planned->choice.block_rows, ATTNPRESS_ONE_CALL},
      {"choice.block_columns", p->choice.block_columns, planned->choice.block_columns,
       ATTNPRESS_ONE_CALL},
      {"choice.splits", p->choice.splits, planned->choice.splits, ATTNPRESS_ONE_CALL}};
  for (size_t i = 0; i < sizeof extents / sizeof *extents; ++i)
    FORWARD_IF(
        ap_check_extent(extents[i].name, extents[i].value, extents[i].planned, extents[i].range));
  FORWARD_IF(ap_check_given("dx", p->dx, planned->dx, ATTNPRESS_ONE_CALL));
  FORWARD_IF(ap_check_given("dweight", p->dweight, planned->dweight, ATTNPRESS_ONE_CALL));
  return ap_check_given("dbias", p->dbias, planned->dbias, ATTNPRESS_ONE_CALL);
}

/* ---- Kernel arguments ------------------------------------------------------------------------ */

static attnpress_status arguments(ap_maps *maps, ap_call *base, const ap_launches *launches,
                                  int index, ap_block *block) {
  conv2d_run *run = (conv2d_run *)base;
  *block = AP_BLOCK(run->block);
  return ap_conv2d_fill(maps, &run->call.problem, base->workspace,
                        AP_CONST_PLAN_OF(ap_conv2d_plan, launches), index, &run->block);
}

/* ---- The CPU --------------------------------------------------------------------------------- */

static attnpress_status run_cpu(const ap_call *base, int32_t num_threads) {
  return ap_conv2d_cpu(problem_of(base), num_threads);
}

static void describe_cpu(const ap_call *base, attnpress_info *info) {
  const ap_conv2d_problem *p = problem_of(base);
  snprintf(info->stem, sizeof info->stem, "cpu_conv2d_%s_%s", p->backward ? "backward" : "fprop",
           ap_conv2d_dtype_name(p->shape.dtype));
}

/* ---- The operations -------------------------------------------------------------------------- */

static attnpress_status run_planned(const attnpress_plan *planned, const void *args, void *stream) {
  conv2d_run run;
  ap_conv2d_plan fresh;
  return ap_plan_run(planned, args, stream, &run.call.base, &fresh.base);
}

#define OPERATION(function, check_function)                                                        \
  {                                                                                                \
    .name = function, .call_bytes = sizeof(conv2d_call), .plan_bytes = sizeof(ap_conv2d_plan),     \
    .check = check_function, .plan = plan, .serves = serves, .arguments = arguments,               \
    .run_cpu = run_cpu, .describe_cpu = describe_cpu, .run_planned = run_planned                   \
  }
static const ap_operation forward = OPERATION("attnpress_conv2d", check_forward);
static const ap_operation backward = OPERATION("attnpress_conv2d_backward", check_backward);

attnpress_status attnpress_conv2d(attnpress_handle *handle, const attnpress_conv2d_args *args,
                                  void *stream) {
  conv2d_run run;
  ap_conv2d_plan launches;
  return ap_call_run(handle, &forward, args, stream, &run.call.base, &launches.base);
}

attnpress_status attnpress_plan_conv2d(attnpress_handle *handle, const attnpress_conv2d_args *args,
                                       const attnpress_plan_options *options,
                                       attnpress_plan **made) {
  return ap_plan_make(handle, &forward, args, options, made);
}

attnpress_status attnpress_conv2d_backward(attnpress_handle *handle,
                                           const attnpress_conv2d_backward_args *args,
                                           void *stream) {
  conv2d_run run;
  ap_conv2d_plan launches;
  return ap_call_run(handle, &backward, args, stream, &run.call.base, &launches.base);
}

attnpress_status attnpress_plan_conv2d_backward(attnpress_handle *handle,
                                                const attnpress_conv2d_backward_args *args,
                                                const attnpress_plan_options *options,
                                                attnpress_plan **made) {
  return ap_plan_make(handle, &backward, args, options, made);
}
