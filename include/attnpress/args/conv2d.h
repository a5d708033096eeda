/* The arguments of the convolution kernels: filled by the runtime, read by the kernels from
 * constant memory. Host and device compile this same text.
 *
 * A vector is 8 elements, 16 bytes. Pairs are of the height and the width. */
#pragma once

#include "attnpress/args/common.h"

/* fprop: `in` is x, `out` is out. dgrad: `in` is dout, `out` is dx. */
typedef struct attnpress_conv2d_gather_args {
  const void *in;        /* (batch, in_height, in_width, 8 * in_vectors) */
  const void *weight;    /* (filters, filter_height, filter_width, channels) */
  const void *bias;      /* (out_columns) or NULL */
  void *out;             /* (batch, out_height, out_width, out_columns) */
  int32_t in_stride[3];  /* in vectors: between images, lines, pixels */
  int32_t out_stride[3]; /* the same */
  int32_t batch;
  int32_t in_height, in_width, in_vectors;
  int32_t out_height, out_width, out_columns;
  int32_t filter_height, filter_width;
  int32_t stride[2], padding[2], dilation[2];
  int32_t tap_step[2]; /* dgrad: stride / gcd(stride, dilation), between taps of an output */
  int32_t tap_move[2]; /* of the pixel from one tap to the next: dilation; dgrad: -dilation / gcd */
  int32_t row_blocks;  /* of one residue class; fprop has one class */
  int32_t column_blocks;
  int32_t relu;
} attnpress_conv2d_gather_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_conv2d_gather_args, in_stride, 32)
ATTNPRESS_ASSERT_OFFSET(attnpress_conv2d_gather_args, stride, 92)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_conv2d_gather_args) == 144,
                        "layout of attnpress_conv2d_gather_args");

typedef struct attnpress_conv2d_wgrad_args {
  const void *x;    /* (batch, height, width, 8 * vectors) */
  const void *dout; /* (batch, out_height, out_width, filters) */
  void *dweight;    /* (filters, filter_height, filter_width, 8 * vectors); not read with parts */
  float *parts;     /* (splits, filters, filter_height, filter_width, 8 * vectors) or NULL */
  int32_t x_stride[3];    /* in vectors: between images, lines, pixels */
  int32_t dout_stride[3]; /* the same */
  int32_t batch, height, width, vectors;
  int32_t out_height, out_width, filters;
  int32_t filter_height, filter_width;
  int32_t stride[2], padding[2], dilation[2];
  int32_t row_blocks, column_blocks; /* of filters, and of what a filter has */
  int32_t split_pixels;              /* of a split, a multiple of a slab */
} attnpress_conv2d_wgrad_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_conv2d_wgrad_args, x_stride, 32)
ATTNPRESS_ASSERT_OFFSET(attnpress_conv2d_wgrad_args, stride, 92)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_conv2d_wgrad_args) == 128,
                        "layout of attnpress_conv2d_wgrad_args");

/* One dimension, height or width, of the outputs of a product: first, first + step ..., count of
 * them, which all have the same taps. */
typedef struct attnpress_conv2d_line {
  int32_t first, step, count;
  int32_t in, in_step; /* the input under the first tap of the first output; from one to the next */
  int32_t taps;
  int32_t tap_move;      /* of the input from a tap to the next, not negative */
  int32_t tap, tap_step; /* the filter's tap that is first; from one to the next */
} attnpress_conv2d_line;

enum { ATTNPRESS_CONV2D_CLASSES_MAX = 4 };

/* fprop and dgrad by the copy engine. A class has a line of the height and one of the width. Maps
 * of last index 1 are of a tap's last slab, where it has fewer elements: with lines of 32 or 16, or
 * as many lines as it has. Those of weight with first index 1 are of the last column block of
 * fprop, where it has fewer columns. */
typedef struct attnpress_conv2d_im2col_args {
  attnpress_tensor_map in[ATTNPRESS_CONV2D_CLASSES_MAX][2]; /* x or dout, im2col, by classes */
  attnpress_tensor_map weight[2][2];                        /* (filters, height, width, channels) */
  attnpress_conv2d_line line[ATTNPRESS_CONV2D_CLASSES_MAX][2];
  const void *bias; /* (out_columns) or NULL */
  void *out;
  int32_t out_stride[3]; /* in vectors: between images, lines, pixels */
  int32_t batch, out_columns;
  int32_t tap_slabs;  /* slabs of the depth that a tap has */
  int32_t tail_steps; /* 16 elements each: those of a tap's last slab that are there */
  int32_t row_blocks, column_blocks; /* of a class, and of the columns */
  int32_t tiles;                     /* row blocks of all classes, times column blocks */
  int32_t splits; /* thread blocks of a cluster, which share a tile's depth; 1: each has its own */
  int32_t relu;
  int32_t slab_bytes[2][2];   /* that a slab brings: of the last column block or not, and a tail */
  int32_t has_last, has_tail; /* whether the last column block, and a tap's last slab, have maps */
} attnpress_conv2d_im2col_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_conv2d_im2col_args, line, 1536)
ATTNPRESS_ASSERT_OFFSET(attnpress_conv2d_im2col_args, bias, 1824)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_conv2d_im2col_args) == 1920,
                        "layout of attnpress_conv2d_im2col_args");

/* wgrad by the copy engine. */
typedef struct attnpress_conv2d_im2col_wgrad_args {
  attnpress_tensor_map x, dout; /* im2col: a copy takes 64 pixels of out, and of x what is under */
  void *dweight;                /* (filters, columns); not read with parts */
  float *parts;                 /* (splits, filters, columns) or NULL */
  int32_t filters, columns;     /* columns: (filter_height, filter_width, channels) */
  int32_t channels, filter_width;
  int32_t width[2];   /* of panels of filters, and of channels of a tap: 32 or 64 */
  int32_t panels[2];  /* of filters, and of columns */
  int32_t tap_panels; /* of columns, of a tap; the last may have fewer columns */
  int32_t out_height, out_width;
  int32_t stride[2], padding[2], dilation[2];
  int32_t row_blocks, column_blocks; /* of filters, and of columns */
  int32_t split_slabs, slabs;        /* of the pixels: of a split, of all */
  int32_t reserved;
} attnpress_conv2d_im2col_wgrad_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_conv2d_im2col_wgrad_args, dweight, 256)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_conv2d_im2col_wgrad_args) == 384,
                        "layout of attnpress_conv2d_im2col_wgrad_args");

typedef struct attnpress_conv2d_dout_args {
  const void *dout;       /* (batch, out_height, out_width, 8 * vectors) */
  const void *out;        /* the same, or NULL: without ReLU */
  void *masked;           /* the same without gaps, or NULL; dout where out is positive, else 0 */
  float *parts;           /* (row_blocks, 8 * vectors) or NULL: sums over the pixels of a block */
  int32_t dout_stride[3]; /* in vectors: between images, lines, pixels */
  int32_t out_stride[3];  /* the same */
  int32_t batch, out_height, out_width, vectors;
  int32_t row_blocks, column_blocks;
  int32_t block_pixels; /* of a thread block */
  int32_t reserved;
} attnpress_conv2d_dout_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_conv2d_dout_args, dout_stride, 32)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_conv2d_dout_args) == 88,
                        "layout of attnpress_conv2d_dout_args");

typedef struct attnpress_conv2d_reduce_args {
  const float *parts; /* (count, elements) */
  void *out;          /* (elements) */
  int64_t elements;   /* a multiple of 8 */
  int32_t count;
  int32_t
      group_shift; /* 2^group_shift groups of threads of a block share the parts of an element */
} attnpress_conv2d_reduce_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_conv2d_reduce_args, count, 24)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_conv2d_reduce_args) == 32,
                        "layout of attnpress_conv2d_reduce_args");
