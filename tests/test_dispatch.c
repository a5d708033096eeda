/* How a call is run: architecture, mask, packing of heads, row block, splits, grid, workspace. All
 * of it is arithmetic on shapes and on a device's numbers, so tables say what is right. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support.h"

static const ap_device h200 = {0, 90, 132, 2048, 228 * 1024, 227 * 1024};
static const ap_device a100 = {0, 80, 108, 2048, 164 * 1024, 163 * 1024};
static const ap_device a10 = {0, 86, 72, 1536, 100 * 1024, 99 * 1024};

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
                      .mask = ATTNPRESS_FULL};
}

static void test_devices(void **state) {
  (void)state;
  static const struct {
    int capability, arch;
    const char *target;
  } rows[] = {{80, 80, "sm_80"},   {86, 86, "sm_86"},   {87, 80, "sm_80"},   {89, 86, "sm_86"},
              {90, 80, "sm_90"},   {100, 80, "sm_100"}, {103, 80, "sm_100"}, {110, 80, "sm_110"},
              {120, 86, "sm_120"}, {121, 86, "sm_120"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_device device = h200;
    ap_plan plan;
    const ap_problem problem = make_problem(2, 8, 8, 1024, 1024, 128);
    device.capability = rows[i].capability;
    assert_ok(ap_choose(&problem, &device, &plan));
    assert_int_equal(plan.variant.arch, rows[i].arch);
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

/** No tile of an architecture is too large for a device that runs it. */
static void test_tiles_fit(void **state) {
  (void)state;
  for (size_t i = 0; i < ap_tiles_count; ++i) {
    const int limit = ap_tiles[i].variant.arch == 86 ? 99 * 1024 : 163 * 1024;
    assert_true(ap_tiles[i].tile.smem_bytes <= limit);
    if (ap_tiles[i].variant.decode)
      assert_int_equal(ap_tiles[i].tile.block_m, 16);
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
      {32, 1, 1, ATTNPRESS_CAUSAL, ATTNPRESS_FULL, 0, 32},
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
    assert_ok(ap_choose(&problem, &h200, &plan));
    if (plan.variant.mask != rows[i].want_mask || plan.variant.decode != rows[i].want_decode ||
        plan.heads_per_tile != rows[i].want_packed)
      fail_msg("row %zu: mask %d, decode %d, %d heads a tile", i, plan.variant.mask,
               plan.variant.decode, plan.heads_per_tile);
    const int tile_rows = rows[i].seqlen_q * plan.heads_per_tile;
    assert_int_equal(plan.row_blocks, (tile_rows + plan.tile.block_m - 1) / plan.tile.block_m);
    assert_int_equal(plan.grid,
                     plan.row_blocks * (rows[i].heads_q / plan.heads_per_tile) * problem.batch);
  }
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
      {1, 1000, 132, 112}, /* ceil(1000 / 112) is 9 key blocks a split: 85 % of the most */
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
  ap_tile tile = {.warps_m = 4, .warps_n = 1, .min_blocks = 1, .smem_bytes = 40 * 1024};
  assert_int_equal(ap_blocks_per_sm(&tile, &h200), 2); /* registers: 65536 / (128 * 256) */
  tile.min_blocks = 4;
  assert_int_equal(ap_blocks_per_sm(&tile, &h200), 4);
  assert_int_equal(ap_blocks_per_sm(&tile, &a10), 2); /* shared memory: 100 / 41 */
  tile.min_blocks = 20;
  tile.smem_bytes = 0;
  assert_int_equal(ap_blocks_per_sm(&tile, &h200), 16); /* threads: 2048 / 128 */
  tile.smem_bytes = 160 * 1024;
  assert_int_equal(ap_blocks_per_sm(&tile, &a100), 1);
}

static void test_split_plan(void **state) {
  (void)state;
  ap_problem problem = make_problem(1, 8, 2, 1, 100000, 128);
  ap_plan plan;
  problem.num_splits = 7;
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.variant.split, 1);
  assert_int_equal(plan.num_splits, 7);
  assert_int_equal(plan.heads_per_tile, 4);
  const int key_blocks = (100000 + plan.tile.block_n - 1) / plan.tile.block_n;
  assert_int_equal(plan.key_blocks_per_split, (key_blocks + 6) / 7);
  assert_int_equal(plan.grid, 2 * 7);
  char stem[AP_STEM_MAX];
  assert_ok(ap_variant_print(&plan.combine, stem));
  assert_string_equal(stem, "flash_fwd_combine_hdim128_bf16_sm80");
  assert_string_equal(plan.combine_target, "sm_90");
  assert_int_equal(plan.combine_grid,
                   (8 + plan.combine_tile.block_m - 1) / plan.combine_tile.block_m);
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
  assert_int_equal(plan.variant.split, 0);
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

static void test_too_large(void **state) {
  (void)state;
  ap_problem problem = make_problem(1 << 16, 1 << 10, 1 << 10, 1 << 12, 64, 64);
  ap_plan plan;
  assert_int_equal(ap_choose(&problem, &h200, &plan), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("2^31 - 1");
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

/** What prepare loads holds every kernel that a call of the same heads and head dims may choose. */
static void test_prepared_set(void **state) {
  (void)state;
  static const ap_device *const devices[] = {&h200, &a100, &a10};
  for (int trial = 0; trial < 4000; ++trial) {
    const int groups[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 32};
    const int group = groups[random_below(10)], heads_kv = 1 + random_below(4);
    ap_problem problem = make_problem(1 + random_below(8), group * heads_kv, heads_kv,
                                      random_below(3) ? 1 + random_below(40) : random_below(5000),
                                      random_below(70000), 8 * (1 + random_below(64)));
    problem.mask = random_below(2);
    problem.num_splits = random_below(3);
    ap_problem prepared = problem;
    prepared.batch = 1 + random_below(100);
    prepared.seqlen_q = 1 + random_below(100);
    prepared.seqlen_k = random_below(1000);
    const ap_device *device = devices[random_below(3)];
    ap_variant variants[AP_VARIANTS_MAX];
    const char *targets[AP_VARIANTS_MAX];
    int count, found = 0, found_combine = 0;
    ap_plan plan;
    assert_ok(ap_choose_all(&prepared, device, variants, targets, &count));
    assert_ok(ap_choose(&problem, device, &plan));
    for (int i = 0; i < count; ++i) {
      found |= memcmp(&variants[i], &plan.variant, sizeof plan.variant) == 0 &&
               strcmp(targets[i], plan.target) == 0;
      found_combine |= memcmp(&variants[i], &plan.combine, sizeof plan.combine) == 0;
    }
    if (plan.grid == 0)
      continue;
    if (!found || (plan.variant.split && !found_combine))
      fail_msg("group %d, seqlen_q %d, mask %d, %d splits: not prepared", group, problem.seqlen_q,
               problem.mask, problem.num_splits);
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
      cmocka_unit_test(test_tiles_fit),
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_num_splits),
      cmocka_unit_test(test_num_splits_everywhere),
      cmocka_unit_test(test_blocks_per_sm),
      cmocka_unit_test(test_split_plan),
      cmocka_unit_test(test_too_large),
      cmocka_unit_test(test_prepared_set),
      cmocka_unit_test(test_deterministic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
