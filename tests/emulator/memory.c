#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { DISTANCE_BYTES = 1 << 26 };

static void *map(memory *where, size_t bytes, int sharing) {
  where->bytes = bytes + 2 * (size_t)DISTANCE_BYTES;
  where->begin = mmap(NULL, where->bytes, PROT_READ | PROT_WRITE,
                      sharing | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (where->begin == MAP_FAILED) {
    fprintf(stderr, "%zu bytes of addresses could not be had: is there a limit (ulimit -v)?\n",
            where->bytes);
    abort();
  }
  return where->begin + DISTANCE_BYTES;
}

void *memory_map(memory *where, size_t bytes) {
  return map(where, bytes, MAP_PRIVATE);
}

void *memory_map_shared(memory *where, size_t bytes) {
  return map(where, bytes, MAP_SHARED);
}

void memory_unmap(memory *where) {
  if (where->begin != NULL)
    munmap(where->begin, where->bytes);
}
