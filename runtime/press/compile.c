/* The calls on kernels by name. Nothing here loads or launches. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

attnpress_status ap_check_info(const attnpress_info *info) {
  attnpress_info known;
  return ap_copy_struct(info, &known, sizeof known, "info");
}

void ap_write_info(const attnpress_info *found, attnpress_info *info) {
  const size_t struct_size = info->struct_size;
  *info = *found;
  info->struct_size = struct_size;
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

/** The target that a stem is for where none is named: the present device's, else the stem's own. */
static void default_target(attnpress_handle *handle, const ap_variant *variant,
                           char target[AP_TARGET_MAX]) {
  const char *name = ap_target_for(variant, present_capability(handle));
  const int arch = variant->axis[ap_families[variant->family]->arch_axis];
  const ap_arch *row = ap_find_arch(arch);
  if (name == NULL && row != NULL)
    name = row->only;
  if (name != NULL)
    snprintf(target, AP_TARGET_MAX, "%s", name);
  else
    snprintf(target, AP_TARGET_MAX, "sm_%d", arch);
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
  FORWARD_IF(ap_check_target(&variant, &request.tile, request.target));
  ap_image image;
  attnpress_status published;
  FORWARD_IF(ap_find_image(handle, &request, AP_LAYER_ALL, &image, &published));
  ap_log_line(&handle->log, ATTNPRESS_LOG_INFO, "%s %s %s: %s, %.1f ms", request.stem,
              request.tile_name, request.target, ap_origin_name(image.origin), image.compile_ms);
  if (info != NULL) {
    attnpress_info found = ATTNPRESS_INFO_INIT;
    snprintf(found.stem, sizeof found.stem, "%s", request.stem);
    snprintf(found.tile, sizeof found.tile, "%s", request.tile_name);
    snprintf(found.target, sizeof found.target, "%s", request.target);
    found.origin = image.origin;
    found.num_splits = variant.axis[AP_ATTENTION_SPLIT] ? 0 : 1;
    found.registers = image.registers;
    found.spill_bytes = image.spill_bytes;
    found.smem_bytes = request.tile.smem_bytes;
    found.compile_ms = image.compile_ms;
    found.cubin_bytes = image.size;
    ap_write_info(&found, info);
  }
  ap_image_free(&image);
  return published; /* the call's promise is that the cubin is linked in or cached */
}

attnpress_status attnpress_render_source(const char *stem, char **source) {
  RETURN_IF(source == NULL, ATTNPRESS_INVALID_ARGUMENT, "source is NULL");
  *source = NULL;
  ap_variant variant;
  ap_tile tile;
  size_t size;
  FORWARD_IF(ap_variant_parse(stem, &variant));
  FORWARD_IF(ap_find_tile(&variant, NULL, &tile));
  return ap_render(&variant, &tile, source, &size);
}

void attnpress_free_source(char *source) {
  free(source);
}
