/* The groups of a forward call, with random contents. */
#include "scores.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../generated/families.h"
#include "attention/defaults.h"
#include "attention/ragged.h"
#include "attention/rows.h"
#include "cpu/element.h"
#include "../../tools/sequences.h"

static const int64_t far = ((int64_t)1 << 31) + 8;

static int bytes_of(int32_t dtype) {
  return dtype == ATTNPRESS_FP32 ? 4 : 2;
}

/* splitmix64 */
static uint64_t next_bits(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* Uniform in [-1, 1). */
static float next_uniform(uint64_t *state) {
  return (float)((double)(next_bits(state) >> 40) / (double)(1 << 23) - 1.0);
}

/* Memory of NaN for a tensor that is not written, from `first` elements on; the kernel may read the
 * tensor's own elements alone. */
static void *add_memory(scores *x, int which, const char *name, int element_bytes,
                        const int64_t shape[4], const int64_t stride[4], int64_t first) {
  int64_t span = 1 + first;
  for (int i = 0; i < 4; ++i)
    span += shape[i] > 0 ? (shape[i] - 1) * stride[i] : 0;
  char *data = memory_map(&x->memory[which], (size_t)(span * element_bytes));
  if (span < far) /* else what lies between is zeros, and no part of the tensor either */
    memset(data, 0xff, (size_t)(span * element_bytes));
  data += first * element_bytes;
  emulated_tensor *t = &x->tensors[which];
  *t = (emulated_tensor){.name = name, .data = data, .element_bytes = element_bytes};
  memcpy(t->shape, shape, sizeof t->shape);
  memcpy(t->stride, stride, sizeof t->stride);
  return data;
}

/* ---- Bias ------------------------------------------------------------------------------------ */

static void lay_out_bias(attnpress_bias *bias, bias_layout layout, int64_t batch, int64_t heads,
                         int64_t queries, int64_t keys) {
  const int of_batch =
                layout <= BIAS_CONTIGUOUS || layout == BIAS_OF_BATCH || layout == BIAS_SPREAD,
            of_heads = layout <= BIAS_OF_HEADS || layout == BIAS_SPREAD;
  int64_t *shape = bias->shape, *stride = bias->stride;
  shape[0] = of_batch ? batch : 1;
  shape[1] = of_heads ? heads : 1;
  shape[2] = queries;
  shape[3] = keys;
  stride[3] = layout == BIAS_SPREAD       ? 2
              : layout == BIAS_TRANSPOSED ? queries
              : layout == BIAS_FAR_KEYS   ? far
                                          : 1;
  stride[2] = layout == BIAS_OF_KEYS                                 ? 0
              : layout == BIAS_TRANSPOSED || layout == BIAS_FAR_KEYS ? 1
              : layout == BIAS_FAR_ROWS                              ? far
              : layout == BIAS_CONTIGUOUS                            ? keys
              : layout == BIAS_OF_BATCH                              ? keys + 3
              : layout == BIAS_SPREAD                                ? 2 * keys + 1
                                                                     : (keys + 7) / 8 * 8 + 8;
  stride[1] = of_heads ? queries * stride[2] : 0;
  stride[0] = of_batch ? (of_heads ? heads : 1) * queries * stride[2] : 0;
}

/* Some keys, and some queries' keys all of them, are masked by -inf. */
static float bias_value(const attnpress_bias *bias, int64_t head, int64_t query, uint64_t *state) {
  const float value = 2.0f * next_uniform(state);
  const uint64_t bits = next_bits(state);
  if (bits % 16 == 0)
    return -INFINITY;
  return bias->stride[2] != 0 && (query + head) % 13 == 5 ? -INFINITY : value;
}

/* The mask of a batch, or of a sequence. */
static ap_mask mask_of_batch(const attnpress_forward_args *args, int64_t b) {
  ap_mask mask = ap_mask_of(args);
  if (args->ragged == NULL)
    return mask;
  const sequence_rows rows = sequence_rows_of(args, b);
  mask.seqlen_q = rows.queries;
  mask.seqlen_k = rows.keys;
  mask.center = args->window && args->window->top_left ? 0 : rows.keys - rows.queries;
  return mask;
}

/* What serves all sequences of lengths of their own is filled for each. */
static void fill_bias(const attnpress_bias *bias, const attnpress_forward_args *args,
                      uint64_t seed) {
  const int64_t *stride = bias->stride;
  const int64_t batch = args->ragged != NULL ? ap_extents_of(args).batch : bias->shape[0];
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < bias->shape[1]; ++h) {
      const ap_mask mask = mask_of_batch(args, b);
      const int64_t queries = mask.seqlen_q;
      for (int64_t i = 0; i < (stride[2] == 0 && queries > 1 ? 1 : queries); ++i) {
        ap_keys seen = ap_keys_of(&mask, i);
        if (stride[2] == 0) /* by any query */
          seen.end = ap_keys_of(&mask, queries - 1).end;
        for (int64_t j = seen.begin; j < seen.end; ++j)
          ap_store_element((void *)(uintptr_t)bias->data,
                           b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3],
                           bias_value(bias, h, i, &seed), bias->dtype);
      }
    }
}

static void add_bias(scores *x, int32_t dtype, bias_layout layout, attnpress_forward_args *args,
                     uint64_t seed) {
  const ap_extents of = ap_extents_of(args);
  x->bias = (attnpress_bias)ATTNPRESS_BIAS_INIT;
  x->bias.dtype = dtype;
  args->bias = &x->bias; /* with which some sequences have no keys */
  lay_out_bias(&x->bias, layout, of.batch, args->q.shape[2], of.seqlen_q, of.seqlen_k);
  x->bias.data = add_memory(x, TENSOR_BIAS, "bias", bytes_of(dtype), x->bias.shape, x->bias.stride,
                            layout == BIAS_SPREAD);
  fill_bias(&x->bias, args, seed);
  for (int i = 0; i < 4; ++i) /* where there is but one, any stride will do */
    if (x->bias.shape[i] == 1)
      x->bias.stride[i] = 12345;
}

/* ---- The other groups ------------------------------------------------------------------------ */

static void add_window(scores *x, const score_shape *s, attnpress_forward_args *args) {
  x->window = (attnpress_window)ATTNPRESS_WINDOW_INIT;
  x->window.left = s->left;
  x->window.right = s->right;
  x->window.chunk = s->chunk;
  x->window.top_left = s->top_left;
  args->window = &x->window;
}

static void add_slopes(scores *x, slopes_layout layout, attnpress_forward_args *args,
                       uint64_t seed) {
  const int64_t batch = layout == SLOPES_OF_BATCH ? ap_extents_of(args).batch : 1,
                heads = args->q.shape[2];
  const int64_t step = layout == SLOPES_SPREAD ? 3 : 1;
  const int64_t shape[4] = {1, 1, batch, heads}, stride[4] = {0, 0, heads + 1, step};
  float *slopes = add_memory(x, TENSOR_SLOPES, "slopes", sizeof(float), shape, stride, 1);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      /* The first head, and each second one, is so steep that of far keys nothing is left. */
      slopes[b * stride[2] + h * step] =
          (h % 2 == 0 ? 16.0f : 1.0f) * (0.05f + 0.15f * fabsf(next_uniform(&seed)));
  x->alibi = (attnpress_alibi)ATTNPRESS_ALIBI_INIT;
  x->alibi.slopes = slopes;
  if (layout == SLOPES_OF_BATCH)
    x->alibi.stride[0] = heads + 1;
  if (layout != SLOPES_OF_HEADS)
    x->alibi.stride[1] = step;
  args->alibi = &x->alibi;
}

void scores_add_sinks(scores *x, const score_shape *s, attnpress_forward_args *args,
                      uint64_t seed) {
  const int64_t heads = args->q.shape[2], step = s->sinks_stride > 0 ? s->sinks_stride : 1;
  const int64_t shape[4] = {1, 1, 1, heads}, stride[4] = {0, 0, 0, step};
  if (s->sinks == 0)
    return;
  void *sinks = add_memory(x, TENSOR_SINKS, "sinks", bytes_of(s->sinks), shape, stride, 1);
  for (int64_t h = 0; h < heads; ++h)
    ap_store_element(sinks, h * step, h % 6 == 4 ? -INFINITY : 1.0f + 2.0f * next_uniform(&seed),
                     s->sinks);
  x->sinks = (attnpress_sinks)ATTNPRESS_SINKS_INIT;
  x->sinks.data = sinks;
  x->sinks.stride = s->sinks_stride;
  x->sinks.dtype = s->sinks;
  args->sinks = &x->sinks;
}

double scores_sink(const attnpress_forward_args *args, int64_t head) {
  const attnpress_sinks *sinks = args->sinks;
  if (sinks == NULL)
    return -INFINITY;
  return (double)ap_load_element(sinks->data, head * ap_sinks_stride(sinks), sinks->dtype);
}

/* Where seed and offset are in memory, those beside the pointer are others. */
static void add_dropout(scores *x, const score_shape *s, attnpress_forward_args *args,
                        uint64_t seed) {
  static const int64_t shape[4] = {1, 1, 1, 2}, stride[4] = {0, 0, 0, 1};
  x->dropout = (attnpress_dropout)ATTNPRESS_DROPOUT_INIT;
  x->dropout.probability = s->dropout;
  x->dropout.seed = next_bits(&seed);
  x->dropout.offset = next_bits(&seed);
  if (s->seed_in_memory) {
    uint64_t *words =
        add_memory(x, TENSOR_SEED, "seed and offset", sizeof(uint64_t), shape, stride, 0);
    words[0] = next_bits(&seed);
    words[1] = next_bits(&seed);
    x->dropout.seed_and_offset = words;
  }
  args->dropout = &x->dropout;
}

/* Extents of one have any stride, the others a gap behind each row. */
static void add_snippet(scores *x, snippet_file *f, attnpress_forward_args *args, uint64_t seed) {
  int64_t bytes[SNIPPET_BUFFERS];
  snippet_file_describe(f, args, bytes);
  for (int i = 0; i < f->mod.buffer_count; ++i) {
    attnpress_score_buffer *b = &f->buffers[i];
    const int element_bytes = b->dtype == ATTNPRESS_INT32 ? 4 : bytes_of(b->dtype);
    int64_t shape[4] = {1, 1, 1, 1}, stride[4] = {0, 0, 0, 0}, step = 1 + i % 2;
    for (int d = b->rank - 1; d >= 0; --d) {
      shape[4 - b->rank + d] = b->shape[d];
      stride[4 - b->rank + d] = b->stride[d] = step;
      step = step * b->shape[d] + 3;
    }
    b->data = add_memory(x, TENSOR_BUFFERS + i, b->name, element_bytes, shape, stride, i % 3);
    snippet_file_fill(f, i, (void *)(uintptr_t)b->data, ap_extents_of(args).seqlen_k,
                      seed + (uint64_t)i);
    for (int d = 0; d < b->rank; ++d)
      if (b->shape[d] == 1)
        b->stride[d] = 12345;
  }
  x->file = f;
  args->score_mod = &f->mod;
}

const attnpress_dbuffer *scores_add_gradients(scores *x) {
  for (int i = 0; i < x->file->mod.buffer_count; ++i) {
    const attnpress_score_buffer *b = &x->file->buffers[i];
    attnpress_dbuffer *d = &x->dbuffers[i];
    int64_t shape[4] = {1, 1, 1, 1}, stride[4] = {0, 0, 0, 0}, step = 1 + (i + 1) % 2;
    *d = (attnpress_dbuffer){NULL, {0, 0, 0, 0}};
    if (b->dtype == ATTNPRESS_INT32)
      continue;
    for (int n = b->rank - 1; n >= 0; --n) {
      shape[4 - b->rank + n] = b->shape[n];
      stride[4 - b->rank + n] = step;
      d->stride[n] = b->shape[n] == 1 ? 54321 : step;
      step = step * b->shape[n] + 5;
    }
    d->data =
        add_memory(x, TENSOR_GRADIENTS + i, "a buffer's gradient", sizeof(float), shape, stride, 1);
    x->tensors[TENSOR_GRADIENTS + i].writable = 1;
    for (int64_t n = 0; n < shape[0] * shape[1] * shape[2] * shape[3]; ++n) {
      int64_t at = 0, rest = n;
      for (int k = 3; k >= 0; rest /= shape[k--])
        at += rest % shape[k] * stride[k];
      d->data[at] = SCORES_GRADIENT_BEFORE;
    }
  }
  return x->dbuffers;
}

uint32_t *scores_add_map(scores *x, int64_t words) {
  const int64_t shape[4] = {1, 1, 1, words}, stride[4] = {0, 0, 0, 1};
  uint32_t *map = add_memory(x, TENSOR_MAP, "map", sizeof(uint32_t), shape, stride, 0);
  x->tensors[TENSOR_MAP].writable = 1;
  return map;
}

void scores_open(scores *x, const ap_variant *variant, const score_shape *s, snippet_file *file,
                 attnpress_forward_args *args, uint64_t seed) {
  const int32_t *axis = variant->axis;
  if (axis[AP_ATTENTION_MASK] == ATTNPRESS_WINDOW)
    add_window(x, s, args);
  if (axis[AP_ATTENTION_SOFTCAP])
    args->softcap = s->softcap;
  if (axis[AP_ATTENTION_ALIBI])
    add_slopes(x, s->slopes, args, seed + 1);
  if (axis[AP_ATTENTION_BIAS] != AP_ATTENTION_BIAS_NONE)
    add_bias(x, axis[AP_ATTENTION_BIAS], s->bias, args, seed + 2);
  if (axis[AP_ATTENTION_DROPOUT])
    add_dropout(x, s, args, seed + 3);
  if (file != NULL)
    add_snippet(x, file, args, seed + 5);
  scores_add_sinks(x, s, args, seed + 4);
}

void scores_close(scores *x) {
  for (int i = 0; i < SCORE_TENSORS; ++i)
    memory_unmap(&x->memory[i]);
}

void scores_print(const ap_variant *variant, const score_shape *s, char *text, int text_bytes) {
  static const char *const biases[] = {"padded",     "contiguous", "of heads",
                                       "of batch",   "of keys",    "every other element",
                                       "transposed", "far rows",   "far keys"};
  static const char *const slopes[] = {"of heads", "of batch and heads", "every third"};
  static const char *const dtypes[] = {"", "fp16", "bf16", "fp32"};
  const int32_t *axis = variant->axis;
  int size = 0;
  text[0] = '\0';
#define ADD(...)                                                                                   \
  size += size < text_bytes ? snprintf(text + size, (size_t)(text_bytes - size), __VA_ARGS__) : 0
  if (axis[AP_ATTENTION_MASK] == ATTNPRESS_WINDOW) {
    ADD(", window %d,%d", s->left, s->right);
    if (s->chunk > 0)
      ADD(", chunks of %d", s->chunk);
    if (s->top_left)
      ADD(", top-left");
  }
  if (axis[AP_ATTENTION_SOFTCAP])
    ADD(", softcap %g", (double)s->softcap);
  if (axis[AP_ATTENTION_BIAS] != AP_ATTENTION_BIAS_NONE)
    ADD(", bias %s", biases[s->bias]);
  if (axis[AP_ATTENTION_ALIBI])
    ADD(", slopes %s", slopes[s->slopes]);
  if (s->sinks != 0)
    ADD(", sinks in %s", dtypes[s->sinks]);
  if (axis[AP_ATTENTION_DROPOUT])
    ADD(", dropout %g%s", (double)s->dropout, s->seed_in_memory ? ", seed in memory" : "");
#undef ADD
}
