#include "attention/ragged.h"

#include <inttypes.h>

#include "attention/defaults.h"
#include "attention/overlap.h"

enum { KEYS_MAX = INT32_MAX - 1023 }; /* of a sequence, as of a tensor */

/* ---- What stands for what -------------------------------------------------------------------- */

static int64_t bounded(int64_t bound, int64_t most) {
  return bound > 0 && bound < most ? bound : most;
}

int64_t ap_ragged_queries(const attnpress_forward_args *args) {
  return bounded(args->ragged->max_seqlen_q, args->q.shape[1]);
}

/** Rows that a sequence's keys can lie in. */
static int64_t key_capacity(const attnpress_forward_args *args) {
  const attnpress_ragged *r = args->ragged;
  if (r->page_table == NULL)
    return args->k.shape[0] > 0 ? args->k.shape[1] : 0;
  return args->k.shape[0] > 0 ? r->page_table_pages * args->k.shape[1] : 0;
}

int64_t ap_ragged_keys(const attnpress_forward_args *args) {
  return bounded(args->ragged->max_seqlen_k, key_capacity(args));
}

ap_extents ap_extents_of(const attnpress_forward_args *args) {
  if (args->ragged == NULL)
    return (ap_extents){args->q.shape[0], args->q.shape[1], args->k.shape[1]};
  return (ap_extents){args->ragged->batch, ap_ragged_queries(args), ap_ragged_keys(args)};
}

static int64_t table_rows(const attnpress_ragged *r) {
  return r->page_table_rows > 0 ? r->page_table_rows : r->batch;
}

int64_t ap_table_stride(const attnpress_ragged *r) {
  return r->page_table_stride > 0 ? r->page_table_stride : r->page_table_pages;
}

void ap_ragged_row_strides(const attnpress_forward_args *args, const int64_t given[2],
                           int64_t row_stride, int64_t stride[3], int *packed) {
  const int one = args->ragged->cu_seqlens_q != NULL; /* batch of q */
  stride[0] = given[0];
  stride[1] = given[1];
  stride[2] = row_stride > 0 ? row_stride : 1;
  if (stride[0] == 0 && stride[1] == 0 && row_stride == 0) {
    stride[0] = one ? 0 : args->q.shape[1] * args->q.shape[2];
    stride[1] = args->q.shape[1];
  }
  *packed = one && stride[0] == 0;
}

void ap_ragged_lse_strides(const attnpress_forward_args *args, int64_t stride[3], int *packed) {
  ap_ragged_row_strides(args, args->lse_stride, args->ragged->lse_row_stride, stride, packed);
}

void ap_ragged_problem(const attnpress_forward_args *args, ap_problem *problem) {
  problem->sequences = args->ragged->page_table != NULL ? AP_ATTENTION_SEQUENCES_PAGED
                                                        : AP_ATTENTION_SEQUENCES_RAGGED;
  problem->batch = (int32_t)args->ragged->batch;
  problem->seqlen_q = (int32_t)ap_ragged_queries(args);
  problem->seqlen_k = (int32_t)ap_ragged_keys(args);
  problem->rows_q =
      (args->ragged->cu_seqlens_q != NULL ? 1 : args->ragged->batch) * args->q.shape[1];
  problem->rows_k = args->ragged->page_table == NULL ? args->k.shape[0] * args->k.shape[1] : 0;
  problem->tma = ap_ragged_maps_fit(args);
  problem->ready = args->ragged->schedule != NULL;
}

attnpress_ragged_args ap_fill_ragged_args(const attnpress_forward_args *args) {
  const attnpress_ragged *r = args->ragged;
  const int paged = r->page_table != NULL;
  const int bounded_keys = args->batch_invariant || args->bias != NULL;
  int64_t lse[3];
  int packed;
  ap_ragged_lse_strides(args, lse, &packed);
  return (attnpress_ragged_args){
      .cu_seqlens_q = r->cu_seqlens_q,
      .cu_seqlens_k = r->cu_seqlens_k,
      .seqused_q = r->seqused_q,
      .seqused_k = r->seqused_k,
      .leftpad_k = r->leftpad_k,
      .kv_batch_idx = r->kv_batch_idx,
      .cu_seqlens_k_new = r->cu_seqlens_k_new,
      .page_table = r->page_table,
      .page_indptr = r->page_indptr,
      .page_table_stride = ap_table_stride(r),
      .page_table_v =
          r->page_table_v != NULL
              ? ((int64_t)(uintptr_t)r->page_table_v - (int64_t)(uintptr_t)r->page_table) / 4
              : 0,
      .lse_row_stride = lse[2],
      .rows_q = (int32_t)args->q.shape[1],
      .rows_k = (int32_t)key_capacity(args),
      .kv_batches = (int32_t)(paged ? table_rows(r) : args->k.shape[0]),
      .num_pages = paged ? (int32_t)args->k.shape[0] : 0,
      .table_pages = args->k.shape[0] > 0 ? (int32_t)r->page_table_pages : 0, /* none to name */
      .page_size = ap_divisor(paged && args->k.shape[1] > 0 ? (int32_t)args->k.shape[1] : 1),
      .lse_packed = packed,
      .lse_log2 = r->lse_log2,
      .lse_empty_pos_inf = r->lse_empty_pos_inf,
      .window_top_left = args->window != NULL && args->window->top_left,
      .seqlen_k_new = (int32_t)r->seqlen_k_new,
      .most_keys = bounded_keys ? (int32_t)ap_ragged_keys(args) : INT32_MAX,
  };
}

attnpress_ragged_args ap_fill_gradient_ragged_args(const attnpress_forward_args *args) {
  attnpress_ragged_args filled = ap_fill_ragged_args(args);
  filled.most_keys = (int32_t)ap_ragged_keys(args);
  return filled;
}

/* ---- A sequence ------------------------------------------------------------------------------ */

/** Entries b and b + 1 of prefix sums, within `rows` rows; else none. */
static void take_rows(const int32_t *sums, int64_t b, int64_t rows, int64_t *begin,
                      int64_t *count) {
  const int64_t first = sums[b], end = sums[b + 1];
  const int fits = first >= 0 && end >= first && end <= rows;
  *begin = fits ? first : 0;
  *count = fits ? end - first : 0;
}

static int64_t used_of(int64_t count, int64_t used, int64_t more) {
  return used >= 0 && more >= 0 && used <= count - more ? used + more : 0;
}

/** Keys that were appended to sequence b; -1 where the sums do not ascend. */
static int64_t appended_to(const attnpress_ragged_args *args, int64_t b) {
  const int32_t *sums = args->cu_seqlens_k_new;
  if (sums == NULL)
    return args->seqlen_k_new;
  return sums[b] >= 0 && sums[b] <= sums[b + 1] ? (int64_t)sums[b + 1] - sums[b] : -1;
}

ap_sequence ap_sequence_of(const attnpress_ragged_args *args, int64_t b, int64_t bound) {
  ap_sequence s = {.q_batch = b, .seqlen_q = args->rows_q, .k_batch = b, .seqlen_k = args->rows_k};
  if (args->cu_seqlens_q != NULL) {
    s.q_batch = 0;
    take_rows(args->cu_seqlens_q, b, args->rows_q, &s.q_begin, &s.seqlen_q);
  }
  if (args->seqused_q != NULL)
    s.seqlen_q = used_of(s.seqlen_q, args->seqused_q[b], 0);
  if (s.seqlen_q > bound)
    s.seqlen_q = 0;
  if (args->kv_batch_idx != NULL)
    s.k_batch = args->kv_batch_idx[b];
  else if (args->cu_seqlens_k != NULL && args->page_table == NULL)
    s.k_batch = 0;
  s.first_page = s.k_batch * args->page_table_stride;
  if (args->page_indptr != NULL) {
    take_rows(args->page_indptr, b, args->table_pages, &s.first_page, &s.seqlen_k);
    s.seqlen_k *= args->page_size.value;
  }
  const int64_t room = s.seqlen_k;
  if (args->cu_seqlens_k != NULL && args->page_table == NULL) {
    take_rows(args->cu_seqlens_k, b, args->rows_k, &s.k_begin, &s.seqlen_k);
  } else if (args->cu_seqlens_k != NULL) {
    take_rows(args->cu_seqlens_k, b, INT32_MAX, &s.k_begin, &s.seqlen_k);
    s.k_begin = 0;
    s.seqlen_k = used_of(room, s.seqlen_k, 0);
  }
  if (args->seqused_k != NULL)
    s.seqlen_k = used_of(s.seqlen_k, args->seqused_k[b], appended_to(args, b));
  if (args->leftpad_k != NULL) {
    const int64_t pad = args->leftpad_k[b];
    const int fits = pad >= 0 && pad <= s.seqlen_k;
    s.seqlen_k = fits ? s.seqlen_k - pad : 0;
    s.k_begin += fits ? pad : 0;
  }
  if (s.seqlen_k > args->most_keys)
    s.seqlen_k = 0;
  if (s.k_batch < 0 || s.k_batch >= args->kv_batches) {
    s.k_batch = s.first_page = 0;
    s.seqlen_k = 0;
  }
  return s;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static attnpress_status check_array(const char *name, const int32_t *data, int with_data) {
  RETURN_IF(with_data && (uintptr_t)data % sizeof(int32_t) != 0, ATTNPRESS_INVALID_ARGUMENT,
            "ragged.%s is %p; it must be aligned to 4 bytes", name, (const void *)data);
  return ATTNPRESS_OK;
}

static attnpress_status check_arrays(const attnpress_ragged *r, int with_data) {
  const struct {
    const char *name;
    const int32_t *data;
  } arrays[] = {{"cu_seqlens_q", r->cu_seqlens_q}, {"cu_seqlens_k", r->cu_seqlens_k},
                {"seqused_q", r->seqused_q},       {"seqused_k", r->seqused_k},
                {"leftpad_k", r->leftpad_k},       {"kv_batch_idx", r->kv_batch_idx},
                {"page_table", r->page_table},     {"page_table_v", r->page_table_v},
                {"page_indptr", r->page_indptr},   {"cu_seqlens_k_new", r->cu_seqlens_k_new}};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; ++i)
    FORWARD_IF(check_array(arrays[i].name, arrays[i].data, with_data));
  return ATTNPRESS_OK;
}

static attnpress_status check_numbers(const attnpress_ragged *r) {
  const struct {
    const char *name;
    int64_t value, most;
  } numbers[] = {{"batch", r->batch, INT32_MAX},
                 {"max_seqlen_q", r->max_seqlen_q, INT64_MAX},
                 {"max_seqlen_k", r->max_seqlen_k, INT64_MAX},
                 {"page_table_rows", r->page_table_rows, INT32_MAX},
                 {"page_table_pages", r->page_table_pages, INT32_MAX},
                 {"page_table_stride", r->page_table_stride, INT64_MAX / INT32_MAX / 4},
                 {"lse_row_stride", r->lse_row_stride, INT64_MAX / INT32_MAX / 4},
                 {"seqlen_k_new", r->seqlen_k_new, INT32_MAX},
                 {"lse_log2", r->lse_log2, 1},
                 {"lse_empty_pos_inf", r->lse_empty_pos_inf, 1}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i)
    RETURN_IF(numbers[i].value < 0 || numbers[i].value > numbers[i].most,
              ATTNPRESS_INVALID_ARGUMENT, "ragged.%s is %" PRId64 "; it must be 0 to %" PRId64,
              numbers[i].name, numbers[i].value, numbers[i].most);
  return ATTNPRESS_OK;
}

/** Batches of q and of k. */
static attnpress_status check_batches(const attnpress_forward_args *args) {
  const attnpress_ragged *r = args->ragged;
  const int64_t q = args->q.shape[0], k = args->k.shape[0];
  RETURN_IF(r->cu_seqlens_q != NULL && q != 1, ATTNPRESS_INVALID_ARGUMENT,
            "q.shape[0] (batch) is %" PRId64
            "; with ragged.cu_seqlens_q it must be 1: the sequences lie one after the other",
            q);
  RETURN_IF(r->cu_seqlens_q == NULL && q != r->batch, ATTNPRESS_INVALID_ARGUMENT,
            "q.shape[0] (batch) is %" PRId64 " and ragged.batch %" PRId64
            "; without ragged.cu_seqlens_q they must be equal",
            q, r->batch);
  if (r->page_table != NULL)
    return ATTNPRESS_OK;
  RETURN_IF(r->cu_seqlens_k != NULL && r->kv_batch_idx != NULL, ATTNPRESS_INVALID_ARGUMENT,
            "ragged.cu_seqlens_k and ragged.kv_batch_idx are both given; keys that lie one after "
            "the other have one batch: leave one of them NULL");
  RETURN_IF(r->cu_seqlens_k != NULL && k != 1, ATTNPRESS_INVALID_ARGUMENT,
            "k.shape[0] (batch) is %" PRId64
            "; with ragged.cu_seqlens_k it must be 1: the sequences lie one after the other",
            k);
  RETURN_IF(r->cu_seqlens_k == NULL && r->kv_batch_idx == NULL && k != r->batch,
            ATTNPRESS_INVALID_ARGUMENT,
            "k.shape[0] (batch) is %" PRId64 " and ragged.batch %" PRId64
            "; without ragged.cu_seqlens_k, kv_batch_idx and page_table they must be equal",
            k, r->batch);
  return ATTNPRESS_OK;
}

static attnpress_status check_pages(const attnpress_forward_args *args) {
  const attnpress_ragged *r = args->ragged;
  if (r->page_table == NULL) {
    RETURN_IF(r->page_table_rows != 0 || r->page_table_pages != 0 || r->page_table_stride != 0,
              ATTNPRESS_INVALID_ARGUMENT,
              "ragged.page_table is NULL and its rows, pages and stride are %" PRId64 ", %" PRId64
              " and %" PRId64 "; without a table they must be 0",
              r->page_table_rows, r->page_table_pages, r->page_table_stride);
    RETURN_IF(r->page_indptr != NULL || r->page_table_v != NULL, ATTNPRESS_INVALID_ARGUMENT,
              "ragged.%s is given and page_table is NULL; it goes with a table",
              r->page_indptr != NULL ? "page_indptr" : "page_table_v");
    return ATTNPRESS_OK;
  }
  RETURN_IF(r->page_indptr != NULL && r->kv_batch_idx != NULL, ATTNPRESS_INVALID_ARGUMENT,
            "ragged.page_indptr and ragged.kv_batch_idx are both given; a flat table has no rows: "
            "leave one of them NULL");
  RETURN_IF(r->page_indptr != NULL && (r->page_table_rows != 0 || r->page_table_stride != 0),
            ATTNPRESS_INVALID_ARGUMENT,
            "ragged.page_table_rows is %" PRId64 " and page_table_stride %" PRId64
            " with page_indptr; a flat table has no rows: both must be 0",
            r->page_table_rows, r->page_table_stride);
  RETURN_IF(args->k.shape[1] == 0, ATTNPRESS_INVALID_ARGUMENT,
            "k.shape[1] is 0; with ragged.page_table it is the size of a page, at least 1");
  RETURN_IF(r->page_table_pages == 0, ATTNPRESS_INVALID_ARGUMENT,
            "ragged.page_table_pages is 0; it must be the pages that a row of page_table names, at "
            "least 1");
  RETURN_IF(r->page_table_pages > KEYS_MAX / args->k.shape[1], ATTNPRESS_INVALID_ARGUMENT,
            "ragged.page_table_pages is %" PRId64 " and a page has %" PRId64
            " rows; together they may be at most %d",
            r->page_table_pages, args->k.shape[1], KEYS_MAX);
  RETURN_IF(r->page_table_stride != 0 && r->page_table_stride < r->page_table_pages &&
                table_rows(r) > 1,
            ATTNPRESS_INVALID_ARGUMENT,
            "ragged.page_table_stride is %" PRId64
            "; it must be at least page_table_pages, %" PRId64 ", or 0 for contiguous rows",
            r->page_table_stride, r->page_table_pages);
  RETURN_IF(r->page_table_rows != 0 && r->page_table_rows < r->batch && r->kv_batch_idx == NULL,
            ATTNPRESS_INVALID_ARGUMENT,
            "ragged.page_table_rows is %" PRId64 " for %" PRId64
            " sequences; without kv_batch_idx each has a row of its own",
            r->page_table_rows, r->batch);
  return ATTNPRESS_OK;
}

enum { SCHEDULE_BATCH_MAX = 1 << 29 };

attnpress_status attnpress_forward_schedule_bytes(int64_t batch, size_t *bytes) {
  RETURN_IF(bytes == NULL, ATTNPRESS_INVALID_ARGUMENT, "bytes is NULL");
  *bytes = 0;
  RETURN_IF(batch < 0 || batch > SCHEDULE_BATCH_MAX, ATTNPRESS_INVALID_ARGUMENT,
            "batch is %" PRId64 "; a schedule has 0 to %d sequences", batch, SCHEDULE_BATCH_MAX);
  *bytes = (ATTNPRESS_READY_ORDER + 2 * (size_t)batch) * sizeof(int32_t);
  return ATTNPRESS_OK;
}

static attnpress_status check_schedule(const attnpress_ragged *r, int with_data) {
  size_t bytes = 0;
  RETURN_IF(r->schedule == NULL && r->schedule_bytes != 0, ATTNPRESS_INVALID_ARGUMENT,
            "ragged.schedule is NULL and schedule_bytes %zu; without a schedule it must be 0",
            r->schedule_bytes);
  if (r->schedule == NULL)
    return ATTNPRESS_OK;
  FORWARD_IF(attnpress_forward_schedule_bytes(r->batch, &bytes));
  RETURN_IF(r->schedule_bytes != bytes, ATTNPRESS_INVALID_ARGUMENT,
            "ragged.schedule_bytes is %zu; the schedule of %" PRId64
            " sequences has %zu bytes (attnpress_forward_schedule_bytes())",
            r->schedule_bytes, r->batch, bytes);
  return check_array("schedule", r->schedule, with_data);
}

static attnpress_status check_appended(const attnpress_ragged *r) {
  const int sums = r->cu_seqlens_k_new != NULL;
  RETURN_IF(sums && r->seqlen_k_new != 0, ATTNPRESS_INVALID_ARGUMENT,
            "ragged.cu_seqlens_k_new is given and ragged.seqlen_k_new is %" PRId64
            "; either says how many keys were appended",
            r->seqlen_k_new);
  RETURN_IF(
      (sums || r->seqlen_k_new != 0) && r->seqused_k == NULL, ATTNPRESS_INVALID_ARGUMENT,
      "ragged.%s is given and seqused_k is NULL; keys are appended behind those that it counts",
      sums ? "cu_seqlens_k_new" : "seqlen_k_new");
  return ATTNPRESS_OK;
}

/** Of lse or its gradient: where the data may be, and that no offset overflows. */
static attnpress_status check_row_values(const char *name, const float *data, int with_data,
                                         const int64_t extent[3], const int64_t stride[3]) {
  int64_t last = 0;
  RETURN_IF(with_data && (uintptr_t)data % sizeof(float) != 0, ATTNPRESS_INVALID_ARGUMENT,
            "%s is %p; it must be aligned to 4 bytes", name, (const void *)data);
  for (int i = 0; i < 3; ++i) {
    int64_t span;
    RETURN_IF(extent[i] > 1 &&
                  (stride[i] < 0 || __builtin_mul_overflow(extent[i], stride[i], &span) ||
                   __builtin_add_overflow(last, span, &last) || last > INT64_MAX / 16),
              ATTNPRESS_INVALID_ARGUMENT,
              "%s's strides %" PRId64 ", %" PRId64 ", %" PRId64
              " (batch, head, row) must not be negative, nor overflow times their extents",
              name, stride[0], stride[1], stride[2]);
  }
  return ATTNPRESS_OK;
}

static attnpress_status check_lse(const attnpress_forward_args *args, int with_data) {
  int64_t stride[3];
  int packed;
  if (args->lse == NULL)
    return ATTNPRESS_OK;
  ap_ragged_lse_strides(args, stride, &packed);
  const int64_t extent[3] = {packed ? 1 : args->ragged->batch, args->q.shape[2],
                             packed ? args->q.shape[1] : ap_ragged_queries(args)};
  FORWARD_IF(check_row_values("lse", args->lse, with_data, extent, stride));
  RETURN_IF(
      ap_rows_overlap(3, extent, stride, 1), ATTNPRESS_INVALID_ARGUMENT,
      "lse's strides are %" PRId64 ", %" PRId64 ", %" PRId64 " for %s%" PRId64 ", heads %" PRId64
      " and %" PRId64
      " rows, so that entries overlap; sorted, each stride must be at least the span below it",
      stride[0], stride[1], stride[2], packed ? "one packed batch of " : "batch ",
      args->ragged->batch, extent[1], extent[2]);
  return ATTNPRESS_OK;
}

attnpress_status ap_check_ragged(const attnpress_forward_args *args, int with_data) {
  FORWARD_IF(check_numbers(args->ragged));
  FORWARD_IF(check_arrays(args->ragged, with_data));
  FORWARD_IF(check_batches(args));
  FORWARD_IF(check_pages(args));
  FORWARD_IF(check_appended(args->ragged));
  FORWARD_IF(check_schedule(args->ragged, with_data));
  return check_lse(args, with_data);
}

/* ---- Backward -------------------------------------------------------------------------------- */

/** The gradient of lse, which is only read: any strides that are not negative. */
static attnpress_status check_dlse(const attnpress_backward_args *args, int with_data) {
  int64_t stride[3];
  int packed;
  if (args->dlse == NULL)
    return ATTNPRESS_OK;
  const attnpress_forward_args forward = ap_forward_of(args);
  RETURN_IF(args->dlse_row_stride < 0, ATTNPRESS_INVALID_ARGUMENT,
            "dlse_row_stride is %" PRId64 "; it must not be negative", args->dlse_row_stride);
  ap_ragged_row_strides(&forward, args->dlse_stride, args->dlse_row_stride, stride, &packed);
  const int64_t extent[3] = {packed ? 1 : args->ragged->batch, args->q.shape[2], args->q.shape[1]};
  return check_row_values("dlse", args->dlse, with_data, extent, stride);
}

attnpress_status ap_check_ragged_backward(const attnpress_backward_args *args, int with_data,
                                          const ap_problem *problem) {
  const attnpress_ragged *r = args->ragged;
  const struct {
    const char *name;
    const int32_t *data;
  } refused[] = {{"leftpad_k", r->leftpad_k},
                 {"kv_batch_idx", r->kv_batch_idx},
                 {"page_table", r->page_table}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
    RETURN_IF(refused[i].data != NULL, ATTNPRESS_NOT_SUPPORTED,
              "ragged.%s is given, by which the backward pass has no gradients; it takes "
              "cu_seqlens_q, cu_seqlens_k, seqused_q and seqused_k",
              refused[i].name);
  FORWARD_IF(check_dlse(args, with_data));
  const int64_t rows = problem->rows_q;
  RETURN_IF(rows > INT32_MAX - 1023 || r->batch > (INT32_MAX - 1023 - rows) / AP_PADDED_ROWS,
            ATTNPRESS_NOT_SUPPORTED,
            "%" PRId64 " sequences with %" PRId64
            " query rows in all are more than the workspace of a backward call can be laid out "
            "for, 2^31 - 1024 rows of which each sequence takes a multiple of %d; divide the batch",
            r->batch, rows, AP_PADDED_ROWS);
  return ATTNPRESS_OK;
}
