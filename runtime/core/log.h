/* Where a handle's messages go. */
#pragma once

typedef struct ap_log {
  void (*function)(void *user, int level, const char *message); /* NULL: silent */
  void *user;
} ap_log;

void ap_log_line(const ap_log *log, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
