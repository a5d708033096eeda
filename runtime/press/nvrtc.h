/* NVRTC, found and opened at run time. */
#pragma once
#include <pthread.h>

#include "attnpress/attnpress.h"
#include "core/error.h"
#include "cuda/cuda_api.h"

enum { AP_PATH_MAX = 4096 };

typedef struct ap_nvrtc {
  void *library, *builtins;
  int major, minor;
  char path[AP_PATH_MAX]; /* the file that was opened */
  int refused; /* where none was: 1 because of what was found, which would be found again */
#define AP_POINTER(name, symbol, parameters) nvrtcResult(*name) parameters;
  AP_NVRTC_FUNCTIONS(AP_POINTER)
#undef AP_POINTER
} ap_nvrtc;

/** Opens NVRTC: `path` (or NULL), then as attnpress_options.nvrtc_path says. driver_version 0: no
 * driver, every version is welcome. */
attnpress_status ap_nvrtc_open(ap_nvrtc *nvrtc, const char *path, int driver_version);
void ap_nvrtc_close(ap_nvrtc *nvrtc);

/* ---- The one of a handle --------------------------------------------------------------------- */

typedef enum ap_nvrtc_state {
  AP_NVRTC_UNTRIED, /* or nothing could be opened, which costs little and may pass */
  AP_NVRTC_OPEN,
  AP_NVRTC_FAILED, /* what there is, is of no use, and opening it takes long: the sentence is kept
                    */
} ap_nvrtc_state;

/** A place for NVRTC that is filled when something is first compiled. */
typedef struct ap_compiler {
  char *path;           /* owned: the option; NULL: search */
  int driver_version;   /* 0: there is no driver */
  pthread_mutex_t lock; /* held while NVRTC is searched for, not while it compiles */
  ap_nvrtc_state state;
  ap_nvrtc nvrtc;
  attnpress_status failure;
  char sentence[AP_SENTENCE_MAX];
} ap_compiler;

/** Opens nothing. ap_compiler_free() frees it, also where this failed. path: NULL, or copied. */
attnpress_status ap_compiler_init(ap_compiler *compiler, const char *path);
void ap_compiler_free(ap_compiler *compiler);
/** NVRTC, searched for until it is found; *nvrtc stays the compiler's. */
attnpress_status ap_compiler_get(ap_compiler *compiler, ap_nvrtc **nvrtc);
