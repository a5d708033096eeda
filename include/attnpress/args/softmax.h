/* The arguments of the softmax kernels: filled by the runtime, read by the kernels from constant
 * memory. Host and device compile this same text. */
#pragma once

#include "attnpress/args/common.h"

/* Row strides are in elements, and may be any; pointers are multiples of an element. */
typedef struct attnpress_softmax_fwd_args {
  const void *x; /* (rows, columns) */
  void *y;       /* (rows, columns); may be x, with its row stride */
  int64_t rows;
  int64_t x_row_stride, y_row_stride;
  int32_t columns;    /* from 1 to the kernel's COLUMNS, if it has them */
  float scale;        /* finite, not 0 */
  int32_t rows_ahead; /* kernels that fetch ahead: how many rows behind a block's own the row is
                         that a later block will read */
  int32_t reserved;
} attnpress_softmax_fwd_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_softmax_fwd_args, x_row_stride, 24)
ATTNPRESS_ASSERT_OFFSET(attnpress_softmax_fwd_args, columns, 40)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_softmax_fwd_args) == 56,
                        "layout of attnpress_softmax_fwd_args");

typedef struct attnpress_softmax_bwd_args {
  const void *y;  /* (rows, columns), what the forward pass gave */
  const void *dy; /* (rows, columns) */
  void *dx;       /* (rows, columns); may be y or dy, with its row stride */
  int64_t rows;
  int64_t y_row_stride, dy_row_stride, dx_row_stride;
  int32_t columns;    /* from 1 to the kernel's COLUMNS, if it has them */
  float scale;        /* finite */
  int32_t rows_ahead; /* as above */
  int32_t reserved;
} attnpress_softmax_bwd_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_softmax_bwd_args, y_row_stride, 32)
ATTNPRESS_ASSERT_OFFSET(attnpress_softmax_bwd_args, columns, 56)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_softmax_bwd_args) == 72,
                        "layout of attnpress_softmax_bwd_args");

/* The grid is one-dimensional: ceil(rows / BLOCK_ROWS) blocks of THREADS threads. */
