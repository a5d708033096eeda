/* Kernels times shapes, shared out over processes. */
#define _GNU_SOURCE /* fnmatch, MAP_ANONYMOUS */
#include "table.h"

#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "family.h"

/* ---- Kernels --------------------------------------------------------------------------------- */

/* What follows a stem where the kernel is to have another tile than its architecture's: a target's,
 * or this for one with Q in registers. */
#define Q_IN_REGS ":q"

static int press_with_other_tile(kernel *k, const char *name, char *report) {
  char stem[AP_STEM_MAX];
  ap_variant variant;
  ap_tile tile;
  const char *suffix = strchr(name, ':');
  const int q_in_regs = strcmp(suffix, Q_IN_REGS) == 0;
  snprintf(stem, sizeof stem, "%.*s", (int)(suffix - name), name);
  if (ap_variant_parse(stem, &variant) != ATTNPRESS_OK ||
      ap_find_tile(&variant, q_in_regs ? NULL : suffix + 1, &tile) != ATTNPRESS_OK) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
    return -1;
  }
  if (q_in_regs) {
    tile.field[AP_ATTENTION_TILE_Q_IN_REGS] = 1;
    tile.field[AP_ATTENTION_TILE_K_UNROLL] = 0;
  }
  return kernel_press(k, stem, &tile, report);
}

int kernel_find(kernel *k, const char *name, char *report) {
  const size_t size = strlen(name);
  if (size > 3 && strcmp(name + size - 3, ".cu") == 0)
    return kernel_open(k, name, report);
  if (strchr(name, ':') != NULL)
    return press_with_other_tile(k, name, report);
  char path[512];
  snprintf(path, sizeof path, EMULATED_SOURCE_DIR "/generated/%s.cu", name);
  return access(path, R_OK) == 0 ? kernel_open(k, path, report)
                                 : kernel_press(k, name, NULL, report);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One kernel, all its shapes. */
static int run_kernel(const char *name, int verbose, FILE *out) {
  static char report[EMULATED_REPORT_BYTES];
  kernel k;
  const double begin = seconds();
  int shapes = 0, failed = kernel_find(&k, name, report) != 0;
  const double compiled = seconds();
  if (failed)
    fprintf(out, "FAILED %s\n  %s\n", name, report);
  else
    failed = emulated_family_of(&k.variant)->run_shapes(&k, out, &shapes);
  if (!failed && verbose)
    fprintf(out, "passed %-56s %3d shapes, compiled in %.2f s, run in %.2f s\n", k.stem, shapes,
            compiled - begin, seconds() - compiled);
  kernel_close(&k);
  return failed;
}

/* ---- Processes ------------------------------------------------------------------------------- */

enum { JOBS_MAX = 64, KERNEL_SECONDS = 120 };

/* What the processes share. */
typedef struct board {
  int next, failed;
  int current[JOBS_MAX]; /* the kernel that a process is at */
} board;

static int take(int *counter) {
  return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* Ends the process after so many seconds of work, or four times as many that went by, which is for
 * one that waits: a machine that does other things must not look like a kernel without an end. */
static void limit_time(unsigned seconds) {
  const struct itimerval limit = {.it_value = {.tv_sec = seconds}};
  setitimer(ITIMER_PROF, &limit, NULL);
  alarm(4 * seconds);
}

static int is_time_limit(int status) {
  return WIFSIGNALED(status) && (WTERMSIG(status) == SIGPROF || WTERMSIG(status) == SIGALRM);
}

/* Takes kernels until none is left; what it says of one comes out in one piece. */
static _Noreturn void work(board *b, int job, char **names, int count, const table_options *o) {
  for (int i; (i = take(&b->next)) < count;) {
    char *text = NULL;
    size_t size = 0;
    b->current[job] = i;
    limit_time(o->seconds ? o->seconds : KERNEL_SECONDS);
    FILE *out = open_memstream(&text, &size);
    if (out == NULL || run_kernel(names[i], o->verbose, out) != 0)
      take(&b->failed);
    if (out != NULL)
      fclose(out);
    if (size > 0 && write(STDOUT_FILENO, text, size) < 0)
      take(&b->failed);
    free(text);
  }
  exit(0);
}

static pid_t start(board *b, int job, char **names, int count, const table_options *o) {
  const pid_t child = fork();
  if (child == 0)
    work(b, job, names, count, o);
  return child;
}

/* Waits for all processes; one that crashed, or ran out of time, is replaced. */
static void wait_for_all(board *b, pid_t *children, int jobs, char **names, int count,
                         const table_options *o) {
  for (int running = jobs; running > 0;) {
    int status, job = 0;
    const pid_t child = wait(&status);
    if (child < 0)
      break;
    while (job < jobs && children[job] != child)
      ++job;
    if (job == jobs)
      continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      --running;
      continue;
    }
    printf("FAILED %s\n  the process ended with signal %d%s\n", names[b->current[job]],
           WIFSIGNALED(status) ? WTERMSIG(status) : 0,
           is_time_limit(status) ? ": it took too long" : "");
    fflush(stdout);
    take(&b->failed);
    children[job] = start(b, job, names, count, o);
  }
}

static int run_all(const table_options *o, char **names, int count) {
  const double begin = seconds();
  int jobs = o->jobs > 0 ? o->jobs : (int)sysconf(_SC_NPROCESSORS_ONLN);
  jobs = jobs > JOBS_MAX ? JOBS_MAX : jobs > count ? count : jobs;
  board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t children[JOBS_MAX];
  if (b == MAP_FAILED)
    return 1;
  fflush(stdout);
  for (int job = 0; job < jobs; ++job)
    children[job] = start(b, job, names, count, o);
  wait_for_all(b, children, jobs, names, count, o);
  const int failed = b->failed;
  munmap(b, sizeof *b);
  printf("%d kernels, %d failed, %.1f s in %d processes\n", count, failed, seconds() - begin, jobs);
  return failed || count == 0;
}

/* ---- Which kernels --------------------------------------------------------------------------- */

typedef struct names {
  char **list;
  int count;
} names;

/* FNV-1a (Fowler, Noll, Vo). */
unsigned hash_of_name(const char *name) {
  unsigned hash = 2166136261u;
  for (; *name; ++name)
    hash = (hash ^ (unsigned char)*name) * 16777619u;
  return hash ^ hash >> 16;
}

static void add_name(names *n, const char *name, const table_options *o) {
  if (o->only != NULL && fnmatch(o->only, name, 0) != 0)
    return;
  if (o->one_in > 1 && hash_of_name(name) % o->one_in != 0)
    return;
  char **list = realloc(n->list, (size_t)(n->count + 1) * sizeof *list);
  char *copy = strdup(name);
  if (list == NULL || copy == NULL)
    abort();
  n->list = list;
  n->list[n->count++] = copy;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static int by_hash(const void *a, const void *b) {
  const char *const *x = a, *const *y = b;
  const unsigned i = hash_of_name(*x), j = hash_of_name(*y);
  return i != j ? (i > j) - (i < j) : strcmp(*x, *y);
}

static int by_name(const void *a, const void *b) {
  const char *const *x = a, *const *y = b;
  return strcmp(*x, *y);
}

/* Two values of two axes that have met in a kernel. The axis behind the last is the suffix of a name
 * (Q_IN_REGS or a target), by its hash. */
typedef struct pair {
  int32_t family, axis[2], value[2];
} pair;

typedef struct pairs {
  pair *list;
  int count;
} pairs;

/* 1 where the pair is new. */
static int meet(pairs *met, const pair *p) {
  for (int i = 0; i < met->count; ++i)
    if (memcmp(&met->list[i], p, sizeof *p) == 0)
      return 0;
  pair *list = realloc(met->list, (size_t)(met->count + 1) * sizeof *list);
  if (list == NULL)
    abort();
  met->list = list;
  met->list[met->count++] = *p;
  return 1;
}

/* How many pairs of a kernel are new. */
static int meet_all(pairs *met, const char *name) {
  char stem[AP_STEM_MAX];
  ap_variant v;
  int32_t values[AP_AXES_MAX + 1];
  const size_t size = strcspn(name, ":");
  snprintf(stem, sizeof stem, "%.*s", (int)size, name);
  if (ap_variant_parse(stem, &v) != ATTNPRESS_OK)
    return 1; /* running it says why */
  const int32_t count = ap_families[v.family]->axis_count;
  memcpy(values, v.axis, (size_t)count * sizeof *values);
  values[count] = (int32_t)hash_of_name(name + size);
  int found = 0;
  for (int32_t i = 0; i <= count; ++i)
    for (int32_t j = 0; j < i; ++j)
      found += meet(met, &(pair){v.family, {i, j}, {values[i], values[j]}});
  return found;
}

/* Leaves few of the names in which each two values of two axes still meet that meet in any: in the
 * order of their hashes, those that bring a new pair. */
static void keep_pairs(names *n) {
  pairs met = {NULL, 0};
  int kept = 0;
  if (n->count > 0)
    qsort(n->list, (size_t)n->count, sizeof *n->list, by_hash);
  for (int i = 0; i < n->count; ++i) {
    if (meet_all(&met, n->list[i]) > 0)
      n->list[kept++] = n->list[i];
    else
      free(n->list[i]);
  }
  n->count = kept;
  if (kept > 0)
    qsort(n->list, (size_t)kept, sizeof *n->list, by_name);
  free(met.list);
}

static int run_names(names *n, const table_options *o) {
  if (o->pairs)
    keep_pairs(n);
  const int status = run_all(o, n->list, n->count);
  for (int i = 0; i < n->count; ++i)
    free(n->list[i]);
  free(n->list);
  return status;
}

/* Whether a cubin's target has a tile of its own. */
static int has_tile_of_target(const ap_prebuilt_row *row) {
  ap_variant v;
  ap_tile tile, other;
  return ap_variant_parse(row->stem, &v) == ATTNPRESS_OK &&
         ap_find_tile(&v, row->target, &tile) == ATTNPRESS_OK &&
         ap_find_tile(&v, NULL, &other) == ATTNPRESS_OK && memcmp(&tile, &other, sizeof tile) != 0;
}

int table_of_default_set(const table_options *o) {
  names n = {NULL, 0};
  for (size_t i = 0; i < ap_default_set_count; ++i) { /* a stem has a row for each target */
    const ap_prebuilt_row *row = &ap_default_set[i];
    char name[AP_STEM_MAX + AP_TARGET_MAX];
    if (i == 0 || strcmp(row->stem, ap_default_set[i - 1].stem) != 0)
      add_name(&n, row->stem, o);
    snprintf(name, sizeof name, "%s:%s", row->stem, row->target);
    if (has_tile_of_target(row))
      add_name(&n, name, o);
  }
  return run_names(&n, o);
}

int table_of_sources(const table_options *o, char **paths, int count) {
  names n = {NULL, 0};
  for (int i = 0; i < count; ++i)
    add_name(&n, paths[i], o);
  return run_names(&n, o);
}

/* Whether the default set has a kernel of this pass and these head dims. */
static int in_default_set(const ap_variant *v) {
  static ap_variant *all; /* parsed once */
  if (all == NULL) {
    all = calloc(ap_default_set_count, sizeof *all);
    if (all == NULL)
      abort();
    for (size_t i = 0; i < ap_default_set_count; ++i)
      if (ap_variant_parse(ap_default_set[i].stem, &all[i]) != ATTNPRESS_OK)
        all[i].family = -1;
  }
  for (size_t i = 0; i < ap_default_set_count; ++i)
    if (all[i].family == v->family &&
        all[i].axis[AP_ATTENTION_PASS] == v->axis[AP_ATTENTION_PASS] &&
        all[i].axis[AP_ATTENTION_HDIM] == v->axis[AP_ATTENTION_HDIM] &&
        all[i].axis[AP_ATTENTION_HDIM_V] == v->axis[AP_ATTENTION_HDIM_V])
      return 1;
  return 0;
}

/* ---- What is done to scores ------------------------------------------------------------------ */

enum { WINDOW, SOFTCAP, ALIBI, WITH_BIAS, DROPOUT, MOD_SCORE, MOD_MASK, FEATURES };

/* A kernel of a pass with these features, as bits; its dtype, mask and what else is open are drawn from
 * a hash. */
static ap_variant with_features(int pass, int hdim, unsigned features, int arch, unsigned hash) {
  return (ap_variant){
      .family = AP_FAMILY_ATTENTION,
      .axis = {[AP_ATTENTION_PASS] = pass,
               [AP_ATTENTION_HDIM] = hdim,
               [AP_ATTENTION_HDIM_V] = hdim,
               [AP_ATTENTION_DTYPE] = hash >> 6 & 1 ? ATTNPRESS_BF16 : ATTNPRESS_FP16,
               [AP_ATTENTION_MASK] = features >> WINDOW & 1 ? ATTNPRESS_WINDOW
                                     : hash >> 7 & 1        ? ATTNPRESS_CAUSAL
                                                            : ATTNPRESS_FULL,
               [AP_ATTENTION_SOFTCAP] = features >> SOFTCAP & 1,
               [AP_ATTENTION_ALIBI] = features >> ALIBI & 1,
               [AP_ATTENTION_BIAS] = features >> WITH_BIAS & 1 ? 1 + (int)(hash >> 8) % 3 : 0,
               [AP_ATTENTION_DROPOUT] = features >> DROPOUT & 1,
               [AP_ATTENTION_MOD_SCORE] = features >> MOD_SCORE & 1,
               [AP_ATTENTION_MOD_MASK] = features >> MOD_MASK & 1,
               [AP_ATTENTION_ARCH] = arch == 80 && hash >> 10 & 1 ? 86 : arch}};
}

/* A kernel with these features, as bits. Its other axes are drawn from the hash of what is asked
 * for. */
static void add_features(names *n, const table_options *o, unsigned features, int arch,
                         int decode) {
  char text[64], stem[AP_STEM_MAX];
  snprintf(text, sizeof text, "features %u, arch %d, decode %d", features, arch, decode);
  const unsigned hash = hash_of_name(text);
  ap_variant v =
      with_features(AP_ATTENTION_PASS_FWD, 8 * (1 + (int)(hash % 20)), features, arch, hash);
  v.axis[AP_ATTENTION_SPLIT] = (hash >> 5 & 1) || (decode && arch == 90);
  v.axis[AP_ATTENTION_DECODE] = decode;
  if (ap_variant_print(&v, stem) == ATTNPRESS_OK)
    add_name(n, stem, o);
}

/* Each feature alone, each pair that goes together, and as many as do, on both kinds of kernels;
 * small row blocks with each alone. */
static void add_all_features(names *n, const table_options *o) {
  for (int arch = 80; arch <= 90; arch += 10) {
    for (int i = 0; i < FEATURES; ++i)
      for (int j = i; j < FEATURES; ++j)
        add_features(n, o, 1u << i | 1u << j, arch, 0);
    add_features(n, o, 1u << WINDOW | 1u << SOFTCAP | 1u << ALIBI | 1u << WITH_BIAS | 1u << DROPOUT,
                 arch, 0);
    add_features(n, o,
                 1u << WINDOW | 1u << SOFTCAP | 1u << DROPOUT | 1u << MOD_SCORE | 1u << MOD_MASK,
                 arch, 0);
  }
  for (int i = 0; i < FEATURES; ++i)
    for (int arch = 80; arch <= 90; arch += 10)
      add_features(n, o, 1u << i, arch, 1);
}

/* Of the backward pass: each feature, by one of the three passes that know it, all of them that go
 * together, and snippets, by each pass; the gradients by sinks and by a bias. */
static void add_backward_features(names *n, const table_options *o, unsigned features, int pass,
                                  int arch) {
  char text[64], stem[AP_STEM_MAX];
  snprintf(text, sizeof text, "backward features %u, pass %d, arch %d", features, pass, arch);
  const unsigned hash = hash_of_name(text);
  const int hdim = 8 * (1 + (int)(hash % (arch == 90 ? 16 : 12)));
  const ap_variant v = with_features(pass, hdim, features, arch, hash);
  if (ap_variant_print(&v, stem) == ATTNPRESS_OK)
    add_name(n, stem, o);
}

static void add_all_backward_features(names *n, const table_options *o) {
  static const int passes[] = {AP_ATTENTION_PASS_BWD, AP_ATTENTION_PASS_BWD_DKV,
                               AP_ATTENTION_PASS_BWD_DQ};
  for (int i = 0; i < MOD_SCORE; ++i)
    add_backward_features(n, o, 1u << i, passes[i % 3], 80);
  const unsigned snippets = 1u << MOD_SCORE | 1u << MOD_MASK;
  for (int i = 0; i < 3; ++i) {
    add_backward_features(n, o, (1u << FEATURES) - 1 - snippets, passes[i], 80);
    add_backward_features(n, o, 1u << MOD_SCORE, passes[i], 80);
    add_backward_features(n, o, 1u << MOD_MASK, passes[i], 80);
    add_backward_features(n, o, snippets | 1u << WINDOW | 1u << SOFTCAP | 1u << DROPOUT, passes[i],
                          80);
    add_backward_features(n, o, 1u << WINDOW, passes[i], 90);
    add_backward_features(n, o, 1u << SOFTCAP, passes[i], 90);
    add_backward_features(n, o, 1u << WINDOW | 1u << ALIBI | 1u << WITH_BIAS | 1u << DROPOUT,
                          passes[i], 90);
  }
  add_name(n, "flash_bwd_hdim112_bf16_causal_softcap_sm90", o);
  /* A thread block's columns of S that are its own, or that warps compute over again; each snippet. */
  add_name(n, "flash_bwd_hdim64_bf16_modscore_modgrad_sm80", o);
  add_name(n, "flash_bwd_hdim72_fp16_causal_modscore_modgrad_sm80", o);
  add_name(n, "flash_bwd_hdim128_bf16_window_dropout_modscore_modmask_modgrad_sm86", o);
  add_name(n, "flash_bwd_dkv_hdim40_bf16_softcap_modscore_modgrad_sm80", o);
  add_name(n, "flash_bwd_dkv_hdim264_fp16_causal_modscore_modgrad_sm80", o);
  add_name(n, "flash_bwd_sinks_hdim8_fp16_sm80", o);
  add_name(n, "flash_bwd_dbias_hdim40_bf16_causal_biasfp16_sm80", o);
  add_name(n, "flash_bwd_dbias_hdim136_fp16_biasbf16_sm80", o);
  add_name(n, "flash_bwd_dbias_hdim24_bf16_window_softcap_alibi_biasfp32_dropout_sm80", o);
}

/* Of sequences of their own lengths: both places of the keys in both kinds of kernels, split and not,
 * with several slabs, copies that are spread, warps with keys of their own, and each mask. */
static void add_sequences(names *n, const table_options *o) {
  static const char *const stems[] = {
      "flash_fwd_hdim128_bf16_causal_ragged_sm80",
      "flash_fwd_split_hdim64_fp16_ragged_decode_sm80",
      "flash_fwd_split_hdim168_bf16_window_ragged_sm86",
      "flash_fwd_hdim72_bf16_window_softcap_paged_sm86",
      "flash_fwd_split_hdim40_fp16_causal_alibi_paged_decode_sm80",
      "flash_fwd_split_hdim64_bf16_causal_paged_decode_runs_sm80",
      "flash_fwd_split_hdim128_fp16_ragged_decode_runs_sm80",
      "flash_fwd_split_hdim256_bf16_paged_decode_runs_sm80",
      "flash_fwd_split_hdim64_fp16_ragged_decode_runs_append_sm80",
      "flash_fwd_split_hdim128_bf16_paged_decode_runs_append_sm80",
      "flash_fwd_hdim96_fp16_dropout_paged_sm80",
      "flash_fwd_split_hdim192v128_bf16_causal_paged_sm80",
      "flash_fwd_hdim264_fp16_causal_paged_decode_sm86",
      "flash_fwd_combine_hdim72_bf16_ragged_sm80",
      "flash_fwd_combine_hdim72_bf16_ragged_few_sm80",
      "flash_bwd_hdim40_bf16_causal_ragged_sm80",
      "flash_bwd_hdim72_fp16_window_ragged_sm86",
      "flash_bwd_hdim136_bf16_dropout_ragged_sm80",
      "flash_bwd_dkv_hdim64v128_bf16_alibi_ragged_sm80",
      "flash_bwd_dkv_hdim264_fp16_ragged_sm80",
      "flash_bwd_dq_hdim72_bf16_causal_softcap_ragged_sm80",
      "flash_bwd_dq_hdim40_fp16_window_alibi_dropout_ragged_sm86",
      "flash_bwd_delta_hdim72_bf16_ragged_sm80",
      "flash_bwd_convert_hdim40_fp16_ragged_sm80",
      "flash_bwd_sinks_hdim8_fp16_ragged_sm80",
      "flash_bwd_hdim40_bf16_causal_biasbf16_ragged_sm80",
      "flash_bwd_dkv_hdim72_fp16_window_alibi_biasfp32_dropout_ragged_sm86",
      "flash_bwd_dq_hdim64_bf16_softcap_biasfp16_ragged_sm80",
      "flash_bwd_hdim64_bf16_causal_biasbf16_ragged_sm90",
      "flash_bwd_dkv_hdim72_fp16_window_alibi_biasfp32_dropout_ragged_sm90",
      "flash_bwd_hdim136_bf16_biasfp16_ragged_sm90",
      "flash_bwd_dbias_hdim40_bf16_causal_biasfp16_ragged_sm80",
      "flash_bwd_dbias_hdim136_fp16_biasbf16_ragged_sm80",
      "flash_bwd_dbias_hdim24_bf16_window_softcap_alibi_biasfp32_dropout_ragged_sm80",
      "flash_bwd_hdim64_fp16_window_ragged_sm90",
      "flash_bwd_hdim32_bf16_ragged_sm90",
      "flash_bwd_hdim64_bf16_ragged_sm90",
      "flash_bwd_hdim112_bf16_causal_alibi_ragged_sm90",
      "flash_bwd_hdim192v128_bf16_causal_ragged_sm90",
      "flash_fwd_hdim128_bf16_ragged_sm90",
      "flash_fwd_hdim64_fp16_causal_ragged_sm90",
      "flash_fwd_hdim64_bf16_ragged_long_sm90",
      "flash_fwd_hdim192v128_bf16_window_ragged_sm90",
      "flash_fwd_hdim72_bf16_causal_ragged_sm90",
      "flash_fwd_hdim128_bf16_causal_paged_sm90",
      "flash_fwd_hdim64_fp16_paged_sm90",
      "flash_fwd_hdim192v128_bf16_window_paged_sm90",
      "flash_fwd_split_hdim128_bf16_causal_ragged_sm90",
      "flash_fwd_split_hdim64_fp16_window_paged_sm90",
      "flash_fwd_split_hdim192v128_bf16_paged_sm90",
      "flash_fwd_schedule_hdim8_bf16_sm80",
      "flash_fwd_hdim128_bf16_ragged_ready_sm90",
      "flash_fwd_hdim64_fp16_causal_paged_ready_sm90",
      "flash_fwd_hdim192v128_bf16_window_ragged_ready_sm90",
      "flash_fwd_split_hdim64_fp16_window_paged_ready_sm90",
      "flash_fwd_split_hdim128_bf16_causal_ragged_ready_sm90",
      "flash_fwd_split_hdim128_bf16_causal_paged_ready_decode_sm90",
      "flash_fwd_split_hdim72_fp16_ragged_decode_sm90",
      "flash_fwd_split_hdim64v128_bf16_ragged_ready_decode_sm90",
      "flash_fwd_split_hdim256_bf16_causal_paged_ready_decode_sm90",
      "flash_fwd_split_hdim72v136_fp16_paged_decode_sm90",
      "flash_fwd_split_hdim64_fp16_paged_decode_shared_sm90",
      "flash_fwd_split_hdim64_bf16_causal_paged_decode_pairs_sm90",
      "flash_fwd_split_hdim128_bf16_causal_ragged_decode_shared_sm90",
      "flash_fwd_hdim72_bf16_window_modscore_modmask_paged_ready_sm90",
      "flash_fwd_schedule_hdim8_bf16_ready_sm80",
      "flash_bwd_hdim40_bf16_causal_modscore_modmask_ragged_sm80",
      "flash_bwd_dkv_hdim72_fp16_window_softcap_modscore_ragged_sm86",
      "flash_bwd_dq_hdim64_bf16_modscore_modmask_ragged_sm80",
      "flash_bwd_hdim40_bf16_causal_modscore_modgrad_ragged_sm80",
      "flash_bwd_dkv_hdim72_fp16_window_softcap_dropout_modscore_modmask_modgrad_ragged_sm86",
      "flash_bwd_dq_hdim264_fp16_dropout_modmask_ragged_sm80",
      "flash_fwd_hdim64_bf16_causal_biasfp16_ragged_sm80",
      "flash_fwd_split_hdim72_fp16_window_softcap_alibi_biasfp32_dropout_paged_sm86",
      "flash_fwd_split_hdim128_bf16_biasbf16_ragged_decode_sm80",
      "flash_fwd_hdim128_bf16_modscore_modmask_ragged_sm80",
      "flash_fwd_hdim96_fp16_causal_modscore_paged_sm86",
      "flash_fwd_split_hdim72_bf16_window_softcap_dropout_modscore_modmask_ragged_sm80",
      "flash_fwd_split_hdim192v128_fp16_causal_modmask_paged_sm80",
      "flash_fwd_hdim264_bf16_modmask_ragged_decode_sm86",
      "flash_fwd_split_hdim64_bf16_causal_modscore_modmask_paged_decode_sm80",
      "flash_fwd_hdim64_bf16_modscore_modmask_ragged_sm90",
      "flash_fwd_hdim128_fp16_causal_modmask_ragged_sm90",
      "flash_fwd_hdim72_bf16_window_modscore_modmask_paged_sm90",
      "flash_fwd_hdim192v128_bf16_causal_modscore_paged_sm90",
  };
  for (size_t i = 0; i < sizeof stems / sizeof *stems; ++i)
    add_name(n, stems[i], o);
}

/* Of pairs of head dims without rows of tiles: very few columns of one beside many of the other, slabs
 * of K that are cut and whole, warps without columns of their own, each kind of kernel; and drawn. */
static void add_pairs(names *n, const table_options *o) {
  static const char *const stems[] = {
      "flash_fwd_hdim8v512_fp16_causal_sm80",
      "flash_fwd_split_hdim512v40_bf16_causal_sm86",
      "flash_fwd_hdim72v40_bf16_window_sm80",
      "flash_fwd_hdim8v104_bf16_sm80",
      "flash_fwd_hdim120v128_bf16_causal_sm80",
      "flash_fwd_hdim136v512_bf16_causal_sm86",
      "flash_fwd_split_hdim40v72_fp16_causal_decode_sm80",
      "flash_fwd_hdim264v64_bf16_decode_sm86",
      "flash_fwd_hdim64v264_fp16_causal_sm90",
      "flash_fwd_hdim512v264_bf16_sm90",
      "flash_fwd_hdim136v120_bf16_causal_sm90",
      "flash_fwd_split_hdim40v72_bf16_sm90",
      "flash_fwd_hdim120v136_bf16_causal_ragged_sm80",
      "flash_fwd_split_hdim136v120_fp16_causal_paged_decode_sm80",
      "flash_fwd_hdim72v24_bf16_causal_paged_sm90",
      "flash_fwd_hdim24v128_fp16_causal_ragged_sm90",
      "flash_fwd_hdim56v128_bf16_causal_alibi_biasbf16_sm90",
      "flash_fwd_hdim56v128_bf16_softcap_dropout_sm80",
      "flash_fwd_hdim24v40_bf16_causal_modscore_modmask_sm80",
      "flash_bwd_hdim72v40_bf16_causal_sm80",
      "flash_bwd_hdim40v256_fp16_sm80",
      "flash_bwd_dkv_hdim40v512_bf16_causal_sm80",
      "flash_bwd_dkv_hdim264v64_bf16_sm86",
      "flash_bwd_dkv_hdim40v72_bf16_causal_softcap_alibi_dropout_sm80",
      "flash_bwd_dq_hdim512v8_fp16_sm86",
      "flash_bwd_dq_hdim64v264_bf16_causal_ragged_sm80",
      "flash_bwd_dbias_hdim72v40_bf16_biasbf16_sm80",
  };
  for (size_t i = 0; i < sizeof stems / sizeof *stems; ++i)
    add_name(n, stems[i], o);
  static const int passes[] = {AP_ATTENTION_PASS_FWD, AP_ATTENTION_PASS_FWD, AP_ATTENTION_PASS_BWD,
                               AP_ATTENTION_PASS_BWD_DKV, AP_ATTENTION_PASS_BWD_DQ};
  for (int i = 0; i < 60; ++i) {
    char text[32], stem[AP_STEM_MAX];
    snprintf(text, sizeof text, "pair %d", i);
    const unsigned hash = hash_of_name(text);
    const ap_variant v = {
        .family = AP_FAMILY_ATTENTION,
        .axis = {[AP_ATTENTION_PASS] = passes[i % 5],
                 [AP_ATTENTION_SPLIT] = i % 5 < 2 && (hash >> 1 & 1),
                 [AP_ATTENTION_HDIM] = 8 * (1 + (int)(hash >> 8) % (i % 3 ? 24 : 64)),
                 [AP_ATTENTION_HDIM_V] = 8 * (1 + (int)(hash >> 16) % (i % 4 ? 24 : 64)),
                 [AP_ATTENTION_DTYPE] = hash >> 3 & 1 ? ATTNPRESS_BF16 : ATTNPRESS_FP16,
                 [AP_ATTENTION_MASK] = hash >> 4 & 1 ? ATTNPRESS_CAUSAL : ATTNPRESS_FULL,
                 [AP_ATTENTION_DECODE] = i % 5 == 1,
                 [AP_ATTENTION_ARCH] = i % 5 < 2 && hash >> 6 & 1 ? 90 : 80 + 6 * (hash & 1)}};
    if (ap_variant_print(&v, stem) == ATTNPRESS_OK) /* some are not, on an architecture */
      add_name(n, stem, o);
  }
}

/* Of the outer product: a snippet in each kernel that takes one. */
static void add_outer_snippets(names *n, const table_options *o) {
  static const char *const stems[] = {"outer_fwd_bf16_mod_sm80", "outer_fwd_fp32_mod_sm80",
                                      "outer_sum_fp16_mod_sm80", "outer_sum_fp32_mod_sm80",
                                      "outer_bwd_bf16_mod_sm80", "outer_bwd_fp32_mod_sm80"};
  for (size_t i = 0; i < sizeof stems / sizeof *stems; ++i)
    add_name(n, stems[i], o);
}

/* ---- Head dims ------------------------------------------------------------------------------- */

/* Of the backward kernels, each head dim has two: one of a pass, mask and architecture, which take
 * turns with it, and one that comes before or after. */
static int takes_backward(const ap_variant *v, int turn) {
  switch (v->axis[AP_ATTENTION_PASS]) {
  case AP_ATTENTION_PASS_BWD:
    return turn % 12 == 0;
  case AP_ATTENTION_PASS_BWD_DKV:
    return turn % 12 == 4;
  case AP_ATTENTION_PASS_BWD_DQ:
    return turn % 12 == 8;
  case AP_ATTENTION_PASS_BWD_DELTA:
    return turn % 4 == 1;
  case AP_ATTENTION_PASS_BWD_CONVERT:
    return turn % 4 == 3;
  case AP_ATTENTION_PASS_BWD_DBIAS:
  case AP_ATTENTION_PASS_BWD_SINKS:
    return 0; /* it is taken by name */
  default:
    return 1;
  }
}

/* Each row of the table of tiles has one kernel of the sweep, except those of features. What the row
 * leaves open, and whether the row is taken at all where it is no target's own, rotates with the
 * head dim, so that each head dim gets three of its eight tiles or more, and neighbours get
 * others. */
int table_of_other_head_dims(const table_options *o) {
  names n = {NULL, 0};
  for (size_t i = 0; i < ap_families[AP_FAMILY_ATTENTION]->tiles->count; ++i) {
    ap_tile_row row;
    ap_tile_row_read(AP_FAMILY_ATTENTION, i, &row);
    ap_variant v = row.variant;
    const int turn = v.axis[AP_ATTENTION_HDIM] / 8 + v.axis[AP_ATTENTION_HDIM_V] / 8;
    const int place = (v.axis[AP_ATTENTION_MASK] == ATTNPRESS_CAUSAL) +
                      2 * v.axis[AP_ATTENTION_DECODE] + 4 * (v.axis[AP_ATTENTION_ARCH] == 86);
    if (in_default_set(&v) || row.tile_class > 0 || !takes_backward(&v, turn + place))
      continue;
    if (v.axis[AP_ATTENTION_PASS] != AP_ATTENTION_PASS_FWD &&
        v.axis[AP_ATTENTION_MASK] == ATTNPRESS_WINDOW)
      continue; /* windows of the backward pass are taken with other features */
    for (int axis = AP_ATTENTION_SOFTCAP; axis <= AP_ATTENTION_SEQUENCES; ++axis)
      v.axis[axis] = 0;
    if (v.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD && (place + turn * 3 / 2) % 8 > 2 &&
        row.target == NULL)
      continue;
    if (v.axis[AP_ATTENTION_MASK] == ATTNPRESS_WINDOW && turn % 4 != place % 4)
      continue;
    if (v.axis[AP_ATTENTION_SPLIT] == AP_ANY)
      v.axis[AP_ATTENTION_SPLIT] = (turn / 2 + place / 2) % 2;
    v.axis[AP_ATTENTION_DTYPE] = (turn + place) % 2 ? ATTNPRESS_BF16 : ATTNPRESS_FP16;
    char stem[AP_STEM_MAX], name[AP_STEM_MAX + AP_TARGET_MAX];
    const char *target = row.target;
    if (ap_variant_print(&v, stem) != ATTNPRESS_OK)
      continue;
    snprintf(name, sizeof name, "%s%s%s", stem, target ? ":" : "", target ? target : "");
    add_name(&n, name, o);
  }
  add_name(&n, "flash_fwd_hdim40_fp16_causal_sm80" Q_IN_REGS, o);
  add_name(&n, "flash_fwd_hdim64_bf16_sm80" Q_IN_REGS, o);
  add_name(&n, "flash_fwd_split_hdim128_bf16_causal_sm80" Q_IN_REGS, o);
  add_all_features(&n, o);
  add_all_backward_features(&n, o);
  add_sequences(&n, o);
  add_pairs(&n, o);
  add_outer_snippets(&n, o);
  return run_names(&n, o);
}
