/* Names, numbers and lines of snippets' texts. */
#include "press/snippet_text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "press/snippet.h"

enum { NAME_MAX_CHARACTERS = 31 };

int ap_snippet_is_given(const char *text) {
  return text != NULL && text[strspn(text, " \t\r\n")] != '\0';
}

/* ---- Names ----------------------------------------------------------------------------------- */

static int starts_name(char c) {
  return isalpha((unsigned char)c) || c == '_';
}

static int goes_on_name(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

/** Past what is at `text` and no name: a comment, a string, a number, one character. */
static const char *skip_other(const char *text) {
  if (text[0] == '/' && text[1] == '/')
    return text + strcspn(text, "\n");
  if (text[0] == '/' && text[1] == '*') {
    const char *end = strstr(text + 2, "*/");
    return end != NULL ? end + 2 : text + strlen(text);
  }
  if (text[0] == '"' || text[0] == '\'') {
    const char quote = *text++;
    while (*text != '\0' && *text != quote)
      text += *text == '\\' && text[1] != '\0' ? 2 : 1;
    return *text != '\0' ? text + 1 : text;
  }
  if (isdigit((unsigned char)*text)) { /* with its suffix */
    while (goes_on_name(*text) || *text == '.')
      ++text;
    return text;
  }
  return text + 1;
}

int ap_snippet_uses(const char *text, const char *name) {
  const size_t size = strlen(name);
  while (text != NULL && *text != '\0') {
    if (!starts_name(*text)) {
      text = skip_other(text);
      continue;
    }
    const char *begin = text;
    while (goes_on_name(*text))
      ++text;
    if ((size_t)(text - begin) == size && memcmp(begin, name, size) == 0)
      return 1;
  }
  return 0;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* What means something else in C, or in a device header. */
static const char *const words[] = {
    "clampi",   "INFINITY",  "int",      "float",   "double",   "bool",    "if",        "else",
    "for",      "while",     "do",       "return",  "const",    "static",  "struct",    "class",
    "new",      "delete",    "true",     "false",   "auto",     "void",    "char",      "short",
    "long",     "unsigned",  "signed",   "switch",  "case",     "break",   "continue",  "goto",
    "default",  "sizeof",    "this",     "using",   "template", "typedef", "namespace", "operator",
    "register", "volatile",  "enum",     "union",   "extern",   "inline",  "mutable",   "private",
    "public",   "protected", "friend",   "virtual", "typename", "and",     "or",        "not",
    "xor",      "constexpr", "decltype", "alignas", "asm",      "min",     "max"};

attnpress_status ap_snippet_check_title(const ap_snippet_scope *scope, const char *name) {
  size_t size = 0;
  while (isalnum((unsigned char)name[size]) || (name[size] != '\0' && strchr("_-.", name[size])))
    ++size;
  RETURN_IF(size == 0 || name[size] != '\0' || size >= AP_SNIPPET_NAME_MAX,
            ATTNPRESS_INVALID_ARGUMENT,
            "%s.name is \"%.80s\"; it must be 1 to %d letters, digits, '_', '-' and '.'", scope->of,
            name, AP_SNIPPET_NAME_MAX - 1);
  return ATTNPRESS_OK;
}

attnpress_status ap_snippet_check_size(const ap_snippet_scope *scope, const char *field,
                                       const char *text) {
  RETURN_IF(text != NULL && strlen(text) > AP_SNIPPET_TEXT_BYTES_MAX, ATTNPRESS_INVALID_ARGUMENT,
            "%s.%s has %zu bytes; it may have %d", scope->of, field, strlen(text),
            AP_SNIPPET_TEXT_BYTES_MAX);
  return ATTNPRESS_OK;
}

attnpress_status ap_snippet_check_count(const ap_snippet_scope *scope, const char *what,
                                        int32_t count, int most, const void *list) {
  RETURN_IF(count < 0 || count > most, ATTNPRESS_INVALID_ARGUMENT,
            "%s.%s_count is %d; it must be 0 to %d", scope->of, what, (int)count, most);
  RETURN_IF(count > 0 && list == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "%s.%ss is NULL and %s_count is %d", scope->of, what, what, (int)count);
  return ATTNPRESS_OK;
}

attnpress_status ap_snippet_check_name(const ap_snippet_scope *scope, const char *what, int i,
                                       const char *name) {
  RETURN_IF(name == NULL || name[0] == '\0', ATTNPRESS_INVALID_ARGUMENT,
            "%s.%s[%d].name is %s; a snippet needs a name to use it by", scope->of, what, i,
            name == NULL ? "NULL" : "\"\"");
  size_t size = 0;
  while (goes_on_name(name[size]))
    ++size;
  RETURN_IF(!starts_name(name[0]) || name[size] != '\0' || size > NAME_MAX_CHARACTERS,
            ATTNPRESS_INVALID_ARGUMENT,
            "%s.%s[%d].name is \"%.64s\"; it must be a name of C of up to %d characters", scope->of,
            what, i, name, NAME_MAX_CHARACTERS);
  int taken = strncmp(name, "snippet_", 8) == 0 || strncmp(name, "attnpress_", 10) == 0;
  for (int n = 0; n < scope->count; ++n)
    taken |= strcmp(name, scope->names[n]) == 0;
  for (size_t n = 0; n < sizeof words / sizeof *words; ++n)
    taken |= strcmp(name, words[n]) == 0;
  RETURN_IF(taken, ATTNPRESS_INVALID_ARGUMENT,
            "%s.%s[%d].name is \"%s\", which means something else in a snippet; choose another",
            scope->of, what, i, name);
  return ATTNPRESS_OK;
}

attnpress_status ap_snippet_check_scalars(const ap_snippet_scope *scope,
                                          const attnpress_score_scalar *scalars, int count) {
  for (int i = 0; i < count; ++i) {
    const attnpress_score_scalar *s = &scalars[i];
    FORWARD_IF(ap_snippet_check_name(scope, "scalars", i, s->name));
    RETURN_IF(s->dtype != ATTNPRESS_FP32 && s->dtype != ATTNPRESS_INT32, ATTNPRESS_INVALID_ARGUMENT,
              "%s.scalars[%d] (%s).dtype is %d; it must be ATTNPRESS_FP32 (3) or ATTNPRESS_INT32 "
              "(4)",
              scope->of, i, s->name, (int)s->dtype);
    RETURN_IF(s->reserved != 0, ATTNPRESS_INVALID_ARGUMENT,
              "%s.scalars[%d] (%s).reserved is %d; it must be 0", scope->of, i, s->name,
              (int)s->reserved);
  }
  return ATTNPRESS_OK;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

void ap_snippet_hash_text(ap_hasher *hasher, const char *text) {
  const char *given = text != NULL ? text : "";
  ap_hash_part(hasher, given, strlen(given));
}

void ap_snippet_hash_name(ap_hasher *hasher, const char *name, int32_t dtype, int32_t rank) {
  const int32_t kind[2] = {dtype, rank};
  ap_snippet_hash_text(hasher, name);
  ap_hash_part(hasher, kind, sizeof kind);
}

/* ---- Source ---------------------------------------------------------------------------------- */

void ap_snippet_add_scalars(ap_text *out, const char *text, const attnpress_score_scalar *scalars,
                            int count, const char *float_source, const char *int_source) {
  for (int i = 0; i < count; ++i) {
    if (!ap_snippet_uses(text, scalars[i].name))
      continue;
    const int is_int = scalars[i].dtype == ATTNPRESS_INT32;
    ap_text_append_string(out, is_int ? "  const int " : "  const float ");
    ap_text_append_string(out, scalars[i].name);
    ap_text_append_string(out, " = ");
    ap_text_append_string(out, is_int ? int_source : float_source);
    ap_text_append_int(out, i);
    ap_text_append_string(out, ");\n");
  }
}

void ap_snippet_add_lines(ap_text *out, const char *title, const char *which, const char *text) {
  ap_text_append_string(out, "#line 1 \"");
  ap_text_append_string(out, title);
  ap_text_append_string(out, which);
  ap_text_append_string(out, "\"\n");
  ap_text_append_string(out, text);
  ap_text_append_string(out, "\n");
}

void ap_snippet_add_dual_lines(ap_text *out, const char *title, const char *which,
                               const char *text) {
  ap_text_append_string(out, "#define float SnippetDual\n");
  ap_snippet_add_lines(out, title, which, text);
  ap_text_append_string(out, "#undef float\n");
}

/* ---- Errors, arguments ----------------------------------------------------------------------- */

int ap_snippet_line_has(const char *line, int length, const char *given) {
  const size_t size = strlen(given);
  for (int i = 0; i + (int)size <= length; ++i)
    if (memcmp(line + i, given, size) == 0)
      return 1;
  return 0;
}

uint32_t ap_snippet_scalar_bits(const attnpress_score_scalar *scalar) {
  uint32_t bits;
  if (scalar->dtype == ATTNPRESS_INT32)
    memcpy(&bits, &scalar->int_value, sizeof bits);
  else
    memcpy(&bits, &scalar->value, sizeof bits);
  return bits;
}
