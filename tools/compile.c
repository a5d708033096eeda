/* attnpress compile. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "handle.h"
#include "press/info.h"
#include "press/registry.h"
#include "press/target.h"
#include "tool.h"

static void print_help(void) {
  printf(
      "usage: attnpress compile STEM... [--target sm_NN] [--cache-dir DIR]\n\n"
      "Makes sure that kernels are linked in or cached, compiling what is missing, and prints for\n"
      "each where it came from, the time that took, its size, and the registers and spills (local\n"
      "memory, bytes) of a thread.\n\n"
      "  --target sm_NN   what to compile for; otherwise the present GPU's, or the stem's own\n"
      "  --cache-dir DIR  another cache than the default one\n\n"
      "A stem is such as flash_fwd_hdim72_bf16_causal_sm80.\n");
}

static void nvrtc_log(void *user, int level, const char *message) {
  (void)user;
  if (level == ATTNPRESS_LOG_WARNING)
    fprintf(stderr, "attnpress compile: %s\n", message);
}

/** A handle for the present GPU, or for none. */
static attnpress_status make_handle(const char *cache_dir, attnpress_handle **handle) {
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.cache_dir = cache_dir;
  options.log = nvrtc_log;
  attnpress_status status = attnpress_create(handle, &options);
  if (status == ATTNPRESS_NO_DRIVER) {
    options.backend = ATTNPRESS_COMPILE_ONLY;
    status = attnpress_create(handle, &options);
  }
  return status;
}

static int compile_one(attnpress_handle *handle, const char *stem, const char *target, int width) {
  attnpress_info info = ATTNPRESS_INFO_INIT;
  const double begin_ms = tool_now_ms();
  const attnpress_status status = attnpress_compile(handle, stem, target, &info);
  const double ms = tool_now_ms() - begin_ms;
  if (info.cubin_bytes != 0) {
    char spills[16] = "?", registers[16] = "?";
    if (info.registers > 0)
      snprintf(registers, sizeof registers, "%d", (int)info.registers);
    if (info.spill_bytes >= 0)
      snprintf(spills, sizeof spills, "%d", (int)info.spill_bytes);
    printf("%-*s  %-8s  %-9s %9.1f %9zu %10s %7s\n", width, info.stem, info.target,
           ap_origin_name(info.origin), ms, info.cubin_bytes, registers, spills);
    fflush(stdout);
  }
  return status == ATTNPRESS_OK ? TOOL_OK : tool_fail("compile", status);
}

int ap_tool_compile(int argc, char **argv) {
  const char *target = NULL, *cache_dir = NULL, *value;
  int count = 0, width = (int)strlen("kernel");
  for (int i = 1; i < argc; ++i) {
    if (tool_is_help(argv[i])) {
      print_help();
      return TOOL_OK;
    }
    if ((value = tool_option(argc, argv, &i, "--target")) != NULL) {
      if (*value == '\0')
        return tool_usage("compile", "--target needs a value such as sm_90");
      target = value;
    } else if ((value = tool_option(argc, argv, &i, "--cache-dir")) != NULL) {
      if (*value == '\0')
        return tool_usage("compile", "--cache-dir needs a directory");
      cache_dir = value;
    } else if (argv[i][0] == '-') {
      return tool_usage("compile", "\"%s\" is not an option", argv[i]);
    } else {
      ap_variant variant;
      const attnpress_status status = ap_variant_parse(argv[i], &variant);
      if (status != ATTNPRESS_OK)
        return tool_fail("compile", status);
      argv[1 + count++] = argv[i]; /* the stems move to the front */
      if ((int)strlen(argv[count]) > width)
        width = (int)strlen(argv[count]);
    }
  }
  if (count == 0)
    return tool_usage("compile", "the name of a kernel is missing");
  if (target != NULL && ap_find_target(target) == NULL) {
    const char *names[16];
    char text[128];
    for (size_t i = 0; i < ap_targets_count; ++i)
      names[i] = ap_targets[i].name;
    tool_join(text, sizeof text, names, ap_targets_count);
    return tool_usage("compile", "target \"%s\" is unknown: targets are %s", target, text);
  }
  attnpress_handle *handle;
  const attnpress_status status = make_handle(cache_dir, &handle);
  if (status != ATTNPRESS_OK)
    return tool_fail("compile", status);
  printf("%-*s  %-8s  %-9s %9s %9s %10s %7s\n", width, "kernel", "target", "from", "ms", "bytes",
         "registers", "spills");
  int result = TOOL_OK;
  for (int i = 1; i <= count; ++i) {
    const int one = compile_one(handle, argv[i], target, width);
    if (one != TOOL_OK)
      result = one;
  }
  attnpress_destroy(handle);
  return result;
}
