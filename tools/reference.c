#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/defaults.h"
#include "cpu/element.h"

int reference_element_bytes(int32_t dtype) {
  return dtype == ATTNPRESS_FP32 ? 4 : 2;
}

int64_t reference_span(const attnpress_tensor *t) {
  int64_t span = 1;
  for (int i = 0; i < 4; ++i) {
    if (t->shape[i] == 0)
      return 0;
    span += (t->shape[i] - 1) * t->stride[i];
  }
  return span;
}

static int64_t element_offset(const attnpress_tensor *t, int64_t batch, int64_t row, int64_t head) {
  return batch * t->stride[0] + row * t->stride[1] + head * t->stride[2];
}

float reference_load(const attnpress_tensor *t, int64_t batch, int64_t row, int64_t head,
                     int64_t column) {
  return ap_load_element(t->data, element_offset(t, batch, row, head) + column, t->dtype);
}

void reference_store(const attnpress_tensor *t, int64_t batch, int64_t row, int64_t head,
                     int64_t column, float value) {
  ap_store_element(t->data, element_offset(t, batch, row, head) + column, value, t->dtype);
}

float reference_round(float value, int32_t dtype) {
  if (dtype == ATTNPRESS_FP16)
    return ap_float_from_fp16(ap_fp16_from_float(value));
  return dtype == ATTNPRESS_BF16 ? ap_float_from_bf16(ap_bf16_from_float(value)) : value;
}

/* rows: (rows, columns) of one batch and head, as floats */
static void load_rows(float *to, const attnpress_tensor *t, int64_t batch, int64_t row_begin,
                      int64_t rows, int64_t head) {
  for (int64_t row = row_begin; row < row_begin + rows; ++row) {
    int64_t at = element_offset(t, batch, row, head);
    for (int64_t c = 0; c < t->shape[3]; ++c)
      *to++ = ap_load_element(t->data, at + c, t->dtype);
  }
}

int reference_init(reference *r, const attnpress_forward_args *args) {
  const size_t keys = (size_t)args->k.shape[1] + 1; /* + 1: malloc(0) may be NULL */
  const size_t hdim = (size_t)args->q.shape[3], hdim_v = (size_t)args->v.shape[3];
  *r = (reference){
      .args = args, .dropout = ap_dropout_of(args->dropout), .batch = -1, .head_kv = -1};
  r->k = malloc(keys * hdim * sizeof(float));
  r->v = malloc(keys * hdim_v * sizeof(float));
  r->q = malloc(hdim * sizeof(float));
  r->low = malloc(hdim_v * sizeof(float));
  r->out = malloc(hdim_v * sizeof(double));
  r->scores = malloc(keys * sizeof(double));
  r->low_scores = malloc(keys * sizeof(float));
  snprintf(r->why, sizeof r->why, "memory ran out");
  if (args->score_mod != NULL)
    r->mod = snippet_parse(args->score_mod, r->why, sizeof r->why);
  if (r->k && r->v && r->q && r->low && r->out && r->scores && r->low_scores &&
      (args->score_mod == NULL || r->mod != NULL))
    return 0;
  reference_free(r);
  return -1;
}

void reference_free(reference *r) {
  free(r->k);
  free(r->v);
  free(r->q);
  free(r->low);
  free(r->out);
  free(r->scores);
  free(r->low_scores);
  snippet_free(r->mod);
  char why[sizeof r->why];
  memcpy(why, r->why, sizeof why);
  *r = (reference){0};
  memcpy(r->why, why, sizeof why);
}

int reference_sees(const attnpress_forward_args *a, int64_t row, int64_t key) {
  const int64_t diagonal = row + a->k.shape[1] - a->q.shape[1];
  if (a->mask == ATTNPRESS_CAUSAL)
    return key <= diagonal;
  if (a->mask != ATTNPRESS_WINDOW)
    return 1;
  const attnpress_window *w = a->window;
  const int64_t center = w->top_left ? row : diagonal;
  /* A query that stands before the first key is in no key's chunk. */
  return (w->left < 0 || center - key <= w->left) && (w->right < 0 || key - center <= w->right) &&
         (w->chunk == 0 || (center >= 0 && key / w->chunk == center / w->chunk));
}

/* Products of (n) and (n), n a multiple of 8, summed in eight lanes, which a compiler can
 * vectorise. */
static double dot_in_float64(const float *a, const float *b, int64_t n) {
  double lanes[8] = {0};
  for (int64_t i = 0; i < n; i += 8)
    for (int l = 0; l < 8; ++l)
      lanes[l] += (double)a[i + l] * (double)b[i + l];
  return lanes[0] + lanes[1] + lanes[2] + lanes[3] + lanes[4] + lanes[5] + lanes[6] + lanes[7];
}

static float dot_in_fp32(const float *a, const float *b, int64_t n) {
  float lanes[8] = {0};
  for (int64_t i = 0; i < n; i += 8)
    for (int l = 0; l < 8; ++l)
      lanes[l] += a[i + l] * b[i + l];
  return lanes[0] + lanes[1] + lanes[2] + lanes[3] + lanes[4] + lanes[5] + lanes[6] + lanes[7];
}

/* One row of the current batch. */
typedef reference_query query;

snippet_place reference_place(const attnpress_forward_args *a, query q, int64_t key) {
  return (snippet_place){q.batch,      q.head, q.head / (a->q.shape[2] / a->k.shape[2]),
                         q.row,        key,    a->q.shape[1],
                         a->k.shape[1]};
}

/* Whether a query sees a key: by the mask, and by a snippet's. */
static int sees(const reference *r, query q, int64_t key) {
  if (!reference_sees(r->args, q.row, key))
    return 0;
  const snippet_place place = reference_place(r->args, q, key);
  return r->mod == NULL || snippet_keeps(r->mod, &place);
}

/* What a snippet makes of a score. */
static double modified(const reference *r, query q, int64_t key, double score) {
  const snippet_place place = reference_place(r->args, q, key);
  return r->mod == NULL ? score : snippet_score(r->mod, score, &place);
}

double reference_bias(const attnpress_forward_args *a, query q, int64_t key) {
  const attnpress_bias *bias = a->bias;
  if (bias == NULL)
    return 0.0;
  const int64_t at = q.batch * ap_bias_stride(bias, 0) + q.head * ap_bias_stride(bias, 1) +
                     q.row * ap_bias_stride(bias, 2) + key * ap_bias_stride(bias, 3);
  return (double)ap_load_element(bias->data, at, bias->dtype);
}

double reference_alibi(const attnpress_forward_args *a, query q, int64_t key) {
  int64_t batch_stride, head_stride;
  if (a->alibi == NULL)
    return 0.0;
  ap_alibi_strides(a->alibi, &batch_stride, &head_stride);
  const int64_t distance = q.row + a->k.shape[1] - a->q.shape[1] - key;
  return -(double)a->alibi->slopes[q.batch * batch_stride + q.head * head_stride] *
         fabs((double)distance);
}

double reference_sink(const attnpress_forward_args *a, query q) {
  if (a->sinks == NULL)
    return -INFINITY;
  return (double)ap_load_element(a->sinks->data, q.head * ap_sinks_stride(a->sinks),
                                 a->sinks->dtype);
}

/* 1 where the probability of a key is kept. */
static int keeps(const reference *r, query q, int64_t key) {
  return r->dropout.threshold == 0 ||
         ap_dropout_keeps(&r->dropout, q.batch * r->args->q.shape[2] + q.head, q.row, key);
}

static void row_in_float64(reference *r, query q, double scale) {
  const attnpress_forward_args *a = r->args;
  const int64_t keys = a->k.shape[1], hdim = a->q.shape[3], hdim_v = a->v.shape[3];
  const double cap = (double)a->softcap, sink = reference_sink(a, q);
  double max = sink;
  int empty = sink == -INFINITY;
  for (int64_t j = 0; j < keys; ++j) {
    r->scores[j] = -INFINITY;
    if (!sees(r, q, j))
      continue;
    double score = dot_in_float64(r->q, r->k + j * hdim, hdim) * scale;
    if (cap > 0.0)
      score = cap * tanh(score / cap);
    r->scores[j] = modified(r, q, j, score) + reference_bias(a, q, j) + reference_alibi(a, q, j);
    max = fmax(max, r->scores[j]);
    empty &= r->scores[j] == -INFINITY; /* NaN is something */
  }
  memset(r->out, 0, (size_t)hdim_v * sizeof *r->out);
  r->lse = -INFINITY;
  if (empty)
    return;
  double sum = exp(sink - max);
  for (int64_t j = 0; j < keys; ++j) {
    const double p = exp(r->scores[j] - max);
    sum += p;
    if (r->scores[j] == -INFINITY || !keeps(r, q, j))
      continue;
    for (int64_t c = 0; c < hdim_v; ++c)
      r->out[c] += p * (double)r->v[j * hdim_v + c];
  }
  for (int64_t c = 0; c < hdim_v; ++c)
    r->out[c] *= (double)r->dropout.scale / sum;
  r->lse = max + log(sum);
}

static void row_in_low_precision(reference *r, query q, float scale) {
  const attnpress_forward_args *a = r->args;
  const int64_t keys = a->k.shape[1], hdim = a->q.shape[3], hdim_v = a->v.shape[3];
  const int32_t dtype = a->q.dtype;
  const float sink = (float)reference_sink(a, q);
  float max = sink;
  int empty = sink == -INFINITY;
  for (int64_t j = 0; j < keys; ++j) {
    r->low_scores[j] = -INFINITY;
    if (!sees(r, q, j))
      continue;
    float score = reference_round(dot_in_fp32(r->q, r->k + j * hdim, hdim) * scale, dtype);
    if (a->softcap > 0.0f)
      score = reference_round(a->softcap * tanhf(score / a->softcap), dtype);
    if (r->mod != NULL)
      score = reference_round((float)modified(r, q, j, (double)score), dtype);
    if (a->bias != NULL)
      score = reference_round(score + (float)reference_bias(a, q, j), dtype);
    if (a->alibi != NULL)
      score = reference_round(score + (float)reference_alibi(a, q, j), dtype);
    r->low_scores[j] = score;
    max = fmaxf(max, score);
    empty &= score == -INFINITY;
  }
  memset(r->low, 0, (size_t)hdim_v * sizeof *r->low);
  if (empty)
    return;
  float sum = expf(sink - max);
  for (int64_t j = 0; j < keys; ++j)
    if (r->low_scores[j] != -INFINITY)
      sum += r->low_scores[j] = expf(r->low_scores[j] - max);
  for (int64_t j = 0; j < keys; ++j) {
    if (r->low_scores[j] == -INFINITY || !keeps(r, q, j))
      continue;
    const float p = reference_round(r->low_scores[j] / sum, dtype);
    for (int64_t c = 0; c < hdim_v; ++c)
      r->low[c] += p * r->v[j * hdim_v + c];
  }
  for (int64_t c = 0; c < hdim_v; ++c)
    r->low[c] = reference_round(r->low[c] * r->dropout.scale, dtype);
}

void reference_row(reference *r, int64_t batch, int64_t row, int64_t head) {
  const attnpress_forward_args *a = r->args;
  const int64_t head_kv = head / (a->q.shape[2] / a->k.shape[2]);
  if (batch != r->batch || head_kv != r->head_kv) {
    load_rows(r->k, &a->k, batch, 0, a->k.shape[1], head_kv);
    load_rows(r->v, &a->v, batch, 0, a->v.shape[1], head_kv);
    r->batch = batch;
    r->head_kv = head_kv;
  }
  load_rows(r->q, &a->q, batch, row, 1, head);
  const double scale = a->scale > 0.0f ? (double)a->scale : 1.0 / sqrt((double)a->q.shape[3]);
  const query q = {batch, row, head};
  row_in_float64(r, q, scale);
  row_in_low_precision(r, q, (float)scale);
}

/* A difference that orders NaN and mismatched infinities above every number. */
static double difference(double value, double expected) {
  if (value == expected) /* infinities of one sign */
    return 0.0;
  double d = fabs(value - expected);
  return isnan(d) ? INFINITY : d;
}

void reference_check_row(reference *r, int64_t batch, int64_t row, int64_t head,
                         reference_error *e) {
  const attnpress_forward_args *a = r->args;
  reference_row(r, batch, row, head);
  e->capped = a->softcap > 0.0f;
  for (int64_t c = 0; c < a->out.shape[3]; ++c) {
    const double value = reference_load(&a->out, batch, row, head, c);
    const double error = difference(value, r->out[c]);
    if (error > e->out || e->elements == 0) {
      e->out = error;
      e->value = value;
      e->expected = r->out[c];
      memcpy(e->at, (int64_t[]){batch, row, head, c}, sizeof e->at);
    }
    e->low = fmax(e->low, difference(r->low[c], r->out[c]));
    ++e->elements;
  }
  if (!a->lse)
    return;
  const int contiguous = a->lse_stride[0] == 0 && a->lse_stride[1] == 0;
  const int64_t head_stride = contiguous ? a->q.shape[1] : a->lse_stride[1];
  const int64_t batch_stride = contiguous ? a->q.shape[1] * a->q.shape[2] : a->lse_stride[0];
  const double value = a->lse[batch * batch_stride + head * head_stride + row];
  const double error = difference(value, r->lse) / fmax(1.0, isinf(r->lse) ? 1.0 : fabs(r->lse));
  if (error > e->lse) {
    e->lse = error;
    e->lse_value = value;
    e->lse_expected = r->lse;
    memcpy(e->lse_at, (int64_t[]){batch, row, head}, sizeof e->lse_at);
  }
}

void reference_check(reference *r, reference_error *error) {
  const int64_t *shape = r->args->q.shape;
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t h = 0; h < shape[2]; ++h)
      for (int64_t i = 0; i < shape[1]; ++i)
        reference_check_row(r, b, i, h, error);
}

double reference_bound(const reference_error *error) {
  return (error->capped ? 3.0 : 2.0) * error->low + 1e-5;
}

double reference_lse_bound(const reference_error *error) {
  return error->capped ? 0x1p-10 : 1e-5;
}

int reference_holds(const reference_error *error) {
  return error->out <= reference_bound(error) && error->lse <= reference_lse_bound(error);
}

/* splitmix64: uniform 64 bits of a counter */
static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* The sum of four uniform values, variance 1: normal to the eye, up to 3.46, and ten times as fast
 * as a logarithm and a cosine. */
static float normal(uint64_t bits) {
  const int32_t sum =
      (int32_t)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
  return (float)(sum - 2 * 0xffff) * (1.7320508f / 0x1p16f);
}

void reference_fill_normal(const attnpress_tensor *t, uint64_t seed) {
  uint64_t index = mix(seed);
  for (int64_t b = 0; b < t->shape[0]; ++b)
    for (int64_t i = 0; i < t->shape[1]; ++i)
      for (int64_t h = 0; h < t->shape[2]; ++h) {
        const int64_t at = element_offset(t, b, i, h);
        for (int64_t d = 0; d < t->shape[3]; ++d)
          ap_store_element(t->data, at + d, normal(mix(index++)), t->dtype);
      }
}
