/* The CPU backend: a task is a token. Index arrays are checked before they are followed. */
#include "append/append.h"

#include <string.h>

#include "attention/strided.h"
#include "cpu/element.h"
#include "cpu/threads.h"

/** A token, and where it is among the tensors of new rows. */
typedef struct new_token {
  int64_t number, sequence, index, entry, row;
} new_token;

/* ---- Tokens and places ----------------------------------------------------------------------- */

/** The last sequence that begins at the token or before it; 0 where the token is in none. */
static int find_token(const ap_append_problem *p, int64_t number, new_token *token) {
  const int32_t *cu = p->args.cu_seqlens_new;
  int64_t low = 0, high = p->args.batch;
  *token = (new_token){number, number / p->new_tokens, number % p->new_tokens,
                       number / p->new_tokens, number % p->new_tokens};
  if (cu == NULL)
    return 1;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (cu[middle] <= number)
      low = middle;
    else
      high = middle;
  }
  *token = (new_token){number, low, 0, 0, number};
  if (p->args.batch == 0 || cu[low] < 0 || cu[low] > number || cu[low + 1] <= number)
    return 0;
  token->index = number - cu[low];
  return 1;
}

static int64_t row_of(const ap_append_problem *p, const new_token *token) {
  return (p->args.seqused_k == NULL ? 0 : p->args.seqused_k[token->sequence]) + token->index;
}

/** Of cos and sin, for a row of q or of K. */
static int64_t position_of(const ap_append_problem *p, const new_token *token, int of_q) {
  const attnpress_rotary *r = &p->rotary;
  if (r->positions != NULL)
    return r->positions[token->number];
  const int64_t first = r->first_positions != NULL ? r->first_positions[token->sequence]
                                                   : row_of(p, token) - token->index;
  return of_q && r->q_at_first ? first : first + token->index;
}

/** The number of a sequence's page, of its own; -1 where the table has none. */
static int64_t page_of(const attnpress_append_args *a, const int32_t *table, int64_t sequence,
                       int64_t page) {
  int64_t first = sequence * a->page_table_stride, pages = a->max_pages;
  if (a->page_indptr != NULL) {
    const int64_t begin = a->page_indptr[sequence], end = a->page_indptr[sequence + 1];
    first = begin;
    pages = begin >= 0 && end >= begin && end <= a->max_pages ? end - begin : 0;
  } else if (a->kv_batch_idx != NULL) {
    const int64_t row = a->kv_batch_idx[sequence];
    first = row * a->page_table_stride;
    pages = row >= 0 && row < a->page_table_rows ? pages : 0;
  }
  return page >= 0 && page < pages ? table[first + page] : -1;
}

/** Of K, or of V; 0 where the cache has no such place. */
static int find_place(const ap_append_problem *p, const new_token *token, int of_v, int64_t *entry,
                      int64_t *row) {
  const attnpress_append_args *a = &p->args;
  const int64_t *shape = ap_append_has(&a->k_cache) ? a->k_cache.shape : a->v_cache.shape;
  const int64_t rows = shape[1];
  if (rows == 0)
    return 0;
  *entry = token->sequence;
  if (a->slot_mapping != NULL) {
    const int64_t slot = a->slot_mapping[token->number];
    *entry = slot < 0 ? -1 : slot / rows;
    *row = slot % rows;
  } else {
    *row = row_of(p, token);
    if (a->page_table != NULL) {
      const int32_t *table = of_v && a->page_table_v != NULL ? a->page_table_v : a->page_table;
      if (*row < 0)
        return 0;
      *entry = page_of(a, table, token->sequence, *row / rows);
      *row %= rows;
    } else if (a->kv_batch_idx != NULL) {
      *entry = a->kv_batch_idx[token->sequence];
    }
  }
  return *entry >= 0 && *entry < shape[0] && *row >= 0 && *row < rows;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/** rotary_dim of 0: a copy. */
static void write_row(const ap_append_problem *p, const void *from, void *to, int64_t head_dim,
                      int64_t rotary_dim, int64_t position) {
  const attnpress_rotary *r = &p->rotary;
  const int64_t half = rotary_dim / 2;
  const size_t bytes = (size_t)ap_element_bytes(p->dtype);
  for (int64_t i = 0; i < half; ++i) {
    const int64_t x = r->interleaved ? 2 * i : i, y = r->interleaved ? 2 * i + 1 : i + half;
    const double cosine = (double)ap_load_element(r->cos, position * r->stride + i, r->dtype),
                 sine = (double)ap_load_element(r->sin, position * r->stride + i, r->dtype),
                 first = (double)ap_load_element(from, x, p->dtype),
                 second = (double)ap_load_element(from, y, p->dtype);
    ap_store_element(to, x, (float)(first * cosine - second * sine), p->dtype);
    ap_store_element(to, y, (float)(second * cosine + first * sine), p->dtype);
  }
  if (to != from && head_dim > rotary_dim)
    memcpy((char *)to + (size_t)rotary_dim * bytes, (const char *)from + (size_t)rotary_dim * bytes,
           (size_t)(head_dim - rotary_dim) * bytes);
}

static void write_heads(const ap_append_problem *p, const attnpress_tensor *from,
                        int64_t from_entry, int64_t from_row, const attnpress_tensor *to,
                        int64_t to_entry, int64_t to_row, int64_t rotary_dim, int64_t position) {
  const int64_t bytes = ap_element_bytes(p->dtype);
  if (!ap_append_has(from) || ap_strided_is_empty(from))
    return;
  const char *source = (const char *)from->data +
                       (from_entry * from->stride[0] + from_row * from->stride[1]) * bytes;
  char *target = (char *)to->data + (to_entry * to->stride[0] + to_row * to->stride[1]) * bytes;
  for (int64_t head = 0; head < from->shape[2]; ++head)
    write_row(p, source + head * from->stride[2] * bytes, target + head * to->stride[2] * bytes,
              from->shape[3], rotary_dim, position);
}

static void append_token(const void *job, void *scratch, int64_t number) {
  const ap_append_problem *p = job;
  const attnpress_append_args *a = &p->args;
  const attnpress_rotary *r = &p->rotary;
  new_token token;
  int64_t entry, row, position = 0;
  (void)scratch;
  if (!find_token(p, number, &token))
    return;
  if (r->rotary_dim > 0) {
    position = position_of(p, &token, 1);
    if (position >= 0 && position < r->num_positions)
      write_heads(p, &a->q, token.entry, token.row, &a->q_out, token.entry, token.row,
                  r->rotary_dim, position);
    position = position_of(p, &token, 0);
    if (position < 0 || position >= r->num_positions)
      return;
  }
  if (ap_append_has(&a->k_new) && find_place(p, &token, 0, &entry, &row))
    write_heads(p, &a->k_new, token.entry, token.row, &a->k_cache, entry, row, r->rotary_dim,
                position);
  if (ap_append_has(&a->v_new) && find_place(p, &token, 1, &entry, &row))
    write_heads(p, &a->v_new, token.entry, token.row, &a->v_cache, entry, row, 0, 0);
}

attnpress_status ap_append_cpu(const ap_append_problem *p, int32_t num_threads) {
  const attnpress_append_args *a = &p->args;
  const double elements = (double)(a->q.shape[2] * a->q.shape[3]) +
                          (double)(a->k_new.shape[2] * a->k_new.shape[3]) +
                          (double)(a->v_new.shape[2] * a->v_new.shape[3]);
  const ap_cpu_job job = {.run = append_token,
                          .job = p,
                          .num_tasks = p->tokens,
                          .operations = 4.0 * (double)p->tokens * elements};
  return p->tokens == 0 ? ATTNPRESS_OK : ap_cpu_run(&job, num_threads);
}
