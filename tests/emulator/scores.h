/* What a forward call under the emulator does to its scores: the groups of attnpress_forward_args,
 * with random contents. */
#pragma once
#include <stdint.h>

#include "attnpress/attnpress.h"
#include "attention/score_mod.h"
#include "press/registry.h"
#include "emulator.h"
#include "memory.h"
#include "../../tools/snippet.h"

/* Extents and strides of a bias. */
typedef enum bias_layout {
  BIAS_PADDED,     /* (batch, heads, queries, keys), rows begin at multiples of 8 */
  BIAS_CONTIGUOUS, /* the same without gaps: rows of an odd length begin at odd elements */
  BIAS_OF_HEADS,   /* (1, heads, queries, keys) */
  BIAS_OF_BATCH,   /* (batch, 1, queries, keys), rows with a gap of 3 */
  BIAS_OF_KEYS,    /* (1, 1, queries, keys), the same row for all queries */
  BIAS_SPREAD,     /* every other element, and an odd one first */
  BIAS_TRANSPOSED, /* (1, 1, queries, keys), queries are contiguous */
  BIAS_FAR_ROWS,   /* (1, 1, queries, keys), rows more than 2^31 elements apart */
  BIAS_FAR_KEYS,   /* the same of keys */
  BIAS_LAYOUTS,
} bias_layout;

typedef enum slopes_layout {
  SLOPES_OF_HEADS, /* (heads), contiguous by strides of 0 */
  SLOPES_OF_BATCH, /* (batch, heads) */
  SLOPES_SPREAD,   /* (heads), every third */
  SLOPES_LAYOUTS,
} slopes_layout;

/* A kernel reads what its name has; all of them take sinks. */
typedef struct score_shape {
  int left, right, chunk, top_left; /* of windows, as attnpress_window */
  float softcap;
  slopes_layout slopes;
  bias_layout bias;
  int sinks;        /* their dtype; 0: none */
  int sinks_stride; /* as attnpress_sinks */
  float dropout;    /* probability */
  int seed_in_memory;
} score_shape;

enum {
  TENSOR_BIAS,
  TENSOR_SLOPES,
  TENSOR_SINKS,
  TENSOR_SEED,
  TENSOR_MAP, /* of a snippet's mask */
  TENSOR_BUFFERS,
  TENSOR_GRADIENTS = TENSOR_BUFFERS + SNIPPET_BUFFERS, /* of the buffers */
  SCORE_TENSORS = TENSOR_GRADIENTS + SNIPPET_BUFFERS
};

typedef struct scores {
  attnpress_window window;
  attnpress_alibi alibi;
  attnpress_bias bias;
  attnpress_sinks sinks;
  attnpress_dropout dropout;
  snippet_file *file; /* of the kernel's snippet, whose buffers are described for this call */
  attnpress_dbuffer dbuffers[SNIPPET_BUFFERS];
  memory memory[SCORE_TENSORS];
  emulated_tensor tensors[SCORE_TENSORS];
} scores;

/** Makes what a kernel of `variant` takes part of `args`, whose tensors are described. What is
 * between the elements is NaN, and so is the bias of keys that a query does not see. */
void scores_open(scores *x, const ap_variant *variant, const score_shape *s, snippet_file *file,
                 attnpress_forward_args *args, uint64_t seed);
/** Memory of the map that a kernel before writes: words; NaN until then. */
uint32_t *scores_add_map(scores *x, int64_t words);
void scores_close(scores *x); /* of zeros: nothing */

/** Gradients of the snippet's buffers of floats, each element SCORES_GRADIENT_BEFORE. */
const attnpress_dbuffer *scores_add_gradients(scores *x);
#define SCORES_GRADIENT_BEFORE 0.5f
/** ", window 3,0, softcap 5": of what a call has. */
void scores_print(const ap_variant *variant, const score_shape *s, char *text, int text_bytes);
/** Sinks alone, as what adds up splits takes them. */
void scores_add_sinks(scores *x, const score_shape *s, attnpress_forward_args *args, uint64_t seed);
/** A head's sink in natural units; -inf where there is none. */
double scores_sink(const attnpress_forward_args *args, int64_t head);
