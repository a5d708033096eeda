/* What the C tests of the runtime share: temporary folders, files, the stand-ins for libcuda and
 * NVRTC. Included after <cmocka.h>. */
#pragma once
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "attention/attention.h"
#include "plans.h"
#include "press/cubin.h"

#define UNUSED __attribute__((unused))

/** Removes a folder and all in it. */
static UNUSED void remove_tree(const char *path) {
  DIR *dir = opendir(path);
  for (struct dirent *item; dir != NULL && (item = readdir(dir)) != NULL;) {
    char child[PATH_MAX];
    struct stat s;
    if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)
      continue;
    snprintf(child, sizeof child, "%s/%s", path, item->d_name);
    if (lstat(child, &s) == 0 && S_ISDIR(s.st_mode)) {
      chmod(child, 0700);
      remove_tree(child);
    } else {
      unlink(child);
    }
  }
  if (dir != NULL)
    closedir(dir);
  rmdir(path);
}

/** A new folder, mode 0700. */
static UNUSED void make_temporary(char path[PATH_MAX]) {
  const char *base = getenv("TMPDIR");
  snprintf(path, PATH_MAX, "%s/attnpress-test-XXXXXX", base && *base ? base : "/tmp");
  assert_non_null(mkdtemp(path));
}

/** folder/name; the text is one of a few in turn. */
static UNUSED const char *in(const char *folder, const char *name) {
  static char *paths[8];
  static int turn;
  char *path;
  assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
  turn = (turn + 1) % 8;
  free(paths[turn]);
  paths[turn] = path;
  return path;
}

/** The contents of a file; the caller frees. */
static UNUSED unsigned char *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  unsigned char *data = malloc(*size + 1);
  assert_int_equal(fread(data, 1, *size, file), *size);
  fclose(file);
  return data;
}

static UNUSED void write_file(const char *path, const void *data, size_t size, mode_t mode) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, data, size), size);
  assert_int_equal(fchmod(fd, mode), 0);
  close(fd);
}

static UNUSED void copy_file(const char *from, const char *to) {
  size_t size;
  unsigned char *data = read_file(from, &size);
  write_file(to, data, size, 0755);
  free(data);
}

/** What lies between the rows of a matrix, before and behind them, is as it was. Sizes and strides in
 * elements of `size` bytes, of which `count` are looked at; the first row begins at `begin`. */
static UNUSED void assert_gaps_kept(const char *before, const char *after, int64_t size,
                                    int64_t count, int64_t begin, int64_t rows, int64_t columns,
                                    int64_t stride) {
  for (int64_t at = 0; at < count; ++at) {
    const int64_t place = at - begin;
    const int inside = place >= 0 && place / stride < rows && place % stride < columns;
    if (!inside && memcmp(before + at * size, after + at * size, (size_t)size) != 0)
      fail_msg("element %lld was written", (long long)place);
  }
}

/** Files of a folder whose names end in `suffix` ("": all). */
static UNUSED int count_files(const char *folder, const char *suffix) {
  DIR *dir = opendir(folder);
  int count = 0;
  for (struct dirent *item; dir != NULL && (item = readdir(dir)) != NULL;) {
    const size_t length = strlen(item->d_name), wanted = strlen(suffix);
    if (strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0 && length >= wanted &&
        strcmp(item->d_name + length - wanted, suffix) == 0)
      ++count;
  }
  if (dir != NULL)
    closedir(dir);
  return count;
}

/** The path of the first file of a folder whose name ends in `suffix`. */
static UNUSED const char *find_file(const char *folder, const char *suffix) {
  static char path[PATH_MAX + 256];
  DIR *dir = opendir(folder);
  path[0] = '\0';
  for (struct dirent *item; dir != NULL && (item = readdir(dir)) != NULL;) {
    const size_t length = strlen(item->d_name), wanted = strlen(suffix);
    if (length >= wanted && strcmp(item->d_name + length - wanted, suffix) == 0)
      snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
  }
  if (dir != NULL)
    closedir(dir);
  return path;
}

/** The size of a file; 0 where it is not there. */
static UNUSED size_t file_size(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 ? (size_t)s.st_size : 0;
}

/** A file of the build folder: beside this program, or where ATTNPRESS_BUILD_DIR says. */
static UNUSED const char *built(const char *name) {
  static char path[PATH_MAX];
  const char *folder = getenv("ATTNPRESS_BUILD_DIR");
  if (folder != NULL) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (access(path, F_OK) == 0)
      return path;
  }
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  while (length > 0 && path[length - 1] != '/')
    --length;
  snprintf(path + length, sizeof path - (size_t)length, "%s", name);
  if (access(path, F_OK) != 0)
    fail_msg("%s was not built", path);
  return path;
}

/** Puts the stand-in for NVRTC into a folder as `name`, with its builtins; the path of it. */
static UNUSED const char *place_nvrtc(const char *folder, const char *name, const char *version) {
  char builtins[64];
  snprintf(builtins, sizeof builtins, "libnvrtc-builtins.so.%s", version);
  copy_file(built("libfake_nvrtc.so"), in(folder, name));
  copy_file(built("libfake_nvrtc.so"), in(folder, builtins));
  return in(folder, name);
}

/** The stand-in for libcuda, as ATTNPRESS_LIBCUDA from now on. */
static UNUSED fake_cuda *use_fake_cuda(void) {
  const char *path = built("libfake_cuda.so");
  setenv("ATTNPRESS_LIBCUDA", path, 1);
  void *library = dlopen(path, RTLD_NOW);
  if (library == NULL)
    fail_msg("%s", dlerror());
  fake_cuda_state_function *state;
  *(void **)&state = dlsym(library, "fake_cuda_state");
  CUresult (*init)(unsigned);
  *(void **)&init = dlsym(library, "cuInit");
  init(0);
  return state();
}

/** Fails unless the thread's last error holds the text. */
#define assert_error_says(text)                                                                    \
  do {                                                                                             \
    if (strstr(attnpress_last_error(), text) == NULL)                                              \
      fail_msg("the error should say \"%s\": %s", text, attnpress_last_error());                   \
  } while (0)
#define assert_ok(call)                                                                            \
  do {                                                                                             \
    const attnpress_status ok_status = (call);                                                     \
    if (ok_status != ATTNPRESS_OK)                                                                 \
      fail_msg("%s: %s", #call, attnpress_last_error());                                           \
  } while (0)
