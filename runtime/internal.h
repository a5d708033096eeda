/* What the files of runtime/ share and nobody else sees. One part a file, in the order of a call:
 * validate -> choose -> kernel (memory, linked in, cache, jit) -> launch. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "attnpress/attnpress.h"
#include "attnpress/kernel_args.h"
#include "cache/cache.h"
#include "cuda/cuda_api.h"
#include "../generated/families.h"
#include "core/error.h"
#include "press/registry.h"
#include "press/target.h"

enum { AP_SPLITS_MAX = 256, AP_THREADS_MAX = 1024 };

/* ---- validate.c ------------------------------------------------------------------------------ */

const char *ap_dtype_name(int32_t dtype); /* "fp16" */

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

/* ---- choose.c -------------------------------------------------------------------------------- */

/** A forward call, checked and reduced to what choosing a kernel needs. */
typedef struct ap_problem {
  int32_t batch, heads_q, heads_kv, seqlen_q, seqlen_k, hdim, hdim_v;
  int32_t dtype, mask;
  int32_t num_splits;       /* as asked for; 0: to be chosen */
  int32_t tma;              /* 1: tensor maps can describe Q, K and V */
  int32_t tma_min, tma_max; /* the least and the most that `tma` is for any batch and lengths */
} ap_problem;

typedef struct ap_device {
  int ordinal;
  int capability; /* 90 for 9.0 */
  int sm_count, threads_per_sm, smem_per_sm_bytes, smem_per_block_bytes;
  int tma;      /* 1: the driver makes tensor maps */
  int arch_max; /* attnpress_options.arch_max */
} ap_device;

/** How a problem is run on a device. */
typedef struct ap_plan {
  ap_variant variant;
  ap_tile tile;
  const char *target;
  int32_t heads_per_tile, row_blocks, num_splits, key_blocks_per_split;
  unsigned grid; /* thread blocks; 0: the output is empty */
  /* The kernel may begin before what was launched before it has ended: it waits for that itself. */
  int overlaps, combine_overlaps;
  /* Only where thread blocks take one unit of work after another (tile.producer), and as in
   * attnpress_fwd_sm90_args: */
  int32_t heads, section_heads, group_units, group_rounds, rounds;
  /* Only where variant.split: */
  ap_variant combine;
  ap_tile combine_tile;
  const char *combine_target;
  unsigned combine_grid;
  size_t lse_partial_offset_bytes; /* in the workspace, behind out_partial */
  size_t workspace_bytes;
} ap_plan;

attnpress_status ap_choose(const ap_problem *problem, const ap_device *device, ap_plan *plan);
/** How a kernel divides integers from 0 to 2^31 - 1 by a positive one. */
attnpress_divisor ap_divisor(int32_t value);
/** The split count for `blocks` thread blocks of one split over `key_blocks` key blocks, on a
 * device that holds `slots` thread blocks at once. */
int ap_choose_num_splits(int64_t blocks, int64_t key_blocks, int64_t slots);
/** Thread blocks of a tile that an SM holds, estimated from shared memory, threads and registers.
 */
int ap_blocks_per_sm(const ap_tile *tile, const ap_device *device);

enum { AP_VARIANTS_MAX = 16 };
/** Every variant that ap_choose() may return, combine kernels included, for any batch and lengths.
 */
attnpress_status ap_choose_all(const ap_problem *problem, const ap_device *device,
                               ap_variant variants[AP_VARIANTS_MAX],
                               const char *targets[AP_VARIANTS_MAX], int *count);

/* ---- validate.c ------------------------------------------------------------------------------ */

/** Copies a caller's versioned struct: `known_bytes` of it to `copy`, unless it is smaller, or
 * larger with a tail that is not zero. The first field is its size. */
attnpress_status ap_copy_struct(const void *given, void *copy, size_t known_bytes,
                                const char *name);
/** Checks all of a call's arguments. with_data 0: pointers are ignored. The workspace is not looked
 * at. */
attnpress_status ap_validate_forward(const attnpress_forward_args *args, int32_t backend,
                                     int with_data, ap_problem *problem);
attnpress_status ap_validate_options(const attnpress_options *options);

/* ---- tensor_map.c ---------------------------------------------------------------------------- */

/** 1 where tensor maps can describe Q, K and V, if the batch and the lengths are these. */
int ap_tensor_maps_fit(const attnpress_forward_args *args, int64_t batch, int64_t seqlen_q,
                       int64_t seqlen_k);
/** Writes the maps of a call whose problem has `tma` and whose output is not empty. */
attnpress_status ap_tensor_maps_encode(const ap_driver *driver, const attnpress_forward_args *args,
                                       const ap_plan *plan, attnpress_fwd_sm90_args *kernel_args);

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

/** Checks the struct_size and the tail of a caller's attnpress_info. */
attnpress_status ap_check_info(const attnpress_info *info);
/** Writes what was found; the caller's struct_size stays. */
void ap_write_info(const attnpress_info *found, attnpress_info *info);
