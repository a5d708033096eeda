/* Runs kernels of ragged batches under the emulator. All that lies outside of the sequences is NaN,
 * and a kernel is given the rows of the sequences alone: to touch another is a fault. */
#include "ragged.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/sequences.h"
#include "attention/choose_parts.h"
#include "attention/ragged.h"
#include "attention/ready.h"
#include "attention/score_args.h"
#include "attention/attention.h"
#include "attnpress/args/runs_append.h"
#include "core/numbers.h"
#include "memory.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- Batches --------------------------------------------------------------------------------- */

typedef enum key_place {
  KEYS_PACKED,      /* one after the other, by cu_seqlens_k */
  KEYS_CACHED,      /* a batch each, of which some rows are used */
  KEYS_PICKED,      /* likewise, by kv_batch_idx, behind a pad */
  KEYS_PAGED,       /* in pages, lengths by cu_seqlens_k */
  KEYS_PAGED_CACHE, /* in pages, lengths by seqused_k, rows of the table picked, behind a pad */
  KEYS_PAGED_FLAT,  /* in pages of flat tables, one of K's and one of V's, lengths by seqused_k */
  KEYS_PAGED_USED,  /* in pages, lengths by seqused_k */
} key_place;

typedef enum lse_place { LSE_HEADS_FIRST, LSE_ROWS_FIRST, LSE_BATCHES, LSE_NONE } lse_place;

/* Of K and V: (batch, rows, heads, columns), likewise with gaps between heads and rows, (batch, heads,
 * rows, columns), and this with a key's row of V behind that of K. */
typedef enum key_order { KEYS_BSHD, KEYS_GAPS, KEYS_BHSD, KEYS_JOINED, KEY_ORDERS } key_order;

/* What is wrong with the contents of the arrays. */
typedef enum wrong { NOTHING, LENGTHS, INDICES } wrong;

/* What a ready schedule holds: the order of these lengths, another, some sequences twice, numbers by
 * chance, zeros; or that there is none, and sequences come in turn. */
typedef enum ready_contents {
  READY_MADE,
  READY_STALE,
  READY_DOUBLED,
  READY_BY_CHANCE,
  READY_ZEROS,
  READY_NONE,
  READY_CONTENTS
} ready_contents;

enum { LENGTHS_MAX = 6, FIRST_ROW = 2, LAST_ROWS = 1 };

/* Lengths are in tiles and what is added to them; a batch ends with a row of zeros. */
typedef struct extent {
  int tiles, more;
} extent;

typedef struct batch_row {
  int count;
  extent q[LENGTHS_MAX], k[LENGTHS_MAX];
  int queries_packed; /* -1: not, and each sequence has as many, which no array says */
  key_place keys;
  int page_size;
  int heads_kv, group, packed, splits;
  lse_place lse;
  int log2, pos_inf;
  wrong wrong;
  int split_blocks; /* key blocks of a split, at least */
  int appended;     /* of the keys of each sequence; -1: as many as its number, by sums */
  /* Key blocks of a split at a fixed place; with one split all are added up. 0 in the table. */
  int fixed_blocks;
  key_order keys_order;    /* one of all, whatever the table says */
  ready_contents contents; /* these as well, in turns */
  int no_tickets;
  int rotation; /* of new keys, which a kernel appends: as open_appending() has it */
  int v_pages;  /* 1: V has pages of its own, where keys are KEYS_PAGED_USED */
  int blocks;   /* thread blocks of a grid that a schedule runs before; 0: few */
  float scale;  /* 0: the default */
} batch_row;

static const batch_row batch_rows[] = {
    {.count = 5,
     .q = {{0, 3}, {0, 0}, {1, 1}, {0, 0}, {0, 17}},
     .k = {{1, 5}, {0, 7}, {0, 0}, {0, 0}, {2, 0}},
     .queries_packed = 1,
     .keys = KEYS_PACKED,
     .page_size = 16,
     .heads_kv = 1,
     .group = 2,
     .splits = 2,
     .lse = LSE_HEADS_FIRST},
    {.count = 4,
     .q = {{0, 9}, {0, 1}, {0, 20}, {0, 2}},
     .k = {{0, 31}, {3, 1}, {0, 9}, {1, 0}},
     .keys = KEYS_CACHED,
     .page_size = 3,
     .heads_kv = 1,
     .group = 4,
     .packed = 1,
     .splits = 3,
     .lse = LSE_BATCHES,
     .log2 = 1,
     .pos_inf = 1,
     .split_blocks = 3,
     .appended = -1},
    {.count = 4,
     .q = {{0, 5}, {1, -1}, {0, 4}, {0, 8}},
     .k = {{1, -1}, {0, 0}, {0, 40}, {2, 3}},
     .queries_packed = 1,
     .keys = KEYS_PICKED,
     .page_size = 64,
     .heads_kv = 2,
     .group = 3,
     .packed = 1,
     .splits = 2,
     .lse = LSE_ROWS_FIRST,
     .pos_inf = 1,
     .appended = 2},
    {.count = 6,
     .q = {{0, 7}, {0, 3}, {0, 9}, {0, 5}, {0, 4}, {0, 6}},
     .k = {{0, 33}, {1, 2}, {0, 19}, {1, 0}, {0, 25}, {0, 8}},
     .queries_packed = 1,
     .keys = KEYS_CACHED,
     .page_size = 1,
     .heads_kv = 2,
     .group = 1,
     .splits = 2,
     .lse = LSE_HEADS_FIRST,
     .log2 = 1,
     .wrong = LENGTHS,
     .appended = 3},
    {.count = 5,
     .q = {{0, 6}, {0, 12}, {0, 1}, {0, 9}, {0, 3}},
     .k = {{0, 21}, {1, 7}, {0, 50}, {0, 13}, {1, 1}},
     .keys = KEYS_PICKED,
     .page_size = 7,
     .heads_kv = 1,
     .group = 2,
     .packed = 1,
     .splits = 4,
     .lse = LSE_ROWS_FIRST,
     .wrong = INDICES,
     .split_blocks = 2,
     .appended = -1},
    {.count = 2,
     .q = {{1, 3}, {0, 1}},
     .k = {{0, 2}, {4, 9}},
     .queries_packed = 1,
     .keys = KEYS_PACKED,
     .page_size = 24,
     .heads_kv = 1,
     .group = 1,
     .splits = 5,
     .lse = LSE_NONE},
    {.count = 3,
     .q = {{1, 5}, {0, 40}, {0, 9}},
     .k = {{0, 50}, {1, 20}, {0, 7}},
     .queries_packed = 1,
     .keys = KEYS_PACKED,
     .page_size = 8,
     .heads_kv = 3,
     .group = 2,
     .splits = 3,
     .lse = LSE_ROWS_FIRST},
    /* Heads that share no tile, of which a consumer's rows see fewer key blocks than the unit has; and
     * scores of which rows have to follow many. */
    {.count = 2,
     .q = {{0, 65}, {0, 130}},
     .k = {{0, 65}, {0, 130}},
     .queries_packed = 1,
     .keys = KEYS_PACKED,
     .page_size = 40,
     .heads_kv = 4,
     .group = 1,
     .splits = 2,
     .lse = LSE_HEADS_FIRST,
     .scale = 16.0f},
    /* Heads that share tiles, of which likewise. */
    {.count = 2,
     .q = {{0, 100}, {0, 70}},
     .k = {{0, 100}, {0, 170}},
     .queries_packed = 1,
     .keys = KEYS_PACKED,
     .page_size = 16,
     .heads_kv = 1,
     .group = 4,
     .packed = 1,
     .splits = 2,
     .lse = LSE_HEADS_FIRST},
};

/* Page sizes of these batches where pages are copied in boxes. */
static const int box_pages[] = {16, 8, 64, 256, 1000, 24, 128, 40, 32};
/* And where they may be gathered as well. */
static const int gathered_pages[] = {1, 3, 1, 20, 1001, 1, 6, 33, 5};
_Static_assert(COUNT(box_pages) == COUNT(batch_rows), "a size for each batch");
_Static_assert(COUNT(gathered_pages) == COUNT(batch_rows), "a size for each batch");

/* One call and all of its memory. */
enum {
  Q,
  K,
  V,
  OUT,
  LSE,
  OUT_PARTIAL,
  LSE_PARTIAL,
  CU_Q,
  CU_K,
  USED_Q,
  USED_K,
  PAD,
  INDEX,
  TABLE,
  TABLE_V,
  INDPTR,
  CU_NEW,
  SPLITS,
  TICKET,
  FIRST_UNIT,
  ORDER,
  READY,
  K_NEW,
  V_NEW,
  Q_NEW,
  COS,
  SIN,
  TENSORS
};

enum { ARRAY_MAX = RAGGED_SEQUENCES_MAX + 1 };

typedef struct call {
  memory memory[TENSORS];
  unsigned char *data[TENSORS]; /* in it */
  size_t bytes[TENSORS];
  attnpress_forward_args args;
  attnpress_ragged ragged;
  scores scores;
  const kernel *kernel;
  int count, packed, splits, split_blocks, unspecified; /* unspecified: a sequence, or -1 */
  int fixed_blocks;
  int whole;              /* the kernel reads rows around the sequences */
  emulated_tensor *given; /* of one call at a time */
  int given_count;
} call;

/* What the sequences of a batch are of others: queries of sequence[b] from first[b] on, and its first
 * keys. */
typedef struct chunks {
  int sequence[RAGGED_SEQUENCES_MAX], first[RAGGED_SEQUENCES_MAX];
} chunks;

static void *add_memory(call *c, int which, size_t bytes) {
  c->bytes[which] = bytes > 0 ? bytes : 1;
  c->data[which] = memory_map_shared(&c->memory[which], c->bytes[which]);
  memset(c->data[which], 0xff, c->bytes[which]);
  return c->data[which];
}

static int32_t *add_array(call *c, int which, int count) {
  return add_memory(c, which, (size_t)count * sizeof(int32_t));
}

/* (batch, rows, heads, head dim) with gaps between rows. */
static void add_tensor(call *c, int which, attnpress_tensor *t, int64_t batch, int64_t rows,
                       int64_t heads, int64_t hdim, int32_t dtype) {
  *t = (attnpress_tensor){.shape = {batch, rows, heads, hdim}, .dtype = dtype};
  layout_strides(t, LAYOUT_GAPS);
  t->data = add_memory(c, which, (size_t)reference_span(t) * sizeof(uint16_t));
}

static void add_k_and_v(call *c, int64_t batch, int64_t rows, int64_t heads, key_order order) {
  static const layout layouts[] = {LAYOUT_BSHD, LAYOUT_GAPS, LAYOUT_BHSD, LAYOUT_BHSD};
  const int32_t *axis = c->kernel->variant.axis;
  const int64_t columns[] = {axis[AP_ATTENTION_HDIM], axis[AP_ATTENTION_HDIM_V]};
  attnpress_tensor *tensors[] = {&c->args.k, &c->args.v};
  const int joined = order == KEYS_JOINED;
  for (int i = 0; i < 2; ++i) {
    attnpress_tensor *t = tensors[i];
    *t = (attnpress_tensor){
        .shape = {batch, rows, heads, joined ? columns[0] + columns[1] : columns[i]},
        .dtype = axis[AP_ATTENTION_DTYPE]};
    layout_strides(t, layouts[order]);
    t->data = i > 0 && joined ? (uint16_t *)tensors[0]->data + columns[0]
                              : add_memory(c, K + i, (size_t)reference_span(t) * sizeof(uint16_t));
    t->shape[3] = columns[i];
  }
}

/* ---- Sequences ------------------------------------------------------------------------------- */

static int longest(const int *lengths, int count) {
  int most = 0;
  for (int i = 0; i < count; ++i)
    most = lengths[i] > most ? lengths[i] : most;
  return most;
}

static int32_t *add_sums(call *c, int which, const int *lengths, int first, int *end) {
  int32_t *sums = add_array(c, which, c->count + 1);
  sums[0] = first;
  for (int i = 0; i < c->count; ++i)
    sums[i + 1] = sums[i] + lengths[i];
  *end = sums[c->count];
  return sums;
}

static int32_t *add_lengths(call *c, int which, const int *lengths, int more) {
  int32_t *array = add_array(c, which, c->count);
  for (int i = 0; i < c->count; ++i)
    array[i] = lengths[i] + more;
  return array;
}

static void add_queries(call *c, const batch_row *row, const int *lengths) {
  const int32_t *axis = c->kernel->variant.axis;
  const int heads = row->heads_kv * row->group;
  int64_t batch = c->count, rows = longest(lengths, c->count) + 1;
  if (row->queries_packed > 0) {
    int end;
    c->ragged.cu_seqlens_q = add_sums(c, CU_Q, lengths, FIRST_ROW, &end);
    batch = 1;
    rows = end + LAST_ROWS;
  } else if (row->queries_packed < 0) {
    rows = lengths[0];
  } else {
    c->ragged.seqused_q = add_lengths(c, USED_Q, lengths, 0);
  }
  add_tensor(c, Q, &c->args.q, batch, rows, heads, axis[AP_ATTENTION_HDIM],
             axis[AP_ATTENTION_DTYPE]);
  add_tensor(c, OUT, &c->args.out, batch, rows, heads, axis[AP_ATTENTION_HDIM_V],
             axis[AP_ATTENTION_DTYPE]);
}

/* A permutation of the pages; entries that nobody needs are no pages. */
static void add_pages(call *c, const int *lengths, int pad, int picked, int page_size,
                      int64_t *pages) {
  const int per_row = ceil_div(longest(lengths, c->count) + pad, page_size) + 1;
  const int rows = c->count + 2 * picked, stride = per_row + 1;
  int32_t *table = add_array(c, TABLE, rows * stride);
  int used = 0, total = 3;
  for (int i = 0; i < c->count; ++i)
    total += ceil_div(lengths[i] + pad, page_size);
  int step = total / 2 + 1; /* with no factor in common with the total */
  for (int divisor = 2; divisor <= step; ++divisor)
    if (total % divisor == 0 && step % divisor == 0) {
      ++step;
      divisor = 1;
    }
  for (int i = 0; i < rows * stride; ++i)
    table[i] = i % 2 ? -7 : 1 << 30;
  for (int i = 0; i < c->count; ++i) {
    const int at = (c->ragged.kv_batch_idx ? c->ragged.kv_batch_idx[i] : i) * stride;
    for (int p = 0; p < ceil_div(lengths[i] + pad, page_size); ++p)
      table[at + p] = used++ * step % total;
  }
  c->ragged.page_table = table;
  c->ragged.page_table_rows = picked ? rows : 0;
  c->ragged.page_table_pages = per_row;
  c->ragged.page_table_stride = stride;
  *pages = total;
}

/* A table of V's pages, each the one behind that of K. */
static int32_t *add_pages_of_v(call *c, int pages) {
  const int count = (int)(c->bytes[TABLE] / 4);
  int32_t *table_v = add_array(c, TABLE_V, count);
  for (int i = 0; i < count; ++i) {
    const int32_t page = c->ragged.page_table[i];
    table_v[i] = page >= 0 && page < pages ? (page + 1) % pages : page;
  }
  return table_v;
}

/* Makes the table a flat one, and V's another, a page further on. */
static void flatten_pages(call *c, int pages) {
  const int stride = (int)c->ragged.page_table_stride, count = (int)(c->bytes[TABLE] / 4);
  int32_t *indptr = add_array(c, INDPTR, c->count + 1);
  for (int i = 0; i <= c->count; ++i)
    indptr[i] = i * stride;
  c->ragged.page_table_v = add_pages_of_v(c, pages);
  c->ragged.page_indptr = indptr;
  c->ragged.page_table_rows = c->ragged.page_table_stride = 0;
  c->ragged.page_table_pages = count;
}

/* Some of the keys that seqused_k counts are appended ones. */
static void append_keys(call *c, int appended) {
  int32_t *used = (int32_t *)(uintptr_t)c->ragged.seqused_k, *sums = NULL;
  if (used == NULL || appended == 0)
    return;
  if (appended < 0) {
    c->ragged.cu_seqlens_k_new = sums = add_array(c, CU_NEW, c->count + 1);
    sums[0] = 3;
  } else {
    c->ragged.seqlen_k_new = appended;
  }
  for (int i = 0; i < c->count; ++i) {
    used[i] -= sums != NULL ? i : appended;
    if (sums != NULL)
      sums[i + 1] = sums[i] + i;
  }
}

static void add_keys(call *c, const batch_row *row, const int *lengths) {
  const int picked = row->keys == KEYS_PICKED || row->keys == KEYS_PAGED_CACHE;
  const int paged = row->keys >= KEYS_PAGED;
  const int by_boxes =
      paged && c->kernel->variant.axis[AP_ATTENTION_ARCH] == 90 && row->page_size % 8 == 0;
  const int pad = picked && !by_boxes ? 3 : 0;
  int64_t batch = c->count + 2 * picked, rows = longest(lengths, c->count) + pad + 1;
  int end;
  if (row->keys == KEYS_PACKED || row->keys == KEYS_PAGED) {
    c->ragged.cu_seqlens_k = add_sums(c, CU_K, lengths, FIRST_ROW, &end);
    batch = 1;
    rows = end + LAST_ROWS;
  } else {
    c->ragged.seqused_k = add_lengths(c, USED_K, lengths, pad);
  }
  if (picked) {
    int32_t *index = add_array(c, INDEX, c->count);
    for (int i = 0; i < c->count; ++i)
      index[i] = c->count + 1 - i; /* each its own */
    if (pad > 0)
      c->ragged.leftpad_k = add_array(c, PAD, c->count);
    for (int i = 0; i < c->count && pad > 0; ++i)
      ((int32_t *)(uintptr_t)c->ragged.leftpad_k)[i] = pad;
    c->ragged.kv_batch_idx = index;
  }
  if (paged) {
    add_pages(c, lengths, pad, picked, row->page_size, &batch);
    rows = row->page_size;
  }
  if (row->keys == KEYS_PAGED_FLAT)
    flatten_pages(c, (int)batch);
  if (row->keys == KEYS_PAGED_USED && row->v_pages)
    c->ragged.page_table_v = add_pages_of_v(c, (int)batch);
  append_keys(c, row->appended);
  add_k_and_v(c, batch, rows, row->heads_kv, row->keys_order);
}

static void add_lse(call *c, const batch_row *row) {
  const int64_t heads = c->args.q.shape[2], rows = c->args.q.shape[1];
  const int64_t bound = ap_ragged_queries(&c->args);
  int64_t *stride = c->args.lse_stride, count = heads * rows;
  lse_place place = row->lse;
  if (row->queries_packed <= 0 && place != LSE_NONE)
    place = LSE_BATCHES;
  switch (place) {
  case LSE_HEADS_FIRST: /* by strides of 0 */
    break;
  case LSE_ROWS_FIRST:
    stride[1] = 1;
    c->ragged.lse_row_stride = heads;
    break;
  case LSE_BATCHES: /* every other element of a row */
    stride[1] = 2 * bound;
    stride[0] = heads * stride[1] + 1;
    c->ragged.lse_row_stride = 2;
    count = c->count * stride[0];
    break;
  default:
    return;
  }
  c->args.lse = add_memory(c, LSE, (size_t)count * sizeof(float));
  c->ragged.lse_log2 = row->log2;
  c->ragged.lse_empty_pos_inf = row->pos_inf;
}

/* Contents that make some sequences empty, and leave the others as they are. */
static void spoil(call *c, const batch_row *row) {
  int32_t *cu_q = (int32_t *)(uintptr_t)c->ragged.cu_seqlens_q;
  int32_t *used_q = (int32_t *)(uintptr_t)c->ragged.seqused_q;
  int32_t *cu_k = (int32_t *)(uintptr_t)c->ragged.cu_seqlens_k;
  int32_t *used_k = (int32_t *)(uintptr_t)c->ragged.seqused_k;
  int32_t *index = (int32_t *)(uintptr_t)c->ragged.kv_batch_idx;
  int32_t *pad = (int32_t *)(uintptr_t)c->ragged.leftpad_k;
  int32_t *table = (int32_t *)(uintptr_t)c->ragged.page_table;
  int32_t *indptr = (int32_t *)(uintptr_t)c->ragged.page_indptr;
  int32_t *cu_new = (int32_t *)(uintptr_t)c->ragged.cu_seqlens_k_new;
  if (row->wrong == LENGTHS && cu_q) {
    cu_q[3] = -5; /* before its begin, and the begin of the next */
    cu_q[6] = (int32_t)c->args.q.shape[1] + 1;
  }
  if (row->wrong == LENGTHS && used_q) {
    used_q[1] = -1;
    used_q[2] = (int32_t)c->args.q.shape[1] + 1;
  }
  if (row->wrong == LENGTHS && used_k) {
    used_k[0] = -1;
    used_k[4] = 1 - (int32_t)c->ragged.seqlen_k_new +
                (int32_t)(c->args.k.shape[1] * (indptr  ? indptr[5] - indptr[4]
                                                : table ? (int32_t)c->ragged.page_table_pages
                                                        : 1));
  }
  if (row->wrong == LENGTHS && indptr)
    indptr[2] = (int32_t)c->ragged.page_table_pages + 1; /* of sequence 1; 2 has no queries */
  if (row->wrong == INDICES && cu_new) {
    cu_new[5] = cu_new[4] - 1;
    used_k[1] = 1 + (int32_t)(c->args.k.shape[1] * (table ? c->ragged.page_table_pages : 1));
  }
  if (row->wrong == LENGTHS && cu_k)
    cu_k[1] = INT32_MIN;
  if (row->wrong == INDICES && index && !table) {
    index[0] = -1;
    index[1] = (int32_t)c->args.k.shape[0];
  }
  if (row->wrong == INDICES && pad)
    pad[2] = 1 << 20;
  if (row->wrong == INDICES && table && (index || c->count > 3)) {
    c->unspecified = 3;
    const int row_of_table = index ? index[3] : 3;
    table[row_of_table * c->ragged.page_table_stride] = (int32_t)c->args.k.shape[0];
    table[row_of_table * c->ragged.page_table_stride + 1] = -1;
  }
}

/* The next of what a kernel is given, of which there may be two a page. */
static emulated_tensor *next_given(call *c) {
  enum { AT_FIRST = 1024 };
  static emulated_tensor *given;
  static int room;
  if (c->given_count == room) {
    room = room == 0 ? AT_FIRST : 2 * room;
    given = realloc(given, (size_t)room * sizeof *given);
    if (given == NULL)
      abort();
  }
  c->given = given;
  return &given[c->given_count++];
}

/* The rows of a batch of a tensor from `begin` on. */
static void give(call *c, const char *name, const attnpress_tensor *t, int64_t batch, int64_t begin,
                 int64_t rows, int writable) {
  if (rows == 0 || t->shape[2] == 0)
    return;
  *next_given(c) =
      (emulated_tensor){.name = name,
                        .data = (uint16_t *)t->data + batch * t->stride[0] + begin * t->stride[1],
                        .element_bytes = sizeof(uint16_t),
                        .writable = writable,
                        .shape = {1, rows, t->shape[2], t->shape[3]},
                        .stride = {0, t->stride[1], t->stride[2], 1}};
}

static void give_array(call *c, const char *name, const void *data, int64_t count) {
  if (data != NULL)
    *next_given(c) = (emulated_tensor){.name = name,
                                       .data = (void *)(uintptr_t)data,
                                       .element_bytes = sizeof(int32_t),
                                       .shape = {1, 1, 1, count},
                                       .stride = {0, 0, 0, 1}};
}

/* The keys of a sequence, page by page. */
static void give_keys(call *c, const char *name, const attnpress_tensor *t,
                      const sequence_rows *rows) {
  for (int64_t row = 0, count; row < rows->keys; row += count) {
    int64_t page, in_page;
    sequence_key_place(&c->args, rows, rows->k_begin + row, t == &c->args.v, &page, &in_page);
    count = rows->keys - row;
    if (c->ragged.page_table && count > t->shape[1] - in_page)
      count = t->shape[1] - in_page;
    give(c, name, t, page, in_page, count, c->kernel->variant.axis[AP_ATTENTION_APPEND]);
  }
}

/* Fills the rows of the sequences; all else stays NaN. Chunks of a sequence have its rows. */
static void fill(call *c, const chunks *of, uint64_t seed) {
  for (int b = 0; b < c->count; ++b) {
    const sequence_rows rows = sequence_rows_of(&c->args, b);
    attnpress_tensor *tensors[] = {&c->args.q, &c->args.k, &c->args.v};
    for (int i = 0; i < 3; ++i) {
      attnpress_tensor row = *tensors[i];
      row.shape[0] = row.shape[1] = 1;
      for (int64_t n = 0; n < (i == 0 ? rows.queries : rows.keys); ++n) {
        int64_t page = rows.q_batch, at = rows.q_begin + n;
        if (i > 0)
          sequence_key_place(&c->args, &rows, rows.k_begin + n, i == 2, &page, &at);
        if (page < 0 || page >= tensors[i]->shape[0])
          continue;
        row.data = (uint16_t *)tensors[i]->data + page * row.stride[0] + at * row.stride[1];
        const int64_t number = of != NULL && i == 0 ? of->first[b] + n : n;
        reference_fill_normal(
            &row, seed + (uint64_t)((of != NULL ? of->sequence[b] : b) * 3 + i) * 100000 +
                      (uint64_t)number);
      }
    }
  }
}

/* The arrays that say where the rows of q lie, and, with `keys`, those of k and v, except for pages. */
static void give_lengths(call *c, int keys) {
  give_array(c, "cu_seqlens_q", c->ragged.cu_seqlens_q, c->count + 1);
  give_array(c, "seqused_q", c->ragged.seqused_q, c->count);
  if (!keys)
    return;
  give_array(c, "cu_seqlens_k", c->ragged.cu_seqlens_k, c->count + 1);
  give_array(c, "seqused_k", c->ragged.seqused_k, c->count);
  give_array(c, "leftpad_k", c->ragged.leftpad_k, c->count);
  give_array(c, "kv_batch_idx", c->ragged.kv_batch_idx, c->count);
  give_array(c, "cu_seqlens_k_new", c->ragged.cu_seqlens_k_new, c->count + 1);
  give_array(c, "page_indptr", c->ragged.page_indptr, c->count + 1);
}

/* Where a thread block adds up its rows' splits, each warp that shares a row keeps an lse. */
static int lse_copies(const call *c) {
  return c->fixed_blocks > 0 && c->splits == 1 ? c->kernel->tile.field[AP_ATTENTION_TILE_WARPS_N]
                                               : 1;
}

/* Kernels by what they do to an output in parts. */
typedef enum role { ATTENDS, COMBINES } role;

/* A kernel of runs whose thread blocks have several key heads, of few rows each. */
static int shares_keys(const kernel *k) {
  return k->variant.axis[AP_ATTENTION_RUNS] && k->tile.field[AP_ATTENTION_TILE_PRODUCER];
}

/* Rows of the parts of so many splits. */
static int64_t rows_of_parts(const call *c, int splits) {
  const int64_t rows = shares_keys(c->kernel) ? c->args.k.shape[2] * AP_ATTENTION_FEW_ROWS
                                              : c->args.q.shape[2] * ap_ragged_queries(&c->args);
  return (int64_t)splits * c->count * rows;
}

/* What a kernel may touch. */
static void give_all(call *c, int splits, role role) {
  const int combines = role == COMBINES;
  const int stores = splits == 0 || combines || c->kernel->variant.axis[AP_ATTENTION_RUNS];
  const ap_variant *variant = &c->kernel->variant;
  const int guesses = variant->axis[AP_ATTENTION_SPLIT] && variant->axis[AP_ATTENTION_DECODE] &&
                      variant->axis[AP_ATTENTION_ARCH] < 90; /* how many keys, and in which pages */
  const int whole = c->whole || guesses || c->unspecified >= 0 ||
                    (c->ragged.page_table && c->args.k.shape[1] < 8);
  c->given_count = 0;
  const int64_t partial_rows = rows_of_parts(c, splits);
  if (splits > 0) {
    const attnpress_tensor *out = &c->args.out;
    *next_given(c) = (emulated_tensor){.name = "out_partial",
                                       .data = c->data[OUT_PARTIAL],
                                       .element_bytes = sizeof(float),
                                       .writable = !combines,
                                       .shape = {1, 1, partial_rows, out->shape[3]},
                                       .stride = {0, 0, out->shape[3], 1}};
    const int64_t lse_rows = partial_rows * (combines ? 1 : lse_copies(c));
    *next_given(c) = (emulated_tensor){.name = "lse_partial",
                                       .data = c->data[LSE_PARTIAL],
                                       .element_bytes = sizeof(float),
                                       .writable = !combines,
                                       .shape = {1, 1, 1, lse_rows},
                                       .stride = {0, 0, 0, 1}};
  }
  for (int b = 0; b < c->count; ++b) {
    const sequence_rows rows = sequence_rows_of(&c->args, b);
    if (stores)
      give(c, "out of a sequence", &c->args.out, rows.q_batch, rows.q_begin, rows.queries, 1);
    if (stores && c->args.lse && rows.queries > 0) {
      const int64_t first = sequence_lse_at(&c->args, &rows, b, 0, 0);
      *next_given(c) =
          (emulated_tensor){.name = "lse of a sequence",
                            .data = c->args.lse + first,
                            .element_bytes = sizeof(float),
                            .writable = 1,
                            .shape = {1, rows.queries, c->args.q.shape[2], 1},
                            .stride = {0, sequence_lse_at(&c->args, &rows, b, 0, 1) - first,
                                       sequence_lse_at(&c->args, &rows, b, 1, 0) - first, 1}};
    }
  }
  give_lengths(c, !combines);
  if (stores)
    *next_given(c) = c->scores.tensors[TENSOR_SINKS];
  if (combines)
    return;
  give_array(c, "page_table", c->ragged.page_table, (int64_t)(c->bytes[TABLE] / sizeof(int32_t)));
  give_array(c, "page_table_v", c->ragged.page_table_v,
             (int64_t)(c->bytes[TABLE_V] / sizeof(int32_t)));
  for (int i = 0; i < SCORE_TENSORS; ++i)
    if (i != TENSOR_SINKS)
      *next_given(c) = c->scores.tensors[i];
  for (int b = 0; b < c->count; ++b) {
    const sequence_rows rows = sequence_rows_of(&c->args, b);
    if (!c->whole)
      give(c, "q of a sequence", &c->args.q, rows.q_batch, rows.q_begin, rows.queries, 0);
    if (whole || rows.queries == 0)
      continue;
    give_keys(c, "k of a sequence", &c->args.k, &rows);
    give_keys(c, "v of a sequence", &c->args.v, &rows);
  }
  for (int64_t b = 0; c->whole && b < c->args.q.shape[0]; ++b)
    give(c, "q", &c->args.q, b, 0, c->args.q.shape[1], 0);
  const int writes = c->kernel->variant.axis[AP_ATTENTION_APPEND];
  for (int64_t page = 0; whole && page < c->args.k.shape[0]; ++page) {
    give(c, "k", &c->args.k, page, 0, c->args.k.shape[1], writes);
    give(c, "v", &c->args.v, page, 0, c->args.v.shape[1], writes);
  }
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void call_fwd(void (*function)(void), const void *args) {
  ((void (*)(attnpress_fwd_ragged_args))function)(*(const attnpress_fwd_ragged_args *)args);
}

static void call_fwd_mod(void (*function)(void), const void *args) {
  ((void (*)(attnpress_fwd_ragged_mod_args))function)(*(const attnpress_fwd_ragged_mod_args *)args);
}

static void call_runs(void (*function)(void), const void *args) {
  ((void (*)(attnpress_fwd_runs_args))function)(*(const attnpress_fwd_runs_args *)args);
}

static void call_combine(void (*function)(void), const void *args) {
  ((void (*)(attnpress_fwd_combine_ragged_args))function)(
      *(const attnpress_fwd_combine_ragged_args *)args);
}

static void call_sm90(void (*function)(void), const void *args) {
  ((void (*)(attnpress_fwd_sm90_ragged_args))function)(
      *(const attnpress_fwd_sm90_ragged_args *)args);
}

static void call_sm90_mod(void (*function)(void), const void *args) {
  ((void (*)(attnpress_fwd_sm90_ragged_mod_args))function)(
      *(const attnpress_fwd_sm90_ragged_mod_args *)args);
}

static void call_schedule(void (*function)(void), const void *args) {
  ((void (*)(attnpress_fwd_schedule_args))function)(*(const attnpress_fwd_schedule_args *)args);
}

/* As runtime/attention/forward.c fills them. */
static attnpress_fwd_ragged_args fwd_args(const call *c, const batch_row *row) {
  const attnpress_forward_args *a = &c->args;
  const int bound = (int)ap_ragged_queries(a), heads = row->packed ? row->group : 1;
  int64_t lse[3];
  int packed;
  ap_ragged_lse_strides(a, lse, &packed);
  attnpress_fwd_ragged_args args = {
      .fwd =
          {
              .q = a->q.data,
              .k = a->k.data,
              .v = a->v.data,
              .out = a->out.data,
              .lse = a->lse,
              .out_partial = (float *)c->data[OUT_PARTIAL],
              .lse_partial = (float *)c->data[LSE_PARTIAL],
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
              .lse_batch_stride = lse[0],
              .lse_head_stride = lse[1],
              .batch = c->count,
              .heads_q = row->heads_kv * row->group,
              .heads_kv = row->heads_kv,
              .seqlen_q = bound,
              .seqlen_k = (int)ap_ragged_keys(a),
              .heads_per_tile = heads,
              .row_blocks = ceil_div((int64_t)bound * heads,
                                     c->kernel->tile.field[AP_ATTENTION_TILE_BLOCK_M]),
              .num_splits = c->splits > 0 ? c->splits : 1,
              .key_blocks_per_split = c->split_blocks > 0 ? c->split_blocks : 1,
              .scale = (float)ap_scale(a),
              .scale_log2 = ap_scale_log2(a),
          },
      .ragged = ap_fill_ragged_args(a),
  };
  args.ragged.fixed_split_blocks = c->fixed_blocks;
  ap_fill_score_args(a, &args.fwd.score);
  return args;
}

/* A kernel whose clusters share splits: of its rows' splits, which are few. */
static int shares_splits(const kernel *k) {
  return k->variant.axis[AP_ATTENTION_SHARED];
}

/* The splits that such a cluster has room for. */
static int cluster_splits(const kernel *k) {
  return AP_ATTENTION_CLUSTER_BLOCKS / ap_split_sharing(k->variant.axis[AP_ATTENTION_SHARED]);
}

/* The keys of a sequence that a kernel has room for: of clusters that share splits, all of theirs. */
static int keys_at_most(const kernel *k) {
  return shares_splits(k) ? cluster_splits(k) * k->tile.field[AP_ATTENTION_TILE_STAGES] *
                                k->tile.field[AP_ATTENTION_TILE_BLOCK_N]
                          : INT_MAX;
}

static unsigned shared_cluster(const call *c) {
  return (unsigned)(ap_split_sharing(c->kernel->variant.axis[AP_ATTENTION_SHARED]) * c->splits);
}

static int launch(const kernel *k, unsigned blocks, const void *args,
                  void (*typed_call)(void (*)(void), const void *), const call *c, char *report) {
  const emulated_launch l = {.module = k->module,
                             .overlaps = k->overlaps,
                             .blocks = blocks,
                             .threads = (unsigned)k->tile.threads,
                             .cluster = shares_splits(k) ? shared_cluster(c) : 0,
                             .in_turn = blocks % 2 == 1,
                             .shared_bytes = (size_t)k->tile.smem_bytes,
                             .args = args,
                             .call = typed_call,
                             .tensors = c->given,
                             .tensor_count = c->given_count};
  char text[EMULATED_REPORT_BYTES];
  const int status = emulated_run(&l, text);
  if (status != 0)
    snprintf(report, EMULATED_REPORT_BYTES, "%.120s: %.7900s", k->stem, text);
  return status;
}

/* ---- Compute capability 9.0 ---- */

static void give_written(call *c, const char *name, int which, int writable) {
  *next_given(c) = (emulated_tensor){.name = name,
                                     .data = c->data[which],
                                     .element_bytes = 4,
                                     .writable = writable,
                                     .shape = {1, 1, 1, (int64_t)c->bytes[which] / 4},
                                     .stride = {0, 0, 0, 1}};
}

static CUresult no_words(CUresult result, const char **words) {
  (void)words;
  return result;
}

static int count_scheduled_splits(const attnpress_fwd_schedule_args *args,
                                  const attnpress_sequence_units *u) {
  return args->split_keys > 0 ? args->sequence_splits[u->sequence] : 1;
}

/* An order: each sequence once, in its part of the batch after those whose units walk over as much or
 * more, and units that count what came before. */
static int check_order(const call *c, const attnpress_fwd_schedule_args *args,
                       const attnpress_schedule_order *order, char *report) {
  int units = 0, last_walk = 0;
  for (int i = 0; i < c->count; ++i) {
    const attnpress_sequence_units *u = &order->sequences[i];
    const sequence_rows rows = sequence_rows_of(&c->args, u->sequence);
    const int blocks = order->by_keys ? u->seqlen_k : u->seqlen_q;
    int wrong = order->first_unit[i] != units || u->seqlen_q != rows.queries ||
                u->seqlen_k != (rows.queries > 0 ? rows.keys : u->seqlen_k) ||
                u->blocks != ceil_div(blocks, order->positions);
    for (int before = i / ATTNPRESS_SCHEDULE_PART * ATTNPRESS_SCHEDULE_PART; before < i; ++before)
      wrong |= order->sequences[before].sequence == u->sequence;
    const int walk = blocks == 0 ? 0 : order->by_keys ? u->seqlen_q : u->seqlen_k;
    const int splits = count_scheduled_splits(args, u);
    wrong |= splits < 1 ||
             (!args->window && splits > 1 && splits != ceil_div(u->seqlen_k, args->split_keys));
    wrong |= u->sequence / ATTNPRESS_SCHEDULE_PART != i / ATTNPRESS_SCHEDULE_PART;
    wrong |= i % ATTNPRESS_SCHEDULE_PART > 0 && walk / 16 > last_walk / 16;
    last_walk = walk;
    if (wrong) {
      snprintf(report, EMULATED_REPORT_BYTES,
               "the schedule has sequence %d at place %d with %d queries, %d keys, %d units before",
               u->sequence, i, u->seqlen_q, u->seqlen_k, order->first_unit[i]);
      return -1;
    }
    units += u->blocks * order->heads * splits;
  }
  if (order->first_unit[c->count] == units)
    return 0;
  snprintf(report, EMULATED_REPORT_BYTES, "the schedule has %d units, not %d",
           order->first_unit[c->count], units);
  return -1;
}

/* Of the grid of a kernel that a schedule runs before. */
static unsigned scheduled_blocks(const batch_row *row) {
  return row->blocks > 0 ? (unsigned)row->blocks : (unsigned)(1 + row->splits % 3);
}

/* What its thread blocks keep of the splits that they add up, in bytes. */
static size_t kept_bytes(const kernel *k, const batch_row *row) {
  return ap_kept_bytes(k->variant.axis[AP_ATTENTION_HDIM_V], &k->tile, scheduled_blocks(row));
}

/* What adds up splits at fixed places: few by the kernel for few rows, if it is that which is run, or
 * their number is even. */
static int by_few(const companions *others, const attnpress_fwd_args *fwd) {
  return others->combine.module == NULL ||
         (others->combine_few.module != NULL && fwd->num_splits % 2 == 0 && fwd->num_splits <= 32);
}

/* A kernel whose splits at fixed places are parts, which may be added up in any order. */
static int has_parts_alone(const kernel *k) {
  return k->variant.axis[AP_ATTENTION_FEW] && k->tile.field[AP_ATTENTION_TILE_PRODUCER];
}

static int launch_combine(const companions *others, call *c, const attnpress_fwd_args *fwd,
                          const attnpress_ragged_args *ragged, const int32_t *sequence_splits,
                          const attnpress_fwd_runs_args *runs, char *report) {
  const int few = sequence_splits != NULL && by_few(others, fwd);
  const kernel *combine = few ? &others->combine_few : &others->combine;
  const int block_n = combine->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  const int in_order = c->fixed_blocks > 0 && !has_parts_alone(c->kernel);
  const int each = in_order              ? 0
                   : c->fixed_blocks > 0 ? fwd->num_splits % 3 == 0
                                         : c->splits % 2 == 0;
  attnpress_fwd_combine_ragged_args adds = {
      .combine =
          {
              .out_partial = fwd->out_partial,
              .lse_partial = fwd->lse_partial,
              .out = fwd->out,
              .lse = fwd->lse,
              .sinks = fwd->score.sinks,
              .out_batch_stride = fwd->out_batch_stride,
              .out_row_stride = fwd->out_row_stride,
              .out_head_stride = fwd->out_head_stride,
              .lse_batch_stride = fwd->lse_batch_stride,
              .lse_head_stride = fwd->lse_head_stride,
              .sinks_stride = fwd->score.sinks_stride,
              .rows =
                  (int64_t)(runs != NULL ? runs->runs : fwd->batch) * fwd->heads_q * fwd->seqlen_q,
              .heads_q = fwd->heads_q,
              .seqlen_q = fwd->seqlen_q,
              .num_splits = runs != NULL ? runs->runs : fwd->num_splits,
              .sinks_dtype = fwd->score.sinks_dtype,
              .block_rows = few                                   ? 1
                            : sequence_splits != NULL && in_order ? combine->tile.threads / 32
                            : each ? combine->tile.threads / (block_n / 4)
                                   : 1,
          },
      .ragged = *ragged,
      .sequence_splits = sequence_splits,
      .cuts = runs != NULL ? runs->cuts : NULL,
  };
  adds.ragged.fixed_split_blocks = in_order ? c->fixed_blocks : 0;
  const int columns = ceil_div(c->args.out.shape[3], block_n);
  give_all(c, c->splits, COMBINES);
  if (sequence_splits != NULL)
    give_written(c, "sequence_splits", SPLITS, 0);
  if (runs != NULL)
    give_written(c, "cuts", SPLITS, 0);
  return launch(combine, (unsigned)(ceil_div(adds.combine.rows, adds.combine.block_rows) * columns),
                &adds, call_combine, c, report);
}

static uint32_t next_by_chance(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/* A schedule as the contents have it, of one that was made. */
static void spoil_schedule(int32_t *ready, int count, ready_contents contents) {
  int32_t *order = ready + ATTNPRESS_READY_ORDER, *places = order + count;
  uint32_t state = (uint32_t)count;
  for (int i = 0; i < count && contents == READY_STALE; ++i)
    order[i] = places[i] = count - 1 - i;
  for (int i = 1; i < count && contents == READY_DOUBLED; i += 2) {
    order[i] = order[i - 1];
    places[i] = places[i - 1];
  }
  for (int i = 0; i < 1 + 2 * count && contents == READY_BY_CHANCE; ++i) {
    const uint32_t value = next_by_chance(&state);
    ready[i] = value % 7 == 0   ? (int32_t)(value * 2654435761u)
               : value % 7 == 1 ? -1
                                : (int32_t)(value / 7 % (uint32_t)(count + 1));
  }
  if (contents == READY_ZEROS)
    memset(ready, 0, (size_t)(1 + 2 * count) * sizeof *ready);
}

/* Has the schedule kernel make a schedule, which is to be that of the host, and spoils it. */
static int make_ready(const kernel *schedule, call *c, const attnpress_fwd_schedule_args *args,
                      ready_contents contents, char *report) {
  const int words = ATTNPRESS_READY_ORDER + 2 * c->count;
  int32_t *expected = malloc((size_t)words * sizeof *expected);
  give_written(c, "the schedule", READY, 1);
  give_lengths(c, 1);
  int status = expected == NULL
                   ? -1
                   : launch(schedule, ap_schedule_parts(c->count), args, call_schedule, c, report);
  if (status == 0) {
    status = ap_order_sequences(&args->ragged, c->count, args->seqlen_q, expected);
    for (int i = 0; i < words && status == 0; ++i)
      if (args->ready[i] != expected[i]) {
        snprintf(report, EMULATED_REPORT_BYTES, "word %d of the schedule is %d, on the host %d", i,
                 args->ready[i], expected[i]);
        status = -1;
      }
  }
  free(expected);
  spoil_schedule(args->ready, c->count, contents);
  return status;
}

/* As runtime/attention/forward.c fills them. The pointers that the kernel leaves alone are not there,
 * and the numbers of units mean nothing. */
static int launch_sm90(const companions *others, call *c, const batch_row *row, char *report) {
  const int shares = shares_splits(c->kernel);
  const int split_units = c->splits > 1 && !shares;
  const int ready = c->kernel->variant.axis[AP_ATTENTION_READY] || shares;
  const attnpress_fwd_ragged_args plain = fwd_args(c, row);
  const ap_driver driver = {.tensor_map_encode_tiled = emulated_encode_tiled,
                            .get_error_name = no_words,
                            .get_error_string = no_words};
  ap_maps maps = {.driver = &driver};
  const ap_plan plan = {.heads_per_tile = plain.fwd.heads_per_tile, .tile = c->kernel->tile};
  attnpress_fwd_sm90_ragged_mod_args with_mod = {.batch.sm90.fwd = plain.fwd,
                                                 .batch.ragged = plain.ragged};
  attnpress_fwd_sm90_ragged_args *args = &with_mod.batch;
  attnpress_fwd_args *fwd = &args->sm90.fwd;
  const int heads = fwd->heads_per_tile, tile_heads = fwd->heads_q / heads;
  const int positions = (int)ap_row_block_positions(&c->kernel->tile, heads);
  const int32_t page_box_rows =
      c->args.ragged->page_table != NULL ? ap_page_box_rows(&c->args, &c->kernel->tile) : 0;
  if (ap_tensor_maps_encode(&maps, &c->args, &plan, page_box_rows, &args->sm90) != ATTNPRESS_OK) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
    return -1;
  }
  args->ticket = add_memory(c, TICKET, sizeof *args->ticket);
  if (!ready) {
    args->first_unit = add_array(c, FIRST_UNIT, c->count + 1);
    args->sequences = add_memory(c, ORDER, (size_t)c->count * sizeof *args->sequences);
  }
  args->sm90.tile_heads = ap_divisor(tile_heads);
  args->sm90.num_splits = ap_divisor(c->splits > 0 ? c->splits : 1);
  args->sm90.heads_per_tile = ap_divisor(heads);
  args->sm90.warpgroup_positions = ap_consumer_rows(&c->kernel->tile) / heads;
  if (c->ragged.page_table != NULL) {
    args->box_rows = ap_page_box_rows(&c->args, &c->kernel->tile);
    args->k_head_step = ap_page_head_step(&c->args.k);
    args->v_head_step = ap_page_head_step(&c->args.v);
  }
  if (c->kernel->mod != NULL)
    ap_score_mod_fill(&c->args, NULL, &with_mod.mod);
  if (split_units)
    add_array(c, SPLITS, c->count);
  const attnpress_fwd_schedule_args orders = {
      .ragged = args->ragged,
      .ticket = args->ticket,
      .batch = c->count,
      .seqlen_q = fwd->seqlen_q,
      .order = {{
          .first_unit = (int32_t *)c->data[FIRST_UNIT],
          .sequences = (attnpress_sequence_units *)c->data[ORDER],
          .positions = positions,
          .heads = tile_heads,
          .sharing = tile_heads / fwd->heads_kv,
          /* Of several key heads, long sequences have a section each. */
          .walk_bytes = fwd->heads_kv > 1 ? 1 << 17 : 1,
      }},
      .ready = ready ? add_array(c, READY, ATTNPRESS_READY_ORDER + 2 * c->count) : NULL,
      .sequence_splits = split_units ? (int32_t *)c->data[SPLITS] : NULL,
      .split_keys =
          split_units ? c->fixed_blocks * c->kernel->tile.field[AP_ATTENTION_TILE_BLOCK_N] : 0,
      .window = split_units && c->args.mask == ATTNPRESS_WINDOW,
      .score = fwd->score,
  };
  if (shares) {
    fwd->row_blocks = ceil_div(fwd->seqlen_q, positions);
  } else {
    fwd->q = NULL;
    fwd->q_batch_stride = fwd->q_row_stride = fwd->q_head_stride = -1;
  }
  if (!shares &&
      (c->ragged.page_table == NULL || args->box_rows > 0)) { /* else they are gathered */
    fwd->k = fwd->v = NULL;
    fwd->k_batch_stride = fwd->k_row_stride = fwd->k_head_stride = -1;
    fwd->v_batch_stride = fwd->v_row_stride = fwd->v_head_stride = -1;
  }
  c->whole = 1;
  c->given_count = 0;
  if (shares) { /* whose units have no order */
    args->ticket = NULL;
  } else if (ready) {
    if (make_ready(&others->schedule, c, &orders, row->contents, report) != 0)
      return -1;
    args->ready = row->contents == READY_NONE ? NULL : orders.ready;
    args->sequence_splits = orders.sequence_splits;
    args->walk_bytes = orders.order[0].walk_bytes;
    args->sharing = orders.order[0].sharing;
    *args->ticket = 0;
    args->ticket = row->no_tickets ? NULL : args->ticket;
  } else {
    give_written(c, "the ticket", TICKET, 1);
    give_written(c, "first_unit", FIRST_UNIT, 1);
    give_written(c, "the sequences' order", ORDER, 1);
    if (split_units)
      give_written(c, "sequence_splits", SPLITS, 1);
    give_lengths(c, 1);
    if (launch(&others->schedule, ap_schedule_parts(c->count), &orders, call_schedule, c, report) !=
            0 ||
        check_order(c, &orders, &orders.order[0], report) != 0)
      return -1;
  }
  give_all(c, split_units ? c->splits : 0, ATTENDS);
  if (c->splits == 1 && !shares)
    give_written(c, "what is kept", OUT_PARTIAL, 1);
  if (ready) {
    give_written(c, "the schedule", READY, 0);
    if (split_units)
      give_written(c, "sequence_splits", SPLITS, 1);
  } else {
    give_written(c, "first_unit", FIRST_UNIT, 0);
    give_written(c, "the sequences' order", ORDER, 0);
  }
  give_written(c, "the ticket", TICKET, 1);
  const unsigned blocks =
      shares ? (unsigned)(tile_heads * fwd->row_blocks * c->count) * shared_cluster(c)
             : scheduled_blocks(row);
  const int status = launch(c->kernel, blocks, &with_mod,
                            c->kernel->mod != NULL ? call_sm90_mod : call_sm90, c, report);
  if (status != 0 || !split_units)
    return status;
  return launch_combine(others, c, fwd, &args->ragged, orders.sequence_splits, NULL, report);
}

/* ---- New keys -------------------------------------------------------------------------------- */

/* What a kernel that appends is given, beside a call whose cache has the new keys already: these are
 * turned back by their rotation, and are NaN in the cache. All turns are quarters, which are exact. */
typedef struct appending {
  attnpress_fwd_runs_append_args args;
  unsigned char *kept[2]; /* K and V as they were, and are to be again */
} appending;

static int quarters(int position, int pair) {
  return (position * 5 + pair * 3) & 3;
}

/* The row that is `row` once it is rotated. */
static void turn_back(const attnpress_append_write_args *a, int rotary_dim, int position,
                      const uint16_t *row, int columns, uint16_t *to) {
  memcpy(to, row, (size_t)columns * sizeof *to);
  for (int pair = 0; pair < rotary_dim / 2; ++pair) {
    const int x = a->interleaved ? 2 * pair : pair;
    const int y = a->interleaved ? x + 1 : pair + rotary_dim / 2;
    const int turn = quarters(position, pair), sign = 0x8000;
    to[x] =
        (uint16_t)(turn % 2 ? row[y] ^ (turn == 3 ? sign : 0) : row[x] ^ (turn == 2 ? sign : 0));
    to[y] =
        (uint16_t)(turn % 2 ? row[x] ^ (turn == 1 ? sign : 0) : row[y] ^ (turn == 2 ? sign : 0));
  }
}

static void add_rotary(call *c, attnpress_append_write_args *a, int rotary_dim, int kind) {
  static const int cos[] = {1, 0, -1, 0}, sin[] = {0, 1, 0, -1};
  const int bf16 = c->kernel->variant.axis[AP_ATTENTION_DTYPE] == ATTNPRESS_BF16;
  const int half = rotary_dim / 2, size = kind & 1 ? 4 : 2;
  a->rotary_fp32 = kind & 1;
  a->interleaved = kind >> 1 & 1;
  a->rotary_stride = half + 2 * (kind & 4);
  for (int which = 0; which < 2; ++which) {
    unsigned char *table =
        add_memory(c, COS + which, (size_t)(a->num_positions * a->rotary_stride) * (size_t)size);
    for (int i = 0; i < a->num_positions * half; ++i) {
      const int position = i / half, pair = i % half;
      const float value = (float)(which ? sin : cos)[quarters(position, pair)];
      const uint16_t one = bf16 ? 0x3f80 : 0x3c00;
      const uint16_t bits = value == 0.0f ? 0 : (uint16_t)(value < 0.0f ? one | 0x8000 : one);
      unsigned char *at = table + (position * a->rotary_stride + pair) * size;
      memcpy(at, size == 4 ? (const void *)&value : (const void *)&bits, (size_t)size);
    }
  }
  a->cos = c->data[COS];
  a->sin = c->data[SIN];
}

/* The new row of a sequence in K or V, whose place in the cache becomes NaN; where there is none, it is
 * made up. */
static void take_new_row(call *c, appending *to, int b, int of_v, int position, int placed) {
  const sequence_rows rows = sequence_rows_of(&c->args, b);
  const attnpress_tensor *t = of_v ? &c->args.v : &c->args.k;
  const attnpress_append_rows *fresh =
      &to->args.append.rows[of_v ? ATTNPRESS_APPEND_V : ATTNPRESS_APPEND_K];
  int64_t page, at;
  sequence_key_place(&c->args, &rows, rows.k_begin + rows.keys - 1, of_v, &page, &at);
  for (int64_t h = 0; h < t->shape[2] && page >= 0 && page < t->shape[0]; ++h) {
    uint16_t *row =
        (uint16_t *)t->data + page * t->stride[0] + at * t->stride[1] + h * t->stride[2];
    uint16_t *out =
        (uint16_t *)c->data[of_v ? V_NEW : K_NEW] + b * fresh->from_batch + h * fresh->from_head;
    turn_back(&to->args.append, fresh->rotary_dim, position, row, (int)t->shape[3], out);
    if (placed)
      memset(row, 0xff, (size_t)t->shape[3] * sizeof *row);
  }
}

/* `kind`: of rotations; -1: none. */
static void open_appending(call *c, const attnpress_fwd_runs_args *runs, int kind, appending *to) {
  const attnpress_tensor *q = &c->args.q, *k = &c->args.k, *v = &c->args.v;
  const int64_t heads = k->shape[2], columns = k->shape[3], step = columns + 4;
  attnpress_append_write_args *a = &to->args.append;
  int longest_keys = 0;
  *to = (appending){.args.runs = *runs};
  for (int b = 0; b < c->count; ++b) {
    const int keys = (int)sequence_rows_of(&c->args, b).keys;
    longest_keys = keys > longest_keys ? keys : longest_keys;
  }
  /* Of one kind the longest sequence's new key has no rows of cos and sin. */
  const int rotary_dim = kind < 0 ? 0 : kind & 2 && !(kind & 4) ? (int)columns / 4 : (int)columns;
  a->num_positions = kind < 0 ? 0 : longest_keys - (kind == 5) > 0 ? longest_keys - (kind == 5) : 1;
  a->entries = (int32_t)k->shape[0];
  a->entry_rows = (int32_t)k->shape[1];
  if (kind >= 0)
    add_rotary(c, a, rotary_dim, kind);
  for (int i = 0; i < 2; ++i) {
    const attnpress_tensor *t = i ? v : k;
    const size_t bytes = c->bytes[K + i];
    add_memory(c, K_NEW + i, (size_t)(c->count * heads * step) * sizeof(uint16_t));
    a->rows[ATTNPRESS_APPEND_K + i] = (attnpress_append_rows){.from = c->data[K_NEW + i],
                                                              .to = t->data,
                                                              .from_batch = heads * step,
                                                              .from_head = step,
                                                              .to_batch = t->stride[0],
                                                              .to_row = t->stride[1],
                                                              .to_head = t->stride[2],
                                                              .head_dim = (int32_t)columns,
                                                              .rotary_dim = i ? 0 : rotary_dim};
    if (bytes > 0 && (to->kept[i] = malloc(bytes)) == NULL)
      abort();
    if (bytes > 0)
      memcpy(to->kept[i], c->data[K + i], bytes);
  }
  add_memory(c, Q_NEW, c->bytes[Q]);
  memcpy(c->data[Q_NEW], c->data[Q], c->bytes[Q]);
  to->args.runs.batch.fwd.q = c->data[Q_NEW];
  for (int b = 0; b < c->count; ++b) {
    const int keys = (int)sequence_rows_of(&c->args, b).keys;
    const int there = a->num_positions == 0 || keys <= a->num_positions;
    if (keys == 0)
      continue;
    take_new_row(c, to, b, 0, keys - 1, there);
    take_new_row(c, to, b, 1, keys - 1, there);
    for (int64_t h = 0; h < q->shape[2] && there; ++h) {
      const int64_t at = b * q->stride[0] + h * q->stride[2];
      turn_back(a, rotary_dim, keys - 1, (uint16_t *)q->data + at, (int)columns,
                (uint16_t *)c->data[Q_NEW] + at);
    }
  }
}

static void give_new(call *c, const appending *a) {
  const attnpress_append_write_args *append = &a->args.append;
  const int64_t size = append->rotary_fp32 ? 4 : 2;
  for (int i = K_NEW; i <= SIN; ++i)
    if (i != Q_NEW && c->bytes[i] > 0)
      *next_given(c) =
          (emulated_tensor){.name = i < Q_NEW ? "a new row" : "cos or sin",
                            .data = c->data[i],
                            .element_bytes = (int)(i < Q_NEW ? 2 : size),
                            .shape = {1, 1, 1, (int64_t)c->bytes[i] / (i < Q_NEW ? 2 : size)},
                            .stride = {0, 0, 0, 1}};
}

/* `status`: of the launch; then that of all. */
static int close_appending(call *c, appending *a, int status, char *report) {
  for (int i = 0; i < 2; ++i) {
    if (status == 0 && c->bytes[K + i] > 0 &&
        memcmp(a->kept[i], c->data[K + i], c->bytes[K + i]) != 0) {
      snprintf(report, EMULATED_REPORT_BYTES, "%s does not have the new rows, or has others",
               i ? "v" : "k");
      status = -1;
    }
    free(a->kept[i]);
  }
  return status;
}

static void call_appending(void (*function)(void), const void *args) {
  ((void (*)(attnpress_fwd_runs_append_args))function)(
      *(const attnpress_fwd_runs_append_args *)args);
}

/* As many parts as the row's splits would be. Counts begin as anything, and are none afterwards. */
static int launch_runs(const companions *others, call *c, const attnpress_fwd_ragged_args *batch,
                       const batch_row *row, char *report) {
  const int shares = shares_keys(c->kernel);
  const int adds = shares || c->args.q.shape[3] >= AP_ATTENTION_RUNS_ADDING_COLUMNS;
  const int most = c->splits * c->count / 2, runs = c->splits == 2 && most > 2 ? 2 : most;
  const int least = row->split_blocks > 0 ? row->split_blocks : 1;
  const attnpress_fwd_args *fwd = &batch->fwd;
  const int parts = fwd->row_blocks * (fwd->heads_q / fwd->heads_per_tile) * runs;
  const int blocks = shares ? parts / AP_ATTENTION_RUNS_HEADS : parts;
  uint64_t *counts = add_memory(c, SPLITS, (size_t)parts * sizeof *counts);
  for (int i = 0; i < parts && adds; ++i) /* as they were, none, and nearly one */
    counts[i] = i % 3 == 0   ? UINT64_MAX
                : i % 3 == 1 ? 0
                             : ATTNPRESS_RUNS_COUNT - (UINT64_C(1) << 12) + 1;
  const attnpress_fwd_runs_args args = {
      .batch = *batch,
      .cuts = adds ? NULL : (int32_t *)counts,
      .counts = adds ? counts : NULL,
      .runs = runs,
      .sequence_cost = 1 + row->split_blocks % 2,
      .least_cost = least,
      .least_blocks = least,
  };
  const int appends = c->kernel->variant.axis[AP_ATTENTION_APPEND];
  static appending new_keys;
  const attnpress_tensor q = c->args.q;
  if (appends) {
    open_appending(c, &args, row->rotation, &new_keys);
    c->args.q.data = c->data[Q_NEW];
  }
  give_all(c, c->splits, ATTENDS);
  c->args.q = q;
  give_written(c, adds ? "counts" : "cuts", SPLITS, 1);
  if (appends)
    give_new(c, &new_keys);
  int status = blocks == 0 ? 0
                           : launch(c->kernel, (unsigned)blocks,
                                    appends ? (const void *)&new_keys.args : (const void *)&args,
                                    appends ? call_appending : call_runs, c, report);
  if (appends)
    status = close_appending(c, &new_keys, status, report);
  if (blocks == 0 || status != 0)
    return status;
  if (!adds)
    return launch_combine(others, c, fwd, &batch->ragged, NULL, &args, report);
  for (int i = 0; i < parts; ++i)
    if (counts[i] >> 12 == ATTNPRESS_RUNS_COUNT >> 12) {
      snprintf(report, EMULATED_REPORT_BYTES, "count %d is left", i);
      return -1;
    }
  return 0;
}

static int launch_all(const companions *others, call *c, const batch_row *row, char *report) {
  if (c->kernel->tile.field[AP_ATTENTION_TILE_PRODUCER] && !shares_keys(c->kernel))
    return launch_sm90(others, c, row, report);
  attnpress_fwd_ragged_mod_args args = {.batch = fwd_args(c, row)};
  const attnpress_fwd_args *fwd = &args.batch.fwd;
  if (c->kernel->mod != NULL)
    ap_score_mod_fill(&c->args, NULL, &args.mod);
  if (c->kernel->variant.axis[AP_ATTENTION_RUNS])
    return launch_runs(others, c, &args.batch, row, report);
  give_all(c, c->splits, ATTENDS);
  const unsigned blocks = (unsigned)(fwd->row_blocks * fwd->num_splits * fwd->batch *
                                     (fwd->heads_q / fwd->heads_per_tile));
  if (blocks == 0 || launch(c->kernel, blocks, &args,
                            c->kernel->mod != NULL ? call_fwd_mod : call_fwd, c, report) != 0)
    return blocks == 0 ? 0 : -1;
  if (c->splits == 0)
    return 0;
  return launch_combine(others, c, fwd, &args.batch.ragged, NULL, NULL, report);
}

/* ---- Verdicts -------------------------------------------------------------------------------- */

/* Every sequence against its own dense call. What was checked becomes NaN again. */
static int check_sequence(call *c, int b, verdict *v) {
  const sequence_rows rows = sequence_rows_of(&c->args, b);
  sequence one;
  reference r;
  if (sequence_open(&one, &c->args, b) != 0 || reference_init(&r, &one.args) != 0)
    abort();
  for (int64_t h = 0; h < c->args.q.shape[2]; ++h)
    for (int64_t i = 0; i < rows.queries; ++i) {
      if (b != c->unspecified)
        reference_check_row(&r, b, i, h, &v->error);
      const attnpress_tensor *out = &c->args.out;
      memset((uint16_t *)out->data + rows.q_batch * out->stride[0] +
                 (rows.q_begin + i) * out->stride[1] + h * out->stride[2],
             0xff, (size_t)out->shape[3] * sizeof(uint16_t));
      if (c->args.lse)
        memset(c->args.lse + sequence_lse_at(&c->args, &rows, b, h, i), 0xff, sizeof(float));
    }
  reference_free(&r);
  sequence_close(&one);
  return 0;
}

static int is_untouched(const call *c, int which) {
  for (size_t i = 0; i < c->bytes[which]; ++i)
    if (c->data[which][i] != 0xff)
      return 0;
  return 1;
}

static void judge(call *c, verdict *v) {
  for (int b = 0; b < c->count; ++b)
    check_sequence(c, b, v);
  const reference_error *e = &v->error;
  if (!is_untouched(c, OUT) || !is_untouched(c, LSE))
    snprintf(v->report, sizeof v->report, "rows of no sequence were written in %s",
             is_untouched(c, OUT) ? "lse" : "out");
  else if (e->elements >= REFERENCE_MIN_ELEMENTS && !(e->out <= reference_bound(e)))
    snprintf(v->report, sizeof v->report,
             "out is off by %.3g, where %.3g is allowed: sequence %lld, query %lld, head %lld, "
             "column %lld is %.6g, expected %.6g",
             e->out, reference_bound(e), (long long)e->at[0], (long long)e->at[1],
             (long long)e->at[2], (long long)e->at[3], e->value, e->expected);
  else if (e->elements >= REFERENCE_MIN_ELEMENTS && !(e->lse <= reference_lse_bound(e)))
    snprintf(v->report, sizeof v->report,
             "lse is off by %.3g: sequence %lld, query %lld, head %lld is %.9g, expected %.9g",
             e->lse, (long long)e->lse_at[0], (long long)e->lse_at[1], (long long)e->lse_at[2],
             e->lse_value, e->lse_expected);
  else
    v->passed = 1;
}

enum { CHUNK_HEADS = 2, CHUNK_ROWS = 24 };

/* Of each row of the sequences that a batch has chunks of, by (sequence, query, head): a hash of its
 * output and lse. */
static void keep_row_bits(const call *c, const chunks *of, uint64_t *row_bits) {
  for (int b = 0; b < c->count; ++b) {
    const sequence_rows rows = sequence_rows_of(&c->args, b);
    for (int64_t i = 0; i < rows.queries; ++i)
      for (int64_t h = 0; h < CHUNK_HEADS; ++h) {
        const attnpress_tensor *out = &c->args.out;
        const uint16_t *row = (const uint16_t *)out->data + rows.q_batch * out->stride[0] +
                              (rows.q_begin + i) * out->stride[1] + h * out->stride[2];
        uint64_t bits = 1;
        for (int64_t d = 0; d < out->shape[3]; ++d)
          bits = bits * 1099511628211u + row[d];
        if (c->args.lse != NULL) {
          uint32_t lse;
          memcpy(&lse, c->args.lse + sequence_lse_at(&c->args, &rows, b, h, i), sizeof lse);
          bits = bits * 1099511628211u + lse;
        }
        row_bits[(of->sequence[b] * CHUNK_ROWS + of->first[b] + i) * CHUNK_HEADS + h] = bits;
      }
  }
}

static uint64_t bits_of(const call *c, int which) {
  uint64_t bits = 0;
  for (size_t i = 0; i < c->bytes[which]; ++i)
    bits = bits * 1099511628211u + c->data[which][i];
  return bits;
}

/* `of`: what the sequences are of others, or NULL; `row_bits`: as keep_row_bits(), or NULL. */
static void run_batch(const kernel *k, const companions *others, const batch_row *row,
                      const int *queries, const int *keys, const chunks *of, uint64_t *row_bits,
                      const score_shape *scores, uint64_t seed, verdict *v) {
  static call c;
  const int split = k->variant.axis[AP_ATTENTION_SPLIT];
  memset(&c, 0, sizeof c);
  v->passed = 0;
  c.kernel = k;
  c.count = row->count;
  c.splits = split ? row->splits : 0;
  c.split_blocks = row->split_blocks;
  c.fixed_blocks = split ? row->fixed_blocks : 0;
  if (shares_splits(k)) {
    const int blocks =
        ceil_div(longest(keys, row->count), k->tile.field[AP_ATTENTION_TILE_BLOCK_N]);
    const int least = ceil_div(blocks, k->tile.field[AP_ATTENTION_TILE_STAGES]);
    const int some = blocks > cluster_splits(k) ? cluster_splits(k) : 2;
    c.splits = blocks <= 1 ? 1 : some > least ? some : least;
    c.fixed_blocks = blocks > c.splits ? ceil_div(blocks, c.splits) : 1;
  }
  c.unspecified = -1;
  c.args = (attnpress_forward_args)ATTNPRESS_FORWARD_ARGS_INIT;
  c.args.mask = k->variant.axis[AP_ATTENTION_MASK];
  c.args.scale = row->scale;
  if (shares_keys(k) && row->split_blocks == 3) /* some whose references move */
    c.args.scale = 1.0f;
  c.ragged = (attnpress_ragged)ATTNPRESS_RAGGED_INIT;
  c.ragged.batch = row->count;
  c.ragged.max_seqlen_q = longest(queries, row->count) + (row->count % 2 ? 19 : 0);
  c.ragged.max_seqlen_k = longest(keys, row->count) + (row->count % 2 ? 0 : 70);
  /* With a bias, or splits at fixed places, a sequence with more keys than the bound has none. A call
   * with a snippet is never batch-invariant, though its kernels know such splits. */
  c.args.batch_invariant = c.fixed_blocks > 0 && k->mod == NULL;
  if (row->wrong == LENGTHS &&
      (k->variant.axis[AP_ATTENTION_BIAS] != AP_ATTENTION_BIAS_NONE || c.args.batch_invariant))
    c.ragged.max_seqlen_k = longest(keys, row->count) - 1;
  c.args.ragged = &c.ragged;
  add_queries(&c, row, queries);
  add_keys(&c, row, keys);
  add_lse(&c, row);
  spoil(&c, row);
  scores_open(&c.scores, &k->variant, scores, k->mod, &c.args, seed + 7);
  fill(&c, of, seed);
  const int parts = split && !shares_splits(k);
  if (parts && k->tile.field[AP_ATTENTION_TILE_PRODUCER] && c.splits == 1) {
    add_memory(&c, OUT_PARTIAL, kept_bytes(k, row));
  } else if (parts) {
    const size_t rows = (size_t)rows_of_parts(&c, c.splits);
    add_memory(&c, OUT_PARTIAL, rows * (size_t)c.args.out.shape[3] * sizeof(float));
    add_memory(&c, LSE_PARTIAL, rows * sizeof(float) * (size_t)lse_copies(&c));
  }
  ap_problem problem;
  const ap_check how = {ATTNPRESS_CUDA, 1, ATTNPRESS_ONE_CALL};
  if (ap_validate_forward(&c.args, how, &problem) != ATTNPRESS_OK)
    snprintf(v->report, sizeof v->report, "%s", attnpress_last_error());
  else if (launch_all(others, &c, row, v->report) == 0) {
    v->bits = bits_of(&c, OUT) * 31 + bits_of(&c, LSE);
    if (row_bits != NULL)
      keep_row_bits(&c, of, row_bits);
    judge(&c, v);
  }
  scores_close(&c.scores);
  for (int i = 0; i < TENSORS; ++i)
    memory_unmap(&c.memory[i]);
}

/* ---- The table ------------------------------------------------------------------------------- */

static int may_pack(const kernel *k, int group) {
  return !k->variant.axis[AP_ATTENTION_DROPOUT] &&
         (!k->tile.field[AP_ATTENTION_TILE_PRODUCER] || group <= ap_consumer_rows(&k->tile));
}

static void print_failure(FILE *out, const kernel *k, int i, const verdict *v) {
  fprintf(out, "FAILED %s\n  ragged batch %d\n  %s\n", k->stem, i, v->report);
}

static int may_fix_splits(const kernel *k) {
  return k->variant.axis[AP_ATTENTION_SPLIT] &&
         (!k->variant.axis[AP_ATTENTION_DECODE] || k->tile.field[AP_ATTENTION_TILE_PRODUCER]) &&
         !shares_keys(k);
}

/* Kernels whose splits lie at fixed places alone. */
static int has_fixed_splits_alone(const kernel *k) {
  return k->variant.axis[AP_ATTENTION_SPLIT] && k->tile.field[AP_ATTENTION_TILE_PRODUCER] &&
         !shares_keys(k);
}

/* Splits at fixed places: the same bits, whether thread blocks compute one each or all of their rows,
 * if they do, and whichever heads share their tiles. */
static void run_fixed(const kernel *k, const companions *others, const batch_row *row,
                      const int *queries, const int *keys, const score_shape *scores, uint64_t seed,
                      verdict *v) {
  batch_row fixed = *row;
  uint64_t bits = 0;
  fixed.fixed_blocks = row->splits % 2 + 1;
  for (int all = 0; all < (has_parts_alone(k) ? 1 : 2); ++all) {
    const int span = fixed.fixed_blocks * k->tile.field[AP_ATTENTION_TILE_BLOCK_N];
    fixed.splits = all ? 1 : ceil_div(longest(keys, row->count), span);
    if (has_parts_alone(k) && fixed.splits < 2)
      fixed.splits = 2; /* as its calls have, by their bound */
    fixed.packed = (row->packed ^ all) && row->group > 1 && may_pack(k, row->group);
    *v = (verdict){0};
    run_batch(k, others, &fixed, queries, keys, NULL, NULL, scores, seed, v);
    if (!v->passed)
      return;
    if (all && v->bits != bits && row->wrong != INDICES) {
      v->passed = 0;
      snprintf(v->report, sizeof v->report, "%d splits of %d key blocks give other bits than one",
               (int)ceil_div(longest(keys, row->count), span), fixed.fixed_blocks);
    }
    bits = v->bits;
  }
}

/* A sequence in a batch, alone, and in chunks of `rows` queries, 0: of all: each row has the same bits. */
static void run_chunks(const kernel *k, const companions *others, const score_shape *scores,
                       uint64_t seed, verdict *v) {
  enum { SEQUENCES = 3, QUERIES = CHUNK_ROWS };
  static uint64_t bits[2][SEQUENCES * QUERIES * CHUNK_HEADS];
  static const struct {
    int rows, alone, packed, all;
  } calls[] = {{0, 0, 0, 1}, {0, 1, 1, 0}, {7, 0, 1, 1}, {1, 0, 1, 0}, {7, 1, 0, 0}};
  const int block_n = k->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  const int queries[SEQUENCES] = {3, QUERIES, 1}, keys[SEQUENCES] = {9, 2 * block_n + 61, block_n};
  const int window = k->variant.axis[AP_ATTENTION_MASK] == ATTNPRESS_WINDOW;
  const int causal = k->variant.axis[AP_ATTENTION_MASK] == ATTNPRESS_CAUSAL;
  for (int i = 0; i < COUNT(calls); ++i) {
    int count = 0, part_queries[RAGGED_SEQUENCES_MAX], part_keys[RAGGED_SEQUENCES_MAX];
    chunks of;
    if (calls[i].rows > 0 && window)
      continue; /* whose rows see keys behind their chunk */
    for (int b = calls[i].alone; b < (calls[i].alone ? 2 : SEQUENCES); ++b)
      for (int first = 0, rows; first < queries[b]; first += rows, ++count) {
        rows = calls[i].rows > 0 ? calls[i].rows : queries[b];
        if (rows > queries[b] - first)
          rows = queries[b] - first;
        of.sequence[count] = b;
        of.first[count] = first;
        part_queries[count] = rows;
        part_keys[count] = keys[b] - (causal ? queries[b] - first - rows : 0);
      }
    const batch_row row = {.count = count,
                           .queries_packed = 1,
                           .keys = k->variant.axis[AP_ATTENTION_SEQUENCES] ==
                                           AP_ATTENTION_SEQUENCES_PAGED
                                       ? KEYS_PAGED
                                       : KEYS_PACKED,
                           .page_size = i % 2 ? 1 : 64, /* gathered, and in boxes */
                           .heads_kv = 1,
                           .group = CHUNK_HEADS,
                           .packed = calls[i].packed && may_pack(k, CHUNK_HEADS),
                           .splits = calls[i].all ? 1 : ceil_div(keys[1], block_n),
                           .fixed_blocks = 1};
    *v = (verdict){0};
    memset(bits[i > 0], 0, sizeof bits[0]);
    run_batch(k, others, &row, part_queries, part_keys, &of, bits[i > 0], scores, seed, v);
    if (!v->passed)
      return;
    for (int n = 0; i > 0 && n < COUNT(bits[0]); ++n)
      if (bits[1][n] != 0 && bits[1][n] != bits[0][n]) {
        v->passed = 0;
        snprintf(v->report, sizeof v->report,
                 "query %d of sequence %d, head %d, has other bits %s, in chunks of %d rows, %s",
                 n / CHUNK_HEADS % QUERIES, n / CHUNK_HEADS / QUERIES, n % CHUNK_HEADS,
                 calls[i].alone ? "alone" : "in a batch", calls[i].rows,
                 calls[i].all ? "splits added up" : "a split each");
        return;
      }
  }
}

/* More sequences than a warp has lanes, with all contents of a ready schedule; most have no tile of
 * their own, and some no query or no key. */
static void run_many(const kernel *k, const companions *others, const score_shape *scores,
                     verdict *v) {
  enum { SEQUENCES = 61 };
  const int paged = k->variant.axis[AP_ATTENTION_SEQUENCES] == AP_ATTENTION_SEQUENCES_PAGED;
  const int split = k->variant.axis[AP_ATTENTION_SPLIT];
  int queries[SEQUENCES], keys[SEQUENCES];
  for (int i = 0; i < SEQUENCES; ++i) {
    queries[i] = i % 9 == 4 ? 0 : 1 + i % 3;
    keys[i] = i % 7 == 5 ? 0 : 1 + i * 31 % 90;
  }
  for (int i = 0; i < READY_CONTENTS; ++i) {
    const batch_row row = {.count = SEQUENCES,
                           .queries_packed = 1,
                           .keys = paged ? KEYS_PAGED : KEYS_PACKED,
                           .page_size = 16,
                           .heads_kv = 1,
                           .group = 2,
                           .packed = i % 2 && may_pack(k, 2),
                           .splits = split && (i % 2 || has_parts_alone(k)) ? 2 : 1,
                           .fixed_blocks = split,
                           .contents = (ready_contents)i,
                           .no_tickets = i % 3 == 1};
    *v = (verdict){0};
    run_batch(k, others, &row, queries, keys, NULL, NULL, scores, 5, v);
    if (!v->passed)
      return;
  }
}

/* Sequences of which the device knows a number of keys each and nothing else, most of them fewer than
 * there is room for: one, whose units some kernels find in a way of its own, and a few. */
static void run_key_counts(const kernel *k, const companions *others, const score_shape *scores,
                           verdict *v) {
  const int paged = k->variant.axis[AP_ATTENTION_SEQUENCES] == AP_ATTENTION_SEQUENCES_PAGED;
  const int block_n = k->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  const struct {
    int count, queries, keys[5];
  } calls[] = {{1, 1, {2 * block_n + 61}},
               {2, 3, {0, 9}},
               {1, 2, {3 * block_n}},
               {1, 1, {2 * block_n + 70}},
               {3, 2, {block_n, 7, 2 * block_n + 9}},
               {1, 1, {11 * block_n + 5}}, /* more units of a thread block than places for them */
               {1, 3, {2 * block_n}},
               {1, 1, {4 * block_n + 9}},
               {1, 1, {5}},
               {5, 1, {3 * block_n, 0, block_n + 9, block_n + 9, 4 * block_n + 1}},
               {1, 2, {block_n}},
               {4, 1, {2 * block_n, block_n + 9, 3 * block_n - 1, 5}}};
  for (int i = 0; i < COUNT(calls); ++i) {
    const int most = shares_keys(k) ? AP_ATTENTION_FEW_ROWS / 4 : INT_MAX; /* of 4 heads */
    const int of_each = calls[i].queries < most ? calls[i].queries : most;
    const int queries[5] = {of_each, of_each, of_each, of_each, of_each};
    int keys[5];
    for (int b = 0; b < calls[i].count; ++b)
      keys[b] = calls[i].keys[b] < keys_at_most(k) ? calls[i].keys[b] : keys_at_most(k);
    const batch_row row = {.count = calls[i].count,
                           .queries_packed = -1,
                           .keys = paged ? KEYS_PAGED_USED : KEYS_CACHED,
                           .page_size = i % 2 && k->variant.axis[AP_ATTENTION_ARCH] == 90 ? 5 : 16,
                           .heads_kv = shares_keys(k) ? 2 * AP_ATTENTION_RUNS_HEADS : 2,
                           .group = 4,
                           .packed = may_pack(k, 4),
                           .splits = k->variant.axis[AP_ATTENTION_SPLIT] ? 3 : 1,
                           .contents = READY_NONE,
                           .no_tickets = 1,
                           /* a unit each, and none, or several */
                           .blocks = i % 4 < 3 ? 0 : 8};
    *v = (verdict){.passed = 1};
    if (!has_fixed_splits_alone(k))
      run_batch(k, others, &row, queries, keys, NULL, NULL, scores, 9, v);
    if (v->passed && may_fix_splits(k))
      run_fixed(k, others, &row, queries, keys, scores, 9, v);
    if (!v->passed)
      return;
  }
}

/* Runs that end one sequence and begin another, or lie in one; more sequences than a warp has lanes. */
static void run_long_runs(const kernel *k, const companions *others, const score_shape *scores,
                          verdict *v) {
  enum { MANY = 38 };
  const int block_n = k->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  const int paged = k->variant.axis[AP_ATTENTION_SEQUENCES] == AP_ATTENTION_SEQUENCES_PAGED;
  const int long_keys[] = {5 * block_n - 3, 3 * block_n, 10 * block_n - 2, 0, 4 * block_n};
  int queries[MANY], keys[MANY];
  static const struct {
    int many, splits, split_blocks;
  } calls[] = {{0, 3, 0}, {0, 3, 2}, {0, 6, 0}, {0, 4, 2}, {0, 5, 3}, {1, 3, 1}};
  for (int i = 0; i < COUNT(calls) && v->passed; ++i) {
    const int many = calls[i].many, count = many ? MANY : COUNT(long_keys);
    for (int b = 0; b < count; ++b) {
      queries[b] = 1;
      keys[b] = many ? 2 + b * b % 50 : long_keys[b] + 2;
    }
    const batch_row row = {.count = count,
                           .queries_packed = -1,
                           .keys = paged ? KEYS_PAGED_USED : KEYS_CACHED,
                           .page_size = 16,
                           .heads_kv = shares_keys(k) ? AP_ATTENTION_RUNS_HEADS : 3,
                           .group = 4,
                           .packed = may_pack(k, 4),
                           .splits = calls[i].splits,
                           .split_blocks = calls[i].split_blocks,
                           .appended = 2,
                           .contents = READY_NONE,
                           .no_tickets = 1};
    *v = (verdict){.passed = 1};
    run_batch(k, others, &row, queries, keys, NULL, NULL, scores, 11, v);
  }
}

/* One query and one new key a sequence, which the kernel writes: each rotation, place of the keys and
 * number of runs; lengths that are not there, pages that are not, and keys without a position. */
static void run_appending(const kernel *k, const companions *others, const score_shape *scores,
                          verdict *v) {
  enum { MANY = 38, ROTATIONS = 8 };
  const int block_n = k->tile.field[AP_ATTENTION_TILE_BLOCK_N];
  const int paged = k->variant.axis[AP_ATTENTION_SEQUENCES] == AP_ATTENTION_SEQUENCES_PAGED;
  const int long_keys[] = {5 * block_n - 2, 3 * block_n + 1, 2 * block_n, 1, block_n + 30};
  int queries[MANY], keys[MANY];
  for (int i = 0; i <= 2 * ROTATIONS && v->passed; ++i) {
    const int many = i == ROTATIONS, count = many ? MANY : COUNT(long_keys);
    for (int b = 0; b < count; ++b) {
      queries[b] = 1;
      keys[b] = many ? 1 + b * b % 50 : long_keys[b];
    }
    const batch_row row = {.count = count,
                           .queries_packed = -1,
                           .keys = paged ? KEYS_PAGED_USED : KEYS_CACHED,
                           .page_size = i % 2 ? 3 : 16,
                           .heads_kv = 2,
                           .group = i % 3 == 2 ? 1 : 4,
                           .packed = i % 3 != 2,
                           .splits = 2 + i % 5,
                           .split_blocks = i % 3,
                           .appended = 1,
                           .wrong = i == 5            ? LENGTHS
                                    : i == 6 && paged ? INDICES
                                                      : NOTHING,
                           .keys_order = (key_order)(i % KEYS_JOINED),
                           .contents = READY_NONE,
                           .no_tickets = 1,
                           .rotation = i % (ROTATIONS + 1) - 1,
                           .v_pages = i % 4 == 3};
    *v = (verdict){.passed = 1};
    run_batch(k, others, &row, queries, keys, NULL, NULL, scores, 13, v);
  }
}

int run_ragged_shapes(const kernel *k, const companions *others, const score_shape *scores,
                      FILE *out, int *shapes) {
  static verdict v;
  const int paged = k->variant.axis[AP_ATTENTION_SEQUENCES] == AP_ATTENTION_SEQUENCES_PAGED;
  if (k->variant.axis[AP_ATTENTION_APPEND]) {
    v = (verdict){.passed = 1};
    run_appending(k, others, &scores[0], &v);
    ++*shapes;
    if (!v.passed)
      print_failure(out, k, 0, &v);
    return !v.passed;
  }
  for (int i = 0; i < COUNT(batch_rows); ++i, ++*shapes) {
    batch_row row = batch_rows[i];
    int queries[LENGTHS_MAX], keys[LENGTHS_MAX];
    if (paged)
      row.keys = row.keys == KEYS_PACKED   ? KEYS_PAGED
                 : row.keys == KEYS_CACHED ? KEYS_PAGED_FLAT
                                           : KEYS_PAGED_CACHE;
    if (paged && k->variant.axis[AP_ATTENTION_ARCH] == 90)
      row.page_size = box_pages[i];
    row.keys_order = (key_order)((i + k->variant.axis[AP_ATTENTION_HDIM] / 64) % KEY_ORDERS);
    row.packed = row.packed && may_pack(k, row.group);
    row.contents = (ready_contents)(i % READY_CONTENTS);
    row.no_tickets = i % 2;
    if (shares_keys(k)) {
      row.heads_kv = (1 + i % 2) * AP_ATTENTION_RUNS_HEADS;
      row.packed = 1;
    }
    for (int b = 0; b < row.count; ++b) {
      queries[b] = row.q[b].tiles * k->tile.field[AP_ATTENTION_TILE_BLOCK_M] + row.q[b].more;
      if (shares_keys(k))
        queries[b] = (row.q[b].more & 15) % (AP_ATTENTION_FEW_ROWS / row.group + 1);
      keys[b] = row.k[b].tiles * k->tile.field[AP_ATTENTION_TILE_BLOCK_N] + row.k[b].more;
    }
    v = (verdict){0};
    v.passed = 1;
    if (!has_fixed_splits_alone(k))
      run_batch(k, others, &row, queries, keys, NULL, NULL, &scores[i], 1000u * (unsigned)i, &v);
    if (v.passed && may_fix_splits(k))
      run_fixed(k, others, &row, queries, keys, &scores[i], 1000u * (unsigned)i, &v);
    if (v.passed && paged && k->variant.axis[AP_ATTENTION_ARCH] == 90) {
      row.page_size = gathered_pages[i];
      if (has_fixed_splits_alone(k))
        run_fixed(k, others, &row, queries, keys, &scores[i], 1000u * (unsigned)i, &v);
      else
        run_batch(k, others, &row, queries, keys, NULL, NULL, &scores[i], 1000u * (unsigned)i, &v);
    }
    if (v.passed && has_fixed_splits_alone(k) && !has_parts_alone(k) && i == 0)
      run_chunks(k, others, &scores[i], 77, &v);
    if (v.passed && k->variant.axis[AP_ATTENTION_READY] && i == 0)
      run_many(k, others, &scores[i], &v);
    if (v.passed && i == 0)
      run_key_counts(k, others, &scores[i], &v);
    if (v.passed && k->variant.axis[AP_ATTENTION_RUNS] && i == 0)
      run_long_runs(k, others, &scores[i], &v);
    if (!v.passed) {
      print_failure(out, k, i, &v);
      return 1;
    }
  }
  return 0;
}

int run_many_splits(const kernel *k, const companions *others, const score_shape *scores, FILE *out,
                    int *shapes) {
  static verdict v;
  const int paged = k->variant.axis[AP_ATTENTION_SEQUENCES] == AP_ATTENTION_SEQUENCES_PAGED;
  const int splits = others->combine.module == NULL ? 32 : 34; /* few rows' kernel: its most */
  const int query = 2, keys = (splits - 1) * k->tile.field[AP_ATTENTION_TILE_BLOCK_N] + 5;
  const batch_row row = {.count = 1,
                         .queries_packed = -1,
                         .keys = paged ? KEYS_PAGED_USED : KEYS_CACHED,
                         .page_size = 16,
                         .heads_kv = 2,
                         .group = 4,
                         .packed = may_pack(k, 4),
                         .splits = 2,
                         .contents = READY_NONE,
                         .no_tickets = 1};
  ++*shapes;
  run_fixed(k, others, &row, &query, &keys, scores, 5, &v);
  if (!v.passed)
    print_failure(out, k, 0, &v);
  return !v.passed;
}

void run_ragged_batch(const kernel *k, const companions *others, const ragged_run *r,
                      const score_shape *scores, uint64_t seed, verdict *v) {
  int queries[RAGGED_SEQUENCES_MAX];
  const batch_row row = {.count = r->count,
                         .queries_packed = 1,
                         .keys = r->page_size == 0 ? KEYS_PACKED
                                 : r->flat_pages   ? KEYS_PAGED_FLAT
                                                   : KEYS_PAGED,
                         .page_size = r->page_size,
                         .heads_kv = r->heads_kv,
                         .group = r->group,
                         .packed = r->packed,
                         .splits = r->splits,
                         .fixed_blocks =
                             r->fixed_blocks > 0 ? r->fixed_blocks : has_fixed_splits_alone(k),
                         .contents = r->finds_sequences ? READY_NONE : READY_MADE,
                         .no_tickets = r->finds_sequences};
  for (int i = 0; i < r->count; ++i)
    queries[i] = r->seqlen_q > 0 ? r->seqlen_q : r->keys[i];
  run_batch(k, others, &row, queries, r->keys, NULL, NULL, scores, seed, v);
}

/* Batches that the schedule kernel has alone: parts of it that are whole, and that are not. */
static const struct {
  int count, paged, split_keys;
} schedule_rows[] = {
    {2500, 0, 0}, {2500, 1, 0}, {2500, 0, 96}, {1, 0, 0}, {31, 1, 128}, {1000, 0, 0}, {1025, 1, 64},
};
enum { SCHEDULED_MOST = 2500 };

/* Both orders of a batch, whose keys lie one after the other, or in pages; or, of units that are splits,
 * the order of rows alone, as there is none of keys then. */
static int run_schedule(const kernel *schedule, int number, FILE *out, int *shapes) {
  enum { LONGEST = 700, TABLE_STRIDE = 5, KEYS = 1 };
  static char report[EMULATED_REPORT_BYTES];
  static int lengths[SCHEDULED_MOST], keys[SCHEDULED_MOST];
  static call c;
  const int count = schedule_rows[number].count, paged = schedule_rows[number].paged,
            split_keys = schedule_rows[number].split_keys, orders = split_keys > 0 ? 1 : 2;
  int total, total_keys;
  memset(&c, 0, sizeof c);
  for (int i = 0; i < count; ++i)
    lengths[i] = i % 7 == 3 ? 0 : i * 7919 % LONGEST, keys[i] = i % 5 == 1 ? 0 : i * 6841 % LONGEST;
  c.count = count;
  c.args.ragged = &c.ragged;
  c.ragged.batch = count;
  c.ragged.cu_seqlens_q = add_sums(&c, CU_Q, lengths, 0, &total);
  c.ragged.cu_seqlens_k = add_sums(&c, CU_K, keys, 0, &total_keys);
  c.args.q.shape[0] = c.args.k.shape[0] = 1;
  c.args.q.shape[1] = total;
  c.args.k.shape[1] = total_keys;
  attnpress_fwd_schedule_args args = {
      .ragged = {.cu_seqlens_q = c.ragged.cu_seqlens_q,
                 .cu_seqlens_k = c.ragged.cu_seqlens_k,
                 .page_table = paged ? c.ragged.cu_seqlens_k : NULL, /* which is not read */
                 .page_table_stride = TABLE_STRIDE,
                 .rows_q = total,
                 .rows_k = total_keys,
                 .kv_batches = paged ? count : 1,
                 .most_keys = LONGEST},
      .ticket = add_memory(&c, TICKET, sizeof(uint32_t)),
      .batch = count,
      .seqlen_q = LONGEST,
  };
  ++*shapes;
  if (schedule->variant.axis[AP_ATTENTION_READY]) {
    args.ready = add_array(&c, READY, ATTNPRESS_READY_ORDER + 2 * count);
    const int failed = make_ready(schedule, &c, &args, READY_MADE, report) != 0;
    if (failed)
      fprintf(out, "FAILED %s\n  %d sequences: %s\n", schedule->stem, count, report);
    for (int i = 0; i < TENSORS; ++i)
      memory_unmap(&c.memory[i]);
    return failed;
  }
  int32_t *first_unit = add_array(&c, FIRST_UNIT, orders * (count + 1));
  attnpress_sequence_units *sequences =
      add_memory(&c, ORDER, (size_t)orders * (size_t)count * sizeof(attnpress_sequence_units));
  for (int i = 0; i < orders; ++i)
    args.order[i] = (attnpress_schedule_order){.first_unit = first_unit + i * (count + 1),
                                               .sequences = sequences + i * count,
                                               .by_keys = i == KEYS,
                                               .positions = i == KEYS ? 96 : 128,
                                               .heads = i == KEYS ? 2 : 8,
                                               .sharing = i == KEYS ? 1 : 4,
                                               .walk_bytes = 512};
  if (split_keys > 0) {
    args.sequence_splits = add_array(&c, SPLITS, count);
    args.split_keys = split_keys;
    give_written(&c, "sequence_splits", SPLITS, 1);
  }
  give_written(&c, "the ticket", TICKET, 1);
  give_written(&c, "first_unit", FIRST_UNIT, 1);
  give_written(&c, "the sequences' order", ORDER, 1);
  give_array(&c, "cu_seqlens_q", c.ragged.cu_seqlens_q, count + 1);
  give_array(&c, "cu_seqlens_k", c.ragged.cu_seqlens_k, count + 1);
  int failed = launch(schedule, (unsigned)orders * ap_schedule_parts(count), &args, call_schedule,
                      &c, report) != 0;
  for (int i = 0; i < orders * count && !failed; ++i) {
    const attnpress_schedule_order *order = &args.order[i / count];
    const attnpress_sequence_units *u = &order->sequences[i % count];
    if (i % count == 0 && check_order(&c, &args, order, report) != 0) {
      failed = 1;
      break;
    }
    failed = u->q_row != c.ragged.cu_seqlens_q[u->sequence] ||
             u->k_row != (paged ? 0 : c.ragged.cu_seqlens_k[u->sequence]) ||
             u->k_batch != (paged ? u->sequence : 0) ||
             (paged && u->first_page != (int64_t)u->sequence * TABLE_STRIDE) ||
             u->section_heads != order->heads;
    if (failed)
      snprintf(report, sizeof report, "the schedule has sequence %d at row %d, with %d blocks",
               u->sequence, u->q_row, u->blocks);
  }
  if (failed)
    fprintf(out, "FAILED %s\n  %d sequences: %s\n", schedule->stem, count, report);
  for (int i = 0; i < TENSORS; ++i)
    memory_unmap(&c.memory[i]);
  return failed;
}

int run_schedule_alone(const kernel *schedule, FILE *out, int *shapes) {
  int failed = 0;
  for (int i = 0; i < COUNT(schedule_rows) && !failed; ++i)
    failed = run_schedule(schedule, i, out, shapes);
  return failed;
}
