/* A handle: the parts of the library, put together. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "core/log.h"
#include "cuda/context.h"
#include "cuda/driver.h"
#include "cuda/kernel.h"
#include "press/find.h"

enum { AP_THREADS_MAX = 1024 }; /* of a CPU handle */

struct attnpress_handle {
  int32_t backend, num_threads, arch_max, check;
  pid_t process; /* that made it */
  ap_log log;
  ap_finder finder;
  ap_driver driver;

  pthread_mutex_t lock; /* kernels, and adding to contexts and tables; never held while compiling */
  pthread_cond_t loaded; /* a kernel stopped being BUSY */
  ap_kernel *kernels;
  _Atomic(ap_context *) contexts;
  ap_snippets snippets; /* kept until the handle goes: kernels name them */
};
