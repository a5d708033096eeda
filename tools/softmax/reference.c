/* Softmax and its gradient in float64, row by row. */
#include "reference.h"

#include <math.h>

#include "../rows.h"
#include "attnpress/attnpress.h"

static double load(const void *data, const softmax_case *c, int64_t stride, int64_t row,
                   int64_t column) {
  return rows_load(data, row * stride + column, c->dtype);
}

static double input(const softmax_case *c, int which, int64_t row, int64_t column) {
  return load(c->input[which], c, c->input_stride[which], row, column);
}

static double rounding(const softmax_case *c, double value) {
  return rows_rounding(value, c->dtype);
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
  rows_store(data, at, (double)value, dtype);
}

int64_t softmax_span_bytes(const softmax_case *shape, int64_t stride) {
  return rows_span_bytes(shape->rows, shape->columns, stride, shape->dtype);
}

void softmax_fill(void *data, const softmax_case *shape, int64_t stride, double size,
                  int probabilities, uint64_t seed) {
  if (!probabilities) {
    rows_fill(data, shape->rows, shape->columns, stride, shape->dtype, 0.0, size, seed);
    return;
  }
  for (int64_t row = 0; row < shape->rows; ++row)
    for (int64_t i = 0; i < shape->columns; ++i) {
      const double value = size * rows_normal(seed, (uint64_t)(row * shape->columns + i));
      rows_store(data, row * stride + i, exp(value) / (1.65 * (double)shape->columns),
                 shape->dtype);
    }
}
