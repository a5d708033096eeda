/* Appending in float64, row by row of what may be written, and random calls. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../lengths.h"
#include "../rows.h"
#include "cpu/element.h"

/* ---- Calls ----------------------------------------------------------------------------------- */

/** Strides in a layout; the bytes from the buffer's first element to behind the tensor's last. */
static int64_t lay_out_tensor(const append_shape *s, attnpress_tensor *t, int64_t entries,
                              int64_t rows, int64_t heads, int64_t head_dim, int far) {
  const int64_t gap = s->layout == APPEND_ODD ? 3 : 0, row = head_dim + gap;
  const int heads_outside = s->layout == APPEND_HEADS_OUTSIDE;
  if (heads == 0 || head_dim == 0)
    return 0;
  *t = (attnpress_tensor){.shape = {entries, rows, heads, head_dim},
                          .stride = {rows * heads * row + gap, heads_outside ? row : heads * row,
                                     heads_outside ? rows * row : row, 1},
                          .dtype = s->dtype};
  if (far)
    t->stride[0] = ((int64_t)1 << 31) + t->stride[0] + 3;
  return ((entries - 1) * t->stride[0] + rows * heads * row + 1) * ap_element_bytes(s->dtype);
}

/** Entries of the cache: more than are used, so that indices can be shuffled. */
static int64_t cache_entries(const append_shape *s, int64_t pages) {
  const int64_t tokens = s->batch * s->new_tokens;
  return s->places == APPEND_DENSE       ? s->batch
         : s->places == APPEND_BATCH_IDX ? s->batch + 2
         : s->places == APPEND_SLOTS     ? tokens / s->cache_rows + 2
                                         : s->batch * pages + 3;
}

void append_lay_out(append_problem *p, const append_shape *s) {
  const int64_t entries = s->ragged ? 1 : s->batch,
                rows = s->ragged ? s->batch * s->new_tokens : s->new_tokens;
  const int64_t tokens = s->batch * s->new_tokens, heads = s->heads_kv;
  const int64_t pages = s->new_tokens * 4 / s->cache_rows + 2; /* of a sequence */
  const int64_t places = cache_entries(s, pages), row = s->cache_rows;
  attnpress_append_args *a = &p->args;
  *p = (append_problem){.args.struct_size = sizeof p->args};
  p->bytes[APPEND_K_NEW] = lay_out_tensor(s, &a->k_new, entries, rows, heads, s->head_dim, 0);
  p->bytes[APPEND_V_NEW] = lay_out_tensor(s, &a->v_new, entries, rows, heads, s->head_dim_v, 0);
  p->bytes[APPEND_K_CACHE] =
      lay_out_tensor(s, &a->k_cache, places, row, heads, s->head_dim, s->far);
  p->bytes[APPEND_V_CACHE] =
      lay_out_tensor(s, &a->v_cache, places, row, heads, s->head_dim_v, s->far);
  p->bytes[APPEND_Q] = lay_out_tensor(s, &a->q, entries, rows, s->heads_q, s->head_dim, 0);
  if (s->q_out)
    p->bytes[APPEND_Q_OUT] =
        lay_out_tensor(s, &a->q_out, entries, rows, s->heads_q, s->head_dim, 0);
  a->batch = s->batch;
  p->bytes[APPEND_CU_SEQLENS] = s->ragged ? (s->batch + 1) * 4 : 0;
  p->bytes[APPEND_SEQUSED] = s->batch * 4;
  const int by_idx = s->places == APPEND_BATCH_IDX || s->places == APPEND_PAGES_IDX;
  p->bytes[APPEND_KV_BATCH_IDX] = heads > 0 && by_idx ? s->batch * 4 : 0;
  if (heads > 0 && (s->places == APPEND_PAGES || s->places == APPEND_PAGES_IDX)) {
    a->max_pages = pages;
    a->page_table_stride = pages + 1;
    a->page_table_rows = s->places == APPEND_PAGES_IDX ? s->batch + 1 : 0;
    p->bytes[APPEND_PAGE_TABLE] = (s->batch + 1) * (pages + 1) * 4;
  }
  if (heads > 0 && s->places == APPEND_PAGES_FLAT) {
    a->max_pages = s->batch * pages + 2;
    p->bytes[APPEND_PAGE_TABLE] = p->bytes[APPEND_PAGE_TABLE_V] = a->max_pages * 4;
    p->bytes[APPEND_PAGE_INDPTR] = (s->batch + 1) * 4;
  }
  p->bytes[APPEND_SLOT_MAPPING] = heads > 0 && s->places == APPEND_SLOTS ? tokens * 8 : 0;
  if (s->rotary_dim == 0)
    return;
  p->bytes[APPEND_POSITIONS] = s->own_positions ? tokens * 4 : 0;
  p->bytes[APPEND_FIRST_POSITIONS] = s->own_first ? s->batch * 4 : 0;
  const int32_t dtype = s->rotary_own ? s->dtype : ATTNPRESS_FP32;
  const int64_t half = s->rotary_dim / 2;
  p->rotary = (attnpress_rotary){.struct_size = sizeof p->rotary,
                                 .num_positions = 4 * s->new_tokens + 40,
                                 .stride = s->rotary_own ? 2 * half : 0,
                                 .rotary_dim = s->rotary_dim,
                                 .dtype = dtype,
                                 .interleaved = s->interleaved,
                                 .q_at_first = s->q_at_first};
  p->bytes[APPEND_COS] =
      p->rotary.num_positions * half * ap_element_bytes(dtype) * (s->rotary_own ? 2 : 1);
  p->bytes[APPEND_SIN] = s->rotary_own ? 0 : p->bytes[APPEND_COS];
}

void append_point(append_problem *p, const append_shape *s, void *const buffer[APPEND_BUFFERS]) {
  attnpress_append_args *a = &p->args;
  attnpress_tensor *const tensors[] = {&a->k_new,   &a->v_new, &a->k_cache,
                                       &a->v_cache, &a->q,     &a->q_out};
  const int64_t first = s->layout == APPEND_ODD ? ap_element_bytes(s->dtype) : 0;
  void *at[APPEND_BUFFERS];
  for (int i = 0; i < APPEND_BUFFERS; ++i)
    at[i] = p->bytes[i] > 0 ? buffer[i] : NULL;
  for (int i = APPEND_K_NEW; i <= APPEND_Q_OUT; ++i)
    tensors[i]->data = at[i] != NULL ? (char *)at[i] + first : NULL;
  a->cu_seqlens_new = at[APPEND_CU_SEQLENS];
  a->seqused_k = at[APPEND_SEQUSED];
  a->kv_batch_idx = at[APPEND_KV_BATCH_IDX];
  a->page_table = at[APPEND_PAGE_TABLE];
  a->slot_mapping = at[APPEND_SLOT_MAPPING];
  a->page_table_v = at[APPEND_PAGE_TABLE_V];
  a->page_indptr = at[APPEND_PAGE_INDPTR];
  if (s->rotary_dim == 0)
    return;
  a->rotary = &p->rotary;
  p->rotary.positions = at[APPEND_POSITIONS];
  p->rotary.first_positions = at[APPEND_FIRST_POSITIONS];
  p->rotary.cos = at[APPEND_COS];
  p->rotary.sin =
      s->rotary_own ? (char *)at[APPEND_COS] + s->rotary_dim / 2 * ap_element_bytes(p->rotary.dtype)
                    : at[APPEND_SIN];
}

static void fill_tensor(const attnpress_tensor *t, uint64_t seed) {
  for (int64_t b = 0; t->data != NULL && b < t->shape[0]; ++b)
    for (int64_t i = 0; i < t->shape[1]; ++i)
      for (int64_t h = 0; h < t->shape[2]; ++h)
        for (int64_t j = 0; j < t->shape[3]; ++j)
          rows_store(
              t->data, b * t->stride[0] + i * t->stride[1] + h * t->stride[2] + j,
              rows_normal(seed,
                          (uint64_t)(((b * t->shape[1] + i) * t->shape[2] + h) * t->shape[3] + j)),
              t->dtype);
}

static void fill_tables(const append_problem *p, const append_shape *s) {
  const attnpress_rotary *r = &p->rotary;
  const int64_t half = r->rotary_dim / 2, stride = r->stride == 0 ? half : r->stride;
  for (int64_t position = 0; position < r->num_positions; ++position)
    for (int64_t i = 0; i < half; ++i) {
      const double angle =
          (double)position * pow(100.0, -(double)i / (double)half) + (s->bad ? 0.1 : 0.0);
      rows_store((void *)(uintptr_t)r->cos, position * stride + i, cos(angle), r->dtype);
      rows_store((void *)(uintptr_t)r->sin, position * stride + i, sin(angle), r->dtype);
    }
}

/* Tables of all sequences, one behind the other; with `bad`, the third's entries are none. */
static void fill_flat(const append_problem *p, const append_shape *s, int64_t entries,
                      int64_t step) {
  const attnpress_append_args *a = &p->args;
  int32_t *pages = (void *)(uintptr_t)a->page_table, *pages_v = (void *)(uintptr_t)a->page_table_v,
          *indptr = (void *)(uintptr_t)a->page_indptr;
  const int64_t each = (a->max_pages - 2) / s->batch;
  for (int64_t i = 0; i < a->max_pages; ++i) {
    pages[i] = (int32_t)(i * step % entries);
    pages_v[i] = (int32_t)((i + 1) * step % entries);
    if (s->bad && i % 5 == 2)
      (i % 2 ? pages : pages_v)[i] = i % 4 < 2 ? -1 : (int32_t)entries;
  }
  for (int64_t b = 0; b <= s->batch; ++b)
    indptr[b] = (int32_t)(1 + b * each);
  if (s->bad && s->batch > 3) {
    indptr[3] = -4;
    indptr[s->batch] = (int32_t)a->max_pages + 1;
  }
}

/* With `bad`: a sequence that begins before or behind its cache, pages and entries that are not
 * there, slots past the end, positions past the tables, tokens behind the last sequence. */
static void fill_indices(const append_problem *p, const append_shape *s) {
  const attnpress_append_args *a = &p->args;
  const int64_t tokens = s->batch * s->new_tokens;
  const attnpress_tensor *cache = s->heads_kv > 0 && s->head_dim > 0 ? &a->k_cache : &a->v_cache;
  const int64_t entries = cache->shape[0], step = entries > 0 ? lengths_step(entries) : 1;
  int32_t *cu = (void *)(uintptr_t)a->cu_seqlens_new, *used = (void *)(uintptr_t)a->seqused_k,
          *idx = (void *)(uintptr_t)a->kv_batch_idx, *pages = (void *)(uintptr_t)a->page_table,
          *positions = (void *)(uintptr_t)p->rotary.positions,
          *first = (void *)(uintptr_t)p->rotary.first_positions;
  int64_t *slots = (void *)(uintptr_t)a->slot_mapping;
  for (int64_t b = 0; b < s->batch; ++b) {
    used[b] = (int32_t)(b * 5 % 7);
    if (s->bad && b % 4 == 0)
      used[b] = b % 8 == 0 ? -3 : INT32_MAX - 1;
    if (idx != NULL)
      idx[b] = pages != NULL ? (int32_t)(s->bad && b % 4 == 2 ? (b % 8 == 2 ? -1 : s->batch + 1)
                                                              : s->batch - b)
               : s->bad && b == 2 ? (int32_t)entries
                                  : (int32_t)(b * step % entries);
  }
  for (int64_t b = 0; pages != NULL && a->page_indptr == NULL && b <= s->batch; ++b)
    for (int64_t i = 0; i <= a->max_pages; ++i) /* the last is never read */
      pages[b * a->page_table_stride + i] =
          i == a->max_pages            ? INT32_MAX
          : s->bad && (b + i) % 5 == 2 ? (b % 2 ? -1 : (int32_t)entries)
                                       : (int32_t)((b * a->max_pages + i) * step % entries);
  if (a->page_indptr != NULL)
    fill_flat(p, s, entries, step);
  for (int64_t b = 0; cu != NULL && b <= s->batch; ++b) /* every third is empty */
    cu[b] = (int32_t)(b == s->batch ? tokens - (s->bad ? 2 : 0)
                                    : (b + 2) / 3 * 3 * s->new_tokens / (s->bad ? 2 : 1));
  for (int64_t b = 0; cu != NULL && b < s->batch; ++b)
    cu[b] = cu[b] < cu[s->batch] ? cu[b] : cu[s->batch];
  const int64_t count = entries * s->cache_rows, slot_step = count > 0 ? lengths_step(count) : 1;
  for (int64_t t = 0; slots != NULL && t < tokens; ++t) {
    slots[t] = t % 5 == 3 ? -1 : t * slot_step % count;
    if (s->bad && t % 7 == 5)
      slots[t] = t % 2 ? count : INT64_MAX - t;
  }
  for (int64_t b = 0; first != NULL && b < s->batch; ++b)
    first[b] = s->bad && b % 4 == 1 ? (b % 8 == 1 ? INT32_MAX : -1) : (int32_t)(b * 11 % 30);
  for (int64_t t = 0; positions != NULL && t < tokens; ++t)
    positions[t] = s->bad && t % 6 == 4 ? (t % 4 ? -1 : (int32_t)p->rotary.num_positions)
                                        : (int32_t)(t * 7 % p->rotary.num_positions);
}

void append_fill(append_problem *p, const append_shape *s, uint64_t seed) {
  const attnpress_append_args *a = &p->args;
  const attnpress_tensor *const tensors[] = {&a->k_new,   &a->v_new, &a->k_cache,
                                             &a->v_cache, &a->q,     &a->q_out};
  for (int i = 0; i < 6; ++i)
    fill_tensor(tensors[i], seed + (uint64_t)i);
  fill_indices(p, s);
  if (s->rotary_dim > 0)
    fill_tables(p, s);
}

/* ---- Results --------------------------------------------------------------------------------- */

static const attnpress_tensor *tokens_of(const attnpress_append_args *a) {
  return a->k_new.dtype != 0 ? &a->k_new : a->v_new.dtype != 0 ? &a->v_new : &a->q;
}

static const attnpress_tensor *cache_of(const attnpress_append_args *a) {
  return a->k_cache.dtype != 0 ? &a->k_cache : &a->v_cache;
}

/** Sequence and index of token t; 0 where it is in none. Looks at one sequence after the other. */
static int find_token(const attnpress_append_args *a, int64_t t, int64_t *sequence,
                      int64_t *index) {
  const int64_t rows = tokens_of(a)->shape[1];
  *sequence = t / rows;
  *index = t % rows;
  if (a->cu_seqlens_new == NULL)
    return 1;
  for (int64_t b = 0; b < a->batch; ++b)
    if (a->cu_seqlens_new[b] <= t && t < a->cu_seqlens_new[b + 1]) {
      *sequence = b;
      *index = t - a->cu_seqlens_new[b];
      return 1;
    }
  return 0;
}

/** The row of cos and sin of token t, for q or for K; -1 where it is skipped, 0 without rotary. */
static int64_t position_of(const attnpress_append_args *a, int64_t t, int of_q) {
  int64_t sequence, index;
  if (!find_token(a, t, &sequence, &index))
    return -1;
  if (a->rotary == NULL)
    return 0;
  const attnpress_rotary *r = a->rotary;
  const int64_t first = r->first_positions != NULL ? r->first_positions[sequence]
                        : a->seqused_k != NULL     ? a->seqused_k[sequence]
                                                   : 0;
  const int64_t position = r->positions != NULL    ? r->positions[t]
                           : of_q && r->q_at_first ? first
                                                   : first + index;
  return position < r->num_positions && position >= 0 ? position : -1;
}

/** Page `page` of a sequence in a table; -1 where that says nothing. */
static int64_t page_of(const attnpress_append_args *a, const int32_t *table, int64_t sequence,
                       int64_t page) {
  if (a->page_indptr != NULL) {
    const int32_t *ends = a->page_indptr + sequence;
    const int sound = ends[0] >= 0 && ends[0] <= ends[1] && ends[1] <= a->max_pages;
    return sound && ends[0] + page < ends[1] ? table[ends[0] + page] : -1;
  }
  const int64_t rows = a->page_table_rows != 0 ? a->page_table_rows : a->batch;
  const int64_t row = a->kv_batch_idx != NULL ? a->kv_batch_idx[sequence] : sequence;
  const int64_t stride = a->page_table_stride != 0 ? a->page_table_stride : a->max_pages;
  return row >= 0 && row < rows && page < a->max_pages ? table[row * stride + page] : -1;
}

/** The row of the cache of K or of V, entries one behind the other; -1 where there is none. */
static int64_t place_of(const attnpress_append_args *a, int64_t t, int of_v) {
  const int64_t entries = cache_of(a)->shape[0], rows = cache_of(a)->shape[1];
  int64_t sequence, index, entry;
  if (position_of(a, t, 0) < 0 || !find_token(a, t, &sequence, &index))
    return -1;
  if (a->slot_mapping != NULL)
    return a->slot_mapping[t] < entries * rows ? a->slot_mapping[t] : -1;
  const int64_t row = index + (a->seqused_k != NULL ? a->seqused_k[sequence] : 0);
  if (row < 0 || (a->page_table == NULL && row >= rows))
    return -1;
  const int32_t *table = of_v && a->page_table_v != NULL ? a->page_table_v : a->page_table;
  entry = a->page_table != NULL     ? page_of(a, table, sequence, row / rows)
          : a->kv_batch_idx != NULL ? a->kv_batch_idx[sequence]
                                    : sequence;
  return entry < 0 || entry >= entries ? -1 : entry * rows + row % rows;
}

int append_check_open(append_check *c) {
  const attnpress_append_args *a = c->before;
  const int64_t rows = cache_of(a)->shape[0] * cache_of(a)->shape[1];
  const int64_t tokens = tokens_of(a)->shape[0] * tokens_of(a)->shape[1];
  if ((c->owner = malloc((size_t)(2 * rows + 1) * sizeof *c->owner)) == NULL)
    return -1;
  for (int64_t i = 0; i < 2 * rows; ++i)
    c->owner[i] = -1;
  for (int64_t i = 0; rows > 0 && i < 2 * tokens; ++i) {
    const int64_t place = place_of(a, i / 2, i % 2);
    if (place >= 0)
      c->owner[i % 2 * rows + place] = i / 2;
  }
  return 0;
}

void append_check_close(append_check *c) {
  free(c->owner);
}

int64_t append_check_rows(const append_check *c) {
  const attnpress_append_args *a = c->before;
  return cache_of(a)->shape[0] * cache_of(a)->shape[1] +
         (a->q.dtype != 0 ? a->q.shape[0] * a->q.shape[1] : 0);
}

/** Element `column` of a row that is rotated by `position`; its tolerance. */
static double rotated(const attnpress_rotary *r, const attnpress_tensor *t, int64_t row,
                      int64_t column, int64_t position, double *tolerance) {
  const int64_t half = r->rotary_dim / 2, stride = r->stride != 0 ? r->stride : half;
  const int64_t pair = r->interleaved ? column / 2 : column % half;
  const int second = r->interleaved ? column % 2 : column >= half;
  const int64_t partner = r->interleaved ? column ^ 1 : second ? column - half : column + half;
  const double cosine = rows_load(r->cos, position * stride + pair, r->dtype),
               sine = rows_load(r->sin, position * stride + pair, r->dtype);
  const double own = rows_load(t->data, row + column, t->dtype) * cosine,
               other = rows_load(t->data, row + partner, t->dtype) * sine;
  const double value = second ? own + other : own - other;
  *tolerance = rows_rounding(value, t->dtype) + 4e-7 * (fabs(own) + fabs(other));
  return value;
}

/** Whether one element has another's bits. */
static int same_bits(const attnpress_tensor *a, int64_t at, const attnpress_tensor *b,
                     int64_t other) {
  const int64_t bytes = ap_element_bytes(a->dtype);
  return memcmp((const char *)a->data + at * bytes, (const char *)b->data + other * bytes,
                (size_t)bytes) == 0;
}

/** Row (entry, row) of a tensor that may have been written: what token (from_entry, from_row) of
 * `from` gives, or, where from is NULL, what `before` has. */
static void check_heads(const append_check *c, const char *what, const attnpress_tensor *t,
                        const attnpress_tensor *before, int64_t entry, int64_t row,
                        const attnpress_tensor *from, int64_t from_entry, int64_t from_row,
                        int64_t position, int64_t rotary_dim, append_error *e) {
  for (int64_t h = 0; h < t->shape[2]; ++h) {
    const int64_t at = entry * t->stride[0] + row * t->stride[1] + h * t->stride[2];
    int64_t source = entry * before->stride[0] + row * before->stride[1] + h * before->stride[2];
    if (from != NULL)
      source = from_entry * from->stride[0] + from_row * from->stride[1] + h * from->stride[2];
    for (int64_t j = 0; j < t->shape[3]; ++j) {
      const attnpress_tensor *of = from != NULL ? from : before;
      const double value = rows_load(t->data, at + j, t->dtype);
      double expected = rows_load(of->data, source + j, of->dtype);
      double ratio = same_bits(t, at + j, of, source + j) ? 0.0 : INFINITY;
      if (from != NULL && j < rotary_dim) {
        double tolerance;
        expected = rotated(c->before->rotary, from, source, j, position, &tolerance);
        ratio = fabs(value - expected) / tolerance;
      }
      ++e->elements;
      if (!(ratio <= e->ratio))
        *e = (append_error){isnan(ratio) ? INFINITY : ratio,
                            e->elements,
                            {entry, row, h, j},
                            what,
                            value,
                            expected};
    }
  }
}

static void check_cache(const append_check *c, const char *what, const attnpress_tensor *t,
                        const attnpress_tensor *before, const attnpress_tensor *from, int64_t place,
                        int64_t rotary_dim, append_error *e) {
  const int64_t rows = before->shape[1];
  if (before->dtype == 0)
    return;
  const int of_v = before == &c->before->v_cache;
  const int64_t owner = c->owner[of_v * before->shape[0] * rows + place];
  if (owner < 0)
    check_heads(c, what, t, before, place / rows, place % rows, NULL, 0, 0, 0, 0, e);
  else
    check_heads(c, what, t, before, place / rows, place % rows, from, owner / from->shape[1],
                owner % from->shape[1], position_of(c->before, owner, 0), rotary_dim, e);
}

void append_check_row(const append_check *c, int64_t row, append_error *error) {
  const attnpress_append_args *a = c->args, *b = c->before;
  const int64_t places = cache_of(b)->shape[0] * cache_of(b)->shape[1];
  const int64_t rotary_dim = b->rotary != NULL ? b->rotary->rotary_dim : 0;
  if (row < places) {
    check_cache(c, "k_cache", &a->k_cache, &b->k_cache, &b->k_new, row, rotary_dim, error);
    check_cache(c, "v_cache", &a->v_cache, &b->v_cache, &b->v_new, row, 0, error);
    return;
  }
  const int64_t t = row - places, position = position_of(b, t, 1);
  const attnpress_tensor *to = a->q_out.dtype != 0 ? &a->q_out : &a->q;
  const attnpress_tensor *old = b->q_out.dtype != 0 ? &b->q_out : &b->q;
  check_heads(c, "q", to, old, t / b->q.shape[1], t % b->q.shape[1], position >= 0 ? &b->q : NULL,
              t / b->q.shape[1], t % b->q.shape[1], position, rotary_dim, error);
}
