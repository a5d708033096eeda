/* Clusters: thread blocks that run at the same time and have a barrier (PTX ISA, Parallel
 * Synchronization and Communication Instructions: barrier.cluster), and store into each other's
 * shared memory (Data Movement and Conversion Instructions: mapa, st.shared::cluster).
 *
 * The machine is one block's, so each block of a cluster is a process, forked from the one that
 * runs the launch. One of them runs at a time, until none of its threads can go on; then it is the
 * next block's turn. The copy engine does its work only where no block can go on without it. So
 * whatever a block may do before it has to wait is done before another one begins, and what it must
 * not do yet is seen: a write to global memory that another block, or its copies, read later is a
 * race, unless the barrier lies between. Global memory, and who has written it, is shared by the
 * processes.
 *
 * A store into a block's shared memory arrives as late as may be: when the first thread there goes on
 * from the barrier that the storing thread arrives at next. One that counts at an mbarrier there
 * (st.async) arrives when no thread of the cluster can go on without it; it is a write by somebody
 * who knows what the latest phases of that block's mbarriers have handed over, so that a read which
 * none of them has behind it is seen. A block that is not known to have begun, has ended, or ends
 * before that, cannot be stored to. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "machine.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static machine *const m = &the_machine;

enum { ADDRESS_BITS = 24, STORES_MAX = 65536, PAIR_BYTES = 8 };

/* A store into a block's shared memory. */
typedef struct remote_store {
  int rank, pending; /* pending: it has not arrived */
  uint32_t address;
  uint32_t phase; /* of the barrier, at whose end it arrives */
  int counts;     /* 1: at an mbarrier, whose wait it is for; no phase */
  uint32_t mbarrier;
  float pair[2];
  const void *site;
} remote_store;

typedef struct cluster_state {
  sem_t turn[CLUSTER_MAX];
  int ended[CLUSTER_MAX];
  int live, arrived;           /* threads of the cluster */
  uint32_t phase;              /* of the barrier */
  int turns;                   /* that went by since anything happened */
  int came[CLUSTER_MAX], come; /* blocks, to the grid's barrier */
  int failed;
  char report[EMULATED_REPORT_BYTES];
  int store_count;
  remote_store stores[STORES_MAX];
} cluster_state;

static cluster_state *state; /* shared by the processes; NULL: there was no cluster yet */
static int grid_met;         /* this process's block has waited at the grid's barrier */
static int blocks, rank; /* of the cluster at hand; rank: this process's block; blocks 0: none */
static struct {
  uint8_t arrived;          /* and has not waited yet */
  uint8_t met;              /* it has waited: all of the cluster's blocks have begun */
  uint32_t phase;           /* that it has arrived at */
  uint32_t arrivals, waits; /* so far */
} self[THREADS_MAX];
static uint32_t clock_phase[2]; /* 1 + the phase that a clock holds the arrivals of, by parity */

/* ---- Turns ----------------------------------------------------------------------------------- */

/* The next block that has not ended, or -1. */
static int next_rank(void) {
  for (int i = 1; i < blocks; ++i)
    if (!state->ended[(rank + i) % blocks])
      return (rank + i) % blocks;
  return -1;
}

static void wait_for_turn(void) {
  while (sem_wait(&state->turn[rank]) != 0) {
  }
  if (state->failed)
    _exit(0);
}

int cluster_let_others_run(int rounds) {
  const int next = blocks > 1 ? next_rank() : -1;
  const uint32_t before = state ? state->phase : 0;
  if (next < 0 || state->turns >= rounds * blocks)
    return 0;
  ++state->turns;
  sem_post(&state->turn[next]);
  wait_for_turn();
  if (state->phase != before)
    threads_wake(&state->phase);
  told_wake();
  return 1;
}

/* mapa.shared::cluster: the rank stands above the address. */
uint32_t emulated_cluster_address(uint32_t shared, int of) {
  const void *site = CALL_SITE();
  const int size = blocks > 0 ? blocks : 1;
  if (of < 0 || of >= size || shared >> ADDRESS_BITS != 0)
    machine_fail("takes an address of block %d of a cluster of %d, at %s", of, size,
                 site_text(site));
  return shared | (uint32_t)(of + 1) << ADDRESS_BITS;
}

void cluster_goes_on(void) {
  if (blocks > 1)
    state->turns = 0;
}

static _Noreturn void run_rank(unsigned first, void (*run_block)(unsigned block)) {
  wait_for_turn();
  run_block(first + (unsigned)rank);
  state->ended[rank] = 1; /* cluster_thread_exits() has looked at stores that have not arrived */
  state->turns = 0;
  if (m->failed) {
    memcpy(state->report, m->report, sizeof state->report);
    state->failed = 1;
  }
  for (int i = 0; i < blocks; ++i)
    if (m->failed || i == next_rank())
      sem_post(&state->turn[i]);
  _exit(0);
}

void cluster_run(unsigned first, unsigned count, void (*run_block)(unsigned block)) {
  if (state == NULL)
    state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (state == MAP_FAILED || count > CLUSTER_MAX)
    abort();
  memset(state, 0, sizeof *state);
  memset(self, 0, sizeof self);
  grid_met = 0;
  memset(clock_phase, 0, sizeof clock_phase);
  state->live = (int)count * m->thread_count;
  pid_t processes[CLUSTER_MAX];
  for (unsigned i = 0; i < count; ++i)
    sem_init(&state->turn[i], 1, i == 0);
  for (unsigned i = 0; i < count; ++i) {
    processes[i] = fork();
    if (processes[i] < 0)
      abort();
    if (processes[i] == 0) {
      blocks = (int)count;
      rank = (int)i;
      run_rank(first, run_block);
    }
  }
  int crashed = 0;
  for (unsigned i = 0; i < count; ++i) {
    int status;
    while (waitpid(processes[i], &status, 0) != processes[i]) {
    }
    if (status == 0 || crashed)
      continue;
    crashed = state->failed = 1; /* nobody has the turn any longer */
    for (unsigned other = 0; other < count; ++other)
      sem_post(&state->turn[other]);
  }
  m->failed = state->failed;
  if (crashed)
    strcpy(m->report, "a block of a cluster ended with a signal");
  else if (state->failed)
    memcpy(m->report, state->report, sizeof state->report);
}

/* ---- The barrier ----------------------------------------------------------------------------- */

static void complete_phase(void) {
  if (state->live == 0 || state->arrived < state->live)
    return;
  state->arrived = 0;
  state->turns = 0;
  ++state->phase;
  threads_wake(&state->phase);
}

void cluster_thread_exits(void) {
  if (blocks == 0)
    return;
  if (self[m->current].arrived && self[m->current].phase == state->phase)
    machine_fail("ends after barrier.cluster.arrive, without a wait");
  for (int i = 0; m->exited + 1 == m->thread_count && i < state->store_count; ++i)
    if (state->stores[i].rank == rank && state->stores[i].pending)
      machine_fail("the block ends before a store into its shared memory is known to be there; it "
                   "is at %s",
                   site_text(state->stores[i].site));
  --state->live;
  complete_phase();
}

/* barrier.cluster.arrive */
void emulated_cluster_arrive(void) {
  if (blocks == 0)
    return; /* a cluster of one: the launch names none */
  if (self[m->current].arrived)
    machine_fail("arrives at the cluster's barrier twice, without a wait, at %s",
                 site_text(CALL_SITE()));
  const uint32_t phase = state->phase;
  const int clock = order_clock_of_cluster(phase % 2);
  if (clock_phase[phase % 2] != phase + 1) {
    clock_phase[phase % 2] = phase + 1;
    order_clear(clock);
  }
  order_release(m->current, clock);
  self[m->current].arrived = 1;
  self[m->current].phase = phase;
  ++self[m->current].arrivals;
  ++state->arrived;
  complete_phase();
}

/* The stores into this block that were made before the barrier of a phase, for the current thread. 1:
 * there were some. */
static int bring_stores(uint32_t phase) {
  int brought = 0;
  for (int i = 0; i < state->store_count; ++i) {
    remote_store *s = &state->stores[i];
    if (s->rank != rank || !s->pending || s->counts || s->phase > phase)
      continue;
    s->pending = 0;
    brought = 1;
    shared_write(s->address, PAIR_BYTES, s->site);
    memcpy(shared_pointer(s->address), s->pair, PAIR_BYTES);
  }
  return brought;
}

/* barrier.cluster.wait */
void emulated_cluster_wait(void) {
  const void *site = CALL_SITE();
  if (blocks == 0)
    return;
  if (!self[m->current].arrived)
    machine_fail("waits at the cluster's barrier without having arrived, at %s", site_text(site));
  while (self[m->current].phase == state->phase)
    thread_wait(&state->phase, "barrier.cluster.wait", site);
  const uint32_t phase = self[m->current].phase;
  const int clock = order_clock_of_cluster(phase % 2);
  self[m->current].arrived = 0;
  self[m->current].met = 1;
  ++self[m->current].waits;
  order_acquire(m->current, clock);
  if (bring_stores(phase))
    order_release(m->current, clock);
}

uint32_t cluster_arrivals(void) {
  return self[m->current].arrivals;
}

int cluster_orders(unsigned block, uint32_t arrivals) {
  return blocks > 0 && block / m->launch->cluster == m->block / m->launch->cluster &&
         arrivals < self[m->current].waits;
}

/* ---- The grid's barrier ---------------------------------------------------------------------- */

/* Blocks of a grid that all run at the same time are run as a cluster's. Of several such, which never
 * tell each other anything, each has a barrier of its own. */
uint32_t emulated_grid_arrive(void) {
  if (blocks == 0)
    return 0;
  if (state->came[rank])
    machine_fail("a block arrives at the grid's barrier twice, at %s", site_text(CALL_SITE()));
  state->came[rank] = 1;
  ++state->come;
  cluster_goes_on();
  told_wake();
  return 0;
}

int emulated_grid_has_come(uint32_t arrived) {
  const void *site = CALL_SITE();
  (void)arrived;
  if (blocks > 0 && !state->came[rank])
    machine_fail("waits at the grid's barrier without having arrived, at %s", site_text(site));
  while (blocks > 0 && state->come < blocks)
    told_await("the grid's barrier", site);
  grid_met = 1;
  return 1;
}

int cluster_has_met(void) {
  return blocks == 0 || grid_met;
}

/* ---- Stores into other blocks ---------------------------------------------------------------- */

/* Where a store goes, which is checked: the block's rank, and *own, its address there. */
static int find_place(uint32_t address, uint32_t *own, const void *site) {
  const int to = (int)(address >> ADDRESS_BITS) - 1;
  *own = address & ((1u << ADDRESS_BITS) - 1);
  if (blocks == 0)
    machine_fail("stores into a cluster's shared memory, and the launch has none, at %s",
                 site_text(site));
  if (to < 0)
    machine_fail("stores to an address that is not of a cluster's shared memory, at %s",
                 site_text(site));
  shared_check_range(*own, PAIR_BYTES, PAIR_BYTES, "stores into a block", site);
  if (!self[m->current].met)
    machine_fail("stores into the shared memory of block %d of its cluster, which is not known to "
                 "have begun, at %s",
                 to, site_text(site));
  if (state->ended[to])
    machine_fail("stores into the shared memory of block %d of its cluster, which has ended, at %s",
                 to, site_text(site));
  return to;
}

/* Behind those that were added before, which keep their order. */
static void add_store(const remote_store *store) {
  if (state->store_count == STORES_MAX) {
    state->store_count = 0;
    for (int i = 0; i < STORES_MAX; ++i)
      if (state->stores[i].pending)
        state->stores[state->store_count++] = state->stores[i];
  }
  if (state->store_count == STORES_MAX)
    machine_fail("more than %d stores into the shared memory of a cluster, at %s", STORES_MAX,
                 site_text(store->site));
  state->stores[state->store_count] = *store;
  state->stores[state->store_count++].pending = 1;
}

/* st.shared::cluster.v2.f32 */
void emulated_store_8_cluster(uint32_t address, float x, float y) {
  const void *site = CALL_SITE();
  uint32_t own;
  const int to = find_place(address, &own, site);
  /* One that has arrived and not waited stores behind the barrier: with the phase after. */
  const remote_store store = {
      .rank = to,
      .address = own,
      .phase = state->phase + (self[m->current].arrived && self[m->current].phase == state->phase),
      .pair = {x, y},
      .site = site,
  };
  add_store(&store);
}

/* st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 */
void emulated_send_8_cluster(uint32_t address, float x, float y, uint32_t barrier) {
  const void *site = CALL_SITE();
  uint32_t own, own_barrier;
  const int to = find_place(address, &own, site);
  if (find_place(barrier, &own_barrier, site) != to)
    machine_fail("stores into one block's shared memory and counts at another's barrier, at %s",
                 site_text(site));
  m->async = m->partial = 1;
  /* What this thread has done is known to those of its own block that wait for the barrier. */
  if (to == rank)
    mbarrier_knows(mbarrier_find(own_barrier, "lets a store count at", site));
  const remote_store store = {.rank = to,
                              .address = own,
                              .counts = 1,
                              .mbarrier = own_barrier,
                              .pair = {x, y},
                              .site = site};
  add_store(&store);
}

int cluster_bring_sent(void) {
  int brought = 0;
  for (int i = 0; blocks > 0 && i < state->store_count; ++i) {
    remote_store *s = &state->stores[i];
    if (s->rank != rank || !s->pending || !s->counts)
      continue;
    s->pending = 0;
    brought = 1;
    const int index = mbarrier_find(s->mbarrier, "lets a store count at", s->site);
    mbarriers_inform();
    shared_write(s->address, PAIR_BYTES, s->site);
    memcpy(shared_pointer(s->address), s->pair, PAIR_BYTES);
    mbarrier_knows(index);
    mbarrier_store_ends(index, PAIR_BYTES, s->site);
  }
  return brought;
}
