/* shfl.sync (PTX ISA, Data Movement and Conversion Instructions: shfl.sync). */
#include "machine.h"

typedef struct shuffle_operands {
  float value;
  int mask;
  const void *site;
} shuffle_operands;

/* shfl.sync.bfly.b32: lane l gets the value of lane l ^ mask. */
static void execute_shuffle(void *operands[WARP_LANES]) {
  shuffle_operands *const *lanes = (shuffle_operands *const *)operands;
  float value[WARP_LANES];
  for (int lane = 0; lane < WARP_LANES; ++lane)
    value[lane] = lanes[lane]->value;
  for (int lane = 0; lane < WARP_LANES; ++lane) {
    const int from = lane ^ lanes[lane]->mask;
    if (from < 0 || from >= WARP_LANES)
      machine_fail("shfl.sync.bfly by %d at %s", lanes[lane]->mask, site_text(lanes[lane]->site));
    lanes[lane]->value = value[from];
  }
}

float emulated_shuffle_xor(uint32_t lanes, float value, int mask) {
  shuffle_operands operands = {value, mask, CALL_SITE()};
  if (lanes != 0xffffffff)
    machine_fail("shfl.sync of lanes 0x%x, where all 32 are wanted, at %s", lanes,
                 site_text(operands.site));
  warp_execute("shfl.sync", execute_shuffle, &operands, operands.site);
  return operands.value;
}
