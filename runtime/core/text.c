/* A text that grows: what the renderers write to. Running out of memory is remembered in `failed`,
 * so that a renderer need not check each append. */
#include "core/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Room for `size` more bytes and a NUL; 0 where memory ran out. */
static int reserve(ap_text *text, size_t size) {
  if (text->failed || size > SIZE_MAX / 4 || text->size > SIZE_MAX / 4) {
    text->failed = 1;
    return 0;
  }
  const size_t needed = text->size + size + 1;
  if (needed <= text->capacity)
    return 1;
  size_t capacity = text->capacity ? text->capacity : 4096;
  while (capacity < needed)
    capacity *= 2;
  char *data = realloc(text->data, capacity);
  if (data == NULL) {
    text->failed = 1;
    return 0;
  }
  text->data = data;
  text->capacity = capacity;
  return 1;
}

void ap_text_append(ap_text *text, const char *data, size_t size) {
  if (!reserve(text, size))
    return;
  memcpy(text->data + text->size, data, size);
  text->size += size;
  text->data[text->size] = '\0';
}

void ap_text_append_int(ap_text *text, int64_t value) {
  char digits[24];
  const int size = snprintf(digits, sizeof digits, "%" PRId64, value);
  ap_text_append(text, digits, (size_t)size);
}

void ap_text_append_string(ap_text *text, const char *value) {
  ap_text_append(text, value, strlen(value));
}
