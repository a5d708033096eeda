/* Threads that live as long as the call: independent tasks, each thread with scratch memory of its
 * own. Nothing outlives the call, so that nothing meets another library's threads, nor a fork. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "attnpress/attnpress.h"

/** Runs one task of a job. scratch: the thread's own, 64-byte aligned, with what its last task left
 * in it; NULL where the job asked for none. */
typedef void ap_cpu_task(const void *job, void *scratch, int64_t task);

/** Tasks 0 to num_tasks - 1 in any order, handed out from the first to the last; returns when all
 * are done. */
typedef struct ap_cpu_job {
  ap_cpu_task *run;
  const void *job; /* handed to run */
  int64_t num_tasks;
  size_t scratch_bytes; /* of each thread; may be 0 */
  double operations;    /* of all tasks together, multiplications and additions; a rough number */
} ap_cpu_job;

/** At most `num_threads` threads work (0: as many as the process may use cores), the calling one
 * among them, and no more than the tasks or the operations are worth; fewer where no more can be
 * started. OUT_OF_MEMORY, before any task, where the scratch memory is not to be had. */
attnpress_status ap_cpu_run(const ap_cpu_job *job, int num_threads);
