/* ldmatrix (PTX ISA, Warp Level Matrix Instructions: ldmatrix), of 8 x 8 matrices of 16-bit
 * elements.
 *
 * What it reads is under way until something takes the fragment. By the PTX ISA an arrival at an
 * mbarrier releases reads before it; ptxas of CUDA 13.0 does not make it wait for those of ldmatrix,
 * and a GPU's arrival overtook them. So a thread does not arrive between a load and the first
 * product that takes it. (What else takes fragments is not seen here.) */
#include "machine.h"

#include <stdint.h>
#include <string.h>

static machine *const m = &the_machine;

enum { ROWS = 8, ROW_BYTES = 16, FRAGMENTS_MAX = 64 };

/* A fragment that its thread has loaded, and that no product has taken. */
typedef struct loaded {
  const uint32_t *begin, *end;
  const void *site;
  uint32_t arrivals; /* of the thread, before */
} loaded;

typedef struct fragments {
  loaded of[FRAGMENTS_MAX]; /* the latest; begin NULL: none */
  uint32_t count;           /* of all */
  uint32_t arrivals;
  const void *arrived; /* where the latest was */
} fragments;

static fragments under_way[THREADS_MAX];

void fragments_reset(void) {
  memset(under_way, 0, sizeof *under_way * (size_t)m->thread_count);
}

void fragments_arrival(const void *site) {
  fragments *own = &under_way[m->current];
  ++own->arrivals;
  own->arrived = site;
}

void fragments_take(const uint32_t *begin, int words, const void *site) {
  fragments *own = &under_way[m->current];
  for (int i = 0; i < FRAGMENTS_MAX && own->count > 0; ++i) { /* kernels of sm80 have none */
    loaded *f = &own->of[i];
    if (begin >= f->end || f->begin >= begin + words)
      continue;
    if (f->arrivals != own->arrivals)
      machine_fail("arrives at %s while a fragment is under way, which ldmatrix loads at %s, and a "
                   "product takes at %s",
                   site_text(own->arrived), site_text(f->site), site_text(site));
    *f = (loaded){.begin = NULL};
  }
}

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
  if (!mbarriers_exist())
    return;
  fragments *own = &under_way[m->current];
  for (int i = 0; i < FRAGMENTS_MAX; ++i) /* registers of an earlier load */
    if (fragment < own->of[i].end && own->of[i].begin < fragment + matrices)
      own->of[i] = (loaded){.begin = NULL};
  own->of[own->count++ % FRAGMENTS_MAX] =
      (loaded){fragment, fragment + matrices, operands.site, own->arrivals};
}
