#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { DISTANCE_BYTES = 1 << 26 };

void *memory_map(memory *where, size_t bytes) {
  where->bytes = bytes + 2 * (size_t)DISTANCE_BYTES;
  where->begin = mmap(NULL, where->bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (where->begin == MAP_FAILED) {
    fprintf(stderr, "%zu bytes of addresses could not be had: is there a limit (ulimit -v)?\n",
            where->bytes);
    abort();
  }
  return where->begin + DISTANCE_BYTES;
}

void memory_unmap(memory *where) {
  if (where->begin != NULL)
    munmap(where->begin, where->bytes);
}
