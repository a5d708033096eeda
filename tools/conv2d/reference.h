/* Convolutions and their gradients in float64 on the host, and what results are held to; `attnpress
 * run conv2d`, the emulator and the tests use it. Slow and simple.
 *
 * Each element may be off by what rounding it to its dtype costs, and by a few roundings of fp32 in
 * what it is the sum of. */
#pragma once
#include <stdint.h>

#include "attnpress/conv2d.h"

/** One call's tensors in host memory. Strides between images, lines and pixels, in elements. */
typedef struct conv2d_case {
  attnpress_conv2d_shape shape; /* without zeros that mean defaults; fp16, bf16, fp32 */
  int64_t out_height, out_width;
  const void *x, *weight, *bias; /* bias: or NULL */
  const void *out;               /* the result; backward, with relu: what it was */
  const void *dout;
  const void *dx, *dweight, *dbias; /* the results */
  int64_t x_stride[3], out_stride[3], dout_stride[3], dx_stride[3];
} conv2d_case;

/** The worst of what was checked so far; zero-fill it first. */
typedef struct conv2d_error {
  double ratio; /* of |out - ref| to the tolerance: holds where it is at most 1 */
  int64_t elements;
  const char *what;       /* "out", "dx", "dweight" or "dbias" */
  int64_t at[4];          /* image, line, pixel, channel; or filter, tap row, tap column, channel */
  double value, expected; /* of the worst element */
} conv2d_error;

/** Fills in strides without gaps, of images of height, width and channels. */
void conv2d_pack(int64_t height, int64_t width, int64_t channels, int64_t stride[3]);
/** Elements from the first to behind the last. */
int64_t conv2d_span(int64_t batch, int64_t height, int64_t width, int64_t channels,
                    const int64_t stride[3]);

/** All channels of pixel number `pixel`, counted over images and lines: of out, and of dx. */
void conv2d_check_out(const conv2d_case *c, int64_t pixel, conv2d_error *error);
void conv2d_check_dx(const conv2d_case *c, int64_t pixel, conv2d_error *error);
/** All channels of tap number `tap`, counted over the filters. */
void conv2d_check_dweight(const conv2d_case *c, int64_t tap, conv2d_error *error);
void conv2d_check_dbias(const conv2d_case *c, conv2d_error *error);
/** How many pixels and taps there are for the functions above. */
int64_t conv2d_out_pixels(const conv2d_case *c);
int64_t conv2d_dx_pixels(const conv2d_case *c);
int64_t conv2d_taps(const conv2d_case *c);
/** One value, held to what it should be; size: the sum of the terms' sizes. */
void conv2d_compare(conv2d_error *error, const char *what, int32_t dtype, double value,
                    double expected, double size, int64_t at0, int64_t at1, int64_t at2,
                    int64_t at3);
