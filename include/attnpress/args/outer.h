/* The arguments of the outer product kernels: filled by the runtime, read by the kernels from
 * constant memory. Host and device compile this same text. */
#pragma once

#include "attnpress/args/common.h"

enum { ATTNPRESS_OUTER_SCALARS_MAX = 16 };

/* Strides are in elements, and may be any. */
typedef struct attnpress_outer_fwd_args {
  const void *x; /* (batch, rows) */
  const void *y; /* (batch, columns) */
  void *c;       /* (batch, rows, columns) */
  int64_t x_stride, y_stride, c_batch_stride, c_row_stride;
  int64_t batch;
  int32_t rows, columns;
  int32_t column_shift; /* fwd: 2^column_shift threads of a block share a row; flat: a y */
  /* Thread blocks beside and below each other; flat: entries and rows that one has in shared
   * memory. */
  int32_t column_blocks, row_blocks;
  int32_t pitch; /* flat: bytes from one entry's y to the next one's in shared memory */
  /* unit: rows and vectors of a unit, those of them that an entry has, and units of a thread */
  int32_t unit_rows, unit_vectors, width, units;
  int32_t x_bytes;                              /* chunk: of shared memory, before y */
  uint32_t scalar[ATTNPRESS_OUTER_SCALARS_MAX]; /* of a snippet: the bits of a float or an int */
} attnpress_outer_fwd_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_outer_fwd_args, rows, 64)
ATTNPRESS_ASSERT_OFFSET(attnpress_outer_fwd_args, scalar, 108)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_outer_fwd_args) == 176,
                        "layout of attnpress_outer_fwd_args");

typedef struct attnpress_outer_sum_args {
  const void *a; /* sum: x, sum_dx: y, sum_dy: x */
  const void *b; /* sum: y, sum_dx and sum_dy: dc */
  void *c;       /* (rows, columns): c, dx, dy */
  float *parts;  /* (rows, splits, columns); NULL: one split */
  int64_t a_stride, b_stride, c_stride;
  int64_t rows, depth, split_depth; /* split_depth: a multiple of 32 */
  int32_t columns;
  int32_t column_blocks, row_blocks, splits; /* thread blocks beside, below and behind each other */
  uint32_t scalar[ATTNPRESS_OUTER_SCALARS_MAX]; /* as above */
} attnpress_outer_sum_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_outer_sum_args, columns, 80)
ATTNPRESS_ASSERT_OFFSET(attnpress_outer_sum_args, scalar, 96)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_outer_sum_args) == 160,
                        "layout of attnpress_outer_sum_args");

typedef struct attnpress_outer_bwd_args {
  const void *x;   /* (batch, rows) */
  const void *y;   /* (batch, columns) */
  const void *dc;  /* (batch, rows, columns) */
  void *dx;        /* (batch, rows) or NULL */
  float *dy_parts; /* (batch, row_blocks, columns) or NULL: sums over the rows of a thread block */
  void *dy;        /* (batch, columns) or NULL: the same, where a thread block has all rows */
  int64_t x_stride, y_stride, dc_batch_stride, dc_row_stride, dx_stride, dy_stride;
  int32_t rows, columns;
  int32_t row_blocks;
  int32_t column_shift;                         /* 2^column_shift threads share a row */
  uint32_t scalar[ATTNPRESS_OUTER_SCALARS_MAX]; /* as above */
} attnpress_outer_bwd_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_outer_bwd_args, rows, 96)
ATTNPRESS_ASSERT_OFFSET(attnpress_outer_bwd_args, scalar, 112)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_outer_bwd_args) == 176,
                        "layout of attnpress_outer_bwd_args");

typedef struct attnpress_outer_reduce_args {
  const float *dy_parts;       /* (batch, row_blocks, columns) */
  void *dy;                    /* (batch, columns) */
  int64_t dy_stride, elements; /* elements: batch * columns */
  int32_t columns, row_blocks;
  int32_t lane_shift; /* 2^lane_shift threads of a block share an element */
} attnpress_outer_reduce_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_outer_reduce_args, columns, 32)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_outer_reduce_args) == 48,
                        "layout of attnpress_outer_reduce_args");
