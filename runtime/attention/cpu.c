/* The CPU backend: turns a call into row blocks, the tasks of its threads. What a row block does is
 * in cpu_kernel.inc.h. */
#include "attention/cpu.h"

#include "attention/cpu_kernel.h"
#include "attention/defaults.h"
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
  p.row_blocks = (p.seqlen_q * p.group + AP_CPU_ROWS - 1) / AP_CPU_ROWS;
  return p;
}

/* ---- Tasks ---- */

typedef struct job {
  ap_cpu_problem problem;
  ap_cpu_row_block *row_block;
} job;

/* Tasks of one batch and key head lie together, so that K and V stay in the cache; within them the
 * last rows, which under a causal mask see the most keys, come first. */
static void run_task(const void *argument, void *scratch, int64_t task) {
  const job *j = argument;
  const ap_cpu_problem *p = &j->problem;
  const int64_t rows = p->seqlen_q * p->group;
  int64_t block = p->row_blocks - 1 - task % p->row_blocks, head = task / p->row_blocks;
  int64_t row_begin = block * AP_CPU_ROWS, left = rows - row_begin;
  j->row_block(p, scratch, head / p->heads_kv, head % p->heads_kv, row_begin,
               left < AP_CPU_ROWS ? (int)left : AP_CPU_ROWS);
}

attnpress_status ap_cpu_forward_isa(const attnpress_forward_args *args, int num_threads,
                                    ap_cpu_isa isa) {
  const job j = {.problem = problem_of(args), .row_block = row_block_of(isa)};
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
