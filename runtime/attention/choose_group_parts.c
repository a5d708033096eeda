/* Chooses into how many parts thread blocks of the backward pass divide the walks of a key head: those
 * that take the least time, counted in steps of walks until the last thread block has ended. A part's dk
 * and dv are fp32 in the workspace, and added up later. Parts have query heads each, or equal steps of a
 * key block's walk over all heads, and then the first key blocks of each head may remain whole: as many as
 * fill whole rounds.
 *
 * It depends on shapes and the device's numbers, and remembers what it has worked out. */
#include "attention/attention.h"
#include "core/memo.h"
#include "core/numbers.h"

enum {
  TURN_ROUNDS = 2,         /* of thread blocks, of the heads that take turns; */
  TURN_BYTES = 40 << 20,   /* of what they read and add to, at most: L2 has somewhat more */
  ROUNDS = 24,             /* of thread blocks that share groups: more have to gain once more, */
  ROUNDS_MAX = 80,         /* and at most this: their parts take memory, */
  SUMS_MAX = 4,            /* at most so many times as much as the sum of dq, */
  ROOM_BYTES = 256 << 20,  /* or this, */
  MOST_BYTES = 1000 << 20, /* and never more */
  BLOCK_STEPS = 2, /* what a thread block takes beside its walk, in steps of it: K, V, dK and dV */
  PART_STEPS = 3,  /* and more where dK and dV are of a part, in fp32 */
  SUM_STEPS = 3,   /* what a call takes whose parts are added up, in the same steps: launches, */
  SUM_STEPS_PER_GB = 150, /* and what their bytes take */
  GAIN_PERCENT = 2,       /* what parts have to gain */
  APART_PERCENT = 70,     /* more that steps take where L2 holds nothing of what they walk over; */
  KEPT_BYTES = 64 << 20,  /* of it that cost nothing: what L2 holds, and a little */
  FEW_ROUNDS = 7,         /* of thread blocks, which are followed one by one, on at most */
  SLOTS_MAX = 256,        /* SMs: most are of heads that take turns */
  TAIL_PERCENT = 20,      /* of one of the longest walks, that a call of more rounds ends late by */
  STEPS_PARTS_MAX = 48,   /* of equal steps, */
  STEPS_LEAST = 8,        /* at least so many of the longest walk; */
  STEPS_ROUNDS_MAX = 60,  /* of key blocks, full mask; causal: FEW_ROUNDS; */
  STEPS_KEPT_BYTES = 96 << 20, /* of all heads' rows that cost nothing: they take turns; */
  STEPS_GAIN_PERCENT = 2,      /* and what they have to gain over parts of heads, causal */
  /* Of sequences of their own lengths: */
  SEQUENCE_ROUNDS = 5,    /* of thread blocks that share groups, at most: their parts take memory */
  SEQUENCE_SUM_STEPS = 2, /* as SUM_STEPS, */
  SEQUENCE_SUM_STEPS_PER_GB = 75
};

/** The walks of a call's thread blocks. */
typedef struct walks {
  const ap_problem *problem;
  const ap_device *device;
  const ap_launch *launch;
  int64_t slots, units;           /* thread blocks at once; key heads of all batches */
  int64_t key_blocks, row_blocks; /* of one */
  int64_t block_m, block_n;
} walks;

static int64_t padded_rows(int64_t rows) {
  return ceil_div(rows, AP_PADDED_ROWS) * AP_PADDED_ROWS;
}

int64_t ap_turns(const ap_problem *problem, const ap_device *device, const ap_launch *launch,
                 int64_t blocks, int64_t heads) {
  const int64_t row_bytes = (problem->hdim + problem->hdim_v) * (int64_t)sizeof(float);
  const int64_t bytes = larger(problem->seqlen_q, problem->seqlen_k) * row_bytes;
  const int64_t slots =
      (int64_t)device->sm_count * launch->tile.field[AP_ATTENTION_TILE_MIN_BLOCKS];
  const int64_t turns = smaller(ceil_div(TURN_ROUNDS * slots, blocks), TURN_BYTES / bytes);
  return turns < 1 ? 1 : smaller(turns, heads);
}

/* ---- Time ------------------------------------------------------------------------------------ */

static int64_t steps_beside(int32_t parts) {
  return BLOCK_STEPS + (parts > 1 ? PART_STEPS : 0);
}

/** Steps of the thread block that takes the longest. */
static int64_t longest_walk(const walks *w, int32_t parts) {
  return ceil_div(ap_group_of(w->problem), parts) * w->row_blocks + steps_beside(parts);
}

/** Blocks of rows that a block of keys is seen by. */
static int64_t rows_seeing(const walks *w, int64_t key_block) {
  const ap_problem *p = w->problem;
  const int64_t first = larger(0, key_block * w->block_n - p->seqlen_k + p->seqlen_q);
  return larger(0, w->row_blocks - first / w->block_m);
}

/** Q, dO and the sum of dq of so many rows of a head. */
static int64_t bytes_of_rows(const ap_problem *p, int64_t rows) {
  return rows * (6 * p->hdim + 2 * p->hdim_v);
}

/** How much longer a step takes where as many bytes are walked over at once and L2 keeps `kept`. */
static double slower_beyond(int64_t bytes, int64_t kept) {
  return bytes <= kept ? 1 : 1 + APART_PERCENT * 0.01 * (double)(bytes - kept) / (double)bytes;
}

/** How much longer a causal step takes. Walks are of different lengths, so thread blocks that
 * walk over several heads are soon at different ones, and rows that one has read and added to are no
 * longer in L2 when the next comes to them. */
static double steps_apart(const walks *w, int32_t parts) {
  const ap_problem *p = w->problem;
  const int32_t group = ap_group_of(p);
  const int64_t units = w->units * parts, blocks = units * w->key_blocks;
  const int64_t at_once = blocks <= w->slots * FEW_ROUNDS
                              ? ap_turns(p, w->device, w->launch, w->key_blocks, units)
                              : smaller(units, ceil_div(w->slots, w->key_blocks));
  const int64_t bytes = at_once * bytes_of_rows(p, p->seqlen_q) * group / parts;
  return parts == group ? 1 : slower_beyond(bytes, KEPT_BYTES);
}

/** Lets the one of `ends` that is first, a heap, be later. */
static void end_later(int64_t *ends, int64_t slots, int64_t steps) {
  const int64_t end = ends[0] + steps;
  int64_t at = 0;
  for (int64_t next; (next = 2 * at + 1) < slots; at = next) {
    next += next + 1 < slots && ends[next + 1] < ends[next];
    if (ends[next] >= end)
      break;
    ends[at] = ends[next];
  }
  ends[at] = end;
}

/** Steps of causal walks until the last thread block has ended, each on the SM that is free first. */
static int64_t play(const walks *w, int32_t parts) {
  const int64_t heads = w->units * parts, all = heads * w->key_blocks;
  const int64_t abreast = ap_turns(w->problem, w->device, w->launch, w->key_blocks, heads);
  const int64_t first = all - abreast * w->key_blocks;
  const int64_t beside = steps_beside(parts);
  int64_t ends[SLOTS_MAX] = {0}, last = 0;
  for (int64_t number = 0; number < all; ++number) {
    const int64_t at = number - first;
    const int64_t place = at < 0 ? number : first + at % abreast * w->key_blocks + at / abreast;
    const int64_t part = place / w->key_blocks % parts;
    const int64_t group =
        (part + 1) * ap_group_of(w->problem) / parts - part * ap_group_of(w->problem) / parts;
    end_later(ends, w->slots, group * rows_seeing(w, place % w->key_blocks) + beside);
  }
  for (int64_t i = 0; i < w->slots; ++i)
    last = larger(last, ends[i]);
  return last;
}

/** The same where there are many: evenly, and then a part of one of the longest. */
static double estimate(const walks *w, int32_t parts) {
  const ap_problem *p = w->problem;
  const int64_t longest = longest_walk(w, parts);
  /* Of the keys that are as many as the queries, the last ones, a row sees half. */
  const double seen = 1 - (double)(smaller(p->seqlen_q, p->seqlen_k) / 2) / (double)p->seqlen_k;
  const double walked =
      seen * (double)(w->key_blocks * w->units * ap_group_of(w->problem) * w->row_blocks);
  const int64_t beside = w->key_blocks * w->units * parts * steps_beside(parts);
  const double even = (walked + (double)beside) / (double)w->slots;
  const double late = even + (double)(longest * TAIL_PERCENT) * 0.01;
  return late > (double)longest ? late : (double)longest;
}

/** Steps that it takes to write the parts of a call and to add them up. */
static double steps_of_sums(const walks *w, int32_t parts, int64_t whole_blocks) {
  if (parts == 1)
    return 0;
  const int64_t row_bytes = (w->problem->hdim + w->problem->hdim_v) * (int64_t)sizeof(float);
  const int64_t rows = ap_part_rows(w->problem, whole_blocks * w->block_n) * parts;
  return SUM_STEPS + (double)rows * (double)row_bytes * SUM_STEPS_PER_GB * 1e-9;
}

/** Steps of a call's walks that pass until the last thread block has ended. */
static double steps_of_call(const walks *w, int32_t parts) {
  const int64_t blocks = w->key_blocks * w->units * parts, rounds = ceil_div(blocks, w->slots);
  const double sums = steps_of_sums(w, parts, 0);
  if (w->problem->mask == AP_ATTENTION_MASK_FULL || rounds == 1)
    return sums + (double)(rounds * longest_walk(w, parts));
  const int is_played = rounds <= FEW_ROUNDS && w->slots <= SLOTS_MAX;
  const double steps = is_played ? (double)play(w, parts) : estimate(w, parts);
  return sums + steps * steps_apart(w, parts);
}

/** bytes_of_rows() of all heads. */
static int64_t bytes_of_heads(const walks *w, int64_t rows) {
  return w->units * ap_group_of(w->problem) * bytes_of_rows(w->problem, rows);
}

/** Key blocks behind the whole ones walk over rows again that have left L2 since: half of what as many
 * bytes of parts take, which are written as well. */
static double steps_of_rows_again(const walks *w, int64_t whole_blocks) {
  const ap_problem *p = w->problem;
  const int is_full = p->mask == AP_ATTENTION_MASK_FULL;
  const int64_t row_blocks = is_full ? w->row_blocks : rows_seeing(w, whole_blocks);
  const int64_t bytes = bytes_of_heads(w, smaller(p->seqlen_q, row_blocks * w->block_m));
  if (whole_blocks == 0 || bytes <= STEPS_KEPT_BYTES)
    return 0;
  return (double)(bytes - STEPS_KEPT_BYTES) * SUM_STEPS_PER_GB * 1e-9 / 2;
}

/** steps_apart() of parts of equal steps: all heads are walked over at once. */
static double steps_apart_by_steps(const walks *w) {
  const int64_t bytes = bytes_of_heads(w, w->problem->seqlen_q);
  return w->problem->mask == AP_ATTENTION_MASK_FULL ? 1 : slower_beyond(bytes, STEPS_KEPT_BYTES);
}

/** The same of parts of equal steps, behind so many whole key blocks of each head. */
static double steps_by_steps(const walks *w, int32_t parts, int64_t whole_blocks) {
  const ap_problem *p = w->problem;
  const int is_full = p->mask == AP_ATTENTION_MASK_FULL;
  const int64_t group = ap_group_of(p);
  int64_t ends[SLOTS_MAX] = {0}, last = 0, block = 0;
  if (is_full) { /* whole walks take as long as one another */
    const int64_t whole = whole_blocks * w->units;
    for (int64_t i = 0; i < w->slots; ++i)
      ends[w->slots - 1 - i] =
          (whole / w->slots + (i < whole % w->slots)) * (group * w->row_blocks + steps_beside(1));
    block = whole_blocks;
  }
  for (; block < w->key_blocks; ++block) {
    const int64_t walk = group * (is_full ? w->row_blocks : rows_seeing(w, block));
    const int64_t each = block < whole_blocks ? 1 : parts;
    for (int64_t i = 0; i < w->units * each; ++i) {
      const int64_t part = i % each;
      end_later(ends, w->slots,
                (part + 1) * walk / each - part * walk / each + steps_beside((int32_t)each));
    }
  }
  for (int64_t i = 0; i < w->slots; ++i)
    last = larger(last, ends[i]);
  return steps_of_sums(w, parts, whole_blocks) + steps_of_rows_again(w, whole_blocks) +
         (double)last * steps_apart_by_steps(w);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

int64_t ap_part_rows(const ap_problem *problem, int64_t whole_keys) {
  return padded_rows(problem->seqlen_k - whole_keys) * problem->heads_kv * problem->batch;
}

/** As far as there is to be room for them. */
static int64_t room_for_parts(const ap_problem *p) {
  const int64_t rows = padded_rows(p->seqlen_q) * p->heads_q * p->batch;
  const int64_t row_bytes = (p->hdim + p->hdim_v) * (int64_t)sizeof(float);
  const int64_t room = larger(SUMS_MAX * rows * p->hdim * (int64_t)sizeof(float), ROOM_BYTES);
  return smaller(room, MOST_BYTES) / row_bytes;
}

int64_t ap_most_part_rows(const ap_problem *problem, const ap_device *device,
                          const ap_launch *launch) {
  /* Of as many blocks as share groups, each of AP_PADDED_ROWS at most; or by steps, where each of a head's
   * parts has as many more at most. */
  const int64_t blocks =
      smaller((int64_t)device->sm_count * ROUNDS_MAX, (int64_t)launch->grid * ap_group_of(problem));
  const int64_t by_steps = smaller(2 * AP_PADDED_ROWS * (int64_t)device->sm_count * FEW_ROUNDS,
                                   STEPS_PARTS_MAX * ap_part_rows(problem, 0));
  return smaller(larger(AP_PADDED_ROWS * blocks, by_steps), room_for_parts(problem));
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/** Whether a division into parts of equal steps is few enough thread blocks that share a walk, and their
 * parts have room. */
static int has_room(const walks *w, int32_t parts, int64_t whole_blocks) {
  const int64_t shared = w->units * (w->key_blocks - whole_blocks) * parts;
  return parts <= STEPS_PARTS_MAX && whole_blocks < w->key_blocks &&
         shared <= w->slots * FEW_ROUNDS &&
         ap_group_of(w->problem) * w->row_blocks >= (int64_t)parts * STEPS_LEAST &&
         ap_part_rows(w->problem, whole_blocks * w->block_n) * parts <= room_for_parts(w->problem);
}

/** The division that takes less time than `*steps`, of parts of equal steps; else `best`. Whole key blocks
 * are those of so many rounds. */
static ap_parts choose_by_steps(const walks *w, ap_parts best, double *steps) {
  const ap_problem *p = w->problem;
  const int is_full = p->mask == AP_ATTENTION_MASK_FULL;
  const int64_t most = is_full ? STEPS_ROUNDS_MAX : FEW_ROUNDS;
  const int64_t last = w->units * w->key_blocks / w->slots;
  if (w->slots > SLOTS_MAX || w->units * w->key_blocks > w->slots * most)
    return best;
  /* Causal parts of one walk are at several heads at once: L2 has to hold more than one. */
  if (!is_full && 2 * bytes_of_rows(p, p->seqlen_q) > KEPT_BYTES)
    return best;
  double least = *steps * (100 - (is_full ? 0 : STEPS_GAIN_PERCENT)) * 0.01;
  for (int64_t rounds = larger(0, last - FEW_ROUNDS + 1); rounds <= last; ++rounds) {
    const int64_t whole_blocks = rounds * w->slots / w->units;
    for (int32_t parts = 2; has_room(w, parts, whole_blocks); ++parts) {
      const double tried = steps_by_steps(w, parts, whole_blocks);
      if (tried < least) {
        *steps = least = tried;
        best = (ap_parts){parts, 1, (int32_t)whole_blocks};
      }
    }
  }
  return best;
}

/** The parts, at most `most` of heads, that take the least time; `*took`: as many steps. */
static ap_parts choose(const walks *w, int64_t most, double *took) {
  int32_t best = 1;
  double least = steps_of_call(w, 1);
  for (int32_t parts = 2; parts <= most; ++parts) {
    const int64_t blocks = w->key_blocks * w->units * parts;
    const int percent = best == 1 || blocks > w->slots * ROUNDS ? GAIN_PERCENT : 0;
    const double steps = steps_of_call(w, parts);
    if (steps < least * (100 - percent) * 0.01) {
      least = steps;
      best = parts;
    }
  }
  *took = least;
  const ap_parts of_heads = {best, 0, 0};
  return most > 0 && ap_group_of(w->problem) > 1 ? choose_by_steps(w, of_heads, took) : of_heads;
}

static walks walks_of(const ap_problem *problem, const ap_device *device, const ap_launch *launch) {
  const int32_t *field = launch->tile.field;
  const int64_t block_m = field[AP_ATTENTION_TILE_BLOCK_M];
  const int64_t block_n = field[AP_ATTENTION_TILE_BLOCK_N];
  return (walks){.problem = problem,
                 .device = device,
                 .launch = launch,
                 .slots = device->sm_count,
                 .units = (int64_t)problem->heads_kv * problem->batch,
                 .key_blocks = ceil_div(problem->seqlen_k, block_n),
                 .row_blocks = ceil_div(problem->seqlen_q, block_m),
                 .block_m = block_m,
                 .block_n = block_n};
}

/* ---- Sequences of their own lengths ---------------------------------------------------------- */

int64_t ap_most_sequence_part_rows(const ap_problem *problem, const ap_device *device, int32_t keys,
                                   int any_keys) {
  const int64_t most = (int64_t)SEQUENCE_ROUNDS * device->sm_count; /* thread blocks */
  const int64_t blocks = problem->batch * ceil_div(problem->seqlen_k, keys) * problem->heads_q;
  return keys * (any_keys ? most : smaller(blocks, most));
}

/** The share of a sequence's row and key blocks that are walked over. */
static double seen_of_sequence(const walks *w, int64_t key_blocks) {
  return w->problem->mask == AP_ATTENTION_MASK_FULL ? 1 : 0.5 + 0.5 / (double)larger(1, key_blocks);
}

/** Steps until the last thread block of sequences has ended. The host knows no more of the lengths than
 * their bounds and sums: that is of one of the longest, and others of one length. Walks of the longest
 * come first. */
static double steps_of_sequences(const walks *w, int64_t blocks, int32_t parts) {
  const ap_problem *p = w->problem;
  const int is_full = p->mask == AP_ATTENTION_MASK_FULL;
  const int64_t units = blocks * p->heads_kv * parts, others = larger(1, p->batch - 1);
  const int64_t rows = ceil_div(larger(0, p->rows_q - p->seqlen_q), others); /* of each other one */
  const int64_t keys = ceil_div(larger(0, p->rows_k - p->seqlen_k), others);
  const int64_t key_blocks = ceil_div(keys, w->block_n);
  const double walked =
      seen_of_sequence(w, w->key_blocks) * (double)(w->row_blocks * w->key_blocks) +
      seen_of_sequence(w, key_blocks) *
          (double)(ceil_div(rows, w->block_m) * key_blocks * (p->batch - 1));
  const double even =
      (walked * p->heads_q + (double)(units * steps_beside(parts))) / (double)w->slots;
  const int64_t longest = longest_walk(w, parts);
  double last = even + (double)(longest * TAIL_PERCENT) * 0.01;
  /* Causal walks of one sequence are of all lengths, and fill rounds. */
  const int64_t rounds = ceil_div(w->key_blocks * p->heads_kv * parts, w->slots);
  const int64_t of_longest = longest * (is_full ? rounds : 1);
  last = last > (double)of_longest ? last : (double)of_longest;
  if (is_full || keys <= w->block_n) { /* no walk is shorter than those of the others */
    const double row_blocks = rows > w->block_m ? (double)rows / (double)w->block_m : 1;
    const double shortest =
        (double)ceil_div(ap_group_of(p), parts) * row_blocks + (double)steps_beside(parts);
    const double all = shortest * (double)ceil_div(units, w->slots);
    last = last > all ? last : all;
  }
  if (parts == 1)
    return last;
  const double bytes = (double)(units * w->block_n * (p->hdim + p->hdim_v)) * sizeof(float);
  return last + SEQUENCE_SUM_STEPS + bytes * SEQUENCE_SUM_STEPS_PER_GB * 1e-9;
}

int32_t ap_choose_sequence_parts(const ap_problem *problem, const ap_device *device,
                                 const ap_launch *launch, int64_t blocks) {
  const int64_t room = (int64_t)SEQUENCE_ROUNDS * device->sm_count; /* of thread blocks */
  const int64_t most = smaller(ap_group_of(problem), room / larger(1, blocks * problem->heads_kv));
  walks w = walks_of(problem, device, launch);
  /* Bounds may be more than all rows together. */
  w.row_blocks = ceil_div(smaller(problem->seqlen_q, problem->rows_q), w.block_m);
  w.key_blocks = ceil_div(smaller(problem->seqlen_k, problem->rows_k), w.block_n);
  int32_t best = 1;
  double least = steps_of_sequences(&w, blocks, 1);
  for (int32_t parts = 2; parts <= most; ++parts) {
    const double steps = steps_of_sequences(&w, blocks, parts);
    if (steps < least * (100 - (best == 1 ? GAIN_PERCENT : 0)) * 0.01) {
      least = steps;
      best = parts;
    }
  }
  return best;
}

/* ---- What is remembered, in 16 bits ---------------------------------------------------------- */

enum { MEMO_BY_STEPS = 0x8000, MEMO_PARTS = 0xfff, MEMO_STEPS = 0x3f, MEMO_ROUNDS_SHIFT = 6 };

static uint16_t pack_parts(const walks *w, ap_parts parts) {
  if (!parts.by_steps)
    return (uint16_t)parts.parts;
  const int64_t rounds = ceil_div(parts.whole_blocks * w->units, w->slots);
  return (uint16_t)(MEMO_BY_STEPS | rounds << MEMO_ROUNDS_SHIFT | parts.parts);
}

static ap_parts unpack_parts(const walks *w, uint16_t packed) {
  if (!(packed & MEMO_BY_STEPS))
    return (ap_parts){packed, 0, 0};
  const int64_t rounds = (packed & ~MEMO_BY_STEPS) >> MEMO_ROUNDS_SHIFT;
  return (ap_parts){packed & MEMO_STEPS, 1, (int32_t)(rounds * w->slots / w->units)};
}

static uint64_t key_of(const ap_problem *p, const ap_launch *launch) {
  uint64_t key =
      ap_memo_key(launch->variant_key, (uint64_t)p->seqlen_q << 32 | (uint32_t)p->seqlen_k);
  key = ap_memo_key(key, (uint64_t)p->heads_q << 32 | (uint32_t)p->heads_kv);
  return ap_memo_kind(ap_memo_key(key, (uint64_t)p->batch), 3);
}

/** Parts of heads, at most; 0: there is no room for any. */
static int64_t most_parts(const walks *w) {
  const ap_problem *p = w->problem;
  return smaller(smaller(ap_group_of(p), w->slots * ROUNDS_MAX / (w->units * w->key_blocks)),
                 room_for_parts(p) / ap_part_rows(p, 0));
}

/** Steps that pass, with the best parts, until the last thread block of a launch has ended. */
static double steps_of_launch(const ap_problem *problem, const ap_device *device,
                              const ap_launch *launch) {
  const walks w = walks_of(problem, device, launch);
  double steps;
  choose(&w, smaller(most_parts(&w), MEMO_PARTS), &steps);
  return steps;
}

int ap_takes_less(const ap_problem *problem, const ap_device *device, const ap_launch *launch,
                  const ap_launch *other, int percent) {
  enum { NO = 1, YES };
  const uint64_t key = ap_memo_kind(key_of(problem, launch), 0);
  uint16_t known = ap_memo_find(device->memo, key);
  if (known == 0) {
    const double steps = steps_of_launch(problem, device, launch);
    known = steps_of_launch(problem, device, other) * percent * 0.01 < steps ? YES : NO;
    ap_memo_put(device->memo, key, known);
  }
  return known == YES;
}

ap_parts ap_choose_parts(const ap_problem *problem, const ap_device *device,
                         const ap_launch *launch) {
  const ap_parts none = {1, 0, 0};
  const walks w = walks_of(problem, device, launch);
  const int64_t most = most_parts(&w);
  if (most < 1)
    return none;
  const uint64_t key = key_of(problem, launch);
  const uint16_t known = ap_memo_find(device->memo, key);
  ap_parts parts = unpack_parts(&w, known);
  /* Another key of the same bits may have more. */
  const int fits =
      parts.by_steps ? has_room(&w, parts.parts, parts.whole_blocks) : parts.parts <= most;
  if (known != 0 && fits)
    return parts;
  double steps;
  parts = choose(&w, smaller(most, MEMO_PARTS), &steps);
  ap_memo_put(device->memo, key, pack_parts(&w, parts));
  return parts;
}
