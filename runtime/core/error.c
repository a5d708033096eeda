/* The status sentences, and the calling thread's last error. */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_error[AP_SENTENCE_MAX];

attnpress_status ap_fail(attnpress_status status, const char *format, ...) {
  /* Through a buffer of its own: a parameter may be the last error itself. */
  char sentence[AP_SENTENCE_MAX];
  va_list values;
  va_start(values, format);
  vsnprintf(sentence, sizeof sentence, format, values);
  va_end(values);
  snprintf(last_error, sizeof last_error, "%s", sentence);
  return status;
}

const char *attnpress_last_error(void) {
  return last_error;
}

const char *attnpress_status_string(attnpress_status status) {
  switch (status) {
#define STATUS_CASE(name, value, sentence)                                                         \
  case ATTNPRESS_##name:                                                                           \
    return sentence;
    ATTNPRESS_STATUS_MAP(STATUS_CASE)
#undef STATUS_CASE
  default:
    return "a status that this version does not know";
  }
}

int attnpress_version(void) {
  return ATTNPRESS_VERSION;
}
