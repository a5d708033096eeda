/* What the files of the cache share. Names in a directory:
 *
 *     <32 hex digits of the key>.entry   an entry
 *     <32 hex digits>.<16 more>.tmp      an entry that is being written, or whose writer died
 *     <32 hex digits>.<16 more>.aside    something else that stood in an entry's place
 *     .lock                              locks on keys, one byte each; empty
 *
 * Files of other names, and those put aside, are not the cache's: not counted, not removed. */
#pragma once
#include "cache/cache.h"

enum { NAME_MAX_BYTES = 64 };

/* ---- directory.c ----------------------------------------------------------------------------- */

typedef enum ap_dir_use { AP_DIR_USER, AP_DIR_READ_ONLY } ap_dir_use;

/** Opens a directory. *fd -1 with ATTNPRESS_OK: it is not there, or cannot be opened; errno says
 * why. IO_ERROR: it must not be trusted. */
attnpress_status ap_cache_open_dir(const char *path, ap_dir_use use, int *fd);
/** The user's directory, made where it is missing. IO_ERROR where that fails, or there is none. */
attnpress_status ap_cache_open_user_dir(const ap_cache *cache, int *fd);
/** A directory that is copied from; make: 1 for one that is copied to and that others are to read,
 * made with mode 0755 where it is missing. A relative path is fine. IO_ERROR where it cannot be
 * opened or made, or must not be trusted. */
attnpress_status ap_cache_open_layer(const char *path, int make, int *fd);

/* ---- entry.c --------------------------------------------------------------------------------- */

void ap_entry_name(const ap_key *key, char name[NAME_MAX_BYTES]);
/** 1 and the key where a file's name is an entry's. */
int ap_entry_name_parse(const char *name, ap_key *key);
/** 1 where a file's name is that of an entry that is being written. */
int ap_is_temporary(const char *name);

typedef enum ap_entry_state {
  AP_ENTRY_MISSING,
  AP_ENTRY_GOOD,
  AP_ENTRY_DAMAGED,
  AP_ENTRY_UNREAD /* memory ran out */
} ap_entry_state;

/** Reads and checks an open entry; *cubin is the caller's to free. */
ap_entry_state ap_entry_read(int fd, ap_dir_use use, const ap_key *key, unsigned char **cubin,
                             ap_entry_info *info);
/** The same by its key; an entry of the user's is marked as used now. */
ap_entry_state ap_entry_find(int dir, ap_dir_use use, const ap_key *key, unsigned char **cubin,
                             ap_entry_info *info);
/** Writes an entry, all of it or nothing, with mode 0600, or 0644 where it is `shared`; 0: errno says
 * why, and nothing is left behind. */
int ap_entry_write(int dir, int shared, const ap_key *key, const unsigned char *cubin,
                   const ap_entry_info *info);
/** Bytes of its file. */
uint64_t ap_entry_bytes(const ap_entry_info *info);

/* ---- tidy.c ---------------------------------------------------------------------------------- */

/** Removes temporaries whose writers died, and the entries used least recently until the rest is
 * within the bound; never `keep`. */
void ap_cache_tidy(const ap_cache *cache, int dir, const char *keep);
