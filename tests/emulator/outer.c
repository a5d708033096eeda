/* Runs outer product kernels under the emulator. */
#include "family_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/outer/reference.h"
#include "../../tools/rows.h"
#include "attnpress/args/outer.h"
#include "memory.h"
#include "outer/outer.h"

enum { TEXT_BYTES = 128, GAP = 3 /* elements, between rows that begin anywhere */ };
enum { X, Y, C, DX, DY, PARTS, TENSORS };

typedef struct outer_shape {
  int64_t batch, rows, columns;
  /* Rows begin at any element; 2: so does c, but has no gaps; 3: of x and y alone; 4: nothing has
   * gaps, and c begins at any element */
  int odd;
  int summed; /* dc is */
  int far;    /* rows of c are more than 2^31 elements apart */
} outer_shape;

static int32_t pass_of(const kernel *k) {
  return k->variant.axis[AP_OUTER_PASS];
}

static void read_tile(const char *source, const ap_variant *variant, ap_tile *tile) {
  const int32_t pass = variant->axis[AP_OUTER_PASS];
  *tile = (ap_tile){.threads = source_constant(source, "THREADS")};
  tile->field[AP_OUTER_TILE_WARPS] = tile->threads / 32;
  tile->field[AP_OUTER_TILE_ROWS] = source_constant(
      source, pass == AP_OUTER_PASS_BWD_REDUCE                            ? "STEP"
              : pass == AP_OUTER_PASS_UNIT                                ? "UNITS"
              : pass == AP_OUTER_PASS_CHUNK || pass == AP_OUTER_PASS_FLAT ? "VECTORS"
                                                                          : "ROWS");
}

/* ---- A call ---------------------------------------------------------------------------------- */

typedef struct call {
  outer_case c;
  int32_t pass;
  memory memory[TENSORS];
  void *data[TENSORS];
  int64_t rows[TENSORS], columns[TENSORS], stride[TENSORS], entries; /* entries: of c */
  int64_t batch_stride;                                              /* of c */
  ap_outer_plan plan;
  const ap_outer_sum *sum; /* of a kernel of sums of products */
  unsigned blocks;
  int32_t smem_bytes;
  snippet *f; /* of a kernel that ends with one */
  uint32_t scalar[ATTNPRESS_OUTER_SCALARS_MAX];
} call;

/* The tensor that a kernel, or the one that adds up its parts, writes. */
static int result_of(const call *c) {
  return c->pass == AP_OUTER_PASS_BWD_REDUCE || c->pass == AP_OUTER_PASS_SUM_DY ? DY
         : c->pass == AP_OUTER_PASS_BWD || c->pass == AP_OUTER_PASS_SUM_DX      ? DX
                                                                                : C;
}

/* Whether dy is of a thread block each, which writes it itself. */
static int has_whole_dy(const call *c) {
  return c->pass == AP_OUTER_PASS_BWD && c->plan.row_blocks == 1;
}

static int is_output(const call *c, int which) {
  return which == result_of(c) || (which == DY && has_whole_dy(c)) ||
         (c->pass != AP_OUTER_PASS_BWD_REDUCE && which == PARTS);
}

static int is_there(const call *c, int which) {
  if (c->sum != NULL && which == PARTS)
    return c->sum->splits > 1;
  if (c->pass == AP_OUTER_PASS_SUM_DX || c->pass == AP_OUTER_PASS_SUM_DY)
    return which <= C || which == result_of(c);
  if (c->pass == AP_OUTER_PASS_BWD_REDUCE)
    return which == DY || which == PARTS;
  return c->pass == AP_OUTER_PASS_BWD ? which != (has_whole_dy(c) ? PARTS : DY) : which <= C;
}

static int64_t element_bytes(int32_t dtype) {
  return dtype == ATTNPRESS_FP32 ? 4 : 2;
}

static int64_t bytes_of(const call *c, int which) {
  return element_bytes(which == PARTS ? ATTNPRESS_FP32 : c->c.dtype);
}

/* Whether tensor `which` begins at any element. */
static int is_odd(const outer_shape *s, int which) {
  if (which == C)
    return s->odd == 1 || s->odd == 2 || s->odd == 4;
  return s->odd != 0 && s->odd != 4 && which != PARTS;
}

static int64_t c_gap(const outer_shape *s) {
  return s->odd == 1 ? GAP : 0;
}

static int64_t c_stride(const outer_shape *s) {
  return s->far ? ((int64_t)1 << 31) + 5 : s->columns + c_gap(s);
}

/* Tensor `which` is a matrix; c's entries are rows of it, too. */
static void lay_out(call *c, const outer_shape *s) {
  const int64_t rows[] = {
      s->batch, s->batch,
      s->rows,  s->batch,
      s->batch, c->sum != NULL ? c->sum->rows * c->sum->splits : s->batch * c->plan.row_blocks};
  const int64_t columns[] = {s->rows, s->columns, s->columns,
                             s->rows, s->columns, c->sum != NULL ? c->sum->columns : s->columns};
  for (int i = 0; i < TENSORS; ++i) {
    c->rows[i] = rows[i];
    c->columns[i] = columns[i];
    c->stride[i] = columns[i] + (is_odd(s, i) ? GAP : 0);
  }
  c->stride[C] = c_stride(s);
  c->entries = c->c.summed ? 1 : s->batch;
  c->batch_stride = s->rows * c->stride[C] + c_gap(s);
}

static void open_tensors(call *c, const outer_shape *s, uint64_t seed) {
  for (int i = 0; i < TENSORS; ++i) {
    const int64_t size = bytes_of(c, i), offset = is_odd(s, i) ? size : 0;
    const int64_t rows = c->rows[i] * (i == C ? c->entries : 1);
    const int32_t dtype = i == PARTS ? ATTNPRESS_FP32 : c->c.dtype;
    if (!is_there(c, i))
      continue;
    const int64_t bytes = i == C
                              ? (c->entries - 1) * c->batch_stride * size +
                                    rows_span_bytes(c->rows[i], c->columns[i], c->stride[i], dtype)
                              : rows_span_bytes(rows, c->columns[i], c->stride[i], dtype);
    c->data[i] = (char *)memory_map(&c->memory[i], (size_t)(bytes + offset)) + offset;
    for (int64_t n = 0; n < (i == C ? c->entries : 1); ++n) {
      char *entry = (char *)c->data[i] + n * c->batch_stride * size;
      if (!is_output(c, i))
        rows_fill(entry, c->rows[i], c->columns[i], c->stride[i], dtype, 0.1, 1.0,
                  seed + (uint64_t)(i + 10 * n));
      for (int64_t row = 0; is_output(c, i) && row < c->rows[i]; ++row)
        memset(entry + row * c->stride[i] * size, 0xff, (size_t)(c->columns[i] * size));
    }
  }
}

/* The function of the kernel, and what the kernel is given of it. */
static int add_function(call *c, const kernel *k, ap_outer_problem *problem, char *report) {
  if (k->mod == NULL)
    return 0;
  problem->has_mod = 1;
  if (outer_function_read(k->mod, &problem->mod, &c->f, report, EMULATED_REPORT_BYTES) != 0)
    return -1;
  ap_outer_mod_fill(problem, c->scalar);
  c->c.f = c->f;
  return 0;
}

static const ap_device device = {.capability = 80, .sm_count = 108};

/* What a plan asks about. */
static ap_outer_problem problem_of(const outer_shape *s, int32_t dtype, int backward, int summed) {
  static float given;
  return (ap_outer_problem){.backward = backward,
                            .dtype = dtype,
                            .summed = summed,
                            .batch = s->batch,
                            .rows = s->rows,
                            .columns = s->columns,
                            /* Where c will be. */
                            .c = (void *)(uintptr_t)(is_odd(s, C) ? element_bytes(dtype) : 0),
                            .x_stride = s->rows + (is_odd(s, X) ? GAP : 0),
                            .y_stride = s->columns + (is_odd(s, Y) ? GAP : 0),
                            .c_row_stride = c_stride(s),
                            .c_batch_stride = s->rows * c_stride(s) + c_gap(s),
                            .dx = backward ? &given : NULL,
                            .dy = backward ? &given : NULL,
                            .workspace_bytes = SIZE_MAX};
}

static int call_open(call *c, const kernel *k, const outer_shape *s, uint64_t seed, char *report) {
  const int32_t pass = pass_of(k);
  const int backward = pass >= AP_OUTER_PASS_BWD;
  const int product = pass == AP_OUTER_PASS_SUM_DX || pass == AP_OUTER_PASS_SUM_DY;
  const int reduces = pass == AP_OUTER_PASS_BWD_REDUCE;
  *c = (call){
      .c = {.backward = backward,
            .summed = product || pass == AP_OUTER_PASS_SUM || (!reduces && backward && s->summed),
            .dtype = k->variant.axis[AP_OUTER_DTYPE],
            .batch = s->batch,
            .rows = s->rows,
            .columns = s->columns},
      .pass = pass};
  ap_outer_problem problem = problem_of(s, c->c.dtype, backward, c->c.summed);
  if (add_function(c, k, &problem, report) != 0)
    return -1;
  /* Calls of so little, or of such shapes, may have other kernels. */
  int is_planned = 0;
  attnpress_status status = ATTNPRESS_OK;
  if (pass == AP_OUTER_PASS_CHUNK || pass == AP_OUTER_PASS_FLAT)
    status = ap_outer_plan_run(&problem, &device, pass, &c->plan, &is_planned);
  if (pass == AP_OUTER_PASS_UNIT) {
    status = ap_outer_plan_rows(&problem, &device, &c->plan, &is_planned);
    c->plan.base.launch[0].grid =
        (uint32_t)s->batch * (uint32_t)(c->plan.row_blocks * c->plan.column_blocks);
    is_planned = 1;
  }
  if (status == ATTNPRESS_OK && !is_planned)
    status = product ? ap_outer_plan_products(&problem, &device, &c->plan)
                     : ap_outer_plan_call(&problem, &device, ATTNPRESS_ONE_CALL, &c->plan);
  if (status != ATTNPRESS_OK) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
    return -1;
  }
  for (int i = 0; i < c->plan.base.count; ++i)
    if (c->plan.base.launch[i].variant.axis[AP_OUTER_PASS] == pass) {
      c->blocks = c->plan.base.launch[i].grid;
      c->smem_bytes = c->plan.base.launch[i].smem_bytes;
    }
  if (c->blocks == 0) /* such a call runs other kernels */
    return 0;
  if (product || pass == AP_OUTER_PASS_SUM)
    c->sum = &c->plan.sum[pass == AP_OUTER_PASS_SUM_DY];
  lay_out(c, s);
  open_tensors(c, s, seed);
  c->c.x = c->data[X];
  c->c.y = c->data[Y];
  c->c.c = c->data[C];
  c->c.dx = c->data[DX];
  c->c.dy = product ? c->data[DY] : NULL; /* of others by check_dy() */
  c->c.x_stride = c->stride[X];
  c->c.y_stride = c->stride[Y];
  c->c.c_batch_stride = c->c.summed ? 0 : c->batch_stride;
  c->c.c_row_stride = c->stride[C];
  c->c.dx_stride = c->stride[DX];
  c->c.dy_stride = c->stride[DY];
  return 0;
}

static void call_close(call *c) {
  snippet_free(c->f);
  for (int i = 0; i < TENSORS; ++i)
    memory_unmap(&c->memory[i]);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void call_forward(void (*function)(void), const void *args) {
  ((void (*)(attnpress_outer_fwd_args))function)(*(const attnpress_outer_fwd_args *)args);
}

static void call_sum(void (*function)(void), const void *args) {
  ((void (*)(attnpress_outer_sum_args))function)(*(const attnpress_outer_sum_args *)args);
}

static void call_backward(void (*function)(void), const void *args) {
  ((void (*)(attnpress_outer_bwd_args))function)(*(const attnpress_outer_bwd_args *)args);
}

static void call_reduce(void (*function)(void), const void *args) {
  ((void (*)(attnpress_outer_reduce_args))function)(*(const attnpress_outer_reduce_args *)args);
}

static attnpress_outer_sum_args sum_args(const call *c) {
  const int a = c->pass == AP_OUTER_PASS_SUM_DX ? Y : X, b = c->pass == AP_OUTER_PASS_SUM ? Y : C;
  return (attnpress_outer_sum_args){.a = c->data[a],
                                    .b = c->data[b],
                                    .c = c->data[result_of(c)],
                                    .parts = c->data[PARTS],
                                    .a_stride = c->stride[a],
                                    .b_stride = c->stride[b],
                                    .c_stride = c->stride[result_of(c)],
                                    .rows = c->sum->rows,
                                    .depth = c->sum->depth,
                                    .split_depth = c->sum->split_depth,
                                    .columns = (int32_t)c->sum->columns,
                                    .column_blocks = c->sum->column_blocks,
                                    .row_blocks = c->sum->row_blocks,
                                    .splits = c->sum->splits};
}

static int launch(const kernel *k, const call *c, char *report) {
  static const char *const names[TENSORS] = {"x", "y", "c", "dx", "dy", "dy_parts"};
  attnpress_outer_fwd_args forward = {.x = c->data[X],
                                      .y = c->data[Y],
                                      .c = c->data[C],
                                      .x_stride = c->stride[X],
                                      .y_stride = c->stride[Y],
                                      .c_batch_stride = c->c.c_batch_stride,
                                      .c_row_stride = c->stride[C],
                                      .batch = c->c.batch,
                                      .rows = (int32_t)c->c.rows,
                                      .columns = (int32_t)c->c.columns,
                                      .column_shift = c->plan.column_shift,
                                      .column_blocks = c->plan.column_blocks,
                                      .row_blocks = c->plan.row_blocks,
                                      .pitch = c->plan.pitch,
                                      .unit_rows = c->plan.unit_rows,
                                      .unit_vectors = c->plan.unit_vectors,
                                      .width = c->plan.width,
                                      .units = c->plan.units,
                                      .x_bytes = c->plan.x_bytes};
  attnpress_outer_bwd_args backward = {.x = c->data[X],
                                       .y = c->data[Y],
                                       .dc = c->data[C],
                                       .dx = c->data[DX],
                                       .dy_parts = c->data[PARTS],
                                       .dy = c->data[DY],
                                       .x_stride = c->stride[X],
                                       .y_stride = c->stride[Y],
                                       .dc_batch_stride = c->c.c_batch_stride,
                                       .dc_row_stride = c->stride[C],
                                       .dx_stride = c->stride[DX],
                                       .dy_stride = c->stride[DY],
                                       .rows = (int32_t)c->c.rows,
                                       .columns = (int32_t)c->c.columns,
                                       .row_blocks = c->plan.row_blocks,
                                       .column_shift = c->plan.column_shift};
  const attnpress_outer_reduce_args reduce = {.dy_parts = c->data[PARTS],
                                              .dy = c->data[DY],
                                              .dy_stride = c->stride[DY],
                                              .elements = c->c.batch * c->c.columns,
                                              .columns = (int32_t)c->c.columns,
                                              .row_blocks = c->plan.row_blocks,
                                              .lane_shift = c->plan.lane_shift};
  attnpress_outer_sum_args sum = {.a = NULL};
  if (c->sum != NULL)
    sum = sum_args(c);
  memcpy(sum.scalar, c->scalar, sizeof sum.scalar);
  memcpy(forward.scalar, c->scalar, sizeof forward.scalar);
  memcpy(backward.scalar, c->scalar, sizeof backward.scalar);
  const int reduces = c->pass == AP_OUTER_PASS_BWD_REDUCE;
  emulated_tensor tensors[TENSORS];
  emulated_launch l = {.module = k->module,
                       .overlaps = 1,
                       .blocks = c->blocks,
                       .threads = (unsigned)k->tile.threads,
                       .shared_bytes = (size_t)c->smem_bytes,
                       .args = c->sum != NULL  ? (const void *)&sum
                               : reduces       ? (const void *)&reduce
                               : c->c.backward ? (const void *)&backward
                                               : &forward,
                       .call = c->sum != NULL  ? call_sum
                               : reduces       ? call_reduce
                               : c->c.backward ? call_backward
                                               : call_forward,
                       .tensors = tensors};
  for (int i = 0; i < TENSORS; ++i)
    if (c->data[i] != NULL)
      tensors[l.tensor_count++] =
          (emulated_tensor){.name = names[i],
                            .data = c->data[i],
                            .element_bytes = (int)bytes_of(c, i),
                            .writable = is_output(c, i),
                            .shape = {1, i == C ? c->entries : 1, c->rows[i], c->columns[i]},
                            .stride = {0, i == C ? c->batch_stride : 0, c->stride[i], 1}};
  /* Without gaps x, y and c are a row each: a vector may be of two of their own. */
  const int is_run = c->pass >= AP_OUTER_PASS_UNIT && c->pass <= AP_OUTER_PASS_FLAT;
  for (int i = X; is_run && i <= C; ++i)
    if (c->stride[i] == c->columns[i]) {
      int64_t *const shape = tensors[i].shape;
      shape[3] *= shape[1] * shape[2];
      shape[1] = shape[2] = 1;
    }
  return emulated_run(&l, report);
}

/* ---- Results --------------------------------------------------------------------------------- */

/* A sum of products from its parts, which the kernel that adds up parts does otherwise. */
static void add_parts(const call *c) {
  const int which = result_of(c);
  for (int64_t i = 0; i < c->sum->rows; ++i)
    for (int64_t j = 0; j < c->sum->columns; ++j) {
      double sum = 0.0;
      for (int64_t k = 0; k < c->sum->splits; ++k)
        sum += rows_load(c->data[PARTS], (i * c->sum->splits + k) * c->sum->columns + j,
                         ATTNPRESS_FP32);
      rows_store(c->data[which], i * c->stride[which] + j, sum, c->c.dtype);
    }
}

/* dy from its parts: by the kernel that adds them up, or here for the one that makes them. */
static void check_dy(const call *c, outer_error *e) {
  for (int64_t n = 0; n < c->c.batch; ++n)
    for (int64_t j = 0; j < c->c.columns; ++j) {
      double sum = 0.0, size = 0.0, expected = 0.0;
      for (int64_t block = 0; !has_whole_dy(c) && block < c->plan.row_blocks; ++block) {
        const double part = rows_load(
            c->data[PARTS], (n * c->plan.row_blocks + block) * c->c.columns + j, ATTNPRESS_FP32);
        sum += part;
        size += fabs(part);
      }
      double value = sum, tolerance = 2e-6 * size;
      if (has_whole_dy(c))
        value = rows_load(c->data[DY], n * c->stride[DY] + j, c->c.dtype);
      if (c->pass == AP_OUTER_PASS_BWD_REDUCE) {
        expected = sum;
        value = rows_load(c->data[DY], n * c->stride[DY] + j, c->c.dtype);
        tolerance += rows_rounding(expected, c->c.dtype);
      }
      for (int64_t i = 0; c->pass == AP_OUTER_PASS_BWD && i < c->c.rows; ++i) {
        double part;
        expected += outer_gradient_term(&c->c, 1, n, i, j, &part);
        tolerance += 2e-6 * part;
      }
      if (has_whole_dy(c))
        tolerance += rows_rounding(expected, c->c.dtype);
      const double ratio = fabs(value - expected) / (tolerance + 1e-30);
      ++e->elements;
      if (!(ratio <= e->ratio))
        *e = (outer_error){
            isnan(ratio) ? INFINITY : ratio, e->elements, n, 0, j, "dy", value, expected};
    }
}

static int run_shape(const kernel *k, const outer_shape *s, uint64_t seed, outer_error *error,
                     char *report) {
  call c;
  int status = call_open(&c, k, s, seed, report);
  if (status == 0 && c.blocks == 0) {
    call_close(&c);
    return 0;
  }
  if (status == 0)
    status = launch(k, &c, report);
  if (status == 0) {
    if (c.sum != NULL && c.sum->splits > 1)
      add_parts(&c);
    if (c.pass != AP_OUTER_PASS_BWD_REDUCE)
      outer_check(&c.c, error);
    if (c.c.backward && c.sum == NULL)
      check_dy(&c, error);
    if (!(error->ratio <= 1.0)) {
      snprintf(report, EMULATED_REPORT_BYTES,
               "%s is off by %.3g of the tolerance: entry %lld, row %lld, column %lld is %.9g, "
               "expected %.9g",
               error->what, error->ratio, (long long)error->batch, (long long)error->row,
               (long long)error->column, error->value, error->expected);
      status = -1;
    }
  }
  call_close(&c);
  return status;
}

/* ---- A table of shapes ----------------------------------------------------------------------- */

static const outer_shape shapes_table[] = {
    {1, 1, 1, 0, 0, 0},     {3, 70, 40, 0, 0, 0},   {2, 9, 300, 0, 1, 0},   {5, 33, 17, 1, 0, 0},
    {17, 65, 64, 0, 1, 0},  {2, 130, 7, 1, 1, 0},   {1, 20, 2600, 0, 0, 0}, {2, 4, 56, 0, 0, 1},
    {33, 5, 129, 1, 0, 0},  {40, 136, 72, 0, 1, 0}, {600, 5, 9, 1, 1, 0},   {40, 6, 600, 0, 1, 0},
    {41, 530, 6, 0, 1, 0},  {40, 41, 33, 1, 1, 0},  {1, 3, 1100, 1, 0, 0},  {5, 33, 24, 3, 0, 0},
    {3, 106, 60, 0, 0, 0},  {5, 33, 17, 2, 0, 0},   {2, 64, 64, 2, 0, 0},   {9, 1, 9, 2, 0, 0},
    {2, 40, 1031, 2, 0, 0}, {300, 3, 20, 2, 0, 0},  {700, 1, 40, 0, 0, 0},  {2, 70, 175, 2, 1, 0},
    {300, 9, 9, 4, 0, 0},   {500, 40, 3, 4, 0, 0},  {40, 900, 1, 4, 0, 0},  {9, 1, 4099, 4, 0, 0},
    {30, 40, 35, 4, 0, 0},  {3, 33, 2100, 0, 0, 0}, {90, 7, 1, 0, 0, 0},    {1, 900, 70, 4, 0, 0},
};

static void print_outer_shape(const outer_shape *s, char *text, size_t bytes) {
  static const char *const odd[] = {"", ", odd rows", ", odd c without gaps",
                                    ", odd rows of x and y", ", odd c, nothing has gaps"};
  snprintf(text, bytes, "batch %lld of %lld x %lld%s%s%s", (long long)s->batch, (long long)s->rows,
           (long long)s->columns, odd[s->odd], s->summed ? ", summed" : "",
           s->far ? ", far rows" : "");
}

static int run_shapes(const kernel *k, FILE *out, int *shapes) {
  static char report[EMULATED_REPORT_BYTES];
  for (size_t i = 0; i < sizeof shapes_table / sizeof *shapes_table; ++i, ++*shapes) {
    const outer_shape *s = &shapes_table[i];
    outer_error error = {0};
    char text[TEXT_BYTES];
    if (run_shape(k, s, 1000u * i + 1, &error, report) == 0)
      continue;
    print_outer_shape(s, text, sizeof text);
    fprintf(out, "FAILED %s\n  shape: %s\n  %s\n", k->stem, text, report);
    return 1;
  }
  return 0;
}

/* ---- Snippets -------------------------------------------------------------------------------- */

static const char *mod_of(const ap_variant *variant, const char *stem) {
  (void)stem;
  return variant->axis[AP_OUTER_DTYPE] == ATTNPRESS_FP32
             ? EMULATED_SOURCE_DIR "/tests/emulator/mods/every_function.mod"
             : EMULATED_SOURCE_DIR "/tests/emulator/mods/ratio.mod";
}

static int write_mod(snippet_file *mod, const ap_variant *v, ap_text *text, char *report) {
  attnpress_outer_mod function;
  ap_snippet fresh = {0};
  snippet *f;
  if (outer_function_read(mod, &function, &f, report, EMULATED_REPORT_BYTES) != 0)
    return -1;
  snippet_free(f);
  ap_outer_mod_write(&function, v->axis[AP_OUTER_PASS] == AP_OUTER_PASS_BWD, &fresh);
  ap_text_append(text, fresh.text.data, fresh.text.size);
  free(fresh.text.data);
  free(fresh.scope.data);
  return 0;
}

const emulated_family emulated_outer = {read_tile, run_shapes, mod_of, write_mod};

/* ---- One kernel and one shape ---------------------------------------------------------------- */

static const char help[] =
    "usage: attnpress run outer --device emulated [OPTION]...\n\n"
    "Runs a kernel on this machine's CPU, instruction by instruction, on random inputs; watches "
    "every\naccess to memory, and checks the result against float64.\n\n"
    "  --batch N (3), --rows N (40), --columns N (300), --dtype TYPE (bf16), --summed, "
    "--backward,\n"
    "  --odd               rows begin at any element\n"
    "  --mod FILE          a function in place of the product\n"
    "  --mod-scalar N=X    its scalar N is X\n"
    "  --stem STEM         this kernel; without it, the first that the library would choose\n"
    "  --source FILE       this file, named after its stem, such as the generator writes\n"
    "  --templates         made by the generator from the templates as they stand now\n"
    "  --seed N            of the random inputs (1)\n";

/* The first kernel that a call launches. */
static int choose(const outer_shape *s, int dtype, int backward, int has_mod, ap_variant *first,
                  char *report) {
  ap_outer_problem problem = problem_of(s, dtype, backward, s->summed);
  problem.has_mod = has_mod;
  ap_outer_plan plan;
  if (ap_outer_plan_call(&problem, &device, ATTNPRESS_ONE_CALL, &plan) != ATTNPRESS_OK) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
    return -1;
  }
  *first = plan.base.launch[0].variant;
  return 0;
}

int emulate_run_outer(int argc, char **argv); /* of run.c's table */

int emulate_run_outer(int argc, char **argv) {
  static char report[EMULATED_REPORT_BYTES];
  outer_shape s = {.batch = 3, .rows = 40, .columns = 300};
  int64_t seed = 1;
  int dtype = ATTNPRESS_BF16, backward = 0;
  const char *mod = NULL, *mod_scalars[SNIPPET_SCALARS + 1] = {NULL};
  run_kernel meant = {NULL, NULL, 0};
  const run_number numbers[] = {{"--rows", &s.rows, 1},
                                {"--columns", &s.columns, 1},
                                {"--batch", &s.batch, 1},
                                {"--seed", &seed, 1},
                                {NULL, NULL, 0}};
  const run_choice choices[] = {{"--dtype", run_dtype_names, ATTNPRESS_FP16, &dtype},
                                {NULL, NULL, 0, NULL}};
  const run_flag flags[] = {
      {"--summed", &s.summed}, {"--odd", &s.odd}, {"--backward", &backward}, {NULL, NULL}};
  const run_text texts[] = {
      {"--mod", &mod, 1}, {"--mod-scalar", mod_scalars, SNIPPET_SCALARS}, {NULL, NULL, 0}};
  const run_words words = {.family = "outer",
                           .help = help,
                           .numbers = numbers,
                           .choices = choices,
                           .flags = flags,
                           .texts = texts,
                           .kernel = &meant};
  int status = run_parse(&words, argc, argv);
  if (status != RUN_GOES_ON)
    return status;
  if (mod != NULL && kernel_use_mod(mod, mod_scalars, report) != 0) {
    fprintf(stderr, "attnpress run outer: %s\n", report);
    return 1;
  }
  ap_variant chosen;
  kernel k = {0};
  if (choose(&s, dtype, backward, mod != NULL, &chosen, report) != 0 ||
      run_open(&meant, &chosen, &k, report) != 0) {
    fprintf(stderr, "attnpress run outer: %s\n", report);
    return 1;
  }
  char text[TEXT_BYTES];
  outer_error error = {0};
  int failed = -1;
  if (k.variant.family == AP_FAMILY_OUTER)
    failed = run_shape(&k, &s, (uint64_t)seed, &error, report);
  else
    snprintf(report, sizeof report, "%s is no outer product", k.stem);
  if (failed == 0 && error.elements == 0) {
    failed = -1;
    snprintf(report, sizeof report, "a call of this shape runs other kernels");
  }
  print_outer_shape(&s, text, sizeof text);
  status = run_print(&k, text, failed, error.ratio, error.elements, report);
  kernel_close(&k);
  return status;
}
