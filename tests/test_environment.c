/* The options of a handle that stand in the environment, and the sentence of a call of which several
 * kernels are missing. The driver and NVRTC are stand-ins. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "api_support.h"
#include "handle.h"

static const char *const names[] = {
    "ATTNPRESS_JIT_OFF",      "ATTNPRESS_CACHE_OFF",
    "ATTNPRESS_NUM_THREADS",  "ATTNPRESS_CACHE_MAX_BYTES",
    "ATTNPRESS_CACHE_LAYERS", "ATTNPRESS_ARCH_MAX",
    "ATTNPRESS_LOG",
};

static int set_up_environment(void **state) {
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    unsetenv(names[i]);
  return set_up(state);
}

static int tear_down_environment(void **state) {
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    unsetenv(names[i]);
  return tear_down(state);
}

static attnpress_handle *make(int32_t backend) {
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  attnpress_handle *handle;
  options.backend = backend;
  options.cache_dir = cache_dir;
  options.nvrtc_path = nvrtc_path;
  assert_ok(attnpress_create(&handle, &options));
  return handle;
}

/** Each variable is the option of its name. */
static void test_options(void **state) {
  (void)state;
  setenv("ATTNPRESS_JIT_OFF", "1", 1);
  setenv("ATTNPRESS_NUM_THREADS", "3", 1);
  setenv("ATTNPRESS_ARCH_MAX", "80", 1);
  setenv("ATTNPRESS_CHECK", "1", 1);
  setenv("ATTNPRESS_CACHE_MAX_BYTES", "3M", 1);
  setenv("ATTNPRESS_CACHE_LAYERS", "/opt/one::relative:", 1);
  attnpress_handle *handle = make(ATTNPRESS_COMPILE_ONLY);
  assert_int_equal(handle->finder.jit_off, 1);
  assert_int_equal(handle->num_threads, 3);
  assert_int_equal(handle->arch_max, 80);
  assert_int_equal(handle->check, 1);
  assert_int_equal(handle->finder.cache.max_bytes, 3 << 20);
  char **layers = handle->finder.cache.read_only_dirs;
  assert_string_equal(layers[0], "/opt/one");
  assert_non_null(strstr(layers[1], "/relative"));
  assert_null(layers[2]);
  attnpress_destroy(handle);

  setenv("ATTNPRESS_CACHE_OFF", "1", 1);
  handle = make(ATTNPRESS_COMPILE_ONLY);
  assert_null(handle->finder.cache.user_dir);
  attnpress_destroy(handle);
}

/** An option that is given goes before its variable; an empty variable is none. */
static void test_options_go_first(void **state) {
  (void)state;
  const char *const dirs[] = {"/opt/mine", NULL};
  attnpress_options options = handle_options();
  attnpress_handle *handle;
  setenv("ATTNPRESS_NUM_THREADS", "3", 1);
  setenv("ATTNPRESS_ARCH_MAX", "80", 1);
  setenv("ATTNPRESS_CACHE_MAX_BYTES", "1G", 1);
  setenv("ATTNPRESS_CACHE_LAYERS", "/opt/one", 1);
  setenv("ATTNPRESS_JIT_OFF", "", 1);
  options.backend = ATTNPRESS_CPU;
  options.num_threads = 2;
  options.arch_max = 90;
  options.cache_max_bytes = 1000;
  options.read_only_dirs = dirs;
  assert_ok(attnpress_create(&handle, &options));
  assert_int_equal(handle->num_threads, 2);
  assert_int_equal(handle->arch_max, 90);
  assert_int_equal(handle->finder.cache.max_bytes, 1000);
  assert_int_equal(handle->finder.jit_off, 0);
  assert_string_equal(handle->finder.cache.read_only_dirs[0], "/opt/mine");
  assert_null(handle->finder.cache.read_only_dirs[1]);
  assert_ptr_equal(handle->log.function, keep_log);
  attnpress_destroy(handle);
}

static void test_wrong_values(void **state) {
  (void)state;
  static const struct {
    const char *name, *value, *says;
  } rows[] = {
      {"ATTNPRESS_JIT_OFF", "yes", "ATTNPRESS_JIT_OFF is \"yes\"; it must be 0 or 1"},
      {"ATTNPRESS_CACHE_OFF", "2", "ATTNPRESS_CACHE_OFF is \"2\"; it must be 0 or 1"},
      {"ATTNPRESS_NUM_THREADS", "1025", "it must be 0 to 1024"},
      {"ATTNPRESS_NUM_THREADS", "-1", "ATTNPRESS_NUM_THREADS is \"-1\""},
      {"ATTNPRESS_NUM_THREADS", "4 ", "ATTNPRESS_NUM_THREADS is \"4 \""},
      {"ATTNPRESS_NUM_THREADS", "99999999999999999999", "it must be 0 to 1024"},
      {"ATTNPRESS_ARCH_MAX", "75", "ATTNPRESS_ARCH_MAX is \"75\"; it must be 80, 86, 90 or 0"},
      {"ATTNPRESS_ARCH_MAX", "sm80", "ATTNPRESS_ARCH_MAX is \"sm80\""},
      {"ATTNPRESS_CACHE_MAX_BYTES", "0", "it must be a positive number of bytes"},
      {"ATTNPRESS_CACHE_MAX_BYTES", "5T", "ATTNPRESS_CACHE_MAX_BYTES is \"5T\""},
      {"ATTNPRESS_CACHE_MAX_BYTES", "5MB", "ATTNPRESS_CACHE_MAX_BYTES is \"5MB\""},
      {"ATTNPRESS_CACHE_MAX_BYTES", "18446744073709551615G", "it must be a positive number"},
      {"ATTNPRESS_LOG", "debug", "ATTNPRESS_LOG is \"debug\"; it must be info or warning"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    attnpress_handle *handle;
    setenv(rows[i].name, rows[i].value, 1);
    assert_int_equal(attnpress_create(&handle, NULL), ATTNPRESS_INVALID_ARGUMENT);
    assert_null(handle);
    assert_error_says(rows[i].says);
    unsetenv(rows[i].name);
  }
}

/** What a handle of a compile prints to stderr; the caller frees it. */
static void print_of_compile(const char *log, char *text, size_t size) {
  const char *path = in(folder, "stderr");
  fflush(stderr);
  const int kept = dup(STDERR_FILENO), file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  assert_true(kept >= 0 && file >= 0);
  dup2(file, STDERR_FILENO);
  setenv("ATTNPRESS_LOG", log, 1);
  attnpress_handle *handle = make(ATTNPRESS_COMPILE_ONLY);
  const attnpress_status status =
      attnpress_compile(handle, "flash_fwd_hdim72_bf16_sm80", "sm_80", NULL);
  attnpress_destroy(handle);
  fflush(stderr);
  dup2(kept, STDERR_FILENO);
  close(kept);
  const ssize_t got = pread(file, text, size - 1, 0);
  text[got > 0 ? got : 0] = '\0';
  close(file);
  assert_ok(status);
}

static void test_log(void **state) {
  (void)state;
  char text[4096];
  print_of_compile("info", text, sizeof text);
  const char *before = strstr(text, "attnpress: flash_fwd_hdim72_bf16_sm80 ");
  assert_non_null(before);
  assert_non_null(strstr(before, "sm_80: compiling (usually "));
  remove_tree(cache_dir);
  print_of_compile("warning", text, sizeof text);
  assert_string_equal(text, "");
}

/** Of a call that lacks several kernels, and of a plan that does, the sentence names all, as
 * `attnpress compile` takes them. */
static void test_all_that_is_missing(void **state) {
  (void)state;
  setenv("ATTNPRESS_JIT_OFF", "1", 1);
  attnpress_forward_args args = legal_args();
  attnpress_plan *plan;
  args.num_splits = 2;
  args.workspace = (void *)0x100000;
  args.workspace_bytes = (size_t)1 << 30;
  attnpress_handle *handle = make_handle();
  static const char all[] =
      "2 kernels are neither linked in nor cached, and compiling is switched off (jit_off); switch "
      "it on, or fill the cache with: attnpress compile flash_fwd_split_hdim72_bf16_sm90:sm_90a "
      "flash_fwd_combine_hdim72_bf16_sm80:sm_90";
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_NO_KERNEL);
  assert_string_equal(attnpress_last_error(), all);
  assert_ok(attnpress_plan_forward(handle, &args, NULL, &plan));
  assert_int_equal(attnpress_plan_prepare(plan, NULL), ATTNPRESS_NO_KERNEL);
  assert_string_equal(attnpress_last_error(), all);
  attnpress_plan_destroy(plan);

  unsetenv("ATTNPRESS_JIT_OFF");
  attnpress_handle *compiler = make(ATTNPRESS_COMPILE_ONLY);
  assert_ok(attnpress_compile(compiler, "flash_fwd_split_hdim72_bf16_sm90", "sm_90a", NULL));
  attnpress_destroy(compiler);
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_NO_KERNEL);
  assert_error_says("flash_fwd_combine_hdim72_bf16_sm80 for sm_90 is neither linked in nor cached");
  assert_int_equal(cuda->launches, 0);
  attnpress_destroy(handle);
}

int main(void) {
#define ENVIRONMENT(name)                                                                          \
  cmocka_unit_test_setup_teardown(name, set_up_environment, tear_down_environment)
  const struct CMUnitTest tests[] = {
      ENVIRONMENT(test_options),
      ENVIRONMENT(test_options_go_first),
      ENVIRONMENT(test_wrong_values),
      ENVIRONMENT(test_log),
      ENVIRONMENT(test_all_that_is_missing),
  };
  return cmocka_run_group_tests(tests, set_up_group, tear_down_group);
}
