/* The outer product and its gradients in float64, element by element. */
#include "reference.h"

#include <math.h>
#include <stdio.h>

#include "../rows.h"

static double x_of(const outer_case *c, int64_t n, int64_t i) {
  return rows_load(c->x, n * c->x_stride + i, c->dtype);
}

static double y_of(const outer_case *c, int64_t n, int64_t j) {
  return rows_load(c->y, n * c->y_stride + j, c->dtype);
}

static double c_of(const outer_case *c, int64_t n, int64_t i, int64_t j) {
  return rows_load(c->c, n * c->c_batch_stride + i * c->c_row_stride + j, c->dtype);
}

/** A term of c, and the size that its error is measured by. */
static double term_of_c(const outer_case *c, int64_t n, int64_t i, int64_t j, double *size) {
  const double x = x_of(c, n, i), y = y_of(c, n, j);
  double slope[2];
  if (c->f == NULL) {
    *size = c->summed ? fabs(x * y) : 0.0;
    return x * y;
  }
  const double value = snippet_function(c->f, x, y, slope);
  *size = fabs(value) + fabs(x * slope[0]) + fabs(y * slope[1]);
  return value;
}

double outer_gradient_term(const outer_case *c, int which, int64_t n, int64_t i, int64_t j,
                           double *size) {
  const double dc = c_of(c, n, i, j), x = x_of(c, n, i), y = y_of(c, n, j);
  double slope[2] = {y, x};
  if (c->f != NULL)
    snippet_function(c->f, x, y, slope);
  *size = fabs(dc) * (fabs(slope[which]) + (c->f != NULL ? 1.0 : 0.0));
  return dc * slope[which];
}

/** size: the sum of the terms' sizes. */
static void compare(const outer_case *c, outer_error *e, const char *what, double value,
                    double expected, double size, int64_t batch, int64_t row, int64_t column) {
  const double tolerance = rows_rounding(expected, c->dtype) + 2e-6 * size;
  const double most = 65504.0; /* of fp16; what is rounded beyond is infinite */
  const int overflows = c->dtype == ATTNPRESS_FP16 && fabs(expected) + tolerance > most &&
                        isinf(value) && signbit(value) == signbit(expected);
  const int both_nan = isnan(value) && isnan(expected);
  const double ratio = both_nan || overflows ? 0.0 : fabs(value - expected) / tolerance;
  ++e->elements;
  if (!(ratio <= e->ratio))
    *e = (outer_error){
        isnan(ratio) ? INFINITY : ratio, e->elements, batch, row, column, what, value, expected};
}

static void check_c(const outer_case *c, int64_t batch, int64_t row, outer_error *e) {
  const int64_t first = c->summed ? 0 : batch, last = c->summed ? c->batch : batch + 1;
  for (int64_t j = 0; j < c->columns; ++j) {
    double sum = 0.0, size = 0.0;
    for (int64_t n = first; n < last; ++n) {
      double part;
      sum += term_of_c(c, n, row, j, &part);
      size += part;
    }
    compare(c, e, "c", c_of(c, first, row, j), sum, size, batch, row, j);
  }
}

static void check_dx(const outer_case *c, int64_t batch, int64_t row, outer_error *e) {
  double sum = 0.0, size = 0.0;
  for (int64_t j = 0; j < c->columns; ++j) {
    double part;
    sum += outer_gradient_term(c, 0, batch, row, j, &part);
    size += part;
  }
  compare(c, e, "dx", rows_load(c->dx, batch * c->dx_stride + row, c->dtype), sum, size, batch, row,
          0);
}

static void check_dy(const outer_case *c, int64_t batch, outer_error *e) {
  for (int64_t j = 0; j < c->columns; ++j) {
    double sum = 0.0, size = 0.0;
    for (int64_t i = 0; i < c->rows; ++i) {
      double part;
      sum += outer_gradient_term(c, 1, batch, i, j, &part);
      size += part;
    }
    compare(c, e, "dy", rows_load(c->dy, batch * c->dy_stride + j, c->dtype), sum, size, batch, 0,
            j);
  }
}

void outer_check_row(const outer_case *c, int64_t batch, int64_t row, outer_error *error) {
  if (!c->backward)
    check_c(c, batch, row, error);
  if (c->backward && c->dx && row < c->rows)
    check_dx(c, batch, row, error);
  if (c->backward && c->dy && row == 0)
    check_dy(c, batch, error);
}

void outer_check(const outer_case *c, outer_error *error) {
  for (int64_t n = 0; n < (c->summed && !c->backward ? 1 : c->batch); ++n)
    for (int64_t i = 0; i < c->rows; ++i)
      outer_check_row(c, n, i, error);
}

int outer_function_read(snippet_file *file, attnpress_outer_mod *mod, snippet **f, char *why,
                        int why_bytes) {
  *f = NULL;
  if (file->f == NULL || file->score != NULL || file->mask != NULL || file->score_grad != NULL ||
      file->mod.buffer_count > 0) {
    snprintf(why, (size_t)why_bytes,
             "%s is not a function of the outer product: it needs scalars and a text f: alone",
             file->name);
    return -1;
  }
  *mod = (attnpress_outer_mod)ATTNPRESS_OUTER_MOD_INIT;
  mod->name = file->name;
  mod->value = file->f;
  mod->scalars = file->scalars;
  mod->scalar_count = file->mod.scalar_count;
  *f = snippet_parse_function(file->f, file->scalars, file->mod.scalar_count, why, why_bytes);
  return *f != NULL ? 0 : -1;
}
