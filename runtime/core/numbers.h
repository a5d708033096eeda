/* Arithmetic of sizes and counts. */
#pragma once
#include <stdint.h>

/** a / b, rounded up; neither is negative. A processor divides 32 bits faster than 64, and a call has a
 * dozen of these. */
static inline int64_t ceil_div(int64_t a, int64_t b) {
  if ((uint64_t)(a | b) >> 32 == 0)
    return (uint32_t)a / (uint32_t)b + ((uint32_t)a % (uint32_t)b != 0);
  return a / b + (a % b != 0);
}

static inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}
