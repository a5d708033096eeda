#include "sequences.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/defaults.h"

/* Entries b and b + 1 of sums, within `rows`. */
static void take_sums(const int32_t *sums, int64_t b, int64_t rows, int64_t *begin,
                      int64_t *count) {
  const int fits = 0 <= sums[b] && sums[b] <= sums[b + 1] && sums[b + 1] <= rows;
  *begin = fits ? sums[b] : 0;
  *count = fits ? (int64_t)sums[b + 1] - sums[b] : 0;
}

sequence_rows sequence_rows_of(const attnpress_forward_args *args, int64_t b) {
  const attnpress_ragged *r = args->ragged;
  sequence_rows x = {.q_batch = r->cu_seqlens_q ? 0 : b, .queries = args->q.shape[1]};
  if (r->cu_seqlens_q)
    take_sums(r->cu_seqlens_q, b, args->q.shape[1], &x.q_begin, &x.queries);
  if (r->seqused_q)
    x.queries = r->seqused_q[b] >= 0 && r->seqused_q[b] <= x.queries ? r->seqused_q[b] : 0;
  if (r->max_seqlen_q > 0 && x.queries > r->max_seqlen_q)
    x.queries = 0;

  const int64_t batches = !r->page_table       ? args->k.shape[0]
                          : r->page_table_rows ? r->page_table_rows
                                               : r->batch;
  int64_t room =
      args->k.shape[0] == 0 ? 0 : args->k.shape[1] * (r->page_table ? r->page_table_pages : 1);
  if (r->page_indptr) { /* the sequence's own pages alone */
    take_sums(r->page_indptr, b, r->page_table_pages, &x.first_page, &room);
    room *= args->k.shape[1];
  }
  x.keys = room;
  x.k_batch = r->cu_seqlens_k && !r->page_table ? 0 : b;
  if (r->kv_batch_idx)
    x.k_batch = r->kv_batch_idx[b];
  if (r->cu_seqlens_k)
    take_sums(r->cu_seqlens_k, b, r->page_table ? INT32_MAX : room, &x.k_begin, &x.keys);
  if (r->page_table) { /* sums are lengths alone */
    x.k_begin = 0;
    x.keys = x.keys <= room ? x.keys : 0;
  }
  if (r->seqused_k) {
    int64_t begin, appended = r->seqlen_k_new;
    const int32_t *sums = r->cu_seqlens_k_new;
    if (sums)
      take_sums(sums, b, INT32_MAX, &begin, &appended);
    const int sound = r->seqused_k[b] >= 0 && (!sums || (sums[b] >= 0 && sums[b] <= sums[b + 1]));
    x.keys = sound && r->seqused_k[b] + appended <= x.keys ? r->seqused_k[b] + appended : 0;
  }
  if (r->leftpad_k) {
    const int64_t pad = r->leftpad_k[b];
    const int fits = pad >= 0 && pad <= x.keys;
    x.keys = fits ? x.keys - pad : 0;
    x.k_begin += fits ? pad : 0;
  }
  if (x.k_batch < 0 || x.k_batch >= batches)
    x.k_batch = x.keys = 0;
  if ((args->bias || args->batch_invariant) && r->max_seqlen_k > 0 && x.keys > r->max_seqlen_k)
    x.keys = 0;
  if (!r->page_indptr)
    x.first_page = x.k_batch * (r->page_table_stride ? r->page_table_stride : r->page_table_pages);
  return x;
}

void sequence_key_place(const attnpress_forward_args *args, const sequence_rows *rows, int64_t row,
                        int of_v, int64_t *page, int64_t *row_of_page) {
  const attnpress_ragged *r = args->ragged;
  *page = rows->k_batch;
  *row_of_page = row;
  if (r->page_table) {
    const int32_t *table = of_v && r->page_table_v ? r->page_table_v : r->page_table;
    *page = table[rows->first_page + row / args->k.shape[1]];
    *row_of_page = row % args->k.shape[1];
  }
}

/* By the strides of lse, or by those of its gradient. */
static int64_t row_value_at(const attnpress_forward_args *args, const int64_t stride[2],
                            int64_t given_row_stride, const sequence_rows *rows, int64_t b,
                            int64_t head, int64_t query) {
  const attnpress_ragged *r = args->ragged;
  const int contiguous = stride[0] == 0 && stride[1] == 0 && given_row_stride == 0;
  const int64_t row_stride = given_row_stride ? given_row_stride : 1;
  const int64_t head_stride = contiguous ? args->q.shape[1] : stride[1];
  const int64_t batch_stride =
      contiguous && !r->cu_seqlens_q ? args->q.shape[1] * args->q.shape[2] : stride[0];
  const int64_t begin =
      r->cu_seqlens_q && batch_stride == 0 ? rows->q_begin * row_stride : b * batch_stride;
  return begin + head * head_stride + query * row_stride;
}

int64_t sequence_lse_at(const attnpress_forward_args *args, const sequence_rows *rows, int64_t b,
                        int64_t head, int64_t query) {
  return row_value_at(args, args->lse_stride, args->ragged->lse_row_stride, rows, b, head, query);
}

/* The keys one after the other, (keys, heads, head dim); a page that is not there is left out. */
static void *gather(const attnpress_forward_args *args, const attnpress_tensor *t,
                    const sequence_rows *rows) {
  const size_t row_bytes = (size_t)t->shape[3] * (size_t)reference_element_bytes(t->dtype);
  char *to = calloc((size_t)(rows->keys * t->shape[2]) + 1, row_bytes), *next = to;
  for (int64_t i = 0; to != NULL && i < rows->keys; ++i)
    for (int64_t h = 0; h < t->shape[2]; ++h, next += row_bytes) {
      int64_t page, row;
      sequence_key_place(args, rows, rows->k_begin + i, t == &args->v, &page, &row);
      if (page < 0 || page >= t->shape[0])
        continue;
      const int64_t at = page * t->stride[0] + row * t->stride[1] + h * t->stride[2];
      memcpy(next, (const char *)t->data + at * reference_element_bytes(t->dtype), row_bytes);
    }
  return to;
}

/* The rows of a tensor, as batch b of it. */
static void show_rows(attnpress_tensor *t, int64_t b, int64_t batch, int64_t begin, int64_t rows) {
  if (t->data != NULL)
    t->data = (char *)t->data +
              (batch * t->stride[0] + begin * t->stride[1]) * reference_element_bytes(t->dtype);
  t->shape[0] = b + 1;
  t->stride[0] = 0;
  t->shape[1] = rows;
}

static float told_lse(const attnpress_ragged *r, float lse) {
  if (r->lse_empty_pos_inf && isinf(lse))
    return lse > 0.0f ? -INFINITY : NAN;
  return r->lse_log2 ? (float)((double)lse * 0.69314718055994530942) : lse;
}

int sequence_open(sequence *x, const attnpress_forward_args *args, int64_t b) {
  const sequence_rows rows = sequence_rows_of(args, b);
  const int64_t heads = args->q.shape[2];
  *x = (sequence){
      .args = *args, .k = gather(args, &args->k, &rows), .v = gather(args, &args->v, &rows)};
  if (args->lse != NULL)
    x->lse = malloc((size_t)(heads * rows.queries + 1) * sizeof *x->lse);
  if (x->k == NULL || x->v == NULL || (args->lse != NULL && x->lse == NULL)) {
    sequence_close(x);
    return -1;
  }
  attnpress_forward_args *a = &x->args;
  a->ragged = NULL;
  show_rows(&a->q, b, rows.q_batch, rows.q_begin, rows.queries);
  show_rows(&a->out, b, rows.q_batch, rows.q_begin, rows.queries);
  a->k = attnpress_tensor_bshd(x->k, b + 1, rows.keys, args->k.shape[2], args->k.shape[3],
                               args->k.dtype);
  a->v = attnpress_tensor_bshd(x->v, b + 1, rows.keys, args->v.shape[2], args->v.shape[3],
                               args->v.dtype);
  a->k.stride[0] = a->v.stride[0] = 0;
  a->lse = x->lse;
  a->lse_stride[0] = 0;
  a->lse_stride[1] = rows.queries;
  for (int64_t h = 0; args->lse != NULL && h < heads; ++h)
    for (int64_t i = 0; i < rows.queries; ++i)
      x->lse[h * rows.queries + i] =
          told_lse(args->ragged, args->lse[sequence_lse_at(args, &rows, b, h, i)]);
  return 0;
}

void sequence_close(sequence *x) {
  free(x->k);
  free(x->v);
  free(x->lse);
  *x = (sequence){0};
}

/* ---- Backward -------------------------------------------------------------------------------- */

sequence_rows backward_sequence_rows_of(const attnpress_backward_args *args, int64_t b) {
  const attnpress_forward_args forward = ap_forward_of(args);
  sequence_rows rows = sequence_rows_of(&forward, b);
  if (args->ragged->max_seqlen_k > 0 && rows.keys > args->ragged->max_seqlen_k)
    rows.keys = 0;
  return rows;
}

static float *allocate_values(const sequence_rows *rows, int64_t heads) {
  return malloc((size_t)(heads * rows->queries + 1) * sizeof(float));
}

int backward_sequence_open(backward_sequence *x, const attnpress_backward_args *args, int64_t b) {
  const attnpress_forward_args forward = ap_forward_of(args);
  const attnpress_ragged *r = args->ragged;
  const int64_t heads = args->q.shape[2];
  *x = (backward_sequence){.args = *args, .rows = backward_sequence_rows_of(args, b)};
  attnpress_backward_args *a = &x->args;
  const sequence_rows *rows = &x->rows;
  attnpress_tensor *of_queries[] = {&a->q, &a->out, &a->dout, &a->dq};
  attnpress_tensor *of_keys[] = {&a->k, &a->v, &a->dk, &a->dv};
  for (int i = 0; i < 4; ++i) {
    show_rows(of_queries[i], b, rows->q_batch, rows->q_begin, rows->queries);
    show_rows(of_keys[i], b, rows->k_batch, rows->k_begin, rows->keys);
  }
  x->lse = allocate_values(rows, heads);
  x->dlse = args->dlse != NULL ? allocate_values(rows, heads) : NULL;
  if (x->lse == NULL || (args->dlse != NULL && x->dlse == NULL)) {
    backward_sequence_close(x);
    return -1;
  }
  a->ragged = NULL;
  a->lse = x->lse;
  a->dlse = x->dlse;
  a->dlse_row_stride = 0;
  a->lse_stride[0] = a->dlse_stride[0] = 0;
  a->lse_stride[1] = a->dlse_stride[1] = rows->queries;
  const double of_natural = r->lse_log2 ? 1.44269504088896340736 : 1.0;
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < rows->queries; ++i) {
      x->lse[h * rows->queries + i] =
          told_lse(r, args->lse[sequence_lse_at(&forward, rows, b, h, i)]);
      if (x->dlse != NULL)
        x->dlse[h * rows->queries + i] =
            (float)((double)args->dlse[row_value_at(&forward, args->dlse_stride,
                                                    args->dlse_row_stride, rows, b, h, i)] *
                    of_natural);
    }
  return 0;
}

int backward_sequence_fill_forward(const attnpress_backward_args *args, int64_t b) {
  const attnpress_forward_args forward = ap_forward_of(args);
  const attnpress_ragged *r = args->ragged;
  backward_sequence x;
  if (backward_sequence_open(&x, args, b) != 0)
    return -1;
  const int status = reference_fill_forward_batch(&x.args, b);
  for (int64_t h = 0; h < args->q.shape[2]; ++h)
    for (int64_t i = 0; i < x.rows.queries; ++i) {
      const float lse = x.lse[h * x.rows.queries + i];
      ((float *)ATTNPRESS_DATA(args->lse))[sequence_lse_at(&forward, &x.rows, b, h, i)] =
          r->lse_empty_pos_inf && lse == -INFINITY ? INFINITY
          : r->lse_log2                            ? (float)((double)lse * 1.44269504088896340736)
                                                   : lse;
    }
  backward_sequence_close(&x);
  return status;
}

int backward_sequences_check_dbias(const attnpress_backward_args *args, int64_t batch, int64_t head,
                                   const float *before, reference_gradient *error) {
  const int64_t *shape = args->dbias->shape;
  const int64_t batch_end = shape[0] == 1 ? args->ragged->batch : batch + 1;
  const int64_t head_end = shape[1] == 1 ? args->q.shape[2] : head + 1;
  reference_dbias sum;
  int status = reference_open_dbias(&sum, args->dbias);
  for (int64_t b = batch; b < batch_end && status == 0; ++b) {
    backward_sequence one;
    status = backward_sequence_open(&one, args, b);
    for (int64_t h = head; h < head_end && status == 0; ++h)
      status = reference_add_dbias(&one.args, b, h, &sum);
    backward_sequence_close(&one);
  }
  if (status == 0)
    reference_compare_dbias(args, batch, head, before, &sum, error);
  reference_close_dbias(&sum);
  return status;
}

int backward_sequences_check_dbuffers(const attnpress_backward_args *args, float before,
                                      reference_gradient *error) {
  reference_dbuffers sum;
  int status = reference_open_dbuffers(&sum, args);
  for (int64_t b = 0; b < args->ragged->batch && status == 0; ++b) {
    backward_sequence one;
    status = backward_sequence_open(&one, args, b);
    for (int64_t h = 0; h < args->q.shape[2] && status == 0; ++h)
      status = reference_add_dbuffers(&one.args, b, h, &sum);
    backward_sequence_close(&one);
  }
  if (status == 0)
    reference_compare_dbuffers(args, before, &sum, error);
  reference_close_dbuffers(&sum);
  return status;
}

void backward_sequence_close(backward_sequence *x) {
  free(x->lse);
  free(x->dlse);
  *x = (backward_sequence){0};
}
