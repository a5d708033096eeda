/* Runs forward calls and combine kernels under the emulator. */
#include "forward.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"
#include "attention/rows.h"
#include "attention/score_args.h"
#include "core/numbers.h"
#include "cpu/element.h"
#include "memory.h"
#include "attnpress/args/attention.h"

static int most(int a, int b) {
  return a > b ? a : b;
}

/* ---- A call ---------------------------------------------------------------------------------- */

enum { Q, K, V, OUT, LSE, OUT_PARTIAL, LSE_PARTIAL, TENSORS };

typedef struct call {
  const shape *s;
  int heads, hdim, hdim_v, dtype;
  int64_t rows; /* of out: batch * heads * seqlen_q */
  memory memory[TENSORS];
  emulated_tensor tensors[TENSORS];
  scores scores;
  attnpress_forward_args args; /* for the reference */
} call;

void layout_strides(attnpress_tensor *t, layout layout) {
  const int64_t *n = t->shape;
  const int64_t gap =
      layout == LAYOUT_GAPS ? 24 : 0; /* in elements, like all here: a multiple of 8 */
  const int64_t far = ((int64_t)1 << 31) + 8;
  t->stride[3] = 1;
  if (layout == LAYOUT_BHSD || layout == LAYOUT_FAR_HEADS) {
    t->stride[1] = n[3];
    t->stride[2] = layout == LAYOUT_FAR_HEADS ? far : n[1] * n[3];
    t->stride[0] = n[2] * t->stride[2];
  } else {
    t->stride[2] = n[3] + gap;
    t->stride[1] = layout == LAYOUT_FAR_ROWS ? far : n[2] * t->stride[2] + gap;
    t->stride[0] = n[1] * t->stride[1] + gap;
  }
}

void poison_tensor(const emulated_tensor *t) {
  for (int64_t i = 0; i < t->shape[0]; ++i)
    for (int64_t j = 0; j < t->shape[1]; ++j)
      for (int64_t k = 0; k < t->shape[2]; ++k)
        memset((char *)t->data +
                   (i * t->stride[0] + j * t->stride[1] + k * t->stride[2]) * t->element_bytes,
               0xff, (size_t)(t->shape[3] * t->element_bytes));
}

static void *map_tensor(call *c, int which, size_t bytes) {
  return memory_map(&c->memory[which], bytes);
}

static void add_tensor(call *c, int which, attnpress_tensor *t, const char *name, int seqlen,
                       int heads, int hdim) {
  *t = (attnpress_tensor){.shape = {c->s->batch, seqlen, heads, hdim}, .dtype = c->dtype};
  layout_strides(t, c->s->layout);
  t->data = map_tensor(c, which, (size_t)reference_span(t) * sizeof(uint16_t));
  emulated_tensor *e = &c->tensors[which];
  *e = (emulated_tensor){
      .name = name, .data = t->data, .element_bytes = sizeof(uint16_t), .writable = which == OUT};
  memcpy(e->shape, t->shape, sizeof e->shape);
  memcpy(e->stride, t->stride, sizeof e->stride);
  poison_tensor(e);
}

/* lse: (batch, heads, seqlen_q). */
static void add_lse(call *c) {
  const int64_t gap = c->s->layout == LAYOUT_GAPS ? 5 : 0;
  int64_t *stride = c->args.lse_stride;
  stride[1] = c->s->seqlen_q + gap;
  stride[0] = c->heads * stride[1] + gap;
  c->args.lse = map_tensor(c, LSE, (size_t)(c->s->batch * stride[0]) * sizeof(float));
  c->tensors[LSE] = (emulated_tensor){.name = "lse",
                                      .data = c->args.lse,
                                      .element_bytes = sizeof(float),
                                      .writable = 1,
                                      .shape = {c->s->batch, 1, c->heads, c->s->seqlen_q},
                                      .stride = {stride[0], 0, stride[1], 1}};
  poison_tensor(&c->tensors[LSE]);
}

/* One of fp32 without gaps. */
static float *add_floats(call *c, int which, const char *name, int64_t count) {
  float *data = map_tensor(c, which, (size_t)count * sizeof(float));
  c->tensors[which] = (emulated_tensor){.name = name,
                                        .data = data,
                                        .element_bytes = sizeof(float),
                                        .writable = 1,
                                        .shape = {1, 1, 1, count},
                                        .stride = {0, 0, 0, 1}};
  poison_tensor(&c->tensors[which]);
  return data;
}

static void call_open(call *c, const ap_variant *variant, const shape *s) {
  *c = (call){.s = s,
              .heads = s->heads_kv * s->group,
              .hdim = variant->axis[AP_ATTENTION_HDIM],
              .hdim_v = variant->axis[AP_ATTENTION_HDIM_V],
              .dtype = variant->axis[AP_ATTENTION_DTYPE]};
  c->rows = (int64_t)s->batch * c->heads * s->seqlen_q;
  attnpress_forward_args *a = &c->args;
  *a = (attnpress_forward_args)ATTNPRESS_FORWARD_ARGS_INIT;
  a->mask = variant->axis[AP_ATTENTION_MASK];
  a->scale = s->scale;
  add_tensor(c, Q, &a->q, "q", s->seqlen_q, c->heads, c->hdim);
  add_tensor(c, K, &a->k, "k", s->seqlen_k, s->heads_kv, c->hdim);
  add_tensor(c, V, &a->v, "v", s->seqlen_k, s->heads_kv, c->hdim_v);
  add_tensor(c, OUT, &a->out, "out", s->seqlen_q, c->heads, c->hdim_v);
  if (!s->without_lse)
    add_lse(c);
}

static void call_close(call *c) {
  scores_close(&c->scores);
  for (int i = 0; i < TENSORS; ++i)
    memory_unmap(&c->memory[i]);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void call_fwd(void (*function)(void), const void *args) {
  ((void (*)(attnpress_fwd_args))function)(*(const attnpress_fwd_args *)args);
}

static void call_fwd_sm90(void (*function)(void), const void *args) {
  ((void (*)(attnpress_fwd_sm90_args))function)(*(const attnpress_fwd_sm90_args *)args);
}

static void call_fwd_sm90_bias(void (*function)(void), const void *args) {
  ((void (*)(attnpress_fwd_sm90_bias_args))function)(*(const attnpress_fwd_sm90_bias_args *)args);
}

static void call_fwd_mod(void (*function)(void), const void *args) {
  ((void (*)(attnpress_fwd_mod_args))function)(*(const attnpress_fwd_mod_args *)args);
}

static void call_fwd_sm90_mod(void (*function)(void), const void *args) {
  ((void (*)(attnpress_fwd_sm90_mod_args))function)(*(const attnpress_fwd_sm90_mod_args *)args);
}

static void call_map(void (*function)(void), const void *args) {
  ((void (*)(attnpress_fwd_map_args))function)(*(const attnpress_fwd_map_args *)args);
}

static void call_combine(void (*function)(void), const void *args) {
  ((void (*)(attnpress_fwd_combine_args))function)(*(const attnpress_fwd_combine_args *)args);
}

static int row_blocks(const call *c, const kernel *k) {
  const int block_m = k->tile.field[AP_ATTENTION_TILE_BLOCK_M];
  const int heads = most(1, c->s->packed);
  return k->tile.field[AP_ATTENTION_TILE_PRODUCER]
             ? ceil_div(c->s->seqlen_q, ap_row_block_positions(&k->tile, heads))
             : ceil_div((int64_t)c->s->seqlen_q * heads, block_m);
}

/* The keys that the rows of a row block see. */
static ap_keys keys_of(const call *c, const kernel *k, int row_block) {
  const int block_m = k->tile.field[AP_ATTENTION_TILE_BLOCK_M];
  const int heads = most(1, c->s->packed);
  const ap_mask mask = ap_mask_of(&c->args);
  int64_t first = (int64_t)row_block * block_m / heads,
          last = (((int64_t)row_block + 1) * block_m - 1) / heads;
  if (k->tile.field[AP_ATTENTION_TILE_PRODUCER]) {
    const int64_t positions = ap_row_block_positions(&k->tile, heads);
    first = row_block * positions;
    last = first + positions - 1;
  }
  last = last < c->s->seqlen_q ? last : c->s->seqlen_q - 1;
  return (ap_keys){ap_keys_of(&mask, first).begin, ap_keys_of(&mask, last).end};
}

/* The key blocks that they see. */
static ap_keys key_blocks(const call *c, const kernel *k, int row_block) {
  const int block_n = k->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  const ap_keys keys = keys_of(c, k, row_block);
  return (ap_keys){keys.begin / block_n, ceil_div(keys.end, block_n)};
}

/* 1 where row blocks count key blocks from the first key that they see. */
static int has_own_blocks(const kernel *k) {
  const int32_t *axis = k->variant.axis;
  return k->tile.field[AP_ATTENTION_TILE_PRODUCER] && axis[AP_ATTENTION_MASK] == ATTNPRESS_WINDOW &&
         !axis[AP_ATTENTION_SPLIT] && !axis[AP_ATTENTION_MOD_MASK];
}

/* The keys that all row blocks load: outside of them nothing is read. */
static ap_keys loaded_keys(const call *c, const kernel *k) {
  const int block_n = k->tile.field[AP_ATTENTION_TILE_BLOCK_N], own = has_own_blocks(k);
  ap_keys all = {INT64_MAX, 0};
  for (int i = 0; i < row_blocks(c, k); ++i) {
    const ap_keys keys = keys_of(c, k, i);
    const int64_t from =
        own ? keys.begin - keys.begin % AP_ATTENTION_KEY_ALIGNMENT : keys.begin / block_n * block_n;
    const int64_t to =
        keys.end > from ? from + ceil_div(keys.end - from, block_n) * (int64_t)block_n : from;
    all.begin = from < all.begin ? from : all.begin;
    all.end = to > all.end ? to : all.end;
  }
  return all.end > all.begin ? all : (ap_keys){0, 0};
}

/* The most that a row block sees, in equal parts. */
static int key_blocks_per_split(const call *c, const kernel *k, int splits) {
  int64_t longest = 0;
  for (int i = 0; i < row_blocks(c, k); ++i) {
    const ap_keys blocks = key_blocks(c, k, i);
    longest = blocks.end - blocks.begin > longest ? blocks.end - blocks.begin : longest;
  }
  return ceil_div(longest, splits);
}

static float scale_of(const call *c) {
  return c->s->scale != 0.0f ? c->s->scale : (float)(1.0 / sqrt((double)c->hdim));
}

static int heads_per_tile(const call *c) {
  return most(1, c->s->packed);
}

/* Tiles' heads of all batches that decode kernels whose warps have keys of their own leave whole where
 * they split others: a third. */
static int whole_heads(const call *c, const kernel *k) {
  const int splits = k->variant.axis[AP_ATTENTION_SPLIT] && k->variant.axis[AP_ATTENTION_DECODE] &&
                     k->tile.field[AP_ATTENTION_TILE_WARPS_K] > 1;
  return splits ? c->s->batch * (c->heads / heads_per_tile(c)) / 3 : 0;
}

/* As runtime/attention/forward.c fills them. */
static attnpress_fwd_args fwd_args(const call *c, const kernel *k) {
  const attnpress_forward_args *a = &c->args;
  const shape *s = c->s;
  attnpress_fwd_args args = {
      .q = a->q.data,
      .k = a->k.data,
      .v = a->v.data,
      .out = a->out.data,
      .lse = a->lse,
      .out_partial = c->tensors[OUT_PARTIAL].data,
      .lse_partial = c->tensors[LSE_PARTIAL].data,
      .q_batch_stride = a->q.stride[0],
      .q_row_stride = a->q.stride[1],
      .q_head_stride = a->q.stride[2],
      .k_batch_stride = a->k.stride[0],
      .k_row_stride = a->k.stride[1],
      .k_head_stride = a->k.stride[2],
      .v_batch_stride = a->v.stride[0],
      .v_row_stride = a->v.stride[1],
      .v_head_stride = a->v.stride[2],
      .out_batch_stride = a->out.stride[0],
      .out_row_stride = a->out.stride[1],
      .out_head_stride = a->out.stride[2],
      .lse_batch_stride = a->lse_stride[0],
      .lse_head_stride = a->lse_stride[1],
      .batch = s->batch,
      .heads_q = c->heads,
      .heads_kv = s->heads_kv,
      .seqlen_q = s->seqlen_q,
      .seqlen_k = s->seqlen_k,
      .heads_per_tile = heads_per_tile(c),
      .num_splits = k->variant.axis[AP_ATTENTION_SPLIT] ? s->splits : 1,
      .row_blocks = row_blocks(c, k),
      .whole_row_blocks = whole_heads(c, k) * row_blocks(c, k),
      .scale = scale_of(c),
      .scale_log2 = ap_scale_log2(a),
  };
  args.key_blocks_per_split = key_blocks_per_split(c, k, args.num_splits);
  ap_fill_score_args(a, &args.score);
  return args;
}

static CUresult no_words(CUresult result, const char **words) {
  (void)words;
  return result;
}

/* The library describes the tensors to what stands in for the driver. */
static int encode_maps(const call *c, const kernel *k, attnpress_fwd_sm90_bias_args *args,
                       char *report) {
  const ap_driver driver = {.tensor_map_encode_tiled = emulated_encode_tiled,
                            .get_error_name = no_words,
                            .get_error_string = no_words};
  ap_maps maps = {.driver = &driver};
  const ap_plan plan = {.heads_per_tile = args->sm90.fwd.heads_per_tile, .tile = k->tile};
  if (ap_tensor_maps_encode(&maps, &c->args, &plan, 0, &args->sm90) == ATTNPRESS_OK &&
      (!ap_has_bias_map(&k->variant) ||
       ap_bias_map_encode(&maps, &c->args, &k->tile, args) == ATTNPRESS_OK))
    return 0;
  snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
  return -1;
}

/* How units of work are dealt to `blocks` blocks. */
static void number_units(attnpress_fwd_sm90_args *args, const kernel *k, const shape *s,
                         int blocks) {
  const attnpress_fwd_args *fwd = &args->fwd;
  const int tile_heads = ceil_div(fwd->heads_q, fwd->heads_per_tile);
  args->heads = fwd->num_splits * tile_heads * fwd->batch;
  const int section_heads = s->section_heads > 0 ? s->section_heads : most(1, args->heads);
  const int sections = most(1, ceil_div(args->heads, section_heads));
  const int group_sections = s->group_sections > 0 ? s->group_sections : sections;
  const int section_units = section_heads * most(1, fwd->row_blocks);
  args->group_units = group_sections * section_units;
  const int group_rounds = ceil_div(args->group_units, blocks);
  args->rounds = group_rounds * ceil_div(sections, group_sections);
  args->section_heads = ap_divisor(section_heads);
  args->section_units = ap_divisor(section_units);
  args->group_rounds = ap_divisor(group_rounds);
  args->num_splits = ap_divisor(fwd->num_splits);
  args->tile_heads = ap_divisor(tile_heads);
  args->heads_per_tile = ap_divisor(fwd->heads_per_tile);
  args->warpgroup_positions = ap_consumer_rows(&k->tile) / fwd->heads_per_tile;
}

/* The pointers that the kernel leaves alone are not there. */
static attnpress_fwd_sm90_args sm90_args(const call *c, const kernel *k, int blocks) {
  attnpress_fwd_sm90_args args = {.fwd = fwd_args(c, k)};
  attnpress_fwd_args *fwd = &args.fwd;
  number_units(&args, k, c->s, blocks);
  fwd->q = fwd->k = fwd->v = NULL;
  fwd->q_batch_stride = fwd->q_row_stride = fwd->q_head_stride = -1;
  fwd->k_batch_stride = fwd->k_row_stride = fwd->k_head_stride = -1;
  fwd->v_batch_stride = fwd->v_row_stride = fwd->v_head_stride = -1;
  return args;
}

/* Takes all keys but these out of a tensor. */
static void restrict_keys(emulated_tensor *t, ap_keys keys) {
  t->data = (char *)t->data + keys.begin * t->stride[1] * t->element_bytes;
  t->shape[1] = (keys.end < t->shape[1] ? keys.end : t->shape[1]) - keys.begin;
  if (t->shape[1] <= 0)
    t->data = NULL;
}

/* `used`: the tensors that the kernel may touch, as bits, those of the scores behind the others; the
 * others are as if they were not there. Of K and V, what a forward kernel has to load. */
static int launch(const kernel *k, unsigned blocks, const void *args,
                  void (*typed_call)(void (*)(void), const void *), const call *c, unsigned used,
                  char *report) {
  emulated_tensor given[TENSORS + SCORE_TENSORS];
  int count = 0;
  for (int i = 0; i < TENSORS + SCORE_TENSORS; ++i) {
    const emulated_tensor *t = i < TENSORS ? &c->tensors[i] : &c->scores.tensors[i - TENSORS];
    if (!(used >> i & 1) || t->data == NULL)
      continue;
    given[count++] = *t;
    if (i == K || i == V)
      restrict_keys(&given[count - 1], loaded_keys(c, k));
  }
  const emulated_launch l = {.module = k->module,
                             .overlaps = k->overlaps,
                             .blocks = blocks,
                             .threads = (unsigned)k->tile.threads,
                             .shared_bytes = (size_t)k->tile.smem_bytes,
                             .args = args,
                             .call = typed_call,
                             .tensors = given,
                             .tensor_count = count};
  char text[EMULATED_REPORT_BYTES];
  const int status = emulated_run(&l, text);
  if (status != 0)
    snprintf(report, EMULATED_REPORT_BYTES, "%.120s: %.7900s", k->stem, text);
  return status;
}

/* ---- Snippets ---- */

/* As runtime/attention/choose.c plans what concerns the map; the workspace is the map. */
static ap_plan plan_of(const call *c, const kernel *k, const attnpress_fwd_args *fwd,
                       ap_problem *problem, int64_t *words, int64_t *workspace_words) {
  ap_plan how = {.variant = k->variant,
                 .tile = k->tile,
                 .heads_per_tile = fwd->heads_per_tile,
                 .row_blocks = fwd->row_blocks};
  *problem = (ap_problem){.batch = c->s->batch,
                          .heads_q = c->heads,
                          .heads_kv = c->s->heads_kv,
                          .seqlen_q = c->s->seqlen_q,
                          .seqlen_k = c->s->seqlen_k,
                          .hdim = c->hdim};
  ap_score_mod_describe(c->args.score_mod, 0, 0, problem);
  *words = ap_count_map_words(problem, &how.tile, how.heads_per_tile, &how.map_batch,
                              &how.map_heads, &how.map_words);
  const int64_t bits = ap_count_map_bits(problem, &how.tile, *words / how.map_words, how.map_words);
  if (bits > 0) {
    const int64_t begin = (ATTNPRESS_MOD_MAP_BEGIN + *words + 3) / 4 * 4;
    how.map_bits_offset_bytes = (size_t)begin * sizeof(uint32_t);
    *workspace_words = begin + bits;
  } else {
    *workspace_words = ATTNPRESS_MOD_MAP_BEGIN + *words;
  }
  return how;
}

static unsigned buffers_used(void) {
  return ((1u << SNIPPET_BUFFERS) - 1) << (TENSORS + TENSOR_BUFFERS);
}

/* Writes the map of the forward kernel `k` and fills `mod`, what the snippet is given. */
static int launch_map(const kernel *map, const kernel *k, call *c, const attnpress_fwd_args *fwd,
                      attnpress_mod_args *mod, char *report) {
  int64_t words, workspace_words;
  ap_problem problem;
  const ap_plan how = plan_of(c, k, fwd, &problem, &words, &workspace_words);
  attnpress_fwd_map_args args = {.call.fwd = *fwd};
  if (!k->variant.axis[AP_ATTENTION_MOD_MASK] || c->rows == 0) {
    ap_score_mod_fill(&c->args, &how, mod);
    return 0;
  }
  c->args.workspace = scores_add_map(&c->scores, workspace_words);
  ap_score_mod_fill(&c->args, &how, mod);
  args.call.mod = *mod;
  ap_score_mod_fill_map(&problem, &how, &args);
  const int status = launch(map, (unsigned)words, &args, call_map, c,
                            buffers_used() | 1u << (TENSORS + TENSOR_MAP), report);
  c->scores.tensors[TENSOR_MAP].writable =
      k->variant.axis[AP_ATTENTION_ARCH] == 90; /* the ticket */
  return status;
}

/* K and V of the keys of a key block that no query of a batch and a key head sees become NaN: it is
 * neither loaded nor computed by any of them. */
static void poison_unseen_blocks(const call *c, const kernel *k) {
  char why[256];
  const int block_n = k->tile.field[AP_ATTENTION_TILE_BLOCK_N], group = c->s->group;
  snippet *text = snippet_parse(c->args.score_mod, why, sizeof why);
  if (text == NULL)
    return; /* the reference says why */
  for (int b = 0; b < c->s->batch; ++b)
    for (int head = 0; head < c->s->heads_kv; ++head)
      for (int begin = 0; begin < c->s->seqlen_k; begin += block_n) {
        const int end = begin + block_n < c->s->seqlen_k ? begin + block_n : c->s->seqlen_k;
        int seen = 0;
        for (int key = begin; key < end && !seen; ++key)
          for (int q = 0; q < c->s->seqlen_q && !seen; ++q)
            for (int h = 0; h < group && !seen; ++h)
              seen = reference_sees(&c->args, q, key) &&
                     snippet_keeps(text, &(snippet_place){b, head * group + h, head, q, key,
                                                          c->s->seqlen_q, c->s->seqlen_k});
        for (int i = K; i <= V && !seen; ++i) {
          emulated_tensor part = c->tensors[i];
          part.data = (char *)part.data +
                      (b * part.stride[0] + begin * part.stride[1] + head * part.stride[2]) *
                          part.element_bytes;
          part.shape[0] = part.shape[2] = 1;
          part.shape[1] = end - begin;
          poison_tensor(&part);
        }
      }
  snippet_free(text);
}

static int launch_fwd(const kernel *k, const kernel *map, call *c, unsigned used, char *report) {
  const attnpress_fwd_args args = fwd_args(c, k);
  const int parts =
      args.row_blocks * args.num_splits * c->s->batch * (c->heads / args.heads_per_tile);
  const unsigned grid = (unsigned)(parts - args.whole_row_blocks * (args.num_splits - 1));
  if (k->mod != NULL) {
    attnpress_fwd_mod_args with_mod = {.fwd = args};
    if (launch_map(map, k, c, &args, &with_mod.mod, report) != 0)
      return -1;
    return launch(k, grid, &with_mod, call_fwd_mod, c, used, report);
  }
  return launch(k, grid, &args, call_fwd, c, used, report);
}

static int launch_fwd_sm90(const kernel *k, const kernel *map, call *c, unsigned used,
                           char *report) {
  const int blocks = c->s->blocks > 0 ? c->s->blocks : 2;
  attnpress_fwd_sm90_bias_args args = {.sm90 = sm90_args(c, k, blocks)};
  if (c->rows == 0)
    return 0;
  if (encode_maps(c, k, &args, report) != 0)
    return -1;
  if (k->mod != NULL) {
    attnpress_fwd_sm90_mod_args with_mod = {.sm90 = args.sm90};
    if (launch_map(map, k, c, &args.sm90.fwd, &with_mod.mod, report) != 0)
      return -1;
    return launch(k, (unsigned)blocks, &with_mod, call_fwd_sm90_mod, c, used, report);
  }
  if (ap_has_bias_map(&k->variant))
    return launch(k, (unsigned)blocks, &args, call_fwd_sm90_bias, c, used, report);
  return launch(k, (unsigned)blocks, &args.sm90, call_fwd_sm90, c, used, report);
}

/* `by_groups`: a group of threads a row; else a thread block. The first `whole_rows` are left out. */
static int launch_combine(const kernel *k, const call *c, int splits, int by_groups, int whole_rows,
                          char *report) {
  const attnpress_forward_args *a = &c->args;
  const int columns = k->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  attnpress_score_args score;
  ap_fill_score_args(a, &score);
  const attnpress_fwd_combine_args args = {
      .out_partial = c->tensors[OUT_PARTIAL].data,
      .lse_partial = c->tensors[LSE_PARTIAL].data,
      .out = a->out.data,
      .lse = a->lse,
      .out_batch_stride = a->out.stride[0],
      .out_row_stride = a->out.stride[1],
      .out_head_stride = a->out.stride[2],
      .lse_batch_stride = a->lse_stride[0],
      .lse_head_stride = a->lse_stride[1],
      .rows = c->rows,
      .heads_q = c->heads,
      .seqlen_q = c->s->seqlen_q,
      .num_splits = splits,
      .sinks = score.sinks,
      .sinks_stride = score.sinks_stride,
      .sinks_dtype = score.sinks_dtype,
      .block_rows = by_groups ? k->tile.threads / (columns / 4) : 1,
      .whole_rows = whole_rows,
  };
  const unsigned used = 1u << OUT | 1u << LSE | 1u << OUT_PARTIAL | 1u << LSE_PARTIAL |
                        1u << (TENSORS + TENSOR_SINKS);
  const int64_t blocks =
      ceil_div(c->rows - whole_rows, args.block_rows) * ceil_div(c->hdim_v, columns);
  return launch(k, (unsigned)blocks, &args, call_combine, c, used, report);
}

/* ---- Verdicts -------------------------------------------------------------------------------- */

void print_shape(const ap_variant *variant, const shape *s, char *text, int text_bytes) {
  static const char *const layouts[] = {"bshd", "bhsd", "bshd with gaps", "bshd, rows far apart",
                                        "bhsd, heads far apart"};
  int size = snprintf(text, (size_t)text_bytes, "batch %d, %d queries, %d keys, %d heads", s->batch,
                      s->seqlen_q, s->seqlen_k, s->heads_kv * s->group);
  if (s->group > 1)
    size += snprintf(text + size, (size_t)(text_bytes - size), " on %d key head%s", s->heads_kv,
                     s->heads_kv > 1 ? "s" : "");
  if (s->packed > 1)
    size += snprintf(text + size, (size_t)(text_bytes - size), ", %d packed", s->packed);
  if (s->splits > 0)
    size += snprintf(text + size, (size_t)(text_bytes - size), ", %d splits", s->splits);
  if (s->below > 0)
    size +=
        snprintf(text + size, (size_t)(text_bytes - size), ", scores near -%g", (double)s->below);
  size += snprintf(text + size, (size_t)(text_bytes - size), ", %s%s", layouts[s->layout],
                   s->without_lse ? ", without lse" : "");
  scores_print(variant, &s->scores, text + size, text_bytes - size);
}

/* "row 17 of row block 2, warp row 1": where a row of the output lies in its tile. */
static void print_tile_place(const kernel *k, const shape *s, const int64_t at[4], char *text,
                             size_t text_bytes) {
  if (k->variant.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD_COMBINE) {
    snprintf(text, text_bytes, "a row has a block of its own");
    return;
  }
  const int heads = most(1, s->packed);
  if (k->tile.field[AP_ATTENTION_TILE_PRODUCER]) {
    const int rows = ap_consumer_rows(&k->tile), positions = rows / heads;
    const int consumers = k->tile.field[AP_ATTENTION_TILE_BLOCK_M] / rows;
    const int64_t group = at[1] / positions;
    const int row = (int)(at[1] % positions * heads + at[2] % heads);
    snprintf(text, text_bytes,
             "row %d of consumer %d of row block %lld (tile %d x %d), warp %d of it, 8-column tile "
             "%d",
             row, (int)(group % consumers), (long long)(group / consumers),
             k->tile.field[AP_ATTENTION_TILE_BLOCK_M], k->tile.field[AP_ATTENTION_TILE_BLOCK_N],
             row / 16, (int)(at[3] / 8));
    return;
  }
  const int64_t row = at[1] * heads + at[2] % heads;
  const int in_tile = (int)(row % k->tile.field[AP_ATTENTION_TILE_BLOCK_M]);
  const int warp_rows =
      most(1, k->tile.field[AP_ATTENTION_TILE_BLOCK_M] / k->tile.field[AP_ATTENTION_TILE_WARPS_M]);
  snprintf(text, text_bytes,
           "row %d of row block %lld (tile %d x %d), warp %d, lane group %d, 8-column tile %d",
           in_tile, (long long)(row / k->tile.field[AP_ATTENTION_TILE_BLOCK_M]),
           k->tile.field[AP_ATTENTION_TILE_BLOCK_M], k->tile.field[AP_ATTENTION_TILE_BLOCK_N],
           in_tile / warp_rows, in_tile % 8, (int)(at[3] / 8));
}

static void judge(const kernel *k, const shape *s, verdict *v) {
  const reference_error *e = &v->error;
  /* Of too few elements, nothing is said yet. */
  v->passed = e->elements < REFERENCE_MIN_ELEMENTS || reference_holds(e);
  if (v->passed)
    return;
  char place[256];
  int size = 0;
  if (!(e->out <= reference_bound(e))) {
    print_tile_place(k, s, e->at, place, sizeof place);
    size = snprintf(
        v->report, sizeof v->report,
        "out is off by %.3g, where %.3g is allowed: batch %lld, query %lld, head %lld, column "
        "%lld is %.6g, expected %.6g;\n  %s",
        e->out, reference_bound(e), (long long)e->at[0], (long long)e->at[1], (long long)e->at[2],
        (long long)e->at[3], e->value, e->expected, place);
  }
  if (!(e->lse <= reference_lse_bound(e))) {
    print_tile_place(k, s, (int64_t[]){e->lse_at[0], e->lse_at[1], e->lse_at[2], 0}, place,
                     sizeof place);
    snprintf(
        v->report + size, sizeof v->report - (size_t)size,
        "%slse is off by %.3g: batch %lld, query %lld, head %lld is %.9g, expected %.9g;\n  %s",
        size ? "\n  " : "", e->lse, (long long)e->lse_at[0], (long long)e->lse_at[1],
        (long long)e->lse_at[2], e->lse_value, e->lse_expected, place);
  }
}

/* K of keys that no query sees becomes NaN. V of them is what a probability of 0 meets, where they
 * share a key block with others. */
static void poison_unseen_keys(const call *c) {
  const ap_mask mask = ap_mask_of(&c->args);
  const int64_t begin = c->s->seqlen_q > 0 ? ap_keys_of(&mask, 0).begin : 0,
                end = c->s->seqlen_q > 0 ? ap_keys_of(&mask, c->s->seqlen_q - 1).end : 0;
  emulated_tensor before = c->tensors[K], behind = before;
  before.shape[1] = begin;
  poison_tensor(&before);
  behind.data = (char *)before.data + end * before.stride[1] * before.element_bytes;
  behind.shape[1] = c->s->seqlen_k - end;
  poison_tensor(&behind);
}

static void add_to_all(const attnpress_tensor *t, float by) {
  for (int64_t b = 0; b < t->shape[0]; ++b)
    for (int64_t i = 0; i < t->shape[1]; ++i)
      for (int64_t h = 0; h < t->shape[2]; ++h)
        for (int64_t d = 0; d < t->shape[3]; ++d) {
          const int64_t at = b * t->stride[0] + i * t->stride[1] + h * t->stride[2] + d;
          ap_store_element(t->data, at, ap_load_element(t->data, at, t->dtype) + by, t->dtype);
        }
}

void run_forward(const kernel *forward, const companions *others, const shape *s, uint64_t seed,
                 verdict *v) {
  call c;
  reference r;
  v->passed = 0;
  call_open(&c, &forward->variant, s);
  reference_fill_normal(&c.args.q, seed);
  reference_fill_normal(&c.args.k, seed + 1);
  reference_fill_normal(&c.args.v, seed + 2);
  if (s->below > 0) {
    const float apart = sqrtf(s->below / (scale_of(&c) * (float)c.hdim));
    add_to_all(&c.args.q, apart);
    add_to_all(&c.args.k, -apart);
  }
  scores_open(&c.scores, &forward->variant, &s->scores, forward->mod, &c.args, seed + 3);
  poison_unseen_keys(&c);
  if (forward->variant.axis[AP_ATTENTION_MOD_MASK])
    poison_unseen_blocks(&c, forward);
  const int split = forward->variant.axis[AP_ATTENTION_SPLIT];
  if (split) {
    add_floats(&c, OUT_PARTIAL, "out_partial", s->splits * c.rows * c.hdim_v);
    add_floats(&c, LSE_PARTIAL, "lse_partial", s->splits * c.rows);
  }
  const int parts = split; /* another kernel adds them up, but those of whole heads */
  const int stores = !parts || whole_heads(&c, forward) > 0;
  const unsigned outputs =
      (split ? 1u << OUT_PARTIAL | 1u << LSE_PARTIAL : 0) | (stores ? 1u << OUT | 1u << LSE : 0);
  const unsigned sinks = stores ? 1u << (TENSORS + TENSOR_SINKS) : 0;
  const unsigned used = 1u << Q | 1u << K | 1u << V | outputs | sinks |
                        1u << (TENSORS + TENSOR_BIAS) | 1u << (TENSORS + TENSOR_SLOPES) |
                        1u << (TENSORS + TENSOR_SEED) | 1u << (TENSORS + TENSOR_MAP) |
                        buffers_used();
  int status = forward->tile.field[AP_ATTENTION_TILE_PRODUCER]
                   ? launch_fwd_sm90(forward, &others->map, &c, used, v->report)
                   : launch_fwd(forward, &others->map, &c, used, v->report);
  if (status == 0 && parts)
    status = launch_combine(&others->combine, &c, s->splits, s->splits % 2,
                            whole_heads(&c, forward) * heads_per_tile(&c) * s->seqlen_q, v->report);
  if (status == 0 && reference_init(&r, &c.args) == 0) {
    reference_check(&r, &v->error);
    reference_free(&r);
    judge(forward, s, v);
  } else if (status == 0) {
    snprintf(v->report, sizeof v->report, "the reference: %s", r.why);
  }
  call_close(&c);
}

/* ---- Combine alone --------------------------------------------------------------------------- */

/* Uniform in [-1, 1), from a counter. */
static float uniform(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)((double)(*state >> 40) / (double)(1 << 23) - 1.0);
}

/* A third of the splits of a row has seen no key, and every ninth row none at all. */
static void fill_parts(const call *c, int splits, uint64_t seed) {
  float *out = c->tensors[OUT_PARTIAL].data, *lse = c->tensors[LSE_PARTIAL].data;
  for (int64_t i = 0; i < splits * c->rows; ++i) {
    const int empty = uniform(&seed) < -0.34f || i % c->rows % 9 == 4;
    lse[i] = empty ? -INFINITY : 8.0f * uniform(&seed);
    for (int column = 0; column < c->hdim_v; ++column)
      out[i * c->hdim_v + column] = empty ? 0.0f : uniform(&seed);
  }
}

/* A row in float64, and in fp32 rounded to the output's type, as the criterion wants. */
static void check_combined_row(const call *c, int splits, int64_t row, reference_error *e) {
  const float *out = c->tensors[OUT_PARTIAL].data, *lse = c->tensors[LSE_PARTIAL].data;
  const int64_t at[3] = {row / c->s->seqlen_q / c->heads, row % c->s->seqlen_q,
                         row / c->s->seqlen_q % c->heads};
  const double sink = scores_sink(&c->args, at[2]);
  double max = sink, sum = 0.0;
  for (int i = 0; i < splits; ++i)
    max = fmax(max, (double)lse[i * c->rows + row]);
  for (int i = 0; i < splits && max != -INFINITY; ++i)
    sum += exp((double)lse[i * c->rows + row] - max);
  if (max != -INFINITY)
    sum += exp(sink - max);
  for (int column = 0; column < c->hdim_v; ++column) {
    double expected = 0.0;
    for (int i = 0; i < splits && sum > 0.0; ++i)
      expected += exp((double)lse[i * c->rows + row] - max) / sum *
                  (double)out[(i * c->rows + row) * c->hdim_v + column];
    const double value = (double)reference_load(&c->args.out, at[0], at[1], at[2], column);
    const double error = isnan(value) ? INFINITY : fabs(value - expected);
    if (error > e->out || e->elements == 0) {
      e->out = error;
      e->value = value;
      e->expected = expected;
      memcpy(e->at, (int64_t[]){at[0], at[1], at[2], column}, sizeof e->at);
    }
    e->low = fmax(e->low, fabs((double)reference_round((float)expected, c->dtype) - expected));
    ++e->elements;
  }
  if (c->args.lse == NULL)
    return;
  const double expected = sum > 0.0 ? max + log(sum) : -INFINITY,
               value =
                   (double)c->args
                       .lse[at[0] * c->args.lse_stride[0] + at[2] * c->args.lse_stride[1] + at[1]];
  const double error = value == expected ? 0.0
                       : isnan(value) || isinf(expected)
                           ? INFINITY
                           : fabs(value - expected) / fmax(1.0, fabs(expected));
  if (error > e->lse) {
    e->lse = error;
    e->lse_value = value;
    e->lse_expected = expected;
    memcpy(e->lse_at, at, sizeof e->lse_at);
  }
}

void run_combine(const kernel *combine, const shape *s, int by_groups, uint64_t seed, verdict *v) {
  call c;
  v->passed = 0;
  call_open(&c, &combine->variant, s);
  add_floats(&c, OUT_PARTIAL, "out_partial", s->splits * c.rows * c.hdim_v);
  add_floats(&c, LSE_PARTIAL, "lse_partial", s->splits * c.rows);
  fill_parts(&c, s->splits, seed);
  scores_add_sinks(&c.scores, &s->scores, &c.args, seed);
  const int whole_rows = (int)(c.rows / 4);
  if (launch_combine(combine, &c, s->splits, by_groups, whole_rows, v->report) == 0) {
    for (int64_t row = whole_rows; row < c.rows; ++row)
      check_combined_row(&c, s->splits, row, &v->error);
    judge(combine, s, v);
  }
  call_close(&c);
}
