/* The CPU backend: a task is a row, in double. */
#include "merge/merge.h"

#include <math.h>

#include "cpu/element.h"
#include "cpu/threads.h"

/** Adds weight times a row to `sum`. */
static void add_row(double weight, const void *row, int32_t dtype, int64_t columns, double *sum) {
  const uint16_t *bits = row;
  if (dtype == ATTNPRESS_FP32)
    for (int64_t i = 0; i < columns; ++i)
      sum[i] += weight * (double)((const float *)row)[i];
  else if (dtype == ATTNPRESS_BF16)
    for (int64_t i = 0; i < columns; ++i)
      sum[i] += weight * (double)ap_float_from_bf16(bits[i]);
  else
    for (int64_t i = 0; i < columns; ++i)
      sum[i] += weight * (double)ap_float_from_fp16(bits[i]);
}

static void store_row(const double *sum, int32_t dtype, int64_t columns, void *row) {
  uint16_t *bits = row;
  if (dtype == ATTNPRESS_FP32)
    for (int64_t i = 0; i < columns; ++i)
      ((float *)row)[i] = (float)sum[i];
  else if (dtype == ATTNPRESS_BF16)
    for (int64_t i = 0; i < columns; ++i)
      bits[i] = ap_bf16_from_float((float)sum[i]);
  else
    for (int64_t i = 0; i < columns; ++i)
      bits[i] = ap_fp16_from_float((float)sum[i]);
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

/** A row of each part is read before one is written: out may lie over a part. */
static void merge_row(const void *job, void *scratch, int64_t task) {
  const ap_merge_problem *p = job;
  const int64_t head = task % p->heads, row = task / p->heads % p->seqlen,
                batch = task / p->heads / p->seqlen;
  double weight[ATTNPRESS_MERGE_PARTS_MAX], *sum = scratch;
  const double lse = weigh(p, batch, row, head, weight);
  for (int64_t column = 0; column < p->head_dim; ++column)
    sum[column] = 0.0;
  for (int32_t i = 0; i < p->num_parts; ++i) {
    const attnpress_tensor *out = &p->part[i].out;
    const int64_t from = batch * out->stride[0] + row * out->stride[1] + head * out->stride[2];
    if (weight[i] != 0.0)
      add_row(weight[i], (const char *)out->data + from * ap_element_bytes(p->dtype), p->dtype,
              p->head_dim, sum);
  }
  const int64_t to = batch * p->out.stride[0] + row * p->out.stride[1] + head * p->out.stride[2];
  store_row(sum, p->out_dtype, p->head_dim,
            (char *)p->out.data + to * ap_element_bytes(p->out_dtype));
  if (p->lse != NULL)
    p->lse[batch * p->lse_stride[0] + head * p->lse_stride[1] + row * p->lse_stride[2]] =
        (float)lse;
}

attnpress_status ap_merge_cpu(const ap_merge_problem *p, int32_t num_threads) {
  const ap_cpu_job job = {.run = merge_row,
                          .job = p,
                          .num_tasks = ap_merge_rows(p),
                          .scratch_bytes = (size_t)p->head_dim * sizeof(double),
                          .operations = 4.0 * (double)ap_merge_rows(p) * (double)p->head_dim *
                                        (double)p->num_parts};
  return job.num_tasks == 0 ? ATTNPRESS_OK : ap_cpu_run(&job, num_threads);
}
