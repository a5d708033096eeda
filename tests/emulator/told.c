/* What threads of thread blocks that run at the same time tell each other through global memory (PTX
 * ISA, ld.relaxed, st.relaxed): it hands over nothing but itself. The launch says that blocks run at
 * the same time as it does of a cluster's (cluster.c); who asks again for what he was told last waits
 * until somebody tells something, or other blocks have run. Nobody may ask before the grid's
 * barrier, as there is what earlier launches have left, unless the launch says that these left zeros. */
#include "machine.h"

enum { PAIR_BYTES = 16 };

static machine *const m = &the_machine;
static const char anything; /* what is waited for */

static struct {
  const uint64_t *global;
  uint64_t first, second;
} last[THREADS_MAX]; /* that a thread was told, of this block */

void told_reset(void) {
  for (int t = 0; t < m->thread_count; ++t)
    last[t].global = NULL;
}

void told_wake(void) {
  threads_wake(&anything);
}

void told_await(const char *what, const void *site) {
  thread_wait(&anything, what, site);
}

void emulated_store_told(uint64_t *global, uint64_t first, uint64_t second) {
  global_reduction((uintptr_t)global, PAIR_BYTES, CALL_SITE());
  global[0] = first;
  global[1] = second;
  cluster_goes_on();
  told_wake();
}

void emulated_load_told(const uint64_t *global, uint64_t *first, uint64_t *second) {
  const void *site = CALL_SITE();
  const int t = m->current;
  if (!m->launch->told_zeros && !cluster_has_met())
    machine_fail("asks what others tell before all of them are known to have begun, at %s",
                 site_text(site));
  global_reduction((uintptr_t)global, PAIR_BYTES, site);
  if (last[t].global == global && last[t].first == global[0] && last[t].second == global[1])
    told_await("what others tell", site);
  *first = last[t].first = global[0];
  *second = last[t].second = global[1];
  last[t].global = global;
}
