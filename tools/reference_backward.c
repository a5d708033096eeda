#include "reference_backward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The forward pass ------------------------------------------------------------------------ */

static attnpress_forward_args forward_of(const attnpress_backward_args *args) {
  attnpress_forward_args forward = ATTNPRESS_FORWARD_ARGS_INIT;
  forward.q = args->q;
  forward.k = args->k;
  forward.v = args->v;
  forward.out = args->out;
  forward.scale = args->scale;
  forward.mask = args->mask;
  return forward;
}

static int64_t row_offset(const attnpress_backward_args *a, const int64_t stride[2], int64_t batch,
                          int64_t row, int64_t head) {
  const int contiguous = stride[0] == 0 && stride[1] == 0;
  const int64_t by_head = contiguous ? a->q.shape[1] : stride[1];
  const int64_t by_batch = contiguous ? a->q.shape[1] * a->q.shape[2] : stride[0];
  return batch * by_batch + head * by_head + row;
}

int reference_fill_forward(const attnpress_backward_args *args) {
  const attnpress_forward_args forward = forward_of(args);
  const attnpress_tensor *out = &args->out;
  reference r;
  if (reference_init(&r, &forward) != 0)
    return -1;
  for (int64_t b = 0; b < out->shape[0]; ++b)
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

/* ---- The gradients of one key head ----------------------------------------------------------- */

/* Rows of float64 and of the low precision; of a query row, and of all keys of a key head. */
typedef struct gradients {
  const attnpress_backward_args *args;
  int64_t keys, hdim, hdim_v, group;
  double scale;
  float *k, *v, *q, *dout;         /* (keys, hdim), (keys, hdim_v), (hdim), (hdim_v) */
  double *dk, *dv, *dq;            /* as k, v, q */
  float *low_dk, *low_dv, *low_dq; /* the same */
  double *p, *dp;                  /* (keys) */
  float *low_p, *low_dp;           /* (keys) */
} gradients;

static void *floats(int64_t count, size_t bytes) {
  return malloc((size_t)(count + 1) * bytes); /* + 1: malloc(0) may be NULL */
}

static void gradients_free(gradients *g) {
  void *all[] = {g->k,      g->v,      g->q,      g->dout, g->dk, g->dv,    g->dq,
                 g->low_dk, g->low_dv, g->low_dq, g->p,    g->dp, g->low_p, g->low_dp};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    free(all[i]);
}

static int gradients_init(gradients *g, const attnpress_backward_args *a) {
  const int64_t n = a->k.shape[1], hdim = a->q.shape[3], hdim_v = a->v.shape[3];
  *g = (gradients){.args = a,
                   .keys = n,
                   .hdim = hdim,
                   .hdim_v = hdim_v,
                   .group = a->k.shape[2] ? a->q.shape[2] / a->k.shape[2] : 0,
                   .scale = a->scale > 0.0f ? (double)a->scale : 1.0 / sqrt((double)hdim)};
  g->k = floats(n * hdim, sizeof(float));
  g->v = floats(n * hdim_v, sizeof(float));
  g->q = floats(hdim, sizeof(float));
  g->dout = floats(hdim_v, sizeof(float));
  g->dk = floats(n * hdim, sizeof(double));
  g->dv = floats(n * hdim_v, sizeof(double));
  g->dq = floats(hdim, sizeof(double));
  g->low_dk = floats(n * hdim, sizeof(float));
  g->low_dv = floats(n * hdim_v, sizeof(float));
  g->low_dq = floats(hdim, sizeof(float));
  g->p = floats(n, sizeof(double));
  g->dp = floats(n, sizeof(double));
  g->low_p = floats(n, sizeof(float));
  g->low_dp = floats(n, sizeof(float));
  if (g->k && g->v && g->q && g->dout && g->dk && g->dv && g->dq && g->low_dk && g->low_dv &&
      g->low_dq && g->p && g->dp && g->low_p && g->low_dp)
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

/* One row's share of dK and dV, and its dQ, in float64. */
static void row_in_float64(gradients *g, int64_t keys, double dlse) {
  double max = -INFINITY, sum = 0.0, delta = -dlse;
  for (int64_t j = 0; j < keys; ++j) {
    g->p[j] = dot(g->q, g->k + j * g->hdim, g->hdim) * g->scale;
    max = fmax(max, g->p[j]);
  }
  for (int64_t j = 0; j < keys; ++j)
    sum += g->p[j] = exp(g->p[j] - max);
  for (int64_t j = 0; j < keys; ++j) {
    g->p[j] /= sum;
    g->dp[j] = dot(g->dout, g->v + j * g->hdim_v, g->hdim_v);
    delta += g->p[j] * g->dp[j];
  }
  memset(g->dq, 0, (size_t)g->hdim * sizeof *g->dq);
  for (int64_t j = 0; j < keys; ++j) {
    const double ds = g->p[j] * (g->dp[j] - delta) * g->scale;
    for (int64_t c = 0; c < g->hdim; ++c) {
      g->dq[c] += ds * (double)g->k[j * g->hdim + c];
      g->dk[j * g->hdim + c] += ds * (double)g->q[c];
    }
    for (int64_t c = 0; c < g->hdim_v; ++c)
      g->dv[j * g->hdim_v + c] += g->p[j] * (double)g->dout[c];
  }
}

static void row_in_low_precision(gradients *g, int64_t keys, float dlse) {
  const int32_t dtype = g->args->q.dtype;
  const float scale = (float)g->scale;
  float max = -INFINITY, sum = 0.0f, delta = -dlse;
  for (int64_t j = 0; j < keys; ++j) {
    g->low_p[j] = reference_round(low_dot(g->q, g->k + j * g->hdim, g->hdim) * scale, dtype);
    max = fmaxf(max, g->low_p[j]);
  }
  for (int64_t j = 0; j < keys; ++j)
    sum += g->low_p[j] = expf(g->low_p[j] - max);
  for (int64_t j = 0; j < keys; ++j) {
    g->low_p[j] = reference_round(g->low_p[j] / sum, dtype);
    g->low_dp[j] = reference_round(low_dot(g->dout, g->v + j * g->hdim_v, g->hdim_v), dtype);
    delta += g->low_p[j] * g->low_dp[j];
  }
  memset(g->low_dq, 0, (size_t)g->hdim * sizeof *g->low_dq);
  for (int64_t j = 0; j < keys; ++j) {
    const float ds = reference_round(g->low_p[j] * (g->low_dp[j] - delta), dtype) * scale;
    for (int64_t c = 0; c < g->hdim; ++c) {
      g->low_dq[c] += ds * g->k[j * g->hdim + c];
      g->low_dk[j * g->hdim + c] += ds * g->q[c];
    }
    for (int64_t c = 0; c < g->hdim_v; ++c)
      g->low_dv[j * g->hdim_v + c] += g->low_p[j] * g->dout[c];
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

static int64_t keys_of_row(const attnpress_backward_args *a, int64_t row) {
  if (a->mask != ATTNPRESS_CAUSAL)
    return a->k.shape[1];
  const int64_t keys = row + 1 + a->k.shape[1] - a->q.shape[1];
  return keys < 0 ? 0 : keys;
}

static void check_key_head(gradients *g, const float *const *before, int64_t batch, int64_t kv_head,
                           reference_gradient *errors) {
  const attnpress_backward_args *a = g->args;
  load(g->k, &a->k, batch, 0, g->keys, kv_head);
  load(g->v, &a->v, batch, 0, g->keys, kv_head);
  memset(g->dk, 0, (size_t)(g->keys * g->hdim) * sizeof *g->dk);
  memset(g->dv, 0, (size_t)(g->keys * g->hdim_v) * sizeof *g->dv);
  memset(g->low_dk, 0, (size_t)(g->keys * g->hdim) * sizeof *g->low_dk);
  memset(g->low_dv, 0, (size_t)(g->keys * g->hdim_v) * sizeof *g->low_dv);
  for (int64_t head = kv_head * g->group; head < (kv_head + 1) * g->group; ++head)
    for (int64_t row = 0; row < a->q.shape[1]; ++row) {
      const float dlse = a->dlse ? a->dlse[row_offset(a, a->dlse_stride, batch, row, head)] : 0.0f;
      load(g->q, &a->q, batch, row, 1, head);
      load(g->dout, &a->dout, batch, row, 1, head);
      row_in_float64(g, keys_of_row(a, row), (double)dlse);
      row_in_low_precision(g, keys_of_row(a, row), dlse);
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
  return 2.0 * error->low + 1e-5;
}

const reference_gradient *
reference_worst_gradient(const reference_gradient errors[REFERENCE_GRADIENTS]) {
  for (int i = 0; i < REFERENCE_GRADIENTS; ++i)
    if (!(errors[i].error <= reference_gradient_bound(&errors[i])))
      return &errors[i];
  return NULL;
}
