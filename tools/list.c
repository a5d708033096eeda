/* attnpress list, attnpress source. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "handle.h"
#include "press/info.h"
#include "press/registry.h"
#include "press/target.h"
#include "tool.h"

static void list_prebuilt(void) {
  char text[24];
  uint64_t bytes = 0;
  for (size_t i = 0; i < ap_prebuilt_cubins_count; ++i)
    bytes += ap_prebuilt_cubins[i].stored_size;
  if (ap_prebuilt_cubins_count == 0) {
    printf("Linked in: nothing; this library was built without prebuilt kernels\n");
    return;
  }
  printf("Linked in: %zu kernels, compressed to %s\n\n", ap_prebuilt_cubins_count,
         tool_bytes(bytes, text));
  tool_table table = {.columns = 6,
                      .titles = {"kernel", "tile", "target", ">bytes", ">registers", ">spills"}};
  for (size_t i = 0; i < ap_prebuilt_cubins_count; ++i) {
    const ap_cubin *c = &ap_prebuilt_cubins[i];
    tool_cell(&table, "%s", c->stem);
    tool_cell(&table, "%s", c->tile_name);
    tool_cell(&table, "%s", c->target);
    tool_cell(&table, "%zu", c->size);
    tool_cell(&table, "%d", (int)c->registers);
    tool_cell(&table, "%d", (int)c->spill_bytes);
  }
  tool_print(&table);
}

typedef struct cached {
  tool_table table;
  size_t count, damaged;
  uint64_t bytes;
} cached;

static int add_cached(void *user, const ap_cache_file *file) {
  cached *all = user;
  ++all->count;
  all->bytes += file->bytes;
  if (file->damaged) {
    ++all->damaged;
    return 0;
  }
  char used[32] = "";
  const time_t when = (time_t)file->used_seconds;
  struct tm local;
  if (localtime_r(&when, &local) != NULL)
    strftime(used, sizeof used, "%Y-%m-%d %H:%M", &local);
  tool_cell(&all->table, "%s", file->info.stem);
  tool_cell(&all->table, "%s", file->info.tile);
  tool_cell(&all->table, "%s", file->info.target);
  tool_cell(&all->table, "%llu", (unsigned long long)file->info.cubin_bytes);
  tool_cell(&all->table, "%d", (int)file->info.registers);
  tool_cell(&all->table, "%d", (int)file->info.spill_bytes);
  tool_cell(&all->table, "%.0f", file->info.compile_ms);
  tool_cell(&all->table, "%s", file->info.compiler);
  tool_cell(&all->table, "%s", used);
  return 0;
}

int tool_list_cached(const char *command, const char *dir) {
  cached all = {.table = {.columns = 9,
                          .titles = {"kernel", "tile", "target", ">bytes", ">registers", ">spills",
                                     ">compile ms", "compiler", "last used"}}};
  const attnpress_status status = ap_cache_scan(dir, add_cached, &all);
  if (status != ATTNPRESS_OK)
    return tool_fail(command, status);
  char text[24];
  printf("Cached in %s: %zu kernels, %s%s\n", dir, all.count - all.damaged,
         tool_bytes(all.bytes, text),
         all.damaged ? ""
         : all.count ? "\n"
                     : "");
  if (all.damaged)
    printf("(%zu damaged entries, which are replaced when they are needed)\n\n", all.damaged);
  if (all.count > all.damaged)
    tool_print(&all.table);
  return TOOL_OK;
}

static int run_list(int argc, char **argv) {
  int prebuilt = 0, disk = 0;
  const char *cache_dir = NULL, *value;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--prebuilt") == 0)
      prebuilt = 1;
    else if (strcmp(argv[i], "--cached") == 0)
      disk = 1;
    else if ((value = tool_option(argc, argv, &i, "--cache-dir")) != NULL && *value)
      cache_dir = value;
    else if (value != NULL)
      return tool_usage("list", "--cache-dir needs a directory");
    else
      return tool_usage("list", "\"%s\" is not an option", argv[i]);
  }
  ap_cache cache;
  const attnpress_status status = ap_cache_init(&cache, cache_dir, 0, NULL, 0, NULL);
  if (status != ATTNPRESS_OK)
    return tool_fail("list", status);
  int result = TOOL_OK;
  if (prebuilt || !disk)
    list_prebuilt();
  if (!prebuilt && !disk)
    printf("\n");
  if (disk || !prebuilt) {
    if (cache.user_dir == NULL)
      printf("Cached: nothing; there is no cache directory\n");
    else
      result = tool_list_cached("list", cache.user_dir);
  }
  ap_cache_free(&cache);
  return result;
}

const tool_command ap_tool_list = {
    .name = "list",
    .summary = "the kernels that are linked in and cached",
    .usage = "[--prebuilt] [--cached] [--cache-dir DIR]",
    .about = "Lists the kernels that are linked into the library and those in the cubin cache.",
    .options = {(const tool_opt[]){{"--prebuilt", NULL, "only those that are linked in"},
                                   {"--cached", NULL, "only those in the cache"},
                                   {"--cache-dir", "DIR", "another cache than the default one"},
                                   {NULL, NULL, NULL}}},
    .run = run_list,
};

static int run_source(int argc, char **argv) {
  const char *stem = NULL, *target = NULL, *value;
  for (int i = 1; i < argc; ++i) {
    if ((value = tool_option(argc, argv, &i, "--target")) != NULL) {
      if (*value == '\0')
        return tool_usage("source", "--target needs a target");
      target = value;
      continue;
    }
    if (argv[i][0] == '-')
      return tool_usage("source", "\"%s\" is not an option", argv[i]);
    if (stem != NULL)
      return tool_usage("source", "one kernel is enough, and \"%s\" is a second", argv[i]);
    stem = argv[i];
  }
  if (stem == NULL)
    return tool_usage("source", "the name of a kernel is missing");
  char *source;
  const attnpress_status status = attnpress_render_source(stem, target, &source);
  if (status != ATTNPRESS_OK)
    return tool_fail("source", status);
  fputs(source, stdout);
  attnpress_free_source(source);
  return TOOL_OK;
}

const tool_command ap_tool_source = {
    .name = "source",
    .summary = "print the CUDA source of a kernel",
    .usage = "STEM [--target sm_NN]",
    .about = "Prints the CUDA source of a kernel, as NVRTC gets it; STEM such as "
             "flash_fwd_hdim72_bf16_causal_sm80.",
    .options = {(const tool_opt[]){
        {"--target", "sm_NN",
         "such as sm_90: some stems have another tile there; otherwise the "
         "target that the stem's arch is named after"},
        {NULL, NULL, NULL}}},
    .run = run_source,
};
