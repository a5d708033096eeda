/* What the files of runtime/ share and nobody else sees. One part a file, in the order of a call:
 * validate -> choose -> kernel (memory, linked in, cache, jit) -> launch. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "attnpress/args/attention.h"
#include "attnpress/attnpress.h"
#include "cache/cache.h"
#include "cuda/cuda_api.h"
#include "core/error.h"
#include "core/struct.h"
#include "press/registry.h"

enum { AP_HDIM_MAX = 512, AP_SPLITS_MAX = 256, AP_THREADS_MAX = 1024 };
enum { AP_SM90_HDIM_MAX = 256 }; /* of both head dims of sm90 kernels */
enum { AP_COMBINE_ARCH = 80 };   /* the combine kernel is one for all; its stems say sm80 */

/* ---- variant.c ------------------------------------------------------------------------------- */

const char *ap_dtype_name(int32_t dtype); /* "fp16" */
const char *ap_mask_name(int32_t mask);   /* "causal" */
/** INVALID_ARGUMENT, naming what is allowed, unless kernels exist for these head dims. */
attnpress_status ap_check_head_dims(int64_t hdim, int64_t hdim_v);
/** A legal variant as one number; different variants have different ones, never 0. */
uint64_t ap_variant_key(const ap_variant *variant);

/* ---- registry.c ------------------------------------------------------------------------------ */

/** 1 where tiles exist for this pair of head dims. */
int ap_head_dims_listed(int32_t hdim, int32_t hdim_v);
/** "64/128, 96/64, ...": the pairs that differ. */
void ap_print_pairs(char *text, size_t size);

/* ---- driver.c -------------------------------------------------------------------------------- */

typedef struct ap_driver {
  void *library; /* of dlopen; NULL: not opened */
  int version;   /* 13000 for CUDA 13.0 */
#define AP_POINTER(name, symbol, parameters) CUresult(*name) parameters;
  AP_CUDA_FUNCTIONS(AP_POINTER)
  AP_CUDA_OPTIONAL_FUNCTIONS(AP_POINTER)
#undef AP_POINTER
} ap_driver;

/** Opens libcuda.so.1, or what ATTNPRESS_LIBCUDA names (for tests), and initialises it; NO_DRIVER
 * where it is missing, older than CUDA 12.0, or sees no GPU. */
attnpress_status ap_driver_open(ap_driver *driver);
void ap_driver_close(ap_driver *driver);
/** DRIVER_ERROR: "`what` failed: CUDA_ERROR_... (text)". */
attnpress_status ap_driver_fail(const ap_driver *driver, CUresult result, const char *what);

/* ---- nvrtc.c --------------------------------------------------------------------------------- */

enum { AP_PATH_MAX = 4096 };

typedef struct ap_nvrtc {
  void *library, *builtins;
  int major, minor;
  char path[AP_PATH_MAX]; /* the file that was opened */
#define AP_POINTER(name, symbol, parameters) nvrtcResult(*name) parameters;
  AP_NVRTC_FUNCTIONS(AP_POINTER)
#undef AP_POINTER
} ap_nvrtc;

/** Opens NVRTC: `path` (or NULL), then as attnpress_options.nvrtc_path says. driver_version 0: no
 * driver, every version is welcome. */
attnpress_status ap_nvrtc_open(ap_nvrtc *nvrtc, const char *path, int driver_version);
void ap_nvrtc_close(ap_nvrtc *nvrtc);

/* ---- cubin.c --------------------------------------------------------------------------------- */

/** Registers and local memory (stack and spills, bytes) of a thread of the kernel `symbol`, read
 * from the cubin itself; 0 and -1 where it does not say. */
void ap_cubin_resources(const unsigned char *data, size_t size, const char *symbol,
                        int32_t *registers, int32_t *local_bytes);

/* ---- press/target.c --------------------------------------------------------------------------- */

typedef struct ap_device {
  int ordinal;
  int capability; /* 90 for 9.0 */
  int sm_count, threads_per_sm, smem_per_sm_bytes, smem_per_block_bytes;
  int tma;      /* 1: the driver makes tensor maps */
  int arch_max; /* attnpress_options.arch_max */
} ap_device;

/** NOT_SUPPORTED, naming device and requirement, where no architecture serves the device. */
attnpress_status ap_check_capability(int capability);
/** The numbers of a device that runs a target's cubins, the largest of its kind. */
attnpress_status ap_device_of_target(const char *target, ap_device *device);

typedef struct ap_target {
  const char *name; /* "sm_90" */
  int capability;   /* the least that it runs on */
  int smem_per_block_bytes;
} ap_target;
extern const ap_target ap_targets[];
extern const size_t ap_targets_count;
/** "sm_80, sm_86, ... and sm_120". */
void ap_print_targets(char *text, size_t size);
/** The row of a target; NULL where it is unknown. */
const ap_target *ap_find_target(const char *name);
/** The target of a stem's arch for a device; NULL: the device does not run that arch. */
const char *ap_target_for(int capability, int arch);
/** The target of combine kernels, whose stems all say sm80 and which run on every device; NULL: the
 * device is unknown. */
const char *ap_combine_target_for(int capability);

/* ---- cuda/launch.c ---------------------------------------------------------------------------- */

struct ap_bound;
/** Launches a kernel; its context is current. `block`: its argument block. `overlaps`: the kernel may
 * begin before what was launched before it has ended, and waits for that end itself
 * (griddepcontrol.wait). */
attnpress_status ap_launch_kernel(const ap_driver *driver, const struct ap_bound *bound,
                                  unsigned grid, const ap_tile *tile, int overlaps, void *block,
                                  CUstream stream);

/* ---- jit.c ----------------------------------------------------------------------------------- */

/** A cubin in host memory. */
typedef struct ap_image {
  const unsigned char *data;
  size_t size;
  unsigned char *owned; /* the same, to be freed */
  int32_t origin;       /* ATTNPRESS_ORIGIN_... */
  int32_t layer;        /* AP_LAYER_... */
  int32_t registers, spill_bytes;
  double compile_ms;              /* time in NVRTC, now; 0: nothing was compiled */
  char compiler[AP_COMPILER_MAX]; /* "NVRTC 13.0" */
} ap_image;
void ap_image_free(ap_image *image);

/** What is asked of the layers: one cubin. */
typedef struct ap_request {
  ap_variant variant;
  ap_tile tile;
  char stem[AP_STEM_MAX], tile_name[AP_TILE_NAME_MAX], target[AP_TARGET_MAX];
} ap_request;
attnpress_status ap_request_init(ap_request *request, const ap_variant *variant,
                                 const char *target);

/** The options that decide what NVRTC makes, but for the target; the rest is in jit.c. */
const char *const *ap_jit_options(size_t *count);
/** The key of a cubin: schema, source, digest of the device headers, options, target. */
void ap_cubin_key(const char *source, size_t size, const char *target, ap_key *key);

attnpress_status ap_jit_compile(ap_nvrtc *nvrtc, const ap_log *log, const ap_request *request,
                                const char *source, ap_image *image);

/* ---- find.c ---------------------------------------------------------------------------------- */

enum { /* layers that a cubin may come from, in the order in which they are asked */
       AP_LAYER_PREBUILT = 1,
       AP_LAYER_READ_ONLY = 2,
       AP_LAYER_USER = 4,
       AP_LAYER_JIT = 8,
       AP_LAYER_DISK = AP_LAYER_READ_ONLY | AP_LAYER_USER,
       AP_LAYER_ALL = 15
};

/** The cubin from the first of `layers` that has it; NO_KERNEL where none has. image->layer says
 * which one it was. A compiled cubin is published in the user's cache; *publish_status (may be
 * NULL) says whether that worked, since a call goes on without. */
attnpress_status ap_find_image(attnpress_handle *handle, const ap_request *request, int layers,
                               ap_image *image, attnpress_status *publish_status);
/** Removes an entry that the driver refused from the user's cache. */
void ap_forget_image(attnpress_handle *handle, const ap_request *request);
const char *ap_origin_name(int32_t origin); /* "prebuilt", "cache", "jit" ... */

/* ---- kernel.c -------------------------------------------------------------------------------- */

typedef enum ap_kernel_state {
  AP_KERNEL_EMPTY,  /* nobody has it, nobody fetches it */
  AP_KERNEL_BUSY,   /* one thread fetches it, others wait */
  AP_KERNEL_READY,  /* loaded */
  AP_KERNEL_FAILED, /* fetching it failed for good: status and sentence are kept */
} ap_kernel_state;

/** A cubin that is, or is to be, loaded; one for each variant and target. Guarded by handle->lock
 * but for the fields of the thread that has made it BUSY; never freed before the handle. */
typedef struct ap_kernel {
  struct ap_kernel *next;
  ap_request request;
  ap_kernel_state state;
  CUlibrary library;
  CUkernel kernel;
  int32_t origin, registers, spill_bytes;
  double compile_ms;
  size_t cubin_bytes;
  attnpress_status failure;
  char sentence[AP_SENTENCE_MAX];
} ap_kernel;

/** A kernel in a context: what a launch needs. Immutable once published. */
typedef struct ap_bound {
  uint64_t variant_key;
  CUfunction function;
  const ap_kernel *kernel;
} ap_bound;

/** Open addressing, linear probing, at most half full; readers take no lock. A full table is
 * replaced by a larger one and kept until the handle goes, since a reader may still look at it. */
typedef struct ap_bound_table {
  struct ap_bound_table *older;
  size_t capacity, count; /* capacity is a power of two; count is the writers' */
  _Atomic(ap_bound *) slots[];
} ap_bound_table;

/** What a handle knows of a context. Immutable but for its table; kept until the handle goes, also
 * where the context goes before, since a reader may be looking at it. */
typedef struct ap_context {
  struct ap_context *next;
  CUcontext context;
  unsigned long long id; /* tells a context from a later one at the same address */
  ap_device device;
  _Atomic(ap_bound_table *) table;
} ap_context;

typedef enum ap_nvrtc_state {
  AP_NVRTC_UNTRIED,
  AP_NVRTC_OPEN,
  AP_NVRTC_FAILED, /* the sentence is kept */
} ap_nvrtc_state;

struct attnpress_handle {
  int32_t backend, jit_off, num_threads, arch_max;
  ap_log log;
  ap_cache cache;
  ap_driver driver;
  char *nvrtc_path; /* the option; NULL: search */

  pthread_mutex_t lock; /* kernels, and adding to contexts and tables; never held while compiling */
  pthread_cond_t loaded; /* a kernel stopped being BUSY */
  ap_kernel *kernels;
  _Atomic(ap_context *) contexts;

  pthread_mutex_t nvrtc_lock; /* held while NVRTC is searched for, not while it compiles */
  ap_nvrtc_state nvrtc_state;
  ap_nvrtc nvrtc;
  attnpress_status nvrtc_failure;
  char nvrtc_sentence[AP_SENTENCE_MAX];
};

/** The context that work on `stream` runs in: the stream's, or the calling thread's current one. */
attnpress_status ap_context_of(attnpress_handle *handle, CUstream stream, ap_context **context);
/** The kernel of a variant in a context, loaded and compiled where needed. `stream` is asked
 * whether it is being captured before anything is loaded; no_stream: 1 where the call has none. */
attnpress_status ap_kernel_get(attnpress_handle *handle, ap_context *context,
                               const ap_variant *variant, const char *target, CUstream stream,
                               int no_stream, const ap_bound **bound);
/** The loaded kernel of (variant, target), with a copy of what is known of it; 0: not loaded. */
int ap_kernel_loaded(attnpress_handle *handle, const ap_request *request, ap_kernel *copy);
void ap_kernels_free(attnpress_handle *handle);

/** Makes a context current for the calling thread, if it is not; leaves with ap_leave(). */
attnpress_status ap_enter(attnpress_handle *handle, CUcontext context, int *pushed);
void ap_leave(attnpress_handle *handle, int pushed);

/* ---- handle.c -------------------------------------------------------------------------------- */

/** The handle's NVRTC, searched for once. */
attnpress_status ap_handle_nvrtc(attnpress_handle *handle, ap_nvrtc **nvrtc);
/** Reads a device's numbers; NOT_SUPPORTED where it is too old or unknown. */
attnpress_status ap_device_read(const ap_driver *driver, CUdevice ordinal, ap_device *device);

/* ---- compile.c ------------------------------------------------------------------------------- */

/** Fills what a request says of its kernel. */
void ap_request_describe(const ap_request *request, attnpress_info *info);
/** Checks the struct_size and the tail of a caller's attnpress_info. */
attnpress_status ap_check_info(const attnpress_info *info);
/** Writes what was found; the caller's struct_size stays. */
void ap_write_info(const attnpress_info *found, attnpress_info *info);
