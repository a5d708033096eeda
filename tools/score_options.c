#include "score_options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/ragged.h"
#include "reference.h"

const tool_opt score_options_table[] = {
    {"--window", "L,R", "each query sees L keys before its own and R behind it; -1: all"},
    {"--chunk", "N", "and only those of its own chunk of N keys"},
    {"--top-left", NULL, "the first query stands at the first key, not the last at the last"},
    {"--softcap", "X", "scores become X tanh(score / X)"},
    {"--alibi", NULL, "slopes of 2^(-8 h / heads) times the distance are taken off"},
    {"--bias", "fp16|bf16|fp32", "a bias (batch, heads, queries, keys)"},
    {"--sinks", NULL, "a sink a head"},
    {"--dropout", "P", "probabilities are dropped with probability P"},
    {"--mod", "FILE", "a snippet for scores and masks (docs/score-mods.md), with random buffers"},
    {"--mod-scalar", "N=X", "its scalar N is X"},
    {NULL, NULL, NULL}};

static const char *const dtype_names[] = {"none", "fp16", "bf16", "fp32"};

/* ---- Words ---- */

static int parse_int(const char *text, const char *end_at, int64_t least, int64_t *value) {
  char *end;
  errno = 0;
  *value = strtoll(text, &end, 10);
  return end != text && end == end_at && errno == 0 && *value >= least;
}

static int parse_window(score_options *o, const char *text) {
  const char *comma = strchr(text, ',');
  return comma != NULL && parse_int(text, comma, -1, &o->left) &&
         parse_int(comma + 1, comma + strlen(comma), -1, &o->right);
}

/* A number from `least` to less than `end`. */
static int parse_float(const char *text, double least, double end, float *value) {
  char *last;
  const double number = strtod(text, &last);
  *value = (float)number;
  return last != text && *last == '\0' && number >= least && number < end;
}

static int parse_dtype(const char *text, int *dtype) {
  for (int i = ATTNPRESS_FP16; i <= ATTNPRESS_FP32; ++i)
    if (strcmp(text, dtype_names[i]) == 0) {
      *dtype = i;
      return 1;
    }
  return 0;
}

/* Of windows: what is not said is unbounded. */
static void make_windowed(score_options *o) {
  if (!o->windowed)
    o->left = o->right = -1;
  o->windowed = 1;
}

int score_options_flag(score_options *o, const char *word) {
  if (strcmp(word, "--alibi") == 0)
    return o->alibi = 1;
  if (strcmp(word, "--sinks") == 0)
    return o->sinks = 1;
  if (strcmp(word, "--top-left") != 0)
    return 0;
  make_windowed(o);
  return o->top_left = 1;
}

const char *const score_option_names[] = {"--window",  "--chunk", "--softcap",    "--bias",
                                          "--dropout", "--mod",   "--mod-scalar", NULL};

const char *score_options_value(score_options *o, const char *name, const char *value) {
  if (strcmp(name, "--window") == 0) {
    make_windowed(o);
    return parse_window(o, value) ? NULL : "two whole numbers such as 127,0, each -1 (all) or more";
  }
  if (strcmp(name, "--chunk") == 0) {
    make_windowed(o);
    return parse_int(value, value + strlen(value), 1, &o->chunk) ? NULL : "a whole number from 1";
  }
  if (strcmp(name, "--softcap") == 0)
    return parse_float(value, 0x1p-126, 0x1p127, &o->softcap) ? NULL : "a positive number";
  if (strcmp(name, "--mod") == 0) {
    o->mod = value;
    return *value != '\0' ? NULL : "the path of a file";
  }
  if (strcmp(name, "--mod-scalar") == 0) {
    int count = 0;
    while (o->mod_scalars[count] != NULL)
      ++count;
    if (count == 16)
      return "one of 16 at the most";
    o->mod_scalars[count] = value;
    return strchr(value, '=') != NULL ? NULL : "a scalar's name, = and a number, such as cap=20";
  }
  if (strcmp(name, "--bias") == 0)
    return parse_dtype(value, &o->bias) ? NULL : "fp16, bf16 or fp32";
  return parse_float(value, 0.0, 1.0, &o->dropout) ? NULL : "a number from 0 to less than 1";
}

int32_t score_options_mask(const score_options *o, int causal) {
  return o->windowed ? ATTNPRESS_WINDOW : causal ? ATTNPRESS_CAUSAL : ATTNPRESS_FULL;
}

attnpress_window score_options_window(const score_options *o, int causal) {
  attnpress_window window = ATTNPRESS_WINDOW_INIT;
  window.left = o->left;
  window.right = causal ? 0 : o->right;
  window.chunk = o->chunk;
  window.top_left = o->top_left;
  return window;
}

void score_options_print(const score_options *o, int causal, char *text, size_t text_bytes) {
  const attnpress_window w = score_options_window(o, causal);
  size_t used = 0;
#define ADD(...)                                                                                   \
  used += (size_t)snprintf(text + (used < text_bytes ? used : text_bytes - 1),                     \
                           used < text_bytes ? text_bytes - used : 1, __VA_ARGS__)
  if (o->windowed)
    ADD("window %" PRId64 ",%" PRId64, w.left, w.right);
  else
    ADD("%s", causal ? "causal" : "full");
  if (o->windowed && o->chunk > 0)
    ADD(", chunks of %" PRId64, o->chunk);
  if (o->top_left)
    ADD(", top left");
  if (o->softcap > 0.0f)
    ADD(", softcap %g", (double)o->softcap);
  if (o->alibi)
    ADD(", ALiBi");
  if (o->bias)
    ADD(", bias %s", dtype_names[o->bias]);
  if (o->sinks)
    ADD(", sinks");
  if (o->dropout > 0.0f)
    ADD(", dropout %g", (double)o->dropout);
  if (o->mod != NULL)
    ADD(", snippet %s", o->mod);
#undef ADD
}

/* ---- Data ---- */

int score_data_read(score_data *data, const score_options *o, char *why, int why_bytes) {
  if (o->mod == NULL) {
    if (o->mod_scalars[0] == NULL)
      return 0;
    snprintf(why, (size_t)why_bytes, "--mod-scalar %s is given without --mod", o->mod_scalars[0]);
    return -1;
  }
  if (snippet_file_read(&data->file, o->mod, why, why_bytes) != 0)
    return -1;
  if (data->file.f != NULL) {
    snprintf(why, (size_t)why_bytes, "%s has an f:, which is a function of the outer product",
             o->mod);
    return -1;
  }
  for (int i = 0; o->mod_scalars[i] != NULL; ++i)
    if (snippet_file_set(&data->file, o->mod_scalars[i], why, why_bytes) != 0)
      return -1;
  return 0;
}

void score_data_describe(score_data *data, const score_options *o, int causal, uint64_t seed,
                         attnpress_forward_args *args) {
  const ap_extents of = ap_extents_of(args);
  const int64_t batch = of.batch, seqlen_q = of.seqlen_q, seqlen_k = of.seqlen_k;
  const int64_t heads = args->q.shape[2];
  score_groups *g = &data->host;
  args->mask = score_options_mask(o, causal);
  if (args->mask == ATTNPRESS_WINDOW) {
    g->window = score_options_window(o, causal);
    args->window = &g->window;
  }
  args->softcap = o->softcap;
  if (o->alibi) {
    g->alibi = (attnpress_alibi)ATTNPRESS_ALIBI_INIT;
    data->bytes[SCORE_SLOPES] = (size_t)heads * sizeof(float);
    args->alibi = &g->alibi;
  }
  if (o->bias) {
    g->bias = (attnpress_bias)ATTNPRESS_BIAS_INIT;
    g->bias.dtype = o->bias;
    memcpy(g->bias.shape, (int64_t[]){batch, heads, seqlen_q, seqlen_k}, sizeof g->bias.shape);
    memcpy(g->bias.stride,
           (int64_t[]){heads * seqlen_q * seqlen_k, seqlen_q * seqlen_k, seqlen_k, 1},
           sizeof g->bias.stride);
    data->bytes[SCORE_BIAS] =
        (size_t)(batch * heads * seqlen_q * seqlen_k) * (size_t)reference_element_bytes(o->bias);
    args->bias = &g->bias;
  }
  if (o->sinks) {
    g->sinks = (attnpress_sinks)ATTNPRESS_SINKS_INIT;
    g->sinks.dtype = args->q.dtype;
    data->bytes[SCORE_SINKS] = (size_t)heads * (size_t)reference_element_bytes(args->q.dtype);
    args->sinks = &g->sinks;
  }
  if (o->dropout > 0.0f) {
    g->dropout = (attnpress_dropout)ATTNPRESS_DROPOUT_INIT;
    g->dropout.probability = o->dropout;
    g->dropout.seed = seed;
    args->dropout = &g->dropout;
  }
  if (data->file.text != NULL) {
    int64_t bytes[SNIPPET_BUFFERS];
    snippet_file_describe(&data->file, args, bytes);
    for (int i = 0; i < SNIPPET_BUFFERS; ++i)
      data->bytes[SCORE_MOD + i] = (size_t)bytes[i];
    data->seqlen_k = seqlen_k;
    g->mod = data->file.mod;
    memcpy(g->mod_buffers, data->file.buffers, sizeof g->mod_buffers);
    g->mod.buffers = g->mod_buffers;
    args->score_mod = &g->mod;
  }
}

static void place(score_groups *g, void *const buffers[SCORE_BUFFERS]) {
  g->bias.data = buffers[SCORE_BIAS];
  g->alibi.slopes = buffers[SCORE_SLOPES];
  g->sinks.data = buffers[SCORE_SINKS];
  for (int i = 0; i < SNIPPET_BUFFERS; ++i)
    g->mod_buffers[i].data = buffers[SCORE_MOD + i];
  g->mod.buffers = g->mod_buffers;
}

int score_data_allocate(score_data *data, uint64_t seed) {
  for (int i = 0; i < SCORE_BUFFERS; ++i) {
    if (data->bytes[i] == 0)
      continue;
    data->buffers[i] = malloc(data->bytes[i]);
    if (data->buffers[i] == NULL)
      return -1;
  }
  score_groups *g = &data->host;
  place(g, data->buffers);
  if (g->bias.data != NULL) {
    attnpress_tensor t = {.data = data->buffers[SCORE_BIAS], .dtype = g->bias.dtype};
    memcpy(t.shape, g->bias.shape, sizeof t.shape);
    memcpy(t.stride, g->bias.stride, sizeof t.stride);
    reference_fill_normal(&t, seed);
  }
  if (g->alibi.slopes != NULL) {
    const int heads = (int)(data->bytes[SCORE_SLOPES] / sizeof(float));
    float *slopes = data->buffers[SCORE_SLOPES];
    for (int h = 0; h < heads; ++h)
      slopes[h] = exp2f(-8.0f * (float)(h + 1) / (float)heads);
  }
  if (g->sinks.data != NULL) {
    const int64_t heads =
        (int64_t)data->bytes[SCORE_SINKS] / reference_element_bytes(g->sinks.dtype);
    const attnpress_tensor t =
        attnpress_tensor_bshd(data->buffers[SCORE_SINKS], 1, 1, 1, heads, g->sinks.dtype);
    reference_fill_normal(&t, seed + 1);
  }
  for (int i = 0; i < g->mod.buffer_count; ++i)
    snippet_file_fill(&data->file, i, data->buffers[SCORE_MOD + i], data->seqlen_k,
                      seed + 2 + (uint64_t)i);
  return 0;
}

void score_data_free(score_data *data) {
  for (int i = 0; i < SCORE_BUFFERS; ++i)
    free(data->buffers[i]);
  snippet_file_free(&data->file);
}

void score_groups_move(score_groups *to, const score_groups *from,
                       void *const buffers[SCORE_BUFFERS], attnpress_forward_args *args) {
  *to = *from;
  place(to, buffers);
  args->window = args->window != NULL ? &to->window : NULL;
  args->alibi = args->alibi != NULL ? &to->alibi : NULL;
  args->bias = args->bias != NULL ? &to->bias : NULL;
  args->sinks = args->sinks != NULL ? &to->sinks : NULL;
  args->dropout = args->dropout != NULL ? &to->dropout : NULL;
  args->score_mod = args->score_mod != NULL ? &to->mod : NULL;
}
