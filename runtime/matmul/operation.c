/* The matrix product in place: the operation that call.c carries out, and its public functions. */
#include <stdio.h>

#include "matmul/matmul.h"
#include "core/numbers.h"

enum { ARGS_FIRST_BYTES = 72 }; /* in the first version of the header; it never changes */

/** A checked call. */
typedef struct matmul_call {
  ap_call base;
  ap_matmul_problem problem;
} matmul_call;

/** A call that is run: its argument block, beside what it was checked to be. */
typedef struct matmul_run {
  matmul_call call;
  union {
    attnpress_matmul_args_sm80 sm80;
    attnpress_matmul_args_sm90 sm90;
  } block;
} matmul_run;

static const ap_matmul_problem *problem_of(const ap_call *base) {
  return &((const matmul_call *)base)->problem;
}

/* ---- Check and plan -------------------------------------------------------------------------- */

static attnpress_status check(const void *args, ap_check how, ap_call *base) {
  attnpress_matmul_args a;
  FORWARD_IF(ap_copy_struct(args, &a, sizeof a, ARGS_FIRST_BYTES, "args"));
  ap_matmul_problem *p = &((matmul_call *)base)->problem;
  *base = (ap_call){.workspace = NULL};
  RETURN_IF(a.reserved != 0, ATTNPRESS_INVALID_ARGUMENT, "reserved is %d; it must be 0",
            (int)a.reserved);
  *p = (ap_matmul_problem){.x = a.x,
                           .w = a.w,
                           .rows = a.rows,
                           .n = a.n,
                           .x_stride = a.x_stride,
                           .w_stride = a.w_stride,
                           .dtype = a.dtype,
                           .w_dtype = a.w_dtype,
                           .transposed = a.transposed};
  return ap_matmul_validate(p, how);
}

static attnpress_status plan(const ap_call *base, const ap_device *device, int32_t range,
                             ap_launches *launches) {
  return ap_matmul_plan_call(problem_of(base), device, range, AP_PLAN_OF(ap_matmul_plan, launches));
}

/* ---- Which calls a plan serves --------------------------------------------------------------- */

static attnpress_status serves(const ap_call *base, const ap_call *planned_base, int32_t range) {
  const ap_matmul_problem *p = problem_of(base), *planned = problem_of(planned_base);
  FORWARD_IF(ap_check_extent("dtype", p->dtype, planned->dtype, ATTNPRESS_ONE_CALL));
  FORWARD_IF(ap_check_extent("w_dtype", p->w_dtype, planned->w_dtype, ATTNPRESS_ONE_CALL));
  FORWARD_IF(ap_check_extent("transposed", p->transposed, planned->transposed, ATTNPRESS_ONE_CALL));
  FORWARD_IF(ap_check_extent("rows", p->rows, planned->rows, range));
  return ap_check_extent("n", p->n, planned->n, range);
}

/* ---- Kernel arguments ------------------------------------------------------------------------ */

static attnpress_status fill_sm90(ap_maps *maps, const ap_matmul_problem *p,
                                  const ap_matmul_plan *plan, attnpress_matmul_args_sm90 *block) {
  const ap_launch *launch = &plan->base.launch[0];
  const int64_t block_m = launch->tile.field[AP_MATMUL_TILE_BLOCK_M];
  *block = (attnpress_matmul_args_sm90){
      .out = p->x,
      .x_stride = p->x_stride,
      .rows = (int32_t)p->rows,
      .n = (int32_t)p->n,
      .column_blocks = plan->column_blocks,
      .row_blocks = (int32_t)ceil_div(p->rows, block_m),
      .share = plan->share,
      .together = launch->together,
      .split_shift = plan->split_shift,
  };
  return ap_matmul_maps_encode(maps, p, &launch->tile, block);
}

static attnpress_status arguments(ap_maps *maps, ap_call *base, const ap_launches *launches,
                                  int index, ap_block *block) {
  matmul_run *run = (matmul_run *)base;
  const ap_matmul_problem *p = &run->call.problem;
  *block = AP_BLOCK(run->block);
  if (launches->launch[index].variant.axis[AP_MATMUL_ARCH] == AP_MATMUL_SM90)
    return fill_sm90(maps, p, AP_CONST_PLAN_OF(ap_matmul_plan, launches), &run->block.sm90);
  run->block.sm80 = (attnpress_matmul_args_sm80){.x = p->x,
                                                 .w = p->w,
                                                 .rows = p->rows,
                                                 .x_stride = p->x_stride,
                                                 .w_stride = p->w_stride,
                                                 .n = (int32_t)p->n};
  return ATTNPRESS_OK;
}

/* ---- The CPU --------------------------------------------------------------------------------- */

static attnpress_status run_cpu(const ap_call *base, int32_t num_threads) {
  return ap_matmul_cpu(problem_of(base), num_threads);
}

static void describe_cpu(const ap_call *base, attnpress_info *info) {
  const ap_matmul_problem *p = problem_of(base);
  snprintf(info->stem, sizeof info->stem, "cpu_matmul_%s_%s%s", p->transposed ? "nt" : "nn",
           ap_matmul_dtype_name(p->dtype), p->w_dtype == p->dtype ? "" : "_wfp32");
}

/* ---- The operation --------------------------------------------------------------------------- */

static attnpress_status run_planned(const attnpress_plan *planned, const void *args, void *stream) {
  matmul_run run;
  ap_matmul_plan fresh;
  return ap_plan_run(planned, args, stream, &run.call.base, &fresh.base);
}

static const ap_operation operation = {.name = "attnpress_matmul",
                                       .call_bytes = sizeof(matmul_call),
                                       .plan_bytes = sizeof(ap_matmul_plan),
                                       .check = check,
                                       .plan = plan,
                                       .serves = serves,
                                       .arguments = arguments,
                                       .run_cpu = run_cpu,
                                       .describe_cpu = describe_cpu,
                                       .run_planned = run_planned};

attnpress_status attnpress_matmul(attnpress_handle *handle, const attnpress_matmul_args *args,
                                  void *stream) {
  matmul_run run;
  ap_matmul_plan launches;
  return ap_call_run(handle, &operation, args, stream, &run.call.base, &launches.base);
}

attnpress_status attnpress_plan_matmul(attnpress_handle *handle, const attnpress_matmul_args *args,
                                       const attnpress_plan_options *options,
                                       attnpress_plan **made) {
  return ap_plan_make(handle, &operation, args, options, made);
}
