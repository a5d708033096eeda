/* attnpress run matmul: random inputs through the public API, timed, and checked against float64
 * (reference.h). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "../rows.h"
#include "../session.h"
#include "../tool.h"
#include "attnpress/matmul.h"
#include "reference.h"

typedef struct run_options {
  int64_t rows, n, gap, seed;
  int dtype, w_dtype, transposed;
} run_options;

typedef struct run_state {
  tool_session session;
  run_options o;
  int x, w; /* buffers */
  matmul_case c;
  matmul_error error;
  attnpress_matmul_args args;
} run_state;

TOOL_CALL_FUNCTIONS(call, matmul)

/* W keeps the size of what it multiplies, so that x, which each call writes, stays finite. */
static int add_buffers(run_state *s) {
  const run_options *o = &s->o;
  const int64_t stride = o->n + o->gap;
  if (tool_session_add(&s->session, rows_span_bytes(o->rows, o->n, stride, o->dtype), &s->x) !=
          TOOL_OK ||
      tool_session_add(&s->session, rows_span_bytes(o->n, o->n, stride, o->w_dtype), &s->w) !=
          TOOL_OK)
    return TOOL_FAILED;
  void *x = tool_session_host(&s->session, s->x), *w = tool_session_host(&s->session, s->w);
  rows_fill(x, o->rows, o->n, stride, o->dtype, 0.0, 1.0, (uint64_t)o->seed);
  rows_fill(w, o->n, o->n, stride, o->w_dtype, 0.0, o->n > 0 ? 1.0 / sqrt((double)o->n) : 1.0,
            (uint64_t)o->seed + 1);
  void *before;
  if (tool_session_keep(&s->session, s->x, &before) != TOOL_OK)
    return TOOL_FAILED;
  s->c = (matmul_case){o->dtype, o->w_dtype, o->transposed, o->rows, o->n,  before,
                       x,        w,          stride,        stride,  stride};
  return TOOL_OK;
}

static tool_call call_of(run_state *s) {
  const run_options *o = &s->o;
  s->args = (attnpress_matmul_args){.struct_size = sizeof s->args,
                                    .x = tool_session_data(&s->session, s->x),
                                    .w = tool_session_data(&s->session, s->w),
                                    .rows = o->rows,
                                    .n = o->n,
                                    .x_stride = o->n + o->gap,
                                    .w_stride = o->n + o->gap,
                                    .dtype = o->dtype,
                                    .w_dtype = o->w_dtype,
                                    .transposed = o->transposed};
  return (tool_call){&s->args, plan_call, run_call, NULL};
}

static void check_row(void *context, int64_t row) {
  run_state *s = context;
  matmul_check_row(&s->c, row, &s->error);
}

static int run(run_state *s) {
  const run_options *o = &s->o;
  const matmul_error *e = &s->error;
  int status = tool_session_open(&s->session);
  if (status == TOOL_OK)
    status = add_buffers(s);
  if (status != TOOL_OK)
    return status;
  const tool_call call = call_of(s);
  status = tool_session_first(&s->session, &call);
  if (status == TOOL_OK && o->n > 0)
    tool_session_check_rows(&s->session, o->rows, check_row, s);
  if (status == TOOL_OK)
    status = tool_session_time(&s->session, &call);
  if (status != TOOL_OK)
    return status;
  tool_verdict verdict = {e->ratio, e->elements, ""};
  char text[160];
  snprintf(verdict.worst, sizeof verdict.worst,
           "row %" PRId64 ", column %" PRId64 ": %.9g, expected %.9g", e->row, e->column, e->value,
           e->expected);
  snprintf(text, sizeof text, "x = x W%s in place, %" PRId64 " rows, n %" PRId64 ", %s, W %s",
           o->transposed ? "^T" : "", o->rows, o->n, tool_dtype_names[o->dtype],
           tool_dtype_names[o->w_dtype]);
  if (s->session.run_ms > 0)
    printf("rate      %.1f TFLOP/s\n",
           2.0 * (double)o->rows * (double)o->n * (double)o->n / s->session.run_ms * 1e-9);
  return tool_session_report(&s->session, text, 4.0 * (double)o->rows * (double)o->n, &verdict);
}

static int run_words(int argc, char **argv) {
  run_state s = {.o = {.rows = 4096, .n = 512, .seed = 1, .dtype = ATTNPRESS_BF16}};
  run_options *o = &s.o;
  const tool_number numbers[] = {{"--rows", &o->rows, 0, INT64_MAX / 4},
                                 {"--n", &o->n, 0, ATTNPRESS_MATMUL_N_MAX},
                                 {"--gap", &o->gap, 0, INT32_MAX},
                                 {"--seed", &o->seed, 0, INT32_MAX},
                                 {NULL, NULL, 0, 0}};
  const tool_choice choices[] = {{"--dtype", tool_dtype_names, ATTNPRESS_FP16, 3, &o->dtype},
                                 {"--w-dtype", tool_dtype_names, ATTNPRESS_FP16, 4, &o->w_dtype},
                                 {NULL, NULL, 0, 0, NULL}};
  const tool_flag flags[] = {{"--transposed", &o->transposed}, {NULL, NULL}};
  const tool_options options = {numbers, choices, flags, NULL, NULL};
  int status = tool_session_parse(&s.session, "run matmul", &options, argc, argv);
  if (status != TOOL_OK)
    return status;
  if (o->w_dtype == 0)
    o->w_dtype = o->dtype;
  if ((double)o->rows * (double)(o->n + o->gap) > 1e15)
    return tool_usage("run matmul",
                      "--rows %" PRId64 " is too many: x would have over 10^15 elements", o->rows);
  status = run(&s);
  tool_session_close(&s.session);
  return status;
}

const tool_command ap_tool_run_matmul = {
    .name = "run matmul",
    .summary = "matrix products in place",
    .usage = "--rows N --n N [OPTION]...",
    .about = "Makes random inputs, runs x = x W in place for a square W, times it, and checks the "
             "first result against float64.",
    .options = {(const tool_opt[]){{"--rows", "N", "of x (4096)"},
                                   {"--n", "N", "columns of x and W, a multiple of 8 (512)"},
                                   {"--gap", "N", "elements between rows, a multiple of 8 (0)"},
                                   {"--dtype", "fp16|bf16", "of x (bf16)"},
                                   {"--w-dtype", "fp16|bf16|fp32", "of W (x's)"},
                                   {"--transposed", NULL, "x = x W^T"},
                                   {NULL, NULL, NULL}},
                tool_session_options},
    .more = TOOL_RUN_STATUS,
    .run = run_words,
};
