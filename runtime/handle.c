/* Making and freeing handles, and what a handle opens once: the driver and NVRTC. */
#define _POSIX_C_SOURCE 200809L
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options --------------------------------------------------------------------------------- */

static attnpress_status check_path(const char *path, const char *name) {
  RETURN_IF(path != NULL && *path == '\0', ATTNPRESS_INVALID_ARGUMENT,
            "options.%s is an empty text; NULL means the default", name);
  RETURN_IF(path != NULL && strnlen(path, AP_PATH_MAX) >= AP_PATH_MAX, ATTNPRESS_INVALID_ARGUMENT,
            "options.%s is longer than %d bytes", name, AP_PATH_MAX - 1);
  return ATTNPRESS_OK;
}

static attnpress_status validate_options(const attnpress_options *o) {
  RETURN_IF(o->backend < ATTNPRESS_CUDA || o->backend > ATTNPRESS_COMPILE_ONLY,
            ATTNPRESS_INVALID_ARGUMENT,
            "options.backend is %d; it must be ATTNPRESS_CUDA (0), ATTNPRESS_CPU (1) or "
            "ATTNPRESS_COMPILE_ONLY (2)",
            (int)o->backend);
  RETURN_IF(o->jit_off != 0 && o->jit_off != 1, ATTNPRESS_INVALID_ARGUMENT,
            "options.jit_off is %d; it must be 0 or 1", (int)o->jit_off);
  RETURN_IF(o->cache_off != 0 && o->cache_off != 1, ATTNPRESS_INVALID_ARGUMENT,
            "options.cache_off is %d; it must be 0 or 1", (int)o->cache_off);
  RETURN_IF(o->num_threads < 0 || o->num_threads > AP_THREADS_MAX, ATTNPRESS_INVALID_ARGUMENT,
            "options.num_threads is %d; it must be 0 to %d", (int)o->num_threads, AP_THREADS_MAX);
  RETURN_IF(o->arch_max != 0 && o->arch_max != 80 && o->arch_max != 86 && o->arch_max != 90,
            ATTNPRESS_INVALID_ARGUMENT,
            "options.arch_max is %d; it must be 80, 86, 90 or 0 for no limit", (int)o->arch_max);
  RETURN_IF(o->reserved != 0, ATTNPRESS_INVALID_ARGUMENT, "options.reserved is %d; it must be 0",
            (int)o->reserved);
  FORWARD_IF(check_path(o->nvrtc_path, "nvrtc_path"));
  FORWARD_IF(check_path(o->cache_dir, "cache_dir"));
  for (size_t i = 0; o->read_only_dirs != NULL && o->read_only_dirs[i] != NULL; ++i)
    FORWARD_IF(check_path(o->read_only_dirs[i], "read_only_dirs"));
  return ATTNPRESS_OK;
}

/* ---- Making and freeing ----------------------------------------------------------------------- */

static attnpress_status open_parts(attnpress_handle *handle, const attnpress_options *options) {
  handle->backend = options->backend;
  handle->jit_off = options->jit_off;
  handle->num_threads = options->num_threads;
  handle->arch_max = options->arch_max;
  handle->log = (ap_log){options->log, options->log_user};
  if (options->nvrtc_path != NULL) {
    handle->nvrtc_path = strdup(options->nvrtc_path);
    RETURN_IF(handle->nvrtc_path == NULL, ATTNPRESS_OUT_OF_MEMORY,
              "host memory ran out for a handle");
  }
  FORWARD_IF(ap_cache_init(&handle->cache, options->cache_dir, options->cache_off,
                           options->read_only_dirs, options->cache_max_bytes, &handle->log));
  return options->backend == ATTNPRESS_CUDA ? ap_driver_open(&handle->driver) : ATTNPRESS_OK;
}

attnpress_status attnpress_create(attnpress_handle **handle, const attnpress_options *options) {
  RETURN_IF(handle == NULL, ATTNPRESS_INVALID_ARGUMENT, "handle is NULL");
  *handle = NULL;
  attnpress_options known = ATTNPRESS_OPTIONS_INIT;
  if (options != NULL)
    FORWARD_IF(ap_copy_struct(options, &known, sizeof known, AP_OPTIONS_FIRST_BYTES, "options"));
  FORWARD_IF(validate_options(&known));
  attnpress_handle *fresh = calloc(1, sizeof *fresh);
  RETURN_IF(fresh == NULL, ATTNPRESS_OUT_OF_MEMORY, "host memory ran out for a handle");
  pthread_mutex_init(&fresh->lock, NULL);
  pthread_mutex_init(&fresh->nvrtc_lock, NULL);
  pthread_cond_init(&fresh->loaded, NULL);
  atomic_init(&fresh->contexts, NULL);
  const attnpress_status status = open_parts(fresh, &known);
  if (status == ATTNPRESS_OK)
    *handle = fresh;
  else
    attnpress_destroy(fresh);
  return status;
}

void attnpress_destroy(attnpress_handle *handle) {
  if (handle == NULL)
    return;
  ap_kernels_free(handle);
  if (handle->nvrtc_state == AP_NVRTC_OPEN)
    ap_nvrtc_close(&handle->nvrtc);
  ap_driver_close(&handle->driver);
  ap_cache_free(&handle->cache);
  pthread_cond_destroy(&handle->loaded);
  pthread_mutex_destroy(&handle->nvrtc_lock);
  pthread_mutex_destroy(&handle->lock);
  free(handle->nvrtc_path);
  free(handle);
}

attnpress_status ap_handle_nvrtc(attnpress_handle *handle, ap_nvrtc **nvrtc) {
  attnpress_status status = ATTNPRESS_OK;
  pthread_mutex_lock(&handle->nvrtc_lock);
  if (handle->nvrtc_state == AP_NVRTC_UNTRIED) {
    status = ap_nvrtc_open(&handle->nvrtc, handle->nvrtc_path, handle->driver.version);
    handle->nvrtc_state = status == ATTNPRESS_OK ? AP_NVRTC_OPEN : AP_NVRTC_FAILED;
    handle->nvrtc_failure = status;
    snprintf(handle->nvrtc_sentence, sizeof handle->nvrtc_sentence, "%s", attnpress_last_error());
  } else if (handle->nvrtc_state == AP_NVRTC_FAILED) {
    status = ap_fail(handle->nvrtc_failure, "%s", handle->nvrtc_sentence);
  }
  pthread_mutex_unlock(&handle->nvrtc_lock);
  *nvrtc = &handle->nvrtc;
  return status;
}

attnpress_status ap_device_read(const ap_driver *driver, CUdevice ordinal, ap_device *device) {
  int major = 0, minor = 0;
  const struct {
    int *value;
    int attribute;
  } wanted[] = {
      {&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
      {&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
      {&device->sm_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
      {&device->threads_per_sm, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
      {&device->smem_per_sm_bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
      {&device->smem_per_block_bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; ++i) {
    const CUresult result =
        driver->device_get_attribute(wanted[i].value, wanted[i].attribute, ordinal);
    if (result != CUDA_SUCCESS)
      return ap_driver_fail(driver, result, "cuDeviceGetAttribute");
  }
  device->ordinal = ordinal;
  device->capability = 10 * major + minor;
  device->tma = driver->tensor_map_encode_tiled != NULL;
  device->arch_max = 0;
  return ap_check_capability(device->capability);
}
