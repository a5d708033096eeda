/* Runs append's kernels under the emulator. */
#include "family_run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/append/reference.h"
#include "append/append.h"
#include "memory.h"

enum { TEXT_BYTES = 200 };

static void read_tile(const char *source, const ap_variant *variant, ap_tile *tile) {
  (void)variant;
  *tile = (ap_tile){.threads = source_constant(source, "THREADS")};
  tile->field[AP_APPEND_TILE_WARPS] = tile->threads / 32;
}

/* ---- A call ---------------------------------------------------------------------------------- */

typedef struct call {
  append_problem problem, before; /* before: the same in memory of its own */
  memory memory[2][APPEND_BUFFERS];
  emulated_tensor tensors[APPEND_BUFFERS];
  int tensor_count;
} call;

static void add_tensor(call *c, const char *name, const attnpress_tensor *t, int writable) {
  if (t->dtype == 0)
    return;
  emulated_tensor *e = &c->tensors[c->tensor_count++];
  *e = (emulated_tensor){.name = name,
                         .data = t->data,
                         .element_bytes = t->dtype == ATTNPRESS_FP32 ? 4 : 2,
                         .writable = writable};
  memcpy(e->shape, t->shape, sizeof e->shape);
  memcpy(e->stride, t->stride, sizeof e->stride);
}

static void add_array(call *c, const char *name, const void *data, int element_bytes, int64_t rows,
                      int64_t columns, int64_t stride) {
  if (data != NULL)
    c->tensors[c->tensor_count++] = (emulated_tensor){.name = name,
                                                      .data = (void *)(uintptr_t)data,
                                                      .element_bytes = element_bytes,
                                                      .shape = {1, 1, rows, columns},
                                                      .stride = {0, 0, stride, 1}};
}

static void add_tensors(call *c, const append_shape *s) {
  const attnpress_append_args *a = &c->problem.args;
  const attnpress_rotary *r = &c->problem.rotary;
  const int64_t tokens = s->batch * s->new_tokens, half = r->rotary_dim / 2;
  const int bytes = r->dtype == ATTNPRESS_FP32 ? 4 : 2;
  add_tensor(c, "k_new", &a->k_new, 0);
  add_tensor(c, "v_new", &a->v_new, 0);
  add_tensor(c, "k_cache", &a->k_cache, 1);
  add_tensor(c, "v_cache", &a->v_cache, 1);
  add_tensor(c, "q", &a->q, a->q_out.dtype == 0);
  add_tensor(c, "q_out", &a->q_out, 1);
  add_array(c, "cu_seqlens_new", a->cu_seqlens_new, 4, 1, s->batch + 1, 0);
  add_array(c, "seqused_k", a->seqused_k, 4, 1, s->batch, 0);
  add_array(c, "kv_batch_idx", a->kv_batch_idx, 4, 1, s->batch, 0);
  const int64_t table_rows = a->page_table_rows != 0 ? a->page_table_rows : s->batch;
  const int flat = a->page_indptr != NULL;
  add_array(c, "page_table", a->page_table, 4, flat ? 1 : table_rows, a->max_pages,
            a->page_table_stride);
  add_array(c, "page_table_v", a->page_table_v, 4, flat ? 1 : table_rows, a->max_pages,
            a->page_table_stride);
  add_array(c, "page_indptr", a->page_indptr, 4, 1, s->batch + 1, 0);
  add_array(c, "first_positions", r->first_positions, 4, 1, s->batch, 0);
  add_array(c, "slot_mapping", a->slot_mapping, 8, 1, tokens, 0);
  add_array(c, "positions", r->positions, 4, 1, tokens, 0);
  const int64_t stride = r->stride != 0 ? r->stride : half;
  add_array(c, "cos", r->cos, bytes, r->num_positions, half, stride);
  add_array(c, "sin", r->sin, bytes, r->num_positions, half, stride);
}

static void open_call(call *c, const append_shape *s, uint64_t seed) {
  *c = (call){0};
  append_lay_out(&c->problem, s);
  c->before = c->problem;
  for (int copy = 0; copy < 2; ++copy) {
    void *buffer[APPEND_BUFFERS];
    append_problem *p = copy ? &c->before : &c->problem;
    for (int i = 0; i < APPEND_BUFFERS; ++i)
      buffer[i] =
          p->bytes[i] == 0 ? NULL : memory_map(&c->memory[copy][i], (size_t)p->bytes[i] + 16);
    append_point(p, s, buffer);
    append_fill(p, s, seed);
  }
  add_tensors(c, s);
}

static void close_call(call *c) {
  for (int i = 0; i < 2 * APPEND_BUFFERS; ++i)
    memory_unmap(&c->memory[i / APPEND_BUFFERS][i % APPEND_BUFFERS]);
}

static void call_write(void (*function)(void), const void *args) {
  ((void (*)(attnpress_append_write_args))function)(*(const attnpress_append_write_args *)args);
}

static int launch(const kernel *k, const call *c, char *report) {
  const ap_device device = {.capability = 80, .sm_count = 108};
  ap_append_problem problem;
  ap_launches plan;
  attnpress_append_write_args args;
  if (ap_append_validate(&c->problem.args, (ap_check){ATTNPRESS_CUDA, 1, ATTNPRESS_ONE_CALL},
                         &problem) != ATTNPRESS_OK ||
      ap_append_plan_call(&problem, &device, ATTNPRESS_ONE_CALL, &plan) != ATTNPRESS_OK) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
    return -1;
  }
  ap_append_fill_args(&problem, &args);
  const emulated_launch l = {.module = k->module,
                             .overlaps = 1,
                             .blocks = plan.launch[0].grid,
                             .threads = (unsigned)k->tile.threads,
                             .args = &args,
                             .call = call_write,
                             .tensors = c->tensors,
                             .tensor_count = c->tensor_count};
  return emulated_run(&l, report);
}

static int check(const call *c, append_error *e, char *report) {
  append_check check = {.args = &c->problem.args, .before = &c->before.args};
  if (append_check_open(&check) != 0) {
    snprintf(report, EMULATED_REPORT_BYTES, "no memory for the check");
    return -1;
  }
  for (int64_t row = 0; row < append_check_rows(&check); ++row)
    append_check_row(&check, row, e);
  append_check_close(&check);
  if (e->ratio <= 1.0)
    return 0;
  snprintf(report, EMULATED_REPORT_BYTES,
           "%s is off by %.3g of the tolerance: [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
           "] is %.9g, expected %.9g",
           e->what, e->ratio, e->at[0], e->at[1], e->at[2], e->at[3], e->value, e->expected);
  return -1;
}

static int run_shape(const kernel *k, const append_shape *s, uint64_t seed, append_error *error,
                     char *report) {
  call c;
  open_call(&c, s, seed);
  int status = launch(k, &c, report);
  if (status == 0)
    status = check(&c, error, report);
  close_call(&c);
  return status;
}

/* ---- A table of shapes ----------------------------------------------------------------------- */

/* batch, new tokens, heads of K, of q, head dims, rows of a cache's entry; then, by name */
static const append_shape shapes_table[] = {
    {1, 1, 1, 1, 8, 8, 9, .rotary_dim = 8},
    {5, 3, 2, 3, 64, 40, 9, .rotary_dim = 64, .places = APPEND_BATCH_IDX, .bad = 1},
    {7, 2, 2, 4, 128, 128, 3, .rotary_dim = 64, .places = APPEND_PAGES, .ragged = 1},
    {9, 4, 1, 0, 72, 72, 1, .places = APPEND_PAGES, .ragged = 1, .bad = 1, .far = 1},
    {3, 7, 3, 2, 33, 17, 8, .rotary_dim = 22, .places = APPEND_SLOTS, .layout = APPEND_ODD,
     .own_positions = 1, .q_out = 1, .ragged = 1, .bad = 1},
    {4, 5, 2, 5, 48, 24, 16, .rotary_dim = 36, .interleaved = 1, .rotary_own = 1, .q_out = 1,
     .layout = APPEND_HEADS_OUTSIDE},
    {6, 3, 1, 2, 80, 80, 4, .rotary_dim = 80, .interleaved = 1, .places = APPEND_PAGES,
     .own_positions = 1, .bad = 1},
    {4, 6, 2, 1, 40, 0, 5, .rotary_dim = 20, .rotary_own = 1, .ragged = 1, .places = APPEND_SLOTS},
    {3, 4, 0, 3, 96, 0, 1, .rotary_dim = 94, .interleaved = 1, .layout = APPEND_ODD, .bad = 1},
    {5, 4, 2, 0, 24, 24, 9, .places = APPEND_BATCH_IDX, .bad = 1},
    {2, 40, 4, 8, 64, 64, 50, .rotary_dim = 64, .rotary_own = 1, .ragged = 1, .far = 1},
    {7, 5, 2, 3, 32, 24, 3, .rotary_dim = 16, .places = APPEND_PAGES_IDX, .bad = 1, .own_first = 1,
     .q_out = 1},
    {6, 4, 1, 2, 40, 40, 2, .rotary_dim = 40, .places = APPEND_PAGES_FLAT, .bad = 1, .ragged = 1,
     .q_at_first = 1},
    {3, 6, 2, 4, 16, 8, 4, .rotary_dim = 8, .interleaved = 1, .places = APPEND_PAGES_FLAT,
     .own_first = 1, .q_at_first = 1},
};

static void print_append_shape(const append_shape *s, char *text, size_t bytes) {
  static const char *const places[] = {"dense", "batch indices", "pages",
                                       "slots", "picked pages",  "flat pages"};
  static const char *const layouts[] = {"", ", heads outside", ", odd rows"};
  snprintf(text, bytes,
           "batch %" PRId64 " x %" PRId64 " %stokens, %" PRId64 " and %" PRId64 " heads of %" PRId64
           " and %" PRId64 ", %s of %" PRId64 " rows, %d columns rotated%s%s%s%s%s%s%s%s",
           s->batch, s->new_tokens, s->ragged ? "ragged " : "", s->heads_kv, s->heads_q,
           s->head_dim, s->head_dim_v, places[s->places], s->cache_rows, (int)s->rotary_dim,
           s->interleaved ? ", interleaved" : "", s->rotary_own ? ", tables of their dtype" : "",
           s->own_positions ? ", positions" : "", s->own_first ? ", first positions" : "",
           s->q_at_first ? ", q at the first" : "", s->q_out ? ", q_out" : "", layouts[s->layout],
           s->bad ? ", bad indices" : "");
}

static int run_shapes(const kernel *k, FILE *out, int *shapes) {
  static char report[EMULATED_REPORT_BYTES];
  for (size_t i = 0; i < sizeof shapes_table / sizeof *shapes_table; ++i, ++*shapes) {
    append_shape s = shapes_table[i];
    append_error error = {0};
    char text[TEXT_BYTES];
    s.dtype = k->variant.axis[AP_APPEND_DTYPE];
    if (run_shape(k, &s, 100 * i + 1, &error, report) == 0)
      continue;
    print_append_shape(&s, text, sizeof text);
    fprintf(out, "FAILED %s\n  shape: %s\n  %s\n", k->stem, text, report);
    return 1;
  }
  return 0;
}

const emulated_family emulated_append = {read_tile, run_shapes, NULL, NULL};

/* ---- One kernel and one shape ---------------------------------------------------------------- */

static const char help[] =
    "usage: attnpress run append --device emulated [OPTION]...\n\n"
    "Runs a kernel on this machine's CPU, instruction by instruction, on random tokens; watches "
    "every\naccess to memory, and checks cache and queries against float64.\n\n"
    "  --batch N (3), --new N (5), --heads N (4), --kv-heads N (2), --head-dim N (128)\n"
    "  --head-dim-v N (that of K), --cache-rows N (64): of a sequence, or of a page\n"
    "  --places WHERE      dense, batch-idx, pages, slots, picked or flat (dense)\n"
    "  --rotary STYLE      none, neox or interleaved (neox), --rotary-dim N (the head dim)\n"
    "  --dtype TYPE (bf16), --layout LAYOUT: bshd, bhsd or odd (bshd)\n"
    "  --ragged, --positions, --first-positions, --q-at-first, --q-out, --tables-own, --bad\n"
    "  --stem STEM         this kernel, of whatever dtype it is\n"
    "  --source FILE       this file, named after its stem, such as the generator writes\n"
    "  --templates         made by the generator from the templates as they stand now\n"
    "  --seed N            of the random inputs (1)\n";

int emulate_run_append(int argc, char **argv); /* of run.c's table */

int emulate_run_append(int argc, char **argv) {
  static char report[EMULATED_REPORT_BYTES];
  static const char *const layouts[] = {"bshd", "bhsd", "odd", NULL},
                           *const places[] = {"dense",  "batch-idx", "pages", "slots",
                                              "picked", "flat",      NULL},
                           *const styles[] = {"none", "neox", "interleaved", NULL};
  append_shape s = {3, 5, 2, 4, 128, 0, 64, .dtype = ATTNPRESS_BF16};
  int64_t rotary_dim = 0, head_dim_v = 0, seed = 1;
  int rotary = 1;
  run_kernel meant = {NULL, NULL, 0};
  const run_number numbers[] = {{"--batch", &s.batch, 1},
                                {"--new", &s.new_tokens, 1},
                                {"--heads", &s.heads_q, 1},
                                {"--kv-heads", &s.heads_kv, 1},
                                {"--head-dim", &s.head_dim, 1},
                                {"--head-dim-v", &head_dim_v, 1},
                                {"--cache-rows", &s.cache_rows, 1},
                                {"--rotary-dim", &rotary_dim, 1},
                                {"--seed", &seed, 1},
                                {NULL, NULL, 0}};
  const run_choice choices[] = {{"--dtype", run_dtype_names, ATTNPRESS_FP16, &s.dtype},
                                {"--layout", layouts, 0, &s.layout},
                                {"--places", places, 0, &s.places},
                                {"--rotary", styles, 0, &rotary},
                                {NULL, NULL, 0, NULL}};
  const run_flag flags[] = {{"--ragged", &s.ragged},
                            {"--positions", &s.own_positions},
                            {"--first-positions", &s.own_first},
                            {"--q-at-first", &s.q_at_first},
                            {"--q-out", &s.q_out},
                            {"--tables-own", &s.rotary_own},
                            {"--bad", &s.bad},
                            {NULL, NULL}};
  const run_words words = {.family = "append",
                           .help = help,
                           .numbers = numbers,
                           .choices = choices,
                           .flags = flags,
                           .kernel = &meant};
  int status = run_parse(&words, argc, argv);
  if (status != RUN_GOES_ON)
    return status;
  s.head_dim_v = head_dim_v != 0 ? head_dim_v : s.head_dim;
  s.rotary_dim = (int32_t)(rotary == 0 ? 0 : rotary_dim != 0 ? rotary_dim : s.head_dim / 2 * 2);
  s.interleaved = rotary == 2;
  if (s.rotary_dim == 0)
    s.heads_q = 0;
  const ap_variant chosen = {
      .family = AP_FAMILY_APPEND,
      .axis = {[AP_APPEND_DTYPE] = s.dtype, [AP_APPEND_ARCH] = run_device.capability}};
  kernel k = {0};
  if (run_open(&meant, &chosen, &k, report) != 0) {
    fprintf(stderr, "attnpress run append: %s\n", report);
    return 1;
  }
  char text[TEXT_BYTES];
  append_error error = {0};
  int failed = -1;
  if (k.variant.family == AP_FAMILY_APPEND) {
    s.dtype = k.variant.axis[AP_APPEND_DTYPE];
    failed = run_shape(&k, &s, (uint64_t)seed, &error, report);
  } else {
    snprintf(report, sizeof report, "%s writes to no cache", k.stem);
  }
  print_append_shape(&s, text, sizeof text);
  status = run_print(&k, text, failed, error.ratio, error.elements, report);
  kernel_close(&k);
  return status;
}
