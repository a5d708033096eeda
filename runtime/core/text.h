/* A text that grows: what the renderers write to. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/** data is NUL-terminated once something was appended. failed: memory ran out. */
typedef struct ap_text {
  char *data;
  size_t size, capacity;
  int failed;
} ap_text;

void ap_text_append(ap_text *text, const char *data, size_t size);
void ap_text_append_int(ap_text *text, int64_t value);
void ap_text_append_string(ap_text *text, const char *value);
