/* Decides how tokens are appended: the kernel of the dtype, and how many threads. Pure: it depends
 * on shapes and the device's numbers, and touches nothing. */
#include "append/append.h"

#include <inttypes.h>

#include "attention/attention.h"
#include "attention/strided.h"
#include "press/target.h"
#include "core/numbers.h"

enum { OVERLAP_CAPABILITY_MIN = 90 };

static attnpress_status find_kernel(const ap_append_size *size, const ap_device *device,
                                    ap_launch *launch) {
  ap_variant *v = &launch->variant;
  *launch = (ap_launch){.variant.family = AP_FAMILY_APPEND, .num_splits = 1};
  v->axis[AP_APPEND_PASS] = AP_APPEND_PASS_WRITE;
  v->axis[AP_APPEND_DTYPE] = (int32_t)size->dtype;
  launch->overlaps = device->capability >= OVERLAP_CAPABILITY_MIN; /* it waits itself */
  ap_choose_arch(device, launch);
  return ap_find_launch_tile(launch);
}

/* ---- Threads --------------------------------------------------------------------------------- */

/** That share a row: a vector of 16 bytes each, or two whose columns are pairs. Columns that are
 * not rotated are left out where the row stays where it is. */
static int64_t head_threads_of(const ap_append_problem *p, int64_t head_dim, int64_t rotary_dim,
                               int in_place) {
  const int64_t elements = p->dtype == ATTNPRESS_FP32 ? 4 : 8;
  const int64_t columns = in_place ? rotary_dim : head_dim;
  if (rotary_dim == 0 || p->rotary.interleaved)
    return ceil_div(columns, elements);
  return ceil_div(rotary_dim / 2, elements) + ceil_div(columns - rotary_dim, elements);
}

/** The rows of tensor number `which`; `heads`: 0 where it is not there. */
static int64_t heads_of(const ap_append_problem *p, int which, int64_t *head_threads) {
  const attnpress_append_args *a = &p->args;
  const attnpress_tensor *from = which == ATTNPRESS_APPEND_Q   ? &a->q
                                 : which == ATTNPRESS_APPEND_K ? &a->k_new
                                                               : &a->v_new;
  *head_threads = 0;
  if (!ap_append_has(from) || ap_strided_is_empty(from))
    return 0;
  *head_threads =
      head_threads_of(p, from->shape[3], which == ATTNPRESS_APPEND_V ? 0 : p->rotary.rotary_dim,
                      which == ATTNPRESS_APPEND_Q && p->in_place);
  return from->shape[2];
}

/** Of a token; they fit into 64 bits. */
static int64_t token_threads_of(const ap_append_problem *p) {
  int64_t threads = 0, head_threads;
  for (int which = ATTNPRESS_APPEND_Q; which <= ATTNPRESS_APPEND_V; ++which)
    threads += heads_of(p, which, &head_threads) * head_threads;
  return threads;
}

ap_append_size ap_append_size_of(const ap_append_problem *p) {
  return (ap_append_size){p->dtype, p->tokens, token_threads_of(p)};
}

attnpress_status ap_append_plan_launch(const ap_append_size *size, const ap_device *device,
                                       int32_t range, ap_launch *launch, int *count) {
  int64_t threads;
  *count = 0;
  FORWARD_IF(ap_check_capability(device->capability));
  const int overflows = __builtin_mul_overflow(size->token_threads, size->tokens, &threads);
  if (range == ATTNPRESS_ONE_CALL && !overflows && threads == 0)
    return ATTNPRESS_OK;
  FORWARD_IF(find_kernel(size, device, launch));
  *count = 1;
  if (range != ATTNPRESS_ONE_CALL)
    return ATTNPRESS_OK;
  RETURN_IF(overflows || threads > INT32_MAX, ATTNPRESS_NOT_SUPPORTED,
            "%" PRId64 " tokens of %" PRId64
            " vectors of 16 bytes are more than a launch has threads, 2^31 - 1: append them in "
            "several calls",
            size->tokens, size->token_threads);
  launch->grid = (uint32_t)ceil_div(threads, launch->tile.threads);
  return ATTNPRESS_OK;
}

attnpress_status ap_append_plan_call(const ap_append_problem *p, const ap_device *device,
                                     int32_t range, ap_launches *plan) {
  plan->workspace_bytes = 0;
  const ap_append_size size = ap_append_size_of(p);
  return ap_append_plan_launch(&size, device, range, &plan->launch[0], &plan->count);
}

/* ---- The argument block ---------------------------------------------------------------------- */

static void fill_rows(const ap_append_problem *p, int which, attnpress_append_rows *rows) {
  const attnpress_append_args *a = &p->args;
  const attnpress_tensor *const from[] = {&a->q, &a->k_new, &a->v_new};
  const attnpress_tensor *const to[] = {&a->q_out, &a->k_cache, &a->v_cache};
  const attnpress_tensor *f = from[which], *t = to[which];
  int64_t head_threads;
  const int64_t heads = heads_of(p, which, &head_threads);
  *rows = (attnpress_append_rows){
      .from = f->data,
      .to = t->data,
      .from_batch = f->stride[0],
      .from_row = f->stride[1],
      .from_head = f->stride[2],
      .to_batch = t->stride[0],
      .to_row = t->stride[1],
      .to_head = t->stride[2],
      .head_threads = ap_divisor(heads > 0 ? (int32_t)head_threads : 1),
      .threads = (int32_t)(heads * head_threads),
      .head_dim = (int32_t)f->shape[3],
      .rotary_dim = which == ATTNPRESS_APPEND_V ? 0 : p->rotary.rotary_dim,
  };
}

void ap_append_fill_args(const ap_append_problem *p, attnpress_append_write_args *args) {
  const attnpress_append_args *a = &p->args;
  const attnpress_rotary *r = &p->rotary;
  const attnpress_tensor *cache = ap_append_has(&a->k_cache) ? &a->k_cache : &a->v_cache;
  *args = (attnpress_append_write_args){
      .cu_seqlens = a->cu_seqlens_new,
      .seqused = a->seqused_k,
      .kv_batch_idx = a->kv_batch_idx,
      .page_table = a->page_table,
      .page_table_v = a->page_table_v != NULL ? a->page_table_v : a->page_table,
      .page_indptr = a->page_indptr,
      .slots = a->slot_mapping,
      .positions = r->positions,
      .first_positions = r->first_positions,
      .cos = r->cos,
      .sin = r->sin,
      .page_table_stride = a->page_table_stride,
      .rotary_stride = r->stride,
      .token_threads = ap_divisor((int32_t)token_threads_of(p)),
      .new_tokens = ap_divisor((int32_t)p->new_tokens),
      .batch = (int32_t)a->batch,
      .tokens = (int32_t)p->tokens,
      .pages = (int32_t)a->max_pages,
      .table_rows = (int32_t)a->page_table_rows,
      .entries = (int32_t)cache->shape[0],
      .entry_rows = cache->shape[1] > 0 ? (int32_t)cache->shape[1] : 1,
      .num_positions = (int32_t)r->num_positions,
      .interleaved = r->rotary_dim > 0 && r->interleaved,
      .rotary_fp32 = r->dtype == ATTNPRESS_FP32,
      .q_at_first = r->q_at_first,
  };
  if (cache->shape[1] == 0)
    args->entries = 0; /* the kernel divides by rows of an entry */
  for (int which = ATTNPRESS_APPEND_Q; which <= ATTNPRESS_APPEND_V; ++which)
    fill_rows(p, which, &args->rows[which]);
}
