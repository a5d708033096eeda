/* Runs the threads of a block, one at a time, each until it has to wait: for the lanes of its warp,
 * in an instruction that they execute together, or for the block, at a barrier. */
#include "machine.h"

#include <stdio.h>
#include <string.h>

machine the_machine;
static machine *const m = &the_machine;

enum { STACK_BYTES = 256 * 1024 };

/* ---- Who runs -------------------------------------------------------------------------------- */

static void make_ready(int thread) {
  m->threads[thread].state = THREAD_READY;
  m->ready[(m->ready_first + m->ready_count++) % THREADS_MAX] = (uint16_t)thread;
}

static _Noreturn void report_deadlock(void);

/* Goes on with the next ready thread, or, where all have exited, with emulated_run(). */
static void yield_from(int thread) {
  fiber *from = &m->threads[thread].fiber, *to = &m->program;
  if (m->ready_count > 0) {
    const int next = m->ready[m->ready_first];
    m->ready_first = (m->ready_first + 1) % THREADS_MAX;
    --m->ready_count;
    if (next == thread)
      return;
    m->current = next;
    to = &m->threads[next].fiber;
    m->stack_begin = (uintptr_t)to->stack;
  } else if (m->exited < m->thread_count) {
    report_deadlock();
  }
  fiber_switch(from, to);
}

static void thread_main(void) {
  m->launch->call(m->launch->module->kernel, m->launch->args);
  m->threads[m->current].state = THREAD_EXITED;
  ++m->exited;
  yield_from(m->current);
}

static void run_block(unsigned block) {
  m->block = block;
  m->at_barrier = m->exited = m->ready_count = m->ready_first = 0;
  memset(m->warps, 0, sizeof m->warps);
  shared_reset();
  for (int t = 0; t < m->thread_count; ++t) {
    cp_async_reset(&m->threads[t]);
    fiber_start(&m->threads[t].fiber, thread_main);
    make_ready(t);
  }
  --m->ready_count; /* thread 0 begins */
  m->ready_first = 1 % THREADS_MAX;
  m->current = 0;
  m->stack_begin = (uintptr_t)m->threads[0].fiber.stack;
  fiber_switch(&m->program, &m->threads[0].fiber);
}

int emulated_run(const emulated_launch *launch, char *report) {
  m->launch = launch;
  m->report = report;
  m->failed = 0;
  m->thread_count = (int)launch->threads;
  m->shared_begin = launch->module->shared_begin;
  m->shared_bytes = launch->module->shared_bytes;
  if (launch->threads == 0 || launch->threads % WARP_LANES != 0 || launch->threads > THREADS_MAX) {
    snprintf(report, EMULATED_REPORT_BYTES, "a block of %u threads", launch->threads);
    return -1;
  }
  for (int t = 0; t < m->thread_count; ++t)
    if (m->threads[t].fiber.stack == NULL && fiber_create(&m->threads[t].fiber, STACK_BYTES) != 0) {
      snprintf(report, EMULATED_REPORT_BYTES, "no memory for the stack of thread %d", t);
      return -1;
    }
  global_reset();
  for (unsigned block = 0; block < launch->blocks && !m->failed; ++block)
    run_block(block);
  return m->failed ? -1 : 0;
}

/* ---- Who waits ------------------------------------------------------------------------------- */

unsigned emulated_thread_index(void) {
  return (unsigned)m->current;
}

unsigned emulated_block_index(void) {
  return m->block;
}

void warp_execute(const char *instruction, warp_function *execute, void *operands,
                  const void *site) {
  thread *self = &m->threads[m->current];
  warp *w = &m->warps[m->current / WARP_LANES];
  const int first = m->current / WARP_LANES * WARP_LANES;
  if (w->execute != NULL && w->execute != execute) {
    int other = first;
    while (m->threads[other].state != THREAD_IN_WARP)
      ++other;
    machine_fail("executes %s at %s, while thread %d of its warp waits in %s at %s", instruction,
                 site_text(site), other, m->threads[other].instruction,
                 site_text(m->threads[other].site));
  }
  self->instruction = instruction;
  self->site = site;
  self->operands = operands;
  w->execute = execute;
  if (++w->arrived < WARP_LANES) {
    self->state = THREAD_IN_WARP;
    yield_from(m->current);
    return;
  }
  void *all[WARP_LANES];
  for (int lane = 0; lane < WARP_LANES; ++lane)
    all[lane] = m->threads[first + lane].operands;
  execute(all);
  w->execute = NULL;
  w->arrived = 0;
  for (int lane = 0; lane < WARP_LANES; ++lane)
    if (first + lane != m->current)
      make_ready(first + lane);
}

/* bar.sync 0 (PTX ISA, Parallel Synchronization and Communication Instructions: barrier): all
 * threads of the block arrive, none that has exited is left out. Orders all that they did before it
 * before all they do after. */
void emulated_barrier(void) {
  thread *self = &m->threads[m->current];
  self->instruction = "the barrier";
  self->site = CALL_SITE();
  self->state = THREAD_AT_BARRIER;
  if (++m->at_barrier < m->thread_count) {
    yield_from(m->current);
    return;
  }
  m->at_barrier = 0;
  ++m->epoch;
  for (int t = 0; t < m->thread_count; ++t)
    if (t != m->current)
      make_ready(t);
  self->state = THREAD_READY;
}

/* ---- Nobody runs ----------------------------------------------------------------------------- */

static int same_wait(const thread *a, const thread *b) {
  return a->state == b->state && (a->state == THREAD_EXITED || a->site == b->site);
}

/* "threads 0-31 wait in X at P; threads 32-63 have exited" */
static _Noreturn void report_deadlock(void) {
  char text[EMULATED_REPORT_BYTES / 2];
  size_t size = 0;
  text[0] = '\0';
  for (int begin = 0, end; begin < m->thread_count && size < sizeof text; begin = end) {
    const thread *t = &m->threads[begin];
    for (end = begin + 1; end < m->thread_count && same_wait(t, &m->threads[end]);)
      ++end;
    char who[64];
    snprintf(who, sizeof who, end - begin == 1 ? "thread %d" : "threads %d-%d", begin, end - 1);
    const int written = t->state == THREAD_EXITED
                            ? snprintf(text + size, sizeof text - size, "\n  %s: exited", who)
                            : snprintf(text + size, sizeof text - size, "\n  %s: in %s at %s", who,
                                       t->instruction, site_text(t->site));
    size += (size_t)written;
  }
  machine_fail("deadlock: not all threads arrive%s", text);
}
