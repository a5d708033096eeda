/* Kernels in memory. Two levels: a cubin is loaded once a handle (cuLibraryLoadData, which is for
 * all contexts), and made ready, or bound, once a context (context.c). A call that finds its kernel
 * bound takes no lock and allocates nothing. */
#define _POSIX_C_SOURCE 200809L
#include "cuda/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "handle.h"

/* ---- Loading --------------------------------------------------------------------------------- */

/** Results that speak of the image and not of the machine's state. */
static int is_refusal(CUresult result) {
  switch (result) {
  case CUDA_ERROR_INVALID_VALUE:
  case CUDA_ERROR_INVALID_IMAGE:
  case CUDA_ERROR_NO_BINARY_FOR_GPU:
  case CUDA_ERROR_INVALID_PTX:
  case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
  case CUDA_ERROR_INVALID_SOURCE:
  case CUDA_ERROR_NOT_FOUND:
    return 1;
  default:
    return 0;
  }
}

/** Loads an image; the context is current. With lazy loading the driver looks at it only when the
 * function is asked for, so that belongs to it. */
static CUresult load_image(const ap_driver *driver, const ap_image *image, ap_kernel *kernel) {
  CUfunction function;
  CUresult result =
      driver->library_load_data(&kernel->library, image->data, NULL, NULL, 0, NULL, NULL, 0);
  if (result != CUDA_SUCCESS) {
    kernel->library = NULL;
    return result;
  }
  result = driver->library_get_kernel(&kernel->kernel, kernel->library, kernel->request.stem);
  if (result == CUDA_SUCCESS)
    result = driver->kernel_get_function(&function, kernel->kernel);
  if (result != CUDA_SUCCESS) {
    driver->library_unload(kernel->library);
    kernel->library = NULL;
  }
  return result;
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/** How fetching a kernel ended. */
typedef enum fetch_end {
  FETCH_DONE,
  FETCH_FAILED,          /* trying again may help */
  FETCH_FAILED_FOR_GOOD, /* trying again would give the same failure */
  FETCH_TO_BE_COMPILED,  /* there is a line to be said before */
} fetch_end;

/** Finds the image, in what is left of the layers, or says that it must be compiled. */
static attnpress_status find_image(attnpress_handle *handle, ap_kernel *kernel, ap_image *image,
                                   fetch_end *end) {
  const int compiles = (kernel->layers & AP_LAYER_JIT) && !handle->finder.jit_off;
  const int layers = kernel->announced ? kernel->layers : kernel->layers & ~AP_LAYER_JIT;
  const attnpress_status status =
      ap_find_image(&handle->finder, &kernel->request, layers, image, NULL);
  *end = status == ATTNPRESS_OK               ? FETCH_DONE
         : status == ATTNPRESS_COMPILE_FAILED ? FETCH_FAILED_FOR_GOOD
                                              : FETCH_FAILED;
  if (status != ATTNPRESS_NO_KERNEL || !compiles || kernel->announced)
    return status;
  kernel->layers &= AP_LAYER_USER | AP_LAYER_JIT; /* the user's may be filled by another process */
  *end = FETCH_TO_BE_COMPILED;
  return ATTNPRESS_OK;
}

/** Finds the image and loads it: the work of the one thread that has made the kernel BUSY. */
static attnpress_status fetch(attnpress_handle *handle, ap_kernel *kernel, fetch_end *end) {
  const ap_request *request = &kernel->request;
  const double begin_ms = now_ms();
  for (;;) {
    ap_image image;
    FORWARD_IF(find_image(handle, kernel, &image, end));
    if (*end == FETCH_TO_BE_COMPILED)
      return ATTNPRESS_OK;
    const CUresult result = load_image(&handle->driver, &image, kernel);
    kernel->origin = image.origin;
    kernel->registers = image.registers;
    kernel->spill_bytes = image.spill_bytes;
    kernel->compile_ms = image.compile_ms;
    kernel->cubin_bytes = image.size;
    const int layer = image.layer;
    ap_image_free(&image);
    if (result == CUDA_SUCCESS) {
      ap_log_line(&handle->log, ATTNPRESS_LOG_INFO, "%s %s %s: %s, %.1f ms", request->stem,
                  request->tile_name, request->target, ap_origin_name(kernel->origin),
                  now_ms() - begin_ms);
      return ATTNPRESS_OK;
    }
    char what[AP_STEM_MAX + 64];
    snprintf(what, sizeof what, "loading %s for %s (%s)", request->stem, request->target,
             ap_origin_name(kernel->origin));
    const attnpress_status status = ap_driver_fail(&handle->driver, result, what);
    *end = is_refusal(result) ? FETCH_FAILED_FOR_GOOD : FETCH_FAILED;
    if (!is_refusal(result) || layer == AP_LAYER_JIT)
      return status;
    ap_log_line(&handle->log, ATTNPRESS_LOG_WARNING, "%s; looking further", attnpress_last_error());
    if (layer == AP_LAYER_USER)
      ap_forget_image(&handle->finder, request);
    kernel->layers &= ~layer;
  }
}

/** Fetching begins anew the next time. */
static void forget_progress(ap_kernel *kernel) {
  kernel->layers = AP_LAYER_ALL;
  kernel->announced = 0;
}

/** The kernel's record, made where it is missing; the caller holds the lock. NULL: memory ran out.
 */
static ap_kernel *find_kernel(attnpress_handle *handle, const ap_request *request, int make) {
  ap_kernel *k = handle->kernels;
  while (k != NULL && (strcmp(k->request.stem, request->stem) != 0 ||
                       strcmp(k->request.target, request->target) != 0 ||
                       k->request.snippet != request->snippet))
    k = k->next;
  if (k == NULL && make) {
    k = calloc(1, sizeof *k);
    if (k != NULL) {
      k->request = *request;
      k->spill_bytes = -1;
      forget_progress(k);
      k->next = handle->kernels;
      handle->kernels = k;
    }
  }
  return k;
}

int ap_kernel_loaded(attnpress_handle *handle, const ap_request *request, ap_kernel *copy) {
  pthread_mutex_lock(&handle->lock);
  const ap_kernel *kernel = find_kernel(handle, request, 0);
  const int loaded = kernel != NULL && kernel->state == AP_KERNEL_READY;
  if (loaded)
    *copy = *kernel;
  pthread_mutex_unlock(&handle->lock);
  return loaded;
}

/** What becomes of a BUSY kernel; the caller holds the lock. */
static void end_fetch(attnpress_handle *handle, ap_kernel *kernel, attnpress_status status,
                      fetch_end end) {
  static const ap_kernel_state states[] = {
      [FETCH_DONE] = AP_KERNEL_READY,
      [FETCH_FAILED] = AP_KERNEL_EMPTY,
      [FETCH_FAILED_FOR_GOOD] = AP_KERNEL_FAILED,
      [FETCH_TO_BE_COMPILED] = AP_KERNEL_EMPTY,
  };
  kernel->state = states[end];
  if (end == FETCH_TO_BE_COMPILED)
    kernel->announced = 1;
  if (end == FETCH_FAILED)
    forget_progress(kernel);
  if (status != ATTNPRESS_OK) {
    kernel->failure = status;
    snprintf(kernel->sentence, sizeof kernel->sentence, "%s", attnpress_last_error());
  }
  pthread_cond_broadcast(&handle->loaded);
}

/** A loaded kernel: one thread fetches it, the others wait for that one. *announce 1: it must be
 * compiled, and this thread says so before anybody begins; nobody is kept waiting meanwhile. */
static attnpress_status load_kernel(attnpress_handle *handle, const ap_request *request,
                                    ap_kernel **loaded, int *announce) {
  pthread_mutex_lock(&handle->lock);
  ap_kernel *kernel = find_kernel(handle, request, 1);
  if (kernel == NULL) {
    pthread_mutex_unlock(&handle->lock);
    return ap_fail(ATTNPRESS_OUT_OF_MEMORY, "host memory ran out for the record of a kernel");
  }
  while (kernel->state == AP_KERNEL_BUSY)
    pthread_cond_wait(&handle->loaded, &handle->lock);
  attnpress_status status = ATTNPRESS_OK;
  if (kernel->state == AP_KERNEL_FAILED)
    status = ap_fail(kernel->failure, "%s", kernel->sentence);
  if (kernel->state == AP_KERNEL_EMPTY) {
    kernel->state = AP_KERNEL_BUSY;
    pthread_mutex_unlock(&handle->lock);
    fetch_end end = FETCH_DONE;
    status = fetch(handle, kernel, &end);
    pthread_mutex_lock(&handle->lock);
    end_fetch(handle, kernel, status, end);
    *announce = end == FETCH_TO_BE_COMPILED;
  }
  pthread_mutex_unlock(&handle->lock);
  *loaded = kernel;
  return status;
}

/** What bound kernels are found by: a variant and, in bits that no variant has, a snippet. */
static uint64_t bound_key(uint64_t variant_key, const ap_snippet *snippet) {
  enum { SNIPPET_BIT = 51 };
  _Static_assert(AP_SNIPPETS_MAX < 1 << (64 - SNIPPET_BIT), "numbers of snippets");
  return snippet == NULL ? variant_key : variant_key ^ (uint64_t)snippet->number << SNIPPET_BIT;
}

/** Makes the function of a loaded kernel ready in a context, which is current. */
static attnpress_status bind(attnpress_handle *handle, ap_context *context, ap_kernel *kernel,
                             const ap_bound **bound) {
  const ap_driver *driver = &handle->driver;
  int smem_bytes = kernel->request.tile.smem_bytes;
  CUfunction function = NULL;
  int static_bytes = 0;
  CUresult result = driver->kernel_get_function(&function, kernel->kernel);
  /* Asking for an attribute makes a lazy driver load the code now, and not at the first launch. */
  if (result == CUDA_SUCCESS)
    result =
        driver->func_get_attribute(&static_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
  const int alone_smem_bytes = ap_alone_smem_bytes(&context->device) - static_bytes;
  if (smem_bytes < alone_smem_bytes)
    smem_bytes = alone_smem_bytes; /* which a launch may ask for */
  if (result == CUDA_SUCCESS)
    result = driver->func_set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                        smem_bytes);
  if (result != CUDA_SUCCESS) {
    char what[AP_STEM_MAX + 96];
    snprintf(what, sizeof what, "preparing %s with %d bytes of shared memory", kernel->request.stem,
             smem_bytes);
    return ap_driver_fail(driver, result, what);
  }
  ap_bound *fresh = malloc(sizeof *fresh);
  RETURN_IF(fresh == NULL, ATTNPRESS_OUT_OF_MEMORY, "host memory ran out for a kernel");
  *fresh = (ap_bound){bound_key(ap_variant_key(&kernel->request.variant), kernel->request.snippet),
                      function, kernel};

  pthread_mutex_lock(&handle->lock);
  const ap_bound *known = ap_bound_find(context, fresh->variant_key);
  const int inserted = known == NULL && ap_bound_insert(context, fresh);
  pthread_mutex_unlock(&handle->lock);
  if (!inserted)
    free(fresh);
  RETURN_IF(!inserted && known == NULL, ATTNPRESS_OUT_OF_MEMORY,
            "host memory ran out for a context's kernels");
  *bound = inserted ? fresh : known;
  return ATTNPRESS_OK;
}

static attnpress_status refuse_capture(attnpress_handle *handle, const ap_request *request,
                                       CUstream stream) {
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = handle->driver.stream_is_capturing(stream, &status);
  RETURN_IF(result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
                (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE),
            ATTNPRESS_CAPTURING,
            "%s for %s is not loaded and the stream is being captured; call "
            "attnpress_plan_prepare() with a plan of this call before the capture",
            request->stem, request->target);
  if (result != CUDA_SUCCESS)
    return ap_driver_fail(&handle->driver, result, "cuStreamIsCapturing");
  return ATTNPRESS_OK;
}

/** The slow part of ap_kernel_get; the context is current. */
static attnpress_status get_missing(attnpress_handle *handle, ap_context *context,
                                    const ap_request *request, CUstream stream, int no_stream,
                                    const ap_bound **bound, int *announce) {
  if (!no_stream)
    FORWARD_IF(refuse_capture(handle, request, stream));
  /* A capture of another thread's in global mode forbids this thread to load, unless it says that
   * it knows what it does. */
  int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  const CUresult result = handle->driver.thread_exchange_capture_mode(&mode);
  ap_kernel *kernel = NULL;
  attnpress_status status = load_kernel(handle, request, &kernel, announce);
  if (status == ATTNPRESS_OK && !*announce)
    status = bind(handle, context, kernel, bound);
  if (result == CUDA_SUCCESS)
    handle->driver.thread_exchange_capture_mode(&mode);
  return status;
}

attnpress_status ap_kernel_get(attnpress_handle *handle, ap_context *context,
                               const ap_variant *variant, uint64_t variant_key,
                               const ap_snippet *snippet, const char *target, CUstream stream,
                               int no_stream, const ap_bound **bound) {
  *bound = ap_bound_find(context, bound_key(variant_key, snippet));
  if (*bound != NULL)
    return ATTNPRESS_OK;
  ap_request request;
  FORWARD_IF(ap_check_process(handle));
  FORWARD_IF(ap_request_init(&request, variant, target));
  request.snippet = snippet;
  attnpress_status status;
  int announce;
  do { /* twice where it must be compiled */
    int pushed;
    announce = 0;
    FORWARD_IF(ap_enter(handle, context->context, &pushed));
    status = get_missing(handle, context, &request, stream, no_stream, bound, &announce);
    ap_leave(handle, pushed);
    if (announce)
      ap_log_compiling(&handle->log, &request);
    ap_log_deliver(&handle->log); /* the function may call the library, or not return */
  } while (announce);
  return status;
}

void ap_kernels_free(attnpress_handle *handle) {
  while (handle->kernels != NULL) {
    ap_kernel *next = handle->kernels->next;
    if (handle->kernels->library != NULL)
      handle->driver.library_unload(handle->kernels->library);
    free(handle->kernels);
    handle->kernels = next;
  }
}
