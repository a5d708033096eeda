/* Finds and opens NVRTC at run time.
 *
 * Order: the option, ATTNPRESS_NVRTC (these two are final: what they name is used or the call
 * fails), what the process has loaded, the loader's path, CUDA_HOME, /usr/local/cuda. NVRTC opens
 * its builtins by name when it first compiles, and does not find them if it was itself opened by a
 * path; they are opened beforehand from the folder that it came from. */
#define _GNU_SOURCE /* dladdr, secure_getenv */
#include "press/nvrtc.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAJOR_MIN = 12, MAJOR_NEWEST = 13 };

/** The search, and what it skipped, for the sentence of a failure. */
typedef struct search {
  ap_nvrtc *nvrtc;
  int driver_version;
  int refused; /* 1: one was opened that is of no use, now and later */
  char skipped[512];
} search;

static void pass_over(search *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void pass_over(search *s, const char *format, ...) {
  const size_t used = strlen(s->skipped);
  char *end = s->skipped + used;
  const size_t room = sizeof s->skipped - used;
  int printed = snprintf(end, room, "%s", used ? "; " : "");
  va_list values;
  va_start(values, format);
  vsnprintf(end + printed, room > (size_t)printed ? room - (size_t)printed : 0, format, values);
  va_end(values);
}

/** Opens `folder`/libnvrtc-builtins.so.<major>.<minor>, else what the loader finds by that name. */
static void *open_builtins(const char *nvrtc_path, int major, int minor) {
  char path[AP_PATH_MAX + 64];
  const char *slash = strrchr(nvrtc_path, '/');
  const int folder = slash ? (int)(slash - nvrtc_path) + 1 : 0;
  snprintf(path, sizeof path, "%.*slibnvrtc-builtins.so.%d.%d", folder, nvrtc_path, major, minor);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  return library ? library : dlopen(path + folder, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static const char *look_up(ap_nvrtc *nvrtc) {
#define LOOK_UP(name, symbol, parameters)                                                          \
  *(void **)&nvrtc->name = dlsym(nvrtc->library, symbol);                                          \
  if (nvrtc->name == NULL)                                                                         \
    return symbol;
  AP_NVRTC_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
  return NULL;
}

/** Looks at a library that is open in s->nvrtc; 1: it has the functions and a version that fits. */
static int check_library(search *s, const char *name) {
  ap_nvrtc *nvrtc = s->nvrtc;
  const char *missing = look_up(nvrtc);
  if (missing != NULL) {
    pass_over(s, "%s has no %s", name, missing);
    return 0;
  }
  Dl_info where;
  snprintf(nvrtc->path, sizeof nvrtc->path, "%s", name);
  if (dladdr(*(void **)&nvrtc->version, &where) != 0 && where.dli_fname != NULL)
    snprintf(nvrtc->path, sizeof nvrtc->path, "%s", where.dli_fname);
  if (nvrtc->version(&nvrtc->major, &nvrtc->minor) != NVRTC_SUCCESS) {
    pass_over(s, "%s does not say its version", nvrtc->path);
    return 0;
  }
  if (nvrtc->major < MAJOR_MIN) {
    pass_over(s, "%s is NVRTC %d.%d, older than %d", nvrtc->path, nvrtc->major, nvrtc->minor,
              MAJOR_MIN);
    return 0;
  }
  if (s->driver_version != 0 && nvrtc->major > s->driver_version / 1000) {
    pass_over(s, "%s is NVRTC %d.%d, newer than the driver, which knows CUDA %d.%d", nvrtc->path,
              nvrtc->major, nvrtc->minor, s->driver_version / 1000, s->driver_version % 1000 / 10);
    return 0;
  }
  return 1;
}

/** Decides on a library that is open in s->nvrtc; 1: it is the one. */
static int accept_library(search *s, const char *name) {
  ap_nvrtc *nvrtc = s->nvrtc;
  if (!check_library(s, name)) {
    s->refused = 1;
    return 0;
  }
  nvrtc->builtins = open_builtins(nvrtc->path, nvrtc->major, nvrtc->minor);
  if (nvrtc->builtins == NULL) {
    pass_over(s, "%s is without libnvrtc-builtins.so.%d.%d in its folder", nvrtc->path,
              nvrtc->major, nvrtc->minor);
    return 0;
  }
  return 1;
}

/** Tries one file or library name. flags: RTLD_NOLOAD, or 0. Quiet about what is not there. */
static int try_name(search *s, const char *name, int flags, int quiet) {
  memset(s->nvrtc, 0, sizeof *s->nvrtc);
  s->nvrtc->library = dlopen(name, RTLD_NOW | RTLD_LOCAL | flags);
  if (s->nvrtc->library == NULL) {
    const char *error = dlerror(); /* names the file */
    if (!quiet)
      pass_over(s, "%s", error ? error : name);
    return 0;
  }
  if (accept_library(s, name)) {
    /* It stays when the handle goes: opening it again would take a tenth of a second. */
    void *kept = dlopen(s->nvrtc->path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
    if (kept != NULL)
      dlclose(kept);
    return 1;
  }
  ap_nvrtc_close(s->nvrtc);
  return 0;
}

/** libnvrtc.so.13, then .12, in a folder (NULL: by name alone). */
static int try_folder(search *s, const char *folder, size_t length, int flags) {
  for (int major = MAJOR_NEWEST; major >= MAJOR_MIN; --major) {
    char name[AP_PATH_MAX];
    if (folder == NULL) {
      snprintf(name, sizeof name, "libnvrtc.so.%d", major);
    } else {
      snprintf(name, sizeof name, "%.*s/libnvrtc.so.%d", (int)length, folder, major);
      if (access(name, F_OK) != 0)
        continue;
    }
    if (try_name(s, name, flags, folder == NULL))
      return 1;
  }
  return 0;
}

static int try_toolkit(search *s, const char *home) {
  static const char *const folders[] = {"lib64", "lib", "targets/x86_64-linux/lib",
                                        "targets/sbsa-linux/lib"};
  for (size_t i = 0; home != NULL && *home && i < sizeof folders / sizeof *folders; ++i) {
    char folder[AP_PATH_MAX];
    snprintf(folder, sizeof folder, "%s/%s", home, folders[i]);
    if (try_folder(s, folder, strlen(folder), 0))
      return 1;
  }
  return 0;
}

/** 1 where this process can open one more file. */
static int can_open_files(void) {
  const int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0)
    close(fd);
  return fd >= 0;
}

/** The search in its order; NO_NVRTC with all that was skipped. */
static attnpress_status find_library(search *s, const char *path) {
  const char *asked_by = "the option nvrtc_path";
  if (path == NULL) {
    path = secure_getenv("ATTNPRESS_NVRTC");
    asked_by = "ATTNPRESS_NVRTC";
  }
  if (path != NULL && *path) {
    RETURN_IF(!try_name(s, path, 0, 0), ATTNPRESS_NO_NVRTC,
              "NVRTC cannot be used, as %s names one: %s", asked_by, s->skipped);
    return ATTNPRESS_OK;
  }
  if (try_folder(s, NULL, 0, RTLD_NOLOAD) || try_folder(s, NULL, 0, 0) ||
      try_toolkit(s, secure_getenv("CUDA_HOME")) || try_toolkit(s, "/usr/local/cuda"))
    return ATTNPRESS_OK;
  return ap_fail(ATTNPRESS_NO_NVRTC,
                 "NVRTC %d or newer was not found%s%s%s; install the CUDA toolkit, or set "
                 "ATTNPRESS_NVRTC to the path of libnvrtc.so, that of pip's nvidia-cuda-nvrtc say",
                 MAJOR_MIN, *s->skipped ? " (skipped: " : "", s->skipped, *s->skipped ? ")" : "");
}

attnpress_status ap_nvrtc_open(ap_nvrtc *nvrtc, const char *path, int driver_version) {
  search s = {nvrtc, driver_version, 0, ""};
  const attnpress_status status = find_library(&s, path);
  if (status != ATTNPRESS_OK)
    nvrtc->refused = s.refused && can_open_files();
  return status;
}

void ap_nvrtc_close(ap_nvrtc *nvrtc) {
  if (nvrtc->builtins != NULL)
    dlclose(nvrtc->builtins);
  if (nvrtc->library != NULL)
    dlclose(nvrtc->library);
  memset(nvrtc, 0, sizeof *nvrtc);
}

/* ---- The one of a handle --------------------------------------------------------------------- */

attnpress_status ap_compiler_init(ap_compiler *compiler, const char *path) {
  memset(compiler, 0, sizeof *compiler);
  pthread_mutex_init(&compiler->lock, NULL);
  if (path != NULL) {
    compiler->path = strdup(path);
    RETURN_IF(compiler->path == NULL, ATTNPRESS_OUT_OF_MEMORY,
              "host memory ran out for the path of NVRTC");
  }
  return ATTNPRESS_OK;
}

void ap_compiler_free(ap_compiler *compiler) {
  if (compiler->state == AP_NVRTC_OPEN)
    ap_nvrtc_close(&compiler->nvrtc);
  pthread_mutex_destroy(&compiler->lock);
  free(compiler->path);
}

attnpress_status ap_compiler_get(ap_compiler *compiler, ap_nvrtc **nvrtc) {
  attnpress_status status = ATTNPRESS_OK;
  pthread_mutex_lock(&compiler->lock);
  if (compiler->state == AP_NVRTC_UNTRIED) {
    status = ap_nvrtc_open(&compiler->nvrtc, compiler->path, compiler->driver_version);
    compiler->state = status == ATTNPRESS_OK    ? AP_NVRTC_OPEN
                      : compiler->nvrtc.refused ? AP_NVRTC_FAILED
                                                : AP_NVRTC_UNTRIED;
    compiler->failure = status;
    snprintf(compiler->sentence, sizeof compiler->sentence, "%s", attnpress_last_error());
  } else if (compiler->state == AP_NVRTC_FAILED) {
    status = ap_fail(compiler->failure, "%s", compiler->sentence);
  }
  pthread_mutex_unlock(&compiler->lock);
  *nvrtc = &compiler->nvrtc;
  return status;
}
