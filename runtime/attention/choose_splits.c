/* Into how many parts a forward call splits the keys, and which kernel runs for that. */
#include <math.h>

#include "attention/appending.h"
#include "attention/choose_parts.h"
#include "attention/schedule.h"
#include "cuda/device.h"

enum {
  /* Key blocks, at least, of what is split: by the rule of rounds, and where the time is weighed. */
  ROUNDS_KEY_BLOCKS_MIN = 5,
  DECODE_KEY_BLOCKS_MIN = 2,
  SPLITS_CHOSEN_MAX = 128,
  /* Thread blocks of all splits, in units of the device's slots: from there on every count fills its
   * waves to SPLIT_EFFICIENCY and more. It bounds the workspace. */
  SPLIT_WAVES_MAX = 6,
  /* The same of kernels that decode, whose parts are small: thread blocks of long calls then end within
   * one of many. */
  DECODE_WAVES_MAX = 12,
  /* Short queries of sequences of which only bounds are known: a split has at least so much of K and
   * V, however long its sequence is, so that no thread block has much more to do than another. */
  SEQUENCE_SPLIT_BYTES = 512 * 1024,
  /* Twice that where columns of K and V are so many, as a part of O is as wide, and where splits of
   * that size still are so many times the device's slots that none of them lasts to the end. */
  SEQUENCE_WIDE_COLUMNS = 256,
  SEQUENCE_LONG_WAVES = 8,
  /* Half of it where thread blocks, in units of the slots, stay few, of so many sequences, whose lengths
   * may differ, and of so many key blocks, at least. Parts of wide columns cost more. */
  SHORT_SPLIT_BLOCKS_MIN = 4,
  SHORT_SPLIT_WAVES_MAX = 3,
  SHORT_SPLIT_WIDE_WAVES_MAX = 2,
  SHORT_SPLIT_BATCH_MIN = 4,
  SHORT_SPLIT_WIDE_BATCH_MIN = 10,
  /* As SPLIT_WAVES_MAX: thread blocks that find no keys cost time, too. */
  SEQUENCE_WAVES_MAX = 64,
  /* So many without splits, and the others make up for the longest, unless few heads share their keys,
   * whose parts cost little. */
  SEQUENCE_WAVES_WHOLE = 8,
  SEQUENCE_FEW_HEADS = 4,
  /* Runs over all sequences: key blocks of the bound, at least, and columns from which on so many row
   * blocks as SEQUENCE_WAVES_WHOLE says are better off with them, too. */
  RUNS_KEY_BLOCKS_MIN = 8,
  RUNS_WIDE_COLUMNS = 256,
  RUNS_UNEVEN_COLUMNS = 128,      /* likewise where the bound is of so many key blocks */
  RUNS_UNEVEN_PAGED_COLUMNS = 64, /* of keys in pages */
  RUNS_UNEVEN_KEY_BLOCKS = 24,
  RUNS_ROUNDS_MAX = 8,         /* of all slots */
  RUNS_SHARED_KEYS_MIN = 3072, /* likewise by bounds of the keys, of an SM */
  /* Of batch-invariant calls: keys of a split, and, of few rows, thread blocks as SPLIT_WAVES_MAX. */
  FIXED_SPLIT_KEYS = 512,
  FIXED_SPLIT_WAVES_MAX = 128,
  /* The same of kernels that schedule them: long enough that it costs little to add up what a thread
   * block keeps of its rows, short enough to share out one sequence. What it keeps goes through the L2
   * cache, so that wide rows have longer splits, unless it fits shared memory: at 128 columns, with
   * two stages. Bytes of all parts, at most. */
  SCHEDULED_SPLIT_KEYS = 1024,
  SHORT_SPLIT_COLUMNS_MAX = 64,
  SCHEDULED_PART_BYTES_MAX = 256 * 1024 * 1024,
  /* Several queries of sequences on sm90: rows of a key head, at most, that a consumer has; keys of
   * a row block that stays whole, at most, those more for each row block, and columns above which
   * they are half as many; thread blocks of splits by the bounds, in units of the SMs, where a split
   * has so many key blocks then. */
  SEQUENCE_FEW_ROWS = 64,
  WHOLE_KEYS = 200,
  WHOLE_BLOCK_KEYS = 24,
  WHOLE_COLUMNS_MAX = 128,
  SEQUENCE_ROUNDS = 2,
  SEQUENCE_ROUNDS_KEY_BLOCKS_MIN = 2
};
#define SPLIT_FILL       0.8  /* of the device's slots, from which on splitting does not pay */
#define SPLIT_EFFICIENCY 0.85 /* of the best one, that the chosen count reaches */
#define RUNS_FILL        1.5  /* likewise, which runs over all sequences share out */
#define RUNS_SHARED_FILL                                                                           \
  0.7 /* sequences, of the SMs, from which thread blocks have several key heads */
#define RUNS_ROUND_FILL 0.96 /* of the slots, in each round */
#define SEQUENCE_FILL   0.75 /* of the slots: row blocks that ask for all that the memory gives */
#define SHORT_FILL      0.8  /* of the slots, at most, where splits are shorter */
#define SHORT_WIDE_FILL 0.5  /* the same of wide columns */

int64_t ap_least_key_blocks(const ap_tile *tile) {
  return tile->field[AP_ATTENTION_TILE_WARPS_K] > 1 ? DECODE_KEY_BLOCKS_MIN : ROUNDS_KEY_BLOCKS_MIN;
}

/** Thread blocks of a split count, and the waves that they take: their quotient says how full the
 * waves are. */
typedef struct fill {
  int64_t blocks, waves;
} fill;

/** 1 where a count gives no split fewer key blocks than the count before it: it only adds empty
 * splits. */
static int adds_nothing(int64_t key_blocks, int64_t count) {
  return count > 1 && ceil_div(key_blocks, count) == ceil_div(key_blocks, count - 1);
}

/** The most splits that run at once, if they fill the device; else 0. Of counts that give a split
 * as many key blocks, the smallest. */
static int64_t one_wave(int64_t blocks, int64_t key_blocks, int64_t slots, int64_t most) {
  int64_t n = slots / blocks;
  if (n > most)
    n = most;
  if ((double)(n * blocks) < SPLIT_FILL * (double)slots)
    return 0;
  return ceil_div(key_blocks, ceil_div(key_blocks, n));
}

/** Of thread blocks of all splits of a dense batch, in units of the slots, at most. */
static int64_t most_waves(const ap_tile *tile) {
  return tile->field[AP_ATTENTION_TILE_WARPS_K] > 1 ? DECODE_WAVES_MAX : SPLIT_WAVES_MAX;
}

/** The most splits that are ever chosen for so many thread blocks of one split: with them there are
 * no more thread blocks, in units of the slots, than `waves`, which bounds the workspace. */
static int64_t most_splits(int64_t blocks, int64_t key_blocks, int64_t slots, int64_t waves) {
  int64_t most = key_blocks < slots ? key_blocks : slots;
  if (most > SPLITS_CHOSEN_MAX)
    most = SPLITS_CHOSEN_MAX;
  return most * blocks > waves * slots ? waves * slots / blocks : most;
}

/* One full wave, where there is such a count. Else the rule of FlashAttention-2's
 * num_splits_heuristic (Dao 2023): the smallest count whose waves are nearly as full as the best
 * one's. */
int ap_choose_num_splits(int64_t blocks, int64_t key_blocks, int64_t slots) {
  if (blocks <= 0 || slots <= 0 || (double)blocks >= SPLIT_FILL * (double)slots ||
      key_blocks < ROUNDS_KEY_BLOCKS_MIN)
    return 1;
  const int64_t most = most_splits(blocks, key_blocks, slots, SPLIT_WAVES_MAX);
  const int64_t at_once = one_wave(blocks, key_blocks, slots, most);
  if (at_once > 0)
    return (int)at_once;
  /* Downwards, where the fullest waves tend to come first; stepping by one count saves the
   * divisions, and a decoding call comes through here each time. */
  fill now = {most * blocks, ceil_div(most * blocks, slots)}, best = {0, 1};
  for (int64_t n = most; n >= 1; --n) {
    if (now.blocks * best.waves > best.blocks * now.waves && !adds_nothing(key_blocks, n))
      best = now;
    now.blocks -= blocks;
    while (now.waves > 1 && now.blocks <= (now.waves - 1) * slots)
      --now.waves;
  }
  now = (fill){blocks, 1};
  int64_t n = 1;
  while (n < most && ((double)(now.blocks * best.waves) <
                          SPLIT_EFFICIENCY * (double)(best.blocks * now.waves) ||
                      adds_nothing(key_blocks, n))) {
    ++n;
    now.blocks += blocks;
    while (now.blocks > now.waves * slots)
      ++now.waves;
  }
  return (int)n;
}

/** Thread blocks of an SM that splitting aims at: as many as it holds, but one where warps have
 * rings of their own, which ask for all of the SM's share of the bandwidth. */
static int split_blocks_per_sm(const ap_tile *tile, const ap_device *device) {
  return tile->field[AP_ATTENTION_TILE_WARPS_K] > 1 ? 1 : ap_blocks_per_sm(tile, device);
}

/** Key blocks that a split of a sequence has at least, for `blocks` thread blocks of one split, whose
 * longest may have `key_blocks`. */
static int64_t sequence_split_blocks(const ap_problem *problem, const ap_tile *tile, int64_t blocks,
                                     int64_t key_blocks, int64_t slots) {
  const int64_t columns = problem->hdim + problem->hdim_v;
  const int64_t block_bytes =
      (int64_t)tile->field[AP_ATTENTION_TILE_BLOCK_N] * columns * (int64_t)sizeof(uint16_t);
  int64_t least = SEQUENCE_SPLIT_BYTES / block_bytes;
  if (least < ROUNDS_KEY_BLOCKS_MIN)
    least = ROUNDS_KEY_BLOCKS_MIN;
  const int fills = (double)blocks >= SEQUENCE_FILL * (double)slots;
  const int many = blocks * ceil_div(key_blocks, 2 * least) >= SEQUENCE_LONG_WAVES * slots;
  return columns >= SEQUENCE_WIDE_COLUMNS && fills && many ? 2 * least : least;
}

/** The most splits of half as many key blocks, where thread blocks are few enough for that; else 0. */
static int64_t short_splits(const ap_problem *problem, int64_t blocks, int64_t key_blocks,
                            int64_t split_blocks, int64_t slots) {
  const int wide = problem->hdim + problem->hdim_v >= SEQUENCE_WIDE_COLUMNS;
  const int64_t count = ceil_div(key_blocks, split_blocks / 2);
  if (split_blocks / 2 < SHORT_SPLIT_BLOCKS_MIN ||
      problem->batch < (wide ? SHORT_SPLIT_WIDE_BATCH_MIN : SHORT_SPLIT_BATCH_MIN) ||
      (double)blocks > (wide ? SHORT_WIDE_FILL : SHORT_FILL) * (double)slots ||
      blocks * count > SHORT_SPLIT_WAVES_MAX * slots)
    return 0;
  int64_t most = wide ? SHORT_SPLIT_WIDE_WAVES_MAX * slots / blocks : SPLITS_CHOSEN_MAX;
  if (most > SPLITS_CHOSEN_MAX)
    most = SPLITS_CHOSEN_MAX;
  return count < most ? count : most;
}

/* Sequences that are not split: by columns of K and V together, bytes of both under the bound, at most,
 * and row blocks, of the slots, from which on SMs without work cost less than adding up parts. */
static const struct {
  int columns, kilobytes;
  double fill;
} whole_limits[] = {{0, 320, 0.6}, {0, 512, 0.72}, {192, 512, 0.6}, {192, 768, 0.72}};

static int stays_whole(const ap_problem *problem, const ap_tile *tile, int64_t blocks,
                       int64_t key_blocks, int64_t slots) {
  const int columns = problem->hdim + problem->hdim_v;
  const int64_t bytes =
      key_blocks * tile->field[AP_ATTENTION_TILE_BLOCK_N] * columns * (int64_t)sizeof(uint16_t);
  for (size_t i = 0; i < sizeof whole_limits / sizeof *whole_limits; ++i)
    if (columns >= whole_limits[i].columns && bytes <= whole_limits[i].kilobytes * INT64_C(1024) &&
        (double)blocks >= whole_limits[i].fill * (double)slots)
      return 1;
  return 0;
}

/** Splits of sequences whose longest may have `key_blocks`, for `blocks` thread blocks of one split, in
 * which `heads` share their keys. */
static int64_t sequence_splits(int64_t blocks, int64_t key_blocks, int64_t split_blocks,
                               int64_t slots, int32_t heads) {
  if (blocks >= SEQUENCE_WAVES_WHOLE * slots && heads > SEQUENCE_FEW_HEADS)
    return 1;
  int64_t count = ceil_div(key_blocks, split_blocks);
  if (count > SPLITS_CHOSEN_MAX)
    count = SPLITS_CHOSEN_MAX;
  if (count * blocks > SEQUENCE_WAVES_MAX * slots)
    count = SEQUENCE_WAVES_MAX * slots / blocks;
  return count;
}

/* ---- By time --------------------------------------------------------------------------------- */

/* Kernels of sm90 whose thread blocks stay: the model of choose_time.c says what a number of splits
 * costs, and what heads that share tiles. With more rounds of row blocks than some, neither evens out
 * enough to be looked at. All small numbers are tried, larger ones in steps of a quarter, and those
 * that fill a few rounds. */
enum { ROUNDS_WEIGHED = 3, SPLITS_TRIED = 8, ROUNDS_FILLED = 4 };
/* Of the time without splits and with the packing of other calls, at most; and of that of what was
 * tried before. */
#define WEIGHED_GAIN 0.95
#define NEXT_GAIN    0.99

/** 1 where the number of splits is weighed, and packing with it. */
static int is_weighed(const ap_problem *problem, const ap_device *device, const ap_plan *plan,
                      const ap_tile *tile) {
  return tile->field[AP_ATTENTION_TILE_PRODUCER] && plan->tile.field[AP_ATTENTION_TILE_PRODUCER] &&
         problem->sequences == AP_ATTENTION_SEQUENCES_DENSE &&
         problem->hdim_v <= AP_ATTENTION_SM90_HDIM_MAX && device->sm_count <= AP_SCHEDULE_BLOCKS;
}

/** The plan with a tile and splits, as far as its order asks for it. Returns its units. */
static int32_t try_splits(const ap_problem *problem, const ap_device *device, const ap_tile *tile,
                          int32_t splits, ap_plan *plan) {
  const int64_t key_blocks = ap_count_key_blocks(problem, tile, plan->heads_per_tile);
  plan->tile = *tile;
  plan->num_splits = splits;
  plan->key_blocks_per_split = (int32_t)ceil_div(key_blocks, splits);
  plan->row_blocks = (int32_t)ap_count_row_blocks(problem, tile, plan->heads_per_tile);
  const int64_t units = ap_count_tiles(problem, plan, tile) * splits;
  plan->grid = (unsigned)(units < device->sm_count ? units : device->sm_count);
  return (int32_t)units;
}

/** What is weighed: the call, the tiles without splits, for long sequences (NULL: none), and with splits,
 * and the best that was found. */
typedef struct weighing {
  const ap_problem *problem;
  const ap_device *device;
  const ap_tile *whole, *long_rows, *split;
  ap_plan tried;
  double best_us;
  int32_t best, best_packing; /* splits, heads that share a tile */
} weighing;

/** The time of a number of splits with a tile; or, where that must be `enough` or more, such a time. */
static double time_of_tile(weighing *w, const ap_tile *tile, int32_t splits, double enough) {
  ap_plan *plan = &w->tried;
  const double parts_us =
      ap_parts_us(w->problem, ap_rows_of(w->problem), w->device, &plan->combine_tile, splits);
  if (parts_us >= enough)
    return parts_us;
  const int32_t units = try_splits(w->problem, w->device, tile, splits, plan);
  if ((int64_t)plan->row_blocks * splits > AP_SCHEDULE_ROW_BLOCKS)
    return INFINITY;
  const double least_us = parts_us + ap_least_us(w->problem, w->device, units, plan);
  if (least_us >= enough)
    return least_us;
  ap_schedule(w->problem, NULL, units, plan);
  return parts_us + (tile == w->long_rows ? ap_long_us(w->problem, w->device, plan)
                                          : ap_scheduled_us(w->problem, w->device, plan));
}

/** Heads that share a tile for long sequences: what that tile asks for, unless it was weighed. */
static int32_t long_packing(const ap_problem *problem, const ap_plan *plan, const ap_tile *tile) {
  if (plan->heads_per_tile == ap_choose_packing(problem, &plan->tile))
    return ap_choose_packing(problem, tile);
  return plan->heads_per_tile > 1 ? ap_packed_heads(problem, tile) : 1;
}

static double time_of_splits(weighing *w, int32_t splits, double enough) {
  if (splits > 1)
    return time_of_tile(w, w->split, splits, enough);
  const double us = time_of_tile(w, w->whole, 1, enough);
  if (w->long_rows == NULL)
    return us;
  const int32_t packing = w->tried.heads_per_tile;
  w->tried.heads_per_tile = long_packing(w->problem, &w->tried, w->long_rows);
  const double long_us = time_of_tile(w, w->long_rows, 1, INFINITY);
  w->tried.heads_per_tile = packing;
  return fmin(us, long_us);
}

/** Takes a number of splits if it is better than the best by NEXT_GAIN. */
static void weigh(weighing *w, int32_t splits) {
  const double enough = NEXT_GAIN * w->best_us, us = time_of_splits(w, splits, enough);
  if (us >= enough)
    return;
  w->best_us = us;
  w->best = splits;
  w->best_packing = w->tried.heads_per_tile;
}

/** Row blocks, and what bounds the number of splits, with heads packed as they are in a plan. */
typedef struct extent {
  int64_t units, key_blocks, most;
} extent;

static extent extent_of(const ap_problem *problem, const ap_device *device, const ap_plan *plan,
                        const ap_tile *tile) {
  extent e = {.units = ap_count_tiles(problem, plan, tile)};
  e.key_blocks = ap_count_key_blocks(problem, tile, plan->heads_per_tile);
  e.most = e.units > 0 ? most_splits(e.units, e.key_blocks, device->sm_count, most_waves(tile)) : 1;
  return e;
}

/** 1 where the number of splits, and packing, are worth a look. */
static int is_small(const ap_device *device, const extent *e) {
  return e->units > 0 && e->units < (int64_t)ROUNDS_WEIGHED * device->sm_count &&
         e->key_blocks >= ROUNDS_KEY_BLOCKS_MIN;
}

/** Weighs all numbers of splits, each as the least that gives a split as many key blocks. */
static void weigh_splits(weighing *w) {
  const extent e = extent_of(w->problem, w->device, &w->tried, w->split);
  const int64_t slots = w->device->sm_count;
  if (!is_small(w->device, &e))
    return;
  for (int64_t n = 2; n <= e.most; n += n < SPLITS_TRIED ? 1 : n / 4)
    if (!adds_nothing(e.key_blocks, n) || n > SPLITS_TRIED)
      weigh(w, (int32_t)ceil_div(e.key_blocks, ceil_div(e.key_blocks, n)));
  for (int64_t rounds = 1; rounds <= ROUNDS_FILLED; ++rounds) {
    const int64_t n = rounds * slots / e.units;
    if (n > SPLITS_TRIED && n <= e.most)
      weigh(w, (int32_t)ceil_div(e.key_blocks, ceil_div(e.key_blocks, n)));
  }
}

/** The number of splits that takes the least time, and the heads that then share a tile: as in the
 * plan, or all of a group, or one. */
static void weigh_all(weighing *w) {
  const int32_t packing = w->tried.heads_per_tile;
  w->best_us = WEIGHED_GAIN / NEXT_GAIN * time_of_splits(w, 1, INFINITY);
  weigh_splits(w);
  const int32_t packed = ap_packed_heads(w->problem, w->whole);
  if (packed == 1 || ap_packed_heads(w->problem, w->split) == 1)
    return;
  w->tried.heads_per_tile = packing > 1 ? 1 : packed;
  const extent e = extent_of(w->problem, w->device, &w->tried, w->whole);
  if (!is_small(w->device, &e))
    return;
  weigh(w, 1);
  weigh_splits(w);
}

static uint64_t key_of_weighing(const ap_problem *problem, const ap_plan *plan) {
  uint64_t key = ap_memo_key(plan->variant_key,
                             (uint64_t)problem->seqlen_q << 32 | (uint32_t)problem->seqlen_k);
  key = ap_memo_key(key, (uint64_t)problem->heads_q << 32 | (uint32_t)problem->heads_kv);
  key = ap_memo_key(key, (uint64_t)problem->batch << 32 | (uint32_t)problem->mask);
  if (problem->mask == ATTNPRESS_WINDOW) {
    key = ap_memo_key(key, (uint64_t)problem->window_left << 32 | (uint64_t)problem->window_right);
    key = ap_memo_key(key, (uint64_t)problem->window_chunk << 1 |
                               (uint64_t)(problem->window_top_left != 0));
  }
  return ap_memo_kind(key, 1);
}

/** Returns the number of splits and fills the plan's packing: what is weighed once a shape, and then
 * remembered. */
static int32_t choose_by_time(const ap_problem *problem, const ap_device *device,
                              const ap_tile *tile, ap_plan *plan) {
  enum { OTHER_PACKING = 1 << 8 }; /* beside the number of splits, in what is remembered */
  const extent e = extent_of(problem, device, plan, tile);
  if (!is_small(device, &e))
    return 1;
  const int32_t packed = ap_packed_heads(problem, &plan->tile);
  const int32_t other = plan->heads_per_tile > 1 ? 1 : packed;
  const uint64_t key = key_of_weighing(problem, plan);
  uint16_t known = ap_memo_find(device->memo, key);
  if (known == 0) {
    uint64_t long_key;
    ap_tile long_rows;
    weighing w = {problem,  device, &plan->tile,         NULL, tile, *plan,
                  INFINITY, 1,      plan->heads_per_tile};
    w.tried.variant.axis[AP_ATTENTION_SPLIT] = 0;
    if (problem->hdim == AP_ATTENTION_LONG_HDIM && ap_find_long(&w.tried, &long_key, &long_rows))
      w.long_rows = &long_rows;
    known = 1;
    if (ap_find_combine(problem, device, &w.tried) == ATTNPRESS_OK) {
      weigh_all(&w);
      known = (uint16_t)(w.best + (w.best_packing != plan->heads_per_tile ? OTHER_PACKING : 0));
    }
    ap_memo_put(device->memo, key, known);
  }
  /* Another key of the same bits may have more splits than there is a workspace for, or be packed. */
  if (known >= OTHER_PACKING && packed > 1 && ap_packed_heads(problem, tile) > 1)
    plan->heads_per_tile = other;
  const int32_t splits = known % OTHER_PACKING;
  const extent chosen = extent_of(problem, device, plan, tile);
  return splits < chosen.most ? splits : (int32_t)chosen.most;
}

/* ---- Long sequences -------------------------------------------------------------------------- */

/** The key of what would be a plan's kernel for long sequences. */
static uint64_t long_key_of(const ap_plan *plan) {
  return plan->variant_key + ap_families[AP_FAMILY_ATTENTION]->key_unit[AP_ATTENTION_LONG_ROWS];
}

/** Its tile, which may be the plan's own. */
static attnpress_status find_counterpart(const ap_plan *plan, ap_tile *tile) {
  ap_variant with = plan->variant;
  with.axis[AP_ATTENTION_LONG_ROWS] = 1;
  return ap_find_tile_by_key(&with, long_key_of(plan), plan->target, tile);
}

int ap_find_long(const ap_plan *plan, uint64_t *key, ap_tile *tile) {
  ap_variant with = plan->variant;
  with.axis[AP_ATTENTION_LONG_ROWS] = 1;
  *key = long_key_of(plan);
  return (with.axis[AP_ATTENTION_HDIM] == AP_ATTENTION_LONG_HDIM ||
          with.axis[AP_ATTENTION_HDIM] == AP_ATTENTION_LONG_KEYS_HDIM) &&
         ap_variant_is_legal(&with) && find_counterpart(plan, tile) == ATTNPRESS_OK;
}

/** Orders the plan's units with a tile and no splits; 0: they are so many that no order is looked at. */
static int order_tile(const ap_problem *problem, const ap_device *device, const ap_tile *tile,
                      ap_plan *plan) {
  const int32_t units = try_splits(problem, device, tile, 1, plan);
  if (plan->row_blocks > AP_SCHEDULE_ROW_BLOCKS)
    return 0;
  ap_schedule(problem, NULL, units, plan);
  return 1;
}

/** 1 where the kernel for long sequences, with its tile and heads that share one, takes less time. */
static int long_pays(const ap_problem *problem, const ap_device *device, const ap_plan *plan,
                     const ap_tile *tile, int32_t heads_per_tile) {
  ap_plan other = *plan, with_long = *plan;
  with_long.heads_per_tile = heads_per_tile;
  return !order_tile(problem, device, &plan->tile, &other) ||
         !order_tile(problem, device, tile, &with_long) ||
         ap_long_us(problem, device, &with_long) < ap_scheduled_us(problem, device, &other);
}

static void take_long(ap_plan *plan, uint64_t long_key, const ap_tile *tile,
                      int32_t heads_per_tile) {
  plan->heads_per_tile = heads_per_tile;
  plan->variant.axis[AP_ATTENTION_LONG_ROWS] = 1;
  plan->variant_key = long_key;
  plan->tile = *tile;
}

/** Takes the kernel for long sequences where that pays, which is weighed once a shape, and then
 * remembered. */
static void choose_long(const ap_problem *problem, const ap_device *device, ap_plan *plan) {
  enum { SHORT = 1, LONG = 2, LONG_PACKED = 3 };
  uint64_t long_key;
  ap_tile tile;
  if (plan->variant.axis[AP_ATTENTION_HDIM] != AP_ATTENTION_LONG_HDIM ||
      device->sm_count > AP_SCHEDULE_BLOCKS ||
      ap_count_tiles(problem, plan, &plan->tile) <= device->sm_count)
    return;
  const uint64_t shape_key = ap_memo_key(key_of_weighing(problem, plan), plan->heads_per_tile);
  const uint64_t key = ap_memo_kind(shape_key, 2);
  uint16_t known = ap_memo_find(device->memo, key);
  if (known == 0) {
    known = SHORT;
    if (ap_find_long(plan, &long_key, &tile)) {
      const int32_t heads_per_tile = long_packing(problem, plan, &tile);
      if (long_pays(problem, device, plan, &tile, heads_per_tile))
        known = heads_per_tile > 1 ? LONG_PACKED : LONG;
    }
    ap_memo_put(device->memo, key, known);
  }
  if (known == SHORT || find_counterpart(plan, &tile) != ATTNPRESS_OK)
    return;
  take_long(plan, long_key_of(plan), &tile,
            known == LONG_PACKED ? ap_packed_heads(problem, &tile) : 1);
}

/* ---- Head dim 64 ---- */

/* Of the time of the kernel for long sequences, what the other one takes at most where it runs: the models
 * of both are off by a few percent. */
#define NARROW_GAIN 0.96

/** 1 where a plan's kernel is the one of four consumers, and there is one for long sequences beside it, of
 * three, as there is where V has as many columns; then the tile of that. */
static int find_three_consumers(const ap_plan *plan, ap_tile *three) {
  uint64_t long_key;
  return plan->variant.axis[AP_ATTENTION_HDIM] == AP_ATTENTION_LONG_KEYS_HDIM &&
         plan->tile.field[AP_ATTENTION_TILE_BLOCK_M] == AP_FOUR_CONSUMERS_ROWS &&
         ap_find_long(plan, &long_key, three);
}

/** 1 where a plan whose tile is that of three consumers takes less time with that of four. */
static int four_pay(const ap_problem *problem, const ap_device *device, const ap_plan *plan,
                    const ap_tile *four, int32_t heads_per_tile) {
  ap_plan with_four = *plan, with_three = *plan;
  with_four.heads_per_tile = heads_per_tile;
  return order_tile(problem, device, four, &with_four) &&
         order_tile(problem, device, &plan->tile, &with_three) &&
         ap_narrow_us(problem, device, &with_four) <
             NARROW_GAIN * ap_narrow_us(problem, device, &with_three);
}

/** Takes one of the two where keys are not split, which is weighed once a shape, and then remembered.
 * The plan's tile, and the heads that share it, are those of three consumers. */
static void choose_narrow(const ap_problem *problem, const ap_device *device, const ap_tile *four,
                          ap_plan *plan) {
  enum { THREE = 1, FOUR = 2, FOUR_PACKED = 3 };
  const uint64_t shape_key = ap_memo_key(key_of_weighing(problem, plan), plan->heads_per_tile);
  const uint64_t key = ap_memo_kind(shape_key, 2);
  uint16_t known = ap_memo_find(device->memo, key);
  if (known == 0) {
    const int32_t heads_per_tile = long_packing(problem, plan, four);
    known = THREE;
    if (device->sm_count <= AP_SCHEDULE_BLOCKS && ap_count_tiles(problem, plan, four) > 0 &&
        four_pay(problem, device, plan, four, heads_per_tile))
      known = heads_per_tile > 1 ? FOUR_PACKED : FOUR;
    ap_memo_put(device->memo, key, known);
  }
  if (known == THREE) {
    const ap_tile three = plan->tile;
    take_long(plan, long_key_of(plan), &three, plan->heads_per_tile);
    return;
  }
  plan->tile = *four;
  plan->heads_per_tile = known == FOUR_PACKED ? ap_packed_heads(problem, four) : 1;
}

/* ---- Sequences ---- */

/* That kernel's rows, in percent, at which it takes as long as the other: measured of lengths that
 * differ and of equal ones. Under a causal mask heads that share a tile leave fewer keys masked; where
 * none do, and lengths differ, the row block that is not full has the first rows, which see fewest keys. */
enum { LONG_FULL = 112, LONG_CAUSAL_PACKED = 106, LONG_CAUSAL = 104, LONG_CAUSAL_DIFFER = 112 };
enum { LONG_ROUNDS = 5 }; /* of units of the other, at the least: few are less even */

/* The same of head dim 64, where the other kernel has more consumers and smaller key blocks: the mean
 * length above which the one for long sequences takes less time. */
enum { LONG_MEAN_FULL = 1000, LONG_MEAN_CAUSAL = 6000 };

/** 1 where all sequences have as many queries as the longest. */
static int are_equal(const ap_problem *problem) {
  return (int64_t)problem->seqlen_q * problem->batch == problem->rows_q;
}

/** Positions that the row blocks of a sequence of mean length have room for. Where lengths differ the
 * last is half empty, in the mean. */
static int64_t mean_positions(const ap_problem *problem, const ap_tile *tile,
                              int32_t heads_per_tile) {
  const int64_t block = ap_row_block_positions(tile, heads_per_tile);
  const int64_t mean = problem->rows_q / problem->batch;
  return are_equal(problem) ? ceil_div(mean, block) * block : mean + block / 2;
}

/** By the mean length of queries or keys, whichever are more. */
static void choose_long_mean(const ap_problem *problem, ap_plan *plan) {
  uint64_t long_key;
  ap_tile tile;
  const int64_t rows = larger(problem->rows_q, problem->rows_k);
  const int64_t most = plan->variant.axis[AP_ATTENTION_MASK] == AP_ATTENTION_MASK_FULL
                           ? LONG_MEAN_FULL
                           : LONG_MEAN_CAUSAL;
  if (rows > most * problem->batch && ap_find_long(plan, &long_key, &tile))
    take_long(plan, long_key, &tile, long_packing(problem, plan, &tile));
}

/** The same of sequences of which the sum of rows alone is known. */
static void choose_long_sequences(const ap_problem *problem, const ap_device *device,
                                  ap_plan *plan) {
  uint64_t long_key;
  ap_tile tile;
  const int64_t round = (int64_t)device->sm_count * plan->tile.field[AP_ATTENTION_TILE_BLOCK_M];
  if (problem->batch == 0)
    return;
  if (plan->variant.axis[AP_ATTENTION_HDIM] != AP_ATTENTION_LONG_HDIM) {
    choose_long_mean(problem, plan);
    return;
  }
  if (problem->rows_q * problem->heads_q < LONG_ROUNDS * round ||
      !ap_find_long(plan, &long_key, &tile))
    return;
  const int32_t heads_per_tile = long_packing(problem, plan, &tile);
  const int64_t percent = plan->variant.axis[AP_ATTENTION_MASK] == AP_ATTENTION_MASK_FULL
                              ? LONG_FULL
                          : heads_per_tile > 1 ? LONG_CAUSAL_PACKED
                          : are_equal(problem) ? LONG_CAUSAL
                                               : LONG_CAUSAL_DIFFER;
  if (100 * mean_positions(problem, &tile, heads_per_tile) <=
      percent * mean_positions(problem, &plan->tile, plan->heads_per_tile))
    take_long(plan, long_key, &tile, heads_per_tile);
}

/* ---- By time, decoding ----------------------------------------------------------------------- */

/** 1 where the number of splits of a call that decodes is weighed: of kernels whose warps have rings of
 * their own, which the model is of. */
static int is_decode_weighed(const ap_problem *problem, const ap_plan *plan, const ap_tile *tile) {
  return plan->variant.axis[AP_ATTENTION_DECODE] && tile->field[AP_ATTENTION_TILE_WARPS_K] > 1 &&
         problem->sequences == AP_ATTENTION_SEQUENCES_DENSE;
}

/* Numbers of rounds of thread blocks that are tried. */
enum { PARTLY_ROUNDS = 3 };

/** How a call that decodes is split. */
typedef struct decode_splits {
  int32_t splits;
  int32_t rounds; /* of thread blocks, that whole row blocks and these fill; 0: none is whole */
} decode_splits;

/** The row blocks, of whole heads, that are not split. */
static int32_t whole_row_blocks(const ap_device *device, const extent *e, int64_t row_blocks,
                                decode_splits how) {
  const int64_t blocks = (int64_t)how.rounds * AP_DECODE_BLOCKS_PER_SM * device->sm_count;
  const int64_t over = how.splits * e->units - blocks;
  if (how.rounds == 0 || how.splits < 2 || over <= 0)
    return 0;
  const int64_t whole = ceil_div(ceil_div(over, how.splits - 1), row_blocks) * row_blocks;
  return (int32_t)(whole < e->units ? whole : e->units - row_blocks);
}

/** Splits some of the row blocks alone, where these are more than SMs and that saves time by NEXT_GAIN:
 * then neither few SMs have one more than the others, nor all parts have to be added up. */
static decode_splits weigh_partly(const ap_problem *problem, const ap_device *device,
                                  const ap_plan *tried, const extent *e, double key_block_bytes,
                                  int64_t row_blocks, decode_splits best, double best_us) {
  const int64_t round = AP_DECODE_BLOCKS_PER_SM * (int64_t)device->sm_count;
  const int64_t least = ceil_div(e->units, round);
  const int64_t most = most_splits(e->units, e->key_blocks, device->sm_count, SPLIT_WAVES_MAX);
  for (int32_t n = 2; e->units > device->sm_count && n <= most; ++n) {
    for (int64_t rounds = least; rounds < least + PARTLY_ROUNDS; ++rounds) {
      const decode_splits how = {n, (int32_t)rounds};
      const int64_t whole = whole_row_blocks(device, e, row_blocks, how);
      if (whole == 0 || adds_nothing(e->key_blocks, n))
        continue;
      const int64_t rows = ap_rows_of(problem) * (e->units - whole) / e->units;
      const double us =
          ap_decode_partly_us(device, e->units, whole, e->key_blocks, key_block_bytes, n) +
          ap_parts_us(problem, rows, device, &tried->combine_tile, n);
      if (us < NEXT_GAIN * best_us) {
        best = how;
        best_us = us;
      }
    }
  }
  return best;
}

/* Of the time of fewer splits, at most, of numbers that are more than a round of thread blocks: of more
 * rounds the model knows less. */
#define ROUNDS_GAIN 0.97

/** The least number of splits except those that take less time by NEXT_GAIN, or by ROUNDS_GAIN. */
static decode_splits weigh_decode_splits(const ap_problem *problem, const ap_device *device,
                                         const ap_tile *whole, const ap_tile *tile, const extent *e,
                                         int64_t row_blocks) {
  ap_plan tried;
  if (ap_find_combine(problem, device, &tried) != ATTNPRESS_OK)
    return (decode_splits){1, 0};
  const double key_block_bytes = (double)tile->field[AP_ATTENTION_TILE_BLOCK_N] *
                                 (problem->hdim + problem->hdim_v) * (double)sizeof(uint16_t);
  const int columns = problem->hdim + problem->hdim_v;
  const int64_t rows = ap_rows_of(problem);
  const int64_t round = AP_DECODE_BLOCKS_PER_SM * (int64_t)device->sm_count;
  int32_t best = 1;
  const int at_once = ap_decode_blocks_per_sm(device, whole, e->units) > AP_DECODE_BLOCKS_PER_SM;
  double best_us =
      at_once ? ap_decode_at_once_us(device, e->units,
                                     (double)problem->seqlen_k * columns * (double)sizeof(uint16_t))
              : ap_decode_us(device, e->units, e->key_blocks, key_block_bytes, columns, 1);
  for (int32_t n = 2; n <= e->most; ++n) {
    if (adds_nothing(e->key_blocks, n))
      continue;
    const double us = ap_decode_us(device, e->units, e->key_blocks, key_block_bytes, columns, n) +
                      ap_parts_us(problem, rows, device, &tried.combine_tile, n);
    if (us < (n * e->units > round ? ROUNDS_GAIN : NEXT_GAIN) * best_us) {
      best = n;
      best_us = us;
    }
  }
  return weigh_partly(problem, device, &tried, e, key_block_bytes, row_blocks,
                      (decode_splits){best, 0}, best_us);
}

/** The number of splits, weighed once a shape, and then remembered; fills whole_row_blocks. */
static int32_t choose_decode_by_time(const ap_problem *problem, const ap_device *device,
                                     const ap_tile *tile, ap_plan *plan) {
  enum { ROUNDS_SHIFT = 8 }; /* beside the number of splits, in what is remembered */
  const extent e = extent_of(problem, device, plan, tile);
  if (e.units == 0 || e.most < 2 || e.key_blocks < DECODE_KEY_BLOCKS_MIN)
    return 1;
  const int64_t row_blocks = ap_count_row_blocks(problem, tile, plan->heads_per_tile);
  const uint64_t key = key_of_weighing(problem, plan);
  uint16_t known = ap_memo_find(device->memo, key);
  if (known == 0) {
    const decode_splits best =
        weigh_decode_splits(problem, device, &plan->tile, tile, &e, row_blocks);
    known = (uint16_t)(best.splits | best.rounds << ROUNDS_SHIFT);
    ap_memo_put(device->memo, key, known);
  }
  decode_splits how = {known % (1 << ROUNDS_SHIFT), known >> ROUNDS_SHIFT};
  /* Another key of the same bits may have more splits than there is a workspace for. */
  if (how.splits > e.most)
    how.splits = (int32_t)e.most;
  plan->whole_row_blocks = whole_row_blocks(device, &e, row_blocks, how);
  return how.splits;
}

/* ---- The choice ------------------------------------------------------------------------------ */

/** 1 where splits of long queries take less time than none. The rule of rounds knows nothing of what
 * parts cost: those of many rows and few keys are most of the time. */
static int pays(const ap_problem *problem, const ap_device *device, const ap_plan *plan,
                const ap_tile *tile, int32_t splits) {
  ap_plan tried;
  if (ap_find_combine(problem, device, &tried) != ATTNPRESS_OK)
    return 0;
  const extent e = extent_of(problem, device, plan, tile);
  return ap_blocks_us(problem, device, tile, e.units, e.key_blocks, splits) +
             ap_parts_us(problem, ap_rows_of(problem), device, &tried.combine_tile, splits) <
         ap_blocks_us(problem, device, tile, e.units, e.key_blocks, 1);
}

/** The splits of a plan whose variant and tile are `split`'s; *least: key blocks of each, or 1. */
static int32_t count_splits(const ap_problem *problem, const ap_device *device, const ap_plan *plan,
                            const ap_tile *tile, int64_t *least) {
  const int64_t blocks = ap_count_tiles(problem, plan, tile);
  const int64_t slots = (int64_t)device->sm_count * split_blocks_per_sm(tile, device);
  const int64_t key_blocks = ap_count_key_blocks(problem, tile, plan->heads_per_tile);
  const int32_t count = ap_choose_num_splits(blocks, key_blocks, slots);
  *least = 1;
  if (problem->sequences == AP_ATTENTION_SEQUENCES_DENSE) {
    const int decodes = plan->variant.axis[AP_ATTENTION_DECODE];
    return count > 1 && !decodes && !pays(problem, device, plan, tile, count) ? 1 : count;
  }
  if (!plan->variant.axis[AP_ATTENTION_DECODE] || blocks == 0) /* or without queries */
    return count;
  if (stays_whole(problem, tile, blocks, key_blocks, slots))
    return 1;
  const int64_t split_blocks = sequence_split_blocks(problem, tile, blocks, key_blocks, slots);
  const int64_t more =
      sequence_splits(blocks, key_blocks, split_blocks, slots, ap_group_of(problem));
  const int64_t most = more > count ? more : count;
  const int64_t shorter = short_splits(problem, blocks, key_blocks, split_blocks, slots);
  if (shorter > most) {
    *least = split_blocks / 4; /* sequences far below the bound are shared out, too */
    return (int32_t)shorter;
  }
  if (more > count)
    *least = ceil_div(key_blocks, more);
  return (int32_t)most;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

int ap_may_have_runs(const ap_variant *variant) {
  ap_variant runs = *variant;
  runs.axis[AP_ATTENTION_SPLIT] = 1;
  runs.axis[AP_ATTENTION_RUNS] = 1;
  return variant->axis[AP_ATTENTION_SEQUENCES] != AP_ATTENTION_SEQUENCES_DENSE &&
         ap_variant_is_legal(&runs);
}

/** Runs of so many heads: as many as fill all slots once or, where heads do not divide them, a few times. */
static int32_t count_runs(int64_t slots, int32_t heads) {
  int64_t best = 1, best_rounds = ceil_div(heads, slots);
  for (int64_t rounds = 1; rounds <= RUNS_ROUNDS_MAX; ++rounds) {
    const int64_t runs = rounds * slots / heads;
    if (runs * best_rounds <= best * rounds)
      continue;
    best = runs;
    best_rounds = rounds;
    if ((double)(runs * heads) >= RUNS_ROUND_FILL * (double)(rounds * slots))
      break;
  }
  return (int32_t)best;
}

int ap_may_share_keys(const ap_problem *problem, const ap_device *device, const ap_plan *plan) {
  ap_variant shared = plan->variant;
  shared.axis[AP_ATTENTION_SPLIT] = 1;
  shared.axis[AP_ATTENTION_RUNS] = 1;
  shared.axis[AP_ATTENTION_ARCH] = 90;
  const int32_t group = ap_group_of(problem);
  return device->capability == 90 && (device->arch_max == 0 || device->arch_max >= 90) &&
         problem->heads_kv % AP_ATTENTION_RUNS_HEADS == 0 && group == plan->heads_per_tile &&
         (int64_t)problem->seqlen_q * group <= AP_ATTENTION_FEW_ROWS &&
         ap_variant_is_legal(&shared);
}

attnpress_status ap_take_runs(const ap_device *device, int32_t heads_q, int shares_keys,
                              ap_plan *plan) {
  plan->variant.axis[AP_ATTENTION_SPLIT] = 1;
  plan->variant.axis[AP_ATTENTION_RUNS] = 1;
  if (shares_keys) {
    plan->variant.axis[AP_ATTENTION_ARCH] = 90;
    plan->target = ap_target_for(&plan->variant, device->capability);
  }
  plan->variant_key = ap_variant_key(&plan->variant);
  FORWARD_IF(ap_find_tile_by_key(&plan->variant, plan->variant_key, plan->target, &plan->tile));
  plan->runs = count_runs((int64_t)device->sm_count * ap_blocks_per_sm(&plan->tile, device),
                          ap_run_blocks(plan, heads_q));
  plan->num_splits = plan->runs;
  plan->key_blocks_per_split = 1; /* it means nothing there */
  return ATTNPRESS_OK;
}

/** Row blocks of sequences of which each has one a key head. */
static int64_t count_head_tiles(const ap_problem *problem, const ap_plan *plan) {
  return (int64_t)problem->batch * (problem->heads_q / plan->heads_per_tile);
}

/** 1 where row blocks are so many, of the SMs. */
static int fill_sms(const ap_device *device, int64_t tiles, double fill) {
  return (double)tiles >= fill * (double)device->sm_count;
}

/** 1 where thread blocks that have several key heads each take less time than others: where there is
 * much to read, and sequences are not cut into many parts. */
static int pays_to_share_keys(const ap_problem *problem, const ap_device *device,
                              const ap_plan *plan) {
  const int64_t keys = (int64_t)problem->batch * problem->seqlen_k;
  return problem->sequences != AP_ATTENTION_SEQUENCES_DENSE &&
         fill_sms(device, count_head_tiles(problem, plan), RUNS_FILL) &&
         (fill_sms(device, problem->batch, RUNS_SHARED_FILL) ||
          keys >= RUNS_SHARED_KEYS_MIN * (int64_t)device->sm_count) &&
         ap_may_share_keys(problem, device, plan);
}

/* Fewer row blocks than RUNS_FILL that take less time in runs as well: by columns of V, row blocks of the
 * SMs, key blocks of the bound, and of all row blocks for an SM, all at least; query heads of a key head,
 * between some; and whether it is so of calls alone whose new keys runs write themselves. */
static const struct {
  int columns;
  double fill;
  int key_blocks, sm_key_blocks, least_heads, most_heads, appends;
} runs_limits[] = {
    {64, 1.05, 20, 0, 3, 16, 0},   {64, 0.84, 20, 25, 3, 16, 0},  {64, 0.53, 20, 35, 3, 16, 0},
    {128, 1.05, 16, 0, 3, 7, 0},   {128, 1.05, 16, 30, 2, 16, 0}, {128, 0.72, 16, 40, 2, 16, 0},
    {128, 0.53, 16, 80, 2, 16, 0}, {128, 0.45, 16, 35, 4, 16, 1}, {256, 1.05, 8, 0, 2, 16, 0},
    {256, 0.84, 24, 0, 2, 16, 0},  {256, 0.6, 24, 40, 2, 16, 0},
};

static int fills_runs(const ap_problem *problem, const ap_device *device, int64_t tiles,
                      int64_t key_blocks) {
  const int32_t heads = ap_group_of(problem);
  if (fill_sms(device, tiles, RUNS_FILL))
    return 1;
  for (size_t i = 0; i < sizeof runs_limits / sizeof *runs_limits; ++i)
    if (problem->hdim_v == runs_limits[i].columns && fill_sms(device, tiles, runs_limits[i].fill) &&
        key_blocks >= runs_limits[i].key_blocks &&
        tiles * key_blocks >= (int64_t)runs_limits[i].sm_key_blocks * device->sm_count &&
        heads >= runs_limits[i].least_heads && heads <= runs_limits[i].most_heads &&
        problem->appends >= runs_limits[i].appends)
      return 1;
  return 0;
}

/** 1 where runs over all sequences take less time than splits of each: where there is much to do, of
 * batches whose lengths a thread block finds room for. `shares_keys`: pays_to_share_keys(). */
static int pays_in_runs(const ap_problem *problem, const ap_device *device, const ap_plan *plan,
                        int shares_keys) {
  const int64_t tiles = count_head_tiles(problem, plan);
  const int64_t key_blocks = ap_count_key_blocks(problem, &plan->tile, plan->heads_per_tile);
  const int32_t uneven = problem->sequences == AP_ATTENTION_SEQUENCES_PAGED
                             ? RUNS_UNEVEN_PAGED_COLUMNS
                             : RUNS_UNEVEN_COLUMNS;
  const int wide = problem->hdim_v >= RUNS_WIDE_COLUMNS || shares_keys ||
                   (problem->hdim_v >= uneven && key_blocks >= RUNS_UNEVEN_KEY_BLOCKS);
  const int64_t most = wide ? INT64_MAX : SEQUENCE_WAVES_WHOLE * (int64_t)device->sm_count;
  return problem->num_splits == 0 && tiles < most && ap_may_have_runs(&plan->variant) &&
         ap_count_row_blocks(problem, &plan->tile, plan->heads_per_tile) == 1 &&
         problem->batch <= ATTNPRESS_RUNS_SEQUENCES_MAX && key_blocks >= RUNS_KEY_BLOCKS_MIN &&
         fills_runs(problem, device, tiles, key_blocks);
}

/** Fills num_splits, the variant's split, the tile that goes with it, and the keys of a split. */
static attnpress_status choose_splits(const ap_problem *problem, const ap_device *device,
                                      ap_plan *plan) {
  uint64_t split_key = 0;
  ap_tile tile;
  int32_t count = problem->num_splits;
  int64_t least = 1; /* key blocks of a split of a sequence */
  const int shares_keys = pays_to_share_keys(problem, device, plan);
  if (pays_in_runs(problem, device, plan, shares_keys)) {
    FORWARD_IF(ap_take_runs(device, problem->heads_q, shares_keys, plan));
    return problem->appends ? ap_take_appending(problem, plan) : ATTNPRESS_OK;
  }
  ap_tile three;
  const ap_tile four = plan->tile;
  const int narrow = find_three_consumers(plan, &three);
  if (narrow) { /* until the number of splits is known */
    plan->tile = three;
    plan->heads_per_tile = ap_choose_packing(problem, &plan->tile);
  }
  if (count != 1) {
    plan->variant.axis[AP_ATTENTION_SPLIT] = 1;
    split_key = plan->variant_key + ap_families[AP_FAMILY_ATTENTION]->key_unit[AP_ATTENTION_SPLIT];
    FORWARD_IF(ap_find_tile_by_key(&plan->variant, split_key, plan->target, &tile));
    if (count == 0)
      count = is_weighed(problem, device, plan, &tile)
                  ? choose_by_time(problem, device, &tile, plan)
              : is_decode_weighed(problem, plan, &tile)
                  ? choose_decode_by_time(problem, device, &tile, plan)
                  : count_splits(problem, device, plan, &tile, &least);
  }
  plan->variant.axis[AP_ATTENTION_SPLIT] = count != 1;
  if (count != 1) { /* else the tile of one split stands */
    plan->variant_key = split_key;
    plan->tile = tile;
  }
  plan->num_splits = count;
  if (count == 1 && narrow)
    choose_narrow(problem, device, &four, plan);
  else if (count == 1)
    choose_long(problem, device, plan);
  const int64_t key_blocks = ap_count_key_blocks(problem, &plan->tile, plan->heads_per_tile);
  plan->key_blocks_per_split = problem->sequences == AP_ATTENTION_SEQUENCES_DENSE
                                   ? (int32_t)ceil_div(key_blocks, count)
                                   : (int32_t)least;
  return ATTNPRESS_OK;
}

/** Keys of a split of kernels that schedule them. */
static int64_t scheduled_split_keys(const ap_problem *problem) {
  const int kept = problem->mask != ATTNPRESS_WINDOW &&
                   problem->hdim == AP_ATTENTION_KEPT_COLUMNS &&
                   problem->hdim_v == AP_ATTENTION_KEPT_COLUMNS;
  return kept || problem->hdim_v <= SHORT_SPLIT_COLUMNS_MAX ? AP_ATTENTION_SHORT_SPLIT_KEYS
                                                            : SCHEDULED_SPLIT_KEYS;
}

/** Rows of a batch-invariant call that a key head has; of an empty one, of a query, as a tile has to hold
 * its heads. */
static int64_t rows_of_a_head(const ap_problem *problem) {
  return (int64_t)(problem->seqlen_q > 0 ? problem->seqlen_q : 1) * ap_group_of(problem);
}

/** Whether they are so few that sm80's kernels have a row block for them. */
static int has_few_rows_of_sm80(const ap_problem *problem, const ap_variant *variant) {
  ap_variant few = *variant;
  few.axis[AP_ATTENTION_FEW] = 1;
  return rows_of_a_head(problem) <= AP_ATTENTION_DECODE_ROWS && ap_variant_is_legal(&few);
}

/** Whether they are so few that sm90 has a kernel of its own for them, with the bits of the one for
 * more. */
static int has_few_rows_of_sm90(const ap_problem *problem) {
  return rows_of_a_head(problem) <= AP_ATTENTION_FEW_ROWS && problem->mask != ATTNPRESS_WINDOW &&
         problem->hdim <= AP_ATTENTION_FEW_HDIM_MAX && problem->hdim_v <= AP_ATTENTION_FEW_HDIM_MAX;
}

/** Whether splits of a batch-invariant call are units of their own, whose parts a second kernel adds
 * up; if not, a unit goes through all of its splits. */
static int schedules_splits(const ap_problem *problem, const ap_device *device, int64_t tiles,
                            int few_rows, int64_t splits) {
  const int64_t row_bytes = ((int64_t)problem->hdim_v + 1) * (int64_t)sizeof(float);
  const int64_t rows = ap_rows_of(problem);
  if (splits <= 1 || rows == 0 || rows > SCHEDULED_PART_BYTES_MAX / row_bytes / splits)
    return 0;
  return few_rows ? tiles < SEQUENCE_WAVES_WHOLE * (int64_t)device->sm_count
                  : tiles * 2 <= device->sm_count;
}

int ap_may_share_splits(const ap_variant *variant, int32_t shared) {
  ap_variant other = *variant;
  other.axis[AP_ATTENTION_READY] = 0;
  other.axis[AP_ATTENTION_SHARED] = shared;
  return variant->axis[AP_ATTENTION_DECODE] && ap_variant_is_legal(&other);
}

attnpress_status ap_share_splits(ap_plan *plan, int32_t shared) {
  const int32_t block_n = plan->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  plan->variant.axis[AP_ATTENTION_READY] = 0;
  plan->variant.axis[AP_ATTENTION_SHARED] = shared;
  plan->variant_key = ap_variant_key(&plan->variant);
  FORWARD_IF(ap_find_tile_by_key(&plan->variant, plan->variant_key, plan->target, &plan->tile));
  RETURN_IF(plan->tile.field[AP_ATTENTION_TILE_BLOCK_N] != block_n ||
                plan->tile.field[AP_ATTENTION_TILE_STAGES] < plan->fixed_split_blocks,
            ATTNPRESS_NOT_SUPPORTED, "shared splits have key blocks of %d keys, others of %d",
            (int)plan->tile.field[AP_ATTENTION_TILE_BLOCK_N], (int)block_n);
  return ATTNPRESS_OK;
}

/** How many splits a cluster has at most, where so many of its thread blocks share one: two find room
 * beside each other sooner than four; up to eight splits pay in pages, whose entries the kernels beside
 * read one after the other. */
static int64_t cluster_splits_max(const ap_variant *variant, int32_t shared) {
  if (shared == AP_ATTENTION_SHARED_FOUR)
    return ap_may_share_splits(variant, AP_ATTENTION_SHARED_TWO) ? 2 : 4;
  return variant->axis[AP_ATTENTION_SEQUENCES] == AP_ATTENTION_SEQUENCES_PAGED ? 8 : 4;
}

/** How clusters share the splits of so many row blocks, if they do: where these are few, and all
 * clusters find room at once, of two thread blocks an SM. */
static int32_t choose_sharing(const ap_device *device, const ap_variant *variant,
                              int64_t row_blocks, int64_t splits) {
  const int64_t slots = 2 * (int64_t)device->sm_count;
  for (int32_t shared = AP_ATTENTION_SHARED_FOUR; shared <= AP_ATTENTION_SHARED_TWO; ++shared) {
    const int64_t blocks = splits * ap_split_sharing(shared); /* of a cluster */
    if (ap_may_share_splits(variant, shared) && splits >= 1 &&
        splits <= cluster_splits_max(variant, shared) && ap_cluster_fits(device, (int32_t)blocks) &&
        row_blocks * blocks * 4 <= slots * 3)
      return shared;
  }
  return AP_ATTENTION_SHARED_NONE;
}

/** Batch-invariant calls: every kernel is a split one, and splits are of as many keys, whatever their
 * number. Few thread blocks compute one each; many compute all splits of their rows, which takes a
 * workspace of one, or of what runs at once. */
static attnpress_status choose_fixed_splits(const ap_problem *problem, const ap_device *device,
                                            ap_plan *plan) {
  const int scheduled = ap_is_scheduled(plan);
  plan->variant.axis[AP_ATTENTION_SPLIT] = 1;
  plan->variant.axis[AP_ATTENTION_DECODE] = scheduled && has_few_rows_of_sm90(problem);
  plan->variant.axis[AP_ATTENTION_FEW] =
      !scheduled && has_few_rows_of_sm80(problem, &plan->variant);
  plan->variant_key = ap_variant_key(&plan->variant);
  FORWARD_IF(ap_find_tile_by_key(&plan->variant, plan->variant_key, plan->target, &plan->tile));
  const int64_t block_n = plan->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  plan->fixed_split_blocks =
      (int32_t)ceil_div(scheduled ? scheduled_split_keys(problem) : FIXED_SPLIT_KEYS, block_n);
  plan->key_blocks_per_split = plan->fixed_split_blocks;
  plan->heads_per_tile = ap_choose_packing(problem, &plan->tile);
  const int64_t splits = ceil_div(problem->seqlen_k, plan->fixed_split_blocks * block_n);
  const int64_t tiles = ap_count_tiles(problem, plan, &plan->tile);
  const int64_t slots = (int64_t)device->sm_count * ap_blocks_per_sm(&plan->tile, device);
  const int few_rows = ap_count_row_blocks(problem, &plan->tile, plan->heads_per_tile) <= 1;
  if (scheduled) {
    const int32_t shared = choose_sharing(device, &plan->variant, tiles, splits);
    const int shares = shared != AP_ATTENTION_SHARED_NONE;
    plan->num_splits =
        shares || schedules_splits(problem, device, tiles, few_rows, splits) ? (int32_t)splits : 1;
    return shares ? ap_share_splits(plan, shared) : ATTNPRESS_OK;
  }
  const int64_t most = (few_rows ? FIXED_SPLIT_WAVES_MAX : SPLIT_WAVES_MAX) * slots;
  plan->num_splits =
      splits > 1 && splits <= AP_SPLITS_MAX && tiles < most / splits ? (int32_t)splits : 1;
  return ATTNPRESS_OK;
}

/* ---- Sequences on sm90 ---- */

int ap_may_split_sequences(const ap_problem *problem, const ap_plan *plan) {
  ap_variant split = plan->variant;
  split.axis[AP_ATTENTION_SPLIT] = 1;
  return ap_is_scheduled(plan) && !problem->batch_invariant &&
         split.axis[AP_ATTENTION_MASK] != AP_ATTENTION_MASK_WINDOW && ap_variant_is_legal(&split);
}

int ap_has_few_sequence_rows(const ap_problem *problem, const ap_variant *variant) {
  ap_variant few = *variant;
  few.axis[AP_ATTENTION_SPLIT] = 1;
  few.axis[AP_ATTENTION_FEW] = 1;
  return rows_of_a_head(problem) <= SEQUENCE_FEW_ROWS && ap_variant_is_legal(&few);
}

attnpress_status ap_take_sequence_splits(const ap_problem *problem, int few, ap_plan *plan) {
  plan->variant.axis[AP_ATTENTION_SPLIT] = 1;
  plan->variant.axis[AP_ATTENTION_FEW] = few;
  plan->variant_key = ap_variant_key(&plan->variant);
  FORWARD_IF(ap_find_tile_by_key(&plan->variant, plan->variant_key, plan->target, &plan->tile));
  plan->heads_per_tile = ap_choose_packing(problem, &plan->tile);
  return ATTNPRESS_OK;
}

/** 1 where a row block has so few keys, by the bound, that it has them alone: more the more row
 * blocks ask for keys at once. */
static int keeps_sequences_whole(const ap_problem *problem, const ap_device *device,
                                 int64_t blocks) {
  const int wide = problem->hdim > WHOLE_COLUMNS_MAX || problem->hdim_v > WHOLE_COLUMNS_MAX;
  const int64_t at_once = blocks < device->sm_count ? blocks : device->sm_count;
  return problem->seqlen_k * ceil_div(blocks, device->sm_count) * (wide ? 2 : 1) <=
         WHOLE_KEYS + WHOLE_BLOCK_KEYS * at_once;
}

/** The kernels of batch-invariant calls, with splits that are as long as their number asks for; the
 * plan stands where that is one. Row blocks are those of the bounds, as parts have room for these;
 * shorter sequences leave thread blocks without keys, so that long ones have splits for two rounds. */
static attnpress_status split_sequences(const ap_problem *problem, const ap_device *device,
                                        ap_plan *plan) {
  ap_plan split = *plan;
  FORWARD_IF(
      ap_take_sequence_splits(problem, ap_has_few_sequence_rows(problem, &plan->variant), &split));
  const int64_t key_blocks = ap_count_key_blocks(problem, &split.tile, split.heads_per_tile);
  const int64_t blocks = ap_count_row_blocks(problem, &split.tile, split.heads_per_tile) *
                         problem->batch * (problem->heads_q / split.heads_per_tile);
  const int64_t most = SEQUENCE_ROUNDS * (int64_t)device->sm_count;
  const int64_t slots =
      blocks * key_blocks < SEQUENCE_ROUNDS_KEY_BLOCKS_MIN * most ? device->sm_count : most;
  if (blocks == 0 || keeps_sequences_whole(problem, device, blocks))
    return ATTNPRESS_OK;
  const int64_t count = smaller(slots / blocks, most_splits(1, key_blocks, slots, 1));
  if (count <= 1)
    return ATTNPRESS_OK;
  split.fixed_split_blocks = (int32_t)ceil_div(key_blocks, count);
  split.key_blocks_per_split = split.fixed_split_blocks;
  split.num_splits = (int32_t)ceil_div(key_blocks, split.fixed_split_blocks);
  *plan = split;
  return ATTNPRESS_OK;
}

/** The kernels of sm80; the plan stands where these do not split either. */
static attnpress_status split_on_sm80(const ap_problem *problem, const ap_device *device,
                                      ap_plan *plan) {
  ap_problem other = *problem;
  ap_plan split = *plan;
  other.tma = 0;
  FORWARD_IF(ap_choose_rows(&other, device, &split));
  FORWARD_IF(choose_splits(&other, device, &split));
  if (split.num_splits > 1)
    *plan = split;
  return ATTNPRESS_OK;
}

attnpress_status ap_choose_kernel(const ap_problem *problem, const ap_device *device,
                                  ap_plan *plan) {
  FORWARD_IF(ap_choose_rows(problem, device, plan));
  if (problem->batch_invariant)
    return choose_fixed_splits(problem, device, plan);
  if (!ap_is_scheduled(plan))
    return choose_splits(problem, device, plan);
  const int64_t key_blocks = ap_count_key_blocks(problem, &plan->tile, plan->heads_per_tile);
  const int64_t tiles = ap_count_tiles(problem, plan, &plan->tile);
  if (problem->num_splits == 0 && ap_choose_num_splits(tiles, key_blocks, device->sm_count) > 1) {
    FORWARD_IF(ap_may_split_sequences(problem, plan) ? split_sequences(problem, device, plan)
                                                     : split_on_sm80(problem, device, plan));
    if (plan->num_splits > 1)
      return ATTNPRESS_OK;
  }
  plan->num_splits = 1;
  choose_long_sequences(problem, device, plan);
  plan->key_blocks_per_split =
      (int32_t)ap_count_key_blocks(problem, &plan->tile, plan->heads_per_tile);
  return ATTNPRESS_OK;
}

size_t ap_most_partial_rows(const ap_problem *maxima, const ap_device *device,
                            const ap_tile *tile) {
  const int64_t slots = (int64_t)device->sm_count * split_blocks_per_sm(tile, device);
  const int64_t key_blocks =
      maxima->seqlen_k > 0 ? ceil_div(maxima->seqlen_k, tile->field[AP_ATTENTION_TILE_BLOCK_N])
                           : INT32_MAX;
  const int any = maxima->batch == 0 || maxima->seqlen_q == 0;
  const size_t rows = (size_t)maxima->batch * (size_t)maxima->heads_q * (size_t)maxima->seqlen_q;
  if (maxima->batch_invariant && tile->field[AP_ATTENTION_TILE_PRODUCER]) {
    const size_t row_bytes = ((size_t)maxima->hdim_v + 1) * sizeof(float);
    const size_t kept = ap_kept_bytes(maxima->hdim_v, tile, (size_t)device->sm_count) / row_bytes +
                        1; /* or what is kept */
    const size_t parts = SCHEDULED_PART_BYTES_MAX / row_bytes;
    const size_t splits = (size_t)ceil_div(maxima->seqlen_k, scheduled_split_keys(maxima));
    const size_t all = any || maxima->seqlen_k == 0 ? parts : rows * splits;
    return all > parts ? parts : all > kept ? all : kept;
  }
  if (maxima->batch_invariant) { /* as many as there may be, or an lse a warp of one */
    const int64_t splits = ceil_div(maxima->seqlen_k, FIXED_SPLIT_KEYS);
    const int64_t most = splits < AP_SPLITS_MAX ? splits : AP_SPLITS_MAX;
    return any || maxima->seqlen_k == 0 ? SIZE_MAX : rows * (size_t)(most > 8 ? most : 8);
  }
  if (maxima->num_splits > 0)
    return any ? SIZE_MAX : rows * (size_t)maxima->num_splits;
  /* A thread block has at most block_m rows, and the blocks of all splits are bounded. */
  const int sequences = maxima->sequences != AP_ATTENTION_SEQUENCES_DENSE;
  const int producer = tile->field[AP_ATTENTION_TILE_PRODUCER];
  const int64_t waves = !sequences ? most_waves(tile)
                        : producer ? SEQUENCE_ROUNDS
                                   : SEQUENCE_WAVES_MAX;
  const int64_t most = key_blocks < SPLITS_CHOSEN_MAX ? key_blocks : SPLITS_CHOSEN_MAX;
  const size_t by_slots = (size_t)(waves * slots) * (size_t)tile->field[AP_ATTENTION_TILE_BLOCK_M];
  const size_t by_rows =
      any ? SIZE_MAX : rows * (size_t)(sequences ? most : most_splits(1, key_blocks, slots, waves));
  return by_rows < by_slots ? by_rows : by_slots;
}
