/* Arithmetic of sizes and counts. */
#pragma once
#include <stdint.h>

/** Of numbers that are not negative. A processor divides 32 bits faster than 64, and a call has a
 * dozen of these. */
static inline int64_t ceil_div(int64_t a, int64_t b) {
  const int64_t sum = a + b - 1;
  return (uint64_t)(sum | b) >> 32 == 0 ? (int64_t)((uint32_t)sum / (uint32_t)b) : sum / b;
}

static inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}
