/* ldmatrix (PTX ISA, Warp Level Matrix Instructions: ldmatrix), of 8 x 8 matrices of 16-bit
 * elements. */
#include "machine.h"

#include <stdint.h>
#include <string.h>

enum { ROWS = 8, ROW_BYTES = 16 };

typedef struct ldmatrix_operands {
  uint32_t *fragment;
  uint32_t shared;
  int matrices, transposed;
  const void *site;
} ldmatrix_operands;

/* Lane l gives the address of row l % 8 of matrix l / 8; it gets elements 2 (l % 4) and the next of
 * row l / 4, or, with .trans, of column l / 4. */
static void execute_ldmatrix(void *operands[]) {
  ldmatrix_operands *const *lanes = (ldmatrix_operands *const *)operands;
  const int matrices = lanes[0]->matrices, transposed = lanes[0]->transposed;
  uint16_t element[4][ROWS][ROWS];
  for (int lane = 0; lane < WARP_LANES; ++lane) {
    const ldmatrix_operands *o = lanes[lane];
    if (o->matrices != matrices || o->transposed != transposed)
      machine_fail("ldmatrix of different shapes in one warp, at %s and %s",
                   site_text(lanes[0]->site), site_text(o->site));
    if (lane / ROWS >= matrices)
      continue; /* its address is not used */
    shared_check_range(o->shared, ROW_BYTES, ROW_BYTES, "ldmatrix reads", o->site);
    shared_warp_read(o->shared, ROW_BYTES, o->site);
    memcpy(element[lane / ROWS][lane % ROWS], shared_pointer(o->shared), ROW_BYTES);
  }
  for (int lane = 0; lane < WARP_LANES; ++lane)
    for (int i = 0; i < matrices; ++i) {
      const int line = lane / 4, first = lane % 4 * 2;
      const uint16_t low = transposed ? element[i][first][line] : element[i][line][first];
      const uint16_t high = transposed ? element[i][first + 1][line] : element[i][line][first + 1];
      lanes[lane]->fragment[i] = low | (uint32_t)high << 16;
    }
}

void emulated_ldmatrix(uint32_t *fragment, uint32_t shared, int matrices, int transposed) {
  ldmatrix_operands operands = {fragment, shared, matrices, transposed, CALL_SITE()};
  warp_execute("ldmatrix", execute_ldmatrix, &operands, operands.site);
}
