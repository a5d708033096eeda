/* Convolutions and their gradients in float64, element by element. */
#include "reference.h"

#include <math.h>

#include "../rows.h"

void conv2d_pack(int64_t height, int64_t width, int64_t channels, int64_t stride[3]) {
  stride[2] = channels;
  stride[1] = width * channels;
  stride[0] = height * width * channels;
}

int64_t conv2d_span(int64_t batch, int64_t height, int64_t width, int64_t channels,
                    const int64_t stride[3]) {
  if (batch == 0 || height == 0 || width == 0)
    return 0;
  return (batch - 1) * stride[0] + (height - 1) * stride[1] + (width - 1) * stride[2] + channels;
}

int64_t conv2d_out_pixels(const conv2d_case *c) {
  return c->shape.batch * c->out_height * c->out_width;
}

int64_t conv2d_dx_pixels(const conv2d_case *c) {
  return c->shape.batch * c->shape.height * c->shape.width;
}

int64_t conv2d_taps(const conv2d_case *c) {
  return c->shape.filters * c->shape.filter_height * c->shape.filter_width;
}

void conv2d_compare(conv2d_error *e, const char *what, int32_t dtype, double value, double expected,
                    double size, int64_t at0, int64_t at1, int64_t at2, int64_t at3) {
  const double tolerance = rows_rounding(expected, dtype) + 2e-6 * size;
  const double ratio = isnan(value) && isnan(expected) ? 0.0 : fabs(value - expected) / tolerance;
  ++e->elements;
  if (!(ratio <= e->ratio))
    *e = (conv2d_error){
        isnan(ratio) ? INFINITY : ratio, e->elements, what, {at0, at1, at2, at3}, value, expected};
}

/* ---- Elements -------------------------------------------------------------------------------- */

static double load(const conv2d_case *c, const void *data, const int64_t stride[3], int64_t n,
                   int64_t y, int64_t x, int64_t i) {
  return rows_load(data, n * stride[0] + y * stride[1] + x * stride[2] + i, c->shape.dtype);
}

static double weight_of(const conv2d_case *c, const void *data, int64_t k, int64_t r, int64_t s,
                        int64_t i) {
  const attnpress_conv2d_shape *p = &c->shape;
  return rows_load(data, ((k * p->filter_height + r) * p->filter_width + s) * p->channels + i,
                   p->dtype);
}

static double gradient(const conv2d_case *c, int64_t n, int64_t y, int64_t x, int64_t k) {
  if (c->shape.relu && !(load(c, c->out, c->out_stride, n, y, x, k) > 0.0))
    return 0.0;
  return load(c, c->dout, c->dout_stride, n, y, x, k);
}

/** The line (or column) of x that a tap of an output lies on. */
static int64_t under(const conv2d_case *c, int d, int64_t output, int64_t tap) {
  return output * c->shape.stride[d] - c->shape.padding[d] + tap * c->shape.dilation[d];
}

static int is_inside(int64_t at, int64_t extent) {
  return at >= 0 && at < extent;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

void conv2d_check_out(const conv2d_case *c, int64_t pixel, conv2d_error *e) {
  const attnpress_conv2d_shape *p = &c->shape;
  const int64_t q = pixel % c->out_width, line = pixel / c->out_width;
  const int64_t y = line % c->out_height, n = line / c->out_height;
  for (int64_t k = 0; k < p->filters; ++k) {
    double sum = c->bias ? rows_load(c->bias, k, p->dtype) : 0.0, size = fabs(sum);
    for (int64_t r = 0; r < p->filter_height; ++r)
      for (int64_t s = 0; s < p->filter_width; ++s) {
        const int64_t h = under(c, 0, y, r), w = under(c, 1, q, s);
        if (!is_inside(h, p->height) || !is_inside(w, p->width))
          continue;
        for (int64_t i = 0; i < p->channels; ++i) {
          const double term =
              load(c, c->x, c->x_stride, n, h, w, i) * weight_of(c, c->weight, k, r, s, i);
          sum += term;
          size += fabs(term);
        }
      }
    conv2d_compare(e, "out", p->dtype, load(c, c->out, c->out_stride, n, y, q, k),
                   p->relu && sum < 0.0 ? 0.0 : sum, size, n, y, q, k);
  }
}

void conv2d_check_dx(const conv2d_case *c, int64_t pixel, conv2d_error *e) {
  const attnpress_conv2d_shape *p = &c->shape;
  const int64_t w = pixel % p->width, line = pixel / p->width;
  const int64_t h = line % p->height, n = line / p->height;
  for (int64_t i = 0; i < p->channels; ++i) {
    double sum = 0.0, size = 0.0;
    for (int64_t r = 0; r < p->filter_height; ++r)
      for (int64_t s = 0; s < p->filter_width; ++s) {
        const int64_t above = h - under(c, 0, 0, r), beside = w - under(c, 1, 0, s);
        const int64_t y = above / p->stride[0], x = beside / p->stride[1];
        if (above % p->stride[0] != 0 || beside % p->stride[1] != 0 || above < 0 || beside < 0 ||
            y >= c->out_height || x >= c->out_width)
          continue;
        for (int64_t k = 0; k < p->filters; ++k) {
          const double term = gradient(c, n, y, x, k) * weight_of(c, c->weight, k, r, s, i);
          sum += term;
          size += fabs(term);
        }
      }
    conv2d_compare(e, "dx", p->dtype, load(c, c->dx, c->dx_stride, n, h, w, i), sum, size, n, h, w,
                   i);
  }
}

void conv2d_check_dweight(const conv2d_case *c, int64_t tap, conv2d_error *e) {
  const attnpress_conv2d_shape *p = &c->shape;
  const int64_t s = tap % p->filter_width, row = tap / p->filter_width;
  const int64_t r = row % p->filter_height, k = row / p->filter_height;
  for (int64_t i = 0; i < p->channels; ++i) {
    double sum = 0.0, size = 0.0;
    for (int64_t n = 0; n < p->batch; ++n)
      for (int64_t y = 0; y < c->out_height; ++y)
        for (int64_t x = 0; x < c->out_width; ++x) {
          const int64_t h = under(c, 0, y, r), w = under(c, 1, x, s);
          if (!is_inside(h, p->height) || !is_inside(w, p->width))
            continue;
          const double term = gradient(c, n, y, x, k) * load(c, c->x, c->x_stride, n, h, w, i);
          sum += term;
          size += fabs(term);
        }
    conv2d_compare(e, "dweight", p->dtype, weight_of(c, c->dweight, k, r, s, i), sum, size, k, r, s,
                   i);
  }
}

void conv2d_check_dbias(const conv2d_case *c, conv2d_error *e) {
  for (int64_t k = 0; k < c->shape.filters; ++k) {
    double sum = 0.0, size = 0.0;
    for (int64_t n = 0; n < c->shape.batch; ++n)
      for (int64_t y = 0; y < c->out_height; ++y)
        for (int64_t x = 0; x < c->out_width; ++x) {
          const double term = gradient(c, n, y, x, k);
          sum += term;
          size += fabs(term);
        }
    conv2d_compare(e, "dbias", c->shape.dtype, rows_load(c->dbias, k, c->shape.dtype), sum, size, 0,
                   0, 0, k);
  }
}
