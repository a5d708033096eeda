/* attnpress explain: what a call runs, why that, and what bounds it. Nothing is compiled or run. */
#define _GNU_SOURCE
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../generated/families.h"
#include "attention/attention.h"
#include "attention/rows.h"
#include "core/numbers.h"
#include "cuda/device.h"
#include "handle.h"
#include "model.h"
#include "press/info.h"
#include "press/target.h"
#include "run.h"
#include "tool.h"

enum { MEASURED_CALLS = 20 };
enum { LAUNCHES_MAX = 8, REASONS_MAX = 12, REASON_BYTES = 256, ALTERNATIVES_MAX = 6 };

/* What a device gives, where the vendor's data sheet says it: dense products of bf16 with fp32 sums, and
 * its memory (A100 80 GB SXM, RTX A6000, H100 SXM). */
static const struct peak {
  int capability;
  const char *name;
  double tflops, gb_s;
} peaks[] = {{80, "A100 80 GB SXM", 312, 2039},
             {86, "RTX A6000", 154.8, 768},
             {90, "H100 SXM", 989.4, 3352}};

typedef struct launch {
  attnpress_info info;
  int blocks_per_sm;
  const char *limited_by;
  double waves, last_fill; /* of the last wave */
} launch;

/** What would run with something changed, and why it does not. */
typedef struct alternative {
  launch launch; /* the main one */
  char reason[REASON_BYTES];
} alternative;

typedef struct explanation {
  tool_shape shape;
  ap_device device;
  int launches, main; /* the launch that computes attention, which others may go before */
  launch launch[LAUNCHES_MAX];
  size_t workspace_bytes;
  int reasons;
  char reason[REASONS_MAX][REASON_BYTES];
  int alternatives;
  alternative alternative[ALTERNATIVES_MAX];
  double flops, bytes, tflops, gb_s; /* the last two 0: not known */
  const char *peak_name;
  int measure;
  double measured_us; /* of a call on the present GPU; 0: it was not asked for */
} explanation;

/* ---- What runs ------------------------------------------------------------------------------- */

/** Thread blocks that an SM holds, and what keeps it from more. */
static void occupy(const ap_device *device, launch *l) {
  enum { RESERVED_SMEM_BYTES = 1024, SM_REGISTERS = 65536, SM_BLOCKS = 32, GRANULE = 8 };
  const attnpress_info *info = &l->info;
  const struct {
    const char *name;
    int blocks;
  } limits[] = {
      {"thread blocks of an SM", SM_BLOCKS},
      {"threads", device->threads_per_sm / info->threads},
      {"shared memory", device->smem_per_sm_bytes / (info->smem_bytes + RESERVED_SMEM_BYTES)},
      {"registers",
       info->registers > 0
           ? SM_REGISTERS / (info->threads * (int)(ceil_div(info->registers, GRANULE) * GRANULE))
           : SM_BLOCKS},
  };
  l->blocks_per_sm = limits[0].blocks;
  l->limited_by = limits[0].name;
  for (size_t i = 1; i < sizeof limits / sizeof *limits; ++i)
    if (limits[i].blocks < l->blocks_per_sm) {
      l->blocks_per_sm = limits[i].blocks;
      l->limited_by = limits[i].name;
    }
  l->blocks_per_sm = l->blocks_per_sm > 0 ? l->blocks_per_sm : 1;
  const int64_t slots = (int64_t)device->sm_count * l->blocks_per_sm;
  const int64_t waves = ceil_div(info->grid, slots);
  l->waves = (double)info->grid / (double)slots;
  l->last_fill = waves > 0 ? (double)(info->grid - (waves - 1) * slots) / (double)slots : 0;
}

static attnpress_status make_plan(attnpress_handle *handle, tool_shape *shape,
                                  attnpress_plan **plan) {
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  options.target = shape->target;
  options.num_sms = shape->present.sm_count;
  return tool_shape_plan(handle, shape, &options, plan);
}

/** 1 for a kernel that prepares or ends the work of another: a map of key blocks, a schedule, a sum of
 * parts. */
static int is_helper(const attnpress_info *info) {
  ap_variant v;
  if (ap_variant_parse(info->stem, &v) != ATTNPRESS_OK)
    return 0;
  const int32_t pass = v.axis[AP_ATTENTION_PASS];
  return pass == AP_ATTENTION_PASS_FWD_MAP || pass == AP_ATTENTION_PASS_FWD_SCHEDULE ||
         pass == AP_ATTENTION_PASS_FWD_COMBINE;
}

static attnpress_status describe(attnpress_handle *handle, explanation *e) {
  attnpress_plan *plan;
  attnpress_status status = make_plan(handle, &e->shape, &plan);
  if (status != ATTNPRESS_OK)
    return status;
  e->launches = attnpress_plan_launch_count(plan);
  e->launches = e->launches < LAUNCHES_MAX ? e->launches : LAUNCHES_MAX;
  status = attnpress_plan_workspace_bytes(plan, &e->workspace_bytes);
  for (int i = 0; i < e->launches && status == ATTNPRESS_OK; ++i) {
    e->launch[i].info = (attnpress_info)ATTNPRESS_INFO_INIT;
    status = attnpress_plan_launch(plan, i, &e->launch[i].info);
    occupy(&e->device, &e->launch[i]);
  }
  while (e->main + 1 < e->launches && is_helper(&e->launch[e->main].info))
    ++e->main;
  attnpress_plan_destroy(plan);
  return status;
}

/* ---- Why ------------------------------------------------------------------------------------- */

static void say(explanation *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(explanation *e, const char *format, ...) {
  va_list values;
  va_start(values, format);
  if (e->reasons < REASONS_MAX)
    vsnprintf(e->reason[e->reasons++], REASON_BYTES, format, values);
  va_end(values);
}

/** The main launch of the shape with something changed; 0: there is none. */
static int main_launch(tool_shape *shape, int32_t arch_max, const char *cache_dir,
                       attnpress_info *info) {
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  attnpress_handle *handle;
  attnpress_plan *plan = NULL;
  options.backend = ATTNPRESS_COMPILE_ONLY;
  options.cache_dir = cache_dir;
  options.arch_max = arch_max;
  if (attnpress_create(&handle, &options) != ATTNPRESS_OK)
    return 0;
  *info = (attnpress_info)ATTNPRESS_INFO_INIT;
  int good = make_plan(handle, shape, &plan) == ATTNPRESS_OK, found = 0;
  for (int i = 0; good && !found && i < attnpress_plan_launch_count(plan); ++i) {
    good = attnpress_plan_launch(plan, i, info) == ATTNPRESS_OK;
    found = good && !is_helper(info);
  }
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
  return found;
}

/** Adds what runs with a shape or an architecture changed; 0: that runs nothing, or the same. */
static alternative *add_alternative(explanation *e, tool_shape *shape, int32_t arch_max,
                                    const char *cache_dir) {
  if (e->alternatives == ALTERNATIVES_MAX)
    return NULL;
  alternative *a = &e->alternative[e->alternatives];
  const attnpress_info *runs = &e->launch[e->main].info;
  if (!main_launch(shape, arch_max, cache_dir, &a->launch.info) ||
      (strcmp(a->launch.info.stem, runs->stem) == 0 &&
       a->launch.info.num_splits == runs->num_splits))
    return NULL;
  occupy(&e->device, &a->launch);
  ++e->alternatives;
  return a;
}

static void give_reason(alternative *a, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void give_reason(alternative *a, const char *format, ...) {
  va_list values;
  va_start(values, format);
  if (a != NULL)
    vsnprintf(a->reason, REASON_BYTES, format, values);
  va_end(values);
}

/** The architecture of the kernel, and why not the other. */
static void say_arch(explanation *e, const ap_variant *v, const char *cache_dir) {
  const tool_shape *s = &e->shape;
  const int32_t arch = v->axis[AP_ATTENTION_ARCH], group = s->heads / s->kv_heads;
  const ap_route *best = ap_next_route(v, e->device.capability, NULL);
  if (arch == 90) {
    say(e, "sm90: Hopper's copy engine and matrix instructions");
    give_reason(
        add_alternative(e, &e->shape, 80, cache_dir),
        "sm80: without Hopper's copy engine and matrix instructions; arch_max 80 asks for it");
  }
  if (best == NULL || best->arch == arch)
    return;
  if (v->axis[AP_ATTENTION_DECODE])
    say(e, "not sm90: its decode kernels are for batch-invariant calls");
  else if (s->ragged && (s->scores.bias || s->scores.dropout > 0))
    say(e, "not sm90: its ragged kernels have no bias or dropout");
  else if (s->ragged && s->batch_invariant && (s->scores.softcap > 0 || s->scores.alibi))
    say(e, "not sm90: its kernels of batch-invariant calls have no softcap or ALiBi");
  else if (s->ragged && s->scores.alibi && s->hdim_v > AP_ATTENTION_RAGGED_ALIBI_COLUMNS)
    say(e, "not sm90: above value head dim %d its ragged kernels have no ALiBi",
        AP_ATTENTION_RAGGED_ALIBI_COLUMNS);
  else if (s->ragged && s->num_splits > 1)
    say(e, "not sm90: its ragged kernels have as many splits as are chosen");
  else if (s->ragged && e->launch[e->main].info.num_splits != 1)
    say(e,
        "not sm90: its ragged kernels have no splits under a window, or where scores are changed");
  else if (s->hdim > AP_ATTENTION_SM90_HDIM_MAX && s->hdim_v <= AP_ATTENTION_SM90_HDIM_MAX)
    say(e, "not sm90: above head dim %d its kernels have value head dims above %d alone",
        AP_ATTENTION_SM90_HDIM_MAX, AP_ATTENTION_SM90_HDIM_MAX);
  else if (s->hdim > AP_ATTENTION_SM90_HDIM_MAX || s->hdim_v > AP_ATTENTION_SM90_HDIM_MAX)
    say(e, "not sm90: above head dim %d it has no windows or ragged sequences, nor modifies scores",
        AP_ATTENTION_SM90_HDIM_MAX);
  else if (group > AP_ATTENTION_WARPGROUP_ROWS)
    say(e, "not sm90: %d heads a key head do not fit a warpgroup's %d rows", (int)group,
        AP_ATTENTION_WARPGROUP_ROWS);
  else if (!s->ragged && s->seqlen_k <= AP_SHORT_KEYS_MAX)
    say(e, "not sm90: of few keys sm80 takes less time, with two thread blocks on an SM at once");
}

static void say_rows(explanation *e, const ap_variant *v) {
  const tool_shape *s = &e->shape;
  const int32_t group = s->heads / s->kv_heads;
  if (v->axis[AP_ATTENTION_DECODE] && s->seqlen_q * group > AP_ATTENTION_DECODE_ROWS)
    say(e,
        "decode: %d heads a key head in blocks of %d rows, as K and V are small enough to be read "
        "once for each block",
        (int)group, AP_ATTENTION_DECODE_ROWS);
  else if (v->axis[AP_ATTENTION_DECODE])
    say(e, "decode: %d queries x %d heads a key head are at most %d rows", (int)s->seqlen_q,
        (int)group, AP_ATTENTION_DECODE_ROWS);
  else if (s->seqlen_q == 1 && group > AP_ATTENTION_WARPGROUP_ROWS &&
           v->axis[AP_ATTENTION_ARCH] == 90)
    say(e, "rows: the %d heads of a key head, as though they were as many queries", (int)group);
  if (v->axis[AP_ATTENTION_FEW] && v->axis[AP_ATTENTION_ARCH] == 90)
    say(e, "few: %d queries x %d heads a key head are at most a warpgroup's %d rows",
        (int)s->seqlen_q, (int)group, AP_ATTENTION_WARPGROUP_ROWS);
  if (v->axis[AP_ATTENTION_LONG_ROWS])
    say(e, "long: a larger row block, with which the model expects less time");
  if (s->causal && s->seqlen_q == 1 && v->axis[AP_ATTENTION_MASK] == AP_ATTENTION_MASK_FULL)
    say(e, "full: a single query sees every key under the causal mask as well");
}

static void say_splits(explanation *e, const ap_variant *v, const char *cache_dir) {
  const launch *l = &e->launch[e->main];
  const int32_t splits = l->info.num_splits;
  const int64_t slots = (int64_t)e->device.sm_count * l->blocks_per_sm;
  tool_shape other = e->shape;
  if (e->shape.batch_invariant) {
    say(e,
        splits == 1 ? "no splits but those of a batch-invariant call's fixed keys, which a thread "
                      "block adds up itself"
                    : "%d splits at fixed keys, as of batch-invariant calls: a row has the same "
                      "bits in any batch",
        (int)splits);
    return;
  }
  if (e->shape.num_splits != 0)
    say(e, "%d splits: asked for", (int)splits);
  else if (splits == 1)
    say(e,
        "no splits: %d thread blocks for %lld that run at once, or adding parts up would not pay",
        (int)l->info.grid, (long long)slots);
  else if (v->axis[AP_ATTENTION_RUNS])
    say(e,
        "runs: %d thread blocks a head, each with as many keys of one sequence after another; "
        "parts of sequences that are cut have to be added up",
        (int)splits);
  else
    say(e, "%d splits: more thread blocks for %d SMs; their parts have to be added up", (int)splits,
        e->device.sm_count);
  if (splits > 1) {
    other.num_splits = 1;
    alternative *a = add_alternative(e, &other, 0, cache_dir);
    const int grid = a != NULL ? (int)a->launch.info.grid : 0;
    if (a != NULL && 2 * grid <= e->device.sm_count)
      give_reason(a, "no splits: %d thread blocks would leave most of %d SMs idle", grid,
                  e->device.sm_count);
    else if (a != NULL)
      give_reason(a, "no splits: row blocks would not come out even on %d SMs", e->device.sm_count);
  }
  if (v->axis[AP_ATTENTION_RUNS] || (e->shape.ragged && v->axis[AP_ATTENTION_ARCH] == 90))
    return; /* with a number that is asked for sm80's kernels run */
  other.num_splits = 2 * splits;
  const int busy = l->info.grid < e->device.sm_count ? (int)l->info.grid : e->device.sm_count;
  if (e->shape.num_splits == 0)
    give_reason(
        add_alternative(e, &other, 0, cache_dir),
        "%d splits: %d of %d SMs have work already, and the parts would have to be added up",
        (int)(2 * splits), busy, e->device.sm_count);
}

/** What the backward pass is made of. */
static void say_backward(explanation *e) {
  int fused = 0, converted = 0;
  ap_variant main = {0};
  for (int i = 0; i < e->launches; ++i) {
    ap_variant each;
    if (ap_variant_parse(e->launch[i].info.stem, &each) != ATTNPRESS_OK)
      continue;
    const int32_t pass = each.axis[AP_ATTENTION_PASS];
    fused |= pass == AP_ATTENTION_PASS_BWD;
    converted += pass == AP_ATTENTION_PASS_BWD_CONVERT;
    if (pass == AP_ATTENTION_PASS_BWD || pass == AP_ATTENTION_PASS_BWD_DKV)
      main = each;
  }
  const score_options *scores = &e->shape.scores;
  if (e->device.capability == 90 && scores->softcap > 0 &&
      (scores->alibi || scores->bias != 0 || scores->dropout > 0))
    say(e,
        "sm80 kernels: those of sm90 have no gradients of a softcap with ALiBi, bias or dropout");
  else if (e->device.capability == 90 && main.axis[AP_ATTENTION_ARCH] == 80) {
    main.axis[AP_ATTENTION_ARCH] = 90;
    if (ap_variant_check(&main) != ATTNPRESS_OK)
      say(e, "not sm90: %s", attnpress_last_error());
    else if (!e->shape.ragged && fused)
      say(e, "not sm90: of few rows sm80 takes less time, with two thread blocks on an SM at once");
  }
  if (fused)
    say(e, "fused: one kernel computes dk and dv and adds dq up in fp32, in any order; "
           "--deterministic takes two instead");
  else if (e->shape.deterministic)
    say(e,
        "paired: a kernel for dq and one for dk and dv, as deterministic gradients were asked for");
  else if (e->shape.hdim <= AP_ATTENTION_BWD_HDIM_MAX &&
           e->shape.hdim_v <= AP_ATTENTION_BWD_HDIM_MAX)
    say(e, "paired: a kernel for dq and one for dk and dv, as each row sees few keys");
  else
    say(e, "paired: a kernel for dq and one for dk and dv; the fused one ends at head dim %d",
        AP_ATTENTION_BWD_HDIM_MAX);
  if (fused && main.axis[AP_ATTENTION_FEW])
    say(e, "query rows are few: they stay in shared memory, and thread blocks walk over keys");
  if (fused && main.axis[AP_ATTENTION_RUNS] &&
      main.axis[AP_ATTENTION_SEQUENCES] != AP_ATTENTION_SEQUENCES_DENSE)
    say(e,
        "sequences are short: where a thread block takes all key blocks of one, dq needs no sum");
  else if (fused && main.axis[AP_ATTENTION_RUNS])
    say(e, "walks over query rows are short: thread blocks take key blocks one after the other");
  if (fused && main.axis[AP_ATTENTION_LONG_ROWS])
    say(e, "key blocks have 80 keys: walks are long, or these fill the SMs better than 64");
  if (converted > 1)
    say(e,
        "key heads are few: thread blocks share their query heads, and what each gives to dk and "
        "dv is added up, in one order");
}

static void say_why(explanation *e, const char *cache_dir) {
  ap_variant v;
  if (e->launches == 0) {
    say(e, "nothing: the output is empty");
    return;
  }
  if (ap_variant_parse(e->launch[e->main].info.stem, &v) != ATTNPRESS_OK)
    return;
  if (e->shape.backward) {
    say_backward(e);
    return;
  }
  say_arch(e, &v, cache_dir);
  say_rows(e, &v);
  say_splits(e, &v, cache_dir);
  if (v.axis[AP_ATTENTION_ARCH] == 90 && e->launch[e->main].info.grid == e->device.sm_count)
    say(e, "its thread blocks stay, one an SM, and take one unit of work after another");
}

/* ---- Roofline -------------------------------------------------------------------------------- */

/** Pairs of a query and a key that it sees, of one head. */
static double visible_pairs(const tool_shape *s) {
  const attnpress_window window = score_options_window(&s->scores, s->causal);
  const attnpress_forward_args args = {.mask = score_options_mask(&s->scores, s->causal),
                                       .window = &window,
                                       .q.shape[1] = s->seqlen_q,
                                       .k.shape[1] = s->seqlen_k};
  const ap_mask mask = ap_mask_of(&args);
  double pairs = 0;
  for (int64_t i = 0; i < s->seqlen_q; ++i) {
    const ap_keys keys = ap_keys_of(&mask, i);
    pairs += keys.end > keys.begin ? (double)(keys.end - keys.begin) : 0;
  }
  return pairs;
}

/** Two products forward and five backward; the least that is read and written: q, k, v and out, with
 * the gradients of all four, and a bias where it is seen. */
static void bound(explanation *e) {
  const tool_shape *s = &e->shape;
  const double heads = (double)s->batch * s->heads, kv_heads = (double)s->batch * s->kv_heads;
  const double pairs = visible_pairs(s);
  e->flops = 2 * heads * pairs * (s->hdim + s->hdim_v);
  e->bytes = 2 * (heads * s->seqlen_q + kv_heads * s->seqlen_k) * (s->hdim + s->hdim_v);
  if (s->backward) {
    e->flops = 2 * heads * pairs * (3.0 * s->hdim + 2.0 * s->hdim_v);
    e->bytes *= 2;
  }
  if (s->scores.bias)
    e->bytes += heads * pairs * (s->scores.bias == ATTNPRESS_FP32 ? 4 : 2);
  for (size_t i = 0; i < sizeof peaks / sizeof *peaks; ++i)
    if (peaks[i].capability == e->device.capability) {
      const tool_present *present = &s->present;
      e->peak_name = e->tflops > 0 || e->gb_s > 0 ? "as given"
                     : present->gb_s > 0          ? present->name
                                                  : peaks[i].name;
      e->tflops = e->tflops > 0 ? e->tflops : peaks[i].tflops;
      e->gb_s = e->gb_s > 0 ? e->gb_s : present->gb_s > 0 ? present->gb_s : peaks[i].gb_s;
    }
}

/** The time that neither products nor memory allow to be less; 0: not known. */
static double bound_us(const explanation *e) {
  if (e->tflops <= 0 || e->gb_s <= 0)
    return 0;
  return fmax(e->flops / e->tflops * 1e-6, e->bytes / e->gb_s * 1e-3);
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static int measure(explanation *e) {
  const tool_shape *s = &e->shape;
  run_options o = {.batch = s->batch,
                   .seqlen_q = s->seqlen_q,
                   .seqlen_k = s->seqlen_k,
                   .heads = s->heads,
                   .kv_heads = s->kv_heads,
                   .hdim = s->hdim,
                   .hdim_v = s->hdim_v,
                   .splits = s->num_splits,
                   .invariant = s->batch_invariant,
                   .repeat = MEASURED_CALLS,
                   .seed = 1,
                   .dtype = s->dtype,
                   .causal = s->causal,
                   .scores = s->scores};
  double ms;
  int32_t *lengths = NULL;
  if (s->ragged) {
    lengths = malloc((size_t)s->batch * sizeof *lengths);
    for (int32_t i = 0; lengths != NULL && i < s->batch; ++i)
      lengths[i] = s->seqlen_k;
    o.lengths = (lengths_batch){.count = s->batch,
                                .page_size = s->page_size,
                                .ready = s->ready_schedule,
                                .lengths = lengths,
                                .seqlen_q = s->seqlen_q};
    if (lengths == NULL || lengths_describe(&o.lengths) != 0) {
      free(lengths);
      fprintf(stderr, "attnpress explain: host memory for the lengths could not be had\n");
      return TOOL_FAILED;
    }
  }
  const int status = run_time(&o, &ms);
  e->measured_us = 1e3 * ms;
  return status;
}

/* ---- Printing -------------------------------------------------------------------------------- */

static void print_text(const explanation *e) {
  const tool_shape *s = &e->shape;
  char text[24], scores[256];
  tool_shape_print(s, scores, sizeof scores);
  printf("call     %sbatch %d, %d queries x %d heads, %d keys x %d heads, head dim %d/%d, %s, %s\n",
         s->backward ? "backward, " : "", (int)s->batch, (int)s->seqlen_q, (int)s->heads,
         (int)s->seqlen_k, (int)s->kv_heads, (int)s->hdim, (int)s->hdim_v,
         s->dtype == ATTNPRESS_FP16 ? "fp16" : "bf16", scores);
  printf("device   %s: %d SMs, %d KB of shared memory each\n", s->target, e->device.sm_count,
         e->device.smem_per_sm_bytes / 1024);
  for (int i = 0; i < e->launches; ++i) {
    const launch *l = &e->launch[i];
    const attnpress_info *info = &l->info;
    printf("\nlaunch   %s\n", info->stem);
    printf("         tile %s, for %s, from: %s\n", info->tile, info->target,
           ap_origin_name(info->origin));
    printf("         %d thread blocks of %d threads, %d bytes of shared memory, ", (int)info->grid,
           (int)info->threads, (int)info->smem_bytes);
    if (info->registers > 0)
      printf("%d registers a thread\n", (int)info->registers);
    else
      printf("registers not known before it is compiled\n");
    printf("         an SM holds %d (%s): %.2f waves, the last one %.0f%% full\n", l->blocks_per_sm,
           l->limited_by, l->waves, 100 * l->last_fill);
  }
  if (e->workspace_bytes > 0)
    printf("\nmemory   %s of workspace\n", tool_bytes(e->workspace_bytes, text));
  printf("\n");
  for (int i = 0; i < e->reasons; ++i)
    printf("%-9s%s\n", i == 0 ? "why" : "", e->reason[i]);
  for (int i = 0; i < e->alternatives; ++i) {
    const launch *l = &e->alternative[i].launch;
    printf("\ninstead  %s, %.2f waves of %d thread blocks\n         %s\n", l->info.stem, l->waves,
           (int)l->info.grid, e->alternative[i].reason);
  }
  printf("\nbound    %.3g GFLOP in products, %s read and written at least\n", e->flops * 1e-9,
         tool_bytes((uint64_t)e->bytes, text));
  if (e->tflops > 0 && e->gb_s > 0) {
    const double products = e->flops / e->tflops * 1e-6, memory = e->bytes / e->gb_s * 1e-3;
    printf("         %.2f us at %.4g TFLOP/s, %.2f us at %.4g GB/s (%s): bound by %s\n", products,
           e->tflops, memory, e->gb_s, e->peak_name, products > memory ? "products" : "memory");
  }
  if (e->measured_us > 0) {
    printf("\nmeasured %.2f us, the median of %d calls", e->measured_us, MEASURED_CALLS);
    if (bound_us(e) > 0)
      printf(": %.0f%% of the bound", 100 * bound_us(e) / e->measured_us);
    printf("\n");
  }
}

/** A launch as members of an object, without the braces. */
static void print_launch(const launch *l) {
  printf("\"stem\": \"%s\", \"tile\": \"%s\", \"target\": \"%s\", \"from\": \"%s\",\n"
         "     \"grid\": %d, \"threads\": %d, \"smem_bytes\": %d, \"registers\": %d,\n"
         "     \"num_splits\": %d, \"blocks_per_sm\": %d, \"limited_by\": \"%s\",\n"
         "     \"waves\": %.4f, \"last_wave\": %.4f",
         l->info.stem, l->info.tile, l->info.target, ap_origin_name(l->info.origin),
         (int)l->info.grid, (int)l->info.threads, (int)l->info.smem_bytes, (int)l->info.registers,
         (int)l->info.num_splits, l->blocks_per_sm, l->limited_by, l->waves, l->last_fill);
}

static void print_json(const explanation *e) {
  const tool_shape *s = &e->shape;
  char scores[256];
  tool_shape_print(s, scores, sizeof scores);
  printf(
      "{\n  \"batch\": %d, \"seqlen_q\": %d, \"seqlen_k\": %d, \"heads\": %d, \"kv_heads\": %d,\n"
      "  \"hdim\": %d, \"hdim_v\": %d, \"dtype\": \"%s\", \"causal\": %s, \"scores\": \"%s\",\n"
      "  \"backward\": %s, \"target\": \"%s\", \"sms\": %d, \"workspace_bytes\": %zu,\n"
      "  \"launches\": [",
      (int)s->batch, (int)s->seqlen_q, (int)s->seqlen_k, (int)s->heads, (int)s->kv_heads,
      (int)s->hdim, (int)s->hdim_v, s->dtype == ATTNPRESS_FP16 ? "fp16" : "bf16",
      s->causal ? "true" : "false", scores, s->backward ? "true" : "false", s->target,
      e->device.sm_count, e->workspace_bytes);
  for (int i = 0; i < e->launches; ++i) {
    printf("%s\n    {", i ? "," : "");
    print_launch(&e->launch[i]);
    printf("}");
  }
  printf("\n  ],\n  \"why\": [");
  for (int i = 0; i < e->reasons; ++i) /* no reason has a quote */
    printf("%s\n    \"%s\"", i ? "," : "", e->reason[i]);
  printf("\n  ],\n  \"alternatives\": [");
  for (int i = 0; i < e->alternatives; ++i) {
    printf("%s\n    {\"reason\": \"%s\",\n     ", i ? "," : "", e->alternative[i].reason);
    print_launch(&e->alternative[i].launch);
    printf("}");
  }
  printf("\n  ],\n  \"flops\": %.17g, \"bytes\": %.17g, \"tflops\": %.17g, \"gb_s\": %.17g,\n"
         "  \"peak\": \"%s\"",
         e->flops, e->bytes, e->tflops, e->gb_s, e->peak_name != NULL ? e->peak_name : "");
  if (e->measured_us > 0)
    printf(", \"measured_us\": %.17g", e->measured_us);
  printf("\n}\n");
}

/* ---- Words ----------------------------------------------------------------------------------- */

/** A positive number; 0: it is none. */
static double parse_positive(const char *text) {
  char *end;
  const double number = strtod(text, &end);
  return *text >= '0' && *text <= '9' && *end == '\0' && isfinite(number) ? number : 0;
}

/** Completes the shape; TOOL_OK, or another status after a sentence. */
static int complete(explanation *e) {
  tool_shape *s = &e->shape;
  const int given = s->target != NULL;
  const int result = tool_shape_complete("explain", s);
  if (result != TOOL_OK)
    return result;
  if (e->measure && given)
    return tool_usage("explain", "--measure is of the present GPU: leave --target out");
  if (e->measure && s->backward)
    return tool_usage("explain", "--measure is of the forward call; attnpress run --backward "
                                 "times the gradients");
  if (s->model_window > 0)
    fprintf(stderr, "attnpress explain: %s has a sliding_window of %d; --window %d,0 is with it\n",
            s->config, (int)s->model_window, (int)s->model_window - 1);
  s->batch = s->batch ? s->batch : 1;
  s->seqlen_q = s->seqlen_q ? s->seqlen_q : s->seqlen_k ? s->seqlen_k : 1024;
  s->seqlen_k = s->seqlen_k ? s->seqlen_k : s->seqlen_q;
  return TOOL_OK;
}

static int explain(explanation *e, const char *cache_dir, int json) {
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  attnpress_handle *handle;
  tool_shape *s = &e->shape;
  int result = complete(e);
  if (result == TOOL_OK && e->measure) /* before the rest, which then knows the kernels */
    result = measure(e);
  if (result != TOOL_OK)
    return result;
  options.backend = ATTNPRESS_COMPILE_ONLY;
  options.cache_dir = cache_dir;
  attnpress_status status = ap_device_of_target(s->target, &e->device);
  if (status == ATTNPRESS_OK && s->present.sm_count > 0)
    e->device.sm_count = s->present.sm_count;
  if (status == ATTNPRESS_OK)
    status = attnpress_create(&handle, &options);
  if (status != ATTNPRESS_OK)
    return tool_fail("explain", status);
  status = describe(handle, e);
  attnpress_destroy(handle);
  if (status != ATTNPRESS_OK)
    return tool_fail("explain", status);
  say_why(e, cache_dir);
  bound(e);
  (json ? print_json : print_text)(e);
  return TOOL_OK;
}

static int run_explain(int argc, char **argv) {
  static explanation e;
  const char *cache_dir = NULL, *value;
  int json = 0;
  for (int i = 1; i < argc; ++i) {
    const int option = tool_shape_option("explain", argc, argv, &i, &e.shape);
    if (option == TOOL_USAGE)
      return option;
    if (option == TOOL_OK)
      continue;
    if (strcmp(argv[i], "--json") == 0) {
      json = 1;
    } else if (strcmp(argv[i], "--measure") == 0) {
      e.measure = 1;
    } else if ((value = tool_option(argc, argv, &i, "--cache-dir")) != NULL && *value) {
      cache_dir = value;
    } else if ((value = tool_option(argc, argv, &i, "--tflops")) != NULL) {
      if ((e.tflops = parse_positive(value)) <= 0)
        return tool_usage("explain", "--tflops is \"%s\"; it must be a positive number", value);
    } else if ((value = tool_option(argc, argv, &i, "--gb-s")) != NULL) {
      if ((e.gb_s = parse_positive(value)) <= 0)
        return tool_usage("explain", "--gb-s is \"%s\"; it must be a positive number", value);
    } else {
      return tool_usage("explain", "\"%s\" is not an option", argv[i]);
    }
  }
  const int result = explain(&e, cache_dir, json);
  tool_shape_free(&e.shape);
  return result;
}

const tool_command ap_tool_explain = {
    .name = "explain",
    .summary = "which kernels a call runs, why, and what bounds it",
    .usage = "--hdim D [--seqlen-q N] [--causal] [--target sm_NN] [OPTION]...",
    .about =
        "Says which kernels a call launches on a device, why these were chosen, where they are "
        "now, how many thread blocks an SM holds and how they fill the device, and the least time "
        "that products and memory allow. Compiles nothing and needs no GPU. Defaults are 1 batch, "
        "1024 queries and as many keys.",
    .options =
        {tool_shape_options, score_options_table,
         (const tool_opt[]){
             {"--tflops", "X", "products of the device, in TFLOP/s (of its data sheet, if known)"},
             {"--gb-s", "X",
              "memory of the device, in GB/s (of its data sheet, or of the present GPU)"},
             {"--measure", NULL, "also times the call on the present GPU, with random inputs"},
             {"--cache-dir", "DIR", "another cache than the default one"},
             {"--json", NULL, "one JSON object"},
             {NULL, NULL, NULL}}},
    .run = run_explain,
};
