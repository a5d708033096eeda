/* Questions to plans of the forward pass, as the tests ask them: each makes a plan, asks, and frees
 * it. Shapes, strides and the rest are those of `args`. */
#pragma once
#include "attnpress/attnpress.h"

#if defined(__GNUC__)
#define PLANS_UNUSED __attribute__((unused))
#else
#define PLANS_UNUSED
#endif

/** The workspace of a call. */
static PLANS_UNUSED attnpress_status workspace_bytes_of(attnpress_handle *handle,
                                                        const attnpress_forward_args *args,
                                                        size_t *bytes) {
  attnpress_plan *plan;
  attnpress_status status = attnpress_plan_forward(handle, args, NULL, &plan);
  if (status == ATTNPRESS_OK)
    status = attnpress_plan_workspace_bytes(plan, bytes);
  attnpress_plan_destroy(plan);
  return status;
}

/** The record of one launch of a call. */
static PLANS_UNUSED attnpress_status describe_launch(attnpress_handle *handle,
                                                     const attnpress_forward_args *args, int index,
                                                     attnpress_info *info) {
  attnpress_plan *plan;
  attnpress_status status = attnpress_plan_forward(handle, args, NULL, &plan);
  if (status == ATTNPRESS_OK)
    status = attnpress_plan_launch(plan, index, info);
  attnpress_plan_destroy(plan);
  return status;
}

static PLANS_UNUSED attnpress_status describe(attnpress_handle *handle,
                                              const attnpress_forward_args *args,
                                              attnpress_info *info) {
  return describe_launch(handle, args, 0, info);
}

/** Loads what a call with these strides may need, whatever its batch and lengths. */
static PLANS_UNUSED attnpress_status prepare_any(attnpress_handle *handle,
                                                 const attnpress_forward_args *args) {
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_plan *plan;
  attnpress_forward_args any = *args;
  attnpress_tensor *tensors[] = {&any.q, &any.k, &any.v, &any.out};
  options.range = ATTNPRESS_UP_TO;
  for (int i = 0; i < 4; ++i)
    tensors[i]->shape[0] = tensors[i]->shape[1] = 0;
  attnpress_status status = attnpress_plan_forward(handle, &any, &options, &plan);
  if (status == ATTNPRESS_OK)
    status = attnpress_plan_prepare(plan, NULL);
  attnpress_plan_destroy(plan);
  return status;
}
