/* The backward pass: the operation that call.c carries out, and its public functions. */
#include <stdio.h>
#include <string.h>

#include "attention/attention.h"
#include "attention/cpu_backward.h"
#include "attention/defaults.h"
#include "attention/give.h"
#include "attention/groups.h"
#include "attention/ragged.h"
#include "attention/score_args.h"
#include "attention/score_mod.h"

/** The size in the first version of the header; it never changes. */
enum { BACKWARD_ARGS_FIRST_BYTES = 728 };

/** A checked call. */
typedef struct backward_call {
  ap_call base;
  attnpress_backward_args args;
  ap_groups groups; /* that args names */
  ap_problem problem;
} backward_call;

/** What a call or a range launches. `how` is of one call alone. */
typedef struct backward_plan {
  ap_backward_plan how;
  ap_launches base;
} backward_plan;

/** A call that is run: its argument block, beside what it was checked to be. */
typedef struct backward_run {
  backward_call call;
  union {
    attnpress_bwd_sm90_args block;              /* of which the other kernels take `bwd` */
    attnpress_bwd_sm90_ragged_args ragged_sm90; /* of which the other kernels take `batch` */
    attnpress_bwd_mod_grad_args with_mod; /* with a snippet: of which kernels without take `bwd` */
    attnpress_bwd_ragged_mod_grad_args ragged_mod; /* of which they take `batch` */
  };
  attnpress_bwd_dbias_ragged_args dbias; /* beside `block`, from which it is filled; of dense calls
                                            `dbias` of it is what the kernel takes */
  attnpress_fwd_schedule_args schedule;  /* beside `ragged_sm90` */
  union {                                /* beside either, of sums of dk and dv */
    attnpress_bwd_args keys;
    attnpress_bwd_ragged_args ragged_keys;
  };
} backward_run;

/* ---- Check and plan -------------------------------------------------------------------------- */

static attnpress_status check(const void *args, ap_check how, ap_call *base) {
  backward_call *call = (backward_call *)base;
  FORWARD_IF(
      ap_copy_struct(args, &call->args, sizeof call->args, BACKWARD_ARGS_FIRST_BYTES, "args"));
  FORWARD_IF(ap_copy_backward_groups(&call->args, &call->groups));
  base->workspace = call->args.workspace;
  base->workspace_bytes = call->args.workspace_bytes;
  FORWARD_IF(ap_validate_backward(&call->args, how, &call->problem));
  base->has_snippet = call->problem.mod_score || call->problem.mod_mask;
  if (base->has_snippet)
    memcpy(base->snippet_key, call->problem.mod_key, sizeof base->snippet_key);
  return ATTNPRESS_OK;
}

static int give(const void *args, ap_given *given) {
  return ap_give_backward(args, given);
}

static void give_checked(ap_call *call, ap_given *given) {
  ap_give_backward(&((backward_call *)call)->args, given);
}

static attnpress_status snippet(const ap_call *base, ap_snippet *fresh) {
  const attnpress_backward_args *args = &((const backward_call *)base)->args;
  return ap_score_mod_write(args->score_mod, 1, ap_dbuffers_wanted(args), fresh);
}

static attnpress_status plan(const ap_call *base, const ap_device *device, int32_t range,
                             ap_launches *launches) {
  const backward_call *call = (const backward_call *)base;
  if (range == ATTNPRESS_UP_TO)
    return ap_choose_backward_range(&call->problem, call->args.deterministic, device, launches);
  return ap_choose_backward(&call->problem, call->args.deterministic, device,
                            &AP_PLAN_OF(backward_plan, launches)->how, launches);
}

/* ---- Which calls a plan serves --------------------------------------------------------------- */

static attnpress_status serves(const ap_call *base, const ap_call *planned_base, int32_t range) {
  const backward_call *call = (const backward_call *)base;
  const backward_call *planned = (const backward_call *)planned_base;
  FORWARD_IF(ap_check_extent("dsinks given", call->problem.dsinks, planned->problem.dsinks,
                             ATTNPRESS_ONE_CALL));
  FORWARD_IF(ap_check_extent("dbias (1: given; 2, 4, 8: of one batch, head, row)",
                             call->problem.dbias, planned->problem.dbias, ATTNPRESS_ONE_CALL));
  if (range == ATTNPRESS_ONE_CALL) {
    FORWARD_IF(ap_check_extent("rows of dbias", call->problem.dbias_rows,
                               planned->problem.dbias_rows, range));
    FORWARD_IF(ap_check_extent("keys of dbias", call->problem.dbias_keys,
                               planned->problem.dbias_keys, range));
  }
  FORWARD_IF(ap_check_extent("deterministic", call->args.deterministic, planned->args.deterministic,
                             ATTNPRESS_ONE_CALL));
  FORWARD_IF(ap_check_extent("rows of q", call->problem.rows_q, planned->problem.rows_q, range));
  if (range == ATTNPRESS_ONE_CALL) /* by which grids alone are laid out */
    FORWARD_IF(ap_check_extent("rows of k", call->problem.rows_k, planned->problem.rows_k, range));
  return ap_check_served(&call->problem, &planned->problem, range);
}

/* ---- Kernel arguments ------------------------------------------------------------------------ */

/** dk_sum or dv_sum, of which the first keys of each head have no rows. */
static float *sum_of_keys(char *workspace, size_t offset_bytes, int32_t first_keys,
                          int32_t columns) {
  const size_t missing = (size_t)first_keys * (size_t)columns * sizeof(float);
  return (float *)((uintptr_t)workspace + offset_bytes - missing);
}

/** forward: of the call's arguments, by ap_forward_of(). */
static void fill_block(const backward_call *call, const attnpress_forward_args *forward,
                       const ap_backward_plan *how, attnpress_bwd_args *out) {
  const attnpress_backward_args *a = &call->args;
  const ap_problem *p = &call->problem;
  const float scale = (float)ap_scale(forward);
  char *workspace = a->workspace;
  *out = (attnpress_bwd_args){
      .q = a->q.data,
      .k = a->k.data,
      .v = a->v.data,
      .out = a->out.data,
      .dout = a->dout.data,
      .dq = a->dq.data,
      .dk = a->dk.data,
      .dv = a->dv.data,
      .lse = a->lse,
      .dlse = a->dlse,
      .lse_log2 = (float *)workspace,
      .delta = (float *)(workspace + how->delta_offset_bytes),
      .dq_sum = how->has_sum ? (float *)(workspace + how->dq_sum_offset_bytes) : NULL,
      .batch = p->batch,
      .heads_q = p->heads_q,
      .heads_kv = p->heads_kv,
      .seqlen_q = p->seqlen_q,
      .seqlen_k = p->seqlen_k,
      .row_tiles = how->row_tiles,
      .sum_tiles = how->sum_tiles,
      .accumulate = a->accumulate,
      .dq_sum_quads = how->fused ? 4 * p->hdim : 0,
      .scale = scale,
      .scale_log2 = ap_scale_log2_of(forward, scale),
      .dsinks = a->dsinks,
      .group_parts = how->group_parts,
      .sum_parts = 1,
      .key_tiles = how->key_tiles,
      .zero_ahead = how->zero_ahead,
  };
  if (how->zero_ahead != 0)
    out->dq_zeroed = (uint32_t *)(workspace + how->dq_zeroed_offset_bytes);
  if (how->takes)
    out->taken = (uint32_t *)(workspace + how->taken_offset_bytes);
  if (how->group_parts > 1) {
    out->dk_sum = sum_of_keys(workspace, how->dk_sum_offset_bytes, how->whole_keys, p->hdim);
    out->dv_sum = sum_of_keys(workspace, how->dv_sum_offset_bytes, how->whole_keys, p->hdim_v);
  }
  ap_fill_scaled_score_args(forward, scale, &out->score);
  const attnpress_tensor *tensors[] = {&a->q,    &a->k,  &a->v,  &a->out,
                                       &a->dout, &a->dq, &a->dk, &a->dv};
  int64_t *strides = &out->q_batch_stride; /* batch, row and head of each, in this order */
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; ++i)
    memcpy(strides + 3 * i, tensors[i]->stride, 3 * sizeof *strides);
  ap_row_strides(&a->q, a->lse_stride, &out->lse_batch_stride, &out->lse_head_stride);
  ap_row_strides(&a->q, a->dlse_stride, &out->dlse_batch_stride, &out->dlse_head_stride);
}

/** The same where sequences have lengths of their own. */
static void fill_ragged(const backward_call *call, const ap_backward_plan *how,
                        attnpress_bwd_ragged_args *out) {
  const attnpress_backward_args *a = &call->args;
  const attnpress_forward_args forward = ap_forward_of(a);
  int64_t lse[3], dlse[3];
  int packed;
  fill_block(call, &forward, how, &out->bwd);
  out->ragged = ap_fill_gradient_ragged_args(&forward);
  out->direct_keys = how->direct_keys;
  out->bwd.own_sums = how->own_sums > 0;
  ap_ragged_lse_strides(&forward, lse, &packed);
  out->bwd.lse_batch_stride = lse[0];
  out->bwd.lse_head_stride = lse[1];
  ap_ragged_row_strides(&forward, a->dlse_stride, a->dlse_row_stride, dlse, &packed);
  out->bwd.dlse_batch_stride = dlse[0];
  out->bwd.dlse_head_stride = dlse[1];
  out->dlse_row_stride = dlse[2];
  out->dlse_packed = packed;
  out->bwd.dq_sum_quads = how->fused ? 4 * call->problem.hdim : 0;
}

static attnpress_schedule_order order_of(const backward_call *call, const ap_backward_plan *how,
                                         int32_t number) {
  const ap_problem *p = &call->problem;
  const ap_backward_order *order = &how->order[number];
  const int32_t group = p->heads_q / p->heads_kv;
  const int32_t row_bytes = 2 * (p->hdim + p->hdim_v), sum_bytes = how->fused ? 4 * p->hdim : 0;
  char *workspace = call->args.workspace;
  return (attnpress_schedule_order){
      .first_unit = (int32_t *)(workspace + order->first_unit_offset_bytes),
      .sequences = (attnpress_sequence_units *)(workspace + order->sequences_offset_bytes),
      .by_keys = order->by_keys,
      .positions = order->positions,
      .whole = order->whole,
      .heads = order->by_keys ? p->heads_kv * how->group_parts : p->heads_q,
      .sharing = order->by_keys ? 1 : group,
      .walk_bytes = order->by_keys ? group * (row_bytes + sum_bytes) / how->group_parts : row_bytes,
  };
}

/** The schedule kernel's, which comes first. */
static void fill_schedule(const backward_call *call, const ap_backward_plan *how,
                          const attnpress_bwd_ragged_args *ragged,
                          attnpress_fwd_schedule_args *out) {
  *out = (attnpress_fwd_schedule_args){
      .ragged = ragged->ragged,
      .ticket = how->takes ? ragged->bwd.taken + 1 : NULL,
      .batch = call->problem.batch,
      .seqlen_q = call->problem.seqlen_q,
  };
  for (int32_t i = 0; i < how->orders; ++i)
    out->order[i] = order_of(call, how, i);
}

/** Strides of dimensions of 1 may be anything. */
static void fill_dbias(const backward_call *call, const ap_backward_plan *how,
                       const attnpress_bwd_args *bwd, attnpress_bwd_dbias_args *out) {
  const attnpress_dbias *d = call->args.dbias;
  const int32_t kind = call->problem.dbias;
  const int one_row = (kind & AP_DBIAS_ONE_ROW) != 0;
  *out = (attnpress_bwd_dbias_args){
      .bwd = *bwd,
      .dbias = d->data,
      .dbias_dtype = d->dtype,
      .heads = kind & AP_DBIAS_ONE_HEAD ? 1 : bwd->heads_q,
      .row_blocks = one_row ? 1 : how->dbias_row_blocks,
      .walk_batches = kind & AP_DBIAS_ONE_BATCH ? bwd->batch : 1,
      .walk_heads = kind & AP_DBIAS_ONE_HEAD ? bwd->heads_q : 1,
      .walk_row_blocks = one_row ? how->dbias_row_blocks : 1,
      .sums_rows = one_row,
  };
  int64_t *stride = &out->dbias_batch_stride;
  for (int i = 0; i < 4; ++i)
    stride[i] = d->shape[i] > 1 ? d->stride[i] : 0;
}

/** The block of the kernel that makes dk, or dv, of its sum: as dq of a call whose rows and query heads
 * are the keys and key heads of this one. */
static attnpress_bwd_args convert_keys(const attnpress_bwd_args *bwd, const ap_backward_plan *how,
                                       char *workspace, int is_dv) {
  attnpress_bwd_args out = *bwd;
  out.dq_sum = (float *)(workspace + (is_dv ? how->dv_sum_offset_bytes : how->dk_sum_offset_bytes));
  out.dq_batch_stride = is_dv ? bwd->dv_batch_stride : bwd->dk_batch_stride;
  out.dq_row_stride = is_dv ? bwd->dv_row_stride : bwd->dk_row_stride;
  out.dq_head_stride = is_dv ? bwd->dv_head_stride : bwd->dk_head_stride;
  out.dq = (uint16_t *)(is_dv ? bwd->dv : bwd->dk) + how->whole_keys * out.dq_row_stride;
  out.seqlen_q = bwd->seqlen_k - how->whole_keys;
  out.taken = NULL;
  out.heads_q = bwd->heads_kv;
  out.row_tiles = out.sum_tiles = bwd->key_tiles;
  out.sum_parts = bwd->group_parts;
  if (is_dv)
    out.scale = bwd->score.dropout_scale;
  return out;
}

/** What differs between the kernels of a dense call. */
static void set_blocks(attnpress_bwd_args *block, const ap_backward_plan *how, int index) {
  block->blocks = how->blocks[index];
  const int32_t abreast = how->abreast[index];
  block->abreast = abreast == 0 ? 1 : abreast < 0 ? abreast + 1 : abreast;
}

static attnpress_status arguments(ap_maps *maps, ap_call *base, const ap_launches *launches,
                                  int index, ap_block *block) {
  backward_run *run = (backward_run *)base;
  const ap_backward_plan *how = &AP_CONST_PLAN_OF(backward_plan, launches)->how;
  run->call.args.workspace = base->workspace; /* or the lender's */
  const ap_launch *launch = &launches->launch[index];
  if (run->call.args.ragged != NULL) {
    attnpress_bwd_sm90_ragged_args *ragged = &run->ragged_sm90;
    /* Behind it a snippet's values; sm80's kernels alone have one. */
    attnpress_bwd_ragged_args *batch = base->has_snippet ? &run->ragged_mod.batch : &ragged->batch;
    if (index == 0) {
      fill_ragged(&run->call, how, batch);
      fill_schedule(&run->call, how, batch, &run->schedule);
      if (base->has_snippet) {
        const attnpress_forward_args forward = ap_forward_of(&run->call.args);
        ap_score_mod_fill(&forward, NULL, &run->ragged_mod.mod);
        ap_dbuffers_fill(&run->call.args, &run->ragged_mod.gradients);
      }
    }
    if (launch->variant.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_BWD_DBIAS) {
      batch->bwd.blocks = how->blocks[index];
      fill_dbias(&run->call, how, &batch->bwd, &run->dbias.dbias);
      run->dbias.ragged = batch->ragged;
      run->dbias.rows = run->call.problem.dbias_rows;
      run->dbias.keys = run->call.problem.dbias_keys;
      *block = AP_BLOCK(run->dbias);
      return ATTNPRESS_OK;
    }
    *block = AP_BLOCK(run->schedule);
    if (launch->variant.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_FWD_SCHEDULE)
      return ATTNPRESS_OK;
    const attnpress_schedule_order *order = &run->schedule.order[how->order_of[index]];
    batch->first_unit = order->first_unit;
    batch->sequences = order->sequences;
    *block = base->has_snippet ? AP_BLOCK(run->ragged_mod) : AP_BLOCK(*batch);
    if (how->group_parts > 1 && (index == how->dk_convert || index == how->dv_convert)) {
      run->ragged_keys = *batch;
      run->ragged_keys.bwd =
          convert_keys(&batch->bwd, how, base->workspace, index == how->dv_convert);
      run->ragged_keys.bwd.blocks = how->blocks[index];
      *block = AP_BLOCK(run->ragged_keys);
      return ATTNPRESS_OK;
    }
    if (!launch->tile.field[AP_ATTENTION_TILE_PRODUCER])
      return ATTNPRESS_OK;
    *block = AP_BLOCK(*ragged);
    /* What is behind the batch, and not filled: like calls have like blocks. */
    memset(&ragged->batch + 1, 0,
           sizeof *ragged - offsetof(attnpress_bwd_sm90_ragged_args, batch) - sizeof ragged->batch);
    return ap_backward_maps_encode(maps, &run->call.args, &launch->tile,
                                   (ap_backward_maps){&ragged->q, &ragged->dout, &ragged->k,
                                                      &ragged->v,
                                                      how->zero_ahead > 0 ? &ragged->out : NULL});
  }
  if (base->has_snippet) { /* sm80's kernels alone have one */
    const attnpress_forward_args forward = ap_forward_of(&run->call.args);
    if (index == 0) {
      fill_block(&run->call, &forward, how, &run->with_mod.bwd);
      ap_score_mod_fill(&forward, NULL, &run->with_mod.mod);
      ap_dbuffers_fill(&run->call.args, &run->with_mod.gradients);
    }
    set_blocks(&run->with_mod.bwd, how, index);
    *block = AP_BLOCK(run->with_mod);
    return ATTNPRESS_OK;
  }
  if (index == 0) {
    const attnpress_forward_args forward = ap_forward_of(&run->call.args);
    fill_block(&run->call, &forward, how, &run->block.bwd);
  }
  set_blocks(&run->block.bwd, how, index);
  *block = AP_BLOCK(run->block.bwd);
  if (how->group_parts > 1 && (index == how->dk_convert || index == how->dv_convert)) {
    run->keys = convert_keys(&run->block.bwd, how, base->workspace, index == how->dv_convert);
    *block = AP_BLOCK(run->keys);
    return ATTNPRESS_OK;
  }
  if (launch->variant.axis[AP_ATTENTION_PASS] == AP_ATTENTION_PASS_BWD_DBIAS) {
    fill_dbias(&run->call, how, &run->block.bwd, &run->dbias.dbias);
    *block = AP_BLOCK(run->dbias.dbias);
    return ATTNPRESS_OK;
  }
  if (!launch->tile.field[AP_ATTENTION_TILE_PRODUCER])
    return ATTNPRESS_OK;
  *block = AP_BLOCK(run->block);
  return ap_backward_maps_encode(
      maps, &run->call.args, &launch->tile,
      (ap_backward_maps){&run->block.q, &run->block.dout, &run->block.k, &run->block.v, NULL});
}

/* ---- The CPU --------------------------------------------------------------------------------- */

static attnpress_status run_cpu(const ap_call *base, int32_t num_threads) {
  return ap_cpu_backward(&((const backward_call *)base)->args, num_threads);
}

static void describe_cpu(const ap_call *base, attnpress_info *info) {
  const ap_problem *p = &((const backward_call *)base)->problem;
  static const char *const masks[] = {"", "_causal", "_window"};
  snprintf(info->stem, sizeof info->stem, "cpu_bwd_hdim%d_%s%s%s%s%s%s%s", (int)p->hdim,
           ap_dtype_name(p->dtype), masks[p->mask], p->softcap ? "_softcap" : "",
           p->alibi ? "_alibi" : "", p->bias ? "_bias" : "", p->dropout ? "_dropout" : "",
           p->sequences ? "_ragged" : "");
}

/* ---- The operation --------------------------------------------------------------------------- */

static attnpress_status run_planned(const attnpress_plan *planned, const void *args, void *stream) {
  backward_run run;
  backward_plan fresh;
  return ap_plan_run(planned, args, stream, &run.call.base, &fresh.base);
}

static const ap_operation backward = {
    .name = "attnpress_backward",
    .call_bytes = sizeof(backward_call),
    .plan_bytes = sizeof(backward_plan),
    .check = check,
    .snippet = snippet,
    .plan = plan,
    .serves = serves,
    .arguments = arguments,
    .run_cpu = run_cpu,
    .describe_cpu = describe_cpu,
    .run_planned = run_planned,
    .give = give,
    .give_checked = give_checked,
    .run_bytes = sizeof(backward_run),
};

attnpress_status ap_backward_lent(attnpress_handle *handle, const void *args, void *stream,
                                  ap_lender *lender) {
  backward_run run;
  backward_plan launches;
  return ap_call_run_lent(handle, &backward, args, stream, lender, &run.call.base, &launches.base);
}

attnpress_status attnpress_backward(attnpress_handle *handle, const attnpress_backward_args *args,
                                    void *stream) {
  return ap_backward_lent(handle, args, stream, NULL);
}

attnpress_status attnpress_plan_backward(attnpress_handle *handle,
                                         const attnpress_backward_args *args,
                                         const attnpress_plan_options *options,
                                         attnpress_plan **planned) {
  return ap_plan_make(handle, &backward, args, options, planned);
}
