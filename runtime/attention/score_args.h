/* What kernels are told about scores: from a call's groups to attnpress_score_args. */
#pragma once
#include "attnpress/args/attention.h"
#include "attnpress/attnpress.h"

/** Of a checked call, whose groups are in full. What the call does not use gets the values that
 * change nothing. */
void ap_fill_score_args(const attnpress_forward_args *args, attnpress_score_args *score);
/** attnpress_fwd_args.scale_log2 of a checked call. */
float ap_scale_log2(const attnpress_forward_args *args);
/** What a kernel's scores, before a snippet, are natural units by. */
float ap_natural_per_unit(const attnpress_forward_args *args);
