/* Appending to a cache: the operation that call.c carries out, and its public functions. */
#include <stdio.h>

#include "append/append.h"

/* Size in the first version of the header; it never changes. */
enum { ARGS_FIRST_BYTES = 560 };

/** A checked call. */
typedef struct append_call {
  ap_call base;
  ap_append_problem problem;
} append_call;

/** A call that is run: its argument block, beside what it was checked to be. */
typedef struct append_run {
  append_call call;
  attnpress_append_write_args block;
} append_run;

static const ap_append_problem *problem_of(const ap_call *base) {
  return &((const append_call *)base)->problem;
}

attnpress_status ap_append_check(const attnpress_append_args *args, ap_check how,
                                 ap_append_problem *problem) {
  attnpress_append_args a;
  FORWARD_IF(ap_copy_struct(args, &a, sizeof a, ARGS_FIRST_BYTES, "args"));
  return ap_append_validate(&a, how, problem);
}

static const ap_layout args_layout = {
    .words = sizeof(attnpress_append_args) / sizeof(uint64_t),
    .num_addresses = 13,
    .address =
        {AP_WORD(attnpress_append_args, k_new.data), AP_WORD(attnpress_append_args, v_new.data),
         AP_WORD(attnpress_append_args, k_cache.data), AP_WORD(attnpress_append_args, v_cache.data),
         AP_WORD(attnpress_append_args, q.data), AP_WORD(attnpress_append_args, q_out.data),
         AP_WORD(attnpress_append_args, cu_seqlens_new), AP_WORD(attnpress_append_args, seqused_k),
         AP_WORD(attnpress_append_args, kv_batch_idx), AP_WORD(attnpress_append_args, page_table),
         AP_WORD(attnpress_append_args, slot_mapping), AP_WORD(attnpress_append_args, page_table_v),
         AP_WORD(attnpress_append_args, page_indptr)},
    .num_pointers = 1,
    .pointer = {AP_WORD(attnpress_append_args, rotary)},
};

static const ap_layout rotary_layout = {
    .words = sizeof(attnpress_rotary) / sizeof(uint64_t),
    .num_addresses = 4,
    .address = {AP_WORD(attnpress_rotary, cos), AP_WORD(attnpress_rotary, sin),
                AP_WORD(attnpress_rotary, positions), AP_WORD(attnpress_rotary, first_positions)},
};

int ap_give_append(const attnpress_append_args *args, ap_given *given) {
  return ap_given_add(given, args, &args_layout) &&
         ap_append_has(&args->q) == ap_append_has(&args->q_out) &&
         (args->rotary == NULL || ap_given_add(given, args->rotary, &rotary_layout));
}

static attnpress_status check(const void *args, ap_check how, ap_call *base) {
  *base = (ap_call){.workspace = NULL};
  return ap_append_check(args, how, &((append_call *)base)->problem);
}

static attnpress_status plan(const ap_call *base, const ap_device *device, int32_t range,
                             ap_launches *launches) {
  return ap_append_plan_call(problem_of(base), device, range, launches);
}

/** A launch depends on the threads that a call needs: on what is given, its extents, what is
 * rotated, and whether q stays where it is. */
static attnpress_status serves(const ap_call *base, const ap_call *planned_base, int32_t range) {
  const ap_append_problem *p = problem_of(base), *q = problem_of(planned_base);
  const struct {
    const char *name;
    int64_t value, planned;
  } fields[] = {{"dtype", p->dtype, q->dtype},
                {"tokens", p->tokens, q->tokens}, /* from here on: of one call */
                {"k_new.shape[2] (heads)", p->args.k_new.shape[2], q->args.k_new.shape[2]},
                {"k_new.shape[3] (head_dim)", p->args.k_new.shape[3], q->args.k_new.shape[3]},
                {"v_new.shape[2] (heads)", p->args.v_new.shape[2], q->args.v_new.shape[2]},
                {"v_new.shape[3] (head_dim)", p->args.v_new.shape[3], q->args.v_new.shape[3]},
                {"q.shape[2] (heads)", p->args.q.shape[2], q->args.q.shape[2]},
                {"q.shape[3] (head_dim)", p->args.q.shape[3], q->args.q.shape[3]},
                {"rotary.rotary_dim", p->rotary.rotary_dim, q->rotary.rotary_dim},
                {"rotary.interleaved", p->rotary.interleaved, q->rotary.interleaved},
                {"whether q is rotated in place", p->in_place, q->in_place}};
  const size_t count = range == ATTNPRESS_UP_TO ? 1 : sizeof fields / sizeof *fields;
  for (size_t i = 0; i < count; ++i)
    FORWARD_IF(
        ap_check_extent(fields[i].name, fields[i].value, fields[i].planned, ATTNPRESS_ONE_CALL));
  return ATTNPRESS_OK;
}

static attnpress_status arguments(ap_maps *maps, ap_call *base, const ap_launches *launches,
                                  int index, ap_block *block) {
  append_run *run = (append_run *)base;
  (void)maps, (void)launches, (void)index;
  ap_append_fill_args(problem_of(base), &run->block);
  *block = AP_BLOCK(run->block);
  return ATTNPRESS_OK;
}

static attnpress_status inspect(const ap_call *base, struct ap_inspection *inspection) {
  return ap_append_inspect(problem_of(base), inspection);
}

static attnpress_status run_cpu(const ap_call *base, int32_t num_threads) {
  return ap_append_cpu(problem_of(base), num_threads);
}

static void describe_cpu(const ap_call *base, attnpress_info *info) {
  const ap_variant variant = {.family = AP_FAMILY_APPEND,
                              .axis = {[AP_APPEND_DTYPE] = problem_of(base)->dtype}};
  snprintf(info->stem, sizeof info->stem, "cpu_append_write_%s",
           ap_word_of(&variant, AP_APPEND_DTYPE));
}

static attnpress_status run_planned(const attnpress_plan *planned, const void *args, void *stream) {
  append_run run;
  ap_launches fresh;
  return ap_plan_run(planned, args, stream, &run.call.base, &fresh);
}

static const ap_operation append = {.name = "attnpress_append",
                                    .call_bytes = sizeof(append_call),
                                    .plan_bytes = sizeof(ap_launches),
                                    .check = check,
                                    .plan = plan,
                                    .serves = serves,
                                    .arguments = arguments,
                                    .inspect = inspect,
                                    .run_cpu = run_cpu,
                                    .describe_cpu = describe_cpu,
                                    .run_planned = run_planned};

attnpress_status attnpress_append(attnpress_handle *handle, const attnpress_append_args *args,
                                  void *stream) {
  append_run run;
  ap_launches launches;
  return ap_call_run(handle, &append, args, stream, &run.call.base, &launches);
}

attnpress_status attnpress_plan_append(attnpress_handle *handle, const attnpress_append_args *args,
                                       const attnpress_plan_options *options,
                                       attnpress_plan **made) {
  return ap_plan_make(handle, &append, args, options, made);
}
