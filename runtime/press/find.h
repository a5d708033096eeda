/* Where a cubin comes from. */
#pragma once
#include "cache/cache.h"
#include "core/log.h"
#include "press/jit.h"
#include "press/nvrtc.h"

/** What finding a cubin takes. */
typedef struct ap_finder {
  ap_cache cache;
  ap_compiler compiler;
  int jit_off; /* 1: nothing is compiled */
  ap_log *log;
} ap_finder;

/** All that decides what a cubin is. */
typedef struct ap_key_parts {
  const char *schema;
  const char *source;
  size_t source_size;
  const char *headers_digest; /* of the device headers */
  const char *target;
  const char *const *options; /* NVRTC's, any number */
  size_t option_count;
} ap_key_parts;
ap_key_parts ap_cubin_key_parts(const char *source, size_t size, const char *target);
void ap_key_of_parts(const ap_key_parts *parts, ap_key *key);
/** The key of a cubin that this library would compile. */
void ap_cubin_key(const char *source, size_t size, const char *target, ap_key *key);

enum { /* layers that a cubin may come from, in the order in which they are asked */
       AP_LAYER_PREBUILT = 1,
       AP_LAYER_READ_ONLY = 2,
       AP_LAYER_USER = 4,
       AP_LAYER_JIT = 8,
       AP_LAYER_DISK = AP_LAYER_READ_ONLY | AP_LAYER_USER,
       AP_LAYER_ALL = 15
};

/** The cubin from the first of `layers` that has it; NO_KERNEL where none has. image->layer says
 * which one it was. A compiled cubin is published in the user's cache; *publish_status (may be
 * NULL) says whether that worked, since a call goes on without. */
attnpress_status ap_find_image(ap_finder *finder, const ap_request *request, int layers,
                               ap_image *image, attnpress_status *publish_status);
/** The same from all layers, for a caller that holds no lock and is in nobody's way: messages are
 * handed out before a compile begins and where finding fails. Those that remain are the caller's to
 * hand out, once the image is freed. */
attnpress_status ap_find_image_aloud(ap_finder *finder, const ap_request *request, ap_image *image,
                                     attnpress_status *publish_status);
/** The line that is said before a compile. */
void ap_log_compiling(ap_log *log, const ap_request *request);
/** Removes an entry that the driver refused from the user's cache. */
void ap_forget_image(const ap_finder *finder, const ap_request *request);
const char *ap_origin_name(int32_t origin); /* "prebuilt", "cache", "jit" ... */
