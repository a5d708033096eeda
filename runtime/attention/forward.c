/* The forward pass: the operation that call.c carries out, and its public functions. */
#include <stdio.h>
#include <string.h>

#include "attention/appending.h"
#include "attention/attention.h"
#include "attention/choose_parts.h"
#include "attention/cpu.h"
#include "attention/defaults.h"
#include "attention/give.h"
#include "attention/groups.h"
#include "attention/ragged.h"
#include "attention/score_args.h"
#include "attention/score_mod.h"
#include "attnpress/args/runs_append.h"

/** A checked call. */
typedef struct forward_call {
  ap_call base;
  attnpress_forward_args args;
  ap_groups groups; /* that args names */
  ap_problem problem;
} forward_call;

/** What a call or a range launches. `how` is of one call alone. */
typedef struct forward_plan {
  ap_plan how;
  ap_launches base;
} forward_plan;

/** A call that is run: its argument blocks, beside what it was checked to be. */
typedef struct forward_run {
  forward_call call;
  union { /* of which most kernels take a part: sm90, or its `fwd` */
    attnpress_fwd_sm90_args sm90;
    attnpress_fwd_sm90_bias_args with_bias;
    attnpress_fwd_sm90_mod_args with_mod;
  } main;
  attnpress_fwd_mod_args with_mod; /* sm80's, with a snippet */
  /* sm80's and sm90's, of sequences; those without a snippet take the first part. */
  attnpress_fwd_ragged_mod_args ragged;
  attnpress_fwd_runs_args runs;
  attnpress_fwd_sm90_ragged_mod_args main_ragged;
  attnpress_fwd_schedule_args schedule;
  attnpress_fwd_map_args map;
  attnpress_fwd_combine_ragged_args combine; /* of which those without sequences take the first */
} forward_run;

/* ---- Check and plan -------------------------------------------------------------------------- */

static attnpress_status check(const void *args, ap_check how, ap_call *base) {
  forward_call *call = (forward_call *)base;
  FORWARD_IF(
      ap_copy_struct(args, &call->args, sizeof call->args, AP_FORWARD_ARGS_FIRST_BYTES, "args"));
  FORWARD_IF(ap_copy_groups(&call->args, &call->groups));
  base->workspace = call->args.workspace;
  base->workspace_bytes = call->args.workspace_bytes;
  FORWARD_IF(ap_validate_forward(&call->args, how, &call->problem));
  base->has_snippet = call->problem.mod_score || call->problem.mod_mask;
  if (base->has_snippet)
    memcpy(base->snippet_key, call->problem.mod_key, sizeof base->snippet_key);
  return ATTNPRESS_OK;
}

static int give(const void *args, ap_given *given) {
  return ap_give_forward(args, given);
}

static void give_checked(ap_call *call, ap_given *given) {
  ap_give_forward(&((forward_call *)call)->args, given);
}

static attnpress_status snippet(const ap_call *base, ap_snippet *fresh) {
  return ap_score_mod_write(((const forward_call *)base)->args.score_mod, 0, 0, fresh);
}

static attnpress_status plan(const ap_call *base, const ap_device *device, int32_t range,
                             ap_launches *launches) {
  const ap_problem *problem = &((const forward_call *)base)->problem;
  if (range == ATTNPRESS_UP_TO)
    return ap_choose_range(problem, device, launches);
  ap_plan *how = &AP_PLAN_OF(forward_plan, launches)->how;
  launches->count = 0;
  launches->workspace_bytes = 0;
  FORWARD_IF(ap_choose(problem, device, how));
  if (how->grid == 0)
    return ATTNPRESS_OK;
  launches->workspace_bytes = how->workspace_bytes;
  if (ap_has_map(problem))
    launches->launch[launches->count++] = (ap_launch){.variant = how->map,
                                                      .tile = how->map_tile,
                                                      .target = how->map_target,
                                                      .grid = how->map_grid,
                                                      .num_splits = how->num_splits,
                                                      .snippet = 1};
  if (ap_is_scheduled(how) && !how->ready)
    launches->launch[launches->count++] = (ap_launch){.variant = how->schedule,
                                                      .tile = how->schedule_tile,
                                                      .target = how->schedule_target,
                                                      .grid = ap_schedule_parts(problem->batch),
                                                      .overlaps = how->overlaps,
                                                      .num_splits = 1};
  const int clears = how->ready && how->tickets; /* else the schedule kernel does */
  launches->launch[launches->count++] = (ap_launch){.variant = how->variant,
                                                    .variant_key = how->variant_key,
                                                    .tile = how->tile,
                                                    .target = how->target,
                                                    .grid = how->grid,
                                                    .cluster = ap_shared_cluster(how),
                                                    .overlaps = how->overlaps && !clears,
                                                    .smem_bytes = how->launch_smem_bytes,
                                                    .clears = clears,
                                                    .num_splits = how->num_splits,
                                                    .snippet = base->has_snippet};
  if (ap_needs_combine(how))
    launches->launch[launches->count++] = (ap_launch){.variant = how->combine,
                                                      .variant_key = how->combine_key,
                                                      .tile = how->combine_tile,
                                                      .target = how->combine_target,
                                                      .grid = how->combine_grid,
                                                      .overlaps = how->combine_overlaps,
                                                      .num_splits = how->num_splits};
  return ATTNPRESS_OK;
}

/* ---- Which calls a plan serves --------------------------------------------------------------- */

static attnpress_status serves(const ap_call *base, const ap_call *planned, int32_t range) {
  return ap_check_served(&((const forward_call *)base)->problem,
                         &((const forward_call *)planned)->problem, range);
}

/* ---- Kernel arguments ------------------------------------------------------------------------ */

static void fill_forward(const forward_call *call, const ap_plan *how, attnpress_fwd_args *out) {
  const attnpress_forward_args *a = &call->args;
  const ap_problem *p = &call->problem;
  const float scale = (float)ap_scale(a);
  *out = (attnpress_fwd_args){
      .q = a->q.data,
      .k = a->k.data,
      .v = a->v.data,
      .out = a->out.data,
      .lse = a->lse,
      .q_batch_stride = a->q.stride[0],
      .q_row_stride = a->q.stride[1],
      .q_head_stride = a->q.stride[2],
      .k_batch_stride = a->k.stride[0],
      .k_row_stride = a->k.stride[1],
      .k_head_stride = a->k.stride[2],
      .v_batch_stride = a->v.stride[0],
      .v_row_stride = a->v.stride[1],
      .v_head_stride = a->v.stride[2],
      .out_batch_stride = a->out.stride[0],
      .out_row_stride = a->out.stride[1],
      .out_head_stride = a->out.stride[2],
      .batch = p->batch,
      .heads_q = p->heads_q,
      .heads_kv = p->heads_kv,
      .seqlen_q = p->seqlen_q,
      .seqlen_k = p->seqlen_k,
      .heads_per_tile = how->heads_per_tile,
      .row_blocks = how->row_blocks,
      .num_splits = how->num_splits,
      .key_blocks_per_split = how->key_blocks_per_split,
      .scale = scale,
      .scale_log2 = ap_scale_log2_of(a, scale),
      .whole_row_blocks = how->whole_row_blocks,
  };
  ap_fill_scaled_score_args(a, scale, &out->score);
  if (a->ragged == NULL) {
    ap_lse_strides(a, &out->lse_batch_stride, &out->lse_head_stride);
  } else {
    int64_t stride[3];
    int packed;
    ap_ragged_lse_strides(a, stride, &packed);
    out->lse_batch_stride = stride[0];
    out->lse_head_stride = stride[1];
  }
  if (how->variant.axis[AP_ATTENTION_SPLIT]) {
    out->out_partial = (float *)((char *)a->workspace + how->out_partial_offset_bytes);
    out->lse_partial = (float *)((char *)a->workspace + how->lse_partial_offset_bytes);
  }
}

/** The rest of what an sm90 kernel takes; `fwd` stands. */
static attnpress_status fill_sm90(ap_maps *maps, const forward_call *call, const ap_plan *how,
                                  int32_t page_box_rows, attnpress_fwd_sm90_args *out) {
  const attnpress_fwd_args *fwd = &out->fwd;
  out->section_heads = ap_divisor(how->section_heads);
  out->section_units = ap_divisor(how->section_heads * how->row_blocks);
  out->group_rounds = ap_divisor(how->group_rounds);
  out->num_splits = ap_divisor(fwd->num_splits);
  out->tile_heads = ap_divisor((fwd->heads_q + fwd->heads_per_tile - 1) / fwd->heads_per_tile);
  out->heads_per_tile = ap_divisor(fwd->heads_per_tile);
  out->heads = how->heads;
  out->group_units = how->group_units;
  out->rounds = how->rounds;
  out->warpgroup_positions = ap_consumer_rows(&how->tile) / fwd->heads_per_tile;
  memset(out->reserved, 0, sizeof out->reserved);
  return ap_tensor_maps_encode(maps, &call->args, how, page_box_rows, out);
}

static void fill_combine(const attnpress_fwd_args *a, const ap_plan *how,
                         attnpress_fwd_combine_args *out) {
  *out = (attnpress_fwd_combine_args){
      .out_partial = a->out_partial,
      .lse_partial = a->lse_partial,
      .out = a->out,
      .lse = a->lse,
      .sinks = a->score.sinks,
      .out_batch_stride = a->out_batch_stride,
      .out_row_stride = a->out_row_stride,
      .out_head_stride = a->out_head_stride,
      .lse_batch_stride = a->lse_batch_stride,
      .lse_head_stride = a->lse_head_stride,
      .rows = (int64_t)(how->runs > 0 ? how->runs : a->batch) * a->heads_q * a->seqlen_q,
      .heads_q = a->heads_q,
      .seqlen_q = a->seqlen_q,
      .num_splits = a->num_splits,
      .sinks_stride = a->score.sinks_stride,
      .sinks_dtype = a->score.sinks_dtype,
      .block_rows = how->combine_block_rows,
      .whole_rows = (int32_t)ap_whole_rows(how, a->seqlen_q),
  };
}

/** The map kernel's, which comes first, and which has those of the forward kernel in it. */
static void fill_map(const forward_call *call, const ap_plan *how, const attnpress_fwd_args *fwd,
                     attnpress_fwd_map_args *out) {
  out->call.fwd = *fwd;
  ap_score_mod_fill(&call->args, how, &out->call.mod);
  ap_score_mod_fill_map(&call->problem, how, out);
}

/** How many times as many bytes of K and V a section has under a causal mask, by the heads of a tile.
 * Row blocks of one head begin at keys of their own there; those of several heads that see as many walk
 * side by side. */
enum { CAUSAL_SECTION = 16, CAUSAL_SECTION_SHARED = 4, CAUSAL_SHARED_MIN = 5 };

/** The schedule kernel's, which comes first; with a schedule that is ready it does not run, and the
 * others take of these what they share. */
static void fill_schedule(const forward_call *call, const ap_plan *how,
                          const attnpress_fwd_args *fwd, attnpress_fwd_schedule_args *out) {
  const ap_problem *p = &call->problem;
  const int causal = how->variant.axis[AP_ATTENTION_MASK] == AP_ATTENTION_MASK_CAUSAL &&
                     2 * p->rows_q >= p->rows_k && p->rows_k > 0; /* of prefills, not of chunks */
  const int times = !causal                                   ? 1
                    : fwd->heads_per_tile < CAUSAL_SHARED_MIN ? CAUSAL_SECTION
                                                              : CAUSAL_SECTION_SHARED;
  char *workspace = call->args.workspace;
  *out = (attnpress_fwd_schedule_args){
      .ragged = ap_fill_ragged_args(&call->args),
      .ticket = (uint32_t *)workspace,
      .batch = p->batch,
      .seqlen_q = p->seqlen_q,
      .order = {{
          .first_unit = (int32_t *)(workspace + how->first_unit_offset_bytes),
          .sequences = (attnpress_sequence_units *)(workspace + how->sequences_offset_bytes),
          .positions = (int32_t)ap_row_block_positions(&how->tile, fwd->heads_per_tile),
          .heads = fwd->heads_q / fwd->heads_per_tile,
          .sharing = fwd->heads_q / (fwd->heads_kv * fwd->heads_per_tile),
          .walk_bytes = 2 * (p->hdim + p->hdim_v) / times,
      }},
  };
  if (how->ready) {
    out->ticket = how->tickets ? out->ticket : NULL;
    out->order[0].first_unit = NULL;
    out->order[0].sequences = NULL;
    out->ready = call->args.ragged->schedule;
  }
  if (!ap_schedules_splits(how))
    return;
  out->sequence_splits = (int32_t *)(workspace + how->sequence_splits_offset_bytes);
  out->split_keys = how->fixed_split_blocks * how->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  out->window = p->mask == ATTNPRESS_WINDOW;
  out->score = fwd->score;
}

/** The kernel's that comes after it; `fwd` stands. */
static attnpress_status fill_sm90_ragged(ap_maps *maps, const forward_call *call,
                                         const ap_plan *how,
                                         const attnpress_fwd_schedule_args *schedule,
                                         attnpress_fwd_sm90_ragged_args *out) {
  out->ragged = schedule->ragged;
  out->ragged.fixed_split_blocks = how->fixed_split_blocks;
  out->ticket = schedule->ticket;
  out->first_unit = schedule->order[0].first_unit;
  out->sequences = schedule->order[0].sequences;
  const int paged = call->args.ragged->page_table != NULL;
  out->box_rows = paged ? ap_page_box_rows(&call->args, &how->tile) : 0;
  out->k_head_step = paged ? ap_page_head_step(&call->args.k) : 0;
  out->v_head_step = paged ? ap_page_head_step(&call->args.v) : 0;
  out->reserved_2 = 0;
  out->ready = schedule->ready;
  out->sequence_splits = how->ready ? schedule->sequence_splits : NULL;
  out->walk_bytes = schedule->order[0].walk_bytes;
  out->sharing = schedule->order[0].sharing;
  memset(out->reserved, 0, sizeof out->reserved);
  return fill_sm90(maps, call, how, out->box_rows, &out->sm90);
}

static attnpress_status arguments(ap_maps *maps, ap_call *base, const ap_launches *launches,
                                  int index, ap_block *block) {
  forward_run *run = (forward_run *)base;
  const ap_plan *how = &AP_CONST_PLAN_OF(forward_plan, launches)->how;
  run->call.args.workspace = base->workspace; /* or the lender's */
  if (ap_is_scheduled(how)) {
    attnpress_fwd_args *fwd = &run->main_ragged.batch.sm90.fwd;
    const int kernel = index + how->ready; /* schedule, forward, combine */
    if (index == 0) {
      fill_forward(&run->call, how, fwd);
      fill_schedule(&run->call, how, fwd, &run->schedule);
    }
    if (kernel == 0) {
      *block = AP_BLOCK(run->schedule);
      return ATTNPRESS_OK;
    }
    if (kernel == 2) {
      fill_combine(fwd, how, &run->combine.combine);
      run->combine.ragged = run->main_ragged.batch.ragged;
      if (!run->call.problem.batch_invariant) /* parts may be added up in any order */
        run->combine.ragged.fixed_split_blocks = 0;
      run->combine.sequence_splits = run->schedule.sequence_splits;
      run->combine.cuts = NULL;
      *block = AP_BLOCK(run->combine);
      return ATTNPRESS_OK;
    }
    if (base->has_snippet)
      ap_score_mod_fill(&run->call.args, NULL, &run->main_ragged.mod);
    *block = base->has_snippet ? AP_BLOCK(run->main_ragged) : AP_BLOCK(run->main_ragged.batch);
    return fill_sm90_ragged(maps, &run->call, how, &run->schedule, &run->main_ragged.batch);
  }
  if (how->heads_are_rows && index == 0)
    ap_take_heads_as_rows(&run->call.args, &run->call.problem);
  const int first = ap_has_map(&run->call.problem);
  attnpress_fwd_args *fwd = &run->main.sm90.fwd;
  if (index > first) { /* the forward kernel's stand */
    fill_combine(fwd, how, &run->combine.combine);
    if (run->call.args.ragged != NULL)
      run->combine.ragged = run->ragged.batch.ragged;
    run->combine.sequence_splits = NULL;
    run->combine.cuts = how->runs > 0 ? run->runs.cuts : NULL;
    *block = AP_BLOCK(run->combine);
    return ATTNPRESS_OK;
  }
  if (index == 0)
    fill_forward(&run->call, how, fwd);
  if (index < first) {
    fill_map(&run->call, how, fwd, &run->map);
    *block = AP_BLOCK(run->map);
    return ATTNPRESS_OK;
  }
  *block = AP_BLOCK(*fwd);
  if (run->call.args.ragged != NULL) {
    run->ragged.batch.fwd = *fwd;
    run->ragged.batch.ragged = ap_fill_ragged_args(&run->call.args);
    run->ragged.batch.ragged.fixed_split_blocks = how->fixed_split_blocks;
    if (base->has_snippet)
      ap_score_mod_fill(&run->call.args, NULL, &run->ragged.mod);
    *block = base->has_snippet ? AP_BLOCK(run->ragged) : AP_BLOCK(run->ragged.batch);
    if (how->runs > 0) {
      const int32_t block_n = how->tile.field[AP_ATTENTION_TILE_BLOCK_N];
      const int half = block_n > ATTNPRESS_RUNS_UNIT_KEYS, shares_keys = ap_runs_share_keys(how);
      run->runs = (attnpress_fwd_runs_args){
          .batch = run->ragged.batch,
          .cuts = (int32_t *)((char *)run->call.args.workspace + how->cuts_offset_bytes),
          .counts = (uint64_t *)((char *)run->call.args.workspace + how->cuts_offset_bytes),
          .runs = how->runs,
          .sequence_cost = AP_RUNS_SEQUENCE_COST,
          .least_cost = shares_keys ? AP_RUNS_SHARED_COST_MIN : AP_RUNS_COST_MIN,
          .least_blocks = shares_keys ? AP_RUNS_SHARED_PART_BLOCKS_MIN
                          : half      ? AP_RUNS_PART_BLOCKS_MIN / 2
                                      : AP_RUNS_PART_BLOCKS_MIN,
      };
      *block = AP_BLOCK(run->runs);
    }
    return ATTNPRESS_OK;
  }
  if (how->tile.field[AP_ATTENTION_TILE_PRODUCER]) {
    if (base->has_snippet)
      ap_score_mod_fill(&run->call.args, how, &run->main.with_mod.mod);
    *block = base->has_snippet ? AP_BLOCK(run->main) : AP_BLOCK(run->main.sm90);
    FORWARD_IF(fill_sm90(maps, &run->call, how, 0, &run->main.sm90));
    if (!ap_has_bias_map(&how->variant))
      return ATTNPRESS_OK;
    *block = AP_BLOCK(run->main.with_bias);
    return ap_bias_map_encode(maps, &run->call.args, &how->tile, &run->main.with_bias);
  }
  if (base->has_snippet) {
    run->with_mod.fwd = *fwd;
    ap_score_mod_fill(&run->call.args, how, &run->with_mod.mod);
    *block = AP_BLOCK(run->with_mod);
  }
  return ATTNPRESS_OK;
}

/* ---- The CPU --------------------------------------------------------------------------------- */

static attnpress_status inspect(const ap_call *base, struct ap_inspection *inspection) {
  return ap_inspect_ragged(&((const forward_call *)base)->args, inspection);
}

static attnpress_status run_cpu(const ap_call *base, int32_t num_threads) {
  return ap_cpu_forward(&((const forward_call *)base)->args, num_threads);
}

static void describe_cpu(const ap_call *base, attnpress_info *info) {
  const ap_problem *p = &((const forward_call *)base)->problem;
  static const char *const masks[] = {"", "_causal", "_window"};
  static const char *const sequences[] = {"", "_ragged", "_paged"};
  snprintf(info->stem, sizeof info->stem, "cpu_fwd_hdim%d_%s%s%s%s%s%s%s", (int)p->hdim,
           ap_dtype_name(p->dtype), masks[p->mask], p->softcap ? "_softcap" : "",
           p->alibi ? "_alibi" : "", p->bias ? "_bias" : "", p->dropout ? "_dropout" : "",
           sequences[p->sequences]);
}

/* ---- The operation --------------------------------------------------------------------------- */

static attnpress_status run_planned(const attnpress_plan *plan, const void *args, void *stream) {
  forward_run run;
  forward_plan fresh;
  return ap_plan_run(plan, args, stream, &run.call.base, &fresh.base);
}

static const ap_operation forward = {
    .name = "attnpress_forward",
    .call_bytes = sizeof(forward_call),
    .plan_bytes = sizeof(forward_plan),
    .check = check,
    .snippet = snippet,
    .plan = plan,
    .serves = serves,
    .arguments = arguments,
    .inspect = inspect,
    .run_cpu = run_cpu,
    .describe_cpu = describe_cpu,
    .run_planned = run_planned,
    .give = give,
    .give_checked = give_checked,
    .run_bytes = sizeof(forward_run),
};

attnpress_status ap_forward_lent(attnpress_handle *handle, const void *args, void *stream,
                                 ap_lender *lender) {
  forward_run run;
  forward_plan launches;
  return ap_call_run_lent(handle, &forward, args, stream, lender, &run.call.base, &launches.base);
}

attnpress_status attnpress_forward(attnpress_handle *handle, const attnpress_forward_args *args,
                                   void *stream) {
  return ap_forward_lent(handle, args, stream, NULL);
}

attnpress_status attnpress_plan_forward(attnpress_handle *handle,
                                        const attnpress_forward_args *args,
                                        const attnpress_plan_options *options,
                                        attnpress_plan **plan) {
  return ap_plan_make(handle, &forward, args, options, plan);
}

/* ---- Behind an append ------------------------------------------------------------------------ */

/** What attnpress_append_forward() is given. */
typedef struct append_forward_args {
  const attnpress_append_args *append;
  const attnpress_forward_args *forward;
  int apart; /* 1: by kernels of their own in any case */
} append_forward_args;

/** Such a call that is run. */
typedef struct append_forward_run {
  forward_run forward;
  ap_append_problem append;
  attnpress_append_write_args write;
  attnpress_fwd_runs_append_args runs; /* of the kernel that does both */
} append_forward_run;

static attnpress_status check_both(const void *args, ap_check how, ap_call *base) {
  const append_forward_args *both = args;
  append_forward_run *run = (append_forward_run *)base;
  FORWARD_IF(check(both->forward, how, base));
  FORWARD_IF(ap_append_check(both->append, how, &run->append));
  forward_call *call = &run->forward.call;
  call->problem.appends = !both->apart && ap_appends_on_the_way(&run->append, &call->args);
  return ATTNPRESS_OK;
}

static int give_append_forward(const append_forward_args *both, ap_given *given) {
  if (!ap_give_append(both->append, given) || !ap_give_forward(both->forward, given))
    return 0;
  const uint64_t where = ap_appends_where(both->append, both->forward);
  return ap_given_add_words(given, &where, 1);
}

static int give_both(const void *args, ap_given *given) {
  const append_forward_args *both = args;
  return !both->apart && give_append_forward(both, given);
}

static void give_both_checked(ap_call *base, ap_given *given) {
  append_forward_run *run = (append_forward_run *)base;
  attnpress_append_args *append = &run->append.args;
  if (append->rotary != NULL)
    append->rotary = &run->append.rotary;
  give_append_forward(&(append_forward_args){append, &run->forward.call.args, 0}, given);
}

static int has_append_kernel(const ap_launches *launches) {
  return launches->count > 0 && launches->launch[0].variant.family == AP_FAMILY_APPEND;
}

static int appends_on_the_way(const ap_launches *launches) {
  return launches->count > 0 && launches->launch[0].variant.family == AP_FAMILY_ATTENTION &&
         launches->launch[0].variant.axis[AP_ATTENTION_APPEND];
}

/** Append's kernel comes before those of attention, where none of these does both. */
static attnpress_status plan_both(const ap_call *base, const ap_device *device, int32_t range,
                                  ap_launches *launches) {
  const append_forward_run *run = (const append_forward_run *)base;
  ap_launch write;
  int writes;
  FORWARD_IF(plan(base, device, range, launches));
  if (appends_on_the_way(launches))
    return ATTNPRESS_OK;
  const ap_append_size size = ap_append_size_of(&run->append);
  FORWARD_IF(ap_append_plan_launch(&size, device, range, &write, &writes));
  if (!writes)
    return ATTNPRESS_OK;
  memmove(&launches->launch[1], &launches->launch[0],
          (size_t)launches->count * sizeof launches->launch[0]);
  launches->launch[0] = write;
  ++launches->count;
  return ATTNPRESS_OK;
}

static attnpress_status arguments_of_both(ap_maps *maps, ap_call *base, const ap_launches *launches,
                                          int index, ap_block *block) {
  append_forward_run *run = (append_forward_run *)base;
  const int first = has_append_kernel(launches);
  if (first && index == 0) {
    ap_append_fill_args(&run->append, &run->write);
    *block = AP_BLOCK(run->write);
    return ATTNPRESS_OK;
  }
  FORWARD_IF(arguments(maps, base, launches, index - first, block));
  if (!appends_on_the_way(launches) || index > 0)
    return ATTNPRESS_OK;
  attnpress_fwd_args *fwd = &run->runs.runs.batch.fwd;
  run->runs.runs = run->forward.runs;
  ap_append_fill_args(&run->append, &run->runs.append);
  if (ap_append_has(&run->append.args.q)) { /* it reads what the caller has, not what was rotated */
    const attnpress_append_rows *q = &run->runs.append.rows[ATTNPRESS_APPEND_Q];
    fwd->q = q->from;
    fwd->q_batch_stride = q->from_batch;
    fwd->q_row_stride = q->from_row;
    fwd->q_head_stride = q->from_head;
  }
  *block = AP_BLOCK(run->runs);
  return ATTNPRESS_OK;
}

static attnpress_status inspect_both(const ap_call *base, struct ap_inspection *inspection) {
  FORWARD_IF(ap_append_inspect(&((const append_forward_run *)base)->append, inspection));
  return inspect(base, inspection);
}

static attnpress_status run_both_on_cpu(const ap_call *base, int32_t num_threads) {
  FORWARD_IF(ap_append_cpu(&((const append_forward_run *)base)->append, num_threads));
  return run_cpu(base, num_threads);
}

/** It has no plans. */
static const ap_operation append_forward = {
    .name = "attnpress_append_forward",
    .call_bytes = sizeof(append_forward_run),
    .plan_bytes = sizeof(forward_plan),
    .check = check_both,
    .snippet = snippet,
    .plan = plan_both,
    .arguments = arguments_of_both,
    .inspect = inspect_both,
    .run_cpu = run_both_on_cpu,
    .give = give_both,
    .give_checked = give_both_checked,
    .run_bytes = sizeof(append_forward_run),
};

/** Whether a kernel was not there and may not be made now; nothing has been launched. */
static int is_missing(attnpress_status status) {
  return status == ATTNPRESS_NO_KERNEL || status == ATTNPRESS_NO_NVRTC ||
         status == ATTNPRESS_CAPTURING;
}

attnpress_status attnpress_append_forward(attnpress_handle *handle,
                                          const attnpress_append_args *append,
                                          const attnpress_forward_args *args, void *stream) {
  append_forward_run run;
  forward_plan launches;
  append_forward_args both = {append, args, 0};
  run.forward.call.problem.appends = 0;
  const attnpress_status status =
      ap_call_run(handle, &append_forward, &both, stream, &run.forward.call.base, &launches.base);
  if (!is_missing(status) || !run.forward.call.problem.appends)
    return status;
  both.apart = 1; /* whose kernels may be there */
  return ap_call_run(handle, &append_forward, &both, stream, &run.forward.call.base,
                     &launches.base);
}
