/* How a call is run: architecture, mask, packing of heads, row block, splits, grid, workspace. All
 * of it is arithmetic on shapes and on a device's numbers, so tables say what is right. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "support.h"

static const ap_device h200 = {0, 90, 132, 2048, 228 * 1024, 227 * 1024, 1, 0, NULL};
static const ap_device a100 = {0, 80, 108, 2048, 164 * 1024, 163 * 1024, 1, 0, NULL};
static const ap_device a10 = {0, 86, 72, 1536, 100 * 1024, 99 * 1024, 1, 0, NULL};
/* With a driver that makes no tensor maps. */
static const ap_device old_h200 = {0, 90, 132, 2048, 228 * 1024, 227 * 1024, 0, 0, NULL};

static ap_problem make_problem(int batch, int heads_q, int heads_kv, int seqlen_q, int seqlen_k,
                               int hdim) {
  return (ap_problem){.batch = batch,
                      .heads_q = heads_q,
                      .heads_kv = heads_kv,
                      .seqlen_q = seqlen_q,
                      .seqlen_k = seqlen_k,
                      .hdim = hdim,
                      .hdim_v = hdim,
                      .dtype = ATTNPRESS_BF16,
                      .mask = ATTNPRESS_FULL,
                      .tma = 1,
                      .tma_min = 1,
                      .tma_max = 1};
}

static void test_devices(void **state) {
  (void)state;
  static const struct {
    int capability, arch;
    const char *target;
  } rows[] = {{80, 80, "sm_80"},   {86, 86, "sm_86"},   {87, 80, "sm_80"},   {89, 86, "sm_86"},
              {90, 90, "sm_90a"},  {100, 80, "sm_100"}, {103, 80, "sm_100"}, {110, 80, "sm_110"},
              {120, 86, "sm_120"}, {121, 86, "sm_120"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_device device = h200;
    ap_plan plan;
    const ap_problem problem = make_problem(2, 8, 8, 1024, 1024, 128);
    device.capability = rows[i].capability;
    assert_ok(ap_choose(&problem, &device, &plan));
    assert_int_equal(plan.variant.axis[AP_ATTENTION_ARCH], rows[i].arch);
    assert_string_equal(plan.target, rows[i].target);
    /* A cubin runs on devices of its own major version and of its minor version or a newer one. */
    const ap_target *target = ap_find_target(plan.target);
    assert_non_null(target);
    assert_true(target->capability <= rows[i].capability);
    assert_int_equal(target->capability / 10, rows[i].capability / 10);
    assert_true(plan.tile.smem_bytes <= target->smem_per_block_bytes);
  }
  static const int refused[] = {30, 70, 75, 91, 130, 200};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
    ap_device device = h200;
    ap_plan plan;
    char text[16];
    const ap_problem problem = make_problem(2, 8, 8, 1024, 1024, 128);
    device.capability = refused[i];
    assert_int_equal(ap_choose(&problem, &device, &plan), ATTNPRESS_NOT_SUPPORTED);
    snprintf(text, sizeof text, "%d.%d", refused[i] / 10, refused[i] % 10);
    assert_error_says(text);
  }
}

/** What a 9.0 device runs: its own kernels, and the others where those do not serve. */
static void test_hopper(void **state) {
  (void)state;
  static const struct {
    int hdim, hdim_v, seqlen_q, group, tma;
    const ap_device *device;
    int arch, decode;
    const char *target;
  } rows[] = {
      {128, 128, 1024, 1, 1, &h200, 90, 0, "sm_90a"},
      {8, 8, 1024, 1, 1, &h200, 90, 0, "sm_90a"},
      {256, 256, 1024, 1, 1, &h200, 90, 0, "sm_90a"},
      {192, 128, 1024, 1, 1, &h200, 90, 0, "sm_90a"},
      {256, 128, 1024, 1, 1, &h200, 90, 0, "sm_90a"},
      {264, 264, 1024, 1, 1, &h200, 90, 0, "sm_90a"},
      {64, 512, 1024, 1, 1, &h200, 90, 0, "sm_90a"},
      {512, 512, 16, 1, 1, &h200, 80, 1, "sm_90"},
      {512, 512, 1024, 1, 0, &h200, 80, 0, "sm_90"},
      {128, 128, 1024, 1, 0, &h200, 80, 0, "sm_90"},     /* strides */
      {128, 128, 1024, 1, 1, &old_h200, 80, 0, "sm_90"}, /* driver */
      {128, 128, 16, 1, 1, &h200, 80, 1, "sm_90"},       /* at most 16 packed rows */
      {128, 128, 2, 8, 1, &h200, 80, 1, "sm_90"},
      {128, 128, 17, 1, 1, &h200, 90, 0, "sm_90a"},
      {128, 128, 1, 17, 1, &h200, 80, 1, "sm_90"}, /* few bytes: in blocks of 16 rows */
      {320, 320, 1, 17, 1, &h200, 90, 0, "sm_90a"},
      {128, 128, 1024, 1, 1, &a100, 80, 0, "sm_80"},
      {128, 128, 1024, 1, 1, &a10, 86, 0, "sm_86"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_problem problem =
        make_problem(2, 2 * rows[i].group, 2, rows[i].seqlen_q, 1024, rows[i].hdim);
    ap_plan plan;
    problem.hdim_v = rows[i].hdim_v;
    problem.tma = rows[i].tma;
    assert_ok(ap_choose(&problem, rows[i].device, &plan));
    if (plan.variant.axis[AP_ATTENTION_ARCH] != rows[i].arch ||
        plan.variant.axis[AP_ATTENTION_DECODE] != rows[i].decode ||
        strcmp(plan.target, rows[i].target) != 0)
      fail_msg("row %zu: sm%d, decode %d, %s", i, plan.variant.axis[AP_ATTENTION_ARCH],
               plan.variant.axis[AP_ATTENTION_DECODE], plan.target);
    assert_true(plan.tile.smem_bytes <= ap_find_target(plan.target)->smem_per_block_bytes);
    assert_int_equal(plan.tile.field[AP_ATTENTION_TILE_PRODUCER],
                     rows[i].arch == 90 && !rows[i].decode);
  }
  ap_variant v = {.family = AP_FAMILY_ATTENTION, .axis = {[AP_ATTENTION_ARCH] = 90}};
  assert_string_equal(ap_target_for(&v, 90), "sm_90a");
  assert_null(ap_target_for(&v, 80));
  v.axis[AP_ATTENTION_ARCH] = 80;
  assert_string_equal(ap_target_for(&v, 90), "sm_90");
  v.axis[AP_ATTENTION_PASS] = AP_ATTENTION_PASS_FWD_COMBINE; /* one for all devices */
  assert_string_equal(ap_target_for(&v, 90), "sm_90");
  assert_string_equal(ap_target_for(&v, 89), "sm_86");
  assert_null(ap_target_for(&v, 75));
}

/** Head dims above 256 on 9.0: units of 64 rows; what is done to scores is sm80's. */
static void test_wide(void **state) {
  (void)state;
  ap_plan plan;
  ap_problem problem = make_problem(4, 8, 8, 4096, 4096, 512);
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.variant.axis[AP_ATTENTION_ARCH], 90);
  assert_int_equal(plan.row_blocks, 4096 / 64);
  assert_int_equal(plan.grid, h200.sm_count);
  assert_int_equal(plan.rounds, (4 * 8 * 64 + 131) / 132);
  problem = make_problem(1, 1, 1, 64, 8192, 512); /* few row blocks, many keys */
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.variant.axis[AP_ATTENTION_ARCH], 90);
  assert_int_equal(plan.variant.axis[AP_ATTENTION_SPLIT], 1);
  assert_int_equal(plan.num_splits, 128); /* of a key block each, at most 132 */
  ap_device small = h200;
  small.sm_count = 1;
  assert_ok(ap_choose(&problem, &small, &plan));
  assert_true(plan.grid >= 1);

  for (int i = 0; i < 9; ++i) {
    problem = make_problem(2, 8, 8, 1024, 1024, 264);
    problem.softcap = i == 0;
    problem.alibi = i == 1;
    problem.bias = i == 2 ? ATTNPRESS_BF16 : 0;
    problem.dropout = i == 3;
    problem.mod_score = i == 4;
    problem.mod_mask = i == 5;
    problem.sequences = i == 6   ? AP_ATTENTION_SEQUENCES_RAGGED
                        : i == 7 ? AP_ATTENTION_SEQUENCES_PAGED
                                 : AP_ATTENTION_SEQUENCES_DENSE;
    problem.mask = i == 8 ? ATTNPRESS_WINDOW : ATTNPRESS_FULL;
    problem.window_left = i == 8 ? 100 : 0;
    assert_ok(ap_choose(&problem, &h200, &plan));
    if (plan.variant.axis[AP_ATTENTION_ARCH] != 80)
      fail_msg("row %d: sm%d", i, plan.variant.axis[AP_ATTENTION_ARCH]);
  }
}

/** A tile that a target has not the shared memory for is refused with the architecture that fits. */
static void test_too_large_for_a_target(void **state) {
  (void)state;
  const ap_variant v = {.family = AP_FAMILY_ATTENTION,
                        .axis = {[AP_ATTENTION_HDIM] = 256,
                                 [AP_ATTENTION_HDIM_V] = 256,
                                 [AP_ATTENTION_DTYPE] = AP_ATTENTION_DTYPE_BF16,
                                 [AP_ATTENTION_ARCH] = 80}};
  ap_tile tile;
  assert_ok(ap_find_tile(&v, "sm_80", &tile));
  tile.smem_bytes = 120000;
  assert_ok(ap_check_target(&v, &tile, "sm_80"));
  assert_int_equal(ap_check_target(&v, &tile, "sm_86"), ATTNPRESS_NOT_SUPPORTED);
  assert_string_equal(attnpress_last_error(),
                      "flash_fwd_hdim256_bf16_sm80 takes 120000 bytes of shared memory and a "
                      "thread block on sm_86 has 101376; kernels whose name ends in sm86 stay "
                      "within that");
}

/** No tile of an architecture is too large for a device that runs it. */
static void test_tiles_fit(void **state) {
  (void)state;
  for (size_t i = 0; i < ap_families[AP_FAMILY_ATTENTION]->tiles->count; ++i) {
    ap_tile_row row;
    ap_tile_row_read(AP_FAMILY_ATTENTION, i, &row);
    const int arch = row.variant.axis[AP_ATTENTION_ARCH];
    int limit_bytes = (arch == 86 ? 99 : arch == 80 ? 163 : 227) * 1024;
    assert_int_equal(ap_find_arch(arch)->smem_per_block_bytes, limit_bytes);
    if (row.target != NULL)
      limit_bytes = ap_find_target(row.target)->smem_per_block_bytes;
    assert_true(row.tile.smem_bytes <= limit_bytes);
    if (row.variant.axis[AP_ATTENTION_DECODE])
      assert_int_equal(row.tile.field[AP_ATTENTION_TILE_BLOCK_M],
                       arch == 80 || arch == 86              ? 16
                       : row.variant.axis[AP_ATTENTION_RUNS] ? 16 * AP_ATTENTION_RUNS_HEADS
                                                             : 8);
  }
}

/** Few rows of a batch-invariant call have the bits of more: the same key blocks. */
static void test_key_blocks_of_few_rows(void **state) {
  (void)state;
  for (int hdim = 8; hdim <= AP_ATTENTION_FEW_HDIM_MAX; hdim += 8)
    for (int bits = 0; bits < 16; ++bits) {
      ap_tile few, more;
      ap_variant v = {.family = AP_FAMILY_ATTENTION,
                      .axis = {[AP_ATTENTION_PASS] = AP_ATTENTION_PASS_FWD,
                               [AP_ATTENTION_HDIM] = hdim,
                               [AP_ATTENTION_HDIM_V] = hdim,
                               [AP_ATTENTION_DTYPE] =
                                   bits & 1 ? AP_ATTENTION_DTYPE_BF16 : AP_ATTENTION_DTYPE_FP16,
                               [AP_ATTENTION_MASK] = bits >> 1 & 1,
                               [AP_ATTENTION_SPLIT] = 1,
                               [AP_ATTENTION_SEQUENCES] = bits >> 2 & 1
                                                              ? AP_ATTENTION_SEQUENCES_PAGED
                                                              : AP_ATTENTION_SEQUENCES_RAGGED,
                               [AP_ATTENTION_READY] = bits >> 3,
                               [AP_ATTENTION_ARCH] = 90}};
      assert_ok(ap_find_tile(&v, NULL, &more));
      v.axis[AP_ATTENTION_DECODE] = 1;
      assert_ok(ap_find_tile(&v, NULL, &few));
      assert_int_equal(few.field[AP_ATTENTION_TILE_BLOCK_M], AP_ATTENTION_FEW_ROWS);
      assert_int_equal(few.field[AP_ATTENTION_TILE_BLOCK_N], more.field[AP_ATTENTION_TILE_BLOCK_N]);
    }
}

static void test_rows(void **state) {
  (void)state;
  static const struct {
    int heads_q, heads_kv, seqlen_q, mask;
    int want_mask, want_decode, want_packed;
  } rows[] = {
      {8, 8, 1, ATTNPRESS_FULL, ATTNPRESS_FULL, 1, 1},
      {8, 8, 1, ATTNPRESS_CAUSAL, ATTNPRESS_FULL, 1, 1}, /* a single query sees every key */
      {8, 8, 16, ATTNPRESS_CAUSAL, ATTNPRESS_CAUSAL, 1, 1},
      {8, 8, 17, ATTNPRESS_CAUSAL, ATTNPRESS_CAUSAL, 0, 1},
      {8, 1, 1, ATTNPRESS_FULL, ATTNPRESS_FULL, 1, 8},
      {28, 4, 1, ATTNPRESS_CAUSAL, ATTNPRESS_FULL, 1, 7}, /* any group size */
      {28, 4, 2, ATTNPRESS_CAUSAL, ATTNPRESS_CAUSAL, 1, 7},
      {28, 4, 3, ATTNPRESS_CAUSAL, ATTNPRESS_CAUSAL, 0, 7},
      {32, 1, 1, ATTNPRESS_CAUSAL, ATTNPRESS_FULL, 1, 32}, /* few bytes: two row blocks */
      {32, 1, 2, ATTNPRESS_CAUSAL, ATTNPRESS_CAUSAL, 0, 32},
      {8, 4, 4096, ATTNPRESS_CAUSAL, ATTNPRESS_CAUSAL, 0, 1},
      {8, 4, 5, ATTNPRESS_FULL, ATTNPRESS_FULL, 1, 2},
      {0, 0, 5, ATTNPRESS_FULL, ATTNPRESS_FULL, 1, 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_problem problem =
        make_problem(2, rows[i].heads_q, rows[i].heads_kv, rows[i].seqlen_q, 4096, 128);
    ap_plan plan;
    problem.mask = rows[i].mask;
    problem.num_splits = 1;
    assert_ok(ap_choose(&problem, &old_h200, &plan));
    if (plan.variant.axis[AP_ATTENTION_MASK] != rows[i].want_mask ||
        plan.variant.axis[AP_ATTENTION_DECODE] != rows[i].want_decode ||
        plan.heads_per_tile != rows[i].want_packed)
      fail_msg("row %zu: mask %d, decode %d, %d heads a tile", i,
               plan.variant.axis[AP_ATTENTION_MASK], plan.variant.axis[AP_ATTENTION_DECODE],
               plan.heads_per_tile);
    const int tile_rows = rows[i].seqlen_q * plan.heads_per_tile;
    assert_int_equal(plan.row_blocks, (tile_rows + plan.tile.field[AP_ATTENTION_TILE_BLOCK_M] - 1) /
                                          plan.tile.field[AP_ATTENTION_TILE_BLOCK_M]);
    assert_int_equal(plan.grid,
                     plan.row_blocks * (rows[i].heads_q / plan.heads_per_tile) * problem.batch);
    /* Mask and decode do not depend on the architecture. */
    ap_plan hopper;
    assert_ok(ap_choose(&problem, &h200, &hopper));
    assert_int_equal(hopper.variant.axis[AP_ATTENTION_MASK], plan.variant.axis[AP_ATTENTION_MASK]);
    assert_int_equal(hopper.variant.axis[AP_ATTENTION_DECODE],
                     plan.variant.axis[AP_ATTENTION_DECODE]);
    assert_int_equal(hopper.variant.axis[AP_ATTENTION_ARCH],
                     plan.variant.axis[AP_ATTENTION_DECODE] ? 80 : 90);
  }
}

/** Row blocks of an sm90 tile, counted warpgroup by warpgroup: each holds whole positions. */
static int count_row_blocks(const ap_tile *tile, int seqlen_q, int heads) {
  int blocks = 0;
  for (int position = 0; position < seqlen_q; ++blocks)
    for (int warpgroup = 0; warpgroup < tile->field[AP_ATTENTION_TILE_BLOCK_M] / 64; ++warpgroup)
      position += 64 / heads;
  return blocks;
}

/** One query with more heads a key head than the tile of a decode kernel has rows. */
static void test_many_heads(void **state) {
  (void)state;
  enum { TILE_ROWS = 16 };
  static const struct {
    const char *what;
    int batch, heads_q, heads_kv, keys, hdim, head_rows;
    const ap_device *device;
    int arch, decode, heads_are_rows, heads_per_tile, row_blocks;
  } rows[] = {
      {"few bytes", 3, 71, 1, 911, 128, 1, &h200, 80, 1, 0, 71, 5},
      {"few bytes, sinks", 3, 71, 1, 911, 128, 0, &h200, 80, 1, 0, 71, 5},
      {"few bytes of two key heads", 1, 40, 2, 4000, 64, 0, &h200, 80, 1, 0, 20, 2},
      {"at the bound", 1, 32, 1, 39062, 128, 0, &h200, 80, 1, 0, 32, 2},
      {"above the bound", 1, 32, 1, 39063, 128, 0, &h200, 90, 0, 0, 32, 1},
      {"at the bound of wide rows", 1, 32, 1, 4882, 256, 0, &h200, 80, 1, 0, 32, 2},
      {"above the bound of wide rows", 1, 32, 1, 4883, 256, 0, &h200, 90, 0, 0, 32, 1},
      {"many bytes", 200, 71, 1, 1479, 64, 1, &h200, 90, 0, 1, 1, 1},
      {"more rows than a tile has", 200, 300, 1, 1479, 64, 1, &h200, 90, 0, 1, 1, 2},
      {"many bytes of two key heads", 16, 142, 2, 4096, 128, 1, &h200, 90, 0, 1, 1, 1},
      {"many bytes, sinks", 200, 71, 1, 1479, 64, 0, &h200, 80, 0, 0, 71, 1},
      {"many bytes, no tensor maps", 200, 71, 1, 1479, 64, 1, &old_h200, 80, 0, 1, 1, 1},
      {"many bytes, heads of a warpgroup", 64, 64, 1, 4096, 128, 0, &h200, 90, 0, 0, 64, 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_problem problem = make_problem(rows[i].batch, rows[i].heads_q, rows[i].heads_kv, 1,
                                      rows[i].keys, rows[i].hdim);
    ap_plan plan;
    problem.mask = ATTNPRESS_CAUSAL;
    problem.head_rows = rows[i].head_rows;
    problem.num_splits = 1;
    assert_ok(ap_choose(&problem, rows[i].device, &plan));
    if (plan.variant.axis[AP_ATTENTION_ARCH] != rows[i].arch ||
        plan.variant.axis[AP_ATTENTION_DECODE] != rows[i].decode ||
        plan.heads_are_rows != rows[i].heads_are_rows ||
        plan.heads_per_tile != rows[i].heads_per_tile || plan.row_blocks != rows[i].row_blocks)
      fail_msg("%s: sm%d, decode %d, heads are rows %d, %d heads a tile, %d row blocks",
               rows[i].what, plan.variant.axis[AP_ATTENTION_ARCH],
               plan.variant.axis[AP_ATTENTION_DECODE], plan.heads_are_rows, plan.heads_per_tile,
               plan.row_blocks);
    assert_int_equal(plan.variant.axis[AP_ATTENTION_MASK], AP_ATTENTION_MASK_FULL);
    if (plan.variant.axis[AP_ATTENTION_DECODE])
      assert_int_equal(plan.tile.field[AP_ATTENTION_TILE_BLOCK_M], TILE_ROWS);
    /* What tells heads, or keys, apart leaves them as they are, and so does another query. */
    ap_problem others[] = {problem, problem, problem, problem, problem};
    others[0].alibi = 1;
    others[1].dropout = 1;
    others[2].mask = ATTNPRESS_WINDOW;
    others[3].batch_invariant = 1;
    others[3].num_splits = 0;
    others[4].seqlen_q = 2;
    for (size_t n = 0; n < sizeof others / sizeof *others; ++n) {
      assert_ok(ap_choose(&others[n], rows[i].device, &plan));
      assert_false(plan.variant.axis[AP_ATTENTION_DECODE] || plan.heads_are_rows);
    }
  }
}

/** Splits of decode kernels where the model of time has a corner: full rounds of two thread blocks an
 * SM, which leave nothing over, and thread blocks alone on their SMs at head dim 192. */
static void test_decode_rounds(void **state) {
  (void)state;
  static const struct {
    int batch, heads_q, heads_kv, keys, hdim, splits;
  } rows[] = {
      {33, 32, 8, 8192, 128, 1}, {132, 16, 2, 3000, 128, 1}, {66, 8, 2, 1500, 64, 1},
      {31, 5, 1, 34974, 192, 4}, {33, 5, 1, 34974, 192, 8},  {124, 5, 1, 8744, 192, 1},
      {31, 5, 1, 34974, 128, 4}, {124, 5, 1, 8744, 128, 1},  {50, 8, 1, 3594, 192, 2},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const ap_problem problem = make_problem(rows[i].batch, rows[i].heads_q, rows[i].heads_kv, 1,
                                            rows[i].keys, rows[i].hdim);
    ap_plan plan;
    assert_ok(ap_choose(&problem, &h200, &plan));
    if (plan.num_splits != rows[i].splits)
      fail_msg("row %zu: %d splits", i, plan.num_splits);
  }
}

/** What the rows of a key head take in tiles of so many heads, in key blocks: 0.4 of one for all
 * consumers, the rest for those that see it, and 1.5 a row block. A causal key block ends anywhere. */
static double packing_cost(const ap_problem *p, const ap_tile *tile, int heads) {
  const int group = p->heads_q / p->heads_kv, positions = 64 / heads;
  const int consumers = tile->field[AP_ATTENTION_TILE_BLOCK_M] / 64;
  const double block_n = tile->field[AP_ATTENTION_TILE_BLOCK_N];
  double cost = 0;
  for (int row = 0; row < p->seqlen_q; row += consumers * positions) {
    double most = 0;
    for (int c = 0; c < consumers && row + c * positions < p->seqlen_q; ++c) {
      const int end = row + (c + 1) * positions;
      const int keys = p->seqlen_k - p->seqlen_q + (end < p->seqlen_q ? end : p->seqlen_q);
      const double blocks =
          p->mask == ATTNPRESS_CAUSAL ? keys / block_n + 0.5 : ceil(p->seqlen_k / block_n);
      most = most > blocks ? most : blocks;
      cost += 0.6 / consumers * blocks;
    }
    cost += 0.4 * most + 1.5;
  }
  return (group + heads - 1) / heads * cost;
}

/** Heads of a group that share a tile: all, or of more than a warpgroup has rows the power of two whose
 * row blocks take least of a key block, and of several the largest; where that takes less than 0.97 of
 * the time of one. */
static int want_packing(const ap_problem *p, const ap_tile *tile) {
  const int group = p->heads_q / p->heads_kv;
  const int consumers = tile->field[AP_ATTENTION_TILE_BLOCK_M] / 64;
  int best = group <= 64 ? group : 1, least = INT32_MAX;
  for (int heads = 64; group > 64 && heads > 1; heads /= 2) {
    const int seen = (p->seqlen_q + 64 / heads - 1) / (64 / heads);
    const int time = (group + heads - 1) / heads *
                     (4 * consumers * count_row_blocks(tile, p->seqlen_q, heads) + 6 * seen);
    if ((p->heads_kv == 1 || group % heads == 0) && time < least) {
      best = heads;
      least = time;
    }
  }
  return packing_cost(p, tile, best) < 0.97 * packing_cost(p, tile, 1) ? best : 1;
}

/** Where row blocks are more than SMs, and the last would be left to few of these, some are not split
 * and the others are: all thread blocks come at once, and few parts are added up. A plan for any such
 * call has room for them. */
static void test_whole_row_blocks(void **state) {
  (void)state;
  static const struct {
    int batch, heads_q, heads_kv, keys, hdim, splits, whole;
  } rows[] = {
      {84, 32, 2, 1087, 192, 3, 120}, {198, 7, 1, 1648, 192, 2, 132}, {110, 32, 2, 8192, 128, 3, 0},
      {84, 32, 2, 1087, 128, 1, 0},   {156, 8, 1, 11357, 128, 1, 0},  {132, 16, 2, 3000, 128, 1, 0},
      {96, 8, 1, 4000, 128, 1, 0},
  };
  ap_memo memo = {0};
  ap_device remembering = h200;
  remembering.memo = &memo;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const ap_problem problem = make_problem(rows[i].batch, rows[i].heads_q, rows[i].heads_kv, 1,
                                            rows[i].keys, rows[i].hdim);
    ap_plan plan, other;
    ap_launches range;
    assert_ok(ap_choose(&problem, &h200, &plan));
    if (plan.num_splits != rows[i].splits || plan.whole_row_blocks != rows[i].whole)
      fail_msg("row %zu: %d splits, %d whole", i, plan.num_splits, plan.whole_row_blocks);
    const int row_blocks = rows[i].batch * rows[i].heads_q / plan.heads_per_tile * plan.row_blocks;
    assert_int_equal(plan.grid,
                     row_blocks * plan.num_splits - plan.whole_row_blocks * (plan.num_splits - 1));
    for (int pass = 0; pass < 2; ++pass) { /* worked out, then remembered */
      assert_ok(ap_choose(&problem, &remembering, &other));
      assert_memory_equal(&other, &plan, sizeof plan);
    }
    assert_ok(ap_choose_range(&problem, &h200, &range));
    assert_true(range.workspace_bytes >= plan.workspace_bytes);
  }
}

static void test_packing(void **state) {
  (void)state;
  static const int hdims[] = {64, 96, 256};
  int packed_plans = 0, single_plans = 0, in_parts = 0;
  for (int mask = ATTNPRESS_FULL; mask <= ATTNPRESS_CAUSAL; ++mask)
    for (int h = 0; h < 3; ++h)
      for (int group = 1; group <= 80; ++group)
        /* Of many heads of one query test_many_heads() knows. */
        for (int seqlen_q = group > 16 ? 2 : 16 / group + 1; seqlen_q < 700;
             seqlen_q = seqlen_q * 9 / 8 + 1) {
          const int kv_heads = 1 + group % 3;
          ap_problem problem =
              make_problem(3, kv_heads * group, kv_heads, seqlen_q, 1024, hdims[h]);
          ap_plan plan;
          problem.mask = mask;
          problem.num_splits = 1;
          assert_ok(ap_choose(&problem, &h200, &plan));
          if (group > 64 && seqlen_q <= 64) { /* more heads than a warpgroup has rows */
            assert_int_equal(plan.variant.axis[AP_ATTENTION_ARCH], 80);
            continue;
          }
          assert_int_equal(plan.variant.axis[AP_ATTENTION_ARCH], 90);
          const int want = want_packing(&problem, &plan.tile);
          if (plan.heads_per_tile != want)
            fail_msg("head dim %d, group %d, seqlen_q %d: %d heads a tile, not %d", hdims[h], group,
                     seqlen_q, plan.heads_per_tile, want);
          assert_int_equal(plan.row_blocks, count_row_blocks(&plan.tile, seqlen_q, want));
          const int units = plan.row_blocks * plan.heads;
          assert_int_equal(plan.heads, kv_heads * ((group + want - 1) / want) * problem.batch);
          assert_true((int)plan.grid == units || (units > 132 && plan.grid == 132));
          packed_plans += want > 1;
          single_plans += group > 1 && want == 1;
          in_parts += group % want != 0;
        }
  assert_true(packed_plans > 1000 && single_plans > 100 && in_parts > 50);
}

/** What is read by head goes with tiles of all heads alone. */
static void test_no_parts(void **state) {
  (void)state;
  ap_plan plan;
  for (int feature = 0; feature < 6; ++feature) {
    ap_problem problem = make_problem(2, 71, 1, 100, 1024, 64);
    problem.num_splits = 1;
    problem.alibi = feature == 1;
    problem.bias = feature == 2 ? ATTNPRESS_FP32 : 0;
    problem.mod_score = feature == 3;
    problem.mod_mask = feature == 4;
    problem.dropout = feature == 5;
    assert_ok(ap_choose(&problem, &h200, &plan));
    assert_int_equal(plan.heads_per_tile, feature == 0 ? 8 : 1);
  }
  /* The last tile of a key head would have heads of the next. */
  const ap_problem problem = make_problem(2, 142, 2, 100, 1024, 64);
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.heads_per_tile, 1);
}

/** 1 where the kernel's source waits for what was launched before it. */
static int waits(const ap_variant *variant, const ap_tile *tile) {
  char *source;
  size_t size;
  assert_ok(ap_render(variant, tile, NULL, &source, &size));
  const int found = strstr(source, "griddepcontrol_wait()") != NULL;
  free(source);
  return found;
}

/** What may begin before its turn waits itself: decode and split kernels of sm80 and sm86, and
 * those that combine, where devices can. */
static void test_overlap(void **state) {
  (void)state;
  static const struct {
    int seqlen_q, splits, capability, arch_max, want, want_combine;
  } rows[] = {
      {1, 1, 90, 0, 1, 0},     {1, 4, 90, 0, 1, 1},    {1, 17, 90, 0, 1, 1},   {1, 4, 90, 80, 1, 1},
      {1024, 4, 90, 80, 1, 1}, {1024, 4, 90, 0, 0, 1}, {1024, 1, 90, 0, 0, 0}, {1, 4, 80, 0, 0, 0},
      {1, 4, 89, 0, 0, 0},     {1, 4, 100, 0, 1, 1},   {1, 1, 120, 0, 1, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_device device = h200;
    ap_plan plan;
    ap_problem problem = make_problem(1, 8, 8, rows[i].seqlen_q, 4096, 128);
    problem.num_splits = rows[i].splits;
    device.capability = rows[i].capability;
    device.arch_max = rows[i].arch_max;
    assert_ok(ap_choose(&problem, &device, &plan));
    assert_int_equal(plan.overlaps, rows[i].want);
    assert_int_equal(plan.combine_overlaps, rows[i].want_combine);
    if (plan.overlaps)
      assert_true(waits(&plan.variant, &plan.tile));
    if (plan.combine_overlaps)
      assert_true(waits(&plan.combine, &plan.combine_tile));
  }
}

/** The same of sequences of their own lengths, of calls with a schedule, and of gradients. */
static void test_overlap_of_others(void **state) {
  (void)state;
  enum { CASES = 2 * 2 * 2 * 3 * 4 * 2 };
  static const int hdims[] = {64, 128, 256}, queries[] = {1, 4, 100, 2048};
  int overlapping = 0, of_gradients = 0;
  for (int i = 0; i < CASES; ++i) {
    const int ready = i % 2, paged = i / 2 % 2, many = i / 4 % 2, hdim = hdims[i / 8 % 3];
    ap_problem problem = make_problem(many ? 64 : 1, 32, 8, queries[i / 24 % 4], 4096, hdim);
    ap_plan plan;
    problem.num_splits = i / 96 % 2 ? 4 : 0;
    problem.sequences = paged ? AP_ATTENTION_SEQUENCES_PAGED : AP_ATTENTION_SEQUENCES_RAGGED;
    problem.ready = ready;
    problem.rows_q = (int64_t)problem.batch * problem.seqlen_q;
    problem.rows_k = paged ? 0 : (int64_t)problem.batch * problem.seqlen_k;
    assert_ok(ap_choose(&problem, &h200, &plan));
    if (plan.overlaps) {
      assert_true(waits(&plan.variant, &plan.tile));
      if (ap_is_scheduled(&plan) && !plan.ready)
        assert_true(waits(&plan.schedule, &plan.schedule_tile));
      ++overlapping;
    }
    if (plan.combine_overlaps)
      assert_true(waits(&plan.combine, &plan.combine_tile));
    if (paged || ready || problem.num_splits > 0)
      continue;
    for (int deterministic = 0; deterministic < 2; ++deterministic) {
      ap_backward_plan backward;
      ap_launches launches;
      assert_ok(ap_choose_backward(&problem, deterministic, &h200, &backward, &launches));
      for (int at = 0; at < launches.count; ++at)
        if (launches.launch[at].overlaps) {
          assert_true(waits(&launches.launch[at].variant, &launches.launch[at].tile));
          ++of_gradients;
        }
    }
  }
  assert_true(overlapping > CASES / 2 && of_gradients > 20);
}

static void test_num_splits(void **state) {
  (void)state;
  static const struct {
    int64_t blocks, key_blocks, slots;
    int want;
  } rows[] = {
      {132, 64, 132, 1},   /* full already */
      {106, 64, 132, 1},   /* four fifths are full enough */
      {105, 64, 132, 5},   /* 105 * 5 fills 4 waves to 99 % */
      {1, 4, 132, 1},      /* too few keys to be worth it */
      {1, 5, 132, 5},      /* one block: as many as there are key blocks */
      {1, 1000, 132, 125}, /* 8 key blocks a split, as with 128, the most */
      {8, 1024, 132, 16},  /* 128 of 132 at once */
      {4, 128, 132, 32},   /* 33 would leave one empty */
      {28, 128, 132, 4},   /* 112 of 132 are full enough */
      {70, 128, 132, 5},   /* one wave would leave half of the device idle: 350 of 396 */
      {66, 64, 132, 2},    /* two halves of the device */
      {44, 64, 132, 3},    {40, 64, 132, 3}, /* 120 of 132 */
      {8, 64, 264, 32},                      /* 256 of 264 */
      {0, 64, 132, 1},                       /* nothing to do */
      {1, 64, 0, 1},       {1, INT64_C(1) << 40, 1 << 20, 109},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const int got = ap_choose_num_splits(rows[i].blocks, rows[i].key_blocks, rows[i].slots);
    if (got != rows[i].want)
      fail_msg("%lld blocks of %lld key blocks on %lld slots: %d splits, not %d",
               (long long)rows[i].blocks, (long long)rows[i].key_blocks, (long long)rows[i].slots,
               got, rows[i].want);
  }
}

/** Every split has a key block, and the count is never more than the limit. */
static void test_num_splits_everywhere(void **state) {
  (void)state;
  for (int64_t slots = 1; slots <= 300; slots += 23)
    for (int64_t blocks = 0; blocks <= 300; blocks += 7)
      for (int64_t key_blocks = 0; key_blocks <= 2000; key_blocks += 37) {
        const int64_t n = ap_choose_num_splits(blocks, key_blocks, slots);
        assert_true(n >= 1 && n <= 128);
        if (n > 1) {
          const int64_t each = (key_blocks + n - 1) / n;
          assert_true(each * (n - 1) < key_blocks);
        }
      }
}

static void test_blocks_per_sm(void **state) {
  (void)state;
  ap_tile tile = {
      .threads = 128, .smem_bytes = 40 * 1024, .field = {[AP_ATTENTION_TILE_MIN_BLOCKS] = 1}};
  assert_int_equal(ap_blocks_per_sm(&tile, &h200), 2); /* registers: 65536 / (128 * 256) */
  tile.field[AP_ATTENTION_TILE_MIN_BLOCKS] = 4;
  assert_int_equal(ap_blocks_per_sm(&tile, &h200), 4);
  assert_int_equal(ap_blocks_per_sm(&tile, &a10), 2); /* shared memory: 100 / 41 */
  tile.field[AP_ATTENTION_TILE_MIN_BLOCKS] = 20;
  tile.smem_bytes = 0;
  assert_int_equal(ap_blocks_per_sm(&tile, &h200), 16); /* threads: 2048 / 128 */
  tile.smem_bytes = 160 * 1024;
  assert_int_equal(ap_blocks_per_sm(&tile, &a100), 1);
}

/** How long the busiest thread block works, beside the mean; 1 where the device deals the units
 * out, one a block. The walk is that of the kernel, and meets every row block of every head once.
 */
static double imbalance(const ap_plan *plan) {
  const int section_units = plan->section_heads * plan->row_blocks, blocks = (int)plan->grid;
  const int units = plan->heads * plan->row_blocks;
  double most = 0, sum = 0, *load = calloc((size_t)blocks, sizeof *load);
  unsigned char *met = calloc(1, (size_t)units);
  assert_int_equal(plan->group_units % section_units, 0);
  assert_int_equal(plan->rounds % plan->group_rounds, 0);
  for (int round = 0; round < plan->rounds; ++round)
    for (int b = 0; b < blocks; ++b) {
      const int group = round / plan->group_rounds, turn = round % plan->group_rounds;
      const int place = turn * blocks + (turn % 2 == 0 ? b : blocks - 1 - b);
      const int unit = group * plan->group_units + place, section = unit / section_units;
      const int row_block = unit % section_units / plan->section_heads;
      const int head = section * plan->section_heads + unit % section_units % plan->section_heads;
      if (place >= plan->group_units || head >= plan->heads)
        continue;
      assert_int_equal(met[head * plan->row_blocks + row_block]++, 0);
      const double length = plan->variant.axis[AP_ATTENTION_MASK] == ATTNPRESS_CAUSAL
                                ? plan->row_blocks - row_block
                                : 1;
      load[b] += length;
      sum += length;
    }
  for (int unit = 0; unit < units; ++unit)
    assert_int_equal(met[unit], 1);
  for (int b = 0; b < blocks; ++b)
    most = load[b] > most ? load[b] : most;
  free(met);
  free(load);
  return blocks == units ? 1.0 : most / (sum / blocks);
}

static void test_divisors(void **state) {
  (void)state;
  static const int numbers[] = {
      0,        1,  2,   3,   5,   7,   16,   17,      131,           132,
      63,       64, 127, 128, 129, 255, 1000, 1 << 20, INT32_MAX / 3, INT32_MAX - 1,
      INT32_MAX};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i)
    for (int value = 1; value < 3000; ++value) {
      const attnpress_divisor d = ap_divisor(value);
      for (int64_t n = numbers[i] - numbers[i] % value - 1; n <= numbers[i]; n += value)
        if (n >= 0)
          assert_int_equal((int)((uint64_t)n * d.multiplier >> d.shift), n / value);
      assert_int_equal((int)((uint64_t)numbers[i] * d.multiplier >> d.shift), numbers[i] / value);
    }
  for (size_t i = 1; i < sizeof numbers / sizeof *numbers; ++i) {
    const attnpress_divisor d = ap_divisor(numbers[i]);
    assert_int_equal(d.value, numbers[i]);
    for (size_t j = 0; j < sizeof numbers / sizeof *numbers; ++j)
      assert_int_equal((int)((uint64_t)numbers[j] * d.multiplier >> d.shift),
                       numbers[j] / numbers[i]);
  }
}

/** The longest and the mean time of a block are close. What the orders cost is test_schedule.c's. */
static void test_sections(void **state) {
  (void)state;
  static const struct {
    int batch, heads_q, heads_kv, seqlen, hdim, splits;
  } rows[] = {
      {4, 16, 16, 4096, 128, 1},   {1, 16, 16, 16384, 128, 1}, {1, 16, 4, 65536, 128, 1},
      {1, 16, 16, 131072, 128, 1}, {4, 16, 4, 4096, 128, 1},   {32, 16, 16, 512, 128, 1},
      {2, 32, 32, 8192, 64, 1},    {1, 32, 32, 32768, 64, 1},  {8, 32, 32, 2048, 64, 1},
      {2, 8, 8, 8192, 256, 1},     {1, 8, 8, 16384, 256, 1},   {1, 16, 8, 16384, 128, 3},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    for (int mask = ATTNPRESS_FULL; mask <= ATTNPRESS_CAUSAL; ++mask) {
      ap_problem problem = make_problem(rows[i].batch, rows[i].heads_q, rows[i].heads_kv,
                                        rows[i].seqlen, rows[i].seqlen, rows[i].hdim);
      ap_plan plan;
      problem.mask = mask;
      problem.num_splits = rows[i].splits;
      assert_ok(ap_choose(&problem, &h200, &plan));
      assert_int_equal(plan.heads * plan.heads_per_tile,
                       rows[i].batch * rows[i].heads_q * rows[i].splits);
      const double found = imbalance(&plan);
      if (found > 1.06)
        fail_msg("row %zu: the busiest block works %.3f of the mean", i, found);
    }
}

/** Few heads of a long sequence: a section may not be so small that blocks idle. */
static void test_small_sections(void **state) {
  (void)state;
  ap_problem problem = make_problem(1, 128, 128, 200, 1 << 20, 128);
  ap_plan plan;
  problem.mask = ATTNPRESS_CAUSAL;
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_true(plan.group_units >= 132);
  problem = make_problem(1, 2, 2, 2048, 2048, 128);
  problem.mask = ATTNPRESS_CAUSAL;
  problem.num_splits = 1;
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.rounds, 1);
  assert_int_equal(plan.grid, 2 * plan.row_blocks);
}

/** Every unit of every shape is met once, whatever the sections are. */
static void test_sections_everywhere(void **state) {
  (void)state;
  for (int batch = 1; batch <= 70; batch += 23)
    for (int heads = 1; heads <= 40; heads += 3)
      for (int seqlen_q = 17; seqlen_q <= 40000; seqlen_q = seqlen_q * 3 + 1)
        for (int seqlen_k = 0; seqlen_k <= 300000; seqlen_k = seqlen_k * 20 + 100)
          for (int mask = 0; mask <= 1; ++mask) {
            ap_problem problem = make_problem(batch, heads * 2, heads, seqlen_q, seqlen_k, 96);
            ap_plan plan;
            problem.mask = mask;
            assert_ok(ap_choose(&problem, &h200, &plan));
            assert_int_equal(plan.variant.axis[AP_ATTENTION_ARCH], 90);
            const int units = plan.heads * plan.row_blocks;
            assert_true((int)plan.grid == units || (units > 132 && plan.grid == 132));
            if (units < 5000)
              imbalance(&plan);
          }
}

/** One thread block of an sm90 kernel fills a multiprocessor. */
static void test_hopper_splits(void **state) {
  (void)state;
  static const struct {
    int batch, heads, key_blocks;
    int want; /* splits */
  } rows[] = {
      {1, 16, 400, 8},                    /* 128 of 132 */
      {1, 16, 4, 1},                      /* too few keys */
      {1, 16, 5, 5},    {1, 106, 400, 1}, /* splits would not pay for their parts */
      {1, 105, 400, 1}, {4, 33, 400, 1},  {1, 70, 400, 5},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_problem problem = make_problem(rows[i].batch, rows[i].heads, rows[i].heads, 64, 64, 128);
    ap_plan plan;
    problem.num_splits = 2;
    assert_ok(ap_choose(&problem, &h200, &plan)); /* for the tile */
    problem.num_splits = 0;
    problem.seqlen_k = rows[i].key_blocks * plan.tile.field[AP_ATTENTION_TILE_BLOCK_N];
    assert_ok(ap_choose(&problem, &h200, &plan));
    assert_int_equal(plan.variant.axis[AP_ATTENTION_ARCH], 90);
    assert_int_equal(plan.variant.axis[AP_ATTENTION_SPLIT], rows[i].want > 1);
    if (plan.num_splits != rows[i].want)
      fail_msg("row %zu: %d splits", i, plan.num_splits);
    if (plan.variant.axis[AP_ATTENTION_SPLIT]) {
      char stem[AP_STEM_MAX];
      assert_ok(ap_variant_print(&plan.combine, stem));
      assert_string_equal(stem, "flash_fwd_combine_hdim128_bf16_sm80");
      assert_string_equal(plan.combine_target, "sm_90");
    }
  }
}

/** Where each warp has a ring, an SM is full with one block. */
static void test_decode_splits(void **state) {
  (void)state;
  ap_plan plan;
  ap_problem problem = make_problem(1, 32, 8, 1, 131072, 128);
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_true(plan.tile.field[AP_ATTENTION_TILE_WARPS_K] > 1);
  assert_int_equal(plan.num_splits, 16);
  problem = make_problem(16, 32, 8, 1, 8192, 128);
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.num_splits, 1);
  problem = make_problem(1, 32, 8, 1, 131072, 512);
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.tile.field[AP_ATTENTION_TILE_WARPS_K], 1);
  assert_int_equal(plan.num_splits, 132 * ap_blocks_per_sm(&plan.tile, &h200) / 8);
}

/** sm80's kernels find packed rows one by one, which short sequences do not earn: those lost 9 and 16% on
 * an H200. Few queries still share a tile. */
static void test_packing_of_short_sequences(void **state) {
  (void)state;
  static const struct {
    int heads_q, heads_kv, queries, keys, hdim, mask, want;
  } rows[] = {
      {7, 1, 106, 273, 96, ATTNPRESS_FULL, 1},       {14, 2, 90, 90, 64, ATTNPRESS_CAUSAL, 1},
      {32, 8, 8, 4096, 128, ATTNPRESS_CAUSAL, 4},    {14, 2, 90, 4096, 64, ATTNPRESS_FULL, 7},
      {32, 8, 4096, 4096, 128, ATTNPRESS_CAUSAL, 1},
  };
  ap_device sm80 = h200;
  sm80.arch_max = 80;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_problem problem = make_problem(32, rows[i].heads_q, rows[i].heads_kv, rows[i].queries,
                                      rows[i].keys, rows[i].hdim);
    ap_plan plan;
    problem.mask = rows[i].mask;
    assert_ok(ap_choose(&problem, &sm80, &plan));
    assert_false(plan.tile.field[AP_ATTENTION_TILE_PRODUCER]);
    if (plan.heads_per_tile != rows[i].want)
      fail_msg("row %zu: %d heads share a tile", i, plan.heads_per_tile);
  }
}

/** How many thread blocks that are not split lie on an SM: three where those of two kernels fit at once,
 * or where three nearly fill all SMs; else two, whose shared memory is asked for. Those of a tile for
 * two lie alone where they are no more than SMs. */
static void test_decode_blocks_per_sm(void **state) {
  (void)state;
  static const struct {
    int batch, heads_q, heads_kv, keys, hdim, splits, smem_bytes;
  } rows[] = {
      {90, 8, 1, 2000, 128, 1, 0},           {84, 32, 2, 1087, 128, 1, 0},
      {99, 32, 2, 1087, 128, 1, 0},          {33, 32, 8, 8192, 128, 1, 233472 / 3},
      {64, 32, 8, 4096, 128, 1, 233472 / 3}, {53, 35, 7, 3216, 64, 1, 0},
      {66, 24, 6, 18974, 64, 1, 0},          {66, 32, 4, 8192, 64, 1, 233472 / 3},
      {1, 32, 8, 8192, 128, 16, 233472 / 2}, {45, 32, 2, 1087, 192, 1, 233472 / 2},
      {66, 32, 4, 8192, 192, 1, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const ap_problem problem = make_problem(rows[i].batch, rows[i].heads_q, rows[i].heads_kv, 1,
                                            rows[i].keys, rows[i].hdim);
    ap_plan plan;
    assert_ok(ap_choose(&problem, &h200, &plan));
    if (plan.num_splits != rows[i].splits || plan.launch_smem_bytes != rows[i].smem_bytes)
      fail_msg("row %zu: %d splits, %d bytes", i, plan.num_splits, plan.launch_smem_bytes);
  }
}

/** Numbers of splits between which a call that decodes took no more than 5% over the best on an H200
 * (bench/notes/decode.md, "Decode"). Remembered or not, the plan is the same. */
static void test_decode_splits_by_time(void **state) {
  (void)state;
  static const struct {
    int batch, heads_q, heads_kv, keys, hdim, least, most;
  } rows[] = {
      {1, 32, 8, 512, 128, 4, 4},     {1, 32, 8, 1024, 128, 8, 16},  {1, 32, 8, 8192, 128, 14, 16},
      {1, 32, 8, 8192, 64, 14, 16},   {16, 16, 8, 4096, 256, 1, 2},  {8, 20, 20, 1500, 128, 1, 1},
      {156, 8, 1, 8192, 128, 1, 1},   {2, 41, 41, 589, 128, 1, 1},   {9, 55, 11, 990, 64, 1, 1},
      {92, 7, 1, 1473, 64, 1, 1},     {34, 6, 3, 1170, 192, 1, 1},   {50, 8, 1, 3594, 192, 2, 5},
      {24, 8, 8, 1471, 128, 1, 1},    {9, 53, 53, 755, 128, 1, 1},   {15, 48, 6, 5789, 96, 1, 1},
      {47, 32, 2, 19336, 64, 1, 1},   {71, 16, 4, 12350, 64, 2, 2},  {37, 40, 5, 9579, 128, 1, 1},
      {28, 16, 1, 111790, 96, 3, 4},  {56, 40, 5, 16123, 96, 2, 4},  {134, 56, 8, 5104, 192, 1, 1},
      {7, 20, 10, 85714, 256, 6, 16}, {108, 8, 1, 39154, 64, 1, 2},  {56, 10, 2, 18332, 256, 7, 8},
      {74, 7, 1, 50379, 96, 3, 7},    {52, 16, 2, 32126, 192, 5, 5}, {25, 9, 9, 24141, 128, 3, 14},
      {48, 32, 2, 6563, 256, 4, 8},   {137, 16, 4, 8803, 128, 2, 4},
  };
  ap_memo memo = {0};
  ap_device remembering = h200;
  remembering.memo = &memo;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const ap_problem problem = make_problem(rows[i].batch, rows[i].heads_q, rows[i].heads_kv, 1,
                                            rows[i].keys, rows[i].hdim);
    ap_plan plan, other;
    assert_ok(ap_choose(&problem, &h200, &plan));
    if (plan.num_splits < rows[i].least || plan.num_splits > rows[i].most)
      fail_msg("row %zu: %d splits, not %d to %d", i, plan.num_splits, rows[i].least, rows[i].most);
    ap_launches range;
    assert_ok(ap_choose_range(&problem, &h200, &range));
    assert_true(range.workspace_bytes >= plan.workspace_bytes);
    for (int pass = 0; pass < 2; ++pass) {
      assert_ok(ap_choose(&problem, &remembering, &other));
      assert_memory_equal(&other, &plan, sizeof plan);
    }
  }
}

/** The row block for long sequences, where it was measured to be faster; where the other was; and in a
 * plan for any length both. */
static void test_long_rows(void **state) {
  (void)state;
  enum { SOFTCAP = 1, ALIBI = 2, DROPOUT = 4 };
  static const struct {
    int batch, heads_q, heads_kv, queries, keys, hdim, mask, want, features;
  } rows[] = {
      {4, 16, 16, 4096, 4096, 128, 0, 1, SOFTCAP},
      {4, 16, 16, 4096, 4096, 128, 0, 1, ALIBI},
      {4, 16, 16, 4096, 4096, 128, 0, 0, SOFTCAP | ALIBI},
      {4, 16, 16, 4096, 4096, 128, 0, 0, DROPOUT},
      {16, 16, 16, 1024, 1024, 128, 0, 0, SOFTCAP},
      {2, 16, 16, 8192, 8192, 128, 1, 0, SOFTCAP},
      {2, 16, 16, 8192, 8192, 128, 1, 0, ALIBI},
      {1, 16, 16, 16384, 16384, 128, 0, 1, 0},
      {1, 20, 20, 18262, 18262, 128, 0, 1, 0},
      {2, 16, 16, 8192, 8192, 128, 0, 1, 0},
      {4, 16, 16, 4096, 4096, 128, 0, 1, 0},
      {16, 16, 16, 1024, 1024, 128, 0, 0, 0},
      {32, 16, 16, 512, 512, 128, 0, 0, 0},
      {1, 16, 16, 16384, 16384, 128, 1, 1, 0},
      {2, 16, 16, 8192, 8192, 128, 1, 1, 0},
      {4, 16, 16, 4096, 4096, 128, 1, 1, 0},
      {2, 16, 1, 6461, 19085, 128, 1, 1, 0},
      {1, 32, 32, 16384, 16384, 64, 0, 1, 0},
      {1, 16, 16, 64, 64, 128, 0, 0, 0},
  };
  ap_memo memo = {0};
  ap_device remembering = h200;
  remembering.memo = &memo;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_problem problem = make_problem(rows[i].batch, rows[i].heads_q, rows[i].heads_kv,
                                      rows[i].queries, rows[i].keys, rows[i].hdim);
    ap_plan plan, other;
    problem.mask = rows[i].mask;
    problem.softcap = (rows[i].features & SOFTCAP) != 0;
    problem.alibi = (rows[i].features & ALIBI) != 0;
    problem.dropout = (rows[i].features & DROPOUT) != 0;
    assert_ok(ap_choose(&problem, &h200, &plan));
    if (plan.variant.axis[AP_ATTENTION_LONG_ROWS] != rows[i].want)
      fail_msg("row %zu: %d", i, plan.variant.axis[AP_ATTENTION_LONG_ROWS]);
    assert_true(ap_variant_is_legal(&plan.variant));
    assert_int_equal(plan.variant_key, ap_variant_key(&plan.variant));
    for (int pass = 0; pass < 2; ++pass) { /* worked out, then remembered */
      assert_ok(ap_choose(&problem, &remembering, &other));
      assert_memory_equal(&other, &plan, sizeof plan);
    }
    ap_launches range;
    int found[2] = {0, 0};
    assert_ok(ap_choose_range(&problem, &h200, &range));
    for (int n = 0; n < range.count; ++n)
      if (range.launch[n].variant.axis[AP_ATTENTION_ARCH] == 90 &&
          !range.launch[n].variant.axis[AP_ATTENTION_SPLIT])
        found[range.launch[n].variant.axis[AP_ATTENTION_LONG_ROWS]] = 1;
    assert_int_equal(found[0], 1);
    const int one = rows[i].features == SOFTCAP || rows[i].features == ALIBI;
    assert_int_equal(found[1], rows[i].features == 0 || (one && rows[i].mask == 0));
  }
}

/** The same of sequences, by the sum of their rows: where it was measured to be faster. */
static void test_long_rows_of_sequences(void **state) {
  (void)state;
  static const struct {
    int batch, bound, heads_kv;
    int64_t rows;
    int mask, ready, want;
  } rows[] = {
      {1, 32768, 8, 32768, 0, 0, 1},
      {1, 32768, 32, 32768, 1, 0, 1},
      {16, 4096, 32, 16 * 4096, 0, 0, 1},
      {16, 4096, 8, 16 * 4096, 1, 0, 1},
      {16, 4096, 32, 16 * 4096, 1, 0, 1},
      {16, 8307, 32, 16 * 2755, 1, 0, 1},
      {64, 4096, 32, 64 * 964, 0, 0, 1},
      {64, 4096, 8, 64 * 964, 1, 0, 1},
      {64, 4096, 32, 64 * 964, 1, 0, 1},
      {256, 1398, 8, 256 * 205, 1, 0, 1},
      {256, 1398, 32, 256 * 205, 1, 0, 1},
      {200, 1398, 32, 200 * 150, 1, 0, 0},
      {512, 128, 8, 512 * 128, 0, 0, 0},
      {512, 128, 32, 512 * 128, 0, 0, 0},
      {1, 2048, 8, 2048, 1, 0, 0},
      {1, 32768, 8, 32768, 1, 1, 1},
      {64, 4096, 32, 64 * 964, 1, 1, 1},
      {256, 1398, 32, 256 * 205, 1, 1, 1},
      {1, 32768, 8, 32768, ATTNPRESS_WINDOW, 0, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_problem problem =
        make_problem(rows[i].batch, 32, rows[i].heads_kv, rows[i].bound, rows[i].bound, 128);
    ap_plan plan;
    problem.sequences = AP_ATTENTION_SEQUENCES_RAGGED;
    problem.rows_q = problem.rows_k = rows[i].rows;
    problem.mask = rows[i].mask;
    problem.window_left = 100;
    problem.ready = rows[i].ready;
    assert_ok(ap_choose(&problem, &h200, &plan));
    if (plan.variant.axis[AP_ATTENTION_LONG_ROWS] != rows[i].want)
      fail_msg("row %zu: %d", i, plan.variant.axis[AP_ATTENTION_LONG_ROWS]);
    assert_true(ap_variant_is_legal(&plan.variant));
    assert_int_equal(plan.variant_key, ap_variant_key(&plan.variant));
    assert_int_equal(plan.tile.field[AP_ATTENTION_TILE_BLOCK_M], rows[i].want ? 192 : 128);
    ap_launches range;
    int found[2] = {0, 0};
    assert_ok(ap_choose_range(&problem, &h200, &range));
    for (int n = 0; n < range.count; ++n)
      if (range.launch[n].variant.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD &&
          range.launch[n].variant.axis[AP_ATTENTION_ARCH] == 90)
        found[range.launch[n].variant.axis[AP_ATTENTION_LONG_ROWS]] = 1;
    assert_int_equal(found[0], 1);
    assert_int_equal(found[1], 1); /* of a window that hides nothing, too */
  }
}

/** Of head dim 64 by the mean length: below, four consumers of 64 keys. */
static void test_mean_rows_of_sequences(void **state) {
  (void)state;
  static const struct {
    int batch, bound, bound_k;
    int64_t rows, rows_k;
    int mask, ready, sequences, want;
  } rows[] = {
      {256, 1398, 1398, 256 * 205, 256 * 205, 0, 0, 1, 0},
      {256, 1398, 1398, 256 * 205, 256 * 205, 1, 1, 1, 0},
      {512, 128, 128, 512 * 128, 512 * 128, 0, 0, 1, 0},
      {64, 4096, 4096, 64 * 964, 64 * 964, 0, 0, 1, 0},
      {64, 1024, 1024, 64 * 1024, 64 * 1024, 0, 0, 1, 1},
      {64, 1024, 1024, 64 * 1024, 64 * 1024, 1, 0, 1, 0},
      {16, 4096, 4096, 16 * 4096, 16 * 4096, 0, 1, 1, 1},
      {16, 4096, 4096, 16 * 4096, 16 * 4096, 1, 0, 1, 0},
      {1, 32768, 32768, 32768, 32768, 1, 0, 1, 1},
      {64, 256, 8192, 64 * 200, 64 * 8192, 1, 0, 1, 1},
      {32, 4096, 4096, 32 * 4096, 32 * 4096, 0, 0, 0, 1},
      {16, 4096, 4096, 16 * 4096, 16 * 4096, ATTNPRESS_WINDOW, 0, 1, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_problem problem = make_problem(rows[i].batch, 64, 8, rows[i].bound, rows[i].bound_k, 64);
    ap_plan plan;
    problem.sequences = rows[i].sequences;
    problem.rows_q = rows[i].rows;
    problem.rows_k = rows[i].rows_k;
    problem.mask = rows[i].mask;
    problem.window_left = 100;
    problem.ready = rows[i].ready;
    assert_ok(ap_choose(&problem, &h200, &plan));
    if (plan.variant.axis[AP_ATTENTION_LONG_ROWS] != rows[i].want)
      fail_msg("row %zu: %d", i, plan.variant.axis[AP_ATTENTION_LONG_ROWS]);
    assert_true(ap_variant_is_legal(&plan.variant));
    assert_int_equal(plan.variant_key, ap_variant_key(&plan.variant));
    const int four = !rows[i].want && rows[i].mask != ATTNPRESS_WINDOW;
    assert_int_equal(plan.tile.field[AP_ATTENTION_TILE_BLOCK_M], four ? 256 : 192);
    ap_launches range;
    int found[2] = {0, 0};
    assert_ok(ap_choose_range(&problem, &h200, &range));
    for (int n = 0; n < range.count; ++n)
      if (range.launch[n].variant.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD &&
          range.launch[n].variant.axis[AP_ATTENTION_ARCH] == 90)
        found[range.launch[n].variant.axis[AP_ATTENTION_LONG_ROWS]] = 1;
    assert_int_equal(found[0], 1);
    assert_int_equal(found[1], 1);
  }
}

/** Dense calls of head dim 64: four consumers or three, as was measured; splits and packing as for three. */
static void test_narrow_heads(void **state) {
  (void)state;
  static const struct {
    int batch, heads_q, heads_kv, queries, keys, mask, rows;
  } rows[] = {
      {512, 64, 8, 128, 128, 1, 256},  {1024, 64, 8, 34, 34, 0, 256},
      {1024, 64, 8, 34, 34, 1, 256},   {128, 64, 8, 512, 512, 1, 256},
      {64, 64, 8, 1024, 1024, 1, 256}, {64, 16, 16, 256, 256, 0, 256},
      {64, 16, 16, 256, 256, 1, 256},  {16, 16, 16, 1024, 1024, 1, 256},
      {692, 4, 4, 224, 224, 0, 256},   {128, 16, 16, 128, 128, 0, 192}, /* half of the rows */
      {128, 16, 16, 128, 128, 1, 192}, {462, 40, 40, 98, 98, 1, 192},
      {64, 64, 8, 1024, 1024, 0, 192}, {16, 64, 8, 4096, 4096, 0, 192},
      {3, 8, 8, 1764, 1764, 0, 192}, /* two rounds of either */
      {24, 24, 1, 25, 1875, 0, 192},   {2, 8, 1, 2947, 2947, 0, 192},
  };
  ap_memo memo = {0};
  ap_device remembering = h200;
  remembering.memo = &memo;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_problem problem = make_problem(rows[i].batch, rows[i].heads_q, rows[i].heads_kv,
                                      rows[i].queries, rows[i].keys, 64);
    ap_plan plan, other;
    problem.mask = rows[i].mask;
    assert_ok(ap_choose(&problem, &h200, &plan));
    if (plan.tile.field[AP_ATTENTION_TILE_BLOCK_M] != rows[i].rows)
      fail_msg("row %zu: %d rows", i, plan.tile.field[AP_ATTENTION_TILE_BLOCK_M]);
    assert_int_equal(plan.variant.axis[AP_ATTENTION_LONG_ROWS], rows[i].rows == 192);
    assert_int_equal(plan.variant_key, ap_variant_key(&plan.variant));
    for (int pass = 0; pass < 2; ++pass) { /* worked out, then remembered */
      assert_ok(ap_choose(&problem, &remembering, &other));
      assert_memory_equal(&other, &plan, sizeof plan);
    }
  }
  ap_problem few = make_problem(1, 2, 2, 300, 16384, 64); /* split: neither */
  ap_plan plan;
  assert_ok(ap_choose(&few, &h200, &plan));
  assert_true(plan.num_splits > 1);
  assert_int_equal(plan.variant.axis[AP_ATTENTION_LONG_ROWS], 0);
  assert_int_equal(plan.tile.field[AP_ATTENTION_TILE_BLOCK_M], 192);
}

/** Where V has fewer columns than K there is no kernel of three consumers: that of four runs, whatever the
 * lengths. */
static void test_narrow_values(void **state) {
  (void)state;
  static const int lengths[] = {64, 1024, 4096};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i)
    for (int hdim_v = 8; hdim_v < 64; hdim_v += 8)
      for (int mask = ATTNPRESS_FULL; mask <= ATTNPRESS_CAUSAL; ++mask) {
        ap_problem problem = make_problem(16, 64, 8, lengths[i], lengths[i], 64);
        ap_plan plan;
        problem.hdim_v = hdim_v;
        problem.mask = mask;
        assert_ok(ap_choose(&problem, &h200, &plan));
        assert_true(ap_variant_is_legal(&plan.variant));
        assert_int_equal(plan.variant_key, ap_variant_key(&plan.variant));
        assert_int_equal(plan.variant.axis[AP_ATTENTION_ARCH], 90);
        assert_int_equal(plan.tile.field[AP_ATTENTION_TILE_BLOCK_M], 256);
      }
}

/** Without queries nothing is launched, whatever would run with some. */
static void test_no_queries(void **state) {
  (void)state;
  static const ap_device *const devices[] = {&h200, &a100, &a10};
  static const int groups[] = {1, 4, 8, 9, 52, 64, 71}, hdims[] = {64, 128, 256};
  for (int number = 0; number < 3 * 7 * 3 * 3 * 2 * 2; ++number) {
    int rest = number;
    const ap_device *device = devices[rest % 3];
    const int group = groups[(rest /= 3) % 7], hdim = hdims[(rest /= 7) % 3];
    ap_problem problem = make_problem(16, 2 * group, 2, 0, 9000, hdim);
    ap_plan plan;
    problem.sequences = (rest /= 3) % 3;
    problem.batch_invariant = (rest /= 3) % 2;
    problem.mask = rest / 2 % 2;
    assert_ok(ap_choose(&problem, device, &plan));
    assert_int_equal(plan.grid, 0);
  }
}

/** Long queries over few keys: parts would take longer than what splits even out. */
static void test_splits_that_do_not_pay(void **state) {
  (void)state;
  static const struct {
    int batch, heads_q, heads_kv, queries, keys, hdim, splits;
  } rows[] = {
      {32, 7, 1, 106, 273, 96, 1}, {1, 6, 3, 557, 18153, 256, 4}, {1, 21, 3, 85, 10608, 128, 17}};
  ap_device held_back = h200;
  held_back.arch_max = 80;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const ap_problem problem = make_problem(rows[i].batch, rows[i].heads_q, rows[i].heads_kv,
                                            rows[i].queries, rows[i].keys, rows[i].hdim);
    ap_plan plan;
    assert_ok(ap_choose(&problem, &held_back, &plan));
    assert_int_equal(plan.num_splits, rows[i].splits);
  }
}

static int32_t backward_pass(const ap_launches *launches, int i) {
  return launches->launch[i].variant.axis[AP_ATTENTION_PASS];
}

/** Of a narrow window no row is seen by more than two blocks of keys: bwd stores dq, and nothing is zeroed,
 * deterministic or not. */
static void test_windows_that_pass_on(void **state) {
  (void)state;
  static const struct {
    int rows, keys, hdim, left, right, chunk, passes;
  } cases[] = {
      {8192, 8192, 64, 127, 0, 0, 1}, {8192, 8192, 64, 128, 0, 0, 1},
      {8192, 8192, 64, 129, 0, 0, 0}, {8192, 8192, 24, 64, 64, 0, 1},
      {8192, 8192, 64, 65, 64, 0, 0}, {8192, 8192, 72, 127, 0, 0, 0},
      {8192, 8192, 64, 127, 0, 9, 0}, {700, 828, 64, 100, 0, 0, 1},
      {700, 699, 64, 50, 0, 0, 0},    {700, 699, 64, 70, 1, 0, 1},
      {100, 100, 64, 66, 0, 0, 1},    {100, 0, 64, 64, 0, 0, 0},
      {1, 1, 64, 0, 0, 0, 0},         {5, 900, 64, 1000, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    for (int deterministic = 0; deterministic < 2; ++deterministic) {
      ap_problem problem = make_problem(2, 64, 8, cases[i].rows, cases[i].keys, cases[i].hdim);
      ap_backward_plan plan;
      ap_launches launches, range;
      int found[64] = {0}, launched[64] = {0};
      problem.mask = AP_ATTENTION_MASK_WINDOW;
      problem.window_left = cases[i].left;
      problem.window_right = cases[i].right;
      problem.window_chunk = cases[i].chunk;
      assert_ok(ap_choose_backward(&problem, deterministic, &h200, &plan, &launches));
      for (int at = 0; at < launches.count; ++at)
        launched[backward_pass(&launches, at)] = 1;
      if ((plan.zero_ahead == -1) != cases[i].passes)
        fail_msg("case %zu: %d", i, plan.zero_ahead);
      assert_true(launched[AP_ATTENTION_PASS_BWD_DELTA]);
      if (cases[i].passes) {
        assert_int_equal(launches.count, 2);
        assert_true(launched[AP_ATTENTION_PASS_BWD]);
      } else if (cases[i].keys > 0) {
        assert_int_equal(launched[AP_ATTENTION_PASS_BWD_CONVERT], !deterministic);
      }
      assert_ok(ap_choose_backward_range(&problem, deterministic, &h200, &range));
      for (int at = 0; at < range.count; ++at)
        found[backward_pass(&range, at)] = 1;
      for (int pass = 0; pass < 64; ++pass)
        assert_true(!launched[pass] || found[pass]);
      assert_true(range.workspace_bytes >= launches.workspace_bytes);
    }
}

/** Heads whose blocks take turns are zeroed ahead all at once, or a block would wait for later ones. */
static void test_causal_turns(void **state) {
  (void)state;
  static const int heads_kv[] = {1, 2, 8, 40}, groups[] = {1, 4, 7}, batches[] = {1, 3, 16};
  static const int lengths[] = {1, 65, 512, 3000, 16384};
  int turns = 0, ahead = 0;
  for (int i = 0; i < 4 * 3 * 3 * 5 * 5; ++i) {
    const int heads = heads_kv[i % 4], batch = batches[i / 12 % 3];
    const int rows = lengths[i / 36 % 5], keys = lengths[i / 180];
    for (int deterministic = 0; deterministic < 2; ++deterministic) {
      ap_problem problem =
          make_problem(batch, heads * groups[i / 4 % 3], heads, rows, keys, i % 7 ? 128 : 256);
      ap_backward_plan plan;
      ap_launches launches;
      problem.mask = AP_ATTENTION_MASK_CAUSAL;
      assert_ok(ap_choose_backward(&problem, deterministic, &h200, &plan, &launches));
      for (int at = 0; at < launches.count; ++at) {
        const int32_t pass = backward_pass(&launches, at), abreast = plan.abreast[at];
        if (pass == AP_ATTENTION_PASS_BWD_DELTA || pass == AP_ATTENTION_PASS_BWD_CONVERT)
          continue;
        const int all =
            problem.batch * (pass == AP_ATTENTION_PASS_BWD_DQ ? problem.heads_q : problem.heads_kv);
        if (pass == AP_ATTENTION_PASS_BWD && plan.by_steps) { /* as they are */
          assert_int_equal(abreast, -plan.whole_blocks - 1);
          assert_int_equal(plan.zero_ahead, 0);
          continue;
        }
        assert_in_range(abreast, 1, plan.group_parts * all);
        turns += abreast > 1;
        if (pass == AP_ATTENTION_PASS_BWD && plan.zero_ahead > 0) {
          assert_true(plan.zero_ahead >= abreast);
          ++ahead;
        }
      }
      problem.mask = AP_ATTENTION_MASK_FULL;
      assert_ok(ap_choose_backward(&problem, deterministic, &h200, &plan, &launches));
      for (int at = 0; at < launches.count; ++at)
        assert_true(plan.abreast[at] == 0 ||
                    (plan.by_steps && backward_pass(&launches, at) == AP_ATTENTION_PASS_BWD));
    }
  }
  assert_true(turns > 500 && ahead > 50);
}

/** Thread blocks of bwd take key blocks where these are more than run at once, and may overlap the end of
 * bwd_delta; bwd_convert then overlaps theirs. */
static void test_taken_key_blocks(void **state) {
  (void)state;
  static const struct {
    int batch, rows, hdim, hdim_v, mask, softcap, sequences, takes;
  } cases[] = {
      {32, 512, 64, 64, AP_ATTENTION_MASK_FULL, 0, 0, 1},
      {32, 512, 96, 96, AP_ATTENTION_MASK_CAUSAL, 0, 0, 1},
      {1, 16384, 128, 128, AP_ATTENTION_MASK_CAUSAL, 0, 0, 1},
      {32, 512, 64, 128, AP_ATTENTION_MASK_FULL, 0, 0, 1},
      {32, 128, 128, 128, AP_ATTENTION_MASK_FULL, 0, 1, 1},
      {1, 2048, 128, 128, AP_ATTENTION_MASK_FULL, 0, 0, 0} /* 128 key blocks */,
      {1, 2049, 128, 128, AP_ATTENTION_MASK_FULL, 0, 0, 1},
      {32, 512, 136, 136, AP_ATTENTION_MASK_FULL, 0, 0, 0},
      {32, 512, 128, 64, AP_ATTENTION_MASK_FULL, 1, 0, 0},
      {32, 512, 64, 64, AP_ATTENTION_MASK_WINDOW, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    ap_problem problem =
        make_problem(cases[i].batch, 8, 8, cases[i].rows, cases[i].rows, cases[i].hdim);
    ap_backward_plan plan;
    ap_launches launches;
    int found = 0;
    problem.hdim_v = cases[i].hdim_v;
    problem.mask = cases[i].mask;
    problem.window_left = 1000;
    problem.softcap = cases[i].softcap;
    if (cases[i].sequences) {
      problem.sequences = AP_ATTENTION_SEQUENCES_RAGGED;
      problem.rows_q = problem.rows_k = (int64_t)cases[i].batch * cases[i].rows;
    }
    assert_ok(ap_choose_backward(&problem, 0, &h200, &plan, &launches));
    if (plan.takes != cases[i].takes)
      fail_msg("case %zu: %d", i, plan.takes);
    for (int at = 0; at < launches.count; ++at) {
      const ap_launch *launch = &launches.launch[at];
      const int32_t pass = backward_pass(&launches, at);
      found += pass == AP_ATTENTION_PASS_BWD;
      if (pass == AP_ATTENTION_PASS_BWD && plan.takes)
        assert_int_equal(launch->grid, h200.sm_count);
      assert_int_equal(launch->overlaps, pass == AP_ATTENTION_PASS_BWD ||
                                             (pass == AP_ATTENTION_PASS_BWD_CONVERT && plan.takes));
    }
    assert_int_equal(found, 1);
    assert_true(!plan.takes ||
                plan.taken_offset_bytes + sizeof(uint32_t) <= launches.workspace_bytes);
  }
}

/** Groups are shared where walks over many heads come apart, or rounds of thread blocks are not whole; not
 * where L2 holds what they walk over, or parts would take too much memory. A plan for longer calls has room,
 * and what is remembered is what was worked out. */
static void test_parts_of_groups(void **state) {
  (void)state;
  static const struct {
    int batch, heads, heads_kv, queries, keys, hdim, full, least, most, by_steps, whole_rounds;
  } cases[] = {
      {13, 21, 3, 2965, 2965, 192, 0, 2, 4, 0, 0},
      {1, 71, 1, 11226, 26629, 256, 0, 14, 24, 0, 0},
      {1, 16, 1, 776, 14404, 192, 0, 6, 10, 1, 1} /* key blocks for 1.1 rounds */,
      {1, 21, 3, 29741, 29741, 192, 1, 12, 32, 1, 7} /* for 7.05 */,
      {2, 20, 5, 10152, 10152, 256, 1, 2, 32, 1, 9} /* for 9.6, of 80 keys */,
      {1, 14, 2, 23714, 23714, 192, 1, 8, 10, 1, 3} /* whose heads L2 does not hold two of */,
      {32, 48, 3, 198, 198, 128, 1, 2, 2, 0, 0} /* whose rows would be read once more */,
      {1, 4, 1, 10494, 10494, 256, 0, 2, 2, 0, 0} /* two rounds, of 80 keys */,
      {1, 7, 1, 6920, 25548, 192, 1, 30, 48, 1, 2},
      {2, 14, 7, 7640, 7640, 256, 0, 1, 1, 0, 0},
      {1, 16, 1, 15567, 15567, 256, 0, 6, 8, 0, 0},
      {3, 8, 1, 2047, 2047, 256, 0, 3, 3, 1,
       0} /* few rounds, and parts that cost what they save */,
      {2, 24, 2, 2222, 3333, 256, 0, 4, 5, 0, 0},
      {2, 8, 1, 1500, 4000, 256, 0, 3, 3, 1, 0},
      {7, 16, 1, 1188, 1188, 256, 0, 7, 9, 0, 0},
      {1, 16, 1, 4100, 4100, 256, 0, 8, 10, 0, 0},
      {6, 16, 2, 825, 1459, 256, 0, 3, 3, 0,
       0} /* two would be whole rounds, whose walks come apart */,
      {5, 10, 2, 2140, 3367, 160, 0, 2, 2, 0, 0},
      {28, 16, 1, 837, 837, 128, 0, 4, 8, 0, 0},
      {3, 8, 1, 782, 985, 256, 1, 3, 3, 1, 0},
      {1, 10, 5, 16912, 16912, 128, 0, 1, 1, 0, 0},
      {4, 32, 8, 4096, 4096, 128, 0, 1, 2, 0, 0},
      {1, 32, 8, 65536, 65536, 128, 0, 1, 1, 0, 0} /* 1 GB a part */,
      {16, 10, 10, 2965, 2965, 192, 0, 1, 1, 0, 0},
      {1, 7, 1, 7255, 7255, 128, 1, 9, 9, 1, 0} /* by heads 3.02 rounds */,
      {1, 7, 1, 7255, 7255, 192, 1, 5, 5, 1, 0},
      {1, 8, 2, 1519, 10244, 256, 0, 1, 1, 0, 0} /* 1.95 rounds of key blocks of 80 keys */,
      {1, 16, 4, 60, 400, 64, 1, 1, 4, 0, 0} /* walks too short for it */,
  };
  ap_memo memo = {0};
  ap_device remembers = h200;
  remembers.memo = &memo;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    ap_problem problem = make_problem(cases[i].batch, cases[i].heads, cases[i].heads_kv,
                                      cases[i].queries, cases[i].keys, cases[i].hdim);
    ap_backward_plan plan;
    ap_launches launches, range;
    problem.mask = cases[i].full ? AP_ATTENTION_MASK_FULL : AP_ATTENTION_MASK_CAUSAL;
    assert_ok(ap_choose_backward(&problem, 0, &h200, &plan, &launches));
    if (plan.group_parts < cases[i].least || plan.group_parts > cases[i].most)
      fail_msg("case %zu: %d", i, plan.group_parts);
    const int64_t heads = (int64_t)problem.heads_kv * problem.batch;
    if (plan.by_steps != cases[i].by_steps ||
        plan.whole_blocks != cases[i].whole_rounds * h200.sm_count / heads)
      fail_msg("case %zu: %d, %d", i, plan.by_steps, plan.whole_blocks);
    if (plan.group_parts > 1) {
      assert_true(launches.launch[plan.dk_convert].overlaps);
      assert_true(launches.launch[plan.dv_convert].overlaps);
    }
    for (int again = 0; again < 2; ++again) {
      ap_backward_plan other;
      assert_ok(ap_choose_backward(&problem, 0, &remembers, &other, &launches));
      assert_int_equal(other.group_parts, plan.group_parts);
      assert_int_equal(other.by_steps, plan.by_steps);
      assert_int_equal(other.whole_blocks, plan.whole_blocks);
    }
    ap_problem maxima = problem;
    maxima.seqlen_q += 1000;
    maxima.seqlen_k += 1000;
    maxima.tma_min = maxima.tma_max = 1;
    assert_ok(ap_choose_backward_range(&maxima, 0, &h200, &range));
    assert_true(range.workspace_bytes >= launches.workspace_bytes);
  }
}

/** Which kernel is bwd of wide heads: that of few rows, that whose thread blocks take key blocks, that of 80
 * keys, or that of 64; and that a plan for longer calls has all of them. */
static void test_wide_heads(void **state) {
  (void)state;
  enum { FEW = 1, RUNS, LONG, PAIR };
  static const struct {
    int batch, heads, heads_kv, queries, keys, hdim, full, kernel;
  } cases[] = {
      {7, 9, 9, 98, 7530, 256, 1, FEW},
      {1, 60, 60, 110, 3325, 256, 0, FEW},
      {8, 8, 4, 64, 4000, 200, 1, FEW},
      {32, 16, 16, 128, 256, 256, 0, PAIR} /* four key blocks */,
      {1, 4, 4, 100, 2000, 256, 1, 0} /* fewer key blocks than SMs */,
      {8, 8, 4, 65, 4000, 256, 1, 0} /* four tiles of a group's rows */,
      {7, 9, 9, 98, 7530, 192, 1, 0},
      {32, 8, 8, 192, 2000, 256, 1, RUNS},
      {8, 16, 16, 200, 3000, 256, 0, RUNS},
      {8, 16, 16, 384, 3000, 256, 1, 0} /* six tiles of rows */,
      {2, 14, 14, 300, 1500, 256, 1, 0} /* five rounds of key blocks */,
      {8, 16, 16, 640, 3000, 256, 1, LONG},
      {32, 16, 16, 512, 512, 256, 1, PAIR},
      {1, 8, 8, 16384, 16384, 256, 1, LONG},
      {1, 71, 1, 22387, 22387, 256, 1, LONG},
      {5, 7, 1, 839, 839, 256, 1, LONG},
      {2, 4, 2, 2430, 2430, 256, 0, LONG},
      {1, 14, 1, 2047, 2047, 200, 1, LONG},
      {1, 4, 4, 5288, 5288, 256, 1, 0} /* a round of 66 key blocks as of 83 */,
      {1, 8, 8, 4096, 4096, 192, 1, 0},
  };
  ap_memo memo = {0};
  ap_device remembers = h200;
  remembers.memo = &memo;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    ap_problem problem = make_problem(cases[i].batch, cases[i].heads, cases[i].heads_kv,
                                      cases[i].queries, cases[i].keys, cases[i].hdim);
    problem.mask = cases[i].full ? AP_ATTENTION_MASK_FULL : AP_ATTENTION_MASK_CAUSAL;
    problem.tma_min = problem.tma_max = 1;
    ap_backward_plan plan;
    ap_launches launches, range;
    assert_ok(ap_choose_backward_range(&problem, 0, &h200, &range));
    for (int again = 0; again < 3; ++again) {
      assert_ok(ap_choose_backward(&problem, 0, again ? &remembers : &h200, &plan, &launches));
      int kernel = PAIR;
      for (int at = 0; at < launches.count; ++at) {
        const ap_launch *launch = &launches.launch[at];
        const int32_t *axis = launch->variant.axis;
        int found = 0;
        for (int j = 0; j < range.count; ++j)
          found |= range.launch[j].variant_key == launch->variant_key;
        assert_true(found);
        if (axis[AP_ATTENTION_PASS] != AP_ATTENTION_PASS_BWD)
          continue;
        assert_true(ap_variant_is_legal(&launch->variant));
        kernel = axis[AP_ATTENTION_FEW]         ? FEW
                 : axis[AP_ATTENTION_RUNS]      ? RUNS
                 : axis[AP_ATTENTION_LONG_ROWS] ? LONG
                                                : 0;
        if (kernel == FEW || kernel == RUNS)
          assert_int_equal(launch->grid, h200.sm_count);
        if (kernel == LONG)
          assert_int_equal(plan.blocks[at], (cases[i].keys + 79) / 80);
      }
      if (kernel != cases[i].kernel)
        fail_msg("case %zu: %d", i, kernel);
      assert_true(range.workspace_bytes >= launches.workspace_bytes);
      assert_true(kernel != FEW || (plan.zero_ahead == 0 && plan.group_parts == 1));
      assert_int_equal(plan.takes, kernel == RUNS);
    }
    /* Every bit of the pair's is the same in every run. */
    assert_ok(ap_choose_backward(&problem, 1, &h200, &plan, &launches));
    assert_int_equal(plan.fused, 0);
  }
}

/** Thread blocks of ragged calls take all key blocks of short sequences, whose dq needs no sum then. */
static void test_chained_key_blocks(void **state) {
  (void)state;
  enum { ROWS = 50456, LONGEST = 1486 };
  static const struct {
    int batch, rows, longest, heads_q, heads_kv, hdim, mask, softcap, direct, own_sums;
  } cases[] = {
      {256, ROWS, LONGEST, 16, 16, 128, AP_ATTENTION_MASK_CAUSAL, 0, 1536, 1},
      {256, ROWS, LONGEST, 16, 16, 104, AP_ATTENTION_MASK_CAUSAL, 0, 1536, 1},
      {256, ROWS, 300, 16, 16, 120, AP_ATTENTION_MASK_CAUSAL, 0, 384, 1},
      {256, ROWS, 4000, 16, 16, 128, AP_ATTENTION_MASK_CAUSAL, 0, 1024, 0} /* the longest unit */,
      {256, ROWS, LONGEST, 16, 16, 128, AP_ATTENTION_MASK_FULL, 0, 384,
       0} /* three blocks at most */,
      {256, ROWS, LONGEST, 32, 8, 104, AP_ATTENTION_MASK_FULL, 0, 384, 0},
      {170, 170 * 300, 300, 16, 16, 128, AP_ATTENTION_MASK_FULL, 0, 384, 1},
      {170, 170 * 300, 300, 32, 8, 128, AP_ATTENTION_MASK_FULL, 0, 128, 0} /* groups */,
      {120, 120 * 450, 900, 16, 16, 128, AP_ATTENTION_MASK_FULL, 0, 128, 0} /* long ones */,
      {256, 256 * 192, 192, 16, 16, 128, AP_ATTENTION_MASK_FULL, 0, 256, 1},
      {256, ROWS, LONGEST, 32, 8, 128, AP_ATTENTION_MASK_CAUSAL, 0, 768, 0},
      {256, ROWS, LONGEST, 32, 4, 128, AP_ATTENTION_MASK_CAUSAL, 0, 128, 0} /* few units */,
      {256, ROWS, LONGEST, 16, 16, 96, AP_ATTENTION_MASK_CAUSAL, 0, 128, 0},
      {256, ROWS, LONGEST, 16, 16, 128, AP_ATTENTION_MASK_CAUSAL, 1, 128, 0},
      {16, ROWS / 16, LONGEST, 16, 16, 128, AP_ATTENTION_MASK_CAUSAL, 0, 128, 0} /* few units */,
      {256, 256 * 1024, LONGEST, 16, 16, 128, AP_ATTENTION_MASK_CAUSAL, 0, 128, 0} /* long ones */,
      {512, 512 * 128, 128, 16, 16, 128, AP_ATTENTION_MASK_FULL, 0, 128, 0},
      {256, 256 * 192, 192, 16, 16, 128, AP_ATTENTION_MASK_FULL, 1, 128, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    ap_problem problem = make_problem(cases[i].batch, cases[i].heads_q, cases[i].heads_kv,
                                      cases[i].longest, cases[i].longest, cases[i].hdim);
    ap_backward_plan plan;
    ap_launches launches, range;
    int converts = 0;
    problem.mask = cases[i].mask;
    problem.softcap = cases[i].softcap;
    problem.sequences = AP_ATTENTION_SEQUENCES_RAGGED;
    problem.rows_q = problem.rows_k = cases[i].rows;
    assert_ok(ap_choose_backward(&problem, 0, &h200, &plan, &launches));
    if (plan.direct_keys != cases[i].direct || (plan.own_sums > 0) != cases[i].own_sums)
      fail_msg("case %zu: %d, %d", i, plan.direct_keys, plan.own_sums);
    int units = 0, in_range = 0; /* kernels whose units have several key blocks */
    for (int at = 0; at < launches.count; ++at) {
      if (backward_pass(&launches, at) == AP_ATTENTION_PASS_BWD_CONVERT) {
        ++converts;
        assert_int_equal(plan.order_of[at],
                         plan.order_of[1]); /* of bwd_delta, which counts its units */
      }
      units += ap_can_chain(&launches.launch[at].variant);
    }
    assert_int_equal(converts, cases[i].longest > cases[i].direct);
    assert_int_equal(units, cases[i].direct > 128);
    assert_int_equal(plan.has_sum, cases[i].longest > 128);
    assert_true(plan.own_sums == 0 || plan.own_sums == h200.sm_count);
    assert_ok(ap_choose_backward_range(&problem, 0, &h200, &range));
    assert_true(range.workspace_bytes >= launches.workspace_bytes);
    for (int at = 0; at < range.count; ++at)
      in_range += ap_can_chain(&range.launch[at].variant);
    assert_int_equal(in_range, cases[i].hdim > 96 && !cases[i].softcap && cases[i].longest > 128);
  }
}

/** Warps of bwd of ragged calls do what bwd_delta does, which has the first units then, in their order. */
static void test_shares_ahead(void **state) {
  (void)state;
  enum { ROWS = 50456, LONGEST = 1486, AHEAD = 264 };
  static const struct {
    int batch, rows, longest, heads_q, heads_kv, hdim, mask, softcap, dsinks, ahead;
  } cases[] = {
      {256, ROWS, LONGEST, 64, 8, 64, AP_ATTENTION_MASK_FULL, 0, 0, AHEAD},
      {256, ROWS, LONGEST, 64, 8, 64, AP_ATTENTION_MASK_CAUSAL, 0, 0, AHEAD},
      {256, ROWS, LONGEST, 32, 8, 40, AP_ATTENTION_MASK_FULL, 0, 0, AHEAD},
      {64, 60000, 4096, 64, 8, 64, AP_ATTENTION_MASK_FULL, 0, 0, AHEAD},
      {512, 512 * 128, 128, 64, 8, 64, AP_ATTENTION_MASK_FULL, 0, 0, AHEAD} /* no sum */,
      {16, 65536, 4096, 64, 8, 64, AP_ATTENTION_MASK_FULL, 0, 0, 0} /* too far apart */,
      {256, ROWS, LONGEST, 16, 16, 64, AP_ATTENTION_MASK_FULL, 0, 0, AHEAD},
      {20, 4000, 300, 64, 8, 64, AP_ATTENTION_MASK_FULL, 0, 0, 0} /* few units */,
      {1100, 4 * ROWS, LONGEST, 64, 8, 64, AP_ATTENTION_MASK_FULL, 0, 0, 0} /* many sequences */,
      {256, ROWS, LONGEST, 64, 8, 72, AP_ATTENTION_MASK_FULL, 0, 0, 0},
      {256, ROWS, LONGEST, 64, 8, 64, AP_ATTENTION_MASK_FULL, 1, 0, 0},
      {256, ROWS, LONGEST, 64, 8, 64, AP_ATTENTION_MASK_FULL, 0, 1, 0} /* reads delta */,
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    ap_problem problem = make_problem(cases[i].batch, cases[i].heads_q, cases[i].heads_kv,
                                      cases[i].longest, cases[i].longest, cases[i].hdim);
    ap_backward_plan plan;
    ap_launches launches, range;
    int delta = 0, bwd = 0;
    problem.mask = cases[i].mask;
    problem.softcap = cases[i].softcap;
    problem.dsinks = cases[i].dsinks;
    problem.sequences = AP_ATTENTION_SEQUENCES_RAGGED;
    problem.rows_q = problem.rows_k = cases[i].rows;
    assert_ok(ap_choose_backward(&problem, 0, &h200, &plan, &launches));
    if (plan.zero_ahead != cases[i].ahead)
      fail_msg("case %zu: %d", i, plan.zero_ahead);
    for (int at = 0; at < launches.count; ++at) {
      delta = backward_pass(&launches, at) == AP_ATTENTION_PASS_BWD_DELTA ? at : delta;
      bwd = backward_pass(&launches, at) == AP_ATTENTION_PASS_BWD ? at : bwd;
    }
    assert_int_equal(plan.order_of[delta] == plan.order_of[bwd], plan.zero_ahead > 0);
    if (plan.zero_ahead > 0)
      assert_int_equal(launches.launch[delta].grid, AHEAD * (cases[i].heads_q / cases[i].heads_kv));
    assert_ok(ap_choose_backward_range(&problem, 0, &h200, &range));
    assert_true(range.workspace_bytes >= launches.workspace_bytes);
  }
}

/** Where rows see few keys wide heads run the pair, which a plan for longer calls has as well. */
static void test_short_pair(void **state) {
  (void)state;
  static const struct {
    int batch, queries, keys, hdim, causal, heads, heads_kv, paired;
  } rows[] = {
      {32, 512, 512, 256, 0, 8, 8, 1},
      {16, 1024, 1024, 256, 1, 8, 8, 1},
      {16, 1024, 1024, 256, 0, 8, 8, 0},
      {8, 2048, 2048, 256, 1, 8, 8, 0},
      {1, 512, 512, 256, 0, 8, 8, 0} /* few thread blocks */,
      {32, 371, 371, 256, 1, 12, 1, 1} /* 192 */,
      {10, 768, 768, 256, 1, 8, 1, 0} /* 120, and more keys */,
      {2, 757, 757, 256, 1, 8, 1, 0},
      {32, 512, 512, 192, 0, 8, 8, 0},
      {42, 192, 192, 192, 1, 8, 8, 1},
      {32, 512, 512, 192, 1, 8, 8, 0},
      {32, 76, 76, 192, 0, 29, 29, 0} /* a block's keys */,
      {32, 411, 411, 192, 1, 71, 1, 1} /* 224 */,
      {32, 771, 771, 192, 1, 16, 1, 1},
      {32, 374, 374, 160, 1, 55, 11, 1},
      {32, 200, 200, 160, 0, 32, 8, 0},
      {40, 128, 128, 160, 0, 32, 8, 1},
      {10, 777, 777, 136, 1, 32, 8, 0},
      {10, 777, 777, 152, 1, 32, 8, 1},
      {32, 650, 650, 192, 1, 6, 3, 0},
      {32, 300, 300, 192, 1, 16, 8, 1},
      {16, 1024, 1024, 192, 1, 32, 8, 1},
      {16, 1100, 1100, 192, 1, 32, 8, 0},
      {32, 192, 192, 128, 1, 32, 8, 1},
      {32, 192, 192, 128, 1, 16, 8, 0},
      {32, 192, 192, 128, 0, 32, 8, 0},
      {4, 192, 192, 128, 1, 32, 8, 0} /* few thread blocks */,
      {32, 800, 800, 128, 1, 32, 8, 0},
      {32, 64, 64, 256, 1, 48, 6, 1},
      {32, 64, 64, 256, 1, 12, 6, 0} /* a block's keys, without a group */,
      {32, 67, 79, 256, 1, 4, 1, 1} /* 64 */,
      {12, 368, 368, 256, 1, 16, 1, 1},
      {8, 600, 600, 256, 1, 16, 1, 0},
      {32, 93, 93, 192, 1, 36, 9, 1},
      {32, 75, 75, 192, 1, 16, 1, 0},
      {32, 214, 214, 192, 0, 12, 3, 1},
      {32, 153, 153, 192, 0, 14, 7, 0},
      {32, 297, 466, 256, 0, 8, 8, 1},
      {32, 172, 479, 256, 0, 8, 8, 1},
      {32, 172, 700, 256, 0, 8, 8, 0} /* a third of bwd_dq's rows would be past the end */,
      {16, 191, 1479, 256, 0, 14, 14, 1} /* few rows, so key blocks walk over little */,
      {32, 128, 2000, 256, 0, 8, 8, 0} /* rows that stay in shared memory */,
      {32, 256, 2000, 256, 0, 8, 8, 1},
      {26, 130, 900, 256, 0, 10, 10, 0} /* half of bwd_dq's rows */,
      {9, 90, 4000, 256, 0, 21, 21, 0},
      {12, 260, 2600, 256, 0, 20, 20, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const int32_t mask = rows[i].causal ? AP_ATTENTION_MASK_CAUSAL : AP_ATTENTION_MASK_FULL;
    ap_problem problem = make_problem(rows[i].batch, rows[i].heads, rows[i].heads_kv,
                                      rows[i].queries, rows[i].keys, rows[i].hdim);
    ap_backward_plan plan;
    ap_launches launches, range;
    problem.mask = mask;
    assert_ok(ap_choose_backward(&problem, 0, &h200, &plan, &launches));
    if (plan.fused == rows[i].paired)
      fail_msg("row %zu: %d", i, plan.fused);
    for (int at = 0; at < launches.count && !plan.fused; ++at)
      assert_int_equal(launches.launch[at].overlaps, at > 0);
    ap_problem maxima = problem;
    maxima.batch = 64;
    maxima.seqlen_q = maxima.seqlen_k = 4096;
    maxima.tma_min = maxima.tma_max = 1;
    assert_ok(ap_choose_backward_range(&maxima, 0, &h200, &range));
    assert_true(range.workspace_bytes >= launches.workspace_bytes);
    for (int at = 0; at < launches.count; ++at) {
      int found = 0;
      for (int j = 0; j < range.count; ++j)
        found |= range.launch[j].variant_key == launches.launch[at].variant_key;
      assert_true(found);
    }
  }
}

static void test_split_plan(void **state) {
  (void)state;
  ap_problem problem = make_problem(1, 8, 2, 1, 100000, 128);
  ap_device held_back = h200;
  ap_plan plan;
  problem.num_splits = 7;
  held_back.arch_max = 80;
  assert_ok(ap_choose(&problem, &held_back, &plan));
  assert_int_equal(plan.variant.axis[AP_ATTENTION_SPLIT], 1);
  assert_int_equal(plan.num_splits, 7);
  assert_int_equal(plan.heads_per_tile, 4);
  const int key_blocks = (100000 + plan.tile.field[AP_ATTENTION_TILE_BLOCK_N] - 1) /
                         plan.tile.field[AP_ATTENTION_TILE_BLOCK_N];
  assert_int_equal(plan.key_blocks_per_split, (key_blocks + 6) / 7);
  assert_int_equal(plan.grid, 2 * 7);
  char stem[AP_STEM_MAX];
  assert_ok(ap_variant_print(&plan.combine, stem));
  assert_string_equal(stem, "flash_fwd_combine_hdim128_bf16_sm80");
  assert_string_equal(plan.combine_target, "sm_90");
  assert_int_equal(plan.combine_tile.field[AP_ATTENTION_TILE_BLOCK_M], 1);
  assert_int_equal(plan.combine_grid,
                   8 * ((128 + plan.combine_tile.field[AP_ATTENTION_TILE_BLOCK_N] - 1) /
                        plan.combine_tile.field[AP_ATTENTION_TILE_BLOCK_N]));
  const size_t out_bytes = (size_t)7 * 8 * 128 * 4;
  assert_int_equal(plan.lse_partial_offset_bytes, out_bytes);
  assert_int_equal(plan.workspace_bytes, out_bytes + (size_t)7 * 8 * 4);

  /* 3 rows of head dim 8, 2 splits: 192 bytes, so that the second part begins at the next 256. */
  problem = make_problem(1, 3, 3, 1, 64, 8);
  problem.num_splits = 2;
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.lse_partial_offset_bytes, 256);
  assert_int_equal(plan.workspace_bytes, 256 + 24);

  /* One split needs no workspace and no combining. */
  problem.num_splits = 1;
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.variant.axis[AP_ATTENTION_SPLIT], 0);
  assert_int_equal(plan.workspace_bytes, 0);
  assert_int_equal(plan.combine_grid, 0);

  /* No keys: one split, no key blocks, and a launch all the same, which writes zeros. */
  problem = make_problem(1, 8, 8, 5, 0, 64);
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.num_splits, 1);
  assert_int_equal(plan.key_blocks_per_split, 0);
  assert_true(plan.grid > 0);

  /* Empty outputs: nothing to launch. */
  problem = make_problem(0, 8, 8, 5, 64, 64);
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.grid, 0);
  problem = make_problem(2, 8, 8, 0, 64, 64);
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.grid, 0);
  problem = make_problem(2, 0, 8, 5, 64, 64);
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.grid, 0);
}

/** A thread block of the combine kernel adds up one row where splits are many or rows few, and else a
 * row a group of 8 threads. */
static void test_combine_rows(void **state) {
  (void)state;
  static const struct {
    int batch, heads_q, heads_kv, seqlen_q, hdim, splits, sequences;
    int want; /* rows */
  } rows[] = {
      {1, 5, 1, 3459, 64, 4, 0, 16},   {1, 5, 1, 3459, 64, 16, 0, 16},
      {1, 5, 1, 3459, 64, 17, 0, 1},   {3, 16, 1, 99, 192, 3, 0, 16},
      {1, 32, 8, 1, 128, 16, 0, 1},    {1, 16, 16, 33, 128, 2, 0, 1}, /* 2112 at once, not more */
      {1, 16, 16, 34, 128, 2, 0, 16},  {1, 16, 16, 34, 104, 2, 0, 16},
      {1, 16, 16, 66, 128, 40, 1, 1}, /* of sequences, most of which have few splits */
      {1, 16, 16, 67, 128, 40, 1, 16},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_problem problem = make_problem(rows[i].batch, rows[i].heads_q, rows[i].heads_kv,
                                      rows[i].seqlen_q, 3000, rows[i].hdim);
    ap_plan plan;
    problem.num_splits = rows[i].splits;
    problem.sequences = rows[i].sequences;
    assert_ok(ap_choose(&problem, &h200, &plan));
    if (plan.combine_block_rows != rows[i].want)
      fail_msg("row %zu: %d rows", i, plan.combine_block_rows);
    const int all = rows[i].batch * rows[i].heads_q * rows[i].seqlen_q;
    assert_int_equal(plan.combine_grid,
                     (all + rows[i].want - 1) / rows[i].want * ((rows[i].hdim + 31) / 32));
  }
}

/** Where only bounds of the lengths are known, a decoding call is split so that the longest sequence
 * keeps no thread block for long, and a split has much to read all the same. */
static void test_splits_of_sequences(void **state) {
  (void)state;
  ap_problem problem = make_problem(64, 32, 8, 1, 16384, 128);
  problem.hdim_v = 128;
  ap_plan plan;
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.num_splits, 1); /* 512 thread blocks, and all have as much to do */
  for (problem.sequences = AP_ATTENTION_SEQUENCES_RAGGED;
       problem.sequences <= AP_ATTENTION_SEQUENCES_PAGED; ++problem.sequences) {
    problem.seqlen_k = 16384;
    assert_ok(ap_choose(&problem, &h200, &plan));
    assert_int_equal(plan.runs,
                     2 * h200.sm_count / 8); /* of all sequences: two thread blocks an SM */
    assert_int_equal(plan.grid, plan.runs * 8);
    assert_int_equal(plan.variant.axis[AP_ATTENTION_RUNS], 1);
    assert_int_equal(ap_needs_combine(&plan), 0);
    assert_true(plan.cuts_offset_bytes + (size_t)plan.grid * 8 <= plan.workspace_bytes);
    problem.batch = 16; /* fewer row blocks than SMs, and long */
    assert_ok(ap_choose(&problem, &h200, &plan));
    assert_true(plan.runs > 0);
    problem.batch = 8;
    assert_ok(ap_choose(&problem, &h200, &plan));
    const int keys = plan.key_blocks_per_split * plan.tile.field[AP_ATTENTION_TILE_BLOCK_N];
    assert_int_equal(plan.runs, 0);
    assert_true(plan.num_splits >= 8);
    assert_in_range(keys * 2 * 128 * 2, 256 * 1024, 2048 * 1024);
    assert_true((int64_t)keys * plan.num_splits >= problem.seqlen_k);
    problem.appends = 1; /* as runs write new keys themselves */
    assert_ok(ap_choose(&problem, &h200, &plan));
    assert_int_equal(plan.variant.axis[AP_ATTENTION_APPEND], 1);
    problem.appends = 0;
    problem.batch = 64;
    problem.seqlen_k = 500;
    assert_ok(ap_choose(&problem, &h200, &plan));
    assert_int_equal(plan.num_splits, 1);
    problem.batch = 10; /* parts would cost more than SMs without work */
    problem.seqlen_k = 1024;
    assert_ok(ap_choose(&problem, &h200, &plan));
    assert_int_equal(plan.num_splits, 1);
    problem.seqlen_k = 2048;
    assert_ok(ap_choose(&problem, &h200, &plan));
    assert_true(plan.num_splits > 1);
    problem.batch = 1; /* equal parts of a sequence's own keys */
    problem.seqlen_k = 8192;
    assert_ok(ap_choose(&problem, &h200, &plan));
    assert_true(plan.num_splits > 8);
    assert_int_equal(plan.key_blocks_per_split, 1);
    problem.batch = 256;
    assert_ok(ap_choose(&problem, &h200, &plan));
    assert_true(plan.runs > 0);
    problem.seqlen_k = 2900; /* lengths are more alike */
    assert_ok(ap_choose(&problem, &h200, &plan));
    assert_in_range(plan.num_splits, 2, 4); /* many sequences: no more than their longest need */
    problem.heads_q = 64;                   /* whose parts would cost more than that saves */
    assert_ok(ap_choose(&problem, &h200, &plan));
    assert_int_equal(plan.num_splits, 1);
    problem.heads_q = 32;
    problem.batch = 64;
  }
  problem = make_problem(256, 56, 7, 1, 4096, 64); /* so many row blocks at head dim 64 */
  problem.hdim_v = 64;
  problem.sequences = AP_ATTENTION_SEQUENCES_PAGED;
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_true(plan.runs > 0);
  assert_int_equal(ap_needs_combine(&plan), 1);
  problem.sequences = AP_ATTENTION_SEQUENCES_RAGGED;
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.runs, 0);
}

/** At head dim 64 a thread block of Hopper's has eight key heads over its run, where there are as many, of
 * few rows, and where sequences are many or long. */
static void test_shared_keys(void **state) {
  (void)state;
  static const struct {
    int batch, heads_q, heads_kv, seqlen_k, arch; /* 0: no runs */
  } rows[] = {
      {256, 64, 8, 4096, 90},  {64, 64, 8, 16384, 90}, {64, 8, 8, 16384, 90},
      {256, 64, 16, 4096, 90}, {64, 64, 8, 4096, 80},  {256, 56, 7, 4096, 80},
      {256, 96, 8, 4096, 80},  {16, 64, 8, 65536, 80}, {8, 64, 8, 16384, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    for (int sequences = AP_ATTENTION_SEQUENCES_RAGGED; sequences <= AP_ATTENTION_SEQUENCES_PAGED;
         ++sequences) {
      ap_problem problem =
          make_problem(rows[i].batch, rows[i].heads_q, rows[i].heads_kv, 1, rows[i].seqlen_k, 64);
      ap_plan plan;
      problem.hdim_v = 64;
      problem.sequences = sequences;
      assert_ok(ap_choose(&problem, &h200, &plan));
      if (rows[i].arch == 90 || sequences == AP_ATTENTION_SEQUENCES_PAGED)
        assert_int_equal(plan.runs > 0 ? plan.variant.axis[AP_ATTENTION_ARCH] : 0, rows[i].arch);
      if (rows[i].arch != 90)
        continue;
      const int heads = rows[i].heads_kv, groups = heads / AP_ATTENTION_RUNS_HEADS;
      assert_int_equal(plan.runs, h200.sm_count / groups);
      assert_int_equal(plan.grid, plan.runs * groups);
      assert_int_equal(ap_needs_combine(&plan), 0);
      assert_int_equal(ap_is_scheduled(&plan), 0);
      const size_t part_rows = 2 * (size_t)(plan.runs * heads) * AP_ATTENTION_FEW_ROWS;
      assert_true(plan.lse_partial_offset_bytes >= part_rows * 64 * sizeof(float));
      assert_true(plan.cuts_offset_bytes >= plan.lse_partial_offset_bytes + part_rows * 4);
      assert_true(plan.cuts_offset_bytes + (size_t)(plan.runs * heads) * 8 <= plan.workspace_bytes);
      ap_device other = h200;
      other.arch_max = 80;
      assert_ok(ap_choose(&problem, &other, &plan));
      assert_int_equal(plan.variant.axis[AP_ATTENTION_ARCH], 80);
    }
}

/** A split of many wide sequences has twice as much to read, as its part is as wide; but not where its
 * longest sequences would keep thread blocks for long. Where thread blocks are few it has less. */
static void test_bytes_of_a_split(void **state) {
  (void)state;
  enum { KB = 1024 };
  static const struct {
    int batch, heads_q, heads_kv, seqlen_k, hdim, want_kb;
  } rows[] = {
      {8, 16, 16, 32768, 128, 1024}, {8, 16, 16, 32768, 256, 1024}, {8, 16, 16, 16384, 64, 512},
      {8, 32, 8, 16384, 128, 512},   {8, 32, 8, 131072, 128, 512},  {16, 16, 4, 16384, 256, 512},
      {8, 16, 16, 4096, 128, 512},   {1, 32, 8, 131072, 128, 512},  {4, 64, 8, 8192, 64, 128},
      {8, 64, 8, 16384, 64, 512},    {10, 28, 4, 4096, 128, 128},   {8, 28, 4, 8192, 128, 512},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_problem problem = make_problem(rows[i].batch, rows[i].heads_q, rows[i].heads_kv, 1,
                                      rows[i].seqlen_k, rows[i].hdim);
    ap_plan plan;
    problem.sequences = AP_ATTENTION_SEQUENCES_PAGED;
    assert_ok(ap_choose(&problem, &h200, &plan));
    const int keys = plan.key_blocks_per_split * plan.tile.field[AP_ATTENTION_TILE_BLOCK_N];
    if (keys * 4 * rows[i].hdim != rows[i].want_kb * KB)
      fail_msg("row %zu: %d keys of a split", i, keys);
  }
}

static void test_too_large(void **state) {
  (void)state;
  ap_problem problem = make_problem(1 << 16, 1 << 10, 1 << 10, 1 << 12, 64, 64);
  ap_plan plan;
  assert_int_equal(ap_choose(&problem, &old_h200, &plan), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("2^31 - 1");
  assert_int_equal(ap_choose(&problem, &h200, &plan), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("2^29");
  problem = make_problem(1 << 12, 1 << 7, 1 << 7, 1 << 13, 64, 64);
  problem.num_splits = 256;
  assert_int_equal(ap_choose(&problem, &h200, &plan), ATTNPRESS_NOT_SUPPORTED);
  problem = make_problem(1, 8, 1, INT32_MAX, 64, 64);
  problem.num_splits = 1;
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.heads_per_tile, 1);
}

static unsigned long long seed = 42;
static int random_below(int n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((seed >> 33) % (unsigned)n);
}

static ap_problem random_problem(int any) {
  static const int groups[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 64, 71};
  const int group = groups[random_below(12)], heads_kv = 1 + random_below(4);
  ap_problem problem = make_problem(any ? 0 : 1 + random_below(8), group * heads_kv, heads_kv,
                                    any               ? 0
                                    : random_below(3) ? 1 + random_below(140)
                                                      : 1 + random_below(5000),
                                    any ? 0 : 1 + random_below(random_below(2) ? 70000 : 700),
                                    8 * (1 + random_below(64)));
  problem.mask = random_below(3);
  if (problem.mask == ATTNPRESS_WINDOW) {
    problem.window_left = random_below(3) ? random_below(random_below(2) ? 5000 : 50) : INT32_MAX;
    problem.window_right = random_below(3) ? 0 : random_below(200);
    problem.window_chunk = random_below(3) ? 0 : 1 + random_below(3000);
    problem.window_top_left = random_below(4) == 0;
  }
  problem.softcap = random_below(4) == 0;
  problem.alibi = random_below(4) == 0;
  problem.bias = random_below(3) ? 0 : 1 + random_below(3);
  problem.dropout = random_below(4) == 0;
  problem.sequences = problem.bias ? 0 : random_below(3);
  problem.num_splits = random_below(3);
  problem.tma_min = random_below(4) > 0;
  problem.tma_max = problem.tma_min + random_below(2 - problem.tma_min);
  problem.tma = problem.tma_max;
  return problem;
}

static int range_has(const ap_launches *range, const ap_variant *variant, const char *target) {
  for (int i = 0; i < range->count; ++i)
    if (range->launch[i].variant_key == ap_variant_key(variant) &&
        memcmp(&range->launch[i].variant, variant, sizeof *variant) == 0 &&
        strcmp(range->launch[i].target, target) == 0)
      return 1;
  return 0;
}

/** Splits at fixed places are added up by a thread block a row where these are few, and no more splits than
 * it has room for, and else by a warp; a range has both kernels. */
static void test_combine_few_rows(void **state) {
  (void)state;
  static const struct {
    int batch, heads_q, seqlen_q, seqlen_k, hdim, few;
  } rows[] = {
      {1, 32, 1, 8192, 64, 1},
      {1, 32, 1, 8192, 128, 1},
      {2, 32, 1, 2048, 128, 1},
      {5, 32, 1, 4096, 64, 1},
      /* 320 thread blocks */ {6, 32, 1, 4096, 64, 0},
      {8, 32, 1, 4096, 64, 0},
      {1, 32, 3, 8192, 96, 1},
      {1, 32, 4, 8192, 96, 0},
      {1, 32, 1, 16384, 64, 1},
      {1, 32, 1, 16385, 64, 0}, /* 32 splits, and one more */
      {3, 32, 1, 3000, 128, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_problem problem = make_problem(rows[i].batch, rows[i].heads_q, 8, rows[i].seqlen_q,
                                      rows[i].seqlen_k, rows[i].hdim);
    ap_plan plan;
    ap_launches range;
    problem.sequences = AP_ATTENTION_SEQUENCES_RAGGED;
    problem.batch_invariant = 1;
    assert_ok(ap_choose(&problem, &h200, &plan));
    if (!ap_needs_combine(&plan) || plan.combine.axis[AP_ATTENTION_FEW] != rows[i].few)
      fail_msg("row %zu: few %d of %d splits", i, plan.combine.axis[AP_ATTENTION_FEW],
               plan.num_splits);
    const int block_rows = rows[i].few ? 1 : 4;
    const int all = rows[i].batch * rows[i].heads_q * rows[i].seqlen_q;
    assert_true(plan.combine_key == ap_variant_key(&plan.combine));
    assert_int_equal(plan.combine_tile.threads, 128);
    assert_int_equal(plan.combine_block_rows, block_rows);
    assert_int_equal(plan.combine_grid,
                     (all + block_rows - 1) / block_rows * ((rows[i].hdim + 31) / 32));
    assert_ok(ap_choose_range(&problem, &h200, &range));
    for (int few = 0; few < 2; ++few) {
      plan.combine.axis[AP_ATTENTION_FEW] = few;
      assert_true(range_has(&range, &plan.combine, plan.combine_target));
    }
  }
}

/** A plan of a range holds every kernel that a call within its maxima may choose, and its workspace
 * is enough for each of them: 10,000 calls in ranges with maxima and without. */
static void test_ranges(void **state) {
  (void)state;
  static const ap_device *const devices[] = {&h200, &old_h200, &a100, &a10};
  enum { RANGES = 1000, CALLS = 10 };
  int split = 0, bounded = 0;
  for (int trial = 0; trial < RANGES; ++trial) {
    const ap_device *device = devices[random_below(4)];
    const ap_problem maxima = random_problem(random_below(3) == 0);
    ap_launches range;
    assert_ok(ap_choose_range(&maxima, device, &range));
    for (int call = 0; call < CALLS; ++call) {
      ap_problem problem = maxima;
      ap_plan plan;
      problem.batch = 1 + random_below(maxima.batch ? maxima.batch : 300);
      problem.seqlen_q = 1 + random_below(random_below(2)   ? 40
                                          : maxima.seqlen_q ? maxima.seqlen_q
                                                            : 9000);
      if (maxima.seqlen_q && problem.seqlen_q > maxima.seqlen_q)
        problem.seqlen_q = maxima.seqlen_q;
      problem.seqlen_k = 1 + random_below(maxima.seqlen_k ? maxima.seqlen_k : 200000);
      problem.tma = random_below(2) ? maxima.tma_min : maxima.tma_max;
      if (ap_choose(&problem, device, &plan) == ATTNPRESS_NOT_SUPPORTED)
        continue; /* more rows than can be split */
      assert_true(plan.variant_key == ap_variant_key(&plan.variant));
      assert_true(ap_variant_is_legal(&plan.variant));
      if (plan.variant.axis[AP_ATTENTION_SPLIT])
        assert_true(plan.combine_key == ap_variant_key(&plan.combine));
      if (!range_has(&range, &plan.variant, plan.target) ||
          (plan.variant.axis[AP_ATTENTION_SPLIT] &&
           !range_has(&range, &plan.combine, plan.combine_target)))
        fail_msg("%d/%d heads of %d, batch %d, seqlen_q %d of %d, seqlen_k %d of %d, mask %d, %d "
                 "splits: a kernel is missing",
                 problem.heads_q, problem.heads_kv, problem.hdim, problem.batch, problem.seqlen_q,
                 maxima.seqlen_q, problem.seqlen_k, maxima.seqlen_k, problem.mask,
                 problem.num_splits);
      if (plan.workspace_bytes > range.workspace_bytes)
        fail_msg("batch %d, seqlen_q %d, seqlen_k %d, %d splits: %zu bytes in a range of %zu",
                 problem.batch, problem.seqlen_q, problem.seqlen_k, plan.num_splits,
                 plan.workspace_bytes, range.workspace_bytes);
      split += plan.variant.axis[AP_ATTENTION_SPLIT];
      bounded += plan.workspace_bytes > 0 && range.workspace_bytes < SIZE_MAX;
    }
  }
  assert_true(split > 2000 && bounded > 1000);
}

/** Short dense calls run sm80's kernels, of which an SM has two thread blocks at once, and calls beside
 * them sm90's. A plan for any such call has both. */
static void test_short_calls(void **state) {
  (void)state;
  static const struct {
    int batch, heads_q, heads_kv, seqlen_q, seqlen_k, hdim, causal, arch;
  } rows[] = {
      {27, 8, 8, 46, 46, 128, 0, 80}, /* 216 row blocks at once */
      {33, 8, 8, 46, 46, 128, 0, 80}, /* 264 */
      {34, 8, 8, 46, 46, 128, 0, 90}, /* 272 */
      {16, 8, 8, 46, 46, 128, 0, 90}, /* 128, an SM each */
      {27, 8, 8, 46, 64, 128, 1, 80},
      {27, 8, 8, 46, 65, 128, 1, 90}, /* two key blocks */
      {27, 8, 2, 46, 46, 128, 0, 90}, /* heads that share a tile, of sm90's, */
      {29, 8, 2, 124, 37, 128, 1, 90},
      {40, 8, 2, 13, 13, 128, 0, 90}, /* and of both */
      {24, 20, 5, 13, 13, 64, 0, 90},
      {12, 17, 17, 19, 19, 160, 0, 80},
      {12, 17, 17, 19, 33, 160, 0, 90}, /* two key blocks of 32 */
      {12, 17, 17, 19, 19, 192, 0, 90}, /* an SM has one thread block of sm80's */
      {8, 24, 24, 24, 17, 256, 0, 80},
      {39, 4, 4, 66, 66, 64, 0, 80}, /* two key blocks of narrow heads, */
      {39, 4, 4, 66, 128, 80, 1, 80},
      {39, 4, 4, 66, 128, 88, 1, 90},
      {39, 4, 4, 66, 129, 80, 1, 90},
      {69, 14, 14, 31, 31, 64, 0, 80}, /* 8 turns, 4 rounds, */
      {46, 14, 14, 31, 31, 64, 0, 90}, /* 5, 3; */
      {69, 14, 14, 31, 65, 64, 0, 90},
      {69, 14, 14, 31, 31, 96, 0, 90},
      {2, 13, 13, 45, 64, 64, 0, 80}, /* one row block an SM, */
      {2, 14, 7, 17, 17, 80, 0, 80},
      {2, 14, 7, 17, 17, 88, 0, 90},
      {2, 13, 13, 45, 64, 64, 1, 90}, /* of a causal call, */
      {2, 13, 13, 45, 65, 64, 0, 90},
      {2, 13, 13, 45, 0, 64, 0, 90},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_problem problem = make_problem(rows[i].batch, rows[i].heads_q, rows[i].heads_kv,
                                      rows[i].seqlen_q, rows[i].seqlen_k, rows[i].hdim);
    ap_problem any = problem;
    ap_plan plan;
    ap_launches range;
    problem.mask = any.mask = rows[i].causal ? ATTNPRESS_CAUSAL : ATTNPRESS_FULL;
    assert_ok(ap_choose(&problem, &h200, &plan));
    if (plan.variant.axis[AP_ATTENTION_ARCH] != rows[i].arch)
      fail_msg("row %zu: sm%d", i, plan.variant.axis[AP_ATTENTION_ARCH]);
    assert_int_equal(plan.num_splits, 1);
    assert_string_equal(plan.target, rows[i].arch == 80 ? "sm_90" : "sm_90a");
    any.batch = any.seqlen_q = any.seqlen_k = 0;
    assert_ok(ap_choose_range(&any, &h200, &range));
    assert_true(range_has(&range, &plan.variant, plan.target));
  }
}

/** Not so what differs from a plain call. */
static void test_calls_that_are_not_short(void **state) {
  (void)state;
  const ap_problem plain = make_problem(25, 8, 8, 23, 23, 64);
  ap_problem others[10];
  ap_plan plan;
  for (int i = 0; i < 10; ++i)
    others[i] = plain;
  others[0].softcap = 1;
  others[1].alibi = 1;
  others[2].bias = ATTNPRESS_FP32;
  others[3].dropout = 1;
  others[4].mod_score = 1;
  others[5].mod_mask = 1;
  others[6].mask = ATTNPRESS_WINDOW;
  others[7].batch_invariant = 1;
  others[8].num_splits = 2;
  others[9].hdim_v = 56;
  assert_ok(ap_choose(&plain, &h200, &plan));
  assert_int_equal(plan.variant.axis[AP_ATTENTION_ARCH], 80);
  for (int i = 0; i < 10; ++i) {
    assert_ok(ap_choose(&others[i], &h200, &plan));
    if (plan.variant.axis[AP_ATTENTION_ARCH] != 90)
      fail_msg("case %d", i);
  }
}

/** Backward calls whose rows are one step of sm80's kernel, and whose blocks of keys are more than SMs,
 * run that, where an SM has two thread blocks of it. */
static void test_backward_of_few_rows(void **state) {
  (void)state;
  static const struct {
    int batch, heads_q, heads_kv, seqlen_q, seqlen_k, hdim, deterministic, arch;
  } rows[] = {
      {57, 6, 6, 28, 20, 64, 0, 80},  {57, 6, 6, 32, 20, 64, 0, 80},  {57, 6, 6, 33, 20, 64, 0, 90},
      {57, 6, 6, 28, 20, 64, 1, 90},  {57, 6, 6, 28, 20, 128, 0, 90}, {22, 6, 6, 28, 20, 64, 0, 90},
      {22, 6, 6, 28, 129, 64, 0, 80}, {31, 72, 9, 9, 9, 64, 0, 80},   {22, 6, 6, 0, 129, 64, 0, 90},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_problem problem = make_problem(rows[i].batch, rows[i].heads_q, rows[i].heads_kv,
                                      rows[i].seqlen_q, rows[i].seqlen_k, rows[i].hdim);
    ap_backward_plan plan;
    ap_launches launches, range;
    int kernels = 0;
    problem.mask = i % 2 ? ATTNPRESS_CAUSAL : ATTNPRESS_FULL;
    assert_ok(ap_choose_backward(&problem, rows[i].deterministic, &h200, &plan, &launches));
    assert_ok(ap_choose_backward_range(&problem, rows[i].deterministic, &h200, &range));
    assert_true(range.workspace_bytes >= launches.workspace_bytes);
    for (int at = 0; at < launches.count; ++at) {
      const ap_launch *launch = &launches.launch[at];
      const int32_t pass = launch->variant.axis[AP_ATTENTION_PASS];
      assert_true(range_has(&range, &launch->variant, launch->target));
      if (pass != AP_ATTENTION_PASS_BWD && pass != AP_ATTENTION_PASS_BWD_DKV)
        continue;
      ++kernels;
      if (launch->variant.axis[AP_ATTENTION_ARCH] != rows[i].arch)
        fail_msg("row %zu: sm%d", i, launch->variant.axis[AP_ATTENTION_ARCH]);
      assert_int_equal(launch->overlaps, rows[i].arch == 90);
    }
    assert_int_equal(kernels, 1);
  }
  for (int i = 0; i < 2; ++i) { /* with dropout, a window */
    ap_problem problem = make_problem(57, 6, 6, 28, 20, 48);
    ap_backward_plan plan;
    ap_launches launches;
    problem.dropout = i == 0;
    problem.mask = i == 1 ? ATTNPRESS_WINDOW : ATTNPRESS_FULL;
    problem.window_left = 3;
    assert_ok(ap_choose_backward(&problem, 0, &h200, &plan, &launches));
    assert_int_equal(backward_pass(&launches, 1), AP_ATTENTION_PASS_BWD);
    assert_int_equal(launches.launch[1].variant.axis[AP_ATTENTION_ARCH], 90);
  }
}

/** With one key a window of some keys to the right hides it from queries far before it, as no causal mask
 * does: the range has that kernel, too. */
static void test_range_of_one_key(void **state) {
  (void)state;
  for (int chunk = 0; chunk <= 5; chunk += 5)
    for (int seqlen_q = 1; seqlen_q < 300; seqlen_q = 2 * seqlen_q + 1) {
      ap_problem problem = make_problem(2, 8, 2, seqlen_q, 1, 64);
      ap_launches range;
      ap_plan plan;
      problem.mask = ATTNPRESS_WINDOW;
      problem.window_left = 50;
      problem.window_right = 1;
      problem.window_chunk = chunk;
      assert_ok(ap_choose_range(&problem, &h200, &range));
      assert_ok(ap_choose(&problem, &h200, &plan));
      if (!range_has(&range, &plan.variant, plan.target))
        fail_msg("%d queries, chunks of %d: a kernel is missing", seqlen_q, chunk);
    }
}

/** Batch-invariant calls have no runs over all sequences, whose parts follow from the batch; of a part of a
 * device, too, which has fewer SMs than they have heads. */
static void test_range_without_runs(void **state) {
  (void)state;
  for (int sms = 1; sms <= 132; ++sms)
    for (int heads_kv = 1; heads_kv <= 32; heads_kv *= 2) {
      ap_device part = h200;
      ap_problem problem = make_problem(6, 8 * heads_kv, heads_kv, 3, 5000, 64);
      ap_launches range;
      part.sm_count = sms;
      problem.sequences = AP_ATTENTION_SEQUENCES_RAGGED;
      problem.batch_invariant = 1;
      assert_ok(ap_choose_range(&problem, &part, &range));
      for (int i = 0; i < range.count; ++i)
        assert_int_equal(range.launch[i].variant.axis[AP_ATTENTION_RUNS], 0);
    }
}

/** The bound never falls as an extent grows, and there is none where the number of splits is given
 * and the batch or the queries are any. */
static void test_range_bounds(void **state) {
  (void)state;
  for (int trial = 0; trial < 300; ++trial) {
    ap_problem maxima = random_problem(0);
    size_t before = 0;
    if (maxima.num_splits == 1)
      maxima.num_splits = 0;
    for (int step = 0; step < 12; ++step) {
      ap_launches range;
      assert_ok(ap_choose_range(&maxima, &h200, &range));
      if (range.workspace_bytes < before)
        fail_msg("batch %d, seqlen_q %d, seqlen_k %d: %zu bytes after %zu", maxima.batch,
                 maxima.seqlen_q, maxima.seqlen_k, range.workspace_bytes, before);
      before = range.workspace_bytes;
      int32_t *const extents[] = {&maxima.batch, &maxima.seqlen_q, &maxima.seqlen_k};
      int32_t *extent = extents[random_below(3)];
      *extent += 1 + random_below(*extent);
    }
    maxima.batch = 0;
    ap_launches range;
    assert_ok(ap_choose_range(&maxima, &h200, &range));
    int schedule = 0; /* has an entry for each sequence */
    for (int i = 0; i < range.count; ++i)
      schedule |= range.launch[i].variant.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD_SCHEDULE;
    assert_int_equal(range.workspace_bytes == SIZE_MAX, maxima.num_splits > 1 || schedule);
    assert_true(range.workspace_bytes >= before);
  }
}

/** The choice does not look at anything but the arguments: the same twice. */
static void test_deterministic(void **state) {
  (void)state;
  const ap_problem problem = make_problem(3, 12, 4, 9, 12345, 96);
  ap_plan a, b;
  memset(&a, 0xaa, sizeof a);
  memset(&b, 0x55, sizeof b);
  assert_ok(ap_choose(&problem, &h200, &a));
  assert_ok(ap_choose(&problem, &h200, &b));
  assert_memory_equal(&a, &b, sizeof a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_devices),
      cmocka_unit_test(test_hopper),
      cmocka_unit_test(test_wide),
      cmocka_unit_test(test_too_large_for_a_target),
      cmocka_unit_test(test_tiles_fit),
      cmocka_unit_test(test_shared_keys),
      cmocka_unit_test(test_key_blocks_of_few_rows),
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_many_heads),
      cmocka_unit_test(test_decode_rounds),
      cmocka_unit_test(test_whole_row_blocks),
      cmocka_unit_test(test_packing),
      cmocka_unit_test(test_no_parts),
      cmocka_unit_test(test_windows_that_pass_on),
      cmocka_unit_test(test_causal_turns),
      cmocka_unit_test(test_taken_key_blocks),
      cmocka_unit_test(test_wide_heads),
      cmocka_unit_test(test_parts_of_groups),
      cmocka_unit_test(test_chained_key_blocks),
      cmocka_unit_test(test_shares_ahead),
      cmocka_unit_test(test_short_pair),
      cmocka_unit_test(test_overlap),
      cmocka_unit_test(test_overlap_of_others),
      cmocka_unit_test(test_num_splits),
      cmocka_unit_test(test_num_splits_everywhere),
      cmocka_unit_test(test_blocks_per_sm),
      cmocka_unit_test(test_decode_splits),
      cmocka_unit_test(test_packing_of_short_sequences),
      cmocka_unit_test(test_decode_blocks_per_sm),
      cmocka_unit_test(test_decode_splits_by_time),
      cmocka_unit_test(test_divisors),
      cmocka_unit_test(test_sections),
      cmocka_unit_test(test_small_sections),
      cmocka_unit_test(test_sections_everywhere),
      cmocka_unit_test(test_hopper_splits),
      cmocka_unit_test(test_long_rows),
      cmocka_unit_test(test_long_rows_of_sequences),
      cmocka_unit_test(test_mean_rows_of_sequences),
      cmocka_unit_test(test_narrow_heads),
      cmocka_unit_test(test_narrow_values),
      cmocka_unit_test(test_no_queries),
      cmocka_unit_test(test_splits_that_do_not_pay),
      cmocka_unit_test(test_split_plan),
      cmocka_unit_test(test_combine_rows),
      cmocka_unit_test(test_splits_of_sequences),
      cmocka_unit_test(test_bytes_of_a_split),
      cmocka_unit_test(test_too_large),
      cmocka_unit_test(test_combine_few_rows),
      cmocka_unit_test(test_ranges),
      cmocka_unit_test(test_short_calls),
      cmocka_unit_test(test_calls_that_are_not_short),
      cmocka_unit_test(test_backward_of_few_rows),
      cmocka_unit_test(test_range_of_one_key),
      cmocka_unit_test(test_range_without_runs),
      cmocka_unit_test(test_range_bounds),
      cmocka_unit_test(test_deterministic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
