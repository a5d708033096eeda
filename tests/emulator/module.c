/* Compiles a kernel's source for the host, and loads it. Built with EMULATED_CLANG, the compiler,
 * EMULATED_SOURCE_DIR, the project's folder, and EMULATED_STAND_INS, that of the leaf headers that
 * were made when the build was configured. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "machine.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* clang puts a call before every load and store (-fsanitize=thread), and keeps the kernel's
 * structure: no loops as vectors, no sums that are contracted. The stand-ins for leaf headers come
 * before the device's. */
static const char *const compile_command[] = {
    EMULATED_CLANG,
    "-xc++",
    "-std=c++17",
    "-O1",
    "-gline-tables-only",
    "-gdwarf-4",
    "-fPIC",
    "-shared",
    "-fsanitize=thread",
    "-mllvm",
    "-tsan-instrument-func-entry-exit=0",
    "-ffp-contract=off",
    "-fno-vectorize",
    "-fno-slp-vectorize",
    "-fno-exceptions",
    "-fno-rtti",
    "-nostdlib++",
    "-Wno-pass-failed",
    /* Large loops stay loops, whatever their pragma says: that halves the time. */
    "-mllvm",
    "-pragma-unroll-threshold=256",
    "-Werror=implicit-function-declaration",
    "-include",
    "emulated_cuda.h",
    "-I" EMULATED_SOURCE_DIR "/tests/emulator/include",
    "-I" EMULATED_STAND_INS,
};
enum { COMMAND_WORDS = sizeof compile_command / sizeof *compile_command };

/* Reads all that comes, and keeps its beginning. */
static void read_report(int from, char *report) {
  char rest[4096];
  size_t size = 0;
  ssize_t got;
  while ((got = read(from, rest, sizeof rest)) > 0)
    for (ssize_t i = 0; i < got && size + 1 < EMULATED_REPORT_BYTES; ++i)
      report[size++] = rest[i];
  report[size] = '\0';
}

static const char *extra_include; /* NULL: none */

void emulated_include(const char *folder) {
  extra_include = folder;
}

int emulated_compile(const char *source_path, const char *module_path, char *report) {
  const char *words[COMMAND_WORDS + 8] = {NULL};
  int count = 0;
  while (count < COMMAND_WORDS) {
    words[count] = compile_command[count];
    ++count;
  }
  if (extra_include != NULL) {
    words[count++] = "-I";
    words[count++] = extra_include;
  }
  words[count++] = "-I" EMULATED_SOURCE_DIR "/include";
  words[count++] = source_path;
  words[count++] = "-o";
  words[count++] = module_path;
  words[count] = NULL;
  int ends[2];
  if (pipe(ends) != 0) {
    snprintf(report, EMULATED_REPORT_BYTES, "no pipe to the compiler");
    return -1;
  }
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    char *command[sizeof words / sizeof *words]; /* execvp() promises not to write to them */
    memcpy(command, words, sizeof command);
    execvp(command[0], command);
    _exit(127);
  }
  close(ends[1]);
  read_report(ends[0], report);
  close(ends[0]);
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) {
    const size_t size = strlen(report);
    snprintf(report + size, EMULATED_REPORT_BYTES - size, "%s did not compile %s", EMULATED_CLANG,
             source_path);
    return -1;
  }
  return 0;
}

/* Finds where the module lies in memory, and its thread-local segment. */
static int find_segments(struct dl_phdr_info *info, size_t size, void *data) {
  emulated_module *module = data;
  (void)size;
  if (info->dlpi_addr != module->begin)
    return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    const uintptr_t end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
    if (segment->p_type == PT_LOAD && end > module->end)
      module->end = end;
    if (segment->p_type == PT_TLS) {
      module->shared_begin = (uintptr_t)info->dlpi_tls_data;
      module->shared_bytes = segment->p_memsz;
    }
  }
  return 1;
}

/* dlsym gives functions as objects; C has no conversion between the two. */
static void find_function(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
}

emulated_module *emulated_load(const char *module_path, const char *symbol, char *report) {
  emulated_module *module = calloc(1, sizeof *module);
  if (module == NULL)
    return NULL;
  unsigned char *(*dynamic_shared)(void) = NULL;
  /* The file may be removed: reports find it through its descriptor. */
  module->file = open(module_path, O_RDONLY);
  snprintf(module->path, sizeof module->path, "/proc/%ld/fd/%d", (long)getpid(), module->file);
  module->library = dlopen(module_path, RTLD_NOW | RTLD_LOCAL);
  if (module->library == NULL) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s", dlerror());
    emulated_unload(module);
    return NULL;
  }
  find_function(module->library, symbol, &module->kernel);
  find_function(module->library, "emulated_dynamic_shared", &dynamic_shared);
  struct link_map *map;
  if (module->kernel == NULL || dynamic_shared == NULL ||
      dlinfo(module->library, RTLD_DI_LINKMAP, &map) != 0) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s has no kernel %s", module_path, symbol);
    emulated_unload(module);
    return NULL;
  }
  module->begin = map->l_addr;
  module->dynamic_begin =
      (uintptr_t)dynamic_shared(); /* the segment exists from its first use on */
  dl_iterate_phdr(find_segments, module);
  return module;
}

void emulated_unload(emulated_module *module) {
  if (module == NULL)
    return;
  if (module->library != NULL)
    dlclose(module->library);
  if (module->file >= 0)
    close(module->file);
  free(module);
}
