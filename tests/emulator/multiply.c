/* mul.rn.f16x2, and fma.rn.bf16x2 with -0 (PTX ISA, Half Precision Floating Point Instructions:
 * mul, fma): each half by itself, rounded once to nearest even, NaN as 0x7fff. */
#include "machine.h"

#include <math.h>
#include <string.h>

#include "cpu/half.h"

/* A product, exact in double, as a float that a conversion to 16 bits rounds as the product itself:
 * where it lies between two floats, the one whose last bit is set. */
static float to_odd(double product) {
  float nearest = (float)product;
  uint32_t bits;
  if (isnan(product) || isinf(nearest) || (double)nearest == product)
    return nearest;
  memcpy(&bits, &nearest, sizeof bits);
  if (fabs((double)nearest) > fabs(product))
    --bits;
  bits |= 1;
  memcpy(&nearest, &bits, sizeof nearest);
  return nearest;
}

static float widen(uint32_t half, int format) {
  return format == EMULATED_FP16 ? ap_float_from_fp16((uint16_t)half)
                                 : ap_float_from_bf16((uint16_t)half);
}

uint32_t emulated_multiply(uint32_t a, uint32_t b, int format) {
  const float low = to_odd((double)widen(a & 0xffff, format) * widen(b & 0xffff, format));
  const float high = to_odd((double)widen(a >> 16, format) * widen(b >> 16, format));
  return format == EMULATED_FP16 ? emulated_pack_fp16(low, high) : emulated_pack_bf16(low, high);
}
