/* The cubin cache on disk; cache.h says what it promises. Names in a directory:
 *
 *     <32 hex digits of the key>.entry   an entry
 *     .tmp-<process>-<random>            an entry that is being written, or whose writer died
 *     .lock                              locks on keys, one byte each; empty
 *
 * Everything goes through the descriptor of a directory that was checked after it was opened, so
 * that nobody can change what a name means in between. */
#define _GNU_SOURCE /* O_NOFOLLOW, F_OFD_SETLK, secure_getenv */
#include "cache/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"
#include "core/hash.h"

enum {
  NAME_MAX_BYTES = 64,
  STALE_SECONDS = 15 * 60,     /* a publish takes milliseconds */
  ENTRY_MAX_BYTES = 256 << 20, /* larger files are not read */
  TEMPORARY_TRIES = 8,
  LOCK_POLL_MS = 20,
};

static const char magic[8] = {'a', 't', 't', 'n', 'p', 'r', 's', 's'};
static const char entry_suffix[] = ".entry";
static const char temporary_prefix[] = ".tmp-";

typedef struct entry_header {
  char magic[8];
  uint32_t schema, header_bytes;
  unsigned char key[16];
  unsigned char checksum[16]; /* XXH3-128 of this header, with 0 here, and the cubin */
  ap_entry_info info;
} entry_header;

_Static_assert(sizeof(ap_entry_info) == 128 + 64 + 16 + 48 + 16 + 8 + 8, "no holes");
_Static_assert(sizeof(entry_header) == 48 + sizeof(ap_entry_info), "layout of an entry");

void ap_log_line(const ap_log *log, int level, const char *format, ...) {
  if (log == NULL || log->function == NULL)
    return;
  char line[4096];
  va_list values;
  va_start(values, format);
  vsnprintf(line, sizeof line, format, values);
  va_end(values);
  log->function(log->user, level, line);
}

void ap_key_print(const ap_key *key, char text[33]) {
  for (int i = 0; i < 16; ++i)
    snprintf(text + 2 * i, 3, "%02x", key->bytes[i]);
}

static void entry_name(const ap_key *key, char name[NAME_MAX_BYTES]) {
  ap_key_print(key, name);
  memcpy(name + 32, entry_suffix, sizeof entry_suffix);
}

/** 1 and the key where a file's name is an entry's. */
static int parse_entry_name(const char *name, ap_key *key) {
  if (strlen(name) != 32 + sizeof entry_suffix - 1 || strcmp(name + 32, entry_suffix) != 0 ||
      strspn(name, "0123456789abcdef") != 32)
    return 0;
  for (int i = 0; i < 16; ++i) {
    const char digits[3] = {name[2 * i], name[2 * i + 1], '\0'};
    key->bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
  }
  return 1;
}

static int is_temporary(const char *name) {
  return strncmp(name, temporary_prefix, sizeof temporary_prefix - 1) == 0;
}

/* ---- Which directories ----------------------------------------------------------------------- */

/** first[/second], absolute and without trailing slashes (open() follows a link that has one); NULL
 * where memory ran out or there is no working directory. */
static char *make_path(const char *first, const char *second) {
  char *base = first[0] == '/' ? strdup("") : getcwd(NULL, 0);
  if (base == NULL)
    return NULL;
  const size_t size = strlen(base) + strlen(first) + strlen(second) + 3;
  char *path = malloc(size);
  if (path != NULL) {
    snprintf(path, size, "%s%s%s%s%s", base, *base ? "/" : "", first, *second ? "/" : "", second);
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
                               const char *const *read_only_dirs, uint64_t max_bytes,
                               const ap_log *log) {
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

typedef enum dir_use { DIR_USER, DIR_READ_ONLY } dir_use;

/** The sentence of why a directory that is there must not be trusted. */
static attnpress_status check_trust(int fd, const char *path, dir_use use) {
  struct stat s;
  RETURN_IF(fstat(fd, &s) != 0, ATTNPRESS_IO_ERROR, "cache directory %s: %s", path,
            strerror(errno));
  const int root_is_fine = use == DIR_READ_ONLY && s.st_uid == 0;
  RETURN_IF(s.st_uid != geteuid() && !root_is_fine, ATTNPRESS_IO_ERROR,
            "cache directory %s belongs to user %u, not to user %u who uses it; name another one",
            path, (unsigned)s.st_uid, (unsigned)geteuid());
  const unsigned forbidden = use == DIR_USER ? 077 : 022;
  RETURN_IF((s.st_mode & forbidden) != 0, ATTNPRESS_IO_ERROR,
            "cache directory %s is open to others (mode %04o): kernels are code; chmod %s it", path,
            (unsigned)(s.st_mode & 07777), use == DIR_USER ? "700" : "go-w");
  return ATTNPRESS_OK;
}

/** Opens a directory. *fd -1 with ATTNPRESS_OK: it is not there, or cannot be opened; errno says
 * why. IO_ERROR: it must not be trusted. */
static attnpress_status open_dir(const char *path, dir_use use, int *fd) {
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

/** mkdir -p with mode 0700; 0, or the error of the last one. */
static int make_dirs(const char *path) {
  char *partial = strdup(path);
  if (partial == NULL)
    return ENOMEM;
  for (char *slash = strchr(partial + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(partial, 0700);
    *slash = '/';
  }
  const int error = mkdir(partial, 0700) == 0 || errno == EEXIST ? 0 : errno;
  free(partial);
  return error;
}

/** The user's directory, made where it is missing. IO_ERROR where that fails, or there is none. */
static attnpress_status open_user_dir_to_write(const ap_cache *cache, int *fd) {
  *fd = -1;
  RETURN_IF(cache->user_dir == NULL, ATTNPRESS_IO_ERROR,
            "there is no cache directory: it is switched off, or neither ATTNPRESS_CACHE_DIR, "
            "XDG_CACHE_HOME nor HOME names one");
  FORWARD_IF(open_dir(cache->user_dir, DIR_USER, fd));
  if (*fd < 0 && errno == ENOENT) {
    const int error = make_dirs(cache->user_dir);
    RETURN_IF(error != 0, ATTNPRESS_IO_ERROR, "cache directory %s cannot be made: %s",
              cache->user_dir, strerror(error));
    FORWARD_IF(open_dir(cache->user_dir, DIR_USER, fd));
  }
  RETURN_IF(*fd < 0, ATTNPRESS_IO_ERROR, "cache directory %s cannot be used: %s", cache->user_dir,
            strerror(errno));
  return ATTNPRESS_OK;
}

/* ---- Reading an entry ------------------------------------------------------------------------ */

static int read_all(int fd, void *buffer, size_t size) {
  unsigned char *at = buffer;
  while (size > 0) {
    const ssize_t got = read(fd, at, size);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return 0;
    at += got;
    size -= (size_t)got;
  }
  return 1;
}

static int write_all(int fd, const void *buffer, size_t size) {
  const unsigned char *at = buffer;
  while (size > 0) {
    const ssize_t put = write(fd, at, size);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return 0;
    at += put;
    size -= (size_t)put;
  }
  return 1;
}

static void checksum(const entry_header *header, const unsigned char *cubin,
                     unsigned char digest[16]) {
  entry_header blank = *header;
  memset(blank.checksum, 0, sizeof blank.checksum);
  const ap_part parts[] = {{&blank, sizeof blank}, {cubin, header->info.cubin_bytes}};
  ap_hash(parts, 2, digest);
}

static int is_text(const char *field, size_t size) {
  return memchr(field, '\0', size) != NULL;
}

static int header_holds(const entry_header *h, const ap_key *key, uint64_t file_bytes) {
  return memcmp(h->magic, magic, sizeof magic) == 0 && h->schema == AP_CACHE_SCHEMA &&
         h->header_bytes == sizeof *h && memcmp(h->key, key->bytes, sizeof h->key) == 0 &&
         h->info.cubin_bytes == file_bytes - sizeof *h &&
         is_text(h->info.stem, sizeof h->info.stem) && is_text(h->info.tile, sizeof h->info.tile) &&
         is_text(h->info.target, sizeof h->info.target) &&
         is_text(h->info.compiler, sizeof h->info.compiler);
}

typedef enum entry_state {
  ENTRY_MISSING,
  ENTRY_GOOD,
  ENTRY_DAMAGED,
  ENTRY_UNREAD /* memory ran out */
} entry_state;

/** Reads and checks an open entry; *cubin is the caller's to free. */
static entry_state read_open_entry(int fd, dir_use use, const ap_key *key, unsigned char **cubin,
                                   ap_entry_info *info) {
  struct stat s;
  if (fstat(fd, &s) != 0)
    return ENTRY_MISSING;
  const int trusted =
      (s.st_uid == geteuid() || (use == DIR_READ_ONLY && s.st_uid == 0)) && (s.st_mode & 022) == 0;
  if (!S_ISREG(s.st_mode) || !trusted || s.st_size < (off_t)sizeof(entry_header) ||
      s.st_size > ENTRY_MAX_BYTES)
    return ENTRY_DAMAGED;
  entry_header header;
  if (!read_all(fd, &header, sizeof header) || !header_holds(&header, key, (uint64_t)s.st_size))
    return ENTRY_DAMAGED;
  unsigned char *data = malloc(header.info.cubin_bytes + 1);
  if (data == NULL)
    return ENTRY_UNREAD;
  unsigned char digest[16];
  int good = read_all(fd, data, header.info.cubin_bytes);
  if (good) {
    checksum(&header, data, digest);
    good = memcmp(digest, header.checksum, sizeof digest) == 0;
  }
  if (!good) {
    free(data);
    return ENTRY_DAMAGED;
  }
  *cubin = data;
  *info = header.info;
  return ENTRY_GOOD;
}

static entry_state read_entry(int dir, dir_use use, const ap_key *key, unsigned char **cubin,
                              ap_entry_info *info) {
  char name[NAME_MAX_BYTES];
  entry_name(key, name);
  const int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    return errno == ELOOP ? ENTRY_DAMAGED : ENTRY_MISSING;
  const entry_state state = read_open_entry(fd, use, key, cubin, info);
  if (state == ENTRY_GOOD && use == DIR_USER)
    futimens(fd, NULL); /* used now: the bound removes what was used least recently */
  close(fd);
  return state;
}

static attnpress_status fail_unread(const char *dir) {
  return ap_fail(ATTNPRESS_OUT_OF_MEMORY, "host memory ran out while a kernel was read from %s",
                 dir);
}

attnpress_status ap_cache_lookup_read_only(const ap_cache *cache, const ap_key *key,
                                           unsigned char **cubin, ap_entry_info *info) {
  *cubin = NULL;
  for (char **path = cache->read_only_dirs; path != NULL && *path != NULL && !*cubin; ++path) {
    int dir;
    FORWARD_IF(open_dir(*path, DIR_READ_ONLY, &dir));
    if (dir < 0) {
      ap_log_line(cache->log, ATTNPRESS_LOG_WARNING, "cache layer %s is passed over: %s", *path,
                  strerror(errno));
      continue;
    }
    const entry_state state = read_entry(dir, DIR_READ_ONLY, key, cubin, info);
    if (state == ENTRY_DAMAGED) {
      char name[NAME_MAX_BYTES];
      entry_name(key, name);
      ap_log_line(cache->log, ATTNPRESS_LOG_WARNING, "cache entry %s/%s is damaged", *path, name);
    }
    close(dir);
    if (state == ENTRY_UNREAD)
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
  const attnpress_status status = open_dir(cache->user_dir, DIR_USER, &dir);
  if (status != ATTNPRESS_OK && !cache->user_dir_given) {
    ap_log_line(cache->log, ATTNPRESS_LOG_WARNING, "%s", attnpress_last_error());
    return ATTNPRESS_OK;
  }
  FORWARD_IF(status);
  if (dir < 0)
    return ATTNPRESS_OK;
  const entry_state state = read_entry(dir, DIR_USER, key, cubin, info);
  if (state == ENTRY_DAMAGED) {
    char name[NAME_MAX_BYTES];
    entry_name(key, name);
    unlinkat(dir, name, 0);
    ap_log_line(cache->log, ATTNPRESS_LOG_WARNING, "cache entry %s/%s is damaged and is replaced",
                cache->user_dir, name);
  }
  close(dir);
  return state == ENTRY_UNREAD ? fail_unread(cache->user_dir) : ATTNPRESS_OK;
}

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

/** The regular files of a directory whose names are entries', or temporaries'. 0, or the
 * error that left some of them out. */
static int list_dir(int dir, file_list *entries, file_list *temporaries) {
  const int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = copy < 0 ? NULL : fdopendir(copy);
  int error = 0;
  if (stream == NULL) {
    error = errno;
    if (copy >= 0)
      close(copy);
    return error;
  }
  for (struct dirent *item; error == 0 && (item = readdir(stream)) != NULL;) {
    ap_key key;
    file_list *list = parse_entry_name(item->d_name, &key) ? entries
                      : is_temporary(item->d_name)         ? temporaries
                                                           : NULL;
    struct stat s;
    if (list == NULL || strlen(item->d_name) >= NAME_MAX_BYTES ||
        fstatat(dir, item->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(s.st_mode))
      continue;
    listed_file file = {.used = s.st_mtim, .bytes = (uint64_t)s.st_size};
    snprintf(file.name, sizeof file.name, "%.*s", NAME_MAX_BYTES - 1, item->d_name);
    error = list_append(list, &file) ? 0 : ENOMEM;
  }
  closedir(stream);
  return error;
}

static int compare_used(const void *a, const void *b) {
  const listed_file *x = a, *y = b;
  if (x->used.tv_sec != y->used.tv_sec)
    return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
  if (x->used.tv_nsec != y->used.tv_nsec)
    return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
  return strcmp(x->name, y->name);
}

/** Removes temporaries whose writers died, and the entries used least recently until the rest is
 * within the bound; never `keep`. */
static void tidy(const ap_cache *cache, int dir, const char *keep) {
  file_list entries = {NULL, 0, 0}, temporaries = {NULL, 0, 0};
  list_dir(dir, &entries, &temporaries);
  const time_t now = time(NULL);
  for (size_t i = 0; i < temporaries.count; ++i)
    if (temporaries.files[i].used.tv_sec < now - STALE_SECONDS)
      unlinkat(dir, temporaries.files[i].name, 0);
  uint64_t total = 0;
  for (size_t i = 0; i < entries.count; ++i)
    total += entries.files[i].bytes;
  if (total > cache->max_bytes)
    qsort(entries.files, entries.count, sizeof *entries.files, compare_used);
  for (size_t i = 0; i < entries.count && total > cache->max_bytes; ++i) {
    if (strcmp(entries.files[i].name, keep) == 0)
      continue;
    if (unlinkat(dir, entries.files[i].name, 0) == 0)
      total -= entries.files[i].bytes;
  }
  free(entries.files);
  free(temporaries.files);
}

/* ---- Publishing ------------------------------------------------------------------------------ */

static int open_temporary(int dir, char name[NAME_MAX_BYTES]) {
  for (int i = 0; i < TEMPORARY_TRIES; ++i) {
    unsigned long long random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random) {
      struct timespec t;
      clock_gettime(CLOCK_MONOTONIC, &t);
      random = (unsigned long long)t.tv_nsec * 2654435761u + (unsigned long long)i;
    }
    snprintf(name, NAME_MAX_BYTES, "%s%ld-%016llx", temporary_prefix, (long)getpid(), random);
    const int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 || errno != EEXIST)
      return fd;
  }
  return -1;
}

/** Writes a temporary and renames it to `name`; on failure errno says why and nothing is left. */
static int write_entry(int dir, const char *name, const entry_header *header,
                       const unsigned char *cubin) {
  char temporary[NAME_MAX_BYTES];
  const int fd = open_temporary(dir, temporary);
  if (fd < 0)
    return 0;
  int good = write_all(fd, header, sizeof *header) &&
             write_all(fd, cubin, header->info.cubin_bytes) && fsync(fd) == 0;
  int error = errno;
  if (close(fd) != 0 && good) {
    good = 0;
    error = errno;
  }
  if (good && renameat(dir, temporary, dir, name) != 0) {
    good = 0;
    error = errno;
  }
  if (!good) {
    unlinkat(dir, temporary, 0);
    errno = error;
  }
  return good;
}

attnpress_status ap_cache_publish(const ap_cache *cache, const ap_key *key,
                                  const unsigned char *cubin, const ap_entry_info *info) {
  entry_header header;
  memset(&header, 0, sizeof header);
  memcpy(header.magic, magic, sizeof magic);
  header.schema = AP_CACHE_SCHEMA;
  header.header_bytes = sizeof header;
  memcpy(header.key, key->bytes, sizeof header.key);
  header.info = *info;
  checksum(&header, cubin, header.checksum);

  int dir;
  FORWARD_IF(open_user_dir_to_write(cache, &dir));
  char name[NAME_MAX_BYTES];
  entry_name(key, name);
  attnpress_status status = ATTNPRESS_OK;
  if (sizeof header + info->cubin_bytes > cache->max_bytes)
    status =
        ap_fail(ATTNPRESS_IO_ERROR, "%s takes %zu bytes, and the cache in %s is bounded to %llu",
                info->stem, sizeof header + (size_t)info->cubin_bytes, cache->user_dir,
                (unsigned long long)cache->max_bytes);
  else if (!write_entry(dir, name, &header, cubin))
    status = ap_fail(ATTNPRESS_IO_ERROR, "%s could not be written to the cache in %s: %s",
                     info->stem, cache->user_dir, strerror(errno));
  else
    tidy(cache, dir, name);
  close(dir);
  return status;
}

void ap_cache_remove(const ap_cache *cache, const ap_key *key) {
  int dir = -1;
  if (cache->user_dir == NULL || open_dir(cache->user_dir, DIR_USER, &dir) != ATTNPRESS_OK ||
      dir < 0)
    return;
  char name[NAME_MAX_BYTES];
  entry_name(key, name);
  unlinkat(dir, name, 0);
  close(dir);
}

/* ---- Locks ----------------------------------------------------------------------------------- */

int ap_cache_lock(const ap_cache *cache, const ap_key *key, int wait_ms, int *waited) {
  int dir;
  if (waited != NULL)
    *waited = 0;
  if (open_user_dir_to_write(cache, &dir) != ATTNPRESS_OK)
    return -1;
  const int fd = openat(dir, ".lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  close(dir);
  if (fd < 0)
    return -1;
  /* One byte of the file a key. The lock goes with the descriptor, so a process that dies lets go
   * of it, and two threads of one process exclude each other. */
  uint64_t place;
  memcpy(&place, key->bytes, sizeof place);
  struct flock lock = {
      .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)(place >> 2), .l_len = 1};
  for (int left_ms = wait_ms;; left_ms -= LOCK_POLL_MS) {
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
      return fd;
    if ((errno != EAGAIN && errno != EACCES && errno != EINTR) || left_ms <= 0)
      break;
    if (waited != NULL)
      *waited = 1;
    nanosleep(&(struct timespec){0, LOCK_POLL_MS * 1000000L}, NULL);
  }
  close(fd);
  return -1;
}

void ap_cache_unlock(int lock) {
  if (lock >= 0)
    close(lock);
}

/* ---- For the tool ---------------------------------------------------------------------------- */

static attnpress_status status_of(int error) {
  return error == ENOMEM ? ATTNPRESS_OUT_OF_MEMORY : ATTNPRESS_IO_ERROR;
}

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
  parse_entry_name(listed->name, &key);
  const int fd = openat(dir, listed->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  const entry_state state =
      fd < 0 ? ENTRY_DAMAGED : read_open_entry(fd, DIR_READ_ONLY, &key, &cubin, &file->info);
  file->damaged = state != ENTRY_GOOD;
  if (fd >= 0)
    close(fd);
  free(cubin);
  return state == ENTRY_UNREAD ? ENOMEM : 0;
}

attnpress_status ap_cache_scan(const char *path, int (*visit)(void *user, const ap_cache_file *),
                               void *user) {
  int dir;
  FORWARD_IF(open_dir(path, DIR_READ_ONLY, &dir));
  if (dir < 0) {
    RETURN_IF(errno != ENOENT, ATTNPRESS_IO_ERROR, "cache directory %s cannot be read: %s", path,
              strerror(errno));
    return ATTNPRESS_OK;
  }
  file_list entries = {NULL, 0, 0}, temporaries = {NULL, 0, 0};
  int error = list_dir(dir, &entries, &temporaries);
  ap_cache_file *files = calloc(entries.count + 1, sizeof *files);
  if (files == NULL)
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
  RETURN_IF(error != 0, status_of(error), "cache directory %s could not be listed: %s", path,
            strerror(error));
  return ATTNPRESS_OK;
}

attnpress_status ap_cache_clear(const ap_cache *cache, size_t *files, uint64_t *bytes) {
  *files = 0;
  *bytes = 0;
  if (cache->user_dir == NULL)
    return ATTNPRESS_OK;
  int dir;
  FORWARD_IF(open_dir(cache->user_dir, DIR_USER, &dir));
  if (dir < 0) {
    RETURN_IF(errno != ENOENT, ATTNPRESS_IO_ERROR, "cache directory %s cannot be read: %s",
              cache->user_dir, strerror(errno));
    return ATTNPRESS_OK;
  }
  file_list entries = {NULL, 0, 0};
  int error = list_dir(dir, &entries, &entries);
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
  RETURN_IF(error != 0, status_of(error), "cache directory %s could not be emptied: %s",
            cache->user_dir, strerror(error));
  return ATTNPRESS_OK;
}

attnpress_status ap_cache_check(const ap_cache *cache, int *exists) {
  *exists = 0;
  if (cache->user_dir == NULL)
    return ATTNPRESS_OK;
  int dir;
  FORWARD_IF(open_dir(cache->user_dir, DIR_USER, &dir));
  RETURN_IF(dir < 0 && errno != ENOENT, ATTNPRESS_IO_ERROR, "cache directory %s cannot be used: %s",
            cache->user_dir, strerror(errno));
  *exists = dir >= 0;
  if (dir >= 0)
    close(dir);
  return ATTNPRESS_OK;
}
