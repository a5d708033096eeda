/* The arguments of the in-place matrix product's kernels: filled by the runtime, read by the kernels
 * from constant memory. Host and device compile this same text. */
#pragma once

#include "attnpress/args/common.h"

/* Strides are in elements. */
typedef struct attnpress_matmul_args_sm80 {
  void *x;       /* (rows, n): read, and written */
  const void *w; /* (n, n) */
  int64_t rows, x_stride, w_stride;
  int32_t n, reserved;
} attnpress_matmul_args_sm80;

ATTNPRESS_ASSERT_OFFSET(attnpress_matmul_args_sm80, n, 40)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_matmul_args_sm80) == 48,
                        "layout of attnpress_matmul_args_sm80");
