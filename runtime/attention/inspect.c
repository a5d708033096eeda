/* What the index arrays of a ragged call hold: the first entry that does not fit its tensor. Without
 * the checking mode such an entry makes its sequence empty (ragged.c, sequence.cuh). */
#include <inttypes.h>

#include "attention/ragged.h"
#include "attention/ready.h"
#include "inspect.h"

typedef struct arrays {
  attnpress_ragged_args at; /* in host memory; page_table_v is not used */
  const int32_t *page_table_v;
  const int32_t *schedule;
  int64_t bound; /* of queries */
} arrays;

static attnpress_status read_int32(ap_inspection *inspection, int64_t count, const int32_t **data) {
  const void *host;
  FORWARD_IF(ap_inspect_array(inspection, *data, (size_t)count * sizeof(int32_t), &host));
  *data = host;
  return ATTNPRESS_OK;
}

static attnpress_status read_arrays(const attnpress_forward_args *args, ap_inspection *inspection,
                                    arrays *x) {
  const int64_t batch = args->ragged->batch;
  attnpress_ragged_args *at = &x->at;
  *x = (arrays){.at = ap_fill_ragged_args(args),
                .page_table_v = args->ragged->page_table_v,
                .schedule = args->ragged->schedule,
                .bound = ap_ragged_queries(args)};
  const int64_t pages = at->page_indptr != NULL || at->kv_batches == 0
                            ? at->table_pages
                            : (at->kv_batches - 1) * at->page_table_stride + at->table_pages;
  const struct {
    const int32_t **data;
    int64_t count;
  } all[] = {{&at->cu_seqlens_q, batch + 1},
             {&at->cu_seqlens_k, batch + 1},
             {&at->cu_seqlens_k_new, batch + 1},
             {&at->page_indptr, batch + 1},
             {&at->seqused_q, batch},
             {&at->seqused_k, batch},
             {&at->leftpad_k, batch},
             {&at->kv_batch_idx, batch},
             {&at->page_table, pages},
             {&x->page_table_v, pages},
             {&x->schedule, ATTNPRESS_READY_ORDER + 2 * batch}};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    FORWARD_IF(read_int32(inspection, all[i].count, all[i].data));
  return ATTNPRESS_OK;
}

/** Entries b and b + 1 of prefix sums; *count: rows between them. */
static attnpress_status check_sums(const char *name, const int32_t *sums, int64_t b, int64_t most,
                                   int64_t *count) {
  RETURN_IF(sums[b] < 0 || sums[b + 1] < sums[b] || sums[b + 1] > most, ATTNPRESS_INVALID_ARGUMENT,
            "sequence %" PRId64 ": ragged.%s[%" PRId64 "] is %d and the next %d; they must ascend, "
            "within 0 to %" PRId64,
            b, name, b, (int)sums[b], (int)sums[b + 1], most);
  *count = (int64_t)sums[b + 1] - sums[b];
  return ATTNPRESS_OK;
}

static attnpress_status check_entry(const char *name, const int32_t *data, int64_t b,
                                    int64_t most) {
  RETURN_IF(data[b] < 0 || data[b] > most, ATTNPRESS_INVALID_ARGUMENT,
            "sequence %" PRId64 ": ragged.%s is %d; it must be 0 to %" PRId64, b, name,
            (int)data[b], most);
  return ATTNPRESS_OK;
}

static attnpress_status check_queries(const arrays *x, int64_t b) {
  const attnpress_ragged_args *at = &x->at;
  int64_t count = at->rows_q;
  if (at->cu_seqlens_q != NULL)
    FORWARD_IF(check_sums("cu_seqlens_q", at->cu_seqlens_q, b, at->rows_q, &count));
  if (at->seqused_q != NULL) {
    FORWARD_IF(check_entry("seqused_q", at->seqused_q, b, count));
    count = at->seqused_q[b];
  }
  RETURN_IF(count > x->bound, ATTNPRESS_INVALID_ARGUMENT,
            "sequence %" PRId64 ": it has %" PRId64 " queries and ragged.max_seqlen_q is %" PRId64,
            b, count, x->bound);
  return ATTNPRESS_OK;
}

/** *count: keys with the pad. */
static attnpress_status check_keys(const arrays *x, int64_t b, int64_t *count) {
  const attnpress_ragged_args *at = &x->at;
  int64_t appended = at->seqlen_k_new;
  *count = at->rows_k;
  if (at->kv_batch_idx != NULL)
    FORWARD_IF(check_entry("kv_batch_idx", at->kv_batch_idx, b, at->kv_batches - 1));
  if (at->page_indptr != NULL) {
    FORWARD_IF(check_sums("page_indptr", at->page_indptr, b, at->table_pages, count));
    *count *= at->page_size.value;
  }
  if (at->cu_seqlens_k != NULL) {
    const int64_t room = *count;
    const int lengths_alone = at->page_table != NULL;
    FORWARD_IF(
        check_sums("cu_seqlens_k", at->cu_seqlens_k, b, lengths_alone ? INT32_MAX : room, count));
    RETURN_IF(*count > room, ATTNPRESS_INVALID_ARGUMENT,
              "sequence %" PRId64 ": by ragged.cu_seqlens_k it has %" PRId64
              " keys, and its pages have room for %" PRId64,
              b, *count, room);
  }
  if (at->cu_seqlens_k_new != NULL)
    FORWARD_IF(check_sums("cu_seqlens_k_new", at->cu_seqlens_k_new, b, INT32_MAX, &appended));
  if (at->seqused_k != NULL) {
    RETURN_IF(at->seqused_k[b] < 0 || at->seqused_k[b] + appended > *count,
              ATTNPRESS_INVALID_ARGUMENT,
              "sequence %" PRId64 ": ragged.seqused_k is %d, and %" PRId64
              " keys were appended; together they must be 0 to %" PRId64,
              b, (int)at->seqused_k[b], appended, *count);
    *count = at->seqused_k[b] + appended;
  }
  return at->leftpad_k == NULL ? ATTNPRESS_OK : check_entry("leftpad_k", at->leftpad_k, b, *count);
}

/** The pages that hold rows `first` to count - 1. */
static attnpress_status check_pages(const arrays *x, const char *name, const int32_t *table,
                                    int64_t b, int64_t first, int64_t count) {
  const attnpress_ragged_args *at = &x->at;
  const int64_t size = at->page_size.value;
  const int64_t row = at->kv_batch_idx != NULL ? at->kv_batch_idx[b] : b;
  const int64_t begin = at->page_indptr != NULL ? at->page_indptr[b] : row * at->page_table_stride;
  for (int64_t page = first / size; page * size < count && first < count; ++page)
    RETURN_IF(table[begin + page] < 0 || table[begin + page] >= at->num_pages,
              ATTNPRESS_INVALID_ARGUMENT,
              "sequence %" PRId64 ": page %" PRId64 " of ragged.%s is %d; it must be 0 to %d", b,
              page, name, (int)table[begin + page], (int)at->num_pages - 1);
  return ATTNPRESS_OK;
}

attnpress_status ap_inspect_ragged(const attnpress_forward_args *args, ap_inspection *inspection) {
  arrays x;
  if (args->ragged == NULL || args->ragged->batch == 0)
    return ATTNPRESS_OK;
  FORWARD_IF(read_arrays(args, inspection, &x));
  for (int64_t b = 0; b < args->ragged->batch; ++b) {
    int64_t keys;
    FORWARD_IF(check_queries(&x, b));
    FORWARD_IF(check_keys(&x, b, &keys));
    const int64_t first = x.at.leftpad_k != NULL ? x.at.leftpad_k[b] : 0;
    RETURN_IF(keys - first > x.at.most_keys, ATTNPRESS_INVALID_ARGUMENT,
              "sequence %" PRId64 ": it has %" PRId64 " keys, and %s %" PRId32
              ", the bound by ragged.max_seqlen_k",
              b, keys - first,
              args->bias != NULL ? "the bias those of" : "a batch-invariant call has at most",
              x.at.most_keys);
    if (x.at.page_table != NULL)
      FORWARD_IF(check_pages(&x, "page_table", x.at.page_table, b, first, keys));
    if (x.page_table_v != NULL)
      FORWARD_IF(check_pages(&x, "page_table_v", x.page_table_v, b, first, keys));
  }
  return x.schedule == NULL ? ATTNPRESS_OK
                            : ap_check_order(&x.at, args->ragged->batch, x.bound, x.schedule);
}
