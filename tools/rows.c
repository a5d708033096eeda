/* Elements, rounding and random numbers of matrices in host memory. */
#include "rows.h"

#include <math.h>

#include "attnpress/attnpress.h"
#include "cpu/element.h"

double rows_load(const void *data, int64_t at, int32_t dtype) {
  return (double)ap_load_element(data, at, dtype);
}

void rows_store(void *data, int64_t at, double value, int32_t dtype) {
  ap_store_element(data, at, (float)value, dtype);
}

double rows_rounding(double value, int32_t dtype) {
  const int digits = dtype == ATTNPRESS_FP16 ? 11 : dtype == ATTNPRESS_BF16 ? 8 : 24;
  const double least = dtype == ATTNPRESS_FP16 ? 0x1p-25 : 0x1p-126; /* fp32 flushes to 0 */
  return fmax(ldexp(fabs(value), -digits), least) * 1.01;
}

/** A number from the seed and a place: splitmix64's finish (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* The sum of twelve numbers of 16 bits that are evenly distributed. */
double rows_normal(uint64_t seed, uint64_t place) {
  double sum = -6.0;
  for (uint64_t i = 0; i < 3; ++i) {
    const uint64_t bits = mix(mix(seed) + place * 3 + i);
    for (int j = 0; j < 4; ++j)
      sum += (double)(bits >> 16 * j & 0xffff) / 65536.0;
  }
  return sum;
}

void rows_fill(void *data, int64_t rows, int64_t columns, int64_t stride, int32_t dtype,
               double mean, double size, uint64_t seed) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < columns; ++i)
      rows_store(data, row * stride + i,
                 mean + size * rows_normal(seed, (uint64_t)(row * columns + i)), dtype);
}

int64_t rows_span_bytes(int64_t rows, int64_t columns, int64_t stride, int32_t dtype) {
  const int64_t elements = rows == 0 ? 0 : (rows - 1) * stride + columns;
  return elements * ap_element_bytes(dtype);
}
