/* attnpress run softmax: random inputs through the public API, timed, and checked against float64
 * (reference.h). */
#include <inttypes.h>
#include <stdio.h>

#include "../session.h"
#include "../tool.h"
#include "attnpress/softmax.h"
#include "cpu/element.h"
#include "reference.h"

enum { NOT_GIVEN = -1, TENSORS_MAX = 3 };

typedef struct run_options {
  int64_t rows, columns, stride, seed;
  int dtype, backward, in_place;
  float scale;
} run_options;

/* Tensors are x, y or y, dy, dx; the last is the output, and in place it is the one before it. */
typedef struct run_state {
  tool_session session;
  run_options o;
  int tensors, buffer[TENSORS_MAX];
  softmax_case c;
  softmax_error error;
  union {
    attnpress_softmax_args forward;
    attnpress_softmax_backward_args backward;
  } args;
} run_state;

/* ---- Data ------------------------------------------------------------------------------------ */

/* What the reference reads; the buffers, filled with NaN. */
static int add_buffers(run_state *s) {
  const run_options *o = &s->o;
  const int output = s->tensors - 1;
  int status = TOOL_OK;
  s->c = (softmax_case){.backward = o->backward,
                        .dtype = o->dtype,
                        .scale = o->scale == 0.0f ? 1.0f : o->scale,
                        .rows = o->rows,
                        .columns = o->columns,
                        .input_stride = {o->stride, o->stride},
                        .output_stride = o->stride};
  const int64_t bytes = softmax_span_bytes(&s->c, o->stride);
  for (int i = 0; i < s->tensors && status == TOOL_OK; ++i)
    if (o->in_place && i == output)
      s->buffer[i] = s->buffer[i - 1];
    else
      status = tool_session_add(&s->session, bytes, &s->buffer[i]);
  return status;
}

/* Random inputs. */
static int fill(run_state *s) {
  const run_options *o = &s->o;
  const int output = s->tensors - 1;
  for (int i = 0; i < output; ++i) {
    void *host = tool_session_host(&s->session, s->buffer[i]);
    softmax_fill(host, &s->c, o->stride, o->backward ? 1.0 : 3.0, o->backward && i == 0,
                 (uint64_t)o->seed + (uint64_t)i);
    s->c.input[i] = host;
  }
  s->c.output = tool_session_host(&s->session, s->buffer[output]);
  if (!o->in_place)
    return TOOL_OK;
  void *before;
  if (tool_session_keep(&s->session, s->buffer[output], &before) != TOOL_OK)
    return TOOL_FAILED;
  s->c.input[output - 1] = before;
  return TOOL_OK;
}

/* ---- The call -------------------------------------------------------------------------------- */

TOOL_CALL_FUNCTIONS(forward, softmax)
TOOL_CALL_FUNCTIONS(backward, softmax_backward)
static tool_call call_of(run_state *s) {
  const run_options *o = &s->o;
  void *t[TENSORS_MAX] = {NULL};
  for (int i = 0; i < s->tensors; ++i)
    t[i] = tool_session_data(&s->session, s->buffer[i]);
  if (o->backward) {
    s->args.backward = (attnpress_softmax_backward_args){.struct_size = sizeof s->args.backward,
                                                         .y = t[0],
                                                         .dy = t[1],
                                                         .dx = t[2],
                                                         .rows = o->rows,
                                                         .columns = o->columns,
                                                         .y_row_stride = o->stride,
                                                         .dy_row_stride = o->stride,
                                                         .dx_row_stride = o->stride,
                                                         .dtype = o->dtype,
                                                         .scale = o->scale};
    return (tool_call){&s->args.backward, plan_backward, run_backward, NULL};
  }
  s->args.forward = (attnpress_softmax_args){.struct_size = sizeof s->args.forward,
                                             .x = t[0],
                                             .y = t[1],
                                             .rows = o->rows,
                                             .columns = o->columns,
                                             .x_row_stride = o->stride,
                                             .y_row_stride = o->stride,
                                             .dtype = o->dtype,
                                             .scale = o->scale};
  return (tool_call){&s->args.forward, plan_forward, run_forward, NULL};
}

static void check_row(void *context, int64_t row) {
  run_state *s = context;
  softmax_check_row(&s->c, row, &s->error);
}

static int report(const run_state *s) {
  const run_options *o = &s->o;
  const softmax_error *e = &s->error;
  tool_verdict verdict = {e->ratio, e->elements, ""};
  char text[256];
  snprintf(verdict.worst, sizeof verdict.worst,
           "row %" PRId64 ", column %" PRId64 ": %.9g, expected %.9g", e->row, e->column, e->value,
           e->expected);
  snprintf(text, sizeof text,
           "softmax%s, %" PRId64 " rows of %" PRId64 " columns, stride %" PRId64 ", %s%s",
           o->backward ? " backward" : "", o->rows, o->columns, o->stride,
           tool_dtype_names[o->dtype], o->in_place ? ", in place" : "");
  return tool_session_report(&s->session, text,
                             (double)o->rows * (double)o->columns *
                                 (double)ap_element_bytes(o->dtype) * s->tensors,
                             &verdict);
}

static int run(run_state *s) {
  int status = tool_session_open(&s->session);
  if (status == TOOL_OK)
    status = add_buffers(s);
  if (status == TOOL_OK)
    status = fill(s);
  if (status != TOOL_OK)
    return status;
  const tool_call call = call_of(s);
  status = tool_session_first(&s->session, &call);
  if (status == TOOL_OK && s->o.columns > 0) /* before calls in place have gone over it again */
    tool_session_check_rows(&s->session, s->o.rows, check_row, s);
  if (status == TOOL_OK)
    status = tool_session_time(&s->session, &call);
  return status == TOOL_OK ? report(s) : status;
}

static int run_words(int argc, char **argv) {
  run_state s = {.o = {.rows = 4096,
                       .columns = 4096,
                       .stride = NOT_GIVEN,
                       .seed = 1,
                       .dtype = ATTNPRESS_BF16,
                       .scale = 1.0f}};
  run_options *o = &s.o;
  const tool_number numbers[] = {{"--rows", &o->rows, 0, INT64_MAX / 4},
                                 {"--columns", &o->columns, 0, ATTNPRESS_SOFTMAX_COLUMNS_MAX},
                                 {"--stride", &o->stride, 1, INT32_MAX},
                                 {"--seed", &o->seed, 0, INT64_MAX},
                                 {NULL, NULL, 0, 0}};
  const tool_choice choices[] = {{"--dtype", tool_dtype_names, ATTNPRESS_FP16, 4, &o->dtype},
                                 {NULL, NULL, 0, 0, NULL}};
  const tool_flag flags[] = {
      {"--backward", &o->backward}, {"--in-place", &o->in_place}, {NULL, NULL}};
  const tool_real reals[] = {{"--scale", &o->scale}, {NULL, NULL}};
  const tool_options options = {numbers, choices, flags, reals, NULL};
  int status = tool_session_parse(&s.session, "run softmax", &options, argc, argv);
  if (status != TOOL_OK)
    return status;
  if (o->stride == NOT_GIVEN)
    o->stride = o->columns > 0 ? o->columns : 1;
  if (o->stride < o->columns || (double)o->rows * (double)o->stride > 1e15)
    return tool_usage("run softmax",
                      "--stride is %" PRId64 "; it must be %" PRId64
                      " or more, and tensors at most 10^15 elements",
                      o->stride, o->columns);
  s.tensors = o->backward ? 3 : 2;
  status = run(&s);
  tool_session_close(&s.session);
  return status;
}

const tool_command ap_tool_run_softmax = {
    .name = "run softmax",
    .summary = "softmax over the rows of a matrix",
    .usage = "--rows R --columns C [OPTION]...",
    .about = "Makes random inputs, runs softmax over the rows of a matrix or, with --backward, its "
             "gradient, times it, and checks the result against float64.",
    .options = {(const tool_opt[]){
                    {"--rows", "N", "rows (4096)"},
                    {"--columns", "N", "columns, up to 1048576 (4096)"},
                    {"--dtype", "fp16|bf16|fp32", "(bf16)"},
                    {"--backward", NULL, "dx = scale y (dy - sum(dy y)) of y and dy"},
                    {"--scale", "X", "of y = softmax(scale x) (1)"},
                    {"--stride", "N", "elements from row to row (as many as columns)"},
                    {"--in-place", NULL, "y over x, dx over dy"},
                    {NULL, NULL, NULL}},
                tool_session_options},
    .more = TOOL_RUN_STATUS,
    .run = run_words,
};
