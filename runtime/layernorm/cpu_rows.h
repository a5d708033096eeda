/* A row of a layer norm on the CPU, and some columns of the sums over the rows, built once for each
 * instruction set. */
#pragma once
#include <stdint.h>

#include "layernorm/layernorm.h"

/** Pointers to a row's first element, aligned to an element. */
typedef struct ap_layernorm_row {
  const void *x, *weight, *bias; /* weight and bias may be NULL */
  const void *residual;          /* forward; may be NULL */
  const void *dy, *dsum;         /* backward; dsum may be NULL */
  void *sum;                     /* forward, where there is a residual; may be an input */
  void *out;                     /* y or dx; may be an input */
  int64_t columns;
  int32_t dtype, param_dtype, rms;
  float eps;
  float mean, rstd; /* forward: written; backward: read */
} ap_layernorm_row;

typedef void ap_layernorm_row_function(ap_layernorm_row *row);

enum { AP_LAYERNORM_SUM_COLUMNS = 256 };

/** Adds up dweight and dbias over all rows of a problem, in the columns from `first` on, at most
 * AP_LAYERNORM_SUM_COLUMNS of them, and writes what is asked for. */
typedef void ap_layernorm_sum_function(const ap_layernorm_problem *problem, int64_t first);

ap_layernorm_row_function ap_layernorm_row_forward_plain, ap_layernorm_row_backward_plain;
ap_layernorm_sum_function ap_layernorm_sums_plain;
#if defined(__x86_64__)
ap_layernorm_row_function ap_layernorm_row_forward_avx2, ap_layernorm_row_backward_avx2;
ap_layernorm_row_function ap_layernorm_row_forward_avx512, ap_layernorm_row_backward_avx512;
ap_layernorm_sum_function ap_layernorm_sums_avx2, ap_layernorm_sums_avx512;
#endif
