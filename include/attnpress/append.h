/* New keys and values, written to their place in a cache before attention reads it, with rotary
 * embeddings of the new keys and of queries. attnpress.h has the conventions (status, structs that
 * grow, units, threads, streams), the handle and plans; they hold here too.
 *
 * Tokens. k_new, v_new and q are dense, (batch, new, heads, head_dim), or ragged, (1, total, heads,
 * head_dim) with cu_seqlens_new; heads and head_dim are each tensor's own. "Token t" counts both
 * ways through: t = b * new + i of dense tensors.
 *
 * Places. Token i of sequence b stands at n = seqused_k[b] + i, behind the tokens that the cache
 * has, and its K and V go
 *
 *     dense, (batch_k, S, heads, head_dim):        to k_cache[kv_batch_idx[b] or b, n];
 *     paged, (pages, page_size, heads, head_dim):  to k_cache[page, n % page_size] with
 *                                                  page = page_table[b, n / page_size], or of
 *                                                  row kv_batch_idx[b], or, of a flat table,
 *                                                  page_table[page_indptr[b] + n / page_size];
 *     either, with slot_mapping:                   to row slot_mapping[t] of all entries
 *
 * Index arrays lie on the device (with the CPU backend: on the host) and are never read by the
 * host, so that a call may be captured in a graph and replayed with others. Whatever they hold,
 * nothing outside of the tensors is read or written: K and V of a token whose place is not in the
 * cache (a row past the end, a page that is not there, a negative slot) are not written. Two tokens
 * with one place leave either there.
 *
 * Tensors are attnpress_tensor, with strides that may be any that are not negative, also no
 * multiples of 8 (K and V packed side by side, heads outside of tokens); the last dimension is
 * contiguous, pointers are aligned to an element. All have one dtype: fp16, bf16 or fp32. What is
 * not rotated is copied bit for bit; rotation is fp32, rounded once. Caches overlap no input. */
#pragma once
#include "attnpress/attnpress.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Rotary position embeddings (Su et al. 2021) of k_new and q: the first rotary_dim columns of a
 * row are rotated in pairs, (x, y) to (x cos - y sin, y cos + x sin). V is not, and what is in the
 * cache already is not touched. */
typedef struct attnpress_rotary {
  size_t struct_size;
  const void *cos, *sin; /* (num_positions, rotary_dim / 2), aligned to an element */
  int64_t num_positions; /* 1 to 2^31 - 1 */
  /** In elements, between positions of cos and of sin; 0: rotary_dim / 2. One table with rows of
   * cos and sin side by side has rotary_dim. */
  int64_t stride;
  /** Position of each token: (batch, new) or (total), contiguous. NULL: seqused_k[b] + i, or what
   * first_positions says. Where a position is not in the tables nothing is written: neither K and V
   * nor, where it is q's, q. */
  const int32_t *positions;
  int32_t rotary_dim;  /* columns: a multiple of 2, from 2 to the head_dim of k_new and of q; those
                          beyond are copied. Multiples of 16 (fp32: 8) are fastest */
  int32_t dtype;       /* of cos and sin: ATTNPRESS_FP32, or k_new's */
  int32_t interleaved; /* 0: columns i and i + rotary_dim / 2 are a pair (GPT-NeoX, Llama in
                          transformers); 1: 2 i and 2 i + 1 (GPT-J) */
  int32_t reserved;    /* 0 */
  /** (batch): position of each sequence's first token, behind which the others follow; NULL:
   * seqused_k[b]. Not with `positions`. */
  const int32_t *first_positions;
  /** 1: all queries of a sequence stand at its first token's position, as flash-attn has it where
   * attention has neither a causal mask nor a window. Not with `positions`. */
  int32_t q_at_first;
  int32_t reserved_2; /* 0 */
} attnpress_rotary;
#define ATTNPRESS_ROTARY_INIT                                                                      \
  { sizeof(attnpress_rotary), NULL, NULL, 0, 0, NULL, 0, 0, 0, 0, NULL, 0, 0 }

/** A tensor whose dtype is 0 is not there. k_new and k_cache come together, and v_new and v_cache;
 * q with rotary alone. At least one of k_new, v_new and q is there. */
typedef struct attnpress_append_args {
  size_t struct_size;
  attnpress_tensor k_new;   /* (batch, new, heads, head_dim) or (1, total, heads, head_dim) */
  attnpress_tensor v_new;   /* the same tokens */
  attnpress_tensor k_cache; /* (batch_k, S, heads, head_dim) or (pages, page_size, heads, head_dim);
                               written, where the new tokens go */
  attnpress_tensor v_cache; /* the same entries and rows */
  attnpress_tensor q;       /* the same tokens; rotated where it lies, unless q_out is there */
  attnpress_tensor q_out;   /* q's shape; written; may be q itself, at the same strides */
  /** (batch + 1), ascending from 0: sequence b has the tokens cu[b] to cu[b + 1] - 1, and those
   * behind the last sequence are skipped. NULL: dense; then (1, total) is one sequence. */
  const int32_t *cu_seqlens_new;
  int64_t batch;               /* sequences; read with cu_seqlens_new alone */
  const int32_t *seqused_k;    /* (batch): tokens that the cache has; NULL: none */
  const int32_t *kv_batch_idx; /* (batch): entry of the cache, or row of page_table; NULL: 0, 1, 2
                                  ... Not with slot_mapping */
  const int32_t *page_table;   /* (page_table_rows, max_pages), rows page_table_stride apart; with
                                  page_indptr (max_pages); or NULL */
  int64_t max_pages;         /* of a sequence, with page_indptr of all; read with page_table alone,
                                1 to 2^31 - 1 */
  int64_t page_table_stride; /* in elements; 0: max_pages */
  const int64_t *slot_mapping; /* (batch, new) or (total): entry * S + row; negative: the token is
                                  not written; or NULL. Not with page_table */
  const attnpress_rotary *rotary; /* NULL: K is copied as V is */
  int64_t page_table_rows;        /* with kv_batch_idx; 0: batch */
  const int32_t *page_table_v;    /* V's pages, laid out as page_table is; NULL: they are K's */
  const int32_t *page_indptr;     /* (batch + 1): sequence b's pages are the entries page_indptr[b]
                                     to page_indptr[b + 1] - 1 of a flat page_table; or NULL */
} attnpress_append_args;
#define ATTNPRESS_APPEND_ARGS_INIT                                                                 \
  {                                                                                                \
    sizeof(attnpress_append_args), ATTNPRESS_TENSOR_INIT, ATTNPRESS_TENSOR_INIT,                   \
        ATTNPRESS_TENSOR_INIT, ATTNPRESS_TENSOR_INIT, ATTNPRESS_TENSOR_INIT,                       \
        ATTNPRESS_TENSOR_INIT, NULL, 0, NULL, NULL, NULL, 0, 0, NULL, NULL, 0, NULL, NULL          \
  }

/** Writes, asynchronously on `stream` (CUstream or cudaStream_t; NULL: the default stream of the
 * current context); the CPU backend ignores it and returns when it is done. Needs no workspace. A
 * call has at most 2^31 - 1 vectors of 16 bytes to move.
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, NO_NVRTC, NO_KERNEL, CAPTURING,
 * COMPILE_FAILED, DRIVER_ERROR, IO_ERROR. */
ATTNPRESS_API attnpress_status attnpress_append(attnpress_handle *handle,
                                                const attnpress_append_args *args, void *stream);

/** Plans attnpress_append(). With ATTNPRESS_UP_TO the plan serves every call of its dtype.
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, DRIVER_ERROR. */
ATTNPRESS_API attnpress_status attnpress_plan_append(attnpress_handle *handle,
                                                     const attnpress_append_args *args,
                                                     const attnpress_plan_options *options,
                                                     attnpress_plan **plan);

/** attnpress_append() and then attnpress_forward(), with what they say of their arguments and
 * outputs; where there is a kernel for it, as one launch: of many short queries, one a sequence, with
 * one new key each. Then q_out, which args->q names, is not written, and which of two rows is found
 * is not said where a sequence names rows that another one of the call appends: else it is the new one.
 * What attnpress_forward() says, and CAPTURING for either. */
ATTNPRESS_API attnpress_status attnpress_append_forward(attnpress_handle *handle,
                                                        const attnpress_append_args *append,
                                                        const attnpress_forward_args *args,
                                                        void *stream);

#ifdef __cplusplus
}
#endif
