/* Checks what callers hand in. Nothing here looks at a device or at memory that a pointer names,
 * except for the struct of rotary embeddings. */
#include "append/append.h"

#include <inttypes.h>

#include "attention/strided.h"

enum { ROTARY_FIRST_BYTES = 64 };

/* ---- Tensors --------------------------------------------------------------------------------- */

/** A tensor that is there. */
static attnpress_status check_tensor(const ap_append_problem *p, const attnpress_tensor *t,
                                     const char *name, ap_check how, int written) {
  FORWARD_IF(ap_strided_check(t, (ap_strided){name, how.with_data, written}));
  RETURN_IF(t->dtype != p->dtype, ATTNPRESS_INVALID_ARGUMENT,
            "%s.dtype is %d and another tensor's is %d; all must be equal: nothing is converted",
            name, (int)t->dtype, (int)p->dtype);
  return ATTNPRESS_OK;
}

/** What is new, and its cache: both, or neither. */
static attnpress_status check_pair(const ap_append_problem *p, const attnpress_tensor *fresh,
                                   const char *name, const attnpress_tensor *cache,
                                   const char *cache_name, ap_check how) {
  RETURN_IF(ap_append_has(fresh) != ap_append_has(cache), ATTNPRESS_INVALID_ARGUMENT,
            "%s is given and %s is not (its dtype is 0); they come together",
            ap_append_has(fresh) ? name : cache_name, ap_append_has(fresh) ? cache_name : name);
  if (!ap_append_has(fresh))
    return ATTNPRESS_OK;
  FORWARD_IF(check_tensor(p, fresh, name, how, 0));
  FORWARD_IF(check_tensor(p, cache, cache_name, how, 1));
  return ap_strided_same(fresh, name, cache, cache_name, 2);
}

static attnpress_status check_q(ap_append_problem *p, ap_check how) {
  attnpress_append_args *a = &p->args;
  if (!ap_append_has(&a->q)) {
    RETURN_IF(ap_append_has(&a->q_out), ATTNPRESS_INVALID_ARGUMENT,
              "q_out is given and q is not (its dtype is 0)");
    return ATTNPRESS_OK;
  }
  RETURN_IF(p->rotary.rotary_dim == 0, ATTNPRESS_INVALID_ARGUMENT,
            "q is given and rotary is NULL; without it nothing is done to q");
  p->in_place = !ap_append_has(&a->q_out);
  if (p->in_place)
    a->q_out = a->q;
  FORWARD_IF(check_tensor(p, &a->q, "q", how, p->in_place));
  FORWARD_IF(check_tensor(p, &a->q_out, "q_out", how, 1));
  FORWARD_IF(ap_strided_same(&a->q, "q", &a->q_out, "q_out", 0));
  for (int i = 0; i < 3 && how.with_data && a->q.data == a->q_out.data; ++i)
    RETURN_IF(a->q.shape[i] > 1 && a->q.stride[i] != a->q_out.stride[i], ATTNPRESS_INVALID_ARGUMENT,
              "q_out lies over q, whose stride[%d] is %" PRId64 ", and has %" PRId64
              "; they must be equal",
              i, a->q.stride[i], a->q_out.stride[i]);
  return ATTNPRESS_OK;
}

/** That of k_new, of v_new or of q, whichever is there first, by which the others are measured. */
static attnpress_status find_tokens(ap_append_problem *p, const attnpress_tensor **tensor,
                                    const char **name) {
  const attnpress_append_args *a = &p->args;
  const struct {
    const attnpress_tensor *tensor;
    const char *name;
  } given[] = {{&a->k_new, "k_new"}, {&a->v_new, "v_new"}, {&a->q, "q"}};
  for (int i = 0; i < 3; ++i)
    if (ap_append_has(given[i].tensor)) {
      *tensor = given[i].tensor;
      *name = given[i].name;
      p->dtype = given[i].tensor->dtype;
      return ATTNPRESS_OK;
    }
  RETURN_IF(1, ATTNPRESS_INVALID_ARGUMENT,
            "none of k_new, v_new and q is given (their dtypes are 0); there is nothing to do");
}

static attnpress_status check_tokens(const attnpress_tensor *first, const char *first_name,
                                     const attnpress_tensor *t, const char *name) {
  for (int i = 0; i < 2 && ap_append_has(t); ++i)
    RETURN_IF(t->shape[i] != first->shape[i], ATTNPRESS_INVALID_ARGUMENT,
              "%s.shape[%d] (%s) is %" PRId64 " and %s's is %" PRId64
              "; they must be equal: they are of the same tokens",
              name, i, i == 0 ? "batch" : "seqlen", t->shape[i], first_name, first->shape[i]);
  return ATTNPRESS_OK;
}

static attnpress_status check_tensors(ap_append_problem *p, ap_check how) {
  attnpress_append_args *a = &p->args;
  const attnpress_tensor *first = NULL;
  const char *name = NULL;
  FORWARD_IF(find_tokens(p, &first, &name));
  FORWARD_IF(check_pair(p, &a->k_new, "k_new", &a->k_cache, "k_cache", how));
  FORWARD_IF(check_pair(p, &a->v_new, "v_new", &a->v_cache, "v_cache", how));
  FORWARD_IF(check_q(p, how));
  FORWARD_IF(check_tokens(first, name, &a->v_new, "v_new"));
  FORWARD_IF(check_tokens(first, name, &a->q, "q"));
  for (int i = 0; i < 2 && ap_append_has(&a->k_cache) && ap_append_has(&a->v_cache); ++i)
    RETURN_IF(a->k_cache.shape[i] != a->v_cache.shape[i], ATTNPRESS_INVALID_ARGUMENT,
              "v_cache.shape[%d] is %" PRId64 " and k_cache's is %" PRId64
              "; they must be equal: both have the same %s",
              i, a->v_cache.shape[i], a->k_cache.shape[i], i == 0 ? "entries" : "rows");
  p->new_tokens = first->shape[1];
  RETURN_IF(__builtin_mul_overflow(first->shape[0], first->shape[1], &p->tokens) ||
                p->tokens > INT32_MAX,
            ATTNPRESS_NOT_SUPPORTED,
            "%s has %" PRId64 " x %" PRId64 " tokens; a call appends at most 2^31 - 1", name,
            first->shape[0], first->shape[1]);
  RETURN_IF(a->cu_seqlens_new != NULL && first->shape[0] != 1, ATTNPRESS_INVALID_ARGUMENT,
            "%s.shape[0] is %" PRId64
            " with cu_seqlens_new; ragged tensors are (1, total, heads, head_dim)",
            name, first->shape[0]);
  if (a->cu_seqlens_new == NULL)
    a->batch = first->shape[0];
  RETURN_IF(a->batch < 0 || a->batch >= INT32_MAX, ATTNPRESS_INVALID_ARGUMENT,
            "batch is %" PRId64 "; it must be 0 to 2^31 - 2", a->batch);
  return ATTNPRESS_OK;
}

/* ---- Places ---------------------------------------------------------------------------------- */

/** Rows of the page table, of which 0 stands for one a sequence. */
static attnpress_status check_table_rows(attnpress_append_args *a) {
  RETURN_IF(a->page_table_rows < 0 || a->page_table_rows > INT32_MAX, ATTNPRESS_INVALID_ARGUMENT,
            "page_table_rows is %" PRId64 "; it must be 0 to %d", a->page_table_rows, INT32_MAX);
  RETURN_IF(a->page_indptr != NULL && (a->page_table_rows != 0 || a->page_table_stride != 0),
            ATTNPRESS_INVALID_ARGUMENT,
            "page_table_rows is %" PRId64 " and page_table_stride %" PRId64
            " with page_indptr; a flat table has no rows: both must be 0",
            a->page_table_rows, a->page_table_stride);
  RETURN_IF(a->page_table_rows != 0 && a->page_table_rows < a->batch && a->kv_batch_idx == NULL,
            ATTNPRESS_INVALID_ARGUMENT,
            "page_table_rows is %" PRId64 " and batch %" PRId64
            "; without kv_batch_idx each sequence has a row of its own",
            a->page_table_rows, a->batch);
  if (a->page_table_rows == 0)
    a->page_table_rows = a->batch;
  return ATTNPRESS_OK;
}

static attnpress_status check_places(ap_append_problem *p) {
  attnpress_append_args *a = &p->args;
  const attnpress_tensor *cache = ap_append_has(&a->k_cache) ? &a->k_cache : &a->v_cache;
  const char *name = ap_append_has(&a->k_cache) ? "k_cache" : "v_cache";
  RETURN_IF(a->page_table != NULL && a->slot_mapping != NULL, ATTNPRESS_INVALID_ARGUMENT,
            "page_table and slot_mapping are given; either says where tokens go");
  RETURN_IF(a->kv_batch_idx != NULL && (a->page_indptr != NULL || a->slot_mapping != NULL),
            ATTNPRESS_INVALID_ARGUMENT,
            "kv_batch_idx and %s are given; either says where tokens go",
            a->page_indptr != NULL ? "page_indptr" : "slot_mapping");
  RETURN_IF(a->page_table == NULL && (a->page_indptr != NULL || a->page_table_v != NULL),
            ATTNPRESS_INVALID_ARGUMENT, "%s is given and page_table is NULL; it goes with a table",
            a->page_indptr != NULL ? "page_indptr" : "page_table_v");
  if (a->page_table != NULL) {
    FORWARD_IF(check_table_rows(a));
    RETURN_IF(a->max_pages < 1 || a->max_pages > INT32_MAX, ATTNPRESS_INVALID_ARGUMENT,
              "max_pages is %" PRId64 "; with page_table it must be 1 to %d", a->max_pages,
              INT32_MAX);
    if (a->page_table_stride == 0)
      a->page_table_stride = a->max_pages;
    int64_t span;
    RETURN_IF(a->page_table_stride < 0 ||
                  __builtin_mul_overflow(a->page_table_stride, a->page_table_rows, &span) ||
                  span > INT64_MAX / 8,
              ATTNPRESS_INVALID_ARGUMENT,
              "page_table_stride is %" PRId64 " for %" PRId64
              " rows; it must not be negative, and the table less than 2^63 bytes",
              a->page_table_stride, a->page_table_rows);
    RETURN_IF(cache->shape[1] < 1, ATTNPRESS_INVALID_ARGUMENT,
              "%s.shape[1] is 0; with page_table it is the page size, and must be at least 1",
              name);
  }
  if (ap_append_has(cache) && a->page_table == NULL && a->slot_mapping == NULL &&
      a->kv_batch_idx == NULL)
    RETURN_IF(cache->shape[0] < a->batch, ATTNPRESS_INVALID_ARGUMENT,
              "%s.shape[0] is %" PRId64 " and batch %" PRId64
              "; without kv_batch_idx, page_table or slot_mapping it must be at least that",
              name, cache->shape[0], a->batch);
  return ATTNPRESS_OK;
}

static attnpress_status check_indices(const attnpress_append_args *a,
                                      const attnpress_rotary *rotary) {
  const struct {
    const char *name;
    const void *data;
    size_t bytes;
  } arrays[] = {{"cu_seqlens_new", a->cu_seqlens_new, 4},
                {"seqused_k", a->seqused_k, 4},
                {"kv_batch_idx", a->kv_batch_idx, 4},
                {"page_table", a->page_table, 4},
                {"slot_mapping", a->slot_mapping, 8},
                {"rotary.positions", rotary->positions, 4},
                {"page_table_v", a->page_table_v, 4},
                {"page_indptr", a->page_indptr, 4},
                {"rotary.first_positions", rotary->first_positions, 4}};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; ++i)
    RETURN_IF((uintptr_t)arrays[i].data % arrays[i].bytes != 0, ATTNPRESS_INVALID_ARGUMENT,
              "%s is %p; it must be aligned to %d bytes", arrays[i].name, arrays[i].data,
              (int)arrays[i].bytes);
  return ATTNPRESS_OK;
}

/* ---- Rotary ---------------------------------------------------------------------------------- */

static attnpress_status check_tables(const ap_append_problem *p) {
  const attnpress_rotary *r = &p->rotary;
  const size_t bytes = r->dtype == ATTNPRESS_FP32 ? 4 : 2;
  const struct {
    const char *name;
    const void *data;
  } tables[] = {{"cos", r->cos}, {"sin", r->sin}};
  for (int i = 0; i < 2; ++i) {
    RETURN_IF(tables[i].data == NULL, ATTNPRESS_INVALID_ARGUMENT,
              "rotary.%s is NULL; it must hold a row for each position", tables[i].name);
    RETURN_IF((uintptr_t)tables[i].data % bytes != 0, ATTNPRESS_INVALID_ARGUMENT,
              "rotary.%s is %p; it must be aligned to an element, %d bytes", tables[i].name,
              tables[i].data, (int)bytes);
  }
  return ATTNPRESS_OK;
}

static attnpress_status check_rotary(ap_append_problem *p, ap_check how) {
  attnpress_rotary *r = &p->rotary;
  const struct {
    const char *name;
    const attnpress_tensor *tensor;
  } rotated[] = {{"k_new", &p->args.k_new}, {"q", &p->args.q}};
  int64_t span;
  RETURN_IF(r->rotary_dim < 2 || r->rotary_dim % 2 != 0, ATTNPRESS_INVALID_ARGUMENT,
            "rotary.rotary_dim is %d; it must be a multiple of 2, at least 2", (int)r->rotary_dim);
  for (int i = 0; i < 2; ++i)
    RETURN_IF(ap_append_has(rotated[i].tensor) && r->rotary_dim > rotated[i].tensor->shape[3],
              ATTNPRESS_INVALID_ARGUMENT,
              "rotary.rotary_dim is %d and %s's head_dim %" PRId64 "; it must be at most that",
              (int)r->rotary_dim, rotated[i].name, rotated[i].tensor->shape[3]);
  RETURN_IF(r->dtype != ATTNPRESS_FP32 && r->dtype != p->dtype, ATTNPRESS_INVALID_ARGUMENT,
            "rotary.dtype is %d; it must be ATTNPRESS_FP32 (3) or that of the tensors, %d",
            (int)r->dtype, (int)p->dtype);
  RETURN_IF(r->interleaved != 0 && r->interleaved != 1, ATTNPRESS_INVALID_ARGUMENT,
            "rotary.interleaved is %d; it must be 0 or 1", (int)r->interleaved);
  RETURN_IF(r->reserved != 0 || r->reserved_2 != 0, ATTNPRESS_INVALID_ARGUMENT,
            "rotary.reserved%s is %d; it must be 0", r->reserved != 0 ? "" : "_2",
            (int)(r->reserved != 0 ? r->reserved : r->reserved_2));
  RETURN_IF(r->q_at_first != 0 && r->q_at_first != 1, ATTNPRESS_INVALID_ARGUMENT,
            "rotary.q_at_first is %d; it must be 0 or 1", (int)r->q_at_first);
  RETURN_IF(r->positions != NULL && (r->first_positions != NULL || r->q_at_first != 0),
            ATTNPRESS_INVALID_ARGUMENT,
            "rotary.positions and %s are given; either says where tokens stand",
            r->first_positions != NULL ? "first_positions" : "q_at_first");
  RETURN_IF(r->num_positions < 1 || r->num_positions > INT32_MAX, ATTNPRESS_INVALID_ARGUMENT,
            "rotary.num_positions is %" PRId64 "; it must be 1 to %d", r->num_positions, INT32_MAX);
  if (r->stride == 0)
    r->stride = r->rotary_dim / 2;
  RETURN_IF(r->stride < 0 || __builtin_mul_overflow(r->stride, r->num_positions, &span) ||
                span > INT64_MAX / 8,
            ATTNPRESS_INVALID_ARGUMENT,
            "rotary.stride is %" PRId64 " for %" PRId64
            " positions; it must not be negative, and the tables less than 2^63 bytes",
            r->stride, r->num_positions);
  return how.with_data ? check_tables(p) : ATTNPRESS_OK;
}

attnpress_status ap_append_validate(const attnpress_append_args *args, ap_check how,
                                    ap_append_problem *p) {
  *p = (ap_append_problem){.args = *args};
  if (args->rotary != NULL) {
    FORWARD_IF(
        ap_copy_struct(args->rotary, &p->rotary, sizeof p->rotary, ROTARY_FIRST_BYTES, "rotary"));
    RETURN_IF(p->rotary.rotary_dim == 0, ATTNPRESS_INVALID_ARGUMENT,
              "rotary.rotary_dim is 0; it must be a multiple of 2, at least 2");
  }
  FORWARD_IF(check_tensors(p, how));
  if (how.range == ATTNPRESS_ONE_CALL) /* a range is of any places */
    FORWARD_IF(check_places(p));
  if (args->rotary != NULL)
    FORWARD_IF(check_rotary(p, how));
  return how.with_data ? check_indices(&p->args, &p->rotary) : ATTNPRESS_OK;
}
