/* Clusters: thread blocks that run at the same time and have a barrier (PTX ISA, Parallel
 * Synchronization and Communication Instructions: barrier.cluster), and store into each other's
 * shared memory (Data Movement and Conversion Instructions: mapa, st.shared::cluster).  The machine
 * is one block's, so each block of a cluster is a process, forked from the one that runs the
 * launch. One of them runs at a time, until none of its threads can go on; then it is the next
 * block's turn. The copy engine does its work only where no block can go on without it. So whatever
 * a block may do before it has to wait is done before another one begins, and what it must not do
 * yet is seen: a write to global memory that another block, or its copies, read later is a race,
 * unless the barrier lies between. Global memory, and who has written it, is shared by the
 * processes.  Where all blocks of a launch run at the same time, they take turns as those of a
 * cluster do, and each cluster among them has a barrier of its own.  A store into a block's shared
 * memory arrives as late as may be: when the first thread there goes on from the barrier that the
 * storing thread arrives at next. One that counts at an mbarrier there (st.async) arrives when no
 * thread of the cluster can go on without it; it is a write by somebody who knows what the latest
 * phases of that block's mbarriers have handed over, so that a read which none of them has behind
 * it is seen. A block that is not known to have begun, has ended, or ends before that, cannot be
 * stored to. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "machine.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static machine *const m = &the_machine;

enum { ADDRESS_BITS = 24, STORES_MAX = 131072, PAIR_BYTES = 8 };

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
  struct {
    int live, arrived; /* threads of the cluster */
    uint32_t phase;    /* of its barrier */
  } clusters[CLUSTER_MAX];
  int turns;             /* that went by since anything happened */
  int came[CLUSTER_MAX]; /* how often each block, to the grid's barrier */
  int failed;
  char report[EMULATED_REPORT_BYTES];
  int store_count;
  remote_store stores[STORES_MAX];
} cluster_state;

static cluster_state *state; /* shared by the processes; NULL: there was no cluster yet */
static int grid_met;         /* how often this process's block has waited at the grid's barrier */
/* That run at the same time, 0: none does; of a cluster among them; rank: this process's block. */
static int blocks, cluster_blocks, rank;
static struct {
  uint8_t arrived;          /* and has not waited yet */
  uint8_t met;              /* it has waited: all of the cluster's blocks have begun */
  uint32_t phase;           /* that it has arrived at */
  uint32_t arrivals, waits; /* so far */
} self[THREADS_MAX];
static uint32_t clock_phase[2]; /* 1 + the phase that a clock holds the arrivals of, by parity */

static uint32_t *own_phase(void) {
  return &state->clusters[rank / cluster_blocks].phase;
}

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
  const uint32_t before = next >= 0 ? *own_phase() : 0;
  if (next < 0 || state->turns >= rounds * blocks)
    return 0;
  ++state->turns;
  sem_post(&state->turn[next]);
  wait_for_turn();
  if (*own_phase() != before)
    threads_wake(own_phase());
  told_wake();
  return 1;
}

/* mapa.shared::cluster: the rank stands above the address. */
uint32_t emulated_cluster_address(uint32_t shared, int of) {
  const void *site = CALL_SITE();
  const int size = blocks > 0 ? cluster_blocks : 1;
  if (of < 0 || of >= size || shared >> ADDRESS_BITS != 0)
    machine_fail("takes an address of block %d of a cluster of %d, at %s", of, size,
                 site_text(site));
  const int first = blocks > 0 ? rank - rank % cluster_blocks : 0;
  return shared | (uint32_t)(first + of + 1) << ADDRESS_BITS;
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

void cluster_run(unsigned first, unsigned count, unsigned of_cluster,
                 void (*run_block)(unsigned block)) {
  if (state == NULL)
    state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (state == MAP_FAILED || count > CLUSTER_MAX)
    abort();
  memset(state, 0, sizeof *state);
  memset(self, 0, sizeof self);
  grid_met = 0;
  memset(clock_phase, 0, sizeof clock_phase);
  for (unsigned i = 0; i < count; ++i)
    state->clusters[i / of_cluster].live += m->thread_count;
  pid_t processes[CLUSTER_MAX];
  for (unsigned i = 0; i < count; ++i)
    sem_init(&state->turn[i], 1, i == 0);
  for (unsigned i = 0; i < count; ++i) {
    processes[i] = fork();
    if (processes[i] < 0)
      abort();
    if (processes[i] == 0) {
      blocks = (int)count;
      cluster_blocks = (int)of_cluster;
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
  const int cluster = rank / cluster_blocks;
  if (state->clusters[cluster].live == 0 ||
      state->clusters[cluster].arrived < state->clusters[cluster].live)
    return;
  state->clusters[cluster].arrived = 0;
  state->turns = 0;
  ++state->clusters[cluster].phase;
  threads_wake(own_phase());
}

void cluster_thread_exits(void) {
  if (blocks == 0)
    return;
  if (self[m->current].arrived && self[m->current].phase == *own_phase())
    machine_fail("ends after barrier.cluster.arrive, without a wait");
  for (int i = 0; m->exited + 1 == m->thread_count && i < state->store_count; ++i)
    if (state->stores[i].rank == rank && state->stores[i].pending)
      machine_fail("the block ends before a store into its shared memory is known to be there; it "
                   "is at %s",
                   site_text(state->stores[i].site));
  --state->clusters[rank / cluster_blocks].live;
  complete_phase();
}

/* barrier.cluster.arrive */
void emulated_cluster_arrive(void) {
  if (blocks == 0)
    return; /* a cluster of one: the launch names none */
  if (self[m->current].arrived)
    machine_fail("arrives at the cluster's barrier twice, without a wait, at %s",
                 site_text(CALL_SITE()));
  const uint32_t phase = *own_phase();
  const int clock = order_clock_of_cluster(phase % 2);
  if (clock_phase[phase % 2] != phase + 1) {
    clock_phase[phase % 2] = phase + 1;
    order_clear(clock);
  }
  order_release(m->current, clock);
  self[m->current].arrived = 1;
  self[m->current].phase = phase;
  ++self[m->current].arrivals;
  ++state->clusters[rank / cluster_blocks].arrived;
  complete_phase();
}

/* The stores into this block that were made before the barrier of a phase, for the current thread.
 * 1: there were some. */
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
  while (self[m->current].phase == *own_phase())
    thread_wait(own_phase(), "barrier.cluster.wait", site);
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
  return blocks > 0 && block / (unsigned)cluster_blocks == m->block / (unsigned)cluster_blocks &&
         arrivals < self[m->current].waits;
}

/* ---- The grid's barrier ---------------------------------------------------------------------- */

/* Blocks of a grid that all run at the same time are run as a cluster's, or together. Of several
 * such groups, which never tell each other anything, each has a barrier of its own. */
uint32_t emulated_grid_arrive(void) {
  if (blocks == 0)
    return 0;
  if (state->came[rank] > grid_met)
    machine_fail("a block arrives at the grid's barrier twice, without a wait, at %s",
                 site_text(CALL_SITE()));
  ++state->came[rank];
  cluster_goes_on();
  told_wake();
  return (uint32_t)state->came[rank];
}

static int all_have_come(int often) {
  int all = 1;
  for (int i = 0; i < blocks; ++i)
    all = all && state->came[i] >= often;
  return all;
}

int emulated_grid_has_come(uint32_t arrived) {
  const void *site = CALL_SITE();
  if (blocks > 0 && (arrived == 0 || state->came[rank] != (int)arrived))
    machine_fail("waits at the grid's barrier without having arrived, at %s", site_text(site));
  while (blocks > 0 && !all_have_come((int)arrived))
    told_await("the grid's barrier", site);
  grid_met = (int)arrived;
  return 1;
}

int cluster_has_met(void) {
  return blocks == 0 || grid_met > 0;
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
      .phase = *own_phase() + (self[m->current].arrived && self[m->current].phase == *own_phase()),
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
