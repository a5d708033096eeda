/* The backward pass on the present GPU, against float64: every multiple of 8 up to 256 and some
 * above, both structures, every mask and what else is done to scores, groups of query heads, lengths
 * that divide nothing, zero lengths, gaps between rows, batches more than 2^31 elements apart; equal
 * bits where asked for; graphs; ragged batches, beside which all is NaN. Rows of the table run in
 * threads of their own, each on a stream of its own. Ends with status 77 where there is no CUDA
 * device. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tools/reference_backward.h"
#include "../tools/score_options.h"
#include "../tools/sequences.h"
#include "attention/defaults.h"
#include "gpu_support.h"

enum { THREADS_MAX = 16 };
enum {
  Q,
  K,
  V,
  OUT,
  DOUT,
  DQ,
  DK,
  DV,
  TENSORS,
  LSE = TENSORS,
  DLSE,
  DSINKS,
  DBIAS,
  WORKSPACE,
  BUFFERS
};
enum { DENSE, HEADS_FIRST, GAPS, FAR, LAYOUTS };

typedef struct row {
  int batch, heads, kv_heads, seqlen_q, seqlen_k, hdim, hdim_v;
  int dtype, mask, deterministic, layout, with_dlse, accumulate;
  const score_options *scores; /* NULL: nothing */
} row;

/* ---- A call ---------------------------------------------------------------------------------- */

typedef struct call {
  row r;
  attnpress_backward_args host, device; /* the same except for pointers and batch strides */
  void *memory[BUFFERS];
  size_t bytes[BUFFERS]; /* of a batch of a tensor; of all of the others */
  int64_t far[TENSORS];  /* batch stride on the device, in elements */
  CUdeviceptr buffer[BUFFERS], score_buffer[SCORE_BUFFERS];
  score_data scores;
  score_groups device_scores;
  attnpress_dbias dbias, device_dbias;
  attnpress_dbuffer dbuffers[SNIPPET_BUFFERS], device_dbuffers[SNIPPET_BUFFERS];
  size_t dbuffer_bytes[SNIPPET_BUFFERS];
  CUdeviceptr dbuffer[SNIPPET_BUFFERS];
  float *before[REFERENCE_GRADIENTS];
  CUstream stream;
} call;

static attnpress_tensor *tensor_of(attnpress_backward_args *a, int which) {
  attnpress_tensor *const all[] = {&a->q, &a->k, &a->v, &a->out, &a->dout, &a->dq, &a->dk, &a->dv};
  return all[which];
}

static void describe(const row *r, int which, attnpress_tensor *t) {
  const int keys = which == K || which == V || which == DK || which == DV;
  const int values = which == V || which == OUT || which == DOUT || which == DV;
  const int64_t seqlen = keys ? r->seqlen_k : r->seqlen_q, heads = keys ? r->kv_heads : r->heads;
  const int64_t hdim = values ? r->hdim_v : r->hdim;
  *t = r->layout == HEADS_FIRST
           ? attnpress_tensor_bhsd(NULL, r->batch, seqlen, heads, hdim, r->dtype)
           : attnpress_tensor_bshd(NULL, r->batch, seqlen, heads, hdim, r->dtype);
  if (r->layout == GAPS) {
    t->stride[2] = hdim + 8 * (which + 1);
    t->stride[1] = heads * t->stride[2] + 16;
    t->stride[0] = seqlen * t->stride[1] + 24;
  }
}

static void copy(call *c, int which, int to_device) {
  const size_t size = 2;
  for (int64_t b = 0; b < c->r.batch; ++b) {
    char *host =
        (char *)c->memory[which] + (size_t)(b * tensor_of(&c->host, which)->stride[0]) * size;
    const CUdeviceptr device = c->buffer[which] + (CUdeviceptr)(b * c->far[which]) * size;
    if (c->bytes[which] == 0)
      continue;
    if (to_device)
      CHECK_CUDA(gpu.memcpy_htod(device, host, c->bytes[which]));
    else
      CHECK_CUDA(gpu.memcpy_dtoh(host, device, c->bytes[which]));
  }
}

static void open_tensor(call *c, int which) {
  attnpress_tensor *t = tensor_of(&c->host, which);
  describe(&c->r, which, t);
  const int64_t span = reference_span(t);
  c->memory[which] = malloc((size_t)span * 2 + 16);
  memset(c->memory[which], 0xff, (size_t)span * 2);
  t->data = c->memory[which];
  c->bytes[which] = span == 0 ? 0 : (size_t)(span - (t->shape[0] - 1) * t->stride[0]) * 2;
  c->far[which] = c->r.layout == FAR ? (INT64_C(1) << 31) + 64 : t->stride[0];
  const size_t last = t->shape[0] > 0 ? (size_t)((t->shape[0] - 1) * c->far[which]) * 2 : 0;
  CHECK_CUDA(gpu.mem_alloc(&c->buffer[which], last + c->bytes[which] + 16));
}

static float *open_rows(call *c, int which, int64_t stride[2]) {
  const int64_t gap = c->r.layout == GAPS ? which : 0;
  stride[1] = c->r.seqlen_q + gap;
  stride[0] = c->r.heads * stride[1] + gap;
  c->bytes[which] = (size_t)(c->r.batch * stride[0]) * sizeof(float);
  c->memory[which] = malloc(c->bytes[which] + 16);
  memset(c->memory[which], 0xff, c->bytes[which]);
  CHECK_CUDA(gpu.mem_alloc(&c->buffer[which], c->bytes[which] + 16));
  return c->memory[which];
}

static float *keep(const attnpress_tensor *t) {
  float *values =
      malloc((size_t)(t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3] + 1) * sizeof *values);
  float *to = values;
  for (int64_t b = 0; b < t->shape[0]; ++b)
    for (int64_t i = 0; i < t->shape[1]; ++i)
      for (int64_t h = 0; h < t->shape[2]; ++h)
        for (int64_t d = 0; d < t->shape[3]; ++d)
          *to++ = reference_load(t, b, i, h, d);
  return values;
}

/* What the row does to scores, on the host; with sinks, room for the gradient by them. */
static void open_scores(call *c) {
  attnpress_forward_args forward = ap_forward_of(&c->host);
  char why[512];
  if (c->r.scores == NULL)
    return;
  if (score_data_read(&c->scores, c->r.scores, why, sizeof why) != 0) {
    printf("FAILED: %s\n", why);
    fflush(stdout);
    _Exit(1); /* other threads are at work */
  }
  score_data_describe(&c->scores, c->r.scores, c->r.mask == ATTNPRESS_CAUSAL, 5, &forward);
  ap_put_scores(&c->host, &forward);
  CHECK(score_data_allocate(&c->scores, 6) == 0);
  if (c->r.scores->sinks) {
    c->bytes[DSINKS] = (size_t)c->r.heads * sizeof(float);
    c->host.dsinks = c->memory[DSINKS] = calloc((size_t)c->r.heads, sizeof(float));
    CHECK_CUDA(gpu.mem_alloc(&c->buffer[DSINKS], c->bytes[DSINKS]));
    CHECK_CUDA(gpu.memcpy_htod(c->buffer[DSINKS], c->memory[DSINKS], c->bytes[DSINKS]));
  }
}

/* With a bias, room for the gradient by it, in fp32; what it has one of takes turns. */
static void open_dbias(call *c) {
  attnpress_dbias *d = &c->dbias;
  int64_t count = 1;
  if (c->host.bias == NULL)
    return;
  *d = (attnpress_dbias)ATTNPRESS_DBIAS_INIT;
  d->dtype = ATTNPRESS_FP32;
  for (int i = 3; i >= 0; --i) {
    d->shape[i] =
        i < 3 && (c->r.hdim / 8 + c->r.deterministic) >> i & 1 ? 1 : c->host.bias->shape[i];
    d->stride[i] = count;
    count *= d->shape[i];
  }
  c->bytes[DBIAS] = (size_t)count * sizeof(float);
  c->memory[DBIAS] = d->data = malloc(c->bytes[DBIAS] + 16);
  memset(d->data, 0xff, c->bytes[DBIAS]);
  CHECK_CUDA(gpu.mem_alloc(&c->buffer[DBIAS], c->bytes[DBIAS] + 16));
  CHECK_CUDA(gpu.memcpy_htod(c->buffer[DBIAS], d->data, c->bytes[DBIAS]));
  c->host.dbias = d;
}

/* Where a snippet has a score, the gradients of its buffers of floats: of one layout, so that there are
 * calls without. Not of deterministic calls. */
static void open_dbuffers(call *c) {
  const attnpress_score_mod *m = c->host.score_mod;
  if (m == NULL || m->score == NULL || c->r.deterministic || c->r.layout == HEADS_FIRST)
    return;
  for (int i = 0; i < m->buffer_count; ++i) {
    const attnpress_score_buffer *b = &m->buffers[i];
    attnpress_dbuffer *d = &c->dbuffers[i];
    int64_t count = 1;
    if (b->dtype == ATTNPRESS_INT32)
      continue;
    for (int n = b->rank - 1; n >= 0; --n) {
      d->stride[n] = count;
      count *= b->shape[n];
    }
    c->dbuffer_bytes[i] = (size_t)count * sizeof(float);
    d->data = calloc((size_t)count, sizeof(float));
    CHECK_CUDA(gpu.mem_alloc(&c->dbuffer[i], c->dbuffer_bytes[i]));
    CHECK_CUDA(gpu.memcpy_htod(c->dbuffer[i], d->data, c->dbuffer_bytes[i]));
    c->device_dbuffers[i] = *d;
    c->device_dbuffers[i].data = (float *)(uintptr_t)c->dbuffer[i];
  }
  c->host.dbuffers = c->dbuffers;
}

/* The same on the device. */
static void move_scores(call *c) {
  void *pointers[SCORE_BUFFERS] = {NULL};
  attnpress_forward_args forward = ap_forward_of(&c->device);
  for (int i = 0; i < SCORE_BUFFERS; ++i) {
    if (c->scores.bytes[i] == 0)
      continue;
    CHECK_CUDA(gpu.mem_alloc(&c->score_buffer[i], c->scores.bytes[i]));
    CHECK_CUDA(gpu.memcpy_htod(c->score_buffer[i], c->scores.buffers[i], c->scores.bytes[i]));
    pointers[i] = (void *)(uintptr_t)c->score_buffer[i];
  }
  score_groups_move(&c->device_scores, &c->scores.host, pointers, &forward);
  ap_put_scores(&c->device, &forward);
  c->device.dsinks = (float *)(uintptr_t)c->buffer[DSINKS];
  c->device_dbias = c->dbias;
  c->device_dbias.data = (void *)(uintptr_t)c->buffer[DBIAS];
  c->device.dbias = c->host.dbias != NULL ? &c->device_dbias : NULL;
  c->device.dbuffers = c->host.dbuffers != NULL ? c->device_dbuffers : NULL;
}

static void open_call(call *c, const row *r) {
  *c = (call){.r = *r, .host = ATTNPRESS_BACKWARD_ARGS_INIT};
  attnpress_backward_args *a = &c->host;
  CHECK_CUDA(gpu.stream_create(&c->stream, CU_STREAM_NON_BLOCKING));
  a->mask = r->mask;
  a->deterministic = r->deterministic;
  a->accumulate = r->accumulate;
  for (int i = 0; i < TENSORS; ++i)
    open_tensor(c, i);
  a->lse = open_rows(c, LSE, a->lse_stride);
  open_scores(c);
  open_dbias(c);
  open_dbuffers(c);
  reference_fill_normal(&a->q, 1);
  reference_fill_normal(&a->k, 2);
  reference_fill_normal(&a->v, 3);
  reference_fill_normal(&a->dout, 4);
  CHECK(reference_fill_forward(a) == 0);
  if (r->with_dlse) {
    float *dlse = open_rows(c, DLSE, a->dlse_stride);
    for (size_t i = 0; i < c->bytes[DLSE] / sizeof *dlse; ++i)
      dlse[i] = (float)((int)(i * 7 % 11) - 5) * 0.125f;
    a->dlse = dlse;
  }
  for (int i = 0; i < REFERENCE_GRADIENTS && r->accumulate; ++i) {
    reference_fill_normal(tensor_of(a, DQ + i), 60 + (uint64_t)i);
    c->before[i] = keep(tensor_of(a, DQ + i));
  }
  c->device = c->host;
  for (int i = 0; i < TENSORS; ++i) {
    tensor_of(&c->device, i)->data = (void *)(uintptr_t)c->buffer[i];
    if (r->batch > 1)
      tensor_of(&c->device, i)->stride[0] = c->far[i];
    copy(c, i, 1);
  }
  for (int i = LSE; i <= DLSE; ++i)
    if (c->buffer[i] && c->bytes[i] > 0)
      CHECK_CUDA(gpu.memcpy_htod(c->buffer[i], c->memory[i], c->bytes[i]));
  c->device.lse = (const float *)(uintptr_t)c->buffer[LSE];
  c->device.dlse = (const float *)(uintptr_t)c->buffer[DLSE];
  move_scores(c);

  attnpress_plan *plan = NULL;
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  options.stream = c->stream;
  CHECK_OK(attnpress_plan_backward(handle, &c->device, &options, &plan));
  CHECK_OK(attnpress_plan_workspace_bytes(plan, &c->device.workspace_bytes));
  attnpress_plan_destroy(plan);
  c->bytes[WORKSPACE] = c->device.workspace_bytes;
  CHECK_CUDA(gpu.mem_alloc(&c->buffer[WORKSPACE], c->bytes[WORKSPACE] + 16));
  CHECK_CUDA(gpu.memset_d8_async(c->buffer[WORKSPACE], 0xff, c->bytes[WORKSPACE] + 16, c->stream));
  c->device.workspace = (void *)(uintptr_t)c->buffer[WORKSPACE];
  CHECK_CUDA(gpu.stream_synchronize(c->stream));
}

static void close_call(call *c) {
  for (int i = 0; i < BUFFERS; ++i) {
    free(c->memory[i]);
    if (c->buffer[i])
      gpu.mem_free(c->buffer[i]);
  }
  for (int i = 0; i < SCORE_BUFFERS; ++i)
    if (c->score_buffer[i])
      gpu.mem_free(c->score_buffer[i]);
  score_data_free(&c->scores);
  for (int i = 0; i < SNIPPET_BUFFERS; ++i) {
    free(c->dbuffers[i].data);
    if (c->dbuffer[i])
      gpu.mem_free(c->dbuffer[i]);
  }
  for (int i = 0; i < REFERENCE_GRADIENTS; ++i)
    free(c->before[i]);
  gpu.stream_destroy(c->stream);
}

static void fetch(call *c) {
  CHECK_CUDA(gpu.stream_synchronize(c->stream));
  for (int i = DQ; i <= DV; ++i)
    copy(c, i, 0);
  if (c->buffer[DSINKS])
    CHECK_CUDA(gpu.memcpy_dtoh(c->memory[DSINKS], c->buffer[DSINKS], c->bytes[DSINKS]));
  if (c->buffer[DBIAS])
    CHECK_CUDA(gpu.memcpy_dtoh(c->memory[DBIAS], c->buffer[DBIAS], c->bytes[DBIAS]));
  for (int i = 0; i < SNIPPET_BUFFERS; ++i)
    if (c->dbuffer[i])
      CHECK_CUDA(gpu.memcpy_dtoh(c->dbuffers[i].data, c->dbuffer[i], c->dbuffer_bytes[i]));
}

static void check_dsinks(const call *c) {
  reference_gradient e = {0};
  for (int h = 0; h < c->r.heads; ++h)
    CHECK(reference_check_dsinks(&c->host, h, 0.0f, &e) == 0);
  __atomic_fetch_add(&checks, 1, __ATOMIC_RELAXED);
  if (e.error <= reference_gradient_bound(&e))
    return;
  __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
  printf("FAILED: dsinks of head %d is %.6g, expected %.6g, where %.3g is allowed\n", (int)e.at[2],
         e.value, e.expected, reference_gradient_bound(&e));
}

/* Rows with scores do not accumulate. */
static void check_dbias(const call *c) {
  reference_gradient e = {0};
  for (int64_t b = 0; b < c->dbias.shape[0]; ++b)
    for (int64_t h = 0; h < c->dbias.shape[1]; ++h)
      CHECK(reference_check_dbias(&c->host, b, h, NULL, &e) == 0);
  __atomic_fetch_add(&checks, 1, __ATOMIC_RELAXED);
  if (e.error <= reference_gradient_bound(&e))
    return;
  __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
  printf(
      "FAILED: dbias, head dim %d, mask %d, deterministic %d: batch %d, row %d, head %d, key %d is "
      "%.6g, expected %.6g, where %.3g is allowed\n",
      c->r.hdim, c->r.mask, c->r.deterministic, (int)e.at[0], (int)e.at[1], (int)e.at[2],
      (int)e.at[3], e.value, e.expected, reference_gradient_bound(&e));
}

static void check_dbuffers(const call *c) {
  reference_gradient e = {0};
  CHECK(reference_check_dbuffers(&c->host, 0.0f, &e) == 0);
  __atomic_fetch_add(&checks, 1, __ATOMIC_RELAXED);
  if (e.error <= reference_gradient_bound(&e))
    return;
  __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
  printf("FAILED: the gradient by %s of the snippet %s, head dim %d, mask %d: element %d is %.6g, "
         "expected %.6g, where %.3g is allowed\n",
         c->host.score_mod->buffers[e.at[0]].name, c->host.score_mod->name, c->r.hdim, c->r.mask,
         (int)e.at[1], e.value, e.expected, reference_gradient_bound(&e));
}

static void check_gradients(const call *c, const char *what) {
  const row *r = &c->r;
  reference_gradient errors[REFERENCE_GRADIENTS] = {0};
  CHECK(reference_check_backward(&c->host, r->accumulate ? (const float *const *)c->before : NULL,
                                 errors) == 0);
  const reference_gradient *worst = reference_worst_gradient(errors);
  __atomic_fetch_add(&checks, 1, __ATOMIC_RELAXED);
  if (worst == NULL)
    return;
  __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
  printf("FAILED: %s: batch %d, %d/%d heads, %d queries, %d keys, head dims %d/%d, dtype %d, mask "
         "%d, deterministic %d, layout %d: %s is off by %.3g, where %.3g is allowed: batch %d, row "
         "%d, head %d, column %d is %.6g, expected %.6g\n",
         what, r->batch, r->heads, r->kv_heads, r->seqlen_q, r->seqlen_k, r->hdim, r->hdim_v,
         r->dtype, r->mask, r->deterministic, r->layout, worst->name, worst->error,
         reference_gradient_bound(worst), (int)worst->at[0], (int)worst->at[1], (int)worst->at[2],
         (int)worst->at[3], worst->value, worst->expected);
}

static void test_row(const row *r) {
  call c;
  open_call(&c, r);
  CHECK_OK(attnpress_backward(handle, &c.device, c.stream));
  fetch(&c);
  check_gradients(&c, "table");
  if (c.host.dsinks != NULL)
    check_dsinks(&c);
  if (c.host.dbias != NULL)
    check_dbias(&c);
  if (c.host.dbuffers != NULL)
    check_dbuffers(&c);
  close_call(&c);
}

/* ---- The table ------------------------------------------------------------------------------- */

enum { ROWS_MAX = 256 };
static row table[ROWS_MAX];
static int table_rows, next_row;

static void add_row(row r) {
  if (table_rows == ROWS_MAX)
    give_up("more rows than the table holds");
  table[table_rows++] = r;
}

/* What is done to scores takes turns with the rest: on all head dims of the sm80 template, and on those
 * of the sm90 templates. */
static void add_scores(void) {
  static const score_options all[] = {
      {.windowed = 1, .left = 60, .right = 3},
      {.windowed = 1, .left = -1, .right = 0, .top_left = 1},
      {.windowed = 1, .left = -1, .right = -1, .chunk = 70},
      {.softcap = 3.0f},
      {.alibi = 1},
      {.bias = ATTNPRESS_BF16},
      {.bias = ATTNPRESS_FP32, .softcap = 10.0f},
      {.sinks = 1},
      {.dropout = 0.2f},
      {.windowed = 1, .left = 90, .right = 0, .softcap = 5.0f, .sinks = 1, .dropout = 0.5f},
      {.bias = ATTNPRESS_FP16, .alibi = 1, .dropout = 0.1f, .softcap = 8.0f},
      {.bias = ATTNPRESS_FP32, .dropout = 0.3f},
      {.alibi = 1, .windowed = 1, .left = 70, .right = 5, .dropout = 0.1f},
  };
  static const int hdims[] = {8, 40, 64, 72, 96, 128, 160, 192, 256, 320, 512};
  enum { SCORES = sizeof all / sizeof *all, HDIMS = sizeof hdims / sizeof *hdims };
  for (int i = 0; i < SCORES; ++i)
    for (int n = 0; n < 4; ++n) {
      const int hdim = hdims[(3 * i + n * 4) % HDIMS], turn = i + n;
      add_row((row){1, 4, 2, 150 + i, 190 - n, hdim, hdim, 1 + turn % 2, turn % 3 == 0, n % 2,
                    turn % 3, turn % 4 == 0, 0, &all[i]});
    }
  static const int sm90_hdims[] = {64, 72, 96, 104, 128};
  for (int i = 0; i < SCORES; ++i)
    for (int n = 0; n < 2; ++n) {
      const int hdim = sm90_hdims[(i + n * 3) % 5], turn = i + n;
      add_row((row){2, 4, 1 + i % 2, 300 + i, 260 + 7 * n, hdim, hdim, 1 + turn % 2, turn % 3 == 0,
                    n, turn % 3, turn % 4 == 1, 0, &all[i]});
    }
}

/* Snippets: shipped ones, every kind of name with a mask that empties rows and key blocks, and a
 * derivative of the caller's. */
static void add_snippets(void) {
#define SHIPPED(name) ATTNPRESS_TESTS_DIR "/../python/attnpress/mods/" name ".mod"
#define OWN(name)     ATTNPRESS_TESTS_DIR "/emulator/mods/" name ".mod"
  static const score_options all[] = {
      {.mod = SHIPPED("softcap"), .mod_scalars = {"cap=3"}},
      {.mod = SHIPPED("alibi")},
      {.mod = SHIPPED("t5_bias"), .sinks = 1},
      {.mod = SHIPPED("window"), .mod_scalars = {"left=40"}},
      {.mod = SHIPPED("document")},
      {.mod = OWN("both"), .softcap = 5.0f, .dropout = 0.2f},
      {.mod = OWN("both"), .windowed = 1, .left = 90, .right = 10},
      {.mod = OWN("grad")},
      {.mod = OWN("reads")},
  };
#undef SHIPPED
#undef OWN
  static const int hdims[] = {64, 96, 40, 128, 256, 320};
  enum { SNIPPETS = sizeof all / sizeof *all, HDIMS = sizeof hdims / sizeof *hdims };
  for (int i = 0; i < SNIPPETS; ++i)
    for (int deterministic = 0; deterministic < 2; ++deterministic) {
      const int hdim = hdims[(2 * i + deterministic) % HDIMS], turn = i + deterministic;
      add_row((row){2, 4, 2, 150 + i, 190 - i, hdim, hdim, 1 + turn % 2, turn % 3 == 0,
                    deterministic, turn % 2, turn % 4 == 0, 0, &all[i]});
    }
}

/* Head dims take turns with everything else. */
static void make_table(void) {
  static const int lengths[][2] = {{200, 330}, {129, 128}, {64, 257}, {321, 65}};
  static const int heads[][2] = {{4, 4}, {4, 1}, {7, 1}, {8, 1}};
  static const int pairs[][2] = {{192, 128}, {64, 128}, {96, 64}, {128, 64}, {256, 128}, {72, 40},
                                 {40, 72},   {8, 512},  {512, 8}, {264, 64}, {120, 136}};
  enum { PAIRS = sizeof pairs / sizeof *pairs };
  static const int large[] = {264, 320, 392, 448, 512};
  for (int n = 1; n <= 32; ++n)
    for (int deterministic = 0; deterministic < 2; ++deterministic) {
      const int turn = n + deterministic;
      add_row((row){1, heads[n % 4][0], heads[n % 4][1], lengths[turn % 4][0], lengths[turn % 4][1],
                    8 * n, 8 * n, 1 + turn % 2, (n / 2 + deterministic) % 2, deterministic,
                    turn % 3, turn % 5 == 0, turn % 4 == 1, NULL});
    }
  for (int i = 0; i < PAIRS; ++i)
    for (int deterministic = 0; deterministic < 2; ++deterministic)
      add_row((row){2, 4, 2, 150, 200, pairs[i][0], pairs[i][1], 1 + i % 2, (i + deterministic) % 2,
                    deterministic, i % 3, 0, 0, NULL});
  for (int i = 0; i < 5; ++i)
    add_row(
        (row){1, 2, 1, 70 + i, 130, large[i], large[i], 1 + i % 2, i % 2, 0, i % 3, 1, 0, NULL});
  for (int deterministic = 0; deterministic < 2; ++deterministic) {
    add_row((row){1, 71, 1, 130, 140, 64, 64, 2, 0, deterministic, 0, 0, 0, NULL});
    add_row((row){1, 2, 2, 0, 140, 64, 64, 2, 0, deterministic, 0, 0, 0, NULL});
    add_row((row){1, 2, 2, 140, 0, 64, 64, 2, 1, deterministic, 0, 0, 0, NULL});
    add_row((row){0, 2, 2, 140, 10, 64, 64, 2, 1, deterministic, 0, 0, 0, NULL});
    add_row((row){3, 2, 2, 1, 1, 64, 64, 2, 1, deterministic, 0, 0, 0, NULL});
    add_row((row){3, 4, 2, 100, 90, 128, 128, 2, 1, deterministic, FAR, 0, 0, NULL});
    add_row((row){1, 1, 1, 700, 900, 128, 128, 1, 1, deterministic, 0, 0, 0, NULL});
  }
  /* More key blocks than SMs, which thread blocks take one after the other. */
  static const int taken[] = {64, 96, 128, 40, 72, 104};
  for (int i = 0; i < 6; ++i)
    add_row((row){40, 4, 1 + i % 2, 150, 700, taken[i], taken[i], 1 + i % 2, i / 2 % 2, 0, i % 3,
                  i % 2, i / 3, NULL});
  /* A round of whole key blocks, and parts of equal steps of the others. */
  add_row((row){33, 8, 1, 300, 700, 64, 64, 2, 0, 0, 0, 0, 0, NULL});
  add_row((row){33, 8, 1, 300, 700, 96, 96, 1, 1, 0, 1, 1, 0, NULL});
  add_row((row){44, 7, 1, 200, 500, 128, 128, 2, 1, 0, 2, 0, 1, NULL});
  add_row((row){30, 8, 1, 200, 500, 192, 192, 2, 1, 0, 0, 1, 0, NULL});
  /* Wide heads: few rows, which stay in shared memory, of a tile, of two, and of a group's two heads; key
   * blocks one after the other; and those of 80 keys, whole and in parts. */
  static const int wide[] = {256, 200, 232};
  static const int shapes[][5] = {{8, 4, 4, 57, 600},   {8, 4, 4, 125, 700},  {20, 4, 2, 52, 350},
                                  {18, 4, 4, 130, 700}, {1, 4, 4, 300, 2600}, {3, 8, 2, 306, 337},
                                  {3, 4, 1, 325, 912}};
  enum { SHAPES = sizeof shapes / sizeof *shapes };
  for (int i = 0; i < 2 * SHAPES; ++i) {
    const int *s = shapes[i / 2], hdim = wide[i % 3];
    add_row((row){s[0], s[1], s[2], s[3], s[4], hdim, hdim, i < 8 ? 1 + i / 2 % 2 : ATTNPRESS_BF16,
                  i % 2, 0, i / 2 % 3, i % 4 == 1, i % 5 == 2, NULL});
  }
  /* And without queries, where nobody sets the counter that they would take them by. */
  add_row((row){40, 4, 2, 0, 700, 64, 64, 2, 0, 0, 0, 0, 0, NULL});
  add_row((row){40, 4, 4, 0, 700, 128, 128, 1, 1, 0, 0, 0, 0, NULL});
  add_scores();
  add_snippets();
}

static void *work(void *unused) {
  (void)unused;
  CHECK_CUDA(gpu.ctx_set_current(gpu.context));
  for (int i; (i = __atomic_fetch_add(&next_row, 1, __ATOMIC_RELAXED)) < table_rows;)
    test_row(&table[i]);
  return NULL;
}

static void test_table(void) {
  pthread_t threads[THREADS_MAX];
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  count = count > THREADS_MAX ? THREADS_MAX : count < 1 ? 1 : count;
  make_table();
  for (long i = 0; i < count; ++i)
    CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
  for (long i = 0; i < count; ++i)
    pthread_join(threads[i], NULL);
}

/* ---- Repeats and graphs ---------------------------------------------------------------------- */

/* Equal bits, run after run, while other work keeps the device busy. */
static void test_repeats(int hdim, int mask) {
  const row r = {2, 8, 2, 500, 700, hdim, hdim, ATTNPRESS_BF16, mask, 1, DENSE, 0, 0, NULL};
  call c, other;
  char *first[3] = {NULL};
  open_call(&c, &r);
  open_call(&other, &r);
  other.device.deterministic = 1;
  for (int i = 0; i < 1000; ++i) {
    if (i % 3 == 0)
      CHECK_OK(attnpress_backward(handle, &other.device, other.stream));
    CHECK_OK(attnpress_backward(handle, &c.device, c.stream));
    if (i % 50 != 0 && i != 999)
      continue;
    fetch(&c);
    for (int g = 0; g < 3; ++g) {
      const size_t bytes = c.bytes[DQ + g] * (size_t)r.batch;
      if (first[g] == NULL)
        first[g] = memcpy(malloc(bytes), c.memory[DQ + g], bytes);
      CHECK(memcmp(first[g], c.memory[DQ + g], bytes) == 0);
    }
  }
  check_gradients(&c, "repeated");
  CHECK_CUDA(gpu.stream_synchronize(other.stream));
  for (int g = 0; g < 3; ++g)
    free(first[g]);
  close_call(&other);
  close_call(&c);
}

/* Captured once, replayed with other data. */
static void test_graph(int deterministic) {
  const row r = {deterministic ? 1 : 40, 4,     2, 300, 280, 96, 96, ATTNPRESS_FP16, 1,
                 deterministic,          DENSE, 1, 0,   NULL};
  call c;
  CUgraph graph;
  CUgraphExec exec;
  open_call(&c, &r);
  CHECK_OK(attnpress_backward(handle, &c.device, c.stream)); /* compiled and loaded */
  CHECK_CUDA(gpu.stream_synchronize(c.stream));
  CHECK_CUDA(gpu.stream_begin_capture(c.stream, 1));
  CHECK_OK(attnpress_backward(handle, &c.device, c.stream));
  CHECK_CUDA(gpu.stream_end_capture(c.stream, &graph));
  CHECK_CUDA(gpu.graph_instantiate(&exec, graph, 0));
  reference_fill_normal(&c.host.dout, 77);
  copy(&c, DOUT, 1);
  CHECK_CUDA(gpu.memset_d8_async(c.buffer[WORKSPACE], 0xff, c.bytes[WORKSPACE], c.stream));
  for (int i = 0; i < 3; ++i)
    CHECK_CUDA(gpu.graph_launch(exec, c.stream));
  fetch(&c);
  check_gradients(&c, "replayed");
  gpu.graph_exec_destroy(exec);
  gpu.graph_destroy(graph);
  close_call(&c);
}

/* ---- Ragged batches -------------------------------------------------------------------------- */

enum { SEQUENCES_MAX = 512, FIRST_ROW = 3, LAST_ROWS = 5, RAGGED_RUNS = 20, SEQUENCES_CHECKED = 6 };

/* Lengths of the keys; queries as many, or `shorter` fewer, at least 0; more where it is negative. */
typedef struct ragged_row {
  const char *name;
  int count, heads, kv_heads, hdim, hdim_v, mask, shorter, deterministic;
} ragged_row;

typedef struct ragged_call {
  ragged_row r;
  attnpress_backward_args host, device;
  attnpress_ragged host_ragged, device_ragged;
  int32_t sums[2][SEQUENCES_MAX + 1]; /* of queries and of keys */
  void *memory[BUFFERS];
  size_t bytes[BUFFERS];
  CUdeviceptr buffer[BUFFERS], arrays[2];
  CUstream stream;
} ragged_call;

/* 512 of 128; a mean of about 200; one long beside short ones; of a key block at most; every third one
 * empty. */
static int length_of(const ragged_row *r, int i) {
  const unsigned drawn = (unsigned)(i + 1) * 2654435761u >> 16;
  if (strcmp(r->name, "equal") == 0)
    return 128;
  if (strcmp(r->name, "mean") == 0)
    return (int)(1 + (drawn % 20 == 0 ? 900 + drawn % 700 : drawn % 320));
  if (strcmp(r->name, "long") == 0)
    return i == r->count / 2 ? 700 : (int)(1 + drawn % 60);
  if (strcmp(r->name, "short") == 0)
    return i % 7 == 3 ? 0 : (int)(1 + drawn % 64);
  return i % 3 == 1 ? 0 : (int)(drawn % 260);
}

static void open_ragged_tensor(ragged_call *c, int which) {
  const int keys = which == K || which == V || which == DK || which == DV;
  const int values = which == V || which == OUT || which == DOUT || which == DV;
  attnpress_tensor *t = tensor_of(&c->host, which);
  *t = attnpress_tensor_bshd(NULL, 1, c->sums[keys][c->r.count] + LAST_ROWS,
                             keys ? c->r.kv_heads : c->r.heads, values ? c->r.hdim_v : c->r.hdim,
                             ATTNPRESS_BF16);
  c->bytes[which] = (size_t)reference_span(t) * 2;
  t->data = c->memory[which] = malloc(c->bytes[which]);
  memset(t->data, 0xff, c->bytes[which]);
  *tensor_of(&c->device, which) = *t;
  CHECK_CUDA(gpu.mem_alloc(&c->buffer[which], c->bytes[which]));
  tensor_of(&c->device, which)->data = (void *)(uintptr_t)c->buffer[which];
}

/* Rows that belong to the sequences, of an input. */
static void fill_ragged_tensor(ragged_call *c, int which) {
  attnpress_tensor part = *tensor_of(&c->host, which);
  part.data = (uint16_t *)part.data + FIRST_ROW * part.stride[1];
  part.shape[1] -= FIRST_ROW + LAST_ROWS;
  reference_fill_normal(&part, 20 + (uint64_t)which);
  CHECK_CUDA(gpu.memcpy_htod(c->buffer[which], c->memory[which], c->bytes[which]));
}

static void open_ragged(ragged_call *c, const ragged_row *r) {
  *c = (ragged_call){.r = *r,
                     .host = ATTNPRESS_BACKWARD_ARGS_INIT,
                     .device = ATTNPRESS_BACKWARD_ARGS_INIT,
                     .host_ragged = ATTNPRESS_RAGGED_INIT};
  CHECK_CUDA(gpu.stream_create(&c->stream, CU_STREAM_NON_BLOCKING));
  c->sums[0][0] = c->sums[1][0] = FIRST_ROW;
  int longest = 0;
  for (int i = 0; i < r->count; ++i) {
    const int keys = length_of(r, i), queries = keys > r->shorter ? keys - r->shorter : 0;
    c->sums[0][i + 1] = c->sums[0][i] + queries;
    c->sums[1][i + 1] = c->sums[1][i] + keys;
    longest = keys > longest ? keys : longest;
  }
  c->host_ragged.batch = r->count;
  c->host_ragged.max_seqlen_q = longest - (r->shorter < 0 ? r->shorter : 0);
  c->host_ragged.max_seqlen_k = longest;
  c->device_ragged = c->host_ragged;
  for (int i = 0; i < 2; ++i) {
    CHECK_CUDA(gpu.mem_alloc(&c->arrays[i], sizeof c->sums[i]));
    CHECK_CUDA(gpu.memcpy_htod(c->arrays[i], c->sums[i], sizeof c->sums[i]));
  }
  c->host_ragged.cu_seqlens_q = c->sums[0];
  c->host_ragged.cu_seqlens_k = c->sums[1];
  c->device_ragged.cu_seqlens_q = (const int32_t *)(uintptr_t)c->arrays[0];
  c->device_ragged.cu_seqlens_k = (const int32_t *)(uintptr_t)c->arrays[1];
  for (int i = 0; i < TENSORS; ++i)
    open_ragged_tensor(c, i);
  fill_ragged_tensor(c, Q);
  fill_ragged_tensor(c, K);
  fill_ragged_tensor(c, V);
  fill_ragged_tensor(c, DOUT);
  for (int i = DQ; i <= DV; ++i)
    CHECK_CUDA(gpu.memcpy_htod(c->buffer[i], c->memory[i], c->bytes[i]));
  c->bytes[LSE] = (size_t)(c->host.q.shape[1] * r->heads) * sizeof(float);
  c->host.lse = c->memory[LSE] = malloc(c->bytes[LSE]);
  CHECK_CUDA(gpu.mem_alloc(&c->buffer[LSE], c->bytes[LSE]));
  CHECK_CUDA(gpu.memset_d8_async(c->buffer[LSE], 0xff, c->bytes[LSE], c->stream));
  CHECK_CUDA(gpu.memset_d8_async(c->buffer[OUT], 0xff, c->bytes[OUT], c->stream));
  c->device.lse = (const float *)(uintptr_t)c->buffer[LSE];
  c->host.mask = c->device.mask = r->mask;
  c->host.ragged = &c->host_ragged;
  c->device.ragged = &c->device_ragged;
  c->device.deterministic = r->deterministic;
}

/* The forward pass, and what it gave on the host. */
static void run_ragged_forward(ragged_call *c) {
  attnpress_plan *plan = NULL;
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_forward_args forward = ap_forward_of(&c->device);
  CUdeviceptr schedule = 0; /* the workspace of this pass */
  forward.num_splits = 1;
  options.stream = c->stream;
  CHECK_OK(attnpress_plan_forward(handle, &forward, &options, &plan));
  CHECK_OK(attnpress_plan_workspace_bytes(plan, &forward.workspace_bytes));
  attnpress_plan_destroy(plan);
  CHECK_CUDA(gpu.mem_alloc(&schedule, forward.workspace_bytes + 16));
  forward.workspace = (void *)(uintptr_t)schedule;
  CHECK_OK(attnpress_forward(handle, &forward, c->stream));
  CHECK_CUDA(gpu.stream_synchronize(c->stream));
  CHECK_CUDA(gpu.mem_free(schedule));
  CHECK_CUDA(gpu.memcpy_dtoh(c->memory[OUT], c->buffer[OUT], c->bytes[OUT]));
  CHECK_CUDA(gpu.memcpy_dtoh(c->memory[LSE], c->buffer[LSE], c->bytes[LSE]));
}

static void make_ragged_workspace(ragged_call *c) {
  attnpress_plan *plan = NULL;
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  options.stream = c->stream;
  CHECK_OK(attnpress_plan_backward(handle, &c->device, &options, &plan));
  CHECK_OK(attnpress_plan_workspace_bytes(plan, &c->device.workspace_bytes));
  attnpress_plan_destroy(plan);
  const size_t bytes = c->device.workspace_bytes + 16;
  CHECK_CUDA(gpu.mem_alloc(&c->buffer[WORKSPACE], bytes));
  CHECK_CUDA(gpu.memset_d8_async(c->buffer[WORKSPACE], 0xff, bytes, c->stream));
  c->device.workspace = (void *)(uintptr_t)c->buffer[WORKSPACE];
}

/* Some sequences from the first to the last, and that nothing beside them was written. */
static void check_ragged(const ragged_call *c) {
  const ragged_row *r = &c->r;
  reference_gradient errors[REFERENCE_GRADIENTS] = {0};
  for (int i = 0; i < SEQUENCES_CHECKED; ++i) {
    const int b = i == 1 ? r->count / 2 : i * (r->count - 1) / (SEQUENCES_CHECKED - 1);
    backward_sequence one;
    CHECK(backward_sequence_open(&one, &c->host, b) == 0);
    CHECK(reference_check_backward_head(&one.args, NULL, b, i % r->kv_heads, errors) == 0);
    backward_sequence_close(&one);
  }
  for (int g = DQ; g <= DV; ++g) {
    const attnpress_tensor *t = tensor_of((attnpress_backward_args *)(uintptr_t)&c->host, g);
    const unsigned char *data = t->data;
    const size_t row = (size_t)t->stride[1] * 2, bytes = c->bytes[g];
    for (size_t i = 0; i < bytes; ++i)
      if ((i < FIRST_ROW * row || i >= bytes - LAST_ROWS * row) && data[i] != 0xff) {
        CHECK(!"a row beside the sequences was written");
        break;
      }
    for (size_t i = FIRST_ROW * row; i < bytes - LAST_ROWS * row; i += 2)
      if ((data[i + 1] & 0x7f) == 0x7f && data[i] >= 0x80) { /* NaN or infinite */
        CHECK(!"a gradient is not finite");
        break;
      }
  }
  const reference_gradient *worst = reference_worst_gradient(errors);
  __atomic_fetch_add(&checks, 1, __ATOMIC_RELAXED);
  if (worst == NULL)
    return;
  __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
  printf(
      "FAILED: ragged %s, %d sequences, %d/%d heads, head dims %d/%d, mask %d, deterministic %d: "
      "%s is off by %.3g, where %.3g is allowed: sequence %d, row %d, head %d, column %d is %.6g, "
      "expected %.6g\n",
      r->name, r->count, r->heads, r->kv_heads, r->hdim, r->hdim_v, r->mask, r->deterministic,
      worst->name, worst->error, reference_gradient_bound(worst), (int)worst->at[0],
      (int)worst->at[1], (int)worst->at[2], (int)worst->at[3], worst->value, worst->expected);
}

static void close_ragged(ragged_call *c) {
  for (int i = 0; i < BUFFERS; ++i) {
    free(c->memory[i]);
    if (c->buffer[i])
      gpu.mem_free(c->buffer[i]);
  }
  gpu.mem_free(c->arrays[0]);
  gpu.mem_free(c->arrays[1]);
  gpu.stream_destroy(c->stream);
}

/* dk and dv have the same bits in every run, and where that is asked for dq too. */
static void test_ragged_row(const ragged_row *r) {
  static ragged_call c;
  char *first[3] = {NULL};
  open_ragged(&c, r);
  run_ragged_forward(&c);
  make_ragged_workspace(&c);
  for (int i = 0; i < (r->deterministic ? RAGGED_RUNS : 3); ++i) {
    CHECK_OK(attnpress_backward(handle, &c.device, c.stream));
    CHECK_CUDA(gpu.stream_synchronize(c.stream));
    for (int g = 0; g < 3; ++g) {
      const size_t bytes = c.bytes[DQ + g];
      CHECK_CUDA(gpu.memcpy_dtoh(c.memory[DQ + g], c.buffer[DQ + g], bytes));
      if (first[g] == NULL)
        first[g] = memcpy(malloc(bytes), c.memory[DQ + g], bytes);
      if (g > 0 || r->deterministic)
        CHECK(memcmp(first[g], c.memory[DQ + g], bytes) == 0);
    }
  }
  check_ragged(&c);
  for (int g = 0; g < 3; ++g)
    free(first[g]);
  close_ragged(&c);
}

/* Captured once, replayed with the same lengths in the opposite order: units are ordered anew. */
static void test_ragged_graph(int sequences, int heads, int deterministic) {
  static ragged_call c;
  const ragged_row r = {"mean", sequences, heads, 2, 128, 128, ATTNPRESS_CAUSAL, 0, deterministic};
  CUgraph graph = NULL;
  CUgraphExec exec = NULL;
  open_ragged(&c, &r);
  run_ragged_forward(&c);
  make_ragged_workspace(&c);
  CHECK_OK(attnpress_backward(handle, &c.device, c.stream)); /* compiled and loaded */
  CHECK_CUDA(gpu.stream_synchronize(c.stream));
  CHECK_CUDA(gpu.stream_begin_capture(c.stream, 1));
  CHECK_OK(attnpress_backward(handle, &c.device, c.stream));
  CHECK_CUDA(gpu.stream_end_capture(c.stream, &graph));
  CHECK_CUDA(gpu.graph_instantiate(&exec, graph, 0));
  for (int side = 0; side < 2; ++side) {
    int32_t *sums = c.sums[side], lengths[SEQUENCES_MAX];
    for (int i = 0; i < r.count; ++i)
      lengths[i] = sums[i + 1] - sums[i];
    for (int i = 0; i < r.count; ++i)
      sums[i + 1] = sums[i] + lengths[r.count - 1 - i];
    CHECK_CUDA(gpu.memcpy_htod(c.arrays[side], sums, sizeof c.sums[side]));
  }
  run_ragged_forward(&c);
  for (int i = 0; i < 3; ++i)
    CHECK_CUDA(gpu.graph_launch(exec, c.stream));
  CHECK_CUDA(gpu.stream_synchronize(c.stream));
  for (int g = DQ; g <= DV; ++g)
    CHECK_CUDA(gpu.memcpy_dtoh(c.memory[g], c.buffer[g], c.bytes[g]));
  check_ragged(&c);
  CHECK_CUDA(gpu.graph_exec_destroy(exec));
  CHECK_CUDA(gpu.graph_destroy(graph));
  close_ragged(&c);
}

static void test_ragged(void) {
  static const ragged_row rows[] = {
      {"equal", 512, 4, 1, 64, 64, ATTNPRESS_FULL, 0, 0},
      {"equal", 512, 7, 1, 128, 128, ATTNPRESS_CAUSAL, 0, 0},
      {"mean", 60, 4, 4, 128, 128, ATTNPRESS_CAUSAL, 0, 0},
      {"mean", 60, 7, 1, 96, 96, ATTNPRESS_FULL, 13, 0},
      {"mean", 270, 4, 4, 128, 128, ATTNPRESS_FULL, 0, 0}, /* units of several key blocks */
      {"mean", 270, 4, 4, 128, 128, ATTNPRESS_CAUSAL, 0, 0},
      {"mean", 270, 8, 4, 104, 104, ATTNPRESS_FULL, 13, 0},
      {"long", 33, 4, 1, 128, 128, ATTNPRESS_FULL, 0, 0},
      {"long", 33, 4, 4, 256, 256, ATTNPRESS_CAUSAL, 30, 0},
      {"long", 9, 16, 2, 128, 128, ATTNPRESS_FULL, 0, 0}, /* parts of groups, as in what follows */
      {"long", 9, 7, 1, 96, 96, ATTNPRESS_CAUSAL, -90, 0},
      {"long", 9, 16, 2, 64, 64, ATTNPRESS_CAUSAL, 0, 0},
      {"long", 9, 8, 1, 256, 256, ATTNPRESS_FULL, 30, 0},
      {"mean", 9, 10, 1, 176, 176, ATTNPRESS_CAUSAL, 0, 0},
      {"mean", 9, 16, 2, 192, 128, ATTNPRESS_FULL, 13, 0},
      {"short", 9, 16, 1, 128, 128, ATTNPRESS_CAUSAL, 5, 0}, /* without a sum of dq */
      {"short", 100, 4, 1, 64, 64, ATTNPRESS_CAUSAL, -90, 0},
      {"short", 100, 4, 2, 128, 128, ATTNPRESS_FULL, 5, 0},
      {"short", 100, 2, 2, 192, 128, ATTNPRESS_CAUSAL, -90, 0},
      {"short", 100, 4, 1, 256, 256, ATTNPRESS_FULL, 0, 0},
      {"repeated", 40, 4, 1, 72, 72, ATTNPRESS_CAUSAL, 100, 0},
      {"repeated", 40, 4, 2, 192, 128, ATTNPRESS_FULL, 0, 0},
      {"repeated", 40, 2, 2, 320, 320, ATTNPRESS_CAUSAL, 0, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    for (int deterministic = 0; deterministic < 2; ++deterministic) {
      ragged_row r = rows[i];
      r.deterministic = deterministic;
      if (in_slice())
        test_ragged_row(&r);
    }
  if (in_slice())
    test_ragged_graph(60, 4, 0);
  if (in_slice())
    test_ragged_graph(60, 4, 1);
  if (in_slice())
    test_ragged_graph(9, 16, 0);
}

static void test_bits(void) {
  test_repeats(64, ATTNPRESS_FULL);
  test_repeats(256, ATTNPRESS_CAUSAL);
}

static void test_graphs(void) {
  test_graph(0);
  test_graph(1);
}

static void tests(void) {
  run_part("ragged", test_ragged);
  run_part("table", test_table);
  run_part("repeats", test_bits);
  run_part("graph", test_graphs);
  printf("%d rows\n", table_rows);
}

int main(void) {
  return run_on_gpu(tests);
}
