/* The CPU backend's gradients: turns a call into key blocks, which give dK and dV, row blocks, which
 * give dQ, and, where they are wanted, heads, which give the gradients by sinks, and rows of that by the
 * bias: the tasks of its threads. What a block does is in cpu_backward_kernel.inc.h. */
#include "attention/cpu_backward.h"

#include "attention/cpu_backward_kernel.h"
#include "attention/defaults.h"
#include "attention/ragged.h"
#include "attention/score_args.h"
#include "cpu/threads.h"

typedef struct backward_job {
  ap_cpu_backward_problem problem;
  const attnpress_ragged_args *ragged; /* NULL: every sequence is a batch */
  int64_t dlse_packed;                 /* 1: rows of dlse are those of q */
  ap_cpu_backward_block *keys, *rows, *sink, *bias;
  int64_t key_blocks, row_blocks;  /* of a head */
  int64_t key_tasks, row_tasks;    /* they come first and second, */
  int64_t sink_tasks, bias_tasks;  /* and then these */
  int64_t bias_blocks, bias_heads; /* of a head, and of a batch, of the gradient by the bias */
} backward_job;

/* The stride of a dimension of extent 1 may be any number, and is not computed with. */
static ap_cpu_tensor tensor_of(const attnpress_tensor *t) {
  return (ap_cpu_tensor){t->data, t->shape[0] > 1 ? t->stride[0] : 0,
                         t->shape[1] > 1 ? t->stride[1] : 0, t->shape[2] > 1 ? t->stride[2] : 0};
}

static void fill_scores(const attnpress_backward_args *a, ap_cpu_backward_problem *p) {
  if (a->softcap > 0.0f)
    p->softcap_scale = (float)((double)p->scale / (double)a->softcap);
  if (a->bias != NULL) {
    p->bias = a->bias->data;
    p->bias_dtype = a->bias->dtype;
    for (int i = 0; i < 4; ++i)
      p->bias_stride[i] = ap_bias_stride(a->bias, i);
  }
  if (a->alibi != NULL) {
    p->alibi_slopes = a->alibi->slopes;
    ap_alibi_strides(a->alibi, &p->alibi_batch_stride, &p->alibi_head_stride);
  }
  if (a->dsinks != NULL) {
    p->sinks = a->sinks->data;
    p->sinks_stride = ap_sinks_stride(a->sinks);
    p->sinks_dtype = a->sinks->dtype;
    p->dsinks = a->dsinks;
  }
  if (a->dbias != NULL) {
    p->dbias = a->dbias->data;
    p->dbias_dtype = a->dbias->dtype;
    for (int i = 0; i < 4; ++i)
      p->dbias_stride[i] = a->dbias->shape[i] > 1 ? a->dbias->stride[i] : 0;
    for (int i = 0; i < 3; ++i)
      p->dbias_one[i] = a->dbias->shape[i] == 1;
    p->dbias_rows = a->dbias->shape[2];
    p->dbias_keys = a->dbias->shape[3];
  }
  p->dropout = ap_dropout_of(a->dropout);
}

static ap_cpu_backward_problem problem_of(const attnpress_backward_args *a) {
  const attnpress_forward_args forward = ap_forward_of(a);
  ap_cpu_backward_problem p = {
      .q = tensor_of(&a->q),
      .k = tensor_of(&a->k),
      .v = tensor_of(&a->v),
      .out = tensor_of(&a->out),
      .dout = tensor_of(&a->dout),
      .dq = tensor_of(&a->dq),
      .dk = tensor_of(&a->dk),
      .dv = tensor_of(&a->dv),
      .lse = a->lse,
      .dlse = a->dlse,
      .batch = a->q.shape[0],
      .heads_q = a->q.shape[2],
      .heads_kv = a->k.shape[2],
      .seqlen_q = a->q.shape[1],
      .seqlen_k = a->k.shape[1],
      .hdim = (int32_t)a->q.shape[3],
      .hdim_v = (int32_t)a->v.shape[3],
      .dtype = a->q.dtype,
      .accumulate = a->accumulate,
      .scale = (float)ap_scale(&forward),
      .scale_log2 = ap_scale_log2(&forward),
      .mask = ap_mask_of(&forward),
  };
  fill_scores(a, &p);
  ap_row_strides(&a->q, a->lse_stride, &p.lse_batch_stride, &p.lse_head_stride);
  ap_row_strides(&a->q, a->dlse_stride, &p.dlse_batch_stride, &p.dlse_head_stride);
  p.lse_row_stride = p.dlse_row_stride = 1;
  return p;
}

/* The batch of a ragged call, whose lengths are bounds. */
static void describe_batch(const attnpress_backward_args *a, backward_job *j) {
  const attnpress_forward_args forward = ap_forward_of(a);
  ap_cpu_backward_problem *p = &j->problem;
  int64_t lse[3], dlse[3];
  int packed;
  p->batch = a->ragged->batch;
  p->seqlen_q = ap_ragged_queries(&forward);
  p->seqlen_k = ap_ragged_keys(&forward);
  ap_ragged_lse_strides(&forward, lse, &packed);
  p->lse_batch_stride = lse[0];
  p->lse_head_stride = lse[1];
  p->lse_row_stride = lse[2];
  p->lse_log2 = a->ragged->lse_log2;
  ap_ragged_row_strides(&forward, a->dlse_stride, a->dlse_row_stride, dlse, &packed);
  p->dlse_batch_stride = dlse[0];
  p->dlse_head_stride = dlse[1];
  p->dlse_row_stride = dlse[2];
  j->dlse_packed = packed;
}

static void move(ap_cpu_tensor *t, int64_t batch, int64_t row, int32_t dtype) {
  const int64_t elements = batch * t->batch_stride + row * t->row_stride;
  t->data = (char *)t->data + elements * (dtype == ATTNPRESS_FP32 ? 4 : 2);
  t->batch_stride = 0;
}

/* The problem of sequence b alone: lengths and addresses are its own, and batch strides are 0. */
static ap_cpu_backward_problem problem_of_sequence(const backward_job *j, int64_t b) {
  ap_cpu_backward_problem p = j->problem;
  const ap_sequence s = ap_sequence_of(j->ragged, b, p.seqlen_q);
  p.seqlen_q = p.mask.seqlen_q = s.seqlen_q;
  p.seqlen_k = p.mask.seqlen_k = s.seqlen_k;
  p.mask.center = j->ragged->window_top_left ? 0 : s.seqlen_k - s.seqlen_q;
  ap_cpu_tensor *of_queries[] = {&p.q, &p.out, &p.dout, &p.dq};
  ap_cpu_tensor *of_keys[] = {&p.k, &p.v, &p.dk, &p.dv};
  for (int i = 0; i < 4; ++i) {
    move(of_queries[i], s.q_batch, s.q_begin, p.dtype);
    move(of_keys[i], s.k_batch, s.k_begin, p.dtype);
  }
  p.lse += j->ragged->lse_packed ? s.q_begin * p.lse_row_stride : b * p.lse_batch_stride;
  if (p.dlse != NULL)
    p.dlse += j->dlse_packed ? s.q_begin * p.dlse_row_stride : b * p.dlse_batch_stride;
  p.lse_batch_stride = p.dlse_batch_stride = 0;
  return p;
}

static ap_cpu_backward_problem sequence_of_job(const void *job, int64_t b) {
  return problem_of_sequence(job, b);
}

static void choose_blocks(backward_job *j, ap_cpu_isa isa) {
  j->keys = ap_cpu_backward_keys_plain;
  j->rows = ap_cpu_backward_rows_plain;
  j->sink = ap_cpu_backward_sink_plain;
  j->bias = ap_cpu_backward_bias_plain;
#if defined(__x86_64__)
  if (isa == AP_CPU_AVX512) {
    j->keys = ap_cpu_backward_keys_avx512;
    j->rows = ap_cpu_backward_rows_avx512;
    j->sink = ap_cpu_backward_sink_avx512;
    j->bias = ap_cpu_backward_bias_avx512;
  } else if (isa == AP_CPU_AVX2) {
    j->keys = ap_cpu_backward_keys_avx2;
    j->rows = ap_cpu_backward_rows_avx2;
    j->sink = ap_cpu_backward_sink_avx2;
    j->bias = ap_cpu_backward_bias_avx2;
  }
#endif
  (void)isa;
}

/* The gradient by a sink, of one sequence after the other. */
static void run_sink(const backward_job *j, void *scratch, int64_t head) {
  const ap_cpu_backward_problem *p = &j->problem;
  if (j->ragged == NULL) {
    j->sink(p, scratch, 0, head, 0);
    return;
  }
  if (!p->accumulate)
    p->dsinks[head] = 0.0f;
  for (int64_t b = 0; b < p->batch; ++b) {
    ap_cpu_backward_problem sequence = problem_of_sequence(j, b);
    sequence.batch = 1;
    sequence.accumulate = 1;
    j->sink(&sequence, scratch, 0, head, 0);
  }
}

static void run_bias(const backward_job *j, void *scratch, int64_t task) {
  const int64_t of_head = task / j->bias_blocks;
  j->bias(&j->problem, scratch, of_head / j->bias_heads, of_head % j->bias_heads,
          task % j->bias_blocks * AP_CPU_BACKWARD_ROWS);
}

/* Under a causal mask the first keys are seen by the most rows, and the last rows see the most keys:
 * they come first. */
static void run_task(const void *argument, void *scratch, int64_t task) {
  const backward_job *j = argument;
  const ap_cpu_backward_problem *p = &j->problem;
  ap_cpu_backward_problem sequence;
  const int64_t others = task - j->key_tasks - j->row_tasks; /* of them, behind keys and rows */
  if (others >= j->sink_tasks) {
    run_bias(j, scratch, others - j->sink_tasks);
    return;
  }
  if (others >= 0) {
    run_sink(j, scratch, others);
    return;
  }
  const int keys = task < j->key_tasks;
  task -= keys ? 0 : j->key_tasks;
  const int64_t blocks = keys ? j->key_blocks : j->row_blocks, block = task % blocks;
  const int64_t heads = keys ? p->heads_kv : p->heads_q, batch = task / blocks / heads;
  const int64_t begin =
      keys ? block * AP_CPU_BACKWARD_KEYS : (blocks - 1 - block) * AP_CPU_BACKWARD_ROWS;
  if (j->ragged != NULL) {
    sequence = problem_of_sequence(j, batch);
    p = &sequence;
  }
  if (begin < (keys ? p->seqlen_k : p->seqlen_q)) /* not past the end of a sequence */
    (keys ? j->keys : j->rows)(p, scratch, batch, task / blocks % heads, begin);
}

attnpress_status ap_cpu_backward_isa(const attnpress_backward_args *args, int num_threads,
                                     ap_cpu_isa isa) {
  backward_job j = {.problem = problem_of(args)};
  const ap_cpu_backward_problem *p = &j.problem;
  const attnpress_forward_args forward = ap_forward_of(args);
  attnpress_ragged_args ragged;
  if (args->ragged != NULL) {
    ragged = ap_fill_gradient_ragged_args(&forward);
    j.ragged = &ragged;
    describe_batch(args, &j);
    j.problem.sequence = sequence_of_job;
    j.problem.job = &j;
  }
  choose_blocks(&j, isa);
  j.key_blocks = (p->seqlen_k + AP_CPU_BACKWARD_KEYS - 1) / AP_CPU_BACKWARD_KEYS;
  j.row_blocks = (p->seqlen_q + AP_CPU_BACKWARD_ROWS - 1) / AP_CPU_BACKWARD_ROWS;
  j.key_tasks = p->batch * p->heads_kv * j.key_blocks;
  j.row_tasks = p->batch * p->heads_q * j.row_blocks;
  j.sink_tasks = p->dsinks != NULL ? p->heads_q : 0;
  if (p->dbias != NULL) {
    j.bias_blocks =
        p->dbias_one[2] ? 1 : (p->dbias_rows + AP_CPU_BACKWARD_ROWS - 1) / AP_CPU_BACKWARD_ROWS;
    j.bias_heads = p->dbias_one[1] ? 1 : p->heads_q;
    j.bias_tasks = (p->dbias_one[0] ? 1 : p->batch) * j.bias_heads * j.bias_blocks;
  }
  const double pairs = (double)p->batch * (double)p->heads_q * (double)p->seqlen_q *
                       (double)p->seqlen_k; /* of a row and a key */
  const ap_cpu_job work = {.run = run_task,
                           .job = &j,
                           .num_tasks = j.key_tasks + j.row_tasks + j.sink_tasks + j.bias_tasks,
                           .scratch_bytes = sizeof(ap_cpu_backward_scratch),
                           .operations = pairs * 2.0 * (4 * p->hdim + 3 * p->hdim_v)};
  return ap_cpu_run(&work, num_threads);
}

attnpress_status ap_cpu_backward(const attnpress_backward_args *args, int num_threads) {
  return ap_cpu_backward_isa(args, num_threads, ap_cpu_best_isa());
}
