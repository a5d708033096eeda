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

typedef struct attnpress_matmul_args_sm90 {
  attnpress_tensor_map x; /* (rows, n), box (BLOCK_M, 64) */
  attnpress_tensor_map w; /* (n, n), box (BLOCK_K, 64), of W^T (BLOCK_N, 64) */
  void *out;              /* x: written */
  int64_t x_stride;
  int32_t rows, n;
  int32_t column_blocks; /* thread blocks that share rows: each has BLOCK_N columns of the result */
  int32_t row_blocks;    /* of BLOCK_M rows */
  int32_t share;         /* row blocks of a thread block, one after the other */
  int32_t together;      /* 0: those that share rows are a cluster; 1: all run at the same time */
  int32_t split_shift;   /* together: 2^split_shift blocks, a cluster, share the depth of a tile */
  int32_t reserved[5];   /* the struct's size is a multiple of its alignment */
} attnpress_matmul_args_sm90;

ATTNPRESS_ASSERT_OFFSET(attnpress_matmul_args_sm90, out, 256)
ATTNPRESS_ASSERT_OFFSET(attnpress_matmul_args_sm90, rows, 272)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_matmul_args_sm90) == 320,
                        "layout of attnpress_matmul_args_sm90");
