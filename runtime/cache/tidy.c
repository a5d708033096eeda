/* Keeping a cache directory within its bound, and what the tool asks of all its files. */
#define _GNU_SOURCE /* O_NOFOLLOW, struct timespec */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cache/parts.h"
#include "core/error.h"

enum { STALE_SECONDS = 15 * 60 }; /* a publish takes milliseconds */

/* ---- Keeping within the bound ---------------------------------------------------------------- */

typedef struct listed_file {
  char name[NAME_MAX_BYTES];
  struct timespec used;
  uint64_t bytes;
} listed_file;

typedef struct file_list {
  listed_file *files;
  size_t count, capacity;
} file_list;

static int list_append(file_list *list, const listed_file *file) {
  if (list->count == list->capacity) {
    const size_t capacity = list->capacity ? 2 * list->capacity : 64;
    listed_file *files = realloc(list->files, capacity * sizeof *files);
    if (files == NULL)
      return 0;
    list->files = files;
    list->capacity = capacity;
  }
  list->files[list->count++] = *file;
  return 1;
}

/** The files of a directory whose names are entries', or temporaries'; 0, or the error after which
 * the lists are not complete. */
static int list_dir(int dir, file_list *entries, file_list *temporaries) {
  const int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = copy < 0 ? NULL : fdopendir(copy);
  int error = stream == NULL ? errno : 0;
  if (stream == NULL && copy >= 0)
    close(copy);
  for (struct dirent *item; stream != NULL && error == 0 && (item = readdir(stream)) != NULL;) {
    ap_key key;
    file_list *list = ap_entry_name_parse(item->d_name, &key) ? entries
                      : ap_is_temporary(item->d_name)         ? temporaries
                                                              : NULL;
    struct stat s;
    if (list == NULL || fstatat(dir, item->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 ||
        S_ISDIR(s.st_mode))
      continue;
    listed_file file = {.used = s.st_mtim, .bytes = (uint64_t)s.st_size};
    snprintf(file.name, sizeof file.name, "%.*s", NAME_MAX_BYTES - 1, item->d_name);
    if (!list_append(list, &file))
      error = ENOMEM;
  }
  if (stream != NULL)
    closedir(stream);
  return error;
}

/** The sentence of a listing that failed. */
static attnpress_status fail_listing(const char *path, int error) {
  RETURN_IF(error == ENOMEM, ATTNPRESS_OUT_OF_MEMORY, "host memory ran out while %s was listed",
            path);
  return ap_fail(ATTNPRESS_IO_ERROR, "cache directory %s cannot be read: %s", path,
                 strerror(error));
}

static int compare_used(const void *a, const void *b) {
  const listed_file *x = a, *y = b;
  if (x->used.tv_sec != y->used.tv_sec)
    return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
  if (x->used.tv_nsec != y->used.tv_nsec)
    return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
  return strcmp(x->name, y->name);
}

/** 1 where a time is so far ahead that it comes from a clock that was wrong. */
static int is_ahead(const struct timespec *used, time_t now) {
  return used->tv_sec > now + STALE_SECONDS;
}

/** Bytes of all temporaries, except those whose writers died, which are removed. */
static uint64_t sweep_temporaries(int dir, const file_list *temporaries, time_t now) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < temporaries->count; ++i) {
    const listed_file *file = &temporaries->files[i];
    const int stale = file->used.tv_sec < now - STALE_SECONDS || is_ahead(&file->used, now);
    if (!stale || unlinkat(dir, file->name, 0) != 0)
      bytes += file->bytes;
  }
  return bytes;
}

void ap_cache_tidy(const ap_cache *cache, int dir, const char *keep) {
  file_list entries = {NULL, 0, 0}, temporaries = {NULL, 0, 0};
  list_dir(dir, &entries, &temporaries);
  const time_t now = time(NULL);
  uint64_t total = sweep_temporaries(dir, &temporaries, now);
  for (size_t i = 0; i < entries.count; ++i) {
    total += entries.files[i].bytes;
    if (is_ahead(&entries.files[i].used, now)) /* nobody knows when: whoever uses it dates it */
      entries.files[i].used = (struct timespec){0, 0};
  }
  if (total > cache->max_bytes)
    qsort(entries.files, entries.count, sizeof *entries.files, compare_used);
  for (size_t i = 0; i < entries.count && total > cache->max_bytes; ++i) {
    if (strcmp(entries.files[i].name, keep) == 0)
      continue;
    if (unlinkat(dir, entries.files[i].name, 0) != 0)
      continue;
    total -= entries.files[i].bytes;
    ap_log_line(cache->log, ATTNPRESS_LOG_INFO,
                "cache entry %s/%s, %llu bytes, is evicted: the bound is %llu bytes",
                cache->user_dir, entries.files[i].name, (unsigned long long)entries.files[i].bytes,
                (unsigned long long)cache->max_bytes);
  }
  free(entries.files);
  free(temporaries.files);
}

/* ---- For the tool ---------------------------------------------------------------------------- */

static int compare_entries(const void *a, const void *b) {
  const ap_cache_file *x = a, *y = b;
  int order = strcmp(x->info.stem, y->info.stem);
  if (order == 0)
    order = strcmp(x->info.target, y->info.target);
  return order != 0 ? order : strcmp(x->name, y->name);
}

/** 0, or ENOMEM. */
static int describe_entry(int dir, const listed_file *listed, ap_cache_file *file) {
  memset(file, 0, sizeof *file);
  memcpy(file->name, listed->name, sizeof file->name);
  file->bytes = listed->bytes;
  file->used_seconds = listed->used.tv_sec;
  ap_key key;
  unsigned char *cubin = NULL;
  ap_entry_name_parse(listed->name, &key);
  const int fd = openat(dir, listed->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  const ap_entry_state state =
      fd < 0 ? AP_ENTRY_DAMAGED : ap_entry_read(fd, AP_DIR_READ_ONLY, &key, &cubin, &file->info);
  file->damaged = state != AP_ENTRY_GOOD;
  if (fd >= 0)
    close(fd);
  free(cubin);
  return state == AP_ENTRY_UNREAD ? ENOMEM : 0;
}

attnpress_status ap_cache_scan(const char *path, int (*visit)(void *user, const ap_cache_file *),
                               void *user) {
  int dir;
  FORWARD_IF(ap_cache_open_dir(path, AP_DIR_READ_ONLY, &dir));
  if (dir < 0) {
    RETURN_IF(errno != ENOENT, ATTNPRESS_IO_ERROR, "cache directory %s cannot be read: %s", path,
              strerror(errno));
    return ATTNPRESS_OK;
  }
  file_list entries = {NULL, 0, 0}, temporaries = {NULL, 0, 0};
  int error = list_dir(dir, &entries, &temporaries);
  ap_cache_file *files = error ? NULL : calloc(entries.count + 1, sizeof *files);
  if (files == NULL && error == 0)
    error = ENOMEM;
  for (size_t i = 0; error == 0 && i < entries.count; ++i)
    error = describe_entry(dir, &entries.files[i], &files[i]);
  if (error == 0 && entries.count > 0)
    qsort(files, entries.count, sizeof *files, compare_entries);
  for (size_t i = 0; error == 0 && i < entries.count; ++i)
    if (visit(user, &files[i]) != 0)
      break;
  close(dir);
  free(files);
  free(entries.files);
  free(temporaries.files);
  return error ? fail_listing(path, error) : ATTNPRESS_OK;
}

attnpress_status ap_cache_clear(const ap_cache *cache, size_t *files, uint64_t *bytes) {
  *files = 0;
  *bytes = 0;
  if (cache->user_dir == NULL)
    return ATTNPRESS_OK;
  int dir;
  FORWARD_IF(ap_cache_open_dir(cache->user_dir, AP_DIR_USER, &dir));
  if (dir < 0) {
    RETURN_IF(errno != ENOENT, ATTNPRESS_IO_ERROR, "cache directory %s cannot be read: %s",
              cache->user_dir, strerror(errno));
    return ATTNPRESS_OK;
  }
  file_list entries = {NULL, 0, 0};
  const int list_error = list_dir(dir, &entries, &entries);
  int error = 0;
  for (size_t i = 0; i < entries.count; ++i) {
    if (unlinkat(dir, entries.files[i].name, 0) == 0) {
      ++*files;
      *bytes += entries.files[i].bytes;
    } else if (errno != ENOENT) {
      error = errno;
    }
  }
  close(dir);
  free(entries.files);
  RETURN_IF(error != 0, ATTNPRESS_IO_ERROR, "cache directory %s could not be emptied: %s",
            cache->user_dir, strerror(error));
  return list_error ? fail_listing(cache->user_dir, list_error) : ATTNPRESS_OK;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

typedef struct copy {
  int from, to;
  const char *from_path, *to_path;
  int shared;
  int (*wanted)(void *user, const ap_entry_info *info);
  void *user;
} copy;

static attnpress_status copy_entry(const copy *c, const char *name, ap_cache_tally *tally) {
  ap_key key;
  ap_entry_info info;
  unsigned char *cubin = NULL;
  ap_entry_name_parse(name, &key);
  const ap_entry_state state = ap_entry_find(c->from, AP_DIR_READ_ONLY, &key, &cubin, &info);
  RETURN_IF(state == AP_ENTRY_UNREAD, ATTNPRESS_OUT_OF_MEMORY,
            "host memory ran out while a kernel was read from %s", c->from_path);
  attnpress_status status = ATTNPRESS_OK;
  if (state == AP_ENTRY_DAMAGED)
    ++tally->damaged;
  if (state == AP_ENTRY_GOOD && (c->wanted == NULL || c->wanted(c->user, &info))) {
    if (ap_entry_write(c->to, c->shared, &key, cubin, &info)) {
      ++tally->files;
      tally->bytes += ap_entry_bytes(&info);
    } else {
      status = ap_fail(ATTNPRESS_IO_ERROR, "%s could not be written to %s: %s", info.stem,
                       c->to_path, strerror(errno));
    }
  }
  free(cubin);
  return status;
}

static attnpress_status copy_all(const copy *c, ap_cache_tally *tally) {
  file_list entries = {NULL, 0, 0}, temporaries = {NULL, 0, 0};
  const int error = list_dir(c->from, &entries, &temporaries);
  attnpress_status status = error ? fail_listing(c->from_path, error) : ATTNPRESS_OK;
  for (size_t i = 0; status == ATTNPRESS_OK && i < entries.count; ++i)
    status = copy_entry(c, entries.files[i].name, tally);
  free(entries.files);
  free(temporaries.files);
  return status;
}

/** The user's directory, which is there. */
static attnpress_status open_existing(const ap_cache *cache, int *dir) {
  FORWARD_IF(ap_cache_open_dir(cache->user_dir, AP_DIR_USER, dir));
  RETURN_IF(*dir < 0, ATTNPRESS_IO_ERROR, "cache directory %s cannot be read: %s", cache->user_dir,
            strerror(errno));
  return ATTNPRESS_OK;
}

attnpress_status ap_cache_export(const ap_cache *cache, const char *dir,
                                 int (*wanted)(void *user, const ap_entry_info *info), void *user,
                                 ap_cache_tally *tally) {
  copy c = {-1, -1, cache->user_dir, dir, 1, wanted, user};
  *tally = (ap_cache_tally){0, 0, 0};
  FORWARD_IF(open_existing(cache, &c.from));
  attnpress_status status = ap_cache_open_layer(dir, 1, &c.to);
  if (status == ATTNPRESS_OK)
    status = copy_all(&c, tally);
  close(c.from);
  if (c.to >= 0)
    close(c.to);
  return status;
}

attnpress_status ap_cache_import(const ap_cache *cache, const char *dir,
                                 int (*wanted)(void *user, const ap_entry_info *info), void *user,
                                 ap_cache_tally *tally) {
  copy c = {-1, -1, dir, cache->user_dir, 0, wanted, user};
  *tally = (ap_cache_tally){0, 0, 0};
  FORWARD_IF(ap_cache_open_user_dir(cache, &c.to));
  attnpress_status status = ap_cache_open_layer(dir, 0, &c.from);
  if (status == ATTNPRESS_OK)
    status = copy_all(&c, tally);
  if (status == ATTNPRESS_OK)
    ap_cache_tidy(cache, c.to, "");
  if (c.from >= 0)
    close(c.from);
  close(c.to);
  return status;
}

attnpress_status ap_cache_prune(const ap_cache *cache, uint64_t max_bytes, int64_t seconds,
                                ap_cache_tally *tally) {
  int dir;
  *tally = (ap_cache_tally){0, 0, 0};
  FORWARD_IF(open_existing(cache, &dir));
  file_list entries = {NULL, 0, 0}, temporaries = {NULL, 0, 0};
  const int error = list_dir(dir, &entries, &temporaries);
  const time_t now = time(NULL);
  uint64_t total = sweep_temporaries(dir, &temporaries, now);
  for (size_t i = 0; i < entries.count; ++i)
    total += entries.files[i].bytes;
  if (entries.count > 0)
    qsort(entries.files, entries.count, sizeof *entries.files, compare_used);
  for (size_t i = 0; i < entries.count; ++i) {
    const listed_file *file = &entries.files[i];
    const int old = seconds > 0 && file->used.tv_sec < now - seconds;
    if ((!old && total <= max_bytes) || unlinkat(dir, file->name, 0) != 0)
      continue;
    total -= file->bytes;
    ++tally->files;
    tally->bytes += file->bytes;
  }
  close(dir);
  free(entries.files);
  free(temporaries.files);
  return error ? fail_listing(cache->user_dir, error) : ATTNPRESS_OK;
}
