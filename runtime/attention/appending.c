/* Which calls that append and then attend a kernel of runs carries out by itself
 * (templates/attention/flash_fwd_runs_sm80.cu.j2), and its variant. */
#include "attention/appending.h"

#include "attention/choose_parts.h"
#include "attention/ragged.h"

/* ---- What a kernel may do -------------------------------------------------------------------- */

/** That lengths are numbers alone (sequence.cuh), and that of each sequence one key is new. */
static int has_one_key_more(const attnpress_ragged *r) {
  return r->seqused_k != NULL && r->seqlen_k_new == 1 && r->cu_seqlens_q == NULL &&
         r->seqused_q == NULL && r->cu_seqlens_k == NULL && r->leftpad_k == NULL &&
         r->kv_batch_idx == NULL && r->cu_seqlens_k_new == NULL && r->page_indptr == NULL;
}

static const int32_t *pages_of_v(const int32_t *page_table_v, const int32_t *page_table) {
  return page_table_v != NULL ? page_table_v : page_table;
}

/** That new keys go behind those that are counted there, by the same table. */
static int has_places_of(const attnpress_append_args *a, const attnpress_ragged *r) {
  if (a->seqused_k != r->seqused_k || a->batch != r->batch || a->cu_seqlens_new != NULL ||
      a->kv_batch_idx != NULL || a->slot_mapping != NULL || a->page_indptr != NULL ||
      a->page_table != r->page_table)
    return 0;
  if (r->page_table == NULL)
    return 1;
  return pages_of_v(a->page_table_v, a->page_table) == pages_of_v(r->page_table_v, r->page_table) &&
         a->max_pages == r->page_table_pages && a->page_table_stride == ap_table_stride(r);
}

/** Whether both are the same rows of the same memory. */
static int is_same(const attnpress_tensor *a, const attnpress_tensor *b) {
  int same = a->data == b->data && a->dtype == b->dtype;
  for (int i = 0; i < 4; ++i)
    same = same && a->shape[i] == b->shape[i] && (a->shape[i] <= 1 || a->stride[i] == b->stride[i]);
  return same;
}

/** Whether the rows of a tensor begin at multiples of so many bytes; its elements have 2. */
static int is_aligned(const attnpress_tensor *t, int64_t bytes) {
  int64_t all = (int64_t)((uintptr_t)t->data % (uintptr_t)bytes);
  for (int i = 0; i < 3; ++i)
    all |= t->shape[i] > 1 ? t->stride[i] * 2 % bytes : 0;
  return all == 0;
}

/** What K and Q are rotated by, if they are: all columns, or any pairs of neighbours; of cos and of sin
 * two are read at once. */
static int rotates_words(const ap_append_problem *p, const attnpress_tensor *q) {
  const attnpress_rotary *r = &p->rotary;
  const uintptr_t pair = r->dtype == ATTNPRESS_FP32 ? 8 : 4;
  if (r->rotary_dim == 0)
    return 1;
  return ap_append_has(&p->args.q) && !p->in_place && is_same(&p->args.q_out, q) &&
         is_aligned(&p->args.q, 4) && r->positions == NULL && r->first_positions == NULL &&
         (r->interleaved ? r->rotary_dim % 4 == 0 : r->rotary_dim == q->shape[3]) &&
         r->stride % 2 == 0 && ((uintptr_t)r->cos | (uintptr_t)r->sin) % pair == 0;
}

int ap_appends_on_the_way(const ap_append_problem *append, const attnpress_forward_args *args) {
  const attnpress_append_args *a = &append->args;
  const attnpress_ragged *r = args->ragged;
  return r != NULL && has_one_key_more(r) && has_places_of(a, r) && args->q.shape[1] == 1 &&
         args->mask != ATTNPRESS_WINDOW && ap_append_has(&a->k_new) && ap_append_has(&a->v_new) &&
         append->new_tokens == 1 && is_same(&a->k_cache, &args->k) &&
         is_same(&a->v_cache, &args->v) && is_aligned(&a->k_new, 4) && is_aligned(&a->v_new, 4) &&
         rotates_words(append, &args->q);
}

uint64_t ap_appends_where(const attnpress_append_args *a, const attnpress_forward_args *args) {
  const attnpress_ragged *r = args->ragged;
  const int same[] = {
      a->k_cache.data == args->k.data,
      a->v_cache.data == args->v.data,
      a->q_out.data == args->q.data,
      a->q_out.data == a->q.data,
      r != NULL && a->seqused_k == r->seqused_k,
      r != NULL && a->page_table == r->page_table,
      r != NULL &&
          pages_of_v(a->page_table_v, a->page_table) == pages_of_v(r->page_table_v, r->page_table),
  };
  uint64_t bits = 0;
  for (size_t i = 0; i < sizeof same / sizeof *same; ++i)
    bits |= (uint64_t)same[i] << i;
  return bits;
}

/* ---- Its variant ----------------------------------------------------------------------------- */

enum {
  GROUP_MIN = 4, /* query heads of a key head: with one a kernel before attention costs less */
};

attnpress_status ap_take_appending(const ap_problem *problem, ap_plan *plan) {
  const int32_t group = ap_group_of(problem);
  ap_variant variant = plan->variant;
  variant.axis[AP_ATTENTION_APPEND] = 1;
  variant.axis[AP_ATTENTION_MASK] = ATTNPRESS_FULL; /* the one query sees every key */
  if (group < GROUP_MIN || plan->heads_per_tile != group || !ap_variant_is_legal(&variant))
    return ATTNPRESS_OK;
  plan->variant = variant;
  plan->variant_key = ap_variant_key(&variant);
  return ap_find_tile_by_key(&variant, plan->variant_key, plan->target, &plan->tile);
}
