/* attnpress run layernorm: random inputs through the public API, timed, and checked against float64
 * (reference.h). */
#include <inttypes.h>
#include <stdio.h>

#include "../rows.h"
#include "../session.h"
#include "../tool.h"
#include "attnpress/layernorm.h"
#include "cpu/element.h"
#include "reference.h"

enum { NOT_GIVEN = -1, MATRICES = 4, VECTORS = 6 };

typedef struct run_options {
  int64_t rows, columns, stride, seed;
  int dtype, param_dtype, backward, rms, residual, no_parameters, in_place;
  float eps;
} run_options;

/* Matrices are x, residual, y, sum or x, dy, dsum, dx; vectors weight, bias, mean, rstd, dweight and
 * dbias. -1: it is not there. */
typedef struct run_state {
  tool_session session;
  run_options o;
  int matrix[MATRICES], vector[VECTORS];
  layernorm_case c;
  layernorm_error error;
  union {
    attnpress_layernorm_args forward;
    attnpress_layernorm_backward_args backward;
  } args;
} run_state;

enum { X = 0, RESIDUAL = 1, Y = 2, SUM = 3, DY = 1, DSUM = 2, DX = 3 };
enum { WEIGHT, BIAS, MEAN, RSTD, DWEIGHT, DBIAS };

/* ---- Data ------------------------------------------------------------------------------------ */

static int is_there(const run_options *o, int matrix) {
  return o->residual || (o->backward ? matrix != DSUM : matrix != RESIDUAL && matrix != SUM);
}

static int add_buffers(run_state *s) {
  const run_options *o = &s->o;
  const int64_t bytes = rows_span_bytes(o->rows, o->columns, o->stride, o->dtype);
  const int out = o->backward ? DX : Y, over = o->backward ? DY : X;
  int status = TOOL_OK;
  for (int i = 0; i < MATRICES && status == TOOL_OK; ++i) {
    s->matrix[i] = -1;
    if (is_there(o, i) && !(o->in_place && i == out))
      status = tool_session_add(&s->session, bytes, &s->matrix[i]);
  }
  if (o->in_place)
    s->matrix[out] = s->matrix[over];
  for (int i = 0; i < VECTORS && status == TOOL_OK; ++i) {
    const int moment = i == MEAN || i == RSTD;
    s->vector[i] = -1;
    if ((i == MEAN && o->rms) || ((i == BIAS || i == DBIAS) && o->rms) ||
        (!moment && o->no_parameters) || (!o->backward && i >= DWEIGHT) ||
        (o->backward && i == BIAS))
      continue;
    status = tool_session_add(&s->session,
                              moment ? o->rows * 4
                                     : rows_span_bytes(1, o->columns, o->columns, o->param_dtype),
                              &s->vector[i]);
  }
  return status;
}

static void *host(const run_state *s, int index) {
  return tool_session_host(&s->session, index);
}

static layernorm_matrix matrix_of(const run_state *s, int which) {
  return (layernorm_matrix){host(s, s->matrix[which]), s->o.stride};
}

static void fill_case(run_state *s) {
  const run_options *o = &s->o;
  s->c = (layernorm_case){.backward = o->backward,
                          .rms = o->rms,
                          .dtype = o->dtype,
                          .param_dtype = o->param_dtype,
                          .eps = o->eps == 0.0f ? 1e-5f : o->eps,
                          .rows = o->rows,
                          .columns = o->columns,
                          .weight = host(s, s->vector[WEIGHT]),
                          .bias = host(s, s->vector[BIAS]),
                          .x = matrix_of(s, X),
                          .mean = host(s, s->vector[MEAN]),
                          .rstd = host(s, s->vector[RSTD]),
                          .dweight = host(s, s->vector[DWEIGHT]),
                          .dbias = host(s, s->vector[DBIAS])};
  if (o->backward) {
    s->c.dy = matrix_of(s, DY);
    s->c.dsum = matrix_of(s, DSUM);
    s->c.dx = matrix_of(s, DX);
  } else {
    s->c.residual = matrix_of(s, RESIDUAL);
    s->c.y = matrix_of(s, Y);
    s->c.sum = matrix_of(s, SUM);
  }
}

static int fill(run_state *s) {
  const run_options *o = &s->o;
  for (int i = 0; i < MATRICES; ++i) {
    const int output = o->backward ? i == DX : i == Y || i == SUM;
    if (!output && s->matrix[i] >= 0)
      rows_fill(host(s, s->matrix[i]), o->rows, o->columns, o->stride, o->dtype, i == X ? 0.5 : 0.0,
                1.0, (uint64_t)o->seed + (uint64_t)i);
  }
  for (int i = WEIGHT; i <= BIAS; ++i)
    if (s->vector[i] >= 0)
      rows_fill(host(s, s->vector[i]), 1, o->columns, o->columns, o->param_dtype,
                i == WEIGHT ? 1.0 : 0.0, 0.5, (uint64_t)o->seed + 10 + (uint64_t)i);
  fill_case(s);
  for (int64_t row = 0; o->backward && row < o->rows; ++row) {
    float mean, rstd;
    layernorm_moments(&s->c, row, &mean, &rstd);
    if (s->vector[MEAN] >= 0)
      ((float *)host(s, s->vector[MEAN]))[row] = mean;
    ((float *)host(s, s->vector[RSTD]))[row] = rstd;
  }
  if (o->in_place) {
    void *before;
    if (tool_session_keep(&s->session, s->matrix[o->backward ? DY : X], &before) != TOOL_OK)
      return TOOL_FAILED;
    *(o->backward ? &s->c.dy : &s->c.x) = (layernorm_matrix){before, o->stride};
  }
  return TOOL_OK;
}

/* ---- The call -------------------------------------------------------------------------------- */

TOOL_CALL_FUNCTIONS(forward, layernorm)
TOOL_CALL_FUNCTIONS(backward, layernorm_backward)
TOOL_SET_WORKSPACE(attnpress_layernorm_backward_args)

static tool_call call_of(run_state *s) {
  const run_options *o = &s->o;
  const tool_session *t = &s->session;
  void *m[MATRICES], *v[VECTORS];
  for (int i = 0; i < MATRICES; ++i)
    m[i] = tool_session_data(t, s->matrix[i]);
  for (int i = 0; i < VECTORS; ++i)
    v[i] = tool_session_data(t, s->vector[i]);
  if (o->backward) {
    s->args.backward = (attnpress_layernorm_backward_args){.struct_size = sizeof s->args.backward,
                                                           .x = m[X],
                                                           .dy = m[DY],
                                                           .weight = v[WEIGHT],
                                                           .dsum = m[DSUM],
                                                           .mean = v[MEAN],
                                                           .rstd = v[RSTD],
                                                           .dx = m[DX],
                                                           .dweight = v[DWEIGHT],
                                                           .dbias = v[DBIAS],
                                                           .rows = o->rows,
                                                           .columns = o->columns,
                                                           .x_row_stride = o->stride,
                                                           .dy_row_stride = o->stride,
                                                           .dsum_row_stride = o->stride,
                                                           .dx_row_stride = o->stride,
                                                           .dtype = o->dtype,
                                                           .param_dtype = o->param_dtype,
                                                           .rms = o->rms};
    return (tool_call){&s->args.backward, plan_backward, run_backward, set_workspace};
  }
  s->args.forward = (attnpress_layernorm_args){.struct_size = sizeof s->args.forward,
                                               .x = m[X],
                                               .residual = m[RESIDUAL],
                                               .weight = v[WEIGHT],
                                               .bias = v[BIAS],
                                               .y = m[Y],
                                               .sum = m[SUM],
                                               .mean = v[MEAN],
                                               .rstd = v[RSTD],
                                               .rows = o->rows,
                                               .columns = o->columns,
                                               .x_row_stride = o->stride,
                                               .residual_row_stride = o->stride,
                                               .y_row_stride = o->stride,
                                               .sum_row_stride = o->stride,
                                               .dtype = o->dtype,
                                               .param_dtype = o->param_dtype,
                                               .rms = o->rms,
                                               .eps = o->eps};
  return (tool_call){&s->args.forward, plan_forward, run_forward, NULL};
}

static void check_row(void *context, int64_t row) {
  run_state *s = context;
  layernorm_check_row(&s->c, row, &s->error);
}

static int report(const run_state *s) {
  const run_options *o = &s->o;
  const layernorm_error *e = &s->error;
  tool_verdict verdict = {e->ratio, e->elements, ""};
  char text[256];
  int matrices = 0;
  for (int i = 0; i < MATRICES; ++i)
    matrices += is_there(o, i);
  snprintf(verdict.worst, sizeof verdict.worst,
           "%s: row %" PRId64 ", column %" PRId64 ": %.9g, expected %.9g",
           e->what != NULL ? e->what : "", e->row, e->column, e->value, e->expected);
  snprintf(text, sizeof text,
           "%s norm%s, %" PRId64 " rows of %" PRId64 " columns, stride %" PRId64
           ", %s, parameters %s%s%s",
           o->rms ? "RMS" : "layer", o->backward ? " backward" : "", o->rows, o->columns, o->stride,
           tool_dtype_names[o->dtype], o->no_parameters ? "none" : tool_dtype_names[o->param_dtype],
           o->residual ? ", with a residual" : "", o->in_place ? ", in place" : "");
  return tool_session_report(&s->session, text,
                             (double)o->rows * (double)o->columns *
                                 (double)ap_element_bytes(o->dtype) * matrices,
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
  if (status == TOOL_OK && s->o.columns > 0) {
    tool_session_check_rows(&s->session, s->o.rows, check_row, s);
    if (s->session.check != TOOL_CHECK_NONE && layernorm_check_sums(&s->c, &s->error) != 0)
      return TOOL_FAILED;
  }
  if (status == TOOL_OK)
    status = tool_session_time(&s->session, &call);
  return status == TOOL_OK ? report(s) : status;
}

static int run_words(int argc, char **argv) {
  run_state s = {
      .o = {
          .rows = 4096, .columns = 4096, .stride = NOT_GIVEN, .seed = 1, .dtype = ATTNPRESS_BF16}};
  run_options *o = &s.o;
  const tool_number numbers[] = {{"--rows", &o->rows, 0, INT64_MAX / 4},
                                 {"--columns", &o->columns, 0, ATTNPRESS_LAYERNORM_COLUMNS_MAX},
                                 {"--stride", &o->stride, 1, INT32_MAX},
                                 {"--seed", &o->seed, 0, INT64_MAX},
                                 {NULL, NULL, 0, 0}};
  const tool_choice choices[] = {
      {"--dtype", tool_dtype_names, ATTNPRESS_FP16, 4, &o->dtype},
      {"--param-dtype", tool_dtype_names, ATTNPRESS_FP16, 4, &o->param_dtype},
      {NULL, NULL, 0, 0, NULL}};
  const tool_flag flags[] = {{"--backward", &o->backward}, {"--rms", &o->rms},
                             {"--residual", &o->residual}, {"--no-parameters", &o->no_parameters},
                             {"--in-place", &o->in_place}, {NULL, NULL}};
  const tool_real reals[] = {{"--eps", &o->eps}, {NULL, NULL}};
  const tool_options options = {numbers, choices, flags, reals, NULL};
  int status = tool_session_parse(&s.session, "run layernorm", &options, argc, argv);
  if (status != TOOL_OK)
    return status;
  if (o->stride == NOT_GIVEN)
    o->stride = o->columns > 0 ? o->columns : 1;
  if (o->param_dtype == 0)
    o->param_dtype = o->dtype;
  if (o->stride < o->columns || (double)o->rows * (double)o->stride > 1e15)
    return tool_usage("run layernorm",
                      "--stride is %" PRId64 "; it must be %" PRId64
                      " or more, and tensors at most 10^15 elements",
                      o->stride, o->columns);
  status = run(&s);
  tool_session_close(&s.session);
  return status;
}

const tool_command ap_tool_run_layernorm = {
    .name = "run layernorm",
    .summary = "layer norm and RMS norm over the rows of a matrix",
    .usage = "--rows R --columns C [OPTION]...",
    .about =
        "Makes random inputs, runs layer norm over the rows of a matrix or, with --backward, its "
        "gradients, times it, and checks the result against float64.",
    .options = {(const tool_opt[]){
                    {"--rows", "N", "rows (4096)"},
                    {"--columns", "N", "columns, up to 1048576 (4096)"},
                    {"--dtype", "fp16|bf16|fp32", "(bf16)"},
                    {"--param-dtype", "fp16|bf16|fp32", "of weight and bias (as --dtype)"},
                    {"--rms", NULL, "RMS norm, without bias"},
                    {"--backward", NULL, "dx, dweight and dbias of x and dy"},
                    {"--residual", NULL,
                     "of x + residual, which is written too; backward: dsum is added"},
                    {"--no-parameters", NULL, "without weight and bias"},
                    {"--eps", "X", "added to the variance (1e-5)"},
                    {"--stride", "N", "elements from row to row (as many as columns)"},
                    {"--in-place", NULL, "y over x, dx over dy"},
                    {NULL, NULL, NULL}},
                tool_session_options},
    .more = TOOL_RUN_STATUS,
    .run = run_words,
};
