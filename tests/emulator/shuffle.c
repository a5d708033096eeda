/* shfl.sync (PTX ISA, Data Movement and Conversion Instructions: shfl.sync), vote.sync and redux.sync
 * (Parallel Synchronization and Communication Instructions). */
#include "machine.h"

typedef struct shuffle_operands {
  uint32_t value;
  int mask;
  const void *site;
} shuffle_operands;

static void check_lanes(uint32_t lanes, const char *instruction, const void *site) {
  if (lanes != 0xffffffff)
    machine_fail("%s of lanes 0x%x, where all 32 are wanted, at %s", instruction, lanes,
                 site_text(site));
}

static void read_values(shuffle_operands *const *lanes, uint32_t value[WARP_LANES]) {
  for (int lane = 0; lane < WARP_LANES; ++lane)
    value[lane] = lanes[lane]->value;
}

/* shfl.sync.bfly.b32: lane l gets the value of lane l ^ mask. */
static void execute_shuffle_xor(void *operands[]) {
  shuffle_operands *const *lanes = (shuffle_operands *const *)operands;
  uint32_t value[WARP_LANES];
  read_values(lanes, value);
  for (int lane = 0; lane < WARP_LANES; ++lane) {
    const int from = lane ^ lanes[lane]->mask;
    if (from < 0 || from >= WARP_LANES)
      machine_fail("shfl.sync.bfly by %d at %s", lanes[lane]->mask, site_text(lanes[lane]->site));
    lanes[lane]->value = value[from];
  }
}

uint32_t emulated_shuffle_xor(uint32_t lanes, uint32_t value, int mask) {
  shuffle_operands operands = {value, mask, CALL_SITE()};
  check_lanes(lanes, "shfl.sync", operands.site);
  warp_execute("shfl.sync", execute_shuffle_xor, &operands, operands.site);
  return operands.value;
}

/* shfl.sync.idx.b32: each lane names the one whose value it gets. */
static void execute_shuffle_index(void *operands[]) {
  shuffle_operands *const *lanes = (shuffle_operands *const *)operands;
  uint32_t value[WARP_LANES];
  read_values(lanes, value);
  for (int lane = 0; lane < WARP_LANES; ++lane)
    lanes[lane]->value = value[lanes[lane]->mask & (WARP_LANES - 1)];
}

uint32_t emulated_shuffle_index(uint32_t lanes, uint32_t value, int from) {
  shuffle_operands operands = {value, from, CALL_SITE()};
  check_lanes(lanes, "shfl.sync", operands.site);
  warp_execute("shfl.sync", execute_shuffle_index, &operands, operands.site);
  return operands.value;
}

/* vote.sync.any */
static void execute_any(void *operands[]) {
  shuffle_operands *const *lanes = (shuffle_operands *const *)operands;
  uint32_t any = 0;
  for (int lane = 0; lane < WARP_LANES; ++lane)
    any |= lanes[lane]->value != 0;
  for (int lane = 0; lane < WARP_LANES; ++lane)
    lanes[lane]->value = any;
}

int emulated_any(uint32_t lanes, int predicate) {
  shuffle_operands operands = {predicate != 0, 0, CALL_SITE()};
  check_lanes(lanes, "vote.sync", operands.site);
  warp_execute("vote.sync", execute_any, &operands, operands.site);
  return (int)operands.value;
}

/* vote.sync.ballot.b32: bit l is lane l's predicate. */
static void execute_ballot(void *operands[]) {
  shuffle_operands *const *lanes = (shuffle_operands *const *)operands;
  uint32_t bits = 0;
  for (int lane = 0; lane < WARP_LANES; ++lane)
    bits |= (uint32_t)(lanes[lane]->value != 0) << lane;
  for (int lane = 0; lane < WARP_LANES; ++lane)
    lanes[lane]->value = bits;
}

uint32_t emulated_ballot(uint32_t lanes, int predicate) {
  shuffle_operands operands = {predicate != 0, 0, CALL_SITE()};
  check_lanes(lanes, "vote.sync", operands.site);
  warp_execute("vote.sync", execute_ballot, &operands, operands.site);
  return operands.value;
}

/* redux.sync.add.s32: the sum of the lanes' values, which wraps around. */
static void execute_reduce_add(void *operands[]) {
  shuffle_operands *const *lanes = (shuffle_operands *const *)operands;
  uint32_t sum = 0;
  for (int lane = 0; lane < WARP_LANES; ++lane)
    sum += lanes[lane]->value;
  for (int lane = 0; lane < WARP_LANES; ++lane)
    lanes[lane]->value = sum;
}

uint32_t emulated_reduce_add(uint32_t lanes, uint32_t value) {
  shuffle_operands operands = {value, 0, CALL_SITE()};
  check_lanes(lanes, "redux.sync", operands.site);
  warp_execute("redux.sync", execute_reduce_add, &operands, operands.site);
  return operands.value;
}

/* bar.warp.sync: orders what the lanes of a warp did before it. */
static void execute_warp_barrier(void *operands[]) {
  (void)operands;
  const int first = current_warp() * WARP_LANES, clock = order_clock_of_named(0);
  order_clear(clock);
  for (int lane = 0; lane < WARP_LANES; ++lane)
    order_release(first + lane, clock);
  for (int lane = 0; lane < WARP_LANES; ++lane)
    order_acquire(first + lane, clock);
}

void emulated_warp_barrier(void) {
  warp_execute("bar.warp.sync", execute_warp_barrier, NULL, CALL_SITE());
}
