/* What the fuzzers share. Each is one function that takes any bytes and aborts where something does
 * not hold that must; libFuzzer drives it, or main.c where the compiler has none. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** Aborts, saying what did not hold. */
#define HOLDS(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: this does not hold: %s\n", __FILE__, __LINE__, #condition);          \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)

/** An input, taken from the front; zeros where it has ended. */
typedef struct fuzz_input {
  const uint8_t *data;
  size_t size;
} fuzz_input;

static inline uint64_t fuzz_take(fuzz_input *input, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes && input->size > 0; ++i, ++input->data, --input->size)
    value |= (uint64_t)*input->data << 8 * i;
  return value;
}
