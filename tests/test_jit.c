/* Finding NVRTC, compiling with it, and reading cubins. The search is tested on stand-ins in
 * folders of its own; where a real NVRTC is found, kernels are compiled with it too. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "support.h"

static char folder[PATH_MAX];

static int set_up(void **state) {
  (void)state;
  make_temporary(folder);
  unsetenv("FAKE_NVRTC_VERSION");
  unsetenv("ATTNPRESS_NVRTC");
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  unsetenv("ATTNPRESS_NVRTC");
  unsetenv("CUDA_HOME");
  unsetenv("FAKE_NVRTC_VERSION");
  remove_tree(folder);
  return 0;
}

/* ---- The search ------------------------------------------------------------------------------ */

static void test_option_and_variable(void **state) {
  (void)state;
  ap_nvrtc nvrtc;
  char option[PATH_MAX], variable[PATH_MAX];
  mkdir(in(folder, "o"), 0700);
  mkdir(in(folder, "v"), 0700);
  snprintf(option, sizeof option, "%s", place_nvrtc(in(folder, "o"), "libnvrtc.so.13", "13.0"));
  snprintf(variable, sizeof variable, "%s", place_nvrtc(in(folder, "v"), "libnvrtc.so.12", "12.8"));
  setenv("ATTNPRESS_NVRTC", variable, 1);
  assert_ok(ap_nvrtc_open(&nvrtc, option, 0));
  assert_string_equal(nvrtc.path, option);
  assert_int_equal(nvrtc.major, 13);
  ap_nvrtc_close(&nvrtc);
  assert_ok(ap_nvrtc_open(&nvrtc, NULL, 0));
  assert_string_equal(nvrtc.path, variable);
  assert_int_equal(nvrtc.major, 12);
  assert_int_equal(nvrtc.minor, 8);
  ap_nvrtc_close(&nvrtc);

  /* What they name is used or the call fails: no other is taken in its place. */
  assert_int_equal(ap_nvrtc_open(&nvrtc, "/nonexistent/libnvrtc.so", 0), ATTNPRESS_NO_NVRTC);
  assert_error_says("the option nvrtc_path");
  assert_error_says("/nonexistent/libnvrtc.so");
  setenv("ATTNPRESS_NVRTC", "/nonexistent/other.so", 1);
  assert_int_equal(ap_nvrtc_open(&nvrtc, NULL, 0), ATTNPRESS_NO_NVRTC);
  assert_error_says("ATTNPRESS_NVRTC names");
  assert_error_says("/nonexistent/other.so");
  assert_null(nvrtc.library);
  write_file(in(folder, "text.so"), "text", 4, 0700);
  assert_int_equal(ap_nvrtc_open(&nvrtc, in(folder, "text.so"), 0), ATTNPRESS_NO_NVRTC);
  copy_file(built("libfake_cuda.so"), in(folder, "libnvrtc.so.13"));
  assert_int_equal(ap_nvrtc_open(&nvrtc, in(folder, "libnvrtc.so.13"), 0), ATTNPRESS_NO_NVRTC);
  assert_error_says("has no nvrtcVersion");
}

static void test_builtins(void **state) {
  (void)state;
  ap_nvrtc nvrtc;
  setenv("FAKE_NVRTC_VERSION", "13.77", 1); /* whose builtins no machine has */
  copy_file(built("libfake_nvrtc.so"), in(folder, "libnvrtc.so.13"));
  assert_int_equal(ap_nvrtc_open(&nvrtc, in(folder, "libnvrtc.so.13"), 0), ATTNPRESS_NO_NVRTC);
  assert_error_says("without libnvrtc-builtins.so.13.77");
  copy_file(built("libfake_nvrtc.so"), in(folder, "libnvrtc-builtins.so.13.77"));
  assert_ok(ap_nvrtc_open(&nvrtc, in(folder, "libnvrtc.so.13"), 0));
  assert_non_null(nvrtc.builtins);
  ap_nvrtc_close(&nvrtc);
}

static void test_versions(void **state) {
  (void)state;
  ap_nvrtc nvrtc;
  const char *path = place_nvrtc(folder, "libnvrtc.so.13", "13.0");
  assert_int_equal(ap_nvrtc_open(&nvrtc, path, 12080), ATTNPRESS_NO_NVRTC);
  assert_error_says("NVRTC 13.0, newer than the driver, which knows CUDA 12.8");
  assert_ok(ap_nvrtc_open(&nvrtc, path, 13000));
  ap_nvrtc_close(&nvrtc);
  assert_ok(ap_nvrtc_open(&nvrtc, path, 0));
  ap_nvrtc_close(&nvrtc);
  setenv("FAKE_NVRTC_VERSION", "11.8", 1);
  assert_int_equal(ap_nvrtc_open(&nvrtc, path, 13000), ATTNPRESS_NO_NVRTC);
  assert_error_says("NVRTC 11.8, older than 12");
}

/** The rest of the search runs in a process of its own: what a process has loaded comes first.
 * `body` ends with _exit(0) where all is well. */
static void in_child(void (*body)(void)) {
  int status;
  const pid_t child = fork();
  if (child == 0) {
    body();
    fprintf(stderr, "%s\n", attnpress_last_error());
    _exit(1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static void take_loaded(void) {
  ap_nvrtc nvrtc;
  char want[PATH_MAX];
  mkdir(in(folder, "loaded"), 0700);
  snprintf(want, sizeof want, "%s", place_nvrtc(in(folder, "loaded"), "libnvrtc.so.13", "13.0"));
  /* The loader knows a library by its own name, or by the one that it was asked for with. */
  if (chdir(in(folder, "loaded")) != 0 || dlopen(want, RTLD_NOW) == NULL)
    _exit(2);
  if (dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_NOLOAD) == NULL)
    _exit(0); /* the stand-in was built without a name: nothing to see here */
  if (ap_nvrtc_open(&nvrtc, NULL, 0) == ATTNPRESS_OK && strcmp(nvrtc.path, want) == 0)
    _exit(0);
}

/** CUDA_HOME, for a version that the loader does not find: 13 is too new for the driver, 12 is
 * taken. */
static void take_cuda_home(void) {
  ap_nvrtc nvrtc;
  mkdir(in(folder, "lib64"), 0700);
  char want[PATH_MAX];
  place_nvrtc(in(folder, "lib64"), "libnvrtc.so.13", "13.0");
  snprintf(want, sizeof want, "%s", place_nvrtc(in(folder, "lib64"), "libnvrtc.so.12", "12.8"));
  setenv("CUDA_HOME", folder, 1);
  if (dlopen("libnvrtc.so.12", RTLD_NOW) != NULL)
    _exit(0); /* this machine has one, which comes first */
  if (ap_nvrtc_open(&nvrtc, NULL, 12090) != ATTNPRESS_OK || strcmp(nvrtc.path, want) != 0)
    return;
  ap_nvrtc_close(&nvrtc);
  /* A driver that is older than both: nothing, and all is named. */
  if (ap_nvrtc_open(&nvrtc, NULL, 11080) == ATTNPRESS_NO_NVRTC &&
      strstr(attnpress_last_error(), "NVRTC 13.0") != NULL &&
      strstr(attnpress_last_error(), "NVRTC 12.8") != NULL &&
      strstr(attnpress_last_error(), "CUDA 11.8") != NULL)
    _exit(0);
}

static void test_rest_of_the_search(void **state) {
  (void)state;
  in_child(take_loaded);
  in_child(take_cuda_home);
}

/** What could not be opened once is tried again; what is of no use is remembered. */
static void test_search_again(void **state) {
  (void)state;
  ap_compiler compiler;
  ap_nvrtc *nvrtc;
  char path[PATH_MAX];
  struct rlimit old, none;
  snprintf(path, sizeof path, "%s", place_nvrtc(folder, "libnvrtc.so.13.9", "13.0"));
  assert_ok(ap_compiler_init(&compiler, path));
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
  none = (struct rlimit){0, old.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  assert_int_equal(ap_compiler_get(&compiler, &nvrtc), ATTNPRESS_NO_NVRTC);
  assert_error_says("Too many open files");
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
  assert_ok(ap_compiler_get(&compiler, &nvrtc));
  assert_string_equal(nvrtc->path, path);
  ap_compiler_free(&compiler);

  /* It comes with time. */
  mkdir(in(folder, "later"), 0700);
  assert_ok(ap_compiler_init(&compiler, in(folder, "later/libnvrtc.so.13.8")));
  assert_int_equal(ap_compiler_get(&compiler, &nvrtc), ATTNPRESS_NO_NVRTC);
  place_nvrtc(in(folder, "later"), "libnvrtc.so.13.8", "13.0");
  assert_ok(ap_compiler_get(&compiler, &nvrtc));
  ap_compiler_free(&compiler);

  setenv("FAKE_NVRTC_VERSION", "11.8", 1);
  assert_ok(ap_compiler_init(&compiler, path));
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(ap_compiler_get(&compiler, &nvrtc), ATTNPRESS_NO_NVRTC);
    assert_error_says("NVRTC 11.8, older than 12");
    setenv("FAKE_NVRTC_VERSION", "12.8", 1); /* is not asked again */
  }
  ap_compiler_free(&compiler);
}

/* ---- Options --------------------------------------------------------------------------------- */

/** What NVRTC is told: the target, the language; no cache of its own, from the version on that has
 * one. */
static void check_options(const char *name, const char *version, int no_cache) {
  ap_nvrtc nvrtc;
  ap_image image;
  const ap_request request = {.stem = "flash_fwd_hdim64_fp16_sm80", .target = "sm_90"};
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s", place_nvrtc(folder, name, version));
  setenv("FAKE_NVRTC_VERSION", version, 1);
  assert_ok(ap_nvrtc_open(&nvrtc, path, 0));
  assert_ok(ap_jit_compile(&nvrtc, NULL, &request, "the source", &image));
  assert_non_null(memmem(image.data, image.size, "--gpu-architecture=sm_90", 24));
  assert_non_null(memmem(image.data, image.size, "--std=c++17", 11));
  assert_int_equal(memmem(image.data, image.size, "--no-cache", 10) != NULL, no_cache);
  assert_non_null(memmem(image.data, image.size, "the source", 10));
  assert_int_equal(image.origin, ATTNPRESS_ORIGIN_JIT);
  assert_int_equal(image.registers, 0); /* the stand-in's cubin does not say */
  assert_int_equal(image.spill_bytes, -1);
  ap_image_free(&image);
  ap_nvrtc_close(&nvrtc);
}

static void test_options(void **state) {
  (void)state;
  check_options("libnvrtc.so.12", "12.8", 0);
  check_options("libnvrtc.so.12.9", "12.9", 1);
  check_options("libnvrtc.so.13", "13.0", 1);
}

/* ---- A real one ------------------------------------------------------------------------------ */

static attnpress_handle *handle_with_real_nvrtc(void) {
  attnpress_handle *handle;
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.backend = ATTNPRESS_COMPILE_ONLY;
  options.cache_off = 1;
  assert_ok(attnpress_create(&handle, &options));
  ap_nvrtc *nvrtc;
  if (ap_compiler_get(&handle->finder.compiler, &nvrtc) == ATTNPRESS_OK)
    return handle;
  print_message("skipped: %s\n", attnpress_last_error());
  attnpress_destroy(handle);
  skip();
  return NULL;
}

static void test_real_compile(void **state) {
  (void)state;
  attnpress_handle *handle = handle_with_real_nvrtc();
  static const char *const stems[] = {"flash_fwd_hdim40_bf16_causal_sm80",
                                      "flash_fwd_split_hdim72_fp16_decode_sm86",
                                      "flash_fwd_combine_hdim40_fp16_sm80"};
  for (size_t i = 0; i < sizeof stems / sizeof *stems; ++i) {
    attnpress_info info = ATTNPRESS_INFO_INIT;
    assert_ok(attnpress_compile(handle, stems[i], NULL, &info));
    assert_int_equal(info.origin, ATTNPRESS_ORIGIN_JIT);
    assert_in_range(info.registers, 16, 255);
    assert_int_equal(info.spill_bytes, 0);
    assert_true(info.compile_ms > 1);
    assert_true(info.cubin_bytes > 1000);
  }
  attnpress_destroy(handle);
}

/** Registers and local memory of a kernel that must spill, and of one that need not. */
static void test_resources(void **state) {
  (void)state;
  attnpress_handle *handle = handle_with_real_nvrtc();
  static const char source[] =
      "extern \"C\" __global__ void __launch_bounds__(1024, 2) heavy(const float *__restrict__ p,\n"
      "    float *out, int n) {\n"
      "  float a[80];\n"
      "  _Pragma(\"unroll\") for (int i = 0; i < 80; ++i) a[i] = p[i * n + threadIdx.x];\n"
      "  for (int j = 0; j < n; ++j) {\n"
      "    float s = 0;\n"
      "    _Pragma(\"unroll\") for (int i = 0; i < 80; ++i) s += a[i] * a[79 - i];\n"
      "    _Pragma(\"unroll\") for (int i = 0; i < 80; ++i) a[i] = a[i] * s + p[j];\n"
      "  }\n"
      "  _Pragma(\"unroll\") for (int i = 0; i < 80; ++i) out[i] = a[i];\n"
      "}\n"
      "extern \"C\" __global__ void light(float *p) { p[threadIdx.x] += 1.0f; }\n";
  ap_nvrtc *nvrtc;
  ap_image image;
  static const char *const targets[] = {"sm_80", "sm_86", "sm_90", "sm_100", "sm_120"};
  assert_ok(ap_compiler_get(&handle->finder.compiler, &nvrtc));
  for (size_t i = 0; i < sizeof targets / sizeof *targets; ++i) {
    ap_request request = {.stem = "heavy"};
    int32_t registers, local_bytes;
    snprintf(request.target, sizeof request.target, "%s", targets[i]);
    const attnpress_status status = ap_jit_compile(nvrtc, NULL, &request, source, &image);
    if (status == ATTNPRESS_NOT_SUPPORTED)
      continue; /* an NVRTC that does not know this target */
    assert_ok(status);
    assert_in_range(image.registers, 32, 64); /* 65536 / 2048, or / 1024 where an SM holds one */
    assert_true(image.spill_bytes > 100);
    ap_cubin_resources(image.data, image.size, "light", &registers, &local_bytes);
    assert_in_range(registers, 4, 32);
    assert_int_equal(local_bytes, 0);
    ap_cubin_resources(image.data, image.size, "heav", &registers, &local_bytes);
    assert_int_equal(registers, 0);
    assert_int_equal(local_bytes, -1);

    /* Cut off, or with any byte changed, it is read without harm. */
    unsigned char *copy = malloc(image.size);
    for (size_t length = 0; length < image.size; length += 13) {
      memcpy(copy, image.data, length);
      unsigned char *exact = malloc(length + 1); /* so that a sanitizer sees a byte too far */
      memcpy(exact, copy, length);
      ap_cubin_resources(exact, length, "heavy", &registers, &local_bytes);
      free(exact);
    }
    for (size_t at = 0; at < image.size; at += at < 64 ? 1 : 7) {
      memcpy(copy, image.data, image.size);
      copy[at] ^= 0xff;
      ap_cubin_resources(copy, image.size, "heavy", &registers, &local_bytes);
    }
    free(copy);
    ap_image_free(&image);
  }
  attnpress_destroy(handle);
}

/** A string table or a symbol table that takes no room in the file has no contents to be read. */
static void test_tables_without_contents(void **state) {
  (void)state;
  enum { STRINGS = 1, SYMBOLS, SECTIONS };
  struct {
    Elf64_Ehdr header;
    Elf64_Shdr sections[SECTIONS];
    Elf64_Sym symbols[2];
    char strings[16];
  } file = {
      .header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB},
                 .e_shentsize = sizeof(Elf64_Shdr),
                 .e_shnum = SECTIONS,
                 .e_shstrndx = STRINGS},
      .symbols = {{0}, {.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC)}},
      .strings = "\0kernel",
  };
  file.header.e_shoff = offsetof(__typeof__(file), sections);
  file.sections[SYMBOLS] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                        .sh_link = STRINGS,
                                        .sh_offset = offsetof(__typeof__(file), symbols),
                                        .sh_size = sizeof file.symbols};
  static const uint64_t offsets[] = {0, UINT64_C(1) << 40, UINT64_MAX - 64};
  int32_t registers, local_bytes;
  for (size_t i = 0; i < sizeof offsets / sizeof *offsets; ++i) {
    file.sections[STRINGS] =
        (Elf64_Shdr){.sh_type = SHT_NOBITS, .sh_offset = offsets[i], .sh_size = 1 << 20};
    ap_cubin_resources((const unsigned char *)&file, sizeof file, "kernel", &registers,
                       &local_bytes);
    assert_int_equal(registers, 0);
    assert_int_equal(local_bytes, -1);
  }
}

static void test_real_errors(void **state) {
  (void)state;
  attnpress_handle *handle = handle_with_real_nvrtc();
  ap_nvrtc *nvrtc;
  ap_image image;
  const ap_request request = {.stem = "wrong", .target = "sm_80"};
  assert_ok(ap_compiler_get(&handle->finder.compiler, &nvrtc));
  assert_int_equal(
      ap_jit_compile(nvrtc, NULL, &request, "__device__ int f() { return foo; }\n", &image),
      ATTNPRESS_COMPILE_FAILED);
  assert_error_says("identifier \"foo\" is undefined");
  assert_error_says("wrong.cu(1)");
  assert_null(image.data);
  attnpress_destroy(handle);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_option_and_variable), TEST(test_builtins),     TEST(test_versions),
      TEST(test_rest_of_the_search),  TEST(test_search_again), TEST(test_options),
      TEST(test_real_compile),        TEST(test_resources),    TEST(test_tables_without_contents),
      TEST(test_real_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
