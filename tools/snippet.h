/* Snippets on the host: the file that `attnpress run --mod` reads, and an interpreter of the texts
 * in float64 with derivatives, which results are compared with.
 *
 * The interpreter knows a part of C: declarations of int, float, bool and auto with a value,
 * assignments (=, +=, -=, *=, /=), if and else, blocks; + - * / %, comparisons, ! && ||, & | ^ <<
 * >>, ?:, casts to (int) and (float); the functions of snippet.c's table. */
#pragma once
#include <stdint.h>

#include "attnpress/attnpress.h"

/* ---- The interpreter ------------------------------------------------------------------------- */

typedef struct snippet snippet; /* a call's texts, parsed */

/** Where a text stands. */
typedef struct snippet_place {
  int64_t b, h, h_kv, q, k, q_len, k_len;
} snippet_place;

/** Parses the texts; `mod`, with buffers in host memory, is the caller's to keep. NULL with a
 * sentence in `why` where the texts are more than the interpreter knows. */
snippet *snippet_parse(const attnpress_score_mod *mod, char *why, int why_bytes);
void snippet_free(snippet *s); /* NULL is fine */
/** What the texts make of a score; that score where there is no such text. */
double snippet_score(const snippet *s, double score, const snippet_place *place);
/** The same, and its derivative by that score: of the text or, where it is given, its score_grad. */
double snippet_score_slope(const snippet *s, double score, const snippet_place *place,
                           double *slope);
/** A number that the score's text reads from a buffer of floats. */
typedef struct snippet_read {
  int buffer;
  int64_t index[4]; /* within its extents */
} snippet_read;
/** The derivative of what the score's text makes of a score by the number that read `number` gives, read
 * by read from 0 on, whether it has a score_grad or not. Returns 0 where the text has fewer reads. */
int snippet_read_slope(const snippet *s, double score, const snippet_place *place, int number,
                       snippet_read *read, double *slope);
/** Whether the mask keeps a key; 1 where there is none. */
int snippet_keeps(const snippet *s, const snippet_place *place);

/** The same of the outer product's function of x and y: one expression. */
snippet *snippet_parse_function(const char *text, const attnpress_score_scalar *scalars,
                                int scalar_count, char *why, int why_bytes);
/** f(x, y), and its derivatives by x and y. */
double snippet_function(const snippet *s, double x, double y, double slope[2]);

/* ---- The file -------------------------------------------------------------------------------- */

/* Lines of declarations, then the texts:
 *
 *     # a comment
 *     scalar float cap = 30
 *     scalar int left = 127
 *     buffer fp32 bias(heads, 128)
 *     buffer int32 doc(batch, seqlen_k) = documents
 *     score:
 *     score = ...;
 *     mask:
 *     q - k <= left
 *
 * `score_grad:` may follow, an expression; a file for the outer product has scalars and `f:`, an
 * expression of x and y.
 *
 * Extents are numbers, or batch, heads, heads_kv, seqlen_q, seqlen_k. What a random buffer is filled
 * with: normal (fp16, bf16, fp32), slopes (of ALiBi), documents (numbers that rise along the last
 * dimension), lengths (0 to seqlen_k, each its own). */
enum { SNIPPET_SCALARS = 16, SNIPPET_BUFFERS = 8, SNIPPET_NAME_BYTES = 64 };

typedef struct snippet_file {
  char name[SNIPPET_NAME_BYTES];
  char names[SNIPPET_SCALARS + SNIPPET_BUFFERS][32];
  attnpress_score_scalar scalars[SNIPPET_SCALARS];
  attnpress_score_buffer buffers[SNIPPET_BUFFERS];
  int64_t extents[SNIPPET_BUFFERS][4]; /* a number, or -1 - the place of a word */
  int fills[SNIPPET_BUFFERS];
  char *text, *score, *mask, *score_grad, *f; /* the others are in text; NULL: none */
  attnpress_score_mod mod;                    /* all of it but f */
} snippet_file;

/** 0, or -1 with a sentence in `why` that names file and line. */
int snippet_file_read(snippet_file *f, const char *path, char *why, int why_bytes);
void snippet_file_free(snippet_file *f); /* of zeros: nothing */
/** "cap=20" for a scalar: 0, or -1 with a sentence. */
int snippet_file_set(snippet_file *f, const char *assignment, char *why, int why_bytes);
/** Shapes and contiguous strides of the buffers for a call's tensors; returns the bytes of buffer i
 * in bytes[i]. */
void snippet_file_describe(snippet_file *f, const attnpress_forward_args *args,
                           int64_t bytes[SNIPPET_BUFFERS]);
/** Fills buffer i, which lies at `data` by the strides that it now has. */
void snippet_file_fill(const snippet_file *f, int i, void *data, int64_t seqlen_k, uint64_t seed);
