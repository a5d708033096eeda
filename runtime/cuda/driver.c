/* Opens the CUDA driver at run time. Nothing else in the library calls dlsym on it. */
#define _GNU_SOURCE /* secure_getenv */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

enum { DRIVER_VERSION_MIN = 12000 };

static attnpress_status look_up(ap_driver *driver, const char *path) {
  /* POSIX hands functions out as void *. */
#define LOOK_UP(name, symbol, parameters)                                                          \
  *(void **)&driver->name = dlsym(driver->library, symbol);                                        \
  RETURN_IF(driver->name == NULL, ATTNPRESS_NO_DRIVER,                                             \
            "%s has no %s: the CUDA driver is older than 12.0 and must be updated", path, symbol);
  AP_CUDA_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
#define LOOK_UP_OPTIONAL(name, symbol, parameters)                                                 \
  *(void **)&driver->name = dlsym(driver->library, symbol);
  AP_CUDA_OPTIONAL_FUNCTIONS(LOOK_UP_OPTIONAL)
#undef LOOK_UP_OPTIONAL
  return ATTNPRESS_OK;
}

static attnpress_status initialise(ap_driver *driver, const char *path) {
  const CUresult result = driver->init(0);
  RETURN_IF(result == CUDA_ERROR_NO_DEVICE, ATTNPRESS_NO_DRIVER,
            "the CUDA driver sees no GPU (cuInit: CUDA_ERROR_NO_DEVICE); check nvidia-smi and "
            "CUDA_VISIBLE_DEVICES");
  RETURN_IF(result == CUDA_ERROR_STUB_LIBRARY, ATTNPRESS_NO_DRIVER,
            "%s is the toolkit's stub, not a driver; take its folder off LD_LIBRARY_PATH", path);
  if (result != CUDA_SUCCESS) {
    ap_driver_fail(driver, result, "cuInit");
    return ap_fail(ATTNPRESS_NO_DRIVER, "the CUDA driver does not start: %s",
                   attnpress_last_error());
  }
  int count = 0;
  RETURN_IF(driver->driver_get_version(&driver->version) != CUDA_SUCCESS ||
                driver->device_get_count(&count) != CUDA_SUCCESS,
            ATTNPRESS_NO_DRIVER, "the CUDA driver does not say its version or its devices");
  RETURN_IF(driver->version < DRIVER_VERSION_MIN, ATTNPRESS_NO_DRIVER,
            "the CUDA driver knows CUDA %d.%d; 12.0 or newer is needed", driver->version / 1000,
            driver->version % 1000 / 10);
  RETURN_IF(count == 0, ATTNPRESS_NO_DRIVER, "the CUDA driver sees no GPU");
  return ATTNPRESS_OK;
}

attnpress_status ap_driver_open(ap_driver *driver) {
  memset(driver, 0, sizeof *driver);
  const char *path = secure_getenv("ATTNPRESS_LIBCUDA");
  if (path == NULL || *path == '\0')
    path = "libcuda.so.1";
  /* Never unmapped: the driver has threads of its own. */
  driver->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  RETURN_IF(driver->library == NULL, ATTNPRESS_NO_DRIVER,
            "the CUDA driver is not installed (%s); a handle for ATTNPRESS_CPU needs none",
            dlerror());
  attnpress_status status = look_up(driver, path);
  if (status == ATTNPRESS_OK)
    status = initialise(driver, path);
  if (status != ATTNPRESS_OK)
    ap_driver_close(driver);
  return status;
}

void ap_driver_close(ap_driver *driver) {
  if (driver->library != NULL)
    dlclose(driver->library);
  memset(driver, 0, sizeof *driver);
}

attnpress_status ap_driver_fail(const ap_driver *driver, CUresult result, const char *what) {
  const char *name = NULL, *text = NULL;
  if (driver->get_error_name(result, &name) != CUDA_SUCCESS || name == NULL)
    name = "unknown error";
  if (driver->get_error_string(result, &text) != CUDA_SUCCESS || text == NULL)
    text = "no description";
  return ap_fail(ATTNPRESS_DRIVER_ERROR, "%s failed: %s (%d, %s)", what, name, result, text);
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
  device->tma = driver->tensor_map_encode_tiled != NULL && driver->tensor_map_encode_im2col != NULL;
  device->arch_max = 0;
  return ATTNPRESS_OK;
}
