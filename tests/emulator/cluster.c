/* Clusters: thread blocks that run at the same time and have a barrier (PTX ISA, Parallel
 * Synchronization and Communication Instructions: barrier.cluster). They do not reach into each
 * other's shared memory here.
 *
 * The machine is one block's, so each block of a cluster is a process, forked from the one that
 * runs the launch. One of them runs at a time, until none of its threads can go on; then it is the
 * next block's turn. The copy engine does its work only where no block can go on without it. So
 * whatever a block may do before it has to wait is done before another one begins, and what it must
 * not do yet is seen: a write to global memory that another block, or its copies, read later is a
 * race, unless the barrier lies between. Global memory, and who has written it, is shared by the
 * processes. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "machine.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static machine *const m = &the_machine;

typedef struct cluster_state {
  sem_t turn[CLUSTER_MAX];
  int ended[CLUSTER_MAX];
  int live, arrived; /* threads of the cluster */
  uint32_t phase;    /* of the barrier */
  int turns;         /* that went by since anything happened */
  int failed;
  char report[EMULATED_REPORT_BYTES];
} cluster_state;

static cluster_state *state; /* shared by the processes; NULL: there was no cluster yet */
static int blocks, rank; /* of the cluster at hand; rank: this process's block; blocks 0: none */
static struct {
  uint8_t arrived;          /* and has not waited yet */
  uint32_t phase;           /* that it has arrived at */
  uint32_t arrivals, waits; /* so far */
} self[THREADS_MAX];

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
  return 1;
}

void cluster_goes_on(void) {
  if (blocks > 1)
    state->turns = 0;
}

static _Noreturn void run_rank(unsigned first, void (*run_block)(unsigned block)) {
  wait_for_turn();
  run_block(first + (unsigned)rank);
  state->ended[rank] = 1;
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
  self[m->current].arrived = 1;
  self[m->current].phase = state->phase;
  ++self[m->current].arrivals;
  order_release(m->current, order_clock_of_cluster());
  ++state->arrived;
  complete_phase();
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
  self[m->current].arrived = 0;
  ++self[m->current].waits;
  order_acquire(m->current, order_clock_of_cluster());
}

uint32_t cluster_arrivals(void) {
  return self[m->current].arrivals;
}

int cluster_orders(unsigned block, uint32_t arrivals) {
  return blocks > 0 && block / m->launch->cluster == m->block / m->launch->cluster &&
         arrivals < self[m->current].waits;
}
