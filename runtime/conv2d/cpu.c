/* The CPU backend, in double whatever the dtype. Tasks are lines of out or of dx, or some filters
 * of dweight under a tap, so that each sum is made by one thread, in order. Weights are widened
 * once for a task. */
#include "conv2d/conv2d.h"
#include "cpu/element.h"
#include "cpu/threads.h"
#include "core/numbers.h"

enum { FILTERS = 32 /* of a task of dweight */ };

static int64_t groups_of(const attnpress_conv2d_shape *s) {
  return ceil_div(s->filters, FILTERS);
}

static double load(const ap_conv2d_problem *p, const void *data, int64_t at) {
  return ap_load_double(data, at, p->shape.dtype);
}

static void store(const ap_conv2d_problem *p, void *data, int64_t at, double value) {
  ap_store_double(data, at, value, p->shape.dtype);
}

/** `count` elements from `at` on, as doubles; one dtype is asked for once. */
static void load_row(const ap_conv2d_problem *p, const void *data, int64_t at, int64_t count,
                     double *restrict row) {
  switch (p->shape.dtype) {
  case ATTNPRESS_FP16:
    for (int64_t i = 0; i < count; ++i)
      row[i] = ap_load_double(data, at + i, ATTNPRESS_FP16);
    break;
  case ATTNPRESS_BF16:
    for (int64_t i = 0; i < count; ++i)
      row[i] = ap_load_double(data, at + i, ATTNPRESS_BF16);
    break;
  default:
    for (int64_t i = 0; i < count; ++i)
      row[i] = load(p, data, at + i);
  }
}

static int64_t offset_of(const int64_t stride[3], int64_t n, int64_t y, int64_t x) {
  return n * stride[0] + y * stride[1] + x * stride[2];
}

static int64_t weight_of(const ap_conv2d_problem *p, int64_t k, int64_t r, int64_t s) {
  const attnpress_conv2d_shape *shape = &p->shape;
  return ((k * shape->filter_height + r) * shape->filter_width + s) * shape->channels;
}

/** The gradient of the convolution itself: what ReLU let through. */
static double gradient(const ap_conv2d_problem *p, int64_t n, int64_t y, int64_t x, int64_t k) {
  if (p->shape.relu && !(load(p, p->out, offset_of(p->out_stride, n, y, x) + k) > 0.0))
    return 0.0;
  return load(p, p->dout, offset_of(p->dout_stride, n, y, x) + k);
}

/* ---- A line of out --------------------------------------------------------------------------- */

/* scratch: sums (P, filters), weights of a tap (channels, filters). */
static void forward_line(const void *job, void *scratch, int64_t task) {
  const ap_conv2d_problem *p = job;
  const attnpress_conv2d_shape *s = &p->shape;
  const int64_t n = task / p->out_height, y = task % p->out_height, filters = s->filters;
  double *restrict sum = scratch, *restrict tap = sum + p->out_width * filters;
  for (int64_t i = 0; i < p->out_width * filters; ++i)
    sum[i] = p->bias != NULL ? load(p, p->bias, i % filters) : 0.0;
  for (int64_t r = 0; r < s->filter_height; ++r) {
    const int64_t h = y * s->stride[0] - s->padding[0] + r * s->dilation[0];
    for (int64_t c = 0; h >= 0 && h < s->height && c < s->filter_width; ++c) {
      for (int64_t k = 0; k < filters; ++k)
        for (int64_t i = 0; i < s->channels; ++i)
          tap[i * filters + k] = load(p, p->weight, weight_of(p, k, r, c) + i);
      for (int64_t x = 0; x < p->out_width; ++x) {
        const int64_t w = x * s->stride[1] - s->padding[1] + c * s->dilation[1];
        if (w < 0 || w >= s->width)
          continue;
        for (int64_t i = 0; i < s->channels; ++i) {
          const double value = load(p, p->x, offset_of(p->x_stride, n, h, w) + i);
          for (int64_t k = 0; k < filters; ++k)
            sum[x * filters + k] += value * tap[i * filters + k];
        }
      }
    }
  }
  for (int64_t x = 0; x < p->out_width; ++x)
    for (int64_t k = 0; k < filters; ++k) {
      const double value = sum[x * filters + k];
      store(p, p->out, offset_of(p->out_stride, n, y, x) + k, s->relu && value < 0.0 ? 0.0 : value);
    }
}

/* ---- A line of dx ---------------------------------------------------------------------------- */

/* scratch: sums (width, channels), weights of a tap (filters, channels). */
static void dx_line(const void *job, void *scratch, int64_t task) {
  const ap_conv2d_problem *p = job;
  const attnpress_conv2d_shape *s = &p->shape;
  const int64_t n = task / s->height, h = task % s->height, channels = s->channels;
  double *restrict sum = scratch, *restrict tap = sum + s->width * channels;
  for (int64_t i = 0; i < s->width * channels; ++i)
    sum[i] = 0.0;
  for (int64_t r = 0; r < s->filter_height; ++r) {
    const int64_t above = h + s->padding[0] - r * s->dilation[0], y = above / s->stride[0];
    if (above < 0 || above % s->stride[0] != 0 || y >= p->out_height)
      continue;
    for (int64_t c = 0; c < s->filter_width; ++c) {
      for (int64_t k = 0; k < s->filters; ++k)
        load_row(p, p->weight, weight_of(p, k, r, c), channels, tap + k * channels);
      for (int64_t x = 0; x < p->out_width; ++x) {
        const int64_t w = x * s->stride[1] - s->padding[1] + c * s->dilation[1];
        if (w < 0 || w >= s->width)
          continue;
        for (int64_t k = 0; k < s->filters; ++k) {
          const double value = gradient(p, n, y, x, k);
          for (int64_t i = 0; i < channels; ++i)
            sum[w * channels + i] += value * tap[k * channels + i];
        }
      }
    }
  }
  for (int64_t w = 0; w < s->width; ++w)
    for (int64_t i = 0; i < channels; ++i)
      store(p, p->dx, offset_of(p->dx_stride, n, h, w) + i, sum[w * channels + i]);
}

/* ---- Some filters of dweight, under a tap ---------------------------------------------------- */

/* scratch: sums (FILTERS, channels), a pixel of x (channels). */
static void dweight_filters(const void *job, void *scratch, int64_t task) {
  const ap_conv2d_problem *p = job;
  const attnpress_conv2d_shape *s = &p->shape;
  const int64_t groups = groups_of(s), channels = s->channels, first = task % groups * FILTERS;
  const int64_t count = s->filters - first < FILTERS ? s->filters - first : FILTERS;
  const int64_t r = task / groups / s->filter_width, c = task / groups % s->filter_width;
  double *restrict sum = scratch, *restrict pixel = sum + count * channels;
  for (int64_t i = 0; i < count * channels; ++i)
    sum[i] = 0.0;
  for (int64_t n = 0; n < s->batch; ++n)
    for (int64_t y = 0; y < p->out_height; ++y) {
      const int64_t h = y * s->stride[0] - s->padding[0] + r * s->dilation[0];
      for (int64_t x = 0; h >= 0 && h < s->height && x < p->out_width; ++x) {
        const int64_t w = x * s->stride[1] - s->padding[1] + c * s->dilation[1];
        if (w < 0 || w >= s->width)
          continue;
        load_row(p, p->x, offset_of(p->x_stride, n, h, w), channels, pixel);
        for (int64_t k = 0; k < count; ++k) {
          const double value = gradient(p, n, y, x, first + k);
          for (int64_t i = 0; i < channels; ++i)
            sum[k * channels + i] += value * pixel[i];
        }
      }
    }
  for (int64_t k = 0; k < count; ++k)
    for (int64_t i = 0; i < channels; ++i)
      store(p, p->dweight, weight_of(p, first + k, r, c) + i, sum[k * channels + i]);
}

static void dbias_filter(const void *job, void *scratch, int64_t k) {
  const ap_conv2d_problem *p = job;
  double sum = 0.0;
  (void)scratch;
  for (int64_t n = 0; n < p->shape.batch; ++n)
    for (int64_t y = 0; y < p->out_height; ++y)
      for (int64_t x = 0; x < p->out_width; ++x)
        sum += gradient(p, n, y, x, k);
  store(p, p->dbias, k, sum);
}

/* ---- All ------------------------------------------------------------------------------------- */

attnpress_status ap_conv2d_cpu(const ap_conv2d_problem *p, int32_t num_threads) {
  const attnpress_conv2d_shape *s = &p->shape;
  const int64_t plane = s->filters * s->channels, taps = s->filter_height * s->filter_width;
  const double pixels = (double)s->batch * (double)p->out_height * (double)p->out_width;
  ap_cpu_job job = {.job = p, .operations = 2.0 * pixels * (double)plane * (double)taps};
  if (!p->backward) {
    job.run = forward_line;
    job.num_tasks = s->batch * p->out_height;
    job.scratch_bytes = (size_t)(p->out_width * s->filters + plane) * sizeof(double);
    return s->batch > 0 ? ap_cpu_run(&job, num_threads) : ATTNPRESS_OK;
  }
  if (p->dx != NULL && s->batch > 0) {
    job.run = dx_line;
    job.num_tasks = s->batch * s->height;
    job.scratch_bytes = (size_t)(s->width * s->channels + plane) * sizeof(double);
    FORWARD_IF(ap_cpu_run(&job, num_threads));
  }
  if (p->dweight != NULL) {
    job.run = dweight_filters;
    job.num_tasks = taps * groups_of(s);
    job.scratch_bytes = (size_t)(FILTERS + 1) * (size_t)s->channels * sizeof(double);
    FORWARD_IF(ap_cpu_run(&job, num_threads));
  }
  if (p->dbias == NULL)
    return ATTNPRESS_OK;
  job = (ap_cpu_job){.job = p,
                     .run = dbias_filter,
                     .num_tasks = s->filters,
                     .operations = pixels * (double)s->filters};
  return ap_cpu_run(&job, num_threads);
}
