/* cp.reduce.async.bulk and cp.async.bulk from shared to global memory, and their groups (PTX ISA, Data
 * Movement and Conversion Instructions: Asynchronous copy). tma.c has cp.async.bulk to shared memory.
 *
 * A reduction, or a copy, is carried out as late as the program allows: when its thread waits for its group. Until
 * then what it reads may not be written; then it counts as a read by that thread. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

static machine *const m = &the_machine;

enum { MULTIPLE = 16 };

typedef struct reduction {
  uint32_t shared;
  float *global;
  int is_copy;
  int bytes, thread;
  uint64_t group; /* of the thread's */
  const void *site;
} reduction;

static reduction *reductions; /* the oldest first */
static int count, capacity;
static reduction *read_ones; /* that have been read: nobody has waited for what they write */
static int read_count, read_capacity;
static uint64_t groups[THREADS_MAX]; /* the open ones */

void bulk_reset(void) {
  count = read_count = 0;
  memset(groups, 0, sizeof groups);
}

/* Begins one; `name`: the instruction's. */
static void begin(const char *name, void *global, uint32_t shared, int bytes, int is_copy,
                  const void *site) {
  m->async = m->partial = 1;
  if (bytes <= 0 || bytes % MULTIPLE != 0)
    machine_fail("%s of %d bytes, which is not a multiple of 16, at %s", name, bytes,
                 site_text(site));
  if ((uintptr_t)global % MULTIPLE != 0)
    machine_fail("%s to address %p, which is not a multiple of 16, at %s", name, global,
                 site_text(site));
  shared_check_range(shared, bytes, MULTIPLE, "the copy engine reads", site);
  const uint32_t stamp = order_stamp();
  for (int i = 0; i < bytes; i += MULTIPLE)
    shared_bulk_read_begin(shared + (uint32_t)i, stamp, site);
  if (is_copy)
    global_bulk_write((uintptr_t)global, bytes, site);
  for (int i = 0; i < bytes / (int)sizeof(float) && !is_copy; ++i)
    global_bulk_reduction((uintptr_t)global + (uintptr_t)i * sizeof(float), (int)sizeof(float),
                          site);
  if (count == capacity) {
    capacity = capacity ? 2 * capacity : 64;
    reductions = realloc(reductions, (size_t)capacity * sizeof *reductions);
    if (reductions == NULL)
      abort();
  }
  reductions[count++] =
      (reduction){shared, global, is_copy, bytes, m->current, groups[m->current], site};
}

/* cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 */
void emulated_bulk_add(float *global, uint32_t shared, int bytes) {
  begin("cp.reduce.async.bulk", global, shared, bytes, 0, CALL_SITE());
}

/* cp.async.bulk.global.shared::cta.bulk_group */
void emulated_bulk_store(void *global, uint32_t shared, int bytes) {
  begin("cp.async.bulk", global, shared, bytes, 1, CALL_SITE());
}

/* cp.async.bulk.commit_group: a group may be empty. */
void emulated_bulk_commit(void) {
  ++groups[m->current];
}

static void keep_read(const reduction *r) {
  if (read_count == read_capacity) {
    read_capacity = read_capacity ? 2 * read_capacity : 64;
    read_ones = realloc(read_ones, (size_t)read_capacity * sizeof *read_ones);
    if (read_ones == NULL)
      abort();
  }
  read_ones[read_count++] = *r;
}

/* cp.async.bulk.wait_group.read pending: all but the latest `pending` of the groups that the thread
 * has committed have been read. That they have been added is known after emulated_bulk_wait_written(), or
 * when the kernel ends. */
void emulated_bulk_wait_read(int pending) {
  int left = 0;
  for (int i = 0; i < count; ++i) {
    const reduction *r = &reductions[i];
    if (r->thread != m->current || r->group + (uint64_t)pending >= groups[m->current]) {
      reductions[left++] = *r;
      continue;
    }
    const float *from = (const float *)(const void *)shared_pointer(r->shared);
    if (r->is_copy)
      memcpy(r->global, from, (size_t)r->bytes);
    for (int k = 0; k < r->bytes / (int)sizeof *from && !r->is_copy; ++k)
      r->global[k] += from[k];
    for (int k = 0; k < r->bytes; k += MULTIPLE)
      shared_bulk_read_end(r->shared + (uint32_t)k, r->site);
    keep_read(r);
  }
  count = left;
}

/* cp.async.bulk.wait_group 0: the thread knows of what all its groups have written. */
void emulated_bulk_wait_written(void) {
  int left = 0;
  emulated_bulk_wait_read(0);
  for (int i = 0; i < read_count; ++i)
    if (read_ones[i].thread == m->current)
      global_bulk_written((uintptr_t)read_ones[i].global, read_ones[i].bytes);
    else
      read_ones[left++] = read_ones[i];
  read_count = left;
}

void bulk_check_exit(void) {
  for (int i = 0; i < count; ++i)
    if (reductions[i].thread == m->current)
      machine_fail("ends while the copy engine reads %s for it, begun at %s",
                   place_text(reductions[i].shared), site_text(reductions[i].site));
}
