/* The CPU backend, in fp32: tasks are a few rows of x, copied to the thread's scratch memory as
 * floats, so that their place is free; a row of W is widened once for all of them. */
#include <string.h>

#include "cpu/element.h"
#include "cpu/threads.h"
#include "matmul/matmul.h"
#include "core/numbers.h"

enum { TASK_ROWS = 16, LANES = 16 /* sums of a dot product that go on side by side */ };

/** Row `row` of W as floats, rounded to x's dtype as on a GPU. */
static void load_w(const ap_matmul_problem *p, int64_t row, float *to) {
  for (int64_t i = 0; i < p->n; ++i) {
    const float value = ap_load_element(p->w, row * p->w_stride + i, p->w_dtype);
    if (p->w_dtype != ATTNPRESS_FP32)
      to[i] = value;
    else if (p->dtype == ATTNPRESS_FP16)
      to[i] = ap_float_from_fp16(ap_fp16_from_float(value));
    else
      to[i] = ap_float_from_bf16(ap_bf16_from_float(value));
  }
}

/** n is a multiple of 8. */
static float dot(const float *a, const float *b, int64_t n) {
  float sums[LANES] = {0}, sum = 0.0f;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int lane = 0; lane < LANES; ++lane)
      sums[lane] += a[i + lane] * b[i + lane];
  for (int lane = 0; i + lane < n; ++lane)
    sums[lane] += a[i + lane] * b[i + lane];
  for (int lane = 0; lane < LANES; ++lane)
    sum += sums[lane];
  return sum;
}

static void run_task(const void *job, void *scratch, int64_t task) {
  const ap_matmul_problem *p = job;
  const int64_t n = p->n, first = task * TASK_ROWS, left = p->rows - first;
  const int64_t rows = left < TASK_ROWS ? left : TASK_ROWS;
  float *x = scratch, *sum = x + TASK_ROWS * n, *w = sum + TASK_ROWS * n;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < n; ++i)
      x[r * n + i] = ap_load_element(p->x, (first + r) * p->x_stride + i, p->dtype);
  memset(sum, 0, (size_t)(TASK_ROWS * n) * sizeof *sum);
  for (int64_t k = 0; k < n; ++k) {
    load_w(p, k, w);
    for (int64_t r = 0; r < rows; ++r) {
      if (p->transposed) {
        sum[r * n + k] = dot(x + r * n, w, n);
        continue;
      }
      const float factor = x[r * n + k];
      float *row = sum + r * n;
      for (int64_t j = 0; j < n; ++j)
        row[j] += factor * w[j];
    }
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < n; ++i)
      ap_store_element(p->x, (first + r) * p->x_stride + i, sum[r * n + i], p->dtype);
}

attnpress_status ap_matmul_cpu(const ap_matmul_problem *p, int32_t num_threads) {
  if (ap_matmul_is_empty(p))
    return ATTNPRESS_OK;
  const ap_cpu_job job = {
      .run = run_task,
      .job = p,
      .num_tasks = ceil_div(p->rows, TASK_ROWS),
      .scratch_bytes = (size_t)((2 * TASK_ROWS + 1) * p->n) * sizeof(float),
      .operations = 2.0 * (double)p->rows * (double)p->n * (double)p->n,
  };
  return ap_cpu_run(&job, num_threads);
}
