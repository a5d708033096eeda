/* The CPU backend: rows, a few at a time, for the threads of the call. What a row does is in
 * cpu_rows.inc.h. */
#include "cpu/isa.h"
#include "cpu/threads.h"
#include "softmax/cpu_rows.h"
#include "softmax/softmax.h"
#include "core/numbers.h"

enum { TASK_ELEMENTS = 1 << 16, OPERATIONS_PER_ELEMENT = 20 };

typedef struct softmax_job {
  const ap_softmax_problem *problem;
  ap_softmax_row_function *run_row;
  int64_t task_rows;
} softmax_job;

static ap_softmax_row_function *row_function(int32_t pass, int isa) {
  const int forward = pass == AP_SOFTMAX_PASS_FWD;
#if defined(__x86_64__)
  if (isa == AP_CPU_AVX512)
    return forward ? ap_softmax_row_forward_avx512 : ap_softmax_row_backward_avx512;
  if (isa == AP_CPU_AVX2)
    return forward ? ap_softmax_row_forward_avx2 : ap_softmax_row_backward_avx2;
#endif
  (void)isa;
  return forward ? ap_softmax_row_forward_plain : ap_softmax_row_backward_plain;
}

static void *row_of(const ap_softmax_problem *p, const ap_softmax_tensor *t, int64_t row) {
  return (char *)t->data + row * t->stride * ap_softmax_element_bytes(p);
}

static void run_task(const void *job, void *scratch, int64_t task) {
  const softmax_job *j = job;
  const ap_softmax_problem *p = j->problem;
  const int64_t first = task * j->task_rows, left = p->rows - first;
  (void)scratch;
  for (int64_t row = first; row < first + (left < j->task_rows ? left : j->task_rows); ++row) {
    ap_softmax_row r = {.output = row_of(p, ap_softmax_output(p), row),
                        .columns = p->columns,
                        .dtype = p->dtype,
                        .scale = p->scale};
    for (int32_t i = 0; i < p->tensor_count - 1; ++i)
      r.input[i] = row_of(p, &p->tensor[i], row);
    j->run_row(&r);
  }
}

attnpress_status ap_softmax_cpu_isa(const ap_softmax_problem *p, int32_t num_threads, int isa) {
  if (p->rows == 0 || p->columns == 0)
    return ATTNPRESS_OK;
  const softmax_job job = {p, row_function(p->pass, isa),
                           p->columns < TASK_ELEMENTS ? TASK_ELEMENTS / p->columns : 1};
  const ap_cpu_job tasks = {
      .run = run_task,
      .job = &job,
      .num_tasks = ceil_div(p->rows, job.task_rows),
      .operations = (double)p->rows * (double)p->columns * OPERATIONS_PER_ELEMENT,
  };
  return ap_cpu_run(&tasks, num_threads);
}

attnpress_status ap_softmax_cpu(const ap_softmax_problem *problem, int32_t num_threads) {
  return ap_softmax_cpu_isa(problem, num_threads, (int)ap_cpu_best_isa());
}
