/* Failures: a status, and a sentence for the calling thread. Nothing is printed. */
#pragma once
#include "attnpress/attnpress.h"

enum { AP_SENTENCE_MAX = 2048 };

/** Sets the thread's sentence and returns `status`. Cold: what leads here is kept out of the way of
 * calls that succeed. */
attnpress_status ap_fail(attnpress_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

/** Fails with `status` and the sentence of the printf-like rest. */
#define RETURN_IF(condition, status, ...)                                                          \
  do {                                                                                             \
    if (condition)                                                                                 \
      return ap_fail(status, __VA_ARGS__);                                                         \
  } while (0)

/** Hands a callee's failure on; its sentence stands already. */
#define FORWARD_IF(call)                                                                           \
  do {                                                                                             \
    const attnpress_status forwarded_status = (call);                                              \
    if (__builtin_expect(forwarded_status != ATTNPRESS_OK, 0))                                     \
      return forwarded_status;                                                                     \
  } while (0)
