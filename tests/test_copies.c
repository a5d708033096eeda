/* Two copies of the library in one process, the first of them where every later one looks its
 * functions up: each calls itself. The copies are of libattnpress.so, or of the archive in two
 * engines.
 *
 * What tells a copy from another is its thread's last error. A handle keeps the sentence of a
 * search for NVRTC that failed, which it asks its own attnpress_last_error() for; the copy that
 * asked the other one would keep that one's. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support.h"

typedef attnpress_status engine_compile_function(const attnpress_options *options,
                                                 const char **sentence);

static char folder[PATH_MAX];

static int set_up(void **state) {
  (void)state;
  make_temporary(folder);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  remove_tree(folder);
  return 0;
}

static void *open_library(const char *path, int flags) {
  void *library = dlopen(path, RTLD_NOW | flags);
  if (library == NULL)
    fail_msg("%s", dlerror());
  return library;
}

/** The function, of this very library. */
static void *look_up(void *library, const char *path, const char *name) {
  Dl_info where;
  void *function = dlsym(library, name);
  assert_non_null(function);
  assert_true(dladdr(function, &where) != 0);
  assert_string_equal(where.dli_fname, path);
  return function;
}

static attnpress_options options_without_nvrtc(const char *nvrtc_path) {
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.backend = ATTNPRESS_COMPILE_ONLY;
  options.cache_off = 1;
  options.nvrtc_path = nvrtc_path;
  return options;
}

/** A copy as its functions, looked up in it alone. */
typedef struct copy {
  attnpress_status (*create)(attnpress_handle **, const attnpress_options *);
  attnpress_status (*compile)(attnpress_handle *, const char *, const char *, attnpress_info *);
  void (*destroy)(attnpress_handle *);
  const char *(*last_error)(void);
} copy;

static copy open_copy(const char *path, int flags) {
  void *library = open_library(path, flags);
  copy c;
  *(void **)&c.create = look_up(library, path, "attnpress_create");
  *(void **)&c.compile = look_up(library, path, "attnpress_compile");
  *(void **)&c.destroy = look_up(library, path, "attnpress_destroy");
  *(void **)&c.last_error = look_up(library, path, "attnpress_last_error");
  return c;
}

static void test_shared_libraries(void **state) {
  (void)state;
  static const char *const names[] = {"/nonexistent/first.so", "/nonexistent/second.so"};
  char paths[2][PATH_MAX + 16];
  copy copies[2];
  attnpress_handle *handles[2];
  for (int i = 0; i < 2; ++i) {
    snprintf(paths[i], sizeof paths[i], "%s/copy%d.so", folder, i);
    copy_file(built("libattnpress.so"), paths[i]);
    copies[i] = open_copy(paths[i], i == 0 ? RTLD_GLOBAL : RTLD_LOCAL);
    const attnpress_options options = options_without_nvrtc(names[i]);
    assert_int_equal(copies[i].create(&handles[i], &options), ATTNPRESS_OK);
  }
  assert_ptr_not_equal(copies[0].create, copies[1].create);
  for (int turn = 0; turn < 4; ++turn) {
    const copy *c = &copies[turn % 2];
    assert_int_equal(c->compile(handles[turn % 2], "flash_fwd_hdim72_fp16_sm80", "sm_80", NULL),
                     ATTNPRESS_NO_NVRTC);
    assert_non_null(strstr(c->last_error(), names[turn % 2]));
  }
  assert_non_null(strstr(copies[0].last_error(), names[0])); /* the other's calls left it alone */
  for (int i = 0; i < 2; ++i)
    copies[i].destroy(handles[i]);
}

static void test_archives(void **state) {
  (void)state;
  static const char *const names[] = {"/nonexistent/first.so", "/nonexistent/second.so"};
  static const char *const engines[] = {"libengine_one.so", "libengine_two.so"};
  const char *sentences[2];
  for (int i = 0; i < 2; ++i) {
    char path[PATH_MAX];
    engine_compile_function *compile;
    snprintf(path, sizeof path, "%s", built(engines[i]));
    void *library = open_library(path, i == 0 ? RTLD_GLOBAL : RTLD_LOCAL);
    *(void **)&compile = look_up(library, path, "engine_compile");
    const attnpress_options options = options_without_nvrtc(names[i]);
    assert_int_equal(compile(&options, &sentences[i]), ATTNPRESS_NO_NVRTC);
    assert_non_null(strstr(sentences[i], names[i]));
    assert_null(dlsym(library, "attnpress_last_error"));
  }
  assert_non_null(strstr(sentences[0], names[0]));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_shared_libraries, set_up, tear_down),
      cmocka_unit_test(test_archives),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
