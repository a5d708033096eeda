/* Convolutions of two dimensions, on NVIDIA GPUs and on the CPU: a family of its own beside
 * attention. attnpress.h has the conventions (status, structs that grow, units, threads, streams),
 * the handle and plans; they hold here too.
 *
 *     out[n, p, q, k] = relu(bias[k] + sum over r, s, c of x[n, h, w, c] * weight[k, r, s, c]),
 *     h = p * stride[0] - padding[0] + r * dilation[0], w = q * stride[1] - padding[1] + s *
 *     dilation[1]
 *
 * where x is 0 outside, and bias and relu are optional. The output has
 *
 *     P = (height + 2 padding[0] - dilation[0] (filter_height - 1) - 1) / stride[0] + 1
 *
 * lines, rounded down, and Q columns likewise; both must be 1 or more.
 *
 * Tensors. Channels come last and are contiguous, in memory (batch, height, width, channels): what
 * PyTorch calls channels_last. The numbers of channels and of filters are multiples of 8. Strides
 * between images, lines and pixels are in elements, positive, and multiples of 8; 0 means without
 * gaps; the elements of an output do not overlap. Weights are (filters, filter_height,
 * filter_width, channels), without gaps. Pointers are aligned to 16 bytes. All tensors of a call
 * have one dtype, fp16 or bf16; sums are fp32. The CPU takes fp32 and fp64 too, and sums in fp64.
 * Outputs overlap no input. No tensor spans more than 2^34 elements, and there are at most 2^31 - 1
 * pixels.
 *
 * Results are the same bit for bit whenever shapes, strides, options and device are: all sums have
 * one order. */
#pragma once
#include "attnpress/attnpress.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTNPRESS_CONV2D_FP64 = 4 /* a dtype of the CPU backend alone */ };

/** What a convolution does. Pairs are of the height and the width. */
typedef struct attnpress_conv2d_shape {
  int64_t batch; /* 0 and more */
  int64_t height;
  int64_t width;
  int64_t channels; /* of x; a multiple of 8 */
  int64_t filters;  /* channels of the output; a multiple of 8 */
  int64_t filter_height;
  int64_t filter_width;
  int32_t stride[2];   /* 0: 1 */
  int32_t padding[2];  /* on either side */
  int32_t dilation[2]; /* 0: 1 */
  int32_t dtype;       /* ATTNPRESS_FP16, _BF16; on the CPU _FP32 and ATTNPRESS_CONV2D_FP64 too */
  int32_t relu;        /* 1: what is negative becomes 0 */
} attnpress_conv2d_shape;

/* Where a kernel's copies come from. A pass that the copy engine cannot serve gathers. */
enum {
  ATTNPRESS_CONV2D_GATHER = 1, /* each thread copies 8 channels of a pixel at a time */
  ATTNPRESS_CONV2D_IM2COL = 2, /* the copy engine of compute capability 9.0 does, where it has a map
                                  of the images */
};

/** Which kernels run: to measure them beside each other. What is 0 is chosen by the library. Results
 * are right whatever is chosen; the CPU backend ignores it.
 *
 * copies: ATTNPRESS_CONV2D_GATHER or _IM2COL. By default _IM2COL, or whichever is expected to take less
 * where the channels that are summed over (of dx the filters) are no multiple of 64.
 * splits: of the pixels that dweight sums over, 1 to 65535. Of out and dx so many thread blocks, 2, 4 or
 * 8, share a tile, or the next fewer, where the copy engine serves and tiles have at most 128 rows and
 * columns; else none do. */
typedef struct attnpress_conv2d_choice {
  int32_t copies;
  int32_t block_rows, block_columns; /* of a thread block's product, such as 128 and 64; both or
                                        none. NOT_SUPPORTED names those that there are */
  int32_t splits;
} attnpress_conv2d_choice;

typedef struct attnpress_conv2d_args {
  size_t struct_size;
  attnpress_conv2d_shape shape;
  const void *x;         /* (batch, height, width, channels) */
  const void *weight;    /* (filters, filter_height, filter_width, channels) */
  const void *bias;      /* (filters), or NULL */
  void *out;             /* (batch, P, Q, filters); written */
  int64_t x_stride[3];   /* between images, lines, pixels; 0: without gaps */
  int64_t out_stride[3]; /* the same */
  attnpress_conv2d_choice choice;
} attnpress_conv2d_args;
#define ATTNPRESS_CONV2D_ARGS_INIT                                                                 \
  {                                                                                                \
    sizeof(attnpress_conv2d_args), {0, 0, 0, 0, 0, 0, 0, {0, 0}, {0, 0}, {0, 0}, 0, 0}, NULL,      \
        NULL, NULL, NULL, {0, 0, 0}, {0, 0, 0}, {                                                  \
      0, 0, 0, 0                                                                                   \
    }                                                                                              \
  }

/** The lines P and columns Q of the output: OK, or INVALID_ARGUMENT where there are none. */
ATTNPRESS_API attnpress_status attnpress_conv2d_output(const attnpress_conv2d_shape *shape,
                                                       int64_t *height, int64_t *width);

/** The convolution, asynchronously on `stream` (CUstream or cudaStream_t; NULL: the default stream
 * of the current context); the CPU backend ignores it and returns when out is there. Needs no
 * workspace. OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, NO_NVRTC, NO_KERNEL, CAPTURING,
 * COMPILE_FAILED, DRIVER_ERROR, IO_ERROR. */
ATTNPRESS_API attnpress_status attnpress_conv2d(attnpress_handle *handle,
                                                const attnpress_conv2d_args *args, void *stream);

/** Plans attnpress_conv2d(). With ATTNPRESS_UP_TO, batch, height and width are maxima; the rest is
 * what calls have, and all tiles are prepared.
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, DRIVER_ERROR. */
ATTNPRESS_API attnpress_status attnpress_plan_conv2d(attnpress_handle *handle,
                                                     const attnpress_conv2d_args *args,
                                                     const attnpress_plan_options *options,
                                                     attnpress_plan **plan);

typedef struct attnpress_conv2d_backward_args {
  size_t struct_size;
  attnpress_conv2d_shape shape; /* relu: dout counts where out is positive */
  const void *x;                /* read where dweight is needed */
  const void *weight;           /* read where dx is needed */
  const void *out;              /* (batch, P, Q, filters): the result, read with relu alone */
  const void *dout;             /* (batch, P, Q, filters) */
  void *dx;                     /* (batch, height, width, channels); written; NULL: not needed */
  void *dweight;         /* (filters, filter_height, filter_width, channels); written; or NULL */
  void *dbias;           /* (filters); written; NULL: not needed */
  int64_t x_stride[3];   /* between images, lines, pixels; 0: without gaps */
  int64_t out_stride[3]; /* the same, and so on */
  int64_t dout_stride[3];
  int64_t dx_stride[3];
  void *workspace;        /* device memory, 16-byte aligned */
  size_t workspace_bytes; /* attnpress_plan_workspace_bytes() tells how much is needed */
  attnpress_conv2d_choice choice;
} attnpress_conv2d_backward_args;
#define ATTNPRESS_CONV2D_BACKWARD_ARGS_INIT                                                        \
  {                                                                                                \
    sizeof(attnpress_conv2d_backward_args), {0, 0, 0, 0, 0, 0, 0, {0, 0}, {0, 0}, {0, 0}, 0, 0},   \
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0},      \
        NULL, 0, {                                                                                 \
      0, 0, 0, 0                                                                                   \
    }                                                                                              \
  }

/** dx, dweight and dbias; stream and statuses as of attnpress_conv2d(), and WORKSPACE_TOO_SMALL.
 * The CPU backend needs no workspace. */
ATTNPRESS_API attnpress_status attnpress_conv2d_backward(attnpress_handle *handle,
                                                         const attnpress_conv2d_backward_args *args,
                                                         void *stream);

/** Plans attnpress_conv2d_backward(), as attnpress_plan_conv2d(). Which of dx, dweight and dbias
 * are NULL is part of what is planned. A range names no workspace: NOT_SUPPORTED where it is asked.
 * */
ATTNPRESS_API attnpress_status
attnpress_plan_conv2d_backward(attnpress_handle *handle, const attnpress_conv2d_backward_args *args,
                               const attnpress_plan_options *options, attnpress_plan **plan);

#ifdef __cplusplus
}
#endif
