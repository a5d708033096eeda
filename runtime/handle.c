/* Making and freeing handles: the one file that composes the parts. */
#define _POSIX_C_SOURCE 200809L
#include "handle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/struct.h"
#include "environment.h"

#if !defined(__linux__) || UINTPTR_MAX != UINT64_MAX || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "attnpress is for Linux on 64-bit little-endian processors (attnpress.h, Platforms)"
#endif

static attnpress_status check_path(const char *path, const char *name) {
  RETURN_IF(path != NULL && *path == '\0', ATTNPRESS_INVALID_ARGUMENT,
            "options.%s is an empty text; NULL means the default", name);
  RETURN_IF(path != NULL && strnlen(path, AP_PATH_MAX) >= AP_PATH_MAX, ATTNPRESS_INVALID_ARGUMENT,
            "options.%s is longer than %d bytes", name, AP_PATH_MAX - 1);
  return ATTNPRESS_OK;
}

static attnpress_status check_options(const attnpress_options *o) {
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
  RETURN_IF(o->check != 0 && o->check != 1, ATTNPRESS_INVALID_ARGUMENT,
            "options.check is %d; it must be 0 or 1", (int)o->check);
  FORWARD_IF(check_path(o->nvrtc_path, "nvrtc_path"));
  FORWARD_IF(check_path(o->cache_dir, "cache_dir"));
  for (size_t i = 0; o->read_only_dirs != NULL && o->read_only_dirs[i] != NULL; ++i)
    FORWARD_IF(check_path(o->read_only_dirs[i], "read_only_dirs"));
  return ATTNPRESS_OK;
}

static attnpress_status open_parts(attnpress_handle *handle, const attnpress_options *options) {
  handle->num_threads = options->num_threads;
  handle->arch_max = options->arch_max;
  handle->check = options->check;
  ap_finder *finder = &handle->finder;
  finder->jit_off = options->jit_off;
  finder->log = &handle->log;
  FORWARD_IF(ap_compiler_init(&finder->compiler, options->nvrtc_path));
  FORWARD_IF(ap_cache_init(&finder->cache, options->cache_dir, options->cache_off,
                           options->read_only_dirs, options->cache_max_bytes, &handle->log));
  if (options->backend == ATTNPRESS_CUDA)
    FORWARD_IF(ap_driver_open(&handle->driver));
  finder->compiler.driver_version = handle->driver.version;
  return ATTNPRESS_OK;
}

/** A handle with options that are checked. */
static attnpress_status make_handle(attnpress_handle **handle, const attnpress_options *options) {
  attnpress_handle *fresh = calloc(1, sizeof *fresh);
  RETURN_IF(fresh == NULL, ATTNPRESS_OUT_OF_MEMORY, "host memory ran out for a handle");
  pthread_mutex_init(&fresh->lock, NULL);
  pthread_cond_init(&fresh->loaded, NULL);
  atomic_init(&fresh->contexts, NULL);
  atomic_init(&fresh->snippets, NULL);
  fresh->process = getpid();
  fresh->backend = options->backend;
  ap_log_init(&fresh->log, options->log, options->log_user);
  const attnpress_status status = open_parts(fresh, options);
  if (status == ATTNPRESS_OK)
    *handle = fresh;
  else
    attnpress_destroy(fresh);
  return status;
}

attnpress_status attnpress_create(attnpress_handle **handle, const attnpress_options *options) {
  RETURN_IF(handle == NULL, ATTNPRESS_INVALID_ARGUMENT, "handle is NULL");
  *handle = NULL;
  attnpress_options known = ATTNPRESS_OPTIONS_INIT;
  if (options != NULL)
    FORWARD_IF(ap_copy_struct(options, &known, sizeof known, AP_OPTIONS_FIRST_BYTES, "options"));
  FORWARD_IF(check_options(&known));
  ap_environment environment;
  attnpress_status status = ap_environment_read(&known, &environment);
  if (status == ATTNPRESS_OK)
    status = check_options(&known); /* what a variable says is within the same bounds */
  if (status == ATTNPRESS_OK)
    status = make_handle(handle, &known);
  ap_environment_free(&environment);
  return status;
}

void attnpress_destroy(attnpress_handle *handle) {
  if (handle == NULL || ap_check_process(handle) != ATTNPRESS_OK)
    return;
  ap_log_deliver(&handle->log);
  ap_contexts_free(handle);
  ap_kernels_free(handle);
  ap_snippets_free(&handle->snippets);
  ap_compiler_free(&handle->finder.compiler);
  ap_cache_free(&handle->finder.cache);
  ap_driver_close(&handle->driver);
  ap_log_free(&handle->log);
  pthread_cond_destroy(&handle->loaded);
  pthread_mutex_destroy(&handle->lock);
  free(handle);
}
