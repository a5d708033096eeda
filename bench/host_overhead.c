/* What the library costs on the host, on the present GPU, or with a driver that does nothing:
 *
 *   load   the time until a kernel that is in the disk cache is ready to launch, in a new handle
 *   call   the time of a warm call, and of it the library's own: that of the same call whose kernels are
 *          not launched
 *
 *     cmake --build build --target host_overhead
 *     build/host_overhead [--json]
 *     ATTNPRESS_LIBCUDA=build/libfake_cuda.so build/host_overhead    without a GPU: the library's own alone
 *                                                                    means something
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "handle.h"
#include "plans.h"
#include "attnpress/append.h"
#include "attnpress/layernorm.h"
#include "attnpress/softmax.h"
#include "../tools/cuda_device.h"

enum { LOADS = 21, ROUNDS = 41, CALLS = 200 };

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int compare_double(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, compare_double);
  return values[count / 2];
}

static void check(attnpress_status status) {
  if (status == ATTNPRESS_OK)
    return;
  fprintf(stderr, "host_overhead: %s\n", attnpress_last_error());
  exit(1);
}

/* ---- Measurements ---- */

static attnpress_forward_args make_args(CUdeviceptr memory, int seqlen_q, int hdim,
                                        int num_splits) {
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  char *at = (char *)(uintptr_t)memory;
  const size_t bytes = (size_t)1 << 20;
  args.q = attnpress_tensor_bshd(at, 1, seqlen_q, 8, hdim, ATTNPRESS_BF16);
  args.k = attnpress_tensor_bshd(at + bytes, 1, 64, 8, hdim, ATTNPRESS_BF16);
  args.v = attnpress_tensor_bshd(at + 2 * bytes, 1, 64, 8, hdim, ATTNPRESS_BF16);
  args.out = attnpress_tensor_bshd(at + 3 * bytes, 1, seqlen_q, 8, hdim, ATTNPRESS_BF16);
  args.num_splits = num_splits;
  args.workspace = at + 4 * bytes;
  args.workspace_bytes = 4 * bytes;
  return args;
}

/** Milliseconds of the first call in a handle that finds its kernel in the cache; the launch
 * itself, warm, is not worth subtracting. */
static double measure_load_ms(const char *cache_dir, const attnpress_forward_args *args,
                              CUstream stream, const cuda_device *device) {
  double ms[LOADS];
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.cache_dir = cache_dir;
  for (int i = -1; i < LOADS; ++i) { /* the first one fills the cache */
    attnpress_handle *handle;
    attnpress_info info = ATTNPRESS_INFO_INIT;
    check(attnpress_create(&handle, &options));
    check(describe(handle, args, &info));
    if (i >= 0 && info.origin != ATTNPRESS_ORIGIN_DISK) {
      fprintf(stderr, "host_overhead: %s is not in the disk cache\n", info.stem);
      exit(1);
    }
    const double begin = now_us();
    check(attnpress_forward(handle, args, stream));
    if (i >= 0)
      ms[i] = (now_us() - begin) * 1e-3;
    device->ctx_synchronize();
    attnpress_destroy(handle);
  }
  return median(ms, LOADS);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

enum { PIECE_BYTES = 1 << 20, MEMORY_PIECES = 50, BATCH_MAX = 64 };

/** Memory of zeros: sequences are empty where lengths are read. */
static char *memory_piece(CUdeviceptr memory, int which) {
  return (char *)(uintptr_t)memory + (size_t)which * PIECE_BYTES;
}

/** A call of any function, and what it takes. */
typedef struct bench_call {
  const char *name;
  attnpress_status (*run)(attnpress_handle *handle, const void *args, void *stream);
  const void *args;
  CUstream stream;
} bench_call;

static attnpress_status run_forward(attnpress_handle *handle, const void *args, void *stream) {
  return attnpress_forward(handle, args, stream);
}

/** A call that the handle has not seen: of another scale each time. */
static attnpress_status run_new(attnpress_handle *handle, const void *args, void *stream) {
  static int calls;
  attnpress_forward_args fresh = *(const attnpress_forward_args *)args;
  fresh.scale = 1e-6f * (float)++calls;
  return attnpress_forward(handle, &fresh, stream);
}

typedef struct append_call {
  attnpress_append_args append;
  attnpress_forward_args forward;
  attnpress_ragged ragged;
  attnpress_rotary rotary;
} append_call;

static attnpress_status run_append(attnpress_handle *handle, const void *args, void *stream) {
  const append_call *call = args;
  return attnpress_append_forward(handle, &call->append, &call->forward, stream);
}

static attnpress_status run_backward(attnpress_handle *handle, const void *args, void *stream) {
  return attnpress_backward(handle, args, stream);
}

static attnpress_status run_layernorm(attnpress_handle *handle, const void *args, void *stream) {
  return attnpress_layernorm(handle, args, stream);
}

static attnpress_status run_softmax(attnpress_handle *handle, const void *args, void *stream) {
  return attnpress_softmax(handle, args, stream);
}

/** One query of each sequence over keys in a cache, with pages of 16 or in one piece. */
static void make_decode(CUdeviceptr memory, int batch, int in_pages, attnpress_ragged *ragged,
                        attnpress_forward_args *args) {
  enum { HEADS = 32, KV_HEADS = 8, HDIM = 128, KEYS = 4096, PAGE = 16 };
  const int32_t *lengths = (const int32_t *)memory_piece(memory, 8);
  *ragged = (attnpress_ragged)ATTNPRESS_RAGGED_INIT;
  *args = (attnpress_forward_args)ATTNPRESS_FORWARD_ARGS_INIT;
  ragged->batch = batch;
  ragged->max_seqlen_q = 1;
  ragged->max_seqlen_k = KEYS;
  ragged->seqused_k = lengths;
  args->ragged = ragged;
  args->q = attnpress_tensor_bshd(memory_piece(memory, 0), batch, 1, HEADS, HDIM, ATTNPRESS_BF16);
  args->out = attnpress_tensor_bshd(memory_piece(memory, 1), batch, 1, HEADS, HDIM, ATTNPRESS_BF16);
  if (in_pages) {
    ragged->page_table = lengths;
    ragged->page_table_pages = KEYS / PAGE;
    args->k =
        attnpress_tensor_bshd(memory_piece(memory, 2), 16, PAGE, KV_HEADS, HDIM, ATTNPRESS_BF16);
    args->v =
        attnpress_tensor_bshd(memory_piece(memory, 3), 16, PAGE, KV_HEADS, HDIM, ATTNPRESS_BF16);
  } else { /* all sequences have the same rows, of which none is read */
    args->k =
        attnpress_tensor_bshd(memory_piece(memory, 2), batch, KEYS, KV_HEADS, HDIM, ATTNPRESS_BF16);
    args->k.stride[0] = args->k.stride[1] = 0;
    args->v = args->k;
    args->v.data = memory_piece(memory, 3);
  }
  args->workspace = memory_piece(memory, 9);
  args->workspace_bytes = 40 * (size_t)PIECE_BYTES;
}

/** The same with a new key of each sequence, rotated. */
static void make_append(CUdeviceptr memory, int batch, append_call *call) {
  enum { HEADS = 32, KV_HEADS = 8, HDIM = 128 };
  attnpress_append_args *a = &call->append;
  make_decode(memory, batch, 1, &call->ragged, &call->forward);
  call->ragged.seqlen_k_new = 1;
  *a = (attnpress_append_args)ATTNPRESS_APPEND_ARGS_INIT;
  a->k_new =
      attnpress_tensor_bshd(memory_piece(memory, 4), batch, 1, KV_HEADS, HDIM, ATTNPRESS_BF16);
  a->v_new =
      attnpress_tensor_bshd(memory_piece(memory, 5), batch, 1, KV_HEADS, HDIM, ATTNPRESS_BF16);
  a->q = attnpress_tensor_bshd(memory_piece(memory, 6), batch, 1, HEADS, HDIM, ATTNPRESS_BF16);
  a->q_out = call->forward.q;
  a->k_cache = call->forward.k;
  a->v_cache = call->forward.v;
  a->seqused_k = call->ragged.seqused_k;
  a->page_table = call->ragged.page_table;
  a->max_pages = call->ragged.page_table_pages;
  call->rotary = (attnpress_rotary)ATTNPRESS_ROTARY_INIT;
  call->rotary.cos = call->rotary.sin = memory_piece(memory, 7);
  call->rotary.num_positions = 4096;
  call->rotary.rotary_dim = HDIM;
  call->rotary.dtype = ATTNPRESS_BF16;
  a->rotary = &call->rotary;
}

/** Sequences one after the other, of up to 512 tokens. */
static void make_prefill(CUdeviceptr memory, int batch, attnpress_ragged *ragged,
                         attnpress_forward_args *args) {
  enum { HEADS = 8, HDIM = 128, ROWS = 512 };
  *ragged = (attnpress_ragged)ATTNPRESS_RAGGED_INIT;
  *args = (attnpress_forward_args)ATTNPRESS_FORWARD_ARGS_INIT;
  ragged->batch = batch;
  ragged->max_seqlen_q = ragged->max_seqlen_k = ROWS;
  ragged->cu_seqlens_q = ragged->cu_seqlens_k = (const int32_t *)memory_piece(memory, 8);
  args->ragged = ragged;
  args->mask = ATTNPRESS_CAUSAL;
  attnpress_tensor *const tensors[] = {&args->q, &args->k, &args->v, &args->out};
  for (int i = 0; i < 4; ++i)
    *tensors[i] =
        attnpress_tensor_bshd(memory_piece(memory, i), 1, ROWS, HEADS, HDIM, ATTNPRESS_BF16);
  args->workspace = memory_piece(memory, 9);
  args->workspace_bytes = 40 * (size_t)PIECE_BYTES;
}

static attnpress_backward_args make_backward(CUdeviceptr memory, const attnpress_ragged *ragged) {
  enum { HEADS = 8, HDIM = 128, ROWS = 512 };
  attnpress_backward_args args = ATTNPRESS_BACKWARD_ARGS_INIT;
  attnpress_tensor *const tensors[] = {&args.q,    &args.k,  &args.v,  &args.out,
                                       &args.dout, &args.dq, &args.dk, &args.dv};
  for (int i = 0; i < 8; ++i)
    *tensors[i] =
        attnpress_tensor_bshd(memory_piece(memory, i), 1, ROWS, HEADS, HDIM, ATTNPRESS_BF16);
  args.lse = (const float *)memory_piece(memory, 49);
  args.mask = ATTNPRESS_CAUSAL;
  args.ragged = ragged;
  args.workspace = memory_piece(memory, 9);
  args.workspace_bytes = 40 * (size_t)PIECE_BYTES;
  return args;
}

static attnpress_layernorm_args make_layernorm(CUdeviceptr memory, int64_t rows, int64_t columns) {
  attnpress_layernorm_args args = ATTNPRESS_LAYERNORM_ARGS_INIT;
  args.x = memory_piece(memory, 0);
  args.y = memory_piece(memory, 4);
  args.weight = memory_piece(memory, 8);
  args.rows = rows;
  args.columns = columns;
  args.dtype = ATTNPRESS_BF16;
  return args;
}

/* ---- The time of a call ---------------------------------------------------------------------- */

static CUresult launch_nothing(const CUlaunchConfig *config, CUfunction function, void **parameters,
                               void **extra) {
  (void)config, (void)function, (void)parameters, (void)extra;
  return CUDA_SUCCESS;
}

typedef struct call_times {
  double whole_us, own_us;
} call_times;

static double time_us(attnpress_handle *handle, const bench_call *call) {
  const double begin = now_us();
  for (int i = 0; i < CALLS; ++i)
    check(call->run(handle, call->args, call->stream));
  return (now_us() - begin) / CALLS;
}

/** Calls for a while, so that the processor's clock is up when the first row is timed. */
static void warm_up(attnpress_handle *handle, const bench_call *call, const cuda_device *device) {
  const double end = now_us() + 5e5;
  while (now_us() < end) {
    time_us(handle, call);
    device->ctx_synchronize();
  }
}

static call_times measure_call(attnpress_handle *handle, const bench_call *call,
                               const cuda_device *device) {
  double whole[ROUNDS], own[ROUNDS];
  for (int i = 0; i < 3; ++i) /* loads, and is known then */
    check(call->run(handle, call->args, call->stream));
  const ap_driver driver = handle->driver;
  for (int round = 0; round < ROUNDS; ++round) {
    device->ctx_synchronize();
    whole[round] = time_us(handle, call);
    device->ctx_synchronize();
    handle->driver.launch_kernel = launch_nothing;
    own[round] = time_us(handle, call);
    handle->driver.launch_kernel = driver.launch_kernel;
  }
  return (call_times){median(whole, ROUNDS), median(own, ROUNDS)};
}

int main(int argc, char **argv) {
  const int json = argc > 1 && strcmp(argv[1], "--json") == 0;
  char why[256], cache_dir[] = "/tmp/attnpress-bench-XXXXXX", command[64];
  cuda_device device;
  CUdeviceptr memory;
  CUstream stream;
  if (cuda_device_open(&device, 0, why, sizeof why) != 0) {
    fprintf(stderr, "host_overhead: %s\n", why);
    return 77;
  }
  if (device.mem_alloc(&memory, (size_t)MEMORY_PIECES << 20) != CUDA_SUCCESS ||
      device.memset_d8_async(memory, 0, (size_t)MEMORY_PIECES << 20, NULL) != CUDA_SUCCESS ||
      device.stream_create(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
      mkdtemp(cache_dir) == NULL)
    return 1;
  /* Head dim 72 is not in the default set, so that it comes from the disk. */
  const attnpress_forward_args one = make_args(memory, 1, 72, 1),
                               split = make_args(memory, 1, 72, 4),
                               prebuilt = make_args(memory, 1, 128, 0),
                               longer = make_args(memory, 64, 72, 1),
                               longer_split = make_args(memory, 64, 72, 2),
                               longer_prebuilt = make_args(memory, 64, 128, 0);
  const double load_ms = measure_load_ms(cache_dir, &one, stream, &device);
  attnpress_handle *handle;
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.cache_dir = cache_dir;
  check(attnpress_create(&handle, &options));
  attnpress_ragged ragged[6];
  attnpress_forward_args decode[4], prefill, invariant;
  make_decode(memory, 1, 0, &ragged[0], &decode[0]);
  make_decode(memory, BATCH_MAX, 0, &ragged[1], &decode[1]);
  make_decode(memory, 1, 1, &ragged[2], &decode[2]);
  make_decode(memory, BATCH_MAX, 1, &ragged[3], &decode[3]);
  make_decode(memory, BATCH_MAX, 1, &ragged[4], &invariant);
  invariant.batch_invariant = 1;
  make_prefill(memory, BATCH_MAX, &ragged[5], &prefill);
  const attnpress_backward_args backward = make_backward(memory, NULL),
                                ragged_backward = make_backward(memory, &ragged[5]);
  const attnpress_layernorm_args norm = make_layernorm(memory, 1024, 768),
                                 odd_norm = make_layernorm(memory, 128, 8201);
  append_call append;
  make_append(memory, 4, &append);
  attnpress_softmax_args softmax = ATTNPRESS_SOFTMAX_ARGS_INIT;
  softmax.x = memory_piece(memory, 0);
  softmax.y = memory_piece(memory, 4);
  softmax.rows = 1024;
  softmax.columns = 768;
  softmax.dtype = ATTNPRESS_BF16;
  const bench_call rows[] = {{"one kernel, a stream", run_forward, &one, stream},
                             {"one kernel, default stream", run_forward, &one, NULL},
                             {"split and combine, a stream", run_forward, &split, stream},
                             {"splits chosen, a stream", run_forward, &prebuilt, stream},
                             /* On 9.0 these make tensor maps. */
                             {"64 queries, a stream", run_forward, &longer, stream},
                             {"64 queries, split and combine", run_forward, &longer_split, stream},
                             {"64 queries, splits chosen", run_forward, &longer_prebuilt, stream},
                             {"the same, new each time", run_new, &longer_prebuilt, stream},
                             {"decode, 1 sequence", run_forward, &decode[0], stream},
                             {"decode, 64 sequences", run_forward, &decode[1], stream},
                             {"decode, 1 sequence, pages", run_forward, &decode[2], stream},
                             {"decode, 64 sequences, pages", run_forward, &decode[3], stream},
                             {"the same, batch-invariant", run_forward, &invariant, stream},
                             {"prefill, 64 sequences", run_forward, &prefill, stream},
                             {"append and decode, 4 in pages", run_append, &append, stream},
                             {"backward", run_backward, &backward, stream},
                             {"backward, 64 sequences", run_backward, &ragged_backward, stream},
                             {"layer norm, 768 columns", run_layernorm, &norm, stream},
                             {"layer norm, 8,201 columns", run_layernorm, &odd_norm, stream},
                             {"softmax, 768 columns", run_softmax, &softmax, stream}};
  if (json)
    printf("{\"device\": \"%s\", \"driver\": %d, \"load_ms\": %.3f, \"calls\": [", device.name,
           device.driver_version, load_ms);
  else
    printf("%s, driver for CUDA %d.%d\nload of a cached cubin: %.2f ms\n\n%-30s %9s %9s\n",
           device.name, device.driver_version / 1000, device.driver_version % 1000 / 10, load_ms,
           "us a call", "whole", "own");
  warm_up(handle, &rows[0], &device);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const call_times t = measure_call(handle, &rows[i], &device);
    if (json)
      printf("%s{\"name\": \"%s\", \"whole_us\": %.3f, \"own_us\": %.3f}", i ? ", " : "",
             rows[i].name, t.whole_us, t.own_us);
    else
      printf("%-30s %9.2f %9.2f\n", rows[i].name, t.whole_us, t.own_us);
  }
  printf(json ? "]}\n" : "");
  attnpress_destroy(handle);
  snprintf(command, sizeof command, "rm -rf %s", cache_dir);
  cuda_device_close(&device);
  return system(command) == 0 ? 0 : 1;
}
