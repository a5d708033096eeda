/* The arguments of the kernel that writes new keys and values to their place: filled by the
 * runtime, read by the kernel from constant memory. Host and device compile this same text. */
#pragma once

#include "attnpress/args/common.h"

/* attnpress_append_write_args.rows */
enum { ATTNPRESS_APPEND_Q = 0, ATTNPRESS_APPEND_K = 1, ATTNPRESS_APPEND_V = 2 };

/* The rows of q, K or V. Strides are in elements. Of dense tensors, token t is row t % new of entry
 * t / new; of ragged ones, row t of entry 0. */
typedef struct attnpress_append_rows {
  const void *from; /* (batch, new, heads, head_dim), or (1, tokens, heads, head_dim) */
  void *to;         /* K, V: (entries, entry_rows, heads, head_dim); q: the shape of `from` */
  int64_t from_batch, from_row, from_head;
  int64_t to_batch, to_row, to_head;
  attnpress_divisor head_threads; /* that share a row; 1 where there is none */
  int32_t threads;                /* of a token: heads * head_threads, or 0 */
  int32_t head_dim;
  int32_t rotary_dim; /* of the columns, the first that are rotated; 0: none */
} attnpress_append_rows;

typedef struct attnpress_append_write_args {
  attnpress_append_rows rows[3];
  const int32_t *cu_seqlens; /* (batch + 1): first tokens of ragged sequences; or NULL: dense */
  const int32_t *seqused;    /* (batch): tokens in the cache; or NULL: 0 */
  const int32_t
      *kv_batch_idx;         /* (batch): entries of the cache, or rows of the table; or NULL: 0, 1,
                                  2 ... */
  const int32_t *page_table; /* (table_rows, pages): entries of the cache; or NULL */
  const int32_t *page_table_v; /* V's: the same, where there is no other */
  const int32_t *page_indptr; /* (batch + 1): first entries of sequences in a flat table; or NULL */
  const int64_t *slots;       /* (tokens): entry * entry_rows + row, negative: none; or NULL */
  const int32_t *positions;   /* (tokens): rows of cos and sin; or NULL: first position + i */
  const int32_t *first_positions; /* (batch); or NULL: seqused */
  const void *cos, *sin;          /* (num_positions, rotary_dim / 2) */
  int64_t page_table_stride, rotary_stride;
  attnpress_divisor token_threads; /* that share a token */
  attnpress_divisor new_tokens;    /* of a dense sequence */
  int32_t batch, tokens;           /* tokens: of all sequences */
  int32_t pages;                   /* of a sequence, in the table; of all in a flat one */
  int32_t table_rows;              /* of the table */
  int32_t entries, entry_rows;     /* of the cache */
  int32_t num_positions;
  int32_t interleaved; /* 1: columns 2 i and 2 i + 1 are a pair; 0: i and i + rotary_dim / 2 */
  int32_t rotary_fp32; /* 1: cos and sin are fp32; 0: of the tensors' dtype */
  int32_t q_at_first;  /* 1: queries stand at their sequence's first position */
} attnpress_append_write_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_append_rows, head_threads, 64)
ATTNPRESS_ASSERT_OFFSET(attnpress_append_write_args, cu_seqlens, 264)
ATTNPRESS_ASSERT_OFFSET(attnpress_append_write_args, token_threads, 368)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_append_write_args) == 432,
                        "layout of attnpress_append_write_args");

/* Thread number t of the grid has token t / token_threads, and of that token a part of a row of q,
 * K or V, in this order. A part is a vector of 16 bytes, or, where columns i and i + rotary_dim / 2
 * are a pair, two: first the columns of the first half with their partners, then those that are not
 * rotated. */
