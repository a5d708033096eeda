#include "reference_backward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/defaults.h"
#include "cpu/element.h"

/* ---- The forward pass ------------------------------------------------------------------------ */

static int64_t row_offset(const attnpress_backward_args *a, const int64_t stride[2], int64_t batch,
                          int64_t row, int64_t head) {
  const int contiguous = stride[0] == 0 && stride[1] == 0;
  const int64_t by_head = contiguous ? a->q.shape[1] : stride[1];
  const int64_t by_batch = contiguous ? a->q.shape[1] * a->q.shape[2] : stride[0];
  return batch * by_batch + head * by_head + row;
}

int reference_fill_forward_batch(const attnpress_backward_args *args, int64_t b) {
  const attnpress_forward_args forward = ap_forward_of(args);
  const attnpress_tensor *out = &args->out;
  reference r;
  if (reference_init(&r, &forward) != 0)
    return -1;
  for (int64_t h = 0; h < out->shape[2]; ++h)
    for (int64_t i = 0; i < out->shape[1]; ++i) {
      reference_row(&r, b, i, h);
      for (int64_t c = 0; c < out->shape[3]; ++c)
        reference_store(out, b, i, h, c, (float)r.out[c]);
      ((float *)ATTNPRESS_DATA(args->lse))[row_offset(args, args->lse_stride, b, i, h)] =
          (float)r.lse;
    }
  reference_free(&r);
  return 0;
}

int reference_fill_forward(const attnpress_backward_args *args) {
  for (int64_t b = 0; b < args->out.shape[0]; ++b)
    if (reference_fill_forward_batch(args, b) != 0)
      return -1;
  return 0;
}

/* ---- The gradients of one key head ----------------------------------------------------------- */

enum { ARRAYS = 20 };

/* Rows of float64 and of the low precision; of a query row, and of all keys of a key head. */
typedef struct gradients {
  const attnpress_backward_args *args;
  attnpress_forward_args forward; /* the call before */
  ap_dropout dropout;
  int64_t keys, hdim, hdim_v, group;
  double scale;
  float *k, *v, *q, *dout;           /* (keys, hdim), (keys, hdim_v), (hdim), (hdim_v) */
  double *dk, *dv, *dq;              /* as k, v, q */
  float *low_dk, *low_dv, *low_dq;   /* the same */
  double *p, *dp, *slope;            /* (keys) */
  float *low_p, *low_dp, *low_slope; /* (keys) */
  snippet *mod;                      /* of a score_mod; NULL: none */
  double *bias;                      /* (keys): the row's share of the gradient by the bias */
  float *low_bias;
  double *given; /* (keys): what the snippet was given */
  float *low_given;
  void *arrays[ARRAYS]; /* all of them, to be freed */
  int array_count, failed;
} gradients;

static void *floats(gradients *g, int64_t count, size_t bytes) {
  void *array = malloc((size_t)(count + 1) * bytes); /* + 1: malloc(0) may be NULL */
  g->arrays[g->array_count++] = array;
  g->failed |= array == NULL;
  return array;
}

static void gradients_free(gradients *g) {
  for (int i = 0; i < g->array_count; ++i)
    free(g->arrays[i]);
  snippet_free(g->mod);
}

static int gradients_init(gradients *g, const attnpress_backward_args *a) {
  const int64_t n = a->k.shape[1], hdim = a->q.shape[3], hdim_v = a->v.shape[3];
  *g = (gradients){.args = a,
                   .forward = ap_forward_of(a),
                   .dropout = ap_dropout_of(a->dropout),
                   .keys = n,
                   .hdim = hdim,
                   .hdim_v = hdim_v,
                   .group = a->k.shape[2] ? a->q.shape[2] / a->k.shape[2] : 0,
                   .scale = a->scale > 0.0f ? (double)a->scale : 1.0 / sqrt((double)hdim)};
  g->k = floats(g, n * hdim, sizeof(float));
  g->v = floats(g, n * hdim_v, sizeof(float));
  g->q = floats(g, hdim, sizeof(float));
  g->dout = floats(g, hdim_v, sizeof(float));
  g->dk = floats(g, n * hdim, sizeof(double));
  g->dv = floats(g, n * hdim_v, sizeof(double));
  g->dq = floats(g, hdim, sizeof(double));
  g->low_dk = floats(g, n * hdim, sizeof(float));
  g->low_dv = floats(g, n * hdim_v, sizeof(float));
  g->low_dq = floats(g, hdim, sizeof(float));
  g->p = floats(g, n, sizeof(double));
  g->dp = floats(g, n, sizeof(double));
  g->low_p = floats(g, n, sizeof(float));
  g->low_dp = floats(g, n, sizeof(float));
  g->slope = floats(g, n, sizeof(double));
  g->low_slope = floats(g, n, sizeof(float));
  g->bias = floats(g, n, sizeof(double));
  g->low_bias = floats(g, n, sizeof(float));
  g->given = floats(g, n, sizeof(double));
  g->low_given = floats(g, n, sizeof(float));
  char why[256];
  if (a->score_mod != NULL)
    g->mod = snippet_parse(a->score_mod, why, sizeof why);
  if (!g->failed && (a->score_mod == NULL || g->mod != NULL))
    return 0;
  gradients_free(g);
  return -1;
}

static void load(float *to, const attnpress_tensor *t, int64_t batch, int64_t first, int64_t rows,
                 int64_t head) {
  for (int64_t row = first; row < first + rows; ++row)
    for (int64_t c = 0; c < t->shape[3]; ++c)
      *to++ = reference_load(t, batch, row, head, c);
}

static double dot(const float *a, const float *b, int64_t n) {
  double lanes[8] = {0};
  for (int64_t i = 0; i < n; i += 8)
    for (int l = 0; l < 8; ++l)
      lanes[l] += (double)a[i + l] * (double)b[i + l];
  return lanes[0] + lanes[1] + lanes[2] + lanes[3] + lanes[4] + lanes[5] + lanes[6] + lanes[7];
}

static float low_dot(const float *a, const float *b, int64_t n) {
  float lanes[8] = {0};
  for (int64_t i = 0; i < n; i += 8)
    for (int l = 0; l < 8; ++l)
      lanes[l] += a[i + l] * b[i + l];
  return lanes[0] + lanes[1] + lanes[2] + lanes[3] + lanes[4] + lanes[5] + lanes[6] + lanes[7];
}

/* What dropout makes of the probability of a key: 0, or 1 / (1 - probability). */
static double kept(const gradients *g, reference_query q, int64_t key) {
  const ap_dropout *d = &g->dropout;
  return d->threshold == 0 ||
                 ap_dropout_keeps(d, q.batch * g->args->q.shape[2] + q.head, q.row, key)
             ? (double)d->scale
             : 0.0;
}

static int sees(const gradients *g, reference_query q, int64_t key) {
  const snippet_place place = reference_place(&g->forward, q, key);
  return reference_sees(&g->forward, q.row, key) &&
         (g->mod == NULL || snippet_keeps(g->mod, &place));
}

/* What a snippet makes of a score; *slope: of that score, which becomes that of the new one. */
static double passed(const gradients *g, reference_query q, int64_t key, double score,
                     double *slope) {
  double own = 1.0;
  const snippet_place place = reference_place(&g->forward, q, key);
  if (g->mod != NULL)
    score = snippet_score_slope(g->mod, score, &place, &own);
  *slope *= own;
  return score;
}

/* One row's share of dK and dV, and its dQ, in float64; its share of the gradient by the sink is
 * returned. The derivative of a softcap and a snippet waits in `slope`. */
static double row_in_float64(gradients *g, reference_query q, double dlse) {
  const attnpress_forward_args *a = &g->forward;
  const double cap = (double)a->softcap, sink = reference_sink(a, q);
  double max = sink, sum = 0.0, delta = -dlse;
  for (int64_t j = 0; j < g->keys; ++j) {
    g->p[j] = -INFINITY;
    if (!sees(g, q, j))
      continue;
    double score = dot(g->q, g->k + j * g->hdim, g->hdim) * g->scale, t = 0.0;
    if (cap > 0.0)
      score = cap * (t = tanh(score / cap));
    g->slope[j] = 1.0 - t * t;
    g->given[j] = score;
    score = passed(g, q, j, score, &g->slope[j]);
    g->p[j] = score + reference_bias(a, q, j) + reference_alibi(a, q, j);
    max = fmax(max, g->p[j]);
  }
  memset(g->dq, 0, (size_t)g->hdim * sizeof *g->dq);
  memset(g->bias, 0, (size_t)g->keys * sizeof *g->bias);
  if (max == -INFINITY)
    return 0.0;
  sum = exp(sink - max);
  for (int64_t j = 0; j < g->keys; ++j)
    sum += g->p[j] = exp(g->p[j] - max);
  for (int64_t j = 0; j < g->keys; ++j) {
    g->p[j] /= sum;
    if (g->p[j] == 0.0) /* V of keys that are not seen may be anything */
      continue;
    g->dp[j] = dot(g->dout, g->v + j * g->hdim_v, g->hdim_v) * kept(g, q, j);
    delta += g->p[j] * g->dp[j];
  }
  for (int64_t j = 0; j < g->keys; ++j) {
    if (g->p[j] == 0.0)
      continue;
    g->bias[j] = g->p[j] * (g->dp[j] - delta);
    const double ds = g->bias[j] * g->slope[j] * g->scale;
    const double p = g->p[j] * kept(g, q, j);
    for (int64_t c = 0; c < g->hdim; ++c) {
      g->dq[c] += ds * (double)g->k[j * g->hdim + c];
      g->dk[j * g->hdim + c] += ds * (double)g->q[c];
    }
    for (int64_t c = 0; c < g->hdim_v; ++c)
      g->dv[j * g->hdim_v + c] += p * (double)g->dout[c];
  }
  return -exp(sink - max) / sum * delta;
}

/* rowsum(dO out) of the rounded output. Dropout makes few terms of it large; where they are all of a
 * row, dS is what this rounding leaves of it. */
static float low_delta_of_out(const gradients *g, reference_query q) {
  float delta = 0.0f;
  for (int64_t c = 0; c < g->hdim_v; ++c)
    delta += reference_load(&g->args->out, q.batch, q.row, q.head, c) * g->dout[c];
  return delta;
}

static void row_in_low_precision(gradients *g, reference_query q, float dlse) {
  const attnpress_forward_args *a = &g->forward;
  const int32_t dtype = a->q.dtype;
  const float scale = (float)g->scale, sink = (float)reference_sink(a, q);
  float max = sink, sum = 0.0f, delta = -dlse;
  for (int64_t j = 0; j < g->keys; ++j) {
    g->low_p[j] = -INFINITY;
    if (!sees(g, q, j))
      continue;
    float score = reference_round(low_dot(g->q, g->k + j * g->hdim, g->hdim) * scale, dtype);
    float t = 0.0f;
    if (a->softcap > 0.0f) {
      t = tanhf(score / a->softcap);
      score = reference_round(a->softcap * t, dtype);
    }
    double slope = (double)(1.0f - t * t);
    g->low_given[j] = score;
    if (g->mod != NULL)
      score = reference_round((float)passed(g, q, j, (double)score, &slope), dtype);
    g->low_slope[j] = (float)slope;
    if (a->bias != NULL)
      score = reference_round(score + (float)reference_bias(a, q, j), dtype);
    if (a->alibi != NULL)
      score = reference_round(score + (float)reference_alibi(a, q, j), dtype);
    g->low_p[j] = score;
    max = fmaxf(max, score);
  }
  memset(g->low_dq, 0, (size_t)g->hdim * sizeof *g->low_dq);
  memset(g->low_bias, 0, (size_t)g->keys * sizeof *g->low_bias);
  if (max == -INFINITY)
    return;
  sum = expf(sink - max);
  for (int64_t j = 0; j < g->keys; ++j)
    sum += g->low_p[j] = expf(g->low_p[j] - max);
  for (int64_t j = 0; j < g->keys; ++j) {
    if (g->low_p[j] == 0.0f)
      continue;
    g->low_p[j] = reference_round(g->low_p[j] / sum, dtype);
    g->low_dp[j] = reference_round(
        low_dot(g->dout, g->v + j * g->hdim_v, g->hdim_v) * (float)kept(g, q, j), dtype);
    delta += g->low_p[j] * g->low_dp[j];
  }
  if (g->dropout.threshold > 0)
    delta = low_delta_of_out(g, q) - dlse;
  for (int64_t j = 0; j < g->keys; ++j) {
    if (g->low_p[j] == 0.0f)
      continue;
    float ds = g->low_bias[j] = reference_round(g->low_p[j] * (g->low_dp[j] - delta), dtype);
    if (a->softcap > 0.0f || g->mod != NULL)
      ds = reference_round(ds * g->low_slope[j], dtype);
    ds *= scale;
    const float p = g->low_p[j] * (float)kept(g, q, j);
    for (int64_t c = 0; c < g->hdim; ++c) {
      g->low_dq[c] += ds * g->k[j * g->hdim + c];
      g->low_dk[j * g->hdim + c] += ds * g->q[c];
    }
    for (int64_t c = 0; c < g->hdim_v; ++c)
      g->low_dv[j * g->hdim_v + c] += p * g->dout[c];
  }
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static double difference(double value, double expected) {
  if (value == expected)
    return 0.0;
  const double d = fabs(value - expected);
  return isnan(d) ? INFINITY : d;
}

static void check_row(reference_gradient *e, const attnpress_tensor *t, const float *before,
                      const double *ref, const float *low, int64_t batch, int64_t row,
                      int64_t head) {
  for (int64_t c = 0; c < t->shape[3]; ++c) {
    const double there =
        before
            ? (double)before[((batch * t->shape[1] + row) * t->shape[2] + head) * t->shape[3] + c]
            : 0.0;
    const double expected = ref[c] + there;
    const double value = (double)reference_load(t, batch, row, head, c);
    const double error = difference(value, expected);
    if (error > e->error || e->elements == 0) {
      e->error = error;
      e->value = value;
      e->expected = expected;
      memcpy(e->at, (int64_t[]){batch, row, head, c}, sizeof e->at);
    }
    const double rounded = (double)reference_round(low[c] + (float)there, t->dtype);
    e->low = fmax(e->low, difference(rounded, expected));
    ++e->elements;
  }
}

/** K and V of a key head, and zeros for their gradients. */
static void begin_key_head(gradients *g, int64_t batch, int64_t kv_head) {
  load(g->k, &g->args->k, batch, 0, g->keys, kv_head);
  load(g->v, &g->args->v, batch, 0, g->keys, kv_head);
  memset(g->dk, 0, (size_t)(g->keys * g->hdim) * sizeof *g->dk);
  memset(g->dv, 0, (size_t)(g->keys * g->hdim_v) * sizeof *g->dv);
  memset(g->low_dk, 0, (size_t)(g->keys * g->hdim) * sizeof *g->low_dk);
  memset(g->low_dv, 0, (size_t)(g->keys * g->hdim_v) * sizeof *g->low_dv);
}

/** The gradient of a row's lse; 0 where there is none. */
static float dlse_of(const attnpress_backward_args *a, int64_t batch, int64_t row, int64_t head) {
  return a->dlse ? a->dlse[row_offset(a, a->dlse_stride, batch, row, head)] : 0.0f;
}

static void check_key_head(gradients *g, const float *const *before, int64_t batch, int64_t kv_head,
                           reference_gradient *errors) {
  const attnpress_backward_args *a = g->args;
  begin_key_head(g, batch, kv_head);
  for (int64_t head = kv_head * g->group; head < (kv_head + 1) * g->group; ++head)
    for (int64_t row = 0; row < a->q.shape[1]; ++row) {
      const float dlse = dlse_of(a, batch, row, head);
      load(g->q, &a->q, batch, row, 1, head);
      load(g->dout, &a->dout, batch, row, 1, head);
      const reference_query q = {batch, row, head};
      row_in_float64(g, q, (double)dlse);
      row_in_low_precision(g, q, dlse);
      check_row(&errors[REFERENCE_DQ], &a->dq, before ? before[REFERENCE_DQ] : NULL, g->dq,
                g->low_dq, batch, row, head);
    }
  for (int64_t key = 0; key < g->keys; ++key) {
    check_row(&errors[REFERENCE_DK], &a->dk, before ? before[REFERENCE_DK] : NULL,
              g->dk + key * g->hdim, g->low_dk + key * g->hdim, batch, key, kv_head);
    check_row(&errors[REFERENCE_DV], &a->dv, before ? before[REFERENCE_DV] : NULL,
              g->dv + key * g->hdim_v, g->low_dv + key * g->hdim_v, batch, key, kv_head);
  }
}

int reference_check_backward_head(const attnpress_backward_args *args,
                                  const float *const before[REFERENCE_GRADIENTS], int64_t batch,
                                  int64_t kv_head, reference_gradient errors[REFERENCE_GRADIENTS]) {
  gradients g;
  if (gradients_init(&g, args) != 0)
    return -1;
  for (int i = 0; i < REFERENCE_GRADIENTS; ++i)
    errors[i].capped = args->softcap > 0.0f;
  errors[REFERENCE_DQ].name = "dq";
  errors[REFERENCE_DK].name = "dk";
  errors[REFERENCE_DV].name = "dv";
  check_key_head(&g, before, batch, kv_head, errors);
  gradients_free(&g);
  return 0;
}

int reference_check_backward(const attnpress_backward_args *args,
                             const float *const before[REFERENCE_GRADIENTS],
                             reference_gradient errors[REFERENCE_GRADIENTS]) {
  for (int64_t b = 0; b < args->q.shape[0]; ++b)
    for (int64_t h = 0; h < args->k.shape[2]; ++h)
      if (reference_check_backward_head(args, before, b, h, errors) != 0)
        return -1;
  return 0;
}

double reference_gradient_bound(const reference_gradient *error) {
  return (error->capped ? 3.0 : 2.0) * error->low + 1e-5;
}

const reference_gradient *
reference_worst_gradient(const reference_gradient errors[REFERENCE_GRADIENTS]) {
  for (int i = 0; i < REFERENCE_GRADIENTS; ++i)
    if (!(errors[i].error <= reference_gradient_bound(&errors[i])))
      return &errors[i];
  return NULL;
}

/* ---- The gradient by a sink ------------------------------------------------------------------ */

/* The largest part of its own that rounding is allowed: of out, by which delta is made, half a unit in
 * the last place; of lse, 1e-5, or 2^-10 under a softcap; and as much again of the sum. */
static double rounding_of(const attnpress_backward_args *a) {
  const double of_out = a->q.dtype == ATTNPRESS_BF16   ? 0x1p-8
                        : a->q.dtype == ATTNPRESS_FP16 ? 0x1p-11
                                                       : 0x1p-23;
  return of_out + 2.0 * (a->softcap > 0.0f ? 0x1p-10 : 1e-5);
}

int reference_add_dsink(const attnpress_backward_args *a, int64_t batch, int64_t head,
                        reference_dsink *sum) {
  gradients g;
  if (gradients_init(&g, a) != 0)
    return -1;
  memset(g.dk, 0, (size_t)(g.keys * g.hdim) * sizeof *g.dk);
  memset(g.dv, 0, (size_t)(g.keys * g.hdim_v) * sizeof *g.dv);
  load(g.k, &a->k, batch, 0, g.keys, head / g.group);
  load(g.v, &a->v, batch, 0, g.keys, head / g.group);
  for (int64_t row = 0; row < a->q.shape[1]; ++row) {
    const int64_t at = row_offset(a, a->lse_stride, batch, row, head);
    const float dlse = dlse_of(a, batch, row, head);
    const reference_query q = {batch, row, head};
    const double sink = reference_sink(&g.forward, q);
    load(g.q, &a->q, batch, row, 1, head);
    load(g.dout, &a->dout, batch, row, 1, head);
    sum->expected += row_in_float64(&g, q, (double)dlse);
    double parts = fabs((double)dlse);
    for (int64_t c = 0; c < g.hdim_v; ++c)
      parts += fabs((double)reference_load(&a->out, batch, row, head, c) * (double)g.dout[c]);
    sum->size += sink == -INFINITY ? 0.0 : exp(sink - (double)a->lse[at]) * parts;
  }
  gradients_free(&g);
  return 0;
}

void reference_compare_dsink(const attnpress_backward_args *a, int64_t head,
                             const reference_dsink *sum, reference_gradient *e) {
  const double error = difference((double)a->dsinks[head], sum->expected);
  const double bound = rounding_of(a) * sum->size / 2.0; /* which is doubled */
  if (e->elements == 0 || error - 2.0 * bound > e->error - 2.0 * e->low) {
    *e = (reference_gradient){.name = "dsinks",
                              .error = error,
                              .low = bound,
                              .elements = e->elements,
                              .at = {0, 0, head, 0},
                              .value = (double)a->dsinks[head],
                              .expected = sum->expected};
  }
  ++e->elements;
}

int reference_check_dsinks(const attnpress_backward_args *a, int64_t head, float before,
                           reference_gradient *e) {
  reference_dsink sum = {(double)before, fabs((double)before)};
  for (int64_t batch = 0; batch < a->q.shape[0]; ++batch)
    if (reference_add_dsink(a, batch, head, &sum) != 0)
      return -1;
  reference_compare_dsink(a, head, &sum, e);
  return 0;
}

/* ---- The gradient by a bias ------------------------------------------------------------------ */

int reference_open_dbias(reference_dbias *sum, const attnpress_dbias *d) {
  const size_t count = (size_t)(d->shape[2] * d->shape[3] + 1);
  *sum = (reference_dbias){.rows = d->shape[2], .keys = d->shape[3]};
  sum->sum = calloc(count, sizeof *sum->sum);
  sum->low = calloc(count, sizeof *sum->low);
  if (sum->sum != NULL && sum->low != NULL)
    return 0;
  reference_close_dbias(sum);
  return -1;
}

void reference_close_dbias(reference_dbias *sum) {
  free(sum->sum);
  free(sum->low);
  *sum = (reference_dbias){0};
}

int reference_add_dbias(const attnpress_backward_args *a, int64_t batch, int64_t head,
                        reference_dbias *to) {
  gradients g;
  if (gradients_init(&g, a) != 0)
    return -1;
  begin_key_head(&g, batch, head / g.group);
  for (int64_t row = 0; row < a->q.shape[1]; ++row) {
    const float dlse = dlse_of(a, batch, row, head);
    const reference_query q = {batch, row, head};
    const int64_t at = to->rows == 1 ? 0 : row * to->keys;
    load(g.q, &a->q, batch, row, 1, head);
    load(g.dout, &a->dout, batch, row, 1, head);
    row_in_float64(&g, q, (double)dlse);
    row_in_low_precision(&g, q, dlse);
    for (int64_t j = 0; j < g.keys; ++j) {
      to->sum[at + j] += g.bias[j];
      to->low[at + j] += g.low_bias[j];
    }
  }
  gradients_free(&g);
  return 0;
}

void reference_compare_dbias(const attnpress_backward_args *a, int64_t batch, int64_t head,
                             const float *before, const reference_dbias *of,
                             reference_gradient *e) {
  const attnpress_dbias *d = a->dbias;
  const int64_t *shape = d->shape;
  e->name = "dbias";
  e->capped = a->softcap > 0.0f;
  for (int64_t i = 0; i < of->rows; ++i)
    for (int64_t j = 0; j < of->keys; ++j) {
      const int64_t index[4] = {batch, head, i, j};
      int64_t at = 0, contiguous = 0;
      for (int n = 0; n < 4; ++n) {
        at += shape[n] > 1 ? index[n] * d->stride[n] : 0;
        contiguous = contiguous * shape[n] + index[n];
      }
      const double there = before ? (double)before[contiguous] : 0.0;
      const double expected = of->sum[i * of->keys + j] + there;
      const double value = (double)ap_load_element(d->data, at, d->dtype);
      const double error = difference(value, expected);
      if (error > e->error || e->elements == 0) {
        e->error = error;
        e->value = value;
        e->expected = expected;
        memcpy(e->at, (int64_t[]){batch, i, head, j}, sizeof e->at);
      }
      const double rounded =
          (double)reference_round(of->low[i * of->keys + j] + (float)there, d->dtype);
      e->low = fmax(e->low, difference(rounded, expected));
      ++e->elements;
    }
}

int reference_check_dbias(const attnpress_backward_args *a, int64_t batch, int64_t head,
                          const float *before, reference_gradient *e) {
  const int64_t *shape = a->dbias->shape;
  const int64_t batch_end = shape[0] == 1 ? a->q.shape[0] : batch + 1;
  const int64_t head_end = shape[1] == 1 ? a->q.shape[2] : head + 1;
  reference_dbias sum;
  int status = reference_open_dbias(&sum, a->dbias);
  for (int64_t b = batch; b < batch_end && status == 0; ++b)
    for (int64_t h = head; h < head_end && status == 0; ++h)
      status = reference_add_dbias(a, b, h, &sum);
  if (status == 0)
    reference_compare_dbias(a, batch, head, before, &sum, e);
  reference_close_dbias(&sum);
  return status;
}

/* ---- The gradients by a snippet's buffers ---------------------------------------------------- */

static int64_t elements_of(const attnpress_score_buffer *b) {
  int64_t count = 1;
  for (int d = 0; d < b->rank; ++d)
    count *= b->shape[d];
  return count;
}

int reference_open_dbuffers(reference_dbuffers *sum, const attnpress_backward_args *a) {
  int failed = 0;
  *sum = (reference_dbuffers){{NULL}, {NULL}, {NULL}};
  for (int i = 0; i < a->score_mod->buffer_count; ++i) {
    const size_t count = (size_t)elements_of(&a->score_mod->buffers[i]);
    if (a->dbuffers[i].data == NULL)
      continue;
    sum->sum[i] = calloc(count, sizeof(double));
    sum->size[i] = calloc(count, sizeof(double));
    sum->low[i] = calloc(count, sizeof(float));
    failed |= sum->sum[i] == NULL || sum->size[i] == NULL || sum->low[i] == NULL;
  }
  if (failed)
    reference_close_dbuffers(sum);
  return failed ? -1 : 0;
}

void reference_close_dbuffers(reference_dbuffers *sum) {
  for (int i = 0; i < 8; ++i) {
    free(sum->sum[i]);
    free(sum->size[i]);
    free(sum->low[i]);
  }
  *sum = (reference_dbuffers){{NULL}, {NULL}, {NULL}};
}

static int64_t place_of(const attnpress_score_buffer *b, const snippet_read *read) {
  int64_t at = 0;
  for (int d = 0; d < b->rank; ++d)
    at = at * b->shape[d] + read->index[d];
  return at;
}

/* The parts of a row, after row_in_float64() and row_in_low_precision(). parts: the size of what delta
 * is made of. */
static void add_reads(const gradients *g, reference_query q, double parts, reference_dbuffers *to) {
  const attnpress_score_buffer *buffers = g->args->score_mod->buffers;
  for (int64_t j = 0; j < g->keys; ++j) {
    const snippet_place place = reference_place(&g->forward, q, j);
    snippet_read read;
    double slope;
    for (int n = 0; g->bias[j] != 0.0; ++n) {
      if (!snippet_read_slope(g->mod, g->given[j], &place, n, &read, &slope))
        break;
      if (to->sum[read.buffer] == NULL)
        continue;
      const int64_t at = place_of(&buffers[read.buffer], &read);
      to->sum[read.buffer][at] += slope == 0.0 ? 0.0 : g->bias[j] * slope;
      to->size[read.buffer][at] +=
          slope == 0.0 ? 0.0 : fabs(g->p[j] * slope) * (parts + fabs(g->dp[j]));
    }
    for (int n = 0; g->low_bias[j] != 0.0f; ++n) {
      if (!snippet_read_slope(g->mod, (double)g->low_given[j], &place, n, &read, &slope))
        break;
      if (to->low[read.buffer] != NULL && slope != 0.0)
        to->low[read.buffer][place_of(&buffers[read.buffer], &read)] +=
            g->low_bias[j] * reference_round((float)slope, g->args->q.dtype);
    }
  }
}

int reference_add_dbuffers(const attnpress_backward_args *a, int64_t batch, int64_t head,
                           reference_dbuffers *to) {
  gradients g;
  if (gradients_init(&g, a) != 0)
    return -1;
  begin_key_head(&g, batch, head / g.group);
  for (int64_t row = 0; row < a->q.shape[1]; ++row) {
    const float dlse = dlse_of(a, batch, row, head);
    const reference_query q = {batch, row, head};
    double parts = fabs((double)dlse);
    load(g.q, &a->q, batch, row, 1, head);
    load(g.dout, &a->dout, batch, row, 1, head);
    for (int64_t c = 0; c < g.hdim_v; ++c)
      parts += fabs((double)reference_load(&a->out, batch, row, head, c) * (double)g.dout[c]);
    row_in_float64(&g, q, (double)dlse);
    row_in_low_precision(&g, q, dlse);
    add_reads(&g, q, parts, to);
  }
  gradients_free(&g);
  return 0;
}

void reference_compare_dbuffers(const attnpress_backward_args *a, float before,
                                const reference_dbuffers *of, reference_gradient *e) {
  e->name = "a gradient by a snippet's buffer";
  e->capped = a->softcap > 0.0f;
  for (int i = 0; i < a->score_mod->buffer_count; ++i) {
    const attnpress_score_buffer *b = &a->score_mod->buffers[i];
    for (int64_t n = 0; of->sum[i] != NULL && n < elements_of(b); ++n) {
      int64_t at = 0, rest = n;
      for (int d = b->rank - 1; d >= 0; rest /= b->shape[d--])
        at += rest % b->shape[d] * (b->shape[d] > 1 ? a->dbuffers[i].stride[d] : 0);
      const double expected = of->sum[i][n] + (double)before;
      const double value = (double)a->dbuffers[i].data[at];
      const double rounding = rounding_of(a) * of->size[i][n] + 1e-6 * fabs(expected);
      const double error = fmax(difference(value, expected) - rounding, 0.0);
      if (error > e->error || e->elements == 0) {
        e->error = error;
        e->value = value;
        e->expected = expected;
        memcpy(e->at, (int64_t[]){i, n, 0, 0}, sizeof e->at);
      }
      e->low = fmax(e->low, difference((double)of->low[i][n] + (double)before, expected));
      ++e->elements;
    }
  }
}

int reference_check_dbuffers(const attnpress_backward_args *a, float before,
                             reference_gradient *e) {
  reference_dbuffers sum;
  int status = reference_open_dbuffers(&sum, a);
  for (int64_t b = 0; b < a->q.shape[0] && status == 0; ++b)
    for (int64_t h = 0; h < a->q.shape[2] && status == 0; ++h)
      status = reference_add_dbuffers(a, b, h, &sum);
  if (status == 0)
    reference_compare_dbuffers(a, before, &sum, e);
  reference_close_dbuffers(&sum);
  return status;
}
