/* Softmax in float64 on the host, and what results are held to; `attnpress run softmax`, the
 * emulator and the tests use it. Slow and simple.
 *
 * Each element may be off by what rounding it to its dtype costs, and by a few roundings of fp32 in
 * what it was made of: |out - ref| <= tolerance, whose terms reference.c states. */
#pragma once
#include <stdint.h>

/** One call's tensors in host memory, (rows, columns): inputs as they were before the call. */
typedef struct softmax_case {
  int32_t backward; /* 0: input x, output y; 1: inputs y and dy, output dx */
  int32_t dtype;
  float scale;
  int64_t rows, columns;
  const void *input[2];
  const void *output;
  int64_t input_stride[2], output_stride; /* between rows, in elements */
} softmax_case;

/** The worst of the rows checked so far; zero-fill it first. */
typedef struct softmax_error {
  double ratio; /* of |out - ref| to the tolerance: holds where it is at most 1 */
  int64_t elements, row, column;
  double value, expected; /* of the worst element */
} softmax_error;

/** Compares a row of the output; a NaN must be one in the reference, too. */
void softmax_check_row(const softmax_case *c, int64_t row, softmax_error *error);
/** Every row. */
void softmax_check(const softmax_case *c, softmax_error *error);

/** Fills a tensor with normally distributed values of this size, a function of the seed and the
 * place; with `probabilities` instead with rows that add up to about 1. */
void softmax_fill(void *data, const softmax_case *shape, int64_t stride, double size,
                  int probabilities, uint64_t seed);

/** Writes element number `at`, rounded to nearest even. */
void softmax_store(void *data, int64_t at, float value, int32_t dtype);

/** Bytes from the first element to behind the last of such a tensor, whose stride is positive. */
int64_t softmax_span_bytes(const softmax_case *shape, int64_t stride);
