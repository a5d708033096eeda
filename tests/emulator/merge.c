/* Runs merge's kernels under the emulator. */
#include "family_run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/merge/reference.h"
#include "memory.h"
#include "merge/merge.h"

enum { WRONG_WORDS = 2, TEXT_BYTES = 160, TENSORS_MAX = 2 * ATTNPRESS_MERGE_PARTS_MAX + 2 };

static void read_tile(const char *source, const ap_variant *variant, ap_tile *tile) {
  (void)variant;
  *tile = (ap_tile){.threads = source_constant(source, "THREADS")};
  tile->field[AP_MERGE_TILE_WARPS] = tile->threads / 32;
  tile->field[AP_MERGE_TILE_STEP] = source_constant(source, "STEP");
}

/* ---- A call ---------------------------------------------------------------------------------- */

typedef struct call {
  merge_shape shape;
  merge_problem problem, before; /* before: the parts in memory of their own */
  memory memory[MERGE_BUFFERS], copy[2];
  emulated_tensor tensors[TENSORS_MAX];
  int tensor_count;
} call;

static void add_tensor(call *c, const attnpress_tensor *out, const float *lse,
                       const int64_t lse_stride[3], int writable) {
  emulated_tensor *t = &c->tensors[c->tensor_count++];
  *t = (emulated_tensor){.name = writable ? "out" : "a part's out",
                         .data = out->data,
                         .element_bytes = out->dtype == ATTNPRESS_FP32 ? 4 : 2,
                         .writable = writable};
  memcpy(t->shape, out->shape, sizeof t->shape);
  memcpy(t->stride, out->stride, sizeof t->stride);
  if (lse == NULL)
    return;
  c->tensors[c->tensor_count++] =
      (emulated_tensor){.name = writable ? "lse" : "a part's lse",
                        .data = (void *)(uintptr_t)lse,
                        .element_bytes = 4,
                        .writable = writable,
                        .shape = {out->shape[0], out->shape[2], out->shape[1], 1},
                        .stride = {lse_stride[0], lse_stride[1], lse_stride[2], 1}};
}

static void fill_result(const merge_problem *p) {
  const attnpress_tensor *out = &p->args.out;
  const int64_t bytes = out->dtype == ATTNPRESS_FP32 ? 4 : 2;
  for (int64_t row = 0; row < out->shape[0] * out->shape[1] * out->shape[2]; ++row) {
    const int64_t h = row % out->shape[2], i = row / out->shape[2] % out->shape[1],
                  b = row / out->shape[2] / out->shape[1];
    memset((char *)out->data +
               (b * out->stride[0] + i * out->stride[1] + h * out->stride[2]) * bytes,
           0xff, (size_t)(out->shape[3] * bytes));
    if (p->args.lse != NULL)
      memset(&p->args.lse[b * p->args.lse_stride[0] + h * p->args.lse_stride[1] +
                          i * p->args.lse_stride[2]],
             0xff, sizeof(float));
  }
}

static void open_call(call *c, const merge_shape *s, uint64_t seed) {
  void *buffer[MERGE_BUFFERS], *before[MERGE_BUFFERS];
  *c = (call){.shape = *s};
  merge_lay_out(&c->problem, s);
  c->before = c->problem;
  for (int i = 0; i < MERGE_BUFFERS; ++i)
    before[i] = buffer[i] = memory_map(&c->memory[i], (size_t)c->problem.bytes[i] + 16);
  if (s->in_place)
    for (int i = MERGE_OUTS; i <= MERGE_LSES; ++i)
      before[i] = memory_map(&c->copy[i], (size_t)c->problem.bytes[i] + 16);
  merge_point(&c->problem, s, buffer);
  merge_point(&c->before, s, before);
  if (!s->in_place)
    fill_result(&c->problem);
  merge_fill(&c->problem, seed);
  merge_fill(&c->before, seed);
  const int last = s->num_parts - s->in_place;
  for (int i = 0; i < last; ++i)
    add_tensor(c, &c->problem.part[i].out, c->problem.part[i].lse, c->problem.part[i].lse_stride,
               0);
  add_tensor(c, &c->problem.args.out, c->problem.args.lse, c->problem.args.lse_stride, 1);
  if (s->in_place && s->no_lse)
    add_tensor(c, &c->problem.args.out, c->problem.part[last].lse, c->problem.part[last].lse_stride,
               0);
}

static void close_call(call *c) {
  for (int i = 0; i < MERGE_BUFFERS; ++i)
    memory_unmap(&c->memory[i]);
  for (int i = 0; i < 2; ++i)
    memory_unmap(&c->copy[i]);
}

static void call_parts(void (*function)(void), const void *args) {
  ((void (*)(attnpress_merge_parts_args))function)(*(const attnpress_merge_parts_args *)args);
}

static int launch(const kernel *k, const call *c, char *report) {
  const ap_device device = {.capability = 80, .sm_count = 108};
  ap_merge_problem problem;
  ap_merge_plan plan;
  attnpress_merge_parts_args args;
  if (ap_merge_validate(&c->problem.args, (ap_check){ATTNPRESS_CUDA, 1, ATTNPRESS_ONE_CALL},
                        &problem) != ATTNPRESS_OK ||
      ap_merge_plan_call(&problem, &device, ATTNPRESS_ONE_CALL, &plan) != ATTNPRESS_OK) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
    return -1;
  }
  ap_merge_fill_args(&problem, &plan, &args);
  const emulated_launch l = {.module = k->module,
                             .blocks = plan.base.launch[0].grid,
                             .threads = (unsigned)k->tile.threads,
                             .args = &args,
                             .call = call_parts,
                             .tensors = c->tensors,
                             .tensor_count = c->tensor_count};
  return emulated_run(&l, report);
}

static int run_shape(const kernel *k, const merge_shape *s, uint64_t seed, merge_error *error,
                     char *report) {
  call c;
  open_call(&c, s, seed);
  int status = launch(k, &c, report);
  if (status == 0) {
    merge_check(&c.problem.args, c.before.part, error);
    if (!(error->ratio <= 1.0)) {
      snprintf(report, EMULATED_REPORT_BYTES,
               "%s is off by %.3g of the tolerance: batch %" PRId64 ", row %" PRId64
               ", head %" PRId64 ", column %" PRId64 " is %.9g, expected %.9g",
               error->what, error->ratio, error->batch, error->row, error->head, error->column,
               error->value, error->expected);
      status = -1;
    }
  }
  close_call(&c);
  return status;
}

/* ---- A table of shapes ----------------------------------------------------------------------- */

/* batch, seqlen, heads, head_dim, parts; then, by name */
static const merge_shape shapes_table[] = {
    {1, 1, 1, 8, 1, .layout = MERGE_PACKED},
    {2, 7, 3, 128, 2, .layout = MERGE_HEADS_OUTSIDE},
    {1, 13, 5, 72, 3, .layout = MERGE_ODD, .lse_log2 = 1},
    {3, 3, 4, 520, 16, .layout = MERGE_PACKED, .in_place = 1},
    {2, 9, 2, 33, 5, .layout = MERGE_PACKED, .in_place = 1},
    {2, 6, 3, 64, 4, .layout = MERGE_HEADS_OUTSIDE, .no_lse = 1},
    {3, 2, 2, 40, 2, .layout = MERGE_PACKED, .far = 1},
    {1, 50, 9, 1, 7, .layout = MERGE_ODD},
};

static merge_shape shape_of(const kernel *k, const merge_shape *row) {
  merge_shape s = *row;
  s.dtype = k->variant.axis[AP_MERGE_DTYPE];
  s.out_dtype = k->variant.axis[AP_MERGE_RESULT];
  s.in_place = row->in_place && s.dtype == s.out_dtype;
  return s;
}

static void print_merge_shape(const merge_shape *s, char *text, size_t bytes) {
  static const char *const layouts[] = {"packed", "heads outside", "odd rows"};
  snprintf(text, bytes,
           "%d parts, batch %" PRId64 ", seqlen %" PRId64 ", %" PRId64 " heads of %" PRId64
           ", %s%s%s%s%s",
           (int)s->num_parts, s->batch, s->seqlen, s->heads, s->head_dim, layouts[s->layout],
           s->far ? ", far entries" : "", s->lse_log2 ? ", log2" : "",
           s->in_place ? ", in place" : "", s->no_lse ? ", without lse" : "");
}

static int run_shapes(const kernel *k, FILE *out, int *shapes) {
  static char report[EMULATED_REPORT_BYTES];
  for (size_t i = 0; i < sizeof shapes_table / sizeof *shapes_table; ++i, ++*shapes) {
    const merge_shape s = shape_of(k, &shapes_table[i]);
    merge_error error = {0};
    char text[TEXT_BYTES];
    if (run_shape(k, &s, 100 * i + 1, &error, report) == 0)
      continue;
    print_merge_shape(&s, text, sizeof text);
    fprintf(out, "FAILED %s\n  shape: %s\n  %s\n", k->stem, text, report);
    return 1;
  }
  return 0;
}

const emulated_family emulated_merge = {read_tile, run_shapes, NULL, NULL};

/* ---- One kernel and one shape ---------------------------------------------------------------- */

static const char help[] =
    "usage: attnpress run merge --device emulated [OPTION]...\n\n"
    "Runs a kernel on this machine's CPU, instruction by instruction, on random parts; watches "
    "every\naccess to memory, and checks the result against float64.\n\n"
    "  --parts N (2), --batch N (2), --seqlen N (20), --heads N (3), --head-dim N (128)\n"
    "  --dtype TYPE (bf16), --out-dtype TYPE (that of the parts)\n"
    "  --layout LAYOUT     bshd, bhsd or odd (bshd)\n"
    "  --log2, --in-place\n"
    "  --stem STEM         this kernel, of whatever dtypes it is\n"
    "  --source FILE       this file, named after its stem, such as the generator writes\n"
    "  --templates         made by the generator from the templates as they stand now\n"
    "  --seed N            of the random inputs (1)\n";

int emulate_run_merge(int argc, char **argv); /* of run.c's table */

int emulate_run_merge(int argc, char **argv) {
  static char report[EMULATED_REPORT_BYTES];
  static const char *const layouts[] = {"bshd", "bhsd", "odd", NULL};
  merge_shape s = {.batch = 2, .seqlen = 20, .heads = 3, .head_dim = 128, .dtype = ATTNPRESS_BF16};
  int64_t parts = 2, seed = 1;
  run_kernel meant = {NULL, NULL, 0};
  const run_number numbers[] = {
      {"--parts", &parts, 1},   {"--batch", &s.batch, 1},       {"--seqlen", &s.seqlen, 1},
      {"--heads", &s.heads, 1}, {"--head-dim", &s.head_dim, 1}, {"--seed", &seed, 1},
      {NULL, NULL, 0}};
  const run_choice choices[] = {{"--dtype", run_dtype_names, ATTNPRESS_FP16, &s.dtype},
                                {"--out-dtype", run_dtype_names, ATTNPRESS_FP16, &s.out_dtype},
                                {"--layout", layouts, 0, &s.layout},
                                {NULL, NULL, 0, NULL}};
  const run_flag flags[] = {{"--log2", &s.lse_log2}, {"--in-place", &s.in_place}, {NULL, NULL}};
  const run_words words = {.family = "merge", .help = help, .numbers = numbers, .choices = choices, .flags = flags, .kernel = &meant};
  int status = run_parse(&words, argc, argv);
  if (status != RUN_GOES_ON)
    return status;
  if (parts > ATTNPRESS_MERGE_PARTS_MAX ||
      (s.in_place && s.out_dtype != 0 && s.out_dtype != s.dtype)) {
    fprintf(stderr,
            "attnpress run merge: --parts is %" PRId64
            "; at most %d are merged, in place only to their own dtype\n",
            parts, (int)ATTNPRESS_MERGE_PARTS_MAX);
    return WRONG_WORDS;
  }
  s.num_parts = (int32_t)parts;
  const ap_variant chosen = {.family = AP_FAMILY_MERGE,
                             .axis = {[AP_MERGE_DTYPE] = s.dtype,
                                      [AP_MERGE_RESULT] = s.out_dtype != 0 ? s.out_dtype : s.dtype,
                                      [AP_MERGE_ARCH] = run_device.capability}};
  kernel k = {0};
  if (run_open(&meant, &chosen, &k, report) != 0) {
    fprintf(stderr, "attnpress run merge: %s\n", report);
    return 1;
  }
  char text[TEXT_BYTES];
  merge_error error = {0};
  int failed = -1;
  if (k.variant.family == AP_FAMILY_MERGE) {
    s = shape_of(&k, &s);
    failed = run_shape(&k, &s, (uint64_t)seed, &error, report);
  } else {
    snprintf(report, sizeof report, "%s merges nothing", k.stem);
  }
  print_merge_shape(&s, text, sizeof text);
  status = run_print(&k, text, failed, error.ratio, error.elements, report);
  kernel_close(&k);
  return status;
}
