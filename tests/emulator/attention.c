/* Attention under the emulator: the tile of a kernel from its source, and the table of shapes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "family.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- The tile -------------------------------------------------------------------------------- */

/* A combine kernel names its warps and columns; each of its blocks has one row. */
static void read_tile(const char *source, const ap_variant *variant, ap_tile *tile) {
  int32_t *field = tile->field;
  memset(tile, 0, sizeof *tile);
  field[AP_ATTENTION_TILE_WARPS_N] = field[AP_ATTENTION_TILE_WARPS_K] = 1;
  if (variant->axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD_COMBINE) {
    field[AP_ATTENTION_TILE_BLOCK_M] = 1;
    field[AP_ATTENTION_TILE_BLOCK_N] = source_constant(source, "COLUMNS");
    field[AP_ATTENTION_TILE_WARPS_M] = source_constant(source, "WARPS");
    tile->threads = 32 * field[AP_ATTENTION_TILE_WARPS_M];
    return;
  }
  field[AP_ATTENTION_TILE_BLOCK_M] = source_constant(source, "BLOCK_M");
  field[AP_ATTENTION_TILE_BLOCK_N] = source_constant(source, "BLOCK_N");
  tile->smem_bytes = source_constant(source, "SMEM_BYTES");
  if (variant->axis[AP_ATTENTION_ARCH] == 90) { /* a consumer for each 64 rows, and the producer */
    field[AP_ATTENTION_TILE_WARPS_M] = field[AP_ATTENTION_TILE_BLOCK_M] / 16;
    field[AP_ATTENTION_TILE_PRODUCER] = 1;
  } else {
    field[AP_ATTENTION_TILE_WARPS_M] = source_constant(source, "WARPS_M");
    field[AP_ATTENTION_TILE_WARPS_N] = source_constant(source, "WARPS_N");
    field[AP_ATTENTION_TILE_WARPS_K] = source_constant(source, "WARPS_K");
  }
  tile->threads = 32 * field[AP_ATTENTION_TILE_WARPS_M] * field[AP_ATTENTION_TILE_WARPS_N] *
                      field[AP_ATTENTION_TILE_WARPS_K] +
                  AP_ATTENTION_PRODUCER_THREADS * field[AP_ATTENTION_TILE_PRODUCER];
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* Lengths are in tiles and what is added to them. The batch grows until the output has the number
 * of elements that the criterion wants. */
typedef struct shape_row {
  struct {
    int tiles, more;
  } q, k;
  int heads_kv, group, packed, splits;
  layout layout;
  int without_lse;
  float scale;
  int blocks, section_heads, group_sections; /* of sm90 kernels */
} shape_row;

static const shape_row shape_rows[] = {
    /* queries, keys, key heads, group, packed, splits, layout, without lse, scale, blocks, heads of
     * a section, sections of a group */
    {{0, 0}, {1, 0}, 1, 1, 0, 2, LAYOUT_BSHD, 0, 0.0f, 0, 0, 0},
    {{0, 3}, {0, 0}, 2, 1, 0, 2, LAYOUT_BHSD, 0, 0.0f, 1, 1, 1},
    {{0, 1}, {0, 1}, 1, 1, 0, 1, LAYOUT_BSHD, 0, 0.0f, 3, 2, 0},
    {{0, 1}, {2, 5}, 1, 4, 1, 2, LAYOUT_BSHD, 0, 0.2f, 2, 1, 1},
    {{1, -1}, {1, -1}, 1, 1, 0, 1, LAYOUT_BSHD, 0, 0.0f, 5, 0, 0},
    {{1, 0}, {1, 0}, 2, 1, 0, 1, LAYOUT_BHSD, 0, 0.0f, 1, 2, 1},
    {{1, 1}, {1, 1}, 1, 4, 0, 2, LAYOUT_GAPS, 0, 0.0f, 3, 1, 2},
    {{0, 2}, {3, 1}, 2, 7, 1, 3, LAYOUT_GAPS, 0, 0.0f, 3, 3, 1},
    {{0, 23}, {2, 0}, 1, 7, 1, 2, LAYOUT_BHSD, 1, 0.0f, 0, 2, 0},
    {{1, 9}, {1, -13}, 1, 1, 0, 5, LAYOUT_BSHD, 0, 0.05f, 9, 4, 1},
    {{2, 5}, {0, 3}, 1, 1, 0, 1, LAYOUT_BHSD, 0, 0.0f, 4, 1, 1},
    {{2, -3}, {4, 7}, 1, 1, 0, 3, LAYOUT_GAPS, 0, 1.0f, 2, 0, 0},
    {{1, 3}, {3, -1}, 2, 4, 0, 7, LAYOUT_BSHD, 0, 0.0f, 3, 5, 1},
    {{1, 2}, {2, -3}, 2, 1, 0, 2, LAYOUT_FAR_ROWS, 0, 0.0f, 1, 2, 1},
    {{0, 37}, {1, 9}, 2, 4, 1, 2, LAYOUT_FAR_HEADS, 0, 0.0f, 2, 3, 2},
};

/* For combine kernels: their rows, and splits below and above the lanes of a warp. */
static const shape combine_shapes[] = {
    {.batch = 2, .seqlen_q = 5, .heads_kv = 3, .group = 4, .splits = 1, .layout = LAYOUT_BSHD},
    {.batch = 1, .seqlen_q = 64, .heads_kv = 1, .group = 1, .splits = 2, .layout = LAYOUT_GAPS},
    {.batch = 3, .seqlen_q = 1, .heads_kv = 24, .group = 1, .splits = 7, .layout = LAYOUT_BHSD},
    {.batch = 1, .seqlen_q = 33, .heads_kv = 2, .group = 1, .splits = 32, .layout = LAYOUT_BSHD},
    {.batch = 1, .seqlen_q = 67, .heads_kv = 1, .group = 1, .splits = 33, .layout = LAYOUT_BHSD},
    {.batch = 2,
     .seqlen_q = 17,
     .heads_kv = 2,
     .group = 1,
     .splits = 71,
     .layout = LAYOUT_GAPS,
     .without_lse = 1},
    {.batch = 2, .seqlen_q = 9, .heads_kv = 4, .group = 1, .splits = 3, .layout = LAYOUT_FAR_ROWS},
    {.batch = 2, .seqlen_q = 9, .heads_kv = 4, .group = 1, .splits = 3, .layout = LAYOUT_FAR_HEADS},
};

enum { FAR_ROWS_MAX = 250 };

static shape make_shape(const shape_row *row, const kernel *k) {
  shape s = {
      .batch = 1,
      .seqlen_q = row->q.tiles * k->tile.field[AP_ATTENTION_TILE_BLOCK_M] + row->q.more,
      .seqlen_k = row->k.tiles * k->tile.field[AP_ATTENTION_TILE_BLOCK_N] + row->k.more,
      .heads_kv = row->heads_kv,
      .group = row->group,
      .packed = row->packed,
      .splits = k->variant.axis[AP_ATTENTION_SPLIT] ? row->splits : 0,
      .layout = row->layout,
      .without_lse = row->without_lse,
      .scale = row->scale,
      .blocks = row->blocks,
      .section_heads = row->section_heads,
      .group_sections = row->group_sections,
  };
  /* Strides of 2^40 bytes and more no tensor map can describe. */
  if (k->variant.axis[AP_ATTENTION_ARCH] == 90 && s.layout == LAYOUT_FAR_ROWS &&
      s.seqlen_k > FAR_ROWS_MAX)
    s.seqlen_k = FAR_ROWS_MAX;
  const int elements = s.seqlen_q * s.heads_kv * s.group * k->variant.axis[AP_ATTENTION_HDIM_V];
  if (elements > 0 && elements < REFERENCE_MIN_ELEMENTS)
    s.batch = (REFERENCE_MIN_ELEMENTS + elements - 1) / elements;
  return s;
}

static void print_failure(FILE *out, const kernel *k, const shape *s, const verdict *v) {
  char text[256];
  print_shape(s, text, sizeof text);
  fprintf(out, "FAILED %s\n  shape: %s\n  %s\n", k->stem, text, v->report);
}

/* With the kernel that adds up the parts, of a split one. */
static int run_all_shapes(const kernel *k, const kernel *combine, FILE *out, int *shapes) {
  static verdict v;
  if (k->variant.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD_COMBINE) {
    for (int i = 0; i < COUNT(combine_shapes); ++i, ++*shapes) {
      v = (verdict){0};
      run_combine(k, &combine_shapes[i], 1000u * (unsigned)i, &v);
      if (!v.passed) {
        print_failure(out, k, &combine_shapes[i], &v);
        return 1;
      }
    }
    return 0;
  }
  for (int i = 0; i < COUNT(shape_rows); ++i, ++*shapes) {
    const shape s = make_shape(&shape_rows[i], k);
    v = (verdict){0};
    run_forward(k, combine, &s, 1000u * (unsigned)i, &v);
    if (!v.passed) {
      print_failure(out, k, &s, &v);
      return 1;
    }
  }
  return 0;
}

/* That adds up the parts of a split kernel. */
static int open_combine(kernel *combine, const kernel *k, char *report) {
  const ap_variant variant = {.family = AP_FAMILY_ATTENTION,
                              .axis = {[AP_ATTENTION_PASS] = AP_ATTENTION_PASS_FWD_COMBINE,
                                       [AP_ATTENTION_HDIM] = k->variant.axis[AP_ATTENTION_HDIM_V],
                                       [AP_ATTENTION_HDIM_V] = k->variant.axis[AP_ATTENTION_HDIM_V],
                                       [AP_ATTENTION_DTYPE] = k->variant.axis[AP_ATTENTION_DTYPE],
                                       [AP_ATTENTION_ARCH] = AP_ATTENTION_COMBINE_ARCH}};
  char stem[AP_STEM_MAX];
  if (ap_variant_print(&variant, stem) != ATTNPRESS_OK)
    return -1;
  return kernel_find(combine, stem, report);
}

static int run_shapes(const kernel *k, FILE *out, int *shapes) {
  static char report[EMULATED_REPORT_BYTES];
  kernel combine = {0};
  int failed = 0;
  if (k->variant.axis[AP_ATTENTION_SPLIT] && open_combine(&combine, k, report) != 0) {
    fprintf(out, "FAILED %s\n  %s\n", k->stem, report);
    failed = 1;
  }
  if (!failed)
    failed = run_all_shapes(k, &combine, out, shapes);
  kernel_close(&combine);
  return failed;
}

const emulated_family emulated_attention = {read_tile, run_shapes};
