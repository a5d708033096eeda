/* Each call with each of its allocations failing, one at a time and from there on: it gives
 * ATTNPRESS_OUT_OF_MEMORY, or success where memory only saves time; it leaves nothing behind; and
 * the same call works when there is memory again.
 *
 * The library's allocations go through the functions below (ld --wrap, which tests.cmake asks for);
 * those of the stand-ins for libcuda and NVRTC do not. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "plans.h"
#include "support.h"

/* ---- Memory that runs out -------------------------------------------------------------------- */

enum { LIVE_MAX = 4096 };

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static void *live[LIVE_MAX]; /* what was allocated and not freed; NULL: no entry */
static int watching;         /* 1: what is allocated is entered */
static int fail_at,
    lasting; /* the allocation that fails, 0: none does; 1: those after it fail too */
static int asked, refused;

/** Asks for one allocation; 0: it fails. */
static int allowed(void) {
  pthread_mutex_lock(&memory_lock);
  ++asked;
  const int refuse = fail_at > 0 && (asked == fail_at || (lasting && asked > fail_at));
  refused += refuse;
  pthread_mutex_unlock(&memory_lock);
  if (refuse)
    errno = ENOMEM;
  return !refuse;
}

/** Puts `with` in the place of `old` among what is live. */
static void exchange(const void *old, void *with) {
  int i = 0;
  pthread_mutex_lock(&memory_lock);
  while (i < LIVE_MAX && live[i] != old)
    ++i;
  if (i < LIVE_MAX && (old != NULL || watching))
    live[i] = with;
  pthread_mutex_unlock(&memory_lock);
}

static void *enter(void *block) {
  if (block != NULL)
    exchange(NULL, block);
  return block;
}

static int count_live(void) {
  int count = 0;
  for (int i = 0; i < LIVE_MAX; ++i)
    count += live[i] != NULL;
  return count;
}

static void fail_from(int first, int last_too) {
  fail_at = first;
  lasting = last_too;
  asked = refused = 0;
}

#define WRAP(type, name, parameters)                                                               \
  type __real_##name parameters;                                                                   \
  type __wrap_##name parameters;                                                                   \
  type __wrap_##name parameters

WRAP(void *, malloc, (size_t size)) {
  return allowed() ? enter(__real_malloc(size)) : NULL;
}

WRAP(void *, calloc, (size_t count, size_t size)) {
  return allowed() ? enter(__real_calloc(count, size)) : NULL;
}

WRAP(void *, aligned_alloc, (size_t alignment, size_t size)) {
  return allowed() ? enter(__real_aligned_alloc(alignment, size)) : NULL;
}

WRAP(void *, realloc, (void *block, size_t size)) {
  if (!allowed())
    return NULL;
  if (block != NULL)
    exchange(block, NULL);
  return enter(__real_realloc(block, size));
}

WRAP(void, free, (void *block)) {
  if (block != NULL)
    exchange(block, NULL);
  __real_free(block);
}

WRAP(char *, strdup, (const char *text)) {
  return allowed() ? enter(__real_strdup(text)) : NULL;
}

WRAP(char *, getcwd, (char *buffer, size_t size)) {
  if (buffer != NULL)
    return __real_getcwd(buffer, size);
  return allowed() ? enter(__real_getcwd(NULL, size)) : NULL;
}

WRAP(DIR *, fdopendir, (int fd)) {
  return allowed() ? __real_fdopendir(fd) : NULL;
}

WRAP(int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *),
      void *argument)) {
  return allowed() ? __real_pthread_create(thread, attributes, start, argument) : EAGAIN;
}

/* ---- What the calls work on ------------------------------------------------------------------ */

static fake_cuda *cuda;
static char folder[PATH_MAX], cache_dir[PATH_MAX + 16], nvrtc_path[PATH_MAX];
static attnpress_handle *handle;
static attnpress_forward_args args;
static attnpress_info info;
static char *source;

static attnpress_options options_of(int backend) {
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.backend = backend;
  options.cache_dir = cache_dir;
  options.nvrtc_path = nvrtc_path;
  return options;
}

static void make_handle(const attnpress_options *options) {
  assert_ok(attnpress_create(&handle, options));
}

static void destroy(void) {
  attnpress_destroy(handle);
  handle = NULL;
}

/* Head dim 72 is not in the default set, so that nothing here depends on what is linked in. */
static void set_args(int hdim) {
  enum { BATCH = 2, SEQLEN_Q = 100, SEQLEN_K = 300, HEADS_Q = 6, HEADS_KV = 3, DTYPE = 2 };
  const attnpress_forward_args empty = ATTNPRESS_FORWARD_ARGS_INIT;
  args = empty;
  args.q = attnpress_tensor_bshd((void *)0x10000, BATCH, SEQLEN_Q, HEADS_Q, hdim, DTYPE);
  args.k = attnpress_tensor_bshd((void *)0x20000, BATCH, SEQLEN_K, HEADS_KV, hdim, DTYPE);
  args.v = attnpress_tensor_bshd((void *)0x30000, BATCH, SEQLEN_K, HEADS_KV, hdim, DTYPE);
  args.out = attnpress_tensor_bshd((void *)0x40000, BATCH, SEQLEN_Q, HEADS_Q, hdim, DTYPE);
  args.num_splits = 3;
  args.workspace = (void *)0x600000;
  args.workspace_bytes = (size_t)1 << 30;
}

static void use_backend(int backend) {
  const attnpress_options options = options_of(backend);
  make_handle(&options);
  set_args(72);
}

static void with_cuda(void) {
  use_backend(ATTNPRESS_CUDA);
}

/** Kernels of the default set, which are unpacked where the build has linked them in. */
static void with_common_head_dim(void) {
  with_cuda();
  set_args(128);
}

static void with_cuda_uncached(void) {
  attnpress_options options = options_of(ATTNPRESS_CUDA);
  options.cache_off = 1;
  make_handle(&options);
  set_args(72);
}

static void with_compiler(void) {
  use_backend(ATTNPRESS_COMPILE_ONLY);
}

/** A handle that finds the kernels of the call in its cache. */
static void with_filled_cache(void) {
  with_cuda();
  assert_ok(prepare_any(handle, &args));
  destroy();
  cuda->reset();
  with_cuda();
}

static void with_filled_cache_alone(void) {
  attnpress_options options = options_of(ATTNPRESS_CUDA);
  with_filled_cache();
  destroy();
  options.jit_off = 1;
  make_handle(&options);
}

static void with_filled_layer(void) {
  attnpress_options options = options_of(ATTNPRESS_CUDA);
  const char *const layers[] = {in(folder, "none"), cache_dir, NULL};
  with_filled_cache();
  destroy();
  options.cache_off = options.jit_off = 1;
  options.read_only_dirs = layers;
  make_handle(&options);
}

/** An entry that the driver will refuse. */
static void with_refused_entry(void) {
  with_filled_cache();
  cuda->refuse_loads = 1;
}

static void with_loaded_kernels(void) {
  with_cuda();
  assert_ok(attnpress_forward(handle, &args, NULL));
  cuda->reset();
}

static void with_new_context(void) {
  with_loaded_kernels();
  cuda->context_free(cuda->context_get());
  cuda->context_set(cuda->context_new(0));
}

/** A context whose table of kernels must grow for the next. */
static void with_full_table(void) {
  with_cuda_uncached();
  for (int hdim = 80; hdim < 80 + 16 * 8; hdim += 8) { /* two kernels each */
    set_args(hdim);
    assert_ok(attnpress_forward(handle, &args, NULL));
  }
  set_args(72);
  cuda->reset();
}

/** A cache with room for less than two entries, so that publishing lists and removes. */
static void with_small_cache(void) {
  attnpress_options options = options_of(ATTNPRESS_COMPILE_ONLY);
  make_handle(&options);
  assert_ok(attnpress_compile(handle, "flash_fwd_hdim80_bf16_sm80", "sm_80", &info));
  destroy();
  options.cache_max_bytes = 3 * info.cubin_bytes / 2;
  make_handle(&options);
}

/* ---- The calls ------------------------------------------------------------------------------- */

static attnpress_status create_for_cuda(void) {
  const attnpress_options options = options_of(ATTNPRESS_CUDA);
  return attnpress_create(&handle, &options);
}

static attnpress_status create_with_everything(void) {
  const char *const layers[] = {"relative/layer", folder, NULL};
  attnpress_options options = options_of(ATTNPRESS_CPU);
  options.cache_dir = "relative/cache";
  options.read_only_dirs = layers;
  return attnpress_create(&handle, &options);
}

static attnpress_status forward(void) {
  return attnpress_forward(handle, &args, NULL);
}

static attnpress_status prepare(void) {
  return prepare_any(handle, &args);
}

static attnpress_status workspace_size(void) {
  size_t bytes;
  return workspace_bytes_of(handle, &args, &bytes);
}

static attnpress_status describe_call(void) {
  const attnpress_info empty = ATTNPRESS_INFO_INIT;
  info = empty;
  return describe(handle, &args, &info);
}

static attnpress_status compile(void) {
  const attnpress_info empty = ATTNPRESS_INFO_INIT;
  info = empty;
  return attnpress_compile(handle, "flash_fwd_hdim72_bf16_sm80", "sm_80", &info);
}

static attnpress_status render(void) {
  return attnpress_render_source("flash_fwd_hdim72_bf16_sm80", NULL, &source);
}

static int visit(void *user, const ap_cache_file *file) {
  *(int *)user += !file->damaged;
  return 0;
}

/** What `attnpress cache list` does. */
static attnpress_status scan(void) {
  int entries = 0;
  const attnpress_status status = ap_cache_scan(cache_dir, visit, &entries);
  assert_true(status != ATTNPRESS_OK || entries == count_files(cache_dir, ".entry"));
  return status;
}

static attnpress_status clear(void) {
  size_t files;
  uint64_t bytes;
  return ap_cache_clear(&handle->finder.cache, &files, &bytes);
}

/* ---- What holds after a success -------------------------------------------------------------- */

static void launched_two(void) {
  assert_int_equal(cuda->launches, 2);
}

static void launched_both(void) {
  launched_two();
  assert_non_null(strstr(cuda->launch[0].symbol, "flash_fwd_split_hdim72"));
  assert_non_null(strstr(cuda->launch[1].symbol, "combine_hdim72"));
}

static void described(void) {
  assert_non_null(strstr(info.stem, "hdim72"));
  assert_int_equal(info.origin, ATTNPRESS_ORIGIN_JIT);
}

/** An entry that is there is found, not "would be compiled". */
static void described_entry(void) {
  assert_int_equal(info.origin, ATTNPRESS_ORIGIN_DISK);
  assert_true(info.cubin_bytes > 0);
}

static void compiled(void) {
  assert_string_equal(info.stem, "flash_fwd_hdim72_bf16_sm80");
  assert_true(info.cubin_bytes > 0);
}

static void rendered(void) {
  assert_non_null(strstr(source, "flash_fwd_hdim72_bf16_sm80"));
}

static void cleared(void) {
  assert_int_equal(count_files(cache_dir, ".entry"), 0);
}

static void nothing_more(void) {}

/* ---- All of them ----------------------------------------------------------------------------- */

typedef struct scenario {
  const char *name;
  int least; /* allocations that the call makes at least */
  void (*set_up)(void);
  attnpress_status (*call)(void);
  void (*holds)(void);
} scenario;

static const scenario scenarios[] = {
    {"create", 2, nothing_more, create_for_cuda, nothing_more},
    {"create with every option", 8, nothing_more, create_with_everything, nothing_more},
    {"forward, compiling and caching", 10, with_cuda, forward, launched_both},
    {"forward, compiling", 10, with_cuda_uncached, forward, launched_both},
    {"forward, linked in", 6, with_common_head_dim, forward, launched_two},
    {"forward from the cache", 10, with_filled_cache, forward, launched_both},
    {"forward from the cache alone", 10, with_filled_cache_alone, forward, launched_both},
    {"forward from a layer", 10, with_filled_layer, forward, launched_both},
    {"forward past a refused entry", 10, with_refused_entry, forward, launched_both},
    {"forward in a new context", 2, with_new_context, forward, launched_both},
    {"forward with a growing table", 10, with_full_table, forward, launched_both},
    {"prepare", 20, with_cuda, prepare, nothing_more},
    {"workspace size", 2, with_cuda, workspace_size, nothing_more},
    {"describe", 3, with_cuda, describe_call, described},
    {"describe from the cache", 3, with_filled_cache, describe_call, described_entry},
    {"compile", 4, with_compiler, compile, compiled},
    {"compile into a full cache", 4, with_small_cache, compile, compiled},
    {"render", 2, nothing_more, render, rendered},
    {"list the cache", 3, with_filled_cache, scan, nothing_more},
    {"clear the cache", 2, with_filled_cache, clear, cleared},
};

static int set_up(void **state) {
  (void)state;
  cuda->reset();
  cuda->capability = 90;
  cuda->context_set(cuda->context_new(0));
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  cuda->context_free(cuda->context_get());
  cuda->context_set(NULL);
  remove_tree(cache_dir);
  return 0;
}

/** The status of a call that ran out of memory. Compiling says too that nothing could be cached. */
static int is_right(attnpress_status status) {
  return status == ATTNPRESS_OK || status == ATTNPRESS_OUT_OF_MEMORY ||
         (status == ATTNPRESS_IO_ERROR && info.origin == ATTNPRESS_ORIGIN_JIT);
}

/** One call with its allocation number `first` failing; 0: it makes fewer. */
static int try_failing(const scenario *s, int first, int last_too) {
  const attnpress_info empty = ATTNPRESS_INFO_INIT;
  void *state = NULL;
  set_up(&state);
  info = empty;
  watching = 1;
  s->set_up();
  fail_from(first, last_too);
  attnpress_status status = s->call();
  const int failed = refused;
  fail_from(0, 0);
  if (!is_right(status))
    fail_msg("%s, allocation %d: status %d: %s", s->name, first, (int)status,
             attnpress_last_error());
  if (status != ATTNPRESS_OK) {
    assert_true(failed > 0);
    assert_true(status == ATTNPRESS_IO_ERROR || strstr(attnpress_last_error(), "memory") != NULL);
    assert_true(s->call != render || source == NULL);
    assert_true((s->call != create_for_cuda && s->call != create_with_everything) ||
                handle == NULL);
    assert_ok(s->call());
  }
  s->holds();
  fail_from(1, 1); /* freeing needs no memory */
  destroy();
  attnpress_free_source(source);
  source = NULL;
  assert_int_equal(refused, 0);
  fail_from(0, 0);
  watching = 0;
  if (count_live() != 0)
    fail_msg("%s, allocation %d: %d blocks are left", s->name, first, count_live());
  tear_down(&state);
  return failed;
}

static void test_every_allocation(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; ++i)
    for (int last_too = 0; last_too < 2; ++last_too) {
      int first = 1;
      while (try_failing(&scenarios[i], first, last_too))
        ++first;
      if (first <= scenarios[i].least)
        fail_msg("%s makes %d allocations, and at least %d were expected", scenarios[i].name,
                 first - 1, scenarios[i].least);
    }
}

/** A call whose kernels are loaded needs no memory: without any it is not kept. One that is kept asks for
 * none. */
static void test_warm_call(void **state) {
  (void)state;
  with_loaded_kernels();
  for (int kept = 0; kept < 2; ++kept) {
    cuda->launches = 0;
    fail_from(1, 1);
    const attnpress_status status = forward();
    const int needed = asked;
    fail_from(0, 0);
    assert_int_equal(status, ATTNPRESS_OK);
    assert_int_equal(needed, !kept);
    launched_both();
    assert_int_equal(forward(), ATTNPRESS_OK); /* which is kept */
  }
  destroy();
}

/* ---- On the CPU ------------------------------------------------------------------------------ */

enum { ROWS = 96, DIM = 64, COUNT = 2 * ROWS * DIM };

static float numbers[4][COUNT] __attribute__((aligned(64)));

static attnpress_status forward_on_cpu(float *out) {
  attnpress_tensor *tensors[] = {&args.q, &args.k, &args.v, &args.out};
  const attnpress_forward_args empty = ATTNPRESS_FORWARD_ARGS_INIT;
  args = empty;
  for (int i = 0; i < 4; ++i)
    *tensors[i] = attnpress_tensor_bshd(i < 3 ? numbers[i] : out, 2, ROWS, 1, DIM, ATTNPRESS_FP32);
  memset(out, 0xff, sizeof numbers[3]);
  return attnpress_forward(handle, &args, NULL);
}

/** Fewer threads give the same answer; no scratch memory gives none. */
static void test_cpu(void **state) {
  (void)state;
  static float expected[COUNT] __attribute__((aligned(64)));
  attnpress_options options = options_of(ATTNPRESS_CPU);
  options.num_threads = 4;
  for (int i = 0; i < COUNT; ++i)
    for (int j = 0; j < 3; ++j)
      numbers[j][i] = sinf((float)(i * (j + 1)));
  watching = 1;
  make_handle(&options);
  assert_ok(forward_on_cpu(expected));
  int answers = 0, first = 1;
  for (int failed = 1; failed > 0; ++first) {
    fail_from(first, 1);
    const attnpress_status status = forward_on_cpu(numbers[3]);
    failed = refused;
    fail_from(0, 0);
    if (status == ATTNPRESS_OK) {
      assert_memory_equal(numbers[3], expected, sizeof expected);
      answers += failed > 0;
    } else {
      assert_int_equal(status, ATTNPRESS_OUT_OF_MEMORY);
      assert_error_says("could not be allocated");
      assert_ok(forward_on_cpu(numbers[3]));
    }
  }
  assert_true(first > 3); /* two allocations and the threads */
  assert_true(answers >= 1);
  destroy();
  watching = 0;
  assert_int_equal(count_live(), 0);
}

static int set_up_group(void **state) {
  (void)state;
  make_temporary(folder);
  snprintf(cache_dir, sizeof cache_dir, "%s/deep/cache", folder);
  mkdir(in(folder, "nvrtc"), 0700);
  snprintf(nvrtc_path, sizeof nvrtc_path, "%s",
           place_nvrtc(in(folder, "nvrtc"), "libnvrtc.so.13", "13.0"));
  cuda = use_fake_cuda();
  return 0;
}

static int tear_down_group(void **state) {
  (void)state;
  remove_tree(folder);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_allocation),
      cmocka_unit_test_setup_teardown(test_warm_call, set_up, tear_down),
      cmocka_unit_test(test_cpu),
  };
  return cmocka_run_group_tests(tests, set_up_group, tear_down_group);
}
