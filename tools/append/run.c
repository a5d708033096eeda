/* attnpress run append: random tokens through the public API, timed, and checked against float64
 * (reference.h). */
#include <inttypes.h>
#include <stdio.h>

#include "../session.h"
#include "../tool.h"
#include "attnpress/append.h"
#include "cpu/element.h"
#include "reference.h"

typedef struct run_state {
  tool_session session;
  append_shape shape;
  int buffer[APPEND_BUFFERS];
  append_problem device, host; /* the call, and the same in host memory */
  append_problem before;       /* in memory of its own, as everything was */
  append_check check;
  append_error error;
} run_state;

static const char *const layout_names[] = {"bshd", "bhsd", "odd"};
static const char *const place_names[] = {"dense", "batch-idx", "pages", "slots", "picked", "flat"};
static const char *const style_names[] = {"none", "neox", "interleaved"};

TOOL_CALL_FUNCTIONS(call, append)
/* Buffers with random tokens, three times: where the call is made, in host memory, and a copy
 * there. */
static int make_problem(run_state *s, uint64_t seed) {
  void *host[APPEND_BUFFERS] = {NULL}, *data[APPEND_BUFFERS] = {NULL};
  void *before[APPEND_BUFFERS] = {NULL};
  append_lay_out(&s->host, &s->shape);
  s->device = s->before = s->host;
  for (int i = 0; i < APPEND_BUFFERS; ++i) {
    s->buffer[i] = -1;
    if (s->host.bytes[i] == 0)
      continue;
    if (tool_session_add(&s->session, s->host.bytes[i], &s->buffer[i]) != TOOL_OK)
      return TOOL_FAILED;
    host[i] = tool_session_host(&s->session, s->buffer[i]);
    data[i] = tool_session_data(&s->session, s->buffer[i]);
  }
  append_point(&s->host, &s->shape, host);
  append_point(&s->device, &s->shape, data);
  append_fill(&s->host, &s->shape, seed);
  for (int i = 0; i < APPEND_BUFFERS; ++i)
    if (host[i] != NULL && tool_session_keep(&s->session, s->buffer[i], &before[i]) != TOOL_OK)
      return TOOL_FAILED;
  append_point(&s->before, &s->shape, before);
  return TOOL_OK;
}

static void check_row(void *context, int64_t row) {
  run_state *s = context;
  append_check_row(&s->check, row, &s->error);
}

static int check(run_state *s) {
  s->check = (append_check){.args = &s->host.args, .before = &s->before.args};
  if (append_check_open(&s->check) != 0) {
    fprintf(stderr, "attnpress run append: host memory for the check could not be had\n");
    return TOOL_FAILED;
  }
  tool_session_check_rows(&s->session, append_check_rows(&s->check), check_row, s);
  append_check_close(&s->check);
  return TOOL_OK;
}

static int report(const run_state *s) {
  const append_shape *p = &s->shape;
  const append_error *e = &s->error;
  tool_verdict verdict = {e->ratio, e->elements, ""};
  char text[200];
  const double tokens = (double)p->batch * (double)p->new_tokens,
               columns = (double)p->heads_kv * (double)(p->head_dim + p->head_dim_v) +
                         (double)p->heads_q * (double)p->head_dim;
  snprintf(verdict.worst, sizeof verdict.worst,
           "%s[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]: %.9g, expected %.9g",
           e->what != NULL ? e->what : "", e->at[0], e->at[1], e->at[2], e->at[3], e->value,
           e->expected);
  snprintf(text, sizeof text,
           "append, batch %" PRId64 " x %" PRId64 " new, %" PRId64 " heads of q, %" PRId64
           " of K, head dim %" PRId64 ", %s, %d columns rotated, %s",
           p->batch, p->new_tokens, p->heads_q, p->heads_kv, p->head_dim, place_names[p->places],
           (int)p->rotary_dim, tool_dtype_names[p->dtype]);
  return tool_session_report(&s->session, text,
                             2 * tokens * columns * (double)ap_element_bytes(p->dtype), &verdict);
}

static int run(run_state *s, uint64_t seed) {
  int status = tool_session_open(&s->session);
  if (status == TOOL_OK)
    status = make_problem(s, seed);
  const tool_call call = {&s->device.args, plan_call, run_call, NULL};
  if (status == TOOL_OK)
    status = tool_session_first(&s->session, &call);
  if (status == TOOL_OK)
    status = check(s);
  if (status == TOOL_OK)
    status = tool_session_time(&s->session, &call);
  return status == TOOL_OK ? report(s) : status;
}

/* Of numbers, words and flags. */
static int set_shape(append_shape *s, int64_t rotary_dim, int64_t head_dim_v, int style) {
  s->head_dim_v = head_dim_v != 0 ? head_dim_v : s->head_dim;
  if (s->cache_rows == 0)
    s->cache_rows = s->places == APPEND_DENSE || s->places == APPEND_BATCH_IDX ? 1024 : 16;
  s->interleaved = style == 2;
  s->rotary_dim = (int32_t)(style == 0 ? 0 : rotary_dim != 0 ? rotary_dim : s->head_dim);
  if (s->rotary_dim == 0)
    s->heads_q = 0;
  if (s->rotary_dim % 2 != 0 || s->rotary_dim > s->head_dim)
    return tool_usage("run append",
                      "--rotary-dim is %d; it must be a multiple of 2 and at most --head-dim, "
                      "%" PRId64,
                      (int)s->rotary_dim, s->head_dim);
  if ((double)s->batch * (double)s->new_tokens * (double)(s->heads_q + s->heads_kv) *
              (double)(s->head_dim + s->head_dim_v) >
          1e12 ||
      (double)s->batch * (double)s->cache_rows * (double)s->heads_kv * (double)s->head_dim > 1e12)
    return tool_usage("run append",
                      "--batch %" PRId64 " is too many: a tensor would have over 10^12 elements",
                      s->batch);
  return TOOL_OK;
}

static int run_words(int argc, char **argv) {
  run_state s = {
      .shape = {.batch = 32, .new_tokens = 1, .heads_kv = 8, .heads_q = 32, .head_dim = 128}};
  append_shape *p = &s.shape;
  int64_t rotary_dim = 0, head_dim_v = 0, seed = 1;
  int dtype = ATTNPRESS_BF16, layout = APPEND_PACKED, places = APPEND_DENSE, style = 1;
  int ragged = 0, positions = 0, first = 0, at_first = 0, own = 0, q_out = 0, bad = 0;
  const tool_number numbers[] = {{"--batch", &p->batch, 1, INT32_MAX},
                                 {"--new", &p->new_tokens, 1, INT32_MAX},
                                 {"--heads", &p->heads_q, 0, INT32_MAX},
                                 {"--kv-heads", &p->heads_kv, 1, INT32_MAX},
                                 {"--head-dim", &p->head_dim, 1, INT32_MAX},
                                 {"--head-dim-v", &head_dim_v, 1, INT32_MAX},
                                 {"--cache-rows", &p->cache_rows, 1, INT32_MAX},
                                 {"--rotary-dim", &rotary_dim, 2, INT32_MAX},
                                 {"--seed", &seed, 0, INT32_MAX},
                                 {NULL, NULL, 0, 0}};
  const tool_choice choices[] = {{"--dtype", tool_dtype_names, ATTNPRESS_FP16, 4, &dtype},
                                 {"--layout", layout_names, 0, APPEND_LAYOUTS, &layout},
                                 {"--places", place_names, 0, APPEND_PLACES, &places},
                                 {"--rotary", style_names, 0, 3, &style},
                                 {NULL, NULL, 0, 0, NULL}};
  const tool_flag flags[] = {{"--ragged", &ragged},
                             {"--positions", &positions},
                             {"--first-positions", &first},
                             {"--q-at-first", &at_first},
                             {"--tables-own", &own},
                             {"--q-out", &q_out},
                             {"--bad", &bad},
                             {NULL, NULL}};
  const tool_options options = {numbers, choices, flags, NULL, NULL};
  int status = tool_session_parse(&s.session, "run append", &options, argc, argv);
  if (status != TOOL_OK)
    return status;
  p->dtype = dtype;
  p->layout = layout;
  p->places = places;
  p->ragged = ragged;
  p->own_positions = positions;
  p->own_first = first;
  p->q_at_first = at_first;
  p->rotary_own = own;
  p->q_out = q_out;
  p->bad = bad;
  status = set_shape(p, rotary_dim, head_dim_v, style);
  if (status != TOOL_OK)
    return status;
  status = run(&s, (uint64_t)seed);
  tool_session_close(&s.session);
  return status;
}

const tool_command ap_tool_run_append = {
    .name = "run append",
    .summary = "new keys and values into a cache, with rotary embeddings",
    .usage = "--batch N --new N --cache-rows N [OPTION]...",
    .about =
        "Makes random new keys, values and queries, writes them to their place in a cache with "
        "rotary embeddings, times that, and checks cache and queries against float64.",
    .options = {(const tool_opt[]){
                    {"--batch", "N", "sequences (32)"},
                    {"--new", "N", "new tokens of a sequence (1)"},
                    {"--heads", "N", "heads of q; 0: no queries (32)"},
                    {"--kv-heads", "N", "heads of k and v (8)"},
                    {"--head-dim", "N", "of q and k (128)"},
                    {"--head-dim-v", "N", "of v (that of K)"},
                    {"--cache-rows", "N",
                     "of a sequence, or of a page (1024; pages and slots: 16)"},
                    {"--places", "dense|batch-idx|pages|slots|picked|flat",
                     "by sequence, kv_batch_idx, page_table, slot_mapping, the second and third, "
                     "or flat tables of K and of V (dense)"},
                    {"--rotary", "none|neox|interleaved", "(neox)"},
                    {"--rotary-dim", "N", "columns that are rotated (the head dim)"},
                    {"--dtype", "fp16|bf16|fp32", "(bf16)"},
                    {"--layout", "bshd|bhsd|odd",
                     "bhsd: heads outside of rows; odd: rows begin at any element (bshd)"},
                    {"--ragged", NULL, "sequences of different lengths, one behind the other"},
                    {"--positions", NULL, "a position for each token"},
                    {"--first-positions", NULL, "a position for each sequence's first token"},
                    {"--q-at-first", NULL, "queries stand at their sequence's first token"},
                    {"--tables-own", NULL, "cos and sin of the tensors' dtype, side by side"},
                    {"--q-out", NULL, "rotated queries are written to another tensor"},
                    {"--bad", NULL, "some indices are out of range"},
                    {NULL, NULL, NULL}},
                tool_session_options},
    .more = TOOL_RUN_STATUS,
    .run = run_words,
};
