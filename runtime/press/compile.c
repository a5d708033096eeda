/* The calls on kernels by name. Nothing here loads or launches. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

attnpress_status ap_check_info(const attnpress_info *info) {
  attnpress_info known;
  return ap_copy_struct(info, &known, sizeof known, AP_INFO_FIRST_BYTES, "info");
}

void ap_write_info(const attnpress_info *found, attnpress_info *info) {
  ap_write_struct(found, sizeof *found, info);
}

void ap_request_describe(const ap_request *request, attnpress_info *info) {
  snprintf(info->stem, sizeof info->stem, "%s", request->stem);
  snprintf(info->tile, sizeof info->tile, "%s", request->tile_name);
  snprintf(info->target, sizeof info->target, "%s", request->target);
  info->threads = ap_tile_threads(&request->tile);
  info->smem_bytes = request->tile.smem_bytes;
}

/** The capability of the current context's device, else the first device's; 0: there is none. */
static int present_capability(attnpress_handle *handle) {
  CUcontext context = NULL;
  CUdevice ordinal = 0;
  ap_device device;
  if (handle->backend != ATTNPRESS_CUDA)
    return 0;
  const int found = (handle->driver.ctx_get_current(&context) == CUDA_SUCCESS && context != NULL &&
                     handle->driver.ctx_get_device(&ordinal) == CUDA_SUCCESS) ||
                    handle->driver.device_get(&ordinal, 0) == CUDA_SUCCESS;
  return found && ap_device_read(&handle->driver, ordinal, &device) == ATTNPRESS_OK
             ? device.capability
             : 0;
}

/** The target that a stem's arch is named after. */
static void own_target(const ap_variant *variant, char target[AP_TARGET_MAX]) {
  /* wgmma and setmaxnreg exist in the "a" target alone */
  snprintf(target, AP_TARGET_MAX, variant->arch == 90 ? "sm_%da" : "sm_%d", (int)variant->arch);
}

/** The target that a stem is for where none is named. */
static void default_target(attnpress_handle *handle, const ap_variant *variant,
                           char target[AP_TARGET_MAX]) {
  const int capability = present_capability(handle);
  const char *name = variant->pass == AP_PASS_FWD_COMBINE
                         ? ap_combine_target_for(capability)
                         : ap_target_for(capability, variant->arch);
  if (name != NULL)
    snprintf(target, AP_TARGET_MAX, "%s", name);
  else
    own_target(variant, target);
}

static attnpress_status check_target(const ap_request *request) {
  const ap_target *target = ap_find_target(request->target);
  char names[128];
  ap_print_targets(names, sizeof names);
  RETURN_IF(target == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "target \"%.*s\" is unknown: targets are %s", AP_TARGET_MAX, request->target, names);
  RETURN_IF(request->variant.arch > target->capability, ATTNPRESS_INVALID_ARGUMENT,
            "%s cannot be compiled for %s, which is older than its arch", request->stem,
            request->target);
  RETURN_IF(request->variant.arch == 90 && strcmp(request->target, "sm_90a") != 0,
            ATTNPRESS_INVALID_ARGUMENT,
            "%s cannot be compiled for %s: the instructions of sm90 kernels exist on sm_90a alone",
            request->stem, request->target);
  RETURN_IF(request->tile.smem_bytes > target->smem_per_block_bytes, ATTNPRESS_NOT_SUPPORTED,
            "%s takes %d bytes of shared memory and a thread block on %s has %d; use the sm86 stem",
            request->stem, (int)request->tile.smem_bytes, request->target,
            target->smem_per_block_bytes);
  return ATTNPRESS_OK;
}

attnpress_status attnpress_compile(attnpress_handle *handle, const char *stem, const char *target,
                                   attnpress_info *info) {
  RETURN_IF(handle == NULL, ATTNPRESS_INVALID_ARGUMENT, "handle is NULL");
  if (info != NULL)
    FORWARD_IF(ap_check_info(info));
  ap_variant variant;
  ap_request request;
  char name[AP_TARGET_MAX];
  FORWARD_IF(ap_variant_parse(stem, &variant));
  if (target == NULL)
    default_target(handle, &variant, name);
  FORWARD_IF(ap_request_init(&request, &variant, target != NULL ? target : name));
  FORWARD_IF(check_target(&request));
  ap_image image;
  attnpress_status published;
  FORWARD_IF(ap_find_image_aloud(&handle->finder, &request, &image, &published));
  ap_log_line(&handle->log, ATTNPRESS_LOG_INFO, "%s %s %s: %s, %.1f ms", request.stem,
              request.tile_name, request.target, ap_origin_name(image.origin), image.compile_ms);
  if (info != NULL) {
    attnpress_info found = ATTNPRESS_INFO_INIT;
    ap_request_describe(&request, &found);
    found.origin = image.origin;
    found.registers = image.registers;
    found.spill_bytes = image.spill_bytes;
    found.compile_ms = image.compile_ms;
    found.cubin_bytes = image.size;
    ap_write_info(&found, info);
  }
  ap_image_free(&image);
  ap_log_deliver(&handle->log);
  return published; /* the call's promise is that the cubin is linked in or cached */
}

attnpress_status attnpress_render_source(const char *stem, const char *target, char **source) {
  RETURN_IF(source == NULL, ATTNPRESS_INVALID_ARGUMENT, "source is NULL");
  *source = NULL;
  ap_variant variant;
  ap_request request;
  size_t size;
  char name[AP_TARGET_MAX];
  FORWARD_IF(ap_variant_parse(stem, &variant));
  own_target(&variant, name);
  FORWARD_IF(ap_request_init(&request, &variant, target != NULL ? target : name));
  FORWARD_IF(check_target(&request));
  return ap_render(&variant, &request.tile, source, &size);
}

void attnpress_free_source(char *source) {
  free(source);
}
