/* The public record of a kernel. */
#include "press/info.h"

#include <stdio.h>

#include "core/error.h"
#include "core/struct.h"

attnpress_status ap_check_info(const attnpress_info *info) {
  attnpress_info known;
  return ap_copy_struct(info, &known, sizeof known, AP_INFO_FIRST_BYTES, "info");
}

void ap_request_describe(const ap_request *request, attnpress_info *info) {
  snprintf(info->stem, sizeof info->stem, "%s", request->stem);
  snprintf(info->tile, sizeof info->tile, "%s", request->tile_name);
  snprintf(info->target, sizeof info->target, "%s", request->target);
  info->threads = request->tile.threads;
  info->smem_bytes = request->tile.smem_bytes;
}

void ap_write_info(const attnpress_info *found, attnpress_info *info) {
  ap_write_struct(found, sizeof *found, info);
}
