/* Layer norm, RMS norm and their gradients in float64 on the host, and what results are held to;
 * `attnpress run layernorm`, the emulator and the tests use it. Slow and simple.
 *
 * Each element may be off by what rounding it to its dtype costs, and by a few roundings of fp32 in
 * what it was made of: |out - ref| <= tolerance, whose terms reference.c states. */
#pragma once
#include <stdint.h>

/** A matrix of a call's rows and columns, of its dtype; data NULL: it is not there. */
typedef struct layernorm_matrix {
  const void *data;
  int64_t stride; /* between rows, in elements */
} layernorm_matrix;

/** One call's tensors in host memory: inputs as they were before the call. */
typedef struct layernorm_case {
  int32_t backward, rms, dtype, param_dtype;
  float eps;
  int64_t rows, columns;
  const void *weight, *bias; /* (columns) or NULL */
  layernorm_matrix x, residual, y, sum;
  const float *mean, *rstd; /* (rows); forward: results, or NULL; backward: inputs */
  layernorm_matrix dy, dsum, dx;
  const void *dweight, *dbias; /* (columns) or NULL */
} layernorm_case;

/** The worst of what was checked so far; zero-fill it first. */
typedef struct layernorm_error {
  double ratio; /* of |out - ref| to the tolerance: holds where it is at most 1 */
  int64_t elements, row, column;
  const char *what;       /* such as "y" */
  double value, expected; /* of the worst element */
} layernorm_error;

/** Compares y, sum, mean and rstd of a row, or dx, whichever the call has; a NaN must be one in the
 * reference, too. */
void layernorm_check_row(const layernorm_case *c, int64_t row, layernorm_error *error);
/** Every row, and dweight and dbias where they are there. */
void layernorm_check(const layernorm_case *c, layernorm_error *error);
/** Only the latter. 0, or -1 where memory runs out. */
int layernorm_check_sums(const layernorm_case *c, layernorm_error *error);

/** What the forward pass writes for a row of x, of which there is no residual, for backward calls
 * to start from. */
void layernorm_moments(const layernorm_case *c, int64_t row, float *mean, float *rstd);
