/* cp.async and its groups (PTX ISA, Data Movement and Conversion Instructions: Asynchronous copy).
 *
 * A copy is carried out as late as the program allows: when its thread waits for its group. Until
 * then what it will overwrite is NaN, and may not be touched; then it counts as a write by that
 * thread. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

static machine *const m = &the_machine;

void cp_async_reset(thread *t) {
  t->copy_count = 0;
  t->group = 0;
}

void cp_async_free(thread *t) {
  free(t->copies);
  t->copies = NULL;
  t->copy_capacity = t->copy_count = 0;
}

static pending_copy *add_copy(thread *t) {
  if (t->copy_count == t->copy_capacity) {
    const int capacity = t->copy_capacity ? 2 * t->copy_capacity : 64;
    pending_copy *copies = realloc(t->copies, (size_t)capacity * sizeof *copies);
    if (copies == NULL)
      abort();
    t->copies = copies;
    t->copy_capacity = capacity;
  }
  return &t->copies[t->copy_count++];
}

/* cp.async.shared.global [shared], [global], size, bytes: with fewer bytes than `size` the rest
 * becomes zeros, and what is not copied is not read. */
static void begin_copy(uint32_t shared, const void *global, int size, int bytes, const void *site) {
  if (bytes < 0 || bytes > size)
    machine_fail("cp.async of %d bytes out of %d at %s", bytes, size, site_text(site));
  shared_check_range(shared, size, size, "cp.async writes", site);
  if ((uintptr_t)global % (uintptr_t)size != 0)
    machine_fail("cp.async from address %p, which is not a multiple of %d, at %s", global, size,
                 site_text(site));
  if (bytes > 0)
    global_access((uintptr_t)global, bytes, 0, site);
  shared_copy_begin(shared, size, site);
  thread *t = &m->threads[m->current];
  *add_copy(t) = (pending_copy){shared, size, global, bytes, t->group, site};
}

void emulated_cp_async_16(uint32_t shared, const void *global, int bytes) {
  begin_copy(shared, global, 16, bytes, CALL_SITE());
}

void emulated_cp_async_4(uint32_t shared, const void *global, int bytes) {
  begin_copy(shared, global, 4, bytes, CALL_SITE());
}

/* cp.async.commit_group: a group may be empty. */
void emulated_cp_async_commit(void) {
  ++m->threads[m->current].group;
}

/* The first copies, whose groups come before `group`. */
static void carry_out(thread *t, uint64_t group) {
  int done = 0;
  for (; done < t->copy_count && t->copies[done].group < group; ++done) {
    const pending_copy *copy = &t->copies[done];
    unsigned char *to = shared_pointer(copy->shared);
    memset(to, 0, (size_t)copy->size);
    memcpy(to, copy->global, (size_t)copy->bytes);
    shared_copy_end(copy->shared, copy->size, copy->site);
  }
  t->copy_count -= done;
  memmove(t->copies, t->copies + done, (size_t)t->copy_count * sizeof *t->copies);
}

/* cp.async.wait_group pending: all but the latest `pending` of the groups that were committed are
 * complete. */
void emulated_cp_async_wait(int pending) {
  thread *t = &m->threads[m->current];
  if (t->group >= (uint64_t)pending)
    carry_out(t, t->group - (uint64_t)pending);
}

/* cp.async.mbarrier.arrive.noinc: the arrival comes with the last of all copies so far, which is at
 * once here; who has not waited for its phase knows of none of them. */
void emulated_cp_async_arrive(uint32_t barrier) {
  carry_out(&m->threads[m->current], UINT64_MAX);
  emulated_mbarrier_arrive(barrier);
}
