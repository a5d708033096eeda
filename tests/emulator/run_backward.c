/* The kernels of a backward call, one after the other and each by itself. */
#include <string.h>

#include "backward.h"
#include "ragged_backward.h"
#include "run_attention.h"

/* Their stems, without those that another kernel is launched with; how many, or -1. */
static int choose(const run_options *o, char stems[AP_LAUNCHES_MAX][AP_STEM_MAX], char *report) {
  ap_problem problem;
  ap_backward_plan plan;
  ap_launches launches;
  int count = 0;
  run_describe(o, &problem);
  problem.dsinks = o->scores.sinks;
  problem.dbias = o->scores.bias != 0 ? AP_DBIAS : 0;
  if (ap_choose_backward(&problem, o->deterministic, &run_devices[o->arch], &plan, &launches) !=
      ATTNPRESS_OK) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
    return -1;
  }
  for (int i = 0; i < launches.count; ++i) {
    char *stem = stems[count];
    if (launches.launch[i].variant.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD_SCHEDULE)
      continue;
    if (ap_variant_print(&launches.launch[i].variant, stem) != ATTNPRESS_OK) {
      snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
      return -1;
    }
    int known = 0; /* dq, dk and dv are converted by the same */
    for (int other = 0; other < count; ++other)
      known |= strcmp(stems[other], stem) == 0;
    count += !known;
  }
  return count;
}

static int run_kernel_of(const run_options *o, const kernel *k, char *report) {
  const shape s = run_shape(o);
  if (k->variant.family != AP_FAMILY_ATTENTION || !is_backward(k)) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s is not of attention's backward pass", k->stem);
    return -1;
  }
  const int ragged = k->variant.axis[AP_ATTENTION_SEQUENCES] != AP_ATTENTION_SEQUENCES_DENSE;
  if (ragged != (o->lengths != NULL)) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s needs %s", k->stem,
             ragged ? "--lengths" : "a call without --lengths");
    return -1;
  }
  if (!ragged)
    return run_backward_shape(k, &s, (uint64_t)o->seed, report);
  ragged_run batch = {.count = (int)o->length_count,
                      .seqlen_q = o->seqlen_q == RUN_NOT_GIVEN ? 0 : o->seqlen_q,
                      .heads_kv = s.heads_kv,
                      .group = s.group};
  memcpy(batch.keys, o->lengths, (size_t)batch.count * sizeof *batch.keys);
  return run_ragged_backward_batch(k, &batch, &s.scores, (uint64_t)o->seed, report);
}

int run_backward_call(const run_options *o) {
  static char report[EMULATED_REPORT_BYTES];
  static char stems[AP_LAUNCHES_MAX][AP_STEM_MAX];
  int count = 1, status = 0;
  if (o->meant.source == NULL && o->meant.stem == NULL)
    count = choose(o, stems, report);
  else if (o->meant.source == NULL)
    snprintf(stems[0], AP_STEM_MAX, "%s", o->meant.stem);
  if (count < 0) {
    fprintf(stderr, "attnpress run: %s\n", report);
    return 1;
  }
  for (int i = 0; i < count; ++i) {
    kernel k = {0};
    const double begin = run_seconds();
    int failed = o->meant.source != NULL ? kernel_open(&k, o->meant.source, report)
                                         : run_open_stem(o, stems[i], &k, report);
    const double compiled = run_seconds();
    if (failed == 0)
      failed = run_kernel_of(o, &k, report);
    printf("kernel    %s\n", o->meant.source != NULL ? o->meant.source : stems[i]);
    if (failed == 0)
      printf("time      compiled in %.2f s, run and checked in %.2f s\n"
             "check     held, and no fault\n",
             compiled - begin, run_seconds() - compiled);
    else
      printf("check     FAILED: %s\n", report);
    fflush(stdout);
    kernel_close(&k);
    status |= failed != 0;
  }
  return status;
}
