/* The CUDA driver, opened at run time, and what is read of a device. */
#pragma once
#include "attnpress/attnpress.h"
#include "core/memo.h"
#include "cuda/cuda_api.h"

typedef struct ap_driver {
  void *library; /* of dlopen; NULL: not opened */
  int version;   /* 13000 for CUDA 13.0 */
#define AP_POINTER(name, symbol, parameters) CUresult(*name) parameters;
  AP_CUDA_FUNCTIONS(AP_POINTER)
  AP_CUDA_OPTIONAL_FUNCTIONS(AP_POINTER)
#undef AP_POINTER
} ap_driver;

typedef struct ap_device {
  int ordinal;
  int capability; /* 90 for 9.0 */
  int sm_count, threads_per_sm, smem_per_sm_bytes, smem_per_block_bytes;
  int tma;       /* 1: the driver makes tensor maps */
  int arch_max;  /* attnpress_options.arch_max */
  ap_memo *memo; /* what plans for the device remember; NULL: nothing */
} ap_device;

/** Dynamic shared memory of which an SM has no room for more than so many thread blocks, as each takes
 * some more for itself; or as much as one can have. */
static inline int ap_few_smem_bytes(const ap_device *device, int blocks) {
  const int part = device->smem_per_sm_bytes / (blocks + 1);
  return part < device->smem_per_block_bytes ? part : device->smem_per_block_bytes;
}

static inline int ap_alone_smem_bytes(const ap_device *device) {
  return ap_few_smem_bytes(device, 1);
}

/** Opens libcuda.so.1, or what ATTNPRESS_LIBCUDA names (for tests), and initialises it; NO_DRIVER
 * where it is missing, older than CUDA 12.0, or sees no GPU. */
attnpress_status ap_driver_open(ap_driver *driver);
void ap_driver_close(ap_driver *driver);
/** DRIVER_ERROR: "`what` failed: CUDA_ERROR_... (text)". */
attnpress_status ap_driver_fail(const ap_driver *driver, CUresult result, const char *what);
/** Reads a device's numbers, of any device; arch_max is 0. */
attnpress_status ap_device_read(const ap_driver *driver, CUdevice ordinal, ap_device *device);
