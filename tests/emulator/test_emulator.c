#define _POSIX_C_SOURCE 200809L /* mkstemp */
/* The emulator itself: known answers of each instruction, and a report for each kind of fault. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
  memset(out, 0xff, sizeof out);
  const int status = leaf_emulate(module_path, symbol, in, out, 1, report);
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
  emulate("leaf_minimum_maximum");
  CHECK(out[2 * LANE_WORDS + 1] == 0x7fffffff, "the canonical NaN of two");
  CHECK(out[3 * LANE_WORDS + 1] == 0, "+0 of both zeros");
  CHECK(floats(out, 0, 1) == -1.0f, "the number, not NaN");
  CHECK(out[LANE_WORDS + 2] == 0xfffffffb && out[LANE_WORDS + 3] == 3, "signed");
}

/* Every function with every input runs; the tests above look at what comes out. */
static void test_random_inputs(void) {
  enum { WARPS = 20 };
  static uint32_t many_in[WARPS * WARP_WORDS], many_out[WARPS * WARP_WORDS];
  for (int i = 0; i < leaf_functions_count; ++i) {
    const leaf_function *f = &leaf_functions[i];
    int word = 0;
    leaf_fill(f, many_in, WARPS, (uint64_t)i);
    const int status = leaf_emulate(module_path, f->symbol, many_in, many_out, WARPS, report);
    CHECK(status == 0, "%s: %s", f->symbol, report);
    CHECK(leaf_distance(f, many_in, many_out, many_out, &word) == 0.0, "%s", f->symbol);
    many_out[WARP_WORDS - LANE_WORDS] ^= 0x00800000; /* twice as large, or half */
    memcpy(out, many_out, sizeof out);
    out[WARP_WORDS - LANE_WORDS] ^= 0x00800000;
    CHECK(leaf_distance(f, many_in, many_out, out, &word) > 1.0, "%s", f->symbol);
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
    {"right_copy", {NULL}},
    {"right_copy_of_nothing", {NULL}},
    {"read_after_write", {"race: reads", "wrote it", "no barrier", "faulty_kernels.cu"}},
    {"write_after_read", {"race: ", "write_after_read (faulty_kernels.cu", "no barrier", NULL}},
    {"write_after_write", {"race: writes", "thread 0 wrote it", "block 0, thread 1", NULL}},
    {"never_written", {"thread 4: reads", "which nothing has written", NULL}},
    {"writes_the_same_element", {"race: writes", "element of out", "thread 0 of block 0", NULL}},
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
    {"barrier_in_one_warp",
     {"deadlock", "threads 0-31: in the barrier", "threads 32-63: exited", NULL}},
    {"barrier_after_return",
     {"deadlock", "thread 40: exited", "threads 41-63: in the barrier", NULL}},
    {"half_a_shuffle", {"deadlock", "threads 0-15: in shfl.sync", "threads 16-31: exited", NULL}},
    {"diverged_warp", {"executes ldmatrix", "waits in shfl.sync", NULL}},
};

static void test_faults(void) {
  /* The tensors lie in larger arrays, so that even a fault that is overlooked does no harm. */
  static uint32_t fault_in[3][1024], fault_out[3][1024];
  const emulated_tensor tensors[] = {
      {"in", fault_in[1], 4, 0, {1, 1, 1, 256}, {0, 0, 0, 1}},
      {"out", fault_out[1], 4, 1, {1, 1, 1, 256}, {0, 0, 0, 1}},
  };
  const fault_args args = {fault_in[1], fault_out[1]};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) {
    emulated_launch launch = {.module = emulated_load(module_path, faults[i].symbol, report),
                              .blocks = 1,
                              .threads = 64,
                              .shared_bytes = 1024,
                              .args = &args,
                              .call = call_faulty,
                              .tensors = tensors,
                              .tensor_count = 2};
    if (launch.module == NULL) {
      CHECK(0, "%s", report);
      continue;
    }
    report[0] = '\0';
    const int status = emulated_run(&launch, report);
    CHECK((status != 0) == (faults[i].words[0] != NULL), "%s: %s", faults[i].symbol, report);
    for (int w = 0; w < 4 && faults[i].words[w] != NULL; ++w)
      CHECK(strstr(report, faults[i].words[w]) != NULL, "%s: \"%s\" is missing in\n%s",
            faults[i].symbol, faults[i].words[w], report);
    emulated_unload(launch.module);
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
    test_random_inputs();
  }
  if (compile("faulty_kernels.cu") == 0)
    test_faults();
  unlink(module_path);
  printf("%d failures\n", failures);
  return failures != 0;
}
