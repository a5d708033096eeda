/* Runs backward kernels of ragged batches under the emulator. All that lies outside of the sequences
 * is NaN, and a kernel is given the rows of the sequences alone, in the tensors and in the workspace:
 * to touch another is a fault. */
#include "ragged_backward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/reference_backward.h"
#include "../../tools/sequences.h"
#include "attention/defaults.h"
#include "attention/ragged.h"
#include "attention/score_args.h"
#include "cpu/element.h"
#include "backward.h"
#include "family.h"
#include "memory.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

enum { TILE_ROWS = 16, TILE_COLUMNS = 8, TILE_FLOATS = 128, PADDED_ROWS = 128 };
enum { SUM_ROWS = 32 }; /* keys of a thread block of bwd_convert that adds up parts */
enum {
  EXTENTS = 10,
  LENGTHS_MAX = RAGGED_SEQUENCES_MAX,
  FIRST_ROW = 2,
  LAST_ROWS = 1,
  GIVEN_MAX = 2048
};

/* ---- Batches --------------------------------------------------------------------------------- */

typedef enum values_place { HEADS_FIRST, ROWS_FIRST, BATCHES } values_place;

/* Lengths are in tiles and what is added to them; of more sequences than there are extents, those of the
 * first follow again. */
typedef struct extent {
  int tiles, more;
} extent;

typedef struct batch_row {
  int count;
  extent q[EXTENTS], k[EXTENTS];
  int queries_packed, keys_packed; /* 0: a batch each */
  int used; /* 1: of packed rows, the last one of each sequence is not used */
  int heads_kv, group;
  values_place values; /* of lse and dlse */
  int with_dlse, accumulate, log2, pos_inf, wrong;
} batch_row;

static const batch_row batch_rows[] = {
    {.count = 5,
     .q = {{0, 3}, {0, 0}, {1, 1}, {0, 0}, {0, 17}},
     .k = {{1, 5}, {0, 7}, {0, 0}, {0, 0}, {2, 0}},
     .queries_packed = 1,
     .keys_packed = 1,
     .heads_kv = 1,
     .group = 2,
     .values = HEADS_FIRST},
    {.count = 4,
     .q = {{0, 9}, {0, 1}, {0, 20}, {0, 2}},
     .k = {{0, 31}, {2, 1}, {0, 9}, {1, 0}},
     .heads_kv = 1,
     .group = 4,
     .values = BATCHES,
     .with_dlse = 1,
     .accumulate = 1,
     .log2 = 1,
     .pos_inf = 1},
    {.count = 3,
     .q = {{0, 5}, {1, -1}, {0, 130}},
     .k = {{1, -1}, {0, 0}, {0, 40}},
     .queries_packed = 1,
     .heads_kv = 2,
     .group = 3,
     .values = ROWS_FIRST,
     .with_dlse = 1,
     .pos_inf = 1},
    {.count = 6,
     .q = {{0, 7}, {0, 3}, {0, 9}, {0, 5}, {0, 4}, {0, 6}},
     .k = {{0, 33}, {1, 2}, {0, 19}, {1, 0}, {0, 25}, {0, 8}},
     .queries_packed = 1,
     .keys_packed = 1,
     .heads_kv = 2,
     .group = 1,
     .values = HEADS_FIRST,
     .accumulate = 1,
     .log2 = 1,
     .wrong = 1},
    {.count = 4,
     .q = {{0, 16}, {0, 12}, {3, 1}, {0, 9}},
     .k = {{0, 21}, {1, 7}, {1, 66}, {2, 3}},
     .queries_packed = 1,
     .keys_packed = 1,
     .used = 1,
     .heads_kv = 1,
     .group = 1,
     .values = BATCHES,
     .with_dlse = 1},
    {.count = 3,
     .q = {{1, 0}, {0, 40}, {0, 140}},
     .k = {{1, 0}, {1, 0}, {0, 12}},
     .keys_packed = 1,
     .used = 1,
     .heads_kv = 1,
     .group = 2,
     .values = ROWS_FIRST,
     .accumulate = 1,
     .log2 = 1,
     .wrong = 1},
    {.count = 10,
     .q = {{0, 4}, {0, 1}, {0, 6}, {0, 2}, {0, 9}, {0, 3}, {0, 0}, {0, 5}, {0, 33}, {0, 20}},
     .k = {{0, 9}, {0, 5}, {0, 6}, {0, 0}, {0, 17}, {0, 2}, {0, 8}, {0, 20}, {0, 40}, {0, 31}},
     .queries_packed = 1,
     .keys_packed = 1,
     .heads_kv = 1,
     .group = 2,
     .values = HEADS_FIRST},
    {.count = 37,
     .q = {{0, 4}, {0, 0}, {0, 1}, {0, 0}, {0, 2}, {0, 0}, {4, 2}, {0, 0}, {0, 3}, {0, 0}},
     .k = {{0, 5}, {0, 0}, {0, 2}, {0, 3}, {0, 1}, {0, 0}, {2, 5}, {0, 0}, {0, 20}, {0, 0}},
     .queries_packed = 1,
     .heads_kv = 1,
     .group = 1,
     .values = HEADS_FIRST,
     .accumulate = 1}, /* more than a warp has lanes */
};

enum {
  Q,
  K,
  V,
  OUT,
  DOUT,
  DQ,
  DK,
  DV,
  TENSORS,
  LSE = TENSORS,
  DLSE,
  LSE_LOG2,
  DELTA,
  DQ_SUM,
  DK_SUM,
  DV_SUM,
  TAKEN,
  ZEROED,
  DSINKS,
  CU_Q,
  CU_K,
  USED_Q,
  USED_K,
  FIRST_UNIT,
  ORDER,
  DBIAS,
  MEMORIES
};

typedef struct call {
  memory memory[MEMORIES];
  unsigned char *data[MEMORIES];
  size_t bytes[MEMORIES];
  attnpress_backward_args args;
  attnpress_ragged ragged;
  attnpress_dbias dbias;
  float *dbias_before; /* contiguous */
  scores scores;
  const kernel *kernel, *schedule;
  int count, row_tiles, sum_tiles;
  int direct_keys;           /* as in attnpress_bwd_ragged_args */
  int own_sums;              /* as in attnpress_bwd_args */
  int zero_ahead;            /* as there: units that warps of bwd prepare come so many later */
  int is_later[LENGTHS_MAX]; /* of sequences: they prepare it */
  int64_t sum_blocks;        /* then: thread blocks that compute anything */
  int in_turn;               /* these take their key blocks by turns */
  int group_parts;           /* as in attnpress_bwd_args; of bwd_convert more than 1: it makes dk */
  int part_keys;             /* of a key block that has parts */
  float scale;
  emulated_tensor given[GIVEN_MAX];
  int given_count;
} call;

static int pass_of(const kernel *k) {
  return k->variant.axis[AP_ATTENTION_PASS];
}

static int is_pass(const call *c, int pass) {
  return pass_of(c->kernel) == pass;
}

/* Its tensor maps describe q, k, v and dout as wholes. */
static int is_sm90(const kernel *k) {
  return k->variant.axis[AP_ATTENTION_ARCH] == 90;
}

/* Whether dq of a sequence does without a sum. */
static int is_direct(const call *c, const sequence_rows *rows) {
  return rows->keys <= c->direct_keys;
}

static int owns_keys(const kernel *k) {
  return pass_of(k) == AP_ATTENTION_PASS_BWD || pass_of(k) == AP_ATTENTION_PASS_BWD_DKV;
}

static void *add_memory(call *c, int which, size_t bytes) {
  c->bytes[which] = bytes > 0 ? bytes : 1;
  c->data[which] = memory_map(&c->memory[which], c->bytes[which]);
  return memset(c->data[which], 0xff, c->bytes[which]);
}

static int longest(const int *lengths, int count) {
  int most = 0;
  for (int i = 0; i < count; ++i)
    most = lengths[i] > most ? lengths[i] : most;
  return most;
}

static attnpress_tensor *tensor_of(call *c, int which) {
  attnpress_backward_args *a = &c->args;
  attnpress_tensor *const all[] = {&a->q, &a->k, &a->v, &a->out, &a->dout, &a->dq, &a->dk, &a->dv};
  return all[which];
}

/* (batch, rows, heads, head dim), with gaps between rows or with rows of a head side by side. */
static void add_tensor(call *c, int which, int64_t batch, int64_t rows, int64_t heads) {
  const int32_t *axis = c->kernel->variant.axis;
  const int of_v = which == V || which == OUT || which == DOUT || which == DV;
  attnpress_tensor *t = tensor_of(c, which);
  *t = (attnpress_tensor){
      .shape = {batch, rows, heads, axis[of_v ? AP_ATTENTION_HDIM_V : AP_ATTENTION_HDIM]},
      .dtype = axis[AP_ATTENTION_DTYPE]};
  layout_strides(t, which % 3 == 1 ? LAYOUT_BHSD : LAYOUT_GAPS);
  t->data = add_memory(c, which, (size_t)reference_span(t) * sizeof(uint16_t));
}

static void add_side(call *c, const batch_row *row, const int *lengths, int packed, int cu,
                     int used, int64_t *batch, int64_t *rows) {
  *batch = c->count;
  *rows = longest(lengths, c->count) + 1;
  int32_t *array = add_memory(c, packed ? cu : used, (size_t)(c->count + 1) * sizeof(int32_t));
  for (int i = 0; i < c->count && !packed; ++i)
    array[i] = lengths[i];
  if (!packed)
    return;
  array[0] = FIRST_ROW;
  for (int i = 0; i < c->count; ++i)
    array[i + 1] = array[i] + lengths[i] + row->used;
  *batch = 1;
  *rows = array[c->count] + LAST_ROWS;
  if (!row->used)
    return;
  int32_t *first = add_memory(c, used, (size_t)c->count * sizeof(int32_t));
  for (int i = 0; i < c->count; ++i)
    first[i] = lengths[i];
}

static float *add_values(call *c, int which, values_place place, int64_t stride[2],
                         int64_t *row_stride) {
  const int64_t heads = c->args.q.shape[2], rows = c->args.q.shape[1];
  int64_t count = heads * rows * c->args.q.shape[0];
  if (place == ROWS_FIRST && c->ragged.cu_seqlens_q != NULL) {
    stride[1] = 1;
    *row_stride = heads;
  } else if (place == BATCHES) { /* every other element of a row */
    stride[1] = 2 * rows;
    stride[0] = heads * stride[1] + 1;
    *row_stride = 2;
    count = c->count * stride[0];
  }
  return add_memory(c, which, (size_t)count * sizeof(float));
}

/* Where a row's gradient of lse lies: as its lse would by other strides. */
static int64_t dlse_at(const call *c, const sequence_rows *rows, int b, int64_t head, int64_t row) {
  attnpress_forward_args forward = ap_forward_of(&c->args);
  attnpress_ragged ragged = c->ragged;
  ragged.lse_row_stride = c->args.dlse_row_stride;
  forward.ragged = &ragged;
  memcpy(forward.lse_stride, c->args.dlse_stride, sizeof forward.lse_stride);
  return sequence_lse_at(&forward, rows, b, head, row);
}

/* Contents that make some sequences empty, and leave the others as they are. */
static void spoil(call *c) {
  int32_t *cu_q = (int32_t *)(void *)c->data[CU_Q], *used_q = (int32_t *)(void *)c->data[USED_Q];
  int32_t *cu_k = (int32_t *)(void *)c->data[CU_K], *used_k = (int32_t *)(void *)c->data[USED_K];
  if (cu_q && c->count > 5) {
    cu_q[3] = -5; /* before its begin, and the begin of the next */
    cu_q[6] = (int32_t)c->args.q.shape[1] + 1;
  }
  if (used_q)
    used_q[1] = -1;
  if (cu_k && c->count > 5)
    cu_k[1] = INT32_MIN;
  if (used_k)
    used_k[0] = (int32_t)c->args.k.shape[1] + 1;
}

static void fill_rows(const attnpress_tensor *t, int64_t batch, int64_t begin, int64_t rows,
                      uint64_t seed) {
  attnpress_tensor part = *t;
  part.data = (uint16_t *)t->data + batch * t->stride[0] + begin * t->stride[1];
  part.shape[0] = 1;
  part.shape[1] = rows;
  reference_fill_normal(&part, seed);
}

/* Fills the rows of the sequences; all else stays NaN. */
static void fill(call *c, uint64_t seed) {
  const attnpress_backward_args *a = &c->args;
  for (int b = 0; b < c->count; ++b) {
    const sequence_rows rows = backward_sequence_rows_of(a, b);
    const uint64_t from = seed + 10 * (uint64_t)b;
    fill_rows(&a->q, rows.q_batch, rows.q_begin, rows.queries, from);
    fill_rows(&a->k, rows.k_batch, rows.k_begin, rows.keys, from + 1);
    fill_rows(&a->v, rows.k_batch, rows.k_begin, rows.keys, from + 2);
    fill_rows(&a->dout, rows.q_batch, rows.q_begin, rows.queries, from + 3);
    if (backward_sequence_fill_forward(a, b) != 0)
      abort();
    for (int64_t h = 0; a->dlse != NULL && h < a->q.shape[2]; ++h)
      for (int64_t i = 0; i < rows.queries; ++i)
        ((float *)(void *)c->data[DLSE])[dlse_at(c, &rows, b, h, i)] =
            (float)(((int)i * 7 + (int)h) % 11 - 5) * 0.125f;
    if (!c->args.accumulate)
      continue;
    fill_rows(&a->dq, rows.q_batch, rows.q_begin, rows.queries, from + 4);
    fill_rows(&a->dk, rows.k_batch, rows.k_begin, rows.keys, from + 5);
    fill_rows(&a->dv, rows.k_batch, rows.k_begin, rows.keys, from + 6);
  }
}

/* The gradient by the bias: what it has one of, its dtype and its layout take turns, and whether the
 * bias has more than the bounds, which no kernel reads. */
static void add_dbias(call *c, unsigned turn) {
  attnpress_dbias *d = &c->dbias;
  c->scores.bias.shape[2] += turn % 3 * 40;
  c->scores.bias.shape[3] += turn / 2 % 2 * 70;
  const int64_t *of_bias = c->args.bias->shape;
  const int64_t extents[4] = {c->count, c->args.q.shape[2], of_bias[2], of_bias[3]};
  int64_t span = 1 + turn % 2; /* keys side by side, or not */
  *d = (attnpress_dbias)ATTNPRESS_DBIAS_INIT;
  d->dtype = 1 + (int32_t)(turn / 8 % 3);
  for (int i = 3; i >= 0; --i) {
    d->shape[i] = i < 3 && turn >> i & 1 ? 1 : extents[i];
    d->stride[i] = span;
    span = span * d->shape[i] + (int64_t)(turn % 3);
  }
  d->data = add_memory(c, DBIAS, (size_t)span * (d->dtype == ATTNPRESS_FP32 ? 4 : 2));
  c->args.dbias = d;
  if (!c->args.accumulate)
    return;
  const int64_t count = d->shape[0] * d->shape[1] * d->shape[2] * d->shape[3];
  c->dbias_before = malloc((size_t)(count + 1) * sizeof *c->dbias_before);
  if (c->dbias_before == NULL)
    abort();
  for (int64_t i = 0, at = 0; i < count; ++i, at = 0) {
    int64_t rest = i;
    for (int n = 3; n >= 0; rest /= d->shape[n--])
      at += rest % d->shape[n] * d->stride[n];
    ap_store_element(d->data, at, (float)((int)(i % 17) - 8) * 0.125f, d->dtype);
    c->dbias_before[i] = ap_load_element(d->data, at, d->dtype);
  }
}

/* ---- The workspace --------------------------------------------------------------------------- */

/* Rows of q before those of a sequence, as the layout of the workspace counts them. */
static int rows_before(const call *c, const sequence_rows *rows, int b) {
  return (int)(c->ragged.cu_seqlens_q ? rows->q_begin : b * c->args.q.shape[1]);
}

/* Where the rows of a sequence's head begin in lse_log2 and delta. */
static int64_t values_at(const call *c, const sequence_rows *rows, int b, int64_t head) {
  const int before = rows_before(c, rows, b);
  return head * c->row_tiles * TILE_ROWS + (before + b * PADDED_ROWS) / PADDED_ROWS * PADDED_ROWS;
}

/* And its row tiles in dq_sum. */
static int64_t tiles_at(const call *c, const sequence_rows *rows, int b, int64_t head) {
  return head * c->sum_tiles + (rows_before(c, rows, b) + b * TILE_ROWS) / TILE_ROWS;
}

/* Before compute capability 9.0: element i of all lanes' accumulators together. */
static int64_t sum_index(int64_t columns, int64_t first_tile, int64_t row, int64_t column) {
  const int64_t tile = (first_tile + row / TILE_ROWS) * (columns / TILE_COLUMNS) + column / 8;
  const int64_t lane = row % 8 * 4 + column % 8 / 2, i = row % 16 / 8 * 2 + column % 2;
  return tile * TILE_FLOATS + i * 32 + lane;
}

static int64_t padded(int64_t rows, int multiple) {
  return (rows + multiple - 1) / multiple * multiple;
}

/* What bwd_delta is to give of a row of a sequence, which may be past its end. */
static void values_of_row(const backward_sequence *one, int b, int64_t head, int64_t row,
                          double *lse_log2, double *delta) {
  const attnpress_backward_args *a = &one->args;
  *lse_log2 = INFINITY;
  *delta = 0.0;
  if (row >= one->rows.queries)
    return;
  const double lse = (double)one->lse[head * one->rows.queries + row];
  *lse_log2 = isinf(lse) ? INFINITY : lse * 1.4426950408889634074;
  for (int64_t i = 0; i < a->out.shape[3]; ++i)
    *delta += (double)reference_load(&a->out, b, row, head, i) *
              (double)reference_load(&a->dout, b, row, head, i);
  if (one->dlse != NULL)
    *delta -= (double)one->dlse[head * one->rows.queries + row];
}

/* lse_log2 and delta of the sequences: written, or, where `report` is given, compared. */
static int for_all_values(call *c, char *report) {
  float *lse = (float *)(void *)c->data[LSE_LOG2], *delta = (float *)(void *)c->data[DELTA];
  int status = 0;
  for (int b = 0; b < c->count; ++b) {
    backward_sequence one;
    if (backward_sequence_open(&one, &c->args, b) != 0)
      abort();
    for (int64_t h = 0; h < c->args.q.shape[2]; ++h)
      for (int64_t i = 0; i < padded(one.rows.queries, c->zero_ahead > 0 ? 64 : PADDED_ROWS); ++i) {
        const int64_t at = values_at(c, &one.rows, b, h) + i;
        double lse_log2, expected;
        if (c->zero_ahead > 0 && one.rows.keys == 0)
          continue; /* nobody asks for them */
        values_of_row(&one, b, h, i, &lse_log2, &expected);
        if (report == NULL) {
          lse[at] = (float)lse_log2;
          delta[at] = (float)expected;
        } else if (!(isinf(lse_log2) ? (double)lse[at] == lse_log2
                                     : fabs((double)lse[at] - lse_log2) <= 1e-5) ||
                   !(fabs((double)delta[at] - expected) <= 1e-4)) {
          snprintf(
              report, EMULATED_REPORT_BYTES,
              "row %lld of lse_log2 and delta is %.7g, %.7g in sequence %d, head %lld, expected "
              "%.7g, %.7g",
              (long long)i, (double)lse[at], (double)delta[at], b, (long long)h, lse_log2,
              expected);
          status = -1;
        }
      }
    backward_sequence_close(&one);
  }
  return status;
}

typedef void visit_sum(call *c, int b, const sequence_rows *rows, int64_t head, int64_t row,
                       int64_t column, float *sum);

/* Of the sequences that have one. */
static void for_all_sums(call *c, visit_sum *visit) {
  for (int b = 0; b < c->count; ++b) {
    const sequence_rows rows = backward_sequence_rows_of(&c->args, b);
    if (is_direct(c, &rows))
      continue;
    for (int64_t h = 0; h < c->args.q.shape[2]; ++h)
      for (int64_t i = 0; i < padded(rows.queries, TILE_ROWS); ++i)
        for (int64_t column = 0; column < c->args.q.shape[3]; ++column)
          visit(c, b, &rows, h, i, column,
                (float *)(void *)c->data[DQ_SUM] +
                    sum_index(c->args.q.shape[3], tiles_at(c, &rows, b, h), i, column));
  }
}

static void clear_sum(call *c, int b, const sequence_rows *rows, int64_t head, int64_t row,
                      int64_t column, float *sum) {
  (void)c, (void)b, (void)rows, (void)head, (void)row, (void)column;
  *sum = 0.0f;
}

static void draw_sum(call *c, int b, const sequence_rows *rows, int64_t head, int64_t row,
                     int64_t column, float *sum) {
  (void)c, (void)rows;
  const uint64_t x =
      (uint64_t)(((b * 31 + head) * 1009 + row) * 523 + column) * 6364136223846793005u;
  *sum = (float)((double)(x >> 40) / (double)(1 << 23) - 1.0);
}

/* dQ as bwd_convert makes it. */
static void convert_sum(call *c, int b, const sequence_rows *rows, int64_t head, int64_t row,
                        int64_t column, float *sum) {
  const attnpress_tensor *dq = &c->args.dq;
  (void)b;
  if (row >= rows->queries)
    return;
  const int64_t at = rows->q_begin + row;
  const float there =
      c->args.accumulate ? reference_load(dq, rows->q_batch, at, head, column) : 0.0f;
  reference_store(dq, rows->q_batch, at, head, column, *sum * c->scale + there);
}

/* The most blocks of a head that sequences have, as choose_backward.c finds them. */
static int64_t most_blocks(const call *c, const attnpress_tensor *t, int longest, int positions) {
  const int64_t each = (longest + positions - 1) / positions;
  const int64_t by_rows =
      (t->shape[0] * t->shape[1] + (int64_t)c->count * (positions - 1)) / positions;
  return by_rows < each * c->count ? by_rows : each * c->count;
}

static int64_t key_tiles(const call *c) {
  return most_blocks(c, &c->args.k, (int)c->ragged.max_seqlen_k, c->part_keys) * c->part_keys /
         TILE_ROWS;
}

static void add_part_sums(call *c) {
  const int64_t rows = c->group_parts * c->args.k.shape[2] * key_tiles(c) * TILE_ROWS;
  add_memory(c, DK_SUM, (size_t)(rows * c->args.k.shape[3]) * sizeof(float));
  add_memory(c, DV_SUM, (size_t)(rows * c->args.v.shape[3]) * sizeof(float));
}

/* A gradient of keys as bwd_convert makes it of parts. */
static void convert_parts(call *c, const attnpress_tensor *to, int sum_memory, float scale) {
  const int32_t *first_unit = (const int32_t *)(const void *)c->data[FIRST_UNIT];
  const attnpress_sequence_units *units =
      (const attnpress_sequence_units *)(const void *)c->data[ORDER];
  const float *sum = (const float *)(const void *)c->data[sum_memory];
  const int64_t heads = to->shape[2], columns = to->shape[3], tiles = key_tiles(c);
  for (int i = 0; i < c->count; ++i) {
    const sequence_rows rows = backward_sequence_rows_of(&c->args, units[i].sequence);
    const int64_t before = first_unit[i] / (heads * c->group_parts) * c->part_keys / TILE_ROWS;
    for (int64_t at = 0; at < heads * rows.keys * columns; ++at) {
      const int64_t head = at / columns / rows.keys, row = at / columns % rows.keys;
      const int64_t column = at % columns, key = rows.k_begin + row;
      float value = 0.0f;
      for (int64_t part = 0; part < c->group_parts; ++part) {
        const int64_t tile = (part * heads + head) * tiles + before;
        const float next = sum[sum_index(columns, tile, row, column)];
        value = part == 0 ? next : value + next;
      }
      const float there =
          c->args.accumulate ? reference_load(to, rows.k_batch, key, head, column) : 0.0f;
      reference_store(to, rows.k_batch, key, head, column, value * scale + there);
    }
  }
}

/* dQ as bwd_delta makes it where a sequence has no keys. */
static void clear_dq(call *c) {
  const attnpress_tensor *dq = &c->args.dq;
  for (int b = 0; b < c->count && !c->args.accumulate; ++b) {
    const sequence_rows rows = backward_sequence_rows_of(&c->args, b);
    for (int64_t i = 0; rows.keys == 0 && i < rows.queries * dq->shape[2] * dq->shape[3]; ++i)
      reference_store(dq, rows.q_batch, rows.q_begin + i / (dq->shape[2] * dq->shape[3]),
                      i / dq->shape[3] % dq->shape[2], i % dq->shape[3], 0.0f);
  }
}

/* ---- What a kernel may touch ----------------------------------------------------------------- */

/* As is_settled() of backward.c; what bwd_delta writes lies in the workspace. */
static int is_settled(const call *c, const emulated_tensor *t) {
  static const int workspace[] = {LSE_LOG2, DELTA, DQ_SUM, TAKEN, ZEROED};
  if (is_pass(c, AP_ATTENTION_PASS_BWD_CONVERT))
    return 0;
  if (is_pass(c, AP_ATTENTION_PASS_BWD_DKV))
    return 1;
  for (size_t i = 0; i < sizeof workspace / sizeof *workspace; ++i) {
    const int w = workspace[i];
    if (c->data[w] != NULL && (uintptr_t)t->data - (uintptr_t)c->data[w] < c->bytes[w])
      return 0;
  }
  return 1;
}

static void give(call *c, emulated_tensor tensor) {
  for (int i = 0; i < 4; ++i)
    if (tensor.shape[i] == 0)
      return;
  if (tensor.data == NULL)
    return;
  if (c->given_count == GIVEN_MAX)
    abort();
  tensor.settled = is_settled(c, &tensor);
  c->given[c->given_count++] = tensor;
}

static void give_whole(call *c, const char *name, int which) {
  const attnpress_tensor *t = tensor_of(c, which);
  emulated_tensor e = {.name = name, .data = t->data, .element_bytes = sizeof(uint16_t)};
  memcpy(e.shape, t->shape, sizeof e.shape);
  memcpy(e.stride, t->stride, sizeof e.stride);
  give(c, e);
}

static void give_rows(call *c, const char *name, int which, const sequence_rows *rows,
                      int writable) {
  const attnpress_tensor *t = tensor_of(c, which);
  const int keys = which == K || which == V || which == DK || which == DV;
  const int64_t batch = keys ? rows->k_batch : rows->q_batch;
  give(c,
       (emulated_tensor){.name = name,
                         .data = (uint16_t *)t->data + batch * t->stride[0] +
                                 (keys ? rows->k_begin : rows->q_begin) * t->stride[1],
                         .element_bytes = sizeof(uint16_t),
                         .writable = writable,
                         .shape = {1, keys ? rows->keys : rows->queries, t->shape[2], t->shape[3]},
                         .stride = {0, t->stride[1], t->stride[2], 1}});
}

/* lse or its gradient, of a sequence. */
static void give_values(call *c, const char *name, const float *data, int64_t first, int64_t row,
                        int64_t head, int64_t rows) {
  give(c, (emulated_tensor){.name = name,
                            .data = (float *)(uintptr_t)(data + first),
                            .element_bytes = sizeof(float),
                            .shape = {1, rows, c->args.q.shape[2], 1},
                            .stride = {0, row - first, head - first, 1}});
}

static void give_floats(call *c, const char *name, int which, int64_t first, int64_t count,
                        int writable) {
  give(c, (emulated_tensor){.name = name,
                            .data = (float *)(void *)c->data[which] + first,
                            .element_bytes = sizeof(float),
                            .writable = writable,
                            .shape = {1, 1, 1, count},
                            .stride = {0, 0, 0, 1}});
}

static void give_workspace(call *c, const sequence_rows *rows, int b) {
  const int is_delta = is_pass(c, AP_ATTENTION_PASS_BWD_DELTA) || c->is_later[b];
  const int sums = is_delta || is_pass(c, AP_ATTENTION_PASS_BWD);
  const int64_t hdim = c->args.q.shape[3];
  for (int64_t h = 0; h < c->args.q.shape[2]; ++h) {
    const int64_t count = padded(rows->queries, PADDED_ROWS);
    if (!is_pass(c, AP_ATTENTION_PASS_BWD_CONVERT)) {
      give_floats(c, "lse_log2 of a sequence", LSE_LOG2, values_at(c, rows, b, h), count, is_delta);
      give_floats(c, "delta of a sequence", DELTA, values_at(c, rows, b, h), count, is_delta);
    }
    const int passes = is_pass(c, AP_ATTENTION_PASS_BWD) && ap_can_chain(&c->kernel->variant) &&
                       !c->own_sums &&
                       rows->keys > c->kernel->tile.field[AP_ATTENTION_TILE_BLOCK_N];
    if ((passes || !is_direct(c, rows)) && (sums || is_pass(c, AP_ATTENTION_PASS_BWD_CONVERT)))
      give_floats(c, "dq_sum of a sequence", DQ_SUM,
                  tiles_at(c, rows, b, h) * (hdim / TILE_COLUMNS) * TILE_FLOATS,
                  padded(rows->queries, TILE_ROWS) * hdim, sums);
  }
}

static void give_array(call *c, const char *name, const int32_t *data, int64_t count) {
  give(c, (emulated_tensor){.name = name,
                            .data = (void *)(uintptr_t)data,
                            .element_bytes = sizeof(int32_t),
                            .shape = {1, 1, 1, count},
                            .stride = {0, 0, 0, 1}});
}

static void give_lengths(call *c) {
  give_array(c, "cu_seqlens_q", c->ragged.cu_seqlens_q, c->count + 1);
  give_array(c, "cu_seqlens_k", c->ragged.cu_seqlens_k, c->count + 1);
  give_array(c, "seqused_q", c->ragged.seqused_q, c->count);
  give_array(c, "seqused_k", c->ragged.seqused_k, c->count);
}

static void give_order(call *c, int writable) {
  give_floats(c, "first_unit", FIRST_UNIT, 0, c->count + 1, writable);
  give_floats(c, "the sequences' order", ORDER, 0, (int64_t)c->bytes[ORDER] / 4, writable);
}

static void give_all(call *c) {
  const attnpress_forward_args forward = ap_forward_of(&c->args);
  const int pass = pass_of(c->kernel), is_delta = pass == AP_ATTENTION_PASS_BWD_DELTA;
  const int of_bias = pass == AP_ATTENTION_PASS_BWD_DBIAS;
  const int main = owns_keys(c->kernel) || pass == AP_ATTENTION_PASS_BWD_DQ || of_bias;
  const int maps = is_sm90(c->kernel);
  c->given_count = 0;
  for (int i = 0; maps && i < 5; ++i)
    give_whole(c, (const char *[]){"q", "k", "v", "dout", "out"}[i],
               (int[]){Q, K, V, DOUT, OUT}[i]);
  if (pass == AP_ATTENTION_PASS_BWD_SINKS || of_bias)
    give_lengths(c); /* the others know them from the order */
  else
    give_order(c, 0);
  if (is_delta && c->zero_ahead > 0)
    give_lengths(c);
  for (int i = 0; i < SCORE_TENSORS; ++i)
    give(c, c->scores.tensors[i]);
  if (c->data[TAKEN] != NULL)
    give_floats(c, "taken", TAKEN, 0, 2, !is_pass(c, AP_ATTENTION_PASS_BWD_CONVERT));
  if (c->zero_ahead > 0)
    give_floats(c, "dq_zeroed", ZEROED, 0, c->count * c->args.k.shape[2] + 1, 1);
  for (int i = DK_SUM; i <= DV_SUM && c->group_parts > 1; ++i)
    give_floats(c, i == DK_SUM ? "dk_sum" : "dv_sum", i, 0, (int64_t)c->bytes[i] / 4,
                pass == AP_ATTENTION_PASS_BWD);
  if (c->own_sums)
    give_floats(c, "thread blocks' own sums", DQ_SUM, 0,
                c->sum_blocks * (c->args.q.shape[2] / c->args.k.shape[2]) * c->sum_tiles *
                    TILE_ROWS * c->args.q.shape[3],
                1);
  if (pass == AP_ATTENTION_PASS_BWD_SINKS)
    give_floats(c, "dsinks", DSINKS, 0, c->args.q.shape[2], 1);
  if (of_bias) {
    const attnpress_dbias *d = &c->dbias;
    emulated_tensor e = {.name = "dbias",
                         .data = d->data,
                         .element_bytes = d->dtype == ATTNPRESS_FP32 ? 4 : 2,
                         .writable = 1};
    memcpy(e.shape, d->shape, sizeof e.shape);
    memcpy(e.stride, d->stride, sizeof e.stride);
    give(c, e);
  }
  for (int b = 0; b < c->count; ++b) {
    const sequence_rows rows = backward_sequence_rows_of(&c->args, b);
    give_workspace(c, &rows, b);
    if (is_delta)
      give_rows(c, "out of a sequence", OUT, &rows, 0);
    if (is_delta || c->zero_ahead > 0) {
      give_values(c, "lse of a sequence", c->args.lse, sequence_lse_at(&forward, &rows, b, 0, 0),
                  sequence_lse_at(&forward, &rows, b, 0, 1),
                  sequence_lse_at(&forward, &rows, b, 1, 0), rows.queries);
      if (c->args.dlse != NULL)
        give_values(c, "dlse of a sequence", c->args.dlse, dlse_at(c, &rows, b, 0, 0),
                    dlse_at(c, &rows, b, 0, 1), dlse_at(c, &rows, b, 1, 0), rows.queries);
    }
    if (is_delta || (main && !maps))
      give_rows(c, "dout of a sequence", DOUT, &rows, 0);
    if (main && !maps) {
      give_rows(c, "q of a sequence", Q, &rows, 0);
      give_rows(c, "k of a sequence", K, &rows, 0);
      give_rows(c, "v of a sequence", V, &rows, 0);
    }
    const int of_parts = c->group_parts > 1;
    if (owns_keys(c->kernel) ? !of_parts : of_parts)
      give_rows(c, "dk of a sequence", DK, &rows, 1);
    if (owns_keys(c->kernel) && !of_parts)
      give_rows(c, "dv of a sequence", DV, &rows, 1);
    if (pass == AP_ATTENTION_PASS_BWD_DQ ||
        (pass == AP_ATTENTION_PASS_BWD_CONVERT && !of_parts && !is_direct(c, &rows)) ||
        (pass == AP_ATTENTION_PASS_BWD && is_direct(c, &rows) && rows.keys > 0) ||
        (is_delta && is_direct(c, &rows) && rows.keys == 0))
      give_rows(c, "dq of a sequence", DQ, &rows, 1);
  }
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void call_bwd(void (*function)(void), const void *args) {
  ((void (*)(attnpress_bwd_ragged_args))function)(*(const attnpress_bwd_ragged_args *)args);
}

static void call_bwd_mod(void (*function)(void), const void *args) {
  ((void (*)(attnpress_bwd_ragged_mod_args))function)(*(const attnpress_bwd_ragged_mod_args *)args);
}

static void call_dbias(void (*function)(void), const void *args) {
  ((void (*)(attnpress_bwd_dbias_ragged_args))function)(
      *(const attnpress_bwd_dbias_ragged_args *)args);
}

static void call_bwd_mod_grad(void (*function)(void), const void *args) {
  ((void (*)(attnpress_bwd_ragged_mod_grad_args))function)(
      *(const attnpress_bwd_ragged_mod_grad_args *)args);
}

static void call_bwd_sm90(void (*function)(void), const void *args) {
  ((void (*)(attnpress_bwd_sm90_ragged_args))function)(
      *(const attnpress_bwd_sm90_ragged_args *)args);
}

static void call_schedule(void (*function)(void), const void *args) {
  ((void (*)(attnpress_fwd_schedule_args))function)(*(const attnpress_fwd_schedule_args *)args);
}

static CUresult no_words(CUresult result, const char **words) {
  (void)words;
  return result;
}

/* The pointers that the kernel leaves alone are not there. */
static int fill_maps(const call *c, attnpress_bwd_sm90_ragged_args *args, char *report) {
  const ap_driver driver = {.tensor_map_encode_tiled = emulated_encode_tiled,
                            .get_error_name = no_words,
                            .get_error_string = no_words};
  ap_maps maps = {.driver = &driver};
  attnpress_bwd_args *bwd = &args->batch.bwd;
  bwd->q = bwd->k = bwd->v = bwd->dout = bwd->out = NULL;
  if (ap_backward_maps_encode(&maps, &c->args, &c->kernel->tile,
                              (ap_backward_maps){&args->q, &args->dout, &args->k, &args->v,
                                                 &args->out}) == ATTNPRESS_OK)
    return 0;
  snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
  return -1;
}

/* As runtime/attention/backward.c fills them. */
static attnpress_bwd_ragged_args bwd_args(const call *c) {
  const attnpress_backward_args *a = &c->args;
  const attnpress_forward_args forward = ap_forward_of(a);
  int64_t lse[3], dlse[3];
  int packed;
  ap_ragged_row_strides(&forward, a->dlse_stride, a->dlse_row_stride, dlse, &packed);
  attnpress_bwd_ragged_args args = {.ragged = ap_fill_gradient_ragged_args(&forward),
                                    .dlse_row_stride = dlse[2],
                                    .dlse_packed = packed,
                                    .direct_keys = c->direct_keys};
  ap_ragged_lse_strides(&forward, lse, &packed);
  args.bwd = (attnpress_bwd_args){
      .q = a->q.data,
      .k = a->k.data,
      .v = a->v.data,
      .out = a->out.data,
      .dout = a->dout.data,
      .dq = a->dq.data,
      .dk = a->dk.data,
      .dv = a->dv.data,
      .lse = a->lse,
      .dlse = a->dlse,
      .lse_log2 = (float *)(void *)c->data[LSE_LOG2],
      .delta = (float *)(void *)c->data[DELTA],
      .dq_sum = (float *)(void *)c->data[DQ_SUM],
      .taken = (uint32_t *)(void *)c->data[TAKEN],
      .zero_ahead = c->zero_ahead,
      .dq_zeroed = (uint32_t *)(void *)c->data[ZEROED],
      .lse_batch_stride = lse[0],
      .lse_head_stride = lse[1],
      .dlse_batch_stride = dlse[0],
      .dlse_head_stride = dlse[1],
      .batch = c->count,
      .heads_q = (int32_t)a->q.shape[2],
      .heads_kv = (int32_t)a->k.shape[2],
      .seqlen_q = (int32_t)ap_ragged_queries(&forward),
      .seqlen_k = (int32_t)ap_ragged_keys(&forward),
      .row_tiles = c->row_tiles,
      .sum_tiles = c->sum_tiles,
      .accumulate = a->accumulate,
      .dk_sum = (float *)(void *)c->data[DK_SUM],
      .dv_sum = (float *)(void *)c->data[DV_SUM],
      .group_parts = c->group_parts,
      .key_tiles = c->group_parts > 1 ? (int32_t)key_tiles(c) : 0,
      .own_sums = c->own_sums,
      .dq_sum_quads = (int32_t)(4 * a->q.shape[3]),
      .scale = c->scale,
      .scale_log2 = ap_scale_log2(&forward),
      .dsinks = a->dsinks,
  };
  ap_fill_score_args(&forward, &args.bwd.score);
  if (c->group_parts > 1 && is_pass(c, AP_ATTENTION_PASS_BWD_CONVERT)) {
    args.bwd.dq_sum = args.bwd.dk_sum;
    args.bwd.dq = a->dk.data;
    args.bwd.heads_q = args.bwd.heads_kv;
    args.bwd.sum_parts = c->group_parts;
    args.bwd.taken = NULL;
    args.bwd.blocks = c->part_keys;
  }
  const attnpress_tensor *tensors[] = {&a->q,    &a->k,  &a->v,  &a->out,
                                       &a->dout, &a->dq, &a->dk, &a->dv};
  for (int i = 0; i < 8; ++i)
    memcpy(&args.bwd.q_batch_stride + 3 * i, tensors[i]->stride, 3 * sizeof(int64_t));
  if (args.bwd.dq == a->dk.data)
    memcpy(&args.bwd.dq_batch_stride, a->dk.stride, 3 * sizeof(int64_t));
  return args;
}

static int launch_kernel(const call *c, const kernel *k, int64_t blocks, const void *args,
                         void (*typed_call)(void (*)(void), const void *), char *report) {
  const emulated_launch l = {.module = k->module,
                             .overlaps = backward_overlaps(k),
                             .blocks = (unsigned)blocks,
                             .threads = (unsigned)k->tile.threads,
                             .in_turn = c->in_turn,
                             .shared_bytes = (size_t)k->tile.smem_bytes,
                             .args = args,
                             .call = typed_call,
                             .tensors = c->given,
                             .tensor_count = c->given_count};
  char text[EMULATED_REPORT_BYTES];
  const int status = emulated_run(&l, text);
  if (status != 0)
    snprintf(report, EMULATED_REPORT_BYTES, "%.120s: %.7900s", k->stem, text);
  return status;
}

/* Puts the kernel's units in order; *blocks: of a grid that has room for them, as choose_backward.c
 * lays it out. */
static int run_schedule(call *c, attnpress_bwd_ragged_args *args, int64_t *blocks, char *report) {
  const kernel *k = c->kernel;
  const int is_delta = is_pass(c, AP_ATTENTION_PASS_BWD_DELTA);
  const int of_parts = c->group_parts > 1;
  const int keys = owns_keys(k) || (is_delta && c->zero_ahead > 0) || of_parts;
  const int positions = of_parts ? c->part_keys
                                 : k->tile.field[keys && !is_delta ? AP_ATTENTION_TILE_BLOCK_N
                                                                   : AP_ATTENTION_TILE_BLOCK_M];
  const attnpress_tensor *t = keys ? &c->args.k : &c->args.q;
  const int heads = (int)t->shape[2] * c->group_parts;
  attnpress_fwd_schedule_args order = {
      .ragged = args->ragged,
      .batch = c->count,
      .seqlen_q = args->bwd.seqlen_q,
      .order = {{
          .first_unit = add_memory(c, FIRST_UNIT, (size_t)(c->count + 1) * sizeof(int32_t)),
          .sequences = add_memory(c, ORDER, (size_t)c->count * sizeof(attnpress_sequence_units)),
          .by_keys = keys,
          .positions = positions,
          .whole =
              is_pass(c, AP_ATTENTION_PASS_BWD) && c->direct_keys > positions ? c->direct_keys : 0,
          .heads = heads,
          .sharing = keys ? 1 : heads / (int)c->args.k.shape[2],
          /* Of several heads, sequences that are not the shortest have sections of one each. */
          .walk_bytes = heads > 1 ? 1 << 20 : 1,
      }},
  };
  c->given_count = 0;
  give_lengths(c);
  give_order(c, 1);
  *blocks = heads * most_blocks(c, t, keys ? args->bwd.seqlen_k : args->bwd.seqlen_q, positions);
  if (of_parts && is_pass(c, AP_ATTENTION_PASS_BWD_CONVERT))
    *blocks = *blocks / c->group_parts * ((positions + SUM_ROWS - 1) / SUM_ROWS);
  args->first_unit = order.order[0].first_unit;
  args->sequences = order.order[0].sequences;
  return launch_kernel(c, c->schedule, ap_schedule_parts(c->count), &order, call_schedule, report);
}

/* As find_end_of_first() of gradient_share.cuh finds it. */
static int end_of_first(const call *c) {
  const int32_t *first_unit = (const int32_t *)(const void *)c->data[FIRST_UNIT];
  const attnpress_sequence_units *units =
      (const attnpress_sequence_units *)(const void *)c->data[ORDER];
  const int heads = (int)c->args.k.shape[2];
  int end = 0;
  for (int i = 0; i < c->count; ++i) {
    const int there = units[i].section_heads < heads ? units[i].section_heads : heads;
    if (first_unit[i + 1] > first_unit[i] &&
        (first_unit[i] < c->zero_ahead || (units[i].blocks - 1) * there > c->zero_ahead / 2))
      end = first_unit[i + 1];
  }
  return end;
}

/* The units up to the last whose sequence has a sum. */
static int end_of_sums(const call *c) {
  const int32_t *first_unit = (const int32_t *)(const void *)c->data[FIRST_UNIT];
  const attnpress_sequence_units *units =
      (const attnpress_sequence_units *)(const void *)c->data[ORDER];
  int end = 0;
  for (int i = 0; i < c->count; ++i)
    if (units[i].seqlen_k > c->direct_keys && first_unit[i + 1] > first_unit[i])
      end = first_unit[i + 1];
  return end;
}

/* What warps of bwd are to prepare becomes NaN: all that sequences have behind the first units'. */
static void spoil_later_sequences(call *c) {
  const int32_t *first_unit = (const int32_t *)(const void *)c->data[FIRST_UNIT];
  const attnpress_sequence_units *units =
      (const attnpress_sequence_units *)(const void *)c->data[ORDER];
  float *lse = (float *)(void *)c->data[LSE_LOG2], *delta = (float *)(void *)c->data[DELTA];
  float *sum = (float *)(void *)c->data[DQ_SUM];
  const int64_t hdim = c->args.q.shape[3];
  uint32_t *counters = (uint32_t *)(void *)c->data[ZEROED];
  memset(counters, 0, c->bytes[ZEROED]);
  counters[c->count * c->args.k.shape[2]] = (uint32_t)end_of_first(c);
  memset(c->is_later, 0, sizeof c->is_later);
  for (int i = 0; i < c->count; ++i) {
    const int b = units[i].sequence;
    const sequence_rows rows = backward_sequence_rows_of(&c->args, b);
    c->is_later[b] = first_unit[i + 1] > first_unit[i] && first_unit[i] >= end_of_first(c);
    for (int64_t h = 0; c->is_later[b] && h < c->args.q.shape[2]; ++h) {
      for (int64_t row = 0; row < padded(rows.queries, 64); ++row) {
        const int64_t at = values_at(c, &rows, b, h) + row;
        lse[at] = delta[at] = NAN;
      }
      float *const of_head = sum + tiles_at(c, &rows, b, h) * TILE_ROWS * hdim;
      for (int64_t at = 0; !is_direct(c, &rows) && at < padded(rows.queries, TILE_ROWS) * hdim;
           ++at)
        of_head[at] = NAN;
    }
  }
}

/* What is summed over is walked over by each block; the number of blocks. */
static int launch_dbias(call *c, char *report) {
  const kernel *k = c->kernel;
  const attnpress_dbias *d = &c->dbias;
  const attnpress_bwd_ragged_args batch = bwd_args(c);
  const int block_m = k->tile.field[AP_ATTENTION_TILE_BLOCK_M],
            block_n = k->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  attnpress_bwd_dbias_ragged_args args = {.dbias = {.bwd = batch.bwd},
                                          .ragged = batch.ragged,
                                          .rows = (int32_t)d->shape[2],
                                          .keys = (int32_t)d->shape[3]};
  attnpress_bwd_dbias_args *of = &args.dbias;
  const int32_t walked = (batch.bwd.seqlen_q + block_m - 1) / block_m;
  of->bwd.blocks = (args.keys + block_n - 1) / block_n;
  of->dbias = d->data;
  of->dbias_dtype = d->dtype;
  for (int i = 0; i < 4; ++i)
    (&of->dbias_batch_stride)[i] = d->shape[i] > 1 ? d->stride[i] : 0;
  of->sums_rows = d->shape[2] == 1;
  of->heads = (int32_t)d->shape[1];
  of->row_blocks = (args.rows + block_m - 1) / block_m;
  of->walk_batches = d->shape[0] == 1 ? c->count : 1;
  of->walk_heads = d->shape[1] == 1 ? (int32_t)c->args.q.shape[2] : 1;
  of->walk_row_blocks = of->sums_rows ? walked : 1;
  give_all(c);
  return launch_kernel(c, k, d->shape[0] * d->shape[1] * of->row_blocks * of->bwd.blocks, &args,
                       call_dbias, report);
}

static int launch(call *c, char *report) {
  const kernel *k = c->kernel;
  attnpress_bwd_ragged_args args = bwd_args(c);
  int64_t blocks = args.bwd.heads_q;
  if (pass_of(k) != AP_ATTENTION_PASS_BWD_SINKS && run_schedule(c, &args, &blocks, report) != 0)
    return -1;
  c->sum_blocks = blocks;
  if (ap_can_take(&k->variant) && c->data[TAKEN] != NULL && blocks > 0) {
    blocks = blocks < 2 ? blocks : 2;
    c->sum_blocks = c->in_turn ? blocks : 1; /* else the first takes all */
    memset(c->data[TAKEN], 0, sizeof(uint32_t));
    if (c->zero_ahead > 0)
      spoil_later_sequences(c);
  }
  if (c->data[TAKEN] != NULL && !ap_can_take(&k->variant))
    ((uint32_t *)(void *)c->data[TAKEN])[1] =
        is_pass(c, AP_ATTENTION_PASS_BWD_CONVERT) ? (uint32_t)end_of_sums(c) : 0;
  give_all(c);
  attnpress_bwd_sm90_ragged_args sm90 = {.batch = args};
  attnpress_bwd_ragged_mod_grad_args with_mod = {.batch = args};
  const attnpress_forward_args forward = ap_forward_of(&c->args);
  if (k->mod != NULL)
    ap_score_mod_fill(&forward, NULL, &with_mod.mod);
  if (c->args.dbuffers != NULL)
    ap_dbuffers_fill(&c->args, &with_mod.gradients);
  if (is_sm90(k) && fill_maps(c, &sm90, report) != 0)
    return -1;
  return is_sm90(k) ? launch_kernel(c, k, blocks, &sm90, call_bwd_sm90, report)
                    : launch_kernel(c, k, blocks, &with_mod,
                                    c->args.dbuffers != NULL ? call_bwd_mod_grad
                                    : k->mod != NULL         ? call_bwd_mod
                                                             : call_bwd,
                                    report);
}

/* ---- Verdicts -------------------------------------------------------------------------------- */

/* What a gradient of a sequence held before, where reference_check_backward_head() looks for it. */
static float *values_before(const attnpress_tensor *t, int64_t batch, int64_t begin, int64_t rows,
                            int b) {
  const int64_t count = rows * t->shape[2] * t->shape[3];
  float *before = malloc((size_t)((b + 1) * count + 1) * sizeof *before);
  if (before == NULL)
    abort();
  float *to = before + b * count;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t h = 0; h < t->shape[2]; ++h)
      for (int64_t i = 0; i < t->shape[3]; ++i)
        *to++ = reference_load(t, batch, begin + r, h, i);
  return before;
}

static void keep_before(const call *c, float *before[][REFERENCE_GRADIENTS]) {
  const attnpress_backward_args *a = &c->args;
  for (int b = 0; b < c->count && a->accumulate; ++b) {
    const sequence_rows rows = backward_sequence_rows_of(a, b);
    before[b][REFERENCE_DQ] = values_before(&a->dq, rows.q_batch, rows.q_begin, rows.queries, b);
    before[b][REFERENCE_DK] = values_before(&a->dk, rows.k_batch, rows.k_begin, rows.keys, b);
    before[b][REFERENCE_DV] = values_before(&a->dv, rows.k_batch, rows.k_begin, rows.keys, b);
  }
}

static int is_checked(const call *c, int gradient) {
  switch (pass_of(c->kernel)) {
  case AP_ATTENTION_PASS_BWD_DQ:
    return gradient == REFERENCE_DQ;
  case AP_ATTENTION_PASS_BWD_DKV:
    return gradient != REFERENCE_DQ;
  default:
    return 1;
  }
}

/* Every sequence against its own dense call; errors add up, as the criterion is of many elements. */
static int check_gradients(call *c, float *before[][REFERENCE_GRADIENTS], char *report) {
  reference_gradient errors[REFERENCE_GRADIENTS] = {0};
  for (int b = 0; b < c->count; ++b) {
    backward_sequence one;
    if (backward_sequence_open(&one, &c->args, b) != 0)
      abort();
    for (int64_t h = 0; h < c->args.k.shape[2]; ++h)
      if (reference_check_backward_head(&one.args,
                                        c->args.accumulate ? (const float *const *)before[b] : NULL,
                                        b, h, errors) != 0)
        abort();
    backward_sequence_close(&one);
  }
  for (int i = 0; i < REFERENCE_GRADIENTS; ++i) {
    const reference_gradient *e = &errors[i];
    if (!is_checked(c, i) || e->error <= reference_gradient_bound(e))
      continue;
    snprintf(report, EMULATED_REPORT_BYTES,
             "%s is off by %.3g, where %.3g is allowed: sequence %lld, row %lld, head %lld, column "
             "%lld is %.6g, expected %.6g",
             e->name, e->error, reference_gradient_bound(e), (long long)e->at[0],
             (long long)e->at[1], (long long)e->at[2], (long long)e->at[3], e->value, e->expected);
    return -1;
  }
  return 0;
}

static int check_dbuffers(const call *c, char *report) {
  reference_gradient e = {0};
  if (backward_sequences_check_dbuffers(&c->args, SCORES_GRADIENT_BEFORE, &e) != 0)
    abort();
  if (e.error <= reference_gradient_bound(&e))
    return 0;
  snprintf(report, EMULATED_REPORT_BYTES,
           "%s is off by %.3g, where %.3g is allowed: element %lld of %s is %.6g, expected %.6g",
           e.name, e.error, reference_gradient_bound(&e), (long long)e.at[1],
           c->args.score_mod->buffers[e.at[0]].name, e.value, e.expected);
  return -1;
}

static int run_main(call *c, char *report) {
  float *before[LENGTHS_MAX][REFERENCE_GRADIENTS] = {{NULL}};
  const int fused = is_pass(c, AP_ATTENTION_PASS_BWD);
  for_all_values(c, NULL);
  if (fused) {
    for_all_sums(c, clear_sum);
    clear_dq(c);
  }
  keep_before(c, before);
  int status = launch(c, report);
  if (status == 0 && fused)
    for_all_sums(c, convert_sum);
  if (status == 0 && c->group_parts > 1) {
    attnpress_score_args score;
    const attnpress_forward_args forward = ap_forward_of(&c->args);
    ap_fill_score_args(&forward, &score);
    convert_parts(c, &c->args.dk, DK_SUM, c->scale);
    convert_parts(c, &c->args.dv, DV_SUM, score.dropout_scale);
  }
  if (status == 0 && c->args.dbuffers != NULL)
    status = check_dbuffers(c, report);
  if (status == 0)
    status = check_gradients(c, before, report);
  for (int b = 0; b < c->count; ++b)
    for (int i = 0; i < REFERENCE_GRADIENTS; ++i)
      free(before[b][i]);
  return status;
}

/* Random sums, converted here and by the kernel: equal bits. */
static int run_convert(call *c, char *report) {
  const int of_parts = c->group_parts > 1, which = of_parts ? DK : DQ;
  const attnpress_tensor *t = tensor_of(c, which);
  const size_t bytes = c->bytes[which];
  unsigned char *start = malloc(bytes), *found = malloc(bytes);
  if (start == NULL || found == NULL)
    abort();
  for_all_sums(c, draw_sum);
  for (size_t i = 0; i < c->bytes[DK_SUM] / sizeof(float); ++i)
    draw_sum(c, 0, NULL, 0, (int64_t)i, 0, (float *)(void *)c->data[DK_SUM] + i);
  memcpy(start, t->data, bytes);
  int status = launch(c, report);
  memcpy(found, t->data, bytes);
  memcpy(t->data, start, bytes);
  if (of_parts)
    convert_parts(c, t, DK_SUM, c->scale);
  else
    for_all_sums(c, convert_sum);
  for (size_t i = 0; i < bytes && status == 0; ++i)
    if (found[i] != c->data[which][i]) {
      snprintf(report, EMULATED_REPORT_BYTES, "byte %zu of %s is %02x, expected %02x", i,
               of_parts ? "dk" : "dq", found[i], c->data[which][i]);
      status = -1;
    }
  free(start);
  free(found);
  return status;
}

static void find_set_sum(call *c, int b, const sequence_rows *rows, int64_t head, int64_t row,
                         int64_t column, float *sum) {
  (void)b, (void)rows, (void)head, (void)row, (void)column;
  c->given_count += !(*sum == 0.0f);
}

static int run_delta(call *c, char *report) {
  unsigned char *start = malloc(c->bytes[DQ]), *found = malloc(c->bytes[DQ]);
  if (start == NULL || found == NULL)
    abort();
  memcpy(start, c->data[DQ], c->bytes[DQ]);
  int status = launch(c, report);
  memcpy(found, c->data[DQ], c->bytes[DQ]);
  memcpy(c->data[DQ], start, c->bytes[DQ]);
  clear_dq(c);
  if (status == 0 && memcmp(found, c->data[DQ], c->bytes[DQ]) != 0) {
    snprintf(report, EMULATED_REPORT_BYTES, "dq of batch: not zeros of sequences without keys");
    status = -1;
  }
  free(start);
  free(found);
  if (status != 0 || for_all_values(c, report) != 0)
    return -1;
  const uint32_t *const taken = (const uint32_t *)(const void *)c->data[TAKEN];
  if (taken[0] != 0 || (c->zero_ahead == 0 && taken[1] != (uint32_t)end_of_sums(c))) {
    snprintf(report, EMULATED_REPORT_BYTES, "taken is %u, %u", taken[0], taken[1]);
    return -1;
  }
  c->given_count = 0;
  for_all_sums(c, find_set_sum);
  if (c->given_count == 0)
    return 0;
  snprintf(report, EMULATED_REPORT_BYTES, "a float of dq_sum is not 0: %d of them", c->given_count);
  return -1;
}

static int run_sinks(call *c, char *report) {
  reference_gradient e = {0};
  for_all_values(c, NULL);
  for (int64_t h = 0; h < c->args.q.shape[2] && c->args.accumulate; ++h)
    c->args.dsinks[h] = (float)h - 1.5f;
  if (launch(c, report) != 0)
    return -1;
  for (int64_t h = 0; h < c->args.q.shape[2]; ++h) {
    const double before = c->args.accumulate ? (double)h - 1.5 : 0.0;
    reference_dsink sum = {before, fabs(before)};
    for (int b = 0; b < c->count; ++b) {
      backward_sequence one;
      if (backward_sequence_open(&one, &c->args, b) != 0 ||
          reference_add_dsink(&one.args, b, h, &sum) != 0)
        abort();
      backward_sequence_close(&one);
    }
    reference_compare_dsink(&c->args, h, &sum, &e);
  }
  if (e.error <= reference_gradient_bound(&e))
    return 0;
  snprintf(report, EMULATED_REPORT_BYTES,
           "dsinks is off by %.3g, where %.3g is allowed: head %lld is %.6g, expected %.6g",
           e.error, reference_gradient_bound(&e), (long long)e.at[2], e.value, e.expected);
  return -1;
}

static int run_dbias(call *c, char *report) {
  reference_gradient e = {0};
  for_all_values(c, NULL);
  if (launch_dbias(c, report) != 0)
    return -1;
  for (int64_t b = 0; b < c->dbias.shape[0]; ++b)
    for (int64_t h = 0; h < c->dbias.shape[1]; ++h)
      if (backward_sequences_check_dbias(&c->args, b, h, c->dbias_before, &e) != 0)
        abort();
  if (e.error <= reference_gradient_bound(&e))
    return 0;
  snprintf(report, EMULATED_REPORT_BYTES,
           "dbias is off by %.3g, where %.3g is allowed: %lld x %lld x %lld x %lld, batch %lld, "
           "head %lld, row %lld, key %lld is %.6g, expected %.6g",
           e.error, reference_gradient_bound(&e), (long long)c->dbias.shape[0],
           (long long)c->dbias.shape[1], (long long)c->dbias.shape[2], (long long)c->dbias.shape[3],
           (long long)e.at[0], (long long)e.at[2], (long long)e.at[1], (long long)e.at[3], e.value,
           e.expected);
  return -1;
}

/* ---- The table ------------------------------------------------------------------------------- */

static void open_scores(call *c, const score_shape *shape, uint64_t seed) {
  attnpress_backward_args *a = &c->args;
  score_shape with_sinks = *shape;
  const int sums_sinks = is_pass(c, AP_ATTENTION_PASS_BWD_SINKS);
  if (sums_sinks && shape->sinks == 0)
    with_sinks.sinks = ATTNPRESS_FP32;
  attnpress_forward_args forward = ap_forward_of(a);
  forward.q.shape[0] = c->count; /* slopes are those of the sequences' batch */
  scores_open(&c->scores, &c->kernel->variant, &with_sinks, c->kernel->mod, &forward, seed);
  a->score_mod = forward.score_mod;
  if (c->kernel->variant.axis[AP_ATTENTION_MOD_GRAD])
    a->dbuffers = scores_add_gradients(&c->scores);
  a->window = forward.window;
  a->alibi = forward.alibi;
  a->bias = forward.bias;
  a->sinks = forward.sinks;
  a->dropout = forward.dropout;
  a->softcap = forward.softcap;
  if (sums_sinks)
    a->dsinks = add_memory(c, DSINKS, (size_t)a->q.shape[2] * sizeof(float));
}

/* What bwd is told are its own keys; the kernels around it are told of any, and of the pair. */
static int direct_keys(const kernel *k, int batch) {
  static const int others[] = {16, 31, 0};
  static const int blocks[] = {2, 1, 3, 64};
  const int fused = pass_of(k) == AP_ATTENTION_PASS_BWD;
  return fused ? k->tile.field[AP_ATTENTION_TILE_BLOCK_N] *
                     (ap_can_chain(&k->variant) ? blocks[batch % COUNT(blocks)] : 1)
         : pass_of(k) == AP_ATTENTION_PASS_BWD_DQ || pass_of(k) == AP_ATTENTION_PASS_BWD_DKV
             ? 0
             : others[batch % COUNT(others)];
}

static void call_open(call *c, const kernel *k, const kernel *schedule, const batch_row *row,
                      const int *queries, const int *keys, const score_shape *scores,
                      uint64_t seed) {
  int64_t batch, rows;
  memset(c, 0, sizeof *c);
  c->kernel = k;
  c->schedule = schedule;
  c->count = row->count;
  attnpress_backward_args *a = &c->args;
  *a = (attnpress_backward_args)ATTNPRESS_BACKWARD_ARGS_INIT;
  a->mask = k->variant.axis[AP_ATTENTION_MASK];
  a->accumulate = row->accumulate;
  c->ragged = (attnpress_ragged)ATTNPRESS_RAGGED_INIT;
  c->ragged.batch = row->count;
  c->ragged.max_seqlen_q = longest(queries, row->count) + (row->count % 2 ? 19 : 0);
  c->ragged.max_seqlen_k = longest(keys, row->count) + (row->count % 2 ? 0 : 70);
  c->ragged.lse_log2 = row->log2;
  c->ragged.lse_empty_pos_inf = row->pos_inf;
  a->ragged = &c->ragged;
  add_side(c, row, queries, row->queries_packed, CU_Q, USED_Q, &batch, &rows);
  for (int i = 0; i < 4; ++i)
    add_tensor(c, (int[]){Q, OUT, DOUT, DQ}[i], batch, rows, row->heads_kv * row->group);
  const int64_t all = batch * rows;
  add_side(c, row, keys, row->keys_packed, CU_K, USED_K, &batch, &rows);
  for (int i = 0; i < 4; ++i)
    add_tensor(c, (int[]){K, V, DK, DV}[i], batch, rows, row->heads_kv);
  c->ragged.cu_seqlens_q = (int32_t *)(void *)c->data[CU_Q];
  c->ragged.cu_seqlens_k = (int32_t *)(void *)c->data[CU_K];
  c->ragged.seqused_q = (int32_t *)(void *)c->data[USED_Q];
  c->ragged.seqused_k = (int32_t *)(void *)c->data[USED_K];
  if (row->wrong)
    spoil(c);
  a->lse = add_values(c, LSE, row->values, a->lse_stride, &c->ragged.lse_row_stride);
  if (row->with_dlse)
    a->dlse = add_values(c, DLSE, (row->values + 1) % 3, a->dlse_stride, &a->dlse_row_stride);
  c->direct_keys = direct_keys(k, (int)(seed / 1000));
  c->scale = (float)(1.0 / sqrt((double)a->q.shape[3]));
  c->row_tiles = ((int)all / PADDED_ROWS + c->count) * (PADDED_ROWS / TILE_ROWS);
  c->sum_tiles = (int)all / TILE_ROWS + c->count;
  c->own_sums = c->direct_keys >= (int)c->ragged.max_seqlen_k && ap_can_chain(&k->variant);
  if (c->own_sums)
    c->sum_tiles = (int)padded(c->ragged.max_seqlen_q, TILE_ROWS) / TILE_ROWS;
  const size_t heads = (size_t)a->q.shape[2], values = heads * (size_t)c->row_tiles * TILE_ROWS;
  const uint64_t turn = seed / 1000;
  c->in_turn = ap_can_chain(&k->variant) &&
               (hash_of_name(k->stem) + turn + turn / 4) % 2 == 0; /* with any direct_keys */
  add_memory(c, LSE_LOG2, values * sizeof(float));
  add_memory(c, DELTA, values * sizeof(float));
  add_memory(c, DQ_SUM,
             (size_t)(c->own_sums ? c->count + 1 : 1) * heads * (size_t)c->sum_tiles * TILE_ROWS *
                 (size_t)a->q.shape[3] * sizeof(float));
  /* Thread blocks have a key block each, or take them, and then their warps may prepare others. */
  const int number = (int)(seed / 1000), is_delta = pass_of(k) == AP_ATTENTION_PASS_BWD_DELTA;
  const int prepares = ap_can_take(&k->variant) && a->q.shape[3] <= 64;
  if (is_delta || (pass_of(k) == AP_ATTENTION_PASS_BWD_CONVERT && number % 3 != 0) ||
      (prepares && number % 3 != 0) ||
      (!prepares && ap_can_take(&k->variant) && (hash_of_name(k->stem) + seed / 1000) % 3 != 0))
    add_memory(c, TAKEN, 2 * sizeof(uint32_t));
  if ((prepares && c->data[TAKEN] != NULL && number != 1) ||
      (is_delta && a->q.shape[3] <= 64 && number % 4 != 0)) {
    c->zero_ahead = is_delta ? 1 << 20 : row->count < 4 ? 2 : 4;
    add_memory(c, ZEROED, ((size_t)c->count * (size_t)a->k.shape[2] + 1) * sizeof(uint32_t));
  }
  /* Thread blocks share groups, or bwd_convert adds up what such have left. */
  c->group_parts = 1;
  c->part_keys = k->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  if (pass_of(k) == AP_ATTENTION_PASS_BWD && is_sm90(k) && !ap_can_chain(&k->variant) &&
      c->zero_ahead == 0)
    c->group_parts += (int)((hash_of_name(k->stem) + turn) % (unsigned)row->group);
  if (pass_of(k) == AP_ATTENTION_PASS_BWD_CONVERT && number % 2 == 1) {
    c->group_parts = 2 + number / 2 % 3;
    c->part_keys = (const int[]){64, 80, 128}[number % 3];
  }
  if (c->group_parts > 1)
    add_part_sums(c);
  open_scores(c, scores, seed + 7);
  if (pass_of(k) == AP_ATTENTION_PASS_BWD_DBIAS)
    add_dbias(c, hash_of_name(k->stem) + (unsigned)(seed / 1000));
  fill(c, seed);
}

static void call_close(call *c) {
  scores_close(&c->scores);
  for (int i = 0; i < MEMORIES; ++i)
    memory_unmap(&c->memory[i]);
  free(c->dbias_before);
}

static int run_batch(const kernel *k, const kernel *schedule, const batch_row *row,
                     const int *queries, const int *keys, const score_shape *scores, uint64_t seed,
                     char *report) {
  static call c;
  ap_problem problem;
  const ap_check how = {ATTNPRESS_CUDA, 1, ATTNPRESS_ONE_CALL};
  int status = -1;
  call_open(&c, k, schedule, row, queries, keys, scores, seed);
  if (ap_validate_backward(&c.args, how, &problem) != ATTNPRESS_OK)
    snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
  else if (pass_of(k) == AP_ATTENTION_PASS_BWD_DELTA)
    status = run_delta(&c, report);
  else if (pass_of(k) == AP_ATTENTION_PASS_BWD_CONVERT)
    status = run_convert(&c, report);
  else if (pass_of(k) == AP_ATTENTION_PASS_BWD_SINKS)
    status = run_sinks(&c, report);
  else if (pass_of(k) == AP_ATTENTION_PASS_BWD_DBIAS)
    status = run_dbias(&c, report);
  else
    status = run_main(&c, report);
  call_close(&c);
  return status;
}

int run_ragged_backward_batch(const kernel *k, const ragged_run *r, const score_shape *scores,
                              uint64_t seed, char *report) {
  const batch_row row = {.count = r->count,
                         .queries_packed = 1,
                         .keys_packed = 1,
                         .heads_kv = r->heads_kv,
                         .group = r->group};
  int queries[LENGTHS_MAX];
  kernel schedule = {0};
  for (int b = 0; b < r->count; ++b)
    queries[b] = r->seqlen_q > 0 ? r->seqlen_q : r->keys[b];
  int status = kernel_find(&schedule, SCHEDULE_STEM, report);
  if (status == 0)
    status = run_batch(k, &schedule, &row, queries, r->keys, scores, seed, report);
  kernel_close(&schedule);
  return status;
}

int run_ragged_backward_shapes(const kernel *k, const score_shape *scores, FILE *out, int *shapes) {
  static char report[EMULATED_REPORT_BYTES];
  const int main = owns_keys(k) || pass_of(k) == AP_ATTENTION_PASS_BWD_DQ ||
                   pass_of(k) == AP_ATTENTION_PASS_BWD_DBIAS;
  kernel schedule = {0};
  int failed = kernel_find(&schedule, SCHEDULE_STEM, report) != 0;
  if (failed)
    fprintf(out, "FAILED %s\n  %s\n", k->stem, report);
  for (int i = 0; i < COUNT(batch_rows) && !failed; ++i, ++*shapes) {
    const batch_row *row = &batch_rows[i];
    int queries[LENGTHS_MAX], keys[LENGTHS_MAX];
    for (int b = 0; b < row->count; ++b) {
      const extent *q = &row->q[b % EXTENTS], *of_k = &row->k[b % EXTENTS];
      queries[b] = q->tiles * k->tile.field[AP_ATTENTION_TILE_BLOCK_M] + q->more;
      keys[b] = of_k->tiles * (main ? k->tile.field[AP_ATTENTION_TILE_BLOCK_N] : 16) + of_k->more;
    }
    failed = run_batch(k, &schedule, row, queries, keys, &scores[i], 1000u * (unsigned)i, report);
    if (failed)
      fprintf(out, "FAILED %s\n  ragged batch %d\n  %s\n", k->stem, i, report);
  }
  kernel_close(&schedule);
  return failed != 0;
}
