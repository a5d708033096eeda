/* max and min of .f16x2 and .bf16x2 (PTX ISA, Half Precision Floating Point Instructions: max, min):
 * each half by itself; where one operand is NaN the other, where both are the canonical NaN; -0 is
 * less than +0. */
#include "machine.h"

enum { CANONICAL_NAN = 0x7fff, SIGN = 0x8000, INFINITY_FP16 = 0x7c00, INFINITY_BF16 = 0x7f80 };

static int is_nan(uint32_t bits, int format) {
  return (bits & ~(uint32_t)SIGN) > (format == EMULATED_FP16 ? INFINITY_FP16 : INFINITY_BF16);
}

/* Ordered as the numbers are. */
static uint32_t rank(uint32_t bits) {
  return bits & SIGN ? ~bits & 0xffff : bits | SIGN;
}

static uint32_t choose(uint32_t a, uint32_t b, int format, int largest) {
  if (is_nan(a, format))
    return is_nan(b, format) ? CANONICAL_NAN : b;
  if (is_nan(b, format))
    return a;
  return (rank(a) > rank(b)) == largest ? a : b;
}

uint32_t emulated_min_max(uint32_t a, uint32_t b, int format, int largest) {
  return choose(a & 0xffff, b & 0xffff, format, largest) | choose(a >> 16, b >> 16, format, largest)
                                                               << 16;
}
