/* The list of a handle's snippets. */
#include "press/snippet.h"

#include <stdlib.h>
#include <string.h>

const ap_snippet *ap_snippet_find(ap_snippets *snippets, const unsigned char *key) {
  const ap_snippet *s = atomic_load_explicit(snippets, memory_order_acquire);
  while (s != NULL && memcmp(s->key, key, AP_SNIPPET_KEY_BYTES) != 0)
    s = s->next;
  return s;
}

int ap_snippet_keep(ap_snippets *snippets, ap_snippet *fresh) {
  ap_snippet *first = atomic_load_explicit(snippets, memory_order_relaxed);
  fresh->next = first;
  fresh->number = first != NULL ? first->number + 1 : 1;
  if (fresh->number > AP_SNIPPETS_MAX)
    return 0;
  atomic_store_explicit(snippets, fresh, memory_order_release);
  return 1;
}

void ap_snippet_free(ap_snippet *snippet) {
  if (snippet == NULL)
    return;
  free(snippet->text.data);
  free(snippet->scope.data);
  free(snippet);
}

void ap_snippets_free(ap_snippets *snippets) {
  ap_snippet *s = atomic_load_explicit(snippets, memory_order_relaxed);
  while (s != NULL) {
    ap_snippet *next = s->next;
    ap_snippet_free(s);
    s = next;
  }
  atomic_store_explicit(snippets, NULL, memory_order_relaxed);
}
