/* Kernels in memory: found, loaded once a handle, made ready once a context. */
#pragma once
#include "cuda/context.h"
#include "press/find.h"

typedef enum ap_kernel_state {
  AP_KERNEL_EMPTY,  /* nobody has it, nobody fetches it */
  AP_KERNEL_BUSY,   /* one thread fetches it, others wait */
  AP_KERNEL_READY,  /* loaded */
  AP_KERNEL_FAILED, /* fetching it failed for good: status and sentence are kept */
} ap_kernel_state;

/** A cubin that is, or is to be, loaded; one for each variant and target. Guarded by handle->lock
 * except the fields of the thread that has made it BUSY; never freed before the handle. */
struct ap_kernel {
  struct ap_kernel *next;
  ap_request request;
  ap_kernel_state state;
  int layers;    /* AP_LAYER_... that are still to be asked */
  int announced; /* 1: none of those before the compile has it, and the line before it is said */
  CUlibrary library;
  CUkernel kernel;
  int32_t origin, registers, spill_bytes;
  double compile_ms;
  size_t cubin_bytes;
  attnpress_status failure;
  char sentence[AP_SENTENCE_MAX];
};

/** The kernel of a variant and a snippet (NULL: none) in a context, loaded and compiled where needed.
 * `variant_key`: the variant's ap_variant_key(), which a warm call has from its plan. `stream` is
 * asked whether it is being captured before anything is loaded; no_stream: 1 where the call has
 * none. */
attnpress_status ap_kernel_get(attnpress_handle *handle, ap_context *context,
                               const ap_variant *variant, uint64_t variant_key,
                               const ap_snippet *snippet, const char *target, CUstream stream,
                               int no_stream, const ap_bound **bound);
/** The loaded kernel of (variant, target), with a copy of what is known of it; 0: not loaded. */
int ap_kernel_loaded(attnpress_handle *handle, const ap_request *request, ap_kernel *copy);
void ap_kernels_free(attnpress_handle *handle);
