/* Checks what callers hand in. Nothing here looks at a device or at memory that a pointer names. */
#include "conv2d/conv2d.h"

#include <inttypes.h>
#include <stdio.h>

enum { VECTOR = 8, SPLITS_MAX = 65535 };
static const int64_t ELEMENTS_MAX = INT64_C(1) << 34; /* of what a tensor spans */

const char *ap_conv2d_dtype_name(int32_t dtype) {
  const ap_variant variant = {.family = AP_FAMILY_CONV2D, .axis[AP_CONV2D_DTYPE] = dtype};
  return dtype == ATTNPRESS_CONV2D_FP64 ? "fp64"
         : dtype == ATTNPRESS_FP32      ? "fp32"
                                        : ap_word_of(&variant, AP_CONV2D_DTYPE);
}

/* ---- The shape ------------------------------------------------------------------------------- */

static attnpress_status check_extent(const char *name, int64_t value, int64_t least) {
  RETURN_IF(value < least || value > INT32_MAX, ATTNPRESS_INVALID_ARGUMENT,
            "%s is %" PRId64 "; it must be %" PRId64 " to 2147483647", name, value, least);
  return ATTNPRESS_OK;
}

static attnpress_status check_channels(const char *name, int64_t value) {
  FORWARD_IF(check_extent(name, value, VECTOR));
  RETURN_IF(value % VECTOR != 0, ATTNPRESS_INVALID_ARGUMENT,
            "%s is %" PRId64 "; it must be a multiple of 8: zeros may fill what is missing", name,
            value);
  return ATTNPRESS_OK;
}

/** One of a pair; `otherwise`: what 0 means. */
static attnpress_status check_step(const char *name, int32_t pair[2], int32_t otherwise) {
  for (int i = 0; i < 2; ++i) {
    RETURN_IF(pair[i] < 0 || pair[i] > 65535, ATTNPRESS_INVALID_ARGUMENT,
              "%s[%d] is %d; it must be 0 to 65535", name, i, (int)pair[i]);
    if (pair[i] == 0)
      pair[i] = otherwise;
  }
  return ATTNPRESS_OK;
}

static attnpress_status output_of(const char *name, int64_t size, int64_t filter, int64_t stride,
                                  int64_t padding, int64_t dilation, int64_t *output) {
  const int64_t room = size + 2 * padding - dilation * (filter - 1) - 1;
  RETURN_IF(room < 0, ATTNPRESS_INVALID_ARGUMENT,
            "the filter's %s, %" PRId64 " with dilation %" PRId64
            ", is more than the input's %" PRId64 " and %" PRId64
            " of padding on either side: there is no output",
            name, filter, dilation, size, padding);
  *output = room / stride + 1;
  return ATTNPRESS_OK;
}

static attnpress_status check_shape(attnpress_conv2d_shape *s, int32_t range) {
  const int64_t least = range == ATTNPRESS_UP_TO ? 0 : 1; /* 0: any */
  FORWARD_IF(check_extent("batch", s->batch, 0));
  FORWARD_IF(check_extent("height", s->height, least));
  FORWARD_IF(check_extent("width", s->width, least));
  FORWARD_IF(check_channels("channels", s->channels));
  FORWARD_IF(check_channels("filters", s->filters));
  FORWARD_IF(check_extent("filter_height", s->filter_height, 1));
  FORWARD_IF(check_extent("filter_width", s->filter_width, 1));
  FORWARD_IF(check_step("stride", s->stride, 1));
  FORWARD_IF(check_step("padding", s->padding, 0));
  FORWARD_IF(check_step("dilation", s->dilation, 1));
  RETURN_IF(s->relu != 0 && s->relu != 1, ATTNPRESS_INVALID_ARGUMENT,
            "relu is %d; it must be 0 or 1", (int)s->relu);
  /* Taps reach no further than 32 bits count. */
  for (int i = 0; i < 2; ++i)
    RETURN_IF((i ? s->filter_width : s->filter_height) * s->dilation[i] > 1 << 29,
              ATTNPRESS_INVALID_ARGUMENT,
              "the filter's %s %" PRId64 " times dilation %d is over 2^29", i ? "width" : "height",
              i ? s->filter_width : s->filter_height, (int)s->dilation[i]);
  return ATTNPRESS_OK;
}

static attnpress_status find_output(const attnpress_conv2d_shape *s, int64_t *height,
                                    int64_t *width) {
  FORWARD_IF(output_of("height", s->height, s->filter_height, s->stride[0], s->padding[0],
                       s->dilation[0], height));
  return output_of("width", s->width, s->filter_width, s->stride[1], s->padding[1], s->dilation[1],
                   width);
}

attnpress_status attnpress_conv2d_output(const attnpress_conv2d_shape *shape, int64_t *height,
                                         int64_t *width) {
  RETURN_IF(shape == NULL || height == NULL || width == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "%s is NULL",
            shape == NULL    ? "shape"
            : height == NULL ? "height"
                             : "width");
  attnpress_conv2d_shape s = *shape;
  FORWARD_IF(check_shape(&s, ATTNPRESS_ONE_CALL));
  return find_output(&s, height, width);
}

static attnpress_status check_dtype(const ap_conv2d_problem *p, ap_check how) {
  const int32_t dtype = p->shape.dtype;
  RETURN_IF(dtype < ATTNPRESS_FP16 || dtype > ATTNPRESS_CONV2D_FP64, ATTNPRESS_INVALID_ARGUMENT,
            "dtype is %d; it must be ATTNPRESS_FP16 (1), ATTNPRESS_BF16 (2) or, on the CPU, "
            "ATTNPRESS_FP32 (3) or ATTNPRESS_CONV2D_FP64 (4)",
            (int)dtype);
  RETURN_IF(dtype >= ATTNPRESS_FP32 && how.backend != ATTNPRESS_CPU, ATTNPRESS_NOT_SUPPORTED,
            "dtype is %s, in which convolutions run on the CPU only; ATTNPRESS_FP16 and "
            "ATTNPRESS_BF16 run here",
            ap_conv2d_dtype_name(dtype));
  return ATTNPRESS_OK;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/** Fills in strides that are 0, and checks that they suit images of `extent`: height, width,
 * channels. */
static attnpress_status check_strides(const char *name, int64_t batch, const int64_t extent[3],
                                      int64_t stride[3], int is_output) {
  const int64_t count[3] = {batch, extent[0], extent[1]};
  int64_t inner = extent[2]; /* elements that lie within a step of the dimension at hand */
  for (int i = 2; i >= 0; --i) {
    if (stride[i] == 0 && __builtin_mul_overflow(i == 2 ? 1 : stride[i + 1],
                                                 i == 2 ? extent[2] : count[i + 1], &stride[i]))
      stride[i] = INT64_MAX;
    RETURN_IF(stride[i] < 0 || (stride[i] % VECTOR != 0 && count[i] > 1),
              ATTNPRESS_INVALID_ARGUMENT,
              "%s_stride[%d] is %" PRId64 "; it must be positive and a multiple of 8", name, i,
              stride[i]);
    RETURN_IF(is_output && count[i] > 1 && stride[i] < inner, ATTNPRESS_INVALID_ARGUMENT,
              "%s_stride[%d] is %" PRId64
              " elements, so that what lies that far apart overlaps; it "
              "must be at least %" PRId64,
              name, i, stride[i], inner);
    if (count[i] <= 1)
      continue;
    int64_t span;
    RETURN_IF(__builtin_mul_overflow(count[i] - 1, stride[i], &span) || span > ELEMENTS_MAX - inner,
              ATTNPRESS_NOT_SUPPORTED,
              "%s_stride[%d], %" PRId64 " elements, takes the tensor over 2^34 elements", name, i,
              stride[i]);
    inner += span;
  }
  RETURN_IF(inner > ELEMENTS_MAX, ATTNPRESS_NOT_SUPPORTED,
            "%s spans %" PRId64 " elements, which are over 2^34", name, inner);
  return ATTNPRESS_OK;
}

static attnpress_status check_sizes(const ap_conv2d_problem *p) {
  const attnpress_conv2d_shape *s = &p->shape;
  int64_t pixels, weights;
  RETURN_IF(__builtin_mul_overflow(p->out_height, p->out_width, &pixels) ||
                __builtin_mul_overflow(pixels, s->batch, &pixels) || pixels > INT32_MAX - 65536,
            ATTNPRESS_NOT_SUPPORTED,
            "batch %" PRId64 " of %" PRId64 " x %" PRId64 " outputs are more pixels than 2^31",
            s->batch, p->out_height, p->out_width);
  RETURN_IF(__builtin_mul_overflow(s->height, s->width, &pixels) ||
                __builtin_mul_overflow(pixels, s->batch, &pixels) || pixels > INT32_MAX - 65536,
            ATTNPRESS_NOT_SUPPORTED,
            "batch %" PRId64 " of %" PRId64 " x %" PRId64 " inputs are more pixels than 2^31",
            s->batch, s->height, s->width);
  RETURN_IF(__builtin_mul_overflow(s->filter_height, s->filter_width, &weights) ||
                __builtin_mul_overflow(weights, s->channels, &weights) ||
                __builtin_mul_overflow(weights, s->filters, &weights) || weights > INT32_MAX,
            ATTNPRESS_NOT_SUPPORTED,
            "%" PRId64 " filters of %" PRId64 " x %" PRId64 " x %" PRId64
            " are more weights than 2^31",
            s->filters, s->filter_height, s->filter_width, s->channels);
  return ATTNPRESS_OK;
}

static attnpress_status check_pointer(const ap_conv2d_problem *p, const char *name,
                                      const void *data, int needed) {
  const uintptr_t alignment = ap_conv2d_bytes(p) == 2 ? 16 : (uintptr_t)ap_conv2d_bytes(p);
  RETURN_IF(data == NULL && needed, ATTNPRESS_INVALID_ARGUMENT, "%s is NULL", name);
  RETURN_IF((uintptr_t)data % alignment != 0, ATTNPRESS_INVALID_ARGUMENT,
            "%s is %p; it must be aligned to %d bytes", name, data, (int)alignment);
  return ATTNPRESS_OK;
}

static attnpress_status check_pointers(const ap_conv2d_problem *p) {
  const int some = p->shape.batch > 0, masked = p->backward && p->shape.relu;
  FORWARD_IF(check_pointer(p, "x", p->x, some && (!p->backward || p->dweight != NULL)));
  FORWARD_IF(check_pointer(p, "weight", p->weight, some && (!p->backward || p->dx != NULL)));
  FORWARD_IF(check_pointer(p, "bias", p->bias, 0));
  FORWARD_IF(check_pointer(p, "out", p->out, some && (!p->backward || masked)));
  FORWARD_IF(check_pointer(p, "dout", p->dout, some && p->backward));
  FORWARD_IF(check_pointer(p, "dx", p->dx, 0));
  FORWARD_IF(check_pointer(p, "dweight", p->dweight, 0));
  return check_pointer(p, "dbias", p->dbias, 0);
}

static attnpress_status check_choice(const attnpress_conv2d_choice *c) {
  RETURN_IF(c->copies < 0 || c->copies > ATTNPRESS_CONV2D_IM2COL, ATTNPRESS_INVALID_ARGUMENT,
            "choice.copies is %d; it must be 0, ATTNPRESS_CONV2D_GATHER (1) or "
            "ATTNPRESS_CONV2D_IM2COL (2)",
            (int)c->copies);
  RETURN_IF(c->block_rows < 0 || c->block_columns < 0 ||
                (c->block_rows == 0) != (c->block_columns == 0),
            ATTNPRESS_INVALID_ARGUMENT,
            "choice.block_rows is %d and choice.block_columns %d; both must be positive, or 0",
            (int)c->block_rows, (int)c->block_columns);
  RETURN_IF(c->splits < 0 || c->splits > SPLITS_MAX, ATTNPRESS_INVALID_ARGUMENT,
            "choice.splits is %d; it must be 0 to %d", (int)c->splits, SPLITS_MAX);
  return ATTNPRESS_OK;
}

attnpress_status ap_conv2d_validate(ap_conv2d_problem *p, ap_check how) {
  attnpress_conv2d_shape *s = &p->shape;
  FORWARD_IF(check_dtype(p, how));
  FORWARD_IF(check_shape(s, how.range));
  FORWARD_IF(check_choice(&p->choice));
  p->out_height = p->out_width = 0;
  if (how.range != ATTNPRESS_ONE_CALL) /* a range is of any strides */
    return ATTNPRESS_OK;
  FORWARD_IF(find_output(s, &p->out_height, &p->out_width));
  FORWARD_IF(check_sizes(p));
  const int64_t input[3] = {s->height, s->width, s->channels};
  const int64_t output[3] = {p->out_height, p->out_width, s->filters};
  FORWARD_IF(check_strides("x", s->batch, input, p->x_stride, 0));
  FORWARD_IF(check_strides("out", s->batch, output, p->out_stride, !p->backward));
  if (p->backward) {
    FORWARD_IF(check_strides("dout", s->batch, output, p->dout_stride, 0));
    FORWARD_IF(check_strides("dx", s->batch, input, p->dx_stride, p->dx != NULL));
  }
  return how.with_data ? check_pointers(p) : ATTNPRESS_OK;
}
