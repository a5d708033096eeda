#define _POSIX_C_SOURCE 200809L /* mkstemp */
/* The emulator itself: known answers of each instruction, and a report for each kind of fault. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attnpress/args/attention.h"
#include "leaf_functions.h"

static int failures;
static char report[EMULATED_REPORT_BYTES];
static char module_path[] = "/tmp/attnpress-emulated-test-XXXXXX";

#define CHECK(condition, ...)                                                                      \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("%s:%d: %s: ", __FILE__, __LINE__, #condition);                                       \
      printf(__VA_ARGS__);                                                                         \
      printf("\n");                                                                                \
      ++failures;                                                                                  \
    }                                                                                              \
  } while (0)

static int compile(const char *name) {
  char path[4096];
  snprintf(path, sizeof path, EMULATED_SOURCE_DIR "/tests/emulator/%s", name);
  if (emulated_compile(path, module_path, report) == 0)
    return 0;
  printf("%s\n", report);
  ++failures;
  return -1;
}

/* ---- Known answers --------------------------------------------------------------------------- */

static uint32_t in[WARP_WORDS], out[WARP_WORDS];

static void emulate(const char *symbol) {
  const leaf_function *f = leaf_functions;
  while (strcmp(f->symbol, symbol) != 0)
    ++f;
  memset(out, 0xff, sizeof out);
  const int status = leaf_emulate(module_path, f, in, out, 1, report);
  CHECK(status == 0, "%s: %s", symbol, report);
}

static float floats(const uint32_t *words, int lane, int word) {
  float x;
  memcpy(&x, &words[lane * LANE_WORDS + word], sizeof x);
  return x;
}

static void set_float(int lane, int word, float x) {
  memcpy(&in[lane * LANE_WORDS + word], &x, sizeof x);
}

/* Element (row, column) of matrix i is 64 i + 8 row + column. */
static void test_ldmatrix(void) {
  /* Lane, then both halves of its register: PTX ISA, ldmatrix, the figures of the fragments. */
  static const int direct[][3] = {{0, 0, 1}, {3, 6, 7}, {4, 8, 9}, {13, 26, 27}, {31, 62, 63}};
  static const int transposed[][3] = {
      {0, 0, 8}, {3, 48, 56}, {4, 1, 9}, {13, 19, 27}, {31, 55, 63}};
  static const struct {
    const char *symbol;
    int matrices, transposed;
  } shapes[] = {{"leaf_ldmatrix_x1", 1, 0}, {"leaf_ldmatrix_x1_trans", 1, 1},
                {"leaf_ldmatrix_x2", 2, 0}, {"leaf_ldmatrix_x2_trans", 2, 1},
                {"leaf_ldmatrix_x4", 4, 0}, {"leaf_ldmatrix_x4_trans", 4, 1}};
  for (int row = 0; row < 32; ++row)
    for (int i = 0; i < 4; ++i)
      in[row * LANE_WORDS + i] = (uint32_t)(8 * row + 2 * i) | (uint32_t)(8 * row + 2 * i + 1)
                                                                   << 16;
  for (int s = 0; s < 6; ++s) {
    emulate(shapes[s].symbol);
    for (int i = 0; i < shapes[s].matrices; ++i)
      for (int c = 0; c < 5; ++c) {
        const int *expected = shapes[s].transposed ? transposed[c] : direct[c];
        const uint32_t got = out[expected[0] * LANE_WORDS + i];
        const uint32_t low = (uint32_t)(64 * i + expected[1]),
                       high = (uint32_t)(64 * i + expected[2]);
        CHECK(got == (low | high << 16), "%s, lane %d, matrix %d: %08x", shapes[s].symbol,
              expected[0], i, got);
      }
    for (int lane = 0; lane < 32; ++lane)
      CHECK(out[lane * LANE_WORDS + shapes[s].matrices] == 0xffffffff, "one register too many");
  }
}

/* A, B and C in their fragments: one element of A and one of B are not zero, so one of D is. */
static void test_mma(const char *symbol, uint32_t three, uint32_t five, const int places[][5],
                     int count) {
  for (int i = 0; i < count; ++i) {
    /* A's lane and half register, B's lane and half register, D's lane * 4 + register. */
    const int *p = places[i];
    memset(in, 0, sizeof in);
    in[p[0] * LANE_WORDS + p[1] / 2] = three << 16 * (p[1] % 2);
    in[p[2] * LANE_WORDS + 4 + p[3] / 2] = five << 16 * (p[3] % 2);
    for (int lane = 0; lane < 32; ++lane)
      for (int d = 0; d < 4; ++d)
        set_float(lane, 8 + d, (float)(lane * 4 + d));
    emulate(symbol);
    for (int d = 0; d < 128; ++d) {
      const float expected = (float)d + (d == p[4] ? 15.0f : 0.0f), got = floats(out, d / 4, d % 4);
      CHECK(got == expected, "%s, case %d, lane %d, d[%d]: %g", symbol, i, d / 4, d % 4,
            (double)got);
    }
  }
}

static void test_mmas(void) {
  /* PTX ISA, the fragments of mma.m16n8k16 and .m16n8k8. By (row, k) of A and (k, column) of B: (0,
   * 0)(0, 0); (3, 5)(5, 6); (11, 5)(5, 1); (7, 14)(14, 7); (15, 15)(15, 0); the first three have k
   * < 8. */
  static const int places[][5] = {{0, 0, 0, 0, 0},
                                  {14, 1, 26, 1, 15 * 4},
                                  {14, 3, 6, 1, 12 * 4 + 3},
                                  {31, 4, 31, 2, 31 * 4 + 1},
                                  {31, 7, 3, 3, 28 * 4 + 2}};
  test_mma("leaf_mma_m16n8k16_fp16", 0x4200, 0x4500, places, 5);
  test_mma("leaf_mma_m16n8k16_bf16", 0x4040, 0x40a0, places, 5);
  test_mma("leaf_mma_m16n8k8_fp16", 0x4200, 0x4500, places, 3);
  test_mma("leaf_mma_m16n8k8_bf16", 0x4040, 0x40a0, places, 3);
}

static void test_copies(void) {
  for (int i = 0; i < WARP_WORDS; ++i)
    in[i] = 0x1000u + (uint32_t)i;
  for (int lane = 0; lane < 32; ++lane)
    in[lane * LANE_WORDS + 4] = (uint32_t)lane; /* even ones copy nothing */
  emulate("leaf_cp_async_16");
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int at = lane * LANE_WORDS + i;
      CHECK(out[at] == (lane % 2 ? in[at] : 0), "lane %d, word %d: %x", lane, i, out[at]);
    }
  emulate("leaf_cp_async_4");
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int at = lane * LANE_WORDS + i;
      CHECK(out[at] == (in[at] % 2 ? in[at] : 0), "lane %d, word %d: %x", lane, i, out[at]);
    }
  emulate("leaf_cp_async_arrive");
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 3; ++i)
      CHECK(out[lane * LANE_WORDS + i] == in[(lane ^ 1) * LANE_WORDS + i], "lane %d, word %d", lane,
            i);
  emulate("leaf_cp_async_groups");
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 12; ++i) {
      const int from = (i < 8 ? lane : lane ^ 1) * LANE_WORDS + i;
      CHECK(out[lane * LANE_WORDS + i] == in[from], "lane %d, word %d", lane, i);
    }
  emulate("leaf_shared_address");
  for (int lane = 0; lane < 32; ++lane)
    CHECK(out[lane * LANE_WORDS] == (uint32_t)lane * 16, "lane %d", lane);
}

static void test_shuffle(void) {
  for (int lane = 0; lane < 32; ++lane)
    set_float(lane, 0, (float)lane);
  emulate("leaf_shuffle_xor");
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 5; ++i)
      CHECK(floats(out, lane, i) == (float)(lane ^ 1 << i), "lane %d by %d", lane, 1 << i);
  for (int lane = 0; lane < 32; ++lane)
    in[lane * LANE_WORDS] = (uint32_t)(lane * lane - 400);
  emulate("leaf_reduce_add");
  for (int lane = 0; lane < 32; ++lane)
    CHECK(out[lane * LANE_WORDS] == 10416u - 32 * 400u, "lane %d: %d", lane,
          (int)out[lane * LANE_WORDS]);
}

static void test_conversions(void) {
  static const struct {
    float x;
    uint32_t fp16, bf16;
  } cases[] = {
      {1.0f, 0x3c00, 0x3f80},         {-2.5f, 0xc100, 0xc020},      {65504.0f, 0x7bff, 0x4780},
      {65519.996f, 0x7bff, 0x4780},   {65520.0f, 0x7c00, 0x4780},   {0x1p-24f, 0x0001, 0x3380},
      {0x1p-25f, 0x0000, 0x3300},     {0x1.8p-25f, 0x0001, 0x3340}, {2049.0f, 0x6800, 0x4500},
      {2051.0f, 0x6802, 0x4500},      {0x1.01p0f, 0x3c04, 0x3f80},  {0x1.03p0f, 0x3c0c, 0x3f82},
      {INFINITY, 0x7c00, 0x7f80},     {-0.0f, 0x8000, 0x8000},      {-NAN, 0x7fff, 0x7fff},
      {0x1.ffffp127f, 0x7c00, 0x7f80}};
  for (int i = 0; i < LANE_WORDS; ++i)
    set_float(0, i, cases[i].x);
  for (int type = 0; type < 2; ++type) {
    emulate(type ? "leaf_pack_bf16" : "leaf_pack_fp16");
    for (int i = 0; i < LANE_WORDS; ++i) {
      const uint32_t got = out[i / 2] >> 16 * (i % 2) & 0xffff; /* the first is the lower half */
      CHECK(got == (type ? cases[i].bf16 : cases[i].fp16), "%a is %04x", (double)cases[i].x, got);
    }
  }
}

static void test_functions(void) {
  static const struct {
    const char *symbol;
    float x, y;
  } cases[] = {
      {"leaf_widen_fp16", 2049.0f, 2048.0f},
      {"leaf_widen_fp16", -0x1p-24f, -0x1p-24f},
      {"leaf_widen_fp16", 0x1.5p-16f, 0x1.5p-16f},
      {"leaf_widen_fp16", 65520.0f, INFINITY},
      {"leaf_exp2_approx", 3.0f, 8.0f},
      {"leaf_exp2_approx", -INFINITY, 0.0f},
      {"leaf_exp2_approx", 0.5f, 0x1.6a09e6p0f},
      {"leaf_exp2_approx", -126.0f, 0x1p-126f},
      {"leaf_exp2_approx", -127.0f, 0.0f},
      {"leaf_exp2_approx", 128.0f, INFINITY},
      {"leaf_exp2_approx", 0x1p-149f, 1.0f},
      {"leaf_log2_approx", 8.0f, 3.0f},
      {"leaf_log2_approx", 0.0f, -INFINITY},
      {"leaf_log2_approx", 0x1p-130f, -INFINITY},
      {"leaf_log2_approx", -1.0f, NAN},
      {"leaf_reciprocal_approx", 4.0f, 0.25f},
      {"leaf_reciprocal_approx", -0.0f, -INFINITY},
      {"leaf_reciprocal_approx", 0x1p127f, 0.0f},
      {"leaf_reciprocal_approx", 3.0f, 0x1.555556p-2f},
      {"leaf_reciprocal_sqrt_approx", 4.0f, 0.5f},
      {"leaf_reciprocal_sqrt_approx", 2.0f, 0x1.6a09e6p-1f},
      {"leaf_reciprocal_sqrt_approx", 0.0f, INFINITY},
      {"leaf_reciprocal_sqrt_approx", -1.0f, NAN},
      {"leaf_tanh_approx", 0.0f, 0.0f},
      {"leaf_tanh_approx", 1.0f, 0x1.85efacp-1f},
      {"leaf_tanh_approx", -0.5f, -0x1.d9353ep-2f},
      {"leaf_tanh_approx", 20.0f, 1.0f},
      {"leaf_tanh_approx", -INFINITY, -1.0f},
      {"leaf_tanh_approx", 0x1p-20f, 0x1p-20f},
      {"leaf_tanh_approx", NAN, NAN},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    set_float(7, 2, cases[i].x);
    emulate(cases[i].symbol);
    const float got = floats(out, 7, 2);
    CHECK(got == cases[i].y || (isnan(got) && isnan(cases[i].y)), "%s(%a) is %a", cases[i].symbol,
          (double)cases[i].x, (double)got);
  }
}

static void test_minimum_maximum(void) {
  set_float(0, 2, NAN);
  set_float(0, 3, -1.0f);
  in[LANE_WORDS] = 0xfffffffb; /* -5 */
  in[LANE_WORDS + 1] = 3;
  set_float(2, 2, NAN);
  set_float(2, 3, -NAN);
  set_float(3, 2, -0.0f);
  set_float(3, 3, 0.0f);
  set_float(4, 4, -2.5f);
  set_float(5, 4, -INFINITY);
  emulate("leaf_minimum_maximum");
  CHECK(out[2 * LANE_WORDS + 1] == 0x7fffffff, "the canonical NaN of two");
  CHECK(out[3 * LANE_WORDS + 1] == 0, "+0 of both zeros");
  CHECK(floats(out, 0, 1) == -1.0f, "the number, not NaN");
  CHECK(out[LANE_WORDS + 2] == 0xfffffffb && out[LANE_WORDS + 3] == 3, "signed");
  CHECK(floats(out, 4, 4) == 2.5f && floats(out, 5, 4) == INFINITY, "without the sign");
}

/* Lane 0 has every condition, lane 1 none. */
static void test_global_if(void) {
  for (int i = 0; i < 2 * LANE_WORDS; ++i)
    in[i] = 0x10001u * (uint32_t)(i + 1);
  in[4] = 63;
  in[LANE_WORDS + 4] = 0;
  emulate("leaf_global_if");
  for (int i = 0; i < 14; ++i) {
    const uint32_t otherwise = i < 4 || i == 4 ? in[LANE_WORDS + 5] : 0;
    const uint32_t none = i == 5 ? in[LANE_WORDS + 5] & 0xffff : otherwise;
    const uint32_t all = i == 4             ? in[6]
                         : i == 5           ? in[7] & 0xffff
                         : i == 6 || i == 7 ? 0
                         : i == 13          ? in[13] & 0xffff
                                            : in[i];
    CHECK(out[i] == all, "word %d where all happens is %08x", i, out[i]);
    CHECK(out[LANE_WORDS + i] == none, "word %d where nothing does is %08x", i,
          out[LANE_WORDS + i]);
  }
}

/* Lane 0 stores, or loads, lane 1 does not. */
static void test_one_of_two(const char *name) {
  for (int i = 0; i < 2 * LANE_WORDS; ++i)
    in[i] = 0x10001u * (uint32_t)(i + 1);
  in[4] = 1;
  in[LANE_WORDS + 4] = 0;
  emulate(name);
  for (int i = 0; i < 4; ++i) {
    CHECK(out[i] == in[8 + i], "%s: word %d is %08x", name, i, out[i]);
    CHECK(out[LANE_WORDS + i] == 0, "%s: word %d where it is not to is %08x", name, i,
          out[LANE_WORDS + i]);
  }
}

/* Both halves of a word by themselves. */
static void test_pairs(void) {
  static const struct {
    uint32_t a, b;
    uint32_t fp16_max, fp16_min, bf16_max, bf16_min;
  } cases[] = {
      {0x3c004000, 0x4000bc00, 0x40004000, 0x3c00bc00, 0x40004000, 0x3c00bc00},
      {0xc0008000, 0x3c000000, 0x3c000000, 0xc0008000, 0x3c000000, 0xc0008000},
      {0xfc007c00, 0x00010001, 0x00017c00, 0xfc000001, 0x00017c00, 0xfc000001},
      {0x7c018001, 0x3c008002, 0x3c008001, 0x3c008002, 0x7c018001, 0x3c008002},
      {0xffc1ff81, 0x7fc03f80, 0x7fff3f80, 0x7fff3f80, 0x7fff3f80, 0x7fff3f80},
  };
  enum { COUNT = sizeof cases / sizeof *cases };
  static const char *const symbols[] = {"leaf_max_fp16x2", "leaf_min_fp16x2", "leaf_max_bf16x2",
                                        "leaf_min_bf16x2"};
  for (int i = 0; i < COUNT; ++i) {
    in[2 * i] = cases[i].a;
    in[2 * i + 1] = cases[i].b;
  }
  for (int s = 0; s < 4; ++s) {
    emulate(symbols[s]);
    for (int i = 0; i < COUNT; ++i) {
      const uint32_t expected[] = {cases[i].fp16_max, cases[i].fp16_min, cases[i].bf16_max,
                                   cases[i].bf16_min};
      CHECK(out[i] == expected[s], "%s(%08x, %08x) is %08x", symbols[s], cases[i].a, cases[i].b,
            out[i]);
    }
  }
}

/* A row sees an interval of keys, which may begin before, in and after a thread's keys. */
static void test_row_masks(void) {
  const leaf_function f = {"row_masks", LEAF_BITS, 8, 0, 0, 0, 0};
  enum { KEYS = 48, ROUNDS = 64 };
  for (int round = 0; round < ROUNDS; ++round) {
    for (int lane = 0; lane < 32; ++lane) {
      const int n = round * 32 + lane;
      uint32_t *words = in + lane * LANE_WORDS;
      words[4] = (uint32_t)(n % 3 * 64);
      words[0] = n % 5 == 0 ? 0 : (uint32_t)(n * 37 % 340); /* begin */
      words[1] = (uint32_t)(n * 53 % 400 - 40);             /* end, also negative */
      words[2] = words[4] + (uint32_t)(n % 11 * 17);
      words[3] = words[2] + (uint32_t)(n % 7);
    }
    const int status = leaf_emulate(module_path, &f, in, out, 1, report);
    CHECK(status == 0, "%s", report);
    for (int i = 0; i < 32 * 2 * KEYS; ++i) {
      const int lane = i / (2 * KEYS), half = i / KEYS % 2, key = i % KEYS;
      const uint32_t *words = in + lane * LANE_WORDS, *bits = out + lane * LANE_WORDS + half * 2;
      const int place = (int)words[4] + lane % 4 * 2 + key / 2 * 8 + key % 2;
      const uint32_t seen = place >= (int)words[half * 2] && place < (int)words[half * 2 + 1];
      CHECK((bits[key / 32] >> key % 32 & 1) == seen, "key %d of %d to %d, by compares", place,
            (int)words[half * 2], (int)words[half * 2 + 1]);
      CHECK((bits[4 + key / 32] >> key % 32 & 1) == seen, "key %d of %d to %d, by bits", place,
            (int)words[half * 2], (int)words[half * 2 + 1]);
    }
  }
}

/* Scores of -1 to 1, or masked, in two key blocks: the sum is right wherever the reference lies, and P
 * is nowhere beyond what floats hold many of. */
static void test_capped_rows(void) {
  const leaf_function f = {"capped_rows", LEAF_BITS, 8, 0, 0, 0, 0};
  static const float scores[] = {-1.0f, -0.7f, -0.1f, 0.0f, 0.2f, 0.95f, 1.0f, -INFINITY};
  static const float scales[] = {0.5f, 8.0f, 43.3f, 72.2f, 82.0f, 83.0f, 1500.0f};
  enum { KEYS = 48, SCORES = 8 };
  for (size_t s = 0; s < sizeof scales / sizeof *scales; ++s)
    for (int round = 0; round < 2 * SCORES; ++round) {
      float given[32][5];
      for (int lane = 0; lane < 32; ++lane) {
        const int quad = lane / 4; /* its lanes have the same rows */
        const float row[5] = {scores[round % SCORES], scores[quad], scores[quad],
                              scores[(quad + round) % SCORES], scales[s]};
        memcpy(given[lane], row, sizeof row);
        memcpy(in + lane * LANE_WORDS, row, sizeof row);
      }
      const int status = leaf_emulate(module_path, &f, in, out, 1, report);
      CHECK(status == 0, "%s", report);
      for (int i = 0; i < 64; ++i) {
        const float *of = given[i / 2] + i % 2 * 2;
        float got[4];
        memcpy(got, out + i / 2 * LANE_WORDS + i % 2 * 4, sizeof got);
        const double first = of[0], second = of[1], scale = scales[s];
        const double most = first > second ? first : second;
        const double sum = exp2((first - most) * scale) + exp2((second - most) * scale);
        const double expected = most * scale + log2(KEYS * sum);
        if (most == -INFINITY) {
          CHECK(got[0] == -INFINITY && got[2] == 0.0f && got[3] == 0.0f, "a row without keys");
          continue;
        }
        CHECK(fabs(got[1] - expected) <= 1e-3 * fmax(1.0, fabs(expected)),
              "%g, %g at %g: %g, not %g", first, second, scale, (double)got[1], expected);
        CHECK(got[2] <= 0x1p65f && got[3] <= 0x1p65f, "%g, %g at %g: P is %g, %g", first, second,
              scale, (double)got[2], (double)got[3]);
        if (first == -INFINITY && second * scale >= scale - 64.0) {
          CHECK(got[3] == 1.0f, "the first key's P is %g", (double)got[3]);
        }
      }
    }
}

/* Every function with every input runs; the tests above look at what comes out. */
static void test_random_inputs(const leaf_function *functions, int count) {
  enum { WARPS = 20 };
  static uint32_t many_in[WARPS * WARP_WORDS], many_out[WARPS * WARP_WORDS];
  static uint32_t other[4 * WARP_WORDS];
  for (int i = 0; i < count; ++i) {
    const leaf_function *f = &functions[i];
    int word = 0;
    leaf_fill(f, many_in, WARPS, (uint64_t)i);
    const int status = leaf_emulate(module_path, f, many_in, many_out, WARPS, report);
    CHECK(status == 0, "%s: %s", f->symbol, report);
    CHECK(leaf_distance(f, many_in, many_out, many_out, &word) == 0.0, "%s", f->symbol);
    many_out[WARP_WORDS - LANE_WORDS] ^= 0x00800000; /* twice as large, or half */
    memcpy(other, many_out, sizeof other);
    other[WARP_WORDS - LANE_WORDS] ^= 0x00800000;
    CHECK(leaf_distance(f, many_in, many_out, other, &word) > 1.0, "%s", f->symbol);
  }
}

/* ---- Known answers of sm90 ------------------------------------------------------------------- */

/* Factors are integers from -4 to 4, so results are exact. */
static void test_wgmma(void) {
  static uint32_t group_in[4 * WARP_WORDS], group_out[4 * WARP_WORDS];
  static const uint16_t fp16[] = {0xc400, 0xc200, 0xc000, 0xbc00, 0,
                                  0x3c00, 0x4000, 0x4200, 0x4400};
  static const uint16_t bf16[] = {0xc080, 0xc040, 0xc000, 0xbf80, 0,
                                  0x3f80, 0x4000, 0x4040, 0x4080};
  for (int i = 0; i < leaf_functions_sm90_count; ++i) {
    const leaf_function *f = &leaf_functions_sm90[i];
    if (f->n == 0)
      continue;
    const uint16_t *integers = f->kind == LEAF_WGMMA_FP16 ? fp16 : bf16;
    for (uint32_t w = 0; w < 4 * WARP_WORDS; ++w)
      group_in[w] = integers[(w * 2654435761u >> 16) % 9] |
                    (uint32_t)integers[(w * 2246822519u >> 16) % 9] << 16;
    CHECK(leaf_emulate(module_path, f, group_in, group_out, 4, report) == 0, "%s: %s", f->symbol,
          report);
    for (int lane = 0; lane < 128; ++lane)
      for (int word = 0; word < f->words; ++word) {
        double expected, size;
        leaf_wgmma_element(f, group_in, lane, word, &expected, &size);
        const double got = (double)floats(group_out, lane, word);
        CHECK(got == expected, "%s, lane %d, word %d: %g, expected %g", f->symbol, lane, word, got,
              expected);
      }
  }
}

/* Element (i, c) of a box's row i has the number of its element in the input, or 0 outside the
 * tensor. Chunk c of row i lies at c ^ (i % 8) of it. */
static uint16_t box_element(const uint32_t *words, int row, int column) {
  const int chunk = column / 8 ^ row % 8, half = row * 64 + chunk * 8 + column % 8;
  return (uint16_t)(words[half / 2] >> 16 * (half % 2));
}

static int is_inside(const int *at, const int *dims, int rank) {
  for (int i = 0; i < rank; ++i)
    if (at[i] < 0 || at[i] >= dims[i])
      return 0;
  return 1;
}

static void test_tma(void) {
  enum { BLOCKS = 2000 };
  static uint32_t many_in[BLOCKS * WARP_WORDS], many_out[BLOCKS * WARP_WORDS];
  for (uint32_t i = 0; i < BLOCKS * WARP_WORDS; ++i)
    many_in[i] = ((2 * i + 1) & 0xffff) << 16 | (2 * i & 0xffff);
  for (int five = 0; five < 2; ++five) {
    static const int dims[2][5] = {{56, 10, 4, 2, 1}, {40, 3, 10, 4, 2}};
    static const int strides[2][5] = {{1, 64, 640, 2560, 0}, {1, 48, 144, 1440, 5760}};
    const leaf_function *f = &leaf_functions_sm90[five];
    CHECK(leaf_emulate(module_path, f, many_in, many_out, BLOCKS, report) == 0, "%s", report);
    for (int b = 0; b < BLOCKS; ++b)
      for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 64; ++column) {
          /* Rows of the box, the fastest dimension first: 8, 1, 2 of four, 2, every second of 8, 1, 2 of five. */
          const int at[2][5] = {{b % 5 * 16 - 16 + column, b / 5 % 14 - 3 + row % 8, b / 70 % 6 - 1,
                                 b / 420 % 4 - 1 + row / 8, 0},
                                {b % 5 * 16 - 16 + column, b / 5 % 4 - 1 + row % 2,
                                 b / 20 % 13 - 3 + row / 2 % 4 * 2, b / 260 % 6 - 1,
                                 b / 1560 % 4 - 1 + row / 8}};
          int element = 0;
          for (int i = 0; i < 5; ++i)
            element += at[five][i] * strides[five][i];
          const int expected = is_inside(at[five], dims[five], 5) ? element & 0xffff : 0;
          const uint16_t got = box_element(many_out + b * WARP_WORDS, row, column);
          CHECK(got == expected, "%s, block %d, row %d, column %d: %d, expected %d", f->symbol, b,
                row, column, got, expected);
        }
  }
}

/* ---- Faults ---------------------------------------------------------------------------------- */

typedef struct fault_args {
  const uint32_t *in;
  uint32_t *out;
} fault_args;

static void call_faulty(void (*function)(void), const void *args) {
  ((void (*)(fault_args))function)(*(const fault_args *)args);
}

/* The words that a report has to have; none where the kernel is right. */
static const struct {
  const char *symbol, *words[4];
} faults[] = {
    {"right_exchange", {NULL}},
    {"right_neighbours", {NULL}},
    {"right_exchange_in_a_warp", {NULL}},
    {"right_copy", {NULL}},
    {"right_copy_of_nothing", {NULL}},
    {"read_after_write", {"race: reads", "wrote it", "no barrier", "faulty_kernels.cu"}},
    {"write_after_read", {"race: ", "write_after_read (faulty_kernels.cu", "no barrier", NULL}},
    {"write_after_write", {"race: writes", "thread 0 wrote it", "block 0, thread 1", NULL}},
    {"read_after_write_of_another_warp", {"race: reads", "wrote it", "no barrier", NULL}},
    {"write_after_read_of_a_warp", {"race: ", "thread 31", "no barrier", NULL}},
    {"never_written", {"thread 4: reads", "which nothing has written", NULL}},
    {"writes_the_same_element", {"race: writes", "element of out", "thread 0 of block 0", NULL}},
    {"right_reads_behind_a_barrier", {NULL}},
    {"reads_what_another_wrote", {"race: reads", "element of out", "has written it", NULL}},
    {"copy_without_wait", {"reads", "in flight", "copy by thread", NULL}},
    {"copy_without_commit", {"reads", "in flight", NULL}},
    {"copy_waits_for_too_few", {"reads", "in flight", NULL}},
    {"copy_without_barrier", {"shared address", "at copy_without_barrier", NULL}},
    {"copy_overwritten", {"writes", "in flight", NULL}},
    {"copy_over_copy", {"begins a copy to", "in flight", NULL}},
    {"copy_over_what_is_read", {"race: ", "cp_async_16", "no barrier", NULL}},
    {"reads_behind_the_input", {"thread 63", "reads 4 bytes", "nearest is in", "byte 1024"}},
    {"reads_before_the_input", {"thread 0", "reads 4 bytes", "nearest is in", "byte -4"}},
    {"copies_behind_the_input", {"thread 63", "reads 16 bytes", "nearest is in", "byte 1024"}},
    {"writes_behind_the_output", {"thread 63", "writes 4 bytes", "nearest is out", "byte 1024"}},
    {"writes_the_input", {"writes 4 bytes", "in, whose byte 0", "read only", NULL}},
    {"behind_the_shared_memory", {"thread 63", "outside the 1024 bytes", NULL}},
    {"misaligned_vector", {"reads 16 bytes", "not a multiple of 16", NULL}},
    {"misaligned_shared_vector", {"writes 8 bytes", "not a multiple of 8", NULL}},
    {"misaligned_copy", {"cp.async writes", "not a multiple of 16", NULL}},
    {"misaligned_matrix", {"ldmatrix reads", "not a multiple of 16", NULL}},
    {"overlap_right_wait", {NULL}},
    {"overlap_right_wait_of_another", {NULL}},
    {"overlap_reads_early", {"reads an element of in before", "griddepcontrol.wait", NULL}},
    {"overlap_writes_early", {"writes an element of out before", NULL}},
    {"overlap_adds_early", {"adds to an element of out before", NULL}},
    {"overlap_copies_early", {"reads an element of in before", "cp_async_16", NULL}},
    {"overlap_waits_behind_the_barrier", {"writes an element of out before", NULL}},
    {"overlap_waits_in_another_warp", {"thread 63: writes an element of out before", NULL}},
    {"overlap_never_waits", {"no thread has waited for the end of earlier kernels", NULL}},
    {"barrier_in_one_warp",
     {"deadlock", "threads 0-31: in the barrier", "threads 32-63: exited", NULL}},
    {"barrier_after_return",
     {"deadlock", "thread 40: exited", "threads 41-63: in the barrier", NULL}},
    {"half_a_shuffle", {"deadlock", "threads 0-15: in shfl.sync", "threads 16-31: exited", NULL}},
    {"diverged_warp", {"executes ldmatrix", "waits in shfl.sync", NULL}},
};

/* The same of faulty_kernels_sm90.cu. */
static const struct {
  const char *symbol, *words[4];
} sm90_faults[] = {
    {"right_product", {NULL}},
    {"right_second_load", {NULL}},
    {"right_plain_operands", {NULL}},
    {"right_fence_by_another", {NULL}},
    {"right_plain_read", {NULL}},
    {"right_out_of_bounds", {NULL}},
    {"right_named_barriers", {NULL}},
    {"right_barrier_of_all", {NULL}},
    {"right_readers", {NULL}},
    {"right_registers", {NULL}},
    {"right_two_groups", {NULL}},
    {"right_product_of_registers", {NULL}},
    {"right_products_of_the_same_registers", {NULL}},
    {"right_step", {NULL}},
    {"right_bulk_copy", {NULL}},
    {"right_handover", {NULL}},
    {"right_arrival_behind_the_product", {NULL}},
    {"right_bulk_add", {NULL}},   /* adds 3 i to word i */
    {"accumulator_read", {NULL}}, /* gets NaN */
    {"product_without_wait", {"reads by wgmma", "copy engine is in flight", "load", NULL}},
    {"product_of_three_warps_that_did_not_wait",
     {"reads by wgmma", "its end was not waited for", NULL}},
    {"product_of_nothing", {"reads by wgmma", "which nothing has written", NULL}},
    {"load_over_operands", {"reads by wgmma", "copy engine is in flight", "start_product", NULL}},
    {"load_after_one_warps_release", {"begins a copy to", "while warp 1 reads it", NULL}},
    {"release_before_the_wait", {"begins a copy to", "while warp 0 reads it", NULL}},
    {"store_under_product", {"writes", "reads it by wgmma", "store_under_product", NULL}},
    {"store_without_proxy_fence", {"reads by wgmma", "no fence.proxy.async lies between", NULL}},
    {"store_after_proxy_fence", {"thread 77 wrote it", "no fence.proxy.async", NULL}},
    {"accumulator_written", {"an accumulator was changed while a product used it", NULL}},
    {"factor_written", {"registers of A were changed while a product used them", NULL}},
    {"factor_written_for_another_product",
     {"registers of A were changed while a product used them", "another starts", NULL}},
    {"product_without_fence", {"before the first wgmma.fence", NULL}},
    {"accumulator_written_after_fence", {"wrote after its last wgmma.fence", NULL}},
    {"product_without_commit", {"ends while a product uses its registers", NULL}},
    {"product_waits_for_too_few", {"ends while a product uses its registers", NULL}},
    {"product_without_end", {"ends while a product uses its registers", NULL}},
    {"descriptors_differ", {"different descriptors", NULL}},
    {"descriptor_between_atoms", {"A begins at shared address", "multiples of 1024", NULL}},
    {"descriptor_without_swizzle", {"is not one of a matrix with a swizzle", NULL}},
    {"descriptor_with_a_carry", {"is not one of a matrix", NULL}},
    {"descriptor_of_half_atoms", {"atoms that are 512 bytes apart", NULL}},
    {"descriptor_behind_the_memory", {"reads by wgmma", "outside the 32768 bytes", NULL}},
    {"descriptor_over_a_barrier", {"reads by wgmma", "where a barrier is", NULL}},
    {"product_of_three_warps", {"deadlock", "threads 0-95: in wgmma", NULL}},
    {"bulk_copy_awaits_too_much",
     {"deadlock", "threads 0-255: in a wait for parity 0", "16384 bytes awaited, 8192 in flight"}},
    {"bulk_copy_awaits_too_little", {"copies bring more bytes", "4096 bytes awaited", NULL}},
    {"bulk_copy_between_atoms", {"the copy engine writes", "not a multiple of 1024", NULL}},
    {"bulk_copy_behind_the_memory", {"the copy engine writes", "outside the 32768 bytes", NULL}},
    {"bulk_copy_over_barriers", {"begins a copy to", "where a barrier is", NULL}},
    {"bulk_copy_outside_the_tensor", {"thread 255: reads 128 bytes", "nearest is tile", NULL}},
    {"bulk_copy_without_a_map", {"a tensor map that was not encoded", NULL}},
    {"bulk_copy_in_five_dimensions", {"a copy in 5 dimensions by a tensor map of 4", NULL}},
    {"bulk_copy_read_early", {"reads shared address", "copy engine is in flight", NULL}},
    {"bulk_copy_written_early", {"writes shared address", "copy engine is in flight", NULL}},
    {"bulk_copy_twice", {"begins a copy to", "copy engine is in flight", NULL}},
    {"bulk_copy_over_stores", {"begins a copy to", "no fence.proxy.async", NULL}},
    {"bulk_copy_over_what_is_read", {"race: begins a copy to", "read it", NULL}},
    {"bulk_copy_without_end", {"the block ends while a copy by thread 255", NULL}},
    {"bulk_add_without_proxy_fence",
     {"lets the copy engine read", "no fence.proxy.async lies between", NULL}},
    {"bulk_add_of_nothing", {"lets the copy engine read", "which nothing has written", NULL}},
    {"bulk_add_between_chunks", {"the copy engine reads 64 bytes", "not a multiple of 16", NULL}},
    {"bulk_add_of_half_a_chunk", {"cp.reduce.async.bulk of 24 bytes", NULL}},
    {"bulk_add_to_half_a_chunk", {"cp.reduce.async.bulk to address", NULL}},
    {"bulk_add_outside", {"outside the tensors", "nearest is out", NULL}},
    {"bulk_add_of_a_barrier", {"lets the copy engine read", "where a barrier is", NULL}},
    {"bulk_add_without_commit", {"ends while the copy engine reads smem + 0 for it", NULL}},
    {"bulk_add_without_end", {"ends while the copy engine reads smem + 0 for it", NULL}},
    {"bulk_add_read_back", {"race: reads an element of out", "the copy engine of block 0", NULL}},
    {"bulk_add_waits_for_too_few", {"writes", "while the copy engine reads it", NULL}},
    {"bulk_add_under_a_copy", {"begins a copy to", "while the copy engine reads it", NULL}},
    {"bulk_add_written_early", {"writes", "while the copy engine reads it", NULL}},
    {"bulk_add_written_without_a_barrier", {"race: writes", "read it", "no barrier", NULL}},
    {"right_plain_copies", {NULL}}, /* adds i to word i */
    {"plain_copy_of_half_a_chunk", {"cp.async.bulk of 24 bytes", "no multiples of 16", NULL}},
    {"plain_copy_of_nothing", {"cp.async.bulk of 0 bytes", "no multiples of 16", NULL}},
    {"plain_copy_from_half_a_chunk", {"cp.async.bulk of 32 bytes", "no multiples of 16", NULL}},
    {"plain_copy_to_half_a_chunk", {"the copy engine writes", "not a multiple of 16", NULL}},
    {"plain_copy_outside", {"thread 255: reads 32 bytes", "nearest is out", NULL}},
    {"plain_copy_read_early", {"reads shared address", "copy engine is in flight", NULL}},
    {"plain_copy_twice", {"begins a copy to", "copy engine is in flight", NULL}},
    {"bulk_store_without_proxy_fence",
     {"lets the copy engine read", "no fence.proxy.async lies between", NULL}},
    {"bulk_store_of_nothing", {"lets the copy engine read", "which nothing has written", NULL}},
    {"bulk_store_of_half_a_chunk", {"cp.async.bulk of 24 bytes", NULL}},
    {"bulk_store_to_half_a_chunk", {"cp.async.bulk to address", NULL}},
    {"bulk_store_outside", {"outside the tensors", "nearest is out", NULL}},
    {"bulk_store_without_end", {"ends while the copy engine reads smem + 0 for it", NULL}},
    {"bulk_store_read_back", {"race: reads an element of out", "the copy engine of block 0", NULL}},
    {"bulk_store_written_early", {"writes", "while the copy engine reads it", NULL}},
    {"right_zeros", {NULL}},
    {"right_zeros_of_threads", {NULL}},
    {"zeros_without_a_wait", {"race: adds to an element of out", NULL}},
    {"zeros_without_proxy_fence", {"race: adds to an element of out", NULL}},
    {"zeros_behind_the_proxy_fence", {"race: adds to an element of out", NULL}},
    {"zeros_that_the_lane_does_not_know", {"race: adds to an element of out", NULL}},
    {"zeros_behind_the_release", {"race: adds to an element of out", NULL}},
    {"zeros_that_other_threads_do_not_know", {"race: adds to an element of out", NULL}},
    {"zeros_that_never_come", {"waits for ever for a counter that is 1", NULL}},
    {"bulk_add_before_the_barrier", {"race: lets the copy engine read", "wrote it", NULL}},
    {"asks_once", {"reads shared address", "its end was not waited for", NULL}},
    {"barrier_not_initialised", {"arrives at smem + 16400", "no barrier was initialised", NULL}},
    {"barrier_initialised_twice", {"thread 3", "a barrier already", NULL}},
    {"barrier_not_handed_over", {"race: arrives at", "thread 0 initialised it", NULL}},
    {"barrier_without_fence", {"does not see the barrier", "fence.mbarrier_init", NULL}},
    {"barrier_overwritten", {"thread 9: writes", "where a barrier is", NULL}},
    {"barrier_misaligned", {"mbarrier.init writes", "not a multiple of 8", NULL}},
    {"barrier_arrivals_too_many", {"arrives once too often", "16 bytes awaited", NULL}},
    {"barrier_arrivals_too_few", {"deadlock", "in a wait for parity 0", "3 of 4 arrivals", NULL}},
    {"barrier_of_the_next_phase", {"deadlock", "in a wait for parity 1", "phase 1", NULL}},
    {"barrier_of_the_phase_before", {"race: reads", "wrote it", NULL}},
    {"barrier_of_one_phase_in_two",
     {"a wait that could have ended two phases ago", "phase 2 of parity 0", NULL}},
    {"arrival_before_the_store", {"race: reads", "wrote it", NULL}},
    {"arrival_before_the_fragments", {"arrives at", "while a fragment is under way", NULL}},
    {"named_barrier_counts_differ", {"for 128 threads, where others arrived for 256", NULL}},
    {"named_barrier_too_few", {"deadlock", "threads 0-95: in bar.sync", "96 of 128 threads", NULL}},
    {"named_barrier_in_half_a_warp", {"deadlock", "threads 0-15: in bar.sync", NULL}},
    {"barrier_of_all_too_few", {"deadlock", "threads 0-95: in bar.red", "96 of 128 threads", NULL}},
    {"barrier_of_all_and_another", {"bar.red and another arrival in one round", NULL}},
    {"named_barrier_before_the_store", {"race: reads", "wrote it", NULL}},
    {"written_before_a_reader_is_done", {"race: writes", "read it", NULL}},
    {"more_registers_than_there_are", {"deadlock", "threads 128-383: in setmaxnreg.inc", NULL}},
    {"fewer_registers_than_that", {"setmaxnreg.dec to 32", "the warp has 24", NULL}},
    {"registers_of_one_warp", {"a part of a warpgroup", NULL}},
    {"registers_no_multiple_of_8", {"setmaxnreg to 100 registers", NULL}},
    {"cluster_right", {NULL}},
    {"cluster_written_too_early", {"block 1, thread 0", "race: reads", "of block 0", NULL}},
    {"cluster_arrives_twice", {"arrives at the cluster's barrier twice", NULL}},
    {"cluster_waits_only", {"without having arrived", NULL}},
    {"cluster_does_not_wait", {"ends after barrier.cluster.arrive", NULL}},
    {"cluster_without_a_thread", {"deadlock", "in barrier.cluster.wait", NULL}},
    {"cluster_with_exited_threads", {NULL}},
    {"cluster_store_right", {NULL}},
    {"cluster_store_before_it_begins", {"which is not known to have begun", NULL}},
    {"cluster_store_read_too_early", {"which nothing has written", NULL}},
    {"cluster_store_to_one_that_ended", {"which has ended", NULL}},
    {"cluster_store_that_is_not_awaited", {"the block ends before a store into its", NULL}},
    {"cluster_store_outside", {"takes an address of block 2 of a cluster of 2", NULL}},
    {"cluster_store_plain_address", {"that is not of a cluster's shared memory", NULL}},
    {"cluster_store_over_a_read", {"race: writes", "read it at", NULL}},
    {"cluster_send_right", {NULL}},
    {"cluster_send_before_it_is_read", {"race: writes", "read it at", NULL}},
    {"cluster_send_is_not_waited_for", {"which nothing has written", NULL}},
    {"cluster_send_to_one_that_ends", {"the block ends before a store into its", NULL}},
    {"cluster_send_of_more_than_expected", {"stores bring more bytes than", NULL}},
    {"cluster_send_without_a_fence", {"do not see the barrier", NULL}},
    {"cluster_send_that_counts_elsewhere", {"counts at another's barrier", NULL}},
    {"overlap_right_hand_over", {NULL}},
    {"overlap_hands_over_early", {"writes an element of out before", "give", NULL}},
    {"overlap_loads_early", {"has the copy engine read an element of tile before", NULL}},
};

static void check_report(const char *symbol, const char *const *words, int status) {
  CHECK((status != 0) == (words[0] != NULL), "%s: %s", symbol, report);
  for (int w = 0; w < 4 && words[w] != NULL; ++w)
    CHECK(strstr(report, words[w]) != NULL, "%s: \"%s\" is missing in\n%s", symbol, words[w],
          report);
}

static void run_fault(const char *symbol, const char *const *words, emulated_launch *launch) {
  launch->module = emulated_load(module_path, symbol, report);
  if (launch->module == NULL) {
    CHECK(0, "%s", report);
    return;
  }
  report[0] = '\0';
  check_report(symbol, words, emulated_run(launch, report));
  emulated_unload(launch->module);
}

/* Whether a kernel's name begins so. */
static int is_of(const char *symbol, const char *prefix) {
  return strncmp(symbol, prefix, strlen(prefix)) == 0;
}

static void test_faults(void) {
  /* The tensors lie in larger arrays, so that even a fault that is overlooked does no harm. */
  static uint32_t fault_in[3][1024], fault_out[3][1024];
  const emulated_tensor tensors[] = {{.name = "in",
                                      .data = fault_in[1],
                                      .element_bytes = 4,
                                      .shape = {1, 1, 1, 256},
                                      .stride = {0, 0, 0, 1}},
                                     {.name = "out",
                                      .data = fault_out[1],
                                      .element_bytes = 4,
                                      .writable = 1,
                                      .shape = {1, 1, 1, 256},
                                      .stride = {0, 0, 0, 1}}};
  const fault_args args = {fault_in[1], fault_out[1]};
  emulated_launch launch = {.blocks = 1,
                            .threads = 64,
                            .shared_bytes = 1024,
                            .args = &args,
                            .call = call_faulty,
                            .tensors = tensors,
                            .tensor_count = 2};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) {
    launch.overlaps = is_of(faults[i].symbol, "overlap_");
    run_fault(faults[i].symbol, faults[i].words, &launch);
  }
}

typedef struct sm90_fault_args {
  attnpress_tensor_map map, long_map, no_map;
  uint32_t *out;
} sm90_fault_args;

static void call_sm90_faulty(void (*function)(void), const void *args) {
  ((void (*)(sm90_fault_args))function)(*(const sm90_fault_args *)args);
}

enum { TILE_ROWS = 128, TILE_COLUMNS = 64 };

static void encode_rows(attnpress_tensor_map *map, void *data, uint64_t rows) {
  const uint64_t dims[] = {TILE_COLUMNS, rows, 1, 1}, strides[] = {2 * TILE_COLUMNS, 16, 16};
  const int status =
      emulated_encode_tiled(map, 9, 4, data, dims, strides, (uint32_t[]){TILE_COLUMNS, 64, 1, 1},
                            (uint32_t[]){1, 1, 1, 1}, 0, 3, 0, 0);
  CHECK(status == 0, "a tensor map");
}

static void test_sm90_faults(void) {
  static _Alignas(16) uint16_t tile[3 * TILE_ROWS][TILE_COLUMNS];
  static uint32_t fault_out[3][1024];
  const emulated_tensor tensors[] = {{.name = "tile",
                                      .data = tile,
                                      .element_bytes = 2,
                                      .shape = {1, 1, TILE_ROWS, TILE_COLUMNS},
                                      .stride = {0, 0, TILE_COLUMNS, 1}},
                                     {.name = "out",
                                      .data = fault_out[1],
                                      .element_bytes = 4,
                                      .writable = 1,
                                      .shape = {1, 1, 1, 256},
                                      .stride = {0, 0, 0, 1}}};
  static sm90_fault_args args;
  args = (sm90_fault_args){.out = fault_out[1]};
  encode_rows(&args.map, tile, TILE_ROWS);
  encode_rows(&args.long_map, tile, 2 * TILE_ROWS);
  emulated_launch launch = {.blocks = 1,
                            .threads = 256,
                            .shared_bytes = 32768,
                            .args = &args,
                            .call = call_sm90_faulty,
                            .tensors = tensors,
                            .tensor_count = 2};
  for (size_t i = 0; i < sizeof sm90_faults / sizeof *sm90_faults; ++i) {
    const char *symbol = sm90_faults[i].symbol;
    const int cluster = is_of(symbol, "cluster_");
    launch.overlaps = is_of(symbol, "overlap_");
    launch.blocks = cluster || strstr(symbol, "zeros") != NULL ? 2 : 1;
    launch.cluster = cluster ? 2 : 1;
    launch.threads = strcmp(symbol, "more_registers_than_there_are") == 0 ? 384 : 256;
    memset(fault_out, 0, sizeof fault_out);
    run_fault(symbol, sm90_faults[i].words, &launch);
    if (strcmp(symbol, "right_plain_copies") == 0)
      for (uint32_t word = 0; word < 256; ++word)
        CHECK(fault_out[1][word] == word, "word %d is %u", (int)word, fault_out[1][word]);
    if (strcmp(symbol, "right_bulk_add") == 0)
      for (int word = 0; word < 256; ++word) {
        const float sum = floats(fault_out[1], 0, word);
        CHECK(sum == (float)(3 * word), "word %d of a sum is %g", word, (double)sum);
      }
    if (strcmp(symbol, "accumulator_read") == 0)
      CHECK(fault_out[1][128] == 0x7fa0dead, "an accumulator in flight is %08x", fault_out[1][128]);
  }
}

/* Conditions of the driver's cuTensorMapEncodeTiled. */
static void test_encoding(void) {
  static _Alignas(16) uint16_t data[64];
  static const struct {
    int offset;
    uint64_t dim, stride;
    uint32_t box, rows;
    int swizzle, status;
  } cases[] = {
      {0, 64, 128, 64, 8, 3, 0},
      {0, 64, 128, 64, 256, 3, 0},
      {0, 64, 128, 64, 257, 3, 1},
      {1, 64, 128, 64, 8, 3, 1},
      {0, 0, 128, 64, 8, 3, 1},
      {0, 64, 120, 64, 8, 3, 1},
      {0, 64, 128, 65, 8, 3, 1},
      {0, 64, 128, 72, 8, 3, 1},
      {0, 64, 128, 72, 8, 0, 0},
      {0, 64, 128, 4, 8, 0, 1},
      {0, 64, (uint64_t)1 << 40, 64, 8, 3, 1},
      {0, 64, ((uint64_t)1 << 40) - 16, 64, 8, 3, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    attnpress_tensor_map map;
    const int status = emulated_encode_tiled(&map, 6, 2, (char *)data + 2 * cases[i].offset,
                                             (uint64_t[]){cases[i].dim, 8}, &cases[i].stride,
                                             (uint32_t[]){cases[i].box, cases[i].rows},
                                             (uint32_t[]){1, 1}, 0, cases[i].swizzle, 0, 0);
    CHECK(status == cases[i].status, "case %d of encoding", (int)i);
  }
}

/* Conditions of the driver's cuTensorMapEncodeIm2col. */
static void test_encoding_im2col(void) {
  static _Alignas(16) uint16_t data[64];
  static const struct {
    int lower, upper;
    uint32_t channels, pixels, step;
    int status;
  } cases[] = {
      {-1, -1, 64, 128, 1, 0}, {-128, 127, 64, 1024, 8, 0}, {-129, 0, 64, 128, 1, 1},
      {0, 128, 64, 128, 1, 1}, {0, -129, 64, 128, 1, 1},    {0, 0, 72, 128, 1, 1},
      {0, 0, 4, 128, 1, 1},    {0, 0, 64, 1025, 1, 1},      {0, 0, 64, 0, 1, 1},
      {0, 0, 64, 128, 9, 1},   {0, 0, 64, 128, 0, 1},       {0, -6, 64, 128, 1, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    attnpress_tensor_map map;
    const int lower[2] = {0, cases[i].lower}, upper[2] = {0, cases[i].upper};
    const int status = emulated_encode_im2col(
        &map, 6, 4, data, (uint64_t[]){64, 5, 6, 2}, (uint64_t[]){128, 640, 3840}, lower, upper,
        cases[i].channels, cases[i].pixels, (uint32_t[]){1, 1, cases[i].step, 1}, 0, 3, 0, 0);
    CHECK(status == cases[i].status, "case %d of encoding im2col", (int)i);
  }
}

int main(void) {
  const int file = mkstemp(module_path);
  if (file < 0)
    return 1;
  close(file);
  if (compile("leaf_functions.cu") == 0) {
    test_ldmatrix();
    test_mmas();
    test_copies();
    test_shuffle();
    test_conversions();
    test_functions();
    test_minimum_maximum();
    test_global_if();
    test_one_of_two("leaf_stream_if");
    test_one_of_two("leaf_shared_if");
    test_pairs();
    test_random_inputs(leaf_functions, leaf_functions_count);
  }
  if (compile("row_functions.cu") == 0) {
    test_row_masks();
    test_capped_rows();
  }
  if (compile("leaf_functions_sm90.cu") == 0) {
    test_wgmma();
    test_tma();
    test_random_inputs(leaf_functions_sm90, leaf_functions_sm90_count);
  }
  if (compile("faulty_kernels.cu") == 0)
    test_faults();
  if (compile("faulty_kernels_sm90.cu") == 0)
    test_sm90_faults();
  test_encoding();
  test_encoding_im2col();
  unlink(module_path);
  printf("%d failures\n", failures);
  return failures != 0;
}
