/* The matrix product in place, on NVIDIA GPUs and on the CPU: a family of its own beside attention.
 * attnpress.h has the conventions (status, structs that grow, units, threads, streams), the handle
 * and plans; they hold here too.
 *
 *     x = x W, or x = x W^T, for a square W
 *
 * There is no second x: no workspace, and nothing is allocated on the device. Rows of x wait in
 * shared memory or in registers until nobody reads their place any longer.
 *
 * Tensors. The last dimension is contiguous. Pointers are 16-byte aligned, and strides, in
 * elements, amount to a multiple of 16 bytes; 0 means without gaps. Rows of x do not overlap one
 * another, nor W. x is fp16 or bf16; W is of x's dtype or fp32, and is then rounded to x's dtype
 * where it is read. Sums are fp32, and what they come to is rounded to x's dtype once.
 *
 * Results are the same bit for bit whenever shapes, strides, options and device are. A row's result
 * does not depend on the other rows, nor on how many there are. */
#pragma once
#include "attnpress/attnpress.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTNPRESS_MATMUL_N_MAX = 4096 /* on every device */ };

typedef struct attnpress_matmul_args {
  size_t struct_size;
  void *x;            /* (rows, n); read and written */
  const void *w;      /* (n, n) */
  int64_t rows;       /* 0 and more */
  int64_t n;          /* 0, 8, 16 ... ATTNPRESS_MATMUL_N_MAX */
  int64_t x_stride;   /* between rows, n or more; 0: n */
  int64_t w_stride;   /* between rows, n or more; 0: n */
  int32_t dtype;      /* of x: ATTNPRESS_FP16 or ATTNPRESS_BF16 */
  int32_t w_dtype;    /* the same, or ATTNPRESS_FP32; 0: dtype */
  int32_t transposed; /* 1: x W^T */
  int32_t reserved;   /* 0 */
} attnpress_matmul_args;
#define ATTNPRESS_MATMUL_ARGS_INIT                                                                 \
  { sizeof(attnpress_matmul_args), NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0 }

/** The product, asynchronously on `stream` (CUstream or cudaStream_t; NULL: the default stream of
 * the current context); the CPU backend ignores it and returns when x is written. Needs no
 * workspace. A call that fails has not touched x. OK, INVALID_ARGUMENT, NOT_SUPPORTED,
 * OUT_OF_MEMORY, NO_NVRTC, NO_KERNEL, CAPTURING, COMPILE_FAILED, DRIVER_ERROR, IO_ERROR. */
ATTNPRESS_API attnpress_status attnpress_matmul(attnpress_handle *handle,
                                                const attnpress_matmul_args *args, void *stream);

/** Plans attnpress_matmul(). With ATTNPRESS_UP_TO rows and n are maxima, 0 any.
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, DRIVER_ERROR. */
ATTNPRESS_API attnpress_status attnpress_plan_matmul(attnpress_handle *handle,
                                                     const attnpress_matmul_args *args,
                                                     const attnpress_plan_options *options,
                                                     attnpress_plan **plan);

#ifdef __cplusplus
}
#endif
