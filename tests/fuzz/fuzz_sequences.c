/* Sequences of their own lengths on the CPU: forward calls of ragged batches and of pages with
 * their schedules, appends and merges. All that the host can see is legal; the index arrays hold
 * anything in half of the inputs, which a handle that checks may refuse, and no other. Address
 * checks see that a call stays within its tensors and arrays, which have their very size.
 *
 * What an input does not say a generator says, which the input seeds: short ones go as far. */
#include "fuzz.h"

#include <limits.h>
#include <math.h>

#include "attnpress/append.h"
#include "attnpress/attnpress.h"
#include "attnpress/merge.h"

static attnpress_handle *plain, *checking;

/* ---- Choices --------------------------------------------------------------------------------- */

enum { BUFFERS_MAX = 64, FINITE = 0x3c, UNWRITTEN = 0xff }; /* bytes; FINITE: in every dtype */

typedef struct source {
  fuzz_input input;
  uint64_t state;
  int wild; /* index arrays hold anything */
  void *buffers[BUFFERS_MAX];
  int buffer_count;
} source;

static uint64_t take(source *s, size_t bytes) {
  if (s->input.size > 0)
    return fuzz_take(&s->input, bytes);
  s->state ^= s->state << 13;
  s->state ^= s->state >> 7;
  s->state ^= s->state << 17;
  return bytes < 8 ? s->state & ((UINT64_C(1) << 8 * bytes) - 1) : s->state;
}

/** 0 to bound - 1; 0 where the bound is less than 1. */
static int below(source *s, int bound) {
  return bound < 1 ? 0 : (int)(take(s, bound <= 256 ? 1 : 2) % (unsigned)bound);
}

static int one_in(source *s, int n) {
  return below(s, n) == 0;
}

/** An index below a bound, or the bound itself; of wild ones anything. */
static int32_t take_index(source *s, int bound) {
  static const int32_t edges[] = {INT32_MAX,     INT32_MIN, INT32_MIN + 1,
                                  INT32_MAX - 1, 1 << 30,   1 << 16};
  const int kind = s->wild ? below(s, 8) : 0;
  if (kind < 5)
    return below(s, bound + 1 + s->wild);
  if (kind == 5)
    return -below(s, 5);
  return kind == 6 ? edges[below(s, sizeof edges / sizeof *edges)] : (int32_t)take(s, 4);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/** Is freed when the call is over. */
static void *make_buffer(source *s, int64_t bytes, int byte) {
  void *buffer = malloc(bytes > 0 ? (size_t)bytes : 1);
  HOLDS(buffer != NULL && s->buffer_count < BUFFERS_MAX);
  s->buffers[s->buffer_count++] = buffer;
  memset(buffer, byte, bytes > 0 ? (size_t)bytes : 1);
  return buffer;
}

static float *make_floats(source *s, int64_t count) {
  float *values = make_buffer(s, count * (int64_t)sizeof *values, FINITE);
  for (int64_t i = 0; i < count && i < 16; ++i)
    values[i] = (float)below(s, 200) / 50.0f - 2.0f;
  return values;
}

static int32_t *make_indices(source *s, int count, int bound) {
  int32_t *indices = make_buffer(s, count * (int64_t)sizeof *indices, 0);
  for (int i = 0; i < count; ++i)
    indices[i] = take_index(s, bound);
  return indices;
}

/** (batch + 1), from 0 to `total` at most. */
static int32_t *make_sums(source *s, int batch, int total) {
  int32_t *sums = make_buffer(s, (batch + 1) * (int64_t)sizeof *sums, 0);
  for (int i = 0, sum = 0; i <= batch; ++i) {
    sums[i] = s->wild && one_in(s, 4) ? take_index(s, total) : sum;
    sum += below(s, total / (batch > 0 ? batch : 1) + 2);
    sum = sum < total ? sum : total;
  }
  return sums;
}

/** (batch, rows, heads, columns), heads or rows outside, with gaps of multiples of `step`. */
static attnpress_tensor make_tensor(source *s, int batch, int rows, int heads, int columns,
                                    int dtype, int step, int byte) {
  const int64_t row = (columns + step - 1) / step * step + step * below(s, 3);
  const int heads_outside = below(s, 2), empty = !batch || !rows || !heads || !columns;
  attnpress_tensor t = {.shape = {batch, rows, heads, columns},
                        .stride = {row * rows * heads, heads_outside ? row : row * heads,
                                   heads_outside ? row * rows : row, 1},
                        .dtype = dtype};
  const int64_t span = empty ? 0
                             : (batch - 1) * t.stride[0] + (rows - 1) * t.stride[1] +
                                   (heads - 1) * t.stride[2] + columns;
  t.data = make_buffer(s, span * (dtype == ATTNPRESS_FP32 ? 4 : 2), byte);
  return t;
}

static int take_dtype(source *s) {
  return ATTNPRESS_FP16 + below(s, 3);
}

/** OK; or, of a handle that checks, refused with a sentence. */
static void check_status(const attnpress_handle *handle, attnpress_status status) {
  if (status == ATTNPRESS_OK)
    return;
  HOLDS(handle == checking && status == ATTNPRESS_INVALID_ARGUMENT);
  HOLDS(*attnpress_last_error() != '\0');
}

static attnpress_handle *take_handle(source *s) {
  return one_in(s, 4) ? checking : plain;
}

/* ---- Forward calls and schedules ------------------------------------------------------------- */

typedef struct forward_call {
  attnpress_forward_args args;
  attnpress_ragged ragged;
  attnpress_window window;
  attnpress_alibi alibi;
  attnpress_bias bias;
  attnpress_sinks sinks;
  attnpress_dropout dropout;
  int batch, heads, heads_kv, hdim, hdim_v, dtype;
  int queries, keys; /* rows of q, and those of k that a sequence can have */
} forward_call;

static void make_queries(source *s, forward_call *c) {
  const int packed = below(s, 2), batch = packed ? 1 : c->batch;
  c->queries = below(s, 12);
  c->args.q = make_tensor(s, batch, c->queries, c->heads, c->hdim, c->dtype, 8, FINITE);
  c->args.out = make_tensor(s, batch, c->queries, c->heads, c->hdim_v, c->dtype, 8, UNWRITTEN);
  if (packed)
    c->ragged.cu_seqlens_q = make_sums(s, c->batch, c->queries);
  if (one_in(s, 3))
    c->ragged.seqused_q = make_indices(s, c->batch, c->queries);
}

static void make_k_and_v(source *s, forward_call *c, int batch, int rows) {
  c->args.k = make_tensor(s, batch, rows, c->heads_kv, c->hdim, c->dtype, 8, FINITE);
  c->args.v = make_tensor(s, batch, rows, c->heads_kv, c->hdim_v, c->dtype, 8, FINITE);
  c->keys = rows;
}

/* A row of pages for each sequence, or rows that are picked; or one flat table. */
static void make_pages(source *s, forward_call *c) {
  attnpress_ragged *r = &c->ragged;
  const int pages = below(s, 6), per_row = 1 + below(s, 5);
  int entries = per_row;
  make_k_and_v(s, c, pages, 1 + below(s, 5));
  c->keys *= per_row;
  r->page_table_pages = per_row;
  if (below(s, 2)) {
    r->page_indptr = make_sums(s, c->batch, per_row);
  } else {
    const int picked = one_in(s, 3), rows = picked ? 1 + below(s, 4) : c->batch;
    const int stride = per_row + below(s, 3);
    if (picked) {
      r->page_table_rows = rows;
      r->kv_batch_idx = make_indices(s, c->batch, rows);
    }
    r->page_table_stride = stride;
    entries = rows > 0 ? (rows - 1) * stride + per_row : 0;
  }
  r->page_table = make_indices(s, entries, pages);
  if (one_in(s, 3))
    r->page_table_v = make_indices(s, entries, pages);
  if (below(s, 2))
    r->cu_seqlens_k = make_sums(s, c->batch, c->keys * c->batch);
}

static void make_keys(source *s, forward_call *c) {
  attnpress_ragged *r = &c->ragged;
  const int place = below(s, 4), rows = below(s, 24);
  if (place == 0) {
    make_k_and_v(s, c, 1, rows);
    r->cu_seqlens_k = make_sums(s, c->batch, rows);
  } else if (place == 1) {
    const int entries = one_in(s, 3) ? below(s, 5) : c->batch;
    make_k_and_v(s, c, entries, rows);
    if (entries != c->batch || one_in(s, 3))
      r->kv_batch_idx = make_indices(s, c->batch, entries);
  } else {
    make_pages(s, c);
  }
  if (r->cu_seqlens_k == NULL ? !one_in(s, 4) : one_in(s, 3))
    r->seqused_k = make_indices(s, c->batch, c->keys);
  if (one_in(s, 4))
    r->leftpad_k = make_indices(s, c->batch, c->keys / 2);
  if (r->seqused_k != NULL && one_in(s, 3)) {
    if (below(s, 2))
      r->seqlen_k_new = below(s, 4);
    else
      r->cu_seqlens_k_new = make_sums(s, c->batch, below(s, 9));
  }
}

static int bounded(int64_t bound, int most) {
  return bound > 0 && bound < most ? (int)bound : most;
}

/* What is done to scores; a bias has a place for each query and key that the bounds allow. */
static void make_scores(source *s, forward_call *c) {
  attnpress_forward_args *a = &c->args;
  const int queries = bounded(c->ragged.max_seqlen_q, c->queries);
  const int keys = bounded(c->ragged.max_seqlen_k, c->keys);
  a->mask = below(s, 3);
  c->window = (attnpress_window)ATTNPRESS_WINDOW_INIT;
  c->window.left = below(s, 9) - 1;
  c->window.right = below(s, 9) - 1;
  c->window.chunk = below(s, 9);
  c->window.top_left = below(s, 2);
  a->window = a->mask == ATTNPRESS_WINDOW ? &c->window : NULL;
  c->alibi = (attnpress_alibi)ATTNPRESS_ALIBI_INIT;
  c->sinks = (attnpress_sinks)ATTNPRESS_SINKS_INIT;
  c->dropout = (attnpress_dropout)ATTNPRESS_DROPOUT_INIT;
  if (one_in(s, 4)) {
    c->alibi.slopes = make_floats(s, c->heads);
    a->alibi = &c->alibi;
  }
  if (one_in(s, 4)) {
    c->sinks.data = make_floats(s, c->heads);
    c->sinks.dtype = ATTNPRESS_FP32;
    a->sinks = &c->sinks;
  }
  if (one_in(s, 6)) {
    c->dropout.probability = 0.25f;
    a->dropout = &c->dropout;
  }
  if (one_in(s, 6)) {
    c->bias = (attnpress_bias){
        .struct_size = sizeof c->bias,
        .data = make_floats(s, (int64_t)c->batch * c->heads * queries * keys),
        .shape = {c->batch, c->heads, queries, keys},
        .stride = {(int64_t)c->heads * queries * keys, (int64_t)queries * keys, keys, 1},
        .dtype = ATTNPRESS_FP32};
    a->bias = &c->bias;
  }
  a->softcap = one_in(s, 5) ? (float)(1 + below(s, 5)) : 0.0f;
  a->batch_invariant = a->bias == NULL && a->dropout == NULL && one_in(s, 6);
  a->num_splits = a->batch_invariant ? 0 : below(s, 3);
}

/* Heads outside of rows, or rows outside of heads, or a place for each sequence's bound. */
static void make_lse(source *s, forward_call *c) {
  const int packed = c->ragged.cu_seqlens_q != NULL, place = below(s, 4);
  const int bound = bounded(c->ragged.max_seqlen_q, c->queries);
  const int64_t rows = (int64_t)c->queries * c->heads;
  int64_t *stride = c->args.lse_stride, count = packed ? rows : c->batch * rows;
  c->ragged.lse_log2 = below(s, 2);
  c->ragged.lse_empty_pos_inf = below(s, 2);
  if (place == 0) /* none */
    return;
  if (place == 1 && rows > 0) {
    stride[0] = packed ? 0 : rows + 1;
    stride[1] = 1;
    c->ragged.lse_row_stride = c->heads;
    count = packed ? rows : (c->batch - 1) * (rows + 1) + rows;
  }
  if (place == 2 && packed && bound > 0) {
    stride[0] = (int64_t)bound * c->heads + 1;
    stride[1] = bound;
    count = (c->batch - 1) * stride[0] + stride[0] - 1;
  }
  c->args.lse = make_buffer(s, (c->batch > 0 ? count : 0) * 4, UNWRITTEN);
}

/* Made by the library, and then perhaps anything. */
static void make_schedule(source *s, forward_call *c) {
  attnpress_ragged *r = &c->ragged;
  HOLDS(attnpress_forward_schedule_bytes(c->batch, &r->schedule_bytes) == ATTNPRESS_OK);
  r->schedule = make_buffer(s, (int64_t)r->schedule_bytes, UNWRITTEN);
  check_status(plain, attnpress_forward_schedule(plain, &c->args, NULL));
  for (size_t i = 0; s->wild && i < r->schedule_bytes / sizeof *r->schedule; ++i)
    r->schedule[i] = take_index(s, c->batch);
}

static void try_forward(source *s) {
  forward_call c = {.args = ATTNPRESS_FORWARD_ARGS_INIT, .ragged = ATTNPRESS_RAGGED_INIT};
  c.dtype = take_dtype(s);
  c.batch = below(s, 5);
  c.heads_kv = 1 + below(s, 3);
  c.heads = c.heads_kv * (1 + below(s, 4));
  c.hdim = 8 * (1 + below(s, 5));
  c.hdim_v = one_in(s, 3) ? 8 * (1 + below(s, 5)) : c.hdim;
  c.args.ragged = &c.ragged;
  c.ragged.batch = c.batch;
  make_queries(s, &c);
  make_keys(s, &c);
  if (below(s, 2)) {
    c.ragged.max_seqlen_q = below(s, 14);
    c.ragged.max_seqlen_k = below(s, 40);
  }
  make_scores(s, &c);
  make_lse(s, &c);
  if (one_in(s, 4))
    make_schedule(s, &c);
  attnpress_handle *handle = take_handle(s);
  check_status(handle, attnpress_forward(handle, &c.args, NULL));
}

/* ---- Appends --------------------------------------------------------------------------------- */

/* The cache that new keys go to: entries that sequences have or pick, or pages; or slots. */
static void make_places(source *s, attnpress_append_args *a, int batch, int tokens, int entries,
                        int rows, int paged) {
  const int pages = 1 + below(s, 5);
  int table = pages;
  if (!paged) {
    if (entries != batch)
      a->kv_batch_idx = make_indices(s, batch, entries);
    if (one_in(s, 3)) {
      int64_t *slots = make_buffer(s, tokens * (int64_t)sizeof *slots, 0);
      for (int i = 0; i < tokens; ++i)
        slots[i] = s->wild && one_in(s, 4) ? (int64_t)take(s, 8) : below(s, entries * rows + 2) - 1;
      a->slot_mapping = slots;
      a->kv_batch_idx = NULL;
    }
    return;
  }
  a->max_pages = pages;
  if (below(s, 2)) {
    a->page_indptr = make_sums(s, batch, pages);
  } else {
    const int picked = one_in(s, 3), table_rows = picked ? 1 + below(s, 4) : batch;
    a->page_table_stride = pages + below(s, 2);
    table = table_rows > 0 ? (table_rows - 1) * (int)a->page_table_stride + pages : 0;
    if (picked) {
      a->page_table_rows = table_rows;
      a->kv_batch_idx = make_indices(s, batch, table_rows);
    }
  }
  a->page_table = make_indices(s, table, entries);
  if (one_in(s, 3))
    a->page_table_v = make_indices(s, table, entries);
}

static void make_rotary(source *s, attnpress_rotary *r, int batch, int tokens, int columns,
                        int dtype) {
  const int positions = 1 + below(s, 20), half = 1 + below(s, columns / 2);
  const int stride = half + below(s, 3), from = below(s, 3);
  *r = (attnpress_rotary)ATTNPRESS_ROTARY_INIT;
  r->num_positions = positions;
  r->rotary_dim = 2 * half;
  r->stride = stride;
  r->dtype = below(s, 2) ? ATTNPRESS_FP32 : dtype;
  r->interleaved = below(s, 2);
  const int64_t bytes = ((positions - 1) * stride + half) * (r->dtype == ATTNPRESS_FP32 ? 4 : 2);
  r->cos = make_buffer(s, bytes, FINITE);
  r->sin = make_buffer(s, bytes, FINITE);
  if (from == 0) {
    r->positions = make_indices(s, tokens, positions);
    return;
  }
  if (from == 1)
    r->first_positions = make_indices(s, batch, positions);
  r->q_at_first = below(s, 2);
}

static void try_append(source *s) {
  attnpress_append_args a = ATTNPRESS_APPEND_ARGS_INIT;
  attnpress_rotary rotary;
  const int dtype = take_dtype(s), heads = 1 + below(s, 3), ragged = below(s, 2);
  const int hdim = 2 * (1 + below(s, 20)), hdim_v = one_in(s, 3) ? 1 + below(s, 40) : hdim;
  const int sums = ragged && !one_in(s, 5), batch = ragged && !sums ? 1 : below(s, 5);
  const int outer = ragged ? 1 : batch, tokens = below(s, ragged ? 12 : 6);
  const int paged = below(s, 2), picked = !paged && below(s, 2);
  const int entries = paged || picked ? below(s, 6) : batch, rows = below(s, 9) + paged;
  const int which = 1 + below(s, 7), with_k = which & 1, with_v = which & 2, with_q = which & 4;
  if (sums) {
    a.cu_seqlens_new = make_sums(s, batch, tokens);
    a.batch = batch;
  }
  if (with_k) {
    a.k_new = make_tensor(s, outer, tokens, heads, hdim, dtype, 1, FINITE);
    a.k_cache = make_tensor(s, entries, rows, heads, hdim, dtype, 1, FINITE);
  }
  if (with_v) {
    a.v_new = make_tensor(s, outer, tokens, heads, hdim_v, dtype, 1, FINITE);
    a.v_cache = make_tensor(s, entries, rows, heads, hdim_v, dtype, 1, FINITE);
  }
  if (with_k || with_v)
    make_places(s, &a, batch, outer * tokens, entries, rows, paged);
  if (!one_in(s, 4))
    a.seqused_k = make_indices(s, batch, 3 * rows);
  if (with_q || below(s, 2)) {
    make_rotary(s, &rotary, batch, outer * tokens, hdim, dtype);
    a.rotary = &rotary;
  }
  if (with_q) {
    const int heads_q = 1 + below(s, 4), hdim_q = hdim + below(s, 4);
    a.q = make_tensor(s, outer, tokens, heads_q, hdim_q, dtype, 1, FINITE);
    if (below(s, 2))
      a.q_out = make_tensor(s, outer, tokens, heads_q, hdim_q, dtype, 1, UNWRITTEN);
  }
  attnpress_handle *handle = take_handle(s);
  check_status(handle, attnpress_append(handle, &a, NULL));
}

/* ---- Merges ---------------------------------------------------------------------------------- */

static void try_merge(source *s) {
  attnpress_merge_args m = ATTNPRESS_MERGE_ARGS_INIT;
  attnpress_merge_part parts[ATTNPRESS_MERGE_PARTS_MAX];
  const int batch = below(s, 4), rows = below(s, 5), heads = below(s, 5), hdim = below(s, 20);
  const int dtype = take_dtype(s), lse_count = batch * rows * heads;
  m.num_parts = 1 + below(s, ATTNPRESS_MERGE_PARTS_MAX);
  m.parts = parts;
  m.lse_log2 = below(s, 2);
  for (int i = 0; i < m.num_parts; ++i) {
    attnpress_merge_part *part = &parts[i];
    *part = (attnpress_merge_part)ATTNPRESS_MERGE_PART_INIT;
    part->out = make_tensor(s, batch, rows, heads, hdim, dtype, 1, FINITE);
    float *lse = make_floats(s, lse_count);
    for (int n = 0; n < lse_count; ++n)
      if (one_in(s, 5))
        lse[n] = below(s, 2) ? INFINITY : -INFINITY;
    part->lse = lse;
    if (below(s, 2)) { /* rows outside of heads */
      part->lse_stride[0] = rows * heads;
      part->lse_stride[1] = 1;
      part->lse_stride[2] = heads;
    }
  }
  m.out = one_in(s, 4) ? parts[0].out
                       : make_tensor(s, batch, rows, heads, hdim, take_dtype(s), 1, UNWRITTEN);
  if (below(s, 2))
    m.lse = make_buffer(s, lse_count * 4, UNWRITTEN);
  check_status(plain, attnpress_merge(plain, &m, NULL));
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

static attnpress_handle *make_handle(int check) {
  attnpress_handle *handle;
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.backend = ATTNPRESS_CPU;
  options.num_threads = 1;
  options.check = check;
  HOLDS(attnpress_create(&handle, &options) == ATTNPRESS_OK);
  return handle;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  source s = {.input = {data, size}, .state = UINT64_C(0x9e3779b97f4a7c15)};
  if (plain == NULL) {
    plain = make_handle(0);
    checking = make_handle(1);
  }
  for (size_t i = 0; i < size; ++i)
    s.state = (s.state ^ data[i]) * UINT64_C(0x100000001b3);
  s.state |= 1;
  s.wild = below(&s, 2);
  switch (below(&s, 5)) {
  case 0:
    try_append(&s);
    break;
  case 1:
    try_merge(&s);
    break;
  default:
    try_forward(&s);
  }
  while (s.buffer_count > 0)
    free(s.buffers[--s.buffer_count]);
  return 0;
}
