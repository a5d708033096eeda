/* What the runtime believes of the real driver, on the present GPU: which results mean that a cubin
 * is refused, what may be done while a stream is captured, how contexts come and go, which tensor
 * maps the driver makes, and that a cubin's own numbers are the driver's. Whether attention is
 * right is test_gpu_forward's. Ends with status 77 where there is no device. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attention/attention.h"
#include "plans.h"
#include "../tools/cuda_device.h"

enum { SKIPPED = 77, HDIM = 72, SEQLEN = 40, HEADS = 4, ELEMENTS = SEQLEN * HEADS * HDIM };
enum { CAPTURE_GLOBAL = 0 }; /* CUstreamCaptureMode */

static cuda_device gpu;
static char cache_dir[] = "/tmp/attnpress-test-XXXXXX";
static char logged[65536];
static int failures, checks;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    ++checks;                                                                                      \
    if (!(condition)) {                                                                            \
      ++failures;                                                                                  \
      printf("FAILED: %s:%d: %s (%s)\n", __func__, __LINE__, #condition, attnpress_last_error());  \
    }                                                                                              \
  } while (0)
#define CHECK_OK(call)   CHECK((call) == ATTNPRESS_OK)
#define CHECK_CUDA(call) CHECK((call) == CUDA_SUCCESS)

static void keep_log(void *user, int level, const char *message) {
  (void)user;
  const size_t used = strlen(logged);
  snprintf(logged + used, sizeof logged - used, "%s%s\n", level ? "warning: " : "", message);
}

static attnpress_handle *make_handle(void) {
  attnpress_handle *handle = NULL;
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.cache_dir = cache_dir;
  options.log = keep_log;
  logged[0] = '\0';
  CHECK_OK(attnpress_create(&handle, &options));
  return handle;
}

/* ---- A small call whose result is known: every value is 1, so every output is 1 ---- */

typedef struct small_call {
  CUdeviceptr memory;
  attnpress_forward_args args;
} small_call;

enum { ONE = 0x3f80, POISON = 0x7fff, TENSOR_BYTES = ELEMENTS * 2 };

static small_call make_call(int mask) {
  static uint16_t host[ELEMENTS];
  small_call c = {0, ATTNPRESS_FORWARD_ARGS_INIT};
  CHECK_CUDA(gpu.mem_alloc(&c.memory, 4 * TENSOR_BYTES));
  attnpress_tensor *tensors[] = {&c.args.q, &c.args.k, &c.args.v, &c.args.out};
  for (int i = 0; i < 4; ++i) {
    const CUdeviceptr at = c.memory + (CUdeviceptr)(i * TENSOR_BYTES);
    for (int j = 0; j < ELEMENTS; ++j)
      host[j] = i == 3 ? POISON : ONE;
    CHECK_CUDA(gpu.memcpy_htod(at, host, TENSOR_BYTES));
    *tensors[i] =
        attnpress_tensor_bshd((void *)(uintptr_t)at, 1, SEQLEN, HEADS, HDIM, ATTNPRESS_BF16);
  }
  c.args.mask = mask;
  c.args.num_splits = 1;
  return c;
}

/** 1 where the output was written and is right; it is poisoned again. */
static int is_right(const small_call *c) {
  static uint16_t host[ELEMENTS];
  const CUdeviceptr out = c->memory + 3 * TENSOR_BYTES;
  CHECK_CUDA(gpu.ctx_synchronize());
  CHECK_CUDA(gpu.memcpy_dtoh(host, out, TENSOR_BYTES));
  int right = 1;
  for (int i = 0; i < ELEMENTS; ++i) {
    right &= host[i] == ONE;
    host[i] = POISON;
  }
  CHECK_CUDA(gpu.memcpy_htod(out, host, TENSOR_BYTES));
  return right;
}

/* ---- A cubin's own numbers ---- */

static void test_resources(void) {
  static const char *const stems[] = {
      "flash_fwd_hdim72_bf16_sm80",
      "flash_fwd_hdim128_fp16_causal_sm80",
      "flash_fwd_split_hdim256_bf16_decode_sm80",
      "flash_fwd_combine_hdim128_bf16_sm80",
      "flash_fwd_hdim72_bf16_sm90",
      "flash_fwd_split_hdim128_fp16_causal_sm90",
  };
  attnpress_handle *handle = make_handle();
  ap_context *context;
  CHECK_OK(ap_context_of(handle, NULL, &context));
  for (size_t i = 0; i < sizeof stems / sizeof *stems; ++i) {
    ap_variant variant;
    const ap_bound *bound = NULL;
    int registers = 0, local_bytes = -1;
    CHECK_OK(ap_variant_parse(stems[i], &variant));
    const char *target = ap_target_for(&variant, gpu.capability);
    if (target == NULL)
      continue;
    CHECK_OK(ap_kernel_get(handle, context, &variant, ap_variant_key(&variant), NULL, target, NULL,
                           1, &bound));
    if (bound == NULL)
      continue;
    CHECK_CUDA(
        handle->driver.func_get_attribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, bound->function));
    CHECK_CUDA(handle->driver.func_get_attribute(&local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
                                                 bound->function));
    CHECK(bound->kernel->registers == registers);
    CHECK(bound->kernel->spill_bytes == local_bytes);
  }
  attnpress_destroy(handle);
}

/* ---- Cubins that the driver refuses ---- */

/** Puts something else into the cache in the place of the kernel that the call needs. */
static void plant(attnpress_handle *handle, const small_call *c, const unsigned char *cubin,
                  size_t size) {
  attnpress_info info = ATTNPRESS_INFO_INIT;
  ap_variant variant;
  ap_request request;
  ap_entry_info entry;
  ap_key key;
  char *source = NULL;
  size_t source_size = 0;
  CHECK_OK(describe(handle, &c->args, &info));
  CHECK_OK(ap_variant_parse(info.stem, &variant));
  CHECK_OK(ap_request_init(&request, &variant, info.target));
  CHECK_OK(ap_render(&variant, &request.tile, NULL, &source, &source_size));
  ap_cubin_key(source, source_size, info.target, &key);
  free(source);
  memset(&entry, 0, sizeof entry);
  entry.cubin_bytes = size;
  CHECK_OK(ap_cache_publish(&handle->finder.cache, &key, cubin, &entry));
}

/** The call finds the planted cubin, is refused, compiles, runs; and the entry is replaced. */
static void check_refused(const char *what, const unsigned char *cubin, size_t size) {
  small_call c = make_call(ATTNPRESS_FULL);
  attnpress_info info = ATTNPRESS_INFO_INIT;
  attnpress_handle *handle = make_handle();
  plant(handle, &c, cubin, size);
  CHECK_OK(describe(handle, &c.args, &info));
  CHECK(info.origin == ATTNPRESS_ORIGIN_DISK);
  CHECK_OK(attnpress_forward(handle, &c.args, NULL));
  CHECK(is_right(&c));
  CHECK(strstr(logged, "looking further") != NULL);
  CHECK(strstr(logged, ": jit, ") != NULL);
  printf("%s: %s", what, logged);
  attnpress_destroy(handle);
  handle = make_handle();
  CHECK_OK(attnpress_forward(handle, &c.args, NULL));
  CHECK(strstr(logged, ": cache, ") != NULL);
  attnpress_destroy(handle);
  gpu.mem_free(c.memory);
}

static void test_refused(void) {
  const ap_variant variant = {
      .family = AP_FAMILY_ATTENTION,
      .axis = {[AP_ATTENTION_HDIM] = HDIM,
               [AP_ATTENTION_HDIM_V] = HDIM,
               [AP_ATTENTION_DTYPE] = ATTNPRESS_BF16,
               [AP_ATTENTION_ARCH] = gpu.capability == 86 || gpu.capability >= 120 ? 86 : 80}};
  const char *foreign = gpu.capability / 10 == 9 ? "sm_80" : "sm_90";
  ap_request request;
  ap_image image;
  attnpress_handle *handle = make_handle();
  CHECK_OK(ap_request_init(&request, &variant, foreign));
  const attnpress_status status =
      ap_find_image(&handle->finder, &request, AP_LAYER_ALL, &image, NULL);
  CHECK_OK(status);
  if (status == ATTNPRESS_OK) {
    check_refused("another device's", image.data, image.size);
    unsigned char *damaged = malloc(image.size);
    memcpy(damaged, image.data, image.size);
    memset(damaged + 64, 0xa5, image.size - 64); /* an ELF header and nonsense */
    check_refused("an ELF header and nonsense", damaged, image.size);
    memset(damaged, 'x', 4096);
    check_refused("no ELF file", damaged, 4096);
    free(damaged);
    ap_image_free(&image);
  }
  attnpress_destroy(handle);
}

/* ---- Captures ---- */

static void test_capture(void) {
  small_call c = make_call(ATTNPRESS_CAUSAL);
  attnpress_handle *handle = make_handle();
  CUstream stream, other;
  CUgraph graph = NULL;
  CUgraphExec exec;
  CHECK_CUDA(gpu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  CHECK_CUDA(gpu.stream_create(&other, CU_STREAM_NON_BLOCKING));

  /* Refused in the strictest mode, and the capture is still whole. */
  CHECK_CUDA(gpu.stream_begin_capture(stream, CAPTURE_GLOBAL));
  CHECK(attnpress_forward(handle, &c.args, stream) == ATTNPRESS_CAPTURING);
  /* Another stream may load meanwhile. */
  CHECK_OK(attnpress_forward(handle, &c.args, other));
  CHECK_OK(prepare_any(handle, &c.args));
  /* Now that it is there, it is captured. */
  CHECK_OK(attnpress_forward(handle, &c.args, stream));
  CHECK_CUDA(gpu.stream_end_capture(stream, &graph));
  CHECK_CUDA(gpu.stream_synchronize(other));
  CHECK(is_right(&c));
  CHECK(!is_right(&c)); /* poisoned: the captured launch has not run */
  CHECK_CUDA(gpu.graph_instantiate(&exec, graph, 0));
  CHECK_CUDA(gpu.graph_launch(exec, stream));
  CHECK_CUDA(gpu.stream_synchronize(stream));
  CHECK(is_right(&c));
  gpu.graph_exec_destroy(exec);
  gpu.graph_destroy(graph);
  gpu.stream_destroy(other);
  attnpress_destroy(handle);

  /* The default stream waits for a blocking stream: while that one is captured, it may not be used.
   */
  CUstream blocking;
  handle = make_handle();
  CHECK_CUDA(gpu.stream_create(&blocking, 0));
  CHECK_CUDA(gpu.stream_begin_capture(blocking, CAPTURE_GLOBAL));
  CHECK(attnpress_forward(handle, &c.args, NULL) == ATTNPRESS_CAPTURING);
  gpu.stream_end_capture(blocking,
                         &graph); /* asking has ended the capture: that is the driver's way */
  gpu.stream_destroy(blocking);
  gpu.stream_destroy(stream);
  attnpress_destroy(handle);
  gpu.mem_free(c.memory);
}

/* ---- Tensor maps ---- */

typedef struct map_row {
  const char *what;
  uint32_t rank;
  uint64_t extents[5], strides_bytes[4];
  uint32_t box[5];
} map_row;

static const map_row accepted_maps[] = {
    {"a row", 4, {8, 1, 1, 1}, {16, 16, 16}, {64, 176, 1, 1}},
    {"few columns and keys", 4, {8, 3, 2, 2}, {32, 16, 96}, {64, 128, 1, 1}},
    {"heads before keys", 4, {72, 40, 4, 1}, {576, 144, 144}, {64, 176, 1, 1}},
    {"the box of 256 keys", 4, {64, 4096, 4, 2}, {128, 524288, 2097152}, {64, 256, 1, 1}},
    {"rows that are no multiple of their length",
     4,
     {72, 40, 4, 2},
     {592, 160, 23728},
     {64, 80, 1, 1}},
    {"one head a tile", 5, {72, 1, 40, 4, 1}, {144, 576, 144, 144}, {64, 1, 64, 1, 1}},
    {"7 heads a tile", 5, {72, 7, 40, 4, 2}, {144, 4032, 1008, 161280}, {64, 7, 9, 1, 1}},
    {"64 heads a tile", 5, {128, 64, 40, 2, 2}, {256, 32768, 16384, 1310720}, {64, 64, 1, 1, 1}},
    {"2^31 - 1024 keys", 4, {8, 2147482624, 1, 1}, {16, 16, 16}, {64, 128, 1, 1}},
    {"2^40 - 16 bytes", 4, {8, 2, 2, 2}, {16, 32, 1099511627760}, {64, 128, 1, 1}},
    {"a broadcast over batches", 4, {72, 40, 4, 2}, {576, 144, 0}, {64, 176, 1, 1}},
    {"a broadcast over heads", 4, {72, 40, 4, 2}, {144, 0, 5760}, {64, 176, 1, 1}},
    {"a broadcast over keys", 4, {72, 40, 4, 2}, {0, 144, 576}, {64, 176, 1, 1}},
    {"rows that overlap", 4, {72, 40, 4, 2}, {16, 1024, 4096}, {64, 176, 1, 1}},
};
static const map_row refused_map = {
    "2^40 bytes", 4, {8, 2, 2, 2}, {16, 32, 1099511627776}, {64, 128, 1, 1}};

static CUresult encode_map(const ap_driver *driver, CUdeviceptr address, const map_row *row) {
  static const uint32_t ones[] = {1, 1, 1, 1, 1};
  attnpress_tensor_map map;
  return driver->tensor_map_encode_tiled(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, row->rank, (void *)(uintptr_t)address, row->extents,
      row->strides_bytes, row->box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static void test_tensor_maps(void) {
  attnpress_handle *handle = make_handle();
  const ap_driver *driver = &handle->driver;
  CUdeviceptr memory = 0;
  CHECK_CUDA(gpu.mem_alloc(&memory, 4096));
  if (driver->tensor_map_encode_tiled != NULL && gpu.capability >= 90) {
    for (size_t i = 0; i < sizeof accepted_maps / sizeof *accepted_maps; ++i) {
      const CUresult result = encode_map(driver, memory + 16, &accepted_maps[i]);
      CHECK(result == CUDA_SUCCESS);
      if (result != CUDA_SUCCESS)
        printf("  %s: %s\n", accepted_maps[i].what, cuda_device_error(&gpu, result));
    }
    CHECK(encode_map(driver, memory, &refused_map) != CUDA_SUCCESS);
  } else {
    printf("no tensor maps here\n");
  }
  gpu.mem_free(memory);
  attnpress_destroy(handle);
}

/** Calls with and without tensor maps run, and what describe names is what runs. */
static void test_dispatch(void) {
  enum { PLAIN, BROADCAST, OLDER, NO_KEYS, SHORT, CASES };
  const ap_variant sm90 = {.family = AP_FAMILY_ATTENTION, .axis = {[AP_ATTENTION_ARCH] = 90}};
  const int hopper = ap_target_for(&sm90, gpu.capability) != NULL;
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  attnpress_handle *newest = make_handle(), *older;
  options.arch_max = 80;
  CHECK_OK(attnpress_create(&older, &options));
  for (int i = 0; i < CASES; ++i) {
    /* Without a mask so few keys are a short call's, which sm80's kernels run. */
    small_call c = make_call(i == SHORT ? ATTNPRESS_FULL : ATTNPRESS_CAUSAL);
    attnpress_info info = ATTNPRESS_INFO_INIT;
    if (i == BROADCAST)
      c.args.k.stride[2] = c.args.v.stride[2] = 0;
    attnpress_handle *handle = i == OLDER ? older : newest;
    if (i == NO_KEYS)
      c.args.k.shape[1] = c.args.v.shape[1] = 0;
    CHECK_OK(describe(handle, &c.args, &info));
    CHECK((strstr(info.stem, "_sm90") != NULL) == (hopper && i != OLDER && i != SHORT));
    CHECK_OK(attnpress_forward(handle, &c.args, NULL));
    CHECK(is_right(&c) == (i != NO_KEYS)); /* without keys they are 0, and not 1 */
    CHECK_OK(describe(handle, &c.args, &info));
    CHECK(info.origin == ATTNPRESS_ORIGIN_MEMORY);
    gpu.mem_free(c.memory);
  }
  attnpress_destroy(newest);
  attnpress_destroy(older);
}

/* ---- Contexts ---- */

typedef struct thread_call {
  attnpress_handle *handle;
  const small_call *call;
  CUstream stream;
  attnpress_status with_stream, without;
} thread_call;

/** A thread that never made a context current. */
static void *call_without_context(void *argument) {
  thread_call *t = argument;
  t->without = attnpress_forward(t->handle, &t->call->args, NULL);
  t->with_stream = attnpress_forward(t->handle, &t->call->args, t->stream);
  return NULL;
}

static void test_contexts(void) {
  CUresult (*ctx_create)(CUcontext *, unsigned, CUdevice);
  CUresult (*ctx_destroy)(CUcontext);
  *(void **)&ctx_create = dlsym(gpu.library, "cuCtxCreate_v2");
  *(void **)&ctx_destroy = dlsym(gpu.library, "cuCtxDestroy_v2");
  attnpress_handle *handle = make_handle();
  small_call c = make_call(ATTNPRESS_FULL);
  CUstream stream;
  CHECK_CUDA(gpu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  CHECK_OK(attnpress_forward(handle, &c.args, stream));
  CHECK(is_right(&c));

  pthread_t thread;
  thread_call t = {handle, &c, stream, -1, -1};
  CHECK(pthread_create(&thread, NULL, call_without_context, &t) == 0);
  pthread_join(thread, NULL);
  CHECK(t.without == ATTNPRESS_INVALID_ARGUMENT);
  CHECK_OK(t.with_stream);
  CHECK(is_right(&c));

  for (int i = 0; i < 3; ++i) { /* contexts that come and go, perhaps at the same address */
    CUcontext fresh;
    CUstream fresh_stream;
    CHECK_CUDA(ctx_create(&fresh, 0, gpu.device));
    small_call d = make_call(ATTNPRESS_FULL);
    CHECK_CUDA(gpu.stream_create(&fresh_stream, CU_STREAM_NON_BLOCKING));
    CHECK_OK(attnpress_forward(handle, &d.args, NULL));
    CHECK(is_right(&d));
    CHECK_CUDA(gpu.ctx_set_current(gpu.context)); /* another one than the stream's */
    CHECK_OK(attnpress_forward(handle, &d.args, fresh_stream));
    CUcontext current = NULL;
    CHECK_CUDA(handle->driver.ctx_get_current(&current));
    CHECK(current == gpu.context);
    CHECK_CUDA(gpu.ctx_set_current(fresh));
    CHECK(is_right(&d));
    gpu.stream_destroy(fresh_stream);
    gpu.mem_free(d.memory);
    CHECK_CUDA(ctx_destroy(fresh));
    CHECK_CUDA(gpu.ctx_set_current(gpu.context));
    CHECK_OK(attnpress_forward(handle, &c.args, stream));
    CHECK(is_right(&c));
  }
  gpu.stream_destroy(stream);
  gpu.mem_free(c.memory);
  attnpress_destroy(handle);
}

int main(void) {
  char why[256];
  if (cuda_device_open(&gpu, 0, why, sizeof why) != 0) {
    printf("skipped: %s\n", why);
    return SKIPPED;
  }
  if (gpu.capability < 80 || mkdtemp(cache_dir) == NULL) {
    printf("skipped: %s, compute capability %d.%d\n", gpu.name, gpu.capability / 10,
           gpu.capability % 10);
    return SKIPPED;
  }
  printf("%s, driver for CUDA %d.%d\n", gpu.name, gpu.driver_version / 1000,
         gpu.driver_version % 1000 / 10);
  test_resources();
  test_refused();
  test_capture();
  test_tensor_maps();
  test_dispatch();
  test_contexts();
  ap_cache cache;
  size_t files;
  uint64_t bytes;
  if (ap_cache_init(&cache, cache_dir, 0, NULL, 0, NULL) == ATTNPRESS_OK) {
    ap_cache_clear(&cache, &files, &bytes);
    ap_cache_free(&cache);
  }
  char lock[64];
  snprintf(lock, sizeof lock, "%s/.lock", cache_dir);
  unlink(lock);
  rmdir(cache_dir);
  cuda_device_close(&gpu);
  printf("%d passed, %d failed\n", checks - failures, failures);
  return failures != 0;
}
