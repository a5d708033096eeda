/* Launches that overlap (PTX ISA, Parallel Synchronization and Communication Instructions:
 * griddepcontrol): a kernel begins before earlier ones have ended, which may still read and write all
 * that it was given. A thread may touch that when it knows that they have ended: it has waited for
 * it, or a thread that has waited has handed that on, as threads hand on what they wrote (order.c).
 *
 * Later kernels wait for this one's end alone. If none of its threads waits, that says nothing of
 * earlier ones. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static machine *const m = &the_machine;

/* Whether some thread of the launch has waited; blocks of a cluster are processes. */
static int *some_waited;

void earlier_reset_launch(void) {
  if (some_waited == NULL)
    some_waited =
        mmap(NULL, sizeof *some_waited, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (some_waited == MAP_FAILED)
    abort();
  *some_waited = 0;
}

void earlier_reset_block(void) {
  for (int t = 0; t < m->thread_count; ++t)
    m->threads[t].waited = 0;
}

void emulated_wait_for_earlier(void) {
  thread *self = &m->threads[m->current];
  *some_waited = 1;
  if (self->waited == 0)
    self->waited = self->time;
}

/* Whether the current thread has waited, or knows one that has; then those who know it do, too. */
static int knows_of_wait(void) {
  thread *self = &m->threads[m->current];
  for (int t = 0; t < m->thread_count && self->waited == 0; ++t)
    if (m->threads[t].waited != 0 && order_knows(m->current, t, m->threads[t].waited))
      self->waited = self->time;
  return self->waited != 0;
}

void earlier_check(const emulated_tensor *t, const char *verb, const void *site) {
  if (m->launch->overlaps && !t->settled && !knows_of_wait())
    machine_fail("%s an element of %s before it knows that earlier kernels have ended "
                 "(griddepcontrol.wait), at %s",
                 verb, t->name, site_text(site));
}

int earlier_unawaited(void) {
  if (!m->launch->overlaps || m->launch->blocks == 0 || *some_waited)
    return 0;
  snprintf(m->report, EMULATED_REPORT_BYTES,
           "ends, and no thread has waited for the end of earlier kernels (griddepcontrol.wait)");
  return 1;
}
