/* attnpress run outer: random inputs through the public API, timed, and checked against float64
 * (reference.h). */
#include <inttypes.h>
#include <stdio.h>

#include "../rows.h"
#include "../session.h"
#include "../tool.h"
#include "attnpress/outer.h"
#include "cpu/element.h"
#include "reference.h"

typedef struct run_options {
  int64_t batch, rows, columns, seed;
  int dtype, summed, backward;
  const char *mod, *mod_scalars[SNIPPET_SCALARS + 1]; /* a file, and scalars to set in it */
} run_options;

/* Buffers are x, y, c and, backward, dx and dy. */
enum { X, Y, C, DX, DY, BUFFERS };

typedef struct run_state {
  tool_session session;
  run_options o;
  int buffer[BUFFERS];
  outer_case c;
  outer_error error;
  snippet_file file; /* of --mod */
  snippet *f;
  attnpress_outer_mod mod;
  union {
    attnpress_outer_args forward;
    attnpress_outer_backward_args backward;
  } args;
} run_state;

/* Reads the function, if one is asked for. */
static int read_mod(run_state *s) {
  char why[512];
  const run_options *o = &s->o;
  if (o->mod == NULL && o->mod_scalars[0] != NULL)
    return tool_usage("run outer", "--mod-scalar %s is given without --mod", o->mod_scalars[0]);
  if (o->mod == NULL)
    return TOOL_OK;
  int failed = snippet_file_read(&s->file, o->mod, why, sizeof why);
  for (int i = 0; failed == 0 && o->mod_scalars[i] != NULL; ++i)
    failed = snippet_file_set(&s->file, o->mod_scalars[i], why, sizeof why);
  if (failed == 0)
    failed = outer_function_read(&s->file, &s->mod, &s->f, why, sizeof why);
  return failed == 0 ? TOOL_OK : tool_usage("run outer", "%s", why);
}

static int add_buffers(run_state *s) {
  const run_options *o = &s->o;
  const int64_t entries = o->summed ? 1 : o->batch;
  const int64_t rows[BUFFERS] = {o->batch, o->batch, entries * o->rows, o->batch, o->batch};
  const int64_t columns[BUFFERS] = {o->rows, o->columns, o->columns, o->rows, o->columns};
  for (int i = 0; i < BUFFERS; ++i) {
    s->buffer[i] = -1;
    if (i >= DX && !o->backward)
      continue;
    if (tool_session_add(&s->session, rows_span_bytes(rows[i], columns[i], columns[i], o->dtype),
                         &s->buffer[i]) != TOOL_OK)
      return TOOL_FAILED;
    if (i < C || (i == C && o->backward))
      rows_fill(tool_session_host(&s->session, s->buffer[i]), rows[i], columns[i], columns[i],
                o->dtype, 0.0, 1.0, (uint64_t)(o->seed + i));
  }
  return TOOL_OK;
}

static const void *host(const run_state *s, int which) {
  return tool_session_host(&s->session, s->buffer[which]);
}

TOOL_CALL_FUNCTIONS(forward, outer)
TOOL_CALL_FUNCTIONS(backward, outer_backward)
TOOL_SET_WORKSPACE(attnpress_outer_backward_args)

static void set_forward_workspace(void *args, void *workspace, size_t bytes) {
  attnpress_outer_args *a = args;
  a->workspace = workspace;
  a->workspace_bytes = bytes;
}

static tool_call call_of(run_state *s) {
  const run_options *o = &s->o;
  void *data[BUFFERS];
  for (int i = 0; i < BUFFERS; ++i)
    data[i] = tool_session_data(&s->session, s->buffer[i]);
  s->c = (outer_case){o->backward, o->summed,
                      o->dtype,    o->batch,
                      o->rows,     o->columns,
                      host(s, X),  host(s, Y),
                      host(s, C),  host(s, DX),
                      host(s, DY), o->rows,
                      o->columns,  o->summed ? 0 : o->rows * o->columns,
                      o->columns,  o->rows,
                      o->columns,  s->f};
  if (o->backward) {
    s->args.backward = (attnpress_outer_backward_args){.struct_size = sizeof s->args.backward,
                                                       .x = data[X],
                                                       .y = data[Y],
                                                       .dc = data[C],
                                                       .dx = data[DX],
                                                       .dy = data[DY],
                                                       .batch = o->batch,
                                                       .rows = o->rows,
                                                       .columns = o->columns,
                                                       .dtype = o->dtype,
                                                       .summed = o->summed,
                                                       .mod = s->f != NULL ? &s->mod : NULL};
    return (tool_call){&s->args.backward, plan_backward, run_backward, set_workspace};
  }
  s->args.forward = (attnpress_outer_args){.struct_size = sizeof s->args.forward,
                                           .x = data[X],
                                           .y = data[Y],
                                           .c = data[C],
                                           .batch = o->batch,
                                           .rows = o->rows,
                                           .columns = o->columns,
                                           .dtype = o->dtype,
                                           .summed = o->summed,
                                           .mod = s->f != NULL ? &s->mod : NULL,
                                           .workspace_bytes = o->summed ? SIZE_MAX : 0};
  return (tool_call){&s->args.forward, plan_forward, run_forward, set_forward_workspace};
}

/* Rows of all entries, one after the other. */
static void check_row(void *context, int64_t row) {
  run_state *s = context;
  outer_check_row(&s->c, row / s->o.rows, row % s->o.rows, &s->error);
}

static int run(run_state *s) {
  const run_options *o = &s->o;
  const outer_error *e = &s->error;
  int status = tool_session_open(&s->session);
  if (status == TOOL_OK)
    status = add_buffers(s);
  if (status != TOOL_OK)
    return status;
  const tool_call call = call_of(s);
  status = tool_session_first(&s->session, &call);
  if (status == TOOL_OK && o->columns > 0)
    tool_session_check_rows(&s->session, (o->summed && !o->backward ? 1 : o->batch) * o->rows,
                            check_row, s);
  if (status == TOOL_OK)
    status = tool_session_time(&s->session, &call);
  if (status != TOOL_OK)
    return status;
  tool_verdict verdict = {e->ratio, e->elements, ""};
  char text[256];
  snprintf(verdict.worst, sizeof verdict.worst,
           "%s: entry %" PRId64 ", row %" PRId64 ", column %" PRId64 ": %.9g, expected %.9g",
           e->what != NULL ? e->what : "", e->batch, e->row, e->column, e->value, e->expected);
  snprintf(text, sizeof text,
           "outer product%s%.80s%s%s, batch %" PRId64 ", %" PRId64 " x %" PRId64 ", %s",
           s->f != NULL ? " by " : "", s->f != NULL ? s->file.name : "",
           o->summed ? ", summed" : "", o->backward ? ", backward" : "", o->batch, o->rows,
           o->columns, tool_dtype_names[o->dtype]);
  return tool_session_report(&s->session, text,
                             (double)(o->summed ? 1 : o->batch) * (double)o->rows *
                                 (double)o->columns * (double)ap_element_bytes(o->dtype),
                             &verdict);
}

static int run_words(int argc, char **argv) {
  run_state s = {
      .o = {.batch = 32, .rows = 1024, .columns = 1024, .seed = 1, .dtype = ATTNPRESS_BF16}};
  run_options *o = &s.o;
  const tool_number numbers[] = {{"--batch", &o->batch, 0, INT64_MAX / 4},
                                 {"--rows", &o->rows, 0, INT32_MAX},
                                 {"--columns", &o->columns, 0, INT32_MAX},
                                 {"--seed", &o->seed, 0, INT32_MAX},
                                 {NULL, NULL, 0, 0}};
  const tool_choice choices[] = {{"--dtype", tool_dtype_names, ATTNPRESS_FP16, 4, &o->dtype},
                                 {NULL, NULL, 0, 0, NULL}};
  const tool_flag flags[] = {{"--summed", &o->summed}, {"--backward", &o->backward}, {NULL, NULL}};
  const tool_word words[] = {
      {"--mod", &o->mod, 1}, {"--mod-scalar", o->mod_scalars, SNIPPET_SCALARS}, {NULL, NULL, 0}};
  const tool_options options = {numbers, choices, flags, NULL, words};
  int status = tool_session_parse(&s.session, "run outer", &options, argc, argv);
  if (status != TOOL_OK)
    return status;
  if ((double)o->batch * (double)o->rows * (double)o->columns > 1e15)
    return tool_usage(
        "run outer", "--batch %" PRId64 " is too many: c would have over 10^15 elements", o->batch);
  status = read_mod(&s);
  if (status == TOOL_OK) {
    status = run(&s);
    tool_session_close(&s.session);
  }
  snippet_free(s.f);
  snippet_file_free(&s.file);
  return status;
}

const tool_command ap_tool_run_outer = {
    .name = "run outer",
    .summary = "outer products",
    .usage = "--batch N --rows I --columns J [OPTION]...",
    .about = "Makes random inputs, runs the outer product c[n, i, j] = x[n, i] y[n, j] or, with "
             "--backward, its gradients, times it, and checks the result against float64. The file "
             "of --mod has lines `scalar float NAME = NUMBER`, and behind a line `f:` one C "
             "expression of x and y.",
    .options = {(const tool_opt[]){{"--batch", "N", "entries of the batch (32)"},
                                   {"--rows", "N", "of c (1024)"},
                                   {"--columns", "N", "of c (1024)"},
                                   {"--dtype", "fp16|bf16|fp32", "(bf16)"},
                                   {"--summed", NULL, "c is summed over the batch"},
                                   {"--backward", NULL, "dx and dy of dc"},
                                   {"--mod", "FILE", "a function in place of the product"},
                                   {"--mod-scalar", "N=X", "its scalar N is X"},
                                   {NULL, NULL, NULL}},
                tool_session_options},
    .more = TOOL_RUN_STATUS,
    .run = run_words,
};
