/* The directories of the cache: which they are, and opening them. Everything else goes through the
 * descriptor of a directory that was checked after it was opened, so that nobody can change what a
 * name means in between. */
#define _GNU_SOURCE /* O_NOFOLLOW, secure_getenv */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/parts.h"
#include "core/error.h"

/* ---- Which directories ----------------------------------------------------------------------- */

/** first[/second], absolute and without trailing slashes (open() follows a link that has one). Where
 * there is no working directory a relative name stays one, and is not opened. NULL: memory ran out.
 */
static char *make_path(const char *first, const char *second) {
  char *base = first[0] == '/' ? NULL : getcwd(NULL, 0);
  if (base == NULL && first[0] != '/' && errno == ENOMEM)
    return NULL;
  const char *prefix = base != NULL ? base : "";
  const size_t size = strlen(prefix) + strlen(first) + strlen(second) + 3;
  char *path = malloc(size);
  if (path != NULL) {
    snprintf(path, size, "%s%s%s%s%s", prefix, *prefix ? "/" : "", first, *second ? "/" : "",
             second);
    for (size_t n = strlen(path); n > 1; n = strlen(path)) {
      if (path[n - 1] == '/')
        path[n - 1] = '\0';
      else if (n > 2 && strcmp(path + n - 2, "/.") == 0)
        path[n - 2] = '\0';
      else
        break;
    }
  }
  free(base);
  return path;
}

static attnpress_status choose_user_dir(ap_cache *cache, const char *given) {
  const char *first = given, *second = "";
  if (first == NULL)
    first = secure_getenv("ATTNPRESS_CACHE_DIR");
  cache->user_dir_given = first != NULL && *first;
  if (!cache->user_dir_given) {
    first = secure_getenv("XDG_CACHE_HOME");
    second = "attnpress";
    if (first == NULL || *first != '/') { /* the specification: relative ones are ignored */
      first = secure_getenv("HOME");
      second = ".cache/attnpress";
    }
    if (first == NULL || *first != '/')
      return ATTNPRESS_OK; /* nowhere to cache */
  }
  cache->user_dir = make_path(first, second);
  RETURN_IF(cache->user_dir == NULL, ATTNPRESS_OUT_OF_MEMORY,
            "host memory ran out for the cache directory's name");
  return ATTNPRESS_OK;
}

attnpress_status ap_cache_init(ap_cache *cache, const char *user_dir, int off,
                               const char *const *read_only_dirs, uint64_t max_bytes, ap_log *log) {
  memset(cache, 0, sizeof *cache);
  cache->max_bytes = max_bytes ? max_bytes : AP_CACHE_DEFAULT_BYTES;
  cache->log = log;
  attnpress_status status = off ? ATTNPRESS_OK : choose_user_dir(cache, user_dir);
  size_t count = 0;
  while (read_only_dirs != NULL && read_only_dirs[count] != NULL)
    ++count;
  if (status == ATTNPRESS_OK && count > 0) {
    cache->read_only_dirs = calloc(count + 1, sizeof *cache->read_only_dirs);
    int complete = cache->read_only_dirs != NULL;
    for (size_t i = 0; complete && i < count; ++i)
      complete = (cache->read_only_dirs[i] = make_path(read_only_dirs[i], "")) != NULL;
    if (!complete)
      status = ap_fail(ATTNPRESS_OUT_OF_MEMORY, "host memory ran out for the cache's layers");
  }
  if (status != ATTNPRESS_OK)
    ap_cache_free(cache);
  return status;
}

void ap_cache_free(ap_cache *cache) {
  for (size_t i = 0; cache->read_only_dirs != NULL && cache->read_only_dirs[i] != NULL; ++i)
    free(cache->read_only_dirs[i]);
  free(cache->read_only_dirs);
  free(cache->user_dir);
  memset(cache, 0, sizeof *cache);
}

/* ---- Opening a directory --------------------------------------------------------------------- */

/** The sentence of why a directory that is there must not be trusted. */
static attnpress_status check_trust(int fd, const char *path, ap_dir_use use) {
  struct stat s;
  RETURN_IF(fstat(fd, &s) != 0, ATTNPRESS_IO_ERROR, "cache directory %s: %s", path,
            strerror(errno));
  const int root_is_fine = use == AP_DIR_READ_ONLY && s.st_uid == 0;
  RETURN_IF(s.st_uid != geteuid() && !root_is_fine, ATTNPRESS_IO_ERROR,
            "cache directory %s belongs to user %u, not to user %u who uses it; name another one",
            path, (unsigned)s.st_uid, (unsigned)geteuid());
  RETURN_IF((s.st_mode & 022) != 0, ATTNPRESS_IO_ERROR,
            "cache directory %s can be written by others (mode %04o): kernels are code; chmod go-w "
            "it",
            path, (unsigned)(s.st_mode & 07777));
  return ATTNPRESS_OK;
}

attnpress_status ap_cache_open_dir(const char *path, ap_dir_use use, int *fd) {
  *fd = -1;
  if (*path != '/') { /* there was no working directory */
    errno = ENOENT;
    return ATTNPRESS_OK;
  }
  *fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (*fd < 0) {
    const int error = errno;
    struct stat s;
    if ((error == ENOTDIR || error == ELOOP) && lstat(path, &s) == 0) {
      RETURN_IF(S_ISLNK(s.st_mode), ATTNPRESS_IO_ERROR,
                "cache directory %s is a symbolic link; name the directory itself", path);
      return ap_fail(ATTNPRESS_IO_ERROR, "cache directory %s is not a directory", path);
    }
    errno = error;
    return ATTNPRESS_OK;
  }
  const attnpress_status status = check_trust(*fd, path, use);
  if (status != ATTNPRESS_OK) {
    close(*fd);
    *fd = -1;
  }
  return status;
}

/** mkdir with this mode, whatever the process masks out; 0, or the error. */
static int make_dir(const char *path, mode_t mode) {
  if (mkdir(path, mode) != 0)
    return errno == EEXIST ? 0 : errno;
  return chmod(path, mode) == 0 ? 0 : errno;
}

/** mkdir -p; 0, or the error of the last one. */
static int make_dirs(const char *path, mode_t mode) {
  char *partial = strdup(path);
  if (partial == NULL)
    return ENOMEM;
  for (char *slash = strchr(partial + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    make_dir(partial, mode);
    *slash = '/';
  }
  const int error = make_dir(partial, mode);
  free(partial);
  return error;
}

attnpress_status ap_cache_open_user_dir(const ap_cache *cache, int *fd) {
  *fd = -1;
  RETURN_IF(cache->user_dir == NULL, ATTNPRESS_IO_ERROR,
            "there is no cache directory: it is switched off, or neither ATTNPRESS_CACHE_DIR, "
            "XDG_CACHE_HOME nor HOME names one");
  RETURN_IF(*cache->user_dir != '/', ATTNPRESS_IO_ERROR,
            "cache directory %s is relative, and the process had no working directory; name an "
            "absolute one",
            cache->user_dir);
  FORWARD_IF(ap_cache_open_dir(cache->user_dir, AP_DIR_USER, fd));
  if (*fd < 0 && errno == ENOENT) {
    const int error = make_dirs(cache->user_dir, 0700);
    RETURN_IF(error != 0, ATTNPRESS_IO_ERROR, "cache directory %s cannot be made: %s",
              cache->user_dir, strerror(error));
    FORWARD_IF(ap_cache_open_dir(cache->user_dir, AP_DIR_USER, fd));
  }
  RETURN_IF(*fd < 0, ATTNPRESS_IO_ERROR, "cache directory %s cannot be used: %s", cache->user_dir,
            strerror(errno));
  return ATTNPRESS_OK;
}

attnpress_status ap_cache_open_layer(const char *path, int make, int *fd) {
  char *absolute = make_path(path, "");
  *fd = -1;
  RETURN_IF(absolute == NULL, ATTNPRESS_OUT_OF_MEMORY, "host memory ran out for the name of %s",
            path);
  const int error = make ? make_dirs(absolute, 0755) : 0;
  attnpress_status status =
      error != 0 ? ap_fail(ATTNPRESS_IO_ERROR, "cache directory %s cannot be made: %s", absolute,
                           strerror(error))
                 : ap_cache_open_dir(absolute, make ? AP_DIR_USER : AP_DIR_READ_ONLY, fd);
  if (status == ATTNPRESS_OK && *fd < 0)
    status = ap_fail(ATTNPRESS_IO_ERROR, "cache directory %s cannot be used: %s", absolute,
                     strerror(errno));
  free(absolute);
  return status;
}

attnpress_status ap_cache_check(const ap_cache *cache, int *exists) {
  *exists = 0;
  if (cache->user_dir == NULL)
    return ATTNPRESS_OK;
  int dir;
  FORWARD_IF(ap_cache_open_dir(cache->user_dir, AP_DIR_USER, &dir));
  RETURN_IF(dir < 0 && errno != ENOENT, ATTNPRESS_IO_ERROR, "cache directory %s cannot be used: %s",
            cache->user_dir, strerror(errno));
  *exists = dir >= 0;
  if (dir >= 0)
    close(dir);
  return ATTNPRESS_OK;
}

attnpress_status ap_cache_check_layer(const char *path) {
  int dir;
  FORWARD_IF(ap_cache_open_dir(path, AP_DIR_READ_ONLY, &dir));
  RETURN_IF(dir < 0, ATTNPRESS_IO_ERROR, "cache directory %s cannot be used: %s", path,
            strerror(errno));
  close(dir);
  return ATTNPRESS_OK;
}
