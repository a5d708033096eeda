/* The words of `attnpress run --device emulated`, of attention; each family has its own. */
#include "run.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attention/score_mod.h"
#include "ragged.h"
#include "run_attention.h"
#include "../../tools/lengths.h"

static const char help[] =
    "usage: attnpress run --device emulated [OPTION]...\n\n"
    "Runs a kernel on this machine's CPU, instruction by instruction, on random inputs; watches "
    "every\n"
    "access to memory, and checks the result against float64. Which kernel:\n\n"
    "  --backward          those of the backward pass, each by itself: what the ones before it "
    "give\n"
    "                      comes from the host; --deterministic as for other devices\n"
    "  --stem STEM         this one; without it, what the library would choose for the shape\n"
    "  --source FILE       this file, named after its stem, such as the generator writes\n"
    "  --templates         made by the generator from the templates as they stand now\n"
    "  --arch ARCH         sm80, sm86 or sm90, where the library chooses (sm80)\n"
    "  --packed            the query heads of a key head share a tile; the library chooses this "
    "itself\n\n"
    "Which shape, as for other devices:\n\n"
    "  --batch N, --seqlen-q N, --seqlen-k N (256), --heads N, --kv-heads N (1), --hdim N, "
    "--hdim-v N\n"
    "  (128), --lengths LIST, --page-size N and --page-tables rows|flat of sequences of their own\n"
    "  lengths (at most 64), of these --batch-invariant and --ready-schedule, --dtype TYPE (bf16), "
    "--causal,\n"
    "  --splits N, --layout LAYOUT (bshd), --seed N, --check full (as is always done), and what is "
    "done to\n"
    "  scores:\n\n";

/* ---- What a call is -------------------------------------------------------------------------- */

score_shape run_scores(const run_options *o) {
  score_options options = o->scores;
  if (!options.windowed)
    options.left = options.right = -1;
  const attnpress_window window = score_options_window(&options, o->causal);
  return (score_shape){.left = (int)window.left,
                       .right = (int)window.right,
                       .chunk = (int)window.chunk,
                       .top_left = window.top_left,
                       .softcap = options.softcap > 0.0f ? options.softcap : 30.0f,
                       .bias = BIAS_CONTIGUOUS,
                       .sinks = options.sinks ? o->dtype : 0,
                       .dropout = options.dropout > 0.0f ? options.dropout : 0.1f};
}

int run_longest(const run_options *o) {
  int most = 0;
  for (int64_t i = 0; i < o->length_count; ++i)
    most = o->lengths[i] > most ? o->lengths[i] : most;
  return most;
}

shape run_shape(const run_options *o) {
  return (shape){.batch = o->batch,
                 .seqlen_q = o->seqlen_q,
                 .seqlen_k = o->seqlen_k,
                 .heads_kv = o->kv_heads,
                 .group = o->heads / o->kv_heads,
                 .layout = (layout)o->layout,
                 .scores = run_scores(o)};
}

void run_describe(const run_options *o, ap_problem *problem) {
  const attnpress_window window = score_options_window(&o->scores, o->causal);
  *problem = (ap_problem){.batch = o->batch,
                          .heads_q = o->heads,
                          .heads_kv = o->kv_heads,
                          .seqlen_q = o->seqlen_q,
                          .seqlen_k = o->seqlen_k,
                          .hdim = o->hdim,
                          .hdim_v = o->hdim_v,
                          .dtype = o->dtype,
                          .mask = score_options_mask(&o->scores, o->causal),
                          .window_left = ap_window_side(window.left),
                          .window_right = ap_window_side(window.right),
                          .window_chunk = window.chunk,
                          .window_top_left = window.top_left,
                          .softcap = o->scores.softcap > 0.0f,
                          .alibi = o->scores.alibi,
                          .bias = o->scores.bias,
                          .dropout = o->scores.dropout > 0.0f,
                          .num_splits = o->splits,
                          .batch_invariant = o->invariant,
                          .ready = o->ready,
                          .tma = 1,
                          .tma_min = 1,
                          .tma_max = 1};
  if (kernel_mod() != NULL)
    ap_score_mod_describe(&kernel_mod()->mod, 0, 0, problem);
  if (o->lengths != NULL) {
    problem->sequences =
        o->page_size > 0 ? AP_ATTENTION_SEQUENCES_PAGED : AP_ATTENTION_SEQUENCES_RAGGED;
    problem->batch = (int32_t)o->length_count;
    problem->seqlen_k = run_longest(o);
    problem->seqlen_q = o->seqlen_q == RUN_NOT_GIVEN ? problem->seqlen_k : o->seqlen_q;
  }
}

int run_open_stem(const run_options *o, const char *stem, kernel *k, char *report) {
  return o->meant.templates ? kernel_generate(k, stem, report)
                            : kernel_press(k, stem, NULL, report);
}

double run_seconds(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static int is_flag(void *of, const char *word) {
  return score_options_flag(&((run_options *)of)->scores, word);
}

/* Lengths, and what is done to scores. */
static const char *parse_value(void *of, const char *name, const char *value) {
  run_options *o = of;
  if (strcmp(name, "--lengths") == 0) {
    const char *allowed =
        o->lengths != NULL ? "given once" : lengths_parse(value, &o->lengths, &o->length_count);
    return allowed != NULL || o->length_count <= RAGGED_SEQUENCES_MAX
               ? allowed
               : "64 lengths at most where it is emulated";
  }
  for (int n = 0; score_option_names[n] != NULL; ++n)
    if (strcmp(name, score_option_names[n]) == 0)
      return score_options_value(&o->scores, name, value);
  return "";
}

/* --batch-invariant and --ready-schedule, whose kernels the library chooses: a name does not say how
 * long splits are, nor whether there is a schedule. */
static int check_sequences(const run_options *o, const run_words *words) {
  const char *name = o->invariant ? "--batch-invariant" : "--ready-schedule";
  if (!o->invariant && !o->ready)
    return RUN_GOES_ON;
  if (o->lengths == NULL)
    return run_refuse(words, "%s is of --lengths where it is emulated", name);
  if (o->backward)
    return run_refuse(words, "%s is of the forward pass: leave it or --backward out", name);
  if (o->meant.stem != NULL || o->meant.source != NULL || o->packed)
    return run_refuse(words, "%s does not go with %s: the library chooses the kernel", name,
                      o->meant.stem != NULL     ? "--stem"
                      : o->meant.source != NULL ? "--source"
                                                : "--packed");
  if (o->invariant && o->splits > 0)
    return run_refuse(words, "%s does not go with --splits: its splits lie at fixed keys", name);
  if (o->invariant && (o->scores.bias || o->scores.dropout > 0.0f || o->scores.mod != NULL))
    return run_refuse(words, "%s does not go with %s", name,
                      o->scores.bias             ? "--bias"
                      : o->scores.dropout > 0.0f ? "--dropout"
                                                 : "--mod");
  return RUN_GOES_ON;
}

/* What was not given, and what does not go together. */
static int complete(run_options *o, const run_words *words) {
  if (o->seqlen_q == RUN_NOT_GIVEN && o->lengths == NULL)
    o->seqlen_q = 256;
  if (o->page_size > 0 && o->lengths == NULL)
    return run_refuse(words, "--page-size is of --lengths, which is not given");
  if (o->flat_pages && o->page_size == 0)
    return run_refuse(words, "--page-tables is of --page-size, which is not given");
  if (o->deterministic && !o->backward)
    return run_refuse(words, "--deterministic is of --backward; the forward pass always is");
  if (o->backward && (o->page_size > 0 || o->splits > 0 || o->packed))
    return run_refuse(words, "%s is of the forward pass: leave it or --backward out",
                      o->page_size > 0 ? "--page-size"
                      : o->splits > 0  ? "--splits"
                                       : "--packed");
  if (o->scores.mod != NULL && (o->scores.bias || o->scores.alibi))
    return run_refuse(words, "--mod does not go with %s", o->scores.bias ? "--bias" : "--alibi");
  if (o->seqlen_k == RUN_NOT_GIVEN)
    o->seqlen_k = o->seqlen_q;
  if (o->kv_heads == RUN_NOT_GIVEN)
    o->kv_heads = o->heads;
  if (o->hdim_v == RUN_NOT_GIVEN)
    o->hdim_v = o->hdim;
  if (o->kv_heads < 1 || o->heads % o->kv_heads != 0)
    return run_refuse(words,
                      "--heads is %d and --kv-heads %d; the first must be a multiple of the second",
                      o->heads, o->kv_heads);
  return check_sequences(o, words);
}

int emulate_run_attention(int argc, char **argv) {
  static const char *const layouts[] = {"bshd", "bhsd", "gaps", "far-rows", "far-heads", NULL};
  static const char *const dtypes[] = {"any", "fp16", "bf16", NULL};
  static const char *const tables[] = {"rows", "flat", NULL};
  static const char *const checks[] = {"full", NULL}; /* every row, whether asked for or not */
  static char report[EMULATED_REPORT_BYTES];
  run_options o = {.batch = 1,
                   .seqlen_q = RUN_NOT_GIVEN,
                   .seqlen_k = RUN_NOT_GIVEN,
                   .heads = 1,
                   .kv_heads = RUN_NOT_GIVEN,
                   .hdim = 128,
                   .hdim_v = RUN_NOT_GIVEN,
                   .dtype = ATTNPRESS_BF16,
                   .seed = 1};
  int check;
  const run_int ints[] = {{"--batch", &o.batch, 0},
                          {"--seqlen-q", &o.seqlen_q, 0},
                          {"--seqlen-k", &o.seqlen_k, 0},
                          {"--heads", &o.heads, 0},
                          {"--kv-heads", &o.kv_heads, 0},
                          {"--hdim", &o.hdim, 0},
                          {"--hdim-v", &o.hdim_v, 0},
                          {"--splits", &o.splits, 0},
                          {"--page-size", &o.page_size, 0},
                          {"--seed", &o.seed, 0},
                          {NULL, NULL, 0}};
  const run_choice choices[] = {{"--layout", layouts, 0, &o.layout},
                                {"--dtype", dtypes, ATTNPRESS_FP16, &o.dtype},
                                {"--page-tables", tables, 0, &o.flat_pages},
                                {"--arch", run_arch_names, 0, &o.arch},
                                {"--check", checks, 0, &check},
                                {NULL, NULL, 0, NULL}};
  const run_flag flags[] = {{"--causal", &o.causal},
                            {"--packed", &o.packed},
                            {"--backward", &o.backward},
                            {"--deterministic", &o.deterministic},
                            {"--batch-invariant", &o.invariant},
                            {"--ready-schedule", &o.ready},
                            {NULL, NULL}};
  const run_others others = {is_flag, parse_value, score_options_table, &o};
  const run_words words = {.help = help,
                           .ints = ints,
                           .choices = choices,
                           .flags = flags,
                           .others = &others,
                           .kernel = &o.meant};
  int status = run_parse(&words, argc, argv);
  if (status == RUN_GOES_ON)
    status = complete(&o, &words);
  if (status == RUN_GOES_ON && o.scores.mod != NULL &&
      kernel_use_mod(o.scores.mod, o.scores.mod_scalars, report) != 0) {
    fprintf(stderr, "attnpress run: %s\n", report);
    status = 1;
  }
  if (status == RUN_GOES_ON)
    status = o.backward ? run_backward_call(&o) : run_forward_call(&o);
  free(o.lengths);
  return status;
}

/* ---- Families -------------------------------------------------------------------------------- */

#define FAMILY_FUNCTION(name, NAME) int emulate_run_##name(int argc, char **argv);
AP_FAMILIES(FAMILY_FUNCTION)

int emulate_run(int argc, char **argv) {
#define FAMILY_ROW(name, NAME) {#name, emulate_run_##name},
  static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
  } families[] = {AP_FAMILIES(FAMILY_ROW)};
  for (size_t i = 0; argc > 1 && i < sizeof families / sizeof *families; ++i)
    if (strcmp(argv[1], families[i].name) == 0)
      return families[i].run(argc - 1, argv + 1);
  return emulate_run_attention(argc, argv);
}
