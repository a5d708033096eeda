/* One kernel and one shape. */
#include "run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attention/attention.h"
#include "attention/score_mod.h"
#include "forward.h"
#include "ragged.h"
#include "../../tools/lengths.h"
#include "../../tools/score_options.h"

enum { WRONG_WORDS = 2, NOT_GIVEN = -1 };

static const char help[] =
    "usage: attnpress run --device emulated [OPTION]...\n\n"
    "Runs a kernel on this machine's CPU, instruction by instruction, on random inputs; watches "
    "every\n"
    "access to memory, and checks the result against float64. Which kernel:\n\n"
    "  --stem STEM         this one; without it, the one that the library would choose for the "
    "shape\n"
    "  --source FILE       this file, named after its stem, such as the generator writes\n"
    "  --templates         made by the generator from the templates as they stand now\n"
    "  --arch ARCH         sm80, sm86 or sm90, where the library chooses (sm80)\n"
    "  --packed            the query heads of a key head share a tile; the library chooses this "
    "itself\n\n"
    "Which shape, as for other devices:\n\n"
    "  --batch N, --seqlen-q N, --seqlen-k N (256), --heads N, --kv-heads N (1), --hdim N, "
    "--hdim-v N\n"
    "  (128), --lengths LIST, --page-size N and --page-tables rows|flat of sequences of their own\n"
    "  lengths (at most 64), --dtype TYPE (bf16), --causal, --splits N, --layout LAYOUT (bshd), "
    "--seed N,\n"
    "  --check full (as is always done), and what is\n"
    "  done to scores:\n\n";

static const char exit_status[] =
    "\nexit status: 0 the check held, 1 it did not or the kernel has a fault, 2 the words were "
    "wrong\n";

typedef struct run_options {
  int batch, seqlen_q, seqlen_k, heads, kv_heads, hdim, hdim_v, splits, seed, arch;
  int dtype, layout, causal, packed, templates;
  const char *stem, *source;
  int32_t *lengths;
  int64_t length_count;
  int page_size, flat_pages;
  score_options scores;
} run_options;

static int wrong(const char *format, ...) {
  va_list values;
  fputs("attnpress run: ", stderr);
  va_start(values, format);
  vfprintf(stderr, format, values);
  va_end(values);
  fputs("; --device emulated --help says more\n", stderr);
  return WRONG_WORDS;
}

/* The place of `word` among names that end with NULL, or -1. */
static int choice(const char *word, const char *const *names) {
  for (int i = 0; names[i] != NULL; ++i)
    if (strcmp(word, names[i]) == 0)
      return i;
  return -1;
}

/* NULL, or what the value must be; "": the name is not known. */
static const char *parse_value(run_options *o, const char *name, const char *value) {
  static const char *const layouts[] = {"bshd", "bhsd", "gaps", "far-rows", "far-heads", NULL};
  static const char *const dtypes[] = {"any", "fp16", "bf16", NULL};
  static const char *const tables[] = {"rows", "flat", NULL};
  static const char *const archs[] = {"sm80", "sm86", "sm90", NULL};
  static const int arch_numbers[] = {80, 86, 90};
  const struct {
    const char *name;
    int *value;
  } numbers[] = {{"--batch", &o->batch},       {"--seqlen-q", &o->seqlen_q},
                 {"--seqlen-k", &o->seqlen_k}, {"--heads", &o->heads},
                 {"--kv-heads", &o->kv_heads}, {"--hdim", &o->hdim},
                 {"--hdim-v", &o->hdim_v},     {"--splits", &o->splits},
                 {"--seed", &o->seed},         {"--page-size", &o->page_size}};
  if (strcmp(name, "--page-tables") == 0) {
    o->flat_pages = choice(value, tables);
    return o->flat_pages >= 0 ? NULL : "rows or flat";
  }
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
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i)
    if (strcmp(name, numbers[i].name) == 0) {
      char *end;
      const long number = strtol(value, &end, 10);
      *numbers[i].value = (int)number;
      return *value != '\0' && *end == '\0' && number >= 0 && number <= INT32_MAX
                 ? NULL
                 : "a whole number from 0 to 2147483647";
    }
  if (strcmp(name, "--stem") == 0)
    return o->stem = value, NULL;
  if (strcmp(name, "--source") == 0)
    return o->source = value, NULL;
  if (strcmp(name, "--arch") == 0) {
    const int arch = choice(value, archs);
    o->arch = arch < 0 ? 0 : arch_numbers[arch];
    return arch >= 0 ? NULL : "sm80, sm86 or sm90";
  }
  if (strcmp(name, "--layout") == 0) {
    o->layout = choice(value, layouts);
    return o->layout >= 0 ? NULL : "bshd, bhsd, gaps, far-rows or far-heads";
  }
  if (strcmp(name, "--dtype") == 0) {
    o->dtype = choice(value, dtypes);
    return o->dtype >= ATTNPRESS_FP16 ? NULL : "fp16 or bf16 where it is emulated";
  }
  if (strcmp(name, "--device") == 0)
    return strcmp(value, "emulated") == 0 ? NULL : "emulated, as another word says";
  if (strcmp(name, "--check") == 0) /* every row, whether asked for or not */
    return strcmp(value, "full") == 0 ? NULL : "full, as all rows are checked";
  return "";
}

static int parse(run_options *o, int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    char name[32];
    const char *equals = strchr(argv[i], '=');
    if (strcmp(argv[i], "--causal") == 0)
      o->causal = 1;
    else if (strcmp(argv[i], "--packed") == 0)
      o->packed = 1;
    else if (strcmp(argv[i], "--templates") == 0)
      o->templates = 1;
    else if (score_options_flag(&o->scores, argv[i]))
      continue;
    else {
      const int size = equals != NULL ? (int)(equals - argv[i]) : (int)strlen(argv[i]);
      snprintf(name, sizeof name, "%.*s", size, argv[i]);
      const char *value = equals != NULL ? equals + 1 : i + 1 < argc ? argv[++i] : "";
      const char *allowed = parse_value(o, name, value);
      if (allowed != NULL && *allowed == '\0')
        return wrong("\"%s\" is not an option of --device emulated", name);
      if (allowed != NULL)
        return wrong("%s is \"%s\"; it must be %s", name, value, allowed);
    }
  }
  if (o->seqlen_q == NOT_GIVEN && o->lengths == NULL)
    o->seqlen_q = 256;
  if (o->page_size > 0 && o->lengths == NULL)
    return wrong("--page-size is of --lengths, which is not given");
  if (o->flat_pages && o->page_size == 0)
    return wrong("--page-tables is of --page-size, which is not given");
  if (o->seqlen_k == NOT_GIVEN)
    o->seqlen_k = o->seqlen_q;
  if (o->kv_heads == NOT_GIVEN)
    o->kv_heads = o->heads;
  if (o->hdim_v == NOT_GIVEN)
    o->hdim_v = o->hdim;
  if (o->kv_heads < 1 || o->heads % o->kv_heads != 0)
    return wrong("--heads is %d and --kv-heads %d; the first must be a multiple of the second",
                 o->heads, o->kv_heads);
  return 0;
}

/* What a kernel whose name has the features is given. */
static score_shape scores_of(const run_options *o) {
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

static int longest(const run_options *o) {
  int most = 0;
  for (int64_t i = 0; i < o->length_count; ++i)
    most = o->lengths[i] > most ? o->lengths[i] : most;
  return most;
}

/* What the library would run on a device of compute capability 8.0, 8.6 or 9.0. */
static int choose(const run_options *o, ap_plan *plan, char stem[AP_STEM_MAX], char *report) {
  static const struct {
    int capability, sm_count, threads, smem_kilobytes;
  } devices[] = {{80, 108, 2048, 164}, {86, 84, 1536, 100}, {90, 132, 2048, 228}};
  int d = 0;
  while (devices[d].capability != o->arch)
    ++d;
  const ap_device device = {.capability = o->arch,
                            .sm_count = devices[d].sm_count,
                            .threads_per_sm = devices[d].threads,
                            .smem_per_sm_bytes = devices[d].smem_kilobytes * 1024,
                            .smem_per_block_bytes = (devices[d].smem_kilobytes - 1) * 1024,
                            .tma = o->arch == 90};
  const attnpress_window window = score_options_window(&o->scores, o->causal);
  ap_problem problem = {.batch = o->batch,
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
                        .tma = 1,
                        .tma_min = 1,
                        .tma_max = 1};
  if (kernel_mod() != NULL)
    ap_score_mod_describe(&kernel_mod()->mod, 0, 0, &problem);
  if (o->lengths != NULL) {
    problem.sequences =
        o->page_size > 0 ? AP_ATTENTION_SEQUENCES_PAGED : AP_ATTENTION_SEQUENCES_RAGGED;
    problem.batch = (int32_t)o->length_count;
    problem.seqlen_k = longest(o);
    problem.seqlen_q = o->seqlen_q == NOT_GIVEN ? problem.seqlen_k : o->seqlen_q;
  }
  if (ap_choose(&problem, &device, plan) != ATTNPRESS_OK ||
      ap_variant_print(&plan->variant, stem) != ATTNPRESS_OK) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
    return -1;
  }
  return 0;
}

static int open_stem(const run_options *o, const char *stem, kernel *k, char *report) {
  return o->templates ? kernel_generate(k, stem, report) : kernel_press(k, stem, NULL, report);
}

/* The kernel, what adds up its splits, and what the library would say about both. */
static int open_kernels(const run_options *o, kernel *k, companions *others, shape *s,
                        char *report) {
  char stem[AP_STEM_MAX];
  ap_plan plan;
  int status;
  if (o->scores.mod != NULL && (o->scores.bias || o->scores.alibi)) {
    snprintf(report, EMULATED_REPORT_BYTES, "--mod does not go with %s",
             o->scores.bias ? "--bias" : "--alibi");
    return -1;
  }
  if (o->scores.mod != NULL && kernel_use_mod(o->scores.mod, o->scores.mod_scalars, report) != 0)
    return -1;
  s->packed = o->packed ? s->group : 0;
  s->splits = o->splits;
  if (o->source != NULL) {
    status = kernel_open(k, o->source, report);
  } else if (o->stem != NULL) {
    status = open_stem(o, o->stem, k, report);
  } else {
    if (choose(o, &plan, stem, report) != 0)
      return -1;
    s->packed = plan.heads_per_tile;
    s->splits = plan.variant.axis[AP_ATTENTION_SPLIT] ? plan.num_splits : 0;
    if (plan.tile.field[AP_ATTENTION_TILE_PRODUCER] && plan.grid > 0) {
      s->blocks = (int)plan.grid;
      s->section_heads = plan.section_heads;
      s->group_sections = plan.group_units / (plan.section_heads * plan.row_blocks);
    }
    status = open_stem(o, stem, k, report);
  }
  if (s->splits < 1 && (k->variant.axis[AP_ATTENTION_SPLIT] ||
                        k->variant.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD_COMBINE))
    s->splits = 2;
  if (status == 0 && needs_map(&k->variant))
    status = open_stem(o, "flash_fwd_map_hdim8_bf16_sm80", &others->map, report);
  if (status == 0 && needs_schedule(&k->variant))
    status = open_stem(o, schedule_stem(&k->variant), &others->schedule, report);
  if (status != 0 || !k->variant.axis[AP_ATTENTION_SPLIT])
    return status;
  return combine_stem(&k->variant, stem) == 0 ? open_stem(o, stem, &others->combine, report) : -1;
}

static double seconds(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void print_verdict(const kernel *k, const shape *s, const ragged_run *ragged,
                          const verdict *v, double compile_seconds, double run_seconds) {
  char text[512];
  const reference_error *e = &v->error;
  print_shape(&k->variant, s, text, sizeof text);
  printf("kernel    %s, tile %d x %d, %d bytes of shared memory\n", k->stem,
         k->tile.field[AP_ATTENTION_TILE_BLOCK_M], k->tile.field[AP_ATTENTION_TILE_BLOCK_N],
         k->tile.smem_bytes);
  if (ragged->count > 0)
    printf("shape     %d sequences, %s%.0d%s%d heads on %d\n", ragged->count,
           ragged->page_size > 0 ? "pages of " : "", ragged->page_size,
           ragged->page_size > 0 ? ", " : "", ragged->heads_kv * ragged->group, ragged->heads_kv);
  else
    printf("shape     %s\n", text);
  printf("time      compiled in %.2f s, run and checked in %.2f s\n", compile_seconds, run_seconds);
  if (e->elements > 0)
    printf("error     out %.3e, bound %.3e; lse %.3e, bound %.1e\n", e->out, reference_bound(e),
           e->lse, reference_lse_bound(e));
  if (v->passed)
    printf("check     held, over %lld elements, and no fault\n", (long long)e->elements);
  else
    printf("check     FAILED: %s\n", v->report);
}

static int is_ragged(const kernel *k) {
  return k->variant.axis[AP_ATTENTION_SEQUENCES] != AP_ATTENTION_SEQUENCES_DENSE;
}

/* Calls with few elements are made again with other inputs, until there are as many as the
 * criterion wants. */
static void run_until_enough(const kernel *k, const companions *others, const shape *s,
                             const ragged_run *ragged, uint64_t seed, verdict *v) {
  int64_t before;
  do {
    before = v->error.elements;
    if (ragged->count > 0)
      run_ragged_batch(k, others, ragged, &s->scores, seed, v);
    else if (k->variant.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD_COMBINE)
      run_combine(k, s, 0, seed, v);
    else
      run_forward(k, others, s, seed, v);
    seed += 3;
  } while (v->passed && v->error.elements > before && v->error.elements < REFERENCE_MIN_ELEMENTS);
}

int emulate_run_attention(int argc, char **argv) {
  run_options o = {.batch = 1,
                   .seqlen_q = NOT_GIVEN,
                   .seqlen_k = NOT_GIVEN,
                   .heads = 1,
                   .kv_heads = NOT_GIVEN,
                   .hdim = 128,
                   .hdim_v = NOT_GIVEN,
                   .dtype = ATTNPRESS_BF16,
                   .seed = 1,
                   .arch = 80};
  for (int i = 1; i < argc; ++i)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
      printf(help);
      tool_print_options(stdout, score_options_table);
      printf(exit_status);
      return 0;
    }
  if (parse(&o, argc, argv) != 0)
    return WRONG_WORDS;
  static verdict v;
  kernel k = {0};
  companions others = {0};
  shape s = {.batch = o.batch,
             .seqlen_q = o.seqlen_q,
             .seqlen_k = o.seqlen_k,
             .heads_kv = o.kv_heads,
             .group = o.heads / o.kv_heads,
             .layout = (layout)o.layout,
             .scores = scores_of(&o)};
  const double begin = seconds();
  if (open_kernels(&o, &k, &others, &s, v.report) != 0) {
    fprintf(stderr, "attnpress run: %s\n", v.report);
    kernel_close(&k);
    return 1;
  }
  const double compiled = seconds();
  ragged_run ragged = {.count = (int)o.length_count,
                       .seqlen_q = o.seqlen_q == NOT_GIVEN ? 0 : o.seqlen_q,
                       .page_size = o.page_size,
                       .flat_pages = o.flat_pages,
                       .heads_kv = s.heads_kv,
                       .group = s.group,
                       .packed = s.packed > 1,
                       .splits = s.splits};
  for (int i = 0; i < ragged.count; ++i)
    ragged.keys[i] = o.lengths[i];
  free(o.lengths);
  const int pass = k.variant.axis[AP_ATTENTION_PASS];
  if (k.variant.family != AP_FAMILY_ATTENTION ||
      (pass != AP_ATTENTION_PASS_FWD && pass != AP_ATTENTION_PASS_FWD_COMBINE)) {
    fprintf(stderr,
            "attnpress run: %s is not of attention's forward pass, which this command runs; "
            "attnpress-emulate sources FILE runs any kernel that was generated\n",
            k.stem);
    return WRONG_WORDS;
  }
  if (is_ragged(&k) != (ragged.count > 0)) {
    fprintf(stderr, "attnpress run: %s needs %s\n", k.stem,
            is_ragged(&k) ? "--lengths" : "a call without --lengths");
    return WRONG_WORDS;
  }
  run_until_enough(&k, &others, &s, &ragged, (uint64_t)o.seed, &v);
  print_verdict(&k, &s, &ragged, &v, compiled - begin, seconds() - compiled);
  companions_close(&others);
  kernel_close(&k);
  return !v.passed;
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
