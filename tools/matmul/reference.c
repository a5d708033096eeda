/* The matrix product in float64, row by row. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>

#include "../reference.h"
#include "../rows.h"
#include "cpu/element.h"

/** An element of W, rounded to x's dtype as the product takes it. */
static double w_of(const matmul_case *c, int64_t row, int64_t column) {
  const float value = ap_load_element(c->w, row * c->w_stride + column, c->w_dtype);
  return (double)reference_round(value, c->dtype);
}

static void compare(const matmul_case *c, matmul_error *e, int64_t row, int64_t column,
                    double expected, double size) {
  const double value = rows_load(c->x, row * c->x_stride + column, c->dtype);
  const double tolerance = rows_rounding(expected, c->dtype) + 3e-6 * size;
  const double ratio = isnan(value) && isnan(expected) ? 0.0 : fabs(value - expected) / tolerance;
  ++e->elements;
  if (!(ratio <= e->ratio))
    *e = (matmul_error){isnan(ratio) ? INFINITY : ratio, e->elements, row, column, value, expected};
}

void matmul_check_row(const matmul_case *c, int64_t row, matmul_error *error) {
  double *sum = calloc((size_t)(2 * c->n), sizeof *sum), *size = sum + c->n;
  if (sum == NULL)
    abort();
  for (int64_t k = 0; k < c->n; ++k)
    for (int64_t i = 0; i < c->n; ++i) { /* along a row of W */
      const int64_t depth = c->transposed ? i : k, column = c->transposed ? k : i;
      const double product =
          rows_load(c->before, row * c->before_stride + depth, c->dtype) * w_of(c, k, i);
      sum[column] += product;
      size[column] += fabs(product);
    }
  for (int64_t column = 0; column < c->n; ++column)
    compare(c, error, row, column, sum[column], size[column]);
  free(sum);
}

void matmul_check(const matmul_case *c, matmul_error *error) {
  for (int64_t row = 0; row < c->rows; ++row)
    matmul_check_row(c, row, error);
}
