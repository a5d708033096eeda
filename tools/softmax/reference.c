/* Softmax and its gradient in float64, row by row. */
#include "reference.h"

#include <math.h>

#include "../reference.h"
#include "attnpress/attnpress.h"
#include "cpu/half.h"

static attnpress_tensor tensor_of(const void *data, const softmax_case *c, int64_t stride) {
  return (attnpress_tensor){.data = ATTNPRESS_DATA(data),
                            .shape = {1, c->rows, 1, c->columns},
                            .stride = {0, stride, 0, 1},
                            .dtype = c->dtype};
}

static double load(const void *data, const softmax_case *c, int64_t stride, int64_t row,
                   int64_t column) {
  const attnpress_tensor t = tensor_of(data, c, stride);
  return (double)reference_load(&t, 0, row, 0, column);
}

static double input(const softmax_case *c, int which, int64_t row, int64_t column) {
  return load(c->input[which], c, c->input_stride[which], row, column);
}

/** What rounding to the dtype may cost: half a unit in the last place. */
static double rounding(const softmax_case *c, double value) {
  const int digits = c->dtype == ATTNPRESS_FP16 ? 11 : c->dtype == ATTNPRESS_BF16 ? 8 : 24;
  const double least = c->dtype == ATTNPRESS_FP16 ? 0x1p-25 : 0x1p-126; /* fp32 flushes to 0 */
  return fmax(ldexp(fabs(value), -digits), least) * 1.01;
}

/** What sums over a row in fp32, and a few operations beside them, cost. */
static double sums(const softmax_case *c) {
  return 3e-6 + 2e-9 * sqrt((double)c->columns);
}

static void compare(softmax_error *e, double value, double expected, double tolerance, int64_t row,
                    int64_t column) {
  const double ratio = isnan(value) && isnan(expected) ? 0.0 : fabs(value - expected) / tolerance;
  ++e->elements;
  if (!(ratio <= e->ratio)) {
    e->ratio = isnan(ratio) ? INFINITY : ratio;
    e->row = row;
    e->column = column;
    e->value = value;
    e->expected = expected;
  }
}

/** Scaling, the difference to the maximum and its product with log2(e) are rounded, which moves an
 * exponent by their sizes; the power, the sum and the quotient cost a few roundings more. */
static void check_forward(const softmax_case *c, int64_t row, softmax_error *e) {
  double max = -INFINITY, sum = 0.0;
  for (int64_t i = 0; i < c->columns; ++i)
    max = fmax(max, c->scale * input(c, 0, row, i));
  for (int64_t i = 0; i < c->columns; ++i)
    sum += exp(c->scale * input(c, 0, row, i) - max);
  for (int64_t i = 0; i < c->columns; ++i) {
    const double t = c->scale * input(c, 0, row, i), y = exp(t - max) / sum;
    const double relative = sums(c) + 3e-7 * (isinf(t) ? 0.0 : fabs(t) + fabs(max));
    compare(e, load(c->output, c, c->output_stride, row, i), y, rounding(c, y) + relative * y, row,
            i);
  }
}

/** The sum is off by a few roundings of the sizes of its terms. */
static void check_backward(const softmax_case *c, int64_t row, softmax_error *e) {
  double sum = 0.0, size = 0.0;
  for (int64_t i = 0; i < c->columns; ++i) {
    sum += input(c, 0, row, i) * input(c, 1, row, i);
    size += fabs(input(c, 0, row, i) * input(c, 1, row, i));
  }
  for (int64_t i = 0; i < c->columns; ++i) {
    const double y = input(c, 0, row, i), dy = input(c, 1, row, i);
    const double dx = c->scale * y * (dy - sum);
    const double terms = fabs(c->scale * y) * (fabs(dy) + size);
    compare(e, load(c->output, c, c->output_stride, row, i), dx, rounding(c, dx) + sums(c) * terms,
            row, i);
  }
}

void softmax_check_row(const softmax_case *c, int64_t row, softmax_error *error) {
  if (c->backward)
    check_backward(c, row, error);
  else
    check_forward(c, row, error);
}

void softmax_check(const softmax_case *c, softmax_error *error) {
  for (int64_t row = 0; row < c->rows; ++row)
    softmax_check_row(c, row, error);
}

void softmax_store(void *data, int64_t at, float value, int32_t dtype) {
  if (dtype == ATTNPRESS_FP32)
    ((float *)data)[at] = value;
  else
    ((uint16_t *)data)[at] =
        dtype == ATTNPRESS_FP16 ? ap_fp16_from_float(value) : ap_bf16_from_float(value);
}

int64_t softmax_span_bytes(const softmax_case *shape, int64_t stride) {
  const int64_t elements = shape->rows == 0 ? 0 : (shape->rows - 1) * stride + shape->columns;
  return elements * reference_element_bytes(shape->dtype);
}

/** A number from the seed and a place: splitmix64's finish (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/** The sum of twelve numbers of 16 bits that are evenly distributed, nearly a normal one. */
static double normal(uint64_t seed, uint64_t place) {
  double sum = -6.0;
  for (uint64_t i = 0; i < 3; ++i) {
    const uint64_t bits = mix(mix(seed) + place * 3 + i);
    for (int j = 0; j < 4; ++j)
      sum += (double)(bits >> 16 * j & 0xffff) / 65536.0;
  }
  return sum;
}

void softmax_fill(void *data, const softmax_case *shape, int64_t stride, double size,
                  int probabilities, uint64_t seed) {
  for (int64_t row = 0; row < shape->rows; ++row)
    for (int64_t i = 0; i < shape->columns; ++i) {
      double value = size * normal(seed, (uint64_t)(row * shape->columns + i));
      if (probabilities)
        value = exp(value) / (1.65 * (double)shape->columns);
      softmax_store(data, row * stride + i, (float)value, shape->dtype);
    }
}
