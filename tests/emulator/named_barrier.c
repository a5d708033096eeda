/* Named barriers (PTX ISA, Parallel Synchronization and Communication Instructions: barrier): a
 * warp arrives as a whole, and all that arrive name the same count of threads. Both sync and arrive
 * release; sync acquires. */
#include "machine.h"

#include <stdio.h>
#include <string.h>

static machine *const m = &the_machine;

typedef struct named_barrier {
  int threads, arrived; /* threads: of this round, once a warp has arrived */
  uint32_t round;
  uint32_t waiting; /* warps that arrived by bar.sync or bar.red, as bits */
  int reduces;      /* this round is one of bar.red */
  int all;          /* the predicates of this round's arrivals so far */
  int result;       /* those of the last round */
} named_barrier;

static named_barrier barriers[NAMED_BARRIERS];

typedef struct arrival {
  int barrier, threads, waits;
  int reduces, predicate; /* of bar.red */
  uint32_t round;         /* that it arrived in */
  const void *site;
} arrival;

/* A round may be left open at a block's end: the arrivals that nobody waited for. */
void named_barriers_reset(void) {
  memset(barriers, 0, sizeof barriers);
}

void named_barrier_text(const void *object, char *text, size_t text_bytes) {
  const named_barrier *b = object;
  if (b >= barriers && b < barriers + NAMED_BARRIERS)
    snprintf(text, text_bytes, " (named barrier %d: %d of %d threads have arrived)",
             (int)(b - barriers), b->arrived, b->threads);
}

static void check_arrival(const named_barrier *b, const arrival *a) {
  if (a->barrier < 1 || a->barrier >= NAMED_BARRIERS)
    machine_fail("there is no named barrier %d, at %s", a->barrier, site_text(a->site));
  if (a->threads < WARP_LANES || a->threads % WARP_LANES != 0 || a->threads > m->thread_count)
    machine_fail("named barrier %d of %d threads, in a block of %d, at %s", a->barrier, a->threads,
                 m->thread_count, site_text(a->site));
  if (b->arrived > 0 && b->threads != a->threads)
    machine_fail("arrives at named barrier %d for %d threads, where others arrived for %d, at %s",
                 a->barrier, a->threads, b->threads, site_text(a->site));
  if (b->arrived > 0 && b->reduces != a->reduces)
    machine_fail("bar.red and another arrival in one round of named barrier %d, at %s", a->barrier,
                 site_text(a->site));
}

static void complete_round(named_barrier *b) {
  const int clock = order_clock_of_named((int)(b - barriers));
  for (int t = 0; t < m->thread_count; ++t)
    if (b->waiting >> t / WARP_LANES & 1)
      order_acquire(t, clock);
  order_clear(clock);
  b->arrived = 0;
  b->waiting = 0;
  b->result = b->all;
  ++b->round;
  threads_wake(b);
}

static void execute_arrival(void *operands[]) {
  arrival *const *lanes = (arrival *const *)operands;
  const arrival *a = lanes[0];
  const int first = current_warp() * WARP_LANES;
  for (int lane = 1; lane < WARP_LANES; ++lane)
    if (lanes[lane]->barrier != a->barrier || lanes[lane]->threads != a->threads)
      machine_fail("named barriers that differ in one warp, at %s and %s", site_text(a->site),
                   site_text(lanes[lane]->site));
  check_arrival(&barriers[a->barrier < 0 ? 0 : a->barrier % NAMED_BARRIERS], a);
  named_barrier *b = &barriers[a->barrier];
  if (b->arrived == 0) {
    order_clear(order_clock_of_named(a->barrier));
    b->all = 1;
  }
  b->threads = a->threads;
  b->reduces = a->reduces;
  for (int lane = 0; lane < WARP_LANES; ++lane) {
    lanes[lane]->round = b->round;
    b->all &= lanes[lane]->predicate;
    order_release(first + lane, order_clock_of_named(a->barrier));
  }
  b->arrived += WARP_LANES;
  b->waiting |= (uint32_t)a->waits << current_warp();
  if (b->arrived == b->threads)
    complete_round(b);
}

/* bar.sync barrier, threads */
void emulated_named_barrier_sync(int barrier, int threads) {
  arrival a = {.barrier = barrier, .threads = threads, .waits = 1, .site = CALL_SITE()};
  warp_execute("bar.sync", execute_arrival, &a, a.site);
  const named_barrier *b = &barriers[barrier];
  while (b->round == a.round)
    thread_wait(b, "bar.sync", a.site);
}

/* bar.red.and barrier, threads, predicate; a function of its own, as each instruction has one. */
static void execute_reduction(void *operands[]) {
  execute_arrival(operands);
}

int emulated_named_barrier_all(int barrier, int threads, int predicate) {
  arrival a = {.barrier = barrier,
               .threads = threads,
               .waits = 1,
               .reduces = 1,
               .predicate = predicate != 0,
               .site = CALL_SITE()};
  warp_execute("bar.red", execute_reduction, &a, a.site);
  const named_barrier *b = &barriers[barrier];
  while (b->round == a.round)
    thread_wait(b, "bar.red", a.site);
  return b->result; /* of this round: the next one waits for this thread */
}

/* bar.sync without waiting; a function of its own, as each instruction has one. */
static void execute_arrival_only(void *operands[]) {
  execute_arrival(operands);
}

/* bar.arrive barrier, threads */
void emulated_named_barrier_arrive(int barrier, int threads) {
  arrival a = {.barrier = barrier, .threads = threads, .site = CALL_SITE()};
  warp_execute("bar.arrive", execute_arrival_only, &a, a.site);
}
