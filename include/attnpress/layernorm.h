/* Layer norm and RMS norm over the rows of a matrix, on NVIDIA GPUs and on the CPU: a family of its
 * own beside attention. attnpress.h has the conventions (status, structs that grow, units, threads,
 * streams), the handle and plans; they hold here too.
 *
 *     y = (x - mean) * rstd * weight + bias over the last dimension of a (rows, columns) tensor
 *     mean = sum(x) / columns,    rstd = 1 / sqrt(sum((x - mean)^2) / columns + eps)
 *
 * RMS norm is the same with 0 in place of the mean. With a residual, x + residual, rounded to the
 * tensors' dtype, is written to `sum` and normalised instead of x.
 *
 * Tensors. The last dimension is contiguous. Row strides are in elements and may be anything, also
 * negative; those of outputs are at least `columns` in size, so that no two rows overlap. 0 means
 * contiguous: `columns`. Pointers are aligned to an element, no more. x, y and all else of their
 * shape have one dtype; weight and bias, and their gradients, have another or the same; mean and
 * rstd are fp32, as all arithmetic is.
 *
 * In place. An output may be an input of the same shape: the same pointer and the same row stride.
 * y and sum are two tensors. Other overlaps of an output are the caller's fault, and not checked.
 *
 * Values. A row that holds NaN or an infinity gives NaN throughout.
 *
 * Results are the same bit for bit whenever shapes, strides, alignment of the pointers to 16 bytes,
 * options and device are. */
#pragma once
#include "attnpress/attnpress.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTNPRESS_LAYERNORM_COLUMNS_MAX = 1 << 20 };

typedef struct attnpress_layernorm_args {
  size_t struct_size;
  const void *x;               /* (rows, columns) */
  const void *residual;        /* (rows, columns); NULL: none */
  const void *weight;          /* (columns); NULL: 1 */
  const void *bias;            /* (columns); NULL: 0 */
  void *y;                     /* (rows, columns); written; may be x or residual */
  void *sum;                   /* (rows, columns); x + residual, written; may be either; not y.
                                  Needed where there is a residual, and only there */
  float *mean;                 /* (rows); written; NULL: not needed, and so with rms */
  float *rstd;                 /* (rows); written; NULL: not needed */
  int64_t rows;                /* 0 and more */
  int64_t columns;             /* 0 to ATTNPRESS_LAYERNORM_COLUMNS_MAX */
  int64_t x_row_stride;        /* 0: columns */
  int64_t residual_row_stride; /* 0: columns */
  int64_t y_row_stride;        /* 0: columns */
  int64_t sum_row_stride;      /* 0: columns */
  int32_t dtype;               /* ATTNPRESS_FP16, ATTNPRESS_BF16 or ATTNPRESS_FP32 */
  int32_t param_dtype;         /* the same, of weight and bias; 0: dtype */
  int32_t rms;                 /* 1: RMS norm */
  float eps;                   /* positive and finite; 0: 1e-5 */
} attnpress_layernorm_args;
#define ATTNPRESS_LAYERNORM_ARGS_INIT                                                              \
  {                                                                                                \
    sizeof(attnpress_layernorm_args), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0,  \
        0, 0, 0, 0, 0, 0.0f                                                                        \
  }

/** The norm of each row, asynchronously on `stream` (CUstream or cudaStream_t; NULL: the default
 * stream of the current context); the CPU backend ignores it and returns when y is there. Needs no
 * workspace.
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, NO_NVRTC, NO_KERNEL, CAPTURING,
 * COMPILE_FAILED, DRIVER_ERROR, IO_ERROR. */
ATTNPRESS_API attnpress_status attnpress_layernorm(attnpress_handle *handle,
                                                   const attnpress_layernorm_args *args,
                                                   void *stream);

/** Plans attnpress_layernorm(). With ATTNPRESS_UP_TO rows and columns are maxima, 0 any.
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, DRIVER_ERROR. */
ATTNPRESS_API attnpress_status attnpress_plan_layernorm(attnpress_handle *handle,
                                                        const attnpress_layernorm_args *args,
                                                        const attnpress_plan_options *options,
                                                        attnpress_plan **plan);

/* With x^ = (x - mean) * rstd and g = dy * weight:
 *     dx = rstd * (g - sum(g) / columns - x^ * sum(g * x^) / columns) + dsum
 *     dweight = sum(dy * x^), dbias = sum(dy) over the rows
 * RMS norm has no mean, and no term sum(g). */
typedef struct attnpress_layernorm_backward_args {
  size_t struct_size;
  const void *x;           /* (rows, columns), what was normalised: the sum, with a residual */
  const void *dy;          /* (rows, columns) */
  const void *weight;      /* (columns); NULL: 1 */
  const void *dsum;        /* (rows, columns); NULL: none. Gradient by the sum that was written */
  const float *mean;       /* (rows), of the forward pass; NULL with rms */
  const float *rstd;       /* (rows), of the forward pass */
  void *dx;                /* (rows, columns); written; may be x, dy or dsum. With a residual, the
                              gradient by both x and residual */
  void *dweight;           /* (columns); written; NULL: not needed */
  void *dbias;             /* (columns); written; NULL: not needed */
  int64_t rows;            /* 0 and more */
  int64_t columns;         /* 0 to ATTNPRESS_LAYERNORM_COLUMNS_MAX */
  int64_t x_row_stride;    /* 0: columns */
  int64_t dy_row_stride;   /* 0: columns */
  int64_t dsum_row_stride; /* 0: columns */
  int64_t dx_row_stride;   /* 0: columns */
  int32_t dtype;           /* ATTNPRESS_FP16, ATTNPRESS_BF16 or ATTNPRESS_FP32 */
  int32_t param_dtype;     /* the same, of weight, dweight and dbias; 0: dtype */
  int32_t rms;             /* 1: RMS norm */
  int32_t reserved;
  /* Device memory, 16-byte aligned, where dweight or dbias is needed: of this call alone, as others
   * that run at the same time would wait for each other's words in it. */
  void *workspace;
  size_t workspace_bytes; /* attnpress_plan_workspace_bytes() tells how much is needed */
} attnpress_layernorm_backward_args;
#define ATTNPRESS_LAYERNORM_BACKWARD_ARGS_INIT                                                     \
  {                                                                                                \
    sizeof(attnpress_layernorm_backward_args), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,     \
        NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0                                                \
  }

/** The gradients, summed in a fixed order; stream and statuses as of attnpress_layernorm(), and
 * WORKSPACE_TOO_SMALL. The CPU backend needs no workspace. */
ATTNPRESS_API attnpress_status attnpress_layernorm_backward(
    attnpress_handle *handle, const attnpress_layernorm_backward_args *args, void *stream);

/** Plans attnpress_layernorm_backward(), as attnpress_plan_layernorm(). Whether weight, dweight and
 * dbias are NULL is part of what is planned: with ATTNPRESS_UP_TO the plan serves calls with fewer
 * of them, too. */
ATTNPRESS_API attnpress_status attnpress_plan_layernorm_backward(
    attnpress_handle *handle, const attnpress_layernorm_backward_args *args,
    const attnpress_plan_options *options, attnpress_plan **plan);

#ifdef __cplusplus
}
#endif
