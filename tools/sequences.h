/* One sequence of a ragged call in host memory, as a dense call of its own: what reference.h checks.
 * Says again, slowly and by attnpress.h's words alone, where the rows and the keys of a sequence lie;
 * `attnpress run` and the tests use it. */
#pragma once
#include <stdint.h>

#include "attnpress/attnpress.h"
#include "reference_backward.h"

/** Rows of q, and of k over the sequence's pages, that are sequence b's. */
typedef struct sequence_rows {
  int64_t q_batch, q_begin, queries;
  int64_t k_batch, k_begin, keys; /* k_batch: the row of the page table, where there is one */
  int64_t first_page;             /* entry of the page table */
} sequence_rows;

/** An entry that does not fit its tensor makes the sequence empty. */
sequence_rows sequence_rows_of(const attnpress_forward_args *args, int64_t b);
/** Where key row `row` (k_begin and more) of a sequence lies in k, or in v: page (or batch), and row
 * of it. */
void sequence_key_place(const attnpress_forward_args *args, const sequence_rows *rows, int64_t row,
                        int of_v, int64_t *page, int64_t *row_of_page);
/** Where a query's lse lies, from args->lse, in elements. */
int64_t sequence_lse_at(const attnpress_forward_args *args, const sequence_rows *rows, int64_t b,
                        int64_t head, int64_t query);

/** A sequence's own call. Its batch is b + 1, so that slopes and dropout, which go by the number of
 * the sequence, are those of `b`; only batch b may be looked at. */
typedef struct sequence {
  attnpress_forward_args args; /* q and out are the call's own memory, k, v and lse are copies */
  void *k, *v;
  float *lse; /* natural, -inf for rows without keys */
} sequence;

/** 0, or -1 where memory runs out. */
int sequence_open(sequence *x, const attnpress_forward_args *args, int64_t b);
void sequence_close(sequence *x);

/** The same of a backward call: its tensors are the call's own memory, lse and dlse are copies. */
typedef struct backward_sequence {
  attnpress_backward_args args; /* of which only batch b may be looked at; dsinks are the call's */
  sequence_rows rows;
  float *lse, *dlse; /* natural, -inf for rows without keys; the gradient by it, or NULL */
} backward_sequence;

/** The rows of a sequence of a backward call, whose keys have a bound, too. */
sequence_rows backward_sequence_rows_of(const attnpress_backward_args *args, int64_t b);
/** 0, or -1 where memory runs out. */
int backward_sequence_open(backward_sequence *x, const attnpress_backward_args *args, int64_t b);
/** Writes a sequence's out and lse, which a backward call reads, as the forward pass would: rounded
 * from float64. 0, or -1 where memory runs out. */
int backward_sequence_fill_forward(const attnpress_backward_args *args, int64_t b);
void backward_sequence_close(backward_sequence *x);
/** reference_check_dbuffers() of a ragged call. */
int backward_sequences_check_dbuffers(const attnpress_backward_args *args, float before,
                                      reference_gradient *error);
/** reference_check_dbias() of a ragged call: what no sequence has is to be 0, or as it was. */
int backward_sequences_check_dbias(const attnpress_backward_args *args, int64_t batch, int64_t head,
                                   const float *before, reference_gradient *error);
