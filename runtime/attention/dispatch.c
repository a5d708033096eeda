/* The calls on tensors: validate, choose, find the kernel, launch. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

#include "attention/cpu.h"
#include "attention/defaults.h"

/** What the four calls have in common: a checked copy of the arguments. */
typedef struct forward_call {
  attnpress_forward_args args;
  ap_problem problem;
} forward_call;

static attnpress_status begin(const attnpress_handle *handle, const attnpress_forward_args *args,
                              int with_data, forward_call *call) {
  RETURN_IF(handle == NULL, ATTNPRESS_INVALID_ARGUMENT, "handle is NULL");
  RETURN_IF(handle->backend == ATTNPRESS_COMPILE_ONLY, ATTNPRESS_NOT_SUPPORTED,
            "the handle was made with ATTNPRESS_COMPILE_ONLY, which runs nothing; make one with "
            "ATTNPRESS_CUDA or ATTNPRESS_CPU");
  FORWARD_IF(ap_copy_struct(args, &call->args, sizeof call->args, "args"));
  return ap_validate_forward(&call->args, handle->backend, with_data, &call->problem);
}

/* ---- Launch ---------------------------------------------------------------------------------- */

static attnpress_status check_workspace(const attnpress_forward_args *args, const ap_plan *plan) {
  if (plan->workspace_bytes == 0)
    return ATTNPRESS_OK;
  RETURN_IF(args->workspace == NULL || args->workspace_bytes < plan->workspace_bytes,
            ATTNPRESS_WORKSPACE_TOO_SMALL,
            "%d splits need a workspace of %zu bytes, and %zu were given; "
            "attnpress_forward_workspace_size() tells the size, num_splits 1 needs none",
            (int)plan->num_splits, plan->workspace_bytes,
            args->workspace == NULL ? (size_t)0 : args->workspace_bytes);
  RETURN_IF((uintptr_t)args->workspace % 16 != 0, ATTNPRESS_INVALID_ARGUMENT,
            "workspace is %p; it must be aligned to 16 bytes", args->workspace);
  return ATTNPRESS_OK;
}

static void fill_args(const forward_call *call, const ap_plan *plan, attnpress_fwd_args *out) {
  const attnpress_forward_args *a = &call->args;
  const ap_problem *p = &call->problem;
  const float scale = (float)ap_scale(a);
  *out = (attnpress_fwd_args){
      .q = a->q.data,
      .k = a->k.data,
      .v = a->v.data,
      .out = a->out.data,
      .lse = a->lse,
      .q_batch_stride = a->q.stride[0],
      .q_row_stride = a->q.stride[1],
      .q_head_stride = a->q.stride[2],
      .k_batch_stride = a->k.stride[0],
      .k_row_stride = a->k.stride[1],
      .k_head_stride = a->k.stride[2],
      .v_batch_stride = a->v.stride[0],
      .v_row_stride = a->v.stride[1],
      .v_head_stride = a->v.stride[2],
      .out_batch_stride = a->out.stride[0],
      .out_row_stride = a->out.stride[1],
      .out_head_stride = a->out.stride[2],
      .batch = p->batch,
      .heads_q = p->heads_q,
      .heads_kv = p->heads_kv,
      .seqlen_q = p->seqlen_q,
      .seqlen_k = p->seqlen_k,
      .heads_per_tile = plan->heads_per_tile,
      .row_blocks = plan->row_blocks,
      .num_splits = plan->num_splits,
      .key_blocks_per_split = plan->key_blocks_per_split,
      .scale = scale,
      .scale_log2 = (float)((double)scale * 1.4426950408889634074),
  };
  ap_lse_strides(a, &out->lse_batch_stride, &out->lse_head_stride);
  if (plan->variant.axis[AP_ATTENTION_SPLIT]) {
    out->out_partial = a->workspace;
    out->lse_partial = (float *)((char *)a->workspace + plan->lse_partial_offset_bytes);
  }
}

/** The rest of what an sm90 kernel takes; `fwd` stands. */
static attnpress_status fill_sm90_args(const ap_driver *driver, const forward_call *call,
                                       const ap_plan *plan, attnpress_fwd_sm90_args *out) {
  const attnpress_fwd_args *fwd = &out->fwd;
  out->section_heads = ap_divisor(plan->section_heads);
  out->section_units = ap_divisor(plan->section_heads * plan->row_blocks);
  out->group_rounds = ap_divisor(plan->group_rounds);
  out->num_splits = ap_divisor(fwd->num_splits);
  out->tile_heads = ap_divisor(fwd->heads_q / fwd->heads_per_tile);
  out->heads_per_tile = ap_divisor(fwd->heads_per_tile);
  out->heads = plan->heads;
  out->group_units = plan->group_units;
  out->rounds = plan->rounds;
  out->warpgroup_positions = AP_ATTENTION_WARPGROUP_ROWS / fwd->heads_per_tile;
  memset(out->reserved, 0, sizeof out->reserved);
  return ap_tensor_maps_encode(driver, &call->args, plan, out);
}

static void fill_combine_args(const attnpress_fwd_args *a, attnpress_fwd_combine_args *out) {
  *out = (attnpress_fwd_combine_args){
      .out_partial = a->out_partial,
      .lse_partial = a->lse_partial,
      .out = a->out,
      .lse = a->lse,
      .out_batch_stride = a->out_batch_stride,
      .out_row_stride = a->out_row_stride,
      .out_head_stride = a->out_head_stride,
      .lse_batch_stride = a->lse_batch_stride,
      .lse_head_stride = a->lse_head_stride,
      .rows = (int64_t)a->batch * a->heads_q * a->seqlen_q,
      .heads_q = a->heads_q,
      .seqlen_q = a->seqlen_q,
      .num_splits = a->num_splits,
  };
}

/* From CUDA 12.3 on, launches that overlap can be captured into graphs. */
enum { OVERLAP_DRIVER_VERSION_MIN = 12030 };

/** `overlaps`: the kernel may begin before what was launched before it has ended, and waits for
 * that end itself (griddepcontrol.wait). */
static attnpress_status launch(const ap_driver *driver, const ap_bound *bound, const ap_tile *tile,
                               unsigned grid, int overlaps, void *kernel_args, CUstream stream) {
  void *parameters[] = {kernel_args};
  CUlaunchAttribute overlap = {
      .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
      .value.programmatic_stream_serialization_allowed = 1,
  };
  const CUlaunchConfig config = {
      .grid_x = grid,
      .grid_y = 1,
      .grid_z = 1,
      .block_x = (unsigned)tile->threads,
      .block_y = 1,
      .block_z = 1,
      .smem_bytes = (unsigned)tile->smem_bytes,
      .stream = stream,
      .attributes = &overlap,
      .attribute_count = overlaps && driver->version >= OVERLAP_DRIVER_VERSION_MIN,
  };
  const CUresult result = driver->launch_kernel(&config, bound->function, parameters, NULL);
  if (result == CUDA_SUCCESS)
    return ATTNPRESS_OK;
  char what[AP_STEM_MAX + 64];
  snprintf(what, sizeof what, "launching %s (%u blocks)", bound->kernel->request.stem, grid);
  return ap_driver_fail(driver, result, what);
}

/** Launches the forward kernel and, unless it is NULL, the combine kernel; the context is current.
 */
static attnpress_status launch_plan(const ap_driver *driver, const forward_call *call,
                                    const ap_plan *plan, const ap_bound *bound,
                                    const ap_bound *combine, CUstream stream) {
  attnpress_fwd_sm90_args kernel_args; /* of which the other kernels take `fwd` */
  void *args = &kernel_args.fwd;
  fill_args(call, plan, &kernel_args.fwd);
  if (plan->tile.field[AP_ATTENTION_TILE_PRODUCER]) {
    args = &kernel_args;
    FORWARD_IF(fill_sm90_args(driver, call, plan, &kernel_args));
  }
  FORWARD_IF(launch(driver, bound, &plan->tile, plan->grid, plan->overlaps, args, stream));
  if (combine == NULL)
    return ATTNPRESS_OK;
  attnpress_fwd_combine_args combine_args;
  fill_combine_args(&kernel_args.fwd, &combine_args);
  return launch(driver, combine, &plan->combine_tile, plan->combine_grid, plan->combine_overlaps,
                &combine_args, stream);
}

/** Both kernels of a split call are there before the first is launched. */
static attnpress_status run_plan(attnpress_handle *handle, ap_context *context,
                                 const forward_call *call, const ap_plan *plan, CUstream stream) {
  const ap_bound *bound, *combine = NULL;
  FORWARD_IF(ap_kernel_get(handle, context, &plan->variant, plan->target, stream, 0, &bound));
  if (plan->variant.axis[AP_ATTENTION_SPLIT])
    FORWARD_IF(
        ap_kernel_get(handle, context, &plan->combine, plan->combine_target, stream, 0, &combine));
  int pushed;
  FORWARD_IF(ap_enter(handle, context->context, &pushed));
  const attnpress_status status = launch_plan(&handle->driver, call, plan, bound, combine, stream);
  ap_leave(handle, pushed);
  return status;
}

attnpress_status attnpress_forward(attnpress_handle *handle, const attnpress_forward_args *args,
                                   void *stream) {
  forward_call call;
  ap_context *context;
  ap_plan plan;
  FORWARD_IF(begin(handle, args, 1, &call));
  if (handle->backend == ATTNPRESS_CPU)
    return ap_cpu_forward(&call.args, handle->num_threads);
  FORWARD_IF(ap_context_of(handle, stream, &context));
  FORWARD_IF(ap_choose(&call.problem, &context->device, &plan));
  if (plan.grid == 0)
    return ATTNPRESS_OK; /* the output is empty */
  FORWARD_IF(check_workspace(&call.args, &plan));
  return run_plan(handle, context, &call, &plan, stream);
}

attnpress_status attnpress_forward_workspace_size(attnpress_handle *handle,
                                                  const attnpress_forward_args *args,
                                                  size_t *bytes) {
  forward_call call;
  ap_context *context;
  ap_plan plan;
  RETURN_IF(bytes == NULL, ATTNPRESS_INVALID_ARGUMENT, "bytes is NULL");
  *bytes = 0;
  FORWARD_IF(begin(handle, args, 0, &call));
  if (handle->backend == ATTNPRESS_CPU)
    return ATTNPRESS_OK;
  FORWARD_IF(ap_context_of(handle, NULL, &context));
  FORWARD_IF(ap_choose(&call.problem, &context->device, &plan));
  *bytes = plan.workspace_bytes;
  return ATTNPRESS_OK;
}

attnpress_status attnpress_prepare_forward(attnpress_handle *handle,
                                           const attnpress_forward_args *args) {
  forward_call call;
  ap_context *context;
  ap_variant variants[AP_VARIANTS_MAX];
  const char *targets[AP_VARIANTS_MAX];
  int count;
  FORWARD_IF(begin(handle, args, 0, &call));
  if (handle->backend == ATTNPRESS_CPU)
    return ATTNPRESS_OK;
  FORWARD_IF(ap_context_of(handle, NULL, &context));
  FORWARD_IF(ap_choose_all(&call.problem, &context->device, variants, targets, &count));
  for (int i = 0; i < count; ++i) {
    const ap_bound *bound;
    FORWARD_IF(ap_kernel_get(handle, context, &variants[i], targets[i], NULL, 1, &bound));
  }
  return ATTNPRESS_OK;
}

/* ---- Describe -------------------------------------------------------------------------------- */

/** Where a kernel is, or would come from, and what is known of it; compiles and loads nothing. */
static attnpress_status describe_kernel(attnpress_handle *handle, const ap_request *request,
                                        attnpress_info *info) {
  ap_kernel kernel;
  if (ap_kernel_loaded(handle, request, &kernel)) {
    info->origin = ATTNPRESS_ORIGIN_MEMORY;
    info->registers = kernel.registers;
    info->spill_bytes = kernel.spill_bytes;
    info->compile_ms = kernel.compile_ms;
    info->cubin_bytes = kernel.cubin_bytes;
    return ATTNPRESS_OK;
  }
  ap_image image;
  const attnpress_status status =
      ap_find_image(handle, request, AP_LAYER_PREBUILT | AP_LAYER_DISK, &image, NULL);
  if (status == ATTNPRESS_NO_KERNEL) {
    info->origin = handle->jit_off ? ATTNPRESS_ORIGIN_NONE : ATTNPRESS_ORIGIN_JIT;
    return ATTNPRESS_OK;
  }
  FORWARD_IF(status);
  info->origin = image.origin;
  info->registers = image.registers;
  info->spill_bytes = image.spill_bytes;
  info->cubin_bytes = image.size;
  ap_image_free(&image);
  return ATTNPRESS_OK;
}

static attnpress_status describe_cuda(attnpress_handle *handle, const forward_call *call,
                                      attnpress_info *info) {
  ap_context *context;
  ap_plan plan;
  ap_request request;
  FORWARD_IF(ap_context_of(handle, NULL, &context));
  FORWARD_IF(ap_choose(&call->problem, &context->device, &plan));
  FORWARD_IF(ap_request_init(&request, &plan.variant, plan.target));
  snprintf(info->stem, sizeof info->stem, "%s", request.stem);
  snprintf(info->tile, sizeof info->tile, "%s", request.tile_name);
  snprintf(info->target, sizeof info->target, "%s", request.target);
  if (plan.variant.axis[AP_ATTENTION_SPLIT])
    FORWARD_IF(ap_variant_print(&plan.combine, info->combine_stem));
  info->num_splits = plan.num_splits;
  info->smem_bytes = plan.tile.smem_bytes;
  return describe_kernel(handle, &request, info);
}

attnpress_status attnpress_describe_forward(attnpress_handle *handle,
                                            const attnpress_forward_args *args,
                                            attnpress_info *info) {
  forward_call call;
  attnpress_info found = ATTNPRESS_INFO_INIT;
  FORWARD_IF(begin(handle, args, 0, &call));
  FORWARD_IF(ap_check_info(info));
  if (handle->backend == ATTNPRESS_CPU) {
    snprintf(found.stem, sizeof found.stem, "cpu_fwd_hdim%d_%s%s", (int)call.problem.hdim,
             ap_dtype_name(call.problem.dtype),
             call.problem.mask == ATTNPRESS_CAUSAL ? "_causal" : "");
    snprintf(found.target, sizeof found.target, "cpu");
    found.origin = ATTNPRESS_ORIGIN_CPU;
    found.num_splits = 1;
    found.spill_bytes = 0;
  } else {
    FORWARD_IF(describe_cuda(handle, &call, &found));
  }
  ap_write_info(&found, info);
  return ATTNPRESS_OK;
}
