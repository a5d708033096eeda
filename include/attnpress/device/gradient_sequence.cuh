// Sequences of their own lengths in the backward pass: where one lies in its tensors and in the
// workspace.
#pragma once

#include "attnpress/args/ragged.h"
#include "attnpress/device/sequence.cuh"

constexpr int PADDED_ROWS = 128; // of lse_log2 and delta, a sequence takes a multiple

// Where a sequence's rows begin in a workspace in which each has a multiple of `rows` rows, if
// `before` rows of q come before it. The next sequence's are behind them.
__device__ __forceinline__ int padded_begin(int before, int b, int rows) {
  return (before + b * rows) / rows * rows;
}

// The keys of sequence b: those of the forward pass, at most `bound`, or none.
__device__ __forceinline__ Rows bounded_keys(const attnpress_ragged_args *args, int64_t b,
                                             int bound) {
  const Rows keys = key_rows(args, b);
  return {keys.begin, keys.count <= bound ? keys.count : 0};
}

// Where sequence b lies. Numbers of rows take fewer registers than addresses.
struct SequencePlace {
  int q_batch, q_row, seqlen_q; // of q, out, dout, dq, lse and dlse
  int k_batch, k_row, seqlen_k; // of k, v, dk and dv
  int values_row;               // of lse_log2 and delta
  int sum_tile;                 // of dq_sum
};

__device__ __forceinline__ SequencePlace place_of_sequence(const attnpress_bwd_ragged_args *batch,
                                                           int64_t b) {
  const attnpress_ragged_args *ragged = &batch->ragged;
  const Rows queries = query_rows(ragged, b, batch->bwd.seqlen_q);
  const Rows keys = bounded_keys(ragged, b, batch->bwd.seqlen_k);
  const int q_batch = ragged->cu_seqlens_q != nullptr ? 0 : (int)b;
  const int before = q_batch * ragged->rows_q + queries.begin;
  return {q_batch,
          queries.begin,
          queries.count,
          ragged->cu_seqlens_k != nullptr ? 0 : (int)b,
          keys.begin,
          keys.count,
          padded_begin(before, (int)b, PADDED_ROWS),
          padded_begin(before, (int)b, 16) / 16};
}

// The arguments with the lengths of a sequence.
__device__ __forceinline__ attnpress_bwd_args
args_of_lengths(const attnpress_bwd_ragged_args *batch, int seqlen_q, int seqlen_k) {
  attnpress_bwd_args args = batch->bwd;
  args.seqlen_q = seqlen_q;
  args.seqlen_k = seqlen_k;
  args.score.window_center = batch->ragged.window_top_left ? 0 : seqlen_k - seqlen_q;
  return args;
}
