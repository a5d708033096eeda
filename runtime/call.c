/* Runs operations and keeps plans of them; call.h says how. */
#include "call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "cuda/device.h"
#include "cuda/launch.h"
#include "inspect.h"
#include "kept.h"
#include "press/info.h"
#include "press/target.h"

enum { NUM_SMS_MAX = 4096 }; /* of a device that a caller makes up; plans multiply by it */

struct attnpress_plan {
  attnpress_handle *handle;
  const ap_operation *operation;
  ap_device device; /* not for the CPU */
  int32_t range;
  ap_call *call;             /* as it was checked, without its data */
  ap_launches *launches;     /* the end of a plan of the operation's; not for the CPU */
  const ap_snippet *snippet; /* of the call; NULL: none */
};

/* ---- Variants of launches -------------------------------------------------------------------- */

static uint64_t key_of(const ap_launch *launch) {
  return launch->variant_key != 0 ? launch->variant_key : ap_variant_key(&launch->variant);
}

void ap_choose_arch(const ap_device *device, ap_launch *launch) {
  ap_variant *v = &launch->variant;
  const ap_route *route = ap_next_route(v, device->capability, NULL), *next = route;
  while (device->arch_max != 0 && route->arch > device->arch_max &&
         (next = ap_next_route(v, device->capability, route)) != NULL)
    route = next;
  v->axis[ap_families[v->family]->arch_axis] = route->arch;
  launch->target = route->target;
}

attnpress_status ap_find_launch_tile(ap_launch *launch) {
  launch->variant_key = ap_variant_key(&launch->variant);
  return ap_find_tile_by_key(&launch->variant, launch->variant_key, launch->target, &launch->tile);
}

attnpress_status ap_find_room(const ap_launches *range) {
  RETURN_IF(range->count == AP_LAUNCHES_MAX, ATTNPRESS_NOT_SUPPORTED,
            "more than %d kernels serve one range of shapes", AP_LAUNCHES_MAX);
  return ATTNPRESS_OK;
}

attnpress_status ap_add_to_range(const ap_launch *launch, ap_launches *range) {
  for (int i = 0; i < range->count; ++i)
    if (range->launch[i].variant_key == launch->variant_key)
      return ATTNPRESS_OK;
  FORWARD_IF(ap_find_room(range));
  ap_launch *const added = &range->launch[range->count++];
  *added = *launch;
  added->grid = 0;
  added->num_splits = 0;
  return ATTNPRESS_OK;
}

/* ---- Snippets -------------------------------------------------------------------------------- */

/** The snippet of a call, kept from now on; NULL: it has none. */
static attnpress_status get_snippet(attnpress_handle *handle, const ap_operation *operation,
                                    const ap_call *call, const ap_snippet **found) {
  *found = NULL;
  if (!call->has_snippet)
    return ATTNPRESS_OK;
  *found = ap_snippet_find(&handle->snippets, call->snippet_key);
  if (*found != NULL)
    return ATTNPRESS_OK;
  ap_snippet *fresh = calloc(1, sizeof *fresh);
  RETURN_IF(fresh == NULL, ATTNPRESS_OUT_OF_MEMORY, "host memory ran out for a snippet");
  memcpy(fresh->key, call->snippet_key, sizeof fresh->key);
  attnpress_status status = operation->snippet(call, fresh);
  if (status == ATTNPRESS_OK && (fresh->text.failed || fresh->scope.failed))
    status = ap_fail(ATTNPRESS_OUT_OF_MEMORY, "host memory ran out for a snippet");
  if (status != ATTNPRESS_OK) {
    ap_snippet_free(fresh);
    return status;
  }
  pthread_mutex_lock(&handle->lock);
  *found = ap_snippet_find(&handle->snippets, call->snippet_key);
  const int kept = *found == NULL && ap_snippet_keep(&handle->snippets, fresh);
  pthread_mutex_unlock(&handle->lock);
  if (kept)
    *found = fresh;
  else
    ap_snippet_free(fresh);
  RETURN_IF(
      *found == NULL, ATTNPRESS_NOT_SUPPORTED,
      "the handle has met %d different snippets, which is the most: numbers that change belong "
      "into scalars and buffers",
      AP_SNIPPETS_MAX);
  return ATTNPRESS_OK;
}

static attnpress_status init_request(ap_request *request, const ap_launch *launch,
                                     const ap_snippet *snippet) {
  FORWARD_IF(ap_request_init(request, &launch->variant, launch->target));
  request->snippet = launch->snippet ? snippet : NULL;
  return ATTNPRESS_OK;
}

/* ---- Launching ------------------------------------------------------------------------------- */

static attnpress_status check_workspace(const void *given, size_t given_bytes, size_t bytes) {
  RETURN_IF(given == NULL || given_bytes < bytes, ATTNPRESS_WORKSPACE_TOO_SMALL,
            "the call needs a workspace of %zu bytes, and %zu were given; "
            "attnpress_plan_workspace_bytes() tells the size",
            bytes, given == NULL ? (size_t)0 : given_bytes);
  RETURN_IF((uintptr_t)given % 16 != 0, ATTNPRESS_INVALID_ARGUMENT,
            "workspace is %p; it must be aligned to 16 bytes", given);
  return ATTNPRESS_OK;
}

/** A workspace of so many bytes: the lender's, where there is one, or what the caller gave. */
static attnpress_status get_workspace(ap_lender *lender, size_t bytes, void **workspace,
                                      size_t given_bytes) {
  if (bytes == 0)
    return ATTNPRESS_OK;
  if (lender == NULL)
    return check_workspace(*workspace, given_bytes, bytes);
  *workspace = lender->lend(lender, bytes);
  RETURN_IF(*workspace == NULL, ATTNPRESS_OUT_OF_MEMORY,
            "the caller has no memory for a workspace of %zu bytes", bytes);
  return ATTNPRESS_OK;
}

/** Launches all; the context is current. */
static attnpress_status launch_all(ap_maps *maps, const ap_operation *operation, ap_call *call,
                                   const ap_launches *plan, const ap_bound *const *bound,
                                   const ap_device *device, CUstream stream) {
  const ap_driver *driver = maps->driver;
  for (int i = 0; i < plan->count; ++i) {
    const ap_launch *launch = &plan->launch[i];
    ap_block block;
    FORWARD_IF(operation->arguments(maps, call, plan, i, &block));
    if (launch->clears)
      FORWARD_IF(ap_clear_words(driver, call->workspace, launch->clears, stream));
    const ap_launch_shape shape = ap_shape_of(launch, device);
    FORWARD_IF(ap_launch_kernel(driver, bound[i], &shape, block.data, stream));
  }
  return ATTNPRESS_OK;
}

/* ---- Kernels that are missing ---------------------------------------------------------------- */

/** 1 where a kernel would have to be compiled. Loads nothing. */
static int is_missing(attnpress_handle *handle, const ap_launch *launch, const ap_snippet *snippet,
                      ap_request *request) {
  ap_kernel kernel;
  ap_image image;
  if (init_request(request, launch, snippet) != ATTNPRESS_OK)
    return 1;
  if (ap_kernel_loaded(handle, request, &kernel))
    return 0;
  const attnpress_status status =
      ap_find_image(&handle->finder, request, AP_LAYER_PREBUILT | AP_LAYER_DISK, &image, NULL);
  if (status == ATTNPRESS_OK)
    ap_image_free(&image);
  return status == ATTNPRESS_NO_KERNEL;
}

/** NO_KERNEL of one launch: where others are missing as well, the sentence names all of them. */
static attnpress_status fail_missing(attnpress_handle *handle, const ap_launches *plan,
                                     const ap_snippet *snippet) {
  char one[AP_SENTENCE_MAX], all[AP_SENTENCE_MAX - 256] = "";
  size_t used = 0;
  int missing = 0, left_out = 0;
  snprintf(one, sizeof one, "%s", attnpress_last_error());
  for (int i = 0; i < plan->count; ++i) {
    ap_request request;
    if (!is_missing(handle, &plan->launch[i], snippet, &request))
      continue;
    ++missing;
    const size_t size = strlen(request.stem) + strlen(request.target) + 2;
    if (left_out > 0 || used + size >= sizeof all)
      ++left_out;
    else
      used +=
          (size_t)snprintf(all + used, sizeof all - used, " %s:%s", request.stem, request.target);
  }
  ap_log_deliver(&handle->log);
  if (missing < 2 || snippet != NULL)
    return ap_fail(ATTNPRESS_NO_KERNEL, "%s", one);
  if (left_out > 0)
    snprintf(all + used, sizeof all - used, " (and %d more)", left_out);
  return ap_fail(ATTNPRESS_NO_KERNEL,
                 "%d kernels are neither linked in nor cached, and compiling is switched off "
                 "(jit_off); switch it on, or fill the cache with: attnpress compile%s",
                 missing, all);
}

/* ---- Running --------------------------------------------------------------------------------- */

/** How the arguments of a call that runs are checked, by backend. A table, as processors are slow to
 * read in one piece, for a register, what has just been written in several. */
static const ap_check check_of_run[] = {
    [ATTNPRESS_CUDA] = {ATTNPRESS_CUDA, 1, ATTNPRESS_ONE_CALL},
    [ATTNPRESS_CPU] = {ATTNPRESS_CPU, 1, ATTNPRESS_ONE_CALL},
};

/** Finds the kernels of a plan, all of them before the first is launched. */
static attnpress_status find_kernels(const ap_place *at, const ap_launches *plan,
                                     const ap_snippet *snippet, const ap_bound **bound) {
  for (int i = 0; i < plan->count; ++i) {
    const ap_launch *launch = &plan->launch[i];
    const attnpress_status found =
        ap_kernel_get(at->handle, at->context, &launch->variant, key_of(launch),
                      launch->snippet ? snippet : NULL, launch->target, at->stream, 0, &bound[i]);
    if (found == ATTNPRESS_NO_KERNEL)
      return fail_missing(at->handle, plan, snippet);
    FORWARD_IF(found);
  }
  return ATTNPRESS_OK;
}

static attnpress_status launch_found(const ap_place *at, const ap_operation *operation,
                                     ap_call *call, const ap_launches *plan,
                                     const ap_bound *const *bound, ap_maps *maps) {
  int pushed;
  FORWARD_IF(ap_enter(at->handle, at->context->context, &pushed));
  const attnpress_status status =
      launch_all(maps, operation, call, plan, bound, &at->context->device, at->stream);
  ap_leave(at->handle, pushed);
  return status;
}

static attnpress_status run_launches(const ap_place *at, const ap_operation *operation,
                                     ap_call *call, const ap_launches *plan,
                                     const ap_snippet *snippet) {
  const ap_bound *bound[AP_LAUNCHES_MAX];
  if (plan->count == 0)
    return ATTNPRESS_OK; /* the output is empty */
  FORWARD_IF(get_workspace(NULL, plan->workspace_bytes, &call->workspace, call->workspace_bytes));
  FORWARD_IF(find_kernels(at, plan, snippet, bound));
  ap_maps maps = {.driver = &at->handle->driver};
  return launch_found(at, operation, call, plan, bound, &maps);
}

/** Runs a call by a plan of this call alone, and keeps it where `given` is what was given. `fresh`:
 * memory for the plan. */
static attnpress_status run_one_call(const ap_place *at, const ap_operation *operation,
                                     const void *args, const ap_given *given, ap_call *call,
                                     ap_lender *lender, ap_launches *fresh) {
  const ap_snippet *snippet;
  const ap_bound *bound[AP_LAUNCHES_MAX];
  ap_map made[AP_MAPS_MAX];
  ap_maps maps = {.driver = &at->handle->driver, .made = made};
  FORWARD_IF(operation->plan(call, &at->context->device, ATTNPRESS_ONE_CALL, fresh));
  FORWARD_IF(get_snippet(at->handle, operation, call, &snippet));
  if (fresh->count == 0)
    return ATTNPRESS_OK; /* the output is empty */
  FORWARD_IF(
      get_workspace(lender, fresh->workspace_bytes, &call->workspace, call->workspace_bytes));
  FORWARD_IF(find_kernels(at, fresh, snippet, bound));
  FORWARD_IF(launch_found(at, operation, call, fresh, bound, &maps));
  if (given != NULL)
    ap_keep(at, operation, args, given, call->workspace, fresh, bound, &maps);
  return ATTNPRESS_OK;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static attnpress_status check_runs(const attnpress_handle *handle) {
  RETURN_IF(handle == NULL, ATTNPRESS_INVALID_ARGUMENT, "handle is NULL");
  RETURN_IF(handle->backend == ATTNPRESS_COMPILE_ONLY, ATTNPRESS_NOT_SUPPORTED,
            "the handle was made with ATTNPRESS_COMPILE_ONLY, which runs nothing; make one with "
            "ATTNPRESS_CUDA or ATTNPRESS_CPU");
  return ATTNPRESS_OK;
}

static int is_lenders(const ap_lender *lender, const ap_context *context) {
  return lender == NULL || lender->device == context->device.ordinal;
}

/** Adds whose call it is: the operation's, and the context's, whose device and kernels are no other's. */
static void add_place(const ap_place *at, const ap_operation *operation, ap_recall_key *key) {
  const uint64_t words[] = {(uint64_t)(uintptr_t)operation,
                            atomic_load_explicit(&at->context->id, memory_order_relaxed)};
  ap_recall_add(key, words, sizeof words);
}

/** Reads what is given of a call that may be known again, and finds where it runs; 0: it is not one. */
static int read_given(ap_place *at, const ap_operation *operation, const void *args,
                      const ap_lender *lender, ap_given *given) {
  if (operation->give == NULL || at->handle->backend != ATTNPRESS_CUDA || at->handle->check)
    return 0;
  ap_given_begin(given);
  if (!operation->give(args, given) ||
      ap_context_of(at->handle, at->stream, &at->context) != ATTNPRESS_OK ||
      !is_lenders(lender, at->context))
    return 0;
  add_place(at, operation, &given->key);
  return 1;
}

/** Runs a call as one like it ran before, without a look at its arguments; 0: none is kept, and nothing
 * was done but to note why. */
static int run_again(const ap_place *at, ap_given *given, ap_lender *lender,
                     attnpress_status *status) {
  ap_recall_entry *held;
  int pushed;
  const ap_kept_call *kept = ap_recall_hold(&at->context->calls, &given->key, &held);
  if (kept == NULL)
    return 0;
  given->came = ap_kept_came(kept);
  if (given->came != AP_IS_KEPT) {
    ap_recall_release(held);
    return 0;
  }
  *status = get_workspace(lender, ap_kept_workspace_bytes(kept), &given->workspace,
                          given->workspace_bytes);
  if (*status == ATTNPRESS_OK)
    *status = ap_enter(at->handle, at->context->context, &pushed);
  if (*status == ATTNPRESS_OK) {
    *status = ap_kept_launch(kept, at, given);
    ap_leave(at->handle, pushed);
  }
  ap_recall_release(held);
  return 1;
}

attnpress_status ap_call_run_lent(attnpress_handle *handle, const ap_operation *operation,
                                  const void *args, void *stream, ap_lender *lender, ap_call *call,
                                  ap_launches *plan) {
  ap_place at = {handle, NULL, stream};
  ap_given given;
  attnpress_status status;
  FORWARD_IF(check_runs(handle));
  const int is_given = read_given(&at, operation, args, lender, &given);
  if (is_given && run_again(&at, &given, lender, &status))
    return status;
  call->has_snippet = 0;
  FORWARD_IF(operation->check(args, check_of_run[handle->backend], call));
  if (handle->backend == ATTNPRESS_CPU) {
    FORWARD_IF(ap_inspect(handle, NULL, operation, call, NULL));
    return operation->run_cpu(call, handle->num_threads);
  }
  FORWARD_IF(ap_context_of(handle, stream, &at.context));
  RETURN_IF(!is_lenders(lender, at.context), ATTNPRESS_INVALID_ARGUMENT,
            "the stream is on device %d and the tensors are on device %d",
            at.context->device.ordinal, (int)lender->device);
  FORWARD_IF(ap_inspect(handle, at.context, operation, call, stream));
  return run_one_call(&at, operation, args, is_given ? &given : NULL, call, lender, plan);
}

attnpress_status ap_call_run(attnpress_handle *handle, const ap_operation *operation,
                             const void *args, void *stream, ap_call *call, ap_launches *plan) {
  return ap_call_run_lent(handle, operation, args, stream, NULL, call, plan);
}

/* ---- Making plans ---------------------------------------------------------------------------- */

/** Bytes of an operation's own part of a plan. */
static size_t own_bytes(const ap_operation *operation) {
  return operation->plan_bytes - sizeof(ap_launches);
}

static attnpress_status check_options(const attnpress_handle *handle,
                                      const attnpress_plan_options *o) {
  const int named = handle->backend == ATTNPRESS_COMPILE_ONLY;
  RETURN_IF(named && o->target == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "options.target is NULL; on an ATTNPRESS_COMPILE_ONLY handle it names the device that "
            "the plan is for, such as \"sm_90\"");
  RETURN_IF(!named && o->target != NULL, ATTNPRESS_INVALID_ARGUMENT,
            "options.target is \"%.32s\"; a plan is for the device of its stream, and names a "
            "target only on an ATTNPRESS_COMPILE_ONLY handle",
            o->target);
  RETURN_IF(o->range != ATTNPRESS_ONE_CALL && o->range != ATTNPRESS_UP_TO,
            ATTNPRESS_INVALID_ARGUMENT,
            "options.range is %d; it must be ATTNPRESS_ONE_CALL (0) or ATTNPRESS_UP_TO (1)",
            (int)o->range);
  RETURN_IF(
      o->num_sms < 0 || o->num_sms > NUM_SMS_MAX || (!named && o->num_sms != 0),
      ATTNPRESS_INVALID_ARGUMENT,
      "options.num_sms is %d; with a target it must be 1 to %d, or 0 for those of its largest "
      "device, and 0 without",
      (int)o->num_sms, NUM_SMS_MAX);
  return ATTNPRESS_OK;
}

/** The device that a plan is for. */
static attnpress_status find_device(attnpress_handle *handle, const attnpress_plan_options *o,
                                    ap_device *device) {
  if (handle->backend == ATTNPRESS_CUDA) {
    ap_context *context;
    FORWARD_IF(ap_context_of(handle, o->stream, &context));
    *device = context->device;
    return ATTNPRESS_OK;
  }
  FORWARD_IF(ap_device_of_target(o->target, device));
  if (o->num_sms > 0)
    device->sm_count = o->num_sms;
  device->arch_max = handle->arch_max;
  return ATTNPRESS_OK;
}

static attnpress_status fill_plan(attnpress_plan *plan, const void *args,
                                  const attnpress_plan_options *options) {
  attnpress_handle *handle = plan->handle;
  const ap_check how = {handle->backend, 0, options->range};
  FORWARD_IF(plan->operation->check(args, how, plan->call));
  if (handle->backend == ATTNPRESS_CPU)
    return ATTNPRESS_OK;
  FORWARD_IF(find_device(handle, options, &plan->device));
  FORWARD_IF(get_snippet(handle, plan->operation, plan->call, &plan->snippet));
  return plan->operation->plan(plan->call, &plan->device, options->range, plan->launches);
}

attnpress_status ap_plan_make(attnpress_handle *handle, const ap_operation *operation,
                              const void *args, const attnpress_plan_options *options,
                              attnpress_plan **plan) {
  attnpress_plan_options known = ATTNPRESS_PLAN_OPTIONS_INIT;
  RETURN_IF(plan == NULL, ATTNPRESS_INVALID_ARGUMENT, "plan is NULL");
  *plan = NULL;
  RETURN_IF(handle == NULL, ATTNPRESS_INVALID_ARGUMENT, "handle is NULL");
  if (options != NULL)
    FORWARD_IF(
        ap_copy_struct(options, &known, sizeof known, AP_PLAN_OPTIONS_FIRST_BYTES, "options"));
  FORWARD_IF(check_options(handle, &known));
  attnpress_plan *fresh = calloc(1, sizeof *fresh);
  if (fresh != NULL) {
    *fresh = (attnpress_plan){.handle = handle, .operation = operation, .range = known.range};
    fresh->call = calloc(1, operation->call_bytes);
    char *plan_memory = calloc(1, operation->plan_bytes);
    if (plan_memory != NULL)
      fresh->launches = (ap_launches *)(void *)(plan_memory + own_bytes(operation));
  }
  attnpress_status status;
  if (fresh == NULL || fresh->call == NULL || fresh->launches == NULL)
    status = ap_fail(ATTNPRESS_OUT_OF_MEMORY, "host memory ran out for a plan");
  else
    status = fill_plan(fresh, args, &known);
  if (status == ATTNPRESS_OK)
    *plan = fresh;
  else
    attnpress_plan_destroy(fresh);
  return status;
}

void attnpress_plan_destroy(attnpress_plan *plan) {
  if (plan == NULL)
    return;
  if (plan->launches != NULL)
    free((char *)plan->launches - own_bytes(plan->operation));
  free(plan->call);
  free(plan);
}

/* ---- Asking plans ---------------------------------------------------------------------------- */

attnpress_status attnpress_plan_workspace_bytes(const attnpress_plan *plan, size_t *bytes) {
  RETURN_IF(bytes == NULL, ATTNPRESS_INVALID_ARGUMENT, "bytes is NULL");
  *bytes = 0;
  RETURN_IF(plan == NULL, ATTNPRESS_INVALID_ARGUMENT, "plan is NULL");
  RETURN_IF(
      plan->launches->workspace_bytes == SIZE_MAX, ATTNPRESS_NOT_SUPPORTED,
      "the workspace has no bound: the batch or a length may be any, and the number of splits "
      "is given or the plan is of a backward pass; give maxima");
  *bytes = plan->launches->workspace_bytes;
  return ATTNPRESS_OK;
}

int attnpress_plan_launch_count(const attnpress_plan *plan) {
  if (plan == NULL)
    return 0;
  return plan->handle->backend == ATTNPRESS_CPU ? 1 : plan->launches->count;
}

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
      ap_find_image(&handle->finder, request, AP_LAYER_PREBUILT | AP_LAYER_DISK, &image, NULL);
  if (status != ATTNPRESS_OK)
    ap_log_deliver(&handle->log);
  if (status == ATTNPRESS_NO_KERNEL) {
    info->origin = handle->finder.jit_off ? ATTNPRESS_ORIGIN_NONE : ATTNPRESS_ORIGIN_JIT;
    return ATTNPRESS_OK;
  }
  FORWARD_IF(status);
  info->origin = image.origin;
  info->registers = image.registers;
  info->spill_bytes = image.spill_bytes;
  info->cubin_bytes = image.size;
  ap_image_free(&image);
  ap_log_deliver(&handle->log);
  return ATTNPRESS_OK;
}

static attnpress_status describe_launch(attnpress_handle *handle, const ap_launch *launch,
                                        const ap_snippet *snippet, attnpress_info *info) {
  ap_request request;
  FORWARD_IF(init_request(&request, launch, snippet));
  ap_request_describe(&request, info);
  info->grid = (int32_t)launch->grid;
  info->num_splits = launch->num_splits;
  if (launch->smem_bytes > info->smem_bytes)
    info->smem_bytes = launch->smem_bytes;
  return describe_kernel(handle, &request, info);
}

attnpress_status attnpress_plan_launch(const attnpress_plan *plan, int index,
                                       attnpress_info *info) {
  attnpress_info found = ATTNPRESS_INFO_INIT;
  RETURN_IF(plan == NULL, ATTNPRESS_INVALID_ARGUMENT, "plan is NULL");
  FORWARD_IF(ap_check_info(info));
  const int count = attnpress_plan_launch_count(plan);
  RETURN_IF(index < 0 || index >= count, ATTNPRESS_INVALID_ARGUMENT,
            "index is %d; the plan has %d launches", index, count);
  if (plan->handle->backend == ATTNPRESS_CPU) {
    found.origin = ATTNPRESS_ORIGIN_CPU;
    found.spill_bytes = 0;
    found.num_splits = 1;
    snprintf(found.target, sizeof found.target, "cpu");
    plan->operation->describe_cpu(plan->call, &found);
  } else {
    FORWARD_IF(
        describe_launch(plan->handle, &plan->launches->launch[index], plan->snippet, &found));
  }
  ap_write_info(&found, info);
  return ATTNPRESS_OK;
}

/* ---- Which calls a plan serves --------------------------------------------------------------- */

attnpress_status ap_check_extent(const char *name, int64_t value, int64_t planned, int32_t range) {
  if (range == ATTNPRESS_UP_TO)
    RETURN_IF(planned != 0 && value > planned, ATTNPRESS_INVALID_ARGUMENT,
              "%s is %" PRId64 "; the plan serves up to %" PRId64, name, value, planned);
  else
    RETURN_IF(value != planned, ATTNPRESS_INVALID_ARGUMENT,
              "%s is %" PRId64 " and was %" PRId64 " when the plan was made", name, value, planned);
  return ATTNPRESS_OK;
}

attnpress_status ap_check_given(const char *name, const void *value, const void *planned,
                                int32_t range) {
  const int more = value != NULL && planned == NULL, fewer = value == NULL && planned != NULL;
  RETURN_IF(more || (fewer && range == ATTNPRESS_ONE_CALL), ATTNPRESS_INVALID_ARGUMENT,
            "%s is %s and was %s when the plan was made", name, more ? "given" : "NULL",
            more ? "NULL" : "given");
  return ATTNPRESS_OK;
}

/* ---- Preparing and running plans ------------------------------------------------------------- */

/** The context of a stream, which must be on the plan's device. */
static attnpress_status enter_device(const attnpress_plan *plan, CUstream stream,
                                     ap_context **context) {
  FORWARD_IF(ap_context_of(plan->handle, stream, context));
  RETURN_IF((*context)->device.ordinal != plan->device.ordinal, ATTNPRESS_INVALID_ARGUMENT,
            "the stream is on device %d and the plan was made for device %d",
            (*context)->device.ordinal, plan->device.ordinal);
  return ATTNPRESS_OK;
}

/** Makes sure that a cubin is linked in or cached. */
static attnpress_status prepare_cubin(attnpress_handle *handle, const ap_launch *launch,
                                      const ap_snippet *snippet) {
  ap_request request;
  ap_image image;
  attnpress_status published;
  FORWARD_IF(init_request(&request, launch, snippet));
  FORWARD_IF(ap_find_image_aloud(&handle->finder, &request, &image, &published));
  ap_image_free(&image);
  ap_log_deliver(&handle->log);
  return published;
}

attnpress_status attnpress_plan_prepare(const attnpress_plan *plan, void *stream) {
  RETURN_IF(plan == NULL, ATTNPRESS_INVALID_ARGUMENT, "plan is NULL");
  attnpress_handle *handle = plan->handle;
  ap_context *context = NULL;
  if (handle->backend == ATTNPRESS_CPU)
    return ATTNPRESS_OK;
  if (handle->backend == ATTNPRESS_CUDA)
    FORWARD_IF(enter_device(plan, stream, &context));
  for (int i = 0; i < plan->launches->count; ++i) {
    const ap_launch *launch = &plan->launches->launch[i];
    const ap_bound *bound;
    const attnpress_status found =
        context == NULL ? prepare_cubin(handle, launch, plan->snippet)
                        : ap_kernel_get(handle, context, &launch->variant, key_of(launch),
                                        launch->snippet ? plan->snippet : NULL, launch->target,
                                        stream, stream == NULL, &bound);
    if (found == ATTNPRESS_NO_KERNEL)
      return fail_missing(handle, plan->launches, plan->snippet);
    FORWARD_IF(found);
  }
  return ATTNPRESS_OK;
}

attnpress_status attnpress_plan_run(const attnpress_plan *plan, const void *args, void *stream) {
  RETURN_IF(plan == NULL, ATTNPRESS_INVALID_ARGUMENT, "plan is NULL");
  return plan->operation->run_planned(plan, args, stream);
}

attnpress_status ap_plan_run(const attnpress_plan *plan, const void *args, void *stream,
                             ap_call *call, ap_launches *fresh) {
  const ap_operation *operation = plan->operation;
  attnpress_handle *handle = plan->handle;
  ap_context *context;
  FORWARD_IF(check_runs(handle));
  call->has_snippet = 0;
  FORWARD_IF(operation->check(args, check_of_run[handle->backend], call));
  FORWARD_IF(operation->serves(call, plan->call, plan->range));
  if (handle->backend == ATTNPRESS_CPU) {
    FORWARD_IF(ap_inspect(handle, NULL, operation, call, NULL));
    return operation->run_cpu(call, handle->num_threads);
  }
  FORWARD_IF(enter_device(plan, stream, &context));
  FORWARD_IF(ap_inspect(handle, context, operation, call, stream));
  const ap_place at = {handle, context, stream};
  if (plan->range == ATTNPRESS_UP_TO || operation->plans_by_pointers)
    return run_one_call(&at, operation, args, NULL, call, NULL, fresh);
  /* Calls that it serves have its snippet. */
  return run_launches(&at, operation, call, plan->launches, plan->snippet);
}
