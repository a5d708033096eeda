/* Calls that a handle remembers (kept.h): whatever was called before, a call launches what it launches
 * alone. Each row of the tables below changes one thing of a call that its launches may depend on; a key
 * that leaves one out finds another call's (the driver and NVRTC are stand-ins). */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "attention/attention.h"
#include "attention_args.h"
#include "attnpress/append.h"
#include "attnpress/args/append.h"
#include "attnpress/args/layernorm.h"
#include "attnpress/args/runs_append.h"
#include "attnpress/layernorm.h"
#include "kept.h"

/** One field of a struct of 32-bit numbers is another. */
typedef struct change {
  const char *field;
  size_t offset;
  int32_t value;
} change;

/* ---- Attention ------------------------------------------------------------------------------- */

/** What the calls of a test are made of. */
typedef struct shape {
  int32_t batch, rows, keys, heads, kv_heads, hdim, hdim_v, dtype, mask, left, right, chunk,
      top_left;
  int32_t softcap, alibi, bias, dropout, sinks, splits, invariant;
  int32_t far; /* 1: strides of which there are no tensor maps */
  int32_t ragged, max_rows, max_keys, page, new_keys;
  int32_t deterministic, dsinks, dbias, dbias_rows, accumulate; /* backward */
  int32_t rotary, tokens;                                       /* append */
  /* What a plan does not depend on, but tensor maps do. */
  int32_t moved;  /* every tensor is elsewhere */
  int32_t gap_in; /* 1, 2, ...: a tensor whose rows are further apart */
  /* What blocks depend on alone, or checks. */
  int32_t lse, alpha; /* given; a scale of alpha / 16 */
  int32_t shift_in;   /* 1, 2, ...: a tensor that begins 8 bytes further, which is refused */
  int32_t bias_shift; /* bytes */
  int32_t workspace;  /* 1: too small; 2: NULL */
  int32_t reserved;
  int32_t table_v;  /* 1: V's pages have a table of their own */
  int32_t schedule; /* 1: one that is ready */
  int32_t mod;      /* 1: a snippet; 2 to 13: another (make_mod()) */
  int32_t apart;    /* 1 to 6: something new keys are appended to is not what is attended to */
} shape;

#define CHANGE(name, value)                                                                        \
  { #name, offsetof(shape, name), value }

#define MAP_CHANGES                                                                                \
  CHANGE(moved, 1), CHANGE(moved, 3), CHANGE(gap_in, 1), CHANGE(gap_in, 2), CHANGE(gap_in, 3),     \
      CHANGE(gap_in, 4), CHANGE(gap_in, 5), CHANGE(alpha, 3), CHANGE(alpha, 4), CHANGE(lse, 1)
#define REFUSED_CHANGES CHANGE(shift_in, 1), CHANGE(shift_in, 4), CHANGE(reserved, 1)

static const shape dense = {.batch = 2,
                            .rows = 512,
                            .keys = 768,
                            .heads = 8,
                            .kv_heads = 4,
                            .hdim = 128,
                            .hdim_v = 128,
                            .dtype = ATTNPRESS_BF16,
                            .left = -1,
                            .right = -1};

static const change dense_changes[] = {
    CHANGE(batch, 40),
    CHANGE(rows, 1),
    CHANGE(rows, 640),
    CHANGE(keys, 64),
    CHANGE(keys, 4096),
    CHANGE(heads, 16),
    CHANGE(kv_heads, 8),
    CHANGE(kv_heads, 1),
    CHANGE(hdim, 72),
    CHANGE(hdim_v, 64),
    CHANGE(dtype, ATTNPRESS_FP16),
    CHANGE(mask, ATTNPRESS_CAUSAL),
    CHANGE(mask, ATTNPRESS_WINDOW),
    CHANGE(softcap, 1),
    CHANGE(alibi, 1),
    CHANGE(bias, ATTNPRESS_FP16),
    CHANGE(bias, ATTNPRESS_FP32),
    CHANGE(dropout, 1),
    CHANGE(dropout, 2),
    CHANGE(dropout, 3),
    CHANGE(sinks, 1),
    CHANGE(splits, 3),
    CHANGE(splits, 4),
    CHANGE(invariant, 1),
    CHANGE(far, 1),
    CHANGE(deterministic, 1),
    CHANGE(dsinks, 1),
    CHANGE(dbias, 1),
    CHANGE(accumulate, 1),
    MAP_CHANGES,
    REFUSED_CHANGES,
};

/** Of a call with a snippet. */
static const change mod_changes[] = {CHANGE(mod, 0),           CHANGE(mod, 2),   CHANGE(mod, 3),
                                     CHANGE(mod, 4),           CHANGE(mod, 5),   CHANGE(mod, 6),
                                     CHANGE(mod, 7),           CHANGE(mod, 8),   CHANGE(mod, 9),
                                     CHANGE(mod, 10),          CHANGE(mod, 11),  CHANGE(mod, 12),
                                     CHANGE(mod, 13),          CHANGE(rows, 1),  CHANGE(keys, 4096),
                                     CHANGE(ragged, 2),        CHANGE(hdim, 72), CHANGE(dropout, 1),
                                     CHANGE(deterministic, 1), MAP_CHANGES,      REFUSED_CHANGES};

static const shape window = {.batch = 2,
                             .rows = 512,
                             .keys = 768,
                             .heads = 8,
                             .kv_heads = 4,
                             .hdim = 128,
                             .hdim_v = 128,
                             .dtype = ATTNPRESS_BF16,
                             .mask = ATTNPRESS_WINDOW,
                             .left = 100,
                             .right = 20,
                             .sinks = 1,
                             .bias = ATTNPRESS_FP32};

static const change window_changes[] = {
    CHANGE(left, 300),     CHANGE(right, 0), CHANGE(chunk, 256),       CHANGE(top_left, 1),
    CHANGE(dsinks, 1),     CHANGE(dbias, 1), CHANGE(deterministic, 1), CHANGE(bias_shift, 4),
    CHANGE(bias_shift, 8), MAP_CHANGES,      REFUSED_CHANGES};

static const shape sequences = {.batch = 16,
                                .rows = 2048,
                                .keys = 4096,
                                .heads = 32,
                                .kv_heads = 8,
                                .hdim = 128,
                                .hdim_v = 128,
                                .dtype = ATTNPRESS_BF16,
                                .left = -1,
                                .right = -1,
                                .ragged = 1,
                                .max_rows = 256,
                                .max_keys = 512};

static const change sequences_changes[] = {
    CHANGE(batch, 64),
    CHANGE(batch, 2),
    CHANGE(kv_heads, 1),
    CHANGE(rows, 4096),
    CHANGE(keys, 8192),
    CHANGE(max_rows, 1),
    CHANGE(max_rows, 2048),
    CHANGE(max_keys, 4096),
    CHANGE(page, 16),
    CHANGE(page, 12),
    CHANGE(invariant, 1),
    CHANGE(mask, ATTNPRESS_CAUSAL),
    CHANGE(far, 1),
    CHANGE(deterministic, 1),
    CHANGE(hdim, 72),
    CHANGE(kv_heads, 32),
    CHANGE(dtype, ATTNPRESS_FP16),
    CHANGE(schedule, 1),
    MAP_CHANGES,
};

static const change pages_changes[] = {CHANGE(page, 16),     CHANGE(page, 32),
                                       CHANGE(table_v, 1),   CHANGE(workspace, 1),
                                       CHANGE(workspace, 2), MAP_CHANGES};

/** One query of each sequence, over keys in a cache. */
static const shape decode = {.batch = 64,
                             .rows = 1,
                             .keys = 4096,
                             .heads = 32,
                             .kv_heads = 8,
                             .hdim = 128,
                             .hdim_v = 128,
                             .dtype = ATTNPRESS_BF16,
                             .left = -1,
                             .right = -1,
                             .ragged = 2,
                             .max_rows = 1,
                             .new_keys = 1,
                             .rotary = 128,
                             .tokens = 1};

static const change decode_changes[] = {
    CHANGE(batch, 1),  CHANGE(keys, 512),
    CHANGE(heads, 8),  CHANGE(kv_heads, 32),
    CHANGE(page, 16),  CHANGE(page, 12),
    CHANGE(splits, 4), CHANGE(invariant, 1),
    CHANGE(far, 1),    CHANGE(dtype, ATTNPRESS_FP16),
    CHANGE(rotary, 0), CHANGE(rotary, 64),
    CHANGE(tokens, 2), CHANGE(apart, 1),
    CHANGE(apart, 2),  CHANGE(apart, 3),
    CHANGE(apart, 4),  CHANGE(apart, 5),
    CHANGE(apart, 6),  CHANGE(table_v, 1),
    MAP_CHANGES,
};

/** The same in pages. */
static const change table_changes[] = {CHANGE(apart, 1),   CHANGE(apart, 2), CHANGE(apart, 3),
                                       CHANGE(apart, 4),   CHANGE(apart, 5), CHANGE(apart, 6),
                                       CHANGE(table_v, 1), MAP_CHANGES};

/** Prompts, which a kernel of their own appends. */
static const shape prompts = {.batch = 4,
                              .rows = 300,
                              .keys = 4096,
                              .heads = 32,
                              .kv_heads = 8,
                              .hdim = 128,
                              .hdim_v = 128,
                              .dtype = ATTNPRESS_BF16,
                              .left = -1,
                              .right = -1,
                              .ragged = 2,
                              .max_rows = 300,
                              .rotary = 128,
                              .tokens = 300};

static const change prompts_changes[] = {CHANGE(rotary, 64), CHANGE(rotary, 0), CHANGE(tokens, 299),
                                         CHANGE(batch, 3)};

/** A call of any function, whose parts name each other. */
typedef struct call {
  attnpress_forward_args forward;
  attnpress_backward_args backward;
  attnpress_append_args append;
  attnpress_rotary rotary;
  attnpress_ragged ragged;
  attnpress_window window;
  attnpress_alibi alibi;
  attnpress_bias bias;
  attnpress_sinks sinks;
  attnpress_dropout dropout;
  attnpress_score_mod mod;
  attnpress_score_scalar scalar;
  attnpress_score_buffer buffers[2];
  char text[4096]; /* of the score */
  attnpress_dbias dbias;
  attnpress_layernorm_args norm;
  attnpress_layernorm_backward_args norm_backward;
} call;

typedef attnpress_status run_function(attnpress_handle *handle, const call *c);

/** How far everything is from where it was, each of it by another distance. */
static int everything_moved;

static void *place(int which) {
  return (void *)(((uintptr_t)(which + 1) << 36) +
                  4096 * (uintptr_t)everything_moved * (uintptr_t)(which + 1));
}

static attnpress_tensor tensor_of(const shape *s, int which, int batch, int rows, int heads,
                                  int columns) {
  void *data = (char *)place(which) + 4096 * s->moved + 8 * (s->shift_in == which + 1);
  attnpress_tensor t = attnpress_tensor_bshd(data, batch, rows, heads, columns, s->dtype);
  if (s->gap_in == which + 1) {
    t.stride[1] += 64;
    t.stride[0] = rows * t.stride[1];
  }
  if (s->far && which == 1)
    t.stride[0] = INT64_C(1) << 42;
  return t;
}

static void make_features(const shape *s, call *c) {
  c->window = (attnpress_window)ATTNPRESS_WINDOW_INIT;
  c->window.left = s->left;
  c->window.right = s->right;
  c->window.chunk = s->chunk;
  c->window.top_left = s->top_left;
  c->alibi = (attnpress_alibi)ATTNPRESS_ALIBI_INIT;
  c->alibi.slopes = place(20);
  c->bias = (attnpress_bias)ATTNPRESS_BIAS_INIT;
  c->bias.data = (char *)place(21) + s->bias_shift;
  c->bias.dtype = s->bias;
  c->dbias = (attnpress_dbias)ATTNPRESS_DBIAS_INIT;
  c->dbias.data = place(22);
  c->dbias.dtype = ATTNPRESS_FP32;
  const int64_t shape[4] = {s->batch, s->heads, s->rows, s->keys};
  int64_t stride = 1;
  for (int i = 3; i >= 0; --i) {
    c->bias.shape[i] = c->dbias.shape[i] = shape[i];
    c->bias.stride[i] = c->dbias.stride[i] = stride;
    stride *= shape[i];
  }
  c->sinks = (attnpress_sinks)ATTNPRESS_SINKS_INIT;
  c->sinks.data = place(23);
  c->sinks.dtype = ATTNPRESS_FP32;
  c->dropout = (attnpress_dropout)ATTNPRESS_DROPOUT_INIT;
  c->dropout.probability = 0.25f;
  c->dropout.seed = (uint64_t)s->dropout;
  c->dropout.seed_and_offset = s->dropout == 3 ? place(24) : NULL;
}

static void make_mod(const shape *s, call *c) {
  const int is = s->mod;
  c->mod = (attnpress_score_mod)ATTNPRESS_SCORE_MOD_INIT;
  c->mod.name = is == 2 ? "other" : NULL;
  snprintf(c->text, sizeof c->text, "score = score * slope + near(q) + far(k);%s",
           is == 3 ? " score = score * 0.5f;" : "");
  if (is == 4) /* longer than a key */
    memset(c->text + strlen(c->text), ' ', 3000);
  c->mod.score = is == 5 ? NULL : c->text;
  c->mod.mask = is == 5 || is == 6 ? "k <= q && near(k) > slope" : is == 12 ? "k <= q" : NULL;
  c->mod.score_grad = is == 7 ? "slope" : is == 13 ? "slope * 0.5f" : NULL;
  c->scalar = (attnpress_score_scalar){.name = "slope", .dtype = ATTNPRESS_FP32, .value = 0.5f};
  if (is == 8)
    c->scalar.value = 0.25f;
  for (int i = 0; i < 2; ++i)
    c->buffers[i] = (attnpress_score_buffer){.name = i == 0 ? "near" : "far",
                                             .data = place(18 + i),
                                             .shape = {1024},
                                             .stride = {is == 9 && i == 1 ? 2 : 1},
                                             .dtype = is == 10 ? ATTNPRESS_FP32 : ATTNPRESS_BF16,
                                             .rank = 1};
  if (is == 11)
    c->buffers[1].data = c->buffers[0].data;
  c->mod.scalars = &c->scalar;
  c->mod.scalar_count = 1;
  c->mod.buffers = c->buffers;
  c->mod.buffer_count = 2;
}

static void make_ragged(const shape *s, call *c) {
  attnpress_ragged *r = &c->ragged;
  *r = (attnpress_ragged)ATTNPRESS_RAGGED_INIT;
  r->batch = s->batch;
  r->max_seqlen_q = s->max_rows;
  r->max_seqlen_k = s->max_keys;
  if (s->ragged == 1) {
    r->cu_seqlens_q = place(30);
    if (s->page == 0)
      r->cu_seqlens_k = place(31);
  }
  if (s->ragged == 2 || s->page > 0)
    r->seqused_k = place(32);
  if (s->page > 0) {
    r->page_table = place(33);
    r->page_table_pages = s->keys / s->page;
    r->page_table_v = s->table_v ? place(34) : NULL;
  }
  r->seqlen_k_new = s->new_keys;
  if (s->schedule) {
    r->schedule = place(35);
    assert_ok(attnpress_forward_schedule_bytes(s->batch, &r->schedule_bytes));
  }
}

#define SHARE(args)                                                                                \
  do {                                                                                             \
    (args)->mask = s->mask;                                                                        \
    (args)->window = s->mask == ATTNPRESS_WINDOW ? &c->window : NULL;                              \
    (args)->softcap = s->softcap ? 30.0f : 0.0f;                                                   \
    (args)->alibi = s->alibi ? &c->alibi : NULL;                                                   \
    (args)->bias = s->bias ? &c->bias : NULL;                                                      \
    (args)->sinks = s->sinks ? &c->sinks : NULL;                                                   \
    (args)->dropout = s->dropout ? &c->dropout : NULL;                                             \
    (args)->score_mod = s->mod ? &c->mod : NULL;                                                   \
    (args)->ragged = s->ragged ? &c->ragged : NULL;                                                \
    (args)->scale = (float)s->alpha / 16.0f;                                                       \
    (args)->workspace = s->workspace == 2 ? NULL : place(40);                                      \
    (args)->workspace_bytes = s->workspace == 1 ? 16 : (size_t)1 << 35;                            \
  } while (0)

static void make_attention(const void *from, call *c) {
  const shape *s = from;
  const int packed = s->ragged == 1;
  const int batch = packed ? 1 : s->batch, key_batch = packed && s->page == 0 ? 1 : s->batch;
  const int pages = s->page > 0 ? s->batch * (s->keys / s->page) : key_batch;
  const int keys = s->page > 0 ? s->page : s->keys;
  make_features(s, c);
  make_mod(s, c);
  make_ragged(s, c);
  attnpress_forward_args *f = &c->forward;
  *f = (attnpress_forward_args)ATTNPRESS_FORWARD_ARGS_INIT;
  f->q = tensor_of(s, 0, batch, s->rows, s->heads, s->hdim);
  f->k = tensor_of(s, 1, pages, keys, s->kv_heads, s->hdim);
  f->v = tensor_of(s, 2, pages, keys, s->kv_heads, s->hdim_v);
  f->out = tensor_of(s, 3, batch, s->rows, s->heads, s->hdim_v);
  f->num_splits = s->splits;
  f->batch_invariant = s->invariant;
  f->lse = s->lse ? place(8) : NULL;
  f->reserved_2 = s->reserved;
  SHARE(f);
  attnpress_backward_args *b = &c->backward;
  *b = (attnpress_backward_args)ATTNPRESS_BACKWARD_ARGS_INIT;
  b->q = f->q;
  b->k = f->k;
  b->v = f->v;
  b->out = f->out;
  b->dout = tensor_of(s, 4, batch, s->rows, s->heads, s->hdim_v);
  b->dq = tensor_of(s, 5, batch, s->rows, s->heads, s->hdim);
  b->dk = tensor_of(s, 6, pages, keys, s->kv_heads, s->hdim);
  b->dv = tensor_of(s, 7, pages, keys, s->kv_heads, s->hdim_v);
  b->lse = place(8);
  b->dlse = s->lse ? place(15) : NULL;
  b->reserved = s->reserved;
  b->deterministic = s->deterministic;
  b->accumulate = s->accumulate;
  SHARE(b);
  b->dsinks = s->dsinks ? place(9) : NULL;
  b->dbias = s->dbias ? &c->dbias : NULL;
}

static void make_append(const void *from, call *c) {
  const shape *s = from;
  make_attention(s, c);
  attnpress_append_args *a = &c->append;
  *a = (attnpress_append_args)ATTNPRESS_APPEND_ARGS_INIT;
  a->k_new = tensor_of(s, 10, s->batch, s->tokens, s->kv_heads, s->hdim);
  a->v_new = tensor_of(s, 11, s->batch, s->tokens, s->kv_heads, s->hdim);
  a->k_cache = c->forward.k;
  a->v_cache = c->forward.v;
  a->seqused_k = c->ragged.seqused_k;
  if (s->page > 0) {
    a->page_table = c->ragged.page_table;
    a->max_pages = c->ragged.page_table_pages;
  }
  c->ragged.seqlen_k_new = s->tokens;
  if (s->apart == 1)
    a->k_cache.data = place(16);
  if (s->apart == 2)
    a->v_cache.data = place(16);
  if (s->apart == 3)
    a->seqused_k = place(16);
  if (s->apart == 4 && s->page > 0)
    a->page_table = place(16);
  if (s->apart == 5 && s->page > 0)
    a->page_table_v = place(16);
  if (s->table_v && s->page > 0)
    a->page_table_v = c->ragged.page_table_v;
  if (s->rotary == 0)
    return;
  a->q = tensor_of(s, 12, s->batch, s->tokens, s->heads, s->hdim);
  a->q_out = tensor_of(s, 0, s->batch, s->tokens, s->heads, s->hdim);
  c->forward.q = a->q_out;
  c->forward.out = tensor_of(s, 3, s->batch, s->tokens, s->heads, s->hdim);
  c->rotary = (attnpress_rotary)ATTNPRESS_ROTARY_INIT;
  c->rotary.cos = place(13);
  c->rotary.sin = place(14);
  c->rotary.num_positions = 2 * s->keys;
  c->rotary.rotary_dim = s->rotary;
  c->rotary.dtype = ATTNPRESS_FP32;
  a->rotary = &c->rotary;
  if (s->apart == 6)
    a->q_out.data = place(16);
}

static attnpress_status run_forward(attnpress_handle *handle, const call *c) {
  return attnpress_forward(handle, &c->forward, NULL);
}

static attnpress_status run_backward(attnpress_handle *handle, const call *c) {
  return attnpress_backward(handle, &c->backward, NULL);
}

static attnpress_status run_append_forward(attnpress_handle *handle, const call *c) {
  return attnpress_append_forward(handle, &c->append, &c->forward, NULL);
}

static void *lend_place(ap_lender *lender, size_t bytes) {
  (void)lender;
  (void)bytes;
  return place(41);
}

/** Workspaces that are lent, as extensions' calls have them: arguments have none. */
static attnpress_status run_lent_forward(attnpress_handle *handle, const call *c) {
  attnpress_forward_args args = c->forward;
  ap_lender lender = {.lend = lend_place};
  args.workspace = NULL;
  return ap_forward_lent(handle, &args, NULL, &lender);
}

static attnpress_status run_lent_backward(attnpress_handle *handle, const call *c) {
  attnpress_backward_args args = c->backward;
  ap_lender lender = {.lend = lend_place};
  args.workspace = NULL;
  return ap_backward_lent(handle, &args, NULL, &lender);
}

/* ---- Layer norm ------------------------------------------------------------------------------ */

typedef struct norm_shape {
  int32_t rows, columns, dtype, param_dtype, rms;
  int32_t x_shift, second_shift, y_shift, weight_shift, bias_shift; /* bytes behind a vector */
  int32_t x_stride, second_stride, y_stride;                        /* 0: columns */
  int32_t no_weight, no_bias, residual, y_is_x, sum_is_x, sum_is_residual;
  int32_t dsum, dx_is_x, dx_is_dy, no_dweight, no_dbias; /* backward */
} norm_shape;

#define NORM_CHANGE(name, value)                                                                   \
  { #name, offsetof(norm_shape, name), value }

static const norm_shape norm = {
    .rows = 4096, .columns = 1024, .dtype = ATTNPRESS_BF16, .param_dtype = ATTNPRESS_BF16};
/** Columns that do not change with strides. */
static const norm_shape wide_norm = {.rows = 4096,
                                     .columns = 1024,
                                     .dtype = ATTNPRESS_BF16,
                                     .param_dtype = ATTNPRESS_BF16,
                                     .x_stride = 65536,
                                     .second_stride = 65536,
                                     .y_stride = 65536};
static const norm_shape odd_norm = {
    .rows = 4096, .columns = 12001, .dtype = ATTNPRESS_BF16, .param_dtype = ATTNPRESS_BF16};

static const change norm_changes[] = {
    NORM_CHANGE(rows, 100),
    NORM_CHANGE(columns, 8201),
    NORM_CHANGE(columns, 40960),
    NORM_CHANGE(dtype, ATTNPRESS_FP32),
    NORM_CHANGE(param_dtype, ATTNPRESS_FP32),
    NORM_CHANGE(rms, 1),
    NORM_CHANGE(x_shift, 2),
    NORM_CHANGE(second_shift, 2),
    NORM_CHANGE(y_shift, 2),
    NORM_CHANGE(weight_shift, 4),
    NORM_CHANGE(bias_shift, 4),
    NORM_CHANGE(x_stride, 12008),
    NORM_CHANGE(second_stride, 12008),
    NORM_CHANGE(y_stride, 12008),
    NORM_CHANGE(x_stride, 12011),
    NORM_CHANGE(no_weight, 1),
    NORM_CHANGE(no_bias, 1),
    NORM_CHANGE(residual, 1),
    NORM_CHANGE(y_is_x, 1),
    NORM_CHANGE(sum_is_x, 1),
    NORM_CHANGE(sum_is_residual, 1),
    NORM_CHANGE(dsum, 1),
    NORM_CHANGE(dx_is_x, 1),
    NORM_CHANGE(dx_is_dy, 1),
    NORM_CHANGE(no_dweight, 1),
    NORM_CHANGE(no_dbias, 1),
};

static void *shifted(int which, int32_t bytes) {
  return (char *)place(which) + bytes;
}

static void make_norm(const void *from, call *c) {
  const norm_shape *s = from;
  const int has_sum = s->residual || s->sum_is_x || s->sum_is_residual;
  void *x = shifted(0, s->x_shift);
  c->norm = (attnpress_layernorm_args)ATTNPRESS_LAYERNORM_ARGS_INIT;
  attnpress_layernorm_args *f = &c->norm;
  f->x = x;
  f->residual = has_sum ? shifted(1, s->second_shift) : NULL;
  f->weight = s->no_weight ? NULL : shifted(2, s->weight_shift);
  f->bias = s->no_bias || s->rms ? NULL : shifted(3, s->bias_shift);
  f->y = s->y_is_x ? x : shifted(4, s->y_shift);
  f->sum = !has_sum             ? NULL
           : s->sum_is_x        ? x
           : s->sum_is_residual ? shifted(1, s->second_shift)
                                : place(5);
  f->rows = s->rows;
  f->columns = s->columns;
  f->x_row_stride = s->x_stride;
  f->residual_row_stride = s->second_stride;
  f->sum_row_stride = s->sum_is_x ? s->x_stride : s->second_stride;
  f->y_row_stride = s->y_is_x ? s->x_stride : s->y_stride;
  f->dtype = s->dtype;
  f->param_dtype = s->param_dtype;
  f->rms = s->rms;
  c->norm_backward = (attnpress_layernorm_backward_args)ATTNPRESS_LAYERNORM_BACKWARD_ARGS_INIT;
  attnpress_layernorm_backward_args *b = &c->norm_backward;
  b->x = x;
  b->dy = shifted(1, s->second_shift);
  b->weight = f->weight;
  b->dsum = s->dsum ? place(6) : NULL;
  b->mean = s->rms ? NULL : place(7);
  b->rstd = place(8);
  b->dx = s->dx_is_x ? x : s->dx_is_dy ? shifted(1, s->second_shift) : shifted(9, s->y_shift);
  b->dweight = s->no_dweight ? NULL : place(10);
  b->dbias = s->no_dbias ? NULL : place(11);
  b->rows = s->rows;
  b->columns = s->columns;
  b->x_row_stride = s->x_stride;
  b->dy_row_stride = b->dsum_row_stride = s->second_stride;
  b->dx_row_stride = s->dx_is_x ? s->x_stride : s->y_stride;
  b->dtype = s->dtype;
  b->param_dtype = s->param_dtype;
  b->rms = s->rms;
  b->workspace = place(40);
  b->workspace_bytes = (size_t)1 << 35;
}

static attnpress_status run_norm(attnpress_handle *handle, const call *c) {
  return attnpress_layernorm(handle, &c->norm, NULL);
}

static attnpress_status run_norm_backward(attnpress_handle *handle, const call *c) {
  return attnpress_layernorm_backward(handle, &c->norm_backward, NULL);
}

/* ---- What is launched ------------------------------------------------------------------------ */

typedef struct outcome {
  attnpress_status status;
  int launches, clears;
  fake_launch launch[8];
} outcome;

static void run(attnpress_handle *handle, run_function *function, const call *c, outcome *found) {
  memset(found, 0, sizeof *found);
  cuda->launches = cuda->clears = 0;
  found->status = function(handle, c);
  found->clears = cuda->clears;
  found->launches = cuda->launches;
  assert_in_range(found->launches, 0, 8);
  memcpy(found->launch, cuda->launch, (size_t)found->launches * sizeof *found->launch);
}

static int is_same(const outcome *a, const outcome *b) {
  int same = a->status == b->status && a->launches == b->launches && a->clears == b->clears;
  for (int i = 0; same && i < a->launches; ++i) {
    const fake_launch *l = &a->launch[i], *o = &b->launch[i];
    same = strcmp(l->symbol, o->symbol) == 0 && l->image == o->image && l->grid == o->grid &&
           l->block == o->block && l->smem_bytes == o->smem_bytes && l->overlaps == o->overlaps &&
           l->together == o->together && l->cluster == o->cluster &&
           memcmp(l->args, o->args, sizeof l->args) == 0;
  }
  return same;
}

/** Calls that a handle knows of its one context, of which that came; AP_NONE_RAN: all of them. */
static int count_calls(attnpress_handle *handle, int came) {
  ap_context *context;
  int count = 0;
  assert_ok(ap_context_of(handle, NULL, &context));
  for (int set = 0; set < AP_RECALL_SETS; ++set)
    for (int way = 0; way < AP_RECALL_WAYS; ++way) {
      const ap_recall_entry *entry = &context->calls.entries[set][way];
      if (entry->key_words > 0)
        count += came == AP_NONE_RAN ||
                 ap_kept_came((const void *)(entry->memory + entry->key_words)) == came;
    }
  return count;
}

enum { BYTES_MAX = 512 };

/** The call and each of its changes, one after the other and once more, in one handle, which keeps them
 * then; and twice at other addresses. Each alone, in a handle of its own, which does not. `cannot`: those
 * whose blocks have the distance of two addresses, V's table from K's. */
static void check(run_function *function, void (*make)(const void *from, call *c), const void *from,
                  size_t bytes, const change *changes, int count, int cannot) {
  static call c;
  static outcome alone, among;
  static const int moved_in_round[] = {0, 0, 1, 3};
  attnpress_handle *handle = make_handle();
  int ran = 0;
  for (int round = 0; round < 4; ++round)
    for (int i = -1; i < count; ++i) {
      _Alignas(8) unsigned char changed[BYTES_MAX];
      memcpy(changed, from, bytes);
      if (i >= 0)
        memcpy(changed + changes[i].offset, &changes[i].value, sizeof changes[i].value);
      everything_moved = moved_in_round[round];
      make(changed, &c);
      attnpress_handle *own = make_handle();
      run(own, function, &c, &alone);
      attnpress_destroy(own);
      const int before = count_calls(handle, AP_NONE_RAN);
      run(handle, function, &c, &among);
      if (!is_same(&alone, &among))
        fail_msg("round %d, %s %d: %d, %s, %d launches, grid %u; alone %d, %s, %d, %u", round,
                 i >= 0 ? changes[i].field : "as it is", i >= 0 ? (int)changes[i].value : 0,
                 among.status, among.launch[0].symbol, among.launches, among.launch[0].grid,
                 alone.status, alone.launch[0].symbol, alone.launches, alone.launch[0].grid);
      ran += alone.status == ATTNPRESS_OK && round == 0;
      if (round > 0) /* what ran is known already */
        assert_int_equal(count_calls(handle, AP_NONE_RAN), before);
    }
  everything_moved = 0;
  assert_in_range(ran, count * 2 / 3, count + 1);
  /* Some changes are of what the function does not have, and some fall on each other. */
  assert_in_range(count_calls(handle, AP_IS_KEPT), ran / 3, ran);
  assert_in_range(count_calls(handle, AP_CANNOT_BE_KEPT), 0, cannot);
  attnpress_destroy(handle);
}

#define CHECK_ALL_BUT(cannot, function, make, from, changes)                                       \
  check(function, make, &(from), sizeof(from), changes,                                            \
        (int)(sizeof(changes) / sizeof *(changes)), cannot)
#define CHECK(function, make, from, changes) CHECK_ALL_BUT(0, function, make, from, changes)

static void test_forward(void **state) {
  (void)state;
  CHECK(run_forward, make_attention, dense, dense_changes);
  CHECK(run_forward, make_attention, window, window_changes);
  shape mod = dense;
  mod.mod = 1;
  CHECK(run_forward, make_attention, mod, mod_changes);
  CHECK(run_forward, make_attention, sequences, sequences_changes);
  CHECK(run_forward, make_attention, decode, decode_changes);
  shape pages = sequences;
  pages.page = 64;
  CHECK_ALL_BUT(1, run_forward, make_attention, pages, pages_changes);
  pages.invariant = 1;
  CHECK_ALL_BUT(1, run_forward, make_attention, pages, pages_changes);
  CHECK(run_lent_forward, make_attention, dense, dense_changes);
  CHECK(run_lent_forward, make_attention, decode, decode_changes);
}

static void test_backward(void **state) {
  (void)state;
  CHECK(run_backward, make_attention, dense, dense_changes);
  CHECK(run_backward, make_attention, window, window_changes);
  shape mod = dense;
  mod.mod = 1;
  CHECK(run_backward, make_attention, mod, mod_changes);
  CHECK(run_backward, make_attention, sequences, sequences_changes);
  CHECK(run_lent_backward, make_attention, dense, dense_changes);
  CHECK(run_lent_backward, make_attention, sequences, sequences_changes);
}

static void test_append_forward(void **state) {
  (void)state;
  CHECK(run_append_forward, make_append, decode, decode_changes);
  CHECK(run_append_forward, make_append, prompts, prompts_changes);
  shape pages = decode;
  pages.page = 16;
  CHECK_ALL_BUT(1, run_append_forward, make_append, pages, table_changes);
}

static void test_layernorm(void **state) {
  (void)state;
  norm_shape apart = norm; /* where gradients over dy are refused */
  apart.y_stride = 2048;
  CHECK(run_norm, make_norm, norm, norm_changes);
  CHECK(run_norm, make_norm, odd_norm, norm_changes);
  CHECK(run_norm, make_norm, wide_norm, norm_changes);
  CHECK(run_norm_backward, make_norm, norm, norm_changes);
  CHECK(run_norm_backward, make_norm, odd_norm, norm_changes);
  CHECK(run_norm_backward, make_norm, wide_norm, norm_changes);
  CHECK(run_norm_backward, make_norm, apart, norm_changes);
}

/** Runs a call that is to ask the driver for so many maps, and for so many addresses in others. */
static void run_for_maps(attnpress_handle *handle, run_function *function, const call *c, int maps,
                         int moved) {
  static outcome alone, among;
  attnpress_handle *own = make_handle();
  run(own, function, c, &alone);
  attnpress_destroy(own);
  const int maps_before = cuda->maps, moved_before = cuda->moved_maps;
  run(handle, function, c, &among);
  assert_int_equal(cuda->maps - maps_before, maps);
  assert_int_equal(cuda->moved_maps - moved_before, moved);
  assert_int_equal(among.status, ATTNPRESS_OK);
  assert_true(is_same(&alone, &among));
}

/** No maps are made of a call that is kept: the driver is told of other addresses. Where it cannot be,
 * calls that have maps are not kept. */
static void test_maps(void **state) {
  (void)state;
  static call c;
  shape batch_invariant = sequences;
  batch_invariant.page = 64;
  batch_invariant.invariant = 1;
  const struct {
    run_function *function;
    const shape *of;
    int maps;
  } rows[] = {{run_forward, &dense, 3},
              {run_forward, &sequences, 3},
              {run_forward, &batch_invariant, 3},
              {run_backward, &dense, 4},
              {run_backward, &sequences, 4}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    run_function *function = rows[i].function;
    shape s = *rows[i].of;
    attnpress_handle *handle = make_handle();
    make_attention(&s, &c);
    run_for_maps(handle, function, &c, rows[i].maps, 0);
    run_for_maps(handle, function, &c, rows[i].maps, 0);
    run_for_maps(handle, function, &c, 0, 0);
    s.moved = 1;
    make_attention(&s, &c);
    run_for_maps(handle, function, &c, 0, rows[i].maps);
    s.gap_in = 2;
    make_attention(&s, &c);
    run_for_maps(handle, function, &c, rows[i].maps, 0);
    run_for_maps(handle, function, &c, rows[i].maps, 0);
    s.moved = 0;
    make_attention(&s, &c);
    run_for_maps(handle, function, &c, 0, rows[i].maps);
    s.gap_in = 0;
    make_attention(&s, &c);
    run_for_maps(handle, function, &c, 0, 0);
    attnpress_destroy(handle);
    handle = make_handle();
    handle->driver.tensor_map_replace_address = NULL;
    run_for_maps(handle, function, &c, rows[i].maps, 0);
    run_for_maps(handle, function, &c, rows[i].maps, 0);
    s.moved = 1;
    make_attention(&s, &c);
    run_for_maps(handle, function, &c, rows[i].maps, 0);
    assert_int_equal(count_calls(handle, AP_CANNOT_BE_KEPT), 1);
    attnpress_destroy(handle);
  }
}

enum { THREADS = 4, CALLS = FAKE_LAUNCHES_MAX / THREADS };

typedef struct thread_calls {
  attnpress_handle *handle;
  CUcontext context;
  CUstream stream;
  shape of;
} thread_calls;

static void *run_calls(void *of) {
  const thread_calls *t = of;
  call *c = calloc(1, sizeof *c);
  int failed = 0;
  cuda->context_set(t->context);
  make_attention(&t->of, c);
  for (int i = 0; i < CALLS; ++i)
    failed += attnpress_forward(t->handle, &c->forward, t->stream) != ATTNPRESS_OK;
  free(c);
  return (void *)(uintptr_t)(unsigned)failed;
}

/** Threads that share a plan have each their own addresses. */
static void test_threads(void **state) {
  (void)state;
  static thread_calls of[THREADS];
  pthread_t threads[THREADS];
  static call c;
  attnpress_handle *handle = make_handle();
  make_attention(&dense, &c);
  assert_ok(run_forward(handle, &c));
  cuda->launches = 0;
  for (int i = 0; i < THREADS; ++i) {
    of[i] =
        (thread_calls){handle, cuda->context_get(), cuda->stream_new(cuda->context_get()), dense};
    of[i].of.moved = i;
    assert_int_equal(pthread_create(&threads[i], NULL, run_calls, &of[i]), 0);
  }
  for (int i = 0; i < THREADS; ++i) {
    void *failed;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  assert_int_equal(cuda->launches, THREADS * CALLS);
  for (int i = 0; i < THREADS * CALLS; ++i) {
    attnpress_fwd_sm90_args args;
    fake_map map;
    memcpy(&args, cuda->launch[i].args, sizeof args);
    memcpy(&map, &args.k, sizeof map);
    int thread = 0;
    while (of[thread].stream != cuda->launch[i].stream)
      ++thread;
    assert_true(map.address == (uintptr_t)place(1) + 4096 * (uintptr_t)thread);
  }
  attnpress_destroy(handle);
  for (int i = 0; i < THREADS; ++i)
    cuda->stream_free(of[i].stream);
}

/** A call is known by what is given except addresses, and dropout's numbers. It is kept when it runs
 * again. */
static void test_kept(void **state) {
  (void)state;
  static call c;
  attnpress_handle *handle = make_handle();
  shape s = dense;
  s.dropout = 1;
  make_attention(&s, &c);
  make_norm(&norm, &c);
  for (int i = 0; i < 3; ++i) {
    c.forward.q.data = place(50 + i);
    c.backward.dq.data = place(50 + i);
    c.dropout.offset = 4 + 4 * (uint64_t)i;
    c.norm.x = place(50 + i);
    assert_ok(run_forward(handle, &c));
    assert_ok(run_backward(handle, &c));
    assert_ok(run_norm(handle, &c));
    assert_int_equal(count_calls(handle, AP_ONE_RAN), i == 0 ? 3 : 0);
    assert_int_equal(count_calls(handle, AP_IS_KEPT), i == 0 ? 0 : 3);
  }
  c.forward.scale = 0.25f;
  assert_ok(run_forward(handle, &c));
  assert_int_equal(count_calls(handle, AP_ONE_RAN), 1);
  attnpress_destroy(handle);
}

/** Numbers of dropout that are 0 for a while, or change. */
static void test_numbers(void **state) {
  (void)state;
  static call c;
  static outcome alone, among;
  static const uint64_t seeds[] = {0, 0, 0, 5, 0, 5, UINT64_MAX, 0};
  attnpress_handle *handle = make_handle();
  shape s = dense;
  s.dropout = 1;
  for (size_t i = 0; i < sizeof seeds / sizeof *seeds; ++i) {
    attnpress_handle *own = make_handle();
    make_attention(&s, &c);
    c.dropout.seed = seeds[i];
    c.dropout.offset = i < 4 ? 0 : 4 * i;
    run(own, run_forward, &c, &alone);
    run(handle, run_forward, &c, &among);
    assert_true(is_same(&alone, &among));
    attnpress_destroy(own);
  }
  attnpress_destroy(handle);
}

/** Nothing is known of calls of a handle that checks what index arrays hold, which may change. */
static void test_checking(void **state) {
  (void)state;
  static call c;
  attnpress_handle *handle = make_handle();
  handle->check = 1;
  make_attention(&dense, &c);
  for (int i = 0; i < 3; ++i)
    assert_ok(run_forward(handle, &c));
  assert_int_equal(count_calls(handle, AP_NONE_RAN), 0);
  attnpress_destroy(handle);
}

/** Contexts that come at one address after the other, of devices of different generations: what was
 * planned for one is no other's, nor are its kernels. */
static void test_contexts(void **state) {
  (void)state;
  static call c;
  static outcome alone, among;
  make_attention(&dense, &c);
  attnpress_handle *handle = make_handle();
  CUcontext own = cuda->context_get(), at = NULL;
  cuda->capability_of[0] = 90;
  cuda->capability_of[1] = 86;
  for (int round = 0; round < 6; ++round) {
    CUcontext context = cuda->context_new(round / 2 % 2);
    assert_true(at == NULL || context == at);
    at = context;
    cuda->context_set(context);
    attnpress_handle *fresh = make_handle();
    run(fresh, run_forward, &c, &alone);
    attnpress_destroy(fresh);
    assert_int_equal(alone.status, ATTNPRESS_OK);
    for (int times = 0; times < 3; ++times) {
      run(handle, run_forward, &c, &among);
      assert_true(is_same(&alone, &among));
    }
    cuda->context_free(context);
  }
  attnpress_destroy(handle);
  cuda->context_set(own);
}

static attnpress_status run_on(attnpress_handle *handle, const call *c, CUstream stream) {
  cuda->launches = 0;
  return attnpress_forward(handle, &c->forward, stream);
}

/** A stream that comes at the address of one that was another context's runs in its own. */
static void test_streams(void **state) {
  (void)state;
  static call c;
  make_attention(&dense, &c);
  attnpress_handle *handle = make_handle();
  CUcontext own = cuda->context_get(), contexts[2] = {cuda->context_new(0), cuda->context_new(0)};
  CUstream last = NULL;
  int again = 0;
  for (int round = 0; round < 16; ++round) {
    CUcontext context = contexts[round / 2 % 2];
    CUstream stream = cuda->stream_new(context);
    again += stream == last;
    last = stream;
    for (int times = 0; times < 2; ++times) {
      assert_ok(run_on(handle, &c, stream));
      assert_ptr_equal(cuda->launch[0].context, context);
      assert_ptr_equal(cuda->launch[0].stream, stream);
    }
    cuda->stream_free(stream);
  }
  assert_in_range(again, 1, 16); /* else nothing was tested */
  attnpress_destroy(handle);
  cuda->context_set(own);
  for (int i = 0; i < 2; ++i)
    cuda->context_free(contexts[i]);
}

/** A stream that is captured is asked nothing that would end the capture, whether calls on it are kept
 * already, are kept meanwhile, or are noted. */
static void test_captured(void **state) {
  (void)state;
  static call c;
  static outcome alone, among;
  for (int before = 1; before <= 3; ++before) { /* calls: the first loads kernels */
    shape s = dense;
    make_attention(&s, &c);
    attnpress_handle *handle = make_handle(), *own = make_handle();
    CUstream stream = cuda->stream_new(cuda->context_get());
    for (int i = 0; i < before; ++i)
      assert_ok(run_on(handle, &c, stream));
    if (before == 1) { /* another call of the same kernels, which is not known yet */
      s.alpha = 3;
      make_attention(&s, &c);
    }
    run(own, run_forward, &c, &alone);
    attnpress_destroy(own);
    cuda->stream_capture(stream, 1);
    for (int i = 0; i < 3; ++i) {
      assert_ok(run_on(handle, &c, stream));
      among = (outcome){ATTNPRESS_OK, cuda->launches, cuda->clears, {cuda->launch[0]}};
      assert_true(is_same(&alone, &among));
    }
    cuda->stream_capture(stream, 0);
    assert_int_equal(count_calls(handle, AP_IS_KEPT), 1);
    cuda->stream_free(stream);
    attnpress_destroy(handle);
  }
}

static int set_up_all(void **state) {
  setenv("FAKE_CUDA_DEVICES", "2", 1);
  const int status = set_up_attention(state);
  cuda->args_of("append_write", sizeof(attnpress_append_write_args));
  cuda->args_of("layernorm_fwd", sizeof(attnpress_layernorm_fwd_args));
  cuda->args_of("layernorm_bwd", sizeof(attnpress_layernorm_bwd_args));
  cuda->args_of("layernorm_bwd_reduce", sizeof(attnpress_layernorm_reduce_args));
  return status;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_forward), TEST(test_backward), TEST(test_append_forward), TEST(test_layernorm),
      TEST(test_maps),    TEST(test_threads),  TEST(test_kept),           TEST(test_contexts),
      TEST(test_streams), TEST(test_captured), TEST(test_numbers),        TEST(test_checking),
  };
  return cmocka_run_group_tests(tests, set_up_all, tear_down_group);
}
