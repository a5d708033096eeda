/* The options of a handle that stand in the environment. */
#pragma once
#include "attnpress/attnpress.h"

/** What ATTNPRESS_CACHE_LAYERS was divided into; all NULL: nothing. */
typedef struct ap_environment {
  char *text;
  const char **layers;
} ap_environment;

/** Gives each option that is at its default what its variable says: ATTNPRESS_JIT_OFF,
 * ATTNPRESS_CACHE_OFF, ATTNPRESS_NUM_THREADS, ATTNPRESS_CACHE_LAYERS, ATTNPRESS_CACHE_MAX_BYTES,
 * ATTNPRESS_ARCH_MAX, ATTNPRESS_LOG. Those of paths (ATTNPRESS_CACHE_DIR, ATTNPRESS_NVRTC,
 * ATTNPRESS_LIBCUDA) are read by the parts that open them. An empty variable counts as none, and a
 * program with more rights than its caller (set-user-ID) reads none. INVALID_ARGUMENT, naming the
 * variable, its value and what is allowed. To be freed whatever the status is. */
attnpress_status ap_environment_read(attnpress_options *options, ap_environment *environment);
void ap_environment_free(ap_environment *environment);
