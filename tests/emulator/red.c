/* red.global.add.f32 and atom.global.inc.u32 (PTX ISA, red, atom): additions that need no order, among
 * themselves. */
#include "machine.h"

void emulated_red_add(float *global, float x) {
  global_reduction((uintptr_t)global, (int)sizeof *global, CALL_SITE());
  *global += x;
}

uint32_t emulated_atomic_increment(uint32_t *global, uint32_t most) {
  const uint32_t before = *global;
  global_reduction((uintptr_t)global, (int)sizeof *global, CALL_SITE());
  *global = before >= most ? 0 : before + 1;
  return before;
}
