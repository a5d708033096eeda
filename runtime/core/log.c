/* Keeps messages and hands them to the caller's function. Nothing is printed. */
#define _POSIX_C_SOURCE 200809L
#include "core/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

enum { LINE_MAX_BYTES = 4096 }; /* longer messages are cut */

struct ap_log_entry {
  ap_log_entry *next;
  int level;
  char message[];
};

void ap_log_init(ap_log *log, void (*function)(void *user, int level, const char *message),
                 void *user) {
  *log = (ap_log){.function = function, .user = user};
  pthread_mutex_init(&log->lock, NULL);
}

/** Takes the oldest entry out; NULL: there is none. */
static ap_log_entry *take(ap_log *log) {
  pthread_mutex_lock(&log->lock);
  ap_log_entry *entry = log->first;
  if (entry != NULL)
    log->first = entry->next;
  pthread_mutex_unlock(&log->lock);
  return entry;
}

void ap_log_free(ap_log *log) {
  for (ap_log_entry *entry; (entry = take(log)) != NULL;)
    free(entry);
  pthread_mutex_destroy(&log->lock);
}

void ap_log_line(ap_log *log, int level, const char *format, ...) {
  if (log == NULL || log->function == NULL)
    return;
  char line[LINE_MAX_BYTES];
  va_list values;
  va_start(values, format);
  vsnprintf(line, sizeof line, format, values);
  va_end(values);
  const size_t size = strlen(line) + 1;
  ap_log_entry *entry = malloc(sizeof *entry + size);
  if (entry == NULL)
    return;
  entry->next = NULL;
  entry->level = level;
  memcpy(entry->message, line, size);
  pthread_mutex_lock(&log->lock);
  if (log->first == NULL)
    log->first = entry;
  else
    log->last->next = entry;
  log->last = entry;
  pthread_mutex_unlock(&log->lock);
}

void ap_log_deliver(ap_log *log) {
  if (log == NULL || log->function == NULL)
    return;
  ap_log_entry *entry = take(log);
  if (entry == NULL)
    return;
  char sentence[AP_SENTENCE_MAX], line[LINE_MAX_BYTES];
  snprintf(sentence, sizeof sentence, "%s", attnpress_last_error());
  for (; entry != NULL; entry = take(log)) {
    const int level = entry->level;
    snprintf(line, sizeof line, "%s", entry->message);
    free(entry); /* before the call, which may not return */
    log->function(log->user, level, line);
  }
  ap_fail(ATTNPRESS_OK, "%s", sentence);
}
