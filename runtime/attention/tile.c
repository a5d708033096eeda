/* Makes the tile of one pair of head dims that of another: columns of slabs and shared memory. The
 * twin of fit() and smem_bytes() in generator/attention/rules.py, which are compared on all pairs. */
#include "attention/tile.h"

#include "../generated/families.h"
#include "attention/attention.h"
#include "press/target.h"

enum { SPREAD_COLUMNS = 16, SLAB_COLUMNS = 64, SLAB_ROW_BYTES = 2 * SLAB_COLUMNS, WIDE_PLACES = 2 };
enum { KEPT_ROW_BYTES = 32 }; /* of what a row of added splits counts, by its four threads */
/* Of static shared memory: what a kernel that writes units down has of it, at most; what the numbers
 * of 64 keys take, in kernels with ALiBi. */
enum { FOUND_UNIT_BYTES = 1024, NUMBER_ATOM_BYTES = 1024, NUMBER_COLUMNS_MAX = 128 };

/** The axes and fields that the formulas read. */
typedef struct shape {
  int32_t pass, arch, split, decode, hdim, hdim_v, mask, bias_map, sequences, finds_units;
  int32_t block_m, block_n, warps_m, warps_n, warps_k, stages, k_slab, v_slab, acc_warps, v_stages;
} shape;

static shape shape_of(const ap_variant *variant, const ap_tile *tile) {
  const int32_t *axis = variant->axis, *field = tile->field;
  return (shape){
      .pass = axis[AP_ATTENTION_PASS],
      .arch = axis[AP_ATTENTION_ARCH],
      .split = axis[AP_ATTENTION_SPLIT],
      .decode = axis[AP_ATTENTION_DECODE],
      .hdim = axis[AP_ATTENTION_HDIM],
      .hdim_v = axis[AP_ATTENTION_HDIM_V],
      .mask = axis[AP_ATTENTION_MASK],
      .bias_map = ap_has_bias_map(variant),
      .sequences = axis[AP_ATTENTION_SEQUENCES],
      .finds_units = axis[AP_ATTENTION_SEQUENCES] != AP_ATTENTION_SEQUENCES_DENSE ||
                     axis[AP_ATTENTION_MOD_MASK],
      .block_m = field[AP_ATTENTION_TILE_BLOCK_M],
      .block_n = field[AP_ATTENTION_TILE_BLOCK_N],
      .warps_m = field[AP_ATTENTION_TILE_WARPS_M],
      .warps_n = field[AP_ATTENTION_TILE_WARPS_N],
      .warps_k = field[AP_ATTENTION_TILE_WARPS_K],
      .stages = field[AP_ATTENTION_TILE_STAGES],
      .k_slab = field[AP_ATTENTION_TILE_K_SLAB],
      .v_slab = field[AP_ATTENTION_TILE_V_SLAB],
      .acc_warps = field[AP_ATTENTION_TILE_ACC_WARPS],
      .v_stages = field[AP_ATTENTION_TILE_V_STAGES],
  };
}

static int32_t max_of(int32_t a, int32_t b) {
  return a > b ? a : b;
}

/** Of a row of 16-bit values: padded to an odd count of 16-byte chunks. */
static int32_t row_bytes(int32_t columns) {
  return 16 * (columns / 8 | 1);
}

static int32_t slabs_of(int32_t columns) {
  return (columns + SLAB_COLUMNS - 1) / SLAB_COLUMNS;
}

static int32_t forward_bytes(const shape *s) {
  const int32_t q_bytes = s->block_m * row_bytes(s->hdim);
  if (s->warps_k > 1) { /* a ring for each warp; at the end its part of O, maxima and sums */
    const int32_t keys = s->block_n / s->warps_k;
    const int32_t slot_bytes = 2 * max_of(keys * s->k_slab, s->v_slab * s->hdim_v);
    const int32_t part_bytes = s->block_m * (4 * s->hdim_v + 32);
    return q_bytes + s->warps_k * max_of(s->stages * slot_bytes, part_bytes);
  }
  const int32_t slot_bytes =
      max_of(s->block_n * row_bytes(s->k_slab), s->v_slab * row_bytes(s->hdim_v));
  const int32_t exchange_bytes =
      s->warps_n > 1 ? s->block_m * (row_bytes(s->block_n) + 4 * s->warps_n) : 0;
  const int32_t o_bytes = s->split ? 0 : s->block_m * row_bytes(s->hdim_v);
  return max_of(q_bytes + s->stages * slot_bytes + exchange_bytes, o_bytes);
}

/** What static shared memory leaves to a kernel with a bias; some of these have ALiBi. */
static int32_t producer_limit(const shape *s) {
  const int32_t limit = (int32_t)ap_find_arch(s->arch)->smem_per_block_bytes;
  if (s->finds_units)
    return limit - FOUND_UNIT_BYTES;
  return s->hdim_v <= NUMBER_COLUMNS_MAX ? limit - NUMBER_ATOM_BYTES * slabs_of(s->block_n) : limit;
}

/** Whether O of splits at fixed places is kept in shared memory beside all stages, with what its rows
 * count. */
static int keeps_beside(const shape *s) {
  return s->split && s->sequences != AP_ATTENTION_SEQUENCES_DENSE && !s->decode &&
         s->hdim == AP_ATTENTION_KEPT_BESIDE && s->hdim_v == AP_ATTENTION_KEPT_BESIDE &&
         s->mask != AP_ATTENTION_MASK_WINDOW;
}

/** Places of Q of all consumers: ragged kernels of four, and those of few rows, bring a unit's while that
 * of the unit before is still read; so do those that keep O beside all stages, whose places are a power
 * of two a unit. */
static int32_t q_places(const shape *s) {
  const int32_t consumers = max_of(s->block_m / AP_ATTENTION_WARPGROUP_ROWS, 1);
  if (keeps_beside(s))
    return 2 * (consumers == 3 ? 4 : consumers);
  return s->decode || (consumers == 4 && s->sequences == AP_ATTENTION_SEQUENCES_RAGGED)
             ? 2 * consumers
             : consumers;
}

/** Q of consumers, rings of K and V, and the barriers; and of a bias of 16 bits two key blocks, or
 * one where there is no room, with two barriers each; and O of all rows in fp32, where splits at fixed
 * places keep it there. */
static int32_t producer_bytes(const shape *s) {
  const int32_t places = q_places(s);
  const int32_t q_rows = s->decode ? AP_ATTENTION_FEW_ROWS : AP_ATTENTION_WARPGROUP_ROWS;
  const int32_t q_bytes = places * q_rows * slabs_of(s->hdim) * SLAB_ROW_BYTES;
  const int32_t ring_bytes =
      s->stages * s->block_n * (slabs_of(s->hdim) + slabs_of(s->hdim_v)) * SLAB_ROW_BYTES;
  const int32_t bytes = q_bytes + ring_bytes + 8 * (2 * places + 4 * s->stages);
  if (s->split && s->sequences != AP_ATTENTION_SEQUENCES_DENSE &&
      ap_keeps_output(s->hdim, s->hdim_v, s->stages))
    return bytes + s->block_m * s->hdim_v * (int32_t)sizeof(float);
  if (keeps_beside(s))
    return bytes + s->block_m * (s->hdim_v * (int32_t)sizeof(float) + KEPT_ROW_BYTES);
  if (!s->bias_map)
    return bytes;
  const int32_t place_bytes = s->block_m * slabs_of(s->block_n) * SLAB_ROW_BYTES + 16;
  const int32_t two = bytes + 2 * place_bytes;
  return two <= producer_limit(s) ? two : two - place_bytes;
}

/** Q, the ring of V, P and the factors of its rows, barriers; and two key blocks of K, or one. */
static int32_t wide_bytes(const shape *s) {
  const int32_t rows = AP_ATTENTION_WARPGROUP_ROWS, k_slabs = slabs_of(s->hdim);
  const int32_t slab_bytes = s->block_n * SLAB_ROW_BYTES;
  const int32_t p_bytes = WIDE_PLACES * (rows * s->block_n * 2 + rows * 4);
  const int32_t barriers = 4 + 4 * s->stages + 2 * WIDE_PLACES;
  const int32_t other_bytes = rows * SLAB_ROW_BYTES * k_slabs +
                              s->stages * slabs_of(s->hdim_v) * slab_bytes + p_bytes + rows * 4 +
                              8 * barriers;
  const int32_t k_bytes = k_slabs * (slab_bytes + 16), two = other_bytes + 2 * k_bytes;
  return two <= ap_find_arch(s->arch)->smem_per_block_bytes ? two : two - k_bytes;
}

/** What is owned; the rings of what is walked over; P and dS between warps. */
static int32_t backward_bytes(const shape *s) {
  const int owns_keys = s->pass != AP_ATTENTION_PASS_BWD_DQ;
  const int32_t own_rows = owns_keys ? s->block_n : s->block_m;
  const int32_t own_warps = owns_keys ? s->warps_n : s->warps_m;
  const int32_t walk_rows = owns_keys ? s->block_m : s->block_n;
  const int32_t walk_warps = owns_keys ? s->warps_m : s->warps_n;
  const int in_registers = walk_warps == 1 && s->acc_warps == own_warps;
  const int32_t slot_bytes = walk_rows * (row_bytes(s->hdim) + (owns_keys ? 8 : 0));
  const int32_t v_slot_bytes = walk_rows * row_bytes(s->hdim_v);
  const int32_t v_stages = s->v_stages ? s->v_stages : s->stages;
  int32_t exchanged = in_registers ? 0 : owns_keys ? 2 : 1;
  if (s->pass == AP_ATTENTION_PASS_BWD)
    exchanged = max_of(exchanged, 1);
  return own_rows * (row_bytes(s->hdim) + row_bytes(s->hdim_v)) + s->stages * slot_bytes +
         v_stages * v_slot_bytes + exchanged * own_rows * row_bytes(walk_rows);
}

static int32_t smem_bytes(const shape *s, int producer) {
  if (s->pass == AP_ATTENTION_PASS_BWD_DBIAS)
    return (s->block_m + s->block_n) * (row_bytes(s->hdim) + row_bytes(s->hdim_v));
  if (s->pass != AP_ATTENTION_PASS_FWD)
    return backward_bytes(s);
  if (!producer)
    return forward_bytes(s);
  return s->hdim_v > AP_ATTENTION_SM90_HDIM_MAX ? wide_bytes(s) : producer_bytes(s);
}

void ap_attention_fit(const ap_variant *variant, const ap_variant *other, ap_tile *tile) {
  const int32_t hdim = variant->axis[AP_ATTENTION_HDIM];
  const int producer = tile->field[AP_ATTENTION_TILE_PRODUCER];
  int32_t *const k_slab = &tile->field[AP_ATTENTION_TILE_K_SLAB];
  if (*k_slab && (producer || *k_slab == other->axis[AP_ATTENTION_HDIM] || *k_slab > hdim))
    *k_slab = hdim;
  if (!producer && *k_slab && hdim < SPREAD_COLUMNS)
    tile->field[AP_ATTENTION_TILE_SPREAD] = 0;
  const shape s = shape_of(variant, tile);
  tile->smem_bytes = smem_bytes(&s, producer);
}
