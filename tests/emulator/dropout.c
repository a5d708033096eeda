/* The kernel that writes dropout's mask, under the emulator: every byte is compared with the host's
 * decision. */
#include "family_run.h"

#include <string.h>

#include "attention/dropout.h"
#include "attnpress/args/dropout.h"
#include "memory.h"

typedef enum mask_layout {
  MASK_CONTIGUOUS,
  MASK_GAPS,       /* room between rows, heads and batches */
  MASK_TRANSPOSED, /* queries side by side, keys apart */
  MASK_FAR_ROWS,   /* rows more than 2^31 bytes apart */
  MASK_LAYOUTS,
} mask_layout;

/* Lengths are in tiles and what is added to them. */
typedef struct mask_row {
  int batch, heads;
  struct {
    int tiles, more;
  } q, k;
  float probability;
  int seed_in_memory;
  mask_layout layout;
} mask_row;

static const mask_row mask_rows[] = {
    {1, 1, {1, 0}, {1, 0}, 0.1f, 0, MASK_CONTIGUOUS}, {2, 3, {0, 1}, {0, 1}, 0.5f, 1, MASK_GAPS},
    {1, 2, {1, 1}, {1, 1}, 0.9f, 0, MASK_TRANSPOSED}, {3, 1, {2, -3}, {1, 37}, 0.3f, 1, MASK_GAPS},
    {1, 4, {0, 17}, {3, -1}, 0.0f, 0, MASK_FAR_ROWS}, {2, 2, {0, 9}, {2, 5}, 1.0f, 0, MASK_GAPS},
};

static void read_tile(const char *source, const ap_variant *variant, ap_tile *tile) {
  (void)variant;
  *tile = (ap_tile){0};
  tile->field[AP_DROPOUT_TILE_WARPS] = source_constant(source, "WARPS");
  tile->field[AP_DROPOUT_TILE_BLOCK_N] = source_constant(source, "BLOCK_N");
  tile->threads = 32 * tile->field[AP_DROPOUT_TILE_WARPS];
}

static void call_keep(void (*function)(void), const void *args) {
  ((void (*)(attnpress_dropout_keep_args))function)(*(const attnpress_dropout_keep_args *)args);
}

static void set_strides(const attnpress_dropout_keep_args *a, mask_layout layout,
                        int64_t stride[4]) {
  const int64_t gap = layout == MASK_GAPS ? 5 : 0;
  const int64_t queries = a->seqlen_q, keys = a->seqlen_k;
  stride[3] = layout == MASK_TRANSPOSED ? queries : 1;
  stride[2] = layout == MASK_TRANSPOSED ? 1
              : layout == MASK_FAR_ROWS ? ((int64_t)1 << 31) + 3
                                        : keys + gap;
  stride[1] = layout == MASK_TRANSPOSED ? queries * keys : queries * stride[2] + gap;
  stride[0] = a->heads_q * stride[1] + gap;
}

/* A probability of 1, which no call may have, stands for the next below. */
static void fill_score(const mask_row *row, const uint64_t *seed, attnpress_score_args *score,
                       ap_dropout *expected) {
  attnpress_dropout dropout = ATTNPRESS_DROPOUT_INIT;
  dropout.probability = row->probability < 1.0f ? row->probability : 0x1.fffffep-1f;
  dropout.seed = 0x123456789abcdef0u;
  dropout.offset = 0x700000003u;
  dropout.seed_and_offset = row->seed_in_memory ? seed : NULL;
  *expected = ap_dropout_of(&dropout);
  *score = (attnpress_score_args){.dropout_seed = dropout.seed,
                                  .dropout_offset = dropout.offset,
                                  .dropout_seed_and_offset = dropout.seed_and_offset,
                                  .dropout_threshold = expected->threshold};
}

static int check(const attnpress_dropout_keep_args *a, const ap_dropout *expected, char *report) {
  for (int64_t b = 0; b < a->batch; ++b)
    for (int64_t h = 0; h < a->heads_q; ++h)
      for (int64_t i = 0; i < a->seqlen_q; ++i)
        for (int64_t j = 0; j < a->seqlen_k; ++j) {
          const int got = ((const uint8_t *)a->keep)[b * a->batch_stride + h * a->head_stride +
                                                     i * a->row_stride + j * a->key_stride];
          const int kept = ap_dropout_keeps(expected, b * a->heads_q + h, i, j);
          if (got == kept)
            continue;
          snprintf(report, EMULATED_REPORT_BYTES,
                   "out is off: batch %lld, head %lld, query %lld, key %lld is %d, expected %d",
                   (long long)b, (long long)h, (long long)i, (long long)j, got, kept);
          return -1;
        }
  return 0;
}

static int run_row(const kernel *k, const mask_row *row, char *report) {
  static const uint64_t seed[2] = {0xfedcba9876543210u, 0x100000000u};
  const int block_m = 16 * k->tile.field[AP_DROPOUT_TILE_WARPS],
            block_n = k->tile.field[AP_DROPOUT_TILE_BLOCK_N];
  attnpress_dropout_keep_args a = {.batch = row->batch,
                                   .heads_q = row->heads,
                                   .seqlen_q = row->q.tiles * block_m + row->q.more,
                                   .seqlen_k = row->k.tiles * block_n + row->k.more};
  ap_dropout expected;
  memory memory;
  int64_t stride[4];
  a.row_blocks = (a.seqlen_q + block_m - 1) / block_m;
  a.key_blocks = (a.seqlen_k + block_n - 1) / block_n;
  set_strides(&a, row->layout, stride);
  a.batch_stride = stride[0];
  a.head_stride = stride[1];
  a.row_stride = stride[2];
  a.key_stride = stride[3];
  a.keep = memory_map(&memory, (size_t)(row->batch * stride[0] + a.seqlen_k * stride[3]));
  fill_score(row, seed, &a.score, &expected);
  const emulated_tensor tensors[] = {{.name = "keep",
                                      .data = a.keep,
                                      .element_bytes = 1,
                                      .writable = 1,
                                      .shape = {a.batch, a.heads_q, a.seqlen_q, a.seqlen_k}},
                                     {.name = "seed and offset",
                                      .data = (void *)(uintptr_t)seed,
                                      .element_bytes = 8,
                                      .shape = {1, 1, 1, 2},
                                      .stride = {0, 0, 0, 1}}};
  emulated_tensor given[2];
  memcpy(given, tensors, sizeof given);
  memcpy(given[0].stride, stride, sizeof stride);
  for (int64_t b = 0; b < a.batch; ++b) /* what nobody writes is no answer */
    for (int64_t h = 0; h < a.heads_q; ++h)
      for (int64_t i = 0; i < a.seqlen_q; ++i)
        for (int64_t j = 0; j < a.seqlen_k; ++j)
          ((uint8_t *)a.keep)[b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3]] = 0xff;
  const emulated_launch l = {.module = k->module,
                             .blocks =
                                 (unsigned)(a.key_blocks * a.row_blocks * a.heads_q * a.batch),
                             .threads = (unsigned)k->tile.threads,
                             .args = &a,
                             .call = call_keep,
                             .tensors = given,
                             .tensor_count = 2};
  int status = emulated_run(&l, report);
  if (status == 0)
    status = check(&a, &expected, report);
  memory_unmap(&memory);
  return status;
}

static int run_shapes(const kernel *k, FILE *out, int *shapes) {
  static char report[EMULATED_REPORT_BYTES];
  for (size_t i = 0; i < sizeof mask_rows / sizeof *mask_rows; ++i, ++*shapes)
    if (run_row(k, &mask_rows[i], report) != 0) {
      fprintf(out, "FAILED %s\n  shape: number %d of the table in dropout.c\n  %s\n", k->stem,
              (int)i, report);
      return 1;
    }
  return 0;
}

const emulated_family emulated_dropout = {read_tile, run_shapes, NULL, NULL};

/* ---- One kernel ------------------------------------------------------------------------------ */

static const char help[] =
    "usage: attnpress run dropout --device emulated [--templates]\n\n"
    "Writes dropout's mask of a few shapes on this machine's CPU, instruction by instruction, and\n"
    "compares every byte with the host's decision.\n\n"
    "  --templates         the kernel as the generator makes it from the templates now\n";

int emulate_run_dropout(int argc, char **argv); /* of run.c's table */

int emulate_run_dropout(int argc, char **argv) {
  static char report[EMULATED_REPORT_BYTES];
  run_kernel meant = {"dropout_keep_sm80", NULL, 0};
  const run_words words = {.family = "dropout", .help = help, .kernel = &meant};
  const int status = run_parse(&words, argc, argv);
  if (status != RUN_GOES_ON)
    return status;
  kernel k = {0};
  int shapes = 0;
  if (run_open(&meant, NULL, &k, report) != 0) {
    fprintf(stderr, "attnpress run dropout: %s\n", report);
    return 1;
  }
  const int failed = run_shapes(&k, stdout, &shapes);
  if (!failed)
    printf("kernel    %s, %d threads\ncheck     held, over %d shapes, and no fault\n", k.stem,
           k.tile.threads, shapes);
  kernel_close(&k);
  return failed;
}
