/* Memory for tensors, each far away from all others, so that what a wrong index finds is not another
 * one. Pages that are not touched cost nothing. */
#pragma once
#include <stddef.h>

typedef struct memory {
  unsigned char *begin;
  size_t bytes; /* mapped */
} memory;

/** `bytes` bytes of zeros; the process ends where there are no addresses left. */
void *memory_map(memory *where, size_t bytes);
/** The same, shared with processes that are forked from this one. */
void *memory_map_shared(memory *where, size_t bytes);
void memory_unmap(memory *where); /* of zeros: nothing */
