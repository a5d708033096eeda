/* Fills what kernels are told about scores. */
#include "attention/score_args.h"

#include <string.h>

#include "attention/defaults.h"
#include "attention/dropout.h"
#include "attention/rows.h"
#include "press/snippet_text.h"

float ap_natural_per_unit(const attnpress_forward_args *args) {
  return args->softcap > 0.0f ? args->softcap : (float)ap_scale(args);
}

float ap_scale_log2_of(const attnpress_forward_args *args, float scale) {
  if (args->score_mod != NULL && ap_snippet_is_given(args->score_mod->score))
    return 1.4426950408889634074f; /* a snippet leaves them in natural units */
  const double units = args->softcap > 0.0f ? (double)args->softcap : (double)scale;
  return (float)(units * 1.4426950408889634074);
}

/* How many neighbouring keys of every row are one aligned load: eight (2), two (1), or one (0). */
static int32_t alignment_of(const attnpress_bias *bias) {
  const int narrow = bias->dtype != ATTNPRESS_FP32;
  const uintptr_t address = (uintptr_t)bias->data;
  int64_t rows = 0;
  for (int i = 0; i < 3; ++i)
    rows |= ap_bias_stride(bias, i);
  if (bias->shape[3] > 1 && bias->stride[3] != 1)
    return 0;
  if (narrow && rows % 8 == 0 && address % 16 == 0)
    return 2;
  return rows % 2 == 0 && address % (narrow ? 4 : 8) == 0;
}

static void fill_bias(const attnpress_bias *bias, attnpress_score_args *score) {
  score->bias = bias->data;
  score->bias_batch_stride = ap_bias_stride(bias, 0);
  score->bias_head_stride = ap_bias_stride(bias, 1);
  score->bias_row_stride = ap_bias_stride(bias, 2);
  score->bias_key_stride = ap_bias_stride(bias, 3);
  score->bias_alignment = alignment_of(bias);
}

static void fill_dropout(const attnpress_dropout *dropout, attnpress_score_args *score) {
  score->dropout_seed = dropout->seed;
  score->dropout_offset = dropout->offset;
  score->dropout_seed_and_offset = dropout->seed_and_offset;
  score->dropout_threshold = ap_dropout_threshold(dropout->probability);
  score->dropout_scale = ap_dropout_scale(dropout->probability);
}

void ap_fill_scaled_score_args(const attnpress_forward_args *args, float scale,
                               attnpress_score_args *score) {
  const double cap = (double)args->softcap;
  const int capped = args->softcap > 0.0f;
  memset(score, 0, sizeof *score);
  score->dropout_scale = 1.0f;
  score->units_per_natural = (float)(1.0 / (capped ? cap : (double)scale));
  score->softcap_scale = capped ? (float)((double)scale / cap) : 0.0f;
  if (args->mask == ATTNPRESS_WINDOW) {
    const ap_mask mask = ap_mask_of(args);
    score->window_center = (int32_t)mask.center;
    score->window_left = (int32_t)mask.left;
    score->window_right = (int32_t)mask.right;
    score->window_chunk = (int32_t)mask.chunk;
  }
  if (args->alibi != NULL) {
    score->alibi_slopes = args->alibi->slopes;
    ap_alibi_strides(args->alibi, &score->alibi_batch_stride, &score->alibi_head_stride);
  }
  if (args->bias != NULL)
    fill_bias(args->bias, score);
  if (args->sinks != NULL) {
    score->sinks = args->sinks->data;
    score->sinks_stride = ap_sinks_stride(args->sinks);
    score->sinks_dtype = args->sinks->dtype;
  }
  if (args->dropout != NULL)
    fill_dropout(args->dropout, score);
}
