/* The CPU backend: rows, a few at a time, for the threads of the call, and before dx, which may lie
 * over what they are made of, the sums over the rows, some columns at a time. What a row and some
 * columns do is in cpu_rows.inc.h. */
#include "cpu/isa.h"
#include "cpu/threads.h"
#include "layernorm/cpu_rows.h"
#include "core/numbers.h"

enum { TASK_ELEMENTS = 1 << 16, OPERATIONS_PER_ELEMENT = 12 };

typedef struct layernorm_job {
  const ap_layernorm_problem *problem;
  ap_layernorm_row_function *run_row;
  ap_layernorm_sum_function *run_sums;
  int64_t task_rows;
} layernorm_job;

static layernorm_job job_of(const ap_layernorm_problem *p, int isa) {
  layernorm_job job = {
      p, p->backward ? ap_layernorm_row_backward_plain : ap_layernorm_row_forward_plain,
      ap_layernorm_sums_plain, p->columns < TASK_ELEMENTS ? TASK_ELEMENTS / p->columns : 1};
#if defined(__x86_64__)
  if (isa == AP_CPU_AVX512) {
    job.run_row = p->backward ? ap_layernorm_row_backward_avx512 : ap_layernorm_row_forward_avx512;
    job.run_sums = ap_layernorm_sums_avx512;
  } else if (isa == AP_CPU_AVX2) {
    job.run_row = p->backward ? ap_layernorm_row_backward_avx2 : ap_layernorm_row_forward_avx2;
    job.run_sums = ap_layernorm_sums_avx2;
  }
#endif
  (void)isa;
  return job;
}

/** Row number `row` of a tensor; NULL where there is none. */
static void *row_of(const ap_layernorm_problem *p, int which, int64_t row) {
  const ap_layernorm_tensor *t = &p->tensor[which];
  return t->data == NULL ? NULL : (char *)t->data + row * t->stride * ap_element_bytes(p->dtype);
}

static void run_row(const layernorm_job *j, int64_t row) {
  const ap_layernorm_problem *p = j->problem;
  ap_layernorm_row r = {.x = row_of(p, AP_LAYERNORM_X, row),
                        .weight = p->weight,
                        .bias = p->bias,
                        .columns = p->columns,
                        .dtype = p->dtype,
                        .param_dtype = p->param_dtype,
                        .rms = p->rms,
                        .eps = p->eps};
  if (p->backward) {
    r.dy = row_of(p, AP_LAYERNORM_DY, row);
    r.dsum = row_of(p, AP_LAYERNORM_DSUM, row);
    r.out = row_of(p, AP_LAYERNORM_DX, row);
    r.mean = p->rms ? 0.0f : p->mean[row];
    r.rstd = p->rstd[row];
  } else {
    r.residual = row_of(p, AP_LAYERNORM_RESIDUAL, row);
    r.sum = row_of(p, AP_LAYERNORM_SUM, row);
    r.out = row_of(p, AP_LAYERNORM_Y, row);
  }
  j->run_row(&r);
  if (!p->backward && p->mean != NULL)
    p->mean[row] = r.mean;
  if (!p->backward && p->rstd != NULL)
    p->rstd[row] = r.rstd;
}

static void run_rows(const void *job, void *scratch, int64_t task) {
  const layernorm_job *j = job;
  const int64_t first = task * j->task_rows, left = j->problem->rows - first;
  (void)scratch;
  for (int64_t row = first; row < first + (left < j->task_rows ? left : j->task_rows); ++row)
    run_row(j, row);
}

static void run_sums(const void *job, void *scratch, int64_t task) {
  const layernorm_job *j = job;
  (void)scratch;
  j->run_sums(j->problem, task * AP_LAYERNORM_SUM_COLUMNS);
}

attnpress_status ap_layernorm_cpu_isa(const ap_layernorm_problem *p, int32_t num_threads, int isa) {
  if (p->columns == 0)
    return ATTNPRESS_OK;
  const layernorm_job job = job_of(p, isa);
  ap_cpu_job tasks = {.job = &job,
                      .operations = (double)p->rows * (double)p->columns * OPERATIONS_PER_ELEMENT};
  if (ap_layernorm_has_sums(p)) {
    tasks.run = run_sums;
    tasks.num_tasks = (p->columns + AP_LAYERNORM_SUM_COLUMNS - 1) / AP_LAYERNORM_SUM_COLUMNS;
    FORWARD_IF(ap_cpu_run(&tasks, num_threads));
  }
  if (p->rows == 0)
    return ATTNPRESS_OK;
  tasks.run = run_rows;
  tasks.num_tasks = ceil_div(p->rows, job.task_rows);
  return ap_cpu_run(&tasks, num_threads);
}

attnpress_status ap_layernorm_cpu(const ap_layernorm_problem *problem, int32_t num_threads) {
  return ap_layernorm_cpu_isa(problem, num_threads, (int)ap_cpu_best_isa());
}
