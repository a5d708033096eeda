/* The attention of a call or of a model, as words or the config.json of a Hugging Face transformers
 * model say it. */
#pragma once
#include <stdint.h>

#include "attnpress/attnpress.h"
#include "options.h"

typedef struct tool_shape {
  int32_t hdim, hdim_v, heads, kv_heads;
  int32_t dtype, causal;
  int32_t batch, seqlen_q, seqlen_k; /* 0: not given */
  int32_t num_splits;                /* 0: chosen */
  const char *config, *target;       /* NULL: not given */
  int given;                         /* 1: words gave any of these but the target */
} tool_shape;

/** The options of a shape. */
extern const tool_opt tool_shape_options[];
/** TOOL_OK where argv[*i] is an option of a shape and its value is allowed, TOOL_FAILED where it is no
 * such option, TOOL_USAGE after a sentence where the value is wrong. */
int tool_shape_option(const char *command, int argc, char **argv, int *i, tool_shape *shape);
/** Completes a shape: by its config, whose values the words go before; a head dim of V, heads and dtype
 * that were not given; the present GPU's target. TOOL_OK, or another status after a sentence. */
int tool_shape_complete(const char *command, tool_shape *shape);
/** The arguments of a forward call of a shape, without data. */
attnpress_forward_args tool_shape_args(const tool_shape *shape);

/** TOOL_USAGE, naming what is allowed, where a target is unknown; NULL is fine. */
int tool_check_target(const char *command, const char *target);
