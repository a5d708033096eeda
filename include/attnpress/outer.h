/* The outer product, on NVIDIA GPUs and on the CPU: a family of its own beside attention.
 * attnpress.h has the conventions (status, structs that grow, units, threads, streams), the handle
 * and plans; they hold here too.
 *
 *     c[n, i, j] = x[n, i] * y[n, j], or, summed,  c[i, j] = sum over n of x[n, i] * y[n, j]
 *
 *     dx[n, i] = sum over j of dc[n, i, j] * y[n, j],    dy[n, j] = sum over i of dc[n, i, j] * x[n, i]
 *
 * or, on GPUs, with a caller's function f(x[n, i], y[n, j]) in place of the multiplication, and its
 * derivatives by x and y in place of y and x: attnpress_outer_mod.
 *
 * Tensors. The last dimension is contiguous. Strides are in elements and may be anything, also
 * negative, where no two elements of an output overlap; 0 means without gaps. Pointers are aligned to
 * an element. All tensors of a call have one dtype; arithmetic is fp32, on the CPU fp64. Outputs
 * overlap no input.
 *
 * Results are the same bit for bit whenever shapes, strides, alignment of the pointers to 16 bytes,
 * options and device are, and, of a sum over the batch, workspace_bytes, by which it is split. */
#pragma once
#include "attnpress/attnpress.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTNPRESS_OUTER_FP64 = 4 /* a dtype of the CPU backend alone */ };

/** A function of an element of x and one of y, a text in C, which NVRTC compiles on first use, with
 * its derivatives where gradients are wanted; kernels are kept in the cache by what it says. Names in
 * scope, all constants:
 *
 *     float x, y         the elements
 *     clampi(x, low, high), INFINITY, C's math functions in single precision, scalars
 *
 * Derivatives are those of dual numbers (device/dual.cuh), which know + - * /, comparisons, ?: and
 * expf, exp2f, logf, log2f, log1pf, sqrtf, tanhf, sinf, cosf, erff, powf, fabsf, fmaxf, fminf, floorf,
 * ceilf; where f has a kink, they are those of one of its sides. Names in it that begin with snippet_
 * or attnpress_ are the library's. NOT_SUPPORTED on the CPU, which would need a compiler. */
typedef struct attnpress_outer_mod {
  size_t struct_size;
  const char *name;  /* in errors of its lines: letters, digits, '_', '-', '.'; NULL: "f" */
  const char *value; /* one expression, such as "tanhf(x + y)"; up to 16,384 bytes */
  const attnpress_score_scalar *scalars; /* (scalar_count): numbers, arguments of the launch */
  int32_t scalar_count;                  /* 0 to 16 */
  int32_t reserved;                      /* 0 */
} attnpress_outer_mod;
#define ATTNPRESS_OUTER_MOD_INIT                                                                   \
  { sizeof(attnpress_outer_mod), NULL, NULL, NULL, 0, 0 }

typedef struct attnpress_outer_args {
  size_t struct_size;
  const void *x;          /* (batch, rows) */
  const void *y;          /* (batch, columns) */
  void *c;                /* (batch, rows, columns), summed (rows, columns); written */
  int64_t batch;          /* 0 and more */
  int64_t rows;           /* 0 to 2^31 - 1 */
  int64_t columns;        /* 0 to 2^31 - 1 */
  int64_t x_stride;       /* between entries of the batch; 0: rows */
  int64_t y_stride;       /* the same; 0: columns */
  int64_t c_batch_stride; /* 0: rows * c_row_stride; not read where c is summed */
  int64_t c_row_stride;   /* 0: columns */
  int32_t dtype;          /* ATTNPRESS_FP16, _BF16, _FP32; on the CPU ATTNPRESS_OUTER_FP64 too */
  int32_t summed;         /* 1: over the batch */
  const attnpress_outer_mod *mod; /* NULL: c is the product */
  void *workspace;                /* summed: device memory, 16-byte aligned */
  size_t workspace_bytes;         /* summed: the most that there may be. A plan with SIZE_MAX tells
                                     how much splits the batch as is fastest; with less it is split
                                     less, with 0 not at all, which takes longer where c is small
                                     and the batch large */
} attnpress_outer_args;
#define ATTNPRESS_OUTER_ARGS_INIT                                                                  \
  { sizeof(attnpress_outer_args), NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0 }

/** The product, asynchronously on `stream` (CUstream or cudaStream_t; NULL: the default stream of the
 * current context); the CPU backend ignores it and returns when c is there.
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, NO_NVRTC, NO_KERNEL, CAPTURING,
 * COMPILE_FAILED, WORKSPACE_TOO_SMALL (where workspace is NULL and workspace_bytes says otherwise),
 * DRIVER_ERROR, IO_ERROR. */
ATTNPRESS_API attnpress_status attnpress_outer(attnpress_handle *handle,
                                               const attnpress_outer_args *args, void *stream);

/** Plans attnpress_outer(). With ATTNPRESS_UP_TO extents are maxima, 0 any. workspace_bytes is part
 * of what is planned: attnpress_plan_workspace_bytes() tells of no more.
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, DRIVER_ERROR. */
ATTNPRESS_API attnpress_status attnpress_plan_outer(attnpress_handle *handle,
                                                    const attnpress_outer_args *args,
                                                    const attnpress_plan_options *options,
                                                    attnpress_plan **plan);

typedef struct attnpress_outer_backward_args {
  size_t struct_size;
  const void *x;  /* (batch, rows) */
  const void *y;  /* (batch, columns) */
  const void *dc; /* (batch, rows, columns), summed (rows, columns) */
  void *dx;       /* (batch, rows); written; NULL: not needed */
  void *dy;       /* (batch, columns); written; NULL: not needed */
  int64_t batch;  /* as above, and so on */
  int64_t rows;
  int64_t columns;
  int64_t x_stride;        /* 0: rows */
  int64_t y_stride;        /* 0: columns */
  int64_t dc_batch_stride; /* 0: rows * dc_row_stride; not read where c was summed */
  int64_t dc_row_stride;   /* 0: columns */
  int64_t dx_stride;       /* 0: rows */
  int64_t dy_stride;       /* 0: columns */
  int32_t dtype;
  int32_t summed;                 /* 1: c was summed over the batch */
  void *workspace;                /* device memory, 16-byte aligned, where dy is needed */
  size_t workspace_bytes;         /* attnpress_plan_workspace_bytes() tells how much is needed */
  const attnpress_outer_mod *mod; /* as in the forward call */
} attnpress_outer_backward_args;
#define ATTNPRESS_OUTER_BACKWARD_ARGS_INIT                                                         \
  {                                                                                                \
    sizeof(attnpress_outer_backward_args), NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0,   \
        0, 0, 0, NULL, 0, NULL                                                                     \
  }

/** dx and dy, summed in a fixed order; stream and statuses as of attnpress_outer(). The CPU backend
 * needs no workspace. */
ATTNPRESS_API attnpress_status attnpress_outer_backward(attnpress_handle *handle,
                                                        const attnpress_outer_backward_args *args,
                                                        void *stream);

/** Plans attnpress_outer_backward(), as attnpress_plan_outer(). Whether dy is NULL is part of what is
 * planned, and, where c was summed and the plan is of one call, whether dx is. A range names no
 * workspace without bounds of batch, rows and columns: NOT_SUPPORTED. */
ATTNPRESS_API attnpress_status
attnpress_plan_outer_backward(attnpress_handle *handle, const attnpress_outer_backward_args *args,
                              const attnpress_plan_options *options, attnpress_plan **plan);

#ifdef __cplusplus
}
#endif
