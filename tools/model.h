/* The attention of a call or of a model, as words or the config.json of a Hugging Face transformers
 * model say it. */
#pragma once
#include <stdint.h>

#include "attnpress/attnpress.h"
#include "options.h"
#include "score_options.h"

/** What the driver says of the present GPU. */
typedef struct tool_present {
  char name[128]; /* "": it is not what is asked about */
  int32_t sm_count;
  double gb_s; /* of its memory; 0: not known */
} tool_present;

typedef struct tool_shape {
  int32_t hdim, hdim_v, heads, kv_heads;
  int32_t dtype, causal;
  int32_t batch, seqlen_q, seqlen_k; /* 0: not given */
  int32_t num_splits;                /* 0: chosen */
  int32_t batch_invariant;           /* 1: calls that give a row the same bits in any batch */
  int32_t backward, deterministic;   /* 1: the gradients */
  int32_t ragged, page_size; /* 1: sequences of their own lengths; rows of a page, 0: no pages */
  int32_t ready_schedule;    /* 1: of these, calls that have a schedule as well */
  score_options scores;
  int32_t model_window;        /* keys of a config's sliding window; 0: it has none */
  const char *config, *target; /* NULL: not given */
  tool_present present;        /* where the target is the present GPU's */
  int given;                   /* 1: words gave any of these but the target */
  score_data groups;           /* what its arguments point to */
  attnpress_ragged sequences;
} tool_shape;

/** The options of a shape; those of score_options_table are its too. */
extern const tool_opt tool_shape_options[];
/** TOOL_OK where argv[*i] is an option of a shape and its value is allowed, TOOL_FAILED where it is no
 * such option, TOOL_USAGE after a sentence where the value is wrong. */
int tool_shape_option(const char *command, int argc, char **argv, int *i, tool_shape *shape);
/** Completes a shape: by its config, whose values the words go before; a head dim of V, heads and dtype
 * that were not given; the present GPU's target. TOOL_OK, or another status after a sentence. */
int tool_shape_complete(const char *command, tool_shape *shape);
/** Frees what completing a shape took. */
void tool_shape_free(tool_shape *shape);
/** Plans the call of a shape, without data. The shape holds what the plan's arguments point to. */
attnpress_status tool_shape_plan(attnpress_handle *handle, tool_shape *shape,
                                 const attnpress_plan_options *options, attnpress_plan **plan);
/** Plans what makes the schedule of a shape's sequences. */
attnpress_status tool_shape_plan_schedule(attnpress_handle *handle, tool_shape *shape,
                                          const attnpress_plan_options *options,
                                          attnpress_plan **plan);
/** "causal, window 127,0, softcap 30": the mask and all else. */
void tool_shape_print(const tool_shape *shape, char *text, size_t text_bytes);
/** Puts a config's sliding window into force: each query sees as many keys, its own the last. */
void tool_shape_take_window(tool_shape *shape);

/** TOOL_USAGE, naming what is allowed, where a target is unknown; NULL is fine. */
int tool_check_target(const char *command, const char *target);
