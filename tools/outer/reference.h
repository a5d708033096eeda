/* The outer product and its gradients in float64 on the host, and what results are held to;
 * `attnpress run outer`, the emulator and the tests use it. Slow and simple.
 *
 * Each element may be off by what rounding it to its dtype costs, and by a few roundings of fp32 in
 * what it is the sum of; where a snippet's function is in place of the product, by a few in that. */
#pragma once
#include <stdint.h>

#include "../snippet.h"
#include "attnpress/outer.h"

/** One call's tensors in host memory. Strides in elements; c_batch_stride 0 where c is summed. */
typedef struct outer_case {
  int32_t backward, summed, dtype; /* fp16, bf16, fp32 */
  int64_t batch, rows, columns;
  const void *x, *y;
  const void *c;       /* the result; backward: dc */
  const void *dx, *dy; /* backward: the results, or NULL */
  int64_t x_stride, y_stride, c_batch_stride, c_row_stride, dx_stride, dy_stride;
  const snippet *f; /* of x and y; NULL: their product */
} outer_case;

/** The worst of what was checked so far; zero-fill it first. */
typedef struct outer_error {
  double ratio; /* of |out - ref| to the tolerance: holds where it is at most 1 */
  int64_t elements, batch, row, column;
  const char *what;       /* "c", "dx" or "dy" */
  double value, expected; /* of the worst element */
} outer_error;

/** The function of a file that was read, as callers give it and for a case; 0, or -1 with a sentence
 * in `why`. *f is freed by snippet_free(). */
int outer_function_read(snippet_file *file, attnpress_outer_mod *mod, snippet **f, char *why,
                        int why_bytes);
/** A term of dx (0) or dy (1), dc times a derivative, and the size that its error is measured by. */
double outer_gradient_term(const outer_case *c, int which, int64_t batch, int64_t row,
                           int64_t column, double *size);
/** Row `row` of entry `batch`: of c, or dx's element and, with row 0, dy's. */
void outer_check_row(const outer_case *c, int64_t batch, int64_t row, outer_error *error);
/** Everything. */
void outer_check(const outer_case *c, outer_error *error);
