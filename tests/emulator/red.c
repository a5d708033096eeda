/* red.global.add.f32 (PTX ISA, red): additions that need no order, among themselves. */
#include "machine.h"

void emulated_red_add(float *global, float x) {
  global_reduction((uintptr_t)global, (int)sizeof *global, CALL_SITE());
  *global += x;
}
