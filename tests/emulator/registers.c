/* setmaxnreg (PTX ISA, Miscellaneous Instructions: setmaxnreg): warpgroups hand registers to one
 * another, through the block's pool. A block starts with an equal share for each thread. */
#include "machine.h"

static machine *const m = &the_machine;

enum { REGISTERS_OF_BLOCK = 65536, REGISTERS_MIN = 24, REGISTERS_MAX = 256, STEP = 8 };

static int registers[WARPS_MAX]; /* of a thread of each warp */
static int pool;                 /* that nobody has */

typedef struct request {
  int registers, increase;
  const void *site;
} request;

void registers_reset(void) {
  int share = REGISTERS_OF_BLOCK / m->thread_count / STEP * STEP;
  share = share > REGISTERS_MAX ? REGISTERS_MAX : share;
  for (int warp = 0; warp < m->thread_count / WARP_LANES; ++warp)
    registers[warp] = share;
  pool = 0;
}

static void execute_decrease(void *operands[]) {
  request *const *lanes = (request *const *)operands;
  int *own = &registers[current_warp()];
  if (lanes[0]->registers > *own)
    machine_fail("setmaxnreg.dec to %d registers, where the warp has %d, at %s",
                 lanes[0]->registers, *own, site_text(lanes[0]->site));
  pool += (*own - lanes[0]->registers) * WARP_LANES;
  *own = lanes[0]->registers;
  threads_wake(&pool);
}

static void execute_increase(void *operands[]) {
  (void)operands; /* waits for the pool lane by lane */
}

/* The first lane that finds enough takes them for its warp. */
static void take_registers(const request *r) {
  int *own = &registers[current_warp()];
  while (*own < r->registers && (r->registers - *own) * WARP_LANES > pool)
    thread_wait(&pool, "setmaxnreg.inc, for registers that no other warp gives back,", r->site);
  if (*own < r->registers) {
    pool -= (r->registers - *own) * WARP_LANES;
    *own = r->registers;
  }
}

void emulated_set_registers(int count, int increase) {
  request r = {count, increase, CALL_SITE()};
  if (count < REGISTERS_MIN || count > REGISTERS_MAX || count % STEP != 0)
    machine_fail("setmaxnreg to %d registers at %s", count, site_text(r.site));
  if ((m->current / GROUP_LANES + 1) * GROUP_LANES > m->thread_count)
    machine_fail("setmaxnreg by a warpgroup that is not whole, in a block of %d threads, at %s",
                 m->thread_count, site_text(r.site));
  if (!increase) {
    warp_execute("setmaxnreg.dec", execute_decrease, &r, r.site);
  } else {
    warp_execute("setmaxnreg.inc", execute_increase, &r, r.site);
    take_registers(&r);
  }
}

void registers_check_exit(void) {
  for (int warp = 0; warp < m->thread_count / WARP_LANES; ++warp)
    if (registers[warp] != registers[warp / GROUP_WARPS * GROUP_WARPS])
      machine_fail("the block ends with setmaxnreg executed by a part of a warpgroup: warp %d has "
                   "%d registers, warp %d has %d",
                   warp / GROUP_WARPS * GROUP_WARPS, registers[warp / GROUP_WARPS * GROUP_WARPS],
                   warp, registers[warp]);
}
