/* Decides how a backward call is run: the structure, its kernels, their grids and the workspace.
 * Pure: it depends on shapes and the device's numbers, and touches nothing.
 *
 *     fused    bwd_delta, bwd, bwd_convert    dq is summed in fp32, in any order
 *     passed   bwd_delta, bwd                 of a narrow window; as of the pair
 *     paired   bwd_delta, bwd_dq, bwd_dkv     every bit is the same in every run
 *
 * and, where the gradients by the sinks or the bias are wanted, bwd_sinks and bwd_dbias behind
 * bwd_delta. Of ragged calls fwd_schedule comes first, and orders the units of the others. Where no
 * sequence has more keys than a unit of bwd, a key block or several that one thread block takes, dq is
 * complete there: no sum in any order, and no bwd_convert.
 *
 * Where a fused call has fewer key blocks than SMs, or little more, thread blocks of Hopper's bwd share
 * the query heads of a key head. Each leaves its part of dK and dV in fp32, and bwd_convert, which then
 * runs for dq, dk and dv, adds the parts up, in one order. */
#include "attention/attention.h"
#include "core/numbers.h"

#include <string.h>

enum { WORKSPACE_ALIGNMENT = 256, TILE_ROWS = 16, PADDED_TILES = AP_PADDED_ROWS / TILE_ROWS };
enum { MANY_KEYS = 1024 }; /* more than a block has */
enum { ANY_KEYS = 2 };     /* `is_bound`: and sequences may have any number of keys */
enum { UNPADDED_ROWS = 512 };
enum { SUM_ROWS = 32 }; /* keys of a thread block that adds up parts: PART_ROWS of bwd_convert */
enum { UNITS_FLOATS = sizeof(attnpress_sequence_units) / sizeof(float) };

/* ---- Kernels --------------------------------------------------------------------------------- */

/** 1 where kernels of an architecture can run the call: those of sm90 read through tensor maps, and
 * are not there for all head dims. `variant`: all but the architecture. */
static int serves(const ap_route *run, const ap_variant *variant, const ap_problem *p,
                  const ap_device *device) {
  ap_variant v = *variant;
  if (device->arch_max != 0 && run->arch > device->arch_max)
    return 0;
  v.axis[AP_ATTENTION_ARCH] = run->arch;
  return run->arch < 90 || (device->tma && p->tma && ap_variant_is_legal(&v));
}

/** The kernel of a pass, without its grid. */
static attnpress_status find_kernel(const ap_problem *p, int32_t pass, const ap_device *device,
                                    ap_launch *launch) {
  ap_variant *v = &launch->variant;
  *launch = (ap_launch){.variant.family = AP_FAMILY_ATTENTION, .num_splits = 1};
  v->axis[AP_ATTENTION_PASS] = pass;
  v->axis[AP_ATTENTION_HDIM] = pass == AP_ATTENTION_PASS_BWD_DELTA ? p->hdim_v : p->hdim;
  v->axis[AP_ATTENTION_HDIM_V] = pass == AP_ATTENTION_PASS_BWD_CONVERT ? p->hdim : p->hdim_v;
  v->axis[AP_ATTENTION_DTYPE] = p->dtype;
  if (pass == AP_ATTENTION_PASS_BWD_SINKS) { /* one kernel for all */
    v->axis[AP_ATTENTION_HDIM] = v->axis[AP_ATTENTION_HDIM_V] = AP_ATTENTION_HDIM_MIN;
    v->axis[AP_ATTENTION_DTYPE] = AP_ATTENTION_DTYPE_FP16;
  } else if (pass != AP_ATTENTION_PASS_BWD_DELTA && pass != AP_ATTENTION_PASS_BWD_CONVERT) {
    v->axis[AP_ATTENTION_MASK] = p->mask;
    v->axis[AP_ATTENTION_SOFTCAP] = p->softcap;
    v->axis[AP_ATTENTION_ALIBI] = p->alibi;
    v->axis[AP_ATTENTION_BIAS] = p->bias;
    v->axis[AP_ATTENTION_DROPOUT] = p->dropout;
    v->axis[AP_ATTENTION_MOD_SCORE] = p->mod_score;
    v->axis[AP_ATTENTION_MOD_MASK] = p->mod_mask;
    v->axis[AP_ATTENTION_MOD_GRAD] = p->mod_grad && pass != AP_ATTENTION_PASS_BWD_DQ;
    launch->snippet = p->mod_score || p->mod_mask;
  }
  v->axis[AP_ATTENTION_SEQUENCES] = p->sequences;
  const ap_route *run = ap_next_route(v, device->capability, NULL);
  if (run == NULL) {
    FORWARD_IF(ap_check_capability(device->capability));
    return ap_fail(ATTNPRESS_NOT_SUPPORTED, "no backward kernel runs on compute capability %d.%d",
                   device->capability / 10, device->capability % 10);
  }
  for (const ap_route *next; !serves(run, v, p, device); run = next)
    if ((next = ap_next_route(v, device->capability, run)) == NULL)
      break; /* the last one runs every call */
  v->axis[AP_ATTENTION_ARCH] = run->arch;
  launch->target = run->target;
  return ap_find_launch_tile(launch);
}

/** Row tiles of so many rows, padded. */
static int64_t padded_tiles(int64_t rows) {
  return ceil_div(rows, AP_PADDED_ROWS) * (int64_t)PADDED_TILES;
}

/** Row tiles of a dense call's head of dq's sum: of short ones no more than there are, as zeros of others
 * would be a part of what is written and read. */
static int64_t dense_sum_tiles(int64_t rows) {
  return rows <= UNPADDED_ROWS ? ceil_div(rows, TILE_ROWS) : padded_tiles(rows);
}

/** The most blocks of so many positions that a call's sequences have, of rows or of keys. */
static int64_t most_blocks(const ap_problem *p, int keys, int64_t positions) {
  const int64_t rows = keys ? p->rows_k : p->rows_q;
  const int64_t longest = p->batch * ceil_div(keys ? p->seqlen_k : p->seqlen_q, positions);
  const int64_t by_rows = (rows + p->batch * (positions - 1)) / positions;
  return by_rows < longest ? by_rows : longest;
}

/** The number of the order of such blocks, which kernels share. `whole`: as in
 * attnpress_schedule_order. */
static int32_t find_order(ap_backward_plan *plan, int keys, int32_t positions, int32_t whole) {
  int32_t i = 0;
  while (i < plan->orders &&
         !(plan->order[i].by_keys == keys && plan->order[i].positions == positions &&
           plan->order[i].whole == whole))
    ++i;
  if (i == plan->orders)
    plan->order[plan->orders++] =
        (ap_backward_order){.by_keys = keys, .positions = positions, .whole = whole};
  return i;
}

/* ---- Short walks ----------------------------------------------------------------------------- */

enum {
  PAIR_HDIM_MIN = 136,   /* of both head dims, */
  PAIR_GROUP_HDIM = 128, /* or in causal groups; */
  PAIR_WIDE_HDIM = 200,  /* where bwd has 64 keys a block, not 80 or 96 */
  PAIR_GROUP = 4,        /* query heads of a key head from which on walks over them are long */
  PAIR_LEAST_KEYS = 97,  /* more than a block's: of fewer a row's sum of dq is added to once; */
  PAIR_GROUP_KEYS = 80,  /* and so many of causal groups */
  PAIR_BLOCK_KEYS = 64,
  PAIR_BLOCK_ROWS = 128, /* of bwd_dq, which take as long where some are past the end */
  PAIR_FEW_ROWS = 256,   /* at wide head dims, full mask, no groups, whose key blocks walk so little
                            that to begin and to end is most of what they do: */
  PAIR_FEW_KEYS = 2048,  /* so many keys, */
  PAIR_FEW_PERCENT = 140 /* where rows, with those past the end, are at most that of the call's */
};

/** Whether a call with few keys may run the pair although it need not: where the sum of dq is as long on
 * its way as two more products take. */
static int may_pair(const ap_problem *p, const ap_device *device) {
  const int is_group = p->mask == AP_ATTENTION_MASK_CAUSAL && ap_group_of(p) >= PAIR_GROUP;
  const int32_t least_hdim = is_group ? PAIR_GROUP_HDIM : PAIR_HDIM_MIN;
  return device->capability == 90 && device->tma && p->tma &&
         (device->arch_max == 0 || device->arch_max >= 90) &&
         p->sequences == AP_ATTENTION_SEQUENCES_DENSE && p->mask != AP_ATTENTION_MASK_WINDOW &&
         p->hdim >= least_hdim && p->hdim_v >= least_hdim && !p->softcap && !p->alibi && !p->bias &&
         !p->dropout && !p->mod_score && !p->mod_mask;
}

/* Of the kernels of wide heads. */
enum {
  FEW_ROWS = 64,  /* of a tile: of few rows */
  FEW_TILES = 2,  /* as many of a key head, at most, */
  FEW_BLOCKS = 5, /* and as many blocks of keys, at least, for which the rows are brought once; */
  RUNS_TILES = 5, /* where thread blocks take key blocks, as many of a head without a group, */
  RUNS_CAUSAL_TILES = 6,
  RUNS_ROUNDS = 6,           /* and as many rounds of key blocks, at least; */
  LONG_TILES = 24,           /* rows of a group from which on L2 holds less of them; */
  LONG_FULL_PERCENT = 119,   /* of a step of 64 keys, what one of 80 takes: full mask, */
  LONG_CAUSAL_PERCENT = 122, /* causal, */
  LONG_GROUP_PERCENT = 110,  /* in such groups, */
  LONG_SHORT_TILES = 8,      /* and of walks over few rows, whose beginnings and ends are longer */
  LONG_SHORT_PERCENT = 130
};

int ap_keeps_rows(const ap_variant *variant) {
  const int32_t *axis = variant->axis;
  return axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_BWD && axis[AP_ATTENTION_FEW];
}

/** Key blocks of a wide head that thread blocks of bwd and of bwd_dkv have. */
static int64_t wide_blocks(const ap_problem *p) {
  return ceil_div(p->seqlen_k, PAIR_BLOCK_KEYS);
}

/** Whether bwd has more kernels than one for a call: dense ones of wide heads. */
static int has_wide_kernels(const ap_problem *p, const ap_device *device) {
  return may_pair(p, device) && p->hdim >= PAIR_WIDE_HDIM && p->hdim_v == p->hdim;
}

/** Whether a key head's query rows are so few that they stay in shared memory while a thread block walks
 * over its keys, and there is such a walk for each SM. */
static int keeps_rows(const ap_problem *p, const ap_device *device) {
  const int64_t blocks = wide_blocks(p);
  return has_wide_kernels(p, device) && p->seqlen_q > 0 && blocks >= FEW_BLOCKS &&
         ceil_div(p->seqlen_q, FEW_ROWS) * ap_group_of(p) <= FEW_TILES &&
         blocks * p->heads_kv * p->batch > device->sm_count;
}

/** Whether thread blocks take key blocks of wide heads: where walks are so few steps that to begin and to end
 * is much of what they do, most are of one length, and there are many. */
static int takes_short_walks(const ap_problem *p, const ap_device *device) {
  const int is_full = p->mask == AP_ATTENTION_MASK_FULL;
  return has_wide_kernels(p, device) && p->seqlen_q > 0 && ap_group_of(p) == 1 &&
         ceil_div(p->seqlen_q, FEW_ROWS) <= (is_full ? RUNS_TILES : RUNS_CAUSAL_TILES) &&
         (is_full || 2 * (int64_t)p->seqlen_q <= p->seqlen_k) &&
         wide_blocks(p) * p->heads_kv * p->batch >= RUNS_ROUNDS * (int64_t)device->sm_count;
}

/** How long a step of 80 keys takes, in parts of one of 64. */
static int percent_of_long_step(const ap_problem *p) {
  const int64_t tiles = ceil_div(p->seqlen_q, FEW_ROWS) * ap_group_of(p);
  if (tiles <= LONG_SHORT_TILES)
    return LONG_SHORT_PERCENT;
  if (ap_group_of(p) > 1 && tiles >= LONG_TILES)
    return LONG_GROUP_PERCENT;
  return p->mask == AP_ATTENTION_MASK_FULL ? LONG_FULL_PERCENT : LONG_CAUSAL_PERCENT;
}

/** Which of the kernels of wide heads is bwd. Key blocks of 80 keys send a fifth fewer bytes of rows and sums
 * through L2, and take less time for each key: where that is not lost again as they are fewer. */
static attnpress_status choose_wide_kernel(const ap_problem *p, const ap_device *device,
                                           ap_launch *launch) {
  if (!has_wide_kernels(p, device))
    return ATTNPRESS_OK;
  const int keeps = keeps_rows(p, device), takes = takes_short_walks(p, device);
  ap_launch other = *launch;
  other.variant.axis[keeps   ? AP_ATTENTION_FEW
                     : takes ? AP_ATTENTION_RUNS
                             : AP_ATTENTION_LONG_ROWS] = 1;
  if (!ap_variant_is_legal(&other.variant))
    return ATTNPRESS_OK;
  FORWARD_IF(ap_find_launch_tile(&other));
  if (keeps || takes || ap_takes_less(p, device, launch, &other, percent_of_long_step(p)))
    *launch = other;
  return ATTNPRESS_OK;
}

/* ---- Units of several key blocks ------------------------------------------------------------- */

enum {
  CHAIN_MEAN_KEYS = 512,  /* of sequences, on average, up to which the sum of dq takes long; */
  CHAIN_FULL_KEYS = 384,  /* without a mask; of more, what is walked over again leaves L2, */
  CHAIN_GROUP_KEYS = 256, /* sooner where that is rows of several heads */
  CHAIN_ROUNDS = 8,       /* of heads of sequences for each SM, at least */
  CHAIN_PERCENT = 112,    /* of what an SM does, that the longest unit takes at most */
};

int ap_can_chain(const ap_variant *variant) {
  const int32_t *axis = variant->axis;
  return axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_BWD && axis[AP_ATTENTION_RUNS] &&
         axis[AP_ATTENTION_SEQUENCES] == AP_ATTENTION_SEQUENCES_RAGGED;
}

/** The most keys of a sequence all of whose blocks of `keys` a thread block is to take, and which it
 * passes dq on between: of longer ones they are units by themselves. The host knows no more of the
 * lengths than their bounds and sums: were all sequences but one of the same length, the longest unit
 * would end with the others, about. `rows`: of a step. */
static int32_t choose_direct_keys(const ap_problem *p, const ap_device *device, int32_t keys,
                                  int32_t rows) {
  const int64_t heads = (int64_t)p->batch * p->heads_kv;
  const int is_full = p->mask == AP_ATTENTION_MASK_FULL;
  const int64_t mean_keys = !is_full              ? CHAIN_MEAN_KEYS
                            : ap_group_of(p) == 1 ? CHAIN_FULL_KEYS
                                                  : CHAIN_GROUP_KEYS;
  if (p->rows_k > mean_keys * p->batch || heads < (int64_t)CHAIN_ROUNDS * device->sm_count ||
      p->seqlen_q == 0)
    return keys;
  const int64_t walk = ceil_div(p->seqlen_q, rows);
  int64_t most = ceil_div(p->seqlen_k, keys);
  const int64_t mean = ceil_div(p->rows_q / p->batch, rows) * ceil_div(p->rows_k / p->batch, keys);
  /* Of each head of a group as many. */
  const int64_t steps = p->heads_kv * (walk * most + (p->batch - 1) * mean) / device->sm_count;
  most = smaller(most, steps * CHAIN_PERCENT / 100 / walk);
  if (is_full)
    most = smaller(most, CHAIN_FULL_KEYS / keys);
  return keys * (int32_t)(most < 1 ? 1 : most);
}

/** Takes the kernel for short sequences, where there is one, if units are to be several key blocks. */
static attnpress_status choose_units(const ap_problem *p, const ap_device *device,
                                     ap_launch *launch, int32_t *direct_keys) {
  const int32_t keys = launch->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  ap_launch other = *launch;
  other.variant.axis[AP_ATTENTION_RUNS] = 1;
  *direct_keys = keys;
  if (!ap_variant_is_legal(&other.variant))
    return ATTNPRESS_OK;
  *direct_keys = choose_direct_keys(p, device, keys, launch->tile.field[AP_ATTENTION_TILE_BLOCK_M]);
  if (*direct_keys == keys)
    return ATTNPRESS_OK;
  FORWARD_IF(ap_find_launch_tile(&other));
  *launch = other;
  return ATTNPRESS_OK;
}

/** Adds a kernel whose thread blocks take rows or keys of each head of each batch in turn, or of
 * ragged calls in an order of their own; none where there is nothing to do. */
static attnpress_status add_kernel(const ap_problem *p, int32_t pass, int is_bound,
                                   const ap_device *device, ap_backward_plan *plan,
                                   ap_launches *launches) {
  const int keys = pass == AP_ATTENTION_PASS_BWD || pass == AP_ATTENTION_PASS_BWD_DKV;
  const int padded = pass == AP_ATTENTION_PASS_BWD_DELTA || pass == AP_ATTENTION_PASS_BWD_CONVERT;
  const int64_t rows = keys     ? p->seqlen_k
                       : padded ? padded_tiles(p->seqlen_q) * TILE_ROWS
                                : p->seqlen_q;
  const int32_t heads = keys ? p->heads_kv : p->heads_q;
  if (rows == 0 || heads == 0 || p->batch == 0)
    return ATTNPRESS_OK;
  ap_launch *launch = &launches->launch[launches->count];
  FORWARD_IF(find_kernel(p, pass, device, launch));
  if (pass == AP_ATTENTION_PASS_BWD && !is_bound)
    FORWARD_IF(choose_wide_kernel(p, device, launch));
  const int32_t positions =
      launch->tile.field[keys ? AP_ATTENTION_TILE_BLOCK_N : AP_ATTENTION_TILE_BLOCK_M];
  const int64_t each = ceil_div(rows, positions);
  int64_t blocks = each * p->batch;
  if (p->sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    if (pass == AP_ATTENTION_PASS_BWD)
      plan->direct_keys = positions;
    if (pass == AP_ATTENTION_PASS_BWD && !is_bound)
      FORWARD_IF(choose_units(p, device, launch, &plan->direct_keys));
    plan->chains = pass == AP_ATTENTION_PASS_BWD ? plan->direct_keys > positions : plan->chains;
    blocks = most_blocks(p, keys, positions);
    plan->order_of[launches->count] =
        find_order(plan, keys, positions,
                   pass == AP_ATTENTION_PASS_BWD && plan->chains ? plan->direct_keys : 0);
  }
  RETURN_IF(heads > INT32_MAX / (blocks > 0 ? blocks : 1), ATTNPRESS_NOT_SUPPORTED,
            "batch %d x %d heads x %s %d needs more than 2^31 - 1 thread blocks; divide the batch",
            (int)p->batch, (int)heads, keys ? "seqlen_k" : "seqlen_q",
            (int)(keys ? p->seqlen_k : p->seqlen_q));
  launch->grid = (uint32_t)(blocks * heads);
  plan->blocks[launches->count++] = (int32_t)each;
  return ATTNPRESS_OK;
}

/** Adds the kernel that sums up the gradient by the sinks, a thread block a head; where there are no
 * rows it writes zeros. */
static attnpress_status add_sinks(const ap_problem *p, const ap_device *device,
                                  ap_launches *launches) {
  if (!p->dsinks || p->heads_q == 0)
    return ATTNPRESS_OK;
  ap_launch *launch = &launches->launch[launches->count];
  FORWARD_IF(find_kernel(p, AP_ATTENTION_PASS_BWD_SINKS, device, launch));
  launch->grid = (uint32_t)p->heads_q;
  ++launches->count;
  return ATTNPRESS_OK;
}

/** Adds the kernel for the gradient by the bias, a thread block a tile of it; where nothing is summed
 * up it writes zeros. Of ragged calls the gradient has rows and keys of its own, and needs no order. */
static attnpress_status add_dbias(const ap_problem *p, const ap_device *device,
                                  ap_backward_plan *plan, ap_launches *launches) {
  const int ragged = p->sequences != AP_ATTENTION_SEQUENCES_DENSE;
  const int64_t rows = p->dbias & AP_DBIAS_ONE_ROW ? 1 : ragged ? p->dbias_rows : p->seqlen_q;
  const int64_t keys = ragged ? p->dbias_keys : p->seqlen_k;
  const int64_t heads = p->dbias & AP_DBIAS_ONE_HEAD ? 1 : p->heads_q;
  const int64_t batch = p->dbias & AP_DBIAS_ONE_BATCH ? 1 : p->batch;
  if (!p->dbias || rows == 0 || heads == 0 || batch == 0 || keys == 0)
    return ATTNPRESS_OK;
  ap_launch *launch = &launches->launch[launches->count];
  FORWARD_IF(find_kernel(p, AP_ATTENTION_PASS_BWD_DBIAS, device, launch));
  const int32_t *field = launch->tile.field;
  const int64_t key_blocks = ceil_div(keys, field[AP_ATTENTION_TILE_BLOCK_N]);
  const int64_t row_blocks = ceil_div(rows, field[AP_ATTENTION_TILE_BLOCK_M]);
  int64_t blocks;
  RETURN_IF(__builtin_mul_overflow(key_blocks * row_blocks, batch * heads, &blocks) ||
                blocks > INT32_MAX,
            ATTNPRESS_NOT_SUPPORTED,
            "dbias of %d x %d x %d x %d needs more than 2^31 - 1 thread blocks; divide the batch",
            (int)batch, (int)heads, (int)rows, (int)keys);
  launch->grid = (uint32_t)blocks;
  plan->dbias_row_blocks = (int32_t)(p->dbias & AP_DBIAS_ONE_ROW
                                         ? ceil_div(p->seqlen_q, field[AP_ATTENTION_TILE_BLOCK_M])
                                         : row_blocks);
  plan->blocks[launches->count++] = (int32_t)key_blocks;
  return ATTNPRESS_OK;
}

/** Where a problem has kernels that sum dq up in fp32, and may. */
static int is_fused(const ap_problem *p, int deterministic) {
  return !deterministic && p->hdim <= AP_ATTENTION_BWD_HDIM_MAX &&
         p->hdim_v <= AP_ATTENTION_BWD_HDIM_MAX;
}

/* ---- Short calls ---------------------------------------------------------------------------- */

/** Keys from which on a call may run the pair. */
static int64_t least_pair_keys(const ap_problem *p) {
  const int32_t group = ap_group_of(p);
  if (p->hdim >= PAIR_WIDE_HDIM && p->hdim_v >= PAIR_WIDE_HDIM)
    return PAIR_BLOCK_KEYS + (group < PAIR_GROUP);
  return p->mask == AP_ATTENTION_MASK_FULL || group < PAIR_GROUP || p->hdim < PAIR_HDIM_MIN
             ? PAIR_LEAST_KEYS
             : PAIR_GROUP_KEYS;
}

/** Keys of a row, on average, up to which the pair takes less time where no block has rows past the
 * end. `rows`: with these, `blocks`: of keys, for `slots` SMs. */
static int64_t most_pair_keys(const ap_problem *p, int64_t rows, int64_t blocks, int64_t slots) {
  const int32_t group = ap_group_of(p);
  const int is_wide = p->hdim >= PAIR_WIDE_HDIM && p->hdim_v >= PAIR_WIDE_HDIM;
  int64_t most = 192;
  if (p->hdim < PAIR_HDIM_MIN || p->hdim_v < PAIR_HDIM_MIN)
    return blocks * 5 >= slots * 12 ? 320 : 0;
  if (is_wide && p->mask == AP_ATTENTION_MASK_FULL && group == 1 && p->seqlen_q <= PAIR_FEW_ROWS &&
      rows * 100 <= p->seqlen_q * PAIR_FEW_PERCENT)
    most = PAIR_FEW_KEYS;
  else if (is_wide)
    most = 768;
  else if (p->mask == AP_ATTENTION_MASK_FULL)
    most = group < PAIR_GROUP || p->hdim < 176 ? 192 : 256;
  else if (group > 1) /* walks of large ones come apart */
    most = group < PAIR_GROUP || p->hdim < 152 ? 320 : 512;
  /* Few blocks of keys leave SMs idle for long. */
  if (blocks >= 2 * slots)
    return most;
  if (blocks * 4 >= slots * 3)
    return smaller(most, is_wide && blocks >= slots ? 400 : 320);
  return group >= PAIR_GROUP && blocks * 20 >= slots * 9 ? smaller(most, 256) : 0;
}

static int is_short(const ap_problem *p, const ap_device *device) {
  const int64_t unseen =
      p->mask == AP_ATTENTION_MASK_FULL ? 0 : smaller(p->seqlen_q, p->seqlen_k) / 2;
  const int64_t blocks = ceil_div(p->seqlen_k, PAIR_BLOCK_KEYS) * p->heads_kv * p->batch;
  const int64_t rows = ceil_div(p->seqlen_q, PAIR_BLOCK_ROWS) * PAIR_BLOCK_ROWS;
  return may_pair(p, device) && p->seqlen_k >= least_pair_keys(p) &&
         (p->seqlen_k - unseen) * rows <=
             most_pair_keys(p, rows, blocks, device->sm_count) * p->seqlen_q;
}

/* ---- Groups that thread blocks share --------------------------------------------------------- */

/** Whether thread blocks of a kernel may share a group: those of 9.0, not of units of several key
 * blocks. Under a window walks are short, and differ by lengths that are not known here. */
static int may_share(const ap_problem *p, const ap_launch *launch) {
  return launch->tile.field[AP_ATTENTION_TILE_PRODUCER] && p->heads_q > p->heads_kv &&
         !ap_can_chain(&launch->variant) && p->mask != AP_ATTENTION_MASK_WINDOW;
}

/** Adds the kernels that make dk and dv of the parts of a ragged call: a thread block SUM_ROWS keys of a
 * key block, in the order of bwd. */
static attnpress_status add_key_sums(const ap_problem *p, const ap_device *device, int main_kernel,
                                     ap_backward_plan *plan, ap_launches *launches) {
  const ap_launch *launch = &launches->launch[main_kernel];
  const int32_t keys = launch->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  const int64_t blocks = most_blocks(p, 1, keys) * p->heads_kv * ceil_div(keys, SUM_ROWS);
  ap_problem of = *p;
  for (int is_dv = 0; is_dv < 2; ++is_dv) {
    of.hdim = is_dv ? p->hdim_v : p->hdim;
    *(is_dv ? &plan->dv_convert : &plan->dk_convert) = launches->count;
    ap_launch *sums = &launches->launch[launches->count];
    FORWARD_IF(find_kernel(&of, AP_ATTENTION_PASS_BWD_CONVERT, device, sums));
    sums->grid = (uint32_t)blocks;
    plan->order_of[launches->count] = plan->order_of[main_kernel];
    plan->blocks[launches->count++] = keys;
  }
  return ATTNPRESS_OK;
}

/** share_groups() of sequences of their own lengths: parts have query heads each. */
static attnpress_status share_sequences(const ap_problem *p, const ap_device *device, int is_bound,
                                        int main_kernel, ap_backward_plan *plan,
                                        ap_launches *launches) {
  ap_launch *launch = &launches->launch[main_kernel];
  const int32_t keys = launch->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  const int64_t blocks = most_blocks(p, 1, keys);
  plan->group_parts = is_bound ? 2 : ap_choose_sequence_parts(p, device, launch, blocks);
  if (plan->group_parts == 1)
    return ATTNPRESS_OK;
  plan->key_tiles = (int32_t)(blocks * keys / TILE_ROWS);
  plan->part_rows = plan->group_parts * p->heads_kv * blocks * keys;
  if (is_bound)
    plan->part_rows = ap_most_sequence_part_rows(p, device, keys, is_bound == ANY_KEYS);
  launch->grid = (uint32_t)(blocks * p->heads_kv * plan->group_parts);
  return add_key_sums(p, device, main_kernel, plan, launches);
}

/** Divides groups where that takes less time, and adds the kernels that make dk and dv of the parts.
 * `is_bound`: the plan is that of the largest call, and has room for every smaller one's parts. */
static attnpress_status share_groups(const ap_problem *p, const ap_device *device, int is_bound,
                                     int main_kernel, ap_backward_plan *plan,
                                     ap_launches *launches) {
  ap_launch *launch = &launches->launch[main_kernel];
  if (!may_share(p, launch))
    return ATTNPRESS_OK;
  if (p->sequences != AP_ATTENTION_SEQUENCES_DENSE)
    return share_sequences(p, device, is_bound, main_kernel, plan, launches);
  const ap_parts parts = ap_choose_parts(p, device, launch);
  plan->group_parts = parts.parts;
  if (is_bound && plan->group_parts == 1)
    plan->group_parts = 2;
  if (plan->group_parts == 1)
    return ATTNPRESS_OK;
  if (!is_bound) {
    plan->by_steps = parts.by_steps;
    plan->whole_blocks = parts.whole_blocks;
    plan->whole_keys = parts.whole_blocks * launch->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  }
  plan->key_tiles = (int32_t)padded_tiles(p->seqlen_k - plan->whole_keys);
  plan->part_rows = is_bound ? ap_most_part_rows(p, device, launch)
                             : plan->group_parts * ap_part_rows(p, plan->whole_keys);
  const int64_t heads = (int64_t)p->batch * p->heads_kv;
  const int64_t shared = plan->blocks[main_kernel] - plan->whole_blocks;
  launch->grid = (uint32_t)(heads * (plan->whole_blocks + shared * plan->group_parts));
  /* As dq of a call whose rows and query heads are these keys and key heads. */
  ap_problem keys = *p;
  keys.seqlen_q = p->seqlen_k - plan->whole_keys;
  keys.heads_q = p->heads_kv;
  plan->dk_convert = launches->count;
  FORWARD_IF(add_kernel(&keys, AP_ATTENTION_PASS_BWD_CONVERT, is_bound, device, plan, launches));
  keys.hdim = p->hdim_v;
  plan->dv_convert = launches->count;
  return add_kernel(&keys, AP_ATTENTION_PASS_BWD_CONVERT, is_bound, device, plan, launches);
}

/* ---- The order of causal thread blocks ------------------------------------------------------- */

/** The last heads, or parts of groups, whose thread blocks take turns in a causal kernel's grid. */
static void take_turns(const ap_problem *p, const ap_device *device, ap_backward_plan *plan,
                       const ap_launches *launches) {
  if (p->mask != AP_ATTENTION_MASK_CAUSAL || p->sequences != AP_ATTENTION_SEQUENCES_DENSE)
    return;
  for (int i = 0; i < launches->count; ++i) {
    const ap_launch *launch = &launches->launch[i];
    const int32_t pass = launch->variant.axis[AP_ATTENTION_PASS];
    if (pass != AP_ATTENTION_PASS_BWD && pass != AP_ATTENTION_PASS_BWD_DKV &&
        pass != AP_ATTENTION_PASS_BWD_DQ)
      continue;
    plan->abreast[i] =
        (int32_t)ap_turns(p, device, launch, plan->blocks[i], launch->grid / plan->blocks[i]);
  }
}

/* ---- Zeros for the sum of dq ----------------------------------------------------------------- */

enum {
  ZERO_ROUNDS = 2,          /* of thread blocks, at least, between who zeroes and who adds */
  UNIT_QUADS_MAX = 1 << 30, /* of 16 bytes, of a unit's sum: a kernel counts them */
  TAKE_HDIM_MAX = 128,      /* of thread blocks that take key blocks: flash_bwd_sm90; */
  PASS_HDIM_MAX = 64,       /* of thread blocks that pass dq on, */
  PASS_KEYS_MIN = 65,       /* of windows, but the query's own: two steps of a head are passed on */
  PREPARE_HDIM_MAX = 64, /* of warps of bwd that do what bwd_delta does: flash_bwd_sm90's, idle, */
  PREPARE_BATCH_MAX = 1024, /* where each thread block of bwd_delta looks at all sequences, */
  PREPARE_ROUNDS = 4,       /* there are so many times as many units as are prepared ahead, */
  PREPARE_APART = 4,        /* and those of a sequence, on average, are this part of them at most */
};

int ap_can_zero_ahead(const ap_variant *variant) {
  const int32_t *axis = variant->axis;
  return axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_BWD && axis[AP_ATTENTION_ARCH] == 90 &&
         !axis[AP_ATTENTION_FEW] && axis[AP_ATTENTION_SEQUENCES] == AP_ATTENTION_SEQUENCES_DENSE;
}

int ap_can_take(const ap_variant *variant) {
  const int32_t *axis = variant->axis;
  if (axis[AP_ATTENTION_RUNS])
    return axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_BWD;
  return axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_BWD && axis[AP_ATTENTION_ARCH] == 90 &&
         axis[AP_ATTENTION_MASK] != AP_ATTENTION_MASK_WINDOW &&
         axis[AP_ATTENTION_HDIM] <= TAKE_HDIM_MAX && axis[AP_ATTENTION_HDIM_V] <= TAKE_HDIM_MAX &&
         (axis[AP_ATTENTION_HDIM] == axis[AP_ATTENTION_HDIM_V] ||
          axis[AP_ATTENTION_SEQUENCES] == AP_ATTENTION_SEQUENCES_DENSE) &&
         !axis[AP_ATTENTION_SOFTCAP] && !axis[AP_ATTENTION_ALIBI] && !axis[AP_ATTENTION_BIAS] &&
         !axis[AP_ATTENTION_DROPOUT];
}

int ap_can_pass_on(const ap_launch *launch) {
  const int32_t *axis = launch->variant.axis;
  return ap_can_zero_ahead(&launch->variant) &&
         axis[AP_ATTENTION_MASK] == AP_ATTENTION_MASK_WINDOW &&
         axis[AP_ATTENTION_HDIM] <= PASS_HDIM_MAX && axis[AP_ATTENTION_HDIM_V] < AP_PASS_COLUMNS &&
         launch->tile.field[AP_ATTENTION_TILE_DQ_WARPS] == 4;
}

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

int ap_seen_by_two(const ap_mask *mask, int32_t rows, int32_t keys) {
  if (mask->kind != AP_ATTENTION_MASK_WINDOW || mask->chunk > 0 || mask->seqlen_q == 0 ||
      mask->seqlen_k == 0 || mask->center + mask->right < 0 ||
      mask->seqlen_q - 1 + mask->center - mask->left >= mask->seqlen_k)
    return 0;
  for (int64_t row = 0; row < keys; row += rows) { /* and so on, with other keys */
    const int64_t first = row + mask->center - mask->left;
    const int64_t last = row + rows - 1 + mask->center + mask->right;
    if (floor_div(last, keys) - floor_div(first, keys) > 1)
      return 0;
  }
  return 1;
}

static int may_pass_on(const ap_launch *launch, const ap_mask *mask) {
  return ap_can_pass_on(launch) && mask->left + mask->right >= PASS_KEYS_MIN &&
         ap_seen_by_two(mask, launch->tile.field[AP_ATTENTION_TILE_BLOCK_M],
                        launch->tile.field[AP_ATTENTION_TILE_BLOCK_N]);
}

/** Units that a unit's thread blocks zero ahead; 0: there are too few for that. */
static int32_t choose_zero_ahead(const ap_problem *p, const ap_device *device, int32_t key_blocks,
                                 int32_t parts, int32_t abreast) {
  const int64_t unit_quads =
      ceil_div(ap_group_of(p), parts) * dense_sum_tiles(p->seqlen_q) * TILE_ROWS / 4 * p->hdim;
  if (p->seqlen_q == 0 || unit_quads >= UNIT_QUADS_MAX)
    return 0;
  int64_t ahead = ceil_div((int64_t)ZERO_ROUNDS * device->sm_count, key_blocks);
  if (ahead < abreast) /* whose blocks wait for blocks before all of theirs */
    ahead = abreast;
  return ahead < (int64_t)p->batch * p->heads_kv * parts ? (int32_t)ahead : 0;
}

/* ---- Thread blocks that take key blocks, and launches that overlap ---------------------------- */

/** Where a kernel can, and there are more key blocks than run at once, launches as many thread blocks
 * as do, which take them one after the other by a counter; bwd_delta sets it, which comes before where
 * there are rows. */
static void take_key_blocks(const ap_problem *p, const ap_device *device, int is_bound,
                            int main_kernel, ap_backward_plan *plan, ap_launches *launches) {
  ap_launch *launch = &launches->launch[main_kernel];
  const int can = ap_can_take(&launch->variant);
  plan->can_take = can || (is_bound && has_wide_kernels(p, device));
  plan->takes = can && p->seqlen_q > 0 && launch->grid > (uint32_t)device->sm_count;
  if (plan->takes)
    launch->grid = (uint32_t)device->sm_count;
}

/** bwd of 9.0 begins while bwd_delta ends; bwd_convert, if it is behind, while thread blocks end that
 * take key blocks; and those of the parts of groups while the one before ends. */
static void overlap_launches(int main_kernel, int has_convert, const ap_backward_plan *plan,
                             ap_launches *launches) {
  ap_launch *launch = &launches->launch[main_kernel];
  launch->overlaps = launch->variant.axis[AP_ATTENTION_ARCH] == 90;
  if (has_convert)
    launch[1].overlaps = plan->takes;
  if (plan->group_parts > 1)
    launches->launch[plan->dk_convert].overlaps = launches->launch[plan->dv_convert].overlaps = 1;
}

int ap_can_prepare(const ap_launch *launch) {
  const int32_t *axis = launch->variant.axis;
  return ap_can_take(&launch->variant) &&
         axis[AP_ATTENTION_SEQUENCES] == AP_ATTENTION_SEQUENCES_RAGGED &&
         axis[AP_ATTENTION_HDIM] <= PREPARE_HDIM_MAX &&
         launch->tile.field[AP_ATTENTION_TILE_DQ_WARPS] == 4;
}

/** Where thread blocks take key blocks of sequences of their own lengths, and nobody else reads delta,
 * warps of bwd do what bwd_delta does for units that come two rounds later, and bwd_delta what is left:
 * the first ones, and sequences that have units too far apart. */
static void prepare_ahead(const ap_problem *p, const ap_device *device, int main_kernel,
                          ap_backward_plan *plan, ap_launches *launches) {
  const int64_t ahead = (int64_t)ZERO_ROUNDS * device->sm_count;
  const ap_launch *launch = &launches->launch[main_kernel];
  const int64_t units =
      p->heads_kv * ceil_div(p->rows_k, launch->tile.field[AP_ATTENTION_TILE_BLOCK_N]);
  plan->can_prepare = ap_can_prepare(launch);
  if (!plan->can_prepare || !plan->takes || plan->group_parts > 1 || main_kernel != 1 ||
      p->batch > PREPARE_BATCH_MAX || units < PREPARE_ROUNDS * ahead ||
      units * PREPARE_APART > ahead * p->batch)
    return;
  plan->zero_ahead = (int32_t)ahead;
  launches->launch[0].grid = (uint32_t)(ahead * ap_group_of(p));
  plan->order_of[0] = plan->order_of[main_kernel];
}

/* ---- Workspace ------------------------------------------------------------------------------- */

/** Bytes of `rows` rows of floats, up to a multiple of the alignment; 0: they pass 2^64. */
static int add_floats(size_t rows, size_t floats, size_t *bytes) {
  size_t more;
  return !__builtin_mul_overflow(rows, floats * sizeof(float), &more) &&
         !__builtin_add_overflow(more, (size_t)WORKSPACE_ALIGNMENT - 1, &more) &&
         !__builtin_add_overflow(*bytes, more & ~(size_t)(WORKSPACE_ALIGNMENT - 1), bytes);
}

static attnpress_status plan_workspace(const ap_problem *p, ap_backward_plan *plan, size_t *bytes) {
  /* Of ragged calls the rows of all sequences are those of one batch. */
  const size_t batch = p->sequences == AP_ATTENTION_SEQUENCES_DENSE ? (size_t)p->batch : 1;
  const size_t tile_rows = batch * (size_t)p->heads_q * (size_t)TILE_ROWS;
  const size_t rows = tile_rows * (size_t)plan->row_tiles;
  size_t end = 0;
  int fits = add_floats(rows, 1, &end);
  plan->delta_offset_bytes = end;
  fits = fits && add_floats(rows, 1, &end);
  plan->dq_sum_offset_bytes = end;
  if (plan->own_sums > 0)
    fits = fits && add_floats((size_t)plan->own_sums * (size_t)ap_group_of(p) * (size_t)TILE_ROWS *
                                  (size_t)plan->sum_tiles,
                              (size_t)p->hdim, &end);
  else if (plan->has_sum)
    fits = fits && add_floats(tile_rows * (size_t)plan->sum_tiles, (size_t)p->hdim, &end);
  plan->dq_zeroed_offset_bytes = end;
  if (plan->can_pass_on)
    fits = fits && add_floats(batch * (size_t)p->heads_q, (size_t)plan->row_tiles, &end);
  else if (plan->can_prepare)
    fits = fits && add_floats((size_t)p->batch * (size_t)p->heads_kv + 1, 1, &end);
  else if (plan->can_zero_ahead) /* parts of groups are at most as many as query heads */
    fits = fits && add_floats(batch * (size_t)p->heads_q, 1, &end);
  plan->taken_offset_bytes = end;
  if (plan->can_take)
    fits = fits && add_floats(2, 1, &end);
  if (plan->group_parts > 1) {
    plan->dk_sum_offset_bytes = end;
    fits = fits && add_floats((size_t)plan->part_rows, (size_t)p->hdim, &end);
    plan->dv_sum_offset_bytes = end;
    fits = fits && add_floats((size_t)plan->part_rows, (size_t)p->hdim_v, &end);
  }
  RETURN_IF(!fits, ATTNPRESS_INVALID_ARGUMENT,
            "the workspace of batch %d x %d heads x seqlen_q %d passes 2^64 bytes", (int)p->batch,
            (int)p->heads_q, (int)p->seqlen_q);
  *bytes = end;
  return ATTNPRESS_OK;
}

/** Where the keys of each sequence are one unit's at most. */
static int is_direct(const ap_problem *p, const ap_backward_plan *plan) {
  return p->sequences != AP_ATTENTION_SEQUENCES_DENSE && p->seqlen_k <= plan->direct_keys;
}

/** Where dq has no sum but of units of several key blocks, thread blocks have sums of their own, which
 * remain in L2, if these are fewer rows. */
static void choose_own_sums(const ap_problem *p, const ap_launch *launch, ap_backward_plan *plan) {
  const int64_t tiles = ceil_div(p->seqlen_q, TILE_ROWS);
  if (is_direct(p, plan) && plan->chains && plan->takes &&
      launch->grid * tiles <= (int64_t)p->heads_kv * plan->sum_tiles) {
    plan->own_sums = (int32_t)launch->grid;
    plan->sum_tiles = (int32_t)tiles;
  }
}

/** Puts the schedule kernel before what was added, and the orders behind the rest of the workspace. */
static attnpress_status add_schedule(const ap_problem *p, const ap_device *device,
                                     ap_backward_plan *plan, ap_launches *launches) {
  int fits = 1;
  for (int i = 0; i < plan->orders; ++i) {
    plan->order[i].first_unit_offset_bytes = launches->workspace_bytes;
    fits = fits && add_floats((size_t)p->batch + 1, 1, &launches->workspace_bytes);
    plan->order[i].sequences_offset_bytes = launches->workspace_bytes;
    fits = fits && add_floats((size_t)p->batch, UNITS_FLOATS, &launches->workspace_bytes);
  }
  RETURN_IF(!fits, ATTNPRESS_INVALID_ARGUMENT, "the workspace of %d sequences passes 2^64 bytes",
            (int)p->batch);
  if (plan->orders == 0)
    return ATTNPRESS_OK;
  ap_launch *launch = launches->launch;
  memmove(launch + 1, launch, (size_t)launches->count * sizeof *launch);
  memmove(plan->blocks + 1, plan->blocks, (size_t)launches->count * sizeof *plan->blocks);
  memmove(plan->order_of + 1, plan->order_of, (size_t)launches->count * sizeof *plan->order_of);
  ++launches->count;
  plan->dk_convert += plan->dk_convert > 0;
  plan->dv_convert += plan->dv_convert > 0;
  *launch = (ap_launch){.variant = ap_schedule_variant(),
                        .num_splits = 1,
                        .grid = (uint32_t)plan->orders * ap_schedule_parts(p->batch)};
  launch->target = ap_target_for(&launch->variant, device->capability);
  return ap_find_launch_tile(launch);
}

/* ---- Plans ----------------------------------------------------------------------------------- */

/** Whether thread blocks of bwd pass dq on, by which every bit is the same in every run. `is_bound`:
 * under some window of the kernel. */
static attnpress_status find_passing(const ap_problem *p, const ap_device *device, int is_bound,
                                     int *passes_on) {
  const ap_mask mask = ap_problem_mask(p, p->mask);
  ap_launch launch;
  *passes_on = 0;
  if (p->mask != AP_ATTENTION_MASK_WINDOW || !is_fused(p, 0))
    return ATTNPRESS_OK;
  FORWARD_IF(find_kernel(p, AP_ATTENTION_PASS_BWD, device, &launch));
  *passes_on = is_bound ? ap_can_pass_on(&launch) : may_pass_on(&launch, &mask);
  return ATTNPRESS_OK;
}

/** `is_bound`: of a call whose extents are those of the largest. */
static attnpress_status choose(const ap_problem *p, int deterministic, int is_bound,
                               const ap_device *device, ap_backward_plan *plan,
                               ap_launches *launches) {
  memset(plan, 0, sizeof *plan);
  launches->count = 0;
  launches->workspace_bytes = 0;
  plan->group_parts = 1;
  plan->row_tiles = (int32_t)padded_tiles(p->seqlen_q);
  plan->sum_tiles = (int32_t)dense_sum_tiles(p->seqlen_q);
  if (p->sequences != AP_ATTENTION_SEQUENCES_DENSE) { /* as attnpress_bwd_ragged_args says */
    plan->row_tiles = (int32_t)((p->rows_q / AP_PADDED_ROWS + p->batch) * PADDED_TILES);
    plan->sum_tiles = (int32_t)(p->rows_q / TILE_ROWS + p->batch);
  }
  int passes_on = 0;
  if (!is_bound)
    FORWARD_IF(find_passing(p, device, 0, &passes_on));
  plan->fused = passes_on || (is_fused(p, deterministic) &&
                              (is_bound || keeps_rows(p, device) || !is_short(p, device)));
  FORWARD_IF(add_kernel(p, AP_ATTENTION_PASS_BWD_DELTA, is_bound, device, plan, launches));
  FORWARD_IF(add_sinks(p, device, launches));
  FORWARD_IF(add_dbias(p, device, plan, launches));
  if (plan->fused) {
    const int main_kernel = launches->count;
    FORWARD_IF(add_kernel(p, AP_ATTENTION_PASS_BWD, is_bound, device, plan, launches));
    const int converts = !is_direct(p, plan) && !passes_on;
    plan->has_sum = !is_direct(p, plan) || plan->chains;
    if (converts)
      FORWARD_IF(add_kernel(p, AP_ATTENTION_PASS_BWD_CONVERT, is_bound, device, plan, launches));
    if (launches->count > main_kernel) {
      ap_launch *launch = &launches->launch[main_kernel];
      const int keeps = ap_keeps_rows(&launch->variant);
      if (!keeps)
        FORWARD_IF(share_groups(p, device, is_bound, main_kernel, plan, launches));
      if (plan->by_steps)
        plan->abreast[main_kernel] = -plan->whole_blocks - 1;
      else
        take_turns(p, device, plan, launches);
      if (keeps) /* equal parts of the key blocks */
        launch->grid = (uint32_t)device->sm_count;
      plan->can_zero_ahead = ap_can_zero_ahead(&launch->variant);
      plan->can_pass_on = ap_can_pass_on(launch);
      if (passes_on)
        plan->zero_ahead = -1;
      else if (plan->can_zero_ahead && !plan->by_steps)
        plan->zero_ahead = choose_zero_ahead(p, device, plan->blocks[main_kernel],
                                             plan->group_parts, plan->abreast[main_kernel]);
      take_key_blocks(p, device, is_bound, main_kernel, plan, launches);
      prepare_ahead(p, device, main_kernel, plan, launches);
      choose_own_sums(p, launch, plan);
      overlap_launches(main_kernel, converts, plan, launches);
    }
  } else {
    FORWARD_IF(add_kernel(p, AP_ATTENTION_PASS_BWD_DQ, is_bound, device, plan, launches));
    FORWARD_IF(add_kernel(p, AP_ATTENTION_PASS_BWD_DKV, is_bound, device, plan, launches));
    take_turns(p, device, plan, launches);
    for (int i = 1; i < launches->count; ++i)
      launches->launch[i].overlaps = launches->launch[i].variant.axis[AP_ATTENTION_ARCH] == 90;
  }
  FORWARD_IF(plan_workspace(p, plan, &launches->workspace_bytes));
  return add_schedule(p, device, plan, launches);
}

/* ---- Few rows -------------------------------------------------------------------------------- */

enum { FEW_ROWS_PER_SM = 2 }; /* thread blocks of sm80's that an SM has at once, at least */

/** The same call by sm80's kernels, and bwd of these; 0: it never runs them where sm90 has others. */
static int find_sm80(const ap_problem *p, int deterministic, const ap_device *device,
                     ap_problem *other, ap_launch *launch) {
  *other = *p;
  other->tma = 0;
  return ap_may_be_short(p, device) && is_fused(p, deterministic) &&
         p->mask != AP_ATTENTION_MASK_WINDOW &&
         find_kernel(other, AP_ATTENTION_PASS_BWD, device, launch) == ATTNPRESS_OK &&
         ap_blocks_per_sm(&launch->tile, device) >= FEW_ROWS_PER_SM;
}

/** Whether sm80's kernels take less time than sm90's, of which a thread block has an SM for itself: where
 * the rows are one step of a walk, and walks are more than SMs, so that sm90's mostly wait for one after
 * the other to begin and to end. */
static int is_one_step(const ap_problem *p, const ap_device *device, const ap_launch *launch) {
  const int32_t *field = launch->tile.field;
  const int64_t blocks = ceil_div(p->seqlen_k, field[AP_ATTENTION_TILE_BLOCK_N]);
  return p->seqlen_q > 0 && p->seqlen_q <= field[AP_ATTENTION_TILE_BLOCK_M] &&
         blocks * p->heads_kv * p->batch > device->sm_count;
}

attnpress_status ap_choose_backward(const ap_problem *p, int deterministic, const ap_device *device,
                                    ap_backward_plan *plan, ap_launches *launches) {
  ap_problem other;
  ap_launch launch;
  const int has_sm80 = find_sm80(p, deterministic, device, &other, &launch);
  return choose(has_sm80 && is_one_step(p, device, &launch) ? &other : p, deterministic, 0, device,
                plan, launches);
}

/** The kernels that may run in place of a launch's: of wide heads, and of short sequences. */
static attnpress_status add_other_kernels(const ap_launch *launch, ap_launches *range) {
  static const int axes[] = {AP_ATTENTION_FEW, AP_ATTENTION_RUNS, AP_ATTENTION_LONG_ROWS};
  for (size_t i = 0; i < sizeof axes / sizeof *axes; ++i) {
    ap_launch other = *launch;
    other.variant.axis[axes[i]] = 1;
    if (!ap_variant_is_legal(&other.variant))
      continue;
    FORWARD_IF(ap_find_launch_tile(&other));
    FORWARD_IF(ap_add_to_range(&other, range));
  }
  return ATTNPRESS_OK;
}

attnpress_status ap_choose_backward_range(const ap_problem *maxima, int deterministic,
                                          const ap_device *device, ap_launches *range) {
  ap_backward_plan plan;
  ap_launches found;
  ap_problem probe = *maxima;
  int any = maxima->batch == 0 || maxima->seqlen_q == 0;
  range->count = 0;
  range->workspace_bytes = 0;
  probe.batch = maxima->batch ? maxima->batch : 1;
  probe.seqlen_q = maxima->seqlen_q ? maxima->seqlen_q : 1;
  probe.seqlen_k = maxima->seqlen_k ? maxima->seqlen_k : MANY_KEYS;
  probe.dbias_rows = maxima->dbias_rows ? maxima->dbias_rows : 1;
  probe.dbias_keys = maxima->dbias_keys ? maxima->dbias_keys : 1;
  ap_problem other;
  ap_launch launch;
  const int has_sm80 = find_sm80(&probe, deterministic, device, &other, &launch);
  for (probe.tma = has_sm80 ? 0 : maxima->tma_min; probe.tma <= maxima->tma_max; ++probe.tma) {
    /* Short calls may run the pair, which deterministic ones run. */
    const int last = deterministic || may_pair(&probe, device);
    int passes_on;
    FORWARD_IF(find_passing(&probe, device, 1, &passes_on));
    for (int paired = deterministic && !passes_on; paired <= last; ++paired) {
      FORWARD_IF(choose(&probe, paired, maxima->seqlen_k ? 1 : ANY_KEYS, device, &plan, &found));
      for (int i = 0; i < found.count; ++i) {
        FORWARD_IF(ap_add_to_range(&found.launch[i], range));
        const int has_others = probe.sequences == AP_ATTENTION_SEQUENCES_RAGGED
                                   ? probe.seqlen_k > plan.direct_keys
                                   : has_wide_kernels(&probe, device);
        if (plan.fused && has_others &&
            found.launch[i].variant.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_BWD)
          FORWARD_IF(add_other_kernels(&found.launch[i], range));
      }
      if (found.workspace_bytes > range->workspace_bytes)
        range->workspace_bytes = found.workspace_bytes;
      any |= plan.group_parts > 1 && maxima->seqlen_k == 0 &&
             probe.sequences == AP_ATTENTION_SEQUENCES_DENSE;
    }
  }
  if (any && range->count > 0)
    range->workspace_bytes = SIZE_MAX;
  return ATTNPRESS_OK;
}
