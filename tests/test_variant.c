/* The naming grammar: printing and parsing are inverses over every variant, and nothing else
 * parses. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

#include "support.h"

static void check_round_trip(const ap_variant *variant) {
  char stem[AP_STEM_MAX], again[AP_STEM_MAX];
  ap_variant parsed;
  assert_ok(ap_variant_print(variant, stem));
  assert_ok(ap_variant_parse(stem, &parsed));
  assert_memory_equal(variant, &parsed, sizeof parsed);
  assert_ok(ap_variant_print(&parsed, again));
  assert_string_equal(stem, again);
}

static void without_features(ap_variant *variant) {
  for (int axis = AP_ATTENTION_SOFTCAP; axis <= AP_ATTENTION_READY; ++axis)
    variant->axis[axis] = 0;
  variant->axis[AP_ATTENTION_APPEND] = 0;
}

/** Each legal variant without features: those of the rows of tiles, with whatever the rows leave
 * open. */
static size_t each_variant(void (*visit)(const ap_variant *variant)) {
  size_t count = 0;
  for (size_t i = 0; i < ap_families[AP_FAMILY_ATTENTION]->tiles->count; ++i) {
    ap_tile_row row;
    ap_tile_row_read(AP_FAMILY_ATTENTION, i, &row);
    if (row.target != NULL || row.tile_class > 0 || row.variant.axis[AP_ATTENTION_SEQUENCES] > 0)
      continue; /* another row is of all targets, and of variants without features */
    without_features(&row.variant);
    const int32_t split = row.variant.axis[AP_ATTENTION_SPLIT];
    const int32_t dtype = row.variant.axis[AP_ATTENTION_DTYPE];
    for (int k = 0; k < 4; ++k) {
      if ((split != AP_ANY && split != k / 2) || (dtype != AP_ANY && dtype != 1 + k % 2))
        continue;
      row.variant.axis[AP_ATTENTION_SPLIT] = k / 2;
      row.variant.axis[AP_ATTENTION_DTYPE] = 1 + k % 2;
      visit(&row.variant);
      ++count;
    }
  }
  return count;
}

static void test_inverses(void **state) {
  (void)state;
  assert_true(each_variant(check_round_trip) > 2000);
}

#define VARIANT(pass, split, hdim, hdim_v, dtype, mask, decode, arch)                              \
  {                                                                                                \
    AP_FAMILY_ATTENTION, {                                                                         \
      [AP_ATTENTION_PASS] = pass, [AP_ATTENTION_SPLIT] = split, [AP_ATTENTION_HDIM] = hdim,        \
      [AP_ATTENTION_HDIM_V] = hdim_v, [AP_ATTENTION_DTYPE] = dtype, [AP_ATTENTION_MASK] = mask,    \
      [AP_ATTENTION_DECODE] = decode, [AP_ATTENTION_ARCH] = arch                                   \
    }                                                                                              \
  }

static void test_stems(void **state) {
  (void)state;
  static const struct {
    const char *stem;
    ap_variant variant;
  } rows[] = {
      {"flash_fwd_hdim96_fp16_causal_sm80",
       VARIANT(AP_ATTENTION_PASS_FWD, 0, 96, 96, ATTNPRESS_FP16, ATTNPRESS_CAUSAL, 0, 80)},
      {"flash_fwd_split_hdim192_fp16_causal_sm80",
       VARIANT(AP_ATTENTION_PASS_FWD, 1, 192, 192, ATTNPRESS_FP16, ATTNPRESS_CAUSAL, 0, 80)},
      {"flash_fwd_hdim192v128_bf16_sm86",
       VARIANT(AP_ATTENTION_PASS_FWD, 0, 192, 128, ATTNPRESS_BF16, ATTNPRESS_FULL, 0, 86)},
      {"flash_fwd_split_hdim8_bf16_causal_decode_sm86",
       VARIANT(AP_ATTENTION_PASS_FWD, 1, 8, 8, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 1, 86)},
      {"flash_fwd_split_hdim256v128_bf16_causal_sm90",
       VARIANT(AP_ATTENTION_PASS_FWD, 1, 256, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 90)},
      {"flash_fwd_combine_hdim128_bf16_sm80",
       VARIANT(AP_ATTENTION_PASS_FWD_COMBINE, 0, 128, 128, ATTNPRESS_BF16, ATTNPRESS_FULL, 0, 80)},
      {"flash_bwd_hdim72_fp16_causal_sm90",
       VARIANT(AP_ATTENTION_PASS_BWD, 0, 72, 72, ATTNPRESS_FP16, ATTNPRESS_CAUSAL, 0, 90)},
      {"flash_bwd_dkv_hdim512_bf16_sm86",
       VARIANT(AP_ATTENTION_PASS_BWD_DKV, 0, 512, 512, ATTNPRESS_BF16, ATTNPRESS_FULL, 0, 86)},
      {"flash_bwd_delta_hdim40_fp16_sm80",
       VARIANT(AP_ATTENTION_PASS_BWD_DELTA, 0, 40, 40, ATTNPRESS_FP16, ATTNPRESS_FULL, 0, 80)},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    char stem[AP_STEM_MAX];
    ap_variant parsed;
    assert_ok(ap_variant_print(&rows[i].variant, stem));
    assert_string_equal(stem, rows[i].stem);
    assert_ok(ap_variant_parse(rows[i].stem, &parsed));
    assert_memory_equal(&parsed, &rows[i].variant, sizeof parsed);
  }
}

static void test_wrong_stems(void **state) {
  (void)state;
  static const struct {
    const char *stem, *says;
  } rows[] = {
      {"", "is not the name of a kernel"},
      {"flash", "is not the name of a kernel"},
      {"flash_bwd_dv_hdim64_fp16_sm80", "is not the name of a kernel"},
      {"flash_bwd_hdim264_fp16_sm80", "head dim 264 is not supported in the bwd pass"},
      {"flash_bwd_hdim264_fp16_sm90", "head dim 264 is not supported in the bwd pass"},
      {"flash_bwd_dq_hdim264_fp16_sm90",
       "head dim 264 is not supported in the bwd_dq pass and on sm90"},
      {"flash_bwd_dkv_split_hdim64_fp16_sm80", "split is not supported in the bwd_dkv pass"},
      {"flash_fwd_hdim64_fp16", "is not the name of a kernel"},
      {"flash_fwd_hdim64_fp16_sm80 ", "is not the name of a kernel"},
      {" flash_fwd_hdim64_fp16_sm80", "is not the name of a kernel"},
      {"flash_fwd_hdim64_fp16_sm80.cu", "is not the name of a kernel"},
      {"flash_fwd_hdim064_fp16_sm80", "is not the name of a kernel"},
      {"flash_fwd_hdim+64_fp16_sm80", "is not the name of a kernel"},
      {"flash_fwd_hdim_fp16_sm80", "is not the name of a kernel"},
      {"flash_fwd_hdim1000000000000_fp16_sm80", "is not the name of a kernel"},
      {"flash_fwd_hdim64v64_fp16_sm80", "is not the name of a kernel"},
      {"flash_fwd_hdim64v_fp16_sm80", "is not the name of a kernel"},
      {"flash_fwd_hdim64_fp32_sm80", "is not the name of a kernel"},
      {"flash_fwd_hdim64_fp16_decode_causal_sm80", "is not the name of a kernel"},
      {"flash_fwd_hdim64_fp16_full_sm80", "is not the name of a kernel"},
      {"flash_fwd_hdim0_fp16_sm80", "head dim 0 is not supported"},
      {"flash_fwd_hdim12_fp16_sm80", "head dim 12 is not supported"},
      {"flash_fwd_hdim520_fp16_sm80", "head dim 520 is not supported"},
      {"flash_fwd_hdim64v60_fp16_sm80", "value head dim 60 is not supported"},
      {"flash_bwd_hdim64v72_fp16_sm90", "192/128"},
      {"flash_fwd_hdim64_fp16_sm75", "arch sm75 is unknown"},
      {"flash_fwd_hdim64_fp16_sm100", "arch sm100 is unknown: it must be sm80, sm86 or sm90"},
      {"flash_fwd_hdim64_fp16_sm90a", "is not the name of a kernel"},
      {"flash_fwd_hdim320_fp16_window_sm90", "mask window is not supported"},
      {"flash_fwd_hdim264_fp16_softcap_sm90", "softcap is not supported"},
      {"flash_fwd_hdim64_fp16_decode_sm90", "no split is not supported on sm90 and with decode"},
      {"flash_fwd_combine_hdim64_fp16_sm90",
       "arch sm90 is not supported in the fwd_combine pass: it "
       "must be sm80"},
      {"flash_fwd_combine_hdim64_fp16_sm86", "arch sm86 is not supported in the fwd_combine pass"},
      {"flash_fwd_combine_split_hdim64_fp16_sm80", "split is not supported in the fwd_combine"},
      {"flash_fwd_combine_hdim64_fp16_causal_sm80", "mask causal is not supported in the fwd_comb"},
      {"flash_fwd_combine_hdim192v128_fp16_sm80", "value head dim 128 is not supported with head "
                                                  "dim 192 in the fwd_combine pass: it must be "
                                                  "equal"},
      {"flash_fwd_hdim264v256_fp16_sm90", "head dim 264 is not supported"},
      {"flash_fwd_hdim64_fp16", "is not the name of a kernel: names are flash_<fwd|"},
      {"toy_fwd_hdim64_fp16_sm80",
       "is not the name of a kernel: names begin with flash_, softmax_"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_variant parsed;
    if (ap_variant_parse(rows[i].stem, &parsed) != ATTNPRESS_INVALID_ARGUMENT)
      fail_msg("\"%s\" parses", rows[i].stem);
    assert_error_says(rows[i].says);
  }
  ap_variant parsed;
  assert_int_equal(ap_variant_parse(NULL, &parsed), ATTNPRESS_INVALID_ARGUMENT);
}

static void test_tile_names(void **state) {
  (void)state;
  char name[AP_TILE_NAME_MAX];
  const ap_variant v = {.family = AP_FAMILY_ATTENTION};
  ap_tile tile = {.field = {[AP_ATTENTION_TILE_BLOCK_M] = 128,
                            [AP_ATTENTION_TILE_BLOCK_N] = 64,
                            [AP_ATTENTION_TILE_WARPS_M] = 4,
                            [AP_ATTENTION_TILE_WARPS_N] = 1,
                            [AP_ATTENTION_TILE_STAGES] = 2,
                            [AP_ATTENTION_TILE_K_SLAB] = 128,
                            [AP_ATTENTION_TILE_V_SLAB] = 64,
                            [AP_ATTENTION_TILE_MIN_BLOCKS] = 1,
                            [AP_ATTENTION_TILE_WARPS_K] = 1}};
  ap_tile_print(&v, &tile, name);
  assert_string_equal(name, "m128n64w4x1s2k128v64");
  tile.field[AP_ATTENTION_TILE_Q_IN_REGS] = 1;
  tile.field[AP_ATTENTION_TILE_MIN_BLOCKS] = 2;
  ap_tile_print(&v, &tile, name);
  assert_string_equal(name, "m128n64w4x1s2k128v64qb2");
  tile.field[AP_ATTENTION_TILE_WARPS_K] = 4;
  ap_tile_print(&v, &tile, name);
  assert_string_equal(name, "m128n64w4x1x4s2k128v64qb2");
  const ap_tile sm90 = {.field = {[AP_ATTENTION_TILE_BLOCK_M] = 128,
                                  [AP_ATTENTION_TILE_BLOCK_N] = 176,
                                  [AP_ATTENTION_TILE_STAGES] = 2,
                                  [AP_ATTENTION_TILE_PRODUCER] = 1}};
  ap_tile_print(&v, &sm90, name);
  assert_string_equal(name, "m128n176s2");
}

static int compare_keys(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static uint64_t keys[1 << 14];
static size_t key_count;

static void collect_key(const ap_variant *variant) {
  assert_true(key_count < sizeof keys / sizeof *keys);
  keys[key_count++] = ap_variant_key(variant);
}

/** The small key by which kernels are found in memory tells every two variants apart. */
static void test_keys(void **state) {
  (void)state;
  assert_true(each_variant(collect_key) > 2000);
  qsort(keys, key_count, sizeof *keys, compare_keys);
  assert_true(keys[0] != 0);
  for (size_t i = 1; i < key_count; ++i)
    assert_true(keys[i - 1] != keys[i]);
  assert_true(keys[key_count - 1] >> 51 == 0); /* where the number of a snippet goes */
}

/** Every variant has one tile, its own, and every template's source names it. */
static void test_registry(void **state) {
  (void)state;
  for (size_t i = 0; i < ap_families[AP_FAMILY_ATTENTION]->tiles->count; ++i) {
    ap_tile_row row;
    ap_tile_row_read(AP_FAMILY_ATTENTION, i, &row);
    ap_variant variant = row.variant;
    ap_tile tile;
    if (variant.axis[AP_ATTENTION_DTYPE] == AP_ANY)
      variant.axis[AP_ATTENTION_DTYPE] = ATTNPRESS_BF16;
    if (variant.axis[AP_ATTENTION_SPLIT] == AP_ANY)
      variant.axis[AP_ATTENTION_SPLIT] = 1;
    /* Few rows name these. */
    const int32_t sequences = variant.axis[AP_ATTENTION_SEQUENCES];
    const int32_t without_alibi = variant.axis[AP_ATTENTION_ALIBI] == 0;
    const int32_t named = variant.axis[AP_ATTENTION_SOFTCAP];
    const int32_t capped = named == AP_ANY ? without_alibi : named;
    without_features(&variant);
    variant.axis[AP_ATTENTION_SOFTCAP] = row.tile_class == 1 && capped;
    variant.axis[AP_ATTENTION_ALIBI] = row.tile_class == 1 && !capped && !without_alibi;
    variant.axis[AP_ATTENTION_DROPOUT] = row.tile_class == 2 || row.tile_class == 4;
    variant.axis[AP_ATTENTION_BIAS] = row.tile_class == 3 || row.tile_class == 4
                                          ? AP_ATTENTION_BIAS_BF16
                                      : row.tile_class >= 5 ? AP_ATTENTION_BIAS_FP32
                                                            : AP_ATTENTION_BIAS_NONE;
    if (sequences != AP_ANY)
      variant.axis[AP_ATTENTION_SEQUENCES] = sequences;
    else if (row.tile_class == 6)
      variant.axis[AP_ATTENTION_SEQUENCES] = AP_ATTENTION_SEQUENCES_RAGGED;
    assert_ok(ap_find_tile(&variant, row.target, &tile));
    assert_memory_equal(&tile, &row.tile, sizeof tile);
    assert_ok(ap_find_tile(&variant, "sm_1", &tile)); /* a target without rows of its own */
    if (row.target == NULL)
      assert_memory_equal(&tile, &row.tile, sizeof tile);
  }
  for (size_t i = 1; i < ap_default_set_count; ++i) {
    const int order = strcmp(ap_default_set[i - 1].stem, ap_default_set[i].stem);
    assert_true(order < 0 ||
                (order == 0 && strcmp(ap_default_set[i - 1].target, ap_default_set[i].target) < 0));
  }
  for (size_t i = 0; i < ap_default_set_count; ++i) {
    ap_variant variant;
    assert_ok(ap_variant_parse(ap_default_set[i].stem, &variant));
    assert_non_null(ap_find_target(ap_default_set[i].target));
  }
  for (size_t i = 0; i < ap_prebuilt_cubins_count; ++i) {
    const ap_cubin *row = &ap_prebuilt_cubins[i];
    assert_ptr_equal(ap_find_prebuilt(row->stem, row->tile_name, row->target), row);
    /* Parameters of layer norm's wide rows fill the registers. */
    assert_in_range(row->spill_bytes, 0, strstr(row->stem, "_wide_") != NULL ? 32 : 0);
  }
  assert_null(ap_find_prebuilt("flash_fwd_hdim64_fp16_sm80", "no such tile", "sm_80"));
}

/** A variant with any axis out of its domain has no tile, whatever its key would be. */
static void test_no_tile(void **state) {
  (void)state;
  static const int32_t wrong[] = {-1,       99, 7, 12, 1 << 10, 64 + (1 << 10), 128 + (1 << 11),
                                  INT32_MIN};
  const ap_variant legal =
      VARIANT(AP_ATTENTION_PASS_FWD, 0, 64, 64, ATTNPRESS_FP16, ATTNPRESS_FULL, 0, 80);
  for (int32_t axis = 0; axis < AP_ATTENTION_AXIS_COUNT; ++axis)
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
      ap_variant variant = legal;
      ap_tile tile;
      variant.axis[axis] = wrong[i];
      assert_false(ap_variant_is_legal(&variant));
      if (axis == AP_ATTENTION_SPLIT || axis == AP_ATTENTION_DTYPE)
        continue; /* the row leaves them open */
      assert_int_equal(ap_find_tile(&variant, NULL, &tile), ATTNPRESS_INVALID_ARGUMENT);
    }
}

/** What is remembered of legality is right, whatever was asked between: of all variants of layer norm, which
 * are many times what is remembered, legal or not, each twice. */
static void test_remembered_legality(void **state) {
  (void)state;
  const ap_axis *axes = ap_families[AP_FAMILY_LAYERNORM]->axes;
  ap_variant v = {.family = AP_FAMILY_LAYERNORM};
  int32_t place[AP_AXES_MAX] = {0}, axis = 0;
  int legal = 0, all = 0;
  while (axis < AP_LAYERNORM_AXIS_COUNT) {
    for (axis = 0; axis < AP_LAYERNORM_AXIS_COUNT; ++axis)
      v.axis[axis] = axes[axis].domain.values[place[axis]];
    const int is_legal = ap_variant_check(&v) == ATTNPRESS_OK;
    assert_int_equal(ap_variant_is_legal(&v), is_legal);
    assert_int_equal(ap_variant_is_legal(&v), is_legal);
    legal += is_legal;
    ++all;
    for (axis = 0; axis < AP_LAYERNORM_AXIS_COUNT && ++place[axis] == axes[axis].domain.count;
         ++axis)
      place[axis] = 0;
  }
  assert_true(legal > 1000 && legal < all);
}

/** Time that this thread has run: a loaded machine does not count. */
static double spent_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/** The least time of three, as caches are lost to other programs now and then. */
static double unpack_ms(const ap_cubin *row, unsigned char *cubin) {
  double least_ms = 0;
  for (int i = 0; i < 3; ++i) {
    const double begin = spent_ms();
    assert_true(ap_unpack_prebuilt(row, cubin));
    const double ms = spent_ms() - begin;
    least_ms = i == 0 || ms < least_ms ? ms : least_ms;
  }
  return least_ms;
}

/** Each linked cubin is whole, is what its row says, and is unpacked in a fraction of the 1 ms that
 * loading one may take; all of them are within the 10 MB that the library may grow by. */
static void test_linked_cubins(void **state) {
  (void)state;
  size_t stored = 0;
  double total_ms = 0;
  for (size_t i = 0; i < ap_prebuilt_cubins_count; ++i) {
    const ap_cubin *row = &ap_prebuilt_cubins[i];
    unsigned char *cubin = test_malloc(row->size);
    total_ms += unpack_ms(row, cubin);
    int32_t registers, local_bytes;
    ap_cubin_resources(cubin, row->size, row->stem, &registers, &local_bytes);
    assert_int_equal(registers, row->registers);
    assert_int_equal(local_bytes, row->spill_bytes);
    stored += row->stored_size;

    /* a frame that is cut off, or that holds another size than the row says, is seen */
    ap_cubin wrong = *row;
    wrong.stored_size -= 8;
    assert_false(ap_unpack_prebuilt(&wrong, cubin));
    wrong = *row;
    wrong.size -= 1;
    assert_false(ap_unpack_prebuilt(&wrong, cubin));
    test_free(cubin);
  }
  assert_true(stored <= 10 * 1000 * 1000);
  if (ap_prebuilt_cubins_count == 0)
    return;
  const double mean_ms = total_ms / (double)ap_prebuilt_cubins_count;
  print_message("%zu cubins in %zu bytes, unpacked in %.3f ms each\n", ap_prebuilt_cubins_count,
                stored, mean_ms);
  assert_true(mean_ms < 0.5);
}

static void test_source(void **state) {
  (void)state;
  char *source = NULL;
  assert_ok(attnpress_render_source("flash_fwd_hdim72_bf16_causal_sm80", NULL, &source));
  assert_non_null(strstr(source, "flash_fwd_hdim72_bf16_causal_sm80"));
  attnpress_free_source(source);
  attnpress_free_source(NULL);
  assert_int_equal(attnpress_render_source("flash_fwd_hdim72", NULL, &source),
                   ATTNPRESS_INVALID_ARGUMENT);
  assert_null(source);
  assert_int_equal(attnpress_render_source("flash_fwd_hdim72_bf16_sm80", NULL, NULL),
                   ATTNPRESS_INVALID_ARGUMENT);
}

/** A target may have a tile of its own, and then the source is another: what it prints is what was
 * compiled for that target. */
static void test_source_of_target(void **state) {
  (void)state;
  char *own = NULL, *other = NULL;
  assert_ok(attnpress_render_source("flash_fwd_hdim192_bf16_sm80", NULL, &own));
  assert_ok(attnpress_render_source("flash_fwd_hdim192_bf16_sm80", "sm_90", &other));
  assert_non_null(strstr(own, "m128n96w4x2s2k192v96c"));
  assert_non_null(strstr(other, "m128n128w4x2s2k192v128c"));
  attnpress_free_source(other);
  assert_ok(attnpress_render_source("flash_fwd_hdim192_bf16_sm80", "sm_80", &other));
  assert_string_equal(own, other);
  attnpress_free_source(other);
  attnpress_free_source(own);
  assert_int_equal(attnpress_render_source("flash_fwd_hdim192_bf16_sm90", "sm_90", &other),
                   ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(attnpress_render_source("flash_fwd_hdim192_bf16_sm90", "sm_9", &other),
                   ATTNPRESS_INVALID_ARGUMENT);
  assert_null(other);
}

static void test_status(void **state) {
  (void)state;
#define CHECK(name, value, sentence)                                                               \
  assert_int_equal(ATTNPRESS_##name, value);                                                       \
  assert_string_equal(attnpress_status_string(value), sentence);
  ATTNPRESS_STATUS_MAP(CHECK)
#undef CHECK
  assert_non_null(attnpress_status_string(-1));
  assert_non_null(attnpress_status_string(1000));
  assert_int_equal(attnpress_version(), ATTNPRESS_VERSION);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_inverses),
      cmocka_unit_test(test_stems),
      cmocka_unit_test(test_wrong_stems),
      cmocka_unit_test(test_tile_names),
      cmocka_unit_test(test_keys),
      cmocka_unit_test(test_registry),
      cmocka_unit_test(test_no_tile),
      cmocka_unit_test(test_source),
      cmocka_unit_test(test_source_of_target),
      cmocka_unit_test(test_linked_cubins),
      cmocka_unit_test(test_remembered_legality),
      cmocka_unit_test(test_status),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
