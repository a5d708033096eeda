/* Sequences of their own lengths: what the host can check, and what kernels are told. Nothing here
 * looks at device memory. */
#pragma once
#include "attention/attention.h"
#include "attnpress/args/ragged.h"

/** Checks the group, whose tensors have been checked one by one, and how it goes with the rest of
 * the call. */
attnpress_status ap_check_ragged(const attnpress_forward_args *args, int with_data);
/** The same of a backward call whose forward call has been checked and described. */
attnpress_status ap_check_ragged_backward(const attnpress_backward_args *args, int with_data,
                                          const ap_problem *problem);
/** What of the problem a checked group says: the batch, the bounds of the lengths, the kernels. */
void ap_ragged_problem(const attnpress_forward_args *args, ap_problem *problem);

/** The most rows that a sequence's queries can have, and its keys. */
int64_t ap_ragged_queries(const attnpress_forward_args *args);
int64_t ap_ragged_keys(const attnpress_forward_args *args);
/** Entries from one sequence's row of a page table to the next one's. */
int64_t ap_table_stride(const attnpress_ragged *r);
/** What a bias, slopes and a snippet's place count over: sequences, and the most queries and keys of
 * one; of a dense call its batch and lengths. */
typedef struct ap_extents {
  int64_t batch, seqlen_q, seqlen_k;
} ap_extents;
ap_extents ap_extents_of(const attnpress_forward_args *args);
/** Strides of lse in elements: batch, head, row; *packed: its rows are those of q. */
void ap_ragged_lse_strides(const attnpress_forward_args *args, int64_t stride[3], int *packed);
/** The same of the gradient of lse, of which `given` and `row_stride` are a call's strides. */
void ap_ragged_row_strides(const attnpress_forward_args *args, const int64_t given[2],
                           int64_t row_stride, int64_t stride[3], int *packed);
/** Where a sequence lies, on the host: include/attnpress/device/sequence.cuh is its twin. */
typedef struct ap_sequence {
  int64_t q_batch, q_begin, seqlen_q; /* rows of q and out */
  int64_t k_batch, k_begin,
      seqlen_k;       /* rows of k and v; with pages over those of the table from first_page on */
  int64_t first_page; /* entry of the table */
} ap_sequence;

/** Sequence b of arrays in host memory; `bound`: the most queries that it may have. */
ap_sequence ap_sequence_of(const attnpress_ragged_args *args, int64_t b, int64_t bound);

struct ap_inspection; /* inspect.h */
/** Looks at what the arrays of a checked call hold. */
attnpress_status ap_inspect_ragged(const attnpress_forward_args *args,
                                   struct ap_inspection *inspection);

/** What kernels are told beside the call's own arguments. */
attnpress_ragged_args ap_fill_ragged_args(const attnpress_forward_args *args);
/** The same of a backward call, given as ap_forward_of() does, which is always laid out for a bound of keys. */
attnpress_ragged_args ap_fill_gradient_ragged_args(const attnpress_forward_args *args);
