/* Attention under the emulator: the tile of a kernel from its source, and the table of shapes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backward.h"
#include "family.h"
#include "ragged.h"

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
  if (variant->axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD_MAP ||
      variant->axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD_SCHEDULE) {
    tile->threads = 32 * source_constant(source, "WARPS");
    return;
  }
  field[AP_ATTENTION_TILE_BLOCK_M] = source_constant(source, "BLOCK_M");
  field[AP_ATTENTION_TILE_BLOCK_N] = source_constant(source, "BLOCK_N");
  tile->smem_bytes = source_constant(source, "SMEM_BYTES");
  if (variant->axis[AP_ATTENTION_SHARED])
    field[AP_ATTENTION_TILE_STAGES] = source_constant(source, "BLOCKS");
  if (variant->axis[AP_ATTENTION_ARCH] == 90) { /* a consumer for each 64 rows, or some of keys or
                                                  columns, and the producer */
    const int backward = variant->axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_BWD ||
                         variant->axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_BWD_DKV;
    field[AP_ATTENTION_TILE_WARPS_M] = !backward ? (field[AP_ATTENTION_TILE_BLOCK_M] + 63) / 64 * 4
                                       : source_constant(source, "CONSUMERS") == 3 ? 12
                                                                                   : 8;
    field[AP_ATTENTION_TILE_PRODUCER] = 1;
    if (variant->axis[AP_ATTENTION_HDIM_V] > AP_ATTENTION_SM90_HDIM_MAX) {
      field[AP_ATTENTION_TILE_BLOCK_M] = AP_ATTENTION_WARPGROUP_ROWS;
      field[AP_ATTENTION_TILE_WARPS_M] = AP_ATTENTION_WARPGROUP_ROWS / 16;
      field[AP_ATTENTION_TILE_WARPS_N] = 2; /* consumers that share the columns */
    }
    if (variant->axis[AP_ATTENTION_DECODE] && !variant->axis[AP_ATTENTION_SHARED] &&
        !variant->axis[AP_ATTENTION_RUNS] &&
        variant->axis[AP_ATTENTION_SEQUENCES] == AP_ATTENTION_SEQUENCES_PAGED)
      field[AP_ATTENTION_TILE_WARPS_N] = /* warpgroups that gather */
          1 + source_constant(source, "GATHER_PARTS") / 2;
  } else {
    field[AP_ATTENTION_TILE_WARPS_M] = source_constant(source, "WARPS_M");
    field[AP_ATTENTION_TILE_WARPS_N] = source_constant(source, "WARPS_N");
    field[AP_ATTENTION_TILE_WARPS_K] = source_constant(source, "WARPS_K");
  }
  if (variant->axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_BWD_DBIAS)
    field[AP_ATTENTION_TILE_WARPS_K] = 1;
  if (variant->axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_BWD_DELTA ||
      variant->axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_BWD_CONVERT) {
    field[AP_ATTENTION_TILE_WARPS_N] = field[AP_ATTENTION_TILE_WARPS_K] = 1;
    field[AP_ATTENTION_TILE_WARPS_M] = source_constant(source, "NUM_THREADS") / 32;
  }
  if (variant->axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_BWD_SINKS) { /* it takes all rows */
    field[AP_ATTENTION_TILE_BLOCK_M] = 64;
    field[AP_ATTENTION_TILE_WARPS_M] = source_constant(source, "NUM_WARPS");
    field[AP_ATTENTION_TILE_WARPS_N] = field[AP_ATTENTION_TILE_WARPS_K] = 1;
  }
  tile->threads = 32 * field[AP_ATTENTION_TILE_WARPS_M] * field[AP_ATTENTION_TILE_WARPS_N] *
                      field[AP_ATTENTION_TILE_WARPS_K] +
                  AP_ATTENTION_PRODUCER_THREADS * field[AP_ATTENTION_TILE_PRODUCER];
  if (source_constant(source, "DQ_REGISTERS") > 0) /* a warpgroup of its own for dQ */
    tile->threads += 128;
  if (variant->axis[AP_ATTENTION_SHARED])
    tile->threads = 32 * source_constant(source, "WARPS");
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

static const char map_stem[] = "flash_fwd_map_hdim8_bf16_sm80";

static const shape_row shape_rows[] = {
    /* queries, keys, key heads, group, packed (1: all of a group), splits, layout, without lse,
     * scale, blocks, heads of a section, sections of a group */
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
    {{1, -3}, {2, 5}, 1, 5, 2, 2, LAYOUT_BSHD, 0, 0.0f, 3, 2, 1},
    {{0, 19}, {2, -1}, 1, 71, 8, 3, LAYOUT_BHSD, 0, 0.0f, 5, 4, 0},
    {{0, 50}, {1, 3}, 2, 6, 3, 2, LAYOUT_GAPS, 0, 0.0f, 2, 3, 1},
};

/* For combine kernels: their rows, and splits below and above the lanes of a warp. */
static const shape combine_shapes[] = {
    {.batch = 2, .seqlen_q = 5, .heads_kv = 3, .group = 4, .splits = 1, .layout = LAYOUT_BSHD},
    {.batch = 1, .seqlen_q = 64, .heads_kv = 1, .group = 1, .splits = 2, .layout = LAYOUT_GAPS},
    {.batch = 3, .seqlen_q = 1, .heads_kv = 24, .group = 1, .splits = 7, .layout = LAYOUT_BHSD},
    {.batch = 3, .seqlen_q = 2, .heads_kv = 5, .group = 2, .splits = 16, .layout = LAYOUT_BSHD},
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

/* ---- Scores ---------------------------------------------------------------------------------- */

/* Keys of a window or a chunk: tiles of keys and what is added to them, or all of them. */
typedef struct extent {
  int tiles, more;
} extent;
#define ALL                                                                                        \
  { 0, -1 }

static const struct window_row {
  extent left, right, chunk;
  int top_left;
} window_rows[] = {
    {{0, 3}, {0, 0}, {0, 0}, 0}, {{0, 0}, {0, 0}, {0, 0}, 0},    {ALL, {0, 0}, {0, 0}, 0},
    {{0, 1}, {0, 5}, {0, 0}, 0}, {{1, 0}, {0, 0}, {0, 0}, 0},    {ALL, ALL, {0, 0}, 0},
    {{0, 17}, ALL, {0, 0}, 0},   {{1, -1}, {1, 1}, {0, 0}, 0},   {ALL, ALL, {0, 7}, 0},
    {ALL, {0, 0}, {1, 5}, 0},    {ALL, {0, 0}, {0, 0}, 1},       {{0, 20}, {0, 3}, {0, 0}, 1},
    {{2, 1}, {0, 9}, {0, 0}, 0}, {{1000, 0}, {0, 0}, {0, 0}, 0}, {ALL, {0, 2}, {0, 32}, 1},
};

/* Further shapes of kernels with a window, whose bounds are narrow against the rows of a tile: each
 * warp and each consumer has key blocks at either end that others of its tile do not see, and work
 * that follows. */
static const struct {
  shape_row shape;
  struct window_row window;
} window_shapes[] = {
    {{{2, 5}, {9, 3}, 1, 1, 0, 2, LAYOUT_BSHD, 0, 0.0f, 1, 0, 0}, {{0, 10}, {0, 0}, {0, 0}, 0}},
    {{{0, 77}, {6, 1}, 1, 4, 1, 3, LAYOUT_BHSD, 0, 0.0f, 1, 1, 1}, {{0, 30}, {0, 5}, {0, 0}, 0}},
    {{{2, 1}, {5, 0}, 1, 2, 0, 2, LAYOUT_BSHD, 0, 0.0f, 1, 2, 0}, {ALL, ALL, {0, 33}, 1}},
    {{{1, 9}, {0, 37}, 1, 2, 0, 1, LAYOUT_GAPS, 0, 0.0f, 2, 0, 0}, {ALL, ALL, {0, 7}, 0}},
};

/* The last one of kernels with a snippet's mask: the map of a row block has two words. */
static const shape_row map_shape = {{2, 5}, {17, 3}, 1, 1, 0, 2, LAYOUT_BSHD, 0, 0.0f, 1, 0, 0};

/* How many shapes a kernel has, and which window shape number `i` is; -1: none. */
static int count_shapes(const kernel *k) {
  return COUNT(shape_rows) +
         (k->variant.axis[AP_ATTENTION_MASK] == ATTNPRESS_WINDOW) * COUNT(window_shapes) +
         k->variant.axis[AP_ATTENTION_MOD_MASK];
}

static int window_shape_of(const kernel *k, int i) {
  const int n = i - COUNT(shape_rows);
  return k->variant.axis[AP_ATTENTION_MASK] == ATTNPRESS_WINDOW && n < COUNT(window_shapes) ? n
                                                                                            : -1;
}

static int keys_of(extent e, const kernel *k) {
  return e.tiles * k->tile.field[AP_ATTENTION_TILE_BLOCK_N] + e.more;
}

/* What shape number `i` does to its scores: everything takes turns, from shape to shape and from
 * kernel to kernel. Steps that have no factor in common with a table's length meet all its rows. */
static score_shape make_scores(const kernel *k, int i) {
  static const float caps[] = {1.0f, 30.0f, 3.0f, 0.5f}, rates[] = {0.1f, 0.5f, 0.9f, 0.0f, 0.3f};
  const unsigned turn = hash_of_name(k->stem) + (unsigned)i;
  const int of_window = window_shape_of(k, i);
  const struct window_row *w = of_window < 0
                                   ? &window_rows[(turn + 6u * (unsigned)i) % COUNT(window_rows)]
                                   : &window_shapes[of_window].window;
  return (score_shape){.left = keys_of(w->left, k),
                       .right = keys_of(w->right, k),
                       .chunk = keys_of(w->chunk, k),
                       .top_left = w->top_left,
                       .softcap = caps[turn % COUNT(caps)],
                       .slopes = (slopes_layout)(turn % SLOPES_LAYOUTS),
                       .bias = (bias_layout)((turn + (unsigned)i) % BIAS_LAYOUTS),
                       .sinks = (int)(turn % 4), /* 0: none */
                       .sinks_stride = (int)(turn % 3),
                       .dropout = rates[turn % COUNT(rates)],
                       .seed_in_memory = i % 2};
}

enum { FAR_ROWS_MAX = 250 };

/* Whether heads may share a tile: of dropout, and of a bias that sm90 copies, rows are positions. */
static int may_pack(const ap_variant *v) {
  const int32_t bias = v->axis[AP_ATTENTION_BIAS];
  return !v->axis[AP_ATTENTION_DROPOUT] &&
         (v->axis[AP_ATTENTION_ARCH] != 90 || bias == AP_ATTENTION_BIAS_NONE ||
          bias == AP_ATTENTION_BIAS_FP32);
}

/* Heads that share a tile, of a row that says so: all of a group where a kernel knows no parts. */
static int packed_heads(const shape_row *row, const ap_variant *v) {
  if (row->packed == 0 || !may_pack(v))
    return 0;
  const int parts = v->axis[AP_ATTENTION_ARCH] == 90 &&
                    v->axis[AP_ATTENTION_HDIM_V] <= AP_ATTENTION_SM90_HDIM_MAX &&
                    !v->axis[AP_ATTENTION_ALIBI] && v->axis[AP_ATTENTION_BIAS] == 0 &&
                    !v->axis[AP_ATTENTION_MOD_SCORE] && !v->axis[AP_ATTENTION_MOD_MASK];
  const int rows =
      v->axis[AP_ATTENTION_DECODE] ? AP_ATTENTION_FEW_ROWS : AP_ATTENTION_WARPGROUP_ROWS;
  if (row->packed > 1 && parts)
    return row->packed <= rows ? row->packed : 0;
  return row->group <= rows || v->axis[AP_ATTENTION_ARCH] != 90 ? row->group : 0;
}

/* Of a row; or, in one of several key blocks under ALiBi, so great that keys count from which it takes
 * more powers of two than fp32 has. */
static float scale_of_row(int i, const shape_row *row, const ap_variant *v) {
  enum { GREAT_SCORES = 12 };
  const int32_t *axis = v->axis;
  return i == GREAT_SCORES && axis[AP_ATTENTION_ALIBI] && !axis[AP_ATTENTION_SOFTCAP]
             ? 1000.0f / sqrtf((float)axis[AP_ATTENTION_HDIM])
             : row->scale;
}

static shape make_shape(int i, const kernel *k) {
  static const float below[] = {0, 0, 20, 0, 0, 150, 0, 2};
  const int of_window = window_shape_of(k, i);
  const shape_row *row = i < COUNT(shape_rows) ? &shape_rows[i]
                         : of_window >= 0      ? &window_shapes[of_window].shape
                                               : &map_shape;
  shape s = {
      .batch = 1,
      .seqlen_q = row->q.tiles * k->tile.field[AP_ATTENTION_TILE_BLOCK_M] + row->q.more,
      .seqlen_k = row->k.tiles * k->tile.field[AP_ATTENTION_TILE_BLOCK_N] + row->k.more,
      .heads_kv = row->heads_kv,
      .group = row->group,
      .packed = packed_heads(row, &k->variant),
      .splits = k->variant.axis[AP_ATTENTION_SPLIT] ? row->splits : 0,
      .layout = row->layout,
      .without_lse = row->without_lse,
      .scale = scale_of_row(i, row, &k->variant),
      .below = below[i % COUNT(below)],
      .blocks = row->blocks,
      .section_heads = row->section_heads,
      .group_sections = row->group_sections,
      .scores = make_scores(k, i),
  };
  /* Strides of 2^40 bytes and more no tensor map can describe. */
  if (k->tile.field[AP_ATTENTION_TILE_PRODUCER] && s.layout == LAYOUT_FAR_ROWS &&
      s.seqlen_k > FAR_ROWS_MAX)
    s.seqlen_k = FAR_ROWS_MAX;
  const int elements = s.seqlen_q * s.heads_kv * s.group * k->variant.axis[AP_ATTENTION_HDIM_V];
  if (elements > 0 && elements < REFERENCE_MIN_ELEMENTS)
    s.batch = (REFERENCE_MIN_ELEMENTS + elements - 1) / elements;
  return s;
}

static void print_failure(FILE *out, const kernel *k, const shape *s, const verdict *v) {
  char text[512];
  print_shape(&k->variant, s, text, sizeof text);
  fprintf(out, "FAILED %s\n  shape: %s\n  %s\n", k->stem, text, v->report);
}

/* A split kernel whose parts a combine kernel adds up; of short queries, `decode`, by runs; of few
 * rows. */
static int open_split(kernel *split, const kernel *combine, int decode, int runs, int few, int arch,
                      char *report) {
  ap_variant variant = combine->variant;
  char stem[AP_STEM_MAX];
  variant.axis[AP_ATTENTION_PASS] = AP_ATTENTION_PASS_FWD;
  variant.axis[AP_ATTENTION_SPLIT] = 1;
  variant.axis[AP_ATTENTION_FEW] = few;
  variant.axis[AP_ATTENTION_DECODE] = decode;
  variant.axis[AP_ATTENTION_RUNS] = runs;
  variant.axis[AP_ATTENTION_ARCH] = arch;
  return ap_variant_print(&variant, stem) == ATTNPRESS_OK ? kernel_find(split, stem, report) : -1;
}

/* Head dims of which there are kernels of runs. */
static int has_runs(int hdim, int arch) {
  return hdim == 64 || (arch == 80 && (hdim == 128 || hdim == 256));
}

/* Of sequences of their own lengths. A combine kernel runs behind a split one. */
static int run_ragged(const kernel *k, const companions *others, FILE *out, int *shapes) {
  static char report[EMULATED_REPORT_BYTES];
  score_shape scores[COUNT(shape_rows)];
  kernel split = {0};
  for (int i = 0; i < COUNT(shape_rows); ++i)
    scores[i] = make_scores(k, i);
  if (k->variant.axis[AP_ATTENTION_PASS] != AP_ATTENTION_PASS_FWD_COMBINE)
    return run_ragged_shapes(k, others, scores, out, shapes);
  const struct {
    int decode, runs, few, arch;
  } splits[] = {{1, 0, 0, 80}, {1, 1, 0, 80}, {1, 1, 0, 90},
                {0, 0, 0, 80}, {0, 0, 1, 90}, {0, 0, 0, 90}};
  const int few = k->variant.axis[AP_ATTENTION_FEW]; /* of splits at fixed places of 9.0's alone */
  for (int i = few ? COUNT(splits) - 2 : 0, failed; i < COUNT(splits); ++i) {
    companions others = {0};
    if (splits[i].arch == 90 && k->variant.axis[AP_ATTENTION_HDIM] > AP_ATTENTION_SM90_HDIM_MAX)
      continue;
    if (splits[i].runs && !has_runs(k->variant.axis[AP_ATTENTION_HDIM], splits[i].arch))
      continue;
    failed = open_split(&split, k, splits[i].decode, splits[i].runs, splits[i].few, splits[i].arch,
                        report) != 0 ||
             (needs_schedule(&split.variant) &&
              kernel_find(&others.schedule, schedule_stem(&split.variant), report) != 0);
    companions adds = {.schedule = others.schedule};
    *(few ? &adds.combine_few : &adds.combine) = *k;
    if (failed)
      fprintf(out, "FAILED %s\n  %s\n", k->stem, report);
    else
      failed = run_ragged_shapes(&split, &adds, scores, out, shapes) ||
               (splits[i].arch == 90 && !splits[i].runs &&
                run_many_splits(&split, &adds, scores, out, shapes));
    kernel_close(&split);
    companions_close(&others);
    if (failed)
      return 1;
  }
  return 0;
}

/* With the kernel that adds up the parts, of a split one. */
static int run_all_shapes(const kernel *k, const companions *others, FILE *out, int *shapes) {
  static verdict v;
  if (k->variant.axis[AP_ATTENTION_SEQUENCES] != AP_ATTENTION_SEQUENCES_DENSE)
    return run_ragged(k, others, out, shapes);
  if (k->variant.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD_COMBINE) {
    for (int n = 0; n < 2 * COUNT(combine_shapes); ++n, ++*shapes) {
      const int i = n / 2, by_groups = n % 2;
      shape s = combine_shapes[i];
      s.scores = make_scores(k, i);
      v = (verdict){0};
      run_combine(k, &s, by_groups, 1000u * (unsigned)i, &v);
      if (!v.passed) {
        print_failure(out, k, &s, &v);
        return 1;
      }
    }
    return 0;
  }
  for (int i = 0; i < count_shapes(k); ++i, ++*shapes) {
    const shape s = make_shape(i, k);
    v = (verdict){0};
    run_forward(k, others, &s, 1000u * (unsigned)i, &v);
    if (!v.passed) {
      print_failure(out, k, &s, &v);
      return 1;
    }
  }
  return 0;
}

int needs_map(const ap_variant *v) {
  return v->axis[AP_ATTENTION_MOD_MASK] &&
         v->axis[AP_ATTENTION_SEQUENCES] == AP_ATTENTION_SEQUENCES_DENSE;
}

int needs_schedule(const ap_variant *v) {
  return v->axis[AP_ATTENTION_ARCH] == 90 &&
         v->axis[AP_ATTENTION_SEQUENCES] != AP_ATTENTION_SEQUENCES_DENSE &&
         !v->axis[AP_ATTENTION_RUNS];
}

int combine_stem(const ap_variant *split, int few, char stem[AP_STEM_MAX]) {
  const ap_variant v = {.family = AP_FAMILY_ATTENTION,
                        .axis = {[AP_ATTENTION_PASS] = AP_ATTENTION_PASS_FWD_COMBINE,
                                 [AP_ATTENTION_HDIM] = split->axis[AP_ATTENTION_HDIM_V],
                                 [AP_ATTENTION_HDIM_V] = split->axis[AP_ATTENTION_HDIM_V],
                                 [AP_ATTENTION_DTYPE] = split->axis[AP_ATTENTION_DTYPE],
                                 [AP_ATTENTION_SEQUENCES] = split->axis[AP_ATTENTION_SEQUENCES] !=
                                                            AP_ATTENTION_SEQUENCES_DENSE,
                                 [AP_ATTENTION_FEW] = few,
                                 [AP_ATTENTION_ARCH] = AP_ATTENTION_COMBINE_ARCH}};
  return ap_variant_print(&v, stem) == ATTNPRESS_OK ? 0 : -1;
}

/* What a forward kernel is launched with. */
int companions_open(companions *c, const kernel *k, char *report) {
  char stem[AP_STEM_MAX];
  /* The snippet is the forward kernel's own. */
  if (needs_map(&k->variant) && c->map.module == NULL) {
    const int found = kernel_find_with_mod(&c->map, map_stem, k->mod, report);
    if (found != 0)
      return -1;
  }
  if (needs_schedule(&k->variant) &&
      kernel_find(&c->schedule, schedule_stem(&k->variant), report) != 0)
    return -1;
  if (!k->variant.axis[AP_ATTENTION_SPLIT])
    return 0;
  if (needs_schedule(&k->variant) &&
      (combine_stem(&k->variant, 1, stem) != 0 || kernel_find(&c->combine_few, stem, report) != 0))
    return -1;
  return combine_stem(&k->variant, 0, stem) == 0 ? kernel_find(&c->combine, stem, report) : -1;
}

void companions_close(companions *c) {
  kernel_close(&c->combine);
  kernel_close(&c->combine_few);
  kernel_close(&c->map);
  kernel_close(&c->schedule);
}

/* A schedule by the kernel that works through it. */
static int run_schedule_shapes(const kernel *schedule, FILE *out, int *shapes) {
  static const char *const made[] = {"flash_fwd_hdim64_bf16_causal_ragged_sm90",
                                     "flash_fwd_split_hdim40_bf16_window_ragged_sm90"};
  static const char *const ready[] = {"flash_fwd_hdim64_bf16_causal_ragged_ready_sm90",
                                      "flash_fwd_split_hdim40_bf16_window_ragged_ready_sm90"};
  const char *const *stems = schedule->variant.axis[AP_ATTENTION_READY] ? ready : made;
  static char report[EMULATED_REPORT_BYTES];
  int failed = run_schedule_alone(schedule, out, shapes);
  for (int i = 0; i < COUNT(made) && !failed; ++i) {
    kernel forward = {0};
    companions others = {0};
    if (kernel_find(&forward, stems[i], report) != 0 ||
        companions_open(&others, &forward, report) != 0) {
      fprintf(out, "FAILED %s\n  %s\n", schedule->stem, report);
      failed = 1;
    } else {
      companions by_it = others;
      by_it.schedule = *schedule;
      failed = run_all_shapes(&forward, &by_it, out, shapes);
    }
    companions_close(&others);
    kernel_close(&forward);
  }
  return failed;
}

/* A mask that is the same for all heads: the map has bits. */
static int run_known_shapes(const kernel *map, FILE *out, int *shapes) {
  static const char document[] = EMULATED_SOURCE_DIR "/python/attnpress/mods/document.mod";
  static char report[EMULATED_REPORT_BYTES];
  kernel forward = {0};
  companions others = {0};
  int failed = 1;
  if (kernel_open_again(&others.map, map, document, report) != 0 ||
      kernel_find_with_mod(&forward, "flash_fwd_hdim40_bf16_modmask_sm90", others.map.mod,
                           report) != 0)
    fprintf(out, "FAILED %s\n  %s\n", map->stem, report);
  else
    failed = run_all_shapes(&forward, &others, out, shapes);
  kernel_close(&forward);
  companions_close(&others);
  return failed;
}

/* A map kernel is seen by what a forward kernel makes of its map. */
static int run_map_shapes(const kernel *map, FILE *out, int *shapes) {
  static const char *const stems[] = {"flash_fwd_hdim40_fp16_causal_modscore_modmask_sm80",
                                      "flash_fwd_hdim64_bf16_window_modscore_modmask_sm90"};
  static char report[EMULATED_REPORT_BYTES];
  int failed = 0;
  for (int i = 0; i < COUNT(stems) && !failed; ++i) {
    kernel forward = {0};
    companions others = {.map = *map};
    if (kernel_find(&forward, stems[i], report) != 0) {
      fprintf(out, "FAILED %s\n  %s\n", stems[i], report);
      failed = 1;
    } else {
      failed = run_all_shapes(&forward, &others, out, shapes);
    }
    kernel_close(&forward);
  }
  return failed || run_known_shapes(map, out, shapes);
}

static int run_shapes(const kernel *k, FILE *out, int *shapes) {
  static char report[EMULATED_REPORT_BYTES];
  if (is_backward(k))
    return run_backward_shapes(k, out, shapes);
  if (k->variant.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD_MAP)
    return run_map_shapes(k, out, shapes);
  if (k->variant.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD_SCHEDULE)
    return run_schedule_shapes(k, out, shapes);
  companions others = {0};
  int failed = companions_open(&others, k, report) != 0;
  if (failed) {
    fprintf(out, "FAILED %s\n  %s\n", k->stem, report);
  } else {
    failed = run_all_shapes(k, &others, out, shapes);
  }
  companions_close(&others);
  return failed;
}

/* ---- Snippets -------------------------------------------------------------------------------- */

static const char *mod_of(const ap_variant *v, const char *stem) {
#define SHIPPED(name) EMULATED_SOURCE_DIR "/python/attnpress/mods/" name ".mod"
  static const char *const scores[] = {SHIPPED("alibi"), SHIPPED("softcap"), SHIPPED("t5_bias")};
  static const char *const differentiated[] = {
      SHIPPED("softcap"), EMULATED_SOURCE_DIR "/tests/emulator/mods/grad.mod", SHIPPED("t5_bias")};
  static const char *const masks[] = {SHIPPED("window"), SHIPPED("prefix_lm"), SHIPPED("document")};
  static const char *const with_buffers[] = {
      SHIPPED("alibi"), EMULATED_SOURCE_DIR "/tests/emulator/mods/reads.mod", SHIPPED("t5_bias")};
#undef SHIPPED
  const unsigned turn = hash_of_name(stem) % 3;
  if (v->axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD_MAP ||
      (v->axis[AP_ATTENTION_MOD_SCORE] && v->axis[AP_ATTENTION_MOD_MASK]))
    return EMULATED_SOURCE_DIR "/tests/emulator/mods/both.mod";
  if (v->axis[AP_ATTENTION_MOD_GRAD])
    return with_buffers[turn];
  if (v->axis[AP_ATTENTION_MOD_SCORE])
    return v->axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD ? scores[turn]
                                                               : differentiated[turn];
  return masks[turn];
}

static int write_mod(snippet_file *mod, const ap_variant *v, ap_text *text, char *report) {
  ap_snippet fresh = {0};
  const int32_t pass = v->axis[AP_ATTENTION_PASS];
  uint32_t wanted = 0; /* of all buffers of floats */
  for (int i = 0; v->axis[AP_ATTENTION_MOD_GRAD] && i < mod->mod.buffer_count; ++i)
    wanted |= mod->buffers[i].dtype == ATTNPRESS_INT32 ? 0 : 1u << i;
  (void)report;
  ap_score_mod_write(&mod->mod, pass != AP_ATTENTION_PASS_FWD && pass != AP_ATTENTION_PASS_FWD_MAP,
                     wanted, &fresh);
  ap_text_append(text, fresh.text.data, fresh.text.size);
  free(fresh.text.data);
  free(fresh.scope.data);
  return 0;
}

const emulated_family emulated_attention = {read_tile, run_shapes, mod_of, write_mod};
