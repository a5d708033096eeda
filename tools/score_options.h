/* What is done to scores in `attnpress run`: its words, and random data for the groups of a forward
 * call that they ask for. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "attnpress/attnpress.h"
#include "options.h"
#include "snippet.h"

/** As the words have it; zero-fill it first. */
typedef struct score_options {
  int windowed; /* 1: --window, --chunk or --top-left was given */
  int64_t left, right, chunk;
  int top_left;
  float softcap, dropout;
  int alibi, sinks;
  int bias;                    /* its dtype; 0: none */
  const char *mod;             /* the file of a snippet; NULL: none */
  const char *mod_scalars[17]; /* "name=value", NULL at the end */
} score_options;

/** 1 where the word is an option without a value, which is then set. */
int score_options_flag(score_options *o, const char *word);
/** Options with a value, NULL at the end. */
extern const char *const score_option_names[];
/** Sets the option of that name; NULL, or what its value must be where it is something else. */
const char *score_options_value(score_options *o, const char *name, const char *value);
/** The rows of --help. */
extern const tool_opt score_options_table[];
/** ATTNPRESS_FULL, _CAUSAL or _WINDOW. */
int32_t score_options_mask(const score_options *o, int causal);
/** The window of ATTNPRESS_WINDOW; a causal one sees nothing behind the query. */
attnpress_window score_options_window(const score_options *o, int causal);
/** "causal, window 127,0, softcap 30": the mask and all else. */
void score_options_print(const score_options *o, int causal, char *text, size_t text_bytes);

/** The groups of a call and what they point to. */
typedef struct score_groups {
  attnpress_window window;
  attnpress_alibi alibi;
  attnpress_bias bias;
  attnpress_sinks sinks;
  attnpress_dropout dropout;
  attnpress_score_mod mod;
  attnpress_score_buffer mod_buffers[SNIPPET_BUFFERS];
} score_groups;

/** Memory of a group's: host memory, and where it is in the group. */
enum {
  SCORE_BIAS,
  SCORE_SLOPES,
  SCORE_SINKS,
  SCORE_MOD,
  SCORE_BUFFERS = SCORE_MOD + SNIPPET_BUFFERS
};

typedef struct score_data {
  score_groups host;
  snippet_file file; /* of --mod; zeros: none */
  int64_t seqlen_k;
  void *buffers[SCORE_BUFFERS];
  size_t bytes[SCORE_BUFFERS]; /* 0: not used */
} score_data;

/** Reads the snippet, if one is asked for: 0, or -1 with a sentence. */
int score_data_read(score_data *data, const score_options *o, char *why, int why_bytes);
/** Describes the groups in `args`, whose tensors and dtype are described; the groups lie in `data`,
 * and their pointers are NULL. */
void score_data_describe(score_data *data, const score_options *o, int causal, uint64_t seed,
                         attnpress_forward_args *args);
/** Allocates and fills what the groups point to; 0, or -1 where memory runs out. */
int score_data_allocate(score_data *data, uint64_t seed);
void score_data_free(score_data *data);
/** Copies of the groups, with other pointers for buffers, named by `args` from then on. */
void score_groups_move(score_groups *to, const score_groups *from,
                       void *const buffers[SCORE_BUFFERS], attnpress_forward_args *args);
