/* Runs kernels of the in-place matrix product under the emulator. */
#include "family_run.h"

#include <stdlib.h>
#include <string.h>

#include "../../tools/matmul/reference.h"
#include "../../tools/rows.h"
#include "attnpress/args/matmul.h"
#include "matmul/matmul.h"
#include "memory.h"

enum { TEXT_BYTES = 128 };

typedef struct matmul_shape {
  int64_t rows, n;
  int gaps; /* between rows of x and W */
  int far;  /* rows of x are more than 2^31 elements apart */
  /* Of sm90: thread blocks that all run at the same time, the row blocks of each; 0: clusters, of two
   * row blocks. And of which 2^split share a tile. */
  int share, split;
} matmul_shape;

static int32_t w_dtype_of(const kernel *k) {
  return k->variant.axis[AP_MATMUL_WEIGHT] == AP_MATMUL_WEIGHT_FP32
             ? ATTNPRESS_FP32
             : k->variant.axis[AP_MATMUL_DTYPE];
}

static void read_tile(const char *source, const ap_variant *variant, ap_tile *tile) {
  (void)variant;
  *tile = (ap_tile){.threads = source_constant(source, "THREADS"),
                    .smem_bytes = source_constant(source, "SMEM_BYTES")};
  tile->field[AP_MATMUL_TILE_BLOCK_M] = source_constant(source, "BLOCK_M");
  tile->field[AP_MATMUL_TILE_BLOCK_N] = source_constant(source, "BLOCK_N");
}

/* ---- A call ---------------------------------------------------------------------------------- */

typedef struct call {
  matmul_case c;
  memory x, w;
  void *before;
} call;

static void call_open(call *c, const kernel *k, const matmul_shape *s, uint64_t seed) {
  const int64_t n = s->n;
  *c = (call){.c = {.dtype = k->variant.axis[AP_MATMUL_DTYPE],
                    .w_dtype = w_dtype_of(k),
                    .transposed = k->variant.axis[AP_MATMUL_PASS] == AP_MATMUL_PASS_NT,
                    .rows = s->rows,
                    .n = n,
                    .before_stride = n,
                    .x_stride = s->far ? ((int64_t)1 << 31) + 8 : n + (s->gaps ? 24 : 0),
                    .w_stride = n + (s->gaps ? 8 : 0)}};
  void *x =
      memory_map_shared(&c->x, (size_t)rows_span_bytes(s->rows, n, c->c.x_stride, c->c.dtype));
  void *w = memory_map(&c->w, (size_t)rows_span_bytes(n, n, c->c.w_stride, c->c.w_dtype));
  c->before = malloc((size_t)(s->rows * n) * 2);
  rows_fill(x, s->rows, n, c->c.x_stride, c->c.dtype, 0.1, 1.0, seed);
  rows_fill(w, n, n, c->c.w_stride, c->c.w_dtype, 0.1, 1.0, seed + 1);
  for (int64_t row = 0; row < s->rows; ++row)
    memcpy((char *)c->before + row * n * 2, (char *)x + row * c->c.x_stride * 2, (size_t)n * 2);
  c->c.before = c->before;
  c->c.x = x;
  c->c.w = w;
}

static void call_close(call *c) {
  memory_unmap(&c->x);
  memory_unmap(&c->w);
  free(c->before);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void call_sm80(void (*function)(void), const void *args) {
  ((void (*)(attnpress_matmul_args_sm80))function)(*(const attnpress_matmul_args_sm80 *)args);
}

static void call_sm90(void (*function)(void), const void *args) {
  ((void (*)(attnpress_matmul_args_sm90))function)(*(const attnpress_matmul_args_sm90 *)args);
}

static int is_sm90(const kernel *k) {
  return k->variant.axis[AP_MATMUL_ARCH] == 90;
}

static CUresult no_words(CUresult result, const char **words) {
  (void)words;
  return result;
}

/* Clusters have two row blocks each, so that the next one's x is loaded while one is stored. */
static int fill_sm90(const kernel *k, const matmul_case *m, const matmul_shape *s,
                     int64_t row_blocks, attnpress_matmul_args_sm90 *args, char *report) {
  const ap_driver driver = {.tensor_map_encode_tiled = emulated_encode_tiled,
                            .get_error_name = no_words,
                            .get_error_string = no_words};
  ap_maps maps = {.driver = &driver};
  const int64_t block_n = k->tile.field[AP_MATMUL_TILE_BLOCK_N];
  const ap_matmul_problem problem = {.x = ATTNPRESS_DATA(m->x),
                                     .w = m->w,
                                     .rows = m->rows,
                                     .n = m->n,
                                     .x_stride = m->x_stride,
                                     .w_stride = m->w_stride,
                                     .dtype = m->dtype,
                                     .w_dtype = m->w_dtype,
                                     .transposed = m->transposed};
  *args = (attnpress_matmul_args_sm90){.out = ATTNPRESS_DATA(m->x),
                                       .x_stride = m->x_stride,
                                       .rows = (int32_t)m->rows,
                                       .n = (int32_t)m->n,
                                       .column_blocks = (int32_t)((m->n + block_n - 1) / block_n),
                                       .row_blocks = (int32_t)row_blocks,
                                       .share = s->share > 0 ? s->share : 2,
                                       .together = s->share > 0,
                                       .split_shift = s->split};
  if (ap_matmul_maps_encode(&maps, &problem, &k->tile, args) == ATTNPRESS_OK)
    return 0;
  snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
  return -1;
}

static int launch(const kernel *k, const matmul_shape *s, const call *c, char *report) {
  const matmul_case *m = &c->c;
  const int64_t block_m = k->tile.field[AP_MATMUL_TILE_BLOCK_M];
  const int64_t row_blocks = (m->rows + block_m - 1) / block_m;
  _Alignas(64) attnpress_matmul_args_sm90 sm90;
  if (is_sm90(k) && fill_sm90(k, m, s, row_blocks, &sm90, report) != 0)
    return -1;
  const attnpress_matmul_args_sm80 args = {.x = ATTNPRESS_DATA(m->x),
                                           .w = m->w,
                                           .rows = m->rows,
                                           .x_stride = m->x_stride,
                                           .w_stride = m->w_stride,
                                           .n = (int32_t)m->n};
  const emulated_tensor tensors[] = {{.name = "x",
                                      .data = ATTNPRESS_DATA(m->x),
                                      .element_bytes = 2,
                                      .writable = 1,
                                      .shape = {1, 1, m->rows, m->n},
                                      .stride = {0, 0, m->x_stride, 1}},
                                     {.name = "w",
                                      .data = ATTNPRESS_DATA(m->w),
                                      .element_bytes = m->w_dtype == ATTNPRESS_FP32 ? 4 : 2,
                                      .shape = {1, 1, m->n, m->n},
                                      .stride = {0, 0, m->w_stride, 1}}};
  const int64_t blocks = is_sm90(k)
                             ? ((row_blocks - 1) / sm90.share + 1) * sm90.column_blocks << s->split
                             : row_blocks;
  const emulated_launch l = {.module = k->module,
                             .blocks = (unsigned)blocks,
                             .cluster = !is_sm90(k)    ? 0
                                        : s->share > 0 ? 1u << s->split
                                                       : (unsigned)sm90.column_blocks,
                             .together = is_sm90(k) && s->share > 0,
                             .overlaps = is_sm90(k),
                             .threads = (unsigned)k->tile.threads,
                             .shared_bytes = (size_t)k->tile.smem_bytes,
                             .args = is_sm90(k) ? (const void *)&sm90 : &args,
                             .call = is_sm90(k) ? call_sm90 : call_sm80,
                             .tensors = tensors,
                             .tensor_count = 2};
  return emulated_run(&l, report);
}

static int run_shape(const kernel *k, const matmul_shape *s, uint64_t seed, matmul_error *error,
                     char *report) {
  call c;
  call_open(&c, k, s, seed);
  int status = launch(k, s, &c, report);
  if (status == 0) {
    matmul_check(&c.c, error);
    if (!(error->ratio <= 1.0)) {
      snprintf(report, EMULATED_REPORT_BYTES,
               "off by %.3g of the tolerance: row %lld, column %lld is %.9g, expected %.9g",
               error->ratio, (long long)error->row, (long long)error->column, error->value,
               error->expected);
      status = -1;
    }
  }
  call_close(&c);
  return status;
}

/* ---- A table of shapes ----------------------------------------------------------------------- */

/* Shapes by the kernel's own row block and columns. */
static int shapes_of(const kernel *k, matmul_shape *shapes) {
  const int64_t block_m = k->tile.field[AP_MATMUL_TILE_BLOCK_M];
  const int64_t most = k->variant.axis[AP_MATMUL_COLS];
  const int64_t widest = most > 512 ? 520 : most; /* of many rows: wider ones take a while here */
  /* Three, four and five row blocks of clusters of two, three and 16 thread blocks, which work
   * through two each; one alone. */
  const int64_t block_n = k->tile.field[AP_MATMUL_TILE_BLOCK_N];
  const int most_split = block_n == 64 ? 1 : 2;
  const matmul_shape together[] = {
      {1, 8, 0, 0, 1, 0},
      {2 * block_m + 1, block_n + 8, 1, 0, 1, 0},
      {3 * block_m - 9, block_n + 40, 0, 0, 2, 0},
      {5 * block_m, block_n - 56, 1, 0, 2, 0},
      {3, 2 * block_n + 136, 0, 1, 1, 1},
      {block_m + 1, block_n + 8, 1, 0, 1, 1},
      {block_m - 1, 520, 0, 0, 1, most_split - 1},
      {block_m - 9, block_n + 128, 0, 0, 1, most_split},
  };
  const matmul_shape sm90[] = {
      {1, 8, 0, 0, 0, 0},     {129, 40, 0, 0, 0, 0},   {300, 256, 1, 0, 0, 0},
      {3, 136, 0, 1, 0, 0},   {500, 264, 1, 0, 0, 0},  {257, 512, 0, 0, 0, 0},
      {650, 520, 0, 0, 0, 0}, {127, 1000, 1, 0, 0, 0}, {3, 776, 0, 1, 0, 0},
      {3, 3856, 0, 0, 0, 0},
  };
  if (is_sm90(k)) {
    int count = sizeof together / sizeof *together;
    memcpy(shapes, together, sizeof together);
    for (size_t i = 0; i < sizeof sm90 / sizeof *sm90; ++i)
      if (sm90[i].n <= 16 * block_n) /* else there are more blocks than a cluster has */
        shapes[count++] = sm90[i];
    return count;
  }
  const matmul_shape table[] = {
      {1, 8, 0, 0, 0, 0},
      {block_m + 1, 40, 0, 0, 0, 0},
      {2 * block_m, 128, 1, 0, 0, 0},
      {3, 136, 0, 1, 0, 0},
      {block_m + 9, widest - 8, 1, 0, 0, 0},
      {block_m - 1, widest, 0, 0, 0, 0},
      {block_m, 72, 1, 0, 0, 0},
      {1, most, 0, 0, 0, 0},
  };
  memcpy(shapes, table, sizeof table);
  return (int)(sizeof table / sizeof *table);
}

static void print_matmul_shape(const matmul_shape *s, char *text, size_t bytes) {
  char together[64] = "";
  if (s->share > 0)
    snprintf(together, sizeof together, ", together, %d row blocks each, split in %d", s->share,
             1 << s->split);
  snprintf(text, bytes, "%lld rows, n %lld%s%s%s", (long long)s->rows, (long long)s->n,
           s->gaps ? ", room between rows" : "", s->far ? ", far rows" : "", together);
}

static int run_shapes(const kernel *k, FILE *out, int *shapes) {
  static char report[EMULATED_REPORT_BYTES];
  matmul_shape table[24];
  const int count = shapes_of(k, table);
  for (int i = 0; i < count; ++i, ++*shapes) {
    matmul_error error = {0};
    char text[TEXT_BYTES];
    if (run_shape(k, &table[i], 1000u * (unsigned)i + 1, &error, report) == 0)
      continue;
    print_matmul_shape(&table[i], text, sizeof text);
    fprintf(out, "FAILED %s\n  shape: %s\n  %s\n", k->stem, text, report);
    return 1;
  }
  return 0;
}

const emulated_family emulated_matmul = {read_tile, run_shapes, NULL, NULL};

/* ---- One kernel and one shape ---------------------------------------------------------------- */

static const char help[] =
    "usage: attnpress run matmul --device emulated [OPTION]...\n\n"
    "Runs a kernel on this machine's CPU, instruction by instruction, on random inputs; watches "
    "every\naccess to memory, and checks the result against float64.\n\n"
    "  --rows N (70), --n N (136), --dtype TYPE (bf16), --transposed\n"
    "  --wfp32             W is fp32\n"
    "  --gaps              room between rows\n"
    "  --stem STEM         this kernel; without it, the one that the library would choose\n"
    "  --source FILE       this file, named after its stem, such as the generator writes\n"
    "  --templates         made by the generator from the templates as they stand now\n"
    "  --seed N            of the random inputs (1)\n";

static int32_t class_of(int64_t n) {
  const ap_set *classes = &ap_families[AP_FAMILY_MATMUL]->axes[AP_MATMUL_COLS].domain;
  int32_t i = 0;
  while (i < classes->count - 1 && classes->values[i] < n)
    ++i;
  return classes->values[i];
}

int emulate_run_matmul(int argc, char **argv); /* of run.c's table */

int emulate_run_matmul(int argc, char **argv) {
  static char report[EMULATED_REPORT_BYTES];
  matmul_shape s = {.rows = 70, .n = 136};
  int64_t seed = 1;
  int dtype = ATTNPRESS_BF16, transposed = 0, wide = 0;
  run_kernel meant = {NULL, NULL, 0};
  const run_number numbers[] = {
      {"--rows", &s.rows, 1}, {"--n", &s.n, 8}, {"--seed", &seed, 1}, {NULL, NULL, 0}};
  const run_choice choices[] = {{"--dtype", run_dtype_names, ATTNPRESS_FP16, &dtype},
                                {NULL, NULL, 0, NULL}};
  const run_flag flags[] = {
      {"--transposed", &transposed}, {"--wfp32", &wide}, {"--gaps", &s.gaps}, {NULL, NULL}};
  const run_words words = {.family = "matmul",
                           .help = help,
                           .numbers = numbers,
                           .choices = choices,
                           .flags = flags,
                           .kernel = &meant};
  int status = run_parse(&words, argc, argv);
  if (status != RUN_GOES_ON)
    return status;
  const ap_variant chosen = {
      .family = AP_FAMILY_MATMUL,
      .axis = {[AP_MATMUL_PASS] = transposed ? AP_MATMUL_PASS_NT : AP_MATMUL_PASS_NN,
               [AP_MATMUL_COLS] = class_of(s.n),
               [AP_MATMUL_DTYPE] = dtype,
               [AP_MATMUL_WEIGHT] = wide ? AP_MATMUL_WEIGHT_FP32 : AP_MATMUL_WEIGHT_SAME,
               [AP_MATMUL_ARCH] = run_device.capability}};
  kernel k = {0};
  if (run_open(&meant, &chosen, &k, report) != 0) {
    fprintf(stderr, "attnpress run matmul: %s\n", report);
    return 1;
  }
  char text[TEXT_BYTES];
  matmul_error error = {0};
  int failed = -1;
  if (k.variant.family != AP_FAMILY_MATMUL)
    snprintf(report, sizeof report, "%s is no matrix product", k.stem);
  else if (s.n % 8 != 0 || s.n > k.variant.axis[AP_MATMUL_COLS])
    snprintf(report, sizeof report, "n is %lld; %s takes multiples of 8 up to %d", (long long)s.n,
             k.stem, (int)k.variant.axis[AP_MATMUL_COLS]);
  else
    failed = run_shape(&k, &s, (uint64_t)seed, &error, report);
  print_matmul_shape(&s, text, sizeof text);
  status = run_print(&k, text, failed, error.ratio, error.elements, report);
  kernel_close(&k);
  return status;
}
