/* A recursive descent over a JSON text. Nothing is built: a value is its place in the text. */
#include "json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

static const char *skip_space(const char *at) {
  return at + strspn(at, " \t\r\n");
}

/* Each of these steps over one thing; NULL: it is not there, and *error is where that shows. */

static const char *skip_string(const char *at, const char **error) {
  const char *const begin = at++;
  while (*at != '"') {
    if ((unsigned char)*at < 0x20) { /* the end of the text among them */
      *error = *at ? at : begin;
      return NULL;
    }
    at += *at == '\\' && at[1] != '\0' ? 2 : 1;
  }
  return at + 1;
}

static const char *skip_digits(const char *at, const char **error) {
  if (!isdigit((unsigned char)*at)) {
    *error = at;
    return NULL;
  }
  while (isdigit((unsigned char)*at))
    ++at;
  return at;
}

static const char *skip_number(const char *at, const char **error) {
  at += *at == '-';
  at = *at == '0' ? at + 1 : skip_digits(at, error);
  if (at != NULL && *at == '.')
    at = skip_digits(at + 1, error);
  if (at != NULL && (*at == 'e' || *at == 'E')) {
    ++at;
    at = skip_digits(at + (*at == '+' || *at == '-'), error);
  }
  return at;
}

static const char *skip_value(const char *at, int depth, json_kind *kind, const char **error);

/** An array, or an object with names before its values. */
static const char *skip_items(const char *at, int depth, int named, const char **error) {
  const char close = named ? '}' : ']';
  json_kind kind;
  at = skip_space(at + 1);
  if (*at == close)
    return at + 1;
  for (;;) {
    if (named) {
      if (*at != '"') {
        *error = at;
        return NULL;
      }
      if ((at = skip_string(at, error)) == NULL)
        return NULL;
      at = skip_space(at);
      if (*at != ':') {
        *error = at;
        return NULL;
      }
      at = skip_space(at + 1);
    }
    if ((at = skip_value(at, depth + 1, &kind, error)) == NULL)
      return NULL;
    at = skip_space(at);
    if (*at == close)
      return at + 1;
    if (*at != ',') {
      *error = at;
      return NULL;
    }
    at = skip_space(at + 1);
  }
}

static const char *skip_value(const char *at, int depth, json_kind *kind, const char **error) {
  static const struct {
    const char *word;
    json_kind kind;
  } words[] = {{"null", JSON_NULL}, {"false", JSON_FALSE}, {"true", JSON_TRUE}};
  for (size_t i = 0; i < 3; ++i)
    if (strncmp(at, words[i].word, strlen(words[i].word)) == 0) {
      *kind = words[i].kind;
      return at + strlen(words[i].word);
    }
  *kind = *at == '"'   ? JSON_STRING
          : *at == '[' ? JSON_ARRAY
          : *at == '{' ? JSON_OBJECT
                       : JSON_NUMBER;
  if (*kind == JSON_STRING)
    return skip_string(at, error);
  if (*kind == JSON_NUMBER)
    return skip_number(at, error);
  if (depth >= DEPTH_MAX) {
    *error = at;
    return NULL;
  }
  return skip_items(at, depth, *kind == JSON_OBJECT, error);
}

int json_parse(const char *text, json_value *value, size_t *error) {
  const char *wrong = text;
  value->begin = skip_space(text);
  value->end = skip_value(value->begin, 0, &value->kind, &wrong);
  if (value->end != NULL && *(wrong = skip_space(value->end)) == '\0')
    return 1;
  *error = (size_t)(wrong - text);
  return 0;
}

json_value json_member(json_value object, const char *name) {
  const char *error, *at = object.begin;
  if (object.kind != JSON_OBJECT)
    return (json_value){JSON_ABSENT, NULL, NULL};
  for (at = skip_space(at + 1); *at == '"';) { /* the text was parsed: nothing is missing */
    const char *const key = at + 1;
    at = skip_string(at, &error);
    const size_t size = (size_t)(at - 1 - key);
    json_value value;
    value.begin = skip_space(skip_space(at) + 1);
    value.end = skip_value(value.begin, 0, &value.kind, &error);
    if (size == strlen(name) && strncmp(key, name, size) == 0)
      return value;
    at = skip_space(value.end);
    at = *at == ',' ? skip_space(at + 1) : at;
  }
  return (json_value){JSON_ABSENT, NULL, NULL};
}

long json_int(json_value value) {
  if (value.kind != JSON_NUMBER)
    return -1;
  char *end;
  const long number = strtol(value.begin, &end, 10);
  return end == value.end && number >= 0 && number <= 0x7fffffff ? number : -1;
}

int json_is(json_value value, const char *text) {
  return value.kind == JSON_STRING && (size_t)(value.end - value.begin) == strlen(text) + 2 &&
         strncmp(value.begin + 1, text, strlen(text)) == 0;
}
