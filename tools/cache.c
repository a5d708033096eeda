/* attnpress cache path|list|verify|clear. */
#include <stdio.h>
#include <string.h>

#include "handle.h"
#include "press/info.h"
#include "press/registry.h"
#include "press/target.h"
#include "tool.h"

int tool_list_cached(const char *command, const char *dir);

static void print_help(void) {
  printf("usage: attnpress cache path|list|verify|clear [--cache-dir DIR]\n\n"
         "  path     print the cache's directory\n"
         "  list     list its entries\n"
         "  verify   read every entry in full; status 1 where one is damaged (it is replaced when\n"
         "           it is needed)\n"
         "  clear    remove every entry\n\n"
         "The directory is --cache-dir, ATTNPRESS_CACHE_DIR, $XDG_CACHE_HOME/attnpress, or\n"
         "~/.cache/attnpress.\n");
}

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

static int act(const char *action, const ap_cache *cache) {
  if (strcmp(action, "path") == 0) {
    printf("%s\n", cache->user_dir);
    return TOOL_OK;
  }
  /* Only a directory that the library would use is looked into. */
  int exists;
  const attnpress_status status = ap_cache_check(cache, &exists);
  if (status != ATTNPRESS_OK)
    return tool_fail("cache", status) == TOOL_OK ? TOOL_OK : TOOL_FAILED;
  if (strcmp(action, "list") == 0)
    return tool_list_cached("cache", cache->user_dir);
  return strcmp(action, "verify") == 0 ? verify(cache) : clear(cache);
}

int ap_tool_cache(int argc, char **argv) {
  static const char *const actions[] = {"path", "list", "verify", "clear"};
  const char *action = NULL, *cache_dir = NULL, *value;
  for (int i = 1; i < argc; ++i) {
    if (tool_is_help(argv[i])) {
      print_help();
      return TOOL_OK;
    }
    if ((value = tool_option(argc, argv, &i, "--cache-dir")) != NULL) {
      if (*value == '\0')
        return tool_usage("cache", "--cache-dir needs a directory");
      cache_dir = value;
    } else if (argv[i][0] == '-') {
      return tool_usage("cache", "\"%s\" is not an option", argv[i]);
    } else if (action != NULL) {
      return tool_usage("cache", "one action is enough, and \"%s\" is a second", argv[i]);
    } else {
      action = argv[i];
    }
  }
  size_t known = 0;
  while (action != NULL && known < 4 && strcmp(action, actions[known]) != 0)
    ++known;
  if (action == NULL || known == 4)
    return tool_usage("cache", "%s%s%s: it must be path, list, verify or clear",
                      action ? "there is no action \"" : "the action is missing",
                      action ? action : "", action ? "\"" : "");
  ap_cache cache;
  const attnpress_status status = ap_cache_init(&cache, cache_dir, 0, NULL, 0, NULL);
  if (status != ATTNPRESS_OK)
    return tool_fail("cache", status);
  int result = TOOL_FAILED;
  if (cache.user_dir == NULL)
    fprintf(stderr, "attnpress cache: there is no cache directory: neither ATTNPRESS_CACHE_DIR, "
                    "XDG_CACHE_HOME nor HOME names one\n");
  else
    result = act(action, &cache);
  ap_cache_free(&cache);
  return result;
}
