/* The cubin cache on disk: directories of entries, one file a cubin.
 *
 * An entry is a header and the cubin, checked in full when it is read: one that is damaged, or was
 * written for another key, is removed and compiled again. It is published by writing a temporary
 * file in the same directory and renaming it, so that readers see all of an entry or nothing. A
 * cubin is code: the user's directory is owned by the caller, layers that are only read by root or
 * the caller, and none of them is a symbolic link or can be written by others. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "attnpress/attnpress.h"
#include "core/log.h"

enum { AP_COMPILER_MAX = 48, AP_CACHE_SCHEMA = 1 };
#define AP_CACHE_DEFAULT_BYTES ((uint64_t)512 << 20)

typedef struct ap_key {
  unsigned char bytes[16];
} ap_key;
void ap_key_print(const ap_key *key, char text[33]);

/** What an entry says of its cubin. */
typedef struct ap_entry_info {
  char stem[128], tile[64], target[16];
  char compiler[AP_COMPILER_MAX]; /* "NVRTC 13.0" */
  int32_t driver_version;         /* of the process that wrote it; 0: none */
  int32_t registers, spill_bytes;
  int32_t reserved; /* 0 */
  double compile_ms;
  uint64_t cubin_bytes;
} ap_entry_info;

typedef struct ap_cache {
  char *user_dir;        /* absolute, or of no use; NULL: none */
  int user_dir_given;    /* 1: by the option or ATTNPRESS_CACHE_DIR; 0: the default place */
  char **read_only_dirs; /* so too, NULL-terminated; NULL: none */
  uint64_t max_bytes;
  ap_log *log;
} ap_cache;

/** Chooses the directories; opens and makes nothing. off: the user's directory is not used. */
attnpress_status ap_cache_init(ap_cache *cache, const char *user_dir, int off,
                               const char *const *read_only_dirs, uint64_t max_bytes, ap_log *log);
void ap_cache_free(ap_cache *cache);

/** Looks in the read-only layers, or in the user's directory; the caller frees *cubin. A miss is
 * ATTNPRESS_OK with *cubin NULL. A user's directory that must not be trusted is IO_ERROR where the
 * caller named it; where it is the default place, and in a layer, it is a miss and a warning. */
attnpress_status ap_cache_lookup_read_only(const ap_cache *cache, const ap_key *key,
                                           unsigned char **cubin, ap_entry_info *info);
attnpress_status ap_cache_lookup_user(const ap_cache *cache, const ap_key *key,
                                      unsigned char **cubin, ap_entry_info *info);
/** Writes an entry to the user's directory and keeps the directory within its bound. IO_ERROR where
 * that cannot be done; then nothing is left behind. */
attnpress_status ap_cache_publish(const ap_cache *cache, const ap_key *key,
                                  const unsigned char *cubin, const ap_entry_info *info);
/** Removes the user's entry, if there is one. */
void ap_cache_remove(const ap_cache *cache, const ap_key *key);

/** A lock on one key, against work that is done twice; nothing depends on it. Waits at most
 * `wait_ms`. -1: not locked, and the caller goes on without. *waited (may be NULL): 1 where another
 * process had it. */
int ap_cache_lock(const ap_cache *cache, const ap_key *key, int wait_ms, int *waited);
void ap_cache_unlock(int lock);

/* ---- For the tool ---- */

typedef struct ap_cache_file {
  char name[64];
  uint64_t bytes;       /* of the file */
  int64_t used_seconds; /* when it was last written or read, Unix time */
  int damaged;          /* 1: `info` is not known */
  ap_entry_info info;
} ap_cache_file;

/** Calls `visit` for each entry of a directory, sorted by name of kernel. A directory that does not
 * exist has none. */
attnpress_status ap_cache_scan(const char *dir, int (*visit)(void *user, const ap_cache_file *file),
                               void *user);
/** Removes every entry and every temporary file of the user's directory; other files stay. */
attnpress_status ap_cache_clear(const ap_cache *cache, size_t *files, uint64_t *bytes);
/** What a copy or a removal of entries did. */
typedef struct ap_cache_tally {
  size_t files, damaged; /* damaged: left out */
  uint64_t bytes;
} ap_cache_tally;

/** Copies entries of the user's directory for which `wanted` gives 1 (NULL: all) to `dir`, which is
 * made where it is missing: a layer that others may read (0755, its entries 0644). */
attnpress_status ap_cache_export(const ap_cache *cache, const char *dir,
                                 int (*wanted)(void *user, const ap_entry_info *info), void *user,
                                 ap_cache_tally *tally);
/** Copies the entries of `dir`, which must be as trustworthy as a layer, to the user's directory,
 * which stays within its bound. */
attnpress_status ap_cache_import(const ap_cache *cache, const char *dir,
                                 int (*wanted)(void *user, const ap_entry_info *info), void *user,
                                 ap_cache_tally *tally);
/** Removes the user's entries that were not used for `seconds` (0: any time), then those that were
 * used least recently until the rest takes at most `max_bytes`. */
attnpress_status ap_cache_prune(const ap_cache *cache, uint64_t max_bytes, int64_t seconds,
                                ap_cache_tally *tally);
/** OK where the user's directory is there and may be used, or is not there yet; otherwise the
 * sentence says what is wrong. */
attnpress_status ap_cache_check(const ap_cache *cache, int *exists);
/** OK where a directory is a layer that would be read; otherwise the sentence says what is wrong. */
attnpress_status ap_cache_check_layer(const char *path);
