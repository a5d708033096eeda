/* attnpress: exact attention on NVIDIA GPUs, and on the CPU, from C.
 *
 *     out[b, i, h, :] = sum_j softmax_j(scale * <q[b, i, h, :], k[b, j, h / group, :]>)
 *                             * v[b, j, h / group, :]
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
 * Each operation (here the forward and the backward pass; other families have headers of their own
 * beside this one) has one function that runs it and one that makes a plan of it. A plan says what
 * the call would launch and how much workspace it needs, loads its kernels ahead of time, and runs
 * it again.
 *
 * Conventions
 *
 * Status. Every function that can fail returns an attnpress_status; 0 is success. After a failure
 * attnpress_last_error() returns one sentence for the calling thread: the value that was wrong,
 * what is allowed, and the remedy. Each function lists the statuses that it can return; a function
 * that takes a handle or a struct returns INVALID_ARGUMENT where that is NULL. After a failure
 * nothing was launched and no output was written, with one exception: DRIVER_ERROR from the second
 * or a later launch of a call, whose outputs are then undefined.
 *
 * Structs that grow. Argument structs begin with struct_size, which the _INIT macros set. A smaller
 * struct comes from an older caller: fields that it lacks count as zero. A larger one comes from a
 * newer caller: it is accepted if the fields that this library does not know are zero. What is
 * written back is cut to the caller's size. A struct_size below that of the first version is
 * refused as not initialised. Zero means default in every field. A group of optional fields is a
 * pointer to such a struct of its own, NULL where it is not used. attnpress_tensor is frozen.
 *
 * Units. Strides and shapes are in elements; names that end in _bytes are in bytes, names that end
 * in _ms in milliseconds.
 *
 * Buffers. Outputs and workspace must not overlap each other or an input, unless a function says
 * that they may; this is not checked. Inputs may overlap each other. Workspace needs no initial
 * value and holds nothing from one call to the next.
 *
 * Work. GPU calls are asynchronous on the caller's stream. No function exits, synchronises or
 * allocates device memory, and none prints, with one exception: where ATTNPRESS_LOG asks for it. (A
 * handle with `check` also waits: see there.) Kernels are loaded on first use, or ahead of time by
 * attnpress_plan_prepare().
 *
 * Values. A NaN that a row sees makes that row NaN. What a row does not see, such as masked keys
 * and what lies between strided rows, never reaches it, even if it is NaN.
 *
 * Determinism. The forward pass gives the same bits for the same data whenever shapes, strides,
 * options and device are the same, and dropout the same mask for the same seed and offset. In the
 * backward pass dk and dv do too; dq does where attnpress_backward_args.deterministic asks for it.
 *
 * Threads. All functions are thread-safe, except that no other thread may use a handle during or
 * after its attnpress_destroy(). A plan is immutable and may be used by many threads at once. A
 * call on the CPU starts its threads and joins them before it returns.
 *
 * Contexts. A handle loads its kernels once for each CUDA context that its calls run in. A context
 * may be destroyed or reset before the handle, after the work in it has ended: the handle goes on
 * to serve others, and notices a new context at the same address.
 *
 * Processes. After fork() a child may use CPU and compile-only handles that it makes itself, and
 * those of its parent if no thread was inside a call at the fork. A CUDA handle stays with the
 * parent, as the driver's contexts do: in a child, calls that meet a new context or load a kernel
 * return INVALID_ARGUMENT, other calls whatever the driver reports, and attnpress_destroy() does
 * nothing. The parent may fork at any time; this delays no thread that waits for a kernel.
 *
 * Platforms. Linux on 64-bit little-endian processors: x86-64, and aarch64, where the code for the
 * CPU is plain C. The build refuses all others, including Windows and macOS. */
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
#define ATTNPRESS_VERSION_MINOR 3
#define ATTNPRESS_VERSION_PATCH 0
/** 10000 * major + 100 * minor + patch. */
#define ATTNPRESS_VERSION                                                                          \
  (ATTNPRESS_VERSION_MAJOR * 10000 + ATTNPRESS_VERSION_MINOR * 100 + ATTNPRESS_VERSION_PATCH)

/* ---- Status ---------------------------------------------------------------------------------- */

/** One list gives the enum, attnpress_status_string() and the documentation:
 * X(name, value, sentence). */
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

/** What went wrong in the calling thread's last failed call; "" if none has failed. Valid until the
 * thread's next call. */
ATTNPRESS_API const char *attnpress_last_error(void);

/** ATTNPRESS_VERSION of the library that is loaded. */
ATTNPRESS_API int attnpress_version(void);

/* ---- Handle ---------------------------------------------------------------------------------- */

typedef struct attnpress_handle attnpress_handle; /* serves every device of the process */

/** attnpress_options.backend */
enum {
  ATTNPRESS_CUDA = 0,        /* device pointers; every device of compute capability 8.0 or newer */
  ATTNPRESS_CPU = 1,         /* host pointers; needs no driver and no GPU */
  ATTNPRESS_COMPILE_ONLY = 2 /* no driver and no launches: plans for named targets, and
                                attnpress_compile() */
};

/** attnpress_options.log: severity of a message */
enum { ATTNPRESS_LOG_INFO = 0, ATTNPRESS_LOG_WARNING = 1 };

/** An option that is at its default, 0 or NULL, takes the value of its environment variable, which
 * is read once, in attnpress_create():
 *
 *     jit_off          ATTNPRESS_JIT_OFF
 *     cache_off        ATTNPRESS_CACHE_OFF
 *     cache_dir        ATTNPRESS_CACHE_DIR
 *     read_only_dirs   ATTNPRESS_CACHE_LAYERS, with ':' between directories
 *     cache_max_bytes  ATTNPRESS_CACHE_MAX_BYTES, such as 512M
 *     num_threads      ATTNPRESS_NUM_THREADS
 *     nvrtc_path       ATTNPRESS_NVRTC
 *     arch_max         ATTNPRESS_ARCH_MAX
 *     check            ATTNPRESS_CHECK
 *     log              ATTNPRESS_LOG, info or warning: messages from that level on go to stderr
 *
 * ATTNPRESS_LIBCUDA names the driver's library. A value that is not allowed is INVALID_ARGUMENT. A
 * program that runs with more rights than its caller (set-user-ID, say) ignores all of them. */
typedef struct attnpress_options {
  size_t struct_size;
  int32_t backend;   /* ATTNPRESS_CUDA, _CPU or _COMPILE_ONLY */
  int32_t jit_off;   /* 1: a kernel that is neither linked in nor cached is ATTNPRESS_NO_KERNEL */
  int32_t cache_off; /* 1: the user's cache directory is neither read nor written; read-only layers
                        still are */
  int32_t num_threads; /* CPU backend: threads that a call may use, at most 1024; 0: as many as the
                          process has cores */
  /** Path of libnvrtc (that of pip's nvidia-cuda-nvrtc, say). NULL: ATTNPRESS_NVRTC, then the
   * library that the process has loaded, the loader's path, CUDA_HOME and /usr/local/cuda. */
  const char *nvrtc_path;
  /** Directory of the user's cubin cache: created with mode 0700 where missing; owned by the
   * caller, not a symbolic link, not writable by others (otherwise calls that need it return
   * ATTNPRESS_IO_ERROR). If it is full, read-only or cannot be made, calls take longer and do not
   * fail. NULL: ATTNPRESS_CACHE_DIR, then $XDG_CACHE_HOME/attnpress, then ~/.cache/attnpress; in
   * these last two places one that must not be trusted is skipped, with a warning. */
  const char *cache_dir;
  /** Further cache directories that are only read; NULL-terminated array, or NULL. One that is
   * missing, or that must not be trusted (owner: root or the caller, writable to nobody else), is
   * skipped with a warning. */
  const char *const *read_only_dirs;
  uint64_t cache_max_bytes; /* bound of the user's cache, least recently used first; 0: 512 MiB */
  /** Receives one line before a kernel is compiled, one for each kernel that was loaded or compiled
   * (stem, tile, target, origin, milliseconds) and for each cache entry that was replaced or
   * evicted, and NVRTC's log if it is not empty. Called by threads that are in a call with this
   * handle, possibly by several at once, with no lock held and no other thread waiting: it may use
   * the handle, and it need not return. Lines about a kernel that is being fetched come when that
   * is done. NULL: silent, unless ATTNPRESS_LOG is set. */
  void (*log)(void *user, int level, const char *message);
  void *log_user;
  /** Kernels that were written for a newer architecture than this (80, 86 or 90; 0: no limit) are
   * skipped where the device can run others: to compare, or to work around a fault. */
  int32_t arch_max;
  /** 1: for debugging. Before a call is launched, the contents of its index arrays are checked:
   * lengths, page numbers, batch indices, slots, positions. If one does not fit, the call returns
   * INVALID_ARGUMENT with the sequence and the value, and nothing runs. Each such call copies the
   * arrays to the host and waits for its stream; calls that are being captured are not checked. */
  int32_t check;
} attnpress_options;
#define ATTNPRESS_OPTIONS_INIT                                                                     \
  { sizeof(attnpress_options), 0, 0, 0, 0, NULL, NULL, NULL, 0, NULL, NULL, 0, 0 }

/** Makes a handle. `options` may be NULL. Opens nothing except, for ATTNPRESS_CUDA, the driver. On
 * failure *handle is NULL. OK, INVALID_ARGUMENT, OUT_OF_MEMORY, NO_DRIVER, DRIVER_ERROR. */
ATTNPRESS_API attnpress_status attnpress_create(attnpress_handle **handle,
                                                const attnpress_options *options);

/** Frees a handle and unloads its kernels; NULL is fine. All work that was launched through it must
 * have ended, graphs that captured its calls must not be replayed any more, and its plans be
 * destroyed. */
ATTNPRESS_API void attnpress_destroy(attnpress_handle *handle);

/* ---- Forward --------------------------------------------------------------------------------- */

/** attnpress_tensor.dtype */
enum { ATTNPRESS_FP16 = 1, ATTNPRESS_BF16 = 2, ATTNPRESS_FP32 = 3 /* attention: CPU alone */ };

/** attnpress_forward_args.mask */
enum {
  ATTNPRESS_FULL = 0,
  ATTNPRESS_CAUSAL = 1, /* bottom-right aligned: query i sees keys j <= i + seqlen_k - seqlen_q */
  ATTNPRESS_WINDOW = 2  /* what attnpress_forward_args.window says */
};

/** A 4-D tensor (batch, seqlen, heads, head_dim). stride[3] must be 1, the other strides multiples
 * of 8 elements and not negative (any value where that dimension's extent is 1), and data aligned
 * to 16 bytes. Other layouts are other strides: a (batch, heads, seqlen, head_dim) tensor has
 * stride[1] = head_dim and stride[2] = seqlen * head_dim, and a stride of 0 broadcasts an input.
 * data may be NULL where an extent is 0. With strides of 2^39 elements and more, devices of compute
 * capability 9.0 do not run their fastest kernels. */
typedef struct attnpress_tensor {
  void *data;
  int64_t shape[4];  /* batch, seqlen, heads, head_dim */
  int64_t stride[4]; /* in elements */
  int32_t dtype;
  int32_t reserved; /* 0 */
} attnpress_tensor;
#define ATTNPRESS_TENSOR_INIT                                                                      \
  { NULL, {0, 0, 0, 0}, {0, 0, 0, 0}, 0, 0 }

/** Drops const: the data of an input is only read, and attnpress_tensor has one field for inputs
 * and outputs. */
#if defined(__cplusplus)
#define ATTNPRESS_DATA(pointer) const_cast<void *>(pointer)
#else
#define ATTNPRESS_DATA(pointer) ((void *)(uintptr_t)(pointer))
#endif

/** A contiguous (batch, seqlen, heads, head_dim) tensor. */
static inline attnpress_tensor attnpress_tensor_bshd(const void *data, int64_t batch,
                                                     int64_t seqlen, int64_t heads,
                                                     int64_t head_dim, int32_t dtype) {
  attnpress_tensor t = {ATTNPRESS_DATA(data),
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
  attnpress_tensor t = {ATTNPRESS_DATA(data),
                        {batch, seqlen, heads, head_dim},
                        {seqlen * heads * head_dim, head_dim, seqlen * head_dim, 1},
                        dtype,
                        0};
  return t;
}

/* Optional groups of the forward call, and of the backward call after it. The score of query i and
 * key j is
 *
 *     s = softcap(scale * <q_i, k_j>) + bias_ij - slope * |i + seqlen_k - seqlen_q - j|
 *
 * in natural units, or what score_mod makes of the first term. Then the mask removes keys, a sink
 * adds exp(sink) to the row's sum of exp(s), and dropout acts on the probabilities, after the sum.
 * lse is the logarithm of the sum, which includes the sink and not dropout. All of these combine
 * with each other, with every head dim and with splits, except for a score_mod with bias or
 * ALiBi. */

/** Which keys a query sees under ATTNPRESS_WINDOW. Query i stands at key c = i + seqlen_k -
 * seqlen_q, or, with top_left, at c = i. It sees keys c - left to c + right, and of these, with
 * chunk, only those of c's own chunk, the keys [n * chunk, (n + 1) * chunk) with n = floor(c /
 * chunk). Key blocks that no query of a tile sees are neither loaded nor computed. */
typedef struct attnpress_window {
  size_t struct_size;
  int64_t left, right; /* keys before and behind c, 0 or more; -1: all */
  int64_t chunk;       /* keys of a chunk, as Llama 4's attention_chunk; 0: no chunks */
  int32_t top_left;    /* 1: c = i */
  int32_t reserved;    /* 0 */
} attnpress_window;
/** Every key: left and right unbounded. */
#define ATTNPRESS_WINDOW_INIT                                                                      \
  { sizeof(attnpress_window), -1, -1, 0, 0, 0 }

/** ALiBi (Press et al. 2021): slope times distance is subtracted, whatever the mask's alignment. */
typedef struct attnpress_alibi {
  size_t struct_size;
  const float *slopes; /* (batch, heads_q) by the strides; finite */
  int64_t stride[2];   /* batch, head, in elements; 0 broadcasts; both 0: (heads_q) contiguous */
} attnpress_alibi;
#define ATTNPRESS_ALIBI_INIT                                                                       \
  {                                                                                                \
    sizeof(attnpress_alibi), NULL, {                                                               \
      0, 0                                                                                         \
    }                                                                                              \
  }

/** Added to the scores. -inf masks a key; a row whose keys are all masked has out 0 and lse
 * -inf. */
typedef struct attnpress_bias {
  size_t struct_size;
  const void *data;  /* aligned to its elements */
  int64_t shape[4];  /* batch or 1, heads_q or 1, seqlen_q, seqlen_k; with `ragged` the number of
                        sequences, and at least the bounds of their lengths */
  int64_t stride[4]; /* in elements, not negative; 0 broadcasts; any where the extent is 1 */
  int32_t dtype;     /* ATTNPRESS_FP16, _BF16 or _FP32, whatever q's is */
  int32_t reserved;  /* 0 */
} attnpress_bias;
#define ATTNPRESS_BIAS_INIT                                                                        \
  { sizeof(attnpress_bias), NULL, {0, 0, 0, 0}, {0, 0, 0, 0}, 0, 0 }

/** One more score per head, for a value of 0: it takes part only in the sum, and is neither scaled
 * nor capped. A row without keys then has out 0 and lse = sink. */
typedef struct attnpress_sinks {
  size_t struct_size;
  const void *data; /* (heads_q), aligned to its elements; finite, or -inf for none */
  int64_t stride;   /* in elements; 0: contiguous */
  int32_t dtype;    /* ATTNPRESS_FP16, _BF16 or _FP32 */
  int32_t reserved; /* 0 */
} attnpress_sinks;
#define ATTNPRESS_SINKS_INIT                                                                       \
  { sizeof(attnpress_sinks), NULL, 0, 0, 0 }

/** Each probability becomes 0 with this probability, and is otherwise multiplied by 1 / (1 -
 * probability). Which are dropped depends only on batch, head, query, key, seed and offset: Philox
 * 4x32 (Salmon et al. 2011), 7 rounds for a head and 4 more for a row, and products of 32 bits for
 * keys and where both meet; 16 bits a decision, so that the share is probability rounded to a
 * multiple of 2^-16. Another version of the library may draw other bits. */
typedef struct attnpress_dropout {
  size_t struct_size;
  float probability; /* 0 to less than 1 */
  int32_t reserved;  /* 0 */
  uint64_t seed, offset;
  /** Device memory (with the CPU backend: host memory) that holds seed and offset, which are used
   * instead of the two above, so that each replay of a captured call can draw anew. NULL: those
   * above. */
  const uint64_t *seed_and_offset;
} attnpress_dropout;
#define ATTNPRESS_DROPOUT_INIT                                                                     \
  { sizeof(attnpress_dropout), 0.0f, 0, 0, 0, NULL }

/** attnpress_score_buffer.dtype and attnpress_score_scalar.dtype, beside ATTNPRESS_FP16 ... */
enum { ATTNPRESS_INT32 = 4 };

/** A number that a snippet may use: an argument of the launch, so that another value compiles
 * nothing. */
typedef struct attnpress_score_scalar {
  const char *name;
  int32_t dtype; /* ATTNPRESS_FP32: `value` counts; ATTNPRESS_INT32: `int_value` does */
  float value;
  int32_t int_value;
  int32_t reserved; /* 0 */
} attnpress_score_scalar;

/** A tensor that a snippet may use, as name(i, j) with as many indices as it has dimensions. Each
 * index is clamped to its extent. fp16 and bf16 are read as floats. */
typedef struct attnpress_score_buffer {
  const char *name;
  const void *data;  /* device memory, aligned to its elements */
  int64_t shape[4];  /* of the first `rank`: 1 to 2^31 - 1 */
  int64_t stride[4]; /* in elements, not negative; 0 broadcasts */
  int32_t dtype;     /* ATTNPRESS_FP16, _BF16, _FP32 or _INT32 */
  int32_t rank;      /* 1 to 4 */
} attnpress_score_buffer;

/** C text that changes scores, or masks keys, in the inner loop. NVRTC compiles it on first use,
 * and the cache knows kernels by its contents. Names in scope, all of them constants except
 * `score`:
 *
 *     float score        the score so far, in natural units: scaled, and capped if there is a cap
 *     int b, h, h_kv     batch, query head, key head
 *     int q, k           query and key, from 0; a causal mask is k <= q + k_len - q_len
 *     int q_len, k_len   seqlen_q, seqlen_k; with `ragged` b is the sequence's number, and queries,
 *                        keys and lengths are the sequence's own
 *     clampi(x, low, high), INFINITY, C's math functions in single precision, scalars and buffers
 *
 * Names that begin with snippet_ or attnpress_ are reserved for the library. */
typedef struct attnpress_score_mod {
  size_t struct_size;
  const char *name; /* in errors of its lines: letters, digits, '_', '-', '.'; NULL: "mod" */
  /** Statements that may assign to `score`; NULL: none. At least one of the two is given. */
  const char *score;
  /** One expression, true where query q sees key k; NULL: none. Key blocks without a visible pair
   * are neither loaded nor computed: a kernel that runs first finds them, and lists them in the
   * workspace. With `ragged` they are not found: the mask is asked about every pair. */
  const char *mask;
  const attnpress_score_scalar *scalars; /* (scalar_count) */
  const attnpress_score_buffer *buffers; /* (buffer_count) */
  int32_t scalar_count;                  /* 0 to 16 */
  int32_t buffer_count;                  /* 0 to 8 */
  /** One expression, the derivative of the score's text with respect to `score`, which in it is the
   * score that the text is given. NULL: the library differentiates the text, by dual numbers
   * (device/dual.cuh). */
  const char *score_grad;
} attnpress_score_mod;
#define ATTNPRESS_SCORE_MOD_INIT                                                                   \
  { sizeof(attnpress_score_mod), NULL, NULL, NULL, NULL, NULL, 0, 0, NULL }

/** Sequences of different lengths in one call, and keys in pages. Every array is device memory
 * (with the CPU backend: host memory) that is read on the device when the call runs: lengths may
 * change between replays of a captured call. NULL: not used. Sequence b has
 *
 *     queries   rows cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1 of q and out, which are then (1,
 *               total_q, heads_q, head_dim); without it batch b of q. With seqused_q the first
 *               seqused_q[b] of them.
 *     keys      rows cu_seqlens_k[b] to cu_seqlens_k[b + 1] - 1 of k and v, which are then (1,
 *               total_k, heads_kv, head_dim); without it batch b of k, or with kv_batch_idx batch
 *               kv_batch_idx[b]. With seqused_k the first seqused_k[b] of them; with leftpad_k less
 *               the first leftpad_k[b].
 *     pages     with page_table, k and v are (pages, page_size, heads_kv, head_dim), and row r of
 *               the sequence is row r % page_size of page page_table[b][r / page_size] (with
 *               kv_batch_idx: of row kv_batch_idx[b] of the table). cu_seqlens_k then only gives
 *               lengths, cu_seqlens_k[b + 1] - cu_seqlens_k[b]. With page_indptr the table is flat:
 *               the sequence's pages are its entries page_indptr[b] to page_indptr[b + 1] - 1.
 *     appended  with seqlen_k_new or cu_seqlens_k_new, as many more keys after those that
 *               seqused_k counts: what attnpress_append() wrote there with the same seqused_k, or
 *               attnpress_append_forward() writes.
 *
 * In masks, windows, ALiBi, bias, dropout and a score_mod, seqlen_q and seqlen_k are the sequence's
 * own, the batch is b, and queries and keys are counted from the sequence's first. Rows that belong
 * to no sequence are not written, and nothing outside a sequence reaches its result, even if it is
 * NaN.
 *
 * Errors that only the device can see are not reported, unless the handle has `check`. A sequence
 * whose entries are out of order, negative or past its tensor's end has no queries or, if they are
 * entries of the keys, no keys; a page number out of range leaves that sequence's result
 * unspecified. Neither reads or writes outside the tensors.
 *
 * A call may need a workspace for the order of its sequences even if it is not split:
 * attnpress_plan_workspace_bytes(). */
typedef struct attnpress_ragged {
  size_t struct_size;
  /** Sequences. Equal to q.shape[0] without cu_seqlens_q, and to k.shape[0] without cu_seqlens_k,
   * kv_batch_idx and page_table. */
  int64_t batch;
  /** Bounds of the lengths, for which the call is laid out; 0, or more than the tensor has: what
   * the tensor has. A sequence with more than max_seqlen_q queries is treated as if it had none.
   * max_seqlen_k only guides the choice of splits; with a bias, in a batch-invariant call, and in a
   * backward call, it is a bound as well: a sequence with more keys is treated as if it had none. */
  int64_t max_seqlen_q, max_seqlen_k;
  const int32_t *cu_seqlens_q, *cu_seqlens_k; /* (batch + 1) */
  const int32_t *seqused_q, *seqused_k;       /* (batch) */
  const int32_t *leftpad_k;    /* (batch): rows before the first key, which seqused_k includes */
  const int32_t *kv_batch_idx; /* (batch) */
  const int32_t *page_table;   /* (page_table_rows, pages), the last dimension contiguous */
  int64_t page_table_rows;     /* with kv_batch_idx; 0: batch */
  int64_t page_table_pages;  /* pages of a sequence, at most; with page_indptr entries of the whole
                                table; needed with page_table */
  int64_t page_table_stride; /* from row to row, in elements; 0: page_table_pages */
  /** Of lse, from query to query, in elements; 0: 1. With cu_seqlens_q, lse_stride[0] is 0 for a
   * packed lse, (heads_q, total_q) or (total_q, heads_q) by its strides, whose rows are q's;
   * otherwise b * lse_stride[0] + head * lse_stride[1] + query * lse_row_stride. All strides 0:
   * (heads_q, total_q) contiguous with cu_seqlens_q, else (batch, heads_q, seqlen_q). */
  int64_t lse_row_stride;
  int32_t lse_log2;                /* 1: the logarithm is to the base 2 */
  int32_t lse_empty_pos_inf;       /* 1: lse of rows that see no key is +inf */
  int64_t seqlen_k_new;            /* appended keys of every sequence; with seqused_k */
  const int32_t *cu_seqlens_k_new; /* (batch + 1): sequence b has cu_seqlens_k_new[b + 1] -
                                      cu_seqlens_k_new[b] appended keys; with seqused_k */
  const int32_t *page_table_v;     /* V's pages, laid out like page_table; NULL: the same as K's */
  const int32_t *page_indptr;      /* (batch + 1) */
  /** The order of the sequences, which attnpress_forward_schedule() writes and attnpress_forward()
   * then reads instead of making it, and how many bytes it has. NULL and 0: each call makes its own.
   * Backward calls do not look at it. */
  int32_t *schedule;
  size_t schedule_bytes; /* exactly attnpress_forward_schedule_bytes() */
} attnpress_ragged;
#define ATTNPRESS_RAGGED_INIT                                                                      \
  {                                                                                                \
    sizeof(attnpress_ragged), 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, \
        0, NULL, NULL, NULL, NULL, 0                                                               \
  }

typedef struct attnpress_forward_args {
  size_t struct_size;
  /** Shapes of a call without `ragged`; with it, attnpress_ragged says what they are. */
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
  int32_t mask;          /* ATTNPRESS_FULL, ATTNPRESS_CAUSAL or ATTNPRESS_WINDOW */
  /** Parts that the keys of each row are split into, each computed by its own thread block and all
   * combined by a second kernel: 1 to 256; 0: chosen from shapes and device, never from device
   * data. The CPU backend ignores it. */
  int32_t num_splits;
  /** 1: each row of out and lse has the same bits whatever else is in the call: alone, in any batch,
   * and however its sequence's queries are cut into calls, one row at a time included, with the keys
   * up to the last of them. The kernel, its tile and where the keys are split then follow from the
   * device, head dims, heads of a key head, dtype, mask, features, and how keys lie (in pages, strides
   * of 2^39 elements and more); splits lie at fixed keys and are added up in their order. num_splits
   * must be 0. Not with bias, dropout and score_mod. */
  int32_t batch_invariant;
  /** Device memory, 16-byte aligned, private to this call until it is done; needed for splits. */
  void *workspace;
  size_t workspace_bytes; /* at least attnpress_plan_workspace_bytes() */
  /** Since 0.3. Each NULL where it is not used; read only during the call. */
  const attnpress_window *window; /* with ATTNPRESS_WINDOW, and only then */
  const attnpress_alibi *alibi;
  const attnpress_bias *bias;
  const attnpress_sinks *sinks;
  const attnpress_dropout *dropout;
  /** Scores become softcap * tanh(score / softcap). Kernels use the device's approximate tanh: the
   * relative error of lse is then up to 2^-10. Positive and finite; 0: none. */
  float softcap;
  int32_t reserved_2; /* 0 */
  /** The caller's own text for scores and masks, on a GPU. It takes the place of alibi and bias,
   * and cannot be combined with them; it changes scores after the softcap, and its mask applies in
   * addition to `mask`. NULL where it is not used; its texts and arrays are read only during the
   * call. */
  const attnpress_score_mod *score_mod;
  const attnpress_ragged *ragged;
} attnpress_forward_args;
#define ATTNPRESS_FORWARD_ARGS_INIT                                                                \
  {                                                                                                \
    sizeof(attnpress_forward_args), ATTNPRESS_TENSOR_INIT, ATTNPRESS_TENSOR_INIT,                  \
        ATTNPRESS_TENSOR_INIT, ATTNPRESS_TENSOR_INIT, NULL, {0, 0}, 0.0f, 0, 0, 0, NULL, 0, NULL,  \
        NULL, NULL, NULL, NULL, 0.0f, 0, NULL, NULL                                                \
  }

/** Head dimensions: head_dim and head_dim_v multiples of 8 from 8 to 512, in any pair; equal ones and
 * 192/128, 128/64, 64/128, 64/256, 64/512, 96/64, 256/128 have tiles of their own, all others those
 * of the larger one or close to it. Lengths up to 2^31 - 1024, batch and heads up to 2^31 - 1, 0
 * included.
 *
 * `stream` is a CUstream or cudaStream_t; its context and device are used, whatever is current in
 * the calling thread. NULL is the default stream of the current context. The CPU backend ignores it
 * and returns when the result is there. A missing kernel is compiled in this call, on first use,
 * which takes about a second.
 *
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, WORKSPACE_TOO_SMALL, OUT_OF_MEMORY, NO_NVRTC, NO_KERNEL,
 * CAPTURING, COMPILE_FAILED, DRIVER_ERROR, IO_ERROR. */
ATTNPRESS_API attnpress_status attnpress_forward(attnpress_handle *handle,
                                                 const attnpress_forward_args *args, void *stream);

/** Bytes of the schedule of so many sequences: 4 + 8 * batch. OK; INVALID_ARGUMENT where batch is
 * negative or more than 2^29. */
ATTNPRESS_API attnpress_status attnpress_forward_schedule_bytes(int64_t batch, size_t *bytes);

/** Writes args->ragged->schedule, once for all calls with the same lengths, such as those of the
 * layers of a model: in which order their kernels take the sequences. Of `args` it reads how many
 * rows the sequences have, and nothing of head counts, dtypes and data pointers but what any call
 * needs to be valid. Then attnpress_forward() with that schedule launches no kernel of its own for
 * it. It may be copied, and be read by calls on several streams at a time.
 *
 * Results do not depend on what is in a schedule, and it makes no call read or write outside its
 * tensors: each sequence comes once whatever is there, as a call derives all but the order from the
 * lengths that it finds. A schedule of other lengths, of a copy that was cut, or of random bits costs
 * time alone. So one that was captured in a graph serves at other lengths. A handle with `check`
 * refuses one that is not that of the call's lengths. It must not be written while a call reads it.
 *
 * Kernels that need no order, such as those of the CPU, of one query per sequence and of compute
 * capability 8.x, take a schedule and ignore it.
 *
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, NO_NVRTC, NO_KERNEL, CAPTURING, COMPILE_FAILED,
 * DRIVER_ERROR, IO_ERROR. */
ATTNPRESS_API attnpress_status attnpress_forward_schedule(attnpress_handle *handle,
                                                          const attnpress_forward_args *args,
                                                          void *stream);

/** What attnpress_dropout_mask() writes. */
typedef struct attnpress_dropout_mask_args {
  size_t struct_size;
  const attnpress_dropout *dropout;
  int64_t shape[4];  /* batch, heads_q, seqlen_q, seqlen_k */
  int64_t stride[4]; /* of `keep`, in bytes; all 0: contiguous */
  uint8_t *keep;     /* written: 1 where the probability is kept, 0 where it is dropped */
} attnpress_dropout_mask_args;
#define ATTNPRESS_DROPOUT_MASK_ARGS_INIT                                                           \
  { sizeof(attnpress_dropout_mask_args), NULL, {0, 0, 0, 0}, {0, 0, 0, 0}, NULL }

/** Writes which probabilities a forward call with this dropout keeps: for tests, and for
 * flash-attn's S_dmask. Statuses as attnpress_forward(), without WORKSPACE_TOO_SMALL. */
ATTNPRESS_API attnpress_status attnpress_dropout_mask(attnpress_handle *handle,
                                                      const attnpress_dropout_mask_args *args,
                                                      void *stream);

/* ---- Backward -------------------------------------------------------------------------------- */

/** The gradient with respect to a bias. It is summed over the dimensions in which its extent is 1
 * and the call's is larger, in fp32 and in a fixed order: its bits are the same in every run. A
 * separate kernel computes it, at the cost of two more products. */
typedef struct attnpress_dbias {
  size_t struct_size;
  void *data; /* written; aligned to its elements */
  /** batch or 1, heads_q or 1, seqlen_q or 1, seqlen_k; with `ragged` the last two are those of the
   * bias, and what belongs to no sequence is 0 */
  int64_t shape[4];
  int64_t stride[4]; /* in elements, so that no two elements meet; any where the extent is 1 */
  int32_t dtype;     /* ATTNPRESS_FP16, _BF16 or _FP32, whatever the bias's is */
  int32_t reserved;  /* 0 */
} attnpress_dbias;
#define ATTNPRESS_DBIAS_INIT                                                                       \
  { sizeof(attnpress_dbias), NULL, {0, 0, 0, 0}, {0, 0, 0, 0}, 0, 0 }

/** The gradient with respect to a buffer of a snippet, of the buffer's shape, in fp32 whatever its
 * dtype is. It is added to what `data` holds, in any order: zero it first. The kernel of dk and dv
 * runs the text once more for each number that it reads, which takes registers and time. */
typedef struct attnpress_dbuffer {
  float *data;       /* NULL: not wanted; aligned to 4 bytes */
  int64_t stride[4]; /* in elements, so that no two elements meet; any where the extent is 1 */
} attnpress_dbuffer;

/** The gradients of a loss with respect to q, k and v, from its gradient with respect to out. Each
 * tensor has its own strides, as in the forward pass; rows of the gradients may not overlap. Slopes
 * and the numbers of a snippet have no gradients. */
typedef struct attnpress_backward_args {
  size_t struct_size;
  /** As in the forward call, which has their shapes; out as it was written there, like lse
   * below. */
  attnpress_tensor q, k, v, out;
  attnpress_tensor dout; /* (batch, seqlen_q, heads_q, head_dim_v): the gradient of out */
  attnpress_tensor dq;   /* (batch, seqlen_q, heads_q, head_dim); written */
  attnpress_tensor dk;   /* (batch, seqlen_k, heads_kv, head_dim); written: summed over the heads
                            that share a key head */
  attnpress_tensor dv;   /* (batch, seqlen_k, heads_kv, head_dim_v); written */
  const float *lse;      /* (batch, heads_q, seqlen_q), last dimension contiguous; needed */
  int64_t lse_stride[2]; /* batch, head, in elements; both 0: contiguous */
  /** The gradient of lse, if the loss depends on it: (batch, heads_q, seqlen_q). NULL: 0. */
  const float *dlse;
  int64_t dlse_stride[2]; /* batch, head, in elements; both 0: contiguous */
  float scale;            /* as in the forward call */
  int32_t mask;           /* as in the forward call */
  /** 1: the bits of all gradients are the same in every run. 0: dq may be summed in any order,
   * which is faster; the bits of dk and dv are the same even so. */
  int32_t deterministic;
  /** 1: the gradients are added to what dq, dk, dv, dsinks and dbias hold, in fp32, and rounded
   * once. */
  int32_t accumulate;
  /** Device memory, 16-byte aligned, private to this call until it is done. */
  void *workspace;
  size_t workspace_bytes; /* at least attnpress_plan_workspace_bytes() */
  /** All as in the forward call: the same window, the same sinks, the same seed. */
  const attnpress_window *window;
  const attnpress_alibi *alibi;
  const attnpress_bias *bias;
  const attnpress_sinks *sinks;
  const attnpress_dropout *dropout;
  float softcap;
  int32_t reserved; /* 0 */
  /** (heads_q) contiguous: the gradient of the sinks, summed over batch and rows; written, or added
   * to with `accumulate`. NULL: not wanted. */
  float *dsinks;
  /** As in the forward call: dout and dq have the rows of q, dk and dv those of k. Gradients of
   * rows that belong to no sequence are not written, those of keys without queries are 0.
   * leftpad_k, kv_batch_idx and page_table are not supported. A sequence with more than
   * max_seqlen_k keys is treated as if it had none. */
  const attnpress_ragged *ragged;
  /** With `ragged`, the stride of dlse from query to query, in elements: what lse_row_stride is to
   * lse. The base of the logarithm is that of lse. */
  int64_t dlse_row_stride;
  /** As in the forward call, on GPUs: gradients pass through its text, by dual numbers or its
   * score_grad. */
  const attnpress_score_mod *score_mod;
  /** The gradient of the bias; written, or added to with `accumulate`. NULL: not wanted. */
  const attnpress_dbias *dbias;
  /** (score_mod->buffer_count), in their order: the gradients of the snippet's buffers of floats, by
   * dual numbers whether it has a score_grad or not; what its mask reads has no part in them. NULL:
   * none is wanted. Not with `deterministic`. */
  const attnpress_dbuffer *dbuffers;
} attnpress_backward_args;
#define ATTNPRESS_BACKWARD_ARGS_INIT                                                               \
  {                                                                                                \
    sizeof(attnpress_backward_args), ATTNPRESS_TENSOR_INIT, ATTNPRESS_TENSOR_INIT,                 \
        ATTNPRESS_TENSOR_INIT, ATTNPRESS_TENSOR_INIT, ATTNPRESS_TENSOR_INIT,                       \
        ATTNPRESS_TENSOR_INIT, ATTNPRESS_TENSOR_INIT, ATTNPRESS_TENSOR_INIT, NULL, {0, 0}, NULL,   \
        {0, 0}, 0.0f, 0, 0, 0, NULL, 0, NULL, NULL, NULL, NULL, NULL, 0.0f, 0, NULL, NULL, 0,      \
        NULL, NULL, NULL                                                                           \
  }

/** Head dimensions, lengths, stream and kernels as in attnpress_forward(); fp32 on the CPU alone.
 * Rows that saw no key, and keys that no row saw, get gradients of 0. The workspace holds two
 * floats per query row and head and, where dq is summed in any order, dq in fp32, and on compute
 * capability 9.0 where key heads are few what parts of their query heads give to dk and dv, in fp32, at
 * most four times as much as dq (attnpress_plan_workspace_bytes() tells the size). With `ragged` it
 * holds as much for all rows that the sequences can have, each sequence padded by up to 127 and 15
 * rows, and no dq where `max_seqlen_k` is at most the keys of the kernel's thread block (128 on compute
 * capability 9.0, above head dim 128 64). The CPU needs none.
 *
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, WORKSPACE_TOO_SMALL, OUT_OF_MEMORY, NO_NVRTC, NO_KERNEL,
 * CAPTURING, COMPILE_FAILED, DRIVER_ERROR, IO_ERROR. */
ATTNPRESS_API attnpress_status attnpress_backward(attnpress_handle *handle,
                                                  const attnpress_backward_args *args,
                                                  void *stream);

/* ---- Plans ----------------------------------------------------------------------------------- */

/** What an operation launches for given arguments on a given device. Made by attnpress_plan_forward
 * and the other attnpress_plan_... functions of operations; owned by the caller, immutable, usable
 * by any number of threads, independent of the arguments that it was made from. Its handle must
 * outlive it. It belongs to no context: it serves all contexts on its device, also after one was
 * destroyed. */
typedef struct attnpress_plan attnpress_plan;

/** attnpress_plan_options.range */
enum {
  ATTNPRESS_ONE_CALL = 0, /* the plan is of the call that the arguments describe */
  /** The plan is of every call whose batch and lengths are at most those of the arguments, where 0
   * stands for any: its kernels are all those that any such call may launch, and its workspace is
   * large enough for each such call. */
  ATTNPRESS_UP_TO = 1
};

typedef struct attnpress_plan_options {
  size_t struct_size;
  /** The stream whose device the plan is for; NULL: that of the thread's current context. Only with
   * ATTNPRESS_CUDA. */
  void *stream;
  /** On an ATTNPRESS_COMPILE_ONLY handle, the device that the plan is for, named by one of its
   * targets: "sm_80", "sm_86", "sm_90", "sm_90a", "sm_100", "sm_110" or "sm_120". NULL on other
   * handles. */
  const char *target;
  int32_t range; /* ATTNPRESS_ONE_CALL or ATTNPRESS_UP_TO */
  /** With `target`: multiprocessors of the device, up to 4,096; 0: those of its largest. */
  int32_t num_sms;
} attnpress_plan_options;
#define ATTNPRESS_PLAN_OPTIONS_INIT                                                                \
  { sizeof(attnpress_plan_options), NULL, NULL, 0, 0 }

/** Plans attnpress_forward(): loads, compiles and launches nothing. Data pointers and the workspace
 * are ignored, except for whether lse and ragged->schedule are NULL. `options` may be NULL. On
 * failure *plan is NULL.
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, DRIVER_ERROR. */
ATTNPRESS_API attnpress_status attnpress_plan_forward(attnpress_handle *handle,
                                                      const attnpress_forward_args *args,
                                                      const attnpress_plan_options *options,
                                                      attnpress_plan **plan);

/** Plans attnpress_forward_schedule(), with the same arguments. With ATTNPRESS_UP_TO the plan serves
 * every number of sequences and all lengths. Statuses as above. */
ATTNPRESS_API attnpress_status
attnpress_plan_forward_schedule(attnpress_handle *handle, const attnpress_forward_args *args,
                                const attnpress_plan_options *options, attnpress_plan **plan);

/** Plans attnpress_backward(), likewise: of lse, dlse, dsinks and the data of dbuffers, too, only
 * whether they are NULL matters.
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, DRIVER_ERROR. */
ATTNPRESS_API attnpress_status attnpress_plan_backward(attnpress_handle *handle,
                                                       const attnpress_backward_args *args,
                                                       const attnpress_plan_options *options,
                                                       attnpress_plan **plan);

/** Frees a plan; NULL is fine. Its kernels stay loaded. */
ATTNPRESS_API void attnpress_plan_destroy(attnpress_plan *plan);

/** Bytes of workspace that the call needs, often 0. A shorter call may need more than a longer one,
 * as it may be split; for ATTNPRESS_UP_TO this is an upper bound for all calls of the range, which
 * never falls as batch and lengths grow: allocate it once. OK, INVALID_ARGUMENT; NOT_SUPPORTED
 * where an extent is 0, for any, and leaves no bound, as may be with num_splits, with `ragged`, with
 * the mask of a snippet, and in the backward pass. */
ATTNPRESS_API attnpress_status attnpress_plan_workspace_bytes(const attnpress_plan *plan,
                                                              size_t *bytes);

/** Loads the plan's kernels, compiling them if needed, so that its calls neither wait for kernels
 * nor fail under stream capture; on an ATTNPRESS_COMPILE_ONLY handle, makes sure that they are
 * linked in or cached. For the context of `stream`, or the current one where it is NULL, which must
 * be on the plan's device. OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, NO_NVRTC, NO_KERNEL,
 * CAPTURING, COMPILE_FAILED, DRIVER_ERROR, IO_ERROR. */
ATTNPRESS_API attnpress_status attnpress_plan_prepare(const attnpress_plan *plan, void *stream);

/** Runs the plan's operation. `args` is the argument struct of that operation, checked in full. Its
 * pointers may differ from those that the plan was made from; with ATTNPRESS_UP_TO, so may shapes,
 * strides and values within the range. Anything else is INVALID_ARGUMENT. Statuses and everything
 * else are those of the operation itself. */
ATTNPRESS_API attnpress_status attnpress_plan_run(const attnpress_plan *plan, const void *args,
                                                  void *stream);

/** attnpress_info.origin */
enum {
  ATTNPRESS_ORIGIN_NONE = 0,     /* not available: would need a compile and compiling is off */
  ATTNPRESS_ORIGIN_PREBUILT = 1, /* linked into the library */
  ATTNPRESS_ORIGIN_DISK = 2,     /* the user's cache or a read-only layer */
  ATTNPRESS_ORIGIN_JIT = 3,      /* compiled by NVRTC (in a plan: would be compiled) */
  ATTNPRESS_ORIGIN_MEMORY = 4,   /* already loaded by this handle */
  ATTNPRESS_ORIGIN_CPU = 5       /* the CPU backend's own code */
};

/** The record of one kernel: of a launch, or of a compile. */
typedef struct attnpress_info {
  size_t struct_size;
  char stem[128];      /* name of the kernel: source file, symbol, log line */
  char tile[64];       /* tile shape the kernel was pressed with */
  char target[16];     /* what the cubin was compiled for, such as sm_90 */
  int32_t origin;      /* ATTNPRESS_ORIGIN_...: where the kernel came from, or would */
  int32_t grid;        /* thread blocks; 0 where that depends on the call, and in a compile */
  int32_t threads;     /* of a thread block */
  int32_t registers;   /* per thread; 0 where not known yet */
  int32_t spill_bytes; /* local memory per thread; -1 where not known yet */
  int32_t smem_bytes;  /* dynamic shared memory per block */
  int32_t num_splits;  /* parts that the work of one output is split into; 0 where that depends */
  int32_t reserved;
  double compile_ms;  /* time in NVRTC; 0 where nothing was compiled */
  size_t cubin_bytes; /* 0 where not known yet */
} attnpress_info;
#define ATTNPRESS_INFO_INIT                                                                        \
  { sizeof(attnpress_info), "", "", "", 0, 0, 0, 0, -1, 0, 0, 0, 0.0, 0 }

/** Launches of the plan, in order: 0 where the output is empty or plan is NULL; for ATTNPRESS_UP_TO
 * the kernels of all its calls; 1 on the CPU. */
ATTNPRESS_API int attnpress_plan_launch_count(const attnpress_plan *plan);

/** The record of launch `index`, from 0: what the call would launch and where that kernel is now.
 * Nothing is loaded or compiled. OK, INVALID_ARGUMENT, OUT_OF_MEMORY, IO_ERROR. */
ATTNPRESS_API attnpress_status attnpress_plan_launch(const attnpress_plan *plan, int index,
                                                     attnpress_info *info);

/* ---- Kernels by name ------------------------------------------------------------------------- */

/** Makes sure that a kernel's cubin is linked in or cached, compiling it if needed; works
 * without a GPU on an ATTNPRESS_COMPILE_ONLY handle. `stem` is such as
 * "flash_fwd_hdim72_bf16_causal_sm80", `target` such as "sm_90"; NULL: the current device's if
 * there is one, else the stem's own. `info` may be NULL. ATTNPRESS_IO_ERROR where the cubin was
 * compiled and could not be cached: `info` is filled then too. With cache_off it is only compiled.
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, NO_NVRTC, NO_KERNEL, COMPILE_FAILED,
 * IO_ERROR. */
ATTNPRESS_API attnpress_status attnpress_compile(attnpress_handle *handle, const char *stem,
                                                 const char *target, attnpress_info *info);

/** The CUDA source of a kernel for a target (NULL: the first that its stem is compiled for), as
 * NVRTC gets it: a NUL-terminated text that the caller frees with attnpress_free_source(). The tile
 * may differ from target to target, and with it the text. Needs no handle, no GPU and no NVRTC.
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY. */
ATTNPRESS_API attnpress_status attnpress_render_source(const char *stem, const char *target,
                                                       char **source);
ATTNPRESS_API void attnpress_free_source(char *source); /* NULL is fine */

#ifdef __cplusplus
}
#endif
