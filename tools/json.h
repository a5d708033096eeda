/* Reads values of a JSON text (RFC 8259), for configuration files of models. */
#pragma once
#include <stddef.h>

typedef enum json_kind {
  JSON_ABSENT,
  JSON_NULL,
  JSON_FALSE,
  JSON_TRUE,
  JSON_NUMBER,
  JSON_STRING,
  JSON_ARRAY,
  JSON_OBJECT,
} json_kind;

/** A value: where it stands in the text. */
typedef struct json_value {
  json_kind kind;
  const char *begin, *end;
} json_value;

/** The value that a whole text is; 1. 0: it is no JSON, and *error is the byte where that shows. */
int json_parse(const char *text, json_value *value, size_t *error);
/** A member of an object that json_parse() took; ABSENT where there is none, or it is no object. */
json_value json_member(json_value object, const char *name);
/** A whole number of at most 2^31 - 1; -1: it is something else. */
long json_int(json_value value);
/** 1 where the value is this string, without escapes. */
int json_is(json_value value, const char *text);
