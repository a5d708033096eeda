/* Ragged batches on the present GPU, against float64: uneven lengths, empty sequences, keys one after
 * the other, in caches and in pages, masks and head dims; the same bits again and again, alone and in
 * chunks where a call is batch-invariant, and at lengths that are written late; graphs that are replayed
 * at other lengths. All that lies outside of the sequences is NaN, and stays so. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/reference.h"
#include "../tools/score_options.h"
#include "../tools/sequences.h"
#include "attnpress/args/ragged.h"
#include "gpu_support.h"

enum { SEQUENCES_MAX = 24, REPEATS = 200, REPLAYS = 100, SAMPLED_ROWS = 5 };

/* Of K and V: (batch, rows, heads, columns), (batch, heads, rows, columns), the first with gaps. */
typedef enum order { TOGETHER, HEADS_FIRST, GAPS } order;

typedef struct shape {
  int heads_q, heads_kv, hdim, hdim_v, dtype, mask, cached;
  int left, right;             /* of a window */
  int page_size;               /* 0: keys are in no pages */
  const score_options *scores; /* NULL: nothing */
  order order;
} shape;

enum { Q, K, V, OUT, LSE, CU_Q, CU_K, USED_K, INDEX, TABLE, WORKSPACE, BUFFERS };

typedef struct call {
  int count, most; /* sequences, and the bound of their lengths */
  void *host[BUFFERS];
  CUdeviceptr device[BUFFERS];
  size_t bytes[BUFFERS];
  attnpress_window window;
  attnpress_ragged ragged[2]; /* of host and device memory */
  attnpress_forward_args args[2];
  score_data scores;
  score_groups device_scores;
  CUdeviceptr score_buffer[SCORE_BUFFERS];
} call;

static void *add(call *c, int which, size_t bytes) {
  c->bytes[which] = bytes > 0 ? bytes : 16;
  c->host[which] = memset(malloc(c->bytes[which]), 0xff, c->bytes[which]);
  CHECK_CUDA(gpu.mem_alloc(&c->device[which], c->bytes[which]));
  return c->host[which];
}

static void add_tensor(call *c, int which, attnpress_tensor *t, int64_t batch, int64_t rows,
                       int64_t heads, int64_t hdim, int dtype, order order) {
  *t = order == HEADS_FIRST ? attnpress_tensor_bhsd(NULL, batch, rows, heads, hdim, dtype)
                            : attnpress_tensor_bshd(NULL, batch, rows, heads, hdim, dtype);
  if (order == GAPS) {
    t->stride[2] += 8;
    t->stride[1] = heads * t->stride[2] + 16;
    t->stride[0] = rows * t->stride[1] + 24;
  }
  t->data = add(c, which, (size_t)reference_span(t) * sizeof(uint16_t));
}

/* Lengths of queries, and of keys, of which there are `more` in every third sequence. */
static void set_lengths(call *c, const int *lengths, int more) {
  int32_t *q = c->host[CU_Q], *k = c->host[CU_K], *used = c->host[USED_K];
  q[0] = k[0] = 1;
  for (int i = 0; i < c->count; ++i) {
    const int keys = lengths[i] + (i % 3 == 1 ? more : 0);
    q[i + 1] = q[i] + lengths[i];
    k[i + 1] = k[i] + keys;
    used[i] = keys;
  }
}

/* The keys of a sequence, which lie in any order of pages. */
static void fill_pages(const attnpress_forward_args *a, const sequence_rows *rows, int is_v,
                       uint64_t seed) {
  attnpress_tensor row = is_v ? a->v : a->k;
  row.shape[0] = row.shape[1] = 1;
  for (int64_t n = 0; n < rows->keys; ++n) {
    int64_t page, at;
    sequence_key_place(a, rows, rows->k_begin + n, is_v, &page, &at);
    row.data =
        (uint16_t *)(is_v ? a->v.data : a->k.data) + page * row.stride[0] + at * row.stride[1];
    reference_fill_normal(&row, seed * 100000 + (uint64_t)n);
  }
}

/* A row of the table a sequence, and pages in an order that is not theirs. */
static void add_pages(call *c, int per_sequence) {
  attnpress_ragged *r = &c->ragged[0];
  const int pages = c->count * per_sequence;
  int32_t *table = add(c, TABLE, (size_t)pages * sizeof(int32_t));
  int step = pages / 2 + 1; /* with no factor in common with their number */
  for (int divisor = 2; divisor <= step; ++divisor)
    if (pages % divisor == 0 && step % divisor == 0) {
      ++step;
      divisor = 1;
    }
  for (int64_t i = 0; i < pages; ++i)
    table[i] = (int32_t)(i * step % pages);
  r->page_table = table;
  r->page_table_pages = per_sequence;
}

static void fill(call *c, uint64_t seed) {
  const attnpress_forward_args *a = &c->args[0];
  for (int b = 0; b < c->count; ++b) {
    const sequence_rows rows = sequence_rows_of(a, b);
    const attnpress_tensor *tensors[] = {&a->q, &a->k, &a->v};
    for (int i = 0; i < 3; ++i) {
      attnpress_tensor part = *tensors[i];
      if (i > 0 && a->ragged->page_table != NULL) {
        fill_pages(a, &rows, i == 2, seed + (uint64_t)(3 * b + i));
        continue;
      }
      part.shape[0] = 1;
      part.shape[1] = i == 0 ? rows.queries : rows.keys;
      part.data = (uint16_t *)part.data +
                  (i == 0 ? rows.q_batch * part.stride[0] + rows.q_begin * part.stride[1]
                          : rows.k_batch * part.stride[0] + rows.k_begin * part.stride[1]);
      reference_fill_normal(&part, seed + (uint64_t)(3 * b + i));
    }
  }
}

/* What the shape does to scores, a window aside. */
static void open_scores(call *c, const shape *s) {
  attnpress_forward_args *a = &c->args[0];
  char why[256];
  if (s->scores == NULL)
    return;
  if (score_data_read(&c->scores, s->scores, why, sizeof why) != 0)
    give_up(why);
  score_data_describe(&c->scores, s->scores, s->mask == ATTNPRESS_CAUSAL, 5, a);
  CHECK(score_data_allocate(&c->scores, 6) == 0);
}

static void move_scores(call *c) {
  void *pointers[SCORE_BUFFERS] = {NULL};
  for (int i = 0; i < SCORE_BUFFERS; ++i) {
    if (c->scores.bytes[i] == 0)
      continue;
    CHECK_CUDA(gpu.mem_alloc(&c->score_buffer[i], c->scores.bytes[i]));
    CHECK_CUDA(gpu.memcpy_htod(c->score_buffer[i], c->scores.buffers[i], c->scores.bytes[i]));
    pointers[i] = (void *)(uintptr_t)c->score_buffer[i];
  }
  score_groups_move(&c->device_scores, &c->scores.host, pointers, &c->args[1]);
}

static void open_call(call *c, const shape *s, const int *lengths, int count, int more) {
  memset(c, 0, sizeof *c);
  c->count = count;
  int64_t total = 2;
  for (int i = 0; i < count; ++i) {
    c->most = lengths[i] > c->most ? lengths[i] : c->most;
    total += lengths[i];
  }
  attnpress_forward_args *a = &c->args[0];
  *a = (attnpress_forward_args)ATTNPRESS_FORWARD_ARGS_INIT;
  const int64_t keys = s->cached ? c->most + more + 3 : total + count * more;
  add_tensor(c, Q, &a->q, 1, total, s->heads_q, s->hdim, s->dtype, TOGETHER);
  const int paged = s->page_size > 0;
  const int64_t per_sequence = paged ? (c->most + more) / s->page_size + 1 : 0;
  const int64_t batch = paged ? count * per_sequence : s->cached ? count + 1 : 1;
  const int64_t rows = paged ? s->page_size : keys;
  add_tensor(c, K, &a->k, batch, rows, s->heads_kv, s->hdim, s->dtype, s->order);
  add_tensor(c, V, &a->v, batch, rows, s->heads_kv, s->hdim_v, s->dtype, s->order);
  add_tensor(c, OUT, &a->out, 1, total, s->heads_q, s->hdim_v, s->dtype, TOGETHER);
  a->lse = add(c, LSE, (size_t)(total * s->heads_q) * sizeof(float));
  attnpress_ragged *r = &c->ragged[0];
  *r = (attnpress_ragged)ATTNPRESS_RAGGED_INIT;
  r->batch = count;
  r->max_seqlen_q = c->most;
  r->max_seqlen_k = s->scores != NULL ? c->most + more : 0; /* a bias is as large */
  r->cu_seqlens_q = add(c, CU_Q, (size_t)(count + 1) * sizeof(int32_t));
  int32_t *cu_k = add(c, CU_K, (size_t)(count + 1) * sizeof(int32_t));
  int32_t *used = add(c, USED_K, (size_t)count * sizeof(int32_t));
  int32_t *index = add(c, INDEX, (size_t)count * sizeof(int32_t));
  for (int i = 0; i < count; ++i)
    index[i] = count - i;
  if (paged) {
    r->seqused_k = used;
    add_pages(c, (int)per_sequence);
  } else {
    add(c, TABLE, 0);
  }
  if (!paged && s->cached) {
    r->seqused_k = used;
    r->kv_batch_idx = index;
  } else if (!paged) {
    r->cu_seqlens_k = cu_k;
  }
  a->ragged = r;
  a->mask = s->mask;
  c->window = (attnpress_window)ATTNPRESS_WINDOW_INIT;
  c->window.left = s->left;
  c->window.right = s->right;
  a->window = s->mask == ATTNPRESS_WINDOW ? &c->window : NULL;
  open_scores(c, s);
  set_lengths(c, lengths, more);
  fill(c, 7);

  attnpress_forward_args *d = &c->args[1];
  *d = *a;
  c->ragged[1] = *r;
  d->ragged = &c->ragged[1];
  d->q.data = (void *)(uintptr_t)c->device[Q];
  d->k.data = (void *)(uintptr_t)c->device[K];
  d->v.data = (void *)(uintptr_t)c->device[V];
  d->out.data = (void *)(uintptr_t)c->device[OUT];
  d->lse = (float *)(uintptr_t)c->device[LSE];
  if (s->scores != NULL)
    move_scores(c);
  c->ragged[1].cu_seqlens_q = (const int32_t *)(uintptr_t)c->device[CU_Q];
  if (paged) {
    c->ragged[1].seqused_k = (const int32_t *)(uintptr_t)c->device[USED_K];
    c->ragged[1].page_table = (const int32_t *)(uintptr_t)c->device[TABLE];
  } else if (s->cached) {
    c->ragged[1].seqused_k = (const int32_t *)(uintptr_t)c->device[USED_K];
    c->ragged[1].kv_batch_idx = (const int32_t *)(uintptr_t)c->device[INDEX];
  } else {
    c->ragged[1].cu_seqlens_k = (const int32_t *)(uintptr_t)c->device[CU_K];
  }
  attnpress_plan *plan = NULL;
  size_t bytes = 0;
  CHECK_OK(attnpress_plan_forward(handle, d, NULL, &plan));
  CHECK_OK(attnpress_plan_workspace_bytes(plan, &bytes));
  attnpress_plan_destroy(plan);
  add(c, WORKSPACE, bytes);
  d->workspace = (void *)(uintptr_t)c->device[WORKSPACE];
  d->workspace_bytes = c->bytes[WORKSPACE];
  for (int i = 0; i < BUFFERS; ++i)
    CHECK_CUDA(gpu.memcpy_htod(c->device[i], c->host[i], c->bytes[i]));
}

static void close_call(call *c) {
  for (int i = 0; i < BUFFERS; ++i) {
    free(c->host[i]);
    gpu.mem_free(c->device[i]);
  }
  for (int i = 0; i < SCORE_BUFFERS; ++i)
    if (c->score_buffer[i])
      gpu.mem_free(c->score_buffer[i]);
  score_data_free(&c->scores);
}

static void poison(call *c, CUstream stream) {
  CHECK_CUDA(gpu.memset_d8_async(c->device[OUT], 0xff, c->bytes[OUT], stream));
  CHECK_CUDA(gpu.memset_d8_async(c->device[LSE], 0xff, c->bytes[LSE], stream));
  CHECK_CUDA(gpu.memset_d8_async(c->device[WORKSPACE], 0xff, c->bytes[WORKSPACE], stream));
}

static void fetch(call *c) {
  CHECK_CUDA(gpu.memcpy_dtoh(c->host[OUT], c->device[OUT], c->bytes[OUT]));
  CHECK_CUDA(gpu.memcpy_dtoh(c->host[LSE], c->device[LSE], c->bytes[LSE]));
}

static void run(call *c) {
  poison(c, NULL);
  CHECK_OK(attnpress_forward(handle, &c->args[1], NULL));
  fetch(c);
}

/* Sampled rows; elements that are NaN: in a sequence none, elsewhere all. */
static void check_result(const call *c, const shape *s, int number) {
  const attnpress_forward_args *a = &c->args[0];
  reference_error e = {0};
  int64_t wrong = 0, row = 0;
  for (int b = 0; b <= c->count; ++b) {
    const sequence_rows rows = b < c->count ? sequence_rows_of(a, b) : (sequence_rows){0};
    const int64_t begin = b < c->count ? rows.q_begin : a->q.shape[1];
    for (; row < begin + rows.queries; ++row)
      for (int64_t h = 0; h < s->heads_q; ++h) {
        const int inside = row >= begin;
        for (int64_t i = 0; i < s->hdim_v; ++i)
          wrong += isnan(reference_load(&a->out, 0, row, h, i)) == inside;
        wrong += isnan(a->lse[h * a->q.shape[1] + row]) == inside;
      }
    if (rows.queries == 0)
      continue;
    sequence one;
    reference r;
    if (sequence_open(&one, a, b) != 0 || reference_init(&r, &one.args) != 0)
      abort();
    for (int i = 0; i < SAMPLED_ROWS; ++i)
      for (int64_t h = i % 2; h < s->heads_q; h += 3)
        reference_check_row(&r, b, (rows.queries - 1) * i / (SAMPLED_ROWS - 1), h, &e);
    reference_free(&r);
    sequence_close(&one);
  }
  checks += 2;
  if (wrong > 0 || (e.elements >= REFERENCE_MIN_ELEMENTS && !reference_holds(&e))) {
    ++failures;
    printf("FAILED: shape %d, %d sequences: %lld elements written and should not be, or not; out "
           "is off by %.3g of %.3g at %lld %lld %lld, lse by %.3g\n",
           number, c->count, (long long)wrong, e.out, reference_bound(&e), (long long)e.at[0],
           (long long)e.at[1], (long long)e.at[2], e.lse);
  }
}

static const shape shapes[] = {
    {8, 2, 128, 128, ATTNPRESS_BF16, ATTNPRESS_FULL, 0, 0, 0, 0, NULL, TOGETHER},
    {8, 2, 128, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, NULL, TOGETHER},
    {4, 4, 64, 64, ATTNPRESS_FP16, ATTNPRESS_CAUSAL, 1, 0, 0, 0, NULL, TOGETHER},
    {16, 2, 64, 64, ATTNPRESS_BF16, ATTNPRESS_FULL, 0, 0, 0, 0, NULL, TOGETHER},
    {7, 1, 96, 96, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, NULL, TOGETHER},
    {4, 2, 192, 192, ATTNPRESS_FP16, ATTNPRESS_FULL, 1, 0, 0, 0, NULL, TOGETHER},
    {2, 2, 256, 256, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, NULL, TOGETHER},
    {4, 2, 256, 256, ATTNPRESS_BF16, ATTNPRESS_WINDOW, 0, 100, 30, 0, NULL, TOGETHER},
    {8, 4, 192, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, NULL, TOGETHER},
    {8, 8, 128, 128, ATTNPRESS_FP16, ATTNPRESS_WINDOW, 1, 77, 0, 0, NULL, TOGETHER},
    {8, 2, 64, 64, ATTNPRESS_BF16, ATTNPRESS_WINDOW, 0, 40, 0, 0, NULL, TOGETHER},
    {3, 1, 72, 72, ATTNPRESS_BF16, ATTNPRESS_FULL, 0, 0, 0, 0, NULL, TOGETHER},
    {8, 2, 128, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 16, NULL, TOGETHER},
    {4, 4, 64, 64, ATTNPRESS_FP16, ATTNPRESS_FULL, 0, 0, 0, 24, NULL, TOGETHER},
    {4, 2, 256, 256, ATTNPRESS_BF16, ATTNPRESS_WINDOW, 0, 100, 30, 256, NULL, TOGETHER},
    {8, 4, 192, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 8, NULL, TOGETHER},
    {8, 2, 128, 128, ATTNPRESS_FP16, ATTNPRESS_WINDOW, 0, 77, 0, 1000, NULL, TOGETHER},
    {7, 1, 96, 96, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 5, NULL, TOGETHER},
    {4, 2, 72, 40, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, NULL, TOGETHER},
    {4, 2, 40, 264, ATTNPRESS_FP16, ATTNPRESS_CAUSAL, 0, 0, 0, 16, NULL, TOGETHER},
    {8, 2, 128, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 16, NULL, HEADS_FIRST},
    {6, 3, 128, 128, ATTNPRESS_FP16, ATTNPRESS_FULL, 0, 0, 0, 24, NULL, GAPS},
    {4, 4, 256, 256, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 64, NULL, GAPS},
    {6, 3, 192, 192, ATTNPRESS_FP16, ATTNPRESS_WINDOW, 0, 50, 0, 8, NULL, HEADS_FIRST},
    {6, 3, 192, 128, ATTNPRESS_BF16, ATTNPRESS_FULL, 0, 0, 0, 128, NULL, GAPS},
    {8, 2, 128, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 1, NULL, GAPS},
    {8, 1, 64, 64, ATTNPRESS_FP16, ATTNPRESS_FULL, 0, 0, 0, 3, NULL, HEADS_FIRST},
    {4, 2, 256, 256, ATTNPRESS_BF16, ATTNPRESS_WINDOW, 0, 100, 30, 1, NULL, TOGETHER},
    {8, 2, 256, 256, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 1, NULL, TOGETHER},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Of all sizes: nothing, a row, around a tile, several tiles. */
static int make_lengths(int *lengths, uint64_t seed) {
  static const int some[] = {0,   1,   17,  63,  64,  65,  127, 128,
                             129, 191, 193, 200, 300, 511, 640, 1000};
  const int count = (int)(seed * 13 % SEQUENCES_MAX) + 1;
  for (int i = 0; i < count; ++i)
    lengths[i] = some[(seed * 7 + (uint64_t)i * 11) % (sizeof some / sizeof *some)];
  return count;
}

static void test_table(void) {
  int lengths[SEQUENCES_MAX];
  for (int i = 0; i < SHAPES; ++i)
    for (uint64_t seed = 1; seed <= 2 && in_slice(); ++seed) {
      const int count = make_lengths(lengths, seed + (uint64_t)i);
      call c;
      open_call(&c, &shapes[i], lengths, count, seed == 2 ? 333 : 0);
      run(&c);
      check_result(&c, &shapes[i], i);
      close_call(&c);
    }
}

/* Few queries over many keys, of which some sequences have none, in splits whose number is chosen; what
 * lies in the workspace before is NaN. */
static void test_few_queries(void) {
  enum { COUNT = 6 };
  static const int lengths[2][COUNT] = {{16, 3, 0, 9, 12, 1}, {33, 20, 7, 0, 40, 17}};
  static const int of[] = {0, 1, 2, 4, 6, 8, 12, 17, 18, 25, 26, 28};
  for (size_t i = 0; i < sizeof of / sizeof *of; ++i)
    for (int many = 0; many < 2; ++many)
      for (int more = 700; more < 20000; more *= 6) {
        call c;
        open_call(&c, &shapes[of[i]], lengths[many], COUNT, more);
        run(&c);
        check_result(&c, &shapes[of[i]], of[i]);
        close_call(&c);
      }
}

/* What is done to scores: of a few sequences, as a bias has every pair of the bounds. */
static void test_scores(void) {
#define BOTH ATTNPRESS_TESTS_DIR "/emulator/mods/both.mod"
  enum { FEW = 6 };
  static const int all_lengths[2][FEW] = {{129, 0, 640, 17, 300, 1}, {1, 1, 1, 1, 1, 1}};
  static const score_options bias16 = {.bias = ATTNPRESS_BF16}, bias32 = {.bias = ATTNPRESS_FP32};
  static const score_options both = {.mod = BOTH};
  static const score_options capped = {.mod = BOTH, .softcap = 20.0f, .sinks = 1};
  static const score_options cap = {.softcap = 20.0f}, alibi = {.alibi = 1};
  /* of windows, whose bounds are here and not in the shape */
  static const score_options near_cap = {.softcap = 20.0f, .windowed = 1, .left = 100, .right = 0};
  static const score_options near_alibi = {.alibi = 1, .windowed = 1, .left = 100, .right = 0};
  static const score_options all = {.softcap = 20.0f, .alibi = 1, .sinks = 1};
  static const shape with_scores[] = {
      {4, 2, 128, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, &bias16, TOGETHER},
      {2, 2, 64, 64, ATTNPRESS_FP16, ATTNPRESS_FULL, 1, 0, 0, 0, &bias32, TOGETHER},
      {4, 1, 192, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 16, &bias16, TOGETHER},
      {4, 2, 128, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, &both, TOGETHER},
      {4, 4, 64, 64, ATTNPRESS_FP16, ATTNPRESS_FULL, 1, 0, 0, 0, &both, TOGETHER},
      {8, 2, 256, 256, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 64, &both, TOGETHER},
      {6, 2, 72, 72, ATTNPRESS_BF16, ATTNPRESS_FULL, 0, 0, 0, 5, &capped, TOGETHER},
      {8, 4, 256, 256, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 16, &cap, TOGETHER},
      {8, 4, 256, 256, ATTNPRESS_BF16, ATTNPRESS_WINDOW, 0, 0, 0, 0, &near_cap, TOGETHER},
      {4, 2, 128, 128, ATTNPRESS_FP16, ATTNPRESS_CAUSAL, 0, 0, 0, 5, &cap, TOGETHER},
      {8, 2, 64, 64, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, &cap, TOGETHER},
      {4, 4, 128, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, &alibi, TOGETHER},
      {6, 3, 80, 80, ATTNPRESS_FP16, ATTNPRESS_FULL, 1, 0, 0, 16, &alibi, TOGETHER},
      {8, 8, 64, 64, ATTNPRESS_BF16, ATTNPRESS_WINDOW, 0, 0, 0, 0, &near_alibi, TOGETHER},
      {6, 2, 96, 96, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, &all, TOGETHER},
  };
  for (size_t i = 0; i < sizeof with_scores / sizeof *with_scores; ++i)
    for (int few_rows = 0; few_rows < 2; ++few_rows) { /* which have splits */
      call c;
      open_call(&c, &with_scores[i], all_lengths[few_rows], FEW, few_rows ? 2000 : i % 2 ? 333 : 0);
      run(&c);
      check_result(&c, &with_scores[i], SHAPES + (int)i);
      close_call(&c);
    }
#undef BOTH
}

/* The same bits, whatever order tickets came in. */
static void test_repeats(void) {
  int lengths[SEQUENCES_MAX];
  for (int i = 0; i < 2; ++i) {
    const int count = make_lengths(lengths, 3);
    call c;
    open_call(&c, &shapes[1 + 2 * i], lengths, count, 0);
    run(&c);
    void *first = memcpy(malloc(c.bytes[OUT]), c.host[OUT], c.bytes[OUT]);
    for (int n = 0; n < REPEATS && failures == 0; ++n) {
      run(&c);
      CHECK(memcmp(first, c.host[OUT], c.bytes[OUT]) == 0);
    }
    free(first);
    close_call(&c);
  }
}

/* A call in a graph, on a stream of its own. */
typedef struct replay {
  CUstream stream;
  CUgraph graph;
  CUgraphExec exec;
} replay;

static replay capture(const call *c) {
  replay r = {0};
  CHECK_CUDA(gpu.stream_create(&r.stream, CU_STREAM_NON_BLOCKING));
  CHECK_CUDA(gpu.stream_begin_capture(r.stream, 0));
  CHECK_OK(attnpress_forward(handle, &c->args[1], r.stream));
  CHECK_CUDA(gpu.stream_end_capture(r.stream, &r.graph));
  CHECK_CUDA(gpu.graph_instantiate(&r.exec, r.graph, 0));
  return r;
}

/* Its output, in place of what the call has left, is that of `want`. */
static void check_replay(call *c, const replay *r, const void *want) {
  poison(c, r->stream);
  CHECK_CUDA(gpu.graph_launch(r->exec, r->stream));
  CHECK_CUDA(gpu.stream_synchronize(r->stream));
  fetch(c);
  CHECK(memcmp(want, c->host[OUT], c->bytes[OUT]) == 0);
}

static void close_replay(replay *r) {
  CHECK_CUDA(gpu.graph_exec_destroy(r->exec));
  CHECK_CUDA(gpu.graph_destroy(r->graph));
  CHECK_CUDA(gpu.stream_destroy(r->stream));
}

/* Captured at one set of lengths, replayed at others: what a call at those gives. */
static void test_graph(void) {
  int most[SEQUENCES_MAX], lengths[SEQUENCES_MAX];
  enum { COUNT = 24 };
  call c;
  for (int i = 0; i < COUNT; ++i)
    most[i] = 700;
  open_call(&c, &shapes[1], most, COUNT, 0);
  run(&c);
  replay again = capture(&c);
  void *want = malloc(c.bytes[OUT]);
  uint64_t state = 5;
  for (int n = 0; n < REPLAYS && failures == 0; ++n) {
    for (int i = 0; i < COUNT; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      lengths[i] = (int)(state >> 40) % (n % 2 ? 700 : 90);
    }
    set_lengths(&c, lengths, 0);
    CHECK_CUDA(gpu.memcpy_htod(c.device[CU_Q], c.host[CU_Q], c.bytes[CU_Q]));
    CHECK_CUDA(gpu.memcpy_htod(c.device[CU_K], c.host[CU_K], c.bytes[CU_K]));
    run(&c);
    memcpy(want, c.host[OUT], c.bytes[OUT]);
    check_replay(&c, &again, want);
    if (n < 2) {
      fill(&c, 7); /* rows that had no sequence */
      CHECK_CUDA(gpu.memcpy_htod(c.device[Q], c.host[Q], c.bytes[Q]));
      CHECK_CUDA(gpu.memcpy_htod(c.device[K], c.host[K], c.bytes[K]));
      CHECK_CUDA(gpu.memcpy_htod(c.device[V], c.host[V], c.bytes[V]));
      run(&c);
      check_result(&c, &shapes[1], 1);
    }
  }
  free(want);
  close_replay(&again);
  close_call(&c);
}

/* Keys of so many sequences of one query, of which a few are as long as most others together; some
 * are none's, and some more than there is room for, or fewer than none, which are none as well. */
static void draw_keys(call *c, int room, uint64_t seed) {
  int32_t *used = c->host[USED_K];
  uint64_t state = seed;
  for (int b = 0; b < c->count; ++b) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const int drawn = (int)(state >> 40);
    used[b] = drawn % 7 == 0    ? 0
              : drawn % 31 == 1 ? room + 50
              : drawn % 31 == 2 ? -3
              : drawn % 9 == 1  ? room - drawn % 5
                                : drawn % (room / 8);
  }
  if (seed % 3 == 0) /* one sequence alone */
    memset(used, 0, (size_t)(c->count - 1) * sizeof *used);
}

/* Decoding for many sequences, whose keys thread blocks share out in runs: results, the same bits again,
 * and a graph that is replayed at other lengths. */
static void test_runs(void) {
  static const shape decoded[] = {
      {64, 8, 64, 64, ATTNPRESS_BF16, ATTNPRESS_FULL, 0, 0, 0, 16, NULL, TOGETHER},
      {16, 8, 64, 64, ATTNPRESS_FP16, ATTNPRESS_CAUSAL, 0, 0, 0, 1, NULL, GAPS},
      {32, 8, 128, 128, ATTNPRESS_BF16, ATTNPRESS_FULL, 0, 0, 0, 24, NULL, TOGETHER},
      {8, 8, 128, 128, ATTNPRESS_FP16, ATTNPRESS_FULL, 1, 0, 0, 0, NULL, HEADS_FIRST},
      {6, 6, 64, 64, ATTNPRESS_BF16, ATTNPRESS_FULL, 1, 0, 0, 0, NULL, GAPS},
      {16, 8, 256, 256, ATTNPRESS_BF16, ATTNPRESS_FULL, 0, 0, 0, 16, NULL, TOGETHER},
      /* Of more sequences, for thread blocks with several key heads each where there are such. */
      {64, 8, 64, 64, ATTNPRESS_BF16, ATTNPRESS_FULL, 0, 0, 0, 16, NULL, TOGETHER},
      {64, 16, 64, 64, ATTNPRESS_FP16, ATTNPRESS_CAUSAL, 0, 0, 0, 1, NULL, GAPS},
      {8, 8, 64, 64, ATTNPRESS_BF16, ATTNPRESS_FULL, 1, 0, 0, 0, NULL, HEADS_FIRST},
  };
  enum { SHAPES = sizeof decoded / sizeof *decoded, FEW = 40, MANY = 100, MORE = 900, DRAWS = 6 };
  int lengths[MANY];
  for (int i = 0; i < MANY; ++i)
    lengths[i] = 1;
  for (int i = 0; i < SHAPES; ++i) {
    attnpress_plan *plan = NULL;
    attnpress_info info = ATTNPRESS_INFO_INIT;
    call c;
    open_call(&c, &decoded[i], lengths, i < SHAPES - 3 ? FEW : MANY, MORE);
    CHECK_OK(attnpress_plan_forward(handle, &c.args[1], NULL, &plan));
    CHECK_OK(attnpress_plan_launch(plan, 0, &info));
    CHECK(strstr(info.stem, "_runs_") != NULL);
    attnpress_plan_destroy(plan);
    run(&c);
    replay again = capture(&c);
    void *want = malloc(c.bytes[OUT]);
    for (uint64_t draw = 1; draw <= DRAWS && failures == 0; ++draw) {
      memset(c.host[K], 0xff, c.bytes[K]);
      memset(c.host[V], 0xff, c.bytes[V]);
      draw_keys(&c, MORE, draw);
      fill(&c, 7);
      for (int which = Q; which <= TABLE; ++which)
        CHECK_CUDA(gpu.memcpy_htod(c.device[which], c.host[which], c.bytes[which]));
      run(&c);
      check_result(&c, &decoded[i], i);
      memcpy(want, c.host[OUT], c.bytes[OUT]);
      for (int n = 0; n < REPEATS / 10; ++n)
        check_replay(&c, &again, want);
    }
    free(want);
    close_replay(&again);
    close_call(&c);
  }
}

/* A schedule in a buffer of its own, given to the call. */
static CUdeviceptr give_schedule(call *c, size_t *bytes) {
  CUdeviceptr schedule;
  CHECK_OK(attnpress_forward_schedule_bytes(c->count, bytes));
  CHECK_CUDA(gpu.mem_alloc(&schedule, *bytes));
  c->ragged[1].schedule = (int32_t *)(uintptr_t)schedule;
  c->ragged[1].schedule_bytes = *bytes;
  return schedule;
}

/* What a schedule of the host's lengths has to be: each sequence at its place, in its part of the batch,
 * behind those that have as many keys or more. */
static int is_schedule(const call *c, const int32_t *words, const int *lengths) {
  const int32_t *order = words + ATTNPRESS_READY_ORDER, *places = order + c->count;
  int holds = words[0] == c->count;
  for (int i = 0; i < c->count && holds; ++i) {
    const int b = order[i], before = i % ATTNPRESS_SCHEDULE_PART > 0 ? order[i - 1] : b;
    holds = b >= 0 && b < c->count && places[b] == i &&
            b / ATTNPRESS_SCHEDULE_PART == i / ATTNPRESS_SCHEDULE_PART &&
            lengths[b] / 16 <= lengths[before] / 16;
  }
  return holds;
}

/* Parts of a batch that the schedule puts in order by themselves, whole ones and others, of sequences of
 * a few rows; with the call's own schedule, and with one that was made before. */
static void test_many(void) {
  static const int counts[] = {1, 31, 1000, 1024, 1025, 3000, 8191, 8192, 65536};
  enum { COUNTS = sizeof counts / sizeof *counts, SHAPE = 11, MOST = 65536 };
  int *lengths = malloc(MOST * sizeof *lengths);
  for (int n = 0; n < COUNTS; ++n) {
    const int most = counts[n] > 3000 ? 19 : 47;
    size_t bytes;
    call c;
    for (int i = 0; i < counts[n]; ++i)
      lengths[i] = i % 5 == 2 ? 0 : 1 + i * 31 % most;
    open_call(&c, &shapes[SHAPE], lengths, counts[n], 0);
    run(&c);
    check_result(&c, &shapes[SHAPE], SHAPE);
    void *want = memcpy(malloc(c.bytes[OUT]), c.host[OUT], c.bytes[OUT]);
    const CUdeviceptr schedule = give_schedule(&c, &bytes);
    int32_t *words = malloc(bytes);
    CHECK_CUDA(gpu.memset_d8_async(schedule, 0xff, bytes, NULL));
    CHECK_OK(attnpress_forward_schedule(handle, &c.args[1], NULL));
    CHECK_CUDA(gpu.memcpy_dtoh(words, schedule, bytes));
    CHECK(is_schedule(&c, words, lengths));
    run(&c);
    CHECK(memcmp(want, c.host[OUT], c.bytes[OUT]) == 0);
    free(words);
    free(want);
    CHECK_CUDA(gpu.mem_free(schedule));
    close_call(&c);
  }
  free(lengths);
}

/* Units of short sequences, many of each thread block: heads that share tiles and those that do not. */
static void test_units(void) {
  static const shape rows[] = {
      {8, 8, 64, 64, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, NULL, TOGETHER},
      {8, 8, 64, 64, ATTNPRESS_BF16, ATTNPRESS_FULL, 0, 0, 0, 0, NULL, TOGETHER},
      {32, 8, 64, 64, ATTNPRESS_FP16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, NULL, TOGETHER},
      {8, 8, 96, 96, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, NULL, TOGETHER},
      {8, 8, 128, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, NULL, TOGETHER},
      {8, 8, 128, 128, ATTNPRESS_BF16, ATTNPRESS_FULL, 0, 0, 0, 0, NULL, TOGETHER},
      {32, 8, 128, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, NULL, TOGETHER},
  };
  enum { COUNT = 150 };
  int lengths[COUNT];
  for (int i = 0; i < COUNT; ++i)
    lengths[i] = i % 3 == 0 ? 65 : 1 + i * 89 % 277;
  for (int i = 0; i < (int)(sizeof rows / sizeof *rows); ++i) {
    call c;
    open_call(&c, &rows[i], lengths, COUNT, 0);
    run(&c);
    check_result(&c, &rows[i], i);
    close_call(&c);
  }
}

/* With a schedule, whatever is in it, a call gives the bits that it gives without. */
static void test_ready(void) {
  static const int some[] = {1, 3, 7, 12, 14, 16};
  int lengths[SEQUENCES_MAX];
  for (size_t i = 0; i < sizeof some / sizeof *some; ++i)
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const int count = make_lengths(lengths, seed);
      size_t bytes;
      call c;
      open_call(&c, &shapes[some[i]], lengths, count, 0);
      run(&c);
      void *want = memcpy(malloc(c.bytes[OUT]), c.host[OUT], c.bytes[OUT]);
      const CUdeviceptr schedule = give_schedule(&c, &bytes);
      int32_t *words = malloc(bytes);
      for (int contents = 0; contents < 5; ++contents) {
        if (contents == 0) { /* as made */
          CHECK_OK(attnpress_forward_schedule(handle, &c.args[1], NULL));
          CHECK_CUDA(gpu.memcpy_dtoh(words, schedule, bytes));
          CHECK(words[0] == count);
        } else {
          for (int n = 0; n < count; ++n) {
            words[1 + n] = contents == 1   ? count - 1 - n /* of other lengths */
                           : contents == 2 ? n / 2         /* doubled */
                           : contents == 3 ? (int32_t)((uint32_t)(n + 1) * 2654435761u)
                                           : 0;
            words[1 + count + n] =
                contents == 1 ? count - 1 - n : words[1 + n] / (contents % 3 + 1);
          }
          CHECK_CUDA(gpu.memcpy_htod(schedule, words, bytes));
        }
        run(&c);
        CHECK(memcmp(want, c.host[OUT], c.bytes[OUT]) == 0);
        check_result(&c, &shapes[some[i]], some[i]);
      }
      free(words);
      free(want);
      CHECK_CUDA(gpu.mem_free(schedule));
      close_call(&c);
    }
}

/* Schedule and call, captured at one set of lengths, replayed at others; then the call alone, with the
 * schedule of the lengths before, and at the same time with another call of the same schedule. */
static void ready_graph(const shape *s) {
  enum { COUNT = 24 };
  int lengths[SEQUENCES_MAX];
  CUstream stream = NULL, second = NULL;
  CUgraph graph[2] = {NULL, NULL};
  CUgraphExec exec[2] = {NULL, NULL};
  size_t bytes;
  call c, other;
  for (int i = 0; i < COUNT; ++i)
    lengths[i] = 700;
  open_call(&c, s, lengths, COUNT, 0);
  open_call(&other, s, lengths, COUNT, 0);
  const CUdeviceptr schedule = give_schedule(&c, &bytes);
  other.ragged[1].schedule = c.ragged[1].schedule;
  other.ragged[1].schedule_bytes = bytes;
  CHECK_OK(attnpress_forward_schedule(handle, &c.args[1], NULL));
  run(&c);
  CHECK_CUDA(gpu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  CHECK_CUDA(gpu.stream_create(&second, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 2; ++i) {
    CHECK_CUDA(gpu.stream_begin_capture(stream, 0));
    if (i == 0)
      CHECK_OK(attnpress_forward_schedule(handle, &c.args[1], stream));
    CHECK_OK(attnpress_forward(handle, &c.args[1], stream));
    CHECK_CUDA(gpu.stream_end_capture(stream, &graph[i]));
    CHECK_CUDA(gpu.graph_instantiate(&exec[i], graph[i], 0));
  }
  void *want = malloc(c.bytes[OUT]);
  uint64_t state = 5;
  for (int n = 0; n < REPLAYS && failures == 0; ++n) {
    for (int i = 0; i < COUNT; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      lengths[i] = (int)(state >> 40) % (n % 2 ? 700 : 90);
    }
    call *const both[] = {&c, &other};
    for (int i = 0; i < 2; ++i) {
      set_lengths(both[i], lengths, 0);
      CHECK_CUDA(gpu.memcpy_htod(both[i]->device[CU_Q], both[i]->host[CU_Q], c.bytes[CU_Q]));
      CHECK_CUDA(gpu.memcpy_htod(both[i]->device[CU_K], both[i]->host[CU_K], c.bytes[CU_K]));
    }
    c.ragged[1].schedule = NULL;
    c.ragged[1].schedule_bytes = 0;
    run(&c);
    memcpy(want, c.host[OUT], c.bytes[OUT]);
    c.ragged[1].schedule = other.ragged[1].schedule;
    c.ragged[1].schedule_bytes = bytes;
    poison(&c, stream);
    poison(&other, second);
    CHECK_CUDA(gpu.graph_launch(exec[n % 3 > 0], stream));
    if (n % 3 > 0)
      CHECK_OK(attnpress_forward(handle, &other.args[1], second));
    CHECK_CUDA(gpu.stream_synchronize(stream));
    CHECK_CUDA(gpu.stream_synchronize(second));
    fetch(&c);
    CHECK(memcmp(want, c.host[OUT], c.bytes[OUT]) == 0);
    fetch(&other);
    CHECK(n % 3 == 0 || memcmp(want, other.host[OUT], c.bytes[OUT]) == 0);
  }
  free(want);
  for (int i = 0; i < 2; ++i) {
    CHECK_CUDA(gpu.graph_exec_destroy(exec[i]));
    CHECK_CUDA(gpu.graph_destroy(graph[i]));
  }
  CHECK_CUDA(gpu.stream_destroy(stream));
  CHECK_CUDA(gpu.stream_destroy(second));
  CHECK_CUDA(gpu.mem_free(schedule));
  close_call(&c);
  close_call(&other);
}

static void test_ready_graph(void) {
  ready_graph(&shapes[1]);
  ready_graph(&shapes[4]);
}

/* A call of queries `first` to first + rows - 1 of sequence b alone, with the keys up to the last of them
 * under a causal mask, into the same output. */
static void run_chunk(call *c, const shape *s, int b, int first, int rows) {
  const int32_t *q = c->host[CU_Q], *k = c->host[CU_K], *used = c->host[USED_K];
  const int queries = q[b + 1] - q[b];
  const int32_t keys = used[b] - (s->mask == ATTNPRESS_CAUSAL ? queries - first - rows : 0);
  const int32_t cu_q[2] = {q[b] + first, q[b] + first + rows}, cu_k[2] = {k[b], k[b] + keys};
  CHECK_CUDA(gpu.memcpy_htod(c->device[CU_Q], cu_q, sizeof cu_q));
  CHECK_CUDA(gpu.memcpy_htod(c->device[CU_K], cu_k, sizeof cu_k));
  CHECK_CUDA(gpu.memcpy_htod(c->device[USED_K], &keys, sizeof keys));
  CHECK_CUDA(gpu.memcpy_htod(c->device[INDEX], (const int32_t *)c->host[INDEX] + b, sizeof keys));
  attnpress_forward_args args = c->args[1];
  attnpress_ragged one = c->ragged[1];
  one.batch = 1;
  one.max_seqlen_q = rows;
  if (one.page_table != NULL)
    one.page_table += (int64_t)b * one.page_table_pages;
  args.ragged = &one;
  CHECK_OK(attnpress_forward(handle, &args, NULL));
}

/* Rows of the chunk from `first` on; 0: all. Of a long sequence chunks of one row take turns with larger
 * ones, as each is a call. */
static int chunk_rows(int chunk, int length, int first) {
  enum { SHORT = 150, TURN = 24 };
  if (chunk == 1 && length > SHORT && first % TURN != 0)
    return TURN - 1;
  return chunk > 0 ? chunk : length;
}

/* Batch-invariant calls: a batch, and its sequences one by one, whole and in chunks, have the same bits.
 * A window's rows may see keys behind their chunk. */
static void invariant_of(const shape *s, int i) {
  enum { WORKSPACE_BYTES = 256 << 20 };
  static const int lengths[] = {1, 130, 2500, 0, 700, 65}, chunks[] = {0, 64, 7, 1};
  const int count = sizeof lengths / sizeof *lengths;
  const int kinds = s->mask == ATTNPRESS_WINDOW ? 1 : 4;
  call c;
  open_call(&c, s, lengths, count, 333);
  free(c.host[WORKSPACE]);
  CHECK_CUDA(gpu.mem_free(c.device[WORKSPACE]));
  add(&c, WORKSPACE, WORKSPACE_BYTES);
  c.args[1].workspace = (void *)(uintptr_t)c.device[WORKSPACE];
  c.args[1].workspace_bytes = WORKSPACE_BYTES;
  c.args[1].batch_invariant = 1;
  run(&c);
  check_result(&c, s, i);
  void *out = memcpy(malloc(c.bytes[OUT]), c.host[OUT], c.bytes[OUT]);
  void *lse = memcpy(malloc(c.bytes[LSE]), c.host[LSE], c.bytes[LSE]);
  for (int n = 0; n < kinds; ++n) {
    poison(&c, NULL);
    for (int b = 0; b < count; ++b)
      for (int first = 0, rows; first < lengths[b]; first += rows) {
        rows = chunk_rows(chunks[n], lengths[b], first);
        rows = rows < lengths[b] - first ? rows : lengths[b] - first;
        run_chunk(&c, s, b, first, rows);
      }
    fetch(&c);
    ++checks;
    if (memcmp(out, c.host[OUT], c.bytes[OUT]) != 0 ||
        memcmp(lse, c.host[LSE], c.bytes[LSE]) != 0) {
      ++failures;
      printf("FAILED: shape %d: a batch-invariant call has other bits in chunks of %d rows\n", i,
             chunks[n]);
    }
  }
  free(out);
  free(lse);
  close_call(&c);
}

static void test_invariant(void) {
  for (int i = 0; i < SHAPES; ++i)
    if (in_slice())
      invariant_of(&shapes[i], i);
}

/* The same where scores are changed: a step that the compiler rounds in one place and not in another
 * shows here alone. Under masks that leave a row its keys in each chunk, as slopes count from the last. */
static void test_invariant_scores(void) {
  static const score_options alibi = {.alibi = 1}, capped = {.softcap = 20.0f},
                             all = {.softcap = 20.0f, .alibi = 1, .sinks = 1}, sinks = {.sinks = 1};
  /* of windows, whose bounds are here and not in the shape */
  static const score_options near_capped = {
      .softcap = 20.0f, .windowed = 1, .left = 100, .right = 0};
  static const score_options near_sinks = {.sinks = 1, .windowed = 1, .left = 127, .right = 0};
  static const shape scored[] = {
      {14, 2, 192, 192, ATTNPRESS_FP16, ATTNPRESS_CAUSAL, 0, 0, 0, 97, &alibi, TOGETHER},
      {16, 1, 80, 80, ATTNPRESS_FP16, ATTNPRESS_CAUSAL, 0, 0, 0, 64, &alibi, TOGETHER},
      {8, 2, 128, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, &alibi, TOGETHER},
      {4, 4, 64, 64, ATTNPRESS_FP16, ATTNPRESS_CAUSAL, 1, 0, 0, 0, &alibi, TOGETHER},
      {8, 4, 256, 256, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 16, &capped, TOGETHER},
      {8, 4, 256, 256, ATTNPRESS_FP16, ATTNPRESS_WINDOW, 0, 0, 0, 0, &near_capped, TOGETHER},
      {6, 2, 96, 96, ATTNPRESS_FP16, ATTNPRESS_CAUSAL, 0, 0, 0, 0, &all, TOGETHER},
      {8, 1, 64, 64, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, 0, 0, 0, 16, &sinks, TOGETHER},
      {8, 1, 64, 64, ATTNPRESS_FP16, ATTNPRESS_WINDOW, 0, 0, 0, 16, &near_sinks, TOGETHER},
  };
  for (size_t i = 0; i < sizeof scored / sizeof *scored; ++i)
    if (in_slice())
      invariant_of(&scored[i], SHAPES + (int)i);
}

/* Lets the next kernel begin, and writes lengths so many ns later. */
static const char late_ptx[] =
    ".version 7.8\n"
    ".target sm_90\n"
    ".address_size 64\n"
    ".visible .entry late(.param .u64 to, .param .u64 from, .param .u32 count, .param .u32 ns)\n"
    "{\n"
    "  .reg .pred %p<3>;\n"
    "  .reg .b32 %r<4>;\n"
    "  .reg .b64 %d<7>;\n"
    "  griddepcontrol.launch_dependents;\n"
    "  ld.param.u32 %r0, [ns];\n"
    "  cvt.u64.u32 %d0, %r0;\n"
    "  mov.u64 %d1, %globaltimer;\n"
    "  add.u64 %d0, %d0, %d1;\n"
    "again:\n"
    "  mov.u64 %d1, %globaltimer;\n"
    "  setp.lt.u64 %p0, %d1, %d0;\n"
    "  @%p0 bra again;\n"
    "  mov.u32 %r1, %tid.x;\n"
    "  ld.param.u32 %r2, [count];\n"
    "  setp.ge.u32 %p1, %r1, %r2;\n"
    "  @%p1 ret;\n"
    "  ld.param.u64 %d2, [to];\n"
    "  ld.param.u64 %d3, [from];\n"
    "  mul.wide.u32 %d4, %r1, 4;\n"
    "  add.u64 %d5, %d3, %d4;\n"
    "  add.u64 %d6, %d2, %d4;\n"
    "  ld.global.u32 %r3, [%d5];\n"
    "  st.global.u32 [%d6], %r3;\n"
    "  ret;\n"
    "}\n";

/* Lengths of draw `draw`: some are 0, some as before; of the first one all there is room for. */
static void draw_lengths(call *c, int room, uint64_t draw) {
  int32_t *used = c->host[USED_K];
  uint64_t state = draw;
  for (int b = 0; b < c->count; ++b) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const int drawn = (int)(state >> 40);
    if (draw == 0 || drawn % 4 != 0)
      used[b] = draw == 0 || drawn % 7 == 1 ? room : drawn % 9 == 2 ? 0 : drawn % room;
  }
}

/* Batch-invariant calls of a query each that guess their lengths before the kernel before has written
 * them: whatever was there, they have the bits of calls that guess nothing. */
static void test_late_lengths(void) {
  enum { WORKSPACE_BYTES = 32 << 20, DRAWS = 12, MOST = 32 };
  static const struct {
    int count, room, few; /* 1: few rows are added up by a kernel of their own */
    const char *kernel;
    shape of;
  } late[] = {
      {9, 1990, 0, "_ready_", {32, 8, 128, 128, ATTNPRESS_BF16, ATTNPRESS_FULL, .cached = 1}},
      {2, 1990, 1, "_ready_", {32, 8, 128, 128, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, .page_size = 16}},
      {MOST, 1990, 0, "_ready_", {16, 2, 64, 64, ATTNPRESS_FP16, ATTNPRESS_FULL, .cached = 1}},
      {5, 1990, 1, "_ready_", {32, 8, 64, 64, ATTNPRESS_BF16, ATTNPRESS_FULL, .page_size = 1}},
      {6, 1990, 0, "_ready_", {32, 8, 64, 64, ATTNPRESS_BF16, ATTNPRESS_FULL, .page_size = 16}},
      {2, 2048, 1, "_ready_", {32, 8, 128, 128, ATTNPRESS_FP16, ATTNPRESS_FULL, .cached = 1}},
      {1, 8192, 1, "_ready_", {32, 8, 64, 64, ATTNPRESS_BF16, ATTNPRESS_FULL, .cached = 1}},
      {1, 8192, 1, "_ready_", {32, 8, 128, 128, ATTNPRESS_BF16, ATTNPRESS_FULL, .page_size = 16}},
      {1, 1990, 0, "_shared_", {32, 8, 128, 128, ATTNPRESS_BF16, ATTNPRESS_FULL, .page_size = 16}},
      {1, 1990, 0, "_pairs_", {32, 8, 64, 64, ATTNPRESS_BF16, ATTNPRESS_FULL, .page_size = 16}},
      {2, 1990, 0, "_pairs_", {32, 8, 64, 64, ATTNPRESS_FP16, ATTNPRESS_CAUSAL, .cached = 1}},
  };
  int ones[MOST];
  CUmodule module;
  CUfunction function;
  CUdeviceptr next;
  if (gpu.capability != 90)
    return;
  for (int i = 0; i < MOST; ++i)
    ones[i] = 1;
  CHECK_CUDA(gpu.module_load_data(&module, late_ptx));
  CHECK_CUDA(gpu.module_get_function(&function, module, "late"));
  CHECK_CUDA(gpu.mem_alloc(&next, MOST * sizeof(int32_t)));
  for (size_t i = 0; i < sizeof late / sizeof *late && failures == 0; ++i) {
    const shape *s = &late[i].of;
    attnpress_plan *plan = NULL;
    attnpress_info info = ATTNPRESS_INFO_INIT;
    call c;
    open_call(&c, s, ones, late[i].count, late[i].room);
    free(c.host[WORKSPACE]);
    CHECK_CUDA(gpu.mem_free(c.device[WORKSPACE]));
    add(&c, WORKSPACE, WORKSPACE_BYTES);
    attnpress_forward_args *a = &c.args[1];
    a->workspace = (void *)(uintptr_t)c.device[WORKSPACE];
    a->workspace_bytes = WORKSPACE_BYTES;
    a->batch_invariant = 1;
    a->lse = NULL;
    for (int b = 0; b < c.count; ++b)
      ((int32_t *)c.host[INDEX])[b] = b;
    draw_lengths(&c, late[i].room, 0);
    fill(&c, 7);
    for (int which = Q; which <= TABLE; ++which)
      CHECK_CUDA(gpu.memcpy_htod(c.device[which], c.host[which], c.bytes[which]));

    /* The same rows as a batch of dense queries, of which the lengths of keys are all that is read. */
    attnpress_ragged alone = c.ragged[1];
    alone.cu_seqlens_q = NULL;
    alone.kv_batch_idx = NULL;
    alone.max_seqlen_q = 0;
    attnpress_forward_args guessing = *a;
    guessing.ragged = &alone;
    attnpress_tensor *const rows[] = {&guessing.q, &guessing.out};
    for (int n = 0; n < 2; ++n) {
      rows[n]->data = (uint16_t *)rows[n]->data + rows[n]->stride[1];
      rows[n]->shape[0] = c.count;
      rows[n]->shape[1] = 1;
      rows[n]->stride[0] = rows[n]->stride[1];
    }
    if (s->cached)
      guessing.k.shape[0] = guessing.v.shape[0] = c.count;
    CHECK_OK(attnpress_plan_forward(handle, &guessing, NULL, &plan));
    CHECK_OK(attnpress_plan_launch(plan, 0, &info));
    CHECK(strstr(info.stem, late[i].kernel) != NULL);
    CHECK_OK(attnpress_plan_launch(plan, attnpress_plan_launch_count(plan) - 1, &info));
    CHECK((strstr(info.stem, "_few_") != NULL) == late[i].few);
    attnpress_plan_destroy(plan);

    void *want = malloc(c.bytes[OUT]);
    int32_t count = c.count, ns = 6000;
    void *parameters[] = {&c.device[USED_K], &next, &count, &ns};
    for (uint64_t draw = 1; draw <= DRAWS && failures == 0; ++draw) {
      void *before = memcpy(malloc(c.bytes[USED_K]), c.host[USED_K], c.bytes[USED_K]);
      draw_lengths(&c, late[i].room, draw);
      CHECK_CUDA(gpu.memcpy_htod(c.device[USED_K], c.host[USED_K], c.bytes[USED_K]));
      run(&c);
      memcpy(want, c.host[OUT], c.bytes[OUT]);
      CHECK_CUDA(gpu.memcpy_htod(c.device[USED_K], before, c.bytes[USED_K]));
      CHECK_CUDA(gpu.memcpy_htod(next, c.host[USED_K], c.bytes[USED_K]));
      poison(&c, NULL);
      CHECK_CUDA(gpu.ctx_synchronize());
      CHECK_CUDA(gpu.launch_kernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
      CHECK_OK(attnpress_forward(handle, &guessing, NULL));
      fetch(&c);
      CHECK(memcmp(want, c.host[OUT], c.bytes[OUT]) == 0);
      free(before);
    }
    free(want);
    close_call(&c);
  }
  CHECK_CUDA(gpu.mem_free(next));
  CHECK_CUDA(gpu.module_unload(module));
}

static void tests(void) {
  run_part("table", test_table);
  run_part("few queries", test_few_queries);
  run_part("scores", test_scores);
  run_part("invariant", test_invariant);
  run_part("invariant_scores", test_invariant_scores);
  run_part("late lengths", test_late_lengths);
  run_part("repeats", test_repeats);
  run_part("graph", test_graph);
  run_part("runs", test_runs);
  run_part("many", test_many);
  run_part("units", test_units);
  run_part("ready", test_ready);
  run_part("ready_graph", test_ready_graph);
}

int main(void) {
  return run_on_gpu(tests);
}
