/* The arguments of the layernorm kernels: filled by the runtime, read by the kernels from constant
 * memory. Host and device compile this same text. */
#pragma once

#include "attnpress/args/common.h"

/* Row strides are in elements, and may be any; pointers are multiples of an element. A parameter
 * that is NULL is 1 (weight) or 0 (bias). */
typedef struct attnpress_layernorm_fwd_args {
  const void *x;        /* (rows, columns) */
  const void *residual; /* (rows, columns) or NULL */
  const void *weight;   /* (columns) or NULL */
  const void *bias;     /* (columns) or NULL */
  void *y;              /* (rows, columns); may be x or residual, with its row stride */
  void *sum;            /* (rows, columns), x + residual, where residual is given; may be either */
  float *mean;          /* (rows) or NULL */
  float *rstd;          /* (rows) or NULL */
  int64_t rows;
  int64_t x_row_stride, residual_row_stride, y_row_stride, sum_row_stride;
  int32_t columns;  /* from 1 to the kernel's COLUMNS, if it has them */
  float eps;        /* added to the variance, or to the mean square */
  float per_column; /* 1 / columns */
  int32_t cluster;  /* thread blocks that share a row, where the launch says how many; else 0 */
  uint64_t *told;   /* what the blocks of gangs tell each other; NULL: the kernel's own memory */
} attnpress_layernorm_fwd_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_layernorm_fwd_args, x_row_stride, 72)
ATTNPRESS_ASSERT_OFFSET(attnpress_layernorm_fwd_args, columns, 104)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_layernorm_fwd_args) == 128,
                        "layout of attnpress_layernorm_fwd_args");

/* Of the kernels that read rows of x and dy: dx, the parts of dweight and dbias, or both. */
typedef struct attnpress_layernorm_bwd_args {
  const void *x;       /* (rows, columns), what was normalised */
  const void *dy;      /* (rows, columns) */
  const void *weight;  /* (columns) or NULL */
  const void *dsum;    /* (rows, columns) or NULL: added to dx */
  const float *mean;   /* (rows); not of RMS norm */
  const float *rstd;   /* (rows) */
  void *dx;            /* (rows, columns); may be x, dy or dsum, with its row stride */
  float *weight_parts; /* (parts, pitch) or NULL: sums over some rows of dy (x - mean) rstd */
  float *bias_parts;   /* (parts, pitch) or NULL: sums over some rows of dy */
  int64_t rows;
  int64_t x_row_stride, dy_row_stride, dsum_row_stride, dx_row_stride;
  int32_t columns;
  float per_column; /* 1 / columns */
  int32_t parts;    /* bwd_params: thread blocks that share the rows; bwd: those of the grid */
  int32_t gang;     /* thread blocks that share a row, where the launch says how many; else 0 */
  uint64_t *told;   /* (gangs, 16, gang, 2), zeros: what a gang's blocks tell each other */
  int32_t whole;    /* 1: there is one gang; its sums are dweight and dbias, and no parts of them */
  int32_t pitch;    /* of parts: columns; of sorted and split rows, the next multiple of 4 */
} attnpress_layernorm_bwd_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_layernorm_bwd_args, x_row_stride, 80)
ATTNPRESS_ASSERT_OFFSET(attnpress_layernorm_bwd_args, columns, 112)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_layernorm_bwd_args) == 144,
                        "layout of attnpress_layernorm_bwd_args");

typedef struct attnpress_layernorm_reduce_args {
  const float *weight_parts; /* (parts, pitch), where dweight is given */
  const float *bias_parts;   /* (parts, pitch), where dbias is given */
  void *dweight;             /* (columns) or NULL */
  void *dbias;               /* (columns) or NULL */
  int32_t columns, parts;
  int32_t column_shift; /* 2^column_shift threads of a block have neighbouring columns, 4 each */
  int32_t pitch;        /* columns, or the next multiple of 4 */
} attnpress_layernorm_reduce_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_layernorm_reduce_args, columns, 32)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_layernorm_reduce_args) == 48,
                        "layout of attnpress_layernorm_reduce_args");
