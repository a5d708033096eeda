/* Decides how a forward call is run: architecture, mask, packing of heads, small row block, splits,
 * grid and workspace. Pure: it depends on shapes and on the device's numbers, never on data, and
 * touches nothing. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

/* ---- What runs where ------------------------------------------------------------------------- */

/* What a cubin can be compiled for. Shared memory: CUDA C++ Programming Guide, "Technical
 * Specifications per Compute Capability". */
const ap_target ap_targets[] = {
    {"sm_80", 80, 163 * 1024},   {"sm_86", 86, 99 * 1024},    {"sm_90", 90, 227 * 1024},
    {"sm_100", 100, 227 * 1024}, {"sm_110", 110, 227 * 1024}, {"sm_120", 120, 99 * 1024},
};
const size_t ap_targets_count = sizeof ap_targets / sizeof *ap_targets;

enum { ARCHS_MAX = 2 };

/** Devices, and the architectures that they run, best first. */
typedef struct device_row {
  int capability_min, capability_max;
  struct {
    int arch; /* of the stem; 0: none */
    const char *target;
    int hdim_max; /* of both head dims */
  } archs[ARCHS_MAX];
} device_row;

static const device_row device_rows[] = {
    {80, 80, {{80, "sm_80", AP_HDIM_MAX}}},    {86, 86, {{86, "sm_86", AP_HDIM_MAX}}},
    {87, 87, {{80, "sm_80", AP_HDIM_MAX}}},    {88, 89, {{86, "sm_86", AP_HDIM_MAX}}},
    {90, 90, {{80, "sm_90", AP_HDIM_MAX}}},    {100, 109, {{80, "sm_100", AP_HDIM_MAX}}},
    {110, 119, {{80, "sm_110", AP_HDIM_MAX}}}, {120, 129, {{86, "sm_120", AP_HDIM_MAX}}},
};

/* The combine kernel is one for all; its stems say sm80. */
enum { COMBINE_ARCH = 80 };

const ap_target *ap_find_target(const char *name) {
  for (size_t i = 0; i < ap_targets_count; ++i)
    if (strcmp(ap_targets[i].name, name) == 0)
      return &ap_targets[i];
  return NULL;
}

static const device_row *find_device_row(int capability) {
  for (size_t i = 0; i < sizeof device_rows / sizeof *device_rows; ++i)
    if (device_rows[i].capability_min <= capability && capability <= device_rows[i].capability_max)
      return &device_rows[i];
  return NULL;
}

const char *ap_target_for(int capability, int arch) {
  const device_row *row = find_device_row(capability);
  for (int i = 0; row != NULL && i < ARCHS_MAX; ++i)
    if (row->archs[i].arch == arch)
      return row->archs[i].target;
  return NULL;
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

/** The architecture and target for these head dims. */
static attnpress_status choose_arch(const ap_problem *problem, const ap_device *device,
                                    ap_variant *variant, const char **target) {
  FORWARD_IF(ap_check_capability(device->capability));
  const device_row *row = find_device_row(device->capability);
  const int32_t hdim = problem->hdim > problem->hdim_v ? problem->hdim : problem->hdim_v;
  for (int i = 0; i < ARCHS_MAX && row->archs[i].arch != 0; ++i) {
    if (hdim > row->archs[i].hdim_max)
      continue;
    variant->arch = row->archs[i].arch;
    *target = row->archs[i].target;
    return ATTNPRESS_OK;
  }
  return ap_fail(
      ATTNPRESS_NOT_SUPPORTED, "no kernel for head dims %d and %d runs on compute capability %d.%d",
      (int)problem->hdim, (int)problem->hdim_v, device->capability / 10, device->capability % 10);
}

static int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/* ---- Rows: mask, packing, row block ---------------------------------------------------------- */

/** Below this share of the packed tile's row use, heads of a group are packed into one tile. */
#define PACKING_GAIN 0.9
/** The row block of the decode tiles. */
enum { DECODE_ROWS = 16 };

static double row_use(int64_t rows, int64_t block) {
  if (rows == 0)
    return 1.0;
  return (double)rows / (double)(ceil_div(rows, block) * block);
}

/** Query heads that share a tile: all of a group, or one. */
static int32_t choose_packing(const ap_problem *problem, int32_t block_m) {
  const int32_t group = problem->heads_kv ? problem->heads_q / problem->heads_kv : 1;
  const int64_t packed_rows = (int64_t)problem->seqlen_q * group;
  if (group <= 1 || packed_rows > INT32_MAX - AP_HDIM_MAX)
    return 1;
  const double gain = row_use(problem->seqlen_q, block_m) / row_use(packed_rows, block_m);
  return gain < PACKING_GAIN ? group : 1;
}

/** Fills mask, decode, packing; the tile stays that of one split. */
static attnpress_status choose_rows(const ap_problem *problem, ap_plan *plan) {
  ap_variant *v = &plan->variant;
  /* A single query sees every key under either mask. */
  v->mask = problem->seqlen_q == 1 ? ATTNPRESS_FULL : problem->mask;
  FORWARD_IF(ap_find_tile(v, &plan->tile));
  plan->heads_per_tile = choose_packing(problem, plan->tile.block_m);
  v->decode = (int64_t)problem->seqlen_q * plan->heads_per_tile <= DECODE_ROWS;
  return ATTNPRESS_OK;
}

/* ---- Splits ---------------------------------------------------------------------------------- */

enum { SPLIT_KEY_BLOCKS_MIN = 5, SPLITS_CHOSEN_MAX = 128 };
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

/* The rule of FlashAttention-2's num_splits_heuristic (Dao 2023): the smallest count whose waves
 * are nearly as full as the best one's. */
int ap_choose_num_splits(int64_t blocks, int64_t key_blocks, int64_t slots) {
  if (blocks <= 0 || slots <= 0 || (double)blocks >= SPLIT_FILL * (double)slots ||
      key_blocks < SPLIT_KEY_BLOCKS_MIN)
    return 1;
  int64_t most = key_blocks < slots ? key_blocks : slots;
  if (most > SPLITS_CHOSEN_MAX)
    most = SPLITS_CHOSEN_MAX;
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
  const int threads = 32 * tile->warps_m * tile->warps_n;
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

/** Thread blocks of one split. */
static int64_t split_blocks(const ap_problem *problem, const ap_plan *plan, int32_t block_m) {
  const int64_t rows = (int64_t)problem->seqlen_q * plan->heads_per_tile;
  return ceil_div(rows, block_m) * (problem->heads_q / plan->heads_per_tile) * problem->batch;
}

/** Fills num_splits, the variant's split, the tile that goes with it, and the keys of a split. */
static attnpress_status choose_splits(const ap_problem *problem, const ap_device *device,
                                      ap_plan *plan) {
  ap_variant split = plan->variant;
  ap_tile tile;
  split.split = 1;
  int32_t count = problem->num_splits;
  if (count != 1) {
    FORWARD_IF(ap_find_tile(&split, &tile));
    if (count == 0)
      count = ap_choose_num_splits(split_blocks(problem, plan, tile.block_m),
                                   ceil_div(problem->seqlen_k, tile.block_n),
                                   (int64_t)device->sm_count * ap_blocks_per_sm(&tile, device));
  }
  if (count == 1)
    FORWARD_IF(ap_find_tile(&plan->variant, &tile));
  else
    plan->variant = split;
  plan->tile = tile;
  plan->num_splits = count;
  plan->key_blocks_per_split = (int32_t)ceil_div(ceil_div(problem->seqlen_k, tile.block_n), count);
  return ATTNPRESS_OK;
}

/* ---- Grid and workspace ---------------------------------------------------------------------- */

enum { WORKSPACE_ALIGNMENT = 256 };

/** a * b where it fits *product. */
static int multiply(size_t a, size_t b, size_t *product) {
  return !__builtin_mul_overflow(a, b, product);
}

static attnpress_status plan_combine(const ap_problem *problem, ap_plan *plan) {
  plan->combine = (ap_variant){.pass = AP_PASS_FWD_COMBINE,
                               .hdim = problem->hdim_v,
                               .hdim_v = problem->hdim_v,
                               .dtype = problem->dtype,
                               .mask = ATTNPRESS_FULL,
                               .arch = COMBINE_ARCH};
  FORWARD_IF(ap_find_tile(&plan->combine, &plan->combine_tile));
  /* It runs wherever the forward kernel does, so the forward kernel's target is its too. */
  plan->combine_target = plan->target;
  const size_t rows = (size_t)problem->batch * (size_t)problem->heads_q * (size_t)problem->seqlen_q;
  size_t out_bytes, lse_bytes;
  const int fits = multiply(rows * sizeof(float), (size_t)plan->num_splits, &lse_bytes) &&
                   multiply(lse_bytes, (size_t)problem->hdim_v, &out_bytes) &&
                   !__builtin_add_overflow(out_bytes, WORKSPACE_ALIGNMENT - 1, &out_bytes) &&
                   !__builtin_add_overflow(out_bytes & ~(size_t)(WORKSPACE_ALIGNMENT - 1),
                                           lse_bytes, &plan->workspace_bytes);
  RETURN_IF(!fits, ATTNPRESS_INVALID_ARGUMENT,
            "the workspace of %d splits of %zu rows passes 2^64 bytes; ask for fewer splits",
            (int)plan->num_splits, rows);
  plan->lse_partial_offset_bytes = out_bytes & ~(size_t)(WORKSPACE_ALIGNMENT - 1);
  const int64_t blocks = ceil_div((int64_t)rows, plan->combine_tile.block_m);
  RETURN_IF(blocks > INT32_MAX, ATTNPRESS_NOT_SUPPORTED,
            "%zu query rows (batch * heads * seqlen_q) cannot be split: at most 2^31 - 1; set "
            "num_splits to 1",
            rows);
  plan->combine_grid = (unsigned)blocks;
  return ATTNPRESS_OK;
}

attnpress_status ap_choose(const ap_problem *problem, const ap_device *device, ap_plan *plan) {
  memset(plan, 0, sizeof *plan);
  plan->variant = (ap_variant){.pass = AP_PASS_FWD,
                               .hdim = problem->hdim,
                               .hdim_v = problem->hdim_v,
                               .dtype = problem->dtype};
  FORWARD_IF(choose_arch(problem, device, &plan->variant, &plan->target));
  FORWARD_IF(choose_rows(problem, plan));
  FORWARD_IF(choose_splits(problem, device, plan));
  plan->row_blocks =
      (int32_t)ceil_div((int64_t)problem->seqlen_q * plan->heads_per_tile, plan->tile.block_m);
  int64_t blocks = split_blocks(problem, plan, plan->tile.block_m);
  RETURN_IF(__builtin_mul_overflow(blocks, plan->num_splits, &blocks) || blocks > INT32_MAX,
            ATTNPRESS_NOT_SUPPORTED,
            "batch %d x %d heads x seqlen_q %d in %d splits needs more than 2^31 - 1 thread "
            "blocks; divide the batch",
            (int)problem->batch, (int)problem->heads_q, (int)problem->seqlen_q,
            (int)plan->num_splits);
  plan->grid = (unsigned)blocks;
  return plan->variant.split ? plan_combine(problem, plan) : ATTNPRESS_OK;
}

/* ---- All that may be chosen ------------------------------------------------------------------ */

static attnpress_status add_variant(const ap_variant *variant, const char *target,
                                    ap_variant *variants, const char **targets, int *count) {
  for (int i = 0; i < *count; ++i)
    if (ap_variant_key(&variants[i]) == ap_variant_key(variant))
      return ATTNPRESS_OK;
  RETURN_IF(*count == AP_VARIANTS_MAX, ATTNPRESS_NOT_SUPPORTED,
            "more than %d kernels serve one shape", AP_VARIANTS_MAX);
  variants[*count] = *variant;
  targets[(*count)++] = target;
  return ATTNPRESS_OK;
}

attnpress_status ap_choose_all(const ap_problem *problem, const ap_device *device,
                               ap_variant variants[AP_VARIANTS_MAX],
                               const char *targets[AP_VARIANTS_MAX], int *count) {
  enum { LONG_QUERY = 4096 };
  /* Mask and decode depend on seqlen_q alone, and change only up to DECODE_ROWS; splitting or not
   * is asked for by the call, or depends on the batch and the lengths. */
  *count = 0;
  for (int32_t length = 1; length <= DECODE_ROWS + 2; ++length) {
    for (int32_t splits = 1; splits <= 2; ++splits) {
      if (problem->num_splits != 0 && (problem->num_splits > 1) != (splits > 1))
        continue;
      ap_problem probe = *problem;
      ap_plan plan;
      probe.batch = 1;
      probe.seqlen_q = length <= DECODE_ROWS + 1 ? length : LONG_QUERY;
      probe.num_splits = splits;
      FORWARD_IF(ap_choose(&probe, device, &plan));
      FORWARD_IF(add_variant(&plan.variant, plan.target, variants, targets, count));
      if (plan.variant.split)
        FORWARD_IF(add_variant(&plan.combine, plan.combine_target, variants, targets, count));
    }
  }
  return ATTNPRESS_OK;
}
