/* ex2, lg2, rcp and rsqrt with .approx.ftz.f32, tanh with .approx.f32 (PTX ISA, Floating Point
 * Instructions): here rounded to nearest, hardware comes within the errors that PTX states. Of all
 * but tanh, subnormal inputs and results are zeros. */
#include "machine.h"

#include <float.h>
#include <math.h>

static float flush(float x) {
  return fabsf(x) < FLT_MIN ? copysignf(0.0f, x) : x;
}

float emulated_exp2(float x) {
  return flush((float)exp2((double)flush(x)));
}

float emulated_log2(float x) {
  return (float)log2((double)flush(x));
}

float emulated_reciprocal(float x) {
  return flush((float)(1.0 / (double)flush(x)));
}

float emulated_reciprocal_sqrt(float x) {
  return (float)(1.0 / sqrt((double)flush(x)));
}

float emulated_tanh(float x) {
  return (float)tanh((double)x);
}
