/* Runs softmax kernels under the emulator. */
#include "softmax.h"

#include "family_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attnpress/args/softmax.h"
#include "memory.h"
#include "softmax/softmax.h"

enum { TENSORS_MAX = 3 };

static int64_t element_bytes(const kernel *k) {
  return k->variant.axis[AP_SOFTMAX_DTYPE] == ATTNPRESS_FP32 ? 4 : 2;
}

static void read_tile(const char *source, const ap_variant *variant, ap_tile *tile) {
  (void)variant;
  *tile = (ap_tile){.threads = source_constant(source, "THREADS"),
                    .smem_bytes = source_constant(source, "SMEM_BYTES")};
  tile->field[AP_SOFTMAX_TILE_WARPS] = tile->threads / 32;
  tile->field[AP_SOFTMAX_TILE_ROW_THREADS] = source_constant(source, "ROW_THREADS");
  tile->field[AP_SOFTMAX_TILE_ROWS] = source_constant(source, "ROWS");
}

/* A row's edges make up to a vector less an element more than its vectors have room for. */
static int64_t most_columns(const kernel *k) {
  const int64_t takes = k->variant.axis[AP_SOFTMAX_COLS];
  return takes > AP_SOFTMAX_HELD_COLS_MAX ? ATTNPRESS_SOFTMAX_COLUMNS_MAX
                                          : takes + 16 / element_bytes(k) - 1;
}

/* ---- A call ---------------------------------------------------------------------------------- */

/* x, y or y, dy, dx. In place, the output is the input before it, which `before` keeps. */
typedef struct call {
  softmax_case c;
  int count;
  memory memory[TENSORS_MAX];
  void *data[TENSORS_MAX], *before;
  int64_t stride[TENSORS_MAX], bytes[TENSORS_MAX];
} call;

/* Where tensor `which` begins, in elements behind a multiple of 16 bytes, and its row stride. */
static void lay_out(const softmax_shape *s, int which, int is_output, int64_t *offset,
                    int64_t *stride) {
  const int other = s->layout == SOFTMAX_MIXED || s->layout == SOFTMAX_SHIFTED ? which : 0;
  *offset = s->layout == SOFTMAX_ODD ? 3 : other;
  *stride = s->columns;
  if (s->layout == SOFTMAX_ODD || s->layout == SOFTMAX_MIXED)
    *stride += 5 + 2 * other;
  if (s->layout == SOFTMAX_FAR)
    *stride = ((int64_t)1 << 31) + 5;
  if (s->layout == (is_output ? SOFTMAX_OUTPUT_APART : SOFTMAX_INPUT_APART))
    *stride += 8;
}

/* -inf, some and throughout, NaN and +inf, each in a row of its own. */
static void put_specials(call *c) {
  const double values[] = {-INFINITY, -INFINITY, NAN, INFINITY};
  softmax_case row = c->c;
  row.rows = 1;
  for (int64_t r = 0; r < 4 && r < c->c.rows; ++r) {
    row.columns = r == 1 ? c->c.columns : 1;
    const int64_t at = r * c->stride[0] + (r == 1 ? 0 : r * 7 % c->c.columns);
    for (int64_t i = 0; i < row.columns; ++i)
      softmax_store(c->data[0], at + i, (float)values[r], c->c.dtype);
  }
}

static void call_open(call *c, const kernel *k, const softmax_shape *s, uint64_t seed) {
  const int64_t size = element_bytes(k);
  *c = (call){.c = {.backward = k->variant.axis[AP_SOFTMAX_PASS] == AP_SOFTMAX_PASS_BWD,
                    .dtype = k->variant.axis[AP_SOFTMAX_DTYPE],
                    .scale = s->scale,
                    .rows = s->rows,
                    .columns = s->columns}};
  c->count = c->c.backward ? 3 : 2;
  const int output = c->count - 1;
  for (int i = 0; i < c->count; ++i) {
    int64_t offset;
    lay_out(s, i, i == output, &offset, &c->stride[i]);
    c->bytes[i] = softmax_span_bytes(&c->c, c->stride[i]);
    if (s->in_place && i == output) {
      c->stride[i] = c->stride[i - 1];
      c->data[i] = c->data[i - 1];
      continue;
    }
    /* Shared by the processes that the blocks of a cluster are. */
    char *data = memory_map_shared(&c->memory[i], (size_t)(c->bytes[i] + offset * size));
    c->data[i] = data + offset * size;
    if (i < output)
      softmax_fill(c->data[i], &c->c, c->stride[i], c->c.backward ? 1.0 : 3.0,
                   c->c.backward && i == 0, seed + (uint64_t)i);
    for (int64_t row = 0; i == output && row < s->rows; ++row)
      memset((char *)c->data[i] + row * c->stride[i] * size, 0xff, (size_t)(s->columns * size));
  }
  if (s->special && !c->c.backward)
    put_specials(c);
  for (int i = 0; i < output; ++i) {
    c->c.input[i] = c->data[i];
    c->c.input_stride[i] = c->stride[i];
  }
  if (s->in_place) {
    c->before = copy_rows(c->data[output - 1], s->rows, (size_t)(s->columns * size),
                          c->stride[output - 1] * size);
    c->c.input[output - 1] = c->before;
    c->c.input_stride[output - 1] = s->columns;
  }
  c->c.output = c->data[output];
  c->c.output_stride = c->stride[output];
}

static void call_close(call *c) {
  for (int i = 0; i < TENSORS_MAX; ++i)
    memory_unmap(&c->memory[i]);
  free(c->before);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void call_forward(void (*function)(void), const void *args) {
  ((void (*)(attnpress_softmax_fwd_args))function)(*(const attnpress_softmax_fwd_args *)args);
}

static void call_backward(void (*function)(void), const void *args) {
  ((void (*)(attnpress_softmax_bwd_args))function)(*(const attnpress_softmax_bwd_args *)args);
}

static int launch(const kernel *k, const call *c, int in_place, char *report) {
  static const char *const names[2][TENSORS_MAX] = {{"x", "y", ""}, {"y", "dy", "dx"}};
  const attnpress_softmax_fwd_args forward = {.x = c->data[0],
                                              .y = c->data[1],
                                              .rows = c->c.rows,
                                              .x_row_stride = c->stride[0],
                                              .y_row_stride = c->stride[1],
                                              .columns = (int32_t)c->c.columns,
                                              .scale = c->c.scale,
                                              .rows_ahead = 2};
  const attnpress_softmax_bwd_args backward = {.y = c->data[0],
                                               .dy = c->data[1],
                                               .dx = c->data[2],
                                               .rows = c->c.rows,
                                               .y_row_stride = c->stride[0],
                                               .dy_row_stride = c->stride[1],
                                               .dx_row_stride = c->stride[2],
                                               .columns = (int32_t)c->c.columns,
                                               .scale = c->c.scale,
                                               .rows_ahead = 2};
  /* In place, the output alone: what is written may be read. */
  emulated_tensor tensors[TENSORS_MAX];
  int given = 0;
  for (int i = 0; i < c->count; ++i) {
    /* Rows without room between them are one: an access may reach from one into the next. */
    const int64_t rows = c->stride[i] == c->c.columns ? 1 : c->c.rows;
    if (!(in_place && i == c->count - 2))
      tensors[given++] = (emulated_tensor){.name = names[c->c.backward][i],
                                           .data = c->data[i],
                                           .element_bytes = (int)element_bytes(k),
                                           .writable = i == c->count - 1,
                                           .shape = {1, 1, rows, c->c.rows / rows * c->c.columns},
                                           .stride = {0, 0, c->stride[i], 1}};
  }
  const int64_t each = ap_softmax_block_rows(&k->tile);
  const unsigned cluster = (unsigned)ap_softmax_cluster(&k->tile);
  const emulated_launch l = {.module = k->module,
                             .blocks = (unsigned)((c->c.rows + each - 1) / each) * cluster,
                             .cluster = cluster,
                             .threads = (unsigned)k->tile.threads,
                             .shared_bytes = (size_t)k->tile.smem_bytes,
                             .args = c->c.backward ? (const void *)&backward : &forward,
                             .call = c->c.backward ? call_backward : call_forward,
                             .tensors = tensors,
                             .tensor_count = given};
  return emulated_run(&l, report);
}

int softmax_run(const kernel *k, const softmax_shape *s, uint64_t seed, softmax_error *error,
                char *report) {
  call c;
  call_open(&c, k, s, seed);
  int status = launch(k, &c, s->in_place, report);
  if (status == 0) {
    softmax_check(&c.c, error);
    if (!(error->ratio <= 1.0)) {
      snprintf(report, EMULATED_REPORT_BYTES,
               "out is off by %.3g of the tolerance: row %lld, column %lld is %.9g, expected %.9g",
               error->ratio, (long long)error->row, (long long)error->column, error->value,
               error->expected);
      status = -1;
    }
  }
  call_close(&c);
  return status;
}

/* ---- A table of shapes ----------------------------------------------------------------------- */

/* Columns: so many sixteenths of the kernel's vectors', and what is added; at most what it takes. */
typedef struct shape_row {
  int sixteenths, more;
  int blocks, more_rows; /* thread blocks, and rows beyond */
  softmax_layout layout;
  int in_place, special;
  float scale;
} shape_row;

static const shape_row shape_rows[] = {
    {16, 0, 1, 1, SOFTMAX_PACKED, 0, 0, 1.0f},      {0, 1, 1, 0, SOFTMAX_PACKED, 1, 0, 1.0f},
    {16, -1, 1, 1, SOFTMAX_PACKED, 0, 1, 0.5f},     {8, 3, 2, -1, SOFTMAX_ODD, 1, 0, -0.7f},
    {0, 9, 0, 3, SOFTMAX_MIXED, 0, 1, 1.0f},        {16, 0, 0, 5, SOFTMAX_MIXED, 0, 0, 3.0f},
    {11, 5, 1, 2, SOFTMAX_ODD, 0, 1, 1.0f},         {1, 7, 0, 3, SOFTMAX_FAR, 0, 0, 1.0f},
    {4, 0, 1, 1, SOFTMAX_PACKED, 1, 0, 20.0f},      {0, 7, 1, 1, SOFTMAX_ODD, 0, 0, 1.0f},
    {16, 7, 1, 3, SOFTMAX_PACKED, 0, 1, -2.0f},     {16, 7, 0, 3, SOFTMAX_MIXED, 1, 0, 1.0f},
    {16, -3, 1, 1, SOFTMAX_SHIFTED, 0, 0, 1.0f},    {8, 3, 1, 1, SOFTMAX_INPUT_APART, 0, 0, 1.0f},
    {8, 3, 1, 1, SOFTMAX_OUTPUT_APART, 0, 0, 1.0f},
};
enum { LONG_COLUMNS = 36000, ROWS_MOST = 300, ELEMENTS_MOST = 200000 };

static softmax_shape make_shape(const shape_row *row, const kernel *k) {
  const int64_t takes = k->variant.axis[AP_SOFTMAX_COLS];
  const int64_t most = most_columns(k) < LONG_COLUMNS ? most_columns(k) : LONG_COLUMNS;
  const int64_t columns = takes > AP_SOFTMAX_HELD_COLS_MAX ? LONG_COLUMNS : takes;
  softmax_shape s = {.rows = row->blocks * ap_softmax_block_rows(&k->tile) + row->more_rows,
                     .columns = columns * row->sixteenths / 16 + row->more,
                     .layout = row->layout,
                     .in_place = row->in_place,
                     .special = row->special,
                     .scale = row->scale};
  s.columns = s.columns < most ? s.columns : most;
  while (s.rows > 2 && (s.rows > ROWS_MOST || s.rows * s.columns > ELEMENTS_MOST))
    --s.rows;
  return s;
}

static void print_softmax_shape(const softmax_shape *s, char *text, size_t bytes) {
  static const char *const layouts[] = {"packed",  "odd",         "mixed",       "far rows",
                                        "shifted", "input apart", "output apart"};
  snprintf(text, bytes, "%lld rows of %lld columns, %s%s, scale %g", (long long)s->rows,
           (long long)s->columns, layouts[s->layout], s->in_place ? ", in place" : "",
           (double)s->scale);
}

static int run_shapes(const kernel *k, FILE *out, int *shapes) {
  static char report[EMULATED_REPORT_BYTES];
  for (size_t i = 0; i < sizeof shape_rows / sizeof *shape_rows; ++i, ++*shapes) {
    const softmax_shape s = make_shape(&shape_rows[i], k);
    softmax_error error = {0};
    char text[128];
    if (softmax_run(k, &s, 1000u * i + 1, &error, report) == 0)
      continue;
    print_softmax_shape(&s, text, sizeof text);
    fprintf(out, "FAILED %s\n  shape: %s\n  %s\n", k->stem, text, report);
    return 1;
  }
  return 0;
}

const emulated_family emulated_softmax = {read_tile, run_shapes, NULL, NULL};

/* ---- One kernel and one shape ---------------------------------------------------------------- */

static const char help[] =
    "usage: attnpress run softmax --device emulated [OPTION]...\n\n"
    "Runs a kernel on this machine's CPU, instruction by instruction, on random inputs; watches "
    "every\naccess to memory, and checks the result against float64.\n\n"
    "  --rows N (37), --columns N (1000), --dtype TYPE (bf16), --backward, --scale X (1), "
    "--in-place,\n"
    "  --layout LAYOUT     packed, odd, mixed, far-rows, shifted, input-apart or output-apart "
    "(packed)\n"
    "  --stem STEM         this kernel; without it, the one that the library would choose\n"
    "  --source FILE       this file, named after its stem, such as the generator writes\n"
    "  --templates         made by the generator from the templates as they stand now\n"
    "  --seed N            of the random inputs (1)\n";

int emulate_run_softmax(int argc, char **argv); /* of run.c's table */

int emulate_run_softmax(int argc, char **argv) {
  static const char *const layouts[] = {"packed",  "odd",         "mixed",        "far-rows",
                                        "shifted", "input-apart", "output-apart", NULL};
  static char report[EMULATED_REPORT_BYTES];
  softmax_shape s = {.rows = 37, .columns = 1000, .scale = 1.0f};
  int64_t seed = 1;
  int dtype = ATTNPRESS_BF16, layout = 0, backward = 0;
  run_kernel meant = {NULL, NULL, 0};
  const run_number numbers[] = {
      {"--rows", &s.rows, 0}, {"--columns", &s.columns, 0}, {"--seed", &seed, 0}, {NULL, NULL, 0}};
  const run_choice choices[] = {{"--layout", layouts, 0, &layout},
                                {"--dtype", run_dtype_names, ATTNPRESS_FP16, &dtype},
                                {NULL, NULL, 0, NULL}};
  const run_real reals[] = {{"--scale", &s.scale}, {NULL, NULL}};
  const run_flag flags[] = {{"--backward", &backward}, {"--in-place", &s.in_place}, {NULL, NULL}};
  const run_words words = {.family = "softmax",
                           .help = help,
                           .numbers = numbers,
                           .choices = choices,
                           .reals = reals,
                           .flags = flags,
                           .kernel = &meant};
  int status = run_parse(&words, argc, argv);
  if (status != RUN_GOES_ON)
    return status;
  s.layout = (softmax_layout)layout;
  const ap_softmax_problem problem = {.pass = backward ? AP_SOFTMAX_PASS_BWD : AP_SOFTMAX_PASS_FWD,
                                      .rows = 1,
                                      .columns = s.columns > 0 ? s.columns : 1,
                                      .dtype = dtype,
                                      .scale = s.scale};
  ap_launches plan;
  kernel k = {0};
  if (ap_softmax_plan(&problem, &run_device, ATTNPRESS_ONE_CALL, &plan) != ATTNPRESS_OK) {
    fprintf(stderr, "attnpress run softmax: %s\n", attnpress_last_error());
    return 1;
  }
  if (run_open(&meant, &plan.launch[0].variant, &k, report) != 0) {
    fprintf(stderr, "attnpress run softmax: %s\n", report);
    return 1;
  }
  char text[128];
  softmax_error error = {0};
  int failed = -1;
  if (k.variant.family != AP_FAMILY_SOFTMAX || s.columns > most_columns(&k))
    snprintf(report, sizeof report, "%s takes no %lld columns", k.stem, (long long)s.columns);
  else
    failed =
        s.rows == 0 || s.columns == 0 ? 0 : softmax_run(&k, &s, (uint64_t)seed, &error, report);
  print_softmax_shape(&s, text, sizeof text);
  status = run_print(&k, text, failed, error.ratio, error.elements, report);
  kernel_close(&k);
  return status;
}
