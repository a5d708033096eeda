/* attnpress run merge: random parts through the public API, timed, and checked against float64
 * (reference.h). */
#include <inttypes.h>
#include <stdio.h>

#include "../session.h"
#include "../tool.h"
#include "attnpress/merge.h"
#include "cpu/element.h"
#include "reference.h"

typedef struct run_state {
  tool_session session;
  merge_shape shape;
  int buffer[MERGE_BUFFERS];
  merge_problem device, host; /* the call, and the same in host memory */
  merge_problem before;       /* the parts before the call, where it writes over one */
  merge_error error;
} run_state;

static const char *const layout_names[] = {"bshd", "bhsd", "odd"};

TOOL_CALL_FUNCTIONS(call, merge)
/* Buffers with random parts; the call in the memory that it is made in, and in host memory. */
static int make_problem(run_state *s, uint64_t seed) {
  void *host[MERGE_BUFFERS], *data[MERGE_BUFFERS], *before[MERGE_BUFFERS];
  merge_lay_out(&s->host, &s->shape);
  s->device = s->before = s->host;
  for (int i = 0; i < MERGE_BUFFERS; ++i) {
    if (tool_session_add(&s->session, s->host.bytes[i], &s->buffer[i]) != TOOL_OK)
      return TOOL_FAILED;
    before[i] = host[i] = tool_session_host(&s->session, s->buffer[i]);
    data[i] = tool_session_data(&s->session, s->buffer[i]);
  }
  merge_point(&s->host, &s->shape, host);
  merge_point(&s->device, &s->shape, data);
  merge_fill(&s->host, seed);
  if (s->shape.in_place &&
      (tool_session_keep(&s->session, s->buffer[MERGE_OUTS], &before[MERGE_OUTS]) != TOOL_OK ||
       tool_session_keep(&s->session, s->buffer[MERGE_LSES], &before[MERGE_LSES]) != TOOL_OK))
    return TOOL_FAILED;
  merge_point(&s->before, &s->shape, before);
  return TOOL_OK;
}

static void check_row(void *context, int64_t row) {
  run_state *s = context;
  merge_check_row(&s->host.args, s->before.part, row, &s->error);
}

static int report(const run_state *s) {
  const merge_shape *p = &s->shape;
  const merge_error *e = &s->error;
  tool_verdict verdict = {e->ratio, e->elements, ""};
  char text[160];
  const double rows = (double)p->batch * (double)p->seqlen * (double)p->heads;
  const double in = (double)ap_element_bytes(p->dtype),
               out = (double)ap_element_bytes(p->out_dtype);
  snprintf(verdict.worst, sizeof verdict.worst,
           "%s: batch %" PRId64 ", row %" PRId64 ", head %" PRId64 ", column %" PRId64
           ": %.9g, expected %.9g",
           e->what != NULL ? e->what : "", e->batch, e->row, e->head, e->column, e->value,
           e->expected);
  snprintf(text, sizeof text,
           "merge of %d parts, batch %" PRId64 ", seqlen %" PRId64 ", %" PRId64 " heads of %" PRId64
           ", %s to %s%s",
           (int)p->num_parts, p->batch, p->seqlen, p->heads, p->head_dim,
           tool_dtype_names[p->dtype], tool_dtype_names[p->out_dtype],
           p->in_place ? ", in place" : "");
  return tool_session_report(
      &s->session, text,
      rows * (p->num_parts * ((double)p->head_dim * in + 4) + (double)p->head_dim * out + 4),
      &verdict);
}

static int run(run_state *s, uint64_t seed) {
  int status = tool_session_open(&s->session);
  if (status == TOOL_OK)
    status = make_problem(s, seed);
  const tool_call call = {&s->device.args, plan_call, run_call, NULL};
  if (status == TOOL_OK)
    status = tool_session_first(&s->session, &call);
  if (status == TOOL_OK)
    tool_session_check_rows(&s->session, s->shape.batch * s->shape.seqlen * s->shape.heads,
                            check_row, s);
  if (status == TOOL_OK)
    status = tool_session_time(&s->session, &call);
  return status == TOOL_OK ? report(s) : status;
}

static int run_words(int argc, char **argv) {
  run_state s = {.shape = {.batch = 2, .seqlen = 1024, .heads = 32, .head_dim = 128}};
  int64_t parts = 2, seed = 1;
  int dtype = ATTNPRESS_BF16, out_dtype = 0, layout = MERGE_PACKED, log2 = 0, in_place = 0;
  const tool_number numbers[] = {{"--parts", &parts, 1, ATTNPRESS_MERGE_PARTS_MAX},
                                 {"--batch", &s.shape.batch, 1, INT32_MAX},
                                 {"--seqlen", &s.shape.seqlen, 1, INT32_MAX},
                                 {"--heads", &s.shape.heads, 1, INT32_MAX},
                                 {"--head-dim", &s.shape.head_dim, 1, INT32_MAX},
                                 {"--seed", &seed, 0, INT32_MAX},
                                 {NULL, NULL, 0, 0}};
  const tool_choice choices[] = {{"--dtype", tool_dtype_names, ATTNPRESS_FP16, 4, &dtype},
                                 {"--out-dtype", tool_dtype_names, ATTNPRESS_FP16, 4, &out_dtype},
                                 {"--layout", layout_names, 0, MERGE_LAYOUTS, &layout},
                                 {NULL, NULL, 0, 0, NULL}};
  const tool_flag flags[] = {{"--log2", &log2}, {"--in-place", &in_place}, {NULL, NULL}};
  const tool_options options = {numbers, choices, flags, NULL, NULL};
  int status = tool_session_parse(&s.session, "run merge", &options, argc, argv);
  if (status != TOOL_OK)
    return status;
  s.shape.num_parts = (int32_t)parts;
  s.shape.dtype = dtype;
  s.shape.out_dtype = out_dtype != 0 ? out_dtype : dtype;
  s.shape.layout = layout;
  s.shape.lse_log2 = log2;
  s.shape.in_place = in_place;
  if ((double)s.shape.batch * (double)s.shape.seqlen * (double)s.shape.heads *
          (double)s.shape.head_dim >
      1e12)
    return tool_usage("run merge",
                      "--batch %" PRId64 " is too many: a part would have over 10^12 elements",
                      s.shape.batch);
  if (in_place && s.shape.out_dtype != s.shape.dtype)
    return tool_usage("run merge",
                      "--out-dtype %s and --in-place: the result over a part of %s "
                      "has that dtype",
                      tool_dtype_names[s.shape.out_dtype], tool_dtype_names[s.shape.dtype]);
  status = run(&s, (uint64_t)seed);
  tool_session_close(&s.session);
  return status;
}

const tool_command ap_tool_run_merge = {
    .name = "run merge",
    .summary = "results of attention over parts of the keys into one",
    .usage = "--parts N --batch N --seqlen N --heads N --head-dim N [OPTION]...",
    .about =
        "Makes random results of attention over parts of the keys, merges them into one, times "
        "that, and checks the result against float64.",
    .options = {(const tool_opt[]){
                    {"--parts", "N", "results to merge, 1 to 16 (2)"},
                    {"--batch", "N", "(2)"},
                    {"--seqlen", "N", "(1024)"},
                    {"--heads", "N", "(32)"},
                    {"--head-dim", "N", "(128)"},
                    {"--dtype", "fp16|bf16|fp32", "of the parts (bf16)"},
                    {"--out-dtype", "fp16|bf16|fp32", "of the result (that of the parts)"},
                    {"--layout", "bshd|bhsd|odd",
                     "bhsd: heads outside of rows; odd: rows begin at any element (bshd)"},
                    {"--log2", NULL, "lse is to base 2"},
                    {"--in-place", NULL, "the result is written over the last part"},
                    {NULL, NULL, NULL}},
                tool_session_options},
    .more = TOOL_RUN_STATUS,
    .run = run_words,
};
