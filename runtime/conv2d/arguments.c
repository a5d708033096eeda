/* The argument blocks of a convolution's launches. */
#include "conv2d/conv2d.h"

enum { VECTOR = 8 };

static void copy_strides(const int64_t stride[3], int32_t vectors[3]) {
  for (int i = 0; i < 3; ++i) /* that of an extent of 1 is not used: it may be any */
    vectors[i] = (int32_t)(stride[i] / VECTOR > INT32_MAX ? 0 : stride[i] / VECTOR);
}

static int32_t gcd(int32_t a, int32_t b) {
  return b == 0 ? a : gcd(b, a % b);
}

/** What `dout` is to dgrad and wgrad: the caller's, or what ReLU lets through of it. */
static ap_conv2d_gradient gradient_of(const ap_conv2d_problem *p, char *workspace,
                                      const ap_conv2d_plan *plan) {
  const int64_t pixel = p->shape.filters, line = p->out_width * pixel;
  if (p->shape.relu)
    return (ap_conv2d_gradient){workspace + plan->masked, {p->out_height * line, line, pixel}};
  return (ap_conv2d_gradient){p->dout, {p->dout_stride[0], p->dout_stride[1], p->dout_stride[2]}};
}

static float *weight_parts(char *workspace, const ap_conv2d_plan *plan) {
  return plan->splits > 1 ? (float *)(void *)(workspace + plan->weight_parts) : NULL;
}

static void fill_gather(const ap_conv2d_problem *p, const ap_conv2d_gradient *dout,
                        const ap_conv2d_plan *plan, int32_t pass, attnpress_conv2d_gather_args *a) {
  const attnpress_conv2d_shape *s = &p->shape;
  const int dgrad = pass == AP_CONV2D_PASS_DGRAD;
  *a = (attnpress_conv2d_gather_args){.in = dgrad ? dout->data : p->x,
                                      .weight = p->weight,
                                      .bias = dgrad ? NULL : p->bias,
                                      .out = dgrad ? p->dx : p->out,
                                      .batch = (int32_t)s->batch,
                                      .in_height = (int32_t)(dgrad ? p->out_height : s->height),
                                      .in_width = (int32_t)(dgrad ? p->out_width : s->width),
                                      .in_vectors =
                                          (int32_t)((dgrad ? s->filters : s->channels) / VECTOR),
                                      .out_height = (int32_t)(dgrad ? s->height : p->out_height),
                                      .out_width = (int32_t)(dgrad ? s->width : p->out_width),
                                      .out_columns = (int32_t)(dgrad ? s->channels : s->filters),
                                      .filter_height = (int32_t)s->filter_height,
                                      .filter_width = (int32_t)s->filter_width,
                                      .row_blocks = plan->row_blocks[pass],
                                      .column_blocks = plan->column_blocks[pass],
                                      .relu = dgrad ? 0 : s->relu};
  copy_strides(dgrad ? p->dx_stride : p->out_stride, a->out_stride);
  copy_strides(dgrad ? dout->stride : p->x_stride, a->in_stride);
  for (int i = 0; i < 2; ++i) {
    const int32_t common = gcd(s->stride[i], s->dilation[i]);
    a->stride[i] = s->stride[i];
    a->padding[i] = s->padding[i];
    a->dilation[i] = s->dilation[i];
    a->tap_step[i] = dgrad ? s->stride[i] / common : 1;
    a->tap_move[i] = dgrad ? -s->dilation[i] / common : s->dilation[i];
  }
}

static void fill_wgrad(const ap_conv2d_problem *p, const ap_conv2d_gradient *dout, float *parts,
                       const ap_conv2d_plan *plan, attnpress_conv2d_wgrad_args *a) {
  const attnpress_conv2d_shape *s = &p->shape;
  *a = (attnpress_conv2d_wgrad_args){.x = p->x,
                                     .dout = dout->data,
                                     .dweight = p->dweight,
                                     .parts = parts,
                                     .batch = (int32_t)s->batch,
                                     .height = (int32_t)s->height,
                                     .width = (int32_t)s->width,
                                     .vectors = (int32_t)(s->channels / VECTOR),
                                     .out_height = (int32_t)p->out_height,
                                     .out_width = (int32_t)p->out_width,
                                     .filters = (int32_t)s->filters,
                                     .filter_height = (int32_t)s->filter_height,
                                     .filter_width = (int32_t)s->filter_width,
                                     .row_blocks = plan->row_blocks[AP_CONV2D_PASS_WGRAD],
                                     .column_blocks = plan->column_blocks[AP_CONV2D_PASS_WGRAD],
                                     .split_pixels = plan->split_pixels};
  copy_strides(p->x_stride, a->x_stride);
  copy_strides(dout->stride, a->dout_stride);
  for (int i = 0; i < 2; ++i) {
    a->stride[i] = s->stride[i];
    a->padding[i] = s->padding[i];
    a->dilation[i] = s->dilation[i];
  }
}

static void fill_dout(const ap_conv2d_problem *p, char *workspace, const ap_conv2d_plan *plan,
                      attnpress_conv2d_dout_args *a) {
  const attnpress_conv2d_shape *s = &p->shape;
  const int masked = s->relu && (p->dx != NULL || p->dweight != NULL);
  *a = (attnpress_conv2d_dout_args){
      .dout = p->dout,
      .out = s->relu ? p->out : NULL,
      .masked = masked ? workspace + plan->masked : NULL,
      .parts = p->dbias != NULL ? (float *)(void *)(workspace + plan->bias_parts) : NULL,
      .batch = (int32_t)s->batch,
      .out_height = (int32_t)p->out_height,
      .out_width = (int32_t)p->out_width,
      .vectors = (int32_t)(s->filters / VECTOR),
      .row_blocks = plan->row_blocks[AP_CONV2D_PASS_DOUT],
      .column_blocks = plan->column_blocks[AP_CONV2D_PASS_DOUT],
      .block_pixels = plan->block_pixels};
  copy_strides(p->dout_stride, a->dout_stride);
  copy_strides(p->out_stride, a->out_stride);
}

static void fill_reduce(const ap_conv2d_problem *p, char *workspace, const ap_conv2d_plan *plan,
                        int bias, attnpress_conv2d_reduce_args *a) {
  const attnpress_conv2d_shape *s = &p->shape;
  const int64_t weights = s->filters * s->filter_height * s->filter_width * s->channels;
  const size_t parts = bias ? plan->bias_parts : plan->weight_parts;
  *a = (attnpress_conv2d_reduce_args){.parts = (const float *)(const void *)(workspace + parts),
                                      .out = bias ? p->dbias : p->dweight,
                                      .elements = bias ? s->filters : weights,
                                      .count = bias ? plan->row_blocks[AP_CONV2D_PASS_DOUT]
                                                    : plan->splits,
                                      .group_shift = plan->group_shift[bias]};
}

attnpress_status ap_conv2d_fill(ap_maps *maps, const ap_conv2d_problem *p, void *workspace,
                                const ap_conv2d_plan *plan, int index, ap_conv2d_block *block) {
  const ap_launch *launch = &plan->base.launch[index];
  const int32_t pass = launch->variant.axis[AP_CONV2D_PASS];
  const int im2col = launch->variant.axis[AP_CONV2D_COPIES] == AP_CONV2D_COPIES_IM2COL;
  const ap_conv2d_gradient dout = gradient_of(p, workspace, plan);
  float *parts = weight_parts(workspace, plan);
  if (pass == AP_CONV2D_PASS_DOUT)
    fill_dout(p, workspace, plan, &block->dout);
  else if (pass == AP_CONV2D_PASS_REDUCE)
    fill_reduce(p, workspace, plan, plan->reduces[index], &block->reduce);
  else if (im2col && pass == AP_CONV2D_PASS_WGRAD)
    return ap_conv2d_fill_im2col_wgrad(maps, p, &dout, parts, plan, &block->im2col_wgrad);
  else if (im2col)
    return ap_conv2d_fill_im2col(maps, p, &dout, plan, launch, &block->im2col);
  else if (pass == AP_CONV2D_PASS_WGRAD)
    fill_wgrad(p, &dout, parts, plan, &block->wgrad);
  else
    fill_gather(p, &dout, plan, pass, &block->gather);
  return ATTNPRESS_OK;
}
