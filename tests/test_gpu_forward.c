/* The forward kernels on the present GPU, against float64.
 *
 *     test_gpu_forward [--quick] [--scores] [--only GLOB] [--list] [--seed N]
 *
 * Which head dims and dtypes are tested comes from the registry: those of the default set that this
 * device runs, and head dims that are only compiled on demand. Each meets every pair of lengths,
 * split and not, in several layouts and group sizes. What is computed is checked where it matters
 * most:
 *
 *   - ref and low (tests/reference_attention.cu) for every row of a small call, for sampled rows of
 * a large one, the first and the last among them: max |out - ref| <= 2 max |low - ref| + 1e-5 over
 * at least 4,096 elements, and lse within 1e-5 max(1, |lse|); with a softcap 3 and 2^-10;
 *   - outputs and workspace are poisoned with NaN before each call, inputs lie in NaN: every
 * element of out and lse must be written, and nothing beside them;
 *   - the name that describe() gives is the name that is counted: at the end
 * every forward and combine kernel of the default set for this device must have run.
 *
 * What is done to scores (windows, softcap, ALiBi, biases, sinks, dropout) meets each multiple of 8
 * alone, and is sampled in pairs; dropout's decisions are compared with the host's, one by one.
 *
 * Further tests: tensors past 2^31 elements, bitwise equality over repeated runs, CUDA graphs,
 * threads.
 * --scores: what is done to scores, and nothing else. --quick: small lengths only, for compute-sanitizer. --list: counts the calls of the table and
 * makes none. --only: calls whose kernel's name matches. Ends with status 77 where there is no CUDA
 * device. */
#define _GNU_SOURCE
#include <fnmatch.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "attention/attention.h"
#include "attention/defaults.h"
#include "attention/dropout.h"
#include "attention/rows.h"
#include "cpu/half.h"
#include "plans.h"
#include "../tools/cuda_device.h"
#include "reference_attention.h"

enum { EXIT_SKIPPED = 77 };
enum { GUARD = 256 }; /* elements of poison before and behind each tensor */

/* ---- The table ------------------------------------------------------------------------------- */

/* Head dims beside those of the default set; compiled on demand. */
static const int extra_hdims[][2] = {
    {8, 8},     {40, 40},   {72, 72},   {80, 80},   {112, 112}, {160, 160}, {200, 200},
    {224, 224}, {256, 256}, {264, 264}, {320, 320}, {448, 448}, {512, 512}, {192, 128},
    {64, 256},  {64, 512},  {8, 512},   {512, 8},   {72, 40},   {40, 72},   {264, 64},
    {64, 264},  {136, 120}, {120, 128}, {56, 152},  {120, 248}, {512, 264}};

typedef struct lengths {
  int seqlen_q, seqlen_k, quick;
} lengths;

/* FlashAttention-2's and -3's pairs: output, varlen, splitkv and kvcache tests. */
static const lengths pairs[] = {
    {1, 1, 0},
    {1, 3, 1},
    {2, 1, 1},
    {3, 3, 0},
    {1, 128, 0},
    {1, 147, 0},
    {1, 239, 1},
    {239, 1, 1},
    {3, 799, 1},
    {799, 3, 0},
    {1, 339, 1},
    {3, 1024, 0},
    {3, 513, 0},
    {16, 300, 1},
    {17, 300, 1},
    {64, 128, 1},
    {64, 256, 0},
    {64, 800, 0},
    {64, 2048, 0},
    {113, 128, 0},
    {113, 203, 1},
    {203, 113, 1},
    {113, 211, 0},
    {108, 256, 0},
    {256, 108, 0},
    {127, 512, 0},
    {127, 513, 1},
    {513, 127, 0},
    {128, 128, 1},
    {128, 192, 0},
    {128, 217, 0},
    {217, 128, 0},
    {256, 256, 0},
    {307, 256, 0},
    {256, 512, 0},
    {384, 256, 0},
    {511, 1, 0},
    {512, 256, 0},
    {640, 128, 0},
    {1024, 1024, 0},
    {1023, 1024, 0},
    {1024, 1023, 0},
    {2048, 2048, 0},
    {4096, 4096, 0},
    {4224, 4224, 0},
    {2048, 3577, 0},
    {16, 20000, 0},
    {16, 100000, 0},
    {1, 131072, 0},
    {16, 131072, 0},
    /* few queries, for the small row block; no queries; no keys */
    {2, 147, 1},
    {4, 300, 1},
    {5, 513, 0},
    {7, 256, 0},
    {8, 1000, 0},
    {12, 97, 1},
    {15, 2048, 0},
    {16, 16, 0},
    {0, 5, 1},
    {5, 0, 1},
    {200, 0, 0},
};
static const int split_counts[] = {1, 0, 3, 17};
static const int groups[] = {1, 4, 7, 8};
enum {
  PAIRS = sizeof pairs / sizeof *pairs,
  SPLITS = sizeof split_counts / sizeof *split_counts,
  GROUPS = sizeof groups / sizeof *groups
};

static int is_short(const lengths *l) {
  return l->seqlen_q <= 16 && l->seqlen_k <= 4096;
}

enum { BSHD, BHSD, BSHD_GAPS, BHSD_GAPS, LAYOUTS };
static const char *const layout_names[] = {"bshd", "bhsd", "bshd+gaps", "bhsd+gaps"};

/* BEST: the kernels that the device runs first. NO_MAPS: those that it runs where tensor maps
 * cannot describe the tensors. */
enum { BEST, NO_MAPS, DISPATCHES };

typedef struct config {
  int hdim, hdim_v, dtype, mask, dispatch;
  int softcap; /* of kernels of the default set that have one */
} config;

enum { BIAS_PADDED, BIAS_CONTIGUOUS, BIAS_OF_HEADS, BIAS_OF_KEYS, BIAS_SPREAD, BIAS_LAYOUTS };

/* What is done to scores; zeros: nothing. */
typedef struct modifiers {
  attnpress_window window; /* with ATTNPRESS_WINDOW */
  float softcap;
  int alibi;             /* 1: (heads), 2: (batch, heads) */
  int bias, bias_layout; /* its dtype */
  int sinks;             /* their dtype */
  float dropout;
  int seed_in_memory;
} modifiers;

#define UNMODIFIED                                                                                 \
  { .softcap = 0.0f }

typedef struct gpu_case {
  config c;
  int64_t batch, heads_kv, group, seqlen_q, seqlen_k;
  int layout, with_lse, num_splits;
  float scale;
  modifiers m;
} gpu_case;

/* The groups that a case's arguments point to. */
typedef struct groups_of_case {
  attnpress_window window;
  attnpress_alibi alibi;
  attnpress_bias bias;
  attnpress_sinks sinks;
  attnpress_dropout dropout;
} groups_of_case;

/* ---- The device ------------------------------------------------------------------------------ */

enum {
  Q,
  K,
  V,
  OUT,
  LSE,
  WORKSPACE,
  BIAS,
  SLOPES,
  SINKS,
  SEED,
  SAVED,
  SCORES,
  LOW_SCORES,
  REF,
  LOW,
  REF_LSE,
  RESULTS,
  BUFFERS
};
enum {
  COUNT_OUT = REFERENCE_WORSTS,
  COUNT_LSE,
  COUNT_NAN,
  COUNT_GUARD,
  COUNT_DIFFERENT,
  RESULT_WORDS
};

typedef struct buffer {
  CUdeviceptr data;
  size_t bytes;
} buffer;

static struct {
  cuda_device d;
  CUstream stream;
  attnpress_handle *handles[DISPATCHES];
  buffer buffers[BUFFERS];
  CUmodule module;
  CUfunction scores, rows, fill_normal, fill_bias, count_16, count_nan, count_32, count_differences;
  const char *only; /* NULL: everything */
  int quick, list, scores_only;
  uint64_t seed;
  long calls, failures;
  char current[512]; /* the call that is under way */
} g;

static _Noreturn void die(const char *format, ...) {
  va_list list;
  va_start(list, format);
  printf("FATAL: ");
  vprintf(format, list);
  printf("\n  during: %s\n", g.current);
  va_end(list);
  exit(1);
}

static void check_cuda(CUresult result, const char *call, int line) {
  if (result != CUDA_SUCCESS)
    die("line %d: %s: %s", line, call, cuda_device_error(&g.d, result));
}
#define CUDA(call) check_cuda(g.d.call, #call, __LINE__)

static void check_status(attnpress_status status, const char *call, int line) {
  if (status != ATTNPRESS_OK)
    die("line %d: %s: %s: %s", line, call, attnpress_status_string(status), attnpress_last_error());
}
#define OK(call) check_status(call, #call, __LINE__)

/* A buffer of at least `bytes`; what was in it is lost where it grows. */
static CUdeviceptr need(int slot, size_t bytes) {
  buffer *b = &g.buffers[slot];
  if (b->bytes < bytes) {
    if (b->data)
      CUDA(mem_free(b->data));
    b->data = 0;
    CUDA(mem_alloc(&b->data, bytes));
    b->bytes = bytes;
  }
  return b->data;
}

static void free_buffers(void) {
  for (int i = 0; i < BUFFERS; ++i) {
    if (g.buffers[i].data)
      CUDA(mem_free(g.buffers[i].data));
    g.buffers[i] = (buffer){0};
  }
}

static void poison(CUdeviceptr data, size_t bytes) {
  if (bytes)
    CUDA(memset_d8_async(data, 0xff, bytes, g.stream));
}

static void launch(CUfunction function, unsigned grid_x, unsigned grid_y, void **parameters) {
  CUDA(launch_kernel(function, grid_x, grid_y, 1, REFERENCE_THREADS, 1, 1, 0, g.stream, parameters,
                     NULL));
}

static unsigned grid_for(int64_t items) {
  int64_t blocks = (items + REFERENCE_THREADS - 1) / REFERENCE_THREADS;
  return (unsigned)(blocks < 1 ? 1 : blocks > 8192 ? 8192 : blocks);
}

/* ---- Reference kernels ----------------------------------------------------------------------- */

/* The text of a file beside this one, as the compiler saw it. */
#define EMBED(symbol, file)                                                                        \
  __asm__(".pushsection .rodata\n"                                                                 \
          ".global " #symbol "\n" #symbol ":\n"                                                    \
          ".incbin \"" ATTNPRESS_TESTS_DIR "/" file "\"\n"                                         \
          ".byte 0\n.popsection\n");                                                               \
  extern const char symbol[]
EMBED(reference_attention_cu, "reference_attention.cu");
EMBED(reference_attention_h, "reference_attention.h");

/* NULL, with a line in `why`, where NVRTC is missing or refuses. */
static char *compile_reference(int capability, int driver_version, char *why, size_t why_bytes) {
  ap_nvrtc nvrtc;
  nvrtcProgram program;
  char arch[64], *cubin = NULL;
  size_t bytes = 0;
  const char *headers[] = {reference_attention_h}, *names[] = {"reference_attention.h"};
  const char *options[] = {arch};
  memset(&nvrtc, 0, sizeof nvrtc);
  if (ap_nvrtc_open(&nvrtc, NULL, driver_version) != ATTNPRESS_OK) {
    snprintf(why, why_bytes, "%s", attnpress_last_error());
    return NULL;
  }
  snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d", capability);
  if (nvrtc.create_program(&program, reference_attention_cu, "reference_attention.cu", 1, headers,
                           names) != NVRTC_SUCCESS) {
    snprintf(why, why_bytes, "nvrtcCreateProgram failed");
    ap_nvrtc_close(&nvrtc);
    return NULL;
  }
  if (nvrtc.compile_program(program, 1, options) != NVRTC_SUCCESS ||
      nvrtc.get_cubin_size(program, &bytes) != NVRTC_SUCCESS || bytes == 0) {
    size_t log_bytes = 0;
    char *log = NULL;
    if (nvrtc.get_log_size(program, &log_bytes) == NVRTC_SUCCESS && (log = malloc(log_bytes + 1)))
      nvrtc.get_log(program, log);
    snprintf(why, why_bytes, "reference_attention.cu does not compile for sm_%d: %s", capability,
             log ? log : "");
    free(log);
  } else if ((cubin = malloc(bytes)) != NULL) {
    nvrtc.get_cubin(program, cubin);
  }
  nvrtc.destroy_program(&program);
  ap_nvrtc_close(&nvrtc);
  return cubin;
}

static void load_reference(void) {
  char why[4096] = "out of memory";
  char *cubin = compile_reference(g.d.capability, g.d.driver_version, why, sizeof why);
  if (!cubin)
    die("%s", why);
  CUDA(module_load_data(&g.module, cubin));
  free(cubin);
  CUDA(module_get_function(&g.scores, g.module, "reference_scores"));
  CUDA(module_get_function(&g.rows, g.module, "reference_rows"));
  CUDA(module_get_function(&g.fill_normal, g.module, "fill_normal"));
  CUDA(module_get_function(&g.fill_bias, g.module, "fill_bias"));
  CUDA(module_get_function(&g.count_nan, g.module, "count_nan_16"));
  CUDA(module_get_function(&g.count_16, g.module, "count_written_16"));
  CUDA(module_get_function(&g.count_32, g.module, "count_written_32"));
  CUDA(module_get_function(&g.count_differences, g.module, "count_differences"));
}

static void count_written_16(CUdeviceptr data, int64_t words, int slot) {
  CUdeviceptr count = g.buffers[RESULTS].data + 8 * (size_t)slot;
  if (words > 0)
    launch(g.count_16, grid_for(words), 1, (void *[]){&data, &words, &count});
}

/* Of a tensor of 16 bits. */
static void count_nan(CUdeviceptr data, int64_t words, int32_t dtype) {
  CUdeviceptr count = g.buffers[RESULTS].data + 8 * (size_t)COUNT_NAN;
  if (words > 0)
    launch(g.count_nan, grid_for(words), 1, (void *[]){&data, &words, &dtype, &count});
}

static void count_written_32(CUdeviceptr data, int64_t words, int slot) {
  CUdeviceptr count = g.buffers[RESULTS].data + 8 * (size_t)slot;
  if (words > 0)
    launch(g.count_32, grid_for(words), 1, (void *[]){&data, &words, &count});
}

static void count_differences(CUdeviceptr a, CUdeviceptr b, size_t bytes) {
  CUdeviceptr count = g.buffers[RESULTS].data + 8 * (size_t)COUNT_DIFFERENT;
  int64_t words = (int64_t)(bytes / 4);
  if (words > 0)
    launch(g.count_differences, grid_for(words), 1, (void *[]){&a, &b, &words, &count});
}

static void clear_results(void) {
  CUDA(memset_d8_async(need(RESULTS, 8 * RESULT_WORDS), 0, 8 * RESULT_WORDS, g.stream));
}

static void read_results(uint64_t results[RESULT_WORDS]) {
  CUDA(stream_synchronize(g.stream));
  CUDA(memcpy_dtoh(results, g.buffers[RESULTS].data, 8 * RESULT_WORDS));
}

/* ---- Handles --------------------------------------------------------------------------------- */

/* A new handle. One for NO_MAPS takes the driver for one that makes no tensor maps. */
static attnpress_handle *make_handle(int dispatch) {
  attnpress_handle *handle = NULL;
  OK(attnpress_create(&handle, NULL));
  if (dispatch == NO_MAPS)
    handle->driver.tensor_map_encode_tiled = NULL;
  return handle;
}

static attnpress_handle *handle_of(const gpu_case *c) {
  return g.handles[c->c.dispatch];
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Elements from the first to the last, both included. */
static int64_t span_of(const attnpress_tensor *t) {
  int64_t span = 1;
  for (int i = 0; i < 4; ++i) {
    if (t->shape[i] == 0)
      return 0;
    span += (t->shape[i] - 1) * t->stride[i];
  }
  return span;
}

static int64_t elements_of(const attnpress_tensor *t) {
  return t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3];
}

static attnpress_tensor describe_tensor(int64_t batch, int64_t seqlen, int64_t heads, int64_t hdim,
                                        int dtype, int layout) {
  const int64_t gap = layout == BSHD_GAPS || layout == BHSD_GAPS ? 8 : 0;
  attnpress_tensor t = attnpress_tensor_bshd(NULL, batch, seqlen, heads, hdim, dtype);
  const int inner = layout == BHSD || layout == BHSD_GAPS ? 1 : 2, outer = 3 - inner;
  t.stride[inner] = hdim + gap;
  t.stride[outer] = t.shape[inner] * t.stride[inner] + 3 * gap;
  t.stride[0] = t.shape[outer] * t.stride[outer] + 5 * gap;
  return t;
}

static size_t tensor_bytes(const attnpress_tensor *t) {
  return ((size_t)span_of(t) + 2 * GUARD) * 2;
}

/* Puts a tensor into a poisoned buffer. */
static void place_tensor(attnpress_tensor *t, int slot) {
  const size_t bytes = tensor_bytes(t);
  const CUdeviceptr data = need(slot, bytes);
  poison(data, bytes);
  t->data = (void *)(uintptr_t)(data + GUARD * 2);
}

static void fill_tensor(const attnpress_tensor *t, uint64_t seed) {
  struct {
    void *data;
    int64_t shape[4], stride[3];
    uint64_t seed;
    int32_t dtype;
  } a = {.data = t->data, .seed = seed, .dtype = t->dtype};
  memcpy(a.shape, t->shape, sizeof a.shape);
  memcpy(a.stride, t->stride, sizeof a.stride);
  if (elements_of(t) > 0)
    launch(g.fill_normal, grid_for(elements_of(t) / 8), 1, (void *[]){&a});
}

static size_t lse_bytes(const gpu_case *c) {
  const int64_t heads = c->heads_kv * c->group;
  const int64_t gap = c->layout >= BSHD_GAPS ? 3 : 0;
  return ((size_t)(c->batch * (heads * (c->seqlen_q + gap) + gap)) + 2 * GUARD) * 4;
}

#define DROPOUT_OFFSET UINT64_C(0x500000007)

static uint64_t dropout_seed(void) {
  return reference_mix(g.seed + 7);
}

static int element_bytes(int dtype) {
  return dtype == ATTNPRESS_FP32 ? 4 : 2;
}

/* The groups that are never the wrong ones for long: those of the case that was described last. */
static groups_of_case *describe_groups(const gpu_case *c, attnpress_forward_args *a) {
  static _Thread_local groups_of_case groups;
  const modifiers *m = &c->m;
  const int64_t heads = c->heads_kv * c->group;
  groups = (groups_of_case){m->window, ATTNPRESS_ALIBI_INIT, ATTNPRESS_BIAS_INIT,
                            ATTNPRESS_SINKS_INIT, ATTNPRESS_DROPOUT_INIT};
  a->softcap = m->softcap;
  if (c->c.mask == ATTNPRESS_WINDOW)
    a->window = &groups.window;
  if (m->alibi) {
    a->alibi = &groups.alibi;
    groups.alibi.stride[0] = m->alibi == 2 ? heads : 0;
    groups.alibi.stride[1] = m->alibi == 2;
  }
  if (m->bias) {
    attnpress_bias *b = &groups.bias;
    const int of_keys = m->bias_layout == BIAS_OF_KEYS;
    const int of_heads = m->bias_layout == BIAS_OF_HEADS;
    const int64_t shape[4] = {of_keys || of_heads ? 1 : c->batch, of_keys ? 1 : heads, c->seqlen_q,
                              c->seqlen_k};
    a->bias = b;
    b->dtype = m->bias;
    memcpy(b->shape, shape, sizeof shape);
    b->stride[3] = m->bias_layout == BIAS_SPREAD ? 2 : 1;
    b->stride[2] = of_keys                             ? 0
                   : m->bias_layout == BIAS_CONTIGUOUS ? c->seqlen_k
                                                       : (c->seqlen_k * b->stride[3] + 15) / 8 * 8;
    b->stride[1] = shape[1] > 1 ? c->seqlen_q * b->stride[2] : 0;
    b->stride[0] = shape[0] > 1 ? heads * c->seqlen_q * b->stride[2] : 0;
  }
  if (m->sinks) {
    a->sinks = &groups.sinks;
    groups.sinks.dtype = m->sinks;
    groups.sinks.stride = 2;
  }
  if (m->dropout > 0.0f) {
    a->dropout = &groups.dropout;
    groups.dropout.probability = m->dropout;
    groups.dropout.seed = dropout_seed();
    groups.dropout.offset = DROPOUT_OFFSET;
  }
  return &groups;
}

/* The call without data: shapes, strides, options. */
static attnpress_forward_args describe_case(const gpu_case *c) {
  attnpress_forward_args a = ATTNPRESS_FORWARD_ARGS_INIT;
  const int64_t heads_q = c->heads_kv * c->group;
  (void)describe_groups(c, &a);
  a.q = describe_tensor(c->batch, c->seqlen_q, heads_q, c->c.hdim, c->c.dtype, c->layout);
  a.k = describe_tensor(c->batch, c->seqlen_k, c->heads_kv, c->c.hdim, c->c.dtype, c->layout);
  a.v = describe_tensor(c->batch, c->seqlen_k, c->heads_kv, c->c.hdim_v, c->c.dtype, c->layout);
  a.out = describe_tensor(c->batch, c->seqlen_q, heads_q, c->c.hdim_v, c->c.dtype, c->layout);
  a.mask = c->c.mask;
  a.scale = c->scale;
  a.num_splits = c->num_splits;
  if (c->with_lse && c->layout >= BSHD_GAPS) {
    a.lse_stride[1] = c->seqlen_q + 3;
    a.lse_stride[0] = heads_q * a.lse_stride[1] + 3;
  }
  return a;
}

/* A buffer with these bytes. */
static CUdeviceptr put(int slot, const void *data, size_t bytes) {
  const CUdeviceptr to = need(slot, bytes);
  CUDA(stream_synchronize(g.stream)); /* what was launched may still read */
  CUDA(memcpy_htod(to, data, bytes));
  CUDA(ctx_synchronize()); /* from pageable memory it may still be under way */
  return to;
}

static void place_bias(attnpress_bias *b) {
  int64_t span = 1;
  for (int i = 0; i < 4; ++i)
    span += b->shape[i] > 0 ? (b->shape[i] - 1) * b->stride[i] : 0;
  const size_t bytes = (size_t)(span + 2 * GUARD) * (size_t)element_bytes(b->dtype);
  const CUdeviceptr data = need(BIAS, bytes);
  poison(data, bytes);
  b->data = (const void *)(uintptr_t)(data + (size_t)(GUARD * element_bytes(b->dtype)));
  struct {
    const void *data;
    int64_t shape[4], stride[4];
    uint64_t seed;
    int32_t dtype;
  } a = {.data = b->data, .seed = g.seed + 5, .dtype = b->dtype};
  memcpy(a.shape, b->shape, sizeof a.shape);
  memcpy(a.stride, b->stride, sizeof a.stride);
  const int64_t elements = b->shape[0] * b->shape[1] * b->shape[2] * b->shape[3];
  if (elements > 0)
    launch(g.fill_bias, grid_for(elements), 1, (void *[]){&a});
}

/* What the groups of described arguments point to. */
static void place_groups(const gpu_case *c, attnpress_forward_args *a) {
  groups_of_case *groups = describe_groups(c, a);
  const int64_t heads = c->heads_kv * c->group;
  uint64_t state = g.seed + 6;
  if (a->alibi != NULL) {
    const int64_t count = c->batch * heads;
    float *slopes = malloc((size_t)(count + 1) * sizeof *slopes);
    for (int64_t i = 0; i < count; ++i)
      slopes[i] = ldexpf(1.0f, -2 - (int)(reference_mix(state++) % 8));
    groups->alibi.slopes =
        (const float *)(uintptr_t)put(SLOPES, slopes, (size_t)(count + 1) * sizeof *slopes);
    free(slopes);
  }
  if (a->bias != NULL)
    place_bias(&groups->bias);
  if (a->sinks != NULL) {
    const size_t size = (size_t)element_bytes(groups->sinks.dtype);
    char *words = calloc((size_t)heads + 1, 2 * size); /* every other element is a sink */
    for (int64_t i = 0; i < heads; ++i) {
      const float value =
          i % 7 == 5 ? -INFINITY : (float)(reference_mix(state++) % 64) / 8.0f - 4.0f;
      const uint16_t half = groups->sinks.dtype == ATTNPRESS_FP16 ? ap_fp16_from_float(value)
                                                                  : ap_bf16_from_float(value);
      memcpy(words + (size_t)i * 2 * size, size == 4 ? (const void *)&value : &half, size);
    }
    groups->sinks.data = (const void *)(uintptr_t)put(SINKS, words, (size_t)(heads + 1) * 2 * size);
    free(words);
  }
  if (a->dropout != NULL && c->m.seed_in_memory) {
    const uint64_t words[2] = {groups->dropout.seed, groups->dropout.offset};
    groups->dropout.seed_and_offset = (const uint64_t *)(uintptr_t)put(SEED, words, sizeof words);
    groups->dropout.seed = groups->dropout.offset = 0;
  }
}

/* The call with poisoned outputs and workspace and random inputs; `fill` 0 leaves the inputs. */
static attnpress_forward_args place_case(const gpu_case *c, int fill) {
  attnpress_forward_args a = describe_case(c);
  if (fill) {
    place_tensor(&a.q, Q);
    place_tensor(&a.k, K);
    place_tensor(&a.v, V);
    fill_tensor(&a.q, g.seed + 1);
    fill_tensor(&a.k, g.seed + 2);
    fill_tensor(&a.v, g.seed + 3);
  } else {
    a.q.data = (void *)(uintptr_t)(g.buffers[Q].data + GUARD * 2);
    a.k.data = (void *)(uintptr_t)(g.buffers[K].data + GUARD * 2);
    a.v.data = (void *)(uintptr_t)(g.buffers[V].data + GUARD * 2);
  }
  place_groups(c, &a);
  place_tensor(&a.out, OUT);
  if (c->with_lse) {
    poison(need(LSE, lse_bytes(c)), lse_bytes(c));
    a.lse = (float *)(uintptr_t)(g.buffers[LSE].data + GUARD * 4);
  }
  OK(workspace_bytes_of(handle_of(c), &a, &a.workspace_bytes));
  if (a.workspace_bytes) {
    poison(need(WORKSPACE, a.workspace_bytes + GUARD * 2), a.workspace_bytes + GUARD * 2);
    a.workspace = (void *)(uintptr_t)g.buffers[WORKSPACE].data;
  }
  return a;
}

/* ---- Checking -------------------------------------------------------------------------------- */

typedef struct stem_row {
  char stem[AP_STEM_MAX];
  long calls, failures;
  double ratio, lse; /* the largest error / bound, and lse error */
} stem_row;

static struct {
  stem_row rows[2048];
  int count;
} summary;

static stem_row *row_of(const char *stem) {
  for (int i = 0; i < summary.count; ++i)
    if (strcmp(summary.rows[i].stem, stem) == 0)
      return &summary.rows[i];
  if (summary.count == (int)(sizeof summary.rows / sizeof *summary.rows))
    die("more kernels than the summary holds");
  stem_row *row = &summary.rows[summary.count++];
  memset(row, 0, sizeof *row);
  snprintf(row->stem, sizeof row->stem, "%s", stem);
  return row;
}

static void print_case(const gpu_case *c, char *text, size_t bytes) {
  snprintf(
      text, bytes,
      "hdim %d/%d %s %s, batch %lld heads %lld/%lld seqlen %lld/%lld, %s, splits %d, scale %g%s%s",
      c->c.hdim, c->c.hdim_v, c->c.dtype == ATTNPRESS_FP16 ? "fp16" : "bf16",
      c->c.mask == ATTNPRESS_CAUSAL   ? "causal"
      : c->c.mask == ATTNPRESS_WINDOW ? "window"
                                      : "full",
      (long long)c->batch, (long long)(c->heads_kv * c->group), (long long)c->heads_kv,
      (long long)c->seqlen_q, (long long)c->seqlen_k, layout_names[c->layout], c->num_splits,
      (double)c->scale, c->with_lse ? ", lse" : "",
      c->c.dispatch == NO_MAPS ? ", no tensor maps" : "");
  const modifiers *m = &c->m;
  const size_t size = strlen(text);
  if (m->softcap > 0 || m->alibi || m->bias || m->sinks || m->dropout > 0 ||
      c->c.mask == ATTNPRESS_WINDOW)
    snprintf(text + size, bytes - size,
             "; window %lld,%lld chunk %lld top_left %d, softcap %g, alibi %d, bias %d layout %d, "
             "sinks %d, dropout %g%s",
             (long long)m->window.left, (long long)m->window.right, (long long)m->window.chunk,
             (int)m->window.top_left, (double)m->softcap, m->alibi, m->bias, m->bias_layout,
             m->sinks, (double)m->dropout, m->seed_in_memory ? " seed in memory" : "");
}

/* Counts a failure and prints it under the call's name. */
static void failed(stem_row *row, const char *format, ...) {
  va_list list;
  va_start(list, format);
  printf("FAIL %s\n  %s\n  ", row ? row->stem : "", g.current);
  vprintf(format, list);
  printf("\n");
  va_end(list);
  fflush(stdout);
  ++g.failures;
  if (row)
    ++row->failures;
}

enum { MIN_ELEMENTS = 4096 };

/* How many rows are compared: all of a small call; of a large one, enough for the criterion and for
 * a float64 reference that takes a few milliseconds. */
static int64_t sample_count(const gpu_case *c, int64_t rows) {
  const int64_t least = (MIN_ELEMENTS + c->c.hdim_v - 1) / c->c.hdim_v;
  const int64_t work = g.quick ? 1 << 18 : 1 << 23;
  int64_t n = work / (c->seqlen_k > 0 ? c->seqlen_k : 1);
  n = n < least ? least : n;
  n = n > 4096 ? 4096 : n;
  return n < rows ? n : rows;
}

/* A case's dropout; of a call, seed and offset may lie where the host cannot read. */
static ap_dropout decisions_of(const gpu_case *c) {
  attnpress_dropout dropout = ATTNPRESS_DROPOUT_INIT;
  dropout.probability = c->m.dropout;
  dropout.seed = dropout_seed();
  dropout.offset = DROPOUT_OFFSET;
  return ap_dropout_of(&dropout);
}

static reference_scores_args modify_args(const gpu_case *c, const attnpress_forward_args *a) {
  const ap_mask mask = ap_mask_of(a);
  reference_scores_args m = {.softcap = (double)a->softcap,
                             .dropout_scale = 1.0f,
                             .window = a->mask == ATTNPRESS_WINDOW,
                             .left = (int)mask.left,
                             .right = (int)mask.right,
                             .chunk = (int)mask.chunk,
                             .center = (int)mask.center};
  if (a->bias != NULL) {
    m.bias = a->bias->data;
    m.bias_dtype = a->bias->dtype;
    for (int i = 0; i < 4; ++i)
      m.bias_stride[i] = ap_bias_stride(a->bias, i);
  }
  if (a->alibi != NULL) {
    int64_t batch, head;
    ap_alibi_strides(a->alibi, &batch, &head);
    m.slopes = a->alibi->slopes;
    m.slopes_stride[0] = batch;
    m.slopes_stride[1] = head;
  }
  if (a->sinks != NULL) {
    m.sinks = a->sinks->data;
    m.sinks_dtype = a->sinks->dtype;
    m.sinks_stride = ap_sinks_stride(a->sinks);
  }
  if (a->dropout != NULL) {
    const ap_dropout d = decisions_of(c);
    m.dropout_key[0] = d.key[0];
    m.dropout_key[1] = d.key[1];
    m.dropout_offset = d.offset;
    m.dropout_threshold = d.threshold;
    m.dropout_scale = d.scale;
  }
  return m;
}

static reference_args reference_for(const gpu_case *c, const attnpress_forward_args *a) {
  const int64_t heads = c->heads_kv * c->group, rows = c->batch * heads * c->seqlen_q;
  const int64_t samples = sample_count(c, rows);
  const size_t scores = (size_t)(samples * c->seqlen_k) + 1;
  const size_t outs = (size_t)(samples * c->c.hdim_v);
  reference_args r = {.q = a->q.data,
                      .k = a->k.data,
                      .v = a->v.data,
                      .out = a->out.data,
                      .lse = a->lse,
                      .scores = (double *)(uintptr_t)need(SCORES, scores * 8),
                      .low_scores = (float *)(uintptr_t)need(LOW_SCORES, scores * 4),
                      .ref = (double *)(uintptr_t)need(REF, outs * 8),
                      .low = (float *)(uintptr_t)need(LOW, outs * 4),
                      .ref_lse = (double *)(uintptr_t)need(REF_LSE, (size_t)samples * 8),
                      .worst = (reference_uint64 *)(uintptr_t)g.buffers[RESULTS].data,
                      .scale = c->scale > 0 ? (double)c->scale : 1.0 / sqrt((double)c->c.hdim),
                      .seed = g.seed + 4,
                      .samples = samples,
                      .rows = rows,
                      .heads = (int)heads,
                      .group = (int)c->group,
                      .seqlen_q = (int)c->seqlen_q,
                      .seqlen_k = (int)c->seqlen_k,
                      .hdim = c->c.hdim,
                      .hdim_v = c->c.hdim_v,
                      .dtype = c->c.dtype,
                      .causal = c->c.mask == ATTNPRESS_CAUSAL,
                      .modify = modify_args(c, a)};
  for (int i = 0; i < 3; ++i) {
    r.q_stride[i] = a->q.stride[i];
    r.k_stride[i] = a->k.stride[i];
    r.v_stride[i] = a->v.stride[i];
    r.out_stride[i] = a->out.stride[i];
  }
  const int contiguous = a->lse_stride[0] == 0 && a->lse_stride[1] == 0;
  r.lse_stride[0] = contiguous ? heads * c->seqlen_q : a->lse_stride[0];
  r.lse_stride[1] = contiguous ? c->seqlen_q : a->lse_stride[1];
  return r;
}

static float worst_value(uint64_t word) {
  const uint32_t bits = (uint32_t)(word >> 32);
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* batch, head, row of a sample, as text */
static const char *place_text(const reference_args *r, int64_t sample, char text[96]) {
  const int64_t row = reference_sampled_row(sample, r->samples, r->rows, r->seed);
  snprintf(text, 96, "batch %lld, row %lld, head %lld", (long long)(row / r->seqlen_q / r->heads),
           (long long)(row % r->seqlen_q), (long long)(row / r->seqlen_q % r->heads));
  return text;
}

static double half_value(const unsigned short *device, int dtype) {
  uint16_t h = 0;
  CUDA(memcpy_dtoh(&h, (CUdeviceptr)(uintptr_t)device, sizeof h));
  if (dtype == ATTNPRESS_BF16) {
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
  }
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  double value = exponent == 31
                     ? (mantissa ? NAN : INFINITY)
                     : ldexp(exponent ? 1024 + mantissa : mantissa, exponent ? exponent - 25 : -24);
  return h & 0x8000 ? -value : value;
}

static void report_out(stem_row *row, const reference_args *r, uint64_t word, double bound) {
  const int64_t at = (uint32_t)word, sample = at / r->hdim_v, column = at % r->hdim_v;
  const int64_t index = reference_sampled_row(sample, r->samples, r->rows, r->seed);
  double ref = 0;
  char place[96];
  CUDA(memcpy_dtoh(&ref, (CUdeviceptr)(uintptr_t)(r->ref + at), sizeof ref));
  const unsigned short *out = r->out + index / r->seqlen_q / r->heads * r->out_stride[0] +
                              index % r->seqlen_q * r->out_stride[1] +
                              index / r->seqlen_q % r->heads * r->out_stride[2] + column;
  failed(row, "out: error %.3e, bound %.3e at %s, column %lld: %.6g, expected %.6g",
         (double)worst_value(word), bound, place_text(r, sample, place), (long long)column,
         half_value(out, r->dtype), ref);
}

static void report_lse(stem_row *row, const reference_args *r, uint64_t word, double bound) {
  const int64_t sample = (uint32_t)word;
  const int64_t index = reference_sampled_row(sample, r->samples, r->rows, r->seed);
  double ref = 0;
  float lse = 0;
  char place[96];
  CUDA(memcpy_dtoh(&ref, (CUdeviceptr)(uintptr_t)(r->ref_lse + sample), sizeof ref));
  CUDA(memcpy_dtoh(&lse,
                   (CUdeviceptr)(uintptr_t)(r->lse +
                                            index / r->seqlen_q / r->heads * r->lse_stride[0] +
                                            index / r->seqlen_q % r->heads * r->lse_stride[1] +
                                            index % r->seqlen_q),
                   sizeof lse));
  failed(row, "lse: relative error %.3e, bound %.1e at %s: %.9g, expected %.9g",
         (double)worst_value(word), bound, place_text(r, sample, place), (double)lse, ref);
}

/* Compares the outputs of a call that is on the stream. */
static void check_outputs(const gpu_case *c, const attnpress_forward_args *a, stem_row *row) {
  uint64_t results[RESULT_WORDS];
  clear_results();
  const int64_t rows = c->batch * c->heads_kv * c->group * c->seqlen_q;
  reference_args r = {0};
  if (rows > 0) {
    r = reference_for(c, a);
    if (c->seqlen_k > 0)
      launch(g.scores, (unsigned)((c->seqlen_k + REFERENCE_THREADS - 1) / REFERENCE_THREADS),
             (unsigned)r.samples, (void *[]){&r});
    launch(g.rows, (unsigned)r.samples, 1, (void *[]){&r});
  }
  count_written_16(g.buffers[OUT].data, (int64_t)(tensor_bytes(&a->out) / 2), COUNT_OUT);
  count_nan(g.buffers[OUT].data, (int64_t)(tensor_bytes(&a->out) / 2), a->out.dtype);
  if (a->lse)
    count_written_32(g.buffers[LSE].data, (int64_t)(lse_bytes(c) / 4), COUNT_LSE);
  if (a->workspace_bytes)
    count_written_16(g.buffers[WORKSPACE].data + a->workspace_bytes, GUARD, COUNT_GUARD);
  read_results(results);
  const double out = worst_value(results[REFERENCE_WORST_OUT]);
  const int capped = a->softcap > 0.0f;
  const double factor = capped ? 3.0 : 2.0, lse_bound = capped ? 0x1p-10 : 1e-5;
  const double bound = factor * worst_value(results[REFERENCE_WORST_LOW]) + 1e-5;
  const double lse = worst_value(results[REFERENCE_WORST_LSE]);
  if (!(out <= bound))
    report_out(row, &r, results[REFERENCE_WORST_OUT], bound);
  if (!(lse <= lse_bound))
    report_lse(row, &r, results[REFERENCE_WORST_LSE], lse_bound);
  if (results[COUNT_NAN] != 0)
    failed(row, "out: %llu elements are NaN", (unsigned long long)results[COUNT_NAN]);
  if (results[COUNT_OUT] != (uint64_t)elements_of(&a->out))
    failed(row, "out: %llu elements are written (not NaN), the tensor has %lld",
           (unsigned long long)results[COUNT_OUT], (long long)elements_of(&a->out));
  if (a->lse && results[COUNT_LSE] != (uint64_t)rows)
    failed(row, "lse: %llu elements are written (not NaN), it has %lld",
           (unsigned long long)results[COUNT_LSE], (long long)rows);
  if (results[COUNT_GUARD] != 0)
    failed(row, "the memory behind the workspace of %zu bytes was written", a->workspace_bytes);
  row->ratio = fmax(row->ratio, isfinite(out) ? out / bound : INFINITY);
  row->lse = fmax(row->lse, lse);
}

/* The kernels of a call. */
typedef struct kernels {
  char stem[128], combine_stem[128]; /* "": not split */
} kernels;

static attnpress_status plan_with(attnpress_handle *handle, const gpu_case *c, kernels *found) {
  attnpress_forward_args a = describe_case(c);
  attnpress_plan *plan;
  attnpress_status status = attnpress_plan_forward(handle, &a, NULL, &plan);
  char *const stems[] = {found->stem, found->combine_stem};
  memset(found, 0, sizeof *found);
  for (int i = 0; i < attnpress_plan_launch_count(plan) && status == ATTNPRESS_OK; ++i) {
    attnpress_info info = ATTNPRESS_INFO_INIT;
    status = attnpress_plan_launch(plan, i, &info);
    snprintf(stems[i], sizeof found->stem, "%s", info.stem);
  }
  attnpress_plan_destroy(plan);
  return status;
}

/* What would run; 0 where --only leaves it out, and where nothing depends on tensor maps. */
static int plan_case(const gpu_case *c, kernels *found) {
  kernels best;
  print_case(c, g.current, sizeof g.current);
  if (plan_with(handle_of(c), c, found) != ATTNPRESS_OK ||
      plan_with(g.handles[BEST], c, &best) != ATTNPRESS_OK) {
    failed(NULL, "attnpress_plan_forward: %s", attnpress_last_error());
    return 0;
  }
  if (c->c.dispatch != BEST && strcmp(found->stem, best.stem) == 0)
    return 0;
  return !g.only || fnmatch(g.only, found->stem, 0) == 0 ||
         (*found->combine_stem && fnmatch(g.only, found->combine_stem, 0) == 0);
}

/* Acts on each case, with tensor maps and without. */
static void for_each_dispatch(const gpu_case *cases, size_t count,
                              void (*act)(const gpu_case *c, stem_row *row)) {
  for (size_t i = 0; i < count; ++i)
    for (int dispatch = BEST; dispatch < DISPATCHES; ++dispatch) {
      gpu_case c = cases[i];
      kernels found;
      c.c.dispatch = dispatch;
      if (plan_case(&c, &found))
        act(&c, row_of(found.stem));
    }
}

/* Runs and checks a call; 0: go on. */
static int run_case(const gpu_case *c) {
  kernels found;
  if (!plan_case(c, &found))
    return 0;
  stem_row *row = row_of(found.stem);
  ++g.calls;
  ++row->calls;
  if (*found.combine_stem)
    ++row_of(found.combine_stem)->calls;
  if (g.list)
    return 0;
  attnpress_forward_args a = place_case(c, 1);
  if (attnpress_forward(handle_of(c), &a, g.stream) != ATTNPRESS_OK) {
    failed(row, "attnpress_forward: %s", attnpress_last_error());
    return 0;
  }
  check_outputs(c, &a, row);
  if (*found.combine_stem) {
    stem_row *combine = row_of(found.combine_stem);
    combine->ratio = fmax(combine->ratio, row->ratio);
    combine->lse = fmax(combine->lse, row->lse);
  }
  return 0;
}

/* ---- The table's cases ----------------------------------------------------------------------- */

static struct {
  config list[1024];
  int count;
} configs;

static void add_config(config added) {
  for (int i = 0; i < configs.count; ++i)
    if (memcmp(&configs.list[i], &added, sizeof added) == 0)
      return;
  if (configs.count == (int)(sizeof configs.list / sizeof *configs.list))
    die("more configurations than the list holds");
  configs.list[configs.count++] = added;
}

static void add_configs(int hdim, int hdim_v, int dtype, int mask, int softcap) {
  for (int dispatch = BEST; dispatch < DISPATCHES; ++dispatch)
    add_config((config){hdim, hdim_v, dtype, mask, dispatch, softcap});
}

/* Whether a row of the default set is what this device would run. */
static int is_for_this_device(const ap_prebuilt_row *row, ap_variant *v) {
  if (ap_variant_parse(row->stem, v) != ATTNPRESS_OK || v->family != AP_FAMILY_ATTENTION)
    return 0;
  const char *target = ap_target_for(v, g.d.capability);
  return target && strcmp(target, row->target) == 0;
}

static void collect_configs(void) {
  for (size_t i = 0; i < ap_default_set_count; ++i) {
    ap_variant v;
    if (is_for_this_device(&ap_default_set[i], &v) &&
        v.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD)
      add_configs(v.axis[AP_ATTENTION_HDIM], v.axis[AP_ATTENTION_HDIM_V],
                  v.axis[AP_ATTENTION_DTYPE], v.axis[AP_ATTENTION_MASK],
                  v.axis[AP_ATTENTION_SOFTCAP]);
  }
  for (size_t i = 0; i < sizeof extra_hdims / sizeof *extra_hdims; ++i)
    for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_BF16; ++dtype)
      for (int mask = ATTNPRESS_FULL; mask <= ATTNPRESS_CAUSAL; ++mask)
        add_configs(extra_hdims[i][0], extra_hdims[i][1], dtype, mask, 0);
}

/* Windows that cut off keys at either end, or none. Keys before and behind, chunk, top-left. */
static attnpress_window make_window(unsigned turn) {
  static const int32_t rows[][4] = {
      {127, 0, 0, 0},  {-1, 0, 0, 0},    {0, 0, 0, 0},   {31, 17, 0, 0},  {-1, -1, 0, 0},
      {1023, 0, 0, 0}, {-1, 5, 0, 0},    {64, -1, 0, 0}, {-1, 0, 64, 0},  {-1, -1, 53, 0},
      {-1, 0, 0, 1},   {200, 300, 0, 1}, {1, 0, 0, 0},   {255, 0, 128, 1}};
  const int32_t *row = rows[turn % (sizeof rows / sizeof *rows)];
  attnpress_window w = ATTNPRESS_WINDOW_INIT;
  w.left = row[0];
  w.right = row[1];
  w.chunk = row[2];
  w.top_left = row[3];
  return w;
}

/* The call of a configuration, a pair, a split count and a group size: layout, lse and scale take
 * turns, so that each of them meets each of the others somewhere in the table. Where the query is
 * short, which decides how rows are packed and which kernel is taken, every group size is run; else
 * they take turns, too, and `group` is 0. */
static gpu_case make_case(int config_index, int pair, int split, int group) {
  const lengths *l = &pairs[pair];
  const int turn = config_index + pair + split + group;
  gpu_case c = {.c = configs.list[config_index],
                .batch = l->seqlen_k >= 16000 ? 1 : 2,
                .heads_kv = 2,
                .group = groups[is_short(l) ? group : (turn + pair / 4) % 4],
                .seqlen_q = l->seqlen_q,
                .seqlen_k = l->seqlen_k,
                .layout = (turn + pair / 16) % LAYOUTS,
                .with_lse = turn % 3 != 0,
                .num_splits = split_counts[split],
                .scale = turn % 5 == 0 ? 0.2f : 0.0f,
                .m = {.window = make_window((unsigned)turn + (unsigned)pair),
                      .softcap = configs.list[config_index].softcap ? 30.0f : 0.0f,
                      .sinks = turn % 12 == 7 ? 1 + turn / 12 % 3 : 0}};
  const int64_t elements = c.heads_kv * c.group * c.seqlen_q * c.c.hdim_v;
  if (elements > 0 && c.batch * elements < MIN_ELEMENTS)
    c.batch = (MIN_ELEMENTS + elements - 1) / elements;
  if (g.quick && c.c.hdim_v * c.c.hdim > 128 * 128)
    c.batch = elements >= MIN_ELEMENTS ? 1 : c.batch;
  return c;
}

static int is_selected(int pair, int split, int group) {
  if (group > 0 && !is_short(&pairs[pair]))
    return 0;
  if (!g.quick)
    return 1;
  return pairs[pair].quick && group % 2 == 0 && split_counts[split] != 0 &&
         split_counts[split] != 17;
}

/* Calls `act` for every call of a configuration; until it returns other than 0, which is then
 * returned. */
static int for_each_case(int config_index, int (*act)(const gpu_case *c)) {
  for (int pair = 0; pair < PAIRS; ++pair)
    for (int split = 0; split < SPLITS; ++split)
      for (int group = 0; group < GROUPS; ++group)
        if (is_selected(pair, split, group)) {
          const gpu_case c = make_case(config_index, pair, split, group);
          const int result = act(&c);
          if (result != 0)
            return result;
        }
  return 0;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- Compiling beforehand, on every core ----------------------------------------------------- */

static struct {
  pthread_mutex_t lock;
  int next;
  unsigned char wanted[1024];
} preparation = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *prepare_main(void *unused) {
  (void)unused;
  g.d.ctx_set_current(g.d.context);
  for (;;) {
    pthread_mutex_lock(&preparation.lock);
    int i = preparation.next++;
    pthread_mutex_unlock(&preparation.lock);
    if (i >= configs.count)
      return NULL;
    if (!preparation.wanted[i])
      continue;
    gpu_case c = {.c = configs.list[i], .batch = 1, .heads_kv = 1, .group = 1};
    c.seqlen_q = c.seqlen_k = 1;
    c.m.window = (attnpress_window)ATTNPRESS_WINDOW_INIT;
    c.m.softcap = configs.list[i].softcap ? 30.0f : 0.0f;
    attnpress_forward_args a = describe_case(&c);
    /* A failure shows again, with its call, when the kernel is run. */
    (void)prepare_any(handle_of(&c), &a);
  }
}

static int is_wanted(const gpu_case *c) {
  kernels found;
  return plan_case(c, &found);
}

static void run_on_all_cores(void *(*act)(void *)) {
  pthread_t threads[16];
  int started = 0;
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  for (; started < 16 && started < cores; ++started)
    if (pthread_create(&threads[started], NULL, act, NULL) != 0)
      break;
  for (int i = 0; i < started; ++i)
    pthread_join(threads[i], NULL);
}

static void prepare_all(void) {
  for (int i = 0; i < configs.count; ++i)
    preparation.wanted[i] = (unsigned char)for_each_case(i, is_wanted);
  if (g.only || g.list)
    return; /* a few kernels: each is compiled when it is met */
  run_on_all_cores(prepare_main);
}

static void test_table(void) {
  for (int i = 0; i < configs.count; ++i)
    if (preparation.wanted[i])
      (void)for_each_case(i, run_case);
}

/* ---- What is done to scores ------------------------------------------------------------------ */

enum { WINDOW, SOFTCAP, ALIBI, WITH_BIAS, DROPOUT, FEATURES };
enum { SCORE_CASES_MAX = 4096, SCORE_PAIRS = 480 };

static struct {
  gpu_case list[SCORE_CASES_MAX];
  int count;
  int next; /* to be prepared */
} score_cases;

/* A case with these features, as bits; `bits` decides over their values. */
static void add_score_case(gpu_case c, unsigned features, uint64_t bits) {
  static const float caps[] = {30.0f, 5.0f, 1.0f, 50.0f}, rates[] = {0.1f, 0.5f, 0.9f, 0.25f};
  modifiers *m = &c.m;
  if (features >> WINDOW & 1) {
    c.c.mask = ATTNPRESS_WINDOW;
    m->window = make_window((unsigned)(bits & 255));
  }
  m->softcap = features >> SOFTCAP & 1 ? caps[bits >> 8 & 3] : 0.0f;
  m->alibi = features >> ALIBI & 1 ? 1 + (int)(bits >> 10 & 1) : 0;
  m->bias = features >> WITH_BIAS & 1 ? ATTNPRESS_FP16 + (int)((bits >> 11 & 255) % 3) : 0;
  m->bias_layout = (int)((bits >> 19 & 255) % BIAS_LAYOUTS);
  m->dropout = features >> DROPOUT & 1 ? rates[bits >> 27 & 3] : 0.0f;
  m->seed_in_memory = (int)(bits >> 29 & 1);
  m->sinks = (int)(bits >> 30 & 3); /* 0: none */
  const int64_t elements = c.heads_kv * c.group * c.seqlen_q * c.c.hdim_v;
  if (elements > 0 && c.batch * elements < MIN_ELEMENTS)
    c.batch = (MIN_ELEMENTS + elements - 1) / elements;
  kernels found;
  if (score_cases.count == SCORE_CASES_MAX)
    die("more cases than the list holds");
  if (plan_case(&c, &found))
    score_cases.list[score_cases.count++] = c;
}

/* Each feature alone, at every head dim, with tensor maps and without: of two lengths, the second is
 * short. */
static void add_single_features(void) {
  static const int lengths_of[][2] = {{150, 333}, {5, 401}, {257, 129}, {97, 97}};
  for (int hdim = 8; hdim <= 512; hdim += 8)
    for (int feature = 0; feature < FEATURES; ++feature)
      for (int dispatch = BEST; dispatch < DISPATCHES; ++dispatch) {
        const uint64_t bits = reference_mix((uint64_t)(hdim * 64 + feature));
        const int *lengths = lengths_of[bits >> 50 & 3];
        add_score_case(
            (gpu_case){.c = {hdim, hdim, bits >> 40 & 1 ? ATTNPRESS_BF16 : ATTNPRESS_FP16,
                             bits >> 41 & 1 ? ATTNPRESS_CAUSAL : ATTNPRESS_FULL, dispatch, 0},
                       .batch = 1,
                       .heads_kv = 2,
                       .group = bits >> 42 & 1 ? 3 : 1,
                       .seqlen_q = lengths[0],
                       .seqlen_k = lengths[1],
                       .layout = (int)(bits >> 44 & 3),
                       .with_lse = 1,
                       .num_splits = bits >> 46 & 1 ? 3 : 1},
            1u << feature, bits);
      }
}

/* Pairs of features, and all of them, by chance over everything else. */
static void add_feature_pairs(void) {
  static const int hdims[][2] = {{64, 64},   {128, 128}, {96, 96},   {256, 256}, {72, 72},
                                 {192, 128}, {40, 40},   {128, 128}, {64, 64},   {320, 320}};
  for (int i = 0; i < SCORE_PAIRS; ++i) {
    const uint64_t bits = reference_mix((uint64_t)i), more = reference_mix(bits);
    const unsigned first = i % FEATURES, second = (unsigned)(i / FEATURES) % FEATURES;
    const int *hdim = hdims[more % (sizeof hdims / sizeof *hdims)];
    const lengths *l = &pairs[(more >> 8 & 0xffff) % PAIRS];
    const int large = l->seqlen_k > 5000 || l->seqlen_q > 2100;
    add_score_case(
        (gpu_case){.c = {hdim[0], hdim[1], more >> 24 & 1 ? ATTNPRESS_BF16 : ATTNPRESS_FP16,
                         more >> 25 & 1 ? ATTNPRESS_CAUSAL : ATTNPRESS_FULL,
                         more >> 26 & 1 ? BEST : NO_MAPS, 0},
                   .batch = large ? 1 : 2,
                   .heads_kv = 2,
                   .group = groups[more >> 28 & 3],
                   .seqlen_q = l->seqlen_q,
                   .seqlen_k = l->seqlen_k,
                   .layout = (int)(more >> 30 & 3),
                   .with_lse = (more >> 32 & 3) != 0,
                   .num_splits = split_counts[more >> 34 & 3],
                   .scale = more >> 36 & 1 ? 0.2f : 0.0f},
        i % 40 == 39 ? (1u << FEATURES) - 1 : 1u << first | 1u << second, bits);
  }
}

static void *prepare_scores_main(void *unused) {
  (void)unused;
  g.d.ctx_set_current(g.d.context);
  for (;;) {
    pthread_mutex_lock(&preparation.lock);
    const int i = score_cases.next++;
    pthread_mutex_unlock(&preparation.lock);
    if (i >= score_cases.count)
      return NULL;
    const gpu_case *c = &score_cases.list[i];
    attnpress_forward_args a = describe_case(c);
    attnpress_plan *plan = NULL;
    if (attnpress_plan_forward(handle_of(c), &a, NULL, &plan) == ATTNPRESS_OK)
      (void)attnpress_plan_prepare(plan, NULL); /* a failure shows again when the call is made */
    attnpress_plan_destroy(plan);
  }
}

static void prepare_scores(void) {
  add_single_features();
  add_feature_pairs();
  if (!g.list)
    run_on_all_cores(prepare_scores_main);
}

static void test_scores(void) {
  for (int i = 0; i < score_cases.count; ++i)
    (void)run_case(&score_cases.list[i]);
}

/* ---- Dropout's decisions --------------------------------------------------------------------- */

/* Where V is the unit matrix, out is P: an element is 0 where the probability was dropped. Of longer
 * keys, V is that for the last ones, and 0 before. Every decision is compared with the host's. */
static void check_decisions(const gpu_case *c, stem_row *row) {
  attnpress_forward_args a = place_case(c, 1);
  const int64_t heads = c->heads_kv * c->group, columns = c->c.hdim_v;
  const int64_t first_key = c->seqlen_k - columns;
  const size_t v_bytes = (size_t)span_of(&a.v) * 2, out_bytes = (size_t)span_of(&a.out) * 2;
  uint16_t *v = calloc(v_bytes, 1), *out = malloc(out_bytes);
  const uint16_t one = c->c.dtype == ATTNPRESS_FP16 ? 0x3c00 : 0x3f80;
  for (int64_t b = 0; b < c->batch; ++b)
    for (int64_t h = 0; h < c->heads_kv; ++h)
      for (int64_t i = 0; i < columns; ++i)
        v[b * a.v.stride[0] + (first_key + i) * a.v.stride[1] + h * a.v.stride[2] + i] = one;
  CUDA(stream_synchronize(g.stream));
  CUDA(memcpy_htod((CUdeviceptr)(uintptr_t)a.v.data, v, v_bytes));
  CUDA(ctx_synchronize()); /* from pageable memory it may still be under way */
  ++row->calls;
  if (attnpress_forward(handle_of(c), &a, g.stream) != ATTNPRESS_OK)
    failed(row, "attnpress_forward: %s", attnpress_last_error());
  CUDA(stream_synchronize(g.stream));
  CUDA(memcpy_dtoh(out, (CUdeviceptr)(uintptr_t)a.out.data, out_bytes));
  const ap_dropout expected = decisions_of(c);
  int64_t wrong = 0;
  for (int64_t b = 0; b < c->batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < c->seqlen_q; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          const int kept =
              (out[b * a.out.stride[0] + i * a.out.stride[1] + h * a.out.stride[2] + j] & 0x7fff) !=
              0;
          wrong += kept != ap_dropout_keeps(&expected, b * heads + h, i, first_key + j);
        }
  if (wrong != 0)
    failed(row, "%lld of %lld decisions are not the host's", (long long)wrong,
           (long long)(c->batch * heads * c->seqlen_q * columns));
  free(v);
  free(out);
}

/* The same decisions by every structure: head dims with other tiles, tensor maps and none, splits,
 * short queries, groups. Scales are small, so that no probability is 0. */
static void test_decisions(void) {
  static const struct {
    int hdim, dtype, seqlen_q, seqlen_k, group, splits;
  } rows[] = {{64, ATTNPRESS_FP16, 300, 64, 1, 1},    {64, ATTNPRESS_FP16, 300, 700, 4, 1},
              {128, ATTNPRESS_FP16, 300, 700, 4, 3},  {128, ATTNPRESS_BF16, 7, 700, 4, 1},
              {128, ATTNPRESS_BF16, 16, 1500, 1, 5},  {256, ATTNPRESS_BF16, 130, 555, 2, 1},
              {40, ATTNPRESS_BF16, 77, 333, 7, 2},    {512, ATTNPRESS_FP16, 65, 600, 1, 1},
              {320, ATTNPRESS_BF16, 3, 600, 8, 3},    {96, ATTNPRESS_FP16, 1, 2047, 8, 17},
              {192, ATTNPRESS_BF16, 257, 1023, 1, 1}, {8, ATTNPRESS_FP16, 129, 65, 1, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const gpu_case c = {.c = {rows[i].hdim, rows[i].hdim, rows[i].dtype, ATTNPRESS_FULL, BEST, 0},
                        .batch = 2,
                        .heads_kv = 2,
                        .group = rows[i].group,
                        .seqlen_q = rows[i].seqlen_q,
                        .seqlen_k = rows[i].seqlen_k,
                        .layout = BSHD,
                        .num_splits = rows[i].splits,
                        .scale = 0.01f,
                        .m = {.dropout = 0.3f, .seed_in_memory = (int)i % 2}};
    for_each_dispatch(&c, 1, check_decisions);
  }
}

/* The mask of 2^25 decisions: what share is dropped, how heads agree, and whether it is the host's,
 * decision by decision. */
static void test_dropout_mask(void) {
  enum { HEADS = 8, QUERIES = 2048, KEYS = 2048 };
  const int64_t draws = (int64_t)HEADS * QUERIES * KEYS;
  gpu_case c = {.m = {.dropout = 0.1f}};
  attnpress_dropout dropout = ATTNPRESS_DROPOUT_INIT;
  attnpress_dropout_mask_args args = ATTNPRESS_DROPOUT_MASK_ARGS_INIT;
  uint8_t *keep = malloc((size_t)draws);
  stem_row *row = row_of("dropout_keep_sm80");
  snprintf(g.current, sizeof g.current, "%lld decisions", (long long)draws);
  dropout.probability = c.m.dropout;
  dropout.seed = dropout_seed();
  dropout.offset = DROPOUT_OFFSET;
  args.dropout = &dropout;
  memcpy(args.shape, (int64_t[]){1, HEADS, QUERIES, KEYS}, sizeof args.shape);
  poison(need(OUT, (size_t)draws), (size_t)draws);
  args.keep = (uint8_t *)(uintptr_t)g.buffers[OUT].data;
  OK(attnpress_dropout_mask(g.handles[BEST], &args, g.stream));
  ++row->calls;
  CUDA(stream_synchronize(g.stream));
  CUDA(memcpy_dtoh(keep, g.buffers[OUT].data, (size_t)draws));
  const ap_dropout expected = decisions_of(&c);
  const double p = expected.threshold / 65536.0;
  int64_t dropped = 0, wrong = 0;
  for (int64_t i = 0; i < draws; ++i) {
    dropped += keep[i] == 0;
    wrong +=
        keep[i] != ap_dropout_keeps(&expected, i / (QUERIES * KEYS), i / KEYS % QUERIES, i % KEYS);
  }
  const double deviation =
      ((double)dropped - p * (double)draws) / sqrt(p * (1 - p) * (double)draws);
  printf("  %.6f of %lld are dropped, %.2f standard deviations from %.6f\n",
         (double)dropped / (double)draws, (long long)draws, deviation, p);
  if (wrong != 0)
    failed(row, "%lld decisions are not the host's", (long long)wrong);
  if (!(fabs(deviation) <= 4.0))
    failed(row, "the share that is dropped is %.2f standard deviations off", deviation);
  for (int head = 1; head < HEADS; ++head) { /* correlation with the head before */
    const uint8_t *x = keep + (int64_t)(head - 1) * QUERIES * KEYS, *y = x + QUERIES * KEYS;
    double sum = 0.0;
    for (int64_t i = 0; i < QUERIES * KEYS; ++i)
      sum += ((x[i] == 0) - p) * ((y[i] == 0) - p);
    const double z = sum / (p * (1 - p)) / sqrt((double)QUERIES * KEYS);
    if (!(fabs(z) <= 4.5)) /* of seven pairs */
      failed(row, "heads %d and %d: a correlation of %.2f standard deviations", head - 1, head, z);
  }
  free(keep);
}

/* ---- Past 2^31 elements ---------------------------------------------------------------------- */

static void run_large(const gpu_case *c, stem_row *row) {
  (void)row;
  attnpress_forward_args a = describe_case(c);
  size_t workspace = 0, free_bytes = 0, total = 0;
  OK(workspace_bytes_of(handle_of(c), &a, &workspace));
  free_buffers();
  CUDA(mem_get_info(&free_bytes, &total));
  const size_t wanted = tensor_bytes(&a.q) + tensor_bytes(&a.k) + tensor_bytes(&a.v) +
                        tensor_bytes(&a.out) + workspace + ((size_t)4 << 30);
  if (wanted > free_bytes)
    printf("skipped, needs %.0f GB of device memory: %s\n", (double)wanted * 1e-9, g.current);
  else
    run_case(c);
}

/* One query with more heads a key head than the tile of a decode kernel has rows, over few bytes of K
 * and V and over many: runtime/attention/heads.c has three ways to run it. */
static void test_many_heads(void) {
  static const struct {
    int64_t batch, heads_kv, group, seqlen_k;
  } shapes[] = {{3, 1, 71, 500}, {1, 2, 40, 333}, {2, 1, 71, 17000}, {1, 2, 142, 17000}};
  static const int hdims[] = {64, 128, 256};
  static const int splits[] = {0, 1, 3};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    for (int h = 0; h < 3; ++h)
      for (int layout = 0; layout < LAYOUTS; ++layout)
        for (int n = 0; n < 3; ++n) {
          const gpu_case c = {{hdims[h], hdims[h], ATTNPRESS_BF16, ATTNPRESS_CAUSAL,
                               layout == BHSD && n == 0 ? NO_MAPS : BEST, 0},
                              shapes[i].batch,
                              shapes[i].heads_kv,
                              shapes[i].group,
                              1,
                              shapes[i].seqlen_k,
                              layout,
                              1,
                              splits[n],
                              0.0f,
                              UNMODIFIED};
          (void)run_case(&c);
        }
}

/* Many queries of as many heads, which share tiles in parts, the last of them fewer; or not, where
 * there are several key heads and an odd group. */
static void test_parts_of_heads(void) {
  static const struct {
    int64_t batch, heads_kv, group, seqlen_q, seqlen_k;
  } shapes[] = {{3, 1, 71, 93, 93},
                {1, 1, 71, 671, 900},
                {2, 1, 77, 65, 3000},
                {1, 2, 128, 130, 300},
                {2, 2, 71, 100, 100}};
  static const int hdims[] = {64, 96, 128, 256};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    for (int h = 0; h < 4; ++h)
      for (int mask = ATTNPRESS_FULL; mask <= ATTNPRESS_CAUSAL; ++mask)
        for (int splits = 0; splits <= 3; splits += 3) {
          const gpu_case c = {.c = {hdims[h], hdims[h], ATTNPRESS_BF16, mask, BEST, 0},
                              .batch = shapes[i].batch,
                              .heads_kv = shapes[i].heads_kv,
                              .group = shapes[i].group,
                              .seqlen_q = shapes[i].seqlen_q,
                              .seqlen_k = shapes[i].seqlen_k,
                              .layout = (int)(i + (size_t)h) % LAYOUTS,
                              .with_lse = 1,
                              .num_splits = splits,
                              .m = {.sinks = (h + splits) % 4}};
          (void)run_case(&c);
        }
}

static void test_large_tensors(void) {
  static const gpu_case cases[] = {
      /* the offset of a batch passes 2^31 */
      {{128, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, BEST, 0},
       530,
       8,
       4,
       1024,
       1024,
       BSHD,
       1,
       1,
       0.0f,
       UNMODIFIED},
      {{64, 64, ATTNPRESS_FP16, ATTNPRESS_FULL, BEST, 0},
       1060,
       32,
       1,
       1024,
       512,
       BHSD,
       1,
       1,
       0.0f,
       UNMODIFIED},
      /* that of a key */
      {{128, 128, ATTNPRESS_BF16, ATTNPRESS_FULL, BEST, 0},
       1,
       8,
       4,
       128,
       2100000,
       BSHD,
       1,
       1,
       0.0f,
       UNMODIFIED},
      {{128, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, BEST, 0},
       1,
       8,
       8,
       1,
       2100000,
       BSHD,
       1,
       0,
       0.0f,
       UNMODIFIED},
      {{96, 96, ATTNPRESS_BF16, ATTNPRESS_FULL, BEST, 0},
       1,
       8,
       1,
       64,
       2900000,
       BSHD,
       1,
       3,
       0.0f,
       UNMODIFIED},
      /* that of a query */
      {{128, 128, ATTNPRESS_BF16, ATTNPRESS_FULL, BEST, 0},
       1,
       2,
       8,
       1060000,
       64,
       BSHD,
       1,
       1,
       0.0f,
       UNMODIFIED},
      {{256, 256, ATTNPRESS_BF16, ATTNPRESS_FULL, BEST, 0},
       1,
       8,
       1,
       1060000,
       64,
       BHSD_GAPS,
       1,
       1,
       0.0f,
       UNMODIFIED},
      {{192, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, BEST, 0},
       3,
       16,
       1,
       360000,
       77,
       BSHD,
       1,
       1,
       0.0f,
       UNMODIFIED},
      /* and that of a split's partial output */
      {{64, 64, ATTNPRESS_BF16, ATTNPRESS_FULL, BEST, 0},
       4,
       4,
       4,
       40000,
       600,
       BSHD,
       1,
       17,
       0.0f,
       UNMODIFIED},
      /* that of a bias */
      {.c = {64, 64, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, BEST, 0},
       .batch = 1,
       .heads_kv = 2,
       .group = 1,
       .seqlen_q = 40000,
       .seqlen_k = 40000,
       .with_lse = 1,
       .num_splits = 1,
       .m = {.bias = ATTNPRESS_BF16}},
  };
  for_each_dispatch(cases, sizeof cases / sizeof *cases, run_large);
  free_buffers();
}

/* ---- The same bits every time ---------------------------------------------------------------- */

static const gpu_case steady_cases[] = {
    {{64, 64, ATTNPRESS_FP16, ATTNPRESS_CAUSAL, BEST, 0},
     4,
     4,
     2,
     1024,
     1024,
     BSHD,
     1,
     1,
     0.0f,
     UNMODIFIED},
    {{128, 128, ATTNPRESS_BF16, ATTNPRESS_FULL, BEST, 0},
     4,
     8,
     1,
     1000,
     1111,
     BHSD,
     1,
     1,
     0.0f,
     UNMODIFIED},
    {{128, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, BEST, 0},
     60,
     6,
     1,
     239,
     512,
     BSHD,
     1,
     1,
     0.0f,
     UNMODIFIED},
    {{256, 256, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, BEST, 0},
     2,
     8,
     1,
     777,
     777,
     BSHD_GAPS,
     1,
     1,
     0.0f,
     UNMODIFIED},
    {{192, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, BEST, 0},
     2,
     8,
     1,
     513,
     700,
     BSHD,
     1,
     1,
     0.0f,
     UNMODIFIED},
    {{96, 96, ATTNPRESS_FP16, ATTNPRESS_FULL, BEST, 0},
     2,
     2,
     7,
     3,
     799,
     BSHD,
     1,
     3,
     0.0f,
     UNMODIFIED},
    {{64, 64, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, BEST, 0},
     2,
     2,
     1,
     130,
     150,
     BSHD,
     1,
     1,
     0.0f,
     UNMODIFIED},
    {{128, 128, ATTNPRESS_BF16, ATTNPRESS_FULL, BEST, 0},
     1,
     8,
     4,
     1,
     131072,
     BSHD,
     1,
     0,
     0.0f,
     UNMODIFIED},
    {{64, 64, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, BEST, 0},
     2,
     2,
     4,
     16,
     20000,
     BHSD,
     1,
     17,
     0.0f,
     UNMODIFIED},
    {{512, 512, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, BEST, 0},
     1,
     4,
     1,
     500,
     600,
     BSHD,
     1,
     1,
     0.0f,
     UNMODIFIED},
    {{320, 320, ATTNPRESS_FP16, ATTNPRESS_FULL, BEST, 0},
     1,
     4,
     1,
     500,
     600,
     BSHD,
     1,
     3,
     0.0f,
     UNMODIFIED},
};

static void for_each_steady_case(void (*act)(const gpu_case *c, stem_row *row)) {
  for (size_t i = 0; i < sizeof steady_cases / sizeof *steady_cases; ++i) {
    const gpu_case *c = &steady_cases[i];
    if (!g.quick || c->batch * c->seqlen_q * c->seqlen_k <= 1 << 17)
      for_each_dispatch(c, 1, act);
  }
}

static void check_same_bits(const gpu_case *c, stem_row *row) {
  const int runs = g.quick ? 3 : 1000; /* as many as FlashAttention-3's tests */
  attnpress_forward_args a = place_case(c, 1);
  const size_t out_bytes = tensor_bytes(&a.out), all_bytes = out_bytes + lse_bytes(c);
  uint64_t results[RESULT_WORDS];
  need(SAVED, all_bytes);
  clear_results();
  for (int run = 0; run < runs; ++run) {
    a = place_case(c, 0);
    ++row->calls;
    OK(attnpress_forward(handle_of(c), &a, g.stream));
    const CUdeviceptr saved = g.buffers[SAVED].data;
    if (run == 0) {
      CUDA(memcpy_dtod_async(saved, g.buffers[OUT].data, out_bytes, g.stream));
      CUDA(memcpy_dtod_async(saved + out_bytes, g.buffers[LSE].data, lse_bytes(c), g.stream));
    } else {
      count_differences(saved, g.buffers[OUT].data, out_bytes);
      count_differences(saved + out_bytes, g.buffers[LSE].data, lse_bytes(c));
    }
  }
  read_results(results);
  if (results[COUNT_DIFFERENT] != 0)
    failed(row, "%d runs: %llu words differ from the first run's", runs,
           (unsigned long long)results[COUNT_DIFFERENT]);
  check_outputs(c, &a, row);
}

static void test_same_bits(void) {
  for_each_steady_case(check_same_bits);
}

/* ---- CUDA graphs ----------------------------------------------------------------------------- */

/* Launches a graph twice, over poison. */
static void check_graph(const gpu_case *c, const attnpress_forward_args *a, CUgraph graph,
                        stem_row *row) {
  CUgraphExec exec = NULL;
  CUDA(graph_instantiate(&exec, graph, 0));
  for (int run = 0; run < 2; ++run) {
    (void)place_case(c, 0); /* poison again */
    CUDA(graph_launch(exec, g.stream));
    ++row->calls;
    check_outputs(c, a, row);
  }
  CUDA(graph_exec_destroy(exec));
}

/* A new handle has loaded nothing: under capture it refuses, and the capture goes on; after prepare
 * it captures, and the graph computes. */
static void check_capture(const gpu_case *c, stem_row *row) {
  attnpress_handle *fresh = make_handle(c->c.dispatch);
  attnpress_forward_args a = place_case(c, 1);
  CUgraph graph = NULL;
  CUDA(stream_begin_capture(g.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  const attnpress_status refused = attnpress_forward(fresh, &a, g.stream);
  CUDA(stream_end_capture(g.stream, &graph)); /* the refusal has not broken the capture */
  if (graph)
    CUDA(graph_destroy(graph));
  if (refused != ATTNPRESS_CAPTURING)
    failed(row, "under capture, before prepare: status %d (%s), not ATTNPRESS_CAPTURING",
           (int)refused, attnpress_status_string(refused));
  OK(prepare_any(fresh, &a));
  CUDA(stream_begin_capture(g.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  const attnpress_status captured = attnpress_forward(fresh, &a, g.stream);
  const char *sentence = attnpress_last_error();
  CUDA(stream_end_capture(g.stream, &graph));
  if (captured != ATTNPRESS_OK)
    failed(row, "under capture, after prepare: %s", sentence);
  else
    check_graph(c, &a, graph, row);
  CUDA(graph_destroy(graph));
  CUDA(stream_synchronize(g.stream));
  attnpress_destroy(fresh);
}

static void test_capture(void) {
  for_each_steady_case(check_capture);
}

/* ---- Threads --------------------------------------------------------------------------------- */

typedef struct caller {
  attnpress_handle *handle;
  attnpress_forward_args args;
  CUstream stream;
  pthread_t thread;
  attnpress_status status;
  char sentence[1024];
} caller;

static void *caller_main(void *argument) {
  caller *c = argument;
  g.d.ctx_set_current(g.d.context);
  for (int run = 0; run < 20 && c->status == ATTNPRESS_OK; ++run)
    c->status = attnpress_forward(c->handle, &c->args, c->stream);
  if (c->status != ATTNPRESS_OK)
    snprintf(c->sentence, sizeof c->sentence, "%s", attnpress_last_error());
  g.d.stream_synchronize(c->stream);
  return NULL;
}

enum { CALLERS = 8 };

/* Threads that call a new handle at once, each on its stream, all compute what one computes. */
static void check_threads(const gpu_case *c, stem_row *row) {
  attnpress_forward_args a = place_case(c, 1);
  OK(attnpress_forward(handle_of(c), &a, g.stream));
  check_outputs(c, &a, row);
  const size_t bytes = tensor_bytes(&a.out);
  const CUdeviceptr outs = need(SAVED, bytes * CALLERS);
  caller callers[CALLERS];
  attnpress_handle *fresh = make_handle(c->c.dispatch);
  uint64_t results[RESULT_WORDS];
  poison(outs, bytes * CALLERS);
  clear_results();
  CUDA(stream_synchronize(g.stream));
  for (int i = 0; i < CALLERS; ++i) {
    callers[i] = (caller){.handle = fresh, .args = a};
    callers[i].args.lse = NULL;
    callers[i].args.out.data = (void *)(uintptr_t)(outs + bytes * (size_t)i + GUARD * 2);
    CUDA(stream_create(&callers[i].stream, CU_STREAM_NON_BLOCKING));
    if (pthread_create(&callers[i].thread, NULL, caller_main, &callers[i]) != 0)
      die("no thread could be started");
  }
  for (int i = 0; i < CALLERS; ++i) {
    pthread_join(callers[i].thread, NULL);
    row->calls += 20;
    if (callers[i].status != ATTNPRESS_OK)
      failed(row, "thread %d: %s", i, callers[i].sentence);
    count_differences(g.buffers[OUT].data, outs + bytes * (size_t)i, bytes);
    CUDA(stream_destroy(callers[i].stream));
  }
  read_results(results);
  if (results[COUNT_DIFFERENT] != 0)
    failed(row, "%d threads: %llu words differ from one thread's", CALLERS,
           (unsigned long long)results[COUNT_DIFFERENT]);
  attnpress_destroy(fresh);
}

static void test_threads(void) {
  gpu_case c = steady_cases[0];
  if (g.quick)
    c.seqlen_q = c.seqlen_k = 130;
  for_each_dispatch(&c, 1, check_threads);
}

/* ---- What ran -------------------------------------------------------------------------------- */

static void check_coverage(void) {
  for (size_t i = 0; i < ap_default_set_count; ++i) {
    const ap_prebuilt_row *prebuilt = &ap_default_set[i];
    ap_variant v;
    if (!is_for_this_device(prebuilt, &v))
      continue;
    stem_row *row = row_of(prebuilt->stem);
    snprintf(g.current, sizeof g.current, "the default set for %s", prebuilt->target);
    if (row->calls == 0)
      failed(row, "no call of the table ran it");
  }
}

static int compare_rows(const void *a, const void *b) {
  return strcmp(((const stem_row *)a)->stem, ((const stem_row *)b)->stem);
}

static void print_summary(void) {
  qsort(summary.rows, (size_t)summary.count, sizeof *summary.rows, compare_rows);
  printf("\n%-72s %6s %6s %12s %10s\n", "kernel", "calls", "failed", "error/bound", "lse error");
  for (int i = 0; i < summary.count; ++i) {
    const stem_row *r = &summary.rows[i];
    printf("%-72s %6ld %6ld %12.3f %10.1e\n", r->stem, r->calls, r->failures, r->ratio, r->lse);
  }
}

static void timed(const char *name, void (*test)(void)) {
  const double start = seconds();
  const long failures = g.failures;
  test();
  snprintf(g.current, sizeof g.current, "after %s", name);
  CUDA(ctx_synchronize());
  printf("%-32s %s, %.1f s\n", name, g.failures == failures ? "ok" : "FAILED", seconds() - start);
  fflush(stdout);
}

/* What can be checked without a device. */
static int check_reference_compiles(void) {
  char why[4096];
  char *cubin = compile_reference(90, 0, why, sizeof why);
  if (!cubin && strstr(why, "does not compile")) {
    printf("%s\n", why);
    return 1;
  }
  free(cubin);
  return EXIT_SKIPPED;
}

static int usage(FILE *to, int status) {
  fputs("usage: test_gpu_forward [--quick] [--scores] [--only GLOB] [--list] [--seed N]\n"
        "  --quick      small lengths only, for compute-sanitizer\n"
        "  --scores     what is done to scores, and nothing else\n"
        "  --only GLOB  only calls whose kernel's name matches, such as '*_hdim128_*'\n"
        "  --list       counts the calls of the table by kernel, and makes none\n"
        "  --seed N     of the random inputs (default 1)\n",
        to);
  return status;
}

int main(int argc, char **argv) {
  char why[4096];
  g.seed = 1;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--quick") == 0)
      g.quick = 1;
    else if (strcmp(argv[i], "--scores") == 0)
      g.scores_only = 1;
    else if (strcmp(argv[i], "--list") == 0)
      g.list = 1;
    else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
      g.only = argv[++i];
    else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
      g.seed = strtoull(argv[++i], NULL, 10);
    else if (strcmp(argv[i], "--help") == 0)
      return usage(stdout, 0);
    else
      return usage(stderr, 2);
  }
  if (cuda_device_open(&g.d, 0, why, sizeof why) != 0) {
    printf("SKIP: no CUDA device (%s)\n", why);
    return check_reference_compiles();
  }
  const double start = seconds();
  printf("%s, compute capability %d.%d, %d SMs, driver for CUDA %d.%d\n", g.d.name,
         g.d.capability / 10, g.d.capability % 10, g.d.sm_count, g.d.driver_version / 1000,
         g.d.driver_version % 1000 / 10);
  snprintf(g.current, sizeof g.current, "set-up");
  CUDA(stream_create(&g.stream, CU_STREAM_NON_BLOCKING));
  need(RESULTS, 8 * RESULT_WORDS);
  if (!g.list)
    load_reference();
  for (int dispatch = BEST; dispatch < DISPATCHES; ++dispatch)
    g.handles[dispatch] = make_handle(dispatch);
  if (!g.scores_only) {
    collect_configs();
    timed("compile what is not linked in", prepare_all);
    timed("shapes", test_table);
  }
  if (!g.quick) {
    timed("compile what is done to scores", prepare_scores);
    timed("what is done to scores", test_scores);
  }
  if (!g.list) {
    timed("dropout's decisions", test_decisions);
    timed("dropout's mask", test_dropout_mask);
  }
  if (!g.list && !g.scores_only) {
    timed("many heads of one query", test_many_heads);
    timed("large groups in parts", test_parts_of_heads);
  }
  if (!g.quick && !g.list)
    timed("tensors past 2^31 elements", test_large_tensors);
  if (!g.list && !g.scores_only) {
    timed("the same bits every time", test_same_bits);
    timed("CUDA graphs", test_capture);
    timed("threads", test_threads);
  }
  if (!g.quick && !g.only && !g.scores_only)
    timed("the whole default set ran", check_coverage);
  print_summary();
  printf("%ld calls of the table, %ld failures, %.1f s\n", g.calls, g.failures, seconds() - start);
  for (int dispatch = BEST; dispatch < DISPATCHES; ++dispatch)
    attnpress_destroy(g.handles[dispatch]);
  free_buffers();
  if (g.module)
    CUDA(module_unload(g.module));
  CUDA(stream_destroy(g.stream));
  cuda_device_close(&g.d);
  return g.failures || g.calls == 0;
}
