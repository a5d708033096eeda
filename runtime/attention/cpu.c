/* The CPU backend: turns a call into row blocks, the tasks of its threads. What a row block does is
 * in cpu_kernel.inc.h. */
#include "attention/cpu.h"

#include "attention/cpu_kernel.h"
#include "attention/defaults.h"
#include "attention/ragged.h"
#include "cpu/threads.h"

static ap_cpu_row_block *row_block_of(ap_cpu_isa isa) {
#if defined(__x86_64__)
  if (isa == AP_CPU_AVX512)
    return ap_cpu_row_block_avx512;
  if (isa == AP_CPU_AVX2)
    return ap_cpu_row_block_avx2;
#endif
  (void)isa;
  return ap_cpu_row_block_plain;
}

/* ---- The call as a problem ---- */

/* The stride of a dimension of extent 1 may be any number, and is not computed with. */
static int64_t stride_of(const attnpress_tensor *t, int dimension) {
  return t->shape[dimension] > 1 ? t->stride[dimension] : 0;
}

/* What is done to scores and probabilities. */
static void describe_features(const attnpress_forward_args *a, ap_cpu_problem *p) {
  const double log2_e = 1.44269504088896340736, scale = ap_scale(a);
  p->q_scale = (float)(a->softcap > 0.0f ? scale / (double)a->softcap : scale * log2_e);
  p->softcap_log2 = (float)((double)a->softcap * log2_e);
  p->mask = ap_mask_of(a);
  if (a->bias != NULL) {
    p->bias = a->bias->data;
    p->bias_dtype = a->bias->dtype;
    p->bias_batch_stride = ap_bias_stride(a->bias, 0);
    p->bias_head_stride = ap_bias_stride(a->bias, 1);
    p->bias_row_stride = ap_bias_stride(a->bias, 2);
    p->bias_key_stride = ap_bias_stride(a->bias, 3);
  }
  if (a->alibi != NULL) {
    p->alibi_slopes = a->alibi->slopes;
    ap_alibi_strides(a->alibi, &p->alibi_batch_stride, &p->alibi_head_stride);
  }
  if (a->sinks != NULL) {
    p->sinks = a->sinks->data;
    p->sinks_dtype = a->sinks->dtype;
    p->sinks_stride = ap_sinks_stride(a->sinks);
  }
  p->dropout = ap_dropout_of(a->dropout);
  p->batch_invariant = a->batch_invariant;
}

/* The batch of a ragged call; the lengths are bounds. */
static void describe_batch(const attnpress_forward_args *a, ap_cpu_problem *p) {
  int64_t lse[3];
  int packed;
  ap_ragged_lse_strides(a, lse, &packed);
  p->batch = a->ragged->batch;
  p->seqlen_q = ap_ragged_queries(a);
  p->seqlen_k = ap_ragged_keys(a);
  p->lse_batch_stride = lse[0];
  p->lse_head_stride = lse[1];
  p->lse_row_stride = lse[2];
  p->lse_log2 = a->ragged->lse_log2;
  p->lse_empty_pos_inf = a->ragged->lse_empty_pos_inf;
}

static ap_cpu_problem problem_of(const attnpress_forward_args *a) {
  const int64_t seqlen_q = a->q.shape[1], heads_q = a->q.shape[2], heads_kv = a->k.shape[2];
  ap_cpu_problem p = {
      .q = a->q.data,
      .k = a->k.data,
      .v = a->v.data,
      .out = a->out.data,
      .lse = a->lse,
      .q_batch_stride = stride_of(&a->q, 0),
      .q_row_stride = stride_of(&a->q, 1),
      .q_head_stride = stride_of(&a->q, 2),
      .k_batch_stride = stride_of(&a->k, 0),
      .k_row_stride = stride_of(&a->k, 1),
      .k_head_stride = stride_of(&a->k, 2),
      .v_batch_stride = stride_of(&a->v, 0),
      .v_row_stride = stride_of(&a->v, 1),
      .v_head_stride = stride_of(&a->v, 2),
      .out_batch_stride = stride_of(&a->out, 0),
      .out_row_stride = stride_of(&a->out, 1),
      .out_head_stride = stride_of(&a->out, 2),
      .batch = a->q.shape[0],
      .heads_kv = heads_kv,
      .group = heads_kv > 0 ? heads_q / heads_kv : 0,
      .seqlen_q = seqlen_q,
      .seqlen_k = a->k.shape[1],
      .hdim = (int32_t)a->q.shape[3],
      .hdim_v = (int32_t)a->v.shape[3],
      .dtype = a->q.dtype,
  };
  describe_features(a, &p);
  ap_lse_strides(a, &p.lse_batch_stride, &p.lse_head_stride);
  p.lse_row_stride = 1;
  if (a->ragged != NULL)
    describe_batch(a, &p);
  p.row_blocks = (p.seqlen_q * p.group + AP_CPU_ROWS - 1) / AP_CPU_ROWS;
  return p;
}

/* ---- Tasks ---- */

typedef struct job {
  ap_cpu_problem problem;
  const attnpress_ragged_args *ragged; /* NULL: every sequence is a batch */
  ap_cpu_row_block *row_block;
} job;

static const void *moved(const void *data, int64_t elements, int32_t dtype) {
  return (const char *)data + elements * (dtype == ATTNPRESS_FP32 ? 4 : 2);
}

/* The problem of sequence b alone: lengths and addresses are its own, and batch strides are 0. */
static ap_cpu_problem problem_of_sequence(const ap_cpu_problem *batch,
                                          const attnpress_ragged_args *ragged, int64_t b) {
  const ap_sequence s = ap_sequence_of(ragged, b, batch->seqlen_q);
  ap_cpu_problem p = *batch;
  p.seqlen_q = p.mask.seqlen_q = s.seqlen_q;
  p.seqlen_k = p.mask.seqlen_k = s.seqlen_k;
  p.mask.center = ragged->window_top_left ? 0 : s.seqlen_k - s.seqlen_q;
  p.q = moved(p.q, s.q_batch * p.q_batch_stride + s.q_begin * p.q_row_stride, p.dtype);
  p.out = (void *)(uintptr_t)moved(
      p.out, s.q_batch * p.out_batch_stride + s.q_begin * p.out_row_stride, p.dtype);
  p.q_batch_stride = p.out_batch_stride = 0;
  if (p.lse != NULL)
    p.lse += ragged->lse_packed ? s.q_begin * p.lse_row_stride : b * p.lse_batch_stride;
  p.lse_batch_stride = 0;
  if (ragged->page_table != NULL) {
    p.page_table = ragged->page_table + s.first_page;
    p.page_table_v = (const int32_t *)((uintptr_t)p.page_table +
                                       (uintptr_t)ragged->page_table_v * sizeof(int32_t));
    p.first_key = s.k_begin;
    p.page_size = ragged->page_size.value;
    p.num_pages = ragged->num_pages;
    return p;
  }
  p.k = moved(p.k, s.k_batch * p.k_batch_stride + s.k_begin * p.k_row_stride, p.dtype);
  p.v = moved(p.v, s.k_batch * p.v_batch_stride + s.k_begin * p.v_row_stride, p.dtype);
  p.k_batch_stride = p.v_batch_stride = 0;
  return p;
}

/* Tasks of one batch and key head lie together, so that K and V stay in the cache; within them the
 * last rows, which under a causal mask see the most keys, come first. */
static void run_task(const void *argument, void *scratch, int64_t task) {
  const job *j = argument;
  const ap_cpu_problem *p = &j->problem;
  ap_cpu_problem sequence;
  int64_t block = p->row_blocks - 1 - task % p->row_blocks, head = task / p->row_blocks;
  if (j->ragged != NULL) {
    sequence = problem_of_sequence(p, j->ragged, head / p->heads_kv);
    p = &sequence;
  }
  const int64_t rows = p->seqlen_q * p->group;
  int64_t row_begin = block * AP_CPU_ROWS, left = rows - row_begin;
  if (left <= 0)
    return; /* past the end of a sequence */
  j->row_block(p, scratch, head / p->heads_kv, head % p->heads_kv, row_begin,
               left < AP_CPU_ROWS ? (int)left : AP_CPU_ROWS);
}

attnpress_status ap_cpu_forward_isa(const attnpress_forward_args *args, int num_threads,
                                    ap_cpu_isa isa) {
  attnpress_ragged_args ragged;
  if (args->ragged != NULL)
    ragged = ap_fill_ragged_args(args);
  const job j = {.problem = problem_of(args),
                 .ragged = args->ragged != NULL ? &ragged : NULL,
                 .row_block = row_block_of(isa)};
  const ap_cpu_problem *p = &j.problem;
  const double pairs = (double)p->batch * (double)p->heads_kv * (double)p->group *
                       (double)p->seqlen_q * (double)p->seqlen_k; /* of a row and a key */
  const ap_cpu_job work = {.run = run_task,
                           .job = &j,
                           .num_tasks = p->batch * p->heads_kv * p->row_blocks,
                           .scratch_bytes = sizeof(ap_cpu_scratch),
                           .operations = pairs * 2.0 * (p->hdim + p->hdim_v)};
  return ap_cpu_run(&work, num_threads);
}

attnpress_status ap_cpu_forward(const attnpress_forward_args *args, int num_threads) {
  return ap_cpu_forward_isa(args, num_threads, ap_cpu_best_isa());
}
