/* The calls on kernels by name. Nothing here loads or launches. */
#include "press/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "handle.h"
#include "press/info.h"

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
  const int arch = variant->axis[ap_families[variant->family]->arch_axis];
  const ap_arch *row = ap_find_arch(arch);
  if (row != NULL && row->only != NULL)
    snprintf(target, AP_TARGET_MAX, "%s", row->only);
  else
    snprintf(target, AP_TARGET_MAX, "sm_%d", arch);
}

/** The target that a stem is for where none is named: the present device's, else its own. */
static void default_target(attnpress_handle *handle, const ap_variant *variant,
                           char target[AP_TARGET_MAX]) {
  const char *name = ap_target_for(variant, present_capability(handle));
  if (name != NULL)
    snprintf(target, AP_TARGET_MAX, "%s", name);
  else
    own_target(variant, target);
}

attnpress_status attnpress_compile(attnpress_handle *handle, const char *stem, const char *target,
                                   attnpress_info *info) {
  RETURN_IF(handle == NULL, ATTNPRESS_INVALID_ARGUMENT, "handle is NULL");
  FORWARD_IF(ap_check_process(handle));
  if (info != NULL)
    FORWARD_IF(ap_check_info(info));
  ap_variant variant;
  ap_request request;
  char name[AP_TARGET_MAX];
  FORWARD_IF(ap_variant_parse(stem, &variant));
  RETURN_IF(
      ap_takes_snippet(&variant), ATTNPRESS_NOT_SUPPORTED,
      "%s is compiled with a snippet's text; make a plan of a call with such a text and prepare it",
      stem);
  if (target == NULL)
    default_target(handle, &variant, name);
  FORWARD_IF(ap_request_init(&request, &variant, target != NULL ? target : name));
  FORWARD_IF(ap_check_target(&variant, &request.tile, request.target));
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

attnpress_status ap_request_of_stem(ap_request *request, const char *stem, const char *target) {
  ap_variant variant;
  char name[AP_TARGET_MAX];
  FORWARD_IF(ap_variant_parse(stem, &variant));
  own_target(&variant, name);
  FORWARD_IF(ap_request_init(request, &variant, target != NULL ? target : name));
  return ap_check_target(&variant, &request->tile, request->target);
}

attnpress_status attnpress_render_source(const char *stem, const char *target, char **source) {
  RETURN_IF(source == NULL, ATTNPRESS_INVALID_ARGUMENT, "source is NULL");
  *source = NULL;
  ap_request request;
  size_t size;
  FORWARD_IF(ap_request_of_stem(&request, stem, target));
  return ap_render(&request.variant, &request.tile, NULL, source, &size);
}

void attnpress_free_source(char *source) {
  free(source);
}
