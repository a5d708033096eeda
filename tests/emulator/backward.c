/* Runs backward kernels under the emulator. */
#include "backward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/reference_backward.h"
#include "attention/attention.h"
#include "attention/defaults.h"
#include "attention/score_args.h"
#include "attention/score_mod.h"
#include "attnpress/args/attention.h"
#include "cpu/element.h"
#include "family.h"
#include "memory.h"
#include "ragged_backward.h"

#define COUNT(array) ((sizeof(array) / sizeof *(array)))

enum {
  Q,
  K,
  V,
  OUT,
  DOUT,
  DQ,
  DK,
  DV,
  LSE,
  DLSE,
  LSE_LOG2,
  DELTA,
  DQ_SUM,
  DQ_ZEROED,
  TAKEN,
  DK_SUM,
  DV_SUM,
  DSINKS,
  DBIAS,
  TENSORS
};
enum { FAR_ROWS_MAX = 250 };
enum { TILE_ROWS = 16, TILE_COLUMNS = 8, TILE_FLOATS = 128, PADDED_ROWS = 128 };

static int pass_of(const kernel *k) {
  return k->variant.axis[AP_ATTENTION_PASS];
}

int is_backward(const kernel *k) {
  switch (pass_of(k)) {
  case AP_ATTENTION_PASS_BWD:
  case AP_ATTENTION_PASS_BWD_DKV:
  case AP_ATTENTION_PASS_BWD_DQ:
  case AP_ATTENTION_PASS_BWD_DELTA:
  case AP_ATTENTION_PASS_BWD_CONVERT:
  case AP_ATTENTION_PASS_BWD_SINKS:
  case AP_ATTENTION_PASS_BWD_DBIAS:
    return 1;
  default:
    return 0;
  }
}

int backward_overlaps(const kernel *k) {
  return k->overlaps && pass_of(k) != AP_ATTENTION_PASS_BWD_DELTA;
}

static int owns_keys(const kernel *k) {
  return pass_of(k) == AP_ATTENTION_PASS_BWD || pass_of(k) == AP_ATTENTION_PASS_BWD_DKV;
}

/* ---- A call ---------------------------------------------------------------------------------- */

typedef struct call {
  shape s;
  int heads, accumulate;
  int64_t row_tiles, rows;     /* of lse_log2 and delta: batch * heads * padded rows */
  int64_t sum_tiles, sum_rows; /* the same of dq_sum */
  int group_parts;             /* as in attnpress_bwd_args, */
  int zero_ahead;              /* as there, */
  int sum_parts, abreast;      /* as there */
  int by_steps, whole_keys;    /* parts of equal steps, and keys of blocks that have none */
  int64_t key_tiles;
  float scale;
  memory memory[TENSORS];
  emulated_tensor tensors[TENSORS];
  attnpress_backward_args args; /* for the reference */
  scores scores;
  float *before[REFERENCE_GRADIENTS];
  attnpress_dbias dbias;
  float *dbias_before; /* contiguous */
} call;

static void add_tensor(call *c, const kernel *k, int which, attnpress_tensor *t, const char *name,
                       int seqlen, int heads, int hdim) {
  *t = (attnpress_tensor){.shape = {c->s.batch, seqlen, heads, hdim},
                          .dtype = k->variant.axis[AP_ATTENTION_DTYPE]};
  layout_strides(t, c->s.layout);
  t->data = memory_map(&c->memory[which], (size_t)reference_span(t) * sizeof(uint16_t));
  emulated_tensor *e = &c->tensors[which];
  *e = (emulated_tensor){
      .name = name, .data = t->data, .element_bytes = sizeof(uint16_t), .writable = which >= DQ};
  memcpy(e->shape, t->shape, sizeof e->shape);
  memcpy(e->stride, t->stride, sizeof e->stride);
  poison_tensor(e);
}

/* lse and its gradient: (batch, heads, seqlen_q). */
static float *add_rows(call *c, int which, const char *name, int64_t stride[2]) {
  const int64_t gap = c->s.layout == LAYOUT_GAPS ? which : 0;
  stride[1] = c->s.seqlen_q + gap;
  stride[0] = c->heads * stride[1] + gap;
  float *data = memory_map(&c->memory[which], (size_t)(c->s.batch * stride[0]) * sizeof(float));
  c->tensors[which] = (emulated_tensor){.name = name,
                                        .data = data,
                                        .element_bytes = sizeof(float),
                                        .shape = {c->s.batch, 1, c->heads, c->s.seqlen_q},
                                        .stride = {stride[0], 0, stride[1], 1}};
  poison_tensor(&c->tensors[which]);
  return data;
}

/* A part of the workspace. */
static float *add_floats(call *c, int which, const char *name, int64_t count, int writable) {
  float *data = memory_map(&c->memory[which], (size_t)count * sizeof(float));
  c->tensors[which] = (emulated_tensor){.name = name,
                                        .data = data,
                                        .element_bytes = sizeof(float),
                                        .writable = writable,
                                        .shape = {1, 1, 1, count},
                                        .stride = {0, 0, 0, 1}};
  poison_tensor(&c->tensors[which]);
  return data;
}

/* Of query heads that thread blocks of bwd have, each with its own keys. */
static int units_of(const call *c) {
  return c->s.batch * c->s.heads_kv * c->group_parts;
}

/* Of a source, whose tile is not known in full. */
static int can_pass_on(const kernel *k) {
  return strstr(k->source, "gradient_pass.cuh") != NULL;
}

/* Whether every row is seen by the keys of two thread blocks at most, which pass dq on. */
static int may_pass_on(const kernel *k, const call *c) {
  const attnpress_forward_args forward = ap_forward_of(&c->args);
  const ap_mask mask = ap_mask_of(&forward);
  return can_pass_on(k) && ap_seen_by_two(&mask, k->tile.field[AP_ATTENTION_TILE_BLOCK_M],
                                          k->tile.field[AP_ATTENTION_TILE_BLOCK_N]);
}

/* Numbers of dq_zeroed. */
static int64_t counters_of(const call *c) {
  return c->zero_ahead > 0 ? units_of(c) : c->zero_ahead < 0 ? c->rows / TILE_ROWS : 0;
}

/* Floats of dq_sum that bwd_delta zeroes: those of the first units' heads. */
static int64_t zeroed_before(const call *c) {
  const int64_t all = c->sum_rows * c->args.q.shape[3];
  if (c->zero_ahead < 0)
    return 0;
  if (c->zero_ahead == 0)
    return all;
  const int unit = c->zero_ahead, group = c->s.group;
  const int64_t heads =
      unit / c->group_parts * group + unit % c->group_parts * group / c->group_parts;
  return all / (c->s.batch * c->heads) * heads;
}

/* Fills a gradient and keeps its values. */
static float *fill_before(const attnpress_tensor *t, uint64_t seed) {
  const int64_t count = t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3];
  float *before = malloc((size_t)(count + 1) * sizeof *before), *to = before;
  if (before == NULL)
    abort();
  reference_fill_normal(t, seed);
  for (int64_t b = 0; b < t->shape[0]; ++b)
    for (int64_t r = 0; r < t->shape[1]; ++r)
      for (int64_t h = 0; h < t->shape[2]; ++h)
        for (int64_t i = 0; i < t->shape[3]; ++i)
          *to++ = reference_load(t, b, r, h, i);
  return before;
}

/* What the kernel's name says is done to scores, and sinks; a kernel for the gradient by sinks has
 * some. */
static void add_scores(call *c, const kernel *k, const score_shape *s, uint64_t seed) {
  attnpress_backward_args *a = &c->args;
  attnpress_forward_args forward = ap_forward_of(a);
  score_shape with_sinks = *s;
  const int sums_sinks = pass_of(k) == AP_ATTENTION_PASS_BWD_SINKS;
  if (sums_sinks && s->sinks == 0)
    with_sinks.sinks = ATTNPRESS_FP32;
  scores_open(&c->scores, &k->variant, &with_sinks, k->mod, &forward, seed);
  a->window = forward.window;
  a->alibi = forward.alibi;
  a->bias = forward.bias;
  a->sinks = forward.sinks;
  a->dropout = forward.dropout;
  a->softcap = forward.softcap;
  a->score_mod = forward.score_mod;
  if (k->variant.axis[AP_ATTENTION_MOD_GRAD])
    a->dbuffers = scores_add_gradients(&c->scores);
  if (sums_sinks) {
    a->dsinks = add_floats(c, DSINKS, "dsinks", c->heads, 1);
    for (int h = 0; h < c->heads && c->accumulate; ++h)
      a->dsinks[h] = (float)h - 1.5f;
  }
}

/* The gradient by the bias: what it has one of, its dtype and its layout take turns. */
static void add_dbias(call *c, unsigned turn, uint64_t seed) {
  const shape *s = &c->s;
  attnpress_dbias *d = &c->dbias;
  *d = (attnpress_dbias)ATTNPRESS_DBIAS_INIT;
  const int64_t extents[4] = {s->batch, c->heads, s->seqlen_q, s->seqlen_k};
  for (int i = 0; i < 4; ++i)
    d->shape[i] = i < 3 && turn >> i & 1 ? 1 : extents[i];
  d->dtype = 1 + (int32_t)(turn / 8 % 3);
  int64_t span = 1 + (int64_t)(turn / 2 % 2); /* keys side by side, or not */
  for (int i = 3; i >= 0; --i) {
    d->stride[i] = span;
    span = d->stride[i] * (d->shape[i] > 0 ? d->shape[i] : 1) + (int64_t)(turn % 3);
  }
  const int bytes = d->dtype == ATTNPRESS_FP32 ? 4 : 2;
  d->data = memory_map(&c->memory[DBIAS], (size_t)(span * bytes));
  emulated_tensor *e = &c->tensors[DBIAS];
  *e = (emulated_tensor){.name = "dbias", .data = d->data, .element_bytes = bytes, .writable = 1};
  memcpy(e->shape, d->shape, sizeof e->shape);
  memcpy(e->stride, d->stride, sizeof e->stride);
  poison_tensor(e);
  c->args.dbias = d;
  if (!c->accumulate)
    return;
  const int64_t count = d->shape[0] * d->shape[1] * d->shape[2] * d->shape[3];
  c->dbias_before = malloc((size_t)(count + 1) * sizeof *c->dbias_before);
  if (c->dbias_before == NULL)
    abort();
  for (int64_t i = 0, at = 0; i < count; ++i, at = 0) {
    int64_t rest = i;
    for (int n = 3; n >= 0; rest /= d->shape[n--])
      at += rest % d->shape[n] * d->stride[n];
    ap_store_element(d->data, at, (float)((int)((i + (int64_t)seed) % 17) - 8) * 0.125f, d->dtype);
    c->dbias_before[i] = ap_load_element(d->data, at, d->dtype);
  }
}

/* The walks of key blocks are shared by query heads, or by steps behind whole ones. */
static void add_parts(call *c, const kernel *k, unsigned turn) {
  const int keys = k->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  const int blocks = (c->s.seqlen_k + keys - 1) / keys;
  c->group_parts += (int)(turn % (unsigned)c->s.group);
  if (turn % 2 == 0 || blocks == 0 ||
      k->variant.axis[AP_ATTENTION_MASK] == AP_ATTENTION_MASK_WINDOW)
    return;
  c->by_steps = 1;
  c->group_parts = 2 + (int)(turn / 2 % 4);
  c->whole_keys = keys * (int)(turn / 8 % (unsigned)blocks);
}

static int call_open(call *c, const kernel *k, const shape *s, int with_dlse, int accumulate,
                     uint64_t seed) {
  const int hdim = k->variant.axis[AP_ATTENTION_HDIM],
            hdim_v = k->variant.axis[AP_ATTENTION_HDIM_V];
  *c = (call){.s = *s, .heads = s->heads_kv * s->group, .accumulate = accumulate};
  attnpress_backward_args *a = &c->args;
  *a = (attnpress_backward_args)ATTNPRESS_BACKWARD_ARGS_INIT;
  a->mask = k->variant.axis[AP_ATTENTION_MASK];
  a->scale = s->scale;
  c->scale = s->scale != 0.0f ? s->scale : (float)(1.0 / sqrt((double)hdim));
  add_tensor(c, k, Q, &a->q, "q", s->seqlen_q, c->heads, hdim);
  add_tensor(c, k, K, &a->k, "k", s->seqlen_k, s->heads_kv, hdim);
  add_tensor(c, k, V, &a->v, "v", s->seqlen_k, s->heads_kv, hdim_v);
  add_tensor(c, k, OUT, &a->out, "out", s->seqlen_q, c->heads, hdim_v);
  add_tensor(c, k, DOUT, &a->dout, "dout", s->seqlen_q, c->heads, hdim_v);
  add_tensor(c, k, DQ, &a->dq, "dq", s->seqlen_q, c->heads, hdim);
  add_tensor(c, k, DK, &a->dk, "dk", s->seqlen_k, s->heads_kv, hdim);
  add_tensor(c, k, DV, &a->dv, "dv", s->seqlen_k, s->heads_kv, hdim_v);
  a->lse = add_rows(c, LSE, "lse", a->lse_stride);
  add_scores(c, k, &s->scores, seed + 20);
  const attnpress_tensor *inputs[] = {&a->q, &a->k, &a->v, &a->dout};
  for (int i = 0; i < 4; ++i)
    reference_fill_normal(inputs[i], seed + (uint64_t)i);
  const attnpress_tensor *outputs[] = {&a->dq, &a->dk, &a->dv};
  for (int i = 0; i < REFERENCE_GRADIENTS && accumulate; ++i)
    c->before[i] = fill_before(outputs[i], seed + 10 + (uint64_t)i);
  if (with_dlse) {
    float *dlse = add_rows(c, DLSE, "dlse", a->dlse_stride);
    for (int64_t i = 0; i < s->batch * a->dlse_stride[0]; ++i)
      dlse[i] = (float)((int)(i * 7 % 11) - 5) * 0.125f;
    a->dlse = dlse;
  }
  if (pass_of(k) == AP_ATTENTION_PASS_BWD_DBIAS)
    add_dbias(c, hash_of_name(k->stem) + (unsigned)(seed / 1000), seed);
  c->row_tiles = (s->seqlen_q + PADDED_ROWS - 1) / PADDED_ROWS * (PADDED_ROWS / TILE_ROWS);
  c->rows = (int64_t)s->batch * c->heads * c->row_tiles * TILE_ROWS;
  c->sum_tiles = (s->seqlen_q + TILE_ROWS - 1) / TILE_ROWS;
  c->sum_rows = (int64_t)s->batch * c->heads * c->sum_tiles * TILE_ROWS;
  const int delta = pass_of(k) == AP_ATTENTION_PASS_BWD_DELTA;
  c->sum_parts = 1;
  if (pass_of(k) == AP_ATTENTION_PASS_BWD_CONVERT)
    c->sum_parts += (int)((hash_of_name(k->stem) + seed / 1000) % 3);
  add_floats(c, LSE_LOG2, "lse_log2", c->rows, delta);
  add_floats(c, DELTA, "delta", c->rows, delta);
  if (pass_of(k) != AP_ATTENTION_PASS_BWD_DKV && pass_of(k) != AP_ATTENTION_PASS_BWD_DQ &&
      pass_of(k) != AP_ATTENTION_PASS_BWD_SINKS && pass_of(k) != AP_ATTENTION_PASS_BWD_DBIAS)
    add_floats(c, DQ_SUM, "dq_sum", c->sum_rows * hdim * c->sum_parts,
               pass_of(k) != AP_ATTENTION_PASS_BWD_CONVERT);
  c->group_parts = 1;
  if (pass_of(k) == AP_ATTENTION_PASS_BWD && k->variant.axis[AP_ATTENTION_ARCH] == 90 &&
      !ap_keeps_rows(&k->variant))
    add_parts(c, k, hash_of_name(k->stem) + (unsigned)(seed / 1000));
  c->key_tiles =
      (s->seqlen_k - c->whole_keys + PADDED_ROWS - 1) / PADDED_ROWS * (PADDED_ROWS / TILE_ROWS);
  if (c->group_parts > 1) {
    const int64_t keys =
        (int64_t)c->group_parts * s->batch * s->heads_kv * c->key_tiles * TILE_ROWS;
    add_floats(c, DK_SUM, "dk_sum", keys * hdim, 1);
    add_floats(c, DV_SUM, "dv_sum", keys * hdim_v, 1);
  }
  /* bwd_delta meets parts of groups as well. */
  const unsigned turn = hash_of_name(k->stem) % 1000 + (unsigned)(seed / 1000);
  if (delta && turn % 2 == 0)
    c->group_parts = s->group;
  const int units = units_of(c);
  if ((delta || ap_can_zero_ahead(&k->variant)) && !c->by_steps && units > 1 && s->seqlen_k > 0 &&
      c->rows > 0 && turn % 5 != 0)
    c->zero_ahead = 1 + (int)(turn / 2 % (unsigned)((units < 5 ? units : 5) - 1));
  const int marks = k->variant.axis[AP_ATTENTION_HDIM] < AP_PASS_COLUMNS; /* of the output */
  if (c->rows > 0 && (delta ? marks && turn % 10 == 0 : may_pass_on(k, c)))
    c->zero_ahead = -1;
  if (c->zero_ahead != 0)
    add_floats(c, DQ_ZEROED, "dq_zeroed", counters_of(c), 1);
  /* Thread blocks have a key block each, or take them: as they run one after the other here, the first
   * has all. */
  if (ap_can_take(&k->variant) && turn % 3 != 0)
    add_floats(c, TAKEN, "taken", 1, 1);
  if (delta)
    add_floats(c, TAKEN, "taken", 1, 1);
  /* Heads take turns: of blocks of keys no more than are zeroed ahead. */
  const int heads = pass_of(k) == AP_ATTENTION_PASS_BWD_DQ ? s->batch * c->heads : units;
  const int most = c->zero_ahead > 0 ? c->zero_ahead : heads;
  c->abreast = 1;
  if (k->variant.axis[AP_ATTENTION_MASK] == AP_ATTENTION_MASK_CAUSAL && most > 1)
    c->abreast += (int)(turn / 3 % (unsigned)(most < 7 ? most : 7));
  if (c->by_steps)
    c->abreast = -c->whole_keys / k->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  return reference_fill_forward(a);
}

static void call_close(call *c) {
  for (int i = 0; i < TENSORS; ++i)
    memory_unmap(&c->memory[i]);
  scores_close(&c->scores);
  for (int i = 0; i < REFERENCE_GRADIENTS; ++i)
    free(c->before[i]);
  free(c->dbias_before);
}

/* ---- What the host does in place of the kernels around one ----------------------------------- */

typedef struct row_values {
  double lse_log2, delta;
} row_values;

/* Of a row that may be past the end. */
static row_values values_of_row(const call *c, int64_t batch, int64_t head, int64_t row) {
  const attnpress_backward_args *a = &c->args;
  if (row >= c->s.seqlen_q)
    return (row_values){INFINITY, 0.0};
  const double lse = (double)a->lse[batch * a->lse_stride[0] + head * a->lse_stride[1] + row];
  double delta = 0.0;
  for (int64_t i = 0; i < a->out.shape[3]; ++i)
    delta += (double)reference_load(&a->out, batch, row, head, i) *
             (double)reference_load(&a->dout, batch, row, head, i);
  if (a->dlse)
    delta -= (double)a->dlse[batch * a->dlse_stride[0] + head * a->dlse_stride[1] + row];
  return (row_values){isinf(lse) ? INFINITY : lse * 1.4426950408889634074, delta};
}

static row_values values_at(const call *c, int64_t index) {
  const int64_t rows = c->row_tiles * TILE_ROWS, head = index / rows;
  return values_of_row(c, head / c->heads, head % c->heads, index % rows);
}

static void fill_rows(const call *c) {
  for (int64_t i = 0; i < c->rows; ++i) {
    const row_values v = values_at(c, i);
    ((float *)c->tensors[LSE_LOG2].data)[i] = (float)v.lse_log2;
    ((float *)c->tensors[DELTA].data)[i] = (float)v.delta;
  }
}

/* Where an element of a gradient lies in its sum: tiles of 16 rows and 8 columns; before compute
 * capability 9.0, element i of all lanes' accumulators together. `tiles`: of a head's rows. */
static int64_t sum_index(const attnpress_tensor *of, int64_t tiles, int64_t batch, int64_t row,
                         int64_t head, int64_t column) {
  const int64_t tile =
      (((batch * of->shape[2] + head) * tiles + row / TILE_ROWS) * (of->shape[3] / TILE_COLUMNS) +
       column / TILE_COLUMNS);
  const int64_t lane = row % 8 * 4 + column % 8 / 2, i = row % 16 / 8 * 2 + column % 2;
  return tile * TILE_FLOATS + i * 32 + lane;
}

/* A gradient as bwd_convert makes it, from row `first` on: parts are added up one after the other. */
static void convert(const attnpress_tensor *to, const float *sum, int parts, int64_t tiles,
                    float scale, const float *before, int64_t first) {
  const int64_t part = to->shape[0] * to->shape[2] * tiles * TILE_ROWS * to->shape[3];
  for (int64_t b = 0; b < to->shape[0]; ++b)
    for (int64_t r = 0; r < to->shape[1]; ++r)
      for (int64_t h = 0; h < to->shape[2]; ++h)
        for (int64_t i = 0; i < to->shape[3]; ++i) {
          const float old = before ? *before++ : 0.0f;
          if (r < first)
            continue;
          const float *at = sum + sum_index(to, tiles, b, r - first, h, i);
          float value = *at;
          for (int n = 1; n < parts; ++n)
            value += at[n * part];
          reference_store(to, b, r, h, i, value * scale + old);
        }
}

static void convert_sum(const call *c) {
  convert(&c->args.dq, c->tensors[DQ_SUM].data, c->sum_parts, c->sum_tiles, c->scale,
          c->before[REFERENCE_DQ], 0);
}

/* Of thread blocks that share a group. */
static void convert_key_sums(const call *c) {
  const attnpress_forward_args forward = ap_forward_of(&c->args);
  attnpress_score_args score;
  ap_fill_score_args(&forward, &score);
  convert(&c->args.dk, c->tensors[DK_SUM].data, c->group_parts, c->key_tiles, c->scale,
          c->before[REFERENCE_DK], c->whole_keys);
  convert(&c->args.dv, c->tensors[DV_SUM].data, c->group_parts, c->key_tiles, score.dropout_scale,
          c->before[REFERENCE_DV], c->whole_keys);
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* A sum of keys, counted from the first of all. */
static float *sum_of_keys(const call *c, int which, int64_t columns) {
  const uintptr_t data = (uintptr_t)c->tensors[which].data;
  return data == 0 ? NULL
                   : (float *)(data - (size_t)c->whole_keys * (size_t)columns * sizeof(float));
}

static void call_bwd(void (*function)(void), const void *args) {
  ((void (*)(attnpress_bwd_args))function)(*(const attnpress_bwd_args *)args);
}

static void call_bwd_mod(void (*function)(void), const void *args) {
  ((void (*)(attnpress_bwd_mod_args))function)(*(const attnpress_bwd_mod_args *)args);
}

static void call_bwd_mod_grad(void (*function)(void), const void *args) {
  ((void (*)(attnpress_bwd_mod_grad_args))function)(*(const attnpress_bwd_mod_grad_args *)args);
}

static void call_bwd_sm90(void (*function)(void), const void *args) {
  ((void (*)(attnpress_bwd_sm90_args))function)(*(const attnpress_bwd_sm90_args *)args);
}

static void call_dbias(void (*function)(void), const void *args) {
  ((void (*)(attnpress_bwd_dbias_args))function)(*(const attnpress_bwd_dbias_args *)args);
}

static CUresult no_words(CUresult result, const char **words) {
  (void)words;
  return result;
}

/* The library describes the tensors to what stands in for the driver; the pointers that the kernel
 * leaves alone are not there. */
static int fill_sm90(const kernel *k, const call *c, attnpress_bwd_sm90_args *args, char *report) {
  const ap_driver driver = {.tensor_map_encode_tiled = emulated_encode_tiled,
                            .get_error_name = no_words,
                            .get_error_string = no_words};
  ap_maps maps = {.driver = &driver};
  if (ap_backward_maps_encode(
          &maps, &c->args, &k->tile,
          (ap_backward_maps){&args->q, &args->dout, &args->k, &args->v, NULL}) != ATTNPRESS_OK) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
    return -1;
  }
  args->bwd.q = args->bwd.k = args->bwd.v = args->bwd.dout = NULL;
  return 0;
}

/* What is summed over is walked over by each block; the number of blocks. */
static int64_t fill_dbias(const kernel *k, const call *c, int row_blocks,
                          attnpress_bwd_dbias_args *args) {
  const attnpress_dbias *d = &c->dbias;
  const int *tile = k->tile.field;
  args->bwd.blocks =
      (c->s.seqlen_k + tile[AP_ATTENTION_TILE_BLOCK_N] - 1) / tile[AP_ATTENTION_TILE_BLOCK_N];
  args->dbias = d->data;
  args->dbias_dtype = d->dtype;
  for (int i = 0; i < 4; ++i)
    (&args->dbias_batch_stride)[i] = d->shape[i] > 1 ? d->stride[i] : 0;
  args->sums_rows = d->shape[2] == 1;
  args->heads = (int32_t)d->shape[1];
  args->row_blocks = args->sums_rows ? 1 : row_blocks;
  args->walk_batches = d->shape[0] == 1 ? c->s.batch : 1;
  args->walk_heads = d->shape[1] == 1 ? c->heads : 1;
  args->walk_row_blocks = args->sums_rows ? row_blocks : 1;
  return d->shape[0] * d->shape[1] * args->row_blocks * args->bwd.blocks;
}

/* Whether those that a kernel may overlap leave a tensor alone. Of a call's kernels bwd_delta begins
 * when all before it have ended, so bwd and bwd_dq overlap bwd_delta alone, and bwd_dkv, which begins
 * when that has ended, bwd_dq; bwd_convert overlaps both. */
static int is_settled(const kernel *k, int which) {
  if (pass_of(k) == AP_ATTENTION_PASS_BWD_CONVERT)
    return 0;
  return which < DQ || which == DK || which == DV ||
         (pass_of(k) == AP_ATTENTION_PASS_BWD_DKV && which != DQ);
}

static void add_given(const emulated_tensor *t, int settled, emulated_tensor *given, int *count) {
  given[*count] = *t;
  given[(*count)++].settled = settled;
}

static int launch(const kernel *k, call *c, unsigned used, char *report) {
  const attnpress_backward_args *a = &c->args;
  const attnpress_forward_args forward = ap_forward_of(a);
  const shape *s = &c->s;
  attnpress_bwd_args args = {
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
      .lse_log2 = c->tensors[LSE_LOG2].data,
      .delta = c->tensors[DELTA].data,
      .dq_sum = c->tensors[DQ_SUM].data,
      .zero_ahead = c->zero_ahead,
      .dq_zeroed = c->tensors[DQ_ZEROED].data,
      .taken = c->tensors[TAKEN].data,
      .lse_batch_stride = a->lse_stride[0],
      .lse_head_stride = a->lse_stride[1],
      .dlse_batch_stride = a->dlse_stride[0],
      .dlse_head_stride = a->dlse_stride[1],
      .batch = s->batch,
      .heads_q = c->heads,
      .heads_kv = s->heads_kv,
      .seqlen_q = s->seqlen_q,
      .seqlen_k = s->seqlen_k,
      .row_tiles = (int32_t)c->row_tiles,
      .sum_tiles = (int32_t)c->sum_tiles,
      .accumulate = c->accumulate,
      .dq_sum_quads = (int32_t)(4 * a->q.shape[3]),
      .scale = c->scale,
      .scale_log2 = ap_scale_log2(&forward),
      .dsinks = a->dsinks,
      .dk_sum = sum_of_keys(c, DK_SUM, a->k.shape[3]),
      .dv_sum = sum_of_keys(c, DV_SUM, a->v.shape[3]),
      .key_tiles = (int32_t)c->key_tiles,
      .group_parts = c->group_parts,
      .sum_parts = c->sum_parts,
  };
  if (pass_of(k) != AP_ATTENTION_PASS_BWD_CONVERT)
    args.abreast = c->abreast;
  ap_fill_score_args(&forward, &args.score);
  const attnpress_tensor *tensors[] = {&a->q,    &a->k,  &a->v,  &a->out,
                                       &a->dout, &a->dq, &a->dk, &a->dv};
  for (int i = 0; i < 8; ++i)
    memcpy(&args.q_batch_stride + 3 * i, tensors[i]->stride, 3 * sizeof(int64_t));
  const int padded =
      pass_of(k) == AP_ATTENTION_PASS_BWD_DELTA || pass_of(k) == AP_ATTENTION_PASS_BWD_CONVERT;
  const int rows = owns_keys(k) ? s->seqlen_k : padded ? args.row_tiles * TILE_ROWS : s->seqlen_q;
  const int block =
      k->tile.field[owns_keys(k) ? AP_ATTENTION_TILE_BLOCK_N : AP_ATTENTION_TILE_BLOCK_M];
  args.blocks = (rows + block - 1) / block;
  int64_t blocks = (int64_t)args.blocks * s->batch * (owns_keys(k) ? s->heads_kv : c->heads);
  if (pass_of(k) == AP_ATTENTION_PASS_BWD)
    blocks = (int64_t)s->batch * s->heads_kv *
             (c->whole_keys / block + (args.blocks - c->whole_keys / block) * c->group_parts);
  if (pass_of(k) == AP_ATTENTION_PASS_BWD_SINKS)
    blocks = c->heads;
  if (ap_can_take(&k->variant) && args.taken != NULL && blocks > 2)
    blocks = 2;
  if (ap_keeps_rows(&k->variant) &&
      blocks > 1 + args.seqlen_k % 5) /* equal parts of the key blocks */
    blocks = 1 + args.seqlen_k % 5;
  attnpress_bwd_dbias_args dbias = {.bwd = args};
  const int is_dbias = pass_of(k) == AP_ATTENTION_PASS_BWD_DBIAS;
  if (is_dbias)
    blocks = fill_dbias(k, c, args.blocks, &dbias);

  emulated_tensor given[TENSORS + SCORE_TENSORS];
  int count = 0;
  for (int i = 0; i < TENSORS; ++i)
    if (used >> i & 1 && c->tensors[i].data != NULL)
      add_given(&c->tensors[i], is_settled(k, i), given, &count);
  for (int i = 0; i < SCORE_TENSORS; ++i)
    if (c->scores.tensors[i].data != NULL)
      add_given(&c->scores.tensors[i], is_settled(k, Q), given, &count);
  attnpress_bwd_sm90_args sm90 = {.bwd = args};
  const int is_sm90 = k->variant.axis[AP_ATTENTION_ARCH] == 90;
  if (is_sm90 && fill_sm90(k, c, &sm90, report) != 0)
    return -1;
  attnpress_bwd_mod_grad_args with_mod = {.bwd = args};
  const int has_gradients = k->variant.axis[AP_ATTENTION_MOD_GRAD];
  if (k->mod != NULL)
    ap_score_mod_fill(&forward, NULL, &with_mod.mod);
  if (has_gradients)
    ap_dbuffers_fill(a, &with_mod.gradients);
  const emulated_launch l = {.module = k->module,
                             .overlaps = backward_overlaps(k),
                             .blocks = (unsigned)blocks,
                             .threads = (unsigned)k->tile.threads,
                             .shared_bytes = (size_t)k->tile.smem_bytes,
                             .args = is_dbias         ? (const void *)&dbias
                                     : is_sm90        ? (const void *)&sm90
                                     : k->mod != NULL ? (const void *)&with_mod
                                                      : &args,
                             .call = is_dbias         ? call_dbias
                                     : is_sm90        ? call_bwd_sm90
                                     : has_gradients  ? call_bwd_mod_grad
                                     : k->mod != NULL ? call_bwd_mod
                                                      : call_bwd,
                             .tensors = given,
                             .tensor_count = count};
  char text[EMULATED_REPORT_BYTES];
  const int status = emulated_run(&l, text);
  if (status != 0)
    snprintf(report, EMULATED_REPORT_BYTES, "%.120s: %.7900s", k->stem, text);
  return status;
}

/* ---- Each kernel ----------------------------------------------------------------------------- */

/* lse_log2 and delta of every row, padding included, and a sum of zeros. */
static int check_delta(const call *c, char *report) {
  const float *lse = c->tensors[LSE_LOG2].data, *delta = c->tensors[DELTA].data;
  const float *sum = c->tensors[DQ_SUM].data;
  for (int64_t i = 0; i < c->rows; ++i) {
    const row_values v = values_at(c, i);
    const int lse_right = isinf(v.lse_log2) ? (double)lse[i] == v.lse_log2
                                            : fabs((double)lse[i] - v.lse_log2) <= 1e-5;
    if (!lse_right || !(fabs((double)delta[i] - v.delta) <= 1e-4)) {
      snprintf(report, EMULATED_REPORT_BYTES,
               "row %lld of lse_log2 and delta is %.7g, %.7g, expected %.7g, %.7g", (long long)i,
               (double)lse[i], (double)delta[i], v.lse_log2, v.delta);
      return -1;
    }
  }
  const uint32_t *zeroed = c->tensors[DQ_ZEROED].data;
  for (int64_t i = 0; i < counters_of(c); ++i)
    if (zeroed[i] != 0) {
      snprintf(report, EMULATED_REPORT_BYTES, "number %lld of dq_zeroed is %u, expected 0",
               (long long)i, (unsigned)zeroed[i]);
      return -1;
    }
  /* Without rows the kernel is not launched. */
  if (c->rows > 0 && *(const uint32_t *)c->tensors[TAKEN].data != 0) {
    snprintf(report, EMULATED_REPORT_BYTES, "taken is not 0");
    return -1;
  }
  for (int64_t i = 0; i < zeroed_before(c); ++i)
    if (!(sum[i] == 0.0f)) {
      snprintf(report, EMULATED_REPORT_BYTES, "float %lld of dq_sum is %.7g, expected 0",
               (long long)i, (double)sum[i]);
      return -1;
    }
  return 0;
}

/* Random sums, converted here and by the kernel: equal bits. */
static int run_convert(const kernel *k, call *c, char *report) {
  const attnpress_tensor *dq = &c->args.dq;
  float *sum = c->tensors[DQ_SUM].data;
  uint64_t state = 7;
  for (int64_t i = 0; i < c->sum_rows * dq->shape[3] * c->sum_parts; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    sum[i] = (float)((double)(state >> 40) / (double)(1 << 23) - 1.0);
  }
  if (launch(k, c, 1u << DQ_SUM | 1u << DQ, report) != 0)
    return -1;
  const int64_t count = dq->shape[0] * dq->shape[1] * dq->shape[2] * dq->shape[3];
  float *given = malloc((size_t)(count + 1) * sizeof *given), *at = given;
  if (given == NULL)
    abort();
  int status = 0;
  for (int turn = 0; turn < 2; ++turn, at = given) {
    for (int64_t b = 0; b < dq->shape[0]; ++b)
      for (int64_t r = 0; r < dq->shape[1]; ++r)
        for (int64_t h = 0; h < dq->shape[2]; ++h)
          for (int64_t i = 0; i < dq->shape[3]; ++i, ++at) {
            const float value = reference_load(dq, b, r, h, i);
            if (turn == 0) {
              *at = value;
            } else if (!(value == *at) && status == 0) {
              snprintf(report, EMULATED_REPORT_BYTES,
                       "dq of batch %lld, row %lld, head %lld, column %lld is %.7g, expected %.7g",
                       (long long)b, (long long)r, (long long)h, (long long)i, (double)*at,
                       (double)value);
              status = -1;
            }
          }
    if (turn == 0)
      convert_sum(c);
  }
  free(given);
  return status;
}

/* The factor of what is allowed: a large scale makes much of how out was rounded, by which delta is
 * off, and of the order in which dP and delta were summed over many columns, and few elements say how
 * much. Such a shape shows what is infinite or not a number. */
static double leniency(const call *c) {
  enum { LARGE_SCALE = 10, FACTOR = 64 };
  return c->scale > LARGE_SCALE ? FACTOR : 1;
}

static int check_gradients(const kernel *k, call *c, char *report) {
  static const int written[REFERENCE_GRADIENTS][2] = {
      /* by bwd_dkv, by bwd_dq */ {0, 1}, {1, 0}, {1, 0}};
  reference_gradient errors[REFERENCE_GRADIENTS] = {0};
  if (reference_check_backward(&c->args, c->accumulate ? (const float *const *)c->before : NULL,
                               errors) != 0)
    abort();
  for (int i = 0; i < REFERENCE_GRADIENTS; ++i) {
    const reference_gradient *e = &errors[i];
    if (pass_of(k) != AP_ATTENTION_PASS_BWD && !written[i][pass_of(k) == AP_ATTENTION_PASS_BWD_DQ])
      continue;
    if (!(e->error <= leniency(c) * reference_gradient_bound(e))) {
      snprintf(report, EMULATED_REPORT_BYTES,
               "%s is off by %.3g, where %.3g is allowed: batch %lld, row %lld, head %lld, column "
               "%lld is %.6g, expected %.6g",
               e->name, e->error, leniency(c) * reference_gradient_bound(e), (long long)e->at[0],
               (long long)e->at[1], (long long)e->at[2], (long long)e->at[3], e->value,
               e->expected);
      return -1;
    }
  }
  return 0;
}

static int check_dbuffers(const call *c, char *report) {
  reference_gradient e = {0};
  if (reference_check_dbuffers(&c->args, SCORES_GRADIENT_BEFORE, &e) != 0)
    abort();
  if (e.error <= leniency(c) * reference_gradient_bound(&e))
    return 0;
  snprintf(report, EMULATED_REPORT_BYTES,
           "%s is off by %.3g, where %.3g is allowed: element %lld of %s is %.6g, expected %.6g",
           e.name, e.error, leniency(c) * reference_gradient_bound(&e), (long long)e.at[1],
           c->args.score_mod->buffers[e.at[0]].name, e.value, e.expected);
  return -1;
}

static int run_main(const kernel *k, call *c, char *report) {
  const unsigned inputs = 1u << Q | 1u << K | 1u << V | 1u << DOUT | 1u << LSE_LOG2 | 1u << DELTA;
  unsigned outputs = 1u << DQ;
  const int shared = c->group_parts > 1;
  if (pass_of(k) == AP_ATTENTION_PASS_BWD)
    outputs = 1u << DQ_SUM | (shared ? 1u << DK_SUM | 1u << DV_SUM : 0) |
              (!shared || c->whole_keys > 0 ? 1u << DK | 1u << DV : 0);
  else if (pass_of(k) == AP_ATTENTION_PASS_BWD_DKV)
    outputs = 1u << DK | 1u << DV;
  fill_rows(c);
  if (pass_of(k) == AP_ATTENTION_PASS_BWD)
    memset(c->tensors[DQ_SUM].data, 0, (size_t)zeroed_before(c) * sizeof(float));
  if (c->zero_ahead != 0) {
    memset(c->tensors[DQ_ZEROED].data, 0, (size_t)counters_of(c) * sizeof(uint32_t));
    outputs |= 1u << DQ_ZEROED;
  }
  if (c->zero_ahead < 0)
    outputs |= 1u << DQ;
  if (c->tensors[TAKEN].data != NULL) {
    memset(c->tensors[TAKEN].data, 0, sizeof(uint32_t));
    outputs |= 1u << TAKEN;
  }
  if (launch(k, c, inputs | outputs, report) != 0)
    return -1;
  if (pass_of(k) == AP_ATTENTION_PASS_BWD && c->zero_ahead >= 0)
    convert_sum(c);
  if (c->group_parts > 1)
    convert_key_sums(c);
  if (c->args.dbuffers != NULL && check_dbuffers(c, report) != 0)
    return -1;
  return check_gradients(k, c, report);
}

/* The gradient by the sinks; that of a head whose sink is -inf is 0. */
static int run_sinks(const kernel *k, call *c, char *report) {
  reference_gradient e = {0};
  fill_rows(c);
  if (launch(k, c, 1u << LSE_LOG2 | 1u << DELTA | 1u << DSINKS, report) != 0)
    return -1;
  for (int h = 0; h < c->heads; ++h)
    if (reference_check_dsinks(&c->args, h, c->accumulate ? (float)h - 1.5f : 0.0f, &e) != 0)
      abort();
  if (e.error <= reference_gradient_bound(&e))
    return 0;
  snprintf(report, EMULATED_REPORT_BYTES,
           "dsinks is off by %.3g, where %.3g is allowed: head %lld is %.6g, expected %.6g",
           e.error, reference_gradient_bound(&e), (long long)e.at[2], e.value, e.expected);
  return -1;
}

/* The gradient by the bias. */
static int run_dbias(const kernel *k, call *c, char *report) {
  reference_gradient e = {0};
  fill_rows(c);
  if (launch(k, c,
             1u << Q | 1u << K | 1u << V | 1u << DOUT | 1u << LSE_LOG2 | 1u << DELTA | 1u << DBIAS,
             report) != 0)
    return -1;
  for (int64_t b = 0; b < c->dbias.shape[0]; ++b)
    for (int64_t h = 0; h < c->dbias.shape[1]; ++h)
      if (reference_check_dbias(&c->args, b, h, c->dbias_before, &e) != 0)
        abort();
  if (e.error <= reference_gradient_bound(&e))
    return 0;
  snprintf(
      report, EMULATED_REPORT_BYTES,
      "dbias is off by %.3g, where %.3g is allowed: %lld x %lld x %lld x %lld, batch %lld, head "
      "%lld, row %lld, key %lld is %.6g, expected %.6g",
      e.error, reference_gradient_bound(&e), (long long)c->dbias.shape[0],
      (long long)c->dbias.shape[1], (long long)c->dbias.shape[2], (long long)c->dbias.shape[3],
      (long long)e.at[0], (long long)e.at[2], (long long)e.at[1], (long long)e.at[3], e.value,
      e.expected);
  return -1;
}

static int run_one(const kernel *k, const shape *s, int with_dlse, int accumulate, uint64_t seed,
                   char *report) {
  call c;
  int status = call_open(&c, k, s, with_dlse, accumulate, seed);
  if (status != 0) {
    abort();
  } else if (pass_of(k) == AP_ATTENTION_PASS_BWD_CONVERT) {
    status = run_convert(k, &c, report);
  } else if (pass_of(k) == AP_ATTENTION_PASS_BWD_SINKS) {
    status = run_sinks(k, &c, report);
  } else if (pass_of(k) == AP_ATTENTION_PASS_BWD_DBIAS) {
    status = run_dbias(k, &c, report);
  } else if (pass_of(k) == AP_ATTENTION_PASS_BWD_DELTA) {
    status = launch(k, &c,
                    1u << OUT | 1u << DOUT | 1u << LSE | 1u << DLSE | 1u << LSE_LOG2 | 1u << DELTA |
                        1u << DQ_SUM | 1u << DQ_ZEROED | 1u << TAKEN,
                    report);
    status = status == 0 ? check_delta(&c, report) : status;
  } else {
    status = run_main(k, &c, report);
  }
  call_close(&c);
  return status;
}

int run_backward_shape(const kernel *k, const shape *s, uint64_t seed, char *report) {
  return run_one(k, s, 0, 0, seed, report);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* Lengths are in tiles and what is added to them. */
typedef struct shape_row {
  struct {
    int tiles, more;
  } q, k;
  int heads_kv, group;
  layout layout;
  int with_dlse, accumulate;
  float scale;
} shape_row;

static const shape_row shape_rows[] = {
    {{0, 0}, {1, 3}, 2, 1, LAYOUT_BSHD, 0, 0, 0.0f},
    {{0, 5}, {0, 0}, 1, 2, LAYOUT_BSHD, 0, 0, 0.0f},
    {{0, 1}, {0, 1}, 1, 1, LAYOUT_BSHD, 0, 0, 0.0f},
    {{1, 0}, {1, 0}, 1, 1, LAYOUT_BHSD, 1, 0, 0.0f},
    {{1, 1}, {1, -1}, 1, 2, LAYOUT_GAPS, 1, 1, 0.0f},
    {{2, 5}, {0, 7}, 1, 1, LAYOUT_BSHD, 0, 0, 0.3f},
    {{0, 9}, {2, 5}, 2, 3, LAYOUT_BHSD, 0, 1, 0.0f},
    {{3, -7}, {2, 1}, 1, 1, LAYOUT_GAPS, 0, 0, 1.0f},
    {{1, 2}, {1, 9}, 1, 7, LAYOUT_BSHD, 1, 0, 0.0f},
    {{1, 3}, {1, 2}, 2, 1, LAYOUT_FAR_ROWS, 0, 0, 0.0f},
    {{0, 17}, {1, 5}, 2, 2, LAYOUT_FAR_HEADS, 0, 1, 0.0f},
    /* Of kernels whose names say what is done to scores alone: */
    {{4, 3}, {5, 1}, 1, 1, LAYOUT_BSHD, 0, 0, 0.0f},
    {{7, 1}, {3, -3}, 1, 2, LAYOUT_GAPS, 1, 0, 0.0f},
    /* Of kernels that pass dq on alone, as of the second of these above; under narrow windows: */
    {{5, 10}, {2, 74}, 1, 2, LAYOUT_GAPS, 1, 1, 0.0f},
    {{6, 0}, {3, 4}, 1, 1, LAYOUT_BSHD, 0, 0, 0.0f},
    /* Of all kernels that have keys: scores of -200 and less, against whose lse what is past the keys would be inf. */
    {{1, 5}, {0, 2}, 2, 1, LAYOUT_BSHD, 0, 0, 40.0f},
};
enum {
  PLAIN_SHAPES = 11,
  NARROW_SHAPES = 13,
  LAST_SHAPE = sizeof shape_rows / sizeof *shape_rows - 1
};

/* Keys of a window or a chunk; -1: all of them. */
static const struct {
  int left, right, chunk, top_left;
} windows[] = {
    {3, 0, 0, 0},   {0, 0, 0, 0},   {-1, 5, 0, 0},  {20, 7, 0, 0}, {-1, -1, 7, 0},
    {45, -1, 0, 1}, {-1, 0, 37, 0}, {5, 40, 0, 0},  {9, 2, 64, 1}, {100, 0, 0, 1},
    {33, 1, 0, 0},  {-1, -1, 0, 0}, {17, 0, 16, 0},
};

/* Of kernels that pass dq on, of every other shape. */
static const struct {
  int left, right;
} narrow_windows[] = {{127, 0}, {64, 64}, {77, 0}, {20, 13}, {0, 0}, {128, 0}};

/* What shape number `i` does to its scores: everything takes turns, from shape to shape and from
 * kernel to kernel. */
static score_shape make_scores(const kernel *k, unsigned i) {
  static const float caps[] = {1.0f, 30.0f, 3.0f, 0.5f}, rates[] = {0.1f, 0.5f, 0.9f, 0.0f, 0.3f};
  const unsigned turn = hash_of_name(k->stem) + i, window = turn % COUNT(windows);
  return (score_shape){.left = windows[window].left,
                       .right = windows[window].right,
                       .chunk = windows[window].chunk,
                       .top_left = windows[window].top_left,
                       .softcap = caps[turn % COUNT(caps)],
                       .slopes = (slopes_layout)(turn % SLOPES_LAYOUTS),
                       .bias = (bias_layout)((turn + i) % BIAS_LAYOUTS),
                       .sinks = (int)(turn % 4), /* 0: none */
                       .sinks_stride = (int)(turn % 3),
                       .dropout = rates[turn % COUNT(rates)],
                       .seed_in_memory = (int)(i % 2)};
}

/* 1 where a kernel's name says that something is done to scores. */
static int has_scores(const kernel *k) {
  const int32_t *axis = k->variant.axis;
  return axis[AP_ATTENTION_MASK] == ATTNPRESS_WINDOW || axis[AP_ATTENTION_SOFTCAP] ||
         axis[AP_ATTENTION_ALIBI] || axis[AP_ATTENTION_DROPOUT] || k->mod != NULL ||
         axis[AP_ATTENTION_BIAS] != AP_ATTENTION_BIAS_NONE;
}

/* Kernels of rows alone have tiles of no keys. */
static int has_keys(const kernel *k) {
  return owns_keys(k) || pass_of(k) == AP_ATTENTION_PASS_BWD_DQ ||
         pass_of(k) == AP_ATTENTION_PASS_BWD_DBIAS;
}

static shape make_shape(unsigned i, const kernel *k) {
  const shape_row *row = &shape_rows[i];
  const int keys = has_keys(k) ? k->tile.field[AP_ATTENTION_TILE_BLOCK_N] : 1;
  shape s = {.batch = 1,
             .seqlen_q = row->q.tiles * k->tile.field[AP_ATTENTION_TILE_BLOCK_M] + row->q.more,
             .seqlen_k = row->k.tiles * keys + row->k.more,
             .heads_kv = row->heads_kv,
             .group = row->group,
             .layout = row->layout,
             .scale = row->scale,
             .scores = make_scores(k, i)};
  /* Strides of 2^40 bytes and more no tensor map can describe. */
  if (k->variant.axis[AP_ATTENTION_ARCH] == 90 && s.layout == LAYOUT_FAR_ROWS) {
    s.seqlen_q = s.seqlen_q > FAR_ROWS_MAX ? FAR_ROWS_MAX : s.seqlen_q;
    s.seqlen_k = s.seqlen_k > FAR_ROWS_MAX ? FAR_ROWS_MAX : s.seqlen_k;
  }
  if (can_pass_on(k) && i % 2 == 1) {
    const unsigned turn = (hash_of_name(k->stem) + i / 2) % COUNT(narrow_windows);
    s.scores.left = narrow_windows[turn].left;
    s.scores.right = narrow_windows[turn].right;
    s.scores.chunk = 0;
  }
  if (ap_keeps_rows(&k->variant)) { /* of a group that has two tiles of rows at most */
    const int rows = k->tile.field[AP_ATTENTION_TILE_BLOCK_M];
    s.group = s.group > 1 ? 2 : 1;
    s.seqlen_q = s.seqlen_q > 2 * rows / s.group ? 2 * rows / s.group : s.seqlen_q;
    s.seqlen_q = s.seqlen_q < 1 ? 1 : s.seqlen_q;
  }
  const int hdim = k->variant.axis[AP_ATTENTION_HDIM];
  const int shorter = s.seqlen_q < s.seqlen_k ? s.seqlen_q : s.seqlen_k;
  const int elements = shorter * s.heads_kv * hdim;
  if (s.seqlen_k < 0)
    s.seqlen_k = 0;
  if (elements > 0 && elements < REFERENCE_MIN_ELEMENTS)
    s.batch = (REFERENCE_MIN_ELEMENTS + elements - 1) / elements;
  return s;
}

static int run_ragged(const kernel *k, FILE *out, int *shapes) {
  score_shape scores[COUNT(shape_rows)];
  for (unsigned i = 0; i < COUNT(shape_rows); ++i)
    scores[i] = make_scores(k, i);
  return run_ragged_backward_shapes(k, scores, out, shapes);
}

int run_backward_shapes(const kernel *k, FILE *out, int *shapes) {
  static char report[EMULATED_REPORT_BYTES];
  if (k->variant.axis[AP_ATTENTION_SEQUENCES] != AP_ATTENTION_SEQUENCES_DENSE)
    return run_ragged(k, out, shapes);
  for (unsigned i = 0; i < COUNT(shape_rows); ++i) {
    if (i == LAST_SHAPE      ? !has_keys(k)
        : i >= NARROW_SHAPES ? !can_pass_on(k)
                             : i >= PLAIN_SHAPES && !has_scores(k))
      continue;
    ++*shapes;
    const shape_row *row = &shape_rows[i];
    const shape s = make_shape(i, k);
    if (run_one(k, &s, row->with_dlse, row->accumulate, 1000u * i, report) != 0) {
      char text[256];
      print_shape(&k->variant, &s, text, sizeof text);
      fprintf(out, "FAILED %s\n  shape: %s%s%s\n  %s\n", k->stem, text,
              row->with_dlse ? ", dlse" : "", row->accumulate ? ", accumulate" : "", report);
      return 1;
    }
  }
  return 0;
}
