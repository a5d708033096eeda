/* cp.reduce.async.bulk from shared to global memory, and its groups (PTX ISA, Data Movement and
 * Conversion Instructions: Asynchronous copy).
 *
 * A reduction is carried out as late as the program allows: when its thread waits for its group. Until
 * then what it reads may not be written; then it counts as a read by that thread. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

static machine *const m = &the_machine;

enum { MULTIPLE = 16 };

typedef struct reduction {
  uint32_t shared;
  float *global;
  int bytes, thread;
  uint64_t group; /* of the thread's */
  const void *site;
} reduction;

static reduction *reductions; /* the oldest first */
static int count, capacity;
static uint64_t groups[THREADS_MAX]; /* the open ones */

void bulk_reset(void) {
  count = 0;
  memset(groups, 0, sizeof groups);
}

/* cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 */
void emulated_bulk_add(float *global, uint32_t shared, int bytes) {
  const void *site = CALL_SITE();
  m->async = m->partial = 1;
  if (bytes <= 0 || bytes % MULTIPLE != 0)
    machine_fail("cp.reduce.async.bulk of %d bytes, which is not a multiple of 16, at %s", bytes,
                 site_text(site));
  if ((uintptr_t)global % MULTIPLE != 0)
    machine_fail("cp.reduce.async.bulk to address %p, which is not a multiple of 16, at %s",
                 (void *)global, site_text(site));
  shared_check_range(shared, bytes, MULTIPLE, "the copy engine reads", site);
  const uint32_t stamp = order_stamp();
  for (int i = 0; i < bytes; i += MULTIPLE)
    shared_bulk_read_begin(shared + (uint32_t)i, stamp, site);
  for (int i = 0; i < bytes / (int)sizeof *global; ++i)
    global_bulk_reduction((uintptr_t)(global + i), (int)sizeof *global, site);
  if (count == capacity) {
    capacity = capacity ? 2 * capacity : 64;
    reductions = realloc(reductions, (size_t)capacity * sizeof *reductions);
    if (reductions == NULL)
      abort();
  }
  reductions[count++] = (reduction){shared, global, bytes, m->current, groups[m->current], site};
}

/* cp.async.bulk.commit_group: a group may be empty. */
void emulated_bulk_commit(void) {
  ++groups[m->current];
}

/* cp.async.bulk.wait_group.read pending: all but the latest `pending` of the groups that the thread
 * has committed have been read. That they have been added is known when the kernel ends. */
void emulated_bulk_wait_read(int pending) {
  int left = 0;
  for (int i = 0; i < count; ++i) {
    const reduction *r = &reductions[i];
    if (r->thread != m->current || r->group + (uint64_t)pending >= groups[m->current]) {
      reductions[left++] = *r;
      continue;
    }
    const float *from = (const float *)(const void *)shared_pointer(r->shared);
    for (int k = 0; k < r->bytes / (int)sizeof *from; ++k)
      r->global[k] += from[k];
    for (int k = 0; k < r->bytes; k += MULTIPLE)
      shared_bulk_read_end(r->shared + (uint32_t)k, r->site);
  }
  count = left;
}

void bulk_check_exit(void) {
  for (int i = 0; i < count; ++i)
    if (reductions[i].thread == m->current)
      machine_fail("ends while the copy engine reads %s for it, begun at %s",
                   place_text(reductions[i].shared), site_text(reductions[i].site));
}
