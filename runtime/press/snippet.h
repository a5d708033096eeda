/* A caller's text that becomes the end of a kernel's source. What it says, and what stands around
 * it, is the family's; this part keeps it, once, for as long as the handle. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "core/text.h"

enum { AP_SNIPPET_KEY_BYTES = 16, AP_SNIPPET_NAME_MAX = 64, AP_SNIPPETS_MAX = 8191 };

/** Immutable once it is kept. */
typedef struct ap_snippet {
  struct ap_snippet *next;
  unsigned char key[AP_SNIPPET_KEY_BYTES]; /* of all that the text is made of */
  uint32_t number;                         /* from 1, no other of the handle has it */
  char name[AP_SNIPPET_NAME_MAX];          /* as its caller calls it */
  ap_text text;
  ap_text scope; /* the names that it may use, for the sentence of an error */
  /** What is probably meant, for a line of the compiler's; NULL: there is nothing to say. */
  const char *(*explain)(const char *line, int length);
} ap_snippet;

/** Those of a handle: readers take no lock. */
typedef _Atomic(ap_snippet *) ap_snippets;

/** The snippet of a key; NULL: it is not kept. */
const ap_snippet *ap_snippet_find(ap_snippets *snippets, const unsigned char *key);
/** Keeps one, which is then the list's; the caller holds a lock and knows that it is new. 0: there
 * are too many. */
int ap_snippet_keep(ap_snippets *snippets, ap_snippet *fresh);
void ap_snippet_free(ap_snippet *snippet);
void ap_snippets_free(ap_snippets *snippets);
