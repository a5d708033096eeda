/* Starts the threads of a call, hands out its tasks and joins. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "cpu/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/error.h"

/* Below so many operations starting a thread costs more than it brings. */
#define OPERATIONS_PER_THREAD 4e6

enum { ALIGNMENT_BYTES = 64 };

typedef struct call {
  const ap_cpu_job *job;
  atomic_llong next_task;
} call;

typedef struct worker {
  call *call;
  void *scratch;
  pthread_t thread;
} worker;

static void run_tasks(call *c, void *scratch) {
  for (;;) {
    int64_t task = atomic_fetch_add_explicit(&c->next_task, 1, memory_order_relaxed);
    if (task >= c->job->num_tasks)
      return;
    c->job->run(c->job->job, scratch, task);
  }
}

static void *worker_main(void *argument) {
  worker *w = argument;
  run_tasks(w->call, w->scratch);
  return NULL;
}

static int usable_cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
    return CPU_COUNT(&set);
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

static int useful_threads(const ap_cpu_job *job, int num_threads) {
  const double worth = 1.0 + job->operations / OPERATIONS_PER_THREAD;
  int n = num_threads > 0 ? num_threads : usable_cores();
  if (n > job->num_tasks)
    n = (int)job->num_tasks;
  return worth < n ? (int)worth : n;
}

/* Runs the call on `n` threads, the calling one among them. workers: (n), with scratch. */
static void run_threads(call *c, worker *workers, int n) {
  sigset_t all, old;
  int started = 0;
  if (n > 1) { /* signals stay with the threads of the program */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (; started < n - 1; ++started)
      if (pthread_create(&workers[started].thread, NULL, worker_main, &workers[started]) != 0)
        break;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
  }
  run_tasks(c, workers[n - 1].scratch);
  for (int i = 0; i < started; ++i)
    pthread_join(workers[i].thread, NULL);
}

/* Bytes of `count` things of `each` bytes, rounded up to the alignment; 0 where that overflows. */
static size_t aligned_bytes(size_t count, size_t each) {
  const size_t mask = ALIGNMENT_BYTES - 1;
  size_t bytes;
  if (__builtin_mul_overflow(count, each, &bytes) || bytes > SIZE_MAX - mask)
    return 0;
  return (bytes + mask) & ~mask;
}

attnpress_status ap_cpu_run(const ap_cpu_job *job, int num_threads) {
  if (job->num_tasks <= 0)
    return ATTNPRESS_OK;
  const int n = useful_threads(job, num_threads);
  const size_t each_bytes = aligned_bytes(1, job->scratch_bytes);
  const size_t scratch_bytes = aligned_bytes((size_t)n, each_bytes);
  const size_t workers_bytes = aligned_bytes((size_t)n, sizeof(worker));
  /* One piece: the scratch memory of every thread, then the workers. */
  char *memory = NULL;
  if ((scratch_bytes > 0 || job->scratch_bytes == 0) && scratch_bytes <= SIZE_MAX - workers_bytes)
    memory = aligned_alloc(ALIGNMENT_BYTES, scratch_bytes + workers_bytes);
  RETURN_IF(memory == NULL, ATTNPRESS_OUT_OF_MEMORY,
            "the scratch memory of %d threads, %zu bytes each, could not be allocated: use fewer "
            "threads",
            n, job->scratch_bytes);
  call c = {.job = job};
  worker *workers = (worker *)(memory + scratch_bytes);
  for (int i = 0; i < n; ++i)
    workers[i] =
        (worker){.call = &c, .scratch = each_bytes > 0 ? memory + (size_t)i * each_bytes : NULL};
  run_threads(&c, workers, n);
  free(memory);
  return ATTNPRESS_OK;
}
