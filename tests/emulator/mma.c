/* mma.sync (PTX ISA, Warp Level Matrix Instructions: mma), of shapes m16n8k8 and m16n8k16, 16-bit
 * factors and fp32 sums.
 *
 * Products and sums are exact here, and rounded once to fp32. Hardware rounds, or cuts off, as it
 * adds: PTX leaves the order and the precision of the sums open. */
#include "machine.h"

#include "cpu/half.h"

enum { M = 16, N = 8, K_MAX = 16 };

typedef struct mma_operands {
  float *d;
  const uint32_t *a, *b;
  int k, format;
  const void *site;
} mma_operands;

static float from_half(uint32_t bits, int format) {
  const uint16_t half = (uint16_t)bits;
  return format == EMULATED_FP16 ? ap_float_from_fp16(half) : ap_float_from_bf16(half);
}

/* "Matrix fragments for mma.m16n8k16 with floating point type", with g = lane / 4 and t = lane % 4:
 * registers of A are (row g, k 2t), (row g + 8, k 2t), (row g, k 2t + 8), (row g + 8, k 2t + 8), of
 * B (k 2t, column g), (k 2t + 8, column g), each with the next k in its upper half. k8 has no
 * second half of k. */
static void unpack(const mma_operands *o, int lane, double a[M][K_MAX], double b[K_MAX][N]) {
  const int g = lane / 4, t = lane % 4;
  for (int i = 0; i < o->k / 4; ++i)
    for (int half = 0; half < 2; ++half)
      a[g + i % 2 * 8][2 * t + i / 2 * 8 + half] =
          (double)from_half(o->a[i] >> 16 * half, o->format);
  for (int i = 0; i < o->k / 8; ++i)
    for (int half = 0; half < 2; ++half)
      b[2 * t + i * 8 + half][g] = (double)from_half(o->b[i] >> 16 * half, o->format);
}

static void execute_mma(void *operands[]) {
  mma_operands *const *lanes = (mma_operands *const *)operands;
  const int k = lanes[0]->k, format = lanes[0]->format;
  double a[M][K_MAX], b[K_MAX][N];
  for (int lane = 0; lane < WARP_LANES; ++lane) {
    if (lanes[lane]->k != k || lanes[lane]->format != format)
      machine_fail("mma of different shapes in one warp, at %s and %s", site_text(lanes[0]->site),
                   site_text(lanes[lane]->site));
    unpack(lanes[lane], lane, a, b);
  }
  for (int row = 0; row < M; ++row) {
    double sum[N] = {0.0};
    for (int i = 0; i < k; ++i)
      for (int column = 0; column < N; ++column)
        sum[column] += a[row][i] * b[i][column];
    /* D, like C: (row g, columns 2t and 2t + 1), (row g + 8, the same). */
    for (int column = 0; column < N; ++column) {
      float *d = &lanes[row % 8 * 4 + column / 2]->d[row / 8 * 2 + column % 2];
      *d = (float)((double)*d + sum[column]);
    }
  }
}

void emulated_mma_m16n8(float *d, const uint32_t *a, const uint32_t *b, int k, int format) {
  mma_operands operands = {d, a, b, k, format, CALL_SITE()};
  fragments_take(a, k / 4, operands.site);
  fragments_take(b, k / 8, operands.site);
  warp_execute("mma", execute_mma, &operands, operands.site);
}
