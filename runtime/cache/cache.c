/* Looking an entry up, and publishing it. */
#define _GNU_SOURCE /* unlinkat */
#include "cache/cache.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cache/parts.h"
#include "core/error.h"

static attnpress_status fail_unread(const char *dir) {
  return ap_fail(ATTNPRESS_OUT_OF_MEMORY, "host memory ran out while a kernel was read from %s",
                 dir);
}

attnpress_status ap_cache_lookup_read_only(const ap_cache *cache, const ap_key *key,
                                           unsigned char **cubin, ap_entry_info *info) {
  *cubin = NULL;
  for (char **path = cache->read_only_dirs; path != NULL && *path != NULL && !*cubin; ++path) {
    int dir;
    const attnpress_status status = ap_cache_open_dir(*path, AP_DIR_READ_ONLY, &dir);
    if (dir < 0) { /* one that is missing, or not to be trusted, must not stand before the next */
      ap_log_line(cache->log, ATTNPRESS_LOG_WARNING, "cache layer %s is skipped: %s", *path,
                  status == ATTNPRESS_OK ? strerror(errno) : attnpress_last_error());
      continue;
    }
    const ap_entry_state state = ap_entry_find(dir, AP_DIR_READ_ONLY, key, cubin, info);
    if (state == AP_ENTRY_DAMAGED) {
      char name[NAME_MAX_BYTES];
      ap_entry_name(key, name);
      ap_log_line(cache->log, ATTNPRESS_LOG_WARNING, "cache entry %s/%s is damaged", *path, name);
    }
    close(dir);
    if (state == AP_ENTRY_UNREAD)
      return fail_unread(*path);
  }
  return ATTNPRESS_OK;
}

attnpress_status ap_cache_lookup_user(const ap_cache *cache, const ap_key *key,
                                      unsigned char **cubin, ap_entry_info *info) {
  *cubin = NULL;
  if (cache->user_dir == NULL)
    return ATTNPRESS_OK;
  int dir;
  const attnpress_status status = ap_cache_open_dir(cache->user_dir, AP_DIR_USER, &dir);
  if (status != ATTNPRESS_OK && !cache->user_dir_given) {
    ap_log_line(cache->log, ATTNPRESS_LOG_WARNING, "%s", attnpress_last_error());
    return ATTNPRESS_OK;
  }
  FORWARD_IF(status);
  if (dir < 0)
    return ATTNPRESS_OK;
  const ap_entry_state state = ap_entry_find(dir, AP_DIR_USER, key, cubin, info);
  if (state == AP_ENTRY_DAMAGED) {
    char name[NAME_MAX_BYTES];
    ap_entry_name(key, name);
    unlinkat(dir, name, 0);
    ap_log_line(cache->log, ATTNPRESS_LOG_WARNING, "cache entry %s/%s is damaged and is replaced",
                cache->user_dir, name);
  }
  close(dir);
  return state == AP_ENTRY_UNREAD ? fail_unread(cache->user_dir) : ATTNPRESS_OK;
}

attnpress_status ap_cache_publish(const ap_cache *cache, const ap_key *key,
                                  const unsigned char *cubin, const ap_entry_info *info) {
  int dir;
  FORWARD_IF(ap_cache_open_user_dir(cache, &dir));
  char name[NAME_MAX_BYTES];
  ap_entry_name(key, name);
  attnpress_status status = ATTNPRESS_OK;
  if (ap_entry_bytes(info) > cache->max_bytes)
    status =
        ap_fail(ATTNPRESS_IO_ERROR, "%s takes %zu bytes, and the cache in %s is bounded to %llu",
                info->stem, (size_t)ap_entry_bytes(info), cache->user_dir,
                (unsigned long long)cache->max_bytes);
  else if (!ap_entry_write(dir, 0, key, cubin, info))
    status = ap_fail(ATTNPRESS_IO_ERROR, "%s could not be written to the cache in %s: %s",
                     info->stem, cache->user_dir, strerror(errno));
  else
    ap_cache_tidy(cache, dir, name);
  close(dir);
  return status;
}

void ap_cache_remove(const ap_cache *cache, const ap_key *key) {
  int dir = -1;
  if (cache->user_dir == NULL ||
      ap_cache_open_dir(cache->user_dir, AP_DIR_USER, &dir) != ATTNPRESS_OK || dir < 0)
    return;
  char name[NAME_MAX_BYTES];
  ap_entry_name(key, name);
  unlinkat(dir, name, 0);
  close(dir);
}
