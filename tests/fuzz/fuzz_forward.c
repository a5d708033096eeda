/* Arguments of the forward pass: a small legal call, some of whose fields are written over. A call
 * gives one of the statuses that the header lists, the queries agree with it, and what is allowed
 * runs within its tensors.
 *
 * On the CPU it runs, on buffers of their very size. On the stand-in for the driver (where
 * ATTNPRESS_BUILD_DIR has one) it is planned for several devices, up to the kernel, which nothing
 * may compile. A handle that only compiles refuses all of it. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>

#include "../fake_cuda.h"
#include "attnpress/attnpress.h"

enum { DEVICES = 6, BUFFER_MAX_BYTES = 1 << 18, ROWS_MAX = 2048, KEYS_MAX = 512 };

static attnpress_handle *cpu, *compiler, *gpu; /* gpu: NULL where there is no stand-in */
static const int capabilities[DEVICES] = {80, 86, 89, 90, 100, 120};
static CUcontext contexts[DEVICES];
static fake_cuda *driver;

/* ---- Handles --------------------------------------------------------------------------------- */

static attnpress_handle *make_handle(int32_t backend) {
  attnpress_handle *handle;
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.backend = backend;
  options.cache_off = options.jit_off = options.num_threads = 1;
  HOLDS(attnpress_create(&handle, &options) == ATTNPRESS_OK);
  return handle;
}

static void open_driver(void) {
  char path[PATH_MAX];
  const char *folder = getenv("ATTNPRESS_BUILD_DIR");
  snprintf(path, sizeof path, "%s/libfake_cuda.so", folder != NULL ? folder : ".");
  void *library = dlopen(path, RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "without devices: %s\n", dlerror());
    return;
  }
  setenv("ATTNPRESS_LIBCUDA", path, 1);
  gpu = make_handle(ATTNPRESS_CUDA);
  fake_cuda_state_function *state;
  *(void **)&state = dlsym(library, "fake_cuda_state");
  driver = state();
  for (int i = 0; i < DEVICES; ++i)
    contexts[i] = driver->context_new(0);
}

/* ---- A call ---------------------------------------------------------------------------------- */

enum { TAIL_BYTES = 4096 }; /* the most that a struct_size may claim beyond what is known */

typedef struct tailed_args {
  attnpress_forward_args args;
  unsigned char tail[TAIL_BYTES];
} tailed_args;

/** The groups that the arguments may point to, and what one of them points to in turn. */
typedef struct tailed_groups {
  attnpress_window window;
  attnpress_alibi alibi;
  attnpress_bias bias;
  attnpress_sinks sinks;
  attnpress_dropout dropout;
  attnpress_score_mod score_mod;
  attnpress_ragged ragged;
  unsigned char tail[TAIL_BYTES];
} tailed_groups;

/* As many as a snippet may have. */
#define SCALAR(name)                                                                               \
  { name, ATTNPRESS_INT32, 0.0f, 1, 0 }
#define BUFFER(name)                                                                               \
  { name, (void *)0x70000, {3, 5}, {5, 1}, ATTNPRESS_FP32, 2 }
static const attnpress_score_scalar mod_scalars[16] = {
    SCALAR("s0"),  SCALAR("s1"),  SCALAR("s2"),  SCALAR("s3"), SCALAR("s4"),  SCALAR("s5"),
    SCALAR("s6"),  SCALAR("s7"),  SCALAR("s8"),  SCALAR("s9"), SCALAR("s10"), SCALAR("s11"),
    SCALAR("s12"), SCALAR("s13"), SCALAR("s14"), SCALAR("s15")};
static const attnpress_score_buffer mod_buffers[8] = {BUFFER("t0"), BUFFER("t1"), BUFFER("t2"),
                                                      BUFFER("t3"), BUFFER("t4"), BUFFER("t5"),
                                                      BUFFER("t6"), BUFFER("t7")};

static const uint64_t seed_and_offset[2] = {7, 11};

static attnpress_tensor make_tensor(fuzz_input *input, int64_t batch, int64_t seqlen, int64_t heads,
                                    int64_t hdim, int32_t dtype) {
  void *data = (void *)0x10000;
  return fuzz_take(input, 1) % 2 ? attnpress_tensor_bshd(data, batch, seqlen, heads, hdim, dtype)
                                 : attnpress_tensor_bhsd(data, batch, seqlen, heads, hdim, dtype);
}

static void make_legal(fuzz_input *input, attnpress_forward_args *args) {
  static const int hdims[] = {8, 16, 40, 64, 72, 128, 256, 264, 512};
  const int64_t batch = (int64_t)fuzz_take(input, 1) % 4,
                heads_kv = (int64_t)fuzz_take(input, 1) % 3;
  const int64_t heads_q = heads_kv * (1 + (int64_t)fuzz_take(input, 1) % 9);
  const int64_t seqlen_q = (int64_t)fuzz_take(input, 1) % 40;
  const int64_t seqlen_k = (int64_t)fuzz_take(input, 1);
  const int64_t hdim = hdims[fuzz_take(input, 1) % (sizeof hdims / sizeof *hdims)];
  const int32_t dtype = 1 + (int32_t)fuzz_take(input, 1) % 3;
  args->q = make_tensor(input, batch, seqlen_q, heads_q, hdim, dtype);
  args->k = make_tensor(input, batch, seqlen_k, heads_kv, hdim, dtype);
  args->v = make_tensor(input, batch, seqlen_k, heads_kv, hdim, dtype);
  args->out = make_tensor(input, batch, seqlen_q, heads_q, hdim, dtype);
  args->mask = (int32_t)fuzz_take(input, 1) % 2;
  args->num_splits = (int32_t)fuzz_take(input, 1) % 4;
  args->lse = fuzz_take(input, 1) % 2 ? (float *)0x20000 : NULL;
  args->workspace = (void *)0x30000;
  args->workspace_bytes = SIZE_MAX;
}

/** Groups that fit the call; those that `which` has a bit for are part of it. */
static void make_groups(fuzz_input *input, attnpress_forward_args *args, tailed_groups *groups) {
  const int64_t *q = args->q.shape, keys = args->k.shape[1];
  const int which = (int)fuzz_take(input, 1), sides = (int)fuzz_take(input, 1);
  groups->window = (attnpress_window)ATTNPRESS_WINDOW_INIT;
  groups->window.left = sides % 8 - 1;
  groups->window.right = sides / 8 % 4 - 1;
  groups->window.chunk = sides / 32 % 4 * 5;
  groups->window.top_left = sides / 128;
  groups->alibi = (attnpress_alibi)ATTNPRESS_ALIBI_INIT;
  groups->alibi.slopes = (const float *)0x40000;
  groups->bias = (attnpress_bias){.struct_size = sizeof groups->bias,
                                  .data = (void *)0x50000,
                                  .shape = {q[0], q[2], q[1], keys},
                                  .stride = {q[2] * q[1] * keys, q[1] * keys, keys, 1},
                                  .dtype = 1 + which / 32 % 3};
  groups->sinks = (attnpress_sinks)ATTNPRESS_SINKS_INIT;
  groups->sinks.data = (void *)0x60000;
  groups->sinks.dtype = 1 + which / 32 % 3;
  groups->dropout = (attnpress_dropout)ATTNPRESS_DROPOUT_INIT;
  groups->dropout.probability = 0.25f;
  groups->ragged = (attnpress_ragged)ATTNPRESS_RAGGED_INIT;
  groups->ragged.batch = q[0];
  groups->ragged.max_seqlen_q = sides % 16;
  groups->ragged.seqused_q = groups->ragged.seqused_k = (const int32_t *)0x70000;
  if (sides % 3 == 0 && keys > 0) {
    groups->ragged.page_table = (const int32_t *)0x80000;
    groups->ragged.page_table_pages = 1 + sides % 5;
  }
  if (which & 1)
    args->mask = ATTNPRESS_WINDOW;
  args->window = which & 1 ? &groups->window : NULL;
  args->alibi = which & 2 ? &groups->alibi : NULL;
  args->bias = which & 4 ? &groups->bias : NULL;
  args->sinks = which & 8 ? &groups->sinks : NULL;
  args->dropout = which & 16 ? &groups->dropout : NULL;
  const int snippet = (int)fuzz_take(input, 1);
  groups->score_mod = (attnpress_score_mod)ATTNPRESS_SCORE_MOD_INIT;
  groups->score_mod.score = snippet & 1 ? "score *= s0;" : NULL;
  groups->score_mod.mask = snippet & 2 ? "k <= q + b" : snippet & 4 ? "h_kv < t0(h, k)" : NULL;
  groups->score_mod.scalar_count = 1 + snippet / 16;
  groups->score_mod.buffer_count = 1 + snippet / 32;
  if (snippet % 3 == 0) { /* which do not go with it */
    args->score_mod = &groups->score_mod;
    args->alibi = NULL;
    args->bias = NULL;
  }
  args->ragged = which & 32 ? &groups->ragged : NULL;
}

/** Pointers that the library follows: what was written over is NULL, or there. Arrays of lengths are
 * read where the call runs: on the CPU there are none here, but in fuzz_sequences.c. */
static void mend_pointers(attnpress_forward_args *args, tailed_groups *groups, int on_cpu) {
  args->ragged = args->ragged && !on_cpu ? &groups->ragged : NULL;
  args->window = args->window ? &groups->window : NULL;
  args->alibi = args->alibi ? &groups->alibi : NULL;
  args->bias = args->bias ? &groups->bias : NULL;
  args->sinks = args->sinks ? &groups->sinks : NULL;
  args->dropout = args->dropout ? &groups->dropout : NULL;
  args->score_mod = args->score_mod ? &groups->score_mod : NULL;
  attnpress_score_mod *mod = &groups->score_mod;
  mod->name = mod->name ? "own" : NULL;
  mod->score = mod->score ? "score *= s0;" : NULL;
  mod->mask = mod->mask ? (uintptr_t)mod->mask % 2 ? "k <= q + b" : "h_kv < t0(h, k)" : NULL;
  mod->score_grad = mod->score_grad ? "1.0f" : NULL;
  mod->scalars = mod_scalars;
  mod->buffers = mod_buffers;
  if (groups->dropout.seed_and_offset != NULL)
    groups->dropout.seed_and_offset = seed_and_offset;
}

static uint64_t take_value(fuzz_input *input) {
  static const uint64_t edges[] = {0,
                                   1,
                                   8,
                                   UINT64_MAX,
                                   INT32_MAX,
                                   UINT32_MAX,
                                   INT32_MAX - 1023,
                                   UINT64_C(1) << 31,
                                   UINT64_C(1) << 39,
                                   UINT64_C(1) << 62,
                                   INT64_MAX,
                                   INT64_MAX - 7,
                                   (uint64_t)INT64_MIN};
  const size_t kind = (size_t)fuzz_take(input, 1), count = sizeof edges / sizeof *edges;
  return kind % 2 ? edges[kind / 2 % count] : fuzz_take(input, kind % 16 < 8 ? 1 : 8);
}

/** Writes over fields, or parts of two, with the rest of the input. */
static void write_over(fuzz_input *input, tailed_args *call, tailed_groups *groups) {
  enum { ARGS = sizeof call->args, ALL = ARGS + offsetof(tailed_groups, tail) };
  while (input->size > 0) {
    const size_t at = (size_t)fuzz_take(input, 2) * 4 % ALL;
    const uint64_t value = take_value(input);
    char *field = at < ARGS ? (char *)call + at : (char *)groups + (at - ARGS);
    memcpy(field, &value, fuzz_take(input, 1) % 2 ? 8 : 4);
  }
}

/* ---- On the CPU ------------------------------------------------------------------------------ */

__extension__ typedef __int128 span_t;

/** Bytes from the first to behind the last element; -1: more than a test has. */
static int64_t span_bytes(const attnpress_tensor *t) {
  span_t last = t->shape[3];
  for (int i = 0; i < 3; ++i) {
    if (t->shape[i] == 0)
      return 0;
    if (t->shape[i] > 1)
      last += (span_t)(t->shape[i] - 1) * t->stride[i];
  }
  last *= t->dtype == ATTNPRESS_FP32 ? 4 : 2;
  return last <= BUFFER_MAX_BYTES ? (int64_t)last : -1;
}

static int is_small(const attnpress_forward_args *a) {
  int64_t rows = 1;
  for (int i = 0; i < 3; ++i)
    rows = a->q.shape[i] <= ROWS_MAX ? rows * a->q.shape[i] : ROWS_MAX + 1;
  return rows <= ROWS_MAX && a->k.shape[1] <= KEYS_MAX && span_bytes(&a->q) >= 0 &&
         span_bytes(&a->k) >= 0 && span_bytes(&a->v) >= 0 && span_bytes(&a->out) >= 0;
}

static void *make_buffer(int64_t bytes, int byte) {
  void *buffer = NULL;
  HOLDS(posix_memalign(&buffer, 64, bytes > 0 ? (size_t)bytes : 1) == 0);
  memset(buffer, byte, (size_t)bytes);
  return buffer;
}

/** lse as (batch, heads, seqlen_q, 1), for its span. */
static attnpress_tensor lse_tensor(const attnpress_forward_args *a) {
  const int contiguous = a->lse_stride[0] == 0 && a->lse_stride[1] == 0;
  attnpress_tensor t = {.shape = {a->q.shape[0], a->q.shape[2], a->q.shape[1], 1},
                        .stride = {a->lse_stride[0], a->lse_stride[1], 1, 1},
                        .dtype = ATTNPRESS_FP32};
  if (contiguous) {
    t.stride[0] = a->q.shape[1] * a->q.shape[2];
    t.stride[1] = a->q.shape[1];
  }
  return t;
}

/* A group's data as tensors, for their spans. */
static attnpress_tensor slopes_tensor(const attnpress_forward_args *a) {
  const int contiguous = a->alibi->stride[0] == 0 && a->alibi->stride[1] == 0;
  return (attnpress_tensor){
      .shape = {1, a->q.shape[0], a->q.shape[2], 1},
      .stride = {0, a->alibi->stride[0], contiguous ? 1 : a->alibi->stride[1], 1},
      .dtype = ATTNPRESS_FP32};
}

/** span_bytes() takes the last dimension as contiguous: here it is the elements that it spans. */
static attnpress_tensor bias_tensor(const attnpress_forward_args *a) {
  const attnpress_bias *b = a->bias;
  const span_t keys = b->shape[3] > 0 ? (span_t)(b->shape[3] - 1) * b->stride[3] + 1 : 0;
  return (attnpress_tensor){.shape = {b->shape[0], b->shape[1], b->shape[2],
                                      keys < INT32_MAX ? (int64_t)keys : INT32_MAX},
                            .stride = {b->stride[0], b->stride[1], b->stride[2], 1},
                            .dtype = b->dtype};
}

static attnpress_tensor sinks_tensor(const attnpress_forward_args *a) {
  return (attnpress_tensor){.shape = {1, 1, a->q.shape[2], 1},
                            .stride = {0, 0, a->sinks->stride == 0 ? 1 : a->sinks->stride, 1},
                            .dtype = a->sinks->dtype};
}

/** Gives the groups, and lse, buffers of their very size, if all are small. */
static int make_small_buffers(attnpress_forward_args *a, tailed_groups *groups, int byte) {
  enum { LSE, SLOPES, BIAS, SINKS, COUNT };
  int64_t bytes[COUNT] = {0};
  attnpress_tensor t;
  if (a->lse != NULL)
    t = lse_tensor(a), bytes[LSE] = span_bytes(&t);
  if (a->alibi != NULL)
    t = slopes_tensor(a), bytes[SLOPES] = span_bytes(&t);
  if (a->bias != NULL)
    t = bias_tensor(a), bytes[BIAS] = span_bytes(&t);
  if (a->sinks != NULL)
    t = sinks_tensor(a), bytes[SINKS] = span_bytes(&t);
  for (int i = 0; i < COUNT; ++i)
    if (bytes[i] < 0)
      return 0;
  if (a->lse != NULL)
    a->lse = make_buffer(bytes[LSE], 0xff);
  if (a->alibi != NULL)
    groups->alibi.slopes = make_buffer(bytes[SLOPES], byte);
  if (a->bias != NULL)
    groups->bias.data = make_buffer(bytes[BIAS], byte);
  if (a->sinks != NULL)
    groups->sinks.data = make_buffer(bytes[SINKS], byte);
  return 1;
}

static void free_small_buffers(attnpress_forward_args *a, tailed_groups *groups) {
  free(a->lse);
  if (a->alibi != NULL)
    free((void *)(uintptr_t)groups->alibi.slopes);
  if (a->bias != NULL)
    free((void *)(uintptr_t)groups->bias.data);
  if (a->sinks != NULL)
    free((void *)(uintptr_t)groups->sinks.data);
}

/** Runs a call that the queries allow, unless it is too large. */
static void run_on_cpu(attnpress_forward_args *a, tailed_groups *groups) {
  enum { FINITE = 0x3c }; /* as every byte: about 1 in fp16, 0.01 in the others */
  attnpress_tensor *tensors[] = {&a->q, &a->k, &a->v, &a->out};
  if (!is_small(a))
    return;
  if (!make_small_buffers(a, groups, FINITE))
    return;
  for (int i = 0; i < 4; ++i)
    tensors[i]->data = make_buffer(span_bytes(tensors[i]), i < 3 ? FINITE : 0xff);
  HOLDS(attnpress_forward(cpu, a, NULL) == ATTNPRESS_OK);
  static const unsigned char unwritten[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  if (span_bytes(&a->out) > 0)
    HOLDS(memcmp(a->out.data, unwritten, sizeof unwritten) != 0);
  for (int i = 0; i < 4; ++i)
    free(tensors[i]->data);
  free_small_buffers(a, groups);
}

static int is_refusal(attnpress_status status) {
  return status == ATTNPRESS_INVALID_ARGUMENT || status == ATTNPRESS_NOT_SUPPORTED;
}

/** What planning gives; a plan answers every question. */
static attnpress_status query(attnpress_handle *handle, const attnpress_forward_args *args) {
  attnpress_plan *plan = NULL;
  size_t bytes = 1;
  const attnpress_status status = attnpress_plan_forward(handle, args, NULL, &plan);
  HOLDS(status == ATTNPRESS_OK || is_refusal(status));
  HOLDS((plan != NULL) == (status == ATTNPRESS_OK));
  HOLDS(plan != NULL || *attnpress_last_error() != '\0');
  HOLDS(plan == NULL || attnpress_plan_workspace_bytes(plan, &bytes) == ATTNPRESS_OK);
  for (int i = 0; i < attnpress_plan_launch_count(plan); ++i) {
    attnpress_info info = ATTNPRESS_INFO_INIT;
    HOLDS(attnpress_plan_launch(plan, i, &info) == ATTNPRESS_OK);
    HOLDS(info.stem[0] != '\0' && info.num_splits >= 1);
  }
  attnpress_plan_destroy(plan);
  return status;
}

/** A range whose maxima are the extents; whatever they are, it ends and answers. */
static void try_range(attnpress_handle *handle, const attnpress_forward_args *args) {
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_plan *plan = NULL;
  options.range = ATTNPRESS_UP_TO;
  const attnpress_status status = attnpress_plan_forward(handle, args, &options, &plan);
  HOLDS(status == ATTNPRESS_OK || is_refusal(status));
  attnpress_plan_destroy(plan);
}

static void try_cpu(attnpress_forward_args *args, tailed_groups *groups) {
  const attnpress_status status = query(cpu, args);
  try_range(cpu, args);
  if (status == ATTNPRESS_OK)
    run_on_cpu(args, groups);
  else
    HOLDS(is_refusal(attnpress_forward(cpu, args, NULL)));
}

/* ---- On devices, up to the kernel ------------------------------------------------------------ */

static void try_gpu(attnpress_forward_args *args, int device) {
  if (gpu == NULL)
    return;
  driver->capability = capabilities[device];
  driver->context_set(contexts[device]);
  const attnpress_status status = query(gpu, args);
  try_range(gpu, args);
  const attnpress_status forward = attnpress_forward(gpu, args, NULL);
  HOLDS(forward == ATTNPRESS_OK || forward == ATTNPRESS_NO_KERNEL ||
        forward == ATTNPRESS_WORKSPACE_TOO_SMALL || is_refusal(forward));
  HOLDS(status == ATTNPRESS_OK || is_refusal(forward));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  tailed_args call = {.args = ATTNPRESS_FORWARD_ARGS_INIT};
  tailed_groups groups = {.window = ATTNPRESS_WINDOW_INIT};
  if (cpu == NULL) {
    cpu = make_handle(ATTNPRESS_CPU);
    compiler = make_handle(ATTNPRESS_COMPILE_ONLY);
    open_driver();
  }
  const int where = (int)(fuzz_take(&input, 1) % 16);
  make_legal(&input, &call.args);
  make_groups(&input, &call.args, &groups);
  write_over(&input, &call, &groups);
  mend_pointers(&call.args, &groups, where > DEVICES);
  if (where < DEVICES)
    try_gpu(&call.args, where);
  else if (where == DEVICES)
    HOLDS(is_refusal(attnpress_forward(compiler, &call.args, NULL)));
  else
    try_cpu(&call.args, &groups);
  return 0;
}
