/* Softmax over the rows of a matrix, on NVIDIA GPUs and on the CPU: a family of its own beside
 * attention. attnpress.h has the conventions (status, structs that grow, units, threads, streams),
 * the handle and plans; they hold here too.
 *
 *     y = softmax(scale * x) over the last dimension of a (rows, columns) tensor
 *     dx = scale * y * (dy - sum(dy * y))
 *
 * Tensors. The last dimension is contiguous. Row strides are in elements and may be anything, also
 * negative; those of outputs are at least `columns` in size, so that no two rows overlap. 0 means
 * contiguous: `columns`. Pointers are aligned to an element, no more. All tensors of a call have
 * one dtype; arithmetic is fp32.
 *
 * In place. y may be x, and dx may be y or dy: the same pointer and the same row stride. Other
 * overlaps of an output are the caller's fault, and not checked.
 *
 * Values. A row that holds NaN or +inf (of scale * x), or nothing but -inf, gives NaN throughout;
 * -inf beside finite values gives 0.
 *
 * No call needs a workspace, and results are the same bit for bit whenever shapes, strides,
 * alignment of the pointers to 16 bytes, options and device are. */
#pragma once
#include "attnpress/attnpress.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTNPRESS_SOFTMAX_COLUMNS_MAX = 1 << 20 };

typedef struct attnpress_softmax_args {
  size_t struct_size;
  const void *x;        /* (rows, columns) */
  void *y;              /* (rows, columns); written; may be x */
  int64_t rows;         /* 0 and more */
  int64_t columns;      /* 0 to ATTNPRESS_SOFTMAX_COLUMNS_MAX */
  int64_t x_row_stride; /* 0: columns */
  int64_t y_row_stride; /* 0: columns */
  int32_t dtype;        /* ATTNPRESS_FP16, ATTNPRESS_BF16 or ATTNPRESS_FP32 */
  float scale;          /* finite, of either sign; 0: 1 */
} attnpress_softmax_args;
#define ATTNPRESS_SOFTMAX_ARGS_INIT                                                                \
  { sizeof(attnpress_softmax_args), NULL, NULL, 0, 0, 0, 0, 0, 0.0f }

/** y = softmax(scale * x), asynchronously on `stream` (CUstream or cudaStream_t; NULL: the default
 * stream of the current context); the CPU backend ignores it and returns when y is there.
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, NO_NVRTC, NO_KERNEL, CAPTURING,
 * COMPILE_FAILED, DRIVER_ERROR, IO_ERROR. */
ATTNPRESS_API attnpress_status attnpress_softmax(attnpress_handle *handle,
                                                 const attnpress_softmax_args *args, void *stream);

/** Plans attnpress_softmax(). With ATTNPRESS_UP_TO rows and columns are maxima, 0 any.
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, DRIVER_ERROR. */
ATTNPRESS_API attnpress_status attnpress_plan_softmax(attnpress_handle *handle,
                                                      const attnpress_softmax_args *args,
                                                      const attnpress_plan_options *options,
                                                      attnpress_plan **plan);

typedef struct attnpress_softmax_backward_args {
  size_t struct_size;
  const void *y;         /* (rows, columns), what the forward pass gave */
  const void *dy;        /* (rows, columns) */
  void *dx;              /* (rows, columns); written; may be y or dy */
  int64_t rows;          /* 0 and more */
  int64_t columns;       /* 0 to ATTNPRESS_SOFTMAX_COLUMNS_MAX */
  int64_t y_row_stride;  /* 0: columns */
  int64_t dy_row_stride; /* 0: columns */
  int64_t dx_row_stride; /* 0: columns */
  int32_t dtype;         /* ATTNPRESS_FP16, ATTNPRESS_BF16 or ATTNPRESS_FP32 */
  float scale;           /* of the forward pass; finite; 0: 1 */
} attnpress_softmax_backward_args;
#define ATTNPRESS_SOFTMAX_BACKWARD_ARGS_INIT                                                       \
  { sizeof(attnpress_softmax_backward_args), NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0.0f }

/** dx = scale * y * (dy - sum(dy * y)); stream and statuses as of attnpress_softmax(). */
ATTNPRESS_API attnpress_status attnpress_softmax_backward(
    attnpress_handle *handle, const attnpress_softmax_backward_args *args, void *stream);

/** Plans attnpress_softmax_backward(), as attnpress_plan_softmax(). */
ATTNPRESS_API attnpress_status attnpress_plan_softmax_backward(
    attnpress_handle *handle, const attnpress_softmax_backward_args *args,
    const attnpress_plan_options *options, attnpress_plan **plan);

#ifdef __cplusplus
}
#endif
