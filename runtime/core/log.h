/* A handle's messages. They are kept where they arise, perhaps while a lock is held or others wait,
 * and handed out by ap_log_deliver() where neither is so: the caller's function may then call the
 * library, or not return. */
#pragma once
#include <pthread.h>

typedef struct ap_log_entry ap_log_entry;

typedef struct ap_log {
  void (*function)(void *user, int level, const char *message); /* NULL: silent */
  void *user;
  pthread_mutex_t lock; /* the list; never held while `function` runs */
  ap_log_entry *first, *last;
} ap_log;

void ap_log_init(ap_log *log, void (*function)(void *user, int level, const char *message),
                 void *user);
/** Drops what was not handed out. */
void ap_log_free(ap_log *log);

/** Keeps a message; it is lost where memory runs out. log may be NULL. */
void ap_log_line(ap_log *log, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** Hands out what is kept, oldest first. The calling thread holds no lock and is in nobody's way.
 * Its last error stays what it is. */
void ap_log_deliver(ap_log *log);
