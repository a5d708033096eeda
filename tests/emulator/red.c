/* red.global.add.f32, red.global.max.u32 and atom.global.inc.u32 (PTX ISA, red, atom): what needs no
 * order, among themselves; and red.release, ld.acquire and atom.acq_rel.cas at a counter, which are an order. */
#include "machine.h"

static machine *const m = &the_machine;

void emulated_red_add(float *global, float x) {
  global_reduction((uintptr_t)global, (int)sizeof *global, CALL_SITE());
  *global += x;
}

void emulated_red_max(uint32_t *global, uint32_t x) {
  global_reduction((uintptr_t)global, (int)sizeof *global, CALL_SITE());
  *global = *global > x ? *global : x;
}

/* Tickets. Blocks run one after the other, so the first takes all but one of each other block, unless the
 * launch says that each takes its turn: of n blocks, block b has the tickets b, b + n, b + 2n and so
 * on, as if all were equally fast. */
enum { COUNTERS_MAX = 8 };
static struct {
  const uint32_t *counter;
  uint32_t first;         /* what it was when the launch began */
  uint32_t block, taken;  /* so many by this block */
} counters[COUNTERS_MAX]; /* of the launch */
static int counter_count;

void tickets_reset(void) {
  counter_count = 0;
}

static uint32_t ticket_of(const uint32_t *counter, uint32_t value) {
  if (!m->launch->in_turn)
    return value;
  int i = 0;
  while (i < counter_count && counters[i].counter != counter)
    ++i;
  if (i == COUNTERS_MAX)
    machine_fail("takes tickets of more than %d counters, at %s", COUNTERS_MAX,
                 site_text(CALL_SITE()));
  if (i == counter_count) {
    counters[counter_count++].counter = counter;
    counters[i].first = value;
    counters[i].block = m->block;
    counters[i].taken = 0;
  }
  if (counters[i].block != m->block) {
    counters[i].block = m->block;
    counters[i].taken = 0;
  }
  return counters[i].first + m->block + m->launch->blocks * counters[i].taken++;
}

uint32_t emulated_atomic_increment(uint32_t *global, uint32_t most) {
  const uint32_t before = *global;
  global_reduction((uintptr_t)global, (int)sizeof *global, CALL_SITE());
  *global = before >= most ? 0 : before + 1;
  return ticket_of(global, before);
}

void emulated_release_increment(uint32_t *global, uint32_t most) {
  global_reduction((uintptr_t)global, (int)sizeof *global, CALL_SITE());
  global_release((uintptr_t)global);
  *global = *global >= most ? 0 : *global + 1;
}

/* Other blocks run before or afterwards: who asks often, and alone, asks for ever. */
uint32_t emulated_load_acquire(const uint32_t *global) {
  enum { OFTEN = 1000 };
  static const uint32_t *last;
  static uint32_t value;
  static int times;
  times = global == last && *global == value ? times + 1 : 0;
  last = global;
  value = *global;
  if (times > OFTEN)
    machine_fail("waits for ever for a counter that is %u, at %s", (unsigned)value,
                 site_text(CALL_SITE()));
  global_reduction((uintptr_t)global, (int)sizeof *global, CALL_SITE());
  global_acquire((uintptr_t)global);
  return value;
}

/* ld.relaxed: what is to be written, or what was there before: in one block of four always, or from its
 * second read by a warp on, in one the first few times. */
uint32_t emulated_guess(const uint32_t *global) {
  enum { FEW = 3 };
  static uint32_t asked, blocks, of_block, last_block = UINT32_MAX;
  global_guess((uintptr_t)global, (int)sizeof *global, CALL_SITE());
  const uint32_t value = *global;
  const uint32_t before[] = {0, value + 1, value / 2, UINT32_MAX, value, 3 * value};
  const uint32_t block = the_machine.block;
  of_block = block == last_block ? of_block + 1 : 0;
  blocks += block != last_block;
  last_block = block;
  if (block % 4 == 3 && of_block < FEW)
    return value / 2 + 1;
  if (blocks / 4 % 2 && of_block < WARP_LANES)
    return value;
  return block % 4 == 1 ? before[asked++ % 6] : value;
}

uint64_t emulated_compare_and_swap(uint64_t *global, uint64_t expected, uint64_t desired) {
  const uint64_t before = *global;
  global_reduction((uintptr_t)global, (int)sizeof *global, CALL_SITE());
  global_acquire((uintptr_t)global);
  global_release((uintptr_t)global);
  if (before == expected)
    *global = desired;
  return before;
}
