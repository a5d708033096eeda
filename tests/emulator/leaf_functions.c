#include "leaf_functions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/half.h"

const leaf_function leaf_functions[] = {
    {"leaf_shared_address", LEAF_BITS, 1, 0, 0, 0, 0},
    {"leaf_cp_async_16", LEAF_BITS, 4, 0, 0, 0, 0},
    {"leaf_cp_async_4", LEAF_BITS, 4, 0, 0, 0, 0},
    {"leaf_cp_async_arrive", LEAF_BITS, 3, 0, 0, 0, 0},
    {"leaf_cp_async_groups", LEAF_BITS, 12, 0, 0, 0, 0},
    {"leaf_global_if", LEAF_BITS, 14, 0, 0, 0, 0},
    {"leaf_stream_if", LEAF_BITS, 4, 0, 0, 0, 0},
    {"leaf_shared_if", LEAF_BITS, 4, 0, 0, 0, 0},
    {"leaf_ldmatrix_x1", LEAF_BITS, 1, 0, 0, 0, 0},
    {"leaf_ldmatrix_x1_trans", LEAF_BITS, 1, 0, 0, 0, 0},
    {"leaf_ldmatrix_x2", LEAF_BITS, 2, 0, 0, 0, 0},
    {"leaf_ldmatrix_x2_trans", LEAF_BITS, 2, 0, 0, 0, 0},
    {"leaf_ldmatrix_x4", LEAF_BITS, 4, 0, 0, 0, 0},
    {"leaf_ldmatrix_x4_trans", LEAF_BITS, 4, 0, 0, 0, 0},
    {"leaf_mma_m16n8k16_fp16", LEAF_MMA_FP16, 4, 16, 0, 0, 0},
    {"leaf_mma_m16n8k16_bf16", LEAF_MMA_BF16, 4, 16, 0, 0, 0},
    {"leaf_mma_m16n8k8_fp16", LEAF_MMA_FP16, 4, 8, 0, 0, 0},
    {"leaf_mma_m16n8k8_bf16", LEAF_MMA_BF16, 4, 8, 0, 0, 0},
    {"leaf_pack_fp16", LEAF_FLOATS, 8, 0, 0, 0, 0},
    {"leaf_pack_bf16", LEAF_FLOATS, 8, 0, 0, 0, 0},
    {"leaf_widen_fp16", LEAF_FLOATS, LANE_WORDS, 0, 0, 0, 0},
    {"leaf_max_fp16x2", LEAF_BITS, 8, 0, 0, 0, 0},
    {"leaf_min_fp16x2", LEAF_BITS, 8, 0, 0, 0, 0},
    {"leaf_max_bf16x2", LEAF_BITS, 8, 0, 0, 0, 0},
    {"leaf_min_bf16x2", LEAF_BITS, 8, 0, 0, 0, 0},
    {"leaf_multiply_fp16x2", LEAF_BITS, 8, 0, 0, 0, 0},
    {"leaf_multiply_bf16x2", LEAF_BITS, 8, 0, 0, 0, 0},
    {"leaf_low_bits", LEAF_BITS, 8, 0, 0, 0, 0},
    {"leaf_exp2_approx", LEAF_EXP2, LANE_WORDS, 0, 0, 0, 0},
    {"leaf_log2_approx", LEAF_LOG2, LANE_WORDS, 0, 0, 0, 0},
    {"leaf_reciprocal_approx", LEAF_RECIPROCAL, LANE_WORDS, 0, 0, 0, 0},
    {"leaf_reciprocal_sqrt_approx", LEAF_RECIPROCAL_SQRT, LANE_WORDS, 0, 0, 0, 0},
    {"leaf_tanh_approx", LEAF_TANH, LANE_WORDS, 0, 0, 0, 0},
    {"leaf_special_registers", LEAF_BITS, 4, 0, 0, 0, 0},
    {"leaf_shuffle_xor", LEAF_FLOATS, 5, 0, 0, 0, 0},
    {"leaf_reduce_add", LEAF_BITS, 1, 0, 0, 0, 0},
    {"leaf_minimum_maximum", LEAF_FLOATS, 5, 0, 0, 0, 0},
};
const int leaf_functions_count = sizeof leaf_functions / sizeof *leaf_functions;

#define WGMMA(n, words)                                                                            \
  {"leaf_wgmma_n" #n "_fp16_ss", LEAF_WGMMA_FP16, words, 64, n, 0, 1},                             \
      {"leaf_wgmma_n" #n "_bf16_ss", LEAF_WGMMA_BF16, words, 64, n, 0, 1},                         \
      {"leaf_wgmma_n" #n "_fp16_rs_trans", LEAF_WGMMA_FP16, words, 64, n, 1, 0}, {                 \
    "leaf_wgmma_n" #n "_bf16_rs_trans", LEAF_WGMMA_BF16, words, 64, n, 1, 0                        \
  }

#define WGMMA_TRANS(n)                                                                             \
  {"leaf_wgmma_n" #n "_fp16_ss_trans", LEAF_WGMMA_FP16, LANE_WORDS, 64, n, 1, 1},                  \
      {"leaf_wgmma_n" #n "_bf16_ss_trans", LEAF_WGMMA_BF16, LANE_WORDS, 64, n, 1, 1},              \
      {"leaf_wgmma_n" #n "_fp16_ss_trans_both", LEAF_WGMMA_FP16, LANE_WORDS, 64, n, 1, 2}, {       \
    "leaf_wgmma_n" #n "_bf16_ss_trans_both", LEAF_WGMMA_BF16, LANE_WORDS, 64, n, 1, 2              \
  }

const leaf_function leaf_functions_sm90[] = {
    {"leaf_tma_load_4d", LEAF_BITS, LANE_WORDS, 0, 0, 0, 0},
    {"leaf_tma_load_5d", LEAF_BITS, LANE_WORDS, 0, 0, 0, 0},
    {"leaf_tma_load_im2col_4d", LEAF_BITS, LANE_WORDS, 0, 0, 0, 0},
    {"leaf_bulk_copies", LEAF_BITS, LANE_WORDS, 0, 0, 0, 0},
    {"leaf_add_u16x2", LEAF_BITS, 8, 0, 0, 0, 0},
    {"leaf_min_u16x2", LEAF_BITS, 8, 0, 0, 0, 0},
    {"leaf_max_u16x2", LEAF_BITS, 8, 0, 0, 0, 0},
    {"leaf_less_f16x2", LEAF_BITS, 8, 0, 0, 0, 0},
    WGMMA(8, 4),
    WGMMA(24, 12),
    WGMMA(64, LANE_WORDS),
    WGMMA(96, LANE_WORDS),
    WGMMA(256, LANE_WORDS),
    {"leaf_wgmma_n64_fp16_rs", LEAF_WGMMA_FP16, LANE_WORDS, 64, 64, 0, 0},
    {"leaf_wgmma_n64_bf16_rs", LEAF_WGMMA_BF16, LANE_WORDS, 64, 64, 0, 0},
    WGMMA_TRANS(64),
    WGMMA_TRANS(96),
    WGMMA_TRANS(128),
    WGMMA_TRANS(256),
};
const int leaf_functions_sm90_count = sizeof leaf_functions_sm90 / sizeof *leaf_functions_sm90;

int leaf_warps(const leaf_function *f) {
  return f->n > 0 ? 4 : 1;
}

static int is_sm90(const leaf_function *f) {
  return f >= leaf_functions_sm90 && f < leaf_functions_sm90 + leaf_functions_sm90_count;
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

static uint64_t random_bits(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u; /* splitmix64 */
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* Uniform in [-1, 1). */
static float random_uniform(uint64_t *state) {
  return (float)((double)(random_bits(state) >> 11) / (double)(1ull << 52) - 1.0);
}

/* Any float; each special value is among a few hundred. */
static uint32_t random_float(uint64_t *state) {
  static const uint32_t special[] = {0x00000000, 0x80000000, 0x7f800000, 0xff800000,
                                     0x7fc00000, 0x00000001, 0x477fefff, 0x477ff000,
                                     0x33000000, 0x33000001, 0x3f800000, 0x7f7fffff};
  const uint64_t bits = random_bits(state);
  if (bits >> 32 & 31)
    return (uint32_t)bits;
  return special[(bits >> 40) % (sizeof special / sizeof *special)];
}

static uint32_t random_word(leaf_kind kind, int word, uint64_t *state) {
  switch (kind) {
  case LEAF_BITS:
    return (uint32_t)random_bits(state);
  case LEAF_MMA_FP16:
  case LEAF_MMA_BF16:
    if (word >= 8)
      return ap_bits_from_float(4.0f * random_uniform(state));
    /* fall through */
  case LEAF_WGMMA_FP16:
  case LEAF_WGMMA_BF16:
    if (kind == LEAF_MMA_FP16 || kind == LEAF_WGMMA_FP16)
      return ap_fp16_from_float(random_uniform(state)) |
             (uint32_t)ap_fp16_from_float(random_uniform(state)) << 16;
    return ap_bf16_from_float(random_uniform(state)) |
           (uint32_t)ap_bf16_from_float(random_uniform(state)) << 16;
  case LEAF_EXP2:
    if (random_bits(state) % 8 != 0)
      return ap_bits_from_float(130.0f * random_uniform(state));
    break;
  case LEAF_TANH:
    if (random_bits(state) % 8 != 0)
      return ap_bits_from_float(6.0f * random_uniform(state));
    break;
  default:
    break;
  }
  return random_float(state);
}

void leaf_fill(const leaf_function *f, uint32_t *in, int warps, uint64_t seed) {
  for (int i = 0; i < warps * WARP_WORDS; ++i)
    in[i] = random_word(f->kind, i % LANE_WORDS, &seed);
}

/* ---- Running --------------------------------------------------------------------------------- */

typedef struct leaf_args {
  const uint32_t *in;
  uint32_t *out;
} leaf_args;

static void call_leaf(void (*function)(void), const void *args) {
  ((void (*)(leaf_args))function)(*(const leaf_args *)args);
}

static void call_leaf_sm90(void (*function)(void), const void *args) {
  ((void (*)(leaf_sm90_args))function)(*(const leaf_sm90_args *)args);
}

/* Both have rows that are shorter than the box, and end inside it in every dimension; of the first
 * 23 KB of `in`. That of five has every second element of a dimension. */
int leaf_sm90_fill_args(leaf_sm90_args *args, uint64_t in, uint64_t out, leaf_encode *encode,
                        leaf_encode_im2col *encode_im2col) {
  enum { UINT16 = 1, SWIZZLE_128B = 3 };
  static const uint32_t ones[] = {1, 1, 1, 1, 1};
  static const uint64_t dims_4d[] = {56, 10, 4, 2}, strides_4d[] = {128, 1280, 5120};
  static const uint64_t dims_5d[] = {40, 3, 10, 4, 2}, strides_5d[] = {96, 288, 2880, 11520};
  static const uint32_t box_4d[] = {64, 8, 1, 2}, box_5d[] = {64, 2, 8, 1, 2};
  static const uint32_t steps_5d[] = {1, 1, 2, 1, 1};
  /* Images of 7 lines of 6 pixels; every second pixel of a line, from one before the first but two
   * on, and the lines from two above the first to the last but one. */
  static const uint64_t dims_im2col[] = {56, 6, 7, 3}, strides_im2col[] = {128, 784, 5488};
  static const int lower[] = {-3, -2}, upper[] = {1, -1};
  static const uint32_t steps[] = {1, 2, 1, 1};
  void *address = (void *)(uintptr_t)in;
  *args = (leaf_sm90_args){.in = in, .out = out};
  int status = encode(&args->map_4d, UINT16, 4, address, dims_4d, strides_4d, box_4d, ones, 0,
                      SWIZZLE_128B, 0, 0);
  if (status == 0)
    status = encode(&args->map_5d, UINT16, 5, address, dims_5d, strides_5d, box_5d, steps_5d, 0,
                    SWIZZLE_128B, 0, 0);
  return status != 0
             ? status
             : encode_im2col(&args->map_im2col, UINT16, 4, address, dims_im2col, strides_im2col,
                             lower, upper, 64, 16, steps, 0, SWIZZLE_128B, 0, 0);
}

int leaf_emulate(const char *module_path, const leaf_function *f, const uint32_t *in, uint32_t *out,
                 int warps, char *report) {
  emulated_module *module = emulated_load(module_path, f->symbol, report);
  if (module == NULL)
    return -1;
  const int64_t words = (int64_t)warps * WARP_WORDS;
  const leaf_args args = {in, out};
  leaf_sm90_args sm90_args;
  leaf_sm90_fill_args(&sm90_args, (uintptr_t)in, (uintptr_t)out, emulated_encode_tiled,
                      emulated_encode_im2col);
  const emulated_tensor tensors[] = {{.name = "in",
                                      .data = (void *)(uintptr_t)in,
                                      .element_bytes = 4,
                                      .shape = {1, 1, 1, words},
                                      .stride = {0, 0, 0, 1}},
                                     {.name = "out",
                                      .data = out,
                                      .element_bytes = 4,
                                      .writable = 1,
                                      .shape = {1, 1, 1, words},
                                      .stride = {0, 0, 0, 1}}};
  const emulated_launch launch = {.module = module,
                                  .blocks = (unsigned)(warps / leaf_warps(f)),
                                  .threads = 32u * (unsigned)leaf_warps(f),
                                  .shared_bytes = is_sm90(f) ? LEAF_SM90_SHARED_BYTES : 0,
                                  .args = is_sm90(f) ? (const void *)&sm90_args : &args,
                                  .call = is_sm90(f) ? call_leaf_sm90 : call_leaf,
                                  .tensors = tensors,
                                  .tensor_count = 2};
  const int status = emulated_run(&launch, report);
  emulated_unload(module);
  return status;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static float as_float(uint32_t bits) {
  return ap_float_from_bits(bits);
}

static float half_at(const uint32_t *words, int word, int upper, leaf_kind kind) {
  const uint16_t half = (uint16_t)(words[word] >> 16 * upper);
  return kind == LEAF_MMA_FP16 || kind == LEAF_WGMMA_FP16 ? ap_float_from_fp16(half)
                                                          : ap_float_from_bf16(half);
}

static float half_of(const uint32_t *words, int lane, int word, int upper, leaf_kind kind) {
  return half_at(words, lane * LANE_WORDS + word, upper, kind);
}

/* A of a product of leaf_functions_sm90.cu: the words in their order, or, in registers, as the
 * fragments of wgmma are (PTX ISA, Register Fragments for wgmma.mma_async.m64nNk16). */
static double wgmma_a(const leaf_function *f, const uint32_t *in, int row, int k) {
  if (f->a_in_shared == 2)
    return (double)half_at(in, k * 32 + row / 2, row % 2, f->kind);
  if (f->a_in_shared)
    return (double)half_at(in, row * 32 + k / 2, k % 2, f->kind);
  const int lane = row / 16 * 32 + row % 8 * 4 + k % 8 / 2;
  const int word = k / 16 * 4 + row % 16 / 8 + k % 16 / 8 * 2;
  return (double)half_of(in, lane, word, k % 2, f->kind);
}

static double wgmma_b(const leaf_function *f, const uint32_t *in, int k, int column) {
  const int first = 1031 * (1 + column / 64);
  const int at = f->b_transposed ? k * 32 + column % 64 / 2 : column * 32 + k / 2;
  return (double)half_at(in, (at + first) % (4 * WARP_WORDS), f->b_transposed ? column % 2 : k % 2,
                         f->kind);
}

void leaf_wgmma_element(const leaf_function *f, const uint32_t *in, int lane, int word,
                        double *result, double *size) {
  const int d = f->n <= 32 ? word : word * (f->n / 32) + word % (f->n / 32);
  const int row = lane / 32 * 16 + lane % 32 / 4 + d % 4 / 2 * 8;
  const int column = d / 4 * 8 + lane % 4 * 2 + d % 2;
  *result = *size = (lane * 7 + d * 3) % 31 * 0.25;
  for (int k = 0; k < f->k; ++k) {
    const double product = wgmma_a(f, in, row, k) * wgmma_b(f, in, k, column);
    *result += product;
    *size += fabs(product);
  }
}

/* |C| + sum of |A B| of element `register_index` of a lane: what an mma's error is a small part of.
 */
static double mma_size(const leaf_function *f, const uint32_t *in, int lane, int register_index) {
  double sum = fabs((double)as_float(in[lane * LANE_WORDS + 8 + register_index]));
  const int column_lane =
      (lane % 4 * 2 + register_index % 2) * 4; /* the first that holds B's column */
  const int row_lane = lane / 4 * 4;           /* the first that holds A's row */
  for (int k = 0; k < f->k; ++k) {
    const int t = k % 8 / 2, upper = k % 2;
    sum += fabs((double)half_of(in, row_lane + t, register_index / 2 + k / 8 * 2, upper, f->kind) *
                (double)half_of(in, column_lane + t, 4 + k / 8, upper, f->kind));
  }
  return sum;
}

/* What the PTX ISA allows a GPU, and half a unit in the last place for the rounding here. */
static double bound(const leaf_function *f, const uint32_t *in, int lane, int word, double result) {
  switch (f->kind) {
  case LEAF_MMA_FP16:
  case LEAF_MMA_BF16: /* each of k additions may cut off a unit in the last place of the largest
                         term */
    return (f->k + 1) * 0x1p-23 * mma_size(f, in, lane, word);
  case LEAF_WGMMA_FP16:
  case LEAF_WGMMA_BF16: {
    double exact, size;
    leaf_wgmma_element(f, in, lane, word, &exact, &size);
    return (f->k + 1) * 0x1p-23 * size;
  }
  case LEAF_EXP2: /* and what is subnormal may be zero */
    return 0x1.4p-22 * fabs(result) + 0x1p-126;
  case LEAF_LOG2:
    return 0x1.4p-22 * fmax(1.0, fabs(result));
  case LEAF_RECIPROCAL:
    return 0x1.8p-23 * fabs(result) + 0x1p-126;
  case LEAF_RECIPROCAL_SQRT:
    return 0x1.cp-23 * fabs(result);
  case LEAF_TANH:
    return 0x1p-11 * fabs(result) + 0x1p-126;
  default:
    return 0.0;
  }
}

static double word_distance(const leaf_function *f, const uint32_t *in, uint32_t a, uint32_t b,
                            int lane, int word) {
  const double x = (double)as_float(a), y = (double)as_float(b);
  if (a == b)
    return 0.0;
  if (f->kind == LEAF_BITS || f->kind == LEAF_FLOATS)
    return INFINITY;
  if (isnan(x) && isnan(y))
    return 0.0;
  const double allowed = bound(f, in, lane, word, y);
  return isfinite(x) && isfinite(y) && allowed > 0.0 ? fabs(x - y) / allowed : INFINITY;
}

double leaf_distance(const leaf_function *f, const uint32_t *in, const uint32_t *a,
                     const uint32_t *b, int *word) {
  double worst = 0.0;
  for (int lane = 0; lane < 32 * leaf_warps(f); ++lane)
    for (int i = 0; i < f->words; ++i) {
      const int at = lane * LANE_WORDS + i;
      const double distance = word_distance(f, in, a[at], b[at], lane, i);
      if (distance > worst) {
        worst = distance;
        *word = at;
      }
    }
  return worst;
}
