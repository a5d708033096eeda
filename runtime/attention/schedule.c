/* Chooses the order in which the thread blocks of sm90 kernels take their units of work, by a model
 * of what each order costs.
 *
 * Units are numbered section by section: all row blocks of some heads, the longest first. They are
 * dealt to the thread blocks forwards and backwards in turn, so that a long unit meets a short one;
 * all sections are dealt in one go, or each is a group for which dealing begins anew (kernel_args
 * and docs/hopper.md have the details). What is left to choose is how many heads a section has: few
 * keep what is read at once small, many come out even.
 *
 * The model: a thread block takes a unit's key blocks one after the other, each as long as its
 * consumers have rows that see it, and a constant more a unit; the call takes as long as its busiest
 * thread block, and longer where the heads in flight ask the memory for more than it gives.
 * bench/notes/hopper.md has how the numbers were found and what they predict. */
#include "attention/schedule.h"
#include "core/numbers.h"

#include <string.h>

/* ---- What is dealt out ----------------------------------------------------------------------- */

/* Times are counted in 1 / (10 * consumers) of a key block's, which makes all of them whole. A key
 * block that some consumers skip takes 0.4 + 0.6 * (those that do not) / consumers. A unit's own
 * share: its first loads, its last product, and storing its output; more where nothing of it runs
 * under the unit before. */
enum {
  KEY_BLOCK_TIME = 4,
  CONSUMER_TIME = 6,
  UNIT_TIME = 15,
  SINGLE_UNIT_TIME = 15,
  TIME_SCALE = 10
};

typedef struct work {
  int32_t units, row_blocks, heads;
  int32_t sharing; /* heads that read the same keys */
  int32_t key_heads;
  int32_t blocks;    /* thread blocks */
  int32_t consumers; /* of a thread block */
  int32_t positions; /* query positions of a consumer's rows */
  int32_t seqlen_q, seqlen_k, keys_per_block, splits;
  int32_t blocks_per_split; /* key blocks */
  int32_t own_blocks;       /* 1: a unit counts key blocks from the first key that it sees */
  int32_t last_is_full;  /* 1: row blocks end with the sequence, and the first has what is left */
  int32_t parts;         /* splits whose units take times of their own, or 1: all as the first */
  ap_mask mask;          /* that of the kernel */
  double key_head_bytes; /* K and V of a key head */
  /* Of a unit, by row block in the order of dealing, and part. */
  int64_t time[AP_SCHEDULE_ROW_BLOCKS];
  int64_t all_time; /* of all units together */
} work;

/** 1 where a kernel's row blocks end with the sequence (flash_fwd_sm90.cu.j2). */
static int has_full_last_block(const ap_problem *problem, const ap_plan *plan) {
  const int32_t *axis = plan->variant.axis;
  const int rows = plan->tile.field[AP_ATTENTION_TILE_BLOCK_M];
  return (rows % plan->tile.field[AP_ATTENTION_TILE_BLOCK_N] != 0 || rows == 192) &&
         axis[AP_ATTENTION_MASK] == AP_ATTENTION_MASK_CAUSAL &&
         problem->sequences == AP_ATTENTION_SEQUENCES_DENSE && plan->num_splits == 1 &&
         problem->hdim <= AP_ATTENTION_SM90_HDIM_MAX &&
         problem->hdim_v <= AP_ATTENTION_SM90_HDIM_MAX &&
         axis[AP_ATTENTION_BIAS] == AP_ATTENTION_BIAS_NONE && !axis[AP_ATTENTION_ALIBI] &&
         !axis[AP_ATTENTION_DROPOUT] && !axis[AP_ATTENTION_MOD_SCORE] &&
         !axis[AP_ATTENTION_MOD_MASK];
}

/** Everything but the times. */
static void describe(const ap_problem *problem, int32_t units, const ap_plan *plan, work *w) {
  w->units = units;
  w->row_blocks = plan->row_blocks;
  w->heads = units / plan->row_blocks;
  /* The tile heads of one key head, and the splits of each, share its keys and values. */
  w->splits = plan->num_splits;
  w->blocks_per_split = plan->key_blocks_per_split;
  w->parts =
      w->splits > 1 && plan->variant.axis[AP_ATTENTION_MASK] != ATTNPRESS_FULL ? w->splits : 1;
  w->sharing =
      (int32_t)ceil_div(problem->heads_q, problem->heads_kv * plan->heads_per_tile) * w->splits;
  w->key_heads = problem->batch * problem->heads_kv;
  w->blocks = (int32_t)plan->grid;
  w->consumers = plan->tile.field[AP_ATTENTION_TILE_BLOCK_M] / AP_ATTENTION_WARPGROUP_ROWS;
  w->positions = AP_ATTENTION_WARPGROUP_ROWS / plan->heads_per_tile;
  w->keys_per_block = plan->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  w->key_head_bytes = 2.0 * ((double)problem->hdim + problem->hdim_v) * problem->seqlen_k;
  w->seqlen_q = problem->seqlen_q;
  w->seqlen_k = problem->seqlen_k;
  w->own_blocks = plan->variant.axis[AP_ATTENTION_MASK] == ATTNPRESS_WINDOW &&
                  problem->sequences == AP_ATTENTION_SEQUENCES_DENSE && w->splits == 1 &&
                  !problem->mod_mask;
  w->last_is_full = has_full_last_block(problem, plan);
  w->mask = ap_problem_mask(problem, plan->variant.axis[AP_ATTENTION_MASK]);
}

/** The key blocks of a row block, from the first row on: those of all its consumers, of which a split has
 * some. *seen_blocks: the same of each consumer. */
static int64_t unit_blocks(const work *w, int64_t row_block, int64_t split, int64_t *seen_blocks) {
  const int64_t step = (int64_t)w->positions * w->consumers;
  const int64_t behind = w->last_is_full ? (w->row_blocks - 1 - row_block) * step : 0;
  const int64_t position_end = w->seqlen_q - behind;
  int64_t position = w->last_is_full ? larger(position_end - step, 0) : row_block * step;
  const int64_t first_key = ap_keys_of(&w->mask, position).begin;
  const int64_t origin = w->own_blocks ? first_key - first_key % AP_ATTENTION_KEY_ALIGNMENT : 0;
  const int64_t from = (first_key - origin) / w->keys_per_block + split * w->blocks_per_split;
  const int64_t to = w->splits > 1 ? from + w->blocks_per_split : INT64_MAX;
  int64_t first = INT64_MAX, end = 0, seen = 0;
  for (int32_t i = 0; i < w->consumers && position < position_end; ++i, position += w->positions) {
    const int64_t last = smaller(position + w->positions, position_end) - 1;
    const int64_t begin =
        larger((ap_keys_of(&w->mask, position).begin - origin) / w->keys_per_block, from);
    const int64_t stop =
        smaller(ceil_div(ap_keys_of(&w->mask, last).end - origin, w->keys_per_block), to);
    if (stop <= begin)
      continue;
    first = smaller(first, begin);
    end = larger(end, stop);
    seen += stop - begin;
  }
  *seen_blocks = seen;
  return end > 0 ? end - first : 0;
}

/** The time of a unit: a key block takes longer where more consumers have rows that see it. */
static int64_t unit_time(const work *w, int64_t row_block, int64_t split) {
  int64_t seen;
  const int64_t blocks = unit_blocks(w, row_block, split, &seen);
  return KEY_BLOCK_TIME * w->consumers * blocks + CONSUMER_TIME * seen + UNIT_TIME * w->consumers;
}

static void measure(work *w) {
  int64_t sum = 0;
  for (int64_t i = 0; i < w->row_blocks; ++i) {
    /* Later rows see more keys. */
    const int64_t row_block = w->mask.kind != ATTNPRESS_FULL ? w->row_blocks - 1 - i : i;
    for (int64_t part = 0; part < w->parts; ++part)
      sum += w->time[i * w->parts + part] = unit_time(w, row_block, part);
  }
  w->all_time = sum * (w->heads / w->parts); /* heads are all splits of some heads */
}

/* ---- Dealing ---------------------------------------------------------------------------------- */

/** How busy the thread blocks are: block b for step[0] + ... + step[b]. */
typedef struct load {
  int64_t step[AP_SCHEDULE_BLOCKS + 1];
  int32_t blocks, place; /* of them; where the next unit goes */
  int32_t backwards;     /* 1: counted from the last block */
} load;

/** Deals out `count` units that take as long as each other. */
static inline void deal(load *l, int32_t count, int64_t time) {
  while (count > 0) {
    const int32_t room = l->blocks - l->place, n = count < room ? count : room;
    const int32_t first = l->backwards ? room - n : l->place;
    l->step[first] += time;
    l->step[first + n] -= time;
    l->place += n;
    count -= n;
    if (n == room) {
      l->place = 0;
      l->backwards ^= 1;
    }
  }
}

/** Deals out a section of `heads` heads, of which `there` exist, `times` times over. Sections begin
 * with a first split. */
static void deal_section(load *l, const work *w, int64_t heads, int64_t there, int64_t times) {
  for (int64_t i = 0; i < w->row_blocks; ++i) {
    const int64_t *time = w->time + i * w->parts;
    if (time[0] == time[w->parts - 1]) /* no split takes longer than the one before it */
      deal(l, (int32_t)there, time[0] * times);
    else
      for (int64_t head = 0; head < there; ++head)
        deal(l, 1, time[head % w->parts] * times);
    if (there < heads)
      deal(l, (int32_t)(heads - there), 0);
  }
}

/** How units are dealt out. */
typedef enum dealing {
  ONE_GROUP,  /* all sections in one go */
  OWN_GROUPS, /* section by section */
  SINGLY,     /* a thread block a unit: the device deals them out, to those that are free first */
} dealing;

typedef struct order {
  int64_t heads; /* of a section */
  dealing how;
} order;

/** The time of the last thread block, if each takes one unit and `w->blocks` run at once. */
static int64_t last_of_single(const work *w, int64_t section_heads) {
  int64_t free_at[AP_SCHEDULE_BLOCKS] = {0}; /* a heap: the least comes first */
  int64_t most = 0;
  for (int64_t head = 0; head < w->heads; head += section_heads)
    for (int64_t i = 0; i < w->row_blocks; ++i)
      for (int64_t n = 0; n < smaller(section_heads, w->heads - head); ++n) {
        const int64_t time = w->time[i * w->parts + n % w->parts];
        const int64_t end = free_at[0] + time + SINGLE_UNIT_TIME * w->consumers;
        most = larger(most, end);
        int32_t at = 0;
        for (int32_t child = 1; child < w->blocks; child = 2 * at + 1) {
          child += child + 1 < w->blocks && free_at[child + 1] < free_at[child];
          if (free_at[child] >= end)
            break;
          free_at[at] = free_at[child];
          at = child;
        }
        free_at[at] = end;
      }
  return most;
}

/** The time of the busiest thread block. */
static int64_t busiest(const work *w, order o) {
  if (o.how == SINGLY)
    return last_of_single(w, o.heads);
  const int64_t heads = o.heads, whole = w->heads / heads, rest = w->heads % heads;
  load l;
  memset(l.step, 0, (size_t)(w->blocks + 1) * sizeof *l.step);
  l.blocks = w->blocks;
  l.place = l.backwards = 0;
  if (o.how == OWN_GROUPS) {
    deal_section(&l, w, heads, heads, whole);
    l.place = l.backwards = 0;
  } else {
    for (int64_t i = 0; i < whole; ++i)
      deal_section(&l, w, heads, heads, 1);
  }
  if (rest > 0)
    deal_section(&l, w, heads, rest, 1);
  int64_t now = 0, most = 0;
  for (int32_t b = 0; b < w->blocks; ++b) {
    now += l.step[b];
    most = larger(most, now);
  }
  return most;
}

/* ---- Memory ----------------------------------------------------------------------------------- */

/* Keys and values of a section that fit the L2 cache are read from memory once, those of one that is
 * much larger once a round. */
#define SECTION_FITS_BYTES   10e6
#define SECTION_SPILLS_BYTES 60e6
/* What all of a device's thread blocks ask for is this over the rows of a tile, as a share of the
 * memory's bandwidth, if each reads keys of its own. */
#define DEMAND_OF_A_ROW 165.0

/** What waiting for the memory multiplies the time with. */
static double memory_factor(const work *w, int64_t heads) {
  const double bytes = (double)larger(heads, w->sharing) / (double)w->sharing * w->key_head_bytes;
  double spilled = (bytes - SECTION_FITS_BYTES) / (SECTION_SPILLS_BYTES - SECTION_FITS_BYTES);
  if (spilled <= 0)
    return 1;
  spilled = spilled < 1 ? spilled : 1;
  const double in_flight = (double)smaller(heads, w->blocks) / (double)w->sharing;
  const double demand =
      DEMAND_OF_A_ROW / (w->consumers * AP_ATTENTION_WARPGROUP_ROWS) * in_flight / w->blocks;
  return 1 + spilled * (0.12 * demand + (demand > 0.8 ? 0.3 * (demand - 0.8) : 0));
}

static double cost(const work *w, order o) {
  return (double)busiest(w, o) * memory_factor(w, o.heads);
}

/* ---- Choosing --------------------------------------------------------------------------------- */

/* Orders that would take longer than this to look at are skipped: of so many units, others come
 * out as even. An order is taken instead of one before it, of fewer heads, if it is better by GAIN. */
enum { FIRST_LOOK_UNITS_MAX = 1 << 13, LOOK_UNITS_MAX = 1 << 9 };
enum { HEADS_MAX = (1 << 14) - 1, GROUP_KEY_HEADS_MAX = 64 };
/* Of few rounds most orders come out uneven, and all are looked at. */
enum { FEW_ROUNDS = 8, FEW_ROUNDS_HEADS_MAX = 128, SINGLE_ROUNDS_MAX = 4 };
#define GAIN      0.003
#define EVEN_FILL 0.9 /* of pairs of rounds, which a section fills that is a group */

typedef struct choice {
  order order;
  double cost;
} choice;

/** 1 where no order can be better than a choice by GAIN. */
static int is_even(const work *w, const choice *best) {
  return best->cost * w->blocks <= (1 + GAIN) * (double)w->all_time;
}

static void try_order(const work *w, int64_t heads, dealing how, choice *best) {
  const order o = {heads, how};
  const int64_t sections = how == OWN_GROUPS ? 2 : ceil_div(w->heads, heads);
  const int64_t most = heads == w->sharing ? FIRST_LOOK_UNITS_MAX : LOOK_UNITS_MAX;
  if (heads > smaller(w->heads, HEADS_MAX) || heads % w->parts != 0 ||
      sections * w->row_blocks > most || is_even(w, best))
    return;
  const double found = cost(w, o);
  if (found < (1 - GAIN) * best->cost)
    *best = (choice){o, found};
}

/** 1 where an even order would be worth what single units take longer. */
static int pays_singly(const work *w, const choice *best) {
  const double longer = (double)SINGLE_UNIT_TIME * w->consumers * w->units;
  return (double)w->all_time + longer < (1 - GAIN) * best->cost * w->blocks;
}

/** Tries sections that are groups: the three first that fill pairs of rounds better than those
 * before. */
static void try_groups(const work *w, choice *best) {
  const int64_t pair = 2 * (int64_t)w->blocks, units = w->sharing * w->row_blocks;
  double fill = EVEN_FILL;
  for (int64_t key_heads = 1, tried = 0;
       key_heads <= smaller(w->key_heads - 1, GROUP_KEY_HEADS_MAX) && tried < 3; ++key_heads) {
    const double pairs = (double)(key_heads * units) / (double)pair;
    const double found = pairs / (double)ceil_div(key_heads * units, pair);
    if (found <= fill)
      continue;
    fill = found;
    ++tried;
    try_order(w, key_heads * w->sharing, OWN_GROUPS, best);
  }
}

static order choose(work *w) {
  static const int16_t counts[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 12, 14, 16, 18,  20, 22,
                                   24, 28, 32, 36, 40, 44, 48, 56, 64, 72, 80, 88, 96, 112, 128};
  if ((int64_t)w->row_blocks * w->parts > AP_SCHEDULE_ROW_BLOCKS || w->blocks > AP_SCHEDULE_BLOCKS)
    return (order){smaller(w->key_heads, 8) * w->sharing, ONE_GROUP}; /* the rest is small */
  measure(w);
  choice best = {{w->sharing, ONE_GROUP}, 1e300}; /* key head after key head */
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i)
    try_order(w, counts[i] * w->sharing, ONE_GROUP, &best);
  for (int64_t sections = 4; sections >= 1; --sections)
    try_order(w, ceil_div(w->key_heads, sections) * w->sharing, ONE_GROUP, &best);
  try_groups(w, &best);
  if (w->units <= FEW_ROUNDS * w->blocks)
    for (int64_t heads = 1; heads <= FEW_ROUNDS_HEADS_MAX; ++heads) {
      try_order(w, heads, ONE_GROUP, &best);
      try_order(w, heads, OWN_GROUPS, &best);
    }
  if (w->units <= SINGLE_ROUNDS_MAX * w->blocks && pays_singly(w, &best))
    try_order(w, w->heads, SINGLY, &best);
  return best.order;
}

/** 1 where all units take as long as each other, or each thread block has one. */
static int is_simple(const work *w) {
  return w->units <= w->blocks || (w->row_blocks == 1 && w->parts == 1) || w->heads == 1 ||
         (w->mask.kind == ATTNPRESS_FULL &&
          w->seqlen_q == (int64_t)w->row_blocks * w->positions * w->consumers);
}

/** The same as choose(), which is asked once a shape. */
static order remember(work *w, const ap_problem *problem, ap_memo *memo) {
  uint64_t key = ap_memo_key(0, (uint64_t)w->seqlen_q << 32 | (uint32_t)w->seqlen_k);
  key = ap_memo_key(key, (uint64_t)w->heads << 32 | (uint32_t)w->sharing);
  key = ap_memo_key(key,
                    (uint64_t)w->blocks << 32 | (uint32_t)w->splits << 2 | (uint32_t)w->mask.kind);
  key = ap_memo_key(key, (uint64_t)w->positions << 48 | (uint64_t)w->consumers << 40 |
                             (uint64_t)w->keys_per_block << 20 |
                             (uint64_t)(problem->hdim + problem->hdim_v));
  if (w->mask.kind == ATTNPRESS_WINDOW) {
    key = ap_memo_key(key, (uint64_t)w->mask.left << 32 | (uint64_t)w->mask.right);
    key = ap_memo_key(key, (uint64_t)w->mask.chunk << 32 | (uint32_t)w->mask.center);
  }
  key = ap_memo_kind(key, 0);
  const uint16_t known = ap_memo_find(memo, key);
  if (known != 0 && (known & HEADS_MAX) <= w->heads)
    return (order){known & HEADS_MAX, (dealing)(known / (HEADS_MAX + 1))};
  const order o = choose(w);
  if (o.heads <= HEADS_MAX)
    ap_memo_put(memo, key, (uint16_t)(o.heads + (int64_t)o.how * (HEADS_MAX + 1)));
  return o;
}

void ap_schedule(const ap_problem *problem, ap_memo *memo, int32_t units, ap_plan *plan) {
  work w;
  describe(problem, units, plan, &w);
  const order o = is_simple(&w) ? (order){w.sharing, ONE_GROUP} : remember(&w, problem, memo);
  const int32_t heads = (int32_t)o.heads, sections = (w.heads + heads - 1) / heads;
  plan->heads = w.heads;
  plan->section_heads = heads;
  plan->group_units = (o.how == OWN_GROUPS ? 1 : sections) * heads * w.row_blocks;
  if (o.how == SINGLY)
    plan->grid = (unsigned)plan->group_units;
  plan->group_rounds = (int32_t)(((unsigned)plan->group_units + plan->grid - 1) / plan->grid);
  plan->rounds = (o.how == OWN_GROUPS ? sections : 1) * plan->group_rounds;
}

ap_schedule_bounds ap_schedule_least(const ap_problem *problem, int32_t units, int32_t blocks,
                                     const ap_plan *plan) {
  work w;
  describe(problem, units, plan, &w);
  measure(&w);
  int64_t longest = 0;
  for (int64_t i = 0; i < (int64_t)w.row_blocks * w.parts; ++i)
    longest = larger(longest, w.time[i]);
  const double scale = TIME_SCALE * w.consumers;
  return (ap_schedule_bounds){(double)longest / scale, (double)w.all_time / scale / blocks};
}

double ap_schedule_cost(const ap_problem *problem, int32_t blocks, const ap_plan *plan) {
  work w;
  describe(problem, plan->heads * plan->row_blocks, plan, &w);
  w.blocks = blocks;
  measure(&w);
  const int64_t section_units = (int64_t)plan->section_heads * plan->row_blocks;
  const order o = {plan->section_heads, (int32_t)plan->grid > blocks         ? SINGLY
                                        : plan->group_units == section_units ? OWN_GROUPS
                                                                             : ONE_GROUP};
  return cost(&w, o) / (TIME_SCALE * w.consumers);
}

ap_schedule_blocks ap_schedule_count(const ap_problem *problem, const ap_plan *plan) {
  work w;
  int64_t walked = 0, seen = 0, units = 0;
  describe(problem, plan->heads * plan->row_blocks, plan, &w);
  for (int64_t i = 0; i < w.row_blocks; ++i) {
    int64_t of_unit;
    walked += unit_blocks(&w, i, 0, &of_unit);
    seen += of_unit;
    units += of_unit > 0;
  }
  const double heads = w.heads;
  return (ap_schedule_blocks){heads * (double)walked, heads * (double)seen, heads * (double)units};
}
