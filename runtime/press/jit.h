/* One cubin: what is asked for, what comes back, and compiling it. */
#pragma once
#include "cache/cache.h"
#include "press/nvrtc.h"
#include "press/registry.h"

/** A cubin in host memory. */
typedef struct ap_image {
  const unsigned char *data;
  size_t size;
  unsigned char *owned; /* the same, to be freed */
  int32_t origin;       /* ATTNPRESS_ORIGIN_... */
  int32_t layer;        /* AP_LAYER_... */
  int32_t registers, spill_bytes;
  double compile_ms;              /* time in NVRTC, now; 0: nothing was compiled */
  char compiler[AP_COMPILER_MAX]; /* "NVRTC 13.0" */
} ap_image;
void ap_image_free(ap_image *image);

/** What is asked of the layers: one cubin. */
typedef struct ap_request {
  ap_variant variant;
  ap_tile tile;
  char stem[AP_STEM_MAX], tile_name[AP_TILE_NAME_MAX], target[AP_TARGET_MAX];
  const ap_snippet *snippet; /* what its source ends with; NULL: none. The handle's. */
} ap_request;
attnpress_status ap_request_init(ap_request *request, const ap_variant *variant,
                                 const char *target);

/** Of a stem's words. target NULL: the one that the stem's arch is named after. */
attnpress_status ap_request_of_stem(ap_request *request, const char *stem, const char *target);

/** The options that decide what NVRTC makes, except the target; the rest is in jit.c. */
const char *const *ap_jit_options(size_t *count);

attnpress_status ap_jit_compile(ap_nvrtc *nvrtc, ap_log *log, const ap_request *request,
                                const char *source, ap_image *image);
/** The same kernel for people: the cubin has a table of lines, and its PTX is *ptx, to be freed. Neither
 * is what is linked in or cached. */
attnpress_status ap_jit_compile_with_lines(ap_nvrtc *nvrtc, ap_log *log, const ap_request *request,
                                           const char *source, ap_image *image, char **ptx);
