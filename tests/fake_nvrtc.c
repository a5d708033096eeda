/* A stand-in for NVRTC, so that tests need no compiler and can make it fail. Its "cubin" is an ELF
 * header, the options and the source.
 *
 * Its version is that of its file's name (libnvrtc.so.12: 12.8, else 13.0), or FAKE_NVRTC_VERSION.
 * Other variables, read at each compile: FAKE_NVRTC_MODE   fail: COMPILATION with a log; empty:
 * success and a cubin of 0 bytes; garbage: success and something that is no ELF file; warn: success
 * with a log FAKE_NVRTC_MS     how long a compile takes FAKE_NVRTC_COUNT  a file that gets one byte
 * a compile */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda/cuda_api.h"

struct _nvrtcProgram {
  char *source;
  unsigned char *cubin;
  size_t cubin_bytes;
  char log[512];
};

#define EXPORT __attribute__((visibility("default")))
#define API(name, ...)                                                                             \
  EXPORT nvrtcResult name(__VA_ARGS__);                                                            \
  EXPORT nvrtcResult name(__VA_ARGS__)

API(nvrtcVersion, int *major, int *minor) {
  const char *version = getenv("FAKE_NVRTC_VERSION");
  Dl_info where;
  void *self;
  *(nvrtcResult(**)(int *, int *)) & self = nvrtcVersion;
  *major = 13;
  *minor = 0;
  if (version != NULL)
    sscanf(version, "%d.%d", major, minor);
  else if (dladdr(self, &where) != 0 && strstr(where.dli_fname, "libnvrtc.so.12") != NULL) {
    *major = 12;
    *minor = 8;
  }
  return NVRTC_SUCCESS;
}

static const int archs[] = {75, 80, 86, 90, 100, 120}; /* without 110 */

API(nvrtcGetNumSupportedArchs, int *count) {
  *count = sizeof archs / sizeof *archs;
  return NVRTC_SUCCESS;
}

API(nvrtcGetSupportedArchs, int *into) {
  memcpy(into, archs, sizeof archs);
  return NVRTC_SUCCESS;
}

API(nvrtcCreateProgram, nvrtcProgram *program, const char *source, const char *name,
    int num_headers, const char *const *headers, const char *const *include_names) {
  (void)name;
  for (int i = 0; i < num_headers; ++i)
    if (headers[i] == NULL || include_names[i] == NULL)
      return NVRTC_ERROR_OUT_OF_MEMORY;
  *program = calloc(1, sizeof **program);
  (*program)->source = strdup(source);
  return NVRTC_SUCCESS;
}

API(nvrtcDestroyProgram, nvrtcProgram *program) {
  free((*program)->source);
  free((*program)->cubin);
  free(*program);
  *program = NULL;
  return NVRTC_SUCCESS;
}

static void make_cubin(nvrtcProgram program, int num_options, const char *const *options) {
  Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB},
                       .e_shentsize = sizeof(Elf64_Shdr)};
  size_t size = sizeof header + strlen(program->source) + 1;
  for (int i = 0; i < num_options; ++i)
    size += strlen(options[i]) + 1;
  header.e_shoff = size;
  unsigned char *at = program->cubin = calloc(1, size);
  memcpy(at, &header, sizeof header);
  at += sizeof header;
  for (int i = 0; i < num_options; ++i)
    at = (unsigned char *)stpcpy((char *)at, options[i]) + 1;
  strcpy((char *)at, program->source);
  program->cubin_bytes = size;
}

API(nvrtcCompileProgram, nvrtcProgram program, int num_options, const char *const *options) {
  const char *mode = getenv("FAKE_NVRTC_MODE"), *ms = getenv("FAKE_NVRTC_MS"),
             *count = getenv("FAKE_NVRTC_COUNT");
  mode = mode != NULL ? mode : "";
  if (count != NULL) {
    const int fd = open(count, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (fd >= 0 && write(fd, ".", 1) == 1)
      close(fd);
  }
  if (ms != NULL)
    nanosleep(&(struct timespec){atoi(ms) / 1000, atoi(ms) % 1000 * 1000000L}, NULL);
  if (strcmp(mode, "fail") == 0) {
    strcpy(program->log,
           "x.cu(7): warning #1: odd\nx.cu(9): error: identifier \"foo\" is undefined\n"
           "1 error detected\n");
    return NVRTC_ERROR_COMPILATION;
  }
  if (strcmp(mode, "warn") == 0)
    strcpy(program->log, "x.cu(7): warning #1: odd\n");
  make_cubin(program, num_options, options);
  if (strcmp(mode, "empty") == 0)
    program->cubin_bytes = 0;
  if (strcmp(mode, "garbage") == 0)
    memset(program->cubin, 'x', 4);
  return NVRTC_SUCCESS;
}

API(nvrtcGetCUBINSize, nvrtcProgram program, size_t *bytes) {
  *bytes = program->cubin_bytes;
  return NVRTC_SUCCESS;
}

API(nvrtcGetCUBIN, nvrtcProgram program, char *cubin) {
  memcpy(cubin, program->cubin, program->cubin_bytes);
  return NVRTC_SUCCESS;
}

/* One instruction of the first line of the source. */
static const char ptx[] = "$L__BB0_1:\n\t.loc\t1 1 1\n\tbra $L__BB0_1;\n\t.file\t1 \"fake.cu\"\n";

API(nvrtcGetPTXSize, nvrtcProgram program, size_t *bytes) {
  (void)program;
  *bytes = sizeof ptx;
  return NVRTC_SUCCESS;
}

API(nvrtcGetPTX, nvrtcProgram program, char *text) {
  (void)program;
  memcpy(text, ptx, sizeof ptx);
  return NVRTC_SUCCESS;
}

API(nvrtcGetProgramLogSize, nvrtcProgram program, size_t *bytes) {
  *bytes = strlen(program->log) + 1;
  return NVRTC_SUCCESS;
}

API(nvrtcGetProgramLog, nvrtcProgram program, char *log) {
  strcpy(log, program->log);
  return NVRTC_SUCCESS;
}
