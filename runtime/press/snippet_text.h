/* What the texts of all families that take snippets have in common: a title, names, numbers, and lines
 * of source. C that this part does not understand, except for the names that a text uses. */
#pragma once
#include "attnpress/attnpress.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/text.h"

enum { AP_SNIPPET_TEXT_BYTES_MAX = 16384, AP_SNIPPET_SCALARS_MAX = 16 };

/** Whether a text is there: one of blanks is none. */
int ap_snippet_is_given(const char *text);
/** Whether a text uses a name, outside of comments and strings. NULL: it does not. */
int ap_snippet_uses(const char *text, const char *name);

/** What a field of a snippet belongs to, for sentences, and the names that its texts have without
 * scalars and buffers. */
typedef struct ap_snippet_scope {
  const char *of; /* "score_mod" */
  const char *const *names;
  int count;
} ap_snippet_scope;

/** That a snippet's own name, which errors begin with, has none but letters, digits, '_', '-', '.'. */
attnpress_status ap_snippet_check_title(const ap_snippet_scope *scope, const char *name);
attnpress_status ap_snippet_check_size(const ap_snippet_scope *scope, const char *field,
                                       const char *text);
attnpress_status ap_snippet_check_count(const ap_snippet_scope *scope, const char *what,
                                        int32_t count, int most, const void *list);
/** That entry i of `what`s ("scalars") may be called so. */
attnpress_status ap_snippet_check_name(const ap_snippet_scope *scope, const char *what, int i,
                                       const char *name);
attnpress_status ap_snippet_check_scalars(const ap_snippet_scope *scope,
                                          const attnpress_score_scalar *scalars, int count);

/** Hashes a text; NULL is the empty one. */
void ap_snippet_hash_text(ap_hasher *hasher, const char *text);
/** Hashes a name and what is compiled for it. */
void ap_snippet_hash_name(ap_hasher *hasher, const char *name, int32_t dtype, int32_t rank);

/** Declares the scalars that the text uses: each is `source`, its place and `)`. */
void ap_snippet_add_scalars(ap_text *out, const char *text, const attnpress_score_scalar *scalars,
                            int count, const char *float_source, const char *int_source);
/** The caller's own lines, as such: errors name them by `title` and `which`. */
void ap_snippet_add_lines(ap_text *out, const char *title, const char *which, const char *text);
/** The same of one expression, true or false, of which both sides of && and || are asked. */
void ap_snippet_add_condition(ap_text *out, const char *title, const char *which, const char *text);
/** Whether such an expression has nothing but whole numbers, operators of arithmetic, comparisons, &&,
 * ||, !, and names of which `is_whole` says that they are whole numbers or functions of them. */
int ap_snippet_is_whole(const char *text,
                        int (*is_whole)(const void *of, const char *name, size_t size),
                        const void *of);
/** The same where what is a float in the text is to be a number with its derivative (dual.cuh). */
void ap_snippet_add_dual_lines(ap_text *out, const char *title, const char *which,
                               const char *text);

/** Whether a line of the compiler's has these words. */
int ap_snippet_line_has(const char *line, int length, const char *words);
/** What a scalar is for a kernel: its 32 bits. */
uint32_t ap_snippet_scalar_bits(const attnpress_score_scalar *scalar);
