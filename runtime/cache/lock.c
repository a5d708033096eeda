/* Locks on keys. */
#define _GNU_SOURCE /* O_NOFOLLOW, F_OFD_SETLK */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cache/parts.h"

enum { LOCK_POLL_MS = 20, HELD_MAX = 256 };

/* ---- Children -------------------------------------------------------------------------------- */

/* A child that is forked has the descriptors of its parent's locks, and would keep the locks after
 * the parent has died. So it closes them. */
static _Atomic int held[HELD_MAX]; /* 1 + a lock's descriptor; 0: none */

static int change_held(int from, int to) {
  for (int i = 0; i < HELD_MAX; ++i) {
    int expected = from;
    if (atomic_compare_exchange_strong(&held[i], &expected, to))
      return 1;
  }
  return 0;
}

static void close_held(void) {
  for (int i = 0; i < HELD_MAX; ++i) {
    const int fd = atomic_exchange(&held[i], 0) - 1;
    if (fd >= 0)
      close(fd);
  }
}

static void register_children(void) {
  pthread_atfork(NULL, NULL, close_held);
}

/* ---- Locks ----------------------------------------------------------------------------------- */

int ap_cache_lock(const ap_cache *cache, const ap_key *key, int wait_ms, int *waited) {
  int dir;
  if (waited != NULL)
    *waited = 0;
  if (ap_cache_open_user_dir(cache, &dir) != ATTNPRESS_OK)
    return -1;
  const int fd = openat(dir, ".lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  close(dir);
  if (fd < 0)
    return -1;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, register_children);
  if (!change_held(0, fd + 1)) {
    close(fd);
    return -1;
  }
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
  change_held(fd + 1, 0);
  close(fd);
  return -1;
}

void ap_cache_unlock(int lock) {
  if (lock < 0 || !change_held(lock + 1, 0)) /* or this is a child, which has closed it */
    return;
  /* In so many words: a child may have been forked that has not closed it yet. */
  struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
  fcntl(lock, F_OFD_SETLK, &all);
  close(lock);
}
