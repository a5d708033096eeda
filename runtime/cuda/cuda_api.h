/* The few functions of the CUDA driver and of NVRTC that this library calls, declared here so that
 * it builds without a toolkit. Types and numbers are those of cuda.h and nvrtc.h, which keep them
 * stable within and across major versions; a "_v2" is part of the symbol's name.
 *
 * One list each gives the table of function pointers and the names that are looked up. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* ---- CUDA driver, 12.0 or newer -------------------------------------------------------------- */

typedef int CUresult;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUfunc_st *CUfunction;
typedef struct CUkern_st *CUkernel;
typedef struct CUlib_st *CUlibrary;

enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_INVALID_SOURCE = 300,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
};

enum { /* CUdevice_attribute */
       CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
       CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};

enum { /* CUfunction_attribute */
       CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
       CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
       CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
       CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
};

enum { CU_STREAM_CAPTURE_STATUS_NONE = 0 };  /* CUstreamCaptureStatus */
enum { CU_STREAM_CAPTURE_MODE_RELAXED = 2 }; /* CUstreamCaptureMode */

enum { /* CUtensorMapDataType */
       CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
       CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
};
enum { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 }; /* CUtensorMapInterleave */
/* CUtensorMapSwizzle */
enum {
  CU_TENSOR_MAP_SWIZZLE_32B = 1,
  CU_TENSOR_MAP_SWIZZLE_64B = 2,
  CU_TENSOR_MAP_SWIZZLE_128B = 3
};
enum { CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2 }; /* CUtensorMapL2promotion */
enum { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };  /* CUtensorMapFloatOOBfill: zeros */
enum {                                           /* CUlaunchAttributeID */
       CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
       CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
       CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
};

typedef struct CUlaunchAttribute {
  int id;
  union {
    unsigned long long words[8];
    struct {
      unsigned x, y, z;
    } cluster;
    int cooperative;
    int programmatic_stream_serialization_allowed;
  } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, smem_bytes;
  CUstream stream;
  CUlaunchAttribute *attributes;
  unsigned attribute_count;
} CUlaunchConfig;

_Static_assert(sizeof(CUlaunchAttribute) == 72 && sizeof(CUlaunchConfig) == 56, "as in cuda.h");

/* X(name, symbol, parameters) */
#define AP_CUDA_FUNCTIONS(X)                                                                       \
  X(init, "cuInit", (unsigned flags))                                                              \
  X(driver_get_version, "cuDriverGetVersion", (int *version))                                      \
  X(get_error_name, "cuGetErrorName", (CUresult error, const char **name))                         \
  X(get_error_string, "cuGetErrorString", (CUresult error, const char **text))                     \
  X(device_get_count, "cuDeviceGetCount", (int *count))                                            \
  X(device_get, "cuDeviceGet", (CUdevice * device, int ordinal))                                   \
  X(device_get_name, "cuDeviceGetName", (char *name, int size, CUdevice device))                   \
  X(device_get_attribute, "cuDeviceGetAttribute", (int *value, int attribute, CUdevice device))    \
  X(device_total_mem, "cuDeviceTotalMem_v2", (size_t * bytes, CUdevice device))                    \
  X(ctx_get_current, "cuCtxGetCurrent", (CUcontext * context))                                     \
  X(ctx_get_device, "cuCtxGetDevice", (CUdevice * device))                                         \
  X(ctx_get_id, "cuCtxGetId", (CUcontext context, unsigned long long *id))                         \
  X(ctx_push_current, "cuCtxPushCurrent_v2", (CUcontext context))                                  \
  X(ctx_pop_current, "cuCtxPopCurrent_v2", (CUcontext * context))                                  \
  X(stream_get_ctx, "cuStreamGetCtx", (CUstream stream, CUcontext * context))                      \
  X(memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2",                                                     \
    (void *to, unsigned long long from, size_t bytes, CUstream stream))                            \
  X(memset_d32_async, "cuMemsetD32Async",                                                          \
    (unsigned long long to, unsigned value, size_t words, CUstream stream))                        \
  X(stream_synchronize, "cuStreamSynchronize", (CUstream stream))                                  \
  X(stream_is_capturing, "cuStreamIsCapturing", (CUstream stream, int *status))                    \
  X(thread_exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))                \
  X(library_load_data, "cuLibraryLoadData",                                                        \
    (CUlibrary * library, const void *image, int *jit_options, void **jit_values,                  \
     unsigned jit_count, int *options, void **values, unsigned count))                             \
  X(library_unload, "cuLibraryUnload", (CUlibrary library))                                        \
  X(library_get_kernel, "cuLibraryGetKernel",                                                      \
    (CUkernel * kernel, CUlibrary library, const char *name))                                      \
  X(kernel_get_function, "cuKernelGetFunction", (CUfunction * function, CUkernel kernel))          \
  X(func_get_attribute, "cuFuncGetAttribute", (int *value, int attribute, CUfunction function))    \
  X(func_set_attribute, "cuFuncSetAttribute", (CUfunction function, int attribute, int value))     \
  X(launch_kernel, "cuLaunchKernelEx",                                                             \
    (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra))

/* Those that a driver may lack; the pointer is then NULL. */
#define AP_CUDA_OPTIONAL_FUNCTIONS(X)                                                              \
  X(tensor_map_encode_tiled, "cuTensorMapEncodeTiled",                                             \
    (void *map, int data_type, uint32_t rank, void *address, const uint64_t *extents,              \
     const uint64_t *strides_bytes, const uint32_t *box, const uint32_t *element_strides,          \
     int interleave, int swizzle, int l2_promotion, int oob_fill))                                 \
  X(tensor_map_encode_im2col, "cuTensorMapEncodeIm2col",                                           \
    (void *map, int data_type, uint32_t rank, void *address, const uint64_t *extents,              \
     const uint64_t *strides_bytes, const int *lower_corner, const int *upper_corner,              \
     uint32_t channels, uint32_t pixels, const uint32_t *element_strides, int interleave,          \
     int swizzle, int l2_promotion, int oob_fill))                                                 \
  X(tensor_map_replace_address, "cuTensorMapReplaceAddress", (void *map, void *address))           \
  X(occupancy_max_active_clusters, "cuOccupancyMaxActiveClusters",                                 \
    (int *count, CUfunction function, const CUlaunchConfig *config))

/* ---- NVRTC, 12 or 13 ------------------------------------------------------------------------- */

typedef struct _nvrtcProgram *nvrtcProgram;
typedef int nvrtcResult;
enum { NVRTC_SUCCESS = 0, NVRTC_ERROR_OUT_OF_MEMORY = 1, NVRTC_ERROR_COMPILATION = 6 };

#define AP_NVRTC_FUNCTIONS(X)                                                                      \
  X(version, "nvrtcVersion", (int *major, int *minor))                                             \
  X(get_num_supported_archs, "nvrtcGetNumSupportedArchs", (int *count))                            \
  X(get_supported_archs, "nvrtcGetSupportedArchs", (int *archs))                                   \
  X(create_program, "nvrtcCreateProgram",                                                          \
    (nvrtcProgram * program, const char *source, const char *name, int num_headers,                \
     const char *const *headers, const char *const *include_names))                                \
  X(destroy_program, "nvrtcDestroyProgram", (nvrtcProgram * program))                              \
  X(compile_program, "nvrtcCompileProgram",                                                        \
    (nvrtcProgram program, int num_options, const char *const *options))                           \
  X(get_cubin_size, "nvrtcGetCUBINSize", (nvrtcProgram program, size_t * bytes))                   \
  X(get_cubin, "nvrtcGetCUBIN", (nvrtcProgram program, char *cubin))                               \
  X(get_ptx_size, "nvrtcGetPTXSize", (nvrtcProgram program, size_t * bytes))                       \
  X(get_ptx, "nvrtcGetPTX", (nvrtcProgram program, char *ptx))                                     \
  X(get_log_size, "nvrtcGetProgramLogSize", (nvrtcProgram program, size_t * bytes))                \
  X(get_log, "nvrtcGetProgramLog", (nvrtcProgram program, char *log))
