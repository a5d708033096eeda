/* Hands messages to the caller's function. Nothing is printed. */
#include "core/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

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
