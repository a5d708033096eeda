#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/half.h"

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

static float load_element(const void *data, int64_t at, int32_t dtype) {
  if (dtype == ATTNPRESS_FP32)
    return ((const float *)data)[at];
  uint16_t half = ((const uint16_t *)data)[at];
  return dtype == ATTNPRESS_FP16 ? ap_float_from_fp16(half) : ap_float_from_bf16(half);
}

static int64_t element_offset(const attnpress_tensor *t, int64_t batch, int64_t row, int64_t head) {
  return batch * t->stride[0] + row * t->stride[1] + head * t->stride[2];
}

float reference_load(const attnpress_tensor *t, int64_t batch, int64_t row, int64_t head,
                     int64_t column) {
  return load_element(t->data, element_offset(t, batch, row, head) + column, t->dtype);
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
      *to++ = load_element(t->data, at + c, t->dtype);
  }
}

int reference_init(reference *r, const attnpress_forward_args *args) {
  const size_t keys = (size_t)args->k.shape[1] + 1; /* + 1: malloc(0) may be NULL */
  const size_t hdim = (size_t)args->q.shape[3], hdim_v = (size_t)args->v.shape[3];
  *r = (reference){.args = args, .batch = -1, .head_kv = -1};
  r->k = malloc(keys * hdim * sizeof(float));
  r->v = malloc(keys * hdim_v * sizeof(float));
  r->q = malloc(hdim * sizeof(float));
  r->low = malloc(hdim_v * sizeof(float));
  r->out = malloc(hdim_v * sizeof(double));
  r->scores = malloc(keys * sizeof(double));
  r->low_scores = malloc(keys * sizeof(float));
  if (r->k && r->v && r->q && r->low && r->out && r->scores && r->low_scores)
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
  *r = (reference){0};
}

/* Keys that a row sees. */
static int64_t visible_keys(const attnpress_forward_args *a, int64_t row) {
  const int64_t seqlen_k = a->k.shape[1];
  if (a->mask != ATTNPRESS_CAUSAL)
    return seqlen_k;
  int64_t keys = row + 1 + seqlen_k - a->q.shape[1];
  return keys < 0 ? 0 : keys;
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

static void row_in_float64(reference *r, int64_t keys, double scale) {
  const int64_t hdim = r->args->q.shape[3], hdim_v = r->args->v.shape[3];
  double max = -INFINITY, sum = 0.0;
  for (int64_t j = 0; j < keys; ++j) {
    r->scores[j] = dot_in_float64(r->q, r->k + j * hdim, hdim) * scale;
    max = fmax(max, r->scores[j]);
  }
  memset(r->out, 0, (size_t)hdim_v * sizeof *r->out);
  for (int64_t j = 0; j < keys; ++j) {
    double p = exp(r->scores[j] - max);
    sum += p;
    for (int64_t c = 0; c < hdim_v; ++c)
      r->out[c] += p * (double)r->v[j * hdim_v + c];
  }
  for (int64_t c = 0; c < hdim_v && keys > 0; ++c)
    r->out[c] /= sum;
  r->lse = keys > 0 ? max + log(sum) : -INFINITY;
}

static void row_in_low_precision(reference *r, int64_t keys, float scale) {
  const int64_t hdim = r->args->q.shape[3], hdim_v = r->args->v.shape[3];
  const int32_t dtype = r->args->q.dtype;
  float max = -INFINITY, sum = 0.0f;
  for (int64_t j = 0; j < keys; ++j) {
    float score = dot_in_fp32(r->q, r->k + j * hdim, hdim) * scale;
    r->low_scores[j] = reference_round(score, dtype);
    max = fmaxf(max, r->low_scores[j]);
  }
  for (int64_t j = 0; j < keys; ++j)
    sum += r->low_scores[j] = expf(r->low_scores[j] - max);
  memset(r->low, 0, (size_t)hdim_v * sizeof *r->low);
  for (int64_t j = 0; j < keys; ++j) {
    float p = reference_round(r->low_scores[j] / sum, dtype);
    for (int64_t c = 0; c < hdim_v; ++c)
      r->low[c] += p * r->v[j * hdim_v + c];
  }
  for (int64_t c = 0; c < hdim_v; ++c)
    r->low[c] = reference_round(r->low[c], dtype);
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
  const int64_t keys = visible_keys(a, row);
  row_in_float64(r, keys, scale);
  row_in_low_precision(r, keys, (float)scale);
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
  return 2.0 * error->low + 1e-5;
}

int reference_holds(const reference_error *error) {
  return error->out <= reference_bound(error) && error->lse <= REFERENCE_LSE_BOUND;
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
        for (int64_t d = 0; d < t->shape[3]; ++d) {
          const float value = normal(mix(index++));
          if (t->dtype == ATTNPRESS_FP32)
            ((float *)t->data)[at + d] = value;
          else
            ((uint16_t *)t->data)[at + d] =
                t->dtype == ATTNPRESS_FP16 ? ap_fp16_from_float(value) : ap_bf16_from_float(value);
        }
      }
}
