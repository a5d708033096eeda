/* Runs the threads of a block, one at a time, each until it has to wait: for the lanes of its warp
 * or warpgroup, in an instruction that they execute together, for the block, or for an object. */
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
  ++m->ready_of_group[thread / GROUP_LANES];
}

static uint32_t random_state; /* set before each block: what is seen is the same from run to run */

/* The place in the ring of the first ready thread of a warpgroup; 0 where it has none. */
static int place_of_group(int group) {
  if (m->ready_of_group[group] == 0)
    return 0;
  for (int i = 0; i < m->ready_count; ++i)
    if (m->ready[(m->ready_first + i) % THREADS_MAX] / GROUP_LANES == group)
      return i;
  return 0;
}

/* Who of those that are ready: in one block of three the first that became so; in the next, one
 * warpgroup runs as far as it can before the others; in the third anyone. */
static int take_ready(void) {
  const int groups = m->thread_count / GROUP_LANES;
  int place = 0;
  random_state = random_state * 1664525u + 1013904223u;
  if (m->block % 3 == 1 && groups > 1)
    place = place_of_group((int)((m->block + m->launch->blocks) % (unsigned)groups));
  else if (m->block % 3 == 2)
    place = (int)(random_state >> 16) % m->ready_count;
  uint16_t *chosen = &m->ready[(m->ready_first + place) % THREADS_MAX];
  const int thread = *chosen;
  *chosen = m->ready[m->ready_first];
  m->ready_first = (m->ready_first + 1) % THREADS_MAX;
  --m->ready_count;
  --m->ready_of_group[thread / GROUP_LANES];
  return thread;
}

static _Noreturn void report_deadlock(void);

/* No thread is ready: only now do stores of other blocks arrive and does the copy engine do its
 * work, and of a cluster's blocks only where no other one can go on. 0: nothing is left to happen. */
static int let_others_work(void) {
  if (cluster_let_others_run(1))
    return 1;
  if (!cluster_bring_sent() && !tma_carry_out())
    return cluster_let_others_run(3);
  cluster_goes_on();
  return 1;
}

/* Goes on with the next ready thread, or, where all have exited, with emulated_run(). */
static void yield_from(int thread) {
  fiber *from = &m->threads[thread].fiber, *to = &m->program;
  while (m->ready_count == 0 && m->exited < m->thread_count && let_others_work()) {
  }
  if (m->ready_count > 0) {
    const int next = take_ready();
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
  products_check_exit();
  bulk_check_exit();
  cluster_thread_exits();
  m->threads[m->current].state = THREAD_EXITED;
  if (++m->exited == m->thread_count) {
    tma_check_exit();
    registers_check_exit();
  }
  yield_from(m->current);
}

static void run_block(unsigned block) {
  m->block = block;
  random_state = block;
  m->at_barrier = m->exited = m->ready_count = m->ready_first = 0;
  memset(m->ready_of_group, 0, sizeof m->ready_of_group);
  memset(m->warps, 0, sizeof m->warps);
  memset(m->groups, 0, sizeof m->groups);
  m->async = 0;
  order_reset_block();
  earlier_reset_block();
  shared_reset();
  mbarriers_reset();
  fragments_reset();
  tma_reset();
  bulk_reset();
  global_block_reset();
  named_barriers_reset();
  told_reset();
  registers_reset();
  products_reset();
  for (int t = 0; t < m->thread_count; ++t) {
    cp_async_reset(&m->threads[t]);
    fiber_start(&m->threads[t].fiber, thread_main);
    if (t > 0)
      make_ready(t);
  }
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
  order_reset_launch();
  earlier_reset_launch();
  global_reset();
  tickets_reset();
  const unsigned cluster = launch->cluster > 1 ? launch->cluster : 1;
  const unsigned at_once = launch->together ? launch->blocks : cluster;
  for (unsigned block = 0; block < launch->blocks && !m->failed; block += at_once)
    if (at_once > 1)
      cluster_run(block, at_once, cluster, run_block);
    else
      run_block(block);
  return m->failed || earlier_unawaited() ? -1 : 0;
}

/* ---- Who waits ------------------------------------------------------------------------------- */

unsigned emulated_thread_index(void) {
  return (unsigned)m->current;
}

unsigned emulated_block_index(void) {
  return m->block;
}

unsigned emulated_grid_size(void) {
  return m->launch->blocks;
}

int current_warp(void) {
  return m->current / WARP_LANES;
}

static void execute_together(warp *w, int lanes, const char *instruction, warp_function *execute,
                             void *operands, const void *site) {
  thread *self = &m->threads[m->current];
  const int first = m->current / lanes * lanes;
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
  if (++w->arrived < lanes) {
    self->state = THREAD_IN_WARP;
    yield_from(m->current);
    return;
  }
  void *all[GROUP_LANES];
  for (int lane = 0; lane < lanes; ++lane)
    all[lane] = m->threads[first + lane].operands;
  execute(all);
  w->execute = NULL;
  w->arrived = 0;
  for (int lane = 0; lane < lanes; ++lane)
    if (first + lane != m->current)
      make_ready(first + lane);
}

void warp_execute(const char *instruction, warp_function *execute, void *operands,
                  const void *site) {
  execute_together(&m->warps[m->current / WARP_LANES], WARP_LANES, instruction, execute, operands,
                   site);
}

void group_execute(const char *instruction, warp_function *execute, void *operands,
                   const void *site) {
  const int group = m->current / GROUP_LANES;
  if ((group + 1) * GROUP_LANES > m->thread_count)
    machine_fail("%s by a warpgroup that is not whole, in a block of %d threads, at %s",
                 instruction, m->thread_count, site_text(site));
  execute_together(&m->groups[group], GROUP_LANES, instruction, execute, operands, site);
}

void thread_wait(const void *object, const char *instruction, const void *site) {
  thread *self = &m->threads[m->current];
  self->instruction = instruction;
  self->site = site;
  self->object = object;
  self->state = THREAD_WAITING;
  yield_from(m->current);
}

void threads_wake(const void *object) {
  for (int t = 0; t < m->thread_count; ++t)
    if (m->threads[t].state == THREAD_WAITING && m->threads[t].object == object)
      make_ready(t);
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
  order_barrier();
  for (int t = 0; t < m->thread_count; ++t)
    if (t != m->current)
      make_ready(t);
  self->state = THREAD_READY;
}

/* ---- Nobody runs ----------------------------------------------------------------------------- */

static int same_wait(const thread *a, const thread *b) {
  return a->state == b->state && (a->state == THREAD_EXITED || a->site == b->site) &&
         (a->state != THREAD_WAITING || a->object == b->object);
}

/* What a thread waits for, where that is an object that has something to say. */
static void object_text(const thread *t, char *text, size_t text_bytes) {
  text[0] = '\0';
  if (t->state == THREAD_WAITING) {
    mbarrier_text(t->object, text, text_bytes);
    named_barrier_text(t->object, text, text_bytes);
  }
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
    char who[64], object[256];
    object_text(t, object, sizeof object);
    snprintf(who, sizeof who, end - begin == 1 ? "thread %d" : "threads %d-%d", begin, end - 1);
    const int written = t->state == THREAD_EXITED
                            ? snprintf(text + size, sizeof text - size, "\n  %s: exited", who)
                            : snprintf(text + size, sizeof text - size, "\n  %s: in %s%s at %s",
                                       who, t->instruction, object, site_text(t->site));
    size += (size_t)written;
  }
  machine_fail("deadlock: not all threads arrive%s", text);
}
