/* What the index arrays of a call hold: the first token that has no place, or no position in the
 * tables. Without the checking mode such a token is not written. */
#include <inttypes.h>

#include "append/append.h"
#include "inspect.h"

typedef struct token {
  int64_t sequence, index, number;
} token;

static attnpress_status read_array(ap_inspection *inspection, const void *data, int64_t count,
                                   size_t bytes, const void **host) {
  return ap_inspect_array(inspection, data, (size_t)count * bytes, host);
}

#define READ(field, count)                                                                         \
  do {                                                                                             \
    const void *host;                                                                              \
    FORWARD_IF(read_array(inspection, field, count, sizeof *(field), &host));                      \
    (field) = host;                                                                                \
  } while (0)

/** The call with its arrays in host memory. */
static attnpress_status read_arrays(ap_append_problem *p, ap_inspection *inspection) {
  attnpress_append_args *a = &p->args;
  attnpress_rotary *r = &p->rotary;
  const int flat = a->page_indptr != NULL;
  const int64_t pages = flat || a->page_table_rows == 0
                            ? a->max_pages
                            : (a->page_table_rows - 1) * a->page_table_stride + a->max_pages;
  READ(a->cu_seqlens_new, a->batch + 1);
  READ(a->seqused_k, a->batch);
  READ(a->kv_batch_idx, a->batch);
  READ(a->page_indptr, a->batch + 1);
  READ(a->page_table, pages);
  READ(a->page_table_v, pages);
  READ(a->slot_mapping, p->tokens);
  READ(r->positions, p->tokens);
  READ(r->first_positions, a->batch);
  return ATTNPRESS_OK;
}

/** Row `row` of a sequence, in a table. */
static attnpress_status check_page(const ap_append_problem *p, const char *name,
                                   const int32_t *table, token t, int64_t row, int64_t entries,
                                   int64_t rows) {
  const attnpress_append_args *a = &p->args;
  const int64_t b = t.sequence, page = row / rows;
  int64_t first = (a->kv_batch_idx != NULL ? a->kv_batch_idx[b] : b) * a->page_table_stride;
  int64_t pages = a->max_pages;
  if (a->page_indptr != NULL) {
    first = a->page_indptr[b];
    pages = a->page_indptr[b + 1] - first;
  }
  RETURN_IF(page >= pages, ATTNPRESS_INVALID_ARGUMENT,
            "sequence %" PRId64 ": token %" PRId64 " stands at %" PRId64
            ", and its pages have room for %" PRId64,
            b, t.index, row, pages * rows);
  RETURN_IF(table[first + page] < 0 || table[first + page] >= entries, ATTNPRESS_INVALID_ARGUMENT,
            "sequence %" PRId64 ": page %" PRId64 " of %s is %d; it must be 0 to %" PRId64, b, page,
            name, (int)table[first + page], entries - 1);
  return ATTNPRESS_OK;
}

static attnpress_status check_slot(const ap_append_problem *p, token t, int64_t count) {
  const int64_t slot = p->args.slot_mapping[t.number];
  RETURN_IF(slot >= count, ATTNPRESS_INVALID_ARGUMENT,
            "token %" PRId64 " of sequence %" PRId64 ": slot_mapping is %" PRId64
            "; it must be at most %" PRId64 ", or negative",
            t.index, t.sequence, slot, count - 1);
  return ATTNPRESS_OK;
}

static attnpress_status check_place(const ap_append_problem *p, token t) {
  const attnpress_append_args *a = &p->args;
  const attnpress_tensor *cache = ap_append_has(&a->k_cache) ? &a->k_cache : &a->v_cache;
  const int64_t entries = cache->shape[0], rows = cache->shape[1];
  if (!ap_append_has(cache))
    return ATTNPRESS_OK;
  if (a->slot_mapping != NULL)
    return check_slot(p, t, entries * rows);
  const int64_t used = a->seqused_k != NULL ? a->seqused_k[t.sequence] : 0;
  RETURN_IF(used < 0, ATTNPRESS_INVALID_ARGUMENT,
            "sequence %" PRId64 ": seqused_k is %" PRId64 "; it must not be negative", t.sequence,
            used);
  if (a->page_table != NULL) {
    FORWARD_IF(check_page(p, "page_table", a->page_table, t, used + t.index, entries, rows));
    return a->page_table_v == NULL
               ? ATTNPRESS_OK
               : check_page(p, "page_table_v", a->page_table_v, t, used + t.index, entries, rows);
  }
  RETURN_IF(used + t.index >= rows, ATTNPRESS_INVALID_ARGUMENT,
            "sequence %" PRId64 ": token %" PRId64 " stands at %" PRId64
            ", and the cache has room for %" PRId64,
            t.sequence, t.index, used + t.index, rows);
  return ATTNPRESS_OK;
}

static attnpress_status check_position(const ap_append_problem *p, token t) {
  const attnpress_rotary *r = &p->rotary;
  const attnpress_append_args *a = &p->args;
  if (r->rotary_dim == 0)
    return ATTNPRESS_OK;
  const int64_t first = r->first_positions != NULL ? r->first_positions[t.sequence]
                        : a->seqused_k != NULL     ? a->seqused_k[t.sequence]
                                                   : 0;
  const int64_t position = r->positions != NULL ? r->positions[t.number] : first + t.index;
  const int q_alone = !ap_append_has(&a->k_new) && !ap_append_has(&a->v_new);
  const int64_t looked_up = q_alone && r->q_at_first ? first : position;
  RETURN_IF(looked_up < 0 || looked_up >= r->num_positions, ATTNPRESS_INVALID_ARGUMENT,
            "sequence %" PRId64 ": token %" PRId64 " has the position %" PRId64
            "; cos and sin have 0 to %" PRId64,
            t.sequence, t.index, looked_up, r->num_positions - 1);
  return ATTNPRESS_OK;
}

/** What is said of a sequence as a whole. */
static attnpress_status check_sequence(const ap_append_problem *p, int64_t b) {
  const attnpress_append_args *a = &p->args;
  const struct {
    const char *name;
    const int32_t *sums;
    int64_t most;
  } all[] = {{"cu_seqlens_new", a->cu_seqlens_new, p->tokens},
             {"page_indptr", a->page_indptr, a->max_pages}};
  for (int i = 0; i < 2; ++i) {
    const int32_t *sums = all[i].sums;
    RETURN_IF(sums != NULL && (sums[b] < 0 || sums[b + 1] < sums[b] || sums[b + 1] > all[i].most),
              ATTNPRESS_INVALID_ARGUMENT,
              "sequence %" PRId64 ": %s[%" PRId64
              "] is %d and the next %d; they must ascend, within 0 to %" PRId64,
              b, all[i].name, b, (int)sums[b], (int)sums[b + 1], all[i].most);
  }
  const attnpress_tensor *cache = ap_append_has(&a->k_cache) ? &a->k_cache : &a->v_cache;
  const int64_t entries = a->page_table != NULL ? a->page_table_rows : cache->shape[0];
  RETURN_IF(a->kv_batch_idx != NULL && (a->kv_batch_idx[b] < 0 || a->kv_batch_idx[b] >= entries),
            ATTNPRESS_INVALID_ARGUMENT,
            "sequence %" PRId64 ": kv_batch_idx is %d; it must be 0 to %" PRId64, b,
            (int)a->kv_batch_idx[b], entries - 1);
  return ATTNPRESS_OK;
}

attnpress_status ap_append_inspect(const ap_append_problem *problem, ap_inspection *inspection) {
  ap_append_problem p = *problem;
  FORWARD_IF(read_arrays(&p, inspection));
  const int32_t *cu = p.args.cu_seqlens_new;
  for (int64_t b = 0; b < p.args.batch; ++b) {
    FORWARD_IF(check_sequence(&p, b));
    const int64_t count = cu != NULL ? cu[b + 1] - cu[b] : p.new_tokens;
    for (int64_t i = 0; i < count; ++i) {
      const token t = {b, i, cu != NULL ? cu[b] + i : b * p.new_tokens + i};
      FORWARD_IF(check_position(&p, t));
      FORWARD_IF(check_place(&p, t));
    }
  }
  return ATTNPRESS_OK;
}
