/* Barriers in shared memory that count arrivals and bytes (PTX ISA, Parallel Synchronization and
 * Communication Instructions: mbarrier).
 *
 * A barrier lives here; its 8 bytes in shared memory may not be touched otherwise. Arrivals
 * release, and a wait that succeeds acquires what the arrivals of that phase have released, and the
 * copies that it counted. */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static machine *const m = &the_machine;

enum {
  MBARRIER_BYTES = 8,
  COUNT_MAX = (1 << 20) - 1, /* of arrivals, and of bytes */
  PLACES = 512 * 1024 / MBARRIER_BYTES,
};

/* The end of a phase: its last arrival, and its last copy (0: none). */
typedef struct completion {
  int thread;
  uint32_t time, copies;
} completion;

typedef struct mbarrier {
  uint32_t address;
  int count, pending;      /* arrivals of a phase; those that are missing in this one */
  int expected, in_flight; /* bytes that this phase awaits; of copies that were started */
  uint32_t phase;
  int arrived;           /* the last thread to arrive in this phase; */
  uint32_t arrived_time; /* when */
  completion ended[2];   /* how the latest phases of parity 0 and 1 ended */
  int owner;             /* that initialised it */
  uint32_t owner_time;   /* when */
  int fenced;            /* the owner's fence came after */
  uint32_t copies;       /* stamp of the latest copy that has ended */
  uint32_t latest;       /* of the latest that was started */
} mbarrier;

static mbarrier barriers[MBARRIERS_MAX];
static int barrier_count;
static uint16_t at[PLACES]; /* 1 + the barrier that begins there */

void mbarriers_reset(void) {
  for (int i = 0; i < barrier_count; ++i)
    at[barriers[i].address / MBARRIER_BYTES] = 0;
  barrier_count = 0;
  for (int t = 0; t < m->thread_count; ++t)
    m->threads[t].polled = NULL;
}

int mbarriers_exist(void) {
  return barrier_count > 0;
}

int mbarrier_overlaps(uint32_t address, int bytes) {
  if (barrier_count == 0)
    return 0;
  for (uint32_t i = address / MBARRIER_BYTES; i * MBARRIER_BYTES < address + (uint32_t)bytes; ++i)
    if (at[i] != 0)
      return 1;
  return 0;
}

/* mbarrier.init */
void emulated_mbarrier_init(uint32_t barrier, int count) {
  const void *site = CALL_SITE();
  shared_check_range(barrier, MBARRIER_BYTES, MBARRIER_BYTES, "mbarrier.init writes", site);
  if (at[barrier / MBARRIER_BYTES] != 0)
    machine_fail("mbarrier.init of %s, which is a barrier already, at %s", place_text(barrier),
                 site_text(site));
  if (count < 1 || count > COUNT_MAX)
    machine_fail("mbarrier.init for %d arrivals at %s", count, site_text(site));
  if (barrier_count == MBARRIERS_MAX)
    machine_fail("more than %d barriers in shared memory, at %s", MBARRIERS_MAX, site_text(site));
  m->async = 1;
  shared_write(barrier, MBARRIER_BYTES, site);
  memset(shared_pointer(barrier), 0xff, MBARRIER_BYTES);
  at[barrier / MBARRIER_BYTES] = (uint16_t)(barrier_count + 1);
  barriers[barrier_count] = (mbarrier){.address = barrier,
                                       .count = count,
                                       .pending = count,
                                       .owner = m->current,
                                       .owner_time = m->threads[m->current].time};
  order_clear(order_clock_of_mbarrier(barrier_count, 0));
  order_clear(order_clock_of_mbarrier(barrier_count, 1));
  ++barrier_count;
}

/* fence.mbarrier_init */
void emulated_fence_mbarrier_init(void) {
  for (int i = 0; i < barrier_count; ++i)
    if (barriers[i].owner == m->current)
      barriers[i].fenced = 1;
}

int mbarrier_find(uint32_t address, const char *what, const void *site) {
  shared_check_range(address, MBARRIER_BYTES, MBARRIER_BYTES, what, site);
  const int found = at[address / MBARRIER_BYTES] - 1;
  if (found < 0)
    machine_fail("%s %s, where no barrier was initialised, at %s", what, place_text(address),
                 site_text(site));
  const mbarrier *b = &barriers[found];
  if (!order_knows(m->current, b->owner, b->owner_time))
    machine_fail(
        "race: %s the barrier at %s at %s;\n  thread %d initialised it, and no barrier lies "
        "between",
        what, place_text(address), site_text(site), b->owner);
  return found;
}

/* "mbarrier at smem + 98304, phase 2, ..." */
static void print_barrier(const mbarrier *b, char *text, size_t text_bytes) {
  snprintf(text, text_bytes,
           " (barrier at %s: phase %u of parity %u, %d of %d arrivals, %d bytes awaited, %d in "
           "flight)",
           place_text(b->address), b->phase, b->phase % 2, b->count - b->pending, b->count,
           b->expected, b->in_flight);
}

void mbarrier_text(const void *object, char *text, size_t text_bytes) {
  const mbarrier *b = object;
  if (b >= barriers && b < barriers + MBARRIERS_MAX)
    print_barrier(b, text, text_bytes);
}

/* ---- Phases ---------------------------------------------------------------------------------- */

static void complete_phase(mbarrier *b) {
  const int index = (int)(b - barriers);
  const int gathered = order_clock_of_mbarrier(index, 0),
            completed = order_clock_of_mbarrier(index, 1);
  order_copy(completed, gathered);
  order_learn(completed, order_copies_of(index), b->copies);
  order_clear(gathered);
  b->ended[b->phase % 2] = (completion){b->arrived, b->arrived_time, b->copies};
  b->pending = b->count;
  ++b->phase;
  threads_wake(b);
}

/* Once all have arrived, no more bytes can be expected. */
static void check_bytes(const mbarrier *b, const void *site) {
  if (b->pending == 0 && b->in_flight > b->expected) {
    char text[256];
    print_barrier(b, text, sizeof text);
    machine_fail("copies bring more bytes than their barrier awaits%s, at %s", text,
                 site_text(site));
  }
}

static void arrive(mbarrier *b, int bytes, const void *site) {
  fragments_arrival(site);
  if (b->pending == 0) {
    char text[256];
    print_barrier(b, text, sizeof text);
    machine_fail("arrives once too often%s, at %s", text, site_text(site));
  }
  b->expected += bytes;
  b->arrived = m->current;
  b->arrived_time = m->threads[m->current].time;
  order_release(m->current, order_clock_of_mbarrier((int)(b - barriers), 0));
  --b->pending;
  check_bytes(b, site);
  if (b->pending == 0 && b->expected == 0)
    complete_phase(b);
}

/* mbarrier.arrive.release */
void emulated_mbarrier_arrive(uint32_t barrier) {
  const void *site = CALL_SITE();
  arrive(&barriers[mbarrier_find(barrier, "arrives at", site)], 0, site);
}

/* mbarrier.arrive.expect_tx.release */
void emulated_mbarrier_arrive_expect(uint32_t barrier, int bytes) {
  const void *site = CALL_SITE();
  if (bytes < 0 || bytes > COUNT_MAX)
    machine_fail("a barrier that awaits %d bytes, at %s", bytes, site_text(site));
  arrive(&barriers[mbarrier_find(barrier, "arrives at", site)], bytes, site);
}

/* A wait for a parity would have succeeded two phases ago as well. So it says nothing unless the
 * thread knows that the phase between has ended. */
static void check_parity(const mbarrier *b, int index, const void *site) {
  if (b->phase < 2)
    return;
  const completion *between = &b->ended[b->phase % 2];
  if (order_knows(m->current, between->thread, between->time) &&
      order_known(m->current, order_copies_of(index)) >= between->copies)
    return;
  char text[256];
  print_barrier(b, text, sizeof text);
  machine_fail(
      "a wait that could have ended two phases ago%s, at %s;\n  the thread cannot know that "
      "the phase between has ended, with an arrival of thread %d",
      text, site_text(site), between->thread);
}

/* mbarrier.try_wait.parity.acquire: the phase of `parity` has completed where the barrier is in one
 * of the other parity. The first answer of no comes at once, so that a caller that does not ask
 * again is seen. */
int emulated_mbarrier_try_wait(uint32_t barrier, int parity) {
  const void *site = CALL_SITE();
  thread *self = &m->threads[m->current];
  const int index = mbarrier_find(barrier, "waits at", site);
  const mbarrier *b = &barriers[index];
  if (parity != 0 && parity != 1)
    machine_fail("waits for parity %d at %s", parity, site_text(site));
  if ((int)(b->phase % 2) == parity && self->polled != b) {
    self->polled = b;
    return 0;
  }
  while ((int)(b->phase % 2) == parity)
    thread_wait(b, parity ? "a wait for parity 1" : "a wait for parity 0", site);
  self->polled = NULL;
  check_parity(b, index, site);
  order_acquire(m->current, order_clock_of_mbarrier(index, 1));
  return 1;
}

/* ---- Stores of a cluster's blocks ------------------------------------------------------------ */

void mbarriers_inform(void) {
  for (int i = 0; i < barrier_count; ++i)
    order_acquire(m->current, order_clock_of_mbarrier(i, 1));
}

void mbarrier_knows(int mbarrier_index) {
  order_release(m->current, order_clock_of_mbarrier(mbarrier_index, 0));
}

void mbarrier_store_ends(int mbarrier_index, int bytes, const void *site) {
  mbarrier *b = &barriers[mbarrier_index];
  if (!b->fenced)
    machine_fail("a cluster's blocks do not see the barrier at %s, which thread %d initialised "
                 "without fence.mbarrier_init, at %s",
                 place_text(b->address), b->owner, site_text(site));
  b->expected -= bytes;
  if (b->pending == 0 && b->expected < 0) {
    char text[256];
    print_barrier(b, text, sizeof text);
    machine_fail("stores bring more bytes than their barrier awaits%s, at %s", text,
                 site_text(site));
  }
  if (b->pending == 0 && b->expected == 0)
    complete_phase(b);
}

/* ---- Copies ---------------------------------------------------------------------------------- */

void mbarrier_copy_begin(int mbarrier_index, int bytes, const void *site) {
  mbarrier *b = &barriers[mbarrier_index];
  if (!b->fenced)
    machine_fail("the copy engine does not see the barrier at %s, which thread %d initialised "
                 "without fence.mbarrier_init, at %s",
                 place_text(b->address), b->owner, site_text(site));
  b->in_flight += bytes;
  b->latest = m->epoch;
  check_bytes(b, site);
}

void mbarrier_copy_end(int mbarrier_index, int bytes) {
  mbarrier *b = &barriers[mbarrier_index];
  b->in_flight -= bytes;
  b->expected -= bytes;
  b->copies = m->epoch;
  if (b->pending == 0 && b->expected == 0)
    complete_phase(b);
}

static int is_waited_for(const mbarrier *b) {
  for (int t = 0; t < m->thread_count; ++t)
    if (m->threads[t].state == THREAD_WAITING && m->threads[t].object == b)
      return 1;
  return 0;
}

int mbarrier_to_complete(void) {
  int latest = -1;
  for (int i = 0; i < barrier_count; ++i) {
    const mbarrier *b = &barriers[i];
    if (b->pending == 0 && b->in_flight > 0 && b->in_flight == b->expected &&
        (latest < 0 || b->latest > barriers[latest].latest) && is_waited_for(b))
      latest = i;
  }
  return latest;
}
