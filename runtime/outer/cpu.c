/* The CPU backend, in double whatever the dtype: tasks are rows of c, or of what is summed, so that
 * each sum is made by one thread, in order. */
#include "cpu/element.h"
#include "cpu/threads.h"
#include "outer/outer.h"
#include "core/numbers.h"

enum { DY_COLUMNS = 512 /* of a task */ };

static double load(const ap_outer_problem *p, const void *data, int64_t at) {
  return ap_load_double(data, at, p->dtype);
}

static void store(const ap_outer_problem *p, void *data, int64_t at, double value) {
  ap_store_double(data, at, value, p->dtype);
}

/** Row i of entry n of c. */
static int64_t row_of(const ap_outer_problem *p, int64_t n, int64_t i) {
  return n * p->c_batch_stride + i * p->c_row_stride;
}

static void product_row(const void *job, void *scratch, int64_t task) {
  const ap_outer_problem *p = job;
  const int64_t n = task / p->rows, i = task % p->rows;
  const double x = load(p, p->x, n * p->x_stride + i);
  (void)scratch;
  for (int64_t j = 0; j < p->columns; ++j)
    store(p, p->c, row_of(p, n, i) + j, x * load(p, p->y, n * p->y_stride + j));
}

static void summed_row(const void *job, void *scratch, int64_t i) {
  const ap_outer_problem *p = job;
  double *sum = scratch;
  for (int64_t j = 0; j < p->columns; ++j)
    sum[j] = 0.0;
  for (int64_t n = 0; n < p->batch; ++n) {
    const double x = load(p, p->x, n * p->x_stride + i);
    for (int64_t j = 0; j < p->columns; ++j)
      sum[j] += x * load(p, p->y, n * p->y_stride + j);
  }
  for (int64_t j = 0; j < p->columns; ++j)
    store(p, p->c, row_of(p, 0, i) + j, sum[j]);
}

static void dx_element(const void *job, void *scratch, int64_t task) {
  const ap_outer_problem *p = job;
  const int64_t n = task / p->rows, i = task % p->rows;
  double sum = 0.0;
  (void)scratch;
  for (int64_t j = 0; j < p->columns; ++j)
    sum += load(p, p->c, row_of(p, n, i) + j) * load(p, p->y, n * p->y_stride + j);
  store(p, p->dx, n * p->dx_stride + i, sum);
}

static void dy_columns(const void *job, void *scratch, int64_t task) {
  const ap_outer_problem *p = job;
  const int64_t blocks = ceil_div(p->columns, DY_COLUMNS);
  const int64_t n = task / blocks, first = task % blocks * DY_COLUMNS;
  const int64_t left = p->columns - first, count = left < DY_COLUMNS ? left : DY_COLUMNS;
  double sum[DY_COLUMNS] = {0};
  (void)scratch;
  for (int64_t i = 0; i < p->rows; ++i) {
    const double x = load(p, p->x, n * p->x_stride + i);
    for (int64_t j = 0; j < count; ++j)
      sum[j] += x * load(p, p->c, row_of(p, n, i) + first + j);
  }
  for (int64_t j = 0; j < count; ++j)
    store(p, p->dy, n * p->dy_stride + first + j, sum[j]);
}

attnpress_status ap_outer_cpu(const ap_outer_problem *p, int32_t num_threads) {
  ap_cpu_job job = {.job = p,
                    .operations = 4.0 * (double)p->batch * (double)p->rows * (double)p->columns};
  if (ap_outer_is_empty(p))
    return ATTNPRESS_OK;
  if (!p->backward) {
    job.run = p->summed ? summed_row : product_row;
    job.num_tasks = p->summed ? p->rows : p->batch * p->rows;
    job.scratch_bytes = p->summed ? (size_t)p->columns * sizeof(double) : 0;
    return ap_cpu_run(&job, num_threads);
  }
  if (p->dx != NULL && p->rows > 0) {
    job.run = dx_element;
    job.num_tasks = p->batch * p->rows;
    FORWARD_IF(ap_cpu_run(&job, num_threads));
  }
  if (p->dy != NULL && p->columns > 0) {
    job.run = dy_columns;
    job.num_tasks = p->batch * (ceil_div(p->columns, DY_COLUMNS));
    FORWARD_IF(ap_cpu_run(&job, num_threads));
  }
  return ATTNPRESS_OK;
}
