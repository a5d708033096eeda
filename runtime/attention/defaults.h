/* What a zero stands for in attnpress_forward_args; both backends ask here. */
#pragma once
#include <math.h>

#include "attnpress/attnpress.h"

/** The scale of the scores. */
static inline double ap_scale(const attnpress_forward_args *args) {
  return args->scale != 0.0f ? (double)args->scale : 1.0 / sqrt((double)args->q.shape[3]);
}

/** Batch and head strides of lse, in elements. */
static inline void ap_lse_strides(const attnpress_forward_args *args, int64_t *batch,
                                  int64_t *head) {
  const int contiguous = args->lse_stride[0] == 0 && args->lse_stride[1] == 0;
  *batch = contiguous ? args->q.shape[1] * args->q.shape[2] : args->lse_stride[0];
  *head = contiguous ? args->q.shape[1] : args->lse_stride[1];
}
