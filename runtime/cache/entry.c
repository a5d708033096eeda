/* The files of a cache directory; parts.h says how they are named. */
#define _GNU_SOURCE /* O_NOFOLLOW */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cache/parts.h"
#include "core/hash.h"

enum {
  ENTRY_MAX_BYTES = 256 << 20, /* larger files are not read */
  TEMPORARY_TRIES = 8,
};

static const char magic[8] = {'a', 't', 't', 'n', 'p', 'r', 's', 's'};
static const char hex_digits[] = "0123456789abcdef";
static const char entry_suffix[] = ".entry";
static const char temporary_suffix[] = ".tmp";

typedef struct entry_header {
  char magic[8];
  uint32_t schema, header_bytes;
  unsigned char key[16];
  unsigned char checksum[16]; /* XXH3-128 of this header, with 0 here, and the cubin */
  ap_entry_info info;
} entry_header;

_Static_assert(sizeof(ap_entry_info) == 128 + 64 + 16 + 48 + 16 + 8 + 8, "no holes");
_Static_assert(sizeof(entry_header) == 48 + sizeof(ap_entry_info), "layout of an entry");

void ap_key_print(const ap_key *key, char text[33]) {
  for (int i = 0; i < 16; ++i)
    snprintf(text + 2 * i, 3, "%02x", key->bytes[i]);
}

void ap_entry_name(const ap_key *key, char name[NAME_MAX_BYTES]) {
  ap_key_print(key, name);
  memcpy(name + 32, entry_suffix, sizeof entry_suffix);
}

int ap_entry_name_parse(const char *name, ap_key *key) {
  if (strspn(name, hex_digits) != 32 || strcmp(name + 32, entry_suffix) != 0)
    return 0;
  for (int i = 0; i < 16; ++i) {
    const char digits[3] = {name[2 * i], name[2 * i + 1], '\0'};
    key->bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
  }
  return 1;
}

int ap_is_temporary(const char *name) {
  return strspn(name, hex_digits) == 32 && name[32] == '.' && strspn(name + 33, hex_digits) == 16 &&
         strcmp(name + 49, temporary_suffix) == 0;
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
    if (put == 0)
      errno = EIO; /* nothing was written, and nothing was said */
    if (put <= 0)
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

ap_entry_state ap_entry_read(int fd, ap_dir_use use, const ap_key *key, unsigned char **cubin,
                             ap_entry_info *info) {
  struct stat s;
  if (fstat(fd, &s) != 0)
    return AP_ENTRY_MISSING;
  const int trusted = (s.st_uid == geteuid() || (use == AP_DIR_READ_ONLY && s.st_uid == 0)) &&
                      (s.st_mode & 022) == 0;
  if (!S_ISREG(s.st_mode) || !trusted || s.st_size < (off_t)sizeof(entry_header) ||
      s.st_size > ENTRY_MAX_BYTES)
    return AP_ENTRY_DAMAGED;
  entry_header header;
  if (!read_all(fd, &header, sizeof header) || !header_holds(&header, key, (uint64_t)s.st_size))
    return AP_ENTRY_DAMAGED;
  unsigned char *data = malloc(header.info.cubin_bytes + 1);
  if (data == NULL)
    return AP_ENTRY_UNREAD;
  unsigned char digest[16];
  int good = read_all(fd, data, header.info.cubin_bytes);
  if (good) {
    checksum(&header, data, digest);
    good = memcmp(digest, header.checksum, sizeof digest) == 0;
  }
  if (!good) {
    free(data);
    return AP_ENTRY_DAMAGED;
  }
  *cubin = data;
  *info = header.info;
  return AP_ENTRY_GOOD;
}

ap_entry_state ap_entry_find(int dir, ap_dir_use use, const ap_key *key, unsigned char **cubin,
                             ap_entry_info *info) {
  char name[NAME_MAX_BYTES];
  ap_entry_name(key, name);
  const int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    return errno == ELOOP ? AP_ENTRY_DAMAGED : AP_ENTRY_MISSING;
  const ap_entry_state state = ap_entry_read(fd, use, key, cubin, info);
  if (state == AP_ENTRY_GOOD && use == AP_DIR_USER)
    futimens(fd, NULL); /* used now: the bound removes what was used least recently */
  close(fd);
  return state;
}

/* ---- Publishing ------------------------------------------------------------------------------ */

/** A name beside an entry's that nobody else takes. */
static void random_name(const char *name, const char *suffix, char random[NAME_MAX_BYTES]) {
  unsigned long long number = 0;
  if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    number = ((unsigned long long)t.tv_nsec << 32) ^ (unsigned long long)getpid();
  }
  snprintf(random, NAME_MAX_BYTES, "%.32s.%016llx%s", name, number, suffix);
}

static int open_temporary(int dir, const char *name, char temporary[NAME_MAX_BYTES]) {
  for (int i = 0; i < TEMPORARY_TRIES; ++i) {
    random_name(name, temporary_suffix, temporary);
    const int fd =
        openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 || errno != EEXIST)
      return fd;
  }
  return -1;
}

/** Renames a temporary to an entry's name. A directory that stands in its place is somebody's: it is
 * put aside. 0: errno says why. */
static int rename_entry(int dir, const char *temporary, const char *name) {
  if (renameat(dir, temporary, dir, name) == 0)
    return 1;
  if (errno != EISDIR)
    return 0;
  char aside[NAME_MAX_BYTES];
  random_name(name, ".aside", aside);
  return renameat(dir, name, dir, aside) == 0 && renameat(dir, temporary, dir, name) == 0;
}

/** write_all() where a write past the process's limit on the size of files fails with EFBIG, as
 * every other write does, and does not end the process by SIGXFSZ. */
static int write_limited(int fd, const void *buffer, size_t size) {
  sigset_t limit, before, pending;
  sigemptyset(&limit);
  sigaddset(&limit, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &limit, &before);
  sigpending(&pending);
  const int good = write_all(fd, buffer, size);
  const int error = errno;
  /* The signal is the writing thread's; one that was there before stays. */
  if (!good && error == EFBIG && !sigismember(&pending, SIGXFSZ))
    while (sigtimedwait(&limit, NULL, &(struct timespec){0, 0}) < 0 && errno == EINTR)
      continue;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = error;
  return good;
}

/** Writes a temporary and renames it to `name`; on failure errno says why and nothing is left. */
static int write_file(int dir, int shared, const char *name, const entry_header *header,
                      const unsigned char *cubin) {
  char temporary[NAME_MAX_BYTES];
  const int fd = open_temporary(dir, name, temporary);
  if (fd < 0)
    return 0;
  int good = write_limited(fd, header, sizeof *header) &&
             write_limited(fd, cubin, header->info.cubin_bytes) &&
             (!shared || fchmod(fd, 0644) == 0) && fsync(fd) == 0;
  int error = errno;
  if (close(fd) != 0 && good) {
    good = 0;
    error = errno;
  }
  if (good && !rename_entry(dir, temporary, name)) {
    good = 0;
    error = errno;
  }
  if (!good) {
    unlinkat(dir, temporary, 0);
    errno = error;
  }
  return good;
}

int ap_entry_write(int dir, int shared, const ap_key *key, const unsigned char *cubin,
                   const ap_entry_info *info) {
  entry_header header;
  char name[NAME_MAX_BYTES];
  memset(&header, 0, sizeof header);
  memcpy(header.magic, magic, sizeof magic);
  header.schema = AP_CACHE_SCHEMA;
  header.header_bytes = sizeof header;
  memcpy(header.key, key->bytes, sizeof header.key);
  header.info = *info;
  checksum(&header, cubin, header.checksum);
  ap_entry_name(key, name);
  return write_file(dir, shared, name, &header, cubin);
}

uint64_t ap_entry_bytes(const ap_entry_info *info) {
  return sizeof(entry_header) + info->cubin_bytes;
}
