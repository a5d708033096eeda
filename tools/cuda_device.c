#define _GNU_SOURCE /* secure_getenv */
#include "cuda_device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *cuda_device_error(const cuda_device *d, CUresult result) {
  const char *name = NULL;
  if (d->get_error_name(result, &name) != CUDA_SUCCESS || !name)
    return "an unknown CUDA error";
  return name;
}

static int fail(cuda_device *d, const char *what, CUresult result, char *why, size_t why_bytes) {
  snprintf(why, why_bytes, "%s: %s", what, cuda_device_error(d, result));
  cuda_device_close(d);
  return -1;
}

static int open_library(cuda_device *d, char *why, size_t why_bytes) {
  const char *path = secure_getenv("ATTNPRESS_LIBCUDA"); /* as the library looks for it */
  if (!path || !*path)
    path = "libcuda.so.1";
  d->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!d->library) {
    snprintf(why, why_bytes, "the CUDA driver is not installed (%s)", dlerror());
    return -1;
  }
#define LOOK_UP(name, symbol, parameters)                                                          \
  *(void **)&d->name = dlsym(d->library, symbol);                                                  \
  if (!d->name) {                                                                                  \
    snprintf(why, why_bytes, "the CUDA driver has no %s", symbol);                                 \
    cuda_device_close(d);                                                                          \
    return -1;                                                                                     \
  }
  CUDA_DEVICE_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
  return 0;
}

int cuda_device_open(cuda_device *d, int ordinal, char *why, size_t why_bytes) {
  int major = 0, minor = 0;
  CUresult r;
  memset(d, 0, sizeof *d);
  if (open_library(d, why, why_bytes) != 0)
    return -1;
  if ((r = d->init(0)) != CUDA_SUCCESS)
    return fail(d, "cuInit", r, why, why_bytes);
  if ((r = d->device_get(&d->device, ordinal)) != CUDA_SUCCESS)
    return fail(d, "cuDeviceGet", r, why, why_bytes);
  if ((r = d->driver_get_version(&d->driver_version)) != CUDA_SUCCESS ||
      (r = d->device_get_name(d->name, sizeof d->name, d->device)) != CUDA_SUCCESS ||
      (r = d->device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                   d->device)) != CUDA_SUCCESS ||
      (r = d->device_get_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                   d->device)) != CUDA_SUCCESS ||
      (r = d->device_get_attribute(&d->sm_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                   d->device)) != CUDA_SUCCESS)
    return fail(d, "reading the device's attributes", r, why, why_bytes);
  d->capability = 10 * major + minor;
  if ((r = d->primary_ctx_retain(&d->context, d->device)) != CUDA_SUCCESS)
    return fail(d, "cuDevicePrimaryCtxRetain", r, why, why_bytes);
  if ((r = d->ctx_set_current(d->context)) != CUDA_SUCCESS)
    return fail(d, "cuCtxSetCurrent", r, why, why_bytes);
  return 0;
}

void cuda_device_close(cuda_device *d) {
  if (d->context)
    d->primary_ctx_release(d->device);
  d->context = NULL;
  if (d->library)
    dlclose(d->library);
  d->library = NULL;
}

void cuda_device_end(cuda_device *d, CUstream stream, CUevent start, CUevent end) {
  if (start)
    d->event_destroy(start);
  if (end)
    d->event_destroy(end);
  if (stream)
    d->stream_destroy(stream);
  if (d->library)
    cuda_device_close(d);
}
