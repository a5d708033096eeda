/* The outer product and its gradients in float64 on the host, and what results are held to;
 * `attnpress run outer`, the emulator and the tests use it. Slow and simple.
 *
 * Each element may be off by what rounding it to its dtype costs, and by a few roundings of fp32 in
 * what it is the sum of. */
#pragma once
#include <stdint.h>

/** One call's tensors in host memory. Strides in elements; c_batch_stride 0 where c is summed. */
typedef struct outer_case {
  int32_t backward, summed, dtype; /* fp16, bf16, fp32 */
  int64_t batch, rows, columns;
  const void *x, *y;
  const void *c;       /* the result; backward: dc */
  const void *dx, *dy; /* backward: the results, or NULL */
  int64_t x_stride, y_stride, c_batch_stride, c_row_stride, dx_stride, dy_stride;
} outer_case;

/** The worst of what was checked so far; zero-fill it first. */
typedef struct outer_error {
  double ratio; /* of |out - ref| to the tolerance: holds where it is at most 1 */
  int64_t elements, batch, row, column;
  const char *what;       /* "c", "dx" or "dy" */
  double value, expected; /* of the worst element */
} outer_error;

/** Row `row` of entry `batch`: of c, or dx's element and, with row 0, dy's. */
void outer_check_row(const outer_case *c, int64_t batch, int64_t row, outer_error *error);
/** Everything. */
void outer_check(const outer_case *c, outer_error *error);
