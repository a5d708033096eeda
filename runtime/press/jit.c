/* Compiles a rendered source with NVRTC. Knows nothing of caches and drivers. */
#define _POSIX_C_SOURCE 200809L
#include "press/jit.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "press/cubin.h"

/* Options that decide what comes out; they are part of a cubin's key. --gpu-architecture is not
 * among them since the target is a part of its own. */
static const char *const options[] = {"--std=c++17"};
enum { OPTION_COUNT = sizeof options / sizeof *options, OPTIONS_MAX = OPTION_COUNT + 3 };

enum { HEADERS_MAX = 256, ARCHS_MAX = 64, HINTS_MAX = 1024 };

void ap_image_free(ap_image *image) {
  free(image->owned);
  memset(image, 0, sizeof *image);
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

const char *const *ap_jit_options(size_t *count) {
  *count = OPTION_COUNT;
  return options;
}

/** NOT_SUPPORTED where this NVRTC does not know the target: its own message names no version. */
static attnpress_status check_target(ap_nvrtc *nvrtc, const ap_request *request) {
  int count = 0, archs[ARCHS_MAX];
  if (nvrtc->get_num_supported_archs(&count) != NVRTC_SUCCESS || count < 1 || count > ARCHS_MAX ||
      nvrtc->get_supported_archs(archs) != NVRTC_SUCCESS)
    return ATTNPRESS_OK; /* it does not say; the compile will */
  const int wanted = atoi(request->target + strlen("sm_"));
  for (int i = 0; i < count; ++i)
    if (archs[i] == wanted)
      return ATTNPRESS_OK;
  return ap_fail(ATTNPRESS_NOT_SUPPORTED,
                 "NVRTC %d.%d (%s) does not compile for %s, only for sm_%d to sm_%d; %s needs "
                 "another version",
                 nvrtc->major, nvrtc->minor, nvrtc->path, request->target, archs[0],
                 archs[count - 1], request->stem);
}

/** The compiler's log, to be freed; NULL where it is empty or memory ran out. */
static char *read_log(ap_nvrtc *nvrtc, nvrtcProgram program) {
  size_t bytes = 0;
  if (nvrtc->get_log_size(program, &bytes) != NVRTC_SUCCESS || bytes <= 1)
    return NULL;
  char *text = calloc(1, bytes + 1);
  if (text != NULL && nvrtc->get_log(program, text) != NVRTC_SUCCESS) {
    free(text);
    return NULL;
  }
  return text;
}

/** The first line of a log that speaks of an error, else its first line. */
static const char *first_error(const char *log, int *length) {
  const char *line = log ? strstr(log, "error") : NULL;
  while (line != NULL && line > log && line[-1] != '\n')
    --line;
  if (line == NULL)
    line = log ? log : "it gave no reason";
  *length = (int)strcspn(line, "\n");
  return line;
}

/** What is to be said of an error in a caller's text: "" where it is in ours. */
static void hint(const ap_request *request, const char *line, int length, char *text,
                 size_t bytes) {
  const ap_snippet *snippet = request->snippet;
  text[0] = '\0';
  if (snippet == NULL || strncmp(line, snippet->name, strlen(snippet->name)) != 0)
    return;
  const char *meant = snippet->explain != NULL ? snippet->explain(line, length) : NULL;
  snprintf(text, bytes, "; %s%s%s", meant != NULL ? meant : "", meant != NULL ? "; " : "",
           snippet->scope.data != NULL ? snippet->scope.data : "");
}

/** with_lines: the cubin says of each instruction where in the source it is from. */
static attnpress_status compile(ap_nvrtc *nvrtc, nvrtcProgram program, ap_log *log,
                                const ap_request *request, int with_lines) {
  char arch[48];
  snprintf(arch, sizeof arch, "--gpu-architecture=%s", request->target);
  const char *given[OPTIONS_MAX] = {arch};
  int count = 1;
  for (size_t i = 0; i < OPTION_COUNT; ++i)
    given[count++] = options[i];
  /* NVRTC 12.9 and newer keep a cache of their own, in the driver's; ours is enough. */
  if (nvrtc->major > 12 || (nvrtc->major == 12 && nvrtc->minor >= 9))
    given[count++] = "--no-cache";
  if (with_lines)
    given[count++] = "-lineinfo";
  const nvrtcResult result = nvrtc->compile_program(program, count, given);
  char *text = read_log(nvrtc, program);
  attnpress_status status = ATTNPRESS_OK;
  if (result != NVRTC_SUCCESS) {
    int length;
    const char *line = first_error(text, &length);
    char hints[HINTS_MAX];
    hint(request, line, length, hints, sizeof hints);
    status = ap_fail(result == NVRTC_ERROR_OUT_OF_MEMORY ? ATTNPRESS_OUT_OF_MEMORY
                                                         : ATTNPRESS_COMPILE_FAILED,
                     "NVRTC %d.%d could not compile %s for %s (result %d): %.*s%s", nvrtc->major,
                     nvrtc->minor, request->stem, request->target, result, length, line, hints);
  }
  if (text != NULL)
    ap_log_line(log, ATTNPRESS_LOG_WARNING, "NVRTC %d.%d on %s for %s:\n%s", nvrtc->major,
                nvrtc->minor, request->stem, request->target, text);
  free(text);
  return status;
}

/** Takes the cubin out. NVRTC can return success with an empty one. */
static attnpress_status take_cubin(ap_nvrtc *nvrtc, nvrtcProgram program, const ap_request *request,
                                   ap_image *image) {
  size_t size = 0;
  const nvrtcResult result = nvrtc->get_cubin_size(program, &size);
  RETURN_IF(result != NVRTC_SUCCESS || size < SELFMAG, ATTNPRESS_COMPILE_FAILED,
            "NVRTC %d.%d gave no cubin of %s for %s (result %d, %zu bytes)", nvrtc->major,
            nvrtc->minor, request->stem, request->target, result, size);
  image->owned = malloc(size);
  RETURN_IF(image->owned == NULL, ATTNPRESS_OUT_OF_MEMORY,
            "host memory ran out for a cubin of %zu bytes", size);
  image->data = image->owned;
  image->size = size;
  RETURN_IF(nvrtc->get_cubin(program, (char *)image->owned) != NVRTC_SUCCESS ||
                memcmp(image->owned, ELFMAG, SELFMAG) != 0,
            ATTNPRESS_COMPILE_FAILED, "NVRTC %d.%d gave something else than a cubin of %s for %s",
            nvrtc->major, nvrtc->minor, request->stem, request->target);
  return ATTNPRESS_OK;
}

/** The PTX, to be freed. */
static attnpress_status take_ptx(ap_nvrtc *nvrtc, nvrtcProgram program, const ap_request *request,
                                 char **ptx) {
  size_t size = 0;
  const nvrtcResult result = nvrtc->get_ptx_size(program, &size);
  RETURN_IF(result != NVRTC_SUCCESS || size < 2, ATTNPRESS_COMPILE_FAILED,
            "NVRTC %d.%d gave no PTX of %s for %s (result %d, %zu bytes)", nvrtc->major,
            nvrtc->minor, request->stem, request->target, result, size);
  *ptx = calloc(1, size + 1);
  RETURN_IF(*ptx == NULL, ATTNPRESS_OUT_OF_MEMORY, "host memory ran out for PTX of %zu bytes",
            size);
  RETURN_IF(nvrtc->get_ptx(program, *ptx) != NVRTC_SUCCESS, ATTNPRESS_COMPILE_FAILED,
            "NVRTC %d.%d gave no PTX of %s for %s", nvrtc->major, nvrtc->minor, request->stem,
            request->target);
  return ATTNPRESS_OK;
}

static attnpress_status create_program(ap_nvrtc *nvrtc, const ap_request *request,
                                       const char *source, nvrtcProgram *program) {
  const char *texts[HEADERS_MAX], *names[HEADERS_MAX];
  RETURN_IF(ap_device_headers_count > HEADERS_MAX, ATTNPRESS_COMPILE_FAILED,
            "there are %zu device headers, more than %d", ap_device_headers_count, HEADERS_MAX);
  for (size_t i = 0; i < ap_device_headers_count; ++i) {
    names[i] = ap_device_headers[i].name;
    texts[i] = ap_device_headers[i].text;
  }
  char name[AP_STEM_MAX + 4];
  snprintf(name, sizeof name, "%s.cu", request->stem);
  const nvrtcResult result =
      nvrtc->create_program(program, source, name, (int)ap_device_headers_count, texts, names);
  RETURN_IF(result != NVRTC_SUCCESS,
            result == NVRTC_ERROR_OUT_OF_MEMORY ? ATTNPRESS_OUT_OF_MEMORY
                                                : ATTNPRESS_COMPILE_FAILED,
            "NVRTC %d.%d does not take the source of %s (result %d)", nvrtc->major, nvrtc->minor,
            request->stem, result);
  return ATTNPRESS_OK;
}

/** ptx: NULL, or what gets it; then the cubin says where its instructions are from. */
static attnpress_status compile_into(ap_nvrtc *nvrtc, ap_log *log, const ap_request *request,
                                     const char *source, ap_image *image, char **ptx) {
  memset(image, 0, sizeof *image);
  FORWARD_IF(check_target(nvrtc, request));
  const double begin_ms = now_ms();
  nvrtcProgram program = NULL;
  FORWARD_IF(create_program(nvrtc, request, source, &program));
  attnpress_status status = compile(nvrtc, program, log, request, ptx != NULL);
  if (status == ATTNPRESS_OK)
    status = take_cubin(nvrtc, program, request, image);
  if (status == ATTNPRESS_OK && ptx != NULL)
    status = take_ptx(nvrtc, program, request, ptx);
  nvrtc->destroy_program(&program);
  if (status != ATTNPRESS_OK) {
    ap_image_free(image);
    return status;
  }
  image->origin = ATTNPRESS_ORIGIN_JIT;
  image->compile_ms = now_ms() - begin_ms;
  snprintf(image->compiler, sizeof image->compiler, "NVRTC %d.%d", nvrtc->major, nvrtc->minor);
  ap_cubin_resources(image->data, image->size, request->stem, &image->registers,
                     &image->spill_bytes);
  return ATTNPRESS_OK;
}

attnpress_status ap_jit_compile(ap_nvrtc *nvrtc, ap_log *log, const ap_request *request,
                                const char *source, ap_image *image) {
  return compile_into(nvrtc, log, request, source, image, NULL);
}

attnpress_status ap_jit_compile_with_lines(ap_nvrtc *nvrtc, ap_log *log, const ap_request *request,
                                           const char *source, ap_image *image, char **ptx) {
  *ptx = NULL;
  return compile_into(nvrtc, log, request, source, image, ptx);
}
