/* The order in which thread blocks of sm90 kernels take their units, held against dealing out that
 * knows all of them: longest first, each unit to the thread block that is free first. The times of
 * units, the kernel's walk over them and that list are computed here by counting. And the number of
 * splits, held against all that could have been chosen. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "attention/choose_parts.h"
#include "attention/schedule.h"
#include "support.h"

enum { BLOCKS = 132 };
static const ap_device h200 = {.capability = 90,
                               .sm_count = BLOCKS,
                               .threads_per_sm = 2048,
                               .smem_per_sm_bytes = 228 * 1024,
                               .smem_per_block_bytes = 227 * 1024,
                               .tma = 1};

/* ---- Shapes ---------------------------------------------------------------------------------- */

static uint64_t seed = 1;
static double random_share(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(seed >> 11) / 9007199254740992.0;
}

static int log_uniform(double low, double high) {
  return (int)lround(exp(log(low) + random_share() * (log(high) - log(low))));
}

/** Shapes as bench/compare.py --random draws them, of the mask. */
static ap_problem random_problem(int mask) {
  static const int hdims[] = {64, 96, 128, 192, 256}, ratios[] = {1, 2, 4, 5, 7, 8, 16, 71};
  const int hdim = hdims[(int)(random_share() * 5)], ratio = ratios[(int)(random_share() * 8)];
  const int heads = log_uniform(4, 64) / ratio, heads_kv = heads > 0 ? heads : 1;
  int seqlen_q = log_uniform(64, 32768), seqlen_k = seqlen_q;
  if (random_share() < 1.0 / 3) {
    const int other = log_uniform(64, 32768);
    seqlen_k = other > seqlen_q ? other : seqlen_q;
    seqlen_q = other < seqlen_q ? other : seqlen_q;
  }
  int batch = log_uniform(4096, 65536) / seqlen_k;
  batch = batch < 1 ? 1 : batch > 32 ? 32 : batch;
  return (ap_problem){.batch = batch,
                      .heads_q = heads_kv * ratio,
                      .heads_kv = heads_kv,
                      .seqlen_q = seqlen_q,
                      .seqlen_k = seqlen_k,
                      .hdim = hdim,
                      .hdim_v = hdim,
                      .dtype = ATTNPRESS_BF16,
                      .mask = mask,
                      .tma = 1,
                      .tma_min = 1,
                      .tma_max = 1};
}

/** The next one whose thread blocks take several units; *plan: what is chosen for it. */
static ap_problem next_problem(int mask, ap_plan *plan) {
  for (;;) {
    const ap_problem problem = random_problem(mask);
    assert_ok(ap_choose(&problem, &h200, plan));
    if (plan->tile.field[AP_ATTENTION_TILE_PRODUCER] && !plan->variant.axis[AP_ATTENTION_SPLIT] &&
        plan->heads * plan->row_blocks > BLOCKS)
      return problem;
  }
}

static void print_problem(const char *what, const ap_problem *p, const ap_plan *plan) {
  print_message(
      "%s: D %d, batch %d, %d/%d heads, %d x %d, %s: %d row blocks, %d heads, sections of "
      "%d, groups of %d\n",
      what, p->hdim, p->batch, p->heads_q, p->heads_kv, p->seqlen_q, p->seqlen_k,
      p->mask ? "causal" : "full", plan->row_blocks, plan->heads, plan->section_heads,
      plan->group_units / plan->row_blocks);
}

/* ---- Times ----------------------------------------------------------------------------------- */

/** Keys that the last of some query positions sees. */
static int keys_of(const ap_problem *p, int position_end) {
  if (p->mask == ATTNPRESS_FULL)
    return p->seqlen_k;
  const int keys = position_end + p->seqlen_k - p->seqlen_q;
  return keys < 0 ? 0 : keys > p->seqlen_k ? p->seqlen_k : keys;
}

/** Key blocks of the row block in a split, each by the share of the consumers that see it, and 1.5. */
static double unit_time(const ap_problem *p, const ap_plan *plan, int row_block, int split) {
  const int consumers = plan->tile.field[AP_ATTENTION_TILE_BLOCK_M] / 64,
            positions = 64 / plan->heads_per_tile;
  /* Under the causal mask row blocks end with the queries, but those of splits. */
  const int step = consumers * positions, behind = (plan->row_blocks - 1 - row_block) * step;
  const int last_is_full =
      p->mask == ATTNPRESS_CAUSAL && plan->num_splits == 1 &&
      (plan->tile.field[AP_ATTENTION_TILE_BLOCK_M] % plan->tile.field[AP_ATTENTION_TILE_BLOCK_N] !=
           0 ||
       plan->tile.field[AP_ATTENTION_TILE_BLOCK_M] == 192);
  const int position_end = last_is_full ? p->seqlen_q - behind : p->seqlen_q;
  const int begin = !last_is_full         ? row_block * step
                    : position_end < step ? 0
                                          : position_end - step;
  const int first_block = split * plan->key_blocks_per_split;
  double time = 1.5;
  for (int n = first_block;; ++n) {
    int sees = 0;
    for (int consumer = 0; consumer < consumers; ++consumer) {
      const int first = begin + consumer * positions, end = first + positions;
      sees += first < position_end && n * plan->tile.field[AP_ATTENTION_TILE_BLOCK_N] <
                                          keys_of(p, end < position_end ? end : position_end);
    }
    if (sees == 0 || n == first_block + plan->key_blocks_per_split)
      return time;
    time += 0.4 + 0.6 * sees / consumers;
  }
}

/** Of the row blocks in the order of dealing, split by split; freed by the caller. */
static double *unit_times(const ap_problem *p, const ap_plan *plan) {
  const int splits = plan->num_splits;
  double *times = calloc((size_t)(plan->row_blocks * splits), sizeof *times);
  for (int i = 0; i < plan->row_blocks; ++i)
    for (int split = 0; split < splits; ++split)
      times[i * splits + split] =
          unit_time(p, plan, p->mask == ATTNPRESS_CAUSAL ? plan->row_blocks - 1 - i : i, split);
  return times;
}

/* ---- Dealing --------------------------------------------------------------------------------- */

/** Thread blocks of which the one that is free first takes the next unit. */
typedef struct list {
  double free_at[BLOCKS]; /* a heap: the least comes first */
  double last;
} list;

static void take(list *l, double time) {
  const double end = l->free_at[0] + time;
  int i = 0;
  for (int child; (child = 2 * i + 1) < BLOCKS; i = child) {
    child += child + 1 < BLOCKS && l->free_at[child + 1] < l->free_at[child];
    if (l->free_at[child] >= end)
      break;
    l->free_at[i] = l->free_at[child];
  }
  l->free_at[i] = end;
  l->last = fmax(l->last, end);
}

static int by_length(const void *a, const void *b) {
  return (*(const double *)a < *(const double *)b) - (*(const double *)a > *(const double *)b);
}

/** When the last unit is done if the longest are taken first. */
static double time_of_list(const ap_plan *plan, const double *times) {
  list l = {0};
  double *sorted = malloc((size_t)plan->row_blocks * sizeof *sorted);
  memcpy(sorted, times, (size_t)plan->row_blocks * sizeof *sorted);
  qsort(sorted, (size_t)plan->row_blocks, sizeof *sorted, by_length);
  for (int i = 0; i < plan->row_blocks; ++i)
    for (int head = 0; head < plan->heads; ++head)
      take(&l, sorted[i]);
  free(sorted);
  return l.last;
}

/** When the last thread block is done: the walk of the kernel (attnpress_fwd_sm90_args), where each
 * thread block has one unit as the device hands them out. */
static double time_of_plan(const ap_plan *plan, const double *times) {
  double load[BLOCKS] = {0}, most = 0;
  list l = {0};
  const int section_units = plan->section_heads * plan->row_blocks, blocks = (int)plan->grid;
  int met = 0;
  assert_true(blocks == BLOCKS || blocks == plan->heads * plan->row_blocks);
  for (int round = 0; round < plan->rounds; ++round)
    for (int b = 0; b < blocks; ++b) {
      const int group = round / plan->group_rounds, turn = round % plan->group_rounds;
      const int place = turn * blocks + (turn % 2 == 0 ? b : blocks - 1 - b);
      const int unit = group * plan->group_units + place;
      const int head = unit / section_units * plan->section_heads + unit % plan->section_heads;
      if (place >= plan->group_units || head >= plan->heads)
        continue;
      const double time = times[unit % section_units / plan->section_heads * plan->num_splits +
                                head % plan->num_splits];
      ++met;
      if (blocks > BLOCKS) {
        take(&l, time + 1.5); /* nothing of it runs under the one before */
        continue;
      }
      load[b] += time;
      most = fmax(most, load[b]);
    }
  assert_int_equal(met, plan->heads * plan->row_blocks);
  return fmax(most, l.last);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

/** The plan with other sections: `heads` heads each, all in one group or each a group. */
static ap_plan with_sections(const ap_plan *plan, int heads, int groups) {
  ap_plan other = *plan;
  const int sections = (plan->heads + heads - 1) / heads;
  other.grid = BLOCKS;
  other.section_heads = heads;
  other.group_units = heads * plan->row_blocks * (groups ? 1 : sections);
  other.group_rounds = (other.group_units + BLOCKS - 1) / BLOCKS;
  other.rounds = other.group_rounds * (groups ? sections : 1);
  return other;
}

/** The same with a thread block a unit. */
static ap_plan with_single_units(const ap_plan *plan, int heads) {
  ap_plan other = with_sections(plan, heads, 0);
  other.grid = (unsigned)other.group_units;
  other.group_rounds = other.rounds = 1;
  return other;
}

/** The least cost of all orders that the kernel can follow. */
static double least_cost(const ap_problem *p, const ap_plan *plan) {
  const ap_plan single = with_single_units(plan, plan->heads);
  double least = ap_schedule_cost(p, BLOCKS, &single);
  for (int heads = 1; heads <= plan->heads; ++heads)
    for (int groups = 0; groups <= 1; ++groups) {
      const ap_plan other = with_sections(plan, heads, groups);
      least = fmin(least, ap_schedule_cost(p, BLOCKS, &other));
    }
  return least;
}

/** No plan takes 1.08 of the list's time, unless all that it could have been cost as much. */
static void against_list(int mask, int count, double mean_max) {
  double sum = 0, worst = 0;
  int excused = 0;
  for (int i = 0; i < count; ++i) {
    ap_plan plan;
    const ap_problem problem = next_problem(mask, &plan);
    double *times = unit_times(&problem, &plan);
    const double ratio = time_of_plan(&plan, times) / time_of_list(&plan, times);
    free(times);
    sum += log(ratio);
    worst = fmax(worst, ratio);
    if (ratio <= 1.08)
      continue;
    ++excused;
    const double cost = ap_schedule_cost(&problem, BLOCKS, &plan),
                 least = least_cost(&problem, &plan);
    if (cost > 1.02 * least) {
      print_problem("not the best", &problem, &plan);
      fail_msg("%.3f of the list's time, and a cost of %.1f where %.1f can be had", ratio, cost,
               least);
    }
  }
  print_message("%d %s shapes: mean %.4f of the list's time, worst %.3f, %d over 1.08\n", count,
                mask ? "causal" : "full", exp(sum / count), worst, excused);
  assert_true(exp(sum / count) < mean_max);
  assert_true(excused <= count / 50);
}

static void test_causal(void **state) {
  (void)state;
  against_list(ATTNPRESS_CAUSAL, 1000, 1.01);
}

static void test_full(void **state) {
  (void)state;
  against_list(ATTNPRESS_FULL, 300, 1.01);
}

/** What the chooser computes for an order is what counting gives, times what the memory does. */
static void test_cost(void **state) {
  (void)state;
  for (int i = 0; i < 400; ++i) {
    ap_plan plan;
    const ap_problem problem = next_problem(i % 2, &plan);
    const int heads = 1 + (int)(random_share() * plan.heads);
    const ap_plan other =
        i % 6 < 4 ? with_sections(&plan, heads, i / 2 % 2) : with_single_units(&plan, plan.heads);
    double *times = unit_times(&problem, &plan);
    const double counted = time_of_plan(&other, times);
    const double cost = ap_schedule_cost(&problem, BLOCKS, &other);
    free(times);
    const int sharing = problem.heads_q / problem.heads_kv / plan.heads_per_tile;
    const double key_heads = fmax((double)other.section_heads / sharing, 1);
    const double section_bytes = 4.0 * key_heads * problem.hdim * problem.seqlen_k;
    if (section_bytes <= 10e6 ? fabs(cost - counted) > 1e-9 * counted
                              : cost < counted || cost > 1.4 * counted) {
      print_problem("cost", &problem, &other);
      fail_msg("%.3f, and %.3f by counting", cost, counted);
    }
  }
}

/* ---- Splits ---------------------------------------------------------------------------------- */

/** The modelled time of what keys that are not split are weighed by, where a plan's kernel has four
 * consumers: three. */
static double time_of_three(const ap_problem *problem, const ap_plan *plan) {
  ap_plan three = *plan;
  uint64_t key;
  assert_true(ap_find_long(plan, &key, &three.tile));
  three.heads_per_tile = ap_choose_packing(problem, &three.tile);
  three.row_blocks = (int32_t)ap_count_row_blocks(problem, &three.tile, three.heads_per_tile);
  three.key_blocks_per_split =
      (int32_t)ap_count_key_blocks(problem, &three.tile, three.heads_per_tile);
  const int64_t units = ap_count_tiles(problem, &three, &three.tile);
  three.grid = (unsigned)(units < BLOCKS ? units : BLOCKS);
  ap_schedule(problem, NULL, (int32_t)units, &three);
  return ap_scheduled_us(problem, &h200, &three);
}

/** The modelled time of a problem in splits, chosen or given. */
static double time_of_splits(const ap_problem *p, int splits, ap_plan *plan) {
  ap_problem problem = *p;
  problem.num_splits = splits;
  assert_ok(ap_choose(&problem, &h200, plan));
  if (plan->tile.field[AP_ATTENTION_TILE_BLOCK_M] == AP_FOUR_CONSUMERS_ROWS)
    return time_of_three(&problem, plan);
  const int long_rows = plan->variant.axis[AP_ATTENTION_LONG_ROWS];
  return (long_rows && problem.hdim == AP_ATTENTION_LONG_HDIM
              ? ap_long_us(&problem, &h200, plan)
              : ap_scheduled_us(&problem, &h200, plan)) +
         ap_parts_us(&problem, ap_rows_of(&problem), &h200, &plan->combine_tile, plan->num_splits);
}

/** A random problem whose row blocks are fewer than three rounds. *whole: what runs without splits. */
static ap_problem few_units(int mask, ap_plan *whole) {
  for (;;) {
    const ap_problem problem = random_problem(mask);
    time_of_splits(&problem, 1, whole);
    if (whole->tile.field[AP_ATTENTION_TILE_PRODUCER] &&
        whole->heads * whole->row_blocks < 3 * BLOCKS)
      return problem;
  }
}

/** The busiest thread block's time of causal splits is what counting gives; of others, whose last
 * split may be shorter, no less. */
static void test_cost_of_splits(void **state) {
  (void)state;
  int exact_ones = 0;
  for (int i = 0; i < 300; ++i) {
    ap_plan plan;
    const ap_problem problem = few_units(i % 2, &plan);
    time_of_splits(&problem, 2 + (int)(random_share() * 6), &plan);
    double *times = unit_times(&problem, &plan);
    const double counted = time_of_plan(&plan, times);
    const double cost = ap_schedule_cost(&problem, BLOCKS, &plan);
    free(times);
    const int sharing = problem.heads_q / problem.heads_kv / plan.heads_per_tile * plan.num_splits;
    const double key_heads = fmax((double)plan.section_heads / sharing, 1);
    const double section_bytes = 4.0 * key_heads * problem.hdim * problem.seqlen_k;
    const int exact = problem.mask && section_bytes <= 10e6; /* the memory adds nothing */
    exact_ones += exact;
    if (cost < (1 - 1e-9) * counted || (exact && cost > (1 + 1e-9) * counted)) {
      print_problem("cost", &problem, &plan);
      fail_msg("%d splits: %.3f, and %.3f by counting", plan.num_splits, cost, counted);
    }
  }
  assert_true(exact_ones > 50);
}

/** Of 1,000 shapes none takes more than 1.08 of the least time that some number of splits has, with
 * heads packed as they are if the number is given; and what is chosen otherwise is for a gain. */
static void test_splits(void **state) {
  (void)state;
  double sum = 0, worst = 0, gain = 0;
  int split = 0, packed = 0;
  ap_memo memo = {0};
  ap_device remembering = h200;
  remembering.memo = &memo;
  for (int i = 0; i < 1000; ++i) {
    ap_plan whole, plan, other;
    const ap_problem problem = few_units(i % 2, &whole);
    const double whole_us = time_of_splits(&problem, 1, &whole);
    const double us = time_of_splits(&problem, 0, &plan);
    double least = whole_us;
    for (int n = 2; n <= 40; ++n)
      if (whole.heads * whole.row_blocks * n <= 6 * BLOCKS)
        least = fmin(least, time_of_splits(&problem, n, &other));
    sum += log(us / least);
    worst = fmax(worst, us / least);
    const int changed = plan.num_splits > 1 || plan.heads_per_tile != whole.heads_per_tile;
    packed += plan.heads_per_tile != whole.heads_per_tile;
    if (us > 1.08 * least || (changed && us > 0.951 * whole_us)) {
      print_problem("splits", &problem, &whole);
      fail_msg("%d splits take %.1f us, none %.1f, the best %.1f", plan.num_splits, us, whole_us,
               least);
    }
    split += plan.num_splits > 1;
    gain += log(whole_us / us);
    for (int pass = 0; pass < 2; ++pass) { /* worked out, then remembered */
      assert_ok(ap_choose(&problem, &remembering, &other));
      assert_memory_equal(&other, &plan, sizeof plan);
    }
    ap_problem larger = problem;
    ++larger.batch;
    time_of_splits(&larger, 0, &whole);
    assert_ok(ap_choose(&larger, &remembering, &other));
    assert_memory_equal(&other, &whole, sizeof whole);
  }
  print_message("1000 shapes, %d split, of %d packing is another: mean %.4f of the best splits' "
                "time, worst %.3f; without "
                "splits %.3f\n",
                split, packed, exp(sum / 1000), worst, exp(gain / 1000));
  assert_true(exp(sum / 1000) < 1.01);
  assert_in_range(split, 100, 500);
  assert_in_range(packed, 5, 200);
}

/** Calls that were measured, or are known: rows that splits would not pay for, few rows of long keys,
 * single long heads, a bit more than a round, and heads that fill a round if they share tiles. */
static void test_known_splits(void **state) {
  (void)state;
  static const struct {
    int batch, heads_q, heads_kv, seqlen_q, seqlen_k, hdim, mask;
    int want, packing;
  } rows[] = {
      {1, 5, 1, 3459, 3459, 64, 0, 1, 1},      {3, 16, 1, 99, 2769, 192, 0, 3, 16},
      {1, 20, 20, 18262, 18262, 128, 0, 1, 1}, {1, 1, 1, 16384, 16384, 128, 1, 2, 1},
      {1, 140, 140, 128, 8192, 128, 0, 4, 1},  {1, 32, 8, 64, 8192, 128, 0, 8, 4},
      {1, 16, 16, 2048, 2048, 128, 1, 1, 1},   {1, 4, 4, 86, 12246, 128, 1, 24, 1},
      {3, 15, 3, 321, 1692, 128, 0, 1, 5},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_problem problem = random_problem(rows[i].mask);
    ap_plan plan;
    problem.batch = rows[i].batch;
    problem.heads_q = rows[i].heads_q;
    problem.heads_kv = rows[i].heads_kv;
    problem.seqlen_q = rows[i].seqlen_q;
    problem.seqlen_k = rows[i].seqlen_k;
    problem.hdim = problem.hdim_v = rows[i].hdim;
    const double us = time_of_splits(&problem, 0, &plan);
    if (plan.num_splits != rows[i].want || plan.heads_per_tile != rows[i].packing)
      fail_msg("row %zu: %d splits, %d heads a tile, %.1f us", i, plan.num_splits,
               plan.heads_per_tile, us);
    problem.num_splits = 5; /* as it is asked for */
    assert_ok(ap_choose(&problem, &h200, &plan));
    assert_int_equal(plan.num_splits, 5);
  }
}

/** Shapes where head after head cost most, and where sections lost: predicted and measured. */
static void test_known(void **state) {
  (void)state;
  static const struct {
    int batch, heads, seqlen, hdim, mask;
  } rows[] = {{1, 12, 3000, 128, 1}, {4, 10, 4096, 192, 1},  {32, 32, 512, 64, 1},
              {16, 32, 1024, 64, 1}, {1, 16, 16384, 128, 1}, {32, 32, 512, 64, 0},
              {16, 32, 1024, 64, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_plan plan;
    ap_problem problem = random_problem(rows[i].mask);
    problem.batch = rows[i].batch;
    problem.heads_q = problem.heads_kv = rows[i].heads;
    problem.seqlen_q = problem.seqlen_k = rows[i].seqlen;
    problem.hdim = problem.hdim_v = rows[i].hdim;
    assert_ok(ap_choose(&problem, &h200, &plan));
    double *times = unit_times(&problem, &plan);
    const double ratio = time_of_plan(&plan, times) / time_of_list(&plan, times);
    free(times);
    if (ratio > 1.05) {
      print_problem("known", &problem, &plan);
      fail_msg("%.3f of the list's time", ratio);
    }
  }
}

/** A remembered plan is the one that was made, and one shape's is not another's. */
static void test_memo(void **state) {
  (void)state;
  ap_memo memo = {0};
  ap_device remembering = h200;
  remembering.memo = &memo;
  enum { SHAPES = 40 };
  static ap_problem problems[SHAPES];
  static ap_plan plans[SHAPES];
  for (int i = 0; i < SHAPES; ++i)
    problems[i] = next_problem(i % 2, &plans[i]);
  for (int pass = 0; pass < 3; ++pass)
    for (int i = 0; i < SHAPES; ++i) {
      ap_plan plan;
      assert_ok(ap_choose(&problems[i], &remembering, &plan));
      assert_memory_equal(&plan, &plans[i], sizeof plan);
    }
  int used = 0;
  for (int i = 0; i < AP_MEMO_ENTRIES; ++i)
    used += atomic_load(&memo.entries[i]) != 0;
  assert_in_range(used, 10, 2 * SHAPES); /* the order, and which kernel */
  /* Answers of two kinds do not meet. */
  for (uint64_t key = 1; key < 1000; key += 7) {
    const uint64_t kinds[] = {ap_memo_kind(key << 20 | key, 0), ap_memo_kind(key << 20 | key, 1)};
    ap_memo_put(&memo, kinds[0], 5);
    ap_memo_put(&memo, kinds[1], 6);
    assert_int_equal(ap_memo_find(&memo, kinds[0]), 5);
    assert_int_equal(ap_memo_find(&memo, kinds[1]), 6);
  }
  memo = (ap_memo){0};
  /* What is there is what is given. */
  const uint64_t key = ap_memo_key(0, 42);
  assert_int_equal(ap_memo_find(&memo, key), 0);
  ap_memo_put(&memo, key, 0xabcd);
  assert_int_equal(ap_memo_find(&memo, key), 0xabcd);
  assert_int_equal(ap_memo_find(&memo, key ^ (uint64_t)1 << 40), 0);
}

/** Shapes past what is looked at are planned at once, and whole. */
static void test_large(void **state) {
  (void)state;
  static const int rows[][3] = {{1, 8, 1 << 20}, {1, 1, 1 << 28}, {4096, 64, 100}, {1, 64, 300000}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    for (int mask = 0; mask <= 1; ++mask) {
      ap_plan plan;
      ap_problem problem = random_problem(mask);
      problem.batch = rows[i][0];
      problem.heads_q = problem.heads_kv = rows[i][1];
      problem.seqlen_q = problem.seqlen_k = rows[i][2];
      assert_ok(ap_choose(&problem, &h200, &plan));
      assert_int_equal(plan.heads, problem.batch * problem.heads_q);
      assert_true(plan.group_units % (plan.section_heads * plan.row_blocks) == 0);
      assert_true((int64_t)plan.rounds / plan.group_rounds * plan.group_units >=
                  (int64_t)plan.heads * plan.row_blocks);
      assert_true((int64_t)plan.group_rounds * plan.grid >= plan.group_units);
    }
}

/** Under a window units count their key blocks from the first key that they see, not from key 0: those
 * of 24 positions of 8 heads that share 80 keys a block are two, which all consumers see; every unit takes
 * the time of 1.5 more. */
static void test_window(void **state) {
  (void)state;
  const ap_problem problem = {.batch = 1,
                              .heads_q = 64,
                              .heads_kv = 8,
                              .seqlen_q = 8192,
                              .seqlen_k = 8192,
                              .hdim = 64,
                              .hdim_v = 64,
                              .dtype = ATTNPRESS_BF16,
                              .mask = ATTNPRESS_WINDOW,
                              .window_left = 127,
                              .tma = 1,
                              .tma_min = 1,
                              .tma_max = 1};
  ap_plan plan;
  assert_ok(ap_choose(&problem, &h200, &plan));
  assert_int_equal(plan.heads_per_tile, 8);
  assert_int_equal(plan.tile.field[AP_ATTENTION_TILE_BLOCK_M], 192);
  assert_int_equal(plan.tile.field[AP_ATTENTION_TILE_BLOCK_N], 80);
  const ap_schedule_bounds bounds =
      ap_schedule_least(&problem, plan.heads * plan.row_blocks, BLOCKS, &plan);
  assert_true(bounds.longest == 2 + 1.5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cost),           cmocka_unit_test(test_known),
      cmocka_unit_test(test_window),         cmocka_unit_test(test_causal),
      cmocka_unit_test(test_cost_of_splits), cmocka_unit_test(test_splits),
      cmocka_unit_test(test_known_splits),   cmocka_unit_test(test_full),
      cmocka_unit_test(test_memo),           cmocka_unit_test(test_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
