/* One forward kernel and one shape, with the kernels that it is launched with. */
#include <string.h>

#include "attention/attention.h"
#include "ragged.h"
#include "run_attention.h"

/* What the library would run. */
static int choose(const run_options *o, ap_plan *plan, char stem[AP_STEM_MAX], char *report) {
  ap_problem problem;
  run_describe(o, &problem);
  if (ap_choose(&problem, &run_devices[o->arch], plan) != ATTNPRESS_OK ||
      ap_variant_print(&plan->variant, stem) != ATTNPRESS_OK) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
    return -1;
  }
  return 0;
}

/* The kernel, what adds up its splits, and what the library would say about both. */
static int open_kernels(const run_options *o, kernel *k, companions *others, shape *s,
                        ragged_run *ragged, char *report) {
  char stem[AP_STEM_MAX];
  ap_plan plan;
  int status;
  s->packed = o->packed ? s->group : 0;
  s->splits = o->splits;
  if (o->meant.source != NULL) {
    status = kernel_open(k, o->meant.source, report);
  } else if (o->meant.stem != NULL) {
    status = run_open_stem(o, o->meant.stem, k, report);
  } else {
    if (choose(o, &plan, stem, report) != 0)
      return -1;
    s->packed = plan.heads_per_tile;
    s->splits = plan.variant.axis[AP_ATTENTION_SPLIT] ? plan.num_splits : 0;
    ragged->fixed_blocks = plan.fixed_split_blocks;
    ragged->finds_sequences = plan.ready && !o->ready;
    if (plan.tile.field[AP_ATTENTION_TILE_PRODUCER] && plan.grid > 0) {
      s->blocks = (int)plan.grid;
      s->section_heads = plan.section_heads;
      s->group_sections = plan.group_units / (plan.section_heads * plan.row_blocks);
    }
    status = run_open_stem(o, stem, k, report);
  }
  if (s->splits < 1 && (k->variant.axis[AP_ATTENTION_SPLIT] ||
                        k->variant.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD_COMBINE))
    s->splits = 2;
  if (status == 0 && needs_map(&k->variant))
    status = run_open_stem(o, "flash_fwd_map_hdim8_bf16_sm80", &others->map, report);
  if (status == 0 && needs_schedule(&k->variant))
    status = run_open_stem(o, schedule_stem(&k->variant), &others->schedule, report);
  if (status != 0 || !k->variant.axis[AP_ATTENTION_SPLIT])
    return status;
  return combine_stem(&k->variant, 0, stem) == 0 ? run_open_stem(o, stem, &others->combine, report)
                                                 : -1;
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

int run_forward_call(const run_options *o) {
  static verdict v;
  kernel k = {0};
  companions others = {0};
  shape s = run_shape(o);
  ragged_run ragged = {.count = (int)o->length_count,
                       .seqlen_q = o->seqlen_q == RUN_NOT_GIVEN ? 0 : o->seqlen_q,
                       .page_size = o->page_size,
                       .flat_pages = o->flat_pages,
                       .heads_kv = s.heads_kv,
                       .group = s.group};
  const double begin = run_seconds();
  if (open_kernels(o, &k, &others, &s, &ragged, v.report) != 0) {
    fprintf(stderr, "attnpress run: %s\n", v.report);
    kernel_close(&k);
    return 1;
  }
  const double compiled = run_seconds();
  ragged.packed = s.packed > 1;
  ragged.splits = s.splits;
  for (int i = 0; i < ragged.count; ++i)
    ragged.keys[i] = o->lengths[i];
  const int pass = k.variant.axis[AP_ATTENTION_PASS];
  if (k.variant.family != AP_FAMILY_ATTENTION ||
      (pass != AP_ATTENTION_PASS_FWD && pass != AP_ATTENTION_PASS_FWD_COMBINE)) {
    fprintf(stderr,
            "attnpress run: %s is not of attention's forward pass; --backward runs those of the "
            "backward pass, and attnpress-emulate sources FILE any kernel that was generated\n",
            k.stem);
    return RUN_WRONG_WORDS;
  }
  if (is_ragged(&k) != (ragged.count > 0)) {
    fprintf(stderr, "attnpress run: %s needs %s\n", k.stem,
            is_ragged(&k) ? "--lengths" : "a call without --lengths");
    return RUN_WRONG_WORDS;
  }
  run_until_enough(&k, &others, &s, &ragged, (uint64_t)o->seed, &v);
  print_verdict(&k, &s, &ragged, &v, compiled - begin, run_seconds() - compiled);
  companions_close(&others);
  kernel_close(&k);
  return !v.passed;
}
