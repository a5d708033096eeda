/* Decides how a forward call is run: architecture, mask, packing of heads, small row block, splits,
 * grid, order of the work, and workspace. Pure: it depends on shapes, strides and the device's
 * numbers, never on data, and touches nothing. */
#include "attention/schedule.h"

#include <stdio.h>
#include <string.h>

/* ---- What runs where ------------------------------------------------------------------------- */

/* What a cubin can be compiled for. Shared memory: CUDA C++ Programming Guide, "Technical
 * Specifications per Compute Capability". */
const ap_target ap_targets[] = {
    {"sm_80", 80, 163 * 1024},  {"sm_86", 86, 99 * 1024},    {"sm_90", 90, 227 * 1024},
    {"sm_90a", 90, 227 * 1024}, {"sm_100", 100, 227 * 1024}, {"sm_110", 110, 227 * 1024},
    {"sm_120", 120, 99 * 1024},
};
const size_t ap_targets_count = sizeof ap_targets / sizeof *ap_targets;

enum { ARCHS_MAX = 2 };

/** An architecture on a device, and what it asks of a call. */
typedef struct arch_row {
  int arch; /* of the stem; 0: none */
  const char *target;
  int hdim_max; /* of both head dims */
  int decode;   /* 1: has kernels with a small row block */
  int tma;      /* 1: reads through tensor maps */
} arch_row;

/** Devices, and the architectures that they run, best first. The last one runs every call. */
typedef struct device_row {
  int capability_min, capability_max;
  arch_row archs[ARCHS_MAX];
} device_row;

#define SM80(target)                                                                               \
  { 80, target, AP_HDIM_MAX, 1, 0 }
#define SM86(target)                                                                               \
  { 86, target, AP_HDIM_MAX, 1, 0 }
#define SM90(target)                                                                               \
  { 90, target, AP_SM90_HDIM_MAX, 0, 1 }
static const device_row device_rows[] = {
    {80, 80, {SM80("sm_80")}},
    {86, 86, {SM86("sm_86")}},
    {87, 87, {SM80("sm_80")}},
    {88, 89, {SM86("sm_86")}},
    {90, 90, {SM90("sm_90a"), SM80("sm_90")}},
    {100, 109, {SM80("sm_100")}},
    {110, 119, {SM80("sm_110")}},
    {120, 129, {SM86("sm_120")}},
};

const ap_target *ap_find_target(const char *name) {
  for (size_t i = 0; i < ap_targets_count; ++i)
    if (strcmp(ap_targets[i].name, name) == 0)
      return &ap_targets[i];
  return NULL;
}

void ap_print_targets(char *text, size_t size) {
  size_t used = 0;
  for (size_t i = 0; i < ap_targets_count && used < size; ++i)
    used += (size_t)snprintf(text + used, size - used, "%s%s",
                             i == 0                      ? ""
                             : i == ap_targets_count - 1 ? " and "
                                                         : ", ",
                             ap_targets[i].name);
}

static const device_row *find_device_row(int capability) {
  for (size_t i = 0; i < sizeof device_rows / sizeof *device_rows; ++i)
    if (device_rows[i].capability_min <= capability && capability <= device_rows[i].capability_max)
      return &device_rows[i];
  return NULL;
}

static const arch_row *last_arch(const device_row *row) {
  const arch_row *last = row->archs;
  while (last + 1 < row->archs + ARCHS_MAX && last[1].arch != 0)
    ++last;
  return last;
}

const char *ap_target_for(int capability, int arch) {
  const device_row *row = find_device_row(capability);
  for (int i = 0; row != NULL && i < ARCHS_MAX; ++i)
    if (row->archs[i].arch == arch)
      return row->archs[i].target;
  return NULL;
}

const char *ap_combine_target_for(int capability) {
  const device_row *row = find_device_row(capability);
  return row != NULL ? last_arch(row)->target : NULL;
}

attnpress_status ap_check_capability(int capability) {
  RETURN_IF(capability < 80, ATTNPRESS_NOT_SUPPORTED,
            "the device has compute capability %d.%d; 8.0 or newer is needed", capability / 10,
            capability % 10);
  RETURN_IF(find_device_row(capability) == NULL, ATTNPRESS_NOT_SUPPORTED,
            "the device has compute capability %d.%d, which this version does not know; it knows "
            "8.x, 9.0, 10.x, 11.x and 12.x",
            capability / 10, capability % 10);
  return ATTNPRESS_OK;
}

/** Query heads of a key head. */
static int32_t group_of(const ap_problem *problem) {
  return problem->heads_kv ? problem->heads_q / problem->heads_kv : 1;
}

/** 1 where kernels of an architecture can run the call, and it is not one for the next in line:
 * short queries of more heads than a warpgroup has rows, which would leave its tiles empty. */
static int serves(const arch_row *arch, const ap_problem *problem, const ap_device *device,
                  int decode) {
  const int32_t hdim = problem->hdim > problem->hdim_v ? problem->hdim : problem->hdim_v;
  const int fills = group_of(problem) <= AP_WARPGROUP_ROWS || problem->seqlen_q > AP_WARPGROUP_ROWS;
  return (device->arch_max == 0 || arch->arch <= device->arch_max) && hdim <= arch->hdim_max &&
         (arch->decode || !decode) && (!arch->tma || (device->tma && problem->tma && fills));
}

/** The architecture and the target; the variant's `decode` stands. */
static attnpress_status choose_arch(const ap_problem *problem, const ap_device *device,
                                    ap_variant *variant, const char **target) {
  FORWARD_IF(ap_check_capability(device->capability));
  const device_row *row = find_device_row(device->capability);
  const arch_row *arch = row->archs, *last = last_arch(row);
  while (arch < last && !serves(arch, problem, device, variant->decode))
    ++arch;
  variant->arch = arch->arch;
  *target = arch->target;
  return ATTNPRESS_OK;
}

static int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

attnpress_divisor ap_divisor(int32_t value) {
  uint32_t shift = 31;
  while (((uint64_t)1 << (shift - 31)) < (uint64_t)value)
    ++shift;
  const uint64_t multiplier = (((uint64_t)1 << shift) + (uint64_t)value - 1) / (uint64_t)value;
  return (attnpress_divisor){value, (uint32_t)multiplier, shift};
}

/* ---- Rows: mask, packing, row block ---------------------------------------------------------- */

/** Heads of a group are packed into one tile where that leaves less than this share of the tiles.
 */
#define PACKING_GAIN 0.9
/** The row block of the decode tiles, and a length beyond all points where the choice changes. */
enum { DECODE_ROWS = 16, SEQLEN_PROBED = 4096 };

/** Tiles with a producer hold whole positions in each warpgroup. */
static int64_t count_row_blocks(const ap_problem *problem, const ap_tile *tile,
                                int32_t heads_per_tile) {
  if (tile->producer) {
    const int32_t positions =
        tile->block_m / AP_WARPGROUP_ROWS * (AP_WARPGROUP_ROWS / heads_per_tile);
    return ceil_div(problem->seqlen_q, positions);
  }
  return ceil_div((int64_t)problem->seqlen_q * heads_per_tile, tile->block_m);
}

/** Query heads that share a tile: all of a group, or one. */
static int32_t choose_packing(const ap_problem *problem, const ap_tile *tile) {
  const int32_t group = group_of(problem);
  if (group <= 1 || (tile->producer && group > AP_WARPGROUP_ROWS) ||
      (int64_t)problem->seqlen_q * group > INT32_MAX - AP_HDIM_MAX)
    return 1;
  const int64_t packed = count_row_blocks(problem, tile, group);
  const int64_t single = count_row_blocks(problem, tile, 1) * group;
  return (double)packed < PACKING_GAIN * (double)single ? group : 1;
}

/** Fills mask, decode, architecture and packing; the tile stays that of one split. */
static attnpress_status choose_rows(const ap_problem *problem, const ap_device *device,
                                    ap_plan *plan) {
  ap_variant *v = &plan->variant;
  /* A single query sees every key under either mask. */
  v->mask = problem->seqlen_q == 1 ? ATTNPRESS_FULL : problem->mask;
  v->decode = (int64_t)problem->seqlen_q * group_of(problem) <= DECODE_ROWS;
  FORWARD_IF(choose_arch(problem, device, v, &plan->target));
  FORWARD_IF(ap_find_tile(v, plan->target, &plan->tile));
  plan->heads_per_tile = choose_packing(problem, &plan->tile);
  return ATTNPRESS_OK;
}

/* ---- Splits ---------------------------------------------------------------------------------- */

enum {
  SPLIT_KEY_BLOCKS_MIN = 5,
  SPLITS_CHOSEN_MAX = 128,
  /* Thread blocks of all splits, in units of the device's slots: from there on every count fills its
   * waves to SPLIT_EFFICIENCY and more. It bounds the workspace. */
  SPLIT_WAVES_MAX = 6
};
#define SPLIT_FILL       0.8  /* of the device's slots, from which on splitting does not pay */
#define SPLIT_EFFICIENCY 0.85 /* of the best one, that the chosen count reaches */

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

/** The most splits that are ever chosen for so many thread blocks of one split. */
static int64_t most_splits(int64_t blocks, int64_t key_blocks, int64_t slots) {
  int64_t most = key_blocks < slots ? key_blocks : slots;
  if (most > SPLITS_CHOSEN_MAX)
    most = SPLITS_CHOSEN_MAX;
  return most * blocks > SPLIT_WAVES_MAX * slots ? SPLIT_WAVES_MAX * slots / blocks : most;
}

/* One full wave, where there is such a count. Else the rule of FlashAttention-2's
 * num_splits_heuristic (Dao 2023): the smallest count whose waves are nearly as full as the best
 * one's. */
int ap_choose_num_splits(int64_t blocks, int64_t key_blocks, int64_t slots) {
  if (blocks <= 0 || slots <= 0 || (double)blocks >= SPLIT_FILL * (double)slots ||
      key_blocks < SPLIT_KEY_BLOCKS_MIN)
    return 1;
  const int64_t most = most_splits(blocks, key_blocks, slots);
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

int ap_blocks_per_sm(const ap_tile *tile, const ap_device *device) {
  enum { RESERVED_SMEM_BYTES = 1024, SM_REGISTERS = 65536, THREAD_REGISTERS = 256 };
  const int threads = ap_tile_threads(tile);
  int by_registers =
      SM_REGISTERS / (threads * THREAD_REGISTERS); /* at the most a thread can have */
  if (by_registers < tile->min_blocks)
    by_registers = tile->min_blocks;
  const int by_smem = device->smem_per_sm_bytes / (tile->smem_bytes + RESERVED_SMEM_BYTES);
  const int by_threads = device->threads_per_sm / threads;
  int blocks = by_registers < by_smem ? by_registers : by_smem;
  if (blocks > by_threads)
    blocks = by_threads;
  return blocks > 1 ? blocks : 1;
}

/** Tiles of rows, of all heads and batches: what a split has to compute. */
static int64_t count_tiles(const ap_problem *problem, const ap_plan *plan, const ap_tile *tile) {
  return count_row_blocks(problem, tile, plan->heads_per_tile) *
         (problem->heads_q / plan->heads_per_tile) * problem->batch;
}

/** Thread blocks of an SM that splitting aims at: as many as it holds, but one where warps have
 * rings of their own, which ask for all of the SM's share of the bandwidth. */
static int split_blocks_per_sm(const ap_tile *tile, const ap_device *device) {
  return tile->warps_k > 1 ? 1 : ap_blocks_per_sm(tile, device);
}

/** Fills num_splits, the variant's split, the tile that goes with it, and the keys of a split. */
static attnpress_status choose_splits(const ap_problem *problem, const ap_device *device,
                                      ap_plan *plan) {
  ap_variant split = plan->variant;
  ap_tile tile;
  split.split = 1;
  int32_t count = problem->num_splits;
  if (count != 1) {
    FORWARD_IF(ap_find_tile(&split, plan->target, &tile));
    if (count == 0)
      count = ap_choose_num_splits(count_tiles(problem, plan, &tile),
                                   ceil_div(problem->seqlen_k, tile.block_n),
                                   (int64_t)device->sm_count * split_blocks_per_sm(&tile, device));
  }
  if (count == 1)
    FORWARD_IF(ap_find_tile(&plan->variant, plan->target, &tile));
  else
    plan->variant = split;
  plan->tile = tile;
  plan->num_splits = count;
  plan->key_blocks_per_split = (int32_t)ceil_div(ceil_div(problem->seqlen_k, tile.block_n), count);
  return ATTNPRESS_OK;
}

/* ---- Grid and workspace ---------------------------------------------------------------------- */

enum { WORKSPACE_ALIGNMENT = 256, OVERLAP_CAPABILITY_MIN = 90 };

/** Bytes of the partial outputs and, behind them, of the partial lse of `rows` rows of splits; 0: it
 * passes 2^64. */
static int partial_bytes(size_t rows, size_t hdim_v, size_t *lse_offset_bytes, size_t *all_bytes) {
  size_t out_bytes, lse_bytes;
  if (__builtin_mul_overflow(rows, sizeof(float), &lse_bytes) ||
      __builtin_mul_overflow(lse_bytes, hdim_v, &out_bytes) ||
      __builtin_add_overflow(out_bytes, (size_t)WORKSPACE_ALIGNMENT - 1, &out_bytes))
    return 0;
  *lse_offset_bytes = out_bytes & ~(size_t)(WORKSPACE_ALIGNMENT - 1);
  return !__builtin_add_overflow(*lse_offset_bytes, lse_bytes, all_bytes);
}

static attnpress_status plan_combine(const ap_problem *problem, const ap_device *device,
                                     ap_plan *plan) {
  plan->combine = (ap_variant){.pass = AP_PASS_FWD_COMBINE,
                               .hdim = problem->hdim_v,
                               .hdim_v = problem->hdim_v,
                               .dtype = problem->dtype,
                               .mask = ATTNPRESS_FULL,
                               .arch = AP_COMBINE_ARCH};
  plan->combine_target = ap_combine_target_for(device->capability);
  FORWARD_IF(ap_find_tile(&plan->combine, plan->combine_target, &plan->combine_tile));
  const size_t rows = (size_t)problem->batch * (size_t)problem->heads_q * (size_t)problem->seqlen_q;
  size_t all;
  const int fits = !__builtin_mul_overflow(rows, (size_t)plan->num_splits, &all) &&
                   partial_bytes(all, (size_t)problem->hdim_v, &plan->lse_partial_offset_bytes,
                                 &plan->workspace_bytes);
  RETURN_IF(!fits, ATTNPRESS_INVALID_ARGUMENT,
            "the workspace of %d splits of %zu rows passes 2^64 bytes; ask for fewer splits",
            (int)plan->num_splits, rows);
  const int64_t blocks = ceil_div((int64_t)rows, plan->combine_tile.block_m) *
                         ceil_div(problem->hdim_v, plan->combine_tile.block_n);
  RETURN_IF(blocks > INT32_MAX, ATTNPRESS_NOT_SUPPORTED,
            "%zu query rows (batch * heads * seqlen_q) cannot be split: at most 2^31 - 1; set "
            "num_splits to 1",
            rows);
  plan->combine_grid = (unsigned)blocks;
  return ATTNPRESS_OK;
}

/** Fills row_blocks and grid; *units: row blocks of all heads, batches and splits. */
static attnpress_status plan_grid(const ap_problem *problem, const ap_device *device, ap_plan *plan,
                                  int64_t *units) {
  /* Kernels whose thread blocks stay count past the end of a section. */
  const int persistent = plan->tile.producer;
  const int64_t most = persistent ? INT64_C(1) << 29 : INT32_MAX;
  *units = count_tiles(problem, plan, &plan->tile);
  RETURN_IF(__builtin_mul_overflow(*units, plan->num_splits, units) || *units > most,
            ATTNPRESS_NOT_SUPPORTED,
            "batch %d x %d heads x seqlen_q %d in %d splits needs more than %s thread blocks; "
            "divide the batch",
            (int)problem->batch, (int)problem->heads_q, (int)problem->seqlen_q,
            (int)plan->num_splits, persistent ? "2^29" : "2^31 - 1");
  plan->row_blocks = (int32_t)count_row_blocks(problem, &plan->tile, plan->heads_per_tile);
  plan->grid = (unsigned)*units;
  if (persistent && *units > device->sm_count)
    plan->grid = (unsigned)device->sm_count;
  return ATTNPRESS_OK;
}

attnpress_status ap_choose(const ap_problem *problem, const ap_device *device, ap_plan *plan) {
  memset(plan, 0, sizeof *plan);
  plan->variant = (ap_variant){.pass = AP_PASS_FWD,
                               .hdim = problem->hdim,
                               .hdim_v = problem->hdim_v,
                               .dtype = problem->dtype};
  FORWARD_IF(choose_rows(problem, device, plan));
  FORWARD_IF(choose_splits(problem, device, plan));
  int64_t units;
  FORWARD_IF(plan_grid(problem, device, plan, &units));
  if (plan->tile.producer && units > 0)
    ap_schedule(problem, device->memo, (int32_t)units, plan);
  /* Those kernels wait themselves, where the device can (include/attnpress/device/
   * ptx_griddepcontrol.cuh). They are short, and often run back to back. */
  plan->combine_overlaps = plan->variant.split && device->capability >= OVERLAP_CAPABILITY_MIN;
  plan->overlaps = (plan->variant.split || plan->variant.decode) && !plan->tile.producer &&
                   device->capability >= OVERLAP_CAPABILITY_MIN;
  return plan->variant.split ? plan_combine(problem, device, plan) : ATTNPRESS_OK;
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

/* All that may be chosen for problems whose batch and lengths are at most some. Which kernels these
 * are depends on the batch and the lengths of the keys through splitting alone, and on the length of
 * the queries at a few points: a single query, the decode rows, a warpgroup's rows. */

static attnpress_status add_launch(const ap_variant *variant, const ap_tile *tile,
                                   const char *target, ap_launches *range) {
  for (int i = 0; i < range->count; ++i)
    if (ap_variant_key(&range->launch[i].variant) == ap_variant_key(variant))
      return ATTNPRESS_OK;
  RETURN_IF(range->count == AP_LAUNCHES_MAX, ATTNPRESS_NOT_SUPPORTED,
            "more than %d kernels serve one range of shapes", AP_LAUNCHES_MAX);
  range->launch[range->count++] = (ap_launch){.variant = *variant, .tile = *tile, .target = target};
  return ATTNPRESS_OK;
}

/** Rows of splits, at most, of problems that a split tile serves; SIZE_MAX: there is no bound. */
static size_t most_partial_rows(const ap_problem *maxima, const ap_device *device,
                                const ap_tile *tile) {
  const int64_t slots = (int64_t)device->sm_count * split_blocks_per_sm(tile, device);
  const int64_t key_blocks =
      maxima->seqlen_k > 0 ? ceil_div(maxima->seqlen_k, tile->block_n) : INT32_MAX;
  const int any = maxima->batch == 0 || maxima->seqlen_q == 0;
  const size_t rows = (size_t)maxima->batch * (size_t)maxima->heads_q * (size_t)maxima->seqlen_q;
  if (maxima->num_splits > 0)
    return any ? SIZE_MAX : rows * (size_t)maxima->num_splits;
  /* A thread block has at most block_m rows, and most_splits() bounds the blocks of all splits. */
  const size_t by_slots = (size_t)(SPLIT_WAVES_MAX * slots) * (size_t)tile->block_m;
  const size_t by_rows = any ? SIZE_MAX : rows * (size_t)most_splits(1, key_blocks, slots);
  return by_rows < by_slots ? by_rows : by_slots;
}

static attnpress_status add_workspace(const ap_problem *maxima, size_t rows, ap_launches *range) {
  size_t lse_offset_bytes, bytes;
  if (rows == SIZE_MAX) {
    range->workspace_bytes = SIZE_MAX;
    return ATTNPRESS_OK;
  }
  RETURN_IF(!partial_bytes(rows, (size_t)maxima->hdim_v, &lse_offset_bytes, &bytes),
            ATTNPRESS_INVALID_ARGUMENT,
            "the workspace of %d splits passes 2^64 bytes; ask for fewer splits",
            (int)maxima->num_splits);
  if (bytes > range->workspace_bytes)
    range->workspace_bytes = bytes;
  return ATTNPRESS_OK;
}

/** Adds what one problem launches. */
static attnpress_status add_choice(const ap_problem *problem, const ap_problem *maxima,
                                   const ap_device *device, ap_launches *range) {
  ap_plan plan;
  FORWARD_IF(ap_choose(problem, device, &plan));
  const int chosen = maxima->num_splits == 0 && maxima->seqlen_k > 0;
  if (plan.variant.split && chosen &&
      ceil_div(maxima->seqlen_k, plan.tile.block_n) < SPLIT_KEY_BLOCKS_MIN)
    return ATTNPRESS_OK; /* never with so few keys */
  FORWARD_IF(add_launch(&plan.variant, &plan.tile, plan.target, range));
  if (!plan.variant.split)
    return ATTNPRESS_OK;
  FORWARD_IF(add_launch(&plan.combine, &plan.combine_tile, plan.combine_target, range));
  return add_workspace(maxima, most_partial_rows(maxima, device, &plan.tile), range);
}

/** The choices for one length of the queries: split or not, with tensor maps or without. */
static attnpress_status add_length(const ap_problem *maxima, const ap_device *device,
                                   int32_t seqlen_q, ap_launches *range) {
  ap_problem probe = *maxima;
  probe.batch = 1;
  probe.seqlen_q = seqlen_q;
  probe.seqlen_k = maxima->seqlen_k > 0 ? maxima->seqlen_k : SEQLEN_PROBED;
  for (probe.tma = maxima->tma_min; probe.tma <= maxima->tma_max; ++probe.tma)
    for (probe.num_splits = 1; probe.num_splits <= 2; ++probe.num_splits) {
      if (maxima->num_splits != 0 && (maxima->num_splits > 1) != (probe.num_splits > 1))
        continue;
      FORWARD_IF(add_choice(&probe, maxima, device, range));
    }
  return ATTNPRESS_OK;
}

attnpress_status ap_choose_range(const ap_problem *maxima, const ap_device *device,
                                 ap_launches *range) {
  static const int32_t lengths[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                    11, 12, 13, 14, 15, 16, 17, 64, 65, SEQLEN_PROBED};
  _Static_assert(DECODE_ROWS == 16 && AP_WARPGROUP_ROWS == 64, "the lengths that are probed");
  range->count = 0;
  range->workspace_bytes = 0;
  if (maxima->heads_q == 0)
    return ATTNPRESS_OK; /* the output is empty */
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) {
    const int last = maxima->seqlen_q > 0 && lengths[i] >= maxima->seqlen_q;
    FORWARD_IF(add_length(maxima, device, last ? maxima->seqlen_q : lengths[i], range));
    if (last)
      break;
  }
  return ATTNPRESS_OK;
}
