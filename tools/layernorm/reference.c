/* Layer norm and its gradients in float64, row by row. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>

#include "../rows.h"
#include "attnpress/attnpress.h"

static double load(const layernorm_case *c, const layernorm_matrix *m, int64_t row,
                   int64_t column) {
  return rows_load(m->data, row * m->stride + column, c->dtype);
}

static double parameter(const layernorm_case *c, const void *data, int64_t column, double absent) {
  return data == NULL ? absent : rows_load(data, column, c->param_dtype);
}

static void compare(layernorm_error *e, const char *what, double value, double expected,
                    double tolerance, int64_t row, int64_t column) {
  const double ratio = isnan(value) && isnan(expected) ? 0.0 : fabs(value - expected) / tolerance;
  ++e->elements;
  if (!(ratio <= e->ratio)) {
    e->ratio = isnan(ratio) ? INFINITY : ratio;
    e->what = what;
    e->row = row;
    e->column = column;
    e->value = value;
    e->expected = expected;
  }
}

/** What a sum of so many terms in fp32, and a few operations beside it, cost, relative to the sizes
 * of its terms. */
static double unit(int64_t terms) {
  return 6e-7 + 2e-9 * sqrt((double)terms);
}

typedef struct moments {
  double mean, rstd, size; /* size: the mean of |x| */
} moments;

static moments moments_of(const layernorm_case *c, const layernorm_matrix *x, int64_t row) {
  moments m = {0.0, 0.0, 0.0};
  double squares = 0.0;
  for (int64_t i = 0; i < c->columns; ++i) {
    m.mean += load(c, x, row, i) / (double)c->columns;
    m.size += fabs(load(c, x, row, i)) / (double)c->columns;
  }
  if (c->rms)
    m.mean = 0.0;
  for (int64_t i = 0; i < c->columns; ++i)
    squares += pow(load(c, x, row, i) - m.mean, 2.0);
  m.rstd = 1.0 / sqrt(squares / (double)c->columns + (double)c->eps);
  return m;
}

void layernorm_moments(const layernorm_case *c, int64_t row, float *mean, float *rstd) {
  const moments m = moments_of(c, &c->x, row);
  *mean = (float)m.mean;
  *rstd = (float)m.rstd;
}

/** The mean is off by a few roundings of the values' sizes, which moves every difference to it; so
 * is rstd, as far as it is made of such differences. */
static void check_forward(const layernorm_case *c, int64_t row, layernorm_error *e) {
  const layernorm_matrix *x = &c->x;
  if (c->residual.data != NULL) {
    for (int64_t i = 0; i < c->columns; ++i) {
      const double sum = load(c, &c->x, row, i) + load(c, &c->residual, row, i);
      compare(e, "sum", load(c, &c->sum, row, i), sum, rows_rounding(sum, c->dtype), row, i);
    }
    x = &c->sum; /* as it was rounded */
  }
  const moments m = moments_of(c, x, row);
  const double u = unit(c->columns), shift = m.rstd * (m.size + fabs(m.mean));
  for (int64_t i = 0; i < c->columns; ++i) {
    const double value = load(c, x, row, i), weight = parameter(c, c->weight, i, 1.0);
    const double bias = parameter(c, c->bias, i, 0.0);
    const double scaled = (value - m.mean) * m.rstd * weight, y = scaled + bias;
    const double tolerance = u * (fabs(weight) * (m.rstd * fabs(value) + shift) +
                                  fabs(scaled) * (1.0 + shift) + fabs(bias));
    compare(e, "y", load(c, &c->y, row, i), y, rows_rounding(y, c->dtype) + tolerance, row, i);
  }
  if (c->mean != NULL)
    compare(e, "mean", (double)c->mean[row], m.mean, u * m.size + 1e-37, row, 0);
  if (c->rstd != NULL)
    compare(e, "rstd", (double)c->rstd[row], m.rstd, u * m.rstd * (1.0 + shift), row, 0);
}

/** x^ is off by a few roundings of what it is the difference of. */
typedef struct gradient {
  double x, x_size, dy, g;
} gradient;

static gradient gradient_of(const layernorm_case *c, int64_t row, int64_t column) {
  const double mean = c->rms ? 0.0 : (double)c->mean[row], rstd = (double)c->rstd[row];
  const double x = load(c, &c->x, row, column), dy = load(c, &c->dy, row, column);
  return (gradient){(x - mean) * rstd, (fabs(x) + fabs(mean)) * rstd, dy,
                    dy * parameter(c, c->weight, column, 1.0)};
}

static void check_backward(const layernorm_case *c, int64_t row, layernorm_error *e) {
  const double columns = (double)c->columns, rstd = (double)c->rstd[row];
  double sum = 0.0, dot = 0.0, sum_size = 0.0, dot_size = 0.0;
  for (int64_t i = 0; i < c->columns; ++i) {
    const gradient g = gradient_of(c, row, i);
    sum += c->rms ? 0.0 : g.g / columns;
    sum_size += c->rms ? 0.0 : fabs(g.g) / columns;
    dot += g.g * g.x / columns;
    dot_size += fabs(g.g) * g.x_size / columns;
  }
  for (int64_t i = 0; i < c->columns; ++i) {
    const gradient g = gradient_of(c, row, i);
    const double added = c->dsum.data == NULL ? 0.0 : load(c, &c->dsum, row, i);
    const double dx = rstd * (g.g - sum - g.x * dot) + added;
    const double terms =
        rstd * (fabs(g.g) + sum_size + (fabs(g.x) + g.x_size) * dot_size) + fabs(added);
    compare(e, "dx", load(c, &c->dx, row, i), dx,
            rows_rounding(dx, c->dtype) + unit(c->columns) * terms, row, i);
  }
}

void layernorm_check_row(const layernorm_case *c, int64_t row, layernorm_error *error) {
  if (!c->backward)
    check_forward(c, row, error);
  else if (c->dx.data != NULL)
    check_backward(c, row, error);
}

int layernorm_check_sums(const layernorm_case *c, layernorm_error *error) {
  if (!c->backward || (c->dweight == NULL && c->dbias == NULL))
    return 0;
  double(*sums)[4] = calloc((size_t)c->columns + 1, sizeof *sums); /* dweight, dbias, their sizes */
  if (sums == NULL)
    return -1;
  for (int64_t row = 0; row < c->rows; ++row)
    for (int64_t i = 0; i < c->columns; ++i) {
      const gradient g = gradient_of(c, row, i);
      sums[i][0] += g.dy * g.x;
      sums[i][1] += g.dy;
      sums[i][2] += fabs(g.dy) * g.x_size;
      sums[i][3] += fabs(g.dy);
    }
  for (int64_t i = 0; i < c->columns; ++i)
    for (int which = 0; which < 2; ++which) {
      const void *out = which == 0 ? c->dweight : c->dbias;
      const double expected = sums[i][which];
      if (out != NULL)
        compare(error, which == 0 ? "dweight" : "dbias", rows_load(out, i, c->param_dtype),
                expected,
                rows_rounding(expected, c->param_dtype) + unit(c->rows) * sums[i][2 + which], 0, i);
    }
  free(sums);
  return 0;
}

void layernorm_check(const layernorm_case *c, layernorm_error *error) {
  for (int64_t row = 0; row < c->rows; ++row)
    layernorm_check_row(c, row, error);
  if (layernorm_check_sums(c, error) != 0)
    error->ratio = INFINITY;
}
