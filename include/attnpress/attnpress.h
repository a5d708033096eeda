/* attnpress: exact attention on NVIDIA GPUs, and on the CPU, from C.
 *
 *     out[b, i, h, :] = sum_j softmax_j(scale * <q[b, i, h, :], k[b, j, h / group, :]>) v[b, j, h /
 * group, :]
 *
 * A handle is made once and used by every thread:
 *
 *     attnpress_handle *handle;
 *     if (attnpress_create(&handle, NULL) != ATTNPRESS_OK) puts(attnpress_last_error());
 *     attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
 *     args.q = attnpress_tensor_bshd(q, batch, seqlen_q, heads_q, 128, ATTNPRESS_BF16);
 *     ... k, v, out the same way
 *     status = attnpress_forward(handle, &args, stream);
 *     attnpress_destroy(handle);
 *
 * Conventions
 *   - Every function that can fail returns an attnpress_status; 0 is success.
 * attnpress_last_error() then holds one sentence of the calling thread: the value that was wrong,
 * what is allowed, and the mend.
 *   - Zero means default in every field. Argument structs begin with struct_size (the _INIT macros
 * set it); a larger struct than this library knows is accepted if its unknown tail is zero, so that
 * newer callers run on older libraries as long as they use nothing newer.
 *   - Strides and shapes are in elements; names that end in _bytes are in bytes, names that end in
 * _ms in milliseconds.
 *   - GPU calls are asynchronous on the caller's stream. Nothing here prints, exits, synchronises,
 * or allocates device memory. Kernels load on first use; attnpress_prepare_forward() does that
 * ahead of time.
 *   - All functions are thread-safe; only attnpress_destroy() needs the handle to itself.
 *
 * This version computes the forward pass. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(ATTNPRESS_BUILD_SHARED)
#define ATTNPRESS_API __attribute__((visibility("default")))
#else
#define ATTNPRESS_API
#endif

#define ATTNPRESS_VERSION_MAJOR 0
#define ATTNPRESS_VERSION_MINOR 1
#define ATTNPRESS_VERSION_PATCH 0
/** 10000 * major + 100 * minor + patch. */
#define ATTNPRESS_VERSION                                                                          \
  (ATTNPRESS_VERSION_MAJOR * 10000 + ATTNPRESS_VERSION_MINOR * 100 + ATTNPRESS_VERSION_PATCH)

/* ---- Status ---------------------------------------------------------------------------------- */

/** One list gives the enum, attnpress_status_string() and the documentation: X(name, value,
 * sentence). */
#define ATTNPRESS_STATUS_MAP(X)                                                                    \
  X(OK, 0, "success")                                                                              \
  X(INVALID_ARGUMENT, 1, "an argument is not allowed")                                             \
  X(NOT_SUPPORTED, 2, "a valid request that this version or this device cannot run")               \
  X(WORKSPACE_TOO_SMALL, 3, "the call needs a larger workspace")                                   \
  X(OUT_OF_MEMORY, 4, "host memory ran out")                                                       \
  X(NO_DRIVER, 5, "the CUDA driver is not available")                                              \
  X(NO_NVRTC, 6, "a kernel must be compiled and NVRTC is not available")                           \
  X(NO_KERNEL, 7, "the kernel is neither linked in nor cached, and compiling is switched off")     \
  X(CAPTURING, 8, "a kernel must be loaded while the stream is being captured; prepare it first")  \
  X(COMPILE_FAILED, 9, "NVRTC could not compile a kernel")                                         \
  X(DRIVER_ERROR, 10, "a CUDA driver call failed")                                                 \
  X(IO_ERROR, 11, "a file or directory could not be used")

typedef int32_t attnpress_status;
enum {
#define ATTNPRESS_STATUS_ENUM(name, value, sentence) ATTNPRESS_##name = value,
  ATTNPRESS_STATUS_MAP(ATTNPRESS_STATUS_ENUM)
#undef ATTNPRESS_STATUS_ENUM
};

/** The fixed sentence of a status; never NULL. */
ATTNPRESS_API const char *attnpress_status_string(attnpress_status status);

/** What went wrong in the calling thread's last failed call; "" if none failed. Valid until the
 * thread's next call. */
ATTNPRESS_API const char *attnpress_last_error(void);

/** ATTNPRESS_VERSION of the library that is loaded. */
ATTNPRESS_API int attnpress_version(void);

/* ---- Handle ---------------------------------------------------------------------------------- */

typedef struct attnpress_handle
    attnpress_handle; /* serves every device and context of the process */

/** attnpress_options.backend */
enum {
  ATTNPRESS_CUDA = 0,        /* device pointers; every device of compute capability 8.0 or newer */
  ATTNPRESS_CPU = 1,         /* host pointers; needs no driver and no GPU */
  ATTNPRESS_COMPILE_ONLY = 2 /* no driver and no launches: attnpress_compile() alone */
};

/** attnpress_options.log: severity of a message */
enum { ATTNPRESS_LOG_INFO = 0, ATTNPRESS_LOG_WARNING = 1 };

typedef struct attnpress_options {
  size_t struct_size;
  int32_t backend;   /* ATTNPRESS_CUDA, _CPU or _COMPILE_ONLY */
  int32_t jit_off;   /* 1: a kernel that is neither linked in nor cached is ATTNPRESS_NO_KERNEL */
  int32_t cache_off; /* 1: the user's cache directory is neither read nor written; read-only layers
                        still are */
  int32_t num_threads; /* CPU backend: threads a call may use, 0: all of the process's cores; at
                          most 1024 */
  /** Path of libnvrtc (that of pip's nvidia-cuda-nvrtc, say). NULL: ATTNPRESS_NVRTC, then what the
   * process has loaded, the loader's path, CUDA_HOME and /usr/local/cuda. */
  const char *nvrtc_path;
  /** Directory of the user's cubin cache: created with mode 0700 where missing; owned by the
   * caller, not a symbolic link, not open to others (otherwise calls that need it give
   * ATTNPRESS_IO_ERROR). One that is full, read-only or cannot be made costs speed, never an
   * answer. NULL: ATTNPRESS_CACHE_DIR, then $XDG_CACHE_HOME/attnpress, then ~/.cache/attnpress; in
   * these last two places one that must not be trusted is passed over, with a warning. */
  const char *cache_dir;
  /** Further cache directories that are only read (owner: root or the caller); NULL-terminated
   * array, or NULL. */
  const char *const *read_only_dirs;
  uint64_t cache_max_bytes; /* bound of the user's cache, least recently used first; 0: 512 MiB */
  /** Hears one line before a kernel is compiled, one for each kernel that is loaded or compiled
   * (stem, tile, target, origin, milliseconds) and each cache entry that is replaced, and NVRTC's
   * log where there is one. Called from threads that are in a call of this handle's, possibly
   * several at once, with no lock held and no other thread waiting: it may use the handle, and it
   * need not return. Lines of a kernel that is being fetched come when that is done. NULL: silent.
   */
  void (*log)(void *user, int level, const char *message);
  void *log_user;
  /** Kernels that were written for a newer architecture than this (80, 86 or 90; 0: no limit) are
   * passed over where a device can run others: to compare, or to go round a fault. */
  int32_t arch_max;
  int32_t reserved; /* 0 */
} attnpress_options;
#define ATTNPRESS_OPTIONS_INIT                                                                     \
  { sizeof(attnpress_options), 0, 0, 0, 0, NULL, NULL, NULL, 0, NULL, NULL, 0, 0 }

/** Makes a handle. `options` may be NULL. Opens nothing but, for ATTNPRESS_CUDA, the driver
 * (ATTNPRESS_NO_DRIVER where there is none). On failure *handle is NULL. */
ATTNPRESS_API attnpress_status attnpress_create(attnpress_handle **handle,
                                                const attnpress_options *options);

/** Frees a handle and unloads its kernels; NULL is fine. All work and graphs that use it must be
 * done. */
ATTNPRESS_API void attnpress_destroy(attnpress_handle *handle);

/* ---- Forward --------------------------------------------------------------------------------- */

/** attnpress_tensor.dtype */
enum { ATTNPRESS_FP16 = 1, ATTNPRESS_BF16 = 2, ATTNPRESS_FP32 = 3 /* CPU backend only */ };

/** attnpress_forward_args.mask */
enum {
  ATTNPRESS_FULL = 0,
  ATTNPRESS_CAUSAL = 1 /* bottom-right aligned: query i sees keys j <= i + seqlen_k - seqlen_q */
};

/** A 4-D tensor (batch, seqlen, heads, head_dim). stride[3] must be 1, the other strides multiples
 * of 8 elements and not negative (any value where that dimension's extent is 1), data 16-byte
 * aligned. Other layouts are other strides: a (batch, heads, seqlen, head_dim) tensor has stride[1]
 * = head_dim and stride[2] = seqlen * head_dim, and a stride of 0 broadcasts an input. data may be
 * NULL where an extent is 0. Strides of 2^39 elements and more keep devices of compute
 * capability 9.0 from their fastest kernels. */
typedef struct attnpress_tensor {
  void *data;
  int64_t shape[4];  /* batch, seqlen, heads, head_dim */
  int64_t stride[4]; /* in elements */
  int32_t dtype;
  int32_t reserved; /* 0 */
} attnpress_tensor;
#define ATTNPRESS_TENSOR_INIT                                                                      \
  { NULL, {0, 0, 0, 0}, {0, 0, 0, 0}, 0, 0 }

/** A contiguous (batch, seqlen, heads, head_dim) tensor. */
static inline attnpress_tensor attnpress_tensor_bshd(const void *data, int64_t batch,
                                                     int64_t seqlen, int64_t heads,
                                                     int64_t head_dim, int32_t dtype) {
  attnpress_tensor t = {(void *)data,
                        {batch, seqlen, heads, head_dim},
                        {seqlen * heads * head_dim, heads * head_dim, head_dim, 1},
                        dtype,
                        0};
  return t;
}

/** A contiguous (batch, heads, seqlen, head_dim) tensor. */
static inline attnpress_tensor attnpress_tensor_bhsd(const void *data, int64_t batch,
                                                     int64_t seqlen, int64_t heads,
                                                     int64_t head_dim, int32_t dtype) {
  attnpress_tensor t = {(void *)data,
                        {batch, seqlen, heads, head_dim},
                        {seqlen * heads * head_dim, head_dim, seqlen * head_dim, 1},
                        dtype,
                        0};
  return t;
}

typedef struct attnpress_forward_args {
  size_t struct_size;
  attnpress_tensor q; /* (batch, seqlen_q, heads_q, head_dim) */
  attnpress_tensor k; /* (batch, seqlen_k, heads_kv, head_dim); heads_q is a multiple of heads_kv */
  attnpress_tensor v; /* (batch, seqlen_k, heads_kv, head_dim_v) */
  /** (batch, seqlen_q, heads_q, head_dim_v); written; rows that see no key become 0. Its strides
   * are at least head_dim_v, so that no two rows overlap. */
  attnpress_tensor out;
  /** Natural logarithm of each row's sum of exponentials of the scaled scores, -inf for rows that
   * see no key: (batch, heads_q, seqlen_q), last dimension contiguous. NULL: not written. */
  float *lse;
  int64_t lse_stride[2]; /* batch, head, in elements; both 0: contiguous */
  float scale;           /* positive and finite; 0: 1 / sqrt(head_dim) */
  int32_t mask;          /* ATTNPRESS_FULL or ATTNPRESS_CAUSAL */
  /** Parts that the keys of each row are split into, each part a thread block of its own, combined
   * by a second kernel: 1 to 256; 0: chosen from shapes and device, never from device data. The CPU
   * backend ignores it. */
  int32_t num_splits;
  int32_t reserved; /* 0 */
  /** Device memory, 16-byte aligned, private to this call until it is done; needed for splits. */
  void *workspace;
  size_t workspace_bytes; /* at least attnpress_forward_workspace_size() */
} attnpress_forward_args;
#define ATTNPRESS_FORWARD_ARGS_INIT                                                                \
  {                                                                                                \
    sizeof(attnpress_forward_args), ATTNPRESS_TENSOR_INIT, ATTNPRESS_TENSOR_INIT,                  \
        ATTNPRESS_TENSOR_INIT, ATTNPRESS_TENSOR_INIT, NULL, {0, 0}, 0.0f, 0, 0, 0, NULL, 0         \
  }

/** Head dimensions: multiples of 8 from 8 to 512; head_dim_v equal to head_dim, or head_dim /
 * head_dim_v one of 192/128, 128/64, 64/128, 96/64, 256/128. Lengths up to 2^31 - 1024, batch and
 * heads up to 2^31 - 1, 0 included.
 *
 * `stream` is a CUstream or cudaStream_t of the calling thread's current context (NULL: the default
 * stream); the CPU backend ignores it and returns when the result is there. A missing kernel is
 * compiled in this call, on first use. */
ATTNPRESS_API attnpress_status attnpress_forward(attnpress_handle *handle,
                                                 const attnpress_forward_args *args, void *stream);

/** Bytes of workspace that attnpress_forward() needs for these arguments (data pointers are
 * ignored); often 0. */
ATTNPRESS_API attnpress_status attnpress_forward_workspace_size(attnpress_handle *handle,
                                                                const attnpress_forward_args *args,
                                                                size_t *bytes);

/** Loads every kernel that attnpress_forward() may choose for these arguments, strides included,
 * and any batch or length (data pointers are ignored), compiling where needed, so that later calls
 * neither wait nor fail under stream capture. */
ATTNPRESS_API attnpress_status attnpress_prepare_forward(attnpress_handle *handle,
                                                         const attnpress_forward_args *args);

/** attnpress_info.origin */
enum {
  ATTNPRESS_ORIGIN_NONE = 0,     /* not available: would need a compile and compiling is off */
  ATTNPRESS_ORIGIN_PREBUILT = 1, /* linked into the library */
  ATTNPRESS_ORIGIN_DISK = 2,     /* the user's cache or a read-only layer */
  ATTNPRESS_ORIGIN_JIT = 3,      /* compiled by NVRTC (describe: would be compiled) */
  ATTNPRESS_ORIGIN_MEMORY = 4,   /* already loaded by this handle */
  ATTNPRESS_ORIGIN_CPU = 5       /* the CPU backend's own code */
};

typedef struct attnpress_info {
  size_t struct_size;
  char stem[128]; /* name of the kernel: source file, symbol, log line */
  char
      combine_stem[128]; /* name of the kernel that combines the splits; "" where num_splits is 1 */
  char tile[64];         /* tile shape the kernel was pressed with */
  char target[16];       /* what the cubin was compiled for, such as sm_90 */
  int32_t origin;        /* ATTNPRESS_ORIGIN_...: where the kernel came from, or would */
  int32_t num_splits;
  int32_t registers;   /* per thread; 0 where not known yet */
  int32_t spill_bytes; /* local memory per thread; -1 where not known yet */
  int32_t smem_bytes;  /* dynamic shared memory per block */
  int32_t reserved;
  double compile_ms;  /* time in NVRTC; 0 where nothing was compiled */
  size_t cubin_bytes; /* 0 where not known yet */
} attnpress_info;
#define ATTNPRESS_INFO_INIT                                                                        \
  { sizeof(attnpress_info), "", "", "", "", 0, 0, 0, -1, 0, 0, 0.0, 0 }

/** Says what attnpress_forward() would run for these arguments (data pointers are ignored), without
 * running or compiling it. */
ATTNPRESS_API attnpress_status attnpress_describe_forward(attnpress_handle *handle,
                                                          const attnpress_forward_args *args,
                                                          attnpress_info *info);

/* ---- Kernels by name
 * ---------------------------------------------------------------------------------------- */

/** Makes sure that a kernel's cubin is linked in or cached, compiling it where needed; works
 * without a GPU on an ATTNPRESS_COMPILE_ONLY handle. `stem` such as
 * "flash_fwd_hdim72_bf16_causal_sm80"; `target` such as "sm_90", NULL: the current device's if
 * there is one, else the stem's own. `info` may be NULL. ATTNPRESS_IO_ERROR where the cubin was
 * compiled and could not be cached: `info` is filled then too. With cache_off it is only compiled.
 */
ATTNPRESS_API attnpress_status attnpress_compile(attnpress_handle *handle, const char *stem,
                                                 const char *target, attnpress_info *info);

/** The CUDA source of a kernel, as NVRTC gets it: a NUL-terminated text that the caller frees with
 *  attnpress_free_source(). Needs no handle, no GPU and no NVRTC. */
ATTNPRESS_API attnpress_status attnpress_render_source(const char *stem, char **source);
ATTNPRESS_API void attnpress_free_source(char *source); /* NULL is fine */

#ifdef __cplusplus
}
#endif
