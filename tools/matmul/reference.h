/* The matrix product in float64 on the host, and what results are held to; `attnpress run matmul`,
 * the emulator and the tests use it. Slow and simple.
 *
 * Each element may be off by what rounding it to its dtype costs, and by a few roundings of fp32 in
 * what it is the sum of. */
#pragma once
#include <stdint.h>

/** One call's tensors in host memory, strides in elements. */
typedef struct matmul_case {
  int32_t dtype, w_dtype; /* of x; of W */
  int32_t transposed;
  int64_t rows, n;
  const void *before; /* (rows, n): x as it was */
  const void *x;      /* (rows, n): the result */
  const void *w;      /* (n, n) */
  int64_t before_stride, x_stride, w_stride;
} matmul_case;

/** The worst of what was checked so far; zero-fill it first. */
typedef struct matmul_error {
  double ratio; /* of |out - ref| to the tolerance: holds where it is at most 1 */
  int64_t elements, row, column;
  double value, expected; /* of the worst element */
} matmul_error;

/** One row; ends the program where host memory runs out. */
void matmul_check_row(const matmul_case *c, int64_t row, matmul_error *error);
/** Everything. */
void matmul_check(const matmul_case *c, matmul_error *error);
