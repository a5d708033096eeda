/* The rows of cpu_rows.h for one instruction set: included behind one of cpu/vector_*.h, with
 * AP_FORWARD and AP_BACKWARD, the functions' names. A row is taken in chunks that are widened to
 * fp32; one that is no longer than a chunk is read once. */
#include <math.h>

#include "cpu/chunk.inc.h"
#include "softmax/cpu_rows.h"

#define LOG2_E 1.44269504088896341f

/* The largest of `count` values, a multiple of LANES, and `most`; NaN does not count. */
AP_INLINE float max_of(const float *value, int count, float most) {
  vec lanes = v_set1(most);
  for (int i = 0; i < count; i += LANES)
    lanes = v_max(v_load(value + i), lanes);
  for (int i = 0; i < LANES; ++i)
    most = lanes[i] > most ? lanes[i] : most;
  return most;
}

/* Values become e^(value - reference); returns their sum. */
AP_INLINE float to_powers(float *value, int count, float reference) {
  vec sum = v_set1(0.0f);
  for (int i = 0; i < count; i += LANES) {
    const vec power = v_exp2((v_load(value + i) - v_set1(reference)) * v_set1(LOG2_E));
    v_store(value + i, power);
    sum += power;
  }
  return v_sum(sum);
}

AP_INLINE void multiply(float *value, int count, float factor) {
  for (int i = 0; i < count; i += LANES)
    v_store(value + i, v_load(value + i) * v_set1(factor));
}

/* As the kernels: a sum of powers relative to the maximum so far, then the row again. */
AP_INLINE void forward(const ap_softmax_row *r, int dtype) {
  _Alignas(64) float value[CHUNK];
  float max = -INFINITY;
  double sum = 0.0;
  for (int64_t at = 0; at < r->columns; at += CHUNK) {
    const int count = chunk_count(r->columns, at);
    const int padded = load_chunk(value, r->input[0], at, count, dtype, r->scale, -INFINITY);
    const float before = max;
    max = max_of(value, padded, max);
    const float reference = max == -INFINITY ? 0.0f : max;
    if (max > before)
      sum *= exp((double)before - (double)max);
    sum += (double)to_powers(value, padded, reference);
    if (r->columns <= CHUNK) {
      multiply(value, padded, max == -INFINITY ? NAN : (float)(1.0 / sum));
      store_chunk(r->output, 0, value, count, dtype);
      return;
    }
  }
  for (int64_t at = 0; at < r->columns; at += CHUNK) {
    const int count = chunk_count(r->columns, at);
    const int padded = load_chunk(value, r->input[0], at, count, dtype, r->scale, -INFINITY);
    (void)to_powers(value, padded, max);
    multiply(value, padded, (float)(1.0 / sum));
    store_chunk(r->output, at, value, count, dtype);
  }
}

AP_INLINE void backward(const ap_softmax_row *r, int dtype) {
  _Alignas(64) float y[CHUNK], dy[CHUNK];
  double dot = 0.0;
  for (int64_t at = 0; at < r->columns; at += CHUNK) {
    const int count = chunk_count(r->columns, at);
    const int padded = load_chunk(y, r->input[0], at, count, dtype, 1.0f, 0.0f);
    (void)load_chunk(dy, r->input[1], at, count, dtype, 1.0f, 0.0f);
    vec sum = v_set1(0.0f);
    for (int i = 0; i < padded; i += LANES)
      sum = v_fma(v_load(y + i), v_load(dy + i), sum);
    dot += (double)v_sum(sum);
  }
  for (int64_t at = 0; at < r->columns; at += CHUNK) {
    const int count = chunk_count(r->columns, at);
    int padded = count;
    if (r->columns > CHUNK) {
      padded = load_chunk(y, r->input[0], at, count, dtype, 1.0f, 0.0f);
      (void)load_chunk(dy, r->input[1], at, count, dtype, 1.0f, 0.0f);
    }
    for (int i = 0; i < padded; i += LANES)
      v_store(dy + i, v_set1(r->scale) * v_load(y + i) * (v_load(dy + i) - v_set1((float)dot)));
    store_chunk(r->output, at, dy, count, dtype);
  }
}

AP_TARGET void AP_FORWARD(const ap_softmax_row *row) {
  if (row->dtype == ATTNPRESS_FP32)
    forward(row, ATTNPRESS_FP32);
  else if (row->dtype == ATTNPRESS_FP16)
    forward(row, ATTNPRESS_FP16);
  else
    forward(row, ATTNPRESS_BF16);
}

AP_TARGET void AP_BACKWARD(const ap_softmax_row *row) {
  if (row->dtype == ATTNPRESS_FP32)
    backward(row, ATTNPRESS_FP32);
  else if (row->dtype == ATTNPRESS_FP16)
    backward(row, ATTNPRESS_FP16);
  else
    backward(row, ATTNPRESS_BF16);
}
