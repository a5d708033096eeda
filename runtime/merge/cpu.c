/* The CPU backend: a task is a row, in double. */
#include "merge/merge.h"

#include <math.h>

#include "cpu/half.h"
#include "cpu/threads.h"

static double load(const void *data, int64_t at, int32_t dtype) {
  if (dtype == ATTNPRESS_FP32)
    return (double)((const float *)data)[at];
  const uint16_t bits = ((const uint16_t *)data)[at];
  return (double)(dtype == ATTNPRESS_FP16 ? ap_float_from_fp16(bits) : ap_float_from_bf16(bits));
}

static void store(void *data, int64_t at, int32_t dtype, double value) {
  if (dtype == ATTNPRESS_FP32)
    ((float *)data)[at] = (float)value;
  else
    ((uint16_t *)data)[at] = dtype == ATTNPRESS_FP16 ? ap_fp16_from_float((float)value)
                                                     : ap_bf16_from_float((float)value);
}

/** What each part weighs in the row; the lse of all. */
static double weigh(const ap_merge_problem *p, int64_t batch, int64_t row, int64_t head,
                    double *weight) {
  const double base = p->lse_log2 ? log(2.0) : 1.0;
  double maximum = -INFINITY, sum = 0.0;
  for (int32_t i = 0; i < p->num_parts; ++i) {
    const int64_t *stride = p->part[i].lse_stride;
    weight[i] =
        (double)p->part[i].lse[batch * stride[0] + head * stride[1] + row * stride[2]] * base;
    if (!isinf(weight[i]))
      maximum = fmax(maximum, weight[i]);
  }
  for (int32_t i = 0; i < p->num_parts; ++i) {
    weight[i] = isinf(weight[i]) ? 0.0 : exp(weight[i] - maximum);
    sum += weight[i];
  }
  for (int32_t i = 0; i < p->num_parts; ++i)
    weight[i] = weight[i] == 0.0 ? 0.0 : weight[i] / sum;
  return sum == 0.0 ? -INFINITY : (maximum + log(sum)) / base;
}

/** An element is read before it is written: out may lie over a part. */
static void merge_row(const void *job, void *scratch, int64_t task) {
  const ap_merge_problem *p = job;
  const int64_t head = task % p->heads, row = task / p->heads % p->seqlen,
                batch = task / p->heads / p->seqlen;
  double weight[AP_MERGE_PARTS_MAX];
  int64_t offset[AP_MERGE_PARTS_MAX];
  const double lse = weigh(p, batch, row, head, weight);
  (void)scratch;
  for (int32_t i = 0; i < p->num_parts; ++i) {
    const int64_t *stride = p->part[i].out.stride;
    offset[i] = batch * stride[0] + row * stride[1] + head * stride[2];
  }
  const int64_t to = batch * p->out.stride[0] + row * p->out.stride[1] + head * p->out.stride[2];
  for (int64_t column = 0; column < p->head_dim; ++column) {
    double sum = 0.0;
    for (int32_t i = 0; i < p->num_parts; ++i)
      if (weight[i] != 0.0)
        sum += weight[i] * load(p->part[i].out.data, offset[i] + column, p->dtype);
    store(p->out.data, to + column, p->out_dtype, sum);
  }
  if (p->lse != NULL)
    p->lse[batch * p->lse_stride[0] + head * p->lse_stride[1] + row * p->lse_stride[2]] =
        (float)lse;
}

attnpress_status ap_merge_cpu(const ap_merge_problem *p, int32_t num_threads) {
  const ap_cpu_job job = {.run = merge_row,
                          .job = p,
                          .num_tasks = ap_merge_rows(p),
                          .operations = 4.0 * (double)ap_merge_rows(p) * (double)p->head_dim *
                                        (double)p->num_parts};
  return job.num_tasks == 0 ? ATTNPRESS_OK : ap_cpu_run(&job, num_threads);
}
