/* attnpress cache path|list|du|verify|prune|clear|export|import. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handle.h"
#include "press/info.h"
#include "press/registry.h"
#include "press/target.h"
#include "tool.h"

int tool_list_cached(const char *command, const char *dir);

/* What the words ask for. */
typedef struct request {
  const char *action, *dir; /* dir: of export and import */
  const char *cache_dir, *target, *only;
  uint64_t max_bytes; /* 0: the library's bound */
  int64_t seconds;    /* of --unused-days; 0: any time */
} request;

typedef struct tally {
  const char *dir;
  size_t good, damaged;
} tally;

static int verify_one(void *user, const ap_cache_file *file) {
  tally *t = user;
  if (file->damaged) {
    ++t->damaged;
    printf("damaged: %s/%s (%llu bytes)\n", t->dir, file->name, (unsigned long long)file->bytes);
  } else {
    ++t->good;
  }
  return 0;
}

static int verify(const ap_cache *cache) {
  tally t = {cache->user_dir, 0, 0};
  const attnpress_status status = ap_cache_scan(cache->user_dir, verify_one, &t);
  if (status != ATTNPRESS_OK)
    return tool_fail("cache", status);
  printf("%zu entries are good, %zu damaged\n", t.good, t.damaged);
  return t.damaged ? TOOL_FAILED : TOOL_OK;
}

static int clear(const ap_cache *cache) {
  size_t files;
  uint64_t bytes;
  char text[24];
  const attnpress_status status = ap_cache_clear(cache, &files, &bytes);
  if (status != ATTNPRESS_OK)
    return tool_fail("cache", status);
  printf("%zu files removed from %s, %s\n", files, cache->user_dir, tool_bytes(bytes, text));
  return TOOL_OK;
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

typedef struct sizes {
  size_t count[16], damaged, all; /* by target */
  uint64_t bytes[16], damaged_bytes, all_bytes;
} sizes;

static int add_size(void *user, const ap_cache_file *file) {
  sizes *s = user;
  ++s->all;
  s->all_bytes += file->bytes;
  if (file->damaged) {
    ++s->damaged;
    s->damaged_bytes += file->bytes;
    return 0;
  }
  for (size_t i = 0; i < ap_targets_count && i < 16; ++i)
    if (strcmp(ap_targets[i].name, file->info.target) == 0) {
      ++s->count[i];
      s->bytes[i] += file->bytes;
    }
  return 0;
}

static int show_sizes(const ap_cache *cache) {
  sizes s = {0};
  char text[24];
  const attnpress_status status = ap_cache_scan(cache->user_dir, add_size, &s);
  if (status != ATTNPRESS_OK)
    return tool_fail("cache", status);
  for (size_t i = 0; i < ap_targets_count && i < 16; ++i)
    if (s.count[i] > 0)
      printf("%-8s %6zu kernels  %10s\n", ap_targets[i].name, s.count[i],
             tool_bytes(s.bytes[i], text));
  if (s.damaged > 0)
    printf("%-8s %6zu entries  %10s\n", "damaged", s.damaged, tool_bytes(s.damaged_bytes, text));
  printf("%-8s %6zu entries  %10s", "all", s.all, tool_bytes(s.all_bytes, text));
  printf(" of %s, in %s\n", tool_bytes(cache->max_bytes, text), cache->user_dir);
  return TOOL_OK;
}

/* ---- Copies and removals --------------------------------------------------------------------- */

static int is_wanted(void *user, const ap_entry_info *info) {
  const request *r = user;
  return (r->target == NULL || strcmp(r->target, info->target) == 0) &&
         (r->only == NULL || fnmatch(r->only, info->stem, 0) == 0);
}

static int finish(attnpress_status status, const ap_cache_tally *t, const char *what,
                  const char *where) {
  char text[24];
  if (status != ATTNPRESS_OK)
    return tool_fail("cache", status);
  printf("%zu kernels, %s, %s %s\n", t->files, tool_bytes(t->bytes, text), what, where);
  if (t->damaged > 0)
    fprintf(stderr, "attnpress cache: %zu damaged entries were left out\n", t->damaged);
  return t->damaged > 0 ? TOOL_FAILED : TOOL_OK;
}

static int act(request *r, const ap_cache *cache) {
  ap_cache_tally t;
  if (strcmp(r->action, "path") == 0) {
    printf("%s\n", cache->user_dir);
    return TOOL_OK;
  }
  if (strcmp(r->action, "import") == 0)
    return finish(ap_cache_import(cache, r->dir, is_wanted, r, &t), &t, "copied to",
                  cache->user_dir);
  /* Only a directory that the library would use is looked into. */
  int exists;
  const attnpress_status status = ap_cache_check(cache, &exists);
  if (status != ATTNPRESS_OK)
    return tool_fail("cache", status) == TOOL_OK ? TOOL_OK : TOOL_FAILED;
  if (strcmp(r->action, "list") == 0)
    return tool_list_cached("cache", cache->user_dir);
  if (strcmp(r->action, "du") == 0)
    return show_sizes(cache);
  if (strcmp(r->action, "verify") == 0)
    return verify(cache);
  if (strcmp(r->action, "clear") == 0)
    return clear(cache);
  if (strcmp(r->action, "export") == 0)
    return finish(ap_cache_export(cache, r->dir, is_wanted, r, &t), &t, "copied to", r->dir);
  t = (ap_cache_tally){0};
  if (!exists)
    return finish(ATTNPRESS_OK, &t, "removed from", cache->user_dir);
  return finish(
      ap_cache_prune(cache, r->max_bytes ? r->max_bytes : cache->max_bytes, r->seconds, &t), &t,
      "removed from", cache->user_dir);
}

/* ---- Words ----------------------------------------------------------------------------------- */

/** A positive number, with K, M or G behind it where `units` is 1; 0: it is none. */
static uint64_t parse_count(const char *text, int units) {
  char *end;
  if (*text < '0' || *text > '9')
    return 0;
  const unsigned long long number = strtoull(text, &end, 10);
  const char *letters = "KMG", *unit = units && *end ? strchr(letters, *end) : NULL;
  const int shift = unit != NULL ? 10 * (int)(unit - letters + 1) : 0;
  if (end[unit != NULL] != '\0' || number > (UINT64_MAX >> 1) >> shift)
    return 0;
  return (uint64_t)number << shift;
}

/** TOOL_OK where argv[*i] is an option and its value is allowed; TOOL_FAILED: it is no option. */
static int read_option(int argc, char **argv, int *i, request *r) {
  const char *value;
  if ((value = tool_option(argc, argv, i, "--cache-dir")) != NULL) {
    r->cache_dir = value;
    return *value ? TOOL_OK : tool_usage("cache", "--cache-dir needs a directory");
  }
  if ((value = tool_option(argc, argv, i, "--target")) != NULL) {
    r->target = value;
    return ap_find_target(value) != NULL
               ? TOOL_OK
               : tool_usage("cache", "target \"%s\" is unknown: one is such as sm_90", value);
  }
  if ((value = tool_option(argc, argv, i, "--only")) != NULL) {
    r->only = value;
    return *value ? TOOL_OK : tool_usage("cache", "--only needs a pattern such as '*hdim72*'");
  }
  if ((value = tool_option(argc, argv, i, "--max-bytes")) != NULL) {
    r->max_bytes = parse_count(value, 1);
    return r->max_bytes > 0 ? TOOL_OK
                            : tool_usage("cache",
                                         "--max-bytes is \"%s\"; it must be a positive number, "
                                         "such as 300M",
                                         value);
  }
  if ((value = tool_option(argc, argv, i, "--unused-days")) != NULL) {
    const uint64_t days = parse_count(value, 0);
    r->seconds = (int64_t)days * 24 * 3600;
    return days > 0 && days <= 100000
               ? TOOL_OK
               : tool_usage("cache", "--unused-days is \"%s\"; it must be 1 to 100000", value);
  }
  return TOOL_FAILED;
}

/** Whether the action is known, and has what it needs and nothing else. */
static int check_request(const request *r) {
  static const char *const actions[] = {"path",  "list",  "du",     "verify",
                                        "prune", "clear", "export", "import"};
  size_t known = 0;
  while (r->action != NULL && known < 8 && strcmp(r->action, actions[known]) != 0)
    ++known;
  if (r->action == NULL || known == 8)
    return tool_usage("cache",
                      "%s%s%s: it must be path, list, du, verify, prune, clear, export or import",
                      r->action ? "there is no action \"" : "the action is missing",
                      r->action ? r->action : "", r->action ? "\"" : "");
  const int copies = strcmp(r->action, "export") == 0 || strcmp(r->action, "import") == 0;
  if (copies && r->dir == NULL)
    return tool_usage("cache", "%s needs a directory", r->action);
  if (!copies && r->dir != NULL)
    return tool_usage("cache", "one action is enough, and \"%s\" is a second", r->dir);
  if (!copies && (r->target != NULL || r->only != NULL))
    return tool_usage("cache", "--target and --only go with export and import");
  if (strcmp(r->action, "prune") != 0 && (r->max_bytes > 0 || r->seconds > 0))
    return tool_usage("cache", "--max-bytes and --unused-days go with prune");
  return TOOL_OK;
}

static int run_cache(int argc, char **argv) {
  request r = {0};
  for (int i = 1; i < argc; ++i) {
    const int option = read_option(argc, argv, &i, &r);
    if (option == TOOL_USAGE)
      return option;
    if (option == TOOL_OK)
      continue;
    if (argv[i][0] == '-')
      return tool_usage("cache", "\"%s\" is not an option", argv[i]);
    if (r.dir != NULL)
      return tool_usage("cache", "\"%s\" is a word too many", argv[i]);
    *(r.action == NULL ? &r.action : &r.dir) = argv[i];
  }
  const int usage = check_request(&r);
  if (usage != TOOL_OK)
    return usage;
  ap_cache cache;
  const attnpress_status status = ap_cache_init(&cache, r.cache_dir, 0, NULL, 0, NULL);
  if (status != ATTNPRESS_OK)
    return tool_fail("cache", status);
  int result = TOOL_FAILED;
  if (cache.user_dir == NULL)
    fprintf(stderr, "attnpress cache: there is no cache directory: neither ATTNPRESS_CACHE_DIR, "
                    "XDG_CACHE_HOME nor HOME names one\n");
  else
    result = act(&r, &cache);
  ap_cache_free(&cache);
  return result;
}

const tool_command ap_tool_cache = {
    .name = "cache",
    .summary = "look at, check, bound, empty, export or import the cubin cache",
    .usage = "path|list|du|verify|clear [--cache-dir DIR]\n"
             "prune [--max-bytes N] [--unused-days N] [--cache-dir DIR]\n"
             "export|import DIR [--target sm_NN] [--only GLOB] [--cache-dir DIR]",
    .words = "path|list|du|verify|prune|clear|export|import",
    .about =
        "path: print the cache's directory\n"
        "list: list its entries\n"
        "du: their sizes, by target\n"
        "verify: read every entry in full; status 1 where one is damaged (it is replaced when it "
        "is needed)\n"
        "prune: remove the entries that were used least recently\n"
        "clear: remove every entry\n"
        "export: copy entries to DIR, which others may then read: a layer for "
        "ATTNPRESS_CACHE_LAYERS and attnpress_options.read_only_dirs\n"
        "import: copy entries of DIR into the cache",
    .options = {(const tool_opt[]){
        {"--target", "sm_NN", "only entries for that target"},
        {"--only", "GLOB", "only kernels whose names match"},
        {"--max-bytes", "N", "what may stay (512M: the library's own bound), with K, M or G"},
        {"--unused-days", "N", "remove what was not used for so long, whatever it takes"},
        {"--cache-dir", "DIR",
         "otherwise ATTNPRESS_CACHE_DIR, $XDG_CACHE_HOME/attnpress, or "
         "~/.cache/attnpress"},
        {NULL, NULL, NULL}}},
    .run = run_cache,
};
