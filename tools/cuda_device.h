/* A CUDA device for programs around the library: the tool's `run`, the tests, the benchmarks. The
 * driver is opened at run time, with the few functions that these programs call. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "cuda/cuda_api.h"

typedef unsigned long long CUdeviceptr;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmod_st *CUmodule;

enum { CU_STREAM_NON_BLOCKING = 1, CU_EVENT_DEFAULT = 0 };

/* X(name, symbol, parameters) */
#define CUDA_DEVICE_FUNCTIONS(X)                                                                   \
  X(init, "cuInit", (unsigned flags))                                                              \
  X(driver_get_version, "cuDriverGetVersion", (int *version))                                      \
  X(get_error_name, "cuGetErrorName", (CUresult error, const char **name))                         \
  X(device_get_count, "cuDeviceGetCount", (int *count))                                            \
  X(device_get, "cuDeviceGet", (CUdevice * device, int ordinal))                                   \
  X(device_get_name, "cuDeviceGetName", (char *name, int size, CUdevice device))                   \
  X(device_get_attribute, "cuDeviceGetAttribute", (int *value, int attribute, CUdevice device))    \
  X(primary_ctx_retain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))        \
  X(primary_ctx_release, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                        \
  X(ctx_set_current, "cuCtxSetCurrent", (CUcontext context))                                       \
  X(ctx_synchronize, "cuCtxSynchronize", (void))                                                   \
  X(mem_get_info, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total_bytes))                  \
  X(mem_alloc, "cuMemAlloc_v2", (CUdeviceptr * pointer, size_t bytes))                             \
  X(mem_free, "cuMemFree_v2", (CUdeviceptr pointer))                                               \
  X(memcpy_htod, "cuMemcpyHtoD_v2", (CUdeviceptr to, const void *from, size_t bytes))              \
  X(memcpy_dtoh, "cuMemcpyDtoH_v2", (void *to, CUdeviceptr from, size_t bytes))                    \
  X(memcpy_dtod_async, "cuMemcpyDtoDAsync_v2",                                                     \
    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                             \
  X(memset_d8_async, "cuMemsetD8Async",                                                            \
    (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream))                          \
  X(stream_create, "cuStreamCreate", (CUstream * stream, unsigned flags))                          \
  X(stream_destroy, "cuStreamDestroy_v2", (CUstream stream))                                       \
  X(stream_synchronize, "cuStreamSynchronize", (CUstream stream))                                  \
  X(stream_begin_capture, "cuStreamBeginCapture_v2", (CUstream stream, int mode))                  \
  X(stream_end_capture, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))                  \
  X(graph_instantiate, "cuGraphInstantiateWithFlags",                                              \
    (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                                 \
  X(graph_launch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream))                            \
  X(graph_exec_destroy, "cuGraphExecDestroy", (CUgraphExec exec))                                  \
  X(graph_destroy, "cuGraphDestroy", (CUgraph graph))                                              \
  X(event_create, "cuEventCreate", (CUevent * event, unsigned flags))                              \
  X(event_destroy, "cuEventDestroy_v2", (CUevent event))                                           \
  X(event_record, "cuEventRecord", (CUevent event, CUstream stream))                               \
  X(event_synchronize, "cuEventSynchronize", (CUevent event))                                      \
  X(event_elapsed_time, "cuEventElapsedTime", (float *ms, CUevent start, CUevent end))             \
  X(module_load_data, "cuModuleLoadData", (CUmodule * module, const void *image))                  \
  X(module_unload, "cuModuleUnload", (CUmodule module))                                            \
  X(module_get_function, "cuModuleGetFunction",                                                    \
    (CUfunction * function, CUmodule module, const char *name))                                    \
  X(launch_kernel, "cuLaunchKernel",                                                               \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,     \
     unsigned block_y, unsigned block_z, unsigned smem_bytes, CUstream stream, void **parameters,  \
     void **extra))

typedef struct cuda_device {
  void *library; /* of dlopen */
#define CUDA_DEVICE_POINTER(name, symbol, parameters) CUresult(*name) parameters;
  CUDA_DEVICE_FUNCTIONS(CUDA_DEVICE_POINTER)
#undef CUDA_DEVICE_POINTER
  CUdevice device;
  CUcontext context; /* the device's primary one, current in the thread that opened it */
  int driver_version, capability, sm_count; /* 13000 for CUDA 13.0; 90 for 9.0 */
  char name[128];
} cuda_device;

/** Opens device `ordinal`: 0, or -1 with the reason in `why`. */
int cuda_device_open(cuda_device *d, int ordinal, char *why, size_t why_bytes);
void cuda_device_close(cuda_device *d);
/** Destroys those that are not NULL, of a device that may have been opened, and closes it. */
void cuda_device_end(cuda_device *d, CUstream stream, CUevent start, CUevent end);
/** "CUDA_ERROR_..." */
const char *cuda_device_error(const cuda_device *d, CUresult result);
