/* The functions of cpu_rows.h for one instruction set: included behind one of cpu/vector_*.h, with
 * AP_FORWARD, AP_BACKWARD and AP_SUMS, their names. A row is taken in chunks that are widened to
 * fp32; one that is no longer than a chunk is read once. */
#include <math.h>

#include "cpu/chunk.inc.h"
#include "layernorm/cpu_rows.h"

/* A parameter's values; `absent` where there is none. */
AP_INLINE void load_parameter(float *to, const void *from, int64_t at, int count, int dtype,
                              float absent) {
  if (from != NULL) {
    (void)load_chunk(to, from, at, count, dtype, 1.0f, 0.0f);
    return;
  }
  for (int i = 0; i < count || i % LANES != 0; i += LANES)
    v_store(to + i, v_set1(absent));
}

AP_INLINE float sum_of(const float *value, int count) {
  vec sum = v_set1(0.0f);
  for (int i = 0; i < count; i += LANES)
    sum += v_load(value + i);
  return v_sum(sum);
}

/* A chunk of x; with a residual of x + residual, rounded, which is also stored. Returns how many
 * values there are with zeros up to a whole vector. */
AP_INLINE int load_row(const ap_layernorm_row *r, float *to, int64_t at, int count, int dtype) {
  _Alignas(64) float other[CHUNK];
  int padded = load_chunk(to, r->x, at, count, dtype, 1.0f, 0.0f);
  if (r->residual == NULL)
    return padded;
  (void)load_chunk(other, r->residual, at, count, dtype, 1.0f, 0.0f);
  for (int i = 0; i < padded; i += LANES)
    v_store(to + i, v_load(to + i) + v_load(other + i));
  store_chunk(r->sum, at, to, count, dtype);
  return load_chunk(to, r->sum, at, count, dtype, 1.0f, 0.0f);
}

/* The squares of `count` values, and of zeros up to `padded`, each less `mean`. */
AP_INLINE float squares_of(float *value, int count, int padded, float mean) {
  vec sum = v_set1(0.0f);
  for (int i = count; i < padded; ++i)
    value[i] = mean;
  for (int i = 0; i < padded; i += LANES) {
    const vec difference = v_load(value + i) - v_set1(mean);
    sum = v_fma(difference, difference, sum);
  }
  return v_sum(sum);
}

AP_INLINE void normalize(const ap_layernorm_row *r, float *value, int64_t at, int count,
                         int dtype) {
  _Alignas(64) float weight[CHUNK], bias[CHUNK];
  load_parameter(weight, r->weight, at, count, r->param_dtype, 1.0f);
  load_parameter(bias, r->bias, at, count, r->param_dtype, 0.0f);
  for (int i = 0; i < count; i += LANES)
    v_store(value + i, v_fma((v_load(value + i) - v_set1(r->mean)) * v_set1(r->rstd),
                             v_load(weight + i), v_load(bias + i)));
  store_chunk(r->out, at, value, count, dtype);
}

/* The moments of chunks are put together as the kernels do (Chan, Golub and LeVeque 1979). */
AP_INLINE void forward(ap_layernorm_row *r, int dtype) {
  _Alignas(64) float value[CHUNK];
  double mean = 0.0, squares = 0.0;
  for (int64_t at = 0; at < r->columns; at += CHUNK) {
    const int count = chunk_count(r->columns, at), padded = load_row(r, value, at, count, dtype);
    const float own = r->rms ? 0.0f : sum_of(value, padded) / (float)count;
    const double difference = (double)own - mean, all = (double)(at + count);
    squares += (double)squares_of(value, count, padded, own) +
               difference * difference * (double)at * count / all;
    mean += difference * count / all;
  }
  r->mean = (float)mean;
  r->rstd = (float)(1.0 / sqrt(squares / (double)r->columns + (double)r->eps));
  if (r->columns <= CHUNK) {
    normalize(r, value, 0, (int)r->columns, dtype);
    return;
  }
  for (int64_t at = 0; at < r->columns; at += CHUNK) {
    const int count = chunk_count(r->columns, at);
    (void)load_chunk(value, r->residual == NULL ? r->x : r->sum, at, count, dtype, 1.0f, 0.0f);
    normalize(r, value, at, count, dtype);
  }
}

/* x^ and g = dy weight of a chunk; returns how many values there are with zeros. */
AP_INLINE int load_gradients(const ap_layernorm_row *r, float *x, float *g, int64_t at, int count,
                             int dtype) {
  _Alignas(64) float weight[CHUNK];
  const int padded = load_chunk(x, r->x, at, count, dtype, 1.0f, 0.0f);
  (void)load_chunk(g, r->dy, at, count, dtype, 1.0f, 0.0f);
  load_parameter(weight, r->weight, at, count, r->param_dtype, 1.0f);
  for (int i = 0; i < padded; i += LANES) {
    v_store(x + i, (v_load(x + i) - v_set1(r->mean)) * v_set1(r->rstd));
    v_store(g + i, v_load(g + i) * v_load(weight + i));
  }
  for (int i = count; i < padded; ++i)
    g[i] = 0.0f;
  return padded;
}

AP_INLINE void backward(const ap_layernorm_row *r, int dtype) {
  _Alignas(64) float x[CHUNK], g[CHUNK], more[CHUNK];
  double sum = 0.0, dot = 0.0;
  int padded = 0;
  for (int64_t at = 0; at < r->columns; at += CHUNK) {
    padded = load_gradients(r, x, g, at, chunk_count(r->columns, at), dtype);
    vec products = v_set1(0.0f);
    for (int i = 0; i < padded; i += LANES)
      products = v_fma(v_load(g + i), v_load(x + i), products);
    sum += r->rms ? 0.0 : (double)sum_of(g, padded);
    dot += (double)v_sum(products);
  }
  const vec mean_of_g = v_set1((float)(sum / (double)r->columns));
  const vec mean_of_dot = v_set1((float)(dot / (double)r->columns));
  for (int64_t at = 0; at < r->columns; at += CHUNK) {
    const int count = chunk_count(r->columns, at);
    if (r->columns > CHUNK)
      padded = load_gradients(r, x, g, at, count, dtype);
    for (int i = 0; i < padded; i += LANES)
      v_store(g + i, v_set1(r->rstd) * (v_load(g + i) - mean_of_g - v_load(x + i) * mean_of_dot));
    if (r->dsum != NULL) {
      (void)load_chunk(more, r->dsum, at, count, dtype, 1.0f, 0.0f);
      for (int i = 0; i < padded; i += LANES)
        v_store(g + i, v_load(g + i) + v_load(more + i));
    }
    store_chunk(r->out, at, g, count, dtype);
  }
}

enum { SUM_ROWS = 32 }; /* added up in fp32, before double takes them */

typedef struct sums {
  double weight[AP_LAYERNORM_SUM_COLUMNS], bias[AP_LAYERNORM_SUM_COLUMNS];
} sums;

AP_INLINE void add_rows(const ap_layernorm_problem *p, int64_t first_column, int count,
                        int64_t first_row, int64_t rows, int dtype, sums *all) {
  const ap_layernorm_tensor *x_tensor = &p->tensor[AP_LAYERNORM_X];
  const ap_layernorm_tensor *dy_tensor = &p->tensor[AP_LAYERNORM_DY];
  _Alignas(64) float x[AP_LAYERNORM_SUM_COLUMNS], dy[AP_LAYERNORM_SUM_COLUMNS];
  _Alignas(64) float weight[AP_LAYERNORM_SUM_COLUMNS] = {0}, bias[AP_LAYERNORM_SUM_COLUMNS] = {0};
  for (int64_t row = first_row; row < first_row + rows; ++row) {
    const vec mean = v_set1(p->rms ? 0.0f : p->mean[row]), rstd = v_set1(p->rstd[row]);
    const int padded = load_chunk(x, x_tensor->data, row * x_tensor->stride + first_column, count,
                                  dtype, 1.0f, 0.0f);
    (void)load_chunk(dy, dy_tensor->data, row * dy_tensor->stride + first_column, count, dtype,
                     1.0f, 0.0f);
    for (int i = 0; i < padded; i += LANES) {
      v_store(weight + i, v_fma(v_load(dy + i), (v_load(x + i) - mean) * rstd, v_load(weight + i)));
      v_store(bias + i, v_load(bias + i) + v_load(dy + i));
    }
  }
  for (int i = 0; i < count; ++i) {
    all->weight[i] += (double)weight[i];
    all->bias[i] += (double)bias[i];
  }
}

AP_INLINE void add_columns(const ap_layernorm_problem *p, int64_t first, int dtype) {
  const int64_t left = p->columns - first;
  const int count = left < AP_LAYERNORM_SUM_COLUMNS ? (int)left : AP_LAYERNORM_SUM_COLUMNS;
  sums all = {{0}, {0}};
  for (int64_t row = 0; row < p->rows; row += SUM_ROWS)
    add_rows(p, first, count, row, p->rows - row < SUM_ROWS ? p->rows - row : SUM_ROWS, dtype,
             &all);
  for (int i = 0; i < count; ++i) {
    if (p->dweight != NULL)
      ap_store_element(p->dweight, first + i, (float)all.weight[i], p->param_dtype);
    if (p->dbias != NULL)
      ap_store_element(p->dbias, first + i, (float)all.bias[i], p->param_dtype);
  }
}

AP_TARGET void AP_FORWARD(ap_layernorm_row *row) {
  if (row->dtype == ATTNPRESS_FP32)
    forward(row, ATTNPRESS_FP32);
  else if (row->dtype == ATTNPRESS_FP16)
    forward(row, ATTNPRESS_FP16);
  else
    forward(row, ATTNPRESS_BF16);
}

AP_TARGET void AP_BACKWARD(ap_layernorm_row *row) {
  if (row->dtype == ATTNPRESS_FP32)
    backward(row, ATTNPRESS_FP32);
  else if (row->dtype == ATTNPRESS_FP16)
    backward(row, ATTNPRESS_FP16);
  else
    backward(row, ATTNPRESS_BF16);
}

AP_TARGET void AP_SUMS(const ap_layernorm_problem *problem, int64_t first) {
  if (problem->dtype == ATTNPRESS_FP32)
    add_columns(problem, first, ATTNPRESS_FP32);
  else if (problem->dtype == ATTNPRESS_FP16)
    add_columns(problem, first, ATTNPRESS_FP16);
  else
    add_columns(problem, first, ATTNPRESS_BF16);
}
