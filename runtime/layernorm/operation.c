/* Layer norm, RMS norm and their gradients: the operations that call.c carries out, and their public
 * functions. */
#include <stdio.h>

#include "layernorm/layernorm.h"

/* Sizes in the first version of the header; they never change. */
enum { ARGS_FIRST_BYTES = 136, BACKWARD_ARGS_FIRST_BYTES = 160 };

/** A checked call. */
typedef struct layernorm_call {
  ap_call base;
  ap_layernorm_problem problem;
} layernorm_call;

/** A call that is run: the argument block of the launch at hand, beside what it was checked to be. */
typedef struct layernorm_run {
  layernorm_call call;
  union {
    attnpress_layernorm_fwd_args forward;
    attnpress_layernorm_bwd_args backward;
    attnpress_layernorm_reduce_args reduce;
  } block;
} layernorm_run;

static const ap_layernorm_problem *problem_of(const ap_call *base) {
  return &((const layernorm_call *)base)->problem;
}

/* ---- Check and plan -------------------------------------------------------------------------- */

static ap_layernorm_tensor input(const char *name, const char *stride_name, const void *data,
                                 int64_t stride, int optional) {
  return (ap_layernorm_tensor){name, stride_name, ATTNPRESS_DATA(data), stride, 0, optional};
}

static attnpress_status check_forward(const void *args, ap_check how, ap_call *base) {
  attnpress_layernorm_args a;
  FORWARD_IF(ap_copy_struct(args, &a, sizeof a, ARGS_FIRST_BYTES, "args"));
  ap_layernorm_problem *p = &((layernorm_call *)base)->problem;
  *base = (ap_call){.workspace = NULL};
  *p = (ap_layernorm_problem){
      .tensor = {[AP_LAYERNORM_X] = input("x", "x_row_stride", a.x, a.x_row_stride, 0),
                 [AP_LAYERNORM_RESIDUAL] =
                     input("residual", "residual_row_stride", a.residual, a.residual_row_stride, 1),
                 [AP_LAYERNORM_Y] = {"y", "y_row_stride", a.y, a.y_row_stride, 1, 0},
                 [AP_LAYERNORM_SUM] = {"sum", "sum_row_stride", a.sum, a.sum_row_stride, 1, 1}},
      .weight = a.weight,
      .bias = a.bias,
      .mean = a.mean,
      .rstd = a.rstd,
      .rows = a.rows,
      .columns = a.columns,
      .dtype = a.dtype,
      .param_dtype = a.param_dtype,
      .rms = a.rms,
      .eps = a.eps};
  return ap_layernorm_validate(p, how);
}

static attnpress_status check_backward(const void *args, ap_check how, ap_call *base) {
  attnpress_layernorm_backward_args a;
  FORWARD_IF(ap_copy_struct(args, &a, sizeof a, BACKWARD_ARGS_FIRST_BYTES, "args"));
  ap_layernorm_problem *p = &((layernorm_call *)base)->problem;
  *base = (ap_call){.workspace = a.workspace, .workspace_bytes = a.workspace_bytes};
  *p = (ap_layernorm_problem){
      .backward = 1,
      .tensor = {[AP_LAYERNORM_X] = input("x", "x_row_stride", a.x, a.x_row_stride, 0),
                 [AP_LAYERNORM_DY] = input("dy", "dy_row_stride", a.dy, a.dy_row_stride, 0),
                 [AP_LAYERNORM_DSUM] =
                     input("dsum", "dsum_row_stride", a.dsum, a.dsum_row_stride, 1),
                 [AP_LAYERNORM_DX] = {"dx", "dx_row_stride", a.dx, a.dx_row_stride, 1, 0}},
      .weight = a.weight,
      .dweight = a.dweight,
      .dbias = a.dbias,
      .mean = ATTNPRESS_DATA(a.mean),
      .rstd = ATTNPRESS_DATA(a.rstd),
      .rows = a.rows,
      .columns = a.columns,
      .dtype = a.dtype,
      .param_dtype = a.param_dtype,
      .rms = a.rms};
  return ap_layernorm_validate(p, how);
}

/* ---- What a caller gave (given.h) ------------------------------------------------------------- */

static const ap_layout args_layout = {
    .words = sizeof(attnpress_layernorm_args) / sizeof(uint64_t),
    .num_addresses = 8,
    .address = {AP_WORD(attnpress_layernorm_args, x), AP_WORD(attnpress_layernorm_args, residual),
                AP_WORD(attnpress_layernorm_args, y), AP_WORD(attnpress_layernorm_args, sum),
                AP_WORD(attnpress_layernorm_args, weight), AP_WORD(attnpress_layernorm_args, bias),
                AP_WORD(attnpress_layernorm_args, mean), AP_WORD(attnpress_layernorm_args, rstd)},
};

static const ap_layout backward_args_layout = {
    .words = sizeof(attnpress_layernorm_backward_args) / sizeof(uint64_t),
    .workspace = AP_WORD(attnpress_layernorm_backward_args, workspace),
    .num_addresses = 9,
    .address = {AP_WORD(attnpress_layernorm_backward_args, x),
                AP_WORD(attnpress_layernorm_backward_args, dy),
                AP_WORD(attnpress_layernorm_backward_args, dsum),
                AP_WORD(attnpress_layernorm_backward_args, dx),
                AP_WORD(attnpress_layernorm_backward_args, weight),
                AP_WORD(attnpress_layernorm_backward_args, mean),
                AP_WORD(attnpress_layernorm_backward_args, rstd),
                AP_WORD(attnpress_layernorm_backward_args, dweight),
                AP_WORD(attnpress_layernorm_backward_args, dbias)},
};

/** Of four tensors, those which are another. */
static int give_places(ap_given *given, const void *a, const void *b, const void *c,
                       const void *d) {
  const uint64_t same = (uint64_t)((a == b) | (a == c) << 1 | (a == d) << 2 | (b == c) << 3 |
                                   (b == d) << 4 | (c == d) << 5);
  return ap_given_add_words(given, &same, 1);
}

static int give_forward(const void *args, ap_given *given) {
  const attnpress_layernorm_args *a = args;
  return ap_given_add(given, a, &args_layout) &&
         give_places(given, a->x, a->residual, a->y, a->sum);
}

static int give_backward(const void *args, ap_given *given) {
  const attnpress_layernorm_backward_args *a = args;
  return ap_given_add(given, a, &backward_args_layout) &&
         give_places(given, a->x, a->dy, a->dsum, a->dx);
}

static void give_checked(ap_call *base, ap_given *given) {
  ap_layernorm_problem *p = &((layernorm_call *)base)->problem;
  const void *const vectors[2][5] = {{&p->weight, &p->bias, &p->mean, &p->rstd},
                                     {&p->weight, &p->mean, &p->rstd, &p->dweight, &p->dbias}};
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i)
    given->address[given->count++] = &p->tensor[i].data;
  for (int i = 0; i < (p->backward ? 5 : 4); ++i)
    given->address[given->count++] = vectors[p->backward][i];
}

static attnpress_status plan(const ap_call *base, const ap_device *device, int32_t range,
                             ap_launches *launches) {
  return ap_layernorm_plan_call(problem_of(base), device, range,
                                AP_PLAN_OF(ap_layernorm_plan, launches));
}

/* ---- Which calls a plan serves --------------------------------------------------------------- */

static attnpress_status serves(const ap_call *base, const ap_call *planned_base, int32_t range) {
  const ap_layernorm_problem *p = problem_of(base), *planned = problem_of(planned_base);
  FORWARD_IF(ap_check_extent("dtype", p->dtype, planned->dtype, ATTNPRESS_ONE_CALL));
  FORWARD_IF(
      ap_check_extent("param_dtype", p->param_dtype, planned->param_dtype, ATTNPRESS_ONE_CALL));
  FORWARD_IF(ap_check_extent("rms", p->rms, planned->rms, ATTNPRESS_ONE_CALL));
  FORWARD_IF(ap_check_given("dweight", p->dweight, planned->dweight, range));
  FORWARD_IF(ap_check_given("dbias", p->dbias, planned->dbias, range));
  FORWARD_IF(ap_check_extent("rows", p->rows, planned->rows, range));
  return ap_check_extent("columns", p->columns, planned->columns, range);
}

/* ---- Kernel arguments ------------------------------------------------------------------------ */

static attnpress_layernorm_fwd_args forward_block(const ap_layernorm_problem *p, int32_t cluster) {
  const ap_layernorm_tensor *t = p->tensor;
  return (attnpress_layernorm_fwd_args){.x = t[AP_LAYERNORM_X].data,
                                        .residual = t[AP_LAYERNORM_RESIDUAL].data,
                                        .weight = p->weight,
                                        .bias = p->bias,
                                        .y = t[AP_LAYERNORM_Y].data,
                                        .sum = t[AP_LAYERNORM_SUM].data,
                                        .mean = p->mean,
                                        .rstd = p->rstd,
                                        .rows = p->rows,
                                        .x_row_stride = t[AP_LAYERNORM_X].stride,
                                        .residual_row_stride = t[AP_LAYERNORM_RESIDUAL].stride,
                                        .y_row_stride = t[AP_LAYERNORM_Y].stride,
                                        .sum_row_stride = t[AP_LAYERNORM_SUM].stride,
                                        .columns = (int32_t)p->columns,
                                        .eps = p->eps,
                                        .per_column = 1.0f / (float)p->columns,
                                        .cluster = cluster,
                                        .told = NULL};
}

/** The parts of dweight come first in the workspace, behind what gangs tell, those of dbias follow. */
static void find_parts(const layernorm_call *call, const ap_layernorm_plan *plan, float **weight,
                       float **bias) {
  const ap_layernorm_problem *p = &call->problem;
  const int32_t parts = plan->parts;
  float *const first = (float *)((char *)call->base.workspace + plan->told_bytes);
  const int64_t each = ((int64_t)parts * plan->pitch + 3) / 4 * 4; /* aligned to 16 bytes */
  *weight = p->dweight == NULL ? NULL : first;
  *bias = p->dbias == NULL || p->dweight == NULL || parts == 0 ? first : first + each;
  if (p->dbias == NULL)
    *bias = NULL;
}

static attnpress_layernorm_bwd_args backward_block(const layernorm_call *call, int32_t pass,
                                                   const ap_layernorm_plan *plan) {
  const ap_layernorm_problem *p = &call->problem;
  const ap_layernorm_tensor *t = p->tensor;
  attnpress_layernorm_bwd_args block = {.x = t[AP_LAYERNORM_X].data,
                                        .dy = t[AP_LAYERNORM_DY].data,
                                        .weight = p->weight,
                                        .dsum = t[AP_LAYERNORM_DSUM].data,
                                        .mean = p->mean,
                                        .rstd = p->rstd,
                                        .dx = t[AP_LAYERNORM_DX].data,
                                        .rows = p->rows,
                                        .x_row_stride = t[AP_LAYERNORM_X].stride,
                                        .dy_row_stride = t[AP_LAYERNORM_DY].stride,
                                        .dsum_row_stride = t[AP_LAYERNORM_DSUM].stride,
                                        .dx_row_stride = t[AP_LAYERNORM_DX].stride,
                                        .columns = (int32_t)p->columns,
                                        .per_column = 1.0f / (float)p->columns,
                                        .parts = plan->parts,
                                        .gang = plan->gang,
                                        .told = plan->gang > 0 ? call->base.workspace : NULL,
                                        .whole = plan->gang > 0 && plan->parts == 1,
                                        .pitch = (int32_t)plan->pitch};
  if (block.whole) {
    block.weight_parts = p->dweight;
    block.bias_parts = p->dbias;
  } else if (pass != AP_LAYERNORM_PASS_BWD_DX) {
    find_parts(call, plan, &block.weight_parts, &block.bias_parts);
  }
  return block;
}

static attnpress_layernorm_reduce_args reduce_block(const layernorm_call *call,
                                                    const ap_layernorm_plan *plan) {
  float *weight, *bias;
  find_parts(call, plan, &weight, &bias);
  return (attnpress_layernorm_reduce_args){.weight_parts = weight,
                                           .bias_parts = bias,
                                           .dweight = call->problem.dweight,
                                           .dbias = call->problem.dbias,
                                           .columns = (int32_t)call->problem.columns,
                                           .parts = plan->parts,
                                           .column_shift = plan->sum_shift,
                                           .pitch = (int32_t)plan->pitch};
}

static attnpress_status arguments(ap_maps *maps, ap_call *base, const ap_launches *launches,
                                  int index, ap_block *block) {
  layernorm_run *run = (layernorm_run *)base;
  const int32_t pass = launches->launch[index].variant.axis[AP_LAYERNORM_PASS];
  const ap_layernorm_plan *plan_of_call = AP_CONST_PLAN_OF(ap_layernorm_plan, launches);
  (void)maps;
  *block = AP_BLOCK(run->block);
  if (pass == AP_LAYERNORM_PASS_FWD)
    run->block.forward = forward_block(
        &run->call.problem,
        plan_of_call->gang > 0 ? plan_of_call->gang : (int32_t)launches->launch[index].cluster);
  else if (pass == AP_LAYERNORM_PASS_BWD_REDUCE)
    run->block.reduce = reduce_block(&run->call, plan_of_call);
  else
    run->block.backward = backward_block(&run->call, pass, plan_of_call);
  return ATTNPRESS_OK;
}

/* ---- The CPU --------------------------------------------------------------------------------- */

static attnpress_status run_cpu(const ap_call *base, int32_t num_threads) {
  return ap_layernorm_cpu(problem_of(base), num_threads);
}

static void describe_cpu(const ap_call *base, attnpress_info *info) {
  const ap_layernorm_problem *p = problem_of(base);
  snprintf(info->stem, sizeof info->stem, "cpu_layernorm_%s%s_%s_w%s", p->backward ? "bwd" : "fwd",
           p->rms ? "_rms" : "", ap_layernorm_dtype_name(p->dtype),
           ap_layernorm_dtype_name(p->param_dtype));
}

/* ---- The operations -------------------------------------------------------------------------- */

static attnpress_status run_planned(const attnpress_plan *planned, const void *args, void *stream) {
  layernorm_run run;
  ap_layernorm_plan fresh;
  return ap_plan_run(planned, args, stream, &run.call.base, &fresh.base);
}

#define OPERATION(function, check_function, give_function)                                         \
  {                                                                                                \
    .name = function, .call_bytes = sizeof(layernorm_call),                                        \
    .plan_bytes = sizeof(ap_layernorm_plan), .check = check_function, .plan = plan,                \
    .give = give_function, .give_checked = give_checked, .serves = serves, .arguments = arguments, \
    .run_cpu = run_cpu, .describe_cpu = describe_cpu, .run_planned = run_planned,                  \
    .plans_by_pointers = 1, .run_bytes = sizeof(layernorm_run)                                     \
  }
static const ap_operation forward = OPERATION("attnpress_layernorm", check_forward, give_forward);
static const ap_operation backward =
    OPERATION("attnpress_layernorm_backward", check_backward, give_backward);

attnpress_status attnpress_layernorm(attnpress_handle *handle, const attnpress_layernorm_args *args,
                                     void *stream) {
  layernorm_run run;
  ap_layernorm_plan launches;
  return ap_call_run(handle, &forward, args, stream, &run.call.base, &launches.base);
}

attnpress_status attnpress_plan_layernorm(attnpress_handle *handle,
                                          const attnpress_layernorm_args *args,
                                          const attnpress_plan_options *options,
                                          attnpress_plan **made) {
  return ap_plan_make(handle, &forward, args, options, made);
}

attnpress_status attnpress_layernorm_backward(attnpress_handle *handle,
                                              const attnpress_layernorm_backward_args *args,
                                              void *stream) {
  layernorm_run run;
  ap_layernorm_plan launches;
  return ap_call_run(handle, &backward, args, stream, &run.call.base, &launches.base);
}

attnpress_status attnpress_plan_layernorm_backward(attnpress_handle *handle,
                                                   const attnpress_layernorm_backward_args *args,
                                                   const attnpress_plan_options *options,
                                                   attnpress_plan **made) {
  return ap_plan_make(handle, &backward, args, options, made);
}
