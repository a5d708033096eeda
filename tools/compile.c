/* attnpress compile. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handle.h"
#include "model.h"
#include "press/info.h"
#include "press/registry.h"
#include "press/target.h"
#include "tool.h"

/* What the words ask for. */
typedef struct request {
  const char *cache_dir;
  char **stems;
  int stem_count, dry_run;
  tool_shape shape;
} request;

/** Warnings, a line before each compile begins, and entries that the cache's bound removes. */
static void print_line(void *user, int level, const char *message) {
  (void)user;
  if (level == ATTNPRESS_LOG_WARNING || strstr(message, ": compiling") != NULL ||
      strstr(message, " is evicted") != NULL)
    fprintf(stderr, "attnpress compile: %s\n", message);
}

/** A handle for the present GPU, or for none. */
static attnpress_status make_handle(const request *r, attnpress_handle **handle) {
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.cache_dir = r->cache_dir;
  options.log = print_line;
  options.backend = r->shape.given ? ATTNPRESS_COMPILE_ONLY : ATTNPRESS_CUDA;
  attnpress_status status = attnpress_create(handle, &options);
  if (status == ATTNPRESS_NO_DRIVER) {
    options.backend = ATTNPRESS_COMPILE_ONLY;
    status = attnpress_create(handle, &options);
  }
  return status;
}

/* ---- One kernel ------------------------------------------------------------------------------ */

static void print_titles(int width) {
  printf("%-*s  %-8s  %-9s %9s %9s %10s %7s\n", width, "kernel", "target", "from", "ms", "bytes",
         "registers", "spills");
}

static void print_kernel(const attnpress_info *info, double ms, int width) {
  char spills[16] = "?", registers[16] = "?", bytes[24] = "?", time[24] = "-";
  if (info->registers > 0)
    snprintf(registers, sizeof registers, "%d", (int)info->registers);
  if (info->spill_bytes >= 0)
    snprintf(spills, sizeof spills, "%d", (int)info->spill_bytes);
  if (info->cubin_bytes > 0)
    snprintf(bytes, sizeof bytes, "%zu", info->cubin_bytes);
  if (ms >= 0)
    snprintf(time, sizeof time, "%.1f", ms);
  printf("%-*s  %-8s  %-9s %9s %9s %10s %7s\n", width, info->stem, info->target,
         ap_origin_name(info->origin), time, bytes, registers, spills);
  fflush(stdout);
}

static int compile_one(attnpress_handle *handle, const char *stem, const char *target, int width,
                       int32_t *origin) {
  attnpress_info info = ATTNPRESS_INFO_INIT;
  const double begin_ms = tool_now_ms();
  const attnpress_status status = attnpress_compile(handle, stem, target, &info);
  if (info.cubin_bytes != 0)
    print_kernel(&info, tool_now_ms() - begin_ms, width);
  *origin = info.origin;
  return status == ATTNPRESS_OK ? TOOL_OK : tool_fail("compile", status);
}

/* ---- By name --------------------------------------------------------------------------------- */

/** STEM:TARGET is divided where it stands; *target is the second, or what --target says. */
static int check_stem(char *word, const char *given, const char **target) {
  ap_variant variant;
  char *colon = strchr(word, ':');
  *target = given;
  if (colon != NULL) {
    *colon = '\0';
    *target = colon + 1;
  }
  const attnpress_status status = ap_variant_parse(word, &variant);
  return status == ATTNPRESS_OK ? TOOL_OK : tool_fail("compile", status);
}

static int compile_stems(attnpress_handle *handle, request *r) {
  const char *targets[r->stem_count];
  int width = (int)strlen("kernel"), result = TOOL_OK;
  for (int i = 0; i < r->stem_count; ++i) {
    int status = check_stem(r->stems[i], r->shape.target, &targets[i]);
    if (status == TOOL_OK)
      status = tool_check_target("compile", targets[i]);
    if (status != TOOL_OK)
      return status;
    width = (int)strlen(r->stems[i]) > width ? (int)strlen(r->stems[i]) : width;
  }
  print_titles(width);
  for (int i = 0; i < r->stem_count; ++i) {
    int32_t origin;
    const int one = compile_one(handle, r->stems[i], targets[i], width, &origin);
    if (one != TOOL_OK)
      result = one;
  }
  return result;
}

/* ---- By shape -------------------------------------------------------------------------------- */

/** Kernels with a snippet have no names of their own: they are compiled through their plan. `origin`
 * becomes JIT where that compiled it. */
static attnpress_status prepare(const attnpress_plan *plan, attnpress_info *infos, int count) {
  attnpress_status status = attnpress_plan_prepare(plan, NULL);
  for (int i = 0; i < count && status == ATTNPRESS_OK; ++i) {
    const int32_t origin = infos[i].origin;
    status = attnpress_plan_launch(plan, i, &infos[i]);
    infos[i].origin = origin;
  }
  return status;
}

/** The kernels that a plan launches: those that are not in the list are added to it. */
static attnpress_status add_launches(const request *r, const attnpress_plan *plan,
                                     attnpress_info **infos, int *count) {
  attnpress_status status = ATTNPRESS_OK;
  const int launches = attnpress_plan_launch_count(plan);
  attnpress_info *grown = realloc(*infos, (size_t)(*count + launches + 1) * sizeof *grown);
  *infos = grown != NULL ? grown : *infos;
  attnpress_info found[launches + 1];
  for (int i = 0; i < launches && status == ATTNPRESS_OK; ++i) {
    found[i] = (attnpress_info)ATTNPRESS_INFO_INIT;
    status = attnpress_plan_launch(plan, i, &found[i]);
  }
  if (status == ATTNPRESS_OK && r->shape.scores.mod != NULL && !r->dry_run)
    status = prepare(plan, found, launches);
  for (int i = 0; i < launches && grown != NULL && status == ATTNPRESS_OK; ++i) {
    int known = 0;
    for (int j = 0; j < *count; ++j)
      known |= strcmp(grown[j].stem, found[i].stem) == 0 &&
               strcmp(grown[j].target, found[i].target) == 0;
    if (!known)
      grown[(*count)++] = found[i];
  }
  return grown != NULL ? status : ATTNPRESS_OUT_OF_MEMORY;
}

/** The kernels that calls of a shape may launch, and what makes their schedule where they have one. */
static attnpress_status add_kernels(attnpress_handle *handle, request *r, attnpress_info **infos,
                                    int *count) {
  attnpress_plan *plan;
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  options.target = r->shape.target;
  options.range = ATTNPRESS_UP_TO;
  attnpress_status status = ATTNPRESS_OK;
  if (r->shape.ready_schedule) {
    status = tool_shape_plan_schedule(handle, &r->shape, &options, &plan);
    if (status == ATTNPRESS_OK)
      status = add_launches(r, plan, infos, count);
    attnpress_plan_destroy(plan);
  }
  if (status != ATTNPRESS_OK)
    return status;
  status = tool_shape_plan(handle, &r->shape, &options, &plan);
  if (status == ATTNPRESS_OK)
    status = add_launches(r, plan, infos, count);
  attnpress_plan_destroy(plan);
  return status;
}

static int compile_shape(attnpress_handle *handle, request *r) {
  attnpress_info *infos = NULL;
  int width = (int)strlen("kernel"), result = TOOL_OK, compiled = 0, failed = 0, count = 0;
  attnpress_status status = add_kernels(handle, r, &infos, &count);
  if (status == ATTNPRESS_OK && r->shape.model_window > 0) {
    /* Most such models have layers with the window and layers without. */
    fprintf(stderr,
            "attnpress compile: %s has a sliding_window of %d: kernels with and without it\n",
            r->shape.config, (int)r->shape.model_window);
    tool_shape_take_window(&r->shape);
    status = add_kernels(handle, r, &infos, &count);
  }
  if (status != ATTNPRESS_OK) {
    free(infos);
    return tool_fail("compile", status);
  }
  for (int i = 0; i < count; ++i)
    width = (int)strlen(infos[i].stem) > width ? (int)strlen(infos[i].stem) : width;
  print_titles(width);
  for (int i = 0; i < count; ++i) {
    int32_t origin = infos[i].origin;
    int one = TOOL_OK;
    if (r->dry_run || r->shape.scores.mod != NULL)
      print_kernel(&infos[i], -1, width);
    else
      one = compile_one(handle, infos[i].stem, infos[i].target, width, &origin);
    result = one != TOOL_OK ? one : result;
    failed += one != TOOL_OK;
    compiled += one == TOOL_OK && origin == ATTNPRESS_ORIGIN_JIT;
  }
  printf("%d kernels for %s: %d %s, %d linked in or cached", count, r->shape.target, compiled,
         r->dry_run ? "would be compiled" : "compiled", count - compiled - failed);
  if (failed > 0)
    printf(", %d missing", failed);
  printf("\n");
  free(infos);
  return result;
}

/* ---- Words ----------------------------------------------------------------------------------- */

/** TOOL_OK where argv[*i] is an option and its value is allowed; TOOL_FAILED: it is no option. */
static int read_option(int argc, char **argv, int *i, request *r) {
  const char *value;
  if ((value = tool_option(argc, argv, i, "--cache-dir")) != NULL) {
    r->cache_dir = value;
    return *value ? TOOL_OK : tool_usage("compile", "--cache-dir needs a directory");
  }
  if (strcmp(argv[*i], "--dry-run") == 0) {
    r->dry_run = 1;
    return TOOL_OK;
  }
  return tool_shape_option("compile", argc, argv, i, &r->shape);
}

static int run_compile(int argc, char **argv) {
  request r = {.stems = argv + 1};
  for (int i = 1; i < argc; ++i) {
    const int option = read_option(argc, argv, &i, &r);
    if (option == TOOL_USAGE)
      return option;
    if (option == TOOL_OK)
      continue;
    if (argv[i][0] == '-')
      return tool_usage("compile", "\"%s\" is not an option", argv[i]);
    r.stems[r.stem_count++] = argv[i]; /* the stems move to the front */
  }
  if (r.shape.given && r.stem_count > 0)
    return tool_usage("compile", "\"%s\" is a name, and a shape was given as well", r.stems[0]);
  if (!r.shape.given && r.stem_count == 0)
    return tool_usage("compile", "the name of a kernel is missing, or a shape (--hdim)");
  if (!r.shape.given && r.dry_run)
    return tool_usage("compile", "--dry-run goes with a shape");
  int result = r.shape.given ? tool_shape_complete("compile", &r.shape) : TOOL_OK;
  attnpress_handle *handle = NULL;
  if (result == TOOL_OK) {
    const attnpress_status status = make_handle(&r, &handle);
    result = status == ATTNPRESS_OK ? TOOL_OK : tool_fail("compile", status);
  }
  if (result == TOOL_OK)
    result = r.shape.given ? compile_shape(handle, &r) : compile_stems(handle, &r);
  attnpress_destroy(handle);
  tool_shape_free(&r.shape);
  return result;
}

const tool_command ap_tool_compile = {
    .name = "compile",
    .summary = "make sure that kernels are linked in or cached",
    .usage = "STEM[:TARGET]... [--target sm_NN] [--cache-dir DIR]\n"
             "--hdim D --target sm_NN [--dtype bf16] [--causal] [--heads N] ...\n"
             "--config config.json --target sm_NN",
    .about =
        "Makes sure that kernels are linked in or cached, compiling what is missing, and prints "
        "for each where it came from, how long that took, its size, and the registers and spills "
        "(bytes of local memory) of a thread.\n\n"
        "By name: a stem such as flash_fwd_hdim72_bf16_causal_sm80.\n"
        "By shape: every kernel that calls of this shape may launch on the device, for any batch "
        "and lengths, as the library plans them. No GPU is needed. If batch and lengths are given, "
        "they are the most that a call has. Dense calls and calls with --ragged or --page-size run "
        "different kernels: a server that makes both needs both.",
    .options = {tool_shape_options, score_options_table,
                (const tool_opt[]){
                    {"--cache-dir", "DIR", "another cache than the default one"},
                    {"--dry-run", NULL, "only list the kernels, and where they are now"},
                    {NULL, NULL, NULL}}},
    .run = run_compile,
};
