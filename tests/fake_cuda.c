/* The stand-in for libcuda; see fake_cuda.h. It checks what the real driver checks: that a context
 * is current, that stream and function belong to it, that shared memory was asked for, that nothing
 * is loaded during a capture. */
#define _GNU_SOURCE
#include "fake_cuda.h"

#include <elf.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(fake_map) <= sizeof(attnpress_tensor_map), "a map holds what was asked for");

enum { FAKE_MEMORY_CLOCK_RATE = 36, FAKE_MEMORY_BUS_WIDTH = 37 }; /* kHz, bits */
enum { STACK_MAX = 16, FUNCTIONS_MAX = 4096, SMEM_DEFAULT_BYTES = 48 * 1024 };

struct CUctx_st {
  CUcontext next_freed;
  int device, alive;
  unsigned long long id;
};
struct CUstream_st {
  CUstream next_freed;
  CUcontext context;
  int capturing;
};
struct CUlib_st {
  unsigned char *image;
  size_t size;
};
struct CUkern_st {
  char name[128];
  int target, exact; /* 90 and 1 of sm_90a; 0: not known */
  uint64_t image;    /* a hash of it */
};
struct CUfunc_st {
  CUkernel kernel;
  CUcontext context;
  unsigned long long context_id;
  _Atomic int smem_bytes; /* threads may make a function ready at once */
  _Atomic int large_clusters;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fake_cuda fake;
static int initialised, captures;
static unsigned long long next_id = 1;
static CUcontext freed_contexts; /* lists: an address comes again, as with any allocator */
static CUstream freed_streams;
static struct CUfunc_st functions[FUNCTIONS_MAX];
static int function_count;
static _Thread_local CUcontext stack[STACK_MAX];
static _Thread_local int depth;
static _Thread_local int capture_mode; /* 0: global */

#define EXPORT __attribute__((visibility("default")))

static int environment(const char *name, int otherwise) {
  const char *value = getenv(name);
  return value != NULL && *value ? atoi(value) : otherwise;
}

static CUcontext current(void) {
  return depth > 0 ? stack[depth - 1] : NULL;
}

/* ---- What tests call ---- */

static CUcontext context_new(int device) {
  pthread_mutex_lock(&lock);
  CUcontext context = freed_contexts;
  if (context != NULL)
    freed_contexts = context->next_freed;
  else
    context = malloc(sizeof *context);
  context->device = device;
  context->alive = 1;
  context->id = next_id++;
  pthread_mutex_unlock(&lock);
  return context;
}

static void context_free(CUcontext context) {
  pthread_mutex_lock(&lock);
  context->alive = 0;
  context->next_freed = freed_contexts;
  freed_contexts = context;
  pthread_mutex_unlock(&lock);
}

static void context_set(CUcontext context) {
  depth = context != NULL;
  stack[0] = context;
}

static CUstream stream_new(CUcontext context) {
  pthread_mutex_lock(&lock);
  CUstream stream = freed_streams;
  if (stream != NULL)
    freed_streams = stream->next_freed;
  else
    stream = malloc(sizeof *stream);
  *stream = (struct CUstream_st){.context = context};
  pthread_mutex_unlock(&lock);
  return stream;
}

static void stream_capture(CUstream stream, int capturing) {
  pthread_mutex_lock(&lock);
  captures += capturing - stream->capturing;
  stream->capturing = capturing;
  pthread_mutex_unlock(&lock);
}

static void stream_free(CUstream stream) {
  pthread_mutex_lock(&lock);
  stream->next_freed = freed_streams;
  freed_streams = stream;
  pthread_mutex_unlock(&lock);
}

static void args_of(const char *prefix, size_t bytes);
static void args_by(size_t (*bytes)(const char *symbol));

static void reset(void) {
  fake.loads = fake.unloads = fake.functions = fake.launches = fake.maps = fake.moved_maps = 0;
  fake.refuse_loads = fake.fail_load = fake.fail_launch = fake.stream_capturing = 0;
  fake.copies = fake.waits = 0;
  fake.cluster_room = fake.rooms_asked = 0;
  fake.fail_map = fake.fail_clear = fake.clears = 0;
  memset(fake.capability_of, 0, sizeof fake.capability_of);
  memset(fake.launch, 0, sizeof fake.launch);
}

EXPORT fake_cuda *fake_cuda_state(void);
EXPORT fake_cuda *fake_cuda_state(void) {
  return &fake;
}

/* ---- The driver ---- */

#define API(name, ...)                                                                             \
  EXPORT CUresult name(__VA_ARGS__);                                                               \
  EXPORT CUresult name(__VA_ARGS__)

API(cuInit, unsigned flags) {
  const int result = environment("FAKE_CUDA_INIT", CUDA_SUCCESS);
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  if (!initialised) {
    int major = 9, minor = 0;
    const char *capability = getenv("FAKE_CUDA_CAPABILITY");
    if (capability != NULL)
      sscanf(capability, "%d.%d", &major, &minor);
    fake.capability = 10 * major + minor;
    fake.context_new = context_new;
    fake.context_free = context_free;
    fake.context_set = context_set;
    fake.context_get = current;
    fake.stream_new = stream_new;
    fake.stream_capture = stream_capture;
    fake.stream_free = stream_free;
    fake.reset = reset;
    fake.args_of = args_of;
    fake.args_by = args_by;
    initialised = 1;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

API(cuDriverGetVersion, int *version) {
  *version = environment("FAKE_CUDA_VERSION", 13000);
  return CUDA_SUCCESS;
}

API(cuGetErrorName, CUresult error, const char **name) {
  *name =
      error == CUDA_ERROR_NO_BINARY_FOR_GPU ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}

API(cuGetErrorString, CUresult error, const char **text) {
  (void)error;
  *text = "as the test asked for";
  return CUDA_SUCCESS;
}

API(cuDeviceGetCount, int *count) {
  *count = environment("FAKE_CUDA_DEVICES", 1);
  return CUDA_SUCCESS;
}

API(cuDeviceGet, CUdevice *device, int ordinal) {
  if (ordinal >= environment("FAKE_CUDA_DEVICES", 1))
    return CUDA_ERROR_INVALID_VALUE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

API(cuDeviceGetName, char *name, int size, CUdevice device) {
  snprintf(name, (size_t)size, "Fake GPU %d", device);
  return CUDA_SUCCESS;
}

API(cuDeviceTotalMem_v2, size_t *bytes, CUdevice device) {
  (void)device;
  *bytes = (size_t)80 << 30;
  return CUDA_SUCCESS;
}

static int capability_of(CUdevice device) {
  const int own = device < FAKE_DEVICES_MAX ? fake.capability_of[device] : 0;
  return own ? own : fake.capability;
}

API(cuDeviceGetAttribute, int *value, int attribute, CUdevice device) {
  const int capability = capability_of(device);
  const int small_smem = capability == 86 || capability == 89 || capability / 10 == 12;
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    *value = capability == 80 ? 108 : small_smem ? 84 : 132;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
    *value = small_smem ? 1536 : 2048;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    *value = capability / 10;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    *value = capability % 10;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
    *value = small_smem ? 100 * 1024 : capability == 80 ? 164 * 1024 : 228 * 1024;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    *value = small_smem ? 99 * 1024 : capability == 80 ? 163 * 1024 : 227 * 1024;
    return CUDA_SUCCESS;
  case FAKE_MEMORY_CLOCK_RATE: /* of an H100 SXM, as the next */
    *value = 2619000;
    return CUDA_SUCCESS;
  case FAKE_MEMORY_BUS_WIDTH:
    *value = 5120;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

API(cuCtxGetCurrent, CUcontext *context) {
  *context = current();
  return CUDA_SUCCESS;
}

API(cuCtxGetDevice, CUdevice *device) {
  if (current() == NULL)
    return CUDA_ERROR_INVALID_CONTEXT;
  *device = current()->device;
  return CUDA_SUCCESS;
}

API(cuCtxGetId, CUcontext context, unsigned long long *id) {
  *id = (context != NULL ? context : current())->id;
  return CUDA_SUCCESS;
}

API(cuCtxPushCurrent_v2, CUcontext context) {
  if (depth == STACK_MAX)
    return CUDA_ERROR_OUT_OF_MEMORY;
  stack[depth++] = context;
  return CUDA_SUCCESS;
}

API(cuCtxPopCurrent_v2, CUcontext *context) {
  if (depth == 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  *context = stack[--depth];
  return CUDA_SUCCESS;
}

API(cuStreamGetCtx, CUstream stream, CUcontext *context) {
  if ((uintptr_t)stream <= 2) { /* NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD */
    *context = current();
    return *context != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  }
  *context = stream->context;
  return CUDA_SUCCESS;
}

API(cuMemcpyDtoHAsync_v2, void *to, unsigned long long from, size_t bytes, CUstream stream) {
  (void)stream;
  ++fake.copies;
  memcpy(to, (const void *)(uintptr_t)from, bytes);
  return CUDA_SUCCESS;
}

API(cuStreamSynchronize, CUstream stream) {
  (void)stream;
  ++fake.waits;
  return CUDA_SUCCESS;
}

API(cuStreamIsCapturing, CUstream stream, int *status) {
  if ((uintptr_t)stream <= 2) {
    if (fake.stream_capturing)
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  }
  *status = stream->capturing;
  return CUDA_SUCCESS;
}

API(cuThreadExchangeStreamCaptureMode, int *mode) {
  const int old = capture_mode;
  capture_mode = *mode;
  *mode = old;
  return CUDA_SUCCESS;
}

static size_t elf_size(const void *image) {
  Elf64_Ehdr header;
  memcpy(&header, image, sizeof header);
  return header.e_shoff + (size_t)header.e_shnum * header.e_shentsize;
}

API(cuLibraryLoadData, CUlibrary *library, const void *image, int *jit_options, void **jit_values,
    unsigned jit_count, int *options, void **values, unsigned count) {
  (void)jit_options;
  (void)jit_values;
  (void)options;
  (void)values;
  if (image == NULL || jit_count != 0 || count > 1)
    return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  CUresult result = CUDA_SUCCESS;
  ++fake.loads;
  if (captures > 0 && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  } else if (fake.fail_load != CUDA_SUCCESS) {
    result = fake.fail_load;
    fake.fail_load = CUDA_SUCCESS;
  } else if (fake.refuse_loads > 0) {
    --fake.refuse_loads;
    result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  } else if (memcmp(image, ELFMAG, SELFMAG) != 0) {
    result = CUDA_ERROR_INVALID_IMAGE;
  }
  pthread_mutex_unlock(&lock);
  if (result != CUDA_SUCCESS)
    return result;
  CUlibrary fresh = malloc(sizeof *fresh);
  fresh->size = elf_size(image);
  fresh->image = malloc(fresh->size);
  memcpy(fresh->image, image, fresh->size);
  *library = fresh;
  return CUDA_SUCCESS;
}

API(cuLibraryUnload, CUlibrary library) {
  pthread_mutex_lock(&lock);
  ++fake.unloads;
  pthread_mutex_unlock(&lock);
  free(library->image);
  free(library);
  return CUDA_SUCCESS;
}

/** The stand-in for NVRTC leaves its options in what it makes. */
static void read_target(CUlibrary library, CUkernel kernel) {
  static const char option[] = "--gpu-architecture=sm_";
  const char *at = memmem(library->image, library->size, option, sizeof option - 1);
  char *end = NULL;
  kernel->target = at != NULL ? (int)strtol(at + sizeof option - 1, &end, 10) : 0;
  kernel->exact = at != NULL && *end == 'a';
}

static uint64_t hash_of(const unsigned char *bytes, size_t size) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < size; ++i)
    hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
  return hash;
}

/** A cubin runs on the devices of its own generation that are not older. */
static int runs_on(CUkernel kernel, int capability) {
  return kernel->target == 0 ||
         (kernel->exact ? kernel->target == capability
                        : kernel->target / 10 == capability / 10 && kernel->target <= capability);
}

API(cuLibraryGetKernel, CUkernel *kernel, CUlibrary library, const char *name) {
  if (memmem(library->image, library->size, name, strlen(name)) == NULL)
    return CUDA_ERROR_NOT_FOUND;
  *kernel = malloc(sizeof **kernel); /* never freed: a test's process is short */
  snprintf((*kernel)->name, sizeof(*kernel)->name, "%s", name);
  read_target(library, *kernel);
  (*kernel)->image = hash_of((const unsigned char *)library->image, library->size);
  return CUDA_SUCCESS;
}

API(cuKernelGetFunction, CUfunction *function, CUkernel kernel) {
  CUcontext context = current();
  if (context == NULL || !context->alive)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!runs_on(kernel, capability_of(context->device)))
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  pthread_mutex_lock(&lock);
  int i = 0;
  while (i < function_count &&
         (functions[i].kernel != kernel || functions[i].context_id != context->id))
    ++i;
  if (i == FUNCTIONS_MAX) /* those of contexts that are gone make room */
    for (i = 0; i < FUNCTIONS_MAX && functions[i].context->id == functions[i].context_id; ++i)
      continue;
  const int found = i < function_count && functions[i].context_id == context->id;
  if (!found && i < FUNCTIONS_MAX) {
    functions[i] = (struct CUfunc_st){kernel, context, context->id, SMEM_DEFAULT_BYTES, 0};
    function_count += i == function_count;
    ++fake.functions;
  }
  pthread_mutex_unlock(&lock);
  *function = &functions[i];
  return i < FUNCTIONS_MAX ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API(cuFuncGetAttribute, int *value, int attribute, CUfunction function) {
  (void)function;
  *value = attribute == CU_FUNC_ATTRIBUTE_NUM_REGS ? 128 : 0;
  return CUDA_SUCCESS;
}

API(cuFuncSetAttribute, CUfunction function, int attribute, int value) {
  int limit;
  cuDeviceGetAttribute(&limit, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                       function->context->device);
  if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
    function->large_clusters = value;
    return CUDA_SUCCESS;
  }
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > limit)
    return CUDA_ERROR_INVALID_VALUE;
  function->smem_bytes = value;
  return CUDA_SUCCESS;
}

API(cuOccupancyMaxActiveClusters, int *count, CUfunction function, const CUlaunchConfig *config) {
  if (current() == NULL || function->context != current() || config->attribute_count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  ++fake.rooms_asked;
  *count = fake.cluster_room;
  return CUDA_SUCCESS;
}

/** What the real driver refuses. */
static int is_legal_map(const void *map, const fake_map *m, const uint32_t *box,
                        const uint32_t *element_strides) {
  enum { ELEMENT_BYTES = 2 };
  const uint32_t swizzle_bytes = UINT32_C(16) << m->swizzle;
  int legal = (uintptr_t)map % 64 == 0 && m->address != 0 && m->address % 16 == 0 &&
              (m->data_type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 ||
               m->data_type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16) &&
              box[0] * ELEMENT_BYTES <= swizzle_bytes && box[0] * ELEMENT_BYTES % 16 == 0;
  for (int i = 0; i < m->rank; ++i)
    legal &= m->extents[i] > 0 && m->extents[i] <= UINT64_C(1) << 32 && box[i] > 0 &&
             box[i] <= 256 && element_strides[i] >= 1 && element_strides[i] <= 8;
  for (int i = 0; i + 1 < m->rank; ++i)
    legal &= m->strides_bytes[i] % 16 == 0 && m->strides_bytes[i] < UINT64_C(1) << 40;
  return legal;
}

API(cuTensorMapEncodeTiled, void *map, int data_type, uint32_t rank, void *address,
    const uint64_t *extents, const uint64_t *strides_bytes, const uint32_t *box,
    const uint32_t *element_strides, int interleave, int swizzle, int l2_promotion, int oob_fill) {
  if (current() == NULL)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (rank < 1 || rank > 5 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
      swizzle < CU_TENSOR_MAP_SWIZZLE_32B || swizzle > CU_TENSOR_MAP_SWIZZLE_128B ||
      l2_promotion < 0 || l2_promotion > 3 || oob_fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
    return CUDA_ERROR_INVALID_VALUE;
  fake_map m = {.address = (uintptr_t)address,
                .data_type = (uint8_t)data_type,
                .rank = (uint8_t)rank,
                .swizzle = (uint8_t)swizzle};
  memcpy(m.extents, extents, rank * sizeof *extents);
  memcpy(m.strides_bytes, strides_bytes, (rank - 1) * sizeof *strides_bytes);
  for (uint32_t i = 0; i < rank; ++i)
    m.box[i] = (uint16_t)box[i], m.steps[i] = (uint8_t)element_strides[i];
  if (!is_legal_map(map, &m, box, element_strides))
    return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  const CUresult result = fake.fail_map;
  fake.fail_map = CUDA_SUCCESS;
  fake.maps += result == CUDA_SUCCESS;
  pthread_mutex_unlock(&lock);
  if (result == CUDA_SUCCESS) {
    memset(map, 0, sizeof(attnpress_tensor_map));
    memcpy(map, &m, sizeof m);
  }
  return result;
}

API(cuTensorMapReplaceAddress, void *map, void *address) {
  if (current() == NULL)
    return CUDA_ERROR_INVALID_CONTEXT;
  if ((uintptr_t)map % 64 != 0 || address == NULL || (uintptr_t)address % 16 != 0)
    return CUDA_ERROR_INVALID_VALUE;
  ((fake_map *)map)->address = (uintptr_t)address;
  pthread_mutex_lock(&lock);
  ++fake.moved_maps;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

API(cuTensorMapEncodeIm2col, void *map, int data_type, uint32_t rank, void *address,
    const uint64_t *extents, const uint64_t *strides_bytes, const int *lower_corner,
    const int *upper_corner, uint32_t channels, uint32_t pixels, const uint32_t *element_strides,
    int interleave, int swizzle, int l2_promotion, int oob_fill) {
  const uint32_t box[4] = {channels, 1, 1, 1};
  int legal = rank == 4 && pixels >= 1 && pixels <= 1024;
  for (int i = 0; legal && i < 2; ++i)
    legal = lower_corner[i] >= -128 && lower_corner[i] <= 127 && upper_corner[i] >= -128 &&
            upper_corner[i] <= 127 && (int64_t)extents[1 + i] + upper_corner[i] > lower_corner[i];
  return legal
             ? cuTensorMapEncodeTiled(map, data_type, rank, address, extents, strides_bytes, box,
                                      element_strides, interleave, swizzle, l2_promotion, oob_fill)
             : CUDA_ERROR_INVALID_VALUE;
}

static struct {
  const char *prefix;
  size_t bytes;
} args_sizes[FAKE_FAMILIES_MAX];

static size_t (*bytes_by)(const char *symbol);

static void args_by(size_t (*bytes)(const char *symbol)) {
  bytes_by = bytes;
}

static void args_of(const char *prefix, size_t bytes) {
  int i = 0;
  while (i < FAKE_FAMILIES_MAX - 1 && args_sizes[i].prefix != NULL &&
         strcmp(args_sizes[i].prefix, prefix) != 0)
    ++i;
  if (bytes > sizeof fake.launch->args || i == FAKE_FAMILIES_MAX - 1)
    abort();
  args_sizes[i].prefix = prefix;
  args_sizes[i].bytes = bytes;
}

/** The one parameter of a kernel, by its name: the longest prefix that is known. */
static size_t args_bytes(const char *symbol) {
  size_t bytes = 0, longest = 0;
  for (int i = 0; i < FAKE_FAMILIES_MAX && args_sizes[i].prefix != NULL; ++i) {
    const size_t length = strlen(args_sizes[i].prefix);
    if (length > longest && strncmp(symbol, args_sizes[i].prefix, length) == 0) {
      longest = length;
      bytes = args_sizes[i].bytes;
    }
  }
  return longest > 0 || bytes_by == NULL ? bytes : bytes_by(symbol);
}

API(cuLaunchKernelEx, const CUlaunchConfig *config, CUfunction function, void **parameters,
    void **extra) {
  CUcontext context = current();
  CUstream stream = config->stream;
  if (context == NULL || function->context != context || function->context_id != context->id ||
      ((uintptr_t)stream > 2 && stream->context != context))
    return CUDA_ERROR_INVALID_CONTEXT;
  if (config->grid_x == 0 || config->grid_y != 1 || config->grid_z != 1 || config->block_x == 0 ||
      config->block_x > 1024 || config->block_y != 1 || config->block_z != 1 || extra != NULL ||
      (int)config->smem_bytes > function->smem_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  int overlaps = 0, together = 0;
  unsigned cluster = 0;
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const CUlaunchAttribute *a = &config->attributes[i];
    if (a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      overlaps = a->value.programmatic_stream_serialization_allowed;
    else if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
      together = a->value.cooperative;
    else if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && a->value.cluster.y == 1 &&
             a->value.cluster.z == 1)
      cluster = a->value.cluster.x;
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (cluster > (function->large_clusters ? 16u : 8u) ||
      (cluster > 0 && config->grid_x % cluster != 0))
    return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  const CUresult result = fake.fail_launch;
  fake.fail_launch = CUDA_SUCCESS;
  if (result == CUDA_SUCCESS && fake.launches < FAKE_LAUNCHES_MAX) {
    fake_launch *launch = &fake.launch[fake.launches];
    memcpy(launch->symbol, function->kernel->name, sizeof launch->symbol);
    launch->image = function->kernel->image;
    launch->grid = config->grid_x;
    launch->block = config->block_x;
    launch->smem_bytes = config->smem_bytes;
    launch->overlaps = overlaps;
    launch->together = together;
    launch->cluster = cluster;
    launch->stream = stream;
    launch->context = context;
    memset(launch->args, 0, sizeof launch->args);
    memcpy(launch->args, parameters[0], args_bytes(launch->symbol));
  }
  if (result == CUDA_SUCCESS)
    ++fake.launches;
  pthread_mutex_unlock(&lock);
  return result;
}

/* ---- What the tool calls for its own memory and times ---------------------------------------- */

/* Device memory is host memory, nothing is computed, and every pair of events lies
 * FAKE_CUDA_EVENT_US apart. Graphs and modules are not there. */
typedef unsigned long long device_pointer;

API(cuDevicePrimaryCtxRetain, CUcontext *context, CUdevice device) {
  *context = context_new(device);
  return CUDA_SUCCESS;
}

API(cuDevicePrimaryCtxRelease_v2, CUdevice device) {
  (void)device;
  return CUDA_SUCCESS;
}

API(cuCtxSetCurrent, CUcontext context) {
  context_set(context);
  return CUDA_SUCCESS;
}

API(cuCtxSynchronize, void) {
  return CUDA_SUCCESS;
}

API(cuMemGetInfo_v2, size_t *free_bytes, size_t *total_bytes) {
  *free_bytes = *total_bytes = (size_t)80 << 30;
  return CUDA_SUCCESS;
}

API(cuMemAlloc_v2, device_pointer *pointer, size_t bytes) {
  *pointer = (device_pointer)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *pointer != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API(cuMemFree_v2, device_pointer pointer) {
  free((void *)(uintptr_t)pointer);
  return CUDA_SUCCESS;
}

API(cuMemcpyHtoD_v2, device_pointer to, const void *from, size_t bytes) {
  memcpy((void *)(uintptr_t)to, from, bytes);
  return CUDA_SUCCESS;
}

API(cuMemcpyDtoH_v2, void *to, device_pointer from, size_t bytes) {
  memcpy(to, (const void *)(uintptr_t)from, bytes);
  return CUDA_SUCCESS;
}

API(cuMemcpyDtoDAsync_v2, device_pointer to, device_pointer from, size_t bytes, CUstream stream) {
  (void)stream;
  memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
  return CUDA_SUCCESS;
}

API(cuMemsetD8Async, device_pointer to, unsigned char value, size_t bytes, CUstream stream) {
  (void)stream;
  memset((void *)(uintptr_t)to, value, bytes);
  return CUDA_SUCCESS;
}

API(cuMemsetD32Async, device_pointer to, unsigned value, size_t words, CUstream stream) {
  if (current() == NULL || ((uintptr_t)stream > 2 && stream->context != current()))
    return CUDA_ERROR_INVALID_CONTEXT;
  const CUresult result = value != 0 || to % 4 != 0 ? CUDA_ERROR_INVALID_VALUE : fake.fail_clear;
  fake.fail_clear = CUDA_SUCCESS;
  if (result != CUDA_SUCCESS)
    return result;
  ++fake.clears;
  fake.cleared_on = stream;
  fake.cleared = to;
  fake.cleared_words = words;
  fake.cleared_after = fake.launches;
  return CUDA_SUCCESS;
}

API(cuStreamCreate, CUstream *stream, unsigned flags) {
  (void)flags;
  *stream = stream_new(current());
  return CUDA_SUCCESS;
}

API(cuStreamDestroy_v2, CUstream stream) {
  stream_free(stream);
  return CUDA_SUCCESS;
}

API(cuEventCreate, void **event, unsigned flags) {
  (void)flags;
  *event = malloc(1);
  return CUDA_SUCCESS;
}

API(cuEventDestroy_v2, void *event) {
  free(event);
  return CUDA_SUCCESS;
}

API(cuEventRecord, void *event, CUstream stream) {
  return event != NULL && stream != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API(cuEventSynchronize, void *event) {
  return event != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API(cuEventElapsedTime, float *ms, void *start, void *end) {
  if (start == NULL || end == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  *ms = 1e-3f * (float)environment("FAKE_CUDA_EVENT_US", 100);
  return CUDA_SUCCESS;
}

#define MISSING(name)                                                                              \
  API(name, void) {                                                                                \
    return CUDA_ERROR_INVALID_VALUE;                                                               \
  }
MISSING(cuStreamBeginCapture_v2)
MISSING(cuStreamEndCapture)
MISSING(cuGraphInstantiateWithFlags)
MISSING(cuGraphLaunch)
MISSING(cuGraphExecDestroy)
MISSING(cuGraphDestroy)
MISSING(cuModuleLoadData)
MISSING(cuModuleUnload)
MISSING(cuModuleGetFunction)
MISSING(cuLaunchKernel)
