/* A machine without a GPU on which the public API runs: the driver and NVRTC are stand-ins
 * (fake_cuda.c, fake_nvrtc.c) that keep what was launched. Included after <cmocka.h>, by one file of
 * a program. */
#pragma once
#include <stdint.h>

#include "support.h"

static fake_cuda *cuda;
static char folder[PATH_MAX], cache_dir[PATH_MAX], count_file[PATH_MAX], nvrtc_path[PATH_MAX];
static char logged[65536];
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static UNUSED void keep_log(void *user, int level, const char *message) {
  (void)user;
  pthread_mutex_lock(&log_lock);
  const size_t used = strlen(logged);
  snprintf(logged + used, sizeof logged - used, "%s%s\n", level ? "warning: " : "", message);
  pthread_mutex_unlock(&log_lock);
}

static UNUSED attnpress_options handle_options(void) {
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.cache_dir = cache_dir;
  options.nvrtc_path = nvrtc_path;
  options.log = keep_log;
  return options;
}

static UNUSED attnpress_handle *make_handle(void) {
  attnpress_handle *handle;
  const attnpress_options options = handle_options();
  assert_ok(attnpress_create(&handle, &options));
  return handle;
}

static UNUSED attnpress_handle *make_cpu_handle(int32_t threads) {
  attnpress_handle *handle;
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.backend = ATTNPRESS_CPU;
  options.num_threads = threads;
  assert_ok(attnpress_create(&handle, &options));
  return handle;
}

static UNUSED attnpress_handle *make_compile_only(void) {
  attnpress_handle *handle;
  attnpress_options options = handle_options();
  options.backend = ATTNPRESS_COMPILE_ONLY;
  assert_ok(attnpress_create(&handle, &options));
  return handle;
}

/** Each row's `spoil` makes of the arguments that `legal` gives some that `function` refuses, and the
 * sentence has the words that the row `says`. */
#define assert_refused(handle, function, args_type, legal, rows)                                   \
  for (size_t row = 0; row < sizeof(rows) / sizeof *(rows); ++row) {                               \
    args_type spoiled = legal();                                                                   \
    (rows)[row].spoil(&spoiled);                                                                   \
    if (function(handle, &spoiled, NULL) != ATTNPRESS_INVALID_ARGUMENT)                            \
      fail_msg("accepted, though %s", (rows)[row].says);                                           \
    assert_error_says((rows)[row].says);                                                           \
  }

/** Each kernel that a call launches is one of those that the range prepares, and there once. */
static UNUSED void assert_prepared(const attnpress_plan *range, const attnpress_plan *call) {
  for (int k = 0; k < attnpress_plan_launch_count(call); ++k) {
    attnpress_info info = ATTNPRESS_INFO_INIT, one = ATTNPRESS_INFO_INIT;
    int found = 0;
    assert_ok(attnpress_plan_launch(call, k, &one));
    for (int n = 0; n < attnpress_plan_launch_count(range); ++n) {
      assert_ok(attnpress_plan_launch(range, n, &info));
      found += strcmp(info.stem, one.stem) == 0 && strcmp(info.tile, one.tile) == 0;
    }
    assert_int_equal(found, 1);
  }
}

static UNUSED int compiles(void) {
  return (int)file_size(count_file);
}

static UNUSED int set_up_group(void **state) {
  (void)state;
  make_temporary(folder);
  snprintf(cache_dir, sizeof cache_dir, "%s", in(folder, "cache"));
  snprintf(count_file, sizeof count_file, "%s", in(folder, "count"));
  mkdir(in(folder, "nvrtc"), 0700);
  snprintf(nvrtc_path, sizeof nvrtc_path, "%s",
           place_nvrtc(in(folder, "nvrtc"), "libnvrtc.so.13", "13.0"));
  setenv("FAKE_NVRTC_COUNT", count_file, 1);
  cuda = use_fake_cuda();
  return 0;
}

static UNUSED int tear_down_group(void **state) {
  (void)state;
  remove_tree(folder);
  return 0;
}

static UNUSED int set_up(void **state) {
  (void)state;
  cuda->reset();
  cuda->capability = 90;
  cuda->context_set(cuda->context_new(0));
  logged[0] = '\0';
  unlink(count_file);
  unsetenv("FAKE_NVRTC_MODE");
  unsetenv("FAKE_NVRTC_MS");
  unsetenv("FAKE_NVRTC_VERSION");
  return 0;
}

static UNUSED int tear_down(void **state) {
  (void)state;
  cuda->context_free(cuda->context_get());
  cuda->context_set(NULL);
  remove_tree(cache_dir);
  return 0;
}

/* Head dim 72 is not in the default set, so that nothing here depends on what is linked in. */
enum { BATCH = 2, SEQLEN_Q = 100, SEQLEN_K = 300, HEADS_Q = 6, HEADS_KV = 3, HDIM = 72 };

/** Legal arguments; the pointers are only looked at. */
static UNUSED attnpress_forward_args legal_args(void) {
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  args.q = attnpress_tensor_bshd((void *)0x10000, BATCH, SEQLEN_Q, HEADS_Q, HDIM, ATTNPRESS_BF16);
  args.k = attnpress_tensor_bhsd((void *)0x20000, BATCH, SEQLEN_K, HEADS_KV, HDIM, ATTNPRESS_BF16);
  args.v = attnpress_tensor_bshd((void *)0x30000, BATCH, SEQLEN_K, HEADS_KV, HDIM, ATTNPRESS_BF16);
  args.out = attnpress_tensor_bshd((void *)0x40000, BATCH, SEQLEN_Q, HEADS_Q, HDIM, ATTNPRESS_BF16);
  args.lse = (float *)0x50000;
  args.num_splits = 1;
  return args;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
