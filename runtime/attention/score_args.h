/* What kernels are told about scores: from a call's groups to attnpress_score_args. */
#pragma once
#include "attention/defaults.h"
#include "attnpress/args/attention.h"
#include "attnpress/attnpress.h"

/** Of a checked call, whose groups are in full. What the call does not use gets the values that
 * change nothing. scale: ap_scale(), for a caller that has it: it takes a root and a division. */
void ap_fill_scaled_score_args(const attnpress_forward_args *args, float scale,
                               attnpress_score_args *score);
static inline void ap_fill_score_args(const attnpress_forward_args *args,
                                      attnpress_score_args *score) {
  ap_fill_scaled_score_args(args, (float)ap_scale(args), score);
}
/** attnpress_fwd_args.scale_log2 of a checked call; scale: likewise. */
float ap_scale_log2_of(const attnpress_forward_args *args, float scale);
static inline float ap_scale_log2(const attnpress_forward_args *args) {
  return ap_scale_log2_of(args, (float)ap_scale(args));
}
/** What a kernel's scores, before a snippet, are natural units by. */
float ap_natural_per_unit(const attnpress_forward_args *args);
