/* What a zero stands for in the arguments of attention; both backends ask here. */
#pragma once
#include <math.h>

#include "attnpress/attnpress.h"

/** The scale of the scores. */
static inline double ap_scale_of(float scale, int64_t hdim) {
  return scale != 0.0f ? (double)scale : 1.0 / sqrt((double)hdim);
}

/** What a backward call and the forward call before it have in common, its groups included. */
static inline attnpress_forward_args ap_forward_of(const attnpress_backward_args *args) {
  attnpress_forward_args forward = ATTNPRESS_FORWARD_ARGS_INIT;
  forward.q = args->q;
  forward.k = args->k;
  forward.v = args->v;
  forward.out = args->out;
  forward.lse = (float *)ATTNPRESS_DATA(args->lse);
  forward.lse_stride[0] = args->lse_stride[0];
  forward.lse_stride[1] = args->lse_stride[1];
  forward.scale = args->scale;
  forward.mask = args->mask;
  forward.window = args->window;
  forward.alibi = args->alibi;
  forward.bias = args->bias;
  forward.sinks = args->sinks;
  forward.dropout = args->dropout;
  forward.softcap = args->softcap;
  forward.ragged = args->ragged;
  forward.score_mod = args->score_mod;
  return forward;
}

/** Gives a backward call what the forward call before it does to scores. */
static inline void ap_put_scores(attnpress_backward_args *args,
                                 const attnpress_forward_args *forward) {
  args->mask = forward->mask;
  args->window = forward->window;
  args->alibi = forward->alibi;
  args->bias = forward->bias;
  args->sinks = forward->sinks;
  args->dropout = forward->dropout;
  args->softcap = forward->softcap;
  args->score_mod = forward->score_mod;
}

static inline double ap_scale(const attnpress_forward_args *args) {
  return ap_scale_of(args->scale, args->q.shape[3]);
}

/** Batch and head strides of lse, or of its gradient, in elements. */
static inline void ap_row_strides(const attnpress_tensor *q, const int64_t stride[2],
                                  int64_t *batch, int64_t *head) {
  const int contiguous = stride[0] == 0 && stride[1] == 0;
  *batch = contiguous ? q->shape[1] * q->shape[2] : stride[0];
  *head = contiguous ? q->shape[1] : stride[1];
}

static inline void ap_lse_strides(const attnpress_forward_args *args, int64_t *batch,
                                  int64_t *head) {
  ap_row_strides(&args->q, args->lse_stride, batch, head);
}

/** Batch and head strides of the slopes, in elements; of a call that has some. */
static inline void ap_alibi_strides(const attnpress_alibi *alibi, int64_t *batch, int64_t *head) {
  const int contiguous = alibi->stride[0] == 0 && alibi->stride[1] == 0;
  *batch = alibi->stride[0];
  *head = contiguous ? 1 : alibi->stride[1];
}

/** The stride of a dimension of the bias, in elements: an extent of 1 broadcasts. */
static inline int64_t ap_bias_stride(const attnpress_bias *bias, int dimension) {
  return bias->shape[dimension] > 1 ? bias->stride[dimension] : 0;
}

/** The stride of the sinks, in elements. */
static inline int64_t ap_sinks_stride(const attnpress_sinks *sinks) {
  return sinks->stride != 0 ? sinks->stride : 1;
}
