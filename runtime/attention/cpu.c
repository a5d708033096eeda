/* The CPU backend: turns a call into row blocks and hands them to threads that live as long as the
 * call. What a row block does is in cpu_kernel.inc.h. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "attention/cpu.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "attention/cpu_kernel.h"
#include "attention/defaults.h"
#include "core/error.h"

/* ---- Instruction sets ---- */

int ap_cpu_isa_usable(ap_cpu_isa isa) {
  if (isa == AP_CPU_PLAIN)
    return 1;
#if defined(__x86_64__)
  __builtin_cpu_init();
  unsigned eax, ebx, ecx, edx;
  int f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
  int avx2 = f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == AP_CPU_AVX2)
    return avx2;
  if (isa == AP_CPU_AVX512)
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  return 0;
}

ap_cpu_isa ap_cpu_best_isa(void) {
  if (ap_cpu_isa_usable(AP_CPU_AVX512))
    return AP_CPU_AVX512;
  return ap_cpu_isa_usable(AP_CPU_AVX2) ? AP_CPU_AVX2 : AP_CPU_PLAIN;
}

const char *ap_cpu_isa_name(ap_cpu_isa isa) {
  return isa == AP_CPU_AVX512 ? "avx512" : isa == AP_CPU_AVX2 ? "avx2" : "plain";
}

static ap_cpu_row_block *row_block_of(ap_cpu_isa isa) {
#if defined(__x86_64__)
  if (isa == AP_CPU_AVX512)
    return ap_cpu_row_block_avx512;
  if (isa == AP_CPU_AVX2)
    return ap_cpu_row_block_avx2;
#endif
  (void)isa;
  return ap_cpu_row_block_plain;
}

/* ---- The call as a problem ---- */

static ap_cpu_problem problem_of(const attnpress_forward_args *a) {
  const int64_t seqlen_q = a->q.shape[1], heads_q = a->q.shape[2], heads_kv = a->k.shape[2];
  ap_cpu_problem p = {
      .q = a->q.data,
      .k = a->k.data,
      .v = a->v.data,
      .out = a->out.data,
      .lse = a->lse,
      .q_batch_stride = a->q.stride[0],
      .q_row_stride = a->q.stride[1],
      .q_head_stride = a->q.stride[2],
      .k_batch_stride = a->k.stride[0],
      .k_row_stride = a->k.stride[1],
      .k_head_stride = a->k.stride[2],
      .v_batch_stride = a->v.stride[0],
      .v_row_stride = a->v.stride[1],
      .v_head_stride = a->v.stride[2],
      .out_batch_stride = a->out.stride[0],
      .out_row_stride = a->out.stride[1],
      .out_head_stride = a->out.stride[2],
      .batch = a->q.shape[0],
      .heads_kv = heads_kv,
      .group = heads_kv > 0 ? heads_q / heads_kv : 0,
      .seqlen_q = seqlen_q,
      .seqlen_k = a->k.shape[1],
      .hdim = (int32_t)a->q.shape[3],
      .hdim_v = (int32_t)a->v.shape[3],
      .dtype = a->q.dtype,
      .causal = a->mask == ATTNPRESS_CAUSAL,
      .scale_log2 = (float)(ap_scale(a) * 1.44269504088896340736),
  };
  ap_lse_strides(a, &p.lse_batch_stride, &p.lse_head_stride);
  p.row_blocks = (p.seqlen_q * p.group + AP_CPU_ROWS - 1) / AP_CPU_ROWS;
  return p;
}

/* ---- Threads ---- */

typedef struct call {
  ap_cpu_problem problem;
  ap_cpu_row_block *row_block;
  int64_t num_tasks;
  atomic_llong next_task;
} call;

typedef struct worker {
  call *call;
  ap_cpu_scratch *scratch;
  pthread_t thread;
} worker;

/* Tasks of one batch and key head lie together, so that K and V stay in the cache; within them the
 * last rows, which under a causal mask see the most keys, come first. */
static void run_tasks(call *c, ap_cpu_scratch *scratch) {
  const ap_cpu_problem *p = &c->problem;
  const int64_t rows = p->seqlen_q * p->group;
  for (;;) {
    int64_t task = atomic_fetch_add_explicit(&c->next_task, 1, memory_order_relaxed);
    if (task >= c->num_tasks)
      return;
    int64_t block = p->row_blocks - 1 - task % p->row_blocks, head = task / p->row_blocks;
    int64_t row_begin = block * AP_CPU_ROWS, left = rows - row_begin;
    c->row_block(p, scratch, head / p->heads_kv, head % p->heads_kv, row_begin,
                 left < AP_CPU_ROWS ? (int)left : AP_CPU_ROWS);
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

/* How many threads the call is worth: no more than tasks, and a few million operations each, below
 * which starting a thread costs more than it brings. */
static int useful_threads(const call *c, int num_threads) {
  const ap_cpu_problem *p = &c->problem;
  double work = (double)p->batch * (double)p->heads_kv * (double)p->group * (double)p->seqlen_q *
                (double)p->seqlen_k * 2.0 * (p->hdim + p->hdim_v);
  double worth = 1.0 + work / 4e6;
  int n = num_threads > 0 ? num_threads : usable_cores();
  if (n > c->num_tasks)
    n = (int)c->num_tasks;
  return worth < n ? (int)worth : n;
}

/* Runs the call on `n` threads, the calling one among them; on fewer where no more can be started.
 * workers: (n), with scratch. */
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

attnpress_status ap_cpu_forward_isa(const attnpress_forward_args *args, int num_threads,
                                    ap_cpu_isa isa) {
  call c = {.problem = problem_of(args), .row_block = row_block_of(isa)};
  c.num_tasks = c.problem.batch * c.problem.heads_kv * c.problem.row_blocks;
  if (c.num_tasks == 0)
    return ATTNPRESS_OK;
  const int n = useful_threads(&c, num_threads);
  worker *workers = calloc((size_t)n, sizeof *workers);
  ap_cpu_scratch *scratch = aligned_alloc(64, (size_t)n * sizeof *scratch);
  const int have_memory = workers && scratch;
  for (int i = 0; i < n && have_memory; ++i) {
    workers[i].call = &c;
    workers[i].scratch = &scratch[i];
  }
  if (have_memory)
    run_threads(&c, workers, n);
  free(scratch);
  free(workers);
  RETURN_IF(
      !have_memory, ATTNPRESS_OUT_OF_MEMORY,
      "the scratch memory of %d threads, %zu bytes, could not be allocated: use fewer threads", n,
      (size_t)n * sizeof *scratch);
  return ATTNPRESS_OK;
}

attnpress_status ap_cpu_forward(const attnpress_forward_args *args, int num_threads) {
  return ap_cpu_forward_isa(args, num_threads, ap_cpu_best_isa());
}
