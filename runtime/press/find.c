/* Finds a cubin: linked in, in a read-only layer, in the user's cache, or by compiling it. Works
 * without a driver and loads nothing. */
#include "press/find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"

enum { LOCK_WAIT_MS = 20000 }; /* several times what the largest kernel takes */

const char *ap_origin_name(int32_t origin) {
  switch (origin) {
  case ATTNPRESS_ORIGIN_PREBUILT:
    return "prebuilt";
  case ATTNPRESS_ORIGIN_DISK:
    return "cache";
  case ATTNPRESS_ORIGIN_JIT:
    return "jit";
  case ATTNPRESS_ORIGIN_MEMORY:
    return "memory";
  case ATTNPRESS_ORIGIN_CPU:
    return "cpu";
  default:
    return "none";
  }
}

attnpress_status ap_request_init(ap_request *request, const ap_variant *variant,
                                 const char *target) {
  request->variant = *variant;
  request->snippet = NULL;
  FORWARD_IF(ap_variant_print(variant, request->stem));
  FORWARD_IF(ap_find_tile(variant, target, &request->tile));
  ap_tile_print(variant, &request->tile, request->tile_name);
  snprintf(request->target, sizeof request->target, "%s", target);
  return ATTNPRESS_OK;
}

ap_key_parts ap_cubin_key_parts(const char *source, size_t size, const char *target) {
  ap_key_parts parts = {.schema = "attnpress cubin 1",
                        .source = source,
                        .source_size = size,
                        .headers_digest = ap_device_headers_digest,
                        .target = target};
  parts.options = ap_jit_options(&parts.option_count);
  return parts;
}

void ap_key_of_parts(const ap_key_parts *parts, ap_key *key) {
  ap_hasher hasher;
  ap_hash_begin(&hasher);
  ap_hash_part(&hasher, parts->schema, strlen(parts->schema));
  ap_hash_part(&hasher, parts->source, parts->source_size);
  ap_hash_part(&hasher, parts->headers_digest, strlen(parts->headers_digest));
  ap_hash_part(&hasher, parts->target, strlen(parts->target));
  for (size_t i = 0; i < parts->option_count; ++i)
    ap_hash_part(&hasher, parts->options[i], strlen(parts->options[i]));
  ap_hash_end(&hasher, key->bytes);
}

void ap_cubin_key(const char *source, size_t size, const char *target, ap_key *key) {
  const ap_key_parts parts = ap_cubin_key_parts(source, size, target);
  ap_key_of_parts(&parts, key);
}

/** The linked cubins; image->data stays NULL where the request is not among them. */
static attnpress_status find_prebuilt(const ap_request *request, ap_image *image) {
  const ap_cubin *row = ap_find_prebuilt(request->stem, request->tile_name, request->target);
  if (row == NULL)
    return ATTNPRESS_OK;
  unsigned char *cubin = malloc(row->size);
  if (cubin == NULL || !ap_unpack_prebuilt(row, cubin)) {
    free(cubin);
    return ap_fail(ATTNPRESS_OUT_OF_MEMORY, "host memory ran out while %s, %zu bytes, was unpacked",
                   request->stem, row->size);
  }
  *image = (ap_image){.data = cubin,
                      .size = row->size,
                      .owned = cubin,
                      .origin = ATTNPRESS_ORIGIN_PREBUILT,
                      .layer = AP_LAYER_PREBUILT,
                      .registers = row->registers,
                      .spill_bytes = row->spill_bytes};
  return ATTNPRESS_OK;
}

/** The disk layers; image->data stays NULL where none has the entry. */
static attnpress_status find_on_disk(const ap_finder *finder, const ap_key *key, int layers,
                                     ap_image *image) {
  ap_entry_info info;
  unsigned char *cubin = NULL;
  int layer = AP_LAYER_READ_ONLY;
  if (layers & AP_LAYER_READ_ONLY)
    FORWARD_IF(ap_cache_lookup_read_only(&finder->cache, key, &cubin, &info));
  if (cubin == NULL && (layers & AP_LAYER_USER)) {
    FORWARD_IF(ap_cache_lookup_user(&finder->cache, key, &cubin, &info));
    layer = AP_LAYER_USER;
  }
  if (cubin == NULL)
    return ATTNPRESS_OK;
  *image = (ap_image){.data = cubin,
                      .size = info.cubin_bytes,
                      .owned = cubin,
                      .origin = ATTNPRESS_ORIGIN_DISK,
                      .layer = layer,
                      .registers = info.registers,
                      .spill_bytes = info.spill_bytes};
  snprintf(image->compiler, sizeof image->compiler, "%s", info.compiler);
  return ATTNPRESS_OK;
}

static attnpress_status publish(const ap_finder *finder, const ap_request *request,
                                const ap_key *key, const ap_image *image) {
  ap_entry_info info;
  memset(&info, 0, sizeof info);
  snprintf(info.stem, sizeof info.stem, "%s", request->stem);
  snprintf(info.tile, sizeof info.tile, "%s", request->tile_name);
  snprintf(info.target, sizeof info.target, "%s", request->target);
  snprintf(info.compiler, sizeof info.compiler, "%s", image->compiler);
  info.driver_version = finder->compiler.driver_version;
  info.registers = image->registers;
  info.spill_bytes = image->spill_bytes;
  info.compile_ms = image->compile_ms;
  info.cubin_bytes = image->size;
  return ap_cache_publish(&finder->cache, key, image->data, &info);
}

/** Compiles and publishes, unless another process has just done so. */
static attnpress_status find_by_compiling(ap_finder *finder, const ap_request *request,
                                          const char *source, const ap_key *key, int layers,
                                          ap_image *image, attnpress_status *publish_status) {
  ap_nvrtc *nvrtc;
  FORWARD_IF(ap_compiler_get(&finder->compiler, &nvrtc));
  const int cached = finder->cache.user_dir != NULL;
  const int lock = cached ? ap_cache_lock(&finder->cache, key, LOCK_WAIT_MS, NULL) : -1;
  attnpress_status status = ATTNPRESS_OK;
  if (lock >= 0)
    status = find_on_disk(finder, key, layers & AP_LAYER_USER, image);
  if (status == ATTNPRESS_OK && image->data == NULL) {
    status = ap_jit_compile(nvrtc, finder->log, request, source, image);
    image->layer = AP_LAYER_JIT;
    if (status == ATTNPRESS_OK && cached) {
      const attnpress_status published = publish(finder, request, key, image);
      if (published != ATTNPRESS_OK)
        ap_log_line(finder->log, ATTNPRESS_LOG_WARNING, "not cached: %s", attnpress_last_error());
      if (publish_status != NULL)
        *publish_status = published;
    }
  }
  ap_cache_unlock(lock);
  return status;
}

attnpress_status ap_find_image(ap_finder *finder, const ap_request *request, int layers,
                               ap_image *image, attnpress_status *publish_status) {
  memset(image, 0, sizeof *image);
  if (publish_status != NULL)
    *publish_status = ATTNPRESS_OK;
  attnpress_status status = ATTNPRESS_OK;
  if (layers & AP_LAYER_PREBUILT)
    FORWARD_IF(find_prebuilt(request, image));
  if (image->data == NULL && (layers & (AP_LAYER_DISK | AP_LAYER_JIT))) {
    char *source;
    size_t size;
    ap_key key;
    FORWARD_IF(ap_render(&request->variant, &request->tile, request->snippet, &source, &size));
    ap_cubin_key(source, size, request->target, &key);
    status = find_on_disk(finder, &key, layers, image);
    if (status == ATTNPRESS_OK && image->data == NULL && (layers & AP_LAYER_JIT) &&
        !finder->jit_off)
      status = find_by_compiling(finder, request, source, &key, layers, image, publish_status);
    free(source);
  }
  FORWARD_IF(status);
  RETURN_IF(
      image->data == NULL && request->snippet != NULL, ATTNPRESS_NO_KERNEL,
      "%s for %s with the snippet \"%s\" is not cached, and compiling is switched off "
      "(jit_off); switch it on, or fill the cache where it is on, by attnpress_plan_prepare() or "
      "by attnpress compile --mod",
      request->stem, request->target, request->snippet->name);
  RETURN_IF(image->data == NULL, ATTNPRESS_NO_KERNEL,
            "%s for %s is neither linked in nor cached, and compiling is switched off (jit_off); "
            "switch it on, or fill the cache with: attnpress compile %s --target %s",
            request->stem, request->target, request->stem, request->target);
  return ATTNPRESS_OK;
}

void ap_log_compiling(ap_log *log, const ap_request *request) {
  ap_log_line(log, ATTNPRESS_LOG_INFO, "%s %s %s: compiling (usually 0.1 to 1.3 s)", request->stem,
              request->tile_name, request->target);
}

attnpress_status ap_find_image_aloud(ap_finder *finder, const ap_request *request, ap_image *image,
                                     attnpress_status *publish_status) {
  attnpress_status status =
      ap_find_image(finder, request, AP_LAYER_ALL & ~AP_LAYER_JIT, image, publish_status);
  if (status == ATTNPRESS_NO_KERNEL && !finder->jit_off) {
    ap_log_compiling(finder->log, request);
    ap_log_deliver(finder->log);
    status = ap_find_image(finder, request, AP_LAYER_USER | AP_LAYER_JIT, image, publish_status);
  }
  if (status != ATTNPRESS_OK)
    ap_log_deliver(finder->log);
  return status;
}

void ap_forget_image(const ap_finder *finder, const ap_request *request) {
  char *source;
  size_t size;
  ap_key key;
  if (ap_render(&request->variant, &request->tile, request->snippet, &source, &size) !=
      ATTNPRESS_OK)
    return;
  ap_cubin_key(source, size, request->target, &key);
  ap_cache_remove(&finder->cache, &key);
  free(source);
}
