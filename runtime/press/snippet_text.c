/* Names, numbers and lines of snippets' texts. */
#include "press/snippet_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
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

static void begin_lines(ap_text *out, const char *title, const char *which) {
  ap_text_append_string(out, "#line 1 \"");
  ap_text_append_string(out, title);
  ap_text_append_string(out, which);
  ap_text_append_string(out, "\"\n");
}

void ap_snippet_add_lines(ap_text *out, const char *title, const char *which, const char *text) {
  begin_lines(out, title, which);
  ap_text_append_string(out, text);
  ap_text_append_string(out, "\n");
}

void ap_snippet_add_dual_lines(ap_text *out, const char *title, const char *which,
                               const char *text) {
  ap_text_append_string(out, "#define float SnippetDual\n");
  ap_snippet_add_lines(out, title, which, text);
  ap_text_append_string(out, "#undef float\n");
}

/* ---- Both sides of && and || ---- */

/* C asks the right side of && and || only where the left one leaves it open: branches, one a pair
 * of query and key, and loads that wait for one another. Buffers are read within their bounds
 * whatever the index, so that both sides may be asked: a && b is written (bool)(a) & (bool)(b). */

static void add_both_sides(ap_text *out, const char *begin, const char *end);

/** Past a name, or what skip_other() passes, or an operator of two characters. */
static const char *skip_token(const char *text) {
  if (starts_name(*text)) {
    while (goes_on_name(*text))
      ++text;
    return text;
  }
  if ((text[0] == '&' || text[0] == '|' || text[0] == ':') && text[1] == text[0])
    return text + 2;
  return skip_other(text);
}

/** Past the bracket that closes the one at `text`. */
static const char *skip_brackets(const char *text) {
  int depth = 0;
  do {
    depth += (*text == '(') - (*text == ')');
    text = skip_token(text);
  } while (depth > 0);
  return text;
}

/** Whether a text is an expression whose brackets close, without statements. */
static int is_expression(const char *text) {
  int depth = 0;
  for (; *text != '\0' && depth >= 0; text = skip_token(text)) {
    if (strchr(";{}[]\"'#", *text) != NULL)
      return 0;
    depth += (*text == '(') - (*text == ')');
  }
  return depth == 0;
}

/** The first of these operators outside brackets, or the end; a character that is one of an operator
 * of two characters does not count as one of one. */
static const char *find_operator(const char *begin, const char *end, const char *one,
                                 const char *two) {
  while (begin < end) {
    const char *next = *begin == '(' ? skip_brackets(begin) : skip_token(begin);
    if (next == begin + 1
            ? strchr(one, *begin) != NULL
            : next == begin + 2 && begin[0] == begin[1] && strchr(two, *begin) != NULL)
      return begin;
    begin = next;
  }
  return end;
}

static void add_until(ap_text *out, const char *begin, const char *end) {
  ap_text_append(out, begin, (size_t)(end - begin));
}

/** An operand, of which only what its brackets hold may change. */
static void add_operand(ap_text *out, const char *begin, const char *end) {
  while (begin < end) {
    const char *next = *begin == '(' ? skip_brackets(begin) : skip_token(begin);
    if (*begin == '(') {
      ap_text_append_string(out, "(");
      add_both_sides(out, begin + 1, next - 1);
      ap_text_append_string(out, ")");
    } else {
      add_until(out, begin, next);
    }
    begin = next;
  }
}

/** What && joins, of which there may be one. */
static void add_all_of(ap_text *out, const char *begin, const char *end) {
  const char *to = find_operator(begin, end, "", "&");
  ap_text_append_string(out, "(bool)(");
  add_operand(out, begin, to);
  ap_text_append_string(out, ")");
  if (to < end) {
    ap_text_append_string(out, " & ");
    add_all_of(out, to + 2, end);
  }
}

/** What || joins; of which there may be one. */
static void add_any_of(ap_text *out, const char *begin, const char *end) {
  const char *to = find_operator(begin, end, "", "|");
  ap_text_append_string(out, "(");
  add_all_of(out, begin, to);
  ap_text_append_string(out, ")");
  if (to < end) {
    ap_text_append_string(out, " | ");
    add_any_of(out, to + 2, end);
  }
}

/** Expressions between commas, ? and :. */
static void add_both_sides(ap_text *out, const char *begin, const char *end) {
  const char *to = find_operator(begin, end, ",?:", "");
  if (find_operator(begin, to, "", "&|") < to) {
    ap_text_append_string(out, "(");
    add_any_of(out, begin, to);
    ap_text_append_string(out, ")");
  } else {
    add_operand(out, begin, to);
  }
  if (to < end) {
    add_until(out, to, to + 1);
    add_both_sides(out, to + 1, end);
  }
}

void ap_snippet_add_condition(ap_text *out, const char *title, const char *which,
                              const char *text) {
  if (!is_expression(text)) {
    ap_snippet_add_lines(out, title, which, text);
    return;
  }
  ap_text whole = {0}; /* a comment at its end ends with the line */
  ap_text_append_string(&whole, text);
  ap_text_append_string(&whole, "\n");
  begin_lines(out, title, which);
  if (whole.data != NULL)
    add_both_sides(out, whole.data, whole.data + strlen(whole.data));
  out->failed |= whole.failed;
  free(whole.data);
}

/* ---- Whole numbers ---- */

int ap_snippet_is_whole(const char *text,
                        int (*is_whole)(const void *of, const char *name, size_t size),
                        const void *of) {
  if (!is_expression(text))
    return 0;
  for (const char *next; *text != '\0'; text = next) {
    next = skip_token(text);
    const size_t size = (size_t)(next - text);
    if (starts_name(*text)              ? !is_whole(of, text, size)
        : isdigit((unsigned char)*text) ? strspn(text, "0123456789") < size
                                        : size == 1 && strchr(" \t\r\n()+-*/%<>=!,", *text) == NULL)
      return 0;
    /* No shifts and no assignments: what begins with <, >, = or ! ends as a comparison. */
    if (strchr("<>", *text) != NULL && *next == *text)
      return 0;
    if (strchr("<>!", *text) != NULL && *next == '=')
      ++next;
    else if (*text == '=' && *next++ != '=')
      return 0;
  }
  return 1;
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
