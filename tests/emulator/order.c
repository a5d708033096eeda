/* Who knows of what: happens-before, by vector clocks.
 *
 * A clock says of each actor up to which stamp it is known. Actors are the threads of the block,
 * the products of each warp, and the copies of each barrier in shared memory. Threads have a clock
 * each, and barriers hand clocks over. A barrier of the whole block needs none of that: what came
 * before the latest one, m->floor, all threads know of one another. So kernels that have no other
 * barrier touch no clock.
 *
 * Behind each clock stands a second one: what of the threads' writes has gone through a fence to
 * the asynchronous proxy, by which the copy engine and wgmma see shared memory. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

static machine *const m = &the_machine;

static uint32_t *clocks;         /* (clock, stride): actors, then what is fenced of threads */
static size_t clocks_capacity;   /* in words */
static int actors, stride, used; /* used: of the stride, that has to be carried along */

enum { CLOCKS_OF_BARRIERS = 2 * MBARRIERS_MAX + NAMED_BARRIERS + 2 };

static uint32_t *clock_of(int index) {
  return clocks + (size_t)index * (size_t)stride;
}

int order_products_of(int warp) {
  return m->thread_count + warp;
}

int order_copies_of(int mbarrier) {
  return m->thread_count + m->thread_count / WARP_LANES + mbarrier;
}

int order_clock_of_mbarrier(int mbarrier, int completed) {
  return m->thread_count + 2 * mbarrier + completed;
}

int order_clock_of_named(int named) {
  return m->thread_count + 2 * MBARRIERS_MAX + named;
}

int order_clock_of_cluster(int parity) {
  return m->thread_count + 2 * MBARRIERS_MAX + NAMED_BARRIERS + parity;
}

/* Stamps only grow, so what clocks hold of earlier blocks does no harm. */
void order_reset_launch(void) {
  actors = m->thread_count + m->thread_count / WARP_LANES + MBARRIERS_MAX;
  stride = actors + m->thread_count;
  used = actors;
  const size_t words = (size_t)(m->thread_count + CLOCKS_OF_BARRIERS) * (size_t)stride;
  if (words > clocks_capacity) {
    free(clocks);
    clocks = calloc(words, sizeof *clocks);
    clocks_capacity = clocks ? words : 0;
    if (clocks == NULL)
      abort();
  }
  m->partial = 0;
  if (m->epoch > UINT32_MAX / 2) /* no process has come near */
    abort();
}

void order_reset_block(void) {
  m->floor = ++m->epoch;
  for (int t = 0; t < m->thread_count; ++t)
    m->threads[t].time = m->floor;
}

uint32_t order_stamp(void) {
  return ++m->epoch;
}

void order_clear(int clock) {
  memset(clock_of(clock), 0, (size_t)stride * sizeof(uint32_t));
}

void order_copy(int to, int from) {
  memcpy(clock_of(to), clock_of(from), (size_t)stride * sizeof(uint32_t));
}

static void join(uint32_t *restrict to, const uint32_t *restrict from, int count) {
  for (int i = 0; i < count; ++i)
    to[i] = to[i] > from[i] ? to[i] : from[i];
}

void order_release(int thread, int clock) {
  m->partial = 1;
  uint32_t *own = clock_of(thread);
  own[thread] = m->threads[thread].time;
  join(clock_of(clock), own, used);
  m->threads[thread].time = ++m->epoch;
}

void order_acquire(int thread, int clock) {
  join(clock_of(thread), clock_of(clock), used);
}

/* Of each other's accesses the threads know by the floor; of the rest by their clocks. */
void order_barrier(void) {
  m->floor = ++m->epoch;
  for (int t = 0; t < m->thread_count; ++t)
    m->threads[t].time = m->floor;
  if (!m->partial && !m->async && used == actors)
    return;
  const int first = m->thread_count, count = used - first;
  for (int t = 1; t < m->thread_count; ++t)
    join(clock_of(0) + first, clock_of(t) + first, count);
  for (int t = 1; t < m->thread_count; ++t)
    memcpy(clock_of(t) + first, clock_of(0) + first, (size_t)count * sizeof(uint32_t));
}

int order_knows(int thread, int other, uint32_t stamp) {
  return stamp < m->floor || thread == other || (m->partial && clock_of(thread)[other] >= stamp);
}

uint32_t order_known_of(int thread, int other) {
  if (thread == other)
    return m->threads[thread].time;
  const uint32_t known = m->partial ? clock_of(thread)[other] : 0;
  return known >= m->floor ? known : m->floor - 1;
}

uint32_t order_known(int clock, int actor) {
  return clock_of(clock)[actor];
}

void order_learn(int clock, int actor, uint32_t stamp) {
  uint32_t *known = &clock_of(clock)[actor];
  *known = *known > stamp ? *known : stamp;
}

void order_fence(int thread) {
  used = stride;
  uint32_t *known = clock_of(thread), *fenced = known + actors;
  known[thread] = m->threads[thread].time;
  join(fenced, known, m->thread_count);
  for (int t = 0; t < m->thread_count; ++t)
    if (fenced[t] < m->floor)
      fenced[t] = m->floor - 1;
  m->threads[thread].time = ++m->epoch;
}

int order_knows_fenced(int thread, int other, uint32_t stamp) {
  return clock_of(thread)[actors + other] >= stamp;
}
