/* attnpress run conv2d: random inputs through the public API, timed, and checked against float64
 * (reference.h). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../rows.h"
#include "../session.h"
#include "../tool.h"
#include "attnpress/conv2d.h"
#include "cpu/element.h"
#include "reference.h"

typedef struct run_options {
  int64_t batch, height, width, channels, filters, filter, stride, padding, dilation, seed;
  int64_t block_rows, block_columns, splits;
  int dtype, bias, relu, backward, copies;
} run_options;

/* Buffers are x, weight, bias, out, dout, dx, dweight, dbias. */
enum { X, WEIGHT, BIAS, OUT, DOUT, DX, DWEIGHT, DBIAS, BUFFERS };

typedef struct run_state {
  tool_session session;
  run_options o;
  int buffer[BUFFERS];
  conv2d_case c;
  conv2d_error error;
  union {
    attnpress_conv2d_args forward;
    attnpress_conv2d_backward_args backward;
  } args;
} run_state;

static void fill_case(run_state *s) {
  const run_options *o = &s->o;
  s->c.shape = (attnpress_conv2d_shape){
      .batch = o->batch,
      .height = o->height,
      .width = o->width,
      .channels = o->channels,
      .filters = o->filters,
      .filter_height = o->filter,
      .filter_width = o->filter,
      .stride = {(int32_t)o->stride, (int32_t)o->stride},
      .padding = {(int32_t)o->padding, (int32_t)o->padding},
      .dilation = {(int32_t)o->dilation, (int32_t)o->dilation},
      .dtype = o->dtype,
      .relu = o->relu,
  };
}

/* Whether the call has a buffer. */
static int is_there(const run_options *o, int which) {
  if (which == BIAS)
    return o->bias && !o->backward;
  return which == DBIAS ? o->bias && o->backward
         : which == OUT ? !o->backward || o->relu
                        : which <= WEIGHT || o->backward;
}

static int add_buffers(run_state *s) {
  const run_options *o = &s->o;
  const int64_t in = conv2d_dx_pixels(&s->c) * o->channels;
  const int64_t out = conv2d_out_pixels(&s->c) * o->filters;
  const int64_t weights = conv2d_taps(&s->c) * o->channels;
  const int64_t count[BUFFERS] = {in, weights, o->filters, out, out, in, weights, o->filters};
  const double size = 1.0 / sqrt((double)(o->filter * o->filter * o->channels));
  for (int i = 0; i < BUFFERS; ++i) {
    s->buffer[i] = -1;
    if (!is_there(o, i))
      continue;
    if (tool_session_add(&s->session, rows_span_bytes(1, count[i], count[i], o->dtype),
                         &s->buffer[i]) != TOOL_OK)
      return TOOL_FAILED;
    if (i < OUT || i == DOUT || (i == OUT && o->backward))
      rows_fill(tool_session_host(&s->session, s->buffer[i]), 1, count[i], count[i], o->dtype, 0.0,
                i == WEIGHT ? size : 1.0, (uint64_t)(o->seed + i));
  }
  return TOOL_OK;
}

static const void *host(const run_state *s, int which) {
  return tool_session_host(&s->session, s->buffer[which]);
}

TOOL_CALL_FUNCTIONS(forward, conv2d)
TOOL_CALL_FUNCTIONS(backward, conv2d_backward)
TOOL_SET_WORKSPACE(attnpress_conv2d_backward_args)

static attnpress_conv2d_choice choice_of(const run_options *o) {
  return (attnpress_conv2d_choice){.copies = o->copies,
                                   .block_rows = (int32_t)o->block_rows,
                                   .block_columns = (int32_t)o->block_columns,
                                   .splits = (int32_t)o->splits};
}

static tool_call call_of(run_state *s) {
  const attnpress_conv2d_shape *shape = &s->c.shape;
  conv2d_case *c = &s->c;
  void *data[BUFFERS];
  for (int i = 0; i < BUFFERS; ++i)
    data[i] = tool_session_data(&s->session, s->buffer[i]);
  c->x = host(s, X), c->weight = host(s, WEIGHT), c->bias = host(s, BIAS), c->out = host(s, OUT);
  c->dout = host(s, DOUT), c->dx = host(s, DX), c->dweight = host(s, DWEIGHT);
  c->dbias = host(s, DBIAS);
  conv2d_pack(shape->height, shape->width, shape->channels, c->x_stride);
  conv2d_pack(c->out_height, c->out_width, shape->filters, c->out_stride);
  memcpy(c->dx_stride, c->x_stride, sizeof c->dx_stride);
  memcpy(c->dout_stride, c->out_stride, sizeof c->dout_stride);
  if (s->o.backward) {
    s->args.backward = (attnpress_conv2d_backward_args){.struct_size = sizeof s->args.backward,
                                                        .shape = *shape,
                                                        .x = data[X],
                                                        .weight = data[WEIGHT],
                                                        .out = data[OUT],
                                                        .dout = data[DOUT],
                                                        .dx = data[DX],
                                                        .dweight = data[DWEIGHT],
                                                        .dbias = data[DBIAS],
                                                        .choice = choice_of(&s->o)};
    return (tool_call){&s->args.backward, plan_backward, run_backward, set_workspace};
  }
  s->args.forward = (attnpress_conv2d_args){.struct_size = sizeof s->args.forward,
                                            .shape = *shape,
                                            .x = data[X],
                                            .weight = data[WEIGHT],
                                            .bias = data[BIAS],
                                            .out = data[OUT],
                                            .choice = choice_of(&s->o)};
  return (tool_call){&s->args.forward, plan_forward, run_forward, NULL};
}

static void check_out(void *context, int64_t row) {
  run_state *s = context;
  conv2d_check_out(&s->c, row, &s->error);
}

static void check_dx(void *context, int64_t row) {
  run_state *s = context;
  conv2d_check_dx(&s->c, row, &s->error);
}

static void check_dweight(void *context, int64_t row) {
  run_state *s = context;
  conv2d_check_dweight(&s->c, row, &s->error);
}

static void check(run_state *s) {
  if (!s->o.backward) {
    tool_session_check_rows(&s->session, conv2d_out_pixels(&s->c), check_out, s);
    return;
  }
  tool_session_check_rows(&s->session, conv2d_dx_pixels(&s->c), check_dx, s);
  tool_session_check_rows(&s->session, conv2d_taps(&s->c), check_dweight, s);
  if (s->o.bias && s->session.check != TOOL_CHECK_NONE)
    conv2d_check_dbias(&s->c, &s->error);
}

/* What a call reads and writes. */
static double bytes_of(const run_state *s) {
  const run_options *o = &s->o;
  const double in = (double)conv2d_dx_pixels(&s->c) * (double)o->channels;
  const double out = (double)conv2d_out_pixels(&s->c) * (double)o->filters;
  const double weights = (double)conv2d_taps(&s->c) * (double)o->channels;
  return (o->backward ? 2.0 * (in + weights) + out : in + weights + out) *
         (double)ap_element_bytes(o->dtype);
}

static int report(run_state *s) {
  const run_options *o = &s->o;
  const conv2d_error *e = &s->error;
  tool_verdict verdict = {e->ratio, e->elements, ""};
  char text[256];
  snprintf(verdict.worst, sizeof verdict.worst,
           "%s (%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "): %.9g, expected %.9g",
           e->what != NULL ? e->what : "", e->at[0], e->at[1], e->at[2], e->at[3], e->value,
           e->expected);
  snprintf(text, sizeof text,
           "convolution%s, batch %" PRId64 " of %" PRId64 " x %" PRId64 " x %" PRId64 ", %" PRId64
           " filters of %" PRId64 " x %" PRId64 ", stride %" PRId64 ", padding %" PRId64
           ", dilation %" PRId64 "%s%s, %s",
           o->backward ? ", backward" : "", o->batch, o->height, o->width, o->channels, o->filters,
           o->filter, o->filter, o->stride, o->padding, o->dilation, o->bias ? ", bias" : "",
           o->relu ? ", relu" : "", tool_dtype_names[o->dtype]);
  return tool_session_report(&s->session, text, bytes_of(s), &verdict);
}

static int run(run_state *s) {
  int status = tool_session_open(&s->session);
  if (status == TOOL_OK)
    status = add_buffers(s);
  if (status != TOOL_OK)
    return status;
  const tool_call call = call_of(s);
  status = tool_session_first(&s->session, &call);
  if (status == TOOL_OK)
    check(s);
  if (status == TOOL_OK)
    status = tool_session_time(&s->session, &call);
  return status == TOOL_OK ? report(s) : status;
}

static int run_words(int argc, char **argv) {
  run_state s = {.o = {.batch = 8,
                       .height = 28,
                       .width = 28,
                       .channels = 128,
                       .filters = 128,
                       .filter = 3,
                       .stride = 1,
                       .padding = 1,
                       .dilation = 1,
                       .seed = 1,
                       .dtype = ATTNPRESS_BF16}};
  run_options *o = &s.o;
  const tool_number numbers[] = {{"--batch", &o->batch, 1, INT32_MAX},
                                 {"--height", &o->height, 1, INT32_MAX},
                                 {"--width", &o->width, 1, INT32_MAX},
                                 {"--channels", &o->channels, 1, INT32_MAX},
                                 {"--filters", &o->filters, 1, INT32_MAX},
                                 {"--filter", &o->filter, 1, 65535},
                                 {"--stride", &o->stride, 1, 65535},
                                 {"--padding", &o->padding, 0, 65535},
                                 {"--dilation", &o->dilation, 1, 65535},
                                 {"--block-rows", &o->block_rows, 0, 65535},
                                 {"--block-columns", &o->block_columns, 0, 65535},
                                 {"--splits", &o->splits, 0, 65535},
                                 {"--seed", &o->seed, 0, INT32_MAX},
                                 {NULL, NULL, 0, 0}};
  static const char *const copies[] = {"chosen", "gather", "im2col"};
  const tool_choice choices[] = {{"--dtype", tool_dtype_names, ATTNPRESS_FP16, 4, &o->dtype},
                                 {"--copies", copies, 0, 3, &o->copies},
                                 {NULL, NULL, 0, 0, NULL}};
  const tool_flag flags[] = {
      {"--bias", &o->bias}, {"--relu", &o->relu}, {"--backward", &o->backward}, {NULL, NULL}};
  const tool_options options = {numbers, choices, flags, NULL, NULL};
  int status = tool_session_parse(&s.session, "run conv2d", &options, argc, argv);
  if (status != TOOL_OK)
    return status;
  fill_case(&s);
  if (attnpress_conv2d_output(&s.c.shape, &s.c.out_height, &s.c.out_width) != ATTNPRESS_OK)
    return tool_usage("run conv2d", "%s", attnpress_last_error());
  if ((double)o->batch * (double)o->height * (double)o->width *
          (double)(o->channels + o->filters * o->filter * o->filter) >
      1e14)
    return tool_usage("run conv2d", "--batch %" PRId64 " is too many: over 10^14 elements",
                      o->batch);
  status = run(&s);
  tool_session_close(&s.session);
  return status;
}

const tool_command ap_tool_run_conv2d = {
    .name = "run conv2d",
    .summary = "convolutions",
    .usage = "--batch N --height H --width W --channels C --filters K [OPTION]...",
    .about = "Makes random inputs, runs a convolution of images whose channels come last or, with "
             "--backward, its gradients, times it, and checks the result against float64.",
    .options = {(const tool_opt[]){{"--batch", "N", "images (8)"},
                                   {"--height", "N", "of the images (28)"},
                                   {"--width", "N", "of the images (28)"},
                                   {"--channels", "N", "of the images, a multiple of 8 (128)"},
                                   {"--filters", "N", "channels of the output, likewise (128)"},
                                   {"--filter", "N", "height and width of a filter (3)"},
                                   {"--stride", "N", "(1)"},
                                   {"--padding", "N", "on every side (1)"},
                                   {"--dilation", "N", "(1)"},
                                   {"--dtype", "fp16|bf16|fp32", "(bf16); fp32 on the CPU"},
                                   {"--bias", NULL, "adds a bias; backward: its gradient"},
                                   {"--relu", NULL, "negative outputs become 0"},
                                   {"--backward", NULL, "dx and dweight of dout"},
                                   {"--copies", "gather|im2col", "by threads or the copy engine"},
                                   {"--block-rows", "N", "of a thread block's product"},
                                   {"--block-columns", "N", "likewise"},
                                   {"--splits", "N", "of the pixels that dweight sums over"},
                                   {NULL, NULL, NULL}},
                tool_session_options},
    .more = TOOL_RUN_STATUS,
    .run = run_words,
};
